"""Function Sharing beside the literature: one problem, one coalition, one divergence.

The quadratics of DECOR's experiments: 16 parties on the 4 x 4 torus, which is the
hypercube, x in R^10, h_i(x) = i^2/32 ||x||^2 + alpha_i'x. All but alpha_i is public. A
and B differ in one coordinate of two honest parties, by 1 and by -1: the sum is the
same. Each mechanism gets the noise at which the divergence of its view is the target;
what differs then is how far its answer is from the true one. In the views all honest
parties' messages are seen, less what the coalition knows of the noise in them:

    none        alpha_i itself
    sharing     alpha_i + masks that add up to zero (this package, three laws)
    functional  alpha_i + Laplace(b): functional perturbation in its affine form
                (Nozari, Tallapragada and Cortes 2018)
    states      x_i(t) + Laplace(b p^t), x_i(t+1) = z_i - c q^t grad h_i(z_i), z = W x,
                q < p < 1 (Huang, Mitra and Vaidya 2015), X the whole space
    pairwise    x_i(t) - c (grad h_i(x_i(t)) + own_i(t) + pairs_i(t)), then mixed by W:
                pairs cancel in the sum, own ones do not (DECOR: Allouah et al. 2024)

Given all earlier messages, the next one of `states` or `pairwise` is known but for the
noise and a multiple of alpha_i: the divergences of the messages add up, exactly, and so
do the logarithms of the likelihood ratio on which the attacker decides. Laplace(b)
moved by s b has KL = s + exp(-s) - 1. Gradients are not clipped, which matters to a
promise for all inputs and not for this pair.

What a mechanism is free to choose beside its noise (steps, their decay, how long it
runs) is chosen by the exact expected error, bias and variance, on the true data. Nobody
could do that in earnest: it is a favour to those that are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import product
from math import inf, isfinite, sqrt
from types import ModuleType
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from scipy import optimize

from veilsum.audit.attack import clopper_pearson
from veilsum.errors import InvalidInputError
from veilsum.graphs.mixing import metropolis_weights
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import LawName, Masks
from veilsum.masks.masking import ShareStreams, at_both_ends, draw_mask_shares
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import Kind, SquaredNorm
from veilsum.minimise.engines.engine import EngineTask
from veilsum.minimise.engines.numpy import PlainEngine
from veilsum.minimise.methods.base import Method, MethodTraits, Weighting
from veilsum.minimise.methods.dgd import DgdState
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.solve import solve
from veilsum.numbers.arrays import (
    FloatArray,
    Sparse,
    Vectors,
    as_whole_number,
    is_real_number,
)
from veilsum.privacy.conversions import attacker_success
from veilsum.privacy.divergence import kl_divergence
from veilsum.privacy.guarantee import proof_of_masks
from veilsum.privacy.lattice import lattice_divergence, lattice_success
from veilsum.privacy.transcript import edges_touching_colluders
from veilsum.showing import Renderable, Rendering, ShownBothWays, ShownTable

GRAPH, DIM, CORRUPTED, MOVED = "hypercube:4", 10, ("0", "5"), ("3", "12")
# Coefficients are whole numbers of 2^-10 and integer masks have room for all of them,
# so that no grid shows in the error.
UNIT_BITS, GRID, LARGEST = 10, 40, 32.0
# Of DECOR's published runs on this graph at epsilon 10: how much more noise a link
# has than a party adds of its own.
PAIRS_TO_OWN = 47.0 / 22.96953176771683
ALARMS = 0.025  # on either side of an interval of 95 %
MOST_RUNS, LEAST_TARGET, MOST_TARGET = 100_000, 1e-3, 100.0

# What may be chosen. For `states`: c, q, where p is between q and 1, and how many
# iterations. For `pairwise`: c, and how many.
FIRST_STEPS, DECAYS, BETWEEN = (0.02, 0.04, 0.08), (0.7, 0.8, 0.9, 0.97), (0.1, 0.3)
LONGEST_STATES = 120
STEPS, LONGEST_PAIRWISE = (0.00125, 0.0025, 0.005, 0.01, 0.02, 0.04), 600

EXACT = "the exact sum of the honest parties' coefficients; the exact answer"
NOISY_COSTS = "every party's cost with noise of its own; an answer with all that noise"
NOISY_MESSAGES = "every message, with noise; an answer with what is left of the noise"


@dataclass(frozen=True, eq=False)
class LiteratureCurvatures:
    """rho_i(x) = curvature_i ||x||^2 / 2 of all parties, in one product."""

    by_party: FloatArray
    kind: Kind = field(default="shared", init=False)

    def gradient(self, x: Vectors) -> Vectors:
        return self.by_party[:, None] * x

    def rows(self, which: slice) -> LiteratureCurvatures:
        return LiteratureCurvatures(self.by_party[which])


@dataclass(frozen=True, eq=False)
class LiteratureInputPair:
    """Two inputs that a coalition is to tell apart, in one public setting.

    Attributes:
        topology: who talks to whom.
        curvatures: by party: h_i(x) = curvature_i ||x||^2 / 2 + alpha_i'x.
        a: alpha_i by row; what is computed with.
    """

    topology: Topology
    curvatures: FloatArray
    a: FloatArray
    b: FloatArray
    corrupted: tuple[str, ...] = ()

    @cached_property
    def weights(self) -> Sparse:
        return metropolis_weights(self.topology)

    @property
    def optimum(self) -> FloatArray:
        found: FloatArray = -self.a.sum(axis=0) / self.curvatures.sum()
        return found

    @property
    def honest(self) -> list[int]:
        bad = self.topology.indices(self.corrupted)
        return [i for i in range(self.topology.n_parties) if i not in bad]

    def without_partner(self) -> LiteratureInputPair:
        """Return the pair in which the second party that moved stays: sums differ."""
        other = self.b.copy()
        last = np.flatnonzero((self.a != self.b).any(axis=1))[-1]
        other[last] = self.a[last]
        return replace(self, b=other)

    def only_difference(self) -> LiteratureInputPair:
        """Return the coordinates in which A and B differ.

        Costs have no term with two coordinates and all noise is independent between
        them: what is seen of the others has the same law under A and B, and says
        nothing about these.
        """
        here = (self.a != self.b).any(axis=0)
        return replace(self, a=self.a[:, here], b=self.b[:, here])

    def engine(
        self, method: Method[Any], copies: int = 1, *, under_b: bool = False
    ) -> PlainEngine:
        """Return many independent runs of a method side by side, from the origin."""
        rows = np.tile(self.b if under_b else self.a, copies)
        rest = LiteratureCurvatures(self.curvatures)
        cost = EffectiveCost(Affine(rows.shape[1]), rows, rest)
        return PlainEngine(
            EngineTask(
                method=method,
                weights={"symmetric": self.weights},
                cost=cost,
                start=np.zeros_like(rows),
            )
        )


def decor_quadratics(seed: int) -> LiteratureInputPair:
    """Return DECOR's quadratics, ||A_i x - b_i||^2 / 2 with A_i = i / sqrt(n) I.

    As published b_i is normal with deviation 1 / i; here it is that plus A_i times ones
    so that the answer is near ones and not where everybody starts.
    """
    topology = Topology.family(GRAPH)
    n = topology.n_parties
    counted = np.arange(1.0, n + 1.0)
    noise = np.random.default_rng([seed, 0]).standard_normal((n, DIM))
    slope = counted[:, None] / sqrt(n)
    target = slope + noise / counted[:, None]
    a = np.rint(-slope * target * 2.0**UNIT_BITS) / 2.0**UNIT_BITS
    b = a.copy()
    for party, by in zip(MOVED, (1.0, -1.0), strict=True):
        b[topology.index(party), 0] += by
    return LiteratureInputPair(topology, counted**2 / n, a, b, CORRUPTED)


@runtime_checkable
class LiteratureMechanism(Protocol):
    """A way to minimise, with the noise that a divergence asks for."""

    @property
    def name(self) -> str:
        """Name of the mechanism."""

    @property
    def releases(self) -> str:
        """Description of the values that all parties see."""

    @property
    def noise(self) -> str:
        """Description of the chosen noise."""

    def divergence(self, pair: LiteratureInputPair) -> float:
        """Return the KL divergence of the views, or a proved bound."""

    def promised(self, pair: LiteratureInputPair) -> float:
        """Return the best guesser's success, or a proved bound."""

    def told_apart(self, pair: LiteratureInputPair, runs: int, seed: int) -> int:
        """Return how often the likelihood ratio is right in `runs` of A and of B."""

    def answers(self, pair: LiteratureInputPair, seeds: int, seed: int) -> FloatArray:
        """Return every party's answer, (seeds, n, m)."""


