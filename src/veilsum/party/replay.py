"""Replay of a finished run from the data that all its members share.

The inputs are the released sums and the answer; no party's data are needed. The code
path is that of a run, with a driver that already has the sums. So the plan, the
description of the release, the guarantee and every table in a result are those that a
member's own program had to compute, if it followed the agreement, even if all members
together signed something else.

The consortium file alone determines plan, page and guarantee. The content of each sum,
and everything in a result, follows from the sums, which members keep.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from veilsum import __version__
from veilsum.consortium.consortium import Consortium
from veilsum.drivers.driver import Driver, DriverAssignment, DriverOutput
from veilsum.errors import InvalidInputError, VeilsumError
from veilsum.files.output import as_strict_json
from veilsum.locale import values_without_locale_words
from veilsum.net.receipt import (
    Receipt,
    ReceiptFinding,
    check_receipt_fields,
    finding_for_each_receipt,
    keyed_receipt_digest,
    read_signed_file_as,
    receipt_sums_digest,
    receipts_agree,
    receipts_promise_alike,
)
from veilsum.numbers.arrays import Array, Vector, listed_names
from veilsum.party.checks import AtHomeError, HomeDriver
from veilsum.party.consent import consent_to
from veilsum.protocol.plan import ProtocolPlan
from veilsum.sums.kinds import Asked, agreed_question_of, resolve_agreed_question
from veilsum.sums.recipes import next_request
from veilsum.sums.running import SumJobResult

# The file of sums that join keeps beside a result, for members alone.
SUMS, SUMS_FORMAT = "sums.json", "veilsum sums 1"
# What of a result file depends on whose it is: its own part, what it sent, the seal.
OWN = frozenset({"bytes", "rounds", "iterations", "seal", "outputs", "costs"})
# What a computation on made-up sums may end in.
UNSOUND = (VeilsumError, ArithmeticError, ValueError, np.linalg.LinAlgError)


def replay_sums_file(sums: Sequence[Array[Any]]) -> bytes:
    """Return the sums of a run as a file has them; whole numbers as texts."""
    plain = [
        [str(one) for one in numbers.tolist()]
        if numbers.dtype == object
        else numbers.tolist()
        for numbers in sums
    ]
    return (as_strict_json({"format": SUMS_FORMAT, "sums": plain}) + "\n").encode()


def read_sums_to_replay(path: Path) -> tuple[Array[Any], ...]:
    return read_signed_file_as(path, "a file of sums", _replayed_sums_from)


def _replayed_sums_from(table: Any) -> tuple[Array[Any], ...]:
    fields = {"sums": (lambda value: isinstance(value, list), "a list of sums")}
    return tuple(
        map(_replayed_numbers, check_receipt_fields(table, SUMS_FORMAT, fields)["sums"])
    )


def _replayed_numbers(given: Any) -> Array[Any]:
    kinds = set(map(type, given)) if isinstance(given, list) else {None}
    if kinds == {str}:
        return np.array([int(one) for one in given], dtype=object)
    if kinds <= {int, float} and kinds:
        return np.array(given, dtype=np.float64)
    raise InvalidInputError(
        "a sum is a list of numbers, or of whole ones as texts", code="malformed-sums"
    )


def read_plain_result(path: Path) -> dict[str, Any]:
    """Return all that a result file says."""
    return read_signed_file_as(path, "a result", _replayed_result_from)


def _replayed_result_from(table: Any) -> dict[str, Any]:
    seal = table.get("seal") if isinstance(table, dict) else None
    if not isinstance(seal, str) or len(seal) != 128:
        raise InvalidInputError(
            "expected the JSON that veilsum join writes to result.json, with its seal",
            code="not-a-result",
        )
    bytes.fromhex(seal)
    return dict(table)


@dataclass(frozen=True, eq=False)
class PartyReplayDriver:
    """A driver that hands out what was released before."""

    released: DriverOutput
    party: str = "nobody"

    def carry_out(self, assignment: DriverAssignment) -> DriverOutput:
        """Return what is known, if it could have come of this."""
        size = assignment.plan.size
        for number, one in enumerate(self.released.sums, start=1):
            if one.shape != (size,):
                raise InvalidInputError(
                    f"sum {number} must have {size} numbers by the consortium "
                    f"file, found {len(one)}",
                    code="wrong-sum-length",
                )
        return self.released


def replay_released_sums(
    consortium: Consortium,
    *,
    sums: tuple[Array[Any], ...],
    members: tuple[str, ...],
    answer: Vector | None = None,
) -> SumJobResult:
    """Return what the sums of a run come to.

    Args:
        consortium: what was agreed.
        sums: what was released, in order; none of a method in rounds.
        members: whose vectors are in the sums.
        answer: of a method in rounds, whose answer does not follow from sums.

    Raises:
        VeilsumError: no run of this consortium has such sums.
    """
    asked = resolve_agreed_question(consortium)
    if sums:
        for taken in range(1, len(sums)):
            if next_request(asked.recipe, sums[:taken]) is None:
                raise InvalidInputError(
                    f"after {taken} of {len(sums)} sums no other is asked for",
                    code="too-many-sums",
                )
        if next_request(asked.recipe, sums) is not None:
            raise InvalidInputError(
                f"after {len(sums)} sums another one is asked for", code="too-few-sums"
            )
        answer = asked.recipe.among(members).answer(sums)
    elif answer is None or not asked.recipe.round_size:
        raise InvalidInputError(
            "there is no sum, and the answer follows from sums", code="no-sums"
        )
    released = DriverOutput(
        sums=sums, answer=answer, members=members, rounds=0, bytes=0, sum_of_masks=None
    )
    _, kind = agreed_question_of(consortium)
    return kind.run_without_data(_driven_by(PartyReplayDriver(released), asked))


def agreed_findings(
    receipts: Sequence[Receipt], consortium: Consortium
) -> Iterator[ReceiptFinding]:
    """Yield whether receipts say what follows from the consortium file alone."""
    asked, members = (
        resolve_agreed_question(consortium),
        _replayed_members(receipts, consortium),
    )
    plan = plan_to_replay(consortium, asked)
    wrong = (one.party for one in receipts if one.plan != plan.digest.hex())
    yield finding_for_each_receipt("the plan is the file's", receipts, wrong)
    page = consent_to(consortium).digest
    here = [one for one in receipts if one.version == __version__]
    if here:  # another program has a page of its own
        wrong = (one.party for one in here if one.consent != page)
        yield finding_for_each_receipt(
            "the page that was agreed to is the file's", here, wrong
        )
    if members is None:
        return  # another finding says so
    first = asked.recipe.release(())
    times = 0 if asked.recipe.round_size else len(receipts[0].epochs)
    promise = asked.recipe.stated(asked.terms.promise(members), [first] * times)
    told = _replayed_guarantee_numbers(_replayed_guarantee_json(promise))
    wrong = (
        one.party
        for one in receipts
        if not receipts_promise_alike(_replayed_guarantee_numbers(one.guarantee), told)
    )
    yield finding_for_each_receipt("the guarantee is the file's", receipts, wrong)
    shown = asked.recipe.shown(members, [first] * times)
    once = asked.recipe.shown(members, [first])
    facts = tuple(line.facts for line in once)
    wrong = (
        one.party
        for one in receipts
        if len(one.released) != len(shown) or one.released[: len(once)] != facts
    )
    yield finding_for_each_receipt(
        "what was released is what the file asks for", receipts, wrong
    )


def _replayed_members(
    receipts: Sequence[Receipt], consortium: Consortium
) -> tuple[str, ...] | None:
    """Return who took part, in the file's order; None if they could not have."""
    named = set(receipts[0].parties)
    found = tuple(name for name in consortium.topology.parties if name in named)
    return found if consortium.refusal(frozenset(found)) is None else None


