"""What a party agrees to when it takes part: one page in plain words.

The first half follows from the consortium file alone. It is the same for every member,
letter by letter, and its digest goes into every receipt. The second half is about this
party: its table, its own rules, its ledger. That half is for its owner's eyes, and its
files are too.

Whatever the file says is shown as text, in quotes, and never at the beginning of a
line: nothing in it can pass for a line of this page.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from veilsum.consortium.consortium import Consortium, Minimisation, canonical
from veilsum.consortium.sections import (
    CoxSection,
    EvaluateSection,
    MetaSection,
    MixedSection,
    ModelSection,
    StatisticsSection,
    SurvivalSection,
)
from veilsum.errors import printable
from veilsum.files.output import as_json, write_files
from veilsum.locale import label, limit, meaning, round_name
from veilsum.minimise.question import Minimise
from veilsum.models.choices import Ordinal
from veilsum.models.evaluation import bin_labels
from veilsum.models.families import Gaussian
from veilsum.models.tallies import Bins
from veilsum.net.identity import grouped
from veilsum.party import survey_words
from veilsum.party.agreed import Asked, agreed_on
from veilsum.party.own_rules import (
    CONSTANTS_AIM,
    Value,
    allowing,
    columns_asked,
    constants_asked,
    exact,
    in_force,
    relaxed,
)
from veilsum.questions.cox import CoxJob
from veilsum.questions.cox_bins import BinnedCoxJob
from veilsum.questions.dispatch import FLEETS, PeriodsRecipe, PriceRecipe
from veilsum.questions.evaluate import AnyEvaluation
from veilsum.questions.evaluate.bins import BinsJob
from veilsum.questions.evaluate.concordance import ConcordanceJob
from veilsum.questions.evaluate.errors import ErrorsJob
from veilsum.questions.evaluate.folds import FoldsJob
from veilsum.questions.evaluate.refits import RefitsJob
from veilsum.questions.meta import MetaJob
from veilsum.questions.mixed import MixedJob
from veilsum.questions.regression import FormulaJob
from veilsum.questions.statistics import StatisticsJob
from veilsum.questions.survival import SurvivalJob
from veilsum.showing import Items, Showing, Shown
from veilsum.sums.presence import FEW_VALUES, Screened, Varying
from veilsum.sums.recipes import Guarded, open_limits
from veilsum.sums.releases import BY_PARTY, Foreseen
from veilsum.surveys.question import SurveyRecipe
from veilsum.tables.axes import Axis, n_cells
from veilsum.tables.columns import Column
from veilsum.tables.propensity import Propensity

WIDTH = 88
# A digest of facts is for that, and for no other use.
CONTEXT = b"veilsum consent\0"
# The page for programs, among a run's files.
PAGE = "consent.json"
# A page is for reading: what does not fit into so many letters is not listed, and that
# is said first. One list inside a line, and all lines about one thing.
MOST_IN_A_LINE, MOST_LETTERS = 4_000, 40_000

SAME = (
    "The page above is the same for every member of the consortium. What follows is "
    "about you, and for you alone."
)
OF_A_PLAN = (
    "The page above follows from the plan alone, whoever reads it; a consortium file "
    "that is made of it has a page of its own. What follows is about you, and for you "
    "alone."
)


@dataclass(frozen=True)
class Part:
    """Some lines of a page under one heading; a dash begins an item."""

    heading: str
    lines: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        """The heading, and every line under it, each a little to the right."""
        rows = [self.heading]
        for line in self.lines:
            first = "    " if line.startswith("- ") else "  "
            rows += textwrap.wrap(
                printable(line),
                WIDTH,
                initial_indent=first,
                subsequent_indent=first + "    ",
                break_on_hyphens=False,
            )
        return "\n".join(rows) + "\n"


@dataclass(frozen=True, kw_only=True, repr=False)
class Consent(Shown):
    """What a party agrees to.

    Attributes:
        shared: the half that all members have alike.
        facts: the same for programs.
        own: the half about one party; () where nobody's table is looked at.
    """

    shared: tuple[Part, ...]
    facts: Mapping[str, Any]
    own: tuple[Part, ...] = ()

    @cached_property
    def page(self) -> str:
        """The half that all members have alike, as text."""
        return "\n".join(part.text for part in self.shared)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `facts`, in hexadecimal, as receipts have it: words are not in it.

        Facts have the digest of the consortium file, from which everything follows.
        """
        return hashlib.sha256(CONTEXT + canonical(self.facts)).hexdigest()

    def showing(self) -> Showing:
        """Return the half that all members have alike; `text` has one's own as well."""
        first, *rest = self.shared
        of = "a plan" if self.facts["run"] is None else f"the run {self.facts['run']}"
        own = [".text() has the half about you as well, which is for you alone."]
        return Showing(
            f"Consent to {of}, digest {self.digest}",
            [Items(first.heading, first.lines), *(own if self.own else [])],
            {one.heading: one.lines for one in rest},
        )

    def text(self) -> str:
        """Return the whole page."""
        if not self.own:
            return self.page
        rest = "\n".join(part.text for part in self.own)
        line = "-" * WIDTH
        told = textwrap.fill(OF_A_PLAN if self.facts["run"] is None else SAME, WIDTH)
        told = f"{told}\nDigest of the facts on this page: {self.digest}"
        return f"{self.page}\n{line}\n{told}\n{line}\n\n{rest}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `own` is for the owner only."""
        return {
            "digest": self.digest,
            "shared": {**self.facts, "page": _plain(self.shared)},
            "own": _plain(self.own),
        }

    def write(self, folder: Path) -> list[Path]:
        """Write consent.txt and consent.json, which only their owner may read."""
        files = {
            "consent.txt": self.text().encode(),
            PAGE: (as_json(self.to_dict()) + "\n").encode(),
        }
        return write_files(folder, files, private=True)


