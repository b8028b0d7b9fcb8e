"""Pooled statistics are those of numpy and pandas on all rows together."""

import json
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.files import datasets
from veilsum.files.output import as_strict_json
from veilsum.questions.statistics import statistics
from veilsum.tables.rules import DisclosureError, Rules
from veilsum.tables.schema import Schema


@pytest.fixture(scope="module")
def frame():
    stream = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "age": stream.integers(20, 90, 500),
            "bp": stream.normal(120, 15, 500),
            "far": 1e9 + stream.uniform(size=500),
            "sex": stream.choice(["f", "m"], 500),
            "smoker": stream.choice([True, False], 500),
        }
    )


@pytest.fixture(scope="module")
def data(frame):
    return {f"h{k}": frame.iloc[100 * k : 100 * k + 100] for k in range(5)}


@pytest.mark.parametrize("driver", ["loopback", "vectorised"])
def test_moments_are_those_of_the_pooled_rows(frame, data, driver):
    found = statistics(data, driver=driver, compare=True, seed=1)
    numbers = frame[["age", "bp", "far"]]
    assert found.columns == ("age", "bp", "far")
    assert found.count == 500
    moments = found.moments
    np.testing.assert_allclose(moments.mean, numbers.mean(), rtol=1e-13)
    np.testing.assert_allclose(moments.sum, numbers.sum(), rtol=1e-13)
    np.testing.assert_allclose(moments.covariance, numbers.cov(), rtol=1e-9)
    # Centred first: what pandas computes of 1e9 + x has four digits.
    expected = (numbers - numbers.mean()).corr()
    np.testing.assert_allclose(moments.correlation, expected, atol=1e-9)
    assert found.max_error < 1e-6


def test_tables_of_too_many_cells_are_refused_before_they_are_counted():
    rooms = {name: [f"{name}{k % 60}" for k in range(300)] for name in "uvw"}
    one = {name: pd.DataFrame(rooms) for name in "abcd"}
    ask = partial(statistics, one, columns=[], seed=1, rules=Rules(site_terms=True))
    with refused("too-many-cells", mentions=("216,000", "100,000", "cross fewer")):
        ask(tables=[("u", "v", "w")])
    ask(tables=[("u",)])


@each("columns", [["age", "bp"], ["far"], []])
def test_one_sum_is_enough_however_far_from_zero(data, columns):
    """Where there are levels, another one asks first how many parties hold each."""
    tables = [] if columns else [("sex",)]
    found = statistics(data, columns=columns, tables=tables, driver="vectorised")
    assert len(found.released.sums) == (1 if columns else 2)
    assert {one.point for one in found.releases} == {()}


def test_a_mean_of_1e9_with_a_scatter_of_1_is_exact(frame, data):
    found = statistics(data, columns=["far"], driver="vectorised").moments
    values = [Fraction(one) for one in frame["far"]]
    mean = sum(values) / 500
    assert found.mean[0] == float(mean)
    assert found.variance[0] == float(sum((one - mean) ** 2 for one in values) / 499)


def test_a_constant_has_no_variance(data):
    same = {party: one.assign(bp=0.1) for party, one in data.items()}
    found = statistics(same, columns=["bp", "far"], driver="vectorised").moments
    assert found.variance[0] == 0.0
    assert found.mean[0] == 0.1


@given(
    st.lists(st.integers(0, 3), min_size=60, max_size=60),
    st.sampled_from(["uniform", "lattice", "none"]),
)
@settings(max_examples=20, deadline=None)
def test_who_has_which_row_does_not_show(frame, owners, law):
    """Dealt in another way, in another order: the released vector is the same."""
    pooled = frame[:60]
    owned = np.array([*owners, *range(4), *range(4), *range(4), *range(4), *range(4)])
    padded = pd.concat([pooled, frame[60:80]])
    wishes = {
        "histograms": {"age": [20, 40, 60], "bp": [100, 140]},
        "tables": [("sex", "smoker")],
        "law": law,
        "sigma": 100.0 if law == "lattice" else None,
        "driver": "vectorised",
        "rules": Rules.none(),
    }
    one = statistics({str(k): padded[k::4] for k in range(4)}, **wishes)
    other = statistics({str(k): padded[owned == k][::-1] for k in range(4)}, **wishes)
    assert one.released.sums[0].tolist() == other.released.sums[0].tolist()
    assert {*map(type, one.released.sums[0].tolist())} == {int}
    assert one.answer.tobytes() == other.answer.tobytes()
    first, second = one.to_dict(), other.to_dict()
    for key in ("table", "covariance", "correlation", "histograms", "tables"):
        assert first[key] == second[key]


def test_cents_are_cents():
    """Equal sums of decimals give equal bits, whoever has which."""
    column = {"kind": "number", "minimum": 0, "maximum": 100, "unit": 0.01}
    schema = Schema.from_table({"minimum_rows": 2, "columns": {"x": column}})
    one = {"a": [0.1, 0.2], "b": [0.3, 1.1], "c": [7.0, 2.5], "d": [0.07, 9.99]}
    other = {"a": [0.3, 0.2], "b": [0.1, 9.99], "c": [7.0, 2.5], "d": [0.07, 1.1]}
    both = [
        statistics(
            {party: {"x": values} for party, values in held.items()},
            schema=schema,
            rules=Rules.none(),
        )
        for held in (one, other)
    ]
    assert both[0].released.sums[0].tolist() == both[1].released.sums[0].tolist()
    assert both[0].moments.sum[0] == 21.26


