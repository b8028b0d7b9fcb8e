"""Everything that is said to a data-protection officer: one catalogue, two languages.

A sentence has a condition over the facts of a plan, and is said of a plan for which the
condition holds and of no other. It names the tests that show it true; a test walks the
catalogue and finds them. Numbers and names stand in braces and are filled in from the
facts: nothing of a table is among these.

What is said of risks is a proposal by fixed rules, and says so: what a column means for
the people in it is not in a plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import floor, log10
from typing import Literal, TypeAlias

from veilsum import __version__
from veilsum.locale import Language, catalogue
from veilsum.net.identity import grouped
from veilsum.party.consent import quoted
from veilsum.party.own_rules import Value, exact, usual
from veilsum.report.plan_facts import CountedGroup, PlanFacts, SurveyFacts
from veilsum.tables.rules import ALONE

LANGUAGES: tuple[Language, ...] = ("en", "de")
Condition: TypeAlias = Callable[[PlanFacts], bool]

SIGNS = str.maketrans(",.", ".,")
# A list inside a sentence; of more names so many are said, and how many there are.
MOST_NAMES = 30


# What members are counted by.
KINDS: Mapping[str, Mapping[Language, str]] = {
    "levels": {"en": "levels of {}", "de": "Ausprägungen von {}"},
    "values": {"en": "values of {}", "de": "Werte von {}"},
    "bins": {"en": "bins of {}", "de": "Intervalle von {}"},
    "cells": {"en": "cells of {}", "de": "Zellen von {}"},
}
# The same where one kind of question gives it a name of its own: patterns of names.
NAMED_GROUPS: Mapping[str, Mapping[Language, str]] = {
    "bins of the prediction": {
        "en": "bins of the prediction",
        "de": "Intervalle der Vorhersage",
    },
    "cells of time x risk": {
        "en": "cells of time and risk",
        "de": "Zellen aus Zeit und Risiko",
    },
    "intervals of (.+)": {"en": "intervals of {}", "de": "Zeiträume von {}"},
    "ends of (.+) by (.+)": {
        "en": "ends of {} by {}",
        "de": "Enden von {}, getrennt nach {}",
    },
    "groups of (.+) in which (.+) is missing": {
        "en": "groups of {} in which {} is missing",
        "de": "Gruppen von {}, in denen {} fehlt",
    },
    "columns in which rows of a party differ": {
        "en": "columns in which rows of a member differ",
        "de": "Spalten, in denen sich Zeilen eines Mitglieds unterscheiden",
    },
    "folds": {"en": "parts of the rows (folds)", "de": "Teile der Zeilen"},
    **{f"{kind} of (.+)": told for kind, told in KINDS.items()},
}
IN_FOLD: Mapping[Language, str] = {"en": "{} in fold {}", "de": "{} in Teil {}"}
# What is wrong with a receipt, by the check that fails.
FAILED: Mapping[str, Mapping[Language, str]] = {
    "signatures are good": {
        "en": "its signature is wrong",
        "de": "ihre Signatur ist falsch",
    },
    "certificates name their party": {
        "en": "its certificate is another member's",
        "de": "ihr Zertifikat ist das eines anderen Mitglieds",
    },
    "certificates are the members'": {
        "en": "its certificate is not the one in the file",
        "de": "ihr Zertifikat ist nicht das aus der Datei",
    },
    "run and consortium are the file's": {
        "en": "it is of another run or another file",
        "de": "sie gehört zu einem anderen Lauf oder einer anderen Datei",
    },
    "an epoch was committed": {
        "en": "by it the run never began",
        "de": "nach ihr hat der Lauf nie begonnen",
    },
    "runs started before they finished": {
        "en": "by it the run ended before it began",
        "de": "nach ihr endete der Lauf, bevor er begann",
    },
    "parties and lost ones add up": {
        "en": "those who took part and those who were lost are not all members",
        "de": "Teilnehmer und Ausgefallene ergeben nicht alle Mitglieder",
    },
    "those who are left may go on": {
        "en": "those who were left may not go on by the plan",
        "de": "die Übrigen dürfen nach dem Plan nicht weitermachen",
    },
    "guarantees are about those who took part": {
        "en": "what it promises is not about those who took part",
        "de": "ihre Zusicherung betrifft nicht die, die teilnahmen",
    },
}
# What a rule that is switched off would have looked at.
OFF: Mapping[str, Mapping[Language, str]] = {
    "minimum_count": {
        "en": "how many people a level, a cell or a bin has (minimum_count)",
        "de": "wie viele Personen eine Ausprägung, eine Zelle oder ein Intervall hat "
        "(minimum_count)",
    },
    "effective_count": {
        "en": "whether a column points at a single row (effective_count)",
        "de": "ob eine Spalte auf eine einzelne Zeile zeigt (effective_count)",
    },
    "maximum_leverage": {
        "en": "whether a combination of columns does (maximum_leverage)",
        "de": "ob eine Kombination von Spalten auf eine zeigt (maximum_leverage)",
    },
    "dominance": {
        "en": "whether a sum is nearly that of one or two people (dominance)",
        "de": "ob eine Summe fast die von einer oder zwei Personen ist (dominance)",
    },
}
GUESSERS: tuple[Mapping[Language, str], Mapping[Language, str]] = (
    {"en": "one member", "de": "ein Mitglied"},
    {"en": "up to {} members together", "de": "bis zu {} Mitglieder gemeinsam"},
)


# Of whom so many guests are left: while a survey is open, and when it is closed.
LEFT_OF: tuple[Mapping[Language, str], Mapping[Language, str]] = (
    {"en": "if all {} come", "de": "wenn alle {} kommen"},
    {"en": "of the {} in the set", "de": "von den {} der Auswahl"},
)


# What all but one who pool know of the last: where all rules hold, and where not.
LAST_GAVE: tuple[Mapping[Language, str], Mapping[Language, str]] = (
    {"en": "what the last one gave", "de": "was das letzte beitrug"},
    {
        "en": "what the last one gave, of which some may be one person's, or nearly",
        "de": "was das letzte beitrug, wovon manches ganz oder fast das einer "
        "einzigen Person sein kann",
    },
)


@dataclass(frozen=True)
class Sentence:
    """One thing that is said.

    Attributes:
        key: its name; what comes before the dot is where it stands.
        when: of which plans it is true.
        en: in English.
        de: in German.
        shown: tests that show it.
    """

    key: str
    when: Condition
    en: str
    de: str
    shown: tuple[str, ...]

    @property
    def part(self) -> str:
        """Where it stands."""
        return self.key.partition(".")[0]

    def text(self, facts: PlanFacts, language: Language) -> str:
        """Return it about one plan."""
        written = self.de if language == "de" else self.en
        return written.format_map(values(facts, language))


@dataclass(frozen=True)
class PlanRisk:
    """Something that may happen all the same.

    Attributes:
        told: what, and why so likely and so grave.
        title: its name, by language.
        kind: as the forms of authorities sort risks: who should not know it does; it is
            changed; it is gone.
        likelihood: 1 (negligible) to 4 (maximum), by the plan.
        severity: the same; a proposal, for it depends on what columns mean.
    """

    told: Sentence
    title: Mapping[Language, str]
    kind: Literal["access", "change", "loss"]
    likelihood: Callable[[PlanFacts], int]
    severity: Callable[[PlanFacts], int]


def always(facts: PlanFacts) -> bool:
    """Hold for every plan."""
    del facts
    return True


def number(value: float, language: Language, digits: int = 2) -> str:
    """Return a number as people write it, with so many digits.

    >>> number(1234567, "en"), number(1234567, "de"), number(0.125, "de", 3)
    ('1,200,000', '1.200.000', '0,125')
    """
    rounded = float(f"{value:.{digits}g}")
    whole = rounded % 1 == 0 and 1 <= rounded < 1e15
    text = f"{rounded:,.0f}" if whole else f"{rounded:g}"
    return text.translate(SIGNS) if language == "de" else text


def rounded_down(value: float, language: Language) -> str:
    """Return two digits of a number, and never more than it is.

    >>> rounded_down(0.299, "en"), rounded_down(27.9, "de")
    ('0.29', '27')
    """
    nearest = float(f"{value:.2g}")
    below = nearest if nearest <= value else nearest - 10.0 ** (floor(log10(value)) - 1)
    return number(below, language)


def _names(names: Sequence[str], language: Language, *, texts: bool = False) -> str:
    shown = [quoted(one) if texts else one for one in names[:MOST_NAMES]]
    more = len(names) - len(shown)
    rest = {"en": f" and {more} more", "de": f" und {more} weitere"}[language]
    return ", ".join(shown) + (rest if more else "")


def _moment(text: str, language: Language) -> str:
    """Return a time of a receipt as people write it.

    >>> _moment("2030-01-31T12:00:05Z", "de")
    '31.01.2030 12:00:05'
    """
    day, clock = text[:10], text[11:19]
    if language == "de":
        day = ".".join(reversed(day.split("-")))
    return f"{day} {clock}"


def written(value: Value, language: Language) -> str:
    """Return a rule's value to its last digit.

    >>> written(0.98, "en"), written(0.98, "de"), written(True, "de")
    ('0.98', '0,98', 'true')
    """
    text = exact(value)
    return text.translate(SIGNS) if language == "de" else text


def _column(name: str, facts: PlanFacts, language: Language) -> str:
    """Return a column's name, of a category with its levels."""
    levels = facts.levels.get(name)
    told = f" ({_names(levels, language, texts=True)})" if levels else ""
    return quoted(name) + told


def _statistics(facts: PlanFacts, language: Language) -> str:
    """Return what statistics are made of the sums."""
    rounds = [one.statistics for question in facts.questions for one in question.sums]
    entries = catalogue(language)["statistics"].items()
    return ", ".join(
        words["answer"]
        for key, words in entries
        if "answer" in words and any(key in statistics for statistics in rounds)
    )


def _place(place: str, language: Language) -> str:
    """Return a range of numbers in words.

    >>> _place("below 1.5", "de"), _place("1.5 to 5", "de"), _place("above 5", "en")
    ('unter 1,5', '1,5 bis 5', 'above 5')
    """
    if language == "en":
        return place
    for one, other in (("below ", "unter "), ("above ", "über "), (" to ", " bis ")):
        place = place.replace(one, other)
    return place.translate(SIGNS)


def _group(group: CountedGroup, language: Language) -> str:
    """Return what members are counted by, with its places where these are few."""
    if group.kind not in KINDS:
        return named_group(group.columns[0], language)
    columns = " x ".join(map(quoted, group.columns))
    told = KINDS[group.kind][language].format(columns)
    if group.kind == "cells":
        return told
    if group.kind == "bins":
        places = [*_bins(group.places, language)]
        return f"{told} ({_names(places, language)})"
    places = (
        [quoted(one) for one in group.places]
        if group.kind == "levels"
        else [_place(one, language) for one in group.places]
    )
    return f"{told} ({_names(places, language)})"


def _bins(places: Sequence[str], language: Language) -> Iterator[str]:
    """Yield ranges in words; a row at an edge is in the range that begins there.

    At the last edge it is in the range that ends there.

    >>> [*_bins(("below 1", "1 to 5", "5 to 9", "above 9"), "en")]
    ['below 1', '1 to below 5', '5 to 9 inclusive', 'above 9']
    """
    upto = {"en": (" to ", " to below "), "de": (" bis ", " bis unter ")}[language]
    both = {"en": " inclusive", "de": " einschließlich"}[language]
    for number, place in enumerate(places):
        text = _place(place, language)
        inner = 0 < number < len(places) - 1
        last = number == len(places) - 2
        yield text if not inner else text + both if last else text.replace(*upto)


def named_group(name: str, language: Language) -> str:
    """Return what members are counted by, of which the question has made a name.

    >>> named_group("levels of sex in fold 2", "de")
    'Ausprägungen von "sex" in Teil 2'
    """
    whole, _, fold = name.rpartition(" in fold ")
    if whole:
        return IN_FOLD[language].format(named_group(whole, language), fold)
    for pattern, told in NAMED_GROUPS.items():
        found = re.fullmatch(pattern, name)
        if found is not None:
            return told[language].format(*map(quoted, found.groups()))
    return quoted(name)


@lru_cache(8)  # every sentence about a plan asks for them
def values(facts: PlanFacts, language: Language) -> Mapping[str, str]:
    """Return what stands for each word in braces."""
    n, ended = len(facts.summed), facts.ended
    beyond = max(facts.tolerate + 1, 2)  # one alone does not pool anything
    sizes = range(2, facts.tolerate + 1)
    over = {
        "en": "{} together: over the {} others",
        "de": "{} gemeinsam: über die {} anderen",
    }
    shown = [over[language].format(k, n - k) for k in sizes]
    chances = {
        "en": "fewer than {} % of cases while the distance is below {}",
        "de": "weniger als {} % der Fälle, solange der Abstand unter {} liegt",
    }
    columns = [_column(one, facts, language) for one in facts.columns]
    groups = [_group(one, language) for one in facts.counted]
    found = {
        "title": quoted(facts.title),
        "file": quoted(facts.file),
        "version": __version__,
        "n": n,
        "all": len(facts.parties),
        "parties": _names(facts.summed, language),
        "others": n - 1,
        "tolerate": facts.tolerate,
        "guessers": GUESSERS[facts.tolerate > 1][language].format(facts.tolerate),
        "rest": n - facts.tolerate,
        "sizes": "; ".join(shown[:8] + shown[8:][-1:]),
        "beyond": beyond,
        "beyond_rest": n - beyond,
        "fewest": facts.fewest,
        "fewest_others": facts.fewest_others,
        "minimum_honest": facts.minimum_honest,
        "apart": facts.minimum_honest + facts.tolerate,
        "links": facts.links,
        "organiser": facts.organiser,
        "columns": _names(columns, language),
        "n_columns": len(facts.columns),
        "statistics": _statistics(facts, language),
        "by_level": _names(facts.by_level, language, texts=True),
        "formulas": _names(facts.formulas, language, texts=True),
        "most_numbers": facts.most_numbers,
        "most_sums": facts.most_sums,
        "n_questions": len(facts.questions),
        "groups": _names(groups, language),
        "holders": facts.holders,
        "holders_others": facts.holders - 1,
        "fewest_people": facts.holders * int(facts.rules.get("minimum_count", 0)),
        "relays": facts.relays,
        "epsilon": "" if facts.epsilon is None else number(facts.epsilon, language, 3),
        "chances": "; ".join(
            chances[language].format(round(100 * chance), rounded_down(far, language))
            for chance, far in facts.distances
        ),
        "off": "; ".join(OFF[one][language] for one in facts.off if one in OFF),
        "digest": grouped(bytes.fromhex(facts.digest)) if facts.digest else "",
        "consent": ", ".join(one.consent for one in facts.questions),
        "run": facts.run,
        "lost": _names(() if ended is None else ended.lost, language),
        "party": "" if ended is None else ended.party,
        "finished": "" if ended is None else _moment(ended.finished, language),
        "failed": "; ".join(
            FAILED[one][language] for one in (() if ended is None else ended.failed)
        ),
        "last_gave": LAST_GAVE[_switched_off(facts) != set()][language],
        **dict(_rules(facts, language)),
        **({} if facts.survey is None else _of_guests(facts, facts.survey, language)),
    }
    return {name: str(value) for name, value in found.items()}


