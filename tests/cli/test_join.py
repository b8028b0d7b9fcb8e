"""`veilsum join`: what a person sees before, how it ends, and coming back after."""

import json
import shutil
import socket
import tomllib
from contextlib import ExitStack, closing

import numpy as np
import pandas as pd
import pytest
import tomli_w
from click.testing import CliRunner

from net.runs import ONE_SHOT, TARGETS, Company, changed, data_files
from veilsum.cli.app import app
from veilsum.files.ledger import open_ledger
from veilsum.net.identity import fingerprint_in_groups
from veilsum.party.consent import consent_to
from veilsum.party.transcript_file import read_transcript
from veilsum.privacy.accountant import Budget

MEAN = np.mean(TARGETS, axis=0)
pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


@pytest.fixture
def company(tmp_path):
    # Others are processes, which may be slow: nobody here waits for a deadline.
    patient = {"meeting": 600.0, "deadline": 300.0}
    return Company(tmp_path, changed(ONE_SHOT, policy=patient))


def join(company, name, *words, answer=None):
    """What a party types in its own folder."""
    folder = company.folder(name)
    option, file = company.seats[name].option
    given = [folder / "consortium.toml", option, folder / file, "--out", folder / "out"]
    return CliRunner().invoke(
        app, ["join", *map(str, given), *words], input=answer, catch_exceptions=False
    )


def others(company, name):
    return [one for one in company.names if one != name]


def with_others(company, name, *words, answer=None):
    """The same, while everybody else runs as a process."""
    with company.local as run:
        for one in others(company, name):
            run.start(one)
        found = join(company, name, *words, answer=answer)
        codes = run.wait()
    assert set(codes.values()) <= {0}, run.last_words(others(company, name)[0])
    return found


def flat(text):
    return " ".join(text.split())


# Before anything is sent


@pytest.mark.parametrize("epsilon", [1e-30, 1.0])
def test_a_ledger_that_would_refuse_says_so_before_anybody_is_met(company, epsilon):
    """With a larger budget the same command goes on to ask its owner."""
    ledger = company.folder("a") / "mine.ledger"
    open_ledger(ledger, create=Budget(epsilon=epsilon)).close()
    found = join(company, "a", "--ledger", str(ledger), answer="n\n")
    refused = "needs epsilon" in found.stderr
    assert refused == (epsilon < 1)
    assert ("nothing was sent" in found.stderr) != refused
    assert found.exit_code == 2
    with open_ledger(ledger) as books:
        assert books.history().charges == ()


def test_a_transcript_is_announced_and_writes_over_nothing(company):
    mine = company.folder("a") / "mine.transcript"
    found = join(company, "a", "--long", "--transcript", str(mine), answer="n\n")
    announced = "you keep a transcript in mine.transcript, encrypted with your key"
    assert announced in flat(found.stderr)
    assert "It is a secret" in flat(found.stderr)
    assert not mine.exists()
    silent = join(company, "a", "--long", answer="n\n")
    assert "you keep a transcript" not in flat(silent.stderr)
    key = company.folder("a") / "a.key"
    before = key.read_bytes()
    found = join(company, "a", "--transcript", str(key), "--yes")
    assert found.exit_code == 2
    assert "is not a transcript" in flat(found.stderr)
    assert "give another file with --transcript" in flat(found.stderr)
    assert key.read_bytes() == before


def test_a_transcript_is_kept_for_its_owner(company):
    mine = company.folder("a") / "mine.transcript"
    found = with_others(company, "a", "--transcript", str(mine), "--yes")
    assert found.exit_code == 0
    assert f"the transcript is in {mine}" in flat(found.stderr)
    kept = read_transcript(mine, company.folder("a") / "a.key")
    view = kept.view()
    assert view.corrupted == ("a",)
    assert view.honest == ("b", "c", "d")
    # A cost |x - t|^2 is masked as -2 t: of the others, only the sum is left.
    own, (others_,) = view.coefficients[0], view.component_sums().values()
    assert kept.law.decode(own).tolist() == [-2 * one for one in TARGETS[0]]
    rest = [-2 * sum(column) for column in zip(*TARGETS[1:], strict=True)]
    assert kept.law.decode(others_).tolist() == rest
    for name in others(company, "a"):
        assert [*company.folder(name).rglob("*.transcript")] == []