def _plain(parts: Iterable[Part]) -> dict[str, list[str]]:
    return {one.heading: [printable(line) for line in one.lines] for one in parts}


def consent_to(consortium: Consortium, *own: Part, drawn: bool = True) -> Consent:
    """Return what a consortium asks, and what comes of it.

    Args:
        consortium: what was agreed on, or is to be.
        own: what one party adds about itself.
        drawn: whether there is a consortium file; a plan has no digest yet.

    Raises:
        InvalidInputError: nobody could take part in it.
    """
    return replace(_shared(consortium, drawn=drawn), own=own)


@lru_cache(16)  # a party asks for the page, and at the end for its digest
def _shared(consortium: Consortium, *, drawn: bool) -> Consent:
    """Return the half that all members have alike."""
    found = agreed_on(consortium)
    rounds = _rounds(found)
    room = _Room()
    head = tuple(_head(consortium, room, drawn=drawn))
    asked = tuple(_asked(found, room))
    known = tuple(_known(found, room))
    shared = (
        Part("CONSENT TO ONE RUN", head),
        Part("READ THIS FIRST", tuple(_first(found, room))),
        Part("WHAT IS ASKED", asked),
        Part("HOW MUCH", tuple(_how_much(found, rounds))),
        Part("WHAT BECOMES KNOWN TO EVERY MEMBER", known),
        Part("WHO CAN COMPUTE WHAT FROM IT", tuple(_who(found))),
        Part(
            "WHAT ALL KEEP TO"
            if found.rules is None
            else "WHAT EVERY PARTY CHECKS ON ITS OWN TABLE FIRST",
            tuple(_checks(found)),
        ),
        Part("WHAT IS NOT PROTECTED", tuple(_open(found, drawn=drawn))),
    )
    (question,) = consortium.questions
    relays = () if consortium.relays is None else consortium.relays.places
    facts = {
        "run": consortium.run if drawn else None,
        "consortium": consortium.digest.hex() if drawn else None,
        "title": printable(consortium.title),
        "organiser": consortium.organiser or None,
        "members": list(consortium.topology.parties),
        "relays": list(map(str, relays)),
        "question": question.heading,
        "columns": list(columns_asked(consortium)),
        "constants": list(constants_asked(consortium)),
        "rules": in_force(consortium),
        "relaxed": list(relaxed(consortium)),
        "rounds": [rounds.least, rounds.most],
        "numbers": [rounds.least_numbers, rounds.most_numbers],
        "known": [
            {"when": one.when, "least": one.least, "most": one.most}
            | {"statistics": dict(one.statistics)}
            for one in found.recipe.foreseen
        ],
        "complete": not room.left_out,
    }
    return Consent(shared=shared, facts=facts)


def quoted(text: str) -> str:
    """Return a text of a file in quotes, as it was written."""
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True)
class _Room:
    """Lists things as far as a page has room for them.

    Attributes:
        left_out: what it has not listed, a sentence each.
    """

    left_out: list[str] = field(default_factory=list)

    def names(self, what: str, names: Sequence[str]) -> str:
        """Return names inside a line."""
        kept = self._fitting(what, names, MOST_IN_A_LINE)
        more = len(names) - len(kept)
        return ", ".join(kept) + (f" and {more} MORE" if more else "")

    def lines(self, what: str, lines: Sequence[str]) -> Sequence[str]:
        """Return lines about things of one kind."""
        return self._fitting(what, lines, MOST_LETTERS)

    def _fitting(self, what: str, given: Sequence[str], room: int) -> Sequence[str]:
        used = 0
        for place, one in enumerate(given):
            used += len(one)
            if used > room:
                self.left_out.append(
                    f"{len(given) - place} of {len(given)} {what} are not on this "
                    "page; read the file itself before you agree"
                )
                return given[:place]
        return given


# The head, and what a reader must not miss


def _head(consortium: Consortium, room: _Room, *, drawn: bool) -> Iterator[str]:
    title = consortium.title
    yield f"title: {quoted(title)}" if title else "title: none"
    if drawn:
        yield f"run: {consortium.run}"
        digest = grouped(consortium.digest)
        yield f"consortium file: {digest}; compare these digits by telephone"
        if consortium.study:
            yield f"it is one question of the study {consortium.study}"
    else:
        yield "run: none yet; this is a plan, and no consortium file"
    if consortium.former:
        yield (
            f"amends: the file {consortium.former}; certificates differ, and every "
            "member has to sign that it takes this file for that one"
        )
    parties = consortium.topology.parties
    yield f"members: {len(parties)}: {room.names('members', parties)}"
    if not consortium.organiser:
        yield "organiser: the file does not say who wrote it; ask who sent it to you"
        return
    yield (
        f"organiser: {consortium.organiser}, by the file's own word; that is a member, "
        "who sees this page too"
        + (" unless it stays away" if consortium.rules.policy.drop else "")
    )


SITES = (
    "!!! SITE TERMS ARE ALLOWED (site_terms = true). Columns and levels may tell one "
    "party from the others. Sums over the rows of ONE PARTY ALONE may become known to "
    "everybody: yours too. Do not agree unless every sum below may be published about "
    "your own table by itself. !!!"
)


# How generators show: what a price that is tried tells of others.
GENERATORS = limit("generators")


