"""Formulas: the same columns at every party, and nothing learned from its rows."""

import ast
import operator
import os
import re
import subprocess
import sys
from fractions import Fraction
from time import perf_counter

import formulaic
import numpy as np
import pandas as pd
import patsy
import pytest
from hypothesis import assume, example, given, reject, settings, strategies as st

import refusals
from cases import each
from veilsum.errors import InvalidInputError, MissingExtraError
from veilsum.numbers.units import Measure
from veilsum.tables.formula import ModelFormula, _flag
from veilsum.tables.formula.extents import factor_extent
from veilsum.tables.formula.reader import read_formula, read_surv
from veilsum.tables.formula.syntax import formula_text
from veilsum.tables.formula.values import evaluate
from veilsum.tables.schema import Column, Schema, SchemaError

SCHEMA = Schema(
    (
        Column("y", "number", -10, 10, unit=0.001),
        Column("age", "number", 1, 120),
        Column("bp", "number", -10, 10, unit=0.001),
        Column("k", "integer", 0),
        Column("body mass", "number", 1, 200, unit=0.01),
        Column("body.fat", "number", -10, 10, unit="1/64"),
        Column("sex", "category", categories=("1", "2")),
        Column("site", "category", categories=("north", "east", "south")),
        Column("one", "category", categories=("only",)),
        Column("ill", "category", categories=("no", "yes")),
    ),
    minimum_rows=1,
)
SPLIT = {"a": slice(0, 9), "b": slice(9, 25), "c": slice(25, 40)}


@pytest.fixture(scope="module")
def pooled():
    random = np.random.default_rng(20)
    n = 40
    frame = pd.DataFrame(
        {
            **{name: random.normal(size=n) for name in ("y", "bp", "body.fat")},
            "age": random.uniform(20, 90, n),
            "body mass": random.uniform(40, 120, n),
            "k": random.integers(0, 5, n),
            "sex": random.choice(["1", "2"], n),
            "site": random.choice(["north", "east", "south"], n),
            "one": "only",
            "ill": random.choice(["no", "yes"], n),
        }
    )
    # The first party has one level of each category only.
    frame.loc[:8, ["sex", "site", "ill"]] = ["2", "south", "no"]
    # Whole numbers of their units: a check changes nothing any more.
    rounded = SCHEMA.check("all", frame).frame
    return frame.assign(**{name: rounded[name] for name in frame.select_dtypes(float)})


def checked(frame, party="a"):
    return SCHEMA.check(party, frame)


def categorical(frame):
    """Return the frame with the schema's categories, for other packages to read."""
    made = frame.copy()
    for name in SCHEMA.categorical:
        levels = list(SCHEMA.column(name).categories)
        made[name] = pd.Categorical(made[name], categories=levels)
    return made


FORMULAS = [
    "y ~ age + C(sex) + bp",
    "y ~ age + sex",
    "y ~ 1",
    "y ~ site - 1",
    "y ~ 0 + site + sex",
    "y ~ age * site",
    "y ~ sex:site",
    "y ~ sex * site",
    "y ~ (age + bp + k) ** 2",
    "y ~ {(age - 60) / 10} + I(bp ** 2)",
    "y ~ np.log(age) + np.log1p(k) + np.exp(bp) + np.sqrt(age) + np.abs(bp)",
    "y ~ log10(age) + expm1(bp) + sqrt(abs(bp)) + {-bp} + {2 ** bp}",
    "y ~ C(site, Treatment('east'))",
    "y ~ C(site, Treatment(reference='south')) + age",
    "y ~ C(site, Sum)",
    "y ~ C(site, contr.helmert) + C(sex, contr.sum)",
    "y ~ C(site, contr.poly)",
    "y ~ C(site, contr.diff(backward=False))",
    "y ~ C(site, contrasts=contr.SAS)",
    "y ~ `body mass` + body.fat + log(`body mass`) + log(`body.fat` ** 2)",
    "y ~ C(one) + age",
    "y ~ age + log(age) - log(age)",
    "y ~ site / age",
]
every_formula = pytest.mark.parametrize("text", FORMULAS)
SHARED = {name: getattr(np, name) for name in ("log1p", "expm1", "sqrt", "abs")}


def same(text, design, expected):
    """Compare with formulaic: to the last bit, unless a function has another one.

    Functions are ours, with the same bits everywhere; codes that are not whole are
    rounded to 2^-40.
    """
    functions = re.search(r"log|exp|\*\*", text)
    rounded = re.search(r"poly|diff", text)
    np.testing.assert_allclose(
        design,
        expected.to_numpy(dtype=float),
        rtol=4e-15 if functions else 0,
        atol=2.0**-40 if rounded else 0,
    )


@every_formula
def test_the_pooled_design_is_the_one_formulaic_makes(text, pooled):
    formula = ModelFormula.of(text, SCHEMA)
    design, response = formula.design(checked(pooled))
    expected = formulaic.model_matrix(text, categorical(pooled), context=SHARED)
    assert formula.columns == tuple(expected.rhs.columns)
    same(text, design, expected.rhs)
    np.testing.assert_array_equal(response, pooled["y"])
    assert design.dtype == response.dtype == np.float64
    assert design.flags.c_contiguous
    assert response.shape == (len(pooled),)


@every_formula
def test_parties_one_at_a_time_give_the_pooled_rows(text, pooled):
    formula = ModelFormula.of(text, SCHEMA)
    whole, response = formula.design(checked(pooled))
    parts = [formula.design(checked(pooled[rows], p)) for p, rows in SPLIT.items()]
    np.testing.assert_array_equal(np.vstack([part[0] for part in parts]), whole)
    np.testing.assert_array_equal(np.concatenate([p[1] for p in parts]), response)


