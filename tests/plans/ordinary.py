"""Ordinary questions to bundled data, as organisers would write them down.

Each plan says what is asked of which table, dealt to how many parties, and what becomes
of it under default rules: it runs, or one rule refuses it. `CAREFUL` plans merge rare
levels, take logarithms of long tails, and ask for no more columns than small parties
can carry; `CARELESS` ones do not. The schema is what parties would agree on: decimals
as their columns have them, ranges in round numbers, and the rows of the smallest party.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from later import Later
from veilsum.files import datasets
from veilsum.tables.rules import MINIMUM_ROWS
from veilsum.tables.schema import Schema

examples = Later("sklearn.datasets")
sm = Later("statsmodels.api")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A question, and what becomes of it.

    Attributes:
        data: which table of `TABLES`.
        parties: how many, or the column that says which party has a row.
        job: of the regression, what `fit` takes; of statistics, what that takes.
        refused: the rule that refuses, if one does.
    """

    data: str
    parties: int | str
    job: Mapping[str, Any] = field(hash=False)
    refused: str | None = None

    @property
    def name(self) -> str:
        """What a test is called."""
        what = self.job.get("formula") or ", ".join(sorted(self.job))
        return f"{self.data}/{self.parties}: {self.job.get('family', '')} {what}"

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Each party's table: rows in no particular order, dealt in turn."""
        table = TABLES[self.data]()
        if isinstance(self.parties, str):
            groups = table.groupby(self.parties)
            return {str(name): part.reset_index(drop=True) for name, part in groups}
        mixed = table.sample(frac=1.0, random_state=1)
        return {
            f"party-{k + 1}": mixed.iloc[k :: self.parties].reset_index(drop=True)
            for k in range(self.parties)
        }

    def schema(self, tables: Mapping[str, pd.DataFrame]) -> Schema:
        """Return what the parties agreed on, with ranges a little wider than needed."""
        found = Schema.inferred(tables)
        columns = {}
        for one in found.columns:
            entry = one.to_table()
            if not one.is_category:
                low, high = entry["minimum"], entry["maximum"]
                entry["minimum"] = min(0.0, rounded(low, ROUND_FLOOR))
                entry["maximum"] = rounded(high, ROUND_CEILING)
                if one.measure.low > 0.0:  # a logarithm may be asked for
                    entry["minimum"] = rounded(low, ROUND_FLOOR) or one.measure.low
            columns[one.name] = entry
        least = max(MINIMUM_ROWS, min(len(table) for table in tables.values()))
        return Schema.from_table({"minimum_rows": least, "columns": columns})


def rounded(value: float, way: str) -> float:
    """Return a number with one digit, further from the data."""
    number = Decimal(repr(value))
    if not number or number in (1, 2):
        return value
    return float(number.quantize(Decimal((0, (1,), number.adjusted())), rounding=way))


def _statsmodels(name: str) -> pd.DataFrame:
    table = getattr(sm.datasets, name).load_pandas().data.dropna()
    return table.rename(columns=str.lower)


def _named(table: pd.DataFrame, **levels: str) -> pd.DataFrame:
    """Return a table in which some codes are levels of a category."""
    made = {
        column: prefix + table[column].astype(int).astype(str)
        for column, prefix in levels.items()
    }
    return table.assign(**made)


def _fair() -> pd.DataFrame:
    table = _statsmodels("fair")
    table = _named(table, religious="r", occupation="o", rate_marriage="m")
    low = table["rate_marriage"].isin(["m1", "m2"])
    return table.assign(
        any=(table["affairs"] > 0.0).astype(int),
        marriage=table["rate_marriage"].where(~low, "m1-2"),
        children=table["children"].astype(int),
    ).drop(columns=["affairs"])


def _star98() -> pd.DataFrame:
    table = _statsmodels("star98")
    share = table["nabove"] / (table["nabove"] + table["nbelow"])
    return table.assign(share=share.round(4), poor=(table["lowinc"] > 40.0).astype(int))


