"""Small cells merge, and refusals name a change that works: each is applied here."""

import json

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from refusals import refused
from veilsum.files.output import as_strict_json
from veilsum.tables.rules import DisclosureError, Rules

SIZES = {"a": 420, "b": 380, "c": 260, "d": 210, "e": 110}
QUARTERS = [91 * k for k in range(1, 15)]
QUICK = {"driver": "vectorised", "seed": 1}
BY_ARM = "Surv(days, died) ~ C(arm)"


def registry(sizes=SIZES, **columns):
    """Follow-up of up to three and a half years, in two arms."""
    chance = np.random.default_rng(5)
    found = {}
    for name, n in sizes.items():
        time = chance.weibull(1.1, n) * 900
        end = chance.uniform(100, 1300, n)
        found[name] = pd.DataFrame(
            {
                "days": np.ceil(np.minimum(time, end)).clip(1, 1500),
                "died": (time <= end).astype(int),
                "arm": chance.choice(["new", "old"], n),
                "stage": chance.choice(["I", "II", "III"], n),
                "age": chance.integers(18, 95, n),
            }
        )
        for column, values in columns.items():
            found[name][column] = values(name, n)
    return found


def test_kaplan_meier_by_quarter_for_1380_patients_in_two_arms():
    """Quarters in which few follow-ups end are counted as one, and named."""
    data = registry()
    found = vs.survival(BY_ARM, data, times=QUARTERS, compare=True, **QUICK)
    assert found.count == sum(SIZES.values()) == 1380
    late = ["1001 to 1092", "1092 to 1183", "1183 to 1274", "after 1274"]
    assert found.merged == {"days": [late]}
    assert found.times.tolist() == QUARTERS[:11]
    said = " ".join(found.summary().split())
    assert f"counted together: days {' and '.join(late)}." in said
    # The curves and the test are those of the pooled rows on the coarser grid.
    pooled = pd.concat(data.values())
    for label, curve in found.curves.items():
        own = pooled[pooled["arm"] == label]
        survival = 1.0
        for start, end, height in zip(
            [0, *found.times], found.times, curve.survival, strict=False
        ):
            risk = (own["days"] > start).sum()
            inside = (own["days"] > start) & (own["days"] <= end)
            survival *= 1 - own["died"][inside].sum() / risk
            assert height == pytest.approx(survival, rel=1e-12)
    assert found.log_rank.df == 1
    assert json.loads(as_strict_json(found.to_dict()))["merged"] == found.merged


def test_a_site_with_one_or_two_rows_in_a_cell_stops_nothing():
    data = registry()
    data["c"].loc[:1, "stage"] = "IV"
    for name in "abd":
        data[name].loc[:9, "stage"] = "IV"
    found = vs.statistics(data, columns=[], tables=[("stage",)], **QUICK)
    assert not found.merged
    assert found.tables["stage",].tolist()[-1] == 32.0


def test_small_levels_become_others_and_all_rows_are_counted():
    data = registry()
    data["c"].loc[:1, "stage"] = "IV"
    tables = [("stage",), ("stage", "arm")]
    found = vs.statistics(data, columns=[], tables=tables, **QUICK)
    assert found.merged == {"stage": [["I", "IV"]]}
    pooled = pd.concat(data.values())
    counts = pooled["stage"].replace({"IV": "I"}).value_counts()
    assert found.levels["stage"] == ("II", "III", "others (I, IV)")
    assert found.tables["stage",].tolist() == [counts[k] for k in ("II", "III", "I")]
    assert found.tables["stage", "arm"].sum() == 1380
    assert "others (I, IV)" in found.summary()


def test_machines_merge_alike():
    """Each party finds the blocks by itself, and asks for the same."""
    data = registry()
    asked = {"columns": [], "tables": [("stage", "arm")]}
    data["c"].loc[:1, "stage"] = "IV"
    some, others = (
        vs.statistics(data, **asked, driver=driver, seed=1)
        for driver in ("vectorised", "loopback")
    )
    assert some.merged == others.merged == {"stage": [["I", "IV"]]}
    for one, other in zip(some.released.sums, others.released.sums, strict=True):
        assert one.tolist() == other.tolist()


def test_bins_merge_in_a_table_1_and_quantiles_follow_from_what_is_left():
    edges = {"age": [25, 40, 55, 70, 93, 94]}
    asked = {"by": "arm", "columns": [], "tables": [], "histograms": edges}
    quantiles = {"age": [0.5, 0.99]}
    found = vs.statistics(registry(), **asked, quantiles=quantiles, **QUICK)
    assert found.merged == {"age": [["70 to 93", "93 to 94", "above 94"]]}
    pooled = pd.concat(registry().values())
    histogram = found.histograms["age"]
    # Whole numbers up to 69.5 are those below 70.
    assert histogram.edges.tolist() == [25, 40, 55, 69.5]
    assert histogram.above == (pooled["age"] >= 70).sum()
    median, last = found.quantiles["age"]
    assert median.low <= np.quantile(pooled["age"], 0.5, method="lower") <= median.high
    assert (last.low, last.high) == (70, 94)


def test_groups_with_few_rows_become_others_in_every_part_of_a_table_1():
    def ward(name, n):
        found = np.array(["east", "south", "west"], dtype=object)[np.arange(n) % 3]
        found[: 9 * (name == "a")] = "isolation"
        return found

    data = registry(ward=ward)
    found = vs.statistics(data, by="ward", columns=["age"], tables=[("arm",)], **QUICK)
    assert found.groups.names == ("east", "west", "others (isolation, south)")
    pooled = pd.concat(data.values())
    own = pooled[pooled["ward"].isin(["south", "isolation"])]
    assert found.groups.counts[-1] == len(own)
    assert found.groups.parts[-1].mean[0] == pytest.approx(own["age"].mean())
    cells = found.groups.tables["arm",][1]
    assert cells[:, -1].tolist() == [(own["arm"] == k).sum() for k in ("new", "old")]


