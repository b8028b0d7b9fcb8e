"""What a party's own checks point out to it, before anything is sent."""

import json
from datetime import UTC, datetime

import pandas as pd

from party.test_agreed import MODEL, agreed
from veilsum.files.ledger import open_ledger
from veilsum.party.checks import MOST_SHOWN, files_asked_before
from veilsum.privacy.accountant import Budget
from veilsum.tables.fingerprints import FingerprintSource

FILE = agreed(MODEL)


def inquire(ledger, place, *, question=FILE.question_digest, bounds):
    """Note a file that asked the same some years ago, one a year."""
    when = datetime(1990 + place, 1, 1, tzinfo=UTC)
    table = FingerprintSource(pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 5.0]}), ())
    with ledger.inquiry(
        table,
        file=f"{place:064x}",
        run=f"run-{place}",
        question=question,
        bounds=bounds,
        when=when.isoformat(),
    ):
        pass


def with_minimum_rows(rows):
    found = json.loads(FILE.bounds)
    found["schema"]["minimum_rows"] = rows
    return json.dumps(found)


def test_the_newest_files_within_other_bounds_are_shown(tmp_path):
    with open_ledger(tmp_path / "own.ledger", create=Budget()) as ledger:
        for k in range(MOST_SHOWN + 2):
            inquire(ledger, k, bounds=with_minimum_rows(1000 + k))
        head, *lines = files_asked_before(FILE, ledger)
    assert f"{MOST_SHOWN + 2} of them" in head
    assert len(lines) == MOST_SHOWN
    for k, line in enumerate(lines, start=2):
        assert f"{1990 + k}-" in line
        assert f"minimum_rows was {1000 + k}, is 50" in line
        assert "you did not refuse it" in line


def test_the_same_file_and_other_questions_are_not_shown(tmp_path):
    with open_ledger(tmp_path / "own.ledger", create=Budget()) as ledger:
        inquire(ledger, 0, bounds=FILE.bounds)
        inquire(ledger, 1, question="0" * 64, bounds=with_minimum_rows(1000))
        assert files_asked_before(FILE, ledger) == ()
