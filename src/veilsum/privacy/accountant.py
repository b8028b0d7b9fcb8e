"""Disclosure rules for a party's data, without clock, files or randomness.

    fresh masks                 add their divergence to what the data set has spent
    the same masked costs again cost nothing, if they go to the same parties
    old masks, changed data     refused: the two messages differ by the change itself
    exact numbers               counted, over all jobs, against those that rows hold
    a job                       reserves all numbers it may need before it begins
    sets of parties             refused where sums over them give a few parties away

A decision is a value; the keeper of the history acts on it. `accounts_of_data_sets`
sums a history up: the amounts spent and left for each data set. A data set is all data
of a ledger, whatever their form, except those that their owner declared to be about
other people.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, inf, isfinite
from typing import Any, Literal, TypeAlias

from veilsum.errors import BudgetError, InvalidInputError
from veilsum.numbers.arrays import listed_names
from veilsum.privacy.composition import (
    Charge,
    CompositionTotal,
    charged_coalitions,
    charged_party_set,
    charged_total_against,
    charges_without_resends,
    check_charged_fingerprint,
    check_charged_name,
    component_totals,
    mobile_adversary_total,
    worst_charged_total,
)
from veilsum.privacy.spans import parties_given_away_by_sums

Outcome = Literal["accepted", "already", "resent", "refused"]

# Three honest parties: with two, each knows the other's value from the sum.
DEFAULT_MINIMUM_HONEST = 3
# A budget of 0.3 has room for three runs of 0.1, whose float sum is a little larger.
ROUNDING = 1e-12

_FRESH_MASKS = "draw fresh masks in a new epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Spending limits of each data set.

    A run has its own terms; the stricter of the two apply.

    Attributes:
        epsilon: limit of the composed epsilon; None counts and does not limit.
        release_fraction: exact numbers may be released up to this part of the numbers
            that honest parties' rows hold; None leaves it to a run's policy.
        minimum_rows: two data cuts that are queried differ by at least this many
            people, on each side on which they differ at all.
        minimum_honest: anything implied by known sums concerns at least this many
            honest parties.
        tolerate: number of colluders allowed in addition to these.
        when: a time stamp; the ledger fills it in.
    """

    epsilon: float | None = None
    release_fraction: float | None = 0.5
    minimum_rows: int = 5
    minimum_honest: int = DEFAULT_MINIMUM_HONEST
    tolerate: int = 0
    when: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("epsilon", "release_fraction"):
            found = getattr(self, name)
            if found is not None and not (isfinite(found) and found >= 0):
                raise InvalidInputError(
                    f"a budget's {name} must be finite and not negative, found "
                    f"{found}; None sets no limit",
                    code="limit-negative",
                )
        least = {"minimum_rows": 1, "minimum_honest": 1, "tolerate": 0}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise InvalidInputError(
                    f"a budget's {name} must be at least {lowest}, found "
                    f"{getattr(self, name)}",
                    code="limit-too-small",
                )

    def stricter(self, run: RunLimits) -> Budget:
        """Return what holds for a run: of each of two limits the stricter one."""
        fractions = (self.release_fraction, run.release_fraction)
        return replace(
            self,
            release_fraction=min((f for f in fractions if f is not None), default=None),
            minimum_honest=max(self.minimum_honest, run.minimum_honest),
            tolerate=max(self.tolerate, run.tolerate),
        )

    @property
    def few(self) -> int:
        """Largest number of parties about which nothing may become known."""
        return self.minimum_honest + self.tolerate - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Terms agreed for a run, as far as a ledger checks them."""

    release_fraction: float | None = None
    minimum_rows: int = 1
    minimum_honest: int = 1
    tolerate: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSum:
    """One exact aggregate that all parties of a set learn.

    Attributes:
        statistic: what is summed, such as "sum of income".
        point: where it is evaluated, such as a regression's coefficients; () if
            nowhere.
        parties: whose terms are in the sum.
        data: keyed fingerprint of this party's data.
        numbers: how many there are.
        columns: of the table that they are about.
        rows: that honest parties have at least; None if it is not about rows, and then
            nothing limits how many numbers there may be.
        run: which it is from, if it is from one.
        epoch: in which it was shown. A name does not say what is summed: the same one
            in another epoch is another sum.
        when: a time stamp; the ledger fills it in.
    """

    statistic: str
    point: tuple[float, ...] = ()
    parties: tuple[str, ...]
    data: str = field(repr=False)
    numbers: int = 1
    columns: tuple[str, ...] = ()
    rows: int | None = None
    run: str = ""
    epoch: str = ""
    when: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_accounted_numbers(self)
        object.__setattr__(self, "point", tuple(map(float, self.point)))
        if not all(map(isfinite, self.point)):
            raise InvalidInputError(
                f"the point of {self.statistic!r} must be finite numbers, found "
                f"{self.point}",
                code="point-not-finite",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountReservation:
    """All numbers that a run may come to release, kept free before it begins.

    Attributes:
        parties: everybody who may take part.
        data: keyed fingerprint of this party's data.
        numbers: at most.
        columns: as for `KnownSum`, and so are rows.
        limits: what the run keeps to.
        question: what it asks of a table, in public words; see `tables.asked`.
        subject: numbers that every party has one set of, such as "estimates of dose";
            "" where sums are not about parties.
        equations: how many sums of these numbers the run shows.
        unknowns: how many of these numbers honest parties have at least.
        when: a time stamp; the ledger fills it in.
    """

    run: str
    statistic: str
    parties: tuple[str, ...]
    data: str = field(repr=False)
    numbers: int
    columns: tuple[str, ...] = ()
    rows: int | None = None
    limits: RunLimits = RunLimits()
    question: str = ""
    subject: str = ""
    equations: int = 0
    unknowns: int = 0
    when: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_charged_name(self.run, what="a run")
        _check_accounted_numbers(self)


def _check_accounted_numbers(entry: KnownSum | AccountReservation) -> None:
    check_charged_name(entry.statistic, what="a statistic")
    check_charged_fingerprint(entry.data, what="data")
    object.__setattr__(entry, "parties", charged_party_set(entry.parties, least=1))
    object.__setattr__(entry, "columns", tuple(sorted(entry.columns)))
    if entry.numbers < 0:
        raise InvalidInputError(
            f"{entry.statistic!r} has {entry.numbers} numbers: give how many there are",
            code="counts-missing",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSettlement:
    """A run came to its end, and what it has not used of its reservation is free."""

    run: str
    when: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCopied:
    """From here on a ledger is a copy: what its original recorded later is not here."""

    when: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountResumed:
    """A copy took the place of its original, by its owner's word.

    Attributes:
        statement: what the owner said of the time between.
        uncounted: runs of that time that are known of, and of which nothing is counted.
    """

    statement: str
    uncounted: tuple[str, ...] = ()
    when: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTableVersion:
    """A table as it was at one time; see `tables.fingerprints`.

    Attributes:
        data: keyed fingerprint of its content, whatever the order of rows.
        columns: of the file, or those that a job asked about.
        n_rows: how many there are.
        rows: their fingerprints over these columns.
        sketches: of these columns.
        is_whole: whether these are all columns of the file.
        shapes: of these columns, whatever their names, units and zeros are.
        same: earlier versions of which rows are known again.
        taken_for: earlier data that it counts as, since no row is known again.
        people: the different ids, where the table has a column of ids and this is all
            of it.
        contents: a number for what these columns say of each of them.
        when: a time stamp; the ledger fills it in.
    """

    data: str = field(repr=False)
    columns: tuple[str, ...]
    n_rows: int
    rows: str = field(repr=False)
    sketches: tuple[str, ...] = field(repr=False)
    is_whole: bool
    shapes: tuple[str, ...] = field(default=(), repr=False)
    same: tuple[str, ...] = field(default=(), repr=False)
    taken_for: tuple[str, ...] = field(default=(), repr=False)
    people: str = field(default="", repr=False)
    contents: str = field(default="", repr=False)
    when: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCut:
    """A party's table at one moment, under a name of the party's own.

    Attributes:
        name: the party's word for it; never sent.
        data: keyed fingerprint of its content, as for `AccountTableVersion`.
        n_rows: number of rows.
        columns: names of the columns.
        id_column: the column that says who a row is about; "" if there is none.
        file: the private copy of the rows, beside the ledger.
        digest: keyed digest of that copy.
        how: how the copy is read, as JSON.
        when: a time stamp; the ledger fills it in.
    """

    name: str
    data: str = field(repr=False)
    n_rows: int
    columns: tuple[str, ...]
    id_column: str = ""
    file: str = ""
    digest: str = field(default="", repr=False)
    how: str = field(default="{}", repr=False)
    when: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenCut:
    """The private copy of a cut's rows was removed; the fingerprints stay."""

    name: str
    when: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewData:
    """The owner's word that some data are about other people than all before them."""

    data: str = field(repr=False)
    when: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountInquiry:
    """A file of others was held against this party's data.

    Attributes:
        file: its digest.
        run: its name.
        data: keyed fingerprint of this party's data.
        question: digest of what is asked of whom, without any bound.
        bounds: the file's ranges, row counts and rules.
        when: a time stamp; the ledger fills it in.
    """

    file: str
    run: str
    data: str = field(repr=False)
    question: str
    bounds: str
    when: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFile:
    """This party stayed away, which may tell others something about its data.

    Attributes:
        file: digest of the file that was refused.
        data: keyed fingerprint of this party's data.
        reason: why, without a private value; never sent.
        when: a time stamp; the ledger fills it in.
    """

    file: str
    data: str = field(repr=False)
    reason: str
    when: str | None = field(default=None, compare=False)


