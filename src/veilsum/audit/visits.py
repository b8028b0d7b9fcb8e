"""Guests' visits: what members, the host and some guests together see of one guest.

A guest splits its numbers into one share for each delegate and a masked rest. Delegates
that collude have the rest and all shares but those of honest ones; the host is one of
them, and so are the guests that they invited. What they make of it is played on guests
that are made up, whose keys and tables the auditor knows, with the program that guests
in Python have. Its chance comes from a tape, so that a second world can be given the
shares of the first, moved: by what the guest's numbers moved, at one honest delegate.
What guests and delegates draw from the system is looked at, too: shares, keys and
invitations are then made by the calls that people make, with nothing handed in.

What is sealed to an honest delegate stays closed here: HPKE is not attacked. A page in
a browser is another program; its own tests put its submissions beside these.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from hashlib import shake_256
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np

from veilsum.audit.attack import FALSE_ALARMS, Outcome
from veilsum.audit.auditing import MORE, AuditControl, attack_rate_in_percent
from veilsum.audit.made_up import LUCK
from veilsum.audit.question import SkippedAttack
from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import listed_names
from veilsum.numbers.secrets import Secret
from veilsum.scale.pieces import seed_of_piece
from veilsum.surveys.delegate import SurveyDelegateStore
from veilsum.surveys.submission import (
    WORD_BYTES,
    SurveySubmission,
    X25519PrivateKey,
    guest_submission,
    make_submission,
    new_invitation_code,
    open_sealed_share,
    survey_cell_words,
    survey_guest_key,
)
from veilsum.surveys.survey_set import is_submission_resent
from veilsum.surveys.terms import SurveyTerms, Words, guest_table_of

# Bytes as a guest's program asks for them, call after call.
Source: TypeAlias = Callable[[int], bytes]
# What one guest has in each cell, in units; None where it is empty.
Table: TypeAlias = tuple[int | None, ...]
# Of two guests.
Tables: TypeAlias = tuple[Table, Table]
Coalition: TypeAlias = tuple[str, ...]

# So many guests and labels stand for all: guests of one member are drawn alike.
MOST_GUESTS, MOST_LABELS = 60, 8
# How far numbers are made up; float64 holds them in any unit.
REACH = 1_000_000
# A trial of these compares or solves; a few of them tell.
FEW = 20
# The state of a browser's generator, and what one call shows of it.
STATE_BITS, CALL_BITS = 128, 32
RING = 1 << 64
# Words of which chance leaves no bit the same in all.
ENOUGH = 64


# What becomes of the program's chance, by guest and number.
Spoiling: TypeAlias = Callable[[Source, str, int], Source]


def unspoilt_browser_chance(source: Source, guest: str, number: int) -> Source:
    del guest, number
    return source


# Guests that are made up


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AuditedVisits(Secret):
    """A survey with guests that are nobody, and how their program and host behave.

    Attributes:
        terms: of the survey, with keys that the auditor has made.
        keys: by delegate.
        spoil: what becomes of the program's chance, by guest and number; a planted leak
            changes it.
        takes: how the host decides whether something was there already.
    """

    terms: SurveyTerms
    codes: Mapping[str, str]
    keys: Mapping[str, X25519PrivateKey]
    spoil: Spoiling = unspoilt_browser_chance
    takes: Callable[[Sequence[SurveySubmission], SurveySubmission], bool] = (
        is_submission_resent
    )

    @classmethod
    def like(cls, terms: SurveyTerms) -> AuditedVisits:
        """Return a survey as this one is, of guests and delegates with other keys."""
        each = max(1, MOST_GUESTS // len(terms.names))
        chosen = [
            guest
            for name in terms.names
            for guest in islice(
                (one for one in terms.guests if one.invited_by == name), each
            )
        ]
        codes = {guest.name: new_invitation_code() for guest in chosen}
        public = {
            name: survey_guest_key(code).public_key() for name, code in codes.items()
        }
        keys = {name: X25519PrivateKey.generate() for name in terms.names}
        made = replace(
            terms,
            rows=terms.rows[:MOST_LABELS],
            columns=terms.columns[:MOST_LABELS],
            guests=tuple(
                replace(one, key=public[one.name].public_bytes_raw()) for one in chosen
            ),
            delegates=tuple(
                (name, key.public_key().public_bytes_raw())
                for name, key in keys.items()
            ),
            set=None,
            tally=None,
        )
        return cls(terms=made, codes=codes, keys=keys)

    def come(
        self, guest: str, table: Table, source: Source, number: int = 1
    ) -> SurveySubmission:
        """Return what a guest sends, its chance taken from a source."""
        words = guest_table_of(self.terms, self._cells(table))
        key, chance = (
            survey_guest_key(self.codes[guest]),
            self.spoil(source, guest, number),
        )
        return make_submission(self.terms, guest, key, words, number, chance)

    def come_by_itself(self, guest: str, table: Table) -> SurveySubmission:
        """Return what a guest sends, by the call that guests make.

        A planted leak is in a source, and has to be handed one.
        """
        if self.spoil is not unspoilt_browser_chance:
            return self.come(guest, table, secrets.token_bytes)
        return guest_submission(self.terms, self.codes[guest], self._cells(table))

    def _cells(self, table: Table) -> list[list[float | None]]:
        width, unit = len(self.terms.columns), self.terms.unit
        plain = [None if one is None else float(one * unit) for one in table]
        return [plain[at : at + width] for at in range(0, len(plain), width)]

    @property
    def n_words(self) -> int:
        guest = next(iter(self.codes))
        return len(
            self.come(
                guest, (None,) * self.terms.n_cells, seeded_browser_chance(0)
            ).words
        )

    def share(self, sent: SurveySubmission, delegate: str) -> Words:
        return open_sealed_share(self.terms, sent, delegate, self.keys[delegate])

    def left(self, sent: SurveySubmission, coalition: Coalition) -> Words:
        """Return what a coalition is left with: the rest, and its own shares on it."""
        found = sent.words.copy()
        for name in coalition:
            found += self.share(sent, name)  # wraps around, as it should
        return found

    def come_moved(
        self, sent: SurveySubmission, before: Table, after: Table, delegate: str
    ) -> SurveySubmission:
        """Return what a guest sends with other numbers and shares as likely as those.

        One delegate's share is moved by what the table is.
        """
        shares = {name: self.share(sent, name) for name in self.terms.names}
        apart = [(b or 0) - (a or 0) for a, b in zip(before, after, strict=True)]
        moved = shares[delegate][-len(apart) :]
        moved += np.array(apart, dtype=np.int64).view(np.uint64)
        drawn = [one.astype("<u8").tobytes() for one in shares.values()]
        return self.come(sent.guest, after, browser_chance_of_shares(drawn))

    def value(self, words: Words, cell: int) -> int:
        """Return the word that a cell's number is in; they are the last ones."""
        return int(words[len(words) - self.terms.n_cells + cell])

    def honest(self, coalition: Coalition) -> Coalition:
        return tuple(name for name in self.terms.names if name not in coalition)

    def hidden(self, coalition: Coalition) -> tuple[str, ...]:
        """Return guests whom the coalition did not invite, without those tolerated."""
        found = [
            one.name for one in self.terms.guests if one.invited_by not in coalition
        ]
        return tuple(found[: max(0, len(found) - self.terms.tolerate_guests)])

    def tables(self, chance: np.random.Generator) -> tuple[Tables, Tables]:
        """Return what two guests have in either world: the same sums, cell by cell.

        The first leaves the last cell empty, in both worlds alike.

        Raises:
            InvalidInputError: the range has one number only.
        """
        terms = self.terms
        base = min(max(0, terms.least), terms.most)
        low = base if terms.most > base else max(terms.least, base - REACH)
        reach = min(terms.most - low, REACH)
        if reach < 1:
            raise InvalidInputError(
                "every number is the same, and none is to be told",
                code="constant-numbers",
            )
        half, cells = max(1, reach // 2), terms.n_cells
        one = low + chance.integers(0, reach - half, cells, endpoint=True)
        other = low + chance.integers(half, reach, cells, endpoint=True)
        moved = np.full(cells, half)
        if cells > 1:
            moved[-1] = 0
        empty = (cells - 1,) if cells > 1 else ()
        return (
            (_audited_guest_table(one, empty), _audited_guest_table(other)),
            (
                _audited_guest_table(one + moved, empty),
                _audited_guest_table(other - moved),
            ),
        )


def _audited_guest_table(counts: Any, empty: tuple[int, ...] = ()) -> Table:
    plain = counts.tolist()
    return tuple(None if k in empty else plain[k] for k in range(len(plain)))


def seeded_browser_chance(*seed: Any) -> Source:
    """Return chance of a seed: other bytes with every call, the same ones again."""
    calls = 0

    def draw(size: int) -> bytes:
        nonlocal calls
        calls += 1
        return shake_256(repr((*seed, calls)).encode()).digest(size)

    return draw


def browser_chance_of_shares(shares: Sequence[bytes]) -> Source:
    """Return chance that is these shares, one a call; other sizes are refused."""
    left = list(shares)

    def draw(size: int) -> bytes:
        found = left.pop(0) if left else b""
        if len(found) != size:
            raise InvalidInputError(
                "a guest's program draws something else than one share a delegate",
                code="unexpected-draws",
            )
        return found

    return draw


# Attacks


@dataclass(frozen=True, kw_only=True)
class VisitsAttack:
    """Attack by the host and a coalition on two guests that others invited."""

    visits: AuditedVisits
    coalition: Coalition
    pair: tuple[str, str]
    seed: int
    trials: int

    def chance(self, trial: int, what: str) -> np.random.Generator:
        return np.random.default_rng(seed_of_piece(self.seed, f"{what}/{trial}"))

    def outcome(
        self, attack: str, about: str, hits: Sequence[bool], promised: float
    ) -> Outcome:
        return Outcome(
            attack=attack,
            coalition=self.coalition,
            about=about,
            trials=len(hits),
            successes=sum(map(bool, hits)),
            promised=promised,
        )


def attack_one_cell(aim: VisitsAttack) -> Outcome:
    """Guess which of two tables a guest has, from all but the honest shares.

    What is left over is its number less the honest shares: uniform, if one of those is.
    """
    visits, (guest, _), hits = aim.visits, aim.pair, []
    for trial in range(aim.trials):
        chance = aim.chance(trial, "cell")
        worlds = [tables[0] for tables in visits.tables(chance)]
        world = int(chance.integers(2))
        sent = visits.come(
            guest, worlds[world], seeded_browser_chance(aim.seed, "cell", trial)
        )
        seen = visits.value(visits.left(sent, aim.coalition), 0)
        apart = [
            abs(_centred_ring_number(seen - one[0]))
            for one in worlds
            if one[0] is not None
        ]
        hits.append(int(apart[1] < apart[0]) == world)
    return aim.outcome(
        "one guest's number", "which of two, with the host's help", hits, 0.5
    )


def attack_weak_shares(aim: VisitsAttack) -> Outcome:
    """Look for words that chance would not make, in shares drawn from the system.

    Every delegate's are looked at: a coalition sees some, and the others are as good.
    """
    visits, (guest, _), rows = aim.visits, aim.pair, []
    for trial in range(aim.trials):
        table = visits.tables(aim.chance(trial, "weak"))[0][0]
        sent = visits.come_by_itself(guest, table)
        seen = [visits.share(sent, name) for name in visits.terms.names]
        rows.append(np.concatenate([*seen, sent.words]))
    words = np.stack(rows)
    _, place, count = np.unique(words, return_inverse=True, return_counts=True)
    odd = np.asarray((count[place].reshape(words.shape) > 1).any(axis=1))
    # A bit that is never 1, or always: in all shares, and in one word of them.
    shares = words[:, : -len(sent.words)]
    together = shares.reshape(-1, 1)
    for some in (together, words if len(words) >= ENOUGH else together):
        ones, zeros = np.bitwise_and.reduce(some), ~np.bitwise_or.reduce(some)
        if len(some) >= ENOUGH and (ones | zeros).any():
            odd = np.ones_like(odd)
    return aim.outcome(
        "weak shares",
        "words that repeat, or a bit that never changes",
        odd.tolist(),
        LUCK,
    )


KEYS = "keys and invitations"
# Stores that are made, the keys of each, and the invitations of each key.
STORES, KEYS_OF_A_STORE, INVITATIONS = 2, 3, 20


def attack_keys_and_codes() -> Outcome:
    """Make keys and invitations as delegates do; look for what chance does not make.

    A key or a code is odd if it is there twice, and a code also if one of its letters
    is the same in all of them.
    """
    keys, codes = list[bytes](), list[str]()
    with TemporaryDirectory() as folder:
        for k in range(STORES):
            with closing(
                SurveyDelegateStore.open(Path(folder) / f"{k}.surveys")
            ) as store:
                for _ in range(KEYS_OF_A_STORE):
                    keys.append(store.new_key())
                    codes += [
                        store.invite(f"guest {n}", keys[-1]) for n in range(INVITATIONS)
                    ]
    counts = Counter([*keys, *codes])
    letters = [{code[at] for code in codes} for at in range(len(codes[0]))]
    same = sum(len(one) == 1 for one in letters) > codes[0].count("-")
    odd = [counts[one] > 1 for one in keys]
    odd += [same or counts[one] > 1 for one in codes]
    about = "keys or invitations that repeat, or have a letter that never changes"
    return Outcome(KEYS, (), about, len(odd), sum(odd), LUCK)


def attack_browser_state(aim: VisitsAttack) -> Outcome:
    """Work out a browser's Math.random from the coalition's shares, then the others.

    Success is to name the guest's number in every cell.
    """
    visits, (guest, _), hits = aim.visits, aim.pair, []
    for trial in range(min(FEW, aim.trials)):
        table = visits.tables(aim.chance(trial, "solved"))[0][0]
        sent = visits.come(
            guest, table, seeded_browser_chance(aim.seed, "solved", trial)
        )
        names, n = visits.terms.names, len(sent.words)
        known = {names.index(one): visits.share(sent, one) for one in aim.coalition}
        state = browser_state_of_visit(known, n, len(names))
        if state is None:
            hits.append(False)
            continue
        source, whole = browser_chance_of_visit(state), sent.words.copy()
        for _ in names:
            whole += survey_cell_words(source(n * WORD_BYTES))
        found = [visits.value(whole, cell) for cell in range(len(table))]
        hits.append(found == [(one or 0) % RING for one in table])
    return aim.outcome("a page's Math.random", "all of a guest's table", hits, LUCK)


def attack_guest_correction(aim: VisitsAttack) -> Outcome:
    """Guess how a guest corrected its number, from both submissions."""
    visits, (guest, _), hits = aim.visits, aim.pair, []
    for trial in range(aim.trials):
        chance = aim.chance(trial, "correction")
        worlds = [tables[0] for tables in visits.tables(chance)]
        first, second = (int(chance.integers(2)) for _ in range(2))
        seen = []
        for number, world in ((1, first), (2, second)):
            source = seeded_browser_chance(aim.seed, "correction", trial, number)
            sent = visits.come(guest, worlds[world], source, number)
            seen.append(visits.value(visits.left(sent, aim.coalition), 0))
        changed = abs(_centred_ring_number(seen[1] - seen[0]))
        size = abs((worlds[1][0] or 0) - (worlds[0][0] or 0))
        hits.append((changed > size // 2 and changed <= 2 * size) == (first != second))
    return aim.outcome("a correction", "whether a number was changed", hits, 0.5)


def attack_by_sending_twice(aim: VisitsAttack) -> Outcome:
    """Send one number a second time, with fresh masks; the host must not take both."""
    visits, (guest, _), hits = aim.visits, aim.pair, []
    for trial in range(min(FEW, aim.trials)):
        table = visits.tables(aim.chance(trial, "twice"))[0][0]
        first, again = (
            visits.come(
                guest, table, seeded_browser_chance(aim.seed, "twice", trial, k)
            )
            for k in range(2)
        )
        try:
            hits.append(not visits.takes([first], again))
        except InvalidInputError:
            hits.append(False)
    return aim.outcome(
        "sent twice", "two masked vectors under one number are taken", hits, 0.0
    )


def attack_two_guest_worlds(aim: VisitsAttack) -> Outcome | SkippedAttack:
    """Compare all that a coalition has of two guests, in two worlds with equal sums.

    In the second world the first honest delegate's shares are moved by what the guests'
    numbers are moved: as likely a draw as the first. Seals to honest delegates count by
    their length; the sum of what these hold is compared, as totals show it.
    """
    visits, hits = aim.visits, []
    honest = visits.honest(aim.coalition)
    if not honest:
        return SkippedAttack(TWO_WORLDS, "all delegates together open every share")
    for trial in range(min(FEW, aim.trials)):
        one, other = visits.tables(aim.chance(trial, "worlds"))
        sent = [
            visits.come(
                guest, table, seeded_browser_chance(aim.seed, "worlds", trial, guest)
            )
            for guest, table in zip(aim.pair, one, strict=True)
        ]
        try:
            again = [
                visits.come_moved(first, before, after, honest[0])
                for first, before, after in zip(sent, one, other, strict=True)
            ]
        except InvalidInputError:  # it takes its shares from elsewhere
            hits.append(True)
            continue
        hits.append(
            _visits_seen_by_attack(aim, sent) != _visits_seen_by_attack(aim, again)
        )
    return aim.outcome(
        TWO_WORLDS, "a difference in anything that two guests send", hits, 0.0
    )


TWO_WORLDS = "submissions of two worlds"
ATTACKS: Mapping[str, Callable[[VisitsAttack], Outcome | SkippedAttack]] = {
    "one guest's number": attack_one_cell,
    "weak shares": attack_weak_shares,
    "a page's Math.random": attack_browser_state,
    "a correction": attack_guest_correction,
    "sent twice": attack_by_sending_twice,
    TWO_WORLDS: attack_two_guest_worlds,
}


def play(
    visits: AuditedVisits, coalition: Coalition, *, seed: int, trials: int
) -> Iterator[Outcome | SkippedAttack]:
    left = visits.hidden(coalition)
    if len(left) < 2:
        yield SkippedAttack(
            "one guest's number",
            f"{listed_names(coalition)} leave {len(left)} guests whom they did not "
            "invite, "
            "and one alone is hidden by nobody",
        )
        return
    aim = VisitsAttack(
        visits=visits,
        coalition=coalition,
        pair=(left[0], left[1]),
        seed=seed_of_piece(seed, listed_names(coalition)),
        trials=trials,
    )
    for attack in ATTACKS.values():
        yield attack(aim)


def _visits_seen_by_attack(
    aim: VisitsAttack, sent: Sequence[SurveySubmission]
) -> list[Any]:
    visits, inside = aim.visits, set(aim.coalition)
    names = visits.terms.names
    found: list[Any] = [
        [
            *(
                getattr(one, part.name)
                for part in fields(one)
                if part.name not in {"sealed", "signature"}
            ),
            *(
                visits.share(one, name).tobytes() if name in inside else len(sealed)
                for name, sealed in zip(names, one.sealed, strict=True)
            ),
            len(one.to_json()),
        ]
        for one in sent
    ]
    total = np.zeros(len(sent[0].words), dtype=np.uint64)
    for name in visits.honest(aim.coalition):
        for one in sent:
            total += visits.share(one, name)
    return [*found, total.tobytes()]


def _centred_ring_number(number: int) -> int:
    return (number + RING // 2) % RING - RING // 2


# A browser's generator


def browser_chance_of_visit(state: int) -> Source:
    """Return chance as a page has it that takes Math.random for its shares.

    Browsers compute it by xorshift128+, of whose 128 bits a call shows the first half:
    32 of them for each half of a word here. (Some hand numbers out in another order.)
    """
    high, low = divmod(state, RING)

    def half() -> int:
        nonlocal high, low
        one, other = high, low
        one ^= one << 23 & RING - 1
        one ^= one >> 17 ^ other ^ other >> 26
        high, low = other, one
        return high >> 64 - CALL_BITS

    def draw(size: int) -> bytes:
        return b"".join(
            half().to_bytes(CALL_BITS // 8, "little")
            for _ in range(size // (CALL_BITS // 8))
        )

    return draw


@lru_cache(maxsize=4)
def _state_bits_seen_in_calls(calls: int) -> tuple[tuple[int, ...], ...]:
    """Return by call which bits of the first state each bit that it shows adds up."""
    high = [1 << 64 + bit for bit in range(64)]
    low = [1 << bit for bit in range(64)]
    found = []
    for _ in range(calls):
        one = [high[k] ^ (high[k - 23] if k >= 23 else 0) for k in range(64)]
        one = [
            one[k]
            ^ (one[k + 17] if k + 17 < 64 else 0)
            ^ low[k]
            ^ (low[k + 26] if k + 26 < 64 else 0)
            for k in range(64)
        ]
        high, low = low, one
        found.append(tuple(high[64 - CALL_BITS :]))
    return tuple(found)


def browser_state_of_visit(
    known: Mapping[int, Words], size: int, n_shares: int
) -> int | None:
    """Return the state from which a browser's generator draws these shares, if any.

    All that it shows is linear in the bits of its state: so many equations solve it,
    and one more that does not hold says that the shares are none of it.

    Args:
        known: shares by their place among all.
        size: words of a share.
        n_shares: how many shares were drawn, one after the other.
    """
    calls = 64 // CALL_BITS
    forms = _state_bits_seen_in_calls(n_shares * size * calls)
    rows: dict[int, int] = {}  # by first bit; the last bit is what it must come to
    for place, share in known.items():
        for word, number in enumerate(share.tolist()):
            for call in range(calls):
                shown = number >> CALL_BITS * call
                for bit, form in enumerate(forms[(place * size + word) * calls + call]):
                    row = form << 1 | shown >> bit & 1
                    while row > 1 and (pivot := row.bit_length()) in rows:
                        row ^= rows[pivot]
                    if row == 1:
                        return None
                    if row:
                        rows[row.bit_length()] = row
    if len(rows) < STATE_BITS:
        return None
    state = 0
    for pivot in sorted(rows):  # from the last bit on
        row = rows[pivot]
        rest = (row >> 1) & ~(1 << pivot - 2) & state
        state |= ((row & 1) ^ (rest.bit_count() & 1)) << pivot - 2
    return state


# Planted leaks


def _one_delegate_only(source: Source, guest: str, number: int) -> Source:
    del guest, number
    shares = iter([source])
    return lambda size: next(shares, bytes)(size)


def _visit_by_math_random(source: Source, guest: str, number: int) -> Source:
    del guest, number
    return browser_chance_of_visit(int.from_bytes(source(STATE_BITS // 8), "big"))


def _narrow_guest_randomness(source: Source, guest: str, number: int) -> Source:
    del guest, number

    def draw(size: int) -> bytes:
        words = survey_cell_words(source(size)) & np.uint64(2**32 - 1)
        return words.astype("<u8").tobytes()

    return draw


def _visit_by_one_random_word(source: Source, guest: str, number: int) -> Source:
    del guest, number
    return lambda size: source(size)[:WORD_BYTES] * (size // WORD_BYTES)


@dataclass(eq=False)
class UsedAgain:
    """Corrections whose last share is the one that was sent before."""

    n_shares: int
    kept: dict[str, bytes] = field(default_factory=dict)

    def __call__(self, source: Source, guest: str, number: int) -> Source:
        calls = 0

        def draw(size: int) -> bytes:
            nonlocal calls
            calls += 1
            drawn = source(size)
            if calls < self.n_shares:
                return drawn
            if number == 1:
                self.kept[guest] = drawn
            return self.kept.get(guest, drawn)

        return draw


def _take_both_visits(kept: Sequence[SurveySubmission], new: SurveySubmission) -> bool:
    del kept, new
    return False


# How each is made, and the attack that must find it. Who attacks is everybody but the
# last delegate.
PLANTED: Mapping[str, tuple[Callable[[AuditedVisits], AuditedVisits], str]] = {
    "a share for one delegate only": (
        lambda visits: replace(visits, spoil=_one_delegate_only),
        "one guest's number",
    ),
    "shares from Math.random": (
        lambda visits: replace(visits, spoil=_visit_by_math_random),
        "a page's Math.random",
    ),
    "shares of 32 bits": (
        lambda visits: replace(visits, spoil=_narrow_guest_randomness),
        "weak shares",
    ),
    "one share for all cells": (
        lambda visits: replace(visits, spoil=_visit_by_one_random_word),
        TWO_WORLDS,
    ),
    "a share used again in a correction": (
        lambda visits: replace(visits, spoil=UsedAgain(len(visits.terms.names))),
        "a correction",
    ),
    "a vector sent twice with fresh masks": (
        lambda visits: replace(visits, takes=_take_both_visits),
        "sent twice",
    ),
}
# Executions of a control: leaks that are planted succeed every time.
CONTROLLED = 16


def planted_visit_leaks(visits: AuditedVisits, seed: int) -> Iterator[AuditControl]:
    """Return whether each leak that is planted on purpose is found by whom it must."""
    names = visits.terms.names
    one, other = islice(visits.codes, 2)
    for name, (plant, found_by) in PLANTED.items():
        words = (len(names) - 1) * visits.n_words
        if found_by == "a page's Math.random" and words * 64 <= STATE_BITS:
            continue  # so few numbers that nobody could solve it
        if name == "one share for all cells" and visits.terms.n_cells < 2:
            continue
        aim = VisitsAttack(
            visits=plant(visits),
            coalition=names[:-1],
            pair=(one, other),
            seed=seed_of_piece(seed, name),
            trials=CONTROLLED,
        )
        came = ATTACKS[found_by](aim)
        assert isinstance(came, Outcome)
        holds = came.exceeds(FALSE_ALARMS)
        yield AuditControl(
            f"planted: {name}", MORE, attack_rate_in_percent(came), holds
        )
