"""The page that a party agrees to: all that becomes known, and nothing forged."""

from dataclasses import fields, replace

import numpy as np
import pytest

import refusals
from cases import each
from party.test_agreed import (
    COST,
    DISPATCH,
    MODEL,
    NAMES,
    ON_DATA,
    STATISTICS,
    agreed,
)
from veilsum.consortium.consortium import consortium_from
from veilsum.errors import InvalidInputError
from veilsum.locale import catalogue, statistic_label, statistic_meaning
from veilsum.party.consent import (
    ConsentPart,
    consent_to,
)
from veilsum.party.own_rules import (
    STRICTER,
    columns_own_rules_meet,
    recodings_own_rules_meet,
)
from veilsum.questions.regression.kind import RegressionKind
from veilsum.sums.job_file import question_job_of
from veilsum.sums.kinds import resolve_agreed_question
from veilsum.sums.presence import PresenceScreenedRecipe
from veilsum.tables.frames import as_frame
from veilsum.tables.rules import Rules

HEADINGS = [part.heading for part in consent_to(agreed(MODEL)).shared]


def flat(text):
    return " ".join(text.split())


# Everything that becomes known is on the page

RANGES = {name: {"kind": "number", "minimum": 0, "maximum": 9} for name in "xy"}
SEX = {"sex": {"kind": "category", "categories": ["f", "m"]}}
GRADE = {"grade": {"kind": "category", "categories": ["low", "mid", "high"]}}
FREE = {"schema": {"minimum_rows": 400, "columns": {**RANGES, **SEX, **GRADE}}}


def fitted(**model):
    return {**MODEL, **FREE, "model": model}


def hazards(**more):
    asked = {name: one for name, one in fitted().items() if name != "model"}
    return {**asked, "cox": {"formula": "Surv(x, sex) ~ y", **more}}


def evaluated(**more):
    asked = {name: one for name, one in fitted().items() if name != "model"}
    return {**asked, "evaluate": more}


QUESTIONS = {
    "chances": evaluated(
        formula="sex ~ x",
        family="logistic",
        coefficients={"Intercept": -1, "x": 0.3},
        edges=[0.4, 0.6],
    ),
    "numbers": evaluated(formula="y ~ x", coefficients={"Intercept": 1, "x": 0.3}),
    "risks": evaluated(
        formula="Surv(x, sex) ~ y", coefficients={"y": 1}, edges=[4], times=[2, 6]
    ),
    "folds": evaluated(formula="y ~ x", folds=3, split=5),
    "folds of counts": {
        **evaluated(formula="y ~ x", family="poisson", folds=3, split=5),
        "policy": {"effective_count": 1.0},
    },
    "gaussian": fitted(formula="y ~ x + C(sex)"),
    "logistic": fitted(formula="sex ~ x", family="logistic"),
    "poisson": fitted(formula="y ~ x", family="poisson"),
    "gamma": fitted(formula="y ~ x", family="gamma"),
    "inverse": fitted(formula="y ~ x", family="gamma-inverse"),
    "deep gamma": fitted(formula="y ~ x", family="gamma", digits=12),
    "multinomial": fitted(formula="grade ~ x + C(sex)", family="multinomial"),
    "ordinal": fitted(formula="grade ~ x + C(sex)", family="ordinal"),
    "HC0": fitted(formula="y ~ x + C(sex)", errors="HC0"),
    "propensity": fitted(
        formula="y ~ x",
        propensity={"formula": "sex ~ x", "coefficients": {"Intercept": 0, "x": 0.1}},
    ),
    "HC3": fitted(formula="sex ~ x", family="binomial", errors="HC3"),
    "cluster": {
        **fitted(formula="y ~ x", errors="cluster"),
        "policy": {"site_terms": True},
    },
    "statistics": {
        **STATISTICS,
        **FREE,
        "statistics": {"tables": [["sex"]], "histograms": {"x": [1, 5]}},
    },
    "survival": {
        **FREE,
        "masks": {"law": "uniform"},
        "survival": {"formula": "Surv(y, sex) ~ 1", "times": [2, 4]},
    },
    "groups": {
        **STATISTICS,
        **FREE,
        "statistics": {
            "by": "sex",
            "columns": ["y"],
            "histograms": {"x": [1, 5]},
            "quantiles": {"x": [0.5]},
        },
    },
    "cox": hazards(),
    "cox over bins": hazards(times=[2, 6], check=True),
    "absorbed": {
        **fitted(formula="y ~ x + C(sex)", absorb=True),
        "policy": {"site_terms": True},
    },
    "mixed": {
        **ON_DATA,
        **FREE,
        "mixed": {"formula": "y ~ x", "random": ["1", "x"]},
        "policy": {"site_terms": True, "most_rounds": 40},
    },
    "meta": {
        **ON_DATA,
        **FREE,
        "meta": {
            "formula": "y ~ x",
            "coefficient": "x",
            "effects": [-5, 5],
            "errors": [0.001, 1],
        },
        "policy": {"site_terms": True},
    },
    "dispatch": DISPATCH,
    "dispatch with its cost": {
        **DISPATCH,
        "dispatch": {"prices": [0, 100], "price_unit": 0.01, "total_cost": True},
    },
    "dispatch over periods": {
        **DISPATCH,
        "dispatch": {"prices": [0, 100], "periods": 2, "rise": 0.5},
    },
}


