"""Work on several hosts: a Ray cluster and ranks of MPI, with a network in between.

Hosts are made of namespaces (see `hosts.py`): what runs on them has an address, a name,
processes and shared memory of its own, and nothing but the network leads from one to
another. It takes root. What is expected is what one process alone finds.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

import veilsum
from hosts import switched, why_not
from veilsum.audit.unfinished import NAME
from veilsum.scale.cluster import CLIENTS, ON_LOOPBACK, SETTINGS, STARTS

EXAMPLES = Path(__file__).parents[1] / "examples"
SOURCE = Path(veilsum.__file__).parent
VEILSUM = (sys.executable, "-m", "veilsum")
RAY = (sys.executable, "-m", "ray.scripts.scripts")
MPIEXEC = Path(sys.executable).with_name("mpiexec")
PORT = 6379
# A minute's work of one processor.
SWEEP = (
    *("sweep", EXAMPLES / "rendezvous.toml", "--graph", "ring:12", "--sigma", 1),
    *("--method", "dgd", "--seeds", 300, "--iterations", 3000, "--bounds-from-costs"),
)
AUDIT = (
    *("audit", EXAMPLES / "average.toml", "--depth", "quick"),
    *("--executions", 40_000, "--seed", 5),
)
LONG = 600

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("unchecked_shapes"),
]
on_ray = pytest.mark.skipif(
    find_spec("ray") is None or find_spec("grpc") is None,
    reason="there is no Ray with its client here",
)
on_ranks = pytest.mark.skipif(
    not MPIEXEC.exists(), reason="no mpiexec beside this Python"
)


@pytest.fixture(autouse=True, scope="module")
def _hosts_can_be_made():
    if why := why_not():
        pytest.skip(why)


@pytest.fixture(scope="module")
def settings():
    """The environment of all that runs: one thread each, and this very package."""
    paths = [str(SOURCE.parent), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        yield patch


class Job:
    """A command that runs on a host while something happens to it."""

    def __init__(self, words):
        self._run = subprocess.Popen(
            list(map(str, words)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, what):
        """Return what comes of `what` as soon as something does."""
        until = monotonic() + LONG
        while not (found := what()):
            assert self._run.poll() is None, self._run.communicate()
            assert monotonic() < until
            sleep(0.2)
        return found

    def ended(self):
        """Return how it ended, what it printed and what it said."""
        printed, said = self._run.communicate(timeout=LONG)
        return self._run.returncode, printed, said

    def sentence(self):
        """Return the one line with which it ended in vain."""
        code, _, said = self.ended()
        assert code in {1, 2}, said
        assert "Traceback" not in said
        found = [one for one in said.splitlines() if one.startswith("Error: ")]
        assert len(found) == 1, said
        return found[0]


def asked(host, *words):
    return Job(host.words(*VEILSUM, *words))


def alone(*words):
    code, _, said = Job([*VEILSUM, *words]).ended()
    assert code == 0, said


def lines(path, least):
    return path.exists() and path.read_bytes().count(b"\n") >= least


def kill(host, name):
    """End one process of a host that has this in its command, without a word."""
    found = [pid for pid, line in host.processes().items() if name in line]
    if found:
        os.kill(found[-1], 9)
    return found


# A cluster


class Cluster:
    """A head and a far host with one worker each, and a computer that has none."""

    def __init__(self, switch, head, far, client, other):
        self.switch, self.head, self.far = switch, head, far
        self.client, self.other = client, other
        self.part = f"ray:{head.address}:{PORT}"
        self.at = f"ray://{head.address}:{CLIENTS}"
        first = ["--head", f"--port={PORT}", f"--ray-client-server-port={CLIENTS}"]
        self.start(head, *first, "--no-monitor", "--include-dashboard=false")
        self.start(far, f"--address={head.address}:{PORT}")

    @staticmethod
    def start(host, *words):
        """Have Ray on a host; it gives up a start that takes it long."""
        less = ["--num-cpus=1", "--object-store-memory=100000000"]
        less += ["--include-log-monitor=false", f"--node-ip-address={host.address}"]
        for _ in range(STARTS):
            code, printed, said = Job(host.words(*RAY, "start", *words, *less)).ended()
            if code == 0:
                return
            Job(host.words(*RAY, "stop", "--force")).ended()
        raise AssertionError(printed + said)


@pytest.fixture(scope="module")
def cluster(settings):
    """One that asks for a token."""
    settings.setenv("RAY_AUTH_MODE", "token")
    settings.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    for name in SETTINGS.keys() - ON_LOOPBACK.keys():
        settings.setenv(name, SETTINGS[name])
    with switched(4) as hosts:
        yield Cluster(*hosts)


@pytest.fixture(scope="module")
def swept(tmp_path_factory, settings):
    path = tmp_path_factory.mktemp("sweep") / "alone.csv"
    alone(*SWEEP, "--out", path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def audited(tmp_path_factory, settings):
    folder = tmp_path_factory.mktemp("audit")
    alone(*AUDIT, "--out", folder)
    return (folder / "audit.json").read_bytes()


@on_ray
def test_a_client_and_a_member_find_the_same_bytes(cluster, swept, audited, tmp_path):
    """With pieces on both hosts, and a far worker killed in the middle."""
    for host, where in ((cluster.client, cluster.at), (cluster.far, cluster.part)):
        path = tmp_path / f"{host.address}.csv"
        job = asked(host, *SWEEP, "--out", path, "--on", where)
        for one in (cluster.head, cluster.far):
            job.wait_for(
                lambda one=one: "ray::_carry_out_on_ray_worker" in str(one.processes())
            )
        job.wait_for(lambda path=path: lines(path, 20))
        job.wait_for(lambda: kill(cluster.far, "ray::_carry_out_on_ray_worker"))
        code, _, said = job.ended()
        assert code == 0, said
        assert path.read_bytes() == swept
        folder = tmp_path / f"{host.address} audit"
        code, _, said = asked(host, *AUDIT, "--out", folder, "--on", where).ended()
        assert code == 0, said
        assert (folder / "audit.json").read_bytes() == audited
    other = tmp_path / "processes.csv"
    alone(*SWEEP, "--out", other, "--on", "processes:2")
    assert other.read_bytes() == swept


@on_ray
def test_who_may_not_join_is_told_why(cluster, monkeypatch, tmp_path):
    words = (*SWEEP, "--out", tmp_path / "none.csv", "--on")
    said = asked(cluster.client, *words, cluster.part).sentence()
    assert f"--on {cluster.at}" in said
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    for host, where in ((cluster.client, cluster.at), (cluster.far, cluster.part)):
        assert "token" in asked(host, *words, where).sentence()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert "token" in asked(cluster.client, *words, cluster.at).sentence()
    # No more than the names of its columns.
    assert (tmp_path / "none.csv").read_bytes().count(b"\n") == 1


@on_ray
def test_another_version_on_one_host_is_said(cluster, monkeypatch, tmp_path):
    """On a host that joins for this test only."""
    shutil.copytree(SOURCE, tmp_path / "veilsum")
    first = tmp_path / "veilsum" / "__init__.py"
    ours = f'__version__ = "{veilsum.__version__}"'
    assert ours in first.read_text()
    first.write_text(first.read_text().replace(ours, '__version__ = "0.0.7"'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        cluster.start(cluster.other, f"--address={cluster.head.address}:{PORT}")
    path = tmp_path / "never.csv"
    job = asked(cluster.client, *SWEEP, "--out", path, "--on", cluster.at)
    said = job.sentence()
    assert f"has veilsum 0.0.7, and here is {veilsum.__version__}" in said
    Job(cluster.other.words(*RAY, "stop", "--force")).ended()


@on_ray
def test_a_host_that_is_gone_changes_nothing(cluster, swept, tmp_path):
    """Its cable is pulled: nobody is told, and Ray has to find out."""
    path = tmp_path / "without.csv"
    job = asked(cluster.client, *SWEEP, "--out", path, "--on", cluster.at)
    job.wait_for(
        lambda: "ray::_carry_out_on_ray_worker" in str(cluster.far.processes())
    )
    job.wait_for(lambda: lines(path, 20))
    cluster.switch.unplug(cluster.far)
    code, _, said = job.ended()
    assert code == 0, said
    assert path.read_bytes() == swept


@on_ray
def test_work_goes_on_after_a_client_was_cut_off(cluster, swept, tmp_path):
    path = tmp_path / "cut.csv"
    words = (*SWEEP, "--out", path, "--on", cluster.at)
    job = asked(cluster.client, *words)
    job.wait_for(lambda: lines(path, 20))
    cluster.switch.unplug(cluster.client)
    said = job.sentence()
    cluster.switch.plug(cluster.client)
    assert f"the Ray cluster at {cluster.at} is gone" in said
    assert f"lines are in {path}: the same call goes on from there" in said
    assert swept.startswith(path.read_bytes())
    # A break of some seconds is no more than that.
    kept = path.read_bytes().count(b"\n")
    job = asked(cluster.client, *words)
    job.wait_for(lambda: lines(path, kept + 20))
    cluster.switch.unplug(cluster.client)
    sleep(8)
    cluster.switch.plug(cluster.client)
    code, _, said = job.ended()
    assert code == 0, said
    assert path.read_bytes() == swept


@on_ray
def test_work_goes_on_after_the_head_is_gone(cluster, audited, tmp_path):
    """The last test of this cluster."""
    words = (*AUDIT, "--out", tmp_path)
    job = asked(cluster.client, *words, "--on", cluster.at)
    job.wait_for(lambda: (tmp_path / NAME).exists())
    cluster.head.end()
    said = job.sentence()
    assert f"the Ray cluster at {cluster.at} is gone" in said
    assert f"executions are in {tmp_path / NAME}" in said
    alone(*words, "--on", "processes:2")
    assert (tmp_path / "audit.json").read_bytes() == audited


# Ranks


def scenario(folder):
    """A grid of parties, to be solved."""
    path = folder / "grid.toml"
    path.write_text(
        f"""
