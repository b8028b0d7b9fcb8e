"""Results show themselves: the answer first, at 80 columns, and nothing is obeyed."""

import re

import pytest
from hypothesis import given, strategies as st

import veilsum as vs
from browser import opened
from refusals import refused
from veilsum.errors import MissingExtraError, is_seen
from veilsum.showing import (
    Renderable,
    Rendering,
    ShownBothWays,
    ShownTable,
    terminal_width,
)

PARTIES = {"a": [1, 2], "b": [3, 4], "c": [5, 6], "d": [0, 0]}
SCRIPT = "<script>alert(1)</script>"
TEXTS = st.text(max_size=60)
CELLS = st.one_of(st.none(), st.integers(), st.floats(), TEXTS)


@st.composite
def tables(draw):
    columns = draw(st.integers(1, 9))
    rows = st.lists(CELLS, min_size=columns, max_size=columns)
    heads = draw(st.lists(TEXTS, min_size=columns, max_size=columns))
    return ShownTable(heads, draw(st.lists(rows, max_size=4)), title=draw(TEXTS))


@given(tables())
def test_every_cell_of_a_table_is_shown_and_nothing_is_obeyed(table):
    lines = table.text(78).split("\n")
    assert all(map(is_seen, lines))
    html = table.html()
    tags = set(re.findall(r"</?(\w+)", html))
    assert tags <= {"p", "div", "table", "thead", "tbody", "tr", "th", "td"}
    assert html.count("<td") == len(table.rows) * len(table.headers)


def test_a_wide_table_comes_in_parts_that_hold_at_80_columns():
    heads = ["name", *(f"column {k}" for k in range(20))]
    rows = [[f"row {i}", *(f"cell {i}-{k}" for k in range(20))] for i in range(3)]
    lines = ShownTable(heads, rows).text(78).split("\n")
    assert max(map(terminal_width, lines)) <= 78
    for cell in [*heads[1:], *(one for row in rows for one in row[1:])]:
        assert sum(cell in re.split(r"  +", line) for line in lines) == 1
    assert sum(line.startswith("row 1 ") for line in lines) > 1  # in every part


def test_a_sentence_in_the_last_column_is_wrapped_there():
    said = "what was found is said in a sentence that is longer than a line " * 2
    lines = ShownTable(("name", "count", "said"), [("a", 3, said)]).text(78).split("\n")
    assert max(map(len, lines)) <= 78
    assert " ".join(line[13:].strip() for line in lines[2:]) == said.strip()


def test_what_is_folded_is_named_printed_and_folded():
    shown = Rendering("Four.", ["It rests on this."], {"Limits": ["One.", "Two."]})
    assert shown.text(whole=False).split("\n\n") == [
        "Four.",
        "It rests on this.",
        "print() also shows: limits (2)",
    ]
    assert shown.text().endswith("Limits:\n  One.\n  Two.")
    assert "<details" in shown.html()
    assert shown.html().index("Four.") < shown.html().index("<details")


def test_a_page_loads_nothing_and_brings_no_colour_of_its_own():
    html = Rendering(
        "A", [ShownTable(("a", "b"), [("x", 1.5)])], {"More": ["b"]}
    ).html()
    assert not re.search(r"src=|href=|url\(|https?:|<style|<script|#[0-9a-f]{3}", html)
    assert set(re.findall(r"color:(\w+)", html)) == {"inherit"}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_wide_table_scrolls_in_its_own_box_on_a_telephone(tmp_path, scheme):
    wide = ShownTable([f"column {k}" for k in range(20)], [[1.5] * 20])
    html = Rendering("A" * 200, [wide, ("b" * 300,)], {"More": ["c" * 300]}).html()
    page = tmp_path / "page.html"
    page.write_text(
        '<!doctype html><meta name="viewport" content="width=device-width">'
        f'<meta name="color-scheme" content="light dark">{html}'
    )
    with opened(page, width=390, scheme=scheme) as seen:
        colour = "(e) => getComputedStyle(document.querySelector(e)).color"
        box = "() => document.querySelector('table').parentElement"
        assert seen.too_wide == 0
        assert (seen.errors, seen.outside) == ([], [])
        assert seen.page.evaluate(f"{box}.scrollWidth > 390")
        assert seen.page.evaluate(colour, "td") == seen.page.evaluate(colour, "body")


def test_the_sum_is_the_first_thing_that_is_seen_of_a_sum():
    found = vs.sum(PARTIES, seed=1)
    assert repr(found).split("\n")[0] == "Sum over 4 parties: 9, 12"
    html = vs.mean(PARTIES, seed=1)._repr_html_()
    assert "<p><strong>Average over 4 parties: 2.25, 3</strong>" in html
    assert "sees no difference between inputs" in repr(found).replace("\n", " ")


def test_many_numbers_are_a_table_and_the_rest_is_named():
    data = {one: list(range(50)) for one in "abcd"}
    text = repr(vs.sum(data, seed=1, what=SCRIPT))
    assert re.search(r"^39 +156$", text, flags=re.MULTILINE)
    assert "10 more are in .value" in text
    assert SCRIPT not in vs.sum(data, seed=1, what=SCRIPT)._repr_html_()


def test_what_draws_nothing_says_so(monkeypatch):
    monkeypatch.setattr("veilsum.showing.DRAWING", "veilsum.no_such_module")
    with refused("missing-extra", MissingExtraError):
        vs.guarantee(vs.Topology.family("path:3"), sigma=1.0).plot()


def test_both_forms_are_kept_as_they_are():
    shown = Rendering("", [ShownBothWays("a\nb", "<b>c</b>")])
    assert (shown.text(), "<b>c</b>" in shown.html()) == ("a\nb", True)


def test_a_shown_thing_has_to_say_what_it_shows():
    with pytest.raises(NotImplementedError, match="Renderable"):
        repr(Renderable())
