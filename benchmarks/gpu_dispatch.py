"""A year of hourly dispatch for a million homes, masks included, on one device.

    python benchmarks/gpu_dispatch.py                            # wants a GPU
    python benchmarks/gpu_dispatch.py --agents 2000 --hours 24   # any machine

Every hour is a dispatch of its own: at a price each home runs its unit where marginal
cost meets the price, within limits, and the price is searched at which all of them
together meet all demands to within one watt. Prices are proposed by the package's own
search (`veilsum.models.price`), all hours at once, from whole totals modulo 2^192, as
between real parties: each home's three numbers are masked by what it sends to six
neighbours less what it receives from them, fresh in every round of every hour
(`veilsum.minimise.device_masks`; by counters, so simulation only), and all that is used
of them is their sum. Nothing but agents' numbers is on the device; no home is ever an
object of Python.

Before anything is timed, a small fleet goes both ways, here by numpy and the package's
sites, and must arrive at the same totals and prices to the last bit. In every round the
sum of masked numbers must be that of the plain ones: masks add up to exactly zero.

One line of JSON: seconds of each phase, agents x hours a second, and beside it a round
by numpy on a small part of the fleet, scaled to the whole and marked as such.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import operator
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from clocks import sized
from veilsum.minimise.costs.differentiated import in_64_bits
from veilsum.minimise.device_masks import (
    device_key_of_arc,
    device_key_of_seed,
    threefry_on_device,
)
from veilsum.models.price import PriceSearch, PriceSettled, Site, State, TriedPrice

# Powers are in watts, prices in cents for a kilowatt hour.
SEARCH = PriceSearch(low=0.0, high=200.0, tolerance=1.0, unit=Fraction(1))
NUMBERS, WORDS = 3, 3  # of a home's answer, and of each of its residues
HOMES, DEMANDS = 2, 3  # purposes of counters, beside that of shares
# A tile of agents and hours that the device answers for at once.
TILE_AGENTS, TILE_HOURS = sized((62_500, 1_095), (50, 2))
LOW = 0xFFFFFFFF
# As many rounds as hours take, about, to tell beforehand how long it will be.
USUAL_ROUNDS = 10


def power_of(unit: Fraction) -> float:
    """Return how many of a unit are one; units here are powers of two."""
    assert unit.numerator == 1
    assert unit.denominator & (unit.denominator - 1) == 0
    return float(unit.denominator)


STEPS, RISES = (power_of(SEARCH.layout.counts.units[k]) for k in (0, 2))


@dataclass(frozen=True)
class Homes:
    """A fleet by counters: every number follows from a seed and its place.

    Whole numbers and powers of two only, so that numpy and any device agree on them to
    the last bit.
    """

    agents: int
    seed: int = 1

    @cached_property
    def strides(self) -> tuple[int, int, int]:
        """How far away neighbours are, on either side, on a circle of all agents."""
        root = max(2, round(self.agents ** (1 / 3)))
        if self.agents < 9:
            raise SystemExit("take nine agents or more: each has six neighbours")
        return 1, root, root**2

    def columns(self, agent: Any) -> dict[str, Any]:
        """Return what agents hold at all hours, one number each."""
        key, none = device_key_of_seed(self.seed, purpose=HOMES), agent * np.uint32(0)
        load, kind = threefry_on_device(key, (agent, none))
        size, cost = threefry_on_device(key, (agent, none + np.uint32(1)))
        sunny = kind & np.uint32(3) == np.uint32(0)
        cents = np.uint32(1023) & cost
        cents = sunny * cents + ~sunny * (np.uint32(5120) + cost % np.uint32(30720))
        bend = np.uint32(64) + (kind >> np.uint32(2) & np.uint32(511))
        return {
            "load": np.uint32(400) + load % np.uint32(2400),
            "most": np.uint32(1000) + size % np.uint32(7000),
            "sunny": sunny,
            "b": cents.astype(np.float64) * 2.0**-10,
            "twice_a": bend.astype(np.float64) * 2.0**-16,
        }

    def watts(self, agent: Any, columns: Any, hour: Any, shapes: Any) -> Any:
        """Return demands and greatest outputs of agents, by rows, at hours."""
        key = device_key_of_seed(self.seed, purpose=DEMANDS)
        noise, _ = threefry_on_device(key, (agent[:, None], hour[None, :]))
        use, sun = shapes
        load, most, sunny = (
            columns[name][:, None] for name in ("load", "most", "sunny")
        )
        demand = (load * use[None, :] >> np.uint32(16)) + (noise & np.uint32(255))
        shone = most * sun[None, :] >> np.uint32(16)
        return demand, sunny * shone + ~sunny * most


def shapes_of(hour: Any) -> tuple[Any, Any]:
    """Return how much is used and how the sun shines at hours, public, up to 2^16."""
    day, year = 2 * np.pi * (hour % 24) / 24, 2 * np.pi * hour / 8760
    use = 0.45 - 0.2 * np.cos(day) + 0.1 * np.cos(2 * day) + 0.2 * np.cos(year)
    sun = np.clip(-np.cos(day) - 0.2 * np.cos(year), 0.0, 1.0)
    return tuple((65535 * one).astype(np.uint32) for one in (use, sun))


# --- on the device ----------------------------------------------------------------


def answers(homes: Homes, agent: Any, hour: Any, shapes: Any, price: Any) -> Any:
    """Return agents' whole numbers at prices: (3, agents, hours).

    What `PriceSearch.response` does with sites that have no offers at one price.
    """
    import jax.numpy as jnp

    held = homes.columns(agent)
    demand, most = homes.watts(agent, held, hour, shapes)
    b, twice_a = (held[name][:, None] for name in ("b", "twice_a"))
    wanted, high = (price[None, :] - b) / twice_a, most.astype(np.float64)
    steps = jnp.rint(jnp.clip(wanted, 0.0, high) * STEPS).astype(np.int64)
    inside = (wanted > 0.0) & (wanted < high)
    rises = jnp.rint(0.5 / (twice_a * 0.5) * RISES).astype(np.int64)
    surplus = steps - demand.astype(np.int64) * int(STEPS)
    found = [surplus, jnp.zeros_like(surplus), jnp.where(inside, rises, 0)]
    # Who is beyond the last agent fills a tile, and has nothing.
    there = (agent < np.uint32(homes.agents))[:, None]
    return jnp.where(there, jnp.stack(found), 0)


def totals(
    homes: Homes,
    key: Any,
    strides: Any,
    agent: Any,
    hour: Any,
    shapes: Any,
    price: Any,
) -> tuple[Any, Any]:
    """Return plain totals, (3, hours), and those of masked halves of words.

    The latter are (3, 3, 2, hours): sums over agents of each half of each word of each
    residue, short enough not to overflow.
    """
    import jax
    import jax.numpy as jnp

    plain = answers(homes, agent, hour, shapes, price)
    ends = shares_of(homes, key, agent)

    def of_number(_: Any, one: Any) -> Any:
        place, whole = one
        first = (whole & LOW, whole >> 32 & LOW)
        later = (whole >> 63) & LOW  # the sign, in all further words

        def of_word(carried: Any, word: Any) -> Any:
            at = hour * np.uint32(NUMBERS * WORDS) + place * np.uint32(WORDS) + word
            halves = []
            for half, noise in zip(first, noises(ends, strides, at), strict=True):
                sent = jnp.where(word == 0, half, later) + noise + carried
                halves.append((sent & LOW).sum(axis=0))
                carried = sent >> 32
            return carried, jnp.stack(halves)

        words = jnp.arange(WORDS, dtype=np.uint32)
        return None, jax.lax.scan(of_word, jnp.zeros_like(whole), words)[1]

    places = jnp.arange(NUMBERS, dtype=np.uint32)
    masked = jax.lax.scan(of_number, None, (places, plain))[1]
    return plain.sum(axis=1), masked


def shares_of(homes: Homes, key: Any, agent: Any) -> Any:
    """Return the keys of agents' shares: by stride, both sides, sent and received."""
    import jax.numpy as jnp

    n, ends = np.uint32(homes.agents), []
    for stride in homes.strides:
        for away in (stride, homes.agents - stride):
            other = (agent + np.uint32(away)) % n
            # Who is beyond the last agent sends and receives the same.
            other = jnp.where(agent < n, other, agent)
            ends.append((jnp.stack([agent, other]), jnp.stack([other, agent])))
    senders, receivers = (jnp.stack(one) for one in zip(*ends, strict=True))
    shape = (len(homes.strides), 4, len(agent), 1)
    return tuple(
        half.reshape(shape) for half in device_key_of_arc(key, senders, receivers)
    )


