"""The hello, the log and the waits: everything of the transport that is pure."""

import errno
import json
import logging
import re
import socket
import ssl
from dataclasses import fields
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import asdict, replace

from cases import each
from veilsum.consortium.consortium import NAME_BYTES, check_member_name
from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.net.handshake import (
    BYE,
    DISAGREEMENTS,
    LONGEST_SHOWN,
    LONGEST_TEXT,
    PATH,
    PROTOCOL,
    REFUSALS,
    ConnectionClose,
    ConnectionLimits,
    HandshakeRefusal,
    Hello,
    connection_close_reason,
    encode_hello,
    is_bye_frame,
    peer_clock_skew,
    peer_text_for_log,
    read_hello,
    refusal_of_hello,
    sections_unlike_peer,
)
from veilsum.net.links import CallBackoff
from veilsum.net.refusals import (
    SHARES,
    SOURCES,
    ConnectionRefusalLog,
    LogCap,
    caller_origin,
)
from veilsum.net.sockets import socket_connection_failure
from veilsum.protocol.codec import Codec
from veilsum.protocol.evidence import commitment_to_masked_vector
from veilsum.protocol.messages import (
    MESSAGES,
    Masked,
    Quit,
    Ready,
    Record,
    Round,
)
from veilsum.protocol.plan import (
    CHECKPOINT_BYTES,
    CHECKPOINT_ROUNDS,
    ProtocolPlan,
    ProtocolPolicy,
)
from veilsum.protocol.work import request_digest

LIMITS = ConnectionLimits()
NOON = 1_700_000_000.0
OWN = Hello(
    protocol=PROTOCOL,
    name="b",
    to="a",
    run="run-" + "0" * 32,
    plan="11" * 32,
    consortium="22" * 32,
    sections={"graph": "ab", "policy": "cd"},
    time=NOON,
    version="1.0",
)
HEARD = replace(OWN, name="a", to="b")


def refused(heard, owner="a", own=OWN):
    return refusal_of_hello(heard, own, owner, LIMITS)


# Reading


names = st.text(min_size=1, max_size=128)
printable = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
plain_names = st.text(printable, min_size=1, max_size=LONGEST_SHOWN)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
short = st.text("0123456789abcdef", min_size=1, max_size=16)


def hellos_with(texts):
    return st.builds(
        Hello,
        protocol=st.just(PROTOCOL),
        name=texts,
        to=texts,
        run=texts,
        plan=digests,
        consortium=digests,
        sections=st.dictionaries(texts, short, max_size=4),
        time=st.floats(allow_nan=False, allow_infinity=False),
        version=texts,
    )


hellos = hellos_with(names)


@given(hellos_with(plain_names))
def test_a_hello_is_read_as_it_was_written(hello):
    assert read_hello(encode_hello(hello)) == hello


def presentable(text):
    return text.isprintable() and len(text) <= LONGEST_SHOWN


@given(hellos)
def test_texts_of_the_other_end_can_be_shown(hello):
    found = read_hello(encode_hello(hello))
    texts = [found.name, found.to, found.run, found.version, *found.sections]
    assert all(map(presentable, texts))


HOSTILE = "1.0\n2026-01-01 ERROR all is lost\x1b[2J\x07\u202e\u2028" + "x" * 80


@each(
    "changes",
    [
        {"name": HOSTILE},
        {"to": HOSTILE},
        {"plan": "33" * 32, "version": HOSTILE},
        {
            "consortium": "33" * 32,
            "sections": {f"{k}{HOSTILE}"[:128]: "ab" for k in range(64)},
        },
        {"protocol": 10**400},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_a_hostile_hello_cannot_write_into_the_log(changes):
    found = read_hello(json.dumps({"hello": {**asdict(HEARD), **changes}}))
    found = found if isinstance(found, HandshakeRefusal) else refused(found)
    assert found.reason.isprintable()
    assert len(found.reason) < 1000
    assert all(map(presentable, found.sections))


def test_without_the_cleaning_it_could():
    """The twin: a hello that was not read from text says what it likes."""
    found = refused(replace(HEARD, plan="33" * 32, version=HOSTILE))
    assert "\n" in found.reason
    assert "\x1b" in found.reason


def test_names_that_parties_may_have_stay_as_they_are():
    for name in ("hospital-1", "Zürich 2. Süd_a", "病院", "x" * NAME_BYTES):
        assert peer_text_for_log(check_member_name(name)) == name


@given(st.one_of(st.text(), st.recursive(st.none(), st.lists).map(json.dumps)))
def test_any_text_is_a_hello_or_refused(text):
    found = read_hello(text)
    assert isinstance(found, HandshakeRefusal)
    assert found.code == ConnectionClose.MALFORMED
    assert not is_bye_frame(text)


@given(hellos, st.data())
def test_a_damaged_hello_is_another_hello_or_refused(hello, data):
    text = encode_hello(hello)
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="utf-8"))
    damaged = text[:place] + other + text[place + 1 :]
    assert isinstance(read_hello(damaged), Hello | HandshakeRefusal)


