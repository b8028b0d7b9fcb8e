"""Groups side by side: the numbers are R's, scipy's and statsmodels' on all rows.

`references/table1.R` made the values in `table1.json`, and the two tables beside it.
"""

import json
import re
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import assume, given, settings, strategies as st
from scipy import stats

from cases import each
from later import Later
from party.test_agreed import NAMES, STATISTICS, agreed
from refusals import refused
from veilsum.cli.app import app
from veilsum.errors import InvalidInputError
from veilsum.files.output import as_strict_json
from veilsum.models.comparisons import (
    compare_counts,
    cramers_v,
    difference_of_shares,
)
from veilsum.models.tallies import TallyBins
from veilsum.numbers.units import UnitMeasure
from veilsum.questions.statistics import statistics
from veilsum.sums.job_file import question_job_of
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Schema

oneway = Later("statsmodels.stats.oneway")

FOLDER = Path(__file__).parents[1] / "references"
R = json.loads((FOLDER / "table1.json").read_text("utf-8"))
PBC = pd.read_csv(FOLDER / "table1_pbc.csv")
BIRTHS = pd.read_csv(FOLDER / "table1_birthwt.csv")
ARMS = ("penicillamine", "placebo")
RACES = ("black", "other", "white")


def number(low, high, unit):
    return {"kind": "number", "minimum": low, "maximum": high, "unit": unit}


def category(*levels):
    return {"kind": "category", "categories": list(levels)}


def schema(**columns):
    return Schema.from_table({"missing": "drop", "columns": columns})


TRIAL = schema(
    trt=category(*ARMS),
    sex=category("m", "f"),
    age=number(18, 90, 0.01),
    bili=number(0, 50, 0.1),
    chol={"kind": "integer", "minimum": 50, "maximum": 2000},
    albumin=number(1, 6, 0.01),
    platelet={"kind": "integer", "minimum": 10, "maximum": 1000},
    edema=number(0, 1, 0.5),
    stage={"kind": "integer", "minimum": 1, "maximum": 4},
)
CLINIC = schema(
    race=category(*RACES),
    smoke={"kind": "integer", "minimum": 0, "maximum": 1},
    age={"kind": "integer", "minimum": 10, "maximum": 60},
    lwt={"kind": "integer", "minimum": 50, "maximum": 400},
    ht={"kind": "integer", "minimum": 0, "maximum": 1},
    ui={"kind": "integer", "minimum": 0, "maximum": 1},
    bwt={"kind": "integer", "minimum": 300, "maximum": 6000},
)
# Made-up sites of a few dozen rows: what they would refuse has tests of its own.
FREE = {"rules": Rules.none(), "driver": "vectorised", "seed": 1}


RANGED = {
    "schema": {
        "minimum_rows": 50,
        "columns": {
            "x": number(0, 9, 1),
            "y": number(0, 9, 1),
            "sex": category("f", "m"),
        },
    }
}


def dealt(frame, n=4):
    return {f"s{k}": frame.iloc[k::n] for k in range(n)}


@pytest.fixture(scope="module")
def trial():
    return statistics(
        dealt(PBC),
        schema=TRIAL,
        by="trt",
        columns=["age", "bili", "chol", "albumin", "platelet"],
        tables=[["sex"], ["edema"], ["stage"]],
        histograms={"age": [30, 40, 45, 50, 55, 60], "bili": np.arange(1, 200) / 10},
        quantiles={"age": [0.25, 0.5, 0.75], "bili": [0.25, 0.5, 0.75]},
        compare=True,
        **FREE,
    )


@pytest.fixture(scope="module")
def clinic():
    return statistics(
        dealt(BIRTHS, 5),
        schema=CLINIC,
        by="race",
        columns=["age", "lwt", "bwt"],
        tables=[["smoke"], ["ht"], ["ui"]],
        histograms={"lwt": list(range(60, 300)), "bwt": [1000, 2000, 2500, 3000, 4000]},
        quantiles={"lwt": [0.25, 0.5, 0.75], "bwt": [0.25, 0.5, 0.75]},
        **FREE,
    )


same = partial(pytest.approx, rel=1e-9)
# What each test is called here, and by the script.
OF_NUMBERS = {
    "one-way ANOVA": "anova",
    "Welch's ANOVA": "welch",
    "t-test": "t",
    "Welch's t-test": "welch_t",
}
OF_COUNTS = {"chi-square": "plain", "chi-square, Yates": "yates"}


