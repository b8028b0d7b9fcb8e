"""Transcript: all numbers that a coalition stored, sent and received in a run.

There is one for each party, and a coalition's is what its members have together. It is
made in two ways that must give the same: `simulate_transcript`, where all parties are
in one place, and from what a machine really sent and received (see `drivers.tap`).

    >>> from veilsum.masks.laws import Masks
    >>> ring = Topology.family("ring:4")
    >>> law = Masks("uniform", unit=1).on(ring)
    >>> numbers = np.arange(8, dtype=np.uint64).reshape(4, 1, 2)
    >>> shares, own = MaskShares(ring, numbers.reshape(4, 2, 1)), numbers[:, 0, :1]
    >>> epoch = TranscriptDrawnEpoch(0, own, shares)
    >>> one, other = (simulate_transcript(law, [epoch], corrupted=[c]) for c in "02")
    >>> both = Transcript.together([one, other])
    >>> both, both == simulate_transcript(law, [epoch], corrupted=["0", "2"])
    (Transcript of 0, 2: private; 1 epoch, True)
    >>> both.view().component_sums()  # parties 1 and 3 are not linked
    {('1',): array([2], dtype=uint64), ('3',): array([6], dtype=uint64)}

A view, View_C of Definition 1, has the same as plain arrays. The model is the proof's:
the coalition knows its own costs, every share on an edge that touches it, and every
effective coefficient. Known shares are stripped at once; what is left of an honest
party is alpha_bar_i, its coefficients plus its honest edges' masks. Under integer laws
all of this is in whole grid steps, `uniform` modulo 2^64.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.spreading import spanning_tree
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import MaskLaw
from veilsum.masks.masking import MaskRows, MaskShares, ShareArray, at_both_ends
from veilsum.numbers.arrays import Array, FloatArray, listed_names
from veilsum.numbers.limbs import (
    add_wide_integers,
    limb_type_name,
    limbs_to_integers,
    subtract_wide_integers,
    total_of_wide_integers,
)
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import Float, Shaped
from veilsum.showing import Renderable, Rendering, counted_words

Estimates = Float[FloatArray, "times heard m"]
ColluderRows = Shaped[Array[Any], "c p"]
HonestRows = Shaped[Array[Any], "h p"]


@dataclass(frozen=True, eq=False, repr=False)
class View(Renderable):
    """One sample of what C saw in a run.

    Attributes:
        corrupted: C, by name.
        honest: H, by name, as far as C held masked vectors; the rows of `effective` and
            `stripped`.
        coefficients: C's own private coefficients, (|C|, p).
        known_edges: names of the two ends of every edge that touches C.
        known_shares: the shares on those edges, (edges, 2, p): r_ij then r_ji.
        effective: theta~ of the honest parties, (|H|, p).
        stripped: alpha_bar of the honest parties: effective less the known shares.
        heard: whose estimates C held or received in phase II.
        estimates: those estimates at the recorded iterations, or what was told in every
            round.
        pieces: the components of G[H], as rows of `stripped`.
    """

    corrupted: tuple[str, ...]
    honest: tuple[str, ...]
    coefficients: ColluderRows
    known_edges: tuple[tuple[str, str], ...]
    known_shares: ShareArray
    effective: HonestRows
    stripped: HonestRows
    heard: tuple[str, ...]
    estimates: Estimates
    pieces: tuple[tuple[int, ...], ...]

    def component_sums(self) -> dict[tuple[str, ...], Array[Any]]:
        """Return what any view reveals exactly: each piece's sum of coefficients."""
        return {
            tuple(self.honest[i] for i in piece): total_of_wide_integers(
                self.stripped[list(piece)]
            )
            for piece in self.pieces
        }

    def showing(self) -> Rendering:
        """Return how much there is in it, and no number of it."""
        return Rendering(
            f"View of {listed_names(self.corrupted) or 'nobody'}: private",
            [
                f"{len(self.known_edges)} known links, masked numbers of "
                f"{counted_words(len(self.honest), 'honest party')}, estimates heard "
                "of "
                f"{len(self.heard)}; none of them is printed"
            ],
        )


def edges_touching_colluders(
    topology: Topology, colluders: frozenset[int]
) -> Array[np.bool_]:
    """Return which edges have an end in C."""
    inside = np.isin(topology.edges, list(colluders))
    return inside[:, 0] | inside[:, 1]


def known_masks(shares: MaskShares, known: Array[np.bool_]) -> MaskRows:
    """Return the part of every mask that comes from known edges."""
    noise = np.asarray(shares.edge_noise()).copy()
    noise[~known] = np.zeros((), dtype=noise.dtype)
    return at_both_ends(shares.topology, noise)


