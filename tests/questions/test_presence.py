"""Who holds what is asked first: a sum over all is never one over a few."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cases import each
from refusals import refused
from veilsum.files.ledger import open_ledger
from veilsum.numbers.layout import NumberLayout, layout_number
from veilsum.privacy.accountant import Budget
from veilsum.privacy.guarantee import (
    SAME_VIEWS_LIMIT,
    SCREENED_SAME_VIEWS_LIMIT,
    UNITS_LIMIT,
)
from veilsum.questions.regression import fit, fit_arrays
from veilsum.questions.statistics import statistics
from veilsum.questions.sums import OneSum
from veilsum.sums.presence import (
    PRESENCE,
    PresenceCells,
    PresenceScreenedRecipe,
    PresenceVaryingColumns,
    places_with_rows,
)
from veilsum.sums.recipes import SumContribution
from veilsum.sums.running import run_sum_job
from veilsum.sums.table_job import open_limits_of_rules
from veilsum.sums.terms import SumTerms
from veilsum.tables.rules import DisclosureError, Rules

PARTIES = tuple(f"h{k}" for k in range(7))
# Only the question across parties: what each sees at home has tests of its own.
ASKED = Rules.none(site_terms=False, most_rounds=15)
QUICK = {"driver": "vectorised", "seed": 1}


def table(name, seed, n=40):
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "site": [name] * n,
            "sex": draw.permutation(["f", "m"] * (n // 2)),
            "ill": draw.permutation([0, 1] * (n // 2)),
            "age": draw.integers(20, 90, n),
            "cost": draw.integers(0, 1000, n),
        }
    )


DATA = {name: table(name, k) for k, name in enumerate(PARTIES)}


def with_flag(*holders, name="flag"):
    """Give some parties a column of ones, and all others one of zeros."""
    return {p: one.assign(**{name: int(p in holders)}) for p, one in DATA.items()}


def with_code(*holders, third=2):
    """Give all parties zeros and ones, and some a further whole number."""
    return {
        p: one.assign(code=[0, 1] * 18 + [third if p in holders else 1] * 4)
        for p, one in DATA.items()
    }


SITE_QUESTIONS = {
    "level": (fit, ("cost ~ age + C(site)", DATA), {}),
    "cell": (fit, ("cost ~ C(site):C(sex)", DATA), {}),
    "slope": (fit, ("cost ~ C(site):age", DATA), {}),
    "response": (fit, ("flag ~ age", with_flag("h2")), {"family": "logistic"}),
    "number": (fit, ("cost ~ age + flag", with_flag("h2")), {}),
    "third value": (
        fit,
        ("cost ~ code + code_2 + age", with_code("h2")),
        {"derived": {"code_2": {"of": "code", "as": "power", "exponent": 2}}},
    ),
    "fifth value": (
        statistics,
        (with_code("h2", third=4),),
        {"columns": ["code", "age"]},
    ),
    "disguise": (
        fit,
        ("cost ~ disguise + age", with_flag("h2")),
        {"derived": {"disguise": {"of": "flag", "as": "log1p"}}},
    ),
    "weights": (
        fit,
        ("cost ~ age", {p: o.assign(w=1 + (p == "h2")) for p, o in DATA.items()}),
        {"weights": "w"},
    ),
    "table": (statistics, (DATA,), {"tables": [("site", "sex")], "columns": []}),
    "mean": (statistics, (with_flag("h2"),), {"columns": ["flag", "age"]}),
}


# Of these, one party's own table is enough to see it, and nothing is asked at all.
AT_HOME = {"level", "cell", "slope", "disguise", "table"}


@pytest.mark.parametrize(
    ("which", "driver"),
    [
        *((which, "vectorised") for which in SITE_QUESTIONS),
        ("level", "loopback"),
        ("table", "loopback"),
    ],
)
def test_a_question_about_one_site_ends_after_the_first_sum(which, driver, tmp_path):
    ask, given, options = SITE_QUESTIONS[which]
    book = {"h0": open_ledger(tmp_path / "h0.ledger", create=Budget())}
    with pytest.raises(DisclosureError, match="site_terms = true") as told:
        ask(*given, **options, rules=ASKED, driver=driver, seed=1, ledgers=book)
    assert (told.value.rule, told.value.plain) == (
        "site_terms",
        "refused by site_terms",
    )
    shown = [one.statistic for one in book["h0"].history().releases]
    assert len(shown) == (which not in AT_HOME)
    assert all(one.startswith("who holds what") for one in shown)


@each("which", sorted({*SITE_QUESTIONS} - {"disguise"}))
def test_the_same_question_runs_where_site_terms_are_allowed(which):
    """The twin: what refuses is this rule, and its absence is said."""
    ask, given, options = SITE_QUESTIONS[which]
    if which in ("level", "cell", "slope", "number", "complement"):
        options = {**options, "ridge": 1.0}
    found = ask(*given, **options, rules=replace(ASKED, site_terms=True), **QUICK)
    assert not isinstance(found.recipe, PresenceScreenedRecipe)
    (said,) = open_limits_of_rules(Rules(site_terms=True))
    assert said in found.guarantee.limits


@each("tolerate", [0, 1, 2])
def test_a_level_has_no_holder_or_two_beyond_those_who_collude(tolerate):
    for holders in range(8):
        data = {
            p: one.assign(ward=["a", "b"] * 19 + ["c" if k < holders else "a", "b"])
            for k, (p, one) in enumerate(DATA.items())
        }
        some = {"tolerate": tolerate, "columns": [], "rules": ASKED, **QUICK}
        found = statistics(data, tables=[("ward",)], **some)
        merged = {"ward": [["a", "c"]]} if 0 < holders < max(tolerate, 1) + 2 else {}
        assert found.merged == merged


def test_a_whole_number_of_few_values_is_held_by_several_or_none():
    """Of x and x^2 the mean at the third value follows: nobody's alone, so it runs."""
    code = with_code("h2", "h3", "h4")
    squares = {"code_2": {"of": "code", "as": "power", "exponent": 2}}
    found = fit("cost ~ code + code_2", code, rules=ASKED, derived=squares, **QUICK)
    first, *_ = found.released.sums
    assert first[:3].tolist() == [7, 7, 3]
    pooled = pd.concat(code.values())
    expected = pooled.loc[pooled["code"] == 2, "cost"].mean()
    assert found.fit.coefficients @ [1, 2, 4] == pytest.approx(expected, rel=1e-9)
    # Six values are too many to be asked about.
    many = with_code("h2", third=5)
    assert len(fit("cost ~ code", many, rules=ASKED, **QUICK).released.sums) == 1