def test_no_sends_nothing_and_opens_no_socket(company):
    agreed = company.consortium
    with ExitStack() as stack:
        doors = {
            one.name: stack.enter_context(
                closing(socket.create_server((one.address.host, one.address.port)))
            )
            for one in agreed.members
        }
        # Its own address is taken: to listen there would be an error.
        found = join(company, "a", answer="n\n")
        for door in doors.values():
            door.setblocking(False)
            with pytest.raises(BlockingIOError):
                door.accept()
    assert found.exit_code == 2
    assert "nothing was sent" in found.stderr
    assert not (company.folder("a") / "out" / "result.json").exists()


def test_yes_would_have_opened_one(company):
    """The twin: the same command, and the address is in use."""
    address = company.consortium.member("a").address
    with closing(socket.create_server((address.host, address.port))):
        found = join(company, "a", answer="y\n")
    assert found.exit_code == 2
    assert f"{address}" in found.stderr
    assert "another program listens there" in found.stderr


def test_the_screen_says_what_is_sent_and_what_can_be_learned(company):
    agreed = company.consortium
    found = join(company, "a", "--long", answer="n\n")
    text = flat(found.stderr)
    assert f'title: "four" run: {agreed.run}' in text
    assert fingerprint_in_groups(agreed.digest) in text
    assert "you are a; neighbours: b, c, d" in text
    assert "cost.toml: a cost of kind squared-distance, in whole numbers of 2^-" in text
    assert "3 shares of 2 numbers under lattice masks" in text
    assert f"listens for {agreed.member('a').address}" in text
    assert f"b at {agreed.member('b').address}" in text
    assert "coefficients of the costs (2)" in text
    assert "each member alone: the same sums over the 3 others" in text
    assert "if more members pool what they saw, nothing is promised" in text
    assert "epsilon" in text
    assert "- the sum of the coefficients of a, b, c, d - with what" in text
    assert "with what a knows: the sum of the coefficients of b, c, d" in text
    assert "proceed? [y/N]" in found.stderr
    for number in TARGETS[0]:
        assert f"{number}" not in text


def with_tables(tmp_path):
    stream = np.random.default_rng(8)
    frames = {
        name: pd.DataFrame(
            {"x": stream.uniform(0, 9, 30), "y": stream.uniform(0, 9, 30)}
        )
        for name in "abcd"
    }
    number = {"kind": "number", "minimum": 0, "maximum": 10}
    table = {
        "schema": {"minimum_rows": 20, "columns": {"x": number, "y": number}},
        "model": {"formula": "y ~ x"},
    }
    return Company(tmp_path, data_files(table, frames, tmp_path))


def test_a_table_is_described_without_its_rows(tmp_path):
    found = join(with_tables(tmp_path), "a", "--long", answer="n\n")
    text = flat(found.stderr)
    assert "data.csv: 30 rows, 2 columns; 2 of 2 agreed columns are there" in text
    assert "0 rows with missing values" in text
    assert "rows never leave" in text
    assert '"x": number, 0 or more, 10 or less, counted in 2^-36' in text
    assert 'formula, as written: "y ~ x"' in text


def test_what_is_rounded_is_said_to_the_owner_and_not_logged(tmp_path):
    company = with_tables(tmp_path)
    said = "rounded to whole numbers of the agreed units: 30 values of x, 30 of y"
    assert said in flat(join(company, "a", "--long", answer="n\n").stderr)
    path = company.folder("a") / "data.csv"
    path.write_text("x,y\n" + "0.5,2\n1.5,4\n2.5,3\n" * 10 + "0.1,3\n")
    text = flat(join(company, "a", "--long", answer="n\n").stderr)
    assert "agreed units: 1 value of x" in text
    path.write_text("x,y\n" + "0.5,2\n" * 29 + "0.1,99\n")
    found = join(company, "a", "--yes", "--log", "json")
    assert "rounded" not in found.stderr


# What is kept of it, and what nobody has to be asked about


