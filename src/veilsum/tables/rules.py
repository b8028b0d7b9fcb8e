"""Rules that limit questions about a table, enforced by its owner for every question.

Masks hide each party's contribution, but a question can still target one person, by a
column that is large for that person only; one site, by a column that identifies the
origin of a row; or every row, by enough questions. Each party checks these rules
locally, on its own table, before it sends anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil, floor, inf, isfinite, sqrt
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.leverage import (
    FEW_ROWS_SHARE,
    LeverageColumns,
    LeverageConcentration,
    concentration_of_parts_together,
)
from veilsum.models.rows import Design, PerRow, Rows
from veilsum.models.weights import collect_row_weights
from veilsum.numbers.arrays import Array, sum_of_squares

MINIMUM_ROWS = 5
# Of the leverage that combinations may have, what one column may have: whoever asks
# chooses it freely, and ordinary columns of twenty rows and more stay well below.
ALONE = 0.9
# A term that varies less at a party, as a part of what was agreed, is constant there.
STEADY = 0.01


class DisclosureError(InvalidInputError):
    """A question would show too much of a table; in full for its owner only.

    Attributes:
        rule: which one of `Rules` refuses.
        changes: values of rules that lift this refusal; the message names them.
        rows: minimum number of rows of every party that would lift it as well; None if
            the message does not propose one.
    """

    def __init__(
        self,
        rule: str,
        message: str,
        *,
        code: str = "",
        changes: Mapping[str, float] | None = None,
        rows: int | None = None,
    ) -> None:
        super().__init__(message, plain=f"refused by {rule}", code=code)
        self.rule = rule
        self.changes = dict(changes or {})
        self.rows = rows


def how_rules_are_loosened(**loosened: bool | float | None) -> str:
    """Return how rules are loosened: in the file that all agree on, and in Python.

    >>> how_rules_are_loosened(site_terms=True)
    '[policy] site_terms = true (in Python rules=vs.Rules(site_terms=True))'
    >>> how_rules_are_loosened(release_fraction=None)
    '[policy] release_fraction (in Python rules=vs.Rules(release_fraction=...))'
    >>> how_rules_are_loosened(minimum_count=1, effective_count=1)  # doctest: +ELLIPSIS
    '[policy] minimum_count = 1 and effective_count = 1 (in Python rules=vs.Rules(...'
    """
    lines, arguments = list[str](), list[str]()
    for name, value in loosened.items():
        said = str(bool(value)) if name == "site_terms" else f"{value or 0:g}"
        lines.append(name if value is None else f"{name} = {said.lower()}")
        arguments.append(f"{name}={'...' if value is None else said}")
    listed = " and ".join(lines)
    return f"[policy] {listed} (in Python rules=vs.Rules({', '.join(arguments)}))"


def how_table_rows_are_agreed(least: int | None = None) -> str:
    """Return how larger tables are agreed on: in the file, and in Python.

    >>> how_table_rows_are_agreed(40)
    '[schema] minimum_rows = 40 (in Python vs.Schema(..., minimum_rows=40))'
    """
    said, given = ("", "...") if least is None else (f" = {least}", f"{least}")
    return (
        f"[schema] minimum_rows{said} (in Python vs.Schema(..., minimum_rows={given}))"
    )


def or_more_table_rows(least: int | None) -> str:
    """Return the proposal of larger tables, as one item of a list; empty for None."""
    if least is None:
        return ""
    return f"agree on {how_table_rows_are_agreed(least)} or more, "


# What to agree on where a fit needs more sums than there is room for.
MORE_SUMS = (
    f"agree on more {how_table_rows_are_agreed()}, or openly on more "
    f"{how_rules_are_loosened(most_rounds=None)} or "
    f"{how_rules_are_loosened(release_fraction=None)}"
)


class RuleRange(NamedTuple):
    """Values that a rule may have, and the side of its value that is stricter."""

    least: float
    most: float
    stricter: Literal["at least", "at most"]

    @property
    def weakest(self) -> float:
        return self.least if self.stricter == "at least" else self.most


# By rule, in the order of the fields of `Rules`.
RANGES: Mapping[str, RuleRange] = {
    "minimum_rows": RuleRange(1, inf, "at least"),
    "minimum_count": RuleRange(0, 1e9, "at least"),
    "effective_count": RuleRange(0.0, 1e9, "at least"),
    "maximum_influence": RuleRange(0.0, 1.0, "at most"),
    "maximum_columns": RuleRange(0.0, inf, "at most"),
    "site_terms": RuleRange(least=False, most=True, stricter="at most"),
    "release_fraction": RuleRange(0.0, inf, "at most"),
    "most_rounds": RuleRange(1, 1000, "at most"),
}


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Disclosure rules that every party applies before it answers.

    Names are those used in the field of disclosure control.

    Attributes:
        minimum_rows: minimum number of rows of a party that takes part.
        maximum_rows: maximum number of rows of such a party; None for no limit.
        minimum_count: minimum number of a party's rows in every level, cell and group
            in which it has any.
        effective_count: minimum effective number of a party's rows over which a column
            is spread: (sum |x|)^2 / sum x^2, where x are deviations from the median.
        maximum_influence: maximum leverage of one row in its party's own design. For
            one column and an intercept, `ALONE` times this.
        maximum_columns: maximum number of columns of a design, as a fraction of honest
            parties' rows.
        site_terms: whether columns and levels may identify a party.
        release_fraction: maximum number of released numbers, as a fraction of the
            numbers in honest rows.
        most_rounds: maximum number of rounds of one job.
    """

    minimum_rows: int = MINIMUM_ROWS
    maximum_rows: int | None = None
    minimum_count: int = 3
    effective_count: float = 3.0
    maximum_influence: float = 0.98
    maximum_columns: float = 0.33
    site_terms: bool = False
    release_fraction: float = 0.5
    most_rounds: int = 15

    def __post_init__(self) -> None:
        for name, (least, most, _) in RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                ends = (
                    f"from {least:g} to {most:g}"
                    if isfinite(most)
                    else (f"{least:g} or more")
                )
                raise InvalidInputError(
                    f"{name} must be {ends}, found {value}", code="rule-out-of-range"
                )
        if not self.release_fraction > 0.0:
            raise InvalidInputError(
                "the fraction that may be released is positive, found "
                f"{self.release_fraction}",
                code="fraction-not-positive",
            )

    @classmethod
    def none(cls, **kept: float | None) -> Rules:
        """Return rules that refuse nothing but what is named: for made-up tables."""
        free = {name: one.weakest for name, one in RANGES.items()}
        return cls(**{**free, **kept})  # type: ignore[arg-type]

    def check_rows(self, party: str, n_rows: int) -> None:
        """Refuse a table that is too short, or too long."""
        most = inf if self.maximum_rows is None else self.maximum_rows
        if not self.minimum_rows <= n_rows <= most:
            rule = "minimum_rows" if n_rows < self.minimum_rows else "maximum_rows"
            raise DisclosureError(
                rule,
                f"{party}: {n_rows} rows, and the terms are minimum_rows = "
                f"{self.minimum_rows}, maximum_rows = {self.maximum_rows}. Not sent.",
                code="row-count-refused",
            )

    def check_design(self, n_columns: int, honest: int) -> None:
        """Refuse more columns than rows of honest parties surely carry.

        Nothing but the agreement decides it, so whoever writes it can ask first.
        """
        rows = honest * self.minimum_rows
        fewest = f"{rows} rows at least ({honest} parties, minimum_rows = "
        fewest += f"{self.minimum_rows})"
        if n_columns > self.maximum_columns * rows:
            part = ceil(100 * n_columns / rows) / 100
            if n_columns > part * rows:  # floating-point rounding
                part = round(part + 0.01, 2)
            enough = None
            if self.maximum_columns > 0:
                enough = ceil(n_columns / (self.maximum_columns * honest)) + 1
            raise DisclosureError(
                "maximum_columns",
                f"the design has {n_columns} columns, and honest parties {fewest}, "
                f"which carry {floor(self.maximum_columns * rows)}: leave out terms, "
                f"{or_more_table_rows(enough)}or openly agree on "
                + how_rules_are_loosened(maximum_columns=part),
                code="too-many-columns",
                changes={"maximum_columns": part},
                rows=enough,
            )

    def check_honest(
        self, least: int, honest: int, or_else: str = "", rows: int | None = None
    ) -> None:
        """Refuse a question whose sums would tell so few honest parties apart.

        Args:
            least: how many of them would do.
            honest: how many there are at least.
            or_else: what else would help.
            rows: minimum number of rows of every party that would help.
        """
        if honest < least and not self.site_terms:
            raise DisclosureError(
                "site_terms",
                f"{honest} parties are honest at least, and with fewer than {least} "
                "the sums of this question would tell one party from another: ask "
                f"more parties, {or_else and or_else + ', '}{or_more_table_rows(rows)}"
                "or agree openly on "
                f"{how_rules_are_loosened(site_terms=True)}",
                code="too-few-honest",
                changes={"site_terms": True},
                rows=rows,
            )

    @property
    def off(self) -> dict[str, str]:
        """By rule that refuses nothing, what the usual one would, in words."""
        said: dict[str, tuple[bool, str]] = {
            "site_terms": (
                self.site_terms,
                "columns and levels may tell one party from the others, and sums over "
                "one party's rows alone may follow from what is released",
            ),
            "minimum_count": (
                self.minimum_count < 2,
                "a level, a cell or a group may hold a single row",
            ),
            "effective_count": (
                self.effective_count <= 1.0,
                "a column may point at a single row",
            ),
            "maximum_influence": (
                self.maximum_influence >= 1.0,
                "a combination of columns may point at a single row",
            ),
        }
        return {name: words for name, (off, words) in said.items() if off}

    @property
    def influence_alone(self) -> float:
        """The most influence that one row may have on a single column."""
        return ALONE * self.maximum_influence

    @property
    def least_left_in_a_sum(self) -> float:
        """The least part that a row must leave to others in a sum."""
        return IN_A_SUM * (1.0 - self.maximum_influence)