# Function Sharing, and no masks at all


@dataclass(frozen=True)
class LiteratureSharing:
    """This package's own, or the plain method under the law `none`."""

    masks: Masks

    @classmethod
    def at(
        cls, pair: LiteratureInputPair, law: LawName, target: float
    ) -> LiteratureSharing:
        """Return the masks at which the divergence is the target."""
        one = kl_divergence(
            pair.topology, pair.a, pair.b, sigma=1.0, corrupted=pair.corrupted
        )
        sigma = sqrt(one / target)
        given: dict[LawName, Masks] = {
            "gaussian": Masks("gaussian", sigma),
            "lattice": Masks("lattice", sigma, GRID),
            "uniform": Masks("uniform", grid=GRID, largest=LARGEST),
        }
        return cls(given.get(law) or Masks(law))

    @property
    def name(self) -> str:
        return f"sharing, {self.masks.law}" if self.masks.kind.hides else "no privacy"

    @property
    def releases(self) -> str:
        return EXACT if self.masks.kind.hides else "every party's cost; the answer"

    @property
    def noise(self) -> str:
        if not self.masks.kind.hides:
            return "none"
        if self.masks.sigma is None:
            return "modulo 2^64"
        return f"sigma {self.masks.sigma:.3g}"

    def divergence(self, pair: LiteratureInputPair) -> float:
        """Return the number for real shares, or the bound for whole ones."""
        moved = (pair.a - pair.b)[pair.honest]
        if not self.masks.kind.hides or moved.sum(axis=0).any():
            return inf  # the sum is released
        where, bad = (pair.topology, pair.a, pair.b), pair.corrupted
        sigma = self.masks.sigma
        if sigma is None:
            # KL <= epsilon ||A - B||^2, and epsilon is 0 for masks that are uniform.
            epsilon = proof_of_masks(self.masks).continuous(pair.topology, None)
            return inf if epsilon is None else epsilon * float((moved**2).sum())
        if self.masks.grid is None:
            return kl_divergence(*where, sigma=sigma, corrupted=bad)
        return lattice_divergence(
            *where, sigma=sigma, bits=self.masks.grid, corrupted=bad
        ).bound

    def promised(self, pair: LiteratureInputPair) -> float:
        found = self.divergence(pair)
        if found == inf:
            return 1.0
        far = float(np.linalg.norm(pair.a - pair.b))
        honest = pair.topology.induced(pair.honest)
        return proof_of_masks(self.masks).success(honest, None, found / far**2, far)

    def told_apart(self, pair: LiteratureInputPair, runs: int, seed: int) -> int:
        """Return how often the test for normal masks is right, on masks of this law."""
        pair = pair.only_difference()
        topology, law = pair.topology, self.masks.on(pair.topology)
        known = edges_touching_colluders(topology, topology.indices(pair.corrupted))
        streams = ShareStreams.from_seed(seed)
        test = _literature_gaussian_test(pair, pairs=1.0, own=0.0)

        def sample(under_b: int) -> FloatArray:
            rows = np.repeat(pair.b if under_b else pair.a, runs, axis=1)
            size = rows.shape[1]
            shares = draw_mask_shares(topology, law, streams, size=size, epoch=under_b)
            noise = shares.edge_noise()
            noise[known] = 0  # the coalition takes off what it knows
            masked = law.wrap(law.encode(rows) + at_both_ends(topology, noise))
            seen = np.asarray(law.decode(masked), dtype=np.float64)
            return test(seen.reshape(len(seen), -1, runs))

        return _right_likelihood_guesses(sample)

    def answers(self, pair: LiteratureInputPair, seeds: int, seed: int) -> FloatArray:
        """Return the answers of `solve`."""
        return np.stack(
            [
                _solve_literature_pair(pair, pair.a, self.masks, seed + one)
                for one in range(seeds)
            ]
        )