def _first(found: Asked, room: _Room) -> Iterator[str]:
    weaker = relaxed(found.consortium)
    if isinstance(found.recipe, SurveyRecipe):
        yield from survey_words.FIRST
    elif found.rules is None:
        yield (
            "there are no rules about tables for this kind of question: nobody checks "
            "what your own numbers give away by their sums"
        )
    elif found.rules.maximum_rows == 1:
        yield (
            "every table has one row at most (maximum_rows = 1): a row is a member "
            "here, and what is said of one row is said of one member"
        )
    if isinstance(found.recipe, PriceRecipe):
        yield GENERATORS
    if isinstance(found.recipe, PeriodsRecipe):
        yield FLEETS
    if aimed := constants_asked(found.consortium):
        named = room.names("constants", [quoted(one) for one in aimed])
        yield (
            f"THE QUESTION USES CONSTANTS: {named}. {CONSTANTS_AIM}: a party takes "
            f"part only if its own rules have {allowing(found.consortium)}"
        )
    if "site_terms" in weaker:
        yield SITES
    for name, (value, before) in weaker.items():
        if name != "site_terms":
            yield (
                f"WEAKER THAN USUAL: {name} = {exact(value)}, and usual is "
                f"{exact(before)}: {_meaning(name, value, found)}"
            )
    if weaker:
        yield "whoever wrote the file chose this; ask why before you agree"
    else:
        yield "no rule of this file is weaker than the usual ones"
    yield from (f"TOO LONG TO BE SHOWN: {line}" for line in room.left_out)


# What is asked


def _asked(found: Asked, room: _Room) -> Iterator[str]:
    """Yield the question in words."""
    (question,) = found.consortium.questions
    if isinstance(question, Minimisation):
        assert isinstance(found.recipe, Minimise)
        yield from _cost(question, found, found.recipe, room)
    elif found.job is not None:
        yield from DESCRIBED[type(found.job)](found.job, question, room)
    elif isinstance(found.recipe, SurveyRecipe):
        yield from survey_words.asked(found.recipe.survey, room)
    else:
        yield from _dispatch(question.given())
    schema = found.consortium.schema
    if schema is None:
        return
    names = columns_asked(found.consortium)
    yield f"columns that are looked at: {len(names)}"
    lines = [
        f"- {quoted(name)}: {_column(schema.column(name), room)}" for name in names
    ]
    yield from room.lines("columns", lines)
    drop = schema.missing == "drop"
    yield (
        "rows with a missing value are left out, and counted"
        if drop
        else "a table with a missing value takes no part"
    )


# Which points a domain has, by its kind and the entries of [domain].
DOMAINS: Mapping[str, str] = {
    "all": "everywhere",
    "box": "where every variable is from lower to upper",
    "ball": "where the distance from centre is radius or less",
    "simplex": "where no variable is below 0, and their sum is total",
    "half-spaces": "where each of the normals times the variables is at most its "
    "offset",
}


def _cost(
    question: Minimisation, found: Asked, recipe: Minimise, room: _Room
) -> Iterator[str]:
    cost = question.cost
    yield "question: the minimum of the sum of all members' private costs"
    degree = "" if cost.degree is None else f" of degree {cost.degree}"
    yield f"each cost is of the kind {cost.kind}{degree}"
    yield f"variables: {cost.dim}"
    domain = found.consortium.to_table()["domain"]
    kind = domain.pop("kind")
    given = [f"{key} = {json.dumps(value)}" for key, value in domain.items()]
    values = f": {room.names('entries of the domain', given)}" if given else ""
    yield f"the minimum is looked for {DOMAINS[kind]} ({kind}{values})"
    masks = recipe.law.masks
    unit = f"2^{-(masks.grid or 0)}" if masks.unit is None else f"{masks.unit}"
    yield f"each cost has {recipe.size} coefficients, in whole numbers of {unit}"
    if (plan := recipe.schedule) is None:
        yield "method: one sum of all coefficients, from which everybody computes it"
        return
    early = "; all stop sooner once they are near enough" if plan.stopping else ""
    yield (
        f"method: {plan.name}, at most {plan.iterations} iterations, that is "
        f"{plan.rounds} rounds of messages between neighbours{early}"
    )


def _model(fit: FormulaJob, question: ModelSection, room: _Room) -> Iterator[str]:
    model = fit.model
    yield f"question: one {model.family.name} regression over all members' rows"
    yield f"formula, as written: {quoted(question.formula)}"
    yield f"response: {quoted(model.response)}"
    alpha = "" if question.alpha is None else f", alpha = {exact(question.alpha)}"
    yield f"family: {model.family.name}{alpha}"
    if model.levels:
        names = room.names("levels of the response", list(map(quoted, model.levels)))
        order = "the first is what others are compared with"
        if isinstance(model.family, Ordinal):
            order = "from the lowest to the highest"
        yield f"levels of the response, {order}: {names}"
    for key, none in (("weights", "every row counts once"), ("offset", "0")):
        column = getattr(fit, key)
        if isinstance(column, Propensity):
            yield from _weighing(fit, room)
            continue
        yield f"{key}: " + (
            f"none; {none}" if column is None else f"the column {quoted(column)}"
        )
    if fit.ridge:
        yield f"ridge: {exact(fit.ridge)}"
    if fit.errors is not None:
        yield f"errors: {fit.errors}, which takes one more sum, at the answer"
    if fit.tested:
        names = room.names("columns tested", [quoted(one) for one in fit.tested])
        yield (
            f"tested beside the fit, by one more sum at the answer: {names}; they are "
            "columns of the design, and have no coefficient"
        )
    if fit.absorb:
        yield (
            "effects of members: each member has an intercept of its own and takes its "
            "own means off its columns at home (absorb = true)"
        )
    yield _design(fit, room)