@pytest.mark.parametrize(
    "text",
    [
        "y ~ age + C(sex) + bp",
        "y ~ age + site + age:site",
        "y ~ C(site, Treatment('east')) + np.log(age)",
        "y ~ C(site, Sum) + bp",
        "y ~ 0 + site + sex",
        "y ~ sex * site",
    ],
)
def test_the_pooled_design_is_the_one_patsy_makes(text, pooled):
    formula = ModelFormula.of(text, SCHEMA)
    design, _ = formula.design(checked(pooled))
    _, expected = patsy.dmatrices(text, categorical(pooled), return_type="dataframe")
    assert len(formula.columns) == expected.shape[1]
    joint = np.hstack([design, expected])
    rank = np.linalg.matrix_rank
    assert rank(design) == rank(expected) == rank(joint) == len(formula.columns)
    # Names agree, and where they do the columns are the same numbers.
    for name in set(formula.columns) & set(expected.columns):
        place = formula.columns.index(name)
        np.testing.assert_allclose(design[:, place], expected[name], rtol=1e-15)
    assert set(formula.columns) & set(expected.columns)


def test_a_design_without_a_level_has_its_column_all_the_same(pooled):
    formula = ModelFormula.of("y ~ age + C(sex) + site", SCHEMA)
    assert formula.columns == (
        *("Intercept", "age", "C(sex)[T.2]", "site[T.east]", "site[T.south]"),
    )
    assert formula.intercept == 0
    assert formula.variables == ("y", "age", "sex", "site")
    design, _ = formula.design(checked(pooled[SPLIT["a"]]))
    np.testing.assert_array_equal(design[:, 2:], np.tile([1.0, 0.0, 1.0], (9, 1)))


part = st.sampled_from(
    [
        *("age", "bp", "k", "sex", "site", "one", "C(site)", "C(sex, Sum)", "{age*bp}"),
        *("{ age * bp }", "{age}", "log(age)", "np.log( age )", "I(bp**2)", "site"),
        *("`body mass`", "body.fat", "C(site, contr.helmert(reverse=False))"),
    ]
)


def joined(parts):
    return st.one_of(
        st.tuples(parts, st.sampled_from([" + ", " - ", ":", "*", "/"]), parts).map(
            "".join
        ),
        st.tuples(parts, st.sampled_from(["+", "*", ":", "-", " %in% "]), parts).map(
            lambda three: f"({''.join(three)})"
        ),
        st.tuples(parts, parts, st.sampled_from("23")).map(
            lambda three: f"({three[0]} + {three[1]})**{three[2]}"
        ),
    )


@given(
    st.recursive(part, joined, max_leaves=5),
    st.sampled_from(["", " - 1", " + 0", "0 + ", "-1 + ", "1 + ", "- "]),
)
@settings(max_examples=50, deadline=None)
@example("(age + bp + sex)**3 / site", "")
@example("site / (age + sex) - age", " + 0")
@example("{ age*bp } : {age * bp} + age:bp + bp:age", "")
def test_terms_are_multiplied_out_as_formulaic_does(pooled, text, extra):
    """Its own reader is the judge here, of texts that are ours."""
    text = f"{extra}{text}" if extra.endswith("+ ") or extra == "- " else text + extra
    expected = None
    try:
        made = formulaic.model_matrix(
            f"y ~ {text}", categorical(pooled), context=SHARED
        )
        expected = made.rhs
    except (formulaic.errors.FormulaicError, TypeError):
        with pytest.raises(InvalidInputError):
            ModelFormula.of(f"y ~ {text}", SCHEMA)
        return
    if not expected.shape[1]:
        with refusals.refused("empty-right-side"):
            ModelFormula.of(f"y ~ {text}", SCHEMA)
        return
    formula = ModelFormula.of(f"y ~ {text}", SCHEMA)
    assert formula.columns == tuple(expected.columns)
    design, _ = formula.design(checked(pooled))
    same(text, design, expected)


arithmetic = st.recursive(
    st.sampled_from(["a", "b", "2", "0.5", "1e999", ".25", "1e-3", "12."]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", " * ", "/", "**"]), inner).map(
            "".join
        ),
        inner.map("({})".format),
        inner.map("-{}".format),
        inner.map("+ {}".format),
        inner.map("np.log({})".format),
        inner.map("I( {} )".format),
    ),
    max_leaves=8,
)


@given(arithmetic)
def test_an_expression_is_read_and_shown_as_python_does(text):
    ((node, code),) = read_formula(f"y ~ {{{text}}} - y").written[1:2]
    if len(code) < 200:
        assert formula_text(node) == ast.unparse(ast.parse(text))


@given(arithmetic)
def test_an_expression_is_worth_what_python_says(text):
    ((node, _),) = read_formula(f"y ~ {{{text}}} - y").written[1:2]
    assume("**" not in text or "a" in text)
    values = {"a": np.array([0.5, -2.0, 3.0]), "b": np.array([1.0, 2.0, -0.25])}
    known = {"np": np, "I": lambda x: x, **values}
    with np.errstate(all="ignore"):
        try:
            expected = eval(compile(text, "here", "eval"), known)
        except (ArithmeticError, TypeError) as error:
            with pytest.raises(type(error)):
                evaluate(node, pd.DataFrame(values))
            return
        found = evaluate(node, pd.DataFrame(values))
    # The last bits of logarithms and powers are our own; what multiplies them is small.
    close = 1e-12 if "log" in text or "**" in text else 0
    np.testing.assert_allclose(found, expected, rtol=close, atol=close)


