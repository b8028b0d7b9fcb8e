"""The same people asked again, in another dress.

A ledger cannot tell from a table's look whether it is about other people: names, units
and zeros may be changed, a number may come as a vector or twice as large. So all data
count as the earlier ones unless their owner says otherwise, and every run counts,
because others may have brought other data to it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

import veilsum as vs
from attacks.organiser import Found, refused_by
from attacks.test_the_ledger import asking, patients
from cases import each

NAMES = "abcdef"
# How each column comes the second time: its name, a factor, and what is added.
CHANCE = np.random.default_rng(35)
COLUMNS = ("age", "bmi", "salary")
DRESSES = [
    {
        name: (
            name if k % 4 == 1 else f"{name}_{k}",
            1.0 if k % 4 == 2 else float(CHANCE.choice([0.001, 0.45, 2.2046, 12, -1])),
            0.0 if k % 4 == 3 else float(CHANCE.integers(-500, 500)),
        )
        for name in COLUMNS
    }
    for k in range(20)
]


def dressed(table, dress):
    return pd.DataFrame(
        {name: table[of] * factor + more for of, (name, factor, more) in dress.items()}
    )


def schema_of(tables):
    """What all of these tables are within, as their parties agree on it."""
    whole = pd.concat(tables.values())
    return vs.Schema(
        tuple(
            vs.Column(name, "number", *(values.min() - 9, values.max() + 9))
            for name, values in whole.items()
        ),
        minimum_rows=30,
    )


def by_another_dress(dress, **options):
    """One patient of c came between two questions, whose columns look different."""

    @asking
    def attack(organiser):
        before = {name: patients(name)[[*COLUMNS]] for name in NAMES}
        one = {"age": 44, "bmi": 23.5, "salary": 61_234.56}
        after = dict(before)
        after["c"] = pd.concat([before["c"], pd.DataFrame([one])], ignore_index=True)
        after = {name: dressed(table, dress) for name, table in after.items()}
        first = organiser.sums(before, schema=schema_of(before))
        name, factor, more = dress["salary"]
        second = organiser.sums(after, name, schema=schema_of(after), **options)
        found = (second[1] - more * second[0]) / factor - first[1]
        return Found([round(second[0] - first[0]), round(found, 2)], [1, one["salary"]])

    return attack


def test_renamed_rescaled_and_shifted_tables_are_not_taken_for_new():
    """20 of 20 are refused; every one that its owner declares new gives the patient."""
    for dress in DRESSES:
        assert refused_by(by_another_dress(dress)) == "BudgetError"


def test_who_declares_the_same_people_new_gives_a_patient_away():
    """The twin: what the consent page warns of."""
    found = [by_another_dress(dress, new_data=True)() for dress in DRESSES[:4]]
    assert [one.succeeded for one in found] == [True] * 4


def test_the_same_people_in_another_dress_may_be_asked():
    """The twin of honest work: nobody came, nobody left."""

    @asking
    def question(organiser):
        tables = {name: patients(name)[[*COLUMNS]] for name in NAMES}
        again = {name: dressed(one, DRESSES[0]) for name, one in tables.items()}
        organiser.sums(tables, schema=schema_of(tables))
        organiser.sums(again, DRESSES[0]["salary"][0], schema=schema_of(again))
        return {len(one.totals()) for one in organiser.ledgers.values()}

    assert question() == {1}


# Numbers that are no table

NUMBERS = dict(zip(NAMES, (52.0, 41.0, 63.0, 78.0, 35.0, 96.0), strict=True))
FORMS = {
    "with a one": (lambda x: [x, 1.0], lambda total: total[0]),
    "twice": (lambda x: [2 * x], lambda total: total[0] / 2),
    "alone": (lambda x: [x], lambda total: total[0]),
    "with a zero before": (lambda x: [0.0, x], lambda total: total[1]),
}


def by_another_form(form, **options):
    """A sum over six, then one over five of the same numbers in another form."""
    write, read = FORMS[form]

    @asking
    def attack(organiser):
        def total(values, **more):
            organiser.asked += 1
            how = {"run": f"run-{organiser.asked}", "seed": organiser.asked}
            ledgers = organiser.ledgers_of(values)
            found = vs.sum(values, largest=300.0, ledgers=ledgers, **how, **more)
            return found.answer

        of_six = total({name: [x] for name, x in NUMBERS.items()})
        five = {name: write(x) for name, x in NUMBERS.items() if name != "f"}
        of_five = read(total(five, **options))
        return Found(round(float(of_six[0] - of_five), 6), NUMBERS["f"])

    return attack


@each("form", FORMS)
def test_a_number_in_another_form_is_the_same_number(form):
    assert refused_by(by_another_form(form)) == "BudgetError"


@each("form", [one for one in FORMS if one != "alone"])
def test_who_declares_numbers_new_gives_a_party_away(form):
    """The twin: the total over five, taken off that over six."""
    assert by_another_form(form, new_data=True)().succeeded


# A meta-analysis, again and again

HONEST = "abcd"
EFFECTS, ERRORS = (-3.0, 3.0), (0.01, 2.0)


def studies(seed):
    chance = np.random.default_rng(seed)
    estimates = 0.4 + 0.5 * chance.normal(size=4)
    return np.column_stack([estimates, chance.uniform(0.1, 0.4, 4)])


def by_other_studies_of_ones_own(seed, *, ledgers=True, **options):
    """Four runs; the attacker's own study moves tau2, at which sums are taken."""

    @asking
    def attack(organiser):
        truth, equations = studies(seed), []
        for estimate in (0.412345678, 1.312345678, 2.112345678, 2.912345678):
            organiser.asked += 1
            own = (estimate, 0.112345678)
            given = dict(zip(HONEST, truth.tolist(), strict=True)) | {"e": own}
            found = vs.meta_analysis(
                given,
                effects=EFFECTS,
                errors=ERRORS,
                run=f"run-{organiser.asked}",
                seed=organiser.asked,
                driver="vectorised",
                ledgers=organiser.ledgers_of(HONEST) if ledgers else {},
                **options,
            )
            equations.append(without(found, *own))
        ordered = truth[truth[:, 0].argsort()]
        return Found(solved(equations).round(4).tolist(), ordered.round(4).tolist())

    return attack