def tables(kind):
    found = {}
    for place, name in enumerate(NAMES):
        stream = np.random.default_rng(place)
        if kind.startswith("dispatch"):
            columns = {"demand": [3.0 + place], "a": [1.0], "b": [2.0]}
            if "periods" in kind:
                columns |= {"demand_1": [2.0], "demand_2": [9.0], "ramp": [9.0]}
            found[name] = as_frame({**columns, "low": [0.0], "high": [20.0]})
            continue
        x = stream.integers(1, 9, 400).astype(float)
        y = stream.integers(1, 6, 400) + (x > 4)
        sex = np.where(stream.random(400) < 0.3 + 0.04 * x, "m", "f")
        grade = np.array(["low", "mid", "high"])[(y > 2) * 1 + (y > 4)]
        columns = {"x": x, "y": y.astype(float), "sex": sex, "grade": grade}
        found[name] = as_frame(columns)
    return found


def covered(foreseen, releases):
    """Whether every round that there was is a foreseen one, and not too often."""
    seen = [dict(one.statistics) for one in releases]
    known = [dict(one.statistics) for one in foreseen]
    return all(one in known for one in seen) and all(
        one.least <= seen.count(dict(one.statistics)) <= one.most for one in foreseen
    )


@each("kind", QUESTIONS)
def test_a_run_shows_nothing_that_is_not_on_the_page(kind):
    consortium = agreed(QUESTIONS[kind])
    foreseen = resolve_agreed_question(consortium).recipe.foreseen
    job = question_job_of(consortium, tables(kind), driver="vectorised", seed=0)
    releases = job.run().releases
    assert covered(foreseen, releases)
    facts = consent_to(consortium).facts
    assert facts["rounds"][0] <= len(releases) <= facts["rounds"][1]
    shown = sum(one.numbers for one in releases)
    assert facts["numbers"][0] <= shown <= facts["numbers"][1]
    # The twin: with any kind of round kept back, the run is no longer covered.
    for place, one in enumerate(foreseen):
        if dict(one.statistics) in [dict(seen.statistics) for seen in releases]:
            assert not covered(foreseen[:place] + foreseen[place + 1 :], releases)


@each("kind", [*QUESTIONS, "cost"])
def test_every_number_has_a_name_that_is_explained(kind):
    consortium = agreed({**QUESTIONS, "cost": COST}[kind])
    page = flat(consent_to(consortium).page)
    for one in resolve_agreed_question(consortium).recipe.foreseen:
        for key, count in one.statistics.items():
            text = statistic_meaning(key, first=one.when == "first", zero=True)
            assert (f"- {statistic_label(key)} ({count}): {text}" in page) == bool(
                count
            )


def test_every_rule_has_words_and_a_stricter_side():
    named = {one.name for one in fields(Rules)} - {"maximum_rows"}
    more = {"tolerate", "minimum_honest", "minimum_guests", "drop"}
    assert set(STRICTER) == named | more
    words = catalogue("en", "consent")
    assert set(STRICTER) == {*words["meanings"], *words["flags"]}


