"""Robust errors of a regression: a recipe that asks for one more sum at the answer.

It stands around a recipe, be that of one sum or of many, as `Screened` stands in front
of one. What is asked last holds the answer and, where leverages matter, the inverse of
the information: both are public by then, and rounded once, so that all use the same.

Errors that are clustered by party show more of parties than other sums do. From
M = sum of s s' over parties, whoever colludes takes off its own part, and the sum c of
all honest scores is known as well, for all scores together are 0 at the answer. Of two
honest parties M and c give both scores, up to who has which. Of h honest parties they
leave rotations that keep c; but scores are whole numbers, and each number of M tells
twice the digits of a score: p (p + 1) / 2 of these and p of c are as many digits as the
scores of p + 2 parties have. So there must be `FURTHER_HONEST` honest parties more than
there are columns. Still the sum of squares of every combination of scores is known, and
no party's is beyond it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from flint import arb_mat

from veilsum.errors import InvalidInputError
from veilsum.jobs.recipes import Sums, SumsOnly
from veilsum.jobs.releases import BY_PARTY, Foreseen, Release, ReleaseLimit
from veilsum.jobs.terms import Terms
from veilsum.models.glm import GlmFit
from veilsum.models.least_squares import LeastSquaresFit
from veilsum.models.sandwich import Meat, MeatRequest
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.units import Counts
from veilsum.tables.rules import DisclosureError, Rules

# Honest parties beyond the columns of a design, where errors are clustered by party.
FURTHER_HONEST = 3
# How the round is called in which the meat is summed.
AT_THE_ANSWER = "a round after the fit, for its errors"


def check_parties(meat: Meat, rules: Rules, terms: Terms) -> None:
    """Refuse errors that so few parties, or such masks, must not be asked for.

    Raises:
        DisclosureError: parties' own scores could be computed.
        InvalidInputError: masks are measured in units, and these follow later.
    """
    kind = terms.law.masks.kind
    if terms.law.hides and not kind.sums_only:
        raise InvalidInputError(
            f"errors = {meat.errors!r} takes a sum whose units follow from the fit, "
            f"and {terms.law.name} masks are as large as units that are known before: "
            'use law = "uniform", or the errors of the model'
        )
    least = meat.scales.n_columns + FURTHER_HONEST
    if meat.by_party and terms.honest < least and not rules.site_terms:
        raise DisclosureError(
            "site_terms",
            f'errors = "cluster" with {meat.scales.n_columns} columns takes {least} '
            f"honest parties, so that nobody's own score can be computed, and there "
            f"may be as few as {terms.honest}: use HC3, leave out columns, or allow "
            "it openly with [policy] site_terms = true",
        )


def reserved(limit: ReleaseLimit | None, size: int) -> ReleaseLimit | None:
    """Return what is left of a limit beside one more sum of so many numbers."""
    if limit is None:
        return None
    if limit.most_rounds < 2:
        raise DisclosureError(
            "most_rounds",
            "robust errors take one more sum than the fit, and most_rounds is "
            f"{limit.most_rounds}: allow 2 or more, or use the errors of the model",
        )
    return replace(limit, after=size, most_rounds=limit.most_rounds - 1)


@dataclass(frozen=True, eq=False)
class RobustRecipe(SumsOnly):
    """A regression, and at its answer the meat of its sandwich.

    Attributes:
        inner: the regression; a limit of its own leaves room for the last sum.
        meat: what is summed then.
        limit: how many numbers there is room for in all.
        n_parties: whose vectors are in the sums.
    """

    inner: Any
    meat: Meat
    limit: ReleaseLimit | None = None
    n_parties: int = 0

    @cached_property
    def counts(self) -> Counts:
        """What the fit's numbers are whole numbers of; the meat has fewer of them."""
        found: Counts = self.inner.counts
        return replace(found, bits=max(found.bits, self.meat.bits))

    @property
    def size(self) -> int:
        """That of the fit."""
        return int(self.inner.size)

    @property
    def answer_size(self) -> int:
        """One number for each column."""
        return int(self.inner.answer_size)

    @property
    def most_numbers(self) -> int:
        """Those of the fit, and one sum more."""
        return int(self.inner.most_numbers) + self.size

    @property
    def most_rounds(self) -> int:
        """One more than the fit takes."""
        return int(self.inner.most_rounds) + 1

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """What the fit shows, and then what its errors do."""
        before = [
            replace(one, when="the first round")
            if one.when == "the only round"
            else one
            for one in self.inner.foreseen
        ]
        return (*before, Foreseen(AT_THE_ANSWER, self._shown))

    @property
    def _shown(self) -> dict[str, int]:
        p = self.meat.scales.n_columns
        size = p * (p + 1) // 2
        if self.meat.by_party:
            return {"products of parties' scores": size}
        if self.meat.needs_leverages:
            return {
                "products of rows' scores, by leverage": size,
                "rows with a leverage next to 1": 1,
            }
        return {"products of rows' scores": size}

    def among(self, members: tuple[str, ...]) -> Self:
        """Return the recipe for so many parties."""
        return replace(self, n_parties=len(members))

    def _parts(self, sums: Sums) -> tuple[Sums, Array[Any] | None]:
        """Return the sums of the fit, and the meat if it is there."""
        if sums and self.inner.request(sums[:-1]) is None:
            return sums[:-1], sums[-1]
        return sums, None

    def request(self, sums: Sums) -> Any | None:
        """Ask for what the fit needs, and then for the meat."""
        before, meat = self._parts(sums)
        if meat is not None:
            return None
        asked = self.inner.request(before)
        return self._last(before) if asked is None else asked

    def _last(self, before: Sums) -> MeatRequest:
        coefficients = self.inner.fit(before).coefficients
        return self.meat.request(coefficients, self._bread(before))

    def _bread(self, before: Sums) -> Callable[[], arb_mat]:
        found: Callable[[], arb_mat] = self.inner.bread(before)
        return found

    def answer(self, sums: Sums) -> Vector:
        """Return the coefficients."""
        found: Vector = self.inner.answer(self._parts(sums)[0])
        return found

    def fit(self, sums: Sums) -> LeastSquaresFit | GlmFit:
        """Return the fit of the pooled rows, with robust errors.

        Tests are Student's where the model's are; those of errors that are clustered
        have a degree less than there are parties.
        """
        before, meat = self._parts(sums)
        assert meat is not None
        found: LeastSquaresFit | GlmFit = self.inner.fit(before)
        covariance = self.meat.covariance(
            meat[: self.meat.size],
            self._last(before),
            self._bread(before),
            n_rows=found.n_rows,
            n_parties=self.n_parties,
        )
        degrees = float(self.n_parties - 1) if self.meat.by_party else found.t_degrees
        return replace(
            found, covariance=covariance, t_degrees=degrees, errors=self.meat.errors
        )

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows."""
        before, _ = self._parts(sums)
        if self.inner.request(before) is not None:
            found: Release = self.inner.release(before)
            return found
        point = tuple(self.inner.fit(before).coefficients.tolist())
        job = f"{self.inner.release(()).job}: {self.meat.errors} errors"
        return Release(job, self._shown, point)


class ClusterRecipe(RobustRecipe):
    """The same with errors clustered by party: its last sum is not one over rows."""

    wording = BY_PARTY
