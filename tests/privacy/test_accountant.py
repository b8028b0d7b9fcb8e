"""The rules: what may be shown, what costs nothing, what is refused and why."""

from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given, strategies as st

from ledgers import PARTIES, aggregate, mark, private, reservation, run, version
from veilsum.errors import InvalidInputError
from veilsum.privacy.accountant import (
    AccountDecision,
    AccountHistory,
    AccountSettlement,
    Budget,
    RunLimits,
    accounts_of_data_sets,
    decide_charge,
    decide_release,
    decide_reservation,
    epsilon_left_in_budget,
)
from veilsum.privacy.composition import (
    CompositionTotal,
    Exposure,
    mobile_adversary_total,
)

UNLIMITED = Budget()
# Multiples of 1/64 add up exactly, so that a budget is met to the last bit.
costs = st.integers(0, 64).map(lambda whole: whole / 64)


def admitted(entries, budget, history=None):
    """Decide about entries in turn and keep what is news."""
    history = history or AccountHistory()
    outcomes = []
    for entry in entries:
        decide = decide_release if hasattr(entry, "statistic") else decide_charge
        decision = decide(history, entry, budget)
        history = history.plus(entry) if decision.is_news else history
        outcomes.append(decision.outcome)
    return history, outcomes


def after(*entries):
    return AccountHistory().plus(*entries)


# Charges


@given(st.lists(costs, max_size=8), costs)
def test_the_budget_is_never_exceeded_and_never_refused_while_there_is_room(
    needs, limit
):
    spent, history = 0.0, AccountHistory()
    for number, need in enumerate(needs):
        wanted = run(f"run {number}", private(need, "a"))
        decision = decide_charge(history, wanted, Budget(epsilon=limit))
        assert decision.is_news == (spent + need <= limit)
        if decision.is_news:
            spent, history = spent + need, history.plus(wanted)
    assert mobile_adversary_total(history.charges) == CompositionTotal(spent)


@given(st.lists(costs, min_size=1, max_size=5), st.data())
def test_charging_any_epoch_again_changes_nothing(needs, data):
    runs = [run(f"run {i}", private(need, "a")) for i, need in enumerate(needs)]
    history, _ = admitted(runs, UNLIMITED)
    again = data.draw(st.lists(st.sampled_from(runs), max_size=10))
    same, outcomes = admitted(again, UNLIMITED, history)
    assert same == history
    assert set(outcomes) <= {"already"}


@given(st.lists(costs, max_size=5), st.data())
def test_the_order_of_charges_does_not_matter_for_the_total(needs, data):
    runs = [run(f"run {i}", private(need, "a")) for i, need in enumerate(needs)]
    one, _ = admitted(runs, UNLIMITED)
    two, _ = admitted(data.draw(st.permutations(runs)), UNLIMITED)
    assert mobile_adversary_total(one.charges) == mobile_adversary_total(two.charges)


def test_an_epoch_is_charged_already_even_when_nothing_is_left():
    history = after(run("one", private(1.0, "a")))
    decision = decide_charge(history, run("one", private(1.0, "a")), Budget(epsilon=1))
    assert decision.outcome == "already"


def test_a_bound_that_differs_by_rounding_is_the_same_bound():
    history = after(run("one", private(0.1, "a")))
    again = run("one", private(0.1 * (1 + 1e-14), "a"))
    assert decide_charge(history, again, UNLIMITED).outcome == "already"


