"""No number of sixty questions changes, in sums, in answers, on any driver."""

import json

import numpy as np
import pytest

from frozen.scenes import NAMES, NUMBERS, digest, numbers, run

# Whole questions, whose parts have tests of their own that check shapes.
pytestmark = pytest.mark.usefixtures("unchecked_shapes")

FROZEN = json.loads(NUMBERS.read_text("utf-8"))
# One scene of each question, and each kind of sum: machines take longer than arrays.
ON_MACHINES = (
    *("gaussian", "logistic", "negative binomial", "ordinal", "Table 1", "quantiles"),
    *("survival by arm", "Cox, Efron", "Cox, one baseline", "mixed", "meta"),
    *("evaluate", "evaluate, folds", "dispatch", "dispatch of a day"),
)


def test_every_scene_has_numbers():
    assert list(FROZEN) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_scene_has_its_sums_and_its_answer(name, tmp_path):
    found, expected = numbers(run(name, tmp_path)), FROZEN[name]
    assert found["sizes"] == expected["sizes"]
    assert found["sums"] == expected["sums"]
    # Sums are whole numbers; the last step from them to an answer is in float64.
    np.testing.assert_allclose(found["answer"], expected["answer"], rtol=1e-9)


@pytest.mark.parametrize("name", ON_MACHINES)
def test_machines_find_the_same_sums(name, tmp_path):
    found = run(name, tmp_path, driver="loopback")
    assert [digest(total) for total in found.released.sums] == FROZEN[name]["sums"]