def noises(ends: Any, strides: Any, at: Any) -> tuple[Any, Any]:
    """Return sent less received, lower and upper halves of the words at some places."""
    import jax
    import jax.numpy as jnp

    keys, shape = ends[0].shape, (ends[0].shape[2], len(at))
    counter = (at[None, :], jnp.zeros_like(at)[None, :])

    def of_stride(stride: Any, sums: Any) -> Any:
        for k in range(keys[1]):
            words = threefry_on_device(tuple(half[stride, k] for half in ends), counter)
            sign = 1 - 2 * (k % 2)
            sums = tuple(
                one + sign * word.astype(np.int64)
                for one, word in zip(sums, words, strict=True)
            )
        return sums

    none = jnp.zeros(shape, np.int64)
    # XLA would draw them again for every use; it does not look into a loop whose length
    # it does not know.
    return jax.lax.fori_loop(0, strides, of_stride, (none, none))


def residues(masked: Any) -> list[list[int]]:
    """Return totals modulo 2^192, with their sign, by hour and number."""
    half = 1 << (64 * WORDS - 1)
    flat = masked.reshape(NUMBERS, 2 * WORDS, -1)
    whole = [
        [
            sum(int(one) << 32 * k for k, one in enumerate(flat[number, :, hour]))
            for number in range(NUMBERS)
        ]
        for hour in range(flat.shape[2])
    ]
    return [[(one + half) % (2 * half) - half for one in row] for row in whole]


