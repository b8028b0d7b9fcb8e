"""The documentation keeps its word: examples run, links lead on, nothing is missing."""

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from markdown.extensions.toc import slugify, unique

import veilsum as vs
from cases import each
from public_names import public_names
from section_keys import section_keys
from veilsum import errors
from veilsum.cli.app import app, command_names
from veilsum.consortium.sections import ScenarioFile
from veilsum.files.datasets import DATASETS
from veilsum.minimise.gradient_fit import fit_by_gradients
from veilsum.minimise.methods.base import EVERY_FAULT
from veilsum.minimise.methods.registry import ITERATIVE
from veilsum.minimise.paper import PaperReport
from veilsum.models.family_names import FAMILIES
from veilsum.models.rows import Rows
from veilsum.sums.terms import SumOptions
from veilsum.tables.schema import ColumnSection

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.M | re.S)
INLINE_CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
ELSEWHERE = ("http:", "https:", "mailto:", "#")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


def text_of(name):
    return (DOCS / name).read_text("utf-8")


# Examples and links


@pytest.mark.usefixtures("unchecked_shapes")  # as a reader runs them
@pages
def test_every_python_example_runs(page):
    """Examples of one page share their names, in the order of reading."""
    if page == DOCS / "gallery.md":
        pytest.skip("test_figures.py runs it, and looks at what it draws")
    blocks = FENCE.finditer(page.read_text("utf-8"))
    source = "\n".join(m["body"] for m in blocks if m["language"] == "python")
    name = str(page.relative_to(ROOT))
    example = doctest.DocTestParser().get_doctest(source, {}, name, name, 0)
    report = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append)
    assert result.failed == 0, "".join(report)


def commands_on(page):
    """Yield every command of which a page shows what it answers, with that."""
    for block in FENCE.finditer(page.read_text("utf-8")):
        if block["language"] == "console" and "$ veilsum" in block["body"]:
            body = block["body"].replace("\\\n", " ")
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                line, _, answer = part.partition("\n")
                if answer.strip():
                    yield shlex.split(line, comments=True), answer


