"""Scripts of what goes wrong in a loopback world, drawn from a seed or written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Crash:
    """A party dies right after its n-th effect, and perhaps comes back."""

    party: str
    after: int
    back: float | None = 5.0
    stale: int = 0


@dataclass(frozen=True, slots=True)
class Partition:
    start: float
    end: float
    side: frozenset[str]


@dataclass(frozen=True, slots=True)
class ClockJump:
    """A party's clock leaps: all its timers come due at once, or that much later."""

    party: str
    at: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Everything that happens to a run."""

    delay: tuple[float, float] = (0.01, 0.01)
    loss: float = 0.0
    duplicate: float = 0.0
    crashes: tuple[Crash, ...] = ()
    partitions: tuple[Partition, ...] = ()
    jumps: tuple[ClockJump, ...] = ()

    @classmethod
    def drawn(cls, seed: int, parties: Sequence[str]) -> Faults:
        """Return a script that a seed repeats: each kind of fault in some of them."""
        chance = Random(seed)  # noqa: S311 - a script, not a secret
        return cls(
            delay=(0.01, chance.choice([0.01, 0.1, 1.0, 4.0])),
            loss=chance.choice([0.0, 0.0, 0.05, 0.3]),
            duplicate=chance.choice([0.0, 0.0, 0.1, 0.5]),
            crashes=tuple(
                _random_crash_fault(chance, parties) for _ in range(chance.randrange(4))
            ),
            partitions=tuple(
                _random_partition_fault(chance, parties)
                for _ in range(chance.choice([0, 0, 1, 2]))
            ),
            jumps=tuple(
                ClockJump(
                    chance.choice(parties),
                    chance.uniform(0, 60),
                    chance.choice([-20.0, 20.0, 100.0]),
                )
                for _ in range(chance.choice([0, 0, 1]))
            ),
        )


def _random_crash_fault(chance: Random, parties: Sequence[str]) -> Crash:
    return Crash(
        chance.choice(parties),
        after=int(chance.triangular(1, 120, 20)),
        back=chance.choice([None, 0.5, 5.0, 40.0, 90.0]),
        stale=chance.choice([0, 0, 0, 1, 5, 1000]),
    )


def _random_partition_fault(chance: Random, parties: Sequence[str]) -> Partition:
    start = chance.uniform(0, 60)
    size = chance.randrange(1, len(parties))
    side = frozenset(chance.sample(list(parties), size))
    return Partition(start, start + chance.choice([2.0, 20.0, 120.0]), side)
