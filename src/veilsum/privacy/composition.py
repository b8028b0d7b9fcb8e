"""Runs on the same data, added up.

Masks that are drawn anew are independent, so divergences of runs add. A coalition's
total is the sum of its bounds, one for each run; the same masked costs sent once more
show nothing new and are counted once. A run without a bound leaves the total without
one: the answer is then a reason, never a number.

A total is a bound per squared distance: KL <= total * ||D||^2, D the largest change of
coefficients in any of the runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum, inf, isclose
from typing import TypeAlias

from veilsum.errors import InvalidInputError
from veilsum.masks.laws import LAWS
from veilsum.numbers.arrays import listed_names
from veilsum.privacy.guarantee import Guarantee, GuaranteeComponent, Status

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")

# A bound computed again after a restart may differ by rounding; it is the same bound.
SAME_BOUND = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Exposure of one run to one coalition, or to every coalition up to a size.

    Attributes:
        coalition: C, by name; with `tolerate` the worst coalition found.
        status: the guarantee's status against it.
        epsilon: bounds KL per squared distance; None where there is no bound.
        components: the pieces of the honest graph, each with its own bound.
        tolerate: if given, `epsilon` holds for all coalitions of at most this size.
    """

    coalition: tuple[str, ...]
    status: Status
    epsilon: float | None
    components: tuple[GuaranteeComponent, ...] = ()
    tolerate: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "coalition", charged_party_set(self.coalition))
        object.__setattr__(self, "epsilon", _check_charged_bound(self.epsilon))
        if self.epsilon is not None and self.status != "private":
            raise InvalidInputError(
                f"a run that is {self.status} has no epsilon, found {self.epsilon}; "
                "leave it None",
                code="epsilon-not-expected",
            )
        if self.tolerate is not None and self.tolerate < 0:
            raise InvalidInputError(
                f"tolerate must not be negative, found {self.tolerate}",
                code="tolerate-negative",
            )

    @classmethod
    def of(cls, promise: Guarantee, *, tolerate: int | None = None) -> Exposure:
        """Return what a guarantee promises, as the ledger records it.

        `tolerate` says that the promise holds for all coalitions of that size.
        """
        return cls(
            coalition=promise.corrupted,
            status=promise.status,
            epsilon=promise.epsilon,
            components=promise.components if tolerate is None else (),
            tolerate=tolerate,
        )

    @property
    def against(self) -> str:
        """Observing coalition, in words."""
        return charged_coalition_in_words(
            self.coalition if self.tolerate is None else self.tolerate
        )

    @property
    def bound(self) -> float | None:
        """Epsilon; zero where nobody is honest and nothing is left to protect."""
        return 0.0 if self.status == "vacuous" else self.epsilon

    def covers(self, coalition: Iterable[str] | int) -> bool:
        """Say whether the bound holds for a coalition, or for all of a size."""
        if isinstance(coalition, int):
            return self.tolerate is not None and coalition <= self.tolerate
        members = charged_party_set(coalition)
        if self.tolerate is not None:
            return len(members) <= self.tolerate
        return members == self.coalition

    def agrees_with(self, other: Exposure) -> bool:
        """Say whether both state one bound, up to rounding."""
        mine, theirs = self.bound, other.bound
        same_number = mine == theirs or (
            mine is not None
            and theirs is not None
            and isclose(mine, theirs, rel_tol=SAME_BOUND)
        )
        same_subject = (self.status, self.tolerate) == (other.status, other.tolerate)
        # Of several coalitions that are equally bad any may be named.
        same_coalition = self.tolerate is not None or self.coalition == other.coalition
        return same_subject and same_coalition and same_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One epoch: a party's masked costs are about to be shown to a set of parties.

    Fingerprints are keyed (`Ledger.fingerprint`) and stay out of `repr`.

    Attributes:
        epoch: names the epoch, uniquely in the party's whole life.
        data: fingerprint of the data set; budgets are per data set.
        effective: fingerprint of the masked costs that will be sent.
        masks: fingerprint of all shares sent and received; None without masks.
        law: how the shares were drawn.
        parties: everybody who takes part.
        exposures: one bound for each coalition that is accounted for.
        when: a time stamp; the ledger fills it in.
    """

    epoch: str
    data: str = field(repr=False)
    effective: str = field(repr=False)
    masks: str | None = field(repr=False)
    law: str
    parties: tuple[str, ...]
    exposures: tuple[Exposure, ...]
    when: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_charged_name(self.epoch, what="an epoch")
        check_charged_name(self.law, what="a law")
        for what in ("data", "effective"):
            check_charged_fingerprint(getattr(self, what), what=what)
        object.__setattr__(self, "parties", charged_party_set(self.parties, least=1))
        object.__setattr__(
            self, "exposures", tuple(sorted(self.exposures, key=_exposure_sorting_key))
        )
        self._check_masks()
        self._check_exposures()

    @property
    def worst_bound(self) -> float | None:
        """The largest bound stated; None if one of the coalitions has none."""
        bounds = [exposure.bound for exposure in self.exposures]
        stated = [bound for bound in bounds if bound is not None]
        return max(stated) if len(stated) == len(bounds) else None

    def _check_masks(self) -> None:
        if self.masks is not None:
            check_charged_fingerprint(self.masks, what="masks")
        # A law that is not known here, of a later version perhaps, draws shares.
        hides = self.law not in LAWS or LAWS[self.law].hides
        if (self.masks is not None) != hides:
            raise InvalidInputError(
                "masks must be a fingerprint of the shares, and None exactly when "
                f'law = "none"; found {"none" if self.masks is None else "masks"} '
                f'with law = "{self.law}"',
                code="masks-fingerprint",
            )

    def _check_exposures(self) -> None:
        if not self.exposures:
            raise InvalidInputError(
                f"epoch {self.epoch!r} names no coalition: give at least one exposure",
                code="exposure-missing",
            )
        for exposure in self.exposures:
            strangers = sorted({*exposure.coalition} - {*self.parties})
            if strangers:
                raise InvalidInputError(
                    f"epoch {self.epoch!r} has a coalition with "
                    f"{listed_names(strangers)}, "
                    f"not among its parties {listed_names(self.parties)}",
                    code="coalition-of-strangers",
                )


@dataclass(frozen=True, slots=True)
class CompositionTotal:
    """A sum of bounds; without one, the reason why."""

    epsilon: float | None
    reason: str | None = None


# One piece of the honest graph in one run: the epoch, its parties, its bound.
_Piece: TypeAlias = tuple[str, tuple[str, ...], CompositionTotal]


def charges_without_resends(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """Return one charge for each set of masks: what is shown again costs nothing."""
    first: dict[str, Charge] = {}
    for charge in sorted(charges, key=lambda charge: charge.epoch):
        first.setdefault(charge.masks or f"no masks: {charge.epoch}", charge)
    return tuple(first.values())


def charged_total_against(
    charges: Iterable[Charge], coalition: Iterable[str] | int
) -> CompositionTotal:
    """Return the sum of one coalition's bounds, or of any coalition of a size."""
    who = coalition if isinstance(coalition, int) else charged_party_set(coalition)
    return _sum_of_privacy_bounds(
        _bound_against_coalition(charge, who)
        for charge in charges_without_resends(charges)
    )


