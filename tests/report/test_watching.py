"""Who waits is told how far it is: after two seconds, on a screen, and once."""

import io
import sys
from contextlib import nullcontext
from time import monotonic, sleep
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

import veilsum as vs
from cases import each
from refusals import refused
from veilsum import progress as watching
from veilsum.graphs import augmentation
from veilsum.privacy import allocation, diagnosis
from veilsum.progress import (
    show_progress_activity,
    silent_progress,
    staged_progress,
    watch_progress,
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass as often as somebody looks."""
    seconds = SimpleNamespace(now=0.0, step=0.125)

    def look():
        seconds.now += seconds.step
        return seconds.now

    monkeypatch.setattr(watching, "monotonic", look)
    return seconds


@pytest.fixture
def notebook(monkeypatch):
    """A kernel, as far as this package looks."""
    shell = type("ZMQInteractiveShell", (), {})()
    module = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)


def steps(count, progress=None):
    with watch_progress(progress) as opening:
        advance = (opening or silent_progress)("rows", count)
        for done in range(count):
            advance(done + 1)
    return opening is not None


def test_nothing_is_shown_where_nobody_looks(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not steps(100)
    assert sys.stderr.getvalue() == ""


@pytest.mark.usefixtures("notebook")
def test_a_notebook_has_a_line_after_two_seconds(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert steps(10)
    assert sys.stderr.getvalue() == ""
    clock.step = 1.0
    assert steps(5)
    lines = [one.rstrip() for one in sys.stderr.getvalue().split("\r")]
    left = [f"rows {k} of 5, {5 - k} s left" for k in (2, 3, 4)]
    assert lines == ["", *left, "rows 5 of 5"]


@pytest.mark.usefixtures("clock")
def test_a_terminal_has_a_bar_after_two_seconds_and_is_left_as_it_was(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert steps(10)
    assert sys.stderr.getvalue() == ""
    assert steps(60)
    assert "rows" in sys.stderr.getvalue()
    assert not watching._ProgressBars.busy


@pytest.mark.usefixtures("clock")
def test_a_terminal_without_rich_has_a_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(watching, "find_spec", lambda _: None)
    assert steps(60)
    assert sys.stderr.getvalue().startswith("\rrows ")


def test_work_inside_watched_work_says_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with watch_progress():
        assert not steps(3)
    assert steps(3)
    with pytest.raises(ZeroDivisionError), watch_progress():
        raise ZeroDivisionError
    assert steps(3)


def test_false_says_nothing_and_a_worker_neither(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert not steps(3, progress=False)
    monkeypatch.setattr("multiprocessing.process.parent_process", lambda: "somebody")
    assert not steps(3)


@each("wrong", [True, 0, "bar", 3])
def test_what_is_no_progress_is_refused(wrong):
    with refused("malformed-progress"):
        steps(3, progress=wrong)


def test_a_stage_opens_when_its_total_is_known():
    told = []
    with watch_progress(lambda *one: told.append(one)) as opening:
        report = staged_progress(opening, "rows")
        report(1, 9)
        report(2, 9)
    assert told == [(1, 9), (2, 9)]
    assert staged_progress(None, "rows") is None


def costs():
    return [vs.minimise.Cost.squared_distance([p]) for p in (1.0, 2.0, 6.0, 3.0)]


def sums(progress):
    data = {one: [1.0, 2.0] for one in "abcd"}
    vs.sum(data, seed=1, progress=progress)


def runs(progress):
    vs.solve(
        costs(),
        topology=vs.Topology.family("ring:4"),
        corrupted=(),
        domain=vs.minimise.Box(-9, 9, dim=1),
        sigma=1.0,
        settings=vs.minimise.Settings(iterations=40),
        progress=progress,
    )


def executions(progress):
    vs.minimise.simulate(
        vs.Topology.family("ring:4"),
        [1, 2, 3, 4],
        sigma=1.0,
        executions=9000,
        stream=np.random.default_rng(1),
        progress=progress,
    )


def plans(progress):
    vs.plan(8, tolerate=1, epsilon=0.1, degree=4, progress=progress)


def worst(progress):
    graph = vs.Topology.family("regular:24:6:seed=1")
    vs.worst_case(graph, sigma=1.0, tolerate=3, progress=progress)


def diagnoses(progress):
    for t in (1, 2):
        vs.privacy.examine(vs.Topology.family("path:9"), tolerate=t, progress=progress)


def allocations(progress):
    vs.privacy.allocate_noise(
        vs.Topology.family("grid:3x3"), tolerate=1, progress=progress
    )


LONG = (sums, runs, executions, plans, worst, diagnoses, allocations)


@each("work", LONG)
def test_a_program_is_told_of_everything_that_can_take_long(work):
    told = []
    work(lambda done, total: told.append((done, total)))
    assert told
    assert all(0 <= done <= total for done, total in told)
    work(False)
    work(None)


def test_every_stage_of_a_diagnosis_is_told(monkeypatch):
    """In a network where links are looked for in several ways, and fewer in vain."""
    stages = {}

    def opening(label, total):
        stages[label] = [total]
        return stages[label].append

    monkeypatch.setattr(diagnosis, "watch_progress", lambda _: nullcontext(opening))
    loose = nx.gnp_random_graph(9, 0.25, seed=41)
    network = vs.Topology.from_edges(loose.edges, parties=loose.nodes)
    monkeypatch.setattr(augmentation, "MOST_BRANCHES", 90)
    assert vs.privacy.examine(network, tolerate=3).gap
    some = ["links to add", "ways with fewer links", "coalitions", "further links"]
    assert list(stages) == some
    for total, *done in stages.values():
        assert done == sorted(done)
        assert done[-1] == total


def test_an_allocation_counts_its_rounds():
    told = []
    network = vs.Topology.family("wheel:12")
    vs.privacy.allocate_noise(
        network, tolerate=1, progress=lambda *one: told.append(one)
    )
    *rounds, last = told
    assert len(rounds) > 1
    assert [done for done, _ in rounds] == list(range(len(rounds)))
    assert last == (allocation.MOST_ROUNDS, allocation.MOST_ROUNDS)


# What a command does before and after the work it watches


@pytest.fixture
def quick_line(monkeypatch):
    """A line that appears, and is updated, after a hundredth of a second."""
    monkeypatch.setattr(watching, "SOON", 0.01)
    monkeypatch.setattr(watching, "TICK", 0.01)


def until(shown):
    """Wait for a thread to write."""
    end = monotonic() + 30
    while shown not in sys.stderr.getvalue() and monotonic() < end:
        sleep(0.005)
    assert shown in sys.stderr.getvalue()


@pytest.mark.usefixtures("quick_line")
def test_a_step_that_cannot_report_is_named_while_it_lasts(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with show_progress_activity("Reading a.toml"):
        until("\rReading a.toml (0 s)")
    assert sys.stderr.getvalue().endswith(f"\r{' ' * len('Reading a.toml (0 s)')}\r")


def test_a_step_that_is_soon_done_is_not_named(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(watching, "SOON", 600.0)
    with show_progress_activity("Reading a.toml"):
        pass
    assert sys.stderr.getvalue() == ""


@pytest.mark.usefixtures("quick_line")
def test_a_step_is_named_on_a_terminal_only(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with show_progress_activity("Reading a.toml"):
        sleep(0.05)
    assert sys.stderr.getvalue() == ""


@pytest.mark.usefixtures("quick_line")
def test_a_bar_takes_the_place_of_the_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(watching, "find_spec", lambda _: None)
    monkeypatch.setattr(watching, "PATIENCE", 0.0)
    with show_progress_activity("Running 3 parties"):
        until("Running 3 parties")
        assert steps(3)
        assert watching._ProgressLine.current is None
        left = sys.stderr.getvalue().rpartition("Running 3 parties")[2]
        sleep(0.05)  # nothing is written over the bar
        assert sys.stderr.getvalue().endswith(left)
    assert left.endswith("\rrows 1 of 3            \n")
