"""`veilsum meta`: a meta-analysis of fits that every party makes at home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.job import job_options, run

if TYPE_CHECKING:
    pass


@click.command("meta")
@job_options
def command(*, scenario: Path, driver: str, out: Path | None, as_json: bool) -> None:
    """Pool a coefficient that every party fits at home; no party's own is shown.

    The file has a [meta] and [data]; here all parties are simulated, so the analysis
    without masks is computed as well, and the difference shown.

    \b
    Example:
      veilsum meta examples/sleep-meta.toml
    """
    run(scenario, "meta", driver=driver, out=out, as_json=as_json)
