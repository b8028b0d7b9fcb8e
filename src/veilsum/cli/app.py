"""The command group: every command loads its own module when it is called."""

from __future__ import annotations

from importlib import import_module

import click

import veilsum
from veilsum.errors import InvalidInputError, VeilsumError, printable

# Name and one line each, so that `veilsum --help` imports nothing heavy.
COMMANDS = {
    "attack": "Demonstrate a leak on simulated parties.",
    "audit": "Attack what a file agrees on, with controls, and say what was found.",
    "backup": "Copy a party's key, rules and ledger, and put them back.",
    "check": "Say what a plan asks, what becomes known, and whether a table passes.",
    "collect": "Ask guests for numbers in a browser, and show counts and totals.",
    "consortium": "Write down what members of a run agree on, show it, or amend it.",
    "cox": "Fit a Cox regression over several parties' tables.",
    "dispatch": "Find the price that balances private demands.",
    "doctor": "Say what is wrong with a graph or a connection, and what mends it.",
    "evaluate": "Say how well known coefficients predict several parties' rows.",
    "fit": "Fit a regression over several parties' tables.",
    "identity": "Make a party's key and certificate, show one, or guard its key.",
    "join": "Take part in a run with the other members of a consortium.",
    "large": "Simulate millions of parties on one graph, on one machine.",
    "ledger": "Show what a party's data has spent and what is left.",
    "meta": "Pool a coefficient that every party fits at home.",
    "mixed": "Fit coefficients that differ between parties, and by how much.",
    "paper": "Reproduce the paper's numerical section: numbers and figures.",
    "plan": "Find a network and the noise it needs for a target.",
    "privacy": "Say what a coalition can learn on a given graph.",
    "relay": "Host a relay, where members meet who can only dial out.",
    "report": "Write what a run came to on one page, or what an officer asks for.",
    "schema": "Draft what parties agree their tables look like.",
    "serve": "Stay up, and join what this party's own rules allow.",
    "solve": "Run the scenario in a TOML file and report the result.",
    "stats": "Count and average several parties' rows.",
    "status": "Show how far the runs of this computer are.",
    "study": "Say how far a study of several questions is, or add questions to one.",
    "survival": "Estimate survival curves over several parties' rows.",
    "sweep": "Run a scenario on many graphs, under many masks, by many methods.",
    "up": "Run a scenario with every party as a process of its own.",
    "verify": "Check what the parties of a run have signed.",
}


def on_screen(message: str) -> str:
    """Return a message in which a terminal finds nothing to obey, line by line.

    It may quote a file or a table that somebody else wrote.
    """
    return "\n".join(map(printable, message.split("\n")))


class BadInput(click.ClickException):
    """What the user can mend."""

    exit_code = 2


class Failure(click.ClickException):
    """What the user cannot: a missing package, arithmetic that failed."""

    exit_code = 1


class _Commands(click.Group):
    """A group whose commands are imported on demand and whose errors are sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"veilsum.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            where = "" if error.ctx is None else f" (see {error.ctx.command_path} -h)"
            raise BadInput(on_screen(f"{error.format_message()}{where}")) from None
        except VeilsumError as error:
            kind = BadInput if isinstance(error, InvalidInputError) else Failure
            raise kind(on_screen(str(error))) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(veilsum.__version__, prog_name="veilsum")
def app() -> None:
    """Minimise a sum of private costs peer to peer: veil every term, keep the sum.

    \b
    Example:
      veilsum paper --out out/paper
      veilsum privacy --graph petersen --sigma 1 --corrupted 0,1 --distance 1
    """
