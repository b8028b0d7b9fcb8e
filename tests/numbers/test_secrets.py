import copy
import pickle

import numpy as np
import pytest

from cases import each
from refusals import refused
from veilsum.errors import SecretError
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import GaussianMasks, check_mask_sigma
from veilsum.masks.masking import MaskShares, ShareStreams, draw_mask_shares
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.remainders import RemainderStack, SquaredNorm

NUMBER = 271828.125  # recognisable in any text it leaks into


def shares():
    law = GaussianMasks(check_mask_sigma(1.0))
    drawn = draw_mask_shares(Topology.family("ring:3"), law, ShareStreams(1), size=1)
    return MaskShares(drawn.topology, np.full_like(drawn.values, NUMBER))


def local_gradient():
    cost = Cost.from_gradient(lambda x: x + NUMBER, dim=1)
    return cost.remainder


SECRETS = {
    "affine cost": lambda: Cost.affine([NUMBER]),
    "polynomial cost": lambda: Cost.polynomial([NUMBER, NUMBER]),
    "quadratic cost": lambda: Cost.quadratic([[NUMBER]], [NUMBER]),
    "cost of a gradient": lambda: Cost.from_gradient(lambda x: x + NUMBER, dim=1),
    "shares": shares,
    "share streams": lambda: ShareStreams(int(NUMBER * 8)),
    "local gradient": local_gradient,
    "stack of remainders": lambda: RemainderStack(
        (SquaredNorm(NUMBER), local_gradient())
    ),
}
every_secret = each("make", SECRETS.values(), ids=SECRETS)


@every_secret
@each("show", [repr, str, "{}".format, "%s".__mod__])
def test_a_secret_shows_its_type_and_nothing_else(make, show):
    secret = make()
    assert show(secret) == f"<{type(secret).__name__}: private>"


@every_secret
@each("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_is_never_pickled(make, protocol):
    with refused("not-copyable", SecretError):
        pickle.dumps(make(), protocol)


@every_secret
@each("duplicate", [copy.copy, copy.deepcopy])
def test_a_secret_is_never_copied(make, duplicate):
    with refused("not-copyable", SecretError):
        duplicate(make())


@every_secret
def test_a_secret_inside_a_container_is_neither_shown_nor_pickled(make):
    container = {"mine": [make()]}
    assert str(NUMBER) not in repr(container)
    with pytest.raises(SecretError):
        pickle.dumps(container)
    with pytest.raises(SecretError):
        copy.deepcopy(container)


def test_an_error_about_a_secret_names_its_type_and_not_its_value():
    with pytest.raises(SecretError) as caught:
        pickle.dumps(Cost.affine([NUMBER]))
    assert "Cost" in str(caught.value)
    assert str(NUMBER) not in str(caught.value)
