"""One patient by subtraction of two sums, while a party's table changes (rule R1).

Each attack is a function of what is released. With rule R1 the second question is
answered on the earlier cut or refused; without it the attack finds the person.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from attacks.organiser import Found
from cases import each
from data_cuts import POLICY, Site, patients, staff, with_both
from refusals import refused
from veilsum.errors import BudgetError
from veilsum.files.cuts import TableSource, register_cut
from veilsum.tables.rules import DisclosureError

PERSON = {"patient": "P99999", "age": 44, "pay": 61_234.56, "sex": "f"}
BY_ID = {"id": "patient"}


def joined_by(table, *people):
    return pd.concat([table, pd.DataFrame(people)], ignore_index=True)


def known_by_ids(attack):
    """The attack on a party that names its column of ids, and on one that does not."""
    return [(attack, BY_ID), (attack, {})]


def one_more_patient(site, how):
    before = site.sums(patients(), how=how)
    after = site.sums(joined_by(patients(), PERSON), how=how)
    return Found((after - before).tolist(), [1, PERSON["pay"]])


def one_corrected_cell(site, how):
    before, table = site.sums(patients(), how=how), patients()
    table.loc[3, "pay"] += 12_345.67
    after = site.sums(table, how=how)
    return Found(float((after - before)[1]), 12_345.67)


def one_deleted_patient(site, how):
    table = joined_by(patients(), PERSON)
    before = site.sums(table, how=how)
    after = site.sums(table[:-1], how=how)
    return Found((before - after).tolist(), [1, PERSON["pay"]])


def another_id(site, how):
    """All patients get new pseudonyms, and one leaves."""
    table = joined_by(patients(), PERSON)
    before = site.sums(table, how=how)
    renamed = table[:-1].assign(patient=[f"Q{k:05}" for k in range(len(table) - 1)])
    after = site.sums(renamed, how=how)
    return Found((before - after).tolist(), [1, PERSON["pay"]])


def one_id_in_five(site, how):
    """Five patients get new pseudonyms, to hide that one of six left."""
    table = joined_by(patients(), PERSON)
    before = site.sums(table, how=how)
    other = table[:-1].copy()
    other.loc[:4, "patient"] = [f"Q{k:05}" for k in range(5)]
    after = site.sums(other, how=how)
    return Found((before - after).tolist(), [1, PERSON["pay"]])


ATTACKS = [
    pair
    for attack in (
        one_more_patient,
        one_corrected_cell,
        one_deleted_patient,
        another_id,
        one_id_in_five,
    )
    for pair in known_by_ids(attack)
]


@pytest.mark.parametrize(
    ("attack", "how"), ATTACKS, ids=lambda one: getattr(one, "__name__", bool(one))
)
def test_the_difference_of_two_cuts_is_about_nobody(attack, how, tmp_path):
    with Site(tmp_path, r1=False) as site:
        assert attack(site, {}).succeeded
    with Site(tmp_path) as site:
        found = attack(site, how)
        assert not np.any(found.recovered)


# Names, units, zeros and curves of columns


def steps(table, **columns):
    return table[["patient", "sex"]].assign(**columns)


LOOKS = {
    "renamed": ("income", lambda pay: pay),
    "rescaled": ("pay", lambda pay: pay / 4),
    "shifted": ("pay", lambda pay: pay + 1000.0),
    "mirrored": ("pay", lambda pay: 150_000.0 - pay),
    "renamed and rescaled": ("income", lambda pay: pay / 2),
    "derived": ("level", lambda pay: np.round(np.log(pay) * 10_000, 2)),
}


def another_look(site, how, name, change):
    """The second table has another column instead, and one person more."""
    table = patients()
    first = joined_by(table, PERSON)
    site.sums(table, how=how)
    new = site.sums(
        steps(first, **{name: change(first["pay"])}), how=how, renamed={"pay": name}
    )
    one = site.sums(
        steps(table, **{name: change(table["pay"])}), how=how, renamed={"pay": name}
    )
    return Found(
        np.round(new - one, 4).tolist(), [1, round(float(change(PERSON["pay"])), 4)]
    )


@each("name, change", LOOKS.values(), ids=LOOKS)
def test_people_known_by_ids_are_the_same_in_any_look(name, change, tmp_path_factory):
    folders = [tmp_path_factory.mktemp("site") for _ in range(2)]
    with Site(folders[0], r1=False) as site:
        assert another_look(site, {}, name, change).succeeded
    with Site(folders[1]) as site, suppress(BudgetError):
        # The second question is refused, or answered on the earlier cut.
        assert not another_look(site, BY_ID, name, change).succeeded


# Populations of questions


def five_more_of_whom_one_is_asked(site, how):
    """Five come; of these one alone has an age, and sums are of who has one."""
    more = patients(5, seed=4, first=900).astype({"age": object})
    more.loc[1:, "age"] = None
    before = site.sums(patients(), "age", how=how)
    after = site.sums(joined_by(patients(), *more.to_dict("records")), "age", how=how)
    return Found((after - before).tolist(), [1, more["age"][0]])


def five_more_of_whom_one_has_another_value(site, how):
    """The same, where sums of a column are about those who have an age as well."""
    more = patients(5, seed=4, first=900).astype({"age": object})
    more.loc[1:, "age"] = None
    tables = patients(), joined_by(patients(), *more.to_dict("records"))
    before, after = (site.sums(one, complete=["age"], how=how) for one in tables)
    return Found((after - before).tolist(), [1, more["pay"][0]])


def a_value_that_comes_later(site, how):
    """One person has no age in the first table, and sums of pay are of who has one."""
    first, second = patients().astype({"age": object}), patients()
    first.loc[7, "age"] = None
    before, after = (
        site.sums(one, complete=["age"], how=how) for one in (first, second)
    )
    return Found((after - before).tolist(), [1, second["pay"][7]])


def five_more_of_whom_one_is_a_woman(site, how):
    """Five come, and one of them is a woman: sums are asked for by sex."""
    more = patients(5, seed=4, first=900).assign(sex=["f", "m", "m", "m", "m"])
    found = [
        site.ask(table, ("pay",), by="sex", how=how)[0]
        for table in (patients(), joined_by(patients(), *more.to_dict("records")))
    ]
    women = [one.groups.parts[0].sum[0] for one in found]
    return Found(float(women[1] - women[0]), more["pay"][0])


def one_value_is_missing(site, how):
    """Two questions about one table: one person lacks what the second one needs."""
    table = patients().astype({"age": object})
    table.loc[7, "age"] = None
    rules = {"policy": {} if how else POLICY}
    alone = site.sums(table, how=how, **rules)
    both = site.ask(table, ("age", "pay"), how=how, **rules)[0]
    found = alone - [both.count, both.moments.sum[[*both.columns].index("pay")]]
    return Found(found.tolist(), [1, table["pay"][7]])


@pytest.mark.parametrize("how", [BY_ID, {}], ids=["ids", "rows"])
@pytest.mark.parametrize(
    "attack",
    [
        five_more_of_whom_one_is_asked,
        five_more_of_whom_one_has_another_value,
        a_value_that_comes_later,
        five_more_of_whom_one_is_a_woman,
    ],
)
def test_no_population_of_a_later_cut_differs_by_one_person(attack, how, tmp_path):
    with Site(tmp_path, r1=False) as site:
        assert attack(site, {}).succeeded
    with Site(tmp_path) as site:
        assert not np.any(attack(site, how).recovered)


# Four populations: all, women, nurses, and women who are nurses


def one_alone(more=None):
    """A table in which one man alone is no nurse; and some people more."""
    table = staff()
    table.loc[0, ["sex", "nurse"]] = ["m", "no"]
    return with_both(pd.concat([table, more], ignore_index=True))


def five_men_more():
    return with_both(staff(5, seed=4, first=900).assign(sex="m", nurse="yes"))


def the_same_cut():
    return one_alone(), one_alone()


def five_more():
    return one_alone(), one_alone(five_men_more())


def six_fewer():
    """The man himself is gone in the second cut, with five others."""
    first = one_alone(five_men_more())
    return first, first.iloc[1:-5].reset_index(drop=True)


# Which of the two cuts each question is asked of.
ORDERS = {"one later": (0, 0, 0, 1), "two and two": (0, 1, 0, 1), "back": (0, 0, 1, 0)}


def four_populations(site, how, cuts, order=(0, 0, 0, 1), policy=POLICY):
    """The pay of the man: no two of the populations differ in few people."""
    tables, sums = cuts(), []
    for place, by in zip(order, (None, "sex", "nurse", "both"), strict=True):
        groups = {} if by is None else {"by": by, "tables": []}
        options = {"how": how, "policy": policy, "others": staff} | groups
        found, _ = site.ask(tables[place], ("pay",), **options)
        parts = [found.moments] if by is None else found.groups.parts
        names = ["all"] if by is None else found.groups.names
        sums.append(dict(zip(names, (one.sum[0] for one in parts), strict=True)))
    every, women, nurses, both = sums
    left = every["all"] - women["f"] - nurses["yes"] + both["woman and nurse"]
    return Found(round(left, 2), tables[0]["pay"][0])


@pytest.mark.parametrize("how", [BY_ID, {}], ids=["ids", "rows"])
@pytest.mark.parametrize("cuts", [the_same_cut, five_more, six_fewer])
def test_four_populations_of_two_cuts_leave_nobody(cuts, how, tmp_path):
    with Site(tmp_path, r1=False) as site:
        assert four_populations(site, {}, cuts).succeeded
    with Site(tmp_path) as site, refused("group-too-small", DisclosureError):
        four_populations(site, how, cuts, policy={})


@pytest.mark.parametrize("how", [BY_ID, {}], ids=["ids", "rows"])
@each("order", ORDERS.values(), ids=ORDERS)
def test_four_populations_in_any_order_of_cuts_leave_nobody(
    order, how, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("site")
    with Site(folder) as site, suppress(BudgetError, DisclosureError):
        assert not four_populations(site, how, six_fewer, order, policy={}).succeeded


def test_without_the_look_at_all_populations_two_cuts_leave_the_man(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("veilsum.party.cuts.few_left_together", lambda *_: 0)
    with Site(tmp_path) as site:
        assert four_populations(site, BY_ID, six_fewer, policy={}).succeeded


def test_four_populations_of_two_cuts_are_answered_where_nobody_is_alone(tmp_path):
    """Ordinary use: six men are no nurses, and twelve people come."""

    first = staff()
    first.loc[:10:2, "nurse"] = "no"
    first = with_both(first)
    second = pd.concat([first, staff(12, seed=4, first=900)], ignore_index=True)
    with Site(tmp_path) as site:
        for table, by in ((first, None), (first, "sex"), (second, "sex")):
            groups = {} if by is None else {"by": by, "tables": []}
            found, chosen = site.ask(
                table, ("pay",), how=BY_ID, policy={}, others=staff, **groups
            )
            assert not chosen.waits
        assert found.count == len(second) + 150


def test_a_missing_value_does_not_tell_two_populations_apart(tmp_path):
    with Site(tmp_path, r1=False) as site:
        assert one_value_is_missing(site, {}).succeeded
    with Site(tmp_path) as site, pytest.raises(DisclosureError) as refusal:
        one_value_is_missing(site, BY_ID)
    assert refusal.value.rule == "maximum_influence"


def one_must_have_an_age(site, how):
    """The same question twice, and once of those alone who have an age."""
    table = patients().astype({"age": object})
    table.loc[7, "age"] = None
    rules = {"policy": POLICY | {"maximum_influence": 0.98}, "how": how}
    every = site.sums(table, **rules)
    some = site.sums(table, complete=["age"], **rules)
    return Found((every - some).tolist(), [1, table["pay"][7]])


def test_columns_that_rows_must_have_do_not_tell_two_populations_apart(tmp_path):
    with Site(tmp_path, r1=False) as site:
        assert one_must_have_an_age(site, {}).succeeded
    with Site(tmp_path) as site, pytest.raises(DisclosureError) as refusal:
        one_must_have_an_age(site, BY_ID)
    assert refusal.value.rule == "maximum_influence"


def test_a_named_cut_cannot_be_subtracted_either(tmp_path):
    with Site(tmp_path) as site:
        for name, table in (
            ("june", patients()),
            ("july", joined_by(patients(), PERSON)),
        ):
            register_cut(site.ledger, TableSource(table), name, "patient")
        site.sums(None, how={"cut": "june"})
        with refused("cut-too-near", BudgetError):
            site.sums(None, how={"cut": "july"})