@dataclass
class Device:
    """Asks all agents at once, tile after tile."""

    homes: Homes
    tile: tuple[int, int] = (TILE_AGENTS, TILE_HOURS)
    masked: bool = True

    def __post_init__(self) -> None:
        import jax

        agents, hours = self.tile
        self.tile = min(agents, self.homes.agents), hours
        self._totals = jax.jit(partial(totals, self.homes))
        self._plain = jax.jit(lambda *given: answers(self.homes, *given).sum(axis=1))

    def ask(self, epoch: int, hours: Sequence[int], prices: Sequence[float]) -> Any:
        """Return three whole totals for each of these hours, at its price."""
        key, width = device_key_of_seed(self.homes.seed, epoch=epoch), self.tile[1]
        sums = []
        for low in range(0, len(hours), width):
            # Hours that fill a tile are asked for again, and dropped.
            place = np.resize(np.arange(low, min(low + width, len(hours))), width)
            hour = np.array(hours, np.uint32)[place]
            total = self.tiles(key, hour, np.array(prices)[place], self.homes.agents)
            sums.append([np.asarray(one) for one in total])
        whole = [np.concatenate(one, axis=-1) for one in zip(*sums, strict=True)]
        plain: list[list[int]] = whole[0].T[: len(hours)].tolist()
        if not self.masked:
            return plain
        found = residues(whole[1][..., : len(hours)])
        if found != plain:
            raise SystemExit("masks do not add up to zero: please report it")
        return found

    def tiles(self, key: Any, hour: Any, price: Any, agents: int) -> Any:
        """Return the totals of so many agents at as many hours as a tile has."""
        import jax

        given, total = (hour, shapes_of(hour), price), None
        strides = np.int32(len(self.homes.strides))
        for start in range(0, agents, self.tile[0]):
            agent = np.arange(start, start + self.tile[0], dtype=np.uint32)
            if self.masked:
                found = self._totals(key, strides, agent, *given)
            else:
                found = (self._plain(agent, *given),)
            total = found if total is None else jax.tree.map(operator.add, total, found)
        return total

    def tile_seconds(self) -> float:
        """Compile, and return the seconds of one tile; all have its shape."""
        hour, price = np.zeros(self.tile[1], np.uint32), np.full(self.tile[1], 20.0)
        for _ in range(2):
            begun = time.perf_counter()
            for one in self.tiles(device_key_of_seed(0), hour, price, 1):
                one.block_until_ready()
        return time.perf_counter() - begun


