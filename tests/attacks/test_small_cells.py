"""Small cells merge after the first count: one person in a cell is not found by that.

The organiser knows when each patient came and who is alone in a cell, and wants the one
answer that is not known. One patient of hospital c is the only one of that age.
"""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

import veilsum as vs
from attacks.organiser import Found, refused_by
from attacks.test_the_ledger import Asking, asking, held
from cases import each
from veilsum.disclosure.merging import MergeAxis
from veilsum.sums import table_job
from veilsum.sums.presence import PRESENCE
from veilsum.sums.running import run_sum_job
from veilsum.tables import asked as history

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

AGE, ROW, AIM = 47, 3, "c"
FULL = {"age": [AGE - 12, AGE, AGE + 1, AGE + 13]}
TABLES = [["age", "hiv"]]


def tables(bit=1):
    """Six hospitals; in one of them one patient has that age, and nobody elsewhere."""
    found = held("abcdef")
    for table in found.values():
        table["hiv"] = np.arange(len(table)) % 2
        table.loc[table["age"] == AGE, "age"] = AGE + 1
    found[AIM].loc[ROW, ["age", "hiv"]] = [AGE, bit]
    return found


def counted(given, edges=FULL, **options):
    usual = {"columns": [], "histograms": edges, "tables": TABLES}
    more = {"driver": "vectorised", "seed": 1, **options}
    return vs.statistics(given, **{**usual, **more})


# A cell with one person at one party


def first_sum(bit, **options):
    return counted(tables(bit), **options).released.sums[0].tolist()


def test_the_first_count_does_not_tell_who_is_alone_in_a_cell():
    """It counts parties with three rows: who is alone is in no count."""
    assert first_sum(0) == first_sum(1)
    found = counted(tables())
    assert found.merged == {"age": [["35 to 47", "47 to 48", "48 to 60"]]}


def test_a_count_of_parties_with_any_row_tells_that_answer():
    """The twin: with minimum_count = 1 the answer is in the first sum."""
    one_row = {"rules": vs.Rules(minimum_count=1)}
    differs = np.array(first_sum(1, **one_row)) - first_sum(0, **one_row)
    assert sorted(differs[differs != 0].tolist()) == [-1, 1]


def test_merged_counts_are_the_pooled_ones_and_tell_no_cell_of_one():
    both = [counted(tables(bit)) for bit in (0, 1)]
    for bit, found in enumerate(both):
        pooled = np.concatenate([one["age"] for one in tables(bit).values()])
        histogram = found.histograms["age"]
        inner = np.histogram(pooled, histogram.edges)[0]
        assert histogram.counts.tolist() == inner.tolist()
        assert histogram.edges.tolist() == [AGE - 12, AGE + 13]
        assert found.tables["age", "hiv"].min() >= 9


# Differencing


def shown_below(histogram, edge):
    """The number of rows below an edge, if that follows from what was shown."""
    edges = histogram.edges.tolist()
    if edge not in edges:
        return None
    return histogram.below + histogram.counts[: edges.index(edge)].sum()


def by_differences(organiser, questions):
    """Rows between the two edges, from any two answers, and the truth."""
    known = {}
    for edges in questions:
        histogram = organiser.bins(tables(), age=edges)["age"]
        for edge in (AGE, AGE + 1):
            if (count := shown_below(histogram, edge)) is not None:
                known[edge] = count
    if len(known) < 2:
        return Found(None, 1)
    return Found(known[AGE + 1] - known[AGE], 1)


LEFT, RIGHT = [AGE - 12, AGE, AGE + 30], [AGE + 1, AGE + 13]
MOVED = {
    "a cut point moved": [LEFT, RIGHT],
    "after a question with both": [FULL["age"], LEFT, RIGHT],
    "one merges and the other does not": [FULL["age"], LEFT],
    "and the other way round": [RIGHT, FULL["age"]],
}


@each("questions", MOVED.values(), ids=MOVED)
def test_questions_with_other_cut_points_do_not_split_a_merged_cell(questions):
    """Either the ledger of the party refuses, or the cell stays merged."""
    attack = asking(lambda organiser: by_differences(organiser, questions))
    if LEFT in questions and RIGHT in questions:
        assert refused_by(attack) in {"minimum_count", "maximum_influence"}
    else:
        assert not attack().succeeded


@each("questions", [MOVED["a cut point moved"]])
def test_without_ledgers_a_moved_cut_point_splits_the_cell(questions):
    """The twin: each of the two questions alone is one that is answered."""
    attack = asking(lambda organiser: by_differences(organiser, questions))
    with patch.object(Asking, "ledgers_of", lambda *_: {}):
        assert attack().succeeded


def test_a_ledger_that_excuses_what_any_question_had_is_not_enough():
    """The twin: the question with both cut points has shown neither of them."""

    def any_common(stack, one, other):
        return bool(stack.owners[one] & stack.owners[other])

    def in_any_pair(pooling, column, cuts):
        gone = {cut for _, *pair in pooling.between for cut in pair}
        return [k for k, cut in enumerate(cuts) if cut not in gone]

    questions = MOVED["after a question with both"]
    attack = asking(lambda organiser: by_differences(organiser, questions))
    with (
        patch.object(history._ColumnStack, "compared", any_common),
        patch.object(history.TableCellPooling, "kept", in_any_pair),
    ):
        assert attack().succeeded


@each("questions", [MOVED["one merges and the other does not"]])
def test_merging_with_one_neighbour_would_split_the_cell(questions):
    """The twin: where only one cut point of a small cell goes, another shows it."""

    def with_the_one_before(axis, small=()):
        found = [[0]]
        for place in range(1, len(axis.labels)):
            if place in small:
                found[-1].append(place)
            else:
                found.append([place])
        return tuple(map(tuple, found))

    attack = asking(lambda organiser: by_differences(organiser, questions))
    with patch.object(MergeAxis, "blocks", with_the_one_before):
        assert attack().succeeded


def test_the_same_cut_points_may_be_asked_for_again_and_fewer_of_them():
    """No ledger is in the way of ordinary questions after cells were merged."""

    @asking
    def several(organiser):
        for edges in (FULL["age"], FULL["age"], [AGE - 12, AGE + 13]):
            organiser.bins(tables(), age=edges)
        organiser.sums(tables(), "bmi")
        return organiser.asked

    assert several() == 4


# A party that lies


def claims_enough_rows(extra):
    """One hospital adds parties to the count of that cell."""

    def lying(recipe, contributions, terms, **more):
        own = contributions["a"]

        def answer(request):
            found = own.answer(request)
            if request == PRESENCE:
                (group,) = (one for one in recipe.groups if len(one.axes) == 1)
                assert recipe.groups[0] is group
                found[group.places.index(f"{AGE} to {AGE + 1}")] += extra
            return found

        contributions = {**contributions, "a": replace(own, answer=answer)}
        return run_sum_job(recipe, contributions, terms, **more)

    return patch.object(table_job, "run_sum_job", lying)


def by_a_lie(extra):
    with claims_enough_rows(extra):
        histogram = counted(tables(), tables=[]).histograms["age"]
    if AGE not in histogram.edges:
        return Found(None, 1)
    return Found(histogram.counts[histogram.edges.tolist().index(AGE)], 1)


def test_a_party_that_says_it_has_enough_rows_does_not_split_a_cell():
    """Three parties are needed, so that two others are left if one of them lies."""
    assert not by_a_lie(extra=1).succeeded
    assert not by_a_lie(extra=2).succeeded


def test_open_a_party_that_counts_as_three_is_believed():
    """The sum does not tell that one party has given more than 1."""
    assert by_a_lie(extra=3).succeeded
