"""mu2 with a certificate: a lower bound that cannot be too high.

Every iterative eigenvalue solver errs upwards, and a mu2 that is too high is an epsilon
that is too small. So an estimate is only ever a hint where to look; what is reported is
proved from below:

    exact          dense eigenvalues, right to rounding
    inertia        a sparse factorisation of L - sI has exactly one negative pivot
    probabilistic  random vectors, filtered by a Chebyshev polynomial that would blow
                   up any part below s, stayed small; wrong with probability < 1e-9
    none           no proof was found in reasonable time: no number either
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from math import acosh, ceil, cosh, sqrt
from typing import Literal

import numpy as np
import scipy

from veilsum.graphs.connectivity import algebraic_connectivity, is_connected
from veilsum.graphs.topology import NumberedParties, Topology
from veilsum.numbers.arrays import EdgeList, FloatArray, Sparse, Vector
from veilsum.progress import Advance, Opening, silent_progress

Certificate = Literal["exact", "inertia", "probabilistic", "none"]

# Up to this many parties the dense solve takes a second or two.
DENSE_PARTIES = 1500
# A graph whose parties can be lined up with links this short (relative to n) is cut by
# few parties, like a map; its factorisation fills in little. Others are expanders.
SHORT_LINKS = 0.05
# How far below the estimate a bound may be set before giving up on it.
GAPS = (1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 0.6)
# A gap that a rough estimate, one in a hundred off, would spoil.
NEAR = 3e-2
# One answer may try every window, and rest on a certificate for the cut, one for the
# whole graph and one for the worst honest graph; their failures may add up to this.
FAILURE_PROBABILITY = 1e-9
FAILURE_PER_TRY = FAILURE_PROBABILITY / (4 * len(GAPS))
PROBES = 8  # as many numbers as memory hands out at once
# Steps times stored entries of L: a few seconds of work.
MOST_FILTER_WORK = 2e8
UNIT_ROUNDOFF = 2.0**-53
# Above so many parties products are compiled, as loading numba pays; and above so many
# those with one vector, too.
COMPILED_PARTIES, MANY_PARTIES = 50_000, 200_000
LANCZOS_STEPS = 40
# Of more parties no factor is made: it would not fit a laptop's memory.
MOST_FACTORED = 1_000_000
CORES = os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Mu2Bounds:
    """lower <= mu2 <= upper; `lower` is None where nothing could be proved."""

    lower: float | None
    upper: float
    certificate: Certificate


def certified_mu2(
    topology: Topology,
    *,
    stream: np.random.Generator | None = None,
    work: float = MOST_FILTER_WORK,
    opening: Opening = silent_progress,
) -> Mu2Bounds:
    """Return bounds on mu2 of a graph of any size, and how the lower one is known.

    Args:
        topology: the graph.
        stream: draws the random probes; they must not be known to whoever made the
            graph, hence fresh ones by default.
        work: steps of the filter times stored entries of L that it may take.
        opening: opens stages for whoever waits.
    """
    if topology.n_parties <= DENSE_PARTIES or not is_connected(topology):
        value = algebraic_connectivity(topology)
        return Mu2Bounds(value, value, "exact")
    if isinstance(topology.parties, NumberedParties):
        laplacian = topology.made_laplacian()
    else:
        laplacian = topology.laplacian
    if _is_map_like(topology):
        if topology.n_parties > MOST_FACTORED:
            line = np.cos(np.pi * np.arange(topology.n_parties) / topology.n_parties)
            return Mu2Bounds(None, rayleigh_bound_on_mu2(laplacian, line), "none")
        return _mu2_by_inertia(laplacian, opening)
    return _mu2_by_filter(laplacian, stream or np.random.default_rng(), work, opening)


def _is_map_like(topology: Topology) -> bool:
    """Return whether links are short once parties are lined up (Cuthill-McKee)."""
    n = topology.n_parties
    if _longest_link_of_graph(topology.edges) <= SHORT_LINKS * n:
        return True
    start, near = topology.pattern
    # It looks at no weight, so these are as small as can be.
    plain = scipy.sparse.csr_array((np.ones(len(near), np.int8), near, start), (n, n))
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(plain, symmetric_mode=True)
    place = np.empty(n, dtype=topology.edges.dtype)
    place[order] = np.arange(n)
    return _longest_link_of_graph(place[topology.edges]) <= SHORT_LINKS * n


def _longest_link_of_graph(ends: EdgeList) -> int:
    return int(np.abs(ends[:, 0] - ends[:, 1]).max())


def rayleigh_bound_on_mu2(laplacian: Sparse, vector: Vector) -> float:
    """Return an upper bound on mu2 from any vector, its mean taken out."""
    centred = vector - vector.mean()
    return float(
        centred @ _laplacian_times_vector(laplacian, centred) / (centred @ centred)
    )


def fiedler_vector(topology: Topology) -> Vector:
    """Return about the eigenvector of mu2: good for ideas, not for proofs."""
    if _is_map_like(topology):
        return _fiedler_by_factor(topology.laplacian)
    return _fiedler_by_products(topology.laplacian)


def _mu2_by_inertia(laplacian: Sparse, opening: Opening) -> Mu2Bounds:
    # The first bound that is tried mostly holds; nobody knows how far a factor is.
    told = opening("factors", 2)
    upper = rayleigh_bound_on_mu2(laplacian, _fiedler_by_factor(laplacian))
    told(1)
    for gap in GAPS:
        bound = inertia_bound_on_mu2(laplacian, upper * (1 - gap))
        told(2)
        if bound is not None:
            return Mu2Bounds(bound, upper, "inertia")
    return Mu2Bounds(None, upper, "none")


def _fiedler_by_factor(laplacian: Sparse) -> Vector:
    """Return the Fiedler vector by inverse iteration, for graphs that factorise."""
    n = laplacian.shape[0]
    scale = laplacian.diagonal().max()
    shifted = scipy.sparse.csc_array(
        laplacian + 1e-9 * scale * scipy.sparse.eye_array(n)
    )
    factor = _factor_laplacian(shifted)
    start = np.cos(np.pi * np.arange(n) / n)

    def solve(x: Vector) -> Vector:
        inner = factor.solve(x - x.mean())
        return inner - inner.mean()

    operator = scipy.sparse.linalg.LinearOperator(
        (n, n), matvec=solve, dtype=np.float64
    )
    return _top_eigenvector_of_laplacian(operator, start, tolerance=1e-10)


def _fiedler_by_products(laplacian: Sparse) -> Vector:
    """Return the Fiedler vector by products with L only, for expanders."""
    n = laplacian.shape[0]
    top = 2.0 * float(laplacian.diagonal().max())  # Gershgorin

    def flipped(x: Vector) -> Vector:
        centred = x - x.mean()
        return top * centred - laplacian @ centred

    operator = scipy.sparse.linalg.LinearOperator(
        (n, n), matvec=flipped, dtype=np.float64
    )
    start = np.random.default_rng(0).standard_normal(n)
    return _top_eigenvector_of_laplacian(operator, start, tolerance=1e-6)


def _top_eigenvector_of_laplacian(
    operator: scipy.sparse.linalg.LinearOperator, start: Vector, *, tolerance: float
) -> Vector:
    """Return the operator's top eigenvector on 1-perp, or the best at hand."""
    centred = start - start.mean()
    try:
        _, vectors = scipy.sparse.linalg.eigsh(
            operator, k=1, which="LA", v0=centred, tol=tolerance, ncv=40
        )
    except scipy.sparse.linalg.ArpackNoConvergence as error:
        vectors = error.eigenvectors
    return np.asarray(vectors[:, 0]) if vectors.shape[1] else centred


