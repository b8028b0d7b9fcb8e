"""Frames are as long whatever the numbers, and on a network say no more than in memory.

That two runs look the same to a coalition is tested in tests/audit for every job, on
machines in memory. Here parties are real ones, with sockets, disks and receipts; masks
are moved in the same way (see `veilsum.audit.noninterference`).
"""

import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest

from attacks.catalogue import (
    KINDS,
    PARTIES,
    SCHEMA,
    dealt,
    even,
    n_honest,
)
from attacks.watching import LAWS
from cases import each
from net.runs import Company, answers, data_files
from veilsum.audit.noninterference import (
    InterferenceDriver,
    MovedStreams,
    interference_moves_between_inputs,
)
from veilsum.masks.masking import ShareStreams
from veilsum.party.consent import consent_to
from veilsum.party.run import receipt_of_party_run
from veilsum.protocol.messages import Join, Record, Share


@each("law", LAWS)
@each("name", ["sum", "statistics", "least squares", "dispatch"])
def test_how_long_frames_are_says_nothing_of_the_numbers(name, law):
    """Other rows, as many of them, and masks: all frames of the first sum are as long.

    The number of sums may depend on totals, which all know.
    """
    lengths = []
    for seed in (0, 1, 2):
        rows, kind = KINDS[name].rows(seed), KINDS[name]
        driver = InterferenceDriver(seed=seed)
        held = kind.deal(even(rows), rows)
        fixed = {"unit": 0.01, "largest": 1e9} if name == "sum" else {}
        kind.run(held, driver=driver, run="same", **LAWS[law], **fixed)
        (world,) = driver.worlds
        got = [
            event.detail
            for event in world.history
            if event.party == "a" and event.what == "receive"
        ]
        lengths.append({len(frame) for frame in got if b"Masked" in frame[:40]})
    assert len(lengths[0]) == 1
    assert lengths[0] == lengths[1] == lengths[2]


# On a network


FOUR = {
    "title": "four hospitals",
    "graph": {"family": "complete:4"},
    "parties": {"names": list(PARTIES)},
    "masks": {"law": "uniform"},
    "policy": {"tolerate": 1, "resend": 0.2, "deadline": 5.0, "patience": 2},
}
CENTS = {
    "domain": {"kind": "all"},
    "method": {"name": "one-shot"},
    "cost": {"kind": "squared-distance", "unit": 0.01},
}
# As many rows a party as may be asked for so much.
ON_TABLES = {"schema": replace(SCHEMA, minimum_rows=30).to_table()}
BINS, WARDS = {"bmi": [10, 24, 28, 80]}, [["ward"]]
LOGISTIC = {"formula": "smoker ~ age + bmi", "family": "logistic"}
ASKED = {
    "sum": CENTS,
    "least squares": {"model": {"formula": "pressure ~ age + bmi"}, **ON_TABLES},
    "logistic": {"model": LOGISTIC, **ON_TABLES},
    "statistics": {
        "statistics": {"columns": ["age", "bmi"], "histograms": BINS, "tables": WARDS},
        **ON_TABLES,
    },
    "dispatch": {"dispatch": {"prices": [0, 50]}},
}


def scenario(name, dealing, rows, folder):
    """The file of four parties, and beside it what each of them has."""
    table = {**FOUR, **ASKED[name]}
    if name == "sum":
        sums = KINDS[name].deal(dealing, rows)
        targets = [sums[party].tolist() for party in PARTIES]
        return {**table, "cost": {**table["cost"], "targets": targets}}
    frames = {party: rows.iloc[places] for party, places in dealing.items()}
    return data_files(table, frames, folder)


KEPT = {"agreed", "answer", "charged", "closed", "commit", "finished"}
# Of a receipt: names of one run, keys, clocks, and what was made with these.
# What chance chose, or is keyed by what it chose.
FRESH = {"run", "plan", "consortium", "consent", "certificate"} | {
    *("started", "finished", "result", "sums", "signature")
}


