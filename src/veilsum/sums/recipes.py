"""Public recipes of joint computations: a request, a sum, the next request.

A recipe knows no party's data. It derives the next request, and at the end the answer,
from the sums so far, so that every party arrives at the same result.
`SumPartyWork` joins a recipe with one party's private way to answer a request.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import shake_256
from secrets import token_bytes
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Protocol,
    Self,
    TypeVar,
    cast,
    runtime_checkable,
)

import numpy as np

from veilsum.errors import InvalidInputError, NumericalError
from veilsum.locale import LocaleLine
from veilsum.models.plausible import (
    check_plausible_sizes,
    check_plausible_total,
    implausible_sum_error,
)
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.layout import (
    NumberLayout,
    layout_array,
    layout_number,
    layout_vector,
)
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import ROW_BITS, Integers, UnitCounts
from veilsum.privacy.guarantee import Guarantee
from veilsum.protocol.work import ProtocolRounds, request_digest
from veilsum.sums.releases import (
    BY_ROW,
    OBJECTIONS,
    REBUILT,
    PossibleRound,
    SumRelease,
    SumReleaseLimit,
    released_lines_by_piece,
    with_releases,
)
from veilsum.tables.asked import TableAsking
from veilsum.tables.fingerprints import FingerprintSource
from veilsum.tables.rules import DisclosureError

Sums = Sequence[Array[Any]]
S = TypeVar("S")

# Nearly every fit that there is ends by then; with room for fewer none is begun.
LEAST_ROUNDS = 8

UNANSWERED = (
    "this party's data do not allow an answer to what was asked in the middle of the "
    "run; that must not happen, since checks come before it: please report it"
)


@runtime_checkable
class Recipe(Protocol):
    """A job as all parties know it."""

    @property
    def size(self) -> int: ...

    @property
    def answer_size(self) -> int: ...

    @property
    def most_numbers(self) -> int:
        """Largest number of values in all its sums, reserved before the first."""
        ...

    @property
    def most_rounds(self) -> int:
        """Largest number of sums."""
        ...

    def request(self, sums: Sums) -> Any | None:
        """Return what every party is asked for next; None when nothing is left."""
        ...

    def check_sum(self, sums: Sums) -> None:
        """Refuse the last of some sums if no admissible data add up to it."""
        ...

    def answer(self, sums: Sums) -> Vector: ...

    def release(self, sums: Sums) -> SumRelease:
        """Return what the next sum will show to everybody."""
        ...

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        """Every kind of round that there may be, in order; see `PossibleRound`."""
        ...

    def among(self, members: tuple[str, ...]) -> Recipe:
        """Return the recipe for those whose vectors are in the sums."""
        ...

    def stated(self, promise: Guarantee, releases: Sequence[SumRelease]) -> Guarantee:
        """Return what holds for each sum as what holds for the whole job."""
        ...

    def shown(
        self, members: tuple[str, ...], releases: Sequence[SumRelease]
    ) -> tuple[LocaleLine, ...]:
        """Return what everybody learns, in words."""
        ...

    @property
    def round_size(self) -> int:
        """Number of values sent in a round of an iterative method; 0 without one."""
        ...

    @property
    def tolerance(self) -> float:
        """Largest allowed difference of two parties' answers; see `Plan`."""
        ...

    @property
    def stand_in(self) -> bool:
        """Whether the others can finish the sum of a party that has vanished."""
        ...

    @property
    def objects(self) -> bool:
        """Whether a party can object to a sum; see `GuardedRecipe`."""
        ...