def test_numbers_alone_take_no_sum_more():
    found = fit("cost ~ age", DATA, rules=ASKED, **QUICK)
    assert len(found.released.sums) == 1
    assert UNITS_LIMIT in found.guarantee.limits
    arrays = {p: (one[["age"]], one["cost"]) for p, one in DATA.items()}
    assert len(fit_arrays(arrays, rules=ASKED, **QUICK).released.sums) == 1
    flags = {p: (one[["age", "ill"]], one["cost"]) for p, one in DATA.items()}
    assert len(fit_arrays(flags, rules=ASKED, **QUICK).released.sums) == 2


def test_two_splits_of_the_parties_that_differ_in_one_are_refused():
    """Each value of each is held by three parties or more; their difference by h3."""
    split = with_flag("h0", "h1", "h2")
    split = {p: one.assign(other=int(p in PARTIES[:4])) for p, one in split.items()}
    with refused("tells-parties-apart", DisclosureError, mentions=("0",)):
        fit("cost ~ flag + other", split, rules=ASKED, **QUICK)
    found = fit("cost ~ flag + other", split, rules=Rules.none(), **QUICK)
    model = found.fit
    # Sums over h0 to h3 and over h0 to h2 follow from the coefficients of the fit.
    means = model.coefficients[0] + model.coefficients[2]
    assert means == pytest.approx(DATA["h3"]["cost"].mean(), rel=1e-9)


