"""Survival over parties is R's over the pooled rows, and refuses what R would not."""

import json
from fractions import Fraction
from math import nan, sqrt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import veilsum as vs
from cases import each
from later import Later
from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.files.datasets import gbsg2
from veilsum.files.output import as_strict_json
from veilsum.models.survival import (
    CONF_TYPES,
    SurvivalCurve,
    SurvivalEnds,
    SurvivalTimeGrid,
    log_rank_test_of_survival,
)
from veilsum.questions.survival import SurvivalJob
from veilsum.tables.rules import DisclosureError, Rules

survfunc = Later("statsmodels.duration.survfunc")

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


@each("name", EXPECTED)
@each("grid", ["exact", "coarse"])
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
            low, high = curve.interval(0.95, kind)
            bands = expected["bands"][kind]
            np.testing.assert_allclose(low[at], numbers(bands["low"]), **CLOSE)
            np.testing.assert_allclose(high[at], numbers(bands["high"]), **CLOSE)
            ends = [curve.quantile(p, 0.95, kind) for p in (0.25, 0.5, 0.75)]
            for part, key in enumerate(("value", "low", "high")):
                known_ends = numbers(expected["quantiles"][kind][key])
                found = [one[part] for one in ends]
                np.testing.assert_allclose(found, known_ends, **CLOSE)
        mean = curve.restricted_mean()
        np.testing.assert_allclose(
            mean, [expected["mean"], expected["mean_se"]], **CLOSE
        )
    test, theirs = both[0].log_rank, known[grid]["log_rank"]
    # R lists groups in the order of its factor; ours are in the schema's.
    order = np.argsort(np.argsort([*known[grid]["curves"]][1:]))
    np.testing.assert_allclose(test.expected[order], theirs["expected"], **CLOSE)
    assert test.observed[order].tolist() == theirs["observed"]
    assert test.statistic == pytest.approx(theirs["statistic"], rel=1e-9)
    assert test.p == pytest.approx(theirs["p"], rel=1e-9)
    assert both[1].log_rank is None


def test_curves_and_test_are_those_of_statsmodels():
    frame = table("veteran")
    times = np.arange(20.0, 401.0, 20.0)
    found = vs.survival(BY_GROUP, dealt(frame), times=times, **FREE)
    place = np.searchsorted(times, frame["time"])
    late = place == len(times)
    rounded = times[np.minimum(place, len(times) - 1)]
    event = np.where(late, 0, frame["event"])
    for label, curve in found.curves.items():
        own = (frame["group"] == label).to_numpy()
        theirs = survfunc.SurvfuncRight(rounded[own], event[own])
        at = np.searchsorted(times, theirs.surv_times)
        np.testing.assert_allclose(curve.survival[at], theirs.surv_prob, **CLOSE)
        errors = curve.standard_error[at]
        np.testing.assert_allclose(errors, theirs.surv_prob_se, **CLOSE)
        assert curve.at_risk[at].tolist() == theirs.n_risk.tolist()
    statistic, p = survfunc.survdiff(rounded, event, frame["group"].to_numpy())
    assert found.log_rank.statistic == pytest.approx(statistic, rel=1e-9)
    assert found.log_rank.p == pytest.approx(p, rel=1e-9)
    assert found.log_rank.df == 3


def test_a_life_table_is_the_one_that_actuaries_write_down():
    """By hand: survival and Greenwood's sum in fractions, of a small table."""
    events, censored, later = [5, 4, 0, 2], [3, 6, 2, 0], 7
    curve = SurvivalCurve(
        np.array([1.0, 2.0, 3.0, 5.0]),
        np.array(events),
        np.array(censored),
        later,
        life_table=True,
    )
    left, survival, greenwood = Fraction(29), Fraction(1), Fraction(0)
    for place, (d, c) in enumerate(zip(events, censored, strict=True)):
        exposed = left - Fraction(c, 2)
        survival *= 1 - d / exposed
        greenwood += d / (exposed * (exposed - d))
        left -= d + c
        assert curve.survival[place] == pytest.approx(float(survival), rel=1e-14)
        error = float(survival) * sqrt(greenwood)
        assert curve.standard_error[place] == pytest.approx(error, rel=1e-14)
    assert left == later


