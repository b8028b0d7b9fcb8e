"""Sweeps and audits on a cluster of Ray's: the same bytes, whatever happens to it.

Real clusters, of processes of this computer on a loopback address: they take half a
minute to start. What is expected is what one process alone finds.
"""

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import BrokenExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from time import sleep

import numpy as np
import pytest

import veilsum as vs
from audit.questions import named
from test_scale import draw, draw_or_die, fail
from veilsum.audit import auditing
from veilsum.audit.attack import Scene
from veilsum.audit.unfinished import NAME, UnfinishedAudit
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.privacy.coalitions import CoalitionSearch
from veilsum.scale.pieces import map_pieces, seed_of_piece
from veilsum.scale.workers import workers_on

psutil = pytest.importorskip("psutil")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("unchecked_shapes"),
    # Not imported: that takes seconds, and is for the drivers of clusters.
    pytest.mark.skipif(find_spec("ray") is None, reason="there is no Ray here"),
]

COSTS = [vs.minimise.Cost.squared_distance([p, -p]) for p in (1.0, 2.0, 6.0, 3.0, 4.5)]
GRID = {
    "graphs": ["ring:5", "complete:5"],
    "domain": vs.minimise.Box(-9, 9, dim=2),
    "sigmas": [1.0, 4.0],
    "methods": ["dgd", "extra"],
    "seeds": 4,
    "settings": vs.minimise.Settings(iterations=300, step=None),
}
FIVE = Topology.family("complete:5")
SCENE = Scene(topology=FIVE, law=Masks("lattice", 1.0, 20).on(FIVE), width=3)


