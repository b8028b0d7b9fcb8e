"""A recipe carried out by parties under terms: the one road that every job takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from veilsum.drivers.driver import DriverAssignment, DriverOutput, GivenUpError
from veilsum.errors import BudgetError, InvalidInputError
from veilsum.locale import LocaleLine, limit_phrase
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.secrets import Secret
from veilsum.privacy.guarantee import CURIOUS_LIMIT, ONE_RUN_LIMIT, Guarantee
from veilsum.progress import Advance, Opening, watch_progress as watched_by
from veilsum.protocol.effects import Emission
from veilsum.protocol.plan import ProtocolPlan
from veilsum.showing import (
    Renderable,
    Rendering,
    ShownItems,
    counted_words,
    numbers_in_line,
)
from veilsum.sums.presence import PresenceScreenedRecipe
from veilsum.sums.recipes import (
    GuardedRecipe,
    ObjectedError,
    Recipe,
    RecipeQuestions,
    SumContribution,
    SumPartyWork,
    Sums,
    next_request,
    open_limits_of_recipe,
)
from veilsum.sums.releases import EXACT, OfParties, SumRelease, condensed_releases
from veilsum.sums.terms import SumTerms

# What a difference of 0 shows, and what it does not.
SAME_ROUNDS = "the same rounds without masks: this checks the sums, not the method"

if TYPE_CHECKING:  # a simulation without a ledger does without these
    from veilsum.files.ledger import Ledger, LedgerDataKey, LedgerRequest, Look
    from veilsum.privacy.accountant import AccountReservation, KnownSum
    from veilsum.privacy.composition import Charge

MAY_SHRINK = limit_phrase("may_shrink")


SUMS_TELL = "That is about masks. About the sums themselves:"
LOOSENED = "But rules were switched off, and sums may tell more than that of a party:"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SumJobResult(Renderable):
    """Result of a job of any kind: its released numbers and their guarantee.

    Attributes:
        terms: agreed terms of the parties.
        released: output that is known to all parties.
    """

    terms: SumTerms
    recipe: Recipe
    released: DriverOutput

    # Over whom sums are, as a coalition knows them.
    summed_over: ClassVar[str] = "honest parties"

    @cached_property
    def guarantee(self) -> Guarantee:
        """Guarantee of the released sums: what they hide from which coalitions."""
        promise = self.terms.promise(self.released.members)
        whole = self.recipe.stated(promise, self.releases)
        return replace(whole, limits=(*whole.limits, *self.further_limits))

    @property
    def further_limits(self) -> tuple[str, ...]:
        """Further limits of the guarantee, from the terms and the kind of job."""
        return (*self.terms.caveats, *open_limits_of_recipe(self.recipe))

    @property
    def loosened(self) -> tuple[str, ...]:
        """Limits that nobody may overlook, for rules against them were switched off."""
        return ()

    @property
    def sums_tell(self) -> tuple[str, ...]:
        """The limits about released sums, shown beside the promise about masks."""
        lines = (EXACT, *open_limits_of_recipe(self.recipe))
        known = self.guarantee.limits
        return tuple(one for one in lines if one in known and one not in self.loosened)

    @property
    def foremost(self) -> tuple[str, ...]:
        """The limits to be read first: all of this kind of job, and two at least."""
        elsewhere = {*self.loosened, *self.sums_tell}
        own = [one for one in self.further_limits if one not in elsewhere]
        first = dict.fromkeys((*own, CURIOUS_LIMIT, ONE_RUN_LIMIT))
        known = [one for one in first if one in self.guarantee.limits]
        return tuple(known[: max(2, len(own))])

    @cached_property
    def releases(self) -> tuple[SumRelease, ...]:
        sums = self.released.sums
        return tuple(self.recipe.release(sums[:k]) for k in range(len(sums)))

    @property
    def inner(self) -> tuple[Any, Sums]:
        """The recipe behind a first sum that counts parties, and its own numbers."""
        recipe, sums = self.recipe, self.released.sums
        while isinstance(recipe, PresenceScreenedRecipe | GuardedRecipe):
            recipe, sums = recipe.inner, recipe.within(sums)
        return recipe, sums

    @property
    def shown(self) -> tuple[LocaleLine, ...]:
        """Public releases in words; the guarantee has the coalition's side."""
        return self.recipe.shown(self.released.members, self.releases)

    @cached_property
    def answer(self) -> Vector:
        return self.released.answer

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "minimiser": self.answer.tolist(),
            "sum_of_masks": self.released.sum_of_masks,
            "iterations": len(self.released.sums),
            "rounds": self.released.rounds,
            "bytes": self.released.bytes,
            "guarantee": self.guarantee.to_dict(),
        }

    @property
    def difference(self) -> str:
        """Difference from a reference answer, in words; empty if not compared."""
        return ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to read before other parties get the same question."""
        return ()

    @property
    def price_lines(self) -> tuple[str, ...]:
        """Price of the sums, and influence of one person, in words."""
        return ()

    def answered(self) -> Rendering:
        """Return the answer alone, to be seen; a kind of result may take options."""
        return Rendering(
            f"Answer of {self._parties}: {numbers_in_line(self.answer.tolist())}"
        )

    def summary(self) -> str:
        """Return the answer as plain text."""
        return self.answered().text()

    def showing(self, **options: Any) -> Rendering:
        """Return the answer, made with these options, and what it rests on."""
        promise = self.guarantee
        elsewhere = {*self.loosened, *self.sums_tell}
        rest = tuple(one for one in promise.limits if one not in elsewhere)
        told = condensed_releases(self.releases, self.summed_over)
        promise = replace(promise, released=told, limits=rest)
        beside = ShownItems(LOOSENED, self.loosened) if self.loosened else ""
        tell = ShownItems(SUMS_TELL, self.sums_tell) if self.sums_tell else ""
        shown = promise.showing()
        blocks = (
            *self.notes,
            self.difference,
            self.road,
            *self.price_lines,
            shown.title,
            tell,
            beside,
            *shown.blocks,
        )
        said = (one for one in blocks if one)
        answered: Callable[..., Rendering] = self.answered
        return answered(**options).also(*said, folded=shown.folded)

    @property
    def road(self) -> str:
        released = self.released
        return (
            f"{counted_words(len(released.sums), 'sum')} of "
            f"{counted_words(self.recipe.size, 'number')} under {self.terms.law.name} "
            "masks; "
            f"{counted_words(released.rounds, 'exchange')} of messages, "
            f"{released.bytes:,} bytes over all links"
        )

    @property
    def _parties(self) -> str:
        return counted_words(len(self.released.members), "party")


def finite_or_none(value: float | None) -> float | None:
    """Return None for nan and infinities, which JSON does not have."""
    return value if value is not None and isfinite(value) else None


def plain_result_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for JSON, where a number that is not finite is None."""
    return {
        key: finite_or_none(one) if isinstance(one, float) else one
        for key, one in values.items()
    }


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ComparedSumResult(SumJobResult):
    """A result that may have a reference: the same of all data, without masks.

    Attributes:
        reference: the same from all data without masks, where one computer has them
            and was asked to compare.
    """

    reference: Any = None

    compared_with: ClassVar[str] = "the fit without masks"
    compared_by: ClassVar[str] = SAME_ROUNDS

    @property
    def compared(self) -> Vector:
        """Value that is compared with the reference."""
        return self.answer

    @property
    def expected(self) -> Any:
        return self.reference

    @property
    def max_error(self) -> float | None:
        """Distance of the answer from that without masks; None if not compared."""
        if self.reference is None:
            return None
        return float(np.linalg.norm(self.compared - self.expected))

    @property
    def difference(self) -> str:
        if self.max_error is None:
            return ""
        how = f" ({self.compared_by})" if self.compared_by else ""
        return f"difference from {self.compared_with}: {self.max_error:.3g}{how}"

    @property
    def plain_reference(self) -> Any:
        return None if self.reference is None else self.expected.tolist()

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "reference": self.plain_reference,
            "max_error": self.max_error,
        }


