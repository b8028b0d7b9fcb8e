"""Fits as fine as they go, for comparisons with other programs."""

from typing import Any

from veilsum.fits.model import family_of_fit
from veilsum.models.fineness import MOST_DIGITS


def finest(family: Any = "gaussian", **options: Any) -> dict[str, Any]:
    """Return a fit's options, with all digits where the family takes digits.

    >>> finest("poisson"), finest("ordinal")
    ({'family': 'poisson', 'digits': 12}, {'family': 'ordinal'})
    """
    found = {"family": family, **options}
    if family_of_fit(family, alpha=options.get("alpha")).has_digits:
        found.setdefault("digits", MOST_DIGITS)
    return found
