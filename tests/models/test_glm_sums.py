"""Rounds of whole numbers: totals that tell only the sum, and the digits they leave."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import arb, arb_mat, ctx

from cases import each
from refusals import refused
from veilsum.models import glm, rows
from veilsum.models.families import (
    Binomial,
    Cloglog,
    Gamma,
    GammaInverseLink,
    InverseGaussian,
    NegativeBinomial,
    Poisson,
    Probit,
    QuasiBinomial,
)
from veilsum.models.fineness import Fineness
from veilsum.models.glm import GlmRequest, glm_statistics
from veilsum.models.newton import Newton
from veilsum.models.rows import RowMeasures, Rows
from veilsum.numbers import compiled, units
from veilsum.numbers.units import UnitMeasure

FAMILIES = {
    "logistic": Binomial(),
    "poisson": Poisson(),
    "negative binomial": NegativeBinomial(0.7),
    "gamma": Gamma(),
    "inverse": GammaInverseLink(),
    "probit": Probit(),
    "cloglog": Cloglog(),
    "quasi-binomial": QuasiBinomial(),
    "inverse gaussian": InverseGaussian(),
}
every_family = pytest.mark.parametrize("name", FAMILIES)


def response_of(name, rng, eta):
    match name:
        case "logistic" | "probit" | "cloglog" | "quasi-binomial":
            return (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        case "poisson" | "negative binomial":
            return rng.poisson(np.exp(eta)).astype(float)
        case "gamma":
            return rng.gamma(3.0, np.exp(eta) / 3.0)
        case "inverse gaussian":
            return rng.wald(1.0 / np.sqrt(4.0 + np.tanh(eta)), 8.0)
        case _:
            return rng.gamma(3.0, 1.0 / (4.0 + np.tanh(eta)) / 3.0)


def table(name, seed=0, n=60):
    """Return a design with an intercept, and a response."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 2))
    design = np.column_stack([np.ones(n), z])
    response = response_of(name, rng, design @ [0.3, 0.4, -0.5])
    return design, response


def rounds(newton, parties):
    """Return the fit, and of every round its request and all parties' answers."""
    state, seen = newton.start(), []
    while not state.converged:
        request = newton.propose(state)
        answers = [glm_statistics(newton.scales, part, request) for part in parties]
        seen.append((request, answers))
        state = newton.advance(state, sum(answers))
    return newton.fit(state), seen


def measured(family, parties):
    held = {str(k): part for k, part in enumerate(parties)}
    return Newton(
        family, RowMeasures.inferred(held, 0, positive=family.positive), intercept=0
    )


# Who holds which row


@every_family
def test_totals_do_not_depend_on_blocks_or_order(name, monkeypatch):
    """Neither the order of rows, nor blocks, nor loops by arrays change one bit."""
    monkeypatch.setattr(compiled, "WORTH_LOADING", 0)
    n, rng = 700, np.random.default_rng(5)
    design, response = table(name, n=n)
    extras = {"weights": rng.uniform(0.5, 3.0, n), "offset": 0.3 * rng.random(n)}
    whole = Rows.of(design, response, **extras)
    newton = measured(FAMILIES[name], [whole])
    fit, seen = rounds(newton, [whole])
    order = np.arange(n)[::-1]
    turned = Rows.of(
        design[order],
        response[order],
        **{what: values[order] for what, values in extras.items()},
    )
    for module in (units, rows, glm):
        monkeypatch.setattr(module, "BLOCK_ROWS", 96)
        monkeypatch.setattr(module, "compiled_or_plain", lambda *_: None)
    monkeypatch.setattr(glm, "PIECES", 3)
    again = measured(FAMILIES[name], [whole])
    other, others = rounds(again, [turned])
    for (request, answers), (asked, found) in zip(seen, others, strict=True):
        assert request.point.tolist() == asked.point.tolist()
        assert sum(answers).tolist() == sum(found).tolist()
    assert fit.coefficients.tolist() == other.coefficients.tolist()


