"""The registry's analyses, one after the other of the same tables, with ledgers."""

import re
from dataclasses import dataclass, replace
from itertools import count

import pytest

import veilsum as vs
from plans.registry import ANALYSES, tables
from refusals import refused
from veilsum.errors import VeilsumError
from veilsum.sums.table_job import run_on_frames
from veilsum.tables.rules import DisclosureError

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

# Refused by themselves, of five sites: parties, and a bin with two rows at one of them.
ALONE = {"linear, site effects", "mixed model", "evaluation by bins"}


@dataclass
class Answered:
    """Stands for a result, of which nothing is looked at."""

    read_off: bool = False

    @classmethod
    def of(cls, *_, **__):
        return cls()


class Sequence:
    """Questions to a registry of which two sites keep a ledger."""

    def __init__(self, folder, missing, *, complete):
        self.frames, self.complete = tables(missing), complete
        self.seeds = count()
        self.ledgers = {
            name: vs.open_ledger(folder / name, create=vs.privacy.Budget())
            for name in ("north", "island")
        }

    def ask(self, analysis):
        schema = replace(
            analysis.schema,
            minimum_rows=60,
            complete=analysis.schema.columns
            if self.complete
            else analysis.schema.complete,
        )
        asked = replace(analysis, schema=schema)
        return run_on_frames(
            lambda _: asked.job(),
            self.frames,
            Answered.of,
            inferred=lambda _: schema,
            schema=schema,
            rules=None,
            compare=False,
            options={"seed": next(self.seeds), "ledgers": self.ledgers},
        )

    def refused(self, analyses):
        found = set()
        for one in analyses:
            try:
                self.ask(one)
            except VeilsumError:
                found.add(one.name)
        return found


def test_missing_values_do_not_make_two_questions_differ(tmp_path):
    assert not Sequence(tmp_path, 0.03, complete=True).refused(ANALYSES[:4])


def test_otherwise_the_second_question_is_refused_and_a_line_mends_it(tmp_path):
    """The refusal proposes columns; the same question with them is answered."""
    registry = Sequence(tmp_path, 0.03, complete=False)
    registry.ask(ANALYSES[0])
    with refused("group-too-small", DisclosureError) as caught:
        registry.ask(ANALYSES[1])
    (names,) = re.findall(r"\[schema\] complete = \[(.*?)\]", str(caught.value))
    schema = ANALYSES[1].schema
    complete = [schema.column(name.strip('"')) for name in names.split(", ")]
    registry.ask(replace(ANALYSES[1], schema=replace(schema, complete=complete)))


def test_a_column_that_other_rows_lack_is_for_the_next_study(tmp_path):
    registry = Sequence(tmp_path, 0.03, complete=False)
    registry.ask(ANALYSES[1])
    with refused("group-too-small", DisclosureError, mentions=("in the next study",)):
        registry.ask(ANALYSES[0])


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.01, 0.03])
def test_at_least_thirty_of_all_are_answered_in_sequence(tmp_path, missing):
    registry = Sequence(tmp_path, missing, complete=True)
    found = registry.refused(ANALYSES)
    assert found >= ALONE
    assert len(ANALYSES) - len(found) >= 30
