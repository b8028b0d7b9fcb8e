"""Lattice reduction on the sums of one logistic fit, by one curious party.

Every row adds a public whole number, which depends on its cell (an age, with or without
HIV) and on the request alone. So the released sums are a linear system in the counts of
cells, with large coefficients and small unknowns. Residues tell the same as whole
totals: the window in which a total lies is public.

Responses are in one exact sum, and are not rebuilt. The covariates are, wherever all
released numbers together have more bits than these columns hold: that is open, and
every such fit says so. Twelve digits release twice as much as 300 rows of 78 ages hold.
Four digits release less, and another table has the same sums; but they are more than
300 rows of 40 ages hold, or of 40 ages and two sexes. Twins have the exact sum over
responses that every round had once.

Probit and ordinal fits sum over responses in every round: small ones give these as
well. A Cox regression over agreed times gives ages and times, and no events.
"""

import sys
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from flint import fmpq_mat, fmpz_mat
from scipy.special import ndtr

import veilsum as vs
from veilsum.consortium.kinds import BUILT_IN
from veilsum.models.rows import Rows
from veilsum.sums.table_job import SchemaTableJob

FINE = 52
SEX = "female"
CURIOUS, CLINICS, OWN = "curious", 3, 60


def patients(seed, n_rows, ages, sexes=()):
    """Return rows of all honest parties, and of the curious one."""
    draw = np.random.default_rng(seed)
    middle, width = (ages[0] + ages[-1]) / 2, len(ages) / 5

    def table(n):
        age = draw.choice(np.array(ages), n)
        chance = 1.0 / (1.0 + np.exp((middle - age) / width))
        hiv = (draw.random(n) < chance) * 1
        more = {SEX: draw.choice(np.array(sexes), n)} if sexes else {}
        return pd.DataFrame({"age": age, **more, "hiv": hiv})

    return table(n_rows), table(OWN)


@dataclass
class Study:
    """One fit of `hiv ~ age` by three honest parties and a curious one.

    Attributes:
        ages: that there may be.
        rows: of all honest parties.
        own: rows of the curious one.
        result: of the fit.
        sexes: values of a further column, if there is one.
        family: binomial or probit.
    """

    ages: range
    rows: pd.DataFrame
    own: pd.DataFrame
    result: vs.FitResult
    sexes: tuple[int, ...] = ()
    family: str = "binomial"

    @classmethod
    def drawn(cls, seed, n_rows, ages, sexes=(), **options):
        return cls.of(*patients(seed, n_rows, ages, sexes), ages, sexes, **options)

    @classmethod
    def of(cls, rows, own, ages, sexes=(), family="binomial", **options):
        """Return the study of some honest rows, and the curious party's own."""
        tables = {f"clinic-{k}": rows.iloc[k::CLINICS] for k in range(CLINICS)}
        columns = [vs.Column("age", "integer", ages[0], ages[-1])]
        columns += [vs.Column(SEX, "integer", 0, 1)] if sexes else []
        columns += [vs.Column("hiv", "integer", 0, 1)]
        result = vs.fit(
            f"hiv ~ age + {SEX}" if sexes else "hiv ~ age",
            {**tables, CURIOUS: own},
            family=family,
            schema=vs.Schema(tuple(columns), minimum_rows=40),
            **options,
        )
        return cls(ages, rows, own, result, sexes, family)

    @property
    def cells(self):
        """Covariates of all rows that there may be."""
        return [*product(self.ages, *([self.sexes] if self.sexes else []))]

    @property
    def names(self):
        return ["age", SEX] if self.sexes else ["age"]

    def counts(self, *answers):
        """Return how many honest rows with one of these answers there are by cell."""
        rows = self.rows[self.rows.hiv.isin(answers)]
        known = rows.groupby(self.names).size()
        keys = [one if self.sexes else one[0] for one in self.cells]
        return np.array([int(known.get(key, 0)) for key in keys], dtype=object)

    def system(self, n_sums=None):
        """Return what a row of each cell adds to each sum, and the honest totals."""
        recipe, sums = self.result.inner
        newton = recipe.newton
        effects, totals = {0: [], 1: []}, []
        for k, total in enumerate(sums[:n_sums]):
            request = newton.propose(recipe.state(sums[:k]))
            for hiv, known in effects.items():
                known.append(effects_of(newton, request, self.cells, hiv))
            own = sums_of(newton, request, self.own[[*self.names, "hiv"]].to_numpy())
            whole = np.array([int(number) for number in total], dtype=object)[
                : len(own)
            ]
            if request.fineness is not None:
                whole = request.fineness.decoded(whole)
            totals.append(whole - own)
        return (
            np.hstack(effects[0]),
            np.hstack(effects[1]),
            np.concatenate(totals),
        )

    @property
    def predictors(self):
        """Return each cell's predictor at the answer."""
        at = self.result.coefficients
        cells = np.array(self.cells, dtype=float)
        return at["Intercept"] + cells @ [at[name] for name in self.names]

    def pearson(self):
        """Return a row's part of Pearson's sum in each round, by age and answer."""
        recipe, sums = self.result.inner
        newton, found = recipe.newton, {0: [], 1: []}
        for k in range(1, len(sums)):
            request = newton.propose(recipe.state(sums[:k]))
            point = newton.real_point(request)
            eta = point[0] + point[1] * np.array(self.ages)
            for hiv, rounds in found.items():
                odds = np.exp(eta if hiv == 0 else -eta)
                rounds.append([int(value) for value in np.rint(odds * 2.0**FINE)])
        return tuple(np.array(found[hiv], dtype=object).T for hiv in (0, 1))