def _factor_laplacian(matrix: Sparse) -> scipy.sparse.linalg.SuperLU:
    return scipy.sparse.linalg.splu(
        matrix,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


def inertia_bound_on_mu2(laplacian: Sparse, shift: float) -> float | None:
    """Return a proved lower bound on mu2 just below `shift`, or None.

    By Sylvester's law the negative pivots of L - sI = P'LUP count the eigenvalues
    below s: one, the zero, if s < mu2. Rounding makes this true of a matrix nearby;
    its distance (Higham 2002, theorem 9.3) is taken off the bound.
    """
    n = laplacian.shape[0]
    try:
        factor = _factor_laplacian(
            scipy.sparse.csc_array(laplacian - shift * scipy.sparse.eye_array(n))
        )
    except RuntimeError:  # an exactly zero pivot
        return None
    if not np.array_equal(factor.perm_r, factor.perm_c):
        return None
    pivots = factor.U.diagonal()
    if int((pivots < 0).sum()) != 1:
        return None
    bound = shift - _rounding_margin_of_laplacian(factor, n)
    return bound if bound > 0 else None


def _rounding_margin_of_laplacian(factor: scipy.sparse.linalg.SuperLU, n: int) -> float:
    """Bound ||P'LUP - (L - sI)||: gamma_n || |L| |U| ||_inf."""
    ones = np.ones(n)
    size = float((abs(factor.L) @ (abs(factor.U) @ ones)).max())
    longest = max(np.diff(factor.L.indptr).max(), np.diff(factor.U.indptr).max())
    # Twice: once for the product, once for U being D L' up to rounding only.
    return 2.0 * (int(longest) + 2) * UNIT_ROUNDOFF * size


def _mu2_by_filter(
    laplacian: Sparse, stream: np.random.Generator, work: float, opening: Opening
) -> Mu2Bounds:
    n, top = laplacian.shape[0], 2.0 * float(laplacian.diagonal().max())  # Gershgorin
    most = work / laplacian.nnz
    told = opening("products for an estimate", 2 * LANCZOS_STEPS)
    upper = rayleigh_bound_on_mu2(
        laplacian, _low_eigenvector_of_laplacian(laplacian, told)
    )
    # A better one takes twenty times as long; it pays if a near bound can be proved.
    if (
        n <= MANY_PARTIES
        and _steps_of_mu2_filter(*_mu2_filter_window(upper, NEAR), top, n) <= most
    ):
        upper = rayleigh_bound_on_mu2(laplacian, _fiedler_by_products(laplacian))
    # From ambitious to modest.
    for gap in GAPS:
        low, high = _mu2_filter_window(upper, gap)
        steps = _steps_of_mu2_filter(low, high, top, n)
        if steps > most:
            continue
        told = opening("products for a proof", steps)
        if filter_certifies_mu2(laplacian, low, high, top, stream, told):
            return Mu2Bounds(low, upper, "probabilistic")
    return Mu2Bounds(None, upper, "none")


def _mu2_filter_window(upper: float, gap: float) -> tuple[float, float]:
    """Return the bound to prove, and the edge of the filter above it."""
    return upper * (1 - gap), upper * (1 - gap / 4)


def _smallest_part_of_spectrum_probes() -> float:
    """Return tau: all probes' parts along one direction are below it rarely enough."""
    return sqrt(2.0) * float(scipy.special.erfinv(FAILURE_PER_TRY ** (1.0 / PROBES)))


def _steps_of_mu2_filter(low: float, high: float, top: float, n: int) -> int:
    """Return the degree at which a part below `low` outgrows a whole random vector."""
    wanted = 4.0 * sqrt(n) / _smallest_part_of_spectrum_probes()
    return ceil(acosh(wanted) / acosh(1.0 + 2.0 * (high - low) / (top - high)))


def filter_certifies_mu2(
    laplacian: Sparse,
    low: float,
    high: float,
    top: float,
    stream: np.random.Generator,
    told: Advance = lambda _done: None,
) -> bool:
    """Return whether random probes prove mu2 > low, but for a tiny probability.

    p = T_k mapped so that |p| <= 1 on [high, top] and p >= T_k(y0) =: M below `low`. If
    mu2 <= low, a Gaussian probe z on 1-perp has ||p(L) z|| >= M |g|, g its part along
    the eigenvector, a standard normal. All of b independent probes staying below M tau
    then has probability erf(tau / sqrt 2)^b, which tau makes FAILURE_PER_TRY.
    """
    n = laplacian.shape[0]
    steps = _steps_of_mu2_filter(low, high, top, n)
    growth = cosh(steps * acosh(1.0 + 2.0 * (high - low) / (top - high)))
    probes = _aligned_spectrum_probes(n)
    stream.standard_normal(out=probes)
    # Parts far below the window overflow: an infinite norm certifies nothing, as due.
    with np.errstate(over="ignore", invalid="ignore"):
        filtered = _chebyshev_filter_of_laplacian(
            laplacian, probes, high, top, steps, told
        )
        norms = np.sqrt(np.einsum("ij,ij->j", filtered, filtered))
    # Halved, so that rounding errors in the recurrence cannot matter.
    return bool((norms < 0.5 * growth * _smallest_part_of_spectrum_probes()).all())


def _chebyshev_filter_of_laplacian(
    laplacian: Sparse,
    probes: FloatArray,
    high: float,
    top: float,
    steps: int,
    told: Advance,
) -> FloatArray:
    """Return T_k(y(L)) Z on 1-perp, y(x) = (top + high - 2x) / (top - high).

    The constant vector is taken out at every step: p is largest there, and would turn
    rounding error into everything. The probes are used up.
    """
    width = top - high
    own, others = (top + high) / width, 2.0 / width
    now, before = probes, _aligned_spectrum_probes(len(probes))
    middle, last = now.mean(axis=0), np.zeros(PROBES)
    for k in range(steps):
        # The first polynomial is y itself, the following ones are 2 y now - before.
        many = 2.0 if k else 1.0
        # Means are taken out of what is made of vectors, not of these: L turns them
        # into zeros, and two passes over memory are spared.
        less = many * own * middle - last
        means = _combine_laplacian_terms(
            laplacian, now, before, (many * own, many * others), less
        )
        before, now = now, before
        last, middle = middle, means
        told(k + 1)
    now -= middle
    return now


# Products of many parties: by machine code, in place, on all cores


def _laplacian_times_vector(laplacian: Sparse, vector: Vector) -> Vector:
    if laplacian.shape[0] <= MANY_PARTIES:
        return np.asarray(laplacian @ vector)
    out = np.zeros((len(vector), 1))
    _combine_laplacian_terms(laplacian, vector[:, None], out, (0.0, -1.0), np.zeros(1))
    return out[:, 0]


def _combine_laplacian_terms(
    laplacian: Sparse,
    now: FloatArray,
    before: FloatArray,
    factors: tuple[float, float],
    less: Vector,
) -> Vector:
    """Replace `before` by own now - others L now - before - less; return its means."""
    n, (own, others) = laplacian.shape[0], factors
    if n <= COMPILED_PARTIES or find_spec("numba") is None:
        made = own * now - others * (laplacian @ now) - less
        np.subtract(made, before, out=before)
        return np.asarray(before.mean(axis=0))
    from veilsum.graphs.filtering import COMBINED

    rows = COMBINED[now.shape[1]]
    csr = (laplacian.indptr, laplacian.indices, laplacian.data)
    flat = (now.reshape(-1), before.reshape(-1))
    cuts = np.linspace(0, n, 4 * CORES + 1).astype(int).tolist()
    taken = tuple(less.tolist())

    def part(first: int, last: int) -> tuple[float, ...]:
        added: tuple[float, ...] = rows(first, last, *csr, *flat, own, others, taken)
        return added

    with ThreadPoolExecutor(CORES) as pool:
        return np.sum(list(pool.map(part, cuts[:-1], cuts[1:])), axis=0) / n


def _aligned_spectrum_probes(parties: int) -> FloatArray:
    """Return room for probes, each party's in one line of memory."""
    raw = np.zeros((parties + 1) * PROBES)
    first = -raw.ctypes.data % 64 // 8
    return raw[first : first + parties * PROBES].reshape(parties, PROBES)


def _low_eigenvector_of_laplacian(laplacian: Sparse, told: Advance) -> Vector:
    """Return about the lowest eigenvector on 1-perp, in the memory of a few vectors.

    Lanczos' recurrence twice: once for its coefficients, once more to add up what they
    say. Its vectors are not kept.
    """
    start = np.random.default_rng(0).standard_normal(laplacian.shape[0])
    alphas, betas = [], []
    for _, alpha, beta in _lanczos_vectors_of_laplacian(laplacian, start):
        alphas.append(alpha)
        betas.append(beta)
        told(len(alphas))
    _, vectors = scipy.linalg.eigh_tridiagonal(
        alphas, betas[:-1], select="i", select_range=(0, 0)
    )
    found, again = np.zeros_like(start), _lanczos_vectors_of_laplacian(laplacian, start)
    pairs = zip(vectors[:, 0], again, strict=True)
    for done, (part, (vector, _, _)) in enumerate(pairs, len(alphas) + 1):
        found += part * vector
        told(done)
    return found


def _lanczos_vectors_of_laplacian(
    laplacian: Sparse, start: Vector
) -> Iterator[tuple[Vector, float, float]]:
    """Yield the orthonormal vectors on 1-perp, and the coefficients beside them."""
    vector = start - start.mean()
    vector /= np.linalg.norm(vector)
    last, beta = np.zeros_like(vector), 0.0
    for _ in range(LANCZOS_STEPS):
        moved = _laplacian_times_vector(laplacian, vector)
        alpha = float(moved @ vector)
        moved -= alpha * vector
        moved -= beta * last
        moved -= moved.mean()
        beta = float(np.linalg.norm(moved))
        yield vector, alpha, beta
        if beta == 0.0:
            return
        moved /= beta
        last, vector = vector, moved
