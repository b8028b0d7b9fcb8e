"""Scenario files that describe jobs on data: a regression, statistics, a dispatch.

[data]        where each party's table is
[schema]      what the tables were agreed to look like
[model]       a regression; or [statistics], [survival], or [dispatch]
[graph] [masks] [policy] [simulation]   as in every scenario
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from veilsum.consortium.consortium import Consortium, Minimisation
from veilsum.consortium.scenario import ignored_sections
from veilsum.consortium.sections import (
    COMMANDS,
    WRITTEN,
    CoxSection,
    DataSection,
    EvaluateSection,
    JobSection,
    MetaSection,
    MixedSection,
    ModelSection,
    PolicySection,
    StatisticsSection,
    SurvivalSection,
)
from veilsum.errors import InvalidScenarioError
from veilsum.files.datasets import DATASETS, fleet_of, site_of
from veilsum.files.scenarios import graphs_beside, read_scenario_file
from veilsum.files.tables import agreed_table
from veilsum.numbers.arrays import nearest
from veilsum.numbers.laws import Masks
from veilsum.numbers.secrets import Secret
from veilsum.sums.running import JobResult
from veilsum.sums.table_job import SchemaJob
from veilsum.sums.terms import Options
from veilsum.tables.frames import Frame, load_pandas_alone
from veilsum.tables.rules import MINIMUM_ROWS
from veilsum.tables.schema import Schema


@dataclass(frozen=True)
class OnTables:
    """A kind of question to tables; its module is imported when it is first used.

    Attributes:
        module: its module in `jobs`.
        job_name: the function that makes the job from a schema and the section's keys.
        run_name: the public function that runs it on tables, with the same keys.
    """

    module: str
    job_name: str
    run_name: str

    @property
    def job(self) -> Callable[..., SchemaJob[Any]]:
        """The function that makes the job."""
        return attrgetter(self.job_name)(
            import_module(f"veilsum.questions.{self.module}")
        )

    @property
    def run(self) -> Callable[..., JobResult]:
        """The function that runs it."""
        return attrgetter(self.run_name)(
            import_module(f"veilsum.questions.{self.module}")
        )


ON_TABLES: dict[type[JobSection], OnTables] = {
    ModelSection: OnTables("regression", "formula_job", "fit"),
    StatisticsSection: OnTables("statistics", "StatisticsJob.of", "statistics"),
    SurvivalSection: OnTables("survival", "SurvivalJob.of", "survival"),
    CoxSection: OnTables("cox", "cox_job", "cox"),
    MixedSection: OnTables("mixed", "MixedJob.of", "mixed"),
    MetaSection: OnTables("meta", "MetaJob.of", "meta"),
    EvaluateSection: OnTables("evaluate", "evaluate_job", "evaluate"),
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JobFile(Secret):
    """A job, ready to run. It holds the tables of those parties that are run here.

    Attributes:
        title: of the run.
        question: what is asked of all tables together.
        tables: by party.
        schema: what the tables were agreed to look like; None reads it off them.
        rules: what parties keep to.
        options: how they sum.
        ignored: sections of the file that a simulation does not use.
        compare: whether all rows are here, so that the pooled answer can be found too.
    """

    title: str
    question: JobSection
    tables: Mapping[str, Frame]
    schema: Schema | None
    rules: PolicySection
    options: Options
    ignored: tuple[str, ...] = ()
    compare: bool = True

    def run(self, **options: Any) -> JobResult:
        """Run it, whatever it is; compare it with the pooled answer if that is here."""
        given = self.question.asked()
        if (kind := ON_TABLES.get(type(self.question))) is None:
            from veilsum.questions.dispatch import dispatch, dispatch_periods

            chosen: dict[str, Any] = {**self.options, **options}
            tables = self.tables.items()
            if (periods := given.get("periods")) is not None:
                fleets = {party: fleet_of(one, periods, party) for party, one in tables}
                return dispatch_periods(fleets, **given, **chosen)
            sites = {party: site_of(table, party) for party, table in tables}
            return dispatch(sites, compare=self.compare, **given, **chosen)
        return kind.run(
            data=self.tables,
            schema=self.schema,
            compare=self.compare,
            **given,
            **{"rules": self.rules.rules, **self.options, **options},
        )

    def refused_by_default(self) -> tuple[str, ...]:
        """Return the parties that the usual minimum of rows would refuse."""
        if self.schema is None or self.schema.minimum_rows >= MINIMUM_ROWS:
            return ()
        usual = replace(self.schema, minimum_rows=MINIMUM_ROWS, maximum_rows=None)
        names = list(self.schema.names)
        whole = {party: len(t.dropna(subset=names)) for party, t in self.tables.items()}
        return usual.refused(whole)

    @property
    def rounded(self) -> dict[str, int]:
        """By column, how many values here are no whole numbers of the agreed unit."""
        found: dict[str, int] = {}
        if self.schema is None:
            return found
        for table in self.tables.values():
            for name, number in self.schema.n_rounded(table).items():
                found[name] = found.get(name, 0) + number
        return found


def read_job(path: Path, kind: str, *, alone: bool = False) -> JobFile:
    """Return the job in a scenario file; tables and graphs are found beside it.

    Args:
        path: the scenario file.
        kind: the section with its question, such as "model" or "statistics".
        alone: whether this process is for one job, and pyarrow is not loaded unless a
            Parquet file is named.
    """
    file = read_scenario_file(path)
    question: JobSection | None = getattr(file, kind)
    if question is None:
        hint = "".join(
            f"; it has a [{name}]: run veilsum {command}"
            for name, command in COMMANDS.items()
            if name in file.given()
        )
        if file.question is not None:
            hint = "; it has several [[question]]: run veilsum up"
        raise InvalidScenarioError(f"the scenario needs a [{kind}] section{hint}")
    rules = file.policy or PolicySection()
    rules.check_for(question)
    schema = None if file.schema is None else file.schema.schema
    if alone and file.data is not None and not file.data.parquet:
        load_pandas_alone()
    tables = read_data(file.data, path.parent, schema)
    options = _summing(rules, None if file.masks is None else file.masks.masks)
    if file.graph is not None:
        # A family's parties are called as the data's are; others have names already.
        names = None if file.graph.family is None else tuple(tables)
        options["topology"] = file.graph.topology(names, graphs_beside(path))
    if file.simulation is not None and file.simulation.seed is not None:
        options["seed"] = file.simulation.seed
    options["title"] = file.title
    return JobFile(
        title=file.title,
        question=question,
        tables=tables,
        schema=schema,
        rules=rules,
        options=options,
        ignored=ignored_sections(file),
    )


def job_of(
    consortium: Consortium, tables: Mapping[str, Frame], **options: Any
) -> JobFile:
    """Return the job that parties agreed on, for those whose tables are here."""
    (question,) = consortium.questions
    assert not isinstance(question, Minimisation)
    chosen: dict[str, Any] = {
        **_summing(consortium.rules, consortium.masks),
        "topology": consortium.topology,
        "run": consortium.run,
        **options,
    }
    return JobFile(
        title=consortium.title,
        question=question,
        tables=tables,
        schema=consortium.schema,
        rules=consortium.rules,
        options=Options(**chosen),  # type: ignore[typeddict-item]
        compare=False,
    )


def table_job(question: JobSection, schema: Schema) -> SchemaJob[Any] | None:
    """Return what is asked of tables with a schema; None for what is not about them.

    Raises:
        InvalidInputError: it asks for what the schema does not have.
    """
    kind = ON_TABLES.get(type(question))
    return None if kind is None else kind.job(schema, **question.asked())


@lru_cache(16)  # rules, page and receipt of a run all ask it of the same file
def agreed_job(consortium: Consortium) -> SchemaJob[Any] | None:
    """Return the job on tables of a consortium's question; None for other questions.

    Raises:
        InvalidInputError: the question needs columns that the schema does not have.
    """
    (question,) = consortium.questions
    if consortium.schema is None or isinstance(question, Minimisation):
        return None
    return table_job(question, consortium.schema)


def read_data(
    section: DataSection | None, folder: Path, schema: Schema | None
) -> dict[str, Frame]:
    """Return each party's table: from one file, from several, or a known data set.

    A schema's categories are kept as they are written: a code 01 is no number.
    """
    section = section or DataSection()
    sources = [key for key in ("dataset", "file", "files") if key in section.given()]
    if len(sources) != 1:
        raise InvalidScenarioError(
            "[data] needs exactly one of dataset, file and files, found "
            f"{', '.join(sources) or 'none'}"
        )
    if section.dataset is not None:
        return _dataset(section.dataset, section.parties)
    if section.files is not None:
        _check_parties(section, section.files)
        return {
            party: agreed_table(folder / name, schema, **section.written(party))
            for party, name in section.files.items()
        }
    _check_parties(section, ())
    table = agreed_table(folder / str(section.file), schema, **section.written())
    return _split(table, section.party)


def _check_parties(section: DataSection, files: Collection[str]) -> None:
    """Refuse words about the file of a party that has none."""
    said = {key: one for key, one in section.given().items() if key in WRITTEN}
    for key, each in said.items():
        for party in each if isinstance(each, dict) else ():
            if party not in files:
                raise InvalidScenarioError(
                    f"[data] {key} is about {party!r}, which has no file of its own; "
                    f"{nearest(party, files)}[data] files names "
                    f"{', '.join(files) or 'none'}"
                )


def _dataset(name: str, parties: int | None) -> dict[str, Frame]:
    if name not in DATASETS:
        raise InvalidScenarioError(
            f"[data] dataset is {name!r}; choose from {', '.join(DATASETS)}"
        )
    return dict(DATASETS[name](**({} if parties is None else {"parties": parties})))


def _split(frame: Frame, column: str | None) -> dict[str, Frame]:
    """Return the rows of one file by the column that says whose they are."""
    if column not in frame.columns:
        raise InvalidScenarioError(
            "[data] party must name the column that says whose rows they are, found "
            f"{column!r}; the file has {', '.join(map(str, frame.columns))}"
        )
    groups = frame.dropna(subset=[column]).groupby(column, sort=True)
    return {str(name): rows.drop(columns=[column]) for name, rows in groups}


def _summing(rules: PolicySection, masks: Masks | None) -> Options:
    """Return what policy and masks say about summing."""
    chosen: dict[str, Any] = rules.summing
    if masks is not None:
        # What tables count in is in the schema.
        chosen |= {key: one for key, one in asdict(masks).items() if key != "unit"}
    return Options(**chosen)  # type: ignore[typeddict-item]
