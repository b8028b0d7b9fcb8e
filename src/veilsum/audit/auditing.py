"""The audit: attacks, controls, and what it could have missed.

For every coalition that is asked about, attacks are played on executions that all of
them share, and counted beside what is promised. An audit also plays what it must not
find (two worlds that are the same, and guesses turned round) and what it must (leaks
that are planted on purpose). If one of these does not come out as it must, the audit
says that it is broken, and nothing else it says counts.

All chance comes from one seed by the keys of pieces of work, so that an audit can be
repeated to the last bit, on as many processors as there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations, dropwhile
from math import ceil, comb
from types import ModuleType
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from veilsum.audit import (
    aimed,
    cut,
    differencing,
    float_bits,
    guesses,
    late_unmasking,
    low_bits,
    neighbour,
    partial_round,
    reassignment,
    refusals,
    repeated,
    reused,
    share_law,
    sums_say,
    timing,
    unlisted,
    weak_randomness,
)
from veilsum.audit.attack import (
    COLUMNS,
    FALSE_ALARMS,
    REAL_PARTIES,
    AttackPlayer,
    Outcome,
    Scene,
    Worlds,
    clopper_pearson,
    play_on_batch,
)
from veilsum.audit.late_unmasking import AuditedLoopback
from veilsum.audit.likelihood import (
    LikelihoodRatio,
    aim,
    covariance_of_attacked_noise,
    distance_for_attack_success,
    guesser_from_observations,
    is_attack_target_hidden,
)
from veilsum.audit.made_up import shares_never_repeat
from veilsum.audit.noninterference import (
    interference_same_frames,
    is_masked_in_audited_world,
    sends_two_vectors,
    shares_sent_in,
)
from veilsum.audit.planted import PLANTED
from veilsum.audit.question import BRIEF, AuditRehearsal, RehearsedAnswer, SkippedAttack
from veilsum.audit.unfinished import AttackSoFar, Gain, UnfinishedAudit
from veilsum.consortium.consortium import AgreedMinimisation
from veilsum.drivers.faults import Crash, Faults
from veilsum.errors import InvalidInputError, MissingExtraError, NumericalError
from veilsum.graphs.connectivity import minimum_vertex_cut, vertex_connectivity
from veilsum.graphs.topology import Topology
from veilsum.locale import sentence
from veilsum.masks.laws import MaskLaw
from veilsum.minimise.arrays import MethodArrays
from veilsum.numbers.arrays import Array, FloatArray, listed_names
from veilsum.numbers.limbs import is_wide_integer_type
from veilsum.numbers.shapes import Float, Int
from veilsum.party.audit_record import AuditRecord
from veilsum.privacy.conversions import (
    divergence_for_success,
    gaussian_mu_of_divergence,
)
from veilsum.privacy.transcript import Transcript
from veilsum.privacy.worst_case import MOST_WORK, worst_mu2
from veilsum.progress import Advance, Progress, silent_progress, watch_progress
from veilsum.scale.pieces import map_pieces, seed_of_piece
from veilsum.showing import MOST_ROWS, Block, Renderable, Rendering, ShownTable

Depth = Literal["quick", "standard", "deep"]
# A finding that is this much rarer than what chance may find needs no second look.
PLAIN = 1e-4

# Executions where nobody says how many; of numbers that are Python's own, far fewer.
EXECUTIONS: Mapping[Depth, int] = {
    "quick": 10_000,
    "standard": 100_000,
    "deep": 1_000_000,
}
PYTHON_NUMBERS = 100
# Of looking for the worst coalition, where a quick answer is asked for.
QUICK_WORK = 2e4

# Numbers of all shares in a batch: 16 MB, so that memory does not grow.
BATCH_NUMBERS = 2_000_000
# At which success two inputs are placed if nobody says how far apart they are: where an
# excess is found with the fewest executions.
SUCCESS = 0.6
# Executions from which a guesser learns how masks really vary, those of a control, and
# those of an attack that needs to succeed only once.
LEARNED, CONTROLLED, FEW = 2_000, 4_000, 1_000
# A control that is sound is called broken at most so often.
BROKEN_BY_CHANCE = 1e-6
MOST_COALITIONS = 500
MOST_BARS = 18  # of attacks in a figure
LIKELIHOOD = "likelihood ratio"
# Attacks that guess, and are believed after many executions only.
GUESSERS = (LIKELIHOOD, "repeated runs")
# Standardised scores are counted in bins; what is beyond goes to the last one.
EDGES = np.linspace(-8.0, 8.0, 161)
# Thresholds at which errors are compared: every half deviation, up to three.
POINTS = [place for place in range(161) if place % 5 == 0 and 50 <= place <= 110]

Aim = Callable[[Scene, tuple[str, ...]], AttackPlayer | None]
Coalition = tuple[str, ...]
Counts = Int[Array[Any], "players 2"]
ScoreCounts = Int[Array[Any], "2 bins"]

# Attacks that are right for certain, or hardly ever: a few executions tell.
AIMED: Mapping[str, Aim] = {
    "cut": cut.aim,
    "hidden cut": cut.aim_cut_attack_deeper,
    "one honest party": cut.aim_at_one,
    "repeated runs": repeated.aim,
    "reused masks": reused.aim,
    "float bits": float_bits.aim,
    "neighbour": neighbour.aim,
    "private start": neighbour.aim_at_starts,
    "private step": neighbour.aim_at_steps,
    "weak randomness": weak_randomness.aim,
}
# Attacks on masks that share no executions with others, each with its most trials: no
# more than one batch, but not fewer than tell something.
PLAYED: Mapping[str, tuple[Callable[..., Any], int]] = {
    "masks of another epoch": (reused.attack_across_epochs, 1_000),
    "few seeds": (weak_randomness.attack_small_roots, 16),
    "guesses": (guesses.play, 2_000),
    share_law.ATTACK: (share_law.play, 2_000),
    share_law.SYSTEM: (share_law.attack_system_shares, 2_000),
}
FEWEST_TRIALS = 100
# Attacks on what sums say, and on what is said before them.
ON_SUMS = (low_bits, reassignment, partial_round, aimed, differencing, refusals)


# Executions


@dataclass(frozen=True, eq=False)
class AuditTally:
    """Tally of some executions: trials and successes by player, scores by world."""

    counts: Counts
    scores: Mapping[int, ScoreCounts]

    def __add__(self, other: AuditTally) -> AuditTally:
        both = {k: self.scores[k] + other.scores[k] for k in self.scores}
        return AuditTally(self.counts + other.counts, both)


@dataclass(frozen=True, eq=False)
class AuditPlaying:
    """Players who share their executions: called with a batch's key and seed."""

    scene: Scene
    players: tuple[AttackPlayer, ...]
    executions: int

    def __call__(self, key: str, seed: int) -> AuditTally:
        batch = self.scene.batch(seed, self.executions)
        worlds = coins_for_worlds(
            seed_of_piece(seed, f"{key}, which world"), self.executions
        )
        # Executions are all alike: those of one world may as well come first.
        first = int(np.count_nonzero(worlds == 0))
        counts, scores = [], {}
        whose, noise = None, np.empty(0)
        for k, player in enumerate(self.players):
            if not isinstance(player, LikelihoodRatio):
                counts.append(play_on_batch(batch, player, worlds))
                continue
            if player.coalition != whose:
                # Guessers of one coalition follow each other, and share what it sees.
                whose, noise = player.coalition, batch.noise(player.coalition)
            zero, one = player.inputs
            below = player.scores(noise[:, :first])
            above = player.scores(noise[:, first:] + (one - zero))
            right = np.count_nonzero(below <= 0) + np.count_nonzero(above > 0)
            counts.append((len(worlds), int(right)))
            scores[k] = np.stack(
                [_binned_attack_scores(below), _binned_attack_scores(above)]
            )
        return AuditTally(np.array(counts, dtype=np.int64).reshape(-1, 2), scores)


