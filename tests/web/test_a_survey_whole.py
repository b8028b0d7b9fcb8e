"""A whole survey with the commands that people type: 130 firms, three delegates.

Thirty guests are real pages in a browser, the others the same JavaScript in Node. The
host is killed once and a delegate once; totals are exact, and every guest finds its
receipt.
"""

import csv
import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from browser import chromium, visited
from net.village import HOST, free_port
from veilsum.cli.app import app
from veilsum.files.consortiums import read_consortium
from veilsum.net.identity import new_identity
from veilsum.surveys.terms import survey_terms
from veilsum.web.guest_page import page_survey

pytestmark = pytest.mark.slow

MEMBERS = ("ann", "bob", "cem")
GUESTS, IN_PAGES, CORRECTED = 130, 30, 3
PUBLIC = "https://survey.example.org"
NODE = shutil.which("node")
PLAN = """\
title = "Wages"

[parties]
names = ["ann", "bob", "cem"]

[masks]
law = "uniform"

[policy]
tolerate = 1

[survey]
title = "Wages by category, 2026"
unit = 0.01
rows = ["managers", "clerks", "drivers"]
columns = ["women", "men"]
range = [-1000, 1000000]
"""


def call(*words):
    ended = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.output)


def texts(place, number=1):
    """What a guest types, cell by cell: cents, minus signs, empty cells."""
    found = [
        f"{1000 * place + k + number}.{(7 * place + k) % 100:02}" for k in range(6)
    ]
    found[2] = f"-{place}.5{number}"
    found[4] = found[4] if place % 3 else ""
    found[5] = "0" if place < 4 else ""  # too few for a total
    return found


def flat(rows):
    return [one for row in rows for one in row]


def in_cents(tables):
    """Exact totals and how many gave, with Python's integers alone."""
    cents = [[round(float(one) * 100) if one else None for one in t] for t in tables]
    given = [sum(one is not None for one in cell) for cell in zip(*cents, strict=True)]
    return given, [sum(filter(None, cell)) for cell in zip(*cents, strict=True)]


class Hosted:
    """The host's command as a process, which may be killed and started again."""

    def __init__(self, survey):
        self.words = [sys.executable, "-m", "veilsum", "collect", "serve", str(survey)]
        place = f"{HOST}:{free_port()}"
        self.words += ["--listen", place, "--public", PUBLIC, "--json"]
        self.page = f"http://{place}"

    def start(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, text=True)
        while self.process.stdout.readline() not in ("}\n", ""):
            pass

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def post(self, line, caller):
        """Send as a proxy passes on what one guest sends."""
        headers = {"Content-Type": "application/json", "Origin": self.page}
        headers["X-Forwarded-For"] = f"192.0.2.{caller}"
        asked = Request(f"{self.page}/submissions", line.encode(), headers)
        with urlopen(asked, timeout=60) as answer:
            return json.load(answer)


@contextmanager
def hosted(survey):
    found = Hosted(survey)
    found.start()
    try:
        yield found
    finally:
        found.kill()


def prepared(folder):
    """Members with keys and guests, and the survey that they agreed on."""
    names = [f"Firm {k + 1}" for k in range(GUESTS)]
    words = ["collect", "new", folder / "plan.toml", "-o", folder / "wages.veil"]
    codes = {}
    for at, member in enumerate(MEMBERS):
        home = folder / member
        new_identity(member, home)
        mine = names[at :: len(MEMBERS)]
        (home / "firms.txt").write_text("\n".join(mine))
        key = home / f"{member}.key"
        part = call("collect", "delegate", key, "--guests", home / "firms.txt")
        words += ["--part", part["part_file"], "--certificate", home / f"{member}.crt"]
        words += ["--address", f"{member}={HOST}:{free_port()}"]
        with Path(part["codes_file"]).open(newline="") as stream:
            codes |= {row["guest"]: row["code"] for row in csv.DictReader(stream)}
    (folder / "plan.toml").write_text(PLAN)
    call(*words)
    return folder / "wages.veil", {name: codes[name] for name in names}


def by_node(terms, visits):
    """Visits with the page's own modules, without a page: what would be posted."""
    survey = json.loads(page_survey(terms))
    calls = [["visit", survey, code, table, number] for code, table, number in visits]
    here = Path(__file__)
    web = here.parents[2] / "src" / "veilsum" / "web"
    run = [NODE, str(here.with_name("guest_calls.mjs")), str(web)]
    ended = subprocess.run(run, input=json.dumps(calls).encode(), capture_output=True)
    assert ended.returncode == 0, ended.stderr
    return [one["answer"]["text"] for one in json.loads(ended.stdout)]