def worst_charged_total(charges: Sequence[Charge]) -> CompositionTotal:
    """Return the largest total over the coalitions that were recorded."""
    terms = tuple(
        charged_total_against(charges, who) for who in charged_coalitions(charges)
    )
    return _charges_without_bound(terms) or CompositionTotal(
        max((term.epsilon or 0.0 for term in terms), default=0.0)
    )


def mobile_adversary_total(charges: Iterable[Charge]) -> CompositionTotal:
    """Return the bound if the adversary may corrupt other parties in every run.

    The sum over runs of each run's worst bound: no coalition's total is larger.
    """
    fresh = charges_without_resends(charges)
    worst = [charge.worst_bound for charge in fresh]
    if None in worst:
        return _sum_of_privacy_bounds(
            _stated_exposure_bound(charge, e)
            for charge in fresh
            for e in charge.exposures
        )
    return CompositionTotal(fsum(bound for bound in worst if bound is not None))


def component_totals(
    charges: Iterable[Charge], coalition: Iterable[str]
) -> dict[tuple[str, ...], CompositionTotal]:
    """Return totals for each group of parties that was in one piece in every run.

    KL <= sum_j e_j ||D_j||^2, where e_j adds up the bounds of the pieces j was in;
    for inputs with equal sums over every piece of every run.
    """
    who = charged_party_set(coalition)
    lives: dict[str, list[_Piece]] = {}
    for charge in charges_without_resends(charges):
        for piece in _charged_honest_pieces(charge, who):
            for party in piece[1]:
                lives.setdefault(party, []).append(piece)
    groups: dict[tuple[_Piece, ...], list[str]] = {}
    for party in sorted(lives):
        groups.setdefault(tuple(lives[party]), []).append(party)
    return {
        tuple(group): _sum_of_privacy_bounds(bound for _, _, bound in life)
        for life, group in groups.items()
    }


def charged_coalitions(charges: Iterable[Charge]) -> tuple[tuple[str, ...] | int, ...]:
    """Return the coalitions that bounds were recorded for; a size means all of it."""
    found = {
        exposure.coalition if exposure.tolerate is None else exposure.tolerate
        for charge in charges
        for exposure in charge.exposures
    }
    return tuple(sorted(found, key=str))


