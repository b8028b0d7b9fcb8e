"""A party's own rules, for every consortium: its file `veilsum.toml`.

    columns = ["age", "bmi", "sex", "cost"]     # nothing else may be asked about
    jobs = ["model", "statistics"]
    functions = ["log"]                         # forms of derived columns
    organisers = ["hospital-1"]                 # whose files are considered
    recodings = ["5f0c9e1b7a3d4c28"]            # who may recode numbers

    [floors]                                    # no consortium file goes below
    minimum_count = 10
    tolerate = 2

No consortium file can change it. Points that it does not settle are decided by a person
after reading which rules are weaker than usual; in unattended runs, the usual rules are
floors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from veilsum.consortium.consortium import Consortium
from veilsum.consortium.kinds import question_section_headings
from veilsum.consortium.sections import PolicySection, RulesSection
from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.files.scenarios import read_toml_file
from veilsum.locale import phrase
from veilsum.numbers.arrays import listed_names, nearest_name
from veilsum.reading import Names, Section, Whole, read_section
from veilsum.sums.kinds import agreed_question_of, agreed_sum_job
from veilsum.sums.wording import exact_number_words
from veilsum.surveys.terms import MINIMUM_GUESTS
from veilsum.tables.derived import FORMS, DerivedColumn
from veilsum.tables.rules import RANGES, Rules

FILE_NAME = "veilsum.toml"
# A file that a person wrote by hand.
MOST_BYTES = 1 << 20

KNOWN: Mapping[str, Callable[[], tuple[str, ...]]] = {
    "jobs": question_section_headings,
    "functions": lambda: FORMS,
}

Side: TypeAlias = Literal["at least", "at most"]
Value: TypeAlias = float | bool

# On which side of its value a rule is stricter. Of a flag false is.
STRICTER: Mapping[str, Side] = {
    "tolerate": "at least",
    "minimum_honest": "at least",
    "minimum_guests": "at least",
    "drop": "at most",
    **{name: one.stricter for name, one in RANGES.items()},
}


def usual_own_rules() -> dict[str, Value]:
    """Return what holds where nobody has written anything else."""
    policy = PolicySection().policy
    found = {
        **asdict(Rules()),
        **{key: getattr(policy, key) for key in ("tolerate", "minimum_honest", "drop")},
        "minimum_guests": MINIMUM_GUESTS,
    }
    return {name: found[name] for name in STRICTER}


def rules_in_force(consortium: Consortium) -> dict[str, Value]:
    """Return by name every rule of a consortium that can be stricter or weaker.

    A question without tables has none of the rules about them. A survey hides guests
    among guests: it counts these.
    """
    _, kind = agreed_question_of(consortium)
    found = kind.rules_in_force(consortium)
    return {name: found[name] for name in STRICTER if name in found}


def is_rule_weaker(name: str, value: Value, than: Value) -> bool:
    """Say whether a rule with this value lets more pass than with another one."""
    return value < than if STRICTER[name] == "at least" else value > than


def relaxed_rules(consortium: Consortium) -> dict[str, tuple[Value, Value]]:
    """Return the rules that are weaker than usual, each with its usual value."""
    known, found = usual_own_rules(), rules_in_force(consortium)
    return {
        name: (value, known[name])
        for name, value in found.items()
        if is_rule_weaker(name, value, known[name])
    }


class FloorsSection(RulesSection, frozen=True, kw_only=True):
    """Lower bounds on the rules of any consortium file."""

    minimum_rows: Whole | None = None
    minimum_guests: Whole | None = None


Consortiums: TypeAlias = Annotated[
    bool | tuple[str, ...],
    Meta(description="true, false, or a list of consortiums as veilsum check shows"),
]


class OwnFile(Section, frozen=True, kw_only=True):
    """A whole veilsum.toml."""

    columns: Names | None = None
    jobs: Names | None = None
    functions: Names | None = None
    organisers: Names | None = None
    recodings: Consortiums | None = None
    floors: FloorsSection | None = None


class OwnRulesError(InvalidInputError):
    """This party's own rules do not allow what a consortium file asks."""