class SumRecipe:
    """Base of the recipes that ask for sums, and mask all that they use."""

    round_size: ClassVar[int] = 0
    tolerance: ClassVar[float] = 1e-9
    stand_in: ClassVar[bool] = True
    # What a party gives is a sum over rows, each of them rounded by itself.
    wording: ClassVar[tuple[str, str, str]] = BY_ROW
    # Whether a party can object to a sum.
    objects: ClassVar[bool] = False
    # What its sums may tell of a party all the same, a sentence each.
    left_open: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:  # fields here, properties there

        @property
        def layout(self) -> NumberLayout:
            """Statistics of a sum; of the longest, if sums differ."""

    @property
    def first_layout(self) -> NumberLayout:
        """Statistics of the first sum; rows that were left out are among them."""
        return self.layout

    @property
    def counts(self) -> UnitCounts:
        return self.layout.counts

    @property
    def size(self) -> int:
        return len(self.counts.units)

    @property
    def most_numbers(self) -> int:
        return cast("Recipe", self).size

    @property
    def most_rounds(self) -> int:
        return sum(one.most for one in self.foreseen)

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        found = cast("Recipe", self).release(())
        return (PossibleRound("only", found.statistics, layout=found.layout),)

    @property
    def most_rows(self) -> int:
        """The largest number of rows of all parties together, as agreed."""
        limit: SumReleaseLimit | None = getattr(self, "limit", None)
        agreed = None if limit is None else limit.most_rows
        return 1 << ROW_BITS if agreed is None else agreed

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        """Return the counts of rows in the last sum, by name."""
        return {}

    def check_sum(self, sums: Sums) -> None:
        """Refuse the last sum if no admissible tables add up to it.

        Every number has a largest size by its unit and range, and every count of rows
        is at most the agreed number of rows. Recipes whose ranges say more add to it.

        Raises:
            NumericalError: a total is impossible; the error names it.
        """
        check_plausible_sizes(self.counts, sums[-1])
        for name, count in self.row_counts(sums).items():
            check_plausible_total(name, count, 0, self.most_rows)

    def suspected(self, sums: Sums) -> str:
        """Return the likely cause of an objection to the next sum, from these sums."""
        return ""

    def residues(self, sums: Sums) -> Sequence[int]:
        """Return the released bits of each number of the next sum.

        0 stands for a number that is released whole. Numbers beyond those that are
        listed are released whole, too.
        """
        return ()

    def merges(self, sums: Sums) -> bool:
        """Say whether the next sum is one of counts whose small cells merge."""
        return True

    def among(self, members: tuple[str, ...]) -> Self:
        """Return itself: what follows from a sum does not depend on who is in it."""
        return self

    def stated(self, promise: Guarantee, releases: Sequence[SumRelease]) -> Guarantee:
        return with_releases(promise, releases, whole=True, wording=self.wording)

    def shown(
        self, members: tuple[str, ...], releases: Sequence[SumRelease]
    ) -> tuple[LocaleLine, ...]:
        return released_lines_by_piece([members], releases)


class OneRoundRecipe(SumRecipe):
    """A recipe that asks once; its total is the answer, where it says nothing else."""

    if TYPE_CHECKING:

        @property
        def what(self) -> str:
            """Name of the statistic to which the released numbers belong."""

        @property
        def limit(self) -> SumReleaseLimit | None:
            """Limit on the number of released values; None without one."""

    @property
    def answer_size(self) -> int:
        return self.size

    @property
    def asked(self) -> str:
        """Request in words, which parties compare."""
        return self.what

    def request(self, sums: Sums) -> Any | None:
        """Ask once, if so much may be released."""
        if sums:
            return None
        if self.limit is not None:
            self.limit.check(self.size)
        return self.asked

    def answer(self, sums: Sums) -> Vector:
        """Return the total in float64: what parties compare and sign."""
        return self.counts.values(sums[0])

    def release(self, sums: Sums) -> SumRelease:
        return SumRelease.from_layout(self.what, self.layout)


def row_counts_by_cell(parts: Iterable[Array[Any]]) -> dict[str, int]:
    """Return counts of rows by name, where every row is in one cell, and their sum."""
    cells = [int(one) for part in parts for one in part.flat]
    found = {f"rows in cell {k}": n for k, n in enumerate(cells, start=1)}
    return found | {"rows": sum(cells)}


