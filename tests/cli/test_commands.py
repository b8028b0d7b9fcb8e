"""Commands parse, call one function and print; bad input is one sentence and code 2."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from cases import each
from veilsum.cli.app import app, command_names
from veilsum.cli.output import LAWS
from veilsum.masks import laws

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

EXAMPLES = Path(__file__).parents[2] / "examples"


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def document(*words):
    found = call(*words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout, parse_constant=_refuse)


def _refuse(word):
    raise AssertionError(f"{word} is not JSON")


def refusal(*words):
    found = call(*words)
    assert found.exit_code == 2, found.output
    assert found.stdout == ""
    assert found.stderr.startswith("Error: ")
    assert found.stderr.count("\n") == 1, "one sentence, on one line"
    return found.stderr


@each("name", command_names())
def test_every_command_has_help_with_an_example(name):
    found = call(name, "--help")
    assert found.exit_code == 0
    assert "Example:" in found.output
    assert f"veilsum {name}" in found.output


def test_help_is_in_groups_and_has_every_command_once():
    found = call("--help")
    titles = re.findall(r"^(\w.*):$", found.output, re.M)
    groups = ["Ask a question", "Take part", "Surveys", "Plan and check", "Research"]
    assert titles[-5:] == groups
    listed = re.findall(r"^  ([a-z]+)  ", found.output, re.M)
    assert sorted(listed) == [*command_names()]


# --- privacy ---------------------------------------------------------------------


def test_every_law_is_offered():
    assert tuple(laws.LAWS) == LAWS


def test_privacy_prints_the_contract_keys():
    found = document("privacy", "--graph", "complete:3", "--sigma", 1)
    assert list(found) == [
        *("status", "law", "epsilon", "mu2", "mu2_certificate", "corrupted"),
        *("honest", "components", "attacker_success", "released", "limits"),
        "excess",
    ]


def test_privacy_of_the_papers_example():
    words = ("--graph", "complete:3", "--sigma", 1, "--corrupted", "2")
    found = document("privacy", *words, "--distance", 2**0.5)
    assert found["status"] == "private"
    assert found["epsilon"] == pytest.approx(1 / 8, rel=1e-12)
    assert found["mu2"] == pytest.approx(2, rel=1e-12)
    # Phi(sqrt(0.25 / 2)), the Bayes accuracy at KL = 1/4.
    assert found["attacker_success"] == pytest.approx(0.638163195, rel=1e-8)
    assert found["honest"] == ["0", "1"]


def test_privacy_of_a_lattice_has_its_excess():
    """Four steps per share on a ring of forty: more than the formula."""
    words = ("--graph", "ring:40", "--law", "lattice", "--sigma", 1)
    coarse = document("privacy", *words, "--grid", 2)
    fine = document("privacy", *words, "--grid", 40)
    real = document("privacy", "--graph", "ring:40", "--sigma", 1)
    assert fine["excess"] == 0.0
    assert fine["epsilon"] == real["epsilon"]
    assert real["excess"] is None
    assert coarse["excess"] > 1e-6
    total = real["epsilon"] + coarse["excess"]
    assert coarse["epsilon"] == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("words", [(), ("--tolerate", 2)])
def test_privacy_of_uniform_masks_is_a_coin(words):
    graph = ("--graph", "petersen", "--law", "uniform", "--distance", 100)
    found = document("privacy", *graph, *words)
    assert (found["epsilon"], found["attacker_success"]) == (0.0, 0.5)
    assert "generator" in {limit["key"] for limit in found["limits"]}


@each(
    ("words", "sentence"),
    [
        (("--law", "lattice", "--sigma", 1), "needs a grid"),
        (("--law", "lattice", "--grid", 20), "needs sigma"),
        (("--law", "uniform", "--sigma", 1), "has no sigma"),
        (("--sigma", 1, "--grid", 20), "has no grid"),
        (("--law", "lattice", "--sigma", 1, "--grid", 1), "a grid of 2 bits or more"),
    ],
)
def test_privacy_refuses_what_contradicts_a_law(words, sentence):
    assert sentence in refusal("privacy", "--graph", "petersen", *words)


def test_privacy_reports_a_cut_as_null_never_as_infinity():
    words = ("--graph", "petersen", "--sigma", 1, "--corrupted", "1, 4,5")
    found = document("privacy", *words)
    assert found["status"] == "partial"
    assert found["epsilon"] is None
    parts = {tuple(part["parties"]): part for part in found["components"]}
    assert parts["0",]["status"] == "exposed"
    assert parts["2", "3", "6", "7", "8", "9"]["mu2"] == pytest.approx(1, rel=1e-12)


def test_privacy_without_masks_is_said_aloud():
    found = document("privacy", "--graph", "ring:5", "--law", "none", "--distance", 1)
    assert (found["status"], found["epsilon"]) == ("no_privacy", None)
    assert found["attacker_success"] == 1


def test_privacy_for_people_names_the_status_and_the_limits():
    words = ("--graph", "complete:4", "--sigma", 1, "--corrupted", "0")
    found = call("privacy", *words, "--distance", 1)
    assert found.exit_code == 0
    assert found.output.startswith("0 can learn the released sums over the 3 others")
    assert "at most" in found.output
    assert "Limits" in found.output


@each("sigma", ["0", "-1", "nan", "inf"])
def test_a_sigma_that_is_no_noise_is_refused(sigma):
    message = refusal("privacy", "--graph", "ring:5", "--sigma", sigma)
    assert "sigma must be positive" in message
    assert 'law = "none"' in message


def test_a_missing_sigma_is_refused():
    assert "needs sigma" in refusal("privacy", "--graph", "ring:5")


def test_sigma_with_no_masks_is_a_contradiction():
    words = ("--graph", "ring:5", "--law", "none", "--sigma", 1)
    assert "leave sigma out" in refusal("privacy", *words)


def test_a_corrupted_party_that_does_not_exist_is_refused():
    words = ("--graph", "ring:5", "--sigma", 1, "--corrupted", "9")
    assert "unknown party '9'" in refusal("privacy", *words)


def test_a_misspelt_family_is_answered_with_the_nearest():
    message = refusal("privacy", "--graph", "complte:5", "--sigma", 1)
    assert "did you mean 'complete'" in message


def test_a_missing_graph_file_is_named():
    message = refusal("privacy", "--graph", "nowhere.graphml", "--sigma", 1)
    assert "nowhere.graphml" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a a\na b\n", "self-loops at a"),
        ("# nothing\n", "no edges"),
        ("a\n", "line 1 needs two names"),
    ],
)
def test_a_bad_edge_list_says_what_is_wrong(tmp_path, text, words):
    path = tmp_path / "graph.txt"
    path.write_text(text)
    assert words in refusal("privacy", "--graph", path, "--sigma", 1)


def test_a_disconnected_graph_is_reported_not_refused(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text("a b\nc d\n")
    found = document("privacy", "--graph", path, "--sigma", 1)
    assert found["status"] == "partial"
    assert [part["parties"] for part in found["components"]] == [["a", "b"], ["c", "d"]]


def test_a_negative_distance_is_refused():
    words = ("--graph", "ring:5", "--sigma", 1, "--distance", -1)
    assert "distance" in refusal("privacy", *words)


# --- solve -----------------------------------------------------------------------

# Largest error after the iterations each example asks for.
ERRORS = {
    "average": 1e-9,
    "paper": 1e-3,
    "quadratic": 2e-3,
    "quartic": 1e-3,
    "rendezvous": 1e-2,
}


def with_costs():
    """Examples for `solve`; those of jobs on data are run with the jobs."""
    files = {path.stem: path.read_text("utf-8") for path in EXAMPLES.glob("*.toml")}
    return sorted(name for name, text in files.items() if "[cost]" in text)


def test_masks_that_leave_no_answer_are_said_to():
    file, words = EXAMPLES / "rendezvous.toml", "masks drown the answer"
    assert words in call("solve", file, "--sigma", 1e7).output
    assert words not in call("solve", file).output


@each("name", with_costs())
def test_every_example_runs_and_reaches_the_pooled_answer(name):
    found = document("solve", EXAMPLES / f"{name}.toml")
    assert list(found) == [
        *("minimiser", "reference", "max_error", "sum_of_masks"),
        *("iterations", "rounds", "bytes", "quantisation", "spread"),
        *("method", "stopped", "engine", "tolerance_unused", "guarantee"),
    ]
    assert found["max_error"] < ERRORS[name]
    assert found["sum_of_masks"] < 1e-12
    assert found["guarantee"]["status"] == "private"
    # One round of shares; then iterations, or on a complete graph one round of sums.
    assert found["rounds"] == 1 + (found["iterations"] or 1)
    assert (found["iterations"] == 0) == (found["spread"] == "flooding")


def test_the_average_is_the_average_and_integer_masks_cancel_exactly():
    """By hand: the column means of examples/average.toml."""
    found = document("solve", EXAMPLES / "average.toml")
    assert found["minimiser"] == pytest.approx([13.9, 207.0, 410.1], abs=1e-9)
    assert found["sum_of_masks"] == 0.0
    assert found["quantisation"]["bits"] == 30
    assert found["quantisation"]["bias"] <= found["quantisation"]["bias_bound"]
    assert found["guarantee"]["law"] == "lattice"


# The pooled answer of examples/paper.toml, min of 3 x^2 + 6 x.
PAPER = [-1.0]


@pytest.mark.parametrize("sigma", ["1", "1e12"])
def test_options_take_the_place_of_the_file_s_law_and_method(sigma):
    words = ("--law", "lattice", "--sigma", sigma, "--grid", 50)
    found = document("solve", EXAMPLES / "paper.toml", *words, "--method", "one-shot")
    assert found["minimiser"] == pytest.approx(PAPER, abs=1e-10)
    assert found["max_error"] <= 1e-10
    assert found["sum_of_masks"] == 0.0
    assert found["quantisation"]["bits"] == 50
    assert found["guarantee"]["law"] == "lattice"
    assert found["iterations"] == 0


def test_uniform_masks_leave_the_file_s_sigma_behind():
    words = ("--law", "uniform", "--method", "one-shot")
    found = document("solve", EXAMPLES / "paper.toml", *words)
    assert found["minimiser"] == pytest.approx(PAPER, abs=1e-10)
    assert found["guarantee"]["epsilon"] == 0.0


def test_one_shot_for_people_says_how_the_sum_was_taken_and_what_rounding_did():
    words = ("--law", "lattice", "--sigma", 1, "--grid", 20, "--method", "one-shot")
    found = call("solve", EXAMPLES / "paper.toml", *words)
    assert found.exit_code == 0
    assert "from one sum by flooding" in found.output
    assert "grid 2^-20: rounding moved the answer by" in found.output


def test_one_shot_writes_its_result_and_no_curve(tmp_path):
    call("solve", EXAMPLES / "average.toml", "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


@each(
    ("words", "sentence"),
    [
        (("--law", "uniform"), "use method one-shot, or law lattice"),
        (("--law", "uniform", "--sigma", 1), "has no sigma"),
        (("--law", "none", "--sigma", 1), "leave sigma out"),
        (("--grid", 10), "has no grid"),
        (("--law", "lattice", "--grid", 0), "at least 4 steps"),
        (("--law", "lattice", "--sigma", "1e40", "--grid", 50), "by 83 bits"),
        (("--law", "lattice", "--sigma", 0), "sigma must be positive"),
        (("--method", "magic"), "magic"),
    ],
)
def test_options_that_contradict_each_other_are_refused(words, sentence):
    assert sentence in refusal("solve", EXAMPLES / "paper.toml", *words)


def test_a_value_out_of_range_is_shown_to_its_owner(tmp_path):
    path = tmp_path / "scenario.toml"
    text = (EXAMPLES / "average.toml").read_text()
    path.write_text(text.replace("largest = 1000.0", "largest = 700.0"))
    message = refusal("solve", path)
    assert "party 'alder': coefficient 3 of 3 has the magnitude 821" in message
    assert "nothing is clipped" in message


def test_solve_repeats_with_its_seed():
    path = EXAMPLES / "paper.toml"
    assert document("solve", path) == document("solve", path)


def test_solve_writes_its_result_and_a_figure(tmp_path):
    folder = tmp_path / "new" / "out"
    found = document("solve", EXAMPLES / "paper.toml", "--out", folder)
    assert json.loads((folder / "result.json").read_text()) == found
    assert (folder / "errors.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "errors.svg").read_text().startswith("<?xml")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["errors.png", "errors.svg", "result.json"]


def test_solve_for_people_shows_both_answers():
    found = call("solve", EXAMPLES / "paper.toml")
    assert found.exit_code == 0
    assert "pooled answer" in found.output
    assert "can learn the released sums" in " ".join(found.output.split())


def edited(tmp_path, *changes):
    text = (EXAMPLES / "paper.toml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    return path


def test_solve_says_that_a_tolerance_was_of_no_use_under_faults(tmp_path):
    lossy = ("seed = 0", "seed = 0\nfaults = { loss = 0.3 }")
    few = ("iterations = 10000", "iterations = 50")
    without = call("solve", edited(tmp_path, lossy, few)).output
    assert "the tolerance" not in without
    asked = (few[0], f"{few[1]}\ntolerance = 1e-3")
    file = edited(tmp_path, lossy, asked)
    said = " ".join(call("solve", file).output.split())
    assert "the tolerance was not used: under faults (loss) no party can tell" in said
    assert "one-shot takes none" in refusal("solve", file, "--method", "one-shot")


BOX = 'kind = "box"\nlower = -100.0\nupper = 100.0\n'
FOUR = ("[[1.0], [2.0], [3.0]]", "[[1.0], [2.0], [3.0], [4.0]]")
START = ("start = [[50.0], [-50.0], [20.0]]", "start = 0.0")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("sigma = 1.0", "sgima = 1.0")], "did you mean 'sigma'"),
        ([("[masks]", "[maks]")], "did you mean 'masks'"),
        ([("sigma = 1.0", "sigma = 0.0")], "sigma must be from 1e-100 to"),
        ([("sigma = 1.0", "sigma = nan")], "sigma must be from 1e-100 to"),
        ([('"gaussian"', '"gausian"')], "did you mean 'gaussian'"),
        ([('"gaussian"', '"none"')], "leave sigma out"),
        ([("[2.0], [3.0]]", "[2.0, 1.0], [3.0, 1.0]]")], "affine in dimension"),
        ([("[[1.0], [2.0], [3.0]]", "[[1.0], [2.0]]")], "each of 3 parties"),
        ([("[[1.0]", '[["x"]')], "must be numbers"),
        ([(BOX, 'kind = "all"\n')], "bounded domain"),
        ([("lower = -100.0", "lower = 200.0")], "the box is empty"),
        ([("iterations = 10000", "iterations = 0")], "at least 1"),
        ([("iterations = 10000", 'iterations = "many"')], "whole number"),
        ([("power = 1.0", "power = 0.5")], "(0.5, 1]"),
        ([('"metropolis"', '"metro"')], "choose from metropolis"),
        ([('["2"]', '["7"]')], "unknown party '7'"),
        ([('"complete:3"', '"path:1"')], "at least two"),
        ([("seed = 0", "seed = -1")], "must not be negative"),
        (
            [('family = "complete:3"', 'family = "ring:3"\nedges = [["a", "b"]]')],
            "exactly one of family",
        ),
        ([("[graph]", "[graph")], "not valid TOML"),
        (
            [
                ('family = "complete:3"', 'edges = [["a", "b"], ["c", "d"]]'),
                ('["2"]', '["a"]'),
                FOUR,
                START,
            ],
            "in 2 pieces (a, b; c, d)",
        ),
    ],
)
def test_a_bad_scenario_is_refused_in_one_sentence(tmp_path, changes, words):
    assert words in refusal("solve", edited(tmp_path, *changes))


def test_costs_of_another_dimension_are_all_named(tmp_path):
    rows = "[[1.0], [2.0], [3.0], [1.0, 2.0], [1.0, 2.0]]"
    changes = [
        ('"complete:3"', '"complete:5"'),
        ("[[1.0], [2.0], [3.0]]", rows),
        START,
    ]
    message = refusal("solve", edited(tmp_path, *changes))
    assert "3 has affine in dimension 2" in message
    assert "4 has affine in dimension 2" in message


def test_a_refused_scenario_leaves_nothing_behind(tmp_path):
    path = edited(tmp_path, ("sigma = 1.0", "sigma = 0.0"))
    folder = tmp_path / "out"
    refusal("solve", path, "--out", folder)
    assert list(folder.iterdir()) == []


def test_an_output_folder_that_cannot_be_written_is_refused_first(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    message = refusal("solve", EXAMPLES / "paper.toml", "--out", blocker / "out")
    assert "cannot write into" in message


def test_a_missing_scenario_is_named():
    assert "nowhere.toml" in refusal("solve", "nowhere.toml")


def test_sections_for_real_parties_are_ignored_aloud(tmp_path):
    changes = [("[simulation]", '[deployment]\nlaw = "lattice"\n\n[simulation]')]
    found = call("solve", edited(tmp_path, *changes), "--json")
    assert found.exit_code == 0
    assert "[deployment]" in found.stderr
    json.loads(found.stdout)


# --- paper -----------------------------------------------------------------------


def test_paper_prints_the_contract_keys_and_draws_both_figures(tmp_path):
    found = document("paper", "--out", tmp_path, "--executions", 2000, "--seed", 3)
    assert set(found) == {
        *("mean_A", "mean_B", "covariance", "kl_estimate", "kl_exact", "kl_bound"),
        *("epsilon", "mu2", "minimiser", "dgd_error", "fs_error"),
        *("attacker_success", "executions", "figures", "polynomial"),
    }
    assert set(found["polynomial"]) == {"minimiser", "error", "nonconvex_agents"}
    assert set(found["attacker_success"]) == {"exact", "empirical"}
    assert len(found["figures"]) == 4
    for path in map(Path, found["figures"]):
        start = path.read_bytes()[:5]
        assert start == (b"\x89PNG\r" if path.suffix == ".png" else b"<?xml")


def test_paper_for_people_compares_with_the_paper(tmp_path):
    found = call("paper", "--out", tmp_path, "--executions", 2000)
    assert found.exit_code == 0
    assert "tolerance" in found.output
    assert "OUTSIDE" not in found.output


def test_paper_refuses_a_folder_it_cannot_write(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    assert "cannot write into" in refusal("paper", "--out", blocker / "out")
