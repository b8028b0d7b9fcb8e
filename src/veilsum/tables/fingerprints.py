"""Fingerprints of tables, by which a party's own ledger recognises earlier data.

Every row has a keyed fingerprint of 64 bits. It does not depend on the order of rows
and columns, nor on the spelling of a cell: `01` as a number or as text, a whole number
in a column with or without gaps, 0.0 and -0.0. Two tables are then compared row by row,
over the columns of the earlier one. For the case that the later one lacks some of
these, every column has a sketch of its values, also independent of their order.

A column of numbers has a shape as well, which is invariant under renaming and under
changes of unit or origin: for every three neighbouring values the ratio of their
distances, and the frequency of each. Adding or removing a row changes a few of these
entries.

A column of ids identifies the person of each row: people are then recognised by their
ids, even if other columns were renamed, rescaled or derived.

The key is the ledger's. Nothing of this is ever sent.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import log1p, prod, sqrt
from string import ascii_letters
from typing import Any, TypeAlias

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import Array, listed_names
from veilsum.numbers.secrets import Secret
from veilsum.tables.frames import Frame, load_pandas

Words: TypeAlias = Array[np.uint64]
# A keyed hash of some bytes, as a ledger makes it: 32 bytes.
Keyed: TypeAlias = Callable[[bytes], bytes]

# Rows at a time: their hashes stay in the cache until they are added up.
BLOCK = 1 << 15
BUCKETS = 256
# Of a column's different values, those with the smallest hashes are kept.
KEPT = 128
CANDIDATES = 1 << 16
# A column with fewer different values has no shape to be known by.
SHAPED = 12
# A row that comes or goes changes about so many entries of a shape.
ENTRIES_OF_A_ROW = 5
# What a missing cell is hashed as: the usual bits of no number.
MISSING = np.uint64(0x7FF8000000000000)

_MULTIPLIERS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_SHIFT = np.uint64(32)
# Mixes what a key has mixed before.
_PLAIN = np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0x2545F4914F6CDD1D], "u8")
# Equal rows are told apart by how many came before.
_AGAIN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False, repr=False)
class FingerprintSource(Secret):
    """A table as its owner has it, and what of it a job is about.

    Attributes:
        frame: all columns of the file.
        asked: the columns that are asked about.
        id_column: the column that says who a row is about, if the owner named one.
    """

    frame: Frame
    asked: tuple[str, ...]
    id_column: str | None = None

    @classmethod
    def of_arrays(cls, **columns: Array[Any] | None) -> FingerprintSource:
        """Return arrays as a table: each column of a matrix by itself."""
        made: dict[str, Array[Any]] = {}
        for name, values in columns.items():
            if values is not None and values.ndim == 2:
                made |= {f"{name} {k}": part for k, part in enumerate(values.T)}
            elif values is not None:
                made[name] = values
        # What nobody may ask for is not copied.
        frame = load_pandas().DataFrame(made, copy=False)
        return cls(frame, tuple(made))


@dataclass(frozen=True, kw_only=True)
class ColumnSketch:
    """The values of one column, without their order.

    Attributes:
        buckets: the values' hashes, added up in 256 groups.
        sizes: of these groups.
        values: the smallest hashes of different values.
        counts: how often each of these values occurs.
        bound: every value with a hash below it is among `values`.
    """

    buckets: tuple[int, ...]
    sizes: tuple[int, ...]
    values: tuple[int, ...]
    counts: tuple[int, ...]
    bound: int

    @property
    def is_constant(self) -> bool:
        """Whether one value fills the column, as far as that can be seen."""
        return sum(map(bool, self.sizes)) < 2

    @property
    def is_fine(self) -> bool:
        """Whether two rows hardly ever have one value."""
        return sum(n * n for n in self.sizes) < 0.03 * sum(self.sizes) ** 2

    def resembles(self, other: ColumnSketch) -> bool:
        """Say whether two columns share values, more than any two columns would."""
        bound = min(self.bound, other.bound)
        one, two = (
            {v: n for v, n in zip(s.values, s.counts, strict=True) if v < bound}
            for s in (self, other)
        )
        least = min(len(one), len(two))
        if least < 8:
            return False
        # As many pairs of rows as two unrelated tables share, if values occur so often.
        chance = 2 * sqrt(
            prod(sum(n * (n - 1) / 2 for n in d.values()) for d in (one, two))
        )
        common = sum(min(times, two.get(value, 0)) for value, times in one.items())
        equal = sum(two.get(value) == times for value, times in one.items())
        return common >= 3 + 3 * chance or 2 * equal >= least

    def n_changed(self, other: ColumnSketch) -> int:
        """Return in about how many rows it differs; 0 only if all values are the same.

        A row that was changed takes its value out of one group, and adds to another.
        Several changes that fall into one group are made up for, as far as that goes.
        """
        groups = zip(self.buckets, other.buckets, strict=True)
        moved = zip(self.sizes, other.sizes, strict=True)
        touched = min(sum(one != two for one, two in groups), BUCKETS - 1)
        made_up = int(-BUCKETS * log1p(-touched / BUCKETS))
        return (max(made_up, sum(abs(one - two) for one, two in moved)) + 1) // 2

    def to_text(self) -> str:
        """Return it for a file."""
        words = (self.bound, *self.buckets, *self.sizes, *self.values, *self.counts)
        return b64encode(np.array(words, dtype="<u8").tobytes()).decode()

    @classmethod
    def of_text(cls, text: str) -> ColumnSketch:
        """Return what `to_text` wrote."""
        bound, *rest = read_row_fingerprints(text).tolist()
        head, tail = rest[: 2 * BUCKETS], rest[2 * BUCKETS :]
        return cls(
            bound=bound,
            buckets=tuple(head[:BUCKETS]),
            sizes=tuple(head[BUCKETS:]),
            values=tuple(tail[: len(tail) // 2]),
            counts=tuple(tail[len(tail) // 2 :]),
        )


@dataclass(frozen=True, eq=False, repr=False)
class TableFingerprints(Secret):
    """A table's fingerprints under one key.

    Attributes:
        frame: the table.
        keyed: the ledger's keyed hash.
        id_column: the column that says who a row is about, if there is one.

    Raises:
        InvalidInputError: the table lacks that column, or a row has no id.
    """

    frame: Frame
    keyed: Keyed
    id_column: str | None = None

    def __post_init__(self) -> None:
        name = self.id_column
        if name is None:
            return
        if name not in self.frame.columns:
            raise InvalidInputError(
                f"the table has no column {name!r} to know people by: its columns are "
                f"{listed_names([*self.frame.columns])}",
                code="unknown-id-column",
            )
        missing = int(self.frame[name].isna().sum())
        if missing:
            raise InvalidInputError(
                f"{missing} rows have no value in {name!r}, which says who they are "
                "about: fill it in, or name another column with --id",
                plain="some rows have no id",
                code="id-missing",
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in order, without the column of ids."""
        return tuple(sorted({*self.frame.columns} - {self.id_column}))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.frame)

    @cached_property
    def _whole(self) -> tuple[Words, dict[str, ColumnSketch]]:
        rows, sketches = np.zeros(self.n_rows, np.uint64), {}
        for name in self.columns:
            sketches[name] = _sketch_column_fingerprints(
                self._bits(name), self._key(name), rows
            )
        return rows, sketches

    @property
    def sketches(self) -> dict[str, ColumnSketch]:
        """One for each column."""
        return self._whole[1]

    @cached_property
    def ids(self) -> Words | None:
        """One number for each row, the same for rows of one person, if ids are known.

        The name of the column does not count.
        """
        if self.id_column is None:
            return None
        key = np.frombuffer(self.keyed(b"id"), dtype="<u8").astype(np.uint64)
        found = np.zeros(self.n_rows, np.uint64)
        _add_column_to_fingerprints(self._bits(self.id_column), key, found)
        return found

    @cached_property
    def _by_person(self) -> tuple[Array[np.intp], Array[np.intp]]:
        """The rows in the order of their ids, and where each person begins."""
        assert self.ids is not None
        order = np.argsort(self.ids, kind="stable")
        ids = self.ids[order]
        return order, np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]][: len(ids)])

    @cached_property
    def people(self) -> Words | None:
        """The different ids, in order of size."""
        if self.ids is None:
            return None
        order, first = self._by_person
        return self.ids[order[first]]

    def contents(self, columns: Sequence[str] | None = None) -> Words:
        """Return by person, in the order of `people`, a number for the values."""
        rows, (order, first) = self.unsorted(columns), self._by_person
        if not len(rows):
            return rows
        # Mixed once more: exchanged rows of two people are not made up for.
        return np.asarray(
            np.add.reduceat(_mix_fingerprint_bits(rows, _PLAIN)[order], first)
        )

    @cached_property
    def _parts(self) -> dict[tuple[str, ...], Words]:
        return {}

    @cached_property
    def _sorted(self) -> dict[tuple[str, ...], Words]:
        return {}

    def unsorted(self, columns: Sequence[str] | None = None) -> Words:
        """Return one number for each row, in the table's order."""
        if columns is None or tuple(columns) == self.columns:
            return self._whole[0]
        key = tuple(sorted(columns))
        if key not in self._parts:
            rows = np.zeros(self.n_rows, np.uint64)
            for name in key:
                _add_column_to_fingerprints(self._bits(name), self._key(name), rows)
            self._parts[key] = rows
        return self._parts[key]

    def rows(self, columns: Sequence[str] | None = None) -> Words:
        """Return one number for each row, in order of size; over some columns only."""
        key = self.columns if columns is None else tuple(sorted(columns))
        if key not in self._sorted:
            self._sorted[key] = _number_row_fingerprints(self.unsorted(key).copy())
        return self._sorted[key]

    @cached_property
    def data(self) -> str:
        """Fingerprint of the whole table, including ids; 64 hexadecimal digits."""
        rows = self._whole[0].copy()
        if (name := self.id_column) is not None:
            _add_column_to_fingerprints(self._bits(name), self._key(name), rows)
        names = "".join(f"{len(one)}:{one}" for one in sorted(self.frame.columns))
        content = b"".join(
            [names.encode(), b"\0", _number_row_fingerprints(rows).tobytes()]
        )
        return self.keyed(b"table\0" + content).hex()

    @cached_property
    def shapes(self) -> dict[str, ColumnSketch]:
        """One for each column of numbers that has one."""
        key = np.frombuffer(self.keyed(b"shape"), dtype="<u8").astype(np.uint64)
        found = {}
        for name in self.columns:
            words = _fingerprint_of_column_shape(self.frame[name])
            if len(words) >= SHAPED - 2:
                found[name] = _sketch_column_fingerprints(
                    words, key, np.zeros_like(words)
                )
        return found

    def _key(self, name: str) -> Words:
        found = self.keyed(b"column\0" + name.encode())
        return np.frombuffer(found, dtype="<u8").astype(np.uint64)

    def _bits(self, name: str) -> Words:
        if name == self.id_column:
            return self._id_bits
        return _fingerprint_bits_of_column(self.frame[name], self.keyed)

    @cached_property
    def _id_bits(self) -> Words:
        return _fingerprint_bits_of_column(self.frame[self.id_column], self.keyed)


