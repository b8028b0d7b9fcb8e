"""`veilsum bench`: how fast this machine is, and how near its engines come to it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.output import (
    Advance,
    console,
    json_option,
    print_json,
    progress_bar,
    say,
    table,
)

if TYPE_CHECKING:
    from veilsum.jobs.bench.engines import Line
    from veilsum.jobs.bench.report import Report
    from veilsum.jobs.bench.side_by_side import Comparison, Row

# Spelt out: importing them would load numpy for --help.
ENGINES = ("auto", "numpy", "numba", "jax")

ENGINE_COLUMNS = (
    *("method, costs, agents x dimension", "engine", "us", "pass", "passes"),
    *("scipy", "faster", "numpy", "faster", "wanted", "met"),
)
PEER_COLUMNS = (
    *("method, package", "version", "agents", "iterations", "wall us", "processor us"),
    *("slower", "by processor", "wanted", "met", "difference", "distance"),
)


@click.command("bench")
@click.option("--quick", is_flag=True, help="Small sizes and few repeats: seconds.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="Only this one; without it, all that are installed.",
)
@click.option(
    "--peers",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Also run other packages, from their environments in this folder.",
)
@json_option
def command(
    *, quick: bool, engine: str | None, peers: Path | None, as_json: bool
) -> None:
    """Time the engines beside what this machine can do at best.

    Times are microseconds for one iteration of all agents; a star marks the engine that
    "auto" takes. A pass reads two arrays and writes a third, as large as all estimates,
    for each round of messages; scipy and numpy are the method as a short Python loop.
    Ratios are medians over repeats in turn. Without --quick it takes some minutes.

    \b
    Example:
      veilsum bench --quick
      veilsum bench --engine numba --json
    """
    from veilsum.jobs.bench.report import run_benchmark

    with progress_bar() as open_bar:

        def watch(label: str, rounds: int) -> Advance:
            say(f"measuring {label}")
            return open_bar(label, rounds)

        found = run_benchmark(
            quick=quick,
            engine=engine,
            peers=peers,
            command=_words(quick=quick, engine=engine, peers=peers),
            watch=watch,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)


def _words(*, quick: bool, engine: str | None, peers: Path | None) -> str:
    """Return the command that measures the same again."""
    given = ["veilsum", "bench"]
    given += ["--quick"] if quick else []
    given += [] if engine is None else ["--engine", engine]
    given += [] if peers is None else ["--peers", str(peers)]
    return shlex.join(given)


def _print(found: Report) -> None:
    screen = console()
    where = found.machine
    versions = [f"{name} {is_}" for name, is_ in where["packages"].items() if is_]
    screen.print(
        f"{where['date']}, {where['cores']} cores, {where['architecture']}, "
        f"{where['system']}, load {where['load']}, Python {where['python']}, "
        f"{', '.join(versions)}"
    )
    screen.print(f"{found.command}\n")
    screen.print(table(ENGINE_COLUMNS, [_line(line) for line in found.lines]))
    if found.comparison is not None:
        _print_peers(found.comparison)


def _line(line: Line) -> tuple[str, ...]:
    return (
        f"{line.method}, {line.costs}, {line.agents:,} x {line.dim}",
        f"{line.engine}{'*' if line.chosen else ''}",
        _figure(line.microseconds),
        _figure(line.pass_microseconds),
        _figure(line.passes),
        _figure(line.scipy_microseconds),
        _figure(line.faster_than_scipy),
        _figure(line.numpy_microseconds),
        _figure(line.faster_than_numpy),
        line.wanted,
        _yes_or_no(line.met),
    )


def _print_peers(found: Comparison) -> None:
    screen = console()
    screen.print(
        "\nLeast squares, six neighbours, dimension 50; microseconds per agent and "
        "iteration, beside our engine:\n"
    )
    screen.print(table(PEER_COLUMNS, [_row(row) for row in found.rows]))
    for one in found.left_out:
        screen.print(f"left out: {one.name}, {one.reason}", markup=False)


def _row(row: Row) -> tuple[str, ...]:
    return (
        f"{row.method}, {row.name}",
        row.version,
        f"{row.agents:,}",
        f"{row.iterations:,}",
        _figure(row.wall),
        _figure(row.processor),
        _figure(row.slower),
        _figure(row.slower_processor),
        _figure(row.wanted),
        _yes_or_no(row.met),
        "" if row.difference is None else f"{row.difference:.1g}",
        f"{row.distance:.1g}",
    )


def _figure(value: float | None) -> str:
    """Return three digits, without an exponent."""
    if value is None:
        return ""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def _yes_or_no(value: bool | None) -> str:  # noqa: FBT001 - what it prints
    return {None: "", True: "yes", False: "no"}[value]
