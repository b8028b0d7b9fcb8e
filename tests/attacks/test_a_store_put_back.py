"""An old store of surveys, put back: it must not forget a set, nor bring back a key.

Twelve guests are added up. A later survey asks all of them but one: the difference of
both totals is that guest's number. A delegate's store refuses the second set, as long
as it remembers the first.
"""

import io
import shutil
import sqlite3
import tarfile
from contextlib import closing

import pytest

from refusals import refused
from surveyors import Surveyors
from surveys import MEMBERS, World
from veilsum.consortium.consortium import consortium_from
from veilsum.errors import BudgetError, InvalidInputError, StoreError
from veilsum.files.consortiums import write_consortium
from veilsum.party import backup
from veilsum.party.backup import (
    CHECKSUMS,
    _party_backup_checksums,
    make_backup,
    restore_backup,
    resume_party_surveys,
)
from veilsum.party.own_survey import STORE
from veilsum.surveys.delegate import (
    SurveyDelegateStore,
    is_delegate_store_copy,
    survey_to_answer,
)
from veilsum.surveys.store_copy import copy_store, known_in_copy, put_store_copy_in_use
from veilsum.surveys.survey_set import survey_set_of, write_submissions
from veilsum.surveys.terms import survey_closing_entries

VALUES = {f"Firm {k + 1}": 100 + k for k in range(12)}


def place(world, name):
    return world.folder / f"{name}.surveys"


def put_back(world, kept, suffix):
    """Everybody's disk is an old one again."""
    world.close()
    for name in MEMBERS:
        place(world, name).unlink()
        shutil.copy(kept / f"{name}{suffix}", place(world, name))


def first_survey(world, kept, copying, suffix):
    """Copies are made, then all twelve are added up; return their total and the set."""
    kept.mkdir()
    for name in MEMBERS:
        copying(place(world, name), kept / f"{name}{suffix}")
    sent = world.all_visit(VALUES)
    terms = world.closed(sent)
    total = world.total(terms, sent)
    for store in world.stores.values():
        store.finish(terms)
    return total, survey_to_answer(terms, survey_set_of(terms, sent))


def all_but_firm_1(world):
    """A year later the first one is not asked."""
    world.stores = {
        name: SurveyDelegateStore.open(place(world, name)) for name in MEMBERS
    }
    world.open_survey(title="Wages, a year later")
    sent = world.all_visit({k: v for k, v in VALUES.items() if k != "Firm 1"})
    return world.total(world.closed(sent), sent)


def plainly(path, to):
    """A copy by other means, which does not know that it is one."""
    with closing(sqlite3.connect(path)) as file, closing(sqlite3.connect(to)) as other:
        file.backup(other)
    to.chmod(0o600)


def test_an_old_store_forgets_a_set_and_shows_a_guest(tmp_path):
    """The twin: what a plain copy costs."""
    world = World(tmp_path)
    total, _ = first_survey(world, tmp_path / "kept", plainly, ".old")
    put_back(world, tmp_path / "kept", ".old")
    assert total[-1] - all_but_firm_1(world)[-1] == 100 * VALUES["Firm 1"]
    world.close()


def test_a_store_from_a_backup_adds_nothing_before_it_knows_the_set_again(tmp_path):
    world = World(tmp_path)
    _, forgotten = first_survey(world, tmp_path / "kept", copy_store, ".copy")
    put_back(world, tmp_path / "kept", ".copy")
    with refused("store-from-backup", StoreError):
        SurveyDelegateStore.open(place(world, "ann"))
    for name in MEMBERS:
        put_store_copy_in_use(place(world, name), [forgotten])
    with refused("guest-set-differs-little", BudgetError, mentions=("1",)):
        all_but_firm_1(world)
    with refused("store-in-use", StoreError):
        put_store_copy_in_use(place(world, "ann"), [])
    world.close()


def private_keys(path):
    with closing(sqlite3.connect(path)) as file:
        return [row[0] for row in file.execute("SELECT private FROM key")]


def test_a_copy_has_no_key_and_the_twin_has(tmp_path):
    world = World(tmp_path)
    (secret,) = private_keys(place(world, "ann"))
    for copying, name in ((copy_store, "copy"), (plainly, "plain")):
        copying(place(world, "ann"), tmp_path / name)
        assert (secret in (tmp_path / name).read_bytes()) == (name == "plain")
    assert private_keys(tmp_path / "copy") == [None]
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0
    # What it knows of invitations comes along.
    world.close()
    put_store_copy_in_use(tmp_path / "copy", [])
    with (
        closing(SurveyDelegateStore.open(tmp_path / "copy")) as again,
        refused("survey-over"),
    ):
        again.check_file(world.terms, "ann")


def test_another_set_of_a_known_survey_is_not_written_down(tmp_path):
    world = World(tmp_path)
    _, known = first_survey(world, tmp_path / "kept", copy_store, ".copy")
    copy_store(place(world, "ann"), tmp_path / "newer")
    assert known_in_copy(tmp_path / "newer") == {(known.survey, known.set)}
    other = type(known)(known.survey, "0" * 64, known.guests, known.persons)
    with refused("other-set-added", StoreError):
        put_store_copy_in_use(tmp_path / "newer", [other])
    assert is_delegate_store_copy(tmp_path / "newer")
    put_store_copy_in_use(tmp_path / "newer", [known])
    with closing(SurveyDelegateStore.open(tmp_path / "newer")) as again:
        assert again.answered() == (known,)
    world.close()


