"""Families of regressions by name: each has one name, and aliases that people type.

A file, a page of consent and a result have the one name.
"""

from __future__ import annotations

from typing import TypeAlias

from veilsum.models.choices import Multinomial, Ordinal
from veilsum.models.families import (
    Binomial,
    Cloglog,
    Family,
    Gamma,
    GammaInverseLink,
    GaussianFamily,
    InverseGaussian,
    NegativeBinomialEstimated,
    Poisson,
    Probit,
    QuasiBinomial,
    QuasiPoisson,
)

Listed: TypeAlias = tuple[Family, tuple[str, ...]]

NEGATIVE_BINOMIAL = "negative-binomial"
# Families and their aliases by name, in the order in which messages list them.
FAMILIES: dict[str, Listed] = {
    "gaussian": (GaussianFamily(), ("normal", "ols", "linear")),
    "logistic": (Binomial(), ("binomial", "bernoulli", "logit")),
    "poisson": (Poisson(), ("count",)),
    "gamma": (Gamma(), ("gamma-log",)),
    "gamma-inverse": (GammaInverseLink(), ()),
    "inverse-gaussian": (InverseGaussian(), ()),
    "probit": (Probit(), ()),
    "cloglog": (Cloglog(), ()),
    "quasi-poisson": (QuasiPoisson(), ()),
    "quasi-binomial": (QuasiBinomial(), ()),
    "multinomial": (Multinomial(), ("multinom", "mnlogit")),
    "ordinal": (Ordinal(), ("polr", "proportional-odds")),
    NEGATIVE_BINOMIAL: (
        NegativeBinomialEstimated(1.0),
        ("nb", "negbin", "negative binomial", "negativebinomial"),
    ),
}


def canonical_family_name(name: str) -> str:
    """Return a family's one name; what is no alias stays as it is.

    >>> names = "Binomial", "gamma_inverse", "cauchy"
    >>> [canonical_family_name(name) for name in names]
    ['logistic', 'gamma-inverse', 'cauchy']
    """
    plain = name.strip().lower().replace("_", "-")
    return next((key for key, (_, known) in FAMILIES.items() if plain in known), plain)