def charged_coalition_in_words(coalition: tuple[str, ...] | int) -> str:
    if isinstance(coalition, int):
        return f"any {coalition} {'party' if coalition == 1 else 'parties'}"
    return listed_names(coalition) or "nobody"


def charged_party_set(names: Iterable[str], *, least: int = 0) -> tuple[str, ...]:
    """Return names sorted; refuse too few, and a repeated or unprintable one."""
    if isinstance(names, str):
        raise InvalidInputError(
            f"expected several names, found the text {names!r}",
            code="names-not-collection",
        )
    ordered = tuple(sorted(names))
    for name in ordered:
        check_charged_name(name, what="a party")
    if len(set(ordered)) < len(ordered):
        raise InvalidInputError(
            f"a party is named twice among {listed_names(ordered)}",
            code="duplicate-party",
        )
    if len(ordered) < least:
        raise InvalidInputError(
            f"at least {least} party must be named, found none", code="no-party"
        )
    return ordered


def check_charged_name(name: str, *, what: str) -> None:
    """Refuse what cannot be shown on one line of a table."""
    if not name or not name.isprintable():
        raise InvalidInputError(
            f"{what} needs a printable name, found {name!r}", code="malformed-name"
        )


def check_charged_fingerprint(text: str, *, what: str) -> None:
    """Refuse what is no keyed fingerprint, without repeating it."""
    if not _FINGERPRINT.fullmatch(text):
        raise InvalidInputError(
            f"{what} must be a keyed fingerprint, 64 hexadecimal digits, as "
            f"Ledger.fingerprint gives; found {len(text)} characters",
            code="malformed-fingerprint",
        )


def _exposure_sorting_key(exposure: Exposure) -> tuple[int, tuple[str, ...]]:
    """Return a sorting key: named coalitions first, then sizes."""
    size = -1 if exposure.tolerate is None else exposure.tolerate
    return size, exposure.coalition


def _check_charged_bound(epsilon: float | None) -> float | None:
    if epsilon is None or epsilon == inf:
        return None
    if not epsilon >= 0:
        raise InvalidInputError(
            f"epsilon must not be negative, found {epsilon}", code="epsilon-negative"
        )
    return float(epsilon)


def _stated_exposure_bound(charge: Charge, exposure: Exposure) -> CompositionTotal:
    if exposure.bound is not None:
        return CompositionTotal(exposure.bound)
    return CompositionTotal(
        None,
        f"epoch {charge.epoch!r} has no bound against {exposure.against} "
        f"({exposure.status})",
    )


def _bound_against_coalition(
    charge: Charge, who: tuple[str, ...] | int
) -> CompositionTotal:
    """Return the best bound of one run that holds for a coalition."""
    present = who if isinstance(who, int) else _coalition_present_in_charge(charge, who)
    stated = [
        _stated_exposure_bound(charge, e) for e in charge.exposures if e.covers(present)
    ]
    if not stated:
        return CompositionTotal(
            None,
            f"epoch {charge.epoch!r} states no bound against "
            f"{charged_coalition_in_words(who)}",
        )
    return min(
        stated, key=lambda total: inf if total.epsilon is None else total.epsilon
    )


def _coalition_present_in_charge(
    charge: Charge, who: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(name for name in who if name in charge.parties)


def _charged_honest_pieces(charge: Charge, who: tuple[str, ...]) -> tuple[_Piece, ...]:
    """Return a run's pieces; all the honest are one where none are recorded."""
    present = _coalition_present_in_charge(charge, who)
    for exposure in charge.exposures:
        if exposure.components and exposure.covers(present):
            return tuple(
                _charged_honest_piece(charge, part) for part in exposure.components
            )
    honest = tuple(name for name in charge.parties if name not in present)
    return ((charge.epoch, honest, _bound_against_coalition(charge, who)),)


def _charged_honest_piece(charge: Charge, part: GuaranteeComponent) -> _Piece:
    why = f"epoch {charge.epoch!r} has no bound for it ({part.status})"
    bound = CompositionTotal(part.epsilon, why if part.epsilon is None else None)
    return charge.epoch, tuple(part.parties), bound


def _sum_of_privacy_bounds(totals: Iterable[CompositionTotal]) -> CompositionTotal:
    """Add up; fsum rounds once, so the order of runs does not matter."""
    terms = tuple(totals)
    return _charges_without_bound(terms) or CompositionTotal(
        fsum(term.epsilon or 0.0 for term in terms)
    )


def _charges_without_bound(
    terms: tuple[CompositionTotal, ...],
) -> CompositionTotal | None:
    reasons = sorted({term.reason for term in terms if term.reason is not None})
    return CompositionTotal(None, "; ".join(reasons[:3])) if reasons else None
