"""Scenario files of jobs: every example runs, and mistakes are explained."""

import json
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import refusals
from cases import each
from veilsum.cli.app import app
from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.files.scenarios import read_scenario
from veilsum.privacy.guarantee import ONE_RUN_LIMIT
from veilsum.questions.meta import FEW_STUDIES
from veilsum.sums.job_file import read_job
from veilsum.sums.releases import EXACT, REBUILT
from veilsum.sums.running import SUMS_TELL

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result


@each("name", ["diabetes", "lung", "randhie"])
def test_regressions_print_their_difference_from_the_pooled_fit(name):
    result = run("fit", EXAMPLES / f"{name}.toml", "--driver", "vectorised")
    output = result.output.replace("\n", " ")
    said = output.split("difference from the pooled fit: ")[1].split()[0]
    assert float(said) < 1e-8
    assert "Observations:" in result.output
    assert "Released:" in result.output


def test_the_lung_example_says_whom_the_default_would_refuse():
    result = run("fit", EXAMPLES / "lung.toml", "--driver", "vectorised")
    assert "would be refused: inst-4, inst-10, inst-33" in result.output
    assert "Censoring is ignored" in result.output


def test_an_institution_with_one_row_allows_one_sum(tmp_path):
    text = (EXAMPLES / "lung.toml").read_text("utf-8")
    plan = tmp_path / "plan.toml"
    plan.write_text(text.replace('family = "gaussian"', 'family = "logistic"'))
    refused = CliRunner().invoke(app, ["fit", str(plan), "--driver", "vectorised"])
    assert refused.exit_code == 2
    assert "in each of 8 rounds) would be released" in " ".join(refused.output.split())


def test_firms_print_their_difference_and_every_long_step_is_named(monkeypatch):
    steps = []

    def noted(label):
        steps.append(label)
        return nullcontext()

    monkeypatch.setattr("veilsum.cli.question.show_progress_activity", noted)
    result = run("stats", EXAMPLES / "wages.toml", "--driver", "vectorised")
    said = result.output.split("difference from the pooled means: ")[1].split()[0]
    assert float(said) < 1e-9
    assert steps == [
        "Reading wages.toml",
        "Running 130 parties",
        "Searching for the worst coalition",
    ]


@pytest.mark.parametrize(
    ("case", "price"), [("30", 3.7892), ("39", 13.5169), ("118", 39.3814)]
)
def test_prices_are_printed_and_written(tmp_path, case, price):
    result = run("dispatch", EXAMPLES / f"dispatch{case}.toml", "--out", tmp_path)
    assert "the pooled price is" in result.output
    kept = json.loads((tmp_path / "result.json").read_text())
    assert kept["price"] == pytest.approx(price, abs=1e-4)
    assert kept["max_error"] < 1e-9


def test_hospitals_print_hazard_ratios():
    result = run("cox", EXAMPLES / "cox.toml", "--driver", "vectorised")
    assert "n = 686, number of events = 299" in result.output
    assert "difference from the fit without masks: 0 (the same rounds" in result.output


