"""Everything that is said to a data-protection officer: one catalogue, two languages.

A sentence has a condition over the facts of a plan, and is said of a plan for which the
condition holds and of no other. It names the tests that show it true; a test walks the
catalogue and finds them. Numbers and names stand in braces and are filled in from the
facts: nothing of a table is among these.

What is said of risks is a proposal by fixed rules, and says so: what a column means for
the people in it is not in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import floor, log10
from typing import Literal, TypeAlias

from veilsum.net.identity import grouped
from veilsum.parties.consent import quoted
from veilsum.parties.own_rules import exact
from veilsum.report.plan_facts import PlanFacts

Language: TypeAlias = Literal["en", "de"]
LANGUAGES: tuple[Language, ...] = ("en", "de")
Condition: TypeAlias = Callable[[PlanFacts], bool]

SIGNS = str.maketrans(",.", ".,")
# A list inside a sentence; of more names so many are said, and how many there are.
MOST_NAMES = 30


GUESSERS: tuple[Mapping[Language, str], Mapping[Language, str]] = (
    {"en": "one member", "de": "ein Mitglied"},
    {"en": "up to {} members together", "de": "bis zu {} Mitglieder gemeinsam"},
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


def _names(names: tuple[str, ...], language: Language, *, texts: bool = False) -> str:
    shown = [quoted(one) if texts else one for one in names[:MOST_NAMES]]
    more = len(names) - len(shown)
    rest = {"en": f" and {more} more", "de": f" und {more} weitere"}[language]
    return ", ".join(shown) + (rest if more else "")


@lru_cache(8)  # every sentence about a plan asks for them
def values(facts: PlanFacts, language: Language) -> Mapping[str, str]:
    """Return what stands for each word in braces."""
    n, ended = len(facts.summed), facts.ended
    sizes = range(2, facts.tolerate + 1)
    over = {
        "en": "{} together: over the {} others",
        "de": "{} gemeinsam: über die {} anderen",
    }
    weaker = {"en": "{} = {} (usual: {})", "de": "{} = {} (üblich: {})"}
    shown = [over[language].format(k, n - k) for k in sizes]
    chances = {
        "en": "fewer than {} % of cases while the distance is below {}",
        "de": "weniger als {} % der Fälle, solange der Abstand unter {} liegt",
    }
    found = {
        "title": quoted(facts.title),
        "n": n,
        "all": len(facts.parties),
        "parties": _names(facts.summed, language),
        "others": n - 1,
        "tolerate": facts.tolerate,
        "guessers": GUESSERS[facts.tolerate > 1][language].format(facts.tolerate),
        "rest": n - facts.tolerate,
        "sizes": "; ".join(shown[:8] + shown[8:][-1:]),
        "beyond": facts.tolerate + 1,
        "fewest": facts.fewest,
        "fewest_others": facts.fewest_others,
        "minimum_honest": facts.minimum_honest,
        "links": facts.links,
        "organiser": facts.organiser,
        "columns": _names(facts.columns, language, texts=True),
        "n_columns": len(facts.columns),
        "most_numbers": facts.most_numbers,
        "most_sums": facts.most_sums,
        "n_questions": len(facts.questions),
        "groups": _names(facts.groups, language),
        "holders": facts.holders,
        "relays": facts.relays,
        "epsilon": "" if facts.epsilon is None else number(facts.epsilon, language, 3),
        "chances": "; ".join(
            chances[language].format(round(100 * chance), rounded_down(far, language))
            for chance, far in facts.distances
        ),
        "relaxed": "; ".join(
            weaker[language].format(name, exact(value), exact(usual))
            for name, (value, usual) in facts.relaxed.items()
        ),
        "digest": grouped(bytes.fromhex(facts.digest)) if facts.digest else "",
        "consent": ", ".join(one.consent for one in facts.questions),
        "run": facts.run,
        "lost": _names(() if ended is None else ended.lost, language),
        "party": "" if ended is None else ended.party,
        "finished": "" if ended is None else ended.finished[:19].replace("T", " "),
        "failed": "; ".join(() if ended is None else ended.failed),
        **{f"rule_{name}": exact(value) for name, value in facts.rules.items()},
    }
    return {name: str(value) for name, value in found.items()}


def said(facts: PlanFacts, part: str) -> Iterator[Sentence]:
    """Yield what is said of a plan in one place, in order."""
    return (one for one in CATALOGUE if one.part == part and one.when(facts))


def risks(facts: PlanFacts) -> Iterator[PlanRisk]:
    """Yield what may happen all the same."""
    return (one for one in RISKS if one.told.when(facts))


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


CONSENT = "tests/parties/test_consent.py::"
OFFICER = "tests/report/test_officer.py::"
SECRETS = "tests/net/test_secrets_on_the_network.py::"
RULES = "tests/tables/test_rules.py::"
LEDGER = "tests/files/test_ledger.py::"
PRESENCE = "tests/jobs/test_presence.py::"
RELAY = "tests/attacks/test_evil_relay.py::"
DROP = "tests/attacks/test_file_drop.py::"
VIEWS = "tests/audit/test_noninterference.py::"

CATALOGUE: tuple[Sentence, ...] = (
    # What is planned
    Sentence(
        "purpose.title",
        lambda facts: bool(facts.title),
        "Title, in the words of whoever wrote the file: {title}.",
        "Titel, in den Worten dessen, der die Datei geschrieben hat: {title}.",
        (
            CONSENT + "test_a_level_forges_no_line",
            OFFICER + "test_facts_are_the_file_s",
        ),
    ),
    Sentence(
        "purpose.cost",
        _in("cost"),
        "Asked for is the minimum of the sum of all members' own costs.",
        "Gefragt ist nach dem Minimum der Summe der eigenen Kosten aller Mitglieder.",
        (
            "tests/jobs/test_solve.py::"
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
            "tests/jobs/test_sites.py::test_a_run_under_masks_is_the_fit_of_all_rows",
            CONSENT + "test_the_page_names_question_columns_levels_tables_and_bins",
        ),
    ),
    Sentence(
        "purpose.statistics",
        _in("statistics"),
        "Asked for are counts, averages or tables of the rows of all members together.",
        "Gefragt ist nach Anzahlen, Mittelwerten oder Tabellen der Zeilen aller "
        "Mitglieder zusammen.",
        ("tests/jobs/test_statistics.py::test_moments_are_those_of_the_pooled_rows",),
    ),
    Sentence(
        "purpose.survival",
        _in("survival"),
        "Asked for are survival curves of the rows of all members together.",
        "Gefragt ist nach Überlebenskurven der Zeilen aller Mitglieder zusammen.",
        ("tests/jobs/test_survival.py::test_machines_find_the_same_as_arrays",),
    ),
    Sentence(
        "purpose.cox",
        _in("cox"),
        "Asked for is one regression of hazards (Cox) over the rows of all members.",
        "Gefragt ist nach einer Regression der Hazardraten (Cox) über die Zeilen aller "
        "Mitglieder.",
        (
            "tests/jobs/test_cox.py::"
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
        ("tests/jobs/test_sites.py::test_a_run_under_masks_is_the_fit_of_all_rows",),
    ),
    Sentence(
        "purpose.meta",
        _in("meta"),
        "Asked for is one coefficient, which each member fits to its own rows, pooled "
        "over all members.",
        "Gefragt ist nach einem Koeffizienten, den jedes Mitglied an seinen eigenen "
        "Zeilen bestimmt, zusammengefasst über alle Mitglieder.",
        ("tests/jobs/test_sites.py::test_pooled_estimates_are_those_of_formulas",),
    ),
    Sentence(
        "purpose.evaluate",
        _in("evaluate"),
        "Asked for is how well predictions fit the rows of all members.",
        "Gefragt ist, wie gut Vorhersagen zu den Zeilen aller Mitglieder passen.",
        ("tests/jobs/test_evaluate.py::test_a_fit_to_the_same_rows_is_calibrated",),
    ),
    Sentence(
        "purpose.dispatch",
        _in("dispatch"),
        "Asked for is the price at which the supply of all members meets their demand.",
        "Gefragt ist nach dem Preis, zu dem das Angebot aller Mitglieder ihre "
        "Nachfrage deckt.",
        (
            "tests/jobs/test_dispatch_job.py::"
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
        "Die Summen gehen über {n} Mitglieder: {parties}.",
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
        "purpose.leaves",
        lambda facts: not facts.iterates,
        "What leaves a member are numbers under masks, which cancel in the sum over "
        "all members. Only such sums become known (sums at most: {most_sums}; numbers "
        "in them at most: {most_numbers}).",
        "Was ein Mitglied verlässt, sind Zahlen unter Masken, die sich in der Summe "
        "über alle Mitglieder aufheben. Bekannt werden nur solche Summen (Summen "
        "höchstens: {most_sums}; Zahlen darin höchstens: {most_numbers}).",
        (
            SECRETS + "test_deposits_are_masked_numbers_only",
            CONSENT + "test_a_run_shows_nothing_that_is_not_on_the_page",
        ),
    ),
    Sentence(
        "purpose.iterates",
        lambda facts: facts.iterates,
        "What leaves a member is computed from its masked cost alone: messages to its "
        "neighbours, round after round, until all have the minimum. The sum of all "
        "masked coefficients is taken to be known ({most_numbers} numbers).",
        "Was ein Mitglied verlässt, ist allein aus seinen maskierten Kosten "
        "berechnet: Nachrichten an seine Nachbarn, Runde um Runde, bis alle das "
        "Minimum haben. Die Summe aller maskierten Koeffizienten gilt als bekannt "
        "({most_numbers} Zahlen).",
        (VIEWS + "test_masked_costs_are_all_that_a_method_shows",),
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
        "{finished} UTC laut der Quittung, die {party} unterschrieben hat.",
        (
            OFFICER + "test_a_finished_run_is_told_by_its_receipt",
            "tests/net/test_receipt.py::test_no_change_of_any_field_goes_unnoticed",
        ),
    ),
    Sentence(
        "purpose.lost",
        lambda facts: facts.ended is not None and bool(facts.ended.lost),
        "Lost on the way, before any sum was shown: {lost}. Nothing of them is in the "
        "sums.",
        "Unterwegs verloren, bevor eine Summe gezeigt wurde: {lost}. Von ihnen ist "
        "nichts in den Summen.",
        (
            "tests/jobs/test_who_is_left.py::test_books_and_promises_are_of_those_who_are_left",
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
        "Site terms are allowed: columns and levels may tell one member from the "
        "others, so sums over the rows of one member alone may become known to all.",
        "Standortmerkmale sind erlaubt: Spalten und Ausprägungen dürfen ein Mitglied "
        "von den anderen unterscheiden; Summen über die Zeilen eines einzelnen "
        "Mitglieds können daher allen bekannt werden.",
        (
            PRESENCE + "test_the_same_question_runs_where_site_terms_are_allowed",
            CONSENT + "test_site_terms_are_shouted",
        ),
    ),
    Sentence(
        "alarm.weaker",
        lambda facts: bool(facts.relaxed),
        "Weaker than usual: {relaxed}. Whoever wrote the file chose this; ask why.",
        "Schwächer als üblich: {relaxed}. Das hat gewählt, wer die Datei geschrieben "
        "hat; fragen Sie nach dem Grund.",
        (CONSENT + "test_what_is_weaker_than_usual_is_said_first",),
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
        "Nothing is promised against members: in this plan none of them may be curious "
        "(tolerate = 0).",
        "Gegenüber Mitgliedern wird nichts zugesichert: in diesem Plan darf keines von "
        "ihnen neugierig sein (tolerate = 0).",
        (
            "tests/net/test_runs.py::"
            "test_they_complete_where_nobody_is_said_to_be_curious",
        ),
    ),
    # Who learns what: a member
    Sentence(
        "member+.sums",
        always,
        "every sum of this plan, exactly, and what follows from it",
        "jede Summe dieses Plans, exakt, und was aus ihr folgt",
        (CONSENT + "test_a_run_shows_nothing_that_is_not_on_the_page",),
    ),
    Sentence(
        "member+.others",
        always,
        "the same sums over the {others} others: it takes off what it gave itself",
        "dieselben Summen über die {others} anderen: es zieht ab, was es selbst gab",
        (OFFICER + "test_a_member_knows_the_sums_over_the_others",),
    ),
    Sentence(
        "member+.lost",
        lambda facts: facts.may_lose,
        "if members are lost before anything is shown: the sums over those who are "
        "left, who are {fewest} or more; over {fewest_others} others at least",
        "falls Mitglieder verloren gehen, bevor etwas gezeigt wird: die Summen über "
        "die übrigen, und das sind {fewest} oder mehr; über mindestens "
        "{fewest_others} andere",
        (
            OFFICER + "test_as_few_may_be_left_as_is_said",
            "tests/jobs/test_who_is_left.py::test_books_and_promises_are_of_those_who_are_left",
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
        _off("minimum_count"),
        "counts and totals of a level, a cell or a group in which another member has "
        "a single person",
        "Anzahlen und Summen einer Ausprägung, einer Zelle oder einer Gruppe, in der "
        "ein anderes Mitglied eine einzige Person hat",
        (OFFICER + "test_without_the_rule_a_cell_of_one_person_is_shown",),
    ),
    Sentence(
        "member+.holders",
        lambda facts: bool(facts.holders),
        "how many members have each of the {groups}; if some have it and fewer than "
        "{holders}, the run ends there and nothing else is shown",
        "wie viele Mitglieder jeweils etwas haben von: {groups}; haben es einige und "
        "weniger als {holders}, endet der Lauf dort, und sonst wird nichts gezeigt",
        (
            PRESENCE + "test_a_question_about_one_site_ends_after_the_first_sum",
            PRESENCE + "test_the_counts_are_those_of_parties",
        ),
    ),
    Sentence(
        "member+.presence",
        always,
        "who takes part, is absent, refuses or is lost, and when",
        "wer teilnimmt, fehlt, ablehnt oder verloren geht, und wann",
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
        "which of the others holds which row: dealt in any other way that their rules "
        "admit, the rows would have looked the same to it, timing apart",
        "welches der anderen welche Zeile hat: anders verteilt, soweit ihre Regeln es "
        "zulassen, hätten die Zeilen für es gleich ausgesehen, vom Zeitverlauf "
        "abgesehen",
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
        "which of the others holds which row: dealt in any other way that their rules "
        "admit and that leaves the counts of members as they are, the rows would have "
        "looked the same to it, timing apart",
        "welches der anderen welche Zeile hat: anders verteilt, soweit ihre Regeln es "
        "zulassen und die Anzahlen von Mitgliedern gleich bleiben, hätten die Zeilen "
        "für es gleich ausgesehen, vom Zeitverlauf abgesehen",
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
        "which of the others' whole inputs is whose: two of them exchanged would have "
        "looked the same to it, timing apart. That single rows may have changed hands "
        "is not hidden",
        "welche der ganzen Eingaben der anderen wem gehört: zwei davon vertauscht "
        "hätten für es gleich ausgesehen, vom Zeitverlauf abgesehen. Nicht verborgen "
        "ist, ob einzelne Zeilen den Besitzer gewechselt haben",
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
        "how the sum of masked coefficients divides among the others: divided in any "
        "other way it would have looked the same, timing apart",
        "wie sich die Summe der maskierten Koeffizienten auf die anderen verteilt: "
        "anders verteilt hätte sie gleich ausgesehen, vom Zeitverlauf abgesehen",
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
        "member-.nothing",
        lambda facts: not _curious(facts),
        "(nothing is promised)",
        "(nichts ist zugesichert)",
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
        "beyond+.all",
        always,
        "the same sums over all others, and nothing more is promised; {others} "
        "members together know exactly what the last one gave",
        "dieselben Summen über alle anderen, und mehr ist nicht zugesichert; {others} "
        "Mitglieder gemeinsam wissen genau, was das letzte gab",
        (OFFICER + "test_all_but_one_know_what_the_last_one_gave",),
    ),
    Sentence(
        "beyond-.none",
        always,
        "(nothing is promised)",
        "(nichts ist zugesichert)",
        ("tests/audit/test_guesses.py::test_a_party_alone_is_guessed_for_sure",),
    ),
    # The organiser
    Sentence(
        "organiser+.named",
        lambda facts: bool(facts.organiser),
        "what a member learns, for {organiser} is one, by the file's own word. It "
        "chose the question and the rules, and so what becomes known",
        "was ein Mitglied erfährt, denn {organiser} ist eines, nach eigener Angabe der "
        "Datei. Es wählte Frage und Regeln und damit, was bekannt wird",
        (
            "tests/attacks/test_consent.py::test_nothing_of_the_question_is_hidden",
            OFFICER + "test_facts_are_the_file_s",
        ),
    ),
    Sentence(
        "organiser+.unnamed",
        lambda facts: not facts.organiser,
        "the file does not say who wrote it: a member learns what members learn, "
        "anybody else what members pass on",
        "die Datei sagt nicht, wer sie geschrieben hat: ein Mitglied erfährt, was "
        "Mitglieder erfahren, jeder andere, was Mitglieder weitergeben",
        (
            "tests/parties/test_own_rules.py::"
            "test_only_files_of_known_organisers_are_considered",
            OFFICER + "test_facts_are_the_file_s",
        ),
    ),
    Sentence(
        "organiser-.text",
        always,
        "anything by means of the file's text: it is shown and never carried out; "
        "rules that it weakens are pointed out to everybody",
        "etwas durch den Text der Datei: er wird gezeigt und nie ausgeführt; Regeln, "
        "die er schwächt, werden allen genannt",
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
        "any number, share or member's name: members' encryption runs through it, and "
        "it is told pseudonyms",
        "Zahlen, Anteile und Namen von Mitgliedern: deren Verschlüsselung geht durch "
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
        "any number or share: letters are sealed to one member of one run",
        "Zahlen und Anteile: Briefe sind für ein Mitglied eines Laufs versiegelt",
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
        "any number or share: every link is encrypted with TLS 1.3, with members' "
        "certificates at both ends",
        "Zahlen und Anteile: jede Verbindung ist mit TLS 1.3 verschlüsselt, mit "
        "Zertifikaten der Mitglieder an beiden Enden",
        (
            SECRETS + "test_no_byte_on_the_wire_is_a_share_or_a_coefficient",
            "tests/net/test_trust.py::test_older_protocols_are_refused",
            "tests/net/test_trust.py::test_a_caller_without_a_certificate_is_refused",
        ),
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
            "tests/parties/test_replay.py::test_what_a_run_has_left_follows_from_its_sums",
            "tests/net/test_receipt.py::"
            "test_a_stranger_can_check_the_signature_from_the_file_alone",
        ),
    ),
    Sentence(
        "reader-.secrets",
        always,
        "what one member gave: results and receipts hold no member's own number, and "
        "receipts no sum",
        "was ein einzelnes Mitglied gab: Ergebnisse und Quittungen enthalten keine "
        "eigene Zahl eines Mitglieds, und Quittungen keine Summe",
        (SECRETS + "test_results_and_receipts_hold_no_secret_and_files_are_ones_own",),
    ),
    # The number
    Sentence(
        "number.zero",
        lambda facts: _curious(facts) and facts.sums_only,
        "Whoever guesses from what was seen ({guessers}) which of two divisions with "
        "the same sums is the true one is right in 50 % of cases: as often as by "
        "tossing a coin (epsilon = 0).",
        "Wer aus dem Gesehenen rät ({guessers}), welche von zwei Aufteilungen mit "
        "gleichen Summen die wahre ist, liegt in 50 % der Fälle richtig: so oft wie "
        "beim Münzwurf (epsilon = 0).",
        (
            VIEWS + "test_equal_sums_of_every_piece_are_not_told_apart",
            "tests/privacy/test_uniform_views.py::*",
        ),
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
        "themselves tell, which are exact, and it is not that of differential privacy.",
        "Die Zahl gilt nur den Masken. Sie sagt nichts darüber, was die Summen selbst "
        "verraten, denn diese sind exakt, und sie ist nicht die der differenziellen "
        "Privatheit.",
        (VIEWS + "test_one_row_that_is_another_is_seen",),
    ),
    # What is checked
    Sentence(
        "check.refuse",
        lambda facts: facts.on_tables,
        "Every member checks its own table before anything is sent. One that does not "
        "pass takes no part; the others learn that it refused, and not why.",
        "Jedes Mitglied prüft seine eigene Tabelle, bevor etwas gesendet wird. Wer "
        "nicht besteht, nimmt nicht teil; die anderen erfahren, dass es ablehnte, und "
        "nicht warum.",
        (
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
        "A table has {rule_minimum_rows} rows or more (minimum_rows).",
        "Eine Tabelle hat mindestens {rule_minimum_rows} Zeilen (minimum_rows).",
        (
            CONSENT + "test_every_rule_has_words_and_a_stricter_side",
            "tests/tables/test_schema.py::*",
        ),
    ),
    Sentence(
        "check.minimum_count",
        _kept("minimum_count"),
        "Every level, cell, bin and 0/1 value that a table has any rows in has "
        "{rule_minimum_count} or more of them (minimum_count).",
        "Jede Ausprägung, jede Zelle, jedes Intervall und jeder 0/1-Wert, von dem eine "
        "Tabelle Zeilen hat, hat mindestens {rule_minimum_count} davon "
        "(minimum_count).",
        (
            RULES + "test_a_level_with_few_rows_is_refused",
            RULES + "test_statistics_keep_the_same_rules",
        ),
    ),
    Sentence(
        "check.effective_count",
        _kept("effective_count"),
        "No column and no part of a formula rests on fewer than {rule_effective_count} "
        "rows of a table (effective_count).",
        "Keine Spalte und kein Teil einer Formel beruht auf weniger als "
        "{rule_effective_count} Zeilen einer Tabelle (effective_count).",
        (RULES + "test_a_bump_around_one_person_is_refused",),
    ),
    Sentence(
        "check.maximum_leverage",
        _kept("maximum_leverage"),
        "No row has more than {rule_maximum_leverage} of the weight of a coefficient "
        "within its own table (maximum_leverage).",
        "Keine Zeile hat mehr als {rule_maximum_leverage} vom Gewicht eines "
        "Koeffizienten in ihrer eigenen Tabelle (maximum_leverage).",
        (RULES + "test_no_combination_of_columns_is_the_indicator_of_a_row",),
    ),
    Sentence(
        "check.dominance",
        _kept("dominance"),
        "The two largest values of a column stay below {rule_dominance} of its sum "
        "within a table (dominance).",
        "Die beiden größten Werte einer Spalte bleiben unter {rule_dominance} ihrer "
        "Summe in einer Tabelle (dominance).",
        (RULES + "test_dominance_is_that_of_the_two_largest",),
    ),
    Sentence(
        "check.release_fraction",
        _kept("release_fraction"),
        "The numbers that become known are fewer than {rule_release_fraction} times "
        "those that the tables hold (release_fraction).",
        "Es werden weniger Zahlen bekannt als das {rule_release_fraction}-Fache derer, "
        "die in den Tabellen stehen (release_fraction).",
        (
            "tests/jobs/test_presence.py::"
            "test_numbers_of_the_first_sum_count_against_the_limit",
            CONSENT
            + "test_what_is_shown_at_most_adds_up_from_the_rounds_that_are_listed",
        ),
    ),
    Sentence(
        "check.holders",
        lambda facts: bool(facts.holders),
        "A first sum counts the members that have each level, cell, bin or value. "
        "Where some have it and fewer than {holders}, the run ends.",
        "Eine erste Summe zählt die Mitglieder, die jede Ausprägung, jede Zelle, jedes "
        "Intervall oder jeden Wert haben. Haben ihn einige und weniger als {holders}, "
        "endet der Lauf.",
        (PRESENCE + "test_a_level_has_no_holder_or_two_beyond_those_who_collude",),
    ),
    Sentence(
        "check.site",
        lambda facts: facts.on_tables and not facts.site_terms,
        "A column that is the same in all rows of a table is refused there, unless it "
        "can have two values only (site_terms = false).",
        "Eine Spalte, die in allen Zeilen einer Tabelle gleich ist, wird dort "
        "abgelehnt, außer sie kann nur zwei Werte haben (site_terms = false).",
        (
            RULES + "test_what_tells_a_party_from_others_is_refused",
            RULES + "test_two_values_by_agreement_may_be_one_at_a_party",
        ),
    ),
    Sentence(
        "check.ledger",
        always,
        "Every member's own ledger counts what its data were used for, and is asked "
        "before anything masked leaves.",
        "Das eigene Kontobuch jedes Mitglieds zählt, wofür seine Daten benutzt wurden, "
        "und wird befragt, bevor etwas Maskiertes hinausgeht.",
        (
            "tests/drivers/test_masked_sums.py::"
            "test_the_books_are_kept_before_anything_is_shown",
            "tests/net/test_runs.py::"
            "test_a_budget_that_forbids_stops_before_anything_masked_leaves",
        ),
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
        "NICHT geprüft: ob eine Verbindung von Spalten auf eine einzelne Zeile zeigt "
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
        "Die Summen selbst, und was aus ihnen folgt zusammen mit dem, was jemand von "
        "anderswo weiß.",
        (VIEWS + "test_one_row_that_is_another_is_seen",),
    ),
    Sentence(
        "open.everybody",
        lambda facts: facts.on_tables,
        "What holds for every row, or for nearly all: a total shows it of each person.",
        "Was für jede Zeile gilt, oder für fast alle: eine Summe zeigt es von jeder "
        "Person.",
        (OFFICER + "test_a_total_shows_what_holds_for_every_row",),
    ),
    Sentence(
        "open.few",
        lambda facts: facts.on_tables and bool(facts.holders),
        "A combination that no first sum counts and that few members have: its total "
        "is theirs, or that of one of them.",
        "Eine Kombination, die keine erste Summe zählt und die wenige Mitglieder "
        "haben: ihre Summe ist deren eigene, oder die eines einzigen.",
        (OFFICER + "test_what_no_first_sum_counts_may_be_one_member_s",),
    ),
    Sentence(
        "open.few_uncounted",
        lambda facts: facts.on_tables and not facts.holders,
        "A level, a value or a combination that few members have: its total is theirs, "
        "or that of one of them, for no sum counts who has it.",
        "Eine Ausprägung, ein Wert oder eine Kombination, die wenige Mitglieder "
        "haben: ihre Summe ist deren eigene, oder die eines einzigen, denn keine "
        "Summe zählt, wer sie hat.",
        (OFFICER + "test_a_site_term_gives_one_member_s_sums_to_all",),
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
        "Who is lost, and by that who is left in the sums.",
        "Wer verloren geht, und damit, wer in den Summen übrig ist.",
        (VIEWS + "test_who_is_lost_takes_a_total_along",),
    ),
    Sentence(
        "open.next",
        always,
        "The next question: every run adds to what is known about the same data. Each "
        "member's own ledger keeps count of its own runs, and of nobody else's.",
        "Die nächste Frage: jeder Lauf fügt dem etwas hinzu, was über dieselben Daten "
        "bekannt ist. Das eigene Kontobuch jedes Mitglieds zählt dessen eigene Läufe "
        "und sonst keine.",
        (
            "tests/jobs/test_budgets.py::test_three_sets_are_looked_at_together",
            LEDGER + "test_the_differencing_pair_is_refused",
        ),
    ),
    Sentence(
        "open.liars",
        always,
        "Against members who do not keep to the protocol or give false numbers: what "
        "is said here is about those who do keep to it.",
        "Gegen Mitglieder, die sich nicht an das Protokoll halten oder falsche Zahlen "
        "geben: was hier steht, gilt für solche, die sich daran halten.",
        (
            "tests/drivers/test_liars.py::"
            "test_other_numbers_in_a_round_end_without_blaming_anybody",
        ),
    ),
    Sentence(
        "open.computers",
        always,
        "A computer that somebody else controls, timing, and what members do with what "
        "they have learned.",
        "Ein Rechner, den jemand anders beherrscht, der Zeitverlauf, und was "
        "Mitglieder mit dem tun, was sie erfahren haben.",
        (
            "tests/attacks/test_files_at_home.py::*",
            VIEWS + "test_a_party_that_tells_of_itself_by_a_frame_or_in_time_is_found",
        ),
    ),
    # Retention, erasure, keys
    Sentence(
        "keep.shares",
        always,
        "Masks: erased from each member's disk when the run is over or given up.",
        "Masken: auf der Platte jedes Mitglieds gelöscht, sobald der Lauf beendet oder "
        "aufgegeben ist.",
        (
            SECRETS + "test_nothing_secret_is_left_in_the_state",
            "tests/net/test_store.py::test_no_byte_of_what_was_wiped_is_left",
        ),
    ),
    Sentence(
        "keep.files",
        always,
        "Kept by each member, in files that only their owner may read: the page agreed "
        "to, result, sums, receipt, ledger. The plan sets no period after which they "
        "are deleted; the controllers do.",
        "Von jedem Mitglied aufbewahrt, in Dateien, die nur ihr Besitzer lesen darf: "
        "die Seite, der zugestimmt wurde, Ergebnis, Summen, Quittung, Kontobuch. Der "
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
        "The ledger knows rows and columns again by keyed fingerprints; it holds no "
        "value of a table.",
        "Das Kontobuch erkennt Zeilen und Spalten an geschlüsselten Fingerabdrücken "
        "wieder; es enthält keinen Wert einer Tabelle.",
        (
            LEDGER + "test_a_fingerprint_is_not_a_plain_hash_of_the_value",
            LEDGER + "test_a_refusal_is_recorded_without_the_value_that_it_is_about",
        ),
    ),
    Sentence(
        "keep.transcript",
        always,
        "A transcript of the run is kept only by a member that asks for one "
        "(--transcript), encrypted with its key; others do not know of it.",
        "Ein Mitschnitt des Laufs wird nur von einem Mitglied aufbewahrt, das ihn "
        "verlangt (--transcript), verschlüsselt mit dessen Schlüssel; andere wissen "
        "nichts davon.",
        (
            "tests/cli/test_join.py::test_a_transcript_is_kept_for_its_owner",
            "tests/attacks/test_transcript_file.py::test_nothing_of_it_is_in_the_file",
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
        "A table from which a few people were deleted differs from the former one by "
        "these people: a ledger refuses it until it differs in {rule_minimum_rows} "
        "rows or more.",
        "Eine Tabelle, aus der wenige Personen gelöscht wurden, unterscheidet sich von "
        "der früheren um eben diese: ein Kontobuch lehnt sie ab, bis sie sich in "
        "mindestens {rule_minimum_rows} Zeilen unterscheidet.",
        (
            LEDGER + "test_a_table_that_differs_in_few_rows_from_a_used_one_is_refused",
            LEDGER + "test_a_table_with_enough_new_rows_or_never_used_is_taken",
        ),
    ),
    Sentence(
        "keep.keys",
        always,
        "Keys: each member's private key is in a file that only its owner may read, "
        "with a passphrase if wanted; others have its certificate. A stolen one is "
        "replaced by an amended file that every member signs.",
        "Schlüssel: der private Schlüssel jedes Mitglieds liegt in einer Datei, die "
        "nur ihr Besitzer lesen darf, auf Wunsch mit Kennwort; die anderen haben sein "
        "Zertifikat. Ein gestohlener wird durch eine geänderte Datei ersetzt, die "
        "jedes Mitglied unterschreibt.",
        (
            "tests/net/test_identity.py::test_only_its_owner_may_read_a_key",
            "tests/net/test_passphrase.py::"
            "test_the_file_is_encrypted_and_nothing_of_it_opens_without",
            "tests/net/test_amendment.py::"
            "test_a_stolen_key_is_replaced_and_the_screen_says_that_it_did_not_agree",
        ),
    ),
    # How to verify
    Sentence(
        "verify.digest",
        lambda facts: facts.drawn,
        "All members hold the same file if its digest is the same: {digest}. Programs "
        "compare it before anything is sent; people compare it by telephone.",
        "Alle Mitglieder haben dieselbe Datei, wenn deren Prüfsumme gleich ist: "
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
        "veilsum consortium show FILE shows the page that members agree to, with every "
        "number that becomes known; receipts carry its SHA-256: {consent}.",
        "veilsum consortium show DATEI zeigt die Seite, der Mitglieder zustimmen, mit "
        "jeder Zahl, die bekannt wird; Quittungen tragen deren SHA-256: {consent}.",
        (
            CONSENT + "test_a_run_shows_nothing_that_is_not_on_the_page",
            "tests/net/test_receipt.py::test_one_who_agreed_to_another_page_is_caught",
        ),
    ),
    Sentence(
        "verify.check",
        lambda facts: not _cost(facts),
        "veilsum check FILE --data TABLE says at home whether a table passes, and "
        "sends nothing.",
        "veilsum check DATEI --data TABELLE sagt am eigenen Rechner, ob eine Tabelle "
        "besteht, und sendet nichts.",
        ("tests/cli/test_check.py::test_a_table_that_passes_passes_every_rule",),
    ),
    Sentence(
        "verify.check_cost",
        _cost,
        "veilsum check FILE --cost COST says at home whether a cost passes, and sends "
        "nothing.",
        "veilsum check DATEI --cost KOSTEN sagt am eigenen Rechner, ob Kosten "
        "bestehen, und sendet nichts.",
        (OFFICER + "test_a_cost_is_checked_at_home",),
    ),
    Sentence(
        "verify.audit",
        always,
        "veilsum audit FILE attacks the plan with made-up data and shows attacks that "
        "must succeed beside those that must not.",
        "veilsum audit DATEI greift den Plan mit erfundenen Daten an und zeigt "
        "Angriffe, die gelingen müssen, neben denen, die es nicht dürfen.",
        ("tests/audit/test_every_file.py::*", "tests/audit/test_planted.py::*"),
    ),
    Sentence(
        "verify.receipts",
        always,
        "veilsum verify RECEIPTS --consortium FILE checks after a run what all members "
        "signed, against each other and against the file.",
        "veilsum verify QUITTUNGEN --consortium DATEI prüft nach einem Lauf, was alle "
        "Mitglieder unterschrieben haben, gegeneinander und gegen die Datei.",
        (
            "tests/cli/test_verify.py::test_receipts_of_a_good_run_hold",
            "tests/cli/test_verify.py::test_one_changed_digit_is_found",
        ),
    ),
    # What is for the officer
    Sentence(
        "judge.personal",
        always,
        "Whether these data, or totals of them, are personal data is for you to judge. "
        "The program does not know what columns mean, and this annex does not call the "
        "results anonymous.",
        "Ob diese Daten oder Summen davon personenbezogen sind, beurteilen Sie. Das "
        "Programm weiß nicht, was Spalten bedeuten, und dieser Anhang nennt die "
        "Ergebnisse nicht anonym.",
        (OFFICER + "test_nothing_is_called_private_or_anonymous",),
    ),
    Sentence(
        "judge.law",
        always,
        "Legal basis, necessity, information of the people concerned, their rights, "
        "processors, transfers and periods are not in a plan, and are left open here.",
        "Rechtsgrundlage, Erforderlichkeit, Information der Betroffenen, deren Rechte, "
        "Auftragsverarbeiter, Übermittlungen und Fristen stehen nicht in einem Plan "
        "und bleiben hier offen.",
        (OFFICER + "test_what_no_plan_says_is_left_open",),
    ),
    Sentence(
        "judge.levels",
        always,
        "Levels of risk are proposals that follow from the plan by fixed rules; "
        "severity depends on what the columns mean, and is yours to decide.",
        "Risikostufen sind Vorschläge, die nach festen Regeln aus dem Plan folgen; die "
        "Schwere hängt davon ab, was die Spalten bedeuten, und ist Ihre Entscheidung.",
        (OFFICER + "test_levels_follow_from_the_plan",),
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
        "This annex was made from the agreed file and one receipt: no table was "
        "opened, and no value of anybody is in it.",
        "Dieser Anhang entstand allein aus der vereinbarten Datei und einer Quittung: "
        "keine Tabelle wurde geöffnet, und kein Wert von irgendjemandem steht darin.",
        ("tests/attacks/test_the_annex.py::test_no_value_of_anybody_is_in_any_form",),
    ),
    Sentence(
        "judge.plan_alone",
        lambda facts: facts.ended is None,
        "This annex was made from the plan alone: no table was opened, and no value of "
        "anybody is in it.",
        "Dieser Anhang entstand allein aus dem Plan: keine Tabelle wurde geöffnet, und "
        "kein Wert von irgendjemandem steht darin.",
        ("tests/attacks/test_the_annex.py::test_no_value_of_anybody_is_in_any_form",),
    ),
)


def _fixed(level: int) -> Callable[[PlanFacts], int]:
    """Return the same level for every plan."""
    return lambda _: level


def _person(facts: PlanFacts) -> int:
    """Return how grave it is when one row is known: a person's, or a member's own."""
    return 2 if facts.single or not facts.on_tables else 3


def _collusion(facts: PlanFacts) -> int:
    """Return how likely more members pool what they saw than is allowed for."""
    return {0: 4, 1: 2}.get(facts.tolerate, 1)


RISKS: tuple[PlanRisk, ...] = (
    PlanRisk(
        Sentence(
            "risk.collusion",
            always,
            "Members pool what they saw, {beyond} or more of the {n}, and learn sums "
            "of fewer others than is said above. Masks do not help then.",
            "Mitglieder legen zusammen, was sie sahen, {beyond} oder mehr der {n}, "
            "und erfahren Summen von weniger anderen, als oben steht. Masken helfen "
            "dann nicht.",
            (OFFICER + "test_all_but_one_know_what_the_last_one_gave",),
        ),
        {"en": "Members collude", "de": "Mitglieder legen Wissen zusammen"},
        "access",
        _collusion,
        _fixed(2),
    ),
    PlanRisk(
        Sentence(
            "risk.site",
            lambda facts: facts.site_terms,
            "The plan allows it, and nobody checks it.",
            "Der Plan erlaubt es, und niemand prüft es.",
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
            lambda facts: facts.on_tables and not (set(facts.off) - {"site_terms"}),
            "A sum, with what somebody knows from elsewhere, points at one person. "
            "Rules at each member refuse small cells and columns that point at few "
            "rows; they do not see what somebody knows.",
            "Eine Summe zeigt zusammen mit dem, was jemand von anderswo weiß, auf "
            "eine Person. Regeln bei jedem Mitglied lehnen kleine Zellen ab und "
            "Spalten, die auf wenige Zeilen zeigen; was jemand weiß, sehen sie nicht.",
            (
                RULES + "test_a_level_with_few_rows_is_refused",
                RULES + "test_a_bump_around_one_person_is_refused",
            ),
        ),
        {"en": "A person is recognised", "de": "Eine Person wird erkannt"},
        "access",
        lambda facts: 2 if facts.relaxed else 1,
        _person,
    ),
    PlanRisk(
        Sentence(
            "risk.cell",
            lambda facts: bool(set(facts.off) - {"site_terms"}),
            "Rules that would refuse small cells, or columns that point at single "
            "rows, are switched off in this plan: a sum may rest on one person of a "
            "member.",
            "Regeln, die kleine Zellen ablehnten oder Spalten, die auf einzelne "
            "Zeilen zeigen, sind in diesem Plan abgeschaltet: eine Summe kann auf "
            "einer einzigen Person eines Mitglieds beruhen.",
            (
                OFFICER + "test_without_the_rule_a_cell_of_one_person_is_shown",
                RULES + "test_without_the_rules_a_bump_tells_what_one_person_earns",
            ),
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
            "This run's sums less those of another one over nearly the same rows or "
            "members may be one person's or one member's. Each member's ledger "
            "refuses that for its own runs.",
            "Die Summen dieses Laufs abzüglich derer eines anderen über fast "
            "dieselben Zeilen oder Mitglieder können die einer Person oder eines "
            "Mitglieds sein. Das Kontobuch jedes Mitglieds lehnt das für dessen "
            "eigene Läufe ab.",
            (
                LEDGER + "test_the_differencing_pair_is_refused",
                "tests/jobs/test_budgets.py::"
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
            "Gestohlen oder von jemand anderem beherrscht: dessen eigene Daten sind "
            "dann in fremder Hand, und von den anderen, was dieses Mitglied erfährt.",
            (
                "tests/net/test_passphrase.py::"
                "test_the_file_is_encrypted_and_nothing_of_it_opens_without",
                SECRETS + "test_only_neighbours_are_told_shares",
            ),
        ),
        {
            "en": "A member's computer is taken",
            "de": "Rechner eines Mitglieds gekapert",
        },
        "access",
        _fixed(2),
        _person,
    ),
    PlanRisk(
        Sentence(
            "risk.lie",
            always,
            "A member gives false numbers, and nobody can see it. Two signed words "
            "that contradict each other are kept as proof.",
            "Ein Mitglied gibt falsche Zahlen, und niemand kann das sehen. Zwei "
            "unterschriebene Aussagen, die sich widersprechen, werden als Beweis "
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
            "A member is absent. Rows stay where they are.",
            "Ein Mitglied fehlt. Zeilen bleiben, wo sie sind.",
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
            "risk.fewer",
            lambda facts: facts.may_lose,
            "Members are lost: {fewest} at least are left, else there is no answer. "
            "Rows stay where they are.",
            "Mitglieder gehen verloren: mindestens {fewest} bleiben, sonst gibt es "
            "keine Antwort. Zeilen bleiben, wo sie sind.",
            (
                OFFICER + "test_as_few_may_be_left_as_is_said",
                "tests/net/test_runs.py::"
                "test_the_others_go_on_without_one_where_the_policy_says_so",
            ),
        ),
        {"en": "Sums are over fewer", "de": "Summen gehen über weniger"},
        "loss",
        _fixed(2),
        _fixed(1),
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
                "tests/parties/test_taking_part.py::"
                "test_four_parties_of_one_process_come_to_one_answer",
            ),
        ),
        {"en": "The result is lost", "de": "Das Ergebnis geht verloren"},
        "loss",
        _fixed(1),
        _fixed(1),
    ),
)
EVERY_SENTENCE: tuple[Sentence, ...] = (*CATALOGUE, *(one.told for one in RISKS))
