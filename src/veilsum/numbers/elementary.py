"""exp, log and their kin of float64 arrays, with the same bits on every machine.

What a row contributes to a total must be one function of the row. A processor's or a
library's exp is several: the bits depend on the machine, and on where in an array a
number lies. Here a function is range reduction and a polynomial in operations that
IEEE 754 fixes to the bit (+ - * / and rounding, one array operation each, so that
nothing is contracted), in one order. Edges are as numpy has them: log 0 is -inf, what
is too large is inf, and what is not a number stays so.

The error is at most 1 ulp for exp, log and log1p, 2 for expm1, log10, log_expit and
power, 3 for expit and mills, 5 for log_ndtr, 6 for log_gamma and ndtr, and 8 for
log1p_gap; `tests/numbers/test_elementary.py` holds them to that against arb.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import factorial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from veilsum.numbers.arrays import Array, FloatArray

# So many numbers, and all that is made of them on the way, stay in a core's cache.
BLOCK = 4096

# log 2 as a number of 40 bits, whose product with an exponent is exact, and the rest.
_LOG_2 = float.fromhex("0x1.62e42fefa4000p-1")
_LOG_2_REST = float.fromhex("-0x1.8432a1b0e2634p-43")
_ONE_OVER_LOG_2 = float.fromhex("0x1.71547652b82fep+0")
_LOG10_2 = float.fromhex("0x1.34413509f8000p-2")
_LOG10_2_REST = float.fromhex("-0x1.80433b83b532ap-44")
_ONE_OVER_LOG_10 = float.fromhex("0x1.bcb7b1526e50ep-2")
_SQRT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")
_TENS = np.array([float(f"1e{k}") for k in range(23)])

# exp r = 1 + r + r^2 (1/2! + r/3! + ...), for |r| at most log(2) / 2.
_EXP = tuple(1.0 / factorial(k) for k in range(2, 14))
# 2 atanh(s) / s - 2 = z (2/3 + 2/5 z + ...), z = s^2, for |s| at most 0.172.
_LOG = tuple(2.0 / (2 * k + 1) for k in range(1, 12))
# The same over 2, beyond its first term: that one has to have more than 53 bits.
_LOG_LATER = tuple(1.0 / (2 * k + 1) for k in range(2, 15))
_THIRD, _THIRD_REST = 1.0 / 3.0, float.fromhex("0x1.5555555555555p-56")

# log Gamma(2 + z) = (1 - Euler's constant) z + sum_k (zeta(k) - 1) (-z)^k / k.
_GAMMA = (
    float.fromhex("0x1.b0ee6072093cep-2"),
    0.3224670334241132,
    -0.0673523010531981,
    0.020580808427784546,
    -0.007385551028673986,
    0.0028905103307415234,
    -0.001192753911703261,
    0.0005096695247430425,
    -0.00022315475845357939,
    9.945751278180853e-05,
    -4.492623673813314e-05,
    2.050721277567069e-05,
    -9.439488275268397e-06,
    4.374866789907488e-06,
    -2.039215753801366e-06,
    9.55141213040742e-07,
    -4.492469198764566e-07,
    2.1207184805554665e-07,
    -1.0043224823968099e-07,
    4.7698101693639804e-08,
    -2.2711094608943164e-08,
    1.0838659214896955e-08,
    -5.183475041970047e-09,
    2.4836745438024785e-09,
    -1.1921401405860912e-09,
    5.731367241678862e-10,
    -2.7595228851242334e-10,
    1.330476437424449e-10,
)
_HALF_LOG_2_PI = float.fromhex("0x1.d67f1c864beb5p-1")
# Bernoulli's numbers B_2k / (2k (2k - 1)): what Stirling's formula leaves, times 1/y.
_STIRLING = (
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360360.0,
    1.0 / 156.0,
    -3617.0 / 122400.0,
    43867.0 / 244188.0,
)
# From here on the terms above leave an error below 3e-17.
STIRLING = 8.5

# Mills' ratio of the normal law, (1 - Phi(u)) / phi(u), times 1 + u: Chebyshev's series
# in t = (u - 5) / (u + 5), for u at least 0; what is left out is below 2e-17.
_MILLS = (
    1.1579976221305188,
    -0.1633449388451398,
    -0.013683136055781576,
    0.03082200019810004,
    -0.016220073012046806,
    0.005616691016460094,
    -0.0014133933783549216,
    0.0002502625460725661,
    -2.468907239728387e-05,
    -1.0107964061837592e-06,
    7.495419179740573e-07,
    -7.600274268728337e-08,
    -1.1574771441328644e-08,
    3.333386472599843e-09,
    7.538039628171347e-11,
    -1.1104247263727494e-10,
    3.509243776551059e-12,
    3.6894953861750955e-12,
    -2.3376697776383095e-13,
    -1.3271797523541405e-13,
    9.921706995888276e-15,
    5.276004995455379e-15,
    -3.373097694187922e-16,
    -2.2804338776379946e-16,
)
_ONE_OVER_SQRT_2_PI = float.fromhex("0x1.9884533d43651p-2")

# Whole powers up to this are products.
_PRODUCTS = 64
_Pair: TypeAlias = tuple[FloatArray, FloatArray]  # a number and a rest far below it


def _elementary_by_blocks(
    function: Callable[[FloatArray], FloatArray],
) -> Callable[[ArrayLike], FloatArray]:
    """Return a function of flat blocks as one of arrays of any shape and layout."""

    @wraps(function)
    def whole(x: ArrayLike) -> FloatArray:
        values = np.asarray(x, dtype=np.float64)
        flat = values.reshape(-1)
        out = np.empty_like(flat)
        with np.errstate(all="ignore"):
            for start in range(0, len(flat), BLOCK):
                piece = slice(start, start + BLOCK)
                out[piece] = function(flat[piece])
        return out.reshape(values.shape)

    return whole


def _elementary_polynomial(coefficients: Sequence[float], x: Any) -> FloatArray:
    """Return c_0 + c_1 x + ..., from the last coefficient down."""
    value = np.full_like(x, coefficients[-1])
    for one in reversed(coefficients[:-1]):
        value *= x
        value += one
    return value


def _float_times_power_of_two(x: FloatArray, exponent: FloatArray) -> FloatArray:
    """Return x 2^exponent for whole exponents within +-2000, rounded once.

    Where x is nan the exponent may be, and the product is nan whatever it is taken for.
    """
    whole = exponent.astype(np.int64)
    half = whole >> 1
    found: FloatArray = x
    for part in (half, whole - half):
        found = found * ((part + 1023) << 52).view(np.float64)
    return found


# exp


def _reduce_exponent(x: FloatArray, rest: FloatArray | float = 0.0) -> _Pair:
    """Return k and exp(r) - 1 with exp(x + rest) = 2^k exp(r)."""
    k = np.rint(x * _ONE_OVER_LOG_2)
    r = (x - k * _LOG_2) - (k * _LOG_2_REST - rest)
    above = _elementary_polynomial(_EXP, r)
    above *= r
    above *= r
    above += r
    return k, above


@_elementary_by_blocks
def exp(x: FloatArray) -> FloatArray:
    k, above = _reduce_exponent(np.clip(x, -750.0, 710.0))
    above += 1.0
    return _float_times_power_of_two(above, k)


@_elementary_by_blocks
def expm1(x: FloatArray) -> FloatArray:
    k, above = _reduce_exponent(np.clip(x, -50.0, 710.0))
    # 2^k (above + (1 - 2^-k)): the bracket is exact wherever it matters.
    above += 1.0 - _float_times_power_of_two(np.ones_like(k), -k)
    return _float_times_power_of_two(above, k)


@_elementary_by_blocks
def expit(x: FloatArray) -> FloatArray:
    small = exp(-np.abs(x))
    return np.where(x < 0.0, small, 1.0) / (1.0 + small)


# log


def _part_float_exponent(x: FloatArray) -> _Pair:
    """Return m and e with x = m 2^e, m from sqrt(1/2) to sqrt 2, for x > 0."""
    fraction, exponent = np.frexp(x)
    low = fraction < _SQRT_HALF
    return np.where(low, 2.0 * fraction, fraction), exponent - low.astype(np.float64)


def _log_series_remainder(f: FloatArray, rest: FloatArray | float = 0.0) -> FloatArray:
    """Return f - log(1 + f) - rest for f from -0.3 to 0.42."""
    # With s = f / (2 + f): log(1 + f) = 2 atanh(s), and 2 s = f - f^2/2 + s f^2/2.
    half_square = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    series = _elementary_polynomial(_LOG, z)
    series *= z
    return half_square - (s * (half_square + series) + rest)


def _log_of_parted_float(
    f: FloatArray, e: FloatArray | float, rest: FloatArray | float
) -> FloatArray:
    """Return log(1 + f) + e log 2 for f from -0.3 to 0.42; `rest` ends e log 2."""
    return e * _LOG_2 + (f - _log_series_remainder(f, rest))


def _elementary_value_at_edges(
    x: FloatArray, found: FloatArray, zero: float
) -> FloatArray:
    """Return a logarithm with what it is at and beyond the edges of x > zero."""
    found = np.where(x > zero, found, np.where(x == zero, -np.inf, np.nan))
    return np.where(x == np.inf, np.inf, found)


@_elementary_by_blocks
def log(x: FloatArray) -> FloatArray:
    m, e = _part_float_exponent(np.where((x > 0.0) & (x < np.inf), x, 1.0))
    return _elementary_value_at_edges(
        x, _log_of_parted_float(m - 1.0, e, e * _LOG_2_REST), 0.0
    )


@_elementary_by_blocks
def log1p(x: FloatArray) -> FloatArray:
    inside = np.where((x > -1.0) & (x < np.inf), x, 0.0)
    one_more, lost = _exact_float_sum(np.ones_like(inside), inside)
    m, e = _part_float_exponent(one_more)
    near = e == 0.0
    f = np.where(near, inside, m - 1.0)
    rest = e * _LOG_2_REST + np.where(near, 0.0, lost / one_more)
    return _elementary_value_at_edges(x, _log_of_parted_float(f, e, rest), -1.0)


@_elementary_by_blocks
def log1p_gap(x: FloatArray) -> FloatArray:
    """Return x - log(1 + x), which is about x^2 / 2 near 0 and keeps its digits."""
    near = (x > -0.29) & (x < 0.41)
    return np.where(near, _log_series_remainder(np.where(near, x, 0.0)), x - log1p(x))


@_elementary_by_blocks
def log10(x: FloatArray) -> FloatArray:
    """Return the logarithm to base 10, exact for powers of ten up to 10^22."""
    m, e = _part_float_exponent(np.where((x > 0.0) & (x < np.inf), x, 1.0))
    rest = (
        _ONE_OVER_LOG_10 * _log_of_parted_float(m - 1.0, 0.0, 0.0) + e * _LOG10_2_REST
    )
    found = e * _LOG10_2 + rest
    whole = np.clip(np.rint(found), 0.0, 22.0)
    found = np.where(_TENS[whole.astype(np.int64)] == x, whole, found)
    return _elementary_value_at_edges(x, found, 0.0)


@_elementary_by_blocks
def log_expit(x: FloatArray) -> FloatArray:
    """Return log(1 / (1 + e^-x)): small where x is large, about x where it is not."""
    return np.minimum(x, 0.0) - log1p(exp(-np.abs(x)))


# The normal law


@_elementary_by_blocks
def mills(u: FloatArray) -> FloatArray:
    """Return (1 - Phi(u)) / phi(u) of the normal law, for u at least 0."""
    near = np.minimum(u, 1e300)
    t = (near - 5.0) / (near + 5.0)
    one, two = np.zeros_like(t), np.zeros_like(t)
    for coefficient in reversed(_MILLS[1:]):
        one, two = 2.0 * t * one - two + coefficient, one
    return np.where(u >= 0.0, (t * one - two + _MILLS[0]) / (near + 1.0), np.nan)


@_elementary_by_blocks
def normal_density(x: FloatArray) -> FloatArray:
    """Return phi(x) of the normal law."""
    # What is rounded off a large square would show in all digits.
    square, lost = _exact_float_product(np.clip(x, -1e3, 1e3), np.clip(x, -1e3, 1e3))
    return exp(-0.5 * square) * (1.0 - 0.5 * lost) * _ONE_OVER_SQRT_2_PI


@_elementary_by_blocks
def ndtr(x: FloatArray) -> FloatArray:
    """Return Phi(x), the normal law's probability of x or less."""
    tail = normal_density(x) * mills(np.abs(x))
    return np.where(x < 0.0, tail, 1.0 - tail)