# A member's folder


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory):
    """A member's folder, of which a backup was made before a survey was added up."""
    folder = tmp_path_factory.mktemp("surveyed")
    company = Surveyors(folder)
    home = company.folder("ann")
    make_backup(home, "ann", folder / "before")
    found = company.run()
    return company, folder, home, found


def restored(surveyed, tmp_path, *, file):
    """Put it back, with the receipt of what came after, and perhaps the closed file."""
    company, folder, _, found = surveyed
    new = tmp_path / "new"
    restore_backup(folder / "before", new)
    out = new / "wages"
    out.mkdir()
    (receipt,) = (one for one in company.receipts(found) if one.party == "ann")
    (out / "receipt.json").write_text(receipt.to_json())
    if file:
        write_consortium(out / "closed.toml", company.consortium)
        shutil.copy(company.folder("ann") / "submissions.jsonl", out)
    return new / STORE, out


def test_a_receipt_tells_of_a_survey_that_the_store_has_forgotten(surveyed, tmp_path):
    store, out = restored(surveyed, tmp_path, file=True)
    company, *_ = surveyed
    with pytest.raises(InvalidInputError, match=company.consortium.run):
        resume_party_surveys(store)
    assert is_delegate_store_copy(store)
    assert resume_party_surveys(store, [out]) == ("Wages",)
    with closing(SurveyDelegateStore.open(store)) as again:
        (known,) = again.answered()
    assert known.set == company.consortium.question.set
    assert len(known.guests) == len(company.guests)


def test_what_nobody_has_any_more_is_named(surveyed, tmp_path):
    store, _ = restored(surveyed, tmp_path, file=False)
    run = surveyed[0].consortium.run
    with refused("survey-not-known"):
        resume_party_surveys(store)
    assert resume_party_surveys(store, (), [run]) == ()


def with_a_false_set(surveyed, tmp_path):
    """The host hands out another set of the survey; the true file lies by the store."""
    company, *_ = surveyed
    store, out = restored(surveyed, tmp_path, file=True)
    told = tmp_path / "told"
    told.mkdir()
    few = company.submissions[1:]
    chosen = survey_set_of(company.open_terms, few)
    closing = survey_closing_entries(company.open_terms, chosen.digest, chosen.tally)
    survey = {**company.table["survey"], **closing}
    false = consortium_from({**company.table, "survey": survey})
    write_consortium(told / "closed.toml", false)
    (told / "submissions.jsonl").write_bytes(write_submissions(few))
    return store, out, told


def test_a_false_set_is_not_believed_beside_the_true_file(surveyed, tmp_path):
    """It would let a later survey differ from the true set by one guest."""
    store, out, told = with_a_false_set(surveyed, tmp_path)
    with refused("set-not-known"):
        resume_party_surveys(store, [told])
    assert is_delegate_store_copy(store)
    assert resume_party_surveys(store, [out]) == ("Wages",)


def by_survey_alone(path):
    """What a copy knows, whatever set is asked for."""
    return EverySet(known_in_copy(path))


class EverySet(frozenset):
    """Pairs of a survey and a set, of which the first alone is looked at."""

    def __or__(self, other):
        return EverySet(frozenset(self) | other)

    def __contains__(self, pair):
        return pair[0] in {survey for survey, _ in self}


def test_who_looks_at_the_survey_alone_takes_the_false_set(
    surveyed, tmp_path, monkeypatch
):
    """The twin: the store knows the survey, and has forgotten a guest of its set."""
    monkeypatch.setattr(backup, "known_in_copy", by_survey_alone)
    monkeypatch.setattr(backup, "_check_same_set", lambda *_: None)
    store, _, told = with_a_false_set(surveyed, tmp_path)
    assert resume_party_surveys(store, [told]) == ("Wages",)
    with closing(SurveyDelegateStore.open(store)) as again:
        (known,) = again.answered()
    assert known.set != surveyed[0].consortium.question.set
    assert set(surveyed[0].guests) - set(known.guests) == {"Firm 1"}


def test_submissions_that_are_not_the_sets_are_not_believed(surveyed, tmp_path):
    store, out = restored(surveyed, tmp_path, file=True)
    path = out / "submissions.jsonl"
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[:-1]) + b"\n")
    with refused("submissions-differ"):
        resume_party_surveys(store, [out])
    assert is_delegate_store_copy(store)


def test_a_store_that_somebody_made_of_the_copy_is_a_copy_again(surveyed, tmp_path):
    """Whoever changes the backup cannot make it forget that it is one."""
    _, folder, home, _ = surveyed
    packed = tmp_path / "changed"
    plainly(home / STORE, tmp_path / "plain")
    with tarfile.open(folder / "before") as old:
        files = {one.name: old.extractfile(one).read() for one in old}
    del files[CHECKSUMS]
    files[STORE] = (tmp_path / "plain").read_bytes()
    files[CHECKSUMS] = _party_backup_checksums(files)
    with tarfile.open(packed, "w", format=tarfile.GNU_FORMAT) as new:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            new.addfile(entry, io.BytesIO(content))
    restore_backup(packed, tmp_path / "new")
    assert is_delegate_store_copy(tmp_path / "new" / STORE)
    assert private_keys(tmp_path / "new" / STORE) == [None]