Entry: TypeAlias = (
    Charge
    | KnownSum
    | Budget
    | AccountReservation
    | AccountSettlement
    | AccountCopied
    | AccountResumed
    | AccountTableVersion
    | DataCut
    | ForgottenCut
    | NewData
    | AccountInquiry
    | RefusedFile
)
# What a ledger is asked about.
Wish: TypeAlias = Charge | KnownSum | AccountReservation


@dataclass(frozen=True, slots=True)
class AccountHistory:
    """Everything that was recorded, oldest first."""

    charges: tuple[Charge, ...] = ()
    releases: tuple[KnownSum, ...] = ()
    budgets: tuple[Budget, ...] = ()
    reservations: tuple[AccountReservation, ...] = ()
    settlements: tuple[AccountSettlement, ...] = ()
    versions: tuple[AccountTableVersion, ...] = ()
    cuts: tuple[DataCut, ...] = ()
    forgotten: tuple[ForgottenCut, ...] = ()
    declared: tuple[NewData, ...] = ()
    inquiries: tuple[AccountInquiry, ...] = ()
    refusals: tuple[RefusedFile, ...] = ()
    copies: tuple[AccountCopied | AccountResumed, ...] = ()

    @property
    def copied(self) -> str | None:
        """When this copy was made, if it is one whose owner has not said yet to use."""
        last = self.copies[-1] if self.copies else None
        return (last.when or "") if isinstance(last, AccountCopied) else None

    @property
    def budget(self) -> Budget:
        return self.budgets[-1] if self.budgets else Budget()

    def plus(self, *entries: Entry) -> AccountHistory:
        more: dict[str, list[Any]] = {}
        for entry in entries:
            more.setdefault(_PLACES[type(entry)], []).append(entry)
        longer = {name: (*getattr(self, name), *new) for name, new in more.items()}
        return replace(self, **longer)

    def same_data(self, data: str) -> frozenset[str]:
        new = {one.data for one in self.declared}
        links = [
            {one.data, *one.same, *(() if one.data in new else one.taken_for)}
            for one in self.versions
        ]
        found = {data}
        before: set[str] = set()
        while before != found:
            before = set(found)
            for one in links:
                if not found.isdisjoint(one):
                    found |= one
        return frozenset(found)

    @property
    def data_sets(self) -> tuple[str, ...]:
        """The first data of each data set, in order of appearance."""
        entries: list[AccountTableVersion | AccountReservation | KnownSum | Charge] = [
            *self.versions,
            *self.reservations,
            *self.releases,
            *self.charges,
        ]
        seen, first = set[str](), list[str]()
        for one in entries:
            if one.data not in seen:
                first.append(one.data)
                seen |= self.same_data(one.data)
        return tuple(first)

    def of(self, data: str) -> AccountHistory:
        same = self.same_data(data)
        kept = {
            name: tuple(one for one in getattr(self, name) if one.data in same)
            for name in _PLACES.values()
            if name not in ("budgets", "settlements", "copies", "forgotten")
        }
        return replace(self, **kept)

    @property
    def asked(self) -> frozenset[str]:
        """The data of which numbers are known, or may become known at any time."""
        pending = self.pending
        return frozenset(
            [one.data for one in self.releases]
            + [one.data for one in self.reservations if one.run in pending]
        )

    def of_run(self, run: str) -> AccountReservation | None:
        """Return what a run has reserved, if it has."""
        return next((one for one in self.reservations if one.run == run), None)

    def questions(self, *, but: str) -> dict[str, str]:
        """Return by run what was asked of tables and shown, or still may be."""
        shown = {one.run for one in self.releases} | {*self.pending}
        return {
            one.run: one.question
            for one in self.reservations
            if one.question and one.run in shown and one.run != but
        }

    @property
    def pending(self) -> dict[str, int]:
        """By run that has not come to its end: reserved numbers not released so far."""
        over = {one.run for one in self.settlements}
        left = {one.run: one.numbers for one in self.reservations}
        for one in self.releases:
            if one.run in left:
                left[one.run] = max(0, left[one.run] - one.numbers)
        return {run: numbers for run, numbers in left.items() if run not in over}