def table_mark(source: FingerprintSource | Sequence[Array[Any]], keyed: Keyed) -> bytes:
    """Return what tells whether a job's data are the same as at another time.

    Of a table only the columns count that are asked about, in whatever order.
    """
    if not isinstance(source, FingerprintSource):
        parts = (
            repr((str(one.dtype), one.shape, one.tolist())).encode() for one in source
        )
        return keyed(b"arrays\0" + b"\0".join(parts))
    asked = [name for name in source.asked if name in source.frame.columns]
    frame = source.frame[asked] if asked else source.frame
    return keyed(TableFingerprints(frame, keyed).data.encode())


def read_row_fingerprints(text: str) -> Words:
    """Return fingerprints as a file has them."""
    return np.frombuffer(b64decode(text), dtype="<u8").astype(np.uint64)


def row_fingerprints_text(rows: Words) -> str:
    """Return fingerprints for a file."""
    return b64encode(rows.astype("<u8").tobytes()).decode()


def n_common_rows(one: Words, other: Words) -> int:
    """Return how many rows two tables share, by their sorted fingerprints."""
    both = np.concatenate([one, other])
    both.sort(kind="stable")  # two sorted parts: merged in one pass
    return int((both[1:] == both[:-1]).sum())


@dataclass(frozen=True)
class Difference:
    """People by whom one table differs from another.

    Attributes:
        new: people who are in the later one only.
        gone: people who are in the earlier one only.
        changed: people with other values.
    """

    new: int = 0
    gone: int = 0
    changed: int = 0

    def is_small(self, least: int) -> bool:
        """Say whether it is about few people, on any side on which there are some."""
        return any(0 < n < least for n in (self.new, self.gone, self.changed))


