"""The command line: parse, call one function, print."""

from __future__ import annotations

import gc
import os
import sys

from veilsum.errors import install_advice
from veilsum.scale import ONE_THREAD

# Objects made since the last collection before the next: modules make many that stay.
YOUNG = 20_000


def main() -> None:
    """Run the `veilsum` command."""
    gc.set_threshold(YOUNG)
    os.environ |= ONE_THREAD | os.environ  # before numpy is loaded
    try:
        from veilsum.cli.app import app

        app()
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"click", "rich"}:
            raise
        sys.exit(f"Error: the command line needs {missing}: {install_advice('cli')}")
    finally:
        gc.freeze()  # the process ends: nothing is worth a last collection
