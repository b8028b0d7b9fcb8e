"""Whole runs between real parties: on every kind of graph, whoever dies or stays away.

Everything is real but the distance: TLS sockets, stores, ledgers, receipts.
"""

import asyncio
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from net.runs import (
    ITERATED,
    ONE_SHOT,
    TARGETS,
    WAITS,
    Company,
    DiedError,
    answers,
    changed,
    data_files,
    reasons,
)
from veilsum.drivers.driver import GivenUpError
from veilsum.errors import InvalidInputError
from veilsum.files.ledger import read_ledger
from veilsum.minimise.party_cost import PartyCost
from veilsum.net.identity import new_identity
from veilsum.net.receipt import verify_receipts
from veilsum.party.networked import NetworkedParty
from veilsum.privacy.accountant import Budget

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

MEAN = np.mean(TARGETS, axis=0)


def targets(count):
    return [[float(k), 1.5 - k * k / 8] for k in range(count)]


def on(family, count, base=ONE_SHOT, **policy):
    cost = {"kind": "squared-distance", "targets": targets(count)}
    found = changed(base, graph={"family": family}, parties=None, policy=policy)
    return {**found, "cost": cost}


def charges(company, name):
    return read_ledger(company.folder(name) / f"{name}.ledger").charges


slow = pytest.mark.slow
GRAPHS = {
    "ring": ("ring:5", 5, ONE_SHOT),
    "grid": ("grid:2x3", 6, ONE_SHOT),
    "complete": ("complete:5", 5, ONE_SHOT),
    "4-regular": ("regular:7:4", 7, ONE_SHOT),
    "ring, iterated": ("ring:5", 5, ITERATED),
    "grid, iterated": pytest.param("grid:2x3", 6, ITERATED, marks=slow),
    "complete, iterated": pytest.param("complete:5", 5, ITERATED, marks=slow),
    "4-regular, iterated": pytest.param("regular:7:4", 7, ITERATED, marks=slow),
}


@pytest.mark.parametrize(("family", "count", "base"), GRAPHS.values(), ids=GRAPHS)
def test_every_graph_completes(family, count, base, tmp_path):
    company = Company(tmp_path, on(family, count, base))
    found = company.run()
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, np.mean(targets(count), axis=0), atol=1e-8)
    assert company.verdict(found).good
    assert all(one.guarantee.status == "private" for one in found.values())
    assert all(len(charges(company, name)) == 1 for name in company.names)


WEAK = {"path": "path:5", "star": "star:5"}


@pytest.mark.parametrize("family", WEAK.values(), ids=WEAK)
def test_graphs_that_one_party_cuts_are_refused_before_anything_is_sent(
    family, tmp_path
):
    company = Company(tmp_path, on(family, 5))
    for why in reasons(company.run()).values():
        assert "could separate the others" in why
        assert "tolerate = 1" in why
        assert "change the policy openly" in why
    for name in company.names:
        assert company.drivers[name].runner is None, "nothing was begun"
        assert not (company.folder(name) / "state.run").exists()


@pytest.mark.parametrize("family", WEAK.values(), ids=WEAK)
@pytest.mark.parametrize(
    "base",
    [ONE_SHOT, pytest.param(ITERATED, marks=slow)],
    ids=["one-shot", "iterated"],
)
def test_they_complete_where_nobody_is_said_to_be_curious(family, base, tmp_path):
    """The twin: the refusal is overridden aloud, and the guarantee repeats it."""
    company = Company(tmp_path, on(family, 5, base, tolerate=0))
    found = company.run()
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, np.mean(targets(5), axis=0), atol=1e-8)
    receipts = company.receipts(found)
    assert verify_receipts(receipts, company.consortium).good
    for one in receipts:
        assert {"key": "nobody_curious"} in one.guarantee["limits"]


