"""A model's formula, checked against the schema before anybody has data.

The design's columns follow from the formula and the schema alone, so that they mean
the same at every party. That rules out functions that look at the rows first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.rows import Design, PerRow
from veilsum.numbers.arrays import listed
from veilsum.tables.columns import SchemaError
from veilsum.tables.formula_rules import FUNCTIONS, RESERVED, columns_in, named_column
from veilsum.tables.frames import Frame, load_pandas, needed
from veilsum.tables.schema import CheckedTable, Schema

LARGEST_POWER = 5


@dataclass(frozen=True)
class ModelFormula:
    """A regression's formula together with the schema it is about.

    On the left stands one response: a column of numbers, a stateless function of some,
    or a category with two levels, which becomes 0 for the first and 1 for the second.
    On the right stand terms: columns, `C(...)` with a contrast, arithmetic in `{...}`
    or `I(...)`, the functions in `FUNCTIONS`, also as `np.log`, and interactions. A
    category is coded by the schema's list, with or without `C`.

    Attributes:
        text: the formula as it was written.
        schema: what the tables look like.
        response: the left side.
        variables: the schema's columns that a table needs for this formula.
        columns: the design's columns, in order.
        intercept: where the intercept is among them; None if there is none.
    """

    text: str
    schema: Schema = field(repr=False)
    response: str
    variables: tuple[str, ...]
    columns: tuple[str, ...]
    intercept: int | None
    _left: Any = field(repr=False, compare=False)
    _right: Any = field(repr=False, compare=False)

    @classmethod
    def of(cls, text: str, schema: Schema) -> ModelFormula:
        """Return the formula, checked; no data are needed.

        Raises:
            InvalidInputError: it cannot be read, names a column the schema does not
                have, or uses a function that would differ from party to party.
            MissingExtraError: formulaic is not installed.
        """
        left, right = _sides(text, schema)
        _check_scales(right)
        variables = _variables([*left, *right], schema)
        category = _check_response(left, right, schema)
        example = _example(schema, variables)
        made = _prepared(text, right, example)
        columns = tuple(made.column_names)
        _check_design(text, columns)
        return cls(
            *(text, schema, _bare(left[0].factors[0].expr), variables, columns),
            intercept=_intercept(made),
            _left=None if category else _prepared(text, left, example),
            _right=made,
        )

    def design(self, table: CheckedTable) -> tuple[Design, PerRow]:
        """Return one party's design, one row per row of its table, and response.

        Raises:
            SchemaError: a term is not a finite number in some row.
        """
        self._check_table(table)
        design = _materialised(self._right, table.frame[list(self.variables)])
        _check_finite(table, design, self.columns)
        return design, self._responses(table)

    def numeric(self, table: CheckedTable, column: str) -> PerRow:
        """Return a column of numbers, such as weights or an offset."""
        self._check_table(table)
        return table.numbers(column)

    def _responses(self, table: CheckedTable) -> PerRow:
        if self.response_is_category:
            return table.frame[self.response].cat.codes.to_numpy(dtype=np.float64)
        values = _materialised(self._left, table.frame[list(self.variables)])
        _check_finite(table, values, (self.response,))
        return np.ascontiguousarray(values[:, 0])

    @property
    def response_is_category(self) -> bool:
        """Whether the response is a category with two levels."""
        return self._left is None

    def _check_table(self, table: CheckedTable) -> None:
        if table.schema != self.schema:
            raise InvalidInputError(
                "the table was checked against another schema than the formula's; "
                "check it again with the formula's schema"
            )


def _sides(text: str, schema: Schema) -> tuple[Any, Any]:
    """Return the terms on the left and on the right, every name and call checked."""
    formulaic = needed("formulaic", extra="data", what="formulas")
    parser = needed("formulaic.parser", extra="data", what="formulas")
    try:
        tokens = list(parser.DefaultFormulaParser().parse(text, target="tokens"))
        _check_tokens(tokens, schema)
        parsed = formulaic.Formula(text)
    except InvalidInputError:
        raise
    except Exception as error:  # whatever a text may do to a parser
        raise InvalidInputError(
            f"the formula {text!r} cannot be read: {_why(error)}"
        ) from None
    sides = (getattr(parsed, "lhs", None), getattr(parsed, "rhs", None))
    if not all(isinstance(side, formulaic.SimpleFormula) for side in sides):
        raise InvalidInputError(
            f"the formula {text!r} must have one left and one right side, such as "
            "'y ~ age + C(sex)'"
        )
    return sides


def _check_scales(terms: Iterable[Any]) -> None:
    """Refuse `2:age`: its column would be called age and hold something else."""
    for term in terms:
        if 0 < term.degree < len(term.factors):
            raise InvalidInputError(
                f"the term {term!r} multiplies by a number; write it in braces, such "
                "as {2 * age}"
            )


def _check_tokens(tokens: Sequence[Any], schema: Schema) -> None:
    before = ""
    for token in tokens:
        kind, word = token.kind.value, token.token
        if kind == "name":
            named_column(word, schema)
        elif kind == "python":
            columns_in(word, schema)
        elif word == ".":
            raise InvalidInputError("write the columns out; '.' does not say which")
        elif before in {"**", "^"} and word.isdigit() and int(word) > LARGEST_POWER:
            raise InvalidInputError(
                f"a power of terms is at most {LARGEST_POWER}, found {word}; for the "
                "power of a number write {x ** 8}"
            )
        before = word


def _variables(terms: Iterable[Any], schema: Schema) -> tuple[str, ...]:
    """Return the columns that these terms need, each once, in the formula's order."""
    found: dict[str, None] = {}
    called: set[str] = set()
    for factor in (factor for term in terms for factor in term.factors):
        if factor.eval_method.value == "lookup":
            found[factor.expr] = None
        elif factor.eval_method.value == "python":
            found.update(dict.fromkeys(columns_in(factor.expr, schema)))
            called.update(re.findall(r"\w+", factor.expr))
    clash = [name for name in found if name in RESERVED and name in called]
    if clash:
        raise InvalidInputError(
            f"column {clash[0]!r} has the name of a function; rename the column to use "
            "it in a formula"
        )
    return tuple(found)


