"""A page shows text as text, whatever it says, and asks nobody for anything."""

import base64
import re

import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from markup import Tags
from veilsum import page as pages
from veilsum.errors import printable
from veilsum.page import (
    MOST_LETTERS,
    MOST_ROWS,
    PageHtml,
    commands,
    facts,
    figure,
    folded,
    html,
    listing,
    notice,
    page,
    paragraph,
    section,
    shown,
    table,
    tag,
    unfolded,
)
from veilsum.showing import Rendering, ShownBothWays, ShownTable

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title><script src=//evil.test></script>",
    "<!-- -->]]><style>@import url(//evil.test)</style>",
    "javascript:alert(1)",
    "&lt;script&gt;",
    "\u202eknil\u202c\x00\x1b[31m",
)


def everywhere(text):
    """A page with a text in every place that takes one."""
    return page(
        text,
        section(
            text,
            paragraph(text),
            notice(text, bad=True),
            listing([text]),
            commands(text),
            facts([(text, text)]),
            table([text], [[text]], caption=text),
            figure(SVG, alt=text, caption=text),
            folded(text, text),
            tag("p", text, title=text),
            shown(
                Rendering(
                    text, [text, ShownTable([text], [[text]], text)], {text: [text]}
                )
            ),
        ),
        lead=[text],
        contents=text,
    ).decode()


PLAIN = Tags(everywhere("plain"))


@each("text", HOSTILE)
def test_no_text_becomes_a_tag_or_an_attribute(text):
    found = Tags(everywhere(text))
    assert found.tags == PLAIN.tags
    names = [(one, name) for one, name, _ in found.attributes]
    assert names == [(one, name) for one, name, _ in PLAIN.attributes]
    links = [v for one, name, v in found.attributes if name in ("href", "src")]
    assert all(
        one.startswith(("#part-", "data:image/svg+xml;base64,")) for one in links
    )


@each("text", HOSTILE)
def test_a_title_below_every_page_ends_no_text_and_no_style(text):
    style = everywhere(text).partition("<style>")[2].partition("</style>")[0]
    *_, foot = style.splitlines()
    found = re.fullmatch(r'@page \{ @bottom-left \{ content: "([^"]*)"; [^<"]*', foot)
    assert re.fullmatch(r"([A-Za-z0-9]|\\[0-9a-f]{6})*", found[1])
    assert len(re.sub(r"\\[0-9a-f]{6}", "x", found[1])) <= pages.MOST_FOOT


@pytest.mark.parametrize("text", HOSTILE[:2])
def test_twin_a_page_that_trusts_text_has_other_tags(text, monkeypatch):
    monkeypatch.setattr(pages, "safe_for_html", lambda one: one)
    assert Tags(everywhere(text)).tags != PLAIN.tags


@settings(max_examples=50)
@given(st.text(max_size=30))
def test_any_text_is_read_as_it_was_written(text):
    made = Tags(str(tag("p", text)))
    assert set(made.tags) <= {"p", "bdi"}
    assert "".join(made.text) == printable(text)


def test_what_cannot_be_seen_is_written_out_and_hebrew_turns_nothing_around():
    assert html("a\u202eb\u200f\x07") == "a\\u202eb\\u200f\\x07"
    assert html("ward \u05d0\u05d1 3 of 5") == "ward <bdi>\u05d0\u05d1</bdi> 3 of 5"


def test_a_text_and_a_table_end_somewhere_and_that_is_said():
    long = html("x" * (MOST_LETTERS + 7))
    assert long.endswith("... and 7 letters more")
    rows = [[str(k)] for k in range(MOST_ROWS + 2)]
    made = table(["k"], rows)
    assert made.count("<td") == MOST_ROWS
    assert "and 2 more rows" in made


def test_columns_of_numbers_end_alike():
    made = table(["name", "p", "n"], [["a", "0.5", "1,200"], ["b", "-", "3"]])
    assert made.count('<td class="number">') == 4
    assert "number" not in table(["name"], [])


def test_a_page_forbids_everything_and_needs_nothing():
    made = everywhere("plain")
    (policy,) = re.findall('Content-Security-Policy" content="([^"]*)"', made)
    assert policy.startswith("default-src 'none'; ")
    assert not re.search(r"https?://", made.replace("http://www.w3.org/2000/svg", ""))
    assert "<script" not in made


def test_what_is_folded_is_open_on_paper_and_text_about_it_stays():
    made = page("t", section("s", folded("more", "inside"), paragraph("<details>")))
    assert unfolded(made).count(b"<details open>") == 1
    assert b"&lt;details&gt;" in unfolded(made)


def test_a_result_shows_itself_on_a_page():
    showing = Rendering(
        "4 < 5",
        ["From sums.", ShownTable(("a", "b"), [("x", 1.5), ("y", None)])],
        {"Limits": ["one"], "Nothing": []},
    )
    made = shown(showing.also(ShownBothWays("text", "<b>made elsewhere</b>")))
    assert "4 &lt; 5" in made
    assert "<b>made elsewhere</b>" in made
    assert made.count("<details>") == 1
    assert isinstance(made, PageHtml)


def test_a_drawing_is_an_image():
    made = figure(SVG, alt="a drawing")
    (held,) = re.findall('base64,([^"]*)', made)
    assert base64.b64decode(held) == SVG
