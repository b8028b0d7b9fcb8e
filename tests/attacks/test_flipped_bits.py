"""One bit flipped in a file that join, serve or collect leaves, also after kill -9.

The file is refused as damaged, or it gives the state that was acknowledged; never an
older one. SQLite itself ends a log at the first frame with a wrong checksum and says
nothing: the twin shows commits that disappear so.
"""

import os
import random
import shutil
import signal
import sqlite3
import time
import warnings
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cases import each
from contradictions import Accuser
from finished import finished, wards
from ledgers import run as charged_run
from net.test_store import KEY, PLAN
from party.test_transcript_file import MASKS, made
from receipts import Study
from survey_members import identity_of, signing_survey
from surveys import World
from veilsum.errors import VeilsumError
from veilsum.files.ledger import open_ledger
from veilsum.net.evidence import judge_signed_evidence, read_signed_receipt_or_evidence
from veilsum.net.identity import read_identity
from veilsum.net.receipt import (
    read_receipt,
    read_result_beside_receipt,
    verify_receipts,
)
from veilsum.net.store import NetworkRunStore
from veilsum.net.trust import check_certified_identity
from veilsum.party.backup import make_backup, restore_backup
from veilsum.party.own_survey import STORE
from veilsum.party.replay import (
    SUMS,
    read_plain_result,
    read_sums_to_replay,
    result_findings,
)
from veilsum.party.serving import PartyHousehold
from veilsum.party.study_page import study_consent_page
from veilsum.party.surveying import make_survey_part, read_survey_part
from veilsum.party.transcript_file import read_transcript, write_transcript
from veilsum.privacy.accountant import Budget
from veilsum.protocol.effects import Persist
from veilsum.surveys.collection import SurveyGuestCollection
from veilsum.surveys.delegate import SurveyDelegateStore
from veilsum.surveys.store_copy import copy_store, known_in_copy
from veilsum.surveys.survey_set import (
    closed_survey_set,
    read_submissions,
    write_submissions,
)
from veilsum.surveys.terms import survey_terms
from web.test_collecting import submission

pytestmark = [
    pytest.mark.usefixtures("unchecked_shapes"),
    pytest.mark.skipif(os.name != "posix", reason="a matter of POSIX"),
]


def flip(chance, path):
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


# Stores, after kill -9

TERMS = survey_terms(signing_survey())
# Every file of a store that may hold something, by its ending.
ENDINGS = ("", "-wal", "-head", "-shm")


@dataclass(frozen=True)
class Store:
    """How one kind of store is written to and read.

    Attributes:
        open: opens it.
        write: commits what belongs to a number, from 0 on.
        count: returns how many numbers its tables hold.
    """

    open: Any
    write: Any
    count: Any


def open_run(path):
    return NetworkRunStore.open(path, plan=PLAN, party="a", key=KEY)


def write_run(store, number):
    value = number.to_bytes(8, "big") * 90
    store.write([Persist(key, value) for key in ("left", f"n/{number % 7}", "right")])
    if number % 40 == 39:
        store.wipe(("left", "right"))


def count_run(tables):
    entries = dict(tables["entry"])
    assert entries.get("left") == entries.get("right")
    return 1 + int.from_bytes(entries["left"][:8], "big") if entries else 0


def invite(store, number):
    """Make the key of a survey, then invite nine guests to it."""
    if number % 10 == 0:
        store.made = store.new_key()
    else:
        store.vouch(f"Firm {number}", number.to_bytes(32, "big"), store.made)


def take(collection, number):
    guest, nth = f"Firm {number % 12 + 1}", number // 12 + 1
    collection.take(submission(TERMS, guest, nth).to_json().encode())


STORES = {
    "run state": Store(open_run, write_run, count_run),
    "ledger": Store(
        lambda path: open_ledger(path, create=Budget()),
        lambda ledger, number: ledger.charge(charged_run(f"run {number}")),
        lambda tables: sum(kind == "charge" for _, kind, _ in tables["journal"]),
    ),
    "survey store": Store(
        SurveyDelegateStore.open,
        invite,
        lambda tables: len(tables["key"]) + len(tables["invited"]),
    ),
    "collection": Store(
        lambda path: SurveyGuestCollection.open(path, TERMS),
        take,
        lambda tables: len(tables["submission"]),
    ),
}


