"""A count that the others predict badly is nearly all of its fold's deviance.

Who knows the row's predictors has the fit without its fold, hence its forecast, and
solves the deviance for the count. Parties refuse such folds at home.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq

import veilsum as vs
from refusals import refused

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
FAR, COUNT = 14, 900


def tables():
    chance = np.random.default_rng(4)
    held = {}
    for party in "abcd":
        x = chance.integers(0, 11, 100)
        y = chance.poisson(np.exp(0.2 + 0.1 * x))
        held[party] = pd.DataFrame({"x": x, "y": y})
    held["a"].loc[7] = [FAR, COUNT]
    return held


def asked(**options):
    given = {"family": "poisson", "folds": 2, "driver": "vectorised", "seed": 1}
    return vs.evaluate("y ~ x", tables(), **given, **options)


def test_a_count_follows_from_the_deviance_of_its_fold_without_rules():
    found = asked(rules=vs.Rules.none())
    worst = int(np.argmax([float(fold.deviance) for fold in found.folds]))
    told = float(found.folds[worst].deviance)
    mean = float(np.exp(found.coefficients.to_numpy()[worst] @ [1.0, FAR]))

    def excess(y):
        return 2.0 * (y * np.log(y / mean) - (y - mean)) - told

    assert brentq(excess, mean, 1e6) == pytest.approx(COUNT, rel=0.1)


def test_such_folds_are_refused_at_home():
    with refused("group-too-small", vs.VeilsumError):
        asked(rules=vs.Rules())
