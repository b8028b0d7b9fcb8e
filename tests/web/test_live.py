"""The page of runs: what is sent to it, by whom it may be asked, and in a browser."""

import http.client
import json
import logging
import re
import secrets
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

import veilsum as vs
from browser import SCHEMES, WIDTHS, chromium, opened_at
from net.runs import ONE_SHOT, Company, changed
from refusals import refused
from veilsum.cli.app import app
from veilsum.cli.join import ForPeople
from veilsum.consortium.consortium import Address
from veilsum.party.run_status import RunStatus, run_status_time, write_run_status
from veilsum.report.run_report import report_of_run
from veilsum.web import live
from veilsum.web.live import LiveServer, LogLines, RunWatch, live_page_token
from veilsum.web.pages import PageBounds

HOST = "127.0.0.1"
MARKUP = "<img src=x onerror=alert(1)>"
# Numbers that nothing else has, in the four parties' own costs.
TARGETS = [[1.71828, 2.50313], [3.40117, -4.52909], [5.75031, 6.13579], [-7.2468, 8.11]]
FOUR = changed(
    ONE_SHOT,
    title="Mean of four <b>wards</b>",
    cost={"targets": TARGETS},
    policy={"meeting": 600.0, "deadline": 300.0},
)
WEB = Path(live.__file__).parent
AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(live, "AT_LEAST", 0.0)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    return made


def put(folder, name="a", **fields):
    """Write a status; a run that goes on, if nothing else is said."""
    now = run_status_time(time.time())
    usual = {"run": f"{name}-{'0' * 31}1", "party": "a", "consortium": "0" * 64}
    usual |= {"state": "running", "phase": "sharing", "resend": 60.0}
    usual |= {"moved": now, "seen": now, "deadline": 300.0}
    path = folder / f"{name}.status"
    write_run_status(path, RunStatus(**{**usual, **fields}))
    return path


def shown(folder, *, port=0, **options):
    return LiveServer(Address(HOST, port), folder, reported, **options)


def reported(out, receipts):
    return report_of_run(out, receipts=receipts).content


def ask(server, path="/", **headers):
    """Status, headers and body, as somebody with the cookie is answered."""
    connection = http.client.HTTPConnection(HOST, server.address.port, timeout=60)
    cookie = {"Cookie": f"veilsum-{server.address.port}={server.token}"}
    connection.request("GET", path, headers=cookie | headers)
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


@contextmanager
def told(server):
    """What a page is told, message by message; all bytes are kept."""
    connection = http.client.HTTPConnection(HOST, server.address.port, timeout=60)
    cookie = {"Cookie": f"veilsum-{server.address.port}={server.token}"}
    connection.request("GET", "/events", headers=cookie)
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/event-stream")

    def messages():
        for line in answer:
            told.raw.append(line)
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    try:
        yield messages()
    finally:
        connection.close()


told.raw = []


def until(true, what="it came about"):
    for _ in range(2000):
        if true():
            return
        time.sleep(0.02)
    raise AssertionError(f"waited in vain until {what}")


# What is sent


def test_what_has_changed_is_sent_and_nothing_else(folder):
    lines = LogLines(ForPeople())
    put(folder, "a", waiting=("b",), links={"b": "not connected: never called"})
    put(folder, "c", state="done", phase="finished")
    with shown(folder, lines=lines) as server, told(server) as messages:
        first = next(messages)
        assert first["whole"]
        by_phase = {one["phase"]: one for one in first["runs"]}
        one = by_phase["sharing"]
        assert (one["waiting"], one["state"]) == (["b"], "running")
        assert one["links"] == {"b": "not connected: never called"}
        assert one["words"] == "exchanging shares with neighbours"
        assert len(one["samples"]) == 1
        assert first["networks"] == {"0" * 64: None}, "its file is not there"
        assert one["withheld"] == ""
        late = {"waiting": ("b",), "withheld": ("b",)}
        path = put(folder, "a", phase="summing", round=7, sent=1234, **late)
        second = next(messages)
        assert not second["whole"]
        (one,) = second["runs"]
        assert (one["round"], one["sent"], one["phase"]) == (7, 1234, "summing")
        assert one["withheld"].startswith("withheld by b: Ready was signed")
        assert one["withheld"].endswith("a crash or a slow connection looks the same")
        assert [sample[1:] for sample in one["samples"]] == [
            [7, 1234, "running", "summing"]
        ]
        path.unlink()
        third = next(messages)
        assert third["runs"] == []
        assert third["here"] == [by_phase["finished"]["id"]]
        lines.handle(logging.makeLogRecord({"msg": "met", "party": "b"}))
        assert "met party=b" in next(messages)["log"][0]