def closed(kind, folder, chance, most):
    """Write, and close the store; return it, and how many numbers are in it."""
    folder.mkdir()
    path, wanted = folder / "store", chance.randint(1, most)
    store = STORES[kind].open(path)
    for number in range(wanted):
        STORES[kind].write(store, number)
    store.close()
    assert [one.name for one in folder.iterdir()] == ["store"]
    return path, wanted


def killed(kind, folder, chance, most):
    """Write in another process, and kill it at some moment.

    Return the folder's only store, and how many numbers were acknowledged.
    """
    folder.mkdir()
    path, wanted = folder / "store", chance.randint(1, most)
    reader, writer = os.pipe()
    # Where JAX is loaded it warns of forks; the child uses SQLite alone, and is killed.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        child = os.fork()
    if not child:
        try:
            store = STORES[kind].open(path)
            for number in range(most + 100):
                STORES[kind].write(store, number)
                os.write(writer, b".")
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as acknowledged:
        n_seen = len(acknowledged.read(1))
        while n_seen < wanted:
            n_seen += len(acknowledged.read(wanted - n_seen))
        time.sleep(chance.random() * 0.01)
        os.kill(child, signal.SIGKILL)
        while more := acknowledged.read(1000):
            n_seen += len(more)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    return path, n_seen


def tables_of(kind, path):
    """Return all rows of a store that opens without a complaint."""
    STORES[kind].open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}"))
            for (name,) in names.fetchall()
            if name != "head"
        }


class Damage:
    """A store as a process left it, to be damaged many times."""

    def __init__(self, kind, folder, chance, most, leave=killed):
        self.kind, self.chance, self.folder = kind, chance, folder
        self.left, self.n_acknowledged = leave(kind, folder / "left", chance, most)
        self.sound = tables_of(kind, self.put())
        self.n_sound = STORES[kind].count(self.sound)
        assert self.n_sound in (self.n_acknowledged, self.n_acknowledged + 1)

    def put(self, endings=ENDINGS):
        """Put the files into a folder of their own; return the store's path."""
        path = self.folder / "damaged" / "store"
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        for one in map(Path, [f"{self.left}{ending}" for ending in endings]):
            if one.exists():
                shutil.copy(one, path.parent)
        return path

    def flipped(self, ending):
        """Flip a bit of one file; return what comes of it, and its sentence."""
        path = self.put()
        flip(self.chance, Path(f"{path}{ending}"))
        return self.outcome(path)

    def outcome(self, path):
        try:
            found = tables_of(self.kind, path)
        except VeilsumError as error:
            named = "damaged" in str(error) and str(path) in str(error)
            return "refused" if named else f"refused without a name: {error}"
        if found == self.sound:
            return "right"
        # A commit that was under way when the process ended was never acknowledged.
        count = STORES[self.kind].count(found)
        return "right" if self.n_acknowledged <= count < self.n_sound else "older"

    @property
    def endings(self):
        sizes = {one: Path(f"{self.left}{one}") for one in ENDINGS}
        return [one for one, at in sizes.items() if at.exists() and at.stat().st_size]


def flips_of_store(kind, folder, *, stores, flips, most, leave=killed):
    """Return how often each outcome came, by the ending of the file."""
    chance, found = random.Random(f"{kind} 36"), Counter()
    for number in range(stores):
        place = folder / str(number)
        place.mkdir()
        store = Damage(kind, place, chance, most, leave)
        for _ in range(flips):
            ending = chance.choice(store.endings)
            found[ending, store.flipped(ending)] += 1
    return found


@pytest.mark.parametrize("kind", STORES)
def test_a_flipped_bit_after_a_kill_is_named_and_brings_no_older_state(kind, tmp_path):
    found = flips_of_store(kind, tmp_path, stores=2, flips=20, most=12)
    assert {outcome for _, outcome in found} == {"right", "refused"}, found
    # A log is of no use once a bit of a commit in it has changed.
    assert found["-wal", "refused"] > found["-wal", "right"], found


