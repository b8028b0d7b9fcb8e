"""Transcripts of real parties: the same as a simulation's, and a file of their own."""

import stat
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from attacks.catalogue import KINDS, PARTIES, even
from attacks.test_frames import scenario
from net.runs import ITERATED, Company, DiedError, answers, changed
from net.test_runs import dying
from refusals import refused
from veilsum.drivers.driver import DriverAssignment
from veilsum.errors import OutputError
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.minimise.arrays import MethodArrays
from veilsum.net.identity import new_identity
from veilsum.numbers.limbs import total_of_wide_integers as add_up
from veilsum.numbers.units import UnitCounts
from veilsum.party.transcript_file import (
    FORMAT,
    earlier_transcript,
    read_transcript,
    write_transcript,
)
from veilsum.privacy.transcript import (
    Transcript,
    TranscriptDrawnEpoch,
    simulate_transcript,
)

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

QUICK = ("sum", "logistic", "dgd")
LONGER = ("statistics", "least squares", "dispatch")
DGD = changed(
    ITERATED,
    method=None,
    stopping={"tolerance": 1e3, "iterations": 12},
)
DGD["method"] = {"name": "dgd"}


class Tapped(Company):
    """Parties whose shares follow a seed, and who keep what they exchange."""

    def __init__(self, folder, table):
        super().__init__(folder, table)
        self.assignments, self.kept, self.streams = {}, {}, ShareStreams(7)
        self.options = {name: self.tapped(name) for name in self.names}

    def tapped(self, name, **more):
        return {
            "keep": lambda transcript: self.kept.update({name: transcript}),
            "confirm": lambda task: self.assignments.setdefault(name, task),
            **more,
        }

    def transcripts(self):
        return {name: self.kept[name] for name in self.names}

    def simulated(self):
        """What a simulation of the same parties, under the same plan, says."""
        works = {name: task.works[name] for name, task in self.assignments.items()}
        task = DriverAssignment(
            plan=self.drivers["a"].plan,
            works={name: works[name] for name in self.names},
            foresee=lambda: None,
        )
        return MethodArrays(seed=7, watched=True).carry_out(task).seen.transcript


def met(name, folder):
    rows = KINDS[name].rows(0, 200)
    return Tapped(folder, scenario(name, even(rows), rows, folder))


@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LONGER)],
)
def test_real_parties_exchange_what_a_simulation_says(name, tmp_path):
    company = Tapped(tmp_path, DGD) if name == "dgd" else met(name, tmp_path)
    answers(company.run())
    found, expected = company.transcripts(), company.simulated()
    for party in PARTIES:
        assert found[party] == expected([party])
    assert Transcript.together(found.values()) == expected(PARTIES)
    both = Transcript.together([found["b"], found["d"]])
    assert both == expected(["b", "d"])
    if name == "dgd":
        assert len(both.rounds[0].told) > 8


@pytest.mark.parametrize("keeps", [True, False])
def test_who_dies_and_comes_back_has_one_transcript(keeps, tmp_path):
    """What an earlier start has kept is part of it; without that, much is missing."""
    company, kept = met("logistic", tmp_path), []

    async def come_and_go(company):
        company.records["b"] = dying("charge", 3)
        died = await company.start("b")
        assert isinstance(died["b"], DiedError), died
        company.records["b"] = None
        kept.append(company.kept["b"])
        if keeps:
            company.options["b"] = company.tapped("b", earlier=kept[0])
        return await company.start("b")

    answers(company.run("a", "c", "d", meanwhile=come_and_go))
    found, expected = company.transcripts()["b"], company.simulated()(["b"])
    assert kept[0] != expected
    assert (found == expected) == keeps
    for k, exchange in enumerate(expected.rounds):
        if keeps or k > 1:  # from the round on in which it died
            assert found.rounds[k].total.tobytes() == exchange.total.tobytes()
            found.view(round=k)
    if not keeps:
        with refused("epoch-incomplete", mentions=("0",)):
            found.view(round=0)


