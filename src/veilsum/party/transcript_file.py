"""A party's transcript on its disk: encrypted, for whoever has the party's key alone.

    file = FORMAT | SHA-256 of the run's name | SHA-256 of the certificate | sealed

What is sealed is the transcript in MessagePack (see `Identity.seal`); it does not open
under another start. Without the key the file tells that it is a transcript, by digest
of which run and of whom, and how long it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec

from veilsum.consortium.pem import der_of_pem
from veilsum.errors import InvalidInputError, OutputError, VeilsumError
from veilsum.files.output import prepare_output_folder, write_files
from veilsum.files.safe_read import read_file_contents
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import MaskLaw, Masks
from veilsum.net.identity import Identity, read_identity
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import is_wide_integer_type
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import UnitCounts
from veilsum.privacy.transcript import HELD, Transcript, TranscriptExchange
from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import Down

FORMAT = b"veilsum transcript 3\n"
_VERSIONED = re.compile(rb"veilsum transcript ([0-9]{1,4})\n")
DIGEST_BYTES = 32
_START = len(FORMAT) + 2 * DIGEST_BYTES
# A tap keeps a quarter of this; starts that were interrupted add up.
MOST_BYTES = 1 << 30
_CODEC = Codec(MOST_BYTES // 8)

# As fractions are written; one with an exponent could have any number of digits.
_FRACTION = re.compile(r"[0-9]{1,1000}(/[0-9]{1,1000})?")
# More than any agreement has.
_Bits = Annotated[int, msgspec.Meta(ge=-100_000, le=100_000)]

_Parts = dict[str, list[tuple[list[int | str], bytes]]]


class _TranscriptEpoch(Secret, msgspec.Struct):
    """An exchange; numbers are in frames, as they would be on a link."""

    epoch: int
    members: list[str]
    total: bytes | None
    held: _Parts


class _TranscriptContent(Secret, msgspec.Struct):
    """Encrypted content: a transcript, and the parameters for reading its numbers."""

    corrupted: list[str]
    parties: list[str]
    edges: list[tuple[str, str]]
    weights: list[float]
    law: str
    sigma: float | list[float] | None
    grid: _Bits | None
    largest: float | None
    unit: str | None
    bits: _Bits | None
    units: list[str]
    fields: list[tuple[int, int]]
    plan: bytes
    whole: bool
    rounds: list[_TranscriptEpoch]


def write_transcript(
    path: Path, transcript: Transcript, identity: Identity, *, run: str
) -> None:
    """Write a party's transcript for its owner alone, whole or not at all."""
    content = msgspec.msgpack.encode(_transcript_file_content(transcript))
    if len(content) > MOST_BYTES:
        raise OutputError(
            f"the transcript has {len(content):,} bytes, and {MOST_BYTES:,} are the "
            f"most that are read again: {path} is left as it was",
            code="transcript-too-large",
        )
    start = b"".join((FORMAT, *_transcript_file_digests(identity, run)))
    whole = start + identity.seal(content, start)
    write_files(path.parent, {path.name: whole}, private=True)


