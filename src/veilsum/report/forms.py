"""Exports to data-protection officers' tools, with the annex's sentences as fields.

`edpb_paper`: the sections 0 to 6 of the EDPB's template for impact assessments, version
1.0. `pia_form`: the JSON that CNIL's tool imports (pia 4). `acro_form`: a record of the
disclosure checks, in the files that ACRO 1.0 leaves. `five_safes_crate`: a finished run
as a Five Safes RO-Crate, profile 0.4.

Points that no plan settles are left open and marked as open; in a form with unanswered
questions they stay unanswered. None of these contains a result: they serve to decide
whether it may be released.
"""

from __future__ import annotations

import csv
import hashlib
import json
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from veilsum import page as pages
from veilsum.errors import (
    InvalidInputError,
    MissingExtraError,
    install_advice,
    printable,
)
from veilsum.files.safe_read import read_file_contents
from veilsum.party.own_rules import usual_own_rules
from veilsum.party.run_folder import RunFolder
from veilsum.report.annex import (
    AnnexLines,
    AnnexPaper,
    Block,
    PaperPart,
    annex_of_plan,
    annex_paper_html,
    annex_paper_texts,
    annex_paper_title,
    annex_risk_table,
    annex_who_table,
    paper_chance_bars,
    paper_of_sums,
    unprotected_in_paper,
)
from veilsum.report.plan_facts import PlanFacts, QuestionFacts
from veilsum.report.sentences import report_risks, report_sentences_in, report_words
from veilsum.sums.wording import exact_number_words

if TYPE_CHECKING:
    from rocrate.rocrate import ROCrate

# The EDPB's template

# How data leave whoever has them; and how far a plan is.
LEAVES = ("purpose.leaves", "purpose.iterates", "purpose.visit")
WHEN = (
    "purpose.plan",
    "purpose.open_survey",
    "purpose.closed_survey",
    "purpose.ended",
    "purpose.lost",
)


def _form_sentences(facts: PlanFacts, language: str, *keys: str) -> tuple[str, ...]:
    """Return sentences by their names, as far as they are true of the plan."""
    return tuple(
        one.text(facts, language)
        for key in keys
        for one in report_sentences_in(facts, key.partition(".")[0])
        if one.key == key
    )


def edpb_paper(facts: PlanFacts, language: str) -> AnnexPaper:
    """Return what follows from a plan under the sections of the EDPB's template."""
    template = report_words(language, "edpb")
    blank = AnnexLines((template["open"],), "alarm")

    def some(*keys: str) -> AnnexLines:
        return AnnexLines(_form_sentences(facts, language, *keys), "items")

    def every(*parts: str) -> AnnexLines:
        found = (
            one for part in parts for one in annex_paper_texts(facts, part, language)
        )
        return AnnexLines(tuple(found), "items")

    headings = tuple(f"purpose.{one}" for one in sorted(facts.headings))
    filled: Mapping[str, tuple[Block, ...]] = {
        "0": (),
        "0.1": (some("purpose.members", "purpose.delegates"), blank),
        "0.2": (every("relay+", "relay-", "carrier+", "carrier-"), blank),
        "0.3": (some("purpose.title", "purpose.untitled"), blank),
        "0.4": (some(*WHEN), blank),
        "0.5": (some("judge.plan_alone", "judge.receipt_alone", "judge.levels"), blank),
        "1": (),
        "1.1.a": (some("purpose.columns", "purpose.guests", "judge.personal"), blank),
        "1.1.b": (
            some(*headings, "purpose.other", "purpose.formula", "purpose.study"),
            blank,
        ),
        "1.1.c": (some("open.next", "open.next_cost", "open.guests"), blank),
        "1.1.d": (
            some(*LEAVES),
            annex_who_table(facts, language),
        ),
        "1.2": (
            some(
                *LEAVES,
                "keep.files",
                "keep.survey_files",
                "keep.shares",
                "keep.survey_keys",
                "keep.erasure",
            ),
        ),
        "1.3": (
            every("listener-", "relay-", "carrier-"),
            paper_of_sums(facts, language),
        ),
        "2": (some("judge.law"), blank),
        "2.minimisation": (
            some("purpose.columns", *LEAVES),
            every("check"),
        ),
        "2.retention": (every("keep"), blank),
        "2.security": (
            some("keep.keys"),
            AnnexLines(annex_paper_texts(facts, "number", language)),
            *paper_chance_bars(facts, language),
        ),
        "3": (blank,),
        "4": (some("judge.levels"),),
        "4.measures": (every("check", "verify"),),
        "4.residual": (annex_risk_table(facts, language), blank),
        "4.limits": (AnnexLines(unprotected_in_paper(facts, language), "items"),),
        "5": (blank,),
        "6": (blank,),
    }
    return AnnexPaper(
        title=annex_paper_title(template["title"], facts),
        language=language,
        lead=(
            AnnexLines((template["lead"],)),
            AnnexLines(annex_paper_texts(facts, "alarm", language), "alarm"),
        ),
        parts=tuple(
            PaperPart(template[key], blocks, 1 if "." not in key else 2)
            for key, blocks in filled.items()
        ),
    )


