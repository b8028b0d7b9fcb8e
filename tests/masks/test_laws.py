"""Mask laws: exact sums, weights, encoding, and what contradicts what."""

import inspect
import pickle
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from strategies import any_topologies, connected_topologies, few, seeds
from veilsum.errors import InvalidInputError, RangeError, SecretError
from veilsum.graphs.topology import Topology
from veilsum.masks.discrete_gaussian import discrete_gaussian
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.masks.laws import (
    LAWS,
    GaussianMasks,
    LatticeMasks,
    Masks,
    NoMasks,
    UniformMasks,
    check_mask_sigma,
)
from veilsum.masks.masking import (
    MaskShares,
    ShareStreams,
    SystemStreams,
    at_both_ends,
    draw_mask_shares,
)
from veilsum.masks.streams import Keystream, SeededStream
from veilsum.numbers.limbs import limb_type, limbs_from_integers, limbs_to_integers

TRIANGLE = Topology.family("complete:3")
magnitudes = st.floats(-3.0, 12.0).map(lambda exponent: 10.0**exponent)
# The finest grid on which the largest sigma above still spans less than 2^100 steps.
bits = st.integers(20, 58)


def stream(seed=0):
    return SeededStream(np.random.default_rng(seed))


def lattice(topology=TRIANGLE, **options):
    return Masks("lattice", **{"sigma": 1.0, "grid": 40, **options}).on(topology)


# --- Masks add up to zero ----------------------------------------------------------


@given(any_topologies(), magnitudes, seeds, bits, st.integers(1, 3))
def test_lattice_masks_add_up_to_exactly_zero(topology, sigma, seed, q, size):
    law = Masks("lattice", sigma=sigma, grid=q).on(topology)
    masks = draw_mask_shares(topology, law, ShareStreams(seed), size=size).masks()
    assert masks.dtype == law.dtype
    total = [sum(column) for column in limbs_to_integers(masks).T.tolist()]
    assert total == [0] * size


@given(any_topologies(), seeds, st.integers(1, 3))
def test_uniform_masks_add_up_to_zero_modulo_2_64(topology, seed, size):
    law = Masks("uniform").on(topology)
    masks = draw_mask_shares(topology, law, ShareStreams(seed), size=size).masks()
    assert masks.dtype == np.uint64
    for column in masks.T:
        assert sum(int(mask) for mask in column) % 2**64 == 0


@few
@given(any_topologies(), magnitudes, seeds)
def test_wide_masks_are_the_narrow_ones_where_both_fit(topology, sigma, seed):
    narrow = LatticeMasks(check_mask_sigma(sigma), FixedPointGrid(16))
    wide = LatticeMasks(check_mask_sigma(sigma), FixedPointGrid(16), wide=True)
    drawn = [
        draw_mask_shares(topology, law, ShareStreams(seed), size=2).masks()
        for law in (narrow, wide)
    ]
    assert [masks.dtype for masks in drawn] == [np.int64, limb_type(4)]
    assert drawn[0].tolist() == limbs_to_integers(drawn[1]).tolist()


def test_integer_masks_are_sent_minus_received():
    """The check by hand of Eq. i_vn, in integers of every kind: u = (-5, 0, 5)."""
    r = [[0, 1, 2], [3, 0, 4], [5, 6, 0]]
    values = [[[r[i][j]], [r[j][i]]] for i, j in TRIANGLE.edges.tolist()]
    whole = np.array(values)
    for kept in (whole, *(limbs_from_integers(whole, words) for words in (1, 2, 3, 4))):
        masks = MaskShares(TRIANGLE, kept).masks()
        assert limbs_to_integers(masks).ravel().tolist() == [-5, 0, 5]
    masks = MaskShares(TRIANGLE, np.array(values, dtype=np.uint64)).masks()
    assert masks.ravel().tolist() == [2**64 - 5, 0, 5]


# --- Draws -------------------------------------------------------------------------