# Of what one row may leave to others in a design, the part that is enough in a sum: its
# influence may be 0.999 where the former is 0.98.
IN_A_SUM = 0.05
# At a party with this many rows for each of several, these are looked at together.
_ROWS_FOR_SEVERAL = 10
# Of deviations from the mean, how many times as much is enough: those from the median
# have at least an eighth of their effective count, since both their sum of sizes is at
# least half, and their sum of squares at most double.
_SURELY = 8.0
_BLOCK = 4096
# Heaps that are closer leave few digits to a value between them. With 100 units in
# place of 256, three of the plans that run in tests/plans would be refused for blood
# pressures of which some are means of three readings.
LEAST_HEAP = 256
# Values have so many decimals at most, if they were written down in decimals.
MOST_DECIMALS = 9
# A column has so many heaps at least.
FEWEST_HEAPS = 5
# Columns that differ by less than this part of themselves are the same.
_DIGITS = 1e-12


@dataclass(frozen=True)
class TableRulesAtHome:
    """The rules, for the table of one party; every refusal is its owner's to read.

    Attributes:
        party: whose table it is.
        rules: what it keeps to.
    """

    party: str
    rules: Rules

    def column(
        self,
        what: str,
        values: Array[Any],
        *,
        two_valued: Callable[[], bool] | None = None,
        agreed: Callable[[], float] | None = None,
        unit: Fraction | None = None,
    ) -> None:
        """Refuse numbers that point at few rows, or at this party.

        Args:
            what: they are called.
            values: one for each row.
            two_valued: says whether they have two values by agreement, as 0 and 1:
                then that all rows have one of them is no matter of this party alone.
            agreed: of a derived column, how far apart its values may be by
                agreement: a step between parties is flat within each.
            unit: of a column of the table that is summed exactly: then few values
                between heaps are refused as well.
        """
        found = np.ascontiguousarray(values, dtype=np.float64)
        if not found.size:
            return
        low, high = float(found.min()), float(found.max())
        flat = agreed is not None and high - low < STEADY * agreed()
        told = (low == high or flat) and not self.rules.site_terms
        if told and not (two_valued and two_valued()):
            varies = (
                f"varies by less than {STEADY:.0%} of what was agreed"
                if low < high
                else "is the same in all rows"
            )
            self._refuse(
                "site_terms",
                f"{what!r} {varies} here",
                "it tells this party from the others: leave it out, or agree on closer "
                "ranges",
            )
        if low == high:
            return
        self._few(what, found, low, high)
        self._spread(what, found, low, high)
        if unit is not None:
            self._heaped(what, found, unit)

    def _heaped(self, what: str, found: PerRow, unit: Fraction) -> None:
        """Refuse few values between heaps: the last digits of a sum are theirs.

        Of incomes in thousands but for 41,237 the sum ends in 237, and the sum of the
        products with ages in the last digits of 237 ages. Heaps are multiples of powers
        of 2, 5 or 10, `LEAST_HEAP` units or more apart; there are several of them, or
        the values between are a tail of a column that is mostly 0.
        """
        least = 2 * self.rules.minimum_count
        # A unit of 40 bits is finer than the decimals that people wrote down.
        unit = max(unit, _decimals_of_values(found, unit))
        counts = np.rint(found * (unit.denominator / unit.numerator))
        if self.rules.minimum_count < 2 or float(np.abs(counts).max()) > 2.0**53:
            return
        # The unit may be finer than all of these values, which says nothing of one.
        finest = int(np.gcd.reduce(counts.astype(np.int64)))
        counts /= max(finest, 1)
        furthest = float(np.abs(counts).max())
        for base in (2, 5, 10):
            heap, problem = base, 0
            while heap < LEAST_HEAP:
                heap *= base
            few = 0
            while heap <= furthest:
                between = np.fmod(counts[:1000], heap) != 0.0
                # Multiples of a higher power are multiples of this one.
                if np.count_nonzero(between) >= least:
                    break
                between = np.fmod(counts, heap) != 0.0
                if (number := int(np.count_nonzero(between))) >= least:
                    break
                if number and len(np.unique(counts[~between])) >= FEWEST_HEAPS:
                    problem, few = heap, number
                heap *= base
            if problem:
                wider = float(unit * finest * problem)
                self._refuse(
                    "minimum_count",
                    f"{_rule_row_words(few)} of {what!r} here lie between multiples "
                    f"of {wider:g}, and all others are such multiples, so that the "
                    "last digits of a sum are about these rows (fewer than 2 x "
                    "minimum_count)",
                    f'agree on [schema.columns] kind = "number" and unit = {wider:g} '
                    "for this column",
                    few // 2,
                    code="few-between-heaps",
                )

    def _few(self, what: str, found: PerRow, low: float, high: float) -> None:
        """Refuse two values, one of which few rows have."""
        head = found[:1000]
        if self.rules.minimum_count < 2 or not ((head == low) | (head == high)).all():
            return
        counts = {one: int(np.count_nonzero(found == one)) for one in (low, high)}
        if sum(counts.values()) < len(found):
            return
        value = min(counts, key=lambda one: counts[one])
        if counts[value] < self.rules.minimum_count:
            self._refuse(
                "minimum_count",
                f"{what!r} is {value:g} in {_rule_row_words(counts[value])} here",
                "leave it out, or ask for something that more rows have",
                counts[value],
            )

    def _spread(self, what: str, found: PerRow, low: float, high: float) -> None:
        """Refuse what stands out in few rows."""
        least = self.rules.effective_count
        if least <= 1.0:
            return
        middle = float(found.mean())
        furthest = max(high - middle, middle - low)
        scaled = (found - middle) / furthest
        if sum_of_squares(scaled) >= _SURELY * least:
            return
        off = np.abs(found - np.median(found))
        off /= off.max()
        count = float(off.sum() ** 2 / sum_of_squares(off))
        # A count of rows, but for the rounding of the columns' own digits.
        if count < least * (1.0 - 1e-9):
            self._refuse(
                "effective_count",
                f"{what!r} stands out in as few as {count:.1f} rows here",
                "leave it out, or use another term, such as a logarithm",
                floor(10.0 * count) / 10.0,
            )

    def cells(
        self,
        names: Sequence[str],
        codes: Sequence[Array[Any]],
        labels: Sequence[Sequence[Any]],
    ) -> None:
        """Refuse a combination of levels that few rows have.

        Args:
            names: of categories.
            codes: of each, the place of a row's level.
            labels: of each, all levels.
        """
        if self.rules.minimum_count < 2 or not len(codes[0]):
            return
        places = np.ravel_multi_index(tuple(codes), tuple(map(len, labels)))
        found, counts = np.unique(places, return_counts=True)
        if (least := int(counts.min())) < self.rules.minimum_count:
            place = np.unravel_index(found[counts.argmin()], tuple(map(len, labels)))
            level = " and ".join(
                f"{name} = {known[int(k)]}"
                for name, known, k in zip(names, labels, place, strict=True)
            )
            self._refuse(
                "minimum_count",
                f"{_rule_row_words(least)} here have {level}",
                "merge levels, or leave out a category or an interaction",
                least,
            )

    def category(self, name: str, codes: Array[Any], labels: Sequence[Any]) -> None:
        """Refuse a category that has one level here.

        Where there are two by agreement, as of yes and no, that says less of a party.
        """
        if self.rules.site_terms or len(labels) <= 2 or not len(codes):
            return
        if (codes == codes[0]).all():
            self._refuse(
                "site_terms",
                f"all rows here have {name} = {labels[int(codes[0])]}",
                "it tells this party from the others: leave it out, or merge levels so "
                "that every party has several",
            )

    def value_sum(self, what: str, values: Array[Any]) -> None:
        """Refuse a sum that few rows make up, nearly.

        With an effective count of 3 the two largest are at most 82 % of the sum, and
        what is left is more than a tenth of the largest: the p% rule with p = 10.
        """
        sizes, least = np.abs(np.asarray(values, dtype=np.float64)), self.rules
        if least.effective_count <= 1.0 or not (most := float(sizes.max(initial=0.0))):
            return
        sizes /= most
        count = float(sizes.sum() ** 2 / sum_of_squares(sizes))
        if count < least.effective_count * (1.0 - 1e-9):
            self._refuse(
                "effective_count",
                f"as few as {count:.1f} rows make up the sum of {what!r} here",
                "leave it out, or ask for its logarithm or a histogram",
                floor(10.0 * count) / 10.0,
            )

    def bins(
        self, what: str, counts: Array[Any], names: Sequence[str] | None = None
    ) -> None:
        """Refuse a bin that few rows are in."""
        small = counts[(counts > 0) & (counts < self.rules.minimum_count)]
        if small.size:
            which = "a bin"
            if names is not None:
                place = int(np.flatnonzero(counts == small.min())[0])
                which = f"the bin {names[place]!r}"
            self._refuse(
                "minimum_count",
                f"{which} of {what!r} has {_rule_row_words(int(small.min()))} here",
                "agree on wider bins",
                int(small.min()),
            )

    def at_risk(self, n_rows: int) -> None:
        """Refuse events at which few rows are at risk: others have no part in a sum."""
        if 2 * n_rows < self.rules.minimum_rows:
            self._refuse(
                "minimum_rows",
                f"{_rule_row_words(n_rows)} of {self.party}'s are at risk at any "
                "event, less "
                "than half of what was agreed",
                "choose another time or event",
                2 * n_rows,
            )

    def design(
        self,
        rows: Rows,
        names: Sequence[str],
        *,
        intercept: int | None,
        shaped: bool = False,
        groups: Mapping[tuple[str, ...], Sequence[int]] | None = None,
        two_valued: Callable[[int], bool] | None = None,
    ) -> None:
        """Refuse columns of a design, and combinations of them, that point at few rows.

        Args:
            rows: of this party.
            names: of the columns.
            intercept: which is all ones, if any.
            shaped: whether the question made the response, or has it among columns as
                well: then it is one more column of which combinations are made.
            groups: by the variables they are made of, columns of a wide design to be
                looked at by themselves as well.
            two_valued: as for `column`, by place. Without it columns may be constant:
                a level that no row has makes one, and its category is looked at.
        """
        rules = self.rules
        off = rules.minimum_count < 2 and rules.effective_count <= 1.0
        free = off and rules.site_terms and rules.maximum_influence >= 1.0
        roots = np.sqrt(rows.weigh(np.ones(rows.n_rows)))
        for k in () if free else self._doubtful(rows):
            values = np.ascontiguousarray(rows.design[:, k], dtype=np.float64)
            low, high = float(values.min()), float(values.max())
            if k != intercept and (low < high or two_valued is not None):
                self.column(names[k], values, two_valued=partial(two_valued or bool, k))
                self._alone(names[k], values, roots)
        if self.rules.maximum_influence < 1.0 and rows.n_rows:
            self._leverage(
                LeverageColumns(rows, intercept, shaped), names, groups or {}
            )

    def together(self, columns: Design, variables: Sequence[frozenset[str]]) -> None:
        """Refuse columns of several questions, if they point at few rows together.

        Args:
            columns: of all rows, and none that is 0 in all.
            variables: what each of the columns is made of.
        """
        rows = Rows(columns, np.zeros(len(columns)))
        ones = np.flatnonzero((columns == 1.0).all(axis=0))
        sets = dict.fromkeys(variables)
        groups = {
            tuple(sorted(few)): [k for k, own in enumerate(variables) if own <= few]
            for few in sets
        }
        if self.rules.maximum_influence < 1.0:
            intercept = int(ones[0]) if ones.size else None
            names = ["" for _ in variables]
            self._leverage(LeverageColumns(rows, intercept), names, groups)

    def apart(
        self,
        columns: Design,
        variables: Sequence[frozenset[str]],
        compared: Callable[[int, int], bool],
    ) -> None:
        """Refuse groups of several questions that differ in few rows.

        Args:
            columns: of all rows, and none that is 0 in all.
            variables: what each of the columns is made of.
            compared: says of two columns whether a question has compared them, and
                merges what is small between them.
        """
        flags = ((columns == 0.0) | (columns == 1.0)).all(axis=0)
        for few in dict.fromkeys(variables):
            alike = [k for k, own in enumerate(variables) if own == few and flags[k]]
            part = columns[:, alike]
            shared = part.T @ part
            sizes = np.diag(shared)
            apart = sizes[:, None] + sizes - 2.0 * shared
            near = np.argwhere((apart > 0.0) & (apart < self.rules.minimum_count))
            small = np.array(
                [
                    apart[j, k]
                    for j, k in near.tolist()
                    if j < k and not compared(alike[j], alike[k])
                ]
            )
            if small.size:
                self._refuse(
                    "minimum_count",
                    f"two groups by {', '.join(sorted(few)) or 'who is in'} differ in "
                    f"{_rule_row_words(int(small.min()))} of {self.party}'s",
                    "ask for the same groups again, or for others",
                    int(small.min()),
                )

    def responses(
        self, columns: Design, parts: Sequence[Sequence[int]], what: str, way_out: str
    ) -> None:
        """Refuse responses that point at few rows beside columns of other questions.

        Products of a response with covariates are released, and products of other
        columns with the same covariates.

        Args:
            columns: responses and columns of all questions, as in `together`.
            parts: places of columns whose combinations are not looked at: those of one
                question, and those that were released before.
            what: words for the columns.
            way_out: a change that makes the question possible.
        """
        most = min(self.rules.minimum_count - 1, len(columns) // _ROWS_FOR_SEVERAL)
        limit = self.rules.maximum_influence
        found = concentration_of_parts_together(columns, parts, limit, max(most, 1))
        if found is not None:
            self._refuse(
                "maximum_influence",
                f"{what} can be combined so that {min(found.largest, 1.0):.1%} of the "
                f"result lies on {_rule_row_words(len(found.rows))} of {self.party}'s",
                way_out,
                1.0
                if found.largest >= 0.995
                else float(f"{found.largest + 0.005:.2f}"),
            )

    def order(self, name: str, levels: Sequence[Any]) -> None:
        """Refuse levels in another order than before, if small levels merge.

        Args:
            name: the column.
            levels: in the order of an earlier question.
        """
        if self.rules.minimum_count >= 2:
            self._refuse(
                "minimum_count",
                f"the levels of {name!r} are listed in another order than in an "
                "earlier question, and a small level merges with the next one",
                "list them in the order of before: categories = "
                + json.dumps([*levels], ensure_ascii=False),
                0,
            )

    def units(self, name: str, rounded: Mapping[str, PerRow]) -> None:
        """Refuse a column in several units that round few rows differently.

        What the units add to the first one is the part of the rounded columns that is
        no linear function of the column in the first unit. One row has at most the
        part of it that it would have among `minimum_count` rows.

        Args:
            name: the column.
            rounded: its values, nan for none, by the unit in words.
        """
        if self.rules.minimum_count < 2 or len(rounded) < 2:
            return
        versions = np.column_stack([*rounded.values()])
        versions = versions[np.isfinite(versions).all(axis=1)]
        base, _ = np.linalg.qr(
            np.column_stack([np.ones(len(versions)), versions[:, 0]])
        )
        more = versions[:, 1:] - base @ (base.T @ versions[:, 1:])
        sizes = np.linalg.norm(more, axis=0)
        more = more[:, sizes > _DIGITS * np.linalg.norm(versions[:, 1:], axis=0)]
        if not more.size:
            return
        left, values, _ = np.linalg.svd(
            more / np.linalg.norm(more, axis=0), full_matrices=False
        )
        left = left[:, values > _DIGITS * values[0]]
        largest = float((left**2).sum(axis=1).max())
        if largest * self.rules.minimum_count > 1.0:
            first, *others = rounded
            self._refuse(
                "minimum_count",
                f"the question counts {name!r} in units of {others[-1]}, and an "
                f"earlier one did in units of {first}: their difference points at "
                f"{_rule_row_words(max(1, floor(1.0 / largest)))} of {self.party}'s",
                f"ask with the unit of before (unit = {first!r})",
                max(1, floor(1.0 / largest)),
            )

    def summed(self, name: str, flags: Array[Any]) -> None:
        """Refuse sums of a column over groups that leave few rows when combined.

        Args:
            name: the column.
            flags: the groups over which it is summed, a column each.
        """
        largest = self.rules.maximum_influence
        if largest >= 1.0:
            return
        if _fewest_alike_table_rows(flags) >= self.rules.minimum_count:
            return  # no combination tells rows apart that are in the same groups
        rows = Rows(flags.astype(np.float64), np.zeros(len(flags)))
        ones = np.flatnonzero(flags.all(axis=0))
        columns = LeverageColumns(rows, int(ones[0]) if ones.size else None)
        most = min(self.rules.minimum_count - 1, rows.n_rows // _ROWS_FOR_SEVERAL)
        one, several = columns.concentration(max(most, 1))
        what = f"sums of {name!r} over groups"
        way_out = (
            "leave out an interaction or a 0/1 column, merge levels, or ask a party "
            "with more rows"
        )
        self._pointing(what, one, largest, way_out)
        self._several(what, several, way_out)

    def _several(
        self, what: str, found: LeverageConcentration, way_out: str | None = None
    ) -> None:
        """Refuse a combination of columns that lies on several rows."""
        left = 1.0 - self.rules.maximum_influence
        needed = 1.0 - (1.0 - found.largest) / FEW_ROWS_SHARE
        self._pointing(what, found, 1.0 - FEW_ROWS_SHARE * left, way_out, needed=needed)

    def _alone(self, what: str, values: PerRow, roots: PerRow) -> None:
        """Refuse a column that, less its mean, is mostly one row's.

        Args:
            what: the column is called.
            values: one for each row.
            roots: of the weights of rows.
        """
        if self.rules.maximum_influence >= 1.0:
            return
        ones = roots / np.linalg.norm(roots)
        off = (values - values[0]) * roots
        off -= np.einsum("i,i->", ones, off) * ones
        # As far as digits go, a constant.
        if not (square := sum_of_squares(off)) > 1e-20 * sum_of_squares(values):
            return
        leverage = ones**2 + off**2 / square
        found = LeverageConcentration(float(leverage.max()), (int(leverage.argmax()),))
        needed = found.largest / ALONE
        self._pointing(
            f"{what!r} alone", found, self.rules.influence_alone, needed=needed
        )

    def _doubtful(self, rows: Rows) -> list[int]:
        """Return the columns that must be looked at one by one: of others, all is sure.

        Blocks are quick, and columns far apart in memory are not. Nothing is sure where
        rows have weights: what is spread over many may lie on one.
        """
        if not rows.n_rows:
            return []
        if rows.weights is not None:
            return list(range(rows.n_columns))
        low = rows.design[0].astype(np.float64)
        high, sums, squares = low.copy(), np.zeros(len(low)), np.zeros(len(low))
        for start in range(0, rows.n_rows, _BLOCK):
            block = rows.design[start : start + _BLOCK].astype(np.float64, copy=False)
            np.minimum(low, block.min(axis=0), out=low)
            np.maximum(high, block.max(axis=0), out=high)
            sums += np.ones(len(block)) @ block
            squares += np.einsum("ij,ij->j", block, block)
        middle = sums / rows.n_rows
        # Where columns lie far from 0, rounding is taken off twice, and doubt remains.
        spread = squares * (1.0 - 1e-10) - sums * middle
        furthest = np.maximum(high - middle, middle - low)
        alone = self.rules.influence_alone - 1.0 / rows.n_rows
        least = max(_SURELY * self.rules.effective_count, 1.0 / max(alone, 1e-9))
        enough = least * furthest**2
        head = rows.design[:1000]
        two = ((head == low) | (head == high)).all(axis=0)
        return np.flatnonzero(two | ~(spread > 1.01 * enough)).tolist()

    def _leverage(
        self,
        columns: LeverageColumns,
        names: Sequence[str],
        groups: Mapping[tuple[str, ...], Sequence[int]],
    ) -> None:
        n_rows, largest = columns.rows.n_rows, self.rules.maximum_influence
        most = min(self.rules.minimum_count - 1, n_rows // _ROWS_FOR_SEVERAL)
        one, several = columns.concentration(max(most, 1))
        self._pointing("the columns together", one, largest)
        self._several("the columns together", several)
        if not columns.is_wide(len(names) + columns.response):
            return
        for variables, group in groups.items():
            part = columns.among(group)
            # Of one variable so many columns are a way to single out its values.
            alone = len(variables) == 1
            found = part.leverage() if alone else part.concentration()[0]
            what = f"the columns made of {', '.join(variables) or 'nothing'}"
            self._pointing(what, found, largest)

    def _pointing(
        self,
        what: str,
        found: LeverageConcentration,
        largest: float,
        way_out: str | None = None,
        *,
        needed: float | None = None,
    ) -> None:
        """Refuse a combination of columns of which a few rows are the most.

        Args:
            what: the columns in words.
            found: the rows, and their part of the combination.
            largest: the largest part that is allowed.
            way_out: what to ask instead.
            needed: value of `maximum_influence` that allows it, if not that part.
        """
        if found.largest > largest:
            number = len(found.rows) or 1
            needed = ceil(100 * (found.largest if needed is None else needed)) / 100
            self._refuse(
                "maximum_influence",
                f"{what} can be combined so that {min(found.largest, 1.0):.1%} of the "
                f"result lies on {_rule_row_words(number)} of {self.party}'s",
                way_out
                or "use fewer or other terms, such as logarithms of columns with long "
                "tails, or a party with more rows",
                min(1.0, needed),
            )

    def influence(self, by_column: Mapping[str, float]) -> None:
        """Refuse a first sum in all numbers of which one row stands out.

        Later sums of a fit are not looked at in this way: with exact rounds, the rows
        of ordinary fits stand out as those of attacks do. Their weights are.

        Args:
            by_column: largest influence of a row (see `disclosure.influence`), by the
                column that an attacker does not know.
        """
        least = self.rules.least_left_in_a_sum
        name = max(by_column, key=lambda one: by_column[one], default="")
        left = 1.0 - by_column.get(name, 0.0)
        if left >= least:
            return
        self._refuse(
            "maximum_influence",
            f"one of {self.party}'s rows stands out in all numbers of a sum: "
            f"who knows everything else would know its {name!r} to within "
            f"{sqrt(left):.2g} standard deviations, and {sqrt(least):.2g} is the limit",
            "leave out one of the columns, such as one of two that differ in few rows, "
            "merge levels, or ask a party with more rows",
            min(1.0, ceil(1e3 * (1.0 - left / IN_A_SUM)) / 1e3),
            code="row-stands-out",
        )

    def weighed(self, answer: Callable[[Any], Array[Any]], request: Any) -> Array[Any]:
        """Return an answer whose sums rest on enough rows; refuse it otherwise.

        Twice `minimum_count` effective rows, no row with more than a fifth of the
        weight, and as much weight as so many whole rows have: see `RowWeights`.
        """
        with collect_row_weights() as noted:
            vector = answer(request)
        if self.rules.minimum_count < 2:  # switched off, and listed as such
            return vector
        least = 2 * self.rules.minimum_count
        for weights in noted:
            if (problem := weights.problem(least)) is not None:
                raise DisclosureError(
                    "minimum_count",
                    f"{self.party}: {problem} (2 x minimum_count). Not sent: ask for "
                    "fewer or coarser columns, add a ridge or rows, or leave out the "
                    "column that sets these rows apart; only if all parties want "
                    f"that, {how_rules_are_loosened(minimum_count=0)} allows it",
                    code="too-few-weighed-rows",
                    changes={"minimum_count": 0},
                )
        return vector

    def bounded(self, what: str, *, bounded: bool) -> None:
        """Refuse sums of how far each row is from a forecast, if that has no bound."""
        if not bounded and self.rules.effective_count > 1.0:
            self._refuse(
                "effective_count",
                f"how far off all forecasts of {what!r} are may be one row's alone",
                "ask for folds of a 0/1 response, or of least squares",
                1.0,
            )

    def _refuse(
        self,
        rule: str,
        found: str,
        way_out: str,
        value: float | None = None,
        code: str = "group-too-small",
    ) -> NoReturn:
        limit = getattr(self.rules, rule)
        changes = {rule: True if value is None else value}
        agree = how_rules_are_loosened(**changes)
        stated = "" if value is None else f", and {rule} is {limit:g}"
        raise DisclosureError(
            rule,
            f"{self.party}: {found}{stated}. Not sent: {way_out}; only if all parties "
            f"want that, {agree} allows it",
            code=code,
            changes=changes,
        )


def _decimals_of_values(found: PerRow, unit: Fraction) -> Fraction:
    """Return the power of ten of which all values are multiples; 0 if there is none.

    Args:
        found: the values, which may have been rounded to the unit.
        unit: of the column.
    """
    for digits in range(MOST_DECIMALS + 1):
        for some in (found[:1000], found):
            scaled = some * 10.0**digits
            off = np.abs(scaled - np.rint(scaled))
            rounding = 1e-9 * np.abs(scaled) + float(unit / 2) * 10.0**digits
            if (off > np.clip(rounding, 1e-9, 6e-4)).any():
                break
        else:
            return Fraction(1, 10**digits)
    return Fraction(0)


def _fewest_alike_table_rows(flags: Array[Any]) -> int:
    """Return the number of rows in the smallest set of rows with the same flags."""
    codes = np.zeros(len(flags), dtype=np.int64)
    for place, column in enumerate(flags.T, start=1):
        codes = 2 * codes + column
        if place % 32 == 0:  # a code stays below the number of rows, times 2^32
            codes = np.unique(codes, return_inverse=True)[1]
    return int(np.unique(codes, return_counts=True)[1].min())


def _rule_row_words(number: int) -> str:
    return "1 row" if number == 1 else f"{number} rows"