def in_page(browser, address, code, table):
    """Visit as a person does; return the line that the set will have."""
    seen = visited(browser, address)
    page = seen.page
    page.set_default_timeout(60_000)
    page.fill("#code", code)
    page.press("#code", "Enter")
    page.wait_for_selector("#numbers-step:not([hidden])")
    for at, text in enumerate(table):
        page.fill(f"#cell-{at}", text)
    page.click("#check")
    page.click("#send")
    page.wait_for_selector("#sent-step:not([hidden])")
    page.wait_for_function("!document.getElementById('outcome').matches('.bad')")
    guest, number, digest = page.text_content("#set-line").split("\t")
    assert (seen.errors, seen.outside) == ([], [])
    page.context.close()
    return {"guest": guest, "number": int(number), "digest": digest}


class Delegates:
    """Members that join as processes of their own, each in its folder."""

    def __init__(self, folder):
        self.folder, self.running = folder, {}

    def start(self, member):
        home = self.folder / member
        words = ["join", "closed.toml", "--data", ".", "--yes", "--json"]
        with (home / "log.txt").open("a") as log:
            self.running[member] = subprocess.Popen(
                [sys.executable, "-m", "veilsum", *words],
                cwd=home,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def kill_waiting(self, member):
        """Kill one that has agreed, and cannot have come to anything yet."""
        while not (self.folder / member / "out" / "consent.txt").exists():
            assert self.running[member].poll() is None, self.log(member)
            sleep(0.05)
        self.running[member].kill()
        assert self.running[member].wait() == -9

    def wait(self):
        for member, run in self.running.items():
            assert run.wait(300) == 0, self.log(member)

    def log(self, member):
        return (self.folder / member / "log.txt").read_text()[-3000:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for run in self.running.values():
            run.kill()
            run.wait()


@pytest.mark.skipif(NODE is None, reason="there is no Node on this machine")
def test_a_survey_of_130_firms_is_exact(tmp_path):
    survey, codes = prepared(tmp_path)
    terms = survey_terms(read_consortium(survey))
    tables = {name: texts(k) for k, name in enumerate(codes)}
    receipts = {}
    with hosted(survey) as host:
        with chromium() as browser:
            for name in [*codes][:IN_PAGES]:
                found = in_page(browser, host.page, codes[name], tables[name])
                assert (found["guest"], found["number"]) == (name, 1)
                receipts[name] = found["digest"]
        host.kill()
        host.start()
        rest = [*codes][IN_PAGES:]
        lines = by_node(terms, [(codes[name], tables[name], 1) for name in rest])
        for k, (name, line) in enumerate(zip(rest, lines, strict=True)):
            receipts[name] = host.post(line, k)["digest"]
        for name in rest[:CORRECTED]:
            tables[name] = texts([*codes].index(name), number=2)
        again = [(codes[name], tables[name], 2) for name in rest[:CORRECTED]]
        for name, line in zip(rest, by_node(terms, again), strict=False):
            receipts[name] = host.post(line, 250)["digest"]
        closed = call("collect", "close", survey)
        assert (closed["guests"], closed["invited"]) == (GUESTS, GUESTS)
        for member in MEMBERS:
            call("collect", "fetch", survey, host.page, "-o", tmp_path / member)

        with Delegates(tmp_path) as delegates:
            delegates.start("ann")
            delegates.start("cem")
            delegates.kill_waiting("cem")
            delegates.start("cem")
            delegates.start("bob")
            delegates.wait()
        words = ["collect", "result", survey, tmp_path / "ann" / "out"]
        for member in MEMBERS[1:]:
            words += ["--receipt", tmp_path / member / "out" / "receipt.json"]
        call(*words)
        with urlopen(f"{host.page}/result.json", timeout=20) as answer:
            shown = json.load(answer)

    given, cents = in_cents(tables.values())
    assert shown["guests"] == GUESTS
    assert flat(shown["given"]) == given
    assert given[5] == 4
    totals = flat(shown["totals"])
    assert totals[5] is None, "too few gave one"
    assert closed["released"] == 5, "known before anything was added up"
    assert [round(float(one) * 100) for one in totals[:5]] == cents[:5]
    assert sorted(receipts.values()) == shown["submissions"]
    assert {one["party"] for one in shown["receipts"]} == {*MEMBERS}