@dataclass(frozen=True)
class EndsRecipe(OneRoundRecipe):
    """One sum: rows that end with the event, and without, by cell; later; left out.

    Attributes:
        what: what is asked, for the ledger.
        n_lines: how many lines the table of cells has.
        limit: how many numbers may be released.
    """

    # Keys of events, of other ends, and of rows that go on after the last time.
    keys: ClassVar[tuple[str, str, str]]
    # Rows that go on are counted for each line (0), or for each cell of a line (1).
    later_axis: ClassVar[int] = 0

    what: str
    n_lines: int
    n_places: int
    limit: SumReleaseLimit | None = None

    @cached_property
    def layout(self) -> NumberLayout:
        """Rows that end in each cell, later, and left out."""
        cells, (events, others, later) = (self.n_lines, self.n_places), self.keys
        return NumberLayout(
            (
                layout_array(events, cells),
                layout_array(others, cells),
                layout_array(later, cells[self.later_axis]),
                layout_number("left_out"),
            )
        )

    def ends(self, sums: Sums) -> tuple[Array[Any], Array[Any], Array[Any]]:
        """Return events, other ends and later ones, each as an array of counts."""
        parts = self.layout.unpack(sums[0])
        events, others, later = (parts[key].astype(np.int64) for key in self.keys)
        return events, others, later

    def pack(self, *ends: Array[Any], left_out: int) -> Integers:
        """Return one party's counts: events, other ends, later ones, and left out."""
        named = dict(zip(self.keys, ends, strict=True))
        return self.layout.pack(**named, left_out=left_out)

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        return row_counts_by_cell(self.ends(sums))


class IterativeRecipe(SumRecipe, Generic[S]):
    """A recipe that asks at one place after another, until its search has converged.

    `search` knows where it starts, what it proposes there, and where a sum leads; one
    number of each sum is none of its own and counts rows that were left out. Every
    state of a search says whether it is `converged`. `most` is how many sums one takes,
    where no limit says how many there is room for.
    """

    left_open = (REBUILT,)
    # With room for fewer sums no search is begun.
    least: ClassVar[int] = LEAST_ROUNDS

    if TYPE_CHECKING:

        @property
        def limit(self) -> SumReleaseLimit | None:
            """Limit on the number of released values; None without one."""

        @property
        def search(self) -> Any:
            """The search, which proposes the next point."""

        @property
        def most(self) -> int:
            """Largest number of sums of a search."""

    @property
    def most_rounds(self) -> int:
        return self.most if self.limit is None else self.limit.rounds(self.size)

    @property
    def most_numbers(self) -> int:
        return self.size * self.most_rounds

    @cached_property
    def _places(self) -> RecipeReplay[S]:
        return RecipeReplay(self.search.start, self._advance)

    def _advance(self, before: S, total: Array[Any]) -> S:
        """Return the next place; a result that holds the recipe can be pickled."""
        own = np.delete(total, self.first_layout.places["left_out"])
        return self.search.advance(before, own)

    def state(self, sums: Sums) -> S:
        """Return where the search is after some sums."""
        return self._places.state(sums)

    def asked(self, state: S, sums: Sums) -> Any:
        """Return what is asked there."""
        return self.search.propose(state)

    def unfinished(self, state: S) -> str:
        """Return what to say of a search for which no room is left."""
        raise NotImplementedError

    def request(self, sums: Sums) -> Any | None:
        if not sums and self.limit is not None:
            self.limit.check(self.size, min(self.least, self.limit.most_rounds))
        state = self.state(sums)
        if cast("Any", state).converged:
            return None
        if len(sums) == self.most_rounds:
            raise InvalidInputError(self.unfinished(state), code="not-converged")
        return self.asked(state, sums)


