"""Derived columns against independent values, and against what is agreed about them."""

from fractions import Fraction

import numpy as np
import pandas as pd
import patsy
import pytest
from hypothesis import given, settings, strategies as st
from scipy.interpolate import BSpline

import refusals
import veilsum as vs
from cases import each
from veilsum.reading import read_section
from veilsum.tables.derived import FORMS
from veilsum.tables.dictionaries import dictionary_toml, merge_dictionaries
from veilsum.tables.drafts import draft_dictionary
from veilsum.tables.formula import ModelFormula
from veilsum.tables.schema import Column, Schema, SchemaSection

CUTS = (30, 40, 50, 60, 70)
COLUMNS = (
    Column("y", "number", -100, 100, unit=0.01),
    Column("age", "integer", 18, 95, cuts=CUTS),
    Column("cost", "number", 1, 100_000, unit=0.01, cuts=(500, 2500.5)),
    Column("seen", "date", "2000-01-01", "2020-12-31", since="2000-01-01",
           cuts=("2010-01-01",)),
    Column("sex", "category", categories=("f", "m", "other")),
)  # fmt: skip
LINES = {
    "log_cost": {"of": "cost", "as": "log"},
    "log1p_cost": {"of": "cost", "as": "log1p"},
    "log10_cost": {"of": "cost", "as": "log10"},
    "root": {"of": "cost", "as": "sqrt"},
    "age_2": {"of": "age", "as": "power", "exponent": 2},
    "age_5": {"of": "age", "as": "power", "exponent": 5},
    "decades": {"of": "age", "as": "scale", "unit": 10},
    "cents": {"of": "cost", "as": "scale", "unit": "1/100"},
    "late": {"of": "seen", "as": "intervals"},
    "group": {"of": "age", "as": "intervals", "cuts": [40, 60]},
    "woman": {"of": "sex", "as": "level", "level": "f"},
    "smooth": {"of": "age", "as": "natural spline"},
    "bumps": {"of": "age", "as": "b-spline", "knots": [40, 60]},
}
SCHEMA = Schema(COLUMNS, minimum_rows=1, derived=LINES)


def rows(seed, n=60):
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "y": draw.normal(size=n).round(2),
            "age": draw.integers(18, 96, n),
            "cost": np.clip(draw.gamma(1.5, 2000, n), 1, 1e5).round(2),
            "seen": pd.Timestamp("2000-01-01")
            + pd.to_timedelta(draw.integers(0, 7600, n), unit="D"),
            "sex": draw.choice(["f", "m", "other"], n),
        }
    ).assign(seen=lambda frame: frame["seen"].dt.strftime("%Y-%m-%d"))


def numbers(name, frame):
    """Return the numbers of a derived column, one row per row."""
    formula = ModelFormula.of(f"y ~ {name} - 1", SCHEMA)
    return formula.design(SCHEMA.check("a", frame))[0]


def truncated(x, knots):
    """Return natural cubic splines as the literature has them, from cubes."""

    def d(k):
        high = np.maximum(x - knots[-1], 0) ** 3
        return (np.maximum(x - knots[k], 0) ** 3 - high) / (knots[-1] - knots[k])

    bends = [d(k) - d(len(knots) - 2) for k in range(len(knots) - 2)]
    return np.column_stack([np.ones(len(x)), x, *bends])


def spans_the_same(one, other):
    rank = np.linalg.matrix_rank
    return rank(one) == rank(other) == rank(np.hstack([one, other]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("log_cost", lambda one: np.log(one["cost"])),
        ("log1p_cost", lambda one: np.log1p(one["cost"])),
        ("log10_cost", lambda one: np.log10(one["cost"])),
        ("root", lambda one: np.sqrt(one["cost"])),
        ("age_2", lambda one: one["age"] ** 2.0),
        ("age_5", lambda one: one["age"] ** 5.0),
        ("decades", lambda one: one["age"] / 10),
        ("cents", lambda one: one["cost"] * 100),
        ("late", lambda one: (one["seen"] >= "2010-01-01") * 1.0),
        ("woman", lambda one: (one["sex"] == "f") * 1.0),
    ],
)
def test_a_function_is_that_of_numpy(name, expected):
    frame = rows(1)
    np.testing.assert_allclose(
        numbers(name, frame)[:, 0], expected(frame).to_numpy(float), rtol=4e-15
    )