_PLACES: dict[type[Any], str] = {
    Charge: "charges",
    KnownSum: "releases",
    Budget: "budgets",
    AccountReservation: "reservations",
    AccountSettlement: "settlements",
    AccountTableVersion: "versions",
    DataCut: "cuts",
    ForgottenCut: "forgotten",
    NewData: "declared",
    AccountInquiry: "inquiries",
    RefusedFile: "refusals",
    AccountCopied: "copies",
    AccountResumed: "copies",
}


@dataclass(frozen=True, slots=True)
class AccountDecision:
    """Outcome of a charge or a release, with its reason.

    accepted  it is new and there is room for it
    already   it is recorded: nothing new is shown
    resent    known masked costs go to the parties that have them: no cost
    refused   the reason names the obstacle
    """

    outcome: Outcome
    reason: str

    @property
    def is_news(self) -> bool:
        return self.outcome in {"accepted", "resent"}


def decide_charge(
    history: AccountHistory, charge: Charge, budget: Budget
) -> AccountDecision:
    """Decide whether an epoch may begin to send.

    Idempotent: the epoch of a run that was interrupted is charged once.
    """
    # The epoch speaks first: it may itself have sent an earlier epoch's costs again.
    for rule in (_same_charged_epoch, _same_charged_masks, _same_charged_costs):
        for old in history.charges:
            decision = rule(old, charge)
            if decision is not None:
                return decision
    return _decide_charge_within_budget(history.of(charge.data), charge, budget)


