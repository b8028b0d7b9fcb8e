"""A Cox regression cannot be aimed at one site, one event, or the rows at risk then.

Whoever asks chooses which column is the time and which the event. Each refusal has a
twin: with the rules off the question runs, and gives away what it was aimed at.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime

import refusals
import veilsum as vs
from veilsum.models.cox import BELOW, SQUARED, CoxSums
from veilsum.questions.cox.stratified import CoxJob, CoxRequest
from veilsum.sums.presence import PresenceScreenedRecipe
from veilsum.tables.rules import DisclosureError, Rules, TableRulesAtHome

PARTIES = ("a", "b", "c", "d")
FREE = Rules.none()
SCHEMA = vs.Schema.from_table(
    {
        "minimum_rows": 30,
        "columns": {
            "days": {"kind": "integer", "minimum": 0, "maximum": 1000},
            "died": {"kind": "integer", "minimum": 0, "maximum": 1},
            "age": {"kind": "integer", "minimum": 18, "maximum": 100},
            "dose": {"kind": "number", "minimum": 0, "maximum": 10, "unit": 0.1},
        },
    }
)
FORMULA = "Surv(days, died) ~ age + dose"


def patients(seed=0, n_rows=60):
    stream = np.random.default_rng(seed)
    found = {}
    for party in PARTIES:
        found[party] = pd.DataFrame(
            {
                "days": stream.integers(1, 900, n_rows),
                "died": (stream.random(n_rows) < 0.6).astype(int),
                "age": stream.integers(20, 95, n_rows),
                "dose": stream.integers(0, 100, n_rows) / 10,
            }
        )
    return found


FREE_SCHEMA = vs.Schema(SCHEMA.columns, minimum_rows=1)
# What may be asked of so few rows at all is no matter here.
MANY = Rules(release_fraction=np.inf, maximum_columns=np.inf)


def asked(tables, rules=None, **more):
    schema = FREE_SCHEMA if rules is FREE else SCHEMA
    more = {"driver": "vectorised", "schema": schema, **more}
    return vs.cox(more.pop("formula", FORMULA), tables, rules=rules, **more)


def sums_at_0(result):
    """What the first round of a stratified regression showed, of real columns."""
    recipe, sums = result.inner
    found = CoxSums.of(recipe.search.scales, sums[0][:-1])
    units = [float(one.unit) for one in recipe.search.scales.design]
    return [float(one) * unit for one, unit in zip(found.score, units, strict=True)]


def refused(rule, told, *args, **more):
    with pytest.raises(DisclosureError, match=told) as caught:
        asked(*args, **more)
    assert caught.value.rule == rule


# One site


def test_events_that_one_site_has_are_refused_after_the_first_sum():
    tables = patients()
    for party in "bcd":
        tables[party]["died"] = 0
    refused("site_terms", "of the values of died, 1 is held by 1", tables)
    # The twin: the sum is that of one site alone, and so is the fit.
    found = asked(tables, FREE)
    assert found.fit.n_events == tables["a"].died.sum()
    job = found.job
    own = job.bring(job.schema.check("a", tables["a"]))
    alone = job.answer(own, CoxRequest(True, np.zeros(2)))
    both = found.inner[1][0].tolist()
    assert both[:-3] == alone.tolist()[:-3]  # all but the number of rows


def test_a_bin_with_one_site_s_events_is_refused_after_the_first_sum():
    tables = patients()
    for party in "bcd":
        rows = tables[party]
        rows["died"] = np.where(rows.days <= 300, 0, rows.died)
    bins = {"times": [300, 600, 900]}
    told = "ends of days by died, 0 to 300 with an event is held by 1"
    refused("site_terms", told, tables, MANY, **bins)
    found = asked(tables, FREE, **bins)
    early = tables["a"][(tables["a"].days <= 300)].died.sum()
    later = asked(tables, FREE, times=[300]).n_events
    assert later == early
    assert found.n_events == sum(one.died.sum() for one in tables.values())


# Columns that are constant at some sites

WITH_FLAGS = vs.Schema.from_table(
    {
        "minimum_rows": 60,
        "columns": {
            **SCHEMA.to_table()["columns"],
            "ward": {"kind": "category", "categories": [*"uvw"]},
            "arm": {"kind": "integer", "minimum": 0, "maximum": 1},
            "ill": {"kind": "integer", "minimum": 0, "maximum": 1},
        },
    }
)
VICTIM = "d"


def many_sites(**constant):
    """Tables of eight sites; some columns are constant at some of them."""
    stream = np.random.default_rng(3)
    tables = {}
    for party, rows in patients(seed=3).items():
        tables[party] = rows
    for party, rows in zip("efgh", patients(seed=4).values(), strict=True):
        tables[party] = rows
    for party, rows in tables.items():
        rows["ward"] = stream.choice([*"uvw"], len(rows))
        rows["arm"] = stream.integers(0, 2, len(rows))
        rows["ill"] = stream.integers(0, 2, len(rows))
        for column, values in constant.items():
            if party in values:
                rows[column] = values[party]
    return tables


def at(parties, value):
    return dict.fromkeys(parties, value)


def thirds(first, second):
    """Two levels, the first of them in a third of the rows."""
    return np.where(np.arange(60) % 3 == 0, first, second)


# By its name the formula, the columns that are constant, the combination of columns
# whose information is one site's own, and the count that refuses it.
LEFT_TO_ONE = {
    "a number": ("age + dose", {"age": at("abcefgh", 50)}, [1, 0], "is 1,"),
    "a number, but for what its unit rounds": (
        "age + dose",
        {"dose": at("abcefgh", 2.5 + np.arange(60) % 10 / 1000)},
        [0, 1],
        "is 1,",
    ),
    "two numbers": (
        "age + dose",
        {"age": at("abc", 50), "dose": at("efgh", 2.5)},
        [1, 1j],
        "is 1,",
    ),
    "a flag and a number": (
        "age + arm",
        {"age": at("abc", 50), "arm": at("gh", 1) | at("ef", 0)},
        [1, 1j],
        "of the values of arm, is 1,",
    ),
    # Level w is held by three sites, two of which hold no other.
    "a level": (
        "age + C(ward)",
        {
            "ward": at("ab", "w")
            | at("cefgh", thirds("u", "v"))
            | {"d": thirds("w", "u")}
        },
        [0, 0, 1],
        "w of the levels of ward, is 1,",
    ),
    # The level that has no column of its own follows from all others.
    "the level left out": (
        "age + C(ward)",
        {
            "ward": at("ab", "u")
            | at("cefgh", thirds("v", "w"))
            | {"d": thirds("u", "v")}
        },
        [0, 1, 1],
        "u of the levels of ward, is 1,",
    ),
    # Sites without events have no part in any sum.
    "events": (
        "arm",
        {"arm": at("efgh", 1), "died": at("abc", 0)},
        [1],
        "of the values of arm, is 1,",
    ),
    # Nor have rows that leave before the first event.
    "rows at risk": (
        "age + dose",
        {
            "age": at("abcefgh", np.where(np.arange(60) < 20, 30 + np.arange(60), 60)),
            "days": at("abcefgh", np.arange(60) + 1),
            "died": at("abcefgh", (np.arange(60) > 20) * (np.arange(60) % 2)),
        },
        [1, 0],
        "at risk at an event differ in every number and category is 1,",
    ),
}


def information(job, total, along):
    """Information at 0 of a combination; of 1 and 1j the one between both."""
    scales, along = job.search.scales, np.array(along)
    found = CoxSums.of(scales, total[: scales.layout.size]).information.astype(float)
    product = along @ found @ along
    return product.imag / 2 if np.iscomplexobj(along) else product


def is_that_of_one(found, tables, along):
    """Compare the information of all sites with that of one, but for its rounding."""
    job = found.job
    own = job.bring(job.schema.check(VICTIM, tables[VICTIM]))
    alone = job.answer(own, CoxRequest(True, np.zeros(len(job.names))))
    total = information(job, found.inner[1][0], along)
    assert total == pytest.approx(information(job, alone, along), rel=1e-9) != 0.0


@pytest.mark.parametrize("name", LEFT_TO_ONE)
def test_a_column_that_varies_at_few_parties_is_not_summed(name, monkeypatch):
    right, constant, along, told = LEFT_TO_ONE[name]
    tables = many_sites(**constant)
    formula = f"Surv(days, died) ~ {right}"
    more = {"formula": formula, "schema": WITH_FLAGS}
    with refusals.refused("tells-parties-apart", DisclosureError) as caught:
        asked(tables, MANY, **more)
    assert caught.value.rule == "site_terms"
    assert told in str(caught.value)
    # The twin: without the count the total is that site's own.
    monkeypatch.setattr(PresenceScreenedRecipe, "_check_varying", lambda *_: None)
    monkeypatch.setattr(PresenceScreenedRecipe, "_check_room", lambda *_: None)
    is_that_of_one(asked(tables, MANY, **more), tables, along)


def test_open_two_flags_that_vary_together_at_one_party():
    """Each of them varies at four sites or more; their pairs are not counted."""
    tables = many_sites(arm=at("efgh", 1), ill=at("abc", 0))
    formula = "Surv(days, died) ~ arm + ill"
    found = asked(tables, MANY, formula=formula, schema=WITH_FLAGS)
    is_that_of_one(found, tables, [1, 1j])


def test_the_change_that_a_refusal_names_works():
    tables = many_sites(age=at("abc", 50), dose=at("efgh", 2.5))
    refused("site_terms", "leave out columns that are constant", tables, MANY)
    for column in ("age", "dose"):
        found = asked(tables, MANY, formula=f"Surv(days, died) ~ {column}")
        assert found.fit.n_rows == 480


def test_no_sum_tells_the_constant_of_a_site():
    """All that it leaves are counts of parties: whose rows differ, who has a level."""
    more = {"formula": "Surv(days, died) ~ age + C(ward)", "schema": WITH_FLAGS}
    found = [
        asked(many_sites(age={"d": age}, ward={"d": ward}), MANY, **more).released.sums
        for age, ward in ((30, "u"), (93, "w"))
    ]
    (first, *later), (other, *others) = found
    np.testing.assert_array_equal(later, others)
    # Events, wards; all columns, and wards again.
    assert first[:9].tolist() == [8, 8, 8, 7, 7, 7, 7, 7, 7]
    assert other[:9].tolist() == [8, 8, 7, 7, 8, 7, 7, 7, 7]


def test_rows_of_parties_that_vary_hold_all_numbers_that_are_released(monkeypatch):
    """As many numbers as three sites alone would not be asked for."""
    rules = Rules.none(site_terms=False, release_fraction=0.5, most_rounds=15)
    schema = vs.Schema.from_table(SCHEMA.to_table() | {"minimum_rows": 12})
    tables = many_sites(age=at("defgh", 50), dose=at("defgh", 2.5))
    tables = {party: rows[:12] for party, rows in tables.items()}
    told = "is 3, and sums may be about these parties alone.* in each of 8 rounds"
    refused("release_fraction", told, tables, rules, schema=schema)
    three = {party: tables[party] for party in "abc"}
    alone = {"schema": schema, "tolerate": 0}
    refused("release_fraction", "in each of 8 rounds", three, rules, **alone)
    # The twin: all sums are those of the three, but for likelihoods and counts.
    monkeypatch.setattr(PresenceScreenedRecipe, "_check_room", lambda *_: None)
    found = asked(tables, rules, schema=schema)
    few = asked(three, Rules.none(), **alone)
    for one, other in zip(found.inner[1], few.inner[1], strict=True):
        assert one[:5].tolist() == other[:5].tolist()


# One event


@pytest.mark.parametrize("events", [1, 2])
def test_few_events_at_a_party_are_refused_at_home(events):
    tables = patients()
    tables["b"]["died"] = (np.arange(60) < events).astype(int)
    refused("minimum_count", f"b: 'died' is 1 in {events} row", tables)
    # The twin: whoever knows all other tables knows b's events.
    assert asked(tables, FREE).fit.n_events == events + sum(
        tables[one].died.sum() for one in "acd"
    )


def test_no_events_at_a_party_say_only_that():
    tables = patients()
    tables["b"]["died"] = 0
    assert asked(tables).fit.n_events == sum(tables[p].died.sum() for p in "acd")


def test_a_bin_with_one_event_is_refused_at_home():
    tables = patients()
    tables["c"]["days"] = 301 + tables["c"].days // 2
    tables["c"].loc[7, ["days", "died", "age"]] = [111, 1, 93]
    refused(
        "minimum_count",
        "c: a bin of 'days, rows with the event' has 1 row here",
        tables,
        MANY,
        times=[300, 600, 900],
    )
    assert asked(tables, FREE, times=[300, 600, 900]).n_rows == 240


def test_bins_are_looked_at_by_person_not_by_piece():
    """One person in three bins is one person: its pieces would be enough."""
    tables = patients()
    tables["c"]["dose"] = 0.0
    tables["c"].loc[7, ["days", "dose"]] = [890, 9.0]
    bins = {"times": [300, 600, 900]}
    refused("minimum_count", "c: 'dose' is 9 in 1 row here", tables, MANY, **bins)
    job = asked(patients(), FREE, **bins).job
    own = job.bring(job.schema.check("c", tables["c"]))
    dose = own.pieces.design[:, job.model.names.index("dose")]
    TableRulesAtHome("c", Rules()).column("dose", dose)  # of pieces it would pass


# The rows at risk


def aimed():
    """Three events among the last rows of a table, and hundreds before the first."""
    tables = patients()
    for one in tables.values():
        one["days"] = np.arange(len(one))
        one["died"] = 0
        one.loc[57:, "died"] = 1
    return tables


def test_events_at_which_few_rows_are_at_risk_are_refused():
    refused("minimum_rows", "3 rows of a's are at risk at any event", aimed())
    # The twin: the score is about these rows alone, and one of them cancels.
    found = sums_at_0(asked(aimed(), FREE))
    expected = 0.0
    for one in aimed().values():
        ages = one.age.to_numpy()[57:]
        expected += ages[0] - ages.mean() + ages[1] - ages[1:].mean()
    assert found[0] == pytest.approx(expected, abs=1e-9)


def test_a_row_that_meets_most_of_the_hazard_is_looked_at_as_such():
    """A column that is spread over all rows, and stands on one of those that count."""
    tables = aimed()
    for one in tables.values():
        one.loc[40:45, "died"] = 1
    tables["b"].loc[20:, "dose"] = 1.0
    tables["b"].loc[50, "dose"] = 9.0
    refused("minimum_count", "b: 'dose' is 9 in 1 row here", tables)
    assert len(asked(tables, FREE).params) == 2


# Enough sums to solve for rows


def released(x, point):
    """What one party's rows give, all with events, in the order in which they ended."""
    w = np.exp(x @ point)
    at_risk = np.cumsum(w[::-1])[::-1]
    mean = np.cumsum((w[:, None] * x)[::-1], axis=0)[::-1] / at_risk[:, None]
    squares = w[:, None, None] * x[:, :, None] * x[:, None, :]
    spread = np.cumsum(squares[::-1], axis=0)[::-1] / at_risk[:, None, None]
    spread = (spread - mean[:, :, None] * mean[:, None, :]).sum(axis=0)
    score = (x - mean).sum(axis=0)
    log = (x @ point - np.log(at_risk)).sum()
    return [spread[0, 0], spread[1, 0], spread[1, 1], *score, log]