def test_a_simulation_reads_off_what_was_not_agreed_on(frame, data):
    schema = Schema.from_table({"columns": {"bp": {"kind": "number"}}})
    found = statistics(data, schema=schema, driver="vectorised")
    assert found.moments.mean[0] == pytest.approx(frame["bp"].mean(), rel=1e-13)


def test_totals_that_need_too_many_bits_are_refused(data):
    bp = {"kind": "number", "minimum": 0, "maximum": 1000, "unit": "90 bits"}
    schema = Schema.from_table({"columns": {"bp": bp}})
    with refused("sum-too-large"):
        statistics(data, schema=schema)


def test_histograms_and_tables(frame, data):
    found = statistics(
        data,
        columns=["age"],
        histograms={"age": [20, 40, 60, 80], "bp": [100, 140]},
        tables=[("sex", "smoker"), ("sex",)],
        driver="vectorised",
    )
    inside, _ = np.histogram(frame["age"], [20, 40, 60, 80])
    assert found.histograms["age"].counts.tolist() == inside.tolist()
    assert found.histograms["age"].above == (frame["age"] > 80).sum()
    assert found.histograms["bp"].below == (frame["bp"] < 100).sum()
    crossed = pd.crosstab(frame["sex"], frame["smoker"]).to_numpy()
    assert found.tables["sex", "smoker"].tolist() == crossed.tolist()
    assert found.tables["sex",].sum() == 500
    text = found.summary()
    assert "20 to 40" in text
    assert "500 rows of 5 parties" in text


def test_counts_alone_need_no_numbers(data):
    found = statistics(data, columns=[], tables=[("sex",)], driver="vectorised")
    assert found.count == 500
    assert found.rows() == []
    with refused("no-columns"):
        _ = found.moments
    assert found.to_dict()["covariance"] is None


def test_missing_rows_are_counted_under_masks(frame, data):
    holes = {p: f.assign(bp=f["bp"].where(f["age"] > 30)) for p, f in data.items()}
    found = statistics(holes, columns=["bp"], driver="vectorised")
    assert found.dropped == (frame["age"] <= 30).sum()
    kept = frame.loc[frame["age"] > 30, "bp"]
    assert found.moments.mean[0] == pytest.approx(kept.mean(), rel=1e-13)


def test_polars_and_mappings_are_as_good(frame, data):
    mixed = dict(data)
    mixed["h0"] = pl.DataFrame({c: frame[c].to_numpy()[:100] for c in ("age", "bp")})
    mixed["h1"] = {c: frame[c].to_numpy()[100:200] for c in ("age", "bp")}
    schema = Schema.inferred(data, columns=["age", "bp"])
    found = statistics(mixed, schema=schema, driver="vectorised")
    np.testing.assert_allclose(found.moments.mean, frame[["age", "bp"]].mean())


def test_firms_compare_wages():
    data = datasets.wages()
    pooled = pd.concat(list(data.values()))
    found = statistics(
        data,
        minimum_rows=1,
        rules=Rules.none(release_fraction=0.5),  # a firm has one row
        topology=f"circulant:{len(data)}:1,8,29",
        tolerate=3,
        driver="vectorised",
    )
    np.testing.assert_allclose(found.moments.mean, pooled.mean(), rtol=1e-13)
    assert found.guarantee.status == "private"


def test_json_is_strict(data):
    found = statistics(
        data, histograms={"age": [0, 50]}, tables=[("sex",)], driver="vectorised"
    )
    plain = json.loads(as_strict_json(found.to_dict()))
    assert [row["name"] for row in plain["table"]] == ["age", "bp", "far"]
    assert plain["tables"][0]["levels"] == [["f", "m"]]
    assert plain["histograms"]["age"]["edges"] == [0.0, 50.0]


def test_a_small_cell_keeps_its_party_at_home(data):
    with refused("group-too-small", DisclosureError, mentions=("minimum_count", "60")):
        statistics(
            data,
            columns=[],
            tables=[("sex", "smoker")],
            rules=Rules.none(minimum_count=60),
        )


@each(
    ("wish", "why"),
    [
        ({"columns": ["sex"]}, "is a category"),
        ({"tables": [("age",)]}, "holds numbers"),
        ({"histograms": {"age": [3, 1]}}, "ascend"),
        ({"columns": ["agee"]}, "age"),
    ],
)
def test_wishes_that_the_schema_cannot_meet(data, wish, why):
    with pytest.raises(InvalidInputError, match=why):
        statistics(data, **wish)


def test_too_much_about_too_few_rows_is_refused(data):
    edges = {"age": list(range(20, 90))}
    with refused("releases-too-much"):
        statistics(data, histograms=edges, minimum_rows=5)
