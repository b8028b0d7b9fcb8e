"""Whoever writes studies into the folder of a party that stays up may mean harm.

A study has several questions, editions and certificates that change, and so more ways
in than one file with one question has.
"""

import pytest

import veilsum as vs
from net.test_study_amendment import signed
from party.test_serving_studies import House, tried_to_join
from party.test_studying import FIT, MEANS, NAMES, SMOKERS
from veilsum.consortium.study import study_from
from veilsum.files.ledger import read_ledger
from veilsum.net.amendment import Amendment, amend_agreement
from veilsum.net.identity import new_identity
from veilsum.party.serving import PartyServer

pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


@pytest.fixture
def house(tmp_path):
    found = House(tmp_path, MEANS, FIT)
    found.allow()
    return found


def another(study, run, **policy):
    """The same study under another name, perhaps within other bounds."""
    table = study.to_table()
    return study_from({**table, "run": run, "policy": {**table["policy"], **policy}})


def test_a_series_of_studies_within_other_bounds_is_not_joined_alone(house):
    """The organiser asks the same again and again, and watches who comes to what.

    The twin: the same study within the same bounds is what the rules allow.
    """
    with house.taken_address():
        house.deliver()
        assert tried_to_join(house.look())
        (house.inbox / "study.toml").unlink()
        house.deliver(another(house.study, "same-" + "1" * 32))
        assert tried_to_join(house.look())
        (house.inbox / "study.toml").unlink()
        other = another(house.study, "other-" + "2" * 32, deadline=299.0)
        house.deliver(other)
        for _ in range(2):
            status = house.look()
            assert status.state == "pending"
            assert "within other bounds" in status.reason
        history = read_ledger(house.place / "a.ledger")
        runs = {one.run for one in other.questions.values()}
        assert runs.isdisjoint(history.pending), "nothing was reserved"
        house.home.agree(other)
        assert tried_to_join(house.look())


def test_one_odd_question_among_many_is_not_joined_alone(house):
    """It would be carried along by questions that the rules allow."""
    house.allow('jobs = ["statistics"]\n')
    many = [
        {**MEANS, "name": f"m-{k}", "statistics": {"columns": [c]}}
        for k, c in enumerate(("x", "y"))
    ]
    for odd, state in (([*many, FIT], "pending"), ([*many, SMOKERS], "failed")):
        study = study_from({**house.study.to_table(), "question": odd})
        house.deliver(study)
        house.serving = PartyServer(house.inbox, house.home)
        with house.taken_address():
            assert house.look().state == state
        (house.inbox / "study.toml").unlink()


def test_certificates_that_nobody_agreed_to_take_nobodys_place(house, tmp_path):
    """Somebody puts a certificate of its own into the file, in the place of b's."""
    thief = new_identity("b", tmp_path / "thief")
    forged = amend_agreement(house.study, {"b": thief.certificate})
    house.deliver(forged, name="a.toml")
    made = signed_by_some(house, forged)
    made.write(house.inbox / "a.toml")
    with house.taken_address():
        assert house.look().state == "pending", "by itself it waits for signatures"
        (house.inbox / "a.toml").rename(house.inbox / "b.toml")
        house.deliver(name="c.toml")
        house.serving = PartyServer(house.inbox, house.home)
        status = house.look()
        assert tried_to_join(status)
        assert status.consortium == house.study.digest.hex()


def signed_by_some(house, new):
    """An amendment with the signatures of all but b, whose key the thief has not."""
    made = Amendment(former=house.study.digest.hex(), consortium=new.digest.hex())
    for name in NAMES:
        if name != "b":
            key = house.group.folder(name) / f"{name}.key"
            made = made.signed_by(vs.read_identity(key), new)
    return made


def test_certificates_that_all_agreed_to_take_the_place_of_the_former(house):
    """The twin: everybody has signed; the same two files, and the last is joined."""
    new = amend_agreement(house.study, {})
    house.deliver(new, name="a.toml")
    house.deliver(name="b.toml")
    signed(house.group, house.study, new).write(house.inbox / "a.toml")
    with house.taken_address():
        status = house.look()
    assert tried_to_join(status)
    assert status.consortium == new.digest.hex()


def test_an_edition_of_somebody_elses_study_takes_nobodys_place(house):
    """Under the study's name, and longer; but the first edition is another one."""
    rival = study_from({**house.study.to_table(), "title": "another"})
    house.deliver(study_from(rival.grown([SMOKERS])), name="a.toml")
    house.deliver(name="b.toml")
    with house.taken_address():
        status = house.look()
        assert status.state == "pending"
        assert "a person says which is meant" in status.reason
        house.home.agree(house.study)
        assert house.look().consortium == house.study.digest.hex()
