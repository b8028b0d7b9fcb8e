"""`veilsum doctor`: why a network fails, what mends it, what would help."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.output import (
    json_option,
    optional_graph_option,
    print_json,
    say_on_terminal,
)
from veilsum.errors import InvalidInputError

if TYPE_CHECKING:
    from veilsum.net.doctor import NetworkCheckup

# How a person reads the state of a check.
MARKS = {"good": "ok", "bad": "NOT ok", "open": "not seen"}
FILE = click.Path(path_type=Path)
# Seconds to listen for others.
WAIT = 10.0


@click.command("doctor")
@optional_graph_option
@click.option("--tolerate", type=int, metavar="T", help="How many parties may collude.")
@click.option(
    "--allocate", is_flag=True, help="Also say how much noise each link should carry."
)
@click.option(
    "--network",
    "agreed",
    type=FILE,
    metavar="CONSORTIUM",
    help="Look at this party's real connections instead of a graph.",
)
@click.option(
    "--identity",
    "key",
    type=FILE,
    help="With --network: this party's key file; by default the only .key file beside "
    "the consortium file.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="With --network: where to listen, if others dial another address.",
)
@click.option(
    "--relay-token",
    "token",
    type=FILE,
    help="With --network: the token that admits this party to the consortium's relays; "
    "by default as for veilsum join.",
)
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help=f"With --network: how long to listen for others.  [default: {WAIT:g}]",
)
@json_option
def command(
    *,
    spec: str | None,
    tolerate: int | None,
    allocate: bool,
    agreed: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Say why a network fails and what mends it: a graph, or real connections.

    With --graph: whether T colluders can cut it, and which links to add. Further
    advice, and the allocation, are for the network with these links added.

    With --network: whether this party and its neighbours in a consortium reach each
    other: certificates, ports, directions, agreement, clocks. Others can call
    meanwhile, with the same command or with veilsum join; a run is not disturbed. The
    exit code is 0 if nothing is wrong, 1 if something is.

    \b
    Example:
      veilsum doctor --graph karate --tolerate 1
      veilsum doctor --network consortium.toml
    """
    on_graph = spec is not None or tolerate is not None or allocate
    on_network = any(value is not None for value in how.values())
    if agreed is not None and not on_graph:
        _print_network_doctor(agreed, as_json=as_json, **how)
    elif spec is not None and tolerate is not None and not (agreed or on_network):
        _print_graph_diagnosis(spec, tolerate, allocate=allocate, as_json=as_json)
    else:
        raise click.UsageError(
            "give either --graph SPEC and --tolerate T, or --network CONSORTIUM, with "
            "the options that belong to it",
            click.get_current_context(),
        )


def _print_network_doctor(
    file: Path,
    *,
    key: Path | None,
    listen: str | None,
    token: Path | None,
    wait: float | None,
    as_json: bool,
) -> None:
    """Print what a party's doctor finds on the network."""
    from veilsum.cli.join import only_key_in_working_folder
    from veilsum.consortium.addresses import Address
    from veilsum.consortium.study import runs_of_agreement
    from veilsum.files.consortiums import read_agreement
    from veilsum.net.doctor import NetworkCheck, NetworkHealth, check_network_health
    from veilsum.net.relay_tokens import own_token
    from veilsum.net.trust import check_certificates
    from veilsum.party.own_rules import own_rules_in

    consortium = runs_of_agreement(read_agreement(file))[0]
    check_certificates(consortium.certificates)
    if consortium.by_files:
        raise InvalidInputError(
            "no member has an address: all meet through files, and there is no network "
            "to look at; veilsum join --drop FOLDER --once says what is waited for",
            code="no-addresses",
        )
    key_file = key or only_key_in_working_folder(file.parent)
    rules = own_rules_in(key_file.parent)
    place = None if listen is None else Address.of(listen)
    seconds = WAIT if wait is None else wait
    if not as_json:
        say_on_terminal(f"calling the neighbours, and listening for {seconds:g} s")
    relays = consortium.relays
    shown = None if relays is None else own_token(relays, token, key_file.parent)
    found = asyncio.run(
        check_network_health(
            key_file, consortium, wait=seconds, listen=place, token=shown
        )
    )
    own = sum(check.about == found.party for check in found.checks)
    allowed = rules.recodings_sentence(consortium)
    recodings = NetworkCheck(found.party, "recodings", NetworkHealth.GOOD, allowed)
    checks = (*found.checks[:own], recodings, *found.checks[own:])
    found = replace(found, checks=checks)
    if as_json:
        print_json(found.to_dict())
    else:
        _print_doctor_checks(found)
    click.get_current_context().exit(0 if found.good else 1)


def _print_doctor_checks(found: NetworkCheckup) -> None:
    click.echo(f"run     {found.run}\ndigest  {found.consortium}")
    about = ""
    for check in found.checks:
        if check.about != about:
            about = check.about
            click.echo(f"\n{about}{' (this party)' if about == found.party else ''}")
        click.echo(f"  {MARKS[check.state]:<8}  {check.check}: {check.detail}")
        if check.advice:
            click.echo(f"            -> {check.advice}")
    click.echo(f"\n{found.summary}")


def _print_graph_diagnosis(
    spec: str, tolerate: int, *, allocate: bool, as_json: bool
) -> None:
    """Print why a graph fails, and what mends it."""
    from veilsum.files.graphs import topology_from
    from veilsum.privacy.allocation import allocate_noise
    from veilsum.privacy.diagnosis import examine

    found = examine(topology_from(spec), tolerate=tolerate)
    noise = allocate_noise(found.repaired, tolerate=tolerate) if allocate else None
    if as_json:
        allocation = None if noise is None else noise.to_dict()
        print_json({**found.to_dict(), "allocation": allocation})
    else:
        click.echo(str(found))
        if noise is not None:
            click.echo(f"\n{noise}")
