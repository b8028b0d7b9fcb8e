"""The sections of scenario and consortium files, and what each of them means.

One `Section` for each heading: its keys, and methods that return the value it stands
for. A file is read once, by `read`; whoever needs something of it asks these values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, Literal, TypeAlias, cast

from msgspec import Meta

from veilsum.consortium.costs import CostSection
from veilsum.consortium.kinds import (
    QuestionFile,
    QuestionSpec,
    command_of_question_heading,
)
from veilsum.errors import InvalidScenarioError
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import LAWS, LawName, Masks
from veilsum.minimise.costs.domains import (
    Ball,
    Box,
    Domain,
    HalfSpaces,
    Simplex,
    WholeSpace,
)
from veilsum.minimise.methods.link_faults import LinkFaults
from veilsum.minimise.methods.settings import METHODS, Settings
from veilsum.numbers.arrays import FloatArray, as_floats, listed_names
from veilsum.protocol.plan import ProtocolPolicy
from veilsum.reading import (
    Flag,
    Names,
    Number,
    Real,
    Reals,
    Section,
    Text,
    Whole,
    about_read_section,
    check_read_keys,
    missing_key_error,
)
from veilsum.tables.rules import Rules
from veilsum.tables.schema import SchemaSection

# What a file may say: others run what it says, and a rule beyond these would be none.
# Whoever calls Python with numbers of its own may go further.
BOUNDS: dict[str, dict[str, tuple[float, float]]] = {
    "masks": {"sigma": (1e-100, 1e100), "largest": (1e-100, 1e100)},
    "policy": {
        "tolerate": (0, 1000),
        "minimum_honest": (2, 1000),  # one alone cannot be hidden
        "resend": (0.01, 3600),
        "meeting": (0, 90 * 86_400),  # files may be carried by people
        "deadline": (0.01, 90 * 86_400),
        "patience": (1, 1000),
        "maximum_columns": (0, 1),
        "release_fraction": (1e-9, 1),
        "most_rounds": (1, 100),
    },
}


def check_section_bounds(heading: str, section: Section) -> None:
    """Refuse a number that nobody may ask others for."""
    for key, (least, most) in BOUNDS[heading].items():
        found = section.given().get(key, least)
        for one in found if isinstance(found, tuple) else (found,):
            if not least <= one <= most:
                raise InvalidScenarioError(
                    f"[{heading}] {key} must be from {least:g} to {most:g} in a file, "
                    f"found {one:g}",
                    code="bounds-out-of-range",
                )


# Of the graph of a scenario, which somebody else may have written: each party has a
# cost of its own in it, and links are counted before one is made.
MOST_PARTIES, MOST_LINKS = 1_000_000, 2_000_000
# Opens a graph file, with the attribute that holds its weights.
ReadGraph = Callable[[str, str | None], Topology]

Pairs: TypeAlias = Annotated[
    tuple[tuple[str, str], ...],
    Meta(
        description='a list of pairs of names, such as [["a", "b"], ["b", "c"]]',
        extra={"names": tuple[tuple[str | int, str | int], ...]},
    ),
]
Sigma: TypeAlias = Annotated[
    float | tuple[float, ...],
    Meta(description="a number, or one for each coefficient"),
]
PartyTexts: TypeAlias = Annotated[
    dict[str, str], Meta(description="a table with one text for each party")
]


class PartiesSection(Section, frozen=True, kw_only=True):
    """Names of the parties."""

    names: Names | None = None


class GraphSection(Section, frozen=True, kw_only=True):
    """Graph of mask exchange in a scenario: by family name, by file, or as edges."""

    family: Text | None = None
    file: Text | None = None
    edges: Pairs | None = None
    weight: Text | None = None

    def topology(
        self, names: tuple[str, ...] | None, read_graph: ReadGraph
    ) -> Topology:
        """Return the graph; its parties are called by these names, if there are any."""
        sources = [key for key in ("family", "file", "edges") if key in self.given()]
        if len(sources) != 1:
            raise InvalidScenarioError(
                "[graph] needs exactly one of family, file and edges, found "
                f"{listed_names(sources) or 'none'}",
                code="graph-not-one-source",
            )
        if self.weight is not None and self.file is None:
            raise InvalidScenarioError(
                "[graph] weight names an attribute of a graph file",
                code="weight-without-file",
            )
        if self.edges is not None:
            return Topology.from_edges(list(self.edges), parties=names)
        if self.family is not None:
            found = Topology.family(self.family, most_links=MOST_LINKS)
        else:
            found = read_graph(str(self.file), self.weight)
        if found.n_parties > MOST_PARTIES:
            raise InvalidScenarioError(
                f"[graph] has {found.n_parties:,} parties, and at most "
                f"{MOST_PARTIES:,} fit into a scenario: use veilsum large for more",
                code="too-many-parties",
            )
        return found if names is None else found.renamed(names)


class LinksSection(Section, frozen=True, kw_only=True):
    """Graph of mask exchange among real parties, as a list of edges."""

    edges: Pairs
    weights: (
        Annotated[
            tuple[float, ...], Meta(description="a list, one number for each link")
        ]
        | None
    ) = None

    @classmethod
    def of(cls, topology: Topology) -> LinksSection:
        """Return a graph link by link: nobody has to build it the same way."""
        pairs = tuple(
            (topology.parties[a], topology.parties[b])
            for a, b in topology.edges.tolist()
        )
        plain = bool((topology.weights == 1.0).all())
        return cls(
            edges=pairs, weights=None if plain else tuple(topology.weights.tolist())
        )


DomainKind = Literal["box", "ball", "simplex", "half-spaces", "all"]
_DOMAIN_KEYS: dict[DomainKind, tuple[str, ...]] = {
    "box": ("lower", "upper"),
    "ball": ("centre", "radius"),
    "simplex": ("total",),
    "half-spaces": ("normals", "offsets"),
    "all": (),
}


class DomainSection(Section, frozen=True, kw_only=True):
    """Where the answer is looked for."""

    kind: DomainKind
    lower: Reals | None = None
    upper: Reals | None = None
    centre: Reals | None = None
    radius: Real | None = None
    total: Real | None = None
    normals: Reals | None = None
    offsets: Reals | None = None

    def __post_init__(self) -> None:
        known = ("kind", *_DOMAIN_KEYS[self.kind])
        check_read_keys(self.given(), known, f"[domain] of kind {self.kind!r}")
        if self.kind in {"box", "half-spaces"}:
            for key in _DOMAIN_KEYS[self.kind]:
                if getattr(self, key) is None:
                    raise missing_key_error(
                        "[domain]", key, f"a {self.kind} is described by it"
                    )

    def domain(self, dim: int) -> Domain:
        def given(key: str) -> FloatArray:
            return as_floats(getattr(self, key), what=f"[domain] {key}")

        match self.kind:
            case "box":
                return Box(given("lower"), given("upper"), dim=dim)
            case "ball":
                centre = 0.0 if self.centre is None else given("centre")
                radius = 1.0 if self.radius is None else self.radius
                return Ball(centre, radius, dim=dim)
            case "simplex":
                return Simplex(dim, 1.0 if self.total is None else self.total)
            case "half-spaces":
                return HalfSpaces(given("normals"), given("offsets"))
            case "all":
                return WholeSpace(dim)


# The laws there are when a file is read, not when this was loaded.
LawWord: TypeAlias = Annotated[str, Meta(extra={"choices": LAWS})]


class MasksSection(Section, frozen=True, kw_only=True):
    """Law and parameters of the masks."""

    law: LawWord
    sigma: Sigma | None = None
    grid: Whole | None = None
    largest: Real | None = None

    def __post_init__(self) -> None:
        check_section_bounds("masks", self)

    @property
    def masks(self) -> Masks:
        """The masks that the section describes; contradictions are rejected."""
        if "sigma" in LAWS[self.law].keys and self.sigma is None:
            raise missing_key_error(
                "[masks]", "sigma", "the standard deviation of one share"
            )
        with about_read_section("masks"):
            law = cast("LawName", self.law)
            return Masks(law, self.sigma, self.grid, self.largest)

    def check_for_sums(self) -> None:
        """Refuse a grid: only costs have numbers without a unit of their own."""
        if self.grid is not None:
            raise InvalidScenarioError(
                "[masks] grid is for costs of real numbers: leave it out; the schema "
                "has the units that tables count in",
                code="grid-not-accepted",
            )


class MethodSection(Section, frozen=True, kw_only=True):
    """Method for minimising private costs, with its parameters."""

    name: Annotated[str, Meta(extra={"choices": METHODS})] | None = None
    step: Real | None = None
    power: Real | None = None
    gradient_at: Text | None = None
    mixing: Text | None = None
    rounds: Whole | None = None
    recentre: Flag | None = None
    smooth: Real | None = None
    mean_smooth: Real | None = None
    mean_convex: Real | None = None
    convex_locals: Flag | None = None
    start: Reals | None = None
    spread: Text | None = None


class StoppingSection(Section, frozen=True, kw_only=True):
    """When parties stop."""

    iterations: Whole | None = None
    tolerance: Real | None = None
    byte_budget: Whole | None = None


class SimulationSection(Section, frozen=True, kw_only=True):
    """Settings of a simulation, in which one computer plays all parties."""

    seed: Whole | None = None
    engine: Text | None = None
    precision: Text | None = None
    history: Whole | None = None
    bounds_from_costs: Flag | None = None
    faults: Annotated[dict[str, Any], Meta(description="a table")] | None = None

    def link_faults(self, topology: Topology) -> LinkFaults | None:
        """Return what goes wrong between parties; stragglers are named, or a part."""
        if self.faults is None:
            return None
        known = tuple(one.name for one in fields(LinkFaults))
        check_read_keys(self.faults, known, "[simulation] faults")
        found = dict(self.faults)
        if isinstance(found.get("stragglers"), list):
            found["stragglers"] = tuple(sorted(topology.indices(found["stragglers"])))
        if isinstance(found.get("delay"), list):
            found["delay"] = tuple(found["delay"])
        return LinkFaults(**found)


def settings_of_sections(
    method: MethodSection | None,
    stopping: StoppingSection | None,
    simulation: SimulationSection | None = None,
) -> Settings:
    """Return how costs are minimised: each key that is there, under its own name."""
    found: dict[str, Any] = {}
    for section in (method, stopping, simulation):
        found |= {} if section is None else section.given()
    for gone in ("seed", "faults"):
        found.pop(gone, None)
    if "name" in found:
        found["method"] = found.pop("name")
    return Settings(**found)


# What everybody keeps to while summing, and how long they wait for each other.
SUMMING = ("tolerate", "minimum_honest", "drop")
WAITS = ("resend", "meeting", "deadline", "patience")
# What may be asked of tables; a schema says how many rows they have.
_ROWS = ("minimum_rows", "maximum_rows")
RULES = tuple(
    one.name
    for one in fields(Rules)
    if one.name not in ("minimum_rows", "maximum_rows")
)


class RulesSection(Section, frozen=True, kw_only=True):
    """Rules as they are written down: in a policy, or as floors of a party's own.

    Attributes:
        tolerate: how many may collude, whoever they are.
        minimum_honest: how many others there must be.
        drop: whether the others may go on without a party that is lost early.
        minimum_count: see `Rules`, for all that follow too.
    """

    tolerate: Whole | None = None
    minimum_honest: Whole | None = None
    drop: Flag | None = None
    minimum_count: Whole | None = None
    effective_count: Number | None = None
    maximum_influence: Number | None = None
    maximum_columns: Number | None = None
    site_terms: Flag | None = None
    release_fraction: Number | None = None
    most_rounds: Whole | None = None


class PolicySection(RulesSection, frozen=True, kw_only=True):
    """Rules and limits of the parties, as stated in the file; all are optional.

    Attributes:
        corrupted: colluding parties in a simulation.
        resend: in seconds; for this and the next three, see `ProtocolPolicy`.
    """

    corrupted: Names | None = None
    resend: Number | None = None
    meeting: Number | None = None
    deadline: Number | None = None
    patience: Whole | None = None

    def __post_init__(self) -> None:
        check_section_bounds("policy", self)
        with about_read_section("policy"):
            policy_of_section(**self._said(*WAITS))
            _ = self.rules

    def _said(self, *keys: str) -> dict[str, Any]:
        return {key: value for key, value in self.given().items() if key in keys}

    @property
    def policy(self) -> ProtocolPolicy:
        """Protocol policy of real parties."""
        return policy_of_section(**self._said(*SUMMING, *WAITS))

    @property
    def summing(self) -> dict[str, Any]:
        """Options of a job's sums; see `Options`."""
        return {**self._said(*SUMMING), "waits": self._said(*WAITS)}

    @property
    def rules(self) -> Rules:
        """Disclosure rules of every party."""
        return Rules(**self._said(*RULES))

    def check_for(self, job: QuestionSpec) -> None:
        """Refuse a rule that this kind of job does not have: it would not be kept."""
        known = (*SUMMING, *WAITS, *(RULES if job.on_tables else ()))
        for key in self.given():
            if key not in known:
                raise InvalidScenarioError(
                    f"[policy] {key} is no rule of veilsum "
                    f"{command_of_question_heading(job.heading)}, "
                    f"which has "
                    f"{', '.join(known)}",
                    code="unknown-rule",
                )


