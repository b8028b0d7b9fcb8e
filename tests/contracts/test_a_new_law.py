"""A new mask law is one class: everything else asks it, and nobody knows its name."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import veilsum as vs
from refusals import refused
from veilsum.masks.laws import LAWS, GaussianMasks, Masks

RING = vs.Topology.family("ring:5")
COSTS = [vs.minimise.Cost.squared_distance([p]) for p in (0.0, 1.0, 3.0, 5.0, 6.0)]

# The checker of types knows the laws that there are.
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@dataclass(frozen=True, eq=False)
class LaplaceMasks(GaussianMasks):
    """Shares with heavier tails, of which nothing is proved."""

    name: ClassVar[str] = "laplace"

    def draw(self, stream, size, weight=1.0):
        squares = [stream.normals(size) ** 2 for _ in range(4)]
        shape = (squares[0] + squares[1] - squares[2] - squares[3]) / np.sqrt(8.0)
        return np.sqrt(weight) * self.sigma * shape


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setitem(LAWS, "laplace", LaplaceMasks)


def test_it_runs():
    run = vs.solve(
        COSTS,
        topology=RING,
        corrupted=(),
        domain=vs.minimise.Box(-9.0, 9.0, dim=1),
        law="laplace",
        sigma=5.0,
        seed=0,
        settings=vs.minimise.Settings(method="one-shot"),
    )
    assert run.minimiser == pytest.approx([3.0])
    assert run.guarantee.law == "laplace"


def test_without_a_proof_it_gets_no_epsilon():
    for found in (
        vs.guarantee(RING, law="laplace", sigma=5.0, distance=1.0),
        vs.worst_case(RING, law="laplace", sigma=5.0, tolerate=1, distance=1.0),
    ):
        assert found.status == "private"
        assert (found.epsilon, found.excess, found.attacker_success) == (None,) * 3
        assert any("simulation only" in line for line in found.limits)


def test_it_is_asked_whether_real_parties_may_use_it():
    with refused("law-not-deployable", vs.InvalidInputError, mentions=("laplace",)):
        Masks("laplace", sigma=5.0).on(RING).check_deployable()


def test_what_it_takes_is_known_from_it():
    with refused("sigma-missing", vs.InvalidInputError, mentions=("laplace",)):
        Masks("laplace")
    with refused("grid-not-accepted", vs.InvalidInputError):
        Masks("laplace", sigma=1.0, grid=20)