def _of_guests(
    facts: PlanFacts, survey: SurveyFacts, language: Language
) -> dict[str, str | int]:
    """Return what is filled in about a survey and its guests."""
    terms = survey.terms
    invited = [f"{name} {count}" for name, count in survey.invited.items()]
    return {
        "survey_title": quoted(terms.title),
        "survey_rows": len(terms.rows),
        "survey_columns": len(terms.columns),
        "survey_cells": terms.n_cells,
        "survey_unit": written(float(terms.unit), language),
        "survey_low": written(terms.low, language),
        "survey_high": written(terms.high, language),
        "survey_honest": terms.minimum_honest,
        "needed": terms.minimum_honest + 1,
        "minimum_guests": terms.minimum_guests,
        "tolerate_guests": terms.tolerate_guests,
        "invited": len(terms.guests),
        "invited_by": _names(invited, language),
        "left_tolerated": survey.at_worst(facts.tolerate),
        "left_most": survey.at_worst(len(terms.names) - 1),
        "left_of": LEFT_OF[survey.closed][language].format(sum(survey.counted)),
        "most_totals": survey.most_totals,
    }


def _rules(facts: PlanFacts, language: Language) -> Iterator[tuple[str, str]]:
    """Yield every rule as it is, as it usually is, and as a percentage."""
    known = usual()
    for name, value in facts.rules.items():
        yield f"rule_{name}", written(value, language)
        yield f"percent_{name}", number(100 * value, language, 3)
        if name == "maximum_leverage":
            yield "percent_alone", number(100 * ALONE * value, language, 3)
    for name, value in known.items():
        yield f"usual_{name}", written(value, language)
        yield f"usual_percent_{name}", number(100 * value, language, 3)
    for name, (value, _) in facts.relaxed.items():
        yield f"weak_{name}", written(value, language)


# What conditions are made of


def _curious(facts: PlanFacts) -> bool:
    """Say whether anything is promised against members."""
    return facts.tolerate >= 1


def _cost(facts: PlanFacts) -> bool:
    return "cost" in facts.headings


def _in(heading: str) -> Condition:
    return lambda facts: heading in facts.headings


def _kept(name: str) -> Condition:
    """Say whether a rule about tables is in force and refuses something."""
    return lambda facts: name in facts.rules and name not in facts.off


def _off(name: str) -> Condition:
    return lambda facts: name in facts.rules and name in facts.off


def _weaker(name: str) -> Condition:
    """Say whether a rule that the question has a use for is weaker than usual."""
    return lambda facts: name in facts.rules and name in facts.relaxed


def _all_masked(facts: PlanFacts) -> bool:
    """Say whether masks hide all but sums from any members who pool."""
    masked = _curious(facts) and facts.sums_only and not facts.iterates
    return masked and facts.all_linked


def _of_rows(facts: PlanFacts) -> bool:
    """Say whether what a member gives are sums over several rows."""
    several = facts.on_tables and not facts.single and not facts.by_party
    return several and not _switched_off(facts)


def _few_of_one_site(facts: PlanFacts) -> bool:
    """Say whether a level that few people of one member have passes every rule."""
    rules, known = facts.rules, usual()
    return (
        facts.site_terms
        and bool(facts.levels)
        and facts.headings <= {"model", "statistics"}
        and "minimum_count" not in facts.off
        and rules["effective_count"] <= rules["minimum_count"]
        and rules["maximum_leverage"] >= known["maximum_leverage"]
    )


def _switched_off(facts: PlanFacts) -> set[str]:
    """Return the rules about single people that refuse nothing."""
    return set(facts.off) - {"site_terms"}


def _few_people(facts: PlanFacts) -> bool:
    """Say whether one person of a member may count, but never one of all members.

    In a regression the other rules refuse a level that one row has; where rows are
    counted no other rule looks at it.
    """
    alone = _switched_off(facts) == {"minimum_count"}
    return alone and facts.counts and bool(facts.holders)


def _few_in_a_sum(facts: PlanFacts) -> bool:
    """Say whether one row of a member may be a level's, and no rule minds."""
    off = {"minimum_count", "effective_count", "maximum_leverage"} <= set(facts.off)
    return "minimum_count" in facts.rules and off


CONSENT = "tests/party/test_consent.py::"
OFFICER = "tests/report/test_officer.py::"
SECRETS = "tests/net/test_secrets_on_the_network.py::"
RULES = "tests/tables/test_rules.py::"
LEDGER = "tests/files/test_ledger.py::"
PRESENCE = "tests/questions/test_presence.py::"
RELAY = "tests/attacks/test_evil_relay.py::"
DROP = "tests/attacks/test_file_drop.py::"
VIEWS = "tests/audit/test_noninterference.py::"

