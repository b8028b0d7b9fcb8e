"""The consortium file: one public file, agreed on before real parties run.

It names the run and its members with their certificates and addresses, and holds the
public sections of a scenario. Nothing in it is private, and everything in it enters the
digest that parties compare before any other message.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from math import isfinite
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

from veilsum.consortium.addresses import (
    Address as Address,
    ConsortiumRelays,
    is_any_address,
)
from veilsum.consortium.costs import PRIVATE, PublicCost
from veilsum.consortium.kinds import (
    QuestionFile,
    QuestionSpec,
    kind_of_question_heading,
    question_section_headings,
)
from veilsum.consortium.pem import der_of_pem, pem_of_der
from veilsum.consortium.sections import (
    COST_ONLY,
    DomainSection,
    LinksSection,
    MasksSection,
    MethodSection,
    PolicySection,
    RelaySection,
    StoppingSection,
    settings_of_sections,
)
from veilsum.errors import InvalidScenarioError, is_seen, printable
from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.minimise.costs.domains import Domain
from veilsum.minimise.methods.settings import Settings
from veilsum.numbers.arrays import listed_names, nearest_name
from veilsum.numbers.units import numeric_unit_of
from veilsum.protocol.plan import ProtocolPlan
from veilsum.reading import (
    Section,
    Table,
    Text,
    about_read_section,
    check_read_keys,
    read_section,
)
from veilsum.showing import Renderable, Rendering, counted_words
from veilsum.tables.schema import Schema, SchemaSection

FORMAT = 1
NAME_BYTES = 64  # what a certificate has room for
# More than can meet; and deeper than any section goes. Both before work is done.
MOST_MEMBERS, DEEPEST = 1000, 16
TITLE_LETTERS = 200
_RUN = re.compile(r"[a-z0-9-]*[0-9a-f]{32}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LAYOUT = {ord("\n"): " ", ord("\t"): " "}

SCHEMA_HINT = (
    "real parties cannot read one off all tables: write down what every table looks "
    "like, as in [schema.columns] with one line for each column, such as "
    'age = { kind = "number", minimum = 0, maximum = 120 }'
)


@dataclass(frozen=True)
class ConsortiumMember:
    """A party of the consortium, as the others know it.

    Attributes:
        name: how it is called in the graph.
        certificate: its certificate, PEM.
        address: where others dial it; None if it only dials, or nobody does.
    """

    name: str
    certificate: str
    address: Address | None


@dataclass(frozen=True, kw_only=True, eq=False)
class AgreedMinimisation:
    """Private costs of an agreed kind, minimised together."""

    heading: ClassVar[str] = "cost"
    on_tables: ClassVar[bool] = False

    cost: PublicCost
    domain: Domain
    settings: Settings


# What parties may be asked together.
Question: TypeAlias = AgreedMinimisation | QuestionSpec


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Consortium(Renderable):
    """An agreement. Build it with `consortium_from`, which checks it.

    Attributes:
        run: the unique name of the run; no two runs share it.
        title: what the run is about, in the organiser's words.
        members: all parties, in the graph's order.
        topology: who exchanges shares with whom.
        masks: how they are drawn.
        rules: what parties keep to, as far as it was written down.
        schema: what every table looks like, for questions about tables.
        question: what is asked.
        organiser: the member that wrote the file, by the file's own word; "" if it does
            not say.
        study: digest of the study that this is one question of, if it is; see `Study`.
        former: digest of the file that this one amends, hexadecimal; "" for none.
        relays: where members meet who do not reach each other; None: nowhere.
        written: the whole file in its one spelling; what the digest is of.
    """

    run: str
    title: str
    members: tuple[ConsortiumMember, ...]
    topology: Topology
    masks: Masks
    rules: PolicySection
    schema: Schema | None
    question: Question
    organiser: str = ""
    study: str = ""
    former: str = ""
    relays: ConsortiumRelays | None = None
    written: bytes = field(repr=False)

    def showing(self) -> Rendering:
        """Return what is asked of whom; certificates stay in the file."""
        names = ", ".join(member.name for member in self.members)
        return Rendering(
            f"Consortium for the run {self.run}",
            [
                *([self.title] if self.title else []),
                f"{counted_words(len(self.members), 'member')}: {names}",
                f"asked: {self.question.heading}; {self.masks.law} masks; "
                f"{counted_words(self.topology.n_edges, 'link')}",
            ],
            {"SHA-256": [self.digest.hex()]},
        )

    @property
    def certificates(self) -> dict[str, str]:
        """Every member's certificate, PEM."""
        return {member.name: member.certificate for member in self.members}

    def member(self, name: str) -> ConsortiumMember:
        """Return a member by name; an unknown one is refused with the nearest."""
        return self.members[self.topology.index(name)]

    @property
    def by_files(self) -> bool:
        """Whether nobody has an address, nor a relay: all meet through files."""
        placed = any(member.address is not None for member in self.members)
        return not placed and self.relays is None

    def dials(self, one: str, other: str) -> bool:
        """Say whether of a link's two ends `one` opens the connection.

        Whoever has no address dials; if both have one, or neither (they meet at a
        relay then), the earlier member does.
        """
        caller, called = self.member(one), self.member(other)
        if (caller.address is None) is not (called.address is None):
            return caller.address is None
        return self.topology.index(one) < self.topology.index(other)

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Every link as who dials and who is dialled."""
        pairs = [self.topology.names(edge) for edge in self.topology.edges.tolist()]
        return tuple((a, b) if self.dials(a, b) else (b, a) for a, b in pairs)

    def only_relayed(self, name: str) -> tuple[str, ...]:
        """Return the neighbours that a member can meet at a relay only."""
        if self.relays is None or self.member(name).address is not None:
            return ()
        near = self.topology.neighbours(name)
        return tuple(one for one in near if self.member(one).address is None)

    def refusal(self, members: Collection[str]) -> str | None:
        """Say why these members may not go on without the others, if they may not."""
        topology, policy = self.topology, self.rules.policy
        left = tuple(name for name in topology.parties if name in members)
        if kind_of_question_heading(self.question.heading).needs_all_members:
            lost = [name for name in topology.parties if name not in members]
            return f"without {listed_names(lost)} nothing adds up" if lost else None
        # Of a plan only the graph and the policy decide this.
        law = self.masks.on(topology)
        plan = ProtocolPlan(
            terms=b"", topology=topology, law=law, size=1, answer_size=1, policy=policy
        )
        return plan.refusal(left)

    def to_table(self) -> dict[str, Any]:
        """Return everything as plain values, as the file has it."""
        found = json.loads(self.written)
        found["members"] = [row_of_consortium_member(one) for one in self.members]
        own = ConsortiumFile.__struct_fields__
        # A question stands where the file has [cost].
        place = own.index("schema")
        asked = [name for name in found if name not in own]
        order = (*own[:place], *asked, *own[place:])
        return {name: found[name] for name in order if name in found}

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything here: who has another one holds another file."""
        return hashlib.sha256(b"veilsum consortium\0" + self.written).digest()

    @cached_property
    def members_digest(self) -> str:
        """16 letters, the same in every file of the same members; "" for a plan."""
        if not self.run.strip("0"):  # nobody has a certificate yet
            return ""
        who = canonical_agreement_json(
            sorted(member.certificate for member in self.members)
        )
        return hashlib.sha256(b"veilsum members\0" + who).hexdigest()[:16]

    @cached_property
    def bounds(self) -> str:
        """Ranges, row counts, rules and the like, in their one spelling.

        Two files with the same `question_digest` differ in these. Whoever sees which of
        them a party refuses learns how large its numbers are.
        """
        table, question = self.to_table(), self.question
        own = () if question.on_tables else (question.heading,)
        kept = (*own, "domain", "masks", "policy", "schema")
        return canonical_agreement_json(
            {name: table[name] for name in kept if name in table}
        ).decode()

    @cached_property
    def question_digest(self) -> str:
        """SHA-256 of what is asked of whom, without any bound."""
        table, question = self.to_table(), self.question
        asked = {
            "heading": question.heading,
            "members": [member.certificate for member in self.members],
            "columns": []
            if self.schema is None
            else [
                *((one.name, one.kind) for one in self.schema.columns),
                *((one.name, one.to_table()) for one in self.schema.derived),
            ],
            **(
                {question.heading: table[question.heading]}
                if question.on_tables
                else {}
            ),
        }
        return hashlib.sha256(
            b"veilsum question\0" + canonical_agreement_json(asked)
        ).hexdigest()

    @cached_property
    def section_digests(self) -> dict[str, str]:
        """A short digest of each section, to say where two files differ."""
        return {
            name: hashlib.sha256(canonical_agreement_json(content)).hexdigest()[:16]
            for name, content in self.to_table().items()
        }

    @property
    def digests(self) -> dict[str, Any]:
        """The digest of the file, and short ones of its sections."""
        return {"digest": self.digest.hex(), "sections": self.section_digests}


