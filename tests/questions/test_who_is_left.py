"""A party is lost before anything is shown: answers, promises and books are the rest's.

On a network the others go on if `drop` says so; here the loss is simulated.
"""

import numpy as np
import pytest

from refusals import refused
from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback import Loopback
from veilsum.errors import BudgetError
from veilsum.files.ledger import open_ledger
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import WholeSpace
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.question import Minimise
from veilsum.numbers.layout import NumberLayout, layout_number
from veilsum.privacy.accountant import Budget
from veilsum.privacy.worst_case import guarantee_against_any_coalition
from veilsum.protocol.plan import ProtocolPolicy
from veilsum.questions.sums import OneSum, mean
from veilsum.sums.recipes import SumContribution
from veilsum.sums.running import SumBookkeeping, all_epochs_charged, run_sum_job
from veilsum.sums.terms import SumPromises, SumTerms

PARTIES = ("a", "b", "c", "d", "e", "f")
LEFT = PARTIES[:-1]
# It vanishes before its first word and does not come back.
WITHOUT_F = Loopback(seed=1, faults=Faults(crashes=(Crash("f", after=1, back=None),)))
MASKS = Masks("lattice", sigma=100.0, grid=40)


def complete(parties):
    return Topology.family(f"complete:{len(parties)}").renamed(parties)


def test_books_and_promises_are_of_those_who_are_left(tmp_path):
    """Fewer hide each other less well, and a ledger must not be charged less."""
    budget = Budget(epsilon=1.0)
    with open_ledger(tmp_path / "a.ledger", create=budget) as ledger:
        found = mean(
            {name: float(k) for k, name in enumerate(PARTIES)},
            law="lattice",
            sigma=100.0,
            drop=True,
            driver=WITHOUT_F,
            ledgers={"a": ledger},
        )
        (charge,) = ledger.history().charges
    whole, rest = (
        guarantee_against_any_coalition(
            complete(names), MASKS.altered(grid=0), tolerate=1
        )
        for names in (PARTIES, LEFT)
    )
    assert found.released.members == LEFT
    assert found.value == pytest.approx(2.0, abs=1e-9)
    assert rest.epsilon > 1.1 * whole.epsilon
    assert found.guarantee.epsilon == rest.epsilon
    assert charge.parties == LEFT
    assert [one.epsilon for one in charge.exposures] == [rest.epsilon]


def test_a_ledger_knows_a_run_again_in_whatever_epoch_it_was_charged(tmp_path):
    """After a loss it is epoch 1 that was charged: 0 was given up."""
    with open_ledger(tmp_path / "a.ledger", create=Budget()) as ledger:
        options = {"drop": True, "driver": WITHOUT_F, "ledgers": {"a": ledger}}
        mean(dict.fromkeys(PARTIES, 1.0), run="monday", **options)
        recipe = OneSum(NumberLayout((layout_number("sum", bits=60),)), "another sum")
        given = {
            "a": SumContribution(lambda _: np.ones(1), (np.zeros(1),))
        }  # other data

        def check(run):
            given_options = {**options, "run": run, "new_data": True}
            terms = SumTerms.of(PARTIES, counts=recipe.counts, options=given_options)
            SumBookkeeping(recipe, terms, given).check("a")

        with refused("run-already-charged", BudgetError):
            check("monday")
        check("mon")
        check("monday 2")
        for epochs in ([], [1]):
            assert all_epochs_charged(ledger, "monday", epochs)
        for epochs in ([0], [0, 1]):
            assert not all_epochs_charged(ledger, "monday", epochs)
        assert not all_epochs_charged(ledger, "tuesday", [1])


def test_a_minimiser_is_that_of_the_costs_that_are_left():
    """What everybody has in common counts as often as there are parties left."""
    targets = np.random.default_rng(0).normal(size=(6, 2))
    costs = [Cost.squared_distance(target) for target in targets]
    graph, domain = complete(PARTIES), WholeSpace(2)
    terms = SumTerms(
        topology=graph,
        law=MASKS.on(graph),
        policy=ProtocolPolicy(drop=True),
        spread="flooding",
        driver=WITHOUT_F,
    )
    recipe = Minimise.of(
        costs[0].basis,
        {name: cost.remainder for name, cost in zip(PARTIES, costs, strict=True)},
        topology=graph,
        law=terms.law,
        domain=domain,
        settings=Settings(method="one-shot"),
    )
    given = {
        name: recipe.contribution(name, cost)
        for name, cost in zip(PARTIES, costs, strict=True)
    }
    found = run_sum_job(recipe, given, terms, agreed=recipe.agreed)
    assert found.members == LEFT
    assert np.allclose(found.answer, targets[:-1].mean(axis=0), atol=1e-9)


def test_promises_depend_on_who_is_left_and_not_on_how_many():
    """Without the hub of a wheel a ring is left, without another party a fan."""
    wheel = Topology.family("wheel:7")
    promises = SumPromises(wheel, MASKS, tolerate=0)
    hub = wheel.parties[int(np.argmax(wheel.degrees))]
    found = []
    for lost in (hub, next(name for name in wheel.parties if name != hub)):
        members = tuple(name for name in wheel.parties if name != lost)
        graph = wheel.induced(wheel.indices(members))
        expected = guarantee_against_any_coalition(graph, MASKS, tolerate=0)
        assert promises(members) == promises(members) == expected
        found.append(expected)
    assert found[0].epsilon != found[1].epsilon
