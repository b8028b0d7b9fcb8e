"""Which method may be used for what, as data.

`choose` answers "auto", and `refusal` says why a method that was asked for is not to be
used, and which one is. One-shot is not here: it takes no iterations, and comes first
wherever costs are wholly described by their coefficients.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from veilsum.errors import InvalidInputError

# Above this condition of the average cost, acceleration pays for its extra rounds.
ILL_CONDITIONED = 30.0


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What a method admits and what it takes.

    Attributes:
        domain: X may be less than the whole space; estimates are projected on it.
        compact: X must be bounded.
        nonconvex: single costs may be non-convex, as long as their average is convex.
        directed: links may be one-way.
        lossy: links may lose messages.
        strongly_convex: the average cost must be strongly convex.
        winds_up: with a domain, masks must be drawn together before.
        symmetric: weights are symmetric, and several rounds mix as Chebyshev's
            polynomial does; otherwise they are receivers' and senders' weights.
        settles: its moves shrink because it arrives, and only then: it can be stopped.
        vectors: how many vectors as long as x a message has.
        exchanges: how often agents mix in each iteration.
    """

    domain: bool = False
    compact: bool = False
    nonconvex: bool = False
    directed: bool = False
    lossy: bool = False
    strongly_convex: bool = False
    winds_up: bool = False
    symmetric: bool = True
    settles: bool = True
    vectors: int = 1
    exchanges: int = 1


TABLE: dict[str, Traits] = {
    "dgd": Traits(domain=True, compact=True, nonconvex=True, lossy=True, settles=False),
    "extra": Traits(domain=True, winds_up=True),
    "nids": Traits(domain=True, winds_up=True),
    "gradient-tracking": Traits(
        domain=True, nonconvex=True, strongly_convex=True, exchanges=2
    ),
    "accelerated": Traits(
        domain=True, nonconvex=True, strongly_convex=True, exchanges=2
    ),
    "push-pull": Traits(
        nonconvex=True,
        directed=True,
        strongly_convex=True,
        symmetric=False,
        exchanges=2,
    ),
    "running-sums": Traits(
        nonconvex=True,
        directed=True,
        lossy=True,
        strongly_convex=True,
        symmetric=False,
        vectors=2,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a problem asks of a method; all of it is public.

    Attributes:
        constrained: X is less than the whole space.
        bounded: X is bounded.
        convex_locals: every effective cost is convex by itself. Affine masks keep a
            convex cost convex; masks of higher degree do not.
        strongly_convex: a mu_bar above zero of the average cost is known.
        directed: some links are one-way.
        lossy: links may lose messages.
        masked: there are masks.
        recentred: they are drawn together before the method starts.
        condition: L_bar / mu_bar, where known.
    """

    constrained: bool = False
    bounded: bool = False
    convex_locals: bool = True
    strongly_convex: bool = True
    directed: bool = False
    lossy: bool = False
    masked: bool = True
    recentred: bool = False
    condition: float | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a method is not to be used, and what is.

    Attributes:
        reason: in the user's words.
        instead: the method to use; None if no method here fits.
    """

    reason: str
    instead: str | None


Clash = Callable[[Needs, Traits], bool]

# In the order in which they are said: what cannot be changed comes first.
CLASHES: tuple[tuple[Clash, str], ...] = (
    (
        lambda needs, has: needs.directed and not has.directed,
        "needs links that work both ways, and this graph has one-way links",
    ),
    (
        lambda needs, has: needs.lossy and not has.lossy,
        "goes astray if a message is lost, and these links may lose some",
    ),
    (
        lambda needs, has: not needs.convex_locals and not has.nonconvex,
        "diverges unless every masked cost is convex by itself, and masks beyond the "
        "affine part leave costs that are not",
    ),
    (
        lambda needs, has: not needs.strongly_convex and has.strongly_convex,
        "needs an average cost that is strongly convex, with public bounds on it: give "
        "smooth and mean_convex",
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


def choose(needs: Needs) -> str:
    """Return the method for "auto": the first of the preferred ones that fits.

    >>> choose(Needs()), choose(Needs(directed=True)), choose(Needs(lossy=True))
    ('gradient-tracking', 'push-pull', 'running-sums')
    """
    found = fitting(needs)
    if not found:
        objections = [f"{name} {objection(name, needs)}" for name in _preferred(needs)]
        raise InvalidInputError(
            "no iterative method fits this problem: " + "; ".join(objections)
        )
    return found[0]


def refusal(name: str, needs: Needs) -> Refusal | None:
    """Return why a method is not to be used and which one is; None if it may be."""
    said = objection(name, needs)
    if said is None:
        return None
    return Refusal(f"{name} {said}", next(iter(fitting(needs)), None))


def objection(name: str, needs: Needs) -> str | None:
    """Return the first clash between a method and a problem, in words."""
    has = traits(name)
    return next((words for clash, words in CLASHES if clash(needs, has)), None)


def traits(name: str) -> Traits:
    """Return what a method admits; refuse a name that is none."""
    if name not in TABLE:
        near = difflib.get_close_matches(name, TABLE, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidInputError(
            f"no iterative method is called {name!r}; {hint}choose from "
            f"{', '.join(TABLE)}"
        )
    return TABLE[name]


def fitting(needs: Needs) -> tuple[str, ...]:
    """Return the methods that do what a problem asks, the most wanted first."""
    names = _preferred(needs)
    return tuple(name for name in names if objection(name, needs) is None)


def _preferred(needs: Needs) -> tuple[str, ...]:
    """Return all methods, the most wanted first."""
    tracking = ("gradient-tracking", "accelerated")
    if needs.condition is not None and needs.condition > ILL_CONDITIONED:
        tracking = ("accelerated", "gradient-tracking")
    return (*tracking, "push-pull", "running-sums", "nids", "extra", "dgd")
