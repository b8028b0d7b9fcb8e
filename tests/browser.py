"""Pages as a person opens them: headless Chromium, at two widths, light and dark.

A test that wants it has `from browser import opened` and is skipped, with a word, where
there is no Chromium. Nothing is fetched: whatever a page asks of another host is
refused and counted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Seen:
    """What happened while a page was open.

    Attributes:
        page: Playwright's.
        errors: what the console said, and what scripts raised.
        outside: addresses that the page asked for, beyond its own files and server.
    """

    page: Any
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    @property
    def too_wide(self) -> int:
        """By how many pixels the page is wider than the window."""
        script = "() => document.documentElement.scrollWidth - window.innerWidth"
        return max(0, self.page.evaluate(script))


def opened(path: Path, *, width: int = 1280, scheme: str = "light") -> Any:
    """Open a file in a browser; skip the test where there is none."""
    return opened_at(path.resolve().as_uri(), width=width, scheme=scheme)


@contextmanager
def opened_at(url: str, *, width: int = 1280, scheme: str = "light") -> Iterator[Seen]:
    """Open an address in a browser; what its own server has is not outside.

    Nothing is waited for but the page itself: a page that is told of events never ends.
    """
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine to open the page with")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        seen = Seen(context.new_page())
        own = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}/"

        def answer(route: Any) -> None:
            if route.request.url.startswith((own, "file:", "data:", "blob:")):
                route.continue_()
            else:
                seen.outside.append(route.request.url)
                route.abort()

        context.route("**/*", answer)
        seen.page.on(
            "console",
            lambda said: seen.errors.append(said.text) if said.type == "error" else 0,
        )
        seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
        seen.page.goto(url)
        yield seen
        browser.close()
