"""The guest's page without a page: its modules in Node, read and opened by Python."""

import base64
import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

import refusals
from cases import each
from guest_scene import asked, code_of, large
from surveys import MEMBERS, delegate_key
from veilsum.surveys.submission import open_sealed_share, read_submission
from veilsum.surveys.terms import guest_table_of
from veilsum.web.guest_page import (
    PACKAGE,
    SERVED,
    guest_page_as_single_file,
    page_survey,
    served_page,
)

HERE = Path(__file__).parent
WEB = Path(str(PACKAGE))
NODE = shutil.which("node")
KEPT = json.loads((HERE.parent / "survey" / "vectors.json").read_text())
TERMS = asked()
SURVEY = json.loads(page_survey(TERMS))
# A right page is called wrong once in a thousand million tests.
FALSE_ALARM = 1e-9


def called(*calls, folder=WEB):
    """Answers of the page's functions; what is refused has the sentence's name."""
    if NODE is None:
        pytest.skip("there is no Node on this machine to run the page's modules with")
    done = subprocess.run(
        [NODE, str(HERE / "guest_calls.mjs"), str(folder)],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [
        one["answer"] if "answer" in one else one["refusal"] or one["message"]
        for one in json.loads(done.stdout)
    ]


# Numbers

CASES = [
    # typed, whole numbers of 0.01 or the name of the refusal
    ("", None),
    ("  ", None),
    ("0", "0"),
    ("-0", "0"),
    ("7", "700"),
    ("+7", "700"),
    ("12.5", "1250"),
    ("12,5", "1250"),
    (".5", "50"),
    ("0,125", "number_multiple"),
    ("0.10000", "10"),
    ("1 234", "123400"),
    ("1\u00a0234,56", "123456"),
    ("1\u202f234.56", "123456"),
    ("1\u2009234", "123400"),
    ("1'234.50", "123450"),
    ("1\u2019234,50", "123450"),
    ("1.234,56", "123456"),
    ("1,234.56", "123456"),
    ("123.456,7", "12345670"),
    ("1.234.567", "number_high"),
    ("1,000,000", "100000000"),
    ("1000000.01", "number_high"),
    ("1.234", "number_two"),
    ("1,234", "number_two"),
    ("-1,234", "number_two"),
    ("1234.567", "number_multiple"),
    ("0.250", "25"),
    ("-3", "-300"),
    ("\u22123", "-300"),
    ("\u2013 3", "-300"),
    ("3-", "-300"),
    ("3,5-", "-350"),
    ("-3-", "number_not"),
    ("--3", "number_not"),
    ("-5.01", "number_low"),
    ("(3)", "number_brackets"),
    ("-", "number_dash"),
    ("\u2014", "number_dash"),
    ("5 %", "number_percent"),
    ("5‰", "number_percent"),
    ("1e3", "number_exponent"),
    ("1,5E+03", "number_exponent"),
    ("0x10", "number_not"),
    ("Infinity", "number_not"),
    ("NaN", "number_not"),
    ("€ 5", "number_not"),
    ("5,-", "number_not"),
    ("5.", "number_not"),
    ("12 34", "number_grouped"),
    ("1.23.456", "number_grouped"),
    ("1,234,5", "number_grouped"),
    ("1 234,567.8", "number_grouped"),
    ("01.234", "number_multiple"),
    ("٣", "number_not"),
    ("9" * 41, "number_long"),
    ("0." + "0" * 37 + "1", "number_multiple"),
]


def test_numbers_are_read_as_people_write_them():
    """What is read is exact; what has two readings, or none, is refused by name."""
    found = called(*(["cell", typed, SURVEY, "ask"] for typed, _ in CASES))
    assert dict(zip([typed for typed, _ in CASES], found, strict=True)) == dict(CASES)


def test_a_chosen_decimal_sign_leaves_one_reading():
    typed = ["1.234", "1,234", "1.234,5", "1,234.5", "12.5", "12,5", "1 234"]
    comma = called(*(["cell", one, SURVEY, ","] for one in typed))
    point = called(*(["cell", one, SURVEY, "."] for one in typed))
    sign, no, whole = "number_sign", "number_multiple", "123400"
    assert comma == [whole, no, "123450", sign, sign, "1250", whole]
    assert point == [no, whole, sign, "123450", "1250", sign, whole]


def test_no_number_goes_through_a_float():
    """Beyond 2^53, and units that no float has, against exact fractions."""
    generator = np.random.default_rng(23)
    cases = []
    for unit in ("1e-2", "1", "0.001", "125e-3", "5", "1e-7", "3"):
        for _ in range(8):
            units = int(generator.integers(-(2**61), 2**61))
            value = Fraction(unit) * units
            places = 9
            digits = f"{abs(value.numerator) * 10**places // value.denominator:010d}"
            text = f"{'-' * (value < 0)}{digits[:-places]}.{digits[-places:]}"
            survey = {"unit": unit, "low": "-1e30", "high": "1e30"}
            cases.append((["cell", text, survey, "."], str(units)))
    assert called(*(call for call, _ in cases)) == [units for _, units in cases]


def test_numbers_are_shown_with_one_meaning():
    numbers = ("-123456789", "5", "100")
    calls = [["shown", one, 2, to] for one in numbers for to in ("en", "de")]
    minus = "\u22121\u202f234\u202f567"
    assert called(*calls) == [f"{minus}.89", f"{minus},89", "0.05", "0,05", "1", "1"]


# Tables

TABLE = [["1", "2"], ["3", "4"]]
NAMED = "\twomen\tmen\nmanagers\t1\t2\nclerks\t3\t4"


def test_tables_are_found_in_text():
    texts = [
        "1;2\n3;4\n",
        "1,2\r\n3,4\r\n",
        "1\t2\n3\t4",
        '"1";"2"\n"3";"4"',
        "women;men\n1;2\n3;4",
        "managers;1;2\nclerks;3;4",
        NAMED,
        NAMED.replace("\t", ";"),
        NAMED.replace("\t", ","),
        "\tmen\twomen\nCLERKS\t4\t3\n managers \t2\t1\n",
        "\n\n;1;2;\n;3;4;\n;;;\n",
    ]
    found = called(*(["text", text, SURVEY] for text in texts))
    assert found == [TABLE] * len(texts)


def test_cells_may_hold_separators_and_stay_empty():
    texts = ['"1,5";"2 ""x"""\n;4', "1,5;\n;-2,25", "\t\n\t5", "women;men\n1;2\n;\n;"]
    assert called(*(["text", text, SURVEY] for text in texts)) == [
        [["1,5", '2 "x"'], ["", "4"]],
        [["1,5", ""], ["", "-2,25"]],
        [["", ""], ["", "5"]],
        [["1", "2"], ["", ""]],
    ]


def test_other_tables_are_refused():
    cases = {
        "1;2;3\n4;5;6": "grid_shape",
        "1;2\n3;4\n5;6": "grid_shape",
        "1": "grid_shape",
        "": "grid_shape",
        "women;men\n1;2": "grid_shape",
        "\n\n1;2": "grid_shape",
        ";1;\n;2;": "grid_shape",
        NAMED.replace("clerks", "cooks"): "grid_names",
        NAMED.replace("women", "girls"): "grid_names",
        NAMED.replace("women", "men"): "grid_names",
        "\t" * 200_000: "grid_shape",
        "\n" * 200_000: "grid_shape",
    }
    found = called(*(["text", text, SURVEY] for text in cases))
    assert found == list(cases.values())


def test_one_column_may_have_decimal_commas():
    """Split at commas it has another shape, so there is one reading."""
    survey = {**SURVEY, "columns": ["all"]}
    assert called(["text", "1,5\n2,5", survey], ["text", "7\n8", survey]) == [
        [["1,5"], ["2,5"]],
        [["7"], ["8"]],
    ]


def file(content, sign="ask"):
    return ["file", base64.b64encode(content).decode(), SURVEY, sign]


def test_files_of_all_kinds():
    """Byte-order marks, old encodings; what is no table is refused by what it is."""
    umlaut = {**SURVEY, "rows": ["Führung", "Büro"]}
    text = "Führung;1;2\nBüro;3;4"
    old = base64.b64encode(text.encode("cp1252")).decode()
    assert called(
        file(NAMED.encode("utf-8-sig")),
        file(NAMED.encode("utf-16")),
        ["file", old, umlaut],
        file(b"\xd0\xcf\x11\xe0" + bytes(600)),
        file(b"\x89PNG\r\n\x1a\n" + bytes(50)),
        file(gzip.compress(b"1;2\n3;4")),
        ["huge", 1_000_001, SURVEY],
        ["huge", 5_000_000_000, SURVEY],
    ) == [
        TABLE,
        TABLE,
        TABLE,
        "file_old",
        "file_binary",
        "file_binary",
        ["file_large", False],
        ["file_large", False],
    ]


def sheet(rows, styles="", strings="", sheets=1, kind=zipfile.ZIP_DEFLATED):
    """An XLSX file in which cells are given as XML."""
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    one = '<sheet name="one" sheetId="1"/>'
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as archive:
        for name, text in {
            "workbook": f"<workbook {space}><sheets>{one * sheets}</sheets></workbook>",
            "sharedStrings": f"<sst {space}>{strings}</sst>",
            "styles": f"<styleSheet {space}>{styles}</styleSheet>",
            "worksheets/sheet1": f'<?xml version="1.0"?><worksheet {space}><sheetData>'
            f"{rows}</sheetData></worksheet>",
        }.items():
            archive.writestr(f"xl/{name}.xml", text)
    return made.getvalue()


def number_row(number, *values):
    cells = "".join(
        f'<c r="{"BCD"[at]}{number}"><v>{value}</v></c>'
        for at, value in enumerate(values)
    )
    return f'<row r="{number}">{cells}</row>'


def test_spreadsheets_are_read_as_people_see_them():
    """Doubles with at most 15 digits, wherever in the sheet; with names or without."""
    long = number_row(4, "1234.5599999999999", "0.30000000000000004")
    plain = sheet(long + number_row(5, "1.234", "-5E-2"))
    named = sheet(
        '<row><c/><c t="s"><v>1</v></c><c t="s"><v>0</v></c></row>'
        '<row><c t="inlineStr"><is><t>clerks</t></is></c>'
        "<c><v>4</v></c><c><v>3</v></c></row>"
        '<row><c t="str"><v>managers</v></c>'
        "<c><f>1+1</f><v>2</v></c><c><v>1</v></c></row>",
        strings="<si><r><t>wo</t></r><r><t>men</t></r></si><si><t>men</t></si>",
    )
    both = [["1234.56", "0.3"], ["1.2340", "-0.05"]]
    comma = [[text.replace(".", ",") for text in row] for row in both]
    assert called(
        file(plain), file(plain, ","), file(named), file(sheet(long, kind=0))
    ) == [both, comma, TABLE, "grid_shape"]


def test_percentages_and_dates_in_spreadsheets_are_no_numbers():
    styles = (
        '<numFmts><numFmt numFmtId="164" formatCode="0.0%"/>'
        '<numFmt numFmtId="165" formatCode="dd/mm/yyyy"/></numFmts>'
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="164"/><xf numFmtId="165"/></cellXfs>'
    )
    rows = (
        '<row><c s="0"><v>1</v></c><c s="1"><v>0.5</v></c></row>'
        '<row><c s="2"><v>45000</v></c><c t="b"><v>TRUE</v></c></row>'
    )
    (table,) = called(file(sheet(rows, styles)))
    assert table == [["1", "50 %"], ["#date 45000", "TRUE"]]
    cells = [["cell", text, SURVEY, "ask"] for text in (table[0][1], *table[1])]
    assert called(*cells) == ["number_percent", "number_not", "number_not"]


def test_odd_spreadsheets_are_refused():
    good = sheet(number_row(1, 1, 2) + number_row(2, 3, 4))
    bomb = sheet("<row>" + " " * 17_000_000 + "</row>")
    assert len(bomb) < 100_000
    evil = number_row(1, 1, 2).replace("<row", '<!DOCTYPE x [<!ENTITY a "b">]><row')
    assert called(
        file(good),
        file(sheet(number_row(1, 1, 2), sheets=3)),
        file(bomb),
        file(sheet(evil)),
        file(good[:-30]),
        file(good[:200] + bytes(100) + good[300:]),
        file(good.replace(b"PK\x01\x02", b"PK\x01\x03")),
        file(sheet("")),
    ) == [TABLE, "file_sheets", "file_large", *["file_broken"] * 5]


# Codes and sealing


def test_codes_as_people_type_them():
    secret = KEPT["secret"]
    assert called(*(["code", typed] for typed in KEPT["typed"])) == [secret] * 6
    refused = called(*(["code", typed] for typed in KEPT["not_codes"]))
    assert refused == [
        *("code_length", "code_length", "code_letter"),
        *("code_typo", "code_typo", "code_typo", "code_empty"),
    ]


def test_what_has_one_value_is_what_python_makes():
    units = [
        None if cell is None else str(int(Fraction(str(cell)) * 100))
        for row in KEPT["cells"]
        for cell in row
    ]
    (found,) = called(["vectors", KEPT, units])
    shares = [one["share"] for one in KEPT["delegates"]]
    names = ("secret", "guest", "filled", "words", "masked", "statement", "signature")
    assert found == {**{name: KEPT[name] for name in names}, "opened": shares}


def opened(terms, text):
    """The submission in a text, its shares by delegate, and the table's words."""
    found = read_submission(text, terms)
    shares = [
        open_sealed_share(terms, found, name, delegate_key(name)) for name in MEMBERS
    ]
    return found, shares, found.words + sum(shares)


def visits(*given, terms=TERMS, folder=WEB):
    survey = json.loads(page_survey(terms))
    made = called(
        *(
            ["visit", survey, code_of(name), texts, number]
            for name, texts, number in given
        ),
        folder=folder,
    )
    assert all(isinstance(one, dict) for one in made), made
    return made


def test_python_reads_and_opens_what_the_page_sends():
    """Totals of several guests agree exactly, empty cells and negative numbers too."""
    tables = {
        "Firm 1": ["1.234,56", "", "\u22125", "1 000 000"],
        "Firm 2": ["0,01", "-4.99", "", ""],
        "Firm 9": ["", "", "", ""],
    }
    units = [
        [123456, None, -500, 100000000],
        [1, -499, None, None],
        [None, None, None, None],
    ]
    made = visits(*((name, texts, 1) for name, texts in tables.items()))
    for one, name, wanted in zip(made, tables, units, strict=True):
        found, _, words = opened(TERMS, one["text"])
        assert (found.guest, found.number) == (name, 1)
        assert found.to_json() == one["text"]
        assert found.digest(TERMS.names) == one["digest"]
        bits = "".join(str(int(each is not None)) for each in wanted)
        assert found.filled == bytes([int(bits, 2) << 4])
        assert words.astype(np.int64).tolist() == [each or 0 for each in wanted]


def test_a_strange_code_visits_nobody():
    code = code_of("somebody else")
    assert called(["visit", SURVEY, code, ["", "", "", ""], 1]) == ["code_unknown"]


def page_faults(folder):
    """What is wrong with the masks of a page, found from what it sends.

    Two visits with the same numbers, one a correction of the other. Every delegate's
    share and the masked vector have to look uniform, by their bytes and from visit to
    visit, and every byte of a share has to come from the system's generator.
    """
    terms = large(600)
    texts = ["1"] * terms.n_cells
    survey = json.loads(page_survey(terms))
    code = code_of("Firm 1")
    answers = called(
        *(["visit", survey, code, texts, number] for number in (1, 2)), folder=folder
    )
    faults = {str(one) for one in answers if not isinstance(one, dict)}
    if faults:
        return faults
    size = 8 * terms.n_cells
    pieces = []
    for one in answers:
        found, shares, words = opened(terms, one["text"])
        if one["drawn"] < size * len(shares):
            faults.add("shares were not drawn")
        if words.tolist() != [100] * terms.n_cells:
            faults.add("wrong sum")
        pieces.append([found.words, *shares])
    bound = chi2.isf(FALSE_ALARM / 32, 255)
    # Hoeffding's bound on how far a bit may be from half of all words.
    apart = np.sqrt(terms.n_cells / 2 * np.log(2 * 64 * 32 / FALSE_ALARM))
    flat = [piece for visit in pieces for piece in visit]
    # Differences find a vector that is another one, or is in two visits.
    flat += [first - second for first, second in zip(*pieces, strict=True)]
    flat += [one - other for one, other in zip(pieces[0][1:], pieces[0][2:])]  # noqa: B905
    for piece in flat:
        counts = np.bincount(piece.view(np.uint8), minlength=256)
        if ((counts - size / 256) ** 2).sum() * 256 / size > bound:
            faults.add("not uniform")
        bits = np.unpackbits(piece.view(np.uint8)).reshape(-1, 64).sum(axis=0)
        if abs(bits - terms.n_cells / 2).max() > apart:
            faults.add("not uniform")
    return faults


TWINS = {
    "Math.random": (
        "crypto.getRandomValues(bytes.subarray(at, at + MOST_AT_ONCE));",
        "bytes.subarray(at, at + MOST_AT_ONCE).forEach((_, k, all) => "
        "{ all[k] = 256 * Math.random(); });",
        {"Math.random was asked"},
    ),
    "a generator of its own": (
        "crypto.getRandomValues(bytes.subarray(at, at + MOST_AT_ONCE));",
        "let s = 7; bytes.subarray(at, at + MOST_AT_ONCE).forEach((_, k, all) => "
        "{ s = (s * 48271) % 2147483647; all[k] = s >> 8; });",
        {"shares were not drawn", "not uniform"},
    ),
    "one delegate only": (
        "survey.delegates.map(() => uniformWords(words.length));",
        "survey.delegates.map((_, at) => at ? new BigUint64Array(words.length) "
        ": uniformWords(words.length));",
        {"shares were not drawn", "not uniform"},
    ),
    "one share for all": (
        "survey.delegates.map(() => uniformWords(words.length));",
        "Array(3).fill(uniformWords(words.length));",
        {"shares were not drawn", "not uniform"},
    ),
    "shares kept for the correction": (
        "survey.delegates.map(() => uniformWords(words.length));",
        "(globalThis.kept ??= survey.delegates.map(() => uniformWords(words.length)));",
        {"shares were not drawn", "not uniform"},
    ),
    "low words only": (
        "return new BigUint64Array(bytes.buffer);",
        "return new BigUint64Array(bytes.buffer).map((word) => word >> 1n);",
        {"not uniform"},
    ),
    "not masked at all": (
        "masked[at] -= share[at];",
        "masked[at] -= 0n;",
        {"wrong sum", "not uniform"},
    ),
}


QUICK = ("Math.random", "one delegate only")


def test_the_masks_are_uniform_and_new():
    assert page_faults(WEB) == set()


@pytest.mark.parametrize(
    "name",
    [
        one if one in QUICK else pytest.param(one, marks=pytest.mark.slow)
        for one in TWINS
    ],
)
def test_planted_defects_are_found(name, tmp_path):
    right, wrong, faults = TWINS[name]
    shutil.copytree(WEB, tmp_path / "web")
    place = tmp_path / "web" / "static" / "sealing.js"
    text = place.read_text()
    assert text.count(right) == 1
    place.write_text(text.replace(right, wrong))
    assert page_faults(tmp_path / "web") == faults


@each("cells", [4, 1000, 10_000])
def test_bytes_of_a_submission(cells):
    """k + 1 vectors of one word a cell; said to the guest before it sends."""
    terms = TERMS if cells == 4 else large(cells)
    (made,) = visits(("Firm 1", ["1"] * terms.n_cells, 1), terms=terms)
    (said,) = called(["size", cells, 3])
    assert len(made["text"]) == pytest.approx(said, abs=100)
    vectors = 4 * 8 * cells * 4 / 3
    assert len(made["text"]) == pytest.approx(vectors + cells / 4, abs=700)


@each("cells", [1, 7, 8, 9, 16, 17, 50])
def test_bits_of_filled_cells_are_what_python_reads(cells):
    """Every third cell is filled; what is beyond the last one is 0."""
    terms = asked(rows=[str(k) for k in range(cells)], columns=["all"])
    table = [["5"] if k % 3 == 0 else [""] for k in range(cells)]
    (made,) = visits(("Firm 1", [one for (one,) in table], 1), terms=terms)
    found = read_submission(made["text"], terms)
    wanted = guest_table_of(terms, [[5] if one == ["5"] else [None] for one in table])
    assert found.filled == wanted.filled


# Words, and files of others


def test_both_languages_say_the_same_things():
    english, german = called(["sentences", "en"], ["sentences", "de"])
    assert set(english) == set(german)
    for name, sentence in english.items():
        gaps = [set(re.findall(r"\{\w+\}", one)) for one in (sentence, german[name])]
        assert gaps[0] == gaps[1], name
        assert sentence != german[name] or name == "at_cell"


def test_every_sentence_is_said_and_every_word_known():
    (english,) = called(["sentences", "en"])
    texts = {
        name: (WEB / "static" / name).read_text()
        for name in ("guest.html", "guest.js", "reading.js", "sealing.js")
    }
    whole = "\n".join(texts.values())
    unsaid = [
        name for name in english if not re.search(rf"""["'`>]{name}["'`<]""", whole)
    ]
    assert unsaid == []
    used = re.findall(r'data-word="(\w+)"', texts["guest.html"])
    used += re.findall(r'(?:said|Refusal|busy|away)\("(\w+)"', whole)
    assert set(used) <= set(english)


def test_the_language_is_the_first_that_is_known():
    asked_for = [["de-AT", "en"], ["fr", "en-GB", "de"], ["fr"], []]
    found = called(*(["preferred", one] for one in asked_for))
    assert found == ["de", "en", "en", "en"]


@pytest.mark.parametrize("folder", [WEB / "vendor", HERE / "vendor"])
def test_files_of_others_are_as_they_were(folder):
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        content = (folder / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest, name
        assert name in (folder / "README.md").read_text()


def test_scripts_ask_for_nothing_else():
    """No address, no text that is run, no chance but the system's, no clock."""
    for name in SERVED:
        text = (WEB / name).read_text()
        own = "\n".join(line.split("//")[0] for line in text.splitlines())
        assert not re.search(r"\beval\(|new Function|Math\.random|innerHTML", own), name
        assert "Date.now" not in own
        assert ("fetch(" in own) == (name == "static/guest.js")
        assert ("localStorage" in own) is False
    page = served_page("{}")
    assert not re.search(r"https?:|style=|\son\w+=", page)


# One file


def test_a_survey_cannot_break_out_of_its_page():
    evil = asked(rows=['</script><script src="//x">', "<!--<script>"])
    for page in (
        served_page(page_survey(evil)),
        guest_page_as_single_file(page_survey(evil), "https://a.example/submissions"),
    ):
        assert page.count("</script>") == 2
        assert "<!--" not in page
        told = re.search(r'id="survey"[^>]*>(.*?)</script>', page, re.DOTALL)
        assert json.loads(told[1])["rows"] == list(evil.rows)


@each(
    "address",
    [
        "submissions",
        "//a.example/submissions",
        "ftp://a.example/submissions",
        "https://a.example",
        "https://a.example/x; script-src *",
        "https://a.example/x' 'unsafe-inline",
        'https://a.example/"><script>',
        "https://user:word@a.example/submissions",
        "javascript:alert(1)",
    ],
)
def test_a_file_posts_to_a_whole_address_only(address):
    with refusals.refused("address-not-whole"):
        guest_page_as_single_file(page_survey(TERMS), address)


def test_a_unit_that_nobody_can_type_is_refused():
    with refusals.refused("unit-not-decimal"):
        page_survey(asked(unit="1/3", range=[0, 9]))
    assert json.loads(page_survey(asked(unit="1/8")))["unit"] == "125e-3"
    assert json.loads(page_survey(asked(unit=1)))["unit"] == "1e-0"


def test_the_same_survey_is_the_same_file():
    """Its hash is in every invitation."""
    address = "https://a.example/submissions"
    first = guest_page_as_single_file(page_survey(TERMS), address)
    assert first == guest_page_as_single_file(page_survey(TERMS), address)
    assert first != guest_page_as_single_file(
        page_survey(asked(title="Another")), address
    )
    assert not re.search(r'\ssrc="|rel="stylesheet"|@import|url\(', first)
