"""A stranger with a survey's page asks who has come, and whose digest is which.

It has what everybody has: names and public keys of all who are invited, and later the
result with the digests that were added, in no order that tells whose they are, and with
members' receipts.
"""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from refusals import refused
from survey_members import identity_of, signing_survey
from surveys import MEMBERS, RUN, seed_of
from veilsum.consortium.consortium import canonical_agreement_json
from veilsum.files.consortiums import read_consortium
from veilsum.net.identity import is_signature_by_identity, new_identity
from veilsum.surveys.collection import SurveyGuestCollection
from veilsum.surveys.survey_set import submissions_digest
from veilsum.surveys.terms import survey_terms
from veilsum.web.collecting import GUEST_SCHEME, SurveyWebHost
from veilsum.web.fetching import (
    CLOSED,
    CONTEXT,
    LIFE,
    SENT,
    WebMemberDoor,
    fetch_closed,
    fetch_proof_header,
    read_fetched_survey,
)
from web.test_collecting import HOST, SHOWN, asking, close, served, submission

CAME = ("Firm 2", "Firm 5")
FILES = ("/closed.toml", "/submissions.jsonl")


@pytest.fixture
def store(tmp_path):
    terms = survey_terms(signing_survey())
    found = SurveyGuestCollection.open(tmp_path / "collection.sqlite", terms)
    yield found
    found.close()


@pytest.fixture
def caller(store):
    agreed = signing_survey()
    with served(agreed, store) as found:
        for name in CAME:
            found.post(submission(survey_terms(agreed), name).to_json())
        yield found


def named(caller):
    """Who has come, by digest, as far as a stranger can find out."""
    terms = survey_terms(signing_survey())
    shown = json.loads(caller.ask(path="/survey.json")[1])
    own = asking(terms, "Firm 1")["Authorization"]  # a guest tries with its own proof
    answers, found = set(), {}
    for guest in shown["guests"]:
        at = f"/submissions/{guest['key']}"
        wrong = {"Authorization": f"{GUEST_SCHEME} {'0' * 128}"}
        tries = [(at, {}), (f"{at}/", {}), (at, wrong)]
        if guest["name"] != "Firm 1":
            tries.append((at, {"Authorization": own}))
        for path, shown in tries:
            for headers in ({}, {"Origin": "null"}):
                answer, text = caller.ask(path=path, **shown, **headers)
                answers.add((answer.status, len(text)))
                if answer.status == 200:
                    found[json.loads(text)["digest"]] = guest["name"]
    return found, answers


def test_a_stranger_learns_neither_whose_a_digest_is_nor_who_has_come(caller):
    found, answers = named(caller)
    assert found == {}
    # Of who has come and who has not, the same is said in as many bytes.
    assert {status for status, _ in answers} == {404}
    assert len(answers) <= 2, "one for a path that is none, one for a wrong proof"


def test_a_host_that_believes_everybody_tells_it_all(caller, monkeypatch):
    monkeypatch.setattr(SurveyWebHost, "_is_of", lambda *_: True)
    found, _ = named(caller)
    assert sorted(found.values()) == sorted(CAME)


@pytest.fixture
def ended(store):
    """A survey that is over, with its result and receipts on the page."""
    agreed, folder = signing_survey(), store.path.parent
    for k in range(8):
        table = [[k, 1], [1, None if k == 4 else 1]]
        line = submission(survey_terms(agreed), f"Firm {k + 1}", table=table).to_json()
        store.take(line.encode())
    close(agreed, store, folder)
    (folder / "result.json").write_text(json.dumps({"receipts": [{"run": RUN}]}))
    with served(agreed, store) as found:
        yield found


def left_empty(caller, shown, **headers):
    """Who left which cells empty, as far as somebody with such a header can tell."""
    if shown is not None:
        headers["Authorization"] = shown
    answer, text = caller.ask(path="/submissions.jsonl", **headers)
    assert answer.status in (200, 403, 421)
    lines = text.splitlines() if answer.status == 200 else []
    return {one["guest"]: one["filled"] for one in map(json.loads, lines)}


def signed(caller, identity, run=RUN, host=None, file=SENT, challenge=None):
    """A proof of an identity's, good unless something is said otherwise."""
    challenge = challenge or caller.ask(path="/challenge")[1]
    host = host or f"{HOST}:{caller.port}"
    return fetch_proof_header(identity, run, host=host, file=file, challenge=challenge)


def test_what_a_result_tells_opens_no_file_of_the_members(ended):
    """The run's name is in every receipt, and was the password once."""
    public = json.loads(ended.ask(path="/result.json")[1])
    run, terms = public["receipts"][0]["run"], survey_terms(signing_survey())
    tries = [None, "", *(f"Bearer {one}" for one in (run, terms.digest))]
    assert not any(left_empty(ended, one) for one in tries)


