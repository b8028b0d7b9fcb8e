"""A question that points at a few rows, or at one party, is refused at home."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import refusals
import veilsum as vs
from veilsum.models.leverage import LeverageColumns
from veilsum.models.rows import Rows
from veilsum.tables.rules import (
    RANGES,
    DisclosureError,
    Rules,
    TableRulesAtHome,
    _fewest_alike_table_rows,
)

N_ROWS = 60
DERIVED = {
    "log_bmi": {"of": "bmi", "as": "log"},
    "log_salary": {"of": "salary", "as": "log"},
    "decades": {"of": "age", "as": "scale", "unit": 10},
    "age_2": {"of": "age", "as": "power", "exponent": 2},
    "age_spline": {"of": "age", "as": "natural spline", "knots": [30, 50, 70]},
    "bmi_10": {"of": "bmi", "as": "power", "exponent": 10},
    "log_beds": {"of": "beds", "as": "log"},
    "old": {"of": "age", "as": "intervals", "cuts": [90]},
    "heavy": {"of": "bmi", "as": "intervals", "cuts": [37.5]},
    "knot": {"of": "bmi", "as": "natural spline", "knots": [37.0, 37.1, 37.5]},
    "narrow": {"of": "bmi", "as": "b-spline", "knots": [37.2, 37.4, 37.6]},
}


def table(seed, n=N_ROWS, beds=100):
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": draw.integers(20, 90, n),
            "bmi": draw.normal(27.0, 4.0, n).round(1).clip(15, 37),
            "hiv": (draw.random(n) < 0.3).astype(int),
            "salary": draw.normal(3000.0, 500.0, n).round(),
            "sex": draw.choice(["f", "m"], n),
            "region": draw.choice(["a", "b", "c"], n),
            "rate": draw.uniform(0.5, 2.0, n).round(2),
            "shift": draw.normal(0.0, 0.2, n).round(2),
            "beds": beds,
            "site": f"s{beds}",
        }
    )


@pytest.fixture
def tables():
    made = {f"h{k}": table(k, beds=100 + 10 * k) for k in range(5)}
    # Whom the question is aimed at: whoever asks knows age and bmi.
    made["h1"].loc[7, ["age", "bmi"]] = [90, 37.7]
    return made


def refused(formula, tables, **how):
    """Return which rule refuses, and check that others learn no more than that."""
    usual = {"minimum_rows": 50, "driver": "vectorised", "seed": 1}
    with pytest.raises(DisclosureError) as info:
        vs.fit(formula, tables, **{**usual, **how})
    assert info.value.plain == f"refused by {info.value.rule}"
    assert f"[policy] {info.value.rule} = " in str(info.value)
    assert f"in Python rules=vs.Rules({info.value.rule}=" in str(info.value)
    return info.value.rule


ORDINARY = [
    ("salary ~ age + bmi + hiv", {}),
    ("salary ~ C(sex) * age + C(region) + log_bmi", {}),
    ("log_salary ~ decades + age_2 + bmi + sex", {}),
    ("salary ~ age_spline + hiv", {}),
    ("hiv ~ age + bmi + C(region)", {"family": "logistic"}),
    ("salary ~ age + bmi", {"weights": "rate", "offset": "shift"}),
]


@pytest.mark.parametrize(("formula", "how"), ORDINARY)
def test_ordinary_questions_run(formula, how, tables):
    how = {**how, "minimum_rows": 50, "derived": DERIVED}
    found = vs.fit(formula, tables, driver="vectorised", seed=1, **how)
    assert found.fit.n_rows == 5 * N_ROWS
    assert not any("is off" in line for line in found.guarantee.limits)


# Cut points that lie around one person, as parties would have to agree on them.
BUMPS = [
    "salary ~ old",
    "salary ~ heavy",
    "heavy ~ hiv",
    "salary ~ hiv + knot",
    "salary ~ narrow",
    "salary ~ hiv:knot",
    "salary ~ C(sex):narrow",
    "salary ~ age + old",
    "salary ~ heavy:old",
]


@pytest.mark.parametrize("formula", BUMPS)
def test_a_bump_around_one_person_is_refused(formula, tables):
    assert refused(formula, tables, derived=DERIVED) in {
        "site_terms",
        "effective_count",
        "maximum_influence",
        "minimum_count",
    }
    # Also where parties without such a person do not notice, and sites may be told.
    rules = Rules(site_terms=True)
    options = {"minimum_rows": 50, "driver": "vectorised", "derived": DERIVED}
    with pytest.raises(DisclosureError, match=r"^h1: ") as info:
        vs.fit(formula, tables, rules=rules, **options)
    assert info.value.rule != "site_terms"


def test_without_the_rules_a_bump_tells_what_one_person_earns(tables):
    """What the rules are for: the attack works where they are off."""
    found = vs.fit(
        "salary ~ heavy - 1",
        tables,
        rules=Rules.none(minimum_rows=50),
        driver="vectorised",
        derived=DERIVED,
    )
    person = tables["h1"].loc[7, "salary"]
    assert found.fit.coefficients[0] == pytest.approx(person, rel=1e-6)
    said = " ".join(found.guarantee.limits)
    switched = "the rule effective_count is switched off (effective_count = 0.0)"
    assert f"{switched}: a column may point at a single row" in said
    assert "switched off (site_terms = true)" in said


@pytest.mark.parametrize(
    ("formula", "column", "rows", "value"),
    [
        ("salary ~ C(region)", "region", 2, "d"),
        ("salary ~ age + hiv", "hiv", 2, None),
        ("salary ~ age + C(sex):C(region)", "region", 1, "d"),
        ("hiv ~ age", "hiv", 1, None),
    ],
)
def test_a_level_with_few_rows_is_refused(formula, column, rows, value, tables):
    one = tables["h2"]
    if value is None:
        one[column] = (np.arange(N_ROWS) < rows).astype(int)
    else:
        one.loc[: rows - 1, column] = value
        # As many parties as presence asks for have it too.
        for other in ("h3", "h4"):
            tables[other].loc[:19, column] = value
    assert refused(formula, tables) == "minimum_count"
    # Three are enough by default, and not where ten are asked for.
    one[column] = (
        (np.arange(N_ROWS) < 6).astype(int)
        if value is None
        else np.where(np.arange(N_ROWS) < 12, value, tables["h4"][column])
    )
    one["sex"] = np.where(np.arange(N_ROWS) % 2, "f", "m")
    for other in ("h3", "h4"):
        tables[other]["sex"] = one["sex"]
    vs.fit(formula, tables, minimum_rows=50, driver="vectorised")
    if value is None:
        assert refused(formula, tables, rules=Rules(minimum_count=10))


def test_cells_of_an_interaction_have_rows_enough(tables):
    """Each of two flags has many rows, and two rows have one and not the other."""
    flag = np.arange(N_ROWS) < 30
    for one in tables.values():
        one["hiv"] = flag.astype(int)
        one["late"] = (np.arange(N_ROWS) % 3 == 0).astype(int)
    tables["h2"]["late"] = (flag & (np.arange(N_ROWS) > 1)).astype(int)
    assert refused("salary ~ hiv * late", tables) == "minimum_count"
    # Without the interaction it is their difference that points at two rows.
    assert refused("salary ~ hiv + late", tables) == "maximum_influence"
    vs.fit("salary ~ hiv", tables, minimum_rows=50, driver="vectorised")


@pytest.mark.parametrize(
    "formula",
    [
        "salary ~ age + C(site)",
        "salary ~ age + beds",
        "salary ~ age:beds + log_beds",
    ],
)
def test_what_tells_a_party_from_others_is_refused(formula, tables):
    assert refused(formula, tables, derived=DERIVED) == "site_terms"
    if "log" not in formula:
        open_one = Rules(site_terms=True)
        found = vs.fit(
            formula, tables, rules=open_one, minimum_rows=50, driver="vectorised"
        )
        assert any(
            "switched off (site_terms = true)" in line
            for line in found.guarantee.limits
        )


def test_two_values_by_agreement_may_be_one_at_a_party(tables):
    """A hospital without a case is no site term: how many have one is asked first."""
    tables["h2"]["hiv"] = 0
    tables["h3"]["sex"] = "f"
    vs.fit("salary ~ age + hiv + sex", tables, minimum_rows=50, driver="vectorised")
    tables["h2"]["bmi"] = 27.0
    assert refused("salary ~ bmi", tables) == "site_terms"


def test_weights_and_offsets_are_columns_too(tables):
    tables["h1"]["rate"] = np.where(np.arange(N_ROWS) == 7, 1.0, 1e-6)
    assert refused("salary ~ age", tables, weights="rate") in {
        "effective_count",
        "minimum_count",
    }
    tables["h1"]["rate"] = np.where(np.arange(N_ROWS) == 7, 5e4, 1.0 + tables["h1"].age)
    assert refused("salary ~ age", tables, weights="rate") == "effective_count"
    tables["h1"]["shift"] = np.where(np.arange(N_ROWS) == 7, 9.0, tables["h1"]["shift"])
    rule = refused("hiv ~ age", tables, offset="shift", family="poisson")
    assert rule == "effective_count"


def test_statistics_keep_the_same_rules(tables):
    def asked(**wishes):
        usual = {"columns": [], "driver": "vectorised", "minimum_rows": 50}
        with pytest.raises(DisclosureError) as info:
            vs.statistics(tables, **{**usual, **wishes})
        assert info.value.plain == f"refused by {info.value.rule}"
        return info.value.rule

    usual = {"columns": ["age"], "tables": [("sex", "region")], "minimum_rows": 50}
    vs.statistics(tables, driver="vectorised", **usual)
    assert asked(tables=[("site", "sex")]) == "site_terms"
    assert asked(columns=["beds"]) == "site_terms"
    for one in tables.values():
        one["region"] = np.where(np.arange(N_ROWS) < 2, "a", "b")
    assert asked(tables=[("region",)]) == "minimum_count"
    # Where no first sum counts parties, each refuses its own small cells.
    alone = Rules(site_terms=True)
    assert asked(tables=[("region",)], rules=alone) == "minimum_count"
    wide = {"histograms": {"bmi": [15, 27, 37.5, 40]}, "rules": alone}
    assert asked(**wide) == "minimum_count"
    tables["h4"]["salary"] = np.where(
        np.arange(N_ROWS) < 2, 1e7, tables["h4"]["salary"]
    )
    assert asked(columns=["salary"]) == "effective_count"


def test_few_rows_do_not_make_up_a_sum():
    home = TableRulesAtHome("a", Rules(effective_count=3.0))
    home.value_sum("x", np.array([45.0, -44.0, 15.0, 16.0]))
    with refusals.refused("group-too-small", DisclosureError, mentions=("2.6",)):
        home.value_sum("x", np.array([46.0, -45.0, 10.0, 5.0]))
    home.value_sum("x", np.array([5.0, 5.0, 5.0]))
    home.value_sum("x", np.zeros(3))
    with refusals.refused("group-too-small", DisclosureError, mentions=("2.0",)):
        home.value_sum("x", np.array([5.0, 5.0]))
    # The p% rule follows: what is left is a tenth of the largest, at least.
    draw = np.random.default_rng(0)
    passed = 0
    for values in draw.lognormal(0.0, 2.0, (300, 8)):
        try:
            home.value_sum("x", values)
        except DisclosureError:
            continue
        *rest, second, first = sorted(values)
        assert sum(rest) >= 0.1 * first
        assert first + second <= 0.82 * values.sum()
        passed += 1
    assert passed > 20


def test_public_numbers_are_refused_before_any_table(tables):
    """More columns than honest rows carry: nobody's secret."""
    rules = Rules(maximum_columns=0.02)
    assert refused("salary ~ age + bmi + hiv + sex", tables, rules=rules) == (
        "maximum_columns"
    )
    # They come first, whatever is wrong with the tables.
    tables["h0"]["sex"] = ["f"] + ["m"] * (N_ROWS - 1)
    assert refused("salary ~ age + bmi + hiv + sex", tables, rules=rules) == (
        "maximum_columns"
    )


