"""Every kind of job, on made-up rows that can be dealt to parties in any way.

A row has decimals, as people write numbers down: as float64 these are no whole numbers
of anything, and their sums round. Each job is called with a deal, which is what every
party holds, and with options; `Kind.deal` says how rows become that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd

import veilsum as vs

PARTIES = ("a", "b", "c", "d")
HONEST = ("b", "c", "d")
FEWEST = 10
N_ROWS, N_MISSING = 150, 2

SCHEMA = vs.Schema(
    (
        vs.Column("age", "integer", 18, 95, cuts=(50,)),
        vs.Column("smoker", "integer", 0, 1),
        vs.Column("bmi", "number", 10, 80, cuts=(22, 26, 30)),
        vs.Column("pressure", "number", 40, 260),
        vs.Column("visits", "integer", 0, 200),
        vs.Column("charge", "number", 0.05, 1000),
        vs.Column("share", "number", 0.05, 20),
        vs.Column("lift", "number", -5, 5),
        vs.Column("year", "integer", 1900, 2100),
        vs.Column("ward", "category", categories=("north", "south", "west")),
    ),
    minimum_rows=FEWEST,
    missing="drop",
    derived={
        "log_charge": {"of": "charge", "as": "log"},
        "log10_charge": {"of": "charge", "as": "log10"},
        "log_share": {"of": "share", "as": "log"},
        "log1p_share": {"of": "share", "as": "log1p"},
        "log_bmi": {"of": "bmi", "as": "log"},
        "root_bmi": {"of": "bmi", "as": "sqrt"},
        "bmi_2": {"of": "bmi", "as": "power", "exponent": 2},
        "bmi_3": {"of": "bmi", "as": "power", "exponent": 3},
        "bmi_spline": {"of": "bmi", "as": "natural spline"},
        "bmi_bumps": {"of": "bmi", "as": "b-spline", "knots": [26]},
        "decades": {"of": "age", "as": "scale", "unit": 10},
        "third": {"of": "share", "as": "scale", "unit": 3},
        "old": {"of": "age", "as": "intervals"},
        "ward_north": {"of": "ward", "as": "level", "level": "north"},
    },
)
EDGES = [10.0, 20.0, 24.95, 25.0, 31.3, 80.0]


def people(seed, n=N_ROWS):
    """Rows of a table, some values missing."""
    chance = np.random.default_rng(seed)
    age = chance.integers(18, 96, n)
    smoker = (chance.random(n) < 0.1 + 0.005 * age).astype(int)
    bmi = np.round(np.clip(chance.normal(26.0, 4.0, n), 12.0, 70.0), 1)
    lift = np.round(chance.uniform(-0.5, 0.5, n), 2)
    mean = np.exp(0.2 + 0.01 * age + lift)
    charge = chance.gamma(4.0, 1.0 / (4.0 * (0.02 + 0.001 * age + 0.002 * bmi)))
    table = pd.DataFrame(
        {
            "age": age,
            "smoker": smoker,
            "bmi": bmi,
            "pressure": np.round(90 + 0.5 * age + 8 * chance.standard_normal(n), 1),
            "visits": chance.poisson(mean),
            "charge": np.round(np.clip(charge, 0.1, 900.0), 2),
            "share": np.round(chance.uniform(0.1, 3.0, n), 1),
            "lift": lift,
            "year": 2000 + chance.integers(0, 8, n),
            "ward": np.array(["north", "south", "west"])[chance.integers(0, 3, n)],
        }
    )
    table.loc[table.index[40 : 40 + N_MISSING], "bmi"] = np.nan
    return table


def generators(seed, n=40):
    """Rows of a dispatch: what one generator costs and gives; a demand beside it."""
    chance = np.random.default_rng(seed)
    low = np.round(chance.uniform(0.0, 2.0, n), 1)
    return pd.DataFrame(
        {
            "a": np.round(chance.uniform(0.02, 0.4, n), 2),
            "b": np.round(chance.uniform(1.0, 9.0, n), 2),
            "low": low,
            "high": low + np.round(chance.uniform(1.0, 9.0, n), 1),
            "demand": np.round(chance.uniform(1.0, 4.0, n), 1),
        }
    ).round(2)


def amounts(seed, n=40):
    """Rows of a ledger: four amounts of money each, in cents."""
    chance = np.random.default_rng(seed)
    return pd.DataFrame(chance.integers(1, 100_000, (n, 4)), columns=list("wxyz"))


def _money(table):
    """What a party's amounts come to, to the cent, as a bookkeeper writes it down."""
    return table.sum().to_numpy() / 100


