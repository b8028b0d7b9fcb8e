"""A recipe carried out by parties under terms: the one road that every job takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from veilsum.drivers.masked_sums import GivenUpError, Released, masked_sums
from veilsum.errors import BudgetError, InvalidInputError
from veilsum.files.ledger import Ledger
from veilsum.jobs.driving import Assignment
from veilsum.jobs.promises import Promise, foreseen
from veilsum.jobs.recipes import Contribution, PartyWork, Recipe
from veilsum.jobs.releases import Release, shown_of, with_releases
from veilsum.jobs.terms import Terms
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.laws import Law
from veilsum.numbers.masking import ShareStreams
from veilsum.numbers.secrets import Secret
from veilsum.privacy.accountant import KnownSum
from veilsum.privacy.composition import Charge, Exposure
from veilsum.privacy.guarantee import Guarantee
from veilsum.protocol.effects import Emission
from veilsum.protocol.plan import Plan


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JobResult:
    """What a job released, whatever it was for.

    Attributes:
        terms: what the parties had agreed on.
        recipe: what they did.
        released: what everybody knows now.
    """

    terms: Terms
    recipe: Recipe
    released: Released

    @cached_property
    def guarantee(self) -> Guarantee:
        """What the sums hide, and from whom."""
        promise = self.terms.promise(self.released.members)
        whole = with_releases(promise, self.releases)
        return replace(whole, limits=(*whole.limits, *self.further_limits))

    @property
    def further_limits(self) -> tuple[str, ...]:
        """What these terms, and this kind of job, do not hide either."""
        return self.terms.caveats

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """What each sum showed."""
        sums = self.released.sums
        return tuple(self.recipe.release(sums[:k]) for k in range(len(sums)))

    @property
    def shown(self) -> tuple[str, ...]:
        """What everybody learned, in words; the guarantee has the coalition's side."""
        return shown_of([self.released.members], self.releases)

    @cached_property
    def answer(self) -> Vector:
        """What all parties agreed on."""
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

    def __repr__(self) -> str:
        sums = len(self.released.sums)
        return (
            f"<{type(self).__name__}: {len(self.released.members)} parties, {sums} "
            f"{'sum' if sums == 1 else 'sums'} of {self.recipe.size} numbers, "
            f"{self.guarantee.status}>"
        )


def run_job(
    recipe: Recipe,
    contributions: Mapping[str, Contribution],
    terms: Terms,
    *,
    agreed: Mapping[str, Any],
) -> Released:
    """Return what the parties release to each other.

    Args:
        recipe: what they do, public.
        contributions: each party's private way to answer a request.
        terms: how they sum.
        agreed: everything else that the parties compare before they start.
    """
    plan = terms.plan(size=recipe.size, answer_size=recipe.answer_size, terms=agreed)
    works = {name: PartyWork(recipe, held) for name, held in contributions.items()}
    books = Bookkeeping(recipe, terms, contributions)
    recipe.request(())  # a job that must not start is refused before anybody does
    try:
        if isinstance(terms.driver, str):
            return _simulated(plan, works, terms, books)
        return _for_one_party(plan, works, terms, books)
    except GivenUpError as error:
        _explain(recipe, error)
        raise


def _simulated(
    plan: Plan, works: Mapping[str, PartyWork], terms: Terms, books: Bookkeeping
) -> Released:
    assert isinstance(terms.driver, str)
    return masked_sums(
        plan,
        works,
        ShareStreams.from_seed(terms.seed),
        driver=terms.driver,
        seed=terms.seed or 0,
        progress=terms.progress,
        before=books.charge if terms.ledgers else None,
    )


def _for_one_party(
    plan: Plan, works: Mapping[str, PartyWork], terms: Terms, books: Bookkeeping
) -> Released:
    assert not isinstance(terms.driver, str)
    party = terms.driver.party
    first = [books.recipe.release(())]
    promise = with_releases(terms.guarantee, first)
    assignment = Assignment(
        plan=plan,
        work=works[party],
        promise=foreseen(promise, drop=terms.drop, caveats=terms.caveats),
        shown=shown_of([plan.parties], first),
        charge=partial(books.charge, party) if terms.ledgers else None,
        check=partial(books.check, party, plan.parties) if terms.ledgers else None,
    )
    return terms.driver.carry_out(assignment)


