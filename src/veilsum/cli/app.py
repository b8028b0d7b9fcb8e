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
    "attack": "Demonstrate a leak on simulated parties.",
    "audit": "Attack what a file agrees on, with controls, and say what was found.",
    "backup": "Copy a party's key, rules and ledger, and put them back.",
    "check": "Say what a plan asks, what becomes known, and whether a table passes.",
    "collect": "Ask guests for numbers in a browser, and show counts and totals.",
    "consortium": "Write down what members of a run agree on, show it, or amend it.",
    "data": "Register, list, show and forget own tables that questions are asked of.",
    "dictionary": "Draft, merge and check what parties agree about their tables.",
    "doctor": "Say what is wrong with a graph or a connection, and what mends it.",
    "identity": "Make a party's key and certificate, show one, or guard its key.",
    "join": "Take part in a run with the other members of a consortium.",
    "large": "Simulate millions of parties on one graph, on one machine.",
    "ledger": "Show what a party's data has spent and what is left.",
    "paper": "Reproduce the paper's numerical section: numbers and figures.",
    "plan": "Find a network and the noise it needs for a target.",
    "privacy": "Say what a coalition can learn on a given graph.",
    "relay": "Host a relay, where members meet who can only dial out.",
    "report": "Write what a run came to on one page, or what an officer asks for.",
    "serve": "Stay up, and join what this party's own rules allow.",
    "solve": "Run the scenario in a TOML file and report the result.",
    "status": "Show how far the runs of this computer are.",
    "study": "Say how far a study of several questions is, or add questions to one.",
    "sweep": "Run a scenario on many graphs, under many masks, by many methods.",
    "up": "Run a scenario with every party as a process of its own.",
    "verify": "Check what the parties of a run have signed.",
}


def command_summaries() -> dict[str, str]:
    found = {name: command["summary"] for name, command in question_commands().items()}
    return dict(sorted((COMMANDS | found).items()))


class BadInput(click.ClickException):
    """What the user can mend."""

    exit_code = 2


class CommandFailure(click.ClickException):
    """What the user cannot: a missing package, arithmetic that failed."""

    exit_code = 1


class _CommandGroup(click.Group):
    """A group whose commands are imported on demand and whose errors are sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(command_summaries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            from veilsum.cli.question import question_command

            return question_command(cmd_name)
        command = import_module(f"veilsum.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(command_summaries().items()))

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
    """Minimise a sum of private costs peer to peer: veil every term, keep the sum.

    \b
    Example:
      veilsum paper --out out/paper
      veilsum privacy --graph petersen --sigma 1 --corrupted 0,1 --distance 1
    """