def test_survival_prints_its_difference_and_draws_a_figure(tmp_path):
    file = EXAMPLES / "gbsg2.toml"
    words = ("--driver", "vectorised", "--out", tmp_path, "--life-table")
    result = run("survival", file, *words)
    output = result.output.replace("\n", " ")
    said = output.split("difference from the pooled rows' own curves: ")[1]
    first, second = said.split(" of life tables")[0].split(", and ")
    assert float(second) < 0.004 < float(first) < 0.04
    assert "log-rank: chi2 = 9.341, df = 1" in result.output
    kept = json.loads((tmp_path / "result.json").read_text())
    assert kept["log_rank"]["observed"] == {"no": 199, "yes": 86}
    assert (tmp_path / "survival.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "survival.svg").exists()


@pytest.mark.parametrize(
    ("command", "example", "line"),
    [
        ("mixed", "sleep", "x           10.467   1.5458   6.7715"),
        ("meta", "sleep-meta", "random   10.156   1.6101    6.3078"),
    ],
)
def test_laboratories_print_what_r_has(command, example, line):
    result = run(command, EXAMPLES / f"{example}.toml", "--driver", "vectorised")
    assert line in result.output
    assert "without masks: 0" in result.output


def test_a_model_of_elsewhere_is_evaluated():
    """R's area on the same rows without bins is within what the bins leave open."""
    path = EXAMPLES / "pima-evaluate.toml"
    result = run("evaluate", path, "--driver", "vectorised", "--json")
    found = json.loads(result.stdout)["auc"]
    assert found["least"] < 0.8658822561402065 < found["largest"]


def test_every_example_of_a_job_is_run_here():
    jobs = {
        "diabetes",
        "lung",
        "randhie",
        "wages",
        "sleep",
        "sleep-meta",
        "gbsg2",
        "cox",
        "table1",
        "day",
        "pima-evaluate",
        "study",
    }
    jobs |= {f"dispatch{case}" for case in (30, 39, 118)}
    files = {p.stem: p.read_text("utf-8") for p in EXAMPLES.glob("*.toml")}
    assert {name for name, text in files.items() if "[data]" in text} == jobs


@pytest.fixture
def folder(tmp_path):
    stream = np.random.default_rng(0)
    for name in "abcd":
        rows = pd.DataFrame({"x": stream.normal(size=30), "y": stream.normal(size=30)})
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    everything = pd.concat(
        [pd.read_csv(tmp_path / f"{n}.csv").assign(site=n) for n in "abcd"]
    )
    everything.to_csv(tmp_path / "all.csv", index=False)
    return tmp_path


FILES = """
[data]
files = { a = "a.csv", b = "b.csv", c = "c.csv", d = "d.csv" }
[model]
formula = "y ~ x"
"""
ONE_FILE = """
[data]
file = "all.csv"
party = "site"
[model]
formula = "y ~ x"
[masks]
law = "lattice"
sigma = 1e6
[graph]
edges = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"]]
[policy]
tolerate = 1
release_fraction = 0.9
"""


def written(folder, text):
    path = folder / "job.toml"
    path.write_text(text)
    return path


def test_one_file_or_several_are_the_same_job(folder):
    one = read_job(written(folder, FILES), "model").run(driver="vectorised")
    other = read_job(written(folder, ONE_FILE), "model").run(driver="vectorised")
    assert one.terms.parties == other.terms.parties == ("a", "b", "c", "d")
    assert other.terms.law.name == "lattice"
    np.testing.assert_allclose(
        one.fit.coefficients, other.fit.coefficients, rtol=1e-8, atol=1e-12
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[data]\nfile='all.csv'\nparty='site'\n", r"needs a \[model\]"),
        ("[model]\nformula='y ~ x'\n", "exactly one of dataset, file and files"),
        (ONE_FILE.replace('"site"', '"sites"'), "column that says whose rows"),
        (ONE_FILE.replace("formula", "formla"), "did you mean 'formula'"),
        (ONE_FILE.replace("[policy]", "[polices]"), "did you mean 'policy'"),
        (FILES.replace("a.csv", "nowhere.csv"), "nowhere.csv"),
        (
            "[data]\ndataset='iris'\n[model]\nformula='y~x'\n",
            "choose from breast_cancer",
        ),
        ("[statistics]\ncolumns=['x']\n", "run veilsum stats"),
        (
            ONE_FILE.replace("1e6", "1e6\ngrid = 30"),
            "grid is for costs of real numbers",
        ),
        (ONE_FILE + 'corrupted = ["a"]\n', "corrupted is no rule of veilsum fit"),
    ],
)
def test_mistakes_in_a_file_are_explained(folder, text, why):
    with pytest.raises((InvalidScenarioError, InvalidInputError), match=why):
        read_job(written(folder, text), "model")


def test_solve_sends_a_job_to_its_command(folder):
    with refusals.refused("task-has-own-command", InvalidScenarioError):
        read_scenario(written(folder, FILES))


def test_prices_must_be_an_interval(folder):
    text = "[data]\ndataset='case30'\nparties=6\n[dispatch]\nprices=[1]\n"
    with refusals.refused("wrong-value", InvalidScenarioError):
        read_job(written(folder, text), "dispatch").run()


