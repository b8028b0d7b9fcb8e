"""Weak randomness: shares that a sound generator would not have drawn.

A coalition looks at the shares that it sent and received. Each of these would show that
hidden ones are no better, and each happens by chance in fewer than `LUCK` of trials:

- all numbers of a share are the same, zero among them;
- two shares are the same, on two edges, in two directions or in two executions;
- a share is narrower than agreed: the squares of N numbers add up to less than chi^2_N
  ever does, or a bit of residues never changes.

`attack_small_roots` tries all roots of a few bits instead. One share tells the root,
and the root tells everybody's shares, so that success is to name what all honest
parties hold.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import ceil, log
from typing import Any

import numpy as np
from scipy import special

from veilsum.audit.attack import (
    CoalitionSight,
    Hits,
    Outcome,
    Scene,
    Worlds,
    law_of_many_executions,
    sound_shares_for_attack,
)
from veilsum.audit.made_up import (
    LUCK,
    attack_hits_exactly,
    attack_numbers_as_floats,
    executions_per_trial,
    made_up_holdings,
    made_up_numbers,
    most_likely_share_probability,
    sigma_of_scene,
)
from veilsum.audit.planted import SEED_BITS
from veilsum.masks.laws import MaskLaw
from veilsum.masks.masking import ShareStreams
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import limbs_to_integers
from veilsum.numbers.shapes import Shaped
from veilsum.privacy.transcript import edges_touching_colluders
from veilsum.scale.pieces import map_pieces, seed_of_piece

# More trials than any batch has: repetition is looked for among all of them.
MOST_TRIALS = 2**24
# A tenth of sigma, or a bit that never changes, is told from chance by so many numbers.
ENOUGH = 64
# The largest of 64 bits.
PRIME = 2**64 - 59
# Pieces of a table of roots, and tables that are kept.
PARTS, MOST_TABLES = 32, 2

Rows = Shaped[Array[Any], "arcs trials numbers"]


@dataclass(frozen=True, eq=False)
class WeakRandomness:
    """The attack in the hands of one coalition.

    Attributes:
        coalition: by name.
    """

    scene: Scene
    coalition: tuple[str, ...]
    together: int

    attack = "weak randomness"
    about = "shares that are constant, repeated or too narrow"
    # Constant, repeated, narrow.
    promised = 3 * LUCK

    @cached_property
    def held(self) -> Shaped[Array[Any], "2 together n p"]:
        """The same in both worlds: shares are looked at."""
        held = made_up_numbers(self.scene, made_up_holdings(self.scene))
        return np.broadcast_to(held, (2, self.together, *held.shape))

    def play(self, sight: CoalitionSight, worlds: Worlds) -> Hits:
        trials, known = len(worlds), sight.known_shares
        arcs = known.shape[0] * known.shape[1]
        used = known[:, :, : trials * self.together]
        rows = used.reshape(arcs, trials, -1)
        alike = np.asarray(rows == rows[..., :1], dtype=np.bool_).all(axis=-1)
        odd = alike | repeated_share_rows(rows) | self._narrow(sight, rows)
        return np.asarray(odd.any(axis=0), dtype=np.bool_)

    def _narrow(
        self, sight: CoalitionSight, rows: Rows
    ) -> Shaped[Array[Any], "arcs trials"]:
        law, (arcs, _, count) = self.scene.law, rows.shape
        if law.sums_only:
            full = (1 << 8 * law.number_bytes) - 1
            if rows.dtype != object:
                full = rows.dtype.type(full)
            ones = np.bitwise_and.reduce(rows, axis=-1) & full
            zeros = ~np.bitwise_or.reduce(rows, axis=-1) & full
            return np.asarray((ones | zeros) != 0, dtype=np.bool_)
        sigma = sigma_of_scene(self.scene)
        if sigma is None:
            return np.zeros(rows.shape[:2], dtype=np.bool_)
        weights = self.scene.topology.weights[sight.known_edges]
        each = np.repeat(np.sqrt(weights), arcs // len(weights))[:, None, None]
        shape = (arcs, -1, self.scene.width)
        reals = attack_numbers_as_floats(self.scene, rows.reshape(shape)) / (
            each * sigma
        )
        squares = (reals**2).reshape(rows.shape).sum(axis=-1)
        return squares < special.chdtri(count, 1.0 - LUCK / arcs)


def aim(scene: Scene, coalition: Sequence[str]) -> WeakRandomness | None:
    """Return the attack; None for a coalition that knows no share, or without masks."""
    topology = scene.topology
    colluders = topology.indices(coalition)
    known = (
        int(edges_touching_colluders(topology, colluders).sum())
        * topology.shares_per_edge
    )
    if not known or not scene.law.hides:
        return None
    # One number is what the others are compared with.
    chance, pairs = (
        most_likely_share_probability(scene.law),
        float(known) ** 2 * MOST_TRIALS,
    )
    needed = max(ENOUGH, 1 + ceil(log(LUCK / pairs) / log(chance)))
    executions = -(-needed // scene.width)
    return WeakRandomness(scene, topology.names(colluders), executions)


def repeated_share_rows(rows: Rows) -> Shaped[Array[Any], "arcs trials"]:
    """Return which rows are there twice, by 64-bit sums with random weights."""
    if rows.dtype == np.float64:
        words = np.ascontiguousarray(rows).view(np.uint64)
    elif rows.dtype == object:
        words = (rows % PRIME).astype(np.uint64)
    else:
        words = rows.astype(np.int64).view(np.uint64)
    # Round floats differ in their first bits only, which multiplying would shift out.
    words = words ^ (words >> np.uint64(32))
    stream = np.random.default_rng(rows.shape[-1])
    weights = stream.integers(0, 2**64, size=rows.shape[-1], dtype=np.uint64)
    sums = (words * (weights | np.uint64(1))).sum(axis=-1, dtype=np.uint64)
    _, place, count = np.unique(sums, return_inverse=True, return_counts=True)
    return np.asarray(count[place].reshape(sums.shape) > 1, dtype=np.bool_)


def attack_small_roots(
    scene: Scene,
    coalition: Sequence[str],
    *,
    seed: int,
    trials: int = 16,
    bits: int = SEED_BITS,
    on: Executor | None = None,
) -> Outcome | None:
    """Look for the root of simulated shares among all of so many bits.

    None for a coalition that knows no share, or that leaves nobody to be known.

    Args:
        scene: what is promised, and how shares come about.
        coalition: who looks.
        seed: of the trials, each of which has a root of its own.
        trials: how many.
        bits: of the roots that are tried.
        on: who makes the table of roots.
    """
    topology, law = scene.topology, scene.law
    colluders = topology.indices(coalition)
    known = np.flatnonzero(edges_touching_colluders(topology, colluders))
    if not len(known) or not law.hides or len(colluders) == topology.n_parties:
        return None
    executions = executions_per_trial(scene, 2**bits)
    size, edge = executions * scene.width, int(known[0])
    (i, j), weight = topology.edges[edge].tolist(), float(topology.weights[edge])
    each = _WeakRandomnessRoots(
        law_of_many_executions(law, scene.width, executions), size, i, j, weight, bits
    )
    table = _table_of_weak_roots(each, on)
    whole = made_up_holdings(scene)
    truth, right = made_up_numbers(scene, whole), 0
    for trial in range(trials):
        batch = scene.batch(seed_of_piece(seed, trial), executions)
        sight = batch.sight(coalition, truth)
        guess = table.get(_weak_share_key(sight.known[0][0].T.ravel()))
        if guess is None:
            continue
        again = replace(scene, draw=sound_shares_for_attack).batch(guess, executions)
        found = law.wrap(sight.effective - again.masks[list(sight.honest)])
        right += bool(
            attack_hits_exactly(scene, found, truth[list(sight.honest), None]).all()
        )
    about = f"what everybody holds, from roots of {bits} bits"
    return Outcome("few seeds", topology.names(colluders), about, trials, right, LUCK)


@dataclass(frozen=True)
class _WeakRandomnessRoots:
    """Shares on one link from all roots of a few bits: called with some of these."""

    law: MaskLaw
    size: int
    sender: int
    receiver: int
    weight: float
    bits: int

    def __call__(self, key: int, seed: int) -> list[int]:
        del seed
        whole = range(2**self.bits)
        many = -(-len(whole) // PARTS)
        where = {"epoch": 0, "sender": self.sender, "receiver": self.receiver}
        own = [
            ShareStreams(root).stream(**where)
            for root in whole[key * many : (key + 1) * many]
        ]
        shares = self.law.draw_rows(own, self.size, self.weight)
        return [_weak_share_key(share) for share in limbs_to_integers(shares)]


def _table_of_weak_roots(
    roots: _WeakRandomnessRoots, on: Executor | None
) -> dict[int, int]:
    """Return the root of every share that so few roots can give."""
    if roots in _TABLES:
        _TABLES.move_to_end(roots)
        return _TABLES[roots]
    seen = chain.from_iterable(map_pieces(roots, range(PARTS), seed=0, on=on))
    _TABLES[roots] = {one: root for root, one in enumerate(seen)}
    if len(_TABLES) > MOST_TABLES:
        _TABLES.popitem(last=False)
    return _TABLES[roots]


_TABLES: OrderedDict[_WeakRandomnessRoots, dict[int, int]] = OrderedDict()


def _weak_share_key(share: Shaped[Array[Any], " size"]) -> int:
    return hash(tuple(share.tolist()))
