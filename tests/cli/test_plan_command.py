"""`veilsum plan`: contract keys, words for people, refusals in one sentence."""

import json

import pytest
from click.testing import CliRunner

from cases import each
from veilsum.cli.app import app
from veilsum.graphs.topology import Topology
from veilsum.privacy.worst_case import worst_case

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

FIVE = ("--parties", 5, "--tolerate", 2)
SUCCESS = ("--attacker-success", 0.51, "--distance", 134.9)
RANGES = ("--columns", "age:0:100,bmi:10:60", "--response", "y:0:300")


def call(*words):
    return CliRunner().invoke(app, ["plan", *(str(word) for word in words)])


def document(*words):
    found = call(*words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout, parse_constant=lambda word: pytest.fail(word))


def refusal(*words):
    found = call(*words)
    assert found.exit_code == 2, found.output
    assert found.stdout == ""
    lines = found.stderr.strip().splitlines()
    assert lines[-1].startswith("Error: ")
    return lines[-1]


def test_the_document_has_the_contract_keys():
    found = document(*FIVE, *SUCCESS)
    assert {"best", "plans", "refused", "target", "notes"} <= set(found)
    assert found["best"] == found["plans"][0]
    assert {
        *("graph", "edges", "sigma", "epsilon", "worst_mu2", "links_per_party"),
        *("attacker_success", "worst_coalition", "exact", "vertex_connectivity"),
        *("float64_error", "lattice_error", "lattice_bits"),
    } <= set(found["best"])
    assert all({"graph", "reason"} == set(one) for one in found["refused"])


def test_the_plan_evaluates_to_its_target():
    best = document(*FIVE, *SUCCESS)["best"]
    topology = Topology.from_edges(best["edges"])
    found = worst_case(topology, tolerate=2, sigma=best["sigma"], distance=134.9)
    assert found.attacker_success <= 0.51
    assert found.attacker_success == pytest.approx(0.51, rel=1e-7)


def test_people_get_a_table_and_a_sentence():
    shown = call(*FIVE, *SUCCESS).stdout
    for words in (
        *("kappa", "worst mu2", "links/party", "verdict", "complete:5", "3-4"),
        *("OK, sigma x1.73", "NO: the hub alone", "guesses right 51.00% of the time"),
    ):
        assert words in shown


def test_the_sigma_that_people_copy_is_not_below_the_plan():
    best = document(*FIVE, *SUCCESS)["best"]
    lines = call(*FIVE, *SUCCESS).stdout.splitlines()
    shown = next(line for line in lines if line.startswith("complete:5 "))
    printed = float(shown.split()[4])
    assert printed >= best["sigma"]
    assert printed == pytest.approx(best["sigma"], rel=2e-5)


def test_an_epsilon_needs_no_distance():
    found = document(*FIVE, "--epsilon", 0.1)
    assert found["best"]["attacker_success"] is None
    assert found["best"]["epsilon"] == pytest.approx(0.1)
    assert "guesses" not in call(*FIVE, "--epsilon", 0.1).stdout


def test_the_distance_comes_from_ranges():
    words = (*FIVE, "--attacker-success", 0.51, *RANGES, "--model", "linear")
    found = document(*words)
    assert found["records"]["exact"]
    plain = document(*words, "--no-intercept")
    assert plain["records"]["exact"]
    assert plain["records"]["distance"] < found["records"]["distance"]
    assert found["target"]["distance"] == found["records"]["distance"]
    shown = " ".join(call(*words).stdout.split())
    assert "Exchanging two records between honest parties moves the inputs" in shown
    assert any("tau > 0" in note for note in found["notes"])


def test_a_plan_is_for_a_law():
    words = (*FIVE, *SUCCESS)
    normal, lattice = (
        document(*words, "--law", law)["best"] for law in ("gaussian", "lattice")
    )
    assert document(*words)["best"] == lattice
    assert normal["sigma"] < lattice["sigma"] < normal["sigma"] * (1 + 1e-5)
    shown = " ".join(call(*words, "--law", "uniform").stdout.split())
    assert "wheel:5, uniform masks: epsilon 0 against any 2 colluding" in shown
    assert "float64" not in shown.partition("Notes")[0]


def test_a_degree_budget_is_searched_and_a_seed_repeats_it():
    words = ("--parties", 12, "--tolerate", 1, "--epsilon", 0.1, "--degree", 4)
    first, second = document(*words, "--seed", 3), document(*words, "--seed", 3)
    assert first == second
    assert all(one["links_per_party"]["max"] <= 4 for one in first["plans"])


def test_a_given_graph_is_planned_for_alone(tmp_path):
    found = document("--graph", "petersen", "--tolerate", 2, "--epsilon", 0.38)
    assert [one["graph"] for one in found["plans"]] == ["petersen"]
    path = tmp_path / "triangle.txt"
    path.write_text("ann bob\nbob cem\ncem ann\n")
    found = document("--graph", path, "--tolerate", 1, "--epsilon", 0.125)
    assert found["best"]["graph"] == "edges"
    assert ["ann", "bob"] in found["best"]["edges"]
    assert found["best"]["sigma"] == pytest.approx(1.0)


@each(
    ("words", "message"),
    [
        ((*FIVE,), "give one target"),
        ((*FIVE, *SUCCESS, "--epsilon", 1), "give one target"),
        ((*FIVE, "--attacker-success", 0.6), "needs a distance"),
        ((*FIVE, "--attacker-success", 0.4, "--distance", 1), "above 0.5"),
        ((*FIVE, "--epsilon", 1, "--degree", 2), "allow 4 links, or tolerate less"),
        ((*FIVE, "--epsilon", 1, "--degree", 9), "between 1 and 4"),
        (("--tolerate", 1, "--epsilon", 1), "how many parties"),
        (("--parties", 4, "--tolerate", 3, "--epsilon", 1), "nothing can be hidden"),
        (("--parties", 4, "--tolerate", -1, "--epsilon", 1), "not be negative"),
        ((*FIVE, "--epsilon", 1, "--graph", "star:5"), "separates"),
        ((*FIVE, "--epsilon", 1, "--graph", "no-such.graph"), "no graph file"),
        ((*FIVE, *SUCCESS, *RANGES), "not both"),
        ((*FIVE, "--epsilon", 1, *RANGES), "needs --columns and --model"),
        ((*FIVE, "--epsilon", 1, "--columns", "a", "--model", "sum"), "NAME:MIN:MAX"),
        (
            (*FIVE, "--epsilon", 1, "--columns", "a:0:1,a:0:2", "--model", "sum"),
            "one name",
        ),
        ((*FIVE, "--epsilon", 1, "--model", "linear"), "--columns"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(words, message):
    assert message in refusal(*words)


def test_a_graph_s_name_is_not_read_as_a_picture():
    words = ("--graph", "circulant:100:1,2", "--tolerate", 0, "--epsilon", 1)
    shown = call(*words).stdout
    assert "circulant:100:1,2, sigma" in " ".join(shown.split())