def _anes96() -> pd.DataFrame:
    table = _named(_statsmodels("anes96"), pid="p", educ="e")
    sides = {"p0": "dem", "p1": "dem", "p5": "rep", "p6": "rep"}
    schools = {"e4": "e4-5", "e5": "e4-5", "e6": "e6-7", "e7": "e6-7"}
    return table.assign(
        vote=table["vote"].astype(int),
        side=table["pid"].map(sides).fillna("ind"),
        school=table["educ"].map(schools).fillna("e1-3"),
    )


def _modechoice() -> pd.DataFrame:
    table = _named(_statsmodels("modechoice"), mode="m")
    return table.assign(choice=table["choice"].astype(int))


def _breast_cancer() -> pd.DataFrame:
    return pd.concat([*datasets.breast_cancer(8).values()], ignore_index=True)


def _sklearn(name: str) -> pd.DataFrame:
    table = getattr(examples, f"load_{name}")(as_frame=True).frame
    table.columns = [
        one.replace(" (cm)", "").replace(" ", "_").replace("/", "_")
        for one in table.columns
    ]
    return table


def _diabetes() -> pd.DataFrame:
    table = pd.concat([*datasets.diabetes(5).values()], ignore_index=True)
    high = (table["progression"] > 140.0).astype(int)
    return table.assign(high=high, sex=table["sex"].astype(int).astype(str))


def _some(table: pd.DataFrame, rows: int) -> pd.DataFrame:
    """Return some of its rows, as of a smaller study."""
    return table.sample(n=rows, random_state=2).reset_index(drop=True)


def _grunfeld() -> pd.DataFrame:
    table = _statsmodels("grunfeld")
    size = table.groupby("firm")["value"].transform("mean")
    return table.assign(
        decade=np.where(table["year"] < 1945, "30s", "40s"),
        large=(size > 1000.0).astype(int),
        size=size.round(0),
    )


def _macrodata() -> pd.DataFrame:
    table = _statsmodels("macrodata")
    half = np.where(table["quarter"] < 3, "spring", "autumn")
    return _named(table.assign(half=half), quarter="q")


def _lung() -> pd.DataFrame:
    tables = datasets.lung()
    return pd.concat([one.assign(inst=name) for name, one in tables.items()]).dropna()


TABLES = {
    name: cache(load)
    for name, load in {
        "anes96": _anes96,
        "breast cancer": _breast_cancer,
        "cancer": lambda: _statsmodels("cancer").astype(int),
        "breast cancer, 60 rows": lambda: _some(_breast_cancer(), 60),
        "ccard": lambda: _statsmodels("ccard").drop(columns=["incomesq"]),
        "committee": lambda: _statsmodels("committee"),
        "copper": lambda: _statsmodels("copper"),
        "cpunish": lambda: _statsmodels("cpunish"),
        "diabetes": _diabetes,
        "engel": lambda: _statsmodels("engel").round(2),
        "fair": _fair,
        "fair, 600 rows": lambda: _some(_fair(), 600),
        "grunfeld": _grunfeld,
        "heart": lambda: _statsmodels("heart"),
        "interest": lambda: _named(_statsmodels("interest_inflation"), quarter="q"),
        "iris": lambda: _named(_sklearn("iris"), target="t"),
        "longley": lambda: _statsmodels("longley"),
        "lung": _lung,
        "macrodata": _macrodata,
        "modechoice": _modechoice,
        "nile": lambda: _statsmodels("nile"),
        "randhie": lambda: _statsmodels("randhie"),
        "randhie, 400 rows": lambda: _some(_statsmodels("randhie"), 400),
        "randhie, 900 rows": lambda: _some(_statsmodels("randhie"), 900),
        "scotland": lambda: _statsmodels("scotland"),
        "spector": lambda: _statsmodels("spector"),
        "stackloss": lambda: _statsmodels("stackloss"),
        "star98": _star98,
        "statecrime": lambda: _statsmodels("statecrime").assign(
            state=lambda one: one.index.str.strip()
        ),
        "strikes": lambda: _statsmodels("strikes"),
        "sunspots": lambda: _statsmodels("sunspots"),
        "wine": lambda: _sklearn("wine"),
    }.items()
}

