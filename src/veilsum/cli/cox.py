"""`veilsum cox`: a Cox regression over several parties' tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.job import job_options, run

if TYPE_CHECKING:
    pass


@click.command("cox")
@job_options
def command(*, scenario: Path, driver: str, out: Path | None, as_json: bool) -> None:
    """Fit the Cox regression that a scenario file describes; only sums leave a party.

    The file has a [cox] and [data]; here all parties are simulated, so that the fit
    without masks is computed as well, and the difference shown.

    \b
    Example:
      veilsum cox examples/cox.toml
    """
    run(scenario, "cox", driver=driver, out=out, as_json=as_json)
