"""Report of a run, as one page for people who may read its result.

Everything on it follows from data that all members of the run have: the consortium
file, the receipts, and the sums, from which the answer is computed again. So it shows
no private data of the member that writes it: not its table, its own half of the consent
page, its ledger, its key or its transcript. The page does not contain the sums, which
are for members only, or the secrets that open digests in receipts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

from veilsum.consortium.consortium import Consortium
from veilsum.consortium.study import AgreedStudy
from veilsum.errors import InvalidInputError, MissingExtraError, VeilsumError
from veilsum.files.consortiums import read_agreement
from veilsum.locale import catalogue, phrase
from veilsum.net.identity import certificate_fingerprint
from veilsum.net.receipt import (
    Receipt,
    ReceiptFinding,
    read_receipt,
    released_line_of_receipt,
    verify_receipts,
)
from veilsum.numbers.arrays import Array, listed_names
from veilsum.page import (
    PageHtml,
    Part,
    commands,
    facts,
    figure,
    folded,
    html,
    listing,
    notice,
    page,
    paragraph,
    section,
    shown,
    table,
    tag,
    together,
)
from veilsum.party.audit_record import AuditRecord, read_audit_record
from veilsum.party.consent import Consent, consent_to
from veilsum.party.replay import (
    SUMS,
    UNSOUND,
    agreed_findings,
    read_plain_result,
    read_sums_to_replay,
    replay_released_sums,
    result_findings,
)
from veilsum.party.run_folder import OF_ALL, SUFFIXES, RunFolder
from veilsum.party.study_page import consent_to_study
from veilsum.party.studying import STATUS, StudyStatus, read_study_status
from veilsum.report.drawing import draw
from veilsum.report.figures import figure_svg
from veilsum.report.network import network_svg
from veilsum.sums.running import SumJobResult

# A page goes by mail: figures that would take more than this are left out, and that is
# said. On the page a byte of them takes a third more.
MOST_DRAWN = 150_000
AUDIT = "audit.json"
MOST_ABOUT = 80  # letters
MARKS = {True: "ok", False: "NOT ok"}


@dataclass(frozen=True)
class RunReport:
    """A report, and whether everything that it was made of is in order."""

    content: bytes
    good: bool


def report_of_run(what: Path, *, receipts: Sequence[Path] = ()) -> RunReport:
    """Return the report of a run, or of a study.

    Args:
        what: the folder that `veilsum join` wrote to, or that of `veilsum up`.
        receipts: of other members, to be held beside its own.

    Raises:
        InvalidInputError: it is no such folder, or the run has not ended.
    """
    if not what.is_dir():
        raise InvalidInputError(
            f"{what} is no folder: a report is about the folder that veilsum join "
            "wrote to (--out); of a plan there is a page for an officer, with "
            "--for dpo",
            code="not-a-folder",
        )
    seats = [one for one in sorted(what.glob("*/out")) if _is_of_join(one)]
    if seats and not _is_of_join(what):
        # All parties are on this computer: the first one's, beside everybody's word.
        found = [path for one in seats for path in sorted(one.glob("**/receipt.json"))]
        return report_of_run(seats[0], receipts=[*receipts, *found])
    others = [read_receipt(one) for one in receipts]
    if (what / STATUS).exists():
        return _report_of_study(what, others)
    return _report_of_single_run(ReportedRun(what, others))


def _is_of_join(folder: Path) -> bool:
    return any((folder / name).exists() for name in (STATUS, "receipt.json"))


@dataclass
class ReportFigureRoom:
    """Remaining space for figures on a page, in bytes."""

    left: int = MOST_DRAWN


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """A run that has ended, as one member has it.

    Attributes:
        folder: what `veilsum join` wrote to.
        others: receipts of other members; of other runs, too.
        study: of a question, the file of its study, if that is here.
    """

    folder: Path
    others: Sequence[Receipt]
    room: ReportFigureRoom = field(default_factory=ReportFigureRoom)
    study: Path | None = None

    @cached_property
    def files(self) -> RunFolder:
        return RunFolder(self.folder)

    @cached_property
    def receipt(self) -> Receipt:
        if self.files.receipt is None:
            raise InvalidInputError(
                f"there is no receipt.json in {self.folder}: give the folder that "
                "veilsum join had with --out, once the run has ended with an answer",
                code="missing-receipt",
            )
        return self.files.receipt

    @cached_property
    def receipts(self) -> tuple[Receipt, ...]:
        """All that are here of this run, its own first, each once."""
        run = self.receipt.run
        found = [self.receipt, *(one for one in self.others if one.run == run)]
        return tuple({one.signature: one for one in found}.values())

    @cached_property
    def consortium(self) -> Consortium:
        return self._agreed[1]

    @property
    def file(self) -> Path:
        return self._agreed[0]

    @cached_property
    def _agreed(self) -> tuple[Path, Consortium]:
        _ = self.receipt
        if self.files.agreed is None:
            raise InvalidInputError(
                f"the consortium file of the run {self.receipt.run} is neither in "
                f"{self.folder} nor in the folder around it: copy it there",
                code="missing-consortium-file",
            )
        return self.files.agreed

    @cached_property
    def page(self) -> Consent:
        return consent_to(self.consortium)

    def words(self, key: str) -> tuple[str, ...]:
        return next(one.lines for one in self.page.shared if one.key == key)

    @cached_property
    def plain(self) -> dict[str, Any]:
        """All that result.json says; what of it is a member's own stays there."""
        return read_plain_result(self.folder / "result.json")

    @cached_property
    def sums(self) -> tuple[Array[Any], ...]:
        """Released sums, which all members know; empty if no file has them."""
        path = self.folder / SUMS
        return read_sums_to_replay(path) if path.exists() else ()

    @cached_property
    def result(self) -> SumJobResult | None:
        """The answer, worked out again; None if it does not follow."""
        members = [*self.receipt.parties]
        order = tuple(one for one in self.consortium.topology.parties if one in members)
        answer = None if self.sums else _report_vector(self.plain.get("minimiser"))
        try:
            return replay_released_sums(
                self.consortium, sums=self.sums, members=order, answer=answer
            )
        except UNSOUND:
            return None

    @cached_property
    def findings(self) -> tuple[ReceiptFinding, ...]:
        """Findings from comparing receipts, consortium file, result and sums."""
        whole = {one.party for one in self.receipts} >= {*self.receipt.parties}
        verdict = verify_receipts(self.receipts, self.consortium)
        found = [one for one in verdict.findings if whole or one.check not in OF_ALL]
        found += agreed_findings(self.receipts, self.consortium)
        if self.sums or self.result is not None:
            found += result_findings(
                self.receipts, self.consortium, result=self.plain, sums=self.sums
            )
        return tuple(found)

    @property
    def good(self) -> bool:
        return all(one.good for one in self.findings)

    @cached_property
    def audit(self) -> AuditRecord | None:
        """The record of an audit that lies beside, if there is one."""
        found = [one for one in self.files.files if one.name == AUDIT]
        return read_audit_record(found[0]) if found else None

    def is_about(self, record: AuditRecord) -> bool:
        """Say whether an audit is of this run's file, or of this question of it."""
        digest, asked = record.content["agreed"]["file"], record.asked.get("question")
        if self.study is not None and asked is not None:
            return asked == self.folder.name and digest == _report_file_sha256(
                self.study
            )
        return asked is None and digest == _report_file_sha256(self.file)