# CNIL's tool

# Which sentences answer which of its questions; others are left unanswered there.
PIA_TEXTS: Mapping[int, tuple[str, ...]] = {
    111: ("alarm", "purpose"),
    112: ("organiser+", "relay+", "carrier+"),
    121: ("purpose.columns", "purpose.guests", "judge.personal"),
    122: (
        *LEAVES,
        "member+",
        "coalition+",
        "beyond+",
        "everybody+",
        "reader+",
    ),
    123: ("listener-", "relay-", "carrier-", "keep.keys"),
    213: ("purpose.columns", "check"),
    215: ("keep",),
    224: ("keep.erasure", "keep.withdraw", "keep.later"),
}
# Of its three risks: impacts, threats, sources, measures, severity, likelihood.
PIA_RISKS: Mapping[str, int] = {"access": 320, "change": 330, "loss": 340}
# Fields of the form that people fill in.
PIA_BLANK = ("category", "author_name", "evaluator_name", "validator_name")
PIA_OPEN = (
    *("dpo_status", "dpo_opinion", "concerned_people_opinion"),
    *("concerned_people_status", "concerned_people_searched_opinion"),
    *("concerned_people_searched_content", "rejection_reason"),
    *("applied_adjustments", "dpos_names", "people_names"),
)
PIA_MEASURES: Mapping[str, tuple[str, ...]] = {
    "masks": ("number",),
    "rules": ("check",),
    "links": ("listener-", "relay-", "carrier-"),
    "keys": ("keep",),
    "receipts": ("verify",),
}


def pia_form(facts: PlanFacts, language: str, now: datetime) -> bytes:
    """Return a file that CNIL's tool imports: answers, measures, proposed levels.

    Evaluations, opinions and the decision are not in it: people give these.
    """
    when = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    stamped = {"pia_id": 1, "created_at": when, "updated_at": when}

    def found(*places: str) -> str:
        told = dict.fromkeys(
            text
            for one in places
            for text in (
                _form_sentences(facts, language, one)
                if "." in one
                else annex_paper_texts(facts, one, language)
            )
        )
        # The tool shows these as HTML.
        return "".join(pages.paragraph(_form_sentence(one)) for one in told)

    answers: list[tuple[int, Mapping[str, Any]]] = [
        (number, {"text": text, "gauge": None, "list": []})
        for number, places in PIA_TEXTS.items()
        if (text := found(*places))
    ]
    own = report_words(language, "pia")
    titles = {key: own[key] for key in PIA_MEASURES}
    measures = [
        {
            "id": place,
            "title": titles[key],
            "content": text,
            "placeholder": "",
            **stamped,
        }
        for place, (key, places) in enumerate(PIA_MEASURES.items(), start=1)
        if (text := found(*places))
    ]
    for kind, base in PIA_RISKS.items():
        answers += _of_one_risk(facts, language, kind, base, [*titles.values()])
    document = {
        "pia": {
            "id": 1,
            "status": 0,
            "name": printable(facts.title) or "veilsum",
            **dict.fromkeys(PIA_BLANK, ""),
            **dict.fromkeys(PIA_OPEN),
            "is_example": 0,
            "is_archive": 0,
            "created_at": when,
            "updated_at": when,
        },
        "answers": [
            {"id": place, "reference_to": number, "data": data, **stamped}
            for place, (number, data) in enumerate(sorted(answers), start=1)
        ],
        "measures": measures,
        "evaluations": [],
        "comments": [],
    }
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


def _form_sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text[:1].upper()}{text[1:]}."