CATALOGUE: tuple[Sentence, ...] = (
    # What is planned
    Sentence(
        "purpose.title",
        lambda facts: bool(facts.title),
        "Title, in the words of whoever wrote the plan: {title}.",
        "Titel, in den Worten des Verfassers: {title}.",
        (
            CONSENT + "test_a_level_forges_no_line",
            OFFICER + "test_facts_are_the_file_s",
        ),
    ),
    Sentence(
        "purpose.untitled",
        lambda facts: not facts.title,
        "The plan has no title, and does not say what the answer is for.",
        "Der Plan hat keinen Titel und sagt nicht, wofür die Antwort gebraucht wird.",
        (OFFICER + "test_facts_are_the_file_s",),
    ),
    Sentence(
        "purpose.cost",
        _in("cost"),
        "Asked for is the minimum of the sum of all members' own costs.",
        "Gefragt ist nach dem Minimum der Summe der eigenen Kosten aller Mitglieder.",
        (
            "tests/minimise/test_solve.py::"
            "test_masked_runs_approach_the_pooled_minimiser_like_one_over_k",
        ),
    ),
    Sentence(
        "purpose.model",
        _in("model"),
        "Asked for is one regression over the rows of all members, as if they were in "
        "one table.",
        "Gefragt ist nach einer Regression über die Zeilen aller Mitglieder, als "
        "stünden sie in einer Tabelle.",
        (
            "tests/questions/test_sites.py::test_a_run_under_masks_is_the_fit_of_all_rows",
            CONSENT + "test_the_page_names_question_columns_levels_tables_and_bins",
        ),
    ),
    Sentence(
        "purpose.statistics",
        _in("statistics"),
        "Asked for, of the rows of all members together: {statistics}.",
        "Gefragt ist, für die Zeilen aller Mitglieder zusammen: {statistics}.",
        (
            "tests/questions/test_statistics.py::test_moments_are_those_of_the_pooled_rows",
        ),
    ),
    Sentence(
        "purpose.survival",
        _in("survival"),
        "Asked for are survival curves of the rows of all members together.",
        "Gefragt ist nach Überlebenskurven der Zeilen aller Mitglieder zusammen.",
        ("tests/questions/test_survival.py::test_machines_find_the_same_as_arrays",),
    ),
    Sentence(
        "purpose.cox",
        _in("cox"),
        "Asked for is one regression of hazards (Cox) over the rows of all members.",
        "Gefragt ist nach einer Regression der Hazardraten (Cox) über die Zeilen aller "
        "Mitglieder.",
        (
            "tests/questions/test_cox.py::"
            "test_a_baseline_over_agreed_times_is_r_s_poisson_regression",
        ),
    ),
    Sentence(
        "purpose.mixed",
        _in("mixed"),
        "Asked for is one mixed model: coefficients on average, and how much they "
        "differ between members.",
        "Gefragt ist nach einem gemischten Modell: Koeffizienten im Mittel, und wie "
        "sehr sie sich zwischen Mitgliedern unterscheiden.",
        (
            "tests/questions/test_sites.py::test_a_run_under_masks_is_the_fit_of_all_rows",
        ),
    ),
    Sentence(
        "purpose.meta",
        _in("meta"),
        "Asked for is one coefficient, which each member fits to its own rows, pooled "
        "over all members.",
        "Gefragt ist nach einem Koeffizienten, den jedes Mitglied an seinen eigenen "
        "Zeilen bestimmt, zusammengefasst über alle Mitglieder.",
        ("tests/questions/test_sites.py::test_pooled_estimates_are_those_of_formulas",),
    ),
    Sentence(
        "purpose.evaluate",
        _in("evaluate"),
        "Asked for is how well predictions fit the rows of all members.",
        "Gefragt ist, wie gut Vorhersagen zu den Zeilen aller Mitglieder passen.",
        (
            "tests/questions/test_evaluate.py::test_a_fit_to_the_same_rows_is_calibrated",
        ),
    ),
    Sentence(
        "purpose.dispatch",
        _in("dispatch"),
        "Asked for is the price at which the supply of all members meets their demand.",
        "Gefragt ist nach dem Preis, zu dem das Angebot aller Mitglieder ihre "
        "Nachfrage deckt.",
        (
            "tests/questions/test_dispatch_job.py::"
            "test_steps_and_bids_clear_as_the_pooled_linear_program",
        ),
    ),
    Sentence(
        "purpose.study",
        lambda facts: len(facts.questions) > 1,
        "It is a study of {n_questions} questions about the same tables.",
        "Es ist eine Studie mit {n_questions} Fragen an dieselben Tabellen.",
        (OFFICER + "test_facts_are_the_file_s",),
    ),
    Sentence(
        "purpose.members",
        always,
        "The sums are over {n} members: {parties}.",
        "Summiert wird über {n} Mitglieder: {parties}.",
        (OFFICER + "test_facts_are_the_file_s",),
    ),
    Sentence(
        "purpose.columns",
        lambda facts: bool(facts.columns),
        "Of each table {n_columns} columns are looked at: {columns}.",
        "Von jeder Tabelle werden {n_columns} Spalten angesehen: {columns}.",
        (CONSENT + "test_the_page_names_question_columns_levels_tables_and_bins",),
    ),
    Sentence(
        "purpose.formula",
        lambda facts: bool(facts.formulas),
        "Formula, as the plan has it: {formulas}.",
        "Formel, wie sie im Plan steht: {formulas}.",
        (OFFICER + "test_facts_are_the_file_s",),
    ),
    Sentence(
        "purpose.leaves",
        lambda facts: not facts.iterates,
        "Of its data a member sends masked numbers only. It also sends masks to the "
        "members it is linked with, and to all who it is, that it is ready, refuses or "
        "stops, and the answer; a receipt or a result leaves it when its people pass "
        "it on. The masks cancel in the sum over all members, and only such sums "
        "become known (sums at most: {most_numbers}; rounds at most: {most_sums}).",
        "Von seinen Daten sendet ein Mitglied nur maskierte Zahlen. Außerdem sendet es "
        "Masken an die Mitglieder, mit denen es verbunden ist, und an alle, wer es "
        "ist, dass es bereit ist, ablehnt oder abbricht, und die Antwort; eine "
        "Quittung oder ein Ergebnis verlässt es, wenn jemand dort sie weitergibt. Die "
        "Masken heben sich in der Summe über alle Mitglieder auf, und nur solche "
        "Summen werden bekannt (Summen höchstens: {most_numbers}; Runden höchstens: "
        "{most_sums}).",
        (
            SECRETS + "test_deposits_are_masked_numbers_only",
            SECRETS + "test_only_neighbours_are_told_shares",
            "tests/protocol/test_secrets.py::"
            "test_an_abort_tells_the_others_one_word_and_nothing_private",
            CONSENT + "test_a_run_shows_nothing_that_is_not_on_the_page",
        ),
    ),
    Sentence(
        "purpose.iterates",
        lambda facts: facts.iterates,
        "Of its data a member sends only what is computed from its masked cost: "
        "messages to its neighbours, step after step, until all have the minimum. The "
        "sums of all masked coefficients are taken to be known ({most_numbers}).",
        "Von seinen Daten sendet ein Mitglied nur, was aus den maskierten Kosten "
        "berechnet ist: Nachrichten an die Nachbarn, Schritt um Schritt, bis alle das "
        "Minimum haben. Die Summen aller maskierten Koeffizienten gelten als bekannt "
        "({most_numbers}).",
        (VIEWS + "test_masked_costs_are_all_that_a_method_shows",),
    ),
    Sentence(
        "purpose.direct",
        lambda facts: facts.drawn and not facts.relays and not facts.by_files,
        "Members connect directly: there is no server and no relay.",
        "Die Mitglieder verbinden sich direkt: es gibt keinen Server und keinen "
        "Vermittler.",
        (
            OFFICER + "test_facts_are_the_file_s",
            "tests/net/test_runs.py::test_every_graph_completes",
        ),
    ),
    Sentence(
        "purpose.plan",
        lambda facts: not facts.drawn,
        "This is a plan: certificates, addresses and the run's name are still missing. "
        "Have this annex made again from the consortium file.",
        "Dies ist ein Plan: Zertifikate, Adressen und der Name des Laufs fehlen noch. "
        "Lassen Sie diesen Anhang aus der Konsortiumsdatei neu erstellen.",
        (OFFICER + "test_a_plan_says_that_it_is_none_of_the_files_members_compare",),
    ),
    Sentence(
        "purpose.ended",
        lambda facts: facts.ended is not None and not facts.ended.failed,
        "The run is over: {n} of {all} members took part to the end, at {finished} UTC "
        "by the receipt that {party} signed.",
        "Der Lauf ist beendet: {n} von {all} Mitgliedern nahmen bis zum Ende teil, am "
        "{finished} UTC laut der Quittung, die {party} signiert hat.",
        (
            OFFICER + "test_a_finished_run_is_told_by_its_receipt",
            "tests/net/test_receipt.py::test_no_change_of_any_field_goes_unnoticed",
        ),
    ),
    Sentence(
        "purpose.lost",
        lambda facts: facts.ended is not None and bool(facts.ended.lost),
        "Left out, before any sum was known: {lost}. Nothing of them is in the sums.",
        "Ausgelassen, bevor eine Summe bekannt war: {lost}. Von ihnen ist nichts in "
        "den Summen.",
        (
            "tests/questions/test_who_is_left.py::test_books_and_promises_are_of_those_who_are_left",
            "tests/protocol/test_dropout.py::test_nobody_is_dropped_once_a_sum_is_known",
        ),
    ),
    # What must not be missed
    Sentence(
        "alarm.failed",
        lambda facts: facts.ended is not None and bool(facts.ended.failed),
        "The receipt does not hold: {failed}. Believe nothing here about how the run "
        "ended.",
        "Die Quittung hält der Prüfung nicht stand: {failed}. Glauben Sie nichts, was "
        "hier über das Ende des Laufs steht.",
        (
            "tests/audit/test_run_folder.py::test_a_receipt_that_was_changed_is_a_finding",
        ),
    ),
    Sentence(
        "alarm.site",
        lambda facts: facts.site_terms,
        "Site terms are allowed (site_terms = true; usual: false): columns and levels "
        "may tell one member from the others, so sums over the rows of one member "
        "alone may become known to all. Nobody checks whether they do.",
        "Standortmerkmale sind erlaubt (site_terms = true; üblich: false): Spalten "
        "und Ausprägungen dürfen ein Mitglied von den anderen unterscheiden; Summen "
        "über die Zeilen eines einzelnen Mitglieds können daher allen bekannt werden. "
        "Niemand prüft, ob es so kommt.",
        (
            PRESENCE + "test_the_same_question_runs_where_site_terms_are_allowed",
            CONSENT + "test_site_terms_are_shouted",
        ),
    ),
    Sentence(
        "alarm.site_few",
        _few_of_one_site,
        "Also small ones: a level that {rule_minimum_count} people of one member have "
        "and nobody else passes every check, and the sums over these "
        "{rule_minimum_count} people become known.",
        "Auch kleine: eine Ausprägung, die {rule_minimum_count} Personen eines "
        "Mitglieds haben und sonst niemand, besteht jede Prüfung, und die Summen über "
        "diese {rule_minimum_count} Personen werden bekannt.",
        (OFFICER + "test_three_people_of_one_site_pass_every_check",),
    ),
    Sentence(
        "alarm.weak_minimum_honest",
        _weaker("minimum_honest"),
        "Weaker than usual: minimum_honest = {weak_minimum_honest} (usual: "
        "{usual_minimum_honest}): sums over as few as {weak_minimum_honest} other "
        "members may become known.",
        "Schwächer als üblich: minimum_honest = {weak_minimum_honest} (üblich: "
        "{usual_minimum_honest}): Summen über nur {weak_minimum_honest} andere "
        "Mitglieder dürfen bekannt werden.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            OFFICER + "test_as_few_may_be_left_as_is_said",
        ),
    ),
    Sentence(
        "alarm.weak_drop",
        _weaker("drop"),
        "Weaker than usual: drop = {weak_drop} (usual: {usual_drop}): the others may "
        "go on without a member that is absent, refuses or is gone; the sums are then "
        "over fewer.",
        "Schwächer als üblich: drop = {weak_drop} (üblich: {usual_drop}): die anderen "
        "dürfen ohne ein Mitglied weitermachen, das fehlt, ablehnt oder ausfällt; die "
        "Summen gehen dann über weniger.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            OFFICER + "test_as_few_may_be_left_as_is_said",
            "tests/net/test_runs.py::test_the_others_go_on_without_one_where_the_policy_says_so",
        ),
    ),
    Sentence(
        "alarm.weak_minimum_rows",
        _weaker("minimum_rows"),
        "Weaker than usual: minimum_rows = {weak_minimum_rows} (usual: "
        "{usual_minimum_rows}): tables with fewer than {usual_minimum_rows} rows are "
        "admitted.",
        "Schwächer als üblich: minimum_rows = {weak_minimum_rows} (üblich: "
        "{usual_minimum_rows}): Tabellen mit weniger als {usual_minimum_rows} Zeilen "
        "sind zugelassen.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            "tests/tables/test_schema.py::*",
        ),
    ),
    Sentence(
        "alarm.weak_minimum_count",
        _weaker("minimum_count"),
        "Weaker than usual: minimum_count = {weak_minimum_count} (usual: "
        "{usual_minimum_count}): a level, a cell or a bin is admitted of which a "
        "member has fewer than {usual_minimum_count} people.",
        "Schwächer als üblich: minimum_count = {weak_minimum_count} (üblich: "
        "{usual_minimum_count}): zugelassen ist eine Ausprägung, eine Zelle oder ein "
        "Intervall, von dem ein Mitglied weniger als {usual_minimum_count} Personen "
        "hat.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            OFFICER + "test_without_the_rule_a_cell_of_one_person_is_shown",
        ),
    ),
    Sentence(
        "alarm.weak_effective_count",
        _weaker("effective_count"),
        "Weaker than usual: effective_count = {weak_effective_count} (usual: "
        "{usual_effective_count}): columns are admitted that rest on fewer than "
        "{usual_effective_count} rows of a table.",
        "Schwächer als üblich: effective_count = {weak_effective_count} (üblich: "
        "{usual_effective_count}): zugelassen sind Spalten, die auf weniger als "
        "{usual_effective_count} Zeilen einer Tabelle beruhen.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            RULES + "test_without_the_rules_a_bump_tells_what_one_person_earns",
        ),
    ),
    Sentence(
        "alarm.weak_maximum_leverage",
        _weaker("maximum_leverage"),
        "Weaker than usual: maximum_leverage = {weak_maximum_leverage} (usual: "
        "{usual_maximum_leverage}): of a combination of columns one person may make "
        "up more than {usual_percent_maximum_leverage} %.",
        "Schwächer als üblich: maximum_leverage = {weak_maximum_leverage} (üblich: "
        "{usual_maximum_leverage}): von einer Kombination von Spalten darf eine Person "
        "mehr als {usual_percent_maximum_leverage} % ausmachen.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            RULES + "test_no_combination_of_columns_is_the_indicator_of_a_row",
        ),
    ),
    Sentence(
        "alarm.weak_residual_rows",
        _weaker("residual_rows"),
        "Weaker than usual: residual_rows = {weak_residual_rows} (usual: "
        "{usual_residual_rows}): a regression may have nearly as many columns as "
        "there are rows, and single rows may follow from it.",
        "Schwächer als üblich: residual_rows = {weak_residual_rows} (üblich: "
        "{usual_residual_rows}): eine Regression darf fast so viele Spalten haben, "
        "wie es Zeilen gibt, und einzelne Zeilen können daraus folgen.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            RULES + "test_public_numbers_are_refused_before_any_table",
        ),
    ),
    Sentence(
        "alarm.weak_maximum_levels",
        _weaker("maximum_levels"),
        "Weaker than usual: maximum_levels = {weak_maximum_levels} (usual: "
        "{usual_maximum_levels}): a category may have more than "
        "{usual_maximum_levels} levels, and few people in each.",
        "Schwächer als üblich: maximum_levels = {weak_maximum_levels} (üblich: "
        "{usual_maximum_levels}): ein Merkmal darf mehr als {usual_maximum_levels} "
        "Ausprägungen haben, und wenige Personen in jeder.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            RULES + "test_public_numbers_are_refused_before_any_table",
        ),
    ),
    Sentence(
        "alarm.weak_maximum_columns",
        _weaker("maximum_columns"),
        "Weaker than usual: maximum_columns = {weak_maximum_columns} (usual: "
        "{usual_maximum_columns}): a regression may have more columns for each row, "
        "and more of a row may follow from it.",
        "Schwächer als üblich: maximum_columns = {weak_maximum_columns} (üblich: "
        "{usual_maximum_columns}): eine Regression darf mehr Spalten je Zeile haben, "
        "und mehr von einer Zeile kann daraus folgen.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            RULES + "test_public_numbers_are_refused_before_any_table",
        ),
    ),
    Sentence(
        "alarm.weak_dominance",
        _weaker("dominance"),
        "Weaker than usual: dominance = {weak_dominance} (usual: {usual_dominance}): "
        "of a member's sum of a column two people may make up "
        "{usual_percent_dominance} % and more.",
        "Schwächer als üblich: dominance = {weak_dominance} (üblich: "
        "{usual_dominance}): von der Summe einer Spalte bei einem Mitglied dürfen "
        "zwei Personen {usual_percent_dominance} % und mehr ausmachen.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            RULES + "test_dominance_is_that_of_the_two_largest",
        ),
    ),
    Sentence(
        "alarm.weak_release_fraction",
        _weaker("release_fraction"),
        "Weaker than usual: release_fraction = {weak_release_fraction} (usual: "
        "{usual_release_fraction}): more sums may become known than "
        "{usual_percent_release_fraction} % of the numbers in the tables; enough of "
        "them give the tables away.",
        "Schwächer als üblich: release_fraction = {weak_release_fraction} (üblich: "
        "{usual_release_fraction}): es dürfen mehr Summen bekannt werden als "
        "{usual_percent_release_fraction} % der Zahlen in den Tabellen; aus genügend "
        "vielen folgen die Tabellen.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            "tests/attacks/test_hazards.py::test_rows_follow_from_enough_sums_and_not_from_half_as_many",
        ),
    ),
    Sentence(
        "alarm.weak_most_rounds",
        _weaker("most_rounds"),
        "Weaker than usual: most_rounds = {weak_most_rounds} (usual: "
        "{usual_most_rounds}): there may be more than {usual_most_rounds} rounds, and "
        "each makes more sums known.",
        "Schwächer als üblich: most_rounds = {weak_most_rounds} (üblich: "
        "{usual_most_rounds}): es darf mehr als {usual_most_rounds} Runden geben, und "
        "jede macht weitere Summen bekannt.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            CONSENT
            + "test_what_is_shown_at_most_adds_up_from_the_rounds_that_are_listed",
        ),
    ),
    Sentence(
        "alarm.single",
        lambda facts: facts.single,
        "Every table has one row at most: a row is a member here, and what is said of "
        "one row is said of one member.",
        "Jede Tabelle hat höchstens eine Zeile: eine Zeile ist hier ein Mitglied, und "
        "was von einer Zeile gesagt wird, wird von einem Mitglied gesagt.",
        (CONSENT + "test_where_a_table_is_one_row_a_row_is_a_member",),
    ),
    Sentence(
        "alarm.nobody",
        lambda facts: not _curious(facts),
        "Nothing is promised against members: in this plan none of them may be "
        "curious (tolerate = 0; usual: {usual_tolerate}).",
        "Gegenüber Mitgliedern wird nichts zugesichert: in diesem Plan darf keines "
        "von ihnen neugierig sein (tolerate = 0; üblich: {usual_tolerate}).",
        (
            "tests/net/test_runs.py::"
            "test_they_complete_where_nobody_is_said_to_be_curious",
        ),
    ),
    Sentence(
        "alarm.ask_named",
        lambda facts: bool(facts.relaxed) and bool(facts.organiser),
        "Whoever wrote the plan chose these weaker rules; the plan names {organiser}: "
        "ask there why.",
        "Diese schwächeren Regeln hat der Verfasser des Plans gewählt; der Plan nennt "
        "{organiser}: fragen Sie dort nach dem Grund.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            OFFICER + "test_facts_are_the_file_s",
        ),
    ),
    Sentence(
        "alarm.ask",
        lambda facts: bool(facts.relaxed) and not facts.organiser,
        "Whoever wrote the plan chose these weaker rules, and the plan does not say "
        "who that is: ask whoever sent you the plan why.",
        "Diese schwächeren Regeln hat der Verfasser des Plans gewählt, den der Plan "
        "nicht nennt: fragen Sie den Absender des Plans nach dem Grund.",
        (
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
            OFFICER + "test_facts_are_the_file_s",
        ),
    ),
    # Who learns what: a member
    Sentence(
        "member+.sums",
        always,
        "every sum of this plan (they are listed below), exactly, and what follows "
        "from it",
        "jede Summe dieses Plans (sie sind unten aufgeführt), exakt, und was aus ihr "
        "folgt",
        (CONSENT + "test_a_run_shows_nothing_that_is_not_on_the_page",),
    ),
    Sentence(
        "member+.others",
        always,
        "the same sums over the {others} others: it takes off what it gave itself",
        "dieselben Summen über die {others} anderen: es zieht ab, was es selbst "
        "beitrug",
        (OFFICER + "test_a_member_knows_the_sums_over_the_others",),
    ),
    Sentence(
        "member+.lost",
        lambda facts: facts.may_lose,
        "if members are absent, refuse or are gone before the first sum is known: the "
        "same sums over those who are left, who are {fewest} or more, and so over "
        "{fewest_others} others at least",
        "falls Mitglieder fehlen, ablehnen oder ausfallen, bevor die erste Summe "
        "bekannt ist: dieselben Summen über die übrigen, und das sind {fewest} oder "
        "mehr, also über mindestens {fewest_others} andere",
        (
            OFFICER + "test_as_few_may_be_left_as_is_said",
            "tests/questions/test_who_is_left.py::test_books_and_promises_are_of_those_who_are_left",
        ),
    ),
    Sentence(
        "member+.site",
        lambda facts: facts.site_terms,
        "sums over the rows of one other member alone, where a column or a level is "
        "that member's only",
        "Summen über die Zeilen eines einzelnen anderen Mitglieds, wo eine Spalte oder "
        "Ausprägung nur diesem gehört",
        (OFFICER + "test_a_site_term_gives_one_member_s_sums_to_all",),
    ),
    Sentence(
        "member+.cell",
        lambda facts: _few_in_a_sum(facts) and bool(facts.holders),
        "sums over as few as {holders} people: a level, a cell or a bin passes that "
        "{holders} members have with one person each; each of these takes off its own "
        "and knows the sums of the other {holders_others} people together",
        "Summen über nur {holders} Personen: eine Ausprägung, eine Zelle oder ein "
        "Intervall besteht, das {holders} Mitglieder mit je einer Person haben; jedes "
        "davon zieht die eigene ab und kennt die Summen der {holders_others} anderen "
        "Personen zusammen",
        (
            OFFICER + "test_without_the_rule_three_people_are_shown",
            OFFICER + "test_without_the_rule_a_cell_of_one_person_is_shown",
        ),
    ),
    Sentence(
        "member+.cell_counted",
        lambda facts: (
            _off("minimum_count")(facts)
            and bool(facts.holders)
            and facts.counts
            and not _few_in_a_sum(facts)
        ),
        "counts of as few as {holders} people: a level, a cell or a bin passes that "
        "{holders} members have with one person each; all then know that each of "
        "{holders} members has exactly one such person. No sum of a column is over "
        "these people alone",
        "Anzahlen von nur {holders} Personen: eine Ausprägung, eine Zelle oder ein "
        "Intervall besteht, das {holders} Mitglieder mit je einer Person haben; alle "
        "wissen dann, dass jedes von {holders} Mitgliedern genau eine solche Person "
        "hat. Keine Summe einer Spalte geht nur über diese Personen",
        (
            OFFICER + "test_without_the_rule_three_people_are_shown",
            OFFICER + "test_without_the_rule_a_cell_of_one_person_is_shown",
            OFFICER + "test_no_sum_of_a_column_is_over_three_people",
        ),
    ),
    Sentence(
        "member+.levels",
        lambda facts: bool(facts.by_level),
        "among these, for each level of {by_level}: how many rows have it, and over "
        "these rows the sum of the response and of every other column of the design",
        "darunter, für jede Ausprägung von {by_level}: wie viele Zeilen sie haben, und "
        "über diese Zeilen die Summe der Zielgröße und jeder anderen Spalte des "
        "Modells",
        (
            CONSENT + "test_the_page_names_question_columns_levels_tables_and_bins",
            OFFICER + "test_a_site_term_gives_one_member_s_sums_to_all",
        ),
    ),
    Sentence(
        "member+.one",
        lambda facts: (
            _off("minimum_count")(facts)
            and not facts.holders
            and (facts.headings == {"statistics"} or _few_in_a_sum(facts))
        ),
        "sums or counts of a single person of another member, where that person alone "
        "has a level or a value",
        "Summen oder Anzahlen einer einzelnen Person eines anderen Mitglieds, wo nur "
        "diese eine Ausprägung oder einen Wert hat",
        (OFFICER + "test_without_both_rules_one_person_of_one_site_is_shown",),
    ),
    Sentence(
        "member+.holders",
        lambda facts: bool(facts.holders),
        "how many members have each of these: {groups}. If some have one of them and "
        "fewer than {holders} do, the run ends there, and nothing else is shown",
        "bei wie vielen Mitgliedern jedes davon vorkommt: {groups}. Kommt etwas bei "
        "einigen, aber weniger als {holders} vor, endet der Lauf dort, und sonst wird "
        "nichts gezeigt",
        (
            PRESENCE + "test_a_question_about_one_site_ends_after_the_first_sum",
            PRESENCE + "test_the_counts_are_those_of_parties",
        ),
    ),
    Sentence(
        "member+.presence",
        always,
        "who takes part, is absent, refuses or leaves, and when",
        "wer teilnimmt, fehlt, ablehnt oder ausfällt, und wann",
        (
            "tests/protocol/test_secrets.py::"
            "test_an_abort_tells_the_others_one_word_and_nothing_private",
            "tests/net/test_runs.py::"
            "test_who_never_comes_is_named_with_the_state_of_its_link",
        ),
    ),
    Sentence(
        "member-.rows",
        lambda facts: (
            _curious(facts)
            and facts.sums_only
            and not (_cost(facts) or facts.by_party or facts.holders)
        ),
        "which of the others has which row: had the same rows been spread differently "
        "over the others, within their rules, it would have seen the same sums, and "
        "nothing else that tells the difference (timing apart)",
        "welches der anderen welche Zeile hat: wären dieselben Zeilen anders auf die "
        "anderen verteilt, im Rahmen ihrer Regeln, hätte es dieselben Summen gesehen "
        "und sonst nichts, was den Unterschied verrät (vom Zeitverlauf abgesehen)",
        (
            "tests/attacks/test_reassignment.py::"
            "test_totals_do_not_depend_on_who_has_which_row",
            VIEWS + "test_rows_dealt_anew_are_not_seen",
        ),
    ),
    Sentence(
        "member-.counted",
        lambda facts: (
            _curious(facts)
            and facts.sums_only
            and not (_cost(facts) or facts.by_party)
            and bool(facts.holders)
        ),
        "which of the others has which row: had the same rows been spread differently "
        "over the others, within their rules and with the same counts of members, it "
        "would have seen the same sums, and nothing else that tells the difference "
        "(timing apart)",
        "welches der anderen welche Zeile hat: wären dieselben Zeilen anders auf die "
        "anderen verteilt, im Rahmen ihrer Regeln und mit gleichen Anzahlen von "
        "Mitgliedern, hätte es dieselben Summen gesehen und sonst nichts, was den "
        "Unterschied verrät (vom Zeitverlauf abgesehen)",
        (
            PRESENCE
            + "test_what_is_said_of_rows_holds_for_dealings_that_leave_the_first_sum",
            VIEWS + "test_rows_dealt_anew_are_not_seen",
        ),
    ),
    Sentence(
        "member-.tables",
        lambda facts: (
            _curious(facts) and facts.sums_only and facts.by_party and not _cost(facts)
        ),
        "which of the others' whole inputs is whose: had two of them been exchanged, "
        "it would have seen the same sums (timing apart). That single rows were "
        "exchanged is not hidden",
        "welche der ganzen Eingaben der anderen wem gehört: wären zwei davon "
        "vertauscht, hätte es dieselben Summen gesehen (vom Zeitverlauf abgesehen). "
        "Nicht verborgen ist, ob einzelne Zeilen vertauscht wurden",
        (
            "tests/attacks/test_party_terms.py::"
            "test_whole_tables_exchanged_leave_every_bit",
            VIEWS + "test_whole_tables_exchanged_are_not_seen",
        ),
    ),
    Sentence(
        "member-.near",
        lambda facts: _curious(facts) and not facts.sums_only and not _cost(facts),
        "how the sums divide among the others, better than the number below says",
        "wie sich die Summen auf die anderen verteilen, besser als die Zahl unten sagt",
        ("tests/audit/test_likelihood.py::test_whole_numbers_keep_their_promise",),
    ),
    Sentence(
        "member-.cost",
        lambda facts: _curious(facts) and facts.sums_only and _cost(facts),
        "how the sum of masked coefficients divides among the others: divided "
        "differently, it would have looked the same (timing apart)",
        "wie sich die Summe der maskierten Koeffizienten auf die anderen verteilt: "
        "anders verteilt hätte sie gleich ausgesehen (vom Zeitverlauf abgesehen)",
        (VIEWS + "test_equal_sums_of_every_piece_are_not_told_apart",),
    ),
    Sentence(
        "member-.near_cost",
        lambda facts: _curious(facts) and not facts.sums_only and _cost(facts),
        "how the sum of masked coefficients divides among the others, better than the "
        "number below says",
        "wie sich die Summe der maskierten Koeffizienten auf die anderen verteilt, "
        "besser als die Zahl unten sagt",
        ("tests/audit/test_likelihood.py::test_whole_numbers_keep_their_promise",),
    ),
    Sentence(
        "member-.site",
        lambda facts: facts.site_terms and _curious(facts),
        "(except where a level or a column is one member's only: whoever knows that "
        "knows whose rows its sums are about)",
        "(außer wo eine Ausprägung oder Spalte nur einem Mitglied gehört: wer das "
        "weiß, weiß, um wessen Zeilen es in deren Summen geht)",
        (OFFICER + "test_a_site_term_gives_one_member_s_sums_to_all",),
    ),
    Sentence(
        "member-.nothing",
        lambda facts: not _curious(facts),
        "(the plan does not protect against any member: tolerate = 0)",
        "(der Plan schützt vor keinem Mitglied: tolerate = 0)",
        (
            "tests/net/test_runs.py::"
            "test_they_complete_where_nobody_is_said_to_be_curious",
        ),
    ),
    # Members together
    Sentence(
        "coalition+.sums",
        lambda facts: facts.tolerate >= 2,
        "the same sums over all others ({sizes})",
        "dieselben Summen über alle anderen ({sizes})",
        (
            OFFICER
            + "test_every_coalition_knows_the_sums_over_all_others_and_no_others",
        ),
    ),
    Sentence(
        "coalition-.same",
        lambda facts: facts.tolerate >= 2,
        "what one member alone does not learn either",
        "was auch ein Mitglied allein nicht erfährt",
        (
            "tests/privacy/test_worst_case.py::"
            "test_the_search_equals_brute_force_on_200_random_graphs",
            VIEWS + "test_nor_on_other_links_by_other_coalitions",
        ),
    ),
    Sentence(
        "beyond+.linked",
        _all_masked,
        "the same sums over all others ({beyond} together: over the other "
        "{beyond_rest}), and no others, for every two members exchange masks in this "
        "plan. The promise is for {tolerate} all the same: of more it is not checked",
        "dieselben Summen über alle anderen ({beyond} gemeinsam: über die übrigen "
        "{beyond_rest}) und keine weiteren, denn in diesem Plan tauschen je zwei "
        "Mitglieder Masken aus. Zugesichert ist es dennoch nur für {tolerate}: für "
        "mehr wird es nicht geprüft",
        (
            OFFICER + "test_where_all_are_linked_no_more_than_sums_is_known",
            OFFICER + "test_two_together_know_the_sums_over_the_others",
        ),
    ),
    Sentence(
        "beyond+.all",
        lambda facts: not _all_masked(facts),
        "at least the same sums over all others ({beyond} together: over the other "
        "{beyond_rest}). That they learn no more is not promised, for the plan is "
        "checked against {tolerate} only; at worst they learn what each of the others "
        "gave",
        "mindestens dieselben Summen über alle anderen ({beyond} gemeinsam: über die "
        "übrigen {beyond_rest}). Dass sie nicht mehr erfahren, ist nicht zugesichert, "
        "denn geprüft ist der Plan nur gegen {tolerate}; schlimmstenfalls erfahren "
        "sie, was jedes der anderen beitrug",
        (
            OFFICER + "test_where_all_are_linked_no_more_than_sums_is_known",
            OFFICER
            + "test_every_coalition_knows_the_sums_over_all_others_and_no_others",
            OFFICER + "test_two_together_know_the_sums_over_the_others",
        ),
    ),
    Sentence(
        "beyond+.last",
        _of_rows,
        "{others} members together: exactly what the last one gave, that is the sums "
        "over its rows, not the rows themselves",
        "{others} Mitglieder gemeinsam: genau, was das letzte beitrug, also die Summen "
        "über dessen Zeilen, nicht die Zeilen selbst",
        (OFFICER + "test_all_but_one_know_what_the_last_one_gave",),
    ),
    Sentence(
        "beyond+.last_one",
        _few_people,
        "{others} members together: exactly what the last one gave, that is its sums "
        "and counts of rows, some of which may be of one person",
        "{others} Mitglieder gemeinsam: genau, was das letzte beitrug, also Summen und "
        "Anzahlen seiner Zeilen, von denen manche eine einzige Person betreffen "
        "können",
        (
            OFFICER + "test_all_but_one_know_what_the_last_one_gave",
            OFFICER + "test_without_the_rule_three_people_are_shown",
        ),
    ),
    Sentence(
        "beyond+.last_whole",
        lambda facts: not (_of_rows(facts) or _few_people(facts)),
        "{others} members together: exactly what the last one gave",
        "{others} Mitglieder gemeinsam: genau, was das letzte beitrug",
        (OFFICER + "test_all_but_one_know_what_the_last_one_gave",),
    ),
    Sentence(
        "beyond+.after_loss",
        lambda facts: facts.may_lose,
        "when as few are left as may be, {fewest_others} of the {fewest} are enough "
        "for that",
        "sind nur so wenige übrig wie erlaubt, genügen dafür {fewest_others} von "
        "{fewest}",
        (OFFICER + "test_after_a_loss_two_of_three_know_what_the_third_gave",),
    ),
    Sentence(
        "beyond-.none",
        always,
        "(the plan does not protect against {beyond} or more members who pool what "
        "they saw)",
        "(der Plan schützt nicht vor {beyond} oder mehr Mitgliedern, die ihr "
        "Wissen zusammenlegen)",
        ("tests/audit/test_guesses.py::test_a_party_alone_is_guessed_for_sure",),
    ),
    # The organiser
    Sentence(
        "organiser+.named",
        lambda facts: bool(facts.organiser),
        "what a member learns, for the plan says that {organiser} wrote it; this is "
        "not verified. Whoever wrote it chose the question and the rules, and so what "
        "becomes known",
        "was ein Mitglied erfährt, denn dem Plan nach hat {organiser} ihn "
        "geschrieben; das wird nicht geprüft. Der Verfasser wählte Frage und Regeln "
        "und damit, was bekannt wird",
        (
            "tests/attacks/test_consent.py::test_nothing_of_the_question_is_hidden",
            OFFICER + "test_facts_are_the_file_s",
        ),
    ),
    Sentence(
        "organiser+.unnamed",
        lambda facts: not facts.organiser,
        "the plan does not say who wrote it: a member learns what members learn, "
        "anybody else only what members pass on",
        "der Plan sagt nicht, wer ihn geschrieben hat: ein Mitglied erfährt, was "
        "Mitglieder erfahren, jeder andere nur, was Mitglieder weitergeben",
        (
            "tests/party/test_own_rules.py::"
            "test_only_files_of_known_organisers_are_considered",
            OFFICER + "test_facts_are_the_file_s",
        ),
    ),
    Sentence(
        "organiser-.text",
        always,
        "anything beyond that by means of the plan: it holds settings and no program; "
        "rules that it weakens are pointed out to everybody",
        "darüber hinaus etwas mit Hilfe des Plans: er enthält Einstellungen und kein "
        "Programm; Regeln, die er abschwächt, werden allen genannt",
        (
            "tests/attacks/test_hostile_texts.py::*",
            "tests/attacks/test_the_package_runs_no_text.py::*",
            CONSENT + "test_what_is_weaker_than_usual_is_said_first",
        ),
    ),
    # Between members
    Sentence(
        "relay+.traffic",
        lambda facts: facts.relays > 0,
        "how many connections there are, from where, when, and how much is sent",
        "wie viele Verbindungen es gibt, woher, wann, und wie viel gesendet wird",
        (
            RELAY + "test_nothing_is_found_in_all_that_it_saw",
            "tests/net/test_relay.py::test_numbers_are_of_nobody_in_particular",
        ),
    ),
    Sentence(
        "relay-.numbers",
        lambda facts: facts.relays > 0,
        "numbers, masks and members' names: members' encryption runs through it, and "
        "it is told pseudonyms",
        "Zahlen, Masken und Namen von Mitgliedern: deren Verschlüsselung geht durch "
        "ihn hindurch, und er erhält Pseudonyme",
        (
            RELAY + "test_nothing_is_found_in_all_that_it_saw",
            RELAY + "test_pseudonyms_cannot_be_tried_out_without_the_run_s_name",
        ),
    ),
    Sentence(
        "carrier+.letters",
        lambda facts: facts.by_files,
        "who writes to whom in which run, when, and how much",
        "wer wem in welchem Lauf schreibt, wann und wie viel",
        (DROP + "test_no_letter_shows_a_share_or_a_number",),
    ),
    Sentence(
        "carrier-.numbers",
        lambda facts: facts.by_files,
        "numbers and masks: letters are sealed to one member of one run",
        "Zahlen und Masken: Briefe sind für ein Mitglied eines Laufs versiegelt",
        (
            DROP + "test_no_letter_shows_a_share_or_a_number",
            DROP + "test_no_member_opens_what_is_for_another",
        ),
    ),
    Sentence(
        "listener+.traffic",
        lambda facts: not facts.by_files,
        "which computers are connected, when, and how much is sent",
        "welche Rechner verbunden sind, wann, und wie viel gesendet wird",
        (SECRETS + "test_no_byte_on_the_wire_is_a_share_or_a_coefficient",),
    ),
    Sentence(
        "listener-.numbers",
        lambda facts: not facts.by_files,
        "numbers and masks: every link is encrypted with TLS 1.3, with members' "
        "certificates at both ends",
        "Zahlen und Masken: jede Verbindung ist mit TLS 1.3 verschlüsselt, mit "
        "Zertifikaten der Mitglieder an beiden Enden",
        (
            SECRETS + "test_no_byte_on_the_wire_is_a_share_or_a_coefficient",
            "tests/net/test_trust.py::test_older_protocols_are_refused",
            "tests/net/test_trust.py::test_a_caller_without_a_certificate_is_refused",
        ),
    ),
    Sentence(
        "staff+.own",
        always,
        "what that member has and learns: its data, its files of the run, and what its "
        "program computes with; a passphrase, which is optional, guards its key and "
        "what is encrypted with that, until it is typed there",
        "was dieses Mitglied hat und erfährt: seine Daten, seine Dateien des Laufs, "
        "und womit sein Programm rechnet; ein Kennwort, das freiwillig ist, schützt "
        "den Schlüssel und was damit verschlüsselt ist, bis es dort eingegeben wird",
        (
            "tests/net/test_passphrase.py::"
            "test_the_file_is_encrypted_and_nothing_of_it_opens_without",
            OFFICER + "test_a_ledger_still_knows_a_row_that_was_deleted",
            "tests/cli/test_join.py::test_a_transcript_is_kept_for_its_owner",
        ),
    ),
    Sentence(
        "staff-.others",
        always,
        "more of the other members than that member learns",
        "von den anderen Mitgliedern mehr, als dieses Mitglied erfährt",
        (SECRETS + "test_only_neighbours_are_told_shares",),
    ),
    Sentence(
        "authors+.nothing",
        always,
        "nothing from the program: it calls only places that the plan or the "
        "computer's owner names. It reports nothing, looks for no updates, and has no "
        "entrance for support",
        "vom Programm nichts: es ruft nur Stellen an, die der Plan oder der Besitzer "
        "des Rechners nennt. Es meldet nichts, sucht keine neuen Versionen, und "
        "hat keinen Zugang zur Fernwartung",
        (OFFICER + "test_the_program_calls_nobody_of_its_own",),
    ),
    Sentence(
        "authors-.all",
        always,
        "that there is a plan, who its members are, and any number of it",
        "dass es einen Plan gibt, wer seine Mitglieder sind, und irgendeine Zahl "
        "daraus",
        (OFFICER + "test_the_program_calls_nobody_of_its_own",),
    ),
    Sentence(
        "reader+.result",
        always,
        "of a result that a member passes on: the answer, and what follows from it; of "
        "a receipt: who took part, when, under which plan, and what was promised",
        "aus einem Ergebnis, das ein Mitglied weitergibt: die Antwort, und was aus ihr "
        "folgt; aus einer Quittung: wer teilnahm, wann, nach welchem Plan, und was "
        "zugesichert war",
        (
            "tests/party/test_replay.py::test_what_a_run_has_left_follows_from_its_sums",
            "tests/net/test_receipt.py::"
            "test_a_stranger_can_check_the_signature_from_the_file_alone",
        ),
    ),
    Sentence(
        "reader-.secrets",
        lambda facts: not facts.site_terms,
        "what one member gave: results and receipts hold no member's own number, and "
        "receipts no sum",
        "was ein einzelnes Mitglied beitrug: Ergebnisse und Quittungen enthalten keine "
        "eigene Zahl eines Mitglieds, und Quittungen keine Summe",
        (SECRETS + "test_results_and_receipts_hold_no_secret_and_files_are_ones_own",),
    ),
    Sentence(
        "reader-.site",
        lambda facts: facts.site_terms,
        "what one member gave, except where a level or a column is one member's only: "
        "then a result may show it. Receipts hold no sum",
        "was ein einzelnes Mitglied beitrug, außer wo eine Ausprägung oder Spalte nur "
        "einem Mitglied gehört: dann kann ein Ergebnis es zeigen. Quittungen "
        "enthalten keine Summe",
        (
            OFFICER + "test_a_site_term_gives_one_member_s_sums_to_all",
            SECRETS + "test_results_and_receipts_hold_no_secret_and_files_are_ones_own",
        ),
    ),
    # The number
    Sentence(
        "number.zero",
        lambda facts: _curious(facts) and facts.sums_only,
        "Somebody ({guessers}) is told two ways in which what the others gave could "
        "be divided among them, with the same sums, and guesses from everything seen "
        "which one is true. The guess is right in at most 50 % of cases: as often as "
        "by tossing a coin (epsilon = 0).",
        "Jemand ({guessers}) bekommt zwei Möglichkeiten genannt, wie sich das, was "
        "die anderen beitrugen, auf sie verteilt, mit gleichen Summen, und rät aus "
        "allem Gesehenen, welche stimmt. Das gelingt in höchstens 50 % der Fälle: so "
        "oft wie beim Münzwurf (epsilon = 0).",
        (
            VIEWS + "test_equal_sums_of_every_piece_are_not_told_apart",
            "tests/privacy/test_uniform_views.py::*",
        ),
    ),
    Sentence(
        "number.site",
        lambda facts: facts.site_terms and _curious(facts),
        "It does not hold for site terms (the warning at the top): sums over one "
        "member alone are sums too, and no mask hides them.",
        "Für Standortmerkmale gilt das nicht (siehe die Warnung am Anfang): auch "
        "Summen über ein einzelnes Mitglied sind Summen, und keine Maske verbirgt sie.",
        (OFFICER + "test_a_site_term_gives_one_member_s_sums_to_all",),
    ),
    Sentence(
        "number.lattice",
        lambda facts: _curious(facts) and bool(facts.distances),
        "Whoever guesses from what was seen ({guessers}) which of two inputs of the "
        "others with the same sums is the true one is right in {chances}; by tossing "
        "a coin in 50 %. The distance is by how much the others' own numbers differ "
        "between the two; epsilon = {epsilon} for all sums together.",
        "Wer aus dem Gesehenen rät ({guessers}), welche von zwei Eingaben der anderen "
        "mit gleichen Summen die wahre ist, liegt richtig in {chances}; beim Münzwurf "
        "in 50 %. Der Abstand ist, um wie viel sich die eigenen Zahlen der anderen "
        "zwischen beiden unterscheiden; epsilon = {epsilon} für alle Summen zusammen.",
        (
            OFFICER + "test_distances_are_those_of_the_proved_bound",
            "tests/audit/test_likelihood.py::test_whole_numbers_keep_their_promise",
        ),
    ),
    Sentence(
        "number.pooled",
        lambda facts: _curious(facts) and facts.epsilon is not None,
        "{others} of the {n} together are always right (100 %).",
        "{others} der {n} gemeinsam raten immer richtig (100 %).",
        (OFFICER + "test_all_but_one_know_what_the_last_one_gave",),
    ),
    Sentence(
        "number.left",
        lambda facts: _curious(facts) and facts.epsilon is not None and facts.may_lose,
        "When only {fewest} are left, {fewest_others} of them are (100 %).",
        "Sind nur {fewest} übrig, gilt das für {fewest_others} davon (100 %).",
        (OFFICER + "test_after_a_loss_two_of_three_know_what_the_third_gave",),
    ),
    Sentence(
        "number.none",
        lambda facts: _curious(facts) and facts.epsilon is None,
        "No number can be proved for this plan: nothing is known about how often such "
        "guesses are right.",
        "Für diesen Plan lässt sich keine Zahl beweisen: wie oft solches Raten "
        "gelingt, ist unbekannt.",
        (
            "tests/privacy/test_worst_case.py::"
            "test_out_of_work_gives_a_bracket_around_the_exact_answer",
        ),
    ),
    Sentence(
        "number.members",
        lambda facts: not _curious(facts),
        "There is no number against members, for nothing is promised against them.",
        "Gegenüber Mitgliedern gibt es keine Zahl, denn ihnen gegenüber ist nichts "
        "zugesichert.",
        (
            "tests/net/test_runs.py::"
            "test_they_complete_where_nobody_is_said_to_be_curious",
        ),
    ),
    Sentence(
        "number.sums",
        always,
        "The number is about masks alone. It says nothing about what the sums "
        "themselves tell, which are exact, and it is not the epsilon of differential "
        "privacy.",
        "Die Zahl betrifft nur die Masken. Sie sagt nichts darüber, was die Summen "
        "selbst verraten, denn diese sind exakt, und sie ist nicht das epsilon der "
        "Differential Privacy.",
        (VIEWS + "test_one_row_that_is_another_is_seen",),
    ),
    # What is checked
    Sentence(
        "check.refuse",
        lambda facts: facts.on_tables,
        "Every member's program checks its own table before anything about it is sent. "
        "A table that does not pass takes no part; the others learn that this member "
        "is absent or refuses, and not why.",
        "Das Programm jedes Mitglieds prüft dessen Tabelle, bevor etwas von ihr "
        "gesendet wird. Besteht sie nicht, nimmt sie nicht teil; die anderen erfahren, "
        "dass dieses Mitglied fehlt oder ablehnt, und nicht warum.",
        (
            "tests/net/test_bad_input.py::test_a_table_that_does_not_fit_is_refused_before_anything",
            "tests/net/test_bad_input.py::test_a_ledger_that_refused_is_not_a_ledger_that_is_gone",
            "tests/attacks/test_refusals.py::test_no_bound_is_found_by_staying_away",
            "tests/cli/test_check.py::test_every_rule_says_for_itself_whether_it_refuses",
        ),
    ),
    Sentence(
        "check.none",
        lambda facts: not facts.on_tables,
        "There are no rules about tables for this kind of question: nobody checks what "
        "a member's own numbers give away by their sums.",
        "Für diese Art von Frage gibt es keine Regeln über Tabellen: niemand prüft, "
        "was die eigenen Zahlen eines Mitglieds durch ihre Summen verraten.",
        (CONSENT + "test_where_no_rule_is_about_tables_that_is_said_first",),
    ),
    Sentence(
        "check.minimum_rows",
        lambda facts: facts.rules.get("minimum_rows", 0) > 1,
        "A table has {rule_minimum_rows} rows or more (minimum_rows; usual: "
        "{usual_minimum_rows}).",
        "Eine Tabelle hat mindestens {rule_minimum_rows} Zeilen (minimum_rows; "
        "üblich: {usual_minimum_rows}).",
        (
            CONSENT + "test_every_rule_has_words_and_a_stricter_side",
            "tests/tables/test_schema.py::*",
        ),
    ),
    Sentence(
        "check.minimum_count",
        _kept("minimum_count"),
        "Whatever level, cell, bin or 0/1 value occurs in a table occurs there in "
        "{rule_minimum_count} rows or more (minimum_count; usual: "
        "{usual_minimum_count}).",
        "Jede Ausprägung, jede Zelle, jedes Intervall und jeder 0/1-Wert, der in "
        "einer Tabelle vorkommt, kommt dort in mindestens {rule_minimum_count} Zeilen "
        "vor (minimum_count; üblich: {usual_minimum_count}).",
        (
            RULES + "test_a_level_with_few_rows_is_refused",
            RULES + "test_statistics_keep_the_same_rules",
        ),
    ),
    Sentence(
        "check.effective_count",
        lambda facts: (
            _kept("effective_count")(facts)
            and not facts.headings <= {"statistics", "survival"}
        ),
        "No column and no part of a formula rests on fewer than "
        "{rule_effective_count} rows of a table (effective_count; usual: "
        "{usual_effective_count}).",
        "Keine Spalte und kein Teil einer Formel beruht auf weniger als "
        "{rule_effective_count} Zeilen einer Tabelle (effective_count; üblich: "
        "{usual_effective_count}).",
        (RULES + "test_a_bump_around_one_person_is_refused",),
    ),
    Sentence(
        "check.effective_numbers",
        lambda facts: (
            _kept("effective_count")(facts)
            and facts.headings <= {"statistics", "survival"}
        ),
        "No column of numbers stands out in fewer than {rule_effective_count} rows of "
        "a table (effective_count; usual: {usual_effective_count}). At levels, cells "
        "and bins this rule does not look.",
        "Keine Spalte von Zahlen fällt in weniger als {rule_effective_count} Zeilen "
        "einer Tabelle aus dem Rahmen (effective_count; üblich: "
        "{usual_effective_count}). Ausprägungen, Zellen und Intervalle sieht diese "
        "Regel nicht an.",
        (
            RULES + "test_statistics_keep_the_same_rules",
            OFFICER + "test_without_the_rule_three_people_are_shown",
        ),
    ),
    Sentence(
        "check.maximum_leverage",
        _kept("maximum_leverage"),
        "Of any combination of the columns one row makes up {percent_maximum_leverage} "
        "% at most within its table (of the sum of squares), of one column "
        "{percent_alone} % (maximum_leverage; usual: {usual_maximum_leverage}). "
        "Refused is what picks out one row almost alone; below the limit one row may "
        "still outweigh all others, and be guessed.",
        "Von jeder Kombination der Spalten macht eine Zeile in ihrer Tabelle höchstens "
        "{percent_maximum_leverage} % aus (der Summe der Quadrate), von einer Spalte "
        "{percent_alone} % (maximum_leverage; üblich: {usual_maximum_leverage}). "
        "Abgelehnt wird, was eine Zeile fast allein herausgreift; unter der Grenze "
        "kann eine Zeile immer noch alle anderen überwiegen und erraten werden.",
        (
            RULES + "test_no_combination_of_columns_is_the_indicator_of_a_row",
            RULES + "test_one_column_alone_keeps_further_from_one_row",
            RULES + "test_leverages_are_those_of_the_hat_matrix",
        ),
    ),
    Sentence(
        "check.dominance",
        _kept("dominance"),
        "The two largest values of a column stay below {percent_dominance} % of its "
        "sum within a table (dominance; usual: {usual_dominance}).",
        "Die beiden größten Werte einer Spalte bleiben unter {percent_dominance} % "
        "ihrer Summe in einer Tabelle (dominance; üblich: {usual_dominance}).",
        (RULES + "test_dominance_is_that_of_the_two_largest",),
    ),
    Sentence(
        "check.release_fraction",
        _kept("release_fraction"),
        "Fewer sums become known than {percent_release_fraction} % of the numbers "
        "(rows times columns) that the tables of all members but {tolerate} hold at "
        "least (release_fraction; usual: {usual_release_fraction}).",
        "Es werden weniger Summen bekannt als {percent_release_fraction} % der "
        "Zahlen (Zeilen mal Spalten), die in den Tabellen aller Mitglieder bis auf "
        "{tolerate} mindestens stehen (release_fraction; üblich: "
        "{usual_release_fraction}).",
        (
            "tests/questions/test_presence.py::"
            "test_numbers_of_the_first_sum_count_against_the_limit",
            CONSENT
            + "test_what_is_shown_at_most_adds_up_from_the_rounds_that_are_listed",
        ),
    ),
    Sentence(
        "check.holders",
        lambda facts: bool(facts.holders),
        "A first round counts the members that have each level, cell, bin or value. "
        "Where some have it, but fewer than {holders}, the run ends.",
        "Eine erste Runde zählt die Mitglieder, bei denen jede Ausprägung, jede "
        "Zelle, jedes Intervall oder jeder Wert vorkommt. Kommt etwas davon bei "
        "einigen, aber weniger als {holders} vor, endet der Lauf.",
        (PRESENCE + "test_a_level_has_no_holder_or_two_beyond_those_who_collude",),
    ),
    Sentence(
        "check.people",
        lambda facts: (
            facts.headings == {"statistics"}
            and _kept("minimum_count")(facts)
            and bool(facts.holders)
            and all(one.kind in ("levels", "bins", "cells") for one in facts.counted)
        ),
        "Together: a level, a cell or a bin that occurs at all has "
        "{fewest_people} rows or more ({holders} members with {rule_minimum_count} "
        "each).",
        "Zusammen: eine Ausprägung, eine Zelle oder ein Intervall, das vorkommt, hat "
        "mindestens {fewest_people} Zeilen ({holders} Mitglieder mit je "
        "{rule_minimum_count}).",
        (
            RULES + "test_statistics_keep_the_same_rules",
            PRESENCE + "test_a_level_has_no_holder_or_two_beyond_those_who_collude",
        ),
    ),
    Sentence(
        "check.site",
        lambda facts: facts.on_tables and not facts.site_terms and not facts.holders,
        "A column that is the same in all rows of a table is refused there, unless it "
        "can have two values only: a hospital with women only may take part "
        "(site_terms = false).",
        "Eine Spalte, die in allen Zeilen einer Tabelle gleich ist, wird dort "
        "abgelehnt, außer sie kann nur zwei Werte haben: ein Krankenhaus nur mit "
        "Frauen darf teilnehmen (site_terms = false).",
        (
            RULES + "test_what_tells_a_party_from_others_is_refused",
            RULES + "test_two_values_by_agreement_may_be_one_at_a_party",
        ),
    ),
    Sentence(
        "check.site_within",
        lambda facts: bool(facts.within),
        "Where each member has an intercept or a baseline of its own, a column may be "
        "the same in all rows of a table: it adds nothing to the sums there. How many "
        "members have rows that differ in every column becomes known, and the run ends "
        "where fewer than {holders} do (site_terms = false).",
        "Wo jedes Mitglied einen eigenen Achsenabschnitt oder ein eigenes Grundrisiko "
        "hat, darf eine Spalte in allen Zeilen einer Tabelle gleich sein: sie trägt "
        "dort zu den Summen nichts bei. Bekannt wird, bei wie vielen Mitgliedern sich "
        "Zeilen in jeder Spalte unterscheiden, und der Lauf endet, wenn es weniger als "
        "{holders} sind (site_terms = false).",
        (
            "tests/questions/test_cox.py::"
            "test_columns_that_are_constant_at_a_party_leave_r_s_fit",
            "tests/attacks/test_hazards.py::"
            "test_a_column_that_varies_at_few_parties_is_not_summed",
        ),
    ),
    Sentence(
        "check.site_counted",
        lambda facts: (
            facts.on_tables
            and not facts.site_terms
            and bool(facts.holders)
            and len(facts.within) < len(facts.questions)
        ),
        "A column that is the same in all rows of a table is refused there, unless it "
        "can have two values only: a hospital with women only may take part, and how "
        "many members have men becomes known (site_terms = false).",
        "Eine Spalte, die in allen Zeilen einer Tabelle gleich ist, wird dort "
        "abgelehnt, außer sie kann nur zwei Werte haben: ein Krankenhaus nur mit "
        "Frauen darf teilnehmen, und bekannt wird, bei wie vielen Mitgliedern Männer "
        "vorkommen (site_terms = false).",
        (
            OFFICER + "test_a_member_with_women_only_may_take_part",
            RULES + "test_what_tells_a_party_from_others_is_refused",
            RULES + "test_two_values_by_agreement_may_be_one_at_a_party",
        ),
    ),
    Sentence(
        "check.losing",
        lambda facts: facts.may_lose,
        "Without a member that is absent, refuses or is gone the others go on only "
        "while no sum is known, and then start again; once one is known, losing a "
        "member ends the run without an answer, and the sums until then stay known. So "
        "no run shows sums both with and without a member, whose difference would be "
        "its own.",
        "Ohne ein Mitglied, das fehlt, ablehnt oder ausfällt, machen die anderen nur "
        "weiter, solange keine Summe bekannt ist, und beginnen dann neu; ist eine "
        "bekannt, endet der Lauf beim Ausfall eines Mitglieds ohne Antwort, und die "
        "Summen bis dahin bleiben bekannt. Kein Lauf zeigt also Summen mit und ohne "
        "ein Mitglied, deren Unterschied dessen eigene wären.",
        (
            "tests/protocol/test_dropout.py::test_nobody_is_dropped_once_a_sum_is_known",
            "tests/protocol/test_dropout.py::test_under_our_policy_nobody_shows_two_vectors",
            "tests/protocol/test_dropout.py::test_a_party_drops_another_once_its_neighbours_know_of_this_start",
            "tests/net/test_runs.py::test_the_others_go_on_without_one_where_the_policy_says_so",
        ),
    ),
    Sentence(
        "check.loss",
        lambda facts: not facts.drop and facts.ended is None and not facts.iterates,
        "Nobody goes on without a member: if one is absent or gone, the run ends "
        "without an answer. Sums of rounds that were over by then stay known; there "
        "are none over fewer members.",
        "Ohne ein Mitglied wird nicht weitergemacht: fehlt eines oder fällt es aus, "
        "endet der Lauf ohne Antwort. Summen aus Runden, die bis dahin vorbei waren, "
        "bleiben bekannt; Summen über weniger Mitglieder gibt es nicht.",
        (
            "tests/drivers/test_liars.py::test_a_notice_of_loss_changes_nothing_where_nobody_may_be_lost",
            "tests/net/test_runs.py::test_who_never_comes_is_named_with_the_state_of_its_link",
            "tests/protocol/test_dropout.py::test_nobody_is_dropped_once_a_sum_is_known",
        ),
    ),
    Sentence(
        "check.ledger",
        always,
        "Every member keeps a ledger of what its data were used for; it is asked "
        "before anything masked leaves. A member that deletes this file of its own "
        "starts afresh, and nobody notices.",
        "Jedes Mitglied führt ein Nutzungsbuch darüber, wofür seine Daten "
        "benutzt wurden; es wird befragt, bevor etwas Maskiertes hinausgeht. Wer diese "
        "eigene Datei löscht, fängt neu an, und niemand merkt es.",
        (
            "tests/drivers/test_masked_sums.py::test_the_books_are_kept_before_anything_is_shown",
            "tests/net/test_runs.py::test_a_budget_that_forbids_stops_before_anything_masked_leaves",
            OFFICER + "test_a_ledger_that_is_deleted_is_missed_by_nobody",
        ),
    ),
    Sentence(
        "check.ledger_refuses",
        lambda facts: facts.on_tables,
        "About the same data a ledger refuses: a table that differs in few rows (1 or "
        "more, fewer than minimum_rows) from one that was used, but not the very same "
        "table; and a run over other members from which, with runs before, sums over "
        "fewer than {apart} members would follow.",
        "Über dieselben Daten lehnt ein Nutzungsbuch ab: eine Tabelle, die sich in "
        "wenigen Zeilen (1 oder mehr, weniger als minimum_rows) von einer benutzten "
        "unterscheidet, nicht aber genau dieselbe; und einen Lauf über andere "
        "Mitglieder, aus dem mit früheren Läufen Summen über weniger als {apart} "
        "Mitglieder folgen würden.",
        (
            LEDGER + "test_a_table_that_differs_in_few_rows_from_a_used_one_is_refused",
            LEDGER + "test_the_differencing_pair_is_refused",
            OFFICER + "test_the_same_rows_may_be_used_again_and_all_after_some_may_not",
        ),
    ),
    Sentence(
        "check.ledger_later",
        lambda facts: (
            facts.on_tables
            and facts.may_lose
            and facts.minimum_honest + facts.tolerate > 1
        ),
        "So after a run without one member all {all} cannot run again about the same "
        "data: the ledgers of the others refuse.",
        "Nach einem Lauf ohne ein Mitglied können daher nicht alle {all} noch einmal "
        "über dieselben Daten rechnen: die Nutzungsbücher der anderen lehnen ab.",
        (OFFICER + "test_the_same_rows_may_be_used_again_and_all_after_some_may_not",),
    ),
    Sentence(
        "check.study",
        lambda facts: len(facts.questions) > 1,
        "The columns of all questions are held together against each member's table "
        "before the first is asked.",
        "Die Spalten aller Fragen werden zusammen an der Tabelle jedes Mitglieds "
        "geprüft, bevor die erste gestellt wird.",
        (
            "tests/attacks/test_study.py::"
            "test_what_two_questions_tell_together_is_looked_at_before_the_first",
        ),
    ),
    Sentence(
        "check.off_minimum_count",
        _off("minimum_count"),
        "NOT checked: how many rows a level, a cell or a group has (minimum_count).",
        "NICHT geprüft: wie viele Zeilen eine Ausprägung, eine Zelle oder eine Gruppe "
        "hat (minimum_count).",
        (CONSENT + "test_a_rule_that_refuses_nothing_is_switched_off",),
    ),
    Sentence(
        "check.off_effective_count",
        _off("effective_count"),
        "NOT checked: whether a column points at a single row (effective_count).",
        "NICHT geprüft: ob eine Spalte auf eine einzelne Zeile zeigt "
        "(effective_count).",
        (CONSENT + "test_a_rule_that_refuses_nothing_is_switched_off",),
    ),
    Sentence(
        "check.off_maximum_leverage",
        _off("maximum_leverage"),
        "NOT checked: whether a combination of columns points at a single row "
        "(maximum_leverage).",
        "NICHT geprüft: ob eine Kombination von Spalten auf eine einzelne Zeile zeigt "
        "(maximum_leverage).",
        (CONSENT + "test_a_rule_that_refuses_nothing_is_switched_off",),
    ),
    Sentence(
        "check.off_dominance",
        _off("dominance"),
        "NOT checked: whether a sum is nearly that of a single row (dominance).",
        "NICHT geprüft: ob eine Summe fast die einer einzelnen Zeile ist (dominance).",
        (CONSENT + "test_a_rule_that_refuses_nothing_is_switched_off",),
    ),
    Sentence(
        "check.no_dominance",
        lambda facts: facts.on_tables and "dominance" not in facts.rules,
        "NOT checked: how much of a sum one or two people make up (dominance: a rule "
        "about statistics, which are not asked for).",
        "NICHT geprüft: wie viel von einer Summe eine oder zwei Personen ausmachen "
        "(dominance: eine Regel für Statistiken, nach denen nicht gefragt ist).",
        (OFFICER + "test_of_a_regression_nobody_looks_at_dominance",),
    ),
    Sentence(
        "check.off_site_terms",
        lambda facts: facts.site_terms,
        "NOT checked: whether columns and levels tell one member from the others "
        "(site_terms = true).",
        "NICHT geprüft: ob Spalten und Ausprägungen ein Mitglied von den anderen "
        "unterscheiden (site_terms = true).",
        (CONSENT + "test_site_terms_are_shouted",),
    ),
    # What is not protected
    Sentence(
        "open.sums",
        always,
        "The sums themselves, and whatever follows from them with what somebody knows "
        "from elsewhere.",
        "Die Summen selbst, und was aus ihnen folgt zusammen mit dem, was jemand aus "
        "anderer Quelle weiß.",
        (VIEWS + "test_one_row_that_is_another_is_seen",),
    ),
    Sentence(
        "open.everybody",
        lambda facts: facts.on_tables,
        "If all or nearly all people in the tables share a property, a sum reveals it "
        "for each of them.",
        "Teilen alle oder fast alle Personen in den Tabellen eine Eigenschaft, verrät "
        "eine Summe sie für jede von ihnen.",
        (OFFICER + "test_a_total_shows_what_holds_for_every_row",),
    ),
    Sentence(
        "open.few",
        lambda facts: facts.on_tables and facts.combines,
        "The sum of a combination (such as men of a high grade) that the first round "
        "does not count may be that of a single member, or of a single person; "
        "nothing checks this.",
        "Die Summe einer Kombination (etwa Männer mit hohem Grad), die in der ersten "
        "Runde nicht gezählt wird, kann die eines einzelnen Mitglieds oder einer "
        "einzelnen Person sein; nichts prüft das.",
        (
            OFFICER + "test_what_no_first_sum_counts_may_be_one_member_s",
            OFFICER + "test_what_no_first_sum_counts_may_be_one_person_s",
        ),
    ),
    Sentence(
        "open.few_uncounted",
        lambda facts: facts.on_tables and not facts.holders,
        "The sum of a level, a value or a combination may be that of a single member; "
        "nothing checks this.",
        "Die Summe einer Ausprägung, eines Werts oder einer Kombination kann die "
        "eines einzelnen Mitglieds sein; nichts prüft das.",
        (OFFICER + "test_a_site_term_gives_one_member_s_sums_to_all",),
    ),
    Sentence(
        "open.counts",
        lambda facts: bool(facts.holders),
        "How many members have something. Which ones is not said, but each knows this "
        "of itself: if all of the others have it, or none of them, it knows that of "
        "every one (so the only one without it, if {others} of {n} have it). If "
        "exactly one has it, all learn that, and the run ends with it.",
        "Bei wie vielen Mitgliedern etwas vorkommt. Bei welchen, wird nicht gesagt, "
        "aber jedes weiß es von sich selbst: kommt es bei allen anderen vor oder bei "
        "keinem, weiß es das von jedem (so das einzige ohne, wenn es bei {others} von "
        "{n} vorkommt). Ist es genau eines, erfahren das alle, und der Lauf endet "
        "damit.",
        (
            OFFICER + "test_the_only_one_without_knows_that_all_others_have_it",
            PRESENCE + "test_a_level_has_no_holder_or_two_beyond_those_who_collude",
            PRESENCE + "test_a_question_about_one_site_ends_after_the_first_sum",
        ),
    ),
    Sentence(
        "open.remainder",
        _cost,
        "The part of each cost that is not masked: the others are taken to know it.",
        "Der Teil der Kosten, der nicht maskiert ist: von ihm wird angenommen, dass "
        "die anderen ihn kennen.",
        (
            VIEWS
            + "test_by_gradients_features_are_seen_as_is_said_and_responses_are_not",
            CONSENT
            + "test_a_cost_says_where_it_is_looked_for_in_what_unit_and_how_often",
        ),
    ),
    Sentence(
        "open.lost",
        lambda facts: facts.may_lose,
        "Who is left out (absent, refusing or gone), and by that whom the sums are "
        "about.",
        "Wer ausgelassen ist (weil er fehlt, ablehnt oder ausfällt), und damit, von "
        "wem die Summen handeln.",
        (VIEWS + "test_who_is_lost_takes_a_total_along",),
    ),
    Sentence(
        "open.next",
        lambda facts: facts.on_tables,
        "The next run: each makes more known about the same data. A ledger knows the "
        "runs of its own member and no others, and nothing notices a person who is in "
        "the tables of two members.",
        "Der nächste Lauf: mit jedem wird mehr über dieselben Daten bekannt. Ein "
        "Nutzungsbuch kennt die Läufe des eigenen Mitglieds und keine anderen, "
        "und nichts bemerkt eine Person, die in den Tabellen zweier Mitglieder steht.",
        (
            "tests/questions/test_budgets.py::test_three_sets_are_looked_at_together",
            LEDGER + "test_the_differencing_pair_is_refused",
            OFFICER + "test_a_member_knows_the_sums_over_the_others",
        ),
    ),
    Sentence(
        "open.next_cost",
        lambda facts: not facts.on_tables,
        "The next run: each makes more known about the same data. A ledger knows the "
        "runs of its own member and no others.",
        "Der nächste Lauf: mit jedem wird mehr über dieselben Daten bekannt. Ein "
        "Nutzungsbuch kennt die Läufe des eigenen Mitglieds und keine anderen.",
        ("tests/questions/test_budgets.py::test_three_sets_are_looked_at_together",),
    ),
    Sentence(
        "open.liars",
        always,
        "Against members who do not keep to the protocol or give false numbers: all "
        "that is said here takes it that they do keep to it.",
        "Gegen Mitglieder, die sich nicht an das Protokoll halten oder falsche Zahlen "
        "geben: alles hier setzt voraus, dass sie sich daran halten.",
        (
            "tests/drivers/test_liars.py::"
            "test_other_numbers_in_a_round_end_without_blaming_anybody",
        ),
    ),
    Sentence(
        "open.computers",
        always,
        "A computer in other hands, timing, and what members do with what they have "
        "learned.",
        "Ein Rechner in fremder Hand, der Zeitverlauf, und was Mitglieder mit dem "
        "tun, was sie erfahren haben.",
        (
            "tests/attacks/test_files_at_home.py::*",
            VIEWS + "test_a_party_that_tells_of_itself_by_a_frame_or_in_time_is_found",
        ),
    ),
    # Retention, erasure, keys
    Sentence(
        "keep.shares",
        always,
        "Masks: overwritten in their file when the run is over or given up; after a "
        "crash when the run is taken up again and ends. Backups of that disk are not "
        "reached.",
        "Masken: in ihrer Datei überschrieben, sobald der Lauf beendet oder aufgegeben "
        "ist; nach einem Absturz, wenn der Lauf fortgesetzt ist und endet. "
        "Sicherungskopien des Datenträgers erreicht das nicht.",
        (
            SECRETS + "test_nothing_secret_is_left_in_the_state",
            "tests/net/test_store.py::test_no_byte_of_what_was_wiped_is_left",
            "tests/net/test_store.py::test_a_killed_process_leaves_nothing_that_a_later_wipe_would_miss",
        ),
    ),
    Sentence(
        "keep.files",
        always,
        "Kept by each member, in files that only their owner may read: the page it "
        "approved, result, sums, receipt, ledger. The plan sets no period after which "
        "they are deleted; the controllers do.",
        "Von jedem Mitglied aufbewahrt, in Dateien, die nur ihr Besitzer lesen darf: "
        "die freigegebene Seite, Ergebnis, Summen, Quittung, Nutzungsbuch. Der "
        "Plan setzt keine Löschfrist; das tun die Verantwortlichen.",
        (
            SECRETS + "test_results_and_receipts_hold_no_secret_and_files_are_ones_own",
            "tests/cli/test_join.py::test_what_was_agreed_to_is_kept_before_anything_is_sent",
            OFFICER + "test_no_file_sets_a_period",
        ),
    ),
    Sentence(
        "keep.ledger",
        lambda facts: facts.on_tables,
        "The ledger holds no value of a table, but a keyed check value of every row "
        "that was used, also of people deleted since, and the key in the same file: "
        "its owner can test whether a row was there. So it is not pseudonymised (Art. "
        "4(5) GDPR: the key is not kept apart); treat it as the table itself. One "
        "person cannot be taken out of it: the whole file can be deleted, and with it "
        "goes what it protects from.",
        "Das Nutzungsbuch enthält keinen Wert einer Tabelle, aber einen mit Schlüssel "
        "gebildeten Prüfwert jeder benutzten Zeile, auch seither gelöschter Personen, "
        "und den Schlüssel in derselben Datei: sein Besitzer kann prüfen, ob eine "
        "Zeile dabei war. Es ist daher nicht pseudonymisiert (Art. 4 Nr. 5 DSGVO: der "
        "Schlüssel ist nicht getrennt aufbewahrt); behandeln Sie es wie die Tabelle "
        "selbst. Eine Person lässt sich nicht herausnehmen: löschen lässt sich die "
        "ganze Datei, und damit der Schutz, den sie gibt.",
        (
            LEDGER + "test_a_fingerprint_is_not_a_plain_hash_of_the_value",
            LEDGER + "test_a_refusal_is_recorded_without_the_value_that_it_is_about",
            LEDGER + "test_no_change_of_a_byte_of_a_charge_goes_unnoticed",
            OFFICER + "test_a_ledger_still_knows_a_row_that_was_deleted",
            OFFICER + "test_a_ledger_that_is_deleted_is_missed_by_nobody",
        ),
    ),
    Sentence(
        "keep.transcript",
        always,
        "A transcript (all that a member stored, sent and received in the run, its own "
        "numbers and masks too) is kept only by a member that asks for one "
        "(--transcript), encrypted with its key; the others do not know of it. Members "
        "who pool transcripts know what members who pool know, no more.",
        "Einen Mitschnitt (alles, was ein Mitglied im Lauf speicherte, sendete und "
        "empfing, auch eigene Zahlen und Masken) bewahrt nur ein Mitglied auf, das ihn "
        "verlangt (--transcript), verschlüsselt mit seinem Schlüssel; die anderen "
        "wissen nichts davon. Wer Mitschnitte zusammenlegt, weiß nicht mehr als "
        "Mitglieder, die ihr Wissen zusammenlegen.",
        (
            "tests/cli/test_join.py::test_a_transcript_is_kept_for_its_owner",
            "tests/attacks/test_transcript_file.py::test_nothing_of_it_is_in_the_file",
            "tests/net/test_transcript_file.py::*",
        ),
    ),
    Sentence(
        "keep.letters",
        lambda facts: facts.by_files,
        "Letters stay in the folder until somebody deletes them; the key that opens "
        "them is erased with the run.",
        "Briefe bleiben im Ordner, bis jemand sie löscht; der Schlüssel, der sie "
        "öffnet, wird mit dem Lauf gelöscht.",
        (DROP + "test_who_steals_a_party_s_files_afterwards_reads_no_letter",),
    ),
    Sentence(
        "keep.erasure",
        always,
        "Erasure: a sum that is known cannot be taken back; who is in it stays in it.",
        "Löschung: eine bekannte Summe lässt sich nicht zurücknehmen; wer in ihr "
        "enthalten ist, bleibt es.",
        (OFFICER + "test_deleting_a_row_changes_no_sum_that_is_known",),
    ),
    Sentence(
        "keep.later",
        lambda facts: facts.rules.get("minimum_rows", 0) > 1,
        "After a few people are deleted from a table, a ledger refuses it until "
        "{rule_minimum_rows} rows or more differ from the table that was used "
        "(deleted, new or changed); until then this member cannot take part with it.",
        "Werden aus einer Tabelle wenige Personen gelöscht, lehnt ein "
        "Nutzungsbuch sie ab, bis mindestens {rule_minimum_rows} Zeilen anders "
        "sind als in der benutzten (gelöscht, neu oder geändert); bis dahin kann "
        "dieses Mitglied nicht mit ihr teilnehmen.",
        (
            LEDGER + "test_a_table_that_differs_in_few_rows_from_a_used_one_is_refused",
            LEDGER + "test_a_table_with_enough_new_rows_or_never_used_is_taken",
        ),
    ),
    Sentence(
        "keep.keys",
        always,
        "Keys: each member's private key is in a file that only its owner may read, "
        "with a passphrase if wanted; others have its certificate. Whoever steals a "
        "key can take part and sign as that member, and open its transcripts, until "
        "every member has signed an amended plan; connections recorded before stay "
        "unreadable.",
        "Schlüssel: der private Schlüssel eines Mitglieds liegt in einer Datei, die "
        "nur ihr Besitzer lesen darf, auf Wunsch mit Kennwort; die anderen haben sein "
        "Zertifikat. Wer ihn stiehlt, kann als dieses Mitglied teilnehmen und "
        "signieren und dessen Mitschnitte öffnen, bis alle einen geänderten Plan "
        "signiert haben; früher aufgezeichnete Verbindungen bleiben unlesbar.",
        (
            "tests/net/test_identity.py::test_only_its_owner_may_read_a_key",
            "tests/net/test_passphrase.py::test_the_file_is_encrypted_and_nothing_of_it_opens_without",
            "tests/net/test_amendment.py::test_a_stolen_key_is_replaced_and_the_screen_says_that_it_did_not_agree",
            "tests/net/test_trust.py::test_session_keys_are_written_nowhere",
            "tests/net/test_trust.py::test_a_connection_cannot_be_resumed",
            "tests/attacks/test_transcript_file.py::test_nobody_else_opens_it_not_even_under_a_changed_start",
        ),
    ),
    # How to verify
    Sentence(
        "verify.digest",
        lambda facts: facts.drawn,
        "All members hold the same plan if its digest is the same: {digest}. Programs "
        "compare it before anything is sent; people compare it by telephone.",
        "Alle Mitglieder haben denselben Plan, wenn dessen Prüfsumme gleich ist: "
        "{digest}. Programme vergleichen sie, bevor etwas gesendet wird; Menschen "
        "vergleichen sie am Telefon.",
        (
            "tests/net/test_hello.py::"
            "test_another_file_is_refused_with_the_sections_that_differ",
        ),
    ),
    Sentence(
        "verify.page",
        lambda facts: facts.drawn,
        "veilsum consortium show FILE shows the page that the members approve, with "
        "every sum that becomes known; receipts carry the digest of its facts: "
        "{consent}.",
        "veilsum consortium show DATEI zeigt die Seite, die die Mitglieder freigeben, "
        "mit jeder Summe, die bekannt wird; Quittungen tragen die Prüfsumme ihrer "
        "Angaben: {consent}.",
        (
            CONSENT + "test_a_run_shows_nothing_that_is_not_on_the_page",
            "tests/net/test_receipt.py::test_one_who_agreed_to_another_page_is_caught",
        ),
    ),
    Sentence(
        "verify.check",
        lambda facts: not _cost(facts),
        "veilsum check FILE --data TABLE says on a member's own computer whether its "
        "table passes, and sends nothing.",
        "veilsum check DATEI --data TABELLE sagt am eigenen Rechner, ob eine Tabelle "
        "besteht, und sendet nichts.",
        ("tests/cli/test_check.py::test_a_table_that_passes_passes_every_rule",),
    ),
    Sentence(
        "verify.check_cost",
        _cost,
        "veilsum check FILE --cost COST says on a member's own computer whether its "
        "cost passes, and sends nothing.",
        "veilsum check DATEI --cost KOSTEN sagt am eigenen Rechner, ob Kosten "
        "bestehen, und sendet nichts.",
        (OFFICER + "test_a_cost_is_checked_at_home",),
    ),
    Sentence(
        "verify.audit",
        always,
        "veilsum audit FILE attacks the plan with made-up data; as a control it shows "
        "that attacks that are known to be possible are found.",
        "veilsum audit DATEI greift den Plan mit erfundenen Daten an; zur Kontrolle "
        "zeigt es, dass Angriffe, die bekanntlich gelingen, gefunden werden.",
        (
            "tests/audit/test_every_file.py::*",
            "tests/audit/test_planted.py::*",
        ),
    ),
    Sentence(
        "verify.receipts",
        always,
        "veilsum verify RECEIPTS --consortium FILE checks after a run what all "
        "members signed, against each other and against the plan.",
        "veilsum verify QUITTUNGEN --consortium DATEI prüft nach einem Lauf, was alle "
        "Mitglieder signiert haben, gegeneinander und gegen den Plan.",
        (
            "tests/cli/test_verify.py::test_receipts_of_a_good_run_hold",
            "tests/cli/test_verify.py::test_one_changed_digit_is_found",
        ),
    ),
    Sentence(
        "verify.annex",
        always,
        "This annex is not signed, and none of these commands checks it: veilsum "
        "report FILE --for dpo writes it again, and from the same plan it says the "
        "same, but for the date.",
        "Dieser Anhang ist nicht signiert, und keiner dieser Befehle prüft ihn: "
        "veilsum report DATEI --for dpo schreibt ihn neu, und aus demselben Plan sagt "
        "er dasselbe, bis auf das Datum.",
        ("tests/report/test_forms.py::test_the_same_plan_gives_the_same_bytes",),
    ),
    # What is for the officer
    Sentence(
        "judge.personal",
        always,
        "Whether these data, or sums of them, are personal data is for you to judge. "
        "The program does not know what columns mean, and this annex does not call the "
        "results anonymous.",
        "Ob diese Daten oder Summen davon personenbezogen sind, haben Sie zu "
        "beurteilen. Das Programm weiß nicht, was Spalten bedeuten, und dieser Anhang "
        "nennt die Ergebnisse nicht anonym.",
        (OFFICER + "test_nothing_is_called_private_or_anonymous",),
    ),
    Sentence(
        "judge.law",
        always,
        "Not in a plan, and left open here: the full purpose and what columns mean; "
        "who the controllers are (each member, or jointly: Art. 26 GDPR), processors, "
        "contacts, countries and transfers; legal basis, necessity, and whether an "
        "impact assessment is due (Art. 35); information and rights of the people "
        "concerned; who receives the results; periods; what to do after a breach.",
        "Nicht in einem Plan, und hier offen: der ganze Zweck und was Spalten "
        "bedeuten; wer verantwortlich ist (jedes Mitglied, oder gemeinsam: Art. 26 "
        "DSGVO), Auftragsverarbeiter, Ansprechpartner, Länder und Übermittlungen; "
        "Rechtsgrundlage, Erforderlichkeit, und ob eine Folgenabschätzung nötig ist "
        "(Art. 35); Information und Rechte der Betroffenen; wer die Ergebnisse "
        "erhält; Fristen; was nach einer Datenpanne zu tun ist.",
        (OFFICER + "test_what_no_plan_says_is_left_open",),
    ),
    Sentence(
        "judge.levels",
        always,
        "The four grades of risk are those of the French authority's method (CNIL, "
        "PIA), proposed by fixed rules from the plan (listed in the program's "
        "documentation: docs/guides/officer.md); severity depends on what the columns "
        "mean. Both are yours to decide.",
        "Die vier Stufen der Risiken sind die des Verfahrens der französischen "
        "Aufsicht (CNIL, PIA), vorgeschlagen nach festen Regeln aus dem Plan "
        "(aufgeführt in der Dokumentation des Programms: docs/guides/officer.md); die "
        "Schwere hängt davon ab, was die Spalten bedeuten. Über beides entscheiden "
        "Sie.",
        (OFFICER + "test_levels_follow_from_the_plan",),
    ),
    Sentence(
        "judge.stop",
        lambda facts: facts.ended is None,
        "Any member may stop the run, or stay away, at any time.",
        "Jedes Mitglied darf den Lauf jederzeit abbrechen oder fernbleiben.",
        (
            "tests/net/test_runs.py::test_who_never_comes_is_named_with_the_state_of_its_link",
            "tests/net/test_secrets_on_the_network.py::test_nothing_secret_is_left_in_the_state",
        ),
    ),
    Sentence(
        "judge.young",
        always,
        "The program is young, and nobody outside its project has examined it: have it "
        "examined before you trust it with what matters.",
        "Das Programm ist jung, und niemand außerhalb seines Projekts hat es geprüft: "
        "lassen Sie es prüfen, bevor Sie ihm Wichtiges anvertrauen.",
        (OFFICER + "test_that_nobody_outside_has_examined_it_is_said_here_too",),
    ),
    Sentence(
        "judge.receipt_alone",
        lambda facts: facts.ended is not None,
        "This annex was made from the plan and one receipt ({file}, veilsum "
        "{version}): no table was opened, and no value of anybody is in it.",
        "Dieser Anhang entstand allein aus dem Plan und einer Quittung ({file}, "
        "veilsum {version}): keine Tabelle wurde geöffnet, und kein Wert "
        "daraus steht darin.",
        ("tests/attacks/test_the_annex.py::test_no_value_of_anybody_is_in_any_form",),
    ),
    Sentence(
        "judge.plan_alone",
        lambda facts: facts.ended is None,
        "This annex was made from the plan alone ({file}, veilsum {version}): no "
        "table was opened, and no value of anybody is in it.",
        "Dieser Anhang entstand allein aus dem Plan ({file}, veilsum {version}): "
        "keine Tabelle wurde geöffnet, und kein Wert daraus steht darin.",
        ("tests/attacks/test_the_annex.py::test_no_value_of_anybody_is_in_any_form",),
    ),
)