def test_a_look_that_finds_the_same_is_no_news(folder):
    now = 1000.0
    watch = RunWatch(folder, clock=lambda: now)
    put(folder, moved=run_status_time(now), seen=run_status_time(now), resend=1.0)
    assert watch.look()
    assert not watch.look()
    put(folder, moved=run_status_time(now), seen=run_status_time(now + 1), resend=1.0)
    assert not watch.look(), "a sign of life changes nothing on the page"
    now += 20.0
    assert watch.look()
    (run,) = watch.found.runs.values()
    assert run.shown["state"] == "silent"
    put(
        folder, moved=run_status_time(now), seen=run_status_time(now), resend=1.0
    )  # it was restarted
    assert watch.look()
    states = [new[3] for new in watch.found.since(0)["runs"][0]["samples"]]
    assert states == ["running", "silent", "running"]
    assert len(watch.found.since(2)["runs"][0]["samples"]) == 1


def test_samples_and_runs_are_bounded(folder, monkeypatch):
    monkeypatch.setattr(live, "MOST_SAMPLES", 3)
    monkeypatch.setattr(live, "MOST_RUNS", 2)
    watch = RunWatch(folder)
    for k in range(6):
        put(folder, sent=k)
        watch.look()
    (run,) = watch.found.runs.values()
    assert [sample[2] for _, sample in run.samples] == [3, 4, 5]
    for name in "bcd":
        put(folder, name)
    watch.look()
    assert (len(watch.found.runs), watch.found.left_out) == (2, 2)


def test_what_others_may_have_written_is_left_out(folder):
    put(folder, "mine")
    other = put(folder, "other")
    other.chmod(0o666)
    (folder / "torn.status").write_text("{")
    (folder / "torn.status").chmod(0o600)
    watch = RunWatch(folder)
    watch.look()
    assert [one.status.run[:4] for one in watch.found.runs.values()] == ["mine"]
    assert watch.found.left_out == 2
    other.chmod(0o600)
    assert watch.look()
    assert len(watch.found.runs) == 2


def test_the_log_is_bounded_and_cannot_forge_a_line(monkeypatch):
    monkeypatch.setattr(live, "MOST_LETTERS", 40)
    lines = LogLines(ForPeople())
    for k in range(live.MOST_LINES + 5):
        record = {"msg": f"n{k}\nforged\x1b[2J", "reason": "x" * 100}
        lines.handle(logging.makeLogRecord(record))
    last, found = lines.after(0)
    assert (last, len(found)) == (live.MOST_LINES + 5, live.MOST_LINES)
    assert all(len(one) == 40 and "\n" not in one for one in found)
    assert lines.after(last) == (last, [])


# Who may ask, and for what


@pytest.mark.parametrize("path", ["/", "/events", "/live.js", "/report/x"])
def test_nobody_comes_in_without_the_token(folder, path):
    put(folder, reason="hidden")
    with shown(folder) as server:
        status, _, body = ask(server, path, Cookie="a=b")
        assert (status, b"hidden" in body) == (403, False)
        status, _, _ = ask(server, path, Host="evil.example")
        assert status == 421


