"""A question put to a party's own table or cost at home: the checks of a run, unsent.

It goes the way that a run goes, up to the point at which something would be sent. So
what passes here passes there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NoReturn

from veilsum.consortium.consortium import Consortium
from veilsum.drivers.driver import DriverAssignment
from veilsum.errors import BudgetError, InvalidInputError, VeilsumError
from veilsum.files.ledger import Ledger, LedgerRequest
from veilsum.locale import phrase
from veilsum.numbers.arrays import listed_names
from veilsum.numbers.secrets import Secret
from veilsum.party.inputs import TABLE_AND_LEDGER, OwnPart, PartyTableInput
from veilsum.party.own_rules import OwnRules
from veilsum.party.short_page import ConsentPart
from veilsum.privacy.accountant import accounts_of_data_sets
from veilsum.privacy.guarantee import Guarantee
from veilsum.sums.kinds import agreed_sum_job
from veilsum.sums.own_influence import AskedTable, own_influence_on_sums
from veilsum.sums.prices import ReleasePrice
from veilsum.sums.recipes import SumPartyWork, release_of_residues
from veilsum.sums.releases import SUM_LIMITS
from veilsum.sums.table_job import SchemaTableJob
from veilsum.tables.rules import Rules

_say = partial(phrase, "consent")
RULES = tuple(one.name for one in fields(Rules))


class AtHomeError(Exception):
    """Everything was checked: the next step would be seen by others.

    Attributes:
        assignment: what the run begins with.
    """

    def __init__(self, assignment: DriverAssignment) -> None:
        super().__init__("checked at home, and nothing was sent")
        self.assignment = assignment

    def wanted(self, party: str) -> LedgerRequest:
        """Return what the run would ask of a party's ledger."""
        assert self.assignment.wanted is not None
        return self.assignment.wanted(party)


@dataclass(frozen=True, eq=False, repr=False)
class HomeDriver(Secret):
    """Takes part for a party until something would be sent.

    Attributes:
        asks: whether the party's ledger is asked, too.
    """

    party: str
    asks: bool = False

    def carry_out(self, assignment: DriverAssignment) -> NoReturn:
        """Ask the party's ledger, then stop."""
        if self.asks and assignment.check is not None:
            assignment.check(self.party)
        raise AtHomeError(assignment)


@dataclass(frozen=True, kw_only=True)
class FoundAtHome(Secret):
    """Results of a party's local checks, for its owner only.

    Attributes:
        refusals: full reasons by rule; the key `table` stands for the agreed schema,
            and `ledger` for the ledger.
        passed: rules that refuse nothing.
        unknown: rules not checked, since the table has to fit the schema first.
        assignment: assignment that the run would start with; None if it would not.
    """

    refusals: Mapping[str, str]
    passed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    assignment: DriverAssignment | None = None

    @property
    def good(self) -> bool:
        return not self.refusals

    @property
    def lines(self) -> tuple[str, ...]:
        """Every rule and what it says, for the owner."""
        return (
            *(
                _say("checks.refused", rule=rule, why=why)
                for rule, why in self.refusals.items()
            ),
            *(_say("checks.passed", rule=rule) for rule in self.passed),
            *(_say("checks.unknown", rule=rule) for rule in self.unknown),
        )


def check_question_at_home(
    part: OwnPart, party: str, ledger: Ledger | None
) -> FoundAtHome:
    """Return what a party's own checks say to a question; nothing is sent."""
    names, (data, books) = () if part.rules is None else RULES, part.checks
    try:
        part.run(HomeDriver(party, asks=True), ledger)
    except AtHomeError as home:
        return checks_passed_at_home(part, ledger, home.assignment)
    except BudgetError as error:
        return FoundAtHome(refusals={books: str(error)}, passed=(data, *names))
    except InvalidInputError as error:
        first = {_rule_that_party_refuses_by(error, data): str(error)}
    if part.rules is None:
        return FoundAtHome(refusals=first)
    assert isinstance(part, PartyTableInput)
    return _one_by_one(part, party, part.rules, first)


def checks_passed_at_home(
    part: OwnPart, ledger: Ledger | None, task: DriverAssignment
) -> FoundAtHome:
    """Return what was found where a run has got as far as to an assignment."""
    names, (data, books) = () if part.rules is None else RULES, part.checks
    kept = () if ledger is None and part.checks == TABLE_AND_LEDGER else (books,)
    return FoundAtHome(refusals={}, passed=(data, *names, *kept), assignment=task)


