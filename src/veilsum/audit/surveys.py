"""A survey, audited: delegates' masks, guests' visits, and what the host handed out.

Delegates sum as parties of every run do, and their masks are audited in the same way.
What is new are guests: attacks on their visits are in `visits`, played by each of the
coalitions, and by all delegates but one. Machines then run two worlds in which guests
have other numbers and the same totals, and all that colluders receive must be the same.

Of a closed survey the submissions lie beside the file, and everybody who has them can
look: whether they are those that the file names, and whether a word in them is there
twice, or could be somebody's number as it was typed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from veilsum.audit import visits
from veilsum.audit.attack import Outcome, Scene
from veilsum.audit.auditing import (
    FRAMES,
    RUNS,
    STOPPED,
    TAPPED,
    AttackGains,
    Audit,
    Coalition,
    Depth,
    audit,
    scene_under,
)
from veilsum.audit.late_unmasking import AuditedLoopback
from veilsum.audit.made_up import LUCK
from veilsum.audit.noninterference import interference_same_frames, sends_two_vectors
from veilsum.audit.question import AuditRehearsal, RehearsalWitness, SkippedAttack
from veilsum.audit.visits import AuditedVisits, Table, seeded_browser_chance
from veilsum.consortium.consortium import Consortium
from veilsum.drivers.arrays import ArrayDriver
from veilsum.drivers.driver import Driver
from veilsum.drivers.faults import Faults
from veilsum.errors import InvalidInputError
from veilsum.files.consortiums import MOST_BYTES, read_consortium
from veilsum.files.safe_read import read_file_contents
from veilsum.files.scenarios import read_toml_file
from veilsum.numbers.arrays import listed_names
from veilsum.party.own_survey import SUBMISSIONS
from veilsum.progress import Progress, silent_progress, watch_progress
from veilsum.scale.pieces import seed_of_piece
from veilsum.showing import counted_words
from veilsum.sums.job_file import question_job_of
from veilsum.surveys.delegate import survey_masked_sums
from veilsum.surveys.question import SurveyRecipe, SurveyResult
from veilsum.surveys.submission import SurveySubmission, longest_submission
from veilsum.surveys.survey_set import closed_survey_set, read_submissions
from veilsum.surveys.terms import SurveyTerms, survey_tally_of, survey_terms

# How often a coalition plays each attack on visits.
TRIALS: Mapping[Depth, int] = {"quick": 100, "standard": 200, "deep": 1000}
# Coalitions of all members but one that are played, beside those that are asked for.
MOST_GROUPS = 5
OF_THE_SET = "what the host handed out"
Play: TypeAlias = Callable[[], Iterable[Outcome | SkippedAttack]]
# Stands for the set of guests that are made up.
NO_SET = "0" * 64


@dataclass(frozen=True, eq=False)
class AuditedSurvey:
    """A survey's file, as it is played with guests that are nobody.

    Attributes:
        path: of its file; submissions of a closed one are looked for beside it.
    """

    consortium: Consortium
    path: Path

    # No scenario names a coalition here.
    named = ()

    @cached_property
    def terms(self) -> SurveyTerms:
        return survey_terms(self.consortium)

    @cached_property
    def visits(self) -> AuditedVisits:
        return AuditedVisits.like(self.terms)

    @cached_property
    def scene(self) -> Scene:
        witness = RehearsalWitness(ArrayDriver(seed=0))
        self.run(self.sent({}, 0), witness)
        assert witness.assignment is not None
        plan = witness.assignment.plan
        return scene_under(plan.topology, plan.law, plan.size)

    # What is played

    def tables(self, pair: Sequence[str], two: Sequence[Table]) -> dict[str, Table]:
        """Return what everybody fills in: two guests as told, the others 0 or so."""
        terms = self.visits.terms
        least = min(max(0, terms.least), terms.most)
        # The last cell is filled by one of the pair alone: no total of it is asked for.
        cells = terms.n_cells
        usual = (least,) * (cells - 1) + ((None,) if cells > 1 else (least,))
        return dict.fromkeys(terms.roster, usual) | dict(zip(pair, two, strict=True))

    def sent(
        self, tables: Mapping[str, Table], seed: int
    ) -> dict[str, SurveySubmission]:
        """Return what guests send; who has no table of its own fills in the usual."""
        whole = {**self.tables((), ()), **tables}
        return {
            name: self.visits.come(name, table, seeded_browser_chance(seed, name))
            for name, table in whole.items()
        }

    def run(self, sent: Mapping[str, SurveySubmission], driver: Driver) -> SurveyResult:
        """Add up what guests sent, as delegates do; return what everybody knows."""
        made, lines = self.visits, [*sent.values()]
        tally = survey_tally_of(
            made.terms, {name: one.filled for name, one in sent.items()}
        )
        terms = replace(made.terms, set=NO_SET, tally=tally)
        recipe = SurveyRecipe(terms)
        works = {
            name: recipe.contribution(
                name,
                shares=partial(_audited_share_sum, made, lines, name),
                masked=survey_masked_sums(terms, lines),
            )
            for name in terms.names
        }
        agreed: Any = question_job_of(self.consortium, {}).options
        options: Any = {**agreed, "driver": driver, "run": "audit"}
        return recipe.run(works, recipe.terms(options))

    # The audit

    def audit(
        self,
        scene: Scene,
        coalitions: Sequence[Coalition],
        *,
        depth: Depth = "standard",
        seed: int = 0,
        progress: Progress = None,
        **options: Any,
    ) -> Audit:
        """Audit masks, visits, frames, and submissions where there are some.

        Ctrl-C ends it, and what there is by then is kept; what is left is named.

        Raises:
            InvalidInputError: the submissions are not those that the file names.
        """
        _ = self.submissions  # before any work is done
        found = audit(
            scene, coalitions, depth=depth, seed=seed, progress=progress, **options
        )
        gained, groups = AttackGains(), self.groups(coalitions)
        trials, runs = TRIALS[depth], RUNS[depth]
        steps: list[tuple[str, Play]] = [
            (
                f"visits, {listed_names(group)}",
                partial(visits.play, self.visits, group, seed=seed, trials=trials),
            )
            for group in groups
        ]
        if runs:
            steps += [
                (FRAMES, partial(self.frames, group, seed=seed, trials=runs))
                for group in groups
            ]
            steps.append((TAPPED, partial(self.tapped, seed=seed, trials=runs)))
        steps.append((visits.KEYS, lambda: [visits.attack_keys_and_codes()]))
        steps.append((OF_THE_SET, self.handed_out))
        stopped = found.executions < found.asked
        unplayed = [name for name, _ in steps] if stopped else []
        controls = found.controls
        if not stopped:
            with watch_progress(progress) as opening:
                bar = (opening or silent_progress)("guests", len(steps))
                try:
                    for done, (name, step) in enumerate(steps):
                        unplayed = [name for name, _ in steps[done:]]
                        gained.take(_play_survey_attack(name, step))
                        bar(done + 1)
                    unplayed = []
                    controls += tuple(visits.planted_visit_leaks(self.visits, seed))
                except KeyboardInterrupt:
                    pass
        gained.skipped += [f"{name}: {STOPPED}" for name in unplayed]
        gained.skipped.append(
            "late unmasking: what a delegate masks is a sum of shares, which says "
            "nothing by itself"
        )
        return replace(
            found,
            outcomes=(*found.outcomes, *gained.outcomes),
            controls=controls,
            skipped=tuple(dict.fromkeys(gained.skipped)),
            said=(*found.said, *self.said()),
        )

    def groups(self, coalitions: Sequence[Coalition]) -> list[Coalition]:
        """Return who plays against guests: those asked for, and all members but one."""
        names = self.terms.names
        but_one = list(combinations(names, len(names) - 1))[:MOST_GROUPS]
        return list(dict.fromkeys([*filter(None, coalitions), *but_one]))

    def frames(
        self, coalition: Coalition, *, seed: int, trials: int
    ) -> Iterator[Outcome | SkippedAttack]:
        """Compare what machines send in two worlds whose totals are the same."""
        made, guests = self.visits, self.visits.hidden(coalition)
        honest = made.honest(coalition)
        if len(guests) < 2 or not honest:
            return  # the attacks on visits say so
        pair, different = guests[:2], 0
        for trial in range(trials):
            key = seed_of_piece(seed, f"frames/{trial}")
            one, other = made.tables(np.random.default_rng(key))
            first = self.sent(self.tables(pair, one), key)
            second = first | {
                name: made.come_moved(first[name], before, after, honest[0])
                for name, before, after in zip(pair, one, other, strict=True)
            }
            different += not interference_same_frames(
                partial(self.run, first),
                partial(self.run, second),
                coalition,
                seed=key % 2**32,
            ).equal
        about = "a difference in any frame, its time or its length"
        yield Outcome(FRAMES, coalition, about, trials, different, 0.0, "frames")

    def tapped(self, *, seed: int, trials: int) -> Iterator[Outcome]:
        """Compare what delegates' machines exchange with what is simulated."""
        different = 0
        for trial in range(trials):
            key = seed_of_piece(seed, f"tap/{trial}") % 2**32
            sent = self.sent({}, key)
            chance: dict[str, Any] = {"seed": key, "watched": True}
            machines = AuditedLoopback(faults=Faults(), **chance)
            ways = (ArrayDriver(**chance), machines)
            seen = [self.run(sent, way).released.seen for way in ways]
            one, other = (
                None if each is None else each.transcript(self.terms.names)
                for each in seen
            )
            different += one != other or any(map(sends_two_vectors, machines.worlds))
        about = "a number that is not what the theory's parties would send"
        yield Outcome(TAPPED, self.terms.names, about, trials, different, 0.0, "frames")

    @cached_property
    def submissions(self) -> tuple[SurveySubmission, ...]:
        """Submissions of a closed survey, which all members have; empty if not here.

        Raises:
            InvalidInputError: the submissions are not the set that the file names.
        """
        terms, path = self.terms, self.path.parent / SUBMISSIONS
        if terms.set is None or not path.exists():
            return ()
        most = (longest_submission(terms) + 1) * len(terms.guests)
        lines = read_submissions(
            read_file_contents(path, most, InvalidInputError), terms
        )
        closed_survey_set(terms, lines)
        return lines

    def handed_out(self) -> Iterator[Outcome | SkippedAttack]:
        if self.submissions:
            yield audit_masked_survey_words(self.terms, self.submissions)
            return
        yield SkippedAttack(
            OF_THE_SET,
            "the survey is open"
            if self.terms.set is None
            else f"there is no {SUBMISSIONS} beside {self.path.name}",
        )

    def said(self) -> Iterator[str]:
        """Say who is left if members collude, and what stood for what."""
        terms, made = self.terms, self.visits.terms
        for size in range(1, len(terms.names)):
            few = terms.honest(terms.roster, size)
            beyond = "" if size <= terms.tolerate else ", which nobody checks"
            yield (
                f"if {size} of {len(terms.names)} members collude, totals are over "
                f"{counted_words(few, 'guest')} at worst, of those invited{beyond}"
            )
        yield (
            f"all {len(terms.names)} members together open every share: every number "
            "of every guest"
        )
        if (len(made.guests), made.n_cells) != (len(terms.guests), terms.n_cells):
            yield (
                f"{len(made.guests)} guests and {made.n_cells} cells that were made up "
                f"stood for {len(terms.guests):,} and {terms.n_cells:,}"
            )


