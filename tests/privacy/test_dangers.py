"""A party's danger is the exchange that shows most of it."""

import numpy as np
import pytest

from veilsum.graphs.topology import Topology
from veilsum.privacy.divergence import coalition_dangers, swap_divergence

FAMILY = Topology.family


@pytest.mark.parametrize("family", ["petersen", "grid:3x4", "star:6", "path:5"])
def test_a_party_s_danger_is_its_worst_exchange(family):
    graph, sigma = FAMILY(family), 3.0
    bad = graph.parties[1]
    found = coalition_dangers(graph, corrupted=[bad])
    assert [*found] == [one for one in graph.parties if one != bad]
    for name, worst in found.items():
        others = [
            swap_divergence(graph, name, one, gap=2.0, sigma=sigma, corrupted=[bad])
            for one in found
            if one != name
        ]
        within = [one for one in others if np.isfinite(one)]
        told = max(within, default=np.inf)
        assert 4.0 * worst / (4.0 * sigma**2) == pytest.approx(told, rel=1e-9)


def test_weights_count():
    """Twice the noise on every link: half the divergence."""
    plain = FAMILY("ring:5")
    heavy = Topology(plain.parties, plain.edges, 2.0 * plain.weights)
    both = coalition_dangers(plain), coalition_dangers(heavy)
    assert [2.0 * one for one in both[1].values()] == pytest.approx([*both[0].values()])