@_elementary_by_blocks
def log_ndtr(x: FloatArray) -> FloatArray:
    """Return log Phi(x), however far below 0 x is."""
    below = np.where(x < 0.0, -x, 0.0)
    far = log(mills(below)) - _HALF_LOG_2_PI - 0.5 * below * below
    return np.where(x < 0.0, far, log1p(-normal_density(x) * mills(np.maximum(x, 0.0))))


def ndtri(p: ArrayLike) -> FloatArray:
    """Return the x with Phi(x) = p, for p between 0 and 1."""
    given = np.asarray(p, dtype=np.float64)
    lower = np.minimum(given, 1.0 - given)
    aim = log(lower)
    # Newton's steps on the logarithm, which bends one way: none leads too far.
    x = np.zeros_like(given)
    with np.errstate(all="ignore"):
        for _ in range(30):
            x = x - (log_ndtr(x) - aim) * mills(np.maximum(-x, 0.0))
    found = np.where(given > 0.5, -x, x)
    return np.where((given > 0.0) & (given < 1.0), found, np.nan)


# log Gamma


def stirling_rest(y: FloatArray) -> FloatArray:
    """Return log Gamma(y) - ((y - 1/2) log y - y + log(2 pi) / 2) for y >= STIRLING."""
    inverse = 1.0 / y
    return np.asarray(_elementary_polynomial(_STIRLING, inverse * inverse) * inverse)