def test_what_was_agreed_to_is_kept_before_anything_is_sent(tmp_path):
    """Its own address is taken, so that nothing can be: the page is there all the same.

    Who says no has agreed to nothing, and there is no page.
    """
    company = with_tables(tmp_path)
    out = company.folder("a") / "out"
    assert join(company, "a", answer="n\n").exit_code == 2
    assert not (out / "consent.txt").exists()
    address = company.consortium.member("a").address
    with closing(socket.create_server((address.host, address.port))):
        found = join(company, "a", "--yes", "--log", "json")
    assert found.exit_code == 2
    text, told = out / "consent.txt", json.loads((out / "consent.json").read_text())
    for path in (text, out / "consent.json"):
        assert path.stat().st_mode & 0o777 == 0o600
    shared = consent_to(company.consortium)
    before, page, own = text.read_text().partition(shared.page)
    assert page
    assert before.splitlines()[:4] == shared.text().splitlines()[:4]
    assert "you may take part" in before
    assert told["digest"] == shared.digest
    assert "data.csv: 30 rows" in own
    assert "minimum_count: passed" in own
    assert "before: 0 numbers about these data are known" in own
    assert "30 rows" not in json.dumps(told["shared"])
    assert "CONSENT" not in found.stderr


def weaken(company, name, **policy):
    """Give a party a file whose policy is another one."""
    path = company.folder(name) / "consortium.toml"
    table = tomllib.loads(path.read_text())
    table["policy"] = {**table.get("policy", {}), **policy}
    path.write_text(tomli_w.dumps(table))


def test_a_refusal_points_out_files_that_differ_in_bounds_only(tmp_path):
    """Beside the refusal, for its owner; nothing of it where no bound has changed."""
    company = with_tables(tmp_path)
    for _ in range(2):
        assert "asked the same" not in flat(join(company, "a", answer="n\n").stderr)
    weaken(company, "a", maximum_influence=0.01)
    refused = join(company, "a", "--yes")
    assert refused.exit_code == 2
    told = flat(refused.stderr)
    assert "asked the same of the same members" in told
    assert "policy.maximum_influence was not said, is 0.01" in told


WEAKER = [{"site_terms": True}, {"minimum_count": 1}, {"release_fraction": 0.9}]


@pytest.mark.parametrize("policy", WEAKER, ids=lambda one: next(iter(one)))
def test_yes_runs_nothing_that_is_weaker_than_usual(policy, tmp_path):
    """A person may agree to it, or write down beforehand that they do."""
    company = with_tables(tmp_path)
    weaken(company, "a", **policy)
    (name,) = policy
    refused = join(company, "a", "--yes")
    assert refused.exit_code == 2
    assert f"{name} is usually " in flat(refused.stderr)
    assert "Nothing was sent" in refused.stderr
    assert not list(company.folder("a").glob("*.run"))
    asked = flat(join(company, "a", answer="n\n").stderr)
    shout = (
        "!!! SITE TERMS ARE ALLOWED" if name == "site_terms" else "WEAKER THAN USUAL"
    )
    assert asked.index(shout) < asked.index("WHAT IS ASKED")
    own = company.folder("a") / "veilsum.toml"
    own.write_text(tomli_w.dumps({"floors": policy}))
    address = company.consortium.member("a").address
    with closing(socket.create_server((address.host, address.port))):
        assert "listens there" in join(company, "a", "--yes").stderr


def test_a_party_s_own_rules_win_whoever_agrees(tmp_path):
    company = with_tables(tmp_path)
    own = company.folder("a") / "veilsum.toml"
    own.write_text('columns = ["y"]\n')
    for words in (["--yes"], []):
        found = join(company, "a", *words, answer="y\n")
        assert found.exit_code == 2
        assert "columns = y, and this file has x" in flat(found.stderr)
    other = company.folder("a") / "other.toml"
    other.write_text('columns = ["y", "x"]\n')
    found = join(company, "a", "--own", str(other), answer="n\n")
    assert "nothing was sent; run the same command" in found.stderr
    own.write_text('colums = ["y", "x"]\n')
    assert "did you mean 'columns'?" in join(company, "a", "--yes").stderr


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_value_that_does_not_fit_is_shown_to_its_owner_and_not_logged(
    style, tmp_path
):
    company = with_tables(tmp_path)
    path = company.folder("a") / "data.csv"
    path.write_text(path.read_text() + '"61,25",1.0\n')
    found = join(company, "a", "--yes", "--log", style)
    assert found.exit_code == 2
    told = "column 'x'" if style == "text" else "refused by the schema: type"
    assert told in flat(found.stderr)
    assert ("61,25" in found.stderr) is (style == "text")


