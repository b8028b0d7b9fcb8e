"""`veilsum doctor --network`: a line for each thing, what to do, and an exit code."""

import asyncio
import json
import socket
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cases import each
from net.village import HOST, PLAN, QUICK, free_port
from veilsum.cli.app import app
from veilsum.consortium.consortium import Address, consortium_from
from veilsum.files.consortiums import draft_consortium, write_consortium
from veilsum.net.identity import new_identity
from veilsum.net.links import SocketNetwork

EXAMPLES = Path(__file__).parents[2] / "examples"
# In the order of the file: alder calls everybody else.
CLINICS = ("alder", "birch", "cedar", "elm", "fir")

# By the clock on the wall: what takes so long never ends.
LONGEST = 600.0


def call(*words):
    return CliRunner().invoke(app, ["doctor", *map(str, words)])


def refusal(*words):
    found = call(*words)
    assert found.exit_code == 2, found.output
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1, "one sentence, on one line"
    return found.stderr


class Clinics:
    """Five parties, each with a folder that holds its key and the agreed file."""

    def __init__(self, folder):
        self.identities = {name: new_identity(name, folder / name) for name in CLINICS}
        self.addresses = {name: Address(HOST, free_port()) for name in CLINICS}
        certificates = {name: one.certificate for name, one in self.identities.items()}
        self.agreed, _ = draft_consortium(
            EXAMPLES / "average.toml",
            certificates=certificates,
            addresses=self.addresses,
        )
        self.files = {name: folder / name / "study.toml" for name in CLINICS}
        for file in self.files.values():
            write_consortium(file, self.agreed)

    def look(self, name="alder", *words):
        return call("--network", self.files[name], "--wait", 0, *words)

    @contextmanager
    def running(self, *names, **options):
        """Let these take part in a run, in a thread of their own."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()

        def wait_for(work):
            return asyncio.run_coroutine_threadsafe(work, loop).result(LONGEST)

        networks = wait_for(self._opened(names, options))
        try:
            yield
        finally:
            wait_for(closed(networks))
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    async def _opened(self, names, options):
        return [await self._network(name, **options) for name in names]

    async def _network(self, name, agreed=None, **options):
        network = SocketNetwork(
            self.identities[name],
            agreed or self.agreed,
            plan=PLAN,
            limits=replace(QUICK, open_timeout=LONGEST, hello_timeout=LONGEST),
            hear=lambda sender, frame: None,
            met=lambda party: None,
            left=lambda party: None,
            **options,
        )
        await network.open()
        return network


async def closed(networks):
    await asyncio.gather(*(network.close() for network in networks))


@pytest.fixture
def clinics(tmp_path):
    return Clinics(tmp_path)


def lines(found, mark):
    return [line for line in found.stdout.splitlines() if line.strip().startswith(mark)]


def only_problem(found):
    assert found.exit_code == 1, found.output
    assert found.stdout.splitlines()[-1].startswith("1 problem")
    [line] = lines(found, "NOT ok")
    return line


def test_everybody_in_reach_is_in_order(clinics):
    with clinics.running(*CLINICS[1:]):
        found = clinics.look()
    assert found.exit_code == 0, found.output
    assert found.stdout.endswith("\neverything that was looked at is in order\n")
    assert "alder (this party)\n" in found.stdout
    for name in CLINICS[1:]:
        place = clinics.addresses[name]
        assert f"\n{name}\n  ok        direction: this party dials it at {place}" in (
            found.stdout
        )
    assert len(lines(found, "ok")) == 4 + 4 * 6
    assert clinics.agreed.digest.hex() in found.stdout
    assert "listening for 0 s" in found.stderr


def test_machines_get_json_and_nothing_else(clinics):
    with clinics.running(*CLINICS[1:]):
        found = clinics.look("alder", "--json")
    assert found.exit_code == 0, found.output
    assert found.stderr == ""
    document = json.loads(found.stdout)
    assert (document["good"], document["party"]) == (True, "alder")
    assert {one["state"] for one in document["checks"]} == {"good"}


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        (None, "recodings of numbers allowed to nobody (no veilsum.toml)"),
        ("true", "recodings of numbers allowed to everybody"),
        ("[]", "recodings of numbers allowed to nobody"),
        (
            '["{}"]',
            "recodings of numbers allowed to {}; the members of this file are among",
        ),
        (
            '["0123456789abcdef"]',
            "allowed to 0123456789abcdef; the members of this file are not among",
        ),
    ],
)
def test_the_members_whose_recodings_are_allowed_are_shown(clinics, rule, shown):
    code = clinics.agreed.members_digest
    if rule is not None:
        text = f"recodings = {rule.format(code)}\n"
        (clinics.files["alder"].parent / "veilsum.toml").write_text(text, "utf-8")
    found = clinics.look()
    [line] = [one for one in lines(found, "ok") if "recodings: " in one]
    assert shown.format(code) in line


def test_a_party_that_is_not_there_is_named(clinics):
    with clinics.running("birch", "cedar", "elm"):
        found = clinics.look()
    where = clinics.addresses["fir"]
    assert f"TCP: connection refused at {where}" in only_problem(found)
    [advice] = lines(found, "->")
    assert f"outbound TCP {where.port} to {HOST} here" in advice


def test_one_that_is_to_call_is_not_seen_yet(clinics):
    with clinics.running("birch", "cedar", "elm"):
        found = clinics.look("fir")
    # Those who are there were reached; alder may still call.
    assert found.exit_code == 0, found.output
    [line] = lines(found, "not seen")
    assert f"waits for alder to dial {clinics.addresses['fir']}" in line
    assert found.stdout.endswith("\nnothing is wrong; not seen yet: alder\n")


def test_a_port_in_use_is_named(clinics):
    place = clinics.addresses["alder"]
    with (
        clinics.running(*CLINICS[1:]),
        closing(socket.create_server((place.host, place.port))) as other,
    ):
        # It accepts and hangs up, as fast as any other program.
        threading.Thread(target=hang_up, args=[other], daemon=True).start()
        line = only_problem(clinics.look())
    assert f"port: cannot listen at {place}: another program" in line


def hang_up(server):
    caller, _ = server.accept()
    caller.close()


def test_another_port_to_listen_at_can_be_given(clinics):
    with clinics.running(*CLINICS[1:]):
        found = clinics.look("alder", "--listen", f"{HOST}:{free_port()}")
    assert found.exit_code == 0, found.output


def test_an_edited_file_is_named(clinics):
    edited = {**clinics.agreed.to_table(), "policy": {"tolerate": 1}}
    with (
        clinics.running("birch", "cedar", "elm"),
        clinics.running("fir", agreed=consortium_from(edited)),
    ):
        found = clinics.look()
    assert "agreement: its consortium file differs" in only_problem(found)
    assert "in: policy" in only_problem(found)


def test_clocks_hours_apart_are_named(clinics):
    with (
        clinics.running("birch", "cedar", "elm"),
        clinics.running("fir", clock=lambda: time.time() + 10_000),
    ):
        found = clinics.look()
    assert "clock: its clock is 10,000 s ahead" in only_problem(found)


def test_an_unlisted_identity_is_named(clinics, tmp_path):
    new_identity("gum", tmp_path / "gum")
    found = clinics.look("alder", "--identity", tmp_path / "gum" / "gum.key")
    assert "'gum' is no member of this consortium" in only_problem(found)


def test_without_a_key_there_is_nothing_to_look_at(clinics, tmp_path):
    clinics.identities["alder"].key_file.unlink()
    said = refusal("--network", clinics.files["alder"], "--wait", 0)
    assert "--identity" in said


def test_a_file_that_is_none_is_one_sentence(tmp_path):
    assert "study.toml" in refusal("--network", tmp_path / "study.toml")


@each(
    "words",
    [
        (),
        ("--graph", "ring:5"),
        ("--tolerate", "1"),
        ("--network", "x.toml", "--graph", "ring:5", "--tolerate", "1"),
        ("--network", "x.toml", "--tolerate", "1"),
        ("--network", "x.toml", "--allocate"),
        ("--graph", "ring:5", "--tolerate", "1", "--wait", "3"),
        ("--graph", "ring:5", "--tolerate", "1", "--identity", "a.key"),
    ],
    ids=" ".join,
)
def test_a_graph_or_a_network_but_not_both(words):
    said = refusal(*words)
    assert "either --graph SPEC and --tolerate T, or --network CONSORTIUM" in said
