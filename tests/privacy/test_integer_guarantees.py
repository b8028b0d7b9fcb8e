"""Guarantees of integer laws: what a lattice adds, and what uniform masks promise."""

import json
from dataclasses import replace
from math import exp, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from strategies import any_topologies, coalitions, fair_pairs, few
from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.privacy.composition import Exposure
from veilsum.privacy.guarantee import guarantee
from veilsum.privacy.lattice import (
    lattice_divergence,
    lattice_epsilon_excess,
    lattice_excess,
    lattice_excess_by_flows,
    worst_lattice_excess,
)
from veilsum.privacy.worst_case import worst_case

K3 = Topology.family("complete:3")
PETERSEN = Topology.family("petersen")
RING = Topology.family("ring:40")


def lattice(topology, **options):
    return guarantee(topology, **{"law": "lattice", "sigma": 1.0, "grid": 20} | options)


def uniform(topology, **options):
    return guarantee(topology, law="uniform", **options)


# --- The lattice -------------------------------------------------------------------


@given(st.data(), any_topologies(), st.sampled_from([0.3, 1.0, 17.0]))
def test_epsilon_is_the_continuous_one_and_an_excess(data, topology, sigma):
    corrupted = data.draw(coalitions(topology, min_honest=1))
    options = {"sigma": sigma, "corrupted": corrupted}
    real = guarantee(topology, **options)
    # A light link, 1/8 of the variance, still spans four steps of a grid of 6 bits.
    found = lattice(topology, grid=6, **options)
    assert found.status == real.status
    assert found.mu2 == real.mu2
    if real.epsilon is None:
        assert found.epsilon is None
    else:
        assert found.epsilon == pytest.approx(real.epsilon + found.excess, rel=1e-12)
        assert found.excess >= 0.0


def test_on_a_fine_grid_the_lattice_costs_nothing():
    found = lattice(PETERSEN, corrupted=["0"])
    assert found.excess == 0.0
    assert found.epsilon == guarantee(PETERSEN, sigma=1.0, corrupted=["0"]).epsilon


def test_on_a_long_ring_a_coarse_grid_has_an_excess_that_can_be_seen():
    """Four steps per share and a cycle of forty links; by flows, 80 / (8 * 16) nats.

    In epsilon that is divided by 2 g^2 with g = 1/4.
    """
    found = lattice(RING, grid=2)
    real = guarantee(RING, sigma=1.0).epsilon
    by_flows = 80 / (8 * 4**2) / (2 * 0.25**2)
    assert lattice_excess_by_flows(RING, 4) == 80 / 128
    assert 0.0 < found.excess <= by_flows
    expected = lattice_epsilon_excess(lattice_excess(RING, 4), 0.25)
    assert found.excess == pytest.approx(expected, rel=1e-12)
    assert found.epsilon == pytest.approx(real + expected, rel=1e-12)
    finer = lattice(RING, grid=6)
    assert finer.excess < 1e-9 < found.excess


def test_a_light_link_has_fewer_steps_and_adds_more():
    """Links of a sixteenth of the variance span a quarter of the steps: 4, not 16."""
    light = replace(RING, weights=np.full(RING.n_edges, 1 / 16))
    found = lattice(light, grid=4)
    expected = lattice_epsilon_excess(lattice_excess(light, 4), 2.0**-4)
    assert found.excess == pytest.approx(expected, rel=1e-12)
    assert found.excess > 1e6 * lattice(RING, grid=4).excess
    worst = worst_case(light, law="lattice", sigma=1.0, grid=4, tolerate=0)
    assert worst.excess >= found.excess * (1 - 1e-9)


def test_the_success_on_the_lattice_is_that_of_a_normal_law_and_a_millionth():
    """Phi(sqrt(KL / 2)), here by hand; Pinsker's bound would be a quarter more."""
    epsilon = lattice(K3, corrupted=["2"]).epsilon
    assert epsilon == pytest.approx(1 / 8)
    for distance in (0.1, 1.0, 4.0, 10.0):
        kl = epsilon * distance**2
        expected = NormalDist().cdf(sqrt(kl / 2))
        found = lattice(K3, corrupted=["2"], distance=distance).attacker_success
        assert expected <= found <= expected + 1e-6 * (expected - 0.5) + 1e-12
        assert found < (1 + min(sqrt(kl / 2), sqrt(1 - exp(-kl)))) / 2
        exact = guarantee(K3, sigma=1.0, corrupted=["2"], distance=distance)
        assert found >= exact.attacker_success