def test_parties_without_an_address_only_dial(tmp_path):
    company = Company(tmp_path, changed(ONE_SHOT, graph={"family": "ring:4"}))
    silent = [
        replace(one, address=None if one.name in "ac" else one.address)
        for one in company.consortium.members
    ]
    company.consortium = replace(company.consortium, members=tuple(silent))
    np.testing.assert_allclose(answers(company.run())["a"], MEAN, atol=1e-6)


# Dying and coming back


def dying(what, count=1):
    """What ends a party after so many events of a kind."""
    left = [count]

    def record(kind, detail, peer):
        del detail, peer
        left[0] -= kind == what
        if left[0] == 0 and kind == what:
            raise DiedError(f"at {what} {count}")

    return record


def dies_and_returns(what, count=1, forget=False):
    """What b does: it dies at a point, and is started again."""

    async def come_and_go(company):
        company.records["b"] = dying(what, count)
        died = await company.start("b")
        assert isinstance(died["b"], DiedError), died
        company.records["b"] = None
        if forget:
            for path in company.folder("b").glob("state.run*"):
                path.unlink()
        return await company.start("b")

    return come_and_go


@pytest.mark.parametrize(
    ("table", "what", "count"),
    [
        (ONE_SHOT, "written", 1),
        pytest.param(ONE_SHOT, "written", 3, marks=slow),
        (ONE_SHOT, "charge", 1),
        (ONE_SHOT, "finish", 1),
        pytest.param(ITERATED, "charge", 1, marks=slow),
        (ITERATED, "send", 60),
        (ITERATED, "finish", 1),
    ],
    ids=[
        *("start", "shares", "charge", "end", "iterated-charge", "iterating"),
        "iterated-end",
    ],
)
def test_who_dies_and_comes_back_goes_on(table, what, count, tmp_path):
    company = Company(tmp_path, table)
    found = company.run("a", "c", "d", meanwhile=dies_and_returns(what, count))
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, MEAN, atol=1e-6)
    assert {len(charges(company, name)) for name in company.names} == {1}
    ordered = {name: found[name] for name in company.names}
    assert company.verdict(ordered).good
    said = [one.to_dict() for one in ordered.values()]
    sent = [one.pop("bytes") for one in said]
    assert said == [said[0]] * 4
    assert sent[1] > 0.6 * min(sent), "what it sent before it died counts too"


@pytest.mark.parametrize("what", ["Ready", "commit/0"])
def test_who_dies_between_commitment_and_opening_opens_the_same(what, tmp_path):
    """Killed when two of three neighbours have its Ready, or all have everybody's."""
    company, left = Company(tmp_path, ONE_SHOT), [2]

    def record(kind, detail, peer):
        del peer
        own = kind == "send" and b"\xa5Ready\xa1b" in detail[:20]
        left[0] -= own
        if (own and left[0] < 0) or (kind == "persist" and detail.key == what):
            raise DiedError(f"at {what}")

    async def come_and_go(company):
        company.records["b"] = record
        died = await company.start("b")
        assert isinstance(died["b"], DiedError), died
        company.records["b"] = lambda kind, detail, peer: seen.append((kind, detail))
        return await company.start("b")

    if what != "Ready":
        left[0] = 10**6
    seen = []
    found = company.run("a", "c", "d", meanwhile=come_and_go)
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, MEAN, atol=1e-6)
    assert "Masked" in _shown(company, seen)
    assert company.verdict({name: found[name] for name in company.names}).good
    for name in company.names:
        assert company.drivers[name].runner.machine.accused == {}


def test_without_its_state_it_is_not_the_same_party(tmp_path):
    """The twin: one that forgets what it has shown is stopped by its own ledger."""
    company = Company(tmp_path, changed(ONE_SHOT, policy={"deadline": 1.0}))
    forgetful = dies_and_returns("charge", forget=True)
    told = reasons(company.run("a", "c", "d", meanwhile=forgetful))
    assert "the file with its state is gone" in told.pop("b")
    assert all("waited for b" in why for why in told.values())


