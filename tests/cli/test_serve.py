"""`veilsum serve` and `veilsum status`, as a person and as processes use them."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from net.runs import ONE_SHOT, Company, changed
from net.village import free_port
from veilsum.cli.app import app
from veilsum.net.receipt import read_receipt, verify_receipts
from veilsum.party.run_status import (
    read_run_status,
    run_status_file,
    run_status_time,
    write_run_status,
)

FOUR = changed(ONE_SHOT, policy={"meeting": 600.0, "deadline": 300.0})
# By the clock on the wall: what takes so long never ends.
LONGEST = 600.0
pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


@pytest.fixture
def company(tmp_path):
    made = Company(tmp_path, FOUR)
    inbox = made.folder("a") / "inbox"
    inbox.mkdir()
    shutil.copy(made.folder("a") / "consortium.toml", inbox / "four.toml")
    (made.folder("a") / "veilsum.toml").unlink(missing_ok=True)
    return made


def words(company, *more):
    """What party a types in its own folder."""
    folder = company.folder("a")
    given = [folder / "inbox", "--identity", folder / "a.key"]
    return [*map(str, given), "--cost", str(folder / "cost.toml"), *more]


def serve(company, *more, answer=None):
    return CliRunner().invoke(app, ["serve", *words(company, *more)], input=answer)


def status(company, *more):
    found = CliRunner().invoke(app, ["status", str(company.folder("a")), *more])
    assert found.exit_code == 0, found.output
    return found.stdout


def path_of(company):
    key = company.folder("a") / "a.key"
    return run_status_file(key, "a", company.consortium.run)


def test_a_file_waits_for_a_person_who_reads_its_page(company):
    assert "no runs in" in status(company)
    found = serve(company, "--once", "--json")
    assert found.exit_code == 0, found.output
    (one,) = json.loads(found.stdout)
    assert one["state"] == "pending"
    told = " ".join(status(company).split())
    assert "waits for a person" in told
    assert "--agree" in told
    (same,) = json.loads(status(company, "--json"))
    assert same == {**one, "silent": False, "waiting": [], "withheld": [], "lost": []}
    file = str(company.folder("a") / "inbox" / "four.toml")
    asked = serve(company, "--agree", file, answer="n\n")
    assert asked.exit_code == 2
    assert "CONSENT TO ONE RUN" in asked.stderr
    assert "YOUR SIDE" in asked.stderr
    assert not [*company.folder("a").rglob("agreed")]
    asked = serve(company, "--agree", file)
    assert "only a person can agree here" in asked.stderr
    asked = serve(company, "--agree", file, answer="y\n")
    assert asked.exit_code == 0, asked.output
    (kept,) = company.folder("a").rglob("agreed")
    assert kept.read_text() == f"{one['page']}\n" * 2
    assert kept.stat().st_mode & 0o077 == 0


def test_a_person_may_say_no_and_is_not_asked_again(company):
    serve(company, "--once")
    file = str(company.folder("a") / "inbox" / "four.toml")
    asked = serve(company, "--agree", file, answer="n\n")
    assert "--refuse" in asked.stderr
    assert read_run_status(path_of(company)).state == "pending"
    both = serve(company, "--agree", file, "--refuse", file)
    assert "give one of them" in both.stderr
    told = serve(company, "--refuse", file)
    assert told.exit_code == 0, told.output
    assert "nothing was sent" in told.stderr
    assert "a person said no" in status(company)
    serve(company, "--once")
    assert read_run_status(path_of(company)).state == "refused"


def test_the_one_key_is_looked_for_in_the_folder_that_is_served(tmp_path):
    found = CliRunner().invoke(app, ["serve", str(tmp_path)])
    assert found.exit_code == 2
    assert f"in {tmp_path}" in " ".join(found.stderr.split())
    assert "beside the consortium file" not in found.stderr


def test_what_own_rules_refuse_is_not_asked(company):
    (company.folder("a") / "veilsum.toml").write_text('jobs = ["model"]\n')
    file = str(company.folder("a") / "inbox" / "four.toml")
    asked = serve(company, "--agree", file, answer="y\n")
    assert asked.exit_code == 2
    assert "REFUSED" in asked.stderr
    assert "proceed?" not in asked.stderr


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--metrics", "0.0.0.0:9464"], "on this computer only"),
        (["--agree", "nothing.toml"], "nothing.toml"),
        (["--agree", "nothing.toml", "--json"], "a person agrees, or nobody does"),
    ],
)
def test_mistakes_are_one_sentence(more, why, company):
    found = serve(company, *more)
    assert found.exit_code == 2
    assert why in found.stderr


def test_a_run_without_a_sign_of_life_is_said_to_be_silent(company):
    serve(company, "--once")
    path, now = path_of(company), time.time()
    known = read_run_status(path)
    fields = {name: getattr(known, name) for name in known.__struct_fields__}
    fields |= {"state": "running", "waiting": ("b", "c"), "deadline": 300.0}
    fields |= {"phase": "greeting", "moved": run_status_time(now), "resend": 1.0}
    write_run_status(path, type(known)(**{**fields, "seen": run_status_time(now)}))
    told = " ".join(status(company).split())
    assert "b, c" in told
    assert "of 300 seconds" in told
    write_run_status(path, type(known)(**{**fields, "seen": run_status_time(now - 14)}))
    told = " ".join(status(company).split())
    assert "no sign of life since" in told


def ask(port, page, token=""):
    """A page, once somebody listens; None if nobody does."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST)
    try:
        connection.request("GET", page, headers={"Cookie": f"veilsum-{port}={token}"})
        return connection.getresponse().read().decode()
    except ConnectionRefusedError:
        return None
    finally:
        connection.close()


