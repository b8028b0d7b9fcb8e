"""What real parties sign and write is about all of them, and hangs together."""

import hmac
import json
import math
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from cases import each
from net.runs import ONE_SHOT, WAITS, Company, answers, data_files
from veilsum.cli.app import app
from veilsum.drivers.driver import DriverAssignment
from veilsum.files.output import as_strict_json
from veilsum.net.receipt import result_for_receipts, verify_receipts
from veilsum.party.checks import guarantee_for_consent
from veilsum.protocol.codec import Codec

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
MINIMISER, GUARANTEE = (
    f"the file's {what} is the signed one" for what in ("minimiser", "guarantee")
)


def on_tables(folder, **job):
    stream = np.random.default_rng(3)
    frames = {}
    for name in "abcd":
        x = stream.uniform(0, 9, size=40)
        y = (x + stream.normal(size=40) > 4.5).astype(float)
        frames[name] = pd.DataFrame({"x": x, "y": y})
    number = {"kind": "number", "minimum": -50, "maximum": 50}
    table = {
        "schema": {"minimum_rows": 40, "columns": {"x": number, "y": number}},
        "policy": {"tolerate": 1, **WAITS},
        **job,
    }
    return data_files(table, frames, folder)


JOBS = {
    "cost": None,
    "fit": {"model": {"formula": "y ~ x"}},
    "logistic": {"model": {"formula": "y ~ x", "family": "logistic"}},
    "robust": {"model": {"formula": "y ~ x", "family": "binomial", "errors": "HC3"}},
    "statistics": {"statistics": {"columns": ["x", "y"]}},
}


class Ended:
    """A run of four that has ended: what they have and what they sign."""

    def __init__(self, folder, job):
        table = ONE_SHOT if job is None else on_tables(folder, **job)
        self.company = Company(folder, table)
        self.shown = {}
        found = self.company.options
        for name in self.company.names:
            found[name] = {"confirm": lambda task, name=name: self.see(name, task)}
        results = self.company.run()
        answers(results)
        self.receipts = self.company.receipts(results)
        self.result = results["b"]
        self.seals = {self.company.drivers[name].ending.finish.seal for name in results}

    @property
    def document(self):
        """What `veilsum join` writes to result.json."""
        (seal,) = self.seals
        return {**self.result.to_dict(), "seal": seal.hex()}

    def see(self, name, task):
        assert isinstance(task, DriverAssignment)
        self.shown[name] = guarantee_for_consent(task)


@pytest.fixture(scope="module")
def ended(tmp_path_factory, unchecked_shapes):
    del unchecked_shapes
    known = {}

    def of(kind):
        if kind not in known:
            known[kind] = Ended(tmp_path_factory.mktemp(kind), JOBS[kind])
        return known[kind]

    return of


# What was released


@each("kind", JOBS)
def test_the_release_that_is_signed_is_the_sum_over_everybody(ended, kind):
    run = ended(kind)
    assert run.result.guarantee.corrupted, "somebody is thought to collude"
    for receipt in run.receipts:
        assert receipt.released
        assert all(one["parties"] == [*"abcd"] for one in receipt.released)
        assert "text" not in str(receipt.guarantee), "words are not signed"
        # The coalition's side is where it always was.
        lines = [one.facts for one in run.result.guarantee.released]
        assert receipt.guarantee["released"] == lines
    rounds = 1 if kind == "cost" else len(run.result.releases)
    assert {len(one.released) for one in run.receipts} == {rounds}
    assert verify_receipts(run.receipts, run.company.consortium).good


@each("kind", JOBS)
def test_the_screen_says_whose_side_it_is_told_from(ended, kind):
    run = ended(kind)
    for promise in run.shown.values():
        (who,) = promise.corrupted
        plain, view = promise.released
        assert plain.facts == run.receipts[0].released[0]
        assert view.startswith(f"with what {who} knows: ")
        others = ", ".join(name for name in "abcd" if name != who)
        assert f"{others}" in view
        assert f" {who}," not in view.partition(":")[2]


def test_where_nobody_is_curious_the_sum_is_said_once(ended):
    promise = next(iter(ended("cost").shown.values()))
    task = DriverAssignment(
        plan=None,
        works={},
        foresee=lambda: replace(promise, corrupted=(), released=("all",)),
        shown=("all",),
    )
    assert guarantee_for_consent(task).released == ("all",)


# The result file


@pytest.fixture
def verify(tmp_path):
    """What `veilsum verify --result` says about a result."""

    def call(run, result, *words):
        paths = [tmp_path / f"receipt-{one.party}.json" for one in run.receipts]
        for path, receipt in zip(paths, run.receipts, strict=True):
            path.write_text(receipt.to_json())
        file = tmp_path / "result.json"
        file.write_text(result if isinstance(result, str) else as_strict_json(result))
        words = ["verify", *paths, "--result", file, *words]
        return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)

    return call


