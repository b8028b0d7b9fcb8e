"""An audit of a survey: what it must find, what it must not, and what it says."""

import json
import secrets
import subprocess
from dataclasses import replace
from shutil import which

import numpy as np
import pytest
import tomli_w
from click.testing import CliRunner

from cases import each
from refusals import refused
from surveys import MEMBERS, opened, survey_table
from veilsum.audit import auditing, surveys, visits
from veilsum.audit.auditing import FRAMES, TAPPED
from veilsum.audit.question import AuditRehearsal, SkippedAttack
from veilsum.audit.surveys import (
    OF_THE_SET,
    AuditedSurvey,
    audit_masked_survey_words,
    rehearse_attack_target,
)
from veilsum.audit.visits import (
    ATTACKS,
    PLANTED,
    TWO_WORLDS,
    AuditedVisits,
    browser_chance_of_shares,
    browser_chance_of_visit,
    browser_state_of_visit,
    planted_visit_leaks,
    play,
    seeded_browser_chance,
)
from veilsum.cli.app import app
from veilsum.consortium.consortium import consortium_from
from veilsum.surveys.submission import (
    guest_submission,
    masked_survey_bytes,
    survey_cell_words,
)
from veilsum.surveys.survey_set import survey_set_of, write_submissions
from veilsum.surveys.terms import survey_closing_entries

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

ALL_BUT_ONE = [("ann", "bob"), ("ann", "cem"), ("bob", "cem")]


@pytest.fixture(scope="module")
def made():
    return AuditedVisits.like(opened())


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    path = tmp_path_factory.mktemp("survey") / "open.veil"
    path.write_text(tomli_w.dumps(survey_table()))
    return rehearse_attack_target(path)


def by_name(found):
    return {one.attack: one for one in found}


# Visits


@pytest.mark.parametrize("coalition", [("ann", "bob"), ("cem",)])
def test_a_sound_program_gives_nothing_away(made, coalition):
    found = by_name(play(made, coalition, seed=1, trials=60))
    assert found.keys() == ATTACKS.keys()
    alarms = 1e-6  # of six statements, once in 160,000 seeds
    assert not any(one.exceeds(alarms) for one in found.values())
    assert found["one guest's number"].promised == 0.5
    assert found[TWO_WORLDS].successes == 0
    assert found["sent twice"].successes == 0


def test_every_planted_leak_is_found(made):
    found = {one.name: one for one in planted_visit_leaks(made, seed=3)}
    assert found.keys() == {f"planted: {name}" for name in PLANTED}
    assert all(one.holds for one in found.values())


def test_a_leak_that_is_not_there_is_not_found(made, monkeypatch):
    """The twin of each control: without its leak it does not hold."""
    unplanted = {name: (lambda one: one, by) for name, (_, by) in PLANTED.items()}
    monkeypatch.setattr(visits, "PLANTED", unplanted)
    assert not any(one.holds for one in planted_visit_leaks(made, seed=4))


def test_a_program_with_a_generator_of_its_own_is_found(made, monkeypatch):
    """It draws nothing of what it is given: no share of it can be moved."""

    def made_elsewhere(source, guest, number):
        del source, guest, number
        return secrets.token_bytes

    found = ATTACKS[TWO_WORLDS](
        visits.VisitsAttack(
            visits=replace(made, spoil=made_elsewhere),
            coalition=("ann", "bob"),
            pair=("Firm 1", "Firm 2"),
            seed=1,
            trials=3,
        )
    )
    assert found.successes == 3


def test_worlds_with_other_sums_are_told_apart(made, monkeypatch):
    """The twin of non-interference: one unit more in one total is seen."""
    tables = AuditedVisits.tables

    def uneven(self, chance):
        one, (first, second) = tables(self, chance)
        return one, (first, (second[0] + 1, *second[1:]))

    monkeypatch.setattr(AuditedVisits, "tables", uneven)
    found = by_name(play(made, ("ann", "bob"), seed=1, trials=4))
    assert found[TWO_WORLDS].successes == 4