@given(st.integers(1, 64), seeds, st.sampled_from([0.5, 1.0, 3.25]))
def test_a_weight_multiplies_the_variance_of_a_draw(eighths, seed, sigma):
    """The draw is the discrete Gaussian whose deviation is the exact ceiling."""
    weight = eighths / 8.0
    square = Fraction(sigma) ** 2 * Fraction(weight) * 4**30
    deviation = isqrt(int(square) - 1) + 1
    found = lattice(sigma=sigma, grid=30).draw(stream(seed), 5, weight)
    expected = discrete_gaussian(stream(seed), deviation, 5)
    assert found.tolist() == expected.tolist()


def test_an_edge_s_weight_reaches_its_shares():
    heavy = Topology.from_edges([(0, 1), (1, 2)], weights=[1.0, 10_000.0])
    law, streams = lattice(heavy), ShareStreams(1)
    values = draw_mask_shares(heavy, law, streams, size=400).values.astype(float)
    light, loud = values.reshape(2, -1).std(axis=1)
    assert loud / light == pytest.approx(100.0, rel=0.2)


def test_sigma_may_differ_between_coefficients_of_the_lattice():
    """Stretches of equal sigma are drawn at once, in their order, from one stream."""
    law = lattice(sigma=[1.0, 1.0, 2.0**10, 1.0])
    source = stream(3)
    expected = [
        *discrete_gaussian(source, 2**40, 2),
        *discrete_gaussian(source, 2**50, 1),
        *discrete_gaussian(source, 2**40, 1),
    ]
    assert law.draw(stream(3), 4).tolist() == expected


def test_draws_have_the_law_s_own_kind_of_number():
    """Past 2^52 steps the sampler has Python integers, which may still fit 64 bits."""
    for bits, kind in ((40, np.int64), (54, np.int64), (80, limb_type(4))):
        law = lattice(grid=bits)
        assert law.draw(stream(), 3).dtype == law.dtype == kind


def test_as_many_sigmas_as_coefficients_are_needed_on_the_lattice():
    with refused("sigma-wrong-shape", mentions=("3", "2")):
        lattice(sigma=[1.0, 2.0]).draw(stream(), 3)


def test_uniform_draws_are_the_stream_s_words_whatever_the_weight():
    law = Masks("uniform").on(TRIANGLE)
    expected = stream(5).words(4).tolist()
    assert law.draw(stream(5), 4).tolist() == expected
    assert law.draw(stream(5), 4, weight=9.0).tolist() == expected


@few
@given(seeds, st.integers(0, 3))
def test_integer_shares_come_from_the_keyed_streams_too(seed, epoch):
    """The contract between drivers holds for every law."""
    law, streams = lattice(), ShareStreams(seed)
    shares = draw_mask_shares(TRIANGLE, law, streams, size=2, epoch=epoch)
    for (i, j), (sent, received) in zip(TRIANGLE.edges, shares.values, strict=True):
        forth = streams.stream(epoch=epoch, sender=int(i), receiver=int(j))
        back = streams.stream(epoch=epoch, sender=int(j), receiver=int(i))
        assert sent.tolist() == discrete_gaussian(forth, 2**40, 2).tolist()
        assert received.tolist() == discrete_gaussian(back, 2**40, 2).tolist()


# --- Encoding ----------------------------------------------------------------------

rows = st.lists(st.floats(-100.0, 100.0), min_size=1, max_size=4).map(np.array)


@given(rows, st.sampled_from([False, True]))
def test_what_the_lattice_encodes_is_decoded_within_half_a_step(values, wide):
    law = LatticeMasks(check_mask_sigma(1.0), FixedPointGrid(40), wide=wide)
    numbers = law.encode(values)
    assert numbers.dtype == law.dtype
    assert np.abs(law.decode(numbers) - values).max() <= 2.0**-41


@given(rows, st.integers(1, 5), st.integers(0, 2**64 - 1))
def test_residues_are_decoded_once_their_masks_have_cancelled(values, n, mask):
    law = UniformMasks(FixedPointGrid(40), n_parties=n, largest=100.0)
    numbers = law.encode(values)
    assert numbers.dtype == np.uint64
    masked = numbers + np.uint64(mask)
    np.testing.assert_array_equal(masked - np.uint64(mask), numbers)
    assert np.abs(law.decode(numbers) - values).max() <= 2.0**-41


