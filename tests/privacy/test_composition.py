"""Runs on the same data add up; what has no bound has a reason and no number."""

from math import fsum, inf, nan

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from cases import each
from ledgers import PARTIES, fields_of, private, run
from refusals import refused
from strategies import settings_of_the_theorem, sigmas
from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.privacy.composition import (
    Charge,
    CompositionTotal,
    Exposure,
    charged_total_against,
    charges_without_resends,
    component_totals,
    mobile_adversary_total,
    worst_charged_total,
)
from veilsum.privacy.divergence import kl_divergence
from veilsum.privacy.guarantee import GuaranteeComponent, guarantee

bounds = st.floats(0.0, 1e3, allow_subnormal=False)


def runs_of(epsilons):
    return [run(f"run {i}", private(e, "a")) for i, e in enumerate(epsilons)]


# Totals


@given(st.lists(bounds, max_size=6))
def test_the_total_of_fresh_runs_is_the_sum_of_their_bounds(epsilons):
    expected = CompositionTotal(fsum(epsilons))
    runs = runs_of(epsilons)
    assert mobile_adversary_total(runs) == expected
    assert charged_total_against(runs, ["a"]) == expected
    assert worst_charged_total(runs) == expected


@given(st.data(), st.lists(bounds, max_size=6), st.booleans())
def test_the_order_of_runs_does_not_matter(data, epsilons, unbounded):
    runs = runs_of(epsilons)
    if unbounded:
        lost = Exposure(coalition=("a",), status="partial", epsilon=None)
        runs += [run("lost 1", lost), run("lost 2", lost)]
    shuffled = data.draw(st.permutations(runs))
    assert mobile_adversary_total(shuffled) == mobile_adversary_total(runs)
    assert charged_total_against(shuffled, ["a"]) == charged_total_against(runs, ["a"])
    assert component_totals(shuffled, ["a"]) == component_totals(runs, ["a"])


@given(st.lists(bounds, min_size=1, max_size=4), st.integers(1, 3))
def test_the_same_masks_count_once_however_often_they_are_shown(epsilons, times):
    runs = runs_of(epsilons)
    again = [
        run(f"again {i} {k}", *old.exposures, masks=old.masks, effective=old.effective)
        for i, old in enumerate(runs)
        for k in range(times)
    ]
    assert mobile_adversary_total([*again, *runs]) == mobile_adversary_total(runs)
    assert len(charges_without_resends([*again, *runs])) == len(runs)


def test_nothing_recorded_costs_nothing():
    assert (
        mobile_adversary_total([])
        == worst_charged_total([])
        == charged_total_against([], ["a"])
        == CompositionTotal(0.0)
    )
    assert component_totals([], ["a"]) == {}


@given(settings_of_the_theorem(max_agents=7), st.lists(sigmas, min_size=1, max_size=4))
def test_the_total_bounds_the_exact_divergence_of_all_runs(setting, deviations):
    """The exact KL of independent runs is the sum of their exact KLs."""
    topology, corrupted, a, b = setting
    promises = [guarantee(topology, sigma=s, corrupted=corrupted) for s in deviations]
    assume(promises[0].status == "private")
    runs = [
        run(f"run {i}", Exposure.of(promise), parties=topology.parties)
        for i, promise in enumerate(promises)
    ]
    exact = sum(
        kl_divergence(topology, a, b, sigma=s, corrupted=corrupted) for s in deviations
    )
    total = charged_total_against(runs, corrupted).epsilon
    assert exact <= total * ((a - b) ** 2).sum() * (1 + 1e-9) + 1e-12


