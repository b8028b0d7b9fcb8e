"""A ledger on disk: durable, charged once, never overspent, never overwritten."""

import copy
import os
import pickle
import re
import shlex
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from ledgers import PARTIES, aggregate, mark, private, reservation, run
from refusals import refused
from veilsum.errors import BudgetError, InvalidInputError, LedgerError, SecretError
from veilsum.files.ledger import (
    APPLICATION_ID,
    VERSION,
    LedgerRequest,
    copy_ledger,
    create_journal,
    open_journal,
    open_ledger,
    read_journal,
    read_ledger,
)
from veilsum.privacy.accountant import Budget
from veilsum.privacy.composition import (
    CompositionTotal,
    Exposure,
    mobile_adversary_total,
)
from veilsum.privacy.guarantee import GuaranteeComponent
from veilsum.tables.fingerprints import FingerprintSource

TESTS = Path(__file__).parents[1]
ENDINGS = ("", "-wal", "-head", "-shm")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "party.ledger"


@pytest.fixture
def ledger(path):
    with open_ledger(path, create=Budget()) as opened:
        yield opened


@pytest.mark.parametrize("exchanged", [False, True])
def test_a_ledger_that_was_deleted_meanwhile_takes_no_charge(path, ledger, exchanged):
    """It would be written to a file that vanishes with the process."""
    ledger.charge(run("one"), when="then")
    kept = path.read_bytes()
    path.unlink()
    if exchanged:
        path.write_bytes(kept)
    with refused("file-replaced", LedgerError):
        ledger.charge(run("two"), when="then")


def filled(path, charges=3, **budget):
    """A ledger with some charges, closed; its bytes."""
    with open_ledger(path, create=Budget(**budget)) as ledger:
        for number in range(charges):
            ledger.charge(run(f"run {number}"), when="then")
    return path.read_bytes()


def epochs(path):
    return [charge.epoch for charge in read_ledger(path).charges]


def key_of(path):
    with sqlite3.connect(path) as connection:
        (key,) = connection.execute("SELECT key FROM secret").fetchone()
    connection.close()
    return key


# What is written is there


def test_everything_comes_back_as_it_was(path):
    parts = (
        GuaranteeComponent(("b",), "exposed", None, None),
        GuaranteeComponent(("c", "d", "e"), "private", 0.1, 3.0),
    )
    cut = Exposure(coalition=("a",), status="partial", epsilon=None, components=parts)
    charge = run("one", cut, private(0.1 + 0.2, "a", "b", tolerate=2))
    release = aggregate(point=(0.1, -1e-300))
    with open_ledger(path, create=Budget(tolerate=2)) as ledger:
        ledger.charge(charge, when="noon")
        ledger.release(release, when="later")
    with open_ledger(path) as ledger:
        found = ledger.history()
    assert found == read_ledger(path)
    assert found.charges == (charge,)
    assert found.releases == (release,)
    assert found.budget == Budget(tolerate=2)
    assert (found.charges[0].when, found.releases[0].when) == ("noon", "later")


def test_entries_without_a_time_get_the_present_one(ledger):
    ledger.charge(run("one"))
    assert ledger.history().charges[0].when.endswith("+00:00")


def test_the_same_epoch_is_recorded_once(path, ledger):
    outcomes = [ledger.charge(run("one")).outcome for _ in range(3)]
    assert outcomes == ["accepted", "already", "already"]
    assert epochs(path) == ["one"]


def test_a_charge_is_readable_by_others_when_it_returns(path, ledger):
    ledger.charge(run("one"))
    assert epochs(path) == ["one"]


def test_two_open_ledgers_of_one_file_see_each_others_charges(path, ledger):
    with open_ledger(path) as other:
        ledger.charge(run("one"))
        assert other.charge(run("one")).outcome == "already"
        other.charge(run("two"))
        assert len(ledger.history().charges) == 2


def test_an_open_ledger_takes_no_record_that_no_ledger_has_written(path, ledger):
    """The twin, a record by another open ledger, is the test above."""
    ledger.charge(run("one"), when="then")
    copied = "INSERT INTO journal (kind, body) SELECT kind, body FROM journal"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(copied)
    connection.close()
    for use in (ledger.history, lambda: ledger.charge(run("two"), when="then")):
        with refused("record-changed", LedgerError, mentions=("1",)):
            use()


def test_a_refused_charge_leaves_no_trace(path):
    with open_ledger(path, create=Budget(epsilon=0.25)) as ledger:
        ledger.charge(run("one", private(0.25, "a")))
        before = ledger.history()
        with refused("budget-exceeded", BudgetError, mentions=("0",)):
            ledger.charge(run("two", private(0.25, "a")))
        with refused("budget-exceeded", BudgetError):
            ledger.charge(run("three", masks=mark("masks one"), data=mark("new")))
        assert ledger.history() == before
    assert read_ledger(path) == before


