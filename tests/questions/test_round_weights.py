"""Every later round of every question notes the weights of rows, or says why not."""

import inspect
import re
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
import veilsum.questions
from cases import each
from veilsum.models import newton
from veilsum.models.weights import collect_row_weights
from veilsum.questions.regression import fit_arrays
from veilsum.sums import table_job
from veilsum.tables.rules import TableRulesAtHome

# Requests of later rounds without weights, by stage, and the reason.
WITHOUT = {
    "outside": "a count of rows that a family gives no mean",
    "beyond": "the same of the rows of a fold",
    "pearson": "squared residuals, at the point of the round before",
    "closing of gamma": "likelihoods, at no coefficients",
    "closing of gamma-inverse": "likelihoods, at no coefficients",
    "MetaJob": "parties are the rows, and each adds its own estimate",
}
# Questions of one sum: no point follows from an earlier one.
ONE_SUM = {
    *(
        "StatisticsJob",
        "SurvivalJob",
        "EvaluateErrorsJob",
        "EvaluateConcordanceJob",
        "EvaluateFoldsJob",
    ),
}


REFERENCES = Path(__file__).parents[1] / "references"


@each(
    ("table", "formula", "family"),
    [
        ("inference_birthwt", "low ~ age + lwt + smoke", "cloglog"),
        ("models_infert", "case ~ age + parity + induced + spontaneous", "logistic"),
        ("inference_epil", "y ~ lage + lbase", "poisson"),
        ("folds_wages", "wage ~ education + experience", "gamma-inverse"),
        ("choices_beps", "vote ~ age + europe + economy", "multinomial"),
        ("cox_gbsg", "Surv(time, event) ~ age + size + nodes + hormon", "cox"),
    ],
)
def test_fits_of_real_tables_go_without_an_objection(table, formula, family):
    rows = pd.read_csv(REFERENCES / f"{table}.csv")
    rows = rows.dropna(subset=rows.columns.intersection(re.findall(r"\w+", formula)))
    order = np.random.default_rng(0).permutation(len(rows))
    parts = np.array_split(order, 5)
    tables = {f"site {k}": rows.iloc[part] for k, part in enumerate(parts)}
    if family == "cox":
        result = vs.cox(formula, tables, driver="vectorised")
    else:
        result = vs.fit(formula, tables, family=family, driver="vectorised")
    assert np.isfinite([*result.coefficients.values()]).all()


def shares(ask, tables, **options):
    """Return the largest share of one row in each round, and the number of sums."""
    rounds = []

    def weighed(home, answer, request):
        with collect_row_weights() as noted:
            vector = answer(request)
        if stage_of(request) == "round":
            if home.party == min(tables):
                rounds.append(0.0)
            rounds[-1] = max([rounds[-1], *(one.share for one in noted)])
        return vector

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TableRulesAtHome, "weighed", weighed)
        found = ask(tables, driver="vectorised", seed=1, **options)
    return rounds, len(found.released.sums)


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        (
            "evaluation_mgus",
            partial(
                vs.cox,
                "Surv(time, death) ~ age + hgb + creat",
                times=[50.0, 100.0, 150.0, 200.0],
                rules=vs.Rules(minimum_count=1),  # bins have few rows
            ),
        ),
        (
            "folds_visits",
            partial(vs.fit, "visits ~ age + illness + reduced", family="poisson"),
        ),
        (
            "evaluation_pima",
            partial(
                vs.fit,
                "ill ~ npreg + glu + bp + bmi + ped",
                family="cloglog",
                digits=12,
            ),
        ),
    ],
)
def test_weights_on_the_way_are_about_as_even_as_at_the_answer(name, ask, monkeypatch):
    rows = pd.read_csv(REFERENCES / f"{name}.csv").dropna().drop(columns="site")
    parts = np.array_split(np.random.default_rng(0).permutation(len(rows)), 4)
    tables = {f"site {k}": rows.iloc[part] for k, part in enumerate(parts)}
    rounds, sums = shares(ask, tables)
    assert max(rounds) <= 1.1 * rounds[-1]
    # The twin: full steps put more weight on one row, the longest 49 %.
    monkeypatch.setattr(newton, "LONGEST_STEP", np.inf)
    rounds, before = shares(ask, tables)
    assert max(rounds) >= 1.25 * rounds[-1]
    assert sums <= before + 2


