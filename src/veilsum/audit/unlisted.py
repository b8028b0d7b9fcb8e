"""Numbers beside the list: does a party mask anything that the list does not name?

A recipe lists what each round releases, and people agree to that list. Here made-up
parties answer, and their vectors are compared with it, number by number:

- a kind of round has no more places that are not zero, at any party in any run, than
  numbers are listed: the rest is padding, and padding is zero;
- rounds are those that were foreseen, and together no longer than was foreseen;
- a first round that counts parties has zeros and ones only;
- a vector is what the job itself makes of the table and the request, and padding;
- where a vector is a sum over rows, two parts of a table add up to the whole;
- columns that the question does not name change nothing;
- rows left out are counted, and their other columns change nothing.

A listed number that is replaced by another sum over the same rows is not found here: it
changes the answer, which tests compare with other programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from veilsum.audit.attack import Outcome
from veilsum.audit.question import (
    AuditRehearsal,
    Holdings,
    RehearsedAnswer,
    SkippedAttack,
    attack_total,
)
from veilsum.errors import VeilsumError
from veilsum.sums.presence import presence_sum_size
from veilsum.sums.releases import SumRelease
from veilsum.tables.frames import Frame, load_pandas

ATTACK = "numbers beside the list"
# Rows with a gap that the k-th party has more than the one before it.
GAPS = 2

Kind: TypeAlias = tuple[tuple[str, int], ...]


def play(
    question: AuditRehearsal, *, coalition: Sequence[str], seed: int, trials: int
) -> Iterator[Outcome | SkippedAttack | str]:
    """Compare what parties mask with the list of released numbers.

    Every party's vector is compared, with other made-up rows in each trial.
    """
    filled: dict[Kind, set[int]] = {}
    wrong, words = 0, dict[str, None]()
    for trial in range(trials):
        sizes = {
            name: (5 + k) * question.size[0] // 4
            for k, name in enumerate(question.parties)
        }
        held, played = question.sound((seed, trial, 5), sizes)
        if not played.totals:
            yield SkippedAttack(ATTACK, "the method releases no sums")
            return
        chance = np.random.default_rng((seed, trial, 6))
        found = [
            *_unlisted_rounds(played, filled),
            *_unlisted_audit_numbers(played),
            *_unlisted_in_party_counts(question, played),
            *_beside_the_job(question, played, held),
            *_not_by_row(question, played, held, chance),
            *_unlisted_columns_that_matter(question, played, held, (seed, trial, 7)),
            *_unlisted_in_left_out_rows(question, played, held, filled),
        ]
        wrong += bool(found)
        words |= dict.fromkeys(found)
    about = "a masked number that the list of released numbers does not name"
    yield Outcome(ATTACK, tuple(coalition), about, trials, wrong, 0.0, "sums")
    yield from (f"{ATTACK}: {one}" for one in words)


def _audited_releases(played: RehearsedAnswer) -> list[SumRelease]:
    return [
        played.result.recipe.release(played.sums[:k]) for k in range(len(played.sums))
    ]


def _unlisted_rounds(
    played: RehearsedAnswer, filled: dict[Kind, set[int]]
) -> Iterator[str]:
    """Yield rounds with more numbers than are listed; `filled` has earlier runs'."""
    for release, given in zip(_audited_releases(played), played.given, strict=True):
        places = filled.setdefault(tuple(release.statistics.items()), set())
        for vector in given.values():
            places |= {place for place, number in enumerate(vector) if number}
        if len(places) > release.numbers:
            yield (
                f"in rounds of {release.job} that list {release.numbers} numbers, "
                f"{len(places)} are not zero"
            )


def _unlisted_audit_numbers(played: RehearsedAnswer) -> Iterator[str]:
    recipe, shown = played.result.recipe, _audited_releases(played)
    if recipe.request(played.sums) is not None:
        yield "the run ended before the last round that its recipe asks for"
    if sum(one.numbers for one in shown) > recipe.most_numbers:
        yield "all rounds together list more numbers than were foreseen"
    if played.plan.size != recipe.size:
        yield "vectors are longer than the recipe says"
    least, most = Counter[Kind](), Counter[Kind]()
    for one in recipe.foreseen:
        least[tuple(one.statistics.items())] += one.least
        most[tuple(one.statistics.items())] += one.most
    took = Counter(tuple(one.statistics.items()) for one in shown)
    for kind in {*least, *took}:
        if not least[kind] <= took[kind] <= most[kind]:
            yield "a round was not foreseen, or one that was foreseen did not come"


