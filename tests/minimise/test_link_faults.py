"""Lost, late and rounded messages, pausing links and parties: who bears what."""

import re
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from strategies import connected_topologies, few, seeds
from veilsum.errors import InvalidInputError
from veilsum.graphs.mixing import metropolis_weights
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.engines.engine import Engine, EngineTask
from veilsum.minimise.engines.faulty import FaultyEngine, FaultyPairs
from veilsum.minimise.engines.numpy import PlainEngine
from veilsum.minimise.methods.accelerated import AcceleratedTracking
from veilsum.minimise.methods.base import (
    EVERY_FAULT,
    Method,
    MethodTraits,
    mix_method_messages,
)
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.extra import Extra
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.methods.link_faults import LOST, LinkFaults
from veilsum.minimise.methods.nids import Nids
from veilsum.minimise.methods.one_way import one_way_column_weights, one_way_row_weights
from veilsum.minimise.methods.push_pull import PushPull
from veilsum.minimise.methods.registry import ITERATIVE, MethodNeeds, fitting_methods
from veilsum.minimise.methods.running_sums import RunningSums

DIM = 2
EVERYWHERE = WholeSpace(DIM)
METHODS = {
    "dgd": Dgd(Box(-20.0, 20.0, dim=DIM), scale=2.0),
    "extra": Extra(EVERYWHERE, 0.3),
    "nids": Nids(EVERYWHERE, 0.4),
    "gradient-tracking": GradientTracking(EVERYWHERE, 0.2),
    "accelerated": AcceleratedTracking(EVERYWHERE, 2.0, 0.5),
    "push-pull": PushPull(EVERYWHERE, 0.15),
    "running-sums": RunningSums(EVERYWHERE, 0.2),
}
every_method = pytest.mark.parametrize("name", METHODS)


@dataclass(frozen=True, eq=False)
class Bent:
    """The remainders x'P_i x / 2, row by row."""

    matrices: np.ndarray
    kind: str = field(default="local", init=False)

    def gradient(self, x):
        return (self.matrices @ x[:, :, None])[:, :, 0]

    def rows(self, which):
        return Bent(self.matrices[which])


@dataclass(frozen=True)
class Small:
    """Quadratics x'P_i x / 2 + q_i'x with masks on q; P_i average to diag(0.5, 2)."""

    family: str = "petersen"
    sigma: float = 0.0
    bend: float = 0.3

    @cached_property
    def topology(self):
        return Topology.family(self.family)

    @cached_property
    def matrices(self):
        rng = np.random.default_rng(5)
        turned = self.bend * rng.normal(size=(self.topology.n_parties, DIM, DIM))
        turned = turned + turned.transpose(0, 2, 1)
        return turned - turned.mean(axis=0) + np.diag([0.5, 2.0])

    @cached_property
    def vectors(self):
        return np.random.default_rng(6).normal(0.0, 2.0, (self.topology.n_parties, DIM))

    @cached_property
    def cost(self):
        theta = self.topology.incidence
        drawn = np.random.default_rng(7).normal(size=(theta.shape[1], DIM))
        masked = self.vectors + self.sigma * (theta @ drawn)
        return EffectiveCost(Affine(DIM), masked, Bent(self.matrices))

    @cached_property
    def solution(self):
        return np.linalg.solve(self.matrices.sum(axis=0), -self.vectors.sum(axis=0))

    def error(self, state):
        return np.linalg.norm(state.x - self.solution, axis=1).max()

    def engine(self, name, faults, method=None):
        kinds = {
            "symmetric": metropolis_weights,
            "row": one_way_row_weights,
            "column": one_way_column_weights,
        }
        symmetric = METHODS[name].traits.symmetric
        asked = ("symmetric",) if symmetric else ("row", "column")
        task = EngineTask(
            method=METHODS[name] if method is None else method,
            weights={kind: kinds[kind](self.topology) for kind in asked},
            cost=self.cost,
            start=np.zeros((self.topology.n_parties, DIM)),
        )
        return FaultyEngine(task, faults)

    def after(self, name, faults, count, method=None):
        engine = self.engine(name, faults, method)
        return engine.advance(engine.begin(), count)

    def count(self, name, faults, *, tolerance=1e-8, most=6000, method=None):
        """How many iterations, in tens, until all are that near; None if never."""
        engine = self.engine(name, faults, method)
        state = engine.begin()
        while state.iteration < most:
            state = engine.advance(state, 10)
            if self.error(state) <= tolerance:
                return state.iteration
        return None


