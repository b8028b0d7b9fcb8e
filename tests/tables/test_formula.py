"""Formulas: the same columns at every party, and nothing learned from its rows."""

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
from hypothesis import example, given, settings, strategies as st

import refusals
from cases import each
from veilsum.errors import InvalidInputError, MissingExtraError
from veilsum.numbers.units import UnitMeasure
from veilsum.tables.formula import ModelFormula, _flag_of_two_valued_column
from veilsum.tables.formula.reader import read_formula, read_surv_formula
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
    "y ~ C(site, Treatment('east'))",
    "y ~ C(site, Treatment(reference='south')) + age",
    "y ~ C(site, Sum)",
    "y ~ C(site, contr.helmert) + C(sex, contr.sum)",
    "y ~ C(site, contr.poly)",
    "y ~ C(site, contr.diff(backward=False))",
    "y ~ C(site, contrasts=contr.SAS)",
    "y ~ `body mass` + body.fat",
    "y ~ C(one) + age",
    "y ~ age + bp - bp",
    "y ~ site / age",
]
every_formula = pytest.mark.parametrize("text", FORMULAS)


def same(text, design, expected):
    """Compare with formulaic: to the last bit; codes not whole are rounded to 2^-40."""
    rounded = re.search(r"poly|diff", text)
    np.testing.assert_allclose(
        design,
        expected.to_numpy(dtype=float),
        rtol=4e-15 if "**" in text else 0,
        atol=2.0**-40 if rounded else 0,
    )


@every_formula
def test_the_pooled_design_is_the_one_formulaic_makes(text, pooled):
    formula = ModelFormula.of(text, SCHEMA)
    design, response = formula.design(checked(pooled))
    expected = formulaic.model_matrix(text, categorical(pooled))
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
        "y ~ C(site, Treatment('east')) + age",
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
        *("age", "bp", "k", "sex", "site", "one", "C(site)", "C(sex, Sum)", "site"),
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
def test_terms_are_multiplied_out_as_formulaic_does(pooled, text, extra):
    """Its own reader is the judge here, of texts that are ours."""
    text = f"{extra}{text}" if extra.endswith("+ ") or extra == "- " else text + extra
    expected = None
    try:
        made = formulaic.model_matrix(f"y ~ {text}", categorical(pooled))
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


@pytest.mark.parametrize("text", ["ill ~ age", "`ill` ~ age"])
def test_a_category_with_two_levels_is_a_response_of_zeros_and_ones(text, pooled):
    formula = ModelFormula.of(text, SCHEMA)
    _, response = formula.design(checked(pooled))
    assert formula.response_is_category
    assert formula.response == "ill"
    np.testing.assert_array_equal(response, pooled["ill"] == "yes")
    assert response.dtype == np.float64


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
    ("text", "term"), [("y ~ k + low", "low"), ("low ~ k", "low"), ("y ~ low:k", "low")]
)
def test_a_term_that_is_not_finite_is_named(text, term):
    """Without an agreed minimum the rows tell whether there is a logarithm."""
    columns = tuple(Column(name, "number", unit=0.1) for name in "yxk")
    derived = {"low": {"of": "x", "as": "log"}}
    schema = Schema(columns, minimum_rows=1, derived=derived)
    frame = pd.DataFrame({"y": [1.0, 2.0], "x": [0.0, 1.0], "k": [1.0, 3.0]})
    with pytest.raises(SchemaError) as caught:
        ModelFormula.of(text, schema).design(schema.check("hospital-3", frame))
    error = caught.value
    assert (error.party, error.rule) == ("hospital-3", "finite")
    assert error.column.startswith(term)
    assert "of 2 rows" in str(error)


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


