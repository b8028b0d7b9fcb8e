"""Mutants: small planted defects, and whether the tests of their part notice them.

    python tests/mutation/mutants.py sample              draw the sample anew
    python tests/mutation/mutants.py renew numbers       draw for code that is gone
    python tests/mutation/mutants.py lines               note which test runs which line
    python tests/mutation/mutants.py run                 run mutants without an outcome
    python tests/mutation/mutants.py run numbers         those of one part
    python tests/mutation/mutants.py lines numbers tests/numbers/test_units.py

`sample.tsv` beside this file lists the sample, one mutant a line, with its outcome; a
survivor that no test can kill, because it computes the same, has its reason there.
Results of `lines` stay in `out/mutation`. A mutant is compiled in memory: no file
changes. Its process is a fork of one that has imported and collected everything, with
the mutated function's code exchanged; a mutant outside of functions needs a process of
its own, in which the import of its module is mutated. It runs only the tests that run
its line, the quickest first, until one fails.
"""

from __future__ import annotations

import ast
import copy
import csv
import fcntl
import gc
import importlib.machinery
import io
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Path(__file__).with_name("sample.tsv")
NOTES = ROOT / "out" / "mutation"
SEED = 36
# Processor seconds of tests that one mutant may take; later tests are not run.
MOST_SECONDS = float(os.environ.get("MUTANT_SECONDS", "15"))
# Beyond this much a mutant is taken to run forever.
FOREVER_SECONDS, HANG_SECONDS = 40, 400.0
BROKEN = "the run itself failed"


@dataclass(frozen=True)
class Part:
    """Files of the package, how many mutants they are given, and their tests."""

    files: str
    mutants: int
    tests: tuple[str, ...]


# Models that are tested where they are asked for.
OF_MODELS = tuple(
    f"tests/questions/test_{name}.py"
    for name in (
        "cox",
        "survival",
        "choices",
        "dispersion",
        "evaluate",
        "inference",
        "mixed",
        "sites",
        "table_one",
        "round_weights",
    )
)
PARTS = {
    "numbers": Part("numbers/*.py", 19, ("tests/numbers",)),
    "masks": Part("masks/*.py", 21, ("tests/masks",)),
    "graphs": Part("graphs/*.py", 40, ("tests/graphs",)),
    "privacy": Part("privacy/*.py", 45, ("tests/privacy",)),
    "protocol": Part("protocol/*.py", 42, ("tests/protocol",)),
    "models": Part("models/*.py", 53, ("tests/models", *OF_MODELS)),
    "tables": Part("tables/**/*.py", 35, ("tests/tables",)),
    "rounds": Part("minimise/rounds.py", 3, ("tests/protocol",)),
    "row costs": Part("minimise/costs/rows.py", 1, ("tests/minimise/costs",)),
    "bounds": Part("minimise/curvature.py", 1, ("tests/minimise/test_curvature.py",)),
    "store": Part("net/store.py", 10, ("tests/net/test_store.py",)),
    "ledger": Part("files/ledger.py", 12, ("tests/files/test_ledger.py",)),
    "survey": Part(
        "surveys/*.py", 18, ("tests/survey", "tests/attacks/test_guests.py")
    ),
}


# Changes


@dataclass(frozen=True)
class Mutant:
    """One changed place.

    Attributes:
        part: name in `PARTS`.
        file: path below `src/veilsum`.
        function: qualified name of the function or class around it, or empty.
        change: kind of the change.
        before: source of the changed expression or statement, shortened.
        after: source in its place.
        nth: number among equal changes in the same function, from 0.
        outcome: `killed`, `survived`, `equivalent`, or empty if it never ran.
        note: failed test, or the reason why no test can fail.
    """

    part: str
    file: str
    function: str
    change: str
    before: str
    after: str
    nth: int
    outcome: str = ""
    note: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """What finds the place again after other lines have changed."""
        return (self.file, self.function, self.before, self.after, self.nth)


COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.MatMult: ast.Mult,
}
EXCHANGED = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
}
TEXTS = (ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)
# Calls whose arguments are types, words, or settings of a dataclass.
PLAIN_CALLS = {"isinstance", "issubclass", "field", "cast", "TypeVar", "Literal"}
LOGS = {"LOG", "log", "logging", "warnings"}


def changes(node: ast.AST, returns: ast.expr | None) -> Iterator[tuple[str, ast.AST]]:
    """Yield the kinds of changes to one node, and what stands there instead."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            other = ast.Compare(node.left, [COMPARED[type(op)]()], node.comparators)
            yield "comparison", other
        case ast.BinOp(op=op) if type(op) in COMPUTED and not _is_text(node):
            yield "arithmetic", ast.BinOp(node.left, COMPUTED[type(op)](), node.right)
        case ast.BoolOp(op=op):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and/or", ast.BoolOp(other, node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "dropped not or minus", node.operand
        case ast.Constant(value=bool()):
            yield "constant", ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield "constant", ast.Constant(node.value + 1)
            yield "constant", ast.Constant(node.value - 1)
        case ast.AugAssign():
            yield "augmented", ast.Assign([node.target], node.value)
        case ast.Call(func=ast.Name(id=name)) if name in EXCHANGED:
            func = ast.Name(EXCHANGED[name], ast.Load())
            yield "exchanged call", ast.Call(func, node.args, node.keywords)
        case ast.Call(func=ast.Attribute(attr=name)) if name in EXCHANGED:
            func = ast.Attribute(node.func.value, EXCHANGED[name], ast.Load())
            yield "exchanged call", ast.Call(func, node.args, node.keywords)
        case ast.Return(value=ast.expr()) if _may_be_none(returns):
            if not isinstance(node.value, ast.Constant):
                yield "returned None", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "removed statement", ast.Pass()
        case ast.If(orelse=[], body=[ast.Raise() | ast.Return() | ast.Continue()]):
            yield "removed guard", ast.Pass()


def _is_text(node: ast.BinOp) -> bool:
    both = (node.left, node.right)
    return any(
        isinstance(one, ast.JoinedStr)
        or (isinstance(one, ast.Constant) and isinstance(one.value, str))
        for one in both
    )


def _may_be_none(returns: ast.expr | None) -> bool:
    return returns is not None and "None" in ast.unparse(returns).split(" | ")[1:]


def places(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str, ast.AST]]:
    """Yield function, node, kind and replacement of every change to a module."""

    def walk(
        node: ast.AST, inside: str, returns: ast.expr | None
    ) -> Iterator[tuple[str, ast.AST, str, ast.AST]]:
        for kind, other in changes(node, returns):
            yield inside, node, kind, other
        children: list[ast.AST] = list(ast.iter_child_nodes(node))
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inside = f"{inside}.{node.name}" if inside else node.name
                returns = node.returns
                defaults = [*node.args.defaults, *node.args.kw_defaults]
                children = [one for one in (*defaults, *node.body) if one]
            case ast.ClassDef():
                inside = f"{inside}.{node.name}" if inside else node.name
                children = list(node.body)
            case ast.AnnAssign():
                children = [node.value] if node.value else []
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                children = list(node.orelse)
            case ast.Call(func=func) if _called(func) & (PLAIN_CALLS | LOGS):
                children = []
            case ast.Raise():
                children = []
        for child in children:
            if not isinstance(child, TEXTS) and not _is_log(child):
                yield from walk(child, inside, returns)

    yield from walk(tree, "", None)


def _called(func: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(func) if isinstance(one, ast.Name)}


def _is_log(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    return bool(_called(node.value.func) & LOGS)


@cache
def mutants_of(part: str, path: Path) -> list[tuple[Mutant, ast.AST, ast.AST]]:
    """Return every mutant of a file, with the node that changes and the other one."""
    found = []
    seen = Counter[tuple[object, ...]]()
    file = str(path.relative_to(ROOT / "src" / "veilsum"))
    for function, node, kind, other in places(ast.parse(path.read_text())):
        other = ast.copy_location(copy.deepcopy(other), node)
        texts = [_short(node), _short(ast.fix_missing_locations(other))]
        made = Mutant(part, file, function, kind, *texts, 0)
        found.append((replace(made, nth=seen[made.key]), node, other))
        seen[made.key] += 1
    return found


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else text[:87] + "..."


class _Exchange(ast.NodeTransformer):
    def __init__(self, at: tuple[int, ...], kind: type, other: ast.AST) -> None:
        self.at, self.kind, self.other = at, kind, other

    def visit(self, node: ast.AST) -> ast.AST:
        if type(node) is self.kind and _span(node) == self.at:
            return self.other
        return self.generic_visit(node)


def _span(node: ast.AST) -> tuple[int, ...]:
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return tuple(getattr(node, name, -1) for name in names)


def mutated(mutant: Mutant) -> tuple[CodeType, ast.AST] | None:
    """Return a mutant's module as code, and the node that changed; None if gone."""
    path = ROOT / "src" / "veilsum" / mutant.file
    for found, node, other in mutants_of(mutant.part, path):
        if found.key == mutant.key:
            tree = ast.parse(path.read_text())
            changed = _Exchange(_span(node), type(node), other).visit(tree)
            ast.fix_missing_locations(changed)
            return compile(changed, str(path), "exec"), node
    return None


