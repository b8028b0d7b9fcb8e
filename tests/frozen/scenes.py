"""Sixty questions to one made-up table, each with the sums and the answer it had.

A change that must not change any number is held against `numbers.json`. Where a sum is
meant to change, write the file anew and say in the commit which scenes changed and why:

    python -m frozen.scenes          (in tests, with the package installed)
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

from veilsum.sums.job_file import read_job

NUMBERS = Path(__file__).with_name("numbers.json")
PARTIES = ("ann", "bob", "cem", "dee", "eve")
ROWS = 120

COLUMNS: dict[str, dict[str, Any]] = {
    "age": {"kind": "integer", "minimum": 18, "maximum": 100, "cuts": [30, 50, 70]},
    "bmi": {"kind": "number", "minimum": 10, "maximum": 60, "unit": 0.1},
    "dose": {"kind": "number", "minimum": 0, "maximum": 50, "unit": 0.01},
    "sex": {"kind": "category", "categories": ["f", "m"]},
    "arm": {"kind": "category", "categories": ["a", "b", "c"]},
    "mood": {"kind": "category", "categories": ["low", "middle", "high"]},
    "ill": {"kind": "integer", "minimum": 0, "maximum": 1},
    "visits": {"kind": "integer", "minimum": 0, "maximum": 40},
    "cost": {"kind": "number", "minimum": 0.5, "maximum": 500, "unit": 0.01},
    "weight": {"kind": "number", "minimum": 0.5, "maximum": 2, "unit": 0.1},
    "days": {"kind": "integer", "minimum": 0, "maximum": 2000},
    "event": {"kind": "integer", "minimum": 0, "maximum": 1},
    "log_cost": {"of": "cost", "as": "log"},
    "age_2": {"of": "age", "as": "power", "exponent": 2},
    "age_spline": {"of": "age", "as": "natural spline", "knots": [30, 50, 70]},
}


@cache
def tables() -> dict[str, pd.DataFrame]:
    """Return each party's rows, in which every column depends on some others."""
    made = {}
    for k, party in enumerate(PARTIES):
        rng = np.random.default_rng((38, k))
        age = rng.integers(25, 85, ROWS)
        sex = rng.choice(["f", "m"], ROWS)
        arm = rng.choice(["a", "b", "c"], ROWS)
        bmi = np.clip(22 + 0.05 * age + rng.normal(0, 4, ROWS), 12, 55).round(1)
        dose = np.clip(5 + 0.2 * bmi + rng.normal(0, 3, ROWS), 0, 45).round(2)
        tilt = 0.03 * (age - 55) + 0.05 * (bmi - 25) + 0.3 * (sex == "m") + 0.2 * k
        ill = (rng.random(ROWS) < 1 / (1 + np.exp(-tilt))).astype(int)
        visits = np.minimum(
            rng.negative_binomial(4, 4 / (4 + np.exp(1 + tilt / 3))), 40
        )
        cost = np.clip(rng.gamma(4, np.exp(2 + tilt / 4) / 4), 0.5, 490).round(2)
        mood = np.digitize(tilt + rng.logistic(0, 1, ROWS), [-0.5, 1.0])
        days = np.ceil(np.minimum(rng.exponential(700 * np.exp(-tilt / 2)), 1999))
        made[party] = pd.DataFrame(
            {
                "age": age,
                "bmi": bmi,
                "dose": dose,
                "sex": sex,
                "arm": arm,
                "mood": np.array(["low", "middle", "high"])[mood],
                "ill": ill,
                "visits": visits,
                "cost": cost,
                "weight": rng.integers(5, 21, ROWS) / 10,
                "days": days.astype(int),
                "event": (rng.random(ROWS) < 0.7).astype(int),
            }
        )
    return made


def _model(formula: str, **keys: Any) -> dict[str, Any]:
    return {"model": {"formula": formula, **keys}}


def _evaluate(**keys: Any) -> dict[str, Any]:
    formula = "ill ~ age + bmi"
    numbers = {"Intercept": -3.0, "age": 0.03, "bmi": 0.05}
    section = {"formula": formula, "family": "logistic", "coefficients": numbers}
    return {"evaluate": {**section, **keys}}


def _cox(**keys: Any) -> dict[str, Any]:
    return {"cox": {"formula": "Surv(days, event) ~ age + bmi + C(sex)", **keys}}