def test_ranges_far_wider_than_a_table_cost_two_sums():
    """Without a limit on halvings it took 31 sums, and the rules allow 15."""
    rows = pd.read_csv(REFERENCES / "evaluation_mgus.csv").dropna()
    columns = ["age", "hgb", "creat", "time", "death"]
    parts = np.array_split(np.random.default_rng(0).permutation(len(rows)), 4)
    tables = {f"site {k}": rows.iloc[part][columns] for k, part in enumerate(parts)}
    close = vs.Schema.inferred(tables).to_table()
    sums = []
    for factor in (1.0, 30.0):
        made = {
            name: {**one, "maximum": one["maximum"] * factor}
            if name in ("age", "hgb", "creat")
            else one
            for name, one in close["columns"].items()
        }
        schema = vs.Schema.from_table({**close, "columns": made})
        found = vs.cox(
            "Surv(time, death) ~ age + hgb + creat",
            tables,
            schema=schema,
            driver="vectorised",
        )
        sums.append(len(found.released.sums))
    assert sums[1] <= sums[0] + 2


@each(
    ("table", "formula", "random"),
    [
        ("sites_schools", "lang ~ iq + ses", ["1", "iq"]),
        ("sites_sleep", "y ~ x", ["1"]),
        ("sites_oxboys", "height ~ age", ["1", "age"]),
    ],
)
def test_mixed_models_of_real_parties_go_without_an_objection(table, formula, random):
    """Classes, people and boys as parties: dealt to five, all would be refused."""
    rows = pd.read_csv(REFERENCES / f"{table}.csv")
    tables = {party: one.drop(columns="party") for party, one in rows.groupby("party")}
    result = vs.mixed(formula, tables, random=random, driver="vectorised")
    assert result.fit.rounds <= 6


def stage_of(request):
    request = getattr(request, "inner", request)  # pieces of time
    return getattr(request, "stage", type(request).__name__)


@pytest.fixture(scope="module")
def tables():
    stream = np.random.default_rng(3)
    n = 600
    frame = pd.DataFrame({"x": stream.normal(size=n).round(2)})
    frame["z"] = stream.integers(0, 2, n)
    mean = np.exp(0.3 + 0.3 * frame["x"] - 0.2 * frame["z"])
    frame["count"] = stream.negative_binomial(3, 3 / (3 + mean))
    frame["amount"] = (stream.gamma(4.0, mean / 4.0) + 0.05).round(2)
    frame["yes"] = (stream.random(n) < 1 / (1 + np.exp(-frame["x"]))).astype(int)
    frame["part"] = frame["yes"].astype(float)
    frame["pick"] = np.array(["a", "b", "c"])[stream.integers(0, 3, n)]
    frame["time"] = stream.exponential(10.0 / mean).round(2) + 0.01
    frame["size"] = stream.integers(1, 4, n).astype(float)
    return {f"site-{k}": frame.iloc[120 * k : 120 * k + 120] for k in range(5)}


FAMILIES = {
    "logistic": "yes",
    "probit": "yes",
    "cloglog": "yes",
    "quasi-binomial": "part",
    "poisson": "count",
    "quasi-poisson": "count",
    "negative-binomial": "count",
    "gamma": "amount",
    "gamma-inverse": "amount",
    "inverse-gaussian": "amount",
    "multinomial": "pick",
    "ordinal": "pick",
}