def _solve_literature_pair(
    pair: LiteratureInputPair, rows: FloatArray, masks: Masks, seed: int
) -> FloatArray:
    both = zip(rows, pair.curvatures.tolist(), strict=True)
    run = solve(
        [Cost.affine(row, remainder=SquaredNorm(bend / 2.0)) for row, bend in both],
        topology=pair.topology,
        corrupted=(),
        domain=WholeSpace(rows.shape[1]),
        law=masks.law,
        sigma=masks.sigma,
        grid=masks.grid,
        largest=masks.largest,
        settings=Settings(method="one-shot"),
        seed=seed,
    )
    return run.estimates


# Nozari, Tallapragada and Cortes


@dataclass(frozen=True)
class LiteratureFunctional:
    """Each party adds a random affine function to its cost, once: Laplace(scale)."""

    scale: float
    name: ClassVar[str] = "functional (Nozari)"
    releases: ClassVar[str] = NOISY_COSTS

    @classmethod
    def at(cls, pair: LiteratureInputPair, target: float) -> LiteratureFunctional:
        """Return the noise at which the divergence is the target."""
        shift = _literature_pair_shifts(pair)
        return cls(
            _literature_noise_scale(
                lambda scale: laplace_divergence(shift / scale), target
            )
        )

    @property
    def noise(self) -> str:
        return f"b {self.scale:.3g}"

    def divergence(self, pair: LiteratureInputPair) -> float:
        return laplace_divergence(_literature_pair_shifts(pair) / self.scale)

    def promised(self, pair: LiteratureInputPair) -> float:
        return lattice_success(self.divergence(pair))

    def told_apart(self, pair: LiteratureInputPair, runs: int, seed: int) -> int:
        """Return how often the likelihood ratio of noisy costs is right."""

        def sample(under_b: int) -> FloatArray:
            stream = np.random.default_rng([seed, under_b])
            true = pair.b if under_b else pair.a
            seen = true + stream.laplace(0.0, self.scale, (runs, *true.shape))
            return laplace_ratio(seen - pair.a, seen - pair.b, self.scale).sum((1, 2))

        return _right_likelihood_guesses(sample)

    def answers(self, pair: LiteratureInputPair, seeds: int, seed: int) -> FloatArray:
        """Return the minimisers of the noisy costs, by `solve` without masks."""
        stream = np.random.default_rng([seed, 2])
        noise = stream.laplace(0.0, self.scale, (seeds, *pair.a.shape))
        plain = Masks("none")
        return np.stack(
            [_solve_literature_pair(pair, pair.a + one, plain, seed) for one in noise]
        )


