"""Attacks on reports: others' text in it, and what of its owner's could get into it.

A report goes to whoever may read the result. Files of a run's folder hold much more:
the table, the key, sums, the ledger, what the run stored, the owner's half of the page
that it agreed to. Markers are planted in all of them, and looked for in the report.
"""

import base64
import json
import re
import secrets
import subprocess

import pytest

from finished import finished, wards
from markup import Tags
from refusals import refused
from veilsum import page as pages
from veilsum.report import printing
from veilsum.report.run_report import report_of_run

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SCRIPT = "</title><script>alert(1)</script><img src=x onerror=alert(2)>"
BAD = {"script", "i", "b", "svg", "iframe", "object", "link"}
LEVELS = ["<b>low</b>", "\u05d2\u05d1\u05d5\u05d4", "<svg onload=alert(3)>"]


ASKED = {
    "statistics": {"statistics": {"by": "<i>kind</i>", "tables": []}},
    "model": {"model": {"formula": "dose ~ age + C(level)"}},
}


@pytest.fixture(scope="module", name="hostile", params=ASKED)
def hostile_fixture(request, tmp_path_factory):
    """A run whose organiser has written scripts wherever a file takes text."""
    folder = tmp_path_factory.mktemp("hostile")
    made = wards(folder, title=SCRIPT, **ASKED[request.param])
    kind = {"kind": "category", "categories": LEVELS}
    made["schema"]["columns"] |= {"<i>kind</i>": kind, "level": kind}
    for name in made["data"]["files"].values():
        first, *lines = (folder / name).read_text().splitlines()
        rows = [f"{line}{f',{LEVELS[k % 3]}' * 2}" for k, line in enumerate(lines)]
        (folder / name).write_text("\n".join([f"{first},<i>kind</i>,level", *rows]))
    return finished(made, folder)


def tags_of(content):
    return {*Tags(content.decode()).tags}


def test_what_an_organiser_writes_is_text(hostile):
    found = report_of_run(hostile.out(), receipts=hostile.receipts())
    assert found.good
    assert not tags_of(found.content) & BAD
    given = Tags(found.content.decode()).attributes
    assert not [one for one in given if one[1].startswith("on")]
    images = [value for tag, name, value in given if (tag, name) == ("img", "src")]
    assert images
    assert all(one.startswith("data:image/svg+xml;base64,") for one in images)
    text = "".join(Tags(found.content.decode()).text)
    for word in (SCRIPT, *LEVELS):
        assert word in text, "it is all there to be read"


def test_twin_without_escaping_the_organiser_runs_what_it_likes(hostile, monkeypatch):
    monkeypatch.setattr(pages, "safe_for_html", lambda text: text)
    assert {"script", "b"} <= tags_of(report_of_run(hostile.out()).content)


def test_what_cannot_be_seen_in_a_file_of_ones_own_is_seen(tmp_path):
    """No consortium file has such letters; a study's status is only a file."""
    questions = [{"name": "who", "statistics": {}}]
    out = finished(wards(tmp_path, question=questions), tmp_path).out()
    status = json.loads((out / "study.json").read_text())
    status["title"] = "dose\u202e\x1b[2J\u200b<u>"
    (out / "study.json").write_text(json.dumps(status))
    content = report_of_run(out).content
    assert "u" not in tags_of(content)
    text = content.decode()
    assert not {"\u202e", "\x1b", "\u200b"} & {*text}
    assert "<h1>dose\\u202e\\x1b[2J\\u200b&lt;u&gt;</h1>" in text


def whole(content):
    """A page and everything that is written in it as base64."""
    held = re.findall(rb"base64,([A-Za-z0-9+/=]+)", content)
    return b"\n".join([content, *map(base64.b64decode, held)])


@pytest.fixture(name="planted")
def planted_fixture(tmp_path):
    """A run in whose owner's files markers are, and the markers by place."""
    ran = finished(wards(tmp_path, model={"formula": "dose ~ age"}), tmp_path)
    home, out = tmp_path / "ann", ran.out()
    marks = {}

    def plant(path, text="{}", **options):
        marks[path.name] = mark = secrets.token_hex(12)
        path.write_text(text.format(mark), **options)

    plant(home / "data.csv", "age,dose\n{},2\n")
    plant(home / "ann.ledger")
    plant(home / "ann-00000000.run")
    plant(home / "ann.transcript")
    plant(home / "log.jsonl")
    plant(home / "relay.token")
    plant(home / "veilsum.toml", 'title = "{}"\n')
    plant(out / "consent.txt")
    plant(out / "evidence-bob.json", '{{"digest": "{}"}}')
    marks["consent.json"] = secrets.token_hex(12)
    part = {"key": "your_data", "heading": "YOUR DATA"}
    own = {"own": [{**part, "lines": [marks["consent.json"]]}]}
    (out / "consent.json").write_text(json.dumps(own))
    result = json.loads((out / "result.json").read_text())
    marks["outputs"] = secrets.token_hex(12)
    kept = {"outputs": {"ann": marks["outputs"]}, "costs": marks["outputs"]}
    (out / "result.json").write_text(json.dumps({**result, **kept}))
    marks["seal"] = result["seal"]
    key = (home / "ann.key").read_text().splitlines()
    marks |= {f"key {k}": line for k, line in enumerate(key) if len(line) > 24}
    sums = json.loads((out / "sums.json").read_text())["sums"]
    # Shorter ones are counts of rows and the like, which a result has too.
    long = {one for numbers in sums for one in numbers if len(one) > 6}
    assert long
    marks |= {f"sum {one}": one for one in long}
    return ran, marks


def test_nothing_that_is_its_owners_gets_into_a_report(planted):
    ran, marks = planted
    found = report_of_run(ran.out(), receipts=ran.receipts())
    assert found.good
    content = whole(found.content).decode(errors="replace")
    assert not [place for place, mark in marks.items() if mark in content]
    assert str(ran.folder) not in content, "nor where it lies"


def test_twin_what_is_in_a_report_would_be_found(planted):
    _, marks = planted
    made = pages.page(
        "t",
        pages.section("s", pages.paragraph(marks["consent.txt"])),
        pages.section("s", pages.figure(marks["seal"].encode(), alt="")),
    )
    content = whole(made).decode()
    assert [one for one, mark in marks.items() if mark in content] == [
        "consent.txt",
        "seal",
    ]


def test_nothing_of_a_page_reaches_a_command_line(hostile, monkeypatch):
    seen = []

    def run(command, **options):
        seen.append((command, options))
        raise subprocess.TimeoutExpired(command, 1.0)

    monkeypatch.setattr(printing.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(printing.subprocess, "run", run)
    content = report_of_run(hostile.out()).content
    with refused("printing-failed", printing.OutputError):
        printing.report_pdf(content)
    ((command, options),) = seen
    assert "shell" not in options
    assert command[0] == "/usr/bin/chromium"
    assert not [word for word in command if "alert" in word or "<" in word]