# Words that an officer need not know: a word, a colon, what it means. One is explained
# where it occurs.
EXPLAINED_WORDS: tuple[Sentence, ...] = tuple(
    Sentence(f"word.{key}", always, en, de, shown)
    for key, en, de, shown in (
        (
            "plan",
            "plan: the file with the question, the members and the rules; the "
            "programs of all members read the same one.",
            "Plan: die Datei mit der Frage, den Mitgliedern und den Regeln; die "
            "Programme aller Mitglieder lesen dieselbe.",
            (
                "tests/net/test_hello.py::"
                "test_another_file_is_refused_with_the_sections_that_differ",
            ),
        ),
        (
            "sum",
            "sum: one number, added up over all members; a count is a sum too.",
            "Summe: eine Zahl, über alle Mitglieder zusammengezählt; auch eine Anzahl "
            "ist eine Summe.",
            (CONSENT + "test_every_number_has_a_name_that_is_explained",),
        ),
        (
            "round",
            "round: one exchange of masked numbers, after which its sums are known.",
            "Runde: ein Austausch maskierter Zahlen, nach dem deren Summen bekannt "
            "sind.",
            (CONSENT + "test_a_run_shows_nothing_that_is_not_on_the_page",),
        ),
        (
            "mask",
            "mask: random numbers that two members exchange; one adds them to what it "
            "gives, the other takes them off.",
            "Maske: Zufallszahlen, die zwei Mitglieder austauschen; eines zählt sie zu "
            "dem hinzu, was es gibt, das andere zieht sie ab.",
            (SECRETS + "test_only_neighbours_are_told_shares",),
        ),
        (
            "level",
            "level: one of the values of a category, such as f or m.",
            "Ausprägung: einer der Werte eines Merkmals, etwa f oder m.",
            (CONSENT + "test_the_page_names_question_columns_levels_tables_and_bins",),
        ),
        (
            "cell",
            "cell: a combination of levels or ranges in a table of counts.",
            "Zelle: eine Kombination von Ausprägungen oder Bereichen in einer Tabelle "
            "von Anzahlen.",
            (RULES + "test_statistics_keep_the_same_rules",),
        ),
        (
            "bin",
            "bin: a range of numbers, such as ages from 40 to 50, whose rows are "
            "counted.",
            "Intervall: ein Bereich von Zahlen, etwa Alter von 40 bis 50, dessen "
            "Zeilen gezählt werden.",
            (CONSENT + "test_the_page_names_question_columns_levels_tables_and_bins",),
        ),
        (
            "design",
            "design: the columns that a regression works with: those of its formula, "
            "one for each level but the first, and one of ones.",
            "Spalten des Modells: womit eine Regression rechnet: die ihrer Formel, "
            "eine für jede Ausprägung bis auf die erste, und eine aus Einsen.",
            (CONSENT + "test_the_page_names_question_columns_levels_tables_and_bins",),
        ),
        (
            "response",
            "response: what a regression explains, left of ~ in its formula.",
            "Zielgröße: was eine Regression erklärt, in der Formel links von ~.",
            (CONSENT + "test_the_page_names_question_columns_levels_tables_and_bins",),
        ),
        (
            "site",
            "site term: a column or level that tells one member's rows from those of "
            "the others, such as its wards.",
            "Standortmerkmal: eine Spalte oder Ausprägung, an der Zeilen eines "
            "Mitglieds zu erkennen sind, etwa seine Stationen.",
            (OFFICER + "test_a_site_term_gives_one_member_s_sums_to_all",),
        ),
        (
            "ledger",
            "ledger: a file in which a member's program notes which rows and sums "
            "were used in which run.",
            "Nutzungsbuch: eine Datei, in der das Programm eines Mitglieds "
            "festhält, welche Zeilen und Summen in welchem Lauf benutzt wurden.",
            (LEDGER + "test_everything_comes_back_as_it_was",),
        ),
        (
            "receipt",
            "receipt: what each member signs after a run.",
            "Quittung: was jedes Mitglied nach einem Lauf signiert.",
            ("tests/cli/test_verify.py::test_receipts_of_a_good_run_hold",),
        ),
        (
            "digest",
            "digest: digits and letters computed from a file (SHA-256); a changed file "
            "has others.",
            "Prüfsumme: Ziffern und Buchstaben, aus einer Datei berechnet (SHA-256); "
            "eine geänderte Datei hat andere.",
            (
                "tests/net/test_hello.py::"
                "test_another_file_is_refused_with_the_sections_that_differ",
            ),
        ),
        (
            "certificate",
            "certificate: a member's public key with its name; it shows who signed, "
            "and who is at the other end.",
            "Zertifikat: der öffentliche Schlüssel eines Mitglieds mit dessen Namen; "
            "es zeigt, wer signierte und wer am anderen Ende ist.",
            ("tests/net/test_trust.py::test_members_talk_and_know_each_other",),
        ),
        (
            "epsilon",
            "epsilon: how much masks leave to be seen of who gave what; 0 is nothing.",
            "epsilon: wie viel die Masken davon erkennen lassen, wer was beitrug; 0 "
            "heißt nichts.",
            (VIEWS + "test_equal_sums_of_every_piece_are_not_told_apart",),
        ),
    )
)


