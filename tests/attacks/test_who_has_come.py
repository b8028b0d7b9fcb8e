"""A stranger with a survey's page asks who has come, and whose digest is which.

It has what everybody has: names and public keys of all who are invited, and later the
digests that are in the result, in no order that tells whose they are.
"""

import json

import pytest

from surveys import survey_table
from veilsum.agreement.consortium import consortium_from
from veilsum.agreement.survey import survey_terms
from veilsum.guests.collection import GuestCollection
from veilsum.web.collecting import SurveyHost
from web.test_collecting import asking, served, submission

CAME = ("Firm 2", "Firm 5")


@pytest.fixture
def caller(tmp_path):
    agreed = consortium_from(survey_table())
    store = GuestCollection.open(tmp_path / "collection.sqlite", survey_terms(agreed))
    with served(agreed, store) as found:
        for name in CAME:
            found.post(submission(survey_terms(agreed), name).to_json())
        yield found
    store.close()


def named(caller):
    """Who has come, by digest, as far as a stranger can find out."""
    terms = survey_terms(consortium_from(survey_table()))
    shown = json.loads(caller.ask(path="/survey.json")[1])
    own = asking(terms, "Firm 1").rsplit("/", 1)[1]  # a guest tries with its own proof
    answers, found = set(), {}
    for guest in shown["guests"]:
        at = f"/submissions/{guest['key']}"
        tries = [at, f"{at}/", f"{at}/{'0' * 128}"]
        if guest["name"] != "Firm 1":
            tries.append(f"{at}/{own}")
        for path in tries:
            for headers in ({}, {"Origin": "null"}):
                answer, text = caller.ask(path=path, **headers)
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
    monkeypatch.setattr(SurveyHost, "_is_of", lambda *_: True)
    found, _ = named(caller)
    assert sorted(found.values()) == sorted(CAME)
