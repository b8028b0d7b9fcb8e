"""Which sentences are said of a plan to a data-protection officer, and their numbers.

`sentences.toml` lists the sentences with the facts of a plan that must hold for each;
their words are in the catalogues, in each language. A sentence is said of the plans for
which its facts hold, and of no other. Numbers and names in braces are filled in from
the facts (`report_values`): nothing of a table is among these. Tests show every
sentence true; tests/report/proofs.toml lists which.

Levels of risk are proposals by fixed rules, and the papers say so: what a column means
for the people in it is not in a plan.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from math import floor, log10, sqrt
from typing import Any

from veilsum import __version__
from veilsum.locale import catalogue, number_with_language_signs
from veilsum.net.identity import fingerprint_in_groups
from veilsum.party.own_rules import Value, usual_own_rules
from veilsum.report.plan_facts import CountedGroup, PlanFacts, SurveyFacts
from veilsum.sums.wording import exact_number_words, quoted_for_release

# Facts that are filled in as they are.
PLAIN = (
    *("tolerate", "fewest", "minimum_honest", "links", "organiser", "most_numbers"),
    *("most_sums", "holders", "relays", "run"),
)
# Names in a list inside a sentence; the number of all others follows.
MOST_NAMES = 30
KINDS = ("levels", "values", "bins", "cells")  # of groups that have columns
# Names that questions give to groups of members, by key of their words.
NAMED_GROUPS = {
    "prediction": "bins of the prediction",
    "risk": "cells of time x risk",
    "intervals": "intervals of (?P<column>.+)",
    "ends": "ends of (?P<column>.+) by (?P<by>.+)",
    "missing": "groups of (?P<by>.+) in which (?P<column>.+) is missing",
    "varying": "columns in which rows of a party differ",
    "folds": "folds",
    **{kind: f"{kind} of (?P<columns>.+)" for kind in KINDS},
}
RANGES = {
    "below": "below (?P<high>.+)",
    "above": "above (?P<low>.+)",
    "between": "(?P<low>.+) to (?P<high>.+)",
}


def _few_of_one_site(facts: PlanFacts) -> bool:
    """Say whether a level that few people of one member have passes every rule."""
    rules = facts.rules
    return (
        facts.site_terms
        and bool(facts.levels)
        and facts.level_sums
        and "minimum_count" not in facts.off
        and rules["effective_count"] <= rules["minimum_count"]
        and rules["maximum_influence"] >= usual_own_rules()["maximum_influence"]
    )


def _report_rules_off(facts: PlanFacts) -> set[str]:
    """Return the rules about single people that refuse nothing."""
    return set(facts.off) - {"site_terms"}


def _report_few_people(facts: PlanFacts) -> bool:
    """Say whether one person of a member may count, but never one of all members.

    In a regression the other rules refuse a level that one row has; where rows are
    counted no other rule looks at it.
    """
    alone = _report_rules_off(facts) == {"minimum_count"}
    return alone and facts.counts and bool(facts.holders)


def _few_in_a_sum(facts: PlanFacts) -> bool:
    """Say whether one row of a member may be a level's, and no rule minds."""
    off = {"minimum_count", "effective_count", "maximum_influence"} <= set(facts.off)
    return "minimum_count" in facts.rules and off


def _report_pooling_level(facts: PlanFacts) -> int:
    return {0: 4, 1: 2}.get(facts.tolerate, 1)


def _report_person_level(facts: PlanFacts) -> int:
    """Return how grave it is when one row is known: a person's, or a member's own."""
    return 2 if facts.single or not facts.on_tables else 3


