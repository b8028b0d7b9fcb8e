"""benchmarks/peers.py: other packages are asked fairly, and left out with a reason."""

import importlib.util
import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import peers
from peers import LeftOut, Peer, PeerError, ask, measure, read_peers, write_workload
from veilsum.errors import InvalidInputError
from workloads import LeastSquares, step_sizes

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

# A package in a few lines: what a script has to do, and no more.
SCRIPT = """
import json, sys
import numpy as np
work = np.load(sys.argv[1])
designs, responses, weights = (work[k] for k in ("designs", "responses", "weights"))
x = np.zeros((len(designs), designs.shape[2]))
for k in range(int(work["iterations"])):
    rest = np.einsum("nrm,nm->nr", designs, x) - responses
    step = work["scale"] / (k + 1) ** work["power"]
    x = weights @ x - step * np.einsum("nrm,nr->nm", designs, rest) {more}
np.savez(sys.argv[2], points=x)
print(json.dumps(
    dict(form="own", wall_s=3e3, processor_s=4e3, version="7", method=sys.argv[3])
))
"""


def make_peer(folder, name, script=None, **described):
    (folder / name).mkdir(parents=True)
    path = folder / name / "script.py"
    path.write_text(SCRIPT.format(more="") if script is None else script)
    words = {"command": [sys.executable, str(path)], "faster": 15}
    given = {**words, "agents": 8, "iterations": 40, **described}
    (folder / name / "peer.json").write_text(json.dumps(given))


@pytest.fixture
def small(monkeypatch):
    """Sizes that mean nothing, and one method."""
    monkeypatch.setattr(peers, "AGENTS", 9)
    monkeypatch.setattr(peers, "ITERATIONS", 40)
    monkeypatch.setattr(peers, "FORMS", {"dgd": "own"})


def keys_described(keys):
    page = (ROOT / "docs" / "develop" / "peers.md").read_text("utf-8")
    section = page.partition("\n## JSON\n")[2]
    return [key for key in keys if f"`{key}`" not in section]


@pytest.mark.usefixtures("small")
def test_a_package_is_measured_beside_us(tmp_path):
    make_peer(tmp_path, "slow")
    found = asdict(measure(tmp_path, quick=True))
    rows = {row["name"]: row for row in found["rows"]}
    assert list(rows) == ["veilsum engine", "veilsum.solve", "numpy loop", "slow"]
    slow, ours = rows["slow"], rows["veilsum engine"]
    # 3,000 s for 8 agents and a tenth of 40 iterations.
    assert slow["wall"] == pytest.approx(3e9 / 32)
    assert slow["processor"] == pytest.approx(4e9 / 32)
    assert slow["slower"] == pytest.approx(
        slow["wall"] / rows["veilsum engine"]["wall"]
    )
    assert (slow["met"], slow["wanted"], slow["version"]) == (True, 15, "7")
    assert slow["difference"] < 1e-13
    assert ours["difference"] < 1e-12
    assert ours["met"] is None
    assert rows["veilsum.solve"]["difference"] is None
    assert not found["left_out"]
    assert not keys_described({*found, *slow})


@pytest.mark.usefixtures("small")
def test_who_fails_or_is_wrong_is_left_out_with_the_reason(tmp_path):
    make_peer(tmp_path, "broken", "raise RuntimeError('no such luck')")
    make_peer(tmp_path, "silent", "")
    make_peer(tmp_path, "wrong", SCRIPT.format(more="+ 1e-6"))
    make_peer(tmp_path, "absent", left_out="it needs Python 9")
    found = asdict(measure(tmp_path, quick=True))
    assert len(found["rows"]) == 3
    reasons = {one["name"]: one["reason"] for one in found["left_out"]}
    assert reasons["absent"] == "it needs Python 9"
    assert reasons["broken"] == "dgd: RuntimeError: no such luck"
    assert reasons["silent"].startswith("dgd: ")
    assert "away from the plain loop" in reasons["wrong"]
    assert not keys_described(found["left_out"][0])


@pytest.mark.usefixtures("small")
def test_people_are_told_who_was_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(peers, "PACKAGES", {})
    make_peer(tmp_path, "absent", left_out="it needs Python 9")
    peers.main([str(tmp_path), "--quick"])
    found = capsys.readouterr().out
    assert "Left out: absent, it needs Python 9" in found
    assert "| dgd | veilsum engine " in found


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"command": 1, "agents": 2}'])
def test_a_damaged_description_is_refused(tmp_path, text):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "peer.json").write_text(text)
    with pytest.raises(InvalidInputError, match="does not describe a package"):
        read_peers(tmp_path)


def test_shorter_runs_have_at_least_one_iteration(tmp_path):
    make_peer(tmp_path, "one", iterations=5)
    (found,) = read_peers(tmp_path, shorter=10)
    assert isinstance(found, Peer)
    assert found.iterations == 1


def test_an_unknown_form_is_no_answer(tmp_path):
    make_peer(tmp_path, "odd", SCRIPT.format(more="").replace('"own"', '"sideways"'))
    (peer,) = read_peers(tmp_path)
    with pytest.raises(PeerError, match="sideways"):
        ask(peer, "dgd", tmp_path)


# --- installing, and what the packages' scripts share -----------------------------


def test_scripts_read_what_is_written_for_them(tmp_path):
    # Not by name: `peers` is the module beside the scripts' folder.
    path = ROOT / "benchmarks" / "peers" / "common.py"
    spec = importlib.util.spec_from_file_location("peers_common", path)
    common = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(common)
    write_workload(tmp_path / "work.npz", agents=10, iterations=3)
    found = common.Workload(str(tmp_path / "work.npz"))
    given = LeastSquares.of(agents=10, dim=50)
    np.testing.assert_allclose(found.grams, given.grams, atol=1e-12)
    np.testing.assert_allclose(found.linear, given.linear, atol=1e-12)
    np.testing.assert_array_equal(found.adjacency, given.topology.adjacency.toarray())
    steps = [found.step_at(k) for k in range(found.iterations)]
    np.testing.assert_allclose(steps, step_sizes("own", 3), rtol=1e-15)
    assert found.step == step_sizes("atc", 1)[0]


def test_what_cannot_be_installed_is_described(tmp_path, monkeypatch):
    package = peers.Package((), "none.py", faster=2, python=(9, 0))
    monkeypatch.setattr(peers, "PACKAGES", {"later": package})
    peers.install("later", tmp_path, None)
    assert read_peers(tmp_path) == [
        LeftOut(
            "later",
            "it needs Python 9.0 or later, and none was found; name one by --python",
        )
    ]


def test_scripts_of_all_packages_are_there():
    assert list(peers.PACKAGES) == ["tvopt", "decent-bench", "disropt"]
    for package in peers.PACKAGES.values():
        assert (peers.SCRIPTS / package.script).is_file()
        assert package.processes in {0, package.agents}


def test_environments_are_kept_out_of_the_repository(capsys):
    with pytest.raises(SystemExit) as caught:
        peers.main([str(ROOT / "environments")])
    assert caught.value.code == 2
    assert "outside" in capsys.readouterr().err
