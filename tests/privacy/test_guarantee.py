import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from strategies import any_topologies, coalitions, few, sigmas
from veilsum.errors import InvalidInputError
from veilsum.graphs.connectivity import (
    algebraic_connectivity,
    graph_components,
    is_connected,
)
from veilsum.graphs.topology import Topology
from veilsum.privacy.conversions import attacker_success
from veilsum.privacy.guarantee import epsilon_bound_of_guarantee, guarantee

K3 = Topology.family("complete:3")
PETERSEN = Topology.family("petersen")


def test_a_connected_honest_graph_of_two_or_more_is_private():
    found = guarantee(K3, sigma=1.0, corrupted=["2"])
    assert found.status == "private"
    assert found.epsilon == pytest.approx(1 / 8, rel=1e-12)
    assert found.mu2 == pytest.approx(2.0, rel=1e-12)
    assert found.mu2_certificate == "exact"
    assert (found.corrupted, found.honest) == (("2",), ("0", "1"))
    assert [part.status for part in found.components] == ["private"]


def test_nobody_corrupted_is_judged_on_the_whole_graph():
    """C empty: epsilon = 1 / (4 sigma^2 mu2(L)); Petersen has mu2 = 2."""
    found = guarantee(PETERSEN, sigma=0.5)
    assert found.status == "private"
    assert found.corrupted == ()
    assert found.epsilon == pytest.approx(1 / (4 * 0.25 * 2), rel=1e-12)


def test_nobody_honest_leaves_nothing_to_protect():
    found = guarantee(K3, sigma=1.0, corrupted=["0", "1", "2"])
    assert found.status == "vacuous"
    assert (found.epsilon, found.mu2, found.mu2_certificate) == (None, None, "none")
    assert (found.honest, found.components, found.released) == ((), (), ())


def test_one_honest_party_is_exposed_and_has_no_number():
    """Its coefficients are the sum over H: known exactly, and never epsilon 0."""
    found = guarantee(K3, sigma=1.0, corrupted=["0", "2"])
    assert found.status == "exposed"
    assert (found.epsilon, found.mu2, found.mu2_certificate) == (None, None, "none")
    assert found.components[0].status == "exposed"
    assert found.released == ("every coefficient of 1, exactly",)


def test_two_adjacent_honest_parties_have_mu2_two():
    found = guarantee(Topology.family("ring:4"), sigma=3.0, corrupted=["0", "1"])
    assert found.status == "private"
    assert found.mu2 == pytest.approx(2.0, rel=1e-12)
    assert found.epsilon == pytest.approx(1 / (8 * 9), rel=1e-12)


def test_two_honest_parties_apart_are_both_exposed():
    found = guarantee(Topology.family("ring:4"), sigma=1.0, corrupted=["0", "2"])
    assert found.status == "exposed"
    assert found.epsilon is None
    assert found.mu2 == 0.0
    assert [part.parties for part in found.components] == [("1",), ("3",)]


def test_a_coalition_around_one_party_splits_the_petersen_graph():
    """C = N(0) = {1, 4, 5}: {0} is exposed, the other six keep mu2 = 1."""
    found = guarantee(PETERSEN, sigma=1.0, corrupted=["1", "4", "5"])
    assert found.status == "partial"
    assert found.epsilon is None
    assert found.mu2 == 0.0
    alone, rest = found.components
    assert (alone.parties, alone.status) == (("0",), "exposed")
    assert (alone.epsilon, alone.mu2) == (None, None)
    assert (rest.parties, rest.status) == (("2", "3", "6", "7", "8", "9"), "private")
    assert rest.mu2 == pytest.approx(1.0, rel=1e-12)
    assert rest.epsilon == pytest.approx(1 / 4, rel=1e-12)
    assert found.released == (
        "every coefficient of 0, exactly",
        "the sum of the coefficients of 2, 3, 6, 7, 8, 9",
    )


def test_pieces_that_all_have_company_are_partial_too():
    found = guarantee(Topology.family("ring:6"), sigma=1.0, corrupted=["0", "3"])
    assert found.status == "partial"
    assert [part.epsilon for part in found.components] == pytest.approx([1 / 8, 1 / 8])


def test_a_graph_in_pieces_is_reported_and_not_refused():
    found = guarantee(Topology.from_edges([(0, 1), (2, 3)]), sigma=1.0)
    assert found.status == "partial"
    assert found.epsilon is None
    assert [part.parties for part in found.components] == [("0", "1"), ("2", "3")]


