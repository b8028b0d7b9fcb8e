"""`veilsum survival`: Kaplan-Meier curves over several parties' tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.job import job_options, run

if TYPE_CHECKING:
    from veilsum.questions.job_file import JobFile
    from veilsum.questions.survival import SurvivalResult


@click.command("survival")
@job_options
@click.option(
    "--life-table",
    is_flag=True,
    help="Show life tables: censored rows are at risk for half of their interval.",
)
def command(
    *,
    scenario: Path,
    driver: str,
    out: Path | None,
    as_json: bool,
    life_table: bool,
) -> None:
    """Estimate survival curves and compare groups; only counts leave a party.

    The file has [survival] and [data]; here all parties are simulated, so the pooled
    rows' own curves are computed as well, and the difference shown, which is what the
    agreed times leave out. With --out there is a figure too, if matplotlib is here.

    \b
    Example:
      veilsum survival examples/gbsg2.toml
    """
    run(
        *(scenario, "survival"),
        driver=driver,
        out=out,
        as_json=as_json,
        asked={"life_table": life_table},
        draw=partial(_draw, life_table=life_table),
    )


def _draw(job: JobFile, result: SurvivalResult, *, life_table: bool) -> dict[str, Any]:
    from veilsum.report.figures import survival_figure

    title = job.title.partition("\n")[0]
    return {"survival": survival_figure(result, title, life_table=life_table)}