def test_the_page_names_question_columns_levels_tables_and_bins():
    page = flat(consent_to(agreed(QUESTIONS["statistics"])).page)
    assert 'table of "sex": how many rows have each of the 2 levels' in page
    assert (
        'histogram of "x": how many rows are below 1, from 1 to 5 inclusive, above 5'
        in page
    )
    assert '"sex": category, one of 2: "f", "m"' in page
    assert '"y": number, 0 or more, 9 or less, counted in 2^-36' in page
    page = flat(consent_to(agreed(QUESTIONS["gaussian"])).page)
    assert 'formula, as written: "y ~ x + C(sex)"' in page
    assert 'for each level of "sex": how many rows have it' in page
    assert "over the 3 others" in page
    assert "in every round anew" not in page
    assert "in every round anew" in flat(consent_to(agreed(QUESTIONS["poisson"])).page)


def test_numbers_of_the_file_are_shown_to_their_last_digit():
    """A bin or a range may be aimed: 37 to 37 would hide at whom."""
    aimed = {"histograms": {"x": [3.70000001, 3.70000002]}, "tables": [["sex"]]}
    columns = {**RANGES, **SEX, "y": {**RANGES["y"], "maximum": 8.00000001}}
    schema = {**FREE["schema"], "columns": columns}
    asked = agreed({**STATISTICS, "schema": schema, "statistics": aimed})
    page = flat(consent_to(asked).page)
    assert "3.70000001 to 3.70000002" in page
    assert "8.00000001 or less" in page


def page_of(sections, **changes):
    return flat(consent_to(agreed(sections, **changes)).page)


@each("kind", QUESTIONS)
def test_what_is_shown_at_most_adds_up_from_the_rounds_that_are_listed(kind):
    """Sums are filled up to one length, and what fills them up shows nothing."""
    found = resolve_agreed_question(agreed(QUESTIONS[kind]))
    facts = consent_to(agreed(QUESTIONS[kind])).facts
    kinds = [(one.numbers, one.most) for one in found.recipe.foreseen]
    most, counted = facts["rounds"][1], isinstance(found.recipe, PresenceScreenedRecipe)
    sizes = sorted(
        (size for size, n in kinds[counted:] for _ in range(n)), reverse=True
    )
    rest = sum(sizes[: most - counted])
    assert facts["numbers"][1] == counted * kinds[0][0] + rest
    assert facts["numbers"][1] <= found.recipe.most_numbers


def test_rows_left_out_are_always_0_where_a_missing_value_refuses():
    always = "was missing; always 0 here, for a table with a missing value"
    for missing, word in (("refuse", True), ("drop", False)):
        page = page_of(MODEL, schema={"missing": missing})
        assert (always in page) == word
        assert ("a table with a missing value takes no part" in page) == word


def test_the_page_names_the_columns_that_every_row_must_have():
    schema = {"missing": "drop", "complete": ["y", "x"]}
    found = consent_to(agreed(MODEL, schema=schema))
    line = 'rows without a value of "x", "y" are excluded from every question'
    assert line in flat(found.page)
    assert line not in page_of(MODEL, schema={"missing": "drop"})


@pytest.mark.parametrize(
    ("family", "guesses", "scores"),
    [
        ("deep gamma", True, True),
        ("gamma", False, True),
        ("poisson", False, False),
    ],
)
def test_the_first_sums_of_a_fit_rest_on_no_coefficients(family, guesses, scores):
    """Beyond eight digits, without a canonical link, on a guess from each response."""
    page = page_of(QUESTIONS[family])
    first, _, later = page.partition("in every round that tries coefficients")
    guess = "each row weighted by a first guess from that row - X'Vz"
    tried = "each row weighted by what the family says at the coefficients"
    assert (guess in first, tried in first) == (guesses, False)
    assert (guess in later, tried in later) == (False, True)
    assert ("responses are not part of it" in later) == (not scores)
    assert ("how far each response is from its fitted value" in later) == scores