def test_a_report_has_receipts_of_finished_runs_of_its_file_only(folder, tmp_path):
    asked = []
    states = {
        "mine": ("done", "1"),
        "other": ("done", "1"),
        "unfinished": ("running", "1"),
        "unrelated": ("done", "2"),
    }
    for name, (state, digit) in states.items():
        out = tmp_path / name
        out.mkdir()
        (out / "receipt.json").write_text("{}")
        put(folder, name, state=state, out=str(out), consortium=digit * 64)

    def made(out, receipts):
        asked.append((out, receipts))
        return b"a report"

    with LiveServer(Address(HOST, 0), folder, made) as server, told(server) as messages:
        runs = {one["run"].partition("-")[0]: one for one in next(messages)["runs"]}
        status, _, body = ask(server, f"/report/{runs['mine']['id']}")
        assert (status, body) == (200, b"a report")
        assert ask(server, f"/report/{runs['unfinished']['id']}")[0] == 404
    assert asked == [(tmp_path / "mine", [tmp_path / "other" / "receipt.json"])]


def test_names_are_looked_up_and_never_opened(folder):
    put(folder, state="done", out=str(folder))
    secret = "dda60bf0-not-for-anybody"
    (folder / "receipt.json").write_text(secret)
    (folder.parent / "report").write_text(secret)
    with shown(folder) as server, told(server) as messages:
        (run,) = next(messages)["runs"]
        assert run["report"]
        wrong = [
            *("/page.token", "/live.py", "/static/live.js", "/vendor/SHA256SUMS"),
            *("/../live.py", "/%2e%2e/live.py", "/..%2flive.py", "//etc/passwd"),
            *("/report/", "/report/x", "/report/..", "/report/a.status"),
            f"/report/{str(folder).replace('/', '%2f')}",
            f"/report/{run['id']}/receipt.json",
            f"/report/{run['id']}%00",
            f"/report/..%2f{run['id']}",
        ]
        for path in wrong:
            status, _, body = ask(server, path)
            assert (status, secret.encode() in body) == (404, False), path
        # What is no receipt is no report either, and its words stay where they are.
        status, headers, body = ask(server, f"/report/{run['id']}")
        assert status == 409
        assert headers["Content-Type"].startswith("text/plain")
        assert secret.encode() not in body


def test_a_few_windows_at_once(folder):
    put(folder)
    with shown(folder) as server:
        kept = [told(server) for _ in range(live.MOST_STREAMS)]
        for one in kept:
            next(one.__enter__())
        status, headers, body = ask(server, "/events")
        assert (status, headers["Retry-After"]) == (503, "5")
        assert b"close one" in body
        assert ask(server, "/")[0] == 200, "all else is answered"
        kept[0].__exit__(None, None, None)
        until(lambda: server.view._streams < live.MOST_STREAMS, "it had left")
        with told(server) as again:
            assert next(again)["whole"]
        for one in kept[1:]:
            one.__exit__(None, None, None)


def test_who_does_not_read_is_dropped_and_nothing_piles_up(folder):
    """Six megabytes at once, and a reader that takes nothing of them."""
    for k in range(30):
        put(folder, f"r{k}", state="failed", reason="x" * 200_000)
    bounds = PageBounds(seconds=0.5)
    with shown(folder, bounds=bounds) as server, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((HOST, server.address.port))
        name = f"{HOST}:{server.address.port}"
        cookie = f"veilsum-{server.address.port}={server.token}"
        slow.sendall(
            f"GET /events HTTP/1.1\r\nHost: {name}\r\nCookie: {cookie}\r\n\r\n".encode()
        )
        until(lambda: server.view._streams == 1, "it was let in")
        until(lambda: server.view._streams == 0, "it was dropped")
        with told(server) as messages:
            assert len(next(messages)["runs"]) == 30, "who reads is not"