def plan_for_recipe(
    recipe: Recipe, terms: SumTerms, agreed: Mapping[str, Any]
) -> ProtocolPlan:
    return terms.plan(
        size=recipe.size,
        answer_size=recipe.answer_size,
        round_size=recipe.round_size,
        tolerance=recipe.tolerance,
        stand_in=recipe.stand_in,
        terms=agreed,
    )


def guarantee_before_sums(recipe: Recipe, terms: SumTerms) -> Guarantee:
    """Return a promise as it is made before a run, when anybody may yet be lost."""
    promise = recipe.stated(terms.guarantee, [recipe.release(())])
    more = (MAY_SHRINK,) if terms.policy.drop else ()
    limits = (*promise.limits, *terms.caveats, *open_limits_of_recipe(recipe), *more)
    return replace(promise, limits=limits)


def run_sum_job(
    recipe: Recipe,
    contributions: Mapping[str, SumContribution],
    terms: SumTerms,
    *,
    agreed: Mapping[str, Any],
    watched: bool = False,
) -> DriverOutput:
    """Return what the parties release to each other.

    Args:
        recipe: what they do, public.
        contributions: each party's private way to answer a request, as far as the
            parties are here.
        terms: how they sum.
        agreed: everything else that the parties compare before they start.
        watched: whether a simulation keeps what only it can see.
    """
    plan = plan_for_recipe(recipe, terms, agreed)
    if (counts := terms.law.counted) is not None and len(counts.units) != recipe.size:
        raise InvalidInputError(
            f"{len(counts.units)} numbers have a unit, and sums have {recipe.size}",
            code="units-not-per-number",
        )
    questions = RecipeQuestions(recipe)
    recipe.request(())  # a job that must not start is refused before anybody does
    first = [recipe.release(())]
    books = SumBookkeeping(recipe, terms, contributions)
    assert terms.driver is not None
    assignment = DriverAssignment(
        plan=plan,
        works={
            name: SumPartyWork(recipe, held, questions)
            for name, held in contributions.items()
        },
        foresee=partial(guarantee_before_sums, recipe, terms),
        shown=recipe.shown(plan.parties, first),
        charge=books.charge if terms.ledgers else None,
        check=books.check if terms.ledgers else None,
        reserve=books.reserve if terms.ledgers else None,
        wanted=books.wanted if terms.ledgers else None,
        watched=watched,
    )
    if terms.driver.party is None:
        for party in terms.ledgers:
            books.reserve(party)
    # Who takes part for real hears of the run by other means.
    quiet = terms.progress is None and terms.driver.party is not None
    try:
        with watched_by(False if quiet else terms.progress) as opening:
            bar = None if opening is None else _stage_of_running_sum(recipe, opening)
            released = terms.driver.carry_out(replace(assignment, progress=bar))
    except GivenUpError as error:
        books.settle(aborted=True)
        _explain_stopped_sum(assignment.works, books, recipe, error)
        raise
    books.settle()
    return released