def test_nothing_of_a_table_is_logged(tables, caplog):
    tables["h2"]["hiv"] = (np.arange(N_ROWS) < 2).astype(int)
    with caplog.at_level(logging.DEBUG), pytest.raises(DisclosureError) as info:
        vs.fit("salary ~ hiv", tables, minimum_rows=50, driver="loopback")
    assert "'hiv' is 1 in 2 rows here" in str(info.value)
    assert "hiv" not in info.value.plain
    assert "hiv" not in caplog.text


def test_effective_counts_are_those_of_deviations_from_the_median():
    """Against the definition, on both sides of the limit, long columns included."""
    draw = np.random.default_rng(5)
    for n in (20, 400, 9000):
        for scale in (1.0, 2.0, 4.0, 8.0):
            values = draw.standard_t(1.5, n) ** 3 * scale + 7.0
            off = np.abs(values - np.median(values))
            count = off.sum() ** 2 / (off**2).sum()
            TableRulesAtHome("a", Rules(effective_count=count * 0.999)).column(
                "x", values
            )
            with refusals.refused("group-too-small", DisclosureError):
                TableRulesAtHome("a", Rules(effective_count=count * 1.001)).column(
                    "x", values
                )


@pytest.mark.parametrize("weighted", [False, True])
def test_leverages_are_those_of_the_hat_matrix(weighted):
    draw = np.random.default_rng(3)
    for n, p in ((30, 4), (90, 12), (9000, 5)):
        scales = 10.0 ** draw.uniform(-3, 3, p - 1)
        x = np.column_stack([np.ones(n), draw.normal(size=(n, p - 1)) * scales + 1e4])
        w = draw.uniform(0.1, 3.0, n) if weighted else np.ones(n)
        root = np.sqrt(w)[:, None]
        u, _, _ = np.linalg.svd(np.hstack([root, (x[:, 1:] - 1e4) * root]), False)
        expected = (u**2).sum(axis=1)
        rows = Rows.of(x, x[:, 1], weights=w if weighted else None)
        one, _ = LeverageColumns(rows, 0).concentration()
        assert one.rows == (int(expected.argmax()),)
        assert one.largest == pytest.approx(expected.max(), abs=1e-8)
        # A column that depends on others, and one of zeros, change nothing.
        more = np.column_stack([x, 2.0 * x[:, 1] - 3.0 * x[:, 2] + 1.0, np.zeros(n)])
        again = LeverageColumns(Rows.of(more, x[:, 1], weights=rows.weights), 0)
        assert again.leverage().largest == pytest.approx(expected.max(), abs=1e-6)