@_elementary_by_blocks
def log_gamma(y: FloatArray) -> FloatArray:
    """Return log Gamma(y) for y above 0."""
    small = np.where(y < STIRLING, np.maximum(y, 5e-324), 2.0)
    # Gamma(z + 2) near 2; a factor of y for each step from there.
    steps = np.where(small < 0.5, 0.0, np.rint(small))
    z = small - steps
    found = _elementary_polynomial(_GAMMA, z) * z
    factors = np.ones_like(small)
    for k in range(1, int(STIRLING)):
        factors *= np.where(steps > k + 1.0, small - k, 1.0)
    # At 1 and 2 there are zeros: log1p keeps their digits.
    found += log(factors) - np.where(steps < 2.0, log1p(z), 0.0)
    found -= np.where(steps < 1.0, log(small), 0.0)
    large = np.where((y >= STIRLING) & (y < np.inf), y, STIRLING)
    series = (large - 0.5) * (log(large) - 1.0) + (_HALF_LOG_2_PI - 0.5)
    found = np.where(y < STIRLING, found, series + stirling_rest(large))
    found = np.where(y > 0.0, found, np.where(y == 0.0, np.inf, np.nan))
    return np.where(y == np.inf, np.inf, found)


# Powers: a number and its rest together have about twice float64's digits.