def check_tests(found, expected, names):
    assert {names[one.name] for one in found.tests} == expected.keys() & {
        *names.values()
    }
    for one in found.tests:
        told = expected[names[one.name]]
        assert one.statistic == same(told["statistic"])
        assert one.p == same(told["p"])
        assert list(one.degrees) == same(np.atleast_1d(told["degrees"]).tolist())


@pytest.mark.parametrize("of", ["pbc", "birthwt"])
def test_tests_of_means_are_those_of_r(of, trial, clinic):
    """t.test, oneway.test with and without equal variances, and so aov."""
    found = {"pbc": trial, "birthwt": clinic}[of].groups
    for place, name in enumerate(found.columns):
        expected = R[of]["numbers"][name]
        check_tests(found.comparisons[name], expected, OF_NUMBERS)
        for group, part in zip(found.names, found.parts, strict=True):
            assert part.rows[place] == expected["n"][group]
            assert part.mean[place] == same(expected["mean"][group])
            assert part.standard_deviation[place] == same(expected["sd"][group])
        if "smd" in expected:
            assert found.comparisons[name].largest == same(expected["smd"])


@pytest.mark.parametrize("of", ["pbc", "birthwt"])
def test_tests_of_counts_are_those_of_r(of, trial, clinic):
    """chisq.test with and without its correction, Cramer's V; whole numbers too."""
    found = {"pbc": trial, "birthwt": clinic}[of].groups
    for name, expected in R[of]["counts"].items():
        assert found.tables[name,][1].tolist() == expected["cells"]
        one = found.comparisons[name]
        check_tests(one, expected, OF_COUNTS)
        assert one.cramers_v == same(expected["v"])
        assert one.largest == same(expected["smd"])


def test_scipy_and_statsmodels_agree():
    """On a 0/1 column as the group, by which every column has two."""
    found = statistics(
        dealt(BIRTHS), schema=CLINIC, by="smoke", columns=["age", "lwt", "bwt"], **FREE
    ).groups
    assert found.names == ("0", "1")
    for name, expected in R["birthwt"]["by_smoke"].items():
        check_tests(found.comparisons[name], expected, OF_NUMBERS)
        groups = [one[name].to_numpy() for _, one in BIRTHS.groupby("smoke")]
        tests = {one.name: one for one in found.comparisons[name].tests}
        welch = stats.ttest_ind(*groups, equal_var=False)
        assert tests["Welch's t-test"].p == same(welch.pvalue)
        assert tests["t-test"].statistic == same(stats.ttest_ind(*groups).statistic)
        assert tests["one-way ANOVA"].p == same(stats.f_oneway(*groups).pvalue)
        unequal = oneway.anova_oneway(groups, use_var="unequal", welch_correction=True)
        assert tests["Welch's ANOVA"].statistic == same(unequal.statistic)
        assert tests["Welch's ANOVA"].p == same(unequal.pvalue)
    cells = pd.crosstab(BIRTHS["race"], BIRTHS["smoke"]).to_numpy()
    told = found.comparisons["race"]
    assert told.tests[0].p == same(stats.chi2_contingency(cells, correction=False)[1])
    assert told.cramers_v == same(stats.contingency.association(cells, "cramer"))


@pytest.mark.parametrize("of", ["pbc", "birthwt"])
def test_quantiles_are_where_r_has_them(of, trial, clinic):
    """R's type 1 is between both ends, and is both where they meet."""
    found = {"pbc": trial, "birthwt": clinic}[of].groups
    for name, expected in R[of]["quantiles"].items():
        for group, told in zip(found.names, found.quantiles[name][1:], strict=True):
            for one, value in zip(told, expected[group], strict=True):
                assert one.low <= value <= one.high
                assert one.low <= one.between <= one.high
                if name in {"bili", "lwt"}:  # a threshold at every value
                    assert one.low == one.high == value
                else:
                    assert one.low < one.high


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.lists(st.integers(-3, 45), min_size=2, max_size=9, unique=True),
    st.sampled_from([0.01, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9]),
    st.sampled_from([Fraction(1, 10), None]),
)
@settings(max_examples=150, deadline=None)
def test_a_quantile_is_always_in_its_bin(values, edges, share, unit):
    """Against the order of the values themselves, which counts do not have."""
    measure = UnitMeasure.of(0, 4, unit)
    tenths = measure.counts(np.array(values) / 10) * float(measure.unit)
    if unit is not None:
        tenths = np.array(values) / 10
    bins = TallyBins.of(np.sort(np.array(edges)) / 10)
    found = bins.unpack(bins.tally(tenths)).quantile(share, measure)
    truth = np.quantile(tenths, share, method="inverted_cdf")
    assert found.low <= truth <= found.high


