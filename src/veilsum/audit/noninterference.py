"""Non-interference: inputs that must look alike give a coalition the same frames.

A promise compares two inputs of the honest parties with equal totals in every sum.
Masks are random, so two runs are compared under masks that belong together: in the
second, honest parties' shares for each other are those that would have been drawn,
moved so that every masked number is what it was in the first. Then all that colluders
receive must be the same, byte for byte, in order and in time, and so must all that
their machines do, and what can be seen of links between others: when frames are sent,
and how long they are.

How far shares move follows from the two inputs alone, not from the shares. Moving is
one to one. It leaves a uniform residue uniform: under `uniform` equal frames for all
masks are equal views. A Gaussian, discrete or real, it moves off its centre: frames are
equal, and how much likelier the one mask was than the other is what epsilon bounds.

Shares move along a spanning tree of each piece of the honest graph, by what all parties
farther out differ by, half of it in each direction of a link: on a tree nothing moves
less. What a piece's totals differ by has nowhere to go, and shows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np

from veilsum.drivers.driver import Driver, DriverAssignment
from veilsum.drivers.faults import Faults
from veilsum.drivers.loopback import Loopback, LoopbackEvent, LoopbackWorld
from veilsum.errors import InvalidInputError, VeilsumError
from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.spreading import spanning_tree
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import MaskLaw, Numbers
from veilsum.masks.masking import MaskStreams
from veilsum.masks.streams import Stream
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import (
    add_wide_integers,
    as_python_integers,
    is_wide_integer_type,
    limbs_from_integers,
    limbs_to_integers,
    subtract_wide_integers,
)
from veilsum.numbers.secrets import Secret
from veilsum.protocol.codec import MalformedMessageError
from veilsum.protocol.effects import Emission, Persist
from veilsum.protocol.messages import Deposit, Masked, Ready, Share
from veilsum.protocol.plan import ProtocolPlan
from veilsum.protocol.work import ProtocolWork

# Runs a job with a driver; what it returns is not looked at.
RunWith: TypeAlias = Callable[[Driver], object]
# By epoch, by who draws a share and by whom it is for, as places in the graph.
Moves: TypeAlias = Mapping[tuple[int, int, int], Array[Any]]

# Shares of float64 are whole numbers of this: sums with others of up to 2^30 are exact,
# as they are in the proof. What low bits say beside that is told in `float_leak`.
STEP = 2.0**-16


@dataclass(frozen=True)
class Interference:
    """Whether two runs looked the same to a coalition.

    Attributes:
        first: the first difference: whose, when and of what kind, without any number of
            a party; None if there is none.
    """

    frames: int
    first: str | None

    @property
    def equal(self) -> bool:
        """Whether nothing was different."""
        return self.first is None


def interference_same_frames(
    run_first: RunWith,
    run_second: RunWith,
    coalition: Collection[str],
    *,
    seed: int = 7,
    faults: Faults | None = None,
) -> Interference:
    """Compare what a coalition meets in two runs that it must not tell apart.

    Both ask the same of the same parties, of whom only honest ones hold other inputs;
    what is chosen afresh for every run, such as its name, must be given to both.

    Args:
        run_first: called with the driver that the job is to be run with.
        run_second: the same, with the other inputs.
        coalition: who looks at all that they have together.
        seed: repeats masks, delays and losses.
        faults: what goes wrong on the way, in both.
    """
    chance: dict[str, Any] = {"seed": seed, "faults": faults or Faults()}
    first = InterferenceDriver(coalition=frozenset(coalition), **chance)
    _run_interference_job(run_first, first)
    second = InterferenceDriver(
        coalition=first.coalition, pattern=first.worlds, **chance
    )
    _run_interference_job(run_second, second)
    met = [one for world in first.worlds for one in first.met(world)]
    again = [one for world in second.worlds for one in second.met(world)]
    frames = sum(one.event.what == "receive" for one in met)
    for one, other in zip_longest(met, again):
        if one is None or other is None or one.plain != other.plain:
            return Interference(frames, _describe_interference(one, other))
    return Interference(frames, None)


def _run_interference_job(run: RunWith, driver: InterferenceDriver) -> None:
    """Run a job; that parties gave up is one way to end."""
    try:
        run(driver)
    except VeilsumError:
        ends = [len(world.finished) < len(world.nodes) for world in driver.worlds]
        if not any(ends):
            raise
    if not driver.worlds:
        raise InvalidInputError(
            "a run is looked at through the driver that it is called with, and this "
            "one did not use it: hand it to the job as its driver",
            code="driver-not-used",
        )


# Masks


@dataclass(frozen=True, repr=False)
class MovedStreams(MaskStreams, Secret):
    """Streams of which some shares are moved by amounts that are known."""

    source: MaskStreams
    moves: Moves

    def stream(self, **whose: int) -> Stream:
        """Return the stream that the share is drawn from before it is moved."""
        return self.source.stream(**whose)

    def share(
        self, law: MaskLaw, size: int, weight: float = 1.0, **whose: int
    ) -> Numbers:
        drawn = self.source.share(law, size, weight, **whose)
        if drawn.dtype == np.float64:
            drawn = np.rint(drawn / STEP) * STEP
        move = self.moves.get((whose["epoch"], whose["sender"], whose["receiver"]))
        return (
            drawn
            if move is None
            else law.wrap(
                add_wide_integers(drawn, _interference_move_in_law(move, law))
            )
        )


def interference_moves_between_inputs(
    plan: ProtocolPlan,
    fixed: Mapping[int, tuple[str, ...]],
    sums: Sequence[Array[Any]],
    first: Mapping[str, ProtocolWork],
    second: Mapping[str, ProtocolWork],
    coalition: Collection[str],
) -> Moves:
    """Return how honest parties' shares move for a second input to look like a first.

    Args:
        plan: of both runs.
        fixed: by epoch in which masked numbers were committed to, who was in it.
        sums: that became known.
        first: what parties did.
        second: what they do instead.
        coalition: whose shares, drawn or received, stay as they are.
    """
    found: dict[tuple[int, int, int], Array[Any]] = {}
    if not plan.law.hides:
        return found
    for epoch, members in fixed.items():
        known = sums[: epoch // plan.epochs_per_sum]
        honest = [name for name in members if name not in coalition]
        apart = {
            name: _vector_masked_after_sums(plan.law, first[name], known)
            - _vector_masked_after_sums(plan.law, second[name], known)
            for name in honest
        }
        graph = plan.topology.induced([plan.topology.index(one) for one in honest])
        for sender, receiver, move in _interference_moves_along_trees(graph, apart):
            i, j = plan.topology.index(sender), plan.topology.index(receiver)
            half = move / 2 if move.dtype == np.float64 else move // 2
            found[epoch, i, j], found[epoch, j, i] = move - half, -half
    return found


def _vector_masked_after_sums(
    law: MaskLaw, work: ProtocolWork, sums: Sequence[Array[Any]]
) -> Array[Any]:
    """Return what a party has masked after some sums: float64, or Python integers."""
    vector = work.vector(sums)
    assert vector is not None, "masked numbers were fixed, so they were asked for"
    numbers = law.encode(vector)
    if numbers.dtype == np.uint64:
        numbers = numbers.view(np.int64)
    exact = numbers.dtype != np.float64
    return as_python_integers(limbs_to_integers(numbers)) if exact else numbers


def _interference_move_in_law(move: Array[Any], law: MaskLaw) -> Array[Any]:
    if law.dtype == np.uint64:
        return np.array([int(one) % 2**64 for one in move], dtype=np.uint64)
    if is_wide_integer_type(law.dtype):
        return limbs_from_integers(move, law.dtype.itemsize // 8)
    return move.astype(law.dtype)


def _interference_moves_along_trees(
    graph: Topology, apart: Mapping[str, Array[Any]]
) -> Iterator[tuple[str, str, Array[Any]]]:
    """Yield who has to send how much more to whom, for masks to move that far apart."""
    for piece in graph_components(graph):
        part = graph.induced(piece)
        tree, carried = spanning_tree(part), dict(apart)
        for place in reversed(tree.order[1:]):
            name, parent = part.parties[place], part.parties[tree.parents[place]]
            carried[parent] = carried[parent] + carried[name]
            yield name, parent, carried[name]


# What is met


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InterferenceDriver(Loopback, Secret):
    """Machines in memory, of whom all is kept, with masks as another run needs them.

    Attributes:
        coalition: who looks.
        pattern: the worlds of the other run, one for each time that parties meet; none
            for shares as they are drawn.
    """

    coalition: frozenset[str] = frozenset()
    pattern: Sequence[LoopbackWorld] = ()
    faults: Faults | None = field(default_factory=Faults)
    worlds: list[LoopbackWorld] = field(default_factory=list)

    def world(self, assignment: DriverAssignment) -> LoopbackWorld:
        assignment.plan.topology.indices(self.coalition)  # refuses a stranger
        world = super().world(assignment)
        moves: Moves = {}
        if len(self.worlds) < len(self.pattern):
            before = self.pattern[len(self.worlds)]
            plan, fixed = before.plan, masked_numbers_by_epoch(before)
            works = before.works, assignment.works
            moves = interference_moves_between_inputs(
                plan, fixed, before.sums, *works, self.coalition
            )
        world.streams = MovedStreams(world.streams, moves)
        self.worlds.append(world)
        return world

    def met(self, world: LoopbackWorld) -> list[InterferenceEvent]:
        """Return all that colluders met and did, and what links show of the others."""
        return [
            InterferenceEvent(world.plan, one, inside=one.party in self.coalition)
            for one in world.history
            if one.party in self.coalition or one.what == "send"
        ]


def masked_numbers_by_epoch(world: LoopbackWorld) -> dict[int, tuple[str, ...]]:
    """Return in which epochs masked numbers were committed to, and who was in each.

    A commitment that nobody opens shows nothing. It is compared all the same: nonces
    are equal in both runs, and so commitments are if numbers are.
    """
    found = {}
    for event in world.history:
        if event.what != "send":
            continue
        message = world.plan.codec.decode(event.detail)
        if isinstance(message, Ready):
            left = set(world.plan.parties) - set(message.lost)
            found[message.epoch] = tuple(p for p in world.plan.parties if p in left)
    charged = (one.detail for one in world.history if one.what == "charge")
    return found | {
        one.epoch: one.parties for one in charged if isinstance(one, Emission)
    }


@dataclass(frozen=True, eq=False, repr=False)
class InterferenceEvent(Secret):
    """One thing that happened to a colluder, or that it did; or a frame of others.

    Attributes:
        inside: whether more is known of a frame than how long it is.
    """

    plan: ProtocolPlan
    event: LoopbackEvent
    inside: bool = True

    @property
    def plain(self) -> tuple[Any, ...]:
        """All of it, equal only to what is the same to the last bit."""
        one = self.event
        told = _comparable_message_bits(one.detail) if self.inside else len(one.detail)
        return one.time, one.party, one.what, one.peer, told

    @property
    def kind(self) -> str:
        """Description of the event, without any number."""
        event, frame = self.event, self.event.detail
        if event.what in {"receive", "send"}:
            name = type(self.plan.codec.decode(frame)).__name__
            way = "got from" if event.what == "receive" else "sent to"
            return f"a frame {name} that {event.party!r} {way} {event.peer!r}"
        if isinstance(event.detail, Persist):
            return f"what {event.party!r} wrote under {event.detail.key!r}"
        return f"{event.what!r} of {event.party!r}"


def _comparable_message_bits(value: Any) -> Any:
    match value:
        case np.ndarray() if value.dtype != object:
            return value.dtype.str, value.shape, value.tobytes()
        case np.ndarray():
            return value.tolist()
        case Persist():
            return value.key, value.value
    if is_dataclass(value):
        return [
            _comparable_message_bits(getattr(value, one.name)) for one in fields(value)
        ]
    return value


def sends_two_vectors(world: LoopbackWorld) -> bool:
    """Say whether a machine sent other numbers where it had sent some already.

    A frame's numbers have one place: whose they are, of which epoch and round, and for
    whom, if they are for one neighbour alone. A frame that nobody can read is other
    numbers, too.
    """
    known: dict[tuple[Any, ...], Any] = {}
    for event in world.history:
        if event.what != "send":
            continue
        try:
            message = world.plan.codec.decode(event.detail)
        except MalformedMessageError:
            return True
        holder = message.masked if isinstance(message, Deposit) else message
        if (numbers := getattr(holder, "numbers", None)) is None:
            continue
        author = getattr(holder, "party", event.party)
        whom = event.peer if isinstance(message, Share) else None
        when = getattr(holder, "epoch", 0), getattr(holder, "index", 0)
        place = type(holder), when, author, whom
        if known.setdefault(place, numbers.tobytes()) != numbers.tobytes():
            return True
    return False


def shares_sent_in(world: LoopbackWorld) -> dict[tuple[int, str, str], Array[Any]]:
    """Return all shares that were sent, by epoch, sender and receiver."""
    found: dict[tuple[int, str, str], Array[Any]] = {}
    for event in world.history:
        if event.what == "send":
            message = world.plan.codec.decode(event.detail)
            if isinstance(message, Share):
                place = message.epoch, event.party, str(event.peer)
                found.setdefault(place, message.numbers)
    return found


def is_masked_in_audited_world(world: LoopbackWorld) -> bool:
    """Say whether every masked vector is its party's own one and all its shares.

    Of sums in which nobody was lost; what goes up a tree has others' vectors in it.
    """
    shares, sums, law = shares_sent_in(world), world.sums, world.plan.law
    for event in world.history:
        if event.what != "send":
            continue
        message = world.plan.codec.decode(event.detail)
        masked = message.masked if isinstance(message, Deposit) else message
        if not isinstance(masked, Masked):
            continue
        index, lost = divmod(masked.epoch, world.plan.epochs_per_sum)
        vector = None
        if not lost and index <= len(sums):
            vector = world.works[masked.party].vector(sums[:index])
        if vector is None:
            continue
        told = law.encode(vector)
        for (epoch, sender, receiver), numbers in shares.items():
            if epoch == masked.epoch and sender == masked.party:
                told = add_wide_integers(told, numbers)
            elif epoch == masked.epoch and receiver == masked.party:
                told = subtract_wide_integers(told, numbers)
        if not np.array_equal(law.wrap(told), masked.numbers):
            return False
    return True


def _describe_interference(
    one: InterferenceEvent | None, other: InterferenceEvent | None
) -> str:
    """Say what is different, and nothing of what anybody holds."""
    if one is None or other is None:
        longer, run = (other, "second") if one is None else (one, "first")
        assert longer is not None
        return f"{longer.kind} at {longer.event.time:.6g} s: only in the {run} run"
    told = f"{one.kind} at {one.event.time:.6g} s"
    if one.kind != other.kind:
        return f"{told}: in the second run {other.kind}"
    if one.event.time != other.event.time:
        return f"{told}: in the second run at {other.event.time:.6g} s"
    if _observed_message_length(one.event.detail) != _observed_message_length(
        other.event.detail
    ):
        return f"{told}: of another length in the second run"
    return f"{told}: other bytes in the second run"


def _observed_message_length(detail: Any) -> int | None:
    kept = detail.value if isinstance(detail, Persist) else detail
    return len(kept) if isinstance(kept, bytes) else None
