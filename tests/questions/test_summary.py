"""The table people read, against statsmodels, and parsed back digit by digit."""

import json
import re
import unicodedata
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser

import numpy as np
from hypothesis import example, given, strategies as st

from cases import each
from later import Later
from refusals import refused
from veilsum.errors import printable
from veilsum.fits.fitted import fitted_table_rows
from veilsum.models.families import (
    Binomial,
    Gamma,
    GammaInverseLink,
    GaussianFamily,
    NegativeBinomial,
    Poisson,
)
from veilsum.models.glm import glm_statistics as glm_statistics
from veilsum.models.least_squares import fit, statistics
from veilsum.models.newton import Newton
from veilsum.models.rows import RowMeasures, Rows
from veilsum.questions.regression.summary import summary_html, summary_text
from veilsum.showing import ShownTable, shown_number

sm = Later("statsmodels.api")

ABOUT = {"title": "A fit", "response": "y", "n_parties": 5, "law": "lattice"}


def least_squares(design, response, names, **options):
    rows = Rows.of(np.asarray(design, float), np.asarray(response, float))
    measures = RowMeasures.inferred({"all": rows}, options.get("intercept"))
    return fit(statistics(rows, measures), measures, names=names, **options)


def glm(family, design, response, names, **options):
    rows = Rows.of(np.asarray(design, float), np.asarray(response, float))
    measures = RowMeasures.inferred({"all": rows}, 0)
    newton = Newton(family, measures, names=names, intercept=0, **options)
    state = newton.start()
    while not state.converged:
        total = glm_statistics(newton.scales, rows, newton.propose(state))
        state = newton.advance(state, total)
    return newton.fit(state)


def dataset(name):
    loaded = getattr(sm.datasets, name).load_pandas()
    design = sm.add_constant(loaded.exog.astype(float))
    return design, loaded.endog.astype(float)


def ordinary(name):
    """The fit from sums, and statsmodels' of the same rows."""
    design, response = dataset(name)
    found = least_squares(design, response, list(design), intercept=0)
    return found, sm.OLS(response, design).fit()


def logistic():
    design, response = dataset("spector")
    found = glm(Binomial(), design, response, list(design))
    return found, sm.GLM(response, design, family=sm.families.Binomial()).fit(tol=1e-14)


def small(names=("const", "x"), scale=1.0, noise=1.0):
    """A straight line through five points, in any unit."""
    x = np.arange(5.0)
    y = scale * (2.0 + 3.0 * x + noise * np.array([0.1, -0.2, 0.3, -0.1, -0.1]))
    return least_squares(np.column_stack([np.ones(5), x]), y, list(names), intercept=0)


def rounds_to(text, value, slack=0.0):
    """Whether a value, known up to a relative slack, is rounded right in a text."""
    shown, exact = Decimal(text), Decimal(float(value))
    unit = Decimal(1).scaleb(shown.as_tuple().exponent)
    return abs(shown - exact) <= unit / 2 + Decimal(slack) * abs(exact)


def facts_of(text):
    """The block above the table, as a mapping."""
    block = text.split("=" * 40, maxsplit=2)[1]
    return dict(re.findall(r"([A-Z][^:\n]*?): +(\S+(?: \S+)*)", block))


def table_of(text):
    """The lines of the table below its headers: words of a name, then figures."""
    body = text.split("\n-----")[1].split("\n=====")[0]
    return [line.split() for line in body.splitlines()[1:]]


def width_of(text):
    # A combining mark takes no place, also where Unicode calls it wide.
    letters = [c for c in text if not unicodedata.combining(c)]
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in letters)
    return len(letters) + wide


def expected_columns(reference, alpha=0.05):
    ends = np.asarray(reference.conf_int(alpha)).T
    columns = [reference.params, reference.bse, reference.tvalues, reference.pvalues]
    return np.column_stack([*columns, *ends])


@each("width", [60, 78, 120])
@each("name", ["longley", "stackloss", "statecrime", "randhie"])
def test_the_table_of_least_squares_is_that_of_statsmodels(name, width):
    found, reference = ordinary(name)
    rows = table_of(summary_text(found, **ABOUT, width=width))
    assert [row[0] for row in rows] == list(reference.params.index)
    # Longley's sums keep six digits of the coefficients, as their condition says.
    slack = 10.0 * found.condition * 2.2e-16
    for row, values in zip(rows, expected_columns(reference), strict=True):
        right = [rounds_to(*pair, slack) for pair in zip(row[1:], values, strict=True)]
        assert right == [True] * 6, (row, values)


