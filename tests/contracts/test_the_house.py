"""The house as its pages draw it: no circles, all in its room, one word an idea."""

import ast
import gc
import re
from collections import defaultdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "veilsum"
FILES = {
    ".".join(("veilsum", *path.relative_to(SOURCE).with_suffix("").parts)): path
    for path in sorted(SOURCE.rglob("*.py"))
    if path.name != "__init__.py"
}
WORDS = (ROOT / "docs" / "develop" / "words.md").read_text()
# Words of others: HTTP's header, and the paper's own, where the paper is reproduced.
PAPERS = {"veilsum.minimise.paper", "veilsum.report.figures", "veilsum.cli.paper"} | {
    "veilsum.report.forms"  # schema.org's words
}


@pytest.fixture(scope="module")
def trees():
    """Every file, parsed where a test asks for it: collecting tests needs none."""
    gc.disable()  # nothing of it is garbage, and looking takes twice as long as parsing
    try:
        return {name: ast.parse(path.read_text()) for name, path in FILES.items()}
    finally:
        gc.enable()


def imported(tree):
    """Return what a file imports, inside functions and for types included."""
    return {
        whole if (whole := f"{node.module}.{one.name}") in FILES else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for one in node.names
    }


@pytest.fixture(scope="module")
def imports(trees):
    return {name: imported(tree) for name, tree in trees.items()}


def circles(imports):
    found = nx.strongly_connected_components(nx.DiGraph(imports))
    return [sorted(part) for part in found if len(part) > 1]


def test_no_file_imports_another_in_a_circle(imports):
    assert circles(imports) == []


def test_a_circle_would_be_seen(imports):
    line = "from veilsum.numbers.arrays import listed_names"
    planted = {**imports, "veilsum.errors": imported(ast.parse(line))}
    assert circles(planted)[0] >= ["veilsum.errors", "veilsum.numbers.arrays"]


def test_the_page_has_a_row_for_every_package():
    page = (ROOT / "docs" / "develop" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)
    parts = {path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")}
    packages = {part.removesuffix(".py") for part in parts} - {"__init__", "__main__"}
    assert sorted(rows) == sorted(packages)


def test_a_class_has_a_name_of_its_own(trees):
    homes = defaultdict(list)
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {one: at for one, at in homes.items() if len(at) > 1} == {}


def glossary():
    rows = re.findall(r"^\| (\w+) \| .+? \| ?(.*?) ?\|$", WORDS, flags=re.MULTILINE)
    return {word: set(others.replace(",", " ").split()) for word, others in rows}


def names_in(tree):
    """Return every name that the source gives to something, in small letters."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name


def parts(name):
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return {spaced, *spaced.split("_")}


def test_no_word_is_used_where_the_glossary_has_another(trees):
    wrong = {one: word for word, others in glossary().items() for one in others}
    assert wrong["agent"] == "party"
    found = [
        f"{where}: {name} (say {wrong[part]})"
        for where, tree in trees.items()
        if where not in PAPERS
        for name in names_in(tree)
        for part in parts(name) & set(wrong)
    ]
    assert found == []


def test_a_word_stands_in_the_glossary_once():
    words = re.findall(r"^\| (\w+) \| ", WORDS, flags=re.MULTILINE)
    assert len(words) == len(set(words)) > 25


def test_prose_speaks_of_parties():
    """Comments and docstrings, too; the paper's own figures keep the paper's word."""
    text = {n: p.read_text() for n, p in FILES.items() if n not in PAPERS}
    assert [n for n, t in text.items() if re.search(r"\bagents?\b", t)] == []


PRONOUNS = re.compile(r"(What|Those|Who|Whose|Whoever|Of|How|As many|So many)\b")


def begins_with_a_pronoun(tree):
    """Yield the first lines of docstrings that do not begin with noun or verb."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first, *_ = (ast.get_docstring(node) or "").split("\n")
            if PRONOUNS.match(first):
                yield first


def test_docstrings_begin_with_their_subject(trees):
    found = {name: [*begins_with_a_pronoun(tree)] for name, tree in trees.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}
    planted = ast.parse('def f():\n    """What no value is beyond."""')
    assert [*begins_with_a_pronoun(planted)] == ["What no value is beyond."]


@pytest.mark.parametrize("folder", ["benchmarks", "examples"])
def test_what_scripts_take_from_the_house_is_there(folder):
    """Nothing runs them in a test; what they import may have moved."""
    wanted = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                wanted |= {(node.module, one.name) for one in node.names}
    ours = {pair for pair in wanted if pair[0].partition(".")[0] == "veilsum"}
    assert ours
    for module, name in sorted(ours):
        home = import_module(module)
        assert hasattr(home, name) or find_spec(f"{module}.{name}"), (module, name)