def _weighing(fit: FormulaJob, room: _Room) -> Iterator[str]:
    weighing = fit.weighing
    assert weighing is not None
    asked = weighing.asked
    yield (
        "weights: none of your columns; each row is weighted by a public function of "
        f"its columns, {weighing.words}"
    )
    yield f"formula of the propensity, as written: {quoted(asked.formula)}"
    pairs = zip(weighing.formula.columns, weighing.known.coefficients, strict=True)
    told = [f"{quoted(name)} {exact(one)}" for name, one in pairs]
    yield f"its coefficients, public: {room.names('coefficients', told)}"
    if asked.stabilised is not None:
        yield f"part of all rows that is treated, public: {exact(asked.stabilised)}"
    yield f"largest weight: {exact(asked.largest)}; a member with a larger one refuses"


def _design(fit: FormulaJob, room: _Room) -> str:
    model = fit.model
    names = [
        "a column of ones" if place == model.intercept else quoted(name)
        for place, name in enumerate(model.names)
    ]
    return (
        f"design, that is the formula multiplied out: {len(names)} columns: "
        f"{room.names('columns of the design', names)}"
    )


def _mixed(job: MixedJob, question: MixedSection, room: _Room) -> Iterator[str]:
    yield (
        "question: one mixed model over all members' rows: coefficients on average, "
        "and how much some of them differ between members"
    )
    yield f"formula, as written: {quoted(question.formula)}"
    yield f"response: {quoted(job.base.model.response)}"
    names = ["the intercept" if name == "1" else quoted(name) for name in job.random]
    yield f"coefficients that differ between members: {', '.join(names)}"
    yield f"method: {job.method}"
    yield _design(job.base, room)


def _meta(job: MetaJob, question: MetaSection, room: _Room) -> Iterator[str]:
    model, ranges = job.base.model, job.agreed_ranges
    yield (
        "question: one coefficient, which each member fits to its own rows, pooled "
        "over all members (a meta-analysis)"
    )
    yield f"formula, as written: {quoted(question.formula)}"
    yield f"response: {quoted(model.response)}; family: {model.family.name}"
    yield f"coefficient: that of {quoted(job.coefficient)}"
    for what, (low, high) in (
        ("estimates", ranges.effects),
        ("standard errors", ranges.errors),
    ):
        yield f"agreed range of members' {what}: {exact(low)} to {exact(high)}"
    yield _design(job.base, room)


def _statistics(
    job: StatisticsJob, question: StatisticsSection, room: _Room
) -> Iterator[str]:
    del question
    wishes, schema = job.wishes, job.schema
    yield "question: counts and averages of all members' rows together"
    by, each = wishes.by, ""
    if by is not None:
        labels = [quoted(one) for one in by.labels]
        yield (
            f"all of it in each of {by.size} groups, by {quoted(by.column)}: "
            f"{room.names('groups', labels)}; groups are compared, and tested"
        )
        each = ", in each group"
    if wishes.columns:
        names = [quoted(name) for name in wishes.columns]
        what = "and correlations of" if by is None else "of"
        comma = " " if by is None else ", no correlations, "
        yield (
            f"means, variances{comma}{what} {_number(len(names), 'column')}: "
            f"{room.names('columns of numbers', names)}{each}"
        )
    lines = []
    for name, bins in wishes.histograms.items():
        bounds = list(_bins(bins, schema.column(name)))
        lines.append(
            f"- histogram of {quoted(name)}: how many rows are "
            f"{room.names(f'bins of {quoted(name)}', bounds)}"
        )
    for crossed, axes in wishes.tables.items():
        names = [quoted(name) for name in crossed]
        of = " x ".join(names)
        kind = axes[0].kind if len(axes) == 1 else _combined(axes)
        lines.append(
            f"- table of {of}: how many rows have each of the {n_cells(axes)} {kind}"
        )
    if lines:
        yield f"histograms and tables: {len(lines)}{each}"
        yield from room.lines("histograms and tables", lines)
    if wishes.quantiles:
        names = [quoted(name) for name in wishes.quantiles]
        yield (
            f"quantiles of {room.names('quantiles', names)}: they are read "
            "off the histograms, as a bin in which each of them is; what becomes known "
            "is how many rows are below each edge, that is the distribution function "
            "there" + (each and ", of each group")
        )
    if wishes.gaps:
        yield (
            "missing values: how many rows lack each of the columns"
            + ("" if not wishes.gapped else ", in all and in each group")
        )


def _combined(axes: Sequence[Axis]) -> str:
    """Return what is crossed, beside levels, in words."""
    kinds = dict.fromkeys(one.kind for one in axes)
    return f"combinations of their {' and '.join(kinds)}"


def _survival(
    job: SurvivalJob, question: SurvivalSection, room: _Room
) -> Iterator[str]:
    time, event = quoted(job.formula.time), quoted(job.formula.event)
    yield (
        "question: how long all members' rows go on until an event (Kaplan-Meier "
        "curves and the log-rank test)"
    )
    yield f"formula, as written: {quoted(question.formula)}"
    column = job.schema.column(job.formula.event)
    seen = quoted(column.categories[1]) if column.is_category else "1"
    yield f"a row ends at its {time}; the event was seen where {event} is {seen}"
    if job.group is not None:
        yield f"counted for each level of {quoted(job.group)} by itself"
    times = [exact(one) for one in job.grid.times.tolist()]
    ends = [f"above {a} up to {b}" for a, b in pairwise(times)]
    listed = room.names("intervals", [f"from 0 to {times[0]}", *ends])
    yield f"intervals: {len(times)}, each with its last time: {listed}"
    yield f"rows that go on after {times[-1]} are counted by themselves"
    yield (
        "rules about combinations and bins are about all rows of a group that end in "
        "an interval, with the event or without: of these, one alone may have it"
    )