def test_a_bin_beyond_the_agreed_range_is_said_to_be_empty():
    asked = {"histograms": {"x": [0, 4, 9, 12, 15]}, "tables": [["sex"]]}
    page = page_of({**STATISTICS, **FREE, "statistics": asked})
    empty = "(always 0, by the agreed range)"
    assert (
        f"below 0 {empty}, from 0 to below 4, from 4 to below 9, from 9 to below 12, "
        f"from 12 to 15 inclusive {empty}, above 15 {empty}"
    ) in page


@each(("tolerate", "least"), [(0, 3), (1, 3), (2, 4)])
def test_how_many_members_must_have_a_level_is_one_number(tolerate, least):
    policy = {"tolerate": tolerate, "minimum_honest": 2}
    page = page_of(MODEL, policy=policy)
    assert f"Where some have it and fewer than {least}, or" in page
    assert f"these are at least {least} members, or none" in page
    assert "tolerate + 2" not in page
    assert "any 2 of them over the 2 others" in page
    alone = page_of(MODEL, policy={**policy, "site_terms": True})
    assert "It may be one member" in alone
    assert "Where some have it" not in alone


def test_no_round_is_promised_that_there_is_not():
    none, some = "No round counts members", "asked about in the first round instead"
    columns = {name: MODEL["schema"]["columns"][name] for name in "xy"}
    page = page_of(MODEL, model={"formula": "y ~ x"}, schema={"columns": columns})
    assert (none in page, some in page) == (True, False)
    page = page_of(MODEL)
    assert (none in page, some in page) == (False, True)


def test_the_page_says_where_columns_may_be_constant():
    refused = "a category with one level only in a whole table is refused"
    counted = "members whose rows at risk at an event differ in every number"
    page = page_of(QUESTIONS["cox"])
    assert (refused in page, counted in page) == (False, True)
    page = page_of(QUESTIONS["cox over bins"])
    assert (refused in page, counted in page) == (True, False)


def test_errors_and_what_they_show_are_on_the_page():
    page = page_of(QUESTIONS["HC3"])
    assert "errors: HC3, which takes one more sum, at the answer" in page
    assert "family: logistic" in page
    assert "over what each member's rows come to" not in page
    page = page_of(QUESTIONS["cluster"])
    assert "or in the last round over what each member's rows come to" in page
    assert "errors:" not in page_of(QUESTIONS["logistic"])
    few = {**QUESTIONS["cluster"], "policy": {}}
    with refusals.refused("too-few-honest", mentions=("5",)):
        page_of(few)


# The same for all, and apart from what is one party's own


def test_the_page_is_the_same_bytes_whatever_is_added_about_one_party():
    consortium = agreed(MODEL)
    page = consent_to(consortium)
    mine = replace(page, own=(ConsentPart("your_data", ("ward7.csv: 812 rows",)),))
    assert (mine.page, mine.digest) == (page.page, page.digest)
    assert f"\n{page.page}" in mine.text(long=True)
    assert all("812" in mine.text(long=one) for one in (True, False))
    assert "812" not in str(mine.to_dict()["shared"])


def test_another_question_is_another_page():
    digests = {consent_to(agreed(one)).digest for one in QUESTIONS.values()}
    weaker = agreed(MODEL, policy={"minimum_count": 2})
    assert len(digests | {consent_to(weaker).digest}) == len(QUESTIONS) + 1


# What a reader must not miss


def first(**policy):
    """What stands before anything else."""
    page = consent_to(agreed(MODEL, policy=policy)).page
    return flat(page[: page.index("WHAT IS ASKED")])


def test_whoever_is_between_members_is_on_the_page_that_all_agree_to():
    """A relay that the file names sees something; without one nobody speaks of it."""
    places = ["wss://relay.example.org", "wss://relay.example.net:8443/veil"]
    between = {"relay": places, "relay_token": "6f" * 32}
    plain, page = (
        consent_to(agreed(MODEL, **more)) for more in ({}, {"deployment": between})
    )
    (told,) = (one for one in page.shared[-1].lines if "relay" in one)
    assert f"({places[0]}:443, {places[1]})" in told
    assert told.endswith("no name, key or number")
    assert page.facts["relays"] == [f"{places[0]}:443", places[1]]
    assert "relay" not in plain.page
    assert plain.facts["relays"] == []
    file = agreed(MODEL).to_table()
    for member in file["members"]:
        del member["address"]
    letters = consent_to(consortium_from(file))
    assert any("carries letters" in one for one in letters.shared[-1].lines)
    # Of a plan nobody knows yet how its members will meet.
    assert "letters" not in consent_to(consortium_from(file), drawn=False).page