def _site(table):
    demand = round(100 * table["demand"]).astype(int).sum() / 100
    return vs.Site.of(demand, **{key: table[key] for key in ("a", "b", "low", "high")})


def _fleet(table):
    """Generators that reach their limits slowly, and demands of two hours."""
    parts = {key: table[key] for key in ("a", "b", "low", "high")}
    demands = np.column_stack([table["demand"], np.round(1.5 * table["demand"], 2)])
    return vs.Fleet.of(demands, ramp=np.full(len(table), 2.5), **parts)


def _quadratic(table):
    w, x, y, z = _money(table).tolist()
    return np.array([[w, 0.0], [0.0, x]]), np.array([y, -z])


def _rows(table, response):
    scaled = np.round((table["age"].to_numpy() - 56.0) / 25.0, 2)
    heavy = np.round((table["bmi"].fillna(26.0).to_numpy() - 26.0) / 5.0, 2)
    design = np.column_stack([np.ones(len(table)), scaled, heavy])
    return vs.Rows.of(design, table[response].to_numpy(dtype=float))


@dataclass(frozen=True)
class Kind:
    """A job that is tested.

    Attributes:
        run: called with a deal and options.
        rows: of all parties, from a seed.
        held: what a party holds, made of its rows.
        laws: by which it can be masked.
    """

    run: Callable
    rows: Callable = people
    held: Callable = lambda table: table
    laws: tuple[str, ...] = ("uniform", "lattice")

    def deal(self, dealing, rows):
        """What each party holds, by the places of its rows, in that order."""
        return {p: self.held(rows.iloc[dealing[p]]) for p in PARTIES}


def _fit(formula, tables, **options):
    named = {"schema": SCHEMA, "rules": vs.Rules.none(), **options}
    return vs.fit(formula, tables, **named)


def fit(formula, **model):
    return Kind(partial(_fit, formula, **model))


def _arrays(table):
    design = table[["age", "bmi"]].fillna(26.0).to_numpy()
    return design, table["pressure"].to_numpy()


def statistics(**asked):
    named = {"schema": SCHEMA, "rules": vs.Rules.none(), **asked}
    return Kind(partial(vs.statistics, **named))


def _survival(tables, **options):
    named = {"schema": SCHEMA, "rules": vs.Rules.none(), "times": [1, 2, 5, 30]}
    formula = "Surv(visits, smoker) ~ C(ward)"
    return vs.survival(formula, tables, **named, **options)


def gradients(family, response):
    """A fit by gradients, which masks one sum over rows before it sets out."""
    wide = vs.minimise.Box(-300.0, 300.0, dim=3)
    # A step that all have agreed on beforehand: nobody looks at rows for it.
    agreed = {"domain": wide, "iterations": 5, "step": 1e-6, "intercept": 0}
    run = partial(
        vs.minimise.fit_by_gradients, topology="complete:4", family=family, **agreed
    )
    return Kind(run, held=partial(_rows, response=response), laws=("lattice",))


def _dispatch(sites, **options):
    return vs.dispatch(sites, prices=(0.0, 50.0), **options)


def evaluated(formula, **asked):
    """An evaluation of known coefficients, or folds."""
    named = {"schema": SCHEMA, "rules": vs.Rules.none(), **asked}
    return Kind(partial(vs.evaluate, formula, **named))


