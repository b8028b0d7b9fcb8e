"""A page as PDF: printed by the Chromium of this computer, where there is one.

The browser gets a folder of its own for what it keeps, and no network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from veilsum.errors import MissingExtraError, OutputError
from veilsum.page import unfolded

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60.0
FLAGS = (
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pdf-header-footer",
    # Whatever it may want to ask for, it finds nobody.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def chromium_for_reports() -> str | None:
    """Return the Chromium of this computer; None if there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def report_pdf(page: bytes) -> bytes:
    """Return a page of HTML as PDF, with everything that is folded open.

    Raises:
        MissingExtraError: there is no browser to print with.
        OutputError: it printed nothing.
    """
    program = chromium_for_reports()
    if program is None:
        raise MissingExtraError(
            "a PDF is printed by Chromium, which is not on this computer: install it, "
            "or write --format html, open the file in any browser and print it there",
            code="missing-browser",
        )
    with TemporaryDirectory(prefix="veilsum-") as place:
        folder = Path(place)
        source, made = folder / "page.html", folder / "page.pdf"
        source.write_bytes(unfolded(page))
        # Chromium's own sandbox refuses to work for root, as in most containers. The
        # page has no script, and its own policy runs none.
        root = hasattr(os, "geteuid") and os.geteuid() == 0
        command = [
            program,
            *FLAGS,
            *(["--no-sandbox"] if root else []),
            f"--user-data-dir={folder / 'profile'}",
            f"--print-to-pdf={made}",
            source.as_uri(),
        ]
        try:
            subprocess.run(  # noqa: S603 - flags of ours, and a folder of ours
                command,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=SECONDS,
            )
            return made.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise OutputError(
                f"{program} did not print the page ({type(error).__name__}): write "
                "--format html, open the file in a browser and print it there",
                code="printing-failed",
            ) from None