def _of_one_risk(
    facts: PlanFacts,
    language: str,
    kind: str,
    base: int,
    measures: list[str],
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the six answers about one of the tool's three risks, if it remains."""
    own, here = (
        report_words(language, "pia"),
        [r for r in report_risks(facts) if r.kind == kind],
    )
    if not here:  # of a survey that is over no answer can be lost
        return
    worst = max(here, key=lambda one: one.likelihood(facts) * one.severity(facts))
    sources = [own[key] for key in ("member", "outside")]
    lists = (
        [one.heading(language) for one in here],
        [printable(one.text(facts, language)) for one in here],
        sources if kind == "access" else sources[:1],
        measures,
    )
    for place, listed in enumerate(lists, start=1):
        yield base + place, {"text": None, "gauge": None, "list": listed}
    told = pages.together(
        pages.paragraph(worst.text(facts, language)),
        pages.paragraph(own["proposed"]),
    )
    for place, gauge in (
        (5, max(one.severity(facts) for one in here)),
        (6, max(one.likelihood(facts) for one in here)),
    ):
        yield base + place, {"text": told, "gauge": gauge, "list": []}


# A record of the disclosure checks

ACRO_VERSION = "1.0.1"
# Rules that are about disclosure; of the others a checker has nothing to decide.
ACRO_RULES = (
    *("minimum_rows", "minimum_count", "effective_count", "maximum_influence"),
    *("maximum_columns", "site_terms", "release_fraction"),
)
ACRO_OUTCOMES = {
    "off": "not checked: switched off",
    "planned": "to be checked by every member before anything is sent",
    "passed": "checked by every member; one whose table fails takes no part",
}


def acro_form(facts: PlanFacts, language: str, now: datetime) -> bytes:
    """Return the disclosure checks of a plan or run as ACRO leaves its own: a ZIP.

    One output for each question: its status is `fail` where sums over one member alone
    are allowed, `pass` after a run whose receipt holds and whose rules are the usual
    ones or stricter, else `review`. Files have checks, and no number of the answer.
    """
    files: dict[str, bytes] = {}
    results = {}
    for place, question in enumerate(facts.questions):
        uid = f"output_{place}"
        rows = list(_form_rule_checks(facts))
        files[f"{uid}_0.csv"] = _form_rules_csv(rows)
        status = _form_status(facts)
        told = "; ".join(
            [
                status,
                f"{question.most_numbers} sums at most, in {question.most_sums} rounds",
                *annex_paper_texts(facts, "alarm", language),
            ]
        )
        results[uid] = {
            "uid": uid,
            "status": status,
            "type": "custom",
            "properties": _crate_form_properties(facts, question),
            "files": [
                {"name": f"{uid}_0.csv", "sdc": {"summary": {}, "cells": {}}},
            ],
            "outcome": {
                name: {str(k): row[name] for k, row in enumerate(rows)}
                for name in ("rule", "value", "usual", "outcome")
            },
            "command": f"veilsum {question.heading}",
            "summary": told,
            "timestamp": facts.ended.finished if facts.ended else now.isoformat(),
            "comments": list(unprotected_in_paper(facts, language)),
            "exception": "",
            "fair": {},
        }
    files["results.json"] = _form_json({"version": ACRO_VERSION, "results": results})
    files["config.json"] = _form_json(
        {name: facts.rules[name] for name in ACRO_RULES if name in facts.rules}
    )
    sums = {
        f"checksums/{name}.txt": hashlib.sha256(content).hexdigest().encode()
        for name, content in files.items()
    }
    return _form_archive({**files, **sums}, now)


def _crate_form_properties(facts: PlanFacts, question: QuestionFacts) -> dict[str, Any]:
    return {
        "method": question.heading,
        "question": question.name,
        "members": len(facts.summed),
        "columns": list(question.columns),
        "most_numbers": question.most_numbers,
        "consent": question.consent,
    }


def _form_status(facts: PlanFacts) -> str:
    if facts.site_terms:
        return "fail"
    over = facts.ended is not None and not facts.ended.failed
    return "pass" if over and facts.on_tables and not facts.relaxed else "review"


def _form_rule_checks(facts: PlanFacts) -> Iterator[dict[str, str]]:
    known = usual_own_rules()
    over = facts.ended is not None and not facts.ended.failed
    for name in ACRO_RULES:
        if name in facts.rules:
            off = name in facts.off
            told = "off" if off else "passed" if over else "planned"
            yield {
                "rule": name,
                "value": exact_number_words(facts.rules[name]),
                "usual": exact_number_words(known[name]),
                "outcome": ACRO_OUTCOMES[told],
            }


def _form_rules_csv(rows: list[dict[str, str]]) -> bytes:
    stream = StringIO()
    writer = csv.DictWriter(stream, ["rule", "value", "usual", "outcome"])
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def _form_json(content: Any) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=4) + "\n").encode()