def test_columns_do_not_depend_on_how_python_hashes():
    """Two processes with hashes of their own, beside this one."""
    code = (
        "from veilsum.tables.formula import ModelFormula\n"
        "from veilsum.tables.schema import Column, Schema\n"
        "s = Schema(tuple(Column(n, 'number') for n in 'yabc')"
        " + tuple(Column(n, 'category', categories='pqr') for n in 'fgh'))\n"
        "print(ModelFormula.of('y ~ (a + b + f + g)**3 + f:h - 1', s).columns)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    numbers = (Column(name, "number") for name in "yabc")
    levels = (Column(name, "category", categories="pqr") for name in "fgh")
    schema = Schema((*numbers, *levels))
    here = ModelFormula.of("y ~ (a + b + f + g)**3 + f:h - 1", schema).columns
    assert found == {f"{here}\n"}
    assert "a:f[T.q]:g[T.r]" in here


@pytest.mark.parametrize(
    ("text", "place"),
    [("y ~ age", 0), ("y ~ age - 1", None), ("y ~ 0 + site", None), ("y ~ 1", 0)],
)
def test_the_intercept_is_found(text, place):
    assert ModelFormula.of(text, SCHEMA).intercept == place


def test_a_column_called_intercept_is_not_the_intercept():
    schema = Schema((Column("y", "integer"), Column("Intercept", "integer")))
    assert ModelFormula.of("y ~ 0 + Intercept", schema).intercept is None
    with refusals.refused("duplicate-design-column"):
        ModelFormula.of("y ~ Intercept", schema)


@pytest.mark.parametrize("text", ["ill ~ age", "{ill} ~ age", "`ill` ~ age"])
def test_a_category_with_two_levels_is_a_response_of_zeros_and_ones(text, pooled):
    formula = ModelFormula.of(text, SCHEMA)
    _, response = formula.design(checked(pooled))
    assert formula.response_is_category
    assert formula.response == "ill"
    np.testing.assert_array_equal(response, pooled["ill"] == "yes")
    assert response.dtype == np.float64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("log(age) ~ bp", lambda frame: np.log(frame["age"])),
        ("{bp * 2 + age} ~ k", lambda frame: frame["bp"] * 2 + frame["age"]),
        ("`body mass` ~ k", lambda frame: frame["body mass"]),
        ("k ~ bp", lambda frame: frame["k"]),
    ],
    ids=["log", "sum", "spaces", "integer"],
)
def test_a_response_may_be_computed(text, expected, pooled):
    formula = ModelFormula.of(text, SCHEMA)
    _, response = formula.design(checked(pooled))
    assert not formula.response_is_category
    np.testing.assert_allclose(response, expected(pooled), rtol=1e-15)


def test_other_columns_are_fetched_as_numbers(pooled):
    formula = ModelFormula.of("y ~ age", SCHEMA)
    table = checked(pooled)
    np.testing.assert_array_equal(formula.numeric(table, "k"), pooled["k"])
    assert formula.numeric(table, "k").dtype == np.float64
    with refusals.refused("not-a-number-column", mentions=("sex",)):
        formula.numeric(table, "sex")
    with refusals.refused("unknown-column", mentions=("age",)):
        formula.numeric(table, "agee")


def test_a_table_of_another_schema_is_refused(pooled):
    formula = ModelFormula.of("y ~ age", SCHEMA)
    other = Schema(SCHEMA.columns, minimum_rows=2).check("a", pooled)
    with refusals.refused("other-schema"):
        formula.design(other)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("y ~ age + log(k)", "log(k)"),
        ("y ~ {age / k}", "age / k"),
        ("y ~ {1e999 * age}", "1e309 * age"),
        ("y ~ sqrt(bp):C(sex)", "sqrt(bp):C(sex)[1]"),
        ("log(bp) ~ age", "log(bp)"),
    ],
)
def test_a_term_that_is_not_finite_is_named(text, term, pooled):
    formula = ModelFormula.of(text, SCHEMA)
    with pytest.raises(SchemaError) as caught:
        formula.design(checked(pooled, "hospital-3"))
    error = caught.value
    assert (error.party, error.rule) == ("hospital-3", "finite")
    assert error.column.startswith(term.split("[")[0])
    assert "of 40 rows" in str(error)


def test_no_row_is_dropped_or_moved(pooled):
    shuffled = pooled.iloc[::-1]
    formula = ModelFormula.of("y ~ age + C(site)", SCHEMA)
    design, response = formula.design(checked(shuffled))
    np.testing.assert_array_equal(design[:, 1], shuffled["age"])
    np.testing.assert_array_equal(response, shuffled["y"])