def test_entries_keep_their_names_on_disk(path):
    """Old ledgers stay readable, whatever the classes are called."""
    with open_ledger(path, create=Budget(tolerate=2)) as ledger:
        ledger.charge(run("one"), releases=[aggregate()])
    kinds = read_journal(path, lambda kind, _: kind)
    assert tuple(kinds) == ("budget", "charge", "release")


def test_a_charge_and_its_releases_are_recorded_together_or_not_at_all(path):
    with open_ledger(path, create=Budget()) as ledger:
        wanted = [aggregate("count"), aggregate("sum", parties=PARTIES[1:])]
        with refused("budget-exceeded", BudgetError):
            ledger.charge(run("one"), releases=wanted)
        assert ledger.history().charges == ledger.history().releases == ()
        ledger.charge(run("one"), releases=wanted[:1])
        ledger.charge(run("one"), releases=wanted[:1])
        assert len(ledger.history().releases) == 1


def test_a_copy_spends_nothing_until_its_owner_resumes_it(path, ledger):
    """What the original has shown since then is missing in the copy."""
    ledger.charge(run("one"), when="then")
    there = path.with_name("copy.ledger")
    copy_ledger(path, there, when="then")
    with open_ledger(there) as copied:
        with refused("ledger-is-copy", BudgetError):
            copied.charge(run("two"), when="later")
        with refused("ledger-is-copy", BudgetError):
            copied.reserve(reservation("three"))
        assert epochs(there) == ["one"]
        copied.resume("nothing was shown meanwhile", when="later")
        copied.charge(run("two"), when="later")
    assert epochs(there) == ["one", "two"]
    ledger.charge(run("four"), when="later")
    assert epochs(path) == ["one", "four"]


def test_the_differencing_pair_is_refused(ledger):
    ledger.release(aggregate())
    with refused("budget-exceeded", BudgetError):
        ledger.release(aggregate(parties=PARTIES[:-1]))


def test_the_rounds_of_a_regression_are_recorded_one_by_one(ledger):
    names = ("score", "information", "deviance", "count")
    for number in range(5):
        point = (float(number), 0.5)
        ledger.charge(
            run(f"fit/{number}", private(0.0, "a"), law="uniform"),
            releases=[aggregate(name, point=point) for name in names],
        )
    (account,) = ledger.totals()
    assert (account.runs, account.numbers, account.numbers_left) == (5, 20, None)
    assert account.total == CompositionTotal(0.0)


def test_a_budget_is_changed_openly(path):
    with open_ledger(path, create=Budget(epsilon=1.0)) as ledger:
        ledger.change_budget(Budget(epsilon=2.0), when="tomorrow")
        assert ledger.budget == Budget(epsilon=2.0)
    found = read_ledger(path)
    assert [budget.epsilon for budget in found.budgets] == [1.0, 2.0]
    with refused("other-budget", BudgetError, mentions=("change_budget",)):
        open_ledger(path, create=Budget(epsilon=1.0))
    open_ledger(path, create=Budget(epsilon=2.0)).close()


def test_a_budget_is_changed_after_charges_of_any_process(path):
    """What others wrote since comes before it, or the seals would not fit."""
    with (
        open_ledger(path, create=Budget(epsilon=1.0)) as one,
        open_ledger(path) as other,
    ):
        one.charge(run("of one"))
        one.change_budget(Budget(epsilon=2.0))
        other.change_budget(Budget(epsilon=3.0))
        one.charge(run("of one again"))
        other.charge(run("of the other"))
        other.change_budget(Budget(epsilon=4.0))
        assert one.budget == other.budget == Budget(epsilon=4.0)
    assert [one.epsilon for one in read_ledger(path).budgets] == [1.0, 2.0, 3.0, 4.0]
    assert epochs(path) == ["of one", "of one again", "of the other"]