def _report_file_sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _report_vector(given: Any) -> Any:
    import numpy as np

    numbers = isinstance(given, list) and all(type(x) in {int, float} for x in given)
    return np.array(given, dtype=np.float64) if numbers else None


# One run


def _report_of_single_run(run: ReportedRun) -> RunReport:
    agreed = run.consortium
    sections = [
        section("The question", *_report_question(run)),
        section("The answer", *_report_answer(run)),
        section("The network", *_report_network(run)),
        section("What is promised", *_report_guarantee(run)),
        section(
            "Who could compute what", *_report_who_took_part(run), _report_rules(run)
        ),
        section("Audit", *_report_audit(run)),
        section("Receipts", *_report_receipts(run), _report_checks(run)),
        section("Limits", *_report_limits(run)),
        section("How to verify it, and to ask again", *_report_how_to_verify(run)),
        section("Who may read this", *_report_readers()),
    ]
    title = agreed.title or f"Run {agreed.run}"
    lead = [*_report_state(run.findings, run.receipts), facts(_report_about_run(run))]
    return RunReport(page(title, *sections, lead=lead), run.good)


def _report_state(
    findings: Sequence[ReceiptFinding], receipts: Sequence[Receipt]
) -> Iterator[PageHtml]:
    wrong = [f"{one.check} ({one.detail})" for one in findings if not one.good]
    if wrong:
        yield notice(
            tag("span", "Do not use this result. ", class_="bad"),
            f"{len(wrong)} of {len(findings)} checks fail: {'; '.join(wrong)}",
            bad=True,
        )
        return
    parties = {one.party for one in receipts}
    absent = [one for one in receipts[0].parties if one not in parties]
    words = f"All {len(findings)} checks of what was signed hold."
    if absent:
        words += f" Not here are the receipts of {listed_names(absent)}."
    yield notice(words)