@pytest.fixture(scope="module")
def cluster():
    """Two workers; as who begins pieces, and by its address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", token_hex(32))
        # Workers find what stands beside this file, as `draw` does.
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        with workers_on("ray:2") as on:
            assert on.count == 2
            yield on


def processes(name, on):
    """Return the processes of a local cluster that have this name."""
    found = psutil.Process(on._driver.pid).children(recursive=True)
    return [one for one in found if name in one.name()]


def kill_a_worker(on):
    """End one that works, without a word."""
    busy = processes("ray::_carry", on)
    (busy or processes("ray::IDLE", on))[0].kill()


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "alone.csv"
    vs.minimise.sweep(COSTS, **GRID, out=path, progress=False)
    return path.read_bytes()


def audited(**options):
    how = {"executions": 3_000, "depth": "quick", "seed": 5, "progress": False}
    return auditing.audit(SCENE, [("0", "1"), ("4",)], **{**how, **options})


@pytest.fixture(name="small_batches")
def small_batches_fixture(monkeypatch):
    monkeypatch.setattr(auditing, "BATCH_NUMBERS", 6_000)
    monkeypatch.setattr(auditing, "PLANTED", {})


def test_pieces_are_done_again_and_errors_come_back(cluster, tmp_path):
    keys = [f"{k}/{'dies' if k == 3 else 'lives'}" for k in range(8)]
    alone = [draw(key, seed_of_piece(5, key)) for key in keys]
    work = partial(draw_or_die, place=tmp_path)
    assert list(map_pieces(work, keys, seed=5, on=cluster)) == alone
    assert (tmp_path / "3").exists(), "nobody died"
    with pytest.raises(ValueError, match="piece 7 of True"):
        list(map_pieces(fail, [7], seed=5, on=cluster))


def test_it_listens_on_this_computer_only(cluster):
    assert cluster.address.startswith("ray:127.0.0.1:")
    heard = {
        one.laddr.ip
        for each in psutil.Process(cluster._driver.pid).children(recursive=True)
        for one in each.net_connections()
        if one.status == psutil.CONN_LISTEN
    }
    assert heard <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


def test_its_files_and_its_token_are_nobody_else_s(cluster):
    below = psutil.Process(cluster._driver.pid).children(recursive=True)
    (raylet,) = (one for one in below if one.name() == "raylet")
    (sockets,) = re.findall(r"--raylet_socket_name=(\S+)", " ".join(raylet.cmdline()))
    # Ray opens its own folders to all; the one around them is closed.
    folder = Path(sockets).parents[3]
    assert folder.name.startswith("veilsum-")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert raylet.environ()["RAY_AUTH_MODE"] == "token"
    token = raylet.environ()["RAY_AUTH_TOKEN"]
    assert not any(token in word for one in below for word in one.cmdline())


@pytest.mark.parametrize("kill", [False, True])
def test_a_sweep_has_the_same_bytes(kill, cluster, swept, tmp_path):
    path = tmp_path / "ray.csv"
    killed = []

    def progress(done, _total):
        if kill and done == 5:
            kill_a_worker(cluster)
            killed.append(done)

    vs.minimise.sweep(COSTS, **GRID, out=path, on=cluster.address, progress=progress)
    assert path.read_bytes() == swept
    assert bool(killed) == kill
    other = tmp_path / "processes.csv"
    vs.minimise.sweep(COSTS, **GRID, out=other, on="processes:2", progress=False)
    assert other.read_bytes() == swept


@pytest.mark.usefixtures("small_batches")
def test_an_audit_has_the_same_bytes(cluster):
    alone = audited().to_dict()
    killed = []

    def progress(done, _total):
        if done >= 1_000 and not killed:
            kill_a_worker(cluster)
            killed.append(done)

    assert audited(on=cluster).to_dict() == alone
    assert audited(on=cluster, progress=progress).to_dict() == alone
    assert killed
    for where in ("processes:1", "processes:2"):
        with workers_on(where) as on:
            assert audited(on=on).to_dict() == alone


def test_further_attacks_have_the_same_bytes(cluster, monkeypatch):
    monkeypatch.setattr(auditing, "TRIALS", {"standard": 2})
    monkeypatch.setattr(auditing, "RUNS", {"standard": 1})
    asked = named("a cost")
    scene = auditing.scene_of_audit(asked)
    how = {"executions": 400, "seed": 3, "progress": False}
    alone = auditing.audit_question(asked, scene, [("ann",)], **how)
    shared = auditing.audit_question(asked, scene, [("ann",)], on=cluster, **how)
    assert shared.to_dict() == alone.to_dict()


def test_searches_and_executions_are_the_same(cluster, monkeypatch):
    graph = Topology.family("regular:24:5:seed=1")
    assert (
        CoalitionSearch(graph, 3, 1e6, None, cluster).run()
        == CoalitionSearch(graph, 3, 1e6).run()
    )
    asked = {"tolerate": 1, "degree": 4, "epsilon": 0.1, "progress": False}
    found = vs.plan(10, **asked, on=cluster.address)
    assert found.to_dict() == vs.plan(10, **asked).to_dict()
    monkeypatch.setattr("veilsum.minimise.executions.PARALLEL_NORMALS", 1_000)
    one, two = (
        vs.minimise.simulate(
            FIVE,
            np.arange(5.0),
            sigma=1.0,
            executions=500,
            stream=np.random.default_rng(3),
            on=where,
            progress=False,
        )
        for where in (None, cluster.address)
    )
    np.testing.assert_array_equal(one.effective, two.effective)


@pytest.mark.usefixtures("small_batches")
def test_a_cluster_that_is_gone_is_said_and_work_goes_on(cluster, tmp_path):
    """The last test of this cluster: its parts are killed in the middle of a sweep.

    One that takes seconds: of a shorter one all is done before the last part has ended.
    """
    alone, grid = audited().to_dict(), {**GRID, "seeds": 100}
    path, killed = tmp_path / "gone.csv", []
    vs.minimise.sweep(COSTS, **grid, out=path, progress=False)
    swept = path.read_bytes()
    path.unlink()

    def progress(done, _total):
        if done == 6:
            for name in ("raylet", "gcs_server"):
                for one in processes(name, cluster):
                    one.kill()
                    killed.append(name)

    with pytest.raises(vs.InvalidInputError) as refused:
        vs.minimise.sweep(
            COSTS, **grid, out=path, on=cluster.address, progress=progress
        )
    said = str(refused.value)
    assert killed
    assert f"the Ray cluster at {cluster.address.removeprefix('ray:')} is gone" in said
    assert f"lines are in {path}: the same call goes on from there" in said
    kept = path.read_bytes()
    assert swept.startswith(kept)
    assert 6 <= kept.count(b"\n") < swept.count(b"\n")
    vs.minimise.sweep(COSTS, **grid, out=path, on="processes:2", progress=False)
    assert path.read_bytes() == swept
    # An audit that is about to begin, on a cluster that has just gone.
    agreed = {"asked": 1}
    with pytest.raises(vs.InvalidInputError, match=r"is gone: .*executions are in"):
        audited(on=cluster, kept=UnfinishedAudit.begun(tmp_path, agreed))
    assert audited(kept=UnfinishedAudit.begun(tmp_path, agreed)).to_dict() == alone
    with pytest.raises(BrokenExecutor, match="is gone"):
        cluster.submit(draw, "a", 1).result()


@pytest.mark.usefixtures("small_batches")
def test_an_audit_goes_on_after_its_cluster_is_gone(tmp_path):
    alone, agreed = audited().to_dict(), {"asked": 1}
    with workers_on("ray:1") as on:

        def progress(done, _total):
            if done >= 1_000:
                on._driver.kill()

        kept = UnfinishedAudit.begun(tmp_path, agreed)
        with pytest.raises(vs.InvalidInputError, match="ray:1 is gone") as refused:
            audited(on=on, kept=kept, progress=progress)
    assert f"of 3,000 executions are in {tmp_path / NAME}" in str(refused.value)
    kept = UnfinishedAudit.begun(tmp_path, agreed)
    assert 1_000 <= kept.counted["play"].executions < 3_000
    with workers_on("processes:2") as on:
        assert audited(on=on, kept=kept).to_dict() == alone


@pytest.mark.parametrize("where", ["processes:2", "ray:2"])
def test_ctrl_c_leaves_nothing_running_and_a_file_to_go_on_from(where, tmp_path):
    path = tmp_path / "swept.csv"
    scenario = Path(__file__).parents[1] / "examples" / "rendezvous.toml"
    words = [
        "sweep",
        str(scenario),
        "--graph",
        "ring:12",
        "--sigma",
        "1",
        "--method",
        "dgd",
    ]
    words += ["--seeds", "400", "--iterations", "2000", "--out", str(path)]
    command = [sys.executable, "-m", "veilsum", *words, "--bounds-from-costs"]
    run = subprocess.Popen(
        [*command, "--on", where],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    while run.poll() is None and (not path.exists() or path.stat().st_size < 2_000):
        sleep(0.1)
    below = psutil.Process(run.pid).children(recursive=True)
    assert len(below) >= 2
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    _, said = run.communicate(timeout=100)
    assert run.returncode == 1
    assert b"the same command goes on with --out" in said
    assert b"Traceback" not in said
    psutil.wait_procs(below, timeout=30)
    assert not [one for one in below if one.is_running()]
    # What is there are whole lines, from which the same command goes on.
    lines = path.read_text().split("\n")
    assert 10 < len(lines) < 400
    assert lines[-1] == ""
    assert {line.count(",") for line in lines[:-1]} == {lines[0].count(",")}
