"""`veilsum collect`: from nothing to what delegates join, each step by its command."""

import csv
import json
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from net.village import HOST, free_port
from veilsum.cli.app import app
from veilsum.files.consortiums import read_consortium
from veilsum.net.identity import new_identity
from veilsum.surveys.collection import SurveyGuestCollection
from veilsum.surveys.submission import guest_submission
from veilsum.surveys.terms import survey_terms

MEMBERS = ("ann", "bob", "cem")
PAGE = "https://survey.example.org"
ROOT = Path(__file__).parents[2]
DESCRIBED = (ROOT / "docs" / "reference" / "json.md").read_text()
DESCRIBED = DESCRIBED.partition("\n## Collect\n")[2].partition("\n## ")[0]
PLAN = """\
title = "Wages by category"

[parties]
names = ["ann", "bob", "cem"]

[masks]
law = "uniform"

[policy]
tolerate = 1

[survey]
title = "Wages by category, 2026"
unit = 0.01
rows = ["managers", "clerks"]
columns = ["women", "men"]
range = [0, 1000000]
closes = "2026-12-01"
"""


def call(*words, code=0):
    """What a command says."""
    ended = CliRunner().invoke(app, ["collect", *map(str, words)])
    assert ended.exit_code == code, ended.output
    return ended.output


def told(*words):
    """The same as JSON, of which every key is described."""
    found = json.loads(call(*words, "--json"))
    assert not [key for key in found if f"`{key}`" not in DESCRIBED], words
    return found


def guests_of(member, count=4):
    return [f"{member.title()}'s firm {k + 1}" for k in range(count)]


class Scene:
    """Three members with a survey's file, each with a folder of its own."""

    def __init__(self, folder, address=None):
        self.folder = folder
        parts = []
        places = []
        for member in MEMBERS:
            home = folder / member
            new_identity(member, home)
            names = home / "firms.txt"
            names.write_text("\n".join(guests_of(member)) + "\n\n")
            made = told("delegate", home / f"{member}.key", "--guests", names)
            parts += ["--part", made["part_file"]]
            parts += ["--certificate", str(home / f"{member}.crt")]
            places += ["--address", f"{member}={HOST}:{address or free_port()}"]
        self.plan = folder / "plan.toml"
        self.plan.write_text(PLAN)
        self.survey = folder / "wages.veil"
        self.words = ["new", self.plan, "-o", self.survey, *parts]
        self.said = told(*self.words, *places)
        self.terms = survey_terms(read_consortium(self.survey))

    def codes(self):
        found = {}
        for member in MEMBERS:
            path = self.folder / member / f"{member}.codes.csv"
            with path.open(newline="") as stream:
                found |= {row["guest"]: row["code"] for row in csv.DictReader(stream)}
        return found


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return Scene(tmp_path_factory.mktemp("survey"))


def test_members_parts_become_a_survey(scene):
    assert scene.said["survey"] == scene.terms.digest
    assert scene.said["guests"] == 12
    assert scene.terms.names == MEMBERS
    assert [one.invited_by for one in scene.terms.guests[:5]] == ["ann"] * 4 + ["bob"]
    assert {one.name for one in scene.terms.guests} == set(scene.codes())
    for member in MEMBERS:
        home = scene.folder / member
        for name in (f"{member}.codes.csv", "surveys.store"):
            assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
        public = (home / f"{member}.part.json").read_text()
        assert not any(code in public for code in scene.codes().values())


def test_a_part_is_made_once_and_must_be_its_members_own(scene, tmp_path):
    key = scene.folder / "ann" / "ann.key"
    assert "there already" in call("delegate", key, code=2)
    out = tmp_path / "next.part.json"
    made = told("delegate", key, "-o", out, "--folder", tmp_path)
    assert made["codes_file"] is None
    part = json.loads(out.read_text())
    for changed, why in (
        ({"guests": {"Made up": "0" * 64}}, "is not signed with the key"),
        ({"signature": "zz"}, "is not signed with the key"),
        ({"member": "bob"}, "two parts of one member"),
        ({"more": 1}, "missing or unknown"),
        ({"format": "x"}, "expected JSON with the format"),
    ):
        out.write_text(json.dumps({**part, **changed}))
        words = [
            out if str(one).endswith("ann.part.json") else one for one in scene.words
        ]
        words[words.index("-o") + 1] = tmp_path / "other.veil"
        said = call(*words, code=2)
        assert why in said, said


