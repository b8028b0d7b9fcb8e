"""Measure the samplers of masks: ratios, both sides in one run.

    python benchmarks/samplers.py                  # everything (about half a minute)
    python benchmarks/samplers.py numpy keystream  # some of it

The conditions: exact draws at least 30 times as fast as OpenDP's, at least 1/40 of the
rate of numpy's normals, and uniform words within 1.5 times the raw cipher.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from clocks import clock, machine, side_by_side, sized
from veilsum.masks.discrete_gaussian import discrete_gaussian
from veilsum.masks.streams import Keystream

SPREAD = 2**20


def opendp(draws: int = sized(10**6, 100), fewer: int = 50) -> dict[str, object]:
    """Exact draws against OpenDP's integer Gaussian (at least 30 times faster)."""
    try:
        import opendp.prelude as dp
    except ImportError as error:
        return {"left out": f"OpenDP is not installed: {error}"}
    dp.enable_features("contrib")
    # OpenDP is slow enough that a part of the draws is timed; rates are compared.
    zeros = [0] * (draws // fewer)
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=len(zeros))
    theirs = dp.m.make_gaussian(space, dp.l2_distance(T="f64"), float(SPREAD))
    stream = Keystream.from_os()
    found = side_by_side(
        lambda: theirs(zeros),
        lambda: discrete_gaussian(stream, SPREAD, draws),
        repeats=9,
    )
    return {
        "opendp, million/s": len(zeros) / found["ours_s"] / 1e6,
        "ours, million/s": draws / found["floor_s"] / 1e6,
        "times faster": found["ratio"] * fewer,
    }


def numpy(draws: int = sized(4 * 10**6, 100)) -> dict[str, object]:
    """Exact draws against numpy's float64 normals (at most 40 times slower)."""
    stream, generator = Keystream.from_os(), np.random.default_rng(0)
    found = side_by_side(
        lambda: discrete_gaussian(stream, SPREAD, draws),
        lambda: generator.standard_normal(draws),
        repeats=9,
    )
    return {
        "ours, million/s": draws / found["ours_s"] / 1e6,
        "numpy, million/s": draws / found["floor_s"] / 1e6,
        "times slower": found["ratio"],
    }


def keystream(words: int = sized(2**22, 64)) -> dict[str, object]:
    """Uniform words against the raw ChaCha20 keystream (at most 1.5).

    The cipher's `update` makes a new array, as we do; into an old one it is faster.
    """
    stream = Keystream.from_os()
    raw = Cipher(ChaCha20(os.urandom(32), bytes(16)), mode=None).encryptor()
    zeros, room = bytes(8 * words), bytearray(8 * words)

    def ours() -> object:
        return stream.words(words)

    new = side_by_side(ours, lambda: raw.update(zeros), repeats=15)
    old = side_by_side(ours, lambda: raw.update_into(zeros, room), repeats=15)
    return {
        "ours, GB/s": 8 * words / new["ours_s"] / 1e9,
        "cipher, GB/s": 8 * words / new["floor_s"] / 1e9,
        "ratio": new["ratio"],
        "ratio to the cipher into an old array": old["ratio"],
    }


def shares(calls: int = sized(2000, 2)) -> dict[str, object]:
    """One share of few coordinates per call, as on an edge: microseconds."""
    stream = Keystream.from_os()

    def many(size: int) -> float:
        def run() -> None:
            for _ in range(calls):
                discrete_gaussian(stream, SPREAD, size)

        return min(clock(run) for _ in range(3)) / calls * 1e6

    return {f"p = {size}, us": many(size) for size in (2, 10, 50)}


BENCHMARKS: dict[str, Callable[[], dict[str, object]]] = {
    "opendp": opendp,
    "numpy": numpy,
    "keystream": keystream,
    "shares": shares,
}


def main(names: list[str]) -> None:
    print(json.dumps({"machine": machine()}))
    for name in names or list(BENCHMARKS):
        found = BENCHMARKS[name]()
        rounded = {
            key: round(value, 4) if isinstance(value, float) else value
            for key, value in found.items()
        }
        print(json.dumps({name: rounded}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
