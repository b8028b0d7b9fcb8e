"""Times to an event in a table: which columns they are in, as a schema has agreed.

A row has a time, 0 or more, and says whether the event was seen then; if not, it is
censored: nobody looked any longer.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import Array, listed_names
from veilsum.numbers.shapes import Bool
from veilsum.tables.columns import Column
from veilsum.tables.formula.reader import read_formula, read_surv_formula
from veilsum.tables.formula.syntax import Coded, Named, SurvivalFormula, formula_text
from veilsum.tables.schema import CheckedTable, Schema


def survival_columns(text: str, schema: Schema) -> SurvivalFormula:
    """Return a survival formula whose time and event are what the schema says.

    Raises:
        InvalidInputError: the time may be negative, or the event something else than 0
            and 1 or one of two levels.
    """
    found = read_surv_formula(text)
    time, event = schema.column(found.time), schema.column(found.event)
    if time.is_category or time.minimum is None or time.minimum < 0.0:
        has = "is a category" if time.is_category else _agreed_minimum_words(time)
        raise InvalidInputError(
            f"the times in {time.name!r} must be numbers from 0 on, and the column "
            f"{has}: agree on [schema.columns] minimum = 0, and correct rows that end "
            "before they begin",
            code="times-not-numbers",
        )
    if event.is_category:
        if len(event.categories) != 2:
            raise InvalidInputError(
                f"the event {event.name!r} has the levels "
                f"{listed_names(event.categories)}: "
                "it needs two, the second for rows where the event was seen",
                code="event-not-two-levels",
            )
    elif (of := event.measure).unit != 1 or of.least < 0 or of.most > 1:
        raise InvalidInputError(
            f"the event {event.name!r} must be 1 where it was seen and 0 elsewhere, "
            f"and the column is {event.words}: recode it (R's 1 and 2 become 0 and 1), "
            'and agree on { kind = "integer", minimum = 0, maximum = 1 }',
            code="event-not-binary",
        )
    return found


def _agreed_minimum_words(column: Column) -> str:
    if column.minimum is None:
        return "has no agreed minimum"
    return f"goes down to {column.minimum:g}"


def survival_events_of(table: CheckedTable, column: str) -> Bool[Array[np.bool_], " n"]:
    """Return in which rows the event was seen: 1, or the second level."""
    return np.asarray(table.look(column) == 1)


def group_column_of_formula(formula: SurvivalFormula, schema: Schema) -> str | None:
    """Return the category that stands on the right; None if all rows are one group.

    Raises:
        InvalidInputError: something else stands there.
    """

    def refuse(found: str) -> NoReturn:
        raise InvalidInputError(
            "the right side must be 1, for all rows together, or one category such as "
            f"C(sex), found {formula.right!r}, which {found}",
            code="not-one-category",
        )

    read = read_formula(formula.of_time)
    terms = [term for term in read.right if term]
    if len(terms) == len(read.right) or any(len(term) > 1 for term in terms):
        refuse("is something else")
    if not terms:
        return None
    if len(terms) > 1:
        refuse("has several terms: make one column of them first")
    (node,) = terms[0]
    if isinstance(node, Named) and node.name in schema.derived_by_name:
        refuse("is a derived column: curves have plain columns of categories")
    assert isinstance(node, Named | Coded)
    name = node.name if isinstance(node, Named) else node.column.name
    if name in (formula.time, formula.event):
        refuse(f"has {name!r}, as the left side has")
    if not schema.column(name).is_category:
        refuse(
            f"holds numbers in {name!r} by the schema: agree on "
            f'{{ kind = "category" }}, or write C({name}) where there is no schema'
        )
    if isinstance(node, Coded) and (node.contrast or node.options):
        refuse(
            f"has a contrast in {formula_text(node)}: leave it out, curves have none"
        )
    return name
