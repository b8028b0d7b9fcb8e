"""Whole runs of several real parties in one process: real sockets, files and ledgers.

Every party's own work is done in a thread of its own, through the very functions that
the commands call; its network and its machine run in one event loop with everybody
else's, and with the proxies between them.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from unittest import mock

import tomli_w

from idle_clock import patiently
from net.proxy import Proxy
from net.village import HOST, QUICK, free_port
from veilsum.consortium.consortium import Address
from veilsum.drivers.driver import GivenUpError
from veilsum.files.ledger import open_ledger
from veilsum.files.output import as_strict_json
from veilsum.net.identity import read_identity
from veilsum.net.receipt import verify_receipts
from veilsum.net.relay_tokens import own_token
from veilsum.party import networked
from veilsum.party.consent import consent_to
from veilsum.party.inputs import party_contribution
from veilsum.party.local import local_run
from veilsum.party.networked import NetworkedParty
from veilsum.party.replay import agreed_findings, result_findings
from veilsum.party.run import receipt_of_party_run
from veilsum.privacy.accountant import Budget

# Idle seconds: no run here may be silent for longer, what hangs is an error.
LONGEST = 120.0
TARGETS = [[1.25, 2.0], [3.0, -4.5], [5.75, 6.0], [-7.0, 8.125]]
# Nobody waits for a person: parties are here or they are not.
WAITS = {"resend": 0.2, "deadline": 5.0, "patience": 2}
ONE_SHOT = {
    "title": "four",
    "graph": {"family": "complete:4"},
    "parties": {"names": ["a", "b", "c", "d"]},
    "cost": {"kind": "squared-distance", "targets": TARGETS},
    "domain": {"kind": "all"},
    "masks": {"law": "lattice", "sigma": 1e6, "grid": 24},
    "method": {"name": "one-shot"},
    "policy": {"tolerate": 1, **WAITS},
}
BOX = {"kind": "box", "lower": [-20.0] * 2, "upper": [20.0] * 2}
BOUNDS = {"smooth": 2.0, "mean_smooth": 2.0, "mean_convex": 2.0}
ITERATED = {
    **ONE_SHOT,
    "graph": {"family": "ring:4"},
    "domain": BOX,
    "method": {"name": "gradient-tracking", **BOUNDS},
    "stopping": {"tolerance": 1e-10, "iterations": 2000},
}
# Signs of life are wanted often, so that a test need not wait long for silence.
NERVOUS = replace(QUICK, ping_interval=0.3, ping_timeout=0.5)


def changed(table, **sections):
    """The scenario with some sections changed, key by key; None takes one out."""
    found = dict(table)
    for name, keys in sections.items():
        if isinstance(keys, dict) and name != "graph":
            found[name] = {**found.get(name, {}), **keys}
        elif keys is None:
            found.pop(name)
        else:
            found[name] = keys
    return found


class DiedError(Exception):
    """What ends a party at a point that a test chose, without a word to anybody."""


@dataclass
class _InTheLoop:
    """Runs a runner in the one event loop, whoever asks for it."""

    runner: object
    loop: asyncio.AbstractEventLoop

    async def run(self):
        work = asyncio.run_coroutine_threadsafe(self._in_the_loop(), self.loop)
        return await asyncio.wrap_future(work)

    async def _in_the_loop(self):
        with self.loop.back():
            return await self.runner.run()


class Member(NetworkedParty):
    """A party that runs in the loop of a test, with the limits of one."""

    loop, limits, runner, ahead = None, QUICK, None, 0.0
    plan, end = None, None

    def carry_out(self, assignment):
        """Take part, and keep for the test how it ended."""
        self.plan = assignment.plan
        try:
            released = super().carry_out(assignment)
        except GivenUpError as error:
            self.end = error.end
            raise
        self.end = released.end
        return released

    @property
    def ending(self):
        return None if self.end is None else self.end.ending

    def _runner(self, *given):
        self.runner = super()._runner(*given)
        made = self.runner.network
        frame = made.keywords["limits"].max_frame
        limits = replace(self.limits, max_frame=frame)
        self.runner.network = partial(
            made, limits=limits, clock=lambda: time.time() + self.ahead
        )
        return _InTheLoop(self.runner, self.loop)


class Company:
    """The parties of a scenario; every call of `run` starts them (again).

    Attributes:
        limits: of everybody's connections.
        records: by party: told of everything that happens to it.
        budgets: by party: what its ledger allows.
        options: by party: more of `NetworkedParty`.
        drivers: by party: the last ones that took part.
        proxies: by party: before its door, while it runs; see `behind`.
        ahead: by party: seconds that its clock is.
        streams: where all parties' shares come from, in place of the operating system.
        over: set when everybody who was started has ended.
    """

    streams = None

    def __init__(self, folder, table, *, limits=QUICK, **how):
        folder.mkdir(parents=True, exist_ok=True)
        scenario = folder / "scenario.toml"
        scenario.write_text(tomli_w.dumps(table))
        self.table, self.scenario = table, scenario
        self.local = local_run(scenario, folder / "parties", **how)
        self.consortium, self.seats = self.local.consortium, self.local.seats
        self.limits, self.records, self.budgets, self.options = limits, {}, {}, {}
        self.drivers, self.proxies, self._doors = {}, {}, {}
        self.over, self.ahead, self._moved = None, {}, asyncio.Event()

    @property
    def names(self):
        return tuple(self.seats)

    def folder(self, name):
        return self.seats[name].folder

    def part(self, name):
        option, file = self.seats[name].option
        agreed = self.options.get(name, {}).get("consortium", self.consortium)
        path = self.folder(name) / file
        return party_contribution(agreed, **{option.removeprefix("--"): path})

    def ledger(self, name):
        path = self.folder(name) / f"{name}.ledger"
        budget = None if path.exists() else self.budgets.get(name, Budget())
        return open_ledger(path, create=budget)

    def driver(self, name):
        options = {
            "consortium": self.consortium,
            "state": self.folder(name) / "state.run",
            "listen": self._doors.get(name),
            "token": self.consortium.relays
            and own_token(self.consortium.relays, None, self.folder(name)),
            "record": self.records.get(name),
            "watch": lambda _: self._moved.set(),
            **self.options.get(name, {}),
        }
        made = Member(
            identity=read_identity(self.folder(name) / f"{name}.key"),
            **options,
        )
        made.loop, made.limits = asyncio.get_running_loop(), self.limits
        made.ahead = self.ahead.get(name, 0.0)
        return made

    def _take_part(self, name, driver):
        with self.ledger(name) as ledger:
            return self.part(name).run(driver, ledger)

    def _drawing(self):
        """Nobody can hand streams to a real party: they are put in their place."""
        if self.streams is None:
            return nullcontext()
        return mock.patch.object(networked, "SystemStreams", return_value=self.streams)

    async def start(self, *names):
        """Start some; a result, or what was raised, by name."""
        for name in names:
            self.drivers[name] = self.driver(name)
        with self._drawing(), ThreadPoolExecutor(len(names)) as pool:
            calls = [self._in_a_thread(pool, name) for name in names]
            found = await asyncio.gather(*calls, return_exceptions=True)
        return dict(zip(names, found, strict=True))

    async def _in_a_thread(self, pool, name):
        loop = asyncio.get_running_loop()
        with loop.elsewhere():
            return await loop.run_in_executor(
                pool, self._take_part, name, self.drivers[name]
            )

    async def together(self, *names, meanwhile=None):
        """Run some of the parties, or all, to their ends; make trouble meanwhile.

        Trouble without an end of its own looks at `over`; what it returns is added.
        """
        self.over = asyncio.Event()
        trouble = asyncio.ensure_future(meanwhile(self) if meanwhile else _nothing())
        work = asyncio.ensure_future(self._to_the_end(names or self.names))
        _, late = await asyncio.wait(
            {work, trouble}, timeout=LONGEST, return_when=asyncio.FIRST_EXCEPTION
        )
        if late:
            self._end_all()
        found = await work | (await trouble or {})
        assert not late, f"the run did not end: {found}"
        await _nothing_left(found)
        return found

    async def until(self, true, what):
        """Wait for what only a move of somebody's machine can bring about."""
        while not true():
            self._moved.clear()
            async with asyncio.timeout(LONGEST):
                await self._moved.wait()
            assert not self.over.is_set(), f"the run ended before {what}"

    async def _to_the_end(self, names):
        try:
            return await self.start(*names)
        finally:
            self.over.set()
            self._moved.set()  # who waits for a move waits in vain now

    def _end_all(self):
        for driver in self.drivers.values():
            ended = getattr(driver.runner, "_ended", None)
            if ended is not None and not ended.done():
                ended.set_exception(DiedError("the test is over"))

    def run(self, *names, meanwhile=None):
        """The same, from outside of an event loop."""
        return patiently(self.together(*names, meanwhile=meanwhile))

    async def behind(self, *names, meanwhile=None):
        """Run with a proxy before every party's door."""
        async with AsyncExitStack() as stack:
            for name in self.names:
                self._doors[name] = Address(HOST, free_port())
                self.proxies[name] = Proxy(self._doors[name].port)
                await self.proxies[name].open()
                stack.push_async_callback(self.proxies[name].close)
            members = [
                replace(one, address=self.proxies[one.name].address)
                for one in self.consortium.members
            ]
            self.consortium = replace(self.consortium, members=tuple(members))
            return await self.together(*names, meanwhile=meanwhile)

    def run_behind(self, *names, meanwhile=None):
        return patiently(self.behind(*names, meanwhile=meanwhile))

    def receipts(self, found):
        page = consent_to(self.consortium)
        return [
            receipt_of_party_run(self.drivers[name], one, page)
            for name, one in found.items()
        ]

    def verdict(self, found):
        """What everybody's receipts prove, and the result and sums of the first."""
        receipts, agreed = self.receipts(found), self.consortium
        name, result = next(iter(found.items()))
        sums = self.drivers[name].ending.sums
        plain = self.result(name, result)
        more = [
            *agreed_findings(receipts, agreed),
            *result_findings(receipts, agreed, result=plain, sums=sums),
        ]
        verdict = verify_receipts(receipts, agreed)
        made = replace(verdict, findings=(*verdict.findings, *more))
        assert made.good, [one for one in made.findings if not one.good]
        return made

    def result(self, name, result):
        """What a party's result file says."""
        seal = self.drivers[name].ending.finish.seal.hex()
        return json.loads(as_strict_json({**result.to_dict(), "seal": seal}))

    def files(self, name):
        """Every file that a party has written or was given."""
        return [p for p in sorted(self.folder(name).rglob("*")) if p.is_file()]


async def _nothing():
    return {}


async def _nothing_left(found):
    """Fail if a task of a run is still there after it."""
    for _ in range(50):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        left = {task for task in left if not re.search("Proxy|Relay|serve", repr(task))}
        if not left:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"tasks are left after {found}: {left}")


def answers(found):
    """Everybody's answers, which must be there; errors are raised."""
    for one in found.values():
        if isinstance(one, BaseException):
            raise one
    return {name: one.answer for name, one in found.items()}


def reasons(found):
    """Why each party gave up, which all must have done."""
    told = {}
    for name, one in found.items():
        assert isinstance(one, Exception), f"{name} has an answer"
        told[name] = str(one)
    return told


def data_files(table, frames, folder):
    """A scenario of a job, with a CSV file for each party written beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return {**table, "data": {"files": {name: f"{name}.csv" for name in frames}}}