def _one_by_one(
    part: PartyTableInput, party: str, rules: Rules, first: Mapping[str, str]
) -> FoundAtHome:
    """Return which rules refuse: each is asked by itself, after the table."""

    def refusal(**kept: Any) -> InvalidInputError | None:
        try:
            part.run(HomeDriver(party), None, rules=Rules.none(**kept))
        except AtHomeError:
            return None
        except InvalidInputError as error:
            return error
        raise AssertionError("a run at home never comes to an answer")

    if (wrong := refusal()) is not None:
        rule = _rule_that_party_refuses_by(wrong)
        left = tuple(name for name in RULES if name != rule)
        return FoundAtHome(refusals={rule: str(wrong)}, unknown=left)
    found = {name: refusal(**{name: getattr(rules, name)}) for name in RULES}
    refused = {name: str(told) for name, told in found.items() if told is not None}
    # Rules may refuse together what each of them would let pass.
    refused = refused or dict(first)
    kept = ("table", *(name for name in RULES if name not in refused))
    return FoundAtHome(refusals=refused, passed=kept)


def _rule_that_party_refuses_by(error: InvalidInputError, data: str = "table") -> str:
    """Return the rule that refuses; what is brought if it is none of a policy's."""
    rule = getattr(error, "rule", None)
    return rule if rule in RULES else data


def party_ledger_lines(
    ledger: Ledger | None, task: DriverAssignment, most: int
) -> tuple[str, ...]:
    """Return what a ledger knows of the data before a run, and at most after it."""
    (work,) = task.works.values()
    assert isinstance(work, SumPartyWork)
    if ledger is None:
        return (_say("ledger.none"),)
    known = ledger.data(work.contribution.data)
    found = accounts_of_data_sets(ledger.history().of(known.data))
    numbers = found[0].numbers + found[0].reserved if found else 0
    left = found[0].numbers_left if found else None
    spent = found[0].total.epsilon if found else 0.0
    epsilon = _say("ledger.no_bound") if spent is None else f"{spent:.6g}"
    reserved = work.recipe.most_numbers
    return (
        _say("ledger.kept", file=ledger.path),
        *ledger_people_lines(ledger, known.data),
        _say(
            "ledger.before" if left is None else "ledger.before_with_room",
            numbers=numbers,
            left=left,
            epsilon=epsilon,
        ),
        _say(
            "ledger.after" if reserved == most else "ledger.after_filled_up",
            numbers=numbers + most,
            reserved=reserved,
        ),
    )


def ledger_people_lines(ledger: Ledger, data: str) -> tuple[str, ...]:
    """Return whether a ledger takes data to be about the people that it knows."""
    history = ledger.history()
    is_new = any(one.data == data for one in history.declared)
    for one in history.versions:
        if one.data == data and one.is_whole:
            if is_new:
                return (_say("ledger.known_rows" if one.same else "ledger.new_people"),)
            return (_say("ledger.same_people"),) if one.taken_for else ()
    return ()


MOST_SHOWN = 10
# The key of the heading under which a page has what follows.
ASKED_BEFORE = "asked_before"


def files_asked_before(consortium: Consortium, ledger: Ledger) -> tuple[str, ...]:
    """Return which files asked the same of the same members, within other bounds."""
    history = ledger.history()
    now, refused = (
        _leaves_of_party_bounds(consortium.bounds),
        {one.file for one in history.refusals},
    )
    lines = []
    for one in history.inquiries:
        if (
            one.question != consortium.question_digest
            or one.bounds == consortium.bounds
        ):
            continue
        then = _leaves_of_party_bounds(one.bounds)
        missing = _say("checks.not_said")
        differences = [
            _say(
                "checks.difference",
                key=key,
                then=then.get(key, missing),
                now=now.get(key, missing),
            )
            for key in sorted({*then, *now})
            if then.get(key) != now.get(key)
        ]
        key = "checks.file_refused" if one.file in refused else "checks.file_passed"
        listed = listed_names(differences, most=MOST_SHOWN)
        lines.append(_say(key, when=one.when, differences=listed))
    if not lines:
        return ()
    return _say("checks.warning", n=len(lines)), *lines[-MOST_SHOWN:]