names = st.sampled_from(["age", "bp", "k", "sex", "site", "C(site)"])
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
        ("1 ~ age", "must be a column"),
        ("C(ill) ~ age", "must be a column"),
        ("site ~ age", "category with 3 levels"),
        ("one ~ age", "category with 1 levels"),
        ("y ~ age + y", "both sides"),
        ("y ~ agee", "no column 'agee'; did you mean 'age'"),
        ("y ~ age - agee", "no column 'agee'"),
        ("yy ~ age", "no column 'yy'"),
        ("y ~ age - intercept", "write '- 1'"),
        ("y ~ .", "write the columns out"),
        ("y ~ age +", "cannot be read"),
        ("y ~ (age", "cannot be read"),
        ("y ~ age ~ bp", "cannot be read"),
        ("y ~ log(age", "a bracket is not closed"),
        ("y ~ 'age'", "cannot be read"),
        ("y ~ 2", "cannot be read"),
        ("y ~ as.factor(sex)", "computes"),
        ("y ~ 2:age", "multiplies a term by a number"),
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
        ("y ~ (age + bp) ** 9", "at most 5"),
        ("y ~ (age + bp) ^ 99", "at most 5"),
        ("y ~ age.mean()", "computes"),
        ("y ~ age > 60", "compares; intervals of a column stand in the dictionary"),
        ("y ~ 60 < age", "compares"),
        ("y ~ (age = 60)", "'=' is not expected"),
        ("y ~ (age > 60) & k", "compares"),
        ("y ~ (1 | site)", r"cannot be read: \(1 \| site\).*by \[mixed\]"),
        ("y ~ age + (age | site)", r"asked for by \[mixed\]"),
        ("Surv(age, k) ~ bp", r"\[cox\], for curves with \[survival\]"),
        ("y ~ age[0]", "'\\[' is not expected"),
        ("y ~ {age.__class__}", "computes"),
        ("y ~ {().__class__.__base__.__subclasses__()}", "computes"),
        ("y ~ {__import__('os').getcwd()}", "computes"),
        ("y ~ {eval('1')}", "computes"),
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
        ("y ~ (age + bp) ** " + "9" * 5000, "at most 5"),
        ("y ~ 'age", "cannot be read"),
        ("y ~ `age", "cannot be read"),
        ("y ~ log (age)", "a space after log"),
        ("y ~ age \\ bp", "has a backslash"),
        ("y ~ 2 * age", "multiplies a term by a number"),
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
        ("y ~ `a b` + `c'd`", ("y", "a b", "c'd"), ()),
        ("y ~ C(`body mass`, Treatment('age'))", ("y", "body mass"), ("body mass",)),
        ("y ~ site.x + C(site)", ("y", "site.x", "site"), ("site",)),
        ("y ~ x:C(sex) - z", ("y", "x", "sex", "z"), ("sex",)),
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
    columns = tuple(Column(name, "number") for name in ("y", "C", "x"))
    levels = Column("a", "category", categories=("u", "v"))
    schema = Schema((*columns, levels))
    assert ModelFormula.of("y ~ C", schema).columns == ("Intercept", "C")
    with refusals.refused("column-named-like-function"):
        ModelFormula.of("y ~ C + C(a)", schema)


def test_a_missing_package_names_its_extra(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "formulaic"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "formulaic", None)
    levels = Column("a", "category", categories=("u", "v"))
    schema = Schema((Column("y", "number"), levels))
    with pytest.raises(MissingExtraError, match=r"\.\[data\]"):
        ModelFormula.of("y ~ C(a, Sum)", schema)


# What terms are counted in

COUNTED = Schema(
    (
        Column("y", "number", -9, 9, unit=0.5),
        Column("x", "number", -5, 8, unit=0.01),
        Column("k", "integer", 1, 9, cuts=(4,)),
        Column("z", "number", 0.5, 2),
        Column("far", "number", 1e9, 1e9 + 1, unit=0.001),
        Column("free", "number", unit=0.1),
        Column("s", "category", categories=("u", "v", "w")),
        Column("ill", "category", categories=("no", "yes")),
        Column("huge", "number", 0, 1e100, unit=1e90),
    ),
    minimum_rows=1,
    derived={
        "x_per_4": {"of": "x", "as": "scale", "unit": 4},
        "x_times_2": {"of": "x", "as": "scale", "unit": 0.5},
        "x_2": {"of": "x", "as": "power", "exponent": 2},
        "x_3": {"of": "x", "as": "power", "exponent": 3},
        "y_3": {"of": "y", "as": "power", "exponent": 3},
        "k_3": {"of": "k", "as": "power", "exponent": 3},
        "z_2": {"of": "z", "as": "power", "exponent": 2},
        "z_5": {"of": "z", "as": "power", "exponent": 5},
        "huge_10": {"of": "huge", "as": "power", "exponent": 10},
        "log_z": {"of": "z", "as": "log"},
        "log_free": {"of": "free", "as": "log"},
        "root_free": {"of": "free", "as": "sqrt"},
        "late": {"of": "k", "as": "intervals"},
        "u": {"of": "s", "as": "level", "level": "u"},
    },
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
            "huge": stream.uniform(0, 1e100, n),
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
        ("x:k", HUNDREDTH, -4500, 7200),
        ("x_per_4", HUNDREDTH / 4, -500, 800),
        ("x_times_2", 2 * HUNDREDTH, -500, 800),
        ("x_2", HUNDREDTH**2, 0, 640_000),
        ("x_2:k", HUNDREDTH**2, 0, 5_760_000),
        ("k_3", 1, 1, 729),
        ("x_3", HUNDREDTH**3, -125_000_000, 512_000_000),
        ("late", 1, 0, 1),
        ("u", 1, 0, 1),
    ],
)
def test_terms_have_the_unit_that_follows_from_their_columns(term, unit, least, most):
    ((_, found),) = counted(term).items()
    assert found == UnitMeasure(Fraction(unit), least, most)