# The sample


def draw() -> list[Mutant]:
    """Return so many mutants of each part, drawn with the fixed seed."""
    found = []
    for name, part in PARTS.items():
        paths = sorted((ROOT / "src" / "veilsum").glob(part.files))
        every = [one for path in paths for one, *_ in mutants_of(name, path)]
        found += random.Random(f"{SEED} {name}").sample(every, part.mutants)
    return found


def renewed(mutant: Mutant, taken: list[Mutant]) -> Mutant:
    """Return a mutant; where its code is gone, another one of its part."""
    paths = sorted((ROOT / "src" / "veilsum").glob(PARTS[mutant.part].files))
    every = [one for path in paths for one, *_ in mutants_of(mutant.part, path)]
    keys = {one.key for one in taken}
    if mutant.key in {one.key for one in every}:
        return mutant
    left = [one for one in every if one.key not in keys]
    return random.Random(f"{SEED} {mutant.key}").choice(left)


def read_sample() -> list[Mutant]:
    """Return the sample with its outcomes."""
    with SAMPLE.open(newline="") as file:
        lines = (line for line in file if not line.startswith("#"))
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return [Mutant(**{**row, "nth": int(row["nth"])}) for row in rows]


def write_sample(mutants: list[Mutant]) -> None:
    """Write the sample, with a count of outcomes above it."""
    names = [one.name for one in fields(Mutant)]
    staged = SAMPLE.with_suffix(".new")
    with staged.open("w", newline="") as file:
        file.write(f"# seed {SEED}; written by tests/mutation/mutants.py\n")
        file.writelines(f"# {line}\n" for line in summary(mutants))
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(names)
        writer.writerows([getattr(one, name) for name in names] for one in mutants)
    staged.replace(SAMPLE)


def keep(done: Mutant) -> None:
    """Put a mutant's outcome into the sample."""
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_sample([done if one.key == done.key else one for one in read_sample()])


def summary(mutants: list[Mutant]) -> Iterator[str]:
    """Yield a line for each part, and one for all."""
    groups = {name: [one for one in mutants if one.part == name] for name in PARTS}
    for name, group in {**groups, "all": mutants}.items():
        count = Counter(one.outcome for one in group)
        real = len(group) - count["equivalent"]
        yield (
            f"{name}: {len(group)} mutants, {count['equivalent']} equivalent, "
            f"{count['killed']} of {real} others killed"
        )


# Running