# Conditions of sentences.toml that are not attributes of a plan's facts; some take the
# name of a question or a rule.
CONDITIONS: Mapping[str, Callable[..., object]] = {
    "asks": lambda facts, heading: heading in facts.headings,
    "keeps": lambda facts, name: name in facts.rules and name not in facts.off,
    "switches_off": lambda facts, name: name in facts.rules and name in facts.off,
    "weakens": lambda facts, name: name in facts.rules and name in facts.relaxed,
    "relaxes": lambda facts, name: name in facts.relaxed,
    "failed": lambda facts: facts.ended is not None and facts.ended.failed,
    "lost": lambda facts: facts.ended is not None and facts.ended.lost,
    "closed": lambda facts: facts.survey is not None and facts.survey.closed,
    "several_questions": lambda facts: len(facts.questions) > 1,
    "several_rows": lambda facts: facts.rules.get("minimum_rows", 0) > 1,
    # Something is promised against members, and against several who pool.
    "curious": lambda facts: facts.tolerate >= 1,
    "coalitions": lambda facts: facts.tolerate >= 2,
    "more_may_pool": lambda facts: facts.tolerate + 1 < len(facts.parties),
    "bounded": lambda facts: facts.epsilon is not None,
    # Masks hide all but sums from any members who pool.
    "all_masked": lambda facts: (
        facts.tolerate >= 1
        and facts.sums_only
        and not facts.iterates
        and facts.all_linked
    ),
    # A member's numbers are sums over several rows.
    "sums_of_rows": lambda facts: (
        facts.on_tables
        and not facts.single
        and not facts.by_party
        and not _report_rules_off(facts)
    ),
    "rules_off": _report_rules_off,
    "few_of_one_site": _few_of_one_site,
    "few_people": _report_few_people,
    "few_in_a_sum": _few_in_a_sum,
    "one_person_counts": lambda facts: (
        (facts.counts_only and facts.level_sums) or _few_in_a_sum(facts)
    ),
    "counted_in_cells": lambda facts: (
        facts.counts_only
        and facts.level_sums
        and {one.kind for one in facts.counted} <= {"levels", "bins", "cells"}
    ),
    # Some question compares rows of different members.
    "compares_members": lambda facts: len(facts.within) < len(facts.questions),
    "several_apart": lambda facts: facts.minimum_honest + facts.tolerate > 1,
}
LEVELS: Mapping[str, Callable[[PlanFacts], int]] = {
    "pooling_likelihood": _report_pooling_level,
    # A level more where fewer are enough after a loss.
    "collusion_likelihood": lambda facts: min(
        4, _report_pooling_level(facts) + facts.may_lose
    ),
    "all_pool_likelihood": lambda facts: 2 if len(facts.parties) < 3 else 1,
    "recognition_likelihood": lambda facts: (
        3 if facts.site_terms else 2 if facts.relaxed else 1
    ),
    "person_severity": _report_person_level,
    # How grave it is when one member's numbers are known.
    "last_severity": lambda facts: (
        _report_person_level(facts) if _report_rules_off(facts) else 2
    ),
}


def report_words(language: str, table: str) -> Mapping[str, str]:
    found: Mapping[str, str] = catalogue(language, "officer")[table]
    return found


@dataclass(frozen=True)
class ReportSentence:
    """One sentence.

    Attributes:
        part: of the paper in which it stands.
        name: in that part.
        when: the facts of a plan that must hold.
    """

    part: str
    name: str
    when: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.part}.{self.name}"

    def holds(self, facts: PlanFacts) -> bool:
        return all(_report_condition_holds(one, facts) for one in self.when)

    def written(self, language: str) -> str:
        return report_words(language, self.part)[self.name]

    def text(self, facts: PlanFacts, language: str) -> str:
        return self.written(language).format_map(report_values(facts, language))


def _report_condition_holds(condition: str, facts: PlanFacts) -> bool:
    """Say whether a fact holds: "curious", "not drawn", "keeps minimum_count"."""
    name = condition.removeprefix("not ")
    fact, *argument = name.split(" ")
    known = CONDITIONS.get(fact)
    value = getattr(facts, fact) if known is None else known(facts, *argument)
    return bool(value) == (name == condition)


@dataclass(frozen=True)
class PlanRisk(ReportSentence):
    """Something that may happen all the same.

    Attributes:
        kind: as the forms of authorities sort risks: `access`, somebody learns what
            they should not; `change`; `loss`.
        levels: likelihood and severity, each from 1 (negligible) to 4 (maximum), or
            a key of `LEVELS`; severity is a proposal, for it depends on what
            columns mean.
    """

    title: str
    kind: str
    levels: tuple[int | str, int | str]

    def heading(self, language: str) -> str:
        return report_words(language, "risk_titles")[self.title]

    def likelihood(self, facts: PlanFacts) -> int:
        return _report_sentence_level(self.levels[0], facts)

    def severity(self, facts: PlanFacts) -> int:
        return _report_sentence_level(self.levels[1], facts)