def test_intervals_begin_at_their_cut_points():
    frame = rows(2).assign(age=[*range(18, 78)])
    expected = pd.cut(frame["age"], [0, 40, 60, 200], right=False, labels=False)
    made = numbers("group", frame)
    np.testing.assert_array_equal(made, np.eye(3)[expected][:, 1:])
    formula = ModelFormula.of("y ~ group", SCHEMA)
    assert formula.columns[1:] == ("group[40 to 60]", "group[60 or more]")


def test_a_natural_spline_spans_that_of_the_literature():
    frame = rows(3).assign(age=[*range(20, 80)])
    made = np.column_stack([np.ones(60), numbers("smooth", frame)])
    x = frame["age"].to_numpy(float)
    assert made.shape == (60, len(CUTS))
    assert spans_the_same(made, truncated(x, np.array(CUTS, dtype=float)))
    # As R's ns(age, knots = c(40, 50, 60), Boundary.knots = c(30, 70)).
    inner, ends = [40, 50, 60], {"lower_bound": 30, "upper_bound": 70}
    inside = frame[frame["age"].between(30, 70)]
    known = patsy.dmatrix(
        "cr(age, knots=inner, lower_bound=30, upper_bound=70) - 1",
        {"age": inside["age"], "inner": inner, **ends},
    )
    assert spans_the_same(made[inside.index], np.asarray(known))
    # Linear beyond the last knot, and 0 before the first.
    bends = made[:, 2:]
    np.testing.assert_allclose(np.diff(bends[x >= 70], n=2, axis=0), 0, atol=1e-9)
    assert not bends[x <= 30].any()


def test_b_splines_are_those_of_cox_and_de_boor():
    frame = rows(4).assign(age=[18, 95, *range(30, 88)])
    x = frame["age"].to_numpy(float)
    knots = [18.0] * 4 + [40.0, 60.0] + [95.0] * 4
    expected = BSpline.design_matrix(x, knots, 3).toarray()[:, 1:]
    made = numbers("bumps", frame)
    np.testing.assert_allclose(made, expected, rtol=0, atol=1e-14)
    # As R's bs(age, knots = c(40, 60), Boundary.knots = c(18, 95)), of which patsy is.
    known = patsy.dmatrix(
        "bs(x, knots=(40, 60), lower_bound=18, upper_bound=95) - 1", {"x": x}
    )
    np.testing.assert_allclose(made, np.asarray(known), rtol=0, atol=1e-14)


def test_a_bend_is_that_of_exact_fractions():
    column = SCHEMA.derived_by_name["smooth"]
    made = numbers("smooth", rows(5).assign(age=[*range(18, 78)]))
    for x, row in zip(range(18, 78), made, strict=True):
        for place in range(column.width):
            exact = column.smooth(place, Fraction(x))
            off = column.slack(place, Fraction(18), Fraction(95))
            assert abs(Fraction(row[place]) - exact) <= Fraction(off)


@given(st.integers(0, 2**32), st.sampled_from(sorted(LINES)), st.integers(12, 70))
@settings(max_examples=150, deadline=None)
def test_ranges_contain_all_numbers_and_units_divide_them(seed, name, bits):
    frame = rows(seed, 12)
    frame.loc[0, ["age", "cost", "seen"]] = [18, 1.0, "2000-01-01"]
    frame.loc[1, ["age", "cost", "seen"]] = [95, 1e5, "2020-12-31"]
    formula = ModelFormula.of(f"y ~ {name} - 1", SCHEMA)
    design, _ = formula.design(SCHEMA.check("a", frame), bits)
    for column, measure in zip(design.T, formula.measures(bits), strict=True):
        counts = measure.counts(column)
        assert measure.least <= counts.min()
        assert counts.max() <= measure.most
        exact = [Fraction(one) / measure.unit for one in column.tolist()]
        off = max(abs(a - int(b)) for a, b in zip(exact, counts, strict=True))
        assert off <= Fraction(1, 2) + Fraction(1, 2**20)


@given(st.integers(0, 2**32), st.lists(st.integers(0, 3), min_size=60, max_size=60))
@settings(max_examples=25, deadline=None)
def test_splitting_rows_changes_no_number(seed, parties):
    text = "log_cost ~ smooth * sex + bumps + group:decades + age_2 + log1p_cost"
    formula = ModelFormula.of(text, SCHEMA)
    frame = rows(seed)
    whole, response = formula.design(SCHEMA.check("all", frame))
    for party in {*parties}:
        own = np.array(parties) == party
        design, part = formula.design(SCHEMA.check("a", frame[own]))
        np.testing.assert_array_equal(design, whole[own])
        np.testing.assert_array_equal(part, response[own])