def laplace_divergence(shifts: FloatArray) -> float:
    """Return the KL divergence of Laplace laws, each moved by so many of its scales.

    >>> round(laplace_divergence(np.array([1.0])), 6)
    0.367879
    """
    s = np.abs(shifts)
    # For a small s the two terms would cancel each other's digits.
    near = s**2 / 2.0 - s**3 / 6.0 + s**4 / 24.0
    return float(np.where(s < 1e-3, near, s + np.expm1(-s)).sum())


def laplace_ratio(from_a: FloatArray, from_b: FloatArray, scale: float) -> FloatArray:
    """Return log p(y | A) / p(y | B), by y - A and y - B."""
    return (np.abs(from_b) - np.abs(from_a)) / scale


def _literature_pair_shifts(pair: LiteratureInputPair) -> FloatArray:
    shift = (pair.a - pair.b)[pair.honest]
    return shift[shift != 0]


def _literature_noise_scale(
    divergence: Callable[[float], float], target: float
) -> float:
    low = high = 1.0
    while divergence(low) < target:
        low /= 2.0
    while divergence(high) > target:
        high *= 2.0
    found = optimize.brentq(
        lambda scale: divergence(scale) / target - 1.0, low, high, xtol=1e-15
    )
    return float(found)


# Huang, Mitra and Vaidya


class _LiteratureSteps:
    """Base of both iterations: symmetric weights, and no bound."""

    traits: ClassVar[MethodTraits] = MethodTraits(bounds="none", settles=False)
    rounds_per_iteration: ClassVar[int] = 1

    def parts(self, state: Any) -> tuple[Weighting, ...]:
        return ("symmetric",)

    def aim(self, state: Any) -> Vectors:
        x: Vectors = state.x
        return x


@dataclass(frozen=True)
class NoisyStates(_LiteratureSteps):
    """DGD that tells states with Laplace noise; steps and noise shrink geometrically.

    Attributes:
        step: c, the first step.
        decay: q: the step is c q^t.
        scale: b, of the first message's noise.
        noise_decay: p: the noise of message t is Laplace(b p^t).
    """

    step: float
    decay: float
    scale: float
    noise_decay: float
    seed: int = 0
    name: ClassVar[str] = "noisy-states"

    def begin(self, start: Vectors, cost: EffectiveCost) -> DgdState:
        return DgdState(start)

    def outgoing(self, state: DgdState) -> Vectors:
        """Return the state with fresh noise, the same however often it is asked for."""
        stream = np.random.default_rng([self.seed, state.iteration])
        scale = self.scale_at(state.iteration)
        noise: Vectors = stream.laplace(0.0, scale, state.x.shape)
        return state.x + noise

    def advance(self, state: DgdState, mixed: Vectors, cost: EffectiveCost) -> DgdState:
        step = self.step_at(state.iteration)
        return DgdState(mixed - step * cost.gradient(mixed), state.iteration + 1)

    def step_at(self, t: Any) -> Any:
        """Return c q^t."""
        return self.step * self.decay**t

    def scale_at(self, t: Any) -> Any:
        """Return b p^t."""
        return self.scale * self.noise_decay**t


