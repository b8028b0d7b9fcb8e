"""Ordinary questions by themselves: what is answered, and that refusals can be mended.

Whoever is refused does what the refusal proposes, and asks again.
"""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from plans.registry import ANALYSES, SCHEMA, tables
from plans.test_sequence import ALONE, Answered
from refusals import refused
from veilsum.errors import InvalidInputError, VeilsumError
from veilsum.sums.table_job import run_on_frames
from veilsum.tables.rules import DisclosureError

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

# What a refusal says that has no number of rows, and one that has.
MORE_ROWS = "agree on more [schema] minimum_rows"
PROPOSED = re.compile(r"\[schema\] minimum_rows = (\d+)")


def ask(analysis, frames, minimum_rows):
    schema = replace(analysis.schema, minimum_rows=minimum_rows)
    asked = replace(analysis, schema=schema)
    return run_on_frames(
        lambda _: asked.job(),
        frames,
        Answered.of,
        inferred=lambda _: schema,
        schema=schema,
        rules=None,
        compare=False,
        options={"seed": 0},
    )


def proposed(refusal, minimum_rows):
    """Return the `minimum_rows` of a refusal; twice as many if it has no number."""
    text = " ".join(str(refusal).split())
    found = [int(one) for one in PROPOSED.findall(text)]
    if not found and MORE_ROWS in text:
        found = [2 * minimum_rows]
    return max(found, default=0)


def asked_again(analysis, frames):
    """Return why it is refused in the end; None if it is answered."""
    minimum_rows = SCHEMA.minimum_rows
    while True:
        try:
            ask(analysis, frames, minimum_rows)
        except VeilsumError as refusal:
            more = proposed(refusal, minimum_rows)
            if more <= minimum_rows:
                return refusal
            minimum_rows = more
        else:
            return None


def refusals(missing):
    frames = tables(missing)
    found = {one.name: asked_again(one, frames) for one in ANALYSES}
    return {name: one for name, one in found.items() if one is not None}


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.01, 0.03, 0.1])
def test_forty_of_forty_five_are_answered_with_the_rows_that_refusals_propose(missing):
    found = refusals(missing)
    assert found.keys() >= ALONE
    assert len(ANALYSES) - len(found) >= 40


@pytest.mark.slow
def test_with_a_fifth_of_values_missing_small_cells_refuse_three_more():
    """Complete rows of four columns are 41 %, of ten 11 %: some count becomes 1."""
    found = refusals(0.2)
    assert len(ANALYSES) - len(found) == 39
    few = {name: found[name] for name in found.keys() - ALONE}
    assert few.keys() == {
        "Cox, common baseline, two columns",
        "Cox, common baseline, four columns",
        "linear, ten columns",
    }
    for refusal in few.values():
        assert refusal.rule == "minimum_count"
        assert re.search(r"\b1 row here", str(refusal))


def test_a_refusal_that_proposes_rows_is_mended_by_them():
    histogram = next(one for one in ANALYSES if one.name == "histogram of age")
    frames = tables()
    with refused("releases-too-much", DisclosureError) as caught:
        ask(histogram, frames, SCHEMA.minimum_rows)
    ask(histogram, frames, proposed(caught.value, SCHEMA.minimum_rows))


# A covariate of few whole numbers, and three hospitals

GRADES = vs.Schema(
    (vs.Column("grade", "integer", 1, 5), vs.Column("sbp", "integer", 70, 240)),
    minimum_rows=60,
)


def graded(*fives):
    """Return tables of 60 rows, of which some have grade 5."""
    draw = np.random.default_rng(0)
    found = {}
    for k, n_fives in enumerate(fives):
        grade = draw.integers(1, 5, 60)
        grade[:n_fives] = 5
        sbp = (120 + 3 * grade + draw.normal(0, 10, 60)).round()
        found[f"site-{k}"] = pd.DataFrame({"grade": grade, "sbp": sbp})
    return found


@pytest.mark.parametrize("fives", [(6, 6, 6, 6, 1), (1, 1, 1, 1, 1), (6, 6, 6, 0, 0)])
def test_a_value_of_a_small_integer_that_one_row_of_a_site_has_passes(fives):
    assert (
        vs.fit("sbp ~ grade", graded(*fives), schema=GRADES).guarantee.status
        == "private"
    )


@pytest.mark.parametrize("fives", [(0, 0, 0, 0, 1), (0, 0, 0, 0, 20), (0, 0, 0, 6, 6)])
def test_a_value_that_too_few_parties_have_is_refused(fives):
    holders = sum(one > 0 for one in fives)
    mentions = (f"grade, 5 is held by {holders}", "at least 3 parties")
    with refused("tells-parties-apart", DisclosureError, mentions=mentions):
        vs.fit("sbp ~ grade", graded(*fives), schema=GRADES)


def test_three_hospitals_are_told_in_a_sentence_what_to_change():
    hospitals, four = graded(6, 6, 6), graded(6, 6, 6, 6)
    sentence = (
        "3 parties are too few: 1 may collude, and 3 others must remain. "
        "Add a party, or set minimum_honest = 2"
    )
    with refused("terms-not-met", InvalidInputError) as caught:
        vs.fit("sbp ~ grade", hospitals, schema=GRADES)
    assert str(caught.value) == sentence
    for members, more in ((hospitals, {"minimum_honest": 2}), (four, {})):
        found = vs.fit("sbp ~ grade", members, schema=GRADES, **more)
        assert found.guarantee.status == "private"