def test_threads_share_a_ledger(path):
    with open_ledger(path, create=Budget(epsilon=0.5)) as ledger:

        def spend(name):
            for number in range(10):
                try:
                    ledger.charge(run(f"{name} {number}", private(1 / 16, "a")))
                except BudgetError:
                    return

        threads = [threading.Thread(target=spend, args=(name,)) for name in "xyz"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert mobile_adversary_total(ledger.history().charges) == CompositionTotal(0.5)


# Tables, reservations and refusals


def frame(rows=60, seed=0, **columns):
    """A made-up table."""
    draw = np.random.default_rng(seed)
    made = {"age": draw.integers(18, 90, rows), "pay": draw.normal(30, 9, rows)}
    return pd.DataFrame(made | columns)


def begin(
    ledger,
    table,
    run="study",
    *,
    asked=("age", "pay"),
    show=True,
    new_data=False,
    **changes,
):
    """Reserve for a run on a table; let it show one sum, if it is to."""
    known = ledger.data(FingerprintSource(table, asked), new_data=new_data)
    about = {"columns": known.asked, "rows": 400, "data": known.data}
    ledger.reserve(reservation(run, **{**about, "numbers": 5, **changes}), known)
    if show:
        ledger.release(aggregate(run=run, epoch=run, numbers=5, **about))
    return known.data


def sets(ledger):
    return [(one.versions, one.numbers, one.reserved) for one in ledger.totals()]


def test_a_table_is_known_whatever_the_order_of_its_rows_and_columns(ledger):
    table = frame()
    first = begin(ledger, table)
    assert begin(ledger, table[::-1][["pay", "age"]], "again") == first
    assert sets(ledger) == [(1, 10, 0)]
    assert begin(ledger, frame(seed=1), "other", new_data=True) != first
    assert sets(ledger) == [(1, 10, 0), (1, 5, 0)]


def test_data_that_are_not_known_again_count_as_the_earlier_ones(ledger):
    begin(ledger, frame())
    begin(ledger, frame(70, seed=1), "another table")
    known = ledger.data([np.arange(3.0)])
    ledger.reserve(reservation("a number", data=known.data), known)
    assert sets(ledger) == [(3, 10, 1)]


def test_the_owner_may_declare_later_that_data_are_new(ledger):
    begin(ledger, frame())
    begin(ledger, frame(70, seed=1), "another table", show=False)
    assert len(sets(ledger)) == 1
    begin(ledger, frame(70, seed=1), "once more", new_data=True)
    assert sets(ledger) == [(1, 5, 0), (1, 5, 5)]
    # What belongs to nothing that is known counts as all of it.
    begin(ledger, frame(80, seed=2), "a third table")
    assert sets(ledger) == [(3, 15, 5)]


def test_rows_that_are_known_again_are_not_new_by_their_owners_word(ledger):
    begin(ledger, frame())
    begin(ledger, frame().assign(sex="F"), "wider", asked=("age",), new_data=True)
    assert sets(ledger) == [(2, 10, 0)]


LOOKS = {
    "renamed": lambda t: t.rename(columns={"age": "years", "pay": "income"}),
    "rescaled": lambda t: t.assign(age=t["age"] * 12, pay=t["pay"] * 2.2046),
    "shifted": lambda t: t.assign(age=t["age"] - 50, pay=t["pay"] + 1000),
    "mirrored": lambda t: t.assign(age=2026 - t["age"], pay=-t["pay"]),
    "all of it": lambda t: pd.DataFrame(
        {"born": 2026 - t["age"], "income": t["pay"] * 0.92 - 7}
    ),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize(
    "change", [lambda t: t[1:], lambda t: pd.concat([t[1:], frame(1, seed=9)])]
)
@pytest.mark.parametrize("rows", [60, 1000])
def test_another_look_hides_no_row_that_came_or_went(ledger, look, change, rows):
    table = frame(rows)
    same, other = look(table), look(change(table))
    begin(ledger, table)
    begin(ledger, same, "same people", asked=tuple(same.columns))
    assert len(sets(ledger)) == 1
    with refused("cut-too-near", BudgetError):
        begin(ledger, other, "one person more or less", asked=tuple(other.columns))
    if len(other) < rows:
        begin(ledger, look(table[8:]), "fewer", asked=tuple(other.columns))


def test_tables_that_overlap_or_have_another_column_are_one_data_set(ledger):
    table = frame(120)
    begin(ledger, table[:60])
    begin(ledger, table[40:100], "overlapping")
    begin(ledger, table[:60].assign(sex=["F", "M"] * 30), "wider", asked=("age", "sex"))
    begin(ledger, table[:60][["pay"]], "narrower", asked=("pay",))
    dated = table[:60].assign(number=np.arange(60.0))
    begin(ledger, dated, "numbered")
    assert sets(ledger) == [(5, 25, 0)]
    begin(ledger, dated.assign(number=np.arange(60.0) + 100), "numbered again")
    assert sets(ledger) == [(6, 30, 0)]


CHANGES = {
    "a row less": lambda t: t[1:],
    "four rows more": lambda t: pd.concat([t, frame(4, seed=9)]),
    "one row another": lambda t: t.assign(pay=[7.0, *t["pay"][1:]]),
    "two rows exchanged": lambda t: t.assign(pay=[*t["pay"][1::-1], *t["pay"][2:]]),
    "a row less, a column more": lambda t: t[1:].assign(sex="F"),
    "a row less, a column gone": lambda t: t[1:][["pay"]],
    "a row less, all numbered": lambda t: t[1:].assign(number=range(59)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_table_that_differs_in_few_rows_from_a_used_one_is_refused(ledger, change):
    table = frame()
    asked = tuple(column for column in ("age", "pay") if column in change(table))
    begin(ledger, table)
    before = ledger.history()
    with refused("cut-too-near", BudgetError):
        begin(ledger, change(table), "next", asked=asked)
    assert ledger.history() == before


def test_rows_are_compared_in_the_columns_of_the_earlier_question(ledger):
    table = frame(sex="F")
    begin(ledger, table)
    begin(ledger, table.assign(sex="M"), "another value in another column")
    with refused("cut-too-near", BudgetError, mentions=("1",)):
        begin(ledger, table[1:], "a row less")


def test_a_table_with_enough_new_rows_or_never_used_is_taken(ledger):
    table = frame()
    begin(ledger, table, show=False)
    with refused("cut-too-near", BudgetError):
        begin(ledger, table[1:], "both might show sums")
    ledger.settle("study")
    begin(ledger, table[1:], "nothing was shown of the other")
    begin(ledger, pd.concat([table[1:], frame(5, seed=9)]), "five more")
    assert sets(ledger) == [(3, 10, 0)]
    ledger.change_budget(Budget(minimum_rows=20))
    with refused("cut-too-near", BudgetError, mentions=("minimum_rows", "20")):
        begin(ledger, pd.concat([table[1:], frame(15, seed=9)]), "no")


def test_a_reservation_is_kept_until_its_run_has_ended(path, ledger):
    about = {"rows": 10, "numbers": 9}
    begin(ledger, frame(), "one", show=False, **about)
    with refused("budget-exceeded", BudgetError, mentions=("9",)):
        begin(ledger, frame(), "two", show=False, **about)
    with open_ledger(path) as other:
        other.settle("one")
        other.settle("one")
    begin(ledger, frame(), "two", show=False, **about)
    assert len(ledger.history().settlements) == 1


def wanted(ledger, table, name, **changes):
    """What a run on a table asks beforehand."""
    known = ledger.data(FingerprintSource(table, ("age", "pay")))
    about = {"columns": known.asked, "rows": 10, "data": known.data, "numbers": 2}
    return LedgerRequest(
        reservation=reservation(name, **{**about, **changes}),
        charge=run(name, data=known.data),
        first=aggregate(run=name, epoch=name, **about),
        known=known,
    )


def test_several_runs_are_reserved_all_or_none(path, ledger):
    one = wanted(ledger, frame(), "one")
    other = wanted(ledger, frame(70, seed=1), "other")
    ledger.check_all({"a": one, "b": other})
    assert ledger.totals() == ()
    greedy = wanted(ledger, frame(), "greedy", numbers=9)
    for ask in (ledger.check_all, ledger.reserve_all):
        with pytest.raises(BudgetError, match="question 'c': "):
            ask({"a": one, "b": other, "c": greedy})
    assert ledger.totals() == ()
    ledger.reserve_all({"a": one, "b": other})
    assert sorted(ledger.history().pending) == ["one", "other"]
    assert {version.data for version in ledger.history().versions} == {
        one.known.data,
        other.known.data,
    }


RESERVER = """
import sys
sys.path.insert(0, {tests!r})
from ledgers import reservation
from veilsum.errors import BudgetError
from veilsum.files.ledger import open_ledger
from veilsum.privacy.accountant import Budget

path, name, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
with open_ledger(path, create=Budget()) as ledger:
    for number in range(times):
        run = f"{{name}} {{number}}"
        try:
            ledger.reserve(reservation(run, numbers=3, columns=("x",), rows=100))
        except BudgetError:
            continue
        print(run, flush=True)
"""


def test_two_processes_never_reserve_the_same_numbers(path):
    """Each wants 10 times 3 numbers, and both together may have 49."""
    code = RESERVER.format(tests=str(TESTS))
    processes = [charger(path, name, 10, code=code) for name in ("left", "right")]
    start(*processes)
    accepted = [line for process in processes for line in lines_of(process)]
    assert len(accepted) == 16
    found = read_ledger(path).reservations
    assert sorted(one.run for one in found) == sorted(accepted)


def asking(
    ledger,
    table,
    file="one",
    *,
    bounds="{}",
    new_data=False,
    when="2030-01-01T12:00:00+00:00",
):
    return ledger.inquiry(
        FingerprintSource(table, ()),
        file=mark(file),
        run=file,
        question=mark("a question"),
        bounds=bounds,
        new_data=new_data,
        when=when,
    )


def refuse(ledger, table, file, **changes):
    with (
        pytest.raises(InvalidInputError, match="salary 52000"),
        asking(ledger, table, file, **changes),
    ):
        raise InvalidInputError("salary 52000 is too high", plain="too high")


def test_a_refusal_is_recorded_without_the_value_that_it_is_about(path, ledger):
    refuse(ledger, frame(), "one")
    (found,) = ledger.history().refusals
    assert (found.reason, found.file) == ("too high", mark("one"))
    assert ledger.totals()[0].refusals == 1
    assert b"52000" not in path.read_bytes() + Path(f"{path}-wal").read_bytes()


def test_after_five_refused_files_nothing_is_looked_at_for_a_day(ledger):
    table = frame()
    for number in range(5):
        # The same rows in another order, or with a new one, are the same data set.
        refuse(ledger, table.sample(frac=1, random_state=number), f"file {number}")
    refuse(ledger, table, "file 2")  # a file that was refused may be tried again
    with (
        refused("too-many-refusals", BudgetError, mentions=("5",)),
        asking(ledger, pd.concat([table, frame(1, seed=5)]), "file 10"),
    ):
        pytest.fail("looked at")
    with asking(ledger, frame(seed=1), "about other data", new_data=True):
        pass
    with asking(ledger, table, "file 10", when="2030-01-02T12:00:01+00:00"):
        pass


def test_files_that_differ_in_bounds_only_are_pointed_out(ledger):
    table = frame()
    with asking(ledger, table, "one", bounds="a") as earlier:
        assert earlier == ()
    with asking(ledger, table, "the same again", bounds="a") as earlier:
        assert earlier == ()
    with asking(ledger, table, "two", bounds="b") as earlier:
        assert [one.run for one in earlier] == ["one", "the same again"]


def test_the_same_is_not_looked_at_with_bound_after_bound(ledger):
    table = frame()
    for bounds in "abc":
        with asking(ledger, table, bounds, bounds=bounds):
            pass
    with (
        refused("too-many-variants", BudgetError, mentions=("3",)) as told,
        asking(ledger, table, "d", bounds="d"),
    ):
        pytest.fail("looked at")
    assert "not looked at" in str(told.value)
    assert not ledger.history().refusals
    with asking(ledger, table, "a once more", bounds="a"):
        pass
    with asking(ledger, table, "d", bounds="d", when="2030-01-02T12:00:01+00:00"):
        pass


# Crashes and other processes

CHARGER = """
import sys
sys.path.insert(0, {tests!r})
from ledgers import private, run
from veilsum.errors import BudgetError
from veilsum.files.ledger import open_ledger
from veilsum.privacy.accountant import Budget

path, name, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
with open_ledger(path, create=Budget(epsilon=0.5)) as ledger:
    for number in range(times):
        charge = run(f"{{name}} {{number}}", private({cost}, "a"))
        try:
            ledger.charge(charge)
        except BudgetError:
            continue
        print(charge.epoch, flush=True)
"""


def charger(path, name, times, *, cost=0.0, code=None):
    """A process that waits for a word and then prints each charge it has made."""
    code = code or CHARGER.format(tests=str(TESTS), cost=cost)
    words = [sys.executable, "-c", code, str(path), name, str(times)]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def start(*processes):
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def lines_of(process):
    output, _ = process.communicate()
    assert process.returncode == 0
    return output.splitlines()


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
@pytest.mark.parametrize("acknowledged", [1, 7, 40])
def test_every_acknowledged_charge_survives_a_kill(path, acknowledged):
    process = charger(path, "run", 10_000, cost=0.0)
    start(process)
    seen = [process.stdout.readline().strip() for _ in range(acknowledged)]
    process.send_signal(signal.SIGKILL)
    # What it had printed before the blow fell was charged as well.
    seen += [line.strip() for line in process.stdout if line.endswith("\n")]
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    with open_ledger(path) as ledger:
        found = [charge.epoch for charge in ledger.history().charges]
        # At most the one charge that was under way is there without a word of it.
        assert found[: len(seen)] == seen
        assert len(found) <= len(seen) + 1
        assert [ledger.charge(run(seen[-1], private(0.0, "a"))).outcome] == ["already"]
        assert len(ledger.history().charges) == len(found)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


HOLDER = """
import sys
from veilsum.files.ledger import open_ledger

with open_ledger(sys.argv[1]) as ledger, ledger._journal.transaction():
    ledger._caught_up()
    ledger._journal.append([("charge", {"half": "a charge"})])
    print("inside", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
def test_a_process_killed_between_writing_and_committing_leaves_no_trace(path):
    filled(path)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "inside\n"
    assert len(epochs(path)) == 3
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with open_ledger(path) as ledger:
        assert ledger.charge(run("afterwards")).outcome == "accepted"
    assert epochs(path) == ["run 0", "run 1", "run 2", "afterwards"]


def test_two_processes_never_spend_more_than_the_budget(path):
    """Each tries 32 runs of 1/64 on a budget of 1/2, which has room for 32 in all."""
    processes = [charger(path, name, 32, cost=1 / 64) for name in ("left", "right")]
    start(*processes)
    accepted = [line for process in processes for line in lines_of(process)]
    assert len(accepted) == 32
    assert sorted(epochs(path)) == sorted(accepted)
    assert mobile_adversary_total(read_ledger(path).charges) == CompositionTotal(0.5)


@pytest.mark.slow
def test_two_processes_that_create_one_ledger_share_it(path):
    processes = [charger(path, name, 1, cost=0.0) for name in ("left", "right")]
    start(*processes)
    assert [lines_of(process) for process in processes] == [["left 0"], ["right 0"]]
    assert sorted(epochs(path)) == ["left 0", "right 0"]
    assert [found.name for found in path.parent.iterdir()] == [path.name]


@pytest.fixture(scope="module")
def torn(tmp_path_factory):
    """A ledger and its write-ahead log as a power cut would find them."""
    folder = tmp_path_factory.mktemp("torn")
    path = folder / "live.ledger"
    with open_ledger(path, create=Budget()) as ledger:
        for number in range(6):
            ledger.charge(run(f"run {number}"))
        for ending in ENDINGS[:3]:
            shutil.copy(f"{path}{ending}", f"{folder / 'cut.ledger'}{ending}")
    return folder / "cut.ledger"


def cut_at(torn, cut):
    """A copy of a ledger and its log, of which only a part is left; without a head."""
    path = torn.with_name("copy.ledger")
    for ending in ENDINGS:
        Path(f"{path}{ending}").unlink(missing_ok=True)
    shutil.copy(torn, path)
    Path(f"{path}-wal").write_bytes(Path(f"{torn}-wal").read_bytes()[:cut])
    return path


@given(st.data())
@settings(max_examples=30)
def test_a_log_that_was_cut_or_changed_is_named_as_damage(torn, data):
    log = Path(f"{torn}-wal").read_bytes()
    cut = data.draw(st.integers(0, len(log) - 1))
    path = cut_at(torn, cut)
    if data.draw(st.booleans()):
        changed = bytearray(log)
        changed[cut] ^= 1 << data.draw(st.integers(0, 7))
        Path(f"{path}-wal").write_bytes(changed)
    shutil.copy(f"{torn}-head", f"{path}-head")
    for use in (open_ledger, read_ledger):
        with refused("records-missing", LedgerError, mentions=("7",)):
            use(path)


@given(st.data())
@settings(max_examples=30)
def test_without_a_head_a_log_cut_anywhere_loses_charges_silently(torn, data):
    """The twin: whole charges from the first on, and nobody misses the others."""
    log = Path(f"{torn}-wal").read_bytes()
    cut = data.draw(st.integers(0, len(log)))
    path = cut_at(torn, cut)
    found = epochs(path)
    assert found == [f"run {number}" for number in range(len(found))]
    with open_ledger(path) as ledger:
        assert [charge.epoch for charge in ledger.history().charges] == found
        ledger.charge(run("afterwards"))
    assert epochs(path) == [*found, "afterwards"]
    if cut == len(log):
        assert len(found) == 6


def test_a_disk_without_room_refuses_the_charge(path, ledger):
    ledger.charge(run("one"))
    connection = ledger._journal._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")

    def fill_up():
        for number in range(1000):
            ledger.charge(run(f"more {number}"))

    with refused("cannot-use-file", LedgerError):
        fill_up()
    found = epochs(path)
    assert found == ["one", *(f"more {k}" for k in range(len(found) - 1))]
    connection.execute("PRAGMA max_page_count = 1000000")
    assert ledger.charge(run("later")).outcome == "accepted"


def test_a_ledger_held_by_another_writer_is_named(path, ledger):
    ledger._journal._connection.execute("PRAGMA busy_timeout = 0")
    with open_ledger(path) as other, other._journal.transaction():
        with refused("cannot-use-file", LedgerError):
            ledger.charge(run("one"))
        assert read_ledger(path).charges == ()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_must_open_the_ledger_itself(ledger, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with refused("opened-elsewhere", LedgerError):
        ledger.charge(run("one"))


def test_a_closed_ledger_says_so(path):
    ledger = open_ledger(path, create=Budget())
    ledger.close()
    ledger.close()
    with refused("file-closed", LedgerError):
        ledger.charge(run("one"))
    assert "closed" in repr(ledger)


# Files that are not a sound ledger


def foreign(path):
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()


def edited(statement):
    def edit(path):
        filled(path)
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()

    return edit


def text_file(path):
    path.write_text("epoch,epsilon\n1,0.125\n" * 100)


def truncated(size):
    def cut(path):
        path.write_bytes(filled(path)[:size])

    return cut


def flipped(fraction):
    def flip(path):
        content = bytearray(filled(path))
        where = int(fraction * len(content))
        content[where : where + 64] = bytes(b ^ 0xFF for b in content[where:][:64])
        path.write_bytes(content)

    return flip


UNSOUND = {
    "text": (text_file, "is not a ledger, or its beginning is damaged"),
    "empty": (Path.touch, "is not a veilsum ledger"),
    "another application's": (foreign, "is not a veilsum ledger"),
    "newer": (edited(f"PRAGMA user_version = {VERSION + 1}"), "a ledger of format 4"),
    "older": (
        edited(f"PRAGMA user_version = {VERSION - 1}"),
        "a ledger of format 2, .* is not read as an empty one",
    ),
    "without its header": (flipped(0.0), "its beginning is damaged"),
    "cut in the header": (truncated(60), "is damaged"),
    "cut after a page": (truncated(4096), "is damaged"),
    "cut in a page": (truncated(-1000), "its end is missing"),
    "without the key": (edited("DELETE FROM secret"), "its seal is broken"),
    "without its head": (edited("DELETE FROM head"), "its head is missing"),
    "with another key": (
        edited("UPDATE secret SET key = randomblob(32)"),
        "its seal is broken",
    ),
    "with another seal": (
        edited("UPDATE head SET seal = randomblob(32)"),
        "its seal is broken",
    ),
    "without a record": (
        edited("DELETE FROM journal WHERE id = 2"),
        "its seal is broken",
    ),
    "without its last record": (
        edited("DELETE FROM journal WHERE id = (SELECT MAX(id) FROM journal)"),
        "its seal is broken",
    ),
    "with a cheaper run": (
        edited("UPDATE journal SET body = replace(body, '0.125', '0.001')"),
        "its seal is broken",
    ),
    "with nothing in a record": (
        edited("UPDATE journal SET body = 7 WHERE id = 3"),
        "its seal is broken",
    ),
    "with a table more": (edited("CREATE TABLE more (a)"), "its tables are not"),
    "with a strange record": (
        lambda path: _append_strange(path),
        "holds a wish that this veilsum cannot read",
    ),
}


def _append_strange(path):
    filled(path)
    journal = open_journal(path, lambda kind, _body: kind)
    with journal.transaction():
        journal.news(lambda kind, _body: kind)
        journal.append([("wish", {"epsilon": 0})])
    journal.close()


@pytest.mark.parametrize(("spoil", "words"), UNSOUND.values(), ids=UNSOUND)
def test_what_is_not_a_sound_ledger_is_refused_and_left_as_it_is(path, spoil, words):
    spoil(path)
    path.chmod(0o600)
    before = path.read_bytes()
    for use in (open_ledger, read_ledger, lambda p: open_ledger(p, create=Budget())):
        with pytest.raises(LedgerError, match=words) as caught:
            use(path)
        assert str(path) in str(caught.value) or "cannot read" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # SQLite may leave its own two files beside one it could not read at all.
    beside = {found.name for found in path.parent.iterdir()}
    assert beside <= {f"{path.name}{ending}" for ending in ENDINGS}
    log = Path(f"{path}-wal")
    assert not log.exists() or log.read_bytes() == b""


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A ledger's path, its bytes, and where in them the charges lie."""
    path = tmp_path_factory.mktemp("sound") / "party.ledger"
    content = filled(path)
    charges = re.finditer(rb'\{"data".*?"when": "then"\}', content)
    places = [place for found in charges for place in range(*found.span())]
    assert len(places) > 1000
    return path, content, places


@given(st.data())
@settings(max_examples=50)
def test_no_change_of_a_byte_of_a_charge_goes_unnoticed(sound, data):
    path, content, places = sound
    damaged = bytearray(content)
    damaged[data.draw(st.sampled_from(places))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(damaged)
    with refused("seal-broken", LedgerError):
        open_ledger(path)
    assert path.read_bytes() == damaged


def test_a_damaged_ledger_with_a_log_beside_it_is_not_touched_either(torn):
    path = torn.with_name("damaged.ledger")
    content = bytearray(torn.read_bytes())
    content[4096:4200] = bytes(104)
    path.write_bytes(content)
    path.chmod(0o600)
    log = torn.with_name("cut.ledger-wal").read_bytes()
    # A log that ends early cannot heal the damaged page.
    path.with_name("damaged.ledger-wal").write_bytes(log[:32])
    with pytest.raises(LedgerError):
        open_ledger(path)
    assert path.read_bytes() == bytes(content)
    assert path.with_name("damaged.ledger-wal").read_bytes() == log[:32]


def test_another_programs_file_with_a_hot_journal_is_not_rolled_back(path):
    """SQLite would undo the other program's last write if we let it."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
    connection.close()
    path.chmod(0o600)
    copy_of = path.with_name("hot.sqlite")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_spill = ON")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN")
    for _ in range(50):
        connection.execute("INSERT INTO notes VALUES (?)", ("x" * 3000,))
    for ending in ("", "-journal"):
        shutil.copy(f"{path}{ending}", f"{copy_of}{ending}")
    connection.close()
    before = copy_of.read_bytes()
    with pytest.raises(LedgerError):
        open_ledger(copy_of)
    assert copy_of.read_bytes() == before
    assert Path(f"{copy_of}-journal").exists()


def test_a_missing_ledger_is_not_made(path):
    for use in (open_ledger, read_ledger):
        with refused("no-such-file", LedgerError):
            use(path)
    assert list(path.parent.iterdir()) == []


def test_a_folder_is_not_a_ledger(tmp_path):
    for use in (open_ledger, read_ledger, lambda p: open_ledger(p, create=Budget())):
        with refused("not-a-file", LedgerError):
            use(tmp_path)


def test_a_path_through_a_file_says_why_it_cannot_be_read(path):
    filled(path)
    with refused("cannot-read", LedgerError):
        read_ledger(path / "inside")


def test_a_ledger_that_cannot_be_created_says_why(tmp_path):
    with refused("cannot-write", LedgerError):
        open_ledger(tmp_path / "nowhere" / "party.ledger", create=Budget())


def test_an_existing_file_is_never_replaced_by_a_new_ledger(path):
    before = filled(path)
    create_journal(path, [])
    assert path.read_bytes() == before
    with open_ledger(path, create=Budget()) as ledger:
        assert len(ledger.history().charges) == 3
    assert path.read_bytes() == before


# Secrets


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_nobody_else_may_read_the_ledger_or_its_log(path):
    before = os.umask(0)
    try:
        with open_ledger(path, create=Budget()) as ledger:
            ledger.charge(run("one"))
            modes = [Path(f"{path}{e}").stat().st_mode for e in ENDINGS]
    finally:
        os.umask(before)
    assert {stat.S_IMODE(mode) for mode in modes} == {0o600}


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_ledger_that_lies_open_is_refused(tmp_path):
    path = tmp_path / "ann's own; ledger"
    filled(path)
    path.chmod(0o640)
    with refused("holds-secrets", LedgerError, mentions=("0640", "600")) as caught:
        open_ledger(path)
    _, _, command = str(caught.value).partition(": run ")
    assert shlex.split(command) == ["chmod", "600", str(path)]


def test_the_file_says_whose_it_is(path):
    content = filled(path)
    # Bytes 68 to 71 of an SQLite header hold the application's id.
    assert int.from_bytes(content[68:72], "big") == APPLICATION_ID
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_the_key_is_long_random_and_never_shown(path, ledger):
    key = key_of(path)
    assert len(key) == 32
    with pytest.raises(BudgetError) as caught:
        ledger.charge(
            run("one"), releases=[aggregate(), aggregate(parties=PARTIES[1:])]
        )
    shown = [repr(ledger), str(ledger), f"{ledger}", repr(ledger._journal)]
    shown += [repr(vars(ledger)), repr(vars(ledger._journal)), str(caught.value)]
    shown += [repr(ledger.history()), repr(ledger.totals())]
    for text in shown:
        assert key.hex() not in text
        assert repr(key)[2:-1] not in text


def test_a_ledger_shows_its_path_and_its_counts(path, ledger):
    ledger.charge(run("one"), releases=[aggregate()])
    assert repr(ledger) == f"<Ledger {path}: 1 charges, 1 releases>"


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_ledger_is_never_pickled_or_copied(ledger, duplicate):
    for secret in (ledger, ledger._journal):
        with refused("not-copyable", SecretError):
            duplicate(secret)


def test_fingerprints_are_equal_within_a_ledger_and_differ_across_ledgers(tmp_path):
    data = np.arange(6.0).reshape(2, 3)
    found = []
    for name in ("one", "two"):
        with open_ledger(tmp_path / name, create=Budget()) as ledger:
            found.append(ledger.fingerprint(data))
            assert ledger.fingerprint(data.copy()) == found[-1]
        with open_ledger(tmp_path / name) as ledger:
            assert ledger.fingerprint(data) == found[-1]
    assert found[0] != found[1]
    assert all(len(mark) == 64 for mark in found)


def test_a_fingerprint_depends_on_values_type_shape_and_order(ledger):
    data = np.arange(6.0)
    variants = [
        (data,),
        (data.reshape(2, 3),),
        (data.reshape(3, 2),),
        (data.astype(np.int64),),
        (data.astype(">f8"),),
        (np.nextafter(data, np.inf),),
        (data[:3], data[3:]),
        (data[3:], data[:3]),
        (data.tobytes(),),
        (data[:0],),
        (),
        (np.array(["a", "b"]),),
        (b"ab",),
        (b"a", b"b"),
    ]
    assert len({ledger.fingerprint(*parts) for parts in variants}) == len(variants)


def test_a_keyed_hash_depends_on_where_parts_end(ledger):
    cuts = [(b"abc",), (b"a", b"bc"), (b"ab", b"c"), (b"", b"abc"), (b"abc", b"")]
    assert len({ledger._journal.keyed_hash(*parts) for parts in cuts}) == len(cuts)


def test_a_fingerprint_looks_through_strides(ledger):
    data = np.arange(12.0).reshape(3, 4)
    assert ledger.fingerprint(data.T) == ledger.fingerprint(data.T.copy())
    assert ledger.fingerprint(data[:, ::2]) == ledger.fingerprint(data[:, ::2].copy())


@pytest.mark.parametrize(
    "value", ["text", 3.0, np.array([object()]), np.zeros(2, [("age", float)])]
)
def test_what_has_no_plain_bytes_has_no_fingerprint(ledger, value):
    with pytest.raises(InvalidInputError, match="a fingerprint is made of"):
        ledger.fingerprint(value)


def test_a_fingerprint_is_not_a_plain_hash_of_the_value(path, ledger):
    """The file holds no hash that can be computed without the key."""
    from hashlib import md5, sha1, sha256

    value = b"salary 52000"
    ledger.charge(run("one", data=ledger.fingerprint(value)))
    files = b"".join(Path(f"{path}{ending}").read_bytes() for ending in ENDINGS)
    for plain in (sha256, sha1, md5):
        assert plain(value).digest() not in files
        assert plain(value).hexdigest().encode() not in files
    assert value not in files