def test_a_wide_design_is_looked_at_by_a_few_columns_at_a_time():
    """A party with 21 rows and 12 columns may take part; one with a tent may not."""
    draw = np.random.default_rng(8)
    x = np.column_stack([np.ones(21), draw.normal(size=(21, 11))])
    plain, _ = LeverageColumns(Rows.of(x, x[:, 1]), 0).concentration()
    assert plain.largest < 0.95
    assert LeverageColumns(Rows.of(x, x[:, 1]), 0).leverage().largest > plain.largest
    age = np.sort(draw.uniform(20.0, 80.0, 21))
    near = [age[9] + step * (age[10] - age[9]) for step in (0.0, 1.0)]
    knots = [age[8] + 0.99 * (age[9] - age[8]), *near]
    x[:, 5:8] = np.abs(age[:, None] - np.array(knots))
    aimed, _ = LeverageColumns(Rows.of(x, x[:, 1]), 0).concentration()
    assert aimed.largest > 0.98


def test_many_columns_of_one_variable_are_looked_at_together():
    draw = np.random.default_rng(8)
    frames = {
        f"h{k}": {
            "x": draw.uniform(1.0, 2.0, 20).round(3),
            "y": draw.normal(size=20).round(3),
            **{f"z{j}": draw.normal(size=20).round(3) for j in range(4)},
        }
        for k in range(6)
    }
    others = " + ".join(f"z{j}" for j in range(4))
    derived = {f"x{k}": {"of": "x", "as": "power", "exponent": k} for k in range(2, 11)}
    options = {"minimum_rows": 20, "driver": "vectorised", "derived": derived}
    vs.fit(f"y ~ x + x2 + {others}", frames, **options)
    rule = refused(f"y ~ x + {' + '.join(derived)} + {others}", frames, **options)
    assert rule == "maximum_influence"


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_columns=st.integers(1, 6),
    blur=st.sampled_from([0.0, 1e-6, 1e-3, 0.005]),
    weighted=st.booleans(),
    n_rows=st.sampled_from([24, 60, 5000]),
)
def test_no_combination_of_columns_is_the_indicator_of_a_row(
    seed, n_columns, blur, weighted, n_rows
):
    """Whatever columns it is spread over: where one is, nearly, they are refused."""
    draw = np.random.default_rng(seed)
    weights = draw.uniform(0.5, 2.0, n_rows) if weighted else None
    base = draw.normal(size=(n_rows, n_columns))
    bump = blur * draw.normal(size=n_rows) / np.sqrt(n_rows)
    bump[int(draw.integers(n_rows))] += 1.0

    def look(columns):
        mixed = columns @ draw.normal(size=(columns.shape[1],) * 2)
        mixed = mixed * 10.0 ** draw.uniform(-3, 3, mixed.shape[1])
        mixed = np.column_stack([np.ones(n_rows), mixed + draw.normal() * 100])
        names = [f"x{k}" for k in range(mixed.shape[1])]
        rows = Rows.of(mixed, base[:, 0], weights=weights)
        TableRulesAtHome("a", Rules()).design(rows, names, intercept=0)

    if n_rows >= 60:
        look(base)
    with pytest.raises(DisclosureError):
        look(np.column_stack([base, bump]))