class Meeting(Company):
    """Parties whose masks follow a seed and moves, and of whom `a` keeps what it hears.

    Attributes:
        moves: of honest parties' shares, for whoever draws them.
        works: by party, once it has begun.
        meet: called when all have begun, and nobody has drawn a share.
    """

    def __init__(self, folder, table, meet=lambda _: None):
        super().__init__(folder, table)
        self.moves, self.works, self.meet, self.heard = {}, {}, meet, []
        self.streams = MovedStreams(ShareStreams(7), self.moves)
        self.options = {
            name: {"confirm": partial(self.begin, name)} for name in self.names
        }
        self.records["a"] = lambda *event: self.heard.append(event)

    def begin(self, name, assignment):
        self.works[name] = assignment.works[name]
        if len(self.works) == len(self.names):
            self.meet(self)

    def kept(self, result):
        """What `a` has on its disk in the end, writes down and signs, but for chance.

        Of a run's file: what stands under which key; of a total all its bytes.
        """
        with closing(sqlite3.connect(self.folder("a") / "state.run")) as file:
            entries = dict(file.execute("SELECT key, value FROM entry"))
        totals = {key: one for key, one in entries.items() if key.startswith("answer/")}
        page = consent_to(self.consortium)
        receipt = asdict(receipt_of_party_run(self.drivers["a"], result, page))
        return {
            "keys": set(entries),
            "totals": totals,
            "end": self.drivers["a"].ending.finish.result.tobytes(),
            "receipt": {key: receipt[key] for key in receipt.keys() - FRESH},
            "result": {**result.to_dict(), "bytes": 0},  # more if somebody was slow
        }

    def said(self):
        """Of each message to `a` all that is not fresh chance.

        Keys, signatures and the names of a start are; numbers, and how long a frame is,
        are not. What is sent again, if somebody was slow, is one message.
        """
        codec, said = self.drivers["a"].plan.codec, set()
        for what, frame, peer in self.heard:
            if what == "receive":
                message = codec.decode(frame)
                numbers = getattr(message, "numbers", None)
                told = None if numbers is None else repr(numbers.tolist())
                asked = getattr(message, "request", None)
                if isinstance(message, Join):  # its epoch is a clock's
                    said.add(("Join", message.party, len(frame)))
                elif isinstance(message, Record):
                    said.add((message.id, len(frame), told, asked))
                elif isinstance(message, Share):
                    said.add(("Share", peer, message.epoch, len(frame), told))
        return said


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("name", ASKED)
def test_a_curious_party_hears_and_keeps_the_same_on_a_network(name, tmp_path):
    rows = KINDS[name].rows(0, 200)
    n = n_honest(rows)
    mixed = np.random.default_rng(3).permutation(n)
    dealing = dealt(rows, mixed, [n // 4, n // 2])

    def met(folder, dealing, rows, meet=lambda _: None):
        folder = tmp_path / folder
        company = Meeting(folder, scenario(name, dealing, rows, folder), meet)
        found = company.run()
        answers(found)
        return company, found["a"]

    first, found = met("first", even(rows), rows)
    plan, sums = first.drivers["a"].plan, found.released.sums
    shown = {k * plan.epochs_per_sum: PARTIES for k in range(len(sums))}

    def meet(company):
        works = first.works, company.works
        company.moves.update(
            interference_moves_between_inputs(plan, shown, sums, *works, {"a"})
        )

    second, again = met("second", dealing, rows, meet)
    assert second.said() == first.said()
    kept = first.kept(found)
    assert second.kept(again) == kept
    for k, total in enumerate(sums):  # no more than was released, and nothing beside it
        numbers = plan.codec.decode(kept["totals"][f"answer/{k}"]).numbers
        assert plan.law.decode(numbers).tolist() == total.tolist()
        assert np.array_equal(plan.law.encode(total), numbers)
    assert {key.split("/")[0] for key in kept["keys"]} == KEPT
    heard = {one[0] for one in first.said()}
    assert len(heard) >= 6 * len(sums)  # of three parties: who is ready, and masked
    # The twin: one row of an honest party is another one.
    rows.iloc[-1] = rows.iloc[-2]
    third, other = met("third", dealing, rows, meet)
    assert third.said() != first.said()
    changed = third.kept(other)
    assert all(changed[key] != kept[key] for key in ("totals", "end", "result"))