def _mixed(formula: str, *random: str, **keys: Any) -> dict[str, Any]:
    section: dict[str, Any] = {"formula": formula, **keys}
    return {"mixed": {**section, **({"random": list(random)} if random else {})}}


def _meta(formula: str, coefficient: str, family: str) -> dict[str, Any]:
    return {
        "meta": {"formula": formula, "coefficient": coefficient, "family": family}
        | {"effects": [-5, 5], "errors": [0.001, 5]}
    }


# Rules for scenes that five small parties would refuse; others have default rules.
OPEN = {"minimum_count": 0, "effective_count": 0, "site_terms": True}
OPEN |= {"maximum_influence": 1.0}
NEED_OPEN = (
    *("gaussian, party intercepts", "mixed", "mixed, ML", "mixed, slope"),
    *("survival by arm", "evaluate", "evaluate, calibration", "evaluate, survival"),
    *("Cox, one baseline", "Cox, checked", "evaluate, split"),
)
QUARTERS = [90, 180, 365, 730, 1460]

# The section of each question, by the name of its scene.
SCENES: dict[str, dict[str, Any]] = {
    "gaussian": _model("dose ~ age + bmi"),
    "gaussian, categories": _model("dose ~ age + C(sex) + C(arm)"),
    "gaussian, interaction": _model("dose ~ age * C(sex)"),
    "gaussian, product": _model("dose ~ age:bmi + age + bmi"),
    "gaussian, logarithm": _model("log_cost ~ age + bmi"),
    "gaussian, square": _model("dose ~ age + age_2"),
    "gaussian, no intercept": _model("dose ~ 0 + age + bmi"),
    "gaussian, weights": _model("dose ~ age + bmi", weights="weight"),
    "gaussian, ridge": _model("dose ~ age + bmi", ridge=2.0),
    "gaussian, party intercepts": _model("dose ~ age + bmi", absorb=True),
    "gaussian, HC0": _model("dose ~ age + bmi", errors="HC0"),
    "gaussian, HC1": _model("dose ~ age + bmi", errors="HC1"),
    "gaussian, spline": _model("dose ~ age_spline + bmi"),
    "logistic": _model("ill ~ age + bmi", family="logistic"),
    "logistic, category": _model("ill ~ age + C(arm)", family="logistic"),
    "logistic, ridge": _model("ill ~ age + bmi", family="logistic", ridge=1.0),
    "logistic, robust": _model("ill ~ age + bmi", family="logistic", errors="HC0"),
    "logistic, score test": _model("ill ~ age", family="logistic", further="bmi"),
    "logistic, bits": _model("ill ~ age + bmi", family="logistic", bits=40),
    "probit": _model("ill ~ age + bmi", family="probit"),
    "cloglog": _model("ill ~ age + bmi", family="cloglog"),
    "poisson": _model("visits ~ age + bmi", family="poisson"),
    "poisson, offset": _model("visits ~ age", family="poisson", offset="weight"),
    "poisson, category": _model("visits ~ age + C(sex)", family="poisson"),
    "negative binomial": _model("visits ~ age", family="negative-binomial"),
    "poisson, robust": _model("visits ~ age", family="poisson", errors="HC0"),
    "probit, category": _model("ill ~ age + C(sex)", family="probit"),
    "gamma": _model("cost ~ age + bmi", family="gamma"),
    "ordinal": _model("mood ~ age + bmi", family="ordinal"),
    "multinomial": _model("mood ~ age", family="multinomial"),
    "moments": {"statistics": {"columns": ["age", "bmi", "dose"]}},
    "moments by arm": {"statistics": {"columns": ["age", "bmi"], "by": "arm"}},
    "moments of one": {"statistics": {"columns": ["cost"]}},
    "moments and a table": {
        "statistics": {"columns": ["dose"], "tables": [["sex"], ["arm"]]}
    },
    "histogram": {
        "statistics": {"columns": [], "histograms": {"age": [18, 40, 50, 60, 70, 100]}}
    },
    "histogram by sex": {
        "statistics": {
            "columns": [],
            "histograms": {"bmi": [10, 22, 26, 60]},
            "by": "sex",
        }
    },
    "table": {"statistics": {"columns": [], "tables": [["sex", "arm"]]}},
    "levels": {"statistics": {"columns": [], "tables": [["mood"]]}},
    "quantiles": {
        "statistics": {
            "columns": [],
            "histograms": {"age": [30, 40, 50, 60, 70, 80]},
            "quantiles": {"age": [0.25, 0.5]},
        }
    },
    "Table 1": {
        "statistics": {
            "columns": ["age", "bmi"],
            "tables": [["sex"], ["mood"]],
            "by": "arm",
        }
    },
    "moments with gaps": {
        "statistics": {"columns": ["age", "bmi"], "missing": "columns"}
    },
    "survival": {"survival": {"formula": "Surv(days, event) ~ 1", "times": QUARTERS}},
    "survival by arm": {
        "survival": {"formula": "Surv(days, event) ~ C(arm)", "times": QUARTERS}
    },
    "Cox, Efron": _cox(ties="efron"),
    "Cox, Breslow": _cox(ties="breslow"),
    "Cox, one baseline": _cox(strata="none", times=QUARTERS),
    "Cox, checked": _cox(strata="none", times=QUARTERS, check=True),
    "mixed": _mixed("dose ~ age + bmi"),
    "mixed, ML": _mixed("dose ~ age", method="ml"),
    "mixed, slope": _mixed("dose ~ age + bmi", "1", "bmi"),
    "meta": _meta("dose ~ age + bmi", "bmi", "gaussian"),
    "meta, logistic": _meta("ill ~ age", "age", "logistic"),
    "evaluate": _evaluate(edges=[0.25, 0.5, 0.75]),
    "evaluate, calibration": _evaluate(edges=[0.25, 0.5], calibration=True),
    "evaluate, regression": {
        "evaluate": {
            "formula": "dose ~ age + bmi",
            "coefficients": {"Intercept": 5.0, "age": 0.01, "bmi": 0.2},
            "family": "gaussian",
        }
    },
    "evaluate, split": {
        "evaluate": {"formula": "ill ~ age", "family": "logistic", "folds": 2}
    },
    "evaluate, folds": {
        "evaluate": {"formula": "dose ~ age + bmi", "family": "gaussian", "folds": 4}
    },
    "evaluate, survival": {
        "evaluate": {
            "formula": "Surv(days, event) ~ age + bmi",
            "coefficients": {"age": 0.02, "bmi": 0.03},
            "edges": [1.8, 2.2],
            "times": QUARTERS,
        }
    },
}


