"""Certificates of a study's members that change: what is over stays over."""

import pytest
import tomli_w
from click.testing import CliRunner

import veilsum as vs
from cases import each
from party.test_joining_studies import PATIENT
from party.test_studying import FIT, MEANS, NAMES, SMOKERS, Group, stages
from refusals import refused
from veilsum.cli.app import app
from veilsum.consortium.study import study_from
from veilsum.errors import InvalidInputError, OutputError
from veilsum.files.consortiums import read_agreement, write_consortium
from veilsum.files.ledger import open_ledger, read_ledger
from veilsum.net.amendment import Amendment, check_amendment, read_amendment
from veilsum.net.receipt import verify_receipts
from veilsum.party.study_page import consent_to_study
from veilsum.party.studying import StudyStatus, begun_study_status, study_at_home
from veilsum.privacy.accountant import Budget

pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


def call(*words):
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)


def done(*words):
    found = call(*words)
    assert found.exit_code == 0, found.output
    return found


class Renewed:
    """Four members, of which b renews its key; their files in one folder."""

    def __init__(self, folder, *questions):
        self.group = Group(folder, *questions, **PATIENT)
        self.one, self.two = folder / "one.toml", folder / "two.toml"
        write_consortium(self.one, self.group.study)

    def key(self, name):
        return self.group.folder(name) / f"{name}.key"

    def amend(self):
        done("identity", "renew", self.key("b"))
        renewal = self.group.folder("b") / "b.renewal.json"
        words = ("amend", self.one, "-o", self.two, "--renewal", renewal)
        told = done("consortium", *words)
        assert "its former key signed the new one" in told.stdout
        return read_agreement(self.two)

    def agree(self, name):
        words = ("--former", self.one, "--identity", self.key(name), "--yes")
        return done("consortium", "agree", self.two, *words)


def test_what_is_over_stays_over_and_what_comes_is_asked_with_the_new_key(tmp_path):
    renewed = Renewed(tmp_path, MEANS)
    group = renewed.group
    first = group.run()
    new = renewed.amend()
    assert (new.run, new.former) == (group.study.run, group.study.digest.hex())
    assert "certificates differ" in " ".join(consent_to_study(new).page.split())
    for name in NAMES:
        with refused("amendment-not-agreed"):
            check_amendment(renewed.two, new)
        renewed.agree(name)
    check_amendment(renewed.two, new)
    more, three = tmp_path / "more.toml", tmp_path / "three.toml"
    more.write_text(tomli_w.dumps({"question": [FIT]}))
    done("study", "extend", renewed.two, more, "-o", three)
    grown = read_agreement(three)
    check_amendment(three, grown)
    found = group.run(study=grown)
    for name in NAMES:
        assert stages(found[name]) == {"means": "finished", "fit": "finished"}
        assert found[name].stages["means"] == first[name].stages["means"]
        runs = [
            one.run
            for one in read_ledger(group.folder(name) / f"{name}.ledger").releases
        ]
        assert runs.count(group.study.questions["means"].run) == 1
        assert grown.questions["means"].run not in runs
    assert verify_receipts(group.receipts("fit"), grown.questions["fit"]).good
    out = group.folder("a") / "out"
    mine = {"identity": renewed.key("a"), "data": out.with_name("data.csv")}
    again = vs.join(three, **mine, out=out)
    assert [*again.answers] == ["fit"], "the other is of the former study"
    kept = read_agreement(out / "means" / "consortium.toml")
    assert kept.digest == group.study.questions["means"].digest
    # The twin: with the certificates of before, b's receipt is somebody else's.
    old = study_from(group.study.grown([FIT]))
    assert not verify_receipts(group.receipts("fit"), old.questions["fit"]).good


@pytest.fixture(scope="module")
def amended(tmp_path_factory, unchecked_shapes):
    del unchecked_shapes
    renewed = Renewed(tmp_path_factory.mktemp("amended"), MEANS, FIT)
    return renewed, renewed.amend()


