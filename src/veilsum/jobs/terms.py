"""How parties agree to sum: their links, their masks, and who may collude.

Everything here is public and the same for all of them.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypedDict

from veilsum.agreement.sections import policy_of
from veilsum.errors import InvalidInputError
from veilsum.files.ledger import Ledger
from veilsum.graphs.spreading import choose_spread
from veilsum.graphs.topology import Topology
from veilsum.jobs.driving import Driver
from veilsum.jobs.promises import NOBODY_CURIOUS, Promise, Promises
from veilsum.numbers.arrays import listed
from veilsum.numbers.laws import Law, LawName, Masks
from veilsum.privacy.guarantee import Guarantee
from veilsum.protocol.plan import Plan, Policy
from veilsum.reading import nearest


class Options(TypedDict, total=False):
    """What every job takes; all of it has a default.

    Attributes:
        topology: who exchanges masks with whom: a graph, or the name of a family such
            as "regular:18:4"; without one everybody with everybody.
        law: how masks are drawn; `uniform` hides everything but the sums.
        sigma: for `lattice`, the standard deviation of a share.
        grid: bits q of the grid 2^-q; without it, one that needs no range.
        largest: the declared range of one party's numbers.
        tolerate: how many parties may pool what they saw.
        minimum_honest: how many others there must be.
        drop: whether the others may go on without a party that is lost before anything
            was shown; by default nobody does, since it would be another question.
        spread: how masked vectors reach everybody.
        driver: `loopback`, each party a machine of its own, or `vectorised`; or what
            takes part for one real party, whose data alone are here then.
        waits: `resend`, `meeting`, `deadline` and `patience`; see `Policy`.
        run: the run's name where parties have agreed on one.
        seed: repeats a simulation.
        ledgers: by party; each is charged before the party shows anything.
        progress: told after each sum how many there are.
        title: of the run.
    """

    topology: Topology | str | None
    law: LawName
    sigma: float | None
    grid: int | None
    largest: float | None
    tolerate: int
    minimum_honest: int
    drop: bool
    spread: str
    driver: str | Driver
    waits: Mapping[str, float]
    run: str
    seed: int | None
    ledgers: Mapping[str, Ledger]
    progress: Callable[[int], None] | None
    title: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """The options, checked for a set of parties."""

    topology: Topology
    law: Law
    tolerate: int
    minimum_honest: int
    drop: bool
    spread: str
    driver: str | Driver
    waits: Mapping[str, float]
    seed: int | None
    ledgers: Mapping[str, Ledger]
    progress: Callable[[int], None] | None
    run: str

    @classmethod
    def of(
        cls,
        parties: Sequence[str],
        *,
        integers: bool = False,
        wide: bool = False,
        options: Options,
    ) -> Terms:
        """Return the terms for these parties; refuse what they cannot hold to."""
        _check_names(options)
        _check_numbers(options)
        driver = options.get("driver", "loopback")
        alone = not isinstance(driver, str)
        topology = _topology(options.get("topology"), tuple(parties), alone=alone)
        seed = options.get("seed")
        terms = cls(
            topology=topology,
            law=_masks(options).for_sums(topology, integers=integers, wide=wide),
            tolerate=options.get("tolerate", 1),
            minimum_honest=options.get("minimum_honest", 3),
            drop=options.get("drop", False),
            spread=options.get("spread", "auto"),
            driver=driver,
            waits=options.get("waits", {}),
            seed=seed,
            ledgers=options.get("ledgers", {}),
            progress=options.get("progress"),
            run=options.get("run") or _run_name(options.get("title", ""), seed),
        )
        strangers = sorted(set(terms.ledgers) - set(terms.parties))
        if strangers:
            raise InvalidInputError(
                f"there are ledgers of {listed(strangers)}, who take no part; parties "
                f"are {listed(terms.parties)}"
            )
        terms.check()
        return terms

    @property
    def parties(self) -> tuple[str, ...]:
        """Everybody, in order."""
        return self.topology.parties

    @property
    def honest(self) -> int:
        """How many parties are honest at least, whoever may be dropped."""
        most = self.topology.n_parties
        left = self.policy.fewest(most) if self.drop else most
        return left - self.tolerate

    @property
    def guarantee(self) -> Guarantee:
        """What holds if nobody is dropped."""
        return self.promise(self.parties)

    @cached_property
    def promise(self) -> Promise:
        """What holds among some parties against tolerated coalitions, for each sum."""
        return Promises(self.topology, self.law.masks, self.tolerate)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What these terms do not hide either."""
        return () if self.tolerate else (NOBODY_CURIOUS,)

    @cached_property
    def policy(self) -> Policy:
        """Waits and losses."""
        return policy_of(
            tolerate=self.tolerate,
            minimum_honest=self.minimum_honest,
            drop=self.drop,
            **self.waits,
        )

    def check(self) -> None:
        """Refuse a graph on which the promise does not hold."""
        reason = self.plan(size=1, answer_size=1, terms={}).refusal(self.parties)
        if reason is not None:
            raise InvalidInputError(
                f"{reason}; the terms are tolerate = {self.tolerate} and "
                f"minimum_honest = {self.minimum_honest}: add parties or links, or "
                "change the terms openly"
            )

    def plan(self, *, size: int, answer_size: int, terms: Mapping[str, Any]) -> Plan:
        """Return the plan whose digest parties compare."""
        agreed = {"run": self.run, **terms}
        spread = choose_spread(
            self.spread,
            n_parties=self.topology.n_parties,
            vector_bytes=size * self.law.number_bytes,
        )
        return Plan(
            terms=json.dumps(agreed, sort_keys=True).encode(),
            topology=self.topology,
            law=self.law,
            size=size,
            answer_size=answer_size,
            spread=spread,
            policy=self.policy,
        )