class FinalRoundRecipe(SumRecipe):
    """A recipe around a fit: at its answer everybody is asked for one sum more.

    `inner` is the fit, whose own limit leaves room for the last sum; `after` says when
    that is, `last_shown` what it shows.
    """

    after: ClassVar[str]

    if TYPE_CHECKING:

        @property
        def inner(self) -> Any:
            """The fit."""

        @property
        def last_shown(self) -> dict[str, int]:
            """Number of released values of each kind in the last sum."""

    @property
    def first_layout(self) -> NumberLayout:
        return self.inner.first_layout

    @property
    def answer_size(self) -> int:
        return int(self.inner.answer_size)

    @property
    def most_numbers(self) -> int:
        return int(self.inner.most_numbers) + self.size

    @property
    def most_rounds(self) -> int:
        return int(self.inner.most_rounds) + 1

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        before = [
            replace(one, when="first") if one.when == "only" else one
            for one in self.inner.foreseen
        ]
        return (*before, PossibleRound(self.after, self.last_shown))

    def parts(self, sums: Sums) -> tuple[Sums, Array[Any] | None]:
        """Return the sums of the fit, and the last one if it is there."""
        own = [one[: self.inner.size] for one in sums]
        if sums and self.inner.request(own[:-1]) is None:
            return own[:-1], sums[-1]
        return own, None

    def request(self, sums: Sums) -> Any | None:
        before, last = self.parts(sums)
        if last is not None:
            return None
        asked = self.inner.request(before)
        return self.last_request(before) if asked is None else asked

    def suspected(self, sums: Sums) -> str:
        """Return the likely cause of an objection to the fit's next sum."""
        return str(self.inner.suspected(self.parts(sums)[0]))

    def residues(self, sums: Sums) -> Sequence[int]:
        """Return the released bits of each number of the next sum of the fit."""
        before, _ = self.parts(sums)
        if self.inner.request(before) is None:
            return ()
        return cast("Sequence[int]", self.inner.residues(before))

    def last_request(self, before: Sums) -> Any:
        """Return what is asked for at the answer."""
        raise NotImplementedError

    def check_sum(self, sums: Sums) -> None:
        """Refuse a sum of the fit, or the last one, if it is impossible."""
        before, last = self.parts(sums)
        if last is None:
            self.inner.check_sum(before)
        else:
            super().check_sum(sums)
            self.check_last(before, last)

    def check_last(self, before: Sums, last: Array[Any]) -> None:
        """Refuse the last sum if no rows of the fit add up to it."""
        raise NotImplementedError

    def answer(self, sums: Sums) -> Vector:
        return self.inner.answer(self.parts(sums)[0])

    def release(self, sums: Sums) -> SumRelease:
        before, _ = self.parts(sums)
        if self.inner.request(before) is None:
            return self.last_release(before, self.inner.release(()).job)
        return self.inner.release(before)

    def last_release(self, before: Sums, job: str) -> SumRelease:
        raise NotImplementedError


class ObjectedError(DisclosureError):
    """A party objected to a sum of a question: the run ends, and no result exists."""

    def __init__(
        self,
        number: int,
        reasons: Sequence[str] = (),
        suspected: str = "",
        *,
        code: str = "",
    ) -> None:
        public = (
            f"A party objected to round {number}: at this point the sums would rest on "
            "too few of its rows. All numbers of that round are random, and tell "
            "nothing else. Use fewer or coarser columns, merge rare levels, add a "
            "ridge, or leave out a column that sets few rows apart"
        )
        if suspected:
            public = f"{public}. {suspected}"
        super().__init__("minimum_count", ". ".join((public, *reasons)), code=code)
        self._plain, self.number, self.suspected = public, number, suspected


def release_of_residues(recipe: Any, sums: Sums) -> SumRelease:
    """Return what the next sum shows under masks by which residues can be released."""
    found, residues = recipe.release(sums), recipe.residues(sums)
    if found.layout is None or not any(residues):
        return cast("SumRelease", found)
    return replace(found, layout=found.layout.with_residues(residues))