def _cox(
    job: CoxJob | BinnedCoxJob, question: CoxSection, room: _Room
) -> Iterator[str]:
    yield "question: one Cox regression over all members' rows"
    yield f"formula, as written: {quoted(question.formula)}"
    yield f"time: the column {quoted(job.time)}; event: the column " + quoted(
        job.base.formula.response
    )
    if isinstance(job, CoxJob):
        yield (
            "baseline: one for each member; rows are compared within each member's "
            "table only, and no baseline becomes known"
        )
        yield f"ties: {job.ties}"
    else:
        bins = room.names("bins of time", job.periods.labels)
        yield f"baseline: one for all members, constant in each bin of time: {bins}"
        yield f"events after {job.periods.edges[-1]:g} are not seen"
        checked = "columns times the number of the bin, in a last round"
        yield f"hazards are checked: {checked if job.with_check else 'no'}"
    names = [quoted(name) for name in job.names]
    yield (
        f"design, that is the formula multiplied out: {len(names)} columns: "
        f"{room.names('columns of the design', names)}"
    )


def _evaluate(
    job: AnyEvaluation, question: EvaluateSection, room: _Room
) -> Iterator[str]:
    if isinstance(job, FoldsJob):
        kind = "least squares"
        if isinstance(job, RefitsJob):
            kind = job.base.family.name
        yield (
            f"question: how well a {kind} fit predicts rows that it was not fitted to "
            "(cross-validation)"
        )
    else:
        yield "question: how well a model with known coefficients predicts your rows"
    yield f"formula, as written: {quoted(question.formula)}"
    if isinstance(job, FoldsJob):
        yield (
            f"folds: {job.n_folds}, dealt by the number {job.split} and by the "
            "predictors of a row alone; what a fit sums becomes known of each fold, "
            "and each is looked at as a table of its own, and so is the rest"
        )
        yield _design(job.base, room)
        return
    names = job.base.formula.columns
    pairs = zip(names, job.known.coefficients, strict=True)
    told = [f"{quoted(name)} {exact(one)}" for name, one in pairs]
    yield f"coefficients, public: {room.names('coefficients', told)}"
    if isinstance(job, ErrorsJob):
        yield "errors: sums of squared and of absolute ones, over all rows"
        return
    bins = room.names("bins of the prediction", bin_labels(np.array(job.edges)))
    yield f"bins of the prediction: {len(job.edges) + 1}: {bins}"
    if isinstance(job, ConcordanceJob):
        yield f"bins of time: {room.names('bins of time', job.periods.labels)}"
    else:
        more = "responses are fitted to linear predictors, in further rounds"
        yield f"calibration: {more if job.calibrated else 'no further rounds'}"
    yield (
        "rules about bins are about all rows in them, with the event or without: of "
        "these, one alone may have it"
    )


# Each kind of question to tables in words, from the job and its section.
DESCRIBED: Mapping[type, Callable[..., Iterator[str]]] = {
    FormulaJob: _model,
    StatisticsJob: _statistics,
    SurvivalJob: _survival,
    CoxJob: _cox,
    BinnedCoxJob: _cox,
    MixedJob: _mixed,
    MetaJob: _meta,
    BinsJob: _evaluate,
    ErrorsJob: _evaluate,
    ConcordanceJob: _evaluate,
    FoldsJob: _evaluate,
    RefitsJob: _evaluate,
}


def _bins(bins: Bins, column: Column) -> Iterator[str]:
    """Yield every bin with its ends, and whether the agreed range leaves it empty."""
    edges: list[float] = bins.edges.tolist()
    measure = column.measure
    # Rounding to the unit may lead a little beyond the range.
    low, high = -inf, inf
    if column.minimum is not None:
        low = min(column.minimum, measure.low)
    if column.maximum is not None:
        high = max(column.maximum, measure.high)
    empty = " (always 0, by the agreed range)"
    yield f"below {exact(edges[0])}" + (empty if low >= edges[0] else "")
    for a, b in pairwise(edges):
        last = b == edges[-1]
        out = a > high or (b < low if last else b <= low)
        ends = f"{exact(a)} to {'' if last else 'below '}{exact(b)}"
        yield f"from {ends}{' inclusive' if last else ''}" + (empty if out else "")
    yield f"above {exact(edges[-1])}" + (empty if high <= edges[-1] else "")


def _dispatch(given: Mapping[str, Any]) -> Iterator[str]:
    low, high = given["prices"]
    if "periods" in given:
        yield from _periods(given)
        return
    yield "question: the price at which all generators meet all demands"
    if given.get("total_cost"):
        yield "and what all generators cost together at that price"
    yield f"prices that may be tried: {exact(low)} to {exact(high)}"
    yield (
        "looked at in each member's table: demand, of every generator its costs a "
        "and b and its limits low and high, and of every step its price and quantity"
    )
    if "unit" in given:
        yield f"power is counted in whole numbers of {given['unit']}"
    if "price_unit" in given:
        yield f"prices of steps are whole numbers of {given['price_unit']}"


