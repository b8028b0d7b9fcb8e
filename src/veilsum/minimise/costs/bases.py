"""Bases phi agreed by all: the part of a cost that masks can hide is span(phi).

A basis maps x in R^m to p features; a cost's masked part is theta . phi(x). Every
method takes leading axes, so one party's (p,) and (m,) work like all parties' rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations_with_replacement
from typing import Protocol, runtime_checkable

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import (
    Array,
    Coefficients,
    FloatArray,
    Matrix,
    Vectors,
    as_whole_number,
)


@runtime_checkable
class Basis(Protocol):
    """Properties of phi that masking and phase II need."""

    @property
    def dim(self) -> int:
        """m, the dimension of x."""
        ...

    @property
    def size(self) -> int:
        """The number p of features and of coefficients."""
        ...

    def features(self, x: Vectors) -> Coefficients:
        """Return phi(x)."""
        ...

    def gradient(self, theta: Coefficients, x: Vectors) -> Vectors:
        """Return the gradient of theta . phi at x."""
        ...

    def gradient_change(
        self, theta: Coefficients, new: Vectors, old: Vectors
    ) -> Vectors:
        """Return gradient(theta, new) - gradient(theta, old) less what cancels."""
        ...


def check_cost_dimension(dim: int) -> None:
    """Refuse a dimension of x below one."""
    as_whole_number(dim, what="the dimension of x", least=1)


@dataclass(frozen=True)
class Affine:
    """phi(x) = x: the paper's main text. Constants move nobody and are left out."""

    dim: int

    def __post_init__(self) -> None:
        check_cost_dimension(self.dim)

    @property
    def size(self) -> int:
        """Return p = m."""
        return self.dim

    def features(self, x: Vectors) -> Coefficients:
        """Return x itself."""
        return x

    def gradient(self, theta: Coefficients, x: Vectors) -> Vectors:
        """Return theta, whatever x is."""
        if theta.shape == x.shape:
            return theta
        return np.broadcast_to(theta, np.broadcast_shapes(theta.shape, x.shape))

    def gradient_change(
        self,
        theta: Coefficients,  # an affine gradient never changes
        new: Vectors,
        old: Vectors,
    ) -> Vectors:
        """Return exactly zero: not a float difference of equal numbers."""
        return np.zeros_like(new)


@dataclass(frozen=True)
class Polynomial:
    """All monomials x^a with 1 <= |a| <= degree, by degree and then by variable.

    For x in R this is the paper's section III-B: (x, x^2, ..., x^degree).

    >>> Polynomial(dim=2, degree=2).exponents.tolist()
    [[1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    """

    dim: int
    degree: int

    def __post_init__(self) -> None:
        check_cost_dimension(self.dim)
        if self.degree < 1:
            raise InvalidInputError(
                f"a polynomial's degree must be at least 1, found {self.degree}",
                code="degree-not-positive",
            )

    @cached_property
    def exponents(self) -> Array[np.int64]:
        """The exponent vectors a, one row per feature."""
        variables = range(self.dim)
        chosen = [
            pick
            for total in range(1, self.degree + 1)
            for pick in combinations_with_replacement(variables, total)
        ]
        counts = [[pick.count(k) for k in variables] for pick in chosen]
        return np.array(counts, dtype=np.int64)

    @property
    def size(self) -> int:
        """Return p = binom(m + d, d) - 1."""
        return len(self.exponents)

    def features(self, x: Vectors) -> Coefficients:
        """Return every monomial at x."""
        return _monomials_of_basis(x, self.exponents)

    def gradient(self, theta: Coefficients, x: Vectors) -> Vectors:
        """Return sum_a theta_a grad x^a."""
        if self.dim == 1:
            return _univariate_cost_slope(theta, x)
        partials = [self._partial(theta, x, k) for k in range(self.dim)]
        return np.stack(partials, axis=-1)

    def gradient_change(
        self, theta: Coefficients, new: Vectors, old: Vectors
    ) -> Vectors:
        """Return the difference with the linear monomials, which cancel, left out."""
        curved = np.where(self.exponents.sum(axis=1) > 1, theta, 0.0)
        return self.gradient(curved, new) - self.gradient(curved, old)

    def _partial(self, theta: Coefficients, x: Vectors, k: int) -> FloatArray:
        """Return d/dx_k: the exponent comes down as a factor."""
        power = self.exponents[:, k]
        lowered = self.exponents.copy()
        lowered[:, k] = np.maximum(power - 1, 0)
        return np.asarray(
            (theta * power * _monomials_of_basis(x, lowered)).sum(axis=-1)
        )