# The file


RING = Topology.from_edges(
    [("ann", "bob"), ("bob", "cem"), ("cem", "dua"), ("dua", "ann")],
    weights=[1.0, 2.0, 1.0, 0.5],
)
COUNTS = UnitCounts(units=(Fraction(1, 2), Fraction(1, 100)), bits=90)
MASKS = {
    "uniform": Masks("uniform", unit=0.01).on(RING),
    "lattice": Masks("lattice", sigma=1e6, grid=24, largest=1e5).on(RING),
    "wide": Masks("lattice", sigma=[1e25, 1e26], unit=0.25).on(RING),
    "counts": Masks("uniform").for_sums(RING, COUNTS),
    "lattice counts": Masks("lattice", sigma=1e25).for_sums(RING, COUNTS),
}


def made(law, *, corrupted=("ann",)):
    shares = draw_mask_shares(RING, law, ShareStreams(5), size=2)
    kind = float if law.counted is None else object
    given = [np.array([k, 31415 * k], dtype=kind) for k in range(4)]
    own = np.stack([law.encode(one) for one in given])
    drawn = TranscriptDrawnEpoch(0, own, shares, total=law.wrap(add_up(own)))
    told = {(k, name): np.array([0.125, k]) for k in range(3) for name in RING.parties}
    return simulate_transcript(
        law, [replace(drawn, told=told)], corrupted=corrupted, plan=b"7"
    )


@pytest.fixture
def ann(tmp_path):
    return new_identity("ann", tmp_path / "ann")


@pytest.mark.parametrize("law", MASKS.values(), ids=MASKS)
def test_what_is_written_is_read(law, ann, tmp_path):
    path, kept = tmp_path / "ann.transcript", made(law)
    write_transcript(path, kept, ann, run="run 1")
    found = read_transcript(path, ann.key_file, run="run 1")
    assert found == kept
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    view, expected = found.view(), kept.view()
    assert view.stripped.tobytes() == expected.stripped.tobytes()
    assert view.estimates.tolist() == expected.estimates.tolist()
    other = made(law, corrupted=["bob"])
    assert Transcript.together([found, other]) == made(law, corrupted=["ann", "bob"])


def test_a_file_of_another_run_or_kind_is_not_written_over(ann, tmp_path):
    path = tmp_path / "new" / "ann.transcript"
    assert earlier_transcript(path, ann, run="run 1") is None
    write_transcript(path, made(MASKS["uniform"]), ann, run="run 1")
    assert earlier_transcript(path, ann, run="run 1") == made(MASKS["uniform"])
    with refused("transcript-of-other-run", OutputError, mentions=("2",)):
        earlier_transcript(path, ann, run="run 2")
    with refused("not-a-transcript", OutputError):
        earlier_transcript(ann.key_file, ann, run="run 1")
    with refused("not-a-file", OutputError):
        earlier_transcript(tmp_path, ann, run="run 1")


@pytest.mark.parametrize("version", [1, 2, 4])
def test_another_version_is_not_guessed_at(version, ann, tmp_path):
    path = tmp_path / "ann.transcript"
    write_transcript(path, made(MASKS["uniform"]), ann, run="run 1")
    other = b"veilsum transcript %d\n" % version
    path.write_bytes(path.read_bytes().replace(FORMAT, other))
    with refused("wrong-format", mentions=(version,)):
        read_transcript(path, ann)


def test_what_is_too_long_is_not_written(ann, tmp_path, monkeypatch):
    path = tmp_path / "ann.transcript"
    monkeypatch.setattr("veilsum.party.transcript_file.MOST_BYTES", 100)
    with refused("transcript-too-large", OutputError, mentions=("100",)):
        write_transcript(path, made(MASKS["uniform"]), ann, run="run 1")
    assert not path.exists()
    path.write_bytes(FORMAT + bytes(300))
    with refused("file-too-large", mentions=("321",)):
        read_transcript(path, ann)