def decide_release(
    history: AccountHistory, release: KnownSum, budget: Budget
) -> AccountDecision:
    """Decide whether an exact aggregate may become known."""
    known = history.of(release.data)
    if release in known.releases:
        return AccountDecision(
            "already", f"{release.statistic!r} is known at this point"
        )
    reserved = history.of_run(release.run) if release.run else None
    limits = budget if reserved is None else budget.stricter(reserved.limits)
    if (reason := _given_away_by_charges(known, release, limits)) is not None:
        return AccountDecision("refused", reason)
    free = known.pending.get(release.run, 0)
    if release.numbers <= free:
        left = free - release.numbers
        return AccountDecision("accepted", f"{left} of the run's numbers are left")
    return _decide_room_for_numbers(known, release, release.numbers - free, limits)


def decide_reservation(
    history: AccountHistory, wanted: AccountReservation, budget: Budget
) -> AccountDecision:
    """Decide whether a run may begin: there is room for all that it may release."""
    old = history.of_run(wanted.run)
    if old is not None and old == wanted:
        return AccountDecision(
            "already", f"the run {wanted.run} has its numbers reserved"
        )
    if old is not None:
        return AccountDecision(
            "refused",
            f"the run {wanted.run} was begun with other data or other terms: put back "
            "what it was begun with, or take part in a new run",
        )
    known, limits = history.of(wanted.data), budget.stricter(wanted.limits)
    for refusal in (
        _given_away_by_charges(known, wanted, limits),
        _refuse_repeated_run(known, wanted),
    ):
        if refusal is not None:
            return AccountDecision("refused", refusal)
    return _decide_room_for_numbers(known, wanted, wanted.numbers, limits)