def _fixed(level: int) -> Callable[[PlanFacts], int]:
    """Return the same level for every plan."""
    return lambda _: level


def _person(facts: PlanFacts) -> int:
    """Return how grave it is when one row is known: a person's, or a member's own."""
    return 2 if facts.single or not facts.on_tables else 3


def _collusion(facts: PlanFacts) -> int:
    """Return how likely more members pool what they saw than is allowed for.

    It is a level more where fewer are enough after a loss.
    """
    return min(4, {0: 4, 1: 2}.get(facts.tolerate, 1) + facts.may_lose)


def _of_the_last(facts: PlanFacts) -> int:
    """Return how grave it is when what one member gave is known."""
    return _person(facts) if _switched_off(facts) else 2


RISKS: tuple[PlanRisk, ...] = (
    PlanRisk(
        Sentence(
            "risk.collusion",
            lambda facts: not facts.may_lose,
            "{beyond} or more of the {n} pool what they saw, and know sums over fewer "
            "others than one member does; all but one know {last_gave}. Masks do not "
            "help then.",
            "{beyond} oder mehr der {n} tun zusammen, was sie sahen, und kennen Summen "
            "über weniger andere als ein Mitglied allein; alle bis auf eines wissen, "
            "{last_gave}. Masken helfen dann nicht.",
            (OFFICER + "test_all_but_one_know_what_the_last_one_gave",),
        ),
        {
            "en": "Members pool what they saw",
            "de": "Mitglieder legen ihr Wissen zusammen",
        },
        "access",
        _collusion,
        _of_the_last,
    ),
    PlanRisk(
        Sentence(
            "risk.collusion_lost",
            lambda facts: facts.may_lose,
            "{beyond} or more of the {n} pool what they saw, and know sums over fewer "
            "others than one member does; all but one know {last_gave}. When only "
            "{fewest} are left, {fewest_others} are enough for that. Masks do not "
            "help then.",
            "{beyond} oder mehr der {n} tun zusammen, was sie sahen, und kennen Summen "
            "über weniger andere als ein Mitglied allein; alle bis auf eines wissen, "
            "{last_gave}. Sind nur {fewest} übrig, genügen dafür {fewest_others}. "
            "Masken helfen dann nicht.",
            (
                OFFICER + "test_all_but_one_know_what_the_last_one_gave",
                OFFICER + "test_after_a_loss_two_of_three_know_what_the_third_gave",
            ),
        ),
        {
            "en": "Members pool what they saw",
            "de": "Mitglieder legen ihr Wissen zusammen",
        },
        "access",
        _collusion,
        _of_the_last,
    ),
    PlanRisk(
        Sentence(
            "risk.site",
            lambda facts: facts.site_terms,
            "Whether a level or a column is one member's only, the program does not "
            "know, and nobody checks: the grade takes it that it is.",
            "Ob eine Ausprägung oder Spalte nur einem Mitglied gehört, weiß das "
            "Programm nicht, und niemand prüft es: die Stufe nimmt an, dass es so ist.",
            (OFFICER + "test_a_site_term_gives_one_member_s_sums_to_all",),
        ),
        {"en": "One member's sums are known", "de": "Summen eines Mitglieds bekannt"},
        "access",
        _fixed(4),
        _fixed(2),
    ),
    PlanRisk(
        Sentence(
            "risk.person",
            lambda facts: facts.on_tables and not _switched_off(facts),
            "A sum, with what somebody knows from elsewhere, points at one person. "
            "Rules at each member refuse small cells and columns that point at few "
            "rows; they do not see what somebody knows.",
            "Eine Summe zeigt zusammen mit dem, was jemand aus anderer Quelle weiß, "
            "auf eine Person. Regeln bei jedem Mitglied lehnen kleine Zellen ab und "
            "Spalten, die auf wenige Zeilen zeigen; was jemand weiß, sehen sie nicht.",
            (
                RULES + "test_a_level_with_few_rows_is_refused",
                RULES + "test_a_bump_around_one_person_is_refused",
            ),
        ),
        {"en": "A person is recognised", "de": "Eine Person wird erkannt"},
        "access",
        lambda facts: 3 if facts.site_terms else 2 if facts.relaxed else 1,
        _person,
    ),
    PlanRisk(
        Sentence(
            "risk.one",
            lambda facts: bool(_switched_off(facts)) and not _few_people(facts),
            "Not checked in this plan: {off}. So a sum may be that of few people, or "
            "nearly that of a single one.",
            "In diesem Plan nicht geprüft: {off}. Eine Summe kann daher die weniger "
            "Personen sein, oder fast die einer einzelnen.",
            (RULES + "test_without_the_rules_a_bump_tells_what_one_person_earns",),
        ),
        {"en": "A person is recognised", "de": "Eine Person wird erkannt"},
        "access",
        _fixed(3),
        _person,
    ),
    PlanRisk(
        Sentence(
            "risk.counted",
            _few_people,
            "Not checked in this plan: {off}. So a count may be of as few as {holders} "
            "people, one of each of {holders} members: that each of these has one such "
            "person is then known, and whoever knows the people there may know whom.",
            "In diesem Plan nicht geprüft: {off}. Eine Anzahl kann daher nur {holders} "
            "Personen umfassen, je eine von {holders} Mitgliedern: dass jedes davon "
            "genau eine solche Person hat, ist dann bekannt, und wer die Personen dort "
            "kennt, weiß womöglich, welche.",
            (OFFICER + "test_without_the_rule_three_people_are_shown",),
        ),
        {"en": "A person is recognised", "de": "Eine Person wird erkannt"},
        "access",
        _fixed(3),
        _person,
    ),
    PlanRisk(
        Sentence(
            "risk.difference",
            always,
            "The sums of two runs over nearly the same rows or members differ by one "
            "person's or one member's. A ledger refuses such a run if its member took "
            "part in both; what it did not see, or has deleted, it cannot refuse.",
            "Die Summen zweier Läufe über fast dieselben Zeilen oder Mitglieder "
            "unterscheiden sich um die einer Person oder eines Mitglieds. Ein "
            "Nutzungsbuch lehnt einen solchen Lauf ab, wenn sein Mitglied an "
            "beiden teilnimmt; was es nicht sah oder was gelöscht ist, kann es nicht "
            "ablehnen.",
            (
                LEDGER + "test_the_differencing_pair_is_refused",
                "tests/questions/test_budgets.py::"
                "test_one_persons_row_cannot_be_asked_for_by_asking_twice",
            ),
        ),
        {"en": "Runs are compared", "de": "Läufe werden verglichen"},
        "access",
        _fixed(2),
        _person,
    ),
    PlanRisk(
        Sentence(
            "risk.theft",
            always,
            "Stolen, or controlled by somebody else: that member's own data are in "
            "their hands then, and of the others what that member learns.",
            "Gestohlen oder von jemand anderem beherrscht: die eigenen Daten dieses "
            "Mitglieds sind dann in fremder Hand, und von den anderen, was dieses "
            "Mitglied erfährt.",
            (
                "tests/net/test_passphrase.py::"
                "test_the_file_is_encrypted_and_nothing_of_it_opens_without",
                SECRETS + "test_only_neighbours_are_told_shares",
            ),
        ),
        {
            "en": "A member's computer is taken",
            "de": "Rechner eines Mitglieds in fremder Hand",
        },
        "access",
        _fixed(2),
        _person,
    ),
    PlanRisk(
        Sentence(
            "risk.lie",
            always,
            "A member gives false numbers, and nobody can see it. Two signed "
            "statements that contradict each other are kept as proof.",
            "Ein Mitglied gibt falsche Zahlen, und niemand kann das sehen. Zwei "
            "signierte Aussagen, die sich widersprechen, werden als Beweis "
            "aufbewahrt.",
            (
                "tests/drivers/test_liars.py::test_two_masked_vectors_are_proven",
                "tests/net/test_lying_member.py::"
                "test_a_run_that_ends_because_of_a_liar_leaves_a_proof_behind",
            ),
        ),
        {"en": "The answer is wrong", "de": "Die Antwort ist falsch"},
        "change",
        _fixed(2),
        _fixed(2),
    ),
    PlanRisk(
        Sentence(
            "risk.absent",
            lambda facts: not facts.drop and facts.ended is None,
            "A member is absent, or stops the run. Rows stay where they are.",
            "Ein Mitglied fehlt oder bricht den Lauf ab. Zeilen bleiben, wo sie sind.",
            (
                "tests/net/test_runs.py::"
                "test_who_never_comes_is_named_with_the_state_of_its_link",
                "tests/drivers/test_liars.py::"
                "test_a_notice_of_loss_changes_nothing_where_nobody_may_be_lost",
            ),
        ),
        {"en": "There is no answer", "de": "Es gibt keine Antwort"},
        "loss",
        _fixed(3),
        _fixed(1),
    ),
    PlanRisk(
        Sentence(
            "risk.later",
            lambda facts: facts.may_lose,
            "A member is gone after a sum is known, or fewer than {fewest} are left. "
            "Less likely than where every absence ends a run. Rows stay where they "
            "are.",
            "Ein Mitglied fällt aus, nachdem eine Summe bekannt ist, oder weniger als "
            "{fewest} bleiben. Seltener als dort, wo jedes Fehlen einen Lauf beendet. "
            "Zeilen bleiben, wo sie sind.",
            (
                "tests/protocol/test_dropout.py::"
                "test_nobody_is_dropped_once_a_sum_is_known",
                OFFICER + "test_as_few_may_be_left_as_is_said",
            ),
        ),
        {"en": "There is no answer", "de": "Es gibt keine Antwort"},
        "loss",
        _fixed(2),
        _fixed(1),
    ),
    PlanRisk(
        Sentence(
            "risk.fewer",
            lambda facts: facts.may_lose,
            "Members are absent, refuse or are gone before a sum is known: each member "
            "may then know sums over {fewest_others} others and not {others}, and "
            "{fewest_others} who pool know {last_gave}.",
            "Mitglieder fehlen, lehnen ab oder fallen aus, bevor eine Summe bekannt "
            "ist: jedes kennt dann womöglich Summen über {fewest_others} andere und "
            "nicht {others}, und {fewest_others} gemeinsam wissen, {last_gave}.",
            (
                OFFICER + "test_as_few_may_be_left_as_is_said",
                OFFICER + "test_after_a_loss_two_of_three_know_what_the_third_gave",
                "tests/net/test_runs.py::"
                "test_the_others_go_on_without_one_where_the_policy_says_so",
            ),
        ),
        {"en": "Sums are over fewer", "de": "Summen über weniger Mitglieder"},
        "access",
        _fixed(3),
        _of_the_last,
    ),
    PlanRisk(
        Sentence(
            "risk.gone",
            lambda facts: facts.ended is not None,
            "A member loses its files of the run. Every other member that took part "
            "has the same answer, and a receipt of its own.",
            "Ein Mitglied verliert seine Dateien des Laufs. Jedes andere, das "
            "teilnahm, hat dieselbe Antwort und eine eigene Quittung.",
            (
                "tests/party/test_taking_part.py::"
                "test_four_parties_of_one_process_come_to_one_answer",
            ),
        ),
        {"en": "The result is lost", "de": "Das Ergebnis geht verloren"},
        "loss",
        _fixed(1),
        _fixed(1),
    ),
)
EVERY_SENTENCE: tuple[Sentence, ...] = (
    *CATALOGUE,
    *EXPLAINED_WORDS,
    *(one.told for one in RISKS),
)