class Lines:
    """Notes which test runs which lines of a part, and its processor seconds."""

    def __init__(self, name: str) -> None:
        import coverage

        files = str(ROOT / "src" / "veilsum" / PARTS[name].files)
        self.name = name
        self.cover = coverage.Coverage(
            data_file=None, branch=False, include=[files], config_file=False
        )
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self):
        """Record while tests run, and write the notes."""
        self.cover.start()
        result = yield
        self.cover.stop()
        data, lines = self.cover.get_data(), defaultdict(dict)
        for path in data.measured_files():
            file = str(Path(path).relative_to(ROOT / "src" / "veilsum"))
            for line, tests in data.contexts_by_lineno(path).items():
                lines[file][line] = sorted(one for one in tests if one)
        NOTES.mkdir(parents=True, exist_ok=True)
        self._write(lines)
        return result

    def _write(self, lines: dict[str, dict[int, list[str]]]) -> None:
        """Write the notes; what is known of other tests stays."""
        path = NOTES / f"{self.name}.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        seconds = known.get("seconds", {}) | self.seconds
        merged = known.get("lines", {})
        for file, by_line in lines.items():
            old = merged.setdefault(file, {})
            for line, tests in by_line.items():
                old[str(line)] = sorted({*old.get(str(line), ()), *tests})
        path.write_text(json.dumps({"seconds": seconds, "lines": merged}))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Record under the test's name."""
        self.cover.switch_context(item.nodeid)
        begin = time.process_time()
        result = yield
        self.seconds[item.nodeid] = round(time.process_time() - begin, 3)
        return result


class Runs:
    """Runs every mutant in a fork of the process that has collected the tests."""

    def __init__(self, name: str, mutants: list[Mutant]) -> None:
        self.mutants = mutants
        self.notes = json.loads((NOTES / f"{name}.json").read_text())

    def pytest_runtestloop(self, session):
        """Run mutants instead of tests."""
        items = {item.nodeid: item for item in session.items}
        # Several processes may share a part: each takes another way through it.
        random.shuffle(self.mutants)
        for mutant in self.mutants:
            if next(one.outcome for one in read_sample() if one.key == mutant.key):
                continue
            done = self._run(mutant, items)
            keep(done)
            told = f"{done.outcome:9} {done.file} {done.function}: {done.change}, "
            told += f"{done.before} -> {done.after} ({done.note})\n"
            os.write(2, told.encode())
        return True

    def _run(self, mutant: Mutant, items) -> Mutant:
        made = mutated(mutant)
        if made is None:
            return replace(mutant, outcome="", note="the code has changed: draw anew")
        code, node = made
        names = [one for one in covering(mutant, node, self.notes) if one in items]
        if names:
            outcome = in_fork(code, mutant, [items[name] for name in names])
        else:
            # It may still run while its module is imported.
            names = [one for one in importing(mutant, self.notes) if one in items]
            if not names:
                note = "no test runs this line"
                return replace(mutant, outcome="survived", note=note)
            outcome = in_new_process(mutant, names)
        if outcome.startswith(BROKEN):
            return replace(mutant, outcome="", note=outcome)
        return replace(
            mutant, outcome="killed" if outcome else "survived", note=outcome
        )


def _is_in_function(mutant: Mutant) -> bool:
    """Say whether a function's code changes, and not what an import does."""
    path = ROOT / "src" / "veilsum" / mutant.file
    if "numba.njit(" in path.read_text():
        return False
    node = next(
        node for one, node, _ in mutants_of(mutant.part, path) if one.key == mutant.key
    )
    for one in ast.walk(ast.parse(path.read_text())):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            body = (one.body[0].lineno, one.body[0].col_offset)
            end = (one.end_lineno, one.end_col_offset)
            if body <= (node.lineno, node.col_offset) < end:
                return True
    return False


def covering(mutant: Mutant, node: ast.AST, notes) -> list[str]:
    """Return the tests that run a mutant's lines in a function, the quickest first."""
    if not _is_in_function(mutant):
        return []
    by_line = notes["lines"].get(mutant.file, {})
    numbers = map(str, range(node.lineno, node.end_lineno + 1))
    tests = {one for line in numbers for one in by_line.get(line, ())}
    if is_kernel(mutant):
        # Machine code is not traced: the tests that run a line with its name.
        tests |= running(rf"\b{mutant.function.rpartition('.')[2]}\b", notes)
    return quickest(tests, notes)


