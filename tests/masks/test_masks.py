"""Masks as a value: comparable, checked, altered, made into a law and back."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import LAWS, Masks
from veilsum.numbers.units import UnitCounts

TRIANGLE = Topology.family("complete:3")
LATTICE = Masks("lattice", sigma=3.0, grid=40, largest=8.0)
OF_EACH_LAW = [
    Masks("none"),
    Masks("gaussian", sigma=2.0),
    Masks("gaussian", sigma=[1.0, 2.0]),
    LATTICE,
    Masks("uniform", grid=20, largest=8.0),
]


def test_equal_masks_are_one_value():
    for sigma in ([1, 2], (1.0, 2.0), np.array([1.0, 2.0])):
        found = Masks("gaussian", sigma)
        assert found == Masks("gaussian", sigma=(1.0, 2.0))
        assert hash(found) == hash(Masks("gaussian", sigma=(1.0, 2.0)))
    assert Masks("lattice", sigma=3.0, grid=41, largest=8.0) != LATTICE
    assert pickle.loads(pickle.dumps(LATTICE)) == LATTICE


def test_masks_do_not_change():
    with pytest.raises(AttributeError):
        LATTICE.sigma = 1.0


@pytest.mark.parametrize("masks", OF_EACH_LAW, ids=str)
def test_a_law_says_what_it_was_made_with(masks):
    assert masks.on(TRIANGLE).masks == masks
    assert masks.on(TRIANGLE).name == masks.law
    assert isinstance(masks.on(TRIANGLE), masks.kind)


@pytest.mark.parametrize("law", ["lattice", "uniform"])
def test_a_law_says_which_grid_it_has_chosen(law):
    made = Masks(law, sigma=1.0 if law == "lattice" else None).on(TRIANGLE)
    assert made.masks.grid == made.grid.bits
    assert made.masks.on(TRIANGLE).dtype == made.dtype


@pytest.mark.parametrize(
    ("law", "answers"),
    [
        # hides, exact, sums_only, deployable
        ("none", (False, False, False, False)),
        ("gaussian", (True, False, False, False)),
        ("lattice", (True, True, False, True)),
        ("uniform", (True, True, True, True)),
    ],
)
def test_what_each_law_answers(law, answers):
    kind = LAWS[law]
    assert (kind.hides, kind.exact, kind.sums_only, kind.deployable) == answers
    made = Masks(law, sigma=1.0 if "sigma" in kind.keys else None).on(TRIANGLE)
    assert np.issubdtype(made.dtype, np.integer) == kind.exact


@pytest.mark.usefixtures("unchecked_shapes")  # types would refuse most of it first
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"law": ["lattice"]}, "no mask law is called"),
        ({"law": "gaussian", "sigma": [[1.0, 2.0]]}, r"shape \(1, 2\)"),
        ({"law": "gaussian", "sigma": 0.0}, "must be positive"),
        ({"law": "gaussian", "sigma": "wide"}, "sigma must be a number"),
        ({"law": "uniform", "grid": 1.5}, "whole number of bits"),
        ({"law": "uniform", "grid": 300}, "between -100 and 200"),
        ({"law": "uniform", "largest": -1.0}, "must be positive"),
    ],
)
def test_what_no_masks_can_be_is_refused(given, words):
    with pytest.raises(InvalidInputError, match=words):
        Masks(**given)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, LATTICE),
        ({"sigma": 9.0}, Masks("lattice", 9.0, 40, 8.0)),
        ({"grid": 0}, Masks("lattice", 3.0, 0, 8.0)),
        ({"law": "uniform"}, Masks("uniform", None, 40, 8.0)),
        ({"law": "gaussian"}, Masks("gaussian", 3.0)),
        ({"law": "none"}, Masks("none")),
    ],
)
def test_another_law_takes_over_what_it_has(change, expected):
    assert LATTICE.altered(**change) == expected


COUNTS = UnitCounts((Fraction(1, 8), Fraction(1)), 70)


@pytest.mark.parametrize(("law", "sigma"), [("uniform", None), ("lattice", 9.0)])
def test_sums_need_no_range_and_no_grid_beside_what_they_count(law, sigma):
    made = Masks(law, sigma).for_sums(TRIANGLE, COUNTS)
    assert (made.name, made.counted) == (law, COUNTS)
    assert made.masks.sigma == sigma
    for more, words in (({"grid": 40}, "with unit"), ({"largest": 8.0}, "a minimum")):
        with pytest.raises(InvalidInputError, match=words):
            Masks(law, sigma, **more).for_sums(TRIANGLE, COUNTS)


def test_a_law_of_reals_counts_nothing():
    assert LATTICE.on(TRIANGLE).counted is None
