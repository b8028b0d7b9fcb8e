"""The built site as a person opens it: every page, on a desk and on a telephone."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from browser import CHROMIUM, SCHEMES, WIDTHS, opened

ROOT = Path(__file__).parents[2]
MOST = 500_000  # bytes of a page with its pictures
SHARED = 300_000  # of the theme's script and styles, which are loaded once for all
LEAST_TEXT = 9  # pixels of a figure's ten-point text, at any width
DPI = 150  # at which figures are drawn
pytestmark = pytest.mark.slow

# What is wider than the window and does not scroll in a box of its own.
STICKS_OUT = """() => [...document.querySelectorAll('.md-content *')].filter(one => {
    if (one.getBoundingClientRect().right <= window.innerWidth + 1) return false;
    for (let box = one; box; box = box.parentElement)
        if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(box).overflowX))
            return false;
    return true;
}).map(one => one.outerHTML.slice(0, 100))"""
WRAPPED = """() => [...document.querySelectorAll('pre > code')].filter(
    one => getComputedStyle(one).whiteSpace !== 'pre').length"""
FIGURES = """() => [...document.querySelectorAll('.md-content img[src$=".png"]')].map(
    one => [one.getAttribute('src'), one.clientWidth, one.naturalWidth])"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The documentation, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    subprocess.run([*mkdocs, "-d", str(folder)], cwd=ROOT, check=True)
    (folder / "404.html").unlink()  # its addresses are those of a server
    return folder


def pages_of(site):
    return sorted(site.rglob("*.html"))


def weight(files):
    return sum(one.stat().st_size for one in files)


def test_a_page_and_all_that_it_loads_is_small(site):
    """Nothing but files of the site is loaded, and their sizes add up to little."""
    assert len(pages_of(site)) > 60
    for page in pages_of(site):
        text = page.read_text("utf-8")
        loaded = re.findall(r'<(?:script|img)[^>]*\ssrc="([^"]+)"', text)
        loaded += re.findall(r'<link rel="(?:stylesheet|icon)" href="([^"]+)"', text)
        files = {page}
        for address in loaded:
            parts = urlsplit(address)
            assert not parts.netloc, (page, address)
            if parts.scheme != "data":
                files.add((page.parent / unquote(parts.path)).resolve())
        shared = {one for one in files if one.suffix in {".css", ".js"}}
        assert weight(shared) < SHARED
        assert weight(files - shared) < MOST, page.relative_to(site)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_opens_without_a_fault_and_fits_its_window(site, width, scheme):
    pages = pages_of(site)
    with opened(pages[0], width=width, scheme=scheme) as seen:
        for page in pages:
            seen.page.goto(page.as_uri())
            name = str(page.relative_to(site))
            assert seen.too_wide == 0, name
            assert seen.page.evaluate(STICKS_OUT) == [], name
            assert seen.page.evaluate(WRAPPED) == 0, name
            for source, shown, drawn in seen.page.evaluate(FIGURES):
                text = 10 * shown / (drawn * 72 / DPI)
                assert text >= LEAST_TEXT, (name, source, text)
            assert (seen.errors, seen.outside) == ([], []), name
