"""`veilsum fit`: a regression over several parties' tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.job import job_options, run
from veilsum.cli.output import say

if TYPE_CHECKING:
    from veilsum.jobs.job_file import JobFile
    from veilsum.jobs.regression import FitResult


@click.command("fit")
@job_options
def command(*, scenario: Path, driver: str, out: Path | None, as_json: bool) -> None:
    """Fit the regression that a scenario file describes; only sums leave a party.

    The file has a [model] and [data]; here all parties are simulated, so the pooled fit
    is computed as well, and the difference shown.

    \b
    Example:
      veilsum fit examples/diabetes.toml
      veilsum fit examples/lung.toml --json
    """
    run(scenario, "model", driver=driver, out=out, as_json=as_json, show=_show)


def _show(job: JobFile, result: FitResult) -> None:
    refused = job.refused_by_default()
    if refused:
        say(
            "this file changes minimum_rows; by default these parties would be "
            f"refused: {', '.join(refused)}"
        )
    click.echo(result.summary())
    click.echo(f"\ndifference from the pooled fit: {result.max_error:.3g}")