def test_equal_formulas_are_equal_and_show_no_more_than_their_text():
    first, second = (ModelFormula.of("y ~ age + C(sex)", SCHEMA) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != ModelFormula.of("y ~ age + sex", SCHEMA)


names = st.sampled_from(["age", "bp", "k", "sex", "site", "C(site)", "{age * bp}"])
terms = st.lists(st.lists(names, min_size=1, max_size=3), min_size=1, max_size=4)


@given(terms, st.booleans(), st.randoms(use_true_random=False))
def test_any_party_gets_its_rows_of_the_pooled_design(pooled, parts, plain, random):
    text = "y ~ " + " + ".join(":".join(part) for part in parts)
    formula = ModelFormula.of(text + (" - 1" if plain else ""), SCHEMA)
    whole, _ = formula.design(checked(pooled))
    rows = random.sample(range(len(pooled)), random.randint(1, len(pooled)))
    part, _ = formula.design(checked(pooled.iloc[rows]))
    assert part.shape == (len(rows), len(formula.columns))
    np.testing.assert_array_equal(part, whole[rows])


# What is refused


@each(
    "call",
    [
        *("center(age)", "scale(age)", "standardize(age)", "bs(age, df=4)"),
        *("cs(age, df=3)", "cr(age, df=3)", "cc(age, df=3)", "poly(age, 2)"),
        *("lag(age)", "hashed(age)", "foo(age)", "np.cumsum(age)", "np.mean(age)"),
        *("np.random.normal(age)", "log(scale(age))", "Q('age')", "min(age)"),
        *("cut(age)", "{age - np.mean(age)}", "I(center(age))", "age:center(bp)"),
    ],
)
def test_functions_that_may_learn_from_rows_are_refused_with_the_reason(call):
    with pytest.raises(InvalidInputError) as caught:
        ModelFormula.of(f"y ~ {call}", SCHEMA)
    assert "would not mean the same everywhere" in str(caught.value)
    assert "- 60) / 10}" in str(caught.value)


@each(
    ("text", "why"),
    [
        ("", "one left and one right side"),
        ("age", "one left and one right side"),
        ("~ age", "one left and one right side"),
        ("y ~ age | bp", "one left and one right side"),
        ("y | k ~ age", "one left and one right side"),
        ("y ~ 0", "nothing on its right side"),
        ("y + k ~ age", "one response, found y, k"),
        ("y:k ~ age", "one response"),
        ("0 ~ age", "one response, found none"),
        ("1 ~ age", "column or a function of one"),
        ("C(ill) ~ age", "column or a function of one"),
        ("site ~ age", "category with 3 levels"),
        ("{site} ~ age", "category with 3 levels"),
        ("one ~ age", "category with 1 levels"),
        ("y ~ age + y", "both sides"),
        ("y ~ agee", "no column 'agee'; did you mean 'age'"),
        ("y ~ age - agee", "no column 'agee'"),
        ("yy ~ age", "no column 'yy'"),
        ("y ~ log(agee)", "no column 'agee'"),
        ("y ~ age - intercept", "write '- 1'"),
        ("y ~ .", "write the columns out"),
        ("y ~ age +", "cannot be read"),
        ("y ~ (age", "cannot be read"),
        ("y ~ age ~ bp", "cannot be read"),
        ("y ~ log(age", "cannot be read"),
        ("y ~ 'age'", "cannot be read"),
        ("y ~ 2", "cannot be read"),
        ("y ~ as.factor(sex)", "cannot be read"),
        ("y ~ 2:age", "in braces"),
        ("y ~ C(age)", "which the schema has as number"),
        ("y ~ C(k)", "which the schema has as integer"),
        ("y ~ C()", "must name a column"),
        ("y ~ C(sex + site)", "must name a column"),
        ("y ~ C(sex, levels=['1', '2'])", "levels are the schema's"),
        ("y ~ C(sex, Sum, spans_intercept=False)", "levels are the schema's"),
        ("y ~ C(site, {'a': [1, 0, 0]})", "unknown contrast"),
        ("y ~ C(site, contr.custom([1, 2, 3]))", "unknown contrast"),
        ("y ~ C(site, Foo)", "unknown contrast"),
        ("y ~ C(site, Treatment('west'))", "'west', which is not a category"),
        ("y ~ C(site, Treatment(age))", "age, which is not a category"),
        ("y ~ C(sex, Treatment(1))", "'1', '2', in quotes"),
        ("y ~ C(site, contr.sum(odd=True))", "cannot be used"),
        ("y ~ I(sex)", "use it by itself"),
        ("y ~ {sex + age}", "use it by itself"),
        ("y ~ log(C(sex))", r"C\(...\) inside"),
        ("y ~ log(age, 2)", "more than one argument"),
        ("y ~ log(x=age)", "more than one argument"),
        ("y ~ log()", "more than one argument"),
        ("y ~ {3}", "names no column"),
        ("y ~ log(3)", "names no column"),
        ("y ~ {9 ** 9 ** 9 ** 9 * age}", "power of constants"),
        ("y ~ {age ** 9 ** 9 ** 9}", "power of constants"),
        ("y ~ (age + bp) ** 9", "at most 5"),
        ("y ~ (age + bp) ^ 99", "at most 5"),
        ("y ~ {age / (1 / 0)}", "cannot be used"),
        ("y ~ age.mean()", "dot in it"),
        ("y ~ log(body.fat)", "in backticks"),
        ("y ~ age > 60", r"> is not expected .* in brackets, such as \(age > 60\)"),
        ("y ~ 60 < age", "< is not expected"),
        ("y ~ (age = 60)", "= is not expected .* in brackets"),
        ("y ~ (20 < age < 60)", r"write \(18 < age\) & \(age < 60\)"),
        ("y ~ (age & bp > 60)", "joins something else than comparisons by &"),
        ("y ~ {age > 60 | bp > 1}", "joins something else than comparisons by |"),
        ("y ~ (age > 60) & k", "& is not expected"),
        ("y ~ (age > 60) & (k)", "joins something else"),
        ("y ~ (sex == '3')", """with '3', which is not one .* "1", "2\""""),
        ("y ~ (sex > '1')", "no order here"),
        ("y ~ (sex == site)", "a category; .* compare it with a level in quotes"),
        ("y ~ (k == '1')", "'k' with a text, .* integer; leave out the quotes"),
        ("y ~ {'1'}", "the text '1' where a number belongs"),
        ("y ~ (age + 1 == '1')", "the text '1' where a number belongs"),
        ("y ~ where(age > 60)", "where takes a comparison and two things"),
        ("y ~ where(age, 1, 0)", "where takes a comparison and two things"),
        ("y ~ (1 < 2)", "names no column"),
        ("y ~ (1 | site)", r"cannot be read: \(1 \| site\).*by \[mixed\]"),
        ("y ~ age + (age | site)", r"asked for by \[mixed\]"),
        ("Surv(age, k) ~ bp", r"\[cox\], for curves with \[survival\]"),
        ("y ~ {('a', age)}", "more than arithmetic"),
        ("y ~ {age == (lambda: 1)}", "more than arithmetic"),
        ("y ~ {age if age else bp}", "more than arithmetic"),
        ("y ~ {age[0]}", "more than arithmetic"),
        ("y ~ {age @ age}", "more than arithmetic"),
        ("y ~ {age * True}", "more than arithmetic"),
        ("y ~ {age.__class__}", "more than arithmetic"),
        ("y ~ {[age for age in age]}", "more than arithmetic"),
        ("y ~ {(lambda: age)()}", "cannot be used"),
        ("y ~ {().__class__.__base__.__subclasses__()}", "dot in it"),
        ("y ~ {__import__('os').getcwd()}", "dot in it"),
        ("y ~ {eval('1')}", "cannot be used"),
        ("y ~ C(site, Treatment('a\\'b'))", "backslash|cannot be read|not a category"),
    ],
)
def test_a_formula_that_cannot_be_used_is_refused(text, why):
    with pytest.raises(InvalidInputError, match=why):
        ModelFormula.of(text, SCHEMA)


@each(
    ("text", "why"),
    [
        ("y ~ " + "age + " * 2000 + "bp", "at most 10,000 characters"),
        ("y ~ " + "(" * 30 + "age" + ")" * 30, "nests more than 20"),
        ("y ~ {" + "(" * 30 + "age" + ")" * 30 + "}", "nests more than 20"),
        ("y ~ {" + "-" * 30 + "age}", "nests more than 20"),
        ("y ~ {" + "age ** " * 30 + "age}", "nests more than 20"),
        ("y ~ {" + "log(" * 30 + "age" + ")" * 30 + "}", "nests more than 20"),
        ("y ~ {" + "age + " * 200 + "age}", "more than 100 operations"),
        ("y ~ {" + "9" * 5000 + " * age}", "more than 40 characters"),
        ("y ~ (age + bp) ** " + "9" * 5000, "at most 5"),
        ("y ~ 'age", "cannot be read"),
        ("y ~ `age", "cannot be read"),
        ("y ~ log (age)", "a space after log"),
        ("y ~ age \\ bp", "has a backslash"),
        ("y ~ 2 * age", "in braces"),
        ("y ~ C(site, Treatment('north', 'east'))", "does not take these options"),
        ("y ~ C(site, contr.helmert(scale='north'))", "must be True or False"),
    ],
)
def test_a_text_beyond_the_bounds_is_refused(text, why):
    with pytest.raises(InvalidInputError, match=why) as caught:
        ModelFormula.of(text, SCHEMA)
    assert len(str(caught.value)) < 700


WIDE = Schema(
    (
        Column("y", "number"),
        *(Column(f"x{k}", "number") for k in range(60)),
        *(
            Column(f"c{k}", "category", categories=tuple(map(str, range(100))))
            for k in range(3)
        ),
        *(Column(f"o{k}", "category", categories=("only",)) for k in range(12)),
    )
)


@pytest.mark.parametrize(
    ("right", "why"),
    [
        # 60 choose 1, 2, ... 5 added up
        ("(" + "+".join(f"x{k}" for k in range(60)) + ")**5", "up to 5,985,197 terms"),
        (":".join(["(" + "+".join(f"x{k}" for k in range(60)) + ")**2"] * 2), "terms"),
        ("(" + "+".join(f"x{k}" for k in range(60)) + ")**2" + ":x1" * 900, "terms"),
        # 100^3 + 3 100^2 + 3 100 + 1
        ("C(c0)*C(c1)*C(c2)", "up to 1,030,301 columns .* at most 1,000"),
        ("c0:c1", "up to 10,001 columns"),
        (":".join(f"o{k}" for k in range(12)), "multiplies 12 categories"),
    ],
)
def test_how_much_a_formula_expands_to_is_said_before_it_does(right, why):
    started = perf_counter()
    with pytest.raises(InvalidInputError, match=why):
        ModelFormula.of(f"y ~ {right}", WIDE)
    assert perf_counter() - started < 20  # made first, the worst takes hours


def test_what_is_within_the_bounds_is_made():
    tens = "+".join(f"x{k}" for k in range(10))
    assert len(ModelFormula.of(f"y ~ ({tens})**5", WIDE).columns) == 638
    assert len(ModelFormula.of("y ~ c0 + c1 + c2", WIDE).columns) == 298


@pytest.mark.parametrize(
    ("text", "columns", "categories"),
    [
        ("y ~ `a b` + log(`c'd`)", ("y", "a b", "c'd"), ()),
        ("y ~ C(`body mass`, Treatment('age'))", ("y", "body mass"), ("body mass",)),
        ("y ~ site.x + C(site)", ("y", "site.x", "site"), ("site",)),
        ("log(y) ~ x:{C(sex)} - z", ("y", "x", "sex", "z"), ("sex",)),
    ],
)
def test_what_a_text_names_is_known_without_a_schema(text, columns, categories):
    read = read_formula(text)
    assert (read.columns, read.categories) == (columns, categories)


def test_levels_are_never_taken_for_anything_else():
    levels = ("{x}", "l1", "f0", "T.a", "__a", "(60, 70]", "don't know", "50 %")
    schema = Schema(
        (Column("y", "integer"), Column("f0", "category", categories=levels)),
        minimum_rows=1,
    )
    formula = ModelFormula.of('y ~ C(f0, Treatment("don\'t know")) + f0:y - y', schema)
    kept = [one for one in levels if one != "don't know"]
    name = 'C(f0, Treatment("don\'t know"))'
    assert formula.columns[1:8] == tuple(f"{name}[T.{one}]" for one in kept)
    frame = pd.DataFrame({"y": np.arange(8.0), "f0": list(levels)})
    design, _ = formula.design(schema.check("a", frame))
    np.testing.assert_array_equal(design[:, 1:8], np.delete(np.eye(8), 6, axis=1))


def test_a_column_with_the_name_of_a_function_it_is_used_with_is_refused():
    columns = tuple(Column(name, "number") for name in ("y", "log", "x"))
    schema = Schema(columns)
    assert ModelFormula.of("y ~ log", schema).columns == ("Intercept", "log")
    with refusals.refused("column-named-like-function"):
        ModelFormula.of("y ~ log + log(x)", schema)


def test_a_missing_package_names_its_extra(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "formulaic"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "formulaic", None)
    levels = Column("a", "category", categories=("u", "v"))
    schema = Schema((Column("y", "number"), levels))
    with pytest.raises(MissingExtraError, match=r"\.\[data\]"):
        ModelFormula.of("y ~ C(a, Sum)", schema)


# Comparisons

CONDITIONS = {
    "I(age > 60)": lambda t: t["age"] > 60,
    "(k >= 2)": lambda t: t["k"] >= 2,
    "{3 != k}": lambda t: t["k"] != 3,
    "(sex == '1')": lambda t: t["sex"] == "1",
    '("south" != site)': lambda t: t["site"] != "south",
    '(age > 60) & (sex == "1")': lambda t: (t["age"] > 60) & (t["sex"] == "1"),
    "((k < 2) | (bp > 0)) & (age <= 70)": lambda t: (
        ((t["k"] < 2) | (t["bp"] > 0)) & (t["age"] <= 70)
    ),
    "where(bp > 0.5, 1, 0)": lambda t: t["bp"] > 0.5,
    "{where(site == 'east', age, -k)}": lambda t: np.where(
        t["site"] == "east", t["age"], -t["k"]
    ),
    "{(k > 1) * bp + 2 * (age > 50)}": lambda t: (
        (t["k"] > 1) * t["bp"] + 2 * (t["age"] > 50)
    ),
    "log(where(k > 2, age, 1 + k))": lambda t: np.log(
        np.where(t["k"] > 2, t["age"], 1 + t["k"])
    ),
    "bp:(age > 60)": lambda t: t["bp"] * (t["age"] > 60),
}


@each(("term", "expected"), CONDITIONS.items(), ids=CONDITIONS)
def test_comparisons_are_worth_what_pandas_says(term, expected, pooled):
    formula = ModelFormula.of(f"y ~ {term} - 1", SCHEMA)
    design, _ = formula.design(checked(pooled))
    wanted = np.asarray(expected(pooled), dtype=float)[:, None]
    np.testing.assert_allclose(design, wanted, rtol=1e-14, atol=0)
    # What is shown is read as the same again.
    (name,) = formula.columns
    if ":" not in name:
        again = ModelFormula.of(f"y ~ {{{name}}} - 1", SCHEMA)
        assert again.columns == formula.columns
        np.testing.assert_array_equal(again.design(checked(pooled))[0], design)


def test_a_comparison_may_be_the_response(pooled):
    formula = ModelFormula.of("(bp > 0) ~ age", SCHEMA)
    _, response = formula.design(checked(pooled))
    np.testing.assert_array_equal(response, pooled["bp"] > 0)
    measure = formula.response_measure()
    assert (measure.unit, measure.least, measure.most) == (1, 0, 1)


@pytest.mark.parametrize(
    ("term", "unit", "ends"),
    [
        ("(x > 1)", 1, (0, 1)),
        ("(x > 1) & (s == 'u')", 1, (0, 1)),
        ("where(x > 1, 1, 0)", 1, (0, 1)),
        ("where(x > 1, x, 0.5)", Fraction(1, 100), (-5, 8)),
        ("where(k > 3, 0.25, 10)", Fraction(1, 4), (0.25, 10)),
        ("{(k > 3) * x}", Fraction(1, 100), (-5, 8)),
    ],
)
def test_comparisons_are_counted_as_zeros_and_ones(term, unit, ends):
    (measure,) = counted(term).values()
    assert measure.unit == unit
    assert (float(measure.least * unit), float(measure.most * unit)) == ends


def test_what_is_compared_is_exact_where_decimals_are_not():
    """The twin: float64 finds that 0.1 + 0.2 is more than 0.3."""
    schema = Schema(
        tuple(Column(name, "number", 0, 9, unit=0.1) for name in "yab"), minimum_rows=1
    )
    table = schema.check("p", pd.DataFrame({"y": [1.0], "a": [0.1], "b": [0.2]}))
    terms = ("(a + b > 0.3)", "(0.3 >= a + b)", "where(a + b > 0.3, 5, 7)", "(b > 0.2)")
    formula = ModelFormula.of(f"y ~ {' + '.join(terms)} - 1", schema)
    design, _ = formula.design(table)
    assert design.tolist() == [[0, 1, 7, 0]]
    (node, _) = read_formula("y ~ (a + b > 0.3)").written[1]
    assert evaluate(node, table.frame).tolist() == [1.0]


def test_comparisons_within_each_other_take_no_longer():
    text = "a > 1"
    for _ in range(15):
        text = f"({text}) > 0"
    schema = Schema(tuple(Column(name, "integer", 0, 9) for name in "ya"))
    assert len(ModelFormula.of(f"y ~ ({text})", schema).measures()) == 2


# What terms are counted in

COUNTED = Schema(
    (
        Column("y", "number", -9, 9, unit=0.5),
        Column("x", "number", -5, 8, unit=0.01),
        Column("k", "integer", 1, 9),
        Column("z", "number", 0.5, 2),
        Column("far", "number", 1e9, 1e9 + 1, unit=0.001),
        Column("free", "number", unit=0.1),
        Column("s", "category", categories=("u", "v", "w")),
        Column("ill", "category", categories=("no", "yes")),
    ),
    minimum_rows=1,
)


def counted(text, bits=40):
    formula = ModelFormula.of(f"y ~ {text} - 1", COUNTED)
    return dict(zip(formula.columns, formula.measures(bits), strict=True))


def rows(n=50, seed=1):
    stream = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "y": stream.uniform(-9, 9, n),
            "x": stream.uniform(-5, 8, n),
            "k": stream.integers(1, 10, n),
            "z": stream.uniform(0.5, 2, n),
            "far": stream.uniform(1e9, 1e9 + 1, n),
            "free": stream.normal(size=n),
            "s": stream.choice(list("uvw"), n),
            "ill": stream.choice(["no", "yes"], n),
        }
    )
    frame.loc[:1, ["x", "z", "far", "k"]] = [[-5, 0.5, 1e9, 1], [8, 2, 1e9 + 1, 9]]
    return COUNTED.check("a", frame)


