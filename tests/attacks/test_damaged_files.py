"""Real files of every kind, damaged at random: a sentence each time, never a traceback.

Bytes are flipped, cut, doubled and exchanged; in TOML and JSON also whole values, deep
inside and by others of the wrong kind; in databases also cells. Whatever a reader
raises must be an error of this package. Seeds are fixed.
"""

import base64
import copy
import dataclasses
import json
import random
import re
import sqlite3
import tomllib
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

import refusals
from cases import each
from contradictions import Accuser
from files.test_ledger import filled as filled_ledger
from finished import finished, wards
from net.drops import Office
from net.test_store import KEY, PLAN, filled as filled_run
from party.test_transcript_file import MASKS, made
from receipts import Study
from survey_members import identity_of, signing_survey
from surveys import World
from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.pem import der_of_pem, pem_of_der
from veilsum.errors import InvalidScenarioError, VeilsumError
from veilsum.files.consortiums import (
    read_agreement,
    read_certificate_file,
    read_plan_file,
    write_consortium,
)
from veilsum.files.graphs import read_topology
from veilsum.files.ledger import open_ledger
from veilsum.files.scenarios import read_scenario
from veilsum.files.tables import read_table
from veilsum.minimise.checkpoints import read_checkpoint, write_checkpoint
from veilsum.minimise.large_graphs import read_large_graph_targets
from veilsum.minimise.methods.dgd import DgdState
from veilsum.net.amendment import (
    Amendment,
    amend_agreement,
    amendment_file,
    check_amendment,
    read_amendment,
    read_certificate_renewal,
    renew_signing_identity,
)
from veilsum.net.evidence import (
    Evidence,
    judge_signed_evidence,
    read_signed_receipt_or_evidence,
)
from veilsum.net.identity import read_identity
from veilsum.net.receipt import (
    read_receipt,
    read_result_beside_receipt,
    verify_receipts,
)
from veilsum.net.relay_tokens import new_token, read_token
from veilsum.net.store import NetworkRunStore
from veilsum.party.backup import make_backup, restore_backup
from veilsum.party.own_rules import OwnRules, read_own_rules
from veilsum.party.own_survey import STORE
from veilsum.party.replay import read_plain_result, read_sums_to_replay
from veilsum.party.run_status import RunStatus, read_run_status, write_run_status
from veilsum.party.serving import (
    files_without_open_surveys,
    refusals_of_every_question,
    refusals_to_join_unattended,
    survey_section_of,
)
from veilsum.party.study_page import study_consent_page
from veilsum.party.studying import (
    STATUS as STUDY_STATUS,
    read_study_status as read_study_status,
)
from veilsum.party.surveying import (
    invitation_codes_file,
    make_survey_part,
    read_guest_names,
    read_invitation_codes,
    read_survey_part,
)
from veilsum.party.transcript_file import read_transcript, write_transcript
from veilsum.surveys.delegate import SurveyDelegateStore
from veilsum.surveys.store_copy import copy_store, known_in_copy
from veilsum.surveys.survey_set import read_submissions, write_submissions

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

ROOT = Path(__file__).parents[2]
WHEN = "2030-01-31T12:00:00+00:00"


