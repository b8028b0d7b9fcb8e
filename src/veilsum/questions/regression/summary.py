"""Tables that people read: a fit as text or HTML.

Numbers are rounded to significant digits and never cut. Names are never shortened: two
levels of a category often differ in their last letters only. Names may come from other
parties, so what could steer a terminal or a browser is shown, not obeyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import isnan
from typing import Any, TypeAlias

import numpy as np

from veilsum.errors import InvalidInputError, printable
from veilsum.fits.fitted import P_DIGITS
from veilsum.masks.laws import LAWS
from veilsum.models.choices import ChoiceFit
from veilsum.models.glm import GlmFit
from veilsum.models.least_squares import LeastSquaresFit
from veilsum.showing import (
    DIGITS,
    GAP,
    LEAST_ROOM,
    Rendering,
    ShownTable,
    fill_to_width,
    padded_shown_column,
    shown_number,
    shown_table_lines,
    terminal_width,
    wrapped_lines,
)

Fit: TypeAlias = LeastSquaresFit | GlmFit
Facts: TypeAlias = list[tuple[str, str]]

# What standard errors rest on, in words; all others are robust.
ERRORS = {"model": "of the model", "cluster": "clustered by party"}
LIKELIHOOD_DIGITS = 7  # what counts is a difference of two, not their ratio
# How coefficients are written, the first that fits: digits, and how they line up.
STYLES = ((DIGITS, "."), (4, "."), (DIGITS, ">"), (4, ">"))
LEAST_WIDTH = 40
# Columns of unit length with a condition of 1000; the scaled system has its square.
NEARLY_DEPENDENT = 1e6
# What rounding to units may have changed, beside a coefficient or its error.
NOTED_ROUNDING = 1e-9


def summary_text(
    fit: Fit,
    *,
    title: str,
    response: str,
    n_parties: int,
    law: str,
    notes: Sequence[str] = (),
    level: float = 0.95,
    width: int = 78,
    exponentiate: bool = False,
) -> str:
    """Return the summary of a fit as plain text.

    `law` is that of the masks and `level` that of the intervals; `notes` say what was
    released. Lines have `width` letters, unless the numbers need more. `exponentiate`
    adds exp(coefficient), such as an odds ratio, and gives the interval on its scale.
    """
    if width < LEAST_WIDTH:
        raise InvalidInputError(
            f"width must be {LEAST_WIDTH} or more, found {width}",
            code="width-too-small",
        )
    rows = _regression_coefficient_lines(
        fit, level, exponentiate=exponentiate, width=width
    )
    breadth = max(width, *map(terminal_width, rows))
    facts = _regression_summary_facts(
        fit, response=response, n_parties=n_parties, law=law
    )
    blocks = [
        _centred_summary_lines(title, breadth),
        _regression_fact_lines(*facts, breadth),
        rows,
    ]
    lines = [line for block in blocks for line in (*block, "=" * breadth)]
    remarks = [*notes, *_regression_summary_remarks(fit, exponentiate=exponentiate)]
    return "\n".join([*lines, *_regression_note_lines(remarks, breadth)])


def summary_html(
    fit: Fit,
    *,
    title: str,
    response: str,
    n_parties: int,
    law: str,
    notes: Sequence[str] = (),
    level: float = 0.95,
    exponentiate: bool = False,
) -> str:
    """Return the summary of a fit for a notebook; arguments as in `summary_text`."""
    figures = _regression_summary_columns(fit, level, exponentiate=exponentiate)
    facts = _regression_summary_facts(
        fit, response=response, n_parties=n_parties, law=law
    )
    remarks = [*notes, *_regression_summary_remarks(fit, exponentiate=exponentiate)]
    rows = [*zip(fit.names, *figures.values(), strict=True)]
    return Rendering(
        title,
        [
            ShownTable(["", *figures], rows, align="<" + ">" * len(figures)),
            ShownTable([""] * 4, [(*a, *b) for a, b in zip(*facts, strict=True)]),
            *remarks,
        ],
    ).html()


def regression_ratio_rows(fit: Fit, level: float = 0.95) -> list[dict[str, Any]]:
    """Return exp of coefficients with intervals on that scale.

    Keys: name, then what the ratio is called, low and high.
    """
    called = regression_ratio_name(fit).split(" (")[0].split(" ", 1)[1]
    ends = fit.confidence_intervals(level).T
    with np.errstate(over="ignore"):
        columns = np.exp([fit.coefficients, *ends]).T.tolist()
    return [
        {"name": name, called: ratio, "low": low, "high": high}
        for name, (ratio, low, high) in zip(fit.names, columns, strict=True)
    ]


def _regression_summary_facts(
    fit: Fit, *, response: str, n_parties: int, law: str
) -> tuple[Facts, Facts]:
    """Return what stands above the table: of the run, and as much of the fit."""
    run = [
        ("Model", _regression_model_words(fit)),
        ("Response", printable(response)),
        ("Observations", str(fit.n_rows)),
        ("Parties", str(n_parties)),
        ("Residual degrees", _regression_degrees_words(fit.residual_degrees)),
        ("Coefficients", _regression_degrees_words(fit.model_degrees)),
        ("Errors", ERRORS.get(fit.errors, f"robust ({fit.errors})")),
        ("Method", f"sum under masks ({law})" if LAWS[law].hides else "sum, no masks"),
    ]
    likelihood = [
        ("Log-likelihood", shown_number(fit.log_likelihood, LIKELIHOOD_DIGITS)),
        ("AIC", shown_number(fit.aic, LIKELIHOOD_DIGITS)),
        ("BIC", shown_number(fit.bic, LIKELIHOOD_DIGITS)),
    ]
    if isnan(fit.log_likelihood):  # a mean and a variance are no law
        likelihood = [(name, "none") for name, _ in likelihood]
    steps = "1" if isinstance(fit, LeastSquaresFit) else str(fit.rounds)
    likelihood.append(("Iterations", steps))
    return run, [*_regression_fit_quality(fit), *likelihood]


def _regression_fit_quality(fit: Fit) -> Facts:
    if isinstance(fit, ChoiceFit):
        return [
            ("Deviance", shown_number(fit.deviance)),
            ("Null deviance", shown_number(fit.null_deviance)),
            ("McFadden R-squared", shown_number(fit.mcfadden)),
            ("Levels", str(len(fit.levels))),
        ]
    if isinstance(fit, GlmFit):
        pearson = "not released" if isnan(fit.pearson) else shown_number(fit.pearson)
        return [
            ("Deviance", shown_number(fit.deviance)),
            ("Null deviance", shown_number(fit.null_deviance)),
            ("Dispersion", shown_number(fit.dispersion)),
            ("Pearson chi-squared", pearson),
        ]
    return [
        (f"R-squared{fit.about}", shown_number(fit.r_squared)),
        (f"Adj. R-squared{fit.about}", shown_number(fit.adjusted_r_squared)),
        ("Residual std. error", shown_number(fit.residual_variance**0.5)),
        ("Condition number", f"{fit.condition:.1e}"),
    ]


def _regression_model_words(fit: Fit) -> str:
    if isinstance(fit, LeastSquaresFit):
        return "least squares"
    return fit.family.label


def _regression_degrees_words(value: float) -> str:
    # Not whole under a ridge, nor, by a little, if masks were rounded.
    whole = abs(value - round(value)) < 1e-6
    return str(round(value)) if whole else shown_number(value)


def _regression_summary_columns(
    fit: Fit, level: float, *, exponentiate: bool, digits: int = DIGITS
) -> dict[str, list[str]]:
    """Return the columns of the table of coefficients by their headers."""
    low, high = fit.confidence_intervals(level).T
    tail = (1 - Decimal(str(level))) / 2
    test = "z" if fit.t_degrees is None else "t"
    columns = {"coef": fit.coefficients, "std err": fit.standard_errors}
    columns |= {test: fit.statistics, f"P>|{test}|": fit.p_values}
    if exponentiate and regression_ratio_name(fit):
        with np.errstate(over="ignore"):
            columns["exp(coef)"], low, high = np.exp([fit.coefficients, low, high])
    columns |= {f"[{tail.normalize():f}": low, f"{(1 - tail).normalize():f}]": high}
    return {
        header: [
            shown_number(x, P_DIGITS if header[0] == "P" else digits) for x in column
        ]
        for header, column in columns.items()
    }


def regression_ratio_name(fit: Fit) -> str:
    """Return what exp(coefficient) is called; refuse where it means nothing."""
    if isinstance(fit, GlmFit) and (ratio := fit.family.ratio):
        return ratio
    raise InvalidInputError(
        "exp(coefficient) is a ratio in logistic regressions and those with a log "
        f"link only, found {_regression_model_words(fit)}: leave out exponentiate",
        code="not-a-ratio",
    )


def _regression_summary_remarks(fit: Fit, *, exponentiate: bool) -> list[str]:
    """Return what the numbers themselves give reason to say."""
    remarks = []
    if exponentiate:
        remarks.append(
            f"exp(coef) is {regression_ratio_name(fit)}, and the interval is that of "
            "exp(coef); "
            f"std err and {'z' if fit.t_degrees is None else 't'} are those of coef."
        )
    if fit.condition > NEARLY_DEPENDENT:
        remarks.append(
            f"The columns are nearly dependent, condition number {fit.condition:.1e}: "
            "single coefficients may have large standard errors."
        )
    if isinstance(fit, LeastSquaresFit) and fit.rounding > NOTED_ROUNDING:
        remarks.append(
            "Numbers were rounded to their units before they were summed, which moves "
            f"coefficients by at most {fit.rounding:.1e} of their size or standard "
            "error; finer units, or more bits for terms, make that less."
        )
    if fit.model_degrees < len(fit.names) - 1e-6:
        bias = "A ridge pulls coefficients towards 0; intervals do not allow for that."
        remarks.append(bias)
    if fit.errors == "cluster":
        remarks.append(
            "Errors are clustered by party: parties may differ as a whole, and tests "
            f"are Student's with {fit.t_degrees:g} degrees, one less than parties."
        )
    if not fit.covariance.any():
        remarks.append("The fit is perfect: its tests and intervals mean nothing.")
    return remarks


def _regression_coefficient_lines(
    fit: Fit, level: float, *, exponentiate: bool, width: int
) -> list[str]:
    """Return the table in the first style that leaves room for names."""
    names = padded_shown_column("", list(map(printable, fit.names)), "<")
    room = min(terminal_width(names[0]), LEAST_ROOM)
    for digits, way in STYLES:
        figures = _regression_summary_columns(
            fit, level, exponentiate=exponentiate, digits=digits
        )
        columns = [
            padded_shown_column(header, cells, way) for header, cells in figures.items()
        ]
        if room + sum(len(GAP + column[0]) for column in columns) <= width:
            break
    return shown_table_lines([names, *columns], width)


def _regression_fact_lines(run: Facts, quality: Facts, width: int) -> list[str]:
    """Return two columns of facts; a pair that does not fit gets lines of its own."""
    half = (width - len(GAP)) // 2
    lines: list[str] = []
    for pair in zip(run, quality, strict=True):
        texts = [
            f"{a}: {fill_to_width(b, half - len(a) - 2, left=False)}" for a, b in pair
        ]
        fits = all(terminal_width(text) <= half for text in texts)
        alone = [piece for text in texts for piece in wrapped_lines(text, width)]
        lines += [GAP.join(texts)] if fits else alone
    return lines


def _centred_summary_lines(title: str, width: int) -> list[str]:
    return [line.center(width).rstrip() for line in wrapped_lines(title, width)]


def _regression_note_lines(notes: Sequence[str], width: int) -> list[str]:
    texts = [f"[{k}] {note}" for k, note in enumerate(notes, start=1)]
    lines = [
        line for text in texts for line in wrapped_lines(text, width, indent="    ")
    ]
    return ["Notes:", *lines] if lines else []