def policy_of_section(
    *, tolerate: int = 1, minimum_honest: int = 3, drop: bool = False, **waits: Any
) -> ProtocolPolicy:
    """Return what parties keep to where nothing else was said."""
    return ProtocolPolicy(
        tolerate=tolerate,
        minimum_honest=minimum_honest,
        drop=drop,
        minimum_parties=min(3, minimum_honest + tolerate),
        **waits,
    )


# Sections that say how private costs are minimised; jobs do not use them.
COST_ONLY = ("domain", "method", "stopping")


# How a table's file is written: for all parties, or for each by name.
WRITTEN = ("decimal", "separator", "missing", "encoding", "dates")
EachText: TypeAlias = Annotated[
    str | dict[str, str],
    Meta(description="a text, or a table with one for each party"),
]


class DataSection(Section, frozen=True, kw_only=True):
    """Where each party's table is."""

    dataset: Text | None = None
    parties: Whole | None = None
    file: Text | None = None
    files: PartyTexts | None = None
    party: Text | None = None
    decimal: EachText | None = None
    separator: EachText | None = None
    missing: (
        Annotated[
            tuple[str, ...] | dict[str, tuple[str, ...]],
            Meta(description="a list of words, or a table with one for each party"),
        ]
        | None
    ) = None
    encoding: EachText | None = None
    dates: EachText | None = None

    @property
    def parquet(self) -> bool:
        names = [*(self.files or {}).values(), self.file or ""]
        return any(name.lower().endswith(".parquet") for name in names)

    def written(self, party: str | None = None) -> dict[str, Any]:
        """Return how a party's file is written; what one was not told is not there."""
        mine = {
            key: value.get(party) if isinstance(value, dict) else value
            for key, value in self.given().items()
            if key in WRITTEN
        }
        return {key: value for key, value in mine.items() if value is not None}