def test_a_token_is_kept_and_is_its_owners(folder):
    first = live_page_token(folder)
    path = folder / live.TOKEN_FILE
    assert path.stat().st_mode & 0o077 == 0
    assert live_page_token(folder) == first
    path.chmod(0o644)
    with refused("token-file-exposed", vs.InvalidInputError, mentions=("600",)):
        live_page_token(folder)
    path.chmod(0o600)
    path.write_text("short\n")
    with refused("not-a-token", vs.InvalidInputError):
        live_page_token(folder)
    path.unlink()
    assert live_page_token(folder) != first


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--page", "192.0.2.7:8471"], "plain HTTP"),
        (["--page", "example.org:8471"], "--page-open"),
        (["--page", "0.0.0.0:8471", "--page-open"], "the address under which browsers"),
        (["--page", "8471"], "an address is host:port"),
        (["--page-open"], "add --page HOST:PORT"),
    ],
)
def test_what_others_would_reach_is_refused_in_a_sentence(folder, more, why):
    found = CliRunner().invoke(app, ["status", str(folder), *more])
    assert found.exit_code == 2
    assert why in " ".join(found.stderr.split())


# A real run


def failed(call):
    return call.done() and call.exception() is not None


class Ran:
    """Four parties that took part while somebody looked, in one folder each."""

    def __init__(self, folder):
        self.company = Company(folder, FOUR)
        self.home = folder / "parties"
        told.raw.clear()
        with shown(self.home) as server, told(server) as messages:
            with ThreadPoolExecutor(4) as pool:
                calls = [pool.submit(self.join, name) for name in self.company.names]
                self.messages = [next(messages)]
                while not self.over and not any(failed(one) for one in calls):
                    self.messages.append(next(messages))
                found = [one.result() for one in calls]
            self.results = dict(zip(self.company.names, found, strict=True))
            self.planted = {self.plant(name) for name in self.company.names}
            runs = self.messages[-1]["here"]
            paths = ["/", *(f"/{Path(one).name}" for one in live.PAGE_FILES)]
            paths += [f"/report/{name}" for name in runs]
            self.served = {path: ask(server, path) for path in paths}
        self.raw = b"".join(told.raw)

    def join(self, name):
        folder = self.company.folder(name)
        file = folder / "consortium.toml"
        return vs.join(
            file,
            identity=folder / f"{name}.key",
            cost=folder / "cost.toml",
            consent=lambda page: True,
            out=folder / "out",
            transcript=folder / f"{name}.transcript",
        )

    def plant(self, name):
        """Leave a mark in all that is a party's own; what it has signed stays."""
        mark, folder = secrets.token_hex(12), self.company.folder(name)
        for file in ("relay.token", "data.csv", "log.jsonl", "out/consent.txt"):
            (folder / file).write_text(mark)
        with (folder / f"{name}.ledger").open("ab") as ledger:
            ledger.write(mark.encode())
        path = folder / "out" / "result.json"
        plain = json.loads(path.read_text())
        path.write_text(json.dumps({**plain, "outputs": {name: mark}, "costs": mark}))
        return mark

    @property
    def over(self):
        last = {one["id"]: one for told in self.messages for one in told["runs"]}
        return len(last) == 4 and all(one["report"] for one in last.values())


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "LOOK_SECONDS", 0.02)
        patch.setattr(live, "AT_LEAST", 0.0)
        return Ran(tmp_path_factory.mktemp("ran"))


