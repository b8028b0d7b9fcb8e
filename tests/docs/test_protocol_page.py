"""The page about the protocol shows the table that machines walk."""

from pathlib import Path

from phase_diagram import phase_diagram
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import MESSAGES, Quit, Record

PAGE = (Path(__file__).parents[2] / "docs/theory/protocol.md").read_text("utf-8")


def test_the_diagram_is_drawn_from_the_table():
    assert f"```mermaid\n{phase_diagram(Machine.table.values())}\n```" in PAGE


def test_every_phase_has_its_line():
    for one in Machine.table.values():
        plain = PAGE.replace("`", "")
        assert f"| {one.source} | {one.waits_for} |" in plain


def test_every_reason_and_every_signed_record_is_named():
    for reason in Quit.reasons:
        assert f"`{reason}`" in PAGE
    for kind in MESSAGES:
        if issubclass(kind, Record):
            assert f"`{kind.__name__}`" in PAGE