def _unlisted_in_party_counts(
    question: AuditRehearsal, played: RehearsedAnswer
) -> Iterator[str]:
    """Yield what a first round that counts parties has beside zeros and ones."""
    if not question.screened(played):
        return
    recipe: Any = played.result.recipe
    if presence_sum_size(recipe.groups) != recipe.release(()).numbers:
        yield "the first round asks for other numbers than are listed"
    if not {one for vector in played.given[0].values() for one in vector} <= {0, 1}:
        yield "the first round counts parties, and a number is neither 0 nor 1"


def _beside_the_job(
    question: AuditRehearsal, played: RehearsedAnswer, held: Holdings
) -> Iterator[str]:
    for name, own in held.items():
        direct = question.direct(played, own)
        if direct is not None and direct != [one[name] for one in played.given]:
            yield f"{name} masks other numbers than the job makes of its table"


def _not_by_row(
    question: AuditRehearsal,
    played: RehearsedAnswer,
    held: Holdings,
    chance: np.random.Generator,
) -> Iterator[str]:
    """Yield parties of whose table two parts do not add up to the whole."""
    if question.schema is None or not question.by_row:
        return
    for name, own in held.items():
        first = chance.random(len(own)) < 0.5
        try:
            both = [question.direct(played, own[some]) for some in (first, ~first)]
        except VeilsumError:
            continue  # so few rows come to nothing
        whole = question.direct(played, own)
        assert whole is not None
        rounds = zip(*(one for one in both if one), strict=True)
        parts = [attack_total(played.law, one) for one in rounds]
        start = question.screened(played)  # a first round counts parties
        if parts[start:] != whole[start:]:
            yield f"what {name} masks is not a sum over its rows"


def _unlisted_columns_that_matter(
    question: AuditRehearsal, played: RehearsedAnswer, held: Holdings, seed: Any
) -> Iterator[str]:
    """Yield parties whose vector changes with a column that is not asked about."""
    if question.schema is None:
        return
    used = set(question.job(played).schema.names)
    unused = [one for one in question.schema.names if one not in used]
    if not unused:
        return
    for k, (name, own) in enumerate(held.items()):
        other = question.held((seed, k), len(own), question.size[1])
        changed = own.assign(**{one: other[one].to_numpy() for one in unused})
        before, after = question.given(played, [own, changed])
        if before != after:
            yield f"what {name} masks changes with a column that is not asked about"


def _unlisted_in_left_out_rows(
    question: AuditRehearsal,
    played: RehearsedAnswer,
    held: Holdings,
    filled: dict[Kind, set[int]],
) -> Iterator[str]:
    """Yield what is wrong with rows that have a gap: only their number may show."""
    if question.schema is None:
        return
    if _audited_rows_left_out(played) not in (None, 0):
        yield "rows are counted as left out, and all rows are whole"
    column = question.job(played).schema.names[0]
    many = {name: GAPS * (k + 1) for k, name in enumerate(question.parties)}
    runs = [
        question.ask(
            {
                name: _table_with_gaps_for_audit(own, many[name], column, last=last)
                for name, own in held.items()
            }
        ).played
        for last in (False, True)
    ]
    if runs[0] is None or runs[1] is None:
        return  # a rule refuses them, and says so
    dropped = _audited_rows_left_out(runs[0])
    if dropped in (None, 0) or getattr(runs[0].result, "on_own_rows", False):
        return  # such rows are not left out: other columns count
    yield from _unlisted_rounds(runs[0], filled)
    if dropped != sum(many.values()):
        yield "the number of rows left out is another one"
    if runs[0].totals != runs[1].totals:
        yield "rows that are left out change a total by more than their number"


def _audited_rows_left_out(played: RehearsedAnswer) -> int | None:
    return getattr(played.result, "dropped", None)


def _table_with_gaps_for_audit(
    own: Frame, many: int, column: str, *, last: bool
) -> Frame:
    """Return a table with some rows more, of which one column is missing.

    `last`: other columns are copied from the last rows, else from the first.
    """
    rows: Any = own.iloc[-many:] if last else own.iloc[:many]
    # An object column keeps its numbers beside None.
    gaps = rows.assign(**{column: np.full(len(rows), None, dtype=object)})
    return load_pandas().concat([own.astype({column: object}), gaps], ignore_index=True)
