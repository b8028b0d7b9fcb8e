"""A registry of five sites, and 45 analyses that people make of such a table.

Sites have 150 to 420 rows, drawn by a fixed seed. A share of the values of every column
but the identifying ones can be missing. `ATTACKS` are questions of the same language
that were shown to single people out, on tables of the same schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from veilsum.consortium.kinds import BUILT_IN
from veilsum.sums.table_job import SchemaTableJob
from veilsum.tables.schema import Schema

SITES = {"north": 420, "east": 380, "south": 260, "west": 210, "island": 150}
MISSING = (0.0, 0.01, 0.03, 0.1, 0.2)
STAGES = ["I", "II", "III", "IV"]
QUARTERS = [91 * k for k in range(1, 13)]

SCHEMA = Schema.from_table(
    {
        "minimum_rows": 5,
        "missing": "drop",
        "columns": {
            "age": {
                "kind": "integer",
                "minimum": 18,
                "maximum": 95,
                "cuts": [30, 45, 60, 75],
            },
            "sex": {"kind": "category", "categories": ["f", "m"]},
            "arm": {"kind": "category", "categories": ["control", "new"]},
            "stage": {"kind": "category", "categories": STAGES},
            "smoker": {"kind": "category", "categories": ["former", "never", "now"]},
            "bmi": {"kind": "number", "unit": 0.1, "minimum": 14, "maximum": 60},
            "sbp": {"kind": "integer", "minimum": 70, "maximum": 240},
            "crp": {"kind": "number", "unit": 0.1, "minimum": 0.1, "maximum": 300},
            "hb": {"kind": "number", "unit": 0.1, "minimum": 4, "maximum": 20},
            "cost": {"kind": "number", "unit": 1, "minimum": 1, "maximum": 200_000},
            "visits": {"kind": "integer", "minimum": 0, "maximum": 60},
            "hiv": {"kind": "integer", "minimum": 0, "maximum": 1},
            "died": {"kind": "integer", "minimum": 0, "maximum": 1},
            "days": {"kind": "integer", "minimum": 1, "maximum": 1_200},
            "age_2": {"of": "age", "as": "power", "exponent": 2},
            "age_spline": {"of": "age", "as": "natural spline"},
            "log_cost": {"of": "cost", "as": "log"},
        },
    }
)


def tables(missing: float = 0.0, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Each site's table."""
    found = {}
    for place, (site, n) in enumerate(SITES.items()):
        rng = np.random.default_rng([seed, place])
        age = np.clip(rng.normal(58, 15, n).round(), 18, 95)
        sex = rng.choice(["f", "m"], n)
        bmi = np.clip(rng.normal(27, 5, n).round(1), 14, 60)
        sbp = np.clip(
            (95 + 0.5 * age + bmi / 2 + rng.normal(0, 14, n)).round(), 70, 240
        )
        crp = np.clip(rng.lognormal(1.3, 1.0, n).round(1), 0.1, 300)
        arm = rng.choice(["control", "new"], n)
        stage = rng.choice(STAGES, n, p=[0.35, 0.3, 0.2, 0.15])
        late = np.isin(stage, ["III", "IV"])
        hazard = 0.0012 * np.exp(0.02 * (age - 58) + 0.7 * late - 0.4 * (arm == "new"))
        ends, leaves = rng.exponential(1 / hazard), rng.uniform(200, 1_200, n)
        odds = np.exp(-2.2 + 0.02 * (age - 58) + 0.4 * (sex == "m"))
        frame = pd.DataFrame(
            {
                "age": age,
                "sex": sex,
                "arm": arm,
                "stage": stage,
                "smoker": rng.choice(["former", "never", "now"], n, p=[0.3, 0.5, 0.2]),
                "bmi": bmi,
                "sbp": sbp,
                "crp": crp,
                "hb": np.clip(
                    (14 - 0.02 * age + rng.normal(0, 1.3, n)).round(1), 4, 20
                ),
                "cost": np.clip(rng.lognormal(8.3, 0.7, n).round(), 1, 200_000),
                "visits": rng.negative_binomial(3, 0.4, n),
                "hiv": (rng.random(n) < odds / (1 + odds)).astype(float),
                "died": (ends < leaves).astype(float),
                "days": np.clip(np.minimum(ends, leaves).round(), 1, 1_200),
            }
        )
        for name in frame.columns if missing else ():
            frame.loc[rng.random(n) < missing, name] = None
        found[site] = frame
    return found


