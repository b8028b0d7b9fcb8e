"""Plans as an officer gets them: files of many kinds, and the folder of a run."""

from datetime import UTC, datetime
from pathlib import Path

import tomli_w

from party.test_agreed import COST, DISPATCH, MODEL, NAMES, PAIRS, RUN, certificate
from party.test_consent import QUESTIONS
from receipts import PARTIES, Study
from surveys import MEMBERS, guest_row, survey_table
from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.study import study_from
from veilsum.files.consortiums import write_consortium
from veilsum.surveys.terms import survey_closing_entries, survey_tally_of, survey_terms

EXAMPLES = Path(__file__).parents[2] / "examples"
NOW = datetime(2030, 1, 31, 12, 0, tzinfo=UTC)
RELAY = {"relay": "wss://relay.test", "relay_token": "ab" * 32}


def table(sections, *, address=True, **more):
    """Four members, each linked with each, and what they agree on."""
    members = [
        {"name": name, "certificate": certificate(name)}
        | ({"address": f"{name}.test:1"} if address else {})
        for name in NAMES
    ]
    head = {"format": 1, "run": RUN, "members": members, "graph": {"edges": PAIRS}}
    return {**head, **sections, **more}


WARDS = {"kind": "category", "categories": ["north", "south", "east", "west"]}
SITE_SCHEMA = {
    "minimum_rows": 50,
    "columns": {**MODEL["schema"]["columns"], "ward": WARDS},
}
# One with a site term, one with small cells, one that may lose a member.
SITE = {
    **MODEL,
    "schema": SITE_SCHEMA,
    "model": {"formula": "y ~ x + C(ward)"},
    "policy": {"site_terms": True},
    "title": "wards",
}
CELL = {**QUESTIONS["statistics"], "policy": {"minimum_count": 0}}
LOSING = {**QUESTIONS["statistics"], "policy": {"drop": True, "minimum_honest": 2}}

TABLES = {
    "site": table(SITE, organiser="ann"),
    "cell": table(CELL),
    "losing": table(LOSING),
    "model": table(MODEL),
    "relayed": table(MODEL, address=False, deployment=RELAY),
    "letters": table(MODEL, address=False),
    "strict": table({**MODEL, "policy": {"tolerate": 2, "minimum_honest": 2}}),
    "nobody": table({**MODEL, "policy": {"tolerate": 0}}),
    "loose": table(
        {
            **MODEL,
            "policy": {
                "minimum_count": 0,
                "effective_count": 0,
                "maximum_influence": 1.0,
            },
        }
    ),
    "lax": table(
        {
            **MODEL,
            "policy": {
                "maximum_columns": 0.5,
                "most_rounds": 30,
                "minimum_count": 2,
            },
        }
    ),
    "bare": table(
        {
            **SITE,
            "policy": {
                "site_terms": True,
                "minimum_count": 0,
                "effective_count": 0,
                "maximum_influence": 1.0,
            },
        }
    ),
    "crossed": table(
        {**QUESTIONS["gaussian"], "model": {"formula": "y ~ C(sex) + C(grade)"}}
    ),
    "single": table(
        {
            **QUESTIONS["statistics"],
            "statistics": {"columns": ["x"]},
            "schema": {
                **QUESTIONS["statistics"]["schema"],
                "minimum_rows": 1,
                "maximum_rows": 1,
            },
            "policy": {"release_fraction": 1.0},
        }
    ),
    "undominated": table(
        {**QUESTIONS["statistics"], "policy": {"effective_count": 1.0}}
    ),
    "lattice": table({**MODEL, "masks": {"law": "lattice", "sigma": 1e9}}),
    "cost": table(COST),
    "hidden cost": table(
        {
            **COST,
            "masks": {"law": "uniform", "largest": 10.0},
            "method": {"name": "one-shot"},
        }
    ),
    "dispatch": table(DISPATCH),
    **{
        kind: table(QUESTIONS[kind])
        for kind in ("survival", "cox", "mixed", "meta", "numbers", "poisson")
    },
}


def study_table():
    """Two questions about one table."""
    given = table({"schema": MODEL["schema"], "masks": {"law": "uniform"}})
    asked = [
        {"name": "ages", "statistics": {"columns": ["x"]}},
        {"name": "costs", "model": {"formula": "y ~ x"}},
    ]
    return {**given, "question": asked}


def written(name, folder):
    """Return the file of one of these."""
    path = folder / f"{name.replace(' ', '-')}.toml"
    if not path.exists():
        made = consortium_from(TABLES[name])
        write_consortium(path, made)
    return path


def written_study(folder):
    path = folder / "study.toml"
    if not path.exists():
        write_consortium(path, study_from(study_table()))
    return path


def written_plan(folder, **sections):
    """Return a scenario file, with data of its own that are nobody's business."""
    path = folder / "plan.toml"
    path.write_text(
        tomli_w.dumps(
            {
                "title": "a plan",
                "graph": {"family": "complete:4"},
                "parties": {"names": list(NAMES)},
                **COST,
                "cost": {"kind": "squared-distance", "targets": [[1.125, 2.0]] * 4},
                **sections,
            }
        )
    )
    return path


def run_folder(folder, *lost, policy=None, **changes):
    """Return the folder of a finished run of five, some of whom may be lost."""
    folder.mkdir(parents=True, exist_ok=True)
    study = Study(folder, {"drop": True, "minimum_honest": 2} | (policy or {}))
    left = [name for name in PARTIES if name not in lost]
    near = [one for one in study.fields("a")["confirmed"] if one in left]
    receipt = study.receipt(
        "a", parties=left, lost=list(lost), confirmed=near, **changes
    )
    out = folder / "out"
    out.mkdir()
    (out / "receipt.json").write_text(receipt.to_json())
    write_consortium(folder / "consortium.toml", study.consortium)
    return out


def closed_table(**filled):
    """A closed survey in which one of the guests did not come, and one cell is rare."""
    terms = survey_terms(consortium_from(survey_table()))
    bits = dict.fromkeys([*terms.roster][:-1], b"\xe0") | {"Firm 1": b"\xf0"} | filled
    closing = survey_closing_entries(terms, "5e" * 32, survey_tally_of(terms, bits))
    return survey_table(**closing)


def uneven(*counts):
    """A roster in which members have invited so many each."""
    whose = [name for name, n in zip(MEMBERS, counts, strict=True) for _ in range(n)]
    return [guest_row(f"Firm {k}", name) for k, name in enumerate(whose)]


def policy(**changed):
    return {**survey_table(), "policy": {"tolerate": 1, **changed}}


SURVEYS = {
    "open": survey_table(),
    "closed": closed_table(),
    "weak": survey_table(minimum_honest=2, minimum_guests=3),
    "nobody": policy(tolerate=0),
    "all but one": {
        **policy(tolerate=2),
        "survey": survey_table(guest=uneven(9, 8, 7))["survey"],
    },
    "uneven": {
        **survey_table(
            guest=uneven(3, 9, 6),
            minimum_honest=2,
            tolerate_guests=2,
            minimum_guests=6,
        ),
        "organiser": "ann",
    },
    "relayed": {
        **survey_table(),
        "deployment": {"relay": "wss://relay.test", "relay_token": "ab" * 32},
    },
}


def written_survey(name, folder):
    """Return the file of one of these."""
    path = folder / f"{name.replace(' ', '-')}.toml"
    path.write_text(tomli_w.dumps(SURVEYS[name]))
    return path
