"""Lost parties, times of frames, and what sums say by themselves."""

import numpy as np
import pytest

from attacks.old_ways import shares_of_the_lost
from audit.questions import COLUMNS, NAMES, named, question
from veilsum.audit import auditing, late_unmasking, sums_say, timing
from veilsum.audit.question import SkippedAttack
from veilsum.drivers.faults import Faults
from veilsum.numbers.limbs import is_wide_integer_type

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

HOW = {"coalition": ("ann",), "seed": 1, "trials": 2}


def test_nobody_unmasks_a_party_that_is_lost():
    (found,) = late_unmasking.play(named("a cost"), **HOW)
    assert (found.successes, found.trials, found.promised) == (0, 2, 0.0)
    both = {**HOW, "coalition": ("ann", "eve"), "trials": 1}
    (found,) = late_unmasking.play(named("a cost"), **both)
    assert found.successes == 0


def test_where_neighbours_tell_its_shares_it_is_unmasked():
    (found,) = late_unmasking.play(named("a cost"), **HOW, told=shares_of_the_lost)
    assert found.successes == found.trials == 2


def test_what_machines_send_is_looked_at_in_numbers_of_several_words():
    asked = question(
        columns={"age": COLUMNS["age"], "smoker": COLUMNS["smoker"]},
        model={"formula": "smoker ~ age", "family": "logistic"},
    )
    held, _ = asked.sound(1)
    driver = late_unmasking.AuditedLoopback(seed=1, faults=Faults())
    asked.ask(held, driver=driver)
    assert is_wide_integer_type(driver.worlds[0].plan.law.dtype)
    once = {**HOW, "trials": 1}
    for attack in (
        auditing._compare_tapped_machines,
        auditing._attack_restarted_machines,
        late_unmasking.play,
    ):
        (found,) = attack(asked, **once)
        assert (found.successes, found.trials) == (0, 1)
    (found,) = late_unmasking.play(asked, **once, told=shares_of_the_lost)
    assert found.successes == 1


def test_without_colluders_nobody_looks():
    (found,) = late_unmasking.play(named("a cost"), **{**HOW, "coalition": ()})
    assert isinstance(found, SkippedAttack)


def test_the_party_is_lost_after_its_vector_has_left():
    asked = named("a cost")
    held, _ = asked.sound(1)
    whole = late_unmasking.AuditedLoopback(seed=1, faults=Faults())
    asked.ask(held, driver=whole)
    (first, *_) = late_unmasking.effects_after_masked_vector(whole.worlds[0], "bob")
    crash = late_unmasking.Crash("bob", after=first, back=None)
    broken = late_unmasking.AuditedLoopback(seed=1, faults=Faults(crashes=(crash,)))
    asked.ask(held, driver=broken)
    (world,) = broken.worlds
    assert any(one.what == "crash" for one in world.history)
    assert late_unmasking.effects_after_masked_vector(world, "bob") == [first]


def test_frames_do_not_tell_who_has_more_rows(monkeypatch):
    traces, trace = [], timing.timing_frame_trace

    def watch(world):
        traces.append(trace(world))
        return traces[-1]

    monkeypatch.setattr(timing, "timing_frame_trace", watch)
    asked = question(
        columns={"age": {"kind": "integer", "minimum": 0, "maximum": 120}},
        statistics={"columns": ["age"]},
    )
    (found,) = timing.play_frame_sizes(asked, coalition=("ann",), seed=1, trials=1)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 50
    assert (found.successes, found.promised) == (0, 0.0)


def test_longer_frames_are_told(monkeypatch):
    """The twin: frames that grow with the rows of their sender."""
    world = timing._timed_attack_world
    monkeypatch.setattr(
        timing,
        "_timed_attack_world",
        lambda asked, held, seed: (world(asked, held, seed), held),
    )

    def grown(found):
        history, held = found[0].history, found[1]
        return [(one.party, len(held[one.party])) for one in history]

    monkeypatch.setattr(timing, "timing_frame_trace", grown)
    (found,) = timing.play_frame_sizes(
        named("survival"), coalition=("ann",), seed=1, trials=3
    )
    assert found.successes == found.trials == 3


def test_a_slope_is_that_of_least_squares():
    rows, seconds = [10, 20, 40, 80], [1.1, 1.9, 4.2, 7.8]
    found = timing.TimingSlope.of("a job", rows, seconds)
    line, covariance = np.polyfit(rows, seconds, 1, cov=True)
    assert found.slope == pytest.approx(line[0])
    assert found.error == pytest.approx(covariance[0, 0] ** 0.5)
    assert found.is_real
    assert "learns about how many rows" in found.words
    flat = timing.TimingSlope.of("a job", rows, [1.0, 1.1, 0.9, 1.05])
    assert not flat.is_real


def test_clocks_are_read_and_said():
    """No clock is held against a bound: how long something takes is not for tests."""
    answering, sampling = timing.attack_timings(named("statistics"), 1)
    assert answering.rows == sampling.rows
    assert len(answering.rows) == len(timing.LENGTHS)
    assert all(one > 0.0 for one in answering.seconds)
    assert timing.attack_timings(named("a cost"), 1) == ()


def test_what_sums_say_is_counted():
    asked = named("least squares")
    found = {one.about: one for one in sums_say.play(asked, **HOW)}
    assert found["fewest parties whose sum a coalition knows"].number == 4
    (held, played), (other, _) = (asked.sound((1, trial)) for trial in range(2))
    numbers = sum(one.numbers for one in played.result.releases)
    per_row = found["numbers released for each row of the shortest table"]
    assert per_row.number == numbers / len(held["bob"])
    assert found["rows that leave one alone"].number == 4 * len(held["bob"]) - 1
    # Against the hat matrix of numpy.
    largest = 0.0
    for one in (tables[name] for tables in (held, other) for name in NAMES[1:]):
        wards = [one["ward"] == level for level in ("south", "west")]
        x = np.column_stack([np.ones(len(one)), one["age"], one["bmi"], *wards])
        q, _ = np.linalg.qr(x)
        largest = max(largest, (q**2).sum(axis=1).max())
    assert found["largest leverage of one row at its party"].number == pytest.approx(
        largest
    )
    assert 0 < found["largest part of a sum that is one row's"].number < 1 / 40


def test_where_all_others_collude_the_sum_is_the_partys_own():
    found, *_ = sums_say.play(named("a cost"), **{**HOW, "coalition": NAMES[:-1]})
    assert found.number == 1
    assert "eve's own" in found.words


def test_nothing_says_that_anything_is_private():
    lines = [
        one.words
        for name in ("least squares", "a cost")
        for one in sums_say.play(named(name), **{**HOW, "trials": 1})
    ]
    assert not any("private" in one for one in lines)


def test_where_all_have_equally_many_rows_frames_say_nothing_of_them():
    (found,) = timing.play_frame_sizes(named("a cost"), **HOW)
    assert isinstance(found, SkippedAttack)
