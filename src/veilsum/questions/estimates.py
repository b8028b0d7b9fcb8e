"""Meta-analysis of numbers that parties bring: an estimate and its error, no table.

    result = meta_analysis({"a": (0.31774421, 0.11402237), ...},
                           effects=(-2, 2), errors=(0.01, 1))

The sums are those of `meta`. Numbers of few digits could be found by trying them all,
so they are refused unless everybody agrees to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import Any, Unpack

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.meta import Ranges
from veilsum.numbers.units import Integers
from veilsum.questions.meta import LEAST_HONEST, MetaRecipe, PooledResult
from veilsum.sums.recipes import Contribution
from veilsum.sums.running import run_job
from veilsum.sums.terms import Options, Terms, by_name

# Of so many digits each, four studies' errors cannot be tried two by two.
LEAST_DIGITS = 9

Study = tuple[float, float]


def meta_analysis(
    estimates: Mapping[str, Sequence[float]],
    *,
    effects: Sequence[float],
    errors: Sequence[float],
    few_digits: bool = False,
    compare: bool = False,
    **options: Unpack[Options],
) -> PooledResult:
    """Return the pooled estimate of what every party found by itself.

    Args:
        estimates: each party's estimate and its standard error, with all digits.
        effects: the least and the largest estimate that any party may have; public.
        errors: the least and the largest standard error; public.
        few_digits: whether numbers of fewer than 9 digits are allowed: whoever tries
            all of them can then find every study that is in a sum.
        compare: whether to pool without masks as well, as only a simulation can.
        options: how to sum; see `Options`.
    """
    (low, high), (least, most) = effects, errors
    ranges = Ranges((float(low), float(high)), (float(least), float(most)))
    own = {
        party: _checked(ranges, party, study, few_digits=few_digits)
        for party, study in by_name(estimates).items()
    }
    recipe = MetaRecipe(ranges, "meta-analysis of estimates", of_rows=False)
    terms = Terms.of(list(own), counts=recipe.counts, options=options)
    if terms.honest < LEAST_HONEST:
        raise InvalidInputError(
            f"fewer than {LEAST_HONEST} studies of honest parties can be solved for "
            f"from their sums, and {terms.honest} are left here: more parties have to "
            "take part, or fewer may be curious"
        )
    released = run_job(
        recipe,
        {
            party: Contribution(partial(recipe.vector, study), (np.array(study),))
            for party, study in own.items()
        },
        terms,
        agreed={
            "estimates": {
                "effects": list(ranges.effects),
                "errors": list(ranges.errors),
                "few_digits": few_digits,
            }
        },
    )
    reference = None
    if compare:
        sums: list[Integers] = []
        while (request := recipe.request(sums)) is not None:
            parts = [recipe.vector(study, request) for study in own.values()]
            sums.append(sum(parts[1:], parts[0]))
        reference = recipe.answer(sums)
    return PooledResult(
        terms=terms, recipe=recipe, released=released, reference=reference
    )


def _checked(ranges: Ranges, party: str, given: Any, *, few_digits: bool) -> Study:
    """Return a party's two numbers; refuse what does not fit, for its own eyes."""
    try:
        estimate, error = map(float, given)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{party}: expected two numbers, an estimate and its standard error"
        ) from None
    if not (isfinite(estimate) and isfinite(error)):
        raise InvalidInputError(f"{party}: both numbers must be finite")
    try:
        ranges.check(party, estimate, error)
    except InvalidInputError as wrong:
        raise InvalidInputError(f"{party}: {wrong}", plain=wrong.plain) from None
    for what, one in (("estimate", estimate), ("standard error", error)):
        # Trailing zeros are no digits.
        digits = len(Decimal(repr(one)).normalize().as_tuple().digits)
        if digits < LEAST_DIGITS and not few_digits:
            raise InvalidInputError(
                f"{party}: the {what} has {digits} digits, and whoever tries all such "
                f"numbers can find it in the sums: give at least {LEAST_DIGITS}, all "
                "that your program has; or all agree on few_digits",
                plain=f"the {what} has too few digits",
            )
    return estimate, error