def test_empty_bins_beyond_the_agreed_range_are_no_small_cells():
    """Bins up to the ends of the range stay: nobody can be beyond."""
    edges = {"age": [18, 40, 60, 80, 94]}
    found = vs.statistics(registry(), columns=[], histograms=edges, **QUICK)
    assert not found.merged
    assert found.histograms["age"].total == 1380


def test_curves_by_arm_by_stage_and_of_all_follow_each_other(tmp_path):
    """No ledger refuses them, though sites have one or two rows in some quarters."""
    data = registry()
    schema = vs.Schema(
        (
            vs.Column("days", "integer", 0, 1500),
            vs.Column("died", "integer", 0, 1),
            vs.Column("arm", "category", categories=("new", "old")),
            vs.Column("stage", "category", categories=("I", "II", "III")),
        ),
        minimum_rows=100,
    )
    ledgers = {
        name: vs.open_ledger(tmp_path / name, create=vs.privacy.Budget())
        for name in data
    }
    formulas = BY_ARM, "Surv(days, died) ~ 1", "Surv(days, died) ~ C(stage)", BY_ARM
    found = [
        vs.survival(
            formula,
            data,
            times=QUARTERS,
            schema=schema,
            ledgers=ledgers,
            run=f"run-{k}",
            **QUICK,
        )
        for k, formula in enumerate(formulas)
    ]
    assert all(one.merged for one in found)
    assert len(found[2].times) < len(found[0].times) < len(found[1].times)
    # A day later is another cut point: few rows lie between.
    with refused("group-too-small", DisclosureError):
        vs.survival(
            BY_ARM,
            data,
            times=[t + 1 for t in QUARTERS],
            schema=schema,
            ledgers=ledgers,
            run="moved",
            **QUICK,
        )


# Where nothing is left, the refusal names a change that works


def test_an_arm_with_few_events_is_left_out_as_the_refusal_says():
    data = registry()
    for table in data.values():
        table.loc[table["arm"] == "new", "died"] = 0
    with refused("merging-leaves-nothing", DisclosureError) as told:
        vs.survival(BY_ARM, data, times=QUARTERS, **QUICK)
    assert "event x new" in str(told.value)
    assert "leave out arm" in str(told.value)
    assert vs.survival("Surv(days, died) ~ 1", data, times=QUARTERS, **QUICK).curves


def test_too_many_cut_points_are_fewer_as_the_refusal_says():
    small = registry(dict.fromkeys("abcde", 12))
    few = {"minimum_rows": 12, "rules": Rules(release_fraction=9.0), **QUICK}
    with refused("merging-leaves-nothing", DisclosureError) as told:
        vs.statistics(small, columns=[], histograms={"age": [*range(20, 94, 3)]}, **few)
    assert "fewer cut points for age" in str(told.value)
    found = vs.statistics(small, columns=[], histograms={"age": [18, 56, 94]}, **few)
    assert found.count == 60


def test_a_group_that_nearly_nobody_is_in_is_left_out_as_the_refusal_says():
    data = registry(odd=lambda name, n: (np.arange(n) < 1).astype(int).astype(str))
    with refused("merging-leaves-nothing", DisclosureError) as told:
        vs.statistics(data, by="odd", columns=[], tables=[("arm",)], **QUICK)
    assert "leave out odd" in str(told.value)
    assert vs.statistics(data, columns=[], tables=[("arm",)], **QUICK).count == 1380


def test_the_loosened_rule_of_a_refusal_is_one_that_works():
    data = registry(rare=lambda name, n: (np.arange(n) < 2).astype(int))
    asked = {"times": [365, 730], **QUICK}
    with refused("merging-leaves-nothing", DisclosureError) as told:
        vs.survival("Surv(days, rare) ~ 1", data, **asked)
    assert "minimum_count = 1" in str(told.value)
    loose = Rules(minimum_count=1)
    assert vs.survival("Surv(days, rare) ~ 1", data, rules=loose, **asked).count == 1380


# Price


def test_tables_of_large_cells_are_exempt_and_others_are_not():
    data = registry()
    found = vs.statistics(data, columns=[], tables=[("stage", "arm")], **QUICK)
    assert all(one.exempt and one.fits for one in found.price.balances)
    assert "exempt" in found.price.line()
    assert found.to_dict()["release_price"]["accounts"][0]["exempt"] is True
    # Averages of the same column are not counted by anybody before.
    mixed = vs.statistics(
        data, columns=["age"], tables=[("stage", "arm")], **QUICK
    ).price
    exempt = {one.columns for one in mixed.balances if one.exempt}
    assert exempt == {("arm", "stage")}
    assert mixed.tightest is not None
    loose = Rules(minimum_count=1)
    free = vs.statistics(
        data, columns=[], tables=[("stage", "arm")], rules=loose, **QUICK
    ).price
    assert not any(one.exempt for one in free.balances)


def test_merged_cells_and_counts_of_parties_cost_what_they_tell():
    """Five parties: log2 6 bits for a count of them; nothing for what is always 0."""
    found = vs.survival(BY_ARM, registry(), times=QUARTERS, **QUICK)
    first, second = (one.layout for one in found.releases)
    assert sum(first.charges(1380).values()) == pytest.approx(first.size * np.log2(6))
    shown = np.count_nonzero(
        [one.bits(1380, 43) for s in second.statistics for one in s.row_ranges()]
    )
    assert shown == second.size - 3 * 2 * 2