def test_pieces_of_a_lattice_have_an_epsilon_each():
    found = lattice(PETERSEN, corrupted=["1", "4", "5"], distance=1.0)
    assert (found.status, found.epsilon, found.attacker_success) == ("partial", None, 1)
    alone, rest = found.components
    assert (alone.epsilon, rest.epsilon) == (None, pytest.approx(1 / 4))
    assert found.excess == 0.0


@pytest.mark.parametrize(
    ("corrupted", "status"), [(["0", "1"], "exposed"), (["0", "1", "2"], "vacuous")]
)
def test_where_nothing_is_bounded_there_is_no_excess(corrupted, status):
    found = lattice(K3, corrupted=corrupted)
    assert (found.status, found.epsilon, found.excess) == (status, None, None)
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_lattice_needs_a_grid_that_sigma_spans():
    with refused("grid-missing"):
        guarantee(K3, law="lattice", sigma=1.0)
    with refused("grid-too-coarse", mentions=("4",)):
        lattice(K3, grid=1)
    with refused("grid-not-accepted"):
        guarantee(K3, sigma=1.0, grid=10)
    with refused("sigma-missing"):
        guarantee(K3, law="lattice", grid=10)


def test_a_lattice_s_limits_name_the_grid_and_the_generator():
    limits = " ".join(lattice(K3, grid=33).limits)
    assert "2^-33" in limits
    assert "as good as that generator" in limits
    assert "float64" not in limits


@few
@given(st.data(), any_topologies(max_agents=6), st.sampled_from([2, 3, 8]))
def test_no_quantised_pair_diverges_more_than_epsilon_allows(data, topology, bits):
    """The pairs are multiples of 1/8; coarser grids round them, and some then break
    Definition 2, which `lattice_divergence` refuses."""
    corrupted = data.draw(coalitions(topology, min_honest=2))
    a, b = data.draw(fair_pairs(topology, corrupted, width=2))
    sigma = 16.0
    found = lattice(topology, sigma=sigma, grid=bits, corrupted=corrupted)
    grid = 2.0**-bits
    rounded = [np.rint(x / grid) * grid for x in (a, b)]
    try:
        told = lattice_divergence(
            topology, *rounded, sigma=sigma, bits=bits, corrupted=corrupted
        )
    except InvalidInputError:
        return
    if found.epsilon is None:
        return
    distance = float(((rounded[0] - rounded[1]) ** 2).sum())
    assert told.bound <= found.epsilon * distance * (1 + 1e-9) + 1e-15


# --- The worst coalition on a lattice ----------------------------------------------


def test_the_worst_case_on_a_lattice_adds_what_no_coalition_exceeds():
    real = worst_case(PETERSEN, sigma=1.0, tolerate=2)
    fine = worst_case(PETERSEN, law="lattice", sigma=1.0, grid=20, tolerate=2)
    assert fine.epsilon == real.epsilon
    assert fine.worst.exact
    path = worst_case(RING, sigma=1.0, tolerate=1)
    coarse = worst_case(RING, law="lattice", sigma=1.0, grid=2, tolerate=1)
    nats = worst_lattice_excess(RING, 4.0, 1, mu2=path.mu2)
    expected = lattice_epsilon_excess(nats, 0.25)
    assert expected > 1e-6
    assert coarse.excess == pytest.approx(expected, rel=1e-12)
    assert coarse.epsilon == pytest.approx(path.epsilon + expected, rel=1e-12)
    assert coarse.worst.epsilon_lower == path.epsilon
    assert not coarse.worst.exact, "between the two nobody knows"


