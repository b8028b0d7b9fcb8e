"""Which methods there are, and which may be used for what.

A problem has needs, a method has traits. `choose_method` answers "auto", and
`check_method_fits` says why a method that was asked for is not to be used, and which
one is. One-shot is not here: it takes no iterations, and comes first wherever costs are
wholly described by their coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from veilsum.errors import InvalidInputError
from veilsum.minimise.methods.accelerated import AcceleratedTracking
from veilsum.minimise.methods.base import (
    FROM_COSTS,
    DescribedMethod,
    Fault,
    MethodClass,
    MethodTraits,
)
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.extra import Extra
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.methods.nids import Nids
from veilsum.minimise.methods.push_pull import PushPull
from veilsum.minimise.methods.running_sums import RunningSums
from veilsum.numbers.arrays import nearest_name

# The most wanted come first.
ITERATIVE: tuple[MethodClass, ...] = (
    GradientTracking,
    AcceleratedTracking,
    PushPull,
    RunningSums,
    Nids,
    Extra,
    Dgd,
)

# Above this condition of the average cost, acceleration pays for its extra rounds.
ILL_CONDITIONED = 30.0


@dataclass(frozen=True, kw_only=True)
class MethodNeeds:
    """Public requirements of a problem on a method.

    Attributes:
        convex_locals: every effective cost is convex by itself. Affine masks keep a
            convex cost convex; masks of higher degree do not.
        strongly_convex: a mu_bar above zero of the average cost is known.
        recentred: masks are drawn together before the method starts.
        condition: L_bar / mu_bar, where known.
    """

    constrained: bool = False
    bounded: bool = False
    convex_locals: bool = True
    strongly_convex: bool = True
    directed: bool = False
    faults: frozenset[Fault] = frozenset()
    masked: bool = True
    recentred: bool = False
    condition: float | None = None


# Why a method that does not bear a fault is not to be used under it.
UNBORNE: dict[Fault, str] = {
    "loss": "goes astray if a message is lost",
    "delay": "goes astray if messages come late",
    "stragglers": "needs every party to take part in every iteration",
    "changing": "is proved only where the same links work in every iteration",
    "quantise": "needs messages that are not rounded",
}

Clash = Callable[[MethodNeeds, MethodTraits], bool]

# In the order in which they are said: what cannot be changed comes first.
CLASHES: tuple[tuple[Clash, str], ...] = (
    (
        lambda needs, has: needs.directed and not has.directed,
        "needs links that work both ways, and this graph has one-way links",
    ),
    (
        lambda needs, has: not needs.convex_locals and not has.nonconvex,
        "diverges unless every masked cost is convex by itself, and masks beyond the "
        "affine part leave costs that are not",
    ),
    (
        lambda needs, has: not needs.strongly_convex and has.strongly_convex,
        "needs an average cost that is strongly convex, with public bounds on it: give "
        f"smooth and mean_convex ({FROM_COSTS})",
    ),
    (
        lambda needs, has: needs.constrained and not has.domain,
        "is for the whole space, and x is restricted to a domain",
    ),
    (
        lambda needs, has: not needs.bounded and has.compact,
        "needs a bounded domain: a box, a ball, a simplex or bounded half-spaces",
    ),
    (
        lambda needs, has: (
            has.winds_up and needs.constrained and needs.masked and not needs.recentred
        ),
        "crawls on a domain while masks are large; draw them together first, which "
        "needs law lattice",
    ),
)


def method_named(name: str) -> MethodClass:
    """Return the method of a name; refuse a name that is none."""
    known = {method.name: method for method in ITERATIVE}
    if name not in known:
        raise InvalidInputError(
            f"no iterative method is called {name!r}; "
            f"{nearest_name(name, known)}choose "
            f"from {', '.join(known)}",
            code="unknown-method",
        )
    return known[name]


def method_objection(method: DescribedMethod, needs: MethodNeeds) -> str | None:
    """Return why a method does not do what a problem asks, in words; None if it does.

    All faults that it does not bear, or else the first clash with its traits.
    """
    has = method.traits
    unborne = [
        why for fault, why in UNBORNE.items() if fault in needs.faults - has.bears
    ]
    if unborne:
        return " and ".join(unborne)
    return next((words for clash, words in CLASHES if clash(needs, has)), None)


def fitting_methods(needs: MethodNeeds) -> tuple[MethodClass, ...]:
    """Return the methods that do what a problem asks, the most wanted first."""
    wanted: tuple[MethodClass, ...] = ITERATIVE
    if needs.condition is not None and needs.condition > ILL_CONDITIONED:
        wanted = tuple(sorted(wanted, key=lambda method: not method.traits.accelerates))
    return tuple(method for method in wanted if method_objection(method, needs) is None)


def choose_method(needs: MethodNeeds) -> MethodClass:
    """Return the method for "auto": the most wanted one that fits.

    >>> [choose_method(MethodNeeds(directed=one_way)).name for one_way in (False, True)]
    ['gradient-tracking', 'push-pull']
    >>> choose_method(MethodNeeds(faults=frozenset({"loss"}))).name
    'running-sums'
    """
    found = fitting_methods(needs)
    if not found:
        bearing = [one for one in ITERATIVE if needs.faults <= one.traits.bears]
        objections = [f"{one.name} {method_objection(one, needs)}" for one in bearing]
        who = "method that bears these faults" if needs.faults else "iterative method"
        raise InvalidInputError(
            f"no {who} fits this problem: {'; '.join(objections)}",
            code="no-method-fits",
        )
    return found[0]


def check_method_fits(method: DescribedMethod, needs: MethodNeeds) -> None:
    """Refuse a method that does not do what a problem asks, and say which one does."""
    said = method_objection(method, needs)
    if said is not None:
        instead = fitting_methods(needs)
        advice = f"; use {instead[0].name}" if instead else ""
        raise InvalidInputError(f"{method.name} {said}{advice}", code="method-unfit")