def questions(tables):
    """Every kind of question that takes several sums."""
    quiet = {"driver": "vectorised", "seed": 1}
    few = vs.Rules(site_terms=True)  # parties
    ordered = {
        party: one.assign(pick=pd.Categorical(one["pick"], ["a", "b", "c"], True))
        for party, one in tables.items()
    }
    for family, response in FAMILIES.items():
        data = ordered if family == "ordinal" else tables
        yield vs.fit(f"{response} ~ x + z", data, family=family, **quiet)
    yield vs.fit(
        "count ~ x + z", tables, family="negative-binomial", alpha=0.5, **quiet
    )
    yield vs.fit("count ~ x", tables, family="poisson", weights="size", **quiet)
    for errors in ("HC0", "HC3", "cluster"):
        rules = few if errors == "cluster" else None
        yield vs.fit("amount ~ x", tables, errors=errors, rules=rules, **quiet)
    yield vs.fit("yes ~ x", tables, family="logistic", errors="HC3", **quiet)
    yield vs.fit("yes ~ x", tables, family="logistic", further="z", **quiet)
    arrays = {p: (one[["x"]].to_numpy(), one["count"]) for p, one in tables.items()}
    yield fit_arrays(arrays, family="poisson", rules=vs.Rules(minimum_rows=60), **quiet)
    cox = "Surv(time, yes) ~ x + z"
    yield vs.cox(cox, tables, **quiet)
    yield vs.cox(cox, tables, times=[2.0, 5.0, 10.0], **quiet)
    yield vs.mixed("amount ~ x", tables, rules=few, **quiet)
    known = {"Intercept": 0.1, "x": 0.8}
    yield vs.evaluate(
        "yes ~ x", tables, family="logistic", coefficients=known, edges=[0.5], **quiet
    )
    yield vs.evaluate("yes ~ x", tables, family="logistic", folds=2, **quiet)
    yield vs.meta("amount ~ x", tables, coefficient="x", rules=few, **quiet)


@pytest.fixture(scope="module")
def seen(tables):
    """For each job and stage of a later round, whether all parties noted weights."""
    found, now = {}, []

    def prepared(job, *more):
        now[:] = [type(job).__name__, getattr(job, "family", None)]
        return original(job, *more)

    def weighed(home, answer, request):
        del home
        with collect_row_weights() as noted:
            vector = answer(request)
        stage = stage_of(request)
        key = now[0], f"{stage} of {now[1].name}" if stage == "closing" else stage
        if key[1] not in ("first", "str"):  # no point: nothing was known before
            found[key] = found.get(key, True) and any(one.rows for one in noted)
        return vector

    original = table_job.resolve_table_job_question
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table_job, "resolve_table_job_question", prepared)
        patched.setattr(TableRulesAtHome, "weighed", weighed)
        for _ in questions(tables):
            pass
    return found


def test_every_later_round_notes_its_weights_or_is_a_named_exception(seen):
    silent = {key for key, noted in seen.items() if not noted}
    allowed = {(job, at) for job, at in silent if {job, at} & WITHOUT.keys()}
    assert silent == allowed
    # No exception is kept that nothing needs; fits of these tables ask no fold's rows.
    needed = {name for pair in allowed for name in pair if name in WITHOUT}
    assert needed | {"beyond"} == WITHOUT.keys()


def test_every_question_of_several_sums_is_among_them(seen):
    for one in iter_modules(veilsum.questions.__path__):
        import_module(f"veilsum.questions.{one.name}")

    def kinds(base):
        for one in base.__subclasses__():
            yield from kinds(one)
            if one.__module__.startswith("veilsum.") and not inspect.isabstract(one):
                yield one.__name__

    # Parts of other questions: never asked by themselves.
    shared = {"FormulaRowsJob", "TimedFitJob", "EvaluateJob"}
    several = {job for job, _ in seen}
    assert set(kinds(table_job.TableJob)) - shared == several | ONE_SUM
