"""Lines of a dictionary that do what was written into a formula.

Numbers, comparisons and functions let the author of a formula point at one person. In
the dictionary everybody sees them before any question. A formula that has some is
refused, and where a derived column does the same the refusal says which.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple, NoReturn

from veilsum.errors import InvalidInputError, printable
from veilsum.tables.derived import DOMAINS, FORMS, LARGEST_EXPONENT
from veilsum.tables.formula.syntax import short_formula_text
from veilsum.tables.formula.tokens import FormulaToken

# Letters of a formula that is shown as a whole, and terms that are listed.
LONGEST_SHOWN = 600
MOST_SHOWN = 20
LONGEST_SHAPE = 100


class Computed(NamedTuple):
    """Something computed that stands in a formula."""

    start: int
    end: int
    tokens: tuple[FormulaToken, ...]


class Proposal(NamedTuple):
    """Proposed replacement for a computed part of a formula.

    Attributes:
        term: the replacement, such as `log_cost`.
        lines: lines to add to [schema.columns].
        note: additional advice.
    """

    term: str
    lines: tuple[str, ...] = ()
    note: str = ""


def refuse_computed(text: str, computed: Sequence[Computed]) -> NoReturn:
    """Refuse a formula that computes, with all that would do instead.

    Raises:
        InvalidInputError: always.
    """
    terms, lines, written, after = list[str](), list[str](), "", 0
    helped = len(computed) <= MOST_SHOWN
    for one in computed[:MOST_SHOWN]:
        code = short_formula_text(text[one.start : one.end])
        proposal = _proposal(one.tokens)
        written += text[after : one.start]
        after = one.end
        if proposal is None:
            helped = False
            terms.append(
                f"{code}: no derived column does this; they are of the forms "
                f"{', '.join(FORMS)}, with cut points as knots and ends of intervals; "
                "or all tables have a column of these values, and agree on it"
            )
            continue
        lines += (line for line in proposal.lines if line not in lines)
        written += proposal.term
        note = f" ({proposal.note})" if proposal.note else ""
        terms.append(f"{code}: write {printable(proposal.term)}{note}")
    found = "; ".join(terms)
    message = (
        f"the formula {short_formula_text(text)} computes, and a formula has only "
        "names of columns, their products, nesting and C(...): with constants its "
        "author could point at one person, so they stand in the dictionary, where "
        f"everybody sees them before a question. {found}"
    )
    if lines:
        shown = "; ".join(printable(line) for line in lines)
        message += f". Add to [schema.columns]: {shown}"
    whole = f"{written}{text[after:]}"
    if helped and len(whole) <= LONGEST_SHOWN:
        message += f". The formula is then: {printable(whole)}"
    raise InvalidInputError(message, code="formula-not-plain")


_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_FUNCTIONS = "|".join(DOMAINS)
# Texts of a computed term, each token after the other with N for a name, T for a text
# in quotes, and numbers and signs as they are.
_CALL = re.compile(rf"(?:np\.)?({_FUNCTIONS})\(N\)")
_SPLINE = re.compile(r"(bs|ns|cr|cs)\(N.*\)")
_POLY = re.compile(r"poly\(N,([0-9]+).*\)")
_POWER = re.compile(r"N(?:\*\*|\^)([0-9]+)")
_SQUARE = re.compile(r"N(?:\*N)+")
_SCALED = re.compile(
    rf"(?:N([*/])({_NUMBER})|({_NUMBER})\*N|\(N[-+]{_NUMBER}\)([*/])({_NUMBER}))"
)
_SHIFTED = re.compile(rf"N[-+]{_NUMBER}|(?:scale|center|standardize)\(N\)")
_STEP = re.compile(rf"N(<=?|>=?)({_NUMBER})|({_NUMBER})(<=?|>=?)N")
_SHIFT = "with an intercept and main effects, a shift changes no prediction"
_LEVEL = re.compile(r"N(?:==|!=)T|T(?:==|!=)N")


def _proposal(tokens: Sequence[FormulaToken]) -> Proposal | None:
    """Return what to write instead of a computed term; None if nothing does it."""
    names = dict.fromkeys(_names(tokens))
    if len(names) != 1:
        return None
    (name,) = names
    shape = "".join(_shapes(tokens))
    if len(shape) > LONGEST_SHAPE:
        return None
    while inner := re.fullmatch(r"(?:I\((.*)\)|\{(.*)\}|\((.*)\))", shape):
        unwrapped = next(one for one in inner.groups() if one is not None)
        if not _is_balanced(unwrapped):
            break
        shape = unwrapped
    if shape == "N":
        return Proposal(_in_formula(name))
    if call := _CALL.fullmatch(shape):
        return _line(f"{call[1]}_{name}", name, call[1])
    if spline := _SPLINE.fullmatch(shape):
        form = "natural spline" if spline[1] in {"ns", "cr"} else "b-spline"
        note = f"knots are the cut points of {name}, or some of them: knots = [...]"
        return _line(f"{name}_spline", name, form, note=note)
    if (poly := _POLY.fullmatch(shape)) and len(poly[1]) < 3:
        return _powers(name, int(poly[1]))
    power, square = _POWER.fullmatch(shape), _SQUARE.fullmatch(shape)
    if power or square:
        exponent = int(power[1][:9]) if power else shape.count("N")
        if 2 <= exponent <= LARGEST_EXPONENT:
            return _line(f"{name}_{exponent}", name, "power", exponent=exponent)
        return None
    if scaled := _SCALED.fullmatch(shape):
        sign, number = next(
            (a, b)
            for a, b in (scaled.group(1, 2), ("*", scaled[3]), scaled.group(4, 5))
            if b
        )
        unit = Fraction(number)
        if not unit or len(number) > 20:
            return None
        unit = unit if sign == "/" else 1 / unit
        label = str(unit).replace("/", "_")
        note = _SHIFT if scaled[5] else ""
        written = unit.numerator if unit.denominator == 1 else str(unit)
        return _line(f"{name}_per_{label}", name, "scale", note=note, unit=written)
    if _SHIFTED.fullmatch(shape):
        return Proposal(_in_formula(name), note=_SHIFT)
    if step := _STEP.fullmatch(shape):
        sign, number = (step[1], step[2]) if step[1] else (step[4], step[3])
        note = f"{number} is to be among the cuts of {name}"
        label = number.replace(".", "_")
        cut = float(number) if "." in number else int(number)
        return _line(f"{name}_from_{label}", name, "intervals", note=note, cuts=[cut])
    if _LEVEL.fullmatch(shape):
        (level,) = (t.text for t in tokens if t.kind in {"single", "double"})
        word = "_".join(re.findall(r"\w+", level)) or "level"
        return _line(f"{name}_{word}", name, "level", level=level)
    return None


def _powers(name: str, degree: int) -> Proposal | None:
    if not 2 <= degree <= LARGEST_EXPONENT:
        return None
    each = [
        _line(f"{name}_{k}", name, "power", exponent=k) for k in range(2, degree + 1)
    ]
    terms = " + ".join([_in_formula(name), *(one.term for one in each)])
    return Proposal(f"({terms})", tuple(line for one in each for line in one.lines))


def _line(
    new: str, name: str, form: str, *, note: str = "", **more: object
) -> Proposal:
    key = new if re.fullmatch(r"[A-Za-z0-9_-]+", new) else json.dumps(new)
    entries = {"of": name, "as": form, **more}
    written = ", ".join(
        f"{k} = {json.dumps(one, ensure_ascii=False)}" for k, one in entries.items()
    )
    return Proposal(_in_formula(new), (f"{key} = {{ {written} }}",), note)


def _in_formula(name: str) -> str:
    return name if re.fullmatch(r"[^\W\d][\w.]*", name) else f"`{name}`"


def _names(tokens: Sequence[FormulaToken]) -> Iterator[str]:
    """Yield names of columns: what is called is none of them."""
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        call = after is not None and after[:2] in {("sign", "("), ("sign", "=")}
        if token.kind == "quoted" or (token.kind == "name" and not call):
            yield token.text


def _shapes(tokens: Sequence[FormulaToken]) -> Iterator[str]:
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        call = after is not None and after[:2] in {("sign", "("), ("sign", "=")}
        if token.kind == "quoted" or (token.kind == "name" and not call):
            yield "N"
        elif token.kind in {"single", "double"}:
            yield "T"
        else:
            yield token.text


def _is_balanced(shape: str) -> bool:
    """Say whether brackets of a text close in it, and none that opened before."""
    depth = 0
    for sign in shape:
        depth += (sign in "({[") - (sign in ")}]")
        if depth < 0:
            return False
    return depth == 0