def test_every_variable_has_its_own_rows(trial):
    """As R's tableone takes them; the page has their number."""
    assert trial.marginals.rows == tuple(PBC[name].count() for name in trial.columns)
    assert trial.choice.reasons == {}
    text = " ".join(trial.groups.text().split())
    assert "described on all rows that have it and a group" in text
    assert re.search(r"chol .* 284 +28", trial.groups.text())
    assert "312 rows of 4 parties in all groups; 32 rows" in trial.summary()


def test_missing_values_are_counted_before_rows_are_left_out(trial):
    assert trial.missing == {n: R["pbc"]["missing"][n] for n in trial.missing}
    assert trial.missing["chol"] == 28
    assert (trial.count, trial.dropped) == (312, 32)
    found = statistics(
        dealt(PBC), schema=TRIAL, by="trt", columns=["chol"], missing="groups", **FREE
    )
    lost = PBC["chol"].isna().groupby(PBC["trt"]).sum()
    assert found.groups.missing_in_groups["chol"] == tuple(lost[arm] for arm in ARMS)
    whole = statistics(
        dealt(PBC), schema=TRIAL, columns=["chol"], missing="columns", **FREE
    )
    assert whole.missing == {"chol": 28}
    assert "chol       28" in whole.summary()


def test_all_rows_are_the_sum_of_groups(trial):
    assert trial.max_error < 1e-9
    assert trial.marginals.standard_deviation[2] == same(PBC["chol"].std())
    whole = PBC.dropna()
    trial = statistics(
        dealt(whole),
        schema=TRIAL,
        by="trt",
        columns=trial.columns,
        tables=[["sex"], ["edema"], ["stage"]],
        histograms={"age": [30, 40, 45, 50, 55, 60]},
        **FREE,
    )
    alone = statistics(
        dealt(whole),
        schema=TRIAL,
        columns=trial.columns,
        tables=[["sex"], ["edema"], ["stage"]],
        histograms={"age": [30, 40, 45, 50, 55, 60]},
        **FREE,
    )
    np.testing.assert_array_equal(trial.marginals.mean, alone.moments.mean)
    for names, cells in alone.tables.items():
        np.testing.assert_array_equal(trial.tables[names], cells)
    np.testing.assert_array_equal(
        trial.histograms["age"].counts, alone.histograms["age"].counts
    )


def test_bins_are_crossed_as_levels_are():
    """Two columns on edges are a histogram in two dimensions."""
    edges = {"age": [15, 20, 25, 30], "lwt": [100, 120, 150]}
    found = statistics(
        dealt(BIRTHS),
        schema=CLINIC,
        columns=[],
        histograms=edges,
        tables=[["age", "lwt"], ["smoke", "age"]],
        **FREE,
    )
    inner = found.tables["age", "lwt"][1:-1, 1:-1]
    expected, _, _ = np.histogram2d(BIRTHS["age"], BIRTHS["lwt"], [*edges.values()])
    assert inner.tolist() == expected.tolist()
    assert found.tables["age", "lwt"].sum() == len(BIRTHS)
    smokers = found.tables["smoke", "age"][1]
    told = np.histogram(BIRTHS["age"][BIRTHS["smoke"] == 1], edges["age"])[0]
    assert smokers[1:-1].tolist() == told.tolist()
    assert "age by lwt  below 100  100 to 120" in found.summary()


@given(st.lists(st.integers(0, 3), min_size=80, max_size=80))
@settings(max_examples=15, deadline=None)
def test_who_has_which_row_does_not_show(owners):
    """Dealt in another way, in another order: every released bit is the same."""
    rows = PBC[:100]
    owned = np.array([*owners, *[0, 1, 2, 3] * 5])
    assume(all(rows[owned == k].notna().all(axis=1).sum() > 4 for k in range(4)))
    wishes = {
        "schema": TRIAL,
        "by": "trt",
        "columns": ["age", "chol"],
        "tables": [["stage"], ["sex", "edema"]],
        "histograms": {"bili": [1, 3]},
        "missing": "groups",
        **FREE,
    }
    one = statistics(dealt(rows), **wishes)
    other = {str(k): rows[owned == k][::-1] for k in range(4)}
    again = statistics({f"s{k}": other[str(k)] for k in range(4)}, **wishes)
    assert one.released.sums[-1].tolist() == again.released.sums[-1].tolist()
    assert {*map(type, one.released.sums[-1].tolist())} == {int}
    assert one.groups.to_dict() == again.groups.to_dict()


