"""What a command loads: packages that it does not need cost its user seconds."""

from __future__ import annotations

import subprocess
import sys

from cases import each

LOADED = """
import sys
def show(heavy):
    print({name for name in heavy if name in sys.modules}, file=sys.stderr)
"""
COMMAND = """
from veilsum.cli import main
sys.argv = ["veilsum", *{words!r}.split()]
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
"""
NEVER = (
    *("sklearn", "lifelines", "statsmodels", "numba", "networkx", "scipy.stats"),
    *("jax", "jaxtyping", "pyarrow", "asyncio", "multiprocessing"),
)
# Modules of other questions, of ledgers, of other engines, and of real parties.
OTHERS = (
    *("formulaic", "scipy.optimize", "veilsum.models.cox", "veilsum.models.mixed"),
    *("veilsum.models.fleets", "veilsum.models.price", "veilsum.questions.survival"),
    *("veilsum.questions.statistics", "veilsum.questions.evaluate"),
    *("veilsum.questions.meta", "veilsum.questions.dispatch"),
    *("veilsum.files.ledger", "veilsum.privacy.accountant"),
    *("veilsum.minimise.engines.numba", "veilsum.minimise.engines.jax"),
    "veilsum.minimise.engines.mpi",
    *("veilsum.scale.cluster", "veilsum.scale.processes", "veilsum.protocol.machine"),
    *("veilsum.net", "veilsum.party", "veilsum.report"),
)
ARRAYS = (
    *("numpy", "scipy", "pandas", "flint", "veilsum.questions", "veilsum.fits"),
    *("veilsum.minimise", "veilsum.sums", "veilsum.consortium"),
)


SUM = """
vs.sum({"a": [1, 2], "b": [3, 4], "c": [5, 6], "d": [7, 8]})
"""
# Searches of what is installed.
LOOKUPS = ("importlib.metadata", "importlib.resources", "tempfile")
HELP = (*NEVER, *OTHERS, *ARRAYS)
TABLES = ("pandas", "veilsum.questions.regression", "scipy.special")
# From what needs least to what needs most: a process only ever loads more.
IN_TURN = [
    ("import veilsum as vs", (*HELP, "click", "rich", "msgspec")),
    *(
        (COMMAND.format(words=words), (*HELP, *more))
        for words, *more in (
            ("--version", "rich", "msgspec", *LOOKUPS),
            ("--help", "rich", "msgspec", *LOOKUPS),
            ("fit --help",),
            ("check --help",),
        )
    ),
    (SUM, (*NEVER, *OTHERS, *TABLES)),
]
FIT = [
    (
        COMMAND.format(words="fit examples/diabetes.toml"),
        (*NEVER, *OTHERS, "rich"),
    )
]


@each("steps", [IN_TURN, FIT])
def test_nothing_loads_a_package_that_it_does_not_need(steps):
    code = LOADED + "".join(f"{code}\nshow({heavy!r})\n" for code, heavy in steps)
    run = [sys.executable, "-c", code]
    found = subprocess.run(run, check=True, capture_output=True, text=True)
    assert found.stderr.splitlines() == ["set()"] * len(steps)


LATE = """
import sys
from veilsum.party.processes import party_process_context
loaded = {{name for name in {heavy!r} if name in sys.modules}}
import veilsum.party.preloaded
from veilsum.consortium.kinds import _question_kinds_from_others
from veilsum.locale import catalogue
read = [each.cache_info().currsize for each in (catalogue, _question_kinds_from_others)]
print(loaded, {{*{needed!r}}} - {{*sys.modules}}, read)
"""


def test_what_local_parties_need_is_loaded_before_they_are_forked():
    """Loading takes a party longer than the protocol, and there may be fifty.

    The module that starts the process they are forked from loads none of it.
    """
    heavy = (*ARRAYS, "click", "msgspec", "veilsum.protocol", "veilsum.net")
    needed = (
        *("pandas", "formulaic", "scipy.special", "websockets.asyncio.client"),
        *("veilsum.questions.regression", "veilsum.party.consent", "veilsum.net.links"),
        *("veilsum.drivers.arrays", "veilsum.minimise.engines.numpy"),
        "importlib.resources",
    )
    run = [sys.executable, "-c", LATE.format(heavy=heavy, needed=needed)]
    found = subprocess.run(run, check=True, capture_output=True, text=True)
    assert found.stdout == "set() set() [3, 1]\n"