def signed(group, former, new):
    """What all members sign, whatever it is."""
    made = Amendment(former=former.digest.hex(), consortium=new.digest.hex())
    for name in NAMES:
        identity = vs.read_identity(group.folder(name) / f"{name}.key")
        made = made.signed_by(identity, new)
    return made


@each(
    ("change", "where"),
    [
        (lambda table: {"question": [*table["question"], SMOKERS]}, "question"),
        (lambda table: {"question": table["question"][:1]}, "question"),
        (lambda table: {"policy": {**table["policy"], "tolerate": 0}}, "policy"),
        (lambda table: {"run": "0" * 32}, "run"),
    ],
)
def test_nothing_but_certificates_changes(amended, change, where):
    renewed, new = amended
    before, table = renewed.group.study, new.to_table()
    odd = study_from({**table, **change(table)})
    with refused("more-than-certificates-changed", mentions=(where,)):
        signed(renewed.group, before, odd).changes(before, odd)
    # The twin: the very file that was made.
    (found,) = signed(renewed.group, before, new).changes(before, new)
    assert found.name == "b"


def test_a_study_that_not_all_have_agreed_to_is_not_joined(amended, tmp_path):
    renewed, new = amended
    folder = renewed.group.folder("a")
    mine = ("--identity", folder / "a.key", "--data", folder / "data.csv", "--yes")
    told = call("join", renewed.two, *mine, "--out", tmp_path / "out")
    assert told.exit_code == 2
    assert "did not agree to" in told.stderr
    with refused("amendment-not-agreed"):
        vs.join(renewed.two, identity=folder / "a.key", data=folder / "data.csv")
    with refused("path-needed"):
        vs.join(new, identity=folder / "a.key", data=folder / "data.csv")
    assert not (tmp_path / "out").exists()
    # An amendment of another file, whoever signed it, is none of this one.
    other = study_from({**new.to_table(), "title": "another"})
    write_consortium(tmp_path / "other.toml", other)
    signed(renewed.group, renewed.group.study, new).write(tmp_path / "other.toml")
    read_amendment(tmp_path / "other.amendment.json")
    with refused("amendment-of-other-files"):
        check_amendment(tmp_path / "other.toml", other)


def test_the_folder_of_another_study_is_not_gone_on_with(amended, tmp_path):
    renewed, new = amended
    study = renewed.group.study
    begun_study_status(tmp_path, study, "a").write(tmp_path)
    fresh = begun_study_status(tmp_path, new, "a")
    runs = [one.run for one in fresh.stages.values()]
    assert runs == [one.run for one in new.questions.values()], "open ones begin anew"
    old = begun_study_status(tmp_path, study, "a")
    StudyStatus(**{**old.given(), "run": "0" * 32}).write(tmp_path)
    with refused("status-of-other-study", OutputError):
        begun_study_status(tmp_path, new, "a")
    grown = study_from(study.grown([SMOKERS]))
    (tmp_path / "study.json").unlink()
    begun_study_status(tmp_path, grown, "a").write(tmp_path)
    with refused("status-of-other-study", OutputError):
        begun_study_status(tmp_path, new, "a")  # it would forget a question


def test_what_was_reserved_for_the_former_runs_is_given_back(amended, tmp_path):
    renewed, new = amended
    group, study = renewed.group, renewed.group.study
    with open_ledger(tmp_path / "ledger", create=Budget()) as ledger:
        part = group.part("a", ledger)
        home = study_at_home(study, part.part, "a", ledger, asked=[*study.questions])
        ledger.reserve_all(home.wanted)
        begun_study_status(tmp_path, study, "a").write(tmp_path)
        assert len(ledger.history().pending) == 2
        part = group.part("a", ledger, new, out=tmp_path)

        def stop(page):
            raise InvalidInputError(page.digest)

        with pytest.raises(InvalidInputError):
            part.run(stop)
        assert ledger.history().pending == {}
