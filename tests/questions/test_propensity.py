"""Weights from an earlier fit, against R's; who has which row changes no bit.

R's values are those of the same coefficients: models.R beside the references.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import veilsum as vs
from cases import each
from finest import finest
from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.fits.formula_job import FormulaJob
from veilsum.fits.model import family_of_fit
from veilsum.questions.regression.kind import ModelSpec
from veilsum.reading import read_section
from veilsum.sums.kinds import question_kind_of
from veilsum.tables.asked import TableQuestion
from veilsum.tables.columns import SchemaError
from veilsum.tables.propensity import PropensityWeights
from veilsum.tables.rules import DisclosureError

FOLDER = Path(__file__).parents[1] / "references"
R = json.loads((FOLDER / "models.json").read_text())
KINDS = ("ate", "att", "stabilised")
CASES = {
    "birthwt": (
        "inference_birthwt.csv",
        "smoke ~ age + lwt + C(race) + ptl",
        "bwt ~ smoke",
        "gaussian",
    ),
    "gbsg": (
        "cox_gbsg.csv",
        "hormon ~ age + size + nodes + C(grade)",
        "event ~ hormon + nodes",
        "logistic",
    ),
}

GRADES = ("C(grade)[T.g2]", "C(grade)[T.g3]")


def table(name):
    return pd.read_csv(FOLDER / CASES[name][0])


def dealt(frame, parties=4):
    return {f"p{k}": frame.iloc[k::parties] for k in range(parties)}


def quick(formula, data, **options):
    how = {"rules": vs.Rules.none(), "driver": "vectorised", "seed": 1, **options}
    return vs.fit(formula, data, minimum_rows=1, **finest(**how))


def propensity(name, kind, **more):
    _, formula, _, _ = CASES[name]
    names = {
        "birthwt": ("Intercept", "age", "lwt", "C(race)[T.2]", "C(race)[T.3]", "ptl"),
        "gbsg": ("Intercept", "age", "size", "nodes", *GRADES),
    }[name]
    known = dict(zip(names, R[f"{name} propensity"], strict=True))
    if kind == "stabilised":
        treated = formula.partition(" ")[0]
        more = {"stabilised": float(table(name)[treated].mean()), **more}
        kind = "ate"
    return vs.Propensity(formula, known, kind, **more)


@each("kind", KINDS)
@each("name", CASES)
def test_weighted_fits_are_those_of_r(name, kind):
    _, _, outcome, family = CASES[name]
    data = dealt(table(name))
    found = quick(outcome, data, weights=propensity(name, kind), family=family)
    assert found.fit.errors == "HC0"  # nothing was said
    values = list(found.coefficients.values()), found.bse
    for got, what in zip(values, ("coefficients", "HC0"), strict=True):
        np.testing.assert_allclose(got, R[f"{name} {kind} {what}"], rtol=1e-9)
    assert "weighted by the propensity of" in found.model.words
    assert any("public function of their columns" in w for w in found.guarantee.limits)
    assert "Rows are weighted by the propensity of" in found.summary()


@each("kind", KINDS)
@each("name", CASES)
def test_weights_have_the_sum_and_the_largest_of_r(name, kind):
    frame = table(name)
    job = FormulaJob.of(
        CASES[name][2],
        schema_of(name, frame),
        family_of_fit("gaussian"),
        propensity(name, kind),
    )
    weights = job.rows(job.schema.check("all", frame)).weights
    found = weights.sum(), weights.max(), weights.sum() ** 2 / (weights**2).sum()
    np.testing.assert_allclose(found, R[f"{name} {kind} weights"], rtol=1e-12)


def schema_of(name, frame):
    coded = frame.astype(dict.fromkeys({"race", "grade"} & {*frame}, "category"))
    return vs.Schema.inferred({"all": coded}, minimum_rows=1)


def people(n=240, seed=3):
    chance = np.random.default_rng(seed)
    age = chance.integers(20, 80, n)
    treated = (chance.random(n) < expit(0.04 * (age - 50))).astype(int)
    response = np.round(5 + 0.1 * age + 2 * treated + chance.normal(0, 2, n), 2)
    return pd.DataFrame({"age": age, "treated": treated, "y": response})


SCHEMA = vs.Schema(
    (
        vs.Column("age", "integer", 20, 80),
        vs.Column("treated", "integer", 0, 1),
        vs.Column("y", "number", -20, 40, unit="2 decimals"),
    ),
    minimum_rows=40,
)
RARE = vs.Column("rare", "integer", 0, 1)
KNOWN = {"Intercept": -2.0, "age": 0.04}
PLAIN = vs.Propensity("treated ~ age", KNOWN)


@each("kind", ["ate", "att", "atc", "overlap"])
def test_each_kind_is_its_formula(kind):
    frame = people()
    e, t = expit(0.04 * frame["age"] - 2.0), frame["treated"] == 1
    expected = {
        "ate": np.where(t, 1 / e, 1 / (1 - e)),
        "att": np.where(t, 1.0, e / (1 - e)),
        "atc": np.where(t, (1 - e) / e, 1.0),
        "overlap": np.where(t, 1 - e, e),
    }[kind]
    weighing = PropensityWeights.of(vs.Propensity("treated ~ age", KNOWN, kind), SCHEMA)
    found = weighing.weights(SCHEMA.check("a", frame))
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@each("kind", ["ate", "att", "overlap"])
def test_who_has_which_row_changes_no_bit(kind):
    frame = people()
    asked = {"weights": vs.Propensity("treated ~ age", KNOWN, kind), "schema": SCHEMA}
    found = [
        vs.fit("y ~ treated", data, driver="vectorised", seed=1, **asked)
        for data in (
            dealt(frame),
            dealt(frame.sample(frac=1.0, random_state=5)),
            {"a": frame[:50], "b": frame[50:95], "c": frame[95:150], "d": frame[150:]},
        )
    ]
    first, *others = ([one.tolist() for one in f.released.sums[-2:]] for f in found)
    assert all(one == first for one in others)


def test_the_weights_of_a_fit_are_those_of_its_own_coefficients():
    data = dealt(people())
    asked = {"schema": SCHEMA, "driver": "vectorised", "seed": 1}
    first = vs.fit("treated ~ age", data, family="logistic", **asked)
    made = vs.Propensity.of(first, stabilised=True)
    assert made.coefficients == first.coefficients
    assert made.stabilised == pytest.approx(people()["treated"].mean(), rel=1e-14)
    found = vs.fit("y ~ treated", data, weights=made, **asked)
    # The same by a column of weights, which are rounded to a unit.
    e = expit(first.params["Intercept"] + first.params["age"] * people()["age"])
    t, part = people()["treated"], made.stabilised
    weights = t * part / e + (1 - t) * (1 - part) / (1 - e)
    other = quick("y ~ treated", dealt(people().assign(w=weights)), weights="w")
    assert other.fit.errors == "model"
    np.testing.assert_allclose(found.params, other.params, rtol=1e-9)
    plain = vs.fit("y ~ treated", data, weights=made, errors="model", **asked)
    assert plain.fit.errors == "model"


def test_a_text_may_say_who_is_treated():
    frame = people()
    words = frame.assign(treated=np.where(frame["treated"] == 1, "yes", "no"))
    known = vs.Propensity("treated ~ age", KNOWN, "att")
    found = quick("y ~ C(treated)", dealt(words), weights=known)
    other = quick("y ~ treated", dealt(frame), weights=known)
    np.testing.assert_allclose(found.params, other.params, rtol=1e-12)


BAD = [
    ({"kind": "all"}, "kind must be one of ate, att, atc, overlap, found 'all'"),
    ({"coefficients": {"age": 1.0}}, "must name every column .*Intercept has none"),
    ({"coefficients": {**KNOWN, "bmi": 1.0}}, "bmi is no column of it"),
    ({"coefficients": {"age": "1"}}, "coefficients must be numbers by column"),
    ({"formula": "age ~ treated"}, "'age', which must be 0 or 1 by agreement"),
    ({"formula": "treated ~ treated + age"}, "the response explains itself"),
    ({"formula": "log_treated ~ age"}, "none of those that the propensity"),
    ({"stabilised": True}, "the part of all rows that is treated"),
    ({"stabilised": 0.4, "kind": "att"}, "stabilised belongs to kind"),
    ({"largest": 0}, "largest must be a number above 0"),
    ({"coefficients": {"Intercept": 0, "age": 1e6}}, "in the propensity: "),
]


@each(("wrong", "message"), BAD)
def test_what_cannot_be_used_is_a_sentence(wrong, message):
    given = {"formula": "treated ~ age", "coefficients": KNOWN, **wrong}
    schema = SCHEMA.with_derived({"log_treated": {"of": "treated", "as": "log1p"}})
    with pytest.raises(InvalidInputError, match=message):
        PropensityWeights.of(vs.Propensity(**given), schema)


@pytest.mark.parametrize(
    ("known", "kind", "message"),
    [
        ({"Intercept": -8.0, "age": 0.1}, "ate", "rows have a weight .* above largest"),
        ({"Intercept": -60.0, "age": 0.4}, "overlap", "of which none count"),
    ],
)
def test_a_weight_that_does_not_count_is_for_the_owner_only(known, kind, message):
    asked = vs.Propensity("treated ~ age", known, kind)
    with pytest.raises(SchemaError, match=message) as refused:
        vs.fit("y ~ treated", dealt(people()), weights=asked, schema=SCHEMA)
    assert refused.value.plain == "refused by the schema: weights"


def test_columns_of_the_weights_alone_are_checked_at_home():
    """One person of each party has `rare`, which the fit itself does not use."""
    half = people().assign(rare=lambda rows: rows.index // 4 % 2)
    one = people().assign(rare=lambda rows: (rows.index < 4).astype(int))
    schema = vs.Schema((*SCHEMA.columns, RARE), minimum_rows=40)
    weights = vs.Propensity("treated ~ age + rare", {**KNOWN, "rare": 0.01})
    how = {"weights": weights, "schema": schema, "driver": "vectorised", "seed": 1}
    assert vs.fit("y ~ treated", dealt(half), **how).fit.n_rows == 240
    with pytest.raises(DisclosureError, match="rare"):
        vs.fit("y ~ treated", dealt(one), **how)


@pytest.mark.parametrize(
    "fit", [{"family": "gaussian"}, {"family": "logistic", "weights": "y"}]
)
def test_a_propensity_is_that_of_a_plain_logistic_fit(fit):
    frame = people().assign(y=lambda one: one["y"].abs() + 1)
    first = quick("treated ~ age", dealt(frame), **fit)
    with pytest.raises(InvalidInputError, match="a propensity is that of"):
        vs.Propensity.of(first)


FILE = {
    "formula": "y ~ treated",
    "propensity": {"formula": "treated ~ age", "coefficients": KNOWN, "kind": "att"},
}


def test_a_file_asks_for_the_same():
    section = read_section(FILE, ModelSpec, "[model]")
    job = question_kind_of(section).job(section, SCHEMA)
    asked = vs.Propensity("treated ~ age", KNOWN, "att")
    same = FormulaJob.of("y ~ treated", SCHEMA, family_of_fit("gaussian"), asked)
    assert job.agreed == same.agreed
    assert job.errors == "HC0"
    assert section.given() == FILE  # what a consortium's file is made of
    other = FormulaJob.of("y ~ treated", SCHEMA, family_of_fit("gaussian"), PLAIN)
    assert job.agreed != other.agreed
    # The age is no column of the design, and still one of the row's.
    assert job.schema.names == SCHEMA.names
    assert job.model.variables == 3


@each(
    ("change", "message"),
    [
        ({"weights": "y"}, "leave one of them out"),
        ({"propensity": {}}, r"\[model.propensity\] needs 'formula'"),
        (
            {"propensity": {**FILE["propensity"], "kind": "ato"}},
            r"\[model.propensity\] kind is 'ato'; .*choose from ate, att",
        ),
        (
            {"propensity": {**FILE["propensity"], "largest": -1}},
            r"\[model.propensity\] largest must be",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_a_sentence(change, message):
    with pytest.raises(InvalidScenarioError, match=message):
        read_section({**FILE, **change}, ModelSpec, "[model]")


def test_the_ledger_knows_how_rows_were_weighted():
    frame = people()
    job = FormulaJob.of("y ~ treated", SCHEMA, family_of_fit("gaussian"), PLAIN)
    question = TableQuestion.of_text(job.question.text)
    weights = job.rows(job.schema.check("a", frame)).weights
    made = [values for _, values in question.made("a", frame)]
    for expected in (weights, weights * frame["treated"].to_numpy()):
        assert any(np.array_equal(one, expected) for one in made)
