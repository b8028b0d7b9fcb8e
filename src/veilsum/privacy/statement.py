"""What a history amounts to: for each data set what is spent and what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from veilsum.privacy.accountant import History, epsilon_left
from veilsum.privacy.composition import (
    Total,
    coalitions,
    component_totals,
    mobile_total,
    total_against,
    without_resends,
    worst_total,
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
