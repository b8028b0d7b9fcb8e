"""Measure the codec: messages of many numbers against a bare copy, and of few.

    python benchmarks/codec.py

The conditions: at 100,000 float64 or int64, encoding and decoding each take at most
three times `array.copy()`. A `Round` of 10 float64 takes at most 3 microseconds to
encode and 4 to decode, so that an agent can handle 50,000 messages a second.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable

import numpy as np

from clocks import Action, clock, machine, side_by_side, sized
from veilsum.numbers.limbs import limbs_from_integers
from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import Confirm, Message, Round, Up

MANY, FEW = sized((100_000, 10), (100, 10))
CODEC = Codec(max_numbers=2 * MANY)


def arrays(size: int) -> dict[str, np.ndarray]:
    stream = np.random.default_rng(0)
    whole = stream.integers(-(2**62), 2**62, size)
    return {
        "float64": stream.standard_normal(size),
        "int64": whole,
        "uint64": whole.view(np.uint64),
        "2 limbs": limbs_from_integers(whole.astype(object) << 38, 2),
    }


def repeated(action: Action, times: int) -> Action:
    def run() -> None:
        for _ in range(times):
            action()

    return run


def many(direction: str) -> dict[str, object]:
    """Each ratio is ours / `array.copy()`; ten in a row, so that memory is warm."""
    found: dict[str, object] = {"numbers": MANY}
    for name, array in arrays(MANY).items():
        times = 10
        ours = repeated(work(direction, Up(epoch=0, numbers=array)), times)
        pair = side_by_side(ours, repeated(array.copy, times), repeats=5 * times + 1)
        found[f"{name}, us"] = 1e6 * pair["ours_s"] / times
        found[f"{name}, ratio to a copy"] = pair["ratio"]
    return found


def few(direction: str, times: int = sized(1000, 2)) -> dict[str, object]:
    """Microseconds for one message; the least of the repeats is the quiet machine."""
    messages: dict[str, Message] = {
        name: Round(epoch=0, index=70_000, numbers=array)
        for name, array in arrays(FEW).items()
    }
    messages["no numbers"] = Confirm(epoch=0, digest=bytes(32))
    found: dict[str, object] = {"numbers": FEW}
    for name, message in messages.items():
        action = repeated(work(direction, message), times)
        seconds = [clock(action) / times for _ in range(15)]
        found[f"{name}, us"] = 1e6 * statistics.median(seconds)
        found[f"{name}, least, us"] = 1e6 * min(seconds)
    return found


def work(direction: str, message: Message) -> Action:
    frame = CODEC.encode(message)
    if direction == "encode":
        return lambda: CODEC.encode(message)
    return lambda: CODEC.decode(frame)


def main() -> None:
    print(json.dumps({"machine": machine()}))
    sizes: tuple[Callable[[str], dict[str, object]], ...] = (many, few)
    for measure in sizes:
        for direction in ("encode", "decode"):
            found = measure(direction)
            rounded = {
                key: round(value, 2) if isinstance(value, float) else value
                for key, value in found.items()
            }
            print(json.dumps({f"{direction} {measure.__name__}": rounded}), flush=True)


if __name__ == "__main__":
    main()