# Full-width, small and superscript forms are read as the plain sign.
SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u207a\u207c\u207b\u2212"


def test_names_that_are_odd_are_refused(scene, tmp_path):
    key = scene.folder / "ann" / "ann.key"
    names = tmp_path / "names.txt"
    for text, why in (
        ("Firm\nFirm\n", "twice"),
        *((f"{sign}1+1\n", "formula") for sign in SIGNS),
        ("a\x1b[31m\n", "can be seen"),
        (b"\xff\xfe", "UTF-8"),
    ):
        names.write_bytes(text if isinstance(text, bytes) else text.encode())
        words = ["delegate", key, "--guests", names, "--folder", tmp_path]
        assert why in call(*words, code=2)
    assert not (tmp_path / "surveys.store").exists()


def test_letters_have_code_address_and_hash_and_only_for_ones_own(scene, tmp_path):
    codes = scene.folder / "ann" / "ann.codes.csv"
    for language, word in (("en", "Dear"), ("de", "Guten Tag")):
        out = tmp_path / f"{language}.csv"
        words = ["invite", scene.survey, codes, "--page", f"{PAGE}/", "-o", out]
        said = told(*words, "--language", language)
        assert said["member"] == "ann"
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
        with out.open(newline="") as stream:
            rows = [*csv.DictReader(stream)]
        assert [row["guest"] for row in rows] == guests_of("ann")
        for row in rows:
            for text in (word, row["code"], PAGE, said["page_sha256"], "2026-12-01"):
                assert text in row["letter"]
            assert "(ann, bob, cem)" in row["letter"]
            assert {"en": "Up to 1 of", "de": "Bis zu 1 der"}[language] in row["letter"]
            empty = {"en": "Which cells you leave", "de": "Welche Felder Sie leer"}
            assert empty[language] in row["letter"]
            assert "{" not in row["letter"]
    # Somebody has put another guest under this member's name, or left one out.
    fewer = tmp_path / "fewer.csv"
    fewer.write_text("\n".join(codes.read_text().splitlines()[:-1]))
    words = ["invite", scene.survey, fewer, "--page", PAGE]
    assert "with --identity" in call(*words, code=2)
    words += ["--identity", codes.with_name("ann.key")]
    assert "send nothing" in call(*words, code=2)
    assert "such as https" in call("invite", scene.survey, codes, "--page", "x", code=2)


@contextmanager
def serving(survey, *words, **options):
    """The page, served by its command in a process of its own; what it says first."""
    run = [sys.executable, "-m", "veilsum", "collect", "serve", str(survey)]
    run += ["--listen", f"{HOST}:{free_port()}", "--json", *words]
    process = subprocess.Popen(run, stdout=subprocess.PIPE, text=True, **options)
    try:
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            assert line, "it ended"
            said += line
        yield json.loads(said)
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.close()
        assert process.wait(20) == 0


def post(page, line):
    headers = {"Content-Type": "application/json", "Origin": page}
    asked = Request(f"{page}/submissions", line.encode(), headers)
    with urlopen(asked, timeout=20) as answer:
        return answer.status, json.load(answer)