Held = Mapping[Any, Array[Any]]
# Whose masked vectors a party holds: where they are flooded everybody's; where they
# are left with neighbours, should their owner vanish, those; or its own alone.
Reach = Literal["everybody", "neighbours", "itself"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TranscriptExchange(Secret):
    """One epoch as a coalition knows it: one exchange of shares, and what rests on it.

    All numbers but those of an iterative method are the law's: whole ones, unless the
    law is for simulation only.

    Attributes:
        epoch: its number, which never comes twice in a run.
        members: who is in it.
        own: the coalition's own vectors, by party.
        shares: by who sent and who received them, one of whom is in the coalition.
        masked: the masked vectors that it held, by party.
        subtrees: sums of masked vectors on their way up a tree, by who sent them.
        told: what an iterative method told in a round, by round and by who told it.
        total: the released sum; None if there was none, or it was not heard of.
    """

    epoch: int
    members: tuple[str, ...]
    own: Held = field(default_factory=dict)
    shares: Held = field(default_factory=dict)
    masked: Held = field(default_factory=dict)
    subtrees: Held = field(default_factory=dict)
    told: Held = field(default_factory=dict)
    total: Array[Any] | None = None

    @property
    def held(self) -> dict[str, Held]:
        """All but the total, part by part."""
        parts = self.own, self.shares, self.masked, self.subtrees, self.told
        return dict(zip(HELD, parts, strict=True))


# What an exchange holds by name.
HELD = ("own", "shares", "masked", "subtrees", "told")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Transcript(Renderable, Secret):
    """Numbers that a coalition stored, sent and received in one run.

    Two transcripts are equal if all their numbers are.

    Attributes:
        corrupted: C, by name, in the order of the parties.
        topology: pairs of parties that exchanged shares.
        law: distribution of the masks, and their number type.
        plan: digest of the agreed plan, including the run's name.
        rounds: by epoch, all of them; the k-th is of the k-th sum if nobody was lost.
        whole: False if it was cut off because it grew too long.
    """

    corrupted: tuple[str, ...]
    topology: Topology
    law: MaskLaw
    plan: bytes = b""
    rounds: tuple[TranscriptExchange, ...] = ()
    whole: bool = True

    def showing(self) -> Rendering:
        """Return how much there is in it, and no number of it."""
        of = listed_names(self.corrupted) or "nobody"
        epochs = counted_words(len(self.rounds), "epoch")
        cut = "" if self.whole else "; it grew too long, and what came later is missing"
        return Rendering(f"Transcript of {of}: private; {epochs}{cut}")

    @classmethod
    def together(cls, transcripts: Iterable[Transcript]) -> Transcript:
        """Return a coalition's transcript from its members' own.

        Raises:
            InvalidInputError: they are not of one run, or two of them disagree on what
                both hold.
        """
        members = list(transcripts)
        if not members:
            raise InvalidInputError(
                "a coalition has members: give their transcripts", code="no-transcripts"
            )
        first = members[0]
        if any(
            _agreed_transcript_facts(one) != _agreed_transcript_facts(first)
            for one in members
        ):
            raise InvalidInputError(
                "these are transcripts of different runs: give those of one run, one "
                "of each member",
                code="transcripts-of-other-run",
            )
        found: dict[int, list[TranscriptExchange]] = {}
        for one in members:
            for exchange in one.rounds:
                found.setdefault(exchange.epoch, []).append(exchange)
        names = {name for one in members for name in one.corrupted}
        return cls(
            corrupted=first.topology.names(sorted(first.topology.indices(names))),
            topology=first.topology,
            law=first.law,
            plan=first.plan,
            rounds=tuple(
                _merge_transcript_exchanges(found[epoch]) for epoch in sorted(found)
            ),
            whole=all(one.whole for one in members),
        )

    def view(self, round: int = 0) -> View:
        """Return what is left of the honest parties' numbers in one round.

        Definition 1 grants a coalition every masked vector. Where these are summed
        along a tree, or an iterative method runs on them, the honest parties in this
        view are those whose masked vectors it held.
        """
        if not 0 <= round < len(self.rounds):
            raise InvalidInputError(
                f"this transcript has {len(self.rounds)} rounds, counted from 0; "
                f"found {round}",
                code="round-out-of-range",
            )
        return _view_of_transcript_exchange(self, self.rounds[round])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript):
            return NotImplemented
        mine, theirs = (
            (
                one.corrupted,
                one.whole,
                _agreed_transcript_facts(one),
                [*map(_plain_transcript_exchange, one.rounds)],
            )
            for one in (self, other)
        )
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]


def _agreed_transcript_facts(one: Transcript) -> tuple[object, ...]:
    law, counts = one.law, one.law.counted
    counted = None if counts is None else (counts.bits, counts.units, counts.fields)
    return one.plan, one.topology, law.masks, limb_type_name(law.dtype), counted


