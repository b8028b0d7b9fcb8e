"""Forms for others' tools: fields and files are those that these tools read."""

import csv
import hashlib
import io
import json
import re
import zipfile
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from later import Later
from report.officer_plans import NOW, run_folder, written, written_study
from veilsum.locale import catalogue_languages
from veilsum.report import forms, officer
from veilsum.report.plan_facts import plan_facts_of

docx = Later("docx")
rocrate = Later("rocrate.rocrate")

# The questions of CNIL's tool (LINCnil/pia 4.1.0, pia_architecture.json) by how they
# are answered.
PIA_QUESTIONS = {
    **dict.fromkeys((111, 112, 113, 121, 122, 123), "text"),
    **dict.fromkeys(range(211, 216), "text"),
    **dict.fromkeys(range(221, 228), "text"),
    **{base + k: "list" for base in (320, 330, 340) for k in range(1, 5)},
    **{base + k: "gauge" for base in (320, 330, 340) for k in (5, 6)},
}
# What its importer takes over of each thing (importData, importAnswers,
# importMeasures).
PIA_FIELDS = {
    *("name", "category", "dpo_status", "dpo_opinion", "concerned_people_opinion"),
    *("concerned_people_status", "concerned_people_searched_opinion"),
    *("concerned_people_searched_content", "rejection_reason", "applied_adjustments"),
    *("created_at", "updated_at", "dpos_names", "people_names", "author_name"),
    *("evaluator_name", "validator_name", "status"),
}
# What no plan says: legal basis, accuracy, information, consent, access, objection,
# processors, transfers, standards.
NOT_IN_A_PLAN = {113, 211, 212, 214, 221, 222, 223, 225, 226, 227}
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture(scope="module", name="ran")
def ran_fixture(folder):
    return run_folder(folder / "ran", "b")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = set()

    def handle_starttag(self, tag, attrs):
        self.tags |= {tag, *(name for name, _ in attrs)}


@pytest.mark.parametrize("language", catalogue_languages())
@pytest.mark.parametrize("name", ["site", "cell", "losing", "cost", "letters"])
def test_cnil_s_tool_would_take_it(name, language, folder):
    made = officer.officer_document(
        written(name, folder), format="pia", language=language, now=NOW
    )
    found = json.loads(made)
    assert set(found) == {"pia", "answers", "measures", "evaluations", "comments"}
    assert set(found["pia"]) >= PIA_FIELDS
    assert found["pia"]["status"] == 0  # being worked on
    # People's opinions and decisions are theirs.
    assert {found["pia"][one] for one in ("dpo_status", "dpo_opinion")} == {None}
    assert found["evaluations"] == found["comments"] == []
    numbers = [one["reference_to"] for one in found["answers"]]
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) | NOT_IN_A_PLAN == set(PIA_QUESTIONS) | (
        NOT_IN_A_PLAN & set(numbers)
    )
    assert not set(numbers) & NOT_IN_A_PLAN
    for one in found["answers"]:
        kind, data = PIA_QUESTIONS[one["reference_to"]], one["data"]
        assert set(data) == {"text", "gauge", "list"}
        assert (data["gauge"] in {1, 2, 3, 4}) == (kind == "gauge")
        assert bool(data["list"]) == (kind == "list")
        assert bool(data["text"]) == (kind in {"text", "gauge"})
        tags = Tags()
        tags.feed(data["text"] or "")
        assert tags.tags <= {"p", "bdi"}
    titles = [one["title"] for one in found["measures"]]
    assert len(titles) == 5
    for one in (*found["answers"], *found["measures"], found["pia"]):
        assert ISO.fullmatch(one["created_at"])
    # Measures that a risk names are those of the list.
    for base in forms.PIA_RISKS.values():
        (named,) = [a for a in found["answers"] if a["reference_to"] == base + 4]
        assert named["data"]["list"] == titles


def test_levels_in_the_form_are_those_of_the_annex(folder):
    found = {
        name: {
            one["reference_to"]: one["data"]["gauge"]
            for one in json.loads(
                officer.officer_document(
                    written(name, folder), format="pia", language="en", now=NOW
                )
            )["answers"]
        }
        for name in ("model", "site")
    }
    # Severity, then likelihood, of who should not know it: site terms are certain.
    assert (found["model"][325], found["model"][326]) == (3, 2)
    assert (found["site"][325], found["site"][326]) == (3, 4)


# Evidence of checks


ACRO_FIELDS = {
    *("uid", "status", "type", "properties", "files", "outcome", "command"),
    *("summary", "timestamp", "comments", "exception", "fair"),
}


def archive_of(path, language="en"):
    made = officer.officer_document(path, format="acro", language=language, now=NOW)
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize(
    ("name", "status"), [("site", "fail"), ("cell", "review"), ("model", "review")]
)
def test_checks_have_the_fields_that_acro_reads(name, status, folder):
    files = archive_of(written(name, folder))
    found = json.loads(files["results.json"])
    assert set(found) == {"version", "results"}
    assert list(found["results"]) == ["output_0"]
    (one,) = found["results"].values()
    assert set(one) == ACRO_FIELDS
    assert one["status"] == status
    # Its loader wants a file with every output, which is read as a table.
    ((name_of_file,),) = [[each["name"] for each in one["files"]]]
    rows = list(csv.DictReader(io.StringIO(files[name_of_file].decode())))
    facts = plan_facts_of(written(name, folder))
    assert {row["rule"] for row in rows} <= set(facts.rules)
    told = {row["rule"]: row["outcome"] for row in rows}
    assert {rule for rule, said in told.items() if "switched off" in said} == set(
        facts.off
    )
    assert one["outcome"]["rule"] == {str(k): row["rule"] for k, row in enumerate(rows)}
    for file, content in files.items():
        if not file.startswith("checksums/"):
            digest = files[f"checksums/{file}.txt"].decode()
            assert digest == hashlib.sha256(content).hexdigest()