def test_what_was_added_is_printed_by_a_member_and_closed_once(scene, tmp_path):
    """A host leaves a guest out, and lists its digest in the result all the same."""
    names, place = [*scene.codes()], tmp_path / "host"
    place.mkdir()
    sent = {
        name: guest_submission(scene.terms, code, [[k, 1], [2, None]])
        for k, (name, code) in enumerate(scene.codes().items())
    }
    store = SurveyGuestCollection.open(place / "collection.sqlite", scene.terms)
    for one in sent.values():
        store.take(one.to_json().encode())
    store.close()
    words = ["close", scene.survey, "--folder", place]
    closed = told(*words, "--without", names[-1])
    for name in ("closed.toml", "submissions.jsonl"):
        assert stat.S_IMODE((place / name).stat().st_mode) == 0o600
    digests = {name: one.digest(MEMBERS) for name, one in sent.items()}
    added = sorted(digests[name] for name in names[:-1])
    # What a member says from its own files, whatever the host's page lists.
    file = closed["closed_file"]
    found = told("set", file)
    assert found["submissions"] == added
    assert found["set"] == closed["set"]
    assert found["submissions_sha256"] == closed["submissions_sha256"]
    ended = CliRunner().invoke(app, ["collect", "set", file])
    assert sha256(ended.stdout.encode()).hexdigest() == found["submissions_sha256"]
    assert not [name for name in names if name in ended.output]
    line = f"{names[0]}\t1\t{digests[names[0]]}"  # as the page's receipt has it
    assert call("set", file, "--guest", names[0]) == f"{line}\n"
    assert told("set", file, "--guest", names[0])["line"] == line
    assert "is not in the set" in call("set", file, "--guest", names[-1])
    assert told("set", file, "--guest", names[-1])["line"] is None
    assert "nobody called" in call("set", file, "--guest", "Firm", code=2)
    # Until there is a result the host may close again; then only with the same.
    assert told(*words, "--without", names[-1]) == closed
    assert told(*words)["set"] != closed["set"]
    before = (place / "closed.toml").read_bytes()
    (place / "result.json").write_text("{}")
    assert "another set" in call(*words, "--without", names[0], code=2)
    assert (place / "closed.toml").read_bytes() == before
    assert told(*words)["guests"] == len(names)


@pytest.mark.slow
def test_a_host_serves_stops_serves_again_closes_and_members_fetch(scene, tmp_path):
    codes = [*scene.codes().values()]
    sent = [
        guest_submission(scene.terms, code, [[k, 1], [2, None]])
        for k, code in enumerate(codes)
    ]
    assert "makes it" in call("status", scene.survey, code=2)
    with serving(scene.survey) as said:
        for one in sent[:4]:
            assert post(said["page"], one.to_json())[0] == 201
    found = told("status", scene.survey)
    assert (found["came"], found["invited"], found["closed"]) == (4, 12, False)
    assert found["not_yet"] == [*scene.codes()][4:]
    assert "4 are needed" in call("close", scene.survey, code=2)
    with serving(scene.survey) as said:
        for one in sent[3:9]:
            assert post(said["page"], one.to_json())[0] in (200, 201)
        closed = told("close", scene.survey)
        assert (closed["guests"], closed["invited"]) == (9, 12)
        assert (closed["cells"], closed["released"], closed["near"]) == (4, 3, [])
        assert told("close", scene.survey) == closed
        fetched = told("fetch", scene.survey, said["page"], "-o", scene.folder / "bob")
        assert fetched["set"] == closed["set"]
    assert told("status", scene.survey)["closed"]
    home = scene.folder / "bob"
    ended = CliRunner().invoke(
        app, ["check", fetched["closed_file"], "--party", "bob", "--data", str(home)]
    )
    assert ended.exit_code == 0, ended.output
    assert "you may take part" in ended.output
    assert "is a closed survey" in call("status", fetched["closed_file"], code=2)


@pytest.mark.slow
def test_eleven_hundred_silent_connections_keep_no_guest_out(scene, tmp_path):
    """With 1,024 open files: a guest is answered within 2 s, the log stays short."""
    resource = pytest.importorskip("resource")
    few, (_, most) = 1024, resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 4 * few:
        pytest.skip("this system allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    made = new_identity("page", tmp_path)
    trusting = ssl.create_default_context(cafile=made.certificate_file)
    trusting.check_hostname = False
    log, seconds = tmp_path / "log", []
    with (
        log.open("wb") as stderr,
        serving(
            scene.survey,
            *("--folder", str(tmp_path / "host")),
            *("--tls", str(made.certificate_file), str(made.key_file)),
            stderr=stderr,
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (few, few)),
        ) as said,
        ExitStack() as strangers,
    ):
        place = urlsplit(said["page"])
        for _ in range(1_100):
            silent = socket.create_connection((place.hostname, place.port))
            strangers.enter_context(silent)
        for _ in range(20):
            begun = time.monotonic()
            with urlopen(said["page"], timeout=20, context=trusting) as answer:
                assert answer.status == 200
            seconds.append(time.monotonic() - begun)
    assert max(seconds) < 2
    assert log.stat().st_size < 100_000


def test_without_tls_a_page_is_for_this_computer(scene):
    said = call("serve", scene.survey, "--listen", "0.0.0.0:8470", code=2)
    assert "--tls" in said
    said = call("serve", scene.survey, "--public", "http://a.example", code=2)
    assert "without TLS" in said