@each("field", sorted(asdict(OWN)))
def test_a_hello_without_a_field_is_refused(field):
    content = {**asdict(HEARD)}
    del content[field]
    found = read_hello(json.dumps({"hello": content}))
    assert isinstance(found, HandshakeRefusal)
    assert found.code == ConnectionClose.MALFORMED


@each(
    "field",
    [
        {"name": ""},
        {"name": "x" * 129},
        {"plan": "11" * 31},
        {"plan": "GG" * 32},
        {"time": "noon"},
        {"time": None},
        {"sections": {"graph": "no hex"}},
        {"sections": {str(k): "ab" for k in range(65)}},
    ],
    ids=str,
)
def test_a_hello_with_an_odd_field_is_refused(field):
    text = json.dumps({"hello": {**asdict(HEARD), **field}})
    assert isinstance(read_hello(text), HandshakeRefusal)


def test_a_field_more_does_no_harm():
    text = json.dumps({"hello": {**asdict(HEARD), "mood": "good"}})
    assert read_hello(text) == HEARD


def test_another_version_is_told_from_garbage():
    found = read_hello('{"hello": {"protocol": 99, "all": "else differs"}}')
    assert found.code == ConnectionClose.PROTOCOL
    assert "version 99" in found.reason


def test_bytes_and_very_long_texts_are_no_hello():
    assert read_hello(encode_hello(HEARD).encode()).code == ConnectionClose.MALFORMED
    padded = " " * LONGEST_TEXT + encode_hello(HEARD)
    assert read_hello(padded).code == ConnectionClose.MALFORMED
    assert read_hello(" " * 100 + encode_hello(HEARD)) == HEARD


@each(
    ("text", "farewell"),
    [
        (BYE, True),
        ('{"bye": true}', True),
        ('{"bye": false}', False),
        ('{"bye": 1}', False),
        ('{"bye": true, "more": 1}', False),
        ("bye", False),
        ("", False),
    ],
)
def test_only_a_bye_is_a_bye(text, farewell):
    assert is_bye_frame(text) == farewell


# Checking


def test_a_good_hello_is_accepted():
    assert refused(HEARD) is None


def test_a_name_must_be_that_of_the_certificate():
    found = refused(HEARD, owner="c")
    assert found.code == ConnectionClose.CERTIFICATE
    assert "'a'" in found.reason
    assert "'c'" in found.reason


def test_without_the_certificate_anybody_could_be_anybody():
    """The twin: the same hello is believed if the name in it is all that counts."""
    assert refused(HEARD, owner=HEARD.name) is None


def test_a_hello_for_somebody_else_is_refused():
    found = refused(replace(HEARD, to="c"))
    assert found.code == ConnectionClose.STRANGER
    assert "'c'" in found.reason


def test_another_file_is_refused_with_the_sections_that_differ():
    sections = {"graph": "ab", "policy": "ee", "masks": "ff"}
    found = refused(replace(HEARD, consortium="33" * 32, sections=sections))
    assert found.code == ConnectionClose.AGREEMENT
    assert found.sections == ("masks", "policy")
    assert "masks and policy" in found.reason or "masks, policy" in found.reason


def test_sections_that_agree_do_not_hide_another_file():
    found = refused(replace(HEARD, consortium="33" * 32))
    assert found.sections == ("consortium",)