def _periods(given: Mapping[str, Any]) -> Iterator[str]:
    (low, high), periods = given["prices"], given["periods"]
    yield (
        "question: a price for each period, at which all generators and stores meet "
        f"all demands; periods: {periods}"
    )
    yield f"prices that may be tried in each: {exact(low)} to {exact(high)}"
    yield (
        f"looked at in each member's table: demands, demand_1 to demand_{periods}; of "
        "every generator its costs a and b, its limits low and high, and its ramp; of "
        "every store its wear, energy, power, efficiency and start"
    )
    if "rise" in given:
        yield (
            "an offer at one price, and a store that does not wear, is made to rise by "
            f"{exact(given['rise'])} from its lower to its upper limit"
        )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _end(value: float | str) -> str:
    return value if isinstance(value, str) else exact(value)


def _column(column: Column, room: _Room) -> str:
    """Return what a column may hold; a number to its last digit, it may be aimed."""
    if column.is_category:
        levels = [quoted(one) for one in column.categories]
        shown = room.names(f"levels of {quoted(column.name)}", levels)
        return f"category, one of {len(levels)}: {shown}"
    low, high = (
        None if end is None else column.written(end)
        for end in (column.minimum, column.maximum)
    )
    least = "" if low is None else f", {_end(low)} or more"
    most = "" if high is None else f", {_end(high)} or less"
    unit = f", counted in {column.unit_words}"
    return f"{column.kind}{least}{most}{unit}"


# How much becomes known


@dataclass(frozen=True)
class Amount:
    """How many rounds there are, and how many numbers in all of them."""

    least: int
    most: int
    least_numbers: int
    most_numbers: int


def _rounds(found: Asked) -> Amount:
    """Return the least and the most; a ledger reserves what fills sums up as well."""
    kinds = [(one, one.numbers) for one in found.recipe.foreseen]
    least = sum(one.least for one, _ in kinds)
    most: int = getattr(found.recipe, "most_rounds", sum(k.most for k, _ in kinds))
    # The first is always there; then those of which each shows the most.
    left, numbers = most, 0
    for one, size in (kinds[0], *sorted(kinds[1:], key=lambda kind: -kind[1])):
        taken = min(left, one.most)
        left, numbers = left - taken, numbers + taken * size
    return Amount(least, most, sum(k.least * size for k, size in kinds), numbers)


def _how_much(found: Asked, rounds: Amount) -> Iterator[str]:
    one = rounds.least == rounds.most == 1
    if one:
        yield f"1 round, that is one sum of {rounds.most_numbers} numbers"
    elif rounds.least == rounds.most:
        yield f"{rounds.most} rounds, and {rounds.most_numbers} numbers in all"
    else:
        yield (
            f"an answer takes at least {_number(rounds.least, 'round')} and "
            f"{rounds.least_numbers} numbers"
        )
        yield f"there are at most {rounds.most} rounds, {rounds.most_numbers} numbers"
    if not one:
        yield "a run that ends without an answer has shown the rounds until then"
    recipe = found.recipe
    if recipe.round_size:
        yield (
            "then every party tells its neighbours estimates, again and again, of "
            f"{recipe.round_size} numbers each, computed from masked costs: in as many "
            "rounds of messages as are said above"
        )


# What it is that becomes known


def _known(found: Asked, room: _Room) -> Iterator[str]:
    whose = (
        "members"
        if found.rules is None
        else "rows of all members, or a count of members"
    )
    if isinstance(found.job, FormulaJob) and found.job.errors == "cluster":
        whose += ", or in the last round over what each member's rows come to"
    recipe = found.recipe.inner if isinstance(found.recipe, Guarded) else found.recipe
    inner = getattr(recipe, "inner", recipe)
    if isinstance(inner, SurveyRecipe):
        whose = "guests of the set"
    if getattr(inner, "wording", None) is BY_PARTY and found.rules is not None:
        whose = "members, of what each makes of all its rows, or a count of members"
    yield f"every number here is one sum over all {whose}"
    yield "every member learns it exactly"
    counting = isinstance(found.recipe, Screened)
    schema = found.consortium.schema
    drop = schema is not None and schema.missing == "drop"
    for place, kind in enumerate(found.recipe.foreseen):
        when = round_name(kind.when, counting=counting)
        yield f"in {when}{_times(kind)}, {sum(kind.statistics.values())} numbers:"
        if not place and isinstance(found.recipe, Screened):
            groups = [quoted(one.name) for one in found.recipe.groups]
            listed = room.names("groups asked for", groups)
            yield f"- members are counted in these groups: {listed}"
        first = kind.when == "first"
        for key, count in kind.statistics.items():
            if count:
                text = meaning(key, first=first, zero=not drop)
                yield f"- {label(key)} ({count}): {text}"
        if not place and counting:
            yield (
                "- if too few members have one of them, the run ends there, and these "
                "counts are known all the same"
            )
    yield from _counts(found, room)
    yield (
        "whatever follows from these numbers becomes known with them, such as "
        + ("the answer" if found.job is None else found.job.follows)
    )
    yield "who took part, when, and what this page says: every receipt has it"


def _times(kind: Foreseen) -> str:
    if (kind.least, kind.most) == (1, 1):
        return ""
    if kind.least == kind.most:
        return f" ({kind.least} of them)"
    return f" ({kind.least} to {kind.most} of them)"


