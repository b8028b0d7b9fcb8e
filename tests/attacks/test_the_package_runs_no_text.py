"""No line of the package turns text into code, or loads what can hold code.

Read from the source itself, so that a line nobody runs is found as well.
"""

import ast
from collections import Counter
from pathlib import Path

import veilsum
from cases import each

PACKAGE = Path(veilsum.__file__).parent

# Called by name, or as a method of whatever it may be.
RUN = {"eval", "exec", "compile", "__import__", "execfile", "input"}
METHODS = {
    *("eval", "query", "model_matrix", "from_formula", "Formula"),  # pandas, formulaic
    *("popen", "execv", "execve", "execvp", "spawnl", "spawnv", "startfile"),
    *("Popen", "create_subprocess_exec", "create_subprocess_shell", "check_output"),
    *("exec_module", "run_path", "literal_eval", "load_source"),
    *("fromfile", "memmap", "read_pickle", "read_hdf", "read_sql", "read_html"),
}
LOADERS = {
    *("pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle"),
    *("joblib", "yaml", "ruamel", "jsonpickle", "patsy", "numexpr", "subprocess"),
    *("code", "codeop", "imp", "ctypes", "pty", "commands"),
}
FORBIDDEN_KEYS = {"shell", "allow_pickle", "executable"}

# Where text of others is read. An attribute is looked up there by a name that is
# no constant in these lines only: of fields of a class, or of a list in the code.
READERS = ("reading.py", "tables", "files", "consortium", "protocol", "net")
LOOKUPS = Counter(
    {
        "reading.py: getattr(self, key)": 1,  # keys of the class
        "tables/columns.py: getattr(self, field)": 1,  # "minimum" and "maximum"
        "tables/formula/contrasts.py: "
        "getattr(contrasts, CONTRASTS[str(node.contrast)][0])": 1,
        # A name that is checked.
        "files/datasets.py: "
        "getattr(_import_dataset_package(f'pypower.{name}'), name)": 1,
        "minimise/checkpoints.py: getattr(state, one.name)": 1,  # fields of the class
        "tables/rules.py: getattr(self, name)": 2,  # of _BOUNDS, of `off`
        "tables/rules.py: getattr(self.rules, rule)": 1,  # written in that file
        "consortium/consortium.py: getattr(member, what)": 1,
        "consortium/costs.py: getattr(cost.basis, key, None)": 1,  # of a list there
        "consortium/costs.py: getattr(self, key)": 3,
        "consortium/costs.py: getattr(self, OWN[self.kind][0])": 1,  # kind is checked
        "consortium/costs.py: getattr(basis, key, None)": 1,
        "consortium/drafting.py: getattr(file, name)": 1,
        "consortium/scenario.py: getattr(file, name)": 2,
        "consortium/scenario.py: getattr(self, one.name)": 1,
        "consortium/sections.py: getattr(self, key)": 2,
        "consortium/kinds.py: getattr(import_module(module), name)": 1,  # of BUILT_IN
        "consortium/kinds.py: getattr(self, name)": 1,  # fields of the class
        "minimise/rounds.py: getattr(value, name)": 1,  # __slots__
        "minimise/rounds.py: getattr(model, name)": 1,
        "protocol/work.py: getattr(value, one.name)": 1,
        "net/handshake.py: getattr(self, one.name)": 2,
        "net/receipt.py: getattr(one, field)": 1,  # of ALIKE
    }
)
# Where another program is started, and which: what it is given is written there, and a
# file's text reaches it as a page to be printed, by a path of our own. And where values
# are tried for whether they could go to another process of one's own; none is loaded.
STARTED = {
    "report/printing.py": ["subprocess"],
    "minimise/sweeps.py": ["pickle"],
    "web/planner.py": [".create_subprocess_exec"],
    "cli/ranks.py": ["subprocess", ".Popen"],  # this command again, as it was typed
    # Of a copy of one's own rows, after its digest; pickled cells are refused.
    "files/cuts.py": ["np.load", "allow_pickle="],
    "files/arrays.py": [".memmap"],  # of numbers, after its head was looked at
}


def findings(source):
    """What a text of Python does that no text of others may reach."""
    kinds = (ast.Call, ast.Attribute, ast.Import, ast.ImportFrom, ast.keyword)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, kinds):
            continue
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in RUN:
                yield name
            case ast.Call(func=ast.Attribute(attr=name)) if name in METHODS:
                yield f".{name}"
            case ast.Attribute(value=ast.Name(id="builtins"), attr=name) if name in RUN:
                yield f"builtins.{name}"
            case ast.Attribute(value=ast.Name(id="os"), attr="system"):
                yield "os.system"
            case ast.Call(func=ast.Attribute(attr="run_module"), args=[name, *_]) if (
                not isinstance(name, ast.Constant)
            ):
                yield ".run_module"
            case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="load"):
                yield "np.load"
            case ast.Import(names=names):
                yield from (
                    one.name for one in names if one.name.partition(".")[0] in LOADERS
                )
            case ast.ImportFrom(module=str(name)) if name.partition(".")[0] in LOADERS:
                yield name
            case ast.keyword(arg=str(name)) if name in FORBIDDEN_KEYS:
                yield f"{name}="


def lookups(source):
    """Attributes that are looked up, set or taken away by a name that is computed."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "delattr"),
                args=[_, name, *_],
            ) if not isinstance(name, ast.Constant):
                yield ast.unparse(node)


def sources(*places):
    for place in places:
        path = PACKAGE / place
        for one in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            yield one.relative_to(PACKAGE).as_posix(), one.read_text("utf-8")


def test_no_line_runs_text_or_loads_code():
    found = {name: [*findings(text)] for name, text in sources(".")}
    assert len(found) > 150
    assert {name: lines for name, lines in found.items() if lines} == STARTED
    (called,) = (
        node
        for node in ast.walk(ast.parse((PACKAGE / "web" / "planner.py").read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") == "create_subprocess_exec"
    )
    words = ["sys.executable", "'-m'", "'veilsum.web.planning'"]
    assert [ast.unparse(one) for one in called.args] == words
    text = (PACKAGE / "minimise" / "sweeps.py").read_text("utf-8")
    assert [line for line in text.splitlines() if "pickle import" in line] == [
        "    from pickle import PicklingError, dumps"
    ]


@each(
    "line",
    [
        *("eval(text)", "exec(text)", "compile(text, '', 'eval')", "__import__(text)"),
        *("df.query(text)", "df.eval(text)", "pd.eval(text)", "os.system(text)"),
        *("import pickle", "from marshal import loads", "import shelve", "import yaml"),
        *("run(text, shell=True)", "np.load(path)", "load(path, allow_pickle=True)"),
        *("builtins.eval", "import subprocess", "formulaic.Formula(text)"),
        *("pd.read_pickle(path)", "formulaic.model_matrix(text, frame)"),
    ],
)
def test_a_line_that_does_is_found(line):
    assert [*findings(line)]
    assert not [*findings("re.compile(text); json.loads(text); compiled(kernel)")]


def test_names_of_attributes_are_never_taken_from_a_file():
    found = Counter(
        f"{name}: {line}" for name, text in sources(*READERS) for line in lookups(text)
    )
    assert found - LOOKUPS == Counter(), "say above where the name comes from"


def test_a_lookup_by_text_is_found():
    assert [*lookups("getattr(np, name)"), *lookups("setattr(self, key, 1)")]
    assert not [*lookups("getattr(np, 'log'); getattr(x, 'y', None)")]