@each(
    ("mine", "theirs", "run", "code"),
    [
        ("1" * 16, "1" * 16, "other", ConnectionClose.ELSEWHERE),
        ("1" * 16, "2" * 16, "other", ConnectionClose.AGREEMENT),
        ("1" * 16, None, "other", ConnectionClose.AGREEMENT),
        (None, None, "other", ConnectionClose.AGREEMENT),
        ("1" * 16, "1" * 16, OWN.run, ConnectionClose.AGREEMENT),
    ],
)
def test_another_question_of_one_study_is_told_from_another_file(
    mine, theirs, run, code
):
    """Only of a study: whoever is elsewhere in it will be called again soon."""
    own, heard = (
        replace(one, sections={**one.sections, **({"study": key} if key else {})})
        for one, key in ((OWN, mine), (HEARD, theirs))
    )
    found = refused(replace(heard, run=run, consortium="f" * 64), own=own)
    assert found.code == code
    assert (found.code in REFUSALS) == (code == ConnectionClose.AGREEMENT)
    assert found.code in DISAGREEMENTS


def test_another_plan_from_one_file_points_at_the_versions():
    found = refused(replace(HEARD, plan="33" * 32, version="0.9"))
    assert found.code == ConnectionClose.AGREEMENT
    assert found.sections == ("plan",)
    assert "0.9" in found.reason
    assert "1.0" in found.reason


@given(st.dictionaries(names, short), st.dictionaries(names, short))
def test_differing_sections_do_not_depend_on_who_looks(one, other):
    found = sections_unlike_peer(one, other)
    assert found == sections_unlike_peer(other, one)
    assert found
    assert (found == ("consortium",)) or all(one.get(n) != other.get(n) for n in found)


@each("gap", [-3600, -300, 0, 300, 3600])
def test_clocks_an_hour_apart_are_accepted(gap):
    assert refused(replace(HEARD, time=NOON + gap)) is None


@each(
    ("gap", "words"),
    [(7200, "7,200 s ahead of"), (-7200, "7,200 s behind"), (1e300, "ahead of")],
)
def test_clocks_hours_apart_are_refused_with_both_times(gap, words):
    found = refused(replace(HEARD, time=NOON + gap))
    assert found.code == ConnectionClose.CLOCK
    assert words in found.reason
    assert "2023-11-14" in found.reason


def test_no_number_is_no_time():
    assert refused(replace(HEARD, time=float("nan"))).code == ConnectionClose.CLOCK
    assert "no date" in peer_clock_skew(replace(HEARD, time=float("nan")), OWN)


@given(st.text())
def test_a_reason_fits_into_a_close_frame(text):
    short_text = connection_close_reason(text)
    assert len(short_text.encode()) <= 123
    assert text.startswith(short_text)


def test_codes_are_private_ones_and_all_different():
    own = [code for code in ConnectionClose if code >= 4000]
    assert all(4000 <= code < 5000 for code in own)
    assert {ConnectionClose.AGREEMENT, ConnectionClose.CERTIFICATE} < REFUSALS
    assert not REFUSALS & {
        ConnectionClose.REPLACED,
        ConnectionClose.SURPLUS,
        ConnectionClose.LATE,
        ConnectionClose.GOING,
    }


# Waiting


@given(st.integers(0, 200))
def test_waits_grow_and_stay_within_bounds(tries):
    limits = ConnectionLimits(first_retry=0.5, longest_retry=8.0)
    backoff = CallBackoff(limits)
    waits = [backoff.next() for _ in range(tries + 1)]
    assert all(0 <= wait <= min(0.5 * 2**turn, 8.0) for turn, wait in enumerate(waits))
    backoff.settled()
    assert backoff.next() <= 0.5


def test_two_that_wait_do_not_wait_alike():
    one, other = CallBackoff(LIMITS), CallBackoff(LIMITS)
    assert [one.next() for _ in range(5)] != [other.next() for _ in range(5)]


@each("deadline", [0.5, 4.0, 30.0, 3600.0])
def test_a_link_is_tried_again_well_within_a_deadline(deadline):
    """Else a party would be taken for lost that was only not called again yet."""
    found = LIMITS.within(deadline)
    assert max(found.longest_retry, found.fallback) <= deadline / 4
    assert 1.5 * found.slow_retry < deadline / 2
    if deadline >= 60.0:
        assert found == LIMITS