# --- the search, and the same without a device --------------------------------------


@dataclass(frozen=True)
class Year:
    """Where all hours arrived.

    Attributes:
        settled: of each hour.
        sums: of each hour, all totals that became known.
        asked: answers of all hours together, over all rounds.
        searching: seconds of the search itself.
    """

    settled: list[PriceSettled]
    sums: list[list[list[int]]]
    asked: int
    searching: float

    @property
    def digest(self) -> str:
        """A word for all prices, to the last bit."""
        prices = np.array([one.price.value for one in self.settled])
        return hashlib.sha256(prices.tobytes()).hexdigest()[:16]


def year(ask: Any, hours: int) -> Year:
    """Return the prices of all hours; `ask` returns totals, hour by hour."""
    states: list[State] = [SEARCH.start() for _ in range(hours)]
    sums: list[list[list[int]]] = [[] for _ in states]
    epoch = asked = 0
    searching = 0.0
    while left := [k for k, state in enumerate(states) if not state.done]:
        begun = time.perf_counter()
        prices = [SEARCH.propose(states[k]) for k in left]
        if any(price.share for price in prices):
            raise SystemExit("prices between two floats are not asked for here")
        searching += time.perf_counter() - begun
        found = ask(epoch, left, [price.value for price in prices])
        begun = time.perf_counter()
        for k, total in zip(left, found, strict=True):
            sums[k].append(total)
            states[k] = SEARCH.advance(states[k], np.array(total, dtype=object))
        searching += time.perf_counter() - begun
        epoch, asked = epoch + 1, asked + len(left)
    return Year(states, sums, asked, searching)  # type: ignore[arg-type]


def sites(homes: Homes, hour: int) -> list[Site]:
    """Return every home at an hour as a site of the package, by numpy."""
    agent, hours = np.arange(homes.agents, dtype=np.uint32), np.array([hour], np.uint32)
    held = homes.columns(agent)
    demand, most = homes.watts(agent, held, hours, shapes_of(hours))
    columns = (demand[:, 0], held["twice_a"] / 2.0, held["b"], most[:, 0])
    return [
        Site.of(float(d), a=a, b=b, low=0.0, high=float(high))
        for d, a, b, high in zip(*columns, strict=True)
    ]


def asked_by_sites(homes: Homes, hours: int) -> Any:
    """Return what asks the package's own sites, one by one."""
    held = [sites(homes, hour) for hour in range(hours)]

    def ask(_: int, left: Sequence[int], prices: Sequence[float]) -> list[list[int]]:
        return [
            sum(SEARCH.response(site, TriedPrice(price)) for site in held[k]).tolist()
            for k, price in zip(left, prices, strict=True)
        ]

    return ask


def check(agents: int = sized(60, 26), hours: int = sized(7, 1)) -> None:
    """Compare a small fleet both ways, in tiles that do not divide it."""
    homes = Homes(agents, seed=5)
    there = year(Device(homes, tile=(25, 3)).ask, hours)
    here = year(asked_by_sites(homes, hours), hours)
    if there.settled != here.settled or there.sums != here.sums:
        raise SystemExit("the device's totals are not those of the package's sites")


