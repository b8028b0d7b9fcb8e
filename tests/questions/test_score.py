"""Score tests of further columns, against R's anova(test = "Rao") and statsmodels.

Reference values are those of references/models.R; the tables lie beside it.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cases import each
from finest import finest
from later import Later
from refusals import refused
from veilsum.models.rows import Rows
from veilsum.questions.regression import fit
from veilsum.tables.rules import DisclosureError, Rules

sm = Later("statsmodels.api")

FOLDER = Path(__file__).parents[1] / "references"
R = json.loads((FOLDER / "models.json").read_text())
QUINE = ("quine", "days ~ C(eth) + C(age)", "C(sex) + C(lrn)")
INFERT = ("infert", "case ~ age + parity", "induced + spontaneous")
CASES = {
    "infert logistic": (INFERT, {"family": "logistic"}),
    "infert probit": (INFERT, {"family": "probit"}),
    "quine poisson": (QUINE, {"family": "poisson"}),
    "quine fixed": (QUINE, {"family": "negative-binomial", "alpha": 1 / 1.5}),
    "quine quasi": (QUINE, {"family": "quasi-poisson"}),
}


def quick(formula, frame, further=None, parties=4, **more):
    data = {f"p{k}": frame.iloc[k::parties] for k in range(parties)}
    how = {"rules": Rules.none(), "driver": "vectorised", "seed": 1, **more}
    return fit(formula, data, minimum_rows=1, further=further, **finest(**how))


def table(name):
    return pd.read_csv(FOLDER / f"models_{name}.csv")


@cache
def probed(name):
    (source, formula, further), how = CASES[name]
    return quick(formula, table(source), further, **how)


@each("name", CASES)
def test_it_is_r_s_rao(name):
    result, found = probed(name), probed(name).score_test()
    rao, chance, degrees, _, own = R[f"{name} anova"]
    # R takes the dispersion of the larger fit, and for a theta that is known one too.
    scale = own if name == "quine quasi" else 1.0
    assert found.statistic == pytest.approx(rao / scale, rel=1e-9)
    assert found.degrees == degrees
    if name.startswith("infert"):
        assert found.p_value == pytest.approx(chance, rel=1e-8)
    # The fit itself is the one without the further columns.
    (source, formula, _), how = CASES[name]
    plain = quick(formula, table(source), **how)
    np.testing.assert_allclose(result.params, plain.params, rtol=1e-12)
    np.testing.assert_allclose(result.bse, plain.bse, rtol=1e-12)
    assert len(result.released.sums) == len(plain.released.sums) + 1
    new = table(source).head(3)
    np.testing.assert_allclose(result.predict(new), plain.predict(new), rtol=1e-12)


def test_each_column_alone_is_statsmodels_score_test():
    frame = table("infert")
    small = sm.GLM(
        frame.case,
        sm.add_constant(frame[["age", "parity"]]),
        family=sm.families.Binomial(),
    ).fit(tol=1e-14)
    for name in ("induced", "spontaneous"):
        theirs, chance = np.ravel(small.score_test(exog_extra=frame[[name]]))[:2]
        found = probed("infert logistic").score_test([name])
        assert found.statistic == pytest.approx(float(theirs), rel=1e-8)
        assert found.p_value == pytest.approx(float(chance), rel=1e-7)
        assert found.about == (f"{name} = 0",)


@pytest.mark.parametrize("name", ["infert probit", "quine fixed"])
def test_dealing_rows_anew_changes_no_bit(name):
    result = probed(name)
    recipe, sums = result.inner
    frame, job = table(CASES[name][0][0]), result.job
    free = replace(job.schema, minimum_rows=1, maximum_rows=None)
    rows = job.rows(replace(free.check("all", frame), schema=job.schema))
    owners = np.random.default_rng(7).integers(0, 3, len(frame))
    request = recipe.request(sums[:-1])
    assert request.stage == "score"
    parts = [
        result.model.strategy.vector(
            Rows(rows.design[own], rows.response[own]), 0, request
        )
        for own in (owners == one for one in range(3))
    ]
    assert np.sum(parts, axis=0).tolist() == sums[-1].tolist()


def test_rows_left_out_are_counted_beside_further_columns():
    frame = table("infert")
    frame.loc[[3, 10, 50], "age"] = np.nan
    found = quick("case ~ age", frame, "parity", family="logistic")
    assert (found.dropped, found.count) == (3, len(frame) - 3)


def test_a_response_that_the_family_never_yields_names_the_party():
    frame = table("infert").astype({"case": float})
    frame.loc[2, "case"] = 0.5
    with refused("response-not-binary", mentions=("0", "1")):
        quick("case ~ age", frame, "parity", family="logistic")


def test_further_columns_are_under_the_rules_of_all_columns():
    """A column that is not fitted still shows products over rows."""
    frame = table("infert").assign(one=0)
    aimed = frame.copy()
    aimed.loc[17, "one"] = 1
    how = {"family": "logistic", "rules": Rules(release_fraction=1.0)}
    with pytest.raises(DisclosureError):
        quick("case ~ age", aimed, "one", **how)
    # The twin: without rules the sum has that row's age, and whether it is a case.
    found = quick("case ~ age", aimed, "one", family="logistic")
    recipe, sums = found.inner
    wide = recipe.wide
    information, score = wide.scales.score(sums[-1][: wide.scales.size])
    at = recipe.request(sums[:-1]).point
    units = wide.scales.measures.design
    k, a = wide.labels.index("one"), wide.labels.index("age")
    powers = wide.scales.columns
    ratio = information[k, a] / information[k, k] * 2.0 ** (powers[k] - powers[a])
    age = float(ratio * units[a].unit) + units[a].centre * float(units[a].unit)
    assert age == pytest.approx(frame.age[17], abs=1e-6)
    del at
    assert (float(score[k]) > 0.0) == bool(frame.case[17])


def test_what_cannot_be_tested_is_said():
    frame = table("infert")
    with refused("score-test-unavailable", mentions=("compare_score",)):
        quick("case ~ age", frame, "parity")
    for more in ({"ridge": 1.0}, {"errors": "HC0"}):
        with refused("score-test-unavailable"):
            quick("case ~ age", frame, "parity", family="logistic", **more)
    with refused("columns-overlap"):
        quick("case ~ age", frame, "age", family="logistic")
    with refused("score-test-unavailable"):
        quick("case ~ age", frame, family="logistic").score_test()
    with refused("unknown-tested-column"):
        probed("infert logistic").score_test(["age"])