def _plain_transcript_exchange(exchange: TranscriptExchange) -> list[object]:
    parts = exchange.held.values()
    total = exchange.total
    return [
        exchange.epoch,
        exchange.members,
        None if total is None else limbs_to_integers(total).tolist(),
        *(
            {key: limbs_to_integers(one).tolist() for key, one in part.items()}
            for part in parts
        ),
    ]


def _merge_transcript_exchanges(
    exchanges: Sequence[TranscriptExchange],
) -> TranscriptExchange:
    """Return what several hold of one epoch together."""
    first = exchanges[0]
    parts: dict[str, dict[Any, Array[Any]]] = {name: {} for name in HELD}
    total: dict[str, Array[Any]] = {}
    for one in exchanges:
        if one.members != first.members:
            _disagreeing_transcripts(first.epoch, "who is in it")
        for name, held in one.held.items():
            _take_transcript_numbers(parts[name], held, f"{name} of", first.epoch)
        if one.total is not None:
            _take_transcript_numbers(
                total, {"everybody": one.total}, "the total of", first.epoch
            )
    return TranscriptExchange(
        epoch=first.epoch,
        members=first.members,
        total=total.get("everybody"),
        **{name: dict(sorted(found.items())) for name, found in parts.items()},
    )


def _take_transcript_numbers(
    into: dict[Any, Array[Any]], found: Held, what: str, epoch: int
) -> None:
    for key, numbers in found.items():
        known = into.setdefault(key, numbers)
        if known is not numbers and (
            bool(
                limbs_to_integers(known).tolist() != limbs_to_integers(numbers).tolist()
            )
        ):
            whom = " to ".join(map(str, key)) if isinstance(key, tuple) else key
            _disagreeing_transcripts(epoch, f"{what} {whom}")


def _disagreeing_transcripts(epoch: int, what: str) -> None:
    raise InvalidInputError(
        f"two transcripts disagree about epoch {epoch}, {what}: they are of different "
        "runs, or one of them is not what was exchanged",
        code="transcripts-disagree",
    )


def _view_of_transcript_exchange(
    transcript: Transcript, exchange: TranscriptExchange
) -> View:
    law, names = transcript.law, exchange.members
    graph = transcript.topology.induced(transcript.topology.indices(names))
    corrupted = [name for name in transcript.corrupted if name in names]
    colluders = graph.indices(corrupted)
    known = edges_touching_colluders(graph, colluders)
    ends = graph.edges[known].tolist()
    edges = [(graph.parties[i], graph.parties[j]) for i, j in ends]
    arcs = [((a, b), (b, a))[: graph.shares_per_edge] for a, b in edges]
    missing = [
        f"{a} to {b}" for pair in arcs for a, b in pair if (a, b) not in exchange.shares
    ]
    missing += [name for name in corrupted if name not in exchange.own]
    if missing:
        raise InvalidInputError(
            f"epoch {exchange.epoch} is not whole: what {listed_names(missing)} had is "
            "missing; it was given up, or the party was stopped and began again",
            code="epoch-incomplete",
        )
    honest = [n for n in names if n not in corrupted and n in exchange.masked]
    size = next((one.size for one in exchange.masked.values()), 0)
    values = np.zeros((graph.n_edges, graph.shares_per_edge, size), dtype=law.dtype)
    for row, pair in zip(np.flatnonzero(known), arcs, strict=True):
        values[row] = np.stack([exchange.shares[arc] for arc in pair])
    effective = _transcript_party_rows(exchange.masked, honest, size, law)
    places = [graph.index(name) for name in honest]
    left = subtract_wide_integers(
        effective, known_masks(MaskShares(graph, values), known)[places]
    )
    heard, estimates = _transcript_method_estimates(exchange.told, graph)
    return View(
        corrupted=tuple(corrupted),
        honest=tuple(honest),
        coefficients=_transcript_party_rows(exchange.own, corrupted, size, law),
        known_edges=tuple(edges),
        known_shares=values[known],
        effective=effective,
        stripped=np.asarray(law.wrap(left)),
        heard=heard,
        estimates=estimates,
        pieces=_transcript_honest_pieces(graph, colluders, honest),
    )


def _transcript_party_rows(
    held: Held, names: Sequence[str], size: int, law: MaskLaw
) -> Shaped[Array[Any], "n p"]:
    found = np.empty((len(names), size), dtype=law.dtype)
    for row, name in zip(found, names, strict=True):
        row[:] = held[name]
    return found


