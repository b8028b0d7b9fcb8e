"""Questions are asked of a data cut, and nobody is locked out by a corrected cell."""

import stat
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from data_cuts import Site, patients, question
from ledgers import reservation
from refusals import refused
from veilsum.drivers.faults import Faults
from veilsum.drivers.loopback import Loopback
from veilsum.errors import BudgetError, InvalidInputError, LedgerError
from veilsum.files.cuts import TableSource, forget_cut, register_cut
from veilsum.tables.fingerprints import FingerprintSource
from veilsum.tables.frames import as_frame

BY_ID = {"id": "patient"}


def site_source(table):
    return FingerprintSource(table, ("pay",))


@pytest.fixture
def site(tmp_path):
    with Site(tmp_path) as made:
        yield made


def corrected(table, rows=1):
    table = table.copy()
    table.loc[: rows - 1, "pay"] += 1234.5
    return table


def longer(table, rows):
    return pd.concat([table, patients(rows, seed=5, first=500)], ignore_index=True)


WAITS = {
    "2 new rows": lambda t: longer(t, 2),
    "1 corrected row": corrected,
    "3 removed rows": lambda t: t[3:].reset_index(drop=True),
    "1 new row and 1 removed row": lambda t: longer(t[1:], 1),
}


@each("words, change", WAITS.items(), ids=WAITS)
def test_a_few_rows_wait_for_the_next_cut_and_the_question_is_answered(
    tmp_path_factory, words, change
):
    table = patients()
    with Site(tmp_path_factory.mktemp("site")) as site:
        first, _ = site.ask(table, how=BY_ID)
        later, chosen = site.ask(change(table), how=BY_ID)
        assert later.count == first.count
        np.testing.assert_array_equal(later.moments.sum, first.moments.sum)
        assert words in chosen.waits[0]
        assert [cut.name for cut in site.ledger.history().cuts] == [chosen.name]


def test_the_change_is_answered_as_soon_as_enough_people_changed(site):
    table = patients()
    first, before = site.ask(table, how=BY_ID)
    later, chosen = site.ask(longer(table, 12))
    assert later.count == first.count + 12
    assert chosen.waits == ()
    assert chosen.name != before.name


def test_people_who_leave_and_others_who_come_are_not_taken_for_the_same(site):
    """A cohort moves on by ten people, whose sexes are alike."""
    table = patients()
    first, _ = site.ask(table, ("pay",), by="sex", how=BY_ID)
    moved = longer(table[10:], 10)
    later, chosen = site.ask(moved, ("pay",), by="sex")
    assert chosen.waits == ()
    assert later.count == first.count


def test_a_correction_that_nobody_asked_about_waits_for_nothing(site):
    table = patients()
    site.ask(table, ("age",), how=BY_ID)
    _, chosen = site.ask(corrected(table), ("age",))
    assert chosen.waits == ()


def test_a_new_column_is_asked_of_the_people_of_the_earlier_cut(site):
    """The earlier cut lacks it, and two new people would stand out."""
    table = patients().drop(columns="age")
    site.ask(table, how=BY_ID)
    wider = longer(patients(), 2)
    found, chosen = site.ask(wider, ("age",))
    assert found.moments.sum[0] == patients()["age"].sum() + others_of("age")
    assert "2 new rows" in chosen.waits[0]
    more, _ = site.ask(longer(patients(), 9), ("age",))
    assert more.count == found.count + 9


def others_of(column):
    """The sum over the parties that are asked beside this one."""
    only = Site(None, r1=False).ask(patients(), (column,))[0]
    return only.moments.sum[0] - patients()[column].sum()


def test_a_file_that_was_corrected_in_place_is_asked_as_it_was(site, tmp_path):
    """The copy beside the ledger is for its owner alone."""
    path = tmp_path / "north.csv"
    patients().to_csv(path, index=False)
    first, _ = site.ask(path, ("age", "pay"), how=BY_ID)
    corrected(patients()).to_csv(path, index=False)
    later, chosen = site.ask(path, ("age", "pay"))
    np.testing.assert_array_equal(later.moments.sum, first.moments.sum)
    assert "1 corrected row" in chosen.waits[0]
    (copy,) = (tmp_path / "ann.ledger-cuts").iterdir()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700


def test_a_named_cut_is_asked_or_refused_with_the_true_reason(site):
    for name, table in {
        "2026-06": patients(),
        "2026-07": longer(patients(), 2),
        "2026-09": longer(patients(), 40),
    }.items():
        register_cut(site.ledger, TableSource(table), name, "patient")
    june, _ = site.ask(None, how={"cut": "2026-06"})
    assert june.count == site.ask(patients())[0].count
    with refused("cut-too-near", BudgetError, mentions=("2 new rows", "2026-06")):
        site.ask(None, how={"cut": "2026-07"})
    with refused("unknown-cut", InvalidInputError, mentions=("2026-09",)):
        site.ask(None, how={"cut": "2026-10"})
    newest, chosen = site.ask(None, how={"cut": "newest"})
    assert chosen.name == "2026-09"
    assert newest.count == june.count + 40


def test_newest_skips_a_cut_that_few_rows_tell_from_an_asked_one(site):
    for name, rows in {"june": 0, "july": 2}.items():
        table = TableSource(longer(patients(), rows))
        register_cut(site.ledger, table, name, "patient")
    site.ask(None, how={"cut": "june"})
    _, chosen = site.ask(None, how={"cut": "newest"})
    assert chosen.name == "june"


