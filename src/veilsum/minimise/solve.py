"""`solve`: all parties' costs in one process, minimised as the parties would do it.

A simulation can do more than parties can: compare with the pooled answer, say what the
grid did to it, show what a coalition would have seen.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from types import ModuleType
from typing import Any, Unpack, cast

import numpy as np

from veilsum.consortium.scenario import Scenario
from veilsum.drivers.driver import Driver, DriverView
from veilsum.errors import BadGradientError, InvalidInputError
from veilsum.graphs.spreading import Spread, spreading_cost
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.locale import limit_phrase
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.masks.laws import Masks
from veilsum.minimise.arrays import MethodArrays
from veilsum.minimise.costs.cost import Cost, common_unit, cost_coefficient_rows
from veilsum.minimise.costs.domains import Domain
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.minimise import minimise
from veilsum.minimise.costs.remainders import stack_remainders
from veilsum.minimise.curvature import curvature_bounds
from veilsum.minimise.methods.link_faults import LinkFaults
from veilsum.minimise.methods.one_shot import gradient_of_sum
from veilsum.minimise.methods.schedule import FLOAT_BYTES
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.question import (
    Minimise,
    Minimised,
    check_costs_of_minimisation,
    check_kind_of_cost_argument,
    encode_cost_coefficients,
    masks_of_minimisation,
)
from veilsum.numbers.arrays import Array, FloatArray, PartyPoints, Vector
from veilsum.numbers.limbs import total_of_wide_integers
from veilsum.numbers.units import few_decimals_unit
from veilsum.privacy.guarantee import Guarantee
from veilsum.privacy.transcript import (
    Transcript,
    TranscriptDrawnEpoch,
    View,
    simulate_transcript,
)
from veilsum.progress import Progress
from veilsum.showing import (
    Renderable,
    Rendering,
    ShownTable,
    counted_words,
    numbers_in_line,
)
from veilsum.sums.running import run_sum_job
from veilsum.sums.terms import (
    SumOptions,
    SumTerms,
    check_sum_options,
    driver_for_terms,
    parties_data_by_name,
    topology_for_terms,
)

BOUNDS_READ = limit_phrase("bounds_read")
# Parties whose estimates are this part of the domain's width apart agree on nothing.
APART = 0.1
# Of the iterations of a trace, how many are shown.
MOST_TIMES = 10
# Of so many parties each has a curve of its own.
FEW_PARTIES = 6


@dataclass(frozen=True, eq=False, repr=False)
class SolveTrace(Renderable):
    """Estimates and errors at some iterations, as a figure needs them.

    Attributes:
        iterations: k, spaced evenly on a logarithmic scale.
        estimates: x_i(k), (times, n, m).
        errors: ||x_i(k) - reference||, (times, n).
        sent: bytes of bare numbers that each party has sent by then, including shares,
            (times, n); None for one-shot, which has one time only.
    """

    iterations: Array[np.int64]
    estimates: FloatArray
    errors: FloatArray
    sent: FloatArray | None
    parties: tuple[str, ...]

    def showing(self) -> Rendering:
        """Return the errors at a few of the iterations; of no single party."""
        many = len(self.iterations)
        places = np.linspace(0, many - 1, min(many, MOST_TIMES)).round().astype(int)
        rows = [
            [int(self.iterations[k]), worst, middle]
            for k, worst, middle in zip(
                places,
                self.errors.max(axis=1)[places].tolist(),
                np.median(self.errors, axis=1)[places].tolist(),
                strict=True,
            )
        ]
        return Rendering(
            f"Worst party's error {self.errors[-1].max():.3g} after "
            f"{counted_words(int(self.iterations[-1]), 'iteration')}",
            [ShownTable(["iteration", "worst party's error", "median"], rows)],
        )

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return every party's error by iteration and by bytes."""
        if self.sent is None:
            raise InvalidInputError(
                "one exchange and a sum leave no curve to draw: draw the run itself, "
                "which shows what was found beside the pooled answer",
                code="no-curve",
            )
        return _error_figure(
            figures, self, figures.chosen_title(title, "How near everybody is")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveQuantisation:
    """Effect of the grid on the answer, apart from that of the method.

    Attributes:
        bits: q, the grid being 2^-q, or 2^-q of a unit.
        step: g, its step.
        bias_bound: bound on the minimiser's shift by rounding the coefficients, from
            the released sum alone; None where the sum of the costs is flat.
        solver_error: the worst party's distance from the rounded problem's minimiser.
    """

    bits: int
    step: float
    bias_bound: float | None
    bias: float
    solver_error: float

    @property
    def sentence(self) -> str:
        bound = "" if self.bias_bound is None else f", at most {self.bias_bound:.2g}"
        return (
            f"grid 2^{-self.bits}: rounding moved the answer by {self.bias:.2g}{bound};"
            f" the method's own error is {self.solver_error:.2g}"
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RunRecord(Renderable):
    """Results of a run without any party's shares or costs; may be pickled.

    Attributes:
        minimiser: the parties' final estimates, averaged.
        estimates: each party's own final estimate, by row.
        reference: the pooled minimiser, computed centrally by scipy.
        sum_of_masks: the largest coordinate of |sum_i u_i|; rounding error of float64,
            exactly zero for integer masks.
        rounds: message rounds, phase I included.
        bytes: traffic over all links together, as bare numbers.
        quantisation: for integer masks, the effect of the grid.
        spread: for one-shot, route of the masked vectors.
        method: name of the method that ran.
        stopped: reason for the end: "tolerance", "iterations" or "bytes"; None for
            one-shot.
        engine: engine of the iterations; None if parties ran one by one.
        tolerance_unused: reason why a requested tolerance could not end it; None if it
            could, or there was none.
        drowned: message and remedy where masks kept an iterative method from any
            answer; None otherwise, or if parties ran one by one.
    """

    topology: Topology
    minimiser: Vector
    estimates: PartyPoints
    reference: Vector
    trace: SolveTrace
    sum_of_masks: float
    iterations: int
    rounds: int
    bytes: int
    guarantee: Guarantee
    quantisation: SolveQuantisation | None
    spread: str | None
    method: str
    stopped: str | None
    engine: str | None
    tolerance_unused: str | None
    drowned: str | None

    @property
    def max_error(self) -> float:
        """The worst party's distance from the reference."""
        return _farthest_solve_estimate(self.estimates, self.reference)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        grid = self.quantisation
        return {
            "minimiser": self.minimiser.tolist(),
            "reference": self.reference.tolist(),
            "max_error": self.max_error,
            "sum_of_masks": self.sum_of_masks,
            "iterations": self.iterations,
            "rounds": self.rounds,
            "bytes": self.bytes,
            "quantisation": None if grid is None else asdict(grid),
            "spread": self.spread,
            "method": self.method,
            "stopped": self.stopped,
            "engine": self.engine,
            "tolerance_unused": self.tolerance_unused,
            "guarantee": self.guarantee.to_dict(),
        }

    def showing(self) -> Rendering:
        """Return the minimiser beside the pooled one, and what it rests on."""
        pairs = zip(self.minimiser.tolist(), self.reference.tolist(), strict=True)
        rows = [[str(k), f"{a:.8g}", f"{b:.8g}"] for k, (a, b) in enumerate(pairs, 1)]
        heads = ("coordinate", "parties found", "pooled answer")
        promise = self.guarantee.showing()
        return Rendering(
            f"Minimiser over {self.topology.n_parties} parties: "
            f"{numbers_in_line(self.minimiser.tolist())}",
            [
                ShownTable(heads, rows, align="<>>"),
                tuple(self._told()),
                promise.title,
                *promise.blocks,
            ],
            promise.folded,
        )

    def _told(self) -> Iterator[str]:
        taken = f"after {self.iterations:,} iterations of {self.method}"
        if self.spread is not None:
            taken = f"from one sum by {self.spread}"
        elif self.stopped == "tolerance":
            taken += ", where everybody was near enough"
        yield (
            f"worst party's error {self.max_error:.3g} {taken}; |sum of masks| "
            f"{self.sum_of_masks:.2g}; {self.rounds:,} rounds, {self.bytes:,} bytes"
        )
        if self.tolerance_unused is not None:
            yield f"the tolerance was not used: {self.tolerance_unused}"
        if self.drowned is not None:
            yield self.drowned
        if (grid := self.quantisation) is not None:
            yield grid.sentence

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return errors along the way; of one exchange, the answer."""
        promise, found = self.guarantee, f"the worst party is {self.max_error:.2g} away"
        who = counted_words(self.topology.n_parties, "party")
        colluders = f"{len(promise.corrupted) or 'nobody'} named as colluding"
        caption = (
            f"{who} on {counted_words(self.topology.n_edges, 'link')}, {colluders}; "
            f"{promise.law} masks: {promise.status.replace('_', ' ')}"
        )
        if promise.epsilon is not None:
            caption += f", epsilon {promise.epsilon:.3g}"
        if not self.iterations:
            usual = f"One exchange and one sum: {found}"
            return _answers_figure(
                figures, self, figures.chosen_title(title, usual), caption
            )
        usual = f"{self.method}, {counted_words(self.iterations, 'iteration')}: {found}"
        return _error_figure(
            figures, self.trace, figures.chosen_title(title, usual), caption
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Run(Minimised):
    """The result of one simulated run; for what it says see `RunRecord`.

    It holds what only a simulation has: every share, and private coefficients. `record`
    leaves them behind, for other processes.
    """

    reference: Vector
    quantisation: SolveQuantisation | None
    drowned: str | None
    private: Array[Any]

    def record(self) -> RunRecord:
        """Return all that the run found, as plain values without a secret."""
        held = {one.name: getattr(self, one.name) for one in fields(RunRecord)}
        return RunRecord(**held)

    def view(self, corrupted: Iterable[Hashable]) -> View:
        """Return what the proof grants a coalition of this run (Definition 1)."""
        first = TranscriptDrawnEpoch(0, self.private, self.seen.shares)
        view = simulate_transcript(self.terms.law, [first], corrupted=corrupted).view()
        near = {*view.corrupted, *(name for edge in view.known_edges for name in edge)}
        heard = sorted(self.topology.indices(near))
        return replace(
            view,
            heard=self.topology.names(heard),
            estimates=self.seen.estimates[:, heard],
        )

    def transcript(self, corrupted: Iterable[Hashable]) -> Transcript:
        """Return all numbers that a coalition stored, sent and received.

        A view has what the proof grants a coalition; this has what it really held.
        """
        return self.seen.transcript(corrupted)

    @property
    def seen(self) -> DriverView:
        """The driver's view of all parties."""
        return cast("DriverView", self.released.seen)

    @property
    def topology(self) -> Topology:
        """Graph of the parties that exchanged shares and estimates."""
        return self.terms.topology

    @property
    def minimiser(self) -> Vector:
        """Final estimates, averaged over the parties."""
        return self.estimates.mean(axis=0)

    @property
    def estimates(self) -> PartyPoints:
        """Each party's own final estimate, by row."""
        return self.seen.estimates[-1]

    @cached_property
    def trace(self) -> SolveTrace:
        """Estimates and errors along the way."""
        seen, there = self.seen, self.reference
        # Time by time: all of them together would be another 16 MB.
        errors = [np.linalg.norm(x - there, axis=1) for x in seen.estimates]
        sent = self._sent(seen.times)
        return SolveTrace(
            seen.times,
            seen.estimates,
            np.stack(errors),
            sent,
            tuple(self.topology.parties),
        )

    def _sent(self, times: Array[np.int64]) -> FloatArray | None:
        """Return what each party has sent by some iterations; None for one-shot."""
        if (plan := self.costs.schedule) is None:
            return None
        graph, law = self.topology, self.terms.law
        before = (1 + plan.recentring) * self.costs.size * law.number_bytes
        each = plan.method.rounds_per_iteration * self.costs.round_size * FLOAT_BYTES
        ends = graph.edges[:, 0] if graph.directed else graph.edges.ravel()
        links = np.bincount(ends, minlength=graph.n_parties)
        return np.outer(before + each * times, links).astype(np.float64)

    @property
    def max_error(self) -> float:
        """The worst party's distance from the reference."""
        return _farthest_solve_estimate(self.estimates, self.reference)

    @property
    def sum_of_masks(self) -> float:
        """The largest coordinate of |sum_i u_i|."""
        return cast("float", self.released.sum_of_masks)

    @property
    def rounds(self) -> int:
        """Message rounds: one for shares, then the method's or those of spreading."""
        if self.spread is None:
            return 1 + self.released.rounds
        return 1 + spreading_cost(self.topology, self.spread)[0]

    @property
    def bytes(self) -> int:
        """Traffic over all links together in bytes, as bare numbers."""
        return self.released.bytes

    @property
    def spread(self) -> Spread | None:
        """For one-shot, how masked vectors travelled."""
        if self.costs.schedule is not None:
            return None
        return self.terms.spread_of(self.costs.size)

    @property
    def effective(self) -> EffectiveCost | None:
        """The masked costs of an iterative method."""
        return self.seen.effective

    @property
    def stopped(self) -> str | None:
        """Why it ended."""
        return self.seen.stopped

    @property
    def engine(self) -> str | None:
        """Name of the engine that carried iterations out."""
        return self.seen.engine

    @property
    def tolerance_unused(self) -> str | None:
        """Why a tolerance that was asked for could not end it."""
        return self.costs.tolerance_unused

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        return self.record().to_dict()

    def showing(self, **options: Any) -> Rendering:
        """Return what there is to see of its record."""
        del options
        return self.record().showing()

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the same figure as of its record."""
        return self.record().draw_with(figures, title=title)


def _error_figure(
    figures: ModuleType, trace: SolveTrace, title: str, caption: str = ""
) -> Any:
    """Return parties' distances from the pooled minimiser, by iteration and by byte.

    Of more than six parties the worst, the middle and the best one are drawn: they may
    be others at every iteration.
    """
    assert trace.sent is not None, "one exchange leaves no curve"
    figure, axes = figures.figure_panels(
        2.6, 2.6, title=title, caption=caption, left=0.95
    )
    names = trace.parties
    if len(names) <= FEW_PARTIES:
        drawn = dict(zip(map(figures.figure_name, names), trace.errors.T, strict=True))
        sent = dict(zip(drawn, trace.sent.T, strict=True))
    else:
        order = np.sort(trace.errors, axis=1)
        places = {"worst": -1, "middle": len(names) // 2, "best": 0}
        drawn = {name: order[:, place] for name, place in places.items()}
        sent = dict.fromkeys(drawn, trace.sent.mean(axis=1))
    ways = (
        ("iteration", dict.fromkeys(drawn, trace.iterations)),
        ("bytes that a party has sent, as bare numbers", sent),
    )
    for axis, (xlabel, along) in zip(axes, ways, strict=True):
        for place, (name, errors) in enumerate(drawn.items()):
            look = {**figures.figure_series_look(place), "label": name}
            look["markevery"] = place * 3, max(len(errors) // 6, 1)
            axis.plot(along[name], errors, **look)
        logarithmic_error_axes(axis, [trace])
        axis.set(xlabel=xlabel, ylabel="distance from\nthe pooled minimiser")
    axes[1].set_xscale("log")
    legend = {"frameon": False, "fontsize": figures.SMALL, "title": "party"}
    axes[0].legend(**legend, title_fontsize=figures.SMALL)
    return figure


def _answers_figure(
    figures: ModuleType, run: RunRecord, title: str, caption: str = ""
) -> Any:
    """Return what parties found in one exchange beside the pooled minimiser."""
    figure, (axis,) = figures.figure_panels(2.6, title=title, caption=caption)
    places = np.arange(1, len(run.reference) + 1)
    look: dict[str, Any] = {
        "markersize": 9,
        "fillstyle": "none",
        "color": figures.ORANGE,
    }
    axis.plot(
        places, run.minimiser, "o", color=figures.BLUE, markersize=4, label="found"
    )
    axis.plot(places, run.reference, "s", **look, label="pooled minimiser")
    axis.axhline(0.0, color=figures.GREY, linewidth=0.8)
    axis.set(xlabel="coordinate", ylabel="value", xlim=(0.4, places[-1] + 0.6))
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(visible=True, alpha=0.3, axis="y")
    axis.legend(frameon=False)
    axis.margins(y=0.25)
    return figure


def logarithmic_error_axes(axis: Any, traces: Sequence[SolveTrace]) -> None:
    """Draw both axes on logarithmic scales, alike for traces to be compared."""
    worst = np.concatenate([trace.errors.max(axis=1) for trace in traces])
    axis.set_xscale("symlog", linthresh=1.0)
    axis.set_yscale("log")
    axis.minorticks_off()
    if (worst > 0).any():
        axis.set_ylim(max(worst[worst > 0].min(), 1e-12) / 5, worst.max() * 3)
    axis.grid(visible=True, alpha=0.3)


def solve(
    costs: Mapping[str, Cost] | Sequence[Cost],
    *,
    domain: Domain,
    settings: Settings | None = None,
    grid: int | None = None,
    unit: object = None,
    corrupted: Iterable[Hashable] | None = None,
    faults: LinkFaults | None = None,
    **options: Unpack[SumOptions],
) -> Run:
    """Simulate one run of Function Sharing.

    Args:
        costs: one private cost per party, by name or in the order of the parties.
        domain: X, public; compact for DGD.
        settings: the method, iterations, steps, mixing weights, start; by default DGD,
            and one sum under `uniform` masks.
        grid: q for integer masks on multiples of 2^-q, or of 2^-q units; by default the
            finest that fits.
        unit: what coefficients are rounded to whole numbers of under integer masks; by
            default the costs' own. Without either, and without a grid, it is read off
            all coefficients if these are decimals, as only a simulation can.
        corrupted: the coalition of the guarantee, instead of any `tolerate` parties. A
            graph on which that coalition learns everything is not refused.
        faults: what goes wrong between iterating parties.
        options: as for every question; see `SumOptions`. `law` may also be `gaussian`,
            the default where there is a `sigma`, or `none`, the plain method without
            privacy; `sigma` may be one number for each coefficient; `largest` is the
            range of coefficients; `spread` stands before that of the settings.

    >>> from veilsum.minimise.costs.domains import Box
    >>> costs = [Cost.squared_distance([p]) for p in (1.0, 2.0, 6.0, 3.0)]
    >>> run = solve(costs, domain=Box(-9, 9, dim=1), seed=0)
    >>> run.minimiser.round(9).tolist(), run.sum_of_masks, run.guarantee.status
    ([3.0], 0.0, 'private')
    """
    check_sum_options(options)
    check_kind_of_cost_argument(
        "settings", settings, Settings | None, 'Settings(method="nids")'
    )
    check_kind_of_cost_argument(
        "faults", faults, LinkFaults | None, "LinkFaults(loss=0.3)"
    )
    members, topology = _costs_by_party(costs, options.get("topology"))
    basis = check_costs_of_minimisation(members, topology, domain)
    sigma = options.get("sigma")
    agreed = Masks(
        options.get("law", "uniform" if sigma is None else "gaussian"),
        sigma,
        grid,
        options.get("largest"),
        unit or common_unit(members),
    )
    limits: tuple[str, ...] = ()
    plain = agreed.grid is None and agreed.unit is None
    plain = plain and all(cost.summed is None for cost in members.values())
    if plain and "grid" in agreed.kind.keys:
        agreed = agreed.altered(
            unit=few_decimals_unit(cost_coefficient_rows([*members.values()]))
        )
        limits = (
            ()
            if agreed.unit is None
            else (limit_phrase("unit_read", unit=str(agreed.unit)),)
        )
    masks = masks_of_minimisation(agreed, basis).on(topology)
    # Terms of rows are rounded one by one; other coefficients when they are encoded.
    step = masks.masks.rounding
    held = {
        name: cost.counted(agreed.unit if cost.summed is None else step)
        for name, cost in members.items()
    }
    chosen = settings or Settings(method="auto" if masks.sums_only else Settings.method)
    chosen = replace(chosen, spread=options.get("spread", chosen.spread))
    if chosen.bounds_from_costs:
        bounds = curvature_bounds(list(members.values()), domain)
        chosen = replace(chosen, **asdict(bounds))
        limits = (BOUNDS_READ, *limits)
    recipe = Minimise.of(
        basis,
        {name: cost.remainder for name, cost in members.items()},
        topology=topology,
        law=masks,
        domain=domain,
        settings=chosen,
        faults=faults,
        limits=limits,
    )
    driver = _driver_of_solve(
        options.get("driver", "vectorised"), options.get("seed"), faults
    )
    terms = replace(
        SumTerms.under(options, topology=topology, law=masks, driver=driver),
        spread=recipe.spread,
    )
    if corrupted is None:
        terms.check(recipe.round_size)
    elif "tolerate" in options:
        raise InvalidInputError(
            "corrupted names one coalition and tolerate is about all of a size: give "
            "one of them",
            code="conflicting-coalition-options",
        )
    else:
        colluders = topology.names(topology.indices(corrupted))
        policy = replace(terms.policy, tolerate=len(colluders))
        terms = replace(terms, policy=policy, corrupted=colluders)
    # What cannot be promised, or masked, is refused before anything is drawn.
    terms.promise(terms.parties)
    private = encode_cost_coefficients(held, masks)
    with _name_party_of_cost_row(tuple(topology.parties)):
        released = run_sum_job(
            recipe,
            {name: recipe.contribution(name, one) for name, one in held.items()},
            terms,
            agreed=recipe.agreed,
            watched=True,
        )
        reference = central_minimiser(list(members.values()), domain)
        run = Run(
            terms=terms,
            recipe=recipe,
            released=released,
            reference=reference,
            quantisation=None,
            drowned=None,
            private=private,
        )
        said = None
        if run.effective is not None:
            owned = list(members.values())
            said = _masks_drowned_solve(run.estimates, run.effective, owned, domain)
        grid_error = _quantisation_of_solve(run, held)
        return replace(run, quantisation=grid_error, drowned=said)


def _masks_drowned_solve(
    estimates: PartyPoints,
    effective: EffectiveCost,
    costs: Sequence[Cost],
    domain: Domain,
) -> str | None:
    """Return in words that masks kept parties apart to the end; None if they did not.

    A domain that is not bounded is never filled.
    """
    if not domain.is_bounded:
        return None
    centre = estimates.mean(axis=0)
    apart = np.linalg.norm(estimates - centre, axis=1)
    furthest = estimates[int(np.argmax(apart))] - centre
    # How wide the domain is that way: from where it ends to where it ends behind.
    ends = [domain.project(centre + sign * furthest / APART**2) for sign in (1.0, -1.0)]
    width = float(np.linalg.norm(ends[0] - ends[1]))
    if not apart.max() > APART * width:
        return None
    own = np.array([one.gradient(x) for one, x in zip(costs, estimates, strict=True)])
    masks = effective.gradient(estimates) - own
    pulls = [float(np.linalg.norm(each, axis=1).max()) for each in (masks, own)]
    if not pulls[0] > pulls[1]:
        return None
    return (
        f"masks drown the answer: estimates end up to {apart.max():.2g} from their "
        f"average, in a domain {width:.2g} wide, and masks pull at them with "
        f"{pulls[0]:.2g} where costs do with {pulls[1]:.2g}. Draw masks together first "
        "(law lattice does, unless recentre = false), or take a smaller sigma, more "
        "iterations or another method"
    )


def run_scenario(
    scenario: Scenario,
    *,
    driver: str | Driver = "vectorised",
    progress: Progress = None,
) -> Run:
    """Return the result of one simulated run of the scenario; see `solve`.

    Args:
        scenario: what `read_scenario` returns.
        driver: `vectorised`, or `loopback`: each party a machine of its own.
        progress: None for a bar, False for none, or a function of done and total.
    """
    return solve(
        scenario.costs,
        topology=scenario.topology,
        domain=scenario.domain,
        **asdict(scenario.masks),
        corrupted=scenario.corrupted,
        settings=scenario.settings,
        faults=scenario.faults,
        driver=driver,
        seed=scenario.seed,
        progress=progress,
    )


def central_minimiser(costs: Sequence[Cost], domain: Domain) -> Vector:
    """Return argmin over X of the sum of all costs, which one owner would compute."""
    total = cost_coefficient_rows(costs).sum(axis=0)
    remainder = stack_remainders([cost.remainder for cost in costs])
    return minimise(
        gradient_of_sum(costs[0].basis, total, remainder, len(costs)), domain
    )


def _costs_by_party(
    costs: Mapping[str, Cost] | Sequence[Cost], given: GraphLike | str | None
) -> tuple[dict[str, Cost], Topology]:
    if isinstance(costs, Mapping):
        named = parties_data_by_name(costs)
    else:
        check_kind_of_cost_argument(
            "costs", costs, Iterable, "one Cost per party, in a list"
        )
        members = list(costs)
        names: Sequence[str] = [str(k) for k in range(len(members))]
        if given is not None and not isinstance(given, str):
            given = Topology.of(given)
            names = given.parties
        if len(members) != len(names):
            raise InvalidInputError(
                f"expected one cost for each of {len(names)} parties, "
                f"found {len(members)}",
                code="costs-not-per-party",
            )
        named = dict(zip(names, members, strict=True))
    topology = topology_for_terms(given, tuple(named))
    return {name: named[name] for name in topology.parties}, topology


def _driver_of_solve(
    driver: str | Driver, seed: int | None, faults: LinkFaults | None
) -> Driver:
    if driver == "vectorised":
        return MethodArrays(seed=seed, faults=faults)
    if faults is not None:
        raise InvalidInputError(
            "faults of links are simulated with all parties in one array: use the "
            "driver vectorised; machines have faults of their own",
            code="driver-without-faults",
        )
    return driver_for_terms(driver, seed=seed)


def _farthest_solve_estimate(estimates: PartyPoints, point: Vector) -> float:
    return float(np.linalg.norm(estimates - point, axis=1).max())


def _quantisation_of_solve(
    run: Run, costs: Mapping[str, Cost]
) -> SolveQuantisation | None:
    law, recipe = run.terms.law, run.costs
    bits = law.masks.grid
    if bits is None:
        return None
    grid = FixedPointGrid(bits, law.masks.unit)
    rounded = [
        replace(cost, coefficients=law.decode(law.encode(cost.given(law))))
        for cost in costs.values()
    ]
    target = central_minimiser(rounded, recipe.domain)
    bound = None
    if recipe.stand_in:
        pooled = law.decode(total_of_wide_integers(run.private))
        bound = recipe.one_shot.bias_bound(pooled, target, float(grid.rounding))
    return SolveQuantisation(
        bits=bits,
        step=grid.step,
        bias_bound=bound,
        bias=float(np.linalg.norm(target - run.reference)),
        solver_error=_farthest_solve_estimate(run.estimates, target),
    )


@contextmanager
def _name_party_of_cost_row(parties: tuple[str, ...]) -> Iterator[None]:
    """Say a party's name where only its row was known: before and after iterations."""
    try:
        yield
    except BadGradientError as error:
        if not isinstance(error.party, int):
            raise
        named = BadGradientError(error.reason, parties[error.party], code=error.code)
        raise named from error.__cause__