def test_the_same_masked_costs_sent_to_the_same_parties_cost_nothing():
    first = run("one", private(1.0, "a"))
    again = run("two", private(1.0, "a"), masks=first.masks, effective=first.effective)
    decision = decide_charge(after(first), again, Budget(epsilon=1.0))
    assert decision == AccountDecision(
        "resent", "epoch 'one' showed the same masked costs"
    )
    history = after(first, again)
    assert mobile_adversary_total(history.charges) == CompositionTotal(1.0)
    assert decide_charge(history, again, Budget(epsilon=1.0)).outcome == "already"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": mark("changed")}, "was charged with other data"),
        ({"effective": mark("changed")}, "was charged with other masked costs"),
        ({"masks": mark("changed")}, "was charged with other masks"),
        ({"parties": ("a", "b", "c")}, "was charged with other parties"),
        ({"law": "lattice"}, "was charged with other kinds of masks"),
        ({"exposures": (private(2.0, "a"),)}, "was charged with other bounds"),
        ({"exposures": (private(0.125, "b"),)}, "was charged with other bounds"),
    ],
)
def test_an_epoch_serves_one_set_of_costs_and_parties(changes, words):
    decision = decide_charge(after(run("one")), run("one", **changes), UNLIMITED)
    assert decision.outcome == "refused"
    assert words in decision.reason
    assert "draw fresh masks in a new epoch" in decision.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": mark("changed")}, "the data changed and the masks are those of"),
        (
            {"data": mark("changed"), "effective": mark("effective one")},
            "the data changed and the masks are those of",
        ),
        ({}, "were used with other masked costs"),
        (
            {"effective": mark("effective one"), "parties": ("a", "b")},
            "were used with other parties",
        ),
    ],
)
def test_old_masks_with_anything_new_are_refused(changes, words):
    old = run("one")
    decision = decide_charge(
        after(old), run("two", **{"masks": old.masks, **changes}), UNLIMITED
    )
    assert decision.outcome == "refused"
    assert words in decision.reason
    assert "epoch 'one'" in decision.reason


def test_old_masked_costs_with_changed_data_are_refused():
    old = run("one")
    new = run("two", data=mark("changed"), effective=old.effective)
    decision = decide_charge(after(old), new, UNLIMITED)
    assert decision.outcome == "refused"
    assert "the data changed" in decision.reason


def test_fresh_masks_that_meet_old_masked_costs_by_chance_still_cost():
    old = run("one", private(1.0, "a"))
    new = run("two", private(1.0, "a"), effective=old.effective)
    assert decide_charge(after(old), new, Budget(epsilon=1.0)).outcome == "refused"
    assert decide_charge(after(old), new, Budget(epsilon=2.0)).outcome == "accepted"


def test_runs_without_masks_do_not_count_as_reused_masks():
    bare = Exposure(coalition=("a",), status="no_privacy", epsilon=None)
    plain = {"law": "none", "masks": None}
    new = run("two", bare, data=mark("changed"), **plain)
    history = after(run("one", bare, **plain))
    assert decide_charge(history, new, UNLIMITED).outcome == "accepted"


def test_a_refusal_says_what_is_needed_and_what_is_left():
    history = after(run("one", private(0.375, "a")))
    decision = decide_charge(
        history, run("two", private(0.25, "a")), Budget(epsilon=0.5)
    )
    assert decision.outcome == "refused"
    assert "epoch 'two' needs epsilon 0.25" in decision.reason
    assert "of the budget of 0.5 for this data set 0.125 is left" in decision.reason


def test_three_tenths_have_room_for_three_runs_of_a_tenth():
    runs = [run(f"run {i}", private(0.1, "a")) for i in range(4)]
    _, outcomes = admitted(runs, Budget(epsilon=0.3))
    assert outcomes == ["accepted"] * 3 + ["refused"]


def test_each_data_set_has_a_budget_of_its_own():
    history = after(run("one", private(1.0, "a")))
    other = run("two", private(1.0, "a"), data=mark("other"))
    assert decide_charge(history, other, Budget(epsilon=1.0)).outcome == "accepted"


def test_the_budget_is_spent_at_the_mobile_adversarys_rate():
    runs = [
        run("one", private(0.5, "a"), private(0.25, "b")),
        run("two", private(0.25, "a"), private(0.5, "b")),
    ]
    _, outcomes = admitted(runs, Budget(epsilon=0.75))
    assert outcomes == ["accepted", "refused"]


@pytest.mark.parametrize("status", ["partial", "exposed"])
def test_a_run_without_a_bound_is_recorded_unless_there_is_a_limit(status):
    lost = run("one", Exposure(coalition=("a",), status=status, epsilon=None))
    assert decide_charge(AccountHistory(), lost, UNLIMITED).outcome == "accepted"
    decision = decide_charge(AccountHistory(), lost, Budget(epsilon=1e9))
    assert decision.outcome == "refused"
    assert f"no bound against a ({status})" in decision.reason


def test_after_a_run_without_a_bound_a_limit_admits_no_more():
    history = after(run("one", Exposure(coalition=(), status="partial", epsilon=None)))
    decision = decide_charge(history, run("two"), Budget(epsilon=1e9))
    assert decision.outcome == "refused"
    assert "epoch 'one' has no bound against nobody (partial)" in decision.reason
    assert epsilon_left_in_budget(history, Budget(epsilon=1e9)) is None