def test_powers_are_exact_where_float64_is_not():
    column = Column("x", "number", -9, 9, unit="1/1000")
    line = {"p": {"of": "x", "as": "power", "exponent": 10}}
    schema = Schema((Column("y", "integer", 0, 9), column), "drop", 1, derived=line)
    frame = pd.DataFrame({"y": [1, 2], "x": [8.999, -0.123]})
    design, _ = ModelFormula.of("y ~ p", schema).design(schema.check("a", frame), 150)
    assert design[:, 1].tolist() == [
        Fraction(8999, 1000) ** 10,
        Fraction(-123, 1000) ** 10,
    ]


def test_a_formula_needs_the_plain_columns():
    formula = ModelFormula.of("log_cost ~ smooth + sex", SCHEMA)
    assert formula.variables == ("cost", "age", "sex")
    assert formula.derived == ("log_cost", "smooth")
    assert formula.columns[1:6] == (
        *(f"smooth[{k}]" for k in range(1, 5)),
        "sex[T.m]",
    )
    assert formula.sources[1] == ("age",)


@each(
    "line",
    [
        ({"of": "cost", "as": "cosine"}, "unknown-form"),
        ({"of": "cost"}, "unknown-form"),
        ({"of": "cots", "as": "log"}, "derived-of-nothing"),
        ({"of": "age_2", "as": "log"}, "derived-of-nothing"),
        ({"of": "cost", "as": "log", "base": 2}, "unknown-key"),
        ({"of": "y", "as": "log"}, "term-range-undefined"),
        ({"of": "y", "as": "sqrt"}, "term-range-undefined"),
        ({"of": "sex", "as": "log"}, "derived-of-wrong-kind"),
        ({"of": "age", "as": "level", "level": "f"}, "derived-of-wrong-kind"),
        ({"of": "sex", "as": "level", "level": "x"}, "unknown-level"),
        ({"of": "age", "as": "power"}, "exponent-out-of-range"),
        ({"of": "age", "as": "power", "exponent": 11}, "exponent-out-of-range"),
        ({"of": "age", "as": "power", "exponent": True}, "exponent-out-of-range"),
        ({"of": "age", "as": "scale"}, "derived-without-unit"),
        ({"of": "age", "as": "scale", "unit": 0}, "malformed-unit"),
        ({"of": "age", "as": "intervals", "cuts": [41]}, "knot-no-cut-point"),
        ({"of": "y", "as": "intervals"}, "knot-no-cut-point"),
        ({"of": "age", "as": "intervals", "cuts": "40"}, "not-a-list"),
        ({"of": "age", "as": "natural spline", "knots": [30, 60]}, "knots-not-rising"),
        (
            {"of": "age", "as": "natural spline", "knots": [60, 40, 50]},
            "knots-not-rising",
        ),
        ("log(cost)", "column-not-table"),
    ],
)
def test_a_line_that_cannot_be_is_refused(line):
    written, code = line
    with refusals.refused(code):
        Schema(COLUMNS, derived={**LINES, "new": written})


def test_names_of_derived_columns_are_those_of_nothing_else():
    with refusals.refused("duplicate-column"):
        Schema(COLUMNS, derived={"age": {"of": "cost", "as": "log"}})
    with refusals.refused("not-plain-text"):
        Schema(COLUMNS, derived={"a[1]": {"of": "cost", "as": "log"}})
    with refusals.refused("derived-column-misplaced", mentions=["log_cost"]):
        SCHEMA.column("log_cost")
    with refusals.refused("derived-column-misplaced"):
        ModelFormula.of("y ~ C(group)", SCHEMA)
    with refusals.refused("not-one-response"):
        ModelFormula.of("smooth ~ y", SCHEMA)
    with refusals.refused("design-too-large"):
        many = ":".join(f"s{k}" for k in range(9))
        lines = {f"s{k}": {"of": "age", "as": "b-spline"} for k in range(9)}
        ModelFormula.of(f"y ~ {many}", Schema(COLUMNS, derived=lines))


