"""Requests follow from the sums alone, and are compared before anything is shown."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from cases import each
from refusals import refused
from rules import broken_rules
from veilsum.drivers.driver import GivenUpError
from veilsum.drivers.loopback import LoopbackWorld
from veilsum.errors import InvalidInputError, LocalProtocolError
from veilsum.numbers.layout import NumberLayout, layout_number, layout_vector
from veilsum.protocol.messages import Masked, Ready
from veilsum.protocol.work import request_digest
from veilsum.questions.sums import OneSum
from veilsum.sums.recipes import SumContribution, SumPartyWork
from veilsum.sums.releases import SumRelease
from veilsum.sums.running import run_sum_job
from veilsum.sums.terms import SumTerms
from worlds import Setting

PARTIES = ("a", "b", "c", "d")
LAYOUT = NumberLayout((layout_vector("sum", (Fraction(1), Fraction(1, 100)), 60),))
COUNTS = LAYOUT.counts
DRIVERS = ("loopback", "vectorised")


@dataclass(frozen=True)
class Point:
    """A request such as a job would make it."""

    stage: str
    at: np.ndarray
    rounds: int = 0
    unit: Fraction = Fraction(1, 8)


# --- The digest --------------------------------------------------------------------


def test_equal_requests_have_equal_digests():
    one = Point("outside", np.array([0.1, 2.0]))
    two = Point("outside", np.array([0.1, 2.0]))
    assert request_digest(one) == request_digest(two)
    named = {"stage": "outside", "at": [0.1, 2.0], "rounds": 0, "unit": "1/8"}
    assert request_digest(one) == request_digest(named), "as the wire has it"


def test_every_bit_of_a_request_is_in_its_digest():
    next_up = float(np.nextafter(0.1, 1.0))
    requests = [
        *(None, "", "outside", "statistics", 0, 1, 2**80, 0.0, -0.0, [], [0], True),
        Point("a", np.array([0.1])),
        Point("a", np.array([next_up])),
        Point("a", np.array([0.1]), rounds=1),
        Point("b", np.array([0.1])),
        Point("a", np.array([0.1]), unit=Fraction(1, 9)),
    ]
    assert len({request_digest(one) for one in requests}) == len(requests)


def test_where_numbers_lie_in_memory_is_not():
    spread = np.arange(6.0)[::2]
    assert request_digest(spread) == request_digest(np.array([0.0, 2.0, 4.0]))
    assert request_digest(np.float64(0.5)) == request_digest(0.5)
    whole = np.array([1, 2**70], dtype=object)
    assert request_digest(whole) == request_digest([1, 2**70])


def test_what_has_no_one_writing_is_refused():
    with refused("not-plain-value", LocalProtocolError):
        request_digest({1, 2})


# --- Ready -------------------------------------------------------------------------


@pytest.mark.parametrize("work", ["one-shot", "sums", "nids"])
@pytest.mark.parametrize("spread", ["flooding", "tree"])
def test_nothing_is_shown_where_one_party_was_asked_for_something_else(work, spread):
    if work == "nids" and spread == "tree":
        return
    setting = Setting(graph="complete:4", work=work, spread=spread)
    plan = setting.plan()
    works = setting.works(plan)
    odd = type(works["2"])

    @dataclass(frozen=True, eq=False, repr=False)
    class Misled(odd):
        """Finds another question from the second sum on, or at once."""

        def asked(self, answers):
            misled = answers or work != "sums"
            return bytes(32) if misled else super().asked(answers)

    works["2"] = Misled(**vars(works["2"]))
    world = LoopbackWorld(plan, works, setting.streams(), watch=("answer/",)).run()
    assert world.finished == {}
    assert {one.reason for one in world.aborted.values()} == {"result"}
    for name, abort in world.aborted.items():
        others = "0, 1, 3" if name == "2" else "2"
        # Whoever hears of the odd one first need not wait for the rest.
        named = abort.detail.partition(" computed another next request")[0]
        assert named == others or (name == "2" and set(named) <= set(others))
    assert len(world.sums) == (1 if work == "sums" else 0)
    masked = [
        message
        for event in world.history
        if event.what == "send"
        and isinstance(message := plan.codec.decode(event.detail), Masked)
    ]
    assert {one.epoch for one in masked} <= {0 if work == "sums" else -1}
    assert broken_rules(world) == []


def test_a_ready_says_what_the_party_was_asked_for():
    setting = Setting(graph="complete:4", work="sums")
    world = setting.world().run()
    readies = [
        message
        for event in world.history
        if event.what == "send"
        and isinstance(message := world.plan.codec.decode(event.detail), Ready)
    ]
    by_epoch = {}
    for one in readies:
        by_epoch.setdefault(one.epoch, set()).add(one.request)
    assert len(by_epoch) == 3
    assert all(len(found) == 1 for found in by_epoch.values())
    assert len(set.union(*by_epoch.values())) == 3, "each sum has its own"


# --- What a party may do with a request --------------------------------------------


@dataclass(frozen=True)
class TwoSums(OneSum):
    """Asks twice: the second request follows from the first sum."""

    def request(self, sums):
        return None if len(sums) == 2 else ("again", len(sums), [*map(list, sums)])

    def release(self, sums):
        return SumRelease(f"{self.what} {len(sums)}", {self.what: self.size})

    def answer(self, sums):
        return self.counts.values(sums[-1])


def carry_out(answers, driver, **options):
    """Run two sums with these ways to answer."""
    terms = SumTerms.of(PARTIES, counts=COUNTS, options={"driver": driver, **options})
    given = {n: SumContribution(answers[n], (np.zeros(1),)) for n in PARTIES}
    return run_sum_job(TwoSums(LAYOUT, "x"), given, terms, agreed={})


def whole(*numbers):
    return np.array(numbers, dtype=object)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("law", ["uniform", "none"])
def test_what_a_recipe_sees_are_exact_integers(driver, law):
    seen = []

    def answer(request):
        seen.append(request)
        return whole(2**55 + 1, -3)

    found = carry_out(dict.fromkeys(PARTIES, answer), driver, law=law)
    assert [one.tolist() for one in found.sums] == [[2**57 + 4, -12]] * 2
    assert ("again", 1, [[2**57 + 4, -12]]) in seen
    assert found.answer.tolist() == [float(2**57 + 4), -0.12]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    "fault",
    [InvalidInputError("a patient is 250 years old"), ZeroDivisionError("age 250")],
)
def test_data_that_cannot_answer_end_the_run_with_one_word(driver, fault):
    """After the first sum a refusal would itself be an answer; it says nothing more."""

    def balks(request):
        if request[1]:
            raise fault
        return whole(1, 2)

    answers = {**dict.fromkeys(PARTIES, lambda _: whole(1, 2)), "c": balks}
    with pytest.raises(GivenUpError) as error:
        carry_out(answers, driver)
    assert error.value.reasons["c"][0] == "result"
    assert "250" not in str(error.value)
    assert [one.tolist() for one in error.value.sums] == [[4, 8]], "and no second sum"


@pytest.mark.parametrize("driver", DRIVERS)
def test_before_the_first_sum_it_is_a_plain_refusal(driver):
    def balks(request):
        raise InvalidInputError("a patient is 250 years old")

    answers = {**dict.fromkeys(PARTIES, lambda _: whole(1, 2)), "c": balks}
    with refused("gave-up", mentions=("250",)):
        carry_out(answers, driver)


@each("driver", DRIVERS)
@each("turn", [0, 1])
@each("odd", [whole(1), whole(1, 2, 3), np.array([1.0, 2.0]), whole(2**60, 0)])
def test_every_answer_has_as_many_whole_numbers_as_were_agreed(driver, turn, odd):
    def otherwise(request):
        return odd if request[1] == turn else whole(1, 2)

    answers = {**dict.fromkeys(PARTIES, lambda _: whole(1, 2)), "c": otherwise}
    with pytest.raises((GivenUpError, InvalidInputError)) as error:
        carry_out(answers, driver)
    assert "c: " in str(error.value)
    if turn:
        assert error.value.reasons["c"][0] == "result"
        assert len(error.value.sums) == 1


def test_a_recipe_has_a_unit_for_each_number():
    terms = SumTerms.of(PARTIES, counts=COUNTS, options={})
    with refused("units-not-per-number", mentions=("2",)):
        run_sum_job(
            OneSum(NumberLayout((layout_number("sum", bits=60),)), "x"),
            {},
            terms,
            agreed={},
        )


def test_a_request_is_worked_out_once_for_all_parties_of_a_process():
    calls = []

    class Counting(TwoSums):
        def request(self, sums):
            calls.append(len(sums))
            return super().request(sums)

    terms = SumTerms.of(PARTIES, counts=COUNTS, options={"driver": "loopback"})
    given = {n: SumContribution(lambda _: whole(1, 2), (np.zeros(1),)) for n in PARTIES}
    run_sum_job(Counting(LAYOUT, "x"), given, terms, agreed={})
    assert len(calls) <= 4 + 2 * len(PARTIES), "not once for each party and question"
    alone = SumPartyWork(TwoSums(LAYOUT, "x"), given["a"])
    assert alone.asked([]) == request_digest(("again", 0, []))
