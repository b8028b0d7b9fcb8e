"""`veilsum stats`: descriptive statistics over several parties' tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.job import job_options, run

if TYPE_CHECKING:
    from veilsum.jobs.job_file import JobFile
    from veilsum.jobs.statistics import StatisticsResult


@click.command("stats")
@job_options
@click.option("--by", help="Describe and compare the groups of this column.")
def command(
    *, scenario: Path, driver: str, out: Path | None, as_json: bool, by: str | None
) -> None:
    """Count, average and cross-tabulate all parties' rows; only sums leave a party.

    The file has [statistics] and [data]; here all parties are simulated, so the pooled
    means are computed as well, and the difference shown.

    \b
    Example:
      veilsum stats examples/wages.toml
      veilsum stats examples/table1.toml --by arm
    """
    run(
        scenario,
        "statistics",
        driver=driver,
        out=out,
        as_json=as_json,
        show=_show,
        instead={} if by is None else {"by": by},
    )


def _show(job: JobFile, result: StatisticsResult) -> None:
    del job
    click.echo(result.summary())
    if result.max_error is not None:
        click.echo(f"\ndifference from the pooled means: {result.max_error:.3g}")
