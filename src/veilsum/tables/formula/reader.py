"""Reads the text of a formula into terms; nothing of it is ever run as code.

A formula is plain: names of columns, products, nesting and C(...). What else stands in
one is refused, with the lines of the dictionary that do the same (`proposals`).
"""

from __future__ import annotations

from math import comb
from typing import NoReturn

from veilsum.errors import InvalidInputError, printable
from veilsum.tables.formula.proposals import Computed, refuse_computed
from veilsum.tables.formula.syntax import (
    CONTRASTS,
    INTERCEPT,
    MOST_DESIGN_COLUMNS,
    SIGNS,
    Coded,
    Named,
    Node,
    Option,
    ReadFormula,
    SurvivalFormula,
    Term,
    Terms,
    short_formula_text,
)
from veilsum.tables.formula.tokens import (
    CLOSING,
    END,
    TILDE,
    FormulaToken,
    check_formula_text,
    tokenize_formula,
)


def read_formula(text: str) -> ReadFormula:
    """Return a formula's terms; this is the only place that looks at its text.

    Raises:
        InvalidInputError: it is not a formula, or asks for more than the bounds allow.
    """
    check_formula_text(text)
    return _FormulaReader(text).formula()


def read_surv_formula(text: str) -> SurvivalFormula:
    """Return the parts of a formula whose left side is `Surv(time, event)`.

    Time and event are columns, with backticks where a name needs them. The right side
    is plain and has no `Surv` in it; its text is returned as it was written.

    >>> read_surv_formula("Surv(days, died) ~ age + C(sex)")
    SurvivalFormula(time='days', event='died', right='age + C(sex)')

    Raises:
        InvalidInputError: it is not such a formula.
    """
    check_formula_text(text)
    return _FormulaReader(text).survival()


# Bounds on what a formula may ask for; each is checked before the work is done.
LARGEST_POWER = 5
DEEPEST_NESTING = 20
MOST_FACTORS_IN_A_TERM = 20
MOST_TERMS = MOST_DESIGN_COLUMNS
COMPARED = frozenset({"<", "<=", ">", ">=", "==", "!="})


