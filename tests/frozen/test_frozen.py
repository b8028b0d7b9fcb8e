"""No number of sixty questions changes, in sums, in answers, on any driver."""

import json

import numpy as np
import pytest

from frozen.scenes import (
    NAMES,
    NUMBERS,
    PARTIES,
    SCENES,
    digest,
    numbers,
    run,
    scenario,
)
from reworded import sentences_of_terms
from veilsum.consortium.pem import pem_of_der
from veilsum.files.consortiums import draft_consortium

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


@pytest.mark.parametrize("name", SCENES)
def test_the_terms_of_a_scene_hold_no_sentence(name, tmp_path):
    certificates = {party: pem_of_der(party.encode()) for party in PARTIES}
    path = scenario(name, tmp_path)
    agreed, _ = draft_consortium(path, certificates=certificates)
    assert not sentences_of_terms(agreed)