@every_family
def test_all_totals_fit_the_bits_that_were_agreed(name):
    """At rows that are all at an edge of the ranges, of which there are many."""
    n = 64
    design = np.column_stack([np.ones(n), np.where(np.arange(n) % 2, 1.0, -1.0)])
    edges = [0.5, 20.0]
    if name in ("logistic", "poisson", "probit", "cloglog", "quasi-binomial"):
        edges = [0.0, 1.0]
    if name == "negative binomial":
        edges = [0.0, 20.0]
    response = np.array(edges)[(np.arange(n) // 2) % 2]
    measures = RowMeasures.of(
        [UnitMeasure(Fraction(1), 1, 1), UnitMeasure.of(-1, 1)],
        UnitMeasure.of(min(edges), max(edges), Fraction(1, 2)),
        intercept=0,
        row_bits=6,
    )
    newton = Newton(FAMILIES[name], measures, intercept=0)
    scales, limits = newton.scales, newton.scales.limits
    held = Rows.of(design, response)
    for eta in (limits.low, limits.high):
        # Just inside, whatever the link.
        at = np.nextafter(eta, 0.0 if limits.low < 0.0 < limits.high else 1.0)
        for request in (
            GlmRequest("first", np.empty(0)),
            GlmRequest("round", np.array([at, 0.0, at])),
            GlmRequest("pearson", np.array([at, 0.0, at])),
            GlmRequest("closing", np.array([at, 0.0, 1.0])),
        ):
            if request.stage == "closing" and not FAMILIES[name].closes:
                continue
            found = glm_statistics(scales, held, request)
            assert max(abs(one).bit_length() for one in found) < scales.counts.bits


@each("seed", range(20))
def test_no_round_shows_one_party(seed):
    """Nobody sends zeros because of its rows: either all send statistics, or none.

    The column of one party reaches where 1 / mu has no mean at first trials. Once such
    a party sent zeros, and the sum over all was that of the others, or of one.
    """
    rng = np.random.default_rng(seed)
    x = rng.exponential(1.0, 90)
    x[:5] = -0.45
    design = np.column_stack([np.ones(90), x])
    response = rng.gamma(0.7, 1.0 / (0.5 + x) / 0.7)
    parties = [
        Rows.of(design[own], response[own])
        for own in (slice(0, 10), slice(10, 40), slice(40, 90))
    ]
    pooled = Rows.of(design, response)
    newton = measured(GammaInverseLink(), parties)
    _, seen = rounds(newton, parties)
    places = len(newton.scales.counts.units)
    for request, answers in seen:
        if request.stage == "outside":
            # What is not asked for is zero, of everybody.
            assert not any(answer[: places - 2].any() for answer in answers)
            continue
        assert all(answer.any() for answer in answers)
        mine = [glm_statistics(newton.scales, part, request) for part in parties]
        assert [one.tolist() for one in mine] == [one.tolist() for one in answers]
        everything = glm_statistics(newton.scales, pooled, request)
        assert sum(answers).tolist() == everything.tolist()


def asked(newton, parties):
    _, seen = rounds(newton, parties)
    return [request.stage for request, _ in seen], seen


def test_rows_outside_are_asked_for_before_statistics():
    """In wide ranges a point proves nothing; then its count of rows comes first."""
    design, response = table("inverse", n=120)
    wide = RowMeasures.of(
        [
            UnitMeasure(Fraction(1), 1, 1),
            UnitMeasure.of(-1000, 1000),
            UnitMeasure.of(-1000, 1000),
        ],
        UnitMeasure.of(0, 100, Fraction(1, 10**6)),
        intercept=0,
    )
    parts = [Rows.of(design[k::3], response[k::3]) for k in range(3)]
    newton = Newton(GammaInverseLink(), wide, intercept=0)
    stages, seen = asked(newton, parts)
    assert stages[:3] == ["first", "outside", "round"]
    # Small steps away from a point without rows outside need no question.
    assert stages[-3:] == ["last", "pearson", "closing"]
    for request, answers in seen:
        if request.stage == "outside":
            assert newton.scales.outside(sum(answers)).model == 0
    narrow, _ = asked(measured(GammaInverseLink(), parts), parts)
    assert "outside" not in narrow


@pytest.mark.usefixtures("unchecked_shapes")
def test_where_rows_are_outside_the_step_is_halved():
    """Rows at which 1 / mu would be below zero: nothing of them but their number."""
    halved = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        x = rng.exponential(1.0, 60)
        design = np.column_stack([np.ones(60), x])
        response = np.maximum(rng.gamma(1.0, 1.0 / (0.05 + 2.0 * x)), 1e-6)
        parts = [Rows.of(design[k::3], response[k::3]) for k in range(3)]
        newton = measured(GammaInverseLink(), parts)
        _, seen = asked(newton, parts)
        for (request, answers), (after, _) in pairwise(seen):
            if request.stage == "outside" and sum(answers)[-1]:
                halved += 1
                assert after.stage in ("outside", "round", "means", "last")
                assert not np.array_equal(request.point, after.point)
    assert halved >= 3


def test_logistic_fits_never_ask():
    design, response = table("logistic", n=200)
    wide = [UnitMeasure(Fraction(1), 1, 1), *[UnitMeasure.of(-1e4, 1e4)] * 2]
    measures = RowMeasures.of(wide, UnitMeasure(Fraction(1), 0, 1), intercept=0)
    newton = Newton(Binomial(), measures, intercept=0)
    stages, _ = asked(newton, [Rows.of(design, response)])
    assert "outside" not in stages


# Digits, against arb


def exact_fit(name, family, design, response):
    """Return coefficients, standard errors and log-likelihood, to a hundred digits."""
    ctx.prec = 400
    p = design.shape[1]
    x = [[arb(one) for one in line] for line in design.tolist()]
    y = [arb(one) for one in response.tolist()]
    b = [arb(one) for one in start_of(name, design, response)]
    alpha = arb(family.alpha) if name == "negative binomial" else arb(0)
    for _ in range(60):
        score, bend = [arb(0)] * p, [[arb(0)] * p for _ in range(p)]
        fisher = [[arb(0)] * p for _ in range(p)]
        loglik, pearson = arb(0), arb(0)
        for line, one in zip(x, y, strict=True):
            eta = sum((u * v for u, v in zip(line, b, strict=True)), arb(0))
            mu = mean_of(name, eta)
            found = row_of(name, alpha, one, mu, eta)
            pull, observed, expected, variance, log_law = found
            loglik += log_law
            pearson += (one - mu) ** 2 / variance
            for j in range(p):
                score[j] += pull * line[j]
                for k in range(p):
                    bend[j][k] += observed * line[j] * line[k]
                    fisher[j][k] += expected * line[j] * line[k]
        step = arb_mat(bend).solve(arb_mat([[one] for one in score])).entries()
        b = [(one + by).mid() for one, by in zip(b, step, strict=True)]
        if max(abs(float(one)) for one in step) < 1e-60:
            break
    phi = pearson / (len(y) - p) if name in DISPERSED else arb(1)
    inverse = arb_mat(fisher).inv()
    errors = [float((phi * inverse[k, k]).sqrt()) for k in range(p)]
    return np.array([float(one) for one in b]), np.array(errors), float(loglik)


DISPERSED = ("gamma", "inverse", "inverse gaussian", "quasi-binomial")


def start_of(name, design, response):
    level = response.mean()
    first = np.log(level)
    if name in ("logistic", "quasi-binomial"):
        first = np.log(level / (1.0 - level))
    elif name in ("inverse", "inverse gaussian"):
        first = level ** (-1.0 if name == "inverse" else -2.0)
    return [first, *[0.0] * (design.shape[1] - 1)]


def mean_of(name, eta):
    match name:
        case "logistic" | "quasi-binomial":
            return 1 / (1 + (-eta).exp())
        case "probit":
            return (-eta / arb(2).sqrt()).erfc() / 2
        case "cloglog":
            return -(-eta.exp()).expm1()
        case "inverse":
            return 1 / eta
        case "inverse gaussian":
            return 1 / eta.sqrt()
        case _:
            return eta.exp()


def row_of(name, alpha, y, mu, eta):
    """Return pull, observed and expected information, variance, log of the law."""
    match name:
        case "logistic" | "quasi-binomial":
            bend = mu * (1 - mu)
            return y - mu, bend, bend, bend, (mu if y == 1 else 1 - mu).log()
        case "probit" | "cloglog":
            happens = y == 1
            variance, chance = mu * (1 - mu), mu if happens else 1 - mu
            if name == "probit":
                slope = (-eta * eta / 2).exp() / (2 * arb.pi()).sqrt()
                bend = -eta * slope
            else:
                slope = eta.exp() * (1 - mu)
                bend = slope * (1 - eta.exp())
            pull = slope / chance if happens else -slope / chance
            turn = bend / chance if happens else -bend / chance
            return pull, pull * pull - turn, slope**2 / variance, variance, chance.log()
        case "inverse gaussian":
            return (mu - y) / 2, mu**3 / 4, mu**3 / 4, mu**3, arb(0)
        case "poisson":
            law = y * mu.log() - mu - (y + 1).lgamma()
            return y - mu, mu, mu, mu, law
        case "negative binomial":
            share, n = 1 / (1 + alpha * mu), 1 / alpha
            law = (y + n).lgamma() - n.lgamma() - (y + 1).lgamma()
            law += y * (alpha * mu * share).log() + n * share.log()
            bend = mu * (1 + alpha * y) * share**2
            return (y - mu) * share, bend, mu * share, mu * (1 + alpha * mu), law
        case "gamma":
            return (y - mu) / mu, y / mu, arb(1), mu**2, arb(0)
        case _:
            return mu - y, mu**2, mu**2, mu**2, arb(0)


def declared(design, response):
    """Return the same numbers with four decimals, and measures that say so."""
    design, response = design.round(4), response.round(4)
    ten = Fraction(1, 10**4)
    columns = [
        UnitMeasure.of(float(one.min()) - 1.0, float(one.max()) + 1.0, ten)
        for one in design.T
    ]
    columns[0] = UnitMeasure(Fraction(1), 1, 1)
    measure = UnitMeasure.of(float(response.min()), float(response.max()) + 1.0, ten)
    return design, response, RowMeasures.of(columns, measure, intercept=0)


@every_family
def test_declared_units_leave_all_digits(name):
    design, response = table(name, n=50)
    if FAMILIES[name].positive:
        response = np.maximum(response, 0.01)
    design, response, measures = declared(design, response)
    newton = Newton(FAMILIES[name], measures, intercept=0)
    found, _ = rounds(newton, [Rows.of(design, response)])
    b, errors, loglik = exact_fit(name, FAMILIES[name], design, response)
    np.testing.assert_allclose(found.coefficients, b, rtol=1e-11)
    np.testing.assert_allclose(found.standard_errors, errors, rtol=1e-10)
    if name not in DISPERSED:
        assert found.log_likelihood == pytest.approx(loglik, rel=1e-13)


@every_family
@pytest.mark.parametrize("tilt", [1.0, 2e-3])
def test_inferred_units_leave_nine_digits(name, tilt):
    """Columns that differ by 2e-3 of their size: a design with a condition of 1e3."""
    design, response = table(name, n=200)
    design[:, 2] = design[:, 1] + tilt * design[:, 2]
    if tilt < 1.0:
        sizes = np.linalg.norm(design - design.mean(axis=0), axis=0)[1:]
        scaled = (design - design.mean(axis=0))[:, 1:] / sizes
        assert np.linalg.cond(scaled) == pytest.approx(1e3, rel=0.2)
    newton = measured(FAMILIES[name], [Rows.of(design, response)])
    found, _ = rounds(newton, [Rows.of(design, response)])
    b, errors, _ = exact_fit(name, FAMILIES[name], design, response)
    np.testing.assert_allclose(found.coefficients, b, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, errors, rtol=1e-9)


@pytest.mark.parametrize(("mean", "decimals"), [(1e6, 4), (2e5, 6), (1e8, 3)])
def test_a_column_far_from_zero_is_no_combination_of_ones(mean, decimals):
    """With a deviation of 1: centred, it is a column like any other."""
    design, response = table("logistic", n=80)
    near = design.round(decimals)
    far = (near + np.array([0.0, mean, 0.0])).round(decimals)
    fits = []
    for columns in (near, far):
        held = [Rows.of(columns, response)]
        fits.append(rounds(measured(Binomial(), held), held)[0])
    plain, found = fits
    np.testing.assert_allclose(
        found.coefficients[1:], plain.coefficients[1:], rtol=1e-9
    )
    np.testing.assert_allclose(
        found.standard_errors[1:], plain.standard_errors[1:], rtol=1e-9
    )


def test_a_misclassified_row_counts_for_what_it_costs():
    """One row at an eta of 48 on the wrong side: its loss is 48, not 30."""
    x = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 400.0])
    y = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    held = Rows.of(np.column_stack([np.ones(7), x]), y)
    newton = measured(Binomial(), [held])
    scales = newton.scales
    unit, centre = (
        newton.scales.measures.design[1].unit,
        newton.scales.measures.design[1].centre,
    )
    slope = float(unit) * 0.12
    point = np.array([slope * centre, slope, 0.0])
    request = GlmRequest("last", point, Fineness((0, 0, 0), (0, 0), last=True))
    first = scales.first(glm_statistics(scales, held, newton.propose(newton.start())))
    means = scales.means(glm_statistics(scales, held, request), request.fineness)
    found = scales.round_of_means(
        *(means, first, point, means.information, request.fineness)
    )
    eta = 0.12 * x
    expected = 2.0 * np.logaddexp(0.0, np.where(y > 0.5, -eta, eta)).sum()
    assert eta[-1] > 30.0
    assert float(found.deviance) == pytest.approx(expected, rel=1e-12)