def _report_sentence_level(level: int | str, facts: PlanFacts) -> int:
    return level if isinstance(level, int) else LEVELS[level](facts)


@cache
def report_sentences(*, survey: bool = False) -> tuple[ReportSentence, ...]:
    """Return all sentences that may be said of a plan, or of a survey, in order."""
    source = files(__package__) / "sentences.toml"
    listed = tomllib.loads(source.read_text("utf-8"))
    own = tuple(_list_report_sentences(listed["members"]))
    if not survey:
        return own
    # Sentences about surveys alone come first where both have some.
    of_survey = _list_report_sentences(listed["survey"], "survey")
    return (*of_survey, *(one for one in own if one.key in listed["common"]))


def _list_report_sentences(
    parts: Mapping[str, Any], *always: str
) -> Iterator[ReportSentence]:
    for part, entries in parts.items():
        for name, entry in entries.items():
            if part != "risk":
                yield ReportSentence(part, name, (*always, *entry))
                continue
            levels = (entry["likelihood"], entry["severity"])
            when = (*always, *entry["when"])
            yield PlanRisk(part, name, when, entry["title"], entry["kind"], levels)


def report_sentences_in(facts: PlanFacts, part: str) -> Iterator[ReportSentence]:
    """Yield what is said of a plan in one place, in order."""
    every = report_sentences(survey=facts.survey is not None)
    return (one for one in every if one.part == part and one.holds(facts))


def report_risks(facts: PlanFacts) -> Iterator[PlanRisk]:
    return (
        one for one in report_sentences_in(facts, "risk") if isinstance(one, PlanRisk)
    )


def report_number(value: float, language: str, digits: int = 2) -> str:
    """Return a number as people write it, with so many digits.

    >>> report_number(1234567, "en"), report_number(1234567, "de")
    ('1,200,000', '1.200.000')
    >>> report_number(0.125, "de", 3)
    '0,125'
    """
    rounded = float(f"{value:.{digits}g}")
    whole = rounded % 1 == 0 and 1 <= rounded < 1e15
    return number_with_language_signs(
        f"{rounded:,.0f}" if whole else f"{rounded:g}", language
    )


def report_number_rounded_down(value: float, language: str) -> str:
    """Return two digits of a number, and never more than it is.

    >>> report_number_rounded_down(0.299, "en"), report_number_rounded_down(27.9, "de")
    ('0.29', '27')
    """
    nearest = float(f"{value:.2g}")
    below = nearest if nearest <= value else nearest - 10.0 ** (floor(log10(value)) - 1)
    return report_number(below, language)


def _report_name_list(
    names: Sequence[str], language: str, *, texts: bool = False
) -> str:
    shown = ", ".join(
        quoted_for_release(one) if texts else one for one in names[:MOST_NAMES]
    )
    more = len(names) - MOST_NAMES
    if more <= 0:
        return shown
    return report_words(language, "lists")["more"].format(names=shown, more=more)


def report_day(text: str, language: str) -> str:
    """Return a day as people write it.

    >>> report_day("2030-01-31", "de")
    '31.01.2030'
    """
    parts = zip(("year", "month", "day"), text.split("-"), strict=True)
    return report_words(language, "dates")["day"].format_map(dict(parts))


def report_rule_value(value: Value, language: str) -> str:
    """Return a rule's value to its last digit.

    >>> report_rule_value(0.98, "en"), report_rule_value(0.98, "de")
    ('0.98', '0,98')
    >>> report_rule_value(True, "de")
    'true'
    """
    return number_with_language_signs(exact_number_words(value), language)


def _report_column_words(name: str, facts: PlanFacts, language: str) -> str:
    levels = facts.levels.get(name)
    told = f" ({_report_name_list(levels, language, texts=True)})" if levels else ""
    return quoted_for_release(name) + told


def _report_statistics_words(facts: PlanFacts, language: str) -> str:
    rounds = [one.statistics for question in facts.questions for one in question.sums]
    return ", ".join(
        entry["answer"]
        for key, entry in catalogue(language)["statistics"].items()
        if "answer" in entry and any(key in statistics for statistics in rounds)
    )