def _run_name(title: str, seed: int | None) -> str:
    """Return a name that no other run has, unless a seed repeats one."""
    number = secrets.token_hex(16) if seed is None else f"seed {seed}"
    return f"{title} {number}".strip()


def _check_names(options: Mapping[str, Any]) -> None:
    """Refuse a misspelt option: it would leave the usual one in force unnoticed."""
    known = tuple(Options.__annotations__)
    for name in options:
        if name not in known:
            raise InvalidInputError(
                f"this job takes no option {name!r}; {nearest(name, known)}options are "
                f"{', '.join(known)}"
            )


@lru_cache(16)  # one graph serves all jobs of the same parties
def _everybody(parties: tuple[str, ...]) -> Topology:
    if len(parties) < 2:
        raise InvalidInputError(
            f"a job needs two parties or more, found {listed(parties) or 'none'}"
        )
    return Topology.family(f"complete:{len(parties)}").renamed(parties)


def _check_numbers(options: Options) -> None:
    for name in ("tolerate", "minimum_honest"):
        value = options.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidInputError(
                f"{name} must be a whole number of parties, found {value!r}"
            )


def _topology(
    given: Topology | str | None, parties: tuple[str, ...], *, alone: bool
) -> Topology:
    if alone:
        assert isinstance(given, Topology)
        given.indices(parties)  # refuses a stranger
        return given
    if given is None:
        return _everybody(parties)
    if isinstance(given, str):
        graph = Topology.family(given)
        if graph.n_parties != len(parties):
            raise InvalidInputError(
                f"the graph {given!r} has {graph.n_parties} parties, and there are "
                f"data of {len(parties)}: {listed(parties)}"
            )
        return graph.renamed(parties)
    strangers = sorted(set(given.parties) ^ set(parties))
    if strangers:
        raise InvalidInputError(
            "the graph and the data must name the same parties; only one of them has "
            f"{listed(strangers)}"
        )
    return given


def _masks(options: Options) -> Masks:
    return Masks(
        options.get("law", "uniform"),
        options.get("sigma"),
        options.get("grid"),
        options.get("largest"),
    )