@dataclass(frozen=True)
class LiteratureNoisyStates:
    """`NoisyStates` for so many iterations; the last state is told to nobody."""

    method: NoisyStates
    iterations: int
    name: ClassVar[str] = "states (Huang)"
    releases: ClassVar[str] = NOISY_MESSAGES

    @classmethod
    def at(cls, pair: LiteratureInputPair, target: float) -> LiteratureNoisyStates:
        """Return the noise at which the divergence is the target, and the best rest."""
        best, least = None, inf
        for step, decay, between in product(FIRST_STEPS, DECAYS, BETWEEN):
            method = NoisyStates(step, decay, 1.0, decay + between * (1.0 - decay))
            linear = _states_by_matrices(pair, method)
            moved = cls(method, LONGEST_STATES).ratios(pair)
            # KL is at most half the squares, and nearly that: near enough to choose by.
            halves = np.cumsum((moved**2).sum(axis=1)) / 2.0
            for t, bias, variance in _foreseen_literature_errors(
                pair, linear, LONGEST_STATES
            ):
                # After a single iteration nothing of alpha has been told.
                error = bias + halves[t - 2] / target * variance if t > 1 else inf
                if error < least:
                    best, least = cls(method, t), error
        assert best is not None
        unit = best.ratios(pair)
        scale = _literature_noise_scale(lambda b: laplace_divergence(unit / b), target)
        return cls(replace(best.method, scale=scale), best.iterations)

    @property
    def noise(self) -> str:
        return f"b {self.method.scale:.3g} x {self.method.noise_decay:.3g}^t"

    def ratios(self, pair: LiteratureInputPair) -> FloatArray:
        """Return by how many of its scales each message is moved, from the second on.

        c q^(t-1) / (b p^t) times what moved. Over all t the factors add up to
        c / (b (p - q)), which makes this epsilon-private in the paper.
        """
        times = np.arange(1, self.iterations)
        steps = self.method.step_at(times - 1) / self.method.scale_at(times)
        return np.outer(steps, _literature_pair_shifts(pair))

    def divergence(self, pair: LiteratureInputPair) -> float:
        return laplace_divergence(self.ratios(pair))

    def promised(self, pair: LiteratureInputPair) -> float:
        return lattice_success(self.divergence(pair))

    def told_apart(self, pair: LiteratureInputPair, runs: int, seed: int) -> int:
        """Return how often the likelihood ratio of all messages is right."""
        pair = pair.only_difference()

        def sample(under_b: int) -> FloatArray:
            method = replace(self.method, seed=2 * seed + under_b)
            engine = pair.engine(method, runs, under_b=bool(under_b))
            alphas = [np.tile(rows, runs) for rows in (pair.a, pair.b)]
            found, before = np.zeros(runs), None
            for state, told in _literature_messages(engine, self.iterations):
                if before is not None:
                    mixed, t = pair.weights @ before, state.iteration
                    step = method.step_at(t - 1)
                    slopes = pair.curvatures[:, None] * mixed
                    off_a, off_b = (
                        told - mixed + step * (slopes + one) for one in alphas
                    )
                    ratio = laplace_ratio(off_a, off_b, method.scale_at(t))
                    ratio = ratio[pair.honest]
                    found += ratio.reshape(len(ratio), runs, -1).sum((0, 2))
                before = told
            return found

        return _right_likelihood_guesses(sample)

    def answers(self, pair: LiteratureInputPair, seeds: int, seed: int) -> FloatArray:
        return _iterate_literature_method(
            pair, replace(self.method, seed=seed), self.iterations, seeds
        )


# DECOR


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseState:
    """x_i(t), what is told of it, and t."""

    x: Vectors
    told: Vectors
    iteration: int = 0


@dataclass(frozen=True)
class PairwiseNoise(_LiteratureSteps):
    """Gradient steps with noise that links share with opposite signs, and some more.

    Attributes:
        topology: whose links have noise.
        own: deviation of the noise that each party adds by itself.
        clip: no gradient is longer than this.
        dim: of x, if independent runs stand side by side.
    """

    topology: Topology
    step: float
    own: float
    pairs: float
    seed: int = 0
    clip: float = inf
    dim: int = 1
    name: ClassVar[str] = "pairwise-noise"

    def begin(self, start: Vectors, cost: EffectiveCost) -> PairwiseState:
        return PairwiseState(start, self._stepped(start, 0, cost))

    def outgoing(self, state: PairwiseState) -> Vectors:
        return state.told

    def advance(
        self, state: PairwiseState, mixed: Vectors, cost: EffectiveCost
    ) -> PairwiseState:
        after = state.iteration + 1
        return PairwiseState(mixed, self._stepped(mixed, after, cost), after)

    def link_noise(self, iteration: int, size: int) -> FloatArray:
        """Return what each link adds at its first end and takes at the other."""
        stream = np.random.default_rng([self.seed, 0, iteration])
        shape = self.topology.n_edges, size
        return self.pairs * stream.standard_normal(shape)

    def _stepped(self, x: Vectors, iteration: int, cost: EffectiveCost) -> Vectors:
        slope = cost.gradient(x)
        if isfinite(self.clip):
            runs = slope.reshape(len(slope), -1, self.dim)
            length = np.linalg.norm(runs, axis=-1, keepdims=True)
            slope = (runs * np.minimum(1.0, self.clip / length)).reshape(slope.shape)
        stream = np.random.default_rng([self.seed, 1, iteration])
        noise = self.own * stream.standard_normal(x.shape)
        if self.pairs:
            noise += self.topology.incidence @ self.link_noise(iteration, x.shape[1])
        return x - self.step * (slope + noise)