def test_the_counts_are_those_of_parties():
    data = {p: one.query("age > 87 or sex == 'f'") for p, one in DATA.items()}
    data = {p: one.reset_index(drop=True) for p, one in data.items()}
    found = statistics(data, tables=[("sex",)], columns=["ill"], rules=ASKED, **QUICK)
    sexes = [sum(level in set(one["sex"]) for one in data.values()) for level in "fm"]
    both = [sum(one["sex"].nunique() > 1 for one in data.values())]
    both += [sum(one["ill"].nunique() > 1 for one in data.values())]
    ills = [sum(value in set(one["ill"]) for one in data.values()) for value in (0, 1)]
    assert 2 < sexes[1] < 7
    first = found.released.sums[0].tolist()
    # Values of a number come first; small cells of tables merge.
    assert first[:6] == [*ills, *sexes, *both[::-1]]
    assert not any(first[6:])
    assert found.releases[0].numbers == 6
    assert found.recipe.most_numbers == 6 + found.inner[0].size


def test_what_is_said_of_rows_holds_for_dealings_that_leave_the_first_sum():
    """An exchange of alike rows changes no sum; one that moves a level does."""
    limits = fit("cost ~ C(sex) + age", DATA, rules=ASKED, **QUICK).guarantee.limits
    assert SCREENED_SAME_VIEWS_LIMIT in limits
    assert SAME_VIEWS_LIMIT not in limits

    def totals(data):
        found = fit("cost ~ C(sex) + age", data, rules=ASKED, **QUICK).released.sums
        return [one.tolist() for one in found]

    pooled = pd.concat(DATA.values(), ignore_index=True).drop(columns="site")
    mixed = pooled.sample(frac=1.0, random_state=3)
    dealt = {p: mixed.iloc[k::7].reset_index(drop=True) for k, p in enumerate(PARTIES)}
    assert totals(dealt) == totals(DATA)
    by_sex = pooled.sort_values("sex", ignore_index=True)
    ends = [0, 20, 50, 90, 170, 220, 250, 280]
    apart = {
        p: by_sex.iloc[ends[k] : ends[k + 1]].reset_index(drop=True)
        for k, p in enumerate(PARTIES)
    }
    with pytest.raises(DisclosureError):
        totals(apart)


def test_numbers_of_the_first_sum_count_against_the_limit():
    """Of 3 x 6 x 4 numbers 23 may be shown: 20 fit, six counts of parties more not."""
    data = {p: DATA[p].head(6) for p in PARTIES[:4]}
    rules = Rules.none(site_terms=False, release_fraction=0.32)
    ask = {"minimum_rows": 6, "ridge": 1.0, **QUICK}
    with refused("releases-too-much", DisclosureError, mentions=("6", "20")) as told:
        fit("cost ~ age + ill + C(sex)", data, rules=rules, **ask)
    assert told.value.rule == "release_fraction"
    rules = replace(rules, site_terms=True)
    assert fit("cost ~ age + ill + C(sex)", data, rules=rules, **ask).recipe.size == 20


@pytest.mark.parametrize("driver", ["vectorised", "loopback"])
def test_sums_are_filled_up_where_more_is_asked_first(driver):
    group = PresenceCells(("ward",), (("a", "b", "c", "d", "e"),))
    inner = OneSum(NumberLayout((layout_number("sum", bits=60),)), "beds")
    recipe = PresenceScreenedRecipe(inner, (group,), 3)
    terms = SumTerms.of(
        PARTIES, counts=recipe.counts, options={"driver": driver, "seed": 1}
    )
    own = {}
    for k, party in enumerate(PARTIES):
        codes = np.array([k % 3, (k + 1) % 3])
        beds = SumContribution(lambda _, k=k: np.array([k], object), (np.array([k]),))
        own[party] = recipe.contribution(
            beds, places_with_rows([group], lambda _, c=codes: c)
        )
    found = run_sum_job(recipe, own, terms, agreed={})
    assert [len(one) for one in found.sums] == [6, 6]
    assert found.answer.tolist() == [21.0]
    assert found.sums[0].tolist() == [5, 5, 4, 0, 0, 7]
    assert recipe.request(()) == PRESENCE


def test_rows_on_the_smaller_side_of_a_place_are_counted():
    """A level that all rows but two have tells these two from the others."""
    group = PresenceVaryingColumns((PresenceCells(("sex",), (("f", "m"),)),))
    assert group.sides({"sex": np.array([0, 1, 1, 1, 1])}.get, 5).tolist() == [5, 1, 1]
    assert group.sides({"sex": np.array([0, 0, 0, 1, 1])}.get, 5).tolist() == [5, 2, 2]
    assert group.sides({"sex": np.zeros(5, dtype=int)}.get, 5).tolist() == [5, 0, 0]
