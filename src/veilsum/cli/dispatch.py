"""`veilsum dispatch`: the price that balances private demands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.job import job_options, run
from veilsum.cli.output import console, table

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
    running = {p: float(out.sum()) for p, out in result.outputs.items() if out.size}
    screen = console()
    screen.print(
        table(
            ("party", "generators run"),
            [(party, f"{output:.6g}") for party, output in running.items()],
        )
    )
    screen.print(
        f"\nprice {result.price:.8g}; output less demand {result.balance:.2g}; "
        f"the pooled price is {result.reference:.8g}"
    )
