"""Logs of a real party: one line for people, one JSON object for machines."""

import asyncio
import io
import json
import logging

import pytest

from veilsum.cli.join import (
    ForMachines,
    ForPeople,
    log_record_fields,
    set_up_command_logging,
)


@pytest.fixture
def log():
    logs = [logging.getLogger(name) for name in ("veilsum.net", "asyncio")]
    before = [(one.handlers[:], one.propagate, one.level) for one in logs]
    yield logs[0]
    for one, (handlers, propagate, level) in zip(logs, before, strict=True):
        one.handlers[:], one.propagate = handlers, propagate
        one.setLevel(level)


def record(**extra):
    given = {"msg": "connection refused", "levelname": "WARNING", **extra}
    return logging.makeLogRecord(given)


def test_fields_are_what_was_said_beside_the_event():
    assert log_record_fields(record(party="b", reason="late")) == {
        "party": "b",
        "reason": "late",
    }
    assert log_record_fields(record()) == {}


def test_people_read_the_event_and_its_fields():
    text = ForPeople().format(record(party="b", created=86_400.0))
    assert text == "  1970-01-02 00:00:00Z connection refused party=b"


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
    set_up_command_logging(style=style)
    (handler,) = log.handlers
    stream = handler.setStream(io.StringIO()) or handler.stream
    log.info("connected", extra={"party": "b"})
    log.warning("connection refused", extra={"party": "c"})
    lines = handler.stream.getvalue().splitlines()
    assert stream is not None
    assert len(lines) == 1 + shown
    assert "refused" in lines[-1]


def test_setting_up_twice_says_things_once(log):
    set_up_command_logging(style="text")
    set_up_command_logging(style="json")
    assert len(log.handlers) == 1


def test_what_the_event_loop_says_is_an_object_too(log):
    set_up_command_logging(style="json")
    log.handlers[0].setStream(io.StringIO())

    async def stumble():
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "a task\nwas lost"})

    asyncio.run(stumble())
    (line,) = log.handlers[0].stream.getvalue().splitlines()
    assert json.loads(line)["level"] == "error"
    assert json.loads(line)["event"] == "a task\nwas lost"
