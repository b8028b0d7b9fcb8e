"""Progress reports of long work: one way to report, one way to subscribe.

All functions that may take longer than a moment have `progress`. None shows a bar, or a
line of text, on standard error: in a terminal or a notebook, after two seconds, and
nowhere else. False shows nothing. A function is called with the number of steps done
and the total; in work with several stages, each starts again with its own total.

Work nested in other reported work reports nothing, nor does a worker process.

A command does more than the work it reports: loading packages, reading files, proving a
guarantee. `show_progress_activity` names such a step on a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import ceil
from threading import Event, Thread
from time import monotonic
from typing import Any, ClassVar, Literal, TypeAlias

from veilsum.errors import InvalidInputError

# What a program is called with: done, and how many there are.
Report: TypeAlias = Callable[[int, int], None]
# What a user may say.
Progress: TypeAlias = Report | Literal[False] | None
# What work itself calls: a stage is opened by its name and size, and told of its count.
Advance: TypeAlias = Callable[[int], None]
Opening: TypeAlias = Callable[[str, int], Advance]

# Seconds before anything is shown, and between two lines of text.
PATIENCE, BETWEEN = 2.0, 0.5
# Seconds before a command's step is named, and between two updates of its line.
SOON, TICK = 0.5, 1.0


@contextmanager
def watch_progress(progress: Progress = None) -> Iterator[Opening | None]:
    """Yield what opens a stage; None if nobody wants to hear of any.

    >>> told = []
    >>> with watch_progress(lambda done, total: told.append((done, total))) as opening:
    ...     advance = opening("rows", 3)
    ...     advance(2)
    >>> told
    [(2, 3)]
    """
    if callable(progress):
        yield _progress_to_report(progress)
    elif progress is not None and progress is not False:
        raise InvalidInputError(
            "progress is None for a bar, False for none, or a function that is called "
            f"with done and total, found {progress!r}",
            code="malformed-progress",
        )
    elif progress is False or not _ProgressBars.is_wanted():
        yield None
    else:
        bars = _ProgressBars()
        try:
            yield bars.open
        finally:
            bars.close()


@contextmanager
def show_progress_activity(label: str) -> Iterator[None]:
    """Show a step's name and duration on a terminal if it lasts longer than `SOON`.

    The line is written by a thread of its own, because a step such as an import cannot
    report. It is erased at the end of the step, or when a bar inside is shown.
    """
    if not _ProgressBars.is_wanted() or not sys.stderr.isatty():
        yield
        return
    line = _ProgressLine(label)
    try:
        yield
    finally:
        line.end()


def silent_progress(_label: str, _total: int) -> Advance:
    """Open a stage that nobody hears of."""
    return lambda _done: None


def staged_progress(opening: Opening | None, label: str) -> Report | None:
    """Return what is told of done and total, and opens its stage once that is known."""
    if opening is None:
        return None
    opened: list[Advance] = []

    def report(done: int, total: int) -> None:
        if not opened:
            opened.append(opening(label, total))
        opened[0](done)

    return report


def _progress_to_report(report: Report) -> Opening:
    return lambda _label, total: lambda done: report(done, total)


@dataclass(eq=False)
class _ProgressBars:
    """Bars of rich in a terminal; a line of text in a notebook, or without rich."""

    began: float = field(default_factory=lambda: monotonic())
    shown: float | None = None
    bars: Any = None

    # Whether somebody is being shown something: one thing at a time.
    busy = False

    @classmethod
    def is_wanted(cls) -> bool:
        """Say whether a person is looking, and nobody is telling one anything yet."""
        if cls.busy or _is_worker_without_progress() or sys.stderr is None:
            return False
        return sys.stderr.isatty() or _progress_is_in_notebook()

    def __post_init__(self) -> None:
        type(self).busy = True
        if sys.stderr.isatty() and find_spec("rich") is not None:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn as Remaining,
            )

            many = TextColumn("{task.completed:,.0f}/{task.total:,.0f}", markup=False)
            label = TextColumn("{task.description}", markup=False)
            screen = Console(stderr=True)
            columns = (label, BarColumn(), many, Remaining())
            self.bars = Progress(*columns, console=screen, transient=True)

    def open(self, label: str, total: int) -> Advance:
        """Return what is told how many of a stage are done."""
        task = None if self.bars is None else self.bars.add_task(label, total=total)
        # What was there before, such as the lines of a file, took no time now.
        first: list[tuple[float, int]] = []

        def advance(done: int) -> None:
            if self.bars is not None:
                self.bars.update(task, completed=done)
            now = monotonic()
            if not first:
                first.append((now, done))
            if now - (self.shown or self.began) < (BETWEEN if self.shown else PATIENCE):
                return
            if _ProgressLine.current is not None:
                _ProgressLine.current.end()
            self.shown = now
            if self.bars is not None:
                self.bars.start()  # once more is no harm
            else:
                left = _progress_time_left(now, done, total, *first[0])
                sys.stderr.write(f"\r{label} {done:,} of {total:,}{left}")
                sys.stderr.flush()

        return advance

    def close(self) -> None:
        """Leave the screen as it was, but for an end of a line of text."""
        type(self).busy = False
        if self.shown is not None and self.bars is not None:
            self.bars.stop()
        elif self.shown is not None:
            sys.stderr.write("\n")


@dataclass(eq=False)
class _ProgressLine:
    """The name of a step and how long it has taken, updated by a thread."""

    label: str
    _written: int = 0
    _ended: Event = field(default_factory=Event)

    # The line on the screen: a bar erases it first.
    current: ClassVar[_ProgressLine | None] = None

    def __post_init__(self) -> None:
        type(self).current = self
        self._thread = Thread(target=self._show, daemon=True)
        self._thread.start()

    def _show(self) -> None:
        began, pause = monotonic(), SOON
        while not self._ended.wait(pause):
            text = f"{self.label} ({monotonic() - began:.0f} s)"
            sys.stderr.write(f"\r{text}")
            sys.stderr.flush()
            self._written, pause = len(text), TICK

    def end(self) -> None:
        """Erase the line; a second time is harmless."""
        type(self).current = None
        self._ended.set()
        self._thread.join()
        if self._written:
            sys.stderr.write(f"\r{' ' * self._written}\r")
            sys.stderr.flush()
            self._written = 0


def _progress_time_left(
    now: float, done: int, total: int, began: float, before: int
) -> str:
    """Say how long it will take, as far as what was done by now tells.

    >>> _progress_time_left(20.0, 30, 100, 10.0, 10)
    ', 35 s left  '
    """
    if done <= before or done >= total:
        return " " * 12  # what the line said before is longer
    seconds = (now - began) * (total - done) / (done - before)
    units = (3600, "h"), (60, "min"), (1, "s")
    size, name = next((one for one in units if seconds >= 2 * one[0]), units[-1])
    return f", {ceil(seconds / size)} {name} left  "


def _is_worker_without_progress() -> bool:
    """Say whether another process started this one to work; it has the module then."""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and module.parent_process() is not None


def _progress_is_in_notebook() -> bool:
    """Say whether this runs in a kernel; IPython is there already if it does."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
