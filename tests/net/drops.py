"""Parties that meet through folders only, and whoever carries files between these."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from pathlib import Path

import pytest
import tomli_w

from net.village import Village
from veilsum.consortium.consortium import consortium_from
from veilsum.errors import WaitingError
from veilsum.files.consortiums import write_consortium
from veilsum.files.ledger import open_ledger
from veilsum.net.drop import (
    SUFFIX,
    DropFolder,
    NetworkFileDrop,
    letter_file_name,
    split_drop_letter,
)
from veilsum.net.identity import read_identity
from veilsum.party.consent import consent_to
from veilsum.party.inputs import party_contribution
from veilsum.party.local import local_run
from veilsum.party.networked import NetworkedParty
from veilsum.party.run import receipt_of_party_run
from veilsum.privacy.accountant import Budget
from veilsum.protocol.plan import ProtocolPlan, ProtocolPolicy

# As few as may be: every visit of every party waits for its disk several times.
THREE = {
    "title": "three",
    "graph": {"family": "complete:3"},
    "parties": {"names": ["a", "b", "c"]},
    "cost": {
        "kind": "squared-distance",
        "targets": [[1.25, 2.0], [3.0, -4.5], [5.75, 6.0]],
    },
    "domain": {"kind": "all"},
    "masks": {"law": "lattice", "sigma": 1e6, "grid": 24},
    "method": {"name": "one-shot"},
    "policy": {"tolerate": 0},
}

NAMES = ("a", "b", "c")
# Certificates are slow to make: all offices have the same.
FOUNDED = []


class Memory:
    """A run's store without a disk."""

    path = "state.run"

    def __init__(self, entries=()):
        self.entries = dict(entries)

    def read(self):
        return dict(self.entries)

    def write(self, writes):
        for one in writes:
            self.entries.pop(one.key, None)
            if one.value is not None:
                self.entries[one.key] = one.value


class Office:
    """Three parties that send each other arbitrary frames through folders."""

    def __init__(self, place):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        self.place = place
        (self.village,) = FOUNDED or [self.founded()]
        self.agreed = self.village.consortium()
        self.stores = {name: Memory() for name in NAMES}
        self.heard = {name: [] for name in NAMES}
        self.left = {name: set() for name in NAMES}
        for name in NAMES:
            self.folder(name).mkdir()

    def founded(self):
        keys = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, keys, ignore_errors=True)
        FOUNDED.append(Village(keys, NAMES))
        return FOUNDED[0]

    def folder(self, name):
        return self.place / name

    def files(self, name):
        return sorted(self.folder(name).glob(f"*{SUFFIX}"))

    def plan(self):
        law = self.agreed.masks.on(self.agreed.topology)
        policy = ProtocolPolicy(minimum_parties=2, minimum_honest=2)
        return ProtocolPlan(
            terms=b"",
            topology=self.agreed.topology,
            law=law,
            size=1,
            answer_size=1,
            policy=policy,
        )

    def drop(self, name, **options):
        given = {
            "plan": self.plan(),
            "store": self.stores[name],
            "folder": DropFolder(self.folder(name), once=True),
            "hear": lambda sender, frame: self.heard[name].append((sender, frame)),
            "met": lambda _: None,
            "left": self.left[name].add,
            **options,
        }
        agreed = given.pop("consortium", self.agreed)
        return NetworkFileDrop(self.village.identities[name], agreed, **given)

    def visit(self, name, frames=(), **options):
        """Start a party, send frames (to, bytes), and see what it says at the end."""
        made = self.drop(name, **options)

        async def run():
            await made.open()
            for to, frame in frames:
                made.send(to, frame)
            await made.until(asyncio.get_running_loop().create_future())

        with pytest.raises(WaitingError) as said:
            asyncio.run(run())
        return str(said.value)

    def carry(self, name=None):
        """Copy everything that is for somebody to it."""
        for source in [name] if name else NAMES:
            for path in self.files(source):
                found = split_drop_letter(path.read_bytes())
                if found is not None and found[0].receiver in self.others(source):
                    to = self.folder(found[0].receiver)
                    shutil.copy2(path, to / path.name)

    def others(self, name):
        return [one for one in NAMES if one != name]

    def meet(self):
        """Have all exchange their first letters."""
        for name in NAMES:
            self.visit(name)
        self.carry()

    def once(self, name):
        """What a party heard, without what it was told again."""
        return list(dict.fromkeys(self.heard[name]))

    def name(self, sender, receiver, number):
        return letter_file_name(self.agreed.run, sender, receiver, number)


def _without_addresses(agreed):
    table = agreed.to_table()
    for member in table["members"]:
        del member["address"]
    return consortium_from(table)


class Folders:
    """The parties of a scenario; every visit of one is a process of its own.

    Attributes:
        waits: what each party was told last, unless it has finished.
        found: the results, by party.
        records: by party: told of everything that happens to it.
        kind: of party.
    """

    def __init__(self, folder, table):
        folder.mkdir(parents=True, exist_ok=True)
        scenario = folder / "scenario.toml"
        scenario.write_text(tomli_w.dumps(table))
        local = local_run(scenario, folder / "parties")
        self.addressed, self.seats = local.consortium, local.seats
        self.consortium = _without_addresses(self.addressed)
        for name in self.names:
            path = self.folder(name) / "consortium.toml"
            path.unlink()
            write_consortium(path, self.consortium)
        self.waits, self.found, self.drivers, self.records = {}, {}, {}, {}
        self.kind = NetworkedParty
        for name in self.names:
            self.letters(name).mkdir()

    @property
    def names(self):
        return tuple(self.seats)

    def folder(self, name):
        return self.seats[name].folder

    def letters(self, name):
        return self.folder(name) / "letters"

    def state(self, name):
        return self.folder(name) / "state.run"

    def files(self, name):
        return sorted(self.letters(name).glob(f"*{SUFFIX}"))

    def driver(self, name, **options):
        return self.kind(
            identity=read_identity(self.folder(name) / f"{name}.key"),
            consortium=self.consortium,
            state=self.state(name),
            record=self.records.get(name),
            drop=DropFolder(self.letters(name), once=True),
            **options,
        )

    def visit(self, name, **options):
        """Have a party do what it can; say whether it has finished."""
        self.drivers[name] = driver = self.driver(name, **options)
        option, file = self.seats[name].option
        given = {option.removeprefix("--"): self.folder(name) / file}
        path = self.folder(name) / f"{name}.ledger"
        budget = None if path.exists() else Budget()
        with open_ledger(path, create=budget) as ledger:
            try:
                self.found[name] = party_contribution(self.consortium, **given).run(
                    driver, ledger
                )
            except WaitingError as error:
                self.waits[name] = str(error)
                return False
        self.waits.pop(name, None)
        return True

    def carry(self, source, target=None):
        """Copy a party's letters to whom they are for, or to one of these."""
        for path in self.files(source):
            for name in [target] if target else self.names:
                if name != source and f"-to-{name}-" in path.name:
                    shutil.copy2(path, self.letters(name) / path.name)

    def carry_all(self):
        for name in self.names:
            self.carry(name)

    def rounds(self, most=40, carry=None):
        """Visit all and carry, until all have finished; return how often."""
        for count in range(1, most + 1):
            for name in self.names:
                if name not in self.found:
                    self.visit(name)
            if len(self.found) == len(self.names):
                return count
            (carry or self.carry_all)()
        raise AssertionError(f"no end after {most} rounds: {self.waits}")

    def receipts(self):
        page = consent_to(self.consortium)
        return [
            receipt_of_party_run(self.drivers[n], one, page)
            for n, one in self.found.items()
        ]