@pytest.mark.parametrize("weighted", [False, True])
def test_one_column_alone_keeps_further_from_one_row(weighted):
    """What a sharp kernel has beside few others: less than a combination may have."""
    values = np.r_[0.0, np.linspace(1.0, 2.0, 39)]
    weights = np.linspace(0.5, 2.0, 40) if weighted else np.ones(40)
    # Also where no other rule looks at a column by itself.
    bare = Rules(effective_count=0.0, minimum_count=0, site_terms=True)
    homes = (
        TableRulesAtHome("a", Rules(effective_count=0.0)),
        TableRulesAtHome("a", bare),
    )
    some = set()
    for away in np.linspace(2.0, 7.0, 51):
        design = np.column_stack([np.ones(40), values - away * (values == 0.0)])
        left, _ = np.linalg.qr(design * np.sqrt(weights)[:, None])
        expected = (left**2).sum(axis=1).max()
        assert expected < 0.98
        some.add(fine := expected < 0.9 * 0.98)
        rows = Rows.of(design, values, weights=weights if weighted else None)
        for home in homes:
            if fine:
                home.design(rows, ["1", "x"], intercept=0)
                continue
            with refusals.refused("group-too-small", DisclosureError, mentions=("x",)):
                home.design(rows, ["1", "x"], intercept=0)
    assert some == {True, False}


