"""What a party may still show of its data: the rules, without clock, file or chance.

    fresh masks                 add their divergence to what the data set has spent
    the same masked costs again cost nothing, if they go to the same parties
    old masks, changed data     refused: the two messages differ by the change itself
    an exact aggregate          counted: each data set has a limited number of them
    nearly the same parties     refused: subtracting two sums leaves the few who differ

A decision is a value. Whoever keeps the history acts on it. `accounts` says what a
history amounts to: for each data set what is spent and what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Literal, TypeAlias

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import listed
from veilsum.privacy.composition import (
    Charge,
    Total,
    check_fingerprint,
    check_name,
    coalitions,
    component_totals,
    mobile_total,
    party_set,
    total_against,
    without_resends,
    worst_total,
)

Outcome = Literal["accepted", "already", "resent", "refused"]

# Ten rounds of a regression with four sums each, twice over, and some to spare.
DEFAULT_RELEASES = 100
# Three honest parties: with two, each knows the other's value from the sum.
DEFAULT_MINIMUM_HONEST = 3
# A budget of 0.3 has room for three runs of 0.1, whose float sum is a little larger.
ROUNDING = 1e-12

_FRESH_MASKS = "draw fresh masks in a new epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What each data set may spend.

    Attributes:
        epsilon: limit of the composed epsilon; None counts and does not limit.
        releases: how many exact aggregates may be released.
        minimum_honest: party sets of one data set differ by at least this many
            parties, or not at all.
        tolerate: colluders among those who differ; they are not counted as honest.
        when: a time stamp; the ledger fills it in.
    """

    epsilon: float | None = None
    releases: int = DEFAULT_RELEASES
    minimum_honest: int = DEFAULT_MINIMUM_HONEST
    tolerate: int = 0
    when: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.epsilon is not None and not (
            isfinite(self.epsilon) and self.epsilon >= 0
        ):
            raise InvalidInputError(
                "a budget's epsilon must be finite and not negative, found "
                f"{self.epsilon}; None sets no limit"
            )
        least = {"releases": 0, "minimum_honest": 1, "tolerate": 0}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise InvalidInputError(
                    f"a budget's {name} must be at least {lowest}, found "
                    f"{getattr(self, name)}"
                )

    @property
    def smallest_difference(self) -> int:
        """How many parties must differ, so that enough of them are honest."""
        return self.minimum_honest + self.tolerate


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSum:
    """One exact aggregate that all parties of a set learn.

    Attributes:
        statistic: what is summed, such as "sum of income".
        point: where it is evaluated, such as a regression's coefficients; () if
            nowhere.
        parties: whose terms are in the sum.
        data: keyed fingerprint of this party's data set.
        when: a time stamp; the ledger fills it in.
    """

    statistic: str
    point: tuple[float, ...] = ()
    parties: tuple[str, ...]
    data: str = field(repr=False)
    when: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_name(self.statistic, what="a statistic")
        check_fingerprint(self.data, what="data")
        object.__setattr__(self, "parties", party_set(self.parties, least=1))
        object.__setattr__(self, "point", tuple(map(float, self.point)))
        if not all(map(isfinite, self.point)):
            raise InvalidInputError(
                f"the point of {self.statistic!r} must be finite numbers, found "
                f"{self.point}"
            )


Entry: TypeAlias = Charge | KnownSum | Budget