def _explain(recipe: Recipe, error: GivenUpError) -> None:
    """Raise what stopped the parties, where that can be told."""
    # What follows from the sums stops whoever looks at them, in the words meant for it.
    if recipe.request(error.sums) is None:
        recipe.answer(error.sums)
    for party, (word, full) in error.reasons.items():
        if word == "input":
            told = full if full.startswith(f"{party}: ") else f"{party}: {full}"
            raise InvalidInputError(told) from error


@dataclass(frozen=True, eq=False, repr=False)
class Bookkeeping(Secret):
    """Charges parties' ledgers before anything masked leaves them."""

    recipe: Recipe
    terms: Terms
    contributions: Mapping[str, Contribution]

    def charge(
        self, party: str, emission: Emission, sums: Sequence[Array[Any]]
    ) -> None:
        """Record one party's next emission; raise if its ledger refuses."""
        ledger = self.terms.ledgers.get(party)
        if ledger is not None:
            entry = self._entry(party, ledger)
            entry.write(ledger, emission, self.recipe.release(sums))

    def check(self, party: str, parties: tuple[str, ...]) -> None:
        """Raise if one party's ledger would refuse the first emission to these."""
        ledger = self.terms.ledgers.get(party)
        if ledger is not None:
            self._entry(party, ledger).check(ledger, parties, self.recipe.release(()))

    def _entry(self, party: str, ledger: Ledger) -> LedgerEntry:
        return LedgerEntry(
            run=self.terms.run,
            data=ledger.fingerprint(*self.contributions[party].data),  # type: ignore[arg-type]
            law=self.terms.law,
            promise=self.terms.promise,
            tolerate=self.terms.tolerate,
        )


def has_charged(ledger: Ledger, run: str, epochs: Iterable[int]) -> bool:
    """Say whether a ledger was charged for all these epochs of a run."""
    known = {one.epoch for one in ledger.history().charges}
    return all(_epoch_name(run, epoch) in known for epoch in epochs)


def _epoch_name(run: str, epoch: int | str) -> str:
    return f"{run} / {epoch}"


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """What a ledger is told of an emission, beside the emission itself.

    Attributes:
        data: the ledger's own fingerprint of what is masked.
        promise: what holds for those whom the emission names.
    """

    run: str
    data: str
    law: Law
    promise: Promise
    tolerate: int

    def write(self, ledger: Ledger, emission: Emission, release: Release) -> None:
        """Charge the ledger, durably; raise if it refuses."""
        known = self._known(release, emission.parties)
        ledger.charge(self._charge(ledger, emission), releases=[known])

    def check(self, ledger: Ledger, parties: tuple[str, ...], release: Release) -> None:
        """Raise if the ledger would refuse; what is masked is not known yet."""
        charged = (one.epoch for one in ledger.history().charges)
        if any(epoch.startswith(_epoch_name(self.run, "")) for epoch in charged):
            raise BudgetError(
                f"this ledger was charged for the run {self.run} before, and the file "
                "with its state is gone or another one: put it back, or give it with "
                "--state; without it only a new run can be joined"
            )
        emission = Emission(0, parties, np.zeros(0))
        known = self._known(release, parties)
        ledger.check(self._charge(ledger, emission), releases=[known])

    def _known(self, release: Release, parties: tuple[str, ...]) -> KnownSum:
        return KnownSum(
            statistic=release.job,
            point=release.point,
            parties=parties,
            data=self.data,
        )

    def _charge(self, ledger: Ledger, emission: Emission) -> Charge:
        name = _epoch_name(self.run, emission.epoch)
        masked = ",".join(map(str, emission.masked.tolist())).encode()
        # Masks never serve a second epoch: its name stands for them.
        masks = ledger.fingerprint(name.encode()) if self.law.hides else None
        promise = self.promise(emission.parties)
        return Charge(
            epoch=name,
            data=self.data,
            effective=ledger.fingerprint(masked),
            masks=masks,
            law=self.law.name,
            parties=emission.parties,
            exposures=(Exposure.of(promise, tolerate=self.tolerate),),
        )
