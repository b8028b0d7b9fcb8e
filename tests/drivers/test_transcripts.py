"""What machines really exchanged is what a simulation says they did, to the last digit.

A transcript of all parties as rows of an array is computed; one of machines is read off
their frames, each party's by itself, and put together.
"""

import copy
import pickle
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import combinations

import numpy as np
import pytest

from attacks.catalogue import KINDS, PARTIES, even
from attacks.watching import LAWS, total, watched, whole
from cases import each
from refusals import refused
from veilsum.consortium.scenario import Settings
from veilsum.drivers import tap
from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback import Loopback
from veilsum.errors import ProtocolError, SecretError
from veilsum.graphs.topology import Topology
from veilsum.minimise.arrays import MethodArrays
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.solve import solve
from veilsum.numbers.limbs import add_wide_integers
from veilsum.privacy.transcript import HELD, Transcript
from veilsum.protocol.messages import MESSAGES, Down, Result

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@dataclass(frozen=True, kw_only=True)
class Kept(Loopback):
    """Machines on a network in memory, which is kept."""

    worlds: list = field(default_factory=list)

    def world(self, assignment):
        self.worlds.append(super().world(assignment))
        return self.worlds[-1]


COALITIONS = [c for size in (1, 2, 3, 4) for c in combinations(PARTIES, size)]
JOBS = ["sum", "statistics", "least squares", "logistic", "dispatch"]


def job(name, **options):
    kind = KINDS[name]
    rows = kind.rows(0)
    named = {"seed": 7, "run": "same", "law": "uniform", **options}
    return kind.run(kind.deal(even(rows), rows), **named)


def simulated(name, **options):
    """The transcripts of a simulation, and what each party gave in each round."""
    driver = MethodArrays(seed=7, watched=True)
    found, rounds = watched(partial(job, name), PARTIES, driver=driver, **options)
    return found.released.seen.transcript, rounds


def tapped(name, **options):
    """The transcripts that are read off machines' frames."""
    named = {"driver": Loopback(seed=7, watched=True), **options}
    return job(name, **named).released.seen.transcript


def methods(driver="vectorised", **changes):
    named = {
        "domain": Box(-9.0, 9.0, dim=1),
        "sigma": 50.0,
        "law": "lattice",
        "seed": 3,
        "settings": Settings(method="dgd", iterations=12, tolerance=1e3),
    }
    costs = dict(zip(PARTIES, map(cost, (1.0, 2.0, 6.0, 4.0)), strict=True))
    edges = [*zip(PARTIES, (*PARTIES[1:], "a"), strict=True)]
    ring = Topology.from_edges(edges, parties=PARTIES)
    return solve(
        costs, topology=ring, corrupted=(), driver=driver, **{**named, **changes}
    )


def cost(point):
    return Cost.squared_distance([point])


def same(rows, machines):
    """Everybody's; every coalition has the same in both, also from its members' own."""
    alone = {one: machines([one]) for one in PARTIES}
    for coalition in COALITIONS:
        assert rows(coalition) == Transcript.together(alone[one] for one in coalition)
        assert rows(coalition) == machines(coalition), coalition
    return rows(PARTIES)


