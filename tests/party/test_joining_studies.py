"""Studies from Python and through files: every question, one call."""

import asyncio
import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from later import Later
from party.test_studying import FIT, MEANS, NAMES, SMOKERS, Group, call, frames
from refusals import refused
from veilsum.consortium.study import study_from
from veilsum.files.consortiums import write_consortium
from veilsum.files.ledger import read_ledger
from veilsum.party.studying import read_study_status
from veilsum.party.transcript_file import read_transcript

smf = Later("statsmodels.formula.api")

# Nobody here waits for a deadline, however busy the computer is.
PATIENT = {"meeting": 600.0, "deadline": 300.0, "patience": 4}
pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


def given(group, name, **more):
    """What a party gives to `join`."""
    folder = group.folder(name)
    return {
        "consortium": group.study,
        "identity": folder / f"{name}.key",
        "data": frames()[name],
        "consent": lambda page: "CONSENT TO A STUDY" in page.text(),
        **more,
    }


# From Python


@pytest.fixture(scope="module")
def joined(tmp_path_factory, unchecked_shapes):
    """Four parties by join and join_async; b stays away from the second question."""
    del unchecked_shapes
    place = tmp_path_factory.mktemp("joined")
    group = Group(place, MEANS, SMOKERS, FIT, **PATIENT)
    file = place / "study.toml"
    write_consortium(file, group.study)
    seen = {name: [] for name in NAMES}
    calls = {n: given(group, n, on_event=seen[n].append) for n in NAMES}
    calls["a"] |= {
        "consortium": str(file),
        "out": place / "a",
        "transcript": place / "t",
    }
    calls["b"]["without"] = ["smokers"]
    calls["d"]["consent"] = vs.party.consent_to_study(group.study).digest
    with ThreadPoolExecutor(3) as pool:
        made = {name: pool.submit(vs.join, **calls[name]) for name in "abc"}
        last = asyncio.run(vs.join_async(**calls["d"]))
        found = {name: one.result() for name, one in made.items()}
    return group, {**found, "d": last}, seen, calls


def test_every_question_has_its_own_result(joined):
    group, found, _, _ = joined
    pooled = pd.concat(frames().values())
    expected = smf.ols("y ~ x", pooled).fit().params
    for name, one in found.items():
        assert isinstance(one, vs.party.JoinedStudy)
        assert [*one.answers] == ["means", "fit"], name
        fit = one.answers["fit"].result
        np.testing.assert_allclose(fit.fit.coefficients, expected, rtol=1e-9)
        stage = "left out" if name == "b" else "failed"
        assert one.status.stages["smokers"].stage == stage
    for question in ("means", "fit"):
        receipts = [one.answers[question].receipt for one in found.values()]
        assert vs.verify_receipts(receipts, group.study.questions[question]).good


def test_events_say_which_question_it_is(joined):
    group, _, seen, _ = joined
    for name, events in seen.items():
        runs = {one.question: one.run for one in events}
        assert runs == {
            question: group.study.questions[question].run
            for question in ("means", "smokers", "fit")
            if (name, question) != ("b", "smokers")
        }
        done = [one.question for one in events if one.what == "done"]
        assert done == [*runs]


def test_the_same_call_again_meets_nobody(joined):
    _, found, _, calls = joined
    for name in "ad":
        again = vs.join(**{**calls[name], "consent": None, "on_event": None})
        assert again.status == found[name].status
        assert [*again.answers] == [*found[name].answers]
        for question, one in again.answers.items():
            assert one.was_over
            assert one.to_dict() == found[name].answers[question].to_dict()


def test_a_question_whose_file_is_gone_is_not_begun_again(joined, tmp_path):
    group, found, _, calls = joined
    run = group.study.questions["fit"].run
    (state,) = group.folder("c").glob(f"c-{run[-8:]}.run")
    state.rename(tmp_path / state.name)
    try:
        again = vs.join(**{**calls["c"], "consent": None})
        assert [*again.answers] == ["means"]
        assert again.status == found["c"].status
        assert not state.exists()
    finally:
        (tmp_path / state.name).rename(state)


def test_files_are_where_the_call_said_or_beside_the_key(joined):
    group, _, _, calls = joined
    kept = calls["a"]["out"]
    assert json.loads((kept / "study.json").read_text())["party"] == "a"
    assert (kept / "fit" / "receipt.json").exists()
    beside = [path.name for path in group.folder("c").glob("*.study")]
    assert beside == [f"c-{group.study.run[-8:]}.study"]


def test_there_is_a_transcript_of_every_question(joined):
    group, _, _, calls = joined
    identity = vs.read_identity(group.folder("a") / "a.key")
    for question, one in group.study.questions.items():
        path = calls["a"]["transcript"] / f"{question}.transcript"
        kept = read_transcript(path, identity, run=one.run)
        assert kept.corrupted == ("a",)
        assert kept.whole
        # Of the question that b stayed away from nothing was masked or told.
        totals = [one.total is not None for one in kept.rounds if one.masked]
        assert totals == ([] if question == "smokers" else [True])
    page = (calls["a"]["out"] / "consent.txt").read_text()
    assert "for each question you keep a transcript in t" in " ".join(page.split())
    other = vs.read_identity(group.folder("b") / "b.key")
    with pytest.raises(vs.InvalidInputError):
        read_transcript(path, other)


