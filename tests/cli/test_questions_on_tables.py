"""Questions to tables without a scenario file, such as `veilsum fit --formula`."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from cases import each
from veilsum.cli.app import app

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
NAMES = ("north", "south", "east", "west")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four tables, and all rows in one."""
    found, draw = tmp_path_factory.mktemp("tables"), np.random.default_rng(1)
    every = []
    for name in NAMES:
        age = draw.normal(50, 9, 80).round()
        frame = pd.DataFrame(
            {
                "age": age,
                "sex": draw.choice(["f", "m"], 80),
                "cost": (0.2 * age + draw.normal(0, 3, 80)).round(1),
                "days": draw.integers(1, 600, 80),
                "died": (draw.random(80) < 0.4) * 1,
            }
        )
        frame.to_csv(found / f"{name}.csv", index=False)
        every.append(frame.assign(clinic=name))
    pd.concat(every).to_csv(found / "all.csv", index=False)
    return found


def run(folder, *words, tables=NAMES):
    files = [str(folder / f"{name}.csv") for name in tables]
    return CliRunner().invoke(app, [*words, *files], catch_exceptions=False)


QUESTIONS = {
    "fit": ("fit", "--formula", "cost ~ age + C(sex)"),
    "logistic": ("fit", "--formula", "died ~ age", "--family", "logistic"),
    "stats": ("stats", "--by", "sex", "--columns", "age, cost"),
    "survival": (
        *("survival", "--formula", "Surv(days, died) ~ C(sex)"),
        *("--times", "90,180.5,365"),
    ),
    "cox": ("cox", "--formula", "Surv(days, died) ~ age"),
}


@each("words", QUESTIONS)
def test_every_question_is_answered(folder, words):
    found = run(folder, *QUESTIONS[words], "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["guarantee"]["status"] == "private"
    assert "the dictionary was inferred from them" in found.stderr


def test_the_answer_is_that_of_all_rows_in_one_place(folder):
    found = json.loads(run(folder, *QUESTIONS["fit"], "--json").stdout)
    every = pd.read_csv(folder / "all.csv")
    design = np.stack([np.ones(320), every["age"], every["sex"] == "m"], axis=1)
    wanted, *_ = np.linalg.lstsq(design.astype(float), every["cost"], rcond=None)
    np.testing.assert_allclose(found["minimiser"], wanted, rtol=1e-9)


def test_one_table_is_split_by_a_column(folder):
    words = (*QUESTIONS["fit"], "--json")
    apart = json.loads(run(folder, *words).stdout)
    whole = run(folder, *words, "--party", "clinic", tables=("all",))
    assert json.loads(whole.stdout)["minimiser"] == apart["minimiser"]


REFUSED = {
    "fit": ("--formula FORMULA is required", 'such as "y ~ a + C(b)"'),
    "survival --formula Surv(days,died)~1": ("--times NUMBERS is required",),
    "meta --formula cost~age": ("--coefficient NAME is required",),
    "dispatch": ("dispatch takes one scenario file",),
    "fit --formula cost~agee": ("no table has a column 'agee'", "'age'"),
    "survival --formula Surv(days,died)~1 --times 9o": ("numbers separated by commas",),
    "fit --formula cost~age --party clinic": ("divides a single table",),
}


@each("words", REFUSED)
def test_what_is_missing_is_named(folder, words):
    found = run(folder, *words.split())
    assert found.exit_code == 2
    assert [one for one in REFUSED[words] if one not in found.stderr] == []


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (("all",), "--party COLUMN"),
        (("north", "north", "south"), "two files are named 'north'"),
        (("north", "nowhere", "south"), "there is no file"),
    ],
)
def test_files_that_make_no_parties_are_refused(folder, tables, said):
    found = run(folder, "fit", "--formula", "cost ~ age", tables=tables)
    assert found.exit_code == 2
    assert said in found.stderr


def test_a_scenario_stands_alone(folder, tmp_path):
    scenario = tmp_path / "question.toml"
    scenario.write_text("")
    found = run(folder, "fit", str(scenario))
    assert found.exit_code == 2
    assert "names its tables itself" in found.stderr
