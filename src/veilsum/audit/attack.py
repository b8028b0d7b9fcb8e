"""Attacks: repeated guesses from a view, their success count and its allowed chance.

An attack is repeated many times on synthetic inputs, so that the auditor knows the
truth and needs no party's numbers. `Outcome` holds the count and the highest chance of
success that a sound run allows, with a Clopper-Pearson interval, and the smallest
chance that it would have detected: without that, finding nothing means nothing.

Attacks on masks share their executions. `MaskShares` of one batch serve all coalitions
and all attacks: another execution is a few more coefficients, drawn by the package's
own laws and added up by its own `MaskShares`, so that the batch includes any defect
there. An `AttackPlayer` is one attack by one coalition. It defines the inputs of the
parties in either of two worlds, and gets a `CoalitionSight`, which has the coalition's
view and no hidden share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import special

from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import MaskLaw
from veilsum.masks.masking import MaskShares, ShareStreams, draw_mask_shares
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import limbs_to_integers
from veilsum.numbers.shapes import Bool, Int, Shaped
from veilsum.privacy.transcript import edges_touching_colluders

# How often all that an audit says may be wrong together, if everything is sound.
FALSE_ALARMS = 0.05
# The attack on what parties with keys, disks and ledgers write and send.
REAL_PARTIES = "what real parties leave behind"
# An excess is called findable if it is found this often.
CHANCE = 0.9

Numbers = Shaped[Array[Any], "*batch p"]
Worlds = Int[Array[Any], " trials"]
Hits = Bool[Array[Any], " trials"]


@dataclass(frozen=True)
class Outcome:
    """Success count of one attack, and the highest chance that is allowed.

    Attributes:
        coalition: the attackers; empty for an outsider, or if everybody may attack.
        about: the thing distinguished or recovered, in a few words.
        promised: the highest chance of being right that a sound run allows.
        looked_at: `masks`, `sums`, `frames`, `words` or `clock`.
    """

    attack: str
    coalition: tuple[str, ...]
    about: str
    trials: int
    successes: int
    promised: float
    looked_at: str = "masks"

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.trials or self.trials < 1:
            raise InvalidInputError(
                f"{self.successes} successes in {self.trials} trials: an attack is "
                "played at least once and succeeds at most every time",
                code="impossible-success-count",
            )

    @property
    def rate(self) -> float:
        """Part of the trials that succeeded."""
        return self.successes / self.trials

    def interval(self, alarms: float = FALSE_ALARMS) -> tuple[float, float]:
        """Return bounds of the chance, each wrong at most this often."""
        return clopper_pearson(self.successes, self.trials, alarms)

    def exceeds(self, alarms: float = FALSE_ALARMS) -> bool:
        """Say whether it was right more often than promised, but for chance."""
        return self.interval(alarms)[0] > self.promised

    def findable(self, alarms: float = FALSE_ALARMS) -> float | None:
        """Return the least chance of success that would be found, 9 times in 10.

        None if even an attack that always succeeds would not be.
        """
        return least_success_found(self.promised, self.trials, alarms)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "coalition": list(self.coalition), "rate": self.rate}

    def row(self, alarms: float = FALSE_ALARMS) -> tuple[str, ...]:
        """Return a line of the table of attacks; see `COLUMNS`."""
        low, high = self.interval(alarms)
        return (
            self.attack,
            ", ".join(self.coalition) or "anybody",
            _attack_percent(self.promised),
            f"{_attack_percent(self.rate)}{' !' if self.exceeds(alarms) else ''}",
            f"{_attack_percent(low)} to {_attack_percent(high)}",
            _attack_percent(self.findable(alarms)),
        )


# What people read of an attack.
COLUMNS = ("attack", "by", "promised", "measured", "interval", "would find")


def _attack_percent(chance: float | None) -> str:
    if chance is None:
        return "nothing"
    if 0.0 < chance < 5e-5:
        return "<0.01%"
    return f"{100 * chance:.3g}%" if chance in {0.0, 1.0} else f"{100 * chance:.2f}%"


def clopper_pearson(
    successes: int, trials: int, alarms: float = FALSE_ALARMS
) -> tuple[float, float]:
    """Return exact bounds of a chance, either of them wrong at most this often.

    >>> low, high = clopper_pearson(64, 100, 0.025)
    >>> round(low, 4), round(high, 4)
    (0.5379, 0.7336)
    """
    low, high = 0.0, 1.0
    if successes > 0:
        low = float(special.betaincinv(successes, trials - successes + 1, alarms))
    if successes < trials:
        high = float(special.betainccinv(successes + 1, trials - successes, alarms))
    return low, high


def least_success_found(
    promised: float, trials: int, alarms: float = FALSE_ALARMS, chance: float = CHANCE
) -> float | None:
    """Return the least chance of success that is found to exceed a promise.

    Found means that Clopper and Pearson's lower bound is above the promise, with
    probability `chance`. None if so few trials never find any.

    >>> round(least_success_found(0.51, 100_000, 0.005), 4)
    0.5161
    """
    enough = successes_that_refute(promised, trials, alarms)
    if enough is None:
        return None
    # The chance at which so many successes have this probability: a beta quantile.
    return float(special.betaincinv(enough, trials - enough + 1, chance))


def successes_that_refute(promised: float, trials: int, alarms: float) -> int | None:
    """Return how many successes exceed a promise; None if even all of them do not."""
    if clopper_pearson(trials, trials, alarms)[0] <= promised:
        return None
    low, high = 0, trials
    while high - low > 1:
        middle = (low + high) // 2
        if clopper_pearson(middle, trials, alarms)[0] > promised:
            high = middle
        else:
            low = middle
    return high


# Draws all shares of a batch from a root: the package's way, or a planted leak's.
Drawing = Callable[[Topology, MaskLaw, int, int, int], MaskShares]
Encoding = Callable[[MaskLaw, Array[Any]], Array[Any]]


def sound_shares_for_attack(
    topology: Topology, law: MaskLaw, root: int, size: int, epoch: int = 0
) -> MaskShares:
    """Return shares as simulated parties draw them."""
    return draw_mask_shares(topology, law, ShareStreams(root), size=size, epoch=epoch)


def encode_for_attack(law: MaskLaw, values: Array[Any]) -> Array[Any]:
    """Return a party's values in the law's numbers, as parties do."""
    return law.encode(values)


@lru_cache(maxsize=16)
def law_of_many_executions(law: MaskLaw, width: int, times: int) -> MaskLaw:
    """Return the law of so many executions at once, coefficient by coefficient."""
    return law.of_places([place for place in range(width) for _ in range(times)])


@dataclass(frozen=True, eq=False, kw_only=True)
class Scene:
    """Promised properties of the masks, and their actual drawing and encoding.

    Attributes:
        topology: promised graph of the parties that exchange shares.
        law: promised law of the shares.
        encode: actual conversion of a party's values into the law's numbers.
        plan: law and width of the plan, where `law` and `width` stand for them.
    """

    topology: Topology
    law: MaskLaw
    width: int
    draw: Drawing = sound_shares_for_attack
    encode: Encoding = encode_for_attack
    plan: tuple[MaskLaw, int] | None = None

    @property
    def plan_law(self) -> MaskLaw:
        """Law with which parties mask whole vectors."""
        return self.law if self.plan is None else self.plan[0]

    @property
    def plan_width(self) -> int:
        """Length of these vectors."""
        return self.width if self.plan is None else self.plan[1]

    def batch(self, root: int, executions: int) -> AttackedShares:
        """Return the shares of some executions."""
        law, size = (
            law_of_many_executions(self.law, self.width, executions),
            executions * self.width,
        )
        return AttackedShares(self, self.draw(self.topology, law, root, size, 0), root)

    def colluders(self, coalition: Iterable[str]) -> tuple[str, ...]:
        """Return the names of a coalition in the topology's order."""
        return self.topology.names(self.topology.indices(coalition))

    def others(self, coalition: Iterable[str]) -> list[int]:
        """Return who is not in a coalition, as places in the topology."""
        colluders = self.topology.indices(coalition)
        return [i for i in range(self.topology.n_parties) if i not in colluders]