def decide_ledger_entry(
    history: AccountHistory, entry: Wish, budget: Budget
) -> AccountDecision:
    """Decide about a charge, a release or a reservation."""
    if isinstance(entry, Charge):
        return decide_charge(history, entry, budget)
    if isinstance(entry, AccountReservation):
        return decide_reservation(history, entry, budget)
    return decide_release(history, entry, budget)


def _given_away_by_charges(
    known: AccountHistory, new: KnownSum | AccountReservation, limits: Budget
) -> str | None:
    """Say who would be given away by sums over all these sets of parties.

    Whatever the sums are called, and at whatever points: points may be arbitrarily
    close, and names do not say what overlaps. A new version of a table counts as the
    same: most of its rows are.
    """
    sets = dict.fromkeys(one.parties for one in (*known.releases, new))
    try:
        found = parties_given_away_by_sums(sets, limits.few)
    except BudgetError as error:
        return str(error)
    if found is None:
        return None
    return (
        f"{new.statistic!r} over {listed_names(new.parties)}, added to and subtracted "
        "from "
        f"what is known over other sets of parties, could give away "
        f"{listed_names(found)}: what follows from a data set's sums must be about at "
        "least "
        f"{limits.few + 1} parties (minimum_honest = {limits.minimum_honest} and "
        f"tolerate = {limits.tolerate}); keep to one set of "
        f"parties{_advise_on_new_data_set(known)}"
    )


def _advise_on_new_data_set(known: AccountHistory) -> str:
    """Say what to do if data were taken for earlier ones by mistake."""
    new = {one.data for one in known.declared}
    if not any(one.taken_for for one in known.versions if one.data not in new):
        return ""
    return (
        ". Data that this ledger does not know count as the earlier ones; if they are "
        "about other people, say --new-data (new_data=True in Python)"
    )


def _refuse_repeated_run(known: AccountHistory, new: AccountReservation) -> str | None:
    """Refuse a run that would leave fewer unknown numbers of parties than sums.

    Others may have changed their data since the last run, and with them the point at
    which a sum is taken: every run counts, also where it asks the same.
    """
    if not new.subject:
        return None
    shown = {one.run for one in known.releases} | {*known.pending}
    before = [
        one
        for one in known.reservations
        if one.subject == new.subject and one.run in shown
    ]
    spent = sum(one.equations for one in before)
    if not before or spent + new.equations < new.unknowns:
        return None
    times = "once" if len(before) == 1 else f"{len(before)} times"
    return (
        f"{new.statistic!r} was asked {times} before. Another member may have changed "
        "its data in between, and then the sums of both runs together can be solved "
        f"for every party's numbers: {spent} sums are known, {new.equations} more are "
        f"asked for, and the honest parties have {new.unknowns} numbers; use the "
        "earlier result, or ask again with more "
        f"parties{_advise_on_new_data_set(known)}"
    )


