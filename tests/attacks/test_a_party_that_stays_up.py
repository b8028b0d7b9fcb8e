"""Whoever writes into the folder of a party that stays up may mean harm.

Nobody looks on there. So nothing is joined but what a person has agreed to, or what the
party's own rules allow; and no series of files tells how large its numbers are.
"""

import dataclasses
import logging
import os
import shlex
import shutil
import tomllib

import pytest
import tomli_w
from click.testing import CliRunner

from party.test_serving import House, tried_to_join, wait_until
from party.test_taking_part import taken_address
from refusals import refused
from veilsum.cli.app import app
from veilsum.party import serving as module

pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


def test_consent_to_one_file_is_none_to_another_under_its_name(house):
    """A person agreed; then the file is replaced by one that protects less."""
    house.deliver()
    house.agree()
    house.deliver(tolerate=0)
    with taken_address(house.company, "a"):
        assert house.look().state == "pending"
        # The twin: the file that was agreed to.
        house.deliver()
        assert tried_to_join(house.look())


def test_a_status_that_says_running_is_no_consent(house):
    """It was killed before anything was sent; meanwhile the file is another one."""
    house.deliver()
    house.look()
    path = house.home.status(house.run)
    text = path.read_text().replace('"pending"', '"running"')
    path.write_text(text)
    house.deliver(tolerate=0)
    with taken_address(house.company, "a"):
        assert house.look().state == "pending"


@pytest.mark.skipif(os.name != "posix", reason="a matter of POSIX")
def test_another_user_s_file_is_no_consent(house):
    """Results go to a folder that others write to, and there stands what was agreed."""
    house.deliver()
    out = house.inbox.parent / "results"
    house.home = dataclasses.replace(house.home, out=out)
    house.serving = module.PartyServer(house.inbox, house.home)
    house.agree()
    agreed = house.home.agreed(house.run)
    with taken_address(house.company, "a"):
        for path, mode in ((agreed, 0o666), (agreed.parent, 0o777)):
            before = path.stat().st_mode
            path.chmod(mode)
            assert house.look().state == "pending"
            path.chmod(before)
        agreed.parent.chmod(0o777)
        with refused("answers-exposed"):
            house.agree()
        agreed.parent.chmod(0o755)
        assert house.look().state == "pending"
        # The twin: the same word, where nobody else can write it.
        house.agree()
        assert tried_to_join(house.look())


def test_a_refusal_of_one_file_bars_no_other_under_its_name(house):
    """Whoever knows the name of a run could keep a party out of it."""
    house.allow()
    house.deliver(tolerate=3)
    with taken_address(house.company, "a"):
        assert house.look().state == "refused"
        house.deliver()
        assert tried_to_join(house.look())


def rival(house, name="aaa.toml", **policy):
    """Somebody who knows a run's name puts a file of its own under it, and first."""
    house.deliver(**policy)
    house.file.rename(house.inbox / name)
    house.deliver()
    return house.inbox / name


def test_a_file_that_the_rules_refuse_takes_no_other_s_place(house):
    """It is the first in the folder, and of the same run."""
    house.allow()
    rival(house, tolerate=3)
    with taken_address(house.company, "a"):
        status = house.look()
    assert tried_to_join(status)
    assert status.file == str(house.file)


def test_of_two_files_that_could_be_meant_a_person_says_which(house, tmp_path):
    """Neither is joined alone; and what was agreed to is joined, not what is first."""
    house.allow()
    first = rival(house, deadline=299.0)
    with taken_address(house.company, "a"):
        for _ in range(2):
            status = house.look()
            assert (status.state, status.file) == ("pending", str(first))
            assert 'run\'s name, "consortium.toml": a person' in status.reason
        house.agree()
        assert tried_to_join(house.look())
        assert house.look().file == str(house.file)
    # The twin: the first one, by itself, is what the rules allow.
    twin = House(tmp_path / "twin")
    twin.allow()
    twin.deliver(deadline=299.0)
    with taken_address(twin.company, "a"):
        assert tried_to_join(twin.look())