@dataclass(frozen=True, eq=False)
class GuardedRecipe:
    """A recipe of several sums, each with one more number by which parties object.

    The point of a later round follows from earlier sums, and a lying party can aim it
    at one row. A party whose rows would carry too little, or too unevenly, replaces its
    whole vector by uniform random numbers. So the total is uniform: it tells nothing of
    anybody's numbers, nor who objected. The last number of the recipe's own length is 0
    unless somebody did, but for a chance of 2^-64. Masks must be uniform: under others
    a party that cannot answer leaves the run.

    Attributes:
        inner: the recipe, which sees its own numbers only.
        before: sums of a recipe around this one.
    """

    objects: ClassVar[bool] = True

    inner: Any
    before: int = 0

    @cached_property
    def objecting(self) -> NumberLayout:
        """The recipe's sum, and a number for objections: any of them may be random."""
        found: UnitCounts = self.inner.counts
        own = layout_vector("sum", found.units, 64 * found.words)
        return NumberLayout((own, layout_number(OBJECTIONS, bits=own.bits)))

    @property
    def counts(self) -> UnitCounts:
        """Units of the numbers; as wide as their residues, since any may be random."""
        return self.objecting.counts

    @property
    def accepted_bits(self) -> int:
        """Bits of the numbers of parties that accept, their sign included."""
        return int(self.inner.counts.bits)

    @property
    def size(self) -> int:
        return self.objecting.size

    def within(self, sums: Sums) -> Sums:
        """Return the sums as the recipe inside has them.

        Raises:
            ObjectedError: a party objected to one of them.
        """
        places, own = self.objecting.places, list[Array[Any]]()
        for k, one in enumerate(sums):
            if any(one[places[OBJECTIONS]]):
                suspected = self.inner.suspected(own)
                raise ObjectedError(
                    self.before + k + 1, suspected=suspected, code="party-objected"
                )
            own.append(self._without_shift(one[places["sum"]], own))
        return own

    def shifted(self, vector: Integers, sums: Sums) -> Integers:
        """Return a party's numbers so that the next sum releases residues only.

        A number times 2^(width - b), modulo 2^width, has a sum that tells the sum
        modulo 2^b and nothing else. Reduced modulo 2^b by each party, its carries would
        depend on who holds which row.
        """
        found = vector.copy()
        for place, bits in enumerate(self.inner.residues(self.within(sums))):
            if bits and bits < self._width:
                found[place] = self._signed(int(vector[place]) << self._width - bits)
        return found

    def _without_shift(self, total: Array[Any], before: Sums) -> Array[Any]:
        residues = self.inner.residues(before)
        if not any(residues):
            return total
        found = np.array(total, dtype=object)
        for place, bits in enumerate(residues):
            if bits and bits < self._width:
                found[place] = int(total[place]) % (1 << self._width)
                found[place] >>= self._width - bits
        return found

    @property
    def _width(self) -> int:
        return 64 * int(self.inner.counts.words)

    def _signed(self, number: int) -> int:
        half = 1 << self._width - 1
        return (number + half) % (2 * half) - half

    def check_sum(self, sums: Sums) -> None:
        """Refuse the last sum if it is impossible, unless a party objected.

        A total of which a residue is released has zeros below it.
        """
        own, last = self.within(sums), sums[-1].tolist()
        for place, bits in enumerate(self.inner.residues(own[:-1])):
            below = self._width - bits if bits else 0
            if below > 0 and last[place] % (1 << below):
                raise implausible_sum_error(
                    f"number {place + 1} of the sum",
                    f"it tells more than a residue modulo 2^{bits}",
                )
        self.inner.check_sum(own)

    def request(self, sums: Sums) -> Any | None:
        """Ask what the recipe asks, unless a party objected."""
        return self.inner.request(self.within(sums))

    def answer(self, sums: Sums) -> Vector:
        return self.inner.answer(self.within(sums))

    def release(self, sums: Sums) -> SumRelease:
        """Return the next sum's statistics, residues, and the number for objections."""
        found = release_of_residues(self.inner, self.within(sums))
        return replace(found, statistics={**found.statistics, OBJECTIONS: 1})

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        """The recipe's rounds, each with the number for objections."""
        return tuple(
            replace(one, statistics={**one.statistics, OBJECTIONS: 1})
            for one in self.inner.foreseen
        )

    def among(self, members: tuple[str, ...]) -> GuardedRecipe:
        return replace(self, inner=self.inner.among(members))

    def stated(self, promise: Guarantee, releases: Sequence[SumRelease]) -> Guarantee:
        return self.inner.stated(promise, releases)

    def shown(
        self, members: tuple[str, ...], releases: Sequence[SumRelease]
    ) -> tuple[LocaleLine, ...]:
        return released_lines_by_piece([members], releases)

    def __getattr__(self, name: str) -> Any:
        """Return the recipe's own limits, sizes and words."""
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)