def _form_archive(files: Mapping[str, bytes], now: datetime) -> bytes:
    """Return files in an archive; the same bytes for the same files and moment."""
    buffer = BytesIO()
    moment = now.timetuple()[:6]
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, moment), content)
    return buffer.getvalue()


# A finished run as a research object

PROFILE = "https://w3id.org/5s-crate/0.4"
WORKFLOW = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
SCHEMA, SHP = "http://schema.org/", "https://w3id.org/shp#"
UNKNOWN = "not recorded: enter the person who asked for the run"
# Names of two runs are never the same, nor are these.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://w3id.org/5s-crate/veilsum")


def five_safes_crate(
    path: Path, facts: PlanFacts, language: str, now: datetime
) -> bytes:
    """Return a finished run as a Five Safes RO-Crate: a ZIP of one BagIt folder.

    In it are the agreed file, one member's receipt, the annex and a record of
    checks. The result is not: the disclosure check, which people make, is pending.

    Raises:
        InvalidInputError: the run is not over, or its receipt does not hold.
        MissingExtraError: rocrate is not here.
    """
    ended = facts.ended
    if ended is None or ended.failed:
        why = (
            "its receipt does not hold"
            if ended
            else "a run that is over is wanted, the folder that veilsum join wrote to"
        )
        raise InvalidInputError(f"no crate is made of {path}: {why}", code="no-crate")
    try:
        from rocrate.rocrate import ROCrate
    except ImportError:
        raise MissingExtraError(
            "a research object needs the package rocrate: " + install_advice("officer"),
            code="missing-extra",
        ) from None
    ran = RunFolder(path)
    assert ran.file is not None
    files = {
        "workflow/consortium.toml": read_file_contents(
            ran.file, 32 << 20, InvalidInputError
        ),
        "receipt.json": read_file_contents(
            path / "receipt.json", 64 << 20, InvalidInputError
        ),
        f"annex-{language}.html": annex_paper_html(annex_of_plan(facts, language, now)),
        "checks.zip": acro_form(facts, language, now),
    }
    with TemporaryDirectory() as place:
        folder = Path(place)
        made = ROCrate(version="1.2")
        made.datePublished = now
        _describe_form_crate(made, facts, files, folder, now)
        made.write(folder / "made")
        root = folder / "made"
        payload = {
            f"data/{one.relative_to(root).as_posix()}": one.read_bytes()
            for one in sorted(root.rglob("*"))
            if one.is_file()
        }
    return _form_archive(_bag_form_payload(payload, facts), now)