def _monomials_of_basis(x: Vectors, exponents: Array[np.int64]) -> Coefficients:
    return np.prod(x[..., None, :] ** exponents, axis=-1)


def _univariate_cost_slope(theta: Coefficients, x: Vectors) -> Vectors:
    """Return sum_l l theta_l x^(l-1) by Horner's rule."""
    degree = theta.shape[-1]
    scaled = theta * np.arange(1.0, degree + 1)
    slope = scaled[..., -1:] + 0.0 * x
    for power in range(degree - 1, 0, -1):
        slope *= x
        slope += scaled[..., power - 1 : power]
    return slope


@dataclass(frozen=True)
class Quadratic:
    """phi(x) = (x_i^2 / 2 and x_i x_j, x, 1): every quadratic cost, wholly masked.

    The cost x'Px/2 + q'x + c has the coefficients (P_ij for i <= j row by row, q, c):
    its own numbers, so that whole ones of a unit stay whole. Norms are taken of
    (svec(P) / 2, q, c), in which one sigma is isotropic: see `widths`.
    """

    dim: int

    def __post_init__(self) -> None:
        check_cost_dimension(self.dim)

    @property
    def size(self) -> int:
        """Return p = m (m + 1) / 2 + m + 1."""
        return self.dim * (self.dim + 1) // 2 + self.dim + 1

    def features(self, x: Vectors) -> Coefficients:
        """Return every product of two variables, squares halved, then (x, 1)."""
        i, j = np.triu_indices(self.dim)
        products = x[..., i] * x[..., j] * np.where(i == j, 0.5, 1.0)
        return np.concatenate([products, x, np.ones((*x.shape[:-1], 1))], axis=-1)

    def matrices(self, theta: Coefficients) -> FloatArray:
        """Return P of x'Px/2, m x m."""
        return np.take(
            theta[..., : -self.dim - 1], _symmetric_matrix_places(self.dim), axis=-1
        )

    def slopes(self, theta: Coefficients) -> Vectors:
        """Return q of q'x."""
        return theta[..., -self.dim - 1 : -1]

    def gradient(self, theta: Coefficients, x: Vectors) -> Vectors:
        """Return P x + q."""
        return matrices_times_vectors(self.matrices(theta), x) + self.slopes(theta)

    def gradient_change(
        self, theta: Coefficients, new: Vectors, old: Vectors
    ) -> Vectors:
        """Return P (new - old)."""
        return matrices_times_vectors(self.matrices(theta), new - old)

    @property
    def widths(self) -> FloatArray:
        """Width of a share of each coefficient, for one sigma in svec(P) / 2.

        Widths are rounded up, so that noise is never less than requested.
        """
        i, j = np.triu_indices(self.dim)
        root = np.nextafter(np.sqrt(2.0), 2.0)
        return np.concatenate([np.where(i == j, 2.0, root), np.ones(self.dim + 1)])


def matrices_times_vectors(matrices: FloatArray, x: Vectors) -> Vectors:
    return (matrices @ x[..., None])[..., 0]


def svec(matrices: FloatArray) -> FloatArray:
    """Return the upper triangle of symmetric (..., m, m), off-diagonals times sqrt 2.

    >>> svec(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3).tolist()
    [1.0, 2.828, 3.0]
    """
    i, j = np.triu_indices(matrices.shape[-1])
    return matrices[..., i, j] * np.where(i == j, 1.0, np.sqrt(2.0))


@cache
def _symmetric_matrix_places(dim: int) -> Array[np.intp]:
    """Return where each entry of a symmetric matrix stands in its upper triangle."""
    i, j = np.triu_indices(dim)
    place = np.empty((dim, dim), dtype=np.intp)
    place[i, j] = place[j, i] = np.arange(len(i))
    return place


def quadratic_coefficients(matrix: Matrix, vector: FloatArray) -> FloatArray:
    """Return theta of x'Px/2 + q'x in the quadratic basis."""
    triangle = matrix[np.triu_indices(len(matrix))]
    return np.concatenate([triangle, vector, [0.0]])