def read_transcript(
    path: str | Path, identity: Identity | str | Path, *, run: str | None = None
) -> Transcript:
    """Return a party's own transcript from its file.

    Args:
        path: what `veilsum join --transcript` wrote.
        identity: the party's own, or its key file.
        run: if it is given, another run's is refused.

    Raises:
        InvalidInputError: it is no transcript, or somebody else's, or was changed.
    """
    path = Path(path)
    if not isinstance(identity, Identity):
        identity = read_identity(Path(identity))
    found = read_file_contents(path, MOST_BYTES + _START + 48, InvalidInputError)
    version = _VERSIONED.match(found)
    if version is not None and not found.startswith(FORMAT):
        raise InvalidInputError(
            f"{path} is a transcript of format {version[1].decode()}, and this veilsum "
            "reads format 2: read it with the version of veilsum that wrote it",
            code="wrong-format",
        )
    if version is None:
        raise InvalidInputError(
            f"{path} is not a transcript: give a file that "
            "veilsum join --transcript has written",
            code="not-a-transcript",
        )
    start = found[:_START]
    of_run, of_party = _transcript_file_digests(identity, run or "")
    if start[len(FORMAT) + DIGEST_BYTES :] != of_party:
        raise InvalidInputError(
            f"{path} is another party's transcript: only its owner's key opens it, and "
            f"{identity.key_file} is the key of {identity.name}",
            code="transcript-of-other-party",
        )
    if run is not None and start[len(FORMAT) :][:DIGEST_BYTES] != of_run:
        raise InvalidInputError(
            f"{path} is the transcript of another run than {run}",
            code="transcript-of-other-run",
        )
    if (content := identity.unseal(found[_START:], start)) is None:
        raise InvalidInputError(
            f"{path} was changed or damaged, and nothing in it can be relied on: put "
            "back the copy that veilsum join wrote",
            code="transcript-damaged",
        )
    try:
        made = _transcript_of_file(
            msgspec.msgpack.decode(content, type=_TranscriptContent)
        )
        _check_kept_transcript(made, identity.name)
    except (ValueError, TypeError, LookupError, ArithmeticError, VeilsumError):
        # Whoever has the key can seal anything; none of it is repeated.
        raise InvalidInputError(
            f"{path} was sealed with the key of {identity.name}, but does not hold "
            "what veilsum join has written: it is no transcript of a run",
            code="not-a-transcript",
        ) from None
    return made


def _check_kept_transcript(made: Transcript, owner: str) -> None:
    """Refuse what no party's machine could have kept.

    It is its owner's alone, among the parties of its graph; shares have an end at the
    owner, and all vectors of one epoch are numbers of the law, equally many.
    """
    parties = made.topology.parties
    if made.corrupted != (owner,) or owner not in parties:
        raise ValueError
    epochs = [one.epoch for one in made.rounds]
    if epochs != sorted({*epochs}) or min(epochs, default=0) < 0:
        raise ValueError
    for one in made.rounds:
        if not {*one.members} <= {*parties}:
            raise ValueError
        ends = [*one.shares, *((owner, name) for name in (*one.own, *one.masked))]
        ends += [(owner, name) for _, name in one.told]
        ends += [(owner, name) for name in one.subtrees]
        if any(owner not in pair or not {*pair} <= {*parties} for pair in ends):
            raise ValueError
        masked = [*one.own.values(), *one.shares.values(), *one.masked.values()]
        masked += [*one.subtrees.values(), *([] if one.total is None else [one.total])]
        if {(v.dtype, v.shape) for v in masked} - {(made.law.dtype, masked[0].shape)}:
            raise ValueError


