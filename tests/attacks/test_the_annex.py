"""What an officer is given holds nobody's value, and texts of a file stay texts."""

import json
import zipfile
from io import BytesIO

from report.officer_plans import NOW, TABLES, run_folder, written_plan
from veilsum.consortium.consortium import consortium_from
from veilsum.files.consortiums import write_consortium
from veilsum.report import officer

MARK, WORD = "7351.28125", "marked-of-ann"


def test_no_value_of_anybody_is_in_any_form(tmp_path):
    """Marks in everything beside the plan: tables, keys, results, sums, ledgers."""
    targets = [[float(MARK), 2.0]] * 4
    plan = written_plan(
        tmp_path,
        cost={"kind": "squared-distance", "targets": targets},
        masks={"law": "lattice", "sigma": 1e6, "grid": 24, "largest": 1e5},
    )
    (tmp_path / "table.csv").write_text(f"x\n{MARK}\n")
    out = run_folder(tmp_path / "run", "b")
    for name in ("result.json", "sums.json", "a.ledger", "consent.txt", "audit.json"):
        (out / name).write_text(f'{{"{WORD}": {MARK}}}')
    (out / "a.key").write_text(WORD)
    for path in (plan, out):
        for form in officer.FORMATS:
            if form == "crate" and path is plan:
                continue
            made = officer.officer_document(path, format=form, language="de", now=NOW)
            for content in unpacked(made):
                assert MARK.encode() not in content
                assert WORD.encode() not in content
    # The twin: what is looked for is found where it is.
    assert MARK.encode() in plan.read_bytes()
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner", MARK)
    assert any(MARK.encode() in one for one in unpacked(buffer.getvalue()))


def unpacked(content):
    yield content
    if content.startswith(b"PK"):
        with zipfile.ZipFile(BytesIO(content)) as archive:
            for name in archive.namelist():
                yield from unpacked(archive.read(name))


HOSTILE = "<script>alert(1)</script> {n} %s \"'"


def test_texts_of_a_file_stay_texts_in_every_form(tmp_path):
    given = json.loads(json.dumps(TABLES["cell"]))
    columns = given["schema"]["columns"]
    columns["<i>bob&co{n}"] = columns.pop("x")
    given |= {"title": HOSTILE, "statistics": {"columns": ["<i>bob&co{n}"]}}
    path = tmp_path / "hostile.toml"
    write_consortium(path, consortium_from(given))
    for form in ("html", "edpb", "pia"):
        made = officer.officer_document(
            path, format=form, language="en", now=NOW
        ).decode()
        # A name in JSON is text; what the tool shows as HTML is in paragraphs.
        made = made.replace('"name": "<script>alert(1)</script>', "")
        for odd in ("<script>", "<i>", "</script"):
            assert odd not in made
        assert "bob&amp;co{n}" in made
    text = officer.officer_document(path, format="docx", language="de", now=NOW)
    with zipfile.ZipFile(BytesIO(text)) as archive:
        inside = archive.read("word/document.xml").decode()
    assert "&lt;script&gt;" in inside
    assert "<script>" not in inside