def test_a_complete_graph_has_no_cut_and_stays_private_down_to_two():
    graph = Topology.family("complete:5")
    for size in range(4):
        found = guarantee(graph, sigma=1.0, corrupted=[str(i) for i in range(size)])
        assert found.status == "private"
        assert found.epsilon == pytest.approx(1 / (4 * (5 - size)), rel=1e-12)


def test_without_masks_there_is_no_privacy_and_no_number():
    found = guarantee(K3, law="none", corrupted=["2"])
    assert (found.status, found.law, found.epsilon) == ("no_privacy", "none", None)
    assert all(part.status == "no_privacy" for part in found.components)
    assert all(part.epsilon is None for part in found.components)
    assert found.released == ("every coefficient of every party",)
    assert guarantee(K3, law="none", distance=1.0).attacker_success == 1.0


@given(st.data(), any_topologies(), sigmas)
def test_the_status_is_decided_by_connectedness_alone(data, topology, sigma):
    corrupted = data.draw(coalitions(topology))
    found = guarantee(topology, sigma=sigma, corrupted=corrupted)
    honest = topology.without(topology.indices(corrupted))
    if honest.n_parties == 0:
        assert found.status == "vacuous"
    elif honest.n_edges == 0:
        assert found.status == "exposed"
    else:
        expected = "private" if is_connected(honest) else "partial"
        assert found.status == expected
    assert (found.epsilon is not None) == (found.status == "private")


@few
@given(st.data(), any_topologies(), sigmas)
def test_every_component_has_the_epsilon_of_its_own_graph(data, topology, sigma):
    corrupted = data.draw(coalitions(topology))
    found = guarantee(topology, sigma=sigma, corrupted=corrupted)
    honest = topology.without(topology.indices(corrupted))
    parts = graph_components(honest)
    assert [part.parties for part in found.components] == [
        honest.names(part) for part in parts
    ]
    for part, indices in zip(found.components, parts, strict=True):
        if len(indices) == 1:
            assert (part.status, part.epsilon) == ("exposed", None)
            continue
        mu2 = algebraic_connectivity(honest.induced(indices))
        # The variance of an edge's noise: one share on an arc, two otherwise.
        shares = 1 if topology.directed else 2
        expected = 1 / (2 * shares * sigma**2 * mu2)
        assert part.epsilon == pytest.approx(expected, rel=1e-9)


def test_several_sigmas_are_as_weak_as_the_least():
    found = guarantee(K3, sigma=[5.0, 1.0, 3.0])
    assert found.epsilon == pytest.approx(1 / 12, rel=1e-12)


def test_an_arc_carries_one_share_and_protects_half_as_much():
    """A directed 3-cycle with one draw per arc: epsilon = 1 / (2 * 3)."""
    cycle = Topology.from_edges([(0, 1), (1, 2), (2, 0)], directed=True)
    found = guarantee(cycle, sigma=1.0)
    assert found.epsilon == pytest.approx(1 / 6, rel=1e-12)
    both = Topology.from_edges(
        [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)], directed=True
    )
    assert guarantee(both, sigma=1.0).epsilon == pytest.approx(1 / 12, rel=1e-12)


@few
@given(any_topologies(), sigmas, st.floats(0.0, 50.0))
def test_the_success_at_a_distance_is_that_of_the_bound(topology, sigma, distance):
    found = guarantee(topology, sigma=sigma, distance=distance)
    expected = attacker_success(found.epsilon * distance**2)
    assert found.attacker_success == pytest.approx(expected, rel=1e-12)


def test_the_success_is_absent_without_a_distance_and_certain_without_a_bound():
    assert guarantee(K3, sigma=1.0).attacker_success is None
    split = ["1", "4", "5"]
    found = guarantee(PETERSEN, sigma=1.0, corrupted=split, distance=1.0)
    assert found.attacker_success == 1.0
    everyone = guarantee(K3, sigma=1.0, corrupted=K3.parties, distance=1.0)
    assert everyone.attacker_success is None


def test_at_distance_zero_nobody_can_do_better_than_a_coin():
    for corrupted in ([], ["1"], ["0", "1"]):
        found = guarantee(K3, sigma=1.0, corrupted=corrupted, distance=0.0)
        assert found.attacker_success == 0.5


@pytest.mark.parametrize("distance", [-1.0, np.nan, np.inf])
def test_a_distance_that_is_none_is_refused(distance):
    with refused("distance-negative"):
        guarantee(K3, sigma=1.0, distance=distance)