@dataclass(frozen=True)
class Specimen:
    """A sound file, and the function that reads it."""

    path: Path
    read: Any
    whole: bytes

    @property
    def table(self):
        """Its values, if it is TOML or JSON."""
        with suppress(ValueError, UnicodeDecodeError, RecursionError):
            if self.path.suffix == ".toml":
                return tomllib.loads(self.whole.decode())
            if self.path.suffix == ".json":
                return json.loads(self.whole)
        return None

    def put(self, content):
        for ending in ("-wal", "-shm", "-journal", "-head"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        self.path.write_bytes(content)


def served(path):
    """Read a file as a party does that stays up."""
    agreed = read_agreement(path)
    survey_section_of(agreed)
    files_without_open_surveys([(path, agreed)])
    refusals_of_every_question(OwnRules(), agreed)
    refusals_to_join_unattended(OwnRules(), agreed)
    return study_consent_page(agreed)


def opened_ledger(path):
    with open_ledger(path) as ledger:
        return ledger.history(), ledger.totals()


def opened_run(path):
    with closing(NetworkRunStore.open(path, plan=PLAN, party="a", key=KEY)) as store:
        return store.read()


def arrays_of(path):
    found = read_large_graph_targets(path)
    return np.array(found)


def letters_in(office, name):
    """Have a party look at all letters in its folder."""

    def read(_):
        office.stores[name].entries.clear()
        office.visit(name)

    return read


def shelf(folder):
    """Make one sound file of every kind; return each with its reader."""
    kinds = {}

    def add(kind, path, read):
        kinds[kind] = Specimen(path, read, path.read_bytes())

    def place(name):
        (folder / name).mkdir()
        return folder / name

    # What an organiser writes.
    fitted = {"model": {"formula": "dose ~ age"}}
    ended = finished(wards(folder, **fitted), folder)
    add("consortium", folder / "ann" / "consortium.toml", served)
    add("scenario", folder / "plan.toml", read_plan_file)
    cost = consortium_from(Study(place("study")).consortium.to_table())
    write_consortium(folder / "cost.toml", cost)
    add("consortium with a cost", folder / "cost.toml", served)
    average = folder / "average.toml"
    average.write_bytes((ROOT / "examples" / "average.toml").read_bytes())
    add("scenario with a cost", average, read_scenario)
    aside = place("asked")
    questions = [
        {"name": "fit", "model": {"formula": "dose ~ age"}},
        {"name": "means", "statistics": {"columns": ["age", "dose"]}},
    ]
    studied = finished(wards(aside, question=questions), aside)
    add("study", aside / "ann" / "consortium.toml", served)
    out = studied.out("ann")
    add("study status", out / STUDY_STATUS, lambda path: read_study_status(path.parent))
    write_consortium(folder / "survey.toml", signing_survey())
    add("survey", folder / "survey.toml", served)

    # What a run leaves.
    left = ended.out("ann")
    others = [read_receipt(one) for one in ended.receipts()[1:]]

    def verified(path):
        found = read_signed_receipt_or_evidence(path)
        if isinstance(found, Evidence):
            return judge_signed_evidence(found), judge_signed_evidence(found, cost)
        return verify_receipts([found, *others], ended.agreed).to_dict()

    add("receipt", left / "receipt.json", verified)
    add(
        "result",
        left / "result.json",
        lambda path: (read_plain_result(path), read_result_beside_receipt(path)),
    )
    add("sums", next(left.glob("*sums*")), read_sums_to_replay)
    accuser = Accuser(Study(place("accused")))
    evidence = folder / "evidence.json"
    evidence.write_text(accuser.lie().to_json())
    add("evidence", evidence, verified)
    status = RunStatus(
        run="r", party="a", consortium="", state="done", file="f", moved=WHEN, seen=WHEN
    )
    write_run_status(folder / "a.status.json", status)
    add("status", folder / "a.status.json", read_run_status)

    # Identities, and how they change.
    ann = ended.identities["ann"]
    add("key", ann.key_file, read_identity)
    add("certificate", ann.certificate_file, read_identity_of)
    former = ended.agreed
    renew_signing_identity(ann, days=30, passphrase=None)
    renewal = ann.key_file.with_name("ann.renewal.json")
    add("renewal", renewal, read_certificate_renewal)
    fresh = read_identity(ann.key_file)
    kinds["key"] = Specimen(ann.key_file, read_identity, ann.key_file.read_bytes())
    kinds["certificate"] = Specimen(
        ann.certificate_file, read_identity_of, ann.certificate_file.read_bytes()
    )
    new = amend_agreement(former, {"ann": fresh.certificate})
    file = folder / "new.toml"
    write_consortium(file, new)
    amendment = Amendment(
        former=former.digest.hex(),
        consortium=new.digest.hex(),
        renewals=(read_certificate_renewal(renewal),),
    )
    for one in (fresh, *(ended.identities[name] for name in ("bob", "cem", "dee"))):
        amendment = amendment.signed_by(one, new)
    amendment.write(file)

    def amending(path):
        found = read_amendment(path)
        found.missing(new)
        found.changes(former, new)
        check_amendment(file, new)

    add("amendment", amendment_file(file), amending)
    new_token(folder / "relay.token")
    add("relay token", folder / "relay.token", read_token)
    (folder / "veilsum.toml").write_text(
        'columns = ["age"]\njobs = ["statistics"]\n[floors]\nminimum_rows = 9\n'
    )
    add("own rules", folder / "veilsum.toml", read_own_rules)

    # Databases, and their copies.
    book = folder / "a.ledger"
    filled_ledger(book)
    add("ledger", book, opened_ledger)
    filled_run(folder / "a.run")
    add("state of a run", folder / "a.run", opened_run)
    world = World(place("world"))
    sent = world.all_visit(dict.fromkeys(world.codes, 7.0))
    closed = world.closed(sent)
    for name in ("ann", "bob"):
        world.contribution(name, closed, sent)
    world.close()

    def examined(path):
        with closing(SurveyDelegateStore.open(path)) as store:
            return store.answered(), store.examine(closed, "ann", sent)

    add("survey store", world.stores["ann"].path, examined)
    copied = folder / "copied.surveys"
    copy_store(world.stores["bob"].path, copied)
    add("copy of a store", copied, known_in_copy)
    home = place("home")
    member = identity_of("bob", home)
    filled_ledger(home / "bob.ledger")
    (home / STORE).write_bytes(world.stores["bob"].path.read_bytes())
    (home / STORE).chmod(0o600)
    backup = folder / "backup.tar"
    make_backup(home, "bob", backup)

    def restored(path):
        back = folder / "back"
        try:
            restore_backup(path, back)
        finally:
            for one in [*back.glob("*")]:
                one.unlink()

    add("backup", backup, restored)

    # Surveys, beside their files.
    lines = folder / "submissions.jsonl"
    lines.write_bytes(write_submissions(sent[:2]))
    add(
        "submissions",
        lines,
        lambda path: read_submissions(path.read_bytes(), world.terms),
    )
    with closing(SurveyDelegateStore.open(folder / "new.surveys")) as inviting:
        part, codes = make_survey_part(member, inviting, ["Firm 1", "Firm 2"])
    (folder / "part.json").write_text(part.to_json())
    add(
        "survey part",
        folder / "part.json",
        lambda path: read_survey_part(path).check(member.certificate),
    )
    (folder / "codes.csv").write_bytes(invitation_codes_file(codes))
    add("codes", folder / "codes.csv", read_invitation_codes)
    (folder / "names.txt").write_text("Firm 1\nFirm 2\n")
    add("names", folder / "names.txt", read_guest_names)

    # Numbers.
    transcript = folder / "ann.transcript"
    write_transcript(
        transcript, made(MASKS["uniform"], corrupted=["bob"]), member, run="r"
    )
    add("transcript", transcript, lambda path: read_transcript(path, member, run="r"))
    state, checkpoint = DgdState(np.ones((3, 2)), 5), folder / "state.npz"
    write_checkpoint(checkpoint, "d", state)
    add("checkpoint", checkpoint, lambda path: read_checkpoint(path, "d", state))
    np.save(folder / "targets.npy", np.arange(12.0).reshape(6, 2))
    add("targets", folder / "targets.npy", arrays_of)
    links = np.array([[0, 1], [1, 2], [0, 2]])
    np.save(folder / "links.npy", links)
    add("links", folder / "links.npy", read_topology)
    np.savez_compressed(folder / "links.npz", ends=links)
    add("packed links", folder / "links.npz", read_topology)
    (folder / "graph.json").write_text(
        '{"nodes": [{"id": "a"}, {"id": "b"}], '
        '"links": [{"source": "a", "target": "b"}]}'
    )
    add("graph", folder / "graph.json", read_topology)
    (folder / "graph.txt").write_text("a b 2\nb c 1\n")
    add("edge list", folder / "graph.txt", read_topology)
    add("table", folder / "ann.csv", read_table)
    frame = pd.DataFrame({"x": range(9), "y": ["a", "b", "c"] * 3})
    frame.to_csv(folder / "packed.csv.gz", index=False)
    add("packed table", folder / "packed.csv.gz", read_table)
    frame.to_parquet(folder / "table.parquet")
    add("parquet", folder / "table.parquet", read_table)

    # Letters.
    office = Office(folder / "office")
    office.meet()
    office.visit("a")
    (first,) = office.folder("a").glob("b-to-a-*")
    add("letter", first, letters_in(office, "a"))
    return kinds


def read_identity_of(path):
    read_certificate_file(path)
    return read_identity(path.with_suffix(".key"))


# Damage

WORDS = [
    *(b"-1", b"0", b"1e999", b"nan", b"99999999999999999999", b"\xff\xfe", b"\x00"),
    *(b"[]", b"{}", b'""', b"[[[[", b"{{{{", b"true", b"null", b"\n", b"=", b"'''"),
    *(b"\xed\xa0\x80", b"\xc3", b"1" * 5000, b"[" * 3000, b'{"a":' * 3000, b"a." * 200),
    *(b"2030-01-31", b"inf", b"0x_1", b"\r", b"\\ud800", b"\\u0000", b"-----BEGIN"),
]
VALUES = [
    *(None, True, False, 0, -1, 2**63, 2**64, 10**30, 1e308, -0.0, 0.5, "", "a", " "),
    *("\x00", "\ud800", "a" * 300, "-1", "nan", [], {}, [[]], [None], ["a"], [0], [""]),
    *({"a": 1}, {"": {}}, [[["a"]]], float("inf"), float("nan"), "0" * 64, "00" * 64),
    *([1, 2], [[1, 2]], [["a", "b"]], ["a", "a"], "2030-01-31", "é" * 9, "\u202e"),
]


def damaged_bytes(chance, whole):
    """Flip, cut, double, exchange or put in some bytes."""
    content = bytearray(whole)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        size = len(content)
        at = chance.randrange(size + 1)
        to = min(size, at + chance.choice((1, 1, 2, 8, 64, 1000)))
        match chance.randrange(7):
            case 0 if at < size:
                content[at] ^= 1 << chance.randrange(8)
            case 1 if at < size:
                content[at] = chance.randrange(256)
            case 2:
                del content[at:to]
            case 3:
                content[at:at] = content[at:to]
            case 4:
                del content[at:]
            case 5:
                content[at:to] = chance.choice(WORDS)
            case _:
                content[at:to] = chance.randbytes(to - at)
    return bytes(content)


def places(node):
    """Every place in nested values, as (container, key)."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in pairs:
        yield node, key
        if isinstance(value, dict | list):
            yield from places(value)


def damaged_certificate(chance, text):
    """Flip a byte inside the certificate: its frame is still sound."""
    raw = bytearray(der_of_pem(text))
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    return pem_of_der(bytes(raw))


def damaged_text(chance, text):
    if text.startswith("-----BEGIN CERTIFICATE") and chance.random() < 0.7:
        with suppress(VeilsumError):  # no certificate any more
            return damaged_certificate(chance, text)
    with suppress(ValueError):  # Base64 of something
        if len(text) > 40 and chance.random() < 0.5:
            inner = base64.b64decode(text, validate=True)
            return base64.b64encode(damaged_bytes(chance, inner)).decode()
    changed = damaged_bytes(chance, text.encode("utf-8", "surrogatepass"))
    return changed.decode("utf-8", "replace")


def damaged_table(chance, table):
    """Exchange, take out, double or move values of a table."""
    table = json.loads(json.dumps(table))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if not (known := list(places(table))):
            return table
        node, key = chance.choice(known)
        value = node[key]
        match chance.randrange(6):
            case 0:
                del node[key]
            case 1 if isinstance(value, str):
                node[key] = damaged_text(chance, value)
            case 2 if isinstance(value, list | str):
                node[key] = value * 2
            case 2 if isinstance(value, int | float):
                node[key] = -value
            case 3:
                other, theirs = chance.choice(known)
                with suppress(KeyError, IndexError):
                    node[key] = json.loads(json.dumps(other[theirs]))
            case 4 if isinstance(value, dict | list) and value:
                value.clear()
            case 5 if isinstance(node, dict):
                node[chance.choice(("name", "kind", "x", "", "format"))] = node.pop(key)
            case _:
                node[key] = copy.deepcopy(chance.choice(VALUES))
    return table


def without_none(node):
    """TOML has no null."""
    if isinstance(node, dict):
        return {k: without_none(v) for k, v in node.items() if v is not None}
    if isinstance(node, list):
        return [without_none(one) for one in node if one is not None]
    return node


def damaged_cell(chance, specimen):
    """Change a cell of a database by its own means."""
    specimen.put(specimen.whole)
    with closing(sqlite3.connect(specimen.path)) as found:
        tables = found.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        table = chance.choice([one for (one,) in tables])
        columns = [row[1] for row in found.execute(f"PRAGMA table_info({table})")]
        rows = [one for (one,) in found.execute(f"SELECT rowid FROM {table}")]
        column = chance.choice(columns)
        value = chance.choice(
            (None, 0, -1, 2**62, 0.5, "", "a", b"", b"\xff\xfe", b"{}")
        )
        if rows and chance.random() < 0.9:
            row = chance.choice(rows)
            (old,) = found.execute(
                f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)
            ).fetchone()
            if isinstance(old, bytes | str) and chance.random() < 0.5:
                raw = old if isinstance(old, bytes) else old.encode()
                value = damaged_bytes(chance, raw)
            cast = "CAST(? AS TEXT)" if isinstance(old, str) else "?"
            with suppress(sqlite3.IntegrityError):
                found.execute(
                    f"UPDATE {table} SET {column} = {cast} WHERE rowid = ?",
                    (value, row),
                )
        elif rows:
            found.execute(
                f"DELETE FROM {table} WHERE rowid = ?", (chance.choice(rows),)
            )
        found.commit()
        found.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return specimen.path.read_bytes()


def damaged(chance, specimen):
    """Return the file's bytes after some damage."""
    table = specimen.table
    if table is not None and chance.random() < 0.6:
        made = damaged_table(chance, table)
        if specimen.path.suffix == ".json":
            return json.dumps(made).encode("utf-8", "surrogatepass")
        with suppress(TypeError, ValueError, AttributeError):
            return tomli_w.dumps(without_none(made)).encode("utf-8", "surrogatepass")
    if specimen.whole.startswith(b"SQLite") and chance.random() < 0.5:
        with suppress(sqlite3.Error):
            return damaged_cell(chance, specimen)
    if specimen.whole.startswith(b"-----BEGIN CERT") and chance.random() < 0.5:
        return damaged_certificate(chance, specimen.whole.decode()).encode()
    return damaged_bytes(chance, specimen.whole)


def tried(specimen, content):
    """Read a damaged file: "" if it was taken, or the sentence."""
    specimen.put(content)
    try:
        specimen.read(specimen.path)
    except VeilsumError as error:
        return str(error) or "an error without words"
    return ""


@pytest.fixture(scope="module")
def specimens(tmp_path_factory):
    return shelf(tmp_path_factory.mktemp("shelf"))


def refused(specimen, kind, count):
    """Damage a file so many times; return how often its reader refused it."""
    chance = random.Random(f"{kind} 35")
    try:
        return sum(
            bool(tried(specimen, damaged(chance, specimen))) for _ in range(count)
        )
    finally:
        specimen.put(specimen.whole)


def kinds_of_files():
    """Their names, without making any."""
    source = Path(__file__).read_text("utf-8")
    return re.findall(r'add\(\s*"([a-z ]+)"', source)


@each("kind", kinds_of_files())
def test_a_damaged_file_is_refused_in_a_sentence(kind, specimens):
    specimen = specimens[kind]
    assert tried(specimen, specimen.whole) == "", "the file was sound"
    # Letters that cannot be read are left out one by one, and the party waits.
    assert refused(specimen, kind, 60) > 0 or kind == "letter"


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds_of_files())
def test_many_damaged_files_are_refused_in_a_sentence(kind, specimens):
    """100,000 in all."""
    each = -(-100_000 // len(specimens))
    assert refused(specimens[kind], kind, each) > 0 or kind == "letter"


def test_every_kind_is_there(specimens):
    assert sorted({*kinds_of_files()}) == sorted(specimens)


def test_a_reader_without_a_guard_is_found(specimens):
    """The twin: the same damage, read by json and msgspec alone."""
    plain = dataclasses.replace(
        specimens["receipt"], read=lambda path: json.loads(path.read_bytes())["plan"]
    )
    with pytest.raises((ValueError, LookupError, TypeError)):
        refused(plain, "receipt", 60)


@pytest.mark.parametrize("heading", ["domain", "cost", "schema", "survey"])
def test_an_empty_section_is_named(heading, specimens, tmp_path):
    """An empty [domain] once ended every party that stayed up."""
    kind = {"schema": "consortium", "survey": "survey"}.get(
        heading, "consortium with a cost"
    )
    table = tomllib.loads(specimens[kind].whole.decode())
    path = tmp_path / "empty.toml"
    path.write_text(tomli_w.dumps({**table, heading: {}}))
    with refusals.refused("empty-section", InvalidScenarioError, mentions=(heading,)):
        read_agreement(path)
