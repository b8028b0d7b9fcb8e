"""Elementary functions are a few ulp from the truth, and one function everywhere."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import frexp, inf, isinf, isnan, nan
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from veilsum.numbers import elementary
from veilsum.numbers.arrays import FloatArray

N = 2000
TINY = 5e-324


def wide(low: float, high: float, *, signs: bool = False) -> FloatArray:
    """Return numbers of all sizes between 2^low and 2^high."""
    rng = np.random.default_rng(7)
    values = 2.0 ** rng.uniform(low, high, N)
    return values * rng.choice([-1.0, 1.0], N) if signs else values


def ulps(found: FloatArray, truth: list[arb]) -> float:
    """Return the largest distance from the truth, in units of its last place."""
    worst = 0.0
    for value, true in zip(found.tolist(), truth, strict=True):
        if isinf(value):
            assert abs(true) > arb(2) ** 1023
            continue
        man, exp = true.mid().man_exp()
        exact = Fraction(int(man)) * Fraction(2) ** int(exp)
        size = max(frexp(float(exact))[1] - 53, -1074)
        worst = max(worst, float(abs(Fraction(value) - exact) / Fraction(2) ** size))
    return worst


def near(point: float) -> FloatArray:
    """Return numbers close to a point, on both sides of it."""
    return point + wide(-50, -1, signs=True)


def below(x: arb) -> arb:
    """Return the normal law's probability of x or less."""
    ctx.prec = 4000
    return (-x / arb(2).sqrt()).erfc() / 2


CASES: dict[str, tuple[float, list[FloatArray], Callable[[arb], Any]]] = {
    "exp": (
        1.0,
        [wide(-60, 9.4, signs=True), np.linspace(-745, 709.7, N)],
        lambda x: x.exp(),
    ),
    "expm1": (
        2.0,
        [wide(-200, 9.4, signs=True), np.linspace(-2, 2, N)],
        lambda x: x.expm1(),
    ),
    "log": (1.0, [wide(-1074, 1023), near(1.0)], lambda x: x.log()),
    "log1p": (
        1.0,
        [wide(-200, 1023), -wide(-200, -0.001), wide(-3, 3)],
        lambda x: x.log1p(),
    ),
    "log10": (
        2.0,
        [wide(-1074, 1023), near(1.0)],
        lambda x: x.log() / arb(10).log(),
    ),
    "expit": (
        3.0,
        [wide(-60, 9.4, signs=True), np.linspace(-40, 40, N)],
        lambda x: 1 / (1 + (-x).exp()),
    ),
    "log_expit": (
        2.0,
        [wide(-60, 9.4, signs=True), np.linspace(-40, 40, N)],
        lambda x: -((-x).exp().log1p()),
    ),
    "log1p_gap": (
        8.0,
        [wide(-300, 900), -wide(-300, -0.001), wide(-3, 3), -wide(-3, -0.1)],
        lambda x: x - x.log1p(),
    ),
    "mills": (
        3.0,
        [wide(-60, 5)[:400], np.linspace(0, 40, 400)],
        lambda u: below(-u) * (2 * arb.pi()).sqrt() * (u * u / 2).exp(),
    ),
    "ndtr": (
        6.0,
        [np.linspace(-37, 8, 400), wide(-60, 3, signs=True)[:400]],
        lambda x: below(x),
    ),
    "log_ndtr": (
        5.0,
        [np.linspace(-50, 8, 400), wide(-60, 3, signs=True)[:400]],
        lambda x: below(x).log(),
    ),
    "log_gamma": (
        6.0,
        [wide(-1000, 1000), np.linspace(0.01, 12, N), near(1.0), near(2.0)],
        lambda x: x.lgamma(),
    ),
}


@pytest.fixture(autouse=True)
def precision() -> None:
    ctx.prec = 1300


@pytest.mark.parametrize("name", CASES)
def test_the_error_is_within_the_stated_ulps(name: str) -> None:
    bound, sets, true = CASES[name]
    for values in sets:
        found = getattr(elementary, name)(values)
        assert ulps(found, [true(arb(one)) for one in values.tolist()]) <= bound


def test_quantiles_of_the_normal_law_are_its_inverse() -> None:
    chances = np.concatenate([np.logspace(-300, -1, 60), np.linspace(0.01, 0.99, 60)])
    found = elementary.ndtri(chances)
    back = [float(below(arb(one))) for one in found.tolist()]
    np.testing.assert_allclose(back, chances, rtol=1e-12)
    assert np.isnan(elementary.ndtri([0.0, 1.0, nan])).all()


@pytest.mark.parametrize("exponent", [-1.5, 0.5, 1 / 3, 2.75, -0.001, 30.5, 1e-9])
def test_powers_are_within_two_ulps(exponent: float) -> None:
    bases = wide(-500, 500)
    found = elementary.power(bases, exponent)
    kept = (found < inf) & (found > 1e-300)
    truth = [arb(one) ** arb(exponent) for one in bases[kept].tolist()]
    assert ulps(found[kept], truth) <= 2.0


@pytest.mark.parametrize("exponent", [-7, -2, -1, 0, 1, 2, 3, 5, 17, 64])
def test_whole_powers_are_exact_where_float64_has_them(exponent: int) -> None:
    bases = np.arange(-40.0, 41.0)[np.arange(-40, 41) != 0]
    found = elementary.power(bases, float(exponent))
    truth = [Fraction(int(one)) ** exponent for one in bases.tolist()]
    for value, true in zip(found.tolist(), truth, strict=True):
        if exponent >= 0:
            assert value == float(true)
        else:
            assert abs(Fraction(value) - true) <= abs(true) * Fraction(2) ** -51


