"""Exact KL divergence between a coalition's views of two alternatives.

For Gaussian shares a coalition's view under A or under B is the same Gaussian, shifted;
`conversions` explains such a number. With s shares on each edge and independent noise
tau of each party, which does not cancel,

    Cov = s sigma^2 L_H + tau^2 I,    KL = d' Cov^-1 d / 2,    d = A - B on H.

tau = 0 is Function Sharing: the answer is exact and only inputs of equal honest sum
can be compared. tau > 0 hides the sum as well, and makes the answer inexact.

All masks together are N+(0, c L), the degenerate Gaussian on the zero-sum subspace (the
paper's Lemma 1). Its density is with respect to Lebesgue measure on 1-perp, of
dimension n - 1. The pseudo-inverse is applied by a Cholesky solve of L + c 11'/n, which
agrees with L^+ there.

A Cholesky factor in float64 is exact for a matrix within about n u ||L|| of this one,
so d' L^+ d is off by the part n u ||L|| / mu2 of itself. Where ten times that is not
below `CERTAIN`, as with weights that differ by powers of ten, `DivergenceCircuit`
computes it with a proof: d' L^+ d is the power of the currents d in a network that
conducts the weights, and for any potentials x that leave the currents r = d - L x
unexplained

    d' L^+ d  =  2 d'x - x'L x + r' L^+ r,    0 <= r' L^+ r <= (sum |r| / 2)^2 R,

R the sum of 1 / weight over a spanning tree, which can carry r. All but x is computed
in rationals, so that the bracket is true whatever x is. x comes from an elimination of
one party after the other that only adds positive numbers (Grassmann, Taksar and Heyman)
and loses no digits to weights. It is refined, and if that does not narrow the bracket,
computed with hundreds of digits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import fsum, inf, log, pi
from typing import Any

import numpy as np
import scipy
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat
from numpy.typing import ArrayLike

from veilsum.errors import (
    InvalidGraphError,
    InvalidInputError,
    InvalidPairError,
)
from veilsum.graphs.connectivity import graph_components, is_connected
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.masks.laws import check_mask_sigma
from veilsum.numbers.arrays import FloatArray, PartyRows, as_floats, listed_names
from veilsum.numbers.shapes import Float

# Two sums are equal when they differ by rounding error of what was added up: for each
# term half a unit in the last place, several times over since A and B were rounded too.
SUM_TOLERANCE = 8 * 2.0**-53

# No divergence is returned that may be off by more than this part of itself.
CERTAIN = 1e-9
# What estimates of rounding are taken times, so that they are bounds.
CAUTION = 10.0
REFINEMENTS = 4
# Larger systems are not solved in balls, which takes a minute then.
MOST_BALLS = 500
BALL_BITS = (256, 512, 1024, 2048)

PerColumn = Float[FloatArray, " p"]
Rationals = Sequence[Fraction]

# A point is on the zero-sum subspace when its sum is rounding error of its size.
ZERO_SUM_TOLERANCE = 1e-9

Points = Float[FloatArray, "*batch n"]


def kl_divergence(
    topology: GraphLike,
    a: ArrayLike,
    b: ArrayLike,
    *,
    sigma: ArrayLike,
    corrupted: Iterable[Hashable] = (),
    tau: ArrayLike = 0.0,
) -> float:
    """Return the exact KL divergence between C's views under A and under B.

    sum_k d_k' L_H^+ d_k / (4 sigma_k^2) with d = A - B on the honest parties. Rows of
    A and B are parties (a flat list means one coefficient each); `sigma` is one number
    or one per column. A pair that breaks Definition 2 is refused. If G[H] is
    disconnected and some component's sum differs, the answer is infinite.

    With `tau` every party adds noise N(0, tau^2) of its own to what it publishes. It
    does not cancel: the answer is no longer exact, sums may differ between A and B, and
    the divergence is sum_k d_k' (2 sigma_k^2 L_H + tau_k^2 I)^-1 d_k / 2. Runs with
    fresh noise add their divergences.

    >>> triangle = Topology.family("complete:3")
    >>> kl_divergence(triangle, [1, 2, 3], [2, 1, 3], sigma=1.0, corrupted=["2"])
    0.25
    >>> kl_divergence(triangle, [1, 2, 3], [1, 3, 3], sigma=1.0, tau=1.0)
    0.21428571428571427
    """
    topology = Topology.of(topology)
    colluders = topology.indices(corrupted)
    rows_a, rows_b = (
        _divergence_input_rows(topology, a, "A"),
        _divergence_input_rows(topology, b, "B"),
    )
    if rows_a.shape != rows_b.shape:
        raise InvalidPairError(
            f"A and B differ in shape: {rows_a.shape} and {rows_b.shape}",
            code="shapes-differ",
        )
    sigmas = _divergence_per_column(check_mask_sigma(sigma), rows_a, "sigma")
    own = _divergence_of_own_noise(tau, rows_a)
    check_divergence_agreement(topology, rows_a, rows_b, colluders)
    honest = [i for i in range(topology.n_parties) if i not in colluders]
    if not own.any():
        check_divergence_pair(topology, rows_a, rows_b, colluders)
    found = 0.0
    for part in graph_components(topology.induced(honest)):
        here = [honest[i] for i in part]
        piece = topology.induced(here)
        if own.any():
            found += _noisy_divergence(piece, rows_a[here], rows_b[here], sigmas, own)
        else:
            found += _piece_divergence(piece, rows_a[here], rows_b[here], sigmas)
    return found


def swap_divergence(
    topology: GraphLike,
    first: Hashable,
    second: Hashable,
    *,
    gap: ArrayLike,
    sigma: ArrayLike,
    corrupted: Iterable[Hashable] = (),
) -> float:
    """Return the KL divergence of exchanging the values of two honest parties.

    gap^2 R / (4 sigma^2), R the effective resistance between them in G[H]; `gap` is how
    far their values are apart, one number or one per coefficient. Infinite where
    `corrupted`, the coalition, separates the two.

    >>> petersen = Topology.family("petersen")
    >>> round(swap_divergence(petersen, "0", "1", gap=1.0, sigma=1.0), 12)
    0.15
    """
    topology = Topology.of(topology)
    resistance = effective_resistance(topology, first, second, corrupted=corrupted)
    gaps = np.atleast_1d(as_floats(gap, what="the gap"))
    sigmas = _divergence_per_column(check_mask_sigma(sigma), gaps[None, :], "sigma")
    if not gaps.any():
        return 0.0
    size = float(((gaps / sigmas) ** 2).sum())
    return size * resistance / (2.0 * topology.shares_per_edge)


def effective_resistance(
    topology: GraphLike,
    first: Hashable,
    second: Hashable,
    *,
    corrupted: Iterable[Hashable] = (),
) -> float:
    """Return R = (e_i - e_j)' L_H^+ (e_i - e_j), each edge conducting its weight.

    Infinite where the two are in different pieces of G[H], which is G without
    `corrupted`.

    >>> ring = Topology.family("ring:4")
    >>> round(effective_resistance(ring, "0", "1"), 12)
    0.75
    """
    topology = Topology.of(topology)
    colluders = topology.indices(corrupted)
    ends = topology.indices([first, second])
    if ends & colluders:
        raise InvalidPairError(
            f"{listed_names(topology.names(ends & colluders))} is corrupted and knows "
            "its "
            "own value; choose two honest parties",
            code="party-corrupted",
        )
    graph = topology.without(colluders)
    i, j = graph.index(first), graph.index(second)
    (part,) = (part for part in graph_components(graph) if i in part)
    if j not in part:
        return inf
    return _effective_piece_resistance(
        graph.induced(part), part.index(i), part.index(j)
    )


def coalition_dangers(
    topology: GraphLike, *, corrupted: Iterable[Hashable] = ()
) -> dict[str, float]:
    """Return for every honest party the largest R to another one of its piece.

    That is how well the coalition tells, at best, that this party's value and another's
    were exchanged: the divergence is gap^2 R / (4 sigma^2). Infinite for a party that
    stands alone, whose value is known.

    >>> coalition_dangers(Topology.family("path:4"), corrupted=["2"])
    {'0': 1.0, '1': 1.0, '3': inf}
    """
    whole = Topology.of(topology)
    honest = whole.without(whole.indices(corrupted))
    found = dict.fromkeys(honest.parties, inf)
    for part in graph_components(honest):
        if len(part) > 1:
            laplacian = honest.induced(part).laplacian.toarray()
            inverse = np.linalg.inv(laplacian + 1.0 / len(part)) - 1.0 / len(part)
            own = np.diag(inverse)
            between = own[:, None] + own[None] - 2.0 * inverse
            names = honest.names(part)
            found |= dict(zip(names, between.max(axis=1).tolist(), strict=True))
    return found


def check_divergence_pair(
    topology: Topology, a: PartyRows, b: PartyRows, corrupted: frozenset[int]
) -> None:
    """Refuse a pair that Definition 2 does not compare, naming what it breaks."""
    check_divergence_agreement(topology, a, b, corrupted)
    honest = [i for i in range(topology.n_parties) if i not in corrupted]
    if not _divergence_sums_agree(
        a[honest] - b[honest], abs(a[honest]) + abs(b[honest])
    ):
        gap = np.abs((a[honest] - b[honest]).sum(axis=0)).max()
        raise InvalidPairError(
            "A and B must have the same sum over the honest parties, which every view "
            f"reveals; the sums differ by {gap:.6g}",
            code="sums-differ",
        )


def check_divergence_agreement(
    topology: Topology, a: PartyRows, b: PartyRows, corrupted: frozenset[int]
) -> None:
    """Refuse alternatives that the coalition tells apart by its own coefficients."""
    moved = [i for i in corrupted if not np.array_equal(a[i], b[i])]
    if moved:
        raise InvalidPairError(
            "A and B must agree on every corrupted party, which knows its own "
            f"coefficients; they differ on {listed_names(topology.names(moved))}",
            code="corrupted-differ",
        )


def _divergence_input_rows(
    topology: Topology, values: ArrayLike, name: str
) -> PartyRows:
    array = as_floats(values, what=name)
    rows = array[:, None] if array.ndim == 1 else array
    if rows.ndim != 2 or len(rows) != topology.n_parties:
        raise InvalidPairError(
            f"{name} must have one row for each of {topology.n_parties} parties, "
            f"found shape {array.shape}",
            code="wrong-shape",
        )
    return rows


def _divergence_per_column(array: FloatArray, rows: PartyRows, name: str) -> PerColumn:
    width = rows.shape[1]
    if array.shape not in {(), (width,)}:
        raise InvalidInputError(
            f"{name} must be one number or {width}, one for each coefficient, "
            f"found {array.size}",
            code="wrong-shape",
        )
    return np.broadcast_to(array, (width,))


def _divergence_of_own_noise(tau: ArrayLike, rows: PartyRows) -> PerColumn:
    array = as_floats(tau, what="tau")
    noise = _divergence_per_column(array, rows, "tau")
    if not ((array > 0).all() or (array == 0).all()):
        raise InvalidInputError(
            "tau must be positive, or zero for every coefficient: a coefficient "
            f"without it has its exact sum released; found {array}",
            code="tau-not-positive",
        )
    return noise


def _divergence_sums_agree(shift: PartyRows, scale: PartyRows) -> bool:
    total, terms = np.abs(shift.sum(axis=0)), len(shift) + 2
    return bool((total <= SUM_TOLERANCE * terms * scale.sum(axis=0)).all())


def _piece_divergence(
    piece: Topology, a: PartyRows, b: PartyRows, sigma: PerColumn
) -> float:
    """Return a connected piece's part: infinite when its sum tells A from B."""
    shift = a - b
    if not _divergence_sums_agree(shift, abs(a) + abs(b)):
        return inf
    if piece.n_parties == 1:
        return 0.0
    unit = DegenerateGaussian(piece, float(piece.shares_per_edge))
    if unit.sound:
        # Projecting removes the sum's rounding error, which L^+ must not see.
        told = unit.kl_divergence((shift - shift.mean(axis=0)).T)
    else:
        circuit = DivergenceCircuit.of(piece)
        powers = [
            circuit.power(_exact_input_differences(a[:, k], b[:, k]))
            for k in range(a.shape[1])
        ]
        told = np.array(powers) / (2.0 * piece.shares_per_edge)
    return float((told / sigma**2).sum())


