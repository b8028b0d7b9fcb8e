"""`veilsum dispatch`: the price, or prices, that balance private demands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.job import job_options, run

if TYPE_CHECKING:
    from veilsum.questions.dispatch import DispatchResult, PeriodsResult
    from veilsum.questions.job_file import JobFile


@click.command("dispatch")
@job_options
def command(*, scenario: Path, driver: str, out: Path | None, as_json: bool) -> None:
    """Find the price at which generators meet demands that stay private.

    With periods in [dispatch] there is one for each, and ramps and stores tie them.
    With --out there is a figure too, if matplotlib is here.

    \b
    Example:
      veilsum dispatch examples/dispatch30.toml
      veilsum dispatch examples/day.toml
    """
    run(
        *(scenario, "dispatch"),
        driver=driver,
        out=out,
        as_json=as_json,
        asked={"outputs": True},
        draw=_draw,
    )


def _draw(job: JobFile, result: DispatchResult | PeriodsResult) -> dict[str, Any]:
    from veilsum.questions.dispatch import DispatchResult
    from veilsum.report.figures import schedule_figure, supply_figure

    title = job.title.partition("\n")[0]
    if isinstance(result, DispatchResult):
        return {"supply": supply_figure(result, title)}
    return {"schedule": schedule_figure(result, title)}
