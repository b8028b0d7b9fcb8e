"""Phase I many times over, for statistics: vectorised over executions.

One generator serves a whole batch (equal in law to the keyed streams, not in bits).
Shares are drawn in chunks that stay in cache, one contiguous row per arc, so the cost
is that of drawing the normals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.masks.laws import check_mask_sigma
from veilsum.memory import check_memory_room
from veilsum.numbers.arrays import FloatArray, as_float_rows
from veilsum.numbers.shapes import Float
from veilsum.privacy.transcript import edges_touching_colluders
from veilsum.progress import Advance, Progress, silent_progress, watch_progress
from veilsum.scale.pieces import map_pieces
from veilsum.scale.workers import workers_shared_by
from veilsum.showing import Renderable, Rendering, counted_words

# Normals drawn at once: 256 kB, so that shares are added up before they leave cache.
CHUNK_NORMALS = 32_768
# From so many normals on there are parts with a stream each, of at least half as many:
# numpy draws in parallel, in two threads if nobody else shares the work.
PARALLEL_NORMALS = 10_000_000
THREADS = 2


@dataclass(frozen=True, eq=False, repr=False)
class Executions(Renderable):
    """Effective coefficients of many executions, and what C is left with.

    Attributes:
        parties: all names, in the order of `effective`'s second axis.
        honest: the honest names, in the order of `stripped`'s.
        effective: alpha~_i, (executions, n, p).
        stripped: alpha_bar_i: effective less the shares that C knows.
    """

    parties: tuple[str, ...]
    honest: tuple[str, ...]
    effective: Float[FloatArray, "executions n p"]
    stripped: Float[FloatArray, "executions h p"]

    def __len__(self) -> int:
        return len(self.effective)

    def showing(self) -> Rendering:
        """Return how much there is; numbers stay in the arrays."""
        return Rendering(
            f"{counted_words(len(self), 'execution')} of phase I by "
            f"{counted_words(len(self.parties), 'party')}, {len(self.honest)} honest",
            [
                f".effective has shape {self.effective.shape}, .stripped "
                f"{self.stripped.shape}"
            ],
        )

    def draw_with(
        self, figures: ModuleType, *, coefficient: int = 0, title: str | None = None
    ) -> Any:
        """Histograms of what a coalition is left with of every honest party."""
        if not 0 <= coefficient < self.stripped.shape[2]:
            raise InvalidInputError(
                f"there are {self.stripped.shape[2]} coefficients, counted from 0; "
                f"found {coefficient}",
                code="index-out-of-range",
            )
        sample = self.stripped[:, :, coefficient]
        edges = np.linspace(sample.min(), sample.max(), 31)
        names = self.honest[: len(figures.PALETTE)]
        curves = {
            name: np.histogram(sample[:, k], edges, density=True)[0]
            for k, name in enumerate(names)
        }
        usual = f"What {counted_words(len(self), 'execution')} leave of each party"
        caption = (
            "the coefficient with its mask, less the shares that the coalition knows"
        )
        places = (edges[1:] + edges[:-1]) / 2.0
        labels = ("effective coefficient", "density")
        return figures.lines_figure(
            places, curves, labels, figures.chosen_title(title, usual), caption
        )


def simulate(
    topology: GraphLike,
    coefficients: ArrayLike,
    *,
    sigma: float,
    executions: int,
    stream: np.random.Generator,
    corrupted: Iterable[Hashable] = (),
    on: str | None = None,
    progress: Progress = None,
) -> Executions:
    """Run phase I `executions` times and keep what each left behind.

    Args:
        topology: the communication graph.
        coefficients: one row per party; a flat list means one coefficient each.
        sigma: standard deviation of one coordinate of one share.
        executions: how many there are, each with fresh shares.
        stream: where all shares are drawn from.
        corrupted: the colluding parties, whose view is kept.
        on: who shares the work, such as `processes:8`; see `sweep`. It pays where many
            shares come to few numbers.
        progress: None for a bar, False for none, or a function of done and total.
    """
    topology = Topology.of(topology)
    check_mask_sigma(sigma)
    rows = as_float_rows(
        coefficients, n_parties=topology.n_parties, what="coefficients"
    )
    if executions < 1:
        raise InvalidInputError(
            f"executions must be at least 1, found {executions}",
            code="executions-not-positive",
        )
    colluders = topology.indices(corrupted)
    honest = [i for i in range(topology.n_parties) if i not in colluders]
    numbers = (topology.n_parties + len(honest)) * rows.shape[1] * executions
    check_memory_room(8 * numbers, f"keeping {executions:,} executions")
    # Parties are the first axis in memory and the second for the reader.
    effective = np.empty((*rows.shape, executions))
    stripped = np.empty((len(honest), rows.shape[1], executions))
    normals = topology.n_edges * topology.shares_per_edge * rows.shape[1] * executions
    slices, streams = _cut_executions_in_parts(executions, normals, stream)
    work = ExecutionParts(
        topology, rows, sigma, colluders, tuple(slices), tuple(streams)
    )
    places = range(len(slices))
    # One part is drawn from the caller's own stream, which goes on from there.
    shared = workers_shared_by(on if len(slices) > 1 else None)
    with watch_progress(progress) as opening, shared as workers:
        told = (opening or silent_progress)("executions", executions)
        if workers is None:
            # By place, how many of each part are done.
            finished: dict[int, int] = {}

            def fill(place: int) -> None:
                part = slices[place]

                def tell(done: int) -> None:
                    finished[place] = done
                    told(sum(finished.copy().values()))

                work.fill(place, effective[..., part], stripped[..., part], tell)

            with ThreadPoolExecutor(THREADS) as pool:
                deque(pool.map(fill, places), maxlen=0)
        else:
            ended = map_pieces(work, places, seed=0, on=workers)
            for part, found in zip(slices, ended, strict=True):
                effective[..., part], stripped[..., part] = found
                told(part.stop)
    return Executions(
        parties=tuple(topology.parties),
        honest=topology.names(honest),
        effective=np.moveaxis(effective, -1, 0),
        stripped=np.moveaxis(stripped, -1, 0),
    )


@dataclass(frozen=True, eq=False, repr=False)
class ExecutionParts:
    """Executions in parts, each with a stream of its own: called with one's place."""

    topology: Topology
    rows: Float[FloatArray, "n p"]
    sigma: float
    colluders: frozenset[int]
    slices: tuple[slice, ...]
    streams: tuple[np.random.Generator, ...]

    def __call__(
        self, key: int, seed: int
    ) -> tuple[Float[FloatArray, "n p part"], Float[FloatArray, "h p part"]]:
        del seed
        count = self.slices[key].stop - self.slices[key].start
        n_honest = self.topology.n_parties - len(self.colluders)
        effective = np.empty((*self.rows.shape, count))
        stripped = np.empty((n_honest, self.rows.shape[1], count))
        self.fill(key, effective, stripped, lambda _done: None)
        return effective, stripped

    def fill(
        self,
        key: int,
        effective: Float[FloatArray, "n p part"],
        stripped: Float[FloatArray, "h p part"],
        told: Advance,
    ) -> None:
        """Put what a part leaves behind where there is room for it."""
        topology, rows = self.topology, self.rows
        honest = [i for i in range(topology.n_parties) if i not in self.colluders]
        known = edges_touching_colluders(topology, self.colluders)
        hidden_links, known_links = (
            _links_of_executions(topology, which, self.sigma)
            for which in (~known, known)
        )
        count, own = effective.shape[-1], self.streams[key]
        for here, shares in _share_chunks_of_executions(
            topology, rows.shape[1], count, own
        ):
            masked = np.repeat(rows[..., None], here.stop - here.start, axis=-1)
            _add_noise_of_executions(hidden_links, shares, masked)
            stripped[..., here] = masked[honest]
            _add_noise_of_executions(known_links, shares, masked)
            effective[..., here] = masked
            told(here.stop)