def test_a_run_is_followed_to_its_report(ran):
    last = {one["id"]: one for told in ran.messages for one in told["runs"]}
    assert {one["party"] for one in last.values()} == {"a", "b", "c", "d"}
    for one in last.values():
        assert (one["state"], one["phase"]) == ("done", "finished")
        assert one["sent"] == ran.results[one["party"]].to_dict()["bytes"]
        others = {"a", "b", "c", "d"} - {one["party"]}
        assert set(one["links"]) == others
    ((digest, drawn),) = {
        digest: drawn
        for told in ran.messages
        for digest, drawn in told.get("networks", {}).items()
    }.items()
    agreed = ran.company.consortium
    assert digest == agreed.digest.hex()
    assert drawn["parties"] == ["a", "b", "c", "d"]
    assert drawn["title"] == agreed.title
    assert (len(drawn["links"]), len(drawn["places"])) == (6, 4)
    for path, (status, headers, body) in ran.served.items():
        assert status == 200, (path, body)
        if path.startswith("/report/"):
            policy = headers["Content-Security-Policy"]
            assert "script-src" not in policy
            assert "default-src 'none'" in policy
            assert "sandbox" in policy
            assert b"&lt;b&gt;wards&lt;/b&gt;" in body
            assert b"All " in body
            assert b"Not here are the receipts" not in body, "all are on this computer"


def marks(ran):
    """What is somebody's own, in every spelling that a page could have."""
    found = {f"{abs(x)}" for pair in TARGETS for x in pair}
    for name in ran.company.names:
        folder = ran.company.folder(name)
        key = (folder / f"{name}.key").read_text().splitlines()
        found |= {line for line in key if len(line) > 24}
        result = json.loads((folder / "out" / "result.json").read_text())
        found.add(result["seal"])
    found |= ran.planted
    found.add((ran.home / live.TOKEN_FILE).read_text().strip())
    return found


def leaks(ran, content):
    return {one for one in marks(ran) if one.encode() in content}


def test_nothing_private_is_served(ran):
    """Costs, keys, seals, own files, the token: in nothing that was ever sent."""
    content = ran.raw + b"".join(
        str(headers).encode() + body for _, headers, body in ran.served.values()
    )
    assert len(marks(ran)) > 15
    assert leaks(ran, content) == set()
    assert str(ran.home).encode() not in content, "nor where it lies"


def test_twin_a_private_value_would_be_found(ran, folder):
    put(folder, reason=f"cost {TARGETS[0][0]}", state="failed")
    told.raw.clear()
    with shown(folder) as server, told(server) as messages:
        next(messages)
    assert leaks(ran, b"".join(told.raw)) == {repr(TARGETS[0][0])}


# In a browser


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def test_the_scripts_write_text_only():
    text = (WEB / "static" / "live.js").read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write"):
        assert word not in text
    assert not re.search(r"\beval\b|new Function|https?://(?!www\.w3\.org)", text)
    page = (WEB / "static" / "live.html").read_text()
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", page)


@pytest.mark.slow
def test_runs_are_shown_and_their_reports_are_opened(browser, ran):
    with shown(ran.home) as server, opened_at(browser, server.url) as seen:
        page = seen.page
        page.wait_for_selector(".seat .report")
        assert page.title() == "Runs on this computer"
        assert page.url.endswith("/"), "the token is not in the address any more"
        assert page.locator(".seat h3").all_text_contents() == ["a", "b", "c", "d"]
        assert page.locator("h2").first.text_content() == "Mean of four <b>wards</b>"
        assert page.locator(".network line").count() == 6
        assert page.locator(".network rect").count() == 4
        with page.context.expect_page() as made:
            page.locator(".report").first.click()
        made.value.wait_for_load_state()
        answer = made.value.locator(".answer").first.text_content()
        assert answer
        assert (seen.errors, seen.outside) == ([], [])


