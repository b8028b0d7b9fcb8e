"""Pictures on the pages are those that are drawn today."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SLOW = ("paper", "float", "literature")  # 10^5 runs, and more


def made():
    spec = importlib.util.spec_from_file_location("figures", DOCS / "make_figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MADE = made()
MAKERS = [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name in MADE.MAKERS
]


@pytest.mark.usefixtures("unchecked_shapes")  # as the script runs
@pytest.mark.parametrize("maker", MAKERS)
def test_pictures_are_those_that_are_drawn_today(maker):
    """If one fails, run docs/make_figures.py and look at what has changed."""
    assert MADE.stale(maker, mend=False) == []


def test_a_picture_of_other_numbers_would_be_found():
    forest = {
        value: MADE.picture(MADE.coefficients_figure(table(value), [value, 2.0], "two"))
        for value in (1.0, 1.5)
    }
    assert not MADE.changed(forest[1.0], forest[1.0])
    assert MADE.changed(forest[1.5], forest[1.0])


def table(value):
    row = {"standard_error": 0.1, "low": value - 0.2, "high": value + 0.2}
    return [
        {"name": "a", "coefficient": value, **row},
        {"name": "b", "coefficient": 2.0, **row},
    ]


def test_every_picture_on_a_page_has_somebody_who_draws_it():
    drawn_by_hand = {"veil.svg"}
    text = "\n".join(
        one.read_text("utf-8") for one in (*DOCS.rglob("*.md"), ROOT / "README.md")
    )
    shown = set(re.findall(r"assets/([\w/-]+\.(?:png|svg|txt))", text))
    kept = {
        str(one.relative_to(DOCS / "assets"))
        for one in (DOCS / "assets").rglob("*")
        if one.suffix in {".png", ".svg", ".txt"}
    }
    assert kept == shown
    source = (DOCS / "make_figures.py").read_text("utf-8")
    gallery = (DOCS / "gallery.md").read_text("utf-8")
    for name in kept - drawn_by_hand:
        stem = Path(name).stem
        assert f'"{stem}' in source or f'drawn["{stem}"]' in gallery, name
