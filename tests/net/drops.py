"""Parties that meet through folders only, and whoever carries files between these."""

from __future__ import annotations

import shutil

import tomli_w

from veilsum.errors import WaitingError
from veilsum.files.ledger import open_ledger
from veilsum.net.drop import SUFFIX, DropFolder
from veilsum.net.identity import read_identity
from veilsum.parties.joining import own_part, receipt_of
from veilsum.parties.local import local_run
from veilsum.parties.networked import Networked
from veilsum.privacy.accountant import Budget


class Village:
    """The parties of a scenario; every visit of one is a process of its own.

    Attributes:
        waits: what each party was told last, unless it has finished.
        found: the results, by party.
        records: by party: told of everything that happens to it.
    """

    def __init__(self, folder, table):
        folder.mkdir(parents=True, exist_ok=True)
        scenario = folder / "scenario.toml"
        scenario.write_text(tomli_w.dumps(table))
        local = local_run(scenario, folder / "parties")
        self.consortium, self.seats = local.consortium, local.seats
        self.waits, self.found, self.drivers, self.records = {}, {}, {}, {}
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
        return Networked(
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
                self.found[name] = own_part(self.consortium, **given).run(
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
        return [receipt_of(self.drivers[n], one) for n, one in self.found.items()]