def _stage_of_running_sum(recipe: Recipe, opening: Opening) -> Advance:
    """Return what is told along the way; rounds of messages may be beyond the last."""
    label, most = "sums", sum(one.most for one in recipe.foreseen)
    if (schedule := getattr(recipe, "schedule", None)) is not None:
        label, most = "iterations", schedule.iterations
    advance = opening(label, most)
    return lambda done: advance(min(done, most))


def _explain_stopped_sum(
    works: Mapping[str, Any], books: SumBookkeeping, recipe: Recipe, error: GivenUpError
) -> None:
    """Raise what stopped the parties, where that can be told."""
    # What follows from the sums stops whoever looks at them, in the words meant for it.
    try:
        if next_request(recipe, error.sums) is None:
            recipe.answer(error.sums)
    except ObjectedError as objected:
        found = {name: work.objection(error.sums) for name, work in works.items()}
        reasons = {name: reason for name, reason in found.items() if reason is not None}
        for name in reasons:
            books.objected(name, str(objected))
        raise ObjectedError(
            objected.number, [*reasons.values()], objected.suspected, code=objected.code
        ) from error
    for party, (word, full) in error.reasons.items():
        if word == "input":
            told = full if full.startswith(f"{party}: ") else f"{party}: {full}"
            raise InvalidInputError(told, code="gave-up") from error


