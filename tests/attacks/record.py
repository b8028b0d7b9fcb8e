"""Runs the attacks on whatever veilsum is installed, and writes down what they find.

    PYTHONPATH=$OLD/src python tests/attacks/record.py low-bits

with $OLD a checkout of some commit. What they found at dda60bf, before totals were sums
of whole numbers, is kept in `at_dda60bf`. Attacks on sums are in `veilsum.audit` now:
those four campaigns run where that is.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

# At the end: an older commit brings worlds of its own, in PYTHONPATH.
sys.path.append(str(Path(__file__).parents[1]))


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


def texts(most_calls=1_000_000):
    from attacks.hostile import CORPUS, MARKS, marked
    from veilsum.tables.formula import ModelFormula
    from veilsum.tables.schema import Column, Schema

    class TooMuchWork(BaseException):  # past whoever catches everything
        pass

    def tried(one):
        calls = 0

        def count(_frame, event, _argument):
            nonlocal calls
            calls += event in {"call", "c_call"}
            if calls > most_calls:
                sys.setprofile(None)
                raise TooMuchWork

        numbers = [Column(name, "number", 1, 100) for name in ("y", *others)]
        try:
            coded = Column(one.column, "category", categories=one.levels)
            schema = Schema((*numbers, coded), minimum_rows=1)
            sys.setprofile(count)
            ModelFormula.of(one.text, schema)
        except TooMuchWork:
            return "beyond a million calls"
        except Exception as error:
            return f"not run, {type(error).__name__}"
        finally:
            sys.setprofile(None)
        return "not run, taken"

    others = [f"v{k}" for k in range(60)]
    found = {}
    for one in CORPUS:
        if one.place == "formula":
            with marked():
                ended = tried(one)
            ended = "ran" if MARKS else ended
            found.setdefault(ended, []).append(one.text[:70])
    shown = {what: found.get(what, []) for what in ("ran", "beyond a million calls")}
    return {"formulas": {what: len(each) for what, each in found.items()}, **shown}


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
    "texts": texts,
}

if __name__ == "__main__":
    (name,) = sys.argv[1:]
    found = {"made by": f"tests/attacks/record.py {name}", **CAMPAIGNS[name]()}
    print(json.dumps(found, indent=1))