@few
@given(st.data())
def test_the_worst_case_covers_every_coalition_of_a_lattice(data):
    pair = data.draw(st.sets(st.sampled_from(PETERSEN.parties), max_size=2))
    bits = data.draw(st.sampled_from([2, 3, 10]))
    worst = worst_case(PETERSEN, law="lattice", sigma=1.0, grid=bits, tolerate=2)
    found = lattice(PETERSEN, grid=bits, corrupted=sorted(pair))
    assert found.epsilon <= worst.epsilon * (1 + 1e-9)


def test_a_cut_of_a_lattice_is_a_cut():
    found = worst_case(PETERSEN, law="lattice", sigma=1.0, grid=20, tolerate=3)
    assert (found.status, found.epsilon) == ("partial", None)
    assert found.worst.cut is not None


# --- Uniform masks -----------------------------------------------------------------


@given(st.data(), any_topologies())
def test_uniform_masks_hide_everything_but_sums(data, topology):
    corrupted = data.draw(coalitions(topology))
    found = uniform(topology, corrupted=corrupted, distance=1e9)
    real = guarantee(topology, sigma=1.0, corrupted=corrupted)
    assert found.status == real.status
    assert found.released == real.released
    assert found.excess is None
    if found.status == "private":
        assert (found.epsilon, found.attacker_success) == (0.0, 0.5)
    elif found.status != "vacuous":
        assert (found.epsilon, found.attacker_success) == (None, 1.0)
    for part in found.components:
        assert part.epsilon == (None if len(part.parties) == 1 else 0.0)


def test_uniform_masks_in_pieces_and_alone():
    found = uniform(PETERSEN, corrupted=["1", "4", "5"])
    assert found.status == "partial"
    assert [part.status for part in found.components] == ["exposed", "private"]
    assert [part.epsilon for part in found.components] == [None, 0.0]
    alone = uniform(K3, corrupted=["0", "1"])
    assert (alone.status, alone.released) == (
        "exposed",
        ("every coefficient of 2, exactly",),
    )


def test_the_limits_of_uniform_masks_say_what_they_rest_on():
    limits = " ".join(uniform(K3, grid=50).limits)
    assert "rounded to multiples of 2^-50" in limits
    assert "equal in every connected piece" in limits
    assert "as good as that generator" in limits
    assert "the grid" in " ".join(uniform(K3).limits)


def test_uniform_masks_have_no_sigma():
    with refused("sigma-not-accepted"):
        uniform(K3, sigma=1.0)


def test_the_worst_case_of_uniform_masks_is_a_cut_or_nothing():
    found = worst_case(PETERSEN, law="uniform", tolerate=2, distance=3.0)
    assert (found.epsilon, found.attacker_success) == (0.0, 0.5)
    worst = found.worst
    assert (worst.epsilon_lower, worst.epsilon_upper, worst.exact) == (0.0, 0.0, True)
    # Out of work, the search knows less about mu2, which uniform masks do not need.
    hurried = worst_case(PETERSEN, law="uniform", tolerate=2, most_work=1)
    assert hurried.worst.exact
    assert worst_case(PETERSEN, law="uniform", tolerate=3).worst.cut is not None


# --- JSON and the ledger -----------------------------------------------------------


@pytest.mark.parametrize("corrupted", [[], ["2"], ["1", "2"], ["0", "1", "2"]])
def test_the_keys_are_those_of_every_guarantee(corrupted):
    keys = list(guarantee(K3, sigma=1.0).to_dict())
    assert "excess" in keys
    for found in (
        lattice(K3, corrupted=corrupted, distance=1.0),
        uniform(K3, corrupted=corrupted, distance=1.0),
    ):
        assert list(found.to_dict()) == keys
        json.dumps(found.to_dict(), allow_nan=False)


def test_the_ledger_takes_both_integer_laws():
    for found, bound in (
        (lattice(K3, corrupted=["2"]), 1 / 8),
        (uniform(K3, corrupted=["2"]), 0.0),
    ):
        exposure = Exposure.of(found)
        assert exposure.bound == pytest.approx(bound)
        assert exposure.status == "private"
    against_any = worst_case(PETERSEN, law="uniform", tolerate=2)
    assert Exposure.of(against_any, tolerate=2).bound == 0.0
