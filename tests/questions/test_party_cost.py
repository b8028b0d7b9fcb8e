"""A party's own cost: what is wrong with it is said to its owner, and no value is."""

from fractions import Fraction
from math import inf, nan

import pandas as pd
import pytest

from cases import each
from party.test_agreed import COST, agreed
from refusals import refused
from veilsum.errors import InvalidInputError, RangeError
from veilsum.files.datasets import site_of_power_case
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.party_cost import PartyCost
from veilsum.models.price import Site
from veilsum.numbers.arrays import as_floats
from veilsum.numbers.units import UnitCounts
from veilsum.sums import terms
from veilsum.sums.running import MAY_SHRINK
from veilsum.sums.terms import SumTerms
from veilsum.tables.schema import Schema


def test_a_cost_beyond_the_range_is_its_owner_s_and_no_magnitude_is_said():
    with pytest.raises(RangeError) as caught:
        PartyCost.of(agreed(COST), {"targets": [0.5, 98765.25]})
    told = str(caught.value)
    assert "this party's own cost: coefficient 2 of 2 is beyond the range of 10" in told
    assert "ann" not in told, "the first party has done nothing"
    # A coefficient is -2 times a target; 2^18 would say where it lies.
    for part in ("98765", "1.97", "1.98", "9.87", "9.88", "2^"):
        assert part not in told


def test_an_agreed_unit_holds_for_everybody_and_its_owner_learns_what_was_rounded():
    consortium = agreed(COST, cost={"unit": 0.01})
    assert consortium.masks.unit == Fraction(1, 100)
    mine = PartyCost.of(consortium, {"targets": [0.07, 1.2345]})
    assert mine.cost.counts.tolist() == [-14, -247]
    assert mine.rounded == "1 of 2 coefficients were rounded to whole numbers of 1/100"
    assert PartyCost.of(consortium, {"targets": [0.07, 1.23]}).rounded == ""
    assert any("the unit 1/100" in line for line in mine.guarantee.limits)
    assert (
        mine.plan.digest != PartyCost.of(agreed(COST), {"targets": [1, 1]}).plan.digest
    )


def test_a_unit_that_is_none_is_refused_where_it_stands():
    with refused("malformed-unit", mentions=("[cost]",)):
        agreed(COST, cost={"unit": "a cent"})


def test_without_a_unit_it_is_a_step_of_the_grid():
    mine = PartyCost.of(agreed(COST), {"targets": [0.25, 0.07]})
    assert mine.rounded.startswith("1 of 2 coefficients were rounded to whole numbers ")
    assert mine.rounded.endswith(f" of 2^-{mine.terms.law.masks.grid}")


@each(
    ("entry", "kind"),
    [("12,5", "text"), (True, "true or false"), ({"a": 1}, "a table")],
    ids=["comma", "bool", "table"],
)
def test_what_is_no_number_is_named_by_its_kind(entry, kind):
    with refused("not-numbers", mentions=(kind,)) as error:
        PartyCost.of(agreed(COST), {"targets": [0.5, entry]})
    assert "12" not in str(error.value)


def test_a_number_beyond_all_floats_is_refused():
    with refused("number-too-large"):
        PartyCost.of(agreed(COST), {"targets": [0.5, 10**400]})


TWO = {"b": [0, 0], "low": [0, 0], "high": [1, 1]}


def crooked():
    return Cost.quadratic([[1.0, 987.25], [1.5, 1.0]], [0.0, 0.0])


def table(**cells):
    columns = {
        "x": {"kind": "number", "unit": 0.001},
        "sex": {"kind": "category", "categories": ["f", "m"]},
    }
    frame = pd.DataFrame({"x": [1.5, 2.5], "sex": ["f", "m"], **cells})
    return Schema.from_table({"minimum_rows": 1, "columns": columns}).check("a", frame)


@each(
    ("make", "secret"),
    [
        (lambda: table(x=["61,25", "3"]), "61"),
        (lambda: as_floats(["61,25"], what="numbers of a party"), "61"),
        (lambda: table(sex=["f", "moon"]), "moon"),
    ],
    ids=["number", "array", "category"],
)
def test_what_a_log_may_have_names_no_private_value(make, secret):
    """What its owner is shown quotes the cell that has to be corrected."""
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert secret in str(caught.value)
    assert secret not in caught.value.plain
    assert len(caught.value.plain) > 20


@each(
    ("make", "where", "secret"),
    [
        (crooked, "row 0, column 1", "98"),
        (lambda: Site.of(-1234.5), "below 0", "1234"),
        (lambda: Site.of(1.0, a=[1, -77.25], **TWO), "generator 1", "77"),
        (lambda: Site.of(1.0, a=[1, 1], **{**TWO, "low": [0, 88]}), "tor 1", "88"),
    ],
    ids=["matrix", "demand", "a", "limits"],
)
def test_what_is_wrong_is_named_by_its_place(make, where, secret):
    with pytest.raises(InvalidInputError, match=where) as caught:
        make()
    assert secret not in str(caught.value)