def _range(place: str, language: str, between: str = "between") -> str:
    """Return a range of numbers in words.

    >>> _range("below 1.5", "de"), _range("1.5 to 5", "de"), _range("above 5", "en")
    ('unter 1,5', '1,5 bis 5', 'above 5')
    """
    for key, pattern in RANGES.items():
        found = re.fullmatch(pattern, place)
        if found is not None:
            kind = between if key == "between" else key
            ends = {
                k: number_with_language_signs(v, language)
                for k, v in found.groupdict().items()
            }
            return report_words(language, "ranges")[kind].format_map(ends)
    return number_with_language_signs(place, language)


def _report_group_words(group: CountedGroup, language: str) -> str:
    """Return what members are counted by, with its places where these are few."""
    if group.kind not in KINDS:
        return report_group_name(group.columns[0], language)
    columns = " x ".join(map(quoted_for_release, group.columns))
    told = report_words(language, "groups")[group.kind].format(columns=columns)
    if group.kind == "cells":
        return told
    if group.kind == "levels":
        places = [quoted_for_release(one) for one in group.places]
    elif group.kind == "bins":
        places = [*_report_bin_words(group.places, language)]
    else:
        places = [_range(one, language) for one in group.places]
    return f"{told} ({_report_name_list(places, language)})"


def _report_bin_words(places: Sequence[str], language: str) -> Iterator[str]:
    """Yield ranges in words; a row at an edge is in the range that begins there.

    At the last edge it is in the range that ends there.

    >>> [*_report_bin_words(("below 1", "1 to 5", "5 to 9", "above 9"), "en")]
    ['below 1', '1 to below 5', '5 to 9 inclusive', 'above 9']
    """
    inner = range(1, len(places) - 1)
    for place, text in enumerate(places):
        kind = "closed" if place == inner.stop - 1 else "half_open"
        yield _range(text, language, kind if place in inner else "between")


def report_group_name(name: str, language: str) -> str:
    """Return what members are counted by, of which the question has made a name.

    >>> report_group_name("levels of sex in fold 2", "de")
    'Ausprägungen von "sex" in Teil 2'
    """
    told = report_words(language, "groups")
    whole, _, fold = name.rpartition(" in fold ")
    if whole:
        return told["in_fold"].format(
            group=report_group_name(whole, language), fold=fold
        )
    for key, pattern in NAMED_GROUPS.items():
        found = re.fullmatch(pattern, name)
        if found is not None:
            columns = {
                key: quoted_for_release(one) for key, one in found.groupdict().items()
            }
            return told[key].format_map(columns)
    return quoted_for_release(name)


