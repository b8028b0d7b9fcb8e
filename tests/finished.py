"""Runs that have ended, as their members' folders hold them, without any network.

Sums are made in one process, and every member signs what it would sign; that all of
this is what a run leaves is checked by what checks receipts.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

from veilsum import __version__
from veilsum.consortium.consortium import Consortium
from veilsum.consortium.study import AgreedStudy
from veilsum.files.consortiums import draft_consortium, write_consortium
from veilsum.files.output import as_strict_json
from veilsum.files.scenarios import read_scenario_file
from veilsum.net.identity import Identity, new_identity
from veilsum.net.receipt import keyed_receipt_digest, make_receipt, receipt_sums_digest
from veilsum.party.consent import consent_to
from veilsum.party.replay import (
    SUMS,
    plan_to_replay,
    replay_released_sums,
    replay_sums_file,
)
from veilsum.party.studying import StudyStatus
from veilsum.sums.job_file import question_job_of, read_data_of_job_file
from veilsum.sums.kinds import resolve_agreed_question

WHEN = "2030-01-31T12:00:00+00:00"

COLUMNS = {
    "age": {"kind": "number", "minimum": 18, "maximum": 100, "unit": 1},
    "dose": {"kind": "number", "minimum": 0, "maximum": 50, "unit": 0.1},
}


@dataclass
class Finished:
    """A run, or a study, that has ended.

    Attributes:
        folder: with one for each member, in which `out` is what join wrote.
        agreed: what they agreed on.
        identities: by member.
    """

    folder: Path
    agreed: Consortium | AgreedStudy
    identities: dict[str, Identity]

    def out(self, party: str | None = None, question: str = "") -> Path:
        """Where a member's result is; the first one's, if not said."""
        return self.folder / (party or next(iter(self.identities))) / "out" / question

    def receipts(self, question: str = "") -> list[Path]:
        """Everybody's."""
        found = (self.out(one, question) / "receipt.json" for one in self.identities)
        return [path for path in found if path.exists()]


def finished(
    scenario: Path | dict[str, Any], folder: Path, *, lost: tuple[str, ...] = ()
) -> Finished:
    """Return the run that a scenario comes to.

    Args:
        scenario: its file, or what is in one.
        folder: for everybody's folders.
        lost: who did not stay to the end.
    """
    if isinstance(scenario, dict):
        path = folder / "plan.toml"
        path.write_text(tomli_w.dumps(scenario), "utf-8")
        scenario = path
    file = read_scenario_file(scenario)
    schema = None if file.schema is None else file.schema.schema
    tables = read_data_of_job_file(file.data, scenario.parent, schema)
    identities = {name: new_identity(name, folder / name) for name in tables}
    agreed, _ = draft_consortium(
        scenario,
        file=file,
        certificates={name: one.certificate for name, one in identities.items()},
        addresses={name: f"{name}.test:8443" for name in identities},
    )
    made = Finished(folder, agreed, identities)
    for party in identities:
        write_consortium(folder / party / "consortium.toml", agreed)
        made.out(party).mkdir()
    if isinstance(agreed, Consortium):
        _end(made, agreed, tables, lost=lost)
        return made
    for name, one in agreed.questions.items():
        for party in identities:
            made.out(party, name).mkdir()
            write_consortium(made.out(party, name) / "consortium.toml", one)
        _end(made, one, tables, name)
    rows = [
        {"name": name, "run": one.run, "stage": "finished", "when": WHEN}
        for name, one in agreed.questions.items()
    ]
    for party in identities:
        StudyStatus(
            run=agreed.run,
            study=agreed.digest.hex(),
            title=agreed.title,
            party=party,
            questions=tuple(rows),
        ).write(made.out(party))
    return made


def _end(
    made: Finished,
    agreed: Consortium,
    tables: dict[str, Any],
    question: str = "",
    lost: tuple[str, ...] = (),
) -> None:
    """Write what every member has when a run is over."""
    asked, whole = resolve_agreed_question(agreed), agreed.topology
    members = tuple(one for one in whole.parties if one not in lost)
    summed = question_job_of(
        agreed,
        {one: tables[one] for one in members},
        topology=whole.induced(whole.indices(members)),
        driver="vectorised",
        seed=0,
    )
    sums = summed.run().released.sums
    seal = secrets.token_bytes(64)
    result = replay_released_sums(agreed, sums=sums, members=members)
    for party in members:
        receipt = make_receipt(
            made.identities[party],
            run=agreed.run,
            plan=plan_to_replay(agreed, asked).digest.hex(),
            consortium=agreed.digest.hex(),
            consent=consent_to(agreed).digest,
            parties=list(members),
            lost=list(lost),
            epochs=list(range(len(sums))),
            confirmed=[one for one in whole.neighbours(party) if one in members],
            result=keyed_receipt_digest(result.answer, seal),
            sums=receipt_sums_digest(sums, seal),
            released=list(result.shown),
            guarantee=result.guarantee.to_dict(),
            started=WHEN,
            finished=WHEN,
            version=__version__,
        )
        out = made.out(party, question)
        plain = {**result.to_dict(), "seal": seal.hex()}
        (out / "result.json").write_text(as_strict_json(plain), "utf-8")
        (out / "receipt.json").write_text(receipt.to_json(), "utf-8")
        (out / SUMS).write_bytes(replay_sums_file(sums))


def wards(folder: Path, **changes: Any) -> dict[str, Any]:
    """Write the tables of four wards, and return a plan without a question."""
    rng = np.random.default_rng(1)
    files = {name: f"{name}.csv" for name in ("ann", "bob", "cem", "dee")}
    for name in files.values():
        age = rng.integers(20, 90, 40)
        dose = (age / 3 + rng.random(40) * 9).round(1)
        pd.DataFrame({"age": age, "dose": dose}).to_csv(folder / name, index=False)
    return {
        "title": "Doses of four wards",
        "data": {"files": files},
        "schema": {"minimum_rows": 20, "maximum_rows": 99, "columns": {**COLUMNS}},
        "graph": {"family": "complete:4"},
        **changes,
    }