def _transcript_honest_pieces(
    graph: Topology, colluders: frozenset[int], honest: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """Return the components of G[H] of which everybody's masked vector was held."""
    left = graph.without(colluders)
    pieces = (left.names(piece) for piece in graph_components(left))
    return tuple(
        tuple(honest.index(name) for name in piece)
        for piece in pieces
        if all(name in honest for name in piece)
    )


def _transcript_method_estimates(
    told: Held, graph: Topology
) -> tuple[tuple[str, ...], Shaped[Array[Any], "times heard m"]]:
    """Return what an iterative method told in those rounds that all are heard in.

    Before it, masked integers may be drawn together: these are no estimates.
    """
    by_round: dict[int, dict[str, Array[Any]]] = {}
    for (index, name), numbers in told.items():
        if numbers.dtype == np.float64:
            by_round.setdefault(index, {})[name] = numbers
    names = {name for one in by_round.values() for name in one}
    heard = tuple(name for name in graph.parties if name in names)
    rows = [
        [by_round[index][name] for name in heard]
        for index in sorted(by_round)
        if len(by_round[index]) == len(heard)
    ]
    return heard, np.array(rows) if rows else np.empty((0, len(heard), 0))


# Where all parties are in one place


@dataclass(frozen=True, eq=False, repr=False)
class TranscriptDrawnEpoch(Secret):
    """One epoch with everything in it, as only a simulation has it.

    Attributes:
        own: every party's vector, by row.
        total: the released sum, in the law's numbers.
        told: of an iterative method, by round and party.
    """

    epoch: int
    own: Shaped[Array[Any], "n p"]
    shares: MaskShares
    total: Array[Any] | None = None
    told: Held = field(default_factory=dict)


def simulate_transcript(
    law: MaskLaw,
    epochs: Iterable[TranscriptDrawnEpoch],
    *,
    corrupted: Iterable[Hashable],
    reach: Reach = "everybody",
    by_tree: bool = False,
    plan: bytes = b"",
) -> Transcript:
    """Return a coalition's transcript, given all that happened in a run."""
    drawn = list(epochs)
    topology = drawn[0].shares.topology
    colluders = topology.indices(corrupted)
    names = topology.names(sorted(colluders))
    return Transcript(
        corrupted=names,
        topology=topology,
        law=law,
        plan=plan,
        rounds=tuple(
            _coalition_knowledge_of_epoch(
                one, law, frozenset(names), reach=reach, by_tree=by_tree
            )
            for one in drawn
        ),
    )


def _coalition_knowledge_of_epoch(
    drawn: TranscriptDrawnEpoch,
    law: MaskLaw,
    corrupted: frozenset[str],
    *,
    reach: Reach,
    by_tree: bool,
) -> TranscriptExchange:
    graph, values = drawn.shares.topology, drawn.shares.values
    near = {*corrupted}
    if reach != "itself" or drawn.told:
        near |= {other for name in corrupted for other in graph.neighbours(name)}
    holds = {"everybody": set(graph.parties), "neighbours": near, "itself": corrupted}
    masked = np.asarray(law.wrap(add_wide_integers(drawn.own, drawn.shares.masks())))
    subtrees = (
        _transcript_subtree_sums(graph, masked, law, corrupted) if by_tree else {}
    )
    shares: dict[tuple[str, str], Array[Any]] = {}
    for row, pair in zip(values, graph.edges.tolist(), strict=True):
        a, b = (graph.parties[i] for i in pair)
        if a in corrupted or b in corrupted:
            both = ((a, b), (b, a))[: graph.shares_per_edge]
            shares.update(zip(both, row.copy(), strict=True))
    return TranscriptExchange(
        epoch=drawn.epoch,
        members=tuple(graph.parties),
        own=_transcript_rows_by_name(drawn.own, graph, corrupted),
        shares=shares,
        masked=_transcript_rows_by_name(masked, graph, holds[reach]),
        subtrees=subtrees,
        told={key: one for key, one in drawn.told.items() if key[1] in near},
        total=drawn.total,
    )


def _transcript_rows_by_name(
    rows: Array[Any], graph: Topology, names: Iterable[str]
) -> dict[str, Any]:
    return {name: rows[graph.index(name)].copy() for name in names}


def _transcript_subtree_sums(
    graph: Topology, masked: Array[Any], law: MaskLaw, corrupted: frozenset[str]
) -> dict[str, Array[Any]]:
    """Return the sums that go up the tree to, or from, a coalition."""
    tree, sums = spanning_tree(graph), masked.copy()
    for party in reversed(tree.order):
        for child in tree.children(party):
            sums[party] = add_wide_integers(sums[party], sums[child])
        sums[party] = law.wrap(sums[party])
    names, found = graph.parties, {}
    for party in tree.order[1:]:
        ends = {names[party], names[tree.parents[party]]}
        if ends & corrupted:
            found[names[party]] = sums[party].copy()
    return found
