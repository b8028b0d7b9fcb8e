"""`veilsum join --drop`: what a person is told whose run goes on in files."""

import json

import pytest
from click.testing import CliRunner

from net.drops import THREE, Folders
from veilsum.cli.app import app

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture
def folders(tmp_path):
    return Folders(tmp_path, THREE)


def run(*words):
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)


def join(folders, name, *words):
    folder = folders.folder(name)
    option, file = folders.seats[name].option
    given = [folder / "consortium.toml", option, folder / file]
    return run("join", *given, "--out", folder / "out", *words)


def test_once_it_says_what_is_waited_for_and_ends(folders):
    at = folders.letters("a")
    found = join(folders, "a", "--drop", at, "--once", "--yes")
    assert found.exit_code == 3
    assert "from b: its next letter is b-to-a-0000-" in found.stderr
    assert "run the same command again" in found.stderr
    assert len(folders.files("a")) == 2
    (one,) = json.loads(run("status", folders.folder("a"), "--json").stdout)
    assert (one["state"], one["waiting"]) == ("stopped", ["b", "c"])
    told = run("status", folders.folder("a")).stdout
    assert "waits for letters from b, c; once they are in the folder" in told
    # Whatever it was told, it goes on.
    assert join(folders, "a", "--drop", at, "--once", "--yes").exit_code == 3
    assert len(folders.files("a")) == 2


def test_the_page_says_what_carriers_see(folders):
    found = CliRunner().invoke(
        app,
        [
            "join",
            str(folders.folder("a") / "consortium.toml"),
            "--cost",
            str(folders.folder("a") / "cost.toml"),
            *("--out", str(folders.folder("a") / "out")),
            *("--drop", str(folders.letters("a")), "--once", "--long"),
        ],
        input="n\n",
    )
    words = " ".join(found.stderr.split())
    assert "your computer makes no connection" in words
    assert "from whom to whom they go, their numbers, sizes and times" in words
    assert found.exit_code == 2
    assert folders.files("a") == []


def test_the_log_of_a_program_has_it_too(folders):
    at = folders.letters("a")
    words = ("--drop", at, "--once", "--yes", "--json", "--log", "json")
    found = join(folders, "a", *words)
    assert found.exit_code == 3
    last = json.loads(found.stderr.splitlines()[-1])
    assert last["event"] == "ended"
    assert "waiting for letters to a" in last["reason"]


def test_once_is_for_files(folders):
    found = join(folders, "a", "--once", "--yes")
    assert found.exit_code == 2
    assert "add --drop FOLDER" in found.stderr


def test_without_addresses_there_is_no_network(folders):
    found = join(folders, "a", "--yes")
    assert found.exit_code == 2
    assert "all meet through files" in found.stderr
    file = folders.folder("a") / "consortium.toml"
    found = run("doctor", "--network", file)
    assert found.exit_code == 2
    assert "there is no network to look at" in found.stderr
    shown = run("consortium", "show", file).stdout
    assert "a  through files (join --drop)" in shown
    assert "  a and b\n" in shown


def test_a_folder_that_cannot_be_used_is_refused_before_anything(folders):
    path = folders.folder("a") / "file"
    path.touch()
    found = join(folders, "a", "--drop", path / "letters", "--once", "--yes")
    assert found.exit_code == 2
    assert "cannot write into" in found.stderr
    assert not folders.state("a").exists()


def test_the_answer_is_shown_as_soon_as_it_is_known(folders):
    """Two carries before everybody has signed it; all find the same in the end."""
    seen, ended = {}, {}
    for visit in range(1, 9):
        for name in sorted({*folders.names} - {*ended}):
            words = ("--drop", folders.letters(name), "--once", "--yes", "--json")
            found = join(folders, name, *words)
            said = json.loads(found.stdout) if found.stdout else {}
            if found.exit_code == 0:
                ended[name] = visit, said["minimiser"]
            elif said:
                answer = said["unsigned"][""]["minimiser"]
                assert seen.setdefault(name, (visit, answer))[1] == answer
        folders.carry_all()
    assert {visit for visit, _ in seen.values()} == {5}
    assert {visit for visit, _ in ended.values()} == {7}
    assert [*seen] == [*ended] == ["a", "b", "c"]
    assert [one for _, one in seen.values()] == [one for _, one in ended.values()]


def test_a_person_reads_that_it_is_not_signed_yet(folders):
    for _ in range(4):
        for name in folders.names:
            join(folders, name, "--drop", folders.letters(name), "--once", "--yes")
        folders.carry_all()
    found = join(folders, "a", "--drop", folders.letters("a"), "--once", "--yes")
    assert found.exit_code == 3
    assert "unsigned answer" in found.stdout
    assert not (folders.folder("a") / "out" / "result.json").exists()


def test_check_says_how_often_letters_are_carried(folders):
    """Four for one sum: the answer is there at the fifth visit."""
    file = folders.folder("a") / "consortium.toml"
    words = " ".join(run("check", file).stdout.split())
    assert "the answer takes 4 carries, and 2 more until all have signed it" in words
