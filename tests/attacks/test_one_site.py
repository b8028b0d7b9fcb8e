"""A question cannot be aimed at one hospital.

Whatever tells one party's rows from the others' gives that party's own sums: a column
that names the site, a number that is the same in all its rows, a range of record
numbers, a level that nobody else has. The screen once said "of one party alone nothing"
above all of it.
"""

import re
from functools import partial

import numpy as np

import veilsum as vs
from attacks.organiser import (
    AIM,
    SITES,
    Found,
    check_cells_merge,
    check_rules_refuse,
    counted,
    fitted,
    patients,
    said,
)
from cases import each

FIRST = 1000 + 100 * SITES.index(AIM)
CODE = 2 + SITES.index(AIM)


def own_means(tables, of="salary"):
    return [tables[site][of].mean() for site in SITES]


def by_site():
    """Every hospital's own mean, from one coefficient each."""
    tables = patients()
    result = fitted("salary ~ C(site)", tables)
    found = [said(result, *row) for row in np.eye(len(SITES))[:, 1:]]
    return Found(found, own_means(tables), result.guarantee.status)


def by_site_beside_others():
    """Every hospital's sum of ages by death, beside a column that is of use."""
    tables = patients()
    result = fitted("age ~ C(site):C(death) - 1", tables)
    found = [
        next(
            v for name, v in result.coefficients.items() if {site, "yes"} <= cell(name)
        )
        for site in SITES
    ]
    truth = [one["age"][one["death"] == "yes"].mean() for one in tables.values()]
    return Found(found, truth, result.guarantee.status)


def cell(name):
    """The levels in a coefficient's name."""
    return set(re.findall(r"\[(?:T\.)?(\w+)\]", name))


def by_a_table():
    """Every hospital's own deaths, where every cell has ten at least."""
    tables = patients()
    result = counted(tables, [["site", "death"]])
    deaths = [int((tables[site]["death"] == "yes").sum()) for site in SITES]
    found = result.tables["site", "death"][:, 1].tolist()
    return Found(found, deaths, result.guarantee.status)


def by_a_code():
    """The same means, from a polynomial in a number that each hospital has."""
    tables = patients()
    powers = " + ".join(f"{{(code - 4)**{k}}}" for k in range(1, len(SITES)))
    result = fitted(f"salary ~ {powers}", tables)
    found = [
        said(result, *((code - 4.0) ** k for k in range(1, len(SITES))))
        for code in range(2, 2 + len(SITES))
    ]
    return Found(found, own_means(tables), result.guarantee.status)


def by_a_function(column):
    """One hospital's own mean, from a column that is one there and zero elsewhere."""
    tables = patients()
    result = fitted(f"salary ~ {{{column}}}", tables)
    own = tables[AIM]["salary"].mean()
    return Found(said(result, 1.0), own, result.guarantee.status)


def by_record_numbers():
    """How many patients each hospital has, from the numbers on their records."""
    tables = patients()
    edges = [1000 + 100 * k for k in range(len(SITES) + 1)]
    result = counted(tables, histograms={"record": edges})
    found = result.histograms["record"].counts.tolist()
    truth = [len(one) for one in tables.values()]
    return Found(found, truth, result.guarantee.status)


def with_a_ward_of_its_own(tables):
    """Twelve patients of one hospital lie in a ward that no other one has."""
    tables[AIM].loc[:11, "ward"] = "isolation"
    return tables


def by_a_ward():
    """One hospital's own mean there: nobody else has any patient in it."""
    tables = with_a_ward_of_its_own(patients())
    result = fitted("salary ~ C(ward)", tables)
    own = tables[AIM][:12]["salary"].mean()
    return Found(said(result, 0, 0, 1), own, result.guarantee.status)


def by_a_cell_of_its_own():
    """One hospital's own deaths in that ward."""
    tables = with_a_ward_of_its_own(patients())
    result = counted(tables, [["ward", "death"]])
    own = tables[AIM][:12]["death"]
    truth = [int((own == "no").sum()), int((own == "yes").sum())]
    found = result.tables["ward", "death"][-1].tolist()
    return Found(found, truth, result.guarantee.status)


def by_a_yes():
    """One hospital's own mean: it alone has a programme, coded as one and zero."""
    tables = patients()
    for site, table in tables.items():
        table["code"] = int(site == AIM)
    result = fitted("salary ~ code", tables)
    own = tables[AIM]["salary"].mean()
    return Found(said(result, 1.0), own, result.guarantee.status)


SITE = {"site_terms"}
NEARLY = {"site_terms", "effective_count", "maximum_influence", "minimum_count"}
MIDDLE = FIRST + 29.5
ATTACKS = {
    "a site's name": (by_site, SITE),
    "a site's name and a level": (by_site_beside_others, SITE),
    "a table by site": (by_a_table, SITE),
    "a code": (by_a_code, SITE),
    "a function of a code": (
        partial(by_a_function, f"exp(-50*(code - {CODE})**2)"),
        SITE,
    ),
    "a window of record numbers": (
        partial(by_a_function, f"1/(1 + ((record - {MIDDLE})/34.5)**200)"),
        NEARLY,
    ),
    "record numbers within limits": (
        partial(by_a_function, f"(record >= {FIRST}) & (record < {FIRST + 100})"),
        SITE,
    ),
    "record numbers in bins": (by_record_numbers, {"minimum_count"}),
    "a ward of its own": (by_a_ward, SITE),
    "a programme": (by_a_yes, SITE),
}


@each(("attack", "rules"), ATTACKS.values(), ids=ATTACKS)
def test_nothing_of_one_site_is_found(attack, rules):
    check_rules_refuse(attack, rules)


def test_a_cell_of_one_site_is_merged_with_others():
    check_cells_merge(by_a_cell_of_its_own)


def with_wards_everywhere(tables):
    """The same ward, where every hospital has some of its patients."""
    for table in tables.values():
        table.loc[:11, "ward"] = "isolation"
        table.loc[:5, "death"], table.loc[6:11, "death"] = "no", "yes"
    return tables


def in_programmes(tables):
    """Some patients of every hospital are in a programme."""
    for table in tables.values():
        table["code"] = np.arange(len(table)) % 2
    return tables


TWINS = {
    "a ward that all have": lambda: fitted(
        "salary ~ C(ward)", with_wards_everywhere(patients())
    ),
    "a cell that all have": lambda: counted(
        with_wards_everywhere(patients()), [["ward", "death"]]
    ),
    "a programme that all have": lambda: fitted(
        "salary ~ code", in_programmes(patients())
    ),
    "sites, where all members have agreed": lambda: fitted(
        "salary ~ C(site)", patients(), rules=vs.Rules(site_terms=True)
    ),
}


@each("question", TWINS.values(), ids=TWINS)
def test_what_is_aimed_at_nobody_is_answered(question):
    assert question().released.sums
