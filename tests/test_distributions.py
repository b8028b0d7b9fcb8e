"""Entry points of other distributions are found as `importlib.metadata` finds them."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata

import pytest

from veilsum.distributions import entry_points

GROUP = "veilsum.test-group"
TEXT = f"[{GROUP}]\ntotals = elsewhere:KIND\n"


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "missing")])
    return tmp_path


def installed(path, folder="Other_Package-1.0.dist-info", text=TEXT):
    place = path / folder
    place.mkdir(parents=True)
    (place / "METADATA").write_text("Name: other-package\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text(text)


@pytest.mark.parametrize(
    "folder",
    ["other-1.0.dist-info", "other.EGG-INFO", "other-1.0.egg/EGG-INFO"],
)
def test_distributions_on_the_path_are_found(path, folder):
    installed(path, folder)
    sys.path.append(str(path / "other-1.0.egg"))
    assert [each.value for each in entry_points(GROUP)] == ["elsewhere:KIND"]


def test_distributions_in_archives_are_found(path, monkeypatch):
    archive = path / "library.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("other-1.0.dist-info/entry_points.txt", TEXT)
        file.writestr("other-1.0.dist-info/METADATA", "Name: other\nVersion: 1.0\n")
    monkeypatch.setattr(sys, "path", [str(archive)])
    assert [each.name for each in entry_points(GROUP)] == ["totals"]


def test_distributions_of_other_finders_are_found(path, monkeypatch):
    class Finder(metadata.DistributionFinder):
        def find_spec(self, *_):
            return None

        def find_distributions(self, context=None):
            del context
            yield metadata.PathDistribution(path / "hidden" / "other-1.0.dist-info")

    installed(path / "hidden", "other-1.0.dist-info")
    assert entry_points(GROUP) == ()
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert [each.name for each in entry_points(GROUP)] == ["totals"]


def test_nothing_is_looked_up_where_no_file_has_the_group(path, monkeypatch):
    installed(path, text="[console_scripts]\nother = elsewhere:main\n")
    (path / "without-1.0.dist-info").mkdir()
    monkeypatch.setattr(metadata, "entry_points", lambda **_: pytest.fail("searched"))
    assert entry_points(GROUP) == ()


def test_the_answer_is_that_of_the_standard_library():
    for group in metadata.entry_points().groups:
        assert {*entry_points(group)} == {*metadata.entry_points(group=group)}
