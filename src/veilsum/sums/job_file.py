"""Scenario files that describe jobs on data: a regression, statistics, a dispatch.

[data]        where each party's table is
[schema]      what the tables were agreed to look like
[model]       a regression; or [statistics], [survival], or [dispatch]
[graph] [masks] [policy] [simulation]   as in every scenario
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from veilsum.consortium.consortium import AgreedMinimisation, Consortium
from veilsum.consortium.kinds import (
    QuestionSpec,
    command_of_question_heading,
    question_section_headings,
)
from veilsum.consortium.scenario import ignored_scenario_sections
from veilsum.consortium.sections import (
    WRITTEN,
    DataSection,
    PolicySection,
    ScenarioFile,
)
from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.files.datasets import DATASETS
from veilsum.files.scenarios import graph_files_beside_scenario, read_scenario_file
from veilsum.files.tables import agreed_table
from veilsum.numbers.arrays import nearest_name
from veilsum.numbers.secrets import Secret
from veilsum.reading import read_section
from veilsum.sums.kinds import (
    agreed_sum_options,
    question_kind_of,
    sum_options_of_rules,
)
from veilsum.sums.running import SumJobResult
from veilsum.sums.terms import SumOptions
from veilsum.tables.frames import Frame, load_pandas_alone
from veilsum.tables.rules import MINIMUM_ROWS
from veilsum.tables.schema import Schema, changed_values_lines


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
    question: QuestionSpec
    tables: Mapping[str, Frame]
    schema: Schema | None
    rules: PolicySection
    options: SumOptions
    ignored: tuple[str, ...] = ()
    compare: bool = True

    def run(self, **options: Any) -> SumJobResult:
        """Run it, whatever it is; compare it with the pooled answer if that is here."""
        return question_kind_of(self.question).run(
            self.question,
            self.tables,
            schema=self.schema,
            compare=self.compare,
            **{"rules": self.rules.rules, **self.options, **options},
        )

    def refused_by_default(self) -> tuple[str, ...]:
        """Return the parties that the usual minimum of rows would refuse."""
        if self.schema is None or self.schema.minimum_rows >= MINIMUM_ROWS:
            return ()
        usual = replace(self.schema, minimum_rows=MINIMUM_ROWS, maximum_rows=None)
        whole = {p: int(usual.complete_rows(t).sum()) for p, t in self.tables.items()}
        return usual.refused(whole)

    @property
    def changes(self) -> tuple[str, ...]:
        """Lines about values of the tables here that were rounded or recoded."""
        rounded: dict[str, int] = {}
        recoded: dict[str, dict[str, int]] = {}
        if self.schema is None:
            return ()
        for table in self.tables.values():
            some, others = self.schema.changes(table)
            for name, number in some.items():
                rounded[name] = rounded.get(name, 0) + number
            for name, words in others.items():
                known = recoded.setdefault(name, {})
                for word, number in words.items():
                    known[word] = known.get(word, 0) + number
        return changed_values_lines(rounded, recoded)


def read_job(path: str | Path, kind: str, *, alone: bool = False) -> JobFile:
    """Return the job in a scenario file; tables and graphs are found beside it.

    Args:
        path: the scenario file.
        kind: the section with its question, such as "model" or "statistics".
        alone: whether this process is for one job, and pyarrow is not loaded unless a
            Parquet file is named.
    """
    path = Path(path)
    return _job_of_scenario(read_scenario_file(path), path, kind, alone=alone)


def job_of_tables(
    paths: Sequence[Path],
    kind: str,
    asked: Mapping[str, Any],
    *,
    party: str | None = None,
    alone: bool = False,
) -> JobFile:
    """Return a question to tables without a scenario file.

    Args:
        paths: one table for each party, named after its file; or a single table.
        kind: the section of the question, such as "model".
        asked: the keys of that section.
        party: the column that divides a single table among the parties.
        alone: as for `read_job`.
    """
    names = [path.stem for path in paths]
    if (twice := next((n for n in names if names.count(n) > 1), None)) is not None:
        raise InvalidInputError(
            f"two files are named {twice!r}, and each party is named after its file: "
            "rename one",
            code="duplicate-party",
        )
    if party is None and len(paths) == 1:
        raise InvalidInputError(
            f"{paths[0]} is a single table: give one file for each party, or name the "
            "column that divides it with --party COLUMN",
            code="one-table",
        )
    if party is not None and len(paths) > 1:
        raise InvalidInputError(
            f"--party {party} divides a single table, found {len(paths)} tables",
            code="several-tables",
        )
    files = {name: str(path) for name, path in zip(names, paths, strict=True)}
    data = (
        {"files": files} if party is None else {"file": str(paths[0]), "party": party}
    )
    file = read_section({kind: dict(asked), "data": data}, ScenarioFile, "the question")
    return _job_of_scenario(file, Path(), kind, alone=alone)


def _job_of_scenario(
    file: ScenarioFile, path: Path, kind: str, *, alone: bool
) -> JobFile:
    question: QuestionSpec | None = getattr(file, kind, None)
    if question is None:
        hint = "".join(
            f"; it has a [{name}]: run veilsum {command_of_question_heading(name)}"
            for name in question_section_headings()
            if name in file.given()
        )
        if file.question is not None:
            hint = "; it has several [[question]]: run veilsum up"
        raise InvalidScenarioError(
            f"the scenario needs a [{kind}] section{hint}", code="missing-section"
        )
    rules = file.policy or PolicySection()
    rules.check_for(question)
    schema = None if file.schema is None else file.schema.schema
    if alone and file.data is not None and not file.data.parquet:
        load_pandas_alone()
    tables = read_data_of_job_file(file.data, path.parent, schema)
    masks = None
    if file.masks is not None:
        file.masks.check_for_sums()
        masks = file.masks.masks
    options = sum_options_of_rules(rules, masks)
    if file.graph is not None:
        # A family's parties are called as the data's are; others have names already.
        names = None if file.graph.family is None else tuple(tables)
        options["topology"] = file.graph.topology(
            names, graph_files_beside_scenario(path)
        )
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
        ignored=ignored_scenario_sections(file),
    )


def question_job_of(
    consortium: Consortium, tables: Mapping[str, Frame], **options: Any
) -> JobFile:
    """Return the job that parties agreed on, for those whose tables are here."""
    question = consortium.question
    assert not isinstance(question, AgreedMinimisation)
    chosen: dict[str, Any] = {**agreed_sum_options(consortium), **options}
    return JobFile(
        title=consortium.title,
        question=question,
        tables=tables,
        schema=consortium.schema,
        rules=consortium.rules,
        options=SumOptions(**chosen),  # type: ignore[typeddict-item]
        compare=False,
    )


def read_data_of_job_file(
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
            f"{', '.join(sources) or 'none'}",
            code="data-not-one-source",
        )
    if section.dataset is not None:
        return _dataset_of_job_file(section.dataset, section.parties)
    if section.files is not None:
        _check_job_file_parties(section, section.files)
        return {
            party: agreed_table(folder / name, schema, **section.written(party))
            for party, name in section.files.items()
        }
    _check_job_file_parties(section, ())
    table = agreed_table(folder / str(section.file), schema, **section.written())
    return _split_job_file_rows(table, section.party)


def _check_job_file_parties(section: DataSection, files: Collection[str]) -> None:
    """Refuse words about the file of a party that has none."""
    said = {key: one for key, one in section.given().items() if key in WRITTEN}
    for key, each in said.items():
        for party in each if isinstance(each, dict) else ():
            if party not in files:
                raise InvalidScenarioError(
                    f"[data] {key} is about {party!r}, which has no file of its own; "
                    f"{nearest_name(party, files)}[data] files names "
                    f"{', '.join(files) or 'none'}",
                    code="party-without-file",
                )


def _dataset_of_job_file(name: str, parties: int | None) -> dict[str, Frame]:
    if name not in DATASETS:
        raise InvalidScenarioError(
            f"[data] dataset is {name!r}; choose from {', '.join(DATASETS)}",
            code="unknown-dataset",
        )
    return dict(DATASETS[name](**({} if parties is None else {"parties": parties})))


def _split_job_file_rows(frame: Frame, column: str | None) -> dict[str, Frame]:
    """Return the rows of one file by the column that says whose they are."""
    if column not in frame.columns:
        raise InvalidScenarioError(
            "[data] party must name the column that says whose rows they are, found "
            f"{column!r}; the file has {', '.join(map(str, frame.columns))}",
            code="party-column-missing",
        )
    groups = frame.dropna(subset=[column]).groupby(column, sort=True)
    return {str(name): rows.drop(columns=[column]) for name, rows in groups}