@dataclass(frozen=True)
class Analysis:
    """A question to the registry.

    Attributes:
        name: for a table.
        heading: of the section of a file.
        keys: of the section.
        schema: the dictionary.
    """

    name: str
    heading: str
    keys: Mapping[str, Any] = field(hash=False)
    schema: Schema = field(default=SCHEMA, hash=False)

    def job(self) -> SchemaTableJob[Any]:
        """Return the question."""
        found: SchemaTableJob[Any] = (
            BUILT_IN[self.heading].load().make_job(self.schema, **self.keys)
        )
        return found


def _model(name: str, formula: str, family: str = "gaussian", **more: Any) -> Analysis:
    return Analysis(name, "model", {"formula": formula, "family": family, **more})


def _statistics(name: str, **keys: Any) -> Analysis:
    return Analysis(name, "statistics", {"columns": [], "tables": [], **keys})


NUMBERS = ["age", "bmi", "sbp", "hb"]


def _beside(cuts: Sequence[float], *questions: Analysis) -> list[Analysis]:
    """Return questions whose dictionary has other cut points of age, in steps."""
    ages = replace(SCHEMA.column("age"), cuts=tuple(sorted(cuts)))
    columns = (ages, *(one for one in SCHEMA.columns if one.name != "age"))
    derived: Any = {
        f"from_{cut:g}": {"of": "age", "as": "intervals", "cuts": [cut]} for cut in cuts
    }
    schema = Schema(columns, SCHEMA.missing, SCHEMA.minimum_rows, derived=derived)
    return [replace(one, schema=schema) for one in questions]


def _all() -> Iterator[Analysis]:
    yield _statistics(
        "Table 1 by arm",
        columns=NUMBERS,
        tables=[["sex"], ["stage"], ["smoker"]],
        by="arm",
    )
    yield _statistics(
        "Table 1", columns=NUMBERS, tables=[["sex"], ["stage"], ["smoker"]]
    )
    yield _statistics("means of three columns", columns=["age", "bmi", "sbp"])
    yield _statistics("moments of six columns", columns=[*NUMBERS, "crp", "cost"])
    yield _statistics(
        "histogram of age", histograms={"age": [18, 30, 40, 50, 60, 70, 80]}
    )
    yield _statistics(
        "histogram of cost", histograms={"cost": [0, 1e3, 2e3, 4e3, 8e3, 2e4]}
    )
    edges = list(range(80, 200, 10))
    yield _statistics(
        "quantiles of sbp", histograms={"sbp": edges}, quantiles={"sbp": [0.5]}
    )
    yield _statistics(
        "quantiles of crp by arm",
        histograms={"crp": [1, 2, 3, 5, 8, 13, 20]},
        quantiles={"crp": [0.25, 0.5, 0.75]},
        by="arm",
    )
    yield _statistics("sex x smoker", tables=[["sex", "smoker"]])
    yield _statistics("stage x hiv", tables=[["stage", "hiv"]])
    yield _statistics("sex x stage x arm", tables=[["sex", "stage", "arm"]])
    yield _statistics(
        "missing values by arm", columns=NUMBERS, by="arm", missing="groups"
    )
    times = {"times": QUARTERS}
    for name, right in {"all": "1", "by arm": "arm", "by stage": "stage"}.items():
        formula = f"Surv(days, died) ~ {right}"
        yield Analysis(
            f"Kaplan-Meier, quarters, {name}", "survival", {"formula": formula, **times}
        )
    yearly = {"formula": "Surv(days, died) ~ arm", "times": [365, 730, 1095]}
    yield Analysis("log-rank by arm, years", "survival", yearly)
    for name, formula in {
        "two columns": "Surv(days, died) ~ age + arm",
        "four columns": "Surv(days, died) ~ age + arm + sex + bmi",
    }.items():
        yield Analysis(f"Cox by site, {name}", "cox", {"formula": formula})
        common = {"formula": formula, "strata": "none", "times": [180, 365, 730, 1200]}
        yield Analysis(f"Cox, common baseline, {name}", "cox", common)
    yield _model("linear, one column", "sbp ~ age")
    yield _model("linear, three columns", "sbp ~ age + sex + bmi")
    yield _model("linear, six columns", "sbp ~ age + sex + bmi + hb + arm + hiv")
    yield _model(
        "linear, ten columns",
        "sbp ~ age + sex + bmi + hb + crp + visits + C(stage) + arm + hiv",
    )
    yield _model("linear, interaction", "sbp ~ age * arm + sex")
    yield _model("linear, two interactions", "sbp ~ age * C(smoker) + bmi * sex")
    yield _model("linear, square", "sbp ~ age + age_2 + sex")
    yield _model("linear, spline", "sbp ~ age_spline")
    yield _model("linear, log response", "log_cost ~ age + sex + arm")
    yield _model("linear, robust errors", "sbp ~ age + sex + bmi", errors="HC1")
    yield _model("linear, site effects", "sbp ~ age + sex + bmi", absorb=True)
    yield _model("logistic, one column", "hiv ~ age", "logistic")
    yield _model("logistic, three columns", "hiv ~ age + sex + bmi", "logistic")
    yield _model(
        "logistic, six columns", "died ~ age + sex + bmi + hb + arm + crp", "logistic"
    )
    yield _model("logistic, interaction", "died ~ age * arm + sex", "logistic")
    yield _model("logistic, robust errors", "hiv ~ age + sex", "logistic", errors="HC0")
    yield _model("probit", "hiv ~ age + sex", "probit")
    yield _model("Poisson", "visits ~ age + arm", "poisson")
    yield _model("quasi-Poisson", "visits ~ age + sex + arm", "quasi-poisson")
    yield _model(
        "negative binomial", "visits ~ age + arm", "negative-binomial", alpha=0.3
    )
    yield _model("gamma", "cost ~ age + sex + arm", "gamma")
    yield _model("ordinal", "stage ~ age + sex", "ordinal")
    random = {"formula": "sbp ~ age + sex", "random": ["1"]}
    yield Analysis("mixed model", "mixed", random)
    pooled = {"formula": "sbp ~ age + sex", "coefficient": "age"}
    bounds = {"effects": (-5.0, 5.0), "errors": (0.01, 5.0)}
    yield Analysis("meta-analysis", "meta", {**pooled, **bounds})
    known = {"Intercept": -3.4, "age": 0.02, "sex[T.m]": 0.4}
    chances = {
        "formula": "hiv ~ age + sex",
        "coefficients": known,
        "family": "logistic",
    }
    edged = {"edges": [0.05, 0.1, 0.15, 0.2]}
    yield Analysis("evaluation by bins", "evaluate", {**chances, **edged})