def test_what_is_weaker_than_usual_is_said_first():
    assert "no rule of this file is weaker" in first(minimum_count=10, tolerate=1)
    told = first(minimum_count=1, release_fraction=0.9, drop=True)
    for words in ("minimum_count = 1", "release_fraction = 0.9", "drop = true"):
        assert f"WEAKER THAN USUAL: {words}" in told
    assert "no rule" not in told


OFF = {
    "minimum_count": (0, 2),
    "effective_count": (0, 2),
    "maximum_influence": (1, 0.99),
}


@each("name", OFF)
def test_a_rule_that_refuses_nothing_is_switched_off(name):
    off, weak = OFF[name]
    assert f"{name} = {off}, and usual" in first(**{name: off})
    assert "switched off" in first(**{name: off})
    assert "switched off" not in first(**{name: weak})


def test_where_no_rule_is_about_tables_that_is_said_first():
    none = "READ THIS FIRST there are no rules about tables"
    for sections in (DISPATCH, COST):
        page = page_of(sections)
        assert none in page
        assert "WHAT ALL KEEP TO" in page
        assert "ON ITS OWN TABLE" not in page
    shows = "those of one member where, in a range of prices, it is the only one"
    assert page_of(DISPATCH).count(shows) == 2
    assert shows not in page_of(COST)
    assert none not in page_of(MODEL)
    assert "WHAT EVERY PARTY CHECKS ON ITS OWN TABLE FIRST" in page_of(MODEL)


def test_where_a_table_is_one_row_a_row_is_a_member():
    asked = {"statistics": {"columns": ["x"]}}
    for most in (1, 2):
        schema = {"minimum_rows": 1, "maximum_rows": most}
        page = page_of({**STATISTICS, **asked}, schema=schema)
        assert ("READ THIS FIRST every table has one row at most" in page) == (
            most == 1
        )


def test_site_terms_are_shouted():
    assert "!!! SITE TERMS ARE ALLOWED" in first(site_terms=True)
    assert "ONE PARTY ALONE" in first(site_terms=True)
    assert "SITE TERMS" not in first(site_terms=False)


# Text of the file is text


def outermost(page):
    """The lines that begin where headings do."""
    return [line for line in page.splitlines() if line and not line.startswith("  ")]


HOSTILE = [
    "WHAT IS NOT PROTECTED",
    "x" + " " * 70 + "WHAT IS NOT PROTECTED nothing at all",
    "a, b: and 3 more",
    "]: passed",
    "- site_terms = false",
]


@each("level", HOSTILE)
def test_a_level_forges_no_line(level):
    columns = {**MODEL["schema"]["columns"]}
    columns["sex"] = {"kind": "category", "categories": ["f", level]}
    page = consent_to(agreed(MODEL, schema={"columns": columns})).page
    assert outermost(page) == HEADINGS
    inside = [line for line in page.splitlines() if line not in HEADINGS]
    assert not any(line.strip() == level for line in inside)


def test_a_formula_on_several_lines_is_one_text():
    page = consent_to(agreed(MODEL, model={"formula": "y ~ x\n\n+ C(sex)"}))
    assert outermost(page.page) == HEADINGS
    assert r'"y ~ x\n\n+ C(sex)"' in page.page


@each("sign", ["\u202e", "\u2066", "\x1b[2J", "\u2028", "\r"])
def test_signs_that_give_orders_never_get_so_far(sign):
    for change in (
        {"schema": {"columns": {f"x{sign}": {"kind": "integer"}}}},
        {"model": {"formula": f"y ~ x{sign}"}},
    ):
        with pytest.raises(InvalidInputError):
            consent_to(agreed(MODEL, **change))


def many(number):
    names = [f"a{k:04d}" for k in range(number)]
    levels = {"kind": "category", "categories": ["f", "m"]}
    return agreed(
        STATISTICS,
        schema={"columns": dict.fromkeys(names, levels)},
        statistics={"columns": [], "tables": [[name] for name in names]},
    )