DOCTOR = "lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp"
SCHOOLS = (
    "lowinc + perasian + perblack + perhisp + perminte + avyrsexp + avsalk + perspenk"
    " + ptratio + pctaf"
)
SHAPES = "radius texture perimeter area smoothness compactness concavity symmetry"
NUCLEI = " + ".join(f"{k}_{one}" for k in ("mean", "worst") for one in SHAPES.split())
DIABETES = "age + C(sex) + bmi + bp + s1 + s2 + s3 + s4 + s5 + s6"


# Derived columns that plans use.
DERIVED: dict[str, dict[str, Any]] = {
    **{
        f"log_{name}": {"of": name, "as": "log"}
        for name in ("population", "income", "avgexp")
    },
    "income_2": {"of": "income", "as": "power", "exponent": 2},
    "income_3": {"of": "income", "as": "power", "exponent": 3},
    "year_2": {"of": "year", "as": "power", "exponent": 2},
}


def derived_in(formula: str) -> dict[str, dict[str, Any]]:
    """Return the derived columns that a formula names."""
    return {name: line for name, line in DERIVED.items() if name in formula}


def fit(data: str, parties: int | str, formula: str, family: str = "gaussian", **more):
    """A regression."""
    refused = more.pop("refused", None)
    job = {"formula": formula, "family": family, **more}
    if derived := derived_in(formula):
        job["derived"] = derived
    return Plan(data=data, parties=parties, job=job, refused=refused)


def stats(data: str, parties: int | str, refused: str | None = None, **job):
    """Statistics."""
    return Plan(data=data, parties=parties, job=job, refused=refused)