def test_who_comes_late_to_a_question_of_a_study_is_met_soon():
    found = ConnectionLimits().among_questions()
    assert found.fallback == 1.0
    assert found.longest_retry <= 2.0 < ConnectionLimits().longest_retry
    short = LIMITS.within(0.4)
    assert short.among_questions() == short, "a deadline leaves less"


@each("name", ["max_frame", "ping_interval", "strangers"])
def test_a_limit_of_nothing_is_refused(name):
    with pytest.raises(InvalidInputError, match=name):
        ConnectionLimits(**{name: 0})


# The log


class Hand:
    """A clock that is moved by hand."""

    now = 0.0

    def __call__(self):
        return self.now


def noted(caplog):
    return [record.getMessage() for record in caplog.records]


def test_one_source_cannot_fill_the_log(caplog):
    clock = Hand()
    refusals = ConnectionRefusalLog(
        ConnectionLimits(refusals=3, refusals_seconds=60.0), clock=clock
    )
    for _ in range(1000):
        refusals.note("10.0.0.1", "caller refused", reason="noise")
    assert noted(caplog) == ["caller refused"] * 3
    assert refusals.count == 1000
    refusals.note("10.0.0.2", "caller refused", reason="noise")
    assert len(noted(caplog)) == 4
    clock.now = 61.0
    refusals.note("10.0.0.1", "caller refused", reason="noise")
    assert noted(caplog)[4:] == ["more refusals were not logged", "caller refused"]
    assert caplog.records[4].count == "997"


def test_without_a_limit_it_could(caplog):
    """The twin: a limit that is never reached lets everything through."""
    refusals = ConnectionRefusalLog(ConnectionLimits(refusals=10**6))
    for _ in range(1000):
        refusals.note("10.0.0.1", "caller refused", reason="noise")
    assert len(caplog.records) == 1000


def test_many_sources_do_not_fill_the_memory(caplog):
    caplog.set_level(logging.CRITICAL, "veilsum.net")
    refusals = ConnectionRefusalLog(LIMITS)
    for number in range(3 * SOURCES):
        refusals.note(str(number), "caller refused", reason="noise")
    assert len(refusals._windows) == SOURCES


# Reasons


def verification(code):
    error = ssl.SSLCertVerificationError(1, "whatever the library says")
    error.verify_code, error.verify_message = code, "words"
    return error


def handshake(reason):
    error = ssl.SSLError(1, "whatever")
    error.reason = reason
    return error


