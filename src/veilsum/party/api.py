"""Taking part from Python: `join`, which waits, and `join_async`, which does not.

Both take what the command takes, for a run or for all questions of a study, and go the
same way. Nobody agrees by default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from veilsum.consortium.addresses import Address
from veilsum.consortium.consortium import Consortium
from veilsum.consortium.study import AgreedStudy
from veilsum.errors import LocalProtocolError
from veilsum.files.consortiums import read_agreement
from veilsum.files.ledger import Ledger
from veilsum.net.drop import DropFolder
from veilsum.net.identity import Identity, read_identity
from veilsum.party.consent import Consent
from veilsum.party.own_rules import OwnRules, read_own_rules
from veilsum.party.run import (
    ConsentError,
    Consenting,
    Joined,
    PartyInputs,
    PartyRunHalting,
)
from veilsum.party.run_status import Listener, RunEvent
from veilsum.party.studying import JoinedStudy, prepare_party
from veilsum.privacy.guarantee import Guarantee
from veilsum.reading import check_read_keys
from veilsum.sums.kinds import resolve_agreed_question
from veilsum.sums.running import guarantee_before_sums

# What text stands for, and what is said of a table.
MADE: Mapping[str, Callable[[Any], object]] = {
    "rules": read_own_rules,
    "listen": Address.of,
    "drop": lambda path: DropFolder(Path(path)),
    **dict.fromkeys(("cost", "ledger", "state", "transcript", "out"), Path),
    "relay_token": Path,
}
WRITTEN = (
    *("decimal", "separator", "missing", "encoding", "dates", "query"),
    *("new_data", "id", "cut"),
)


class JoinOptions(TypedDict, total=False):
    """Inputs and options of a party; all but its table or its cost have a default.

    Attributes:
        data: the party's table, for a question about tables: a file, or a table in
            memory (pandas, polars, a mapping of columns, a NumPy array with named
            fields).
        cost: the party's cost, for a question about costs: a TOML file, or its entries.
        decimal: decimal mark of the table's file; see `read_table` for the options
            from here to `query`.
        separator: separator of cells.
        missing: words that stand for a missing value.
        encoding: character encoding.
        dates: format of dates.
        query: a single SELECT, for a database.
        new_data: whether the table or cost is about other people than all data in the
            ledger; by default, data that the ledger does not recognise counts as the
            earlier data.
        id: column that identifies the person of each row. People are then recognised by
            their ids in every later data cut, even if columns are renamed.
        cut: name of a data cut of the ledger to use, such as "2026-06", or "newest";
            then `data` may be left out. By default the table in `data`, or the earlier
            cut if only a few rows differ from it.
        rules: the party's own rules, or their file; by default veilsum.toml in the
            key's folder, if it exists.
        ledger: the party's ledger, or its file; by default in the key's folder, created
            if needed.
        state: the run's state file; by default in the key's folder. For a study this
            cannot be chosen: each question has one there.
        listen: host:port to listen at, if the others dial a different one.
        drop: folder for exchanging files, if parties do without connections.
        relay_token: file with the token of the consortium's relays; by default
            relay.token in the key's folder, or the environment's.
        transcript: file for all numbers that the party stores, sends and receives,
            encrypted with its key; by default none is kept. For a study, a folder with
            such files.
        out: folder for the page, the result, the receipt and evidence; by default none
            is written. A study always has one, by default in the key's folder.
        without: names of questions of a study to skip.
        on_event: function called with a `RunEvent` at each event.
    """

    data: Any
    cost: str | Path | Mapping[str, Any] | None
    decimal: str
    separator: str
    missing: Sequence[str]
    encoding: str
    dates: str
    query: str
    new_data: bool
    id: str
    cut: str
    rules: OwnRules | str | Path | None
    ledger: Ledger | str | Path | None
    state: str | Path | None
    listen: Address | str | None
    drop: str | Path | None
    relay_token: str | Path | None
    transcript: str | Path | None
    out: str | Path | None
    without: Sequence[str]
    on_event: Listener | None


@overload
def join(
    consortium: Consortium,
    *,
    identity: Identity | str | Path,
    consent: Consenting | str | None = None,
    **options: Unpack[JoinOptions],
) -> Joined: ...
@overload
def join(
    consortium: AgreedStudy,
    *,
    identity: Identity | str | Path,
    consent: Consenting | str | None = None,
    **options: Unpack[JoinOptions],
) -> JoinedStudy: ...
@overload
def join(
    consortium: str | Path,
    *,
    identity: Identity | str | Path,
    consent: Consenting | str | None = None,
    **options: Unpack[JoinOptions],
) -> Joined | JoinedStudy: ...
def join(
    consortium: Consortium | AgreedStudy | str | Path,
    *,
    identity: Identity | str | Path,
    consent: Consenting | str | None = None,
    **options: Unpack[JoinOptions],
) -> Joined | JoinedStudy:
    """Take part in a run with the other members of a consortium, and wait for its end.

    The same call after an interruption goes on where it was.

    Args:
        consortium: what was agreed on, or its file: a consortium's, or a study's.
        identity: this party's, or its key file.
        consent: what agrees for this party. A function that is shown the page and
            returns True to agree; or the digest of a page that somebody has read and
            agreed to beforehand, in hexadecimal (`consent_to(consortium).digest`).
            Without one nothing is sent, and the error shows the page.
        **options: what it takes part with, see `JoinOptions`.

    Returns:
        The result, this party's receipt, and evidence against others if there is any.
        Of a study, how far each question is, and all this of each that has a result;
        one that fails raises nothing.

    Raises:
        ConsentError: nobody has agreed; nothing was sent.
        InvalidInputError: this party cannot take part with what it gave.
        GivenUpError: the parties did not come to an answer.
        LocalProtocolError: this is called inside a running event loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _prepare_join_call(consortium, identity, consent, options)()
    raise LocalProtocolError(
        "join waits for the others, and an event loop runs here that would stand still "
        "meanwhile (a notebook has one): await veilsum.join_async(...) instead",
        code="event-loop-running",
    )


