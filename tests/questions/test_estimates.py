"""Meta-analysis of numbers that parties bring, against statsmodels."""

from dataclasses import replace

import numpy as np
import pytest

import veilsum as vs
from cases import each
from later import Later
from refusals import refused
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models.meta import MetaRanges
from veilsum.questions.meta import MetaRecipe
from veilsum.sums.releases import SumReleaseLimit

meta_analysis = Later("statsmodels.stats.meta_analysis")

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

RANGES = {"effects": (-3, 3), "errors": (0.01, 2)}


def studies(n, spread=0.3, seed=0):
    chance = np.random.default_rng(seed)
    return {
        f"s{k}": (0.4 + spread * chance.normal(), chance.uniform(0.05, 0.4))
        for k in range(n)
    }


@each("spread", [0.3, 0.0001])
@each("driver", ["vectorised", "loopback"])
def test_means_errors_and_tau2_are_statsmodels(driver, spread):
    held = studies(7, spread)
    found = vs.meta_analysis(held, **RANGES, driver=driver, compare=True, seed=0)
    y, e = np.array(list(held.values())).T
    with np.errstate(invalid="ignore"):  # theirs may have a tau2 below zero
        theirs = meta_analysis.combine_effects(y, e**2, method_re="dl", use_t=False)
    assert found.fixed.coefficients[0] == pytest.approx(theirs.mean_effect_fe, rel=1e-8)
    assert found.fixed.standard_errors[0] == pytest.approx(theirs.sd_eff_w_fe, rel=1e-8)
    assert found.fixed.q == pytest.approx(theirs.q, rel=1e-6, abs=1e-8)
    assert found.fixed.tau2 == pytest.approx(max(theirs.tau2, 0.0), abs=1e-8)
    if theirs.tau2 > 0.0:
        assert found.random.coefficients[0] == pytest.approx(
            theirs.mean_effect_re, rel=1e-8
        )
        assert found.random.standard_errors[0] == pytest.approx(
            theirs.sd_eff_w_re, rel=1e-8
        )
    else:
        assert found.random.coefficients == pytest.approx(found.fixed.coefficients)
    assert found.max_error == 0.0
    assert "7 studies; no study" in found.summary()
    assert len(found.released.sums) == 2
    document = found.to_dict()
    assert document["n_studies"] == 7
    assert [row["name"] for row in document["table"]] == ["fixed", "random"]


@each(
    ("study", "said"),
    [
        ((0.5, 0.123456789), "s0: the estimate has 1 digits"),
        ((0.123456789, 0.25), "s0: the standard error has 2 digits"),
        ((123456.789, 0.123456789), "s0: the estimate of s0 is"),
        ((0.123456789, 0.0), "s0: the standard error of s0 is"),
        ((np.nan, 0.123456789), "s0: both numbers must be finite"),
        ((0.123456789,), "s0: expected two numbers"),
    ],
)
def test_what_does_not_fit_is_refused_by_party(study, said):
    with pytest.raises(InvalidInputError, match=said):
        vs.meta_analysis({**studies(6), "s0": study}, **RANGES)


def test_fewer_than_four_honest_studies_are_refused():
    with refused("too-few-studies", mentions=("4",)):
        vs.meta_analysis(studies(4), **RANGES)
    with refused("too-few-studies", mentions=("3",)):
        vs.meta_analysis(studies(5), **RANGES, tolerate=2)
    assert vs.meta_analysis(studies(5), **RANGES, driver="vectorised").released.sums


def test_there_are_no_more_studies_than_parties():
    """Also where so many studies of the agreed ranges could have the other sums."""
    ranges = MetaRanges((-1.0, 1.0), (0.5, 2.0))
    limit = SumReleaseLimit(honest=2, columns=2, minimum_rows=20, parties=3)
    recipe = MetaRecipe(ranges, "effect of x", limit, of_rows=False)
    sums = sum(recipe.vector((0.1, 1.0), recipe.request(())) for _ in range(3))
    recipe.check_sum([sums])
    more = sums + recipe.vector((0.1, 1.0), recipe.request(()))
    with refused("impossible-total", NumericalError, mentions=("studies", "4")):
        recipe.check_sum([more])
    replace(recipe, limit=None).check_sum([more])
