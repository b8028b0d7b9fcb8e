"""Pages as a person opens them: headless Chromium, at two widths, light and dark.

A test that wants it has `from browser import opened` and is skipped, with a word, where
there is no Chromium. Nothing is fetched: whatever a page asks of another host is
refused and counted.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
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


@contextmanager
def chromium() -> Iterator[Any]:
    """One browser for many pages; skip the tests where there is none.

    Until its end no other event loop can run in this thread.
    """
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine to open the page with")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def visited(browser: Any, address: str, host: str = "", **options: Any) -> Seen:
    """Open a page in a context of its own, which may speak to one host alone."""
    options = {"locale": "en-GB", "viewport": {"width": 1280, "height": 900}, **options}
    return tab(browser.new_context(**options), address, host or address)


def tab(context: Any, address: str, host: str) -> Seen:
    """Open one more tab of the same browser window."""
    seen = Seen(context.new_page())
    return _gone_to(address, seen, host, seen.page.route)


@contextmanager
def opened(path: Path, *, width: int = 1280, scheme: str = "light") -> Iterator[Seen]:
    """Open a file in a browser; skip the test where there is none."""
    with (
        chromium() as browser,
        opened_at(browser, path.resolve().as_uri(), width=width, scheme=scheme) as seen,
    ):
        yield seen


@contextmanager
def opened_at(
    browser: Any, url: str, *, width: int = 1280, scheme: str = "light"
) -> Iterator[Seen]:
    """Open an address; what its own server has is not outside.

    Tabs that the page opens are looked at, too.
    """
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    parts = urlsplit(url)
    own = f"{parts.scheme}://{parts.netloc}/"
    yield _gone_to(url, Seen(context.new_page()), own, context.route)
    context.close()


def _gone_to(url: str, seen: Seen, host: str, watch: Callable[..., None]) -> Seen:
    """Nothing is waited for but the page: one that is told of events never ends."""

    def answer(route: Any) -> None:
        if route.request.url.startswith((host, "file:", "data:", "blob:")):
            route.continue_()
        else:
            seen.outside.append(route.request.url)
            route.abort()

    watch("**/*", answer)
    seen.page.on(
        "console",
        lambda said: seen.errors.append(said.text) if said.type == "error" else 0,
    )
    seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
    seen.page.goto(url)
    return seen
