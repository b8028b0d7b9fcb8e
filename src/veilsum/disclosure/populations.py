"""Populations of questions about two data cuts, compared person by person (rule R1).

The population of a question is the rows of a cut that it uses: complete in its columns.
The rows of each group, and those with each level of a covariate or a response, are
populations too: numbers are summed over them. The difference of two sums is about the
people in one population and not in the other. Each of these two sets is empty or large
enough.

Several populations can leave few people though any two differ in enough: all, women,
nurses, and women who are nurses. Differences over two cuts add people to that. So the
combinations of all populations of all cuts are looked at as well.

Bins, times and cells of questions that only count are not compared here: a difference
of counts shows no number of anybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.leverage import concentration_of_parts_together
from veilsum.numbers.arrays import Array
from veilsum.numbers.secrets import Secret
from veilsum.tables.asked import TableQuestion
from veilsum.tables.fingerprints import TableFingerprints, Words
from veilsum.tables.frames import Frame
from veilsum.tables.schema import Schema
from veilsum.tables.survival import group_column_of_formula, survival_columns

# Equal rows are told apart by how many came before.
_AGAIN = np.uint64(0x9E3779B97F4A7C15)
# A combination of populations with this share on one person is about that person.
_LARGEST_SHARE = 0.98


@dataclass(frozen=True, eq=False, repr=False)
class AskedCut(Secret):
    """A data cut and the questions to it.

    Attributes:
        prints: the fingerprints of its table.
        asked: the questions, each with the table as its schema reads it.
    """

    prints: TableFingerprints
    asked: tuple[tuple[TableQuestion, Frame], ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the questions are about."""
        names = (question.schema["columns"] for question, _ in self.asked)
        return frozenset(name for one in names for name in one)

    def populations(self, party: str) -> dict[frozenset[str], list[Array[np.bool_]]]:
        """Return by variables which rows each population has."""
        found: dict[frozenset[str], list[Array[np.bool_]]] = {}
        for question, frame in self.asked:
            for variables, rows in _populations(question, party, frame):
                found.setdefault(variables, []).append(rows)
        return found


@dataclass(frozen=True)
class SmallDifference:
    """Two populations that differ by few people.

    Attributes:
        words: the variables that make the later population.
        new: people who are only in the later one.
        gone: people who are only in the earlier one.
    """

    words: tuple[str, ...]
    new: int
    gone: int


def small_difference(
    earlier: AskedCut, now: AskedCut, party: str, least: int
) -> SmallDifference | None:
    """Return two populations of two cuts that differ by fewer than `least` people.

    Args:
        earlier: a cut that was asked about.
        now: the cut that is to be asked about.
        party: the owner.
        least: the number of people on a side that is enough.
    """
    before, after = earlier.populations(party), now.populations(party)
    here = {*earlier.prints.columns} & {*now.prints.columns}
    common = sorted(here & earlier.columns)
    for old, new in _identities(earlier.prints, now.prints, common):
        _, mine, theirs = np.intersect1d(
            old, new, assume_unique=True, return_indices=True
        )
        for variables in sorted(before.keys() & after.keys(), key=sorted):
            one = np.column_stack(before[variables]).astype(np.float64)
            two = np.column_stack(after[variables]).astype(np.float64)
            both = one[mine].T @ two[theirs]
            gone = np.rint(one.sum(axis=0)[:, None] - both).astype(np.int64)
            more = np.rint(two.sum(axis=0)[None, :] - both).astype(np.int64)
            small = ((gone > 0) & (gone < least)) | ((more > 0) & (more < least))
            # Populations that have nobody in common are not compared.
            small &= both > 0
            if small.any():
                k, j = np.argwhere(small)[0]
                words = tuple(sorted(variables))
                return SmallDifference(words, int(more[k, j]), int(gone[k, j]))
    return None


