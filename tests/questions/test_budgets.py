"""Whoever goes on asking: what ledgers of default budgets allow over many jobs."""

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest

from refusals import refused
from veilsum.drivers.arrays import ArrayDriver
from veilsum.drivers.driver import GivenUpError
from veilsum.errors import BudgetError
from veilsum.files.ledger import open_ledger
from veilsum.privacy.accountant import Budget
from veilsum.questions.regression import fit, fit_arrays
from veilsum.questions.statistics import statistics
from veilsum.questions.sums import sum as masked_sum
from veilsum.tables.rules import Rules

PARTIES = tuple("abcdefgh")
RULES = Rules.none(minimum_rows=20, release_fraction=0.5)


@pytest.fixture
def books(tmp_path):
    opened = {
        name: open_ledger(tmp_path / f"{name}.ledger", create=Budget())
        for name in PARTIES
    }
    yield opened
    for ledger in opened.values():
        ledger.close()


def tables(parties=PARTIES, rows=20, seed=0):
    draw = np.random.default_rng(seed)
    made = {}
    for name in parties:
        x, z = draw.normal(size=(2, rows)).round(6)
        y = (x - z + draw.normal(size=rows)).round(6)
        made[name] = pd.DataFrame({"x": x, "y": y, "z": z})
    return made


def some(held, names):
    return {name: held[name] for name in names}


def ask(formula, data, books, **options):
    options = {"driver": "vectorised", "rules": RULES, **options}
    return fit(formula, data, ledgers=some(books, data), **options)


def spent(ledger):
    (account,) = ledger.totals()
    return account.numbers, account.reserved


# Sets of parties


def test_two_sums_that_leave_three_parties_need_a_fourth_if_one_may_collude(books):
    data = {name: [k + 1] for k, name in enumerate(PARTIES)}
    masked_sum(data, ledgers=books, driver="vectorised")
    five = some(data, PARTIES[:5])
    with refused("budget-exceeded", BudgetError):
        masked_sum(five, ledgers=some(books, five), driver="vectorised")
    four = some(data, PARTIES[:4])
    masked_sum(four, ledgers=some(books, four), driver="vectorised")


def test_three_sets_are_looked_at_together(books):
    """All eight, four of them, and half of each: no two differ by fewer than four."""
    data = tables()
    asked = [PARTIES, PARTIES[:4], PARTIES[2:6]]
    for names in asked:
        ask("y ~ x", some(data, names), books)
    with refused("budget-exceeded", BudgetError):
        ask("y ~ x", some(data, [*PARTIES[1:4], "h"]), books)


def test_rows_in_another_order_and_another_question_are_the_same_data_set(books):
    data = tables()
    ask("y ~ x", data, books)
    fewer = {name: data[name][::-1] for name in PARTIES[:-1]}
    for question in ("y ~ x", "z ~ y"):
        with refused("budget-exceeded", BudgetError):
            ask(question, fewer, books)
    with refused("budget-exceeded", BudgetError):
        statistics(
            fewer,
            columns=["z"],
            rules=RULES,
            driver="vectorised",
            ledgers=some(books, fewer),
        )
    later = some(tables(seed=1), PARTIES[:-1])
    with refused("budget-exceeded", BudgetError):
        ask("y ~ x", later, books)
    ask("y ~ x", later, books, new_data=True)


# Numbers


def test_sixty_fits_of_one_column_come_to_an_end(books):
    """Each is harmless, and together they would be equations for every row.

    Seven honest parties have 140 rows of x and y: 280 numbers. A fit shows 11.
    """
    data, rules = tables(), replace(RULES, release_fraction=0.2)
    derived = {f"p{k}": {"of": "x", "as": "power", "exponent": k} for k in range(2, 11)}
    rules_of = {"rules": rules, "derived": derived}
    for k in range(2, 7):
        ask(f"y ~ p{k}", data, books, **rules_of)
    for k in (7, 8, 10):  # each as the one before it
        with pytest.raises(BudgetError, match=r"= 0.2 of the 280 numbers"):
            ask(f"y ~ p{k}", data, books, **rules_of)
    assert all(spent(ledger) == (55, 0) for ledger in books.values())
    # Another column brings what is its own, and no more about x and y.
    ask("y ~ z", data, books, rules=rules)
    with refused("budget-exceeded", BudgetError):
        ask("y ~ p9", data, books, **rules_of)