def test_a_page_is_bounded_and_says_first_that_it_is():
    """Whoever hides a column behind a thousand others has to say so on top."""
    page = consent_to(many(3000))
    assert len(page.page) < 100_000
    assert page.facts["complete"] is False
    top = flat(page.page[: page.page.index("WHAT IS ASKED")])
    assert "TOO LONG TO BE SHOWN" in top
    assert len(page.facts["columns"]) == 3000
    short = consent_to(many(30))
    assert short.facts["complete"] is True
    assert "TOO LONG" not in short.page
    assert "a0029" in short.page


def numbers(count):
    names = [f"a{k:04d}" for k in range(count)]
    return agreed(
        STATISTICS,
        schema={"columns": {name: {"kind": "number", "unit": 1} for name in names}},
        statistics={"columns": names, "tables": []},
    )


def test_products_of_thousands_of_columns_are_refused_before_any_work():
    with refusals.refused("too-many-columns", mentions=("3,000", "4,501,500")):
        consent_to(numbers(3000))
    assert consent_to(numbers(30)).facts["numbers"][1] == 1 + 30 + 465 + 1


# A cost


def test_a_cost_says_where_it_is_looked_for_in_what_unit_and_how_often():
    summed = flat(consent_to(agreed(COST, method={"name": "one-shot"})).page)
    assert (
        "where every variable is from lower to upper (box: lower = -1, upper" in summed
    )
    assert "each cost has 2 coefficients, in whole numbers of 2^-30" in summed
    assert "method: one sum of all coefficients" in summed
    iterated = flat(
        consent_to(
            agreed(COST, method={"name": "dgd"}, stopping={"iterations": 70})
        ).page
    )
    assert "method: dgd, at most 70 iterations, that is " in iterated
    assert "one sum of all coefficients" not in iterated


def test_rules_page_and_receipt_work_out_the_question_once(monkeypatch):
    """A party among fifty spent a tenth of its time on the same page and formula."""
    calls = []
    monkeypatch.setattr(
        RegressionKind,
        "job",
        lambda *given, made=RegressionKind.job: calls.append(given) or made(*given),
    )
    found = agreed(MODEL)
    first, again = consent_to(found, ConsentPart("YOU", ("a line",))), consent_to(found)
    assert again.shared is first.shared
    assert not again.own
    assert all(one.text is one.text for one in again.shared)
    columns_own_rules_meet(found), recodings_own_rules_meet(found)
    assert len(calls) == 1
    consent_to(agreed(MODEL))  # the same words in another file
    assert len(calls) == 2


DERIVED = {
    "log_x": {"of": "x", "as": "log1p"},
    "woman": {"of": "sex", "as": "level", "level": "f"},
    "unused": {"of": "x", "as": "sqrt"},
}


def test_derived_columns_of_a_question_are_on_the_page_as_the_dictionary_has_them():
    columns = {**RANGES, **SEX, **GRADE, **DERIVED}
    schema = {"minimum_rows": 400, "columns": columns}
    asked = agreed(MODEL, model={"formula": "y ~ log_x + woman"}, schema=schema)
    page = flat(consent_to(asked).page)
    assert 'computed row by row: log_x = { of = "x", as = "log1p" }' in page
    assert 'woman = { of = "sex", as = "level", level = "f" }' in page
    assert "unused" not in page
    assert columns_own_rules_meet(asked) == ("sex", "x", "y")
    changed = {**schema, "columns": {**columns, "log_x": {"of": "x", "as": "sqrt"}}}
    other = agreed(MODEL, model={"formula": "y ~ log_x + woman"}, schema=changed)
    assert other.question_digest != asked.question_digest


@each("level", HOSTILE)
def test_a_level_in_a_derived_column_forges_no_line(level):
    columns = {**RANGES, "sex": {"kind": "category", "categories": ["f", level]}}
    columns["other"] = {"of": "sex", "as": "level", "level": level}
    schema = {"minimum_rows": 400, "columns": columns}
    asked = agreed(MODEL, model={"formula": "y ~ other"}, schema=schema)
    page = consent_to(asked).page
    assert outermost(page) == HEADINGS
    inside = [line for line in page.splitlines() if line not in HEADINGS]
    assert not any(line.strip() == level for line in inside)