class ConsortiumFile(QuestionFile, frozen=True, kw_only=True):
    """A whole consortium file: its head, and the sections that may be public."""

    format: Any = None
    run: Any = None
    members: Annotated[
        tuple[Any, ...],
        Meta(description="a list, one [[members]] entry for each party"),
    ]
    title: Text = ""
    organiser: Text = ""
    study: Text = ""
    former: Text = ""
    graph: LinksSection
    masks: MasksSection
    cost: PublicCost | None = None
    domain: DomainSection | None = None
    method: MethodSection | None = None
    stopping: StoppingSection | None = None
    schema: SchemaSection | None = None
    policy: PolicySection | None = None
    deployment: RelaySection | None = None


class MemberEntry(Section, frozen=True, kw_only=True):
    """One of the file's [[members]]."""

    name: Annotated[Any, Meta(description="every party has one")]
    address: Text = ""
    certificate: Text | None = None


def canonical_agreement_json(value: Any) -> bytes:
    """Return plain values as JSON in its one spelling: sorted, without spaces."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def consortium_from(table: Table) -> Consortium:
    """Return the consortium that a parsed file describes; refuse all that is odd."""
    _refuse_what_is_not_public(table)
    check_consortium_format(table)
    _check_consortium_task(table)
    said = {
        key: plain_agreement_value(value, key)
        for key, value in table.items()
        if key != "members"
    }
    members = {"members": table["members"]} if "members" in table else {}
    file = read_section({**said, **members}, ConsortiumFile, "the consortium file")
    sections = msgspec.structs.asdict(file)
    for name, value in said.items():
        # Scenarios may have headings without keys; here the digest depends on them.
        if value == {} and sections[name] is None:
            raise InvalidScenarioError(
                f"[{name}] is empty: write its keys under the heading, or remove it",
                code="empty-section",
            )
    check_agreed_run_name(file.run)
    _check_agreed_title(file.title)
    if len(file.members) > MOST_MEMBERS:
        raise InvalidScenarioError(
            f"a consortium has {MOST_MEMBERS} members at most, found "
            f"{len(file.members)}",
            code="too-many-members",
        )
    found = tuple(consortium_member_from_row(row) for row in file.members)
    _check_members_differ(found)
    _check_agreed_organiser(file.organiser, found)
    relays = (
        None
        if file.deployment is None
        else ConsortiumRelays.of(**file.deployment.given())
    )
    topology = _topology_of_consortium(file.graph, found, relayed=relays is not None)
    with about_read_section("masks"):
        unit = None if file.cost is None else file.cost.unit
        masks = file.masks.masks
        if unit is not None:
            masks = masks.altered(unit=numeric_unit_of(unit))
        masks.on(topology).check_deployable(least_weight=float(topology.weights.min()))
    with about_read_section("schema"):
        schema = None if file.schema is None else file.schema.schema
        for column in () if schema is None else schema.columns:
            if not column.is_category:
                _ = column.measure  # nobody could agree on it later
    return Consortium(
        run=file.run,
        title=file.title,
        members=found,
        topology=topology,
        masks=masks,
        rules=file.policy or PolicySection(),
        schema=schema,
        question=_question_of_consortium(file),
        organiser=file.organiser,
        study=_check_agreed_study_digest(file.study),
        former=check_former_agreement_digest(file.former),
        relays=relays,
        written=canonical_agreement_json(
            {**said, "members": [row_of_consortium_member(one) for one in found]}
        ),
    )


# Sections of a scenario that only one computer can have which plays all parties.
NOT_PUBLIC = {
    "data": "each party gives its own table",
    "simulation": "it is for simulated parties",
    "deployment": "the file itself is what it described, but for a relay",
    "parties": "the members are",
}


def _refuse_what_is_not_public(table: Table) -> None:
    if "question" in table:
        raise InvalidScenarioError(
            "this is the file of a study, with several questions: veilsum join and "
            "veilsum check take it as it is; where one question is wanted, give the "
            "consortium.toml in that question's folder",
            code="study-not-question",
        )
    known = dict.fromkeys((*ConsortiumFile.known_keys(), *NOT_PUBLIC))
    check_read_keys(table, known, "the consortium file")
    for name, why in NOT_PUBLIC.items():
        # But for the way between members, which they must agree on.
        if name in table and "relay" not in _section_of_agreement(table, name):
            raise InvalidScenarioError(
                f"[{name}] has no place in a consortium file ({why}): remove it, or "
                "run veilsum consortium new, which leaves it out",
                code="section-not-public",
            )
    private = [key for key in PRIVATE if key in _section_of_agreement(table, "cost")]
    if private:
        raise InvalidScenarioError(
            f"[cost] {private[0]} has no place in a consortium file, which all members "
            "read: each party gives its own when it joins; take it out",
            code="cost-not-public",
        )
    if "corrupted" in _section_of_agreement(table, "policy"):
        raise InvalidScenarioError(
            "[policy] corrupted names a coalition for a simulation, and real parties "
            "promise nothing about it by name: take it out; tolerate says how many "
            "may collude, whoever they are",
            code="coalition-not-public",
        )


def _section_of_agreement(table: Table, name: str) -> Table:
    found = table.get(name)
    return found if isinstance(found, Mapping) else {}


def question_heading(present: Collection[str]) -> str:
    """Return which of the sections that are present says what is run."""
    found = [name for name in question_section_headings() if name in present]
    if not found and "question" in present:
        raise InvalidScenarioError(
            "the scenario has several [[question]], a study, and one is wanted here: "
            "write that one as a section of its own, such as [model]",
            code="study-not-question",
        )
    if len(found) != 1:
        choices = ", ".join(f"[{name}]" for name in question_section_headings())
        raise InvalidScenarioError(
            f"a consortium runs exactly one of {choices}, found "
            f"{listed_names(found) or 'none'}",
            code="not-one-task",
        )
    return found[0]


def _check_consortium_task(table: Table) -> None:
    """Refuse sections that do not go together."""
    task = question_heading(table)
    if task == "cost":
        if "schema" in table:
            raise InvalidScenarioError(
                "[schema] belongs to a job on data, not to a [cost]",
                code="schema-with-cost",
            )
        if "domain" not in table:
            raise InvalidScenarioError(
                "the consortium needs a [domain] section", code="missing-section"
            )
        return
    unused = [name for name in COST_ONLY if name in table]
    if unused:
        raise InvalidScenarioError(
            f"[{unused[0]}] belongs to a [cost], and this is a [{task}]: take it out",
            code="section-without-cost",
        )
    if kind_of_question_heading(task).spec.on_tables and "schema" not in table:
        raise InvalidScenarioError(
            f"a [{task}] needs a [schema]: {SCHEMA_HINT}", code="missing-section"
        )


def check_consortium_format(table: Table) -> None:
    """Refuse another format first: whatever else is odd then is no mistake."""
    found = table.get("format", "none")
    if type(found) is not int or found != FORMAT:
        raise InvalidScenarioError(
            f"the consortium file must say format = {FORMAT}, found {found!r}: make it "
            "with veilsum consortium new, or use the version of veilsum that made it",
            code="wrong-format",
        )


def check_agreed_run_name(run: object) -> None:
    """Refuse a name that another run may have."""
    if not isinstance(run, str) or not _RUN.fullmatch(run) or len(run) > 100:
        raise InvalidScenarioError(
            "run must be a name that no other run has: small letters, digits and "
            f"dashes, then 32 random hexadecimal digits, found {run!r}; veilsum "
            "consortium new makes one",
            code="malformed-run-name",
        )


def _check_agreed_title(title: str) -> None:
    """Refuse a title that could pass for more lines of the screen it is shown on."""
    if not is_seen(title) or "  " in title or len(title) > TITLE_LETTERS:
        shown = title if len(title) <= TITLE_LETTERS else f"{title[:TITLE_LETTERS]}..."
        raise InvalidScenarioError(
            f"title must be one line of at most {TITLE_LETTERS} letters that can be "
            f"seen, without two spaces in a row, found {printable(repr(shown))}",
            code="malformed-title",
        )


def _check_agreed_organiser(name: str, members: Sequence[ConsortiumMember]) -> None:
    """Refuse an organiser who takes no part: nobody would stand up for the file."""
    known = [member.name for member in members]
    if name and name not in known:
        raise InvalidScenarioError(
            f"organiser is {name!r}, who is no member; {nearest_name(name, known)}name "
            "the "
            "member that wrote the file, or leave it out",
            code="organiser-not-member",
        )


def _check_agreed_study_digest(digest: str) -> str:
    if digest and not _DIGEST.fullmatch(digest):
        raise InvalidScenarioError(
            "study is the digest of the study that a file is one question of, 64 "
            f"hexadecimal digits, found {printable(repr(digest[:TITLE_LETTERS]))}: "
            "leave it out",
            code="malformed-study-digest",
        )
    return digest


def check_former_agreement_digest(digest: str) -> str:
    """Return the digest of what a file amends; refuse what is none."""
    if digest and not re.fullmatch("[0-9a-f]{64}", digest):
        raise InvalidScenarioError(
            "former must be the digest of the file that this one amends, 64 "
            "hexadecimal digits: veilsum consortium amend writes it",
            code="malformed-former-digest",
        )
    return digest


def _question_of_consortium(file: ConsortiumFile) -> Question:
    """Return what is asked; which sections go together was checked before."""
    job = file.asked
    if job is not None:
        (file.policy or PolicySection()).check_for(job)
        file.masks.check_for_sums()
        return job
    assert file.cost is not None
    assert file.domain is not None
    with about_read_section("domain"):
        domain = file.domain.domain(file.cost.dim)
    with about_read_section("method"):
        settings = settings_of_sections(file.method, file.stopping)
    return AgreedMinimisation(cost=file.cost, domain=domain, settings=settings)


def _topology_of_consortium(
    graph: LinksSection, members: Sequence[ConsortiumMember], *, relayed: bool
) -> Topology:
    """Return the graph; refuse pieces, and a link that neither end can open.

    Unless nobody has an address: then nobody opens any.
    """
    with about_read_section("graph"):
        found = Topology.from_edges(
            list(graph.edges),
            parties=[member.name for member in members],
            weights=graph.weights,
        )
        pieces = graph_components(found)
    if len(pieces) > 1:
        named = "; ".join(listed_names(found.names(piece)) for piece in pieces[:4])
        raise InvalidScenarioError(
            f"[graph] is in {len(pieces)} pieces ({named}), and parties in different "
            "ones cannot run together: add a link between them",
            code="graph-disconnected",
        )
    by_files = all(member.address is None for member in members)
    for edge in [] if by_files else found.edges.tolist():
        a, b = (members[i] for i in edge)
        if a.address is None and b.address is None and not relayed:
            raise InvalidScenarioError(
                f"the link {a.name} - {b.name} joins two parties without an address, "
                "and neither can dial the other: give one of them an address, name a "
                "relay in [deployment], or take the link out",
                code="link-without-address",
            )
    return found


def consortium_member_from_row(row: object) -> ConsortiumMember:
    """Return a member as one of the file's [[members]] has it; refuse what is odd."""
    if not isinstance(row, Mapping):
        raise InvalidScenarioError(
            f"[[members]] must be tables, found {row!r}", code="members-not-tables"
        )
    entry = read_section(row, MemberEntry, "[[members]]")
    name = check_member_name(entry.name)
    try:
        if entry.certificate is None:
            raise InvalidScenarioError(
                "it has no certificate: it makes one with veilsum identity new, and "
                "sends the .crt file",
                code="missing-certificate",
            )
        certificate = pem_of_der(der_of_pem(entry.certificate))
        return ConsortiumMember(
            name, certificate, _member_address_from_text(entry.address)
        )
    except InvalidScenarioError as error:
        raise InvalidScenarioError(
            f"member {name!r}: {error}", code=error.code
        ) from None