def open_limits_of_recipe(recipe: Any) -> tuple[str, ...]:
    """Return what the sums of a recipe may reveal, a sentence each.

    A recipe around another one, such as robust errors around a fit, adds its own.
    """
    own: tuple[str, ...] = ()
    while recipe is not None:
        own += tuple(getattr(recipe, "left_open", ()))
        recipe = getattr(recipe, "inner", None)
    return tuple(dict.fromkeys(own))


@dataclass(frozen=True, eq=False, repr=False)
class SumContribution(Secret):
    """Private contribution of one party.

    Attributes:
        answer: its vector for a request.
        data: the table, or separate arrays, by which its ledger identifies the data.
        rounds: its steps after the first masked vector, in an iterative method.
        asking: the question to its table, where others may add up with it.
    """

    answer: Callable[[Any], Array[Any]]
    data: FingerprintSource | tuple[Array[Any], ...]
    rounds: ProtocolRounds | None = None
    asking: TableAsking | None = None


def next_request(recipe: Recipe, sums: Sums) -> Any | None:
    """Return the request after some sums, the last of which is checked first."""
    if sums:
        recipe.check_sum(sums)
    return recipe.request(sums)


@dataclass(eq=False, repr=False)
class RecipeQuestions:
    """A recipe's requests and answer; parties of one process work each out once."""

    recipe: Recipe
    _last: tuple[Sums, tuple[Any, bytes]] | None = None
    _answer: tuple[Sums, tuple[str, ...], Vector] | None = None

    def next(self, sums: Sums) -> tuple[Any, bytes]:
        """Return what is asked for after these sums, and its digest."""
        if self._last is None or not same_sums(self._last[0], sums):
            request = next_request(self.recipe, sums)
            self._last = [*sums], (request, request_digest(request))
        return self._last[1]

    def answer(self, sums: Sums, members: tuple[str, ...]) -> Vector:
        known = self._answer
        if known is None or known[1] != members or not same_sums(known[0], sums):
            answer = self.recipe.among(members).answer(sums)
            known = self._answer = [*sums], members, answer
        return known[2]