@pytest.mark.parametrize(
    ("n_ones", "minimum_count"), [(30, 30), (30, 31), (2, 2), (1, 2), (1, 1)]
)
def test_a_column_of_two_values_has_enough_rows_with_both(n_ones, minimum_count):
    """However widely it is spread, and where no other rule looks at a column."""
    column = np.r_[np.ones(n_ones), np.zeros(200 - n_ones)]
    rows = Rows.of(np.column_stack([np.ones(200), column]), column)
    none = {"effective_count": 0.0, "maximum_influence": 1.0, "site_terms": True}
    home = TableRulesAtHome("a", Rules(minimum_count=minimum_count, **none))
    if n_ones >= minimum_count:
        home.design(rows, ["1", "x"], intercept=0)
        return
    with refusals.refused(
        "group-too-small", DisclosureError, mentions=("x", "1", n_ones)
    ):
        home.design(rows, ["1", "x"], intercept=0)


def test_a_constant_column_is_refused_unless_it_has_two_values_by_agreement():
    rows = Rows.of(np.column_stack([np.ones(60), np.full(60, 7.0)]), np.arange(60.0))
    home = TableRulesAtHome("a", Rules())
    home.design(rows, ["1", "x"], intercept=0)  # of a category, which is looked at
    home.design(rows, ["1", "x"], intercept=0, two_valued=lambda k: k == 1)
    with refusals.refused("group-too-small", DisclosureError, mentions=("x",)):
        home.design(rows, ["1", "x"], intercept=0, two_valued=lambda k: k == 0)


