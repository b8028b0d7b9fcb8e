"""`sweep`: one problem, run on every graph, under all masks, by all methods and seeds.

A piece of work is one simulated run; what is promised depends on graph and masks alone,
and is worked out once for each. Pieces come in a fixed order and are the same however
many processes share them, so a table that was stopped and taken up again has the bytes
of one that was not.

The table holds nobody's cost. But it has seeds, and errors to the last digit: whoever
guesses all costs can run it again and see whether the guess is right. Sweeps are for
costs that are no secret.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from io import StringIO
from itertools import product
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from veilsum.consortium.scenario import Scenario
from veilsum.errors import (
    InvalidInputError,
    OutputError,
    SecretError,
    VeilsumError,
    load_extra_package,
    printable,
)
from veilsum.files.output import prepare_output_folder, write_files
from veilsum.files.safe_read import read_file_contents
from veilsum.files.scenarios import read_scenario
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.masks.laws import LAWS, LawName, Masks
from veilsum.minimise.costs.cost import Cost, cost_coefficient_rows
from veilsum.minimise.costs.domains import Domain
from veilsum.minimise.methods.link_faults import LinkFaults
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.question import plain_cost_value
from veilsum.minimise.solve import Run, SolveTrace, central_minimiser, solve
from veilsum.minimise.sweep_figure import sweep_figure
from veilsum.numbers.arrays import as_whole_number, is_real_number
from veilsum.privacy.guarantee import Guarantee
from veilsum.privacy.worst_case import (
    MOST_WORK,
    check_tolerated_colluders,
    guarantee_against_any_coalition,
)
from veilsum.progress import Progress, Report, staged_progress, watch_progress
from veilsum.scale.pieces import map_pieces
from veilsum.scale.workers import workers_on
from veilsum.showing import Renderable, Rendering, ShownTable, counted_words

Problem: TypeAlias = str | Path | Scenario | Sequence[Cost] | Mapping[str, Cost]
Row = dict[str, Any]

# What is chosen, what came of it, and which sweep it is of: the columns, in order.
CHOSEN: Mapping[str, type] = {
    "graph": str,
    "parties": int,
    "links": int,
    "law": str,
    "sigma": float,
    "method": str,
    "seed": int,
    "tolerate": int,
    "tolerance": float,
    "distance": float,
}
FOUND: Mapping[str, type] = {
    "recentred": int,
    "iterations": int,
    "iterations_to_tolerance": int,
    "rounds": int,
    "bytes": int,
    "error": float,
    "stopped": str,
    "status": str,
    "epsilon": float,
    "attacker_success": float,
    "refused": str,
}
COLUMNS: Mapping[str, type] = {**CHOSEN, **FOUND, "sweep": str}
# Lines that differ in these only are repetitions of one another.
SETTING = ("graph", "law", "sigma", "method", "tolerate")
# Of a sweep, and of its file.
MOST_RUNS, MOST_BYTES = 1_000_000, 1 << 30
OWN_GRAPH = "its own"


@dataclass(frozen=True)
class SweptRun:
    """One run of a sweep."""

    graph: str
    law: LawName
    sigma: float | None
    method: str
    seed: int


@dataclass(frozen=True)
class RunFound:
    """Results of a run without any party's cost; it travels between processes.

    Attributes:
        masks: masks with the grid that the law chose for the graph; None if the run
            was refused.
        found: columns that a run fills.
    """

    masks: Masks | None
    found: Mapping[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class _SweepRuns:
    """All that a worker needs to carry out any choice.

    A cost refuses to be pickled, so that nobody's leaves a process unnoticed. Here they
    all belong to whoever simulates, and go to workers in parts.
    """

    parts: tuple[Mapping[str, Any], ...]
    names: tuple[str, ...] | None
    graphs: Mapping[str, Topology]
    choices: tuple[SweptRun, ...]
    domain: Domain
    masks: Mapping[str, Any]
    settings: Settings
    faults: LinkFaults | None
    tolerance: float

    @property
    def costs(self) -> list[Cost]:
        return [Cost(**one) for one in self.parts]

    def masks_of(self, choice: SweptRun) -> Masks:
        """Return the masks of a choice: what its law takes of what was given."""
        keys = LAWS[choice.law].keys
        kept = {key: one for key, one in self.masks.items() if key in (*keys, "unit")}
        return Masks(choice.law, choice.sigma, **kept)

    def __call__(self, key: int, seed: int) -> RunFound:
        """Return what the run with this number comes to; its choice has its seed."""
        del seed
        choice = self.choices[key]
        graph, costs = self.graphs[choice.graph], self.costs
        given: Any = costs
        if self.names is not None and {*self.names} == {*graph.parties}:
            given = dict(zip(self.names, costs, strict=True))
        try:
            run = solve(
                given,
                topology=graph,
                corrupted=(),
                domain=self.domain,
                **asdict(self.masks_of(choice)),
                settings=sweep_settings_with_method(self.settings, choice.method),
                faults=self.faults,
                seed=choice.seed,
                progress=False,
            )
        except VeilsumError as error:
            return RunFound(None, {"refused": printable(str(error))})
        return RunFound(run.terms.law.masks, self._found(run))

    def _found(self, run: Run) -> dict[str, Any]:
        plan = run.costs.schedule
        return {
            "recentred": 0 if plan is None else plan.recentring,
            "iterations": run.iterations,
            "iterations_to_tolerance": iterations_until_tolerance(
                run.trace, self.tolerance
            ),
            "rounds": run.rounds,
            "bytes": run.bytes,
            "error": run.max_error,
            "stopped": run.stopped,
        }


def sweep_settings_with_method(settings: Settings, method: str) -> Settings:
    """Return the settings with another method, which has steps of its own."""
    if method == settings.method:
        return settings
    return replace(settings, method=method, step=None)


def iterations_until_tolerance(trace: SolveTrace, tolerance: float) -> int | None:
    """Return the first kept iteration from which on all parties are within it.

    None if they are not at the end. Without `history` in the settings iterations are
    kept at times spaced evenly on a logarithmic scale, forty for a factor of ten.
    """
    outside = np.flatnonzero(~(trace.errors.max(axis=1) <= tolerance))
    first = int(outside[-1]) + 1 if outside.size else 0
    return int(trace.iterations[first]) if first < len(trace.iterations) else None


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Renderable):
    """A tidy table: a line for each run and each number of colluders.

    Attributes:
        rows: in the order of the grid; None for what there is not.
        tolerance: that `iterations_to_tolerance` speaks of.
        distance: of the inputs that `attacker_success` speaks of.
        asked: how many lines there are when it is finished.
    """

    rows: tuple[Row, ...]
    tolerance: float
    distance: float
    asked: int

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped before the last line."""
        return len(self.rows) < self.asked

    def __len__(self) -> int:
        return len(self.rows)

    def to_frame(self) -> Any:
        """Return the lines as a table of pandas."""
        pandas = load_extra_package("pandas", extra="data", what="tables")
        return pandas.DataFrame(list(self.rows), columns=list(COLUMNS))

    def to_csv(self, path: str | Path) -> None:
        """Write the lines to a file, whole or not at all."""
        place = Path(path)
        text = _sweep_csv_lines([list(COLUMNS)]) + _sweep_csv_lines(
            _sweep_csv_cells(one) for one in self.rows
        )
        write_files(prepare_output_folder(place.parent), {place.name: text.encode()})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "tolerance": self.tolerance,
            "distance": self.distance,
            "interrupted": self.interrupted,
            "rows": [dict(one) for one in self.rows],
        }

    def medians(self) -> list[Row]:
        """Return a line for each setting: what is in the middle of its seeds."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            groups.setdefault(tuple(row[key] for key in SETTING), []).append(row)
        return [
            {
                **dict(zip(SETTING, key, strict=True)),
                "runs": len(rows),
                "refused": sum(row["refused"] is not None for row in rows),
                "status": next((row["status"] for row in rows if row["status"]), None),
                **{name: _median_of_sweep_rows(rows, name) for name in MEASURED},
            }
            for key, rows in groups.items()
        ]

    def showing(self) -> Rendering:
        """Return the medians, and why some runs were refused."""
        lines, left = self.medians(), self.asked - len(self.rows)
        refused = dict.fromkeys(row["refused"] for row in self.rows if row["refused"])
        folded = {"No guarantee": self._unprotected(), "Refused": list(refused)}
        ended = f"stopped: {counted_words(left, 'line')} to go" * (left > 0)
        size = counted_words(len(self.rows), "line")
        title = f"A sweep of {size}{', ' * (left > 0)}{ended}"
        if not lines:
            return Rendering(title)
        varied = [key for key in SETTING if len({one[key] for one in lines}) > 1]
        fixed = {key: lines[0][key] for key in SETTING if key not in varied}
        said = ", ".join(
            f"{key} {one}" for key, one in fixed.items() if one is not None
        )
        note = (
            f"Medians over seeds{'; ' * bool(said)}{said}. error: the worst party's "
            "distance from the exact answer; settled: the iteration from which on all "
            f"parties are within {self.tolerance:g} of it, never if not at the end; "
            "bytes: on all links together."
        )
        iterative = [one for one in lines if one["method"] != "one-shot"]
        drawn = {one["recentred"] for one in iterative if one["error"] is not None}
        if any(drawn):
            note += (
                " recentred: rounds in which masked integers are drawn together before "
                "the method starts."
            )
        if any(drawn) and 0 in drawn:
            note += (
                " Runs with and without it are different algorithms: "
                "Settings(recentre=False) leaves it out."
            )
        promised = (
            "attacker: how often the best one tells two inputs at distance "
            f"{self.distance:g} apart, at most."
        )
        came = _sweep_outcome_table(lines, varied)
        return Rendering(
            title, [came, note, _sweep_guarantee_table(lines, varied), promised], folded
        )

    def _unprotected(self) -> list[str]:
        """Return why some lines have no epsilon."""
        said: dict[str, None] = {}
        for row in self.rows:
            if row["status"] == "no_privacy":
                said[f"the law {row['law']} hides nothing"] = None
            elif row["status"] in ("partial", "exposed"):
                who = counted_words(row["tolerate"], "colluder")
                said[f"{who} can cut {row['graph']}"] = None
        return list(said)

    def draw_with(
        self,
        figures: ModuleType,
        *,
        x: str = "epsilon",
        y: str = "error",
        title: str | None = None,
    ) -> Any:
        """Return medians of column `y` over column `x`."""
        return sweep_figure(figures, self.rows, self.tolerance, x=x, y=y, title=title)


def _sweep_outcome_table(lines: Sequence[Row], varied: Sequence[str]) -> ShownTable:
    keys = _sweep_key_columns(varied, "tolerate")
    rows: dict[tuple[Any, ...], list[Any]] = {}
    # A column of zeros says nothing.
    drawn = ["recentred"] if any(one["recentred"] for one in lines) else []
    for one in lines:
        found = [_whole_sweep_number(one[key], "") for key in (*drawn, "bytes")]
        settled = _whole_sweep_number(one["iterations_to_tolerance"], "never")
        rows[tuple(one[key] for key in keys)] = (
            ["refused", "", *("" for _ in found)]
            if one["error"] is None
            else [f"{one['error']:.2g}", settled, *found]
        )
    heads = ["error", "settled", *drawn, "bytes"]
    return _keyed_sweep_table(
        "What runs came to", keys, heads, rows, "." + ">" * (len(heads) - 1)
    )


def _sweep_guarantee_table(lines: Sequence[Row], varied: Sequence[str]) -> ShownTable:
    """Return what is promised: it depends on neither method nor seed."""
    keys = _sweep_key_columns(varied, "method")
    rows: dict[tuple[Any, ...], list[Any]] = {}
    worst: dict[tuple[Any, ...], float] = {}
    for one in lines:
        own = tuple(one[key] for key in keys)
        success = one["attacker_success"]
        # Grids of integer masks may differ between methods: the least promise counts.
        if success is None or success <= worst.get(own, -1.0):
            continue
        worst[own] = success
        epsilon = "none" if one["epsilon"] is None else f"{one['epsilon']:.2g}"
        rows[own] = [one["status"], epsilon, f"{success:.1%}"]
    heads = ("status", "epsilon", "attacker")
    return _keyed_sweep_table("What is promised", keys, heads, rows, "<.>")


def _sweep_key_columns(varied: Sequence[str], without: str) -> list[str]:
    return [one for one in SETTING if one == "graph" or one in {*varied} - {without}]


def _keyed_sweep_table(
    title: str,
    keys: Sequence[str],
    heads: Sequence[str],
    rows: Mapping[tuple[Any, ...], Sequence[Any]],
    align: str,
) -> ShownTable:
    # A law without a sigma has an empty place there.
    cells = [
        [*("" if one is None else str(one) for one in key), *found]
        for key, found in rows.items()
    ]
    return ShownTable([*keys, *heads], cells, title, "<" * len(keys) + align)


def _whole_sweep_number(number: float | None, without: str) -> str:
    return without if number is None else f"{number:,.0f}"


MEASURED = (
    "recentred",
    "error",
    "iterations",
    "iterations_to_tolerance",
    "rounds",
    "bytes",
    "epsilon",
    "attacker_success",
)


def _median_of_sweep_rows(rows: Sequence[Row], name: str) -> float | None:
    """Return the median; of runs of which some never came there, that may be None."""
    came = [row for row in rows if row["refused"] is None]
    known = [row[name] for row in came if row[name] is not None]
    # What did not come there in time counts as later than all that did.
    late = [float("inf")] * (len(came) - len(known))
    found = median([*known, *late]) if came else float("inf")
    return None if found == float("inf") else float(found)


def sweep(
    problem: Problem,
    *,
    graphs: Sequence[str | GraphLike]
    | Mapping[str, GraphLike]
    | str
    | GraphLike
    | None = None,
    domain: Domain | None = None,
    sigmas: Sequence[float] | float | None = None,
    laws: Sequence[LawName] | LawName | None = None,
    methods: Sequence[str] | str | None = None,
    seeds: Sequence[int] | int = 1,
    tolerate: Sequence[int] | int = 1,
    tolerance: float = 1e-3,
    distance: float = 1.0,
    grid: int | None = None,
    largest: float | None = None,
    settings: Settings | None = None,
    out: str | Path | None = None,
    on: str | None = None,
    progress: Progress = None,
) -> Sweep:
    """Simulate one problem for every choice, and return a tidy table.

    What a method or a law cannot do is a line too: `refused` says why.

    Args:
        problem: one cost for each party; or a scenario, or the file of one, which also
            says what is not given here.
        graphs: names of families such as `ring:6`, graphs of ours or of networkx, or
            such graphs by a name for each. A graph without a name is called by its
            place: `graph 1`.
        domain: X; a scenario has its own.
        sigmas: standard deviations of a share. Laws that have none run once.
        laws: `gaussian`, `lattice`, `uniform`, `none`.
        methods: their names; see `Settings`.
        seeds: which, or how many from 0 on: `solve` with such a seed repeats a run.
        tolerate: how many parties may collude; the guarantee holds for any so many.
        tolerance: how near all parties must be to the exact answer.
        distance: of two inputs that an attacker is to tell apart.
        grid: of integer masks; see `solve`.
        largest: of integer masks; see `solve`.
        settings: iterations, steps, start and the like; a step is for its own method.
        out: a CSV file to which every run is added as it ends. A sweep that was stopped
            goes on from there; the file of another one is refused.
        on: who shares the runs: `processes:8`, or a Ray cluster such as
            `ray://head:10001`; by default this process does all. A script needs
            `if __name__ == "__main__":` around what starts processes.
        progress: None for a bar, False for none, or a function that is called with the
            lines done, and all of them.

    >>> from veilsum.minimise.costs.domains import Box
    >>> costs = [Cost.squared_distance([p]) for p in (1.0, 2.0, 6.0, 3.0)]
    >>> found = sweep(costs, graphs=["ring:4", "complete:4"], domain=Box(-9, 9, dim=1),
    ...               sigmas=[1, 2], settings=Settings(iterations=500))
    >>> [(row["graph"], row["sigma"], round(row["epsilon"], 6)) for row in found.rows]
    [('ring:4', 1.0, 0.25), ('ring:4', 2.0, 0.0625),
     ('complete:4', 1.0, 0.083333), ('complete:4', 2.0, 0.020833)]
    """
    given = _problem_of_sweep(problem, domain=domain, settings=settings)
    settings = given["settings"]
    own = given["masks"]
    masks = {
        "grid": own.get("grid") if grid is None else grid,
        "largest": own.get("largest") if largest is None else largest,
        "unit": own.get("unit"),
    }
    networks = _networks_of_sweep(graphs, given["topology"], len(given["costs"]))
    colluding = _several_sweep_values("tolerate", tolerate)
    for t, one in product(colluding, networks.values()):
        check_tolerated_colluders(one, t)
    runs = _SweepRuns(
        parts=tuple(_cost_parts_in_sweep_digest(one) for one in given["costs"]),
        names=given["names"],
        graphs=networks,
        choices=_sweep_choices(
            networks,
            laws=_several_sweep_values(
                "laws", (given["law"] or "gaussian") if laws is None else laws
            ),
            sigmas=_sigmas_of_sweep(sigmas, given["sigma"]),
            methods=_several_sweep_values(
                "methods", settings.method if methods is None else methods
            ),
            seeds=_seeds_of_sweep(seeds),
        ),
        domain=given["domain"],
        masks=masks,
        settings=settings,
        faults=given["faults"],
        tolerance=_positive_sweep_setting("tolerance", tolerance),
    )
    for law, sigma in dict.fromkeys((one.law, one.sigma) for one in runs.choices):
        runs.masks_of(SweptRun("", law, sigma, "", 0))  # refuses what is none
    for method in {one.method for one in runs.choices}:
        sweep_settings_with_method(settings, method)
    name = _sweep_digest(runs, colluding, _positive_sweep_setting("distance", distance))
    made = _SweepLines(runs, tuple(colluding), distance, name)
    asked = len(runs.choices) * len(colluding)
    with watch_progress(progress) as opening:
        rows = _carry_out_sweep_runs(
            made, asked, out, on, staged_progress(opening, "lines")
        )
    return Sweep(tuple(rows), runs.tolerance, distance, asked)


def _carry_out_sweep_runs(
    made: _SweepLines,
    asked: int,
    out: str | Path | None,
    where: str | None,
    progress: Report | None,
) -> list[Row]:
    kept = None if out is None else _SweepFile.begun(Path(out), made)
    rows = [] if kept is None else list(kept.rows)
    first = len(rows) // len(made.tolerate)
    left = range(first, len(made.runs.choices))
    if where is not None:
        _check_portable_sweep_runs(made.runs)
    try:
        with workers_on(where) if where and left else nullcontext() as on:
            if progress is not None:
                progress(len(rows), asked)
            ended = map_pieces(made.runs, left, seed=0, on=on)
            for key, one in zip(left, ended, strict=True):
                lines = made.of(key, one, on)
                rows += lines
                if kept is not None:
                    kept.add(lines)
                if progress is not None:
                    progress(len(rows), asked)
    except BrokenExecutor as error:
        raise InvalidInputError(
            f"those that shared a sweep have ended before it: {error}. "
            f"{_kept_sweep_words(kept, len(rows), asked)}",
            code="workers-lost",
        ) from None
    except KeyboardInterrupt:
        # What there is stays; whoever has a file goes on from there.
        if kept is None and not rows:
            raise
    return rows


def _kept_sweep_words(kept: _SweepFile | None, done: int, asked: int) -> str:
    """Say what is left of a sweep that others ended, and how to go on."""
    if kept is None:
        return "Nothing is kept: with a file for out, a sweep goes on from there"
    return (
        f"{done:,} of {asked:,} lines are in {kept.path}: the same call goes on from "
        "there, on whomever you name"
    )


@dataclass(eq=False)
class _SweepLines:
    """Conversion of run results to lines, with their guarantees.

    Attributes:
        tolerate: numbers of colluders, with a line for each.
        distance: distance at which attackers are measured.
        sweep: name of the sweep, a hash of all its inputs.
    """

    runs: _SweepRuns
    tolerate: tuple[int, ...]
    distance: float
    sweep: str

    def __post_init__(self) -> None:
        self._promises: dict[tuple[str, Masks, int], Guarantee] = {}

    def of(self, key: int, ended: RunFound, on: Executor | None) -> list[Row]:
        """Return the lines of a run; `on` shares the search for the worst coalition."""
        lines, graph = [], self.runs.choices[key].graph
        for t in self.tolerate:
            row: Row = {**self.chosen(key, t), **dict.fromkeys(FOUND), **ended.found}
            if ended.masks is not None:
                promise = self._promise(graph, ended.masks, t, on)
                row["status"] = promise.status
                row["epsilon"] = promise.epsilon
                row["attacker_success"] = promise.attacker_success
            lines.append({**row, "sweep": self.sweep})
        return lines

    def chosen(self, key: int, tolerate: int) -> Row:
        """Return what is known of a line before anything ran."""
        choice = self.runs.choices[key]
        graph = self.runs.graphs[choice.graph]
        known: Row = {"parties": graph.n_parties, "links": graph.n_edges}
        known |= {"tolerate": tolerate, "distance": self.distance}
        known |= {"tolerance": self.runs.tolerance}
        return {name: known.get(name, getattr(choice, name, None)) for name in CHOSEN}

    def _promise(
        self, graph: str, masks: Masks, tolerate: int, on: Executor | None
    ) -> Guarantee:
        """Return what is promised; it does not depend on method or seed."""
        key = graph, masks, tolerate
        if key not in self._promises:
            self._promises[key] = guarantee_against_any_coalition(
                self.runs.graphs[graph],
                masks,
                tolerate=tolerate,
                distance=self.distance,
                most_work=1.0 if masks.kind.sums_only else MOST_WORK,
                on=on,
            )
        return self._promises[key]


# What was given


def _problem_of_sweep(
    problem: Problem, *, domain: Domain | None, settings: Settings | None
) -> dict[str, Any]:
    if isinstance(problem, str | Path):
        problem = read_scenario(Path(problem))
    if isinstance(problem, Scenario):
        return {
            "costs": problem.costs,
            "names": problem.topology.parties,
            "topology": problem.topology,
            "domain": domain or problem.domain,
            "law": problem.masks.law,
            "sigma": problem.masks.sigma,
            "masks": vars(problem.masks),
            "settings": settings or problem.settings,
            "faults": problem.faults,
        }
    if domain is None:
        raise InvalidInputError(
            "costs are minimised over a domain: give one, such as domain=Box(-9, 9, "
            "dim=1), or a scenario, which has its own",
            code="domain-missing",
        )
    names = tuple(map(str, problem)) if isinstance(problem, Mapping) else None
    costs = list(problem.values() if isinstance(problem, Mapping) else problem)
    if not costs or not all(isinstance(one, Cost) for one in costs):
        raise InvalidInputError(
            "a sweep is of costs, one Cost for each party, or of a scenario; found "
            f"{type(problem).__name__}",
            code="not-costs",
        )
    return {
        "costs": costs,
        "names": names,
        "topology": None,
        "domain": domain,
        "law": "gaussian",
        "sigma": None,
        "masks": {},
        "settings": settings or Settings(),
        "faults": None,
    }


def _networks_of_sweep(
    graphs: Any, own: Topology | None, n_costs: int
) -> dict[str, Topology]:
    if graphs is None:
        if own is None:
            raise InvalidInputError(
                'say on which graphs: graphs=["ring:6", "complete:6"]',
                code="graphs-missing",
            )
        return {OWN_GRAPH: own}
    if isinstance(graphs, Mapping):
        found = {str(name): Topology.of(one) for name, one in graphs.items()}
    else:
        found = {}
        for place, one in enumerate(_several_sweep_values("graphs", graphs), 1):
            called = one if isinstance(one, str) else getattr(one, "name", "")
            name = str(called) or f"graph {place}"
            if name in found:
                raise InvalidInputError(
                    f"two graphs are called {name}: give them by name, as in "
                    'graphs={"first": ..., "second": ...}',
                    code="duplicate-graph",
                )
            found[name] = Topology.family(one) if called is one else Topology.of(one)
    for name, one in found.items():
        if one.n_parties != n_costs:
            raise InvalidInputError(
                f"there are {n_costs} costs, and the graph {name} has "
                f"{one.n_parties} parties: give graphs of {n_costs}",
                code="graph-size-differs",
            )
    return found


def _several_sweep_values(what: str, given: Any) -> list[Any]:
    """Return one value, or several, as a list in which none is twice."""
    single = isinstance(given, str) or not isinstance(given, Sequence | np.ndarray)
    found = [given] if single else list(given)
    if not found:
        raise InvalidInputError(f"{what} must not be empty", code="empty-choice")
    if len(set(found)) < len(found):
        raise InvalidInputError(
            f"{what} must not have one value twice, found {found}",
            code="duplicate-choice",
        )
    return found


def _sigmas_of_sweep(given: Any, own: Any) -> list[float | None]:
    chosen = own if given is None else given
    if given is None and isinstance(own, tuple):
        raise InvalidInputError(
            "the scenario has a sigma for each coefficient: say which single ones to "
            "sweep over, with sigmas",
            code="sigma-per-coefficient",
        )
    if chosen is None:
        return [None]
    several = _several_sweep_values("sigmas", chosen)
    if any(is_real_number(one) and one == 0 for one in several):
        raise InvalidInputError(
            "a sigma of 0 is no mask at all: leave it out, and sweep over the law none "
            "too (--law none)",
            code="sigma-zero",
        )
    return [_positive_sweep_setting("a sigma", one) for one in several]


def _seeds_of_sweep(given: Any) -> list[int]:
    if isinstance(given, int) and not isinstance(given, bool):
        return list(range(as_whole_number(given, what="seeds", least=1)))
    found = _several_sweep_values("seeds", given)
    return [as_whole_number(one, what="a seed", least=0) for one in found]


def _positive_sweep_setting(what: str, found: Any) -> float:
    if not (is_real_number(found) and 0 < found < float("inf")):
        raise InvalidInputError(
            f"{what} must be positive and finite, found {found!r}", code="not-positive"
        )
    return float(found)


def _sweep_choices(
    networks: Mapping[str, Topology],
    *,
    laws: Sequence[LawName],
    sigmas: Sequence[float | None],
    methods: Sequence[str],
    seeds: Sequence[int],
) -> tuple[SweptRun, ...]:
    """Return every run: seeds change quickest, graphs slowest."""
    found = []
    for law in laws:
        if law not in LAWS:
            raise InvalidInputError(
                f"no mask law is called {law!r}; choose from {', '.join(LAWS)}",
                code="unknown-law",
            )
    number = len(networks) * len(laws) * len(sigmas) * len(methods) * len(seeds)
    if number > MOST_RUNS:
        raise InvalidInputError(
            f"a sweep has at most {MOST_RUNS:,} runs, and this one would have "
            f"{number:,}: leave some out",
            code="too-many-runs",
        )
    for graph, law in product(networks, laws):
        own = sigmas if "sigma" in LAWS[law].keys else [None]
        for sigma, method, seed in product(own, methods, seeds):
            found.append(SweptRun(graph, law, sigma, method, seed))
    return tuple(found)


def _cost_parts_in_sweep_digest(cost: Cost) -> dict[str, Any]:
    return {one.name: getattr(cost, one.name) for one in fields(cost)}


def _check_portable_sweep_runs(runs: _SweepRuns) -> None:
    from pickle import PicklingError, dumps

    try:
        dumps(runs)
    except (SecretError, PicklingError, AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"these costs cannot go to other processes ({error}): they have functions "
            "of their own. Leave out on, or start several sweeps, each with seeds "
            "and a file of its own",
            code="not-portable",
        ) from None


def _sweep_digest(runs: _SweepRuns, tolerate: Sequence[int], distance: float) -> str:
    """Return the name of a sweep: it changes with all that its lines depend on.

    Of the costs it has their sum and the exact answer, which every run releases.
    """
    from veilsum import __version__

    costs = runs.costs
    settings = {
        key: np.asarray(one).tolist() for key, one in vars(runs.settings).items()
    }
    agreed = {
        "version": __version__,
        "columns": list(COLUMNS),
        "graphs": {
            name: [one.edges.tolist(), one.weights.tolist(), one.directed]
            for name, one in runs.graphs.items()
        },
        "choices": [list(vars(one).values()) for one in runs.choices],
        "tolerate": list(tolerate),
        "distance": distance,
        "tolerance": runs.tolerance,
        "domain": plain_cost_value(runs.domain),
        "masks": {key: str(one) for key, one in runs.masks.items()},
        "settings": settings,
        "faults": repr(runs.faults),
        "basis": plain_cost_value(costs[0].basis),
        "sum": cost_coefficient_rows(costs).sum(axis=0).tolist(),
        "answer": central_minimiser(costs, runs.domain).tolist(),
    }
    text = json.dumps(agreed, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=6).hexdigest()


# The file


def _sweep_csv_lines(rows: Any) -> str:
    made = StringIO()
    csv.writer(made, lineterminator="\n").writerows(rows)
    return made.getvalue()


def _sweep_csv_cells(row: Mapping[str, Any]) -> list[str]:
    return ["" if row[key] is None else str(row[key]) for key in COLUMNS]


@dataclass(eq=False)
class _SweepFile:
    """A table to which runs are added one by one.

    Attributes:
        path: where it is.
        rows: those that were there.
        size: how many bytes it has.
    """

    path: Path
    rows: tuple[Row, ...]
    size: int

    @classmethod
    def begun(cls, path: Path, made: _SweepLines) -> _SweepFile:
        """Return the file, new or taken up again after its last whole run."""
        prepare_output_folder(path.parent)
        head = _sweep_csv_lines([list(COLUMNS)]).encode()
        if not path.exists():
            write_files(path.parent, {path.name: head})
            return cls(path, (), len(head))
        # A line that has no end was being written when somebody pulled the plug.
        whole = read_file_contents(path, MOST_BYTES, InvalidInputError).rpartition(
            b"\n"
        )[0]
        whole += b"\n"
        none = InvalidInputError(
            f"{path} is not the table of a sweep: name another file, or move it",
            code="not-a-sweep-table",
        )
        if not whole.startswith(head):
            raise none
        # Counted before there is a text for each.
        if whole.count(b"\n") > 1 + len(made.runs.choices) * len(made.tolerate):
            raise InvalidInputError(
                f"{path} is the table of another sweep: it has more lines than this "
                "one. Name another file",
                code="other-sweep",
            )
        lines = whole.decode(errors="replace").split("\n")[:-1]
        try:
            table = list(csv.reader(lines, strict=False))
        except csv.Error:  # a cell that is longer than any
            raise none from None
        per_run = len(made.tolerate)
        kept = 1 + per_run * ((len(table) - 1) // per_run)
        # What will be cut off must be of this sweep as well.
        rows = tuple(cls._rows(path, table[1:], made))[: kept - 1]
        size = len("".join(f"{line}\n" for line in lines[:kept]).encode())
        with path.open("r+b") as stream:
            stream.truncate(size)
        return cls(path, rows, size)

    @staticmethod
    def _rows(
        path: Path, table: Sequence[Sequence[str]], made: _SweepLines
    ) -> Iterator[Row]:
        expected = product(range(len(made.runs.choices)), made.tolerate)
        for cells, (key, tolerate) in zip(table, expected, strict=False):
            try:
                row = {
                    name: None if cell == "" else kind(cell)
                    for (name, kind), cell in zip(COLUMNS.items(), cells, strict=True)
                }
            except ValueError:
                row = {}
            wanted = {**made.chosen(key, tolerate), "sweep": made.sweep}
            if {name: row.get(name) for name in wanted} != wanted:
                raise InvalidInputError(
                    f"{path} is the table of another sweep: with other costs, choices "
                    "or settings, or by another version of veilsum. Name another file",
                    code="other-sweep",
                )
            yield row

    def add(self, rows: Sequence[Row]) -> None:
        """Add the lines of one run, in one piece."""
        text = _sweep_csv_lines(_sweep_csv_cells(one) for one in rows).encode()
        try:
            with self.path.open("r+b") as stream:
                if stream.seek(0, 2) != self.size:
                    raise OutputError(
                        f"somebody else writes to {self.path}: give every sweep a file "
                        "of its own",
                        code="file-in-use",
                    )
                stream.write(text)
        except OSError as error:
            raise OutputError(
                f"cannot write {self.path}: {error.strerror}", code="cannot-write"
            ) from None
        self.size += len(text)