KINDS = {
    "chances": evaluated(
        "smoker ~ age + bmi",
        family="logistic",
        coefficients={"Intercept": -1.0, "age": 0.02, "bmi": -0.03},
        edges=[0.3, 0.4],
    ),
    "errors of numbers": evaluated(
        "pressure ~ age", coefficients={"Intercept": 100.0, "age": 0.3}
    ),
    "risks": evaluated(
        "Surv(visits, smoker) ~ age",
        coefficients={"age": 0.02},
        edges=[1.0],
        times=[2, 5],
    ),
    "folds": evaluated("pressure ~ age + bmi", folds=2),
    "folds of chances": evaluated("smoker ~ age + bmi", family="logistic", folds=2),
    "folds of amounts": evaluated("charge ~ age + bmi", family="gamma", folds=2),
    "sum": Kind(vs.sum, amounts, _money),
    "mean": Kind(vs.mean, amounts, _money),
    "statistics": statistics(),
    "histograms and tables": statistics(
        columns=["age", "bmi"], histograms={"bmi": EDGES}, tables=[("ward",)]
    ),
    "statistics about the mean": statistics(columns=["year", "bmi"]),
    "survival": Kind(_survival),
    "least squares": fit("pressure ~ age + bmi"),
    "without an intercept": fit("pressure ~ age + bmi - 1"),
    "with weights": fit("pressure ~ age + bmi", weights="share"),
    "weights from an earlier fit": fit(
        "pressure ~ smoker + bmi",
        weights=vs.Propensity(
            "smoker ~ age + C(ward)",
            {
                "Intercept": -2.0,
                "age": 0.03,
                "C(ward)[T.south]": 0.2,
                "C(ward)[T.west]": -0.1,
            },
        ),
        errors="model",
    ),
    "with an offset": fit("pressure ~ age + bmi", offset="lift"),
    "with a ridge": fit("pressure ~ age + bmi", ridge=0.3),
    "categories and products": fit("pressure ~ C(ward) + age:bmi"),
    "functions of columns": fit("log_charge ~ root_bmi + bmi_2 + log_share"),
    "more functions": fit(
        "pressure ~ log1p_share + log10_charge + bmi_spline + old + ward_north"
    ),
    "splines and scales": fit("pressure ~ bmi_bumps + decades + share"),
    "contrasts": fit("pressure ~ C(ward, contr.poly) + age"),
    "a constant apart from its last digits": fit("pressure ~ year"),
    "without a schema": fit("pressure ~ age + bmi", schema=None),
    "arrays": Kind(vs.fit_arrays, held=_arrays),
    "logistic": fit("smoker ~ age + bmi", family="logistic"),
    "multinomial": fit("ward ~ age + bmi", family="multinomial"),
    "ordinal": fit("ward ~ age + bmi", family="ordinal"),
    "logistic with weights and a ridge": fit(
        "smoker ~ age + bmi", family="logistic", weights="share", ridge=0.3
    ),
    "poisson": fit("visits ~ age + bmi", family="poisson"),
    "poisson with an offset": fit("visits ~ age", family="poisson", offset="lift"),
    "gamma": fit("charge ~ age + bmi", family="gamma"),
    "gamma with weights": fit("charge ~ age", family="gamma", weights="share"),
    "gamma-inverse": fit("charge ~ age + bmi", family="gamma-inverse"),
    "negative binomial": fit("visits ~ age", family="negative-binomial", alpha=0.3),
    "inverse gaussian": fit("charge ~ age + bmi", family="inverse-gaussian"),
    "probit": fit("smoker ~ age + bmi", family="probit"),
    "cloglog": fit("smoker ~ age + bmi", family="cloglog"),
    "quasi-poisson": fit("visits ~ age", family="quasi-poisson"),
    "dispatch": Kind(_dispatch, generators, _site),
    "quadratic program": Kind(vs.quadratic_program, amounts, _quadratic),
    "gaussian by gradients": gradients("gaussian", "pressure"),
    "logistic by gradients": gradients("logistic", "smoker"),
    "poisson by gradients": gradients("poisson", "visits"),
}