def test_powers_of_ten_have_whole_logarithms() -> None:
    tens = np.array([float(f"1e{k}") for k in range(23)])
    assert elementary.log10(tens).tolist() == list(range(23))


EDGES = np.array([0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 800.0, -800.0, 1e308, TINY])


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "log10"])
def test_edges_are_as_numpy_has_them(name: str) -> None:
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(EDGES)
    np.testing.assert_allclose(getattr(elementary, name)(EDGES), wanted, rtol=1e-15)


def test_powers_at_edges_are_as_numpy_has_them() -> None:
    special = [*EDGES.tolist(), 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1.5, -1.5, 65.0, 66.0]
    base, exponent = np.meshgrid(special, special)
    with np.errstate(all="ignore"):
        wanted = np.power(base, exponent)
    found = elementary.power(base, exponent)
    np.testing.assert_allclose(found, wanted, rtol=1e-15)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


def test_edges_of_the_others() -> None:
    assert elementary.expit(EDGES)[[4, 5]].tolist() == [1.0, 0.0]
    assert elementary.log_expit(EDGES)[[4, 5, 8]].tolist() == [0.0, -inf, -800.0]
    found = elementary.log_gamma(np.array([0.0, 1.0, 2.0, inf]))
    assert found.tolist() == [inf, 0.0, 0.0, inf]
    for function in (elementary.expit, elementary.log_expit, elementary.log_gamma):
        assert isnan(function(np.array([nan]))[0])
    assert isnan(elementary.log_gamma(np.array([-1.0]))[0])


@pytest.mark.parametrize("name", [*CASES, "power"])
def test_bits_do_not_depend_on_length_alignment_or_stride(name: str) -> None:
    def function(values: FloatArray) -> FloatArray:
        if name == "power":
            return elementary.power(values, 1.7)
        found: FloatArray = getattr(elementary, name)(values)
        return found

    values = wide(-20, 5)
    whole = function(values)
    one_by_one = np.concatenate([function(values[k : k + 1]) for k in range(300)])
    assert (one_by_one == whole[:300]).all()
    assert (function(values[3:1000]) == whole[3:1000]).all()
    assert (function(values[::-3]) == whole[::-3]).all()
    assert (function(values.reshape(40, -1).T) == whole.reshape(40, -1).T).all()
    assert function(np.array(0.25)).shape == ()


def test_bits_are_these() -> None:
    """The same on every machine: a port of the functions that differs is found."""
    values = np.array([0.3, 1.7, 3.3, 12.0])
    found = {
        name: [one.hex() for one in getattr(elementary, name)(values).tolist()]
        for name in CASES
    }
    assert found == BITS


BITS = {
    "mills": [
        "0x1.00786a792bc33p+0",
        "0x1.e539ca954bb74p-2",
        "0x1.1f6074e95c182p-2",
        "0x1.5302bddbc1860p-4",
    ],
    "ndtr": [
        "0x1.3c5ee2cc40b78p-1",
        "0x1.e92eb735d7870p-1",
        "0x1.ffc0a2fa3c9a5p-1",
        "0x1.0000000000000p+0",
    ],
    "log_ndtr": [
        "-0x1.ecf6c90ff03bbp-2",
        "-0x1.75771faaf0524p-5",
        "-0x1.fb078e8730cf7p-12",
        "-0x1.272b31366623ap-109",
    ],
    "exp": [
        "0x1.599058c8c1a96p+0",
        "0x1.5e552770df8a6p+2",
        "0x1.b1cd5e7807b7bp+4",
        "0x1.3de1654d37c9ap+17",
    ],
    "expm1": [
        "0x1.6641632306a56p-2",
        "0x1.1e552770df8a6p+2",
        "0x1.a1cd5e7807b7bp+4",
        "0x1.3de0e54d37c9ap+17",
    ],
    "log": [
        "-0x1.34378fcbda721p+0",
        "0x1.0fae81914a991p-1",
        "0x1.31a4e7240c777p+0",
        "0x1.3e116bcd39e7dp+1",
    ],
    "log1p": [
        "0x1.0ca937be1b9dcp-2",
        "0x1.fc8b7f138bdeap-1",
        "0x1.7567cb4bf2df7p+0",
        "0x1.485042b318c51p+1",
    ],
    "log10": [
        "-0x1.0bb6c34d81502p-1",
        "0x1.d7f59aa5becbap-3",
        "0x1.097aa8bc975dbp-1",
        "0x1.144538de3b27fp+0",
    ],
    "expit": [
        "0x1.261d545e46a8bp-1",
        "0x1.b0e9edc4324d8p-1",
        "0x1.edc99cf2c9d4dp-1",
        "0x1.ffff31d5f129ep-1",
    ],
    "log_expit": [
        "-0x1.1bd4735ab7816p-1",
        "-0x1.57a033a784853p-3",
        "-0x1.28b54a8ab7015p-5",
        "-0x1.9c5470b033d21p-18",
    ],
    "log1p_gap": [
        "0x1.344fdba8bcabap-5",
        "0x1.69dae752da87cp-1",
        "0x1.d7650180d9ed5p+0",
        "0x1.2debef5339cecp+3",
    ],
    "log_gamma": [
        "0x1.188637a6c4196p+0",
        "-0x1.886da6f118371p-4",
        "0x1.f964fc1bf8d42p-1",
        "0x1.180973f3a8d75p+4",
    ],
}