def test_nobody_but_a_member_signs_itself_in_and_once_only(ended, tmp_path):
    bob = identity_of("bob", tmp_path)
    stranger = new_identity("bob", tmp_path / "strange")  # the name is not the key
    good = signed(ended, bob)
    found = left_empty(ended, good)
    assert [name for name, bits in found.items() if bits == "e0"] == ["Firm 5"]
    scheme, challenge, signature = good.split()
    fresh = ended.ask(path="/challenge")[1]
    unsigned = fresh[:-1] + ("0" if fresh[-1] != "0" else "1")
    for bad in (
        good,  # replayed
        signed(ended, bob, challenge=challenge),  # the same challenge, signed again
        f"{scheme} {fresh} {signature}",
        signed(ended, stranger),
        signed(ended, bob, run="another-" + "0" * 32),
        signed(ended, bob, file=CLOSED),  # for the other file
        signed(ended, bob, host="evil.example"),  # a site that asks a member to sign
        signed(ended, bob, challenge="0" * len(fresh)),  # of one's own making
        signed(ended, bob, challenge=unsigned),
        f"{scheme} {fresh} {'0' * 128}",
        f"{scheme} {fresh}",
        f"{scheme} {fresh} {'zz' * 64}",
        f"{scheme} {'0' * 20_000}",
    ):
        assert left_empty(ended, bad) == {}, bad
    evil = signed(ended, bob, host="evil.example")
    assert left_empty(ended, evil, Host="evil.example") == {}
    assert left_empty(ended, signed(ended, bob)) == found


def test_a_guest_cannot_sign_itself_in(ended, tmp_path):
    guest = Ed25519PrivateKey.from_private_bytes(seed_of("Firm 1"))
    bob = identity_of("bob", tmp_path)
    good = signed(ended, bob)
    challenge = good.split()[1]
    said = {"run": RUN, "host": f"{HOST}:{ended.port}", "file": SENT}
    content = CONTEXT + canonical_agreement_json({**said, "challenge": challenge})
    shown = f"Veilsum-Member {challenge} {guest.sign(content).hex()}"
    assert left_empty(ended, shown) == {}
    # The twin: the member's own key signs the same bytes.
    assert left_empty(ended, shown.replace(shown.split()[2], bob.sign(content).hex()))


def test_a_host_that_lets_everybody_in_tells_it_all(ended, monkeypatch):
    monkeypatch.setattr(WebMemberDoor, "admits", lambda *_, **__: True)
    assert left_empty(ended, None)["Firm 5"] == "e0"


def test_strangers_are_not_told_whether_a_survey_is_closed(ended, store):
    there = [ended.ask(path=path) for path in FILES]
    for path in FILES:
        (store.path.parent / path[1:]).unlink()
    gone = [ended.ask(path=path) for path in FILES]
    for (before, said), (after, also) in zip(there, gone, strict=True):
        assert (before.status, said) == (after.status, also)


def test_whoever_signed_every_key_is_tried(tmp_path, monkeypatch):
    """How long a host takes says nothing of which member asks."""
    door, tried = WebMemberDoor(signing_survey()), []

    def counted(key, *given):
        tried.append(key)
        return is_signature_by_identity(key, *given)

    monkeypatch.setattr("veilsum.web.fetching.is_signature_by_identity", counted)
    for name in MEMBERS:
        tried.clear()
        assert admitted(door, identity_of(name, tmp_path), door.challenge())
        assert len(tried) == len(MEMBERS)


def test_a_host_can_list_whom_it_left_out_and_another_member_tells(store, tmp_path):
    """The host's list is its word; a member's files are what was added."""
    agreed, folder, mine = signing_survey(), store.path.parent, tmp_path / "ann"
    sent = {
        name: submission(survey_terms(agreed), name)
        for name in (f"Firm {k + 1}" for k in range(9))
    }
    for one in sent.values():
        store.take(one.to_json().encode())
    close(agreed, store, folder, ["Firm 9"])
    digests = {name: one.digest(MEMBERS) for name, one in sent.items()}
    listed = sorted({*digests.values()} - {digests["Firm 2"]})  # as many as were added
    (folder / "result.json").write_text(json.dumps({**SHOWN, "submissions": listed}))
    ann = identity_of("ann", mine)
    with served(agreed, store) as caller:
        page = caller.ask(path="/result")[1]
        fetch_closed(agreed, f"http://{HOST}:{caller.port}", mine, identity=ann)
    assert digests["Firm 9"] in page, "and nothing on the page shows that it is a lie"
    closed = survey_terms(read_consortium(mine / CLOSED))
    added = read_fetched_survey(closed, mine)
    assert digests["Firm 9"] not in added.submissions
    assert submissions_digest(added.submissions) not in page
    # The host cannot hand out files of which another set would be true.
    lines = [one.to_json() for name, one in sent.items() if name != "Firm 2"]
    (mine / SENT).write_text("\n".join(lines))
    with refused("submissions-differ"):
        read_fetched_survey(closed, mine)


class Hours:
    now = 1000.0

    def __call__(self):
        return self.now


def admitted(door, identity, challenge):
    said = {"host": "a", "file": SENT}
    return door.admits(
        fetch_proof_header(identity, RUN, challenge=challenge, **said), **said
    )


def test_challenges_end_and_asking_for_many_pushes_out_none(tmp_path, monkeypatch):
    hours, bob = Hours(), identity_of("bob", tmp_path)
    door, other = (WebMemberDoor(signing_survey(), hours) for _ in range(2))
    first, late = door.challenge(), door.challenge()
    assert len({door.challenge() for _ in range(20_000)}) == 20_000
    assert not admitted(other, bob, first), "another host's, or this one's of before"
    assert admitted(door, bob, first)
    hours.now += LIFE
    assert not admitted(door, bob, late)
    # What has ended is forgotten, and only then: a member cannot make room.
    monkeypatch.setattr("veilsum.web.fetching.MOST_USED", 2)
    assert [admitted(door, bob, door.challenge()) for _ in range(3)] == [
        True,
        True,
        False,
    ]
    hours.now += LIFE
    assert admitted(door, bob, door.challenge())
    assert not admitted(door, bob, first)