@given(settings_of_the_theorem(max_agents=7), sigmas, sigmas)
def test_totals_by_piece_bound_the_exact_divergence_when_pieces_change(
    setting, first, second
):
    """One run on a graph that C may cut, one on the complete graph: the pieces of the
    first each keep a total of their own, which covers both runs."""
    topology, corrupted, a, b = setting
    assume(len(corrupted) <= topology.n_parties - 2)
    whole = Topology.family(f"complete:{topology.n_parties}")
    worlds = [(topology, first), (whole, second)]
    runs = [
        run(
            f"run {i}",
            Exposure.of(guarantee(graph, sigma=sigma, corrupted=corrupted)),
            parties=topology.parties,
        )
        for i, (graph, sigma) in enumerate(worlds)
    ]
    exact = sum(
        kl_divergence(graph, a, b, sigma=sigma, corrupted=corrupted)
        for graph, sigma in worlds
    )
    moved = dict(zip(topology.parties, ((a - b) ** 2).sum(axis=1), strict=True))
    bound = 0.0
    for parties, total in component_totals(runs, corrupted).items():
        if total.epsilon is None:
            assert len(parties) == 1, "only a party on its own is without a bound"
            assert moved[parties[0]] == 0
        else:
            bound += total.epsilon * sum(moved[party] for party in parties)
    assert exact <= bound * (1 + 1e-9) + 1e-12


@given(st.lists(st.tuples(bounds, bounds, bounds), min_size=1, max_size=5))
def test_a_mobile_adversary_is_never_better_off_standing_still(epsilons):
    runs = [
        run(f"run {i}", private(x, "a"), private(y, "b"), private(z, "a", "b"))
        for i, (x, y, z) in enumerate(epsilons)
    ]
    worst, mobile = (
        worst_charged_total(runs).epsilon,
        mobile_adversary_total(runs).epsilon,
    )
    assert worst <= mobile * (1 + 1e-12)
    assert mobile == fsum(max(three) for three in epsilons)
    assert worst == max(fsum(column) for column in zip(*epsilons, strict=True))


# Coalitions


def test_a_bound_for_all_of_a_size_covers_every_smaller_coalition():
    runs = [run("one", private(0.5, "a", "b", tolerate=2)), run("two", private(1, "c"))]
    assert charged_total_against(runs, ["c"]) == CompositionTotal(1.5)
    assert charged_total_against(runs[:1], ["d"]) == CompositionTotal(0.5)
    assert (
        charged_total_against(runs[:1], 2)
        == charged_total_against(runs[:1], 1)
        == CompositionTotal(0.5)
    )
    assert charged_total_against(runs[:1], 3).epsilon is None
    assert charged_total_against(runs[:1], ["a", "b", "c"]).epsilon is None


def test_the_best_bound_that_holds_for_a_coalition_is_taken():
    both = run("one", private(0.5, "a", "b", tolerate=2), private(0.25, "c"))
    assert charged_total_against([both], ["c"]) == CompositionTotal(0.25)
    assert mobile_adversary_total([both]) == CompositionTotal(0.5)


def test_a_run_that_says_nothing_about_a_coalition_is_not_free():
    runs = [run("one", private(0.5, "a")), run("two", private(0.5, "b"))]
    total = charged_total_against(runs, ["a"])
    assert total.epsilon is None
    assert total.reason == "epoch 'two' states no bound against a"
    assert worst_charged_total(runs).epsilon is None
    assert mobile_adversary_total(runs) == CompositionTotal(1.0)


def test_members_of_a_coalition_who_were_absent_do_not_count():
    small = run("two", private(0.25, "a"), parties=("a", "c", "d"))
    runs = [run("one", private(0.5, "a", "b")), small]
    assert charged_total_against(runs, ["a", "b"]) == CompositionTotal(0.75)


@pytest.mark.parametrize("status", ["partial", "exposed", "no_privacy"])
@pytest.mark.parametrize("epsilon", [None, inf])
def test_a_run_without_a_bound_leaves_a_reason_and_no_number(status, epsilon):
    law = {"law": "none", "masks": None} if status == "no_privacy" else {}
    lost = Exposure(coalition=("a",), status=status, epsilon=epsilon)
    runs = [run("one"), run("two", lost, **law)]
    for total in (
        mobile_adversary_total(runs),
        charged_total_against(runs, ["a"]),
        worst_charged_total(runs),
    ):
        assert total.epsilon is None
        assert total.reason == f"epoch 'two' has no bound against a ({status})"


def test_where_nobody_is_honest_nothing_is_spent():
    everybody = Exposure(coalition=PARTIES, status="vacuous", epsilon=None)
    assert mobile_adversary_total([run("one", everybody)]) == CompositionTotal(0.0)


def test_an_uncertified_bound_is_no_bound():
    unsure = Exposure(coalition=("a",), status="private", epsilon=None)
    assert mobile_adversary_total([run("one", unsure)]).epsilon is None


