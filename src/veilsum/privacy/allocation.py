"""Where noise does most good: variances per link that serve against every coalition.

With w_e the variance of link e's shares relative to sigma^2 and a fixed sum of all w_e,

    maximise over w >= 0   min over |C| = t of mu2(L_w[H])

is concave. It is a semidefinite programme with one matrix inequality per coalition,
V' L_w[H] V >= g I, V spanning what is orthogonal to the constant vector. Coalitions,
and in large graphs the columns of V, are added when they are found violated; what is
solved is therefore a relaxation, and its dual bounds what any allocation can achieve.
The value of an allocation is never the solver's: it is computed from the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
import scipy

from veilsum.errors import InvalidGraphError, MissingExtraError, install_advice
from veilsum.graphs.connectivity import vertex_connectivity
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.numbers.arrays import FloatArray, Matrix, Vector, frozen_array
from veilsum.numbers.shapes import Float
from veilsum.privacy.remaining import BATCH_ENTRIES, mu2_without_coalitions
from veilsum.privacy.worst_case import check_tolerated_colluders, worst_mu2
from veilsum.progress import Advance, Progress, silent_progress, watch_progress
from veilsum.showing import Renderable, Rendering, ShownTable

Coalition = tuple[int, ...]
Columns = Float[FloatArray, "n r"]

# The search ends when value and bound agree to this, relative to the bound.
CLOSE_ENOUGH = 1e-7
MOST_ROUNDS = 40
# Coalitions that get their matrix inequality in one round.
PER_ROUND = 8
# Up to this many coalitions are all looked at; beyond, the worst one is searched for.
MOST_LISTED = 4000
# Honest graphs up to this size get all of V at once, larger ones a few columns a time.
WHOLE_SPACE = 10
COLUMNS = 4
# Entries of the matrix inequalities above which the solver takes seconds: directions
# without a part in the bound are then dropped.
MOST_ENTRIES = 2000
# A direction takes part if its share of the dual's trace is larger than this.
ACTIVE = 1e-6
NEW_DIRECTION = 1e-6
# Weights that the solver could not tell from zero are zero, if that costs nothing.
NEGLIGIBLE = (1e-3, 1e-5, 1e-7)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Allocation(Renderable):
    """Relative noise variances of the links, and what they gain over equal ones.

    Attributes:
        tolerate: t, the number of colluders it is made for.
        links: the links by name; `weights` is in their order.
        weights: variance of a link's shares in units of sigma^2; they sum to the
            number of links, so that 1 everywhere is the uniform allocation.
        unused: links of weight zero: they need no messages.
        mu2_uniform: min over |C| = t of mu2 with equal weights.
        mu2: the same with these weights, from dense eigenvalues.
        mu2_bound: what no allocation of this sum exceeds.
        worst_coalition: a coalition that attains `mu2`.
        network: the graph with these weights, without the unused links.
    """

    tolerate: int
    links: tuple[tuple[str, str], ...]
    weights: tuple[float, ...]
    unused: tuple[tuple[str, str], ...]
    mu2_uniform: float
    mu2: float
    mu2_bound: float
    worst_coalition: tuple[str, ...]
    network: Topology = field(repr=False)

    @property
    def gain(self) -> float:
        """The factor by which epsilon falls against uniform noise."""
        return self.mu2 / self.mu2_uniform

    def showing(self) -> Rendering:
        """Return the gain, and the noise of every link."""
        pairs = zip(self.links, self.weights, strict=True)
        rows = [(" - ".join(at), f"{w:.4f}", f"{w**0.5:.4f}") for at, w in pairs]
        unused = ", ".join(" - ".join(link) for link in self.unused)
        return Rendering(
            f"Noise by link lowers epsilon by a factor of {self.gain:.3f} against "
            f"equal noise on all (worst mu2 {self.mu2_uniform:.4f} -> {self.mu2:.4f}; "
            f"no allocation exceeds {self.mu2_bound:.4f})",
            [
                ShownTable(("link", "variance", "sigma, relative"), rows, align="<>>"),
                *([f"These links need no messages: {unused}"] if unused else []),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        pairs = zip(self.links, self.weights, strict=True)
        return {
            "tolerate": self.tolerate,
            "weights": [{"link": list(link), "weight": w} for link, w in pairs],
            "unused": [list(link) for link in self.unused],
            "mu2_uniform": self.mu2_uniform,
            "mu2": self.mu2,
            "mu2_bound": self.mu2_bound,
            "gain": self.gain,
            "worst_coalition": list(self.worst_coalition),
        }


def allocate_noise(
    topology: GraphLike, *, tolerate: int = 0, progress: Progress = None
) -> Allocation:
    """Return the allocation that makes the worst mu2 largest.

    The graph's own weights do not matter: only their number, the budget, does.

    Args:
        topology: the network.
        tolerate: t, how many parties may collude.
        progress: None for a bar, False for none, or a function of done and total; most
            searches end before the last of their rounds.

    Raises:
        InvalidGraphError: t parties can cut the graph; no allocation helps.
        MissingExtraError: clarabel is not installed.

    >>> found = allocate_noise(Topology.family("path:5"))
    >>> [round(w, 3) for w in found.weights], round(found.mu2, 6)
    ([0.8, 1.2, 1.2, 0.8], 0.4)
    """
    topology = Topology.of(topology)
    check_tolerated_colluders(topology, tolerate)
    if vertex_connectivity(topology, at_most=tolerate + 1) <= tolerate:
        raise InvalidGraphError(
            f"{tolerate} colluding parties can cut this graph, or it is cut already: "
            "no allocation of noise helps; add the links that `examine` proposes",
            code="graph-not-tolerant",
        )
    problem = _AllocationProblem(topology, tolerate)
    with watch_progress(progress) as opening:
        uniform = problem.weakest(np.ones(topology.n_edges))
        advance = (opening or silent_progress)("rounds", MOST_ROUNDS)
        best, bound = _optimal_noise_allocation(problem, uniform, advance)
        best = _allocation_without_negligible(problem, best)
    if best.value <= uniform.value * (1.0 + 2.0 * CLOSE_ENOUGH):
        best = uniform
    return _noise_allocation_result(problem, uniform, best, max(bound, best.value))


class _AllocationPoint(NamedTuple):
    """An allocation, its value, and the coalitions that matter there, worst first."""

    weights: Vector
    value: float
    worst: tuple[tuple[Coalition, float], ...]


def _optimal_noise_allocation(
    problem: _AllocationProblem, start: _AllocationPoint, advance: Advance
) -> tuple[_AllocationPoint, float]:
    """Return the best point found and a bound on all points."""
    programme = _AllocationProgramme(problem)
    best, points = start, [start]
    bound = np.inf
    for done in range(MOST_ROUNDS):
        advance(done)
        news = [programme.cut_off(point, bound) for point in points]
        if not any(news):
            break
        weights, limit = programme.solve()
        bound = min(bound, limit)
        # The relaxation's optimum swings about; half-way from the best is calmer.
        calm = (weights + best.weights) / 2.0
        points = [problem.weakest(weights), problem.weakest(calm)]
        best = max(best, *points, key=lambda point: point.value)
        if bound - best.value <= CLOSE_ENOUGH * bound:
            break
    advance(MOST_ROUNDS)
    return best, bound


def _allocation_without_negligible(
    problem: _AllocationProblem, best: _AllocationPoint
) -> _AllocationPoint:
    """Return the point with tiny weights at zero, if the value does not mind."""
    for limit in NEGLIGIBLE:
        kept = np.where(best.weights < limit, 0.0, best.weights)
        tidy = problem.weakest(kept * (len(kept) / kept.sum()))
        if tidy.value >= best.value * (1.0 - CLOSE_ENOUGH):
            return tidy
    return best


def _noise_allocation_result(
    problem: _AllocationProblem,
    uniform: _AllocationPoint,
    best: _AllocationPoint,
    bound: float,
) -> Allocation:
    topology = problem.topology
    names = topology.parties
    links = tuple((names[i], names[j]) for i, j in topology.edges.tolist())
    used = best.weights > 0
    return Allocation(
        tolerate=problem.tolerate,
        links=links,
        weights=tuple(best.weights.tolist()),
        unused=tuple(link for link, use in zip(links, used, strict=True) if not use),
        mu2_uniform=uniform.value,
        mu2=best.value,
        mu2_bound=bound,
        worst_coalition=topology.names(best.worst[0][0]),
        network=Topology(
            names,
            topology.edges[used],
            frozen_array(best.weights[used]),
            directed=topology.directed,
        ),
    )


@dataclass(frozen=True, eq=False)
class _AllocationProblem:
    topology: Topology
    tolerate: int

    def weakest(self, weights: Vector) -> _AllocationPoint:
        """Return the value of an allocation and its worst coalitions."""
        n, t = self.topology.n_parties, self.tolerate
        if comb(n, t) > MOST_LISTED:
            # From the search, whose lower bound is certified.
            edges = self.topology.edges
            weighted = Topology(
                self.topology.parties, edges, frozen_array(weights.copy())
            )
            found = worst_mu2(weighted, tolerate=self.tolerate)
            return _AllocationPoint(
                weights, found.lower or 0.0, ((found.coalition, found.upper),)
            )
        sets = np.array(list(combinations(range(n), t)), dtype=np.int64)
        sets = sets.reshape(comb(n, t), t)
        adjacency = self.adjacency(weights)
        step = max(1, BATCH_ENTRIES // n**2)
        pieces = [sets[low : low + step] for low in range(0, len(sets), step)]
        values = np.concatenate(
            [mu2_without_coalitions(adjacency, piece) for piece in pieces]
        )
        order = np.argsort(values, kind="stable")[:PER_ROUND]
        worst = tuple((tuple(sets[k].tolist()), float(values[k])) for k in order)
        return _AllocationPoint(weights, max(0.0, float(values[order[0]])), worst)

    def adjacency(self, weights: Vector) -> Matrix:
        i, j = self.topology.edges.T
        matrix = np.zeros((self.topology.n_parties, self.topology.n_parties))
        np.add.at(matrix, (i, j), weights)
        return matrix + matrix.T

    def low_vectors(self, coalition: Coalition, weights: Vector) -> Columns:
        """Return eigenvectors of L_w[H] with least eigenvalues, zero on C."""
        n = self.topology.n_parties
        honest = [v for v in range(n) if v not in coalition]
        h = len(honest)
        left = self.adjacency(weights)[np.ix_(honest, honest)]
        # The constant vector, whose eigenvalue is zero, is lifted above all others.
        top = 2.0 * left.sum(axis=1).max() + 1.0
        lifted = np.diag(left.sum(axis=1)) - left + top / h
        count = h - 1 if h <= WHOLE_SPACE else COLUMNS
        _, vectors = scipy.linalg.eigh(lifted, subset_by_index=[0, count - 1])
        columns = np.zeros((n, count))
        columns[honest] = vectors
        return columns


@dataclass(eq=False)
class _AllocationProgramme:
    """The relaxation: matrix inequalities on the subspaces gathered so far."""

    problem: _AllocationProblem
    spaces: dict[Coalition, Columns] = field(default_factory=dict)

    def cut_off(self, point: _AllocationPoint, bound: float) -> bool:
        """Add what speaks against a point; return whether anything does."""
        limit = bound * (1.0 - CLOSE_ENOUGH)
        violated = [coalition for coalition, value in point.worst if value < limit]
        news = [self._add(coalition, point.weights) for coalition in violated]
        return any(news)

    def _add(self, coalition: Coalition, weights: Vector) -> bool:
        """Add directions in which a coalition is strong; return whether any is new."""
        columns = self.problem.low_vectors(coalition, weights)
        old = self.spaces.get(coalition, columns[:, :0])
        both = np.hstack([old, columns])
        basis, sizes, _ = scipy.linalg.svd(both, full_matrices=False)
        # The bound rests on V'V = I: a direction that is nearly old would be noise.
        self.spaces[coalition] = basis[:, sizes > NEW_DIRECTION]
        return self.spaces[coalition].shape[1] > old.shape[1]

    def solve(self) -> tuple[Vector, float]:
        """Return the relaxation's best weights, and a bound from its dual.

        For positive Z_C with traces summing to one, min_C mu2(L_w[H]) is at most
        sum_C tr(Z_C V' L_w V), a linear function of w, and so at most its maximum.
        """
        m = self.problem.topology.n_edges
        forms = {c: self._differences(c) for c in self.spaces}
        x, flat = _solve_allocation_programme(
            [_outer_allocation_svec(form) for form in forms.values()], m
        )
        pairs = zip(forms, flat, strict=True)
        duals = {
            c: _positive_part_of_dual(
                _allocation_matrix_from_svec(z, forms[c].shape[1])
            )
            for c, z in pairs
        }
        trace = sum(float(np.trace(z)) for z in duals.values())
        slopes = (((forms[c] @ z) * forms[c]).sum(axis=1) for c, z in duals.items())
        bound = m * float(sum(slopes, np.zeros(m)).max()) / trace if trace else np.inf
        self._slim(duals, ACTIVE * trace)
        weights = np.maximum(x[:m], 0.0)
        return weights * (m / weights.sum()), bound

    def _slim(self, duals: dict[Coalition, Matrix], least: float) -> None:
        """Keep the directions of the dual, if there are too many; the bound stays."""
        entries = sum(space.shape[1] ** 2 for space in self.spaces.values()) / 2
        if entries <= MOST_ENTRIES:
            return
        for coalition, dual in duals.items():
            values, vectors = np.linalg.eigh(dual)
            space = self.spaces.pop(coalition) @ vectors[:, values > least]
            if space.shape[1] > 0:
                self.spaces[coalition] = space

    def _differences(self, coalition: Coalition) -> FloatArray:
        """Return V_i - V_j for each link; zero where the coalition knows the link."""
        i, j = self.problem.topology.edges.T
        space = self.spaces[coalition]
        differences = space[i] - space[j]
        differences[np.isin(i, coalition) | np.isin(j, coalition)] = 0.0
        return differences


def _allocation_matrix_triangle(r: int) -> tuple[Any, Any, Any]:
    """Return rows, columns and scales of an upper triangle, column by column."""
    column, row = np.tril_indices(r)
    return row, column, np.where(row == column, 1.0, np.sqrt(2.0))


def _outer_allocation_svec(form: FloatArray) -> FloatArray:
    """Return svec(d d') of every row d, as columns."""
    row, column, scale = _allocation_matrix_triangle(form.shape[1])
    return np.asarray((form[:, row] * form[:, column] * scale).T)


def _allocation_matrix_to_svec(matrix: Matrix) -> FloatArray:
    row, column, scale = _allocation_matrix_triangle(len(matrix))
    return np.asarray(matrix[row, column] * scale)


def _allocation_matrix_from_svec(vector: FloatArray, r: int) -> Matrix:
    row, column, scale = _allocation_matrix_triangle(r)
    matrix = np.zeros((r, r))
    matrix[row, column] = matrix[column, row] = vector / scale
    return matrix


def _positive_part_of_dual(matrix: Matrix) -> Matrix:
    """Return the nearest positive matrix: a dual may be off by rounding."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _solve_allocation_programme(
    blocks: list[FloatArray], m: int
) -> tuple[FloatArray, list[FloatArray]]:
    """Maximise g with sum w = m, w >= 0 and each block svec(sum_e w_e d d') >= g I.

    Returns (w, g) and the dual of every block.
    """
    try:
        import clarabel
    except ImportError:
        raise MissingExtraError(
            f"allocating noise needs clarabel: {install_advice('plan')}",
            code="missing-extra",
        ) from None
    # A triangle of r (r + 1) / 2 entries has r rows.
    sizes = [round((np.sqrt(8 * len(block) + 1) - 1) / 2) for block in blocks]
    identity = [_allocation_matrix_to_svec(np.eye(r)) for r in sizes]
    rows = [np.append(np.ones(m), 0.0), np.eye(m, m + 1) * -1.0]
    rows += [
        np.column_stack([-block, unit])
        for block, unit in zip(blocks, identity, strict=True)
    ]
    matrix = scipy.sparse.csc_matrix(np.vstack(rows))
    right = np.append(float(m), np.zeros(matrix.shape[0] - 1))
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(m)]
    cones += [clarabel.PSDTriangleConeT(r) for r in sizes]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    # The data are of one size as they are; rescaling them costs digits here.
    settings.equilibrate_enable = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    objective = np.append(np.zeros(m), -1.0)
    nothing = scipy.sparse.csc_matrix((m + 1, m + 1))
    solver = clarabel.DefaultSolver(nothing, objective, matrix, right, cones, settings)
    answer = solver.solve()
    ends = np.cumsum([1 + m, *map(len, blocks)])
    duals = np.split(np.array(answer.z), ends)[1:-1]
    return np.array(answer.x), list(duals)