@pytest.mark.slow
def test_markup_in_names_is_text(browser, folder):
    """A file of one's own, and yet: whatever is in it is shown, never obeyed."""
    put(
        folder,
        run=MARKUP,
        party=MARKUP,
        waiting=(MARKUP,),
        lost=("<script>alert(2)</script>",),
        links={MARKUP: f"refused: {MARKUP}"},
    )
    put(folder, "b", state="failed", reason="<iframe srcdoc='x'>", party="</h3><b>")
    lines = LogLines(ForPeople())
    lines.handle(logging.makeLogRecord({"msg": MARKUP}))
    with shown(folder, lines=lines) as server, opened_at(browser, server.url) as seen:
        page = seen.page
        page.wait_for_selector("#log li")
        assert page.locator("main img, main script, main iframe, main b").count() == 0
        assert MARKUP in page.locator(".seat h3").all_text_contents()
        assert MARKUP in page.locator("#log li").text_content()
        assert "<iframe" in page.locator(".advice").all_text_contents()[-1]
        assert (seen.errors, seen.outside) == ([], [])


@pytest.mark.slow
def test_the_page_survives_a_restart_of_the_program(browser, folder):
    put(folder)
    with shown(folder) as server:
        port = server.address.port
        opening = opened_at(browser, server.url)
        seen = opening.__enter__()
        seen.page.wait_for_selector("#connection:not(.off)")
    try:
        seen.page.wait_for_selector("#connection.off")
        assert "Not connected" in seen.page.locator("#connection").text_content()
        put(folder, phase="summing")
        put(folder, "b", state="done")
        with shown(folder, port=port):
            seen.page.wait_for_selector("#connection:not(.off)")
            seen.page.wait_for_selector("text=exchanging masked numbers")
            assert seen.page.locator(".run").count() == 2
        assert seen.outside == []
    finally:
        opening.__exit__(None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_is_used_without_a_mouse_at_any_width(browser, ran, folder, width, scheme):
    agreed, name = ran.company.consortium, "a"
    about = {
        "run": agreed.run,
        "party": name,
        "consortium": agreed.digest.hex(),
        "file": str(ran.company.folder(name) / "consortium.toml"),
        "waiting": ("c", "d"),
        "links": {
            "b": "connected",
            "c": "not connected: nobody answers at " + "x" * 90,
        },
    }
    put(folder, sent=10, **about)
    with (
        shown(folder) as server,
        opened_at(browser, server.url, width=width, scheme=scheme) as seen,
    ):
        page = seen.page
        page.wait_for_selector(".seat")
        for k in range(3):
            put(folder, sent=1000 * k + 20, round=k + 1, **about)
            page.wait_for_selector(f"text={1000 * k + 20:,} bytes")
        for title in ("1 of 2 links stand", "Bytes and rounds over time"):
            summary = page.locator("summary", has_text=title)
            for _ in range(20):
                page.keyboard.press("Tab")
                if summary.evaluate("one => one === document.activeElement"):
                    break
            page.keyboard.press("Enter")
            assert summary.evaluate("one => one.parentElement.open")
        assert page.locator(".uplot canvas").is_visible()
        assert "c: not connected" in page.locator("details li").first.text_content()
        assert "waits for c, d" in page.locator("svg[role=img]").get_attribute(
            "aria-label"
        )
        assert page.locator("line.connected").count() == 1
        assert page.locator("line.broken").count() == 1
        assert page.locator(".node.awaited").count() == 2
        assert seen.too_wide == 0
        page.evaluate(AXE)
        assert serious(page.evaluate("() => axe.run()")) == []
        assert (seen.errors, seen.outside) == ([], [])


def serious(found):
    """What axe-core calls serious or worse."""
    return [
        (one["id"], [node["html"] for node in one["nodes"]])
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
    ]


# As processes


@pytest.mark.slow
def test_the_command_prints_the_address_and_ends_when_told(folder):
    put(folder)
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    words = ["status", str(folder), "--page", f"{HOST}:{port}"]
    command = [sys.executable, "-m", "veilsum", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        url = re.search(r"http://\S+", line)[0]
        connection = http.client.HTTPConnection(HOST, port, timeout=60)
        connection.request("GET", url.partition(str(port))[2])
        assert connection.getresponse().status == 303
        connection.close()
        process.terminate()
        assert process.wait(timeout=60) == 0