def test_each_piece_of_a_cut_graph_has_its_own_total():
    parts = (
        GuaranteeComponent(("b",), "exposed", None, None),
        GuaranteeComponent(("c", "d"), "private", 0.5, 2.0),
    )
    cut = Exposure(coalition=("a",), status="partial", epsilon=None, components=parts)
    found = component_totals([run("one", cut), run("two", cut)], ["a"])
    assert found[("c", "d")] == CompositionTotal(1.0)
    assert found[("b",)].epsilon is None
    assert "epoch 'one' has no bound for it (exposed)" in found[("b",)].reason


@pytest.mark.parametrize(
    ("other", "same"),
    [(0.5, True), (0.5 * (1 + 1e-12), True), (0.5 * (1 + 1e-6), False), (0.25, False)],
)
def test_bounds_agree_up_to_rounding_only(other, same):
    assert private(0.5, "a").agrees_with(private(other, "a")) is same
    assert private(other, "a").agrees_with(private(0.5, "a")) is same


def test_bounds_against_coalitions_of_other_sizes_do_not_agree():
    """Who is the worst may differ, and how many collude may not."""
    one, same, two = (
        Exposure(coalition=(name,), status="private", epsilon=0.5, tolerate=size)
        for name, size in (("a", 1), ("b", 1), ("a", 2))
    )
    assert one.agrees_with(same)
    assert not one.agrees_with(two)
    assert not two.agrees_with(one)


def test_a_guarantee_becomes_an_exposure():
    promise = guarantee(Topology.family("complete:3"), sigma=1.0, corrupted=["2"])
    found = Exposure.of(promise)
    # 1 / (4 sigma^2 mu2) with mu2 = 2 on a single link: the paper's Section V.
    assert found.epsilon == pytest.approx(1 / 8, rel=1e-12)
    assert (found.coalition, found.status) == (("2",), "private")
    assert found.components == promise.components
    assert Exposure.of(promise, tolerate=1).covers(["0"])


# Values


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": -1.0}, "not be negative"),
        ({"epsilon": nan}, "not be negative"),
        ({"status": "partial"}, "has no epsilon"),
        ({"tolerate": -1}, "tolerate must not be negative"),
        ({"coalition": ("a", "a")}, "named twice"),
        ({"coalition": ("",)}, "printable name"),
    ],
)
def test_an_exposure_that_means_nothing_is_refused(changes, words):
    values = {"coalition": ("a",), "status": "private", "epsilon": 1.0}
    with pytest.raises(InvalidInputError, match=words):
        Exposure(**{**values, **changes})


@each(
    ("changes", "words"),
    [
        ({"epoch": ""}, "an epoch needs a printable name"),
        ({"epoch": "a\nb"}, "an epoch needs a printable name"),
        ({"data": "income 52000"}, "found 12 characters"),
        ({"effective": "x"}, "effective must be a keyed fingerprint"),
        ({"masks": "x"}, "masks must be a keyed fingerprint"),
        ({"masks": None}, 'None exactly when law = "none"'),
        ({"law": "none"}, 'None exactly when law = "none"'),
        ({"parties": ()}, "at least 1 party"),
        ({"parties": ("b", "c")}, "a coalition with a, not among its parties"),
        ({"exposures": ()}, "names no coalition"),
    ],
)
def test_a_charge_that_means_nothing_is_refused(changes, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        Charge(**{**fields_of("one"), **changes})
    assert "52000" not in str(caught.value)


def test_a_charge_does_not_show_its_fingerprints():
    charge = run("one")
    for hidden in (charge.data, charge.effective, charge.masks):
        assert hidden not in repr(charge)


def test_a_charge_is_the_same_whatever_the_order_of_its_parts():
    one = run("one", private(1.0, "a"), private(2.0, "b"), parties=("a", "b", "c"))
    two = run("one", private(2.0, "b"), private(1.0, "a"), parties=("c", "a", "b"))
    assert one == two


def test_a_single_text_is_not_a_set_of_parties():
    with refused("names-not-collection"):
        charged_total_against([run("one")], "abc")


def test_numpy_numbers_are_taken_as_bounds():
    assert type(private(np.float64(0.5), "a").epsilon) is float