def importing(mutant: Mutant, notes) -> list[str]:
    """Return the tests that run or import a mutant's module, the quickest first."""
    lines = notes["lines"].get(mutant.file, {}).values()
    package, _, module = _dotted(mutant).rpartition(".")
    words = rf"\b{package}(\.| import\b.*\b){module}\b"
    tests = {one for every in lines for one in every} | running(words, notes)
    for one in notes["seconds"]:
        if re.search(words, _source(one.partition("::")[0])):
            tests.add(one)
    return quickest(tests, notes)


def running(words: str, notes) -> set[str]:
    """Return the tests that run a line of the part in which a pattern is found."""
    tests = set[str]()
    for file, lines in notes["lines"].items():
        source = _source(f"src/veilsum/{file}").splitlines()
        for line, every in lines.items():
            if re.search(words, source[int(line) - 1]):
                tests |= {*every}
    return tests


def quickest(tests: set[str], notes) -> list[str]:
    """Return tests in the order of their processor seconds."""
    return sorted(tests, key=lambda one: (notes["seconds"].get(one, 0.0), one))


@cache
def _source(path: str) -> str:
    return (ROOT / path).read_text()


def _dotted(mutant: Mutant) -> str:
    dotted = "veilsum." + mutant.file.removesuffix(".py").replace("/", ".")
    return dotted.removesuffix(".__init__")


def is_kernel(mutant: Mutant) -> bool:
    """Say whether numba compiles the mutant's function."""
    return mutant.function.rpartition(".")[2] in kernels()


@cache
def kernels() -> set[str]:
    """Return the names of the functions that numba compiles."""
    sources = (ROOT / "src" / "veilsum").rglob("*.py")
    pattern = r"\bcompiled\((\w+)\)"
    return {
        one for path in sources for one in re.findall(pattern, path.read_text(), re.M)
    }


def in_fork(code: CodeType, mutant: Mutant, items) -> str:
    """Run tests with a function's code exchanged; return which failed, or nothing."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(read)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        resource.setrlimit(resource.RLIMIT_CPU, (FOREVER_SECONDS, FOREVER_SECONDS))
        failed = BROKEN
        try:
            if is_kernel(mutant):
                import numba

                # What is on disk was compiled from another source.
                numba.config.CACHE_DIR = tempfile.mkdtemp(prefix="mutant-")
            exchange(code, mutant)
            failed = run_items(items)
        except BaseException as error:
            failed = f"{BROKEN}: {error!r}"
        os.write(write, failed.encode())
        os._exit(0)
    os.close(write)
    return wait_for(child, read)


def exchange(code: CodeType, mutant: Mutant) -> None:
    """Give every living function of the mutant's name the mutated code."""
    path = code.co_filename
    new = {(one.co_qualname, one.co_firstlineno): one for one in codes(code)}
    changed = 0
    gc.unfreeze()
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename == path:
            other = new.get((one.__code__.co_qualname, one.__code__.co_firstlineno))
            if other is not None and other != one.__code__:
                one.__code__ = other
                changed += 1
    if not changed:
        raise LookupError(f"no function {mutant.function} to exchange")


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of every function within code."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from codes(one)


def run_items(items) -> str:
    """Run tests until one fails or the time is over; return which failed."""
    failures: list[str] = []

    class Reports:
        def pytest_runtest_logreport(self, report):
            if report.failed:
                failures.append(report.nodeid)

    config = items[0].config
    config.get_terminal_writer()._file = io.StringIO()
    config.pluginmanager.register(Reports())
    begin = time.process_time()
    for item, after in zip(items, [*items[1:], None], strict=True):
        if time.process_time() - begin > MOST_SECONDS:
            break
        config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if failures:
            return failures[0]
    return ""


def wait_for(child: int, read: int) -> str:
    """Return what a child writes before its end, or that it came to none."""
    begin = time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - begin > HANG_SECONDS:
            os.killpg(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            break
        time.sleep(0.02)
    with os.fdopen(read) as file:
        said = file.read()
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}"
    return said


