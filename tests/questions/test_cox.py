"""Cox regressions against R and statsmodels, and what must not change any bit of them.

References are in tests/references/cox.json, with the script that made them.
"""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import veilsum as vs
from cases import each
from later import Later
from refusals import refused
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models import cox as models
from veilsum.models.cox import cox_risk_sums
from veilsum.numbers import compiled
from veilsum.questions.cox.stratified import CoxJob, CoxRequest
from veilsum.tables.rules import DisclosureError, Rules

sm = Later("statsmodels.api")

REFERENCES = Path(__file__).parent.parent / "references"
FOUND = json.loads((REFERENCES / "cox.json").read_text())
FORMULAS = {
    "gbsg": "Surv(time, event) ~ age + size + nodes + hormon + C(grade)",
    "retinopathy": "Surv(time, event) ~ age + trt + risk + C(eye)",
}
TIMES = {"gbsg": [365, 730, 1100, 2700], "retinopathy": [10, 25, 60]}
FREE = Rules.none()


def rows_of(name):
    return pd.read_csv(REFERENCES / f"cox_{name}.csv")


def tables_of(name):
    rows = rows_of(name)
    return {site: part.drop(columns="site") for site, part in rows.groupby("site")}


def near(found, expected, of=1.0, digits=1e-9):
    assert (np.abs(np.asarray(found) - np.asarray(expected)) <= digits * of).all()


@each("name", FORMULAS)
@each("ties", ["efron", "breslow"])
def test_a_baseline_for_each_party_is_r_s_strata(name, ties):
    result = vs.cox(FORMULAS[name], tables_of(name), ties=ties, driver="vectorised")
    fit, expected = result.fit, FOUND[name][ties]
    se = np.array(expected["se"])
    near(result.params, expected["coef"], se)
    near(result.bse / se, 1.0)
    near([fit.null_log_likelihood, fit.log_likelihood], expected["loglik"], 10.0)
    near(fit.wald_test, expected["wald"], 10.0)
    near(fit.score_test, expected["score"], 10.0)
    gain = 2.0 * (expected["loglik"][1] - expected["loglik"][0])
    near(fit.likelihood_ratio_test, gain, 10.0)
    near(result.fit.aic, 2.0 * (len(se) - expected["loglik"][1]), 10.0)
    assert [fit.n_rows, fit.n_events] == [*expected["n"], *expected["events"]]
    assert fit.rounds <= 7


@each("ties", ["efron", "breslow"])
def test_columns_that_are_constant_at_a_party_leave_r_s_fit(ties):
    """A number and a category: the sums with them are about the other three parties."""
    tables = tables_of("gbsg")
    tables["s1"] = tables["s1"].assign(age=50, grade="g2")
    result = vs.cox(FORMULAS["gbsg"], tables, ties=ties, driver="vectorised")
    fit, expected = result.fit, FOUND["constant"][ties]
    se = np.array(expected["se"])
    near(result.params, expected["coef"], se)
    near(result.bse / se, 1.0)
    near([fit.null_log_likelihood, fit.log_likelihood], expected["loglik"], 10.0)
    near([fit.wald_test], expected["wald"], 10.0)
    near([fit.score_test], expected["score"], 10.0)
    assert [fit.n_rows, fit.n_events] == [*expected["n"], *expected["events"]]
    # Parties are counted in the sum before all others, which would be there anyway.
    assert [one.numbers for one in result.releases][:2] == [17, 31]
    with refused("group-too-small", DisclosureError, mentions=("age",)):
        vs.cox(FORMULAS["gbsg"], tables, times=TIMES["gbsg"], driver="vectorised")


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_it_is_statsmodels_phreg(ties):
    rows = rows_of("retinopathy")
    right = rows[["age", "trt", "risk"]]
    plain = sm.PHReg(rows.time, right, rows.event, strata=rows.site, ties=ties)
    expected = plain.fit(tol=1e-14, disp=0)
    formula = "Surv(time, event) ~ age + trt + risk"
    found = vs.cox(formula, tables_of("retinopathy"), ties=ties, driver="vectorised")
    near(found.params, expected.params, expected.bse)
    near(found.bse, expected.bse, expected.bse)
    near(found.pvalues, expected.pvalues)
    near(found.conf_int(), expected.conf_int())
    near(found.llf, expected.llf, 10.0)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_baseline_over_agreed_times_is_r_s_poisson_regression(name):
    result = vs.cox(
        FORMULAS[name],
        tables_of(name),
        times=TIMES[name],
        check=True,
        driver="vectorised",
        # One of retinopathy's parties has one row that ends early without the event.
        rules=Rules(most_rounds=20, minimum_count=1),
    )
    expected, fit = FOUND[name]["bins"], result.fit
    near(fit.coefficients, expected["coef"], fit.standard_errors)
    near(fit.standard_errors, expected["se"], fit.standard_errors)
    near(result.llf, expected["loglik"], 10.0)
    near(fit.aic, expected["aic"], 10.0)
    near(result.baseline()["hazard"], expected["hazard"])
    *each, everything = [one.statistic for one in result.proportional]
    near(each, expected["each"], 10.0)
    near(everything, expected["all"], 10.0)
    assert result.n_rows == len(rows_of(name))
    assert len(result.params) == len(FOUND[name]["efron"]["coef"])