class _FormulaReader:
    """Reads one formula from left to right, and multiplies its terms out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize_formula(text)
        self.place = 0
        # Where the factor ends that is being read, and its own text for refusals.
        self.stop = len(self.tokens)
        self.code = ""
        self.depth = self.made = 0
        self.written: list[tuple[Node, str]] = []
        self.computed: list[Computed] = []

    def formula(self) -> ReadFormula:
        if not self.tokens or self._sign() == "~":
            self._refuse_sides()
        left = self._sum({})
        if not self._took("~"):
            self._refuse_sides()
        # The intercept is there unless the right side takes it away.
        right: Terms = {frozenset(): INTERCEPT}
        if self._next() is not END:
            right = self._sum(right)
        if self._sign() == "|":
            self._refuse_sides()
        if self._next() is not END:
            self._unexpected()
        if self.computed:
            refuse_computed(self.text, self.computed)
        by_degree = sorted(right.values(), key=len)
        return ReadFormula(tuple(left.values()), tuple(by_degree), tuple(self.written))

    def survival(self) -> SurvivalFormula:
        """Return the columns in `Surv(time, event)`, and the text of the other side."""
        sides = [one for one, token in enumerate(self.tokens) if token[:2] == TILDE]
        first = self._next()
        if len(sides) != 1 or first.text != "Surv" or self._sign(1) != "(":
            self._refuse_survival("has no such left side")
        if first.end != self._next(1).start:
            self._refuse_survival("has a space after Surv")
        after, last = sides[0] + 1, self._closing(1)
        if after == len(self.tokens):
            self._refuse_survival("has nothing on the right; 1 stands for all rows")
        if any(token[:2] == ("name", "Surv") for token in self.tokens[after:]):
            self._refuse_survival("has Surv on the right, and it stands on the left")
        if last + 2 != after:
            self._refuse_survival("has more than Surv on the left")
        inside = self.tokens[2:last]
        if any(token.kind in {"single", "double"} for token in inside):
            self._refuse_survival(
                "has a name in quotes; columns have none, or backticks"
            )
        columns, commas = inside[::2], inside[1::2]
        whole = len(columns) == len(commas) + 1
        if not whole or any(token[:2] != ("sign", ",") for token in commas):
            self._refuse_survival(
                "has more than columns in Surv; compute a column first, such as one "
                "that is 1 where the event was seen and 0 elsewhere"
            )
        if len(columns) == 3:
            self._refuse_survival(
                "has three columns in Surv; rows that enter late, or end within an "
                "interval, are not known here"
            )
        if len(columns) != 2 or any(
            one.kind not in {"name", "quoted"} or not one.text.strip()
            for one in columns
        ):
            self._refuse_survival("has something else than two columns in Surv")
        time, event = (one.text for one in columns)
        if time == event:
            self._refuse_survival("has one column for both time and event")
        self.place = after
        self._sum({frozenset(): INTERCEPT})
        if self.computed:
            refuse_computed(self.text, self.computed)
        return SurvivalFormula(
            time, event, self.text[self.tokens[after].start :].strip()
        )

    # Terms: sums, products and powers of factors, as R and formulaic have them.

    def _sum(self, terms: Terms) -> Terms:
        """Return these terms with those added and taken away that are written here."""
        minus = self._minus()
        while True:
            if self._next()[:2] == ("number", "0"):  # 0 is short for -1
                self.place += 1
                minus = not minus
                found: Terms = {frozenset(): INTERCEPT}
            else:
                found = self._product()
            for key, term in found.items():  # in place: there may be thousands
                if minus:
                    terms.pop(key, None)
                else:
                    terms.setdefault(key, term)
            self._check_terms(len(terms))
            if self._sign() not in SIGNS:
                return terms
            minus = self._minus()

    def _minus(self) -> bool:
        """Return whether the signs that stand here, if any, mean minus together."""
        minus = False
        while self._sign() in SIGNS:
            minus ^= self._sign() == "-"
            self.place += 1
        return minus

    def _product(self) -> Terms:
        left = self._interaction()
        while True:
            if self._took("*"):
                right = self._interaction()
                left = _unite_formula_terms(left, right, self._times(left, right))
            elif self._took("/"):
                left = self._within(left, self._interaction())
            elif self._took("%in%"):
                left = self._within(self._interaction(), left)
            else:
                return left

    def _within(self, parents: Terms, nested: Terms) -> Terms:
        common = tuple(dict.fromkeys(one for term in parents.values() for one in term))
        self._check_factors(common)
        whole = {frozenset(common): common}
        return _unite_formula_terms(parents, self._times(whole, nested))

    def _interaction(self) -> Terms:
        left = self._power()
        while self._took(":"):
            left = self._times(left, self._power())
        return left

    def _power(self) -> Terms:
        base = self._group()
        while self._sign() in {"**", "^"}:
            self.place += 1
            token = self._next()
            if token.kind != "number" or not token.text.isdigit() or token.text == "0":
                self._unreadable("the power of terms is a whole number, 1 or more")
            self.place += 1
            if len(token.text) > 1 or int(token.text) > LARGEST_POWER:
                raise InvalidInputError(
                    f"a power of terms is at most {LARGEST_POWER}, found "
                    f"{token.text[:9]}; for the power of a number the dictionary has "
                    'as = "power"',
                    code="power-too-large",
                )
            power = int(token.text)
            # Products of several of them, each once: no more than there are subsets.
            self._check_terms(sum(comb(len(base), k) for k in range(1, power + 1)))
            made = base
            for _ in range(power - 1):
                made = self._times(made, base)
            base = made
        return base

    def _times(self, left: Terms, right: Terms) -> Terms:
        if INTERCEPT in (*left.values(), *right.values()):
            self._refuse_multiple()
        # What is made and falls together again is work all the same, and a product of
        # long terms more than one of two factors.
        self.made += len(right) * sum(map(len, left.values()))
        self.made += len(left) * sum(map(len, right.values()))
        self._check_terms(self.made // 40)
        made: Terms = {}
        for one in left.values():
            for other in right.values():
                term = tuple(dict.fromkeys((*one, *other)))
                self._check_factors(term)
                made.setdefault(frozenset(term), term)
        return made

    def _check_terms(self, number: int) -> None:
        if number > MOST_TERMS:
            raise InvalidInputError(
                f"the formula {short_formula_text(self.text)} would be multiplied out "
                "to up to "
                f"{number:,} terms, and as many columns of the design or more; at most "
                f"{MOST_TERMS:,} are allowed: leave out interactions, or powers",
                code="too-many-terms",
            )

    def _check_factors(self, term: Term) -> None:
        if len(term) > MOST_FACTORS_IN_A_TERM:
            raise InvalidInputError(
                f"the formula {short_formula_text(self.text)} multiplies more than "
                f"{MOST_FACTORS_IN_A_TERM} factors in one term; leave some out, or "
                "merge columns first",
                code="too-many-factors",
            )

    def _group(self) -> Terms:
        """Return the terms in parentheses, or one factor as a term."""
        token = self._next()
        if token.kind == "number":
            before = self._sign(-1) if self.place else ""
            if {before, self._sign(1)} & {*"*/:^", "**", "%in%"}:
                self._refuse_multiple()
            if self._sign(1) in COMPARED:
                self.place += 1
                self._unexpected()
            if token.text != "1":
                self._unreadable("a number other than 0 and 1 is not a term")
            self.place += 1
            return {frozenset(): INTERCEPT}
        if self._sign() != "(" or self._compares(self.place):
            node = self._factor()
            self.written.append((node, self.code))
            return {frozenset({node}): (node,)}
        self.place += 1
        self._deeper()
        terms = self._sum({})
        self.depth -= 1
        if not self._took(")"):
            self._unexpected()
        return terms

    def _compares(self, opening: int) -> bool:
        """Say whether a bracket has a comparison right inside it, not further in."""
        depth = 0
        for token in self.tokens[opening : self._closing(opening)]:
            sign = token.text if token.kind == "sign" else ""
            depth -= sign in CLOSING.values()
            if depth == 1 and sign in {*COMPARED, "&"}:
                return True
            depth += sign in CLOSING
        return False

    # Factors: a column, or a category with a contrast

    def _factor(self) -> Node:
        token = self._next()
        call = token.kind == "name" and self._sign(1) == "("
        self.code = self.text[token.start : token.end]
        if token.kind in {"name", "quoted"} and not call:
            self.place += 1
            return Named(token.text)
        if token.text == ".":
            raise InvalidInputError(
                "write the columns out; '.' does not say which", code="dot-in-formula"
            )
        if not call and self._sign() not in {"{", "("}:
            self._unexpected()
        last = self._closing(self.place + call)
        self.code = self.text[token.start : self.tokens[last].end]
        if call and token.end != self._next(1).start:
            self._unreadable(f"there is a space after {token.text}")
        if call and token.text == "C":
            self.stop = last + 1
            node: Node = self._coded()
            if self.place < self.stop:
                self._refuse("must name a column inside C(...), and nothing else")
        else:
            return self._compute(self.place, last)
        self.place, self.stop = last + 1, len(self.tokens)
        return node

    def _compute(self, first: int, last: int) -> Named:
        """Note something computed, which is refused at the end, and read on."""
        while self._joined(last):
            last = self._closing(last + 2)
        start, end = self.tokens[first].start, self.tokens[last].end
        self.code = self.text[start:end]
        if self.code.startswith("Surv("):
            self._refuse(
                "is about times until an event, which are no response of a [model]: "
                "ask for a regression of them with [cox], for curves with [survival]"
            )
        self.computed.append(Computed(start, end, tuple(self.tokens[first : last + 1])))
        self.place = last + 1
        return Named(f"computed {len(self.computed)}")

    def _joined(self, last: int) -> bool:
        """Say whether a bracket that ends there is joined with another by & or |."""
        signs = [t.text for t in self.tokens[last + 1 : last + 3] if t.kind == "sign"]
        return len(signs) == 2 and signs[0] in {"&", "|"} and signs[1] == "("

    def _closing(self, opening: int) -> int:
        """Return where the bracket is closed that is opened here."""
        expected: list[str] = []
        for place, token in enumerate(self.tokens[opening:], opening):
            if token.kind == "sign" and token.text in CLOSING:
                expected.append(CLOSING[token.text])
            elif token.kind == "sign" and token.text in CLOSING.values():
                if expected.pop() != token.text:
                    break
                if not expected:
                    return place
        return self._unreadable("a bracket is not closed")

    def _coded(self) -> Node:
        self.place += 2
        first = self._take()
        known = first.kind == "quoted" or (
            first.kind == "name" and "." not in first.text
        )
        if not known or self._sign() not in {",", ")"}:
            self._refuse("must name a column inside C(...), and nothing else")
        column = Named(first.text, quoted=first.kind == "quoted")
        if self._took(")"):
            return Coded(column)
        self.place += 1
        other = "has options of C other than a contrast; levels are the schema's"
        keyword = self._sign(1) == "="
        if keyword:
            if self._next().text != "contrasts":
                self._refuse(other)
            self.place += 2
        contrast = self._take().text
        options = self._options() if self._took("(") else None
        if contrast not in CONTRASTS or self._sign() not in {",", ")"}:
            self._refuse(
                f"has an unknown contrast; contrasts are {', '.join(CONTRASTS)}"
            )
        if not self._took(")"):
            self._refuse(other)
        return Coded(column, contrast, options, keyword)

    def _options(self) -> tuple[Option, ...]:
        options: list[Option] = []
        while not self._took(")"):
            key = None
            if self._sign(1) == "=":
                key = self._take().text
                self.place += 1
            token = self._take()
            if token.kind in {"single", "double"}:
                options.append(Option(key, token.text, repr(token.text)))
            else:
                value = {"True": True, "False": False}.get(token.text)
                options.append(Option(key, value, printable(token.text)))
            if not self._took(",") and self._sign() != ")":
                break  # the caller finds no end
        return tuple(options)

    # Where the reader stands, and what it says

    def _next(self, ahead: int = 0) -> FormulaToken:
        place = self.place + ahead
        return self.tokens[place] if place < self.stop else END

    def _sign(self, ahead: int = 0) -> str:
        token = self._next(ahead)
        return token.text if token.kind == "sign" else ""

    def _take(self) -> FormulaToken:
        token = self._next()
        self.place += 1
        return token

    def _took(self, sign: str) -> bool:
        found = self._sign() == sign
        self.place += found
        return found

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            raise InvalidInputError(
                f"the formula {short_formula_text(self.text)} nests more than "
                f"{DEEPEST_NESTING} brackets; leave some out",
                code="nested-too-deep",
            )

    def _refuse_multiple(self) -> NoReturn:
        raise InvalidInputError(
            f"the formula {short_formula_text(self.text)} multiplies a term by a "
            'number; a column that is scaled stands in the dictionary, as = "scale"',
            code="formula-not-plain",
        )

    def _unexpected(self) -> NoReturn:
        if self._sign() == "|":
            self._unreadable(
                "(1 | site) is no term here: coefficients that differ between parties "
                'are asked for by [mixed], random = ["1"], and effects of parties are '
                "taken off a gaussian fit by [model] absorb = true"
            )
        if self._sign() in {*COMPARED, "&"}:
            raise InvalidInputError(
                f"the formula {short_formula_text(self.text)} compares; intervals of a "
                'column stand in the dictionary, as = "intervals"',
                code="formula-not-plain",
            )
        found = (
            short_formula_text(self._next().text)
            if self._next() is not END
            else "the end"
        )
        self._unreadable(f"{found} is not expected where it stands")

    def _unreadable(self, why: str) -> NoReturn:
        raise InvalidInputError(
            f"the formula {short_formula_text(self.text)} cannot be read: {why}",
            code="unreadable-formula",
        )

    def _refuse_sides(self) -> NoReturn:
        raise InvalidInputError(
            f"the formula {short_formula_text(self.text)} must have one left and one "
            "right side, "
            "such as 'y ~ age + C(sex)'",
            code="not-two-sides",
        )

    def _refuse_survival(self, found: str) -> NoReturn:
        raise InvalidInputError(
            "the formula must be one such as 'Surv(time, event) ~ C(sex)', with a "
            "column of times and one that is 1 where the event was seen; found "
            f"{short_formula_text(self.text)}, which {found}",
            code="not-survival-formula",
        )

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidInputError(
            f"the term {short_formula_text(self.code)} {why}", code="term-refused"
        )


def _unite_formula_terms(*parts: Terms) -> Terms:
    made: Terms = {}
    for part in parts:
        for key, term in part.items():
            made.setdefault(key, term)
    return made