def effects_of(newton, request, cells, hiv):
    """Return what a row of each cell adds to a sum."""
    rows = [sums_of(newton, request, [(*one, hiv)]) for one in cells]
    return np.array(rows, dtype=object)


def sums_of(newton, request, rows):
    """Return sums over rows of covariates and an answer."""
    *columns, hiv = np.array(rows, dtype=float).T
    design = np.column_stack([np.ones(len(hiv)), *columns])
    return newton.statistics(Rows(design, hiv), request)


def nearest(effects, totals, centre, spread):
    """Return whole n with n @ effects = totals, nearest to a centre; None if missed."""
    scale, n = 1000, len(effects)
    columns = [k for k in range(effects.shape[1]) if any(effects[:, k])]
    effects, totals = effects[:, columns], totals[columns]
    weights = [max(1, round(scale / float(one))) for one in spread]
    large = 1 << 60
    lines = [
        [weights[i] * (i == j) for j in range(n)]
        + [0]
        + [large * int(value) for value in effects[i]]
        for i in range(n)
    ]
    target = [-round(w * float(c)) for w, c in zip(weights, centre, strict=True)]
    lines.append([*target, scale, *(-large * int(value) for value in totals)])
    reduced = fmpz_mat(lines).lll(delta=0.999, eta=0.501)
    best = None
    for i in range(reduced.nrows()):
        line = [int(reduced[i, j]) for j in range(reduced.ncols())]
        if abs(line[n]) != scale or any(line[n + 1 :]):
            continue
        length, sign = sum(v * v for v in line[: n + 1]), line[n] // scale
        if best is None or length < best[0]:
            parts = zip(line, weights, target, strict=False)
            best = length, [(sign * v - t) // w for v, w, t in parts]
    return None if best is None else np.array(best[1], dtype=object)


def rebuilt_cells(n_rows, without, totals):
    """Return how many rows of each cell there are, from sums that no answer moves."""
    one = np.ones(len(without))
    mean = n_rows / len(without)
    return nearest(without, totals, mean * one, mean**0.5 * one)


def rebuilt_answers(study, cells, difference, totals):
    """Return how many rows of each cell have HIV."""
    held = np.flatnonzero(cells.astype(int))
    chance = 1.0 / (1.0 + np.exp(-study.predictors))
    size = cells[held].astype(float)
    spread = np.sqrt(size * chance[held] * (1 - chance[held]))
    found = nearest(difference[held], totals, size * chance[held], spread)
    if found is None:
        return None
    answers = np.zeros(len(cells), dtype=object)
    answers[held] = found
    return answers


def covariates(study):
    """Return what was rebuilt of the covariates, by cell; None if nothing was."""
    without, with_hiv, totals = study.system()
    alike = (without == with_hiv).all(axis=0)
    return rebuilt_cells(len(study.rows), without[:, alike], totals[alike])


def attacked(study, *, pearson=False):
    """Say whether the covariates, and whether the answers, were rebuilt exactly."""
    without, with_hiv, totals = study.system()
    truth = study.counts(0, 1)
    alike = (without == with_hiv).all(axis=0)
    cells = rebuilt_cells(len(study.rows), without[:, alike], totals[alike])
    if cells is None or (cells != truth).any():
        return False, False
    if pearson:
        no, yes = study.pearson()
        more = study.counts(0) @ no + study.counts(1) @ yes
        without, with_hiv = np.hstack([without, no]), np.hstack([with_hiv, yes])
        totals = np.concatenate([totals, more])
    rest = totals - cells @ without
    answers = rebuilt_answers(study, cells, with_hiv - without, rest)
    return True, answers is not None and bool((answers == study.counts(1)).all())


def test_sums_of_a_fit_give_the_covariate_and_not_the_answers():
    study = Study.drawn(0, 150, range(30, 70))
    assert attacked(study) == (True, False)
    assert attacked(study, pearson=True) == (True, True)


def test_the_answers_of_a_small_table_are_not_rebuilt():
    """With all bits of a single Pearson sum they were."""
    study = Study.drawn(0, 120, range(40, 60))
    assert attacked(study) == (True, False)
    assert attacked(study, pearson=True) == (True, True)


@pytest.mark.slow
def test_answers_of_twenty_studies_are_not_rebuilt():
    """All 20 columns of ages are; with Pearson's sum in every round, answers too."""
    studies = [large(seed, 12) for seed in range(20)]
    found = [attacked(study) for study in studies]
    assert found == [(True, False)] * 20
    twins = [attacked(study, pearson=True)[1] for study in studies]
    assert sum(twins) >= 10


# Digits


def large(seed, digits):
    """A study in which a cell of age has about four rows."""
    return Study.drawn(seed, 300, range(18, 96), digits=digits)


def with_sex(seed, digits):
    """A study with three coefficients, and about four rows in a cell."""
    return Study.drawn(seed, 300, range(40, 80), (0, 1), digits=digits)


SOME, ALL = 2, pytest.param(20, marks=pytest.mark.slow, id="twenty")


@pytest.mark.parametrize("times", [SOME, ALL])
@pytest.mark.parametrize("drawn", [large, with_sex])
def test_twelve_digits_give_the_covariates(drawn, times):
    """The twin of the next test. Open: the fit says so."""
    for seed in range(times):
        study = drawn(seed, 12)
        assert (covariates(study) == study.counts(0, 1)).all()


TWENTY, FORTY = range(40, 60), range(30, 70)
FEW_AGES = [(120, TWENTY, 2, 2)] + [
    pytest.param(*case, 20, marks=pytest.mark.slow)
    for case in [(120, TWENTY, 2), (120, TWENTY, 4), (150, FORTY, 4), (300, FORTY, 4)]
]


@pytest.mark.parametrize(("n_rows", "ages", "digits", "times"), FEW_AGES)
def test_open_digits_do_not_hide_a_column_of_few_ages(n_rows, ages, digits, times):
    """Of one column; the twins are 78 ages, of which another table has the sums."""
    for seed in range(times):
        study = Study.drawn(seed, n_rows, ages, digits=digits)
        assert (covariates(study) == study.counts(0, 1)).all()


def same_sums_as(study):
    """Return other honest rows of which all sums that no answer moves are the same."""
    without, with_hiv, _ = study.system()
    effects, truth = without[:, (without == with_hiv).all(axis=0)], study.counts(0, 1)
    n, large = len(truth), 1 << 60
    lines = [
        [int(i == j) for j in range(n)] + [large * int(value) for value in effects[i]]
        for i in range(n)
    ]
    reduced = fmpz_mat(lines).lll(delta=0.999, eta=0.501)
    found = []
    for i in range(reduced.nrows()):
        line = [int(reduced[i, j]) for j in range(reduced.ncols())]
        if any(line[:n]) and not any(line[n:]):
            found += [truth + np.array(line[:n]), truth - np.array(line[:n])]
    possible = [one for one in found if min(one) >= 0]
    return max(possible, key=lambda one: abs(one - truth).sum(), default=None)


def answered(study, cells):
    """Return rows of these ages, with answers of the same number and sum of ages."""
    ages = np.repeat(np.array(study.ages), cells.astype(int))
    ill = study.rows.age[study.rows.hiv == 1]
    hiv = np.zeros(len(ages), dtype=int)
    hiv[: len(ill)] = 1
    # From the youngest ones up: the oldest that has room to move moves.
    while missing := int(ill.sum()) - int(ages @ hiv):
        k = np.flatnonzero(hiv)[::-1]
        moves = [
            (ages[to] - ages[at], at, to)
            for at in k
            for to in np.flatnonzero(hiv == 0)
            if 0 < ages[to] - ages[at] <= missing
        ]
        _, at, to = max(moves)
        hiv[[at, to]] = 0, 1
    return pd.DataFrame({"age": ages, "hiv": hiv})


@pytest.mark.parametrize("times", [SOME, ALL])
def test_of_two_coefficients_with_four_digits_another_table_has_the_same_sums(times):
    """Of all rounds, to the last bit: nobody can know which of them it was."""
    for seed in range(times):
        study = large(seed, 4)
        cells = same_sums_as(study)
        assert abs(cells - study.counts(0, 1)).sum() >= 20
        other = Study.of(answered(study, cells), study.own, study.ages, digits=4)
        assert (other.counts(0, 1) == cells).all()
        mine, yours = (
            [one.tolist() for one in each.result.released.sums]
            for each in (study, other)
        )
        assert mine == yours


def test_of_two_coefficients_with_twelve_digits_no_other_table_has_them():
    assert same_sums_as(large(0, 12)) is None


@pytest.mark.parametrize("times", [SOME, ALL])
@pytest.mark.parametrize("digits", [4, 6])
def test_three_coefficients_give_half_of_the_tables(digits, times):
    """Open: the sums of nine numbers in each round are more than the cells hold."""
    studies = [with_sex(seed, digits) for seed in range(times)]
    found = [(covariates(one) == one.counts(0, 1)).all() for one in studies]
    assert sum(found) >= times / 2


@pytest.mark.parametrize("times", [SOME, ALL])
def test_three_coefficients_with_two_digits_do_not(times):
    studies = [with_sex(seed, 2) for seed in range(times)]
    found = [(covariates(one) == one.counts(0, 1)).all() for one in studies]
    assert sum(found) == 0


def ranks(digits, n_ages):
    """Return the rank of the equations of a first sum, and that of all sums."""
    study = Study.drawn(0, 300, range(40, 40 + n_ages), digits=digits)
    recipe, sums = study.result.inner
    lines = {}
    for n_sums in (1, len(sums)):
        without, ill = [], []
        for k in range(n_sums):
            request = recipe.newton.propose(recipe.state(sums[:k]))
            for hiv, known in ((0, without), (1, ill)):
                known.append(effects_of(recipe.newton, request, study.cells, hiv))
        without, ill = np.hstack(without), np.hstack(ill)
        alike = without[:, (without == ill).all(axis=0)]
        lines[n_sums] = fmpz_mat([[int(one) for one in row] for row in alike]).rank()
    return [*lines.values()]


@pytest.mark.parametrize("digits", [2, 4, 12])
def test_twelve_ages_are_the_only_ones_with_their_sums(digits):
    """Open: equations are as many as unknowns, so nothing needs to be searched for.

    The first sum alone, the twin, leaves nine of twelve counts open.
    """
    assert ranks(digits, 12) == [3, 12]


# Other families


def answers_rebuilt(study, n_sums=None):
    """Say whether ages and answers were rebuilt together, from all sums or the first.

    For links that are not canonical: every round's sums change with answers.
    """
    without, with_hiv, totals = study.system(n_sums)
    chance = ndtr(study.predictors.astype(float))
    size = len(study.rows) / len(study.cells)
    means = size * np.concatenate([1 - chance, chance])
    effects, spread = np.vstack([without, with_hiv]), np.sqrt(np.maximum(means, 0.05))
    truth = np.concatenate([study.counts(0), study.counts(1)])
    found = nearest(effects, totals, means, spread)
    return found is not None and bool((found == truth).all())


def probit(seed, n_rows, n_ages, digits=4):
    """A probit fit; 20 ages and 120 rows are six rows of each age."""
    ages = range(40, 40 + n_ages)
    return Study.drawn(seed, n_rows, ages, family="probit", digits=digits)


@pytest.mark.parametrize("times", [SOME, ALL])
def test_open_small_probit_fits_give_every_age_and_answer(times):
    """The twin: the first sum alone, which has few numbers."""
    studies = [probit(seed, 120, 20) for seed in range(times)]
    assert sum(map(answers_rebuilt, studies)) == times
    assert not any(answers_rebuilt(study, 1) for study in studies)


@pytest.mark.parametrize("times", [SOME, ALL])
def test_open_two_digits_give_small_probit_fits_too(times):
    studies = [probit(seed, 120, 20, digits=2) for seed in range(times)]
    assert sum(map(answers_rebuilt, studies)) == times


@pytest.mark.slow
def test_open_one_probit_fit_of_forty_ages_is_rebuilt():
    """1 of 20; with 20 ages all are."""
    studies = [probit(seed, 150, 40) for seed in range(20)]
    assert 1 <= sum(map(answers_rebuilt, studies)) <= 3


@pytest.mark.slow
def test_probit_fits_of_78_ages_are_not_rebuilt():
    assert not any(answers_rebuilt(probit(seed, 300, 78)) for seed in range(4))


@dataclass
class Job:
    """A fit of any kind, by what its job answers for single rows.

    Attributes:
        job: whose schema admits a table of one row.
        result: of the fit.
        rows: of all honest parties.
        own: rows of the curious one.
        cells: rows that there may be, in columns that are looked for.
        others: values of the remaining columns, which may change no sum that is used.
    """

    job: SchemaTableJob
    result: object
    rows: pd.DataFrame
    own: pd.DataFrame
    cells: pd.DataFrame
    others: tuple[dict[str, int], ...] = ({},)

    def answers(self, table, requests):
        rows = self.job.bring(self.job.schema.check(CURIOUS, table))
        return np.concatenate([self.job.answer(rows, one) for one in requests])

    def system(self, n_sums):
        """Return what a row of each cell adds, and totals that others do not move."""
        recipe, sums = self.result.inner
        sums = sums[:n_sums]
        requests = [recipe.request(sums[:k]) for k in range(len(sums))]
        cells = self.cells.to_dict("records")
        either = [
            np.array(
                [self.answers(pd.DataFrame([cell | other]), requests) for cell in cells]
            )
            for other in self.others
        ]
        whole = []
        for total, request in zip(sums, requests, strict=True):
            numbers = np.array([int(one) for one in total], dtype=object)
            fineness = getattr(getattr(request, "inner", None), "fineness", None)
            whole.append(numbers if fineness is None else fineness.decoded(numbers))
        totals = np.concatenate(whole) - self.answers(self.own, requests)
        alike = (either[0] == either[-1]).all(axis=0)
        return either[0][:, alike], totals[alike]

    def rebuilt(self, n_sums=None):
        """Say whether the number of honest rows of each cell was rebuilt."""
        names = [*self.cells.columns]
        known = self.rows.groupby(names).size()
        keys = self.cells.itertuples(index=False, name=None)
        truth = [int(known.get(key, 0)) for key in keys]
        found = rebuilt_cells(len(self.rows), *self.system(n_sums))
        return found is not None and found.tolist() == truth


def job_of(kind, rows, own, schema, cells, others=({},), **keys):
    tables = {f"clinic-{k}": rows.iloc[k::CLINICS] for k in range(CLINICS)}
    asked = {"model": vs.fit, "cox": vs.cox}[kind]
    result = asked(**keys, data={**tables, CURIOUS: own}, schema=schema)
    job = BUILT_IN[kind].load().make_job(replace(schema, minimum_rows=1), **keys)
    cells = pd.DataFrame([*product(*cells.values())], columns=[*cells])
    return Job(job, result, rows, own, cells, others)


SIZES = (2, 8), pytest.param(20, 20, marks=pytest.mark.slow, id="twenty")
STAGES = ("I", "II", "III")


def ordinal(seed, n_ages=20, n_rows=120):
    """An ordinal fit of three stages on age."""
    draw, ages = np.random.default_rng(seed), range(40, 40 + n_ages)

    def table(n):
        age = draw.choice(np.array(ages), n)
        level = 5 * (age - 40 - n_ages / 2) / n_ages + draw.logistic(size=n)
        return pd.DataFrame(
            {"age": age, "stage": np.array(STAGES)[np.digitize(level, [-1, 1])]}
        )

    columns = (
        vs.Column("age", "integer", ages[0], ages[-1]),
        vs.Column("stage", "category", categories=STAGES),
    )
    schema = vs.Schema(columns, minimum_rows=40)
    cells = {"age": ages, "stage": STAGES}
    keys = {"formula": "stage ~ age", "family": "ordinal"}
    return job_of("model", table(n_rows), table(OWN), schema, cells, **keys)


QUARTERS = range(1, 4)


def timed(seed, n_ages=20, n_rows=300):
    """A Cox regression over three agreed quarters, in which rows are counted."""
    draw, ages = np.random.default_rng(seed), range(40, 40 + n_ages)

    def table(n):
        age = draw.choice(np.array(ages), n)
        died = draw.random(n) < 0.3 + 0.4 * (age - 40) / n_ages
        quarter = draw.choice(np.array(QUARTERS), n)
        return pd.DataFrame({"age": age, "quarter": quarter, "died": died * 1})

    columns = (
        vs.Column("age", "integer", ages[0], ages[-1]),
        vs.Column("quarter", "integer", 1, QUARTERS[-1]),
        vs.Column("died", "integer", 0, 1),
    )
    schema = vs.Schema(columns, minimum_rows=100)
    cells, others = {"age": ages, "quarter": QUARTERS}, ({"died": 0}, {"died": 1})
    keys = {"times": [*QUARTERS], "strata": "none"}
    keys["formula"] = "Surv(quarter, died) ~ age"
    return job_of("cox", table(n_rows), table(100), schema, cells, others, **keys)


@pytest.mark.parametrize(("times", "n_ages"), SIZES)
def test_open_ordinal_fits_give_every_age_and_stage(times, n_ages):
    studies = [ordinal(seed, n_ages) for seed in range(times)]
    assert sum(study.rebuilt() for study in studies) >= 0.9 * times
    assert not any(study.rebuilt(1) for study in studies)


@pytest.mark.parametrize(("times", "n_ages"), SIZES)
def test_open_cox_fits_over_agreed_times_give_ages_and_times(times, n_ages):
    """Events are in one exact sum, and are not rebuilt."""
    studies = [timed(seed, n_ages) for seed in range(times)]
    assert sum(study.rebuilt() for study in studies) == times
    assert not any(study.rebuilt(1) for study in studies)


# What the price takes the honest rows to hold


def test_the_price_takes_a_large_party_s_rows_for_honest_ones(monkeypatch):
    """Open: parties are taken to be of one size, whoever looks on or makes up rows.

    With parties of one size it counts fewer rows than honest parties have.
    """
    assert large(0, 4).result.price.rows <= 300
    monkeypatch.setattr(sys.modules[__name__], "OWN", 3_000)
    assert large(0, 4).result.price.rows > 2_000


# Sizes of parties


def sizes_rebuilt(seed, *, counts_only=False):
    """Say whether one party of 17 finds all others' sizes in a mixed model."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(10, 60, 17).tolist()
    x = vs.Column("x", "number", 0, 1, unit=0.01)
    y = vs.Column("y", "number", -10, 10, unit=0.01)
    schema = vs.Schema((x, y), minimum_rows=10, maximum_rows=60)
    tables = {}
    for k, size in enumerate(sizes):
        at = draw.integers(0, 101, size) / 100
        level = 1.0 + at + draw.normal() + draw.normal(size=size)
        tables[f"site-{k}"] = pd.DataFrame({"x": at, "y": level.round(2)})
    recipe, sums = vs.mixed("y ~ x", tables, schema=schema).inner
    mixing, possible = recipe.model.mixing, range(10, 61)

    def given(size, request, other):
        # A'A of columns [1, x, y]: sizes are in its first entry alone.
        moments = fmpq_mat(3, 3, [size, other, other, other, 9, 2, other, 2, 9])
        return mixing.vector(moments, size, request)

    effects, totals = [], []
    for k, total in enumerate(sums):
        request = recipe.request(sums[:k])
        rows = np.array([given(size, request, 0) for size in possible], dtype=object)
        others = np.array([given(size, request, 1) for size in possible], dtype=object)
        places = np.flatnonzero((rows == others).all(axis=0))
        places = places[-2:] if counts_only else places  # rows and parties
        own = given(sizes[0], request, 0)
        effects.append(rows[:, places])
        totals += [int(total[place]) - int(own[place]) for place in places]
    mean = np.full(len(possible), 16 / len(possible))
    found = nearest(np.hstack(effects), np.array(totals, dtype=object), mean, mean**0.5)
    truth = [sizes[1:].count(size) for size in possible]
    return found is not None and found.tolist() == truth


def test_a_mixed_model_gives_every_party_s_number_of_rows():
    """Open: the page of consent says so. Counts of rows and parties alone do not."""
    assert sizes_rebuilt(0)
    assert not sizes_rebuilt(0, counts_only=True)


@pytest.mark.slow
def test_sizes_of_parties_follow_in_eight_mixed_models():
    assert sum(map(sizes_rebuilt, range(8))) == 8