def test_a_check_passes_after_a_run_with_the_usual_rules_only(folder, ran):
    planned = plan_facts_of(written("model", folder))
    ended = plan_facts_of(ran).ended
    over = replace(planned, ended=ended)
    weaker = replace(over, relaxed={"minimum_count": (1, 3)})
    forged = replace(over, ended=replace(ended, failed=("signature",)))
    cost = plan_facts_of(ran)  # nobody's table is checked there
    found = [forms._form_status(one) for one in (planned, over, weaker, forged, cost)]
    assert found == ["review", "pass", "review", "review", "review"]


def test_every_question_of_a_study_is_an_output(folder):
    found = json.loads(archive_of(written_study(folder))["results.json"])
    asked = [one["properties"]["question"] for one in found["results"].values()]
    assert asked == ["ages", "costs"]


# A research object


@pytest.fixture(scope="module", name="bag")
def bag_fixture(ran):
    made = officer.officer_document(ran, format="crate", language="de", now=NOW)
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    tops = {name.partition("/")[0] for name in files}
    assert len(tops) == 1  # the profile wants a single folder
    return {name.partition("/")[2]: content for name, content in files.items()}


def manifest(text):
    pairs = (line.split("  ", 1) for line in text.decode().splitlines())
    return {name: digest for digest, name in pairs}


def test_it_is_a_bag_with_sha_512_of_everything(bag):
    assert bag["bagit.txt"].startswith(b"BagIt-Version: 1.0\n")
    assert re.fullmatch(
        rb"External-Identifier: urn:uuid:[0-9a-f-]{36}\n", bag["bag-info.txt"]
    )
    payload = {name for name in bag if name.startswith("data/")}
    found = manifest(bag["manifest-sha512.txt"])
    assert set(found) == payload
    tags = manifest(bag["tagmanifest-sha512.txt"])
    assert set(tags) == set(bag) - payload - {"tagmanifest-sha512.txt"}
    for name, digest in {**found, **tags}.items():
        assert hashlib.sha512(bag[name]).hexdigest() == digest


def test_it_says_what_the_profile_asks_for(bag, tmp_path):
    for name, content in bag.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    read = rocrate.ROCrate(tmp_path / "data")
    root = read.root_dataset
    assert root["conformsTo"].id == forms.PROFILE
    assert root["mainEntity"].id == "workflow/"
    assert root["mainEntity"]["conformsTo"] == forms.WORKFLOW
    assert root["sourceOrganization"].type == "Project"
    actions = {one.type: one for one in root["mentions"]}
    run = actions["CreateAction"]
    assert run["instrument"].id == "workflow/"
    assert run["actionStatus"] == "http://schema.org/CompletedActionStatus"
    assert run["agent"].type == "Person"  # the profile's word
    assert run["agent"]["name"] == forms.UNKNOWN
    checks = [one for one in root["mentions"] if one.type == "AssessAction"]
    assert [one["actionStatus"].rpartition("/")[2] for one in checks] == [
        "CompletedActionStatus",
        "PotentialActionStatus",
    ]
    for one in root["hasPart"]:
        assert (tmp_path / "data" / one.id).exists()
    inner = rocrate.ROCrate(tmp_path / "data" / "workflow")
    assert inner.root_dataset["mainEntity"].id == "consortium.toml"


def test_no_result_is_in_it_before_somebody_has_looked(bag, ran):
    assert not [name for name in bag if "result" in name or "sums" in name]
    assert bag["data/receipt.json"] == (ran / "receipt.json").read_bytes()
    text = bag["data/ro-crate-metadata.json"].decode()
    assert "the result is not in this crate" in text
    assert '"result"' not in text


# Text documents


@pytest.mark.parametrize("form", ["docx", "edpb-docx"])
def test_a_text_document_says_what_the_page_says(form, folder):
    path = written("site", folder)
    made = officer.officer_document(path, format=form, language="de", now=NOW)
    document = docx.Document(io.BytesIO(made))
    texts = [one.text for one in document.paragraphs]
    texts += [
        one.text
        for table in document.tables
        for row in table.rows
        for cell in row.cells
        for one in cell.paragraphs
    ]
    page = officer.officer_document(
        path,
        format=form.removesuffix("docx").rstrip("-") or "html",
        language="de",
        now=NOW,
    )
    # Commands are set apart on the page.
    shown = re.sub("</?(code|span)>", "", page.decode())
    for text in filter(None, texts):
        if "\u2588" not in text and not text.endswith(":"):
            assert text.replace('"', "&quot;").replace("'", "&#x27;") in shown, text
    assert document.core_properties.author == "veilsum"
    assert document.core_properties.created.replace(tzinfo=NOW.tzinfo) == NOW


def test_the_same_plan_gives_the_same_bytes(folder):
    for form in ("html", "edpb", "pia", "acro"):
        first, second = (
            officer.officer_document(
                written("site", folder), format=form, language="en", now=NOW
            )
            for _ in range(2)
        )
        assert first == second


def test_the_edpb_s_sections_are_there_in_order(folder):
    paper = forms.edpb_paper(plan_facts_of(written("cell", folder)), "en")
    found = [one.heading for one in paper.parts if one.level == 1]
    assert [one.partition(" ")[0] for one in found] == [*"0123456"]
    under = [one.heading.partition(" ")[0] for one in paper.parts if one.level == 2]
    assert under[:11] == [
        *("0.1", "0.2", "0.3", "0.4", "0.5"),
        *("1.1.a", "1.1.b", "1.1.c", "1.1.d", "1.2", "1.3"),
    ]