def test_the_table_fits_a_screen(trial, clinic):
    for found in (trial, clinic):
        lines = found.groups.text().splitlines()
        assert max(map(len, lines)) < 80
    text = trial.summary()
    assert "age" in text
    assert "50.0 (10.6)" in text
    assert "0.270  0.018" in text
    assert "how many rows are below each threshold" in " ".join(text.split())


def test_many_groups_take_several_tables():
    names = [f"a clinic with a long name {k}" for k in range(7)]
    chance = np.random.default_rng(3)
    tables = {
        f"p{k}": {"y": chance.integers(0, 50, 70), "clinic": names * 10}
        for k in range(4)
    }
    found = statistics(tables, by="clinic", **FREE).groups
    assert max(map(len, found.text().splitlines())) < 80
    assert found.text().count("\nrows ") == 4
    assert all(name in found.text() for name in names)
    assert len(found.comparisons["y"].differences) == 21


def test_the_table_is_a_frame_and_json(trial):
    frame = trial.to_frame()
    arm = frame[(frame["variable"] == "sex") & (frame["group"] == "placebo")]
    assert arm["count"].sum() == 154
    assert arm["share"].sum() == pytest.approx(1.0)
    means = frame[(frame["variable"] == "age") & (frame["group"] == "")]
    assert means["mean"].item() == trial.marginals.mean[0]
    plain = json.loads(as_strict_json(trial.to_dict()))
    assert plain["groups"]["counts"] == [158, 154]
    chol = PBC["chol"][PBC["trt"] == ARMS[0]]
    assert plain["groups"]["table"][4]["count"] == chol.count()
    assert plain["groups"]["comparisons"][0]["tests"][0]["name"] == "t-test"
    assert plain["covariance"] is None
    with refused("correlations-by-group"):
        _ = trial.moments


def test_a_group_that_nobody_is_in_is_left_out_of_tests():
    arms = category(*ARMS, "surgery")
    wider = Schema.from_table(
        {**TRIAL.to_table(), "columns": {**TRIAL.to_table()["columns"], "trt": arms}}
    )
    wish = {"by": "trt", "columns": ["age"], "tables": [["sex"]], **FREE}
    found = statistics(dealt(PBC), schema=wider, **wish).groups
    usual = statistics(dealt(PBC), schema=TRIAL, **wish).groups
    assert found.counts == (*usual.counts, 0)
    assert found.comparisons["age"].tests == usual.comparisons["age"].tests
    assert found.comparisons["sex"].tests == usual.comparisons["sex"].tests
    assert "Nobody has trt = surgery: tests leave it out." in found.text()
    # All in one group: there is nothing to compare, and that is no error.
    alone = {p: t.assign(trt="placebo") for p, t in dealt(PBC).items()}
    told = statistics(alone, schema=TRIAL, **wish).groups
    assert np.isnan(told.comparisons["age"].test.p)
    assert np.isnan(told.comparisons["sex"].test.p)
    assert "placebo" in told.text()


@each(
    ("wish", "why"),
    [
        ({"by": "age"}, r"'age' holds numbers, and groups are told by a category"),
        ({"by": "arm"}, "no column 'arm'"),
        ({"by": "trt", "columns": ["age"], "tables": [["trt"]]}, "'trt' says which"),
        ({"by": "stage", "columns": ["stage"]}, "'stage' says which group"),
        ({"quantiles": {"age": [0.5]}}, r"give these too, as in histograms = \{ age"),
        (
            {"histograms": {"age": [40, 60]}, "quantiles": {"age": [0.5, 1]}},
            "above 0 and below 1, found 1",
        ),
        ({"histograms": {"age": [60, 40]}}, "edges must ascend"),
        ({"tables": [["chol"]]}, "'chol' holds numbers: count it with histograms"),
        ({"missing": "groups"}, "needs groups"),
        ({"missing": "rows"}, "choose from columns and groups"),
    ],
)
def test_what_cannot_be_asked_for_is_said(wish, why):
    with pytest.raises(InvalidInputError, match=why):
        statistics(dealt(PBC), schema=TRIAL, **wish, **FREE)