@pytest.mark.parametrize(
    ("name", "times", "wide"),
    [("veteran", [90, 180, 365], False), ("colon", [1095, 2555], True)],
)
def test_what_a_grid_leaves_open_is_said(name, times, wide):
    """Never below the rows' own curve; and nearer as a life table, if not too wide."""
    data = dealt(table(name))
    found = vs.survival(TOGETHER, data, times=times, compare=True, **FREE)
    own = found.reference["all rows"]
    assert (found.curves["all rows"].survival >= own - 1e-12).all()
    assert found.max_error > 0.01
    told = " ".join(found.summary().split())
    assert ("at 2555: up to there the steps are too wide to tell" in told) == wide
    assert (found.life_table_error < found.max_error / 2) != wide
    # The twin: at every time that occurs there is nothing to be lost.
    times = np.unique(table(name)["time"])
    exact = vs.survival(TOGETHER, dealt(table(name)), times=times, compare=True, **FREE)
    assert exact.max_error == 0.0


@given(owners=st.lists(st.integers(0, 3), min_size=117, max_size=117))
@settings(max_examples=6, deadline=None)
@pytest.mark.usefixtures("unchecked_shapes")
def test_who_has_which_row_does_not_show(owners):
    frame = table("veteran")
    owned = np.array([*owners, *(k % 4 for k in range(20))])
    times = [60, 61.5, 120, 240]
    one = vs.survival(BY_GROUP, dealt(frame, 4), times=times, **FREE)
    other = {str(k): frame[owned == k][::-1] for k in range(4)}
    again = vs.survival(BY_GROUP, other, times=times, **FREE)
    assert one.released.sums[0].tolist() == again.released.sums[0].tolist()
    assert {*map(type, one.released.sums[0].tolist())} == {int}
    first, second = one.to_dict(), again.to_dict()
    for key in ("minimiser", "table", "life_tables", "groups", "log_rank"):
        assert first[key] == second[key]


def test_every_number_is_listed_and_in_two_rounds():
    found = vs.survival(BY_GROUP, dealt(table("colon")), times=[730, 1460, 2190])
    first, second = found.releases
    assert sum(first.statistics.values()) == (3 + 2 + 2 * 3 + 3 * 4) + 4
    assert sum(second.statistics.values()) == (2 * 3 + 1) * 3 + 1
    assert second.numbers == len(found.inner[1][0])
    counts = found.ends
    parts = (counts.events.ravel(), counts.censored.ravel(), counts.later)
    assert found.inner[1][0][:-1].tolist() == np.concatenate(parts).tolist()


def test_a_time_is_looked_up_where_it_is_searched():
    """Values of few units have a table; others are searched for, one by one."""
    schema = vs.Schema((vs.Column("t", "number", 0, 5, unit=0.1),))
    times = schema.check("a", {"t": np.arange(0, 51) / 10.0}).numbers("t")
    grid = SurvivalTimeGrid.of([0, 0.3, 0.7, 1.1, 4.9])
    looked = grid.found(np.tile(times, 3), schema.column("t").measure)
    assert looked.tolist() == np.tile(grid.found(times), 3).tolist()
    assert [grid.found(times)[k] for k in (0, 3, 4, 49, 50)] == [0, 1, 2, 4, 5]