def test_a_person_s_word_ends_what_began_under_the_same_name(house):
    """The rules allow a rival's file, which came first; the others know nothing of it.

    Nobody comes to that meeting, and it would last for as long as the rival wrote.
    """
    house.allow()
    first = rival(house, meeting=1e6)
    house.file.unlink()
    house.serving.look()
    wait_until(house, "greeting")
    house.deliver()
    house.serving.look()
    running = house.serving._running[house.run]
    assert running.thread.is_alive(), "a file that comes later takes nobody's place"
    house.agree()
    house.serving.look()
    running.thread.join()
    try:
        house.serving.look()
        wait_until(house, "greeting", file=house.file.name)
        (status,) = house.serving.statuses()
        assert status.file == str(house.file) != str(first)
    finally:
        house.serving.stop()


@pytest.mark.skipif(os.name != "posix", reason="a matter of POSIX")
@pytest.mark.parametrize("name", [b"a\xff.toml", b"a\n\x1b[2J.toml"])
def test_a_name_that_is_no_text_stops_nobody(name, house, caplog):
    """A file's name is bytes, and not all bytes are text: a status cannot have them.

    The twin: a name that is odd, and text.
    """
    is_text = b"\xff" not in name
    house.deliver(run="other-" + "4" * 32)
    house.file.rename(house.inbox / os.fsdecode(name))
    house.deliver()
    for _ in range(2):
        house.serving.look()
    found = {one.run for one in house.serving.statuses()}
    assert found == {house.run, *(["other-" + "4" * 32] if is_text else [])}
    assert ("a name that is no text" in caplog.text) is not is_text
    for words in (["status", str(house.place)], ["status", str(house.place), "--json"]):
        shown = CliRunner().invoke(app, words)
        assert shown.exit_code == 0, shown.output
        assert "\x1b" not in shown.output


def test_a_series_of_files_within_other_bounds_is_not_joined_alone(house):
    """The organiser asks the same again and again, and watches who comes.

    The twin: the same question within the same bounds is what the rules allow.
    """
    house.allow()
    house.deliver()
    with taken_address(house.company, "a"):
        assert tried_to_join(house.look())
        house.deliver(run="same-" + "1" * 32)
        assert tried_to_join(house.look())
        house.deliver(run="other-" + "2" * 32, deadline=299.0)
        for _ in range(2):
            status = house.look()
            assert status.state == "pending"
            assert "within other bounds" in status.reason
        house.agree()
        assert tried_to_join(house.look())


def test_a_file_that_cannot_be_considered_is_in_the_way_of_no_other(house, caplog):
    """An amended file whose name has no room for its amendment's beside it.

    The twin: looked at by itself it ends in an error of the system, and so would the
    process that stays up.
    """
    house.deliver()
    table = tomllib.loads(house.file.read_text())
    table["former"], table["run"] = "0" * 64, "other-" + "3" * 32
    bad = house.inbox / f"{'a' * 249}.toml"
    bad.write_text(tomli_w.dumps(table))
    house.allow()
    with taken_address(house.company, "a"):
        assert tried_to_join(house.look())
    assert "cannot be considered" in caplog.text
    with pytest.raises(OSError, match="too long"):
        house.serving._consider(bad, house.serving._read[bad][1], house.home.rules)


def test_the_name_of_a_file_is_no_command(house):
    """What status says to type is typed: a file's name must not be a program."""
    house.deliver()
    name = "a; touch pwned $(id) `id` '\x1b[2J.toml"
    house.file.rename(house.inbox / name)
    house.look()
    shown = CliRunner().invoke(app, ["status", str(house.place)], terminal_width=400)
    assert "\x1b" not in shown.output
    text = " ".join(shown.output.split())
    said = text[text.index("--agree") :].partition(" shows its page and asks")[0]
    one = str(house.inbox / name).replace("\x1b", "\\x1b")
    assert shlex.split(said) == ["--agree", one]
    assert shlex.split(f"--agree {name.replace(chr(39), '')}")[1:] != [one]


def test_files_that_are_not_read_are_spoken_of(house, monkeypatch, caplog):
    """Whoever fills the folder hides nothing silently."""
    caplog.set_level(logging.WARNING)
    house.deliver()
    house.look()
    assert "some are not read" not in caplog.text
    monkeypatch.setattr(module, "MOST_FILES", 2)
    for k in range(2):
        (house.inbox / f"{k}.toml").write_text("[")
    house.serving.look()
    assert "some are not read" in caplog.text