def read_by(law, numbers):
    """Sums of a law's numbers, which are residues where they are too wide for it."""
    modulus = 1 << 8 * law.number_bytes
    return [(one + modulus // 2) % modulus - modulus // 2 for one in numbers]


@each("name", JOBS)
def test_machines_exchange_what_a_simulation_says(name):
    found, rounds = simulated(name)
    everybody = same(found, tapped(name))
    assert len(everybody.rounds) == len(rounds)
    assert len(rounds) > (2 if name == "logistic" else 0)
    law = everybody.law
    for found, given in zip(everybody.rounds, rounds, strict=True):
        assert {name: whole(one) for name, one in found.own.items()} == given
        # Masks cancel: the masked vectors of all add up to what was released.
        shown = law.wrap(reduce(add_wide_integers, found.masked.values()))
        assert shown.tobytes() == found.total.tobytes()
        shown = [int(one) for one in law.decode(found.total)]
        assert shown == read_by(law, total(given))


@each("options", [LAWS["lattice"], {"spread": "tree"}, {"law": "none"}])
def test_under_other_masks_and_along_a_tree_too(options):
    found, _ = simulated("logistic", **options)
    everybody = same(found, tapped("logistic", **options))
    first = everybody.rounds[0]
    assert set(first.subtrees) == ({"b", "c", "d"} if "spread" in options else set())


@each(
    "changes",
    [
        {},
        {"law": "gaussian"},
        {"settings": Settings(method="nids", iterations=8, tolerance=1e3)},
        {"settings": Settings(method="one-shot", spread="tree")},
    ],
)
def test_of_iterative_methods_all_that_was_told(changes):
    rows, machines = methods(**changes), methods(driver="loopback", **changes)
    everybody = same(rows.transcript, machines.transcript)
    assert len(everybody.rounds) == 1
    (found,) = everybody.rounds
    if not changes:
        # By an engine, which has no code in common with what parties do.
        last = max(index for index, _ in found.told)
        times = rows.trace.iterations.tolist()
        near = rows.trace.estimates[times.index(11)]
        told = np.array([found.told[last, name] for name in PARTIES])
        np.testing.assert_allclose(told[:, :1], near, atol=1e-11)
        alone = rows.transcript(["a"]).rounds[0]
        assert {name for _, name in alone.told} == {"a", "b", "d"}  # a ring
        assert set(alone.masked) == {"a", "b", "d"}  # left there should they vanish
        assert alone.total is None


def test_every_message_with_numbers_is_read_but_totals_and_answers():
    carries = {"numbers", "masked"}
    assert {
        kind for kind in MESSAGES if carries.intersection(kind.__struct_fields__)
    } == {kind for kind in MESSAGES if kind.part} | {Down, Result}
    assert {kind.part for kind in MESSAGES} - {""} == {*HELD} - {"own"}


def test_what_goes_wrong_on_the_way_changes_nothing():
    """Frames are lost and doubled, a party comes back: the numbers are the same."""
    crash = Crash("b", 25, back=3.0)
    faults = Faults(loss=0.2, duplicate=0.3, delay=(0.01, 0.4), crashes=(crash,))
    found, _ = simulated("logistic")
    same(
        found, tapped("logistic", driver=Loopback(seed=7, watched=True, faults=faults))
    )


def test_a_view_is_made_from_it():
    """The proof's view, of a flooded sum, is what the coalition really held."""
    one_shot = Settings(method="one-shot", spread="flooding")
    run = methods(driver="loopback", settings=one_shot)
    for coalition in (["a"], ["a", "c"], ["b", "c", "d"]):
        made, granted = run.transcript(coalition).view(), run.view(coalition)
        for key, value in vars(granted).items():
            if key not in {"heard", "estimates"}:
                found = getattr(made, key)
                assert (
                    np.array_equal(found, value) if key != "pieces" else found == value
                )
    assert run.transcript(["a", "c"]).view().component_sums().keys() == {("b",), ("d",)}


@pytest.mark.parametrize("name", ["uniform", "lattice"])
def test_every_round_has_a_view_that_yields_the_honest_sum(name):
    seen, rounds = simulated("logistic", **LAWS[name])
    assert len(rounds) > 2
    for k, given in enumerate(rounds):
        view = seen(["a"]).view(round=k)
        ((names, found),) = view.component_sums().items()
        honest = total({name: given[name] for name in names})
        law = seen(["a"]).law
        assert [int(one) for one in law.decode(found)] == read_by(law, honest)
        alone = seen(["a", "b", "c"]).view(round=k)
        assert whole(alone.stripped[0]) == given["d"]


def test_of_an_iterative_run_a_view_has_what_the_coalition_held():
    view = methods().transcript(["a"]).view()
    assert view.honest == ("b", "d")  # its neighbours on the ring
    assert view.pieces == ()  # c is in the only one
    assert view.heard == ("a", "b", "d")
    assert view.estimates.shape == (12, 3, 1)


def test_an_epoch_without_a_lost_party_has_the_others():
    """A party vanishes before anything was shown: of two exchanges one has an end."""
    gone = Faults(crashes=(Crash("d", 12, back=None),))
    driver = Kept(seed=1, watched=True, faults=gone)
    with pytest.raises(ProtocolError):
        job("sum", driver=driver, drop=True, minimum_honest=2)
    found = driver.worlds[0].taps["a"].transcript()
    assert [one.members for one in found.rounds] == [PARTIES, PARTIES[:3]]
    first, second = found.rounds
    assert first.total is None
    assert first.masked == {}
    assert second.total is not None
    with refused("epoch-incomplete", mentions=("0",)):
        found.view(round=0)
    assert found.view(round=1).honest == ("b", "c")


def test_transcripts_of_two_runs_are_not_put_together():
    one, other = (methods(seed=seed, run="a").transcript for seed in (3, 4))
    with refused("transcripts-disagree", mentions=("0,",)):
        Transcript.together([one(["a"]), other(["b"])])
    another = methods(sigma=60.0).transcript
    with refused("transcripts-of-other-run"):
        Transcript.together([one(["a"]), another(["b"])])
    with refused("no-transcripts"):
        Transcript.together([])


def test_one_changed_number_is_another_transcript():
    found = methods().transcript(["a"])
    (only,) = found.rounds
    for part in ("own", "shares", "masked", "told"):
        held = dict(getattr(only, part))
        key = next(iter(held))
        held[key] = held[key] + 1
        other = replace(found, rounds=(replace(only, **{part: held}),))
        assert other != found
    assert replace(found, rounds=(replace(only),)) == found
    assert found != "a"


def test_it_is_a_secret():
    found = methods().transcript(["a"])
    assert repr(found) == "Transcript of a: private; 1 epoch"
    assert repr(found.rounds[0]) == "<TranscriptExchange: private>"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(SecretError):
            leak(found)


def test_a_long_one_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(tap, "MOST_BYTES", 2000)
    found = methods(driver="loopback").transcript(["a"])
    assert not found.whole
    assert found != methods().transcript(["a"])


def test_who_repeats_itself_fills_no_transcript(monkeypatch):
    """A neighbour says it all again, and what the machine refuses: no room is lost."""
    driver = Kept(seed=3, watched=True, faults=Faults())
    run = methods(driver=driver)
    (world,) = driver.worlds
    tapped_, before = world.taps["a"], run.transcript(["a"])
    heard = [
        (one.detail, one.peer)
        for one in world.history
        if one.party == "a" and one.what == "receive"
    ]
    monkeypatch.setattr(tap, "MOST_BYTES", tapped_._bytes + 2000)
    for frame, peer in 20 * heard:
        tapped_.note("receive", frame, peer)
        changed = frame[:-1] + bytes([frame[-1] ^ 1])
        tapped_.note("receive", changed, peer)
        tapped_.note("refuse", "is not what an honest party sends", peer)
    assert run.transcript(["a"]) == before
    assert before.whole


def test_a_round_that_is_not_there_is_refused():
    with refused("round-out-of-range", mentions=("1", "0")):
        methods().transcript(["a"]).view(round=1)