def test_curves_end_where_nobody_is_left():
    curve = SurvivalCurve(
        np.array([1.0, 2.0, 3.0]), *np.array([[2, 0, 0], [1, 3, 0]]), 0
    )
    np.testing.assert_allclose(curve.survival, [2 / 3, 2 / 3, nan], rtol=1e-15)
    dead = SurvivalCurve(
        np.array([1.0, 2.0, 3.0]), *np.array([[2, 4, 0], [0, 0, 0]]), 0
    )
    np.testing.assert_allclose(dead.survival, [2 / 3, 0.0, 0.0], rtol=1e-15)
    assert np.isnan(dead.standard_error[1:]).all()
    assert dead.median.value == 2.0
    flat = SurvivalCurve(
        np.array([1.0, 2.0, 3.0]), *np.array([[2, 0, 1], [0, 0, 0]]), 1
    )
    assert flat.median.value == 2.0  # at one half from 1 to 3


def schema(**columns):
    usual = {
        "time": {"kind": "integer", "minimum": 0, "maximum": 4000},
        "event": {"kind": "integer", "minimum": 0, "maximum": 1},
        "group": {"kind": "category", "categories": ["Lev", "Lev+5FU", "Obs"]},
    }
    return vs.Schema.from_table({"minimum_rows": 5, "columns": {**usual, **columns}})


BAD = {
    "a minimum below 0": (
        {"schema": schema(time={"kind": "integer", "minimum": -1, "maximum": 4000})},
        "the times in 'time' must be numbers from 0 on, and the column goes down to -1",
    ),
    "no minimum": (
        {"schema": schema(time={"kind": "number", "unit": 1, "maximum": 4000})},
        "has no agreed minimum",
    ),
    "a category of times": (
        {"schema": schema(time={"kind": "category", "categories": ["1"]})},
        "is a category",
    ),
    "events of 1 and 2": (
        {"schema": schema(event={"kind": "integer", "minimum": 1, "maximum": 2})},
        "must be 1 where it was seen and 0 elsewhere, and the column is integer, 1 to",
    ),
    "events in halves": (
        {"schema": schema(event={"kind": "number", "minimum": 0, "maximum": 1})},
        "must be 1 where it was seen",
    ),
    "events of three levels": (
        {"schema": schema(event={"kind": "category", "categories": ["a", "b", "c"]})},
        "has the levels a, b, c: it needs two",
    ),
    "groups that are numbers": (
        {"schema": schema(group={"kind": "integer", "minimum": 0, "maximum": 9})},
        "holds numbers in 'group' by the schema",
    ),
    "no times": ({"times": []}, "a list of one number or more"),
    "times that descend": ({"times": [9, 3]}, "after 9 stands 3"),
    "a time twice": ({"times": [9, 9]}, "after 9 stands 9"),
    "a time before 0": ({"times": [-1, 9]}, "the first is -1"),
    "a time that is none": ({"times": [nan]}, "times"),
    "times beyond the range": (
        {"times": [365, 4001], "schema": schema()},
        "times go up to 4001, and 'time' is 4000 at most by agreement",
    ),
    "two terms": ({"formula": f"{TOGETHER} + C(group) + C(x)"}, "has several terms"),
    "an interaction": ({"formula": f"{TOGETHER} + C(group):C(x)"}, "something else"),
    "no intercept": ({"formula": f"{BY_GROUP} - 1"}, "something else"),
    "a number": (
        {"formula": f"{TOGETHER} + {{time / 2}}"},
        "computes, and a formula has only",
    ),
    "a contrast": ({"formula": "Surv(time, event) ~ C(group, Sum)"}, "has a contrast"),
    "the event again": (
        {"formula": "Surv(time, event) ~ C(event)"},
        "has 'event', as the left side has",
    ),
}


@each(("options", "why"), BAD.values(), ids=BAD)
def test_what_cannot_be_asked_is_a_sentence(options, why):
    data = dealt(table("colon"))
    asked = {"formula": BY_GROUP, "times": [365, 730], **FREE, **options}
    for one in data.values():
        one["x"] = "a"
    with pytest.raises(InvalidInputError) as refusal:
        vs.survival(data=data, **asked)
    assert why in str(refusal.value)