@dataclass(frozen=True, eq=False)
class KeptFingerprints:
    """Stored fingerprints of an earlier table.

    Attributes:
        columns: all columns, or those that a job used.
        rows: row fingerprints over these columns.
        sketches: sketches of these columns.
        shapes: shapes of those of these columns that have one.
        people: the distinct ids, sorted, if the table had ids.
        contents: a number for the values of each person.
        is_whole: whether these are all columns, so that equal values are one person.
    """

    columns: tuple[str, ...]
    rows: Words
    sketches: tuple[ColumnSketch, ...]
    shapes: tuple[ColumnSketch, ...] = ()
    people: Words | None = None
    contents: Words | None = None
    is_whole: bool = True

    def shares_people(self, now: TableFingerprints) -> bool:
        """Say whether a table has an id of an earlier one."""
        if self.people is None or now.people is None:
            return False
        return bool(np.isin(self.people, now.people, assume_unique=True).any())

    def difference(self, now: TableFingerprints, asked: Sequence[str]) -> Difference:
        """Return how many people are new, gone, or have other values than before.

        By their ids if both tables have any in common, and otherwise by their rows: a
        corrected row is then one that is gone, and a new one.
        """
        exact = {*self.columns} <= {*now.columns}
        if self.shares_people(now):
            return self._by_ids(now, asked, exact=exact)
        changed = self.n_changed(now, asked)
        if exact and (common := n_common_rows(now.rows(self.columns), self.rows)):
            new, gone = now.n_rows - common, len(self.rows) - common
            # What one column says by itself, if that is less.
            return Difference(new, gone, changed if changed < max(new, gone) else 0)
        return Difference(0, 0, changed)

    def _by_ids(
        self, now: TableFingerprints, asked: Sequence[str], *, exact: bool
    ) -> Difference:
        assert self.people is not None
        assert now.people is not None
        here = np.isin(now.people, self.people, assume_unique=True)
        still = np.isin(self.people, now.people, assume_unique=True)
        new, gone = int((~here).sum()), int((~still).sum())
        if exact and self.contents is not None:
            contents = now.contents(self.columns)
            changed = int((contents[here] != self.contents[still]).sum())
            renamed = 0
            if self.is_whole:
                # The same values under another id are the same person.
                renamed = n_common_rows(
                    _number_row_fingerprints(contents[~here]),
                    _number_row_fingerprints(self.contents[~still]),
                )
            return Difference(new - renamed, gone - renamed, changed)
        if new or gone:
            return Difference(new, gone, 0)
        moved = self._n_moved(now, asked) or []
        pairs = self._pairs(now, self.columns)
        estimates = [one.n_changed(two) for one, two in pairs] + moved
        return Difference(0, 0, min((n for n in estimates if n), default=0))

    def shares_rows(self, now: TableFingerprints) -> bool:
        """Say whether a table seems to be about some of the same rows.

        A row that is the same in all earlier columns is enough. A new column, or one
        whose values are all new, hides that; then what the columns hold is compared.
        """
        if self.shares_people(now):
            return True
        if {*self.columns} <= {*now.columns} and n_common_rows(
            now.rows(self.columns), self.rows
        ):
            return True
        pairs = self._pairs(now, self.columns)
        if any(one.resembles(other) for one, other in pairs):
            return True
        filled = [(one, two) for one, two in pairs if not one.is_constant]
        equal = sum(one.n_changed(two) == 0 for one, two in filled)
        return 2 * equal > len(filled)

    def n_changed(self, now: TableFingerprints, asked: Sequence[str]) -> int:
        """Return how few rows were changed, added or taken out.

        In the columns of the earlier question; and in each column of both questions by
        itself, if its values are fine enough to tell rows apart: another one whose
        values are all new would hide nobody.

        Args:
            now: the table.
            asked: which of its columns are asked about now.
        """
        longer, found = abs(now.n_rows - len(self.rows)), None
        if {*self.columns} <= {*now.columns}:
            common = n_common_rows(now.rows(self.columns), self.rows)
            found = max(now.n_rows, len(self.rows)) - common if common else None
        if found is None:
            pairs = self._pairs(now, self.columns)
            changed = [one.n_changed(two) for one, two in pairs]
            moved = self._n_moved(now, asked)
            if moved is not None:
                # One whose values are nearly all new would hide nobody.
                changed = [min((n for n in moved if n), default=0)]
            found = max((longer, *changed))
        both = self._pairs(now, [one for one in self.columns if one in asked])
        fine = [
            max(longer, one.n_changed(two))
            for one, two in both
            if one.is_fine and two.is_fine and one != two
        ]
        # A column's number is rough: what counts is that it is far from the rows'.
        return min((found, *(n for n in fine if 2 * n < found)))

    def _n_moved(
        self, now: TableFingerprints, asked: Sequence[str]
    ) -> list[int] | None:
        """Return in how many rows columns differ that are known by their shapes."""
        found = []
        for name in asked:
            if (shape := now.shapes.get(name)) is None:
                continue
            entries = sum(shape.sizes)
            n_changed = [shape.n_changed(one) for one in self.shapes]
            # Half of all entries are the same: that is no accident.
            near = [n for n in n_changed if 4 * n <= entries]
            if near:
                found.append(-(-min(near) // ENTRIES_OF_A_ROW))
        return found or None

    def _pairs(
        self, now: TableFingerprints, columns: Sequence[str]
    ) -> list[tuple[ColumnSketch, ColumnSketch]]:
        mine = dict(zip(self.columns, self.sketches, strict=True))
        here = now.sketches
        return [(here[one], mine[one]) for one in columns if one in here]


def _fingerprint_of_column_shape(column: Any) -> Words:
    """Return an entry for every three neighbouring values of a column of numbers."""
    pandas = load_pandas()
    codes, named = pandas.factorize(column)
    if len(named) < SHAPED:
        return np.zeros(0, np.uint64)
    if getattr(column.array.dtype, "kind", "O") in "mM":
        named = named.astype("int64")
    values = pandas.to_numeric(pandas.Series(named).astype(object), errors="coerce")
    levels, place = np.unique(values.to_numpy(np.float64), return_inverse=True)
    times = np.bincount(place.ravel()[codes[codes >= 0]], minlength=len(levels))
    finite = np.isfinite(levels)
    levels, times = levels[finite], times[finite]
    if len(levels) < SHAPED:
        return np.zeros(0, np.uint64)
    gaps = np.diff(levels)
    # A mirrored column has the same entries. Rounding stays below a thousandth.
    ratios = np.rint(1000 * np.abs(np.log(gaps[1:] / gaps[:-1]))).astype(np.uint64)
    ends = np.minimum(times, 0xFFFF).astype(np.uint64)
    low, high = np.minimum(ends[:-2], ends[2:]), np.maximum(ends[:-2], ends[2:])
    made = ratios
    for part in (ends[1:-1], low, high):
        made = (made << np.uint64(16)) | part
    return made


def _number_row_fingerprints(rows: Words) -> Words:
    """Return fingerprints sorted and all different: equal rows are counted through."""
    rows.sort()
    again = np.flatnonzero(rows[1:] == rows[:-1]) + 1
    if not len(again):
        return rows
    place = np.arange(len(rows))
    start = place.copy()
    start[again] = 0
    earlier = (place - np.maximum.accumulate(start)).astype(np.uint64)
    made = rows + earlier * _AGAIN
    made.sort()
    return made


def _add_column_to_fingerprints(bits: Words, key: Words, rows: Words) -> None:
    """Add a column's hashes to its rows'."""
    for low in range(0, len(bits), BLOCK):
        part = slice(low, low + BLOCK)
        rows[part] += _mix_fingerprint_bits(bits[part], key)


def _sketch_column_fingerprints(bits: Words, key: Words, rows: Words) -> ColumnSketch:
    """Add a column's hashes to its rows', and return the column's sketch."""
    buckets, sizes = np.zeros(BUCKETS), np.zeros(BUCKETS, np.int64)
    limit = 2**64 - 1
    if len(bits) > CANDIDATES:
        limit = (2**64 // len(bits)) * CANDIDATES
    candidates = []
    for low in range(0, len(bits), BLOCK):
        part = slice(low, low + BLOCK)
        hashed = _mix_fingerprint_bits(bits[part], key)
        rows[part] += hashed
        # So few bits that a sum over 2^29 rows is exact, in whatever order.
        small = (hashed & np.uint64(0xFFFFFF)).astype(np.float64)
        which = (hashed >> np.uint64(56)).astype(np.intp)
        buckets += np.bincount(which, small, BUCKETS)
        sizes += np.bincount(which, minlength=BUCKETS)
        candidates.append(hashed[hashed < np.uint64(limit)])
    values, counts = np.unique(np.concatenate(candidates or [bits]), return_counts=True)
    bound = int(values[KEPT]) if len(values) > KEPT else limit
    return ColumnSketch(
        buckets=tuple(int(one) for one in buckets),
        sizes=tuple(sizes.tolist()),
        values=tuple(values[:KEPT].tolist()),
        counts=tuple(counts[:KEPT].tolist()),
        bound=bound,
    )


def _mix_fingerprint_bits(bits: Words, key: Words) -> Words:
    """Return a keyed hash of each word, well mixed."""
    found = bits ^ key[0]
    for times, more in zip(_MULTIPLIERS, key[1:3], strict=True):
        found ^= found >> _SHIFT
        found *= times
        found += more
    found ^= found >> _SHIFT
    return found


def _fingerprint_bits_of_column(column: Any, keyed: Keyed) -> Words:
    """Return each cell of a column as 64 bits; equal cells have equal ones."""
    pandas = load_pandas()
    values: Any = column.array
    kind = getattr(values.dtype, "kind", "O")
    if isinstance(values.dtype, pandas.CategoricalDtype):
        codes, levels = values.codes, values.categories
        return _fingerprint_bits_by_level(
            codes, _fingerprint_bits_of_column(levels.to_series(), keyed)
        )
    if kind in "mM":
        values, kind = values.astype("int64").astype("float64"), "f"
    if kind in "biuf":
        return _fingerprint_bits_of_numbers(
            pandas.Series(values).to_numpy(np.float64, na_value=np.nan)
        )
    codes, levels = pandas.factorize(np.asarray(values, dtype=object))
    return _fingerprint_bits_by_level(
        codes, _fingerprint_bits_of_texts(pandas, levels, keyed)
    )


def _fingerprint_bits_by_level(codes: Array[Any], levels: Words) -> Words:
    """Return the levels' bits cell by cell; the code -1 stands for a missing cell."""
    return np.append(levels, MISSING)[codes]


def _fingerprint_bits_of_numbers(values: Array[np.float64]) -> Words:
    """Return the bits of numbers; zero has one sign, and no number is missing."""
    found = (values + 0.0).view(np.uint64)
    gaps = np.isnan(values)
    if gaps.any():
        found[gaps] = MISSING
    return found


# Whether no number and no truth begins with a character; the last stands for more.
_NEVER_A_NUMBER = np.array(
    [chr(k) in {*ascii_letters} - {*"fFiInNtT"} for k in range(129)]
)
# How a column of truths may have been written.
_TRUTHS = {"true": "1", "false": "0"}


def _fingerprint_bits_of_texts(pandas: Any, levels: Array[Any], keyed: Keyed) -> Words:
    """Return bits for texts; one that reads as a number has the number's."""
    texts = np.array([str(one) for one in levels], dtype=object)
    if not len(texts):
        return np.zeros(0, np.uint64)
    # 128 bits cannot be handed over as letters; 96 can.
    key = b64encode(keyed(b"texts")[:12]).decode()
    found = pandas.util.hash_array(texts, hash_key=key, categorize=False)
    first = np.minimum(texts.astype("U1").view(np.uint32), len(_NEVER_A_NUMBER) - 1)
    plain = {
        place: _TRUTHS.get(texts[place].lower(), texts[place].replace(",", ".", 1))
        for place in np.flatnonzero(~_NEVER_A_NUMBER[first]).tolist()
    }
    series = pandas.Series(plain, dtype=object)
    readable = pandas.to_numeric(series, errors="coerce").notna()
    numbers = {}
    for place, text in series[readable].items():
        with suppress(ValueError):
            numbers[place] = float(text)
    found = np.array(found, dtype=np.uint64)
    found[[*numbers]] = _fingerprint_bits_of_numbers(
        np.array([*numbers.values()], dtype=np.float64)
    )
    return found