REFUSED = {
    "no key": (["--identity", "nobody.key"], "nobody.key"),
    "json without yes": (["--json"], "--yes"),
    "no such address": (["--listen", "here", "--yes"], "host:port"),
    "an empty folder name": (["--out", "", "--yes"], "found nothing"),
}


@pytest.mark.parametrize(("words", "why"), REFUSED.values(), ids=REFUSED)
def test_mistakes_are_one_sentence(words, why, company):
    found = join(company, "a", *words)
    assert found.exit_code == 2
    assert why in found.stderr
    assert found.stderr.count("\n") == 1


def lose_key(folder):
    (folder / "a.key").unlink()


def find_two_keys(folder):
    shutil.copy(folder / "a.key", folder / "a2.key")


def put_a_file_in_the_way(folder):
    (folder / "out").write_text("")


UNREADY = {
    "no key": (lose_key, ["--yes", "--json"], "new consortium file"),
    "two keys": (find_two_keys, ["--yes", "--json"], "a.key, a2.key"),
    "no folder": (put_a_file_in_the_way, ["--yes", "--json"], "cannot write into"),
    "json without yes": (lambda _: None, ["--json"], "add --yes"),
}


def events(found):
    """What was logged; all of standard error must be that."""
    return [json.loads(line) for line in found.stderr.splitlines()]


@pytest.mark.parametrize(("spoil", "words", "why"), UNREADY.values(), ids=UNREADY)
def test_a_json_log_says_why_nothing_began(spoil, words, why, company):
    spoil(company.folder("a"))
    found = join(company, "a", *words, "--log", "json")
    assert found.exit_code == 2
    (event,) = events(found)
    assert event["event"] == "ended"
    assert why in event["reason"]
    assert found.stdout == ""


@pytest.mark.parametrize(("spoil", "words", "why"), UNREADY.values(), ids=UNREADY)
def test_a_person_reads_the_same_as_a_sentence(spoil, words, why, company):
    """The twin."""
    spoil(company.folder("a"))
    found = join(company, "a", *words)
    assert found.exit_code == 2
    assert found.stderr.startswith("Error: ")
    assert why in found.stderr


def test_a_question_that_nobody_answers_is_logged_on_a_line_of_its_own(company):
    found = join(company, "a", "--log", "json")
    assert found.exit_code == 2
    event = json.loads(found.stderr.splitlines()[-1])
    assert event["event"] == "ended"
    assert "nobody answered" in event["reason"]


def test_the_current_folder_is_taken_where_it_is_named(company, monkeypatch):
    """The twin of an empty name."""
    monkeypatch.chdir(company.folder("a"))
    found = join(company, "a", "--out", ".", answer="n\n")
    assert "nothing was sent; run the same command" in found.stderr


def test_a_cost_is_wanted_where_costs_were_agreed_on(company):
    folder = company.folder("a")
    found = CliRunner().invoke(
        app, ["join", str(folder / "consortium.toml"), "--yes", "--out", str(folder)]
    )
    assert found.exit_code == 2
    assert "--cost FILE" in found.stderr


def test_where_nobody_can_answer_yes_is_asked_for(company):
    found = join(company, "a")
    assert found.exit_code == 2
    assert "nothing was sent; add --yes" in flat(found.stderr)
    assert "Aborted" not in found.stderr


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_wrong_copy_of_the_file_does_not_bar_the_right_one(company):
    """It gets as far as its own address, where another program listens."""
    path = company.folder("a") / "consortium.toml"
    right = path.read_text()
    change(path, "deadline = 300.0", "deadline = 299.0")
    address = company.consortium.member("a").address
    with closing(socket.create_server((address.host, address.port))):
        assert "listens there" in join(company, "a", "--yes").stderr
    (state,) = company.folder("a").glob("*.run")
    assert b"record/Join" in state.read_bytes()
    path.write_text(right)
    found = with_others(company, "a", "--yes")
    assert found.exit_code == 0, found.output