@lru_cache(8)  # every sentence about a plan asks for them
def report_values(facts: PlanFacts, language: str) -> Mapping[str, str]:
    n, ended, phrases = (
        len(facts.summed),
        facts.ended,
        report_words(language, "phrases"),
    )
    beyond = max(facts.tolerate + 1, 2)  # one alone does not pool anything
    shown = [
        phrases["over"].format(colluders=k, others=n - k)
        for k in range(2, facts.tolerate + 1)
    ]
    chances = [
        phrases["chance"].format(
            percent=round(100 * chance),
            distance=report_number_rounded_down(far, language),
        )
        for chance, far in facts.distances
    ]
    guessers = phrases["guessers" if facts.tolerate > 1 else "one_guesser"]
    lost, wrong = ((), ()) if ended is None else (ended.lost, ended.failed)
    off, failed = report_words(language, "off"), report_words(language, "failed")
    columns = [_report_column_words(one, facts, language) for one in facts.columns]
    groups = [_report_group_words(one, language) for one in facts.counted]
    found = {
        **{name: getattr(facts, name) for name in PLAIN},
        "title": quoted_for_release(facts.title),
        "file": quoted_for_release(facts.file),
        "version": __version__,
        "n": n,
        "all": len(facts.parties),
        "parties": _report_name_list(facts.summed, language),
        "others": n - 1,
        "guessers": guessers.format(tolerate=facts.tolerate),
        "rest": n - facts.tolerate,
        "sizes": "; ".join(shown[:8] + shown[8:][-1:]),
        "beyond": beyond,
        "beyond_rest": n - beyond,
        "fewest_others": facts.fewest - 1,
        "apart": facts.minimum_honest + facts.tolerate,
        "columns": _report_name_list(columns, language),
        "n_columns": len(facts.columns),
        "statistics": _report_statistics_words(facts, language),
        "by_level": _report_name_list(facts.by_level, language, texts=True),
        "asked_of_others": "; ".join(
            f"{quoted_for_release(name)}, {quoted_for_release(text)}"
            for name, text in facts.others_questions.items()
        ),
        "formulas": _report_name_list(facts.formulas, language, texts=True),
        "n_questions": len(facts.questions),
        "groups": _report_name_list(groups, language),
        "holders_others": facts.holders - 1,
        "fewest_people": facts.holders * int(facts.rules.get("minimum_count", 0)),
        "epsilon": ""
        if facts.epsilon is None
        else report_number(facts.epsilon, language, 3),
        "chances": "; ".join(chances),
        "off": "; ".join(off[one] for one in facts.off if one in off),
        "digest": fingerprint_in_groups(bytes.fromhex(facts.digest))
        if facts.digest
        else "",
        "consent": ", ".join(one.consent for one in facts.questions),
        "lost": _report_name_list(lost, language),
        "party": "" if ended is None else ended.party,
        "finished": ""
        if ended is None
        else _report_time_words(ended.finished, language),
        "failed": "; ".join(failed[one] for one in wrong),
        "last_gave": phrases[
            "last_gave_one" if _report_rules_off(facts) else "last_gave"
        ],
        **dict(_report_rule_words(facts, language)),
        **(
            {}
            if facts.survey is None
            else _report_survey_guests(facts, facts.survey, language)
        ),
    }
    return {name: str(value) for name, value in found.items()}


def _report_time_words(text: str, language: str) -> str:
    """Return a time of a receipt as people write it.

    >>> _report_time_words("2030-01-31T12:00:05Z", "de")
    '31.01.2030 12:00:05'
    """
    return f"{report_day(text[:10], language)} {text[11:19]}"


def _report_survey_guests(
    facts: PlanFacts, survey: SurveyFacts, language: str
) -> dict[str, str | int]:
    terms = survey.terms
    invited = [f"{name} {count}" for name, count in survey.invited.items()]
    left = report_words(language, "phrases")[
        "left_of_set" if survey.closed else "left_if_all_come"
    ]
    return {
        "survey_title": quoted_for_release(terms.title),
        "survey_rows": len(terms.rows),
        "survey_columns": len(terms.columns),
        "survey_cells": terms.n_cells,
        "survey_unit": report_rule_value(float(terms.unit), language),
        "survey_low": report_rule_value(terms.low, language),
        "survey_high": report_rule_value(terms.high, language),
        "survey_honest": terms.minimum_honest,
        "needed": terms.minimum_honest + 1,
        "minimum_guests": terms.minimum_guests,
        "tolerate_guests": terms.tolerate_guests,
        "invited": len(terms.guests),
        "invited_by": _report_name_list(invited, language),
        "left_tolerated": survey.at_worst(facts.tolerate),
        "left_most": survey.at_worst(len(terms.names) - 1),
        "left_of": left.format(guests=sum(survey.counted)),
        "most_totals": survey.most_totals,
    }


def _report_rule_words(facts: PlanFacts, language: str) -> Iterator[tuple[str, str]]:
    for name, value in facts.rules.items():
        yield f"rule_{name}", report_rule_value(value, language)
        yield f"percent_{name}", report_number(100 * value, language, 3)
        if name == "maximum_influence":
            alone = 100 * facts.influence_alone
            yield "percent_alone", report_number(alone, language, 3)
            left = sqrt(max(0.0, facts.least_left_in_a_sum))
            yield "within", report_number(left, language, 1)
    for name, value in usual_own_rules().items():
        yield f"usual_{name}", report_rule_value(value, language)
        yield f"usual_percent_{name}", report_number(100 * value, language, 3)
    for name, (value, _) in facts.relaxed.items():
        yield f"weak_{name}", report_rule_value(value, language)
