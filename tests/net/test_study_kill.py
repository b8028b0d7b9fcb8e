"""Parties of a study killed with SIGKILL within questions and between them.

Every party counts its steps through all questions: frames, writings, charges, the end
of a run, and how far it is. It kills itself at a step that was drawn, and is started
again. Each question's histories go to the checker of the loopback world, which sees a
second share or a second masked vector; and every answer must be there and right.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from histories import broken, read_history
from net.one_study import take_part
from party.test_studying import FIT, MEANS, NAMES, SMOKERS, Group, frames
from veilsum.files.ledger import read_ledger
from veilsum.net.receipt import verify_receipts
from veilsum.party.checks import AtHomeError, HomeDriver
from veilsum.party.consent import consent_to
from veilsum.party.inputs import party_contribution
from veilsum.party.studying import read_study_status

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked_shapes")]
PROCESSES = multiprocessing.get_context("forkserver")
multiprocessing.set_forkserver_preload(["net.one_study"])
WAITS = {"meeting": 600.0, "deadline": 300.0, "patience": 4}
# By the clock on the wall: what takes so long never ends.
LONGEST = 600.0
# A party of four has at least so many steps in a study of three; often more than the
# larger number, since frames are asked for again where somebody is slow.
LEAST, STEPS = 250, 330
STREAM = np.random.default_rng(21)
# Who is killed after which step: one, two at a time, one again and again.
DRAWN = [
    *({str(STREAM.choice([*NAMES])): [int(k)]} for k in STREAM.integers(1, STEPS, 6)),
    *({"b": [int(k)], "d": [int(j)]} for k, j in STREAM.integers(1, STEPS, (3, 2))),
    *({"c": [int(k) for k in row]} for row in STREAM.integers(1, STEPS // 3, (2, 4))),
]


def start(group, name, kill_after=0):
    made = PROCESSES.Process(
        target=take_part, args=(str(group.folder(name)), kill_after)
    )
    made.start()
    return made


def gone_through(group, kills, late=False):
    """Have all go through the study; who dies is started again, at once or late.

    Returns how often each of them died.
    """
    waiting = {name: [*kills.get(name, ()), 0] for name in NAMES}
    running = {name: start(group, name, left.pop(0)) for name, left in waiting.items()}
    deaths = Counter()
    while running:
        for name, process in [*running.items()]:
            process.join(0.2)
            if process.exitcode is None:
                continue
            error = group.folder(name) / "error"
            said = error.read_text() if error.exists() else "nothing"
            assert process.exitcode in {0, -signal.SIGKILL}, f"{name}: {said}"
            del running[name]
            if process.exitcode:
                deaths[name] += 1
                if not late:
                    running[name] = start(group, name, waiting[name].pop(0))
    if late:
        process = start(group, name := next(iter(kills)))
        process.join(LONGEST)
        assert process.exitcode == 0, (group.folder(name) / "error").read_text()
    return deaths


def steps_of(group, name):
    """How many steps a party counted that came to its end."""
    return int((group.folder(name) / "steps").read_text())


def parts(group, question):
    """The public plan of a question, and everybody's work in it."""
    agreed, works = group.study.questions[question], {}
    for name in NAMES:
        part = party_contribution(agreed, data=group.folder(name) / "data.csv")
        with pytest.raises(AtHomeError) as home:
            replace(part, consortium=agreed).job(name, driver=HomeDriver(name)).run()
        works[name] = home.value.assignment.works[name]
    return home.value.assignment.plan, works


def histories(group, question):
    run = group.study.questions[question].run
    found = [group.folder(name) / f"history-{run[-8:]}" for name in NAMES]
    return [path for path in found if path.exists()]


def check(group, may_fail=False):
    """Nothing was shown twice; every answer is right, or its end has a name."""
    pooled = pd.concat(frames().values())
    means = pooled[["x", "y"]].mean().to_numpy()
    slope, level = np.polyfit(pooled["x"], pooled["y"], 1)
    for question, agreed in group.study.questions.items():
        assert broken(*parts(group, question), histories(group, question)) == []
        rounds = consent_to(agreed).facts["rounds"][1]
        for name in NAMES:
            stage = read_study_status(group.folder(name) / "out").stages[question]
            charges = read_ledger(group.folder(name) / f"{name}.ledger").charges
            epochs = [one.epoch for one in charges if one.epoch.startswith(agreed.run)]
            assert len(epochs) == len(set(epochs)) <= rounds
            if may_fail and stage.stage == "failed":
                assert ("masked numbers were shown" in stage.reason) is bool(epochs)
                continue
            assert stage.stage == "finished", f"{question}, {name}: {stage.reason}"
            found = group.result(name, question)["minimiser"]
            if question == "means":
                np.testing.assert_allclose(found, means, rtol=1e-12)
            if question == "fit":
                np.testing.assert_allclose(found, [level, slope], rtol=1e-9)
        if not may_fail:
            assert verify_receipts(group.receipts(question), agreed).good


@pytest.mark.parametrize("kills", DRAWN, ids=str)
def test_a_party_that_is_killed_goes_on_with_its_study(kills, tmp_path):
    group = Group(tmp_path, MEANS, SMOKERS, FIT, **WAITS)
    deaths = gone_through(group, kills)
    for name, steps in kills.items():
        if deaths[name] < len(steps):  # it was through before its step came
            assert LEAST < steps[deaths[name]] > steps_of(group, name)
    check(group)  # who is started again at once is waited for


@pytest.mark.parametrize("step", [150, 260])
def test_who_comes_back_too_late_ends_with_a_reason(step, tmp_path):
    """The others have given up by then, and gone on without a word from it."""
    waits = {"meeting": 8.0, "deadline": 8.0, "patience": 2}
    group = Group(tmp_path, MEANS, SMOKERS, FIT, **waits)
    assert gone_through(group, {"c": [step]}, late=True) == {"c": 1}
    check(group, may_fail=True)
    stages = read_study_status(group.folder("c") / "out").stages.values()
    assert {one.stage for one in stages} != {"finished"}
    assert all(one.reason for one in stages if one.stage != "finished")


def test_the_checker_sees_a_second_masked_vector(tmp_path):
    """The failing twin: a party that loses a question's file draws its shares anew."""
    groups = [Group(tmp_path / str(k), MEANS, **WAITS) for k in range(2)]
    for group in groups:
        gone_through(group, {})
    check(groups[0])
    first, second = (histories(group, "means")[1] for group in groups)
    assert any(event.what == "send" for event in read_history(first))
    first.write_bytes(first.read_bytes() + second.read_bytes())
    plan, works = parts(groups[0], "means")
    assert broken(plan, works, histories(groups[0], "means"))


def test_steps_are_counted_to_the_end(tmp_path):
    """So that what is drawn falls within questions and between them."""
    group = Group(tmp_path, MEANS, SMOKERS, FIT, **WAITS)
    assert not gone_through(group, {})
    assert min(steps_of(group, name) for name in NAMES) >= LEAST
