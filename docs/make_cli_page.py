"""Write docs/reference/cli.md from the commands' own help: the two cannot differ.

Run it after changing a command: `.venv/bin/python docs/make_cli_page.py`.
"""

from pathlib import Path

import click
from click.testing import CliRunner

from veilsum.cli.app import app, summaries

PAGE = Path(__file__).parent / "reference" / "cli.md"
INTRODUCTION = """\
# Command line

<!-- Written by docs/make_cli_page.py from the commands' help: do not edit. -->

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


def render() -> str:
    """Return the whole page."""
    sections = [_section(path) for path in ([], *paths())]
    return "\n".join([INTRODUCTION, *sections])


def paths() -> list[list[str]]:
    """Return every command as the words that call it, groups before what is in them."""
    found = []
    for name in summaries():
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
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE}")