@dataclass(frozen=True)
class LiteraturePairwise:
    """`PairwiseNoise` for so many iterations."""

    method: PairwiseNoise
    iterations: int
    name: ClassVar[str] = "pairwise (DECOR)"
    releases: ClassVar[str] = NOISY_MESSAGES

    @classmethod
    def at(cls, pair: LiteratureInputPair, target: float) -> LiteraturePairwise:
        """Return the noise at which the divergence is the target, and the best rest."""
        best, least = None, inf
        for step in STEPS:
            method = PairwiseNoise(pair.topology, step, 1.0, PAIRS_TO_OWN)
            each = cls(method, 1).divergence(pair)
            ways = _foreseen_literature_errors(
                pair, _pairwise_by_matrices(pair, method), LONGEST_PAIRWISE
            )
            for iterations, bias, variance in ways:
                times = iterations * each / target
                if bias + times * variance < least:
                    scale = sqrt(times)
                    chosen = replace(method, own=scale, pairs=scale * PAIRS_TO_OWN)
                    best, least = cls(chosen, iterations), bias + times * variance
        assert best is not None
        return best

    @property
    def noise(self) -> str:
        return f"own {self.method.own:.2g} link {self.method.pairs:.2g}"

    def divergence(self, pair: LiteratureInputPair) -> float:
        # Two shares of deviation sigma on a link are one of sqrt(2) sigma.
        return self.iterations * kl_divergence(
            pair.topology,
            pair.a,
            pair.b,
            sigma=self.method.pairs / sqrt(2.0),
            tau=self.method.own,
            corrupted=pair.corrupted,
        )

    def promised(self, pair: LiteratureInputPair) -> float:
        return attacker_success(self.divergence(pair))

    def told_apart(self, pair: LiteratureInputPair, runs: int, seed: int) -> int:
        """Return how often the likelihood ratio of all messages is right."""
        pair = pair.only_difference()
        topology = pair.topology
        known = edges_touching_colluders(topology, topology.indices(pair.corrupted))
        test = _literature_gaussian_test(
            pair, pairs=self.method.pairs**2, own=self.method.own**2
        )

        def sample(under_b: int) -> FloatArray:
            method = replace(self.method, seed=2 * seed + under_b)
            engine = pair.engine(method, runs, under_b=bool(under_b))
            found = np.zeros(runs)
            for state, told in _literature_messages(engine, self.iterations):
                noise = method.link_noise(state.iteration, told.shape[1])
                noise[~known] = 0.0  # the coalition takes off what it knows
                slope = (state.x - told) / method.step - topology.incidence @ noise
                alpha = slope - pair.curvatures[:, None] * state.x
                rows = alpha.reshape(len(alpha), runs, -1)
                found += test(rows.transpose(0, 2, 1))
            return found

        return _right_likelihood_guesses(sample)

    def answers(self, pair: LiteratureInputPair, seeds: int, seed: int) -> FloatArray:
        return _iterate_literature_method(
            pair, replace(self.method, seed=seed), self.iterations, seeds
        )


# What several of them need


def _literature_gaussian_test(
    pair: LiteratureInputPair, *, pairs: float, own: float
) -> Callable[[FloatArray], FloatArray]:
    """Return the log likelihood ratio of honest parties' rows, (n, m, runs) -> runs.

    It is d' Cov^-1 (y - (A + B) / 2), Cov = pairs L_H + own I; where own is 0 this is
    on the vectors whose sum is zero, which d is one of.
    """
    h = pair.honest
    cov = pairs * pair.topology.induced(h).laplacian.toarray() + own * np.eye(len(h))
    if not own:
        cov += 1.0 / len(h)
    told = np.linalg.solve(cov, pair.a[h] - pair.b[h])
    middle = (pair.a[h] + pair.b[h]) / 2.0
    return lambda seen: np.einsum("hm,hmr->r", told, seen[h] - middle[..., None])


def _right_likelihood_guesses(sample: Callable[[int], FloatArray]) -> int:
    """Return how often the log likelihood ratio is right; at 0 the guess is A."""
    return int((sample(0) >= 0).sum() + (sample(1) < 0).sum())


def _literature_messages(
    engine: PlainEngine, iterations: int
) -> Iterator[tuple[Any, FloatArray]]:
    state = engine.begin()
    for _ in range(iterations):
        yield state, engine.task.method.outgoing(state)
        state = engine.advance(state, 1)


def _iterate_literature_method(
    pair: LiteratureInputPair, method: Method[Any], iterations: int, seeds: int
) -> FloatArray:
    engine = pair.engine(method, seeds)
    found = engine.points(engine.advance(engine.begin(), iterations))
    return found.reshape(len(found), seeds, -1).transpose(1, 0, 2)


# One iteration x -> M x - drift + noise of a covariance, per unit of noise.
Linear = tuple[FloatArray, FloatArray, FloatArray]


def _states_by_matrices(
    pair: LiteratureInputPair, method: NoisyStates
) -> Iterator[Linear]:
    mixing, t = pair.weights.toarray(), 0
    while True:
        step = method.step_at(t)
        move = (1.0 - step * pair.curvatures)[:, None] * mixing
        spread = 2.0 * method.noise_decay ** (2 * t) * move @ move.T
        yield move, step * pair.a, spread
        t += 1


def _pairwise_by_matrices(
    pair: LiteratureInputPair, method: PairwiseNoise
) -> Iterator[Linear]:
    mixing, step, links = pair.weights.toarray(), method.step, pair.topology.laplacian
    noise = method.own**2 * np.eye(len(mixing)) + method.pairs**2 * links.toarray()
    move = mixing * (1.0 - step * pair.curvatures)
    while True:
        yield move, step * mixing @ pair.a, step**2 * mixing @ noise @ mixing


