"""`veilsum mixed`: a mixed model over several parties' tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.job import job_options, run

if TYPE_CHECKING:
    pass


@click.command("mixed")
@job_options
def command(*, scenario: Path, driver: str, out: Path | None, as_json: bool) -> None:
    """Fit a regression whose coefficients differ between parties, as lme4 does.

    The file has a [mixed] and [data]; here all parties are simulated, so the fit
    without masks is computed as well, and the difference shown.

    \b
    Example:
      veilsum mixed examples/sleep.toml
    """
    run(scenario, "mixed", driver=driver, out=out, as_json=as_json)