def test_curves_follow_from_the_baseline():
    result = vs.cox(
        "Surv(time, event) ~ age + C(eye)",
        tables_of("retinopathy"),
        times=[10, 25, 60],
        driver="vectorised",
        rules=Rules(minimum_count=1),
    )
    hazard = result.baseline()["hazard"].to_numpy()
    ratio = np.exp(30 * result.params["age"] + result.params["C(eye)[T.right]"])
    curve = result.survival({"age": 30, "eye": "right"}, [0, 10, 17, 60])
    met = [0, 10 * hazard[0], 10 * hazard[0] + 7 * hazard[1]]
    met += [10 * hazard[0] + 15 * hazard[1] + 35 * hazard[2]]
    near(curve["survival"], np.exp(-ratio * np.array(met)), digits=1e-12)
    assert (curve["low"] <= curve["survival"]).all()
    assert (curve["survival"] <= curve["high"]).all()
    with refused("curve-length"):
        result.survival({"age": 30})
    with refused("times-beyond-range", mentions=("0", "60,", "61")):
        result.survival({"age": 30, "eye": "right"}, [61])


# What changes no bit


def made(stream, n_rows, *, whole=True):
    """Return a table with ties, and columns of which many rows are alike."""
    return pd.DataFrame(
        {
            "time": stream.integers(1, 6 if whole else 1000, n_rows),
            "event": stream.integers(0, 2, n_rows),
            "x": stream.integers(-3, 4, n_rows) / 4,
            "z": stream.integers(0, 2, n_rows),
        }
    )


def sums_of(data, **more):
    result = vs.cox(
        "Surv(time, event) ~ x + z",
        data,
        rules=FREE,
        schema=SCHEMA,
        driver="vectorised",
        **more,
    )
    return [one.tolist() for one in result.released.sums]


SCHEMA = vs.Schema.from_table(
    {
        "minimum_rows": 1,
        "columns": {
            "time": {"kind": "integer", "minimum": 0, "maximum": 1000},
            "event": {"kind": "integer", "minimum": 0, "maximum": 1},
            "x": {"kind": "number", "minimum": -1, "maximum": 1, "unit": "1/4"},
            "z": {"kind": "integer", "minimum": 0, "maximum": 1},
        },
    }
)


@given(st.integers(0, 2**32), st.sampled_from(["efron", "breslow"]))
@settings(max_examples=10, deadline=None)
def test_exchanged_tables_and_sorted_rows_change_no_bit(seed, ties):
    stream = np.random.default_rng(seed)
    data = {name: made(stream, 40) for name in "abcd"}
    before = sums_of(data, ties=ties)
    names = stream.permutation(list(data))
    shuffled = {
        name: data[other].sample(frac=1.0, random_state=seed % 1000)
        for name, other in zip(data, names, strict=True)
    }
    assert sums_of(shuffled, ties=ties) == before


def test_a_row_at_another_party_does_change_the_sums():
    stream = np.random.default_rng(0)
    data = {name: made(stream, 40) for name in "abcd"}
    before = sums_of(data)
    data["b"] = pd.concat([data["b"], data["a"][:1]])
    data["a"] = data["a"][1:]
    assert sums_of(data) != before


