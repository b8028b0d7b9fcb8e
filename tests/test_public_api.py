"""The public API is a list, and this holds it still."""

import subprocess
import sys

import pytest

import veilsum
from cases import each


def test_every_public_name_is_listed_once_and_sorted():
    assert list(veilsum.__all__) == sorted(set(veilsum.__all__))
    assert len(veilsum.__all__) > 100


@each("name", veilsum.__all__)
def test_every_public_name_loads(name):
    assert getattr(veilsum, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="sovle"):
        veilsum.sovle  # noqa: B018 - the access is the test


def test_importing_the_package_or_the_help_loads_nothing_heavy():
    code = (
        "import sys, veilsum, veilsum.cli.app;"
        "heavy = {'numpy', 'scipy', 'networkx', 'matplotlib', 'rich'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = [sys.executable, "-c", code]
    found = subprocess.run(run, check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


def test_secrets_are_marked_in_the_scenario_too():
    assert issubclass(veilsum.Scenario, veilsum.Cost.__mro__[1])


@each("name", veilsum.__all__)
def test_every_public_name_has_a_docstring_of_its_own(name):
    value = getattr(veilsum, name)
    assert value.__dict__.get("__doc__") if isinstance(value, type) else value.__doc__
    methods = vars(value).items() if isinstance(value, type) else ()
    bare = [
        key
        for key, method in methods
        if not key.startswith("_")
        and callable(getattr(method, "fget", method))
        and not getattr(getattr(method, "fget", method), "__doc__", None)
    ]
    assert not bare, f"{name}: methods without a docstring: {bare}"
