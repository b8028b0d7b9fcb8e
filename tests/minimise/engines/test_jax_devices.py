"""The jax engine on several devices: four of the host's, in a process of their own."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from engine_tasks import arrived, make_task
from later import optional
from veilsum.minimise.engines import jax as module
from veilsum.minimise.engines.jax import DeviceRows, JaxEngine

optional("jax")
pytestmark = pytest.mark.usefixtures("unchecked_shapes")

# Parties that four devices share evenly, and some that they do not.
EVEN, ODD = "regular:120:6:seed=3", "regular:121:4:seed=3"
QUICK = [("dgd", EVEN), ("tracking", ODD), ("extra", EVEN)]
MORE = [
    (method, family)
    for method in ("dgd", "tracking", "extra", "tracking, two rounds", "push-pull")
    for family in (EVEN, ODD)
    if (method, family) not in QUICK
]
DEVICES = (1, 2, 4)


def everywhere(cases):
    """Return, by task and number of devices, where all arrive and who has which."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    host, found = jax.devices(), {}
    for method, family in cases:
        for many in DEVICES:
            module.jax_devices = lambda many=many: host[:many]
            engine = JaxEngine(make_task(method, family))
            after = engine.advance(engine.advance(engine.begin(), 3), 4)
            held = [after.x, engine._tables["costs"]["slopes"]]
            found[f"{method}, {family}, {many}"] = {
                "points": engine.points(after).tolist(),
                "rows": [one.addressable_shards[0].data.shape[0] for one in held],
                "devices": [len(one.sharding.device_set) for one in held],
            }
    return found


def on_four(cases):
    flags = "--xla_force_host_platform_device_count=4"
    # A process of its own: JAX counts its devices once.
    told = subprocess.run(
        [sys.executable, __file__, json.dumps(cases)],
        env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        timeout=300,
        check=False,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout.splitlines()[-1])


def assert_the_same(cases):
    found = on_four(cases)
    for method, family in cases:
        alone = found[f"{method}, {family}, 1"]
        task = make_task(method, family)
        parties = len(task.start)
        assert alone["rows"] == [parties, parties]
        engine = JaxEngine(task)
        here = engine.points(engine.advance(engine.begin(), 7))
        np.testing.assert_allclose(alone["points"], here, rtol=0, atol=1e-12)
        for many in DEVICES[1:]:
            several = found[f"{method}, {family}, {many}"]
            points = several["points"]
            np.testing.assert_allclose(points, alone["points"], rtol=0, atol=1e-12)
            assert several["devices"] == [many, many]
            each = -(-parties // many)
            # Rows that cannot be shared evenly are handed back whole.
            assert several["rows"] == [each if family == EVEN else parties, each]


def test_several_devices_arrive_where_one_does():
    assert_the_same(QUICK)


@pytest.mark.slow
def test_so_do_all_kinds_of_methods():
    assert_the_same(MORE)


def test_rows_that_are_missing_are_zeros_and_are_cut_again():
    dealt = DeviceRows(5, ("one", "other"))
    rows = np.arange(10.0).reshape(5, 2)
    filled = dealt.filled(rows)
    assert filled.tolist() == [*rows.tolist(), [0.0, 0.0]]
    assert dealt.filled(np.float64(3.0)) == 3.0
    assert replace(dealt, n=6).filled(filled) is filled
    assert DeviceRows(5, ("one",)).filled(rows) is rows


@pytest.mark.parametrize("family", ["ring:5", "star:150"])
def test_what_is_not_dealt_out_stays_on_one_device(family, monkeypatch):
    expected = arrived(JaxEngine(make_task("dgd", family)), 3)
    host = module.jax_devices()
    monkeypatch.setattr(module, "jax_devices", lambda: host * 2)
    engine = JaxEngine(make_task("dgd", family))
    assert len(engine._dealt.devices) == 1
    for one, other in zip(arrived(engine, 3), expected, strict=True):
        np.testing.assert_array_equal(one, other)


if __name__ == "__main__":
    print(json.dumps(everywhere(json.loads(sys.argv[1]))))