def in_new_process(mutant: Mutant, names: list[str]) -> str:
    """Run tests with a mutated import; return which failed, or nothing."""
    command = [sys.executable, __file__, "import", json.dumps(vars(mutant)), *names]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (FOREVER_SECONDS, FOREVER_SECONDS))

    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        env = {**os.environ, "NUMBA_CACHE_DIR": folder, "MUTANT": folder}
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, preexec_fn=limit
        )
        failed = Path(folder, "failed")
        if failed.exists():
            return failed.read_text()
    if done.returncode in (0, pytest.ExitCode.INTERRUPTED):
        return "it cannot be imported" if done.returncode else ""
    if done.returncode < 0:
        return f"ended by signal {-done.returncode}"
    return f"{BROKEN}: {done.stdout[-1000:]}"


class Mutated(importlib.machinery.SourceFileLoader):
    """Loads one module from mutated code."""

    code: CodeType

    def get_code(self, fullname: str) -> CodeType:
        """Return the code that is mutated already."""
        del fullname
        return self.code


class Finder:
    """Finds the mutated module, and no other."""

    def __init__(self, name: str, code: CodeType) -> None:
        self.name, self.code = name, code

    def find_spec(self, name, path=None, target=None):
        """Return the mutated module's specification."""
        del path, target
        if name != self.name:
            return None
        loader = Mutated(name, self.code.co_filename)
        loader.code = self.code
        return importlib.machinery.ModuleSpec(
            name, loader, origin=self.code.co_filename, is_package=False
        )


class Stops:
    """Ends a run after some seconds, as if it had passed, and says what failed."""

    def __init__(self) -> None:
        self.begin = time.process_time()

    def pytest_runtest_logreport(self, report):
        """Say which test failed."""
        if report.failed:
            Path(os.environ["MUTANT"], "failed").write_text(report.nodeid)

    def pytest_runtest_logfinish(self):
        """Stop when the time is over."""
        if time.process_time() - self.begin > MOST_SECONDS:
            os._exit(0)

    def pytest_collection_modifyitems(self, items):
        """Run the quickest first, as they are named."""
        order = {name: k for k, name in enumerate(sys.argv[3:])}
        items.sort(key=lambda item: order.get(item.nodeid, len(order)))


def run_imported(mutant: Mutant, names: list[str]) -> int:
    """Run tests in this process, where one module's import is mutated."""
    made = mutated(mutant)
    assert made is not None
    sys.meta_path.insert(0, Finder(_dotted(mutant), made[0]))
    return int(pytest.main([*OPTIONS, "-x", *names], plugins=[Stops()]))


OPTIONS = ["-q", "-p", "no:cacheprovider", "-m", "not slow", "--rootdir", str(ROOT)]


def main(action: str, *names: str) -> int:
    """Do what the command line says."""
    os.chdir(ROOT)
    os.environ["CI"] = "1"  # Hypothesis has the same examples every time
    os.environ["PYTHONPATH"] = sys.path[0] = str(ROOT / "src")
    if action == "import":
        return run_imported(Mutant(**json.loads(names[0])), list(names[1:]))
    if action == "sample":
        write_sample(draw())
        return 0
    if not names:
        # A part has a process of its own: what one has imported another may mutate.
        for name in PARTS:
            subprocess.run([sys.executable, __file__, action, name], check=True)
        return 0
    name, *tests = names
    if action == "renew":
        taken = read_sample()
        write_sample(
            [renewed(one, taken) if one.part == name else one for one in taken]
        )
        return 0
    part = PARTS[name]
    sources = [str(one) for one in Path("src/veilsum").glob(part.files)]
    options = [*OPTIONS, *(tests or (*part.tests, *sources))]
    if action == "lines":
        return int(pytest.main(options, plugins=[Lines(name)]))
    mine = [one for one in read_sample() if one.part == name and not one.outcome]
    pytest.main(options, plugins=[Runs(name, mine)])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
