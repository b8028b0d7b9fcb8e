"""Texts that an organiser might write to get more than an answer: a corpus.

Each belongs to one place of a file: a formula, a column's name, a category, the title,
a path. Families are made of pieces, so that no combination is forgotten; the rest was
written by hand. Whatever runs leaves a mark.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import veilsum

# Text that runs leaves a mark here; `__import__` finds this module by its name.
MARKS: list[int] = []
MARK = "veilsum_mark"
# Without a quote or a backtick, as python writes it: so it fits into any level.
EVIL = f"exec(bytes({list(f'import {MARK}; {MARK}.MARKS.append(1)'.encode())}))"


@contextmanager
def marked():
    """Let text that runs find this module; yield the marks that it leaves."""
    sys.modules[MARK] = sys.modules[__name__]
    MARKS.clear()
    try:
        yield MARKS
    finally:
        del sys.modules[MARK]


# Everything that Python is asked to compile or to run, while somebody listens.
HEARD: list[object] | None = None


PACKAGE = Path(veilsum.__file__).parent


def _checking_shapes():
    """Whether the checker of shapes compiles a function's own annotations."""
    frame = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if PACKAGE in path.parents:  # it is the package that compiles
            return False
        if path.name == "typechecker.py":
            return True
        frame = frame.f_back
    return False


def _hear(event, arguments):
    if HEARD is not None and event in {"compile", "exec"} and not _checking_shapes():
        HEARD.append(arguments[0])


sys.addaudithook(_hear)  # for the life of the process: silent unless somebody listens


@contextmanager
def listening():
    """Collect everything that Python is asked to compile or to run."""
    global HEARD
    HEARD = heard = []
    try:
        yield heard
    finally:
        HEARD = None


@dataclass(frozen=True)
class Hostile:
    """One text, and where it stands.

    Attributes:
        place: formula, name, level, title or path.
        column: the category column that a formula speaks of, for the canary.
        levels: its levels.
    """

    place: str
    text: str
    column: str = "a"
    levels: tuple[str, ...] = ("b", "c")


QUOTES = {"'": "'", '"': '"', "`": "`", "\u2018": "\u2019", "\u201c": "\u201d"}
LOOKALIKES = {
    "fullwidth": str.maketrans({chr(k): chr(k + 0xFEE0) for k in range(0x21, 0x7F)}),
    "mathematical": str.maketrans(
        {chr(97 + k): chr(0x1D44E + k) for k in range(26) if k != 7}
    ),
    "cyrillic": str.maketrans("aeopcyx", "\u0430\u0435\u043e\u0440\u0441\u0443\u0445"),
    "greek": str.maketrans("ovi", "\u03bf\u03bd\u03b9"),
}
UNSEEN = [
    *("\n", "\r", "\t", "\0", "\x0b", "\x0c", "\x1b[2J", "\x1b]0;forged\x07", "\x7f"),
    *("\x85", "\x9b31m", "\u00ad", "\u200b", "\u200d", "\u200e", "\u200f", "\u2028"),
    *("\u2029", "\u202a", "\u202d", "\u202e", "\u2060", "\u2066", "\u2067", "\u2069"),
    *("\ufeff", "\ufffe", "\ud800", "\U000e0041", "\u3164", "\u115f", "\ufe0f"),
    *("\u2800", "\u00a0", "\u2003", "\u180e", "\u034f", "\U000e0101", "\b\b\b"),
]
DOORS = [
    *("__import__('os').system('true')", "().__class__.__base__.__subclasses__()"),
    *("a.__class__", "np.__loader__", "np.load('x')", "np.fromfile('x')", "a.mro()"),
    *("open('/etc/passwd')", "getattr(a, 'b')", "globals()", "vars()", "breakpoint()"),
    *("lambda: 0", "[x for x in a]", "(x := 1)", "a if b else c", "a and b", "not a"),
    *("a[0]", "a[::2]", "{a: 1}", "*a", "**a", "a @ a", "a // 2", "a % 2", "a << 9"),
    *("f'{a}'", "b'a'", "'a' 'b'", "'''a'''", "r'a'", "...", "await a", "yield a"),
    *("print(a)", "np.log.__call__(a)", "log.__globals__", "C.__init__(a)", "I.x"),
    *("poly(a, 3)", "bs(a)", "scale(a)", "center(a)", "hashed(a)", "lag(a)", "a.b.c"),
]


