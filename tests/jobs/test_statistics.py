"""Pooled statistics are those of numpy and pandas on all rows together."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from veilsum.errors import InvalidInputError
from veilsum.files import datasets
from veilsum.files.output import as_json
from veilsum.jobs.statistics import statistics
from veilsum.tables.columns import SchemaError
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


def test_a_second_round_is_asked_for_only_where_digits_were_lost(data):
    plain = statistics(data, columns=["age", "bp"], driver="vectorised")
    assert len(plain.released.sums) == 1
    far = statistics(data, columns=["far"], driver="vectorised")
    assert len(far.released.sums) == 2
    assert far.releases[1].point == tuple(
        far.recipe.moments(far.released.sums[:1]).mean
    )


@pytest.mark.parametrize("place", [0, -2, -1])
def test_a_second_sum_about_other_rows_is_refused(data, place):
    """As of a party whose table, or whose program, changed between two sums."""
    far = statistics(data, columns=["far"], driver="vectorised")
    first, second = far.released.sums
    np.testing.assert_array_equal(far.recipe.answer((first, second)), second)
    other = second.copy()
    other[place] -= 1
    with pytest.raises(InvalidInputError, match="other rows in the second sum"):
        far.recipe.answer((first, other))


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
    assert len(found.released.sums) == 1
    assert found.rows() == []
    with pytest.raises(InvalidInputError, match="no columns"):
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
    plain = json.loads(as_json(found.to_dict()))
    assert [row["name"] for row in plain["table"]] == ["age", "bp", "far"]
    assert plain["tables"][0]["levels"] == [["f", "m"]]
    assert plain["histograms"]["age"]["edges"] == [0.0, 50.0]


def test_a_small_cell_keeps_its_party_at_home(data):
    with pytest.raises(SchemaError, match=r"minimum_cell = 60.*Not sent"):
        statistics(data, columns=[], tables=[("sex", "smoker")], minimum_cell=60)


@pytest.mark.parametrize(
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
    with pytest.raises(InvalidInputError, match="numbers would be released"):
        statistics(data, histograms=edges)
