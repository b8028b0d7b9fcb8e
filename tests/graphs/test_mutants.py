"""Claims that no test made until a mutant had shown it (`tests/mutation`)."""

import numpy as np
import pytest

from veilsum.errors import InvalidGraphError
from veilsum.graphs import layout
from veilsum.graphs.links import circle, geometric, line, plane
from veilsum.graphs.topology import Topology


def test_only_the_links_of_some_parties_count_towards_the_most():
    last = plane(1000, 1000, only=lambda n: slice(n - 100, n), most=200)
    assert len(last.ends) < 400
    with pytest.raises(InvalidGraphError, match="at most 199"):
        plane(1000, 1000, only=lambda n: slice(n - 100, n), most=199)


@pytest.mark.parametrize("make", [line, lambda n, most: circle(n, [1, 2], most=most)])
def test_more_links_than_the_most_are_refused(make):
    with pytest.raises(InvalidGraphError, match="at most 50"):
        make(1000, most=50)


def test_parties_that_are_near_have_near_numbers():
    """With 26 rows of cells links reach into the next: over 2 in 26 of all numbers."""
    ends = geometric(2000, 6).ends.astype(int)
    assert np.median(np.abs(ends[:, 0] - ends[:, 1])) < 2000 * 2 / 26


@pytest.mark.parametrize("spec", ["star:6", "wheel:7", "grid:3x3"])
def test_a_drawing_leaves_no_stress_to_take_away(spec):
    """Of sum w (|x_i - x_j| - d)^2 with w = d^-2 no derivative is left."""
    topology = Topology.family(spec)
    names = topology.parties
    hops = np.array([[topology.hops(a)[b] for b in names] for a in names], float)
    start = np.random.default_rng(3).standard_normal((len(names), 2))
    _, places = layout._settled(hops, start)
    gaps = places[:, None] - places[None]
    apart = np.linalg.norm(gaps, axis=2) + np.eye(len(names))
    weights = (hops + np.eye(len(names))) ** -2.0 - np.eye(len(names))
    slope = (weights * (1 - hops / apart))[:, :, None] * gaps
    assert np.abs(slope.sum(axis=1)).max() < 1e-2