@overload
async def join_async(
    consortium: Consortium,
    *,
    identity: Identity | str | Path,
    consent: Consenting | str | None = None,
    **options: Unpack[JoinOptions],
) -> Joined: ...
@overload
async def join_async(
    consortium: AgreedStudy,
    *,
    identity: Identity | str | Path,
    consent: Consenting | str | None = None,
    **options: Unpack[JoinOptions],
) -> JoinedStudy: ...
@overload
async def join_async(
    consortium: str | Path,
    *,
    identity: Identity | str | Path,
    consent: Consenting | str | None = None,
    **options: Unpack[JoinOptions],
) -> Joined | JoinedStudy: ...
async def join_async(
    consortium: Consortium | AgreedStudy | str | Path,
    *,
    identity: Identity | str | Path,
    consent: Consenting | str | None = None,
    **options: Unpack[JoinOptions],
) -> Joined | JoinedStudy:
    """Take part in a run without holding up the event loop that this is called from.

    It takes what `join` takes. The party has a thread of its own, in which `consent`
    is called; `on_event` is called in this event loop. If this is cancelled, the party
    stops as if its process had been: the same call goes on, unless the others'
    deadlines have passed by then.
    """
    here, halting = asyncio.get_running_loop(), PartyRunHalting()
    call = partial(
        _prepare_join_call(consortium, identity, consent, options), looping=halting.run
    )
    if (listener := options.get("on_event")) is not None:

        def tell(event: RunEvent) -> None:
            here.call_soon_threadsafe(listener, event)

        call = partial(call, on_event=tell)
    # Not a thread of the loop's own pool: parties there would wait for each other's.
    pool = ThreadPoolExecutor(1, thread_name_prefix="veilsum")
    work = here.run_in_executor(pool, call)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if halting.halt():
            await asyncio.wait([work])
        raise
    finally:
        pool.shutdown(wait=False)


NOBODY = (
    "nobody has agreed to this page, and nothing was sent: read it, then give "
    "consent=, a function that is shown the page and returns True, or the page's "
    "digest, {}"
)


def _prepare_join_call(
    agreed: Consortium | AgreedStudy | str | Path,
    identity: Identity | str | Path,
    consent: Consenting | str | None,
    options: JoinOptions,
) -> Callable[..., Joined | JoinedStudy]:
    """Return the call that these arguments stand for; its files are read first."""
    check_read_keys(options, JoinOptions.__annotations__, "join")
    own: dict[str, Any] = {**options}
    how = {key: own.pop(key) for key in WRITTEN if key in own}
    for key, made in MADE.items():
        if isinstance(own.get(key), str | Path):
            own[key] = made(own[key])
    on_event, without = own.pop("on_event", None), tuple(own.pop("without", ()))
    file = Path(agreed) if isinstance(agreed, str | Path) else None
    read = read_agreement(agreed) if isinstance(agreed, str | Path) else agreed
    who = identity if isinstance(identity, Identity) else read_identity(identity)
    inputs = PartyInputs(how=how, without=without, again=True, file=file, **own)
    asked = (
        consent if callable(consent) else partial(_consent_agreed_beforehand, consent)
    )

    def take_part(**more: Any) -> Joined | JoinedStudy:
        return prepare_party(read, who, inputs).run(
            asked, **{"on_event": on_event, **more}
        )

    return take_part


def _consent_agreed_beforehand(digest: str | None, page: Consent) -> bool:
    if digest is None:
        raise ConsentError(NOBODY.format(page.digest), page, code="nobody-asked")
    if digest.replace(" ", "").lower() != page.digest:
        raise ConsentError(
            f"the page that was agreed to has the digest {digest}, and this one "
            f"{page.digest}; nothing was sent: read this one",
            page,
            code="other-page-agreed",
        )
    return True


def promise_of(consortium: Consortium) -> Guarantee:
    """Return the guarantee that the members of a consortium have before a run.

    It follows from the file alone: from the graph, the masks, and the question.

    Raises:
        InvalidInputError: nobody could take part in it.
    """
    asked = resolve_agreed_question(consortium)
    return guarantee_before_sums(asked.recipe, asked.terms)