@given(st.lists(st.floats(-1000.0, 1000.0), min_size=2, max_size=6), seeds)
def test_a_sum_of_residues_is_the_sum_of_the_rounded_values(values, seed):
    """Negative numbers and masks wrap around; their sum does not."""
    topology = Topology.family(f"complete:{len(values)}")
    law = Masks("uniform", grid=40, largest=1000.0).on(topology)
    private = np.stack([law.encode(np.array([value])) for value in values])
    shares = draw_mask_shares(topology, law, ShareStreams(seed), size=1)
    total = (private + shares.masks()).sum(axis=0)
    expected = sum(round(Fraction(value) * 2**40) for value in values)
    assert law.decode(total).tolist() == [float(Fraction(expected, 2**40))]


def test_the_largest_sum_of_residues_still_fits():
    law = UniformMasks(FixedPointGrid(50), n_parties=1)
    assert law.decode(law.encode(np.array([2.0**12]))).tolist() == [2.0**12]
    assert law.decode(law.encode(np.array([-(2.0**12)]))).tolist() == [-(2.0**12)]


@pytest.mark.parametrize("law", [NoMasks(), GaussianMasks(check_mask_sigma(1.0))])
def test_laws_in_float64_encode_nothing(law):
    values = np.array([0.1, -2.5])
    assert law.encode(values) is values
    assert law.decode(values) is values


def test_a_value_beyond_the_declared_range_is_refused_by_both_integer_laws():
    for law in (lattice(largest=2.0), Masks("uniform", largest=2.0).on(TRIANGLE)):
        with refused("value-out-of-range", RangeError, mentions=("3,",)):
            law.encode(np.array([1.0, -3.0]), ["weight", "height"])


def test_without_a_declared_range_what_a_sum_cannot_hold_is_refused():
    """Eight times 2000 steps of 2^-50 is more than 2^63: it would wrap around."""
    eight = Topology.family("complete:8")
    laws = (lattice(eight, grid=50), Masks("uniform", grid=50).on(eight))
    for law, reach in zip(laws, (256, 512), strict=True):
        with refused("value-out-of-range", RangeError, mentions=("03,", reach)):
            law.encode(np.array([2000.0]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("wide", [False, True])
def test_what_is_no_number_is_refused(bad, wide):
    law = LatticeMasks(check_mask_sigma(1.0), FixedPointGrid(40), wide=wide)
    with refused("not-finite", RangeError, mentions=("1",)):
        law.encode(np.array([bad]))
    with refused("value-out-of-range", RangeError, mentions=("1",)):
        Masks("uniform").on(TRIANGLE).encode(np.array([bad]))


# --- The grid and the width for a network ------------------------------------------


@given(any_topologies(), magnitudes, st.floats(1e-3, 1e6))
def test_a_chosen_grid_fits_64_bits_or_integers_are_wide(topology, sigma, largest):
    """n times the range, and masks of 64 standard deviations, below 2^62."""
    law = Masks("lattice", sigma=sigma, largest=largest).on(topology)
    loudest = float(topology.weights.max(initial=1.0))
    mask = sigma * (2 * loudest * topology.degrees.max()) ** 0.5 * 64
    reach = max(mask + largest, topology.n_parties * largest) * 2.0**law.grid.bits
    assert law.wide == (reach > 2.0**62)
    assert law.grid.bits >= 30, "no coarser than is noticed, without being asked"
    quietest = float(topology.weights.min(initial=1.0))
    assert law.grid.deviation(sigma, quietest) >= 2**10
    law.encode(np.array([largest, -largest]))


def test_a_range_that_64_bits_cannot_sum_makes_integers_wide():
    eight = Topology.family("complete:8")
    assert not lattice(eight, grid=50, largest=200.0).wide
    assert lattice(eight, grid=50, largest=2000.0).wide


def test_wide_numbers_have_four_limbs():
    assert lattice().number_bytes == 8
    assert lattice(sigma=2.0**40, grid=50).number_bytes == 32
    assert lattice(sigma=1.0, grid=50, largest=2.0**60).number_bytes == 32


def test_very_different_sigmas_still_all_span_enough_of_the_grid():
    law = Masks("lattice", sigma=[1e-6, 1e12]).on(TRIANGLE)
    assert law.wide
    assert law.grid.deviation(1e-6) >= 2**10


@each("largest", [0.0, -1.0, np.nan, np.inf])
@each("name", ["lattice", "uniform"])
def test_a_range_that_is_none_is_refused(name, largest):
    sigma = 1.0 if name == "lattice" else None
    with pytest.raises(InvalidInputError, match="the range of coefficients must be"):
        Masks(name, sigma=sigma, largest=largest).on(TRIANGLE)


def test_a_sigma_that_the_grid_cannot_show_is_refused_at_once():
    with refused("grid-too-coarse", mentions=("4",)):
        lattice(sigma=[1.0, 1e-20])
    with refused("grid-too-fine"):
        lattice(sigma=1e30)


def test_a_sum_that_cannot_fit_is_refused_before_any_data():
    with refused("sum-too-large", mentions=("3",)):
        Masks("uniform", grid=60, largest=10.0).on(TRIANGLE)


# --- Names and contradictions ------------------------------------------------------


def test_every_law_has_its_name():
    for name in LAWS:
        sigma = 1.0 if name in {"gaussian", "lattice"} else None
        assert Masks(name, sigma=sigma).on(TRIANGLE).name == name


@pytest.mark.usefixtures("unchecked_shapes")  # types know the laws that there are
@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("gausian", {}, "no mask law is called 'gausian'"),
        ("gaussian", {}, "needs sigma"),
        ("lattice", {}, "needs sigma"),
        ("none", {"sigma": 1.0}, "leave sigma out"),
        ("uniform", {"sigma": 1.0}, "has no sigma: leave it out"),
        ("none", {"grid": 10}, "no grid and no range"),
        ("gaussian", {"sigma": 1.0, "grid": 10}, "no grid and no range"),
        ("gaussian", {"sigma": 1.0, "largest": 10.0}, "no grid and no range"),
    ],
)
def test_contradictions_are_refused(name, given, words):
    with pytest.raises(InvalidInputError, match=words):
        Masks(name, **given)