@dataclass(frozen=True, slots=True)
class _AccountedNumbers:
    """Numbers about some columns of some parties' rows."""

    parties: frozenset[str]
    columns: frozenset[str]
    rows: int
    numbers: int


def _released_and_reserved_numbers(known: AccountHistory) -> list[_AccountedNumbers]:
    """Return all numbers of a data set that were released, or are reserved."""
    pending = known.pending
    found: dict[tuple[tuple[str, ...], ...], tuple[int, int]] = {}
    entries: list[KnownSum | AccountReservation] = [
        *known.releases,
        *known.reservations,
    ]
    for one in entries:
        numbers = one.numbers if isinstance(one, KnownSum) else pending.get(one.run, 0)
        key = one.parties, one.columns
        rows, before = found.get(key, (0, 0))
        found[key] = max(rows, one.rows or 0), before + numbers
    return [
        _AccountedNumbers(frozenset(parties), frozenset(columns), *counted)
        for (parties, columns), counted in found.items()
    ]


def _decide_room_for_numbers(
    known: AccountHistory,
    new: KnownSum | AccountReservation,
    numbers: int,
    limits: Budget,
) -> AccountDecision:
    """Decide about more numbers.

    All about the data set are held against the numbers in its rows; and so are those
    about fewer columns, or about fewer parties, as far as the new ones are among them:
    what was asked about one column is not made harmless by questions about others.
    """
    fraction = limits.release_fraction
    if new.rows is None or fraction is None:
        return AccountDecision("accepted", "no limit is set")
    asked = [
        *_released_and_reserved_numbers(known),
        _AccountedNumbers(
            frozenset(new.parties), frozenset(new.columns), new.rows, numbers
        ),
    ]
    everybody = frozenset[str]().union(*(one.parties for one in asked))
    everything = frozenset[str]().union(*(one.columns for one in asked))
    least = inf
    for parties in {everybody, *(one.parties for one in asked)}:
        for columns in {everything, *(one.columns for one in asked)}:
            if not (parties >= {*new.parties} and columns >= {*new.columns}):
                continue
            inside = [a for a in asked if a.parties <= parties and a.columns <= columns]
            held = max(one.rows for one in inside) * len(columns)
            spent = sum(one.numbers for one in inside)
            if not spent < fraction * held:
                return AccountDecision(
                    "refused",
                    _full_account_sentence(
                        new,
                        numbers,
                        spent - numbers,
                        columns,
                        held,
                        limits,
                        _advise_on_new_data_set(known),
                    ),
                )
            least = min(least, fraction * held - spent)
    return AccountDecision("accepted", f"{ceil(least) - 1} numbers are left")


def _full_account_sentence(
    new: KnownSum | AccountReservation,
    numbers: int,
    spent: int,
    columns: frozenset[str],
    held: int,
    limits: Budget,
    hint: str,
) -> str:
    return (
        f"{new.statistic!r} may need {numbers} numbers, {spent} were released or "
        f"reserved about {listed_names(sorted(columns))} of this data set before, and "
        "all of "
        f"them must stay below release_fraction = {limits.release_fraction:g} of the "
        f"{held} numbers that honest parties' rows hold at least: ask for fewer "
        "columns or rounds, or agree on more minimum_rows; whoever wants more released "
        f"raises release_fraction, in [policy] and in the ledger's budget{hint}"
    )


