"""A further family of regressions is a class and its line in `FAMILIES`."""

import numpy as np
import pandas as pd
import pytest

from party.test_consent import QUESTIONS
from report.officer_plans import table
from veilsum.consortium.consortium import consortium_from
from veilsum.models.families import Poisson
from veilsum.models.family_names import FAMILIES
from veilsum.party.consent import consent_to
from veilsum.questions.evaluate import evaluate
from veilsum.questions.regression import fit


class Visits(Poisson):
    """Counts under another name."""

    name = "visits"


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    monkeypatch.setitem(FAMILIES, "visits", (Visits(), ("visit-counts",)))


@pytest.fixture(name="counts")
def counts_fixture():
    stream = np.random.default_rng(4)
    frame = pd.DataFrame({"x": stream.normal(size=200)})
    frame["y"] = stream.poisson(np.exp(0.5 + 0.3 * frame["x"])).astype(float)
    return {name: frame.iloc[50 * k : 50 * k + 50] for k, name in enumerate("abcd")}


@pytest.mark.parametrize("name", ["visits", "Visit_Counts"])
def test_it_is_fitted_and_evaluated_under_its_names(counts, name):
    found = fit("y ~ x", counts, family=name, seed=1)
    same = fit("y ~ x", counts, family="poisson", seed=1)
    assert found.coefficients == same.coefficients
    assert "visits" in found.summary()
    known = dict(found.coefficients)
    ours, theirs = (
        evaluate("y ~ x", counts, coefficients=known, family=each, seed=1)
        for each in (name, "poisson")
    )
    assert ours.answer.tolist() == theirs.answer.tolist()


@pytest.mark.parametrize("name", ["visits", "visit-counts"])
def test_the_page_of_consent_has_its_one_name(name):
    asked = QUESTIONS["poisson"]
    asked = {**asked, "model": {**asked["model"], "family": name}}
    page = consent_to(consortium_from(table(asked))).page
    assert "one visits regression" in " ".join(page.split())