def on_page(company, port):
    """The token of the page of runs, and what an open page is told first."""
    token = (company.folder("a") / "page.token").read_text().strip()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST)
    headers = {"Cookie": f"veilsum-{port}={token}"}
    connection.request("GET", "/events", headers=headers)
    answer = connection.getresponse()
    line = next(line for line in answer if line.startswith(b"data: "))
    connection.close()
    answer.close()
    return token, json.loads(line[6:])


def until(true, process):
    """Wait for what a process does; fail if it has ended."""
    end = time.monotonic() + LONGEST
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_a_process_that_is_killed_goes_on_and_one_that_is_ended_says_so(company):
    """Killed while it meets the others, started again, and asked to end when done."""
    (company.folder("a") / "veilsum.toml").write_text('jobs = ["cost"]\n')
    port = free_port()
    path = path_of(company)
    page = free_port()
    more = ("--metrics", f"127.0.0.1:{port}", "--page", f"127.0.0.1:{page}")
    more = (*more, "--log", "json", "--json")
    command = [sys.executable, "-m", "veilsum", "serve", *words(company, *more)]

    def start():
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)

    def is_in(state):
        return path.exists() and read_run_status(path).state == state

    with start() as first:
        until(lambda: is_in("running") and read_run_status(path).waiting, first)
        until(lambda: 'veilsum_runs{state="running"} 1' in ask(port, "/metrics"), first)
        until(lambda: on_page(company, page)[1]["runs"][0]["waiting"], first)
        token, seen = on_page(company, page)
        os.kill(first.pid, signal.SIGKILL)
    assert is_in("running")
    (run,) = seen["runs"]
    assert (run["state"], set(run["waiting"])) == ("running", {"b", "c", "d"})
    assert run["links"].keys() <= {"b", "c", "d"}
    assert any("phase" in line for line in seen["log"])
    with start() as second, company.local as others:
        for name in "bcd":
            others.start(name)
        assert set(others.wait().values()) == {0}
        until(lambda: is_in("done"), second)
        assert ask(port, "/healthz") == "ok\n"
        until(lambda: on_page(company, page)[1]["runs"][0]["report"], second)
        same, seen = on_page(company, page)
        report = ask(page, f"/report/{seen['runs'][0]['id']}", token)
        second.terminate()
        out, err = second.communicate(timeout=LONGEST)
        assert second.returncode == 0
    assert same == token, "an open page goes on"
    assert "checks of what was signed hold" in report
    (one,) = json.loads(out)
    assert (one["state"], one["phase"]) == ("done", "finished")
    assert token not in err
    lines = [json.loads(line) for line in err.splitlines()]
    phases = [line for line in lines if line["event"] == "phase"]
    assert {"time", "run", "phase", "epoch", "round"} <= set(phases[0])
    run = company.consortium.run
    receipts = [
        read_receipt(company.seats[name].out / "receipt.json") for name in "bcd"
    ]
    served = company.folder("a") / "served" / run / "receipt.json"
    assert verify_receipts([read_receipt(served), *receipts], company.consortium).good