@dataclass(frozen=True, eq=False, repr=False)
class AttackedShares:
    """Shares of some executions, for all coalitions.

    Attributes:
        shares: of all executions: in the last axis all of the first coefficient, then
            all of the second.
    """

    scene: Scene
    shares: MaskShares
    root: int

    @property
    def executions(self) -> int:
        return int(self.shares.values.shape[-1]) // self.scene.width

    @cached_property
    def masks(self) -> Numbers:
        """Everybody's masks, (n, executions, p)."""
        return self.by_execution(limbs_to_integers(self.shares.masks()))

    def noise(self, coalition: tuple[str, ...]) -> Numbers:
        """Return what masks add to each honest party beside what a coalition knows."""
        shape = (self.scene.topology.n_parties, self.scene.width)
        return self.sight(coalition, np.zeros(shape, self.masks.dtype)).stripped

    def sight(
        self,
        coalition: Iterable[str],
        values: Shaped[Array[Any], "*batch n p"],
        part: slice = slice(None),
    ) -> CoalitionSight:
        """Return what a coalition sees if the parties hold these in each execution.

        Args:
            coalition: by name.
            values: in the law's numbers, limbs as Python integers, (executions, n, p),
                or (n, p) for all of them.
            part: of the executions, where only some are looked at.
        """
        topology = self.scene.topology
        colluders = topology.indices(coalition)
        inside = np.flatnonzero(edges_touching_colluders(topology, colluders))
        honest = self.scene.others(coalition)
        rows = values[..., honest, :] if values.ndim == 2 else values[:, honest]
        rows = rows[:, None] if values.ndim == 2 else np.moveaxis(rows, 1, 0)
        return CoalitionSight(
            scene=self.scene,
            coalition=topology.names(colluders),
            honest=tuple(honest),
            effective=self.scene.law.wrap(self.masks[honest][:, part] + rows),
            known_edges=inside,
            known=tuple(
                self.by_execution(limbs_to_integers(self.shares.values[edge]))[:, part]
                for edge in inside
            ),
        )

    def by_execution(self, flat: Array[Any]) -> Numbers:
        shape = (*flat.shape[:-1], self.scene.width, self.executions)
        return np.swapaxes(flat.reshape(shape), -1, -2)