def _formulas():
    call = f"{EVIL}"
    places = (
        *("{%s}", "I(%s)", "log(%s)", "np.log(%s)", "%s", "C(%s)", "C(a, %s)"),
        *("C(a, Treatment(%s))", "C(a, contrasts=%s)", "C(a, Treatment(reference=%s))"),
        *("y:{%s}", "({%s} + y)**2", "y/{%s}", "{%s} %%in%% y", "{y + %s}", "{-%s}"),
        *("{(%s)}", "C(a)[%s]", "a.%s", "{y if %s else y}", "{[%s][0]}", "poly(y, %s)"),
        *("{log(%s) * y}", "`%s`", "{`%s`}", "C(`%s`)", "1 | %s", "0 + {%s}"),
        *("{lambda x=%s: x}", "{f'{%s}'}", "#`\n + {%s}", "{y} #\n{%s}", "{%s;y}"),
    )
    for place in places:
        yield Hostile("formula", f"y ~ {place % call}")
        yield Hostile("formula", f"{place % call} ~ y")
    for door, place in product(DOORS, ("{%s}", "I(%s)")):
        yield Hostile("formula", f"y ~ {place % door}")
    # Three readers once disagreed about a quote inside backticks.
    for quote in ("'", '"'):
        column, levels = f"a{quote}", (f"`=[{EVIL}, ", "b")
        inner = (
            f"C(`a{quote}`, contr.treatment({quote}`=([{EVIL}, {quote})) #`{quote}]))"
        )
        for frame in ("y ~ %s", "y ~ y:%s - 1", "y ~ 0 + %s", "y ~ (%s)"):
            yield Hostile("formula", frame % inner, column, levels)
    for opened, closed in QUOTES.items():
        for text in (f"{opened}a{closed}", f"{opened}a", f"a{closed}", opened * 3):
            yield Hostile("formula", f"y ~ {text}")
            yield Hostile("formula", f"y ~ C(a, Treatment({text}))")
    for table in LOOKALIKES.values():
        for text in ("exec(a)", "log(a)", "C(a)", "y ~ a", "a + a", "eval(open)"):
            yield Hostile("formula", f"y ~ {text.translate(table)}")
    for letter in UNSEEN:
        yield Hostile("formula", f"y ~ a{letter}")
    yield from (Hostile("formula", f"y ~ {text}") for text in _LARGE)


def _sum(count, sign="+"):
    return sign.join(f"v{k}" for k in range(count))


_LARGE = [
    *(_sum(count, "*") for count in (13, 14, 22, 60, 2000)),
    *(_sum(count, ":") for count in (21, 500, 2000)),
    *(_sum(count, "/") for count in (14, 22, 1000)),
    *(_sum(count, " %in% ") for count in (22, 900)),
    *(f"({_sum(3)})**{power}" for power in (9, 99, "9" * 300, "1e9", "-1", "0", "y")),
    *(f"({_sum(count)})**5" for count in (20, 100, 1500)),
    *("(" * deep + "y" + ")" * deep for deep in (19, 25, 500, 4900)),
    *("{" + "(" * deep + "y" + ")" * deep + "}" for deep in (25, 4900)),
    *("{" + sign * 4000 + "y}" for sign in ("-", "+", "-+")),
    *("log(" * deep + "y" + ")" * deep for deep in (25, 2000)),
    *(f"{{y{sign * 300}}}" for sign in ("**2", "**y", "*y", "+y", "/y", "-y")),
    *(f"{{{number} * y}}" for number in ("9" * 41, "1e999", "1e-999", "9" * 9000)),
    *(f"{{y ** {number}}}" for number in ("9" * 30, "1e300", "-1e300", "9**9**9")),
    *("{9**9**9**9 * y}", "{9**99999999 + y}", "{1e308*10*y}", "{y/0}", "{0**-1*y}"),
    *(f"({'+'.join(f'({_sum(9)})**3' for _ in range(40))})", "y" * 10_001, "+" * 9000),
    *("(((" * 30 + "a+b)*" * 30, "a*" * 4999 + "a", "`" * 9999, "'" * 9999, "(" * 9999),
    *(f"({_sum(12)})*({_sum(12)})*({_sum(12)})*({_sum(12)})", "1" * 9000, "." * 9000),
]


def _names(place):
    """Names and levels: what breaks out of its quotes, or looks like something else."""
    for quote in QUOTES:
        yield from (f"a{quote}", f"{quote}a{quote}", f"a{quote}+{EVIL[:20]}+{quote}b")
    yield from (f"a{letter}b" for letter in UNSEEN)
    yield from ("age".translate(table) + "x" for table in LOOKALIKES.values())
    yield from ("a\\", "a\\n", "\\x41", " a", "a ", "", "a" * 201, "a" * 10**6)
    yield from ("a\u0301", "\u0301a", "a" + "\u0316" * 40, "e\u0301" * 9)
    yield from ("../../etc/passwd", "/etc/passwd", "a/../b", "C:\\x", "con", "nul\0")
    yield from (EVIL, "__class__", "__import__", "[/]", "[red]a[/red]", "%s%n", "{0}")
    yield from ("${HOME}", "$(true)", "`true`", "a;b", "a|b", "<b>a</b>", "a,b", "-rf")
    if place == "name":
        yield from ("a[T.b]", "C(a)", "log", "np", "y", "Intercept", "f0", "one")


def _titles():
    yield from (f"a study{letter}digest      0000" for letter in UNSEEN)
    yield from ("a" * 201, "a" * 10**6, "a  b", "[/]", "[bold red]x[/bold red]", EVIL)
    yield from ("$(true)", "`true`", "%s%n%d", "{0.__class__}", "{{7*7}}", "<script>")


def _paths():
    yield from ("../" * 40 + "etc/passwd", "/etc/passwd", "/dev/zero", "/dev/stdin")
    yield from ("/proc/self/mem", "file:///etc/passwd", "http://x.invalid/a.json", "~")
    yield from ("a\0.json", "|true", "$(true).json", "a" * 5000, "", ".", "..", "//x/y")
    yield from (f"a{letter}.json" for letter in UNSEEN)
    yield from ("-", "--help", "C:\\Windows\\win.ini", "\\\\host\\share", "con", "*")


CORPUS: tuple[Hostile, ...] = tuple(
    dict.fromkeys(
        [
            *_formulas(),
            *(Hostile("name", text) for text in _names("name")),
            *(Hostile("level", text) for text in _names("level")),
            *(Hostile("title", text) for text in _titles()),
            *(Hostile("path", text) for text in _paths()),
        ]
    )
)
