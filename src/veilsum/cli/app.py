"""The command group: every command loads its own module when it is called."""

from __future__ import annotations

from importlib import import_module

import click

import veilsum
from veilsum.cli.output import message_on_screen
from veilsum.cli.question import question_commands
from veilsum.errors import InvalidInputError, VeilsumError

# Name and one line each, so that `veilsum --help` imports nothing heavy. Commands of
# questions are in the registry.
COMMANDS = {
    "Ask a question": {
        "solve": "Minimise a sum of private costs by a scenario file.",
        "up": "Run a question with every party as a process of its own.",
    },
    "Take part": {
        "identity": "Make a party's key and certificate, show one, or guard its key.",
        "dictionary": "Draft, merge and check what parties agree about their tables.",
        "data": "Register, list, show and forget the tables that questions are about.",
        "consortium": "Write down what members agree on, show it, or amend it.",
        "check": "Say what a file asks and shows, and whether a table passes.",
        "join": "Take part in a run with the other members of a consortium.",
        "serve": "Stay up, and join what this party's own rules allow.",
        "status": "Show how far the runs of this computer are.",
        "study": "Say how far a study of several questions is, or add questions.",
        "ledger": "Show what a party's data has spent and what is left.",
        "verify": "Check what the parties of a run have signed.",
        "report": "Write a result on one page, or what an officer asks for.",
        "relay": "Host a relay, where members meet who can only dial out.",
        "backup": "Copy a party's key, rules and ledger, and put them back.",
    },
    "Surveys": {
        "collect": "Ask guests for numbers in a browser, and show counts and totals.",
    },
    "Plan and check": {
        "plan": "Find a network and the noise it needs for a target.",
        "privacy": "Say what a coalition can learn on a given graph.",
        "doctor": "Say what is wrong with a graph or a connection, and what helps.",
        "audit": "Attack what a file agrees on, and say what was found.",
    },
    "Research": {
        "paper": "Reproduce the paper's numerical section: numbers and figures.",
        "sweep": "Run a scenario on many graphs, masks and methods.",
        "large": "Simulate millions of parties on one graph, on one machine.",
        "attack": "Demonstrate a leak on simulated parties.",
    },
}
COMMAND_MODULES = frozenset(name for group in COMMANDS.values() for name in group)


def grouped_commands() -> dict[str, dict[str, str]]:
    """Return the commands and what each does, by group, in the order of the help."""
    asked = {name: words["summary"] for name, words in question_commands().items()}
    first, *others = COMMANDS.items()
    return {first[0]: dict(sorted(asked.items())) | first[1], **dict(others)}


def command_names() -> tuple[str, ...]:
    return tuple(
        sorted(name for group in grouped_commands().values() for name in group)
    )


class BadInput(click.ClickException):
    """An error that the user can correct."""

    exit_code = 2


class CommandFailure(click.ClickException):
    """An error not in the user's input: a missing package, arithmetic that failed."""

    exit_code = 1


class _CommandGroup(click.Group):
    """A group whose commands are imported on demand and whose errors are sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(command_names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMAND_MODULES:
            from veilsum.cli.question import question_command

            return question_command(cmd_name)
        command = import_module(f"veilsum.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        del ctx
        for title, commands in grouped_commands().items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            where = "" if error.ctx is None else f" (see {error.ctx.command_path} -h)"
            raise BadInput(
                message_on_screen(f"{error.format_message()}{where}")
            ) from None
        except VeilsumError as error:
            kind = BadInput if isinstance(error, InvalidInputError) else CommandFailure
            raise kind(message_on_screen(str(error))) from None


@click.group(
    cls=_CommandGroup, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(veilsum.__version__, prog_name="veilsum")
def app() -> None:
    """Ask one question of several parties' data: only sums leave a party.

    \b
    Example:
      veilsum fit --formula "y ~ age + C(sex)" north.csv south.csv west.csv east.csv
      veilsum join consortium.toml --data ward7.csv
    """