def test_a_forgotten_cut_leaves_fingerprints_and_no_rows(site, tmp_path):
    register_cut(site.ledger, TableSource(patients()), "june", "patient")
    site.ask(None, how={"cut": "june"})
    forget_cut(site.ledger, "june")
    assert [*(tmp_path / "ann.ledger-cuts").iterdir()] == []
    with refused("cut-rows-missing", LedgerError, mentions=("june",)):
        site.ask(None, how={"cut": "june"})
    with refused("cut-too-near", BudgetError, mentions=("1 corrected row", "june")):
        site.ask(corrected(patients()))
    assert site.ask(patients())[1].name == "june"


def test_a_copy_that_was_changed_is_not_used(site, tmp_path):
    register_cut(site.ledger, TableSource(patients()), "june", "patient")
    (copy,) = (tmp_path / "ann.ledger-cuts").iterdir()
    copy.write_bytes(copy.read_bytes()[:-1] + b"x")
    with refused("cut-damaged", LedgerError):
        site.ask(None, how={"cut": "june"})


def test_a_run_that_has_begun_goes_on_with_its_cut(site):
    agreed = question("begun")
    part = site.part(patients(), agreed, **BY_ID)
    known = site.ledger.data(site_source(part.table))
    about = {"run": agreed.run, "data": known.data, "columns": known.asked}
    site.ledger.reserve(reservation(rows=400, **about), known)
    later = site.part(longer(patients(), 30), agreed)
    assert later.chosen.name == part.chosen.name
    assert len(later.table) == len(patients())


def test_cuts_need_a_ledger():
    with Site(None, r1=False) as site, refused("cut-without-ledger", InvalidInputError):
        site.ask(None, how={"cut": "june"})


@each("column, code", [("name", "unknown-id-column"), ("seen", "id-missing")])
def test_ids_that_cannot_be_used_are_said(column, code, tmp_path_factory):
    table = patients().assign(seen=[None, *range(59)])
    with (
        Site(tmp_path_factory.mktemp("site")) as site,
        refused(code, InvalidInputError, mentions=(column,) if code[0] == "u" else ()),
    ):
        site.part(table, id=column)


def test_people_of_another_ledger_entry_are_not_answered_for(site):
    """A table about other people, a few rows from nothing, never gets others' rows."""
    site.ask(patients(), how=BY_ID)
    staff = patients(60, seed=7, first=7000)
    found, chosen = site.ask(staff, how={**BY_ID, "new_data": True})
    again, kept = site.ask(corrected(staff), how={"new_data": True})
    assert kept.name == chosen.name
    np.testing.assert_array_equal(again.moments.sum, found.moments.sum)


# Content comes back as it was


cells = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.text(max_size=5)
)
tables = st.integers(0, 6).flatmap(
    lambda n: st.fixed_dictionaries(
        {
            "number": st.lists(
                st.floats(allow_nan=False, width=64), min_size=n, max_size=n
            ),
            "cells": st.lists(cells, min_size=n, max_size=n),
            "whole": st.lists(st.integers(0, 9), min_size=n, max_size=n),
            "day": st.lists(
                st.datetimes(pd.Timestamp(1950, 1, 1), pd.Timestamp(2050, 1, 1)),
                min_size=n,
                max_size=n,
            ),
        }
    )
)


@given(tables)
@settings(max_examples=30)
def test_a_table_in_memory_comes_back_with_its_content(tmp_path_factory, columns):
    frame = pd.DataFrame(
        {
            "number": np.array(columns["number"], float),
            "cells": pd.Series(columns["cells"], dtype=object),
            "whole": pd.array(columns["whole"], dtype="Int64"),
            "day": np.array(columns["day"], dtype="datetime64[us]"),
        }
    )
    with Site(tmp_path_factory.mktemp("site")) as site:
        register_cut(site.ledger, TableSource(frame), "june")
        part = site.part(None, cut="june")
        known = [site.ledger.data(site_source(one)).data for one in (frame, part.table)]
        assert known[0] == known[1]
        pd.testing.assert_frame_equal(part.table, frame, check_dtype=False)


# Nothing new leaves the party


@dataclass(frozen=True, kw_only=True)
class Recorded(Loopback):
    """A simulation of all machines that notes every frame that one receives."""

    worlds: list = field(default_factory=list)

    def world(self, assignment):
        made = super().world(assignment)
        self.worlds.append(made)
        return made

    @property
    def frames(self):
        (world,) = self.worlds
        return [
            (one.party, one.peer, one.detail)
            for one in world.history
            if one.what == "receive"
        ]


def frames_of(folder, name, table, **how):
    """Every frame of a question to a cut of this name, and what its owner reads."""
    folder.mkdir()
    with Site(folder) as site:
        register_cut(site.ledger, TableSource(patients()), name, "patient")
        if table is not None:
            site.ask(None, how={"cut": name})
        driver = Recorded(seed=1, faults=Faults())
        _, chosen = site.ask(table, how=how, driver=driver, number=7)
    return driver.frames, chosen


def test_not_one_byte_that_others_see_depends_on_the_cut(tmp_path):
    """Neither on the length of its name, nor on whether somebody waits for the next."""
    long = "june-2026-after-the-second-audit"
    short, _ = frames_of(tmp_path / "short", "j", None, cut="j")
    named, chosen = frames_of(tmp_path / "long", long, None, cut=long)
    waiting, told = frames_of(tmp_path / "waiting", "w", corrected(patients()))
    assert long in chosen.lines[0]
    assert "1 corrected row" in told.waits[0]
    assert len(short) > 12
    assert short == named == waiting
    assert not any(long.encode() in frame for _, _, frame in named)


def test_frames_of_every_kind_are_cuts(site):
    site.ask(as_frame({k: v.tolist() for k, v in patients().items()}), how=BY_ID)
    _, chosen = site.ask(corrected(patients()))
    assert "1 corrected row" in chosen.waits[0]