def test_a_row_that_an_offset_puts_far_on_the_wrong_side_keeps_its_loss():
    design, response = table("logistic", n=60)
    offset = np.zeros(60)
    offset[0], response[0] = 60.0, 0.0
    held = [Rows.of(design, response, offset=offset)]
    found, _ = rounds(measured(Binomial(), held), held)
    eta = design @ found.coefficients + offset
    losses = np.logaddexp(0.0, np.where(response > 0.5, -eta, eta))
    assert losses[0] > 55.0
    assert found.log_likelihood == pytest.approx(-losses.sum(), rel=1e-12)
    # Not summed of responses 0 and 1.
    assert np.isnan(found.pearson)


def test_a_negative_binomial_of_a_tiny_alpha_is_a_poisson_law():
    design, response = table("poisson", n=80)
    held = [Rows.of(design, response)]
    plain, _ = rounds(measured(Poisson(), held), held)
    for alpha in (1e-300, 1e-14):
        found, _ = rounds(measured(NegativeBinomial(alpha), held), held)
        np.testing.assert_allclose(found.coefficients, plain.coefficients, rtol=1e-11)
        assert found.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-12)


@pytest.mark.parametrize("name", ["gamma", "inverse"])
@pytest.mark.parametrize("scale", [1e-12, 1e9])
def test_responses_of_any_size_have_the_same_slopes(name, scale):
    design, response = table(name, n=80)
    family, held = FAMILIES[name], [Rows.of(design, response)]
    plain, _ = rounds(measured(family, held), held)
    held = [Rows.of(design, scale * response)]
    found, _ = rounds(measured(family, held), held)
    slopes = found.coefficients[1:] * (scale if name == "inverse" else 1.0)
    np.testing.assert_allclose(slopes, plain.coefficients[1:], rtol=1e-8)
    assert found.dispersion == pytest.approx(plain.dispersion, rel=1e-8)