def test_without_consent_the_page_of_all_questions_is_shown(tmp_path):
    group = Group(tmp_path, MEANS, FIT)
    with pytest.raises(vs.ConsentError) as caught:
        vs.join(**given(group, "a", consent=None))
    assert caught.value.page.digest == vs.party.consent_to_study(group.study).digest
    assert read_ledger(group.folder("a") / "a.ledger").reservations == ()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"state": "x.run"}, "a study has one for each question"),
        ({"without": ["mean"]}, "there is no question 'mean'"),
        ({"cost": {"targets": [1.0]}}, "--data"),
    ],
)
def test_what_a_study_has_no_use_for_is_said(joined, tmp_path, more, words):
    group, _, _, _ = joined
    with pytest.raises(vs.InvalidInputError, match=words):
        vs.join(**given(group, "a", out=tmp_path, **more))
    one = group.study.questions["fit"]
    with refused("option-for-studies", vs.InvalidInputError):
        vs.join(**given(group, "a", consortium=one, without=["fit"]))


# Through files


class Carried:
    """The same, without an address; what one writes is carried to all."""

    def __init__(self, folder, *questions, **how):
        self.group = Group(folder, *questions, **how)
        table = self.group.study.to_table()
        for member in table["members"]:
            del member["address"]
        self.study = study_from(table)
        self.file = folder / "carried.toml"
        write_consortium(self.file, self.study)
        for name in NAMES:
            self.letters(name).mkdir()

    def letters(self, name):
        return self.group.folder(name) / "letters"

    def visit(self, name, *words):
        folder = self.group.folder(name)
        return call(
            *("join", self.file, "--identity", folder / f"{name}.key", "--yes"),
            *("--data", folder / "data.csv", "--out", folder / "out", "--once"),
            *("--drop", self.letters(name), *words),
        )

    def carry(self):
        for source in NAMES:
            for path in self.letters(source).glob(f"{source}-to-*.letter"):
                receiver = path.name.split("-to-")[1][0]
                shutil.copy2(path, self.letters(receiver) / path.name)

    def result(self, name, question):
        path = self.group.folder(name) / "out" / question / "result.json"
        return json.loads(path.read_text())


def test_what_each_question_waits_for_is_said(tmp_path):
    carried = Carried(tmp_path, MEANS, FIT)
    first = carried.visit("a")
    assert first.exit_code == 3, first.output
    told = " ".join(first.stderr.split())
    for question in ("means", "fit"):
        run = carried.study.questions[question].run
        assert f"{question}: from b: its next letter is b-to-a-0000-{run[-8:]}" in told
    assert told.count("carry the .letter files") == 1
    page = (carried.group.folder("a") / "out" / "consent.txt").read_text()
    assert "your computer makes no connection" in " ".join(page.split())
    found = call("study", "status", carried.group.folder("a") / "out")
    assert "0 of 2 questions have a result" in found.output


@pytest.mark.slow
def test_a_study_goes_through_files_all_questions_at_once(tmp_path):
    carried = Carried(tmp_path, MEANS, FIT)
    visits, ended = 1, set()
    while len(ended) < 4:
        for name in NAMES:
            if name not in ended and carried.visit(name).exit_code == 0:
                ended.add(name)
        carried.carry()
        visits += 1
        assert visits < 15
    # As often as one question alone: nobody carries twice for the second.
    assert visits <= 10
    pooled = pd.concat(frames().values())
    expected = smf.ols("y ~ x", pooled).fit().params
    for name in NAMES:
        found = carried.result(name, "fit")["minimiser"]
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    lost = sorted(carried.letters("a").glob("a-to-b-*.letter"))
    for path in lost:
        path.unlink()
    assert carried.visit("a").exit_code == 0
    assert sorted(carried.letters("a").glob("a-to-b-*.letter")) == lost, "written again"


@pytest.mark.slow
def test_a_refused_question_holds_up_no_other_through_files(tmp_path):
    """Nobody is told that c stays away: that question waits, and the rest ends."""
    carried = Carried(tmp_path, SMOKERS, MEANS, rare="c")
    for _ in range(10):
        codes = [carried.visit(name).exit_code for name in NAMES]
        carried.carry()
    assert codes == [3, 3, 1, 3], "c has no question left, and one without a result"
    found = {
        n: read_study_status(carried.group.folder(n) / "out").stages for n in NAMES
    }
    stages = {n: [one.stage for one in rows.values()] for n, rows in found.items()}
    assert stages == {
        "a": ["open", "finished"],
        "b": ["open", "finished"],
        "c": ["refused", "finished"],
        "d": ["open", "finished"],
    }
    told = carried.visit("a", "--without", "smokers")
    assert told.exit_code == 1
    history = read_ledger(carried.group.folder("a") / "a.ledger")
    assert not history.pending, "what was reserved for it is given back"