def epsilon_left_in_budget(history: AccountHistory, budget: Budget) -> float | None:
    """Return what one data set's history leaves; None without limit or bound."""
    spent = mobile_adversary_total(history.charges).epsilon
    if budget.epsilon is None or spent is None:
        return None
    return max(0.0, budget.epsilon - spent)


def _same_charged_epoch(old: Charge, new: Charge) -> AccountDecision | None:
    if old.epoch != new.epoch:
        return None
    difference = _difference_of_charges(old, new)
    if difference is None:
        return AccountDecision("already", f"epoch {new.epoch!r} is charged already")
    return AccountDecision(
        "refused",
        f"epoch {new.epoch!r} was charged with other {difference}: an epoch's masks "
        f"serve one set of costs and one set of parties; {_FRESH_MASKS}",
    )


def _same_charged_masks(old: Charge, new: Charge) -> AccountDecision | None:
    if new.masks is None or old.masks != new.masks:
        return None
    difference = _difference_of_charges(old, new)
    if difference is None:
        return AccountDecision(
            "resent", f"epoch {old.epoch!r} showed the same masked costs"
        )
    return AccountDecision("refused", _charge_reuse_sentence(old, difference))


def _same_charged_costs(old: Charge, new: Charge) -> AccountDecision | None:
    """Refuse old masked costs for new data; with equal data they met by chance."""
    unmasked = new.masks is None or old.masks is None
    if unmasked or old.effective != new.effective or old.data == new.data:
        return None
    return AccountDecision("refused", _charge_reuse_sentence(old, "data"))


def _difference_of_charges(old: Charge, new: Charge) -> str | None:
    """Name what two charges for the same masks disagree on; None if on nothing."""
    pairs = {
        "data": (old.data, new.data),
        "masked costs": (old.effective, new.effective),
        "masks": (old.masks, new.masks),
        "parties": (old.parties, new.parties),
        "kinds of masks": (old.law, new.law),
    }
    for what, (before, now) in pairs.items():
        if before != now:
            return what
    same = len(old.exposures) == len(new.exposures) and all(
        before.agrees_with(now)
        for before, now in zip(old.exposures, new.exposures, strict=True)
    )
    return None if same else "bounds"


def _charge_reuse_sentence(old: Charge, difference: str) -> str:
    if difference == "data":
        return (
            f"the data changed and the masks are those of epoch {old.epoch!r}: the two "
            f"messages would differ by exactly the change; {_FRESH_MASKS}"
        )
    return (
        f"the masks of epoch {old.epoch!r} were used with other {difference}: masks "
        f"are used once; {_FRESH_MASKS}"
    )


