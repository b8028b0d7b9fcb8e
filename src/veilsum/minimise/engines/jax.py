"""The jax engine: a method's one source traced and compiled, for a CPU or a GPU.

JAX follows the source once, with arrays of its own in place of numpy's, and XLA
compiles a loop of as many iterations as are asked for. What the source asks of domains
and costs is written again here, with `jax.numpy`.

Where there are several devices, each has as many parties' rows, and all are told what
the others' rows say before every product: a large network is not cut, since on one that
mixes well most neighbours would be beyond any cut.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.minimise.costs.differentiated import in_64_bits, load_jax
from veilsum.minimise.costs.domains import Ball, Box, WholeSpace
from veilsum.minimise.costs.effective import ClosedForm
from veilsum.minimise.engines.engine import closed_form_of_gradients
from veilsum.minimise.engines.numpy import DENSE_PARTIES, PlainEngine
from veilsum.minimise.methods.base import MethodState
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.numbers.arrays import PartyPoints, Sparse

Tables: TypeAlias = dict[str, Any]

# What a state holds beside numbers; it decides what the source does.
SWITCHES = frozenset({"moved", "round"})
# Up to so many neighbours a product is written out neighbour by neighbour.
MOST_SLOTS = 32
# A GPU reads its memory by so many bytes. Rows that do not fill whole pieces are
# gathered more than twice as slowly as longer ones that do.
PIECE = 32


@dataclass(frozen=True, eq=False)
class JaxEngine(PlainEngine):
    """Iterations compiled by XLA; states hold JAX's arrays."""

    name: str = field(default="jax", init=False)

    def __post_init__(self) -> None:
        check_jax_follows_method(self.task.method)
        if closed_form_of_gradients(self.task.cost) is None:
            raise unknown_to_jax_engine("costs other than quadratic ones")

    def advance(self, state: MethodState, count: int) -> MethodState:
        kinds: list[Any] = [type(state), type(getattr(state, "inner", state))]
        for kind in kinds:
            register_jax_state(kind)
        with self._scope():
            begun = number_jax_state(state, np.int32(state.iteration))
            found = self._loop(begun, count, self._tables)
        return number_jax_state(found, state.iteration + count)

    def aims(self, state: MethodState) -> PartyPoints:
        """Return where parties alone would go next, in float64, by row."""
        with self._scope():
            return super().aims(state)

    def _scope(self) -> AbstractContextManager[Any]:
        """Return JAX's scope for the task's precision; its global switch stays."""
        double = self.task.precision == "float64"
        return in_64_bits(load_jax()) if double else nullcontext()

    @cached_property
    def _tables(self) -> Tables:
        """Costs and weights in the task's precision, on JAX's device."""
        weights, precision = self.task.weights, self.task.precision
        tables: Tables = {name: jax_mixing_table(w) for name, w in weights.items()}
        parts = parts_of_jax_closed_form(closed_form_of_gradients(self.task.cost))
        tables["costs"] = {
            name: widen_for_jax_loop(one, self._widths) for name, one in parts.items()
        }
        tables["one"] = np.int32(1)

        def put(part: Any) -> Any:
            return self._dealt.put(
                in_jax_precision(self._dealt.filled(part), precision)
            )

        return load_jax().tree_util.tree_map(put, tables)

    @cached_property
    def _dealt(self) -> DeviceRows:
        found = tuple(jax_devices())
        if not all(has_jax_slots(one) for one in self.task.weights.values()):
            found = found[:1]
        return DeviceRows(len(self.task.start), found)

    @cached_property
    def _widths(self) -> tuple[int, int]:
        """Length of a party's row, and its padded length in the loop."""
        dim = self.task.start.shape[-1]
        piece = PIECE // np.dtype(self.task.precision).itemsize
        gathered = any(not is_dense_for_jax(one) for one in self.task.weights.values())
        if dim <= piece or not gathered or not jax_is_on_gpu():
            return dim, dim
        return dim, -(-dim // piece) * piece

    @cached_property
    def _loop(self) -> Callable[[Any, int, Tables], Any]:
        jax, method = load_jax(), jax_traced_method(self.task.method)
        dim, wide = self._widths
        dealt = self._dealt

        def loop(state: Any, count: int, tables: Tables) -> Any:
            cost = TracedCost(tables["costs"])

            def begun(part: Any) -> Any:
                rows = widen_for_jax_loop(part, (dim, wide), jax.numpy.pad)
                return dealt.placed(dealt.filled(rows, jax.numpy.pad))

            def ended(part: Any) -> Any:
                return dealt.cut(narrow_from_jax_loop(part, (dim, wide)))

            state = jax.tree_util.tree_map(begun, state)

            def once(_: Any, state: Any) -> Any:
                for _ in range(method.rounds_per_iteration):
                    told = write_down_for_jax(
                        method.outgoing(state), state.x, tables["one"]
                    )
                    (part,) = method.parts(state)
                    mixed = jax_product(tables[part], dealt.known_to_all(told))
                    state = method.advance(state, mixed, cost)
                return state

            found = jax.lax.fori_loop(0, count, once, state)
            return jax.tree_util.tree_map(ended, found)

        return jax.jit(loop)


def jax_devices() -> list[Any]:
    found: list[Any] = load_jax().local_devices()
    return found


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Parties' rows on one device, or as many on each of several.

    Rows that are missing for that are zeros, whom nobody hears. On one device nothing
    is done at all.
    """

    n: int
    devices: tuple[Any, ...]

    def filled(self, part: Any, pad: Callable[..., Any] = np.pad) -> Any:
        """Return an array with a row for every party, and those that are missing."""
        missing = -self.n % len(self.devices)
        if not missing or np.shape(part)[:1] != (self.n,):
            return part
        return pad(part, [(0, missing)] + [(0, 0)] * (np.ndim(part) - 1))

    def cut(self, part: Any) -> Any:
        """Return an array without them, on every device where they cannot be dealt."""
        rows = self.n + -self.n % len(self.devices)
        if rows == self.n or np.shape(part)[:1] != (rows,):
            return part
        return self.known_to_all(part[: self.n])

    def put(self, part: Any) -> Any:
        jax = load_jax()
        if len(self.devices) == 1:
            return jax.numpy.asarray(part)
        return jax.device_put(part, self._where(part))

    def placed(self, part: Any) -> Any:
        """Return an array of JAX's whose rows are where they belong."""
        if len(self.devices) == 1:
            return part
        return load_jax().lax.with_sharding_constraint(part, self._where(part))

    def known_to_all(self, part: Any) -> Any:
        """Return an array that every device has the whole of."""
        if len(self.devices) == 1:
            return part
        return load_jax().lax.with_sharding_constraint(part, self._everywhere)

    def _where(self, part: Any) -> Any:
        rows = self.n + -self.n % len(self.devices)
        by_rows = np.shape(part)[:1] == (rows,)
        return self._by_rows if by_rows else self._everywhere

    @cached_property
    def _by_rows(self) -> Any:
        return self._sharding("parties")

    @cached_property
    def _everywhere(self) -> Any:
        return self._sharding()

    def _sharding(self, *axes: str) -> Any:
        sharding = load_jax().sharding
        mesh = sharding.Mesh(np.array(self.devices), ("parties",))
        return sharding.NamedSharding(mesh, sharding.PartitionSpec(*axes))


def jax_is_on_gpu() -> bool:
    return bool(load_jax().default_backend() == "gpu")


def widen_for_jax_loop(
    part: Any, widths: tuple[int, int], pad: Callable[..., Any] = np.pad
) -> Any:
    """Return an array whose axes beyond the first are as long as rows in the loop.

    What is added is zero, stays zero, and is told to nobody who would notice.
    """
    dim, wide = widths
    if wide == dim:
        return part
    more = [(0, wide - dim if size == dim else 0) for size in np.shape(part)[1:]]
    return pad(part, [(0, 0), *more]) if more else part


def narrow_from_jax_loop(part: Any, widths: tuple[int, int]) -> Any:
    """Return an array with rows as long as they were."""
    dim, wide = widths
    return part[:, :dim] if np.shape(part)[1:] == (wide,) else part


def write_down_for_jax(told: Any, x: Any, one: Any) -> Any:
    """Return what is told as an array in memory, unless it is x.

    XLA would rather compute it again for every neighbour that hears it, and in it again
    what each of them heard. It does not look into a loop whose length it does not know.
    """
    if told is x:
        return told
    return load_jax().lax.fori_loop(0, one, lambda _, __: told, x)


def check_jax_follows_method(method: Any) -> None:
    """Refuse a method or a domain that JAX cannot follow."""
    bare: Any = method.method if isinstance(method, Chebyshev) else method
    # A class answers for its own source: what is built on it may do something else.
    if "traits" not in vars(type(bare)) or not bare.traits.traceable:
        raise unknown_to_jax_engine(f"the method {type(bare).__name__}")
    if not isinstance(bare.domain, WholeSpace | Box | Ball):
        raise unknown_to_jax_engine(f"the domain {type(bare.domain).__name__}")


def unknown_to_jax_engine(what: str) -> InvalidInputError:
    return InvalidInputError(
        f"the jax engine does not know {what}: use engine numba or numpy, which run "
        "every method on every cost",
        code="jax-unsupported",
    )


@cache
def register_jax_state(kind: Any) -> None:
    """Tell JAX, once, which parts of a kind of state are numbers."""
    names = [part.name for part in fields(kind)]
    load_jax().tree_util.register_dataclass(
        kind,
        data_fields=[name for name in names if name not in SWITCHES],
        meta_fields=[name for name in names if name in SWITCHES],
    )


def number_jax_state(state: Any, iteration: Any) -> Any:
    if hasattr(state, "inner"):
        return replace(state, inner=number_jax_state(state.inner, iteration))
    return replace(state, iteration=iteration)


def jax_traced_method(method: Any) -> Any:
    if isinstance(method, Chebyshev):
        return replace(method, method=jax_traced_method(method.method))
    return replace(method, domain=TracedDomain(method.domain))


@dataclass(frozen=True, eq=False)
class TracedDomain:
    """A domain's projection with `jax.numpy`."""

    domain: WholeSpace | Box | Ball

    @property
    def dim(self) -> int:
        return self.domain.dim

    @property
    def is_bounded(self) -> bool:
        return self.domain.is_bounded

    def project(self, x: Any) -> Any:
        if isinstance(self.domain, Box):
            low, high = (
                point_of_jax_width(edge, self.dim, x)
                for edge in (self.domain.lower, self.domain.upper)
            )
            return load_jax().numpy.clip(x, low, high)
        return (
            move_into_ball_in_jax(self.domain, x)
            if isinstance(self.domain, Ball)
            else x
        )


def point_of_jax_width(point: Any, dim: int, x: Any) -> Any:
    """Return a point of so many coordinates with zeros to the length of x's rows."""
    whole = np.broadcast_to(np.asarray(point, x.dtype), (dim,))
    return np.pad(whole, (0, x.shape[-1] - dim))


def move_into_ball_in_jax(ball: Ball, x: Any) -> Any:
    """Pull every outside point straight to the sphere."""
    jnp = load_jax().numpy
    centre = point_of_jax_width(ball.centre, ball.dim, x)
    away = x - centre
    # Scaled first: the square of a far point would overflow.
    size = jnp.maximum(jnp.abs(away).max(axis=-1, keepdims=True), ball.radius)
    norm = size * jnp.sqrt(((away / size) ** 2).sum(axis=-1, keepdims=True))
    return centre + away * (ball.radius / jnp.maximum(norm, ball.radius))


@dataclass(frozen=True, eq=False, repr=False)
class TracedCost:
    """Effective costs in closed form, with `jax.numpy`."""

    parts: Tables

    def gradient(self, x: Any) -> Any:
        return self._curved(x) + self.parts["slopes"]

    def gradient_change(self, new: Any, old: Any) -> Any:
        """Return the gradients' changes, in which the masked slopes play no part."""
        return self._curved(new - old)

    def _curved(self, x: Any) -> Any:
        if "squares" not in self.parts:
            return self.parts["curve"] * x
        einsum = load_jax().numpy.einsum
        return einsum("nij,nj->ni", self.parts["squares"], x, precision="highest")


def parts_of_jax_closed_form(form: ClosedForm | None) -> Tables:
    """Return the parts of a closed form that there are."""
    names = ("slopes", "curve", "squares")
    found = {name: getattr(form, name) for name in names}
    return {name: part for name, part in found.items() if part is not None}


def in_jax_precision(part: Any, precision: str) -> Any:
    """Return floats in the task's precision, indices as they are."""
    array = np.asarray(part)
    kind = precision if array.dtype.kind == "f" else array.dtype
    return array.astype(kind, copy=False)


def is_dense_for_jax(weights: Sparse) -> bool:
    """Say whether there are so few parties that all weights are kept."""
    return weights.shape[0] <= DENSE_PARTIES


def has_jax_slots(weights: Sparse) -> bool:
    return (
        not is_dense_for_jax(weights) and most_heard_by_a_jax_row(weights) <= MOST_SLOTS
    )


def most_heard_by_a_jax_row(weights: Sparse) -> int:
    """Return how many a party hears at most, itself included."""
    return int(np.diff(scipy.sparse.csr_array(weights).indptr).max())


def jax_mixing_table(weights: Sparse) -> Tables:
    """Return n x n weights for `jax_product`: dense, by slots, or link by link."""
    table = scipy.sparse.csr_array(weights)
    if is_dense_for_jax(table):
        return {"dense": table.toarray()}
    if has_jax_slots(table):
        return jax_slot_table(table, most_heard_by_a_jax_row(table))
    links = table.tocoo()
    ends = {"row": links.row.astype(np.int32), "column": links.col.astype(np.int32)}
    return {**ends, "factor": links.data}


def jax_slot_table(weights: Sparse, slots: int) -> Tables:
    """Return the k-th neighbours of all parties, k up to `slots`, and their weights.

    Slots left over hear oneself with weight zero.
    """
    n = weights.shape[0]
    row = np.repeat(np.arange(n), np.diff(weights.indptr))
    slot = np.arange(weights.nnz) - weights.indptr[row]
    heard = np.tile(np.arange(n, dtype=np.int32), (slots, 1))
    factor = np.zeros((slots, n))
    heard[slot, row], factor[slot, row] = weights.indices, weights.data
    return {"heard": list(heard), "factor": list(factor[:, :, None])}


def jax_product(table: Tables, told: Any) -> Any:
    """Return sum_j w_ij told_j by row."""
    jax = load_jax()
    if "dense" in table:
        return jax.numpy.matmul(table["dense"], told, precision="highest")
    if "row" in table:
        sent = table["factor"][:, None] * rows_heard_in_jax(told, table["column"])
        return jax.ops.segment_sum(sent, table["row"], len(told))
    pairs = zip(table["heard"], table["factor"], strict=True)
    return sum(factor * rows_heard_in_jax(told, heard) for heard, factor in pairs)


def rows_heard_in_jax(told: Any, heard: Any) -> Any:
    """Return the rows of those heard, without tests for parties that are not there."""
    return told.at[heard].get(mode="promise_in_bounds", wrap_negative_indices=False)
