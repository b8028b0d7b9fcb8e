"""`veilsum fit`: a regression over several parties' tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.job import job_options, run

if TYPE_CHECKING:
    pass


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
    run(scenario, "model", driver=driver, out=out, as_json=as_json)