def _decide_charge_within_budget(
    known: AccountHistory, charge: Charge, budget: Budget
) -> AccountDecision:
    """Decide about fresh masks on a data set with this history."""
    limit, after = budget.epsilon, mobile_adversary_total((*known.charges, charge))
    if limit is None:
        return AccountDecision("accepted", "no limit is set")
    if after.epsilon is None:
        return AccountDecision(
            "refused",
            f"the budget is epsilon {limit:.6g} for each data set, and no bound would "
            f"be left to hold against it: {after.reason}; change the graph or the "
            "masks, or lift the limit openly",
        )
    if after.epsilon > limit * (1.0 + ROUNDING):
        left = epsilon_left_in_budget(known, budget) or 0.0
        why = (
            f"epoch {charge.epoch!r} needs epsilon {charge.worst_bound:.6g}, and of "
            f"the budget of {limit:.6g} for this data set {left:.6g} is left; send the "
            "stored masked costs again, or use more noise"
        )
        return AccountDecision("refused", why + _advise_on_new_data_set(known))
    left = max(0.0, limit - after.epsilon)
    return AccountDecision("accepted", f"epsilon {left:.6g} is left")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyAccount:
    """One data set: what it has spent and what is left.

    `total` is the budget's measure, against an adversary who may choose other parties
    in every run; `worst` is the largest total of one coalition that was recorded. A
    coalition is given by its members, or by a size that stands for all of that size.
    """

    data_set: int
    runs: int
    resent: int
    total: CompositionTotal
    worst: CompositionTotal
    epsilon_left: float | None
    coalitions: tuple[tuple[tuple[str, ...] | int, CompositionTotal], ...]
    components: tuple[tuple[tuple[str, ...], tuple[str, ...], CompositionTotal], ...]
    versions: int
    columns: tuple[str, ...]
    numbers: int
    reserved: int
    numbers_left: int | None
    refusals: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; no bound is None, with the reason."""
        return {
            "data_set": self.data_set,
            "runs": self.runs,
            "resent": self.resent,
            **_plain_budget_total(self.total),
            "epsilon_left": self.epsilon_left,
            "worst": _plain_budget_total(self.worst),
            "coalitions": [
                {**_charged_coalition(who), **_plain_budget_total(total)}
                for who, total in self.coalitions
            ],
            "components": [
                {
                    **_charged_coalition(who),
                    "parties": list(parties),
                    **_plain_budget_total(total),
                }
                for who, parties, total in self.components
            ],
            "versions": self.versions,
            "columns": list(self.columns),
            "numbers": self.numbers,
            "reserved": self.reserved,
            "numbers_left": self.numbers_left,
            "refusals": self.refusals,
        }


def accounts_of_data_sets(history: AccountHistory) -> tuple[PrivacyAccount, ...]:
    """Return one account for each data set, numbered in order of appearance."""
    first = {number: data for data, number in account_numbers(history).items()}
    return tuple(
        _account_of_data_set(number, history.of(first[number])) for number in first
    )


def account_numbers(history: AccountHistory) -> dict[str, int]:
    """Return a number for each data set: people need no fingerprint."""
    numbers: dict[str, int] = {}
    count = 0
    for name in ("charges", "releases", "reservations", "refusals"):
        for one in getattr(history, name):
            if one.data not in numbers:
                count += 1
                numbers |= dict.fromkeys(history.same_data(one.data), count)
    return numbers


def _account_of_data_set(number: int, known: AccountHistory) -> PrivacyAccount:
    fresh = charges_without_resends(known.charges)
    named = [who for who in charged_coalitions(fresh) if not isinstance(who, int)]
    asked = _released_and_reserved_numbers(known)
    columns = frozenset[str]().union(*(one.columns for one in asked))
    spent = sum(one.numbers for one in asked)
    released = sum(one.numbers for one in known.releases)
    limits = known.budget
    for one in known.reservations[-1:]:
        limits = limits.stricter(one.limits)
    held = max((one.rows for one in asked), default=0) * len(columns)
    limit = None
    if held and limits.release_fraction is not None:
        limit = limits.release_fraction * held
    return PrivacyAccount(
        data_set=number,
        runs=len(fresh),
        resent=len(known.charges) - len(fresh),
        total=mobile_adversary_total(fresh),
        worst=worst_charged_total(fresh),
        epsilon_left=epsilon_left_in_budget(known, known.budget),
        coalitions=tuple(
            (who, charged_total_against(fresh, who))
            for who in charged_coalitions(fresh)
        ),
        components=tuple(
            (who, parties, total)
            for who in named
            for parties, total in component_totals(fresh, who).items()
        ),
        versions=len({one.data for one in known.versions}),
        columns=tuple(sorted(columns)),
        numbers=released,
        reserved=spent - released,
        numbers_left=None if limit is None else max(0, ceil(limit) - 1 - spent),
        refusals=len(known.refusals),
    )


def _charged_coalition(coalition: tuple[str, ...] | int) -> dict[str, Any]:
    if isinstance(coalition, int):
        return {"coalition": None, "tolerate": coalition}
    return {"coalition": list(coalition), "tolerate": None}


def _plain_budget_total(total: CompositionTotal) -> dict[str, Any]:
    return {"epsilon": total.epsilon, "reason": total.reason}