def test_a_run_that_is_over_needs_no_network(tmp_path):
    company = Company(tmp_path, ONE_SHOT)
    first = company.run()
    before = [one.to_json() for one in company.receipts(first)]
    company.records = dict.fromkeys(company.names, dying("boot"))
    again = company.run("c")
    assert company.drivers["c"].runner is None
    np.testing.assert_array_equal(again["c"].answer, first["c"].answer)
    assert company.receipts(again)[0].to_json() == before[2]
    assert again["c"].to_dict() == first["c"].to_dict()


# Those who do not come, and those who go for good


def test_who_never_comes_is_named_with_the_state_of_its_link(tmp_path):
    policy = {"meeting": 1.0, "deadline": 0.3, "patience": 1}
    company = Company(tmp_path, changed(ONE_SHOT, policy=policy))
    found = company.run("a", "b", "c")
    address = company.consortium.member("d").address
    for name, why in reasons(found).items():
        assert "timeout, waited for d while greeting" in why
        assert f"d is not connected: connection refused at {address}" in why
        assert isinstance(found[name], GivenUpError)
        assert charges(company, name) == ()


def test_who_comes_late_is_waited_for(tmp_path):
    """The twin: within the meeting's wait nobody is given up."""
    policy = {"meeting": 20.0, "deadline": 0.3, "patience": 1}
    company = Company(tmp_path, changed(ONE_SHOT, policy=policy))

    async def come(company):
        await asyncio.sleep(1.5)
        return await company.start("d")

    assert len(answers(company.run("a", "b", "c", meanwhile=come))) == 4


def test_the_others_go_on_without_one_where_the_policy_says_so(tmp_path):
    policy = {"tolerate": 0, "drop": True, "deadline": 0.5, "patience": 2}
    company = Company(tmp_path, changed(ONE_SHOT, policy=policy))
    found = company.run("a", "b", "c")
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, np.mean(TARGETS[:3], axis=0), atol=1e-6)
    receipts = company.receipts(found)
    assert {one.lost for one in receipts} == {("d",)}
    assert {one.parties for one in receipts} == {("a", "b", "c")}
    shown = {"key": "coefficients", "parties": ["a", "b", "c"]}
    assert all(one.released == (shown,) for one in receipts)
    assert verify_receipts(receipts, company.consortium).good


def about(promise):
    return sorted((*promise.corrupted, *promise.honest))


def test_what_is_promised_after_a_loss_is_about_those_who_are_left(tmp_path):
    """On K_n one colluder leaves K_(n-1), whose mu2 is n - 1."""
    hasty = {"drop": True, "deadline": 0.5, "patience": 2}
    company = Company(tmp_path, on("complete:6", 6, **hasty))
    left = company.names[:5]
    found = company.run(*left)
    answers(found)
    for name, one in found.items():
        assert one.guarantee.epsilon == pytest.approx(1 / (4e12 * 4), rel=1e-6)
        assert about(one.guarantee) == sorted(left)
        ((charge,),) = (charges(company, name),)
        assert charge.exposures[0].epsilon == one.guarantee.epsilon
    assert company.verdict(found).good
    # The twin: to all six more was promised.
    part = PartyCost.of(company.consortium, {"targets": [0.0, 0.0]})
    assert part.guarantee.epsilon == pytest.approx(1 / (4e12 * 5), rel=1e-6)
    assert about(part.guarantee) == sorted(company.names)
    stale = [
        replace(one, guarantee=part.guarantee.to_dict())
        for one in company.receipts(found)
    ]
    told = [one.check for one in verify_receipts(stale).findings if not one.good]
    assert "guarantees are about those who took part" in told