def test_runs_that_cost_nothing_go_on_when_the_budget_is_spent():
    """Uniform masks: equal sums give identical views, KL = 0."""
    history = after(run("one", private(1.0, "a")))
    free = run("two", private(0.0, "a"), law="uniform")
    assert decide_charge(history, free, Budget(epsilon=1.0)).outcome == "accepted"


# Releases


def test_the_pair_of_all_and_all_but_one_is_refused_and_who_would_be_known_is_named():
    decision = decide_release(
        after(aggregate()), aggregate(parties=PARTIES[:-1]), UNLIMITED
    )
    assert decision.outcome == "refused"
    assert "over a, b, c, d, added to and subtracted from" in decision.reason
    assert "could give away e:" in decision.reason


party_sets = st.sets(st.sampled_from("abcdefgh"), min_size=1).map(sorted).map(tuple)


@given(party_sets, party_sets, st.integers(1, 4), st.integers(0, 2))
def test_two_sets_and_their_difference_are_about_enough_parties(
    one, two, least, colluders
):
    budget = Budget(minimum_honest=least, tolerate=colluders)
    decision = decide_release(
        after(aggregate(parties=one)), aggregate("count", parties=two), budget
    )
    sizes = [len(one), len(two), len(set(one) ^ set(two))]
    enough = all(size >= least + colluders for size in sizes if size)
    assert decision.outcome == ("accepted" if enough else "refused")


def test_three_sets_that_are_harmless_in_pairs_are_refused_together():
    """All seven, three of them, three others: the seventh is what is left."""
    seven = tuple("abcdefg")
    pair = after(aggregate(parties=seven), aggregate(parties=tuple("abc")))
    third = aggregate(parties=tuple("def"))
    for one in pair.releases:
        assert decide_release(after(one), third, UNLIMITED).outcome == "accepted"
    decision = decide_release(pair, third, UNLIMITED)
    assert decision.outcome == "refused"
    assert "could give away g:" in decision.reason


def test_the_stricter_of_policy_and_budget_decides_who_may_be_left():
    """Eight and five parties leave three, of whom one may be a colluder."""
    eight = tuple("abcdefgh")
    known = after(aggregate(parties=eight))
    five = {"run": "r", "parties": eight[:5], "numbers": 1}
    for own, agreed, outcome in (
        (0, 0, "accepted"),
        (0, 1, "refused"),
        (1, 0, "refused"),
    ):
        wanted = reservation(
            **five, limits=RunLimits(minimum_honest=3, tolerate=agreed)
        )
        found = decide_reservation(known, wanted, Budget(tolerate=own))
        assert found.outcome == outcome
        begun = known.plus(wanted)
        later = aggregate(parties=eight[:5], run="r")
        assert decide_release(begun, later, Budget(tolerate=own)).outcome == outcome


def test_differencing_is_refused_at_other_points_too():
    near = aggregate(parties=PARTIES[:-1], point=(1e-9,))
    known = after(aggregate(point=(0.0,)))
    assert decide_release(known, near, UNLIMITED).outcome == "refused"


def test_another_data_set_is_not_differencing_but_another_name_or_version_is():
    known = after(aggregate(), version("data"), version("later", same=["data"]))
    known = known.plus(version("last", same=["later"]))
    fewer = PARTIES[:-1]
    other = aggregate(parties=fewer, data=mark("other"))
    assert decide_release(known, other, UNLIMITED).outcome == "accepted"
    for same in (
        aggregate("count", parties=fewer),
        aggregate(parties=fewer, data=mark("later")),
        aggregate(parties=fewer, data=mark("last")),
    ):
        assert decide_release(known, same, UNLIMITED).outcome == "refused"


def test_an_aggregate_is_known_in_its_own_epoch_only():
    """A name does not say what is summed: weights, or others' data, may differ."""
    first = aggregate(numbers=5, epoch="one")
    assert decide_release(after(first), first, UNLIMITED).outcome == "already"
    again = replace(first, epoch="two")
    assert decide_release(after(first), again, UNLIMITED).outcome == "accepted"


# Numbers