def _report_about_run(run: ReportedRun) -> Iterator[tuple[Part, Part]]:
    agreed, own = run.consortium, run.receipt
    yield "run", agreed.run
    yield (
        "members",
        f"{len(agreed.members)}: {listed_names([*agreed.topology.parties])}",
    )
    if own.lost:
        yield "lost on the way", listed_names(own.lost)
    yield "ended", f"{own.finished}, by the clock of {own.party}"
    yield "written from", f"what {own.party} has of it (veilsum {own.version})"


def _report_sentence(line: str) -> PageHtml:
    """Return a line of a page as a sentence; what it is about, before a colon, bold."""
    about, colon, rest = line.partition(": ")
    if colon and len(about) <= MOST_ABOUT and '"' not in about:
        return together(tag("strong", _report_capital(about), colon), rest)
    return html(_report_capital(line))


def _report_capital(line: str) -> str:
    return line[:1].upper() + line[1:]


def _report_lines(lines: Iterable[str]) -> PageHtml:
    """Return lines of a page: items after a dash are a list below their line."""
    parts, items = list[PageHtml](), list[str]()
    for line in [*lines, ""]:
        if line.startswith("- "):
            items.append(line[2:])
            continue
        if items:
            parts.append(listing(items))
            items = []
        if line:
            parts.append(paragraph(_report_sentence(line)))
    return PageHtml("".join(parts))


def _report_question(run: ReportedRun) -> Iterator[PageHtml]:
    lines = run.words("asked")
    first = [one for one in lines if not one.startswith("- ")]
    cut = next((k for k, one in enumerate(first) if one.startswith("columns ")), 3)
    yield _report_lines(first[: min(cut, 3)])
    yield folded("The question in full", _report_lines(lines))


def _report_answer(run: ReportedRun) -> Iterator[PageHtml]:
    result = run.result
    if result is None:
        yield notice(phrase("report", "no_sums"), bad=True)
        yield from _report_result_rows(
            run.plain.get("table"), run.plain.get("minimiser")
        )
        return
    yield shown(result.answered())
    yield from _report_figures(run, result)


def _report_result_rows(given: Any, answer: Any) -> Iterator[PageHtml]:
    """Yield a result's table; without one, the numbers of its answer."""
    if isinstance(given, list) and given and all(isinstance(x, dict) for x in given):
        keys = [str(key) for key in given[0]]
        rows = [[_report_number_words(row.get(key)) for key in keys] for row in given]
        yield table([key.replace("_", " ") for key in keys], rows)
    elif isinstance(answer, list):
        rows = [[f"x[{k}]", _report_number_words(one)] for k, one in enumerate(answer)]
        yield table(["", "value"], rows)


