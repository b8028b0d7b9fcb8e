"""Robust errors from outside: whose score, and whose row, can be computed from them.

A curious party has what everybody is shown, and its own table. Errors that are
clustered by party are sums over parties: few of these, and single ones come out.
"""

import numpy as np
import pandas as pd
import pytest

from refusals import refused
from veilsum.fits.wrappers import FURTHER_HONEST
from veilsum.questions.regression import fit
from veilsum.tables.rules import DisclosureError, Rules

FORMULA = "y ~ x + z"
COLUMNS = 3
LEVEL = {"driver": "vectorised", "seed": 1, "minimum_honest": 2}


def tables(parties, rows=30, seed=5):
    """Each party's responses are off by something of its own."""
    draw = np.random.default_rng(seed)
    found = {}
    for k in range(parties):
        x, z = draw.normal(size=(2, rows)).round(3)
        y = 1.0 + x - 2.0 * z + draw.normal() + draw.normal(size=rows)
        found[f"p{k}"] = pd.DataFrame({"x": x, "z": z, "y": y.round(3)})
    return found


def score(table, coefficients):
    """What only the table's owner should know: its columns times its residuals."""
    design = np.column_stack([np.ones(len(table)), table[["x", "z"]]])
    return design.T @ (table["y"].to_numpy() - design @ coefficients)


def meat(data, **how):
    """The sum of products of scores, from two results that everybody has."""
    plain = fit(FORMULA, data, rules=Rules.none(), **LEVEL)
    robust = fit(FORMULA, data, errors="cluster", **LEVEL, **how)
    inverse = np.linalg.inv(plain.cov_params().to_numpy() / plain.scale)
    parties, n = len(data), plain.nobs
    factor = parties / (parties - 1) * (n - 1) / (n - COLUMNS)
    made = inverse @ robust.cov_params().to_numpy() @ inverse / factor
    return made, plain.params.to_numpy()


def test_of_two_honest_parties_a_third_computes_both_scores():
    """N = s s' + t t' and c = s + t give (s - t)(s - t)' = 2N - cc'."""
    data = tables(3)
    total, b = meat(data, rules=Rules.none())
    own = score(data["p0"], b)
    others, c = total - np.outer(own, own), -own
    values, vectors = np.linalg.eigh(2.0 * others - np.outer(c, c))
    apart = np.sqrt(values[-1]) * vectors[:, -1]
    found = sorted([((c + apart) / 2.0).tolist(), ((c - apart) / 2.0).tolist()])
    true = sorted([score(data[one], b).tolist() for one in ("p1", "p2")])
    np.testing.assert_allclose(found, true, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("honest", [2, COLUMNS, COLUMNS + FURTHER_HONEST - 1])
def test_few_parties_are_refused_before_anything_is_shown(honest):
    data = tables(honest + 1)
    with refused("too-few-honest", DisclosureError) as caught:
        fit(FORMULA, data, errors="cluster", **LEVEL)
    assert caught.value.rule == "site_terms"


def test_with_enough_parties_other_scores_have_the_same_sums():
    """What is left open: rotations of honest scores that keep their sum."""
    honest = COLUMNS + FURTHER_HONEST
    data = tables(honest + 1)
    total, b = meat(data)
    own = score(data["p0"], b)
    scores = np.column_stack([score(data[f"p{k}"], b) for k in range(1, honest + 1)])
    # An orthogonal matrix that leaves the sum over parties as it is.
    ones = np.full((honest, 1), honest**-0.5)
    rest = np.linalg.qr(np.hstack([ones, np.eye(honest)[:, 1:]]))[0][:, 1:]
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(honest - 1,) * 2))[0]
    others = scores @ (ones @ ones.T + rest @ turn @ rest.T)
    for each in (scores, others):
        np.testing.assert_allclose(each @ each.T + np.outer(own, own), total, rtol=1e-6)
        np.testing.assert_allclose(each.sum(axis=1), -own, rtol=1e-6, atol=1e-6)
    assert np.abs(scores - others).max() > 0.5 * np.abs(scores).max()
    # And what is known of everybody: nobody's score is beyond the root of this sum.
    bound = np.sqrt(np.diag(total - np.outer(own, own)))
    assert (np.abs(scores) <= bound[:, None]).all()


def outlying():
    data = tables(5)
    data["p3"].loc[7, "y"] += 1e5
    return data


def test_a_row_with_a_residual_like_no_other_shows_its_columns_in_the_meat():
    """M is nearly e^2 x x' of that row, and the first column is all ones."""
    data = outlying()
    plain = fit(FORMULA, data, rules=Rules.none(), **LEVEL)
    robust = fit(FORMULA, data, errors="HC0", rules=Rules.none(), **LEVEL)
    inverse = np.linalg.inv(plain.cov_params().to_numpy() / plain.scale)
    made = inverse @ robust.cov_params().to_numpy() @ inverse
    victim = data["p3"].loc[7, ["x", "z"]].to_numpy(float)
    np.testing.assert_allclose(made[0, 1:] / made[0, 0], victim, atol=0.05)


def test_such_a_row_keeps_its_owner_from_answering():
    with refused("group-too-small", DisclosureError, mentions=("y",)) as caught:
        fit(FORMULA, outlying(), errors="HC0", **LEVEL)
    assert caught.value.rule == "effective_count"
    assert fit(FORMULA, tables(5), errors="HC0", **LEVEL).nobs == 150