def test_a_short_maximum_does_not_stop_the_report(folder):
    schema = """
[schema]
minimum_rows = 1
maximum_rows = 4
[schema.columns]
x = { kind = "number", unit = 0.001 }
y = { kind = "number", unit = 0.001 }
"""
    job = read_job(written(folder, FILES + schema), "model")
    assert job.refused_by_default() == ()


def test_codes_keep_their_zeros(folder):
    for name in "abcd":
        frame = pd.read_csv(folder / f"{name}.csv").assign(ward=["01", "02"] * 15)
        frame.to_csv(folder / f"{name}.csv", index=False)
    schema = """
[schema]
minimum_rows = 20
[schema.columns]
y = { kind = "number", unit = 0.001 }
ward = { kind = "category", categories = ["01", "02"] }
"""
    text = FILES.replace("y ~ x", "y ~ ward") + schema
    result = read_job(written(folder, text), "model").run(driver="vectorised")
    assert list(result.coefficients) == ["Intercept", "ward[T.02]"]


def test_each_partys_file_is_read_as_it_is_written(folder):
    plain = read_job(written(folder, FILES), "model").run(driver="vectorised")
    frame = pd.read_csv(folder / "b.csv").assign(note="\xe9")
    frame.to_csv(folder / "b.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    odd = pd.read_csv(folder / "c.csv", dtype=str)
    odd.loc[len(odd)] = ["-9", "0.5"]
    odd.to_csv(folder / "c.csv", index=False)
    said = """
separator = { b = ";" }
decimal = { b = "," }
encoding = { b = "cp1252" }
missing = { c = ["-9"] }
[model]"""
    found = read_job(written(folder, FILES.replace("[model]", said)), "model")
    found = found.run(driver="vectorised")
    assert found.coefficients == plain.coefficients
    # The twin: what is said of another party's file does not hold for this one.
    other = said.replace("missing = { c", "missing = { d")
    job = read_job(written(folder, FILES.replace("[model]", other)), "model")
    assert job.run(driver="vectorised").coefficients != plain.coefficients
    for key, why in (("e =", "about 'e', which has no file"), ("", "one for each")):
        wrong = said.replace("b =", key, 1) if key else said.replace('";"', "1")
        with pytest.raises(InvalidScenarioError, match=why):
            read_job(written(folder, FILES.replace("[model]", wrong)), "model")


def limits_in(output, heading="Limits:"):
    """Return the limits under a heading, each in one line."""
    told = output.split(f"\n{heading}\n")[1].split("\n\n")[0]
    return [" ".join(one.split()) for one in re.split(r"\n  (?! )", f"\n{told}")[1:]]


def test_limits_about_sums_stand_beside_the_promise_and_the_others_below():
    given = ("meta", EXAMPLES / "sleep-meta.toml", "--driver", "vectorised")
    short, long = (run(*given, *more).output for more in ((), ("--limits",)))
    told = json.loads(run(*given, "--json").output)["guarantee"]["limits"]
    whole = [one["text"] for one in told]
    about_sums = limits_in(short, SUMS_TELL)
    assert about_sums == [EXACT, FEW_STUDIES]
    assert sorted([*about_sums, *limits_in(long)]) == sorted(whole)
    few = limits_in(short)
    more = len(whole) - len(about_sums) - 2
    assert few == [
        *limits_in(long)[0:1],
        ONE_RUN_LIMIT,
        f"and {more} more: --limits shows them, and --json has them",
    ]


def test_epsilon_of_a_fit_by_rounds_is_not_shown_without_what_its_sums_tell():
    given = ("fit", EXAMPLES / "randhie.toml", "--driver", "vectorised")
    assert limits_in(run(*given).output, SUMS_TELL) == [EXACT, REBUILT]
    # The twin: a fit of one sum, of which nothing of the kind was found.
    once = run("fit", EXAMPLES / "lung.toml", "--driver", "vectorised").output
    assert limits_in(once, SUMS_TELL) == [EXACT]


def test_who_would_be_refused_is_counted_where_all_would():
    result = run("stats", EXAMPLES / "wages.toml", "--driver", "vectorised")
    assert "by default would be refused: all 130 parties" in result.output
    # An exact total of whole numbers has all its digits.
    assert "7510 " in result.output
    assert "e+06" not in result.output
