"""A lying party that puts a false residue into one round of a fit.

The next total is expected in a window around a number that earlier totals give. Windows
are proved for honest rows: after a false total the next honest one may be outside of
its own, and is decoded as another number. So a lie on the way could change the answer,
all later rounds being honest. The last means and cumulants are therefore released
whole, and a total beyond its window ends the run. The twin is a search without that:
residues in the last round, too, and no look at windows. Nothing more is released by
the lie: a residue has the same bits, whatever everybody takes it for.
"""

from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from attacks.test_responses_once import CANONICAL, patients
from cases import each
from veilsum.errors import NumericalError
from veilsum.models.families import Cloglog, Gamma, NegativeBinomial, Probit
from veilsum.models.fineness import Fineness
from veilsum.models.newton import Newton
from veilsum.models.round_planner import RoundPlanner
from veilsum.models.rows import ONES, RowMeasures, Rows
from veilsum.models.weights import collect_row_weights
from veilsum.numbers.units import UnitMeasure

INTERCEPT, FITTED = 3, (3, 4)
# Families whose rounds sum scores, each with one that has the same responses.
SCORED = {
    "probit": (Probit(), "logistic"),
    "cloglog": (Cloglog(), "logistic"),
    "negative binomial": (NegativeBinomial(0.3), "poisson"),
    "gamma": (Gamma(), "gamma-inverse"),
}
FAMILIES = CANONICAL | {name: family for name, (family, _) in SCORED.items()}


def people(family, seed=0):
    return patients(SCORED.get(family, (None, family))[1], seed)


def search(family, response, digits=4):
    """Newton's method of a family, on whole ages."""
    tenths = family in ("quasi-binomial", "gamma-inverse", "gamma")
    measures = RowMeasures.of(
        [ONES, UnitMeasure.of(0, 100, Fraction(1))],
        UnitMeasure.of(0, max(response.max(), 1.0), Fraction(1, 10 if tenths else 1)),
        intercept=0,
    )
    return Newton(FAMILIES[family], measures, intercept=0, digits=digits)


def residues(total, fineness):
    """A total as it is released."""
    pairs = zip(total.tolist(), fineness.residues, strict=True)
    found = [int(one) % (1 << bits) if bits else int(one) for one, bits in pairs]
    return np.array(found, dtype=object)


def fitted(family, lie=None, seed=0):
    """A fit; a liar adds to the residues of rounds, by their number."""
    age, response = people(family, seed)
    rows = Rows.of(np.column_stack([np.ones_like(age), age]), response)
    newton, number = search(family, response), 0
    state = newton.start()
    while not state.converged:
        request = newton.propose(state)
        total = newton.statistics(rows, request)
        if request.fineness is not None:
            total = residues(total, request.fineness)
            if lie is not None:
                more = lie(number, request.fineness)
                total = residues(total + more, request.fineness)
            number += 1
        state = newton.advance(state, total)
    return newton.fit(state)


def on_the_way(number, fineness):
    """What is added to the first round with means: a quarter of its modulus.

    A total that is released whole has none: it gets as much as with residues.
    """
    more = np.zeros(len(fineness.residues), dtype=object)
    if number == 0:
        more[INTERCEPT] = 1 << max(fineness.residues[INTERCEPT], 12) - 2
    return more


def error_of(found, expected):
    """The largest error of a coefficient, in standard errors."""
    errors = np.sqrt(np.diag(expected.covariance))
    return float((abs(found.coefficients - expected.coefficients) / errors).max())


def errors_of_lies(family):
    """Errors of four answers after one lie on the way; a code where the run ended."""
    found = []
    for seed in range(4):
        try:
            lied = fitted(family, on_the_way, seed)
            found.append(error_of(lied, fitted(family, seed=seed)))
        except NumericalError as error:
            found.append(error.code)
    return found


@each("family", ["logistic", *SCORED])
def test_a_false_residue_on_the_way_ends_the_run_or_changes_nothing(family):
    found = errors_of_lies(family)
    # Windows of hazards, which have no largest, are wider than this lie.
    assert "impossible-total" in found or family == "cloglog"
    assert all(one == "impossible-total" or one < 1e-4 for one in found)


@contextmanager
def no_last_look():
    """A search in which the last round has residues, and windows are not looked at."""
    usual = RoundPlanner.with_residues

    def with_residues(planner, fineness, *known):
        found = usual(planner, replace(fineness, last=False), *known)
        return replace(found, last=fineness.last)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoundPlanner, "with_residues", with_residues)
        patch.setattr(Fineness, "check", lambda *_: None)
        yield


