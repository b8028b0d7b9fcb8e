"""A party as a process of its own, with a history, that may kill itself."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

from histories import Recorder
from veilsum.files.consortiums import read_consortium
from veilsum.files.ledger import open_ledger
from veilsum.files.output import as_strict_json, write_files
from veilsum.net.identity import read_identity
from veilsum.net.relay_tokens import own_token
from veilsum.party.consent import consent_to
from veilsum.party.inputs import party_contribution
from veilsum.party.networked import NetworkedParty
from veilsum.party.run import receipt_of_party_run
from veilsum.privacy.accountant import Budget


def take_part(folder, kill_after):
    """Take part in a folder made by veilsum.party.local; die after so many steps."""
    os.chdir(folder)
    try:
        _take_part(Path(folder), kill_after)
    except BaseException:
        Path("error").write_text(traceback.format_exc())
        raise


def _take_part(here, kill_after):
    (key,) = here.glob("*.key")
    identity = read_identity(key)
    consortium = read_consortium(here / "consortium.toml")
    files = {"data": here / "data.csv", "cost": here / "cost.toml"}
    given = {name: path for name, path in files.items() if path.exists()}
    driver = NetworkedParty(
        identity=identity,
        consortium=consortium,
        state=here / "state.run",
        token=consortium.relays and own_token(consortium.relays, None, here),
        record=Recorder(here / "history", identity.name, kill_after),
    )
    ledger = key.with_suffix(".ledger")
    budget = None if ledger.exists() else Budget()
    with open_ledger(ledger, create=budget) as books:
        result = party_contribution(consortium, **given).run(driver, books)
    (here / "out").mkdir(exist_ok=True)
    write_files(
        here / "out",
        {
            "result.json": as_strict_json(result.to_dict()).encode(),
            "receipt.json": receipt_of_party_run(driver, result, consent_to(consortium))
            .to_json()
            .encode(),
        },
    )
