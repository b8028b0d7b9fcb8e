"""`veilsum dispatch`: the price that balances private demands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from veilsum.cli.job import job_options, run
from veilsum.cli.output import console

if TYPE_CHECKING:
    from veilsum.jobs.dispatch import DispatchResult
    from veilsum.jobs.job_file import JobFile


@click.command("dispatch")
@job_options
def command(*, scenario: Path, driver: str, out: Path | None, as_json: bool) -> None:
    """Find the price at which generators meet demands that stay private.

    \b
    Example:
      veilsum dispatch examples/dispatch30.toml
    """
    run(scenario, "dispatch", driver=driver, out=out, as_json=as_json, show=_show)


def _show(job: JobFile, result: DispatchResult) -> None:
    del job
    screen = console()
    screen.print(escape(result.summary()))
    screen.print(f"the pooled price is {result.reference:.8g}")
