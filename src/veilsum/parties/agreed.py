"""Whether every member of a consortium could take part in what was agreed.

Each of them makes these checks before it sends anything. Nothing of them depends on
anybody's data, so whoever writes the file can make them first.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Any

from veilsum.agreement.consortium import Consortium
from veilsum.agreement.sections import about, task_of
from veilsum.costs.bases import Polynomial
from veilsum.jobs.job_file import JobFile, job_of
from veilsum.jobs.regression import FormulaJob, family_of
from veilsum.jobs.releases import FRACTION
from veilsum.jobs.rules import RowRules
from veilsum.jobs.statistics import StatisticsRecipe, wishes_of
from veilsum.jobs.terms import Terms
from veilsum.parties.party_cost import PartyCost
from veilsum.tables.frames import as_frame
from veilsum.tables.schema import CheckedTable


def check_agreed(consortium: Consortium) -> None:
    """Refuse what every member would refuse.

    Raises:
        InvalidInputError: the file has to be mended before it is passed on.
    """
    task: Any = task_of(consortium.sections)
    if task == "cost":
        PartyCost.of(consortium, stand_in(consortium.sections["cost"]))
        return
    job = job_of(consortium, task, {})
    with about("policy"):
        terms = Terms.of(consortium.topology.parties, options=job.options)
    with about(task):
        _check_job(consortium, job, terms)


def stand_in(public: Mapping[str, Any]) -> dict[str, Any]:
    """Return entries of a [cost] of the agreed kind and size that are nobody's."""
    dim, kind = public["dim"], public["kind"]
    zeros = [0.0] * dim
    if kind == "quadratic":
        matrix = [[float(i == j) for j in range(dim)] for i in range(dim)]
        return {"matrices": matrix, "vectors": zeros}
    if kind == "polynomial":
        size = Polynomial(dim, public.get("degree", 2)).size
        return {"coefficients": [0.0] * size}
    return {"targets" if kind == "squared-distance" else "coefficients": zeros}


def _check_job(consortium: Consortium, job: JobFile, terms: Terms) -> None:
    if job.kind == "dispatch":
        _check_dispatch(consortium)
    elif job.kind == "model":
        _check_model(job, terms)
    else:
        _check_statistics(job, terms)


def _check_model(job: JobFile, terms: Terms) -> None:
    """Refuse a formula beside the schema, and more numbers than may be released."""
    assert job.schema is not None
    section = {"formula": "", **job.section}
    family = family_of(
        section.pop("family", "gaussian"), alpha=section.pop("alpha", None)
    )
    made = FormulaJob.of(section.pop("formula"), job.schema, family, **section)
    for column in (made.weights, made.offset):
        if column is not None:
            row = as_frame({column: [1.0]})
            CheckedTable("", job.schema, row, 0).numbers(column)
    rules = RowRules.of(job.schema, job.rules.get("release_fraction", FRACTION))
    limit = rules.limit(made.model.numbers_in_a_row, terms)
    made.model.recipe(limit).request([])


def _check_statistics(job: JobFile, terms: Terms) -> None:
    assert job.schema is not None
    section = {"columns": None, "histograms": {}, "tables": (), **job.section}
    wishes = wishes_of(job.schema, **section)
    rules = RowRules.of(job.schema, job.rules.get("release_fraction", FRACTION))
    StatisticsRecipe(wishes, rules.limit(len(wishes.used), terms)).request([])


def _check_dispatch(consortium: Consortium) -> None:
    """Balance no demand at all: that takes one round, and every check comes first."""
    nothing = {"demand": [0.0], **{key: [nan] for key in ("a", "b", "low", "high")}}
    tables = {name: as_frame(nothing) for name in consortium.topology.parties}
    job_of(consortium, "dispatch", tables, driver="vectorised", seed=0).dispatch()