def edge_noise_in_attack(shares: Numbers) -> Numbers:
    """Return r_ij - r_ji of one edge, or r_ij alone where links are one-way."""
    return shares[0] - shares[1] if len(shares) == 2 else shares[0]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CoalitionSight:
    """A coalition's view of some executions, in the law's numbers.

    Attributes:
        coalition: names of its members.
        honest: indices of the other parties in the topology.
        effective: masked vectors of these, values plus masks, (h, executions, p).
        known_edges: indices of the edges that touch the coalition.
        known: the shares on each of these edges, (2, executions, p): r_ij then r_ji.
    """

    scene: Scene
    coalition: tuple[str, ...]
    honest: tuple[int, ...]
    effective: Numbers
    known_edges: Int[Array[Any], " known"]
    known: tuple[Numbers, ...]

    @cached_property
    def known_shares(self) -> Numbers:
        """All known shares, (edges, 2, executions, p)."""
        shape = (0, self.scene.topology.shares_per_edge, *self.effective.shape[1:])
        return np.stack(self.known) if self.known else np.zeros(shape)

    @cached_property
    def stripped(self) -> Numbers:
        """Masked vectors of the honest parties, less the shares the coalition knows."""
        edges = self.scene.topology.edges[self.known_edges].tolist()
        place = {party: row for row, party in enumerate(self.honest)}
        # In the order of the shares, which has executions last.
        left = self.effective.copy(order="K")
        for (i, j), shares in zip(edges, self.known, strict=True):
            if i not in place and j not in place:
                continue
            noise = edge_noise_in_attack(shares)
            if i in place:
                left[place[i]] -= noise
            if j in place:
                left[place[j]] += noise
        return self.scene.law.wrap(left)


@runtime_checkable
class AttackPlayer(Protocol):
    """One attack in the hands of one coalition."""

    @property
    def attack(self) -> str:
        """Its name."""

    @property
    def about(self) -> str:
        """The thing distinguished or recovered."""

    @property
    def coalition(self) -> tuple[str, ...]:
        """Names of the attackers."""

    @property
    def promised(self) -> float:
        """The highest chance of success that a sound run allows."""

    @property
    def held(self) -> Shaped[Array[Any], "2 together n p"]:
        """The parties' inputs in either world, in the law's numbers.

        The second axis has the executions of one trial, which belong together.
        """

    def play(self, sight: CoalitionSight, worlds: Worlds) -> Hits:
        """Return in which trials the attack was right.

        Args:
            sight: what the coalition saw; executions of a trial follow each other.
            worlds: 0 or 1 for each trial: the truth, to judge by, not to guess from.
        """


def play_on_batch(
    batch: AttackedShares, player: AttackPlayer, worlds: Worlds
) -> tuple[int, int]:
    """Let an attack be played on a batch; return how often, and how often it was right.

    `worlds` are as many coins, 0 or 1, as the batch has executions.
    """
    held = player.held
    together = held.shape[1]
    trials = batch.executions // together
    if trials == 0:
        return 0, 0
    # Executions are all alike: those of one world may as well come first.
    worlds = np.sort(worlds[:trials])
    ones = int(worlds.sum())
    right = 0
    for world, first, last in ((0, 0, trials - ones), (1, trials - ones, trials)):
        if first == last:
            continue
        part = slice(together * first, together * last)
        values = held[world, 0]
        if together > 1:
            values = np.tile(held[world], (last - first, 1, 1))
        sight = batch.sight(player.coalition, values, part)
        right += int(np.count_nonzero(player.play(sight, worlds[first:last])))
    return trials, right