def audit_masked_survey_words(
    terms: SurveyTerms, lines: Sequence[SurveySubmission]
) -> Outcome:
    """Look for words of masked vectors that chance would not have made."""
    words = np.stack([one.words for one in lines])
    _, place, count = np.unique(words, return_inverse=True, return_counts=True)
    odd = (count[place].reshape(words.shape) > 1).any(axis=1)
    span = terms.most - terms.least + 1
    about = "masked words that are there twice"
    if words.size * span < LUCK * visits.RING:
        # So narrow a range that no mask falls into it by chance.
        low = np.uint64(terms.least % visits.RING)
        odd |= ((words - low) < np.uint64(span)).any(axis=1)
        about += ", or could be a number as it was typed"
    return Outcome(OF_THE_SET, (), about, len(lines), int(np.count_nonzero(odd)), LUCK)


def _play_survey_attack(name: str, play: Play) -> tuple[Outcome | SkippedAttack, ...]:
    try:
        return tuple(play())
    except InvalidInputError as error:
        return (SkippedAttack(name, str(error)),)


def _audited_share_sum(
    made: AuditedVisits, lines: Sequence[SurveySubmission], name: str
) -> Any:
    total = made.share(lines[0], name)
    for one in lines[1:]:
        total = total + made.share(one, name)  # wraps around, as it should
    return total


def rehearse_attack_target(
    path: Path, question: str | None = None
) -> AuditRehearsal | AuditedSurvey:
    """Return what a file asks, as it is played on what is nobody's.

    Args:
        path: of the file.
        question: which one, of a study.
    """
    table = read_toml_file(path, most_bytes=MOST_BYTES)
    if "survey" not in table:
        return AuditRehearsal.read(path, question)
    if "members" not in table:
        raise InvalidInputError(
            f"{path} is the plan of a survey, which has no guests yet: veilsum collect "
            "new makes the open file of it, which can be audited",
            code="survey-plan-without-guests",
        )
    return AuditedSurvey(read_consortium(path), path)