def coins_for_worlds(seed: int, count: int) -> Worlds:
    return np.random.default_rng(seed).integers(2, size=count)


def _binned_attack_scores(scores: FloatArray) -> Int[Array[Any], " bins"]:
    inside = np.clip(scores, EDGES[0], EDGES[-1])
    return np.asarray(np.histogram(inside, EDGES)[0], dtype=np.int64)


def executions_per_batch(scene: Scene) -> int:
    """Return how many executions are drawn at once; the same on every machine."""
    arcs = scene.topology.n_edges * scene.topology.shares_per_edge
    most = BATCH_NUMBERS
    if is_wide_integer_type(scene.law.dtype):
        most //= PYTHON_NUMBERS
    return max(10, most // max(1, arcs * scene.width))


def play_attacks(
    scene: Scene,
    players: Sequence[AttackPlayer],
    executions: int,
    *,
    seed: int,
    what: str,
    on: Executor | None = None,
    kept: UnfinishedAudit | None = None,
    progress: Advance | None = None,
) -> tuple[AuditTally, int]:
    """Let players play; return what it came to, and how many executions there were.

    Ctrl-C ends it, and what there is by then is kept.
    """
    size = min(executions_per_batch(scene), executions)
    keys = [f"{what}/{k}" for k in range(ceil(executions / size))]
    scored = [k for k, p in enumerate(players) if isinstance(p, LikelihoodRatio)]
    before = None
    if kept is not None:
        before = kept.counted_so_far(
            what,
            size=size,
            most=executions,
            players=len(players),
            scored=scored,
            bins=len(EDGES) - 1,
        )
    if before is None:
        done = 0
        nothing = np.zeros((len(players), 2), dtype=np.int64)
        score = np.zeros((2, len(EDGES) - 1), dtype=np.int64)
        tally = AuditTally(nothing, dict.fromkeys(scored, score))
    else:
        done, tally = before[0], AuditTally(*before[1:])
    try:
        work = AuditPlaying(scene, tuple(players), size)
        for found in map_pieces(work, keys[done // size :], seed=seed, on=on):
            tally, done = tally + found, done + size
            if kept is not None:
                kept.count(what, done, tally.counts, tally.scores)
                kept.write(now=False)
            if progress is not None:
                # The last batch is a whole one: there may be more than were asked for.
                progress(min(done, executions))
    except KeyboardInterrupt:
        if done == 0:
            raise
    except BrokenExecutor as error:
        whose = "" if what == "play" else f" of {what} attacks"
        reached = f"{min(done, executions):,} of {executions:,} executions{whose}"
        raise _lost_audit_error(error, kept, reached) from None
    finally:
        if kept is not None and done:
            kept.write()
    return tally, done


def _lost_audit_error(
    error: BrokenExecutor, kept: UnfinishedAudit | None, reached: str
) -> InvalidInputError:
    words = (
        f"{reached} are in {kept.path}: the same command goes on from there, on "
        "whomever you name"
        if kept is not None
        else "Nothing is kept: with --out, an audit goes on from there"
    )
    return InvalidInputError(
        f"those that shared an audit have ended before it: {error}. {words}",
        code="workers-lost",
    )


# What comes of it


@dataclass(frozen=True)
class AuditControl:
    """Something that must come out in one way, or the audit is broken.

    Attributes:
        holds: whether it came out so.
    """

    name: str
    expected: str
    found: str
    holds: bool


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AttackTradeOff(Renderable):
    """False alarms and misses of a test between two worlds, at every threshold.

    Attributes:
        coalition: the members that apply the test.
        promised: the highest chance of being right at even odds.
        scores: histograms of the standardised score, one for each world.
        gaussian: whether the promised curve is exactly that of a normal law; otherwise
            only a bound on the sum of both errors is proved, which is a line.
    """

    coalition: Coalition
    promised: float
    scores: ScoreCounts
    gaussian: bool = True

    def showing(self) -> Rendering:
        """Return the area, and errors at some thresholds beside what is promised."""
        rows = [[float(cell) for cell in one.values()] for one in self.points]
        heads = [key.replace("_", " ") for key in (self.points or ({},))[0]]
        return Rendering(
            f"Area under the ROC curve of {listed_names(self.coalition) or 'anybody'}: "
            f"{self.area:.4f}",
            [ShownTable(heads, rows, align="." * len(heads))],
        )

    @property
    def divergence(self) -> float | None:
        """Promised between both views; None if they are told apart for certain."""
        if self.promised <= 0.5:
            return 0.0
        return None if self.promised >= 1 else divergence_for_success(self.promised)

    @cached_property
    def counts(self) -> Int[Array[Any], "2 k"]:
        """Scores above every threshold in either world, from the strictest one."""
        above = np.cumsum(self.scores[:, ::-1], axis=1)
        return np.concatenate([np.zeros((2, 1), dtype=np.int64), above], axis=1)

    @property
    def rates(self) -> tuple[Float[FloatArray, " k"], Float[FloatArray, " k"]]:
        """False alarms and hits at every threshold, from the strictest one."""
        alarms, hits = self.counts / self.scores.sum(axis=1, keepdims=True)
        return alarms, hits

    @property
    def area(self) -> float:
        """The area under hits: the chance that the higher score is of world 1."""
        alarms, hits = self.rates
        return float(np.trapezoid(hits, alarms))

    def least_misses(self, alarms: Float[FloatArray, " k"]) -> Float[FloatArray, " k"]:
        """Return the fewest misses that are promised at so many false alarms.

        Phi(Phi^-1(1 - alarms) - mu), mu = sqrt(2 KL), of a normal law. Elsewhere both
        errors add up to what a chance of being right leaves.
        """
        if self.divergence is None:
            return np.zeros_like(alarms)
        if self.gaussian:
            found = ndtr(
                ndtri(1.0 - alarms) - gaussian_mu_of_divergence(self.divergence)
            )
            return np.asarray(found, dtype=np.float64)
        return np.maximum(0.0, 2.0 * (1.0 - self.promised) - alarms)

    @cached_property
    def points(self) -> tuple[Mapping[str, float], ...]:
        """False alarms, misses and promised misses, at some thresholds."""
        alarms, hits = (rate[POINTS] for rate in self.rates)
        least = self.least_misses(alarms)
        return tuple(
            {"false_alarms": float(a), "misses": 1.0 - float(h), "promised": float(f)}
            for a, h, f in zip(alarms, hits, least, strict=True)
        )

    def crosses(self, alarms: float) -> bool:
        """Say whether both errors are smaller than promised somewhere, but for chance.

        Args:
            alarms: how often this may be said of a curve that keeps its promise.
        """
        zero, one = self.scores.sum(axis=1).tolist()
        each = alarms / (2 * len(POINTS))
        for place in POINTS:
            false, hits = self.counts[:, place].tolist()
            _, most_false = clopper_pearson(false, zero, each)
            _, most_missed = clopper_pearson(one - hits, one, each)
            (least,) = self.least_misses(np.array([most_false]))
            if most_missed < least:
                return True
        return False

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it: counts, from which all rates follow, and points."""
        return {
            "coalition": list(self.coalition),
            "divergence": self.divergence,
            "gaussian": self.gaussian,
            "auc": self.area,
            "edges": [float(EDGES[0]), float(EDGES[-1])],
            "scores": self.scores.tolist(),
            "points": [dict(one) for one in self.points],
        }

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return promised and measured hits by false alarms."""
        alarms, hits = self.rates
        places = np.linspace(0.0, 1.0, 201)
        shown = {
            "promised, at most": 1.0 - self.least_misses(places),
            "measured": np.interp(places, alarms, hits),
            "by a coin": places,
        }
        who = listed_names(self.coalition) or "anybody"
        return figures.lines_figure(
            places,
            shown,
            ("false alarms", "hits"),
            figures.chosen_title(title, f"{who}: right in {self.promised:.1%} at most"),
            f"area under the measured self {self.area:.3f}",
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Audit(Renderable):
    """Results of an audit.

    Attributes:
        distance: distance between the two inputs to be distinguished.
        outcomes: outcome of every attack by every coalition.
        curves: trade-off curves of the likelihood ratio, by coalition.
        skipped: attacks that do not apply or were not reached, with the reason.
        allowed: findings that the file's own rules allow, and rules that would not.
        said: sentences on how much released sums reveal of one party or one row.
        clock: measurements of time, which no replay reproduces.
    """

    seed: int
    depth: Depth
    distance: float
    executions: int
    asked: int
    outcomes: tuple[Outcome, ...]
    controls: tuple[AuditControl, ...]
    curves: tuple[AttackTradeOff, ...]
    skipped: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    clock: tuple[str, ...] = ()

    @property
    def alarms(self) -> float:
        """False alarm rate of a single statement, so that all together stay rare."""
        return FALSE_ALARMS / max(1, len(self.outcomes) + len(self.curves))

    @cached_property
    def findings(self) -> tuple[Outcome, ...]:
        return tuple(one for one in self.outcomes if one.exceeds(self.alarms))

    @cached_property
    def crossed(self) -> tuple[AttackTradeOff, ...]:
        return tuple(one for one in self.curves if one.crosses(self.alarms))

    @property
    def broken(self) -> tuple[AuditControl, ...]:
        """Controls that did not come out as they must."""
        return tuple(one for one in self.controls if not one.holds)

    @property
    def is_whole(self) -> bool:
        """Whether nobody stopped it."""
        stopped = any(one.endswith(STOPPED) for one in self.skipped)
        return self.executions >= self.asked and not stopped

    @property
    def exit_code(self) -> int:
        """0 if nothing was found, 1 if something was, 3 if the audit is broken."""
        return 3 if self.broken else 1 if self.findings or self.crossed else 0

    @property
    def verdict(self) -> str:
        """One sentence that says no more than what was found."""
        if self.broken:
            names = ", ".join(one.name for one in self.broken)
            return sentence("audit", "broken", names=names)
        if self.findings:
            worst = max(self.findings, key=lambda one: one.rate - one.promised)
            return sentence(
                "audit",
                "found",
                found=len(self.findings),
                played=len(self.outcomes),
                worst=attack_rate_in_percent(worst, ", "),
                chance=self._chance,
            )
        if self.crossed:
            names = listed_names(self.crossed[0].coalition) or "anybody"
            crossed, curves = len(self.crossed), len(self.curves)
            return sentence(
                "audit", "crossed", crossed=crossed, curves=curves, names=names
            )
        played, power = len(self.outcomes), self.power
        return sentence("audit", "nothing", played=played, power=power)

    @property
    def _chance(self) -> str:
        # A finding that one sound plan in twenty has is followed up, not believed.
        if any(one.exceeds(self.alarms * PLAIN) for one in self.findings):
            return ""
        return sentence("audit", "chance", alarms=FALSE_ALARMS)

    @property
    def power(self) -> str:
        """Which excess of divergence would have been found, in words."""
        told = [
            (one.promised, one.findable(self.alarms))
            for one in self.outcomes
            if one.attack == LIKELIHOOD and one.promised < 1
        ]
        if not told:
            return sentence("audit", "nothing_told")
        found = [(promised, least) for promised, least in told if least is not None]
        if len(found) < len(told) or any(least >= 1 for _, least in found):
            return sentence("audit", "too_few")
        if any(promised <= 0.5 for promised, _ in found):
            most = max(least for _, least in found)
            return sentence("audit", "power_of_guesses", most=100 * most)
        ratio = max(
            divergence_for_success(least) / divergence_for_success(promised)
            for promised, least in found
        )
        return sentence("audit", "power", ratio=ratio)

    def showing(self) -> Rendering:
        """Return the verdict, the attacks, and whether the controls hold."""
        ordered = sorted(self.outcomes, key=lambda one: not one.exceeds(self.alarms))
        rows = [one.row(self.alarms) for one in ordered[:MOST_ROWS]]
        blocks: list[Block] = [*self.allowed, ShownTable(COLUMNS, rows, align="<<>>><")]
        if len(ordered) > MOST_ROWS:
            blocks.append(f"and {len(ordered) - MOST_ROWS:,} more in audit.json")
        # Where nothing is told at any distance, there is none to name.
        told = any(curve.promised > 0.5 for curve in self.curves)
        at = f" at distance {self.distance:.4g}" if told else ""
        blocks.append(
            f"{self.executions:,} executions{at}; all statements together are wrong at "
            f"most 5% of the time. {self.power}"
        )
        marks = {True: "as it must be", False: "NOT as it must be"}
        controls = [(one.name, one.found, marks[one.holds]) for one in self.controls]
        if controls:
            blocks.append(ShownTable(("control", "found", ""), controls, align="<><"))
        return Rendering(
            self.verdict,
            [*blocks, *self.said, *self.clock],
            {"Not played": self.skipped},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "seed": self.seed,
            "depth": self.depth,
            "distance": self.distance,
            "executions": self.executions,
            "asked": self.asked,
            "alarms": self.alarms,
            "verdict": self.verdict,
            "power": self.power,
            "findings": len(self.findings),
            "crossed": [list(one.coalition) for one in self.crossed],
            "broken": [one.name for one in self.broken],
            "outcomes": [
                {
                    **one.to_dict(),
                    "interval": list(one.interval(self.alarms)),
                    "findable": one.findable(self.alarms),
                    "finding": one.exceeds(self.alarms),
                }
                for one in self.outcomes
            ],
            "controls": [asdict(one) for one in self.controls],
            "curves": [one.to_dict() for one in self.curves],
            "skipped": list(self.skipped),
            "allowed": list(self.allowed),
            "said": list(self.said),
        }

    def record(
        self, scene: Scene, *, source: bytes, asked: Mapping[str, Any]
    ) -> AuditRecord:
        """Return the record of it, to be kept or signed.

        Args:
            scene: what was audited.
            source: the file that says what was agreed on.
            asked: what was asked of the audit.
        """
        topology, law = scene.topology, scene.law
        sigma = law.masks.sigma
        agreed = {
            "file": hashlib.sha256(source).hexdigest(),
            "parties": list(topology.parties),
            "edges": topology.edges.tolist(),
            "weights": topology.weights.tolist(),
            "law": law.name,
            "sigma": sigma if sigma is None or isinstance(sigma, float) else [*sigma],
            "grid": law.masks.grid,
            "numbers": str(law.dtype),
            "coefficients": scene.width,
        }
        return AuditRecord.of(
            self.to_dict(), asked=asked, agreed=agreed, clock=self.clock
        )

    def draw_with(self, figures: ModuleType) -> Any:
        """Return both errors of attackers, and promised beside measured success.

        Of many coalitions the first part shows the most successful ones. Points below a
        promised curve would be better than promised.
        """
        chosen = [one for one in self.outcomes if one.looked_at == "masks"][:MOST_BARS]
        names = [
            f"{one.attack}: {', '.join(one.coalition) or 'anybody'}" for one in chosen
        ]
        figure, (upper, lower) = figures.figure_panels(
            2.9,
            0.2 * max(len(chosen), 2) + 0.2,
            title=self.verdict.split(". ")[0].rstrip("."),
            gap=0.9,
            headed=True,
            left=max(0.85, figures.figure_name_width(names, 26)),
        )
        curves = sorted(self.curves, key=lambda one: -one.area)[: len(figures.LINES)]
        alarms = np.linspace(0.0, 1.0, 201)
        drawn: set[float] = set()
        for curve, mark, colour in zip(curves, "os^D", figures.PALETTE, strict=False):
            name = ", ".join(curve.coalition) or "anybody"
            if curve.promised not in drawn:
                what = "exact" if curve.gaussian else "proved"
                grey: dict[str, Any] = {
                    "color": figures.GREY,
                    "lw": 4,
                    "alpha": 0.35,
                    "zorder": 0,
                }
                label = None if drawn else f"promised, {what}"
                upper.plot(alarms, curve.least_misses(alarms), **grey, label=label)
                drawn.add(curve.promised)
            at = [
                [one[key] for one in curve.points] for key in ("false_alarms", "misses")
            ]
            look: dict[str, Any] = {"ms": 4, "mfc": "none", "color": colour}
            upper.plot(
                *at, mark, **look, label=f"{figures.figure_name(name, 16)}: measured"
            )
        upper.plot([0, 1], [1, 0], ":", color=figures.GREY, lw=1, label="by a coin")
        upper.set(xlabel="false alarms", ylabel="misses")
        upper.set_title("Telling two inputs apart", fontsize=10)
        upper.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        upper.legend(frameon=False, loc="upper right", fontsize=figures.SMALL)
        places = np.arange(len(chosen))[::-1]
        for place, one in zip(places, chosen, strict=True):
            low, high = one.interval(self.alarms)
            above = one.exceeds(self.alarms)
            colour, mark = (figures.ORANGE, "X") if above else (figures.BLUE, "o")
            lower.plot([low, high], [place, place], "-", color=colour, lw=2)
            lower.plot(one.rate, place, mark, color=colour, ms=7 if above else 4)
            lower.plot(one.promised, place, "|", color=figures.BLACK, ms=12)
        lower.set_yticks(
            places,
            [figures.figure_name(one, 26) for one in names],
            fontsize=figures.SMALL,
        )
        lower.set(xlabel="success", xlim=(-0.03, 1.03), ylim=(-0.7, len(chosen) - 0.3))
        lower.set_title("| promised, o measured, X more", fontsize=10)
        return figure


# The audit itself


def coalitions_of(
    topology: Topology,
    asked: str,
    tolerate: int,
    *,
    named: Coalition = (),
    most_work: float = MOST_WORK,
) -> list[Coalition]:
    """Return the coalitions that a word means.

    Args:
        topology: who is there.
        asked: `worst`, `all:2`, or names between commas; several groups between
            semicolons.
        tolerate: how many may collude, for `worst`.
        named: a coalition that is there beside the worst one.
        most_work: of looking for the worst one; then it is the worst that was found.
    """
    names = topology.parties
    if asked == "worst":
        worst = _worst_audited_coalition(topology, tolerate, most_work)
        others = topology.names(topology.indices(named))
        return list(dict.fromkeys([worst, others or worst]))
    if asked.startswith("all:"):
        size = asked.removeprefix("all:")
        if not size.isdecimal() or not int(size) <= len(names) - 2:
            raise InvalidInputError(
                f"--coalitions all:K takes a number of at most {len(names) - 2} "
                f"colluders, so that two others are left; found {asked!r}",
                code="colluders-out-of-range",
            )
        _check_many_executions(asked, comb(len(names), int(size)))
        return list(combinations(names, int(size)))
    groups = asked.split(";")
    _check_many_executions("these", len(groups))
    found = []
    for group in groups:
        members = [one.strip() for one in group.split(",") if one.strip()]
        found.append(topology.names(sorted(topology.indices(members))))
    # Each once: said twice it would count as two statements.
    return list(dict.fromkeys(found))


def _check_many_executions(what: str, many: int) -> None:
    if many > MOST_COALITIONS:
        raise InvalidInputError(
            f"{what} are {many:,} coalitions, and at most {MOST_COALITIONS} are "
            "audited at a time: ask for worst, or name some",
            code="too-many-coalitions",
        )


def _worst_audited_coalition(
    topology: Topology, tolerate: int, most_work: float
) -> Coalition:
    """Return who leaves the others hidden least; who cuts them off, if anybody can."""
    if tolerate == 0:
        return ()
    if vertex_connectivity(topology, at_most=tolerate + 1) <= tolerate:
        return topology.names(minimum_vertex_cut(topology) or ())
    found = worst_mu2(topology, tolerate=tolerate, most_work=most_work)
    return topology.names(found.coalition)


def attack_search_work(scene: Scene, depth: Depth) -> float:
    """Return how much is spent on looking for the worst coalition.

    Under masks that show nothing but sums all are alike that do not cut others off.
    """
    if scene.law.sums_only:
        return 0.0
    return QUICK_WORK if depth == "quick" else MOST_WORK


def scene_of_one_word(scene: Scene) -> Scene:
    """Return the scene with residues of one word each, all counted alike.

    Words are drawn alike, and those of Python's own numbers a hundred times slower.
    Attacks that need few executions are played on all words. Residues are drawn alike
    whatever they count: by their real sizes the coarsest would drown the others.
    """
    plan = (scene.plan_law, scene.plan_width)
    return replace(scene, law=scene.law.in_one_word(), plan=plan)


def audit_executions(scene: Scene, depth: Depth, asked: int | None = None) -> int:
    if asked is not None:
        if asked < 1:
            raise InvalidInputError(
                f"executions must be at least 1, found {asked}",
                code="executions-not-positive",
            )
        return asked
    many = EXECUTIONS[depth]
    return (
        many // PYTHON_NUMBERS
        if is_wide_integer_type(scene_of_one_word(scene).law.dtype)
        else many
    )


def audit(
    scene: Scene,
    coalitions: Iterable[Coalition],
    *,
    executions: int | None = None,
    depth: Depth = "standard",
    distance: float | None = None,
    seed: int = 0,
    on: Executor | None = None,
    kept: UnfinishedAudit | None = None,
    progress: Progress = None,
) -> Audit:
    """Play an adversary against masks, and controls against the audit.

    Args:
        scene: what was agreed on, and how shares are drawn.
        coalitions: who may attack, each a group of names.
        executions: how many runs are simulated; by depth, if nobody says.
        depth: `quick` tells two inputs apart only; `standard` tries all attacks.
        distance: between the two inputs; where the most dangerous coalition is
            promised a success of 60 %, if nobody says.
        seed: repeats the audit to the last bit.
        on: who does the work; this process, if nobody is named.
        kept: what there is of this audit already, and where to keep what comes.
        progress: None for a bar, False for none, or a function that is called with the
            executions done, and all of them.
    """
    groups = [scene.colluders(one) for one in coalitions]
    whole, scene = scene, scene_of_one_word(scene)
    if not groups:
        raise InvalidInputError(
            "an audit needs at least one coalition to play", code="no-coalition"
        )
    executions = audit_executions(scene, depth, executions)
    hidden = [one for one in groups if is_attack_target_hidden(scene, one)]
    if distance is None:
        distance = min(
            (distance_for_attack_success(scene, one, SUCCESS) for one in hidden),
            default=1,
        )
    common: dict[str, Any] = {"seed": seed, "on": on}
    try:
        guessers = _likelihood_guessers(scene, hidden, distance, seed)
    except (NumericalError, OverflowError):
        raise InvalidInputError(
            f"two inputs at distance {distance:g} are beyond the numbers that were "
            "agreed on: leave --distance out, or give a smaller one",
            code="distance-too-large",
        ) from None
    with watch_progress(progress) as opening:
        bar = None if opening is None else opening("executions", executions)
        tally, done = play_attacks(
            scene, guessers, executions, what="play", kept=kept, progress=bar, **common
        )
    outcomes = _audit_outcomes(guessers, tally)
    curves = [
        AttackTradeOff(
            coalition=player.coalition,
            promised=player.promised,
            scores=tally.scores[k],
            gaussian=scene.law.masks.grid is None,
        )
        for k, player in enumerate(guessers)
        if player.attack == LIKELIHOOD
    ]
    if depth != "quick" and done >= executions:
        further = _aimed_players(whole, groups)
        count = min(FEW, max(FEWEST_TRIALS, 10 * executions_per_batch(whole)))
        some, _ = play_attacks(
            whole, further, count, what="further", kept=kept, **common
        )
        outcomes += _audit_outcomes(further, some)
        try:
            outcomes += _play_share_attacks(scene, groups[0], seed, on=on)
        except BrokenExecutor as error:
            raise _lost_audit_error(error, kept, "all executions") from None
    numbers = share_law.shares_by_number(
        whole, seed_of_piece(seed, share_law.BY_NUMBER)
    )
    outcomes += [one.outcome() for one in numbers]
    controls = [
        *_sham_controls(scene, hidden, distance, seed),
        *_planted_controls(scene, hidden, distance, seed),
        *_control_with_spoilt_numbers(whole, seed),
    ]
    return Audit(
        seed=seed,
        depth=depth,
        distance=distance,
        executions=done,
        asked=executions,
        outcomes=tuple(outcomes),
        controls=tuple(controls),
        curves=tuple(curves),
        said=tuple(dict.fromkeys(one.power for one in numbers)),
    )


def _likelihood_guessers(
    scene: Scene, groups: Sequence[Coalition], distance: float, seed: int
) -> list[LikelihoodRatio]:
    """Return who tells two inputs apart: by the promise, and by what it has seen."""
    found: list[LikelihoodRatio] = []
    believing = [aim(scene, one, distance) for one in groups]
    size = min(executions_per_batch(scene), LEARNED)
    moments: list[Any] = [0.0] * len(groups)
    n_batches = 1 if is_wide_integer_type(scene.law.dtype) else ceil(LEARNED / size)
    for k in range(n_batches):
        batch = scene.batch(seed_of_piece(seed, f"learn/{k}"), size)
        for g, player in enumerate(believing):
            assert player is not None
            moments[g] += covariance_of_attacked_noise(
                scene, batch.noise(player.coalition)
            )
    for player, moment in zip(believing, moments, strict=True):
        assert player is not None
        doubting = guesser_from_observations(
            scene, player.coalition, distance, moment / n_batches
        )
        assert doubting is not None
        found += (player, doubting)
    return found


def _aimed_players(
    scene: Scene, groups: Sequence[Coalition], names: Iterable[str] = AIMED
) -> list[AttackPlayer]:
    players = (AIMED[name](scene, one) for one in groups for name in names)
    return [one for one in players if one is not None]


def _play_share_attacks(
    scene: Scene,
    group: Coalition,
    seed: int,
    names: Iterable[str] = PLAYED,
    on: Executor | None = None,
) -> list[Outcome]:
    found: list[Outcome] = []
    some = max(FEWEST_TRIALS, executions_per_batch(scene))
    for name in names:
        attack, most = PLAYED[name]
        # All others are done sooner than they are sent.
        shared = {"on": audit_workers(on)} if name == "few seeds" else {}
        one = attack(
            scene,
            group,
            seed=seed_of_piece(seed, f"{name}, {group}"),
            trials=min(most, some),
            **shared,
        )
        found += [one] if isinstance(one, Outcome) else one or ()
    return found


def audit_workers(on: Executor | None) -> Executor | None:
    """Return who has processors of their own, for work that is Python's own."""
    return None if isinstance(on, ThreadPoolExecutor) else on


def _audit_outcomes(
    players: Sequence[AttackPlayer], tally: AuditTally
) -> list[Outcome]:
    return [
        Outcome(
            attack=player.attack,
            coalition=player.coalition,
            about=player.about,
            trials=int(trials),
            successes=int(right),
            promised=player.promised,
        )
        for player, (trials, right) in zip(players, tally.counts, strict=True)
        if trials
    ]


def _sham_controls(
    scene: Scene, groups: Sequence[Coalition], distance: float, seed: int
) -> Iterator[AuditControl]:
    """Yield what must find nothing: no difference, and guesses turned round."""
    if not groups:
        return
    player = aim(scene, groups[0], distance)
    assert player is not None
    same = replace(player, held=player.held[[0, 0]], promised=0.5)
    count = min(CONTROLLED, 10 * executions_per_batch(scene))
    tally, _ = play_attacks(scene, [same, player], count, seed=seed, what="sham")
    null, straight = _audit_outcomes([same, player], tally)
    turned = replace(
        straight, successes=straight.trials - straight.successes, promised=0.5
    )
    low, high = null.interval(BROKEN_BY_CHANCE)
    expected = "two worlds that are the same are told apart half of the time"
    yield AuditControl("null", expected, f"{100 * null.rate:.2f}%", low <= 0.5 <= high)
    expected = "guesses turned round are no better than a coin"
    holds = not turned.exceeds(BROKEN_BY_CHANCE)
    yield AuditControl("reversed", expected, f"{100 * turned.rate:.2f}%", holds)


def _planted_controls(
    scene: Scene, groups: Sequence[Coalition], distance: float, seed: int
) -> Iterator[AuditControl]:
    for name, leak in PLANTED.items():
        if not leak.fits(scene):
            continue
        altered, group = leak(scene), leak.coalition(scene.topology)
        if "few seeds" in leak.found_by and groups and groups[0]:
            group = groups[0]  # whose table of seeds is there already
        names = [one for one in AIMED if one in leak.found_by]
        players: list[AttackPlayer] = _aimed_players(altered, [group], names)
        further = [one for one in PLAYED if one in leak.found_by]
        guessed = not players and not further
        if (guessed or LIKELIHOOD in leak.found_by) and is_attack_target_hidden(
            altered, group
        ):
            players += _likelihood_guessers(
                altered, [group], distance, seed_of_piece(seed, name)
            )
        # Only a guesser needs many executions to be believed.
        most = CONTROLLED if any(one.attack in GUESSERS for one in players) else FEW
        count = min(most, 10 * executions_per_batch(altered))
        tally, _ = play_attacks(
            altered, players, count, seed=seed, what=f"planted {name}"
        )
        outcomes = _audit_outcomes(players, tally)
        outcomes += _play_share_attacks(
            altered, group, seed_of_piece(seed, name), further
        )
        alarms = FALSE_ALARMS / max(1, len(outcomes))
        by = [one for one in outcomes if one.exceeds(alarms)]
        worst = max(by, key=lambda one: one.rate - one.promised, default=None)
        words = "not found" if worst is None else attack_rate_in_percent(worst)
        yield AuditControl(f"planted: {name}", MORE, words, worst is not None)


MORE = "more successes than promised"


def attack_rate_in_percent(one: Outcome, then: str = ": ") -> str:
    rates = f"{100 * one.rate:.4g}% instead of {100 * one.promised:.4g}%"
    return f"{one.attack}{then}{rates}"


def _control_with_spoilt_numbers(scene: Scene, seed: int) -> Iterator[AuditControl]:
    name, spoil = (
        ("a bit of one number that never changes", share_law.shares_with_stuck_bit)
        if scene.plan_law.sums_only
        else ("an eighth of sigma in one number", share_law.shares_an_eighth_as_large)
    )
    key = seed_of_piece(seed, f"planted {name}")
    for numbers in share_law.shares_by_number(scene, key, spoil)[:1]:
        one = numbers.outcome()
        words = f"{one.attack}: {one.successes} of {one.trials}"
        yield AuditControl(
            f"planted: {name}", "one number is found", words, one.successes == 1
        )


# What a file asks


# Trials of an attack on sums: one that tells two worlds apart every time is found then,
# even beside a hundred others.
TRIALS: Mapping[Depth, int] = {"quick": 0, "standard": 14, "deep": 100}
# Pairs of runs by machines, which are compared frame by frame, and runs whose vectors
# are compared with the list of released numbers.
RUNS: Mapping[Depth, int] = {"quick": 0, "standard": 2, "deep": 10}
# Runs of parties with folders of their own, three times each.
REAL: Mapping[Depth, int] = {"quick": 0, "standard": 1, "deep": 3}
# Of numbers that are Python's own, so many coefficients stand for all.
PYTHON_WIDTH = 8
FRAMES = "frames of two runs"
STOPPED = "stopped by hand before it"
TAPPED = "what machines really send"
RESTARTED = "machines that come back"
# Crashes of machines, each after so many effects at most.
CRASHES: Mapping[Depth, int] = {"quick": 0, "standard": 6, "deep": 30}
MOST_EFFECTS = 60


def scene_of_audit(question: AuditRehearsal) -> Scene:
    topology, asked = question.consortium.topology, question.asked
    if question.simulated is not None and isinstance(asked, AgreedMinimisation):
        law = question.simulated.on(topology)
        return Scene(topology=topology, law=law, width=asked.cost.size)
    _, played = question.sound(0)
    plan = played.plan
    return scene_under(plan.topology, plan.law, plan.size)


def scene_of_run(transcript: Transcript) -> Scene:
    """Return the masks of a run that took place, by what a member kept of it."""
    held = [one for each in transcript.rounds for one in each.own.values()]
    if not held:
        raise InvalidInputError(
            "the transcript ends before its first sum, and has no masks to audit",
            code="no-masks-to-audit",
        )
    return scene_under(transcript.topology, transcript.law, held[0].size)


def scene_under(topology: Topology, law: MaskLaw, width: int) -> Scene:
    """Return the masks of a law for made-up numbers, as few as stand for all."""
    plan = (law, width)
    # A range is of values, not of masks: what is made up goes as far as it has to.
    law = law.without_range()
    if (
        is_wide_integer_type(law.dtype)
        and law.counted is not None
        and width > PYTHON_WIDTH
    ):
        places = np.linspace(0, width - 1, PYTHON_WIDTH).astype(int).tolist()
        law, width = law.of_places(places), PYTHON_WIDTH
    return Scene(topology=topology, law=law, width=width, plan=plan)


def audit_question(
    question: AuditRehearsal,
    scene: Scene,
    coalitions: Sequence[Coalition],
    *,
    depth: Depth = "standard",
    seed: int = 0,
    on: Executor | None = None,
    kept: UnfinishedAudit | None = None,
    progress: Progress = None,
    **options: Any,
) -> Audit:
    """Audit masks, sums and frames of what a file asks; see `audit` for the options.

    Ctrl-C ends it, and what there is by then is kept; what is left is named.
    """
    groups = list(coalitions)
    options = {"on": on, "kept": kept, **options}
    found = audit(scene, groups, depth=depth, seed=seed, progress=progress, **options)
    if depth == "quick":
        return found
    gained, brief = AttackGains(), question.brief
    steps = _audit_steps(groups, depth)
    names = [*(step.name for step in steps), "clocks"]
    left = names if found.executions < found.asked else []
    if not left:
        try:
            _ = brief.size
        except InvalidInputError as error:
            gained.skipped.append(f"sums and frames: {error}")
            steps = ()
        with watch_progress(progress) as opening:
            bar = (opening or silent_progress)("further attacks", len(steps))
            done = 0
            try:
                work = OnSums(brief, steps, seed)
                for gains in _gains_of_attacks(work, audit_workers(on), kept):
                    gained.take(gains)
                    done += 1
                    bar(done)
            except KeyboardInterrupt:
                left = names[done:]
            except BrokenExecutor as error:
                reached = f"all executions and {done:,} of {len(steps):,} attacks"
                raise _lost_audit_error(error, kept, reached) from None
        if not left and steps:
            # Beside others who work, a clock would say something else.
            gained.allowed += _attacks_that_rules_allow(
                brief, groups, gained.outcomes, seed
            )
            gained.clock += [one.words for one in timing.attack_timings(brief, seed)]
    gained.skipped += [f"{name}: {STOPPED}" for name in left]
    if question.simulated is not None and steps:
        gained.said.append(
            f"{question.simulated.law} masks are for simulation: masks were audited "
            "as the file has them, and what machines send as real parties would have "
            f"it, under {question.consortium.masks.law} masks"
        )
    if brief is not question and steps:
        gained.said.append(f"machines played the first {BRIEF} iterations")
    return replace(
        found,
        outcomes=(*found.outcomes, *gained.outcomes),
        skipped=tuple(dict.fromkeys(gained.skipped)),
        allowed=tuple(dict.fromkeys(gained.allowed)),
        said=(*found.said, *gained.said),
        clock=tuple(gained.clock),
    )


@dataclass(eq=False)
class AttackGains:
    """Results so far of attacks on sums and frames."""

    outcomes: list[Outcome] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    clock: list[str] = field(default_factory=list)

    def take(self, gains: Iterable[Gain]) -> None:
        for one in gains:
            if isinstance(one, SkippedAttack):
                self.skipped.append(f"{one.attack}: {one.why}")
            elif isinstance(one, Outcome):
                self.outcomes.append(one)
            else:
                self.said.append(one)


@dataclass(frozen=True)
class AuditStep:
    """One attack on sums or frames, in the hands of one coalition.

    Attributes:
        coalition: who attacks; None for everybody.
    """

    name: str
    play: Callable[..., Iterable[Gain]]
    coalition: Coalition | None
    trials: int


@dataclass(frozen=True, eq=False)
class OnSums:
    """Player of attacks on sums and frames: called with the index of one attack."""

    question: AuditRehearsal
    steps: tuple[AuditStep, ...]
    seed: int

    def __call__(self, key: int, seed: int) -> tuple[Gain, ...]:
        """Play it; each has seeds of its own from the audit's."""
        del seed
        step = self.steps[key]
        group = self.question.parties if step.coalition is None else step.coalition
        how = {"coalition": group, "seed": self.seed, "trials": step.trials}
        try:
            return tuple(step.play(self.question, **how))
        except InvalidInputError as error:
            return (SkippedAttack(step.name, str(error)),)


def _gains_of_attacks(
    work: OnSums, on: Executor | None, kept: UnfinishedAudit | None
) -> Iterator[tuple[Gain, ...]]:
    """Yield what comes of each attack, those first that were played before."""
    known = {} if kept is None else kept.attacks
    first = 0
    while str(first) in known and first < len(work.steps):
        yield tuple(one.gain for one in known[str(first)])
        first += 1
    left = range(first, len(work.steps))
    try:
        for key, gains in zip(
            left, map_pieces(work, left, seed=work.seed, on=on), strict=True
        ):
            if kept is not None:
                known[str(key)] = tuple(AttackSoFar.of(one) for one in gains)
                kept.write(now=False)
            yield gains
    finally:
        if kept is not None:
            kept.write()


def _audit_steps(groups: Sequence[Coalition], depth: Depth) -> tuple[AuditStep, ...]:
    found = []
    for group in groups:
        found += [
            *(AuditStep(one.ATTACK, one.play, group, TRIALS[depth]) for one in ON_SUMS),
            AuditStep(
                late_unmasking.ATTACK,
                late_unmasking.play,
                group,
                RUNS[depth],
            ),
            AuditStep(timing.ATTACK, timing.play_frame_sizes, group, RUNS[depth]),
            AuditStep(FRAMES, _audit_same_frames, group, RUNS[depth]),
        ]
    return (
        *found,
        AuditStep(unlisted.ATTACK, unlisted.play, None, RUNS[depth]),
        AuditStep(TAPPED, _compare_tapped_machines, None, RUNS[depth]),
        AuditStep(RESTARTED, _attack_restarted_machines, None, CRASHES[depth]),
        AuditStep(REAL_PARTIES, _real_parties, None, REAL[depth]),
        AuditStep("what sums say", sums_say.sum_remarks_for_audit, groups[0], 2),
    )


def _attacks_that_rules_allow(
    question: AuditRehearsal,
    groups: Sequence[Coalition],
    outcomes: Sequence[Outcome],
    seed: int,
) -> list[str]:
    """Return what the file itself allows to those who aim, and which rules would not.

    Whoever comes after one that succeeded is asked about, too.
    """
    aims = [one for one in outcomes if one.attack == aimed.ATTACK]
    hit = {one.coalition for one in aims if one.successes}
    found: list[str] = []
    for group in dropwhile(lambda one: tuple(one) not in hit, groups):
        found += aimed.formulas_that_aim(question, coalition=group, seed=seed)
    return found


def _rehearsal_transcript(
    question: AuditRehearsal, played: RehearsedAnswer | None
) -> Transcript | None:
    seen = None if played is None else played.result.released.seen
    return None if seen is None else seen.transcript(question.parties)


def _real_parties(
    question: AuditRehearsal, *, coalition: Coalition, seed: int, trials: int
) -> Iterator[Outcome | SkippedAttack | str]:
    """Run real parties, which need packages that figures of an audit do without."""
    try:
        from veilsum.audit import real_parties
    except MissingExtraError as error:
        return iter([SkippedAttack(REAL_PARTIES, str(error))])
    return real_parties.play(question, coalition=coalition, seed=seed, trials=trials)


def _compare_tapped_machines(
    question: AuditRehearsal, *, coalition: Coalition, seed: int, trials: int
) -> Iterator[Outcome]:
    """Compare what machines really exchange with what is simulated."""
    different = 0
    for k in range(trials):
        held, _ = question.sound((seed, k, 4))
        seeds: dict[str, Any] = {
            "seed": seed_of_piece(seed, f"tap/{k}") % 2**32,
            "watched": True,
        }
        ways = (
            MethodArrays(**seeds),
            machines := AuditedLoopback(faults=Faults(), **seeds),
        )
        both = [question.ask(held, driver=one, run="tap").played for one in ways]
        one, other = (_rehearsal_transcript(question, way) for way in both)
        # Machines that come to no answer where the theory does are different, too. A
        # transcript has the first word of each, and nobody has a second one.
        twice = any(map(sends_two_vectors, machines.worlds))
        different += one != other or twice
    about = "a number that is not what the theory's parties would send"
    yield Outcome(TAPPED, coalition, about, trials, different, 0.0, "frames")


def _crash_of_audited_party(
    parties: Sequence[str], chance: np.random.Generator
) -> Crash:
    """Return a crash of somebody at any moment, who comes back soon."""
    party = parties[int(chance.integers(len(parties)))]
    return Crash(party, after=int(chance.integers(1, MOST_EFFECTS)), back=1.0)


def _attack_restarted_machines(
    question: AuditRehearsal, *, coalition: Coalition, seed: int, trials: int
) -> Iterator[Outcome]:
    """Crash machines whose shares the system draws; look at what they send then.

    From a seed a share would be drawn a second time as it was the first. Nothing is
    sent anew, everything is masked, and no share is one of another run.
    """
    wrong, known = 0, set[bytes]()
    for k in range(trials):
        chance = np.random.default_rng((seed, k, 12))
        held, _ = question.sound((seed, k, 12))
        faults = Faults(crashes=(_crash_of_audited_party(question.parties, chance),))
        machines = AuditedLoopback(faults=faults)
        question.ask(held, driver=machines, run="restart")
        for world in machines.worlds:
            drawn = [one.tobytes() for one in shares_sent_in(world).values()]
            before, known = known, known | {*drawn}
            again = len(known) < len(before) + len(drawn)
            again &= shares_never_repeat(world.plan.law, world.plan.size, len(known))
            wrong += (
                again
                or sends_two_vectors(world)
                or not is_masked_in_audited_world(world)
            )
    about = "numbers sent anew, or not masked, or masked as in another run"
    yield Outcome(RESTARTED, coalition, about, trials, wrong, 0.0, "frames")


def _audit_same_frames(
    question: AuditRehearsal, *, coalition: Coalition, seed: int, trials: int
) -> Iterator[Outcome | SkippedAttack]:
    """Compare what real machines send for two dealings that must look the same.

    Where totals are not the same, that is what is found.
    """
    honest = question.honest(coalition)
    if len(honest) < 2:
        yield SkippedAttack(
            FRAMES, "one honest party alone has nobody to exchange with"
        )
        return
    different = 0
    for k in range(trials):
        chance = np.random.default_rng((seed, k, 3))
        held, played = reassignment.deal_spare_rows(question, honest, (seed, k, 3))
        dealt = reassignment.deal_rows_again(question, held, played, honest, chance)
        if dealt is None:
            yield SkippedAttack(FRAMES, reassignment.NO_OTHER)
            return
        other = dealt[0]

        def run(holdings: Any, driver: Any) -> None:
            ended = question.ask(holdings, driver=driver, run="audit", seed=seed)
            if ended.error is not None:
                raise ended.error

        # In every other pair somebody crashes, and comes back to what it had written.
        crashes = (_crash_of_audited_party(honest, chance),) if k % 2 else ()
        different += not interference_same_frames(
            partial(run, held),
            partial(run, other),
            coalition,
            seed=seed % 2**32,
            faults=Faults(crashes=crashes),
        ).equal
    about = "a difference in any frame, its time or its length"
    yield Outcome(FRAMES, tuple(coalition), about, trials, different, 0.0, "frames")