CAREFUL = (
    fit("anes96", 5, "vote ~ selflr + age + C(school) + income", "logistic"),
    fit("anes96", 12, "vote ~ selflr + age", "logistic"),
    fit("anes96", 8, "selflr ~ C(side) + age"),
    fit("anes96", 12, "selflr ~ C(side) * age + tvnews"),
    fit("breast cancer", 8, "malignant ~ mean_radius + mean_texture", "logistic"),
    fit("breast cancer", 20, "mean_area ~ mean_texture + mean_smoothness"),
    fit("cancer", 5, "cancer ~ log_population", "poisson"),
    fit("diabetes", 5, f"progression ~ {DIABETES}"),
    fit("diabetes", 10, f"high ~ {DIABETES}", "logistic"),
    fit("diabetes", 20, "progression ~ C(sex) + bmi + bp + s5"),
    fit("diabetes", 10, "progression ~ bmi + bp + s5", "gamma"),
    fit("engel", 8, "foodexp ~ log_income"),
    fit("engel", 10, "foodexp ~ log_income", "gamma"),
    fit("fair", 10, "any ~ age + yrs_married + educ + C(religious)", "logistic"),
    fit("fair", 8, "any ~ C(marriage) * children", "logistic"),
    fit("fair", 6, "children ~ age + yrs_married + C(marriage)", "poisson"),
    fit("fair, 600 rows", 20, "any ~ age + yrs_married", "logistic"),
    fit("grunfeld", "firm", "invest ~ value + capital"),
    fit("grunfeld", "firm", "invest ~ value * capital + C(decade)"),
    fit("lung", 6, "wt_loss ~ age + sex"),
    fit("macrodata", 8, "realcons ~ realdpi + unemp + tbilrate + C(half)"),
    fit("macrodata", 4, "realcons ~ realdpi + unemp + C(quarter)"),
    fit("modechoice", 10, "choice ~ ttme + invc + invt + hinc + C(mode)", "logistic"),
    fit("modechoice", 10, "gc ~ ttme + invc + hinc + C(mode)"),
    fit("randhie", 5, f"mdvis ~ {DOCTOR}", "poisson"),
    fit("randhie", 5, "mdvis ~ lpi + disea + idp", "negative-binomial", alpha=1.0),
    fit("randhie, 900 rows", 20, "mdvis ~ lpi + disea + lncoins"),
    fit("star98", 6, f"share ~ {SCHOOLS}"),
    fit("star98", 8, "poor ~ perhisp + avyrsexp + ptratio", "logistic"),
    fit("sunspots", 10, "sunactivity ~ year + year_2"),
    stats("anes96", 8, columns=["age", "income"], tables=[["school"]]),
    stats("diabetes", 10, columns=["age", "bmi", "bp", "progression"]),
    stats("fair", 10, columns=["age", "educ"], tables=[["religious"], ["marriage"]]),
    stats("randhie", 20, columns=["mdvis", "lpi"], histograms={"disea": [0, 10, 20]}),
    # Small bins merge.
    stats("randhie", 20, columns=["mdvis"], histograms={"disea": [*range(0, 70, 5)]}),
    # Fewer than 200 rows, and still enough for what is asked.
    fit("ccard", 4, "log_avgexp ~ age + income"),
    fit("iris", 5, "petal_length ~ sepal_length + C(target)"),
    fit("nile", 5, "volume ~ year"),
    fit("wine", 6, "proline ~ alcohol + ash + color_intensity", "gamma"),
)
CARELESS = (
    # A column or a level that tells one party from the others.
    fit("grunfeld", "firm", "invest ~ value + C(firm)", refused="site_terms"),
    fit("grunfeld", "firm", "invest ~ C(firm):value", refused="site_terms"),
    fit("grunfeld", "firm", "invest ~ value + size", refused="site_terms"),
    fit("grunfeld", "firm", "invest ~ value + large", refused="site_terms"),
    stats("grunfeld", "firm", tables=[["firm", "decade"]], refused="site_terms"),
    # Levels, cells, values and bins that few rows have.
    fit("anes96", 8, "selflr ~ C(pid) + age", refused="minimum_count"),
    fit(
        "macrodata",
        8,
        "realcons ~ realdpi + unemp + tbilrate + C(quarter)",
        refused="minimum_count",
    ),
    fit("fair", 20, "educ ~ C(occupation) * C(religious)", refused="minimum_count"),
    fit(
        *("randhie, 400 rows", 20, f"mdvis ~ {DOCTOR}", "poisson"),
        refused="minimum_count",
    ),
    # Long tails: a few rows are most of a column, or of a combination of columns.
    fit("ccard", 4, "avgexp ~ age + income + ownrent", refused="effective_count"),
    fit(
        *("statecrime", 5, "murder ~ urban + poverty + single"),
        refused="effective_count",
    ),
    fit(
        "engel",
        8,
        "foodexp ~ income + income_2 + income_3",
        refused="maximum_influence",
    ),
    # Too many levels or columns for so many rows.
    fit("statecrime", 5, "urban ~ C(state)", refused="maximum_columns"),
    fit(
        "breast cancer, 60 rows", 5, f"malignant ~ {NUCLEI}", refused="maximum_columns"
    ),
    # Tables that are too small for what is asked of them: one county has a quarter of
    # the weight of its party's thirty.
    fit("cancer", 10, "cancer ~ log_population", "poisson", refused="minimum_count"),
    fit(
        "committee", 4, "bills104 ~ size + subs", "poisson", refused="release_fraction"
    ),
    fit("cpunish", 4, "executions ~ income + south", "poisson", refused="minimum_rows"),
    fit("heart", 4, "censors ~ age", "logistic", refused="release_fraction"),
    fit("longley", 4, "totemp ~ gnp + year", refused="minimum_rows"),
    fit("lung", "inst", "wt_loss ~ age + sex", refused="minimum_rows"),
    fit("scotland", 4, "yes ~ coutax + mor + act", "gamma", refused="release_fraction"),
    fit("spector", 4, "grade ~ gpa + psi", "logistic", refused="release_fraction"),
    fit("strikes", 4, "duration ~ iprod", "gamma", refused="release_fraction"),
)
PLANS = CAREFUL + CARELESS