# To the end, and after it


def test_a_person_takes_part_and_comes_back_for_the_result(company):
    found = with_others(company, "a", answer="y\n")
    assert found.exit_code == 0, found.output
    assert "agreed by 4 of 4 parties" in found.stdout
    assert "agreed by everybody" in found.stderr
    out = company.folder("a") / "out"
    first = (out / "result.json").read_bytes(), (out / "receipt.json").read_bytes()
    pages = [
        json.loads((company.folder(name) / "out" / "consent.json").read_text())
        for name in company.names
    ]
    assert {json.dumps(page["shared"]) for page in pages} == {
        json.dumps(pages[0]["shared"])
    }
    assert json.loads(first[1])["consent"] == pages[0]["digest"]
    assert pages[0]["own"] != pages[1]["own"]
    np.testing.assert_allclose(json.loads(first[0])["minimiser"], MEAN, atol=1e-6)
    for path in out.iterdir():
        path.unlink()
    # Nobody else is there, and nobody is asked again.
    again = join(company, "a")
    assert again.exit_code == 0, again.output
    assert (
        (out / "result.json").read_bytes(),
        (out / "receipt.json").read_bytes(),
    ) == (first)
    assert "proceed?" not in again.stderr
    assert "ledger" not in again.stderr
    what_comes_after(company, out)


def what_comes_after(company, out):
    """Other files, another run, a lost ledger: where a run is over."""
    folder = company.folder("a")
    before = (out / "receipt.json").read_bytes()
    change(folder / "consortium.toml", 'title = "four"', 'title = "five"')
    found = join(company, "a", "--yes")
    assert found.exit_code == 1
    assert "differs from this one in title" in found.stderr
    change(folder / "consortium.toml", company.consortium.run, "other-" + "0" * 32)
    found = join(company, "a", "--yes")
    assert found.exit_code == 2
    assert company.consortium.run in found.stderr
    assert "--out" in found.stderr
    assert (out / "receipt.json").read_bytes() == before
    shutil.copy(company.folder("b") / "consortium.toml", folder)
    right = (folder / "a.ledger").rename(folder / "right")
    # The first time it is made; the second time it is there, and knows nothing still.
    for _ in range(2):
        found = join(company, "a", "--yes")
        assert found.exit_code == 0
        assert "was charged to a ledger that is gone" in found.stderr
        assert f"ledger={folder / 'a.ledger'}" in found.stderr
    right.rename(folder / "a.ledger")
    assert "ledger" not in join(company, "a", "--yes").stderr
    (out / "receipt.json").write_text("{}")
    found = join(company, "a", "--yes")
    assert found.exit_code == 2
    assert (out / "receipt.json").read_text() == "{}"


def test_json_is_the_result_and_nothing_else(company):
    found = with_others(company, "b", "--yes", "--json", "--log", "json")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    np.testing.assert_allclose(result["minimiser"], MEAN, atol=1e-6)
    assert result["guarantee"]["status"] == "private"
    said = events(found)
    phases = [one["phase"] for one in said if one["event"] == "phase"]
    assert phases[0] == "greeting"
    assert phases[-1] == "finished"
    assert {"listening", "connected"} <= {one["event"] for one in said}
    again = join(company, "b", "--yes", "--json", "--log", "json")
    assert again.exit_code == 0
    assert json.loads(again.stdout) == result
    assert [one["event"] for one in events(again)] == ["was over"]


def test_giving_up_is_exit_code_one_and_says_who(tmp_path):
    hasty = {"deadline": 0.5, "patience": 1}
    company = Company(tmp_path, changed(ONE_SHOT, policy=hasty))
    found = join(company, "c", "--yes")
    assert found.exit_code == 1
    assert "waited for a, b, d while greeting" in found.stderr
    assert "connection refused at" in found.stderr
    assert "Traceback" not in found.stderr
    assert found.stdout == ""