@pytest.mark.parametrize("kind", STORES)
def test_a_flipped_bit_of_a_closed_store_is_named_or_changes_nothing(kind, tmp_path):
    """A bit that changes nothing lies in bytes that SQLite does not use."""
    found = flips_of_store(kind, tmp_path, stores=1, flips=25, most=12, leave=closed)
    assert {outcome for _, outcome in found} == {"right", "refused"}, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORES)
def test_many_flipped_bits_of_closed_stores_are_named_or_change_nothing(kind, tmp_path):
    """800 in all."""
    found = flips_of_store(kind, tmp_path, stores=4, flips=50, most=60, leave=closed)
    print(kind, "closed", dict(found))
    assert {outcome for _, outcome in found} == {"right", "refused"}, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORES)
def test_many_flipped_bits_after_kills_bring_no_older_state(kind, tmp_path):
    """2,000 in all; the log of a run is taken into its file several times meanwhile."""
    most = 500 if kind == "run state" else 150
    found = flips_of_store(kind, tmp_path, stores=20, flips=25, most=most)
    print(kind, dict(found))
    assert {outcome for _, outcome in found} == {"right", "refused"}, found


@pytest.mark.parametrize("kind", STORES)
def test_without_the_head_a_flipped_bit_in_the_log_brings_an_older_state(
    kind, tmp_path
):
    """The twin: SQLite recovers what comes before the bit, and its seal is good."""
    store = Damage(kind, tmp_path, random.Random(f"{kind} twin"), 12)
    found = Counter()
    for _ in range(12):
        path = store.put(("", "-wal"))
        flip(store.chance, Path(f"{path}-wal"))
        found[store.outcome(path)] += 1
    assert found["older"] > 3, found


# Files that are written once


@dataclass(frozen=True)
class Specimen:
    """A sound file, and what is read from it.

    Attributes:
        names_damage: whether nothing else explains a refusal. A signed file or a
            certificate may as well be another one, and the sentence says how.
    """

    path: Path
    read: Any
    names_damage: bool = False

    def outcomes(self, chance, count):
        """Flip bits, one at a time; return how often each outcome came."""
        whole, found = self.path.read_bytes(), Counter()
        expected = self.read(self.path)
        for _ in range(count):
            flip(chance, self.path)
            try:
                found["right" if self.read(self.path) == expected else "older"] += 1
            except VeilsumError as error:
                named = "damaged" in str(error) or not self.names_damage
                found["refused" if named else f"refused without a name: {error}"] += 1
            self.path.write_bytes(whole)
        return found