def test_the_facts_of_least_squares_are_those_of_statsmodels():
    found, reference = ordinary("longley")
    facts = facts_of(summary_text(found, **ABOUT))
    assert facts.pop("Model") == "least squares"
    assert facts.pop("Response") == "y"
    assert facts.pop("Method") == "sum under masks (lattice)"
    assert facts.pop("Condition number") == "1.9e+09"
    assert facts.pop("Errors") == "of the model"
    expected = {
        "Observations": reference.nobs,
        "Parties": 5,
        "Residual degrees": reference.df_resid,
        "Coefficients": reference.df_model + 1,  # statsmodels leaves out the constant
        "R-squared": reference.rsquared,
        "Adj. R-squared": reference.rsquared_adj,
        "Residual std. error": reference.mse_resid**0.5,
        "Log-likelihood": reference.llf,
        "AIC": reference.aic,
        "BIC": reference.bic,
        "Iterations": 1,
    }
    assert facts.keys() == expected.keys()
    wrong = {k: v for k, v in facts.items() if not rounds_to(v, expected[k], 1e-6)}
    assert wrong == {}


def test_the_numbers_agree_with_the_text_that_statsmodels_prints():
    """Both texts parsed: they differ by their rounding and by nothing else."""
    found, reference = ordinary("statecrime")
    theirs = [row.data for row in reference.summary().tables[1][1:]]
    for mine, other in zip(table_of(summary_text(found, **ABOUT)), theirs, strict=True):
        assert mine[0] == other[0]
        for a, b in zip(mine[1:], other[1:], strict=True):
            units = [Decimal(1).scaleb(Decimal(x).as_tuple().exponent) for x in (a, b)]
            assert abs(Decimal(a) - Decimal(b)) <= sum(units) / 2


def test_the_summary_of_a_logistic_regression_is_that_of_statsmodels():
    found, reference = logistic()
    text = summary_text(found, **{**ABOUT, "law": "none"}, level=0.9)
    assert "P>|z|" in text
    assert "[0.05" in text
    assert "0.95]" in text
    for row, values in zip(
        table_of(text), expected_columns(reference, 0.1), strict=True
    ):
        assert all(rounds_to(a, b, 1e-9) for a, b in zip(row[1:], values, strict=True))
    facts = facts_of(text)
    assert facts["Method"] == "sum, no masks"
    assert facts["Iterations"] == str(found.rounds)
    expected = {
        "Deviance": reference.deviance,
        "Null deviance": reference.null_deviance,
        "Dispersion": 1,
        "Log-likelihood": reference.llf,
        "AIC": reference.aic,
    }
    assert all(rounds_to(facts[key], value, 1e-9) for key, value in expected.items())
    assert facts["Pearson chi-squared"] == "not released"


def test_exp_of_a_coefficient_has_a_column_and_a_note():
    found, reference = logistic()
    text = summary_text(found, **ABOUT, exponentiate=True)
    assert "exp(coef) is an odds ratio" in text
    rows = table_of(text)
    ends = np.asarray(reference.conf_int())
    expected = np.exp(np.column_stack([reference.params, ends]))
    for row, values in zip(rows, expected, strict=True):
        shown = zip(row[-3:], values, strict=True)
        assert all(rounds_to(cell, value, 1e-9) for cell, value in shown)
    assert "exp(coef)" not in summary_text(found, **ABOUT)


def family_fit(family):
    rng = np.random.default_rng(0)
    x = rng.random(60)
    y = rng.poisson(np.exp(0.5 + x)) + (1.0 if isinstance(family, Gamma) else 0.0)
    return glm(family, np.column_stack([np.ones(60), x]), y, ["const", "x"])


@each(
    ("family", "ratio"),
    [
        (Poisson(), "a rate ratio"),
        (NegativeBinomial(0.5), "a rate ratio"),
        (Gamma(), "a ratio of means"),
    ],
    ids=["poisson", "negative binomial", "gamma"],
)
def test_exp_is_a_ratio_under_a_log_link(family, ratio):
    text = summary_text(family_fit(family), **ABOUT, exponentiate=True)
    assert f"exp(coef) is {ratio}" in text


@each("show", [summary_text, summary_html])
def test_exp_is_refused_where_it_is_no_ratio(show):
    for found in [
        small(),
        family_fit(GaussianFamily()),
        family_fit(GammaInverseLink()),
    ]:
        with refused("not-a-ratio"):
            show(found, **ABOUT, exponentiate=True)


