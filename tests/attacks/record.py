"""Runs the attacks on whatever veilsum is installed, and writes down what they find.

    PYTHONPATH=$OLD/src python tests/attacks/record.py low-bits

with $OLD a checkout of some commit. What they found at dda60bf, before totals were sums
of whole numbers, is kept in `at_dda60bf`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib import import_module
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


def campaign(module):
    """Return what every attack of a file finds, each beside the truth."""

    def every():
        found = {}
        for name, attack in attacks_of(import_module(f"attacks.{module}")).items():
            one = attack()
            found[name] = {**asdict(one), "succeeded": one.succeeded}
        return {"attacks": found}

    return every


def attacks_of(module):
    """A file's attacks, without what is expected of them now."""
    return {
        name: one[0] if isinstance(one, tuple) else one
        for name, one in module.ATTACKS.items()
    }


CAMPAIGNS = {
    "low-bits": low_bits,
    "exchange": exchange,
    "cents": cents,
    "answers": answers,
    "one-person": campaign("test_one_person"),
    "one-site": campaign("test_one_site"),
    "consent": campaign("test_consent"),
    "refusals": campaign("test_refusals"),
    "ledger": campaign("test_the_ledger"),
    "oversized": campaign("test_oversized_questions"),
    "liars": campaign("test_liars"),
}

if __name__ == "__main__":
    (name,) = sys.argv[1:]
    found = {"made by": f"tests/attacks/record.py {name}", **CAMPAIGNS[name]()}
    print(json.dumps(found, indent=1))