def _cut_executions_in_parts(
    executions: int, normals: int, stream: np.random.Generator
) -> tuple[list[slice], list[np.random.Generator]]:
    """Cut large work in parts with a stream each; the cut is always the same.

    It depends on the size alone, never on the machine, so that a seed repeats.
    """
    if normals < PARALLEL_NORMALS:
        return [slice(0, executions)], [stream]
    parts = min(2 * normals // PARALLEL_NORMALS, executions)
    bounds = np.linspace(0, executions, parts + 1).astype(int).tolist()
    return [slice(*pair) for pair in pairwise(bounds)], stream.spawn(parts)


ShareChunk = Float[FloatArray, "e arcs p chunk"]


def _share_chunks_of_executions(
    topology: Topology, width: int, count: int, stream: np.random.Generator
) -> Iterator[tuple[slice, ShareChunk]]:
    """Yield standard normal shares for a few executions at a time."""
    shape = (topology.n_edges, topology.shares_per_edge, width)
    chunk = max(1, CHUNK_NORMALS // prod(shape))
    buffer = np.empty((*shape, chunk))
    for low in range(0, count, chunk):
        here = slice(low, min(low + chunk, count))
        yield here, stream.standard_normal(out=buffer)[..., : here.stop - low]


# An edge as the inner loop wants it: its place, its ends, the size of its shares.
Link = tuple[int, int, int, float]


def _links_of_executions(
    topology: Topology, which: np.ndarray, sigma: float
) -> list[Link]:
    size = sigma * np.sqrt(topology.weights)
    chosen = np.flatnonzero(which).tolist()
    return [(e, *topology.edges[e].tolist(), float(size[e])) for e in chosen]


def _add_noise_of_executions(
    links: list[Link], shares: ShareChunk, into: Float[FloatArray, "n p chunk"]
) -> None:
    """Add sigma c_e to the first end of each link, take it from the second."""
    for edge, i, j, size in links:
        noise = shares[edge, 0]
        if shares.shape[1] == 2:
            noise -= shares[edge, 1]
        noise *= size
        into[i] += noise
        into[j] -= noise
