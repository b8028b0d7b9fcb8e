"""Exact values for Theorem 1, none of them computed by the code under test.

Each case was worked out independently: divergences as rationals by solving the grounded
Laplacian exactly, eigenvalues to 40 digits from characteristic polynomials. The
Petersen graph has its outer ring on 0-4 and its inner star on 5-9; hypercube parties
are numbers, linked when one bit differs.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from veilsum.graphs.topology import Topology

# Twelve points of a random geometric graph, written out.
RGG12_EDGES = (
    *((0, 2), (0, 5), (0, 8), (0, 10), (0, 11), (1, 3), (1, 6), (1, 8), (1, 9)),
    *((2, 4), (2, 10), (2, 11), (3, 6), (3, 8), (3, 9), (4, 10), (4, 11), (5, 7)),
    *((5, 8), (5, 9), (7, 9), (8, 9), (8, 11), (10, 11)),
)


def rgg12():
    return Topology.from_edges(RGG12_EDGES, parties=range(12))


def weighted_ring():
    """C4 with share variances 1, 4, 1, 4: Laplacian eigenvalues 0, 2, 8, 10."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 0)]
    return Topology.from_edges(edges, weights=[1.0, 4.0, 1.0, 4.0])


def directed_cycle():
    return Topology.from_edges([(0, 1), (1, 2), (2, 0)], directed=True)


def swapped(values, i, j):
    other = list(values)
    other[i], other[j] = other[j], other[i]
    return other


@dataclass(frozen=True)
class Case:
    """One coalition on one graph, two alternatives, and what theory says exactly."""

    name: str
    topology: Topology
    variance: float | tuple[float, ...]  # sigma^2, or one for each coefficient
    corrupted: tuple[str, ...]
    a: list
    b: list
    mu2: float
    epsilon: float | None
    divergence: Fraction
    bound: float | None

    @property
    def sigma(self):
        if isinstance(self.variance, tuple):
            return [sqrt(value) for value in self.variance]
        return sqrt(self.variance)


_ONE_TO_TEN = list(range(1, 11))
_RGG_VALUES = [3, -1, 4, 1, -5, 9, 2, -6, 5, 3, 5, 8]

CASES = (
    # The paper, Section V.
    Case(
        name="K3",
        topology=Topology.family("complete:3"),
        variance=1.0,
        corrupted=("2",),
        a=[1, 2, 3],
        b=[2, 1, 3],
        mu2=2.0,
        epsilon=1 / 8,
        divergence=Fraction(1, 4),
        bound=1 / 4,
    ),
    # mu2 = 3 - sqrt 3; positions 2 <-> 3 and 8 <-> 9 swapped.
    Case(
        name="Petersen",
        topology=Topology.family("petersen"),
        variance=1.0,
        corrupted=("0", "1"),
        a=_ONE_TO_TEN,
        b=swapped(swapped(_ONE_TO_TEN, 2, 3), 8, 9),
        mu2=1.267949192431123,
        epsilon=0.1971687836487032,
        divergence=Fraction(11, 32),
        bound=0.7886751345948129,
    ),
    # C6 less a party is the path on five: mu2 = (3 - sqrt 5) / 2.
    Case(
        name="C6",
        topology=Topology.family("ring:6"),
        variance=1 / 4,
        corrupted=("0",),
        a=list(range(6)),
        b=swapped(range(6), 1, 5),
        mu2=0.3819660112501052,
        epsilon=2.618033988749895,
        divergence=Fraction(64),
        bound=83.77708763999664,
    ),
    # mu2 is the least root of x^6-22x^5+187x^4-772x^3+1588x^2-1480x+468.
    Case(
        name="Q4",
        topology=Topology.family("hypercube:4"),
        variance=2.0,
        corrupted=("1", "2", "4"),
        a=list(range(16)),
        b=swapped(range(16), 8, 15),
        mu2=0.6307824806531958,
        epsilon=0.1981665690374889,
        divergence=Fraction(343, 72),
        bound=19.42032376567391,
    ),
    # mu2 is the least root of x^5-16x^4+90x^3-204x^2+150x-22.
    Case(
        name="RGG12",
        topology=rgg12(),
        variance=4.0,
        corrupted=("8",),
        a=_RGG_VALUES,
        b=swapped(_RGG_VALUES, 0, 11),
        mu2=0.1932934238190825,
        epsilon=0.3233426092058794,
        divergence=Fraction(35, 48),
        bound=16.16713046029397,
    ),
    # K5 is left: every zero-sum vector is an eigenvector, so the bound is attained.
    Case(
        name="K10",
        topology=Topology.family("complete:10"),
        variance=1.0,
        corrupted=("5", "6", "7", "8", "9"),
        a=_ONE_TO_TEN,
        b=[5, 1, 2, 3, 4, 6, 7, 8, 9, 10],
        mu2=5.0,
        epsilon=1 / 20,
        divergence=Fraction(1),
        bound=1.0,
    ),
    # The path on three; the difference (1, 0, -1) is its Fiedler vector.
    Case(
        name="C4",
        topology=Topology.family("ring:4"),
        variance=1.0,
        corrupted=("3",),
        a=[1, 0, -1, 0],
        b=[0, 0, 0, 0],
        mu2=1.0,
        epsilon=1 / 4,
        divergence=Fraction(1, 2),
        bound=1 / 2,
    ),
    Case(
        name="weighted C4",
        topology=weighted_ring(),
        variance=1.0,
        corrupted=(),
        a=[-1, 1, 0, 0],
        b=[0, 0, 0, 0],
        mu2=2.0,
        epsilon=1 / 8,
        divergence=Fraction(3, 20),
        bound=1 / 4,
    ),
    # One variance per coefficient, S = diag(1, 9).
    Case(
        name="K4 in two dimensions",
        topology=Topology.family("complete:4"),
        variance=(1.0, 9.0),
        corrupted=("3",),
        a=[[1, 3], [-1, 0], [0, -3], [7, 7]],
        b=[[0, 0], [0, 0], [0, 0], [7, 7]],
        mu2=3.0,
        epsilon=None,
        divergence=Fraction(1, 3),
        bound=None,
    ),
    # One draw per arc: half the noise of an undirected link.
    Case(
        name="directed 3-cycle",
        topology=directed_cycle(),
        variance=1.0,
        corrupted=(),
        a=[1, -1, 0],
        b=[0, 0, 0],
        mu2=3.0,
        epsilon=1 / 6,
        divergence=Fraction(1, 3),
        bound=1 / 3,
    ),
)
