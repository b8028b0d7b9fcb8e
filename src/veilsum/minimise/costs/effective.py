"""EffectiveCost: all that phase II may ever see of a cost.

It offers a gradient and a change of gradient. It has no value and no way back to the
private coefficients: methods are written against this type alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from veilsum.minimise.costs.bases import (
    Affine,
    Basis,
    Quadratic,
    matrices_times_vectors,
)
from veilsum.minimise.costs.remainders import CostRemainder, NoRemainder, SquaredNorm
from veilsum.numbers.arrays import Array, Coefficients, FloatArray, Vectors
from veilsum.numbers.shapes import Float


@dataclass(frozen=True, eq=False, repr=False)
class ClosedForm:
    """Gradients that are affine: grad h~_i(x) = slope_i + curve x + square_i x.

    Attributes:
        slopes: at the origin, by row.
        squares: a symmetric matrix for each party, if they differ.
    """

    slopes: Float[Array[Any], "*n m"]
    curve: float
    squares: Float[Array[Any], "*n m m"] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class EffectiveCost:
    """h~_i = theta~_i . phi + rho_i, for one party or for all parties row by row.

    Attributes:
        basis: phi, agreed by all.
        coefficients: theta~ = theta + mask, (p,) or (n, p); public in the proof.
        remainder: rho, which masks do not touch.
    """

    basis: Basis
    coefficients: Coefficients
    remainder: CostRemainder

    @cached_property
    def _masked_form(self) -> tuple[FloatArray, Vectors] | None:
        """P and q where the masked part is x'Px/2 + q'x + c; None in other bases.

        Made once: unpacking coefficients takes much longer than an iteration.
        """
        basis, theta = self.basis, self.coefficients
        if not isinstance(basis, Quadratic):
            return None
        return basis.matrices(theta), basis.slopes(theta).copy()

    @cached_property
    def _closed_form(self) -> ClosedForm | None:
        """All of the gradient as arrays, where it is affine; None elsewhere.

        Engines compile loops from it: `engines.engine.closed_form` hands it to them.
        Methods see gradients only.
        """
        plain = isinstance(self.remainder, NoRemainder)
        if plain and (form := self._masked_form) is not None:
            return ClosedForm(form[1], 0.0, form[0])
        if not isinstance(self.basis, Affine):
            return None
        if plain or isinstance(self.remainder, SquaredNorm):
            scale = getattr(self.remainder, "scale", 0.0)
            return ClosedForm(self.coefficients, 2.0 * scale)
        local: Any = getattr(self.remainder, "matrices", None)
        return None if local is None else ClosedForm(self.coefficients, 0.0, local)

    def gradient(self, x: Vectors) -> Vectors:
        """Return grad h~_i at each party's own x."""
        # Asked in every iteration: what is known in closed form takes no detour.
        if (closed := self._closed_form) is not None:
            if closed.squares is not None:
                return matrices_times_vectors(closed.squares, x) + closed.slopes
            if closed.curve:
                return closed.curve * x + closed.slopes
        if (form := self._masked_form) is not None:
            masked = matrices_times_vectors(form[0], x) + form[1]
        else:
            masked = self.basis.gradient(self.coefficients, x)
        if self.remainder.kind == "none":
            return masked
        # Not in place: a remainder may hand back x itself, or something it keeps.
        return self.remainder.gradient(x) + masked

    def gradient_change(self, new: Vectors, old: Vectors) -> Vectors:
        """Return grad h~(new) - grad h~(old) without forming either.

        The difference of two rounded gradients of h would carry the low bits of theta;
        this one is made of rho and theta~ only.
        """
        if (form := self._masked_form) is not None:
            change = matrices_times_vectors(form[0], new - old)
        else:
            change = self.basis.gradient_change(self.coefficients, new, old)
        if self.remainder.kind == "none":
            return change
        return change + (self.remainder.gradient(new) - self.remainder.gradient(old))

    def rows(self, which: slice) -> EffectiveCost:
        """Return the effective costs of some parties of a stack."""
        return EffectiveCost(
            self.basis, self.coefficients[which], self.remainder.rows(which)
        )

    def __repr__(self) -> str:
        shape = self.coefficients.shape
        return f"<EffectiveCost: {type(self.basis).__name__}, coefficients {shape}>"