def test_two_worlds_have_one_sum_and_one_pattern(made):
    one, other = made.tables(np.random.default_rng(1))
    for cell in range(made.terms.n_cells):
        filled = [[table[cell] is None for table in pair] for pair in (one, other)]
        assert filled[0] == filled[1]
        assert sum(t[cell] or 0 for t in one) == sum(t[cell] or 0 for t in other)
    assert one[0] != other[0]
    counts = [x for pair in (one, other) for t in pair for x in t if x is not None]
    assert made.terms.least <= min(counts) <= max(counts) <= made.terms.most


@each("bounds", [(0, 0.01), (-1_000_000, -999_999), (3, 4), (-1e9, 1e9)])
def test_tables_are_made_up_within_any_range(bounds):
    found = AuditedVisits.like(opened(range=bounds))
    assert by_name(play(found, ("bob",), seed=1, trials=5))[TWO_WORLDS].successes == 0


def test_one_number_alone_is_nothing_to_be_told():
    found = AuditedVisits.like(opened(range=[7, 7]))
    (told,) = surveys._play_survey_attack(
        "x", lambda: play(found, ("bob",), seed=1, trials=5)
    )
    assert told == SkippedAttack(
        "x", "every number is the same, and none is to be told"
    )


def test_guests_of_the_coalition_are_not_attacked(made):
    assert made.hidden(("ann", "bob")) == tuple(
        one.name for one in made.terms.guests if one.invited_by == "cem"
    )
    tolerant = replace(made, terms=replace(made.terms, tolerate_guests=3))
    assert len(tolerant.hidden(("ann", "bob"))) == 1
    (told,) = play(tolerant, ("ann", "bob"), seed=1, trials=5)
    assert isinstance(told, SkippedAttack)
    assert "leave 1 guests" in told.why


def test_all_delegates_together_open_everything(made):
    everybody = visits.VisitsAttack(
        visits=made, coalition=MEMBERS, pair=("Firm 1", "Firm 2"), seed=1, trials=20
    )
    assert visits.attack_one_cell(everybody).successes == 20
    assert isinstance(visits.attack_two_guest_worlds(everybody), SkippedAttack)


def test_a_tape_that_is_too_short_is_refused(made):
    with refused("unexpected-draws"):
        made.come("Firm 1", (0,) * 4, browser_chance_of_shares([b"12345678"]))


def test_a_tape_is_the_programs_whole_chance(made):
    """Every share is what was drawn for it, and the rest follows from these."""
    drawn = []

    def recorded(size):
        drawn.append(secrets.token_bytes(size))
        return drawn[-1]

    sent = made.come("Firm 1", (1, 2, 3, None), recorded)
    shares = [made.share(sent, name).tobytes() for name in MEMBERS]
    assert shares == drawn
    whole = survey_cell_words(
        masked_survey_bytes(sent.words, [bytes(8 * len(sent.words))])
    )
    for share in shares:
        whole += survey_cell_words(share)
    assert whole[-4:].tolist() == [1, 2, 3, 0]


# A browser's generator


def batched(halves):
    return zip(halves[::2], halves[1::2], strict=True)


def test_a_browsers_generator_is_that_of_the_published_algorithm():
    """xorshift128+ by its own three lines, beside the one that is planted."""
    a, b = 0x0123456789ABCDEF, 0xFEDCBA9876543210
    source, halves = browser_chance_of_visit(a << 64 | b), []
    for _ in range(6):
        x, y = a, b
        a = y
        x = (x ^ (x << 23)) % 2**64
        b = x ^ y ^ (x >> 17) ^ (y >> 26)
        halves.append(a >> 32)
    expected = [low | high << 32 for low, high in batched(halves)]
    assert survey_cell_words(source(24)).tolist() == expected