@each(
    ("error", "words"),
    [
        (verification(10), "has expired"),
        (verification(18), "not a member's"),
        (verification(99), "no good (code 99)"),
        (handshake("PEER_DID_NOT_RETURN_A_CERTIFICATE"), "no certificate"),
        (handshake("UNSUPPORTED_PROTOCOL"), "TLS 1.3"),
        (handshake("TLSV1_ALERT_UNKNOWN_CA"), "does not know this party's"),
        (handshake("SOMETHING_NEW"), "TLS failed (something new)"),
        (handshake(None), "TLS failed (no reason given)"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connection refused"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "hung up"),
        (TimeoutError(), "no answer in time"),
        (socket.gaierror(-2, "Name or service not known"), "no such host"),
        (OSError(errno.ENETUNREACH, "x"), "no way to that network"),
        (OSError(errno.EMFILE, "Too many open files"), "too many open files"),
        (EOFError(), "hung up"),
        (ValueError("peer's own words"), "no party of a run (ValueError)"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_failure_is_one_clause(error, words):
    assert words in socket_connection_failure(error)


def test_a_failure_never_quotes_the_other_end():
    assert "own words" not in socket_connection_failure(ValueError("peer's own words"))


# The page that a second implementation is written from

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "wire.md").read_text()
IN_RECORDS = ("party", "epoch", "signature", "incarnation")


def hexadecimal(first):
    """The block of the page that begins with these digits, as bytes."""
    (found,) = re.findall(rf"```text\n({first}[0-9a-f \n]+)```", PAGE)
    return bytes.fromhex(found)


def test_the_pages_frames_are_real_ones():
    codec = Codec(10)
    numbers = np.array([1.0, -2.0])
    told = hexadecimal("56 53 03 0e")
    assert codec.encode(Round(3, 7, numbers)) == told
    request = request_digest("coefficients")
    start = bytes(range(16))
    author = {"party": "a", "epoch": 0, "incarnation": start}
    whole = np.array([1, 2**64 - 1], np.uint64)
    masked = Masked(**author, nonce=bytes(range(64)), numbers=whole)
    assert codec.encode(masked) == hexadecimal("56 53 03 66")
    ready = Ready(**author, lost=(), request=request, commitment=bytes(32))
    sealed = commitment_to_masked_vector(
        ready, codec.content_digest(masked), bytes(32), codec
    )
    ready = msgspec.structs.replace(ready, commitment=sealed)
    assert codec.encode(ready) == hexadecimal("56 53 03 63")
    assert Codec.digest(numbers).hex() in PAGE


@each("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_the_page_has_every_message_with_its_fields_in_order(kind):
    (row,) = re.findall(rf"^\| `{kind.__name__}` \| ([^|]*) \| ", PAGE, re.MULTILINE)
    fields = kind.__struct_fields__
    if issubclass(kind, Record):
        assert fields[:4] == IN_RECORDS
        fields = fields[4:]
    assert [name for name in re.findall(r"`(\w+)`", row) if name in fields] == [*fields]


@each("reason", Quit.reasons)
def test_the_page_has_every_reason_to_leave(reason):
    assert f"`{reason}`" in PAGE


@each("code", list(ConnectionClose), ids=lambda code: code.name)
def test_the_page_has_every_code(code):
    assert re.search(rf"^\| [\d, ]*\b{int(code)}\b", PAGE, re.MULTILINE)


@each("field", sorted(asdict(OWN)))
def test_the_page_has_every_field_of_the_hello(field):
    assert f"\n| `{field}` |" in PAGE


@each(
    "field",
    sorted(
        json.loads(
            ProtocolPlan(
                terms=b"",
                topology=Topology.family("ring:3"),
                law=Masks("uniform", grid=24).on(Topology.family("ring:3")),
                size=1,
                answer_size=1,
            ).to_json()
        )
    ),
)
def test_the_page_has_every_part_of_the_plan(field):
    assert f"`{field}`" in PAGE


def test_the_page_has_the_limits():
    said = " ".join(PAGE.split())
    assert LIMITS.fallback == 1.0
    assert "no connection for a second" in said
    assert f"from {LIMITS.first_retry:g} to {LIMITS.longest_retry:g} seconds" in said
    assert f"lasted {LIMITS.settled:g} seconds" in said
    assert f"waits some {LIMITS.slow_retry:g} seconds" in said
    assert f"ping every {LIMITS.ping_interval:g} seconds" in said
    assert f"nothing at all for {LIMITS.silence:g} seconds" in said
    assert f"{LONGEST_TEXT:,} characters" in said
    assert f"GET {PATH}" in said
    assert f"`c` is {CHECKPOINT_BYTES:,} divided" in said
    assert f"at most {CHECKPOINT_ROUNDS}:" in said
    policy = {field.name for field in fields(ProtocolPolicy)}
    assert policy <= set(re.findall(r"`(\w+)`", PAGE))


def test_many_sources_together_do_not_fill_the_log(caplog):
    clock = iter(range(10**6))
    limits = ConnectionLimits(refusals=3, refusals_seconds=10**6)
    refusals = ConnectionRefusalLog(limits, clock=lambda: next(clock) * 1e-3)
    for k in range(5 * SOURCES):
        refusals.note(f"10.0.{k >> 8}.{k & 255}", "caller refused")
    assert len(caplog.records) == 3 * SHARES
    refusals.note("a member", "connection refused")
    assert len(caplog.records) == 3 * SHARES + 1


def test_a_library_logs_an_event_a_few_times_a_minute(caplog):
    log = logging.getLogger("veilsum tests a library")
    cap = LogCap(ConnectionLimits(refusals=3))
    log.addFilter(cap)
    for k in range(50):
        log.error(f"out of files\nsocket {k}")
        log.error("another event %s", k)
    assert len(caplog.records) == 6


@each(
    ("host", "found"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("[2001:db8::1]", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ],
)
def test_addresses_that_one_owner_has_are_one_origin(host, found):
    assert caller_origin(host) == found
