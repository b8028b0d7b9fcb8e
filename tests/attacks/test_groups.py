"""Numbers by group cannot be aimed at one person, nor at one hospital.

A group is as good as a term of a formula: of one row it is that row, at one site it is
that site. Within it a sum may be one person's though it is nobody's in all, and a flag
that all lack but one says in which group that one is.
"""

import numpy as np

import veilsum as vs
from attacks.organiser import (
    AGE,
    AIM,
    BMI,
    ROW,
    SALARY,
    SCHEMA,
    SITES,
    WARDS,
    Found,
    asked,
    check_cells_merge,
    check_rules_refuse,
    counted,
    patients,
)
from cases import each
from refusals import refused

MARGIN = 2.0


def grouped(tables, by="ward", **options):
    return counted(tables, options.pop("tables", ()), by=by, **options)


def sums(result, group, by=WARDS):
    return result.groups.parts[by.index(group)].sum


def by_a_group_of_one():
    """The salary of the only patient of a ward."""
    tables = patients()
    tables[AIM].loc[ROW, "ward"] = "isolation"
    result = grouped(tables, columns=["salary"])
    return Found(sums(result, "isolation")[0], SALARY, result.guarantee.status)


def by_all_but_one():
    """The same from the other side: everybody's sum, less that of a group of n - 1."""
    tables = patients()
    for table in tables.values():
        table["death"] = "yes"
    tables[AIM].loc[ROW, "death"] = "no"
    result = grouped(tables, by="death", columns=["salary"])
    both, rest = result.marginals.sum[0], sums(result, "yes", ("no", "yes"))[0]
    return Found(both - rest, SALARY, result.guarantee.status)


def by_a_group_at_one_site():
    """One hospital's own mean in a ward that nobody else has."""
    tables = patients()
    tables[AIM].loc[:11, "ward"] = "isolation"
    result = grouped(tables, columns=["salary"])
    (name,) = (one for one in result.groups.names if "isolation" in one)
    found = sums(result, name, result.groups.names)[0] / 12
    own = tables[AIM]["salary"][:12].mean()
    return Found(found, own, result.guarantee.status)


def by_site():
    """Every hospital's own sums."""
    tables = patients()
    result = grouped(tables, by="site", columns=["salary"])
    found = [one.mean[0] for one in result.groups.parts]
    truth = [tables[site]["salary"].mean() for site in SITES]
    return Found(found, truth, result.guarantee.status)


def by_a_sum_that_is_one_persons():
    """In one ward nobody else earns anything; in all wards many do."""
    tables = patients()
    for table in tables.values():
        table.loc[table["ward"] == "south", "salary"] = 0.01
    tables[AIM].loc[ROW, ["ward", "salary"]] = ["south", SALARY]
    result = grouped(tables, columns=["salary"])
    n = result.groups.counts[WARDS.index("south")] - 1
    found = sums(result, "south")[0] - 0.01 * n
    return Found(found, SALARY, result.guarantee.status)


def by_two_columns_that_differ_in_one():
    """Cost with and without surgery: in one ward one patient had any, and many in all.

    Here `record` stands for the cost without, of which every other is the same.
    """
    tables = patients()
    for table in tables.values():
        table["salary"] = table["record"] = np.arange(len(table)) + 1000
        table.loc[table["ward"] != "south", "salary"] += np.arange(40) * 100
    own = tables[AIM]
    first = own.index[own["ward"] == "south"][0]
    own.loc[first, "salary"] += 5_678
    result = grouped(tables, columns=["salary", "record"])
    of_all, without = sums(result, "south")
    return Found(of_all - without, 5_678.0, result.guarantee.status)


def by_a_flag_within_a_group():
    """Of all who have it, one lies in that ward; elsewhere there are many."""
    tables = patients()
    for table in tables.values():
        table.loc[table["ward"] == "south", "hiv"] = 0
    tables[AIM].loc[ROW, ["ward", "hiv"]] = ["south", 1]
    result = grouped(tables, columns=["hiv", "age"])
    return Found(sums(result, "south")[0], 1.0, result.guarantee.status)


def by_a_flag_at_one_site_within_a_group():
    """How many of one hospital have it in a ward where no other hospital's have."""
    tables = patients()
    for site, table in tables.items():
        south = table.index[table["ward"] == "south"]
        table["hiv"] = np.arange(len(table)) // 3 % 2
        table.loc[south, "hiv"] = 0
        if site == AIM:
            table.loc[south[:7], "hiv"] = 1
    result = grouped(tables, columns=["hiv", "age"])
    return Found(sums(result, "south")[0], 7.0, result.guarantee.status)