def test_one_group_by_agreement_is_no_comparison():
    one = schema(trt=category("placebo"), age=number(18, 90, 0.01))
    rows = PBC[PBC["trt"] == "placebo"]
    with refused("single-group", mentions=("placebo",)):
        statistics(dealt(rows), schema=one, by="trt", **FREE)


def test_a_command_describes_groups_that_its_file_does_not_name(tmp_path):
    """`--by` wins over the file; boxes and tables are drawn beside the JSON."""
    for party, rows in dealt(BIRTHS).items():
        rows.to_csv(tmp_path / f"{party}.csv", index=False)
    files = "\n".join(f's{k} = "s{k}.csv"' for k in range(4))
    (tmp_path / "births.toml").write_text(
        f"""[data.files]
{files}
[statistics]
columns = ["lwt"]
histograms = {{ age = [20, 25, 30] }}
quantiles = {{ age = [0.25, 0.5, 0.75] }}
tables = [["smoke", "age"]]
[policy]
minimum_count = 0
effective_count = 0
maximum_influence = 1.0
site_terms = true
""",
        "utf-8",
    )
    given = ["stats", str(tmp_path / "births.toml"), "--driver", "vectorised"]
    out = tmp_path / "out"
    found = CliRunner().invoke(app, [*given, "--by", "race", "--out", str(out)])
    assert found.exit_code == 0, found.output
    assert "race" in found.output
    assert "largest of two groups" in " ".join(found.output.split())
    names = {one.name for one in out.iterdir()}
    drawn = {f"{n}.{kind}" for n in ("boxes_1", "counts_2") for kind in ("png", "svg")}
    assert names == {"result.json", *drawn}
    told = json.loads((out / "result.json").read_text("utf-8"))
    assert told["groups"]["column"] == "race"
    without = CliRunner().invoke(app, [*given, "--json"])
    assert json.loads(without.stdout)["groups"] is None


def test_members_of_a_consortium_get_the_same_numbers():
    """From the file that parties agree on, each as a machine of its own."""
    wish = {"by": "sex", "columns": ["y"], "histograms": {"x": [3, 6]}}
    consortium = agreed({**STATISTICS, **RANGED, "statistics": wish})
    chance = np.random.default_rng(5)
    tables = {
        name: pd.DataFrame(
            {
                "x": np.arange(60) // 2 % 9,
                "y": chance.integers(0, 9, 60).astype(float),
                "sex": ["f", "m"] * 30,
            }
        )
        for name in NAMES
    }
    found = question_job_of(consortium, tables, driver="loopback", seed=1).run().groups
    whole = pd.concat(tables.values())
    groups = [one["y"] for _, one in whole.groupby("sex")]
    assert found.comparisons["y"].test.p == same(stats.ttest_ind(*groups).pvalue)


def test_what_has_no_answer_is_nan():
    """Constants, one level, shares that exclude each other."""
    level = np.array([[5.0, 7.0]])
    assert np.isnan(compare_counts(level)[0].p)
    assert np.isnan(cramers_v(level))
    assert difference_of_shares(np.array([4.0, 0.0]), np.array([0.0, 3.0])) == np.inf
    assert np.isnan(difference_of_shares(np.zeros(2), np.ones(2)))
    same_for_all = {f"p{k}": {"y": [3] * 6, "g": [*"aabbbb"]} for k in range(4)}
    found = statistics(same_for_all, by="g", **FREE).groups.comparisons["y"]
    assert np.isnan(found.test.p)
    assert found.largest == 0.0


@each("n_groups", [2, 4, 7])
def test_numbers_have_the_same_digits_wherever_they_are_seen(n_groups):
    """In a narrow terminal, a wide one and a notebook: as many as fit 79 letters."""
    chance = np.random.default_rng(n_groups)
    levels = [f"a group, {k}" for k in range(n_groups)]
    tables = {
        name: pd.DataFrame(
            {"size": chance.normal(19, 4, 70).round(2), "g": (levels * 35)[:70]}
        )
        for name in "abcd"
    }
    found = statistics(
        tables, columns=["size"], by="g", rules=Rules.none(), driver="vectorised"
    ).groups
    cells = [
        set(re.findall(r"\d+\.\d+ \(\d+\.\d+\)", shown))
        for shown in (
            found.text(50),
            found.text(),
            found.text(400),
            found._repr_html_(),
        )
    ]
    assert len(cells[0]) == 1 + n_groups
    assert all(one == cells[0] for one in cells)
