"""A party's own cost: what is wrong with it is said to its owner, and no value is."""

import pytest

from jobs.test_agreed import COST, agreed
from veilsum.core.topology import Topology
from veilsum.errors import InvalidInputError, RangeError
from veilsum.jobs.party_cost import PartyCost
from veilsum.jobs.promises import MAY_SHRINK
from veilsum.jobs.terms import Terms


def test_a_cost_beyond_the_range_is_its_owner_s_and_no_magnitude_is_said():
    with pytest.raises(RangeError) as caught:
        PartyCost.of(agreed(COST), {"targets": [0.5, 98765.25]})
    told = str(caught.value)
    assert "this party's own cost: coefficient 2 of 2 is beyond the range of 10" in told
    assert "ann" not in told, "the first party has done nothing"
    # A coefficient is -2 times a target; 2^18 would say where it lies.
    for part in ("98765", "1.97", "1.98", "9.87", "9.88", "2^"):
        assert part not in told


@pytest.mark.parametrize(
    ("entry", "kind"),
    [("12,5", "text"), (True, "true or false"), ({"a": 1}, "a table")],
    ids=["comma", "bool", "table"],
)
def test_what_is_no_number_is_named_by_its_kind(entry, kind):
    with pytest.raises(InvalidInputError, match=f"numbers only, found {kind}") as error:
        PartyCost.of(agreed(COST), {"targets": [0.5, entry]})
    assert "12" not in str(error.value)


class Meeting:
    """Shows what a party would be shown, and does not take part."""

    party = "ann"

    def carry_out(self, assignment):
        self.promise = assignment.promise
        raise InvalidInputError("seen")


@pytest.mark.parametrize("drop", [True, False])
def test_that_a_promise_may_shrink_is_said_before(drop):
    meeting = Meeting()
    found = agreed(COST, policy={"drop": drop, "tolerate": 1})
    with pytest.raises(InvalidInputError, match="seen"):
        PartyCost.of(found, {"targets": [0.5, 0.25]}).run(meeting)
    assert (MAY_SHRINK in meeting.promise.limits) is drop


@pytest.mark.parametrize(
    ("parties", "tolerate", "left"), [(9, 1, 4), (9, 3, 3), (4, 1, 3), (20, 2, 9)]
)
def test_releases_are_counted_for_the_fewest_who_may_be_left(parties, tolerate, left):
    graph = Topology.family(f"complete:{parties}")
    usual = Terms.of(graph.parties, options={"tolerate": tolerate, "topology": graph})
    assert usual.honest == parties - tolerate
    options = {"tolerate": tolerate, "topology": graph, "drop": True}
    terms = Terms.of(graph.parties, options=options)
    assert terms.honest == left
    # By the protocol's own rule: fewer than these do not go on.
    plan = terms.plan(size=1, answer_size=1, terms={})
    assert plan.refusal(graph.parties[: left + tolerate]) is None
    assert plan.refusal(graph.parties[: left + tolerate - 1]) is not None