# --- Deployment --------------------------------------------------------------------


def test_laws_for_simulation_are_not_deployed():
    for law in (NoMasks(), GaussianMasks(check_mask_sigma(1.0))):
        with refused("law-not-deployable"):
            law.check_deployable()


def test_a_deployed_lattice_spans_2_to_the_10():
    lattice(grid=10).check_deployable()
    Masks("uniform").on(TRIANGLE).check_deployable()
    with refused("grid-too-coarse", mentions=("10",)):
        lattice(grid=9).check_deployable()
    with refused("grid-too-coarse", mentions=("13",)):
        lattice(sigma=[8.0, 0.125], grid=12).check_deployable()


def test_the_quietest_link_decides_whether_a_lattice_is_deployed():
    lattice(grid=11).check_deployable(least_weight=0.25)
    with refused("grid-too-coarse", mentions=("11",)):
        lattice(grid=10).check_deployable(least_weight=0.25)


def test_chosen_grids_are_fit_for_deployment():
    for sigma in (1e-9, 1.0, 1e9):
        Masks("lattice", sigma=sigma).on(TRIANGLE).check_deployable()


def test_the_system_s_streams_have_nowhere_to_put_a_seed():
    for source in (SystemStreams, Keystream.from_os):
        assert not inspect.signature(source).parameters
    with pytest.raises(TypeError):
        SystemStreams(seed=1)
    with pytest.raises(TypeError):
        Keystream.from_os(1)


@pytest.mark.parametrize("law", [lattice(grid=60), Masks("uniform").on(TRIANGLE)])
def test_the_system_s_streams_never_repeat(law):
    """Equal keys, and yet no share twice: chance below 1e-15 by the birthday bound."""
    streams = SystemStreams()
    drawn = [draw_mask_shares(TRIANGLE, law, streams, size=4).values for _ in range(5)]
    numbers = [
        n for values in drawn for n in limbs_to_integers(values).ravel().tolist()
    ]
    assert len(set(numbers)) == len(numbers) == 5 * 24


