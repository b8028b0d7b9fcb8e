"""Histories of real processes: written as things happen, read back for the checker."""

from __future__ import annotations

import os
import signal
import time

import msgspec
import numpy as np

from rules import broken_rules
from veilsum.drivers.loopback import LoopbackEvent, LoopbackWorld
from veilsum.masks.masking import SystemStreams
from veilsum.numbers.limbs import is_wide_integer_type, limb_type
from veilsum.protocol.effects import Abort, Deliver, Emission, Finish, Persist

# Between any two of these a process may die; a batch of writes is one of them.
POINTS = {"written", "send", "charge", "deliver", "finish", "abort", "receive"}


class Recorder:
    """Appends events to a file, and kills its own process after so many of them."""

    def __init__(self, path, party, kill_after=0):
        self._file = path.open("ab", buffering=0)
        self._party, self._left = party, kill_after  # or the event that is the last

    def __call__(self, what, detail, peer):
        if what == "settimer":
            return
        event = [time.monotonic(), self._party, what, _packed(what, detail), peer]
        frame = msgspec.msgpack.encode(event)
        self._file.write(len(frame).to_bytes(4, "big") + frame)
        if self._is_over(what):
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_over(self, what):
        if isinstance(self._left, str):
            return what == self._left
        if what not in POINTS or not self._left:
            return False
        self._left -= 1
        return self._left == 0


def _packed(what, detail):
    match detail:
        case Persist():
            return [detail.key, detail.value]
        case Emission():
            return [detail.epoch, detail.parties, _numbers(detail.masked)]
        case Deliver():
            return [detail.index, _numbers(detail.total)]
        case Finish():
            return [_numbers(detail.result), detail.parties, detail.signatures]
        case Abort():
            return [detail.reason, detail.detail]
    return detail


def _numbers(array):
    if array.dtype == object:
        return ["o", [str(one) for one in array]]
    if is_wide_integer_type(array):
        return ["l", array.dtype.itemsize // 8, array.tobytes()]
    return [array.dtype.str, array.tobytes()]


def _array(packed):
    kind, *more, content = packed
    if kind == "o":
        return np.array([int(one) for one in content], dtype=object)
    return np.frombuffer(content, dtype=limb_type(*more) if kind == "l" else kind)


def _unpacked(what, detail):
    match what:
        case "persist":
            return Persist(*detail)
        case "charge":
            return Emission(detail[0], tuple(detail[1]), _array(detail[2]))
        case "deliver":
            return Deliver(detail[0], _array(detail[1]))
        case "finish":
            return Finish(_array(detail[0]), tuple(detail[1]), detail[2])
        case "abort":
            return Abort(*detail)
    return detail


def read_history(path):
    content, found, at = path.read_bytes(), [], 0
    while at + 4 <= len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        time_, party, what, detail, peer = msgspec.msgpack.decode(
            content[at + 4 : at + 4 + size]
        )
        found.append(LoopbackEvent(time_, party, what, _unpacked(what, detail), peer))
        at += 4 + size
    return found


def world_of(plan, works, paths):
    """A world that has seen what the processes have, as the checker reads it."""
    world = LoopbackWorld(plan, works, SystemStreams())
    events = [event for path in paths for event in read_history(path)]
    world.history = sorted(events, key=lambda event: event.time)
    for event in world.history:
        if event.what == "finish":
            world.finished[event.party] = event.detail
        elif event.what == "abort":
            world.aborted[event.party] = event.detail
    return world


def broken(plan, works, paths):
    return broken_rules(world_of(plan, works, paths))