def _foreseen_literature_errors(
    pair: LiteratureInputPair, linear: Iterable[Linear], longest: int
) -> Iterator[tuple[int, float, float]]:
    """Yield iterations, squared bias, variance: of the distance, a mean over parties.

    Exact, since each iteration is linear. Variance is per unit of the noise's variance.
    """
    n, dim = pair.a.shape
    mean, covariance, there = np.zeros((n, dim)), np.zeros((n, n)), pair.optimum
    for iterations, (move, drift, noise) in enumerate(linear, start=1):
        mean = move @ mean - drift
        covariance = move @ covariance @ move.T + noise
        bias = float(((mean - there) ** 2).sum()) / n
        yield iterations, bias, dim * float(np.trace(covariance)) / n
        if iterations == longest:
            return


# The table

WORDS = ("mechanism", "releases", "noise")


@dataclass(frozen=True, kw_only=True)
class MechanismRow:
    """One mechanism beside the others.

    Attributes:
        mechanism: its name.
        releases: what everybody sees.
        noise: what was chosen for the target.
        divergence: KL of the views of A and B, or a proved bound.
        divergence_if_sum_moves: the same if one party's coefficient moves alone.
        promised: the best guesser's success at even odds, or a proved bound.
        measured: how often the likelihood ratio was right.
        low: of its interval (Clopper and Pearson, 95 %).
        high: of its interval.
        error: distance of answers from the minimiser, root of the mean square over
            parties, median over seeds.
    """

    mechanism: str
    releases: str
    noise: str
    divergence: float
    divergence_if_sum_moves: float
    promised: float
    measured: float
    low: float
    high: float
    error: float

    @property
    def exact(self) -> bool:
        """Whether the sum is released, without noise."""
        return not isfinite(self.divergence_if_sum_moves)