def _minimise(costs, **options):
    graph = vs.Topology.family("complete:4").renamed(PARTIES)
    box, once = (
        vs.minimise.Box(-1e9, 1e9, dim=4),
        vs.minimise.Settings(method="one-shot"),
    )
    return vs.solve(
        costs,
        topology=graph,
        corrupted=(),
        domain=box,
        settings=once,
        unit=0.01,
        **options,
    )


def _target(table):
    return vs.minimise.Cost.squared_distance(_money(table))


# With what parties could not agree on before numbers were whole.
DECLARED = vs.Schema(
    tuple(
        replace(one, unit=Fraction(1, 100)) if one.kind == "number" else one
        for one in SCHEMA.columns
    )
    if hasattr(SCHEMA.columns[0], "unit")
    else SCHEMA.columns,
    minimum_rows=FEWEST,
    missing="drop",
)
WITH_UNITS = {
    "declared units": fit("pressure ~ age + bmi", schema=DECLARED),
    "declared units, logistic": fit(
        "smoker ~ age + bmi", schema=DECLARED, family="logistic"
    ),
    "declared units, statistics": statistics(schema=DECLARED),
    "groups": statistics(
        columns=["age", "bmi"],
        histograms={"pressure": [90, 120, 140]},
        tables=[("smoker",), ("smoker", "pressure")],
        by="ward",
        missing="groups",
        quantiles={"pressure": [0.5]},
    ),
    "wide terms": fit("pressure ~ bmi + bmi_2 + bmi_3", bits=70),
    "wide functions": fit("pressure ~ third + log_bmi", bits=60),
    "costs": Kind(_minimise, amounts, _target),
    "cents": Kind(partial(vs.sum, unit=0.01, largest=1e6), amounts, _money),
}

FREE = {"schema": SCHEMA, "rules": vs.Rules.none()}
DURATION = "Surv(visits, smoker) ~ age"
# Whose rows stand alone too, with tests of their own for what they sum.
FURTHER = {
    "hazards in bins": Kind(
        partial(vs.cox, DURATION, times=[1, 3, 9, 30], **FREE),
        lambda seed: people(seed).assign(visits=lambda table: table["visits"] + 1),
    ),
    "dispatch over periods": Kind(
        partial(vs.dispatch_periods, prices=(0.0, 50.0), periods=2), generators, _fleet
    ),
}
# Of which a party makes numbers of all its rows: whole tables can be exchanged.
RANGES = {"effects": (-50, 50), "errors": (0.001, 10)}
PARTY_TERMS = {
    "absorbed": partial(vs.fit, "pressure ~ age + smoker", absorb=True, **FREE),
    "absorbed, with weights": partial(
        vs.fit, "pressure ~ age + bmi", absorb=True, weights="share", **FREE
    ),
    "mixed": partial(vs.mixed, "pressure ~ age", random=["1", "age"], **FREE),
    "meta": partial(vs.meta, "pressure ~ age", coefficient="age", **RANGES, **FREE),
}


def hands(seed=0):
    """Four tables of different sizes."""
    rows = people(seed)
    dealing = even(rows)
    found = {party: rows.iloc[dealing[party]] for party in PARTIES}
    found["c"] = pd.concat([found["c"], found["d"].tail(13)])
    found["d"] = found["d"].head(len(found["d"]) - 13)
    assert min(map(len, found.values())) > FEWEST + 2
    return found


def dealt(rows, order, cuts):
    """Places of rows by party: a's own are the first, the others' as they are dealt.

    Args:
        rows: of all parties.
        order: of the honest parties' rows.
        cuts: where one honest party's rows end and the next one's begin.
    """
    own = len(rows) // 5
    hands = np.split(own + np.asarray(order), cuts)
    return {"a": np.arange(own), **dict(zip(HONEST, hands, strict=True))}


def even(rows):
    """The first dealing: in the rows' own order, about equally many to each."""
    n = n_honest(rows)
    return dealt(rows, np.arange(n), [n // 3, 2 * n // 3])


def n_honest(rows):
    return len(rows) - len(rows) // 5