@pytest.fixture
def borne(monkeypatch):
    """Let every method try every fault."""
    for method in ITERATIVE:
        traits = replace(method.traits, bears=EVERY_FAULT)
        monkeypatch.setattr(method, "traits", traits)


# What is drawn.


@each(
    ("wrong", "words"),
    [
        ({"loss": 1.0}, "no message would ever arrive; found 1.0"),
        ({"loss": -0.1}, "loss is a chance from 0 to below 1"),
        ({"loss": float("nan")}, "found nan"),
        ({"changing": 1.5}, "no link would ever work; found 1.5"),
        ({"idle": 1.0}, "stragglers would never move"),
        ({"delay": (3, 1)}, "the least and the most, like (0, 5); found (3, 1)"),
        ({"delay": (-1, 1)}, "two whole numbers of rounds"),
        ({"stragglers": 1.5}, "a part of the parties from 0 to 1, or the parties' row"),
        ({"within": 0}, "within must be at least 1, found 0"),
        ({"quantise": -1.0}, "the step of a grid, or 0 for none, found -1.0"),
        ({"quantise": float("inf")}, "found inf"),
        ({"seed": -3}, "must not be negative, found -3"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(wrong, words):
    with pytest.raises(InvalidInputError, match=re.escape(words)):
        LinkFaults(**wrong)


def test_nothing_goes_wrong_unless_asked_for():
    faults = LinkFaults()
    assert not faults.kinds
    assert (faults.takes(3, 50) == 0).all()
    assert not faults.out(3, 50).any()
    assert not faults.skips(3, faults.slow(50)).any()
    told = np.array([[0.1234]])
    assert faults.rounded(told, 3) is told


def test_messages_are_lost_and_late_as_often_as_asked():
    """Chances of three in ten, 200,000 draws: five standard errors are 0.005."""
    takes = LinkFaults(loss=0.3, delay=(2, 5), seed=4).takes(7, 200_000)
    assert np.mean(takes == LOST) == pytest.approx(0.3, abs=0.005)
    for late in (2, 3, 4, 5):
        assert np.mean(takes == late) == pytest.approx(0.7 / 4, abs=0.005)
    assert set(takes) == {LOST, 2, 3, 4, 5}


def test_each_kind_of_fault_and_each_iteration_has_draws_of_its_own():
    one = LinkFaults(loss=0.3, seed=9)
    more = LinkFaults(loss=0.3, delay=(0, 4), changing=0.5, stragglers=0.4, seed=9)
    lost = one.takes(3, 1000) == LOST
    assert ((more.takes(3, 1000) == LOST) == lost).all()
    others = [one.takes(4, 1000), one.takes(3, 1000, turn=1)]
    others.append(LinkFaults(loss=0.3, seed=10).takes(3, 1000))
    for other in others:
        assert 0.3 < np.mean((other == LOST) != lost) < 0.55  # 0.42 if independent


@few
@given(st.integers(1, 12), st.floats(0.0, 0.99), seeds, st.integers(0, 1000))
def test_every_link_works_once_in_every_so_many_iterations(within, chance, seed, first):
    faults = LinkFaults(changing=chance, within=within, seed=seed)
    window = [faults.out(k, 40) for k in range(first, first + within)]
    assert not np.all(window, axis=0).any()


def test_links_are_out_as_often_as_asked_beside_their_turns():
    faults = LinkFaults(changing=0.8, within=10)
    out = np.mean([faults.out(k, 20_000) for k in range(10)])
    assert out == pytest.approx(0.8 * 0.9, abs=0.005)


def test_stragglers_are_named_or_a_part_of_all():
    assert LinkFaults(stragglers=(1, 4)).slow(6).nonzero()[0].tolist() == [1, 4]
    parts = [LinkFaults(stragglers=0.25, seed=s).slow(10) for s in range(20)]
    assert {int(part.sum()) for part in parts} == {3}  # at least as many as asked
    assert len({part.tobytes() for part in parts}) > 10
    with refused("rows-out-of-range", mentions=("0", "5", "6")):
        LinkFaults(stragglers=(1, 6)).slow(6)


def test_rounding_is_to_the_nearest_or_right_on_average():
    told = np.full((20_000, 1), 0.537)
    near = LinkFaults(quantise=0.25).rounded(told, 0)
    assert (near == 0.5).all()
    either = LinkFaults(quantise=0.25, dither=True).rounded(told, 0)
    assert set(either.ravel()) == {0.5, 0.75}
    # The standard error is 0.09 / sqrt(20,000), five times below this.
    assert either.mean() == pytest.approx(0.537, abs=0.0035)


# What the engine does with it.


ALL_AT_ONCE = LinkFaults(
    loss=0.3,
    delay=(0, 3),
    stragglers=0.3,
    changing=0.4,
    quantise=1e-3,
    dither=True,
    seed=8,
)


@pytest.mark.parametrize("name", ["running-sums", "dgd"])
def test_one_seed_is_one_run_bit_for_bit_in_whatever_portions(name):
    engine, again = (Small().engine(name, ALL_AT_ONCE) for _ in range(2))
    whole = engine.advance(engine.begin(), 60)
    state = again.begin()
    for count in (1, 20, 0, 7, 32):
        state = again.advance(state, count)
    np.testing.assert_array_equal(whole.x, state.x)
    np.testing.assert_array_equal(engine.aims(whole), again.aims(state))
    np.testing.assert_array_equal(engine.points(whole), whole.x)
    other = Small().after(name, LinkFaults(loss=0.3, seed=9), 60)
    assert (other.x != whole.x).all()


@every_method
def test_without_faults_it_is_the_plain_engine(name):
    faulty = Small().engine(name, LinkFaults())
    plain = PlainEngine(faulty.task)
    found, expected = (one.advance(one.begin(), 25) for one in (faulty, plain))
    assert found.iteration == 25
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        faulty.aims(found), plain.aims(expected), rtol=1e-12, atol=1e-12
    )


def test_it_is_an_engine_and_knows_its_own_states():
    engine = Small().engine("dgd", LinkFaults())
    assert isinstance(engine, Engine)
    plain = PlainEngine(engine.task)
    with refused("state-of-other-engine"):
        engine.advance(plain.begin(), 1)


@dataclass
class Alone:
    """One party with its own cost, state and memory of what others told."""

    method: Method
    cost: EffectiveCost
    state: object
    weights: dict
    last: dict

    def advance(self, rounded, lost):
        """Move with the last messages, `lost` by rounding its own given back."""
        heard = np.array([rounded, *(told for _, told in self.last.values())])
        mixed = mix_method_messages(self.weights, self.method.parts(self.state), heard)
        self.state = self.method.advance(self.state, mixed + lost, self.cost)

    def skip(self):
        self.state = replace(self.state, iteration=self.state.iteration + 1)


def one_by_one(task, faults, count):
    """Each party by itself, each message a letter with a date."""
    n, first = len(task.start), task.method.domain.project(task.start)
    heard = getattr(task.method, "unheard", lambda x: faults.rounded(x, 0))(first)
    parties = [alone(task, i, heard) for i in range(n)]
    links = [(i, j) for i in range(n) for j in sorted(parties[i].last)]
    pairs = sorted({tuple(sorted(link)) for link in links})
    letters = []
    for k in range(count):
        told = np.array([task.method.outgoing(party.state) for party in parties])
        rounded = faults.rounded(told, k)
        out = dict(zip(pairs, faults.out(k, len(pairs)), strict=True))
        for (i, j), takes in zip(links, faults.takes(k, len(links)), strict=True):
            if takes != LOST and not out[min(i, j), max(i, j)]:
                letters.append((k + takes, k, i, j, rounded[j]))
        for due, sent, i, j, letter in letters:
            if due == k and sent > parties[i].last[j][0]:
                parties[i].last[j] = (sent, letter)
        skips = faults.skips(k, faults.slow(n))
        for i, party in enumerate(parties):
            if skips[i]:
                party.skip()
            else:
                party.advance(rounded[i], told[i] - rounded[i])
    return np.array([party.state.x for party in parties])


def alone(task, i, heard):
    method, rows = task.method, {k: w.toarray() for k, w in task.weights.items()}
    near = [j for j in np.flatnonzero(rows.popitem()[1][i]).tolist() if j != i]
    cost = EffectiveCost(
        task.cost.basis, task.cost.coefficients[i], task.cost.remainder
    )
    return Alone(
        method,
        cost,
        method.begin(task.start[i], cost),
        {kind: w.toarray()[i, [i, *near]] for kind, w in task.weights.items()},
        {j: (-1, heard[j]) for j in near},
    )


@few
@given(
    topology=connected_topologies(min_agents=2, max_agents=5),
    loss=st.sampled_from([0.0, 0.4]),
    delay=st.sampled_from([(0, 0), (0, 2), (1, 4)]),
    stragglers=st.sampled_from([0.0, 0.5]),
    changing=st.sampled_from([0.0, 0.5]),
    # By chance: to the nearest, ties are decided by the order of a sum.
    quantise=st.sampled_from([0.0, 0.01]),
    dither=st.just(value=True),
    seed=seeds,
    name=st.sampled_from(["running-sums", "dgd"]),
)
def test_it_does_what_agents_one_by_one_do(topology, seed, name, **kinds):
    faults = LinkFaults(**kinds, within=3, seed=seed)
    if name == "dgd" and not faults.kinds & {"loss", "delay"}:
        faults = LinkFaults(**{**kinds, "loss": 0.4}, within=3, seed=seed)
    n, rng = topology.n_parties, np.random.default_rng(seed)
    kinds = {"row": one_way_row_weights, "column": one_way_column_weights}
    if name == "dgd":
        kinds = {"symmetric": metropolis_weights}
    task = EngineTask(
        method=METHODS[name],
        weights={kind: make(topology) for kind, make in kinds.items()},
        cost=EffectiveCost(Affine(DIM), rng.normal(size=(n, DIM)), SquaredNorm(0.5)),
        start=rng.normal(size=(n, DIM)),
    )
    engine = FaultyEngine(task, faults)
    found = engine.advance(engine.begin(), 9).x
    np.testing.assert_allclose(found, one_by_one(task, faults, 9), atol=1e-10)


@few
@given(st.data(), connected_topologies(max_agents=8), seeds)
def test_links_that_work_get_the_metropolis_weights_of_their_graph(
    data, topology, seed
):
    pairs = FaultyPairs.of(
        {"symmetric": metropolis_weights(topology)}, topology.n_parties
    )
    np.testing.assert_array_equal(pairs.ends, topology.edges)
    out = np.array(data.draw(st.lists(st.booleans(), **exactly(topology.n_edges))))
    told = np.random.default_rng(seed).normal(size=(topology.n_parties, 3))
    expected = told
    if not out.all():
        left = [*map(tuple, topology.edges[~out].tolist())]
        working = Topology.from_edges(left, parties=range(topology.n_parties))
        expected = metropolis_weights(working) @ told
    np.testing.assert_allclose(pairs.mix(told, out), expected, atol=1e-12)


def exactly(size):
    return {"min_size": size, "max_size": size}


# Who bears what.


def test_every_method_there_is_is_tried():
    assert METHODS.keys() == {method.name for method in ITERATIVE}


@each(
    ("name", "kinds", "words"),
    [
        ("gradient-tracking", {"loss": 0.1}, "message is lost; use running-sums"),
        ("nids", {"delay": (0, 1)}, "astray if messages come late; use running-sums"),
        ("extra", {"stragglers": (0,)}, "needs every party to take part"),
        ("accelerated", {"changing": 0.1}, "the same links work in every iteration"),
        ("nids", {"changing": 0.1}, "use gradient-tracking"),
        ("push-pull", {"loss": 0.1, "changing": 0.1}, "use running-sums"),
    ],
    ids=str,
)
def test_who_does_not_bear_a_fault_says_so_and_who_does(name, kinds, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        Small().engine(name, LinkFaults(**kinds))
    assert str(caught.value).startswith(name)


def test_all_objections_are_said_at_once():
    with pytest.raises(InvalidInputError) as told:
        Small().engine("nids", LinkFaults(loss=0.1, changing=0.1, quantise=0.1))
    assert str(told.value).count(" and ") == 1
    assert str(told.value).endswith("; use running-sums")
    rounded = MethodNeeds(bounded=True, faults=LinkFaults(quantise=0.1).kinds)
    assert fitting_methods(rounded) == ITERATIVE


def test_several_rounds_of_mixing_are_for_messages_that_arrive():
    several = Chebyshev(METHODS["dgd"], 0.5, 3)
    with refused("rounds-with-faults"):
        Small().engine("dgd", LinkFaults(loss=0.1), several)
    tracking = Chebyshev(METHODS["gradient-tracking"], 0.5, 3)
    faults = LinkFaults(changing=0.3, quantise=1e-9)
    assert Small().engine("gradient-tracking", faults, tracking)


def test_who_says_nothing_of_faults_bears_none_and_short_numbers_are_refused():
    class Silent(Dgd):
        traits = MethodTraits()

    for kinds in ({"loss": 0.1}, {"quantise": 0.1}):
        with refused("method-unfit"):
            Small().engine("dgd", LinkFaults(**kinds), Silent(Box(-9.0, 9.0, dim=DIM)))
    task = Small().engine("dgd", LinkFaults()).task
    short = EngineTask(
        method=task.method,
        weights=task.weights,
        cost=task.cost,
        start=task.start,
        precision="float32",
    )
    with refused("faults-need-float64"):
        FaultyEngine(short, LinkFaults())


GAPS = {
    "10% loss": LinkFaults(loss=0.1),
    "30% loss": LinkFaults(loss=0.3),
    "50% loss": LinkFaults(loss=0.5),
    "up to 5 rounds late": LinkFaults(delay=(0, 5)),
    "always 2 rounds late": LinkFaults(delay=(2, 2)),
    "stragglers": LinkFaults(stragglers=0.3, idle=0.8),
    "changing": LinkFaults(changing=0.7),
    "loss, delay, stragglers and changing": LinkFaults(
        loss=0.2, delay=(0, 2), stragglers=(0, 3), changing=0.2
    ),
}


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("faults", GAPS.values(), ids=GAPS)
def test_running_sums_converge_whatever_happens_to_masks_of_1000(faults):
    assert Small(sigma=1e3).count("running-sums", faults) < 1500


@pytest.mark.usefixtures("unchecked_shapes")
def test_more_loss_takes_longer_and_masks_only_a_little():
    """From 10% to 50% loss about three times as long, as on larger graphs."""
    ten, thirty, fifty = (
        Small().count("running-sums", LinkFaults(loss=loss)) for loss in (0.1, 0.3, 0.5)
    )
    assert 1.2 * ten < thirty < fifty / 1.2 < 5 * ten
    masked = Small(sigma=1e3).count("running-sums", LinkFaults(loss=0.3))
    assert thirty < masked < 2 * thirty


STRAY = {"loss": 0.3, "delay": (0, 2), "stragglers": (0, 3)}


@pytest.mark.usefixtures("borne", "unchecked_shapes")
@pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")
@pytest.mark.parametrize("fault", STRAY)
@pytest.mark.parametrize("name", ["gradient-tracking", "extra", "nids", "accelerated"])
def test_those_who_do_not_claim_it_end_elsewhere(name, fault):
    """What is missing biases the answer for good, the more the larger the masks."""
    small = Small(sigma=10.0)
    state = small.after(name, LinkFaults(**{fault: STRAY[fault]}), 600)
    assert not small.error(state) < 0.05
    # It is the fault that does it.
    assert undisturbed(name) < 1e-8


@cache
def undisturbed(name):
    small = Small(sigma=10.0)
    return small.error(small.after(name, LinkFaults(), 600))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("chance", [0.5, 0.9])
@pytest.mark.parametrize(
    "family", ["ring:6", "path:4", "star:5", "complete:5", "barbell:2:3", "petersen"]
)
def test_tracking_converges_over_links_that_change(family, chance):
    small = Small(family, sigma=1e3)
    faults = LinkFaults(changing=chance)
    assert small.count("gradient-tracking", faults, most=3000) is not None


@pytest.mark.usefixtures("unchecked_shapes")
def test_several_rounds_of_mixing_help_over_links_that_change():
    small, faults = Small("path:4", sigma=1e3), LinkFaults(changing=0.5)
    several = Chebyshev(METHODS["gradient-tracking"], 0.8, 3)
    one, three = (
        small.count("gradient-tracking", faults, method=each)
        for each in (None, several)
    )
    assert three < one


STEPS = (1e-2, 1e-4, 1e-6)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("dither", [False, True], ids=["nearest", "by chance"])
@pytest.mark.parametrize("name", [name for name in METHODS if name != "dgd"])
def test_rounded_messages_leave_an_error_of_the_grid_s_order(name, dither):
    for step in STEPS:
        faults = LinkFaults(quantise=step, dither=dither)
        error = Small(sigma=10.0).error(Small(sigma=10.0).after(name, faults, 250))
        assert 0.02 * step < error < 3.0 * step


@few
@given(st.sampled_from(["gradient-tracking", "push-pull"]), st.booleans(), seeds)
def test_rounding_never_changes_the_sum_of_the_trackers(name, dither, seed):
    faults = LinkFaults(quantise=0.5, dither=dither, seed=seed)
    small = Small("ring:5")
    state = small.after(name, faults, 30)
    total = small.cost.gradient(state.x).sum(axis=0)
    np.testing.assert_allclose(state.inner.tracker.sum(axis=0), total, atol=1e-9)


BORNE_BY_DGD = {
    "loss": LinkFaults(loss=0.3),
    "delay": LinkFaults(delay=(0, 5)),
    "stragglers": LinkFaults(stragglers=(0, 1, 2), idle=0.9),
    "changing": LinkFaults(changing=0.7),
    "quantise": LinkFaults(quantise=1e-4),
}


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("form", "kind"),
    [*(("mixed", kind) for kind in BORNE_BY_DGD), ("own", "loss")],
)
def test_dgd_goes_on_as_slowly_as_ever(form, kind):
    """Its error is of order 1 / k with and without faults."""
    method = Dgd(Box(-20.0, 20.0, dim=DIM), scale=10.0, gradient_at=form)
    small, faults = Small(), BORNE_BY_DGD[kind]
    engine = small.engine("dgd", faults, method)
    early = engine.advance(engine.begin(), 200)
    late = engine.advance(early, 1000)
    assert small.error(late) < small.error(early) / 3
    plain = small.error(small.after("dgd", LinkFaults(), 1200, method))
    assert small.error(late) < 4.0 * plain
    assert BORNE_BY_DGD.keys() == Dgd.traits.bears
