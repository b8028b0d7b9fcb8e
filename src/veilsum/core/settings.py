"""How phase II runs: all of it public, none of it a party's secret."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from veilsum.core.spreading import choose_spread
from veilsum.errors import InvalidInputError

METHODS = ("dgd", "one-shot")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How phase II runs: all of it public, none of it a party's secret.

    Attributes:
        method: `dgd`, or `one-shot` where coefficients say everything.
        iterations: how many DGD steps.
        tolerance: how far two parties' answers may be apart; where parties run one by
            one, each checks the proposed answer against its own.
        step: a_0, the first step size.
        power: steps shrink like 1 / (k + 1)^power.
        mixing: the mixing weights' name.
        start: x_i(0), one point for all, or one row per agent.
        spread: for one-shot, how masked vectors travel: flooding, tree, or auto.
        recentre: whether masked integers are drawn together before DGD; None lets the
            law decide.
    """

    method: str = "dgd"
    iterations: int = 10_000
    step: float = 1.0
    power: float = 1.0
    mixing: str = "metropolis"
    start: ArrayLike = 0.0
    spread: str = "auto"
    recentre: bool | None = None
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidInputError(
                f"no method is called {self.method!r}; choose from {', '.join(METHODS)}"
            )
        if self.tolerance is not None and not 0 < self.tolerance < float("inf"):
            raise InvalidInputError(
                f"a tolerance must be positive and finite, found {self.tolerance}"
            )
        if self.iterations < 1:
            raise InvalidInputError(
                f"iterations must be at least 1, found {self.iterations}"
            )
        choose_spread(self.spread, n_agents=1, vector_bytes=0)

    @property
    def agreement(self) -> float:
        """The tolerance: what was asked for, or what the method can be held to."""
        if self.tolerance is not None:
            return self.tolerance
        return 1e-6 if self.method == "one-shot" else 0.05

    @property
    def expected_iterations(self) -> int:
        """How many steps a progress bar counts."""
        return 1 if self.method == "one-shot" else self.iterations