def terms(y, v, tau2):
    """What studies with these estimates and variances add to both sums."""
    w, u = 1.0 / v, 1.0 / (v + tau2)
    return np.array([w, w * y, w * y * y, w * w, u, u * y])


def without(found, estimate, error):
    """The sums of one run without the attacker's own part, and tau2."""
    recipe, (first, second) = found.inner
    counts = [*first[:4], *second[:2]]
    units = [*recipe.ranges.sums.units, *[recipe.ranges.unit] * 2]
    sums = np.array([float(int(k) * u) for k, u in zip(counts, units, strict=True)])
    tau2, scale = float(recipe.totals([first]).tau2), float(recipe.ranges.scale)
    own = terms(np.array(estimate / scale), np.array(error**2), tau2)
    return sums - own, tau2, scale


def solved(equations):
    """Estimates and errors of four studies with these sums, ordered by estimate."""
    chance, best = np.random.default_rng(1), None

    def misses(point):
        y, v = point[:4] / equations[0][2], np.exp(2 * point[4:])
        return np.concatenate(
            [terms(y, v, tau2).sum(1) / sums - 1 for sums, tau2, _ in equations]
        )

    for _ in range(100):
        start = np.append(chance.normal(0.4, 0.6, 4), chance.uniform(-2.3, -0.9, 4))
        found = least_squares(misses, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
        best = found if best is None or found.cost < best.cost else best
        if best.cost < 1e-19:
            break
    made = np.column_stack([best.x[:4], np.exp(best.x[4:])])
    return made[made[:, 0].argsort()]


def test_a_repeated_meta_analysis_is_refused():
    """Four honest studies are eight numbers, and one run shows six sums of them."""
    for seed in range(8):
        assert refused_by(by_other_studies_of_ones_own(seed)) == "BudgetError"


def meta_again(coefficients, columns):
    """Ask for several coefficients in turn, of 5 parties with ledgers."""

    @asking
    def attempt(organiser):
        chance = np.random.default_rng(5)
        tables = {
            f"p{k}": pd.DataFrame({"dose": chance.integers(0, 100, 60)}).assign(
                sex=chance.choice(["f", "m"], 60),
                y=lambda t: t["dose"] + chance.integers(0, 50, 60),
            )
            for k in range(5)
        }
        number = {"kind": "integer", "minimum": 0, "maximum": 200}
        plain = {
            "dose": number,
            "y": number,
            "sex": {"kind": "category", "categories": ["f", "m"]},
        }
        for k, coefficient in enumerate(coefficients):
            schema = vs.Schema.from_table({"columns": plain | columns[k]})
            variable = coefficient.partition("[")[0]
            vs.meta(
                f"y ~ {variable}",
                tables,
                coefficient=coefficient,
                schema=schema,
                run=f"run-{k}",
                seed=k,
                effects=(-200, 200),
                errors=(0.01, 100),
                ledgers=organiser.ledgers_of(["p0"]),
            )

    return attempt


@each(
    ("coefficients", "columns"),
    [
        (["dose", "half"], [{}, {"half": {"of": "dose", "as": "scale", "unit": 2}}]),
        (
            ["C(sex)[T.m]", "C(sex)[T.f]"],
            [{}, {"sex": {"kind": "category", "categories": ["m", "f"]}}],
        ),
    ],
)
def test_a_meta_analysis_in_other_units_is_the_same_one(coefficients, columns):
    """Three units and other own rows gave all estimates away in 11 of 12 studies."""
    assert refused_by(meta_again(coefficients, columns)) == "BudgetError"


def test_another_coefficient_is_another_meta_analysis():
    meta_again(["dose", "C(sex)[T.m]"], [{}, {}])()


def test_who_keeps_no_ledger_gives_all_studies_away():
    """The twin: estimates and errors of all four, to four decimals."""
    found = [by_other_studies_of_ones_own(k, ledgers=False)() for k in range(3)]
    assert [one.succeeded for one in found] == [True] * 3


def runs_until_refused(question, most=9):
    for k in range(most):
        try:
            question(k)
        except vs.errors.BudgetError as refusal:
            return k, str(refusal)
    return most, ""


@each(("n_parties", "runs"), [(5, 1), (8, 2), (11, 3)])
def test_meta_analyses_are_charged_until_none_is_left(n_parties, runs):
    """Six sums a run, and two numbers of each honest party, one may be curious."""

    @asking
    def attempt(organiser):
        chance = np.random.default_rng(2)
        tables = {
            f"p{k:02}": pd.DataFrame(
                {"dose": chance.normal(size=40), "age": chance.normal(size=40)}
            ).assign(y=lambda t: 0.4 * t["dose"] + chance.normal(size=40))
            for k in range(n_parties)
        }

        def question(k):
            # Another formula has nearly the same estimates.
            formula = "y ~ dose + age" if k % 2 else "y ~ dose"
            how = {"run": f"run-{k}", "seed": k, "driver": "vectorised"}
            books = {"ledgers": organiser.ledgers_of(["p00"]), **how}
            vs.meta(formula, tables, coefficient="dose", **books)

        found = runs_until_refused(question)
        vs.meta("y ~ age", tables, coefficient="age", **organiser_books(organiser))
        return found

    n_runs, why = attempt()
    assert n_runs == runs
    assert "use the earlier result" in why


def organiser_books(organiser):
    return {
        "ledgers": organiser.ledgers_of(["p00"]),
        "run": "another coefficient",
        "seed": 1,
        "driver": "vectorised",
    }


def test_a_repeated_mixed_model_is_refused_where_parties_are_few():
    @asking
    def attempt(organiser):
        chance = np.random.default_rng(3)
        tables = {
            f"p{k:02}": {"x": chance.normal(size=30), "y": chance.normal(size=30) + k}
            for k in range(17)
        }

        def question(k):
            how = {"run": f"run-{k}", "seed": k, "driver": "vectorised"}
            books = {"ledgers": organiser.ledgers_of(["p00"]), **how}
            vs.mixed("y ~ x", tables, **books)

        return runs_until_refused(question)

    n_runs, why = attempt()
    assert n_runs == 1
    assert "solved for every party's numbers" in why


def test_a_repeated_fit_is_charged_again():
    @asking
    def numbers(organiser):
        tables = {name: patients(name) for name in NAMES}
        spent = []
        for _ in range(3):
            organiser.fit("salary ~ age", tables)
            spent.append(organiser.ledgers["a"].totals()[0].numbers)
        return spent

    one, two, three = numbers()
    assert (two, three) == (2 * one, 3 * one)