def _check_response(left: Any, right: Any, schema: Schema) -> bool:
    """Return whether the response is a category; refuse what is no response."""
    if len(left) != 1 or len(left[0].factors) != 1:
        raise InvalidInputError(
            "the left side must be one response, found "
            f"{listed([repr(term) for term in left]) or 'none'}"
        )
    factor = left[0].factors[0]
    if factor.eval_method.value == "literal" or factor.expr.startswith("C("):
        raise InvalidInputError(
            f"the left side must be a column or a function of one, found {factor.expr}"
        )
    if left[0] in list(right):
        raise InvalidInputError(
            f"{factor.expr!r} stands on both sides; the response explains itself"
        )
    return _is_category(factor, schema)


def _bare(code: str) -> str:
    """Return a name without the backticks it may stand in, other code as it is."""
    return re.sub(r"\A`([^`]*)`\Z", r"\1", code)


def _is_category(factor: Any, schema: Schema) -> bool:
    name = _bare(factor.expr)
    plain = factor.eval_method.value == "lookup" or columns_in(factor.expr, schema) == [
        name
    ]
    if not plain or not schema.column(name).is_category:
        return False
    if len(schema.column(name).categories) != 2:
        raise InvalidInputError(
            f"the response {name!r} is a category with "
            f"{len(schema.column(name).categories)} levels; a response is a number, or "
            "a category with two levels"
        )
    return True


def _example(schema: Schema, names: Iterable[str]) -> Frame:
    """Return rows that no party holds: they show what the columns will be called."""
    pandas = load_pandas()
    made = {}
    for column in (schema.column(name) for name in names):
        levels = list(column.categories)
        codes = pandas.Categorical.from_codes([0, 0], categories=levels or [""])
        made[column.name] = codes if column.is_category else np.ones(2)
    return pandas.DataFrame(made)


def _prepared(text: str, terms: Any, example: Frame) -> Any:
    """Return formulaic's specification of one side, with its columns fixed."""
    formulaic = needed("formulaic", extra="data", what="formulas")
    options = {"na_action": "ignore", "output": "numpy", "ensure_full_rank": True}
    try:
        with np.errstate(all="ignore"):
            made = formulaic.ModelSpec.from_spec(terms, **options).get_model_matrix(
                example, context=FUNCTIONS
            )
    except Exception as error:  # whatever a contrast or a constant may do
        raise InvalidInputError(
            f"the formula {text!r} cannot be used: {_why(error)}"
        ) from None
    return made.model_spec


def _why(error: Exception) -> str:
    """Return the first line of what went wrong, without where in the parser."""
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return (said.splitlines() or [type(error).__name__])[0]


def _materialised(spec: Any, frame: Frame) -> Design:
    with np.errstate(all="ignore"):
        made = spec.get_model_matrix(frame, context=FUNCTIONS)
    return np.ascontiguousarray(np.asarray(made), dtype=np.float64)


def _intercept(spec: Any) -> int | None:
    place = 0
    for part in spec.structure:
        if part.term.degree == 0:
            return place
        place += len(part.columns)
    return None


def _check_design(text: str, columns: Sequence[str]) -> None:
    if not columns:
        raise InvalidInputError(
            f"the formula {text!r} has nothing on its right side; write 1 for an "
            "intercept alone"
        )
    if len(set(columns)) < len(columns):
        raise InvalidInputError(
            f"the formula {text!r} gives two columns of the design the same name: "
            f"{listed(sorted(columns))}; rename a column or a category"
        )


def _check_finite(table: CheckedTable, values: Design, names: Sequence[str]) -> None:
    if np.isfinite(values).all():
        return
    broken = np.count_nonzero(~np.isfinite(values), axis=0)
    place = int(np.flatnonzero(broken)[0])
    raise SchemaError(
        *(table.party, names[place], "finite"),
        f"the term {names[place]!r} is not a finite number in {broken[place]} of "
        f"{table.n_rows} rows, as the logarithm of 0 is not; correct these rows, agree "
        "on a minimum in the schema, or use another function",
    )