def rounds_of(rows):
    """Return where one party evaluated, what it gave there, and its rows in counts.

    As if all others colluded, who take their own part off.
    """
    job = CoxJob.of(FORMULA, FREE_SCHEMA)
    own = job.bring(job.schema.check("a", rows))
    recipe, sums, found = job.recipe(), [], []
    low, high = np.array(job.search.scales.powers)
    bits = np.array([2 * low, low + high, 2 * high, low, high, 0])
    bits -= np.array([SQUARED, SQUARED, SQUARED, BELOW, BELOW, BELOW])
    while (request := recipe.request(sums)) is not None:
        sums.append(job.answer(own, request))
        found.append((request.point, sums[-1][:6].astype(float) * 2.0**bits))
    counts = np.column_stack([rows.age, np.rint(rows.dose * 10)]).astype(float)
    return found, counts


@pytest.mark.parametrize(("n_rows", "solved"), [(6, True), (24, False)])
def test_rows_follow_from_enough_sums_and_not_from_half_as_many(n_rows, solved):
    """Six numbers a round: of six rows they are too many, of 24 rows too few.

    The attacker knows in which order rows ended, and begins near the truth. Only
    differences of rows have a part in the sums.
    """
    stream = np.random.default_rng(3)
    rows = pd.DataFrame(
        {
            "days": np.arange(1, n_rows + 1),
            "died": np.ones(n_rows, dtype=int),
            "age": stream.integers(30, 90, n_rows),
            "dose": stream.integers(0, 100, n_rows) / 10,
        }
    )
    sums, counts = rounds_of(rows)
    numbers = 6 * len(sums)
    assert (numbers > 2 * n_rows) == solved
    truth = np.concatenate([values for _, values in sums])
    size = np.maximum(np.abs(truth), 1.0)

    middle = counts.mean(axis=0)

    def off(flat):
        x = 20.0 * flat.reshape(n_rows, 2)
        return (np.concatenate([released(x, p) for p, _ in sums]) - truth) / size

    start = counts - middle + stream.normal(0, 1.0 if solved else 10.0, counts.shape)
    found = start.ravel() / 20.0
    for _ in range(25):  # Newton's method, the shortest step of all that do
        slopes = approx_fprime(found, off, 1e-6)
        found = found - np.linalg.lstsq(slopes, off(found), rcond=1e-9)[0]
    # Both are rows that have these sums, to six digits at least.
    assert np.abs(off(found)).max() < 1e-6
    there = 20.0 * found.reshape(n_rows, 2)
    away = np.abs((there - there.mean(axis=0)) - (counts - middle))
    assert (away.max() < 0.5) if solved else (np.median(away) > 3.0)


def test_so_many_sums_of_so_few_rows_are_refused():
    table = SCHEMA.to_table() | {"minimum_rows": 6}
    with refusals.refused("releases-too-much", DisclosureError, mentions=("8",)):
        asked(
            patients(n_rows=6),
            Rules.none(release_fraction=0.5, most_rounds=15),
            schema=vs.Schema.from_table(table),
        )
