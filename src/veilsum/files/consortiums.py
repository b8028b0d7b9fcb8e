"""Consortium files: TOML that every member holds a copy of."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veilsum.consortium.addresses import Address
from veilsum.consortium.consortium import Consortium, consortium_from
from veilsum.consortium.drafting import consortium_of, study_of_scenario_file
from veilsum.consortium.pem import der_of_pem, pem_of_der
from veilsum.consortium.sections import DeploymentSection, RelaySection, ScenarioFile
from veilsum.consortium.study import AgreedStudy, is_study, study_from
from veilsum.errors import (
    InvalidScenarioError,
    MissingExtraError,
    install_advice,
)
from veilsum.files.output import write_new
from veilsum.files.safe_read import read_file_contents
from veilsum.files.scenarios import (
    graph_files_beside_scenario,
    read_scenario_file,
    read_toml_file,
)

RANDOM_BYTES = 16
TITLE_LETTERS = 40
# A thousand certificates, and every link between them.
MOST_MEMBERS = 1000
MOST_BYTES = 32 << 20
MOST_CERTIFICATE_BYTES = 64 << 10


def read_consortium(path: str | Path) -> Consortium:
    """Return the consortium in a file."""
    table = read_toml_file(Path(path), most_bytes=MOST_BYTES)
    try:
        return consortium_from(table)
    except InvalidScenarioError as error:
        raise InvalidScenarioError(f"{path}: {error}", code=error.code) from None


def read_agreement(path: str | Path) -> Consortium | AgreedStudy:
    """Return what members hold a copy of: a consortium file, or that of a study."""
    table = read_toml_file(Path(path), most_bytes=MOST_BYTES)
    try:
        return study_from(table) if is_study(table) else consortium_from(table)
    except InvalidScenarioError as error:
        raise InvalidScenarioError(f"{path}: {error}", code=error.code) from None


def read_plan_file(path: Path) -> Consortium:
    """Return the consortium that a plan would become, with nobody's certificate yet.

    A plan is a scenario file. Who takes part is read off [parties], [deployment],
    [data] or the graph; certificates, addresses and the run's name are stand-ins.
    """
    return plan_of_scenario_file(read_scenario_file(path), path)


def plan_of_scenario_file(file: ScenarioFile, path: Path) -> Consortium:
    """Return the same of a scenario file that has been read; graphs are beside it."""
    return consortium_of(file, **_stand_ins_for_plan_file(file, path))[0]


def read_described_file(path: Path) -> tuple[Consortium | AgreedStudy, bool]:
    """Return what a file describes, and whether it is a consortium file, not a plan."""
    table = read_toml_file(path)
    if "members" in table:
        return read_agreement(path), True
    return (read_study_plan if is_study(table) else read_plan_file)(path), False


def read_study_plan(path: Path) -> AgreedStudy:
    """Return the study that a plan with several questions would become; the same."""
    file = read_scenario_file(path)
    return study_of_scenario_file(file, **_stand_ins_for_plan_file(file, path))[0]


def _stand_ins_for_plan_file(file: ScenarioFile, path: Path) -> dict[str, Any]:
    """Return what a plan does not say yet."""
    names = _check_plan_file_parties(file, path)
    return {
        "certificates": {
            name: pem_of_der(f"none yet of {name}".encode()) for name in names
        },
        "addresses": {
            name: Address("plan", k) for k, name in enumerate(names, start=1)
        },
        "run": "0" * 2 * RANDOM_BYTES,
        "organiser": "",
        "read_graph": graph_files_beside_scenario(path),
    }


def _check_plan_file_parties(file: ScenarioFile, path: Path) -> tuple[str, ...]:
    deployment, data = file.deployment, file.data
    for named in (
        None if file.parties is None else file.parties.names,
        None if deployment is None else deployment.certificates,
        None if deployment is None else deployment.addresses,
        None if data is None else data.files,
    ):
        if named:
            return tuple(named)
    if file.graph is not None:
        return tuple(
            file.graph.topology(None, graph_files_beside_scenario(path)).parties
        )
    if data is not None and data.parties is not None and data.parties <= MOST_MEMBERS:
        return tuple(map(str, range(data.parties)))  # who has which rows is not asked
    raise InvalidScenarioError(
        f"{path} does not say who takes part: add [parties] with names = [...], or a "
        "[graph]",
        code="parties-missing",
    )


def write_consortium(path: str | Path, consortium: Consortium | AgreedStudy) -> None:
    """Write a new file of a consortium or study; one that is there is never replaced.

    Members hold copies of it: another file under its name would be taken for it.
    """
    advice = (
        "a consortium file is never replaced; choose another name, or remove it if "
        "nobody has a copy"
    )
    write_new(
        Path(path), toml_text_of_table(consortium.to_table()).encode(), advice=advice
    )


def toml_text_of_table(table: Mapping[str, Any]) -> str:
    try:
        import tomli_w
    except ImportError:
        raise MissingExtraError(
            "writing a consortium file needs the package tomli-w: "
            f"{install_advice('net')}",
            code="missing-extra",
        ) from None
    return tomli_w.dumps(table, multiline_strings=True)


def new_run_name_for_file(title: str) -> str:
    """Return a name for one run: words of its title, and 128 random bits."""
    words = re.findall("[a-z0-9]+", title.lower())
    start = "-".join(words)[:TITLE_LETTERS].strip("-")
    return f"{start}-{secrets.token_hex(RANDOM_BYTES)}".lstrip("-")


def draft_consortium(
    plan: str | Path,
    *,
    file: ScenarioFile | None = None,
    certificates: Mapping[str, str] | None = None,
    addresses: Mapping[str, Address | str | None] | None = None,
    organiser: str | None = None,
    relay: Mapping[str, Any] | None = None,
) -> tuple[Consortium | AgreedStudy, tuple[str, ...]]:
    """Return the consortium or study that a scenario file plans, and what is left out.

    Graphs and certificates are found beside the file. What is given here goes before
    what the file's [deployment] says.

    Args:
        plan: the scenario file.
        file: what is in it, if it has been read.
        certificates: by party, PEM.
        addresses: by party, host:port; None for one that only dials.
        organiser: the member that writes the file.
        relay: the [deployment] of the new file.
    """
    plan = Path(plan)
    file = file or read_scenario_file(plan)
    deployment, given = file.deployment or DeploymentSection(), certificates or {}
    read = {
        name: read_certificate_file(plan.parent / path)
        for name, path in (deployment.certificates or {}).items()
        if name not in given
    }
    written = {**(deployment.addresses or {}), **(addresses or {})}
    draft = consortium_of if file.question is None else study_of_scenario_file
    return draft(
        file,
        certificates={**read, **given},
        addresses={name: _read_planned_address(one) for name, one in written.items()},
        organiser=organiser or deployment.organiser or "",
        relay=relay or _read_planned_relay(deployment, plan.parent),
        run=new_run_name_for_file(file.title),
        read_graph=graph_files_beside_scenario(plan),
    )


def _read_planned_address(written: Address | str | None) -> Address | None:
    if not isinstance(written, str):
        return written
    return Address.of(written) if written.strip() else None


def _read_planned_relay(deployment: DeploymentSection, folder: Path) -> dict[str, Any]:
    """Return what a plan says about relays, as the consortium file has it."""
    keys = RelaySection.__struct_fields__
    found = {key: value for key, value in deployment.given().items() if key in keys}
    if "relay_certificate" in found:
        found["relay_certificate"] = read_certificate_file(
            folder / found["relay_certificate"]
        )
    return found


def read_certificate_file(path: Path) -> str:
    found = read_file_contents(path, MOST_CERTIFICATE_BYTES, InvalidScenarioError)
    try:
        return pem_of_der(der_of_pem(found.decode("ascii")))
    except UnicodeDecodeError:
        raise InvalidScenarioError(
            f"{path} is not a certificate in PEM, which is plain text", code="not-pem"
        ) from None
    except InvalidScenarioError as error:
        raise InvalidScenarioError(f"{path}: {error}", code=error.code) from None