def by_a_number_that_names_the_site_within_a_group():
    """How many patients each hospital has in a ward: a sum in base one hundred."""
    tables = patients()
    for place, table in enumerate(tables.values()):
        table.loc[table["ward"] == "south", "salary"] = 0.01 * 100**place / 100
        table.loc[table.index[: 3 * place], "ward"] = "north"
    schema = vs.Schema(
        (
            *(one for one in SCHEMA.columns if one.name != "salary"),
            vs.Column("salary", "number", 0, 200_000, unit="4 decimals"),
        ),
        minimum_rows=50,
    )
    result = grouped(tables, columns=["salary"], schema=schema)
    whole = round(sums(result, "south")[0] * 1e4)
    found = [whole // 100**place % 100 for place in range(len(SITES))]
    truth = [int((one["ward"] == "south").sum()) for one in tables.values()]
    return Found(found, truth, result.guarantee.status)


def by_what_is_missing():
    """Who has no weight on record is known; the group of that one person is not."""
    tables = patients()
    tables[AIM].loc[ROW, "bmi"] = np.nan
    truth = int(tables[AIM].loc[ROW, "hiv"])
    schema = vs.Schema(SCHEMA.columns, missing="drop", minimum_rows=50)
    result = grouped(tables, by="hiv", columns=["bmi"], missing="groups", schema=schema)
    found = result.groups.missing_in_groups["bmi"].index(1)
    return Found(found, truth, result.guarantee.status)


def by_bins_of_two_columns():
    """A box around age and weight, narrow in neither, has one patient in it."""
    edges = {
        "age": [0, AGE - MARGIN, AGE + MARGIN, 100],
        "bmi": [10, BMI - MARGIN, BMI + MARGIN, 60],
    }
    tables = [["age", "bmi", "hiv"]]
    result = counted(patients(), tables, histograms=edges)
    age, bmi = (
        int(np.searchsorted(result.histograms[name].edges, value, side="right"))
        for name, value in (("age", AGE), ("bmi", BMI))
    )
    found = result.tables["age", "bmi", "hiv"][age, bmi].tolist()
    return Found(found, [0, 1], result.guarantee.status)


def by_bisection():
    """A salary to the cent by histograms, each with the edges that the last one told.

    A curious party puts rows of its own there: no pooled count between two thresholds
    is ever below three, and what it gave itself it takes off. So quantiles are read off
    one histogram, and there are no rounds that refine it.
    """
    low, high, rounds = 61_200.0, 61_300.0, 0
    tables = patients()
    for table in tables.values():
        near = table["salary"].between(low, high)
        table.loc[near, "salary"] = 50_000.0
    tables[AIM].loc[ROW, "salary"] = SALARY
    own = tables["ash"]
    while high - low > 0.011:
        middle = round((low + high) / 2, 2)
        own.loc[:7, "salary"] = np.repeat([low, middle], 4) + 0.002
        result = counted(tables, histograms={"salary": [low, middle, high]})
        inside = result.histograms["salary"].counts
        assert inside.min() >= 3
        low, high = (low, middle) if inside[0] > 4 else (middle, high)
        rounds += 1
    return Found(low, SALARY, f"{rounds} rounds, {result.guarantee.status}")


COUNT = {"minimum_count"}
SITE = {"site_terms"}
FEW = {"effective_count", "maximum_influence", "minimum_count"}
ATTACKS = {
    "a group of one": (by_a_group_of_one, COUNT),
    "all but one": (by_all_but_one, COUNT),
    "a site's name": (by_site, SITE),
    # Nothing varies in the group at who has not the one.
    "one person's sum": (by_a_sum_that_is_one_persons, FEW | SITE),
    "two columns": (by_two_columns_that_differ_in_one, FEW),
    "a flag": (by_a_flag_within_a_group, COUNT),
    "a flag at one site": (by_a_flag_at_one_site_within_a_group, SITE),
    "a number for a site": (by_a_number_that_names_the_site_within_a_group, SITE),
    "what is missing": (by_what_is_missing, COUNT),
    "bisection": (by_bisection, COUNT),
}


@each(("attack", "rules"), ATTACKS.values(), ids=ATTACKS)
def test_nothing_of_one_is_found(attack, rules):
    check_rules_refuse(attack, rules)


@each("attack", [by_a_group_at_one_site, by_bins_of_two_columns])
def test_a_group_of_one_site_or_person_is_merged_with_others(attack):
    check_cells_merge(attack)


def test_a_sum_is_looked_at_in_every_group():
    """The twin of one person's sum: each rule of one group by itself refuses it too."""
    tables = patients()
    for table in tables.values():
        few = table.index[table["ward"] == "south"]
        table.loc[few, "salary"] = 1.0 + np.arange(len(few)) % 5
    south = tables[AIM].index[tables[AIM]["ward"] == "south"]
    tables[AIM].loc[south[0], "salary"] = SALARY
    for rule in ("effective_count", "maximum_influence"):
        kept = vs.Rules.none(**{rule: getattr(vs.Rules(), rule)})
        with refused("group-too-small", vs.VeilsumError):
            grouped(tables, columns=["salary"], rules=kept)
        # In all wards together the same salary is an ordinary one.
        counted(tables, columns=["salary"], rules=kept)


TWINS = {
    "groups": {"by": "ward", "columns": ["age", "salary"]},
    "flags": {"by": "death", "columns": ["salary"], "tables": [["hiv"], ["sex"]]},
    "bins": {"by": "sex", "columns": [], "histograms": {"age": [0, 40, 60, 100]}},
    "two columns": {
        "columns": [],
        "histograms": {"age": [0, 50, 100], "bmi": [10, 26, 60]},
        "tables": [["age", "bmi"], ["age", "hiv"]],
    },
}


@each("wish", TWINS.values(), ids=TWINS)
def test_what_is_aimed_at_nobody_is_answered(wish):
    tables = patients()
    for table in tables.values():
        table["hiv"] = np.arange(len(table)) % 7 // 4
    found = asked(vs.statistics, tables, **{"schema": SCHEMA, "tables": [], **wish})
    assert found.released.sums