def is_transcript(path: Path, identity: Identity, *, run: str | None = None) -> bool:
    """Say whether a file starts as a party's own transcript, of a run if it is named.

    Nothing of it is opened: it may be of another version, which `read_transcript` says.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(_START)
    except OSError:
        return False
    if (version := _VERSIONED.match(start)) is None:
        return False
    of_run, of_party = _transcript_file_digests(identity, run or "")
    rest = start[version.end() :]
    named = run is None or rest.startswith(of_run)
    return named and rest[DIGEST_BYTES:] == of_party


def earlier_transcript(
    path: Path, identity: Identity, *, run: str
) -> Transcript | None:
    """Return what an earlier start of a run has kept; refuse to write over all else.

    Called before a run, so that nobody finds out at its end.
    """
    prepare_output_folder(path.parent)
    if not path.exists():
        return None
    try:
        return read_transcript(path, identity, run=run)
    except InvalidInputError as error:
        raise OutputError(
            f"{error}; it is left as it is, and nothing was sent: give another file "
            "with --transcript",
            code=error.code,
        ) from None


def _transcript_file_digests(identity: Identity, run: str) -> tuple[bytes, bytes]:
    """Return what says in the clear which run it was and whose transcript it is."""
    told = b"veilsum run\0" + run.encode(), der_of_pem(identity.certificate)
    one, other = (hashlib.sha256(part).digest() for part in told)
    return one, other


def _transcript_file_content(transcript: Transcript) -> _TranscriptContent:
    graph, masks = transcript.topology, transcript.law.masks
    counts, names = transcript.law.counted, graph.parties
    sigma = masks.sigma
    return _TranscriptContent(
        corrupted=[*transcript.corrupted],
        parties=[*names],
        edges=[(names[i], names[j]) for i, j in graph.edges.tolist()],
        weights=graph.weights.tolist(),
        law=masks.law,
        sigma=[*sigma] if isinstance(sigma, tuple) else sigma,
        grid=masks.grid,
        largest=masks.largest,
        unit=None if masks.unit is None else str(masks.unit),
        bits=None if counts is None else counts.bits,
        units=[] if counts is None else [str(unit) for unit in counts.units],
        fields=[] if counts is None else [*counts.fields],
        plan=transcript.plan,
        whole=transcript.whole,
        rounds=[_transcript_file_epoch(one) for one in transcript.rounds],
    )


def _transcript_file_epoch(exchange: TranscriptExchange) -> _TranscriptEpoch:
    return _TranscriptEpoch(
        epoch=exchange.epoch,
        members=[*exchange.members],
        total=None if exchange.total is None else _transcript_frame(exchange.total),
        held={
            name: _list_transcript_frames(part) for name, part in exchange.held.items()
        },
    )


def _list_transcript_frames(
    held: Mapping[Any, Array[Any]],
) -> list[tuple[list[int | str], bytes]]:
    return [
        ([*key] if isinstance(key, tuple) else [key], _transcript_frame(numbers))
        for key, numbers in held.items()
    ]


def _transcript_frame(numbers: Array[Any]) -> bytes:
    return _CODEC.encode(Down(0, numbers))


def _transcript_frame_numbers(frame: bytes, law: MaskLaw) -> Array[Any]:
    found = cast(Down, _CODEC.decode(frame)).numbers
    if not is_wide_integer_type(found):
        return found
    if not is_wide_integer_type(law.dtype):
        raise ValueError
    return found.view(law.dtype)


def _transcript_of_file(content: _TranscriptContent) -> Transcript:
    graph = Topology.from_edges(
        content.edges, parties=content.parties, weights=content.weights
    )
    law = _mask_law_of_transcript_file(content, graph)
    return Transcript(
        corrupted=tuple(content.corrupted),
        topology=graph,
        law=law,
        plan=content.plan,
        rounds=tuple(_exchange_of_transcript_file(one, law) for one in content.rounds),
        whole=content.whole,
    )


def _mask_law_of_transcript_file(
    content: _TranscriptContent, graph: Topology
) -> MaskLaw:
    name: Any = content.law
    if content.bits is None:
        masks = Masks(
            name,
            content.sigma,
            content.grid,
            content.largest,
            (None if content.unit is None else _transcript_file_fraction(content.unit)),
        )
        return masks.on(graph)
    # The grid of masks for whole numbers follows from what these count.
    units = tuple(map(_transcript_file_fraction, content.units))
    counts = UnitCounts(units, content.bits, tuple(content.fields))
    return Masks(name, content.sigma).for_sums(graph, counts)


def _transcript_file_fraction(text: str) -> Fraction:
    if not _FRACTION.fullmatch(text):
        raise ValueError
    return Fraction(text)


def _exchange_of_transcript_file(
    kept: _TranscriptEpoch, law: MaskLaw
) -> TranscriptExchange:
    held = {
        name: {
            tuple(key) if len(key) > 1 else key[0]: _transcript_frame_numbers(
                frame, law
            )
            for key, frame in kept.held[name]
        }
        for name in HELD
    }
    return TranscriptExchange(
        epoch=kept.epoch,
        members=tuple(kept.members),
        total=None
        if kept.total is None
        else _transcript_frame_numbers(kept.total, law),
        **held,
    )