def test_weights_do_not_make_a_fit_one_that_is_known(books):
    """Its name would be the same."""
    data = tables()
    for frame in data.values():
        frame["w"] = np.arange(1.0, 21.0)
        frame["v"] = 1.0 / frame["w"]
    for count, weights in enumerate(("w", "v", None), start=1):
        ask("y ~ x", data, books, weights=weights)
        assert spent(books["a"]) == (11 * count, 0)


def test_all_rounds_of_a_fit_are_reserved_before_the_first(books):
    data = tables()
    for frame in data.values():
        frame["y"] = (frame["y"] > 0).astype(int)
    for _ in range(40):
        before = spent(books["a"]) if books["a"].totals() else (0, 0)
        try:
            result = ask("y ~ x", data, books, family="logistic")
        except BudgetError:
            break
        shown = sum(one.numbers for one in result.releases)
        assert spent(books["a"]) == (before[0] + shown, 0)
    else:
        pytest.fail("there is no end to it")
    # What was left would have done for a round or two: not one was shown.
    assert spent(books["a"]) == before
    assert books["a"].totals()[0].numbers_left > 12


@dataclass(frozen=True, kw_only=True)
class Broken(ArrayDriver):
    """All are charged for so many emissions; then somebody ends it."""

    after: int = 1
    _seen: list = field(default_factory=list)

    def carry_out(self, assignment):
        def charge(party, emission, sums):
            if len(sums) >= self.after:
                raise GivenUpError({"h": ("stopped", "its owner stopped it")}, ())
            assignment.charge(party, emission, sums)

        broken = {**vars(assignment), "charge": charge}
        broken.pop("promise", None)
        return super().carry_out(type(assignment)(**broken))


def test_a_run_that_is_ended_on_purpose_stays_charged(books):
    data = tables()
    for frame in data.values():
        frame["y"] = (frame["y"] > 0).astype(int)
    most = None
    for k in range(40):
        try:
            ask("y ~ x", data, books, family="logistic", driver=Broken(), title=f"{k}")
        except GivenUpError:
            most = most or sum(spent(books["a"]))
            assert sum(spent(books["a"])) == (k + 1) * most
        except BudgetError:
            break
    assert 1 <= k < 5


def test_a_run_that_showed_nothing_gives_all_of_it_back(books):
    with pytest.raises(GivenUpError):
        ask("y ~ x", tables(), books, driver=Broken(after=0))
    assert spent(books["a"]) == (0, 0)


def test_a_run_that_must_fail_shows_nothing(books):
    """There is no room for its rounds by its own rules: no ledger hears of it."""
    data = tables(rows=5)
    for frame in data.values():
        frame["y"] = (frame["x"] > 0).astype(int)
    rules = Rules.none(minimum_rows=5, release_fraction=0.1)
    with refused("releases-too-much", mentions=("release_fraction",)):
        ask("y ~ x", data, books, family="logistic", rules=rules)
    assert all(ledger.totals() == () for ledger in books.values())


# Versions


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t[1:],
        lambda t: t[1:].sample(frac=1, random_state=1),
        lambda t: t[1:].assign(new=1.0),
        lambda t: t[1:].drop(columns="z"),
        lambda t: pd.concat([t, t[:1] + 0.5]),
    ],
    ids=["a row less", "shuffled", "a column more", "a column less", "a row more"],
)
def test_one_persons_row_cannot_be_asked_for_by_asking_twice(books, change):
    data = tables(rows=30)
    ask("y ~ x", data, books)
    later = {**data, "c": change(data["c"])}
    with refused("cut-too-near", BudgetError, mentions=("1",)):
        ask("y ~ x", later, books)


def test_tables_that_overlap_share_what_they_may_release(books):
    """Rows come and go by the twenty, which is what the rules ask for."""
    draw = np.random.default_rng(0)
    data = {p: draw.normal(size=(100, 3)) for p in PARTIES}
    options = {"rules": RULES, "driver": "vectorised", "ledgers": books}
    for first in (0, 20, 40, 60):
        part = {p: one[first : first + 40] for p, one in data.items()}
        fit_arrays(
            {p: (one[::-1, :2], one[::-1, 2]) for p, one in part.items()}, **options
        )
    (account,) = books["a"].totals()
    assert (account.versions, account.numbers) == (4, 4 * 11)
    assert account.columns == ("design 0", "design 1", "response")
    part = {p: one[61:100] for p, one in data.items()}
    with refused("cut-too-near", BudgetError, mentions=("1",)):
        fit_arrays({p: (one[:, :2], one[:, 2]) for p, one in part.items()}, **options)
