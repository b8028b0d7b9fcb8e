"""Results on disk: all or none."""

import math
import stat
import subprocess
import sys

import pytest

from refusals import refused
from veilsum.errors import OutputError
from veilsum.files.output import (
    as_strict_json,
    prepare_output_folder,
    write_files,
    write_new,
)


def test_files_are_written_whole_and_readable(tmp_path):
    paths = write_files(tmp_path, {"a.txt": b"one", "b.txt": b"two"})
    assert [path.read_bytes() for path in paths] == [b"one", b"two"]
    assert stat.S_IMODE(paths[0].stat().st_mode) & 0o600 == 0o600


def test_a_file_that_cannot_be_placed_leaves_no_other_behind(tmp_path):
    (tmp_path / "b.txt").mkdir()
    (tmp_path / "b.txt" / "inside").write_text("x")
    with refused("cannot-write", OutputError):
        write_files(tmp_path, {"b.txt": b"two", "c.txt": b"three"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.txt"]


@pytest.mark.skipif(sys.platform != "linux", reason="a limit on files of its own")
@pytest.mark.parametrize(
    "write",
    [
        "write_files(place, {'a.txt': b'one', 'b.txt': bytes(9000)})",
        "write_new(place / 'a.txt', bytes(9000), advice='')",
    ],
)
def test_a_full_disk_leaves_no_half_a_file_behind(tmp_path, write):
    """The limit on a file's size stands in for a disk: the write fails for real."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from veilsum.files.output import write_files, write_new\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        f"place = Path(sys.argv[1])\n{write}\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert "OutputError: cannot write" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_old_result_is_replaced(tmp_path):
    write_files(tmp_path, {"a.txt": b"old"})
    write_files(tmp_path, {"a.txt": b"new"})
    assert (tmp_path / "a.txt").read_bytes() == b"new"


@pytest.mark.parametrize("content", [b"", b"new"])
def test_a_new_file_never_replaces_another(tmp_path, content):
    path = tmp_path / "key.pem"
    write_new(path, b"first", advice="keep it", mode=0o600)
    with refused("file-exists", OutputError, mentions=("key.pem", "keep it")):
        write_new(path, content, advice="keep it")
    assert path.read_bytes() == b"first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_to_nowhere_is_not_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with refused("file-exists", OutputError):
        write_new(tmp_path / "link", b"new", advice="")
    assert not (tmp_path / "elsewhere").exists()


def test_a_new_file_in_a_folder_that_is_missing_is_refused(tmp_path):
    with refused("cannot-write", OutputError):
        write_new(tmp_path / "missing" / "file", b"new", advice="")


def test_preparing_makes_the_folder_and_leaves_it_empty(tmp_path):
    folder = prepare_output_folder(tmp_path / "a" / "b")
    assert list(folder.iterdir()) == []


def test_infinity_is_an_error_not_a_bare_word():
    with pytest.raises(ValueError, match="Out of range"):
        as_strict_json({"epsilon": math.inf})