def _counts(found: Asked, room: _Room) -> Iterator[str]:
    """Say which of a regression's sums are counts and totals that people recognise."""
    if not isinstance(found.job, FormulaJob) or found.job.absorb:
        return
    fit, schema = found.job, found.job.schema
    categories = [
        one
        for one in schema.columns
        if one.is_category and one.name in fit.formula.variables
    ]
    response = quoted(fit.model.response)
    yield (
        "these totals are among the numbers or follow at once (the list is not "
        "complete: more follows by solving equations):"
    )
    if not fit.model.levels:
        yield f"- the sum of the response {response} over all rows"
    inside = [one for one in categories if one.name != fit.formula.response]
    among = "how many have each level of" if fit.model.levels else "the sum of"
    lines = [
        f"- for each level of {quoted(one.name)}: how many rows have it, and over "
        f"these rows {among} the response, and the sum of every other column of the "
        "design"
        for one in inside
    ]
    yield from room.lines("categories", lines)
    if any(":" in name for name in fit.model.names):
        yield (
            "- the same for each combination of levels that is a column of the design "
            "(a name with a colon)"
        )
    if len(inside) > 1:
        yield (
            "- for every two categories among the design's columns: how many rows have "
            "each pair of levels"
        )
    if fit.formula.response_is_category:
        several = len(fit.formula.response_levels) > 2
        which = "the " if several else "the two "
        yield f"- how many rows have each of {which}levels of {response}"
        if several:
            yield (
                "- for each of these levels, the sum over its rows of every column of "
                "the design"
            )
    yield (
        "- for each number among the design's columns: its sum, its sum of squares, "
        "and its sum of products with every other column and with the response"
        + (", or over the rows of each of its levels" if fit.model.levels else "")
        + (
            ""
            if isinstance(fit.family, Gaussian)
            else "; in every round anew, each row weighted by the coefficients tried"
        )
    )


# Who can compute what


def _who(found: Asked) -> Iterator[str]:
    terms, n = found.terms, found.terms.topology.n_parties
    if isinstance(found.recipe, SurveyRecipe):
        yield from survey_words.who(found.recipe.survey)
        return
    t = terms.tolerate
    yield (
        "everybody: the sums above, over all members, and all that follows from them. "
        "Nothing is hidden in these totals themselves."
    )
    yield (
        f"each member alone: the same sums over the {n - 1} others, for it can "
        "subtract what it gave itself"
    )
    if n > 3:
        more = f", any {t} of them over the {n - t} others" if t > 2 else ""
        yield (
            "several members who pool what they know, however many: the same sums over "
            f"all the others; any 2 of them over the {n - 2} others{more}"
        )
    exact = terms.law.masks.kind.sums_only
    nearly = "nearly the same to them; the guarantee says how nearly (epsilon)"
    yield (
        f"{_as_long(t)}, any other division of the same sums among the {n - t} others "
        f"would have looked {'the same to them' if exact else nearly}, timing apart. "
        "That is all that masks do."
    )
    if terms.policy.drop:
        yield (
            f"members may be lost and the others go on: then {terms.honest} others at "
            "least are left in these sums"
        )
    yield (
        f"if more of them pool what they saw, nothing is promised; the {n - 1} others "
        "together know what you gave, exactly"
    )
    yield "whoever is told by a member knows what that member knows"


def _as_long(tolerate: int) -> str:
    if tolerate > 1:
        return f"as long as {tolerate} or fewer members pool what they saw"
    if tolerate:
        return "as long as no two members pool what they saw"
    return "to outsiders only, for no member may be curious here (tolerate = 0)"


# What is checked


MEANINGS: Mapping[str, str] = {
    "tolerate": "what is promised holds as long as no more than {} of the members "
    "pool what they saw",
    "minimum_honest": "at least {} others are in every sum that such members can "
    "learn, be it with a 0",
    "minimum_guests": "of a cell that fewer than {} guests filled no total is asked "
    "for",
    "minimum_rows": "a table with fewer than {} rows takes no part",
    "minimum_count": "each level, combination and bin that the question names, and "
    "each value of a column with two values, has no rows in a table or at least {}; "
    "smaller groups that follow from several sums are not checked",
    "effective_count": "no column, and no part of a formula, rests on fewer than {} "
    "rows of a table",
    "maximum_leverage": "no row has more than {} of the weight of a coefficient within "
    "its own table",
    "residual_rows": "there are at least {} rows more than the design has columns",
    "maximum_levels": "no category has more than {} levels",
    "maximum_columns": "the design has at most {} columns for each row",
    "dominance": "the two largest values of a column stay below {} of its sum within a "
    "table",
    "release_fraction": "the numbers that become known are fewer than {} times those "
    "that the tables hold",
    "most_rounds": "there are {} rounds at most, beside one that counts members",
}
FLAGS: Mapping[str, tuple[str, str]] = {
    "drop": (
        "nobody goes on without a member that is lost",
        "the others may go on without a member that is lost before anything is shown",
    ),
    "site_terms": (
        "a category with one level only in a whole table is refused, and so is a "
        "number that is the same in all its rows or, where it is computed, nearly the "
        "same. But a column that can have two levels or two values only, such as 0 and "
        "1, may have one of them in all rows",
        "columns and levels MAY TELL ONE PARTY FROM THE OTHERS; nothing of this is "
        "checked",
    ),
}


# The same where rows are compared within each member's table only.
WITHIN = (
    "a category of the design with one level only in a whole table, or a number that "
    "is the same in all its rows, adds nothing there, for rows are compared within "
    "each member's table only. But a computed number that is nearly the same in all "
    "rows is refused. The first round counts"
)


# Rules that a question has no use for: it asks for nothing that they are about.
NOT_ASKED: Mapping[str, tuple[str, ...]] = {
    "model": ("dominance",),
    "cox": ("dominance",),
    "statistics": ("residual_rows", "maximum_columns"),
    "survival": (
        *("residual_rows", "maximum_columns"),
        *("dominance", "maximum_leverage"),
    ),
    "mixed": ("dominance",),
    "meta": ("dominance",),
    "evaluate": ("dominance",),
}