def test_of_its_own_files_none_is_read_as_somebody_elses(house, caplog):
    """Where the folder is the one with the key, as deploy/ has it, its cost is there.

    The twin: as a file of somebody's its entries are named in a log.
    """
    caplog.set_level(logging.WARNING)
    other = module.PartyServer(house.place, house.home)
    other.look()
    assert not [one for one in caplog.records if one.file == "cost.toml"]
    shutil.copy(house.place / "cost.toml", house.place / "copy.toml")
    other.look()
    (told,) = (one for one in caplog.records if one.file == "copy.toml")
    assert "'targets'" in told.reason


def failing(monkeypatch, name, module_name):
    """Have the program itself fail at one file; no file is known that does it."""
    whole = getattr(module, module_name)

    def fails(given, *more):
        shown = given if isinstance(given, os.PathLike) else getattr(given, "title", "")
        if name in str(shown):
            raise AssertionError("private words")
        return whole(given, *more)

    monkeypatch.setattr(module, module_name, fails)


def hostile(house):
    """A second file, which is read first and names the party as well."""
    house.deliver()
    table = tomllib.loads(house.file.read_text())
    table |= {"title": "hostile", "run": "hostile-" + "0" * 32}
    path = house.inbox / "a-hostile.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def look_around(house):
    """Look once; how far the honest run is."""
    house.serving.look()
    for one in house.serving._running.values():
        one.thread.join()
    return next(one for one in house.serving.statuses() if one.run == house.run)


@pytest.mark.parametrize("where", ["read_agreement", "study_consent_page"])
def test_a_file_that_makes_the_program_fail_is_set_aside(
    house, where, monkeypatch, caplog
):
    """Whatever it raises, and whenever: others are joined, also after a restart."""
    caplog.set_level(logging.WARNING)
    house.allow()
    path = hostile(house)
    content = path.read_bytes()
    failing(monkeypatch, "hostile", where)
    with taken_address(house.company, "a"):
        assert tried_to_join(look_around(house))
        house.serving = module.PartyServer(house.inbox, house.home)
        assert tried_to_join(look_around(house))
    (said,) = [one for one in caplog.records if one.message == "set aside"]
    assert said.file == path.name
    assert "an error in this program: AssertionError" in said.reason
    assert "private words" not in caplog.text
    assert not path.exists()
    place = house.home.folder(module.SET_ASIDE)
    kept, why = sorted(place.iterdir())
    assert kept.read_bytes() == content
    assert "AssertionError" in why.read_text()


def test_without_the_guard_one_file_ends_the_party(house, monkeypatch):
    hostile(house)
    failing(monkeypatch, "hostile", "read_agreement")

    def raised(_serving, _path, error):
        raise error

    monkeypatch.setattr(module.PartyServer, "_set_aside", raised)
    with pytest.raises(AssertionError):
        house.serving.look()


def test_a_file_that_cannot_be_moved_is_read_once(house, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    house.allow()
    path = hostile(house)
    failing(monkeypatch, "hostile", "read_agreement")
    house.home.folder("").mkdir(exist_ok=True)
    house.home.folder(module.SET_ASIDE).write_text("in its place")
    with taken_address(house.company, "a"):
        for _ in range(2):
            assert tried_to_join(look_around(house))
    (said,) = [one for one in caplog.records if one.message == "set aside"]
    assert "stays where it is" in said.reason
    assert path.exists()


def test_an_empty_section_ends_nothing(house, caplog):
    caplog.set_level(logging.WARNING)
    house.allow()
    path = hostile(house)
    table = tomllib.loads(path.read_text())
    path.write_text(tomli_w.dumps({**table, "domain": {}}))
    with taken_address(house.company, "a"):
        assert tried_to_join(look_around(house))
    said = [one.reason for one in caplog.records if one.message == "no consortium file"]
    assert len(said) == 1
    assert "[domain] is empty" in said[0]
    assert path.exists(), "whoever is still writing it may go on"
