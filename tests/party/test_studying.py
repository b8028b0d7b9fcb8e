"""Taking part in a study: asked once, everything checked before, one fails alone."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tomli_w
from click.testing import CliRunner

import refusals
from later import Later
from net.runs import WAITS, data_files
from veilsum.cli.app import app
from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.study import study_from
from veilsum.errors import (
    BudgetError,
    InvalidInputError,
    OutputError,
    WaitingError,
)
from veilsum.files.consortiums import read_agreement, read_plan_file, write_consortium
from veilsum.files.datasets import breast_cancer
from veilsum.files.ledger import open_ledger, read_ledger
from veilsum.net.identity import read_identity
from veilsum.net.receipt import read_receipt, verify_receipts
from veilsum.party.consent import consent_to
from veilsum.party.local import local_run
from veilsum.party.networked import NetworkedParty
from veilsum.party.own_rules import OwnRules
from veilsum.party.run import PartyInputs
from veilsum.party.study_page import consent_to_study, study_privacy_total
from veilsum.party.studying import (
    _study_waits,
    prepare_study,
    read_study_status,
    study_at_home,
)
from veilsum.privacy.accountant import Budget
from veilsum.sums.kinds import resolve_agreed_question
from veilsum.tables.rules import DisclosureError

smf = Later("statsmodels.formula.api")

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
NUMBER = {"kind": "number", "minimum": 0, "maximum": 100, "unit": 0.001}
COLUMNS = {
    "age": {"kind": "integer", "minimum": 0, "maximum": 100},
    "x": NUMBER,
    "y": NUMBER,
    "smoker": {"kind": "category", "categories": ["no", "yes"]},
}
MEANS = {"name": "means", "statistics": {"columns": ["x", "y"]}}
SMOKERS = {"name": "smokers", "statistics": {"columns": ["x"], "by": "smoker"}}
FIT = {"name": "fit", "model": {"formula": "y ~ x"}}
OLD = {
    "name": "old",
    "statistics": {"columns": [], "histograms": {"age": [30, 50, 70]}},
}
OLDER = {
    "name": "older",
    "statistics": {"columns": [], "histograms": {"age": [30, 52, 70]}},
}
NAMES = "abcd"


def frame(name, n=40):
    stream = np.random.default_rng((4, *name.encode()))
    x = np.round(stream.uniform(10, 90, n), 3)
    return pd.DataFrame(
        {
            "age": np.arange(n) * 2 + 11,  # odd, one row each: from 11 to 89
            "x": x,
            "y": np.round(np.clip(x / 2 + stream.normal(20, 5, n), 0, 100), 3),
            "smoker": np.where(np.arange(n) % 4 == 0, "yes", "no"),
        }
    )


def frames(rare=(), names=NAMES):
    found = {name: frame(name) for name in names}
    for name in rare:  # one smoker alone
        found[name]["smoker"] = ["yes"] + ["no"] * 39
    return found


class Group:
    """Parties with folders of their own, as `veilsum up` makes them."""

    def __init__(self, folder, *questions, rare=(), names=NAMES, **policy):
        table = {
            "title": "a study",
            "schema": {"minimum_rows": 40, "columns": COLUMNS},
            "policy": {"tolerate": 1, "minimum_honest": 3, **WAITS, **policy},
            "question": [*questions],
        }
        folder.mkdir(parents=True, exist_ok=True)
        scenario = folder / "scenario.toml"
        made = data_files(table, frames(rare, names), folder)
        scenario.write_text(tomli_w.dumps(made))
        self.local = local_run(scenario, folder / "parties")
        self.study, self.pages = self.local.consortium, {}

    def folder(self, name):
        return self.local.seats[name].folder

    def part(self, name, ledger, study=None, **options):
        folder = self.folder(name)
        own = {"rules": OwnRules(), "out": folder / "out", **options}
        return prepare_study(
            study or self.study,
            read_identity(folder / f"{name}.key"),
            PartyInputs(data=folder / "data.csv", ledger=ledger, **own),
        )

    def run(self, names=NAMES, study=None, **options):
        """All at once, each in a thread of its own with sockets of its own."""

        def one(name):
            path = self.folder(name) / f"{name}.ledger"
            create = None if path.exists() else Budget()
            with open_ledger(path, create=create) as ledger:
                mine = options.get(name, {})
                part = self.part(name, ledger, study, **mine)
                agree = lambda page: self.pages.update({name: page}) is None  # noqa: E731
                return part.run(agree).status

        with ThreadPoolExecutor(len(names)) as pool:
            return dict(zip(names, pool.map(one, names), strict=True))

    def result(self, name, question):
        path = self.folder(name) / "out" / question / "result.json"
        return json.loads(path.read_text())

    def receipts(self, question):
        outs = [seat.out for seat in self.local.seats.values()]
        paths = [out / question / "receipt.json" for out in outs]
        return [read_receipt(path) for path in paths]


def stages(status):
    return {name: one.stage for name, one in status.stages.items()}


@pytest.fixture(scope="module")
def ended(tmp_path_factory, unchecked_shapes):
    """A study of three in which one party has to refuse the second question."""
    del unchecked_shapes
    group = Group(
        tmp_path_factory.mktemp("ended"), MEANS, SMOKERS, FIT, rare="d", patience=8
    )
    return group, group.run()


# Together


def test_a_question_that_fails_does_not_stop_the_rest(ended):
    _, found = ended
    assert stages(found["d"]) == {
        "means": "finished",
        "smokers": "refused",
        "fit": "finished",
    }
    assert "minimum_count" in found["d"].stages["smokers"].reason
    for name in "abc":
        assert stages(found[name]) == {
            "means": "finished",
            "smokers": "failed",
            "fit": "finished",
        }
        reason = found[name].stages["smokers"].reason
        assert "d" in reason
        assert "nothing masked of this party was shown" in reason
        assert "minimum_count" not in reason, "why is for its owner alone"
    reasons = [found[name].stages["smokers"].reason for name in "abc"]
    assert any("'d' has gone on to a later question" in one for one in reasons)
    assert not any(one.good for one in found.values())
    assert all(one.is_over for one in found.values())


def test_each_question_has_its_result_and_receipts(ended):
    group, _ = ended
    pooled = pd.concat(frames("d").values())
    found = group.result("a", "fit")
    expected = smf.ols("y ~ x", pooled).fit().params
    np.testing.assert_allclose(found["minimiser"], expected, rtol=1e-9)
    means = group.result("c", "means")["minimiser"]
    np.testing.assert_allclose(means, pooled[["x", "y"]].mean(), rtol=1e-12)
    for question in ("means", "fit"):
        agreed = group.study.questions[question]
        receipts = group.receipts(question)
        assert verify_receipts(receipts, agreed).good
        assert {one.consent for one in receipts} == {consent_to(agreed).digest}
        path = group.folder("b") / "out" / question / "consortium.toml"
        assert read_agreement(path).digest == agreed.digest
    assert not verify_receipts(
        group.receipts("fit"), group.study.questions["means"]
    ).good


def test_nothing_is_charged_for_the_question_that_failed(ended):
    group, _ = ended
    failed = group.study.questions["smokers"].run
    for name in NAMES:
        history = read_ledger(group.folder(name) / f"{name}.ledger")
        assert not [one for one in history.charges if one.epoch.startswith(failed)]
        assert history.pending == {}
        assert failed not in history.questions(but="")
        kept = {one.run for one in history.reservations}
        assert (failed in kept) == (name != "d")
    refused = read_ledger(group.folder("d") / "d.ledger").refusals
    assert [one.reason for one in refused] == ["refused by minimum_count"]


def test_one_page_for_all_lists_them_with_what_they_come_to(ended):
    group, _ = ended
    page = group.pages["d"]
    assert page.page == consent_to_study(group.study).page
    assert {one.page for one in group.pages.values()} == {page.page}
    for name, one in group.study.questions.items():
        alone = consent_to(one)
        assert alone.page in page.page, "the very page that receipts speak of"
        assert page.facts["questions"][name]["digest"] == alone.digest
    most = sum(
        consent_to(one).facts["numbers"][1] for one in group.study.questions.values()
    )
    assert page.facts["numbers"][1] == most
    assert f"{most} numbers in all" in page.page
    assert "CONSENT TO A STUDY OF 3 RUNS" in page.page
    own = {part.key: " ".join(part.lines) for part in page.own}
    assert "smokers: REFUSED" in own["your_checks"]
    assert "you stay away from smokers" in own["your_checks"]
    assert "REFUSED" not in page.page
    text = (group.folder("d") / "out" / "consent.txt").read_text()
    assert text == page.text(long=True)
    assert "you may take part in 2 of 3 questions; refused: smokers" in text


def test_status_says_how_far_it_is(ended):
    group, found = ended
    folder = group.folder("d") / "out"
    assert read_study_status(folder).stages == found["d"].stages
    assert (folder / "study.json").stat().st_mode & 0o077 == 0, "for its owner"
    words = ["study", "status", str(folder)]
    told = CliRunner().invoke(app, words, catch_exceptions=False)
    assert told.exit_code == 1
    assert "2 of 3 questions have a result" in told.output
    assert "smokers                 refused" in told.output
    told = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert json.loads(told.output)["over"] is True
    nothing = CliRunner().invoke(app, ["study", "status", str(folder / "fit")])
    assert nothing.exit_code == 2
    assert "there is no study.json" in nothing.output


def test_answers_that_are_not_signed_yet_are_told_by_question():
    unknown = WaitingError("a\n  d\n  c")
    known = WaitingError("a\n  b\n  c", ("ann",)).with_known(answers={"": "an answer"})
    found = _study_waits({"means": known, "fit": unknown})
    assert found.answers == {"means": "an answer"}
    assert str(found) == "a\n  means: b\n  fit: d\n  c"


def test_the_length_of_a_status_tells_no_reason(ended, tmp_path):
    """Other users of a computer see how long a file is that they may not read."""
    _, found = ended
    lengths = []
    for reason in ("", found["d"].stages["smokers"].reason, "x" * 1000):
        found["d"].with_stage("smokers", reason=reason).write(tmp_path)
        assert read_study_status(tmp_path).stages["smokers"].reason == reason
        lengths.append((tmp_path / "study.json").stat().st_size)
    assert len({*lengths}) == 1


def test_joining_again_runs_nothing_again(ended):
    group, found = ended
    before = read_ledger(group.folder("a") / "a.ledger")
    group.pages.clear()
    (again,) = group.run("a").values()
    assert again == found["a"]
    assert not group.pages, "there is nothing to agree to"
    assert read_ledger(group.folder("a") / "a.ledger") == before


# Later editions


def test_an_added_question_is_agreed_to_anew_and_the_rest_is_not_run_again(
    ended, tmp_path
):
    group, found = ended
    file, more, out = (tmp_path / name for name in ("1.toml", "more.toml", "2.toml"))
    write_consortium(file, group.study)
    ages = {"name": "ages", "statistics": {"columns": ["age"]}}
    more.write_text(tomli_w.dumps({"question": [ages]}))
    words = ["study", "extend", str(file), str(more), "-o", str(out), "--json"]
    told = CliRunner().invoke(app, words, catch_exceptions=False)
    assert json.loads(told.output)["new"] == ["ages"]
    second = read_agreement(out)
    group.pages.clear()
    later = group.run(study=second)
    assert {one.stages["ages"].stage for one in later.values()} == {"finished"}
    for name in NAMES:
        for question in group.study.questions:
            assert later[name].stages[question] == found[name].stages[question]
        history = read_ledger(group.folder(name) / f"{name}.ledger")
        runs = {one.run for one in history.releases}
        assert second.questions["ages"].run in runs
        assert second.questions["means"].run in runs, "the ledger knows both"
    assert "new in this edition: ages" in group.pages["a"].page
    assert verify_receipts(group.receipts("ages"), second.questions["ages"]).good
    with refusals.refused("status-of-other-study", OutputError):
        group.run("a")  # with the first file again


def test_the_folder_of_another_study_is_left_alone(ended, tmp_path):
    group, _ = ended
    other = study_from({**group.study.to_table(), "title": "another"})
    with refusals.refused("status-of-other-study", OutputError):
        group.run("b", study=other)


# Beforehand


@pytest.fixture(scope="module")
def four(tmp_path_factory, unchecked_shapes):
    del unchecked_shapes
    return Group(tmp_path_factory.mktemp("four"), MEANS, OLD, OLDER)


def looking(group, name, folder, *, study=None, budget=None, without=(), **given):
    study = study or group.study
    part = group.part(name, None, study).part
    with open_ledger(folder / "ledger", create=budget or Budget()) as ledger:
        try:
            asked = [*study.questions]
            return study_at_home(
                study, part, name, ledger, asked=asked, without=without, **given
            )
        finally:
            looking.history = ledger.history()


def test_questions_that_single_out_rows_together_are_refused_together(four, tmp_path):
    """One row is 51: it is in one of two groups, and not in the other."""
    with refusals.refused(
        "group-too-small", DisclosureError, mentions=("older", "1")
    ) as caught:
        looking(four, "a", tmp_path)
    assert "--without NAME" in str(caught.value)
    assert looking.history.reservations == ()
    assert len(looking.history.refusals) == 1
    for name in ("old", "older"):
        folder = tmp_path / name
        folder.mkdir()
        home = looking(four, "a", folder, without=[name])
        assert len(home.wanted) == 2
        assert home.left_out == (name,)


def test_a_ledger_has_room_for_all_or_for_none(four, tmp_path):
    """Each question by itself would be allowed."""
    study = study_from({**four.study.to_table(), "question": [MEANS, FIT]})
    sizes = [consent_to(one).facts["numbers"][1] for one in study.questions.values()]
    held = 3 * 40 * 2  # of three honest parties' rows, in the two columns
    fraction = (max(sizes) + 1) / held
    assert sum(sizes) > fraction * held
    budget = Budget(release_fraction=fraction)
    for name in study.questions:
        folder = tmp_path / name
        folder.mkdir()
        looking(four, "a", folder, study=study, budget=budget, without=[name])
    with pytest.raises(BudgetError, match=r"question 'fit'.*release_fraction"):
        looking(four, "a", tmp_path, study=study, budget=budget)
    assert looking.history.reservations == ()


def test_a_question_that_is_not_there_cannot_be_left_out(four, tmp_path):
    with refusals.refused("unknown-question", mentions=("mean",)):
        looking(four, "a", tmp_path, without=["mean"])


def test_own_rules_refuse_one_question_and_not_the_others(four, tmp_path):
    study = study_from({**four.study.to_table(), "question": [MEANS, FIT]})
    own = OwnRules(source="mine", jobs=("model",))
    with open_ledger(tmp_path / "ledger", create=Budget()) as ledger:
        part = four.part("b", ledger, study, rules=own)

        def stop(page):
            raise InvalidInputError(page.text())

        with pytest.raises(InvalidInputError, match="means: jobs = model"):
            replace(part, out=tmp_path / "out").run(stop)
        assert ledger.history().reservations == ()


def test_the_whole_study_is_reserved_before_anybody_is_met(four, tmp_path):
    study = study_from({**four.study.to_table(), "question": [MEANS, FIT]})
    home = looking(four, "c", tmp_path, study=study)
    with open_ledger(tmp_path / "ledger") as ledger:
        ledger.reserve_all(home.wanted)
        runs = [one.run for one in study.questions.values()]
        assert [*ledger.history().pending] == runs
        again = ledger.history()
        ledger.reserve_all(home.wanted)
        assert ledger.history() == again, "once"


def test_members_of_a_study_call_again_sooner_than_others(four, tmp_path):
    identity = read_identity(four.folder("a") / "a.key")
    plain = {**four.study.first.to_table(), "study": ""}
    codec, policy = SimpleNamespace(max_frame=1), SimpleNamespace(deadline=300.0)
    plan = SimpleNamespace(codec=codec, policy=policy, digest=b"")
    found = {}
    for agreed in (four.study.first, consortium_from(plain)):
        driver = NetworkedParty(
            identity=identity, consortium=agreed, state=tmp_path / "s"
        )
        made = driver._links(plan, None)
        found[agreed.study != ""] = made.keywords["limits"].longest_retry
    assert found[True] < found[False]


# What masks hide in all of them


def test_divergences_of_all_sums_add_up():
    from consortium.test_study import study

    masks = {"law": "lattice", "sigma": 1e9}
    schema = {"minimum_rows": 40, "columns": {"x": NUMBER, "y": NUMBER}}
    made = study_from(study(masks=masks, schema=schema, policy={"tolerate": 0}))
    pages = {name: consent_to(one) for name, one in made.questions.items()}
    each = [
        pages[name].facts["rounds"][1]
        * resolve_agreed_question(one).terms.guarantee.epsilon
        for name, one in made.questions.items()
    ]
    assert min(each) > 0
    total = study_privacy_total(made, pages)
    assert total.epsilon == pytest.approx(sum(each), rel=1e-12)
    assert f"to epsilon {total.epsilon:.6g}. The sums are exact" in " ".join(
        consent_to_study(made).page.split()
    )


# Real processes


@pytest.mark.slow
def test_five_processes_go_through_a_study(tmp_path):
    waits = {"deadline": 30.0, "patience": 4}
    group = Group(tmp_path, MEANS, SMOKERS, FIT, rare="b", names="abcde", **waits)
    with group.local as run:
        run.start_all()
        codes = run.wait()
    assert set(codes.values()) == {1}, "not every question has a result"
    for name in "abcde":
        found = stages(read_study_status(group.folder(name) / "out"))
        missing = "refused" if name == "b" else "failed"
        assert found == {"means": "finished", "smokers": missing, "fit": "finished"}
    for question in ("means", "fit"):
        agreed = group.study.questions[question]
        assert verify_receipts(group.receipts(question), agreed).good


@pytest.mark.slow
def test_what_was_answered_without_a_member_is_not_followed_by_answers_with_it(
    tmp_path,
):
    """Sums over all five and over four of them differ by those of one alone."""
    waits = {"deadline": 6.0, "patience": 4, "drop": True}
    group = Group(tmp_path, SMOKERS, FIT, rare="b", names="abcde", **waits)
    found = group.run("abcde")
    for name in "acde":
        assert stages(found[name]) == {"smokers": "finished", "fit": "refused"}
        assert "could give away" in found[name].stages["fit"].reason
    assert stages(found["b"]) == {"smokers": "refused", "fit": "failed"}
    assert len(group.result("a", "smokers")["guarantee"]["honest"]) == 3


@pytest.mark.slow
def test_a_process_that_was_killed_goes_on(tmp_path):
    waits = {"meeting": 300.0, "deadline": 60.0, "patience": 4}
    group = Group(tmp_path, MEANS, FIT, **waits)
    with group.local as run:
        run.start_all()
        seen = group.folder("c") / "out" / "means" / "receipt.json"
        killed = []

        def look():
            if not killed and seen.exists():
                killed.append(run.kill("c"))
                run.start("c")

        codes = run.wait(look)
    assert killed == [True]
    assert set(codes.values()) == {0}, run.last_words("c")
    assert verify_receipts(group.receipts("fit"), group.study.questions["fit"]).good
    shutil.rmtree(tmp_path / "parties")


@pytest.mark.slow
def test_the_example_finds_what_statsmodels_finds(tmp_path):
    """All parties as processes, and their receipts."""
    example = Path(__file__).parents[2] / "examples" / "study.toml"
    told = call("up", example, "--out", tmp_path / "up", "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)["questions"]
    assert [*found] == ["table-one", "radius", "malignant"]
    assert all(one["verified"] for one in found.values())
    rows = pd.concat(breast_cancer(parties=5).values())
    columns = "mean_texture + mean_smoothness"
    radius = smf.ols(f"mean_radius ~ {columns}", rows).fit()
    malignant = smf.logit(f"malignant ~ {columns}", rows).fit(disp=0)
    for name, expected in (("radius", radius), ("malignant", malignant)):
        np.testing.assert_allclose(found[name]["minimiser"], expected.params, rtol=1e-6)
    means = rows[["mean_radius", "mean_smoothness", "mean_texture"]].mean()
    np.testing.assert_allclose(found["table-one"]["minimiser"], means, rtol=1e-9)


# Other commands


@pytest.fixture(scope="module")
def file(four, tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "study.toml"
    write_consortium(path, four.study)
    return path


def call(*words):
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)


def test_a_study_is_shown_with_its_page(four, file):
    told = call("consortium", "show", file)
    assert told.exit_code == 0
    assert consent_to_study(four.study).text() in told.output
    told = call("consortium", "show", file, "--long")
    assert consent_to_study(four.study).page in told.output
    document = json.loads(call("consortium", "show", file, "--json").output)
    assert document["digest"] == four.study.digest.hex()
    assert [*document["consent"]["shared"]["questions"]] == ["means", "old", "older"]


def test_check_holds_all_questions_against_a_table(four, file):
    data = four.folder("a") / "data.csv"
    told = call("check", file, "--data", data)
    assert told.exit_code == 1
    flat = " ".join(told.output.split())
    assert "REFUSED: you may not take part" in flat
    assert "question 'older'" in flat
    assert "leave one out with --without NAME" in flat
    assert call("check", file).exit_code == 0
    own = file.parent / "veilsum.toml"
    own.write_text('jobs = ["model"]\n')
    told = call("check", file, "--own", own)
    assert told.exit_code == 1
    flat = " ".join(told.output.split())
    assert "REFUSED: you may not take part" in flat
    assert "means: jobs = model, and this file has statistics" in flat


def test_a_plan_of_a_study_is_checked_as_one(four, file):
    scenario = four.local.seats["a"].folder.parents[1] / "scenario.toml"
    told = call("check", scenario, "--data", four.folder("a") / "data.csv")
    assert told.exit_code == 1
    assert "CONSENT TO A PLAN OF A STUDY, not yet a run" in told.output
    told = CliRunner().invoke(app, ["stats", str(scenario)])
    assert "several [[question]]: run veilsum up" in told.output
    with refusals.refused("study-not-question"):
        read_plan_file(scenario)


def test_receipts_of_one_question_are_verified_by_the_studys_file(ended, tmp_path):
    group, _ = ended
    path = tmp_path / "study.toml"
    write_consortium(path, group.study)
    outs = [group.folder(name) / "out" for name in NAMES]
    fits = [one / "fit" / "receipt.json" for one in outs]
    assert call("verify", *fits, "--consortium", path).exit_code == 0
    mixed = [fits[0], outs[1] / "means" / "receipt.json"]
    told = CliRunner().invoke(
        app, ["verify", *map(str, mixed), "--consortium", str(path)]
    )
    assert told.exit_code == 2
    assert "about 2 of its questions" in told.output


def test_what_a_study_has_no_use_for_is_said(four, file):
    folder = four.folder("b")
    mine = ("--identity", folder / "b.key", "--data", folder / "data.csv", "--yes")
    told = call("join", file, *mine, "--state", "x", "--out", file.parent / "o")
    assert told.exit_code == 2
    assert "a study has one for each question" in told.stderr
    told = call("join", folder / "nothing.toml", *mine)
    assert told.exit_code == 2
