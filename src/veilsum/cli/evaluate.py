"""`veilsum evaluate`: how well known coefficients predict several parties' rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.job import job_options, run

if TYPE_CHECKING:
    from veilsum.questions.evaluate import AnyEvaluationResult
    from veilsum.questions.job_file import JobFile


@click.command("evaluate")
@job_options
def command(*, scenario: Path, driver: str, out: Path | None, as_json: bool) -> None:
    """Say how well known coefficients predict; only sums and counts leave a party.

    The file has [evaluate] and [data]; here all parties are simulated, so the pooled
    rows are evaluated as well, without bins, and the difference shown. Of predicted
    chances there is a figure too with --out, if matplotlib is here.

    \b
    Example:
      veilsum evaluate examples/pima-evaluate.toml
    """
    run(
        *(scenario, "evaluate"),
        driver=driver,
        out=out,
        as_json=as_json,
        draw=_draw,
    )


def _draw(job: JobFile, result: AnyEvaluationResult) -> dict[str, Any]:
    from veilsum.questions.evaluate.bins import ChanceEvaluation
    from veilsum.report.figures import evaluation_figure

    if not isinstance(result, ChanceEvaluation):
        return {}
    title = job.title.partition("\n")[0]
    return {"evaluation": evaluation_figure(result, title)}
