"""What the sums of a choice among levels tell: of a level's rows, and of nobody's else.

Counts, and score and information of the model without columns, give the sum of every
column over the rows of every level. Of a level that one person has, that is the person;
of a level that one site has, that site. Rules at home and the count of holders refuse
both, and the twins show that whoever takes these away finds everything.
"""

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from attacks.catalogue import PARTIES, dealt, even, n_honest, people
from attacks.watching import totals, watched
from veilsum.models.choices import Multinomial, Ordinal
from veilsum.tables.rules import DisclosureError

LEVELS = ("north", "south", "west", "isolation")
SCHEMA = vs.Schema(
    (
        vs.Column("age", "integer", 18, 95),
        vs.Column("bmi", "number", 10, 80, unit="0.1"),
        vs.Column("ward", "category", categories=LEVELS),
    ),
    minimum_rows=50,
)


def tables(alone):
    """Four parties; some rows of the first have a level of their own."""
    rows = people(1, 400)[["age", "bmi", "ward"]].dropna()
    found = {p: rows.iloc[k::4].reset_index(drop=True) for k, p in enumerate(PARTIES)}
    found["a"].loc[: alone - 1, "ward"] = "isolation"
    return found


def asked(family, alone, **rules):
    return vs.fit(
        "ward ~ age + bmi",
        tables(alone),
        family=family,
        schema=SCHEMA,
        driver="vectorised",
        seed=1,
        rules=vs.Rules(release_fraction=5.0, **rules),
    )


def sums_of_a_level(result, level):
    """The sum of age and of bmi over a level's rows, from what everybody knows."""
    recipe, sums = result.inner
    scales = recipe.search.scales
    counts, cross = scales.opening(sums[0][:-1])
    design, first = scales.base.measures.design, 3 * (level - 1)
    answer = [
        float(design[k].unit * (cross[first + k] + design[k].centre * counts[level]))
        for k in (1, 2)
    ]
    assert sum(counts) == 398
    return answer


def truth(alone):
    own = tables(alone)["a"]
    return own[own["ward"] == "isolation"][["age", "bmi"]].sum().to_numpy()


FREE = {"minimum_count": 0, "effective_count": 0.0, "maximum_influence": 1.0}


@pytest.mark.parametrize("family", ["multinomial", "ordinal"])
def test_a_level_of_one_person_is_refused(family):
    with pytest.raises(DisclosureError) as refusal:
        asked(family, 1)
    assert refusal.value.rule == "minimum_count"


@pytest.mark.parametrize("family", ["multinomial", "ordinal"])
def test_a_level_of_one_site_is_refused_after_counts_of_parties_only(family):
    with pytest.raises(DisclosureError) as refusal:
        asked(family, 20)
    assert refusal.value.rule == "site_terms"
    assert "isolation is held by 1" in str(refusal.value)


@pytest.mark.parametrize("alone", [1, 20])
def test_without_rules_the_level_is_read_off(alone):
    """The twin: the person's own age and bmi, or the site's own sums."""
    result = asked("multinomial", alone, site_terms=True, **FREE)
    np.testing.assert_allclose(sums_of_a_level(result, 3), truth(alone), atol=1e-6)


def test_what_is_aimed_at_nobody_is_answered():
    schema = vs.Schema(
        (*SCHEMA.columns[:2], vs.Column("ward", "category", categories=LEVELS[:3])),
        minimum_rows=60,
    )
    for family in ("multinomial", "ordinal"):
        result = vs.fit(
            "ward ~ age", tables(0), family=family, schema=schema, driver="vectorised"
        )
        assert result.guarantee.status == "private"


# Low bits: who has which row is in no total.


def float_scores(family, table):
    """One party's score as most would write it: float64, rounded by the party."""
    x = table[["age", "bmi"]].to_numpy(dtype=float)
    codes = pd.Categorical(table["ward"], LEVELS[:3]).codes.astype(float)
    eta = np.column_stack([0.3 + x @ [0.01, -0.02], 0.7 + x @ [0.02, -0.01]])
    return family.rows(codes, eta).pulls.T @ np.column_stack([np.ones(len(x)), x])


@pytest.mark.parametrize("family", [Multinomial(), Ordinal()])
def test_an_exchange_shows_in_float_sums_and_in_no_total(family):
    shown = 0
    for seed in range(10):
        rows = people(seed).assign(bmi=lambda t: t["bmi"].fillna(25.0))
        order = np.random.default_rng(seed).permutation(n_honest(rows))
        third = n_honest(rows) // 3
        worlds = [even(rows), dealt(rows, order, [third, 2 * third])]
        parts = [{p: rows.iloc[w[p]] for p in PARTIES} for w in worlds]
        added = [sum(float_scores(family, w[p]) for p in PARTIES) for w in parts]
        shown += not np.array_equal(*added)
        if seed < 2:
            one, other = (_released(family.name, world) for world in parts)
            assert one == other
    assert shown >= 8


def _released(family, parts):
    columns = (
        *SCHEMA.columns[:2],
        vs.Column("ward", "category", categories=LEVELS[:3]),
    )
    schema = vs.Schema(columns, minimum_rows=10)

    def run(**options):
        usual = {"schema": schema, "family": family, "rules": vs.Rules.none()}
        return vs.fit("ward ~ age + bmi", parts, **usual, **options)

    return repr(totals(watched(run, PARTIES)[1]))