def _exact_float_sum(a: FloatArray, b: FloatArray) -> _Pair:
    both = a + b
    second = both - a
    return both, (a - (both - second)) + (b - second)


def _exact_float_product(a: FloatArray, b: FloatArray) -> _Pair:
    """Return a b rounded, and what was rounded off, for factors below 2^900."""
    (a_high, a_low), (b_high, b_low) = _exact_float_halves(a), _exact_float_halves(b)
    both = a * b
    rest = ((a_high * b_high - both) + a_high * b_low + a_low * b_high) + a_low * b_low
    return both, rest


def _exact_float_halves(a: FloatArray) -> _Pair:
    wide = a * 134217729.0  # 2^27 + 1
    high = wide - (wide - a)
    return high, a - high


def _float_pair_product(a: _Pair, b: _Pair) -> _Pair:
    high, low = _exact_float_product(a[0], b[0])
    return _exact_float_sum(high, low + (a[0] * b[1] + a[1] * b[0]))


def _float_pair_logarithm(x: FloatArray) -> _Pair:
    """Return log x to about 65 bits, for x above 0."""
    m, e = _part_float_exponent(x)
    f = m - 1.0
    below, below_rest = _exact_float_sum(np.full_like(f, 2.0), f)
    s = f / below
    high, low = _exact_float_product(s, below)
    s_pair = (s, ((f - high) - low - s * below_rest) / below)
    z = _float_pair_product(s_pair, s_pair)
    # log m = 2 s (1 + z (1/3 + z (1/5 + ...))).
    later = _elementary_polynomial(_LOG_LATER, z[0]) * z[0]
    series = _exact_float_sum(np.full_like(f, _THIRD), _THIRD_REST + later)
    curved = _float_pair_product(s_pair, _float_pair_product(z, series))
    near, near_rest = _exact_float_sum(2.0 * s, 2.0 * curved[0])
    near_rest = near_rest + 2.0 * (curved[1] + s_pair[1])
    found, rest = _exact_float_sum(e * _LOG_2, near)
    return _exact_float_sum(found, rest + (near_rest + e * _LOG_2_REST))


