"""`veilsum relay`: where members meet who cannot reach each other."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.output import FILE, json_option, print_json, say_on_terminal
from veilsum.errors import InvalidInputError

if TYPE_CHECKING:
    from veilsum.consortium.addresses import Address
    from veilsum.net.relay import RelayServer

# Seconds that links may go on after a relay was told to end.
GRACE = 30.0


@click.group("relay")
def command() -> None:
    """Join members that can only dial out; what they say stays sealed between them.

    \b
    Example:
      veilsum relay token -o relay.token
      veilsum relay serve --listen 0.0.0.0:443 --admit 6f1c... \\
          --certificate relay.crt --key relay.key
    """


@command.command("token")
@click.option(
    "-o",
    "--out",
    type=FILE,
    required=True,
    help="The file to write, for its owner only; one that is there is left alone.",
)
@json_option
def token(*, out: Path, as_json: bool) -> None:
    """Make a token that admits members to a relay, and print its SHA-256.

    The file goes to all members, who keep it as relay.token beside their keys. The
    SHA-256 goes to who hosts the relay, and into the plan as relay_token. The token
    opens the relay, and nothing else: it protects no number.

    \b
    Example:
      veilsum relay token -o relay.token
    """
    from veilsum.net.relay_tokens import new_token

    digest = new_token(out)
    if as_json:
        print_json({"file": str(out), "sha256": digest})
    else:
        click.echo(
            f"{out} is for all members, kept beside their keys\nsha256  {digest}"
        )


@command.command("serve")
@click.option(
    "--listen", required=True, metavar="HOST:PORT", help="Where members call it."
)
@click.option(
    "--admit",
    "digests",
    multiple=True,
    required=True,
    metavar="SHA256",
    help="SHA-256 of a token that admits, as veilsum relay token prints it. May be "
    "repeated.",
)
@click.option(
    "--certificate", type=FILE, help="The relay's certificate, and its chain, PEM."
)
@click.option("--key", type=FILE, help="The key of the certificate, PEM.")
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="Speak no TLS: a reverse proxy on this machine does.",
)
@click.option(
    "--metrics", metavar="HOST:PORT", help="Where to tell numbers, at /metrics."
)
@click.option("--connections", type=int, help="Members' connections at a time, in all.")
@click.option(
    "--per-token",
    type=int,
    help="The same for each token; by default an equal share of --connections.",
)
@click.option("--per-run", type=int, help="The same for each run.")
@click.option(
    "--per-second", type=int, metavar="BYTES", help="What one end may send a second."
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=GRACE,
    show_default=True,
    metavar="SECONDS",
    help="How long links may go on after SIGTERM; the port is free at once.",
)
@json_option
def serve(
    *,
    listen: str,
    digests: tuple[str, ...],
    certificate: Path | None,
    key: Path | None,
    behind_proxy: bool,
    metrics: str | None,
    grace: float,
    as_json: bool,
    **bounds: int | None,
) -> None:
    """Run a relay until SIGTERM or Ctrl-C.

    Members dial out to it, with WebSockets over TLS, through proxies too. It joins two
    of one run and carries what they say, which TLS between the two hides from it. It
    knows pseudonyms, addresses, times and sizes, holds no key of theirs, and writes
    nothing down. Refused callers are logged to standard error.

    \b
    Example:
      veilsum relay serve --listen 0.0.0.0:443 --admit 6f1c... \\
          --certificate relay.crt --key relay.key --metrics 127.0.0.1:9100
      veilsum relay serve --listen 127.0.0.1:8080 --admit 6f1c... --behind-proxy
    """
    from veilsum.cli.join import set_up_command_logging
    from veilsum.consortium.addresses import Address, is_loopback_address
    from veilsum.net.entrance import tls_for_any_caller
    from veilsum.net.relay import RelayLimits, RelayServer

    for digest in digests:
        if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise InvalidInputError(
                "--admit takes the SHA-256 that veilsum relay token prints, 64 "
                f"hexadecimal digits, found {digest!r}",
                code="malformed-token-digest",
            )
    place = Address.of(listen)
    if behind_proxy and not is_loopback_address(place.host):
        raise InvalidInputError(
            f"--behind-proxy listens without TLS, on this machine only, found {place}: "
            "listen at 127.0.0.1, or give --certificate and --key",
            code="proxy-not-local",
        )
    if not behind_proxy and (certificate is None or key is None):
        raise InvalidInputError(
            "a relay speaks TLS: give --certificate and --key, or --behind-proxy where "
            "a reverse proxy on this machine does",
            code="tls-missing",
        )
    context = None
    if certificate is not None and key is not None and not behind_proxy:
        context = tls_for_any_caller(certificate, key)
    limits = RelayLimits(**{k: v for k, v in bounds.items() if v is not None})
    set_up_command_logging(style="json" if as_json else "text")
    _allow_many_files()
    told = None if metrics is None else Address.of(metrics)

    async def run() -> None:
        server = RelayServer(digests, limits, context)
        await _serve_relay_until_told(server, place, told, grace)

    if not as_json:
        say_on_terminal(f"relay at {place}; Ctrl-C or SIGTERM ends it")
    asyncio.run(run())


async def _serve_relay_until_told(
    server: RelayServer, place: Address, metrics: Address | None, grace: float
) -> None:
    """Serve until a signal comes; a second one ends links at once."""
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    with suppress(NotImplementedError):  # where there are none, Ctrl-C ends it at once
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, over.set)
    try:
        await server.start(place, metrics)
    except OSError as error:
        from veilsum.net.links import (
            connection_listening_refused,  # which a relay needs for no more
        )

        raise connection_listening_refused(place, error) from None
    await over.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
    await server.stop(grace)


def _allow_many_files() -> None:
    """Let this process have as many connections as the system allows it."""
    try:
        import resource
    except ImportError:
        return  # not every system counts them
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