@each(("column", "value"), [("time", -3), ("event", 2), ("time", 4001)])
def test_rows_that_were_not_agreed_on_are_refused_at_home(column, value):
    data = {name: one.copy() for name, one in dealt(table("colon")).items()}
    data["h2"].iloc[4, data["h2"].columns.get_loc(column)] = value
    with refused("value-out-of-range", mentions=(column, "1")):
        vs.survival(BY_GROUP, data, times=[365], schema=schema(), **FREE)
    # In a simulation without a schema nobody has agreed on anything: the same holds.
    if value != 4001:
        with pytest.raises(InvalidInputError, match=rf"'{column}'.*{value}"):
            vs.survival(BY_GROUP, data, times=[365], **FREE)


def test_a_party_where_all_are_censored_takes_part():
    data = dealt(table("colon"))
    data["h0"] = data["h0"].assign(event=0)
    found = vs.survival(TOGETHER, data, times=[730, 1460, 2190])
    assert found.curves["all rows"].n == 929


def test_without_any_event_curves_stay_at_1():
    """That nobody has an event may only be shown if a single one may be."""
    data = {name: one.assign(event=0) for name, one in dealt(table("colon")).items()}
    asked = {"times": [730, 1460, 2190]}
    with refused("merging-leaves-nothing", DisclosureError, mentions=("event",)):
        vs.survival(BY_GROUP, data, **asked)
    found = vs.survival(BY_GROUP, data, **asked, rules=Rules(minimum_count=1))
    assert found.log_rank is None
    assert {one["survival"] for one in found.rows()} == {1.0}
    assert {one["low"] for one in found.rows()} == {None}
    assert "No event was seen" in found.summary()


def test_a_group_that_nobody_has_is_left_out_only_if_a_single_row_may_be_shown():
    """A group without any row looks like one with few: it merges with the next one."""
    levels = {"kind": "category", "categories": ["Lev", "Lev+5FU", "Obs", "new"]}

    def asked(**rules):
        return vs.survival(
            BY_GROUP,
            dealt(table("colon")),
            times=[730, 1460, 2190],
            schema=schema(group=levels),
            rules=Rules(release_fraction=10.0, **rules),
        )

    found = asked(minimum_count=1)
    assert [*found.curves] == ["Lev", "Lev+5FU", "Obs"]
    assert found.log_rank.df == 2
    assert "No row has group = new." in found.summary()
    merged = asked()
    assert [*merged.curves] == ["Lev+5FU", "Obs", "others (Lev, new)"]
    assert merged.merged == {"group": [["Lev", "new"]]}
    assert merged.log_rank.statistic == found.log_rank.statistic


def test_events_may_be_levels_and_rows_may_be_missing():
    frame = table("colon").astype({"time": float})
    words = frame.assign(event=np.where(frame["event"] == 1, "yes", "no"))
    words.loc[::50, "time"] = nan
    found = vs.survival(TOGETHER, dealt(words), times=[730, 1460, 2190])
    kept = words["time"].notna()
    assert found.dropped == (~kept).sum() == 19
    assert (
        found.ends.events.sum()
        == (frame["event"] * (frame["time"] <= 2190))[kept].sum()
    )


def test_a_result_is_text_a_table_and_json():
    found = vs.survival(
        BY_GROUP, dealt(table("colon")), times=[730, 1460, 2190], compare=True
    )
    text = found.summary()
    assert max(map(len, text.splitlines())) <= 80
    assert "log-rank: chi2 = 10.7" in text
    assert "929 rows of 5 parties." in text
    assert " K-M\n" in found.summary(life_table=True)
    # In a row "at 730" they are all who entered; who is at risk then, the figure has.
    assert "entering" in text
    assert "at risk  events" not in text
    told = json.loads(as_strict_json(found.to_dict()))
    assert told["table"] == found.rows()
    frame = found.to_frame(conf_type="plain", level=0.9)
    assert len(frame) == 9
    obs = frame[frame["group"] == "Obs"]
    np.testing.assert_allclose(
        obs["high"] - obs["survival"], 1.6448536 * obs["standard_error"], rtol=1e-6
    )