def by_numpy(homes: Homes, hours: int = sized(24, 1), agents: int = 5_000) -> float:
    """Return numpy's seconds for one agent, hour and round: answers, masks and sums.

    Every share is drawn once, by numpy's own counters, and handed to both ends.
    """
    part = Homes(min(agents, homes.agents), homes.seed)
    agent = np.arange(part.agents, dtype=np.uint32)
    hour = np.arange(hours, dtype=np.uint32)
    held, shapes, price = part.columns(agent), shapes_of(hour), np.full(hours, 20.0)
    stream = np.random.Generator(np.random.Philox(1))
    begun = time.perf_counter()
    demand, most = part.watts(agent, held, hour, shapes)
    wanted = (price - held["b"][:, None]) / held["twice_a"][:, None]
    high = most.astype(np.float64)
    steps = np.rint(np.clip(wanted, 0.0, high) * STEPS).astype(np.int64)
    rises = np.rint(1.0 / held["twice_a"] * RISES).astype(np.int64)
    inside = (wanted > 0.0) & (wanted < high)
    surplus = steps - demand.astype(np.int64) * int(STEPS)
    found = (surplus, np.zeros_like(surplus), np.where(inside, rises[:, None], 0))
    for whole in found:
        carried: Any = 0
        for word in range(WORDS):
            noise = np.zeros((2, *whole.shape), np.int64)
            for stride in part.strides:
                for sign in (1, -1):
                    drawn = stream.integers(0, 2**64, whole.shape, np.uint64)
                    halves = (drawn & np.uint64(LOW), drawn >> np.uint64(32))
                    both = sign * np.stack(halves).astype(np.int64)
                    noise += both - np.roll(both, stride, axis=1)
            for k in range(2):
                own = whole >> 32 * k & LOW if word == 0 else whole >> 63 & LOW
                sent = own + noise[k] + carried
                carried = sent >> 32
                (sent & LOW).sum(axis=0)
    return (time.perf_counter() - begun) / whole.size


def measured(agents: int, hours: int, most_seconds: float) -> dict[str, Any]:
    """Return all that is printed of one year.

    A device that would take too long, as one tile says, gets fewer agents.
    """
    import jax

    begun = time.perf_counter()
    check()
    checked = time.perf_counter()
    wanted, tile = agents, (TILE_AGENTS, min(TILE_HOURS, hours))
    device = Device(Homes(agents), tile)
    once = device.tile_seconds() * -(-hours // tile[1])
    affordable = max(1, int(most_seconds / (once * USUAL_ROUNDS)))
    if affordable * TILE_AGENTS < agents:
        agents = affordable * TILE_AGENTS
        device = Device(Homes(agents), tile)
        device.tile_seconds()
    homes, plain = device.homes, Device(device.homes, tile, masked=False)
    plain.tile_seconds()
    compiled = time.perf_counter()
    found = year(device.ask, hours)
    ended = time.perf_counter()
    plain.ask(0, range(hours), [20.0] * hours)
    bare = time.perf_counter() - ended
    seconds, asked = ended - compiled, found.asked * agents
    each = by_numpy(homes)
    prices = np.array([one.price.value for one in found.settled])
    where = jax.devices()[0]
    return {
        "job": "a year of hourly dispatch" if hours == 8760 else "hourly dispatch",
        "device": str(where.device_kind),
        "agents": agents,
        "agents asked for": wanted,
        "hours": hours,
        "seconds": round(seconds, 3),
        "seconds of": {
            "the check of a small fleet": round(checked - begun, 3),
            "compiling": round(compiled - checked, 3),
            "answers, masks and sums": round(seconds - found.searching, 3),
            "the search": round(found.searching, 3),
            "a round of all hours without masks": round(bare, 3),
        },
        "agents x hours a second": round(agents * hours / seconds),
        "agents x hours x rounds a second": round(asked / seconds),
        "rounds": max(one.rounds for one in found.settled),
        "mean rounds": found.asked / hours,
        "bytes of shares on all links": asked * 6 * NUMBERS * WORDS * 8,
        "peak bytes on the device": (where.memory_stats() or {}).get(
            "peak_bytes_in_use"
        ),
        "numpy, one process, scaled from a small part, seconds": round(each * asked),
        "numpy, scaled, by this": round(each * asked / seconds, 1),
        "prices, cents": [
            float(prices.min()),
            float(prices.mean()),
            float(prices.max()),
        ],
        "worst balance, watts": max(abs(one.surplus) for one in found.settled),
        "digest of prices": found.digest,
    }


def main(words: Sequence[str] | None = None) -> None:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--agents", type=int, default=sized(1_000_000, 50))
    given.add_argument("--hours", type=int, default=sized(8760, 2))
    given.add_argument("--most-seconds", type=float, default=180.0)
    show(**vars(given.parse_args(words)))


def show(agents: int, hours: int, most_seconds: float) -> None:
    """Print one line."""
    import jax

    with in_64_bits(jax):
        print(json.dumps(measured(agents, hours, most_seconds)), flush=True)


if __name__ == "__main__":
    main()
