"""Hypotheses about coefficients.

A linear hypothesis says that combinations of coefficients have certain values. It is
written as text, `"age = 0, C(sex)[T.male] = 2 * smoker"`, and read here by its own
small grammar: names of coefficients, numbers, `+ - * /`, `=` and `,`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any, NoReturn

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.inference import Inference
from veilsum.numbers.arrays import FloatArray, Vector, listed_names, nearest_name

# Letters of a hypothesis, and equations in it: they are read, and shown, by people.
LONGEST, MOST_EQUATIONS = 10_000, 200
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_HOW = 'write it like "age = 0, height = 2 * weight"'


@dataclass(frozen=True)
class CoefficientHypothesis:
    """Combinations of coefficients, and what each of them is said to be."""

    matrix: FloatArray
    values: Vector
    names: tuple[str, ...]

    @classmethod
    def of(cls, given: Any, names: Sequence[str]) -> CoefficientHypothesis:
        """Return a hypothesis that was written as text, or given as numbers."""
        if isinstance(given, str):
            return _HypothesisReader(given, names).hypothesis()
        matrix, values = given if isinstance(given, tuple) else (given, 0.0)
        try:
            rows = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
            right = np.broadcast_to(np.asarray(values, np.float64), len(rows)).copy()
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"a hypothesis is a text or a matrix of numbers: {_HOW}",
                code="not-a-hypothesis",
            ) from None
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise InvalidInputError(
                f"a hypothesis has a column for each of {len(names)} coefficients, "
                f"found shape {rows.shape}",
                code="wrong-shape",
            )
        if not (np.isfinite(rows).all() and np.isfinite(right).all()):
            raise InvalidInputError(
                "a hypothesis has finite numbers only", code="hypothesis-not-finite"
            )
        labels = tuple(
            _hypothesis_text(row, value, names)
            for row, value in zip(rows.tolist(), right.tolist(), strict=True)
        )
        return cls(rows, right, labels)


def _hypothesis_text(row: Sequence[float], value: float, names: Sequence[str]) -> str:
    parts: list[str] = []
    for factor, name in zip(row, names, strict=True):
        if factor:
            size = "" if abs(factor) == 1.0 else f"{abs(factor):g} * "
            sign = ("- " if factor < 0.0 else "+ ") if parts else "-" * (factor < 0.0)
            parts.append(f"{sign}{size}{name}")
    return f"{' '.join(parts) or '0'} = {value + 0.0:g}"


class _HypothesisReader:
    """Reads a hypothesis; names are found as they are, the longest first."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        if len(text) > LONGEST:
            raise InvalidInputError(
                f"a hypothesis has at most {LONGEST:,} letters, found {len(text):,}",
                code="hypothesis-too-long",
            )
        self._text, self._names, self._at = text, list(names), 0
        self._longest = sorted(names, key=len, reverse=True)

    def hypothesis(self) -> CoefficientHypothesis:
        rows: list[Vector] = []
        names: list[str] = []
        while True:
            sides = [self._side()]
            while self._took("="):
                sides.append(self._side())
            if len(sides) < 2:
                self._refuse("an equation needs =")
            for left, right in pairwise(sides):
                rows.append(left - right)
                if not rows[-1][:-1].any():
                    self._refuse("an equation is about no coefficient")
                names.append(
                    _hypothesis_text(
                        rows[-1][:-1].tolist(), -float(rows[-1][-1]), self._names
                    )
                )
            if len(rows) > MOST_EQUATIONS:
                self._refuse(f"there are more than {MOST_EQUATIONS} equations")
            if not self._took(","):
                break
        if self._rest():
            self._refuse(f"cannot read on at {self._rest()[:30]!r}")
        table = np.stack(rows)
        return CoefficientHypothesis(table[:, :-1], -table[:, -1], tuple(names))

    def _side(self) -> Vector:
        """Return what each coefficient is taken times, and a number, last."""
        sign = -1.0 if self._took("-") else 1.0
        total = sign * self._product()
        while self._rest()[:1] in ("+", "-"):
            sign = 1.0 if self._took("+") else -float(self._took("-"))
            total = total + sign * self._product()
        return total

    def _product(self) -> Vector:
        found = self._atom()
        while self._rest()[:1] in ("*", "/"):
            times, other = self._took("*"), None
            if not times:
                self._took("/")
            other = self._atom()
            if times and not found[:-1].any():
                found, other = other, found
            if other[:-1].any() or not (times or other[-1]):
                self._refuse("coefficients are taken times, or over, numbers only")
            found = found * other[-1] if times else found / other[-1]
        return found

    def _atom(self) -> Vector:
        found, rest = np.zeros(len(self._names) + 1), self._rest()
        for name in self._longest:
            if rest.startswith(name) and not _hypothesis_name_goes_on(
                name, rest[len(name) :]
            ):
                self._at += len(name)
                found[self._names.index(name)] = 1.0
                return found
        if (number := _NUMBER.match(rest)) and not _hypothesis_name_goes_on(
            "1", rest[number.end() :]
        ):
            self._at += number.end()
            found[-1] = float(number[0])
            if not isfinite(found[-1]):
                self._refuse(f"{number[0]} is no number that can be used")
            return found
        return self._refuse_word(rest)

    def _refuse_word(self, rest: str) -> NoReturn:
        word = re.match(r"[^\s=,+*/-]+", rest)
        if word is None:
            self._refuse("a name or a number is missing")
        self._refuse(
            f"no coefficient is called {word[0][:60]!r}; "
            f"{nearest_name(word[0], self._names)}there are {listed_names(self._names)}"
        )

    def _rest(self) -> str:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at :]

    def _took(self, sign: str) -> bool:
        taken = self._rest().startswith(sign)
        self._at += taken
        return taken

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidInputError(
            f"the hypothesis {self._text[:200]!r} cannot be read: {why}; {_HOW}",
            code="unreadable-hypothesis",
        )


def _hypothesis_name_goes_on(name: str, rest: str) -> bool:
    return name[-1].isidentifier() | name[-1].isdigit() and (
        rest[:1].isidentifier() or rest[:1].isdigit()
    )


@dataclass(frozen=True)
class CombinedCoefficients(Inference):
    """Combinations of coefficients as estimates, each with an error and an interval."""

    values: Vector

    @classmethod
    def of(
        cls, fit: Inference, hypothesis: CoefficientHypothesis
    ) -> CombinedCoefficients:
        matrix = hypothesis.matrix
        return cls(
            names=hypothesis.names,
            coefficients=matrix @ fit.coefficients,
            covariance=matrix @ fit.covariance @ matrix.T,
            t_degrees=fit.t_degrees,
            values=hypothesis.values,
        )

    @property
    def statistics(self) -> Vector:
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.coefficients - self.values) / self.standard_errors