def row_of_consortium_member(member: ConsortiumMember) -> dict[str, str]:
    """Return a member as a file has it, in its one spelling."""
    address = {} if member.address is None else {"address": str(member.address)}
    return {"name": member.name, **address, "certificate": member.certificate}


def _member_address_from_text(text: str) -> Address | None:
    """Return where a member is dialled; "" says that it only dials."""
    if not text.strip():
        return None
    address = Address.of(text)
    if is_any_address(address.host):
        raise InvalidScenarioError(
            f"{address} says where to listen, and nobody can dial it: write the "
            "address that the others reach",
            code="address-not-reachable",
        )
    return address


def check_member_name(name: object) -> str:
    """Return a party's name; refuse one that files or certificates cannot carry.

    >>> check_member_name("hospital-1")
    'hospital-1'
    """
    if not isinstance(name, str) or not _is_member_name(name):
        raise InvalidScenarioError(
            "the name of a real party is made of letters, digits, and, between them, "
            f"spaces, dots, dashes and underscores, {NAME_BYTES} bytes at most, found "
            f"{name!r}",
            code="malformed-member-name",
        )
    return name


def _is_member_name(name: str) -> bool:
    inner = all(letter.isalnum() or letter in " ._-" for letter in name)
    ends = name[:1].isalnum() and name[-1:].isalnum()
    # One spelling of an accented letter: two parties must not look alike.
    plain_letters = unicodedata.is_normalized("NFKC", name)
    return inner and ends and plain_letters and len(name.encode()) <= NAME_BYTES


