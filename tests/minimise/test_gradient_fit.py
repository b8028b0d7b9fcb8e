"""Regressions by gradient steps under affine masks, against statsmodels."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cases import each
from later import Later
from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.rows import FEATURES, RESPONSES, SPLIT, glm_cost
from veilsum.minimise.gradient_fit import (
    ESTIMATES,
    STEP,
    fit_by_gradients,
)
from veilsum.models.families import Binomial
from veilsum.models.rows import Rows

sm = Later("statsmodels.api")

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

THEIRS = {
    "gaussian": lambda: sm.families.Gaussian(),
    "logistic": lambda: sm.families.Binomial(),
    "poisson": lambda: sm.families.Poisson(),
}
PARTIES = ("north", "east", "south", "west", "centre")
NAMES = ["const", "age", "dose"]
every_family = pytest.mark.parametrize("family", THEIRS)


def pooled_rows(family, *, extras=False, n=150, seed=0):
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    weights, offset = rng.uniform(0.5, 2.0, n), 0.3 * rng.standard_normal(n)
    eta = design @ [0.3, -0.6, 0.4] + extras * offset
    response = {
        "gaussian": lambda: eta + rng.standard_normal(n),
        "logistic": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
    }[family]()
    if not extras:
        return Rows.of(design, response)
    return Rows.of(design, response, weights=weights, offset=offset)


def dealt(rows, *, mixed=False):
    """Deal rows by their second column: parties differ a lot, unless rows are mixed."""
    order = np.arange(rows.n_rows) if mixed else np.argsort(rows.design[:, 1])
    return {
        party: Rows(
            *(
                None if part is None else part[own]
                for part in (rows.design, rows.response, rows.weights, rows.offset)
            )
        )
        for party, own in zip(PARTIES, np.array_split(order, 5), strict=True)
    }


def fitted(family="gaussian", rows=None, **changes):
    kind = family if family in THEIRS else "gaussian"
    rows = dealt(pooled_rows(kind)) if rows is None else rows
    keys = {"topology": "ring:5", "sigma": 50.0, "iterations": 400, "seed": 3}
    return fit_by_gradients(rows, family=family, names=NAMES, **{**keys, **changes})


def statsmodels_fit(family, rows):
    extras = {"var_weights": rows.weights, "offset": rows.offset}
    model = sm.GLM(rows.response, rows.design, family=THEIRS[family](), **extras)
    return model.fit(tol=1e-14, maxiter=200, tol_criterion="params").params


@every_family
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "weights and offsets"])
def test_estimates_approach_the_pooled_fit(family, extras):
    rows = pooled_rows(family, extras=extras)
    expected = statsmodels_fit(family, rows)
    found = fitted(family, dealt(rows), iterations=2000, sigma=1e4)
    np.testing.assert_allclose(found.reference, expected, atol=1e-9)
    # Each party's own estimate, and what the run itself took for the answer.
    away = np.linalg.norm(found.run.estimates - expected, axis=1).max()
    assert found.max_error == pytest.approx(away, rel=1e-6)
    np.testing.assert_allclose(found.run.reference, expected, atol=1e-7)
    assert away < 0.012
    np.testing.assert_allclose(list(found.coefficients.values()), expected, atol=6e-3)
    assert list(found.coefficients) == NAMES
    assert found.run.sum_of_masks == 0.0


@every_family
def test_errors_keep_shrinking(family):
    trace = fitted(family, iterations=2000).run.trace
    wanted = np.searchsorted(trace.iterations, [50, 200, 800, 2000])
    errors = trace.errors.max(axis=1)[wanted]
    assert (errors[1:] < 0.45 * errors[:-1]).all()
    assert errors[-1] < 0.012


def counts_of(level, n):
    rng = np.random.default_rng(1)
    design = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    return Rows.of(design, rng.poisson(np.exp(design @ [level, 0.5, -0.3])))


@each("level", [-1.5, 0.0, 3.0])
def test_counts_of_any_level_are_fitted_without_being_told_a_step(level):
    """One step too long would end in a corner of the domain, where means are exp."""
    rows = counts_of(level, 1000)
    mixed = dealt(rows, mixed=True)
    found = fitted("poisson", mixed, largest=1e5, iterations=1000)
    np.testing.assert_allclose(found.reference, statsmodels_fit("poisson", rows))
    assert found.max_error < 0.02


def test_rare_counts_are_refused_rather_than_thrown_into_a_corner():
    """Steps that suit the answer are hundreds of times too long for the start."""
    rare = dealt(counts_of(-6.0, 5000), mixed=True)
    with refused("columns-badly-scaled"):
        fitted("poisson", rare, largest=1e5)


@every_family
def test_the_size_of_masks_makes_no_difference(family):
    small, large = (fitted(family, sigma=sigma) for sigma in (50.0, 1e6))
    assert large.max_error == pytest.approx(small.max_error, rel=0.01)


def test_a_ridge_is_shared_and_leaves_the_intercept_free():
    rows = pooled_rows("gaussian")
    penalty = np.diag([0.0, 40.0, 40.0])
    x, y = rows.design, rows.response
    expected = np.linalg.solve(x.T @ x + penalty, x.T @ y)
    found = fitted(rows=dealt(rows), ridge=40.0, intercept=0, iterations=2000)
    np.testing.assert_allclose(found.reference, expected, rtol=1e-12)
    np.testing.assert_allclose(found.run.reference, expected, atol=1e-7)
    assert found.max_error < 5e-3
    assert np.linalg.norm(expected - np.linalg.solve(x.T @ x, x.T @ y)) > 0.1


@pytest.mark.parametrize("law", ["lattice", "gaussian"])
def test_both_drivers_find_the_same_estimates(law):
    changes = {"law": law, "sigma": 2.0, "iterations": 150}
    rows = fitted("logistic", **changes)
    machines = fitted("logistic", driver="loopback", **changes)
    np.testing.assert_allclose(machines.run.estimates, rows.run.estimates, atol=1e-11)
    assert machines.guarantee == rows.guarantee
    assert machines.reference.tolist() == rows.reference.tolist()


def test_a_seed_repeats_everything_and_progress_is_told():
    told = []
    first = fitted(progress=lambda *one: told.append(one))
    second = fitted()
    assert first.run.estimates.tolist() == second.run.estimates.tolist()
    assert told[-1] == (400, 400)
    other = fitted(seed=4)
    assert (
        other.run.seen.shares.values.tolist() != first.run.seen.shares.values.tolist()
    )


@every_family
def test_the_guarantee_says_what_is_hidden_and_what_is_not(family):
    promise = fitted(family, corrupted=["east"], iterations=50, step=0.02).guarantee
    assert promise.status == "private"
    assert set(promise.limits) >= {SPLIT, FEATURES, RESPONSES}
    assert promise.released == (
        "round 1, summed over north, south, west, centre: X'W(mu(o) - y) (3)",
        ESTIMATES,
    )
    for line in (*promise.limits, *promise.released):
        assert "labels hidden" not in line
        assert "responses are hidden" not in line


def test_the_lines_are_those_that_were_agreed():
    assert "hide at most how X'Wy splits among the honest parties" in SPLIT
    assert FEATURES.startswith("features, weights and offsets are not hidden")
    assert "may determine every one of them" in RESPONSES


def test_a_piece_that_stands_alone_is_told_so():
    promise = fitted(corrupted=["north", "south"], iterations=50, step=0.02).guarantee
    assert promise.status == "partial"
    assert promise.released[:2] == (
        "round 1, of east alone: X'W(mu(o) - y) (3)",
        "round 1, summed over west, centre: X'W(mu(o) - y) (3)",
    )


def test_without_masks_nothing_is_promised():
    promise = fitted(law="none", sigma=None, iterations=50).guarantee
    assert promise.status == "no_privacy"
    assert SPLIT not in promise.limits


def test_a_step_that_was_read_off_the_data_is_said():
    read = fitted(iterations=50)
    assert STEP in read.guarantee.limits
    given = fitted(iterations=50, step=0.02)
    assert STEP not in given.guarantee.limits
    rows = pooled_rows("gaussian")
    least = np.linalg.eigvalsh(rows.design.T @ rows.design)[0]
    same = fitted(iterations=50, step=2.0 * 5 / least)
    np.testing.assert_allclose(same.run.estimates, read.run.estimates, atol=1e-9)


def test_released_sums_may_determine_labels():
    """What the guarantee warns of: only one of 4096 labellings has the released sum."""
    rng = np.random.default_rng(5)
    design = rng.standard_normal((12, 2))
    response = (rng.random(12) < 0.5).astype(float)
    parts = np.split(np.arange(12), 4)
    costs = [glm_cost(Binomial(), Rows.of(design[k], response[k])) for k in parts]
    released = sum(cost.coefficients for cost in costs)
    candidates = np.array(list(product([0.0, 1.0], repeat=12)))
    sums = (0.5 - candidates) @ design
    fits = candidates[np.abs(sums - released).max(axis=1) < 1e-9]
    assert fits.tolist() == [response.tolist()]


def test_a_result_is_plain_values_and_prints_no_data():
    found = fitted("poisson")
    told = json.loads(json.dumps(found.to_dict()))
    assert told["coefficients"] == found.coefficients
    assert told["max_error"] == found.max_error
    assert told["reference"] == found.reference.tolist()
    assert [one["text"] for one in told["guarantee"]["limits"]] == list(
        found.guarantee.limits
    )
    assert repr(found).startswith("By gradient steps: poisson regression of y")
    assert "400 iterations" in repr(found)


def test_a_topology_may_be_given_and_names_its_parties():
    rows = dealt(pooled_rows("gaussian"))
    graph = Topology.family("complete:5").renamed(sorted(rows))
    found = fitted(rows=rows, topology=graph, iterations=100)
    assert found.run.topology == graph
    with refused("graph-size-differs", mentions=("5", "4")):
        fitted(rows={name: rows[name] for name in PARTIES[:4]})
    with refused("graph-names-differ", mentions=("0,", "1")):
        fitted(rows=rows, topology=Topology.family("ring:5"))


@each(
    ("changes", "words"),
    [
        ({"family": "gamma"}, "responses stay in the remainder"),
        ({"family": "gamma-inverse"}, "none at the public point 0"),
        ({"family": "tobit"}, "no family is called 'tobit'"),
        ({"law": "uniform", "sigma": None}, "uniform masks leave residues"),
        ({"sigma": None}, "needs sigma"),
        ({"driver": "network"}, "vectorised, loopback"),
        ({"domain": WholeSpace(3)}, "dgd needs a bounded domain"),
        ({"domain": Box(-1, 1, dim=2)}, "3 coefficients.*dimension 2"),
        ({"domain": Box(-0.1, 0.1, dim=3)}, "the pooled fit is outside the domain"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"power": 0.5}, "power must lie in"),
        ({"step": -1.0}, "step must be positive"),
        ({"ridge": -1.0}, "ridge must not be negative"),
        ({"intercept": 3}, "the intercept must be one of the columns"),
        ({"rows": {}}, "columns, found no party at all"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value)),
)
def test_what_cannot_be_is_refused(changes, words):
    keys = {"family": "gaussian", **changes}
    with pytest.raises(InvalidInputError, match=words):
        fitted(keys.pop("family"), **keys)


def test_the_party_with_bad_rows_is_named():
    rows = dealt(pooled_rows("logistic"))
    rows["south"] = replace(rows["south"], response=rows["south"].response + 0.5)
    with refused("response-not-binary", mentions=("south", "0", "1")):
        fitted("logistic", rows)


def test_parties_must_be_alike():
    rows = dealt(pooled_rows("gaussian"))
    narrow = rows | {"west": replace(rows["west"], design=rows["west"].design[:, :2])}
    with refused("rows-differ", mentions=("2",)):
        fitted(rows=narrow)
    ones = np.ones(rows["west"].n_rows)
    for what in ("weights", "offset"):
        odd = rows | {"west": replace(rows["west"], **{what: ones})}
        with refused("rows-differ", mentions=(what,)):
            fitted(rows=odd)


@pytest.mark.parametrize(("family", "scale"), [("gaussian", 100.0), ("poisson", 20.0)])
def test_columns_on_different_scales_need_a_step_of_their_own(family, scale):
    rows = pooled_rows(family)
    scaled = dealt(replace(rows, design=rows.design * [1.0, scale, 1.0]))
    with refused("columns-badly-scaled"):
        fitted(family, scaled, largest=2.0**14)
    slow = fitted(family, scaled, step=1e-6, largest=2.0**14)
    assert slow.max_error > 0.1


@every_family
@pytest.mark.parametrize("step", [None, 0.1])
def test_dependent_columns_are_named(family, step):
    rows = pooled_rows(family)
    twice = np.column_stack([rows.design[:, :2], 2.0 * rows.design[:, 1]])
    with refused("dependent-columns"):
        fitted(family, dealt(replace(rows, design=twice)), step=step)


def test_separated_responses_have_no_fit():
    rows = pooled_rows("logistic")
    apart = replace(rows, response=(rows.design[:, 1] > 0).astype(float))
    with refused("endless-coefficient"):
        fitted("logistic", dealt(apart))
