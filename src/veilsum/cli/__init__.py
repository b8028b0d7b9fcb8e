"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys

from veilsum.errors import installing


def main() -> None:
    """Run the `veilsum` command."""
    try:
        from veilsum.cli.app import app

        app()
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"click", "rich"}:
            raise
        sys.exit(f"Error: the command line needs {missing}: {installing('cli')}")