def test_exp_of_a_huge_coefficient_is_infinite_without_a_warning():
    found = replace(logistic()[0], coefficients=np.array([800.0, -800.0, 0.0, 1.0]))
    rows = table_of(summary_text(found, **ABOUT, exponentiate=True, width=120))
    assert [row[-3] for row in rows] == ["inf", "0", "1.0000", "2.7183"]


def test_the_law_with_its_parameter_is_named():
    facts = facts_of(summary_text(family_fit(NegativeBinomial(0.25)), **ABOUT))
    assert facts["Model"] == "negative-binomial (alpha 0.25)"


def test_an_estimated_dispersion_is_tested_by_students_law():
    assert "P>|t|" in summary_text(family_fit(Gamma()), **ABOUT)
    assert "P>|z|" in summary_text(family_fit(Poisson()), **ABOUT)


def notes_of(text):
    found = text.split("\nNotes:\n")[1:]
    return re.split(r"\s*\[\d+\] ", " ".join(" ".join(found).split()))[1:]


def test_notes_are_numbered_and_wrapped():
    said = ["Released: " + "sums " * 40 + "and no rows.", "Five\nparties."]
    text = summary_text(small(), **ABOUT, notes=said)
    assert notes_of(text) == [said[0], "Five parties."]
    assert max(map(len, text.splitlines())) == 78
    assert "Notes" not in summary_text(small(), **ABOUT)


def test_nearly_dependent_columns_are_noted():
    (note,) = notes_of(summary_text(ordinary("longley")[0], **ABOUT))
    assert "condition number 1.9e+09" in note
    assert "digits" not in note  # all are right
    assert notes_of(summary_text(ordinary("statecrime")[0], **ABOUT)) == []


def test_a_ridge_is_noted_and_its_degrees_are_shown():
    """One column of five ones without a spread: 5 / (5 + 5) of a coefficient."""
    found = least_squares(np.ones((5, 1)), np.arange(5.0), ["x"], ridge=5.0)
    text = summary_text(found, **ABOUT)
    assert facts_of(text)["Coefficients"] == "0.50000"
    assert facts_of(text)["Residual degrees"] == "4.5000"
    assert "A ridge" in notes_of(text)[0]


def test_without_an_intercept_r_squared_says_so():
    """Of y = (0, 1, 2, 3, 4) on ones: 1 - 10 / 30 about zero."""
    found = least_squares(np.ones((5, 1)), np.arange(5.0), ["x"])
    assert facts_of(summary_text(found, **ABOUT))["R-squared (about 0)"] == "0.66667"


def test_a_count_off_by_the_rounding_of_masks_is_whole():
    found = replace(small(), residual_degrees=2.9999999997)
    assert facts_of(summary_text(found, **ABOUT))["Residual degrees"] == "3"


def test_a_perfect_fit_is_shown_and_is_null_in_json():
    found = small(noise=0.0)
    text = summary_text(found, **ABOUT)
    assert "The fit is perfect" in notes_of(text)[0]
    assert [row[2:5] for row in table_of(text)] == [["0", "inf", "0"]] * 2
    rows = json.loads(json.dumps(fitted_table_rows(found), allow_nan=False))
    assert [row["statistic"] for row in rows] == [None, None]
    assert [row["p"] for row in rows] == [0.0, 0.0]


def test_rows_for_json_are_the_numbers_themselves():
    found, reference = ordinary("statecrime")
    rows = fitted_table_rows(found, 0.99)
    keys = ["name", "coefficient", "standard_error", "statistic", "p", "low", "high"]
    assert [list(row) for row in rows] == [keys] * 5
    values = [[row[key] for key in keys[1:]] for row in rows]
    np.testing.assert_allclose(values, expected_columns(reference, 0.01), rtol=1e-8)
    assert [row["name"] for row in rows] == list(reference.params.index)


def test_nan_is_null_in_json():
    found = replace(small(), coefficients=np.array([np.nan, 1.0]))
    first, second = fitted_table_rows(found)
    assert [first[key] for key in ("coefficient", "p", "low")] == [None] * 3
    assert second["coefficient"] == 1.0


@each("level", [0.0, 1.0, 95.0, float("nan")])
def test_a_level_is_between_0_and_1(level):
    with refused("level-out-of-range", mentions=("0", "1")):
        summary_text(small(), **ABOUT, level=level)


@each(
    ("level", "ends"),
    [
        (0.95, ["[0.025", "0.975]"]),
        (0.5, ["[0.25", "0.75]"]),
        (0.999999, ["[0.0000005", "0.9999995]"]),
    ],
)
def test_headers_name_the_ends_of_the_interval_exactly(level, ends):
    (header,) = (
        line
        for line in summary_text(small(), **ABOUT, level=level).splitlines()
        if "std err" in line
    )
    assert header.split()[-2:] == ends