def _check_members_differ(members: Sequence[ConsortiumMember]) -> None:
    """Refuse two members with one name, one certificate or one address."""
    for what in ("name", "certificate", "address"):
        owners: dict[str, str] = {}
        for member in members:
            value = getattr(member, what)
            if value is None:
                continue
            # Names become file names, and not every disk tells A from a.
            key = value if what == "certificate" else str(value).casefold()
            if key in owners:
                raise InvalidScenarioError(
                    f"two members have one {what}: {owners[key]!r} and "
                    f"{member.name!r}; give each its own",
                    code="duplicate-member",
                )
            owners[key] = member.name


def plain_agreement_value(value: Any, where: str, depth: int = 0) -> Any:
    """Return a TOML value in the one form that is compared: keys sorted, copied.

    The order of keys in a file then means nothing, whoever reads it.
    """
    if depth > DEEPEST:
        raise InvalidScenarioError(
            f"[{where.partition('.')[0]}] has tables or lists inside each other more "
            f"than {DEEPEST} deep, and no section has that",
            code="nested-too-deep",
        )
    if isinstance(value, Mapping):
        named = {_agreement_text(str(key), where): value[key] for key in sorted(value)}
        return {
            key: plain_agreement_value(item, f"{where}.{key}", depth + 1)
            for key, item in named.items()
        }
    if isinstance(value, list | tuple):
        return [plain_agreement_value(item, where, depth + 1) for item in value]
    if isinstance(value, str):
        return _agreement_text(value, where)
    if isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    if type(value) is date and where.startswith("schema."):
        # TOML has dates of its own: one spelling for both.
        return value.isoformat()
    raise InvalidScenarioError(
        f"[{where}] must be made of texts, finite numbers, true and false, found "
        f"{value!r}",
        code="not-plain-value",
    )


def _agreement_text(value: str, where: str) -> str:
    """Return a text; refuse one that could write over what a terminal shows."""
    text = value.replace("\r\n", "\n")
    # Also what turns the direction of writing, or begins another line or paragraph.
    if not is_seen(text.translate(_LAYOUT)):
        raise InvalidScenarioError(
            f"[{printable(where)}] has control characters in a text, or others that "
            f"cannot be seen: take them out of {printable(repr(value))}",
            code="invisible-characters",
        )
    return text
