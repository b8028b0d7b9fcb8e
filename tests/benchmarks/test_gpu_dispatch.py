"""benchmarks/gpu_dispatch.py: the device's year is that of the package's own job."""

import json

import numpy as np
import pytest

import gpu_dispatch
import veilsum as vs
from gpu_dispatch import SEARCH, Device, Homes, asked_by_sites, sites, year
from later import optional
from veilsum.minimise.costs.differentiated import in_64_bits

jax = optional("jax")
pytestmark = pytest.mark.usefixtures("unchecked_shapes")

HOMES = Homes(11, seed=3)


@pytest.fixture(scope="module")
def found():
    # Tiles that divide neither agents nor hours.
    with in_64_bits(jax):
        return year(Device(HOMES, tile=(4, 3)).ask, 4)


@pytest.mark.parametrize("hour", range(4))
def test_an_hour_is_what_dispatch_finds_to_the_last_bit(found, hour):
    held = dict(enumerate(sites(HOMES, hour)))
    graph = "circulant:11:" + ",".join(map(str, HOMES.strides))
    result = vs.dispatch(
        held,
        prices=(SEARCH.low, SEARCH.high),
        tolerance=SEARCH.tolerance,
        unit=1,
        topology=graph,
        driver="vectorised",
        seed=1,
    )
    assert result.settled == found.settled[hour]
    assert [one.tolist() for one in result.released.sums] == found.sums[hour]


def test_sites_one_by_one_are_asked_the_same(found):
    alone = year(asked_by_sites(HOMES, 4), 4)
    assert alone.settled == found.settled
    assert alone.sums == found.sums
    assert alone.digest == found.digest


def test_masks_that_do_not_cancel_are_noticed(monkeypatch):
    honest = gpu_dispatch.shares_of

    def of_one_end(homes, key, agent):
        # The first share that each agent receives is not the one that was sent.
        first, second = honest(homes, key, agent)
        return first.at[0, 1].add(np.uint32(1)), second

    monkeypatch.setattr(gpu_dispatch, "shares_of", of_one_end)
    with in_64_bits(jax), pytest.raises(SystemExit, match="add up to zero"):
        Device(HOMES, tile=(11, 2)).ask(0, [0, 1], [20.0, 30.0])


@pytest.mark.slow
def test_one_line_says_what_was_measured(capsys, monkeypatch):
    monkeypatch.setattr(gpu_dispatch, "check", lambda: None)
    gpu_dispatch.main(["--agents", "20", "--hours", "2"])
    line = json.loads(capsys.readouterr().out)
    assert line["agents"] == line["agents asked for"] == 20
    assert line["worst balance, watts"] <= SEARCH.tolerance
    assert line["agents x hours a second"] > 0
    assert line["numpy, one process, scaled from a small part, seconds"] >= 0