@pytest.mark.parametrize("middle", [0.0, 1000.0])
def test_far_from_0_a_column_stands_out_in_the_same_rows(middle):
    """Squares of a column count about its mean, every row of it included."""
    column = middle + np.r_[np.linspace(-0.01, 0.01, 59), 1.0]
    rows = Rows.of(np.column_stack([np.ones(60), column]), column)
    home = TableRulesAtHome(
        "a", Rules(minimum_count=0, maximum_influence=1.0, site_terms=True)
    )
    with refusals.refused("group-too-small", DisclosureError, mentions=("1.7",)):
        home.design(rows, ["1", "x"], intercept=0)


@pytest.mark.parametrize("weighted", [False, True])
def test_columns_that_are_passed_over_would_be_taken_one_by_one(weighted):
    """Near 0 and far from it, with an outlier anywhere; of weighed ones none is."""
    draw, home, n_passed = np.random.default_rng(7), TableRulesAtHome("a", Rules()), 0
    for n in (20, 300, 9000):
        for middle in (0.0, 1e3, -1e3, 1e6, -1e6):
            columns = middle + draw.normal(size=(n, 24))
            away = 10.0 ** draw.uniform(0.0, 6.0, 24) * draw.choice([-1, 1], 24)
            places = draw.choice([0, n // 2, n - 1], 24)
            columns[places, np.arange(24)] += np.where(np.arange(24) < 20, away, 0.0)
            weights = draw.exponential(size=n) if weighted else None
            rows = Rows.of(columns, columns[:, 0], weights=weights)
            passed = {*range(24)} - {*home._doubtful(rows)}
            n_passed += len(passed)
            for k in passed:
                home.column("x", columns[:, k])
                home._alone("x", columns[:, k], np.sqrt(rows.weigh(np.ones(n))))
    assert (n_passed == 0) is weighted


def test_columns_of_one_variable_keep_the_leverage_of_all_of_them():
    """Of several variables, combinations of few columns count: a choice is theirs."""
    x = np.column_stack([np.ones(20), np.random.default_rng(1).normal(size=(20, 18))])
    columns = LeverageColumns(Rows.of(x, x[:, 1]), 0)
    assert columns.concentration()[0].largest < 0.98 < columns.leverage().largest
    names = [f"x{k}" for k in range(19)]

    def look(*variables):
        groups = {variables: range(19)}
        TableRulesAtHome("a", Rules()).design(
            columns.rows, names, intercept=0, groups=groups
        )

    look("a", "b")
    with refusals.refused("group-too-small", DisclosureError):
        look("a")


def test_a_step_between_parties_is_flat_in_each(tables):
    """Record numbers by the hundred: two steps would be one hospital's sums."""
    for k, one in enumerate(tables.values()):
        one["record"] = 1000 + 100 * k + np.arange(N_ROWS)
    cuts = [1000.5, 1180, 1181, 1280, 1281, 1400]
    spline = {"of": "record", "as": "b-spline", "knots": cuts[1:5]}
    derived = {"step": spline, "beyond": {**DERIVED["log_beds"], "of": "record"}}
    formula = "salary ~ step"
    assert refused(formula, tables, derived=derived) == "site_terms"
    # Numbers that vary within each party are as before.
    options = {"driver": "vectorised", "derived": {**DERIVED, **derived}}
    vs.fit("salary ~ decades + age_2", tables, **options)


@given(st.integers(0, 2**32), st.integers(1, 200), st.integers(1, 70))
@settings(max_examples=40, deadline=None)
def test_rows_with_the_same_flags_are_counted(seed, n_rows, n_flags):
    stream = np.random.default_rng(seed)
    few = stream.random((5, n_flags)) < 0.5
    flags = few[stream.integers(0, 5, n_rows)]
    flags[:, -1] ^= stream.random(n_rows) < 0.01
    _, counts = np.unique(flags, axis=0, return_counts=True)
    assert _fewest_alike_table_rows(flags) == counts.min()


def test_there_are_at_most_eight_limits_and_their_page_is_one_screen():
    page = Path(__file__).parents[2] / "docs" / "guides" / "rules.md"
    text = page.read_text("utf-8")
    assert len(RANGES) <= 8
    assert len(text.splitlines()) <= 60
    assert [name for name in RANGES if f"| `{name}` |" not in text] == []