def _whole_float_power(x: FloatArray, n: FloatArray) -> FloatArray:
    """Return x^n for x above 0 and whole n within +-64; exact where float64 has it."""
    fraction, exponent = np.frexp(x)
    times = np.abs(n).astype(np.int64)
    found = (np.ones_like(x), np.zeros_like(x))
    base = (fraction, np.zeros_like(x))
    for bit in range(_PRODUCTS.bit_length()):
        more = _float_pair_product(found, base)
        taken = (times >> bit) & 1 == 1
        found = (
            np.where(taken, more[0], found[0]),
            np.where(taken, more[1], found[1]),
        )
        base = _float_pair_product(base, base)
    value = np.where(n < 0.0, 1.0 / found[0], found[0])
    # Beyond +-2000 all is 0 or inf, and the fraction's power is within 2^-64 and 2^64.
    return _float_times_power_of_two(value, np.clip(exponent * n, -2000.0, 2000.0))


def _float_power(x: FloatArray, y: FloatArray) -> FloatArray:
    size = np.abs(x)
    plain = (size > 0.0) & (size < np.inf)
    inside = np.where(plain, size, 1.0)
    whole = np.rint(y) == y
    short = whole & (np.abs(y) <= _PRODUCTS)
    found = np.ones_like(x)
    if short.any():
        found = _whole_float_power(inside, np.where(short, y, 0.0))
    if not short.all():
        # Any x but 1 to the power of 2^64 is 0 or inf.
        times = np.where(np.isnan(y), 0.0, np.clip(y, -(2.0**64), 2.0**64))
        high, low = _float_pair_logarithm(inside)
        product, rest = _exact_float_product(times, high)
        rest = np.where(np.abs(product) < 1000.0, rest + times * low, 0.0)
        k, above = _reduce_exponent(np.clip(product, -1000.0, 1000.0), rest)
        found = np.where(short, found, _float_times_power_of_two(above + 1.0, k))
    found = np.where(plain, found, np.where((size == 0.0) == (y > 0.0), 0.0, np.inf))
    odd = whole & (np.abs(y) < 2.0**53) & (np.rint(y / 2.0) * 2.0 != y)
    found = np.where(odd & np.signbit(x), -found, found)
    found = np.where((x < 0.0) & (size < np.inf) & ~whole, np.nan, found)
    found = np.where(np.isnan(x) | np.isnan(y), np.nan, found)
    return np.where((y == 0.0) | (x == 1.0), 1.0, found)


def power(x: ArrayLike, y: ArrayLike) -> FloatArray:
    """Return x^y, exact where y is whole, up to 64, and float64 has the answer."""
    arrays: list[Array[Any]] = [np.asarray(one, dtype=np.float64) for one in (x, y)]
    base, exponent = np.broadcast_arrays(*arrays)
    flat, times = base.reshape(-1), exponent.reshape(-1)
    out = np.empty(len(flat))
    with np.errstate(all="ignore"):
        for start in range(0, len(flat), BLOCK):
            piece = slice(start, start + BLOCK)
            out[piece] = _float_power(flat[piece], times[piece])
    return out.reshape(base.shape)