def _exact_input_differences(a: FloatArray, b: FloatArray) -> list[Fraction]:
    return [
        Fraction(x) - Fraction(y) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]


def _noisy_divergence(
    piece: Topology, a: PartyRows, b: PartyRows, sigma: PerColumn, tau: PerColumn
) -> float:
    """Return a connected piece's part of d' (s sigma^2 L + tau^2 I)^-1 d / 2.

    The mean is split off by hand: only tau hides it, and small tau must not turn the
    rounding error of an eigenvector into a divergence.
    """
    n, shared = len(a), piece.shares_per_edge
    values, vectors = np.linalg.eigh(piece.laplacian.toarray())
    # They are those of a matrix within rounding of this one. mu2 must stand out from
    # that, for itself and to keep the constant vector apart from all others.
    if n > 1 and CAUTION * n * 2.0**-53 * values[-1] > CERTAIN * values[1]:
        told = 0.0
        for k in range(a.shape[1]):
            times, leak = (Fraction(one[k]) ** 2 for one in (sigma, tau))
            circuit = DivergenceCircuit.of(piece).grounded(shared * times, leak)
            currents = _exact_input_differences(a[:, k], b[:, k])
            told += circuit.power([*currents, -sum(currents, Fraction(0))])
        return told / 2.0
    # Summed without rounding: what is left of a sum of zero looks large to a small tau.
    mean = np.array([fsum(column) for column in np.vstack([a, -b]).T.tolist()]) / n
    along = vectors[:, 1:].T @ (a - b - mean)
    noise = shared * values[1:, None] * sigma**2 + tau**2
    return 0.5 * float((along**2 / noise).sum() + (n * (mean / tau) ** 2).sum())


