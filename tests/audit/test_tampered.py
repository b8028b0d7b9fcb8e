"""Records and transcripts that somebody has changed: refused, or said to differ.

Nothing in them gives a terminal orders, ends in a traceback or passes for a replay.
"""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import veilsum as vs
from audit.test_record import QUICK, SCENARIO
from party.test_transcript_file import MASKS, made
from refusals import refused
from veilsum.audit import auditing
from veilsum.audit.attack import Scene
from veilsum.audit.own_run import check_run_audited
from veilsum.cli import audit as command
from veilsum.cli.app import app
from veilsum.net.identity import new_identity, read_identity
from veilsum.party import transcript_file
from veilsum.party.audit_record import SIGNED, AuditRecord, read_audit_record
from veilsum.party.transcript_file import read_transcript

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

ORDER = "\x1b]0;owned\x07\x1b[2J\u202e"


@pytest.fixture(name="audited", scope="module")
def audited_fixture(tmp_path_factory):
    """One real audit, signed by `a`: its folder, and what the command made of it."""
    folder = tmp_path_factory.mktemp("audited")
    (folder / "offices.toml").write_text(SCENARIO)
    for name in ("a", "b"):
        new_identity(name, folder / name)
    kept, really = [], command._run_audit_command

    def keeping(*given):
        kept.append(really(*given))
        return kept[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_run_audit_command", keeping)
        patch.setattr(command, "_draw_audit_figure", lambda name, draw: {})
        patch.setattr(auditing, "PLANTED", {})  # which take long, and write no more
        key = next((folder / "a").glob("*.key"))
        found = run(folder, *QUICK, "--out", folder, "--identity", key)
    assert found.exit_code == 0, found.output
    return folder, kept[0]


def run(folder, *words):
    words = [str(folder / "offices.toml"), *map(str, words)]
    return CliRunner().invoke(app, ["audit", *words])


def replayed(audited, content, patch):
    """What a replay says of a record; what it computes is what was computed before."""
    folder, computed = audited
    patch.setattr(command, "_run_audit_command", lambda *given: computed)
    patch.setattr(command, "_draw_audit_figure", lambda name, draw: {})
    text = content if isinstance(content, str) else AuditRecord(content).to_json()
    path = folder / "changed.json"
    path.write_text(text)
    found = run(folder, "--replay", path, "--out", folder / "again")
    assert found.exception is None or isinstance(found.exception, SystemExit)
    assert "\x1b" not in found.output
    assert "\u202e" not in found.output
    assert len(found.output) < 20_000
    return found


def content_of(audited):
    return json.loads((audited[0] / "audit.json").read_text())


def test_an_unchanged_record_is_repeated_and_whose_word_it_is_is_said(
    audited, monkeypatch
):
    found = replayed(audited, content_of(audited), monkeypatch)
    assert found.exit_code == 0
    assert "the replay has the same bytes" in found.output
    assert "a certificate that calls itself a (" in found.output


def leaves(value, path=()):
    """Every place of a record that holds no other."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else None
    )
    if inside is None or not value:
        yield path
        return
    for key, one in inside:
        yield from leaves(one, (*path, key))


def put(content, path, value):
    for key in path[:-1]:
        content = content[key]
    content[path[-1]] = value


def test_no_changed_place_passes_for_the_record_of_its_signer(audited, monkeypatch):
    """Every kind of place, the first of each list: all that is left is unsigned."""
    places = [
        one
        for one in leaves(content_of(audited))
        if all(key in (0, 1) for key in one if isinstance(key, int))
    ]
    assert len(places) > 60
    for path in places:
        content = content_of(audited)
        put(content, path, ORDER)
        found = replayed(audited, content, monkeypatch)
        assert found.exit_code in {1, 2}, path
        if found.exit_code == 1:
            assert "signature does not hold" in found.output


def test_an_unsigned_record_passes_only_with_the_same_content(audited, monkeypatch):
    whole = {k: v for k, v in content_of(audited).items() if k not in SIGNED}
    found = replayed(audited, whole, monkeypatch)
    assert found.exit_code == 0
    assert "the record is not signed" in found.output
    for path in leaves(whole):
        if path[0] in {"clock", "made_with"}:
            continue
        content = json.loads(json.dumps(whole))
        put(content, path, 10**30)
        other = AuditRecord(content)
        assert AuditRecord(whole).difference(other) is not None, path
    # 1, 1.0 and true are equal, and other bytes.
    content["audit"]["seed"] = float(whole["audit"]["seed"])
    assert AuditRecord(whole).difference(AuditRecord(content)) is not None


def test_other_versions_are_said_and_a_forged_clock_stays_in_its_place(
    audited, monkeypatch
):
    content = content_of(audited)
    content = {key: one for key, one in content.items() if key not in SIGNED}
    content["made_with"]["numpy"] = f"0.1{ORDER}"
    content["clock"] = [f"all is well {ORDER}"]
    found = replayed(audited, content, monkeypatch)
    assert "was made with numpy 0.1" in found.output
    assert "versions and what a clock said are copied" in found.output
    assert "all is well" not in found.output


def resigned(audited, name, **changes):
    folder, _ = audited
    identity = read_identity(next((folder / name).glob("*.key")))
    return AuditRecord({**content_of(audited), **changes}).signed_by(identity)


def test_a_record_signed_by_another_is_not_the_first_one_s_word(audited, monkeypatch):
    other = resigned(audited, "b")
    assert other.is_signed
    # In a's name, with b's key.
    forged = {**other.content, "party": "a"}
    assert not AuditRecord(forged).is_signed
    assert replayed(audited, forged, monkeypatch).exit_code == 1
    members = {"b": content_of(audited)["certificate"]}
    good, words = other.signed_words(members)
    assert not good
    assert "not with the certificate that the file has" in words


def test_a_changed_record_that_its_signer_signs_still_differs(audited, monkeypatch):
    said = content_of(audited)["audit"]
    said["outcomes"][0]["successes"] += 1
    found = replayed(audited, resigned(audited, "a", audit=said).content, monkeypatch)
    assert found.exit_code == 1
    assert "outcomes/0/successes" in found.output
    # What was computed is written without a signature, which was of something else.
    again = read_audit_record(audited[0] / "again" / "audit.json")
    assert not {*SIGNED} & {*again.content}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("executions", 10**18),
        ("executions", True),
        ("executions", "9" * 10_000),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", [1]),
        ("depth", ORDER),
        ("distance", -1.0),
        ("distance", "near"),
        ("coalitions", ";" * 10_001),
        ("coalitions", None),
    ],
)
def test_what_no_audit_can_be_asked_is_refused_before_work(
    key, value, audited, monkeypatch
):
    content = content_of(audited)
    content["asked"][key] = value
    monkeypatch.setattr(command, "_run_audit_command", None)
    path = audited[0] / "asks.json"
    path.write_text(AuditRecord(content).to_json())
    with refused("wrong-field-value", vs.InvalidInputError, mentions=(key,)):
        read_audit_record(path)
    found = run(audited[0], "--replay", path)
    assert found.exit_code == 2
    assert "\x1b" not in found.output


def test_other_spellings_of_a_record_are_none(audited, monkeypatch):
    text = (audited[0] / "audit.json").read_text()
    deep = f'"clock": {"[" * 900}{"]" * 900},'
    for changed in (
        text + " ",
        text.replace('"clock"', '"clock": [], "clock"', 1),
        text.replace("{", '{"more": 1,', 1),
        text.replace('"clock": ', f'{deep} "clock": ', 1),
        text.replace('"seed": 0', '"seed": NaN'),
        text.replace('"format"', f'"{ORDER}": 0, "format"'),
        text[:-9],
    ):
        assert changed != text
        assert replayed(audited, changed, monkeypatch).exit_code == 2


# Transcripts


@pytest.fixture(name="ann")
def ann_fixture(tmp_path):
    return new_identity("ann", tmp_path / "ann")


def sealed(path, identity, spoil):
    """A file that the owner's key opens, with whatever the owner put into it."""
    content = transcript_file._transcript_file_content(made(MASKS["uniform"]))
    whole = msgspec.msgpack.decode(msgspec.msgpack.encode(content))
    spoil(whole)
    start = transcript_file.FORMAT + b"".join(
        transcript_file._transcript_file_digests(identity, "r")
    )
    path.write_bytes(start + identity.seal(msgspec.msgpack.encode(whole), start))
    return path


def frame(*numbers, dtype=np.uint64):
    return transcript_file._transcript_frame(np.array(numbers, dtype=dtype))


def at(*path):
    """What puts a value at a place."""
    return lambda value: lambda whole: put(whole, path, value)


HELD = ("rounds", 0, "held")
SPOILT = {
    "another's": at("corrupted")(["bob"]),
    "everybody's": at("corrupted")(["ann", "bob", "cem", "dua"]),
    "of orders": at("parties")([ORDER, "bob", "cem", "dua"]),
    "a law of orders": at("law")(ORDER),
    "no law's sigma": at("sigma")(-1.0),
    "no number": at("sigma")("1"),
    "a sigma that is none": at("sigma")(float("nan")),
    "another width": at(*HELD, "shares", 0, 1)(frame(1, 2, 3)),
    "floats": at(*HELD, "shares", 0, 1)(frame(1.0, 2.0, dtype=float)),
    "no frame": at(*HELD, "shares", 0, 1)(b"\x1b[2J"),
    "strangers' shares": at(*HELD, "shares", 0, 0)(["bob", "cem"]),
    "shares of nobody": at(*HELD, "shares", 0, 0)([ORDER, "ann"]),
    "shares of one": at(*HELD, "shares", 0, 0)(["ann"]),
    "shares of no key": at(*HELD, "shares", 0, 0)([]),
    "masked by nobody": at(*HELD, "masked", 0, 0)([ORDER]),
    "told by nobody": at(*HELD, "told", 0, 0)([ORDER, 1, 2]),
    "a stranger in it": at("rounds", 0, "members")(["ann", ORDER]),
    "an epoch before all": at("rounds", 0, "epoch")(-1),
    "another total": at("rounds", 0, "total")(frame(1)),
    "parts that are missing": at(*HELD)({}),
    "units of nothing": lambda whole: whole.update(bits=60, units=["1/0", "1"]),
    "a unit of nothing": at("unit")("1/0"),
    "a power of a power": at("unit")("1e999999999"),
    "an edge to nobody": at("edges", 0)(["ann", "eve"]),
    "no weights": at("weights")([]),
    "weights that are none": at("weights")([float("nan")] * 4),
    "a grid too fine": at("grid")(10**18),
    "bits without an end": at("bits")(2**62),
}


@pytest.mark.parametrize("how", SPOILT)
def test_what_an_owner_made_up_is_refused_in_one_sentence(how, ann, tmp_path):
    path = sealed(tmp_path / "mine", ann, SPOILT[how])
    with pytest.raises(vs.InvalidInputError) as found:
        read_transcript(path, ann)
    assert "does not hold what veilsum join has written" in str(found.value)
    assert "\x1b" not in str(found.value)


def test_what_join_wrote_is_read(ann, tmp_path):
    path = sealed(tmp_path / "mine", ann, lambda whole: None)
    assert read_transcript(path, ann, run="r") == made(MASKS["uniform"])


def test_a_transcript_of_another_agreement_is_no_part_of_an_audit():
    own = made(MASKS["uniform"])
    scene = Scene(topology=own.topology, law=own.law, width=2)
    check_run_audited(own, scene)
    for other in (
        replace(scene, topology=vs.Topology.family("ring:4")),
        replace(scene, law=MASKS["lattice"]),
    ):
        with refused("transcripts-of-other-run", vs.InvalidInputError):
            check_run_audited(own, other)