@dataclass(frozen=True, slots=True)
class History:
    """Everything that was recorded, oldest first."""

    charges: tuple[Charge, ...] = ()
    releases: tuple[KnownSum, ...] = ()
    budgets: tuple[Budget, ...] = ()

    @property
    def budget(self) -> Budget:
        """The budget now in force."""
        return self.budgets[-1] if self.budgets else Budget()

    def plus(self, *entries: Entry) -> History:
        """Return the history with more entries at its end."""
        return replace(
            self,
            charges=(*self.charges, *(e for e in entries if isinstance(e, Charge))),
            releases=(*self.releases, *(e for e in entries if isinstance(e, KnownSum))),
            budgets=(*self.budgets, *(e for e in entries if isinstance(e, Budget))),
        )

    def of(self, data: str) -> History:
        """Return what concerns one data set."""
        return replace(
            self,
            charges=tuple(c for c in self.charges if c.data == data),
            releases=tuple(r for r in self.releases if r.data == data),
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a charge or a release, and why.

    accepted  it is new and there is room for it
    already   it is recorded: nothing new is shown
    resent    known masked costs go to the parties that have them: no cost
    refused   the reason says what stands against it
    """

    outcome: Outcome
    reason: str

    @property
    def is_news(self) -> bool:
        """Whether it has to be written down."""
        return self.outcome in {"accepted", "resent"}


def decide_charge(history: History, charge: Charge, budget: Budget) -> Decision:
    """Decide whether an epoch may begin to send.

    Idempotent: the epoch of a run that was interrupted is charged once.
    """
    # The epoch speaks first: it may itself have sent an earlier epoch's costs again.
    for rule in (_same_epoch, _same_masks, _same_effective):
        for old in history.charges:
            decision = rule(old, charge)
            if decision is not None:
                return decision
    return _within(history.of(charge.data), charge, budget)


def decide_release(history: History, release: KnownSum, budget: Budget) -> Decision:
    """Decide whether an exact aggregate may become known.

    One that is known already is free. Sums over two party sets that differ by too few
    parties are refused, whatever they are called and at whatever points: points may be
    arbitrarily close, and statistics overlap.
    """
    known = history.of(release.data).releases
    if release in known:
        return Decision("already", f"{release.statistic!r} is known at this point")
    for old in known:
        if _differencing(old, release, budget):
            return Decision("refused", _differencing_sentence(old, release, budget))
    if len(known) >= budget.releases:
        return Decision(
            "refused",
            f"each data set may release {budget.releases} exact aggregates, and of "
            f"these 0 are left for {release.statistic!r}",
        )
    left = budget.releases - len(known) - 1
    return Decision("accepted", f"{left} exact aggregates are left")


def decide(history: History, entry: Charge | KnownSum, budget: Budget) -> Decision:
    """Decide about a charge or a release."""
    if isinstance(entry, Charge):
        return decide_charge(history, entry, budget)
    return decide_release(history, entry, budget)


def epsilon_left(history: History, budget: Budget) -> float | None:
    """Return what one data set's history leaves; None without limit or bound."""
    spent = mobile_total(history.charges).epsilon
    if budget.epsilon is None or spent is None:
        return None
    return max(0.0, budget.epsilon - spent)


def _same_epoch(old: Charge, new: Charge) -> Decision | None:
    if old.epoch != new.epoch:
        return None
    difference = _difference(old, new)
    if difference is None:
        return Decision("already", f"epoch {new.epoch!r} is charged already")
    return Decision(
        "refused",
        f"epoch {new.epoch!r} was charged with other {difference}: an epoch's masks "
        f"serve one set of costs and one set of parties; {_FRESH_MASKS}",
    )


def _same_masks(old: Charge, new: Charge) -> Decision | None:
    if new.masks is None or old.masks != new.masks:
        return None
    difference = _difference(old, new)
    if difference is None:
        return Decision("resent", f"epoch {old.epoch!r} showed the same masked costs")
    return Decision("refused", _reuse_sentence(old, difference))


def _same_effective(old: Charge, new: Charge) -> Decision | None:
    """Refuse old masked costs for new data; with equal data they met by chance."""
    unmasked = new.masks is None or old.masks is None
    if unmasked or old.effective != new.effective or old.data == new.data:
        return None
    return Decision("refused", _reuse_sentence(old, "data"))


def _difference(old: Charge, new: Charge) -> str | None:
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
    return None if _same_exposures(old, new) else "bounds"


def _same_exposures(old: Charge, new: Charge) -> bool:
    return len(old.exposures) == len(new.exposures) and all(
        before.agrees_with(now)
        for before, now in zip(old.exposures, new.exposures, strict=True)
    )


def _reuse_sentence(old: Charge, difference: str) -> str:
    if difference == "data":
        return (
            f"the data changed and the masks are those of epoch {old.epoch!r}: the two "
            f"messages would differ by exactly the change; {_FRESH_MASKS}"
        )
    return (
        f"the masks of epoch {old.epoch!r} were used with other {difference}: masks "
        f"are used once; {_FRESH_MASKS}"
    )


def _within(known: History, charge: Charge, budget: Budget) -> Decision:
    """Decide about fresh masks on a data set with this history."""
    limit, after = budget.epsilon, mobile_total((*known.charges, charge))
    if limit is None:
        return Decision("accepted", "no limit is set")
    if after.epsilon is None:
        return Decision(
            "refused",
            f"the budget is epsilon {limit:.6g} for each data set, and no bound would "
            f"be left to hold against it: {after.reason}; change the graph or the "
            "masks, or lift the limit openly",
        )
    if after.epsilon > limit * (1.0 + ROUNDING):
        left = epsilon_left(known, budget) or 0.0
        return Decision("refused", _overspent_sentence(charge, limit, left))
    left = max(0.0, limit - after.epsilon)
    return Decision("accepted", f"epsilon {left:.6g} is left")


def _overspent_sentence(charge: Charge, limit: float, left: float) -> str:
    return (
        f"epoch {charge.epoch!r} needs epsilon {charge.worst_bound:.6g}, and of the "
        f"budget of {limit:.6g} for this data set {left:.6g} is left; send the stored "
        "masked costs again, or use more noise"
    )


def _differing(old: KnownSum, new: KnownSum) -> tuple[str, ...]:
    return tuple(sorted({*old.parties} ^ {*new.parties}))


def _differencing(old: KnownSum, new: KnownSum, budget: Budget) -> bool:
    # Whatever the statistics are called: names do not say what overlaps.
    return 0 < len(_differing(old, new)) < budget.smallest_difference


def _differencing_sentence(old: KnownSum, new: KnownSum, budget: Budget) -> str:
    return (
        f"{old.statistic!r} is known over {listed(old.parties)}; {new.statistic!r} "
        f"over {listed(new.parties)} could give away {listed(_differing(old, new))} by "
        "subtraction: a data set's party sets must be the same or differ by at "
        f"least {budget.smallest_difference} parties"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One data set: what it has spent and what is left.

    `total` is the budget's measure, against an adversary who may choose other parties
    in every run; `worst` is the largest total of one coalition that was recorded. A
    coalition is given by its members, or by a size that stands for all of that size.
    """

    data_set: int
    runs: int
    resent: int
    total: Total
    worst: Total
    epsilon_left: float | None
    coalitions: tuple[tuple[tuple[str, ...] | int, Total], ...]
    components: tuple[tuple[tuple[str, ...], tuple[str, ...], Total], ...]
    releases: int
    releases_left: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; no bound is None, with the reason."""
        return {
            "data_set": self.data_set,
            "runs": self.runs,
            "resent": self.resent,
            **_plain(self.total),
            "epsilon_left": self.epsilon_left,
            "worst": _plain(self.worst),
            "coalitions": [
                {**_who(who), **_plain(total)} for who, total in self.coalitions
            ],
            "components": [
                {**_who(who), "parties": list(parties), **_plain(total)}
                for who, parties, total in self.components
            ],
            "releases": self.releases,
            "releases_left": self.releases_left,
        }


def accounts(history: History) -> tuple[Account, ...]:
    """Return one account for each data set, numbered in order of appearance."""
    return tuple(
        _account(number, history.of(data))
        for data, number in data_set_numbers(history).items()
    )


def data_set_numbers(history: History) -> dict[str, int]:
    """Return a number for each data set: people need no fingerprint."""
    charged = [charge.data for charge in history.charges]
    released = [release.data for release in history.releases]
    seen = dict.fromkeys([*charged, *released])
    return {data: number for number, data in enumerate(seen, start=1)}


def _account(number: int, known: History) -> Account:
    fresh = without_resends(known.charges)
    named = [who for who in coalitions(fresh) if not isinstance(who, int)]
    return Account(
        data_set=number,
        runs=len(fresh),
        resent=len(known.charges) - len(fresh),
        total=mobile_total(fresh),
        worst=worst_total(fresh),
        epsilon_left=epsilon_left(known, known.budget),
        coalitions=tuple((who, total_against(fresh, who)) for who in coalitions(fresh)),
        components=tuple(
            (who, parties, total)
            for who in named
            for parties, total in component_totals(fresh, who).items()
        ),
        releases=len(known.releases),
        releases_left=max(0, known.budget.releases - len(known.releases)),
    )


def _who(coalition: tuple[str, ...] | int) -> dict[str, Any]:
    if isinstance(coalition, int):
        return {"coalition": None, "tolerate": coalition}
    return {"coalition": list(coalition), "tolerate": None}


def _plain(total: Total) -> dict[str, Any]:
    return {"epsilon": total.epsilon, "reason": total.reason}
