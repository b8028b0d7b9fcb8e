"""Words may be corrected: no digest, receipt or check depends on a catalogue."""

import json

import pytest

from finished import finished, wards
from reworded import REWORDED, run_python
from veilsum.files.consortiums import read_consortium
from veilsum.sums.kinds import question_kind_of, resolve_agreed_question
from veilsum.sums.wording import PageRoom

# A command whose English words are all others than those of the one that signed.
COMMAND = (
    REWORDED
    + """
from veilsum.cli.app import app
app(sys.argv[1:])
"""
)

QUESTIONS = {
    "moments": {"statistics": {"columns": ["age", "dose"]}},
    "histogram": {"statistics": {"columns": [], "histograms": {"age": [40, 60]}}},
    "least squares": {"model": {"formula": "dose ~ age"}},
    "rounds": {
        "model": {"formula": "age ~ dose", "family": "poisson"},
        "policy": {"release_fraction": 1.0},
    },
}


@pytest.fixture(params=QUESTIONS)
def ran(request, tmp_path):
    plan = wards(tmp_path, **QUESTIONS[request.param])
    return finished(plan, tmp_path)


def test_a_reworded_program_accepts_receipts(ran):
    out = ran.out()
    given = ("verify", *ran.receipts(), "--consortium", out.parent / "consortium.toml")
    told = run_python("-c", COMMAND, *given, "--result", out / "result.json", "--json")
    assert told[0] == 0, told
    assert all(one["good"] for one in json.loads(told[1])["findings"])


def test_the_words_of_the_other_program_are_others(ran):
    """The twin: it says the same about the file in words of its own."""
    file = ran.out().parent / "consortium.toml"
    ours = run_python("-m", "veilsum", "consortium", "show", file, "--json")
    others = run_python("-c", COMMAND, "consortium", "show", file, "--json")
    ours, others = (json.loads(one[1])["consent"] for one in (ours, others))
    assert ours["digest"] == others["digest"]
    asked = resolve_agreed_question(read_consortium(file))
    kind, room = question_kind_of(asked.consortium.question), PageRoom()
    # What a question that is no survey says of itself is not in a catalogue.
    itself = {*kind.describe(asked, room), *kind.consequences(asked, room)}
    pages = ours["shared"].pop("page"), others["shared"].pop("page")
    assert ours["shared"] == others["shared"]
    for mine, other in zip(*pages, strict=True):
        assert mine["key"] == other["key"]
        assert other["heading"] == f"~{mine['heading']}~"
        assert len(mine["lines"]) == len(other["lines"])
        for one, changed in zip(mine["lines"], other["lines"], strict=True):
            assert one != changed or one in itself, one