def not_ok(found):
    return [one for one in found.stdout.splitlines() if one.startswith("NOT ok")]


@pytest.mark.parametrize("kind", ["cost", "fit", "logistic", "robust"])
def test_a_result_is_the_one_that_was_signed(ended, verify, kind):
    run = ended(kind)
    found = verify(run, run.document)
    assert found.exit_code == 0, found.output
    assert f"ok      {MINIMISER}: 4 of 4" in found.stdout
    assert f"ok      {GUARANTEE}: 4 of 4" in found.stdout


@pytest.mark.parametrize("way", [-math.inf, math.inf], ids=["down", "up"])
@pytest.mark.parametrize("kind", ["cost", "fit", "logistic", "robust"])
def test_a_number_edited_in_its_last_digit_is_noticed(ended, verify, kind, way):
    run = ended(kind)
    for k, number in enumerate(run.result.answer.tolist()):
        table = run.document
        table["minimiser"][k] = math.nextafter(number, way)
        found = verify(run, table)
        assert found.exit_code == 1
        assert not_ok(found) == [
            f"NOT ok  {MINIMISER}: not of a, not of b, not of c, not of d"
        ]


def test_a_number_more_or_less_or_in_another_place_is_noticed(ended, verify):
    run = ended("fit")
    table = run.document
    first, second = table["minimiser"]
    for other in ([], [first], [second, first], [first, second, 0.0]):
        assert verify(run, {**table, "minimiser": other}).exit_code == 1


def half(promise):
    promise["epsilon"] /= 2


def silent(promise):
    promise["limits"] = promise["limits"][:-1]


@pytest.mark.parametrize("better", [half, silent])
def test_a_better_promise_than_the_signed_one_is_noticed(ended, verify, better):
    """A smaller number, or a caveat that was taken out."""
    run = ended("cost")
    table = run.document
    assert verify(run, table).exit_code == 0
    better(table["guarantee"])
    found = verify(run, table, "--json")
    assert found.exit_code == 1
    bad = [one for one in json.loads(found.stdout)["findings"] if not one["good"]]
    assert [one["check"] for one in bad] == [GUARANTEE]


def test_statistics_cannot_be_compared_and_that_is_said(ended, verify):
    run = ended("statistics")
    found = verify(run, run.document)
    assert found.exit_code == 2
    assert "of a [statistics]" in found.stderr
    assert "compare the parties' files with each other" in found.stderr
    assert found.stdout == ""


def test_what_is_no_result_is_refused_with_a_sentence(ended, verify, tmp_path):
    run = ended("cost")
    table = run.document
    cases = [
        ("{", "is not a result"),
        ("[]", "veilsum join writes"),
        (run.receipts[0].to_json(), "minimiser must be a list of numbers"),
        ({**table, "price": 3.0}, "of a [dispatch]"),
        *(
            ({**table, "minimiser": odd}, "minimiser must be a list of numbers")
            for odd in (None, 3.0, [True], ["1.0"], [None], [10**400])
        ),
        *(({**table, "seal": odd}, "seal must be") for odd in (None, "", "0f")),
        (as_strict_json(table).replace("[", "[NaN, ", 1), "is not a result"),
    ]
    for result, sentence in cases:
        found = verify(run, result)
        assert found.exit_code == 2, found.output
        assert sentence in found.stderr
        assert found.stderr.count("\n") == 1
    found = verify(run, table, "--result", tmp_path / "nowhere.json")
    assert found.exit_code == 2
    assert "cannot read" in found.stderr


def test_how_a_number_is_spelt_means_nothing(ended):
    table = ended("cost").document
    table["minimiser"] = [2, 0.5, 1e22]
    same = {**table, "minimiser": [2.0, 5e-1, 10**22]}
    assert result_for_receipts(table) == result_for_receipts(same)


def test_who_is_shown_a_receipt_cannot_try_out_results(ended):
    """A result of few digits is one of few: without a key its digest tells which."""
    run = ended("fit")
    answer, receipt = run.result.answer, run.receipts[0]
    guesses = [answer + k / 100 for k in range(-50, 50)]
    digests = [Codec.digest(one) for one in guesses]
    once = Codec.digest(answer).hex()
    assert [one.hex() for one in digests].count(once) == 1  # as receipts once were
    public = [b"", *(str(value).encode() for value in asdict(receipt).values())]
    public += [bytes.fromhex(receipt.signature), bytes.fromhex(receipt.plan)]
    tried = {hmac.digest(key, one, "sha256").hex() for key in public for one in digests}
    assert receipt.result not in tried | {one.hex() for one in digests}
    # A member holds the key, and all members the same.
    (seal,) = run.seals
    assert receipt.result == hmac.digest(seal, Codec.digest(answer), "sha256").hex()
    assert all(seal.hex() not in one.to_json() for one in run.receipts)