@each("places", [(0,), (1,), (0, 2)])
def test_its_state_is_worked_out_from_a_share(places):
    state = int.from_bytes(seeded_browser_chance(places)(16), "big")
    source = browser_chance_of_visit(state)
    shares = [survey_cell_words(source(64)) for _ in range(3)]
    assert browser_state_of_visit({k: shares[k] for k in places}, 8, 3) == state
    other = shares[0].copy()
    other[-1] ^= np.uint64(1)
    assert browser_state_of_visit({0: other}, 8, 3) is None
    assert (
        browser_state_of_visit({0: shares[0][:1]}, 1, 3) is None
    )  # 64 equations of 128


@pytest.mark.skipif(which("node") is None, reason="needs node")
def test_the_real_math_random_is_worked_out():
    """Node's own, which hands 64 numbers out from the last to the first."""
    script = "console.log(JSON.stringify(Array.from({length: 64}, Math.random)))"
    told = subprocess.run(
        ["node", "-e", script], capture_output=True, check=True, timeout=30
    )
    calls = [int(one * 2**32) for one in json.loads(told.stdout)][::-1]
    words = np.array(
        [low | high << 32 for low, high in batched(calls)],
        dtype=np.uint64,
    )
    assert len(words) == 32
    found = browser_state_of_visit({0: words[:8]}, 8, 1)
    assert found is not None
    assert (
        survey_cell_words(browser_chance_of_visit(found)(256)).tolist()
        == words.tolist()
    )


# Runs of delegates


@pytest.mark.parametrize("coalition", ALL_BUT_ONE)
def test_frames_of_two_worlds_are_the_same(survey, coalition, monkeypatch):
    (found,) = survey.frames(coalition, seed=2, trials=1)
    assert (found.attack, found.successes) == (FRAMES, 0)
    tables = AuditedVisits.tables

    def uneven(self, chance):
        one, (first, second) = tables(self, chance)
        return one, (first, (second[0] + 1, *second[1:]))

    monkeypatch.setattr(AuditedVisits, "tables", uneven)
    (found,) = survey.frames(coalition, seed=2, trials=1)
    assert found.successes == 1


def test_machines_send_what_the_theory_has(survey):
    (found,) = survey.tapped(seed=1, trials=1)
    assert (found.attack, found.successes) == (TAPPED, 0)


def test_guests_that_stand_for_all_are_few():
    many = [
        {
            "name": f"Firm {k}",
            "key": secrets.token_hex(32),
            "invited_by": MEMBERS[k % 3],
        }
        for k in range(300)
    ]
    columns = [f"column {k}" for k in range(40)]
    table = survey_table(guest=many, columns=columns)
    survey = AuditedSurvey(consortium_from(table), None)
    assert len(survey.visits.terms.guests) == visits.MOST_GUESTS
    assert survey.visits.terms.n_cells == 2 * visits.MOST_LABELS
    assert survey.scene.width <= 2 * visits.MOST_LABELS
    told = list(survey.said())
    assert "60 guests and 16 cells that were made up stood for 300 and 80" in told
    assert told[0].startswith("if 1 of 3 members collude, totals are over 200 guests")


# Submissions


def submissions(made):
    return [
        made.come(name, (5, 6, 7, None), secrets.token_bytes)
        for name in made.terms.roster
    ]


def test_words_of_the_set_are_looked_at(made):
    lines = submissions(made)
    found = audit_masked_survey_words(made.terms, lines)
    assert found.successes == 0
    assert "as it was typed" in found.about
    # Planted: a guest whose page masks nothing, and one that masks as another does.
    bare = replace(
        lines[0], masked=np.array([5] * len(lines[0].words), "<u8").tobytes()
    )
    found = audit_masked_survey_words(made.terms, [bare, *lines[1:]])
    assert found.successes == 1
    twin = replace(lines[0], masked=lines[1].masked)
    found = audit_masked_survey_words(made.terms, [twin, *lines[1:]])
    assert found.successes == 2
    # Of a range as wide as masks are nothing is said.
    wide = replace(made.terms, low=-(2**50), high=2**50)
    found = audit_masked_survey_words(wide, lines)
    assert "as it was typed" not in found.about