@dataclass(frozen=True, eq=False, repr=False)
class LiteratureTable(Renderable):
    """All mechanisms at one divergence.

    Attributes:
        runs: under A, and as many under B.
        seeds: over which errors have their median.
        untouched: how far the start is from the minimiser: the error of no answer.
    """

    target: float
    runs: int
    seeds: int
    untouched: float
    rows: tuple[MechanismRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values for JSON; no number is infinite there."""
        found = asdict(self)
        for row in found["rows"]:
            numbers = ((key, one) for key, one in row.items() if key not in WORDS)
            row |= {key: None for key, one in numbers if not isfinite(one)}
        return {**found, "rows": list(found["rows"])}

    def showing(self) -> Rendering:
        heads = (
            *("mechanism", "noise", "releases", "KL of view", "if sum moves"),
            *("attacker at most", "measured", "error"),
        )
        rows = [
            (
                *(one.mechanism, one.noise, one.releases, one.divergence),
                *(one.divergence_if_sum_moves, one.promised, one.measured, one.error),
            )
            for one in self.rows
        ]
        text = self._text()
        note = text[text.rindex("\n\n") :].strip()
        html = Rendering("", [ShownTable(heads, rows, align="<<<>>>>>"), note]).html()
        return Rendering("", [ShownBothWays(text, html)])

    def _text(self) -> str:
        lines = [
            f"{'':<19} {'':<17} {'KL of':>6} {'if sum':>7} {'attacker right':>20}",
            f"{'mechanism':<19} {'noise':<17} {'view':>6} {'moves':>7} "
            f"{'at most':>7} {'measured':>12} error",
        ]
        for row in self.rows:
            moves = f"{row.divergence_if_sum_moves:.3f}"
            spread = max(row.high - row.measured, row.measured - row.low)
            error = f"{row.error:.2f}" if row.error >= 0.01 else f"{row.error:.0e}"
            lines.append(
                f"{row.mechanism:<19} {row.noise:<17} {row.divergence:>6.3g} "
                f"{moves:>7} {row.promised:>7.3f} "
                f"{row.measured:.3f} +-{spread:.3f} {error}"
            )
        lines += ["", "What each releases:"]
        told = dict.fromkeys(row.releases for row in self.rows)
        for releases in told:
            names = [row.mechanism for row in self.rows if row.releases == releases]
            lines += [f"  {'; '.join(names)}:", f"    {releases}"]
        lines += [
            "",
            f"{self.runs:,} runs under A and as many under B; errors are medians of "
            f"{self.seeds} seeds,",
            f"{self.untouched:.2g} without any answer.",
        ]
        return "\n".join(lines)

    def draw_with(self, figures: ModuleType) -> Any:
        """Return errors over the attacker's success."""
        return literature_figure(figures, [self])


def literature_figure(figures: ModuleType, tables: Sequence[LiteratureTable]) -> Any:
    """Return errors over the attacker's success, one line for each mechanism.

    Exact answers are so much better that they have an axis of their own, below. Open
    marks are of mechanisms that hide the sum as well.
    """
    title = "At the same divergence of the view: how far answers are from the true one"
    lines = (len(tables[0].rows) + 1) // 2
    caption = "filled: the sum is released; open: the sum is hidden, too"
    side: dict[str, Any] = {"gap": 0.12, "bottom": 0.65 + 0.19 * lines}
    figure, (upper, lower) = figures.figure_panels(
        2.7, 1.3, title=title, caption=caption, sharex=True, **side
    )
    marks, untouched = "oDs^vPX", tables[0].untouched
    noisy = [row for one in tables for row in one.rows if not row.exact]
    least = min([row.error for row in noisy], default=untouched)
    for place, rows in enumerate(zip(*(one.rows for one in tables), strict=True)):
        exact = rows[0].exact
        at = np.array([row.measured for row in rows])
        ends = [[row.low for row in rows], [row.high for row in rows]]
        look: dict[str, Any] = {"color": figures.PALETTE[place]}
        look["markerfacecolor"] = figures.PALETTE[place] if exact else "white"
        (lower if exact else upper).errorbar(
            at,
            # Nothing is drawn of a zero on such an axis.
            np.maximum([row.error for row in rows], 2.0**-55),
            xerr=np.abs(np.array(ends) - at),
            fmt=marks[place],
            linestyle=figures.LINES[place % len(figures.LINES)],
            linewidth=0.8,
            **look,
        )
        upper.plot([], [], marks[place], **look, label=rows[0].mechanism)
    upper.axhline(untouched, color=figures.GREY, linewidth=0.8)
    upper.text(
        1.0, untouched * 1.15, "no answer at all", ha="right", color=figures.GREY
    )
    for one in (upper, lower):
        one.set_yscale("log")
        one.grid(visible=True, alpha=0.3)
    upper.set(ylim=(least / 3.0, 4.0 * untouched), ylabel="error of the answer")
    lower.set(ylim=(1e-17, 1e-14), xlim=(0.48, 1.02))
    lower.set(xlabel="how often the attacker is right, with its 95 % interval")
    lower.set_ylabel("of exact ones")
    handles, labels = upper.get_legend_handles_labels()
    figures.legend_below(lower, handles, labels, anchor=upper)
    return figure


# Divergences at which mechanisms are put beside each other, from hidden well to hardly.
TARGETS = (0.05, 0.25, 1.0)


def beside_the_literature(
    seed: int = 0, runs: int = 1000, target: float = 0.25, seeds: int = 11
) -> LiteratureTable:
    """Return Function Sharing and others at the same divergence of the view.

    Args:
        seed: of the problem, the noise and the shares.
        runs: of the attack on each mechanism, under A and as many under B.
        target: the KL divergence of every view but those that have none or all.
        seeds: over which the error of an answer has its median.
    """
    seed = as_whole_number(seed, what="a seed", least=0)
    runs, seeds = (
        as_whole_number(one, what="a count", least=1) for one in (runs, seeds)
    )
    if max(runs, seeds) > MOST_RUNS:
        raise InvalidInputError(
            f"at most {MOST_RUNS:,} runs or seeds are made at once",
            code="too-many-runs",
        )
    if not (is_real_number(target) and LEAST_TARGET <= target <= MOST_TARGET):
        raise InvalidInputError(
            f"the divergence must be a number from {LEAST_TARGET:g} to "
            f"{MOST_TARGET:g}, found {target!r}",
            code="divergence-out-of-range",
        )
    pair = decor_quadratics(seed)
    laws: Sequence[LawName] = ("none", "gaussian", "lattice", "uniform")
    mechanisms: list[LiteratureMechanism] = [
        *(LiteratureSharing.at(pair, law, target) for law in laws),
        LiteratureFunctional.at(pair, target),
        LiteratureNoisyStates.at(pair, target),
        LiteraturePairwise.at(pair, target),
    ]
    rows = [
        _literature_mechanism_row(one, pair, runs, seeds, seed) for one in mechanisms
    ]
    untouched = float(np.linalg.norm(pair.optimum))
    return LiteratureTable(target, runs, seeds, untouched, tuple(rows))


def _literature_mechanism_row(
    mechanism: LiteratureMechanism,
    pair: LiteratureInputPair,
    runs: int,
    seeds: int,
    seed: int,
) -> MechanismRow:
    right = mechanism.told_apart(pair, runs, seed)
    low, high = clopper_pearson(right, 2 * runs, ALARMS)
    gaps = mechanism.answers(pair, seeds, seed) - pair.optimum
    errors = np.sqrt((gaps**2).sum(axis=-1).mean(axis=-1))
    return MechanismRow(
        mechanism=mechanism.name,
        releases=mechanism.releases,
        noise=mechanism.noise,
        divergence=mechanism.divergence(pair),
        divergence_if_sum_moves=mechanism.divergence(pair.without_partner()),
        promised=mechanism.promised(pair),
        measured=right / (2 * runs),
        low=low,
        high=high,
        error=float(np.median(errors)),
    )