def test_no_float_normals_come_from_the_system_s_streams():
    law = GaussianMasks(check_mask_sigma(1.0))
    with refused("normals-for-simulation"):
        draw_mask_shares(TRIANGLE, law, SystemStreams(), size=1)
    with refused("normals-for-simulation"):
        law.draw(Keystream(bytes(32)), 3)


# --- Nothing is shown --------------------------------------------------------------


@pytest.mark.parametrize("name", LAWS)
def test_shares_of_every_law_are_never_shown_or_pickled(name):
    sigma = 1.0 if name in {"gaussian", "lattice"} else None
    law = Masks(name, sigma=sigma).on(TRIANGLE)
    shares = draw_mask_shares(TRIANGLE, law, ShareStreams(0), size=2)
    assert repr(shares) == "<MaskShares: private>"
    assert str(shares) == repr(shares)
    with pytest.raises(SecretError):
        pickle.dumps(shares)


@pytest.mark.parametrize("secret", [SystemStreams(), ShareStreams(31415), stream(7)])
def test_streams_are_never_shown_or_pickled(secret):
    assert repr(secret) == f"<{type(secret).__name__}: private>"
    with pytest.raises(SecretError):
        pickle.dumps(secret)


@pytest.mark.parametrize("law", [lattice(), Masks("uniform").on(TRIANGLE)])
def test_a_law_keeps_nothing_of_what_it_drew(law):
    before = repr(law), sorted(vars(law))
    law.draw(stream(), 100)
    assert (repr(law), sorted(vars(law))) == before


# --- Units -------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["lattice", "uniform"])
@given(cents=st.lists(st.integers(-(10**9), 10**9), min_size=3, max_size=3))
def test_equal_sums_of_cents_have_equal_bits(law, cents):
    sigma = 1e4 if law == "lattice" else None
    made = Masks(law, sigma, unit=0.01).on(TRIANGLE)
    moved = [cents[0] + 1, cents[1] - 1, cents[2]]
    totals = [
        np.sum([made.encode(np.array([one / 100])) for one in some], axis=0).tolist()
        for some in (cents, moved)
    ]
    assert totals[0] == totals[1]
    decoded = made.decode(np.array(totals[0], dtype=made.dtype)).item()
    assert decoded == pytest.approx(sum(cents) / 100, rel=1e-15, abs=1e-300)


def test_shares_are_finer_than_the_unit_where_they_must_be():
    law = Masks("lattice", 1.0, unit="1").on(TRIANGLE)
    assert law.grid.deviation(1.0) >= 2**10
    law.check_deployable()
    assert law.encode(np.array([3.4])).tolist() == [3 << law.grid.bits]


def test_a_unit_too_fine_for_the_range_is_refused():
    with refused("sum-too-large"):
        Masks("uniform", None, None, 1e12, 1e-9).on(TRIANGLE)


def test_a_law_without_a_grid_has_no_unit():
    assert Masks("gaussian", 1.0, unit=0.01).unit is None


# --- All masks are alike -----------------------------------------------------------


@few
@given(connected_topologies(max_agents=3), st.data())
def test_uniform_views_are_identical_whenever_sums_agree(topology, data):
    """All noises of a network are listed; modulo 4, inside residues modulo 256.

    Multiples of 64 in eight bits are the integers modulo 4.
    """
    n, links = topology.n_parties, topology.n_edges
    quarters = st.lists(st.integers(0, 3), min_size=n, max_size=n)
    a = np.array(data.draw(quarters), dtype=np.uint8) * np.uint8(64)
    b = np.array(data.draw(quarters), dtype=np.uint8) * np.uint8(64)
    noises = np.indices((4,) * links).reshape(links, -1).astype(np.uint8)
    masks = at_both_ends(topology, noises * np.uint8(64))
    seen = [sorted(map(tuple, (masks + x[:, None]).T.tolist())) for x in (a, b)]
    assert (seen[0] == seen[1]) == (a.sum(dtype=np.uint8) == b.sum(dtype=np.uint8))