def _driven_by(driver: Driver, asked: Asked) -> Asked:
    return replace(asked, terms=replace(asked.terms, driver=driver))


def plan_to_replay(consortium: Consortium, asked: Asked) -> ProtocolPlan:
    try:
        _, kind = agreed_question_of(consortium)
        kind.run_without_data(_driven_by(HomeDriver("nobody"), asked))
    except AtHomeError as home:
        return home.assignment.plan
    raise AssertionError("a run at home never comes to an answer")


def _replayed_guarantee_json(promise: Any) -> dict[str, Any]:
    return values_without_locale_words(json.loads(as_strict_json(promise.to_dict())))


def _replayed_guarantee_numbers(promise: Mapping[str, Any]) -> dict[str, Any]:
    """Return a guarantee without what each sum was about: that follows from sums."""
    return {k: one for k, one in promise.items() if k not in {"released", "limits"}}


def result_findings(
    receipts: Sequence[Receipt],
    consortium: Consortium,
    *,
    result: Mapping[str, Any],
    sums: tuple[Array[Any], ...],
) -> Iterator[ReceiptFinding]:
    """Yield whether all that a member's result file says follows from signed sums.

    Args:
        receipts: of the run.
        consortium: what was agreed.
        result: the file.
        sums: those beside it; none of a method in rounds.
    """
    seal = bytes.fromhex(result["seal"])
    if sums:
        signed = [one for one in receipts if one.sums]
        digest = receipt_sums_digest(sums, seal)
        wrong = [one.party for one in signed or receipts if one.sums != digest]
        yield finding_for_each_receipt(
            "the sums are the signed ones", signed or receipts, wrong
        )
        if wrong:
            return  # nobody has to find anything in these
    members = _replayed_members(receipts, consortium)
    if members is None:
        return
    try:
        answer = None if sums else np.array(result.get("minimiser"), dtype=np.float64)
        found = replay_released_sums(
            consortium, sums=sums, members=members, answer=answer
        )
        again = json.loads(as_strict_json(found.to_dict()))
        shown = found.shown
    except UNSOUND as error:
        words = "a result follows from the sums and the file"
        yield ReceiptFinding(words, good=False, detail=str(error))
        return
    digest = keyed_receipt_digest(found.answer, seal)
    wrong = [one.party for one in receipts if one.result != digest]
    yield finding_for_each_receipt(
        "the answer that follows is the signed one", receipts, wrong
    )
    facts = tuple(line.facts for line in shown)
    wrong = [one.party for one in receipts if one.released != facts]
    yield finding_for_each_receipt("what was released is what follows", receipts, wrong)
    wrong = [
        one.party
        for one in receipts
        if not receipts_promise_alike(
            one.guarantee, values_without_locale_words(again["guarantee"])
        )
    ]
    yield finding_for_each_receipt("the guarantee is what follows", receipts, wrong)
    keys = sorted((again.keys() | result.keys()) - OWN)
    odd = [key for key in keys if not _replayed_answers_equal(key, again, result)]
    version = sorted({one.version for one in receipts} - {__version__})
    hint = f" (written by version {listed_names(version)}, this is {__version__})"
    yield ReceiptFinding(
        "everything in the result file follows from the sums",
        good=not odd,
        detail=f"not {listed_names(odd)}{hint if version else ''}"
        if odd
        else f"{len(keys)} of {len(keys)} entries",
    )


def _replayed_answers_equal(
    key: str, one: Mapping[str, Any], other: Mapping[str, Any]
) -> bool:
    if key not in one or key not in other:
        return False
    if key == "guarantee":
        return receipts_promise_alike(
            *(values_without_locale_words(each[key]) for each in (one, other))
        )
    return receipts_agree(one[key], other[key])