def _describe_form_crate(
    made: ROCrate,
    facts: PlanFacts,
    files: Mapping[str, bytes],
    folder: Path,
    now: datetime,
) -> None:
    """Write down who did what, in the words of the profile."""
    from rocrate.model import ContextEntity, Person

    ended = facts.ended
    assert ended is not None
    number = uuid.uuid5(NAMESPACE, facts.run)

    def entity(place: str, kind: str, /, **more: Any) -> ContextEntity:
        return made.add(ContextEntity(made, place, {"@type": kind, **more}))

    kinds = {"toml": "application/toml", "json": "application/json"}
    kinds |= {"html": "text/html", "zip": "application/zip"}
    names = {
        "workflow/consortium.toml": "what the members agreed on",
        "receipt.json": f"the receipt of {ended.party}, signed",
        "checks.zip": "a record of the disclosure checks, as ACRO writes it",
    }
    inner = made.add_dataset(
        dest_path="workflow/",
        properties={
            "name": "the question, and how it is answered",
            "conformsTo": {"@id": WORKFLOW},
        },
    )
    parts = []
    for name, content in files.items():
        source = folder / "files" / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(content)
        told = names.get(name, "annex for the data-protection officer")
        properties = {"name": told, "encodingFormat": kinds[name.rpartition(".")[2]]}
        parts.append(made.add_file(source, name, properties=properties))
    nested = folder / "files" / "workflow" / "ro-crate-metadata.json"
    nested.write_bytes(_form_json(_form_workflow_crate(facts, now)))
    made.add_file(nested, "workflow/ro-crate-metadata.json")
    profile = entity(PROFILE, "Profile", name="Five Safes RO-Crate profile")
    members = [
        entity(f"#member-{place}", "Organization", name=printable(one))
        for place, one in enumerate(ended.parties, start=1)
    ]
    title = facts.title or "a run without a title"
    project = entity(f"#project-{number}", "Project", name=title, member=members)
    person = made.add(
        Person(made, "#requested-by", {"name": UNKNOWN, "memberOf": project})
    )
    tool = entity(
        "#veilsum",
        "SoftwareApplication",
        name=f"veilsum {ended.version}",
        provider=members[ended.parties.index(ended.party)],
    )
    run = entity(
        f"#run-{number}",
        "CreateAction",
        name=f"Run of {len(ended.parties)} members: {facts.run}",
        actionStatus=SCHEMA + "CompletedActionStatus",
        startTime=ended.started,
        endTime=ended.finished,
        agent=person,
        instrument=inner,
        object=[parts[0]],
    )
    checked = entity(
        f"#signoff-{number}",
        "AssessAction",
        additionalType={"@id": SHP + "SignOff"},
        name=f"{printable(ended.party)} approved the page of what becomes known",
        actionStatus=SCHEMA + "CompletedActionStatus",
        endTime=ended.started,
        object=[made.root_dataset, inner, project],
        instrument=parts[1],
        agent=tool,
    )
    pending = entity(
        f"#disclosure-{number}",
        "AssessAction",
        additionalType={"@id": SHP + "DisclosureCheck"},
        name="Disclosure check of the result: pending, to be made by a person; the "
        "result is not in this crate",
        actionStatus=SCHEMA + "PotentialActionStatus",
        object=made.root_dataset,
        instrument=parts[3],
    )
    root = made.root_dataset
    root["name"] = title
    root["description"] = " ".join(annex_paper_texts(facts, "purpose", "en"))
    root["conformsTo"] = profile
    root["mainEntity"] = inner
    root["mentions"] = [run, checked, pending]
    root["sourceOrganization"] = project


def _form_workflow_crate(facts: PlanFacts, now: datetime) -> dict[str, Any]:
    """Return the crate of the question itself: what is done is in the agreed file."""
    return {
        "@context": "https://w3id.org/ro/crate/1.1/context",
        "@graph": [
            {
                "@id": "ro-crate-metadata.json",
                "@type": "CreativeWork",
                "about": {"@id": "./"},
                "conformsTo": [
                    {"@id": "https://w3id.org/ro/crate/1.1"},
                    {"@id": WORKFLOW},
                ],
            },
            {
                "@id": "./",
                "@type": "Dataset",
                "name": facts.title or "a run without a title",
                "datePublished": now.isoformat(),
                "hasPart": [{"@id": "consortium.toml"}],
                "mainEntity": {"@id": "consortium.toml"},
            },
            {
                "@id": "consortium.toml",
                "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
                "name": "consortium file",
                "programmingLanguage": {"@id": "#veilsum"},
            },
            {"@id": "#veilsum", "@type": "ComputerLanguage", "name": "veilsum"},
        ],
    }


def _bag_form_payload(
    payload: Mapping[str, bytes], facts: PlanFacts
) -> dict[str, bytes]:
    """Return files as one BagIt folder, with SHA-512 of everything."""
    name = f"run-{uuid.uuid5(NAMESPACE, facts.run)}"

    def manifest(files: Mapping[str, bytes]) -> bytes:
        return "".join(
            f"{hashlib.sha512(content).hexdigest()}  {one}\n"
            for one, content in files.items()
        ).encode()

    identifier = uuid.uuid5(NAMESPACE, f"crate of {facts.run}")
    tags = {
        "bagit.txt": b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
        "bag-info.txt": f"External-Identifier: urn:uuid:{identifier}\n".encode(),
        "manifest-sha512.txt": manifest(payload),
    }
    tags["tagmanifest-sha512.txt"] = manifest(tags)
    return {f"{name}/{one}": content for one, content in {**tags, **payload}.items()}
