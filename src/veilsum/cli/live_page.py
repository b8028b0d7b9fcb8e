"""Option `--page` of `serve` and `status`: a live page of runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from veilsum.cli.app import BadInput
from veilsum.cli.output import say_on_terminal

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--page",
        metavar="[HOST:PORT]",
        is_flag=False,
        flag_value="127.0.0.1:8471",
        help="Show the runs on a page in a browser, as they go; at 127.0.0.1:8471 if "
        "not said. The printed address has a token, kept as page.token beside the "
        "runs.",
    ),
    click.option(
        "--page-open",
        is_flag=True,
        help="Let --page be at an address that other computers reach. Whoever has the "
        "printed address then sees every run, reason and report, and so does whoever "
        "is on the way: it is plain HTTP.",
    ),
)


def page_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@contextmanager
def shown_page(
    folder: Path, place: str | None, *, opened: bool, style: str = "text"
) -> Iterator[None]:
    """Show the runs in a folder, and the log of this process, where one is wanted."""
    if place is None:
        if opened:
            raise BadInput("--page-open is about a page: add --page HOST:PORT")
        yield
        return
    from veilsum.cli.join import ForPeople
    from veilsum.report.run_report import report_of_run
    from veilsum.web.live import TOKEN_FILE, LiveServer, LogLines, live_page_address

    def content(out: Path, receipts: Sequence[Path]) -> bytes:
        return report_of_run(out, receipts=receipts).content

    log, lines = logging.getLogger("veilsum.net"), LogLines(ForPeople())
    address = live_page_address(place, opened=opened)
    with LiveServer(address, folder, content, lines) as shown:
        log.addHandler(lines)
        try:
            if style == "json":  # logs are collected, and the token is its owner's
                about = {"address": str(shown.address), "token": TOKEN_FILE}
                log.info("page", extra=about)
            else:
                say_on_terminal(f"  the page is at {shown.url}")
            yield
        finally:
            log.removeHandler(lines)