title = "A grid"
[graph]
family = "grid:20x6"
[cost]
kind = "squared-distance"
targets = {[[(37 * k % 120) / 120] for k in range(120)]}
[domain]
kind = "box"
lower = [0.0]
upper = [1.0]
[masks]
law = "gaussian"
sigma = 1.0
[method]
name = "dgd"
[stopping]
iterations = 300
[simulation]
seed = 4
"""
    )
    return path


class Pair:
    """Two hosts, one rank on each; commands are given on the near one.

    MPI's launcher has to come to the far one: by a command that takes the words of ssh,
    and leaves the environment behind as ssh does. To find the far one, what runs on the
    near one has its network only.
    """

    def __init__(self, folder, patch, switch, near, far):
        self.switch, self.near, self.far = switch, near, far
        self.reached = folder / "reached"
        command = folder / "reach"
        there = far.words("env", "-i", "PATH=/usr/bin:/bin", "sh", "-c", '"$*"')
        command.write_text(
            "#!/bin/sh\n"
            'while case "$1" in -*) true;; *) false;; esac; do shift; done\n'
            f'[ "$1" = {far.address} ] || exit 9\n'
            f'echo "$1" >> "{self.reached}"\n'
            "shift\n"
            f"exec {' '.join(there)}\n"
        )
        command.chmod(0o755)
        names = folder / "hosts"
        names.write_text(f"{near.address}:1\n{far.address}:1\n")
        patch.setenv("HYDRA_LAUNCHER", "ssh")
        patch.setenv("HYDRA_LAUNCHER_EXEC", str(command))
        patch.setenv("HYDRA_HOST_FILE", str(names))

    def asked(self, *words):
        words = self.near.words(*VEILSUM, *words, spaces=("--net",))
        return Job([*words, "--on", "mpi:2"])

    def ranks(self):
        """Return who is a rank on each host, once both use MPI."""
        both = []
        for host in (self.near, self.far):
            for pid, line in host.processes().items():
                try:
                    mapped = Path(f"/proc/{pid}/maps").read_text()
                except OSError:
                    continue
                if "-m veilsum" in line and "libmpi" in mapped:
                    both.append(pid)
        return both if len(both) == 2 else []


@pytest.fixture(name="pair")
def pair_fixture(tmp_path, monkeypatch):
    paths = [str(SOURCE.parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    with switched(2) as hosts:
        yield Pair(tmp_path, monkeypatch, *hosts)


LARGE = ("large", "geometric:20000:6", "--seed", 3, "--json", "--iterations")


def check_ended(*ranks):
    """They have, or do so presently: by themselves, for nobody waits for them."""
    until = monotonic() + 60
    while left := [one for one in ranks if Path(f"/proc/{one}").exists()]:
        assert monotonic() < until, left
        sleep(0.2)


@on_ranks
def test_two_hosts_find_what_one_process_finds(pair, tmp_path):
    code, ours, said = pair.asked(*LARGE, 50).ended()
    assert code == 0, said
    assert pair.reached.read_text() == f"{pair.far.address}\n"
    _, theirs, _ = Job([*VEILSUM, *LARGE, 50, "--on", "mpi"]).ended()
    ours, theirs = json.loads(ours), json.loads(theirs)
    assert (ours.pop("ranks"), theirs.pop("ranks")) == (2, 1)
    assert 0 < ours.pop("halo") < 0.1
    assert theirs.pop("halo") == 0
    # To the last bit, and not because nothing was drawn.
    assert ours == theirs
    assert ours["minimiser"] != ours["answer"]
    path = scenario(tmp_path)
    code, ours, said = pair.asked("solve", path, "--json").ended()
    assert code == 0, said
    _, theirs, _ = Job([*VEILSUM, "solve", path, "--json"]).ended()
    ours, theirs = json.loads(ours), json.loads(theirs)
    assert ours["engine"] == "mpi"
    assert ours["minimiser"] == pytest.approx(theirs["minimiser"], rel=1e-12)


@on_ranks
def test_a_rank_killed_on_the_far_host_ends_all_with_a_sentence(pair):
    job = pair.asked(*LARGE, 10**8)
    near, far = job.wait_for(pair.ranks)
    os.kill(far, 9)
    assert "one of 2 ranks ended before the others" in job.sentence()
    check_ended(near)


@on_ranks
def test_a_far_host_without_power_ends_all_with_a_sentence(pair):
    job = pair.asked(*LARGE, 10**8)
    near, _ = job.wait_for(pair.ranks)
    pair.far.end()
    assert "one of 2 ranks ended before the others" in job.sentence()
    check_ended(near)


@on_ranks
def test_a_cut_between_hosts_is_noticed_on_both_sides(pair, tmp_path, monkeypatch):
    """MPI does not notice it: ranks that hear nothing give up. Then the run goes on."""
    patience = tmp_path / "less patience"
    patience.mkdir()
    lines = "from veilsum.minimise.engines import mpi\nmpi.SILENCE = 15.0\n"
    (patience / "sitecustomize.py").write_text(lines)
    paths = [str(patience), os.environ["PYTHONPATH"]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    kept = ("--checkpoint", tmp_path / "kept.npz")
    job = pair.asked(*LARGE, 10**8, *kept, "--every", 1e-9)
    near, far = job.wait_for(pair.ranks)
    job.wait_for(lambda: len([*tmp_path.glob("kept.*.npz")]) >= 2)
    pair.switch.unplug(pair.far)
    # Where the far rank is first, the launcher hears of its end: not over the network,
    # which ssh would need.
    said = job.sentence()
    mine = "for 15 seconds nothing has come from a rank" in said
    assert mine or "one of 2 ranks ended before the others" in said
    check_ended(near, far)
    pair.switch.plug(pair.far)
    last = 0
    for one in tmp_path.glob("kept.*.npz"):
        with np.load(one) as held:
            last = max(last, int(held["iteration"]))
    code, found, said = pair.asked(*LARGE, last + 20, *kept).ended()
    assert code == 0, said
    assert 0 < json.loads(found)["resumed"] <= last
