"""One MPyC party that adds secret vectors; `jobs.py` starts it, MPyC the others.

    python benchmarks/mpyc_sum.py -M3 --no-log --size 1000 --repeats 5

Each repeat is timed after all parties met, from a plain array of int64 to the opened
total; interpreters have started and links are up. The first party prints, for each
repeat, the seconds of the slowest party and the processor time of all together.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from mpyc.runtime import mpc


def numbers(party: int, size: int) -> np.ndarray:
    """Return what a party adds: anything whose sum over 16 parties fits 62 bits."""
    return np.random.default_rng(party).integers(-(2**57), 2**57, size)


async def add(own: np.ndarray) -> np.ndarray:
    """Return the sum over parties, by arrays of secure integers."""
    # As fast as prime fields just wide enough, and several times faster than lists.
    parts = mpc.input(mpc.SecInt(64).array(own))
    return await mpc.output(sum(parts[1:], parts[0]))


async def main(size: int, repeats: int) -> None:
    await mpc.start()
    own, times = numbers(mpc.pid, size), []
    for _ in range(repeats + 1):  # the first one warms up
        await mpc.barrier()
        wall, processor = time.perf_counter(), time.process_time()
        total = await add(own)
        times.append((time.perf_counter() - wall, time.process_time() - processor))
    n_parties = len(mpc.parties)
    expected = sum(numbers(party, size) for party in range(n_parties))
    assert np.array_equal(total.astype(np.int64), expected)
    everybody = np.array(await mpc.transfer(times))[:, 1:]
    if mpc.pid == 0:
        found = {
            "wall": everybody[:, :, 0].max(axis=0).tolist(),
            "processor": everybody[:, :, 1].sum(axis=0).tolist(),
            "threshold": mpc.threshold,
        }
        print(json.dumps(found), flush=True)
    await mpc.shutdown()


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--size", type=int, required=True)
    options.add_argument("--repeats", type=int, required=True)
    given = options.parse_args()
    mpc.run(main(given.size, given.repeats))