def _effective_piece_resistance(piece: Topology, i: int, j: int) -> float:
    if i == j:
        return 0.0
    apart = np.zeros(piece.n_parties)
    apart[i], apart[j] = 1.0, -1.0
    return float(DegenerateGaussian(piece, 1.0).squared_norm(apart))


@dataclass(frozen=True, eq=False)
class DivergenceCircuit:
    """A connected network in which every link conducts its weight, in rationals.

    Attributes:
        links: their ends, and what each conducts.
    """

    n: int
    links: list[tuple[int, int, Fraction]]

    @classmethod
    def of(cls, piece: Topology) -> DivergenceCircuit:
        ends = zip(piece.edges.tolist(), piece.weights.tolist(), strict=True)
        return cls(
            piece.n_parties, [(i, j, Fraction(weight)) for (i, j), weight in ends]
        )

    def grounded(self, times: Fraction, leak: Fraction) -> DivergenceCircuit:
        """Return times L + leak I as a circuit: one more node, linked to all others."""
        links = [(i, j, times * weight) for i, j, weight in self.links]
        return DivergenceCircuit(
            self.n + 1, [*links, *((i, self.n, leak) for i in range(self.n))]
        )

    def power(self, currents: Rationals) -> float:
        """Return d' L^+ d for currents that add up to zero, within `CERTAIN`."""
        return self.solved(currents)[1]

    def solved(
        self, currents: Rationals, *, everywhere: bool = False
    ) -> tuple[list[Fraction], float]:
        """Return potentials, and the power, for currents that add up to zero.

        What rounding left in their sum is spread over all nodes, unless it matters on
        which.

        Args:
            currents: one for each node.
            everywhere: be certain of each potential, and not of the power alone: where
                only thin links lead to a node, the power does not tell its potential.
        """
        rest = sum(currents, Fraction(0))
        wanted = [one - rest / self.n for one in currents]
        for potentials in self._tries(wanted):
            left, spent = self._left(wanted, potentials)
            terms = zip(wanted, potentials, strict=True)
            power = 2 * sum((d * x for d, x in terms), Fraction(0)) - spent
            missed = sum(map(abs, left), Fraction(0)) / 2
            sure = missed**2 * self._resistance <= Fraction(CERTAIN) / 1000 * power
            if sure and everywhere:
                span = max(potentials) - min(potentials)
                sure = missed * self._resistance <= Fraction(CERTAIN) * span
            if sure:
                break
        else:
            raise InvalidGraphError(
                "the edge weights are too far apart for a divergence to be certain: "
                "bring them closer together",
                code="weights-too-uneven",
            )
        # |sqrt(P) - sqrt(P')| <= |rest| sqrt(R), wherever the rest belongs.
        if 4 * rest**2 * self._resistance > Fraction(CERTAIN) ** 2 * power:
            raise InvalidPairError(
                "two sums are equal up to rounding only, and with edge weights as far "
                "apart as these it matters whose rounding that is: give numbers whose "
                "sums are equal exactly, such as whole ones, or bring the weights "
                "closer together",
                code="rounding-undecided",
            )
        return potentials, float(power)

    def _tries(self, wanted: Rationals) -> Iterator[list[Fraction]]:
        """Yield potentials that get better: in float64, then in balls."""
        potentials, left = [Fraction(0)] * self.n, wanted
        for _ in range(REFINEMENTS):
            scale = max(map(abs, left))
            if scale:
                steps = self.potentials(np.array([float(one / scale) for one in left]))
                pairs = zip(potentials, steps.tolist(), strict=True)
                potentials = [x + scale * Fraction(step) for x, step in pairs]
            yield potentials
            left, _ = self._left(wanted, potentials)
        if self.n > MOST_BALLS:
            return
        matrix = fmpq_mat(self.n, self.n)
        for i, j, weight in self.links:
            exact = fmpq(weight.numerator, weight.denominator)
            for row, column, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
                matrix[row, column] += sign * exact
        inner = range(1, self.n)
        right = [[fmpq(wanted[i].numerator, wanted[i].denominator)] for i in inner]
        for bits in BALL_BITS:
            with ctx.workprec(bits):
                rows = [[arb(matrix[i, j]) for j in inner] for i in inner]
                try:
                    balls = arb_mat(rows).solve(
                        arb_mat([[arb(one) for one in row] for row in right])
                    )
                except ZeroDivisionError:
                    continue
                parts = [balls[k, 0].mid().man_exp() for k in range(self.n - 1)]
            found = [int(man) * Fraction(2) ** int(power) for man, power in parts]
            yield [Fraction(0), *found]

    def _left(
        self, wanted: Rationals, potentials: Rationals
    ) -> tuple[list[Fraction], Fraction]:
        """Return d - L x and x' L x."""
        left, spent = [*wanted], Fraction(0)
        for i, j, weight in self.links:
            drop = potentials[i] - potentials[j]
            left[i] -= weight * drop
            left[j] += weight * drop
            spent += weight * drop * drop
        return left, spent

    @cached_property
    def _most(self) -> Fraction:
        return max((weight for *_, weight in self.links), default=Fraction(1))

    @cached_property
    def _resistance(self) -> Fraction:
        """Return the sum of 1 / weight over the best spanning tree, rounded up."""
        i, j, relative = self._relative
        entries = scipy.sparse.coo_array(
            (1.0 / relative, (i, j)), shape=(self.n, self.n)
        )
        tree = scipy.sparse.csgraph.minimum_spanning_tree(entries.tocsr())
        return Fraction(float(tree.sum()) * (1.0 + 1e-9)) / self._most

    @cached_property
    def _relative(self) -> tuple[Any, Any, FloatArray]:
        """Return the links' ends, and weights in units of the largest."""
        i, j, weights = zip(*self.links, strict=True)
        relative = np.array([float(weight / self._most) for weight in weights])
        if not (relative > 1e-290).all():
            raise InvalidGraphError(
                "the edge weights are too far apart for float64: bring them closer "
                "together",
                code="weights-too-uneven",
            )
        return np.array(i), np.array(j), relative

    @cached_property
    def eliminated(self) -> tuple[FloatArray, FloatArray]:
        """Return how a node's current is shared when it is left out, and its degree.

        From the last node to the first; weights in units of the largest.
        """
        i, j, relative = self._relative
        joined = np.zeros((self.n, self.n))
        np.add.at(joined, (i, j), relative)
        joined += joined.T
        degrees = np.ones(self.n)
        for k in range(self.n - 1, 0, -1):
            near = np.flatnonzero(joined[k, :k])
            weights = joined[k, near]
            degrees[k] = weights.sum()
            joined[k, near] /= degrees[k]
            joined[np.ix_(near, near)] += np.outer(weights, joined[k, near])
        return joined, degrees

    def potentials(self, currents: FloatArray) -> FloatArray:
        """Return potentials in float64, node 0 at 0."""
        shares, degrees = self.eliminated
        flow, potential = currents.copy(), np.zeros(self.n)
        for k in range(self.n - 1, 0, -1):
            flow[:k] += flow[k] * shares[k, :k]
        for k in range(1, self.n):
            potential[k] = flow[k] / degrees[k] + shares[k, :k] @ potential[:k]
        return potential / float(self._most)