def few_left_together(
    earlier: Sequence[AskedCut], own: AskedCut, now: AskedCut, party: str, least: int
) -> int:
    """Return the number of people left by populations of all cuts together.

    It is 0 if there are enough of them, or if the earlier questions, or those of this
    cut alone, leave the same people.

    Args:
        earlier: other cuts that were asked about.
        own: the cut that is to be asked about, with what was asked of it before.
        now: the same, with the questions that are to be asked.
        party: the owner.
        least: the number of people that is enough.
    """
    cuts = (*earlier, own, now)
    populations = [
        [rows for some in one.populations(party).values() for rows in some]
        for one in cuts
    ]
    columns = frozenset[str]().union(*(one.columns for one in earlier))
    common = sorted(columns.intersection(*(one.prints.columns for one in cuts)))
    for words in _all_identities([one.prints for one in cuts], common):
        union, places = np.unique(np.concatenate(words), return_inverse=True)
        starts = np.cumsum([0, *(len(one) for one in words)])
        flags, owners = dict[bytes, Array[np.bool_]](), dict[bytes, set[int]]()
        for number, some in enumerate(populations):
            people = places[starts[number] : starts[number + 1]]
            for rows in some:
                whole = np.zeros(len(union), dtype=np.bool_)
                whole[people[rows]] = True
                key = np.packbits(whole).tobytes()
                flags[key] = whole
                owners.setdefault(key, set()).add(number)
        last = len(cuts) - 1
        before = [k for k, one in enumerate(owners.values()) if one != {last}]
        alone = [k for k, one in enumerate(owners.values()) if one & {last - 1, last}]
        if len(before) == len(flags):
            continue
        found = concentration_of_parts_together(
            np.column_stack([*flags.values()]).astype(np.float64),
            [before, alone],
            _LARGEST_SHARE,
            least - 1,
        )
        if found is not None:
            return len(found.rows)
    return 0


def _all_identities(
    prints: Sequence[TableFingerprints], columns: Sequence[str]
) -> Iterator[list[Words]]:
    """Yield words for the rows of all tables: people if all have ids, and contents."""
    ids = [one.ids for one in prints if one.ids is not None]
    if len(ids) == len(prints):
        yield [_apart(one) for one in ids]
    if columns:
        values = [one.unsorted(columns) for one in prints]
        if len(ids) == len(prints):
            values = [one + more for one, more in zip(ids, values, strict=True)]
        yield [_apart(one) for one in values]


def _identities(
    old: TableFingerprints, new: TableFingerprints, columns: Sequence[str]
) -> Iterator[tuple[Words, Words]]:
    """Yield words by which rows of two tables are the same: people, then contents."""
    if old.ids is not None and new.ids is not None:
        yield _apart(old.ids), _apart(new.ids)
        values = old.unsorted(columns), new.unsorted(columns)
        yield _apart(old.ids + values[0]), _apart(new.ids + values[1])
        return
    if columns:
        yield _apart(old.unsorted(columns)), _apart(new.unsorted(columns))


def _apart(rows: Words) -> Words:
    """Return words that are all different, in the order of the rows."""
    order = np.argsort(rows, kind="stable")
    ranked = rows[order]
    place = np.arange(len(rows))
    start = np.where(np.r_[True, ranked[1:] != ranked[:-1]][: len(rows)], place, 0)
    earlier = (place - np.maximum.accumulate(start)).astype(np.uint64)
    found = np.empty_like(rows)
    found[order] = ranked + earlier * _AGAIN
    return found


def _populations(
    question: TableQuestion, party: str, frame: Frame
) -> Iterator[tuple[frozenset[str], Array[np.bool_]]]:
    """Yield which rows a question, its groups and its levels are about."""
    groups = {question.by}
    try:
        if question.survival is not None:
            made = Schema.from_table(question.schema)
            groups.add(
                group_column_of_formula(survival_columns(question.survival, made), made)
            )
        for variables, values in question.made(party, frame):
            counted = question.merges and not variables <= groups
            if not counted and np.isin(values, (0.0, 1.0)).all():
                yield variables, np.asarray(values, dtype=np.bool_)
        for variables, values in question.responses(party, frame):
            if np.isin(values, (0.0, 1.0)).all():
                yield variables, np.asarray(values, dtype=np.bool_)
    except InvalidInputError:
        return  # the table does not fit the question, and nothing is summed
