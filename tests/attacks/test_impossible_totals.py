"""A member whose false vector makes an impossible total: the run ends with a sentence.

Agreed ranges bound each row, and so every total. A total beyond its bounds is named,
and no party is: nobody can know which one sent false numbers. Without the check the
run goes on from the false total.
"""

from contextlib import ExitStack
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd

import veilsum as vs
from cases import each
from veilsum.models.cox import CoxSearch
from veilsum.models.mixed import MixedModel
from veilsum.protocol.work import request_digest
from veilsum.sums import recipes, table_job
from veilsum.sums.presence import PRESENCE
from veilsum.sums.running import run_sum_job

LIAR = "north"
PARTIES = ("north", "south", "Alpha", "Beta", "Gamma", "Delta", "isles", "hills")
ROWS = 60
SCHEMA = vs.Schema(
    (
        vs.Column("age", "integer", 18, 99),
        vs.Column("bmi", "number", 15, 45, unit="1 decimal"),
        vs.Column("ill", "integer", 0, 1),
        vs.Column("ward", "category", categories=("a", "b")),
        vs.Column("days", "integer", 1, 400),
        vs.Column("dead", "integer", 0, 1),
    ),
    minimum_rows=40,
    maximum_rows=80,
)

# So that eight parties of 60 rows may ask all of these questions.
RULES = vs.Rules(minimum_count=1, site_terms=True)


def people(seed=0):
    chance = np.random.default_rng(seed)
    tables = {}
    for place, name in enumerate(PARTIES):
        age = chance.integers(20, 90, ROWS)
        tables[name] = pd.DataFrame(
            {
                "age": age,
                "bmi": (20 + 0.05 * age + place % 3 + chance.normal(0, 2, ROWS))
                .clip(15, 45)
                .round(1),
                "ill": (chance.random(ROWS) < 0.2 + 0.005 * age).astype(int),
                "ward": chance.choice(["a", "b"], ROWS),
                "days": chance.integers(1, 401, ROWS),
                "dead": (chance.random(ROWS) < 0.6).astype(int),
            }
        )
    return tables


QUESTIONS = {
    "statistics": lambda data, **more: vs.statistics(
        data, columns=["age", "bmi"], **more
    ),
    "groups": lambda data, **more: vs.statistics(
        data, columns=["age"], by="ward", **more
    ),
    "cox": lambda data, **more: vs.cox("Surv(days, dead) ~ age + bmi", data, **more),
    "binned cox": lambda data, **more: vs.cox(
        "Surv(days, dead) ~ age + bmi", data, times=[100, 200, 300, 400], **more
    ),
    "mixed": lambda data, **more: vs.mixed("bmi ~ age", data, **more),
    "meta": lambda data, **more: vs.meta(
        "bmi ~ age",
        data,
        coefficient="age",
        effects=(-1.0, 1.0),
        errors=(0.001, 1.0),
        **more,
    ),
    "absorbed": lambda data, **more: vs.fit("bmi ~ age", data, absorb="party", **more),
    "counts": lambda data, **more: vs.fit(
        "days ~ age", data, family="negative-binomial", **more
    ),
    "survival": lambda data, **more: vs.survival(
        "Surv(days, dead) ~ 1", data, times=[100, 200, 300, 400], **more
    ),
}


# For each lie: the question, the sum, the place of a number in the vector, the number
# that is added to it, and the total that the sentence names.
LIES = [
    ("statistics", 0, 0, -1000, "rows"),
    ("statistics", 0, 0, 1000, "rows"),  # beyond maximum_rows at all parties
    ("statistics", 0, 1, 10**6, "sums of age"),
    ("statistics", 0, 3, -(10**8), "squares for age"),
    ("statistics", 0, 4, 10**9, "products for"),
    ("groups", 0, 4, -(10**6), "sums of age where ward = a"),
    ("groups", 0, 6, -(10**6), "squares for age where ward = a"),
    ("cox", 0, 0, -(1 << 70), "information for age"),
    ("cox", 1, 2, 1 << 80, "information for bmi"),
    ("cox", 0, 3, 1 << 60, "the score for age"),
    ("cox", 1, 5, 1 << 60, "the log-likelihood"),
    ("cox", 0, 7, 10**4, "events"),
    ("binned cox", 0, 0, -(1 << 100), "information for"),
    ("mixed", 0, 0, 1 << 70, "X'V^-1X for Intercept"),
    ("mixed", 1, 2, -(1 << 70), "X'V^-1X for age"),
    ("mixed", 0, 15, 10**4, "rows"),
    ("meta", 0, 0, 1 << 70, "weights"),
    ("meta", 0, 2, -(1 << 60), "w y^2"),
    ("meta", 0, 4, 3, "studies"),
    ("meta", 1, 1, 1 << 70, "weights times estimates"),
    ("absorbed", 0, 0, -(1 << 90), "products within parties for age"),
    ("counts", 1, 0, -(1 << 110), "information for"),
    ("survival", 0, 0, -1000, "rows in cell 1"),
    ("survival", 0, 2, 1000, "rows in cell 3"),
]
# The same lies, without the check, for one of each kind of job.
TWINS = [LIES[k] for k in (2, 3, 8, 10, 14, 17, 19)]


def asked(question, when, place, by):
    """Ask with a member that adds to a number of one sum; return the number of sums.

    A sum that counts parties is not counted.
    """
    sums = []

    def lying(recipe, contributions, terms, **more):
        own = contributions[LIAR]

        def answer(request):
            vector = own.answer(request)
            if request == PRESENCE:
                return vector
            digest = request_digest(request)
            if digest not in sums:
                sums.append(digest)
            if sums.index(digest) == when:
                vector = vector.copy()
                vector[place] += by
            return vector

        changed = {**contributions, LIAR: replace(own, answer=answer)}
        return run_sum_job(recipe, changed, terms, **more)

    with patch.object(table_job, "run_sum_job", lying):
        try:
            QUESTIONS[question](people(), schema=SCHEMA, rules=RULES, seed=1)
        except vs.VeilsumError as error:
            return len(sums), str(error)
    return len(sums), ""


@each("lie", LIES, ids=lambda lie: f"{lie[0]}: {lie[4]}")
def test_an_impossible_total_ends_the_run_and_names_no_party(lie):
    *given, name = lie
    sums, ended = asked(*given)
    assert f"the total of {name}" in ended
    assert "is impossible" in ended
    assert sums == given[1] + 1  # no further sum was asked for
    assert not any(party in ended for party in PARTIES)


@each("lie", TWINS, ids=lambda lie: f"{lie[0]}: {lie[4]}")
def test_the_twin_without_the_check_the_run_goes_on_from_a_false_total(lie):
    *given, _ = lie
    with ExitStack() as off:
        skip = lambda recipe, sums: recipe.request(sums)  # noqa: E731
        off.enter_context(patch.object(recipes, "next_request", skip))
        for model in (CoxSearch, MixedModel):
            off.enter_context(patch.object(model, "_check_possible", lambda *_: None))
        sums, ended = asked(*given)
    last = given[0] == "statistics" or given[:2] == ["meta", 1]
    assert "impossible" not in ended
    assert not ended if last else sums > given[1] + 1


@each("question", QUESTIONS)
def test_honest_tables_are_possible(question):
    assert asked(question, 0, 0, 0)[1] == ""
