"""What is private in a run between real parties shows up nowhere outside of it.

Every byte on the wire, every line of the logs, every traceback and every file is
searched for each share, coefficient, masked number, row and key. Each search has a
twin that finds what it looks for where it has to be.
"""

import asyncio
import io
import logging
import stat
import subprocess
import traceback
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from rich.traceback import Traceback

from idle_clock import patiently
from net.runs import ONE_SHOT, Company, answers, changed, data_files
from veilsum.cli.join import ForMachines, ForPeople
from veilsum.drivers.driver import GivenUpError
from veilsum.files.output import as_strict_json
from veilsum.minimise.party_cost import PartyCost
from veilsum.numbers.limbs import limbs_to_integers
from veilsum.protocol.messages import Deposit, Masked, Share

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

STREAM = np.random.default_rng(20)
SECRET = STREAM.uniform(-90, 90, size=(4, 3)).tolist()
COST = {"kind": "squared-distance", "targets": SECRET}
COSTS = {
    **ONE_SHOT,
    "cost": COST,
    "policy": {"tolerate": 1, "resend": 0.2, "deadline": 1.0, "patience": 1},
}
UNIFORM = {**COSTS, "masks": {"law": "uniform", "grid": 24}}
SCHEMA = {
    "minimum_rows": 20,
    "columns": {
        "x": {"kind": "number", "minimum": -100, "maximum": 100},
        "y": {"kind": "number", "minimum": -100, "maximum": 100},
    },
}
JOB = {
    "title": "four wards",
    "schema": SCHEMA,
    "model": {"formula": "y ~ x"},
    "graph": {"edges": [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"]]},
    "policy": {"tolerate": 1, "resend": 0.2, "deadline": 1.0, "patience": 1},
}


def job(folder):
    found = {
        name: pd.DataFrame(STREAM.uniform(-90, 90, size=(30, 2)), columns=["x", "y"])
        for name in "abcd"
    }
    return data_files(JOB, found, folder)


class Witness:
    """Takes down everything that happens to a party, and what of it is secret."""

    def __init__(self):
        self.events = []

    def __call__(self, what, detail, peer):
        self.events.append((what, detail, peer))

    def frames(self):
        return [detail for what, detail, _ in self.events if what == "send"]

    def messages(self, plan):
        codec = plan.codec
        kept = [
            detail.value
            for what, detail, _ in self.events
            if what == "persist" and detail.key.startswith(("sent/", "got/", "masked/"))
        ]
        return [codec.decode(value) for value in kept if value is not None]


def watched(company):
    company.records = {name: Witness() for name in company.names}
    return company.records


def secret_numbers(company):
    """Shares, keys of shares and masked numbers, by everybody's own account."""
    numbers, keys = [], []
    plan = next(driver.plan for driver in company.drivers.values() if driver.plan)
    for witness in company.records.values():
        for message in witness.messages(plan):
            numbers.append(message.numbers)
            if isinstance(message, Share):
                keys.append(message.key)
    return numbers, keys


def private_values(company):
    """What each party brings: coefficients of costs, or the rows of its table."""
    found = []
    for name in company.names:
        option, file = company.seats[name].option
        path = company.folder(name) / file
        if option == "--data":
            found.append(pd.read_csv(path).to_numpy().ravel())
            continue
        entries = company.part(name).entries
        cost = PartyCost.of(company.consortium, entries)
        found += [np.ravel(entries["targets"]), cost.cost.coefficients]
        found.append(cost.plan.law.encode(cost.cost.coefficients))
    return found


def values(arrays):
    """Every number, of limbs the whole one."""
    for array in arrays:
        yield from limbs_to_integers(array).ravel().tolist()


def as_bytes(arrays):
    """Every number as eight little endian bytes; noughts and units prove nothing."""
    found = set()
    for value in values(arrays):
        if abs(value) < 2:
            continue
        if isinstance(value, int):  # of wider integers the lower half
            found.add((value % (1 << 64)).to_bytes(8, "little"))
        else:
            found.add(np.float64(value).tobytes())
    return found


def as_texts(arrays, keys=()):
    """The same, as people and programs print them."""
    found = set()
    for value in values(arrays):
        found |= {repr(value), f"{value:.8g}"} if abs(value) > 2 else set()
    for blob in (*as_bytes(arrays), *keys):
        found |= {blob.hex(), repr(blob)[2:-1]}
    return {text for text in found if len(text) > 6}


def needles(company):
    """All secrets of a run as texts."""
    numbers, keys = secret_numbers(company)
    for name in company.names:
        pem = (company.folder(name) / f"{name}.key").read_text().splitlines()
        keys.append(pem[1].encode())
    return as_texts([*numbers, *private_values(company)], keys) | {
        key.decode() for key in keys if key.isascii()
    }


def found_in(text, secrets):
    return sorted(secret for secret in secrets if secret in text)


# On the wire


@pytest.fixture(scope="module", params=["lattice", "uniform"])
def ended(request, tmp_path_factory):
    """Parties of a run that has ended, behind proxies, and their results."""
    company = Company(
        tmp_path_factory.mktemp("ended"),
        UNIFORM if request.param == "uniform" else COSTS,
    )
    watched(company)
    found = company.run_behind()
    answers(found)
    return company, found


def test_no_byte_on_the_wire_is_a_share_or_a_coefficient(ended):
    company, _ = ended
    numbers, keys = secret_numbers(company)
    secrets = as_bytes([*numbers, *private_values(company)]) | set(keys)
    assert len(secrets) > 60
    wire = b"".join(
        bytes(one.seen[way]) for one in company.proxies.values() for way in one.seen
    )
    plain = [
        frame for witness in company.records.values() for frame in witness.frames()
    ]
    assert len(wire) > sum(map(len, plain)), "every byte was seen"
    assert [secret for secret in secrets if secret in wire] == []
    # The twin: the frames that went into the connections hold them.
    spoken = b"".join(plain)
    shown = as_bytes(numbers) | set(keys)
    assert [secret for secret in shown if secret not in spoken] == []
    # But not what only its owner may know: that leaves masked, or not at all.
    assert not any(secret in spoken for secret in as_bytes(private_values(company)))
    kinds = {type(company.drivers["a"].plan.codec.decode(frame)) for frame in plain}
    assert Masked in kinds
    assert Deposit not in kinds, "whoever shows its numbers to all deposits none"


def test_only_neighbours_are_told_shares(tmp_path):
    """What TLS hides is also for one pair of eyes each: frames go to one neighbour."""
    company = Company(tmp_path, changed(COSTS, graph={"family": "ring:4"}))
    witnesses = watched(company)
    answers(company.run())
    codec = company.drivers["a"].plan.codec
    for witness in witnesses.values():
        to = {}
        for what, frame, peer in witness.events:
            message = codec.decode(frame) if what == "send" else None
            if isinstance(message, Share):
                to.setdefault(message.key, set()).add(peer)
        assert to
        assert all(len(seen) == 1 for seen in to.values())


# In logs


@contextmanager
def all_logs():
    """Everything that any logger says, as all formatters write it."""
    stream, root = io.StringIO(), logging.getLogger()
    kept, handlers = root.level, []
    # Whoever took part before in this process has set these up for itself.
    logs = [logging.getLogger(name) for name in ("veilsum.net", "asyncio")]
    for formatter in (ForPeople(), ForMachines(), logging.Formatter()):
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatter)
        handlers.append(handler)
    before = [(log.handlers[:], log.propagate, log.level) for log in logs]
    for log in logs:
        log.handlers[:], log.propagate = [], True
        log.setLevel(logging.DEBUG)
    root.setLevel(logging.DEBUG)
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield stream
    finally:
        for handler in handlers:
            root.removeHandler(handler)
        root.setLevel(kept)
        for log, (own, propagate, level) in zip(logs, before, strict=True):
            log.handlers[:], log.propagate = own, propagate
            log.setLevel(level)


@pytest.mark.parametrize(
    "kind", [pytest.param("cost", marks=pytest.mark.slow), "table"]
)
def test_no_log_holds_a_secret(kind, tmp_path):
    # To log everything, and to be cut off, takes time.
    waits = {"deadline": 20.0, "patience": 3}
    table = COSTS if kind == "cost" else job(tmp_path)
    company = Company(tmp_path, changed(table, policy=waits))
    watched(company)

    async def talkative():
        # Every callback is slow enough to be logged, with what it was called with.
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 0.0
        return await company.behind(meanwhile=cut)

    async def cut(company):
        for _ in range(5):
            await asyncio.sleep(0.05)
            for one in company.proxies.values():
                one.cut()

    with all_logs() as stream:
        answers(patiently(talkative(), debug=True))
    text = stream.getvalue()
    assert "connected" in text
    assert "Executing <" in text
    assert found_in(text, needles(company)) == []


@pytest.mark.parametrize(
    "formatter", [ForPeople(), ForMachines()], ids=["text", "json"]
)
def test_the_search_would_find_one_in_a_log(formatter):
    """The twin: a line that names a number, and one that holds a frame."""
    value, frame = SECRET[0][0], np.array(SECRET[0]).tobytes()
    secrets = as_texts([np.array(SECRET)])
    for extra in ({"share": value}, {"frame": frame}):
        record = logging.makeLogRecord({"msg": "event", **extra})
        assert found_in(formatter.format(record).replace("\\\\", "\\"), secrets)


# In tracebacks


def told(error):
    """All that a crash report might hold of an error, variables included."""
    plain = traceback.TracebackException.from_exception(error, capture_locals=True)
    stream = io.StringIO()
    rich = Traceback.from_exception(
        type(error),
        error,
        error.__traceback__,
        show_locals=True,
        locals_max_string=None,
    )
    Console(file=stream, width=400).print(rich)
    return "".join(plain.format()) + stream.getvalue()


class Broken:
    """Fails where it was told to, as a disk or a bug would."""

    def __init__(self, what, count=1):
        self.what, self.left, self.witness = what, count, Witness()
        self.messages = self.witness.messages

    def __call__(self, what, detail, peer):
        self.witness(what, detail, peer)
        self.left -= what == self.what
        if self.left == 0 and what == self.what:
            raise RuntimeError("it broke")


@pytest.mark.parametrize(
    ("kind", "what", "count"),
    [
        ("cost", "written", 3),
        ("table", "charge", 1),
        pytest.param("table", "written", 3, marks=pytest.mark.slow),
        pytest.param("table", "deliver", 1, marks=pytest.mark.slow),
    ],
)
def test_no_traceback_holds_a_secret(kind, what, count, tmp_path):
    company = Company(tmp_path, COSTS if kind == "cost" else job(tmp_path))
    watched(company)
    company.records["b"] = Broken(what, count)
    found = company.run()
    assert isinstance(found["b"], RuntimeError), found["b"]
    text = told(found["b"])
    assert "it broke" in text
    assert "runner.py" in text, "it still says where"
    others = [found[name] for name in "acd"]
    said = [told(one) for one in others if isinstance(one, Exception)]
    assert found_in("\n".join([text, *said]), needles(company)) == []


@pytest.mark.parametrize("kind", ["cost", "table"])
def test_no_traceback_of_bad_data_holds_a_row(kind, tmp_path):
    company = Company(tmp_path, COSTS if kind == "cost" else job(tmp_path))
    watched(company)
    secrets = as_texts(private_values(company))
    option, file = company.seats["b"].option
    path = company.folder("b") / file
    text = path.read_text()
    if option == "--data":
        path.write_text(text.replace("x,y", "x,z"))
    else:
        path.write_text(text.replace("targets", "target"))
    (error,) = company.run("b").values()
    assert isinstance(error, Exception)
    assert found_in(told(error), secrets) == []


def test_the_search_would_find_one_in_a_traceback():
    """The twin: a plain function that fails with a number in a variable."""

    def fail():
        frame, share = np.array(SECRET[0]).tobytes(), SECRET[1][1]
        raise RuntimeError(len(frame) + share * 0)

    with pytest.raises(RuntimeError) as caught:
        fail()
    assert len(found_in(told(caught.value), as_texts([np.array(SECRET)]))) > 3


# On disk


ENDINGS = ("", "-wal", "-shm", "-journal")


def state(company, name):
    """All bytes of a party's state, read by another process as a thief would."""
    paths = [company.folder(name) / f"state.run{ending}" for ending in ENDINGS]
    there = [str(path) for path in paths if path.exists()]
    return subprocess.run(["cat", *there], capture_output=True, check=True).stdout


class Thief(Witness):
    """Also takes a copy of the state when the run is committed, and may end it then."""

    def __init__(self, company, name, *, stop):
        super().__init__()
        self.company, self.name, self.stop, self.copy = company, name, stop, b""

    def __call__(self, what, detail, peer):
        super().__call__(what, detail, peer)
        if what != "charge":
            return
        self.copy = state(self.company, self.name)
        if self.stop:
            asyncio.get_running_loop().call_soon(self._stop)

    def _stop(self):
        runner = self.company.drivers[self.name].runner
        runner._do(lambda: runner.machine.stop("stopped"))


@pytest.mark.parametrize("stop", [False, True], ids=["finished", "given up"])
def test_nothing_secret_is_left_in_the_state(stop, tmp_path):
    company = Company(tmp_path, COSTS)
    watched(company)
    thief = company.records["b"] = Thief(company, "b", stop=stop)
    found = company.run()
    assert isinstance(found["b"], GivenUpError) is stop
    numbers, keys = secret_numbers(company)
    secrets = as_bytes([*numbers, *private_values(company)]) | set(keys)
    own = thief.messages(company.drivers["b"].plan)
    shares = [one for one in own if isinstance(one, Share)]
    # The twin: they are there while they are needed.
    assert len(shares) == 6
    for one in shares:
        assert one.key in thief.copy
        assert one.numbers.tobytes() in thief.copy
    for name in company.names:
        left = state(company, name)
        assert left.startswith(b"SQLite format 3")
        assert [secret for secret in secrets if secret in left] == []


def check_results_and_files(company, found, *, table=False):
    """No secret is in a result or a receipt; files with one are their owner's alone."""
    secrets = needles(company)
    for one, receipt in zip(found.values(), company.receipts(found), strict=True):
        assert found_in(as_strict_json(one.to_dict()), secrets) == []
        assert found_in(receipt.to_json(), secrets) == []
        assert found_in(repr(one) if table else "", secrets) == []
    holding = 0
    for name in company.names:
        for path in company.files(name):
            text = path.read_bytes().decode("latin-1")
            if found_in(text, secrets):
                holding += 1
                assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    assert holding >= 2 * len(company.names), "keys and data are there"


def test_results_and_receipts_hold_no_secret_and_files_are_ones_own(ended):
    check_results_and_files(*ended)


def test_results_of_tables_hold_no_secret_and_files_are_ones_own(tmp_path):
    company = Company(tmp_path, job(tmp_path))
    watched(company)
    found = company.run()
    answers(found)
    check_results_and_files(company, found, table=True)
