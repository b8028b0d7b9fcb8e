"""`veilsum stats`: descriptive statistics over several parties' tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.job import job_options, run

if TYPE_CHECKING:
    from veilsum.questions.job_file import JobFile
    from veilsum.questions.statistics import StatisticsResult


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
      veilsum stats examples/table1.toml --by malignant --out out/table1
    """
    run(
        scenario,
        "statistics",
        driver=driver,
        out=out,
        as_json=as_json,
        instead={} if by is None else {"by": by},
        draw=_drawn,
    )


def _drawn(job: JobFile, result: StatisticsResult) -> dict[str, Any]:
    """Return boxes of quantiles, and tables of two columns of which one has bins."""
    from veilsum.report.figures import boxes_figure, counts_figure

    del job
    found: dict[str, Any] = {}
    n_rows = f"{result.count} rows of {len(result.released.members)} parties"
    for name, of_all in result.quantiles.items():
        groups = {"all": of_all}
        if (by := result.wishes.by) is not None:
            parts = result.groups.quantiles[name][1:]
            groups |= dict(
                zip((f"{by.column} = {one}" for one in by.labels), parts, strict=True)
            )
        found[f"boxes_{len(found) + 1}"] = boxes_figure(groups, name, n_rows)
    for names, axes in result.wishes.tables.items():
        if len(axes) == 2 and any(one.bins is not None for one in axes):
            labels = axes[0].labels, axes[1].labels
            drawn = counts_figure(
                result.tables[names], (names[0], names[1]), labels, n_rows
            )
            found[f"counts_{len(found) + 1}"] = drawn
    return found