def test_a_width_is_not_too_small():
    with refused("width-too-small", mentions=("40", "39")):
        summary_text(small(), **ABOUT, width=39)
    assert summary_text(small(), **ABOUT, width=40)


# Numbers


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(1, 12),
)
def test_numbers_are_rounded_and_never_cut(value, digits):
    text = shown_number(value, digits)
    assert rounds_to(text, value)
    shown = Decimal(text)
    # So many digits, or all before the point.
    error = abs(shown - Decimal(value))
    assert error <= abs(Decimal(value)) * Decimal(10) ** (1 - digits)
    assert len(text) <= digits + 8


@each(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1.0000"),
        (9.999996, "10.000"),
        (-99999.96, "-100000"),
        (999999.6, "1.0000e+06"),
        (0.0001, "0.00010000"),
        (0.000099999, "9.9999e-05"),
        (0.00009999999, "0.00010000"),
        (1e300, "1.0000e+300"),
        (5e-324, "4.9407e-324"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_at_the_edges(value, text):
    assert shown_number(value) == text


# Layout

magnitudes = st.floats(1e-280, 1e280) | st.floats(1e-3, 1e4)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=90)


@given(magnitudes, st.sampled_from([78, 100, 140]))
def test_a_table_in_any_unit_has_one_width_and_right_numbers(scale, width):
    """The least wide style has no more than 12 letters a number at any magnitude."""
    found = replace(
        small(),
        coefficients=np.array([scale, -1.0]),
        covariance=np.diag([(scale / 7) ** 2 if scale < 1e140 else 1.0, 1e-6]),
    )
    text = summary_text(found, **ABOUT, width=width)
    rules = {len(line) for line in text.splitlines() if line.startswith("===")}
    assert rules == {width}
    assert max(map(len, text.splitlines())) == width
    for row, values in zip(table_of(text), fitted_table_rows(found), strict=True):
        expected = list(values.values())[1:]
        for cell, value in zip(row[1:], expected, strict=True):
            assert rounds_to(cell, value) if value is not None else cell == "inf"


def is_row(line, rows):
    """Whether a line ends with the six figures of some row."""
    cells = line.split()[-6:]
    if not all(re.fullmatch(r"-?\d+(\.\d+)?(e[-+]\d+)?", cell) for cell in cells):
        return False
    values = [list(row.values())[1:] for row in rows]
    return any(
        len(cells) == 6 and all(map(rounds_to, cells, expected)) for expected in values
    )


@given(texts, texts, st.integers(40, 120))
@example("\u3099", "0", 40)
def test_no_name_breaks_a_table(name, response, width):
    """Figures stay in their places, and every letter of a name is there."""
    found = small(names=[name, name + "!"])
    text = summary_text(found, **{**ABOUT, "response": response}, width=width)
    lines = text.split("\n")
    breadth = len(next(line for line in lines if line.startswith("===")))
    assert all(width_of(line) <= breadth for line in lines)
    body = text.split("\n-----")[1].split("\n=====")[0].split("\n")[1:]
    ends = [line for line in body if is_row(line, fitted_table_rows(found))]
    assert len(ends) == 2
    # The last figures end at the right margin, unless trailing spaces were cut.
    assert all(breadth - 6 <= width_of(line) <= breadth for line in ends)
    letters = "".join("".join(line.split()) for line in body)
    assert "".join(printable(name).split()) in letters
    assert "".join(printable(response).split()) in "".join(text.split())


def test_a_long_name_stands_above_its_figures():
    names = ["C(hospital)[T." + "Saint Mary " * 3 + end for end in ("North]", "South]")]
    lines = summary_text(small(names=names), **ABOUT).splitlines()
    at = lines.index(names[0])
    assert lines[at + 2] == names[1]
    assert [len(lines[at + k].split()) for k in (1, 3)] == [6, 6]


def test_narrow_lines_have_fewer_digits_before_they_are_too_long():
    found = ordinary("longley")[0]
    first = {w: table_of(summary_text(found, **ABOUT, width=w))[0] for w in (72, 78)}
    assert first[72][1:5] == ["-3.482e+06", "890420", "-3.911", "0.00356"]
    assert first[78][1:5] == ["-3.4823e+06", "890420", "-3.9108", "0.00356"]
    assert max(map(len, summary_text(found, **ABOUT, width=72).splitlines())) == 72


def plain_table(headers, rows, align=None):
    return ShownTable(headers, rows, align=align).text(wide=True)


def test_decimal_points_stand_below_each_other():
    cells = [1234.5, -0.001234, 2.5e-9, float("nan"), None, 3]
    text = plain_table(["value"], [[cell] for cell in cells], ".")
    lines = text.splitlines()[2:]
    points = {line.index(".") for line in lines if "." in line}
    assert len(points) == 1
    (point,) = points
    assert [line[:point].strip() for line in lines[3:]] == ["nan", "-", "3"]
    assert [len(line.rstrip()) for line in lines[3:]] == [point] * 3


@given(st.lists(magnitudes | magnitudes.map(lambda x: -x), min_size=1, max_size=8))
def test_aligned_columns_hold_the_same_numbers(values):
    text = plain_table(["name", "v"], [[f"x{k}", v] for k, v in enumerate(values)])
    lines = text.splitlines()[2:]
    rows = [line.split() for line in lines]
    assert [row[0] for row in rows] == [f"x{k}" for k in range(len(values))]
    assert all(rounds_to(row[1], v) for row, v in zip(rows, values, strict=True))
    points = {re.match(r".{4}\s*-?\d+", line).end() for line in lines}
    assert len(points) == 1


def test_a_plain_table_of_every_kind_of_column():
    rows = [
        {"column": "age", "count": 442, "mean": 48.518, "cell": None},
        {"column": "bmi", "count": np.int64(9), "mean": np.float64(1.5e-7)},
    ]
    assert plain_table(["column", "count", "mean", "cell"], rows).splitlines() == [
        "column  count         mean  cell",
        "--------------------------------",
        "age       442  48.518       -",
        "bmi         9   1.5000e-07  -",
    ]


def test_alignment_can_be_chosen():
    rows = [["a", 1, 2.5], ["bbb", 20, 10.0]]
    assert plain_table(["x", "n", "v"], rows, "><>").splitlines() == [
        "  x  n        v",
        "---------------",
        "  a  1   2.5000",
        "bbb  20  10.000",
    ]


def test_a_table_may_have_no_rows():
    assert plain_table(["a", "bb"], []).splitlines() == ["a  bb", "-----"]


@each(
    ("headers", "rows", "align"),
    [
        (["a", "b"], [[1, 2], [1]], None),
        (["a"], [[1, 2]], None),
        (["a", "b"], [[1, 2]], "<"),
        (["a", "b"], [[1, 2]], "<^"),
        ([], [], None),
    ],
    ids=["short row", "long row", "short align", "unknown letter", "nothing"],
)
def test_a_table_of_another_shape_is_refused(headers, rows, align):
    with refused("ragged-table"):
        plain_table(headers, rows, align)


def test_wide_letters_take_two_places_and_accents_none():
    text = plain_table(["name", "n"], [["年齢", 1], ["abcd", 2], ["abce\u0301", 3]])
    assert text.splitlines()[2:] == ["年齢  1", "abcd  2", "abce\u0301  3"]


# Other readers


def test_control_characters_are_shown_and_not_obeyed():
    name = "a\x1b[2J\nb\u202ec"
    text = summary_text(small(names=[name, "x"]), **{**ABOUT, "title": name})
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"a\x1b[2J\nb\u202ec" in text


class Reader(HTMLParser):
    """Collects cells, and every tag that was opened."""

    def __init__(self):
        super().__init__()
        self.tags, self.cells, self.inside = set(), [], False

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.inside = tag in {"td", "th"}
        if self.inside:
            self.cells.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data


def test_html_shows_names_and_obeys_none_of_them():
    bad = "<script>alert('x')</script>&amp;\"|"
    found = small(names=[bad, "x"])
    about = {"title": bad, "response": bad, "n_parties": 2, "law": "lattice"}
    reader = Reader()
    reader.feed(summary_html(found, **about, notes=[bad]))
    assert reader.tags <= {
        *("div", "p", "strong", "table", "thead", "tbody", "tr", "td", "th")
    }
    assert reader.cells.count(bad) == 2
    start = reader.cells.index("0.975]") + 1
    row = reader.cells[start + 7 : start + 14]
    expected = list(fitted_table_rows(found)[1].values())
    assert row[0] == "x"
    assert all(rounds_to(a, b) for a, b in zip(row[1:], expected[1:], strict=True))


def test_html_and_text_say_the_same_facts():
    found, _ = logistic()
    reader = Reader()
    reader.feed(summary_html(found, **ABOUT))
    block = reader.cells[reader.cells.index("Model") :]
    assert dict(zip(block[::2], block[1::2], strict=True)) == facts_of(
        summary_text(found, **ABOUT)
    )
