"""Dispatch over periods from files, as from Python; and tables that are refused."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import veilsum as vs
from cases import each
from refusals import refused
from veilsum.cli.app import app
from veilsum.errors import InvalidInputError
from veilsum.files.datasets import fleet_of_power_case
from veilsum.sums.job_file import read_job

DAY = Path(__file__).parents[2] / "examples" / "day.toml"
HOURS = {
    "north": [60, 90, 130, 150, 110, 70],
    "east": [20, 20, 25, 30, 25, 20],
    "south": [15, 15, 20, 20, 20, 15],
    "west": [10, 15, 25, 30, 20, 10],
}
BATTERY = {"wear": 0.05, "energy": 60, "power": 20, "efficiency": 0.9, "start": 30}
UNITS = {
    "north": {"a": 0.05, "b": 10, "low": 0, "high": 150, "ramp": 25},
    "east": {"a": 0.2, "b": 15, "low": 0, "high": 80, "ramp": 80},
    "south": BATTERY,
    "west": {"a": 0.1, "b": 12, "low": 10, "high": 60, "ramp": 10},
}


def test_a_file_and_python_find_the_same_to_the_last_bit():
    fleets = {name: vs.Fleet.of(HOURS[name], **UNITS[name]) for name in UNITS}
    options = {"driver": "vectorised", "seed": 1}
    mine = vs.dispatch_periods(fleets, prices=(0, 100), periods=6, **options)
    found = read_job(DAY, "dispatch").run(**options)
    assert [s.tolist() for s in found.released.sums] == [
        s.tolist() for s in mine.released.sums
    ]
    assert found.prices.tolist() == mine.prices.tolist()
    for name, outputs in mine.outputs.items():
        assert found.outputs[name].tolist() == outputs.tolist()
        assert found.costs[name].tolist() == mine.costs[name].tolist()


def test_the_command_prints_prices_and_draws_the_schedule(tmp_path):
    words = ["dispatch", str(DAY), "--driver", "vectorised", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert (
        "4       24.4259    23.5648    136.942    13.5225     55.9709" in result.output
    )
    assert "more than the least" in result.output
    kept = json.loads((tmp_path / "result.json").read_text())
    assert kept["minimiser"] == kept["prices"]
    assert kept["excess"] == pytest.approx(2e-6 * sum(kept["prices"]))
    assert (tmp_path / "schedule.png").read_bytes().startswith(b"\x89PNG")


def table(**change):
    rows = [
        {"demand_1": 3.0, "demand_2": 4.0},
        {"a": 1.0, "b": 2.0, "low": 0.0, "high": 61.5, "ramp": 5.0},
        {**BATTERY},
    ]
    rows[1 if {*change} & {*rows[1]} else 2] |= change
    return pd.DataFrame(rows)


def test_a_table_has_demands_generators_and_stores():
    fleet = fleet_of_power_case(table(), 2)
    assert fleet.demands.tolist() == [[3.0, 4.0]]
    assert fleet.generators.tolist() == [[1.0, 2.0, 0.0, 61.5, 5.0]]
    assert fleet.stores.tolist() == [[0.05, 60.0, 20.0, 0.9, 30.0]]
    assert fleet.rows == (2, 3)
    only = fleet_of_power_case(pd.DataFrame({"demand_1": [1.0, 2.0]}), 1)
    assert only.demands.tolist() == [[1.0], [2.0]]
    assert not len(only.generators) + len(only.stores)


@each(
    ("change", "periods", "said"),
    [
        ({}, 3, "and demand_3 cannot be found"),
        ({}, 1, "the table has demand_2, and 1 periods were agreed"),
        ({"ramp": np.nan}, 2, "row 2 has a, b, low, high, and nothing in ramp"),
        ({"start": np.nan}, 2, "row 3 has wear, energy, power, efficiency, and"),
        ({"demand_1": 1.0}, 2, "row 3 has demand_1, and nothing in demand_2"),
        ({"high": -61.5}, 2, "row 2: low must be at most high"),
        ({"start": 61.5}, 2, "row 3: start must be from 0 to energy"),
        ({"a": 61.5, **BATTERY}, 2, "row 2 has both a, b, low, high, ramp and wear"),
        ({"b": "61.5x"}, 2, "column 'b' must hold numbers"),
    ],
)
def test_what_is_wrong_in_a_table_is_named_and_not_quoted(change, periods, said):
    with pytest.raises(InvalidInputError, match=f"^north: .*{said}") as caught:
        fleet_of_power_case(table(**change), periods, "north")
    assert "61.5" not in str(caught.value)


def test_a_linear_cost_is_named_by_party_and_row():
    fleets = {name: fleet_of_power_case(table(a=0.0), 2, name) for name in "abcd"}
    with refused("wrong-unit-value", mentions=("2",)):
        vs.dispatch_periods(fleets, prices=(0, 50), periods=2)


def test_one_party_alone_sees_each_of_its_units():
    found = read_job(DAY, "dispatch").run(driver="vectorised", seed=1)
    whole = found.summary()
    assert "unit" not in whole
    object.__setattr__(found, "outputs", {"west": found.outputs["west"]})
    object.__setattr__(found, "costs", {"west": found.costs["west"]})
    assert "unit 1" in found.summary()
    assert "north" not in found.summary()