@each("lacking", ["demand", "a", "low"])
def test_a_site_without_a_column_is_refused_with_its_name(lacking):
    cells = {name: [1.0] for name in ("demand", "a", "b", "low", "high")}
    del cells[lacking]
    with refused("missing-columns", mentions=(lacking,)):
        site_of_power_case(pd.DataFrame(cells))


GENERATOR = ("a", "b", "low", "high")


@each("empty", [("a",), ("b",), ("low", "high"), ("a", "b", "high")])
def test_a_half_filled_generator_is_refused_by_party_row_and_column(empty):
    """One without a was left out, and so its party seemed to offer less."""
    table = pd.DataFrame(
        {"demand": [3.0, 0.0], **{key: [nan, 61.5] for key in GENERATOR}}
    )
    assert site_of_power_case(table).rows == (2,)
    table.loc[1, list(empty)] = nan
    with pytest.raises(InvalidInputError) as caught:
        site_of_power_case(table, "north")
    there = ", ".join(one for one in GENERATOR if one not in empty)
    said = f"north: row 2 has {there}, and nothing in {', '.join(empty)}: give all"
    assert str(caught.value).startswith(said)
    assert "61" not in str(caught.value)


@each(
    ("change", "said"),
    [
        ({"high": -77.25}, "row 2 has its lower limit"),
        ({"b": inf}, "row 2 is not finite in column 'b'"),
        ({"demand": inf}, "row 2 is not finite in column 'demand'"),
    ],
)
def test_what_is_wrong_in_a_row_of_a_site_is_named_by_it(change, said):
    row = {"demand": 0.0, "a": 1.0, "b": 1.0, "low": 0.0, "high": 9.0, **change}
    table = pd.DataFrame([{"demand": 3.0}, row])
    with pytest.raises(InvalidInputError, match=f"^north: {said}") as caught:
        site_of_power_case(table, "north")
    assert "77" not in str(caught.value)


@each("column", ["demand", "a", "high"])
def test_a_cell_of_a_site_that_is_no_number_is_refused_without_it(column):
    cells = {"demand": [1.0, 2.0], "a": [1.0, 2.0], "b": [0.0, 0.0]}
    cells |= {"low": [0.0, 0.0], "high": [5.0, 5.0], column: ["61,25", "2"]}
    with refused("not-numbers", mentions=(column,)) as caught:
        site_of_power_case(pd.DataFrame(cells), "north")
    assert str(caught.value).startswith("north: ")
    assert "row 1 has something else" in str(caught.value)
    assert "61" not in str(caught.value)


class Meeting:
    """Shows what a party would be shown, and does not take part."""

    party = "ann"

    def carry_out(self, assignment):
        self.promise = assignment.promise
        raise InvalidInputError("seen")


def test_a_real_party_loads_no_simulator(monkeypatch):
    """Import rules see what is imported by name; this one is imported by its place."""
    monkeypatch.setattr(terms, "import_module", None)
    with pytest.raises(InvalidInputError, match="seen"):
        PartyCost.of(agreed(COST), {"targets": [0.5, 0.25]}).run(Meeting())


def test_what_is_public_of_a_party_s_cost_depends_on_its_kind_only():
    """Nothing of one party stands for another: plans and guarantees are the same."""
    one, other = (
        PartyCost.of(agreed(COST), {"targets": targets})
        for targets in ([0.5, 0.25], [-1.5, 0.75])
    )
    assert one.plan.digest == other.plan.digest
    assert one.guarantee == other.guarantee
    assert one.recipe.remainders == other.recipe.remainders


@pytest.mark.parametrize("drop", [True, False])
def test_that_a_promise_may_shrink_is_said_before(drop):
    meeting = Meeting()
    found = agreed(COST, policy={"drop": drop, "tolerate": 1})
    with pytest.raises(InvalidInputError, match="seen"):
        PartyCost.of(found, {"targets": [0.5, 0.25]}).run(meeting)
    assert (MAY_SHRINK in meeting.promise.limits) is drop


@each(
    ("parties", "tolerate", "honest", "left"),
    [(9, 1, 3, 4), (9, 3, 3, 3), (4, 1, 3, 3), (20, 2, 3, 9), (5, 3, 0, 2)],
)
def test_releases_are_counted_for_the_fewest_who_may_be_left(
    parties, tolerate, honest, left
):
    graph = Topology.family(f"complete:{parties}")
    options = {"tolerate": tolerate, "topology": graph, "minimum_honest": honest}
    counts = UnitCounts((Fraction(1),), 60)
    usual = SumTerms.of(graph.parties, counts=counts, options=options)
    assert usual.honest == parties - tolerate
    options["drop"] = True
    terms = SumTerms.of(graph.parties, counts=counts, options=options)
    assert terms.honest == left
    # By the protocol's own rule: fewer than these do not go on.
    plan = terms.plan(size=1, answer_size=1, terms={})
    assert plan.refusal(graph.parties[: left + tolerate]) is None
    assert plan.refusal(graph.parties[: left + tolerate - 1]) is not None
