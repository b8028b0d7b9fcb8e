"""The next theta of a mixed model: few sums, whatever the intraclass correlation.

Each sum gives the criterion, its exact gradient by T and nearly exact second
derivatives; see `mixed`. Two models of the criterion are made of them, in the metric of
Q = T + H, the covariance of one party's own estimates when all parties are alike:

- Far from the end all parties are taken to be alike. Then products, the logarithm and
  their derivatives at one theta give the criterion at all others, and its minimum over
  T >= 0 follows by a few alternations in closed form (eigenvalues of Q beside H, none
  below 1). A ratio of 100 between standard deviations is as near as one of 1.
- Near the end, Newton's step over T >= 0: a quadratic programme over a cone, by
  projected gradients. A variance of 0 or a correlation of 1 is a point of that cone,
  and no place where steps become short.

A step that leads uphill is taken back, to the minimum of the cubic through both ends.

All of it is plain float64 in a fixed order, and theta is rounded to its unit: the same
on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import frexp, sqrt
from typing import Literal

import numpy as np
from flint import fmpq, fmpq_mat

from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models.mixed import (
    FIRST_BITS,
    MIXED_BITS,
    MOST_THETA_BITS,
    ROOT_BITS,
    THETA_BITS,
    WEIGHT_BITS,
    MixedModel,
    MixedModelProfile,
    MixedModelRequest,
    Theta,
    mixed_model_float,
    random_effects_covariance,
    theta_triangle_places,
)
from veilsum.models.systems import UNDETERMINED
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.units import Integers

Matrix = FloatArray
Vector = Sequence[float] | FloatArray
Step = Literal["alike", "newton"]

# Additional bits where numbers were too coarse for a fit.
MORE_BITS = 8
# The search ends where T is known to the first part of Q, and rounding to the second.
END, FINE = 2.0**-28, 2.0**-30
# Rounding of numbers for a long step, as a part of Q.
COARSE = 2.0**-10
# With more of it there is no telling where to go.
TOO_COARSE = 2.0**-4
# Newton's step is taken where it is shorter: from there second derivatives are still
# about the same.
NEAR = 0.3
# Longer steps are shortened: Newton's, and those of parties taken to be alike.
NEWTON, ALIKE = 0.5, 2.0**10
# The least part of the residual sum that rows within parties have, for a long step:
# parties are not quite alike, and a difference of two sums says how much it is.
LEAST_WITHIN = 2.0**-8
# A variance is 0 below this part of Q.
NOTHING = 2.0**-34
# T beside Q where H can no longer be told from 0.
FULL = 1.0 - 2.0**-20
# Iterations within one sum: nothing is released for them.
ALTERNATIONS, PROJECTIONS = 60, 500


@dataclass(frozen=True)
class ThetaState:
    """An accepted theta, and the one that is tried next.

    Attributes:
        tried: what parties are asked for next.
        best: the best so far; None before the first sum.
        step: the model that the step from the best came from; None for a shorter one.
        size: of the step, as a part of Q.
        doubted: whether parties taken to be alike have led uphill.
        answer: at the end, the best after its last step.
    """

    tried: MixedModelRequest
    best: MixedModelProfile | None = None
    step: Step | None = None
    size: float = 1.0
    doubted: bool = False
    rounds: int = 0
    answer: MixedModelProfile | None = None

    @property
    def converged(self) -> bool:
        """Whether there is an answer."""
        return self.answer is not None


@dataclass(frozen=True)
class ThetaSearch:
    model: MixedModel

    def start(self) -> ThetaState:
        """Return the beginning: random effects as large as residuals, apart."""
        q = len(self.model.mixing.random)
        theta = tuple(int(i == j) << THETA_BITS for i, j in theta_triangle_places(q))
        root = tuple(int(i == j) << ROOT_BITS for i, j in theta_triangle_places(q))
        return ThetaState(MixedModelRequest(theta, FIRST_BITS, root))

    def propose(self, state: ThetaState) -> MixedModelRequest:
        return state.tried

    def advance(self, state: ThetaState, total: Integers) -> ThetaState:
        """Return where the sum at `tried` leads."""
        here, best = self.model.profile(state.tried, total), state.best
        after = replace(state, rounds=state.rounds + 1)
        if here is None or (
            here.at.bits < MIXED_BITS and theta_step_rounding(here) > TOO_COARSE
        ):
            more = (
                MORE_BITS
                if here is None
                else frexp(theta_step_rounding(here) / COARSE)[1]
            )
            bits = min(state.tried.bits + more, MIXED_BITS)
            return replace(after, tried=replace(state.tried, bits=bits))
        if best is None:
            return self._onwards(after, here)
        uphill = here.criterion - best.criterion > 4.0 * (
            theta_criterion_noise(best) + theta_criterion_noise(here)
        )
        return (
            self._shorter(after, best, here) if uphill else self._onwards(after, here)
        )

    def _shorter(
        self, state: ThetaState, best: MixedModelProfile, here: MixedModelProfile
    ) -> ThetaState:
        """Return a shorter step: to the least of a cubic through both ends."""
        gap = self.model.mixing.covariance(here.at.theta)
        gap -= self.model.mixing.covariance(best.at.theta)
        before, ahead = (
            _sum_of_products(
                _theta_profile_slope(one),
                _theta_matrix_floats(random_effects_covariance(one.root, gap)),
            )
            for one in (best, here)
        )
        step = _theta_matrix_floats(random_effects_covariance(best.root, gap))
        rise = here.criterion - best.criterion
        third = before + ahead - 2.0 * rise
        half = 3.0 * rise - 2.0 * before - ahead
        # The root of 3 third t^2 + 2 half t + before at which the cubic bends up.
        root = sqrt(max(half * half - 3.0 * third * before, 0.0))
        below = half + root
        part = -before / below if below > 0.0 else 0.5
        part = min(max(part, 0.02), 0.7)
        doubted = state.doubted or state.step == "alike"
        after = replace(state, step=None, doubted=doubted, size=part * state.size)
        return self._trying(after, best, _ThetaMetric.of(best), part * step, 1.0)

    def _onwards(self, state: ThetaState, here: MixedModelProfile) -> ThetaState:
        metric = _ThetaMetric.of(here)
        model = _AlikeThetaCriterion(here, metric, self.model)
        scored, _ = model.least(1)
        kind: Step = "newton"
        found, shrinks = None, 1.0
        if here.at.weights:
            found = _theta_newton_step(here, metric, scored)
        if found is not None and _theta_size(found) > NEAR:
            found = _shorten_theta_step(found, NEWTON) if state.doubted else None
        if found is None:
            kind = "alike"
            found, shrinks = model.least(ALTERNATIONS)
            found = _shorten_theta_step(found, ALIKE)
            if not _sum_of_products(metric.slope, found) < 0.0:
                kind, found, shrinks = "newton", scored, 1.0
        size = _theta_size(found)
        error = size
        if kind == "newton" and here.at.weights:
            error *= min(1.0, max(state.size, 2.0 ** (3 - here.at.second_bits)))
        step = metric.real(found)
        after = replace(state, best=here, step=kind, size=size)
        finest = here.at.bits == MIXED_BITS
        off = theta_step_rounding(here)
        if (error <= END and off <= FINE) or (finest and size <= 8.0 * off):
            theta = self._theta(here, metric, step)
            return replace(after, answer=self.model.moved(here, theta))
        return self._trying(after, here, metric, step, shrinks)

    def _trying(
        self,
        state: ThetaState,
        best: MixedModelProfile,
        metric: _ThetaMetric,
        step: Matrix,
        shrinks: float,
    ) -> ThetaState:
        theta = self._theta(best, metric, step)
        size = state.size
        # frexp is exact, and a logarithm is not the same everywhere.
        wanted = min(COARSE, max(size * size / 64.0, FINE / 4.0))
        now = theta_step_rounding(best) / shrinks
        bits = best.at.bits + frexp(now / wanted)[1]
        bits = min(max(bits, best.at.bits), MIXED_BITS)
        root = _theta_step_root(best, metric.whole + step)
        weights = [
            round(mixed_model_float(best.weights[a, b] * fmpq(2) ** WEIGHT_BITS))
            for a in range(best.weights.nrows())
            for b in range(a + 1)
        ]
        tried = MixedModelRequest(theta, bits, root, tuple(weights))
        if (theta, bits) == (best.at.theta, best.at.bits):
            return replace(state, answer=best)
        return replace(state, tried=tried)

    def _theta(
        self, best: MixedModelProfile, metric: _ThetaMetric, step: Matrix
    ) -> Theta:
        """Return theta of T after a step, rounded to its unit; no entry too large."""
        outer = _theta_matrix_floats(best.root)
        before = _theta_matrix_floats(self.model.mixing.covariance(best.at.theta))
        after = before + _theta_congruence(outer, step)
        whole = _theta_congruence(outer, metric.whole)
        some = range(len(after))
        limit = 4.0**MOST_THETA_BITS
        largest = np.diag(after).max()
        if largest > limit:
            if np.diag(before).max() > 0.9 * limit:
                raise InvalidInputError(
                    "random effects vary more than "
                    f"{2**MOST_THETA_BITS} times as much as rows within parties do: "
                    "the fit within parties is nearly perfect. Use absorb = true, or "
                    "a smaller unit of the response",
                    code="random-effects-too-large",
                )
            after = after * (limit / largest)
        theta = []
        lower = [[0.0] * len(after) for _ in some]
        for j in some:
            pivot = after[j, j] - _theta_dot(lower[j][:j], lower[j][:j])
            if pivot > NOTHING * whole[j, j]:
                lower[j][j] = sqrt(pivot)
                for i in some[j + 1 :]:
                    rest = after[i, j] - _theta_dot(lower[i][:j], lower[j][:j])
                    lower[i][j] = rest / lower[j][j]
            theta += [round(lower[i][j] * 2.0**THETA_BITS) for i in some[j:]]
        return tuple(theta)


def _theta_step_root(best: MixedModelProfile, whole: Matrix) -> tuple[int, ...]:
    """Return the root of Q after a step, in whole numbers of its unit."""
    outer = _theta_matrix_floats(best.root)
    lower = _theta_cholesky(_theta_congruence(outer, whole))
    most = 1 << MOST_THETA_BITS + ROOT_BITS
    found = []
    for i, j in theta_triangle_places(len(outer)):
        one = outer[i, j] if lower is None else lower[i, j]
        found.append(min(max(round(one * 2.0**ROOT_BITS), int(i == j) - most), most))
    return tuple(found)


def theta_step_rounding(at: MixedModelProfile) -> float:
    """Return how far off rounding leaves a step, as a part of Q, about."""
    return theta_criterion_noise(at) / at.n_parties


def theta_criterion_noise(at: MixedModelProfile) -> float:
    """Return how far off rounding leaves the criterion, about."""
    return sqrt(at.n_parties) * at.reach * 2.0 ** -(at.at.bits + 1)


# Models of the criterion


@dataclass(frozen=True)
class _ThetaMetric:
    """Numbers of a profile where Q = m (Z'V^-1 Z)^-1 is the identity.

    Attributes:
        whole: Q.
        root: R with R R' = Q, a lower triangle.
        covariance: T.
        slope: the criterion's gradient by T.
    """

    whole: Matrix
    root: Matrix
    covariance: Matrix
    slope: Matrix

    @classmethod
    def of(cls, here: MixedModelProfile) -> _ThetaMetric:
        whole = _theta_matrix_floats(here.spread.inv() * fmpq(here.n_parties))
        root = _theta_cholesky(whole)
        if root is None:
            raise NumericalError(UNDETERMINED, code="undetermined")
        back = _lower_theta_inverse(root)
        covariance = _theta_matrix_product(
            _theta_matrix_product(back, _theta_matrix_floats(here.covariance)), back.T
        )
        scaled = _theta_matrix_product(
            _theta_matrix_product(root.T, _theta_profile_slope(here)), root
        )
        return cls(
            whole, root, _even_theta_matrix(covariance), _even_theta_matrix(scaled)
        )

    def real(self, step: Matrix) -> Matrix:
        return _theta_congruence(self.root, step)


def _theta_profile_slope(here: MixedModelProfile) -> Matrix:
    q = here.root.nrows()
    found = np.zeros((q, q))
    for one, (i, j) in zip(here.gradient, theta_triangle_places(q), strict=True):
        found[i, j] = found[j, i] = one if i == j else one / 2.0
    return found


class _AlikeThetaCriterion:
    """The criterion if all parties had the same Z'Z: a function of Q alone.

    Products are `random_effects_covariance` + sum of `between` times Q^-1, and log det
    V is that of Q for each party. Responses are replaced by residuals, so that the
    first coefficients are 0.
    """

    def __init__(
        self, here: MixedModelProfile, metric: _ThetaMetric, model: MixedModel
    ) -> None:
        p, root = len(here.coefficients), metric.root
        q = len(root)
        self.here, self.metric, self.places = here, metric, theta_triangle_places(q)
        self.restricted = model.method == "reml"
        self.degrees = model.degrees(here.n_rows)
        about = fmpq_mat(p + 1, p + 1)
        for k in range(p + 1):
            about[k, k] = fmpq(1)
        for k, one in enumerate(here.coefficients):
            about[k, p] = -one
        changes = [
            _theta_matrix_floats(about.transpose() * one * about)
            for one in here.changes
        ]
        self.between = []
        for u, v in self.places:
            shares = [
                root[i, u] * root[j, v] + root[j, u] * root[i, v]
                for i, j in self.places
            ]
            self.between.append(
                _weighed_theta_matrices([0.5 * one for one in shares], changes)
            )
        products = _theta_matrix_floats(about.transpose() * here.products * about)
        inner = [-1.0 if u == v else 0.0 for u, v in self.places]
        self.within = products + _weighed_theta_matrices(inner, self.between)
        self.residual = mixed_model_float(here.residual)
        self.least_within = max(
            LEAST_WITHIN, 4.0 * theta_criterion_noise(here) / self.degrees
        )

    def least(self, most: int) -> tuple[Matrix, float]:
        """Return the step to the minimum, and what part of the residual sum is left.

        Each alternation takes coefficients and s^2 at their best, and then Q: the
        minimum of m log det Q + tr(Q^-1 C) over Q >= H.
        """
        q, p = len(self.metric.root), len(self.within) - 1
        whole, left = np.eye(q), 1.0
        values, vectors = _theta_eigenvalues(self.metric.covariance)
        rest = [1.0 - min(max(one, 0.0), FULL) for one in values]
        least = _theta_matrix_of_eigenvalues(rest, vectors)
        half = _theta_matrix_of_eigenvalues([sqrt(one) for one in rest], vectors)
        back = _theta_matrix_of_eigenvalues([1.0 / sqrt(one) for one in rest], vectors)
        for turn in range(most):
            inverse = _theta_inverse(whole)
            if inverse is None:
                break
            twice = [inverse[u, v] * (1.0 if u == v else 2.0) for u, v in self.places]
            products = self.within + _weighed_theta_matrices(twice, self.between)
            lower = _theta_cholesky(products[:p, :p])
            if lower is None:
                break
            turned = _lower_theta_inverse(lower)
            design = _theta_matrix_product(turned.T, turned)
            about = [*(-_theta_dot(row, products[p, :p]) for row in design), 1.0]
            outer = np.outer(about, about)
            residual = _sum_of_products(outer, self.within)
            if turn:
                residual = max(residual, self.least_within * self.residual)
            for share, one in zip(twice, self.between, strict=True):
                residual += share * _sum_of_products(outer, one)
            left = residual / self.residual
            if not left > 0.0:
                break
            weights = self.degrees / residual * outer
            if self.restricted:
                weights[:p, :p] += design
            after = np.zeros((q, q))
            for (u, v), one in zip(self.places, self.between, strict=True):
                share = _sum_of_products(weights, one) / self.here.n_parties
                after[u, v] = after[v, u] = share
            if _theta_cholesky(after - least) is None:
                values, vectors = _theta_eigenvalues(
                    _even_theta_matrix(
                        _theta_matrix_product(_theta_matrix_product(back, after), back)
                    )
                )
                kept = _theta_matrix_of_eigenvalues(
                    [max(one, 1.0) for one in values], vectors
                )
                after = _even_theta_matrix(
                    _theta_matrix_product(_theta_matrix_product(half, kept), half)
                )
            gap = _theta_size(after - whole)
            whole = after
            if gap <= 1e-10 * _theta_size(whole):
                break
        return whole - np.eye(q), left


def _theta_newton_step(
    here: MixedModelProfile, metric: _ThetaMetric, start: Matrix
) -> Matrix | None:
    """Return Newton's step over T >= 0; None if it is long or leads uphill."""
    places = theta_triangle_places(len(start))
    # An orthonormal basis of symmetric matrices, and what T changes by along it.
    along = []
    for i, j in places:
        share = 1.0 if i == j else sqrt(0.5)
        one = np.zeros_like(start)
        one[i, j] = one[j, i] = share
        real = metric.real(one)
        along.append([real[a, b] for a, b in places])
    bent = [[_theta_dot(row, one) for row in here.second] for one in along]
    second = np.array([[_theta_dot(row, one) for one in along] for row in bent])
    slope = _flat_theta_matrix(metric.slope)
    longest = sqrt(_sum_of_products(second, second))
    if not longest > 0.0:
        return None
    lower = _theta_cholesky(second - 0.01 * longest * np.eye(len(second)))
    inverse = _theta_inverse(second) if lower is not None else None
    if inverse is not None:
        step = _theta_matrix_of_flat(
            [-_theta_dot(row, slope) for row in inverse], places
        )
        if min(_theta_eigenvalues(metric.covariance + step)[0]) >= 0.0:
            return step
    last = ahead = _flat_theta_matrix(start)
    pace = 1.0
    before = metric.covariance
    for _ in range(PROJECTIONS):
        bend = slope + np.array([_theta_dot(row, ahead) for row in second])
        tried = _theta_matrix_of_flat(ahead - bend / longest, places)
        values, vectors = _theta_eigenvalues(before + tried)
        inside = _theta_matrix_of_eigenvalues(
            [max(one, 0.0) for one in values], vectors
        )
        now = _flat_theta_matrix(inside - before)
        change = now - last
        size = _theta_size(now)
        if size > 2.0:
            return None
        # Momentum, from the beginning again where it leads back.
        if _theta_dot(ahead - now, change) > 0.0:
            pace = 1.0
        faster = (1.0 + sqrt(1.0 + 4.0 * pace * pace)) / 2.0
        share = (pace - 1.0) / faster
        ahead = now + share * change
        last, pace = now, faster
        if _theta_size(change) <= 1e-9 * size + 1e-15:
            break
    value = _theta_dot(slope, last)
    for row, number in zip(second, last, strict=True):
        value += 0.5 * number * _theta_dot(row, last)
    return _theta_matrix_of_flat(last, places) if value <= 0.0 else None


# Small matrices of float64, in a fixed order of operations


def _theta_dot(left: Vector, right: Vector) -> float:
    found = 0.0
    for a, b in zip(left, right, strict=True):
        found += a * b
    return found


def _sum_of_products(left: Matrix, right: Matrix) -> float:
    found = 0.0
    for row, other in zip(left, right, strict=True):
        found += _theta_dot(row, other)
    return found


def _theta_matrix_floats(matrix: fmpq_mat) -> Matrix:
    shape = matrix.nrows(), matrix.ncols()
    return np.array([mixed_model_float(one) for one in matrix.entries()]).reshape(shape)


def _theta_matrix_product(left: Matrix, right: Matrix) -> Matrix:
    found = np.zeros((len(left), right.shape[1]))
    for column, row in zip(left.T, right, strict=True):
        found += column[:, None] * row
    return found


def _theta_congruence(outer: Matrix, matrix: Matrix) -> Matrix:
    return _even_theta_matrix(
        _theta_matrix_product(_theta_matrix_product(outer, matrix), outer.T)
    )


def _weighed_theta_matrices(
    shares: Sequence[float], matrices: Sequence[Matrix]
) -> Matrix:
    found = np.zeros_like(matrices[0])
    for share, matrix in zip(shares, matrices, strict=True):
        found += share * matrix
    return found


def _even_theta_matrix(matrix: Matrix) -> Matrix:
    return (matrix + matrix.T) / 2.0


def _theta_size(numbers: FloatArray) -> float:
    return float(np.abs(numbers).max())


def _shorten_theta_step(matrix: Matrix, limit: float) -> Matrix:
    return matrix * min(1.0, limit / max(_theta_size(matrix), limit))


def _flat_theta_matrix(matrix: Matrix) -> FloatArray:
    """Return coordinates of a symmetric matrix in an orthonormal basis."""
    places = theta_triangle_places(len(matrix))
    return np.array([matrix[i, j] * (1.0 if i == j else sqrt(2.0)) for i, j in places])


def _theta_matrix_of_flat(numbers: Vector, places: Sequence[tuple[int, int]]) -> Matrix:
    q = places[-1][0] + 1
    found = np.zeros((q, q))
    for one, (i, j) in zip(numbers, places, strict=True):
        found[i, j] = found[j, i] = one if i == j else one * sqrt(0.5)
    return found


def _theta_cholesky(matrix: Matrix) -> Matrix | None:
    lower = np.zeros_like(matrix)
    for i, row in enumerate(matrix):
        for j in range(i):
            lower[i, j] = (row[j] - _theta_dot(lower[i, :j], lower[j, :j])) / lower[
                j, j
            ]
        pivot = row[i] - _theta_dot(lower[i, :i], lower[i, :i])
        if not pivot > 0.0:
            return None
        lower[i, i] = sqrt(pivot)
    return lower


def _lower_theta_inverse(lower: Matrix) -> Matrix:
    found = np.zeros_like(lower)
    for j in range(len(lower)):
        found[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, len(lower)):
            found[i, j] = -_theta_dot(lower[i, j:i], found[j:i, j]) / lower[i, i]
    return found


def _theta_inverse(matrix: Matrix) -> Matrix | None:
    lower = _theta_cholesky(matrix)
    if lower is None:
        return None
    back = _lower_theta_inverse(lower)
    return _theta_matrix_product(back.T, back)


def _theta_eigenvalues(matrix: Matrix) -> tuple[list[float], Matrix]:
    n = len(matrix)
    # Python's own numbers take less time, one by one.
    table, vectors = matrix.tolist(), np.eye(n).tolist()
    for _ in range(30):
        if not any(table[i][j] for i in range(n) for j in range(i)):
            break
        for i in range(1, n):
            for j in range(i):
                off = table[i][j]
                if abs(off) <= 1e-18 * sqrt(abs(table[i][i] * table[j][j])):
                    table[i][j] = table[j][i] = 0.0
                    continue
                gap = (table[i][i] - table[j][j]) / (2.0 * off)
                side = 1.0 if gap >= 0.0 else -1.0
                tangent = side / (abs(gap) + sqrt(gap * gap + 1.0))
                cosine = 1.0 / sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                for k in range(n):
                    a, b = table[k][j], table[k][i]
                    table[k][j], table[k][i] = (
                        cosine * a - sine * b,
                        sine * a + cosine * b,
                    )
                for k in range(n):
                    a, b = table[j][k], table[i][k]
                    table[j][k], table[i][k] = (
                        cosine * a - sine * b,
                        sine * a + cosine * b,
                    )
                for row in vectors:
                    a, b = row[j], row[i]
                    row[j], row[i] = cosine * a - sine * b, sine * a + cosine * b
                table[i][j] = table[j][i] = 0.0
    return [table[k][k] for k in range(n)], np.array(vectors)


def _theta_matrix_of_eigenvalues(values: Sequence[float], vectors: Matrix) -> Matrix:
    return _even_theta_matrix(_theta_matrix_product(vectors * values, vectors.T))