def test_a_closing_total_has_a_triangle_and_a_number():
    newton = measured(Gamma(), [Rows.of(*table("gamma"))])
    scales = newton.scales
    vector = np.zeros(scales.size, dtype=object)
    vector[:6], vector[-2] = range(6), 5 << scales.numbers[-1]
    closing = scales.closing(vector)
    assert closing.information.tolist() == [[0, 1, 3], [1, 2, 4], [3, 4, 5]]
    assert closing.saturated == 5


# What is refused before anything is shown


def test_a_response_that_rounds_to_nothing_is_refused():
    """A gamma regression of 1e-9, counted in hundredths."""
    measures = RowMeasures.of(
        [UnitMeasure(Fraction(1), 1, 1)],
        UnitMeasure.of(0, 10, Fraction(1, 100)),
        intercept=0,
    )
    newton = Newton(Gamma(), measures, intercept=0)
    newton.scales.check(Rows.of(np.ones((2, 1)), [0.01, 3.0]))
    with refused("response-not-positive", ValueError):
        newton.scales.check(Rows.of(np.ones((2, 1)), [1e-9, 3.0]))


def test_weights_that_round_to_nothing_are_refused():
    measures = RowMeasures.of(
        [UnitMeasure(Fraction(1), 1, 1)],
        UnitMeasure.of(0, 10, Fraction(1)),
        intercept=0,
        weights=UnitMeasure.of(0, 5, Fraction(1, 10)),
    )
    newton = Newton(Poisson(), measures, intercept=0)
    with refused("weights-too-small", ValueError):
        newton.scales.check(Rows.of(np.ones((2, 1)), [1.0, 3.0], weights=[1.0, 1e-3]))


def test_ranges_too_wide_to_sum_are_refused():
    measures = RowMeasures.of(
        [UnitMeasure(Fraction(1), 1, 1)],
        UnitMeasure.of(1e-60, 1e60, bits=390),
        intercept=0,
    )
    with refused("range-too-wide", ValueError):
        Newton(Gamma(), measures, intercept=0)


@pytest.mark.parametrize(
    ("offsets", "inside"), [(None, True), ((0, 1), True), ((-1, 0), False)]
)
def test_ranges_prove_a_point_inside_with_the_offset_added(offsets, inside):
    """1 / mu must stay above 0: between 0.5 and 1.5, an offset of -1 leaves it."""
    measures = RowMeasures.of(
        [UnitMeasure(Fraction(1), 1, 1), UnitMeasure.of(-1, 1)],
        UnitMeasure.of(0, 100, Fraction(1, 10**6)),
        offset=None if offsets is None else UnitMeasure.of(*offsets),
        intercept=0,
    )
    scales = Newton(GammaInverseLink(), measures, intercept=0).scales
    counted = np.array([1.0, 0.5 * float(scales.measures.design[1].unit), 1.0])
    assert scales.surely_inside(counted, None) is inside