def _meaning(name: str, value: Value, found: Asked) -> str:
    if name in FLAGS:
        told = FLAGS[name][bool(value)]
        if name == "site_terms" and not value:
            return (WITHIN if _varying(found) else told) + _holders(found)
        return told
    off = {} if found.rules is None else found.rules.off
    if name in off:
        return f"switched off: {off[name]}"
    if name == "residual_rows" and not value:
        return "switched off"
    if name == "minimum_rows" and value == 1:
        return "a table without any row takes no part"
    return MEANINGS[name].format(exact(value))


def _varying(found: Asked) -> list[Varying]:
    """Return how members are counted in which columns vary, if they are."""
    groups = getattr(found.recipe, "groups", ())
    return [one for one in groups if isinstance(one, Varying)]


def _holders(found: Asked) -> str:
    """Say what the first round asks about, if there is one that counts members."""
    if not isinstance(found.recipe, Screened):
        return (
            ". No round counts members, for nothing that is asked has levels, bins, or "
            f"{FEW_VALUES} values or fewer"
        )
    least = found.recipe.least
    lead = ": that is asked about in the first round instead, which counts"
    lead = "" if _varying(found) else lead
    also = "".join(
        f". The first round also counts the members whose {one.rows} differ in every "
        "number and category, and of these the members with rows in and outside each "
        "level, cell and value; columns with two values or levels need not differ. "
        f"Fewer than {max(least, one.least)} members of the former end the run, and "
        f"fewer than {least} of the latter where any row has it"
        for one in _varying(found)
    )
    return (
        f"{lead} how many members "
        "have each level, cell and bin, and each of a column's values where it "
        f"can have {FEW_VALUES} or fewer. Where some have it and fewer than {least}, "
        f"or fewer than {least} have several of a group of which several are there, "
        f"the run ends, and nothing else is shown{also}"
    )


def _checks(found: Asked) -> Iterator[str]:
    rules = in_force(found.consortium)
    weaker = relaxed(found.consortium)
    if isinstance(found.recipe, SurveyRecipe):
        yield survey_words.NO_TABLES
    elif found.rules is None:
        yield "there are no rules about tables for this kind of question; all keep to:"
    else:
        yield (
            "a party whose table does not pass takes no part; the others learn that it "
            "refused, and not why"
        )
    for name, value in rules.items():
        if name in NOT_ASKED.get(found.consortium.questions[0].heading, ()):
            continue
        mark = " (WEAKER THAN USUAL)" if name in weaker else ""
        yield f"- {name} = {exact(value)}{mark}: {_meaning(name, value, found)}"
    if isinstance(found.recipe, SurveyRecipe):
        yield from (f"- {line}" for line in survey_words.checks(found.recipe.survey))
    if found.rules is not None:
        if found.rules.maximum_rows is not None:
            most = found.rules.maximum_rows
            yield f"- maximum_rows = {most}: a table with more rows takes no part"
        yield "- every value is of the kind and in the range that is agreed above"


# What is left open


def _fewest(found: Asked) -> str:
    if isinstance(found.recipe, Screened):
        return (
            "Of what the first round counts, these are at least "
            f"{found.recipe.least} members, or none; of anything else it may be one."
        )
    return "It may be one member, for no round counts who has it."


def _between(consortium: Consortium, *, drawn: bool) -> Iterator[str]:
    """Say what whoever is between members sees, if the file puts somebody there."""
    if consortium.relays is not None:
        places = ", ".join(map(str, consortium.relays.places))
        yield (
            "- to whoever hosts or watches the relay, where members meet who do not "
            f"reach each other ({places}): network addresses of members or of their "
            "proxies, how many meet there and who whom, under pseudonyms, and when and "
            "how much each sends, and so about how many numbers are added up, how many "
            "sums there are, and how long a computer works for each; no name, key or "
            "number"
        )
    elif consortium.by_files and drawn:
        yield (
            "- to whoever carries letters, for no member has an address: names of "
            "members, the run, who writes to whom, how many letters, how long and when"
        )


def _open(found: Asked, *, drawn: bool) -> Iterator[str]:
    on_tables = found.rules is not None
    yield "- the totals above, and whatever follows from them with what somebody knows"
    if on_tables:
        yield (
            "- what holds for every row, or for nearly all: totals show it of each of "
            "them"
        )
        yield (
            "- a level, a value or a combination that few members have: its total is "
            "over their rows alone, for the others that minimum_honest counts add 0 to "
            "it; and who knows which members have it knows whose. " + _fewest(found)
        )
        yield (
            "- that your table passes the checks above: that you take part tells "
            "everybody that it has rows enough, these columns, and no values beyond "
            "the agreed ranges and levels"
        )
    else:
        yield "- how the totals change from one question to the next"
    yield (
        "- that you are here or absent, that you refused, and when and how long your "
        "computer worked"
    )
    yield "- who is connected to whom, and how much is sent"
    yield from _between(found.consortium, drawn=drawn)
    yield (
        "- against members who do not keep to the protocol, or give false numbers: "
        "what is said here is about those who do"
    )
    yield "- a computer that somebody else controls"
    yield "- what members do with what they have learned"
    if not isinstance(found.recipe, SurveyRecipe):
        yield (
            "- the next question: every run adds to what is known about the same data. "
            "Your own ledger, a file of yours that counts what your data were used "
            "for, keeps count of it, and nobody else does."
        )
    yield from (f"- {line}" for line in open_limits(found.recipe))
    if isinstance(found.recipe, PriceRecipe):
        yield f"- {GENERATORS}"
    if isinstance(found.recipe, Minimise):
        yield from (f"- {line}" for line in found.recipe.limits)
