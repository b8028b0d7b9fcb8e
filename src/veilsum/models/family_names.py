"""What families of regressions are called: one name each, and what others say for it.

A file, a page of consent and a result have the one name; who types may use another.
"""

from __future__ import annotations

from collections.abc import Mapping

ALIASES: Mapping[str, str] = {
    "normal": "gaussian",
    "ols": "gaussian",
    "linear": "gaussian",
    "binomial": "logistic",
    "bernoulli": "logistic",
    "logit": "logistic",
    "count": "poisson",
    "nb": "negative-binomial",
    "negbin": "negative-binomial",
    "negative binomial": "negative-binomial",
    "negativebinomial": "negative-binomial",
    "gamma-log": "gamma",
    "multinom": "multinomial",
    "mnlogit": "multinomial",
    "polr": "ordinal",
    "proportional-odds": "ordinal",
}


def canonical(name: str) -> str:
    """Return a family's one name; what is no alias stays as it is.

    >>> canonical("Binomial"), canonical("gamma_inverse"), canonical("cauchy")
    ('logistic', 'gamma-inverse', 'cauchy')
    """
    plain = name.strip().lower().replace("_", "-")
    return ALIASES.get(plain, plain)
