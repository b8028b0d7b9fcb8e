"""Settings of phase II: all are public, none is a party's secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.graphs.spreading import choose_spread
from veilsum.minimise.methods.certificate import Bounds
from veilsum.minimise.methods.one_shot import OneShot
from veilsum.minimise.methods.registry import ITERATIVE
from veilsum.numbers.arrays import as_whole_number, is_real_number

# The usual one, which is the paper's, before those that ask for more.
METHODS = ("auto", OneShot.name, *(method.name for method in reversed(ITERATIVE)))
ENGINES = ("auto", "numpy", "numba", "jax", "mpi")
PRECISIONS = ("float64", "float32")
POSITIVE = ("tolerance", "step", "power", "smooth", "mean_smooth", "mean_convex")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of phase II: all are public, none is a party's secret.

    Attributes:
        method: a method's name; `one-shot` where coefficients determine the costs,
            `auto` for a method that fits.
        iterations: maximum number of iterations.
        tolerance: largest distance of estimates from the answer: methods with a fixed
            step stop there, all parties at the same iteration. Where parties run one by
            one, each also checks the proposed answer against its own.
        byte_budget: maximum bytes over all links together, shares included.
        step: the step size, a_0 for dgd; without it, dgd takes 1 and others what the
            bounds admit.
        power: dgd's steps shrink like 1 / (k + 1)^power.
        gradient_at: dgd takes gradients at the `mixed` point, or at a party's `own`.
        mixing: name of the mixing weights; without it, weights that suit the method.
        rounds: rounds of mixing for each one of the method; without it, a number that
            is proved sufficient.
        smooth: L; every party's gradient is L-Lipschitz on the domain.
        mean_smooth: L_bar, the same bound for the average cost; L if it is not known.
        mean_convex: mu_bar; the average cost is mu_bar-strongly convex.
        bounds_from_costs: whether a simulation reads these three off the private costs,
            as real parties must not.
        convex_locals: whether every party's own cost is convex.
        start: x_i(0), one point for all, or one row per party.
        spread: for one-shot, route of masked vectors: flooding, tree, or auto.
        recentre: whether masked integers are drawn together before the method; None
            lets the law decide.
        engine: engine that carries iterations out in a simulation.
        precision: precision of the simulation's numbers.
        history: keep estimates after every so many iterations; without it, at times
            spaced evenly on a logarithmic scale, within 16 MB.
    """

    method: str = "dgd"
    iterations: int = 10_000
    step: float | None = None
    power: float = 1.0
    gradient_at: Literal["mixed", "own"] = "mixed"
    mixing: str | None = None
    rounds: int | None = None
    smooth: float | None = None
    mean_smooth: float | None = None
    mean_convex: float | None = None
    bounds_from_costs: bool = False
    convex_locals: bool = True
    start: ArrayLike = 0.0
    spread: str = "auto"
    recentre: bool | None = None
    tolerance: float | None = None
    byte_budget: int | None = None
    engine: str = "auto"
    precision: Literal["float64", "float32"] = "float64"
    history: int | None = None

    def __post_init__(self) -> None:
        _check_method_setting("method", self.method, METHODS)
        _check_method_setting("engine", self.engine, ENGINES)
        _check_method_setting("precision", self.precision, PRECISIONS)
        _check_method_setting("gradient_at", self.gradient_at, ("mixed", "own"))
        for name in POSITIVE:
            _check_positive_method_setting(name, getattr(self, name))
        for name in ("iterations", "rounds", "byte_budget", "history"):
            found = getattr(self, name)
            if found is not None:
                whole = as_whole_number(found, what=name, least=1)
                object.__setattr__(self, name, whole)
        choose_spread(self.spread, n_parties=1, vector_bytes=0)

    @property
    def bounds(self) -> Bounds | None:
        """Known bounds on the costs; None unless the average is strongly convex."""
        if self.smooth is None or self.mean_convex is None:
            return None
        return Bounds(
            smooth=self.smooth,
            mean_smooth=self.mean_smooth or self.smooth,
            mean_convex=self.mean_convex,
        )

    def agreement(self, *, iterative: bool) -> float:
        """Return how far parties' answers may be apart.

        As far as was asked for, or as far as methods of the kind can be held to.
        """
        return self.tolerance or (0.05 if iterative else 1e-6)


def _check_method_setting(what: str, found: str, known: tuple[str, ...]) -> None:
    if found not in known:
        raise InvalidInputError(
            f"no {what} is called {found!r}; choose from {', '.join(known)}",
            code="unknown-choice",
        )


def _check_positive_method_setting(what: str, found: object) -> None:
    if found is not None and not (is_real_number(found) and 0 < found < float("inf")):
        raise InvalidInputError(
            f"{what} must be positive and finite, found {found!r}", code="not-positive"
        )