@given(st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_over_agreed_times_rows_dealt_anew_change_no_bit(seed):
    stream = np.random.default_rng(seed)
    rows = pd.concat([made(stream, 100, whole=False), made(stream, 20)])
    found = []
    for _ in range(2):
        owners = stream.integers(0, 4, len(rows))
        data = {name: rows[owners == k] for k, name in enumerate("abcd")}
        found.append(sums_of(data, times=[100, 500, 1000], check=True))
    assert found[0] == found[1]


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_compiled_or_not_the_same_bits(ties, monkeypatch):
    stream = np.random.default_rng(1)
    design = np.rint(stream.normal(0, 2**30, (20000, 3)))
    time, event = stream.integers(0, 700, 20000), stream.integers(0, 2, 20000)
    measures = _measures(-(2**33), 2**33, n_columns=3)
    rows = vs.Rows(design, event.astype(float))
    at_risk = models.AtRisk.of(measures, time.astype(float), rows, ties)
    weights = np.exp(stream.normal(0, 5, 20000))
    monkeypatch.setattr(compiled, "WORTH_LOADING", 0)
    quick = cox_risk_sums(at_risk, weights)
    monkeypatch.setattr(models, "compiled_or_plain", lambda *_: None)
    assert (cox_risk_sums(at_risk, weights) == quick).all()
    start = at_risk.first[0]
    near(quick[0] / (at_risk.design[start:].T @ weights[start:]), 1.0)


def test_a_round_is_whole_numbers_throughout(monkeypatch):
    """One fraction for each number of each round took as long as the sums."""
    stream = np.random.default_rng(6)
    rows = vs.Rows(np.rint(stream.normal(0, 9, (50, 2))), np.ones(50))
    search = models.CoxSearch(_measures(-99, 99, n_columns=2), ("x", "z"))
    scales = search.scales
    at_risk = models.AtRisk.of(scales.measures, stream.random(50), rows)
    _ = scales.layout
    monkeypatch.setattr(models, "Fraction", None)
    assert models.statistics(scales, at_risk, np.zeros(2), first=True)[-1] == 50


@given(st.integers(-(2**90), 2**90), st.integers(-80, 9))
def test_powers_of_two_are_taken_off_as_fractions_are_rounded(number, power):
    found = models._shift_cox_number(number, power)
    assert found == round(Fraction(number) * Fraction(2) ** power)


def test_far_from_0_nothing_is_lost():
    """Far columns, and hazards far apart, against 60 digits."""
    from mpmath import mp, mpf

    stream = np.random.default_rng(2)
    n = 30
    x = 1e6 + np.rint(stream.normal(0, 200, n))
    time = stream.integers(1, 12, n).astype(float)
    event = stream.integers(0, 2, n).astype(float)
    measures = _measures(0, 2_000_000)
    search = models.CoxSearch(measures, ("x",), "efron")
    rows = vs.Rows(x[:, None], event)
    at_risk = models.AtRisk.of(search.scales.measures, time, rows)
    point = np.array([2.5e-4])
    total = models.statistics(search.scales, at_risk, point, first=True)
    found = models.CoxSums.of(search.scales, total)
    with mp.workdps(60):
        b = mpf(point[0])
        weights = [mp.exp(b * mpf(one)) for one in x]
        loglik = score = spread = mpf(0)
        for when in sorted(set(time[event == 1])):
            risk = [k for k in range(n) if time[k] >= when]
            tied = [k for k in range(n) if time[k] == when and event[k]]
            for place in range(len(tied)):
                part = mpf(place) / len(tied)
                w = {k: weights[k] * (1 - part * (k in tied)) for k in risk}
                s0 = mp.fsum(w.values())
                mean = mp.fsum(w[k] * mpf(x[k]) for k in risk) / s0
                spread += mp.fsum(w[k] * (mpf(x[k]) - mean) ** 2 for k in risk) / s0
                score += mpf(x[tied[place]]) - mean
                loglik += b * mpf(x[tied[place]]) - mp.log(s0)
    near(float(found.log_likelihood), float(loglik), digits=1e-12)
    near(float(found.score[0]), float(score), 200.0, digits=1e-8)
    b = search.scales.powers[0]
    near(
        float(found.information[0, 0]) * 4.0**b / 2.0**56, float(spread), float(spread)
    )


def _measures(low, high, n_columns=1):
    from veilsum.models.rows import RowMeasures
    from veilsum.numbers.units import UnitMeasure

    one = Fraction(1)
    return RowMeasures(
        (UnitMeasure(one, low, high),) * n_columns, UnitMeasure(one, 0, 1)
    )


# What is refused


def asked(data=None, formula="Surv(time, event) ~ x + z", schema=None, **more):
    if data is None:
        stream = np.random.default_rng(5)
        data = {name: made(stream, 40) for name in "abcd"}
    more = {"rules": FREE, "driver": "vectorised", **more}
    return vs.cox(formula, data, schema=schema, **more)


def changed(**columns):
    stream = np.random.default_rng(5)
    data = {name: made(stream, 40) for name in "abcd"}
    return {name: one.assign(**columns) for name, one in data.items()}


@each(
    ("given", "told"),
    [
        ({"strata": "none"}, r"at risk at each event: \d+ numbers in every round"),
        ({"strata": "site"}, 'strata must be "party" or "none"'),
        ({"times": [2, 4], "strata": "party"}, "leave one of them out"),
        ({"times": [2, 4], "ties": "efron"}, "leave ties out"),
        ({"times": [4, 2]}, "ascend from above 0"),
        ({"times": [2, 2.2]}, "nearer to each other"),
        ({"times": [2, 9, 12]}, "no time is beyond 5 by agreement"),
        ({"times": [3], "check": True}, "two times or more"),
        ({"check": True}, "give times"),
        ({"ties": "exact"}, "ties must be efron or breslow"),
        ({"formula": "Surv(time, event) ~ 1"}, "needs a column on the right"),
        ({"formula": "Surv(time, event) ~ 0 + x"}, "leave out 0 \\+ or - 1"),
        ({"formula": "Surv(time, event) ~ x + time"}, "'?time'? is in Surv"),
        ({"formula": "event ~ x"}, "Surv"),
        ({"data": changed(time=-1.0)}, "numbers from 0 on, and the column goes down"),
        ({"data": changed(event=2)}, "must be 1 where it was seen and 0 elsewhere"),
        ({"data": changed(event=0.5)}, "must be 1 where it was seen"),
        ({"data": changed(event=0)}, "no row of any party has an event"),
        ({"data": changed(z=1)}, "z does not vary among a party's rows at risk"),
        ({"data": changed(time=0), "times": [2]}, "every row must end after 0"),
        (
            {
                "formula": "Surv(time, event) ~ x + z + half",
                "derived": {"half": {"of": "x", "as": "scale", "unit": 2}},
            },
            "linearly dependent, so their coefficients are not determined: leave out 1",
        ),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(given, told):
    with pytest.raises(InvalidInputError, match=told) as caught:
        asked(**given)
    assert "\n" not in str(caught.value)


def test_one_baseline_without_bins_names_the_numbers():
    """lung of R's survival has 15 numbers for each of 129 times, and 1,272 in all."""
    error = models.baseline_not_stratified(4, rows=212, columns=6, times=129)
    assert "1,935 numbers in every round (15 for each of 129 times" in str(error)
    assert "212 rows hold 1,272" in str(error)
    assert 'strata = "party"' in str(error)
    assert "times = [...]" in str(error)


def test_columns_constant_within_parties_have_no_coefficient_though_they_vary():
    stream = np.random.default_rng(5)
    data = {name: made(stream, 40).assign(z=name == "a") for name in "abcd"}
    data = {name: one.assign(z=one.z.astype(int)) for name, one in data.items()}
    with refused("no-variation-at-risk"):
        asked(data)


def test_a_coefficient_without_end_is_named():
    stream = np.random.default_rng(7)
    data = {name: made(stream, 60, whole=False) for name in "abcd"}
    # Nobody with z has an event.
    data = {
        name: one.assign(event=np.where(one.z == 1, 0, one.event))
        for name, one in data.items()
    }
    with refused("endless-coefficient"):
        asked(data, rules=Rules.none(most_rounds=40))


def test_ties_everywhere_are_a_fit():
    data = changed(time=3)
    found = asked(data)
    rows = pd.concat([one.assign(site=name) for name, one in data.items()])
    plain = sm.PHReg(rows.time, rows[["x", "z"]], rows.event, strata=rows.site)
    near(asked(data, ties="breslow").params, plain.fit(tol=1e-14, disp=0).params)
    assert np.isfinite(found.params).all()


def test_a_party_without_events_adds_nothing():
    stream = np.random.default_rng(5)
    data = {name: made(stream, 40) for name in "abcd"}
    data["d"] = data["d"].assign(event=0)
    found = asked(data).params
    alone = asked({name: data[name] for name in "abc"}, tolerate=0).params
    assert (found == alone).all()


def test_ranges_that_leave_hazards_too_far_apart_are_said():
    table = SCHEMA.to_table()
    table["columns"]["x"] = {"kind": "number", "minimum": -1e4, "maximum": 1e4}
    table["columns"]["x"]["unit"] = "1/4"
    stream = np.random.default_rng(7)
    data = {}
    for name in "abcd":
        rows = made(stream, 60, whole=False)
        hazard = np.exp(2 * rows.x)
        data[name] = rows.assign(time=np.ceil(stream.exponential(50, 60) / hazard))
        data[name]["time"] = data[name].time.clip(upper=1000)
    with refused("not-converged", NumericalError):
        asked(data, schema=vs.Schema.from_table(table))


# What is shown


def test_the_summary_is_narrow_and_has_r_s_lines():
    result = vs.cox(FORMULAS["gbsg"], tables_of("gbsg"), compare=True)
    text = result.summary()
    assert max(map(len, text.splitlines())) <= 80
    for part in (
        "n = 686, number of events = 299",
        "exp(coef)",
        "Wald test",
        "lower .95",
    ):
        assert part in text
    assert result.max_error == 0.0
    ratios = result.hazard_ratios()
    near(np.log(ratios["high"]), result.conf_int()["high"])
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["n_events"] == 299
    assert plain["table"][0]["hazard_ratio"] == pytest.approx(ratios.iloc[0, 0])
    limits = " ".join(result.guarantee.limits)
    assert "two honest parties' whole inputs exchanged" in limits
    assert "rows dealt to them" not in limits


def test_every_number_is_in_what_is_released():
    result = asked(rules=Rules.none(site_terms=False), driver="loopback")
    counts = [one.numbers for one in result.releases]
    # Parties that hold values of event and z; then p (p + 1) / 2 + p + 1, and 3 more.
    assert counts[1:] == [9, *(6,) * (len(counts) - 2)]
    assert "rows (1); events (1); rows left out (1)" in result.shown[1]
    whole = asked(times=[2, 5], check=True, rules=FREE)
    assert "rows before cuts (1)" in whole.shown[0]
    assert "information with columns times bins (21)" in whole.shown[-1]


def test_no_room_for_the_rounds_is_said_before_anything_is_shown():
    with refused("releases-too-much", DisclosureError, mentions=("8",)):
        asked(rules=Rules.none(minimum_rows=5, release_fraction=0.5), minimum_rows=5)


def test_whoever_answers_beyond_the_ranges_is_stopped():
    stream = np.random.default_rng(5)
    table = made(stream, 40)
    job = CoxJob.of("Surv(time, event) ~ x + z", SCHEMA)
    own = job.bring(job.schema.check("a", table))
    with refused("internal", NumericalError):
        job.answer(own, CoxRequest(False, np.array([1000.0, 0.0])))


# Nested fits over agreed times

LESS, MORE = "age + size", "age + size + nodes + hormon + C(grade)"


def binned(right, data, times=(365, 730, 1100, 2700)):
    text = f"Surv(time, event) ~ {right}"
    how = {"times": list(times), "driver": "vectorised", "rules": FREE, "seed": 1}
    return vs.cox(text, data, **how)


def test_nested_fits_over_agreed_times_are_compared_as_r_does():
    data = tables_of("gbsg")
    small, large = binned(LESS, data), binned(MORE, data)
    expected = json.loads((REFERENCES / "models.json").read_text())["gbsg lr"]
    for found in (large.compare_lr(small), small.compare_lr(large)):
        near([found.statistic, found.degrees], [expected[0], expected[2]])
        assert found.p_value == pytest.approx(expected[1], rel=1e-8)


def test_fits_of_other_rows_or_times_are_not_compared():
    data = tables_of("gbsg")
    large = binned(MORE, data)
    with refused("fits-not-comparable"):
        binned(MORE, data, [2700]).compare_lr(binned(LESS, data, [1100]))
    with refused("fits-not-nested"):
        binned("nodes", data).compare_lr(binned(LESS, data))
    # One row's age is another one: nothing but the sums over rows tells.
    other = {name: table.copy() for name, table in data.items()}
    other["s0"].iloc[0, other["s0"].columns.get_loc("age")] += 1
    with refused("fits-not-comparable"):
        large.compare_lr(binned(LESS, other))
    with refused("not-a-fit"):
        large.compare_lr(vs.cox("Surv(time, event) ~ age", data, driver="vectorised"))