HUNDREDTH, HALF = Fraction(1, 100), Fraction(1, 2)


@each(
    ("term", "unit", "least", "most"),
    [
        ("x", HUNDREDTH, -500, 800),
        ("{x + k}", HUNDREDTH, -400, 1700),
        ("{x * k}", HUNDREDTH, -4500, 7200),
        ("{2 * x}", 2 * HUNDREDTH, -500, 800),
        ("{x / 4}", HUNDREDTH / 4, -500, 800),
        ("{(x - 3) / 10}", HUNDREDTH / 10, -800, 500),
        ("{x + 0.125}", HUNDREDTH / 2, -975, 1625),
        ("{-x}", HUNDREDTH, -800, 500),
        ("{x ** 2}", HUNDREDTH**2, 0, 640_000),
        ("{k ** 3}", 1, 1, 729),
        ("abs(x)", HUNDREDTH, 0, 800),
        ("I(x)", HUNDREDTH, -500, 800),
        ("{0 * x}", 1, 0, 0),
        ("{far - 1000000000}", Fraction(1, 1000), 0, 1000),
        ("x:k", HUNDREDTH, -4500, 7200),
    ],
)
def test_arithmetic_has_the_unit_that_follows_from_its_columns(term, unit, least, most):
    ((_, found),) = counted(term).items()
    assert found == Measure(Fraction(unit), least, most)