@dataclass(frozen=True, eq=False, repr=False)
class SumBookkeeping(Secret):
    """Charges parties' ledgers before anything masked leaves them."""

    recipe: Recipe
    terms: SumTerms
    contributions: Mapping[str, SumContribution]
    _known: dict[str, LedgerDataKey] = field(default_factory=dict)

    def charge(
        self, party: str, emission: Emission, sums: Sequence[Array[Any]]
    ) -> None:
        """Charge one party's ledger, durably, for its next emission; or raise."""
        if (ledger := self.terms.ledgers.get(party)) is not None:
            charge, known = self._entry(party, ledger, emission, sums)
            ledger.charge(charge, releases=[known])

    def check(self, party: str) -> None:
        """Raise if one party's ledger would refuse the run, or its first emission."""
        if (ledger := self.terms.ledgers.get(party)) is None:
            return
        if any_epoch_charged(ledger, self.terms.run):
            raise BudgetError(
                f"this ledger was charged for the run {self.terms.run} before, and the "
                "file with its state is gone or another one: put it back, or give it "
                "with --state; without it only a new run can be joined",
                code="run-already-charged",
            )
        asked = self.wanted(party)
        wishes = (asked.reservation, asked.charge, asked.first)
        ledger.check(*wishes, known=asked.known, look=asked.look)

    def wanted(self, party: str) -> LedgerRequest:
        """Return what one party's ledger is asked for before the run begins."""
        ledger = self.terms.ledgers[party]
        # What is masked is not known yet.
        emission = Emission(0, self.terms.parties, np.zeros(0))
        charge, first = self._entry(party, ledger, emission, ())
        from veilsum.files.ledger import LedgerRequest

        return LedgerRequest(
            reservation=self._reservation(party, ledger),
            charge=charge,
            first=first,
            known=self._data(party, ledger),
            look=self._look(party),
        )

    def reserve(self, party: str) -> None:
        """Keep free in one party's ledger all numbers that the job may need."""
        if (ledger := self.terms.ledgers.get(party)) is not None:
            wanted = self._reservation(party, ledger)
            look = self._look(party)
            ledger.reserve(wanted, self._data(party, ledger), look=look)

    def settle(self, *, aborted: bool = False) -> None:
        """Give back what was not used; if it came to no end, only if nothing was."""
        for ledger in self.terms.ledgers.values():
            if not aborted or not any_epoch_charged(ledger, self.terms.run):
                ledger.settle(self.terms.run)

    def objected(self, party: str, reason: str) -> None:
        """Count an objection of one party as a refusal of the run's file."""
        if (ledger := self.terms.ledgers.get(party)) is not None:
            data = self._data(party, ledger).data
            ledger.objected(self.terms.run, data, reason=reason)

    def _data(self, party: str, ledger: Ledger) -> LedgerDataKey:
        if party not in self._known:
            self._known[party] = ledger.data(
                self.contributions[party].data, new_data=self.terms.new_data
            )
        return self._known[party]

    def _look(self, party: str) -> Look | None:
        asking = self.contributions[party].asking
        return None if asking is None else asking.check

    def _rows(self) -> int | None:
        """Return how many rows honest parties have at least, if it is about rows."""
        limit = getattr(self.recipe, "limit", None)
        return None if limit is None else limit.honest * limit.minimum_rows

    def _reservation(self, party: str, ledger: Ledger) -> AccountReservation:
        policy, limit = self.terms.policy, getattr(self.recipe, "limit", None)
        from veilsum.privacy.accountant import AccountReservation, RunLimits

        limits = RunLimits(
            minimum_honest=policy.minimum_honest, tolerate=policy.tolerate
        )
        if limit is not None:
            fraction = limit.fraction if isfinite(limit.fraction) else None
            limits = replace(
                limits, release_fraction=fraction, minimum_rows=limit.minimum_rows
            )
        data, asking = self._data(party, ledger), self.contributions[party].asking
        inner = getattr(self.recipe, "inner", self.recipe)
        of_parties: OfParties | None = getattr(inner, "of_parties", None)
        return AccountReservation(
            run=self.terms.run,
            statistic=self.recipe.release(()).job,
            parties=self.terms.parties,
            data=data.data,
            numbers=self.recipe.most_numbers,
            columns=data.asked,
            rows=self._rows(),
            limits=limits,
            question="" if asking is None else asking.question.text,
            **({} if of_parties is None else of_parties.counted(self.terms.honest)),
        )

    def _entry(
        self,
        party: str,
        ledger: Ledger,
        emission: Emission,
        sums: Sequence[Array[Any]],
    ) -> tuple[Charge, KnownSum]:
        terms, release = self.terms, self.recipe.release(sums)
        data = self._data(party, ledger)
        name = _sum_epoch_name(terms.run, emission.epoch)
        masked = ",".join(map(str, emission.masked.tolist())).encode()
        from veilsum.privacy.accountant import KnownSum
        from veilsum.privacy.composition import Charge, Exposure

        exposure = Exposure.of(terms.promise(emission.parties), tolerate=terms.tolerate)
        charge = Charge(
            epoch=name,
            data=data.data,
            effective=ledger.fingerprint(masked),
            # Masks never serve a second epoch: its name stands for them.
            masks=ledger.fingerprint(name.encode()) if terms.law.hides else None,
            law=terms.law.name,
            parties=emission.parties,
            exposures=(exposure,),
        )
        known = KnownSum(
            statistic=release.job,
            point=release.point,
            parties=emission.parties,
            data=data.data,
            numbers=release.numbers,
            columns=data.asked,
            rows=self._rows(),
            run=terms.run,
            epoch=name,
        )
        return charge, known


def any_epoch_charged(ledger: Ledger, run: str) -> bool:
    """Say whether a ledger was charged for any epoch of a run."""
    charged = (one.epoch for one in ledger.history().charges)
    return any(one.startswith(_sum_epoch_name(run, "")) for one in charged)


def all_epochs_charged(ledger: Ledger, run: str, epochs: Iterable[int]) -> bool:
    """Say whether a ledger was charged for all these epochs of a run."""
    known = {one.epoch for one in ledger.history().charges}
    return all(_sum_epoch_name(run, epoch) in known for epoch in epochs)


def _sum_epoch_name(run: str, epoch: int | str) -> str:
    return f"{run} / {epoch}"
