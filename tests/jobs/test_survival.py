"""Survival over parties is R's over the pooled rows, and refuses what R would not."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

import veilsum as vs
from veilsum.errors import InvalidInputError
from veilsum.files.output import as_json
from veilsum.models.survival import CONF_TYPES
from veilsum.tables.rules import DisclosureError, Rules

REFERENCES = Path(__file__).parents[1] / "references"
EXPECTED = json.loads((REFERENCES / "kaplan_meier.json").read_text())
BY_GROUP, TOGETHER = "Surv(time, event) ~ C(group)", "Surv(time, event) ~ 1"
CLOSE = {"rtol": 1e-9, "atol": 1e-12}
FREE = {"driver": "vectorised", "rules": Rules.none()}


def table(name):
    return pd.read_csv(REFERENCES / f"kaplan_meier_{name}.csv")


def dealt(frame, parties=5):
    return {f"h{k}": frame[k::parties] for k in range(parties)}


def numbers(values):
    return np.array([np.nan if one is None else one for one in values], dtype=float)


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("grid", ["exact", "coarse"])
def test_curves_and_test_are_those_of_r(name, grid):
    """At every time that occurs; and of times rounded up to a coarse grid."""
    frame, known = table(name), EXPECTED[name]
    times = np.unique(frame["time"]) if grid == "exact" else known["grid"]
    both = [
        vs.survival(one, dealt(frame), times=times, **FREE)
        for one in (BY_GROUP, TOGETHER)
    ]
    assert {*both[0].curves} | {*both[1].curves} == {*known[grid]["curves"]}
    for label, expected in known[grid]["curves"].items():
        curve = (both[0].curves | both[1].curves)[label]
        at = np.searchsorted(curve.times, expected["time"])
        assert curve.times[at].tolist() == expected["time"]
        assert curve.at_risk[at].tolist() == expected["n_risk"]
        assert curve.events[at].tolist() == expected["n_event"]
        np.testing.assert_allclose(curve.survival[at], expected["survival"], **CLOSE)
        errors = numbers(expected["std_err"])
        np.testing.assert_allclose(curve.standard_error[at], errors, **CLOSE)
        for kind in CONF_TYPES:
            for found, end in zip(curve.interval(0.95, kind), ("low", "high")):
                band = numbers(expected["bands"][kind][end])
                np.testing.assert_allclose(found[at], band, **CLOSE)
            ends = [curve.quantile(p, 0.95, kind) for p in (0.25, 0.5, 0.75)]
            for part, key in enumerate(("value", "low", "high")):
                given = numbers(expected["quantiles"][kind][key])
                np.testing.assert_allclose([one[part] for one in ends], given, **CLOSE)
        mean = curve.restricted_mean()
        np.testing.assert_allclose(
            mean, [expected["mean"], expected["mean_se"]], **CLOSE
        )
    test, given = both[0].log_rank, known[grid]["log_rank"]
    # R lists groups in the order of its factor; ours are in the schema's.
    order = np.argsort(np.argsort([*known[grid]["curves"]][1:]))
    np.testing.assert_allclose(test.expected[order], given["expected"], **CLOSE)
    assert test.observed[order].tolist() == given["observed"]
    assert test.statistic == pytest.approx(given["statistic"], rel=1e-9)
    assert test.p == pytest.approx(given["p"], rel=1e-9)
    assert both[1].log_rank is None
