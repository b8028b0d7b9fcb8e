"""Accounts add up over questions, and no column pays for another."""

import pytest
from hypothesis import given, strategies as st

from veilsum.disclosure.accounts import DisclosureAccounts, DisclosureBalance
from veilsum.disclosure.laws import DisclosedRowLaw, bits_held_by_rows, bits_held_given

NAMES = "abc"
charges = st.dictionaries(
    st.sets(st.sampled_from(NAMES)).map(lambda few: tuple(sorted(few))),
    st.integers(0, 100).map(float),
)


@given(charges, charges)
def test_accounts_add_up(one, other):
    both = DisclosureAccounts(one) + DisclosureAccounts(other)
    assert both.total == sum(one.values()) + sum(other.values())
    for few in both.sets:
        parts = (
            DisclosureAccounts(one).inside(few),
            DisclosureAccounts(other).inside(few),
        )
        assert both.inside(few) == sum(parts)
    for name in NAMES:
        # What does not change with a column depends on the others only.
        others = tuple(sorted({*NAMES} - {name}))
        assert both.changing(name) + both.inside(others) == both.total


@given(charges, st.integers(1, 4))
def test_so_many_rounds_cost_so_much(one, times):
    rounds = sum([DisclosureAccounts(one)] * (times - 1), DisclosureAccounts(one))
    assert rounds == DisclosureAccounts(one) * times


def test_unknown_columns_are_all_columns_of_the_question():
    found = DisclosureAccounts.from_charges(
        {None: 3.0, ("b",): 2.0, (): 1.0}, ("b", "a")
    )
    assert found.bits == {("a", "b"): 3.0, ("b",): 2.0, (): 1.0}


def test_a_fine_column_does_not_pay_for_others():
    laws = {
        "age": DisclosedRowLaw.uniform(78),
        "hiv": DisclosedRowLaw.uniform(2),
        "cost": DisclosedRowLaw.uniform(10**9),
    }
    study = DisclosureAccounts({("age", "hiv"): 300.0, ("cost",): 30.0})
    found = {(one.columns, one.given_others): one for one in study.balances(300, laws)}
    pair = (found[("age", "hiv"), False],)
    assert pair[0].spent == 300.0
    assert pair[0].held == bits_held_by_rows(300, laws["age"] * laws["hiv"])
    assert not pair[0].fits
    everything = (found[("age", "cost", "hiv"), False],)
    assert everything[0].fits
    alone = (found[("hiv",), True],)
    keys = laws["age"] * laws["cost"]
    assert alone[0].held == bits_held_given(300, laws["hiv"], keys)
    assert alone[0].spent == 300.0
    assert DisclosureBalance.tightest(study.balances(300, laws)).columns == ("hiv",)


def test_nothing_released_has_no_balance():
    assert DisclosureBalance.tightest(DisclosureAccounts({}).balances(10, {})) is None
    assert DisclosureAccounts({(): 5.0}).balances(10, {}) == ()
    assert DisclosureAccounts({("a",): 5.0}).balances(
        10, {"a": DisclosedRowLaw.uniform(2)}
    )[0].usable == (
        pytest.approx(bits_held_by_rows(10, DisclosedRowLaw.uniform(2)) / 2)
    )
