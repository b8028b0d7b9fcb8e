"""With a canonical link the responses are in two sums: X'Wy, and Pearson's.

The attacks count equations. A sum over rows is one on the responses if it changes with
them, and all sums together leave as many responses open as their matrix has a kernel.
The twins take the sums that every round had before: score, deviance, Pearson's sum.
"""

from fractions import Fraction

import numpy as np
from flint import fmpz_mat

from cases import each
from veilsum.models.choices import (
    ChoiceSearch,
    Multinomial,
    statistics as choice_statistics,
)
from veilsum.models.families import (
    Binomial,
    GammaInverseLink,
    Poisson,
    QuasiBinomial,
    QuasiPoisson,
)
from veilsum.models.newton import Newton
from veilsum.models.rows import ONES, RowMeasures, Rows
from veilsum.numbers.units import UnitMeasure

CANONICAL = {
    "logistic": Binomial(),
    "poisson": Poisson(),
    "quasi-binomial": QuasiBinomial(),
    "quasi-poisson": QuasiPoisson(),
    "gamma-inverse": GammaInverseLink(),
}


class Before(Binomial):
    """The logistic family with responses in every sum, as other links have them."""

    slope = 0.0


AGES = np.arange(20, 70)


def patients(family, seed=0, n=300):
    """Ages in whole years, and a response of the family."""
    rng = np.random.default_rng(seed)
    age = rng.choice(AGES, n).astype(float)
    eta = (age - 45.0) / 20.0
    match family:
        case "logistic":
            response = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        case "quasi-binomial":
            response = rng.integers(0, 11, n) / 10.0
        case "gamma-inverse":
            response = np.maximum(np.round(rng.gamma(4.0, 5.0 / (3.0 + eta)), 1), 0.1)
        case _:
            response = rng.poisson(np.exp(eta / 2.0)).astype(float)
    return age, response


def searched(family, age, response):
    """Return Newton's method, and each request of a fit with its total."""
    rows = Rows.of(np.column_stack([np.ones_like(age), age]), response)
    tenths = family in ("quasi-binomial", "gamma-inverse")
    measures = RowMeasures.of(
        [ONES, UnitMeasure.of(0, 100, Fraction(1))],
        UnitMeasure.of(0, max(response.max(), 1.0), Fraction(1, 10 if tenths else 1)),
        intercept=0,
    )
    newton = Newton(CANONICAL.get(family, Before()), measures, intercept=0)
    state, seen = newton.start(), []
    while not state.converged:
        request = newton.propose(state)
        seen.append((request, newton.statistics(rows, request)))
        state = newton.advance(state, seen[-1][1])
    return newton, seen


def exchanged(age, response):
    """Return other responses with the same X'y: a whole-number kernel vector is added.

    Of four patients at the ages a, a + d, b, b + d the first and the last have 0, the
    others 1; these exchange their responses.
    """
    found, free = response.copy(), set(range(len(age)))
    for k in range(len(age)):
        for d in range(1, 9):
            places = []
            for years, value in ((0, 0), (d, 1), (2 * d, 1), (3 * d, 0)):
                ok = (age == age[k] + years) & (found == value)
                places += [one for one in np.flatnonzero(ok) if one in free][:1]
            if len(places) == 4:
                found[places] = 1.0 - found[places]
                free -= set(places)
                break
    return found


@each("family", CANONICAL)
def test_sums_after_the_first_do_not_change_with_the_responses(family):
    """At the same requests, whatever the responses are, but for Pearson's sum."""
    age, response = patients(family)
    newton, seen = searched(family, age, response)
    design = np.column_stack([np.ones_like(age), age])
    other = Rows.of(design, np.random.default_rng(1).permutation(response))
    for request, total in seen:
        again = newton.statistics(other, request).tolist()
        assert (again != total.tolist()) == (request.stage in ("first", "pearson"))
    last = () if family == "logistic" else ("pearson",)
    assert {"first", "round", *last} <= {request.stage for request, _ in seen}


def test_other_responses_with_the_same_sums_go_the_same_way():
    """All requests and totals are the same but Pearson's: the fit cannot tell them."""
    age, response = patients("logistic")
    other = exchanged(age, response)
    assert (other != response).sum() >= 100
    one, two = (
        searched("logistic", age, response)[1],
        searched("logistic", age, other)[1],
    )
    assert len(one) == len(two)
    for (request, total), (again, found) in zip(one, two, strict=True):
        assert request.stage == again.stage
        assert request.point.tolist() == again.point.tolist()
        assert (total.tolist() == found.tolist()) == (request.stage != "pearson")


def test_the_twin_sums_of_every_round_told_them_apart():
    age, response = patients("logistic")
    other = exchanged(age, response)
    one, two = (searched("before", age, y)[1] for y in (response, other))
    for (request, total), (_, found) in zip(one[1:], two[1:], strict=False):
        assert request.stage == "round"
        assert total.tolist() != found.tolist()


def equations(family):
    """Return the rank of all sums of a fit as equations on the responses by age.

    A row's part in every sum is a whole number that everybody can compute: that of an
    ill patient of an age less that of another one of this age.
    """
    age, response = patients("logistic")
    newton, seen = searched(family, age, response)
    lines = []
    for years in AGES.tolist():
        ill, well = (Rows.of([[1.0, years]], [y]) for y in (1.0, 0.0))
        parts = [
            newton.statistics(ill, request) - newton.statistics(well, request)
            for request, _ in seen
        ]
        lines.append([int(one) for one in np.concatenate(parts)])
    return fmpz_mat(lines).rank()


def test_a_logistic_fit_of_two_coefficients_has_two_equations_on_the_responses():
    assert equations("logistic") == 2


def test_the_twin_with_responses_in_every_sum_there_are_seven_times_as_many():
    """Without Pearson's sums, which were in them too."""
    assert equations("before") >= 14


def test_sums_of_a_multinomial_fit_do_not_change_with_the_responses():
    rng = np.random.default_rng(3)
    design = np.column_stack([np.ones(200), rng.integers(20, 70, 200)])
    codes = rng.integers(0, 3, 200).astype(float)
    measures = RowMeasures.of(
        [ONES, UnitMeasure.of(0, 100, Fraction(1))],
        UnitMeasure.of(0, 2, Fraction(1)),
        intercept=0,
    )
    search = ChoiceSearch(Multinomial(), measures, ("1", "age"), ("a", "b", "c"), 0)
    state, changed = search.start(), []
    while not state.converged:
        request = search.propose(state)
        one, two = (
            choice_statistics(search.scales, Rows.of(design, y), request)
            for y in (codes, rng.permutation(codes))
        )
        changed.append(one.tolist() != two.tolist())
        state = search.advance(state, one)
    assert changed[0]
    assert not any(changed[1:])
    assert len(changed) >= 4
