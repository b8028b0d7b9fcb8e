"""What is said to a data-protection officer of a survey, whose guests give the data.

Members add up what others gave: so hardly anything that is said of members' own tables
is true here. These sentences stand in the same places as those of `sentences`, and are
made and tied to tests in the same way. Those of the other catalogue that hold for
surveys, too, are listed by name; no other one is said of a survey, and none of these of
anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from veilsum.report.plan_facts import PlanFacts, SurveyFacts
from veilsum.report.sentences import (
    CATALOGUE,
    EXPLAINED_WORDS,
    RISKS,
    Condition,
    PlanRisk,
    Sentence,
)

# True of every run of members, whatever they add up.
COMMON = frozenset(
    {
        "purpose.title",
        "purpose.ended",
        "alarm.failed",
        "alarm.nobody",
        "alarm.ask_named",
        "alarm.ask",
        "organiser+.named",
        "organiser+.unnamed",
        "organiser-.text",
        "relay+.traffic",
        "relay-.numbers",
        "carrier+.letters",
        "carrier-.numbers",
        "listener+.traffic",
        "authors+.nothing",
        "authors-.all",
        "reader+.result",
        "number.sums",
        "open.sums",
        "open.computers",
        "keep.shares",
        "keep.erasure",
        "keep.keys",
        "keep.letters",
        "verify.digest",
        "verify.page",
        "verify.audit",
        "verify.receipts",
        "verify.annex",
        "judge.personal",
        "judge.law",
        "judge.levels",
        "judge.stop",
        "judge.young",
        "judge.plan_alone",
        "judge.receipt_alone",
        "word.plan",
        "word.mask",
        "word.receipt",
        "word.digest",
        "word.certificate",
    }
)


def said(facts: PlanFacts, part: str) -> Iterator[Sentence]:
    """Yield what is said of a plan in one place, in order."""
    return (one for one in _of(facts) if one.part == part and one.when(facts))


def risks(facts: PlanFacts) -> Iterator[PlanRisk]:
    """Yield what may happen all the same."""
    chosen = RISKS if facts.survey is None else SURVEY_RISKS
    return (one for one in chosen if one.told.when(facts))


def explained_words(facts: PlanFacts) -> Iterator[Sentence]:
    """Yield words that an officer need not know; each is explained where it occurs."""
    if facts.survey is None:
        yield from EXPLAINED_WORDS
    else:
        yield from (one for one in EXPLAINED_WORDS if one.key in COMMON)
        yield from SURVEY_WORDS


def _of(facts: PlanFacts) -> Iterator[Sentence]:
    if facts.survey is None:
        yield from CATALOGUE
        return
    # What is said of surveys alone comes first where both say something.
    yield from SURVEY_CATALOGUE
    yield from (one for one in CATALOGUE if one.key in COMMON)


def _survey(holds: Callable[[SurveyFacts], bool] | None = None) -> Condition:
    """Hold for surveys of which something holds."""

    def when(facts: PlanFacts) -> bool:
        return facts.survey is not None and (holds is None or holds(facts.survey))

    return when


def _curious(facts: PlanFacts) -> bool:
    return facts.survey is not None and facts.tolerate >= 1


def _some_more(facts: PlanFacts) -> bool:
    """Say whether more members may collude than is tolerated, and one is left."""
    return facts.survey is not None and facts.tolerate + 1 < len(facts.parties)


def _weaker(name: str) -> Condition:
    return lambda facts: facts.survey is not None and name in facts.relaxed


GUESTS = "tests/attacks/test_guests.py::"
SEES = "tests/survey/test_what_a_coalition_sees.py::"
AUDITED = "tests/audit/test_surveys.py::"
JOB = "tests/questions/test_survey.py::"
DELEGATE = "tests/survey/test_delegate.py::"
RUNS = "tests/net/test_survey_runs.py::"
HOST = "tests/web/test_collecting.py::"
FILE = "tests/attacks/test_the_survey_file.py::"
PAGE = "tests/web/test_guest_page.py::"
ANNEX = "tests/report/test_officer_surveys.py::"

SURVEY_CATALOGUE: tuple[Sentence, ...] = (
    # What is planned
    Sentence(
        "purpose.survey",
        _survey(),
        "Asked for are totals of a table that guests fill, each in one visit to a page "
        "in a browser: {survey_title}, {survey_rows} rows and {survey_columns} "
        "columns; a number is a whole number of {survey_unit}, from {survey_low} to "
        "{survey_high}.",
        "Gefragt sind Summen einer Tabelle, die Gäste ausfüllen, jeder bei einem "
        "Besuch auf einer Seite im Browser: {survey_title}, {survey_rows} Zeilen und "
        "{survey_columns} Spalten; jede Zahl ist ein ganzes Vielfaches von "
        "{survey_unit}, von {survey_low} bis {survey_high}.",
        (ANNEX + "test_facts_are_the_survey_s",),
    ),
    Sentence(
        "purpose.guests",
        _survey(),
        "The data are the guests': {invited} are invited, each by a member that "
        "vouches for it ({invited_by}). Whether a guest is a person, or gives numbers "
        "about people, the plan does not say.",
        "Die Daten kommen von den Gästen: {invited} sind eingeladen, jeder von einem "
        "Mitglied, das für ihn einsteht ({invited_by}). Ob ein Gast eine Person ist "
        "oder Zahlen über Personen gibt, sagt der Plan nicht.",
        (ANNEX + "test_facts_are_the_survey_s",),
    ),
    Sentence(
        "purpose.delegates",
        _survey(),
        "{n} members add them up: {parties}. None of their own data is in it. One of "
        "them, the host, serves the page and keeps what guests send.",
        "{n} Mitglieder zählen sie zusammen: {parties}. Von ihren eigenen Daten ist "
        "nichts dabei. Eines davon, der Gastgeber, stellt die Seite bereit und bewahrt "
        "auf, was Gäste senden.",
        (
            ANNEX + "test_facts_are_the_survey_s",
            HOST + "test_a_submission_is_taken_once_and_answered_alike",
        ),
    ),
    Sentence(
        "purpose.visit",
        _survey(),
        "A guest's page splits every number into {n} random shares and a masked rest, "
        "seals each share to one member, and sends all of it to the host. Each member "
        "adds up its shares of all guests; these sums are added up under masks, and "
        "what becomes known are totals of cells that enough guests filled "
        "({most_totals} at most). Which cells a guest filled travels open, signed.",
        "Die Seite eines Gastes zerlegt jede Zahl in {n} zufällige Anteile und einen "
        "maskierten Rest, versiegelt jeden Anteil für ein Mitglied und sendet alles an "
        "den Gastgeber. Jedes Mitglied zählt seine Anteile aller Gäste zusammen; diese "
        "Summen werden unter Masken zusammengezählt, und bekannt werden Summen der "
        "Zellen, die genügend Gäste ausfüllten (höchstens {most_totals}). Welche "
        "Zellen ein Gast ausfüllte, geht offen und signiert mit.",
        (
            SEES + "test_every_share_is_all_that_was_drawn_for_it",
            PAGE + "test_nothing_readable_leaves_the_browser",
            RUNS + "test_totals_are_exact_proved_and_leave_no_key",
        ),
    ),
    Sentence(
        "purpose.open_survey",
        _survey(lambda survey: not survey.closed),
        "The survey is open. When the host closes it, a second file names the "
        "submissions that are added; have this annex made again from that file.",
        "Die Erhebung ist offen. Schließt der Gastgeber sie, nennt eine zweite Datei "
        "die Einsendungen, die zusammengezählt werden; lassen Sie diesen Anhang aus "
        "ihr neu erstellen.",
        (DELEGATE + "test_an_open_survey_is_not_added_up",),
    ),
    Sentence(
        "purpose.closed_survey",
        _survey(lambda survey: survey.closed),
        "The survey is closed: which submissions are added is settled, and the file "
        "names them by their digest.",
        "Die Erhebung ist geschlossen: welche Einsendungen zusammengezählt werden, "
        "steht fest, und die Datei nennt sie durch ihre Prüfsumme.",
        ("tests/survey/test_survey_set.py::test_a_closed_file_names_one_set",),
    ),
    # Weaker than usual
    Sentence(
        "alarm.weak_survey_honest",
        _weaker("minimum_honest"),
        "Weaker than usual: minimum_honest = {weak_minimum_honest} (usual: "
        "{usual_minimum_honest}): a guest is hidden by as few as "
        "{weak_minimum_honest} others.",
        "Schwächer als üblich: minimum_honest = {weak_minimum_honest} (üblich: "
        "{usual_minimum_honest}): ein Gast ist unter nur {weak_minimum_honest} anderen "
        "verborgen.",
        (RUNS + "test_a_survey_weaker_than_usual_needs_a_person_or_a_floor",),
    ),
    Sentence(
        "alarm.weak_minimum_guests",
        _weaker("minimum_guests"),
        "Weaker than usual: minimum_guests = {weak_minimum_guests} (usual: "
        "{usual_minimum_guests}): totals of cells become known that as few as "
        "{weak_minimum_guests} guests filled.",
        "Schwächer als üblich: minimum_guests = {weak_minimum_guests} (üblich: "
        "{usual_minimum_guests}): bekannt werden Summen von Zellen, die nur "
        "{weak_minimum_guests} Gäste ausfüllten.",
        (RUNS + "test_a_survey_weaker_than_usual_needs_a_person_or_a_floor",),
    ),
    # Who learns what
    Sentence(
        "guest+.page",
        _survey(),
        "who the members are and who else is invited, by name, as everybody who opens "
        "the page; the totals, once the host shows them, and so the totals over the "
        "other guests: it takes off what it gave itself",
        "wer die Mitglieder sind und wer sonst eingeladen ist, mit Namen, wie jeder, "
        "der die Seite öffnet; die Summen, sobald der Gastgeber sie zeigt, und damit "
        "die Summen über die anderen Gäste: was er selbst gab, zieht er ab",
        (HOST + "test_a_guest_has_the_page_its_files_and_the_survey",),
    ),
    Sentence(
        "guest-.others",
        _survey(),
        "what another guest gave, which cells it filled, and whether it came",
        "was ein anderer Gast gab, welche Zellen er ausfüllte, und ob er kam",
        (
            "tests/attacks/test_who_has_come.py::"
            "test_a_stranger_learns_neither_whose_a_digest_is_nor_who_has_come",
            "tests/attacks/test_who_has_come.py::"
            "test_nobody_but_a_member_signs_itself_in_and_once_only",
        ),
    ),
    Sentence(
        "host+.came",
        _survey(),
        "what each member learns; and who came, when, and from which address",
        "was jedes Mitglied erfährt; dazu, wer kam, wann und von welcher Adresse",
        (HOST + "test_how_many_have_come_is_for_the_host_alone",),
    ),
    Sentence(
        "host-.numbers",
        _survey(),
        "any guest's number: what it keeps is masked and sealed, and it opens one "
        "share of each number, as every member",
        "die Zahl irgendeines Gastes: was er aufbewahrt, ist maskiert und versiegelt, "
        "und er öffnet einen Anteil jeder Zahl, wie jedes Mitglied",
        (
            SEES + "test_a_coalition_sees_the_same_in_both_worlds",
            AUDITED + "test_a_sound_program_gives_nothing_away",
        ),
    ),
    Sentence(
        "member+.totals",
        _survey(),
        "the totals, exactly, and what follows from them; who took part",
        "die Summen, genau, und was daraus folgt; wer teilnahm",
        (RUNS + "test_totals_are_exact_proved_and_leave_no_key",),
    ),
    Sentence(
        "member+.filled",
        _survey(),
        "which cells each guest filled, and which it left empty",
        "welche Zellen jeder Gast ausfüllte und welche er leer ließ",
        (SEES + "test_which_cells_are_filled_is_seen",),
    ),
    Sentence(
        "member-.guest",
        _survey(),
        "what one guest gave: its shares are random numbers",
        "was ein einzelner Gast gab: seine Anteile sind Zufallszahlen",
        (AUDITED + "test_a_sound_program_gives_nothing_away",),
    ),
    Sentence(
        "coalition+.fewer",
        _curious,
        "the host among them or not, with the guests that they invited, and further "
        "guests (as many as tolerate_guests says: {tolerate_guests}): the same totals "
        "over all other guests ({left_tolerated} at worst, {left_of}). Every cell "
        "whose total is asked for was filled by {needed} of these at least",
        "der Gastgeber darunter oder nicht, mit den Gästen, die sie einluden, und "
        "weiteren Gästen (so vielen, wie tolerate_guests sagt: {tolerate_guests}): "
        "dieselben Summen über alle anderen Gäste (schlimmstenfalls {left_tolerated}, "
        "{left_of}). "
        "Jede Zelle, deren Summe gefragt wird, füllten mindestens {needed} davon aus",
        (
            GUESTS + "test_guests_count_as_those_of_the_member_that_invited_them",
            JOB + "test_guests_of_a_coalition_do_not_uncover_the_one_other_in_a_cell",
        ),
    ),
    Sentence(
        "coalition-.divided",
        _curious,
        "what one of these guests gave: had their numbers been divided among them "
        "differently, with the same totals and the same cells filled, they would have "
        "seen the same (timing apart, and unless they break the encryption of shares)",
        "was einer dieser Gäste gab: wären deren Zahlen anders auf sie verteilt, bei "
        "gleichen Summen und gleichen ausgefüllten Zellen, hätten sie dasselbe gesehen "
        "(vom zeitlichen Ablauf abgesehen, und solange sie die Verschlüsselung der "
        "Anteile nicht brechen)",
        (
            SEES + "test_a_coalition_sees_the_same_in_both_worlds",
            JOB + "test_other_numbers_with_the_same_totals_look_the_same",
            AUDITED + "test_frames_of_two_worlds_are_the_same",
        ),
    ),
    Sentence(
        "beyond+.fewer",
        _some_more,
        "if they are not all: the same totals, over the guests that none of them "
        "invited. {others} of {n} leave {left_most} at worst, {left_of}; that these "
        "are enough nobody checks, and of one alone they know every released number",
        "wenn es nicht alle sind: dieselben Summen, über die Gäste, die keines von "
        "ihnen einlud. {others} von {n} lassen schlimmstenfalls {left_most} übrig, "
        "{left_of}; dass das genügend sind, prüft niemand, und von einem einzigen "
        "wissen sie jede gezeigte Zahl",
        (
            GUESTS + "test_among_invented_guests_one_is_alone",
            AUDITED + "test_guests_of_the_coalition_are_not_attacked",
        ),
    ),
    Sentence(
        "beyond-.unchecked",
        _some_more,
        "(how many guests are left is checked against {tolerate} of them only)",
        "(wie viele Gäste übrig bleiben, wird nur gegen {tolerate} davon geprüft)",
        (DELEGATE + "test_the_worst_coalition_is_found_without_trying_all",),
    ),
    Sentence(
        "everybody+.all",
        _survey(),
        "{n} of {n} together: every number of every guest",
        "{n} von {n} gemeinsam: jede Zahl jedes Gastes",
        (AUDITED + "test_all_delegates_together_open_everything",),
    ),
    Sentence(
        "everybody-.nothing",
        _survey(),
        "(nothing protects from all of them: guests rely on one that does not take "
        "part in it, whichever that is)",
        "(vor allen gemeinsam schützt nichts: Gäste verlassen sich auf eines, das "
        "dabei nicht mitmacht, gleich welches)",
        (AUDITED + "test_all_delegates_together_open_everything",),
    ),
    Sentence(
        "listener-.sealed",
        _survey(),
        "numbers: a guest's are masked and sealed before they leave its browser, and "
        "members' links are encrypted with TLS 1.3, with certificates at both ends",
        "Zahlen: die eines Gastes sind maskiert und versiegelt, bevor sie seinen "
        "Browser verlassen, und Verbindungen der Mitglieder sind mit TLS 1.3 "
        "verschlüsselt, mit Zertifikaten an beiden Enden",
        (
            PAGE + "test_nothing_readable_leaves_the_browser",
            "tests/net/test_trust.py::test_members_talk_and_know_each_other",
        ),
    ),
    Sentence(
        "staff+.survey",
        _survey(),
        "what that member has and learns, and its key of this survey, which opens one "
        "share of every number; at the host they can change the page",
        "was dieses Mitglied hat und erfährt, und seinen Schlüssel dieser Erhebung, "
        "der einen Anteil jeder Zahl öffnet; beim Gastgeber können sie die "
        "Seite ändern",
        (
            DELEGATE + "test_the_store_is_its_owners_only",
            PAGE + "test_a_changed_script_does_not_run",
        ),
    ),
    Sentence(
        "staff-.survey",
        _survey(),
        "a guest's number from that: one share of it is random",
        "die Zahl eines Gastes daraus: ein Anteil davon ist zufällig",
        (AUDITED + "test_a_sound_program_gives_nothing_away",),
    ),
    Sentence(
        "reader-.guest",
        _survey(),
        "what one guest gave: results and receipts hold no guest's own number",
        "was ein Gast gab: Ergebnisse und Quittungen enthalten keine Zahl eines "
        "einzelnen Gastes",
        (RUNS + "test_totals_are_exact_proved_and_leave_no_key",),
    ),
    # The number
    Sentence(
        "number.survey",
        _curious,
        "Somebody ({guessers}, the host among them or not, with the guests they "
        "invited) is told two ways in which numbers could be divided among the other "
        "guests, with the same totals and the same cells filled, and guesses from "
        "everything seen which one is true. The guess is right in at most 50 % of "
        "cases: as often as by tossing a coin.",
        "Jemand ({guessers}, der Gastgeber darunter oder nicht, mit den Gästen, die "
        "sie einluden) bekommt zwei Möglichkeiten genannt, wie Zahlen auf die anderen "
        "Gäste verteilt sein könnten, mit denselben Summen und denselben ausgefüllten "
        "Zellen, und rät aus allem, was zu sehen war, welche stimmt. Das gelingt in "
        "höchstens 50 % der Fälle: so oft wie beim Münzwurf.",
        (
            AUDITED + "test_a_sound_program_gives_nothing_away",
            AUDITED + "test_frames_of_two_worlds_are_the_same",
        ),
    ),
    Sentence(
        "number.all_members",
        _survey(),
        "All {n} members together are always right (100 %).",
        "Alle {n} Mitglieder gemeinsam raten immer richtig (100 %).",
        (AUDITED + "test_all_delegates_together_open_everything",),
    ),
    Sentence(
        "number.seals",
        _survey(),
        "This rests on the encryption under which shares lie at the host (HPKE: "
        "X25519, HKDF-SHA256, AES-256-GCM): whoever stores them and breaks it one day "
        "can read them.",
        "Das beruht auf der Verschlüsselung, unter der die Anteile beim Gastgeber "
        "liegen (HPKE: X25519, HKDF-SHA256, AES-256-GCM): wer sie aufhebt und die "
        "Verschlüsselung eines Tages bricht, kann sie lesen.",
        ("tests/survey/test_vectors.py::*",),
    ),
    # What is checked
    Sentence(
        "check.survey_set",
        _survey(),
        "Before anything is added every member's program checks that each submission "
        "is signed by an invited guest, is there once, and opens; and that all members "
        "hold the same file. It adds up one set of submissions of a survey, ever.",
        "Bevor etwas zusammengezählt wird, prüft das Programm jedes Mitglieds, dass "
        "jede Einsendung von einem eingeladenen Gast signiert ist, einmal vorkommt und "
        "sich öffnen lässt, und dass alle Mitglieder dieselbe Datei haben. Von einer "
        "Erhebung zählt es nur eine Auswahl von Einsendungen zusammen, für immer.",
        (
            GUESTS + "test_a_second_set_is_refused",
            RUNS + "test_a_delegate_with_another_set_ends_it_in_words",
            DELEGATE + "test_a_share_that_does_not_open_binds_nobody",
        ),
    ),
    Sentence(
        "check.survey_guests",
        _survey(),
        "Whoever colludes, up to {tolerate} of the members and as many guests as "
        "tolerate_guests says ({tolerate_guests}): of the guests whom other members "
        "invited, {needed} or more must remain (minimum_honest = {survey_honest}); "
        "otherwise nothing is added.",
        "Wer auch zusammenwirkt, bis zu {tolerate} der Mitglieder und so viele Gäste, "
        "wie tolerate_guests sagt ({tolerate_guests}): von den Gästen, die andere "
        "Mitglieder einluden, müssen {needed} oder mehr bleiben (minimum_honest = "
        "{survey_honest}); sonst wird nichts zusammengezählt.",
        (
            GUESTS + "test_guests_count_as_those_of_the_member_that_invited_them",
            RUNS + "test_a_set_too_small_is_refused_at_home",
        ),
    ),
    Sentence(
        "check.survey_cells",
        _survey(),
        "A cell's total is asked for only if {minimum_guests} guests filled it "
        "(minimum_guests; usual: {usual_minimum_guests}), and if {needed} of these are "
        "left in the same way. A guest counts once in a cell, by what it signed; every "
        "member counts again.",
        "Nach der Summe einer Zelle wird nur gefragt, wenn {minimum_guests} Gäste sie "
        "ausfüllten (minimum_guests; üblich: {usual_minimum_guests}) und von diesen "
        "auf dieselbe Weise {needed} bleiben. Ein Gast zählt in einer Zelle einmal, "
        "nach dem, was er signierte; jedes Mitglied zählt nach.",
        (
            JOB + "test_guests_of_a_coalition_do_not_uncover_the_one_other_in_a_cell",
            GUESTS + "test_a_guest_counts_once_whatever_it_sends",
            GUESTS + "test_counts_are_made_again_from_what_guests_signed",
        ),
    ),
    Sentence(
        "check.survey_earlier",
        _survey(),
        "Members refuse a survey whose guests, held beside those of all earlier ones "
        "they added up, differ by so few that these could be told. Guests are known by "
        "their names alone.",
        "Mitglieder lehnen eine Erhebung ab, deren Gäste sich von denen aller "
        "früheren, die sie zusammenzählten, um so wenige unterscheiden, dass auf diese "
        "zu schließen wäre. Gäste werden nur an ihren Namen erkannt.",
        (
            GUESTS + "test_a_survey_that_differs_by_few_from_an_earlier_one_is_refused",
            GUESTS + "test_what_follows_from_all_surveys_together_is_refused",
        ),
    ),
    Sentence(
        "check.survey_keys",
        _survey(),
        "Whoever writes the file could put a key of its own in a member's place, and "
        "open that member's shares. Each member's program finds that out about itself "
        "before guests are invited, if that member runs it.",
        "Wer die Datei schreibt, könnte an die Stelle eines Mitglieds einen eigenen "
        "Schlüssel setzen und dessen Anteile öffnen. Das Programm jedes Mitglieds "
        "stellt das für sich fest, bevor Gäste eingeladen werden, wenn dieses Mitglied "
        "es laufen lässt.",
        (
            FILE + "test_keys_of_the_organisers_in_delegates_places_are_seen",
            FILE + "test_one_key_that_was_changed_is_seen_by_its_member_alone",
        ),
    ),
    Sentence(
        "check.survey_not",
        _survey(),
        "NOT checked: whether a number is true or within the range, for nobody sees "
        "it (the page refuses others, a guest with a page of its own is not bound by "
        "that); and whether one guest makes up most of a total.",
        "NICHT geprüft: ob eine Zahl stimmt oder im Bereich liegt, denn niemand sieht "
        "sie (die Seite lehnt andere ab, ein Gast mit eigener Seite ist daran nicht "
        "gebunden), und ob ein Gast den größten Teil einer Summe ausmacht.",
        (JOB + "test_a_total_beyond_the_range_is_pointed_out",),
    ),
    # What is not protected
    Sentence(
        "open.page",
        _survey(),
        "Whoever serves the page to a guest can change it, and a changed page can send "
        "what is typed anywhere. The page can be had as one file: a guest that "
        "compares its digest with the one in the invitation finds that out. Who "
        "invited a guest could have made both: so the guest asks a second member for "
        "the digest, which is the same for all. Who invited it also made its code, and "
        "can answer in its name. The digest protects no guest whose inviter is "
        "dishonest: rules count guests as their inviter's.",
        "Wer einem Gast die Seite liefert, kann sie ändern, und eine geänderte Seite "
        "kann überallhin senden, was man eintippt. Die Seite gibt es auch als eine "
        "Datei: ein Gast, der ihre Prüfsumme mit der in der Einladung vergleicht, "
        "bemerkt das. Wer einen Gast einlud, könnte beides selbst gemacht haben: darum "
        "fragt der Gast ein zweites Mitglied nach der Prüfsumme, die für alle dieselbe "
        "ist. Wer ihn einlud, hat auch seinen Code gemacht und kann in seinem Namen "
        "antworten. Die Prüfsumme schützt keinen Gast, dessen einladendes Mitglied "
        "unehrlich ist: Gäste zählen als die ihres einladenden Mitglieds.",
        (
            GUESTS + "test_a_page_of_the_inviters_reads_its_guest_and_has_another_hash",
            GUESTS + "test_the_pages_hash_does_not_protect_a_lying_inviters_guest",
            PAGE + "test_one_file_that_was_saved",
            PAGE + "test_a_changed_script_does_not_run",
            HOST
            + "test_the_page_that_was_saved_sends_to_the_host_and_is_what_letters_say",
        ),
    ),
    Sentence(
        "open.filled",
        _survey(),
        "Which cells a guest leaves empty: all members see it, and who the guest is. "
        "The page says so before anything is sent; a guest that will not show it types "
        "0, if that is in the range, and then counts.",
        "Welche Zellen ein Gast leer lässt: alle Mitglieder sehen es, und wer der Gast "
        "ist. Die Seite sagt das, bevor etwas gesendet wird; ein Gast, der es nicht "
        "zeigen will, trägt 0 ein, wenn das im Bereich liegt, und zählt dann mit.",
        (
            SEES + "test_which_cells_are_filled_is_seen",
            PAGE + "test_the_page_promises_what_is_proved_and_no_more",
        ),
    ),
    Sentence(
        "open.guests",
        _survey(),
        "Guests have no ledger: nobody counts what they gave to surveys of others. "
        "They have no rules of their own either, and rely on the members'.",
        "Gäste führen kein Nutzungsbuch: niemand zählt, was sie in Erhebungen anderer "
        "gaben. Sie haben auch keine eigenen Regeln und verlassen sich auf die der "
        "Mitglieder.",
        (RUNS + "test_the_page_says_who_is_in_the_set_and_that_guests_have_no_ledger",),
    ),
    Sentence(
        "open.parts",
        _survey(),
        "What follows from one cell about another: where one is a part of the other, "
        "and few guests filled only one of them, the difference speaks of these few. "
        "And a cell that too few filled follows from released ones, if one of these is "
        "a total. Both are pointed out, not prevented.",
        "Was aus einer Zelle über eine andere folgt: ist die eine ein Teil der anderen "
        "und füllten wenige Gäste nur eine davon aus, sagt die Differenz etwas über "
        "diese wenigen. Und eine Zelle, die zu wenige ausfüllten, folgt aus gezeigten, "
        "wenn eine davon eine Gesamtsumme ist. Auf beides wird hingewiesen, verhindert "
        "wird es nicht.",
        (
            JOB + "test_released_cells_that_nearly_the_same_filled_are_pointed_out",
            GUESTS
            + "test_what_too_few_filled_follows_from_a_total_and_that_is_said_before",
        ),
    ),
    Sentence(
        "open.survey_liars",
        _survey(),
        "Against members who do not keep to the protocol: one of them can change "
        "totals, and nobody notices.",
        "Vor Mitgliedern, die sich nicht an das Verfahren halten: eines davon kann "
        "Summen verändern, ohne dass es jemand bemerkt.",
        (RUNS + "test_no_key_is_left_where_a_member_gave_numbers_of_another_set",),
    ),
    # What is kept
    Sentence(
        "keep.survey_keys",
        _survey(),
        "Shares: the key that opens a member's shares is made for this survey only, "
        "and overwritten when the run is over or given up (veilsum collect erase). "
        "Backups of that disk are not reached. Kept for good: which guests were in "
        "which survey.",
        "Anteile: der Schlüssel, der die Anteile eines Mitglieds öffnet, gehört nur zu "
        "dieser Erhebung und wird überschrieben, wenn der Lauf vorbei oder aufgegeben "
        "ist (veilsum collect erase). Sicherungskopien dieser Platte erreicht das "
        "nicht. Auf Dauer aufbewahrt wird, welche Gäste in welcher Erhebung waren.",
        (
            GUESTS + "test_a_key_is_gone_from_the_disk_after_the_answer",
            FILE + "test_the_key_of_a_survey_that_is_given_up_is_erased",
        ),
    ),
    Sentence(
        "keep.survey_files",
        _survey(),
        "The host keeps all that guests sent, every member what was added, masked and "
        "sealed; and each member the page it approved, result, sums and receipt. No "
        "period is set after which they are deleted; the controllers set it.",
        "Der Gastgeber bewahrt auf, was Gäste sandten, jedes Mitglied, was "
        "zusammengezählt wurde, maskiert und versiegelt; dazu jedes Mitglied die "
        "freigegebene Seite, Ergebnis, Summen und Quittung. Eine Löschfrist ist nicht "
        "vorgesehen; die Verantwortlichen legen sie fest.",
        (
            HOST + "test_a_host_may_start_again_at_every_step",
            HOST + "test_members_fetch_the_closed_survey_and_check_it",
        ),
    ),
    Sentence(
        "keep.withdraw",
        _survey(lambda survey: not survey.closed),
        "A guest can correct its numbers until the survey is closed; the host can "
        "close it without a guest that asks for that (--without).",
        "Bis die Erhebung geschlossen ist, kann ein Gast seine Zahlen berichtigen; auf "
        "Bitte eines Gastes kann der Gastgeber sie ohne ihn schließen (--without).",
        (
            HOST + "test_a_correction_has_the_next_number_and_nothing_else",
            ANNEX + "test_a_survey_is_closed_without_a_guest",
        ),
    ),
    # How to verify it
    Sentence(
        "verify.check_survey",
        _survey(),
        "veilsum check FILE --party NAME --data FOLDER says on a member's own computer "
        "whether its key, its guests and the submissions are as agreed, and sends "
        "nothing.",
        "veilsum check FILE --party NAME --data ORDNER sagt auf dem Rechner eines "
        "Mitglieds, ob sein Schlüssel, seine Gäste und die Einsendungen wie vereinbart "
        "sind, und sendet nichts.",
        (FILE + "test_a_true_file_passes",),
    ),
    Sentence(
        "verify.guest",
        _survey(),
        "A guest asks a member other than the host for the line that its receipt "
        "shows: veilsum collect set CLOSED --guest NAME prints it if the guest's "
        "submission was added. The page with the result lists digests of all that "
        "were added, on the host's word.",
        "Ein Gast fragt ein anderes Mitglied als den Gastgeber nach der Zeile, die "
        "seine Quittung zeigt: veilsum collect set DATEI --guest NAME druckt sie, wenn "
        "seine Einsendung zusammengezählt wurde. Die Seite mit dem Ergebnis nennt die "
        "Prüfsummen aller, die es wurden, nach Angabe des Gastgebers.",
        (
            PAGE + "test_the_receipt_is_a_file",
            "tests/cli/test_collect.py::"
            "test_what_was_added_is_printed_by_a_member_and_closed_once",
            "tests/web/test_a_survey_whole.py::test_a_survey_of_130_firms_is_exact",
        ),
    ),
    # Every sum
    Sentence(
        "sums.totals",
        _survey(),
        "In one round, over all guests of the set: the total of each of the "
        "{survey_cells} cells that enough guests filled ({most_totals} at most).",
        "In einer Runde, über alle Gäste der Auswahl: die Summe jeder der "
        "{survey_cells} Zellen, die genügend Gäste ausfüllten (höchstens "
        "{most_totals}).",
        (JOB + "test_totals_are_those_of_all_guests_to_the_last_unit",),
    ),
    Sentence(
        "sums.filled",
        _survey(),
        "No sum, but in the closed file and the result: how many guests of the set "
        "filled each cell.",
        "Keine Summe, aber in der geschlossenen Datei und im Ergebnis: wie viele Gäste "
        "der Auswahl jede Zelle ausfüllten.",
        (GUESTS + "test_counts_are_made_again_from_what_guests_signed",),
    ),
)


SURVEY_WORDS: tuple[Sentence, ...] = tuple(
    Sentence(f"word.{key}", _survey(), en, de, shown)
    for key, en, de, shown in (
        (
            "guest",
            "guest: somebody who fills the table once, with an invitation, and is no "
            "member.",
            "Gast: wer mit einer Einladung einmal die Tabelle ausfüllt und kein "
            "Mitglied ist.",
            ("tests/survey/test_visiting.py::*",),
        ),
        (
            "share",
            "share: one of the random numbers into which a guest's page splits a "
            "number; only all of them together with the masked rest give it.",
            "Anteil: eine der Zufallszahlen, in die die Seite eines Gastes eine Zahl "
            "zerlegt; erst alle zusammen ergeben sie mit dem maskierten Rest.",
            (SEES + "test_the_coupling_is_one_to_one_and_keeps_the_law",),
        ),
        (
            "submission",
            "submission: what a guest sends, signed with its invitation.",
            "Einsendung: was ein Gast sendet, mit seiner Einladung signiert.",
            ("tests/survey/test_submission.py::test_every_field_is_signed",),
        ),
        (
            "set",
            "set: the submissions that are added, one of each guest.",
            "Auswahl: die Einsendungen, die zusammengezählt werden, eine von jedem "
            "Gast.",
            ("tests/survey/test_survey_set.py::test_a_set_is_what_the_page_describes",),
        ),
    )
)


def _fixed(level: int) -> Callable[[PlanFacts], int]:
    return lambda _: level


def _all_collude(facts: PlanFacts) -> int:
    """Return how likely all members pool what they have."""
    return 2 if len(facts.parties) < 3 else 1


SURVEY_RISKS: tuple[PlanRisk, ...] = (
    PlanRisk(
        Sentence(
            "risk.all_pool",
            _survey(),
            "All {n} members put their keys of this survey together, or somebody takes "
            "all of them, before they are erased: every number of every guest is "
            "known.",
            "Alle {n} Mitglieder legen ihre Schlüssel dieser Erhebung zusammen, oder "
            "jemand bringt alle an sich, bevor sie gelöscht sind: jede Zahl jedes "
            "Gastes ist bekannt.",
            (AUDITED + "test_all_delegates_together_open_everything",),
        ),
        {"en": "All members pool", "de": "Alle Mitglieder wirken zusammen"},
        "access",
        _all_collude,
        _fixed(3),
    ),
    PlanRisk(
        Sentence(
            "risk.few_guests",
            _some_more,
            "{beyond} or more of the {n} pool, and few guests came whom the others "
            "invited: they know totals over these few, at worst one guest's numbers.",
            "{beyond} oder mehr der {n} wirken zusammen, und wenige Gäste kamen, die "
            "die anderen einluden: sie kennen Summen über diese wenigen, "
            "schlimmstenfalls die Zahlen eines Gastes.",
            (GUESTS + "test_among_invented_guests_one_is_alone",),
        ),
        {"en": "Members pool", "de": "Mitglieder wirken zusammen"},
        "access",
        lambda facts: {0: 4, 1: 2}.get(facts.tolerate, 1),
        _fixed(3),
    ),
    PlanRisk(
        Sentence(
            "risk.page",
            _survey(),
            "The host, its administrators, or whoever takes its computer serves a "
            "changed page, and reads what guests type into it. Guests notice only if "
            "they use the saved file and compare its digest with the one that a second "
            "member tells them.",
            "Der Gastgeber, seine Administratoren oder wer dessen Rechner an sich "
            "bringt, liefert eine geänderte Seite und liest, was Gäste dort eintippen. "
            "Gäste bemerken es nur, wenn sie die gespeicherte Datei benutzen und ihre "
            "Prüfsumme mit der vergleichen, die ein zweites Mitglied ihnen nennt.",
            (PAGE + "test_one_file_that_was_saved",),
        ),
        {"en": "The page is changed", "de": "Die Seite wird geändert"},
        "access",
        _fixed(2),
        _fixed(3),
    ),
    PlanRisk(
        Sentence(
            "risk.surveys",
            _survey(),
            "Totals of two surveys differ by few guests. A member that was in both "
            "refuses that, if guests kept their names and it kept its store.",
            "Summen zweier Erhebungen unterscheiden sich um wenige Gäste. Ein "
            "Mitglied, das an beiden beteiligt war, lehnt das ab, wenn Gäste ihre "
            "Namen behielten und es seinen Speicher behielt.",
            (
                GUESTS + "test_two_surveys_that_differ_by_one_guest_show_it",
                GUESTS
                + "test_a_survey_that_differs_by_few_from_an_earlier_one_is_refused",
            ),
        ),
        {"en": "Surveys are compared", "de": "Erhebungen werden verglichen"},
        "access",
        _fixed(2),
        _fixed(3),
    ),
    PlanRisk(
        Sentence(
            "risk.code",
            _survey(),
            "Somebody else has a guest's invitation and answers in its name, or a "
            "guest or member gives false numbers: totals are wrong, and nobody "
            "sees it.",
            "Jemand anderes hat die Einladung eines Gastes und antwortet in dessen "
            "Namen, oder ein Gast oder Mitglied gibt falsche Zahlen: Summen sind "
            "falsch, und niemand sieht es.",
            (
                "tests/survey/test_submission.py::"
                "test_a_signed_submission_of_another_key_is_refused",
                JOB + "test_a_total_beyond_the_range_is_pointed_out",
            ),
        ),
        {"en": "Totals are wrong", "de": "Summen sind falsch"},
        "change",
        _fixed(2),
        _fixed(2),
    ),
    PlanRisk(
        Sentence(
            "risk.delegate",
            lambda facts: facts.survey is not None and facts.ended is None,
            "One member never comes back, or has lost its key: there is no answer, for "
            "each holds a share of every number. Guests would have to be asked anew.",
            "Ein Mitglied kommt nicht wieder oder hat seinen Schlüssel verloren: es "
            "gibt keine Antwort, denn jedes hat einen Anteil jeder Zahl. Die Gäste "
            "wären neu zu befragen.",
            (DELEGATE + "test_to_finish_erases_the_key_of_this_survey_only",),
        ),
        {"en": "There is no answer", "de": "Es gibt keine Antwort"},
        "loss",
        _fixed(2),
        _fixed(1),
    ),
)
EVERY_SURVEY_SENTENCE: tuple[Sentence, ...] = (
    *SURVEY_CATALOGUE,
    *SURVEY_WORDS,
    *(one.told for one in SURVEY_RISKS),
)
