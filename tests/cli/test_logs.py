"""Logs of a real party: one line for people, one JSON object for machines."""

import io
import json
import logging

import pytest

from veilsum.cli.logs import ForMachines, ForPeople, fields_of, set_up


@pytest.fixture
def log():
    found = logging.getLogger("veilsum.net")
    before = (found.handlers[:], found.propagate, found.level)
    yield found
    found.handlers[:], found.propagate = before[:2]
    found.setLevel(before[2])


def record(**extra):
    given = {"msg": "connection refused", "levelname": "WARNING", **extra}
    return logging.makeLogRecord(given)


def test_fields_are_what_was_said_beside_the_event():
    assert fields_of(record(party="b", reason="late")) == {
        "party": "b",
        "reason": "late",
    }
    assert fields_of(record()) == {}


def test_people_read_the_event_and_its_fields():
    assert ForPeople().format(record(party="b")).split() == [
        *("connection", "refused", "party=b")
    ]


def test_machines_read_one_object_a_line():
    text = ForMachines().format(record(party="b", reason="two\nlines"))
    assert "\n" not in text
    found = json.loads(text)
    assert found.pop("time").endswith("+00:00")
    assert found == {
        "level": "warning",
        "event": "connection refused",
        "party": "b",
        "reason": "two\nlines",
    }


@pytest.mark.parametrize(("style", "shown"), [("text", False), ("json", True)])
def test_events_are_shown_where_they_are_wanted(log, style, shown):
    set_up(style=style)
    (handler,) = log.handlers
    stream = handler.setStream(io.StringIO()) or handler.stream
    log.info("connected", extra={"party": "b"})
    log.warning("connection refused", extra={"party": "c"})
    lines = handler.stream.getvalue().splitlines()
    assert stream is not None
    assert len(lines) == 1 + shown
    assert "refused" in lines[-1]


def test_setting_up_twice_says_things_once(log):
    set_up(style="text")
    set_up(style="json")
    assert len(log.handlers) == 1
