"""Lattice reduction on exact sums that no rounds are needed for.

`X'X` of powers of an age has its power sums: whole numbers with many digits. Sums of
predictions, of several models with given coefficients, have 48 bits behind the point.
Both determine how many rows have each age. Every such sum passes the rules.
"""

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from attacks.test_lattice import nearest
from veilsum.tables.rules import DisclosureError

AGES, ROWS, PARTIES = range(30, 70), 150, "abcd"
SOME = 2
ALL = pytest.param(12, marks=pytest.mark.slow)


def schema_of(powers):
    number = {"kind": "integer", "minimum": AGES[0], "maximum": AGES[-1]}
    columns = {"age": number, "hiv": {"kind": "integer", "minimum": 0, "maximum": 1}}
    for k in range(2, powers + 1):
        columns[f"age_{k}"] = {"of": "age", "as": "power", "exponent": k}
    return vs.Schema.from_table(
        {"minimum_rows": ROWS, "maximum_rows": ROWS, "columns": columns}
    )


def tables(seed):
    chance = np.random.default_rng(seed)
    found = {}
    for party in PARTIES:
        age = chance.integers(AGES[0], AGES[-1] + 1, ROWS)
        ill = chance.random(ROWS) < 0.15 + 0.3 * (age > 55)
        found[party] = pd.DataFrame({"age": age, "hiv": ill.astype(int)})
    return found


def per_row(result, age, hiv):
    """What one row adds to the exact sum: public arithmetic on made-up rows."""
    rows = pd.DataFrame({"age": [age] * ROWS, "hiv": [hiv] * ROWS})
    job, (recipe, _) = result.job, result.inner
    own = job.bring(job.schema.check("made-up", rows))
    units = job.answer(own, recipe.request(()))
    return [int(one) // ROWS for one in units]


def ages_rebuilt(seed, powers):
    """Whether the first party has all ages of the other three; None if refused."""
    data = tables(seed)
    more = "".join(f" + age_{k}" for k in range(2, powers + 1))
    try:
        result = vs.fit(f"hiv ~ age{more}", data, schema=schema_of(powers))
    except DisclosureError:
        return None
    well, ill = (
        np.array([per_row(result, age, hiv) for age in AGES], dtype=object)
        for hiv in (0, 1)
    )
    total = np.array([*map(int, result.inner[1][-1])], dtype=object)[: well.shape[1]]
    for age, hiv in data["a"].itertuples(index=False):
        total = total - (ill if hiv else well)[age - AGES[0]]
    others = pd.concat([data[party] for party in PARTIES[1:]])
    truth = np.array([(others.age == age).sum() for age in AGES])
    alike = (well == ill).all(axis=0)  # no answer moves these
    mean = len(others) / len(AGES) * np.ones(len(AGES))
    cells = nearest(well[:, alike], total[alike], mean, np.sqrt(mean))
    return cells is not None and bool((cells == truth).all())


@pytest.mark.parametrize("times", [SOME, ALL])
def test_open_powers_of_an_age_give_the_ages(times):
    """With six powers nearly all studies that are answered; the twin has two."""
    found = [ages_rebuilt(seed, 6) for seed in range(times)]
    answered = [one for one in found if one is not None]
    assert len(answered) >= 0.8 * times
    assert sum(answered) >= 0.8 * len(answered)
    assert not any(ages_rebuilt(seed, 2) for seed in range(times))


# Sums of predictions

MANY_AGES = range(25, 85)
EDGE = 55.5
MODELS = [(0.03, 55), (0.06, 50), (0.09, 60), (0.05, 65), (0.08, 45)]


def evaluated(seed, models):
    """Evaluations of `hiv ~ age` with given coefficients; None if one is refused."""
    chance, data = np.random.default_rng(seed), {}
    for party in "abcde":
        age = chance.integers(MANY_AGES[0], MANY_AGES[-1] + 1, ROWS)
        ill = chance.random(ROWS) < 1 / (1 + np.exp((100 - age) / 16))
        data[party] = pd.DataFrame({"age": age, "hiv": ill.astype(int)})
    number = {"kind": "integer", "minimum": MANY_AGES[0], "maximum": MANY_AGES[-1]}
    flag = {"kind": "integer", "minimum": 0, "maximum": 1}
    schema = vs.Schema.from_table(
        {
            "minimum_rows": ROWS,
            "maximum_rows": ROWS,
            "columns": {"age": number, "hiv": flag},
        }
    )
    try:
        results = [
            vs.evaluate(
                "hiv ~ age",
                data,
                family="logistic",
                schema=schema,
                coefficients={"Intercept": -slope * middle, "age": slope},
                edges=[float(1 / (1 + np.exp(-slope * (EDGE - middle))))],
                calibration=False,
            )
            for slope, middle in models
        ]
    except DisclosureError:
        return None
    return data, results


def table_rebuilt(seed, models):
    """Whether the first party has the table of ages and answers of all others."""
    if (study := evaluated(seed, models)) is None:
        return None
    data, results = study
    well, ill = (
        np.array(
            [
                [unit for one in results for unit in per_row(one, age, hiv)]
                for age in MANY_AGES
            ],
            dtype=object,
        )
        for hiv in (0, 1)
    )
    sums = [one.inner[1][-1] for one in results]
    size = well.shape[1] // len(results)
    total = np.array([int(v) for one in sums for v in one[:size]], dtype=object)
    for age, hiv in data["a"].itertuples(index=False):
        total = total - (ill if hiv else well)[age - MANY_AGES[0]]
    others = pd.concat([data[party] for party in "bcde"])
    truth = np.array([(others.age == age).sum() for age in MANY_AGES])
    with_hiv = np.array([others.hiv[others.age == age].sum() for age in MANY_AGES])
    # Rows without and with the event, in each of two bins, come first.
    rows = np.column_stack([well[:, 0] + well[:, 2], well[:, 1] + well[:, 3]])
    alike = (well == ill).all(axis=0)
    effects = np.hstack([well[:, alike], rows])
    totals = np.array([*total[alike], total[0] + total[2], total[1] + total[3]])
    cells = np.zeros(len(truth), dtype=object)
    lower = rows[:, 0].astype(bool)
    for part in (np.flatnonzero(lower), np.flatnonzero(~lower)):
        rest = np.setdiff1d(np.arange(len(truth)), part)
        own = [k for k in range(effects.shape[1]) if any(effects[part, k])]
        own = [k for k in own if not any(effects[rest, k])]
        mean = truth[part].sum() / len(part) * np.ones(len(part))  # released
        found = nearest(effects[part][:, own], totals[own], mean, np.sqrt(mean))
        if found is None:
            return False
        cells[part] = found
    if (cells != truth).any():
        return False
    share = np.where(
        lower,
        with_hiv[lower].sum() / truth[lower].sum(),
        with_hiv[~lower].sum() / truth[~lower].sum(),
    )
    held = np.flatnonzero(truth)
    mean = truth[held] * share[held]
    spread = np.sqrt(mean * (1 - share[held]))
    found = nearest((ill - well)[held], total - cells @ well, mean, spread)
    return found is not None and bool((found == with_hiv[held]).all())


@pytest.mark.parametrize("times", [SOME, ALL])
def test_open_five_evaluations_give_ages_and_answers(times):
    """In all studies of the first twelve that are answered; the twin has one."""
    found = [table_rebuilt(seed, MODELS) for seed in range(times)]
    answered = [one for one in found if one is not None]
    assert len(answered) >= times / 2
    assert sum(answered) >= 0.8 * len(answered)
    assert not any(table_rebuilt(seed, MODELS[:1]) for seed in range(times))
