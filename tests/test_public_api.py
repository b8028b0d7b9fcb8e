"""The public API is a list, and this holds it still."""

import pkgutil
import re
import subprocess
import sys

import pytest

import veilsum
from cases import each
from public_names import homes, public_names, public_packages

NAMES = public_names()
PACKAGES = public_packages()


@each("package", [veilsum, *PACKAGES])
def test_every_public_name_is_listed_once_and_sorted(package):
    assert list(package.__all__) == sorted(set(package.__all__))


def test_a_person_can_read_the_list_of_names():
    assert 70 < len([key for key in NAMES if "." not in key]) < 90
    assert len(PACKAGES) < 10


def test_a_public_name_is_in_one_package_only():
    names = [name for _, name in homes().values()]
    assert sorted(names) == sorted(set(names))


@each(("key", "value"), NAMES.items())
def test_every_public_name_loads(key, value):
    assert value.__name__ == key.rpartition(".")[2]


@each("package", [veilsum, *PACKAGES])
def test_a_name_is_not_a_module_of_its_package(package):
    """Importing the module would put it in the place of the name."""
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    own = {name for home, name in homes().values() if home is package}
    assert not modules & own


def test_the_help_groups_every_name_once():
    text = veilsum.__doc__.partition("\n\n")[2].partition("\nExample:")[0]
    lists, _, packages = text.partition("\nPackages\n")
    groups = re.findall(r"^    (.+)$", lists, flags=re.MULTILINE)
    listed = re.findall(r"\w+", " ".join(groups))
    listed += re.findall(r"^    (\w+)", packages, flags=re.MULTILINE)
    assert sorted(listed) == veilsum.__all__


@each("package", PACKAGES)
def test_every_public_package_has_an_example(package):
    assert "\nUse it to " in package.__doc__
    assert "\nExample:\n    >>> " in package.__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="sovle"):
        veilsum.sovle  # noqa: B018 - the access is the test


def test_importing_the_package_or_the_help_loads_nothing_heavy():
    packages = ", ".join(package.__name__ for package in PACKAGES)
    code = (
        f"import sys, veilsum, {packages}, veilsum.cli.app;"
        "heavy = {'numpy', 'scipy', 'networkx', 'matplotlib', 'rich'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = [sys.executable, "-c", code]
    found = subprocess.run(run, check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


@each("package", PACKAGES)
def test_importing_a_public_package_loads_no_module_of_it(package):
    code = (
        f"import sys, {package.__name__};"
        "print(*sorted(n for n in sys.modules if n.startswith('veilsum')))"
    )
    run = [sys.executable, "-c", code]
    loaded = subprocess.run(run, check=True, capture_output=True, text=True)
    assert loaded.stdout.split() == ["veilsum", package.__name__]


def test_secrets_are_marked_in_the_scenario_too():
    assert issubclass(veilsum.consortium.Scenario, veilsum.minimise.Cost.__mro__[1])


@each(("name", "value"), NAMES.items())
def test_every_public_name_has_a_docstring_of_its_own(name, value):
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