def test_categories_count_as_they_are_coded():
    assert counted("s") == dict.fromkeys(
        ("s[u]", "s[v]", "s[w]"), Measure(Fraction(1), 0, 1)
    )
    formula = ModelFormula.of("ill ~ C(s, Sum) * k", COUNTED)
    ones, first, second, k, *mixed = formula.measures()
    assert ones == Measure(Fraction(1), 1, 1)
    assert first == second == Measure(Fraction(1), -1, 1)
    assert k == Measure(Fraction(1), 1, 9)
    assert mixed == [Measure(Fraction(1), -9, 9)] * 2
    assert formula.response_measure() == Measure(Fraction(1), 0, 1)


def test_codes_that_are_not_whole_are_rounded_and_compared():
    formula = ModelFormula.of("y ~ C(s, contr.poly) + C(s, contr.diff)", COUNTED)
    assert set(formula.codings) == {"C(s, contr.poly)", "C(s, contr.diff)"}
    for unit, digest in formula.codings.values():
        assert Fraction(unit) == Fraction(1, 2**40)
        assert len(digest) == 64
    design, _ = formula.design(rows())
    assert (design * 2.0**40 == np.rint(design * 2.0**40)).all()
    for measure, column in zip(formula.measures(), design.T, strict=True):
        measure.counts(column)
    whole = ModelFormula.of("y ~ C(s, Sum) + C(s, contr.helmert)", COUNTED)
    assert [unit for unit, _ in whole.codings.values()] == ["1", "1"]
    assert ModelFormula.of("y ~ s + C(s, contr.SAS)", COUNTED).codings == {}