ANALYSES = tuple(_all())


def _alone(site: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which one person is alone without two common marks."""
    found = site.assign(hiv=1.0, died=1.0)
    found.loc[0:40, "hiv"] = 0.0
    found.loc[[0, *range(41, 80)], "died"] = 0.0
    return found


def attacks(seed: int = 0) -> list[tuple[str, list[Analysis], dict[str, pd.DataFrame]]]:
    """Return attacks as plain questions: name, questions, and tables."""
    known = tables(0.0, seed)
    crossed = known | {"north": _alone(known["north"])}
    few = {site: frame[:100] for site, frame in [*known.items()][:3]}
    ages = sorted(known["north"]["age"].unique())
    top = max(ages)
    steps = _model("", f"bmi ~ cost + from_{top - 1:g} + cost:from_{top:g}")
    knots = ages[-9:-3]
    moved = _beside(
        knots,
        *(_model(f"knot {one:g}", f"sbp ~ cost + cost:from_{one:g}") for one in knots),
    )
    apart = _model("", "from_50 ~ age + hiv + bmi", "logistic")
    return [
        ("b ~ a * cost", [_model("", "hiv ~ died * cost")], crossed),
        ("two steps one year apart", _beside([top - 1, top], steps), known),
        ("a knot moved over six questions", moved, known),
        ("a response that separates", _beside([50], apart), known),
        (
            "hiv ~ age, 3 x 100 rows, logistic",
            [_model("", "hiv ~ age", "logistic")],
            few,
        ),
        ("hiv ~ age, 3 x 100 rows, probit", [_model("", "hiv ~ age", "probit")], few),
        (
            "Cox over agreed times, 3 x 100 rows",
            [
                Analysis(
                    "",
                    "cox",
                    {
                        "formula": "Surv(days, died) ~ age",
                        "strata": "none",
                        "times": [180, 365, 730, 1200],
                    },
                )
            ],
            few,
        ),
        ("ordinal, 3 x 100 rows", [_model("", "stage ~ age", "ordinal")], few),
    ]
