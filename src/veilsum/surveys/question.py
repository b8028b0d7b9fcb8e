"""A survey's totals: what delegates add up of numbers that none of them has seen.

Every guest has split its vector into one share for each delegate and a masked rest,
which is public among members. A delegate adds the shares that it holds, modulo 2^64,
and gives that sum, to which the first of them adds the sum of the masked rests. So the
sum over delegates, modulo 2^64, is the sum over the guests of the set. Masks of one
word add up modulo 2^64 themselves: no carry is ever shown.

Which cells each guest filled, all members see in what it signed, and the closed file
counts it. So there is one sum, of the cells that enough guests filled: so many that,
whoever colludes, honest ones are among them as agreed.

    totals = survey(tables, range=(0, 10_000), unit=0.01)
    print(totals.summary())
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import isnan
from types import ModuleType
from typing import Any, ClassVar, Unpack

import numpy as np

from veilsum.errors import InvalidInputError, RangeError
from veilsum.locale import LocaleLine, limit_phrase
from veilsum.numbers.arrays import Array, FloatArray, Vector, listed_names
from veilsum.numbers.layout import NumberLayout, layout_array
from veilsum.numbers.limbs import as_python_integers
from veilsum.numbers.units import numeric_unit_of
from veilsum.privacy.guarantee import Guarantee, GuaranteeComponent, WorstCoalition
from veilsum.showing import MOST_ROWS, Rendering, ShownTable, counted_words
from veilsum.sums.recipes import SumContribution, SumRecipe, Sums
from veilsum.sums.releases import BY_PARTY, SumRelease
from veilsum.sums.running import SumJobResult, run_sum_job
from veilsum.sums.terms import (
    NOBODY_CURIOUS,
    SumOptions,
    SumTerms,
    parties_data_by_name,
)
from veilsum.surveys.terms import (
    TOTAL_BITS,
    GuestTable,
    SurveyGuest,
    SurveyTally,
    SurveyTerms,
    Words,
    guest_table_of,
    survey_tally_of,
)
from veilsum.tables.frames import as_frame

# Pairs of cells that are named; all are in the result.
MOST_PAIRS = 5

LEFT_EMPTY = (
    "Which cells a guest left empty is not hidden: all members see it, and how many "
    "filled each cell is told with the totals."
)
NOT_CHECKED = tuple(
    limit_phrase(f"guest_{key}")
    for key in ("numbers", "dominates", "page", "shares", "ledger", "presence")
)
EXACT = (
    "the totals are released exactly; what follows from them, together with what "
    "somebody knows of others' numbers, is not hidden"
)
FOLLOWED = limit_phrase("followed")
NEAR = (
    "were filled by nearly the same guests: if a guest's number in the one follows "
    "from its number in the other, the difference of the totals speaks of the few by "
    "whom they differ"
)
MORE_NEAR = (
    "not all cells of a row or column were compared, or not all pairs are named: more "
    "of them may have been filled by nearly the same guests"
)
MAY_FOLLOW = (
    "got no total, for too few filled them, but two cells or more of their row or "
    "column did: if one of these is the total of the others, what is missing follows "
    "by subtraction"
)
BEYOND = (
    "lies beyond what the range allows for so many guests: at least one of them gave "
    "numbers that the page refuses"
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SurveyGuarantee(Guarantee):
    """Guarantee for guests; `corrupted` and `honest` name members.

    Attributes:
        told: the guarantee and its assumptions, in words.
    """

    told: str

    @property
    def sentence(self) -> str:
        """Description of what each coalition could learn about a guest."""
        return self.told

    def to_dict(self) -> dict[str, Any]:
        plain = Guarantee.to_dict(self)
        del plain["told"]
        return plain


@dataclass(frozen=True)
class WantedTotals:
    """Requested totals.

    Attributes:
        cells: cells whose totals are released, in the table's order.
    """

    cells: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SurveyRecipe(SumRecipe):
    """One sum: the totals of what enough guests filled."""

    survey: SurveyTerms

    # Whole numbers of a guest, not of rows.
    wording: ClassVar[tuple[str, str, str]] = BY_PARTY
    left_open: ClassVar[tuple[str, ...]] = NOT_CHECKED

    @property
    def cells(self) -> tuple[int, ...]:
        """Cells whose totals are requested; all cells while the survey is open."""
        if self.survey.tally is None:
            return tuple(builtins.range(self.survey.n_cells))
        return self.survey.released

    @cached_property
    def layout(self) -> NumberLayout:
        """Totals modulo 2^64, one for each of these cells."""
        return NumberLayout((layout_array("guest_totals", len(self.cells), bits=64),))

    @property
    def answer_size(self) -> int:
        """Two numbers for each total."""
        return 2 * self.size

    @property
    def agreed(self) -> dict[str, Any]:
        return {"survey": self.survey.digest, "set": self.survey.set}

    def terms(self, options: SumOptions) -> SumTerms:
        """Return how delegates sum; refuse what a survey cannot have.

        A guest is hidden by one honest delegate, on whatever graph: see the proof in
        the guide. Machines count honest parties for sums of their own numbers, and two
        are always left for them.
        """
        survey, n = self.survey, len(self.survey.delegates)
        if survey.tally and (why := survey.closed_refusal()) is not None:
            raise InvalidInputError(why, code="guarantee-not-met")
        if options.get("drop"):
            raise InvalidInputError(
                "drop = true has no meaning for a survey: every delegate holds a share "
                "of every guest's numbers, and without one nothing adds up; leave it "
                "out",
                code="drop-not-accepted",
            )
        wanted = options.get("minimum_honest", 1)
        if n - survey.tolerate < wanted:
            raise InvalidInputError(
                f"with {survey.tolerate} of {n} members colluding {n - survey.tolerate}"
                f" are honest, and [policy] minimum_honest = {wanted}: leave that out, "
                "for guests are counted by [survey] minimum_honest; or have more "
                "members",
                code="honest-parties-differ",
            )
        among = {"tolerate": min(survey.tolerate, n - 2), "minimum_honest": 2}
        chosen: Any = {**options, **among}
        terms = SumTerms.of(survey.names, counts=self.counts, options=chosen)
        if not terms.law.sums_only:
            raise InvalidInputError(
                f'a survey is summed under law = "uniform", found {terms.law.name!r}: '
                "its numbers are spread over all of 64 bits, and no other law hides "
                "such",
                code="law-not-uniform",
            )
        return replace(terms, corrupted=worst_survey_members(survey))

    # What is asked, and what follows

    def request(self, sums: Sums) -> WantedTotals | None:
        return None if sums else WantedTotals(self.cells)

    def totals(self, sums: Sums) -> dict[int, int]:
        (found,) = sums
        return dict(zip(self.cells, map(survey_residue, found.tolist()), strict=True))

    def answer(self, sums: Sums) -> Vector:
        """Return each total in units as two numbers, how many 2^32 and the rest.

        All digits of these are in a float; of a total itself they may not be.
        """
        halves = [divmod(one, 2**32) for one in self.totals(sums).values()]
        return np.array(halves, dtype=np.float64).ravel()

    # What becomes known

    def release(self, sums: Sums) -> SumRelease:
        name = f"a survey ({self.survey.digest[:16]})"
        return SumRelease.from_layout(f"{name}: totals", self.layout)

    def shown(
        self, members: tuple[str, ...], releases: Sequence[SumRelease]
    ) -> tuple[LocaleLine, ...]:
        """Return what everybody learns: sums over guests, not over members."""
        return _sums_of_guests("all guests of the set", releases)

    def stated(self, promise: Guarantee, releases: Sequence[SumRelease]) -> Guarantee:
        """Return what is promised to guests; see the proof in the guide on surveys."""
        bad = promise.corrupted
        honest = promise.honest
        shown = _sums_of_guests(SurveyResult.summed_over, releases)
        survey = self.survey
        worst = WorstCoalition(
            tolerate=survey.tolerate,
            worst_coalition=bad,
            epsilon_lower=0.0,
            epsilon_upper=0.0,
            exact=True,
            cut=None,
            vertex_connectivity=None,
        )
        return SurveyGuarantee(
            status="private",
            law=promise.law,
            epsilon=0.0,
            mu2=None,
            mu2_certificate="none",
            corrupted=bad,
            honest=honest,
            components=(GuaranteeComponent(honest, "private", 0.0, None),),
            attacker_success=None,
            released=shown,
            limits=(FOLLOWED, EXACT, *(() if survey.tolerate else (NOBODY_CURIOUS,))),
            worst=worst,
            told=promise_to_guests(survey),
        )

    # What a delegate gives

    def contribution(
        self, party: str, *, shares: Callable[[], Words], masked: Words
    ) -> SumContribution:
        """Return how one delegate answers.

        Args:
            party: the delegate.
            shares: opens and adds up its shares, when a sum of them is first needed:
                by then its store must know the set.
            masked: the sum of the guests' masked vectors, which all members have.

        Raises:
            InvalidInputError: the survey is open.
        """
        if self.survey.tally is None:
            raise InvalidInputError(
                "the survey is open: nothing is added up before it is closed",
                code="survey-still-open",
            )
        first, at = party == self.survey.names[0], list(self.cells)

        def answer(request: Any) -> Array[Any]:
            del request  # there is one
            found = np.asarray(shares(), dtype=np.uint64)
            found = found + masked if first else found
            return as_python_integers(found[at].view(np.int64))

        # What a restarted run compares: nothing in it is private.
        named = f"{self.survey.digest} {self.survey.set}".encode()
        return SumContribution(answer, (np.frombuffer(named, dtype=np.uint8),))

    def run(
        self, contributions: Mapping[str, SumContribution], terms: SumTerms
    ) -> SurveyResult:
        """Return what delegates come to; a real one has its own contribution only.

        No ledger is charged: of members' own data nothing is in it.
        """
        released = run_sum_job(self, contributions, terms, agreed=self.agreed)
        return SurveyResult(terms=terms, recipe=self, released=released)


def _sums_of_guests(
    guests: str, releases: Sequence[SumRelease]
) -> tuple[LocaleLine, ...]:
    return tuple(
        LocaleLine(
            f"round {number}, summed over {guests}: {release.words}",
            round=number,
            guests=True,
            statistics=dict(release.statistics),
        )
        for number, release in enumerate(releases, start=1)
    )


def survey_residue(number: int) -> int:
    """Return the whole number nearest to 0 that is the same modulo 2^64.

    >>> survey_residue(2**64 - 3), survey_residue(5)
    (-3, 5)
    """
    return (int(number) + 2**63) % 2**64 - 2**63


def worst_survey_members(survey: SurveyTerms) -> tuple[str, ...]:
    """Return the members whose collusion leaves the fewest honest guests."""
    invited = Counter(guest.invited_by for guest in survey.guests)
    order = sorted(survey.names, key=lambda name: -invited[name])
    return tuple(order[: survey.tolerate])


def promise_to_guests(survey: SurveyTerms) -> str:
    """Return what is proved, and then what it rests on."""
    n, t, further = len(survey.names), survey.tolerate, survey.tolerate_guests
    some = f"up to {counted_words(further, 'guest')}"
    who = f"Whoever is no member{f', and {some} who collude,' if further else ''} can"
    if t:
        more = f", and {some} besides," if further else ","
        who = (
            f"Up to {t} of the {n} members who collude, the host among them or not, "
            f"with the guests that they invited{more} can"
        )
    return (
        f"{who} learn of an honest guest's numbers only what the released totals over "
        "all honest guests of the set say, of whom at least "
        f"{survey.minimum_honest + 1} filled every cell whose total is released, "
        "unless they break the encryption under which shares lie at the host. "
        f"{LEFT_EMPTY}"
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SurveyResult(SumJobResult):
    """Totals over the guests of a survey, cell by cell."""

    summed_over: ClassVar[str] = "all honest guests of the set"

    recipe: SurveyRecipe

    @property
    def survey(self) -> SurveyTerms:
        """The agreed terms of the survey."""
        return self.recipe.survey

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table."""
        return len(self.survey.rows), len(self.survey.columns)

    @property
    def tally(self) -> SurveyTally:
        """Numbers of guests that filled each cell, from the closed file."""
        assert self.survey.tally is not None
        return self.survey.tally

    @property
    def guests(self) -> int:
        """Number of guests in the set."""
        return self.tally.guests

    @property
    def invited(self) -> dict[str, int]:
        """Number of the set's guests that each member has invited."""
        return dict(zip(self.survey.names, self.tally.invited, strict=True))

    @property
    def given(self) -> Array[np.int64]:
        """Number of the set's guests that filled each cell."""
        return np.array(self.tally.given, dtype=np.int64).reshape(self.shape)

    @cached_property
    def counts(self) -> tuple[int | None, ...]:
        """Each total as a whole number of the unit; None where too few filled it."""
        found = self.recipe.totals(self.released.sums)
        return tuple(found.get(cell) for cell in builtins.range(self.survey.n_cells))

    @property
    def totals(self) -> FloatArray:
        """The totals; nan where too few filled a cell."""
        unit = self.survey.unit
        plain = [np.nan if one is None else float(one * unit) for one in self.counts]
        return np.array(plain).reshape(self.shape)

    @property
    def means(self) -> FloatArray:
        """Each total divided by the number of guests that filled the cell."""
        known = np.where(self.given > 0, self.given, 1)
        return self.totals / known

    @property
    def near(self) -> tuple[tuple[str, str], ...]:
        """Released cells of one row or column that nearly the same guests filled.

        At most `minimum_honest` guests filled but one of them, besides those that a
        coalition may know: fewer than a cell alone would need.
        """
        label = self.survey.label
        return tuple((label(less), label(more)) for less, more in self.tally.near)

    @property
    def more_near(self) -> bool:
        """Whether there may be more such pairs: not all were compared or named."""
        return self.tally.more_near

    @property
    def may_follow(self) -> tuple[str, ...]:
        """Cells that too few filled, beside two released ones in a row or column.

        If one of these is the total of the others, the missing one is the difference.
        """
        return tuple(map(self.survey.label, self.survey.may_follow))

    @property
    def beyond(self) -> tuple[str, ...]:
        """Cells whose total cannot be, if every guest's number is in the range."""
        survey, given = self.survey, self.tally.given
        return tuple(
            survey.label(cell)
            for cell, (one, n) in enumerate(zip(self.counts, given, strict=True))
            if one is not None and not n * survey.least <= one <= n * survey.most
        )

    def answered(self) -> Rendering:
        """Return the totals, and how many filled each cell."""
        survey, across = self.survey, len(self.survey.columns)
        told = [
            None if one is None else survey_number_in_full(one * survey.unit)
            for one in self.counts
        ]
        head = ("", *survey.columns)
        align = "<" + ">" * len(survey.columns)
        rows = [
            (name, *told[place * across : (place + 1) * across])
            for place, name in enumerate(survey.rows)
        ]
        filled = [
            (name, *line)
            for name, line in zip(survey.rows, self.given.tolist(), strict=True)
        ][:MOST_ROWS]
        shown = Rendering(
            f"{survey.title}: totals of {counted_words(self.guests, 'guest')}",
            [ShownTable(head, rows[:MOST_ROWS], align=align)],
            {
                "Guests that filled each cell": [
                    ShownTable(head, filled[:MOST_ROWS], align=align)
                ]
            },
        )
        if (more := len(rows) - MOST_ROWS) > 0:
            shown = shown.also(f"{more:,} more rows are in .totals.")
        if empty := sum(one is None for one in self.counts):
            shown = shown.also(
                f"Empty: {empty} of {len(self.counts)} cells, which too few guests "
                "filled; no total was asked for."
            )
        if self.near:
            pairs = [f"{less} and {more}" for less, more in self.near]
            shown = shown.also(
                f"Look out: {listed_names(pairs, most=MOST_PAIRS)} {NEAR}."
            )
        if self.more_near:
            shown = shown.also(f"Look out: {MORE_NEAR}.")
        if self.may_follow:
            names = listed_names(self.may_follow, most=MOST_PAIRS)
            shown = shown.also(f"Look out: {names} {MAY_FOLLOW}.")
        if self.beyond:
            shown = shown.also(f"The total of {listed_names(self.beyond)} {BEYOND}.")
        return shown

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        survey = self.survey
        exact = [
            None if one is None else survey_number_in_full(one * survey.unit)
            for one in self.counts
        ]
        across = len(survey.columns)
        totals = [exact[k : k + across] for k in builtins.range(0, len(exact), across)]
        return {
            **super().to_dict(),
            "survey": survey.digest,
            "set": survey.set,
            "title": survey.title,
            "unit": str(survey.unit),
            "rows": list(survey.rows),
            "columns": list(survey.columns),
            "guests": self.guests,
            "invited": self.invited,
            "given": self.given.tolist(),
            "near": [list(pair) for pair in self.near],
            "more_near": self.more_near,
            "may_follow": list(self.may_follow),
            "totals": totals,
            "beyond": list(self.beyond),
            "promise": self.guarantee.sentence,
        }

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the total of every filled cell."""
        label, totals = self.survey.label, self.totals.ravel().tolist()
        known = {label(k): one for k, one in enumerate(totals) if not isnan(one)}
        empty = len(totals) - len(known)
        guests = counted_words(self.guests, "guest")
        return figures.values_figure(
            dict([*known.items()][: figures.MOST_SHOWN]),
            f"total of {guests}",
            figures.chosen_title(title, self.survey.title),
            f"{guests}, added up by "
            f"{counted_words(len(self.survey.names), 'delegate')}; too few filled "
            f"{empty} of {counted_words(len(totals), 'cell')}."
            + figures.not_drawn_words(len(known)),
        )


def survey_number_in_full(number: Fraction) -> str:
    """Return a number with all its digits, however many; as a fraction without an end.

    >>> numbers = Fraction(2**60 + 1, 4), Fraction(-3), Fraction(1, 3)
    >>> [survey_number_in_full(number) for number in numbers]
    ['288230376151711744.25', '-3', '1/3']
    """
    # As many digits as there are factors 2, or 5, of which no more than bits.
    most = number.denominator.bit_length()
    if 10**most % number.denominator:
        return str(number)
    digits = next(d for d in builtins.range(most) if not 10**d % number.denominator)
    whole = int(abs(number) * 10**digits)
    sign, text = "-" if number < 0 else "", f"{whole:0{digits + 1}d}"
    return sign + (f"{text[:-digits]}.{text[-digits:]}" if digits else text)


# All in one process


def survey(
    guests: Mapping[str, Any],
    *,
    range: tuple[float, float],
    rows: Sequence[str] | None = None,
    unit: str | float | Fraction = 1,
    delegates: int | Sequence[str] = 3,
    minimum_guests: int = 5,
    tolerate_guests: int = 0,
    **options: Unpack[SumOptions],
) -> SurveyResult:
    """Return the totals of a survey in which every guest and every delegate is here.

    Guests draw shares and delegates add them up as they would; what is left out is
    the way between them: seals, signatures, and the page. Delegates invite in turn.

    Args:
        guests: each one's table, with the rows and columns of the survey: a pandas
            frame, or a mapping of columns; a number that is missing is an empty cell.
        range: the least and the largest that one cell may be.
        rows: what the rows are called, where tables have no names of their own.
        unit: what every number is a whole number of.
        delegates: how many there are, or their names.
        minimum_guests: how many must have filled a cell whose total is shown, at least;
            see `SurveyTerms.is_released`.
        tolerate_guests: how many guests may collude, besides those that colluding
            delegates invited.
        options: how to sum; see `SumOptions`. `minimum_honest` is how many other guests
            hide one, and `tolerate` how many delegates may collude.

    >>> firms = {k: {"women": [k, 2], "men": [-k, None]} for k in [1, 2, 3, 4, 5, 6]}
    >>> found = survey(firms, range=(-10, 10), seed=1)
    >>> found.totals.tolist(), found.given.tolist()
    ([[21.0, -21.0], [12.0, nan]], [[6, 6], [6, 0]])
    """
    tables = {
        name: as_frame(table) for name, table in parties_data_by_name(guests).items()
    }
    if not tables:
        raise InvalidInputError("a survey needs guests, found none", code="no-guests")
    names = (
        tuple(f"delegate {k + 1}" for k in builtins.range(delegates))
        if isinstance(delegates, int)
        else tuple(map(str, delegates))
    )
    if len(names) < 2:
        raise InvalidInputError(
            "a survey needs two delegates at least: one alone would see every guest's "
            "numbers",
            code="too-few-delegates",
        )
    if rows is not None:
        names_of_rows = [str(one) for one in rows]
        for name, table in tables.items():
            if len(table) != len(names_of_rows):
                raise InvalidInputError(
                    f"the table of {name!r} must have {len(names_of_rows)} rows "
                    f"({listed_names(names_of_rows)}), found {len(table)}",
                    code="wrong-row-count",
                )
            tables[name] = table.set_axis(names_of_rows, axis=0)
    first = next(iter(tables.values()))
    tolerate = options.get("tolerate", 1)
    if tolerate >= len(names):
        raise InvalidInputError(
            f"tolerate is {tolerate} of {len(names)} delegates: one at least is honest",
            code="tolerate-out-of-range",
        )
    terms = SurveyTerms(
        digest="0" * 64,
        title=options.get("title", "") or "A survey",
        unit=numeric_unit_of(unit),
        rows=tuple(map(str, first.index)),
        columns=tuple(map(str, first.columns)),
        low=range[0],
        high=range[1],
        minimum_honest=options.get("minimum_honest", 3),
        minimum_guests=minimum_guests,
        tolerate=tolerate,
        tolerate_guests=tolerate_guests,
        closes="",
        guests=tuple(
            SurveyGuest(name, b"", names[k % len(names)])
            for k, name in enumerate(tables)
        ),
        delegates=tuple((name, b"") for name in names),
    )
    if (why := terms.refusal([*tables])) is not None:
        raise InvalidInputError(why, code="guarantee-not-met")
    if minimum_guests <= (least := terms.minimum_honest + tolerate_guests):
        raise InvalidInputError(
            f"minimum_guests must be above minimum_honest + tolerate_guests = {least}, "
            f"found {minimum_guests}",
            code="minimum-guests-too-small",
        )
    if terms.least > terms.most:
        raise InvalidInputError(
            f"range must be the least and the largest of a cell, found {range}",
            code="malformed-range",
        )
    reach = max(abs(terms.least), abs(terms.most))
    if len(tables) * reach >= 2**TOTAL_BITS:
        raise InvalidInputError(
            f"totals of {len(tables)} guests may be beyond 2^{TOTAL_BITS} units: "
            "narrow the range, or take a larger unit",
            code="range-too-wide",
        )
    given = {
        name: _own_survey_table(terms, name, table) for name, table in tables.items()
    }
    tally = survey_tally_of(terms, {name: one.filled for name, one in given.items()})
    recipe = SurveyRecipe(replace(terms, tally=tally))
    others: Any = {k: v for k, v in options.items() if k != "minimum_honest"}
    summing = recipe.terms(others)
    chance = np.random.default_rng(options.get("seed"))
    masked = np.zeros(terms.n_cells, dtype=np.uint64)
    held = np.zeros((len(names), terms.n_cells), dtype=np.uint64)
    for one in given.values():
        shares = chance.integers(0, 2**64, held.shape, dtype=np.uint64)
        masked += one.words - shares.sum(axis=0)
        held += shares

    def holds(place: int) -> Callable[[], Words]:
        return lambda: held[place]

    works = {
        name: recipe.contribution(name, shares=holds(place), masked=masked)
        for place, name in enumerate(names)
    }
    return recipe.run(works, summing)


def _own_survey_table(terms: SurveyTerms, name: str, table: Any) -> GuestTable:
    """Return one guest's numbers; refuse a table that is not the survey's."""
    rows, columns = tuple(map(str, table.index)), tuple(map(str, table.columns))
    if (rows, columns) != (terms.rows, terms.columns):
        raise InvalidInputError(
            f"the table of {name!r} must have the rows {listed_names(terms.rows)} and "
            "the "
            f"columns {listed_names(terms.columns)}, found {listed_names(rows)} and "
            f"{listed_names(columns)}",
            code="table-not-of-survey",
        )
    values = table.to_numpy(dtype=np.float64, na_value=np.nan).tolist()
    cells = [[None if isnan(one) else one for one in row] for row in values]
    try:
        return guest_table_of(terms, cells)
    except RangeError as error:
        told = f"{name}: {error.plain}"
        raise RangeError(f"{name}: {error}", plain=told, code=error.code) from None
