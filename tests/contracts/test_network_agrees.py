"""Scenarios of costs give the same answer in memory and between real parties.

Questions to tables are in `test_every_question.py`.
"""

import numpy as np
import pytest

from net.runs import BOX, ITERATED, ONE_SHOT, Company, answers, changed
from veilsum.files.scenarios import read_scenario
from veilsum.minimise.solve import run_scenario

NEAR = 1e-9
MATRICES = [[[2.0 + k, 0.5], [0.5, 1.0 + k]] for k in range(4)]
VECTORS = [[1.0, -2.0], [0.5, 4.0], [-3.0, 1.0], [2.5, -0.75]]
QUADRATIC = {"kind": "quadratic", "matrices": MATRICES, "vectors": VECTORS}
CURVED = {"smooth": 6.0, "mean_smooth": 4.0, "mean_convex": 2.0}
SCENARIOS = {
    "one-shot": ONE_SHOT,
    "gradient-tracking": ITERATED,
    "nids": changed(ITERATED, method={"name": "nids"}),
    "uniform masks": changed(
        changed(ONE_SHOT, masks=None), masks={"law": "uniform", "grid": 24}
    ),
    "quadratic, one-shot": {**ONE_SHOT, "cost": QUADRATIC},
    "quadratic, iterated": {
        **ITERATED,
        "cost": QUADRATIC,
        "domain": BOX,
        "method": {"name": "gradient-tracking", **CURVED},
    },
}


@pytest.mark.parametrize("table", SCENARIOS.values(), ids=SCENARIOS)
def test_solve_loopback_and_network_find_the_same(table, tmp_path):
    company = Company(tmp_path, table)
    scenario = read_scenario(company.scenario)
    simulated = [
        run_scenario(scenario, driver=driver).minimiser
        for driver in ("vectorised", "loopback")
    ]
    found = company.run()
    assert company.verdict(found).good
    for answer in answers(found).values():
        for other in simulated:
            np.testing.assert_allclose(answer, other, rtol=0, atol=NEAR)


def test_another_scenario_gives_another_answer(tmp_path):
    """The twin: the comparison can fail."""
    moved = [[x + 1e-6, y] for x, y in VECTORS]
    company = Company(tmp_path, SCENARIOS["quadratic, one-shot"])
    other = Company(
        tmp_path / "other", {**ONE_SHOT, "cost": {**QUADRATIC, "vectors": moved}}
    )
    here = run_scenario(read_scenario(company.scenario)).minimiser
    assert np.abs(answers(other.run())["a"] - here).max() > NEAR