Places: TypeAlias = Annotated[
    str | tuple[str, ...], Meta(description="a text, or a list of texts")
]


class RelaySection(Section, frozen=True, kw_only=True):
    """Relays between the members of a consortium file."""

    relay: Places
    relay_token: Text
    relay_certificate: Text | None = None


class DeploymentSection(Section, frozen=True, kw_only=True):
    """Settings of a scenario for real parties: masks, addresses, and certificates."""

    law: LawWord | None = None
    sigma: Sigma | None = None
    grid: Whole | None = None
    largest: Real | None = None
    addresses: PartyTexts | None = None
    certificates: PartyTexts | None = None
    organiser: Text | None = None
    relay: Places | None = None
    relay_token: Text | None = None
    relay_certificate: Text | None = None


class ScenarioFile(QuestionFile, frozen=True, kw_only=True):
    """A whole scenario file, as one value."""

    title: Text = ""
    graph: GraphSection | None = None
    parties: PartiesSection | None = None
    cost: CostSection | None = None
    domain: DomainSection | None = None
    masks: MasksSection | None = None
    method: MethodSection | None = None
    stopping: StoppingSection | None = None
    policy: PolicySection | None = None
    simulation: SimulationSection | None = None
    data: DataSection | None = None
    schema: SchemaSection | None = None
    question: (
        Annotated[
            tuple[dict[str, Any], ...],
            Meta(description="a list, one [[question]] for each question of a study"),
        ]
        | None
    ) = None
    deployment: DeploymentSection | None = None