def test_a_dictionary_with_derived_columns_is_read_as_it_was_written():
    text = dictionary_toml(SCHEMA)
    tables = vs.Schema.from_table(read_toml(text))
    assert tables == SCHEMA
    assert tables.digest == SCHEMA.digest
    other = {**LINES, "age_2": {"of": "age", "as": "power", "exponent": 3}}
    assert Schema(COLUMNS, minimum_rows=1, derived=other).digest != SCHEMA.digest
    assert Schema(COLUMNS, minimum_rows=1).digest != SCHEMA.digest
    assert read_section(SCHEMA.to_table(), SchemaSection, "[schema]").schema == SCHEMA


def read_toml(text):
    import tomllib

    return tomllib.loads(text)


def test_merging_keeps_derived_columns_that_do_not_contradict():
    some = Schema(COLUMNS, derived={k: LINES[k] for k in ("log_cost", "smooth")})
    other = Schema(
        COLUMNS,
        derived={
            "log_cost": {"of": "cost", "as": "log10"},
            "group": LINES["group"],
        },
    )
    for parts in ({"a": some, "b": other}, {"b": other, "a": some}):
        merged = merge_dictionaries(parts)
        assert [*merged.schema.derived_by_name] == ["group", "smooth"]
        assert [*merged.conflicts] == ["log_cost"]
        line = 'log_cost = { of = "cost", as = "log" }'
        assert merged.conflicts["log_cost"].line == line
        assert vs.Schema.from_table(read_toml(merged.toml)) == merged.schema
    # A range that widens to 0 has no logarithm any more.
    wide = Schema((Column("cost", "number", 0, 9e5, unit=0.01, cuts=(500,)),))
    merged = merge_dictionaries({"a": some, "b": wide})
    assert "log_cost" in merged.conflicts
    assert not merged.schema.derived


def test_a_draft_leaves_derived_columns_to_people():
    assert " as = " not in draft_dictionary(rows(6)).toml


def test_a_simulation_takes_derived_columns_by_one_keyword():
    tables = {f"h{k}": rows(k)[["y", "age", "cost", "sex"]] for k in range(4)}
    derived = {
        "log_cost": {"of": "cost", "as": "log"},
        "smooth": {"of": "age", "as": "natural spline", "knots": [30, 50, 70]},
    }
    options = {"driver": "vectorised", "seed": 1, "derived": derived}
    fit = vs.fit("y ~ log_cost + smooth + sex", tables, **options)
    whole = pd.concat([*tables.values()])
    x = np.column_stack(
        [
            np.log(whole["cost"]),
            truncated(whole["age"].to_numpy(float), np.array([30.0, 50.0, 70.0]))[
                :, :2
            ],
            truncated(whole["age"].to_numpy(float), np.array([30.0, 50.0, 70.0]))[:, 2],
            pd.get_dummies(whole["sex"]).to_numpy(float)[:, 1:],
        ]
    )
    expected, *_ = np.linalg.lstsq(x, whole["y"], rcond=None)
    names = [*fit.job.formula.columns]
    place = names.index("log_cost")
    assert fit.fit.coefficients[place] == pytest.approx(expected[0], rel=1e-6)
    # A schema may be given as well; and names stay apart.
    agreed = Schema(COLUMNS[:3] + COLUMNS[4:], minimum_rows=20)
    again = vs.fit("y ~ log_cost + sex", tables, schema=agreed, **options)
    assert again.job.schema.derived_by_name.keys() == {"log_cost"}
    with refusals.refused("duplicate-column"):
        other = agreed.with_derived({"log_cost": {"of": "cost", "as": "sqrt"}})
        vs.fit("y ~ log_cost", tables, schema=other, **options)


@each("given", ["log_cost", ["log_cost"], {1: {"of": "cost", "as": "log"}}, 5])
def test_what_is_no_table_of_lines_is_refused(given):
    with refusals.refused("derived-not-table"):
        Schema(COLUMNS, derived=given)
    tables = {f"h{k}": rows(k)[["y", "cost"]] for k in range(4)}
    with refusals.refused("derived-not-table"):
        vs.fit("y ~ log_cost", tables, derived=given, driver="vectorised")


def test_derived_columns_are_for_tables():
    with refusals.refused("derived-without-table"):
        vs.sum({"a": [1], "b": [2], "c": [3], "d": [4]}, derived=LINES)


def test_every_form_is_tried_here():
    assert {line["as"] for line in LINES.values()} == {*FORMS}