def test_times_up_to_which_steps_are_too_wide_are_named_for_each_group():
    """Half a standard error in the columns that the summary shows, worked out here."""
    years = [365, 730, 1095, 1460, 1825]
    found = vs.survival("Surv(time, event) ~ C(hormone)", gbsg2(4), times=years, **FREE)
    frame, other = found.to_frame(), found.to_frame(life_table=True)
    wide = frame[(frame.survival - other.survival) > frame.standard_error / 2]
    places = [f"{t:g} ({g})" for g, t in zip(wide.group, wide.time, strict=True)]
    assert places == ["1095 (no)", "1460 (no)", "1825 (no)", "1825 (yes)"]
    told = " ".join(found.summary().split())
    assert f"half a standard error at {', '.join(places)}: up to there" in told


def test_small_intervals_merge_and_are_those_of_a_coarser_grid():
    data = dealt(table("colon"))
    found = vs.survival(BY_GROUP, data, times=range(365, 2200, 365))
    merged = ["1095 to 1460", "1460 to 1825", "1825 to 2190"]
    assert found.merged == {"time": [merged]}
    coarse = vs.survival(BY_GROUP, data, times=found.times)
    assert not coarse.merged
    assert found.rows() == coarse.rows()
    assert found.log_rank.p == coarse.log_rank.p < 0.01


def test_more_times_than_rows_hold_are_refused_before_anybody_is_asked():
    with refused("releases-too-much", DisclosureError) as refusal:
        vs.survival(TOGETHER, dealt(table("veteran")), times=range(10, 400, 10))
    assert refusal.value.rule == "release_fraction"


def test_groups_that_are_alike_do_not_differ():
    ends = SurvivalEnds(*np.array([[[5, 2]] * 3, [[4, 3]] * 3]), np.array([2, 2, 2]))
    found = log_rank_test_of_survival(ends)
    assert found.statistic == pytest.approx(0.0, abs=1e-12)
    assert found.df == 2
    assert found.p == pytest.approx(1.0)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (lambda one: one.interval(0.95, "loglog"), "conf_type must be one of log-log"),
        (lambda one: one.interval(95), "a level is between 0 and 1, found 95"),
        (lambda one: one.quantile(50), "p is between 0 and 1, found 50"),
        (lambda one: one.restricted_mean(9.0), "above 0, 2 at most, found 9"),
    ],
)
def test_a_curve_says_what_it_cannot_be_asked(asked, why):
    curve = SurvivalCurve(np.array([1.0, 2.0]), np.array([3, 1]), np.array([0, 2]), 4)
    with pytest.raises(InvalidInputError, match=why):
        asked(curve)


def test_parts_of_rows_add_up_to_what_their_party_sends():
    """Rows that go on after the last time are in the number of their own group."""
    schema = vs.Schema(
        (
            vs.Column("days", "integer", 0, 50),
            vs.Column("died", "integer", 0, 1),
            vs.Column("arm", "category", categories=("new", "old")),
        ),
        minimum_rows=1,
    )
    rows = {
        "days": [5, 10, 15, 20, 30, 40, 50, 50],
        "died": [1, 0, 1, 0, 1, 0, 1, 0],
        "arm": ["new", "old", "old", "new", "old", "old", "new", "old"],
    }
    job = SurvivalJob.of(schema, "Surv(days, died) ~ arm", [10, 20])
    own = job.bring(job.schema.check("ann", pd.DataFrame(rows)))
    parts = job.contributions(own, "")
    assert (parts.sum(axis=1) == 1.0).all()
    assert parts.sum(axis=0).tolist() == job.answer(own, "").tolist()
    assert own.ends.later.tolist() == [1, 3]
