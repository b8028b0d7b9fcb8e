"""Terms of a joint sum: links, masks, and the number of colluding parties.

They are public and the same for all parties. So is the guarantee of the masks, for all
parties or for those that are left.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar

from numpy.typing import ArrayLike

from veilsum.consortium.sections import policy_of_section
from veilsum.drivers.driver import Driver
from veilsum.errors import InvalidInputError
from veilsum.graphs.spreading import Spread, choose_spread
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.locale import limit_phrase
from veilsum.masks.laws import LawName, MaskLaw, Masks
from veilsum.numbers.arrays import listed_names, nearest_name
from veilsum.numbers.units import UnitCounts
from veilsum.privacy.guarantee import Guarantee, guarantee_against_coalition
from veilsum.privacy.worst_case import MOST_WORK, guarantee_against_any_coalition
from veilsum.progress import Progress
from veilsum.protocol.plan import ProtocolPlan, ProtocolPolicy

if TYPE_CHECKING:
    from veilsum.files.ledger import Ledger

T = TypeVar("T")


def parties_data_by_name(data: Mapping[Any, T]) -> dict[str, T]:
    """Return what each party has under its name; refuse two of one name."""
    if not isinstance(data, Mapping):
        raise InvalidInputError(
            "data must be a mapping of parties' names to what each has, found "
            f"{type(data).__name__}",
            code="data-not-mapping",
        )
    named = {str(party): held for party, held in data.items()}
    if len(named) < len(data):
        names = [str(party) for party in data]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(
            f"two parties are called {twice!r}: rename one of them",
            code="duplicate-party",
        )
    return named


# What holds for these parties if they go through with a run by themselves.
Promise: TypeAlias = Callable[[tuple[str, ...]], Guarantee]

NOBODY_CURIOUS = limit_phrase("nobody_curious")


class SumOptions(TypedDict, total=False):
    """Options of every job; each has a default.

    Attributes:
        topology: the pairs that exchange masks: a graph, or the name of a family such
            as "regular:18:4"; by default all pairs.
        law: distribution of the masks; `uniform` hides everything but the sums.
        sigma: for `lattice`, the standard deviation of a share.
        largest: for a sum or an average, the declared range of one party's numbers;
            other jobs use the ranges of their columns.
        tolerate: number of parties that may collude.
        minimum_honest: least number of other parties.
        drop: whether the others may go on without a party that is lost before anything
            was released; by default they stop, since it would be another question.
        spread: delivery of masked vectors. `flooding`, the default, sends each to
            all parties, so that none can choose the total after the others have sent
            theirs; `tree` sends far fewer bytes and does not prevent that; `auto` takes
            the tree where flooding loads a link with more than a megabyte.
        driver: `loopback`, with a machine for each party, or `vectorised`; or the
            driver of one real party, whose data alone are local then.
        waits: `resend`, `meeting`, `deadline` and `patience`; see `ProtocolPolicy`.
        run: the run's name where parties have agreed on one.
        seed: repeats a simulation.
        ledgers: by party; each is charged before the party releases anything.
        new_data: whether the data are about other people than all data in these
            ledgers; by default unrecognised data count as the earlier ones.
        progress: None for a bar in a simulation that takes long, False for none, or a
            function of the number of sums done and of the largest possible number.
        title: title of the run.
        derived: derived columns of tables that a formula names, by name; lines such as
            `{"log_cost": {"of": "cost", "as": "log"}}`.
    """

    topology: GraphLike | str | None
    law: LawName
    sigma: ArrayLike | None
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
    new_data: bool
    progress: Progress
    title: str
    derived: Mapping[str, Any]


# What a user may write instead of a driver, and where it is.
DRIVERS = {
    "vectorised": ("veilsum.drivers.arrays", "ArrayDriver"),
    "loopback": ("veilsum.drivers.loopback", "Loopback"),
}


def driver_for_terms(given: str | Driver, *, seed: int | None) -> Driver:
    """Return the driver that a user named, or gave."""
    if not isinstance(given, str):
        return given
    if given not in DRIVERS:
        raise InvalidInputError(
            f"a run is driven by one of {', '.join(DRIVERS)}, found {given!r}",
            code="unknown-driver",
        )
    # Here, not above: machines need packages that a plain simulation does not.
    place, name = DRIVERS[given]
    return getattr(import_module(place), name)(seed=seed)


@dataclass(frozen=True)
class SumPromises:
    """Guarantee for each set of parties that complete a run; computed once each.

    Attributes:
        tolerate: size of the coalitions, all of which are covered.
        corrupted: the only coalition covered, where a simulation names one.
    """

    topology: Topology
    masks: Masks
    tolerate: int
    corrupted: tuple[str, ...] | None = None
    _known: dict[tuple[str, ...], Guarantee] = field(default_factory=dict)

    def __call__(self, members: tuple[str, ...]) -> Guarantee:
        """Return the guarantee among some of the parties.

        A lost party's links are gone, and hide no other party any more.
        """
        if members not in self._known:
            self._known[members] = self._among(members)
        return self._known[members]

    def _among(self, members: tuple[str, ...]) -> Guarantee:
        everybody = len(members) == self.topology.n_parties
        left = self.topology
        if not everybody:
            left = left.induced(left.indices(members))
        if self.corrupted is not None:
            named = [name for name in self.corrupted if name in members]
            return guarantee_against_coalition(left, self.masks, corrupted=named)
        # Others wait for a party that looks at who is left.
        work = MOST_WORK if everybody else MOST_WORK / 4
        return guarantee_against_any_coalition(
            left,
            self.masks,
            tolerate=self.tolerate,
            # What shows nothing but sums is the same on every connected graph.
            most_work=1.0 if self.masks.kind.sums_only else work,
        )


# One search for the worst coalition serves all who ask under the same masks.
_promises = lru_cache(16)(SumPromises)


@dataclass(frozen=True, kw_only=True, eq=False)
class SumTerms:
    """Terms of a joint sum: its parties, checked options, and driver.

    Attributes:
        policy: waits, losses, and number of colluding parties.
        spread: delivery of masked vectors.
        driver: carries out the run; None before one is known.
        ledgers: ledgers of the parties that keep one.
        new_data: whether the data are about other people than those in the ledgers.
        progress: receives the progress of the run; see `watching`.
        run: its name; empty where runs need no names.
        corrupted: the coalition of the guarantee, where a simulation names one; None
            for every one that the policy tolerates.
    """

    topology: Topology
    law: MaskLaw
    policy: ProtocolPolicy
    spread: str
    driver: Driver | None = None
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)
    new_data: bool = False
    progress: Progress = None
    run: str = ""
    corrupted: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        parties: Sequence[str],
        *,
        counts: UnitCounts,
        options: SumOptions,
    ) -> SumTerms:
        """Return the terms for these parties; refuse what they cannot hold to.

        `counts` says what a recipe sums, and so how wide its numbers are.
        """
        check_sum_options(options)
        seed = options.get("seed")
        driver = driver_for_terms(options.get("driver", "vectorised"), seed=seed)
        alone = driver.party is not None
        topology = topology_for_terms(
            options.get("topology"), tuple(parties), alone=alone
        )
        masks = Masks(
            options.get("law", "uniform"),
            options.get("sigma"),
            largest=options.get("largest"),
        )
        law = masks.for_sums(topology, counts)
        terms = cls.under(options, topology=topology, law=law, driver=driver)
        terms.check()
        return terms

    @classmethod
    def under(
        cls, options: SumOptions, *, topology: Topology, law: MaskLaw, driver: Driver
    ) -> SumTerms:
        """Return the terms that options name; whether they hold is not checked."""
        terms = cls(
            topology=topology,
            law=law,
            policy=policy_of_section(
                tolerate=options.get("tolerate", 1),
                minimum_honest=options.get("minimum_honest", 3),
                drop=options.get("drop", False),
                **options.get("waits", {}),
            ),
            spread=options.get("spread", "flooding"),
            driver=driver,
            ledgers=options.get("ledgers", {}),
            new_data=options.get("new_data", False),
            progress=options.get("progress"),
            run=options.get("run")
            or _sum_run_name(options.get("title", ""), options.get("seed")),
        )
        strangers = sorted(set(terms.ledgers) - set(terms.parties))
        if strangers:
            raise InvalidInputError(
                f"there are ledgers of {listed_names(strangers)}, who take no part; "
                "parties "
                f"are {listed_names(terms.parties)}",
                code="ledger-of-stranger",
            )
        return terms

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.topology.parties)

    @property
    def is_real(self) -> bool:
        """Whether somebody takes part for one party, and nobody plays all of them."""
        return self.driver is not None and self.driver.party is not None

    @property
    def tolerate(self) -> int:
        """Number of parties that may collude."""
        return self.policy.tolerate

    @property
    def honest(self) -> int:
        """Least number of honest parties, after any drops that are allowed."""
        most = self.topology.n_parties
        left = self.policy.fewest(most) if self.policy.drop else most
        return left - self.tolerate

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee if no party is dropped."""
        return self.promise(self.parties)

    @cached_property
    def promise(self) -> Promise:
        """Guarantee of each sum among some parties."""
        return _promises(self.topology, self.law.masks, self.tolerate, self.corrupted)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Limits of the guarantee that follow from these terms."""
        named = self.tolerate or self.corrupted is not None
        return () if named else (NOBODY_CURIOUS,)

    def check(self, round_size: int = 0) -> None:
        """Refuse a graph on which the promise does not hold."""
        plan = self.plan(size=1, answer_size=1, terms={}, round_size=round_size)
        reason = plan.refusal(self.parties)
        if reason is None:
            return
        remain = len(self.parties) - self.tolerate
        if (missing := self.policy.minimum_honest - remain) <= 0:
            way_out = "Add links, or set a smaller tolerate"
        else:
            way_out = "Add a party" if missing == 1 else f"Add {missing} parties"
            if remain > 1:
                way_out += f", or set minimum_honest = {remain}"
        raise InvalidInputError(f"{reason}. {way_out}", code="terms-not-met")

    def spread_of(self, size: int) -> Spread:
        """Return how vectors of this size reach everybody."""
        return choose_spread(
            self.spread,
            n_parties=self.topology.n_parties,
            vector_bytes=size * self.law.number_bytes,
        )

    def plan(
        self,
        *,
        size: int,
        answer_size: int,
        terms: Mapping[str, Any],
        round_size: int = 0,
        tolerance: float = 1e-9,
        stand_in: bool = True,
    ) -> ProtocolPlan:
        agreed = {**({"run": self.run} if self.run else {}), **terms}
        return ProtocolPlan(
            terms=json.dumps(agreed, sort_keys=True).encode(),
            topology=self.topology,
            law=self.law,
            size=size,
            answer_size=answer_size,
            round_size=round_size,
            tolerance=tolerance,
            spread=self.spread_of(size),
            policy=replace(self.policy, stand_in=stand_in),
        )


def _sum_run_name(title: str, seed: int | None) -> str:
    """Return a name that no other run has, unless a seed repeats one."""
    number = secrets.token_hex(16) if seed is None else f"seed {seed}"
    return f"{title} {number}".strip()


def check_sum_options(options: Mapping[str, Any]) -> None:
    """Refuse a misspelt option, which would leave the default in force, and counts."""
    known = tuple(SumOptions.__annotations__)
    if options.get("derived"):
        raise InvalidInputError(
            "derived columns are derived from tables, and this job has none; compute "
            "them first",
            code="derived-without-table",
        )
    for name in options:
        if name not in known:
            raise InvalidInputError(
                f"this job takes no option {name!r}; "
                f"{nearest_name(name, known)}options are "
                f"{', '.join(known)}",
                code="unknown-option",
            )
    for name in ("tolerate", "minimum_honest"):
        value = options.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidInputError(
                f"{name} must be a whole number of parties, found {value!r}",
                code="not-a-count",
            )


@lru_cache(16)  # one graph serves all jobs of the same parties
def _sum_topology_of_everybody(parties: tuple[str, ...]) -> Topology:
    if len(parties) < 2:
        raise InvalidInputError(
            f"a job needs two parties or more, found {listed_names(parties) or 'none'}",
            code="too-few-parties",
        )
    return Topology.family(f"complete:{len(parties)}").renamed(parties)


def topology_for_terms(
    given: GraphLike | str | None, parties: tuple[str, ...], *, alone: bool = False
) -> Topology:
    """Return the parties' graph: everybody with everybody, a family, or as given."""
    if alone:
        assert isinstance(given, Topology)
        given.indices(parties)  # refuses a stranger
        return given
    if given is None:
        return _sum_topology_of_everybody(parties)
    if isinstance(given, str):
        graph = Topology.family(given)
        if graph.n_parties != len(parties):
            raise InvalidInputError(
                f"the graph {given!r} has {graph.n_parties} parties, and there are "
                f"data of {len(parties)}: {listed_names(parties)}",
                code="graph-size-differs",
            )
        return graph.renamed(parties)
    given = Topology.of(given)
    strangers = sorted(set(given.parties) ^ set(parties))
    if strangers:
        raise InvalidInputError(
            "the graph and the data must name the same parties; only one of them has "
            f"{listed_names(strangers)}",
            code="graph-names-differ",
        )
    return given