def shelf(folder):
    """Make a sound file of each kind."""
    ended = finished(wards(folder, model={"formula": "dose ~ age"}), folder)
    ann, out = ended.identities["ann"], ended.out("ann")
    others = [read_receipt(one) for one in ended.receipts()[1:]]

    def identity(_):
        found = read_identity(ann.key_file)
        check_certified_identity(found, ended.agreed.certificates)
        return found.name, found.certificate.split(), found.sign(b"x")

    def verified(_):
        receipts = [read_receipt(out / "receipt.json"), *others]
        result = out / "result.json"
        verdict = verify_receipts(
            receipts, ended.agreed, result=read_result_beside_receipt(result)
        )
        findings = result_findings(
            receipts,
            ended.agreed,
            result=read_plain_result(result),
            sums=read_sums_to_replay(out / SUMS),
        )
        return all_good([*verdict.findings, *findings])

    study = Study(folder / "accused")
    study.folder.mkdir()
    (folder / "evidence.json").write_text(Accuser(study).lie().to_json())

    def accused(path):
        found = judge_signed_evidence(
            read_signed_receipt_or_evidence(path), study.consortium
        )
        if not found.proved:
            raise VeilsumError(found.words)
        return found

    world = World(prepared(folder / "world"))
    sent = world.all_visit(dict.fromkeys(world.codes, 7.0))
    closed = world.closed(sent)
    world.contribution("bob", closed, sent)
    world.close()
    (folder / "submissions.jsonl").write_bytes(write_submissions(sent))
    home = prepared(folder / "home")
    bob = identity_of("bob", home)
    with open_ledger(home / "bob.ledger", create=Budget()) as ledger:
        ledger.charge(charged_run("first"))
    shutil.copy(world.stores["bob"].path, home / STORE)
    make_backup(home, "bob", folder / "backup.tar")
    copy_store(home / STORE, folder / "copied.surveys")

    def restored(path):
        back = folder / "back"
        shutil.rmtree(back, ignore_errors=True)
        restore_backup(path, back)
        found = {one.name: one.read_bytes() for one in back.iterdir()}
        # A copy of a store is made anew, with another salt.
        return {**found, STORE: known_in_copy(back / STORE)}

    served = PartyHousehold(identity=ann)
    served.agree(ended.agreed)
    page = study_consent_page(ended.agreed).digest
    agreed = served.agreed(ended.agreed.run)
    declined = agreed.with_name("declined")
    shutil.copy(agreed, declined)
    with closing(SurveyDelegateStore.open(folder / "new.surveys")) as inviting:
        part, _ = make_survey_part(bob, inviting, ["Firm 1", "Firm 2"])
    (folder / "part.json").write_text(part.to_json())

    def checked_part(path):
        found = read_survey_part(path)
        found.check(bob.certificate)
        return found.to_json().lower()  # a signature may be written in either case

    transcript = folder / "ann.transcript"
    write_transcript(
        transcript, made(MASKS["uniform"], corrupted=["bob"]), bob, run="r"
    )
    return {
        "key": Specimen(ann.key_file, identity, names_damage=True),
        "certificate": Specimen(ann.certificate_file, identity),
        "receipt": Specimen(out / "receipt.json", verified),
        "result": Specimen(out / "result.json", verified),
        "sums": Specimen(out / SUMS, verified),
        "evidence": Specimen(folder / "evidence.json", accused),
        "backup": Specimen(folder / "backup.tar", restored, names_damage=True),
        "copy of a survey store": Specimen(
            folder / "copied.surveys", known_in_copy, names_damage=True
        ),
        "submissions": Specimen(
            folder / "submissions.jsonl",
            lambda path: closed_survey_set(
                closed, read_submissions(path.read_bytes(), closed)
            ),
        ),
        "survey part": Specimen(
            folder / "part.json",
            checked_part,
        ),
        "transcript": Specimen(
            transcript, lambda path: read_transcript(path, bob, run="r")
        ),
        "agreed": Specimen(
            agreed,
            lambda _: served.has_agreed(ended.agreed.run, page),
            names_damage=True,
        ),
        "declined": Specimen(
            declined,
            lambda _: served.has_declined(ended.agreed.run, page),
            names_damage=True,
        ),
    }


def prepared(folder):
    folder.mkdir()
    return folder


def all_good(findings):
    for one in findings:
        if not one.good:
            raise VeilsumError(one.detail)
    return len(findings)


@pytest.fixture(scope="module")
def specimens(tmp_path_factory):
    return shelf(tmp_path_factory.mktemp("shelf"))


KINDS = (
    *("key", "certificate", "receipt", "result", "sums", "evidence", "backup"),
    *("copy of a survey store", "submissions", "survey part", "transcript"),
    *("agreed", "declined"),
)


@each("kind", KINDS)
def test_a_flipped_bit_of_a_file_is_named_or_changes_nothing(kind, specimens):
    found = specimens[kind].outcomes(random.Random(kind), 12)
    assert {*found} <= {"right", "refused"}, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_flipped_bits_of_a_file_are_named_or_change_nothing(kind, specimens):
    """1,040 in all."""
    found = specimens[kind].outcomes(random.Random(f"{kind} 36"), 80)
    print(kind, dict(found))
    assert {*found} <= {"right", "refused"}, found


def test_every_kind_is_there(specimens):
    assert set(KINDS) == set(specimens)