def test_without_that_look_the_answer_is_another_one():
    with no_last_look():
        found = errors_of_lies("logistic")
    assert max(found) > 0.1


def outside_of_windows(family="logistic"):
    """Say whether totals just outside of their windows are believed, by kind."""
    age, response = people(family)
    rows = Rows.of(np.column_stack([np.ones_like(age), age]), response)
    newton, found = search(family, response), {"means": [], "variances": []}
    state = newton.start()
    while not state.converged:
        request = newton.propose(state)
        total = newton.statistics(rows, request)
        if (fineness := request.fineness) is not None:
            total = residues(total, fineness)
            places = {"means": FITTED, "variances": (0,) if fineness.matrix else ()}
            for kind, place in ((k, p) for k, few in places.items() for p in few):
                bits, centre = fineness.residues[place], fineness.centres[place]
                beyond = fineness.windows[place] + 1
                if bits and beyond >= 1 << bits - 1:
                    continue
                false = total.copy()
                false[place] = centre + beyond
                found[kind].append(believed(newton, state, residues(false, fineness)))
        state = newton.advance(state, total)
    return found


def believed(newton, state, total):
    """Say whether a search goes on from a total."""
    try:
        newton.advance(state, total)
    except NumericalError:
        return False
    return True


def test_totals_outside_of_their_windows_are_refused():
    found = outside_of_windows()
    assert len(found["means"]) >= 6
    assert len(found["variances"]) >= 2
    assert not any(one for kind in found.values() for one in kind)


@each("family", SCORED)
def test_scores_outside_of_their_windows_are_refused(family):
    found = outside_of_windows(family)["means"]
    assert len(found) >= 4
    assert not any(found)


def test_without_that_look_fitted_means_are_believed():
    with no_last_look():
        assert all(outside_of_windows()["means"])


# Rounds of means alone


def weights_of_means(slope):
    """The row weights that are noted in a round of means, at a point about age 65."""
    age, response = patients("logistic")
    age[0] = 97.0
    newton = search("logistic", response)
    rows = Rows.of(np.column_stack([np.ones_like(age), age]), response)
    state = newton.start()
    while (request := newton.propose(state)).stage != "means":
        state = newton.advance(state, told(newton, rows, request))
    place = newton.scales.measures.design[1].centre
    point = np.array([slope * (place - 97.0), slope, request.point[-1]])
    with collect_row_weights() as noted:
        newton.statistics(rows, replace(request, point=point))
    return noted


def told(newton, rows, request):
    """A round's total as it is released."""
    total = newton.statistics(rows, request)
    return total if request.fineness is None else residues(total, request.fineness)


@each("slope", [1.0, 3.0, 25.0])
def test_a_round_of_means_has_its_weights_checked(slope):
    """No information leaves in it, but its weights are what a party looks at."""
    assert any(one.problem(6) for one in weights_of_means(slope))


def test_a_round_of_means_at_an_ordinary_point_is_answered():
    noted = weights_of_means(0.02)
    assert noted
    assert not any(one.problem(6) for one in noted)


# What the price counts


def parts(layout):
    """Keys, and ranges of a row's part, by place."""
    return [(one.key, of) for one in layout.statistics for of in one.row_ranges()]


def beyond_their_range(family, times=1):
    """Count parts of rows that are outside of the range by which bits are counted."""
    age, response = people(family)
    rows = Rows.of(np.column_stack([np.ones_like(age), age]), response)
    newton, found, seen = search(family, response), 0, 0
    ends = {response.min(), response.max()}
    several = [
        Rows.of([[1.0, years]], [one])
        for years in (0.0, 20.0, 45.0, 50.0, 69.0, 100.0)
        for one in sorted(ends)
    ]
    state = newton.start()
    while not state.converged:
        request = newton.propose(state)
        known = parts(newton.scales.layout(request.stage, request.fineness))
        for one in several:
            try:
                vector = newton.statistics(one, request).tolist()
            except NumericalError:  # no row of this table has this age
                continue
            for number, (key, of) in zip(vector, known, strict=True):
                seen += 1
                if not key:
                    found += number != 0
                elif key != "rows" and of.low is not None:
                    found += not of.low <= times * number <= of.high
        state = newton.advance(state, told(newton, rows, request))
    assert seen > 100
    return found


@each("family", FAMILIES)
def test_no_row_adds_more_to_a_number_than_its_price_counts(family):
    """Positions that are not listed are 0."""
    assert beyond_their_range(family) == 0


def test_ranges_are_close_to_what_rows_add():
    """The twin: rows that add eight times as much are seen."""
    assert beyond_their_range("logistic", times=8) > 0