def test_a_job_after_a_loss_promises_what_holds_among_those_who_are_left(tmp_path):
    column = {"kind": "number", "minimum": -9, "maximum": 9}
    job = {
        "title": "five wards",
        "schema": {"minimum_rows": 5, "columns": {"x": column}},
        "statistics": {"columns": ["x"]},
        "graph": {"family": "complete:5"},
        "policy": {"tolerate": 1, **WAITS, "drop": True, "deadline": 0.5},
    }
    rows = {str(k): pd.DataFrame({"x": np.arange(6.0) - k}) for k in range(5)}
    company = Company(tmp_path, data_files(job, rows, tmp_path))
    left = company.names[:4]
    found = company.run(*left)
    for name, one in found.items():
        assert one.moments.mean.tolist() == [1.0]
        assert about(one.guarantee) == sorted(left)
        assert "4" not in "".join(one.guarantee.released).split("summed over")[1]
        assert {charge.parties for charge in charges(company, name)} == {left}
    assert company.verdict(found).good


def test_neighbours_stand_in_for_who_dies_after_the_commit(tmp_path):
    """The costs' remainder is known to all: the sum of what was masked is enough."""
    policy = {"deadline": 0.5, "patience": 3}
    company = Company(tmp_path, changed(ITERATED, policy=policy))
    company.records["b"] = dying("send", 60)
    found = company.run()
    assert isinstance(found.pop("b"), DiedError)
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, MEAN, atol=1e-6)
    assert {len(charges(company, name)) for name in company.names} == {1}


def test_nobody_stands_in_for_who_died_before_its_deposit(tmp_path):
    """The twin: what was not deposited cannot be shown, and the others say who."""
    policy = {"deadline": 0.5, "patience": 2}
    company = Company(tmp_path, changed(ITERATED, policy=policy))
    company.records["b"] = dying("charge")
    found = company.run()
    assert isinstance(found.pop("b"), DiedError)
    told = reasons(found)
    assert any("waited for b" in why for why in told.values())
    assert all("timeout" in why for why in told.values())


# The ledger


def test_a_budget_that_forbids_stops_before_anything_masked_leaves(tmp_path):
    """Its owner lowered it during the run: before, the party would not have begun."""
    company = Company(tmp_path, changed(ONE_SHOT, policy={"deadline": 0.5}))
    company.budgets["b"] = Budget(epsilon=1.0)
    seen = []

    def record(what, detail, peer):
        seen.append((what, detail))
        if what == "boot":
            with company.ledger("b") as ledger:
                ledger.change_budget(Budget(epsilon=1e-30))

    company.records["b"] = record
    found = company.run()
    told = reasons(found)
    assert "b: ledger" in told["b"]
    assert "epsilon" in told["b"]
    assert charges(company, "b") == ()
    shown = _shown(company, seen)
    assert "Ready" in shown
    assert "Masked" not in shown
    assert "Quit" in shown
    for name in ("a", "c", "d"):
        assert "b" in told[name]


def test_a_budget_that_allows_it_lets_it_leave(tmp_path):
    """The twin: the same party with a larger budget shows its masked numbers."""
    company = Company(tmp_path, ONE_SHOT)
    company.budgets["b"] = Budget(epsilon=1.0)
    seen = []
    company.records["b"] = lambda what, detail, peer: seen.append((what, detail))
    answers(company.run())
    assert "Masked" in _shown(company, seen)
    assert len(charges(company, "b")) == 1


def _shown(company, seen):
    """The kinds of messages of its own that a party sent, in order."""
    codec = company.drivers["b"].plan.codec
    sent = [codec.decode(detail) for what, detail in seen if what == "send"]
    # Others' records are passed on, too.
    return [type(one).__name__ for one in sent if getattr(one, "party", "b") == "b"]


def test_a_stranger_and_an_old_certificate_are_refused_before_anything(tmp_path):
    company = Company(tmp_path / "x", ONE_SHOT)
    for name, why in (("zoe", "is no member"), ("a", "another certificate of 'a'")):
        identity = new_identity(name, tmp_path / "elsewhere")
        with pytest.raises(InvalidInputError, match=why):
            NetworkedParty(
                identity=identity,
                consortium=company.consortium,
                state=tmp_path / "state.run",
            )
    assert not (tmp_path / "state.run").exists()
