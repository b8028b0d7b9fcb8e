"""Run by `test_extras.py`: use every public name with the packages of some extras only.

Packages of other extras, and whatever else happens to be installed, cannot be imported.
Prints one line of JSON for each choice of extras: what loaded, and what was said where
something was missing. A choice has a process of its own, begun after the packages that
every installation has were imported.
"""

import json
import os
import sys
import tomllib
from contextlib import suppress
from importlib import import_module, metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Of Python itself and of packages that every installation has: all choices share them.
LOADED_ONCE = (
    *("asyncio", "sqlite3", "ssl", "statistics", "xml.etree.ElementTree"),
    *("flint", "msgspec.json", "msgspec.toml", "networkx"),
    *("scipy.linalg", "scipy.optimize", "scipy.sparse.linalg"),
)


def closure(names):
    """Return these distributions and all that they require."""
    found, rest = set(), list(names)
    while rest:
        one = Requirement(rest.pop())
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        if one.name == "veilsum":
            rest += [w for e in one.extras for w in extra_words(e)]
        elif canonicalize_name(one.name) not in found:
            found.add(canonicalize_name(one.name))
            rest += metadata.distribution(one.name).requires or []
    return found


def extra_words(name):
    return PROJECT["optional-dependencies"][name]


class Hide:
    """Finds nothing, loudly, where a package is not to be there."""

    def __init__(self, hidden):
        self.hidden, self.asked = hidden, []

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in self.hidden:
            self.asked.append(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return


def hide_all_but(allowed, homes=None):
    homes = homes or metadata.packages_distributions()
    ours = {"veilsum"}
    hidden = {
        top
        for top, dists in homes.items()
        if top not in ours and not {canonicalize_name(d) for d in dists} & allowed
    }
    for name in [n for n in sys.modules if n.partition(".")[0] in hidden]:
        del sys.modules[name]
    hide = Hide(hidden)
    sys.meta_path.insert(0, hide)
    return hide


def load_modules_without_extras(homes):
    """Import every module of the package that looks for no package of an extra.

    Whatever extras there are, such a module is the same: all choices share it. A module
    that looks for one, or imports one that does, is forgotten and left to each choice.
    """
    hide = hide_all_but(closure(PROJECT["dependencies"]), homes)
    source = ROOT / "src"
    for path in sorted(source.joinpath("veilsum").rglob("*.py")):
        before = set(sys.modules)
        name = ".".join(path.relative_to(source).with_suffix("").parts)
        if not name.endswith("__main__"):
            with suppress(ImportError):
                import_module(name.removesuffix(".__init__"))
        for new in set(sys.modules) - before if hide.asked else ():
            parent, _, last = new.rpartition(".")
            vars(sys.modules.get(parent, hide)).pop(last, None)
        for new in set(sys.modules) - before if hide.asked else ():
            del sys.modules[new]
        hide.asked.clear()
    sys.meta_path.remove(hide)


def said(call):
    """Return how a call ended: it works, a sentence, or something broken."""
    import veilsum as vs

    try:
        call()
    except vs.errors.MissingExtraError as error:
        return f"sentence: {error}"
    except BaseException as error:  # whatever it is, the test shows it
        return f"BROKEN: {type(error).__name__}: {error}"
    return "works"


def calls():
    """Return what people call first."""
    import numpy as np

    import veilsum as vs

    costs = [vs.minimise.Cost.squared_distance([p]) for p in (1.0, 2.0, 6.0)]
    rng = np.random.default_rng(0)
    tables = {
        name: {"y": rng.normal(size=40), "x": rng.normal(size=40)} for name in "abcd"
    }
    ring = vs.Topology.family("complete:4")
    sites = {
        name: vs.Site.of(1.0, a=[1.0], b=[2.0], low=[0.0], high=[9.0])
        for name in "abcd"
    }
    box = vs.minimise.Box(-9, 9, dim=1)
    return {
        "sum": lambda: vs.sum({"a": 1, "b": 2, "c": 3, "d": 4}),
        "mean": lambda: vs.mean({"a": 1.0, "b": 2.0, "c": 4.0, "d": 5.0}),
        "fit": lambda: vs.fit("y ~ x", tables),
        "statistics": lambda: vs.statistics(tables),
        "solve": lambda: vs.solve(
            costs,
            topology=vs.Topology.family("complete:3"),
            corrupted=(),
            domain=box,
            sigma=1.0,
        ),
        "dispatch": lambda: vs.dispatch(sites, prices=(0.0, 99.0)),
        "guarantee": lambda: vs.guarantee(ring, sigma=1.0, corrupted=["2"]),
        "worst_case": lambda: vs.worst_case(ring, sigma=1.0, tolerate=1),
        "plan": lambda: vs.plan(5, tolerate=1, epsilon=0.1),
        "examine": lambda: vs.privacy.examine(ring, tolerate=1),
        "allocate_noise": lambda: vs.privacy.allocate_noise(ring, tolerate=1),
        "PrivateLinearRegression": lambda: vs.PrivateLinearRegression().fit(
            rng.normal(size=(120, 1)),
            rng.normal(size=120),
            parties=["abcd"[k % 4] for k in range(120)],
        ),
    }


def commands():
    """Return every command, to be asked for its help."""
    import rich  # noqa: F401 - without it `veilsum` says so, and has no command

    from veilsum.cli.app import app, command_names

    def asked(name):
        def call():
            try:
                app([name, "--help"], standalone_mode=False)
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"exit {end.code}") from None

        return call

    return {f"veilsum {name}": asked(name) for name in command_names()}


def tried(extras, homes):
    """Return what works with these extras, and what is said where one is missing."""
    base = PROJECT["dependencies"]
    more = [word for name in extras for word in extra_words(name)]
    hide_all_but(closure([*base, *more]), homes)
    import contextlib
    import io
    import warnings

    warnings.simplefilter("ignore")
    from public_names import homes as public_homes

    found = {}
    for name, home in public_homes().items():
        found[name] = said(lambda home=home: getattr(*home))
    for name, call in calls().items():
        found[f"{name}()"] = said(call)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            found |= {name: said(call) for name, call in commands().items()}
    except ModuleNotFoundError as error:
        found["veilsum"] = f"needs {error.name}"
    return found


def main(choices):
    for name in LOADED_ONCE:
        import_module(name)
    homes = metadata.packages_distributions()
    load_modules_without_extras(homes)
    for choice in choices:
        process = os.fork()
        if not process:
            extras = [name for name in choice.split(",") if name]
            print(json.dumps(tried(extras, homes)), flush=True)
            os._exit(0)
        _, status = os.waitpid(process, 0)
        if status:
            sys.exit(f"with {choice!r} the process ended with {status}")


if __name__ == "__main__":
    main(sys.argv[1:])
