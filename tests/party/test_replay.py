"""Everything that a run came to follows from its file and its sums, or is found out."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from net.runs import Company, answers, data_files
from net.test_tampered import LOGIT, tables
from refusals import refused
from veilsum.cli.app import app
from veilsum.errors import InvalidInputError
from veilsum.files.consortiums import write_consortium
from veilsum.net.identity import read_identity
from veilsum.net.receipt import make_receipt, receipt_sums_digest
from veilsum.party.replay import (
    SUMS,
    read_sums_to_replay,
    replay_released_sums,
    replay_sums_file,
)

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


class Study:
    """A logistic regression of three that has ended, and the files it left."""

    def __init__(self, folder):
        self.company = company = Company(folder, data_files(LOGIT, tables(), folder))
        self.found = company.run()
        answers(self.found)
        self.ending = company.drivers["a"].ending
        self.result = company.result("a", self.found["a"])

    def files(self, folder, *, result=None, shown=None, **changes):
        """Write everybody's receipts, signed anew, and one member's result and sums."""
        agreed = folder / "study.veil"
        agreed.unlink(missing_ok=True)
        write_consortium(agreed, self.company.consortium)
        text = json.dumps(result or self.result)
        (folder / "result.json").write_text(text)
        (folder / SUMS).write_bytes(replay_sums_file(shown or self.ending.sums))
        paths = []
        for one in self.company.receipts(self.found):
            key = self.company.folder(one.party) / f"{one.party}.key"
            fields = json.loads(one.to_json())
            for name in ("format", "party", "certificate", "signature"):
                del fields[name]
            signed = make_receipt(read_identity(key), **{**fields, **changes})
            paths.append(folder / f"{one.party}.json")
            paths[-1].write_text(signed.to_json())
        return paths

    def changed(self, row, **cells):
        table = [dict(line) for line in self.result["table"]]
        table[row] |= cells
        return {**self.result, "table": table}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("study"))


def verify(folder, paths, *, agreed=True):
    words = ["verify", *paths, "--result", folder / "result.json"]
    words += ["--consortium", folder / "study.veil"] if agreed else []
    found = CliRunner().invoke(app, [*map(str, words)])
    lines = found.stdout.splitlines()
    return found.exit_code, [one for one in lines if one.startswith("NOT ok")]


def test_what_a_run_has_left_follows_from_its_sums(study, tmp_path):
    assert verify(tmp_path, study.files(tmp_path)) == (0, [])


def test_a_table_that_somebody_changed_is_found(study, tmp_path):
    """A coefficient's error is in no answer that was signed: it follows from sums."""
    error = study.result["table"][1]["standard_error"] / 2
    result = study.changed(1, standard_error=error)
    paths = study.files(tmp_path, result=result)
    assert verify(tmp_path, paths, agreed=False) == (0, []), "the twin: it passed"
    everything = "NOT ok  everything in the result file follows from the sums: not"
    assert verify(tmp_path, paths) == (1, [f"{everything} table"])
    for key, value in (("n_rows", 241), ("aic", 0.0), ("more", 1)):
        paths = study.files(tmp_path, result={**study.result, key: value})
        assert verify(tmp_path, paths) == (1, [f"{everything} {key}"])


def plus(numbers, place, more):
    found = numbers.copy()
    found[place] += more
    return found


# The sums of one run, each changed by what its message says.
OTHER_SUMS = {
    "beyond the agreed ranges": (
        lambda sums: (sums[0], plus(sums[1], 0, 2**100), *sums[2:]),
        "the total of information for Intercept is impossible: it is ",
    ),
    "a sum of squares below 0": (
        lambda sums: (sums[0], plus(sums[1], 2, -(10**12)), *sums[2:]),
        "the total of information for x is impossible: it is -",
    ),
    "below a residue": (
        lambda sums: (*sums[:-1], plus(sums[-1], 0, 1)),
        "the total of number 1 of the sum is impossible: it tells more than a residue ",
    ),
    "one too few": (
        lambda sums: sums[:-1],
        "after {more} sums another one is asked for",
    ),
    "one too many": (
        lambda sums: (*sums, sums[-1]),
        "after {n} of {more} sums no other is asked for",
    ),
}


@pytest.mark.parametrize(("change", "why"), OTHER_SUMS.values(), ids=OTHER_SUMS)
def test_other_sums_are_found_and_what_all_sign_about_them_too(
    change, why, study, tmp_path
):
    sums = study.ending.sums
    other = change(sums)
    paths = study.files(tmp_path, shown=other)
    (line,) = verify(tmp_path, paths)[1]
    assert line.startswith("NOT ok  the sums are the signed ones: not of a, not of b")
    digest = receipt_sums_digest(other, study.ending.finish.seal)
    paths = study.files(tmp_path, shown=other, sums=digest)
    (line,) = verify(tmp_path, paths)[1]
    why = why.format(n=len(sums), more=len(other))
    assert f"a result follows from the sums and the file: {why}" in line


def test_other_residues_of_the_last_round_have_another_answer(study, tmp_path):
    last = study.ending.sums[-1].copy()
    last[:3] *= 3  # residues of the information; means are whole
    other = (*study.ending.sums[:-1], last)
    digest = receipt_sums_digest(other, study.ending.finish.seal)
    paths = study.files(tmp_path, shown=other, sums=digest)
    answer, everything = verify(tmp_path, paths)[1]
    assert answer.startswith(
        "NOT ok  the answer that follows is the signed one: not of"
    )
    assert everything.startswith("NOT ok  everything in the result file follows from")


def test_sums_that_no_run_has_are_refused(study):
    consortium, sums = study.company.consortium, study.ending.sums
    members = study.ending.finish.parties
    for wrong in (sums[:-1], (), (sums[0][:-1],)):
        with pytest.raises(InvalidInputError):
            replay_released_sums(consortium, sums=wrong, members=members)
    again = replay_released_sums(consortium, sums=sums, members=members)
    np.testing.assert_array_equal(again.answer, study.ending.finish.result)


BAD = {
    "no JSON": "{",
    "another file": '{"format": "veilsum receipt 3", "sums": []}',
    "no list": '{"format": "veilsum sums 1", "sums": 5}',
    "no numbers": '{"format": "veilsum sums 1", "sums": [["x"]]}',
    "mixed": '{"format": "veilsum sums 1", "sums": [["1", 2]]}',
    "nested": f'{{"format": "veilsum sums 1", "sums": {"[" * 9000}{"]" * 9000}}}',
    "digits": f'{{"format": "veilsum sums 1", "sums": [["{"9" * 9000}"]]}}',
    "nan": '{"format": "veilsum sums 1", "sums": [[NaN]]}',
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_file_of_sums_that_is_none_is_refused_in_a_sentence(text, tmp_path):
    path = tmp_path / SUMS
    path.write_text(text)
    with refused("wrong-file-kind") as caught:
        read_sums_to_replay(path)
    assert "\n" not in str(caught.value)


def test_sums_come_back_from_their_file_as_they_were(tmp_path):
    sums = (np.array([10**60, -(2**200), 0], dtype=object), np.array([0.1, -1e300]))
    path = tmp_path / SUMS
    path.write_bytes(replay_sums_file(sums))
    for one, other in zip(read_sums_to_replay(path), sums, strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()