# A hundred firms; processes that meet over the network.
SLOW_PAGES = ("statistics", "tutorial")
CONSOLES = [
    pytest.param(
        page, id=page.stem, marks=[pytest.mark.slow] if page.stem in SLOW_PAGES else []
    )
    for page in PAGES
    if any(commands_on(page))
]


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("page", CONSOLES)
def test_commands_answer_what_the_page_shows(page, tmp_path, monkeypatch):
    """In the order of reading, in one folder that has the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for words, answer in commands_on(page):
        assert words[0] == "veilsum"
        typed = []
        for word in words[1:]:
            files = sorted(Path().glob(word)) if "*" in word else []
            typed += map(str, files or [word])
        found = CliRunner().invoke(app, typed, prog_name="veilsum").output
        assert doctest.OutputChecker().check_output(answer, found, FLAGS), found


def test_the_readme_has_an_example():
    assert ">>> " in (ROOT / "README.md").read_text("utf-8")


@each("page", PAGES)
def test_every_python_block_is_an_example_that_runs(page):
    """A block without prompts would be shown and never tested."""
    for match in FENCE.finditer(page.read_text("utf-8")):
        assert match["language"] != "python" or ">>> " in match["body"], match[0]


@each("page", PAGES)
def test_every_relative_link_leads_to_a_file(page):
    prose = INLINE_CODE.sub("", FENCE.sub("", page.read_text("utf-8")))
    targets = [match["target"] for match in LINK.finditer(prose)]
    paths = [t.partition("#")[0] for t in targets if not t.startswith(ELSEWHERE)]
    missing = [path for path in paths if not (page.parent / path).is_file()]
    assert not missing
    for path, _, anchor in (one.partition("#") for one in targets):
        if anchor and (not path or path.endswith(".md")):
            there = (page.parent / path) if path else page
            assert anchor in anchors_of(there), f"{path}#{anchor}"


def anchors_of(page):
    """Return what headings of a page are called in addresses."""
    used = set()
    for title in re.findall(
        r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), flags=re.MULTILINE
    ):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
        unique(slugify(plain, "-"), used)
    return used


# The command line


def load_generator():
    spec = importlib.util.spec_from_file_location(
        "make_reference", DOCS / "make_reference.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()


@each("command", command_names())
def test_every_command_has_its_section(command):
    assert f"\n## veilsum {command}\n" in text_of("reference/cli.md")


def test_commands_in_a_group_have_their_section_too():
    assert ["attack", "float"] in GENERATOR.paths()
    assert "\n## veilsum attack float\n" in text_of("reference/cli.md")


@each("path", GENERATOR.paths(), ids=" ".join)
def test_every_command_takes_json_or_is_a_group(path):
    """What the page says of them all."""
    _, _, after = text_of("reference/cli.md").partition(
        f"\n## {' '.join(['veilsum', *path])}\n"
    )
    help_text = after.partition("\n## ")[0]
    assert ("--json" in help_text) != ("COMMAND [ARGS]" in help_text)


@each(("page", "expected"), GENERATOR.pages().items())
def test_the_generated_pages_are_up_to_date(page, expected):
    assert page.read_text("utf-8") == expected, (
        "commands or messages have changed: run .venv/bin/python docs/make_reference.py"
    )


def test_a_message_without_its_row_is_noticed():
    page = text_of("reference/wire.md")
    with pytest.raises(SystemExit, match="Confirm"):
        GENERATOR.with_fields(page.replace("| `Confirm` |", "| Confirm |"))


def test_a_field_that_is_missing_on_the_page_is_noticed():
    page = text_of("reference/wire.md")
    assert GENERATOR.with_fields(page.replace("`key` (32 bytes), ", "", 1)) == page


@each("path", GENERATOR.paths(), ids=" ".join)
def test_every_option_says_what_it_does(path):
    """The page is their help, so what is documented nowhere shows here."""
    command = GENERATOR.command_at(path)
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert not [one.name for one in options if not one.help and not one.hidden]
    title = " ".join(["veilsum", *path])
    assert text_of("reference/cli.md").count(f"\n## {title}\n") == 1


# Errors and scenario keys


def exceptions():
    """Every exception of the package, wherever it lives, with its name."""
    for one in pkgutil.walk_packages(vs.__path__, "veilsum."):
        if not one.name.endswith("__main__"):
            importlib.import_module(one.name)
    todo, found = [errors.VeilsumError], {}
    while todo:
        one = todo.pop()
        todo += one.__subclasses__()
        if one.__module__.startswith("veilsum."):
            found[one.__name__] = one
    return found


def test_every_exception_is_described_once():
    page = text_of("reference/errors.md")
    public = [name for name in exceptions() if not name.startswith("_")]
    assert len(public) > 20
    assert not [name for name in public if page.count(f"| `{name}` |") != 1]
    tree = page.split("```")[1]
    assert not [name for name in public if not re.search(rf"\b{name}\b", tree)]


def scenario_section(name):
    """The text between one heading and the next."""
    _, _, after = text_of("guides/scenario-files.md").partition(f"\n## `[{name}]`\n")
    return after.partition("\n## ")[0]


SECTIONS = section_keys(ScenarioFile)
SECTIONS["schema"] += ColumnSection.__struct_fields__


@each(("section", "key"), [(name, key) for name in SECTIONS for key in SECTIONS[name]])
def test_every_scenario_key_is_described_in_its_section(section, key):
    assert f"| `{key}` |" in scenario_section(section)


def test_every_family_and_every_data_set_is_named():
    families = [*FAMILIES]
    page = text_of("guides/regressions.md")
    assert not [name for name in families if f"| `{name}` |" not in page]
    section = scenario_section("model")
    assert not [name for name in families if f'`"{name}"`' not in section]
    section = scenario_section("data")
    assert not [name for name in DATASETS if f'`"{name}"`' not in section]


def test_every_option_of_a_job_is_described():
    page = text_of("guides/regressions.md")
    assert not [key for key in SumOptions.__annotations__ if f"| `{key}` |" not in page]


EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))


@each("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_named(path):
    pages = text_of("quickstart.md") + text_of("guides/scenario-files.md")
    assert f"`examples/{path.name}`" in pages or f"`{path.stem}`" in pages


# Python


def test_every_public_name_is_documented_once_and_nothing_else_is():
    """Exceptions are in the table of errors, everything else on a Python page."""
    pages = "\n".join(one.read_text("utf-8") for one in DOCS.rglob("*.md"))
    named = re.findall(r"^::: veilsum\.(.+)$", pages, flags=re.MULTILINE)
    assert sorted(named) == sorted(set(NAMES) - set(exceptions()))


def keywords_of(function):
    """What must be said by name, so that its meaning must be told somewhere."""
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]


NAMES = public_names()
FUNCTIONS = {name: one for name, one in NAMES.items() if inspect.isfunction(one)}


@each("name", FUNCTIONS)
def test_a_function_tells_what_its_keywords_mean(name):
    text = inspect.getdoc(FUNCTIONS[name])
    as_of = re.search(r"It takes what `(\w+)` takes", text)
    text += inspect.getdoc(FUNCTIONS[as_of[1]]) if as_of else ""
    words = set(re.findall(r"\w+", text))
    assert [key for key in keywords_of(FUNCTIONS[name]) if key not in words] == []


# JSON


def tiny_run(costs):
    return vs.solve(
        costs,
        topology=vs.Topology.family("complete:3"),
        domain=vs.minimise.Box(-2.0, 2.0, dim=1),
        sigma=1.0,
        seed=0,
        corrupted=["2"],
        settings=vs.minimise.Settings(iterations=2),
    )


def tiny_report():
    """A paper report with all its keys, from runs too short to mean anything."""
    triangle = vs.Topology.family("complete:3")
    sample = vs.minimise.simulate(
        triangle,
        [1.0, 2.0, 3.0],
        sigma=1.0,
        executions=3,
        stream=np.random.default_rng(0),
        corrupted=["2"],
    )
    run = tiny_run([vs.minimise.Cost.squared_distance([p]) for p in (0.0, 0.5, 1.0)])
    quartic = tiny_run([vs.minimise.Cost.polynomial([0.0, 1.0, 0.0, 1.0])] * 3)
    return PaperReport(
        plain=run, veiled=run, quartic=quartic, under_a=sample, under_b=sample
    )


def keys_of(value):
    """Every key of a document, those of nested objects too."""
    if isinstance(value, dict):
        return set(value).union(*(keys_of(inner) for inner in value.values()))
    if isinstance(value, list | tuple):
        return set().union(*(keys_of(inner) for inner in value))
    return set()


def json_section(title):
    _, _, after = text_of("reference/json.md").partition(f"\n## {title}\n")
    return after.partition("\n## ")[0]


def test_every_key_of_a_guarantee_is_described():
    found = vs.guarantee(vs.Topology.family("petersen"), sigma=1.0, corrupted=["0"])
    page = json_section("Guarantee")
    assert not [key for key in keys_of(found.to_dict()) if f"| `{key}` |" not in page]


def test_every_key_of_a_result_is_described():
    run = tiny_run([vs.minimise.Cost.squared_distance([p]) for p in (0.0, 0.5, 1.0)])
    page = json_section("Result")
    assert not [key for key in run.to_dict() if f"| `{key}` |" not in page]


def test_every_key_of_a_grid_is_described():
    run = vs.solve(
        [vs.minimise.Cost.squared_distance([p]) for p in (0.0, 0.5, 1.0)],
        topology=vs.Topology.family("complete:3"),
        corrupted=(),
        domain=vs.minimise.Box(-2.0, 2.0, dim=1),
        law="uniform",
        seed=0,
        settings=vs.minimise.Settings(method="one-shot"),
    )
    page = json_section("Result")
    keys = run.to_dict()["quantisation"]
    assert not [key for key in keys if f"| `{key}` |" not in page]


def test_every_key_of_the_paper_report_is_described():
    page = json_section("Paper")
    keys = {*keys_of(tiny_report().to_dict()), "figures"}
    assert not [key for key in keys if f"`{key}`" not in page]


PARTIES = ("north", "east", "south", "west")


def tiny_tables():
    return {
        name: {"x": [1.0, 2.0, 4.0, 3.0, 6.0], "y": [k, 2, 4, 3, 7], "z": [*"ababa"]}
        for k, name in enumerate(PARTIES)
    }


JOB_RESULTS = {
    "Fit": lambda: vs.fit("y ~ x", tiny_tables(), rules=vs.Rules.none(), seed=0),
    "Statistics": lambda: vs.statistics(
        tiny_tables(),
        columns=["x", "y"],
        histograms={"x": [0, 3, 9]},
        tables=[["z"]],
        rules=vs.Rules.none(),
        seed=0,
    ),
    "Survival": lambda: vs.survival(
        "Surv(x, y) ~ C(z)",
        {name: {**one, "y": [0, 1, 1, 0, 1]} for name, one in tiny_tables().items()},
        times=[2, 4],
        rules=vs.Rules.none(),
        seed=0,
    ),
    "Dispatch": lambda: vs.dispatch(
        {name: vs.Site.of(1.0, a=1.0, b=0.0, low=0.0, high=5.0) for name in PARTIES},
        prices=(0.0, 10.0),
        seed=0,
    ),
}


@each("title", JOB_RESULTS)
def test_every_key_of_a_job_is_described(title):
    found = JOB_RESULTS[title]().to_dict()
    page = json_section(title) + json_section("Fit")
    assert not [key for key in found if f"| `{key}` |" not in page]
    own = keys_of(found.get("table", [])) | keys_of(found.get("tables", []))
    own |= keys_of(list(found.get("histograms", {}).values()))
    assert not [key for key in own if f"`{key}`" not in json_section(title)]


def test_sums_and_gradients_add_the_keys_that_are_named():
    found = vs.sum(dict.fromkeys(PARTIES, 1), seed=0).to_dict()
    assert "value" in found
    assert "`value`" in json_section("Statistics")
    assert set(found) - {"value"} <= set(JOB_RESULTS["Fit"]().to_dict())
    design = np.column_stack([np.ones(6), [-1.0, -0.5, 0.0, 0.3, 0.5, 1.0]])
    rows = {
        name: Rows.of(design, design @ [1.0, 0.5] + np.cos(k + np.arange(6.0)))
        for k, name in enumerate(PARTIES)
    }
    stepped = fit_by_gradients(
        rows, topology="complete:4", sigma=1.0, iterations=50, seed=0
    )
    assert set(stepped.to_dict()) - set(stepped.run.to_dict()) == {"coefficients"}
    assert "`coefficients`" in json_section("Fit")


def test_what_users_wait_for_is_what_was_measured():
    first = text_of("start/performance.md").split("## ")[0]
    cells = re.findall(r"^\| .+ \| (.+) \|$", first, flags=re.MULTILINE)[1:]
    found = [n for cell in cells for n in re.findall(r"\d+(?:\.\d+)?", cell)]
    assert len(found) > 12
    measured = re.findall(r"\d+(?:\.\d+)?", text_of("develop/benchmarks.md"))
    assert [number for number in found if number not in measured] == []


def test_no_word_is_explained_in_two_places():
    rows = {
        name: [
            word
            for cell in re.findall(r"^\| ([^|]+?) \| ", text_of(name), re.MULTILINE)
            for word in cell.split(", ")
            if word != "Word"
        ]
        for name in ("reference/glossary.md", "develop/words.md")
    }
    words = [word for page in rows.values() for word in page]
    assert min(map(len, rows.values())) > 30
    assert sorted(words) == sorted(set(words))


def test_the_table_of_faults_is_the_one_that_decides():
    page = (DOCS / "theory" / "methods.md").read_text(encoding="utf-8")
    names = {method.name for method in ITERATIVE}
    for fault in EVERY_FAULT:
        row = next(
            line for line in page.splitlines() if line.startswith(f"| `{fault}` |")
        )
        wanted = {one.name for one in ITERATIVE if fault in one.traits.bears}
        named = set(re.findall(r"`([\w-]+)`", row)) - {fault}
        assert (names if "| all;" in row else named) == wanted


def test_the_table_of_methods_is_the_one_that_decides():
    """What the page says of each method, against what refusals are made from."""
    page = (DOCS / "theory" / "methods.md").read_text(encoding="utf-8")
    for method in ITERATIVE:
        start, has = f"| `{method.name}` |", method.traits
        row = next(line for line in page.splitlines() if line.startswith(start))
        _, _, domain, *flags, vectors, mixings, _ = (c.strip() for c in row.split("|"))
        wanted = "bounded only" if has.compact else "after recentring"
        if not (has.compact or has.winds_up):
            wanted = "yes" if has.domain else "no"
        assert domain == wanted
        lossy = "loss" in has.bears
        facts = (has.nonconvex, has.directed, lossy, has.strongly_convex)
        assert flags == ["yes" if fact else "no" for fact in facts]
        assert (int(vectors), int(mixings)) == (
            has.vectors,
            method.rounds_per_iteration,
        )


def test_every_test_that_shows_an_answer_to_a_threat_is_there():
    text = (DOCS / "theory" / "threats.md").read_text("utf-8")
    named = re.findall(r"`(tests/[^`]+)`", text)
    assert len(set(named)) >= 15
    for one in named:
        file, _, test = one.partition("::")
        assert (ROOT / file).is_file(), one
        assert not test or f"\ndef {test}(" in (ROOT / file).read_text("utf-8"), one
    # Each line of the tables that has an answer has a test.
    for table in text.split("| Could | Answered by | Shown in |\n")[1:]:
        rows = table.partition("\n\n")[0].splitlines()[1:]
        assert rows
        assert not [row for row in rows if "`tests/" not in row.split("|")[3]]
