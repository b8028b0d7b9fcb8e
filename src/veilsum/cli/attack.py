"""`veilsum attack`: demonstrations of what goes wrong, on simulated parties."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.output import (
    json_option,
    print_json,
    seed_option,
    terminal_console,
    terminal_table,
)
from veilsum.errors import InvalidInputError

if TYPE_CHECKING:
    from veilsum.privacy.float_leak import FloatLeak

Values = tuple[float, float, float]

# What the figure shows beside the values asked for: the paper's, and plain decimals.
EXAMPLES: tuple[Values, ...] = ((1.0, 2.0, 3.0), (0.1, 0.2, 0.3))
SIGMAS = (1.0, 10.0, 1e2, 1e3, 1e6)
COLUMNS = (
    *("law", "runs", "alternative ruled out for certain"),
    *("share of runs", "zero-sum inexact"),
)


@click.group("attack", no_args_is_help=False)
def command() -> None:
    """Demonstrate a leak on simulated parties.

    \b
    Example:
      veilsum attack float --values 0.1,0.2,0.3 --sigma 1000
    """


@command.command("float")
@click.option(
    "--values",
    "text",
    default="1,2,3",
    show_default=True,
    metavar="A1,A2,A3",
    help="What parties 1, 2 and 3 hold; the alternative swaps the first two.",
)
@click.option(
    "--sigma",
    type=float,
    default=1.0,
    show_default=True,
    help="Standard deviation of one share.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="Simulated runs for each law, each with fresh shares.",
)
@seed_option
@click.option(
    "--bits",
    type=click.IntRange(min=2, max=60),
    default=40,
    show_default=True,
    help="The lattice is the grid of 2^-BITS.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for result.json and a figure over several sigmas.",
)
@json_option
def float_command(
    *,
    text: str,
    sigma: float,
    runs: int,
    seed: int,
    bits: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Rule out inputs for certain from the low bits of float64 masks.

    Three parties on a triangle, party 3 curious. It asks whether the numbers it saw
    could have come about if parties 1 and 2 had held each other's values, and tries
    every float64 number that the hidden noise could be. The same is asked of integer
    masks on a lattice, where the answer is always yes.

    \b
    Example:
      veilsum attack float --values 0.1,0.2,0.3 --sigma 1000 --out out/float
    """
    from veilsum.files.output import (
        as_strict_json as written,
        prepare_output_folder,
        write_files,
    )

    folder = None if out is None else prepare_output_folder(out)
    values = _parse_values_option(text)
    swapped = values[1], values[0], values[2]
    floats = _excluded_by_attack_command(values, sigma, runs, seed)
    lattice = _excluded_by_attack_command(values, sigma, runs, seed, bits)
    found = {
        "values": list(values),
        "alternative": list(swapped),
        "sigma": sigma,
        "runs": floats.runs,
        "float64": {
            **_attack_command_counts(floats),
            "max_sum_error": floats.max_sum_error,
        },
        "lattice": {"bits": bits, **_attack_command_counts(lattice)},
    }
    if folder is not None:
        from veilsum.report.figures import figure_png_and_svg

        drawn = figure_png_and_svg(
            _attack_command_figure(values, sigma, runs, seed, bits)
        )
        files = {f"float_leak.{kind}": content for kind, content in drawn.items()}
        write_files(folder, {"result.json": written(found).encode(), **files})
    if as_json:
        print_json(found)
        return
    screen = terminal_console()
    screen.print(
        terminal_table(
            COLUMNS,
            [
                _attack_command_row("float64", floats),
                _attack_command_row("lattice", lattice),
            ],
        )
    )
    screen.print()
    screen.print(_attack_command_words(swapped, floats))


def _parse_values_option(text: str) -> Values:
    try:
        one, two, three = map(float, text.split(","))
    except ValueError:
        raise InvalidInputError(
            f"--values takes three numbers such as 0.1,0.2,0.3, found {text!r}",
            code="values-not-three-numbers",
        ) from None
    return one, two, three


def _excluded_by_attack_command(
    values: Values, sigma: float, runs: int, seed: int, bits: int | None = None
) -> FloatLeak:
    import numpy as np

    from veilsum.privacy.float_leak import exclusions_by_lattice_view, float_exclusions

    how: Any = {"sigma": sigma, "runs": runs, "stream": np.random.default_rng(seed)}
    if bits is None:
        return float_exclusions(*values, **how)
    return exclusions_by_lattice_view(*values, **how, bits=bits)


def _attack_command_counts(leak: FloatLeak) -> dict[str, float]:
    return {
        "excluded": leak.excluded,
        "rate": leak.rate,
        "inexact_sums": leak.inexact_sums,
    }


def _attack_command_figure(
    values: Values, sigma: float, runs: int, seed: int, bits: int
) -> Any:
    from veilsum.report.figures import float_leak_figure

    sigmas = sorted({*SIGMAS, sigma})
    shown = dict.fromkeys((*EXAMPLES, values))
    curves = {
        _values_with_all_digits(held): [
            _excluded_by_attack_command(held, s, runs, seed).rate for s in sigmas
        ]
        for held in shown
    }
    lattice = [
        max(
            _excluded_by_attack_command(held, s, runs, seed, bits).rate
            for held in shown
        )
        for s in sigmas
    ]
    return float_leak_figure(sigmas, curves, lattice=lattice)


def _attack_command_row(law: str, leak: FloatLeak) -> tuple[str, ...]:
    return (
        law,
        f"{leak.runs:,}",
        f"{leak.excluded:,}",
        f"{100 * leak.rate:.1f}%",
        f"{leak.inexact_sums:,}",
    )


def _attack_command_words(alternative: Values, floats: FloatLeak) -> str:
    if floats.excluded == 0:
        return (
            "These float64 runs did not rule out "
            f"{_values_with_all_digits(alternative)}; that is no "
            "proof, since other values and other shares may."
        )
    return (
        f"In {100 * floats.rate:.3g}% of the float64 runs party 3 knows for certain "
        f"that the values were not {_values_with_all_digits(alternative)}, although "
        "the sum is the "
        "same: the divergence is infinite, whatever sigma promises."
    )


def _values_with_all_digits(values: Values) -> str:
    """Return the values with all their digits: nearly equal ones are told apart."""
    return ", ".join(repr(value).removesuffix(".0") for value in values)