@pytest.mark.parametrize("sigma", [0.0, -1.0, np.nan, np.inf, [1.0, -1.0]])
def test_a_sigma_that_masks_nothing_is_refused(sigma):
    with refused("sigma-not-positive"):
        guarantee(K3, sigma=sigma)


def test_a_law_that_draws_needs_sigma_and_one_that_does_not_refuses_it():
    with refused("sigma-missing", mentions=("gaussian",)):
        guarantee(K3)
    with refused("sigma-not-accepted"):
        guarantee(K3, law="none", sigma=1.0)


def test_corrupted_parties_that_do_not_exist_are_refused_by_name():
    with refused("unknown-party", mentions=("7", "0,", "1,", "2")):
        guarantee(K3, sigma=1.0, corrupted=["1", "7"])


def test_a_corrupted_party_named_twice_counts_once():
    found = guarantee(K3, sigma=1.0, corrupted=["2", "2", 2])
    assert found.corrupted == ("2",)


@pytest.mark.parametrize("sigma", [1e-200, 1e-160, 1e160, 1e200])
def test_an_extreme_sigma_gives_a_finite_epsilon_or_a_clear_refusal(sigma):
    """Its square leaves float64; a guarantee never prints infinity."""
    try:
        found = guarantee(K3, sigma=sigma)
    except InvalidInputError:
        return
    assert found.epsilon is None or 0 <= found.epsilon < np.inf


def test_the_bound_is_the_theorem_s_formula():
    assert epsilon_bound_of_guarantee(sigma=1.0, mu2=2.0) == 1 / 8
    assert epsilon_bound_of_guarantee(sigma=2.0, mu2=3.0) == 1 / 48
    assert epsilon_bound_of_guarantee(sigma=1.0, mu2=3.0, shares_per_edge=1) == 1 / 6


WANTED_KEYS = {
    "status",
    "law",
    "epsilon",
    "mu2",
    "mu2_certificate",
    "corrupted",
    "honest",
    "components",
    "attacker_success",
    "released",
    "limits",
    "excess",
}


@pytest.mark.parametrize("corrupted", [[], ["2"], ["1", "2"], ["0", "1", "2"]])
def test_a_guarantee_is_strict_json_with_the_agreed_keys(corrupted):
    found = guarantee(K3, sigma=1.0, corrupted=corrupted, distance=2.0).to_dict()
    assert set(found) == WANTED_KEYS
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again["corrupted"] == corrupted
    for part in again["components"]:
        assert set(part) == {"parties", "status", "epsilon", "mu2"}


@pytest.mark.parametrize(
    ("spec", "options", "said"),
    [
        ("complete:4", {"sigma": 1.0}, "Whoever stands outside"),
        ("complete:4", {"sigma": 1.0, "corrupted": ["0"]}, "0 can learn the released"),
        ("complete:4", {"law": "uniform", "corrupted": ["0"]}, "sees no difference"),
        ("complete:4", {"law": "none"}, "every number of every party"),
        ("star:4", {"sigma": 1.0, "corrupted": ["0"]}, "every number of every other"),
        ("path:5", {"sigma": 1.0, "corrupted": ["2"]}, "each of {0, 1}, {3, 4}"),
        ("path:3", {"sigma": 1.0, "corrupted": ["0", "1", "2"]}, "nothing is left"),
    ],
)
def test_a_guarantee_is_one_sentence(spec, options, said):
    found = guarantee(Topology.family(spec), **options)
    assert said in found.sentence
    assert found.sentence.count(". ") == 0
    # "private" is no word to begin with: the sentence says what holds.
    word = "" if found.status == "private" else f"{found.status}: "
    assert repr(found).replace("\n", " ").startswith(f"{word}{found.sentence}")


def test_the_number_of_a_guarantee_is_that_of_its_formula():
    found = guarantee(Topology.family("complete:4"), sigma=2.0, corrupted=["0"])
    assert f"epsilon = {1 / (4 * 2.0**2 * 3.0):.6g}" in found.sentence


def test_a_guarantee_says_what_it_does_not_cover():
    limits = " ".join(guarantee(K3, sigma=1.0).limits)
    for word in ("curious", "encrypted", "remainder", "sum", "one run", "float64"):
        assert word in limits


def test_a_guarantee_cannot_be_changed():
    found = guarantee(K3, sigma=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.epsilon = 0.0
