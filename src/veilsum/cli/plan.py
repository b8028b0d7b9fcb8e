"""`veilsum plan`: from a target to a network and its sigma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.output import (
    json_option,
    on_option,
    print_json,
    say_on_terminal,
    seed_option,
)
from veilsum.errors import InvalidInputError

if TYPE_CHECKING:
    from veilsum.graphs.topology import Topology
    from veilsum.masks.laws import LawName
    from veilsum.privacy.records import Model, Range, RecordDistance


@click.command("plan")
@click.option("--parties", type=int, metavar="N", help="How many parties there are.")
@click.option("--tolerate", type=int, metavar="T", help="How many may collude.")
@click.option(
    "--attacker-success",
    type=float,
    metavar="P",
    help="The most that the best attacker may reach, above 0.5 and below 1.",
)
@click.option(
    "--epsilon", type=float, metavar="E", help="The target as KL per squared distance."
)
@click.option(
    "--distance",
    type=float,
    metavar="D",
    help="||A - B|| of the inputs that are not to be told apart.",
)
@click.option(
    "--columns",
    metavar="NAME:MIN:MAX,...",
    help="Ranges of the columns: the distance is then that of exchanging two records.",
)
@click.option("--response", metavar="NAME:MIN:MAX", help="Range of a model's response.")
@click.option(
    "--model",
    type=click.Choice(["sum", "mean", "linear", "linear-with-errors"]),
    help="What is summed over records; the linear models need a response.",
)
@click.option(
    "--intercept/--no-intercept",
    default=True,
    show_default=True,
    help="Whether a linear model has one.",
)
@click.option(
    "--law",
    type=click.Choice(["lattice", "gaussian", "uniform"]),
    default="lattice",
    show_default=True,
    help="How shares are drawn; real parties use lattice, or uniform for sums alone.",
)
@click.option(
    "--degree", type=int, metavar="K", help="The most links a party may have."
)
@click.option(
    "--graph",
    "spec",
    metavar="SPEC|FILE",
    help="Plan for this graph only: a family such as ring:9, or a graph file.",
)
@click.option(
    "--page",
    "page",
    is_flag=False,
    flag_value="127.0.0.1:8472",
    metavar="[HOST:PORT]",
    help="Draw a network in a browser and see what holds as you drag: a page on this "
    "computer only, at 127.0.0.1:8472 if not said. It begins with what else is given.",
)
@seed_option
@on_option
@json_option
def command(
    *,
    parties: int | None,
    tolerate: int | None,
    attacker_success: float | None,
    epsilon: float | None,
    distance: float | None,
    columns: str | None,
    response: str | None,
    model: Model | None,
    intercept: bool,
    law: LawName,
    degree: int | None,
    spec: str | None,
    page: str | None,
    seed: int,
    on: str | None,
    as_json: bool,
) -> None:
    """Find a network and the noise it needs for a target.

    Networks are ranked by sigma. Without --degree the complete graph is best, and
    sparse ones are shown beside it. Ctrl-C ends the search and keeps what it has.

    \b
    Example:
      veilsum plan --parties 16 --tolerate 2 --attacker-success 0.51 \\
        --columns age:0:100,bmi:10:60 --response y:0:300 --model linear --degree 4
      veilsum plan --page
      veilsum plan --page --graph petersen --tolerate 2
    """
    if page is not None:
        records = _record_distance_option(
            columns, response, model, distance, intercept=intercept
        )
        given = {
            "tolerate": tolerate,
            "success": attacker_success,
            "distance": records.distance if records else distance,
            "law": None if law == "gaussian" else law,
        }
        graph = spec or (None if parties is None else f"ring:{parties}")
        _print_planner_page_address(
            page, graph, {k: v for k, v in given.items() if v is not None}
        )
        return
    if tolerate is None:
        raise InvalidInputError(
            "say how many may collude: --tolerate T", code="tolerate-missing"
        )
    from veilsum.privacy.planner import plan

    records = _record_distance_option(
        columns, response, model, distance, intercept=intercept
    )
    found = plan(
        parties,
        tolerate=tolerate,
        attacker_success=attacker_success,
        epsilon=epsilon,
        distance=records.distance if records else distance,
        law=law,
        degree=degree,
        graph=_parse_graph_option(spec),
        seed=seed,
        on=on,
    )
    if as_json:
        keys = ("statistic", "distance", "exact")
        about = records and {"records": {key: getattr(records, key) for key in keys}}
        print_json(found.to_dict() | (about or {}))
        return
    if records is not None:
        size = "" if records.exact else "at most "
        click.echo(
            f"Masked for each record: {records.statistic}. Exchanging two records "
            f"between honest parties moves the inputs by {size}{records.distance:.6g}."
            "\n"
        )
    click.echo(str(found))


def _print_planner_page_address(
    listen: str, spec: str | None, given: dict[str, Any]
) -> None:
    """Serve the planner page until somebody says to stop."""
    import asyncio

    from veilsum.web import pages  # which says what is missing, if something is

    del pages
    from veilsum.web.planner import planner_address, serve_planner
    from veilsum.web.planning import planner_drawing

    address = planner_address(listen)
    if spec is not None:
        from veilsum.files.graphs import topology_from

        given["drawn"] = planner_drawing(topology_from(spec))

    def opened(url: str) -> None:
        say_on_terminal(f"  open {url}")
        say_on_terminal("  Ctrl-C ends it")

    asyncio.run(serve_planner(address, opened=opened, start=given))


def _parse_graph_option(spec: str | None) -> Topology | str | None:
    """Return the graph a person named; a family keeps its name in the plan."""
    from pathlib import Path

    from veilsum.files.graphs import topology_from

    if spec is None:
        return None
    found = topology_from(spec)
    return found if Path(spec).is_file() else spec


def _record_distance_option(
    columns: str | None,
    response: str | None,
    model: Model | None,
    distance: float | None,
    *,
    intercept: bool,
) -> RecordDistance | None:
    """Return the distance that the ranges give, None where it was given itself."""
    if columns is None and model is None and response is None:
        return None
    if distance is not None:
        raise InvalidInputError(
            "give --distance or --columns with --model, not both",
            code="conflicting-distance-options",
        )
    if columns is None or model is None:
        raise InvalidInputError(
            "a distance from ranges needs --columns and --model; see veilsum plan -h",
            code="columns-or-model-missing",
        )
    from veilsum.privacy.records import record_exchange_distance

    ranges = dict(map(_parse_range_option, columns.split(",")))
    if len(ranges) < len(columns.split(",")):
        raise InvalidInputError(
            "two columns have one name; give each its own", code="duplicate-column"
        )
    answer = _parse_range_option(response)[1] if response is not None else None
    return record_exchange_distance(
        ranges, model=model, response=answer, intercept=intercept
    )


def _parse_range_option(text: str) -> tuple[str, Range]:
    name, *bounds = text.strip().split(":")
    try:
        low, high = map(float, bounds)
    except ValueError:
        raise InvalidInputError(
            f"a range is written NAME:MIN:MAX, as in age:0:100, found {text!r}",
            code="malformed-range",
        ) from None
    return name, (low, high)