@dataclass(frozen=True, kw_only=True)
class OwnRules:
    """A party's own rules.

    Attributes:
        source: the file's name, for its owner; "" if there is none.
        columns: that may be asked about; None for all.
        jobs: the headings of questions that may be asked; None for all.
        functions: forms of derived columns that a question may use; None for all.
        organisers: whose files are considered; None for everybody's.
        recodings: whether dictionaries may recode numbers, which can make a step of a
            column: everybody's, nobody's, or those of some consortiums.
        floors: by rule, what no consortium goes below.
    """

    source: str = ""
    columns: tuple[str, ...] | None = None
    jobs: tuple[str, ...] | None = None
    functions: tuple[str, ...] | None = None
    organisers: tuple[str, ...] | None = None
    recodings: bool | tuple[str, ...] = False
    floors: Mapping[str, Value] = field(default_factory=dict)

    def refusals(self, consortium: Consortium, *, alone: bool) -> tuple[str, ...]:
        """Return everything that these rules do not allow, a sentence each.

        Args:
            consortium: what is asked.
            alone: whether no person is asked: the usual rules are floors then, where
                these say nothing else.
        """
        return (
            *self._on_what(consortium),
            *self._on_recodings(consortium),
            *self._on_floors(consortium, alone=alone),
        )

    def check(self, consortium: Consortium, *, alone: bool) -> None:
        """Refuse what these rules do not allow.

        Raises:
            OwnRulesError: the file asks for more; nothing was sent.
        """
        found = self.refusals(consortium, alone=alone)
        if found:
            usual_rules = ", so the usual rules hold with --yes" if alone else ""
            whose = self.source or f"no {FILE_NAME}{usual_rules}"
            raise OwnRulesError(
                f"this party's own rules ({whose}) refuse: {'; '.join(found)}. Nothing "
                "was sent.",
                code="own-rules-refuse",
            )

    def _on_what(self, consortium: Consortium) -> Iterator[str]:
        asked: dict[str, tuple[str, ...]] = {
            "jobs": (consortium.question.heading,),
            "organisers": (consortium.organiser,),
            "columns": columns_own_rules_meet(consortium),
            "functions": functions_asked_of_party(consortium),
        }
        for key, found in asked.items():
            allowed = getattr(self, key)
            if allowed is None:
                continue
            beyond = [name for name in found if name not in allowed]
            if beyond == [""]:
                yield "this file does not say who wrote it (organiser)"
            elif beyond:
                yield (
                    f"{key} = {listed_names(allowed) or 'none'}, and this file has "
                    f"{listed_names(beyond)}"
                )

    def allows_recodings(self, consortium: Consortium) -> bool:
        """Whether dictionaries of these members may recode numbers."""
        if isinstance(self.recodings, tuple):
            return consortium.members_digest in self.recodings
        return self.recodings

    def recodings_sentence(self, consortium: Consortium) -> str:
        """Return which members may recode numbers, and whether these members may."""
        found = f"recodings of numbers {self._recoding_words}"
        if isinstance(self.recodings, tuple) and self.recodings:
            among = "among" if self.allows_recodings(consortium) else "not among"
            found += f"; the members of this file are {among} them"
        return f"{found} ({self.source or f'no {FILE_NAME}'})"

    def _on_recodings(self, consortium: Consortium) -> Iterator[str]:
        aimed = recodings_own_rules_meet(consortium)
        if not aimed or self.allows_recodings(consortium):
            return
        yield (
            f"the dictionary recodes numbers: {listed_names(aimed)}. "
            f"{phrase('consent', 'own_rules.aim')}. The "
            "organiser can ask for a column with these values instead, as [schema] "
            "describes it; or allow it: "
            f"{own_rule_allowing_recodings(consortium)}"
        )

    def _on_floors(self, consortium: Consortium, *, alone: bool) -> Iterator[str]:
        floors = {**(usual_own_rules() if alone else {}), **self.floors}
        for name, value in rules_in_force(consortium).items():
            if name in floors and is_rule_weaker(name, value, floors[name]):
                bound = _own_rule_bound_words(name, floors[name])
                if name in self.floors:
                    yield (
                        f"{name} is {bound} by [floors]; this file has "
                        f"{exact_number_words(value)}"
                    )
                    continue
                yield (
                    f"{name} is usually {bound}; this file has "
                    f"{exact_number_words(value)}; a "
                    "person may agree to it without --yes, or write [floors] "
                    f"{name} = {exact_number_words(value)} into {FILE_NAME}"
                )

    @property
    def _recoding_words(self) -> str:
        if isinstance(self.recodings, tuple) and self.recodings:
            names = listed_names(self.recodings)
        else:
            key = "own_rules.everybody" if self.recodings else "own_rules.nobody"
            names = phrase("consent", key)
        return phrase("consent", "own_rules.allowed", names=names)

    @property
    def lines(self) -> tuple[str, ...]:
        """Description of the rules, for their owner."""
        say = partial(phrase, "consent")
        recodings = say("own_rules.recodings", whom=self._recoding_words)
        if not self.source:
            return say("own_rules.none", file=FILE_NAME), recodings
        lists = ("columns", "jobs", "functions", "organisers")
        given = {key: getattr(self, key) for key in lists}
        empty = say("own_rules.empty")
        return (
            say("own_rules.source", source=self.source),
            *(
                say(
                    "own_rules.list",
                    key=key,
                    names=listed_names(names, most=40) or empty,
                )
                for key, names in given.items()
                if names is not None
            ),
            recodings,
            *(
                say(
                    "own_rules.floor",
                    name=name,
                    bound=_own_rule_bound_words(name, value),
                )
                for name, value in self.floors.items()
            ),
        )


