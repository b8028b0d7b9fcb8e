"""Laws of whole numbers: exact totals, widths that depend on nothing private."""

from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from strategies import connected_topologies, few, seeds
from veilsum.errors import NumericalError
from veilsum.graphs.topology import Topology
from veilsum.masks.discrete_gaussian import discrete_gaussian
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.masks.laws import Masks
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.masks.streams import SeededStream
from veilsum.numbers.limbs import (
    add_wide_integers,
    limbs_to_integers,
    total_of_wide_integers,
)
from veilsum.numbers.units import UnitCounts
from veilsum.protocol.codec import Codec, MalformedMessageError
from veilsum.protocol.messages import Up

RING = Topology.family("ring:4")
UNITS = (Fraction(1), Fraction(1, 100), Fraction(1, 2**30))
SIGMAS = {"uniform": None, "lattice": 1000.0, "none": None}


def law_of(name, bits, *, units=UNITS, topology=RING, sigma=None):
    masks = Masks(name, sigma=sigma or SIGMAS[name])
    return masks.for_sums(topology, UnitCounts(units, bits))


def whole(*numbers):
    return np.array(numbers, dtype=object)


@few
@given(
    connected_topologies(max_agents=6),
    st.sampled_from(sorted(SIGMAS)),
    st.sampled_from([12, 63, 64, 65, 121, 128, 129, 192]),
    seeds,
    st.data(),
)
def test_totals_are_exact_up_to_the_last_bit(topology, name, bits, seed, data):
    """Every total that fits its bits is right, however large the parts are."""
    law = law_of(name, bits, topology=topology)
    n, half = topology.n_parties, 1 << (bits - 1)
    parts = st.integers(-half // n, half // n - 1)
    rows = [
        whole(*data.draw(st.lists(parts, min_size=3, max_size=3))) for _ in range(n)
    ]
    shares = draw_mask_shares(topology, law, ShareStreams(seed), size=3)
    numbers = np.stack([law.encode(row) for row in rows])
    assert numbers.dtype == shares.values.dtype == law.dtype
    masked = law.wrap(add_wide_integers(numbers, shares.masks()))
    found = law.decode(law.wrap(total_of_wide_integers(masked)))
    assert found.tolist() == np.sum(rows, axis=0).tolist()
    assert {*map(type, found.tolist())} == {int}


@pytest.mark.parametrize(("bits", "n_bytes"), [(64, 8), (65, 16), (121, 16), (129, 24)])
def test_residues_have_as_many_words_as_totals_need(bits, n_bytes):
    law = law_of("uniform", bits)
    assert law.number_bytes == n_bytes
    codec = Codec(9, layout=law.layout(3))
    lengths = set()
    for numbers in (law.encode(whole(0, 0, 0)), law.encode(whole(-1, 1, 2**50))):
        frame = codec.encode(Up(0, numbers))
        lengths.add(len(frame))
        assert codec.decode(frame).numbers.tobytes() == numbers.tobytes()
    assert len(lengths) == 1, "whatever the numbers are"
    assert lengths.pop() - len(codec.encode(Up(0, np.zeros(0)))) == 3 * n_bytes


def test_a_codec_of_one_layout_refuses_every_other():
    law, other = law_of("uniform", 128), law_of("uniform", 192)
    frame = Codec(9, layout=law.layout(3)).encode(Up(0, law.encode(whole(1, 2, 3))))
    with refused("limb-count-differs", MalformedMessageError, mentions=("9", "6")):
        Codec(9, layout=other.layout(3)).decode(frame)


# A modulus for each field

FIELDS = ((1, 20), (2, 128))


@given(seeds, st.lists(st.integers(-(2**150), 2**150), min_size=12, max_size=12))
def test_fields_release_totals_modulo_powers_of_two_of_their_own(seed, values):
    """Whatever parties add, no more than the bits of a field's modulus is released."""
    law = Masks("uniform").for_sums(RING, UnitCounts(UNITS, 192, FIELDS))
    rows = np.array(values, dtype=object).reshape(4, 3)
    shares = draw_mask_shares(RING, law, ShareStreams(seed), size=3)
    codec = Codec(9, layout=law.layout(3))
    assert codec.layout.length == 1 + 2 * 2
    masked = law.wrap(
        add_wide_integers(np.stack([law.encode(row) for row in rows]), shares.masks())
    )
    for row in masked:
        assert codec.decode(codec.encode(Up(0, row))).numbers.tobytes() == row.tobytes()
    moduli = (20, 128, 128)
    wanted = [
        (sum(column) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        for column, bits in zip(rows.T.tolist(), moduli, strict=True)
    ]
    assert law.decode(law.wrap(total_of_wide_integers(masked))).tolist() == wanted


def test_shares_of_a_field_are_even_among_its_residues():
    law = Masks("uniform").for_sums(RING, UnitCounts(UNITS, 60, ((2, 3), (1, 7))))
    assert law.dtype == np.uint64
    counts = replace(law.counts, units=UNITS[:1] * 4000, fields=((4000, 3),))
    drawn = replace(law, counts=counts).draw(
        SeededStream(np.random.default_rng(1)), 4000
    )
    # Each of 8 residues 500 times; 100 off is 4.8 deviations, below 1e-5 for all.
    assert np.abs(np.bincount(drawn.astype(np.int64), minlength=8) - 500).max() < 100
    assert law.of_places([2, 0]).counts.fields == ((1, 7), (1, 3))
    assert law.in_one_word().counts.fields == ()


def test_fields_have_a_number_for_each_unit():
    with refused("units-not-per-number", mentions=("2", "3")):
        UnitCounts(UNITS, 60, ((2, 3),))


def test_more_bits_than_three_words_have_are_refused():
    with refused("sum-too-large"):
        law_of("uniform", 193)


@pytest.mark.parametrize("name", SIGMAS)
def test_a_vector_beyond_the_public_bound_never_becomes_numbers(name):
    law = law_of(name, 20)
    law.encode(whole(2**19 - 1, -(2**19), 0))
    for wrong in (
        whole(2**19, 0, 0),
        whole(0, -(2**19) - 1, 0),
        whole(1, 2),
        np.array([1.0, 2.0, 3.0]),
        whole(1, 2, 3.0),
    ):
        with refused("internal", NumericalError):
            law.encode(wrong)


@pytest.mark.parametrize("name", SIGMAS)
def test_a_grid_is_refused_and_the_unit_named(name):
    if name == "none":
        return
    masks = Masks(name, sigma=SIGMAS[name], grid=40)
    with refused("grid-not-accepted"):
        masks.for_sums(RING, UnitCounts(UNITS, 60))


def test_gaussian_masks_are_not_for_sums():
    with refused("law-of-real-numbers"):
        law_of("gaussian", 60, sigma=1.0)


@given(st.sampled_from([12.0, 1000.0, 12345.678]), st.integers(1, 64), seeds)
def test_each_number_is_masked_in_its_own_unit(sigma, eighths, seed):
    """The deviation is sigma in units, rounded up: never less noise than agreed."""
    weight, law = eighths / 8.0, law_of("lattice", 100, sigma=sigma)
    source = SeededStream(np.random.default_rng(seed))
    steps = law.deviations(weight)
    for found, unit in zip(steps, UNITS, strict=True):
        square = Fraction(sigma) ** 2 * Fraction(weight) / unit**2
        assert (found - 1) ** 2 < square <= found**2
    expected = [discrete_gaussian(source, one, 1).tolist()[0] for one in steps]
    drawn = law.draw(SeededStream(np.random.default_rng(seed)), 3, weight)
    assert limbs_to_integers(drawn).tolist() == expected


def test_without_weights_the_deviation_is_a_ceiling():
    law = law_of("lattice", 60, sigma=1234.5)
    assert law.deviations() == tuple(ceil(Fraction(1234.5) / unit) for unit in UNITS)


@given(st.lists(st.fractions(1e-9, 1e6).filter(lambda u: u > 0), min_size=1))
def test_what_is_proved_is_proved_of_a_coarser_grid(units):
    sigma = 1e9
    law = law_of("lattice", 60, units=tuple(units), sigma=sigma)
    assert law.masks.sigma == sigma
    grid = FixedPointGrid(law.masks.grid)
    assert Fraction(grid.step) >= max(units)
    assert Fraction(grid.step) < 2 * max(units)
    assert all(grid.deviation(sigma) <= steps for steps in law.deviations())


def test_a_sigma_that_spans_too_little_or_too_much_of_a_unit_is_refused():
    with refused("sigma-too-small", mentions=("2", "1")):
        law_of("lattice", 60, sigma=2.0)
    with refused("sigma-too-large"):
        law_of("lattice", 60, sigma=1e60)
    law_of("lattice", 60, sigma=1024.0).check_deployable()
    with refused("sigma-too-small", mentions=("1024",)):
        law_of("lattice", 60, sigma=1000.0).check_deployable()


@given(st.sampled_from([40, 64, 150]), st.sampled_from([8.0, 1e6, 1e20]), seeds)
def test_no_sum_of_masked_numbers_needs_more_bytes_than_the_lattice_says(
    bits, sigma, seed
):
    law = law_of("lattice", bits, sigma=sigma)
    shares = draw_mask_shares(RING, law, ShareStreams(seed), size=3)
    half = 1 << (bits - 1)
    rows = np.stack([law.encode(whole(half // 4 - 1, -half // 4, 0))] * 4)
    masked = limbs_to_integers(add_wide_integers(rows, shares.masks())).astype(object)
    for some in (masked, np.cumsum(masked, axis=0)):
        top = max(abs(int(one)) for one in some.ravel().tolist())
        assert top < 1 << (8 * law.number_bytes - 1)


PLACES = (2, 0, 0, 1)
SIGMAS_BY_PLACE = (1.0, 50.0, 700.0)


def made(kind, sigmas, units):
    if kind == "counts":
        return Masks("lattice", sigmas).for_sums(RING, UnitCounts(units, 60))
    if kind == "residues":
        return Masks("uniform").for_sums(RING, UnitCounts(units, 130))
    return Masks(kind, sigmas, 20 if kind == "lattice" else None).on(RING)


@pytest.mark.parametrize("kind", ["gaussian", "lattice", "counts", "residues"])
def test_a_law_of_some_places_is_the_one_made_for_them(kind):
    first, wide = UNITS[1], made(kind, SIGMAS_BY_PLACE, (UNITS[1:] * 2)[:3])
    wide.draw(SeededStream(np.random.default_rng(5)), 3)  # what is cached is its own
    sigmas = tuple(SIGMAS_BY_PLACE[place] for place in PLACES)
    units = tuple((first, UNITS[2], first)[place] for place in PLACES)
    drawn = [
        law.draw(SeededStream(np.random.default_rng(5)), 4).tobytes()
        for law in (wide.of_places(PLACES), made(kind, sigmas, units))
    ]
    assert drawn[0] == drawn[1]
    one, other = wide.of_places(PLACES).counted, made(kind, sigmas, units).counted
    assert one == other


def test_residues_of_one_word_are_drawn_as_a_word_of_longer_ones():
    long, short = law_of("uniform", 130), law_of("uniform", 62)
    found = long.in_one_word().counts
    assert found.bits == short.counts.bits
    assert {*found.units} == {1}, "whatever they count, they are drawn alike"
    assert short.in_one_word().counts == found
    drawn = long.in_one_word().draw(SeededStream(np.random.default_rng(3)), 3)
    whole = long.draw(SeededStream(np.random.default_rng(3)), 3)
    assert drawn.tolist() == [n % 2**64 for n in limbs_to_integers(whole).tolist()]
    assert (lattice := law_of("lattice", 130)).in_one_word() is lattice


@pytest.mark.parametrize("law", ["lattice", "uniform"])
def test_without_its_range_a_law_is_the_same(law):
    sigma = 1.0 if law == "lattice" else None
    here = Masks(law, sigma, 12, 4.0).on(RING)
    free = here.without_range()
    with refused("value-out-of-range"):
        here.encode(np.array([5.0]))
    assert free.decode(free.encode(np.array([5.0]))) == [5.0]
    assert (free.grid, free.dtype) == (here.grid, here.dtype)
