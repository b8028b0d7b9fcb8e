"""Scenario files that describe jobs on data: a regression, statistics, a dispatch.

[data]        where each party's table is
[schema]      what the tables were agreed to look like
[model]       a regression; or [statistics], or [dispatch]
[graph] [masks] [policy] [simulation]   as in every scenario
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from veilsum.agreement.consortium import Consortium
from veilsum.agreement.graphs import topology_of
from veilsum.agreement.reading import check_keys
from veilsum.agreement.scenario import (
    JOB_COMMANDS,
    JOB_SECTIONS,
    OTHER_SECTIONS,
    SECTIONS,
    masks_of,
)
from veilsum.errors import InvalidScenarioError
from veilsum.files.datasets import DATASETS, site_of
from veilsum.files.graphs import read_topology
from veilsum.files.scenarios import read_toml
from veilsum.files.tables import read_table
from veilsum.graphs.topology import Topology
from veilsum.jobs.dispatch import DispatchResult, dispatch
from veilsum.jobs.fit import FitResult, fit
from veilsum.jobs.running import JobResult
from veilsum.jobs.statistics import statistics
from veilsum.jobs.statistics_result import StatisticsResult
from veilsum.jobs.terms import Options
from veilsum.numbers.secrets import Secret
from veilsum.tables.frames import Frame
from veilsum.tables.schema import MINIMUM_ROWS, Schema

Kind = Literal["model", "statistics", "dispatch"]

# What policy a job takes, and how it is called there.
POLICY = ("tolerate", "minimum_honest", "drop")
# How long parties wait for each other.
WAITS = ("resend", "meeting", "deadline", "patience")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JobFile(Secret):
    """A job, ready to run. It holds the tables of those parties that are run here.

    Attributes:
        compare: whether all rows are here, so that the pooled answer can be found too.
    """

    title: str
    kind: Kind
    section: Mapping[str, Any]
    tables: Mapping[str, Frame]
    schema: Schema | None
    policy: Mapping[str, Any]
    options: Options
    ignored: tuple[str, ...] = ()
    compare: bool = True

    @property
    def rules(self) -> dict[str, Any]:
        """What the policy says beside how to sum."""
        named = (*POLICY, *WAITS)
        return {key: v for key, v in self.policy.items() if key not in named}

    def run(self, **options: Any) -> JobResult:
        """Run it, whatever it is."""
        runs: dict[str, Callable[..., JobResult]] = {
            "model": self.fit,
            "statistics": self.statistics,
            "dispatch": self.dispatch,
        }
        return runs[self.kind](**options)

    def refused_by_default(self) -> tuple[str, ...]:
        """Return the parties that the usual minimum of rows would refuse."""
        if self.schema is None or self.schema.minimum_rows >= MINIMUM_ROWS:
            return ()
        usual = replace(self.schema, minimum_rows=MINIMUM_ROWS, maximum_rows=None)
        whole = {name: self._complete_rows(t) for name, t in self.tables.items()}
        return usual.refused(whole)

    def _complete_rows(self, table: Frame) -> int:
        assert self.schema is not None
        return len(table.dropna(subset=[one.name for one in self.schema.columns]))

    def fit(self, **options: Any) -> FitResult:
        """Run the regression, and compare it with the pooled one."""
        chosen: dict[str, Any] = {**self.options, **options}
        return fit(
            data=self.tables,
            schema=self.schema,
            compare=self.compare,
            **{"formula": "", **self.section},
            **self.rules,
            **chosen,
        )

    def statistics(self, **options: Any) -> StatisticsResult:
        """Run the statistics."""
        chosen: dict[str, Any] = {**self.options, **options}
        return statistics(
            self.tables,
            schema=self.schema,
            compare=self.compare,
            **self.section,
            **self.rules,
            **chosen,
        )

    def dispatch(self, **options: Any) -> DispatchResult:
        """Run the dispatch."""
        chosen: dict[str, Any] = {**self.options, **options}
        section = dict(self.section)
        prices = section.pop("prices", None)
        if not isinstance(prices, list) or len(prices) != 2:
            raise InvalidScenarioError(
                "[dispatch] prices must be the lowest and the highest, found "
                f"{prices!r}"
            )
        sites = {party: site_of(table) for party, table in self.tables.items()}
        interval = (float(prices[0]), float(prices[1]))
        return dispatch(
            sites, prices=interval, compare=self.compare, **section, **chosen
        )


def read_job(path: Path, kind: Kind) -> JobFile:
    """Return the job in a scenario file; tables and graphs are found beside it."""
    table = read_toml(path)
    check_keys(
        table, ("title", *SECTIONS, *JOB_SECTIONS, *OTHER_SECTIONS), "the scenario"
    )
    for name, keys in {**SECTIONS, **JOB_SECTIONS}.items():
        if name in table and keys:
            check_keys(table[name], keys, f"[{name}]")
    _check_kind(table, kind)
    _check_policy(table.get("policy", {}), kind)
    schema = Schema.from_table(table["schema"]) if "schema" in table else None
    codes = () if schema is None else schema.categorical
    tables = read_data(table.get("data", {}), path.parent, text=codes)
    return JobFile(
        title=str(table.get("title", "")),
        kind=kind,
        section=table[kind],
        tables=tables,
        schema=schema,
        policy=table.get("policy", {}),
        options=_options(table, tuple(tables), path.parent),
        ignored=tuple(name for name in OTHER_SECTIONS if name in table),
    )


def job_of(
    consortium: Consortium, kind: Kind, tables: Mapping[str, Frame], **options: Any
) -> JobFile:
    """Return the job that parties agreed on, for those whose tables are here."""
    sections = consortium.sections
    _check_policy(sections.get("policy", {}), kind)
    schema = Schema.from_table(sections["schema"]) if "schema" in sections else None
    chosen: dict[str, Any] = {
        **_agreed_options(sections),
        "topology": consortium.topology,
        "run": consortium.run,
        **options,
    }
    return JobFile(
        title=str(sections.get("title", "")),
        kind=kind,
        section=sections[kind],
        tables=tables,
        schema=schema,
        policy=sections.get("policy", {}),
        options=Options(**chosen),  # type: ignore[typeddict-item]
        compare=False,
    )


def _check_kind(table: Mapping[str, Any], kind: Kind) -> None:
    if kind in table:
        return
    others = [name for name in ("cost", *JOB_COMMANDS) if name in table]
    hint = "".join(
        f"; it has a [{name}]: run veilsum {JOB_COMMANDS.get(name, 'solve')}"
        for name in others
    )
    raise InvalidScenarioError(f"the scenario needs a [{kind}] section{hint}")


def _check_policy(policy: Mapping[str, Any], kind: Kind) -> None:
    """Refuse a rule that this kind of job does not have: it would not be kept."""
    rules: dict[str, tuple[str, ...]] = {
        "model": ("release_fraction",),
        "statistics": ("release_fraction", "minimum_cell"),
        "dispatch": (),
    }
    for key in policy:
        known = (*POLICY, *WAITS, *rules[kind])
        if key not in known:
            raise InvalidScenarioError(
                f"[policy] {key} is no rule of veilsum {JOB_COMMANDS[kind]}, which has "
                f"{', '.join(known)}"
            )


def read_data(
    section: Mapping[str, Any], folder: Path, *, text: Sequence[str] = ()
) -> dict[str, Frame]:
    """Return each party's table: from one file, from several, or a known data set.

    Columns in `text` are kept as they are written: a code 01 is no number.
    """
    sources = [key for key in ("dataset", "file", "files") if key in section]
    if len(sources) != 1:
        raise InvalidScenarioError(
            "[data] needs exactly one of dataset, file and files, found "
            f"{', '.join(sources) or 'none'}"
        )
    how = {key: section[key] for key in ("decimal", "separator") if key in section}
    how["text"] = text
    match sources[0]:
        case "dataset":
            return _dataset(section)
        case "files":
            named = dict(section["files"])
            return {p: read_table(folder / name, **how) for p, name in named.items()}
        case _:
            return _split(read_table(folder / section["file"], **how), section)


def _dataset(section: Mapping[str, Any]) -> dict[str, Frame]:
    name = section["dataset"]
    if name not in DATASETS:
        raise InvalidScenarioError(
            f"[data] dataset is {name!r}; choose from {', '.join(DATASETS)}"
        )
    parts = {"parties": section["parties"]} if "parties" in section else {}
    return dict(DATASETS[name](**parts))


def _split(frame: Frame, section: Mapping[str, Any]) -> dict[str, Frame]:
    """Return the rows of one file by the column that says whose they are."""
    column = section.get("party")
    if column not in frame.columns:
        raise InvalidScenarioError(
            "[data] party must name the column that says whose rows they are, found "
            f"{column!r}; the file has {', '.join(map(str, frame.columns))}"
        )
    groups = frame.dropna(subset=[column]).groupby(column, sort=True)
    return {str(name): rows.drop(columns=[column]) for name, rows in groups}


def _options(
    table: Mapping[str, Any], parties: tuple[str, ...], folder: Path
) -> Options:
    chosen: dict[str, Any] = {**_agreed_options(table)}
    if "graph" in table:
        chosen["topology"] = _graph(table["graph"], parties, folder)
    if "seed" in table.get("simulation", {}):
        chosen["seed"] = table["simulation"]["seed"]
    chosen["title"] = str(table.get("title", ""))
    return Options(**chosen)  # type: ignore[typeddict-item]


def _agreed_options(table: Mapping[str, Any]) -> Options:
    """Return what masks and policy say about summing."""
    policy = table.get("policy", {})
    chosen: dict[str, Any] = {key: policy[key] for key in POLICY if key in policy}
    chosen["waits"] = {key: policy[key] for key in WAITS if key in policy}
    if "masks" in table:
        chosen |= asdict(masks_of(table["masks"]))
    return Options(**chosen)  # type: ignore[typeddict-item]


def _graph(
    section: Mapping[str, Any], parties: tuple[str, ...], folder: Path
) -> Topology:
    def read_graph(name: str, weight: str | None) -> Topology:
        return read_topology(folder / name, weight=weight)

    graph = topology_of(section, {}, read_graph)
    return graph.renamed(parties) if "family" in section else graph