# Questions that are not about rows of a table.
EXAMPLES = {"dispatch": "dispatch30.toml", "dispatch of a day": "day.toml"}
NAMES = (*SCENES, *EXAMPLES)


def scenario(name: str, folder: Path) -> Path:
    """Write the scene's file with its tables, and return its path."""
    files = {party: f"{party}.csv" for party in PARTIES}
    for party, table in tables().items():
        table.to_csv(folder / files[party], index=False)
    path = folder / "scene.toml"
    document = {
        "title": name,
        "data": {"files": files},
        "schema": {"minimum_rows": 100, "maximum_rows": 200, "columns": COLUMNS},
        "graph": {"family": "complete:5"},
        "policy": OPEN if name in NEED_OPEN else {},
        "simulation": {"seed": 0},
        **SCENES[name],
    }
    path.write_text(tomli_w.dumps(document), "utf-8")
    return path


def run(name: str, folder: Path, **options: Any) -> Any:
    """Return the scene's result."""
    if (example := EXAMPLES.get(name)) is not None:
        path = Path(__file__).parents[2] / "examples" / example
        return read_job(path, "dispatch").run(**options)
    (kind,) = SCENES[name]
    return read_job(scenario(name, folder), kind).run(**options)


def digest(total: Any) -> str:
    """Return a short hash of a sum of whole numbers."""
    text = ",".join(str(int(number)) for number in total)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def numbers(result: Any) -> dict[str, Any]:
    """Return the sizes and hashes of all sums, and the answer."""
    sums = result.released.sums
    return {
        "sizes": [len(total) for total in sums],
        "sums": [digest(total) for total in sums],
        "answer": [float(number) for number in np.ravel(result.answer)],
    }


def write() -> None:
    """Write the numbers of every scene."""
    found = {}
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = numbers(run(name, Path(folder)))
    lines = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
    NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    write()