def closed(folder):
    """A closed survey's file, with the submissions beside it."""
    made = AuditedVisits.like(opened())
    guests = [
        {"name": one.name, "key": one.key.hex(), "invited_by": one.invited_by}
        for one in made.terms.guests
    ]
    delegates = {name: key.hex() for name, key in made.terms.delegates}
    terms = opened(guest=guests, delegates=delegates)
    lines = [
        guest_submission(terms, made.codes[name], [[5, 6], [7, 8]])
        for name in terms.roster
    ]
    chosen = survey_set_of(terms, lines)
    closing = survey_closing_entries(terms, chosen.digest, chosen.tally)
    table = survey_table(guest=guests, delegates=delegates, **closing)
    (folder / "closed.toml").write_text(tomli_w.dumps(table))
    (folder / "submissions.jsonl").write_bytes(write_submissions(lines))
    return lines


def audited(*words):
    found = CliRunner().invoke(app, ["audit", *map(str, words)])
    return found.exit_code, " ".join(found.output.split())


@pytest.fixture
def brief(monkeypatch):
    """Audits in which guests are tried a few times; planted masks are tested apart."""
    monkeypatch.setattr(auditing, "_planted_controls", lambda *_: [])
    monkeypatch.setattr(surveys, "TRIALS", {"quick": 6})
    return ("--depth", "quick", "--executions", "300")


def test_a_closed_survey_is_audited_with_its_submissions(tmp_path, brief):
    lines = closed(tmp_path)
    file = tmp_path / "closed.toml"
    code, told = audited(file, *brief, "--out", tmp_path / "a")
    assert code == 0, told
    assert "if 2 of 3 members collude, totals are over 4 guests at worst" in told
    assert "which nobody checks" in told
    assert "all 3 members together open every share" in told
    record = json.loads((tmp_path / "a" / "audit.json").read_text())["audit"]
    assert record["broken"] == []
    assert len(record["controls"]) == 3 + len(PLANTED)
    names = {one["attack"] for one in record["outcomes"]}
    assert names >= {"likelihood ratio", *ATTACKS, OF_THE_SET}
    who = {tuple(one["coalition"]) for one in record["outcomes"]}
    assert who >= {*ALL_BUT_ONE}
    code, told = audited(file, "--replay", tmp_path / "a" / "audit.json")
    assert code == 0, told
    path = tmp_path / "submissions.jsonl"
    path.write_bytes(write_submissions(lines[:-1]))
    code, told = audited(file, *brief)
    assert code == 2
    assert "not those that the closed file names" in told


def test_without_submissions_they_are_not_looked_at(tmp_path):
    closed(tmp_path)
    (tmp_path / "submissions.jsonl").unlink()
    (told,) = rehearse_attack_target(tmp_path / "closed.toml").handed_out()
    assert told.why == "there is no submissions.jsonl beside closed.toml"


def test_an_open_survey_is_audited(survey, brief):
    code, told = audited(survey.path, *brief, "--coalitions", "bob")
    assert code == 0, told
    assert f"{OF_THE_SET}: the survey is open" in told
    with refused("survey-not-on-tables"):
        AuditRehearsal(survey.consortium)


@pytest.mark.slow
def test_a_survey_is_audited_whole(tmp_path):
    closed(tmp_path)
    code, told = audited(tmp_path / "closed.toml", "--executions", "5000")
    assert code == 0, told
    assert "planted: a seed of 16 bits" in told
    assert "NOT as it must be" not in told


@pytest.mark.usefixtures("brief")
def test_stopping_names_what_is_left(survey, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(visits, "play", stopped)
    found = survey.audit(
        survey.scene, [("ann",)], depth="quick", executions=200, progress=False
    )
    left = [one for one in found.skipped if "stopped by hand" in one]
    assert len(left) == len(survey.groups([("ann",)])) + 2
    assert f"{OF_THE_SET}: stopped by hand before it" in left
    assert "keys and invitations: stopped by hand before it" in left