def _report_number_words(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _report_figures(run: ReportedRun, result: SumJobResult) -> Iterator[PageHtml]:
    try:
        drawn = figure_svg(draw(result))
    except MissingExtraError as error:
        yield tag("p", f"No figure was drawn: {error}", class_="soft")
        return
    except InvalidInputError:
        return  # of some results there is nothing to draw
    run.room.left -= len(drawn)
    if run.room.left < 0:
        yield tag("p", "Its figure would make this file too large.", class_="soft")
        return
    alt = "A figure of the answer; its numbers are in the table above."
    yield figure(drawn, alt=alt)


def _report_network(run: ReportedRun) -> Iterator[PageHtml]:
    agreed, promise = run.consortium, run.receipt.guarantee
    topology, coalition = agreed.topology, _report_names(promise.get("corrupted"))
    words = f"{topology.n_parties} parties and {len(topology.edges)} links."
    if coalition:
        words += (
            f" Squares: {listed_names(coalition)}, for whom the promise is told. Solid "
            "links are between the others."
        )
    if run.receipt.lost:
        words += f" Rings: {listed_names(run.receipt.lost)}, lost on the way."
    yield figure(
        network_svg(topology, coalition=coalition, lost=run.receipt.lost),
        alt=f"The network: {words}",
        caption=words,
    )
    yield paragraph(phrase("report", "link_by_files" if agreed.by_files else "link"))


def _report_names(given: Any) -> tuple[str, ...]:
    return tuple(map(str, given)) if isinstance(given, list | tuple) else ()


def _report_guarantee(run: ReportedRun) -> Iterator[PageHtml]:
    first, signed = run.words("first"), run.receipt.guarantee
    if run.page.facts["relaxed"]:
        yield notice(_report_lines(first), bad=True)
    if run.result is not None:
        yield shown(run.result.guarantee.showing())
    if not run.page.facts["relaxed"]:
        yield _report_lines(first)
    numbers = catalogue("en", "report")["numbers"]
    named = ((name, signed.get(key)) for key, name in numbers.items())
    yield facts(
        (name, _report_number_words(value))
        for name, value in named
        if value is not None
    )
    yield folded(
        "What was released, over all members",
        listing([*map(released_line_of_receipt, run.receipt.released)]),
    )


def _report_who_took_part(run: ReportedRun) -> Iterator[PageHtml]:
    if run.receipt.lost:
        left = run.receipt.parties
        lost, others = listed_names(run.receipt.lost), len(left) - 1
        yield notice(
            phrase("report", "lost", lost=lost, left=listed_names(left), others=others)
        )
    yield _report_lines(run.words("who"))
    yield folded(
        "What became known to every member",
        _report_lines(run.words("known")),
    )
    yield tag("p", phrase("report", "you"), class_="soft")


def _report_rules(run: ReportedRun) -> PageHtml:
    found = next(
        one
        for one in run.page.shared
        if one.heading.startswith(("WHAT ALL KEEP", "WHAT EVERY PARTY CHECKS"))
    )
    return folded("What every party kept to", _report_lines(found.lines))


def _report_audit(run: ReportedRun) -> Iterator[PageHtml]:
    try:
        record = run.audit
        if record is None:
            yield paragraph(phrase("report", "no_audit"))
            yield commands(f"veilsum audit {run.file.name} --out audit")
            return
        yield from [*_report_audit_findings(run, record)]
    except (InvalidInputError, KeyError, TypeError, AttributeError, ValueError):
        yield notice(phrase("report", "odd_audit"), bad=True)


def _report_audit_findings(run: ReportedRun, record: AuditRecord) -> Iterator[PageHtml]:
    found = record.content["audit"]
    if not run.is_about(record):
        yield notice(f"The {AUDIT} beside this run is about another file.", bad=True)
        return
    good, words = record.signed_words(run.consortium.certificates)
    odd = found["findings"] or found["crossed"] or found["broken"] or not good
    yield notice(str(found["verdict"]), bad=bool(odd))
    yield paragraph(f"{_report_capital(words)}.")
    rows = [
        [
            str(one["attack"]),
            listed_names(_report_names(one["coalition"])) or "anybody",
            *(f"{100 * float(one[key]):.4g}%" for key in ("promised", "rate")),
            f"{int(one['trials']):,}",
        ]
        for one in found["outcomes"]
    ]
    columns = ("attack", "by", "promised", "measured", "played")
    yield table(columns, rows, caption="How often attacks may succeed, and did")
    controls = [
        [str(one["name"]), str(one["found"]), MARKS[one["holds"] is True]]
        for one in found["controls"]
    ]
    yield folded("Controls", table(("control", "found", ""), controls))


def _report_receipts(run: ReportedRun) -> Iterator[PageHtml]:
    here = {one.party for one in run.receipts}
    rows = [
        [
            name,
            "lost" if name in run.receipt.lost else "to the end",
            "here" if name in here else "not here",
            certificate_fingerprint(certificate),
        ]
        for name, certificate in run.consortium.certificates.items()
    ]
    yield table(
        ("party", "took part", "receipt", "fingerprint of its certificate"),
        rows,
        caption="Who signed",
    )
    if run.receipt.evidence:
        yield notice(phrase("report", "evidence", party=run.receipt.party), bad=True)
    if not here >= {*run.receipt.parties}:
        yield paragraph(phrase("report", "some_receipts"))


def _report_checks(run: ReportedRun) -> PageHtml:
    rows = [[MARKS[one.good], one.check, one.detail] for one in run.findings]
    return folded("What was checked", table(("", "check", "found"), rows))


def _report_limits(run: ReportedRun) -> Iterator[PageHtml]:
    yield _report_lines(run.words("open"))
    yield tag("p", phrase("report", "you"), class_="soft")


def _report_how_to_verify(run: ReportedRun) -> Iterator[PageHtml]:
    yield paragraph(phrase("report", "verify"))
    yield commands(_report_verify_command(run))
    yield paragraph(
        "The digest of the consortium file is ",
        tag("code", run.consortium.digest.hex()),
        "; members compared it before they took part.",
    )
    yield paragraph(phrase("report", "again"))
    yield commands(
        "veilsum consortium new plan.toml -o again.toml\nveilsum join again.toml"
    )


def _report_verify_command(run: ReportedRun) -> str:
    """Return a command that works where this member's files are, and says where."""
    seat, home = run.folder.absolute().parent, run.file.absolute()
    if home.parent == seat and len([*seat.parent.glob("*/out/receipt.json")]) > 1:
        # All parties are on this computer, as veilsum up leaves them.
        name = quote(seat.name)
        return (
            "# in the folder with all parties' folders\n"
            f"veilsum verify */out/receipt.json --consortium {name}/{quote(home.name)} "
            f"--result {name}/out/result.json"
        )
    beside = quote(os.path.relpath(home, run.folder.absolute()))
    return (
        "# in the folder with this result.json, the others' receipts in others\n"
        f"veilsum verify receipt.json others/*.json --consortium {beside} "
        "--result result.json"
    )


def _report_readers() -> Iterator[PageHtml]:
    yield paragraph(phrase("report", "readers"))
    yield paragraph(phrase("report", "runs_nothing"))


# Several questions


def _report_of_study(folder: Path, others: Sequence[Receipt]) -> RunReport:
    status = read_study_status(folder)
    room, agreed = ReportFigureRoom(), _report_study_file(folder, status.study)
    file = None if agreed is None else agreed[0]
    runs = {
        name: ReportedRun(folder / name, others, room, file)
        for name, one in status.stages.items()
        if one.stage == "finished"
    }
    if not runs:
        raise InvalidInputError(
            f"no question of the study in {folder} has a result: veilsum study status "
            f"{folder} says how far it is",
            code="no-results",
        )
    for name, run in runs.items():
        if run.receipt.run != status.stages[name].run:
            raise InvalidInputError(
                f"{run.folder / 'receipt.json'} is of another run than {STATUS} says",
                code="other-run",
            )
    first = next(iter(runs.values()))
    findings = [
        replace(one, check=f"{name}: {one.check}")
        for name, run in runs.items()
        for one in run.findings
    ]
    sections = [
        section("The study", *_report_study(status, runs, agreed and agreed[1])),
        *(
            section(f"Question: {name}", *_report_one_question_of(run))
            for name, run in runs.items()
        ),
        section("The network", *_report_network(first)),
        section("Receipts", *_report_receipts(first)),
        section("Limits", *_report_limits(first), _report_rules(first)),
        section("How to verify it, and to ask again", *_report_how_to_verify(first)),
        section("Who may read this", *_report_readers()),
    ]
    title = status.title or f"Study {status.run}"
    last = max(runs.values(), key=lambda one: one.receipt.finished)
    lead = [
        *_report_state(findings, first.receipts),
        facts(_report_about_study(status, last)),
    ]
    good = all(one.good for one in findings)
    return RunReport(page(title, *sections, lead=lead), good)


def _report_about_study(
    status: StudyStatus, last: ReportedRun
) -> Iterator[tuple[Part, Part]]:
    yield "study", status.run
    yield from ((name, what) for name, what in _report_about_run(last) if name != "run")


def _report_study(
    status: StudyStatus, runs: Mapping[str, ReportedRun], agreed: AgreedStudy | None
) -> Iterator[PageHtml]:
    # Why there is none is for the owner of the folder alone.
    rows = [
        [
            name,
            runs[name].consortium.question.heading if name in runs else "-",
            "a result" if name in runs else "no result here",
        ]
        for name in status.stages
    ]
    yield table(("question", "kind", ""), rows, caption="Questions of the study")
    if agreed is not None:
        shared = consent_to_study(agreed).shared
        whole = next(one for one in shared if one.heading.endswith("TOGETHER"))
        yield folded("What the questions come to together", _report_lines(whole.lines))


def _report_study_file(folder: Path, digest: str) -> tuple[Path, AgreedStudy] | None:
    for path in RunFolder(folder).files:
        if path.suffix in SUFFIXES:
            try:
                found = read_agreement(path)
            except VeilsumError:
                continue  # another kind of file
            if isinstance(found, AgreedStudy) and found.digest.hex() == digest:
                return path, found
    return None


def _report_one_question_of(run: ReportedRun) -> Iterator[PageHtml]:
    """Yield one question of several, its answer, and the rest folded."""
    yield from _report_question(run)
    yield from _report_answer(run)
    yield folded("What is promised", *_report_guarantee(run))
    yield folded("Who could compute what", *_report_who_took_part(run))
    yield folded("Audit", *_report_audit(run))
    yield _report_checks(run)
