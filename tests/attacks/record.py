"""Runs the attacks on whatever veilsum is installed, and writes down what they find.

    PYTHONPATH=$OLD/src python tests/attacks/record.py low-bits

with $OLD a checkout of some commit. What they found at dda60bf, before totals were sums
of whole numbers, is kept in `at_dda60bf`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))


def low_bits(n=10):
    from attacks.test_low_bits import by_the_package, recovered, study, truth

    runs = []
    for seed in range(n):
        known = truth(study(seed)["b"])
        found = recovered(seed, by_the_package)
        runs.append(
            {
                what: {
                    "candidates": len(candidates),
                    "left": sorted(left),
                    "truth": known[what],
                }
                for what, (left, candidates) in found.items()
            }
        )
    uniquely = {
        what: sum(run[what]["left"] == [run[what]["truth"]] for run in runs)
        for what in runs[0]
    }
    return {"runs": n, "recovered uniquely": uniquely, "first": runs[0]}


def exchange(n=12):
    from attacks.test_exchange import told_apart

    return {"pairs of worlds for each": n, "told apart for certain": told_apart(n)}


def cents(n=400):
    from attacks.test_cents import impossible

    return {"pairs for each": n, "alternatives that are impossible": impossible(n)}


def answers(n=60):
    from attacks.test_everybody_answers import shown_alone

    return {"seeds": n, "a total was one honest party's own": shown_alone(range(n))}


CAMPAIGNS = {
    "low-bits": low_bits,
    "exchange": exchange,
    "cents": cents,
    "answers": answers,
}

if __name__ == "__main__":
    (name,) = sys.argv[1:]
    found = {"made by": f"tests/attacks/record.py {name}", **CAMPAIGNS[name]()}
    print(json.dumps(found, indent=1))