def _leaves_of_party_bounds(bounds: str) -> dict[str, str]:
    """Return every value in nested tables by the way to it, as text."""
    found: dict[str, str] = {}
    open_ = [("", json.loads(bounds))]
    for way, value in open_:
        if isinstance(value, dict):
            open_ += [(f"{way}.{key}" if way else key, v) for key, v in value.items()]
        else:
            found[way] = json.dumps(value)
    return found


def consent_parts_for_party(
    part: OwnPart,
    found: FoundAtHome,
    *,
    own: OwnRules,
    ledger: Ledger | None,
    most: int,
) -> tuple[ConsentPart, ...]:
    """Return the half of a page that is for one party's eyes.

    Args:
        part: what it brings.
        found: what its checks say to that.
        own: its own rules.
        ledger: its own books, if it keeps them.
        most: how many sums a run may take.
    """
    before = () if ledger is None else files_asked_before(part.consortium, ledger)
    parts = [
        *([ConsentPart(ASKED_BEFORE, before)] if before else []),
        ConsentPart("your_data", tuple(part.lines)),
        ConsentPart("your_checks", found.lines),
        ConsentPart("your_rules", own.lines),
    ]
    task = found.assignment
    if task is not None:
        promise = guarantee_for_consent(task)
        books: tuple[str, ...] = (_say("ledger.not_charged"),)
        if own_data := part.checks == TABLE_AND_LEDGER:
            books = party_ledger_lines(ledger, task, most)
        parts.append(ConsentPart("your_ledger", books))
        parts.append(
            ConsentPart(
                "guarantee", (*_party_guarantee_lines(promise, own_data=own_data),)
            )
        )
    return tuple(parts)


def consent_price_part(part: OwnPart, party: str) -> ConsentPart | None:
    """Return the price of a question and the influence of one's own rows.

    Both are for the owner's screen and belong to no page that is recorded. Sums are
    those of the party's own rows, since others' are not known.
    """
    if not isinstance(part, PartyTableInput):
        return None
    job, consortium = agreed_sum_job(part.consortium), part.consortium
    if not isinstance(job, SchemaTableJob):
        return None
    table = job.schema.check(party, part.table)
    members, tolerate = len(consortium.members), consortium.rules.tolerate or 0
    rows = job.n_rows(own := job.bring(table)) * members
    try:
        recipe, sums = job.together({party: own})
        before = [sums[:k] for k in range(len(sums))]
        residues = consortium.masks.kind.sums_only
        releases = [
            release_of_residues(recipe, one) if residues else recipe.release(one)
            for one in before
        ]
        requests = [recipe.request(one) for one in before]
    except VeilsumError:
        return ConsentPart("price", (phrase("sums", "price.not_alone"),))
    honest = max(1, rows * (members - tolerate) // members)
    dropped = rows + table.n_dropped * members
    price = ReleasePrice.from_releases(releases, job.schema, dropped, honest)
    lines = [] if price is None else [price.line()]
    lines.append(own_influence_on_sums([AskedTable(job, table, requests)], rows).line())
    return ConsentPart("price", (*lines, phrase("sums", "price.estimate")))


def guarantee_for_consent(task: DriverAssignment) -> Guarantee:
    """Return a promise for the screen: what everybody learns, then what colluders do.

    Colluders know what they gave themselves, and so the sum of the others.
    """
    promise, who = task.promise, task.promise.corrupted
    key = "guarantee.view_of_one" if len(who) == 1 else "guarantee.view"
    names = listed_names(who)
    view = [_say(key, names=names, line=line) for line in promise.released if who]
    return replace(promise, released=(*task.shown, *view))


def _party_guarantee_lines(promise: Guarantee, *, own_data: bool) -> Iterator[str]:
    worst = promise.worst
    no_bound = promise.epsilon is None
    epsilon = _say("guarantee.no_epsilon") if no_bound else f"{promise.epsilon:.6g}"
    size = 0 if worst is None else worst.tolerate
    yield _say("guarantee.masks", status=promise.status, size=size, epsilon=epsilon)
    for line in promise.limits:
        if line in SUM_LIMITS:
            yield _say("guarantee.sums", line=line)
    if worst is not None and worst.worst_coalition:
        yield _say("guarantee.worst", names=listed_names(worst.worst_coalition))
    if not own_data:
        yield promise.sentence
    yield _say("guarantee.released")
    yield from (_say("guarantee.line", line=line) for line in promise.released)
    yield _say("guarantee.limits")
    yield from (_say("guarantee.line", line=line) for line in promise.limits)