@given(st.lists(st.integers(1, 40), max_size=8))
def test_numbers_of_all_jobs_stay_below_the_fraction_of_what_rows_hold(sizes):
    """0.5 of 10 rows of 2 numbers: 9 at most, whatever the jobs are called."""
    history, spent = AccountHistory(), 0
    for k, size in enumerate(sizes):
        wanted = reservation(run=f"run {k}", numbers=size, columns=("x", "y"), rows=10)
        found = decide_reservation(history, wanted, Budget(release_fraction=0.5))
        assert found.is_news == (spent + size < 10)
        if found.is_news:
            spent, history = spent + size, history.plus(wanted)


def test_the_stricter_fraction_holds_and_none_leaves_it_to_the_other():
    wanted = {"numbers": 6, "columns": ("x",), "rows": 10}
    for own, agreed, outcome in (
        (0.5, 0.9, "refused"),
        (0.9, 0.5, "refused"),
        (0.9, 0.9, "accepted"),
        (None, 0.5, "refused"),
        (0.5, None, "refused"),
        (None, None, "accepted"),
    ):
        asked = reservation(**wanted, limits=RunLimits(release_fraction=agreed))
        budget = Budget(release_fraction=own)
        assert decide_reservation(AccountHistory(), asked, budget).outcome == outcome


def test_questions_about_other_columns_make_no_room_for_more_about_one():
    budget = Budget(release_fraction=0.5)
    columns = tuple(f"z{k}" for k in range(48))
    wide = reservation(run="wide", numbers=1, columns=("x", "y", *columns), rows=10)
    many = reservation(run="many", numbers=10, columns=("x", "y"), rows=10)
    few = replace(many, numbers=9)
    assert decide_reservation(after(wide), few, budget).outcome == "accepted"
    found = decide_reservation(after(wide), many, budget)
    assert found.outcome == "refused"
    assert "about x, y of this data set" in found.reason
    assert "release_fraction = 0.5 of the 20 numbers" in found.reason


def test_a_larger_consortium_makes_no_room_for_more_about_a_small_one():
    budget = Budget(release_fraction=0.5)
    everybody = tuple("abcdefghijkl")
    large = reservation(
        run="large", numbers=1, columns=("x",), rows=1000, parties=everybody
    )
    small = reservation(
        run="small", numbers=10, columns=("x",), rows=20, parties=everybody[:6]
    )
    assert decide_reservation(after(large), small, budget).outcome == "refused"
    found = decide_reservation(after(large), replace(small, numbers=9), budget)
    assert found.outcome == "accepted"


def test_what_a_run_reserved_is_there_for_it_and_for_nobody_else():
    budget = Budget(release_fraction=0.5)
    begun = reservation(run="one", numbers=8, columns=("x",), rows=20)
    history = after(begun)
    assert decide_reservation(history, begun, budget).outcome == "already"
    other = replace(begun, run="two", numbers=2)
    assert decide_reservation(history, other, budget).outcome == "refused"
    about = {"columns": ("x",), "rows": 20}
    rounds = [
        aggregate(numbers=4, run="one", epoch=f"one / {k}", **about) for k in "ab"
    ]
    for one in rounds:
        found = decide_release(history, one, budget)
        assert found.outcome == "accepted"
        history = history.plus(one)
    # Beyond what it reserved a run has what is left, and that is 1.
    more = aggregate(numbers=2, run="one", epoch="one / c", **about)
    assert decide_release(history, more, budget).outcome == "refused"
    found = decide_release(history, replace(more, numbers=1), budget)
    assert found.outcome == "accepted"


def test_what_was_not_used_comes_back_at_the_end_and_not_before():
    budget = Budget(release_fraction=0.5)
    begun = reservation(run="one", numbers=8, columns=("x",), rows=20)
    used = aggregate(numbers=3, run="one", columns=("x",), rows=20)
    other = replace(begun, run="two", numbers=6)
    aborted = after(begun, used)
    assert decide_reservation(aborted, other, budget).outcome == "refused"
    ended = aborted.plus(AccountSettlement(run="one"))
    assert decide_reservation(ended, other, budget).outcome == "accepted"
    more = replace(other, numbers=7)
    assert decide_reservation(ended, more, budget).outcome == "refused"


def test_a_run_that_is_begun_again_has_the_data_and_terms_it_had():
    begun = reservation(run="one", numbers=8, columns=("x",), rows=20)
    for change in ({"numbers": 7}, {"data": mark("other")}, {"parties": PARTIES[:4]}):
        found = decide_reservation(after(begun), replace(begun, **change), UNLIMITED)
        assert found.outcome == "refused"
        assert "was begun with other data or other terms" in found.reason