def test_what_does_not_fit_is_rounded_to_bits_of_its_range():
    (found,) = counted("{z * z}").values()
    assert found.unit == Fraction(1, 2**38)  # of a range of 0.25 to 4
    assert (found.low, found.high) == pytest.approx((0.25, 4))
    (wide,) = counted("{z * z}", bits=80).values()
    assert wide.unit == counted("z")["z"].unit ** 2
    (found,) = counted("log(z)").values()
    assert found.unit == Fraction(1, 2**39)
    assert (found.low, found.high) == pytest.approx(np.log([0.5, 2]))
    (found,) = counted("{x / z}").values()
    assert (found.low, found.high) == pytest.approx((-10, 16))


@each("term", ["x", "z", "far", "free"])
@each("bits", [20, 40, 80])
def test_a_column_by_itself_keeps_its_measure(term, bits):
    assert counted(term, bits) == {term: COUNTED.column(term).measure}


@each(
    ("term", "why"),
    [
        ("log(x)", "takes log of 'x', which is from -5 to 8 .* a minimum above 0"),
        ("log10(x + 5)", "takes log10 of 'x [+] 5', which is from 0 to 13"),
        ("sqrt(x)", "may be below 0; agree on a minimum of 0"),
        ("log1p(x)", "may be as low as -1; agree on a minimum above -1"),
        ("{k / x}", "divides by 'x', which is from -5 to 8 .* may be 0"),
        ("{x ** -2}", "divides by 'x'"),
        ("{x ** 0.5}", "takes a power of 'x'"),
        ("{x ** z}", "takes a power of 'x'"),
        ("exp(k * 100)", "beyond 1e300"),
        ("{far ** 900}", "beyond 1e300"),
        ("{1e999 * x}", "beyond 1e300"),
        ("exp(free)", "beyond 1e300"),
        ("{x * 1e-200}", "unit of 'x [*] 1e-200' must be between"),
    ],
)
def test_a_term_without_a_value_somewhere_in_the_agreed_ranges_is_refused(term, why):
    with pytest.raises(InvalidInputError, match=why):
        counted(term)


@pytest.mark.parametrize("bits", [7, 201, True, 40.0, "40"])
def test_bits_are_a_whole_number(bits):
    formula = ModelFormula.of("y ~ x", COUNTED)
    for asked in (formula.measures, formula.response_measure):
        with refusals.refused("bits-out-of-range", mentions=("8", "200")):
            asked(bits)


def test_a_schema_that_is_too_wide_stops_no_simulation():
    """Rows may have values where the agreed ranges cannot show that they have."""
    formula = ModelFormula.of("y ~ log(x)", COUNTED)
    frame = rows().frame
    table = COUNTED.check("a", frame[frame["x"] > 0])
    design, _ = formula.design(table)
    np.testing.assert_allclose(design[:, 1], np.log(table.numbers("x")), rtol=1e-14)


leaves = st.sampled_from(
    [
        *((name, lambda row, name=name: row[name]) for name in ("x", "k", "z", "far")),
        *(
            (number, lambda _, number=number: Fraction(number))
            for number in ("2", "0.1", "0.25", "7")
        ),
    ]
)


def more(inner):
    def joined(sign, do):
        return st.tuples(inner, inner).map(
            lambda two: (
                f"({two[0][0]} {sign} {two[1][0]})",
                lambda row: do(two[0][1](row), two[1][1](row)),
            )
        )

    return st.one_of(
        joined("+", operator.add),
        joined("-", operator.sub),
        joined("*", operator.mul),
        inner.map(lambda one: (f"-{one[0]}", lambda row: -one[1](row))),
        inner.map(lambda one: (f"np.abs({one[0]})", lambda row: abs(one[1](row)))),
        st.tuples(inner, st.sampled_from(["4", "0.1", "3"])).map(
            lambda two: (
                f"({two[0][0]} / {two[1]})",
                lambda row: two[0][1](row) / Fraction(two[1]),
            )
        ),
        inner.map(lambda one: (f"({one[0]} / k)", lambda row: one[1](row) / row["k"])),
        st.tuples(inner, st.integers(0, 5)).map(
            lambda two: (
                f"({two[0][0]}) ** {two[1]}",
                lambda row: two[0][1](row) ** two[1],
            )
        ),
    )