@dataclass(frozen=True, eq=False)
class DegenerateGaussian:
    """The law of one coordinate of all masks: U^k ~ N+(0, c L), c = 2 sigma^2."""

    topology: Topology
    scale: float

    def __post_init__(self) -> None:
        if not 0 < self.scale < np.inf:
            raise InvalidInputError(
                f"the scale c must be positive and finite, found {self.scale}",
                code="scale-not-positive",
            )
        if not is_connected(self.topology):
            raise InvalidGraphError(
                "N+(0, cL) needs a connected graph; take its components one by one",
                code="graph-disconnected",
            )

    @cached_property
    def _scale(self) -> float:
        """Return c of L + c 11'/n: of the size of L, so that it costs no digits."""
        return float(self.topology.laplacian.diagonal().max())

    @cached_property
    def _factor(self) -> Any:
        """Return the Cholesky factor of L + c 11'/n."""
        n = self.topology.n_parties
        shifted = self.topology.laplacian.toarray() + self._scale / n
        return scipy.linalg.cho_factor(shifted, lower=True)

    @cached_property
    def sound(self) -> bool:
        """Whether float64 is certain enough; if not, `DivergenceCircuit` is used."""
        n = self.topology.n_parties
        try:
            lower, _ = self._factor
        except scipy.linalg.LinAlgError:
            return False
        # No row of |L + c 11'/n| adds up to more.
        norm = 3.0 * self._scale
        inverse_condition, _ = scipy.linalg.lapack.dpocon(lower, norm, uplo="L")
        return bool(CAUTION * n * 2.0**-53 <= CERTAIN * inverse_condition)

    @cached_property
    def _circuit(self) -> DivergenceCircuit:
        return DivergenceCircuit.of(self.topology)

    def sample(self, stream: np.random.Generator, size: int) -> Points:
        """Return `size` draws, (size, n): each is Theta times weighted edge noise."""
        noise = stream.standard_normal((self.topology.n_edges, size))
        noise *= np.sqrt(self.scale * self.topology.weights)[:, None]
        return np.asarray(self.topology.incidence @ noise).T

    def apply_pinv(self, points: Points) -> Points:
        """Return L^+ times each zero-sum point."""
        flat = points.reshape(-1, points.shape[-1])
        if self.sound:
            solved = scipy.linalg.cho_solve(self._factor, flat.T).T
        else:
            solved = np.array([self._potentials(one) for one in flat])
        return np.asarray(solved).reshape(points.shape)

    def squared_norm(self, points: Points) -> FloatArray:
        """Return r' L^+ r / c for each zero-sum point r."""
        if self.sound:
            product = np.einsum("...n,...n->...", points, self.apply_pinv(points))
            return np.asarray(product / self.scale)
        flat = points.reshape(-1, points.shape[-1]).tolist()
        powers = [self._circuit.power([*map(Fraction, one)]) for one in flat]
        return np.array(powers).reshape(points.shape[:-1]) / self.scale

    def _potentials(self, point: FloatArray) -> list[float]:
        currents = [*map(Fraction, point.tolist())]
        found, _ = self._circuit.solved(currents, everywhere=True)
        mean = sum(found, Fraction(0)) / len(found)
        return [float(one - mean) for one in found]

    def log_density(self, points: Points) -> FloatArray:
        """Return the log density on 1-perp; -inf for a point that is not zero-sum."""
        size = np.abs(points).sum(axis=-1)
        inside = np.abs(points.sum(axis=-1)) <= ZERO_SUM_TOLERANCE * size
        log_volume = (self.topology.n_parties - 1) * log(
            2 * pi * self.scale
        ) + self._log_pseudo_determinant
        density = -0.5 * (log_volume + self.squared_norm(points))
        return np.where(inside, density, -np.inf)

    def kl_divergence(self, shift: Points) -> FloatArray:
        """Return the divergence between this law and itself moved by a zero-sum shift.

        d' L^+ d / (2 c); with c = 2 sigma^2 this is the paper's d' L^+ d / (4 sigma^2).
        """
        return np.asarray(0.5 * self.squared_norm(shift))

    @cached_property
    def _log_pseudo_determinant(self) -> float:
        """Return log(mu_2 ... mu_n): L + c 11'/n has the same with one eigenvalue c."""
        if self.sound:
            lower, _ = self._factor
            return 2.0 * float(np.log(np.diag(lower)).sum()) - log(self._scale)
        # n times the determinant without one party, by the matrix-tree theorem.
        n, (_, degrees) = self.topology.n_parties, self._circuit.eliminated
        most = float(self.topology.weights.max())
        return log(n) + float(np.log(degrees[1:]).sum()) + (n - 1) * log(most)