def test_categories_count_as_they_are_coded():
    assert counted("s") == dict.fromkeys(
        ("s[u]", "s[v]", "s[w]"), UnitMeasure(Fraction(1), 0, 1)
    )
    formula = ModelFormula.of("ill ~ C(s, Sum) * k", COUNTED)
    ones, first, second, k, *mixed = formula.measures()
    assert ones == UnitMeasure(Fraction(1), 1, 1)
    assert first == second == UnitMeasure(Fraction(1), -1, 1)
    assert k == UnitMeasure(Fraction(1), 1, 9)
    assert mixed == [UnitMeasure(Fraction(1), -9, 9)] * 2
    assert formula.response_measure() == UnitMeasure(Fraction(1), 0, 1)


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
    (found,) = counted("z_2").values()
    assert found.unit == Fraction(1, 2**38)  # of a range of 0.25 to 4
    assert (found.low, found.high) == pytest.approx((0.25, 4))
    (wide,) = counted("z_2", bits=80).values()
    assert wide.unit == counted("z")["z"].unit ** 2
    (found,) = counted("log_z").values()
    assert found.unit == Fraction(1, 2**39)
    assert (found.low, found.high) == pytest.approx(np.log([0.5, 2]))


@each("term", ["x", "z", "far", "free"])
@each("bits", [20, 40, 80])
def test_a_column_by_itself_keeps_its_measure(term, bits):
    assert counted(term, bits) == {term: COUNTED.column(term).measure}


@each(
    ("term", "why"),
    [
        ("log_free", "takes log of 'free', which is .* a minimum above 0"),
        ("root_free", "may be below 0; agree on a minimum of 0"),
        ("huge_10", "beyond 1e300"),
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
    formula = ModelFormula.of("y ~ log_free", COUNTED)
    frame = rows().frame
    table = COUNTED.check("a", frame[frame["free"] > 0])
    design, _ = formula.design(table)
    np.testing.assert_allclose(design[:, 1], np.log(table.numbers("free")), rtol=1e-14)


@given(
    st.lists(
        st.sampled_from(["x", "k", "z", "far", "y_3", "z_5", "x_per_4", "k_3", "u"]),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([20, 40, 64, 90]),
)
@settings(max_examples=100, deadline=None)
@example(["z_5"], 90)
@example(["far", "x_3"], 64)
def test_a_term_is_counted_as_exact_rationals_have_it(factors, bits):
    """Whatever the bits: the count is the right one, within what was derived."""
    formula = ModelFormula.of(f"y ~ {':'.join(factors)} - 1", COUNTED)
    (measure,) = formula.measures(bits)
    table = rows(12)
    design, _ = formula.design(table, bits)
    counts = measure.counts(design[:, 0]).tolist()
    worth = [Fraction(1)] * 12
    for factor in dict.fromkeys(factors):
        line = COUNTED.derived_by_name.get(factor)
        name = factor if line is None else line.source.name
        if factor == "u":
            own = [Fraction(int(one == "u")) for one in table.frame["s"]]
        else:
            known = COUNTED.column(name).measure
            numbers = known.counts(table.numbers(name)).tolist()
            own = [int(one) * known.unit for one in numbers]
        if line is not None and line.exponent:
            own = [one**line.exponent for one in own]
        if line is not None and line.unit:
            own = [one / line.unit for one in own]
        worth = [a * b for a, b in zip(worth, own, strict=True)]
    for count, exact in zip(counts, worth, strict=True):
        error = abs(int(count) * measure.unit - exact)
        # Exact where the unit is; else float64 may take the second nearest of two.
        assert error <= (3 * measure.unit / 4 if (exact / measure.unit) % 1 else 0)


@given(st.lists(st.integers(0, 39), min_size=1, max_size=40))
@settings(max_examples=25)
def test_a_row_has_the_same_numbers_wherever_it_is(pooled, places):
    """A term is a function of its own row: not of rows before it, nor how many."""
    text = "y ~ age + bp:k + C(site, contr.poly):age"
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
    assert read_surv_formula(text) == parts


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
        read_surv_formula(text)


@pytest.mark.parametrize("third", [0, 50, 99, 100, 101, 4999])
def test_a_third_value_makes_a_number_of_a_flag_wherever_it_is(third):
    values = np.arange(5000) % 2.0
    assert (_flag_of_two_valued_column(values, 5000) == (values == 1.0)).all()
    values[third] = 0.5
    assert _flag_of_two_valued_column(values, 5000) is None
