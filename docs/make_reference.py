"""Write the generated parts of docs/reference.

cli.md is the help of all commands. In wire.md the column of fields in the tables of
messages follows from the structs in `veilsum.protocol.messages`; the rest of that page
is written by hand. Run it after changing a command or a message:
`.venv/bin/python docs/make_reference.py`.
"""

import re
from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import click
from click.testing import CliRunner

from veilsum.cli.app import app, command_names
from veilsum.protocol.messages import MESSAGES, Message, Names, Record

REFERENCE = Path(__file__).parent / "reference"
TABLE = re.compile(r"^\| \w+ \| (Fields in order|Further fields) \|.*\n(\|.*\n)+", re.M)
# A row of such a table: the name, the fields, and columns written by hand.
ROW = re.compile(r"^\| `(?P<name>[A-Z]\w+)` \| (?P<fields>[^|]*) \|", re.MULTILINE)
INTRODUCTION = """\
# Command line

<!-- Written by docs/make_reference.py from the commands' help: do not edit. -->

Every command that does something takes `--json` (of a group, such as `attack`, the
commands in it do); it then prints one JSON document on standard output and nothing
else there. [JSON](json.md) lists the keys. Whatever goes wrong is said in one
sentence on standard error.

| Exit code | Meaning |
|---|---|
| 0 | the work was done; "no guarantee" is an answer too |
| 1 | an optional package is missing, you interrupted the work, or there is a bug; \
the parties of `join` and `up` gave up; `verify` or `doctor --network` found fault |
| 2 | the input cannot be used: the sentence says what was found and what to do |
"""


def pages() -> dict[Path, str]:
    """Return what each generated page should contain."""
    wire = REFERENCE / "wire.md"
    return {
        REFERENCE / "cli.md": cli_page(),
        wire: with_fields(wire.read_text(encoding="utf-8")),
    }


def with_fields(page: str) -> str:
    """Return the page with the fields of every message as its struct defines them."""
    kinds = {kind.__name__: kind for kind in MESSAGES}
    rows = [
        row["name"] for table in TABLE.finditer(page) for row in ROW.finditer(table[0])
    ]
    if sorted(rows) != sorted(kinds):
        differing = ", ".join(sorted({*rows} ^ {*kinds})) or "one that has two rows"
        raise SystemExit(f"wire.md needs one row for each message; look at {differing}")

    def row(match: re.Match[str]) -> str:
        return f"| `{match['name']}` | {fields(kinds[match['name']])} |"

    return TABLE.sub(lambda table: ROW.sub(row, table[0]), page)


def fields(kind: type[Message]) -> str:
    """Return the fields of a message in order, without those that all records have."""
    hints = get_type_hints(kind, include_extras=True)
    common = Record.__struct_fields__ if issubclass(kind, Record) else ()
    own = [name for name in kind.__struct_fields__ if name not in common]
    return ", ".join(f"`{name}`{_remark(hints[name])}" for name in own)


def _remark(hint: object) -> str:
    if hint == Names:
        return " (names)"
    if isinstance(hint, type) and issubclass(hint, Record):
        return f" (a `{hint.__name__}`, signed)"
    if get_origin(hint) is Annotated and get_args(hint)[0] is bytes:
        return f" ({get_args(hint)[1].max_length} bytes)"
    return ""


def cli_page() -> str:
    """Return the whole page of commands."""
    sections = [_section(path) for path in ([], *paths())]
    return "\n".join([INTRODUCTION, *sections])


def paths() -> list[list[str]]:
    """Return every command as the words that call it, groups before what is in them."""
    found = []
    for name in command_names():
        command = command_at([name])
        within = command.commands if isinstance(command, click.Group) else ()
        found += [[name], *([name, inner] for inner in within)]
    return found


def command_at(path: list[str]) -> click.Command:
    """Return the command that these words call."""
    command: click.Command = app
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None, path
        command = found
    return command


def _section(path: list[str]) -> str:
    # The width is fixed: the page must not depend on the terminal it is made in.
    answer = CliRunner().invoke(
        app, [*path, "--help"], prog_name="veilsum", terminal_width=80
    )
    assert answer.exit_code == 0, answer.output
    title = " ".join(["veilsum", *path])
    return f"## {title}\n\n```text\n{answer.output.rstrip()}\n```\n"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