def test_numbers_that_are_not_about_rows_are_counted_and_not_limited():
    cost = reservation(run="one", numbers=10**6)
    assert decide_reservation(AccountHistory(), cost, UNLIMITED).outcome == "accepted"
    (account,) = accounts_of_data_sets(after(cost))
    assert (account.reserved, account.numbers_left) == (10**6, None)


# Accounts


def test_an_account_says_what_is_spent_and_what_is_left():
    first = run("one", private(0.25, "a"), private(0.125, "b", tolerate=1))
    again = run("two", *first.exposures, masks=first.masks, effective=first.effective)
    other = aggregate(data=mark("other"))
    about = {"columns": ("x", "y"), "rows": 20}
    begun = reservation(run="r", numbers=7, **about)
    shown = aggregate(numbers=3, run="r", **about)
    budget = Budget(epsilon=1.0)
    one, two = accounts_of_data_sets(after(budget, first, again, begun, shown, other))
    assert (one.data_set, one.runs, one.resent) == (1, 1, 1)
    assert one.total == CompositionTotal(0.25)
    assert one.epsilon_left == 0.75
    assert dict(one.coalitions) == {
        ("a",): CompositionTotal(0.125),
        1: CompositionTotal(0.125),
    }
    assert (one.numbers, one.reserved, one.numbers_left) == (3, 4, 12)
    assert one.columns == ("x", "y")
    assert (two.data_set, two.runs, two.total) == (2, 0, CompositionTotal(0.0))
    assert two.to_dict()["numbers"] == 1


def test_versions_that_share_rows_are_one_data_set():
    """A later one may join two that were apart."""
    apart = after(aggregate(), aggregate(data=mark("other")))
    apart = apart.plus(version("data"), version("other"))
    assert len(accounts_of_data_sets(apart)) == 2
    joined = apart.plus(version("both", same=["data", "other"]))
    (account,) = accounts_of_data_sets(joined)
    assert (account.versions, account.numbers) == (3, 2)


def test_runs_without_masks_are_counted_each():
    """They have no masks in common: nothing was shown again."""
    shown = Exposure(coalition=("a",), status="no_privacy", epsilon=None)
    bare = [run(epoch, shown, masks=None, law="none") for epoch in ("one", "two")]
    again = run("three", private(0.25, "a"))
    (found,) = accounts_of_data_sets(after(*bare, again, bare[0]))
    assert (found.runs, found.resent) == (3, 1)


def test_an_account_without_a_bound_has_a_reason_and_no_number():
    lost = run("one", Exposure(coalition=("a",), status="partial", epsilon=None))
    (found,) = accounts_of_data_sets(after(Budget(epsilon=1.0), lost))
    document = found.to_dict()
    assert document["epsilon"] is None
    assert document["epsilon_left"] is None
    assert document["reason"] == "epoch 'one' has no bound against a (partial)"


def test_a_history_without_a_budget_has_the_default_one():
    assert AccountHistory().budget == Budget()
    assert after(Budget(tolerate=1), Budget(tolerate=2)).budget == Budget(tolerate=2)


# Values


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": -1.0}, "finite and not negative"),
        ({"epsilon": nan}, "finite and not negative"),
        ({"epsilon": inf}, "None sets no limit"),
        ({"release_fraction": inf}, "None sets no limit"),
        ({"minimum_rows": 0}, "minimum_rows must be at least 1"),
        ({"minimum_honest": 0}, "minimum_honest must be at least 1"),
        ({"tolerate": -1}, "tolerate must be at least 0"),
    ],
)
def test_a_budget_that_means_nothing_is_refused(changes, words):
    with pytest.raises(InvalidInputError, match=words):
        Budget(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"statistic": ""}, "a statistic needs a printable name"),
        ({"point": (nan,)}, "must be finite numbers"),
        ({"parties": ()}, "at least 1 party"),
        ({"data": "secret value"}, "keyed fingerprint"),
        ({"numbers": -1}, "has -1 numbers"),
    ],
)
def test_a_release_that_means_nothing_is_refused(changes, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        aggregate(**changes)
    assert "secret value" not in str(caught.value)


def test_a_release_does_not_show_its_fingerprint():
    assert mark("data") not in repr(aggregate())
