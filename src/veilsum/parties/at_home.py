"""A question put to a party's own table or cost at home: the checks of a run, unsent.

It goes the way that a run goes, up to the point at which something would be sent. So
what passes here passes there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from veilsum.drivers.driver import Assignment
from veilsum.errors import BudgetError, InvalidInputError
from veilsum.files.ledger import Ledger
from veilsum.jobs.recipes import PartyWork
from veilsum.numbers.secrets import Secret
from veilsum.parties.joining import OwnCost, OwnTable
from veilsum.privacy.accountant import accounts
from veilsum.tables.rules import Rules


RULES = tuple(one.name for one in fields(Rules))


class _WouldSendError(Exception):
    """Everything was checked: from here on others would hear of it."""


@dataclass(eq=False, repr=False)
class Onlooker(Secret):
    """Takes part for a party as far as nobody else hears of it."""

    party: str
    assignment: Assignment | None = None

    def carry_out(self, assignment: Assignment) -> NoReturn:
        """Ask the party's ledger; then stop."""
        self.assignment = assignment
        if assignment.check is not None:
            assignment.check(self.party)
        raise _WouldSendError


@dataclass(frozen=True, kw_only=True)
class Outcome(Secret):
    """What was found at home; for the owner's eyes.

    Attributes:
        refusals: by rule, in full; `table` stands for what was agreed about tables, and
            `ledger` for the ledger.
        passed: the rules that refuse nothing.
        unknown: rules that could not be looked at, since the table has to fit first.
        assignment: what a run would have begun with; None if it would not have.
    """

    refusals: Mapping[str, str]
    passed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    assignment: Assignment | None = None

    @property
    def good(self) -> bool:
        """Whether the party may take part."""
        return not self.refusals

    @property
    def lines(self) -> tuple[str, ...]:
        """Every rule and what it says, for the owner."""
        words = [f"- {rule}: REFUSED: {why}" for rule, why in self.refusals.items()]
        words += [f"- {rule}: passed" for rule in self.passed]
        return (*words, *(f"- {rule}: not looked at" for rule in self.unknown))


def tried(part: OwnTable | OwnCost, party: str, ledger: Ledger | None) -> Outcome:
    """Return what a party's own checks say to a question; nothing is sent."""
    names = () if part.rules is None else RULES
    onlooker = Onlooker(party)
    try:
        part.run(onlooker, ledger)
    except _WouldSendError:
        passed = ("table", *names, *(() if ledger is None else ("ledger",)))
        return Outcome(refusals={}, passed=passed, assignment=onlooker.assignment)
    except BudgetError as error:
        return Outcome(refusals={"ledger": str(error)}, passed=("table", *names))
    except InvalidInputError as error:
        first = {_rule(error): str(error)}
    if part.rules is None:
        return Outcome(refusals=first)
    return _one_by_one(part, party, part.rules, first)


def _one_by_one(
    part: OwnTable, party: str, rules: Rules, first: Mapping[str, str]
) -> Outcome:
    """Return which rules refuse: each is asked by itself, after the table."""

    def refusal(**kept: Any) -> InvalidInputError | None:
        try:
            part.run(Onlooker(party), None, rules=Rules.none(**kept))
        except _WouldSendError:
            return None
        except InvalidInputError as error:
            return error
        raise AssertionError("an onlooker never comes to an answer")

    if (wrong := refusal()) is not None:
        rule = _rule(wrong)
        left = tuple(name for name in RULES if name != rule)
        return Outcome(refusals={rule: str(wrong)}, unknown=left)
    found = {name: refusal(**{name: getattr(rules, name)}) for name in RULES}
    refused = {name: str(told) for name, told in found.items() if told is not None}
    # Rules may refuse together what each of them would let pass.
    refused = refused or dict(first)
    passed = ("table", *(name for name in RULES if name not in refused))
    return Outcome(refusals=refused, passed=passed)


def _rule(error: InvalidInputError) -> str:
    """Return the rule that refuses; `table` if it is none of a policy's."""
    rule = getattr(error, "rule", None)
    return rule if rule in RULES else "table"


def ledger_lines(ledger: Ledger | None, task: Assignment, most: int) -> tuple[str, ...]:
    """Return what a ledger knows of the data before a run, and at most after it."""
    if ledger is None:
        return ("none: nothing counts what your data have been exposed to",)
    (work,) = task.works.values()
    assert isinstance(work, PartyWork)
    data = ledger.fingerprint(*work.contribution.data)  # type: ignore[arg-type]
    known = ledger.history()
    allowed = known.budget.releases
    found = accounts(known.of(data))
    before = found[0].releases if found else 0
    spent = found[0].total.epsilon if found else 0.0
    return (
        f"kept in {ledger.path}",
        f"before: {before} sums about these data are known, of {allowed} allowed; "
        f"epsilon spent {'without bound' if spent is None else f'{spent:.6g}'}",
        f"after: at most {before + most} sums, and at least {before + 1}",
    )
