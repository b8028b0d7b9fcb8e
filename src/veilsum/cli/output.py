"""Output of commands: strict JSON for programs, tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.errors import printable
from veilsum.locale import catalogue_languages

if TYPE_CHECKING:  # a result that is plain text does without rich
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_GRAPH: dict[str, Any] = {
    "metavar": "SPEC|FILE",
    "help": "A family such as complete:5, or an edge list, GraphML or JSON file.",
}
graph_option = click.option("--graph", "spec", required=True, **_GRAPH)
optional_graph_option = click.option("--graph", "spec", **_GRAPH)
# Spelt out: importing them would load numpy for --help.
LAWS = ("none", "gaussian", "lattice", "uniform")
long_option = click.option(
    "--long",
    is_flag=True,
    help="Explain every number and every rule of the page; in English.",
)
language_option = click.option(
    "--language",
    type=click.Choice(catalogue_languages("page")),
    default="en",
    show_default=True,
    help="Language of the page; the file's own words and refusals stay as they are.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON only.")
log_option = click.option(
    "--log",
    "style",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="How events are written to standard error.",
)
on_option = click.option(
    "--on",
    metavar="WHERE",
    help="Who shares the work: processes:N, threads:N, ray:N, ray:HOST:PORT or "
    "ray://HOST:PORT. The result does not depend on it.",
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The same seed gives the same numbers.",
)


class _FilePath(click.Path):
    """A path that says something: an empty one would be the current folder."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        if value == "":
            self.fail(
                "expected a path, found nothing; the current folder is .", param, ctx
            )
        return super().convert(value, param, ctx)


FILE = _FilePath(path_type=Path)


def message_on_screen(message: str) -> str:
    """Return a message in which a terminal finds nothing to obey, line by line.

    It may quote a file or a table that somebody else wrote.
    """
    return "\n".join(map(printable, message.split("\n")))


def print_json(data: Any) -> None:
    from veilsum.files.output import as_strict_json

    click.echo(as_strict_json(data))


def terminal_console() -> Console:
    return _terminal_screen_class()(highlight=False, emoji=False)


@cache
def _terminal_screen_class() -> type[Console]:
    from rich.console import Console

    class Screen(Console):
        """A console to which no text of a file can give orders."""

        def render_str(self, text: str, **options: Any) -> Text:
            """Return text to print; what cannot be seen is written as its code."""
            return super().render_str(message_on_screen(text), **options)

    return Screen


def terminal_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a plain table; the first column is text, the rest are figures."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    for position, column in enumerate(columns):
        made.add_column(column, justify="left" if position == 0 else "right")
    for row in rows:
        made.add_row(*row)
    return made


def say_on_terminal(message: str) -> None:
    """Tell a person something that is not the result."""
    click.echo(message_on_screen(message), err=True)