@given(st.recursive(leaves, more, max_leaves=6), st.sampled_from([20, 40, 64, 90]))
@settings(max_examples=100, deadline=None)
@example(
    ("(far * far) - (far * 1000000000)", lambda r: r["far"] * (r["far"] - 10**9)), 40
)
@example(("z ** 5", lambda row: row["z"] ** 5), 90)
@example(("(x ** 0) + x", lambda row: 1 + row["x"]), 40)
@example(("((x + z) ** 3) ** 4", lambda row: (row["x"] + row["z"]) ** 12), 64)
def test_a_term_is_counted_as_exact_rationals_have_it(written, bits):
    """Whatever the bits: the count is the right one, within what was derived."""
    text, worth = written
    assume(any(name in text for name in ("x", "k", "z", "far")))
    try:
        formula = ModelFormula.of(f"{{{text} + y}} ~ {{{text}}}", COUNTED)
        measure = formula.measures(bits)[1]
    except InvalidInputError as error:
        refused = r"power of constants|beyond 1e300|between 2\^-400 and 2\^400"
        if not re.search(refused, str(error)):
            raise
        reject()
    table = rows(12)
    design, response = formula.design(table, bits)
    found = measure.counts(design[:, 1])
    units = {name: COUNTED.column(name).measure for name in ("x", "k", "z", "far", "y")}
    # Without a unit, as of a quotient or one of over 500 bits, float64 computes it.
    loose = factor_extent(formula._right.factors[0], COUNTED).unit is None
    for place, count in enumerate(found.tolist()):
        row = {
            name: int(one.counts(table.numbers(name)[place : place + 1])[0]) * one.unit
            for name, one in units.items()
        }
        error = abs(int(count) * measure.unit - worth(row))
        # Exact where the unit is; else float64 may take the second nearest of two.
        allowed = 3 * measure.unit / 4 if (worth(row) / measure.unit) % 1 else 0
        if loose:
            largest = max(abs(measure.least), abs(measure.most)) * measure.unit
            allowed += largest * Fraction(1, 2**40)
        assert error <= allowed
    formula.response_measure(bits).counts(response)


def test_a_power_reaches_as_far_as_its_exponent_is_rounded():
    """Beside 1e12 float64 has steps of 2^-13: 0.99995 becomes 1."""
    column = Column("a", "number", -0.99995, 0.99995, unit=0.00001)
    schema = Schema((column, Column("y", "number", 0, 1, unit=1)), minimum_rows=1)
    formula = ModelFormula.of("y ~ {3 ** (a + 1e12 - 1e12)}", schema)
    extent = factor_extent(formula._right.factors[0], schema)
    ends = {"a": [-0.99995, 0.99995], "y": [0, 1]}
    design, _ = formula.design(schema.check("p", ends))
    assert design[:, 1] == pytest.approx([1 / 3, 3.0], rel=1e-15)
    assert extent.low <= 1 / 3 < 3.0 <= extent.high


@given(st.lists(st.integers(0, 39), min_size=1, max_size=40))
@settings(max_examples=25)
def test_a_row_has_the_same_numbers_wherever_it_is(pooled, places):
    """A term is a function of its own row: not of rows before it, nor how many."""
    text = "y ~ log(age) + {bp ** 3} + exp(bp):k + {2 ** bp} + C(site, contr.poly):age"
    formula = ModelFormula.of(text, SCHEMA)
    whole, _ = formula.design(checked(pooled))
    part, _ = formula.design(checked(pooled.iloc[places]))
    assert part.tobytes() == whole[places].tobytes()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Surv(time, status) ~ 1", ("time", "status", "1")),
        (" Surv(a.b,`is dead`)~ age*C(sex) ", ("a.b", "is dead", "age*C(sex)")),
        ("Surv(days,\n  died) ~ C(arm, Sum)", ("days", "died", "C(arm, Sum)")),
        ("Surv(Surv, event) ~ `Surv`", ("Surv", "event", "`Surv`")),
    ],
)
def test_a_survival_formula_is_two_columns_and_a_right_side(text, parts):
    assert read_surv(text) == parts


@each(
    ("text", "why"),
    [
        ("time ~ age", "has no such left side"),
        ("Surv ~ age", "has no such left side"),
        ("surv(time, event) ~ 1", "has no such left side"),
        ("Surv(time, event)", "has no such left side"),
        ("Surv(time, event) ~ 1 ~ 2", "has no such left side"),
        ("", "has no such left side"),
        ("Surv (time, event) ~ 1", "a space after Surv"),
        ("Surv(time, event) ~", "nothing on the right"),
        ("Surv(time, event) ~ Surv(age, sex)", "Surv on the right"),
        ("Surv(time, event) + 1 ~ 1", "more than Surv on the left"),
        ("Surv(start, stop, event) ~ 1", "three columns in Surv"),
        ("Surv(time) ~ 1", "something else than two columns"),
        ("Surv() ~ 1", "more than columns"),
        ("Surv(time, 1) ~ 1", "something else than two columns"),
        ("Surv(time, ` `) ~ 1", "something else than two columns"),
        ("Surv(time, event == 1) ~ 1", "more than columns in Surv"),
        ("Surv(log(time), event) ~ 1", "more than columns in Surv"),
        ("Surv(time, event, type=counting) ~ 1", "more than columns in Surv"),
        ("Surv(time, 'event') ~ 1", "a name in quotes"),
        ('Surv("time", event) ~ 1', "a name in quotes"),
        ("Surv(time, time) ~ 1", "one column for both"),
        ("Surv(time, event ~ 1", "a bracket is not closed"),
        ("Surv(time, event) ~ 1\u200b", "cannot be seen"),
        (f"Surv(time, event) ~ {'a + ' * 5000}b", "at most 10,000 characters"),
        (None, "a formula is a text"),
    ],
)
def test_what_is_no_survival_formula_is_refused_with_the_reason(text, why):
    with pytest.raises(InvalidInputError, match=re.escape(why)):
        read_surv(text)


@pytest.mark.parametrize("third", [0, 50, 99, 100, 101, 4999])
def test_a_third_value_makes_a_number_of_a_flag_wherever_it_is(third):
    values = np.arange(5000) % 2.0
    assert (_flag(values, 5000) == (values == 1.0)).all()
    values[third] = 0.5
    assert _flag(values, 5000) is None
