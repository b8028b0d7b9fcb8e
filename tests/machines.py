"""Machines stopped at a moment of a run, and a picture of their whole state.

Machines hold secrets and refuse to be copied, so the picture is taken by walking
through everything they refer to.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from itertools import count

import msgspec
import numpy as np

from veilsum.drivers.loopback import SimulatedKeys
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import GaussianMasks, LatticeMasks, UniformMasks
from veilsum.protocol.book import ProtocolKeys
from veilsum.protocol.codec import Codec
from veilsum.protocol.machine import Machine
from veilsum.protocol.plan import ProtocolPlan

# Agreed before the run, or without a state of their own.
LAWS = (GaussianMasks, LatticeMasks, UniformMasks)
FIXED = (ProtocolPlan, Topology, Codec, SimulatedKeys, *LAWS)
PLAIN = (str, bytes, int, float, bool, type(None), type)


def picture(value):
    """Return all that a value holds, as plain values that compare."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, tuple(value.ravel().tolist()))
    if isinstance(value, dict):
        return {picture(k): picture(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return tuple(picture(one) for one in value)
    if isinstance(value, set | frozenset):
        return frozenset(picture(one) for one in value)
    return _picture_of_object(value)


def _picture_of_object(value):
    if isinstance(value, FIXED) or callable(value):
        return id(value)
    if isinstance(value, count):
        return repr(value)
    if isinstance(value, msgspec.Struct):
        held = {name: getattr(value, name) for name in value.__struct_fields__}
    elif is_dataclass(value) and not hasattr(value, "__dict__"):
        held = {one.name: getattr(value, one.name) for one in fields(value)}
    else:
        held = {k: v for k, v in vars(value).items() if k not in CACHED | COUNTED}
    return (type(value).__name__, {k: picture(v) for k, v in held.items()})


# What is computed from the rest the first time somebody asks.
CACHED = {"neighbours", "weights", "tree", "parent", "children", "_known"}
# What was refused is counted, and changes nothing else.
COUNTED = {"faults", "in_vain", "_refused", "_wasted"}


class Stopped(Exception):
    """The run has come to the moment that was asked for."""


class Watched(Machine):
    """A machine that stops the run when it has reached a phase."""

    until: tuple[str, str] | None = None

    def receive(self, sender: str, frame: bytes):
        if (self.me, self.phase) == self.until:
            raise Stopped
        return super().receive(sender, frame)


def stopped_at(setting, party, phase, faults=None):
    """Return a world in which a party has just reached a phase, and has frames to come.

    The frame that stopped the run is lost; others are still in flight.
    """
    make = type("Watched", (Watched,), {"until": (party, phase)})
    world = setting.world(faults, make=make)
    try:
        world.run()
    except Stopped:
        make.until = None
        return world
    raise AssertionError(f"{party!r} never was {phase}")


def keys_of(world, party) -> ProtocolKeys:
    """Return a party's keys, to sign with what it never signed."""
    return world.nodes[party].machine._keys


def sealed(world, record, by=None):
    """Return a record as its author would sign it, or as somebody else would."""
    machine = getattr(world.nodes.get(record.party), "machine", None)
    if machine is not None and record.incarnation == bytes(16):
        start = machine._book.start
        record = msgspec.structs.replace(record, incarnation=start)
    digest = Codec(10**6).content_digest(record)
    signed = b"veilsum record\0" + world.plan.digest + digest
    signature = keys_of(world, by or record.party).sign(signed)
    return msgspec.structs.replace(record, signature=signature)


def join_frame(world, name):
    """Return the frame in which a party joined."""
    book = world.nodes[name].machine._book
    return book.frame(book.joins[name].id)


def changed(phase, **parts):
    """Return the table of a machine that is wrong in one line of it."""
    return {**Machine.table, phase: replace(Machine.table[phase], **parts)}