def read_own_rules(path: str | Path) -> OwnRules:
    """Return the rules in a party's own file; a misspelt key is refused with a hint.

    Raises:
        InvalidScenarioError: it cannot be read: a rule that nobody understands would
            be a rule that nobody keeps.
    """
    table = read_toml_file(Path(path), most_bytes=MOST_BYTES)
    try:
        file = read_section(table, OwnFile, "the file of own rules")
        for key, names in KNOWN.items():
            known = names()
            for name in getattr(file, key) or ():
                if name not in known:
                    raise InvalidScenarioError(
                        f"{key} has {name!r}; {nearest_name(name, known)}choose from "
                        f"{', '.join(known)}",
                        code="unknown-key",
                    )
    except InvalidScenarioError as error:
        raise InvalidScenarioError(f"{path}: {error}", code=error.code) from None
    floors = {} if file.floors is None else file.floors.given()
    lists: dict[str, Any] = {k: v for k, v in file.given().items() if k != "floors"}
    return OwnRules(source=str(path), floors=floors, **lists)


def own_rules_in(folder: Path, given: Path | None = None) -> OwnRules:
    """Return the rules in a file, or in the one in a folder, if there is one."""
    path = given or folder / FILE_NAME
    if given is None and not path.exists():
        return OwnRules()
    return read_own_rules(path)


def columns_own_rules_meet(consortium: Consortium) -> tuple[str, ...]:
    """Return the columns that a question uses, or that its rows need."""
    job = agreed_sum_job(consortium)
    return () if job is None else job.schema.names_with_complete


def derived_columns_asked(consortium: Consortium) -> tuple[DerivedColumn, ...]:
    """Return the derived columns that a question uses."""
    job = agreed_sum_job(consortium)
    return () if job is None else job.schema.derived


def own_rule_allowing_recodings(consortium: Consortium) -> str:
    """Return the line of a party's own rules that allows recodings of numbers."""
    if not (code := consortium.members_digest):
        return phrase("consent", "own_rules.recodings_true", file=FILE_NAME)
    return phrase(
        "consent", "own_rules.recodings_of_members", code=code, file=FILE_NAME
    )


def recodings_own_rules_meet(consortium: Consortium) -> tuple[str, ...]:
    """Return recodings of numbers among the columns of a question."""
    job = agreed_sum_job(consortium)
    asked = None if job is None else job.question
    return () if asked is None else asked.recodings


def functions_asked_of_party(consortium: Consortium) -> tuple[str, ...]:
    """Return the forms of the derived columns that a question uses, each once."""
    return tuple(dict.fromkeys(one.form for one in derived_columns_asked(consortium)))


def _own_rule_bound_words(name: str, value: Value) -> str:
    if isinstance(value, bool):
        return "true or false" if value else "false"
    return f"{STRICTER[name]} {exact_number_words(value)}"