@dataclass(frozen=True, eq=False, repr=False)
class SumPartyWork(Secret):
    """One party's part: the public recipe, and its own way to answer requests.

    What a party gives is decided by the request alone, and never by its data: it has
    one size. A party whose rules refuse the first request takes no part. To a later
    one it objects (see `GuardedRecipe`), by numbers that follow from its secret, so
    that a party that was started again objects with the same ones.

    Attributes:
        secret: the key of these numbers; the run's own, and nobody else's.
    """

    recipe: Recipe
    contribution: SumContribution
    questions: RecipeQuestions | None = None
    secret: bytes = field(default_factory=partial(token_bytes, 32))

    @property
    def rounds(self) -> ProtocolRounds | None:
        """The iterative method that runs on the first masked vector, if one does."""
        return self.contribution.rounds

    @property
    def most_sums(self) -> int:
        return self.recipe.most_rounds

    def vector(self, answers: Sums) -> Array[Any] | None:
        request = self._asked(answers)[0]
        if request is None:
            return None
        try:
            vector = self.contribution.answer(request)
        except Exception as error:
            if not answers:  # before anybody was told of anything: a plain refusal
                raise
            # Leaving would name this party: a false total may have led to a point at
            # which its rows, and nobody else's, have no answer.
            if self.recipe.objects:
                return self._random(answers)
            if isinstance(error, DisclosureError):
                raise
            raise NumericalError(UNANSWERED, code="unanswered") from error
        if self.recipe.objects:
            # The rest is 0: the number for objections, and what fills up a sum.
            missing = self.recipe.size - len(vector)
            vector = np.concatenate([vector, np.zeros(missing, dtype=object)])
            # Random numbers may be as wide as their residues, these may not.
            bits = cast("Any", self.recipe).accepted_bits
            if max(int(one).bit_length() for one in vector) >= bits:
                raise NumericalError(
                    f"{self.recipe.size} whole numbers of at most {bits} bits were "
                    "agreed on, and this party's are wider: please report it",
                    code="internal",
                )
            vector = cast("Any", self.recipe).shifted(vector, answers)
        if vector.shape != (self.recipe.size,):
            raise NumericalError(
                f"every request is answered by {self.recipe.size} numbers, found an "
                f"array of shape {vector.shape}: please report it",
                code="internal",
            )
        return vector

    def _random(self, answers: Sums) -> Integers:
        size, words = self.recipe.size, cast("Any", self.recipe).counts.words
        seed = self.secret + request_digest(len(answers))
        drawn = shake_256(b"veilsum objection\0" + seed).digest(8 * words * size)
        step = 8 * words
        whole = [
            int.from_bytes(drawn[k : k + step], "little", signed=True)
            for k in range(0, len(drawn), step)
        ]
        return np.array(whole, dtype=object)

    def objection(self, answers: Sums) -> str | None:
        """Return why this party objected to the last of these sums; None if not."""
        request = self._asked(answers[:-1])[0]
        try:
            self.contribution.answer(request)
        except Exception as error:
            known = isinstance(error, DisclosureError)
            return str(error) if known else f"{UNANSWERED} ({error})"
        return None

    def asked(self, answers: Sums) -> bytes:
        return self._asked(answers)[1]

    def _asked(self, answers: Sums) -> tuple[Any, bytes]:
        return self._shared.next(answers)

    @property
    def _shared(self) -> RecipeQuestions:
        return self.questions or RecipeQuestions(self.recipe)

    def answer(self, answers: Sums, members: tuple[str, ...]) -> Vector:
        return self._shared.answer(answers, members)


def sums_as_key(sums: Sums) -> tuple[Hashable, ...]:
    """Return sums as something to look them up by.

    The bytes of an array of Python integers would only say where these lie.
    """
    return tuple(
        tuple(one.tolist()) if one.dtype == object else one.tobytes() for one in sums
    )


def same_sums(some: Sums, others: Sums) -> bool:
    """Say whether two lists of sums are equal, real numbers to the last bit."""
    return len(some) == len(others) and all(
        one is other
        or (
            np.array_equal(one, other)
            if one.dtype == other.dtype == object
            else one.dtype == other.dtype and one.tobytes() == other.tobytes()
        )
        for one, other in zip(some, others, strict=True)
    )


@dataclass(frozen=True, eq=False, repr=False)
class RecipeReplay(Generic[S]):
    """Where sums lead, step by step; a place that is known is not computed again."""

    start: Callable[[], S]
    advance: Callable[[S, Array[Any]], S]
    _known: dict[tuple[Hashable, ...], S] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without known places: they follow from sums."""
        return type(self), (self.start, self.advance)

    def state(self, sums: Sums) -> S:
        key = sums_as_key(sums)
        if key not in self._known:
            self._known[key] = self._reached(sums)
        return self._known[key]

    def _reached(self, sums: Sums) -> S:
        if not sums:
            return self.start()
        return self.advance(self.state(sums[:-1]), sums[-1])
