"""What repeats a simulation must never reach a real party, nor a cluster a neighbour.

Simulations of very many parties draw shares from counters and a seed, on a device too:
whoever knows the seed knows all of them. And a cluster that is started for a simulation
runs whatever it is sent, as the one who started it.
"""

import ast
import os
from dataclasses import fields
from pathlib import Path

import pytest

import veilsum
from refusals import refused
from veilsum.masks.masking import CounterStreams, ShareStreams, SystemStreams
from veilsum.party import networked
from veilsum.party.networked import NetworkedParty
from veilsum.scale import cluster

PACKAGE = Path(veilsum.__file__).parent
# Streams that a seed repeats, and drivers that take one.
REPEATABLE = {
    *("CounterStreams", "ShareStreams", "SeededStream", "masks_in_pieces"),
    *(
        "device_masks",
        "device_shares",
        "ArrayDriver",
        "MethodArrays",
        "large",
        "large_on_ranks",
    ),
}


def named(source):
    """All names that a text of Python imports or looks up."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.alias(name=name):
                yield name.rpartition(".")[2]
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name


def test_real_parties_name_no_streams_that_repeat():
    found = {}
    for room in ("party", "net", "protocol", "surveys"):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            found[f"{room}/{path.name}"] = set(named(path.read_text("utf-8")))
    assert len(found) > 40
    assert {
        name: one & REPEATABLE for name, one in found.items() if one & REPEATABLE
    } == {}
    # The twin: a simulation does, and is found.
    text = (PACKAGE / "minimise" / "large_graphs.py").read_text("utf-8")
    assert {"CounterStreams", "masks_in_pieces"} <= set(named(text))


@pytest.mark.parametrize("streams", [CounterStreams(0), ShareStreams(0)])
def test_nobody_hands_streams_to_a_real_party(streams):
    with pytest.raises(TypeError, match="unexpected keyword argument 'streams'"):
        NetworkedParty(identity=None, consortium=None, state=None, streams=streams)
    assert "streams" not in {one.name for one in fields(NetworkedParty)}
    (given,) = (
        ast.unparse(node.value)
        for node in ast.walk(ast.parse(Path(networked.__file__).read_text("utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "streams"
    )
    assert given == "SystemStreams()"
    drawn = [
        SystemStreams().stream(epoch=0, sender=0, receiver=1).words(2) for _ in "ab"
    ]
    assert drawn[0].tolist() != drawn[1].tolist()
    again = [streams.stream(epoch=0, sender=0, receiver=1).words(2) for _ in "ab"]
    assert again[0].tolist() == again[1].tolist()


@pytest.fixture(name="shut_off")
def shut_off_fixture(monkeypatch, tmp_path):
    """What a driver does before it starts a cluster, with an environment of ours."""
    before = os.umask(0o022)
    monkeypatch.setattr(cluster, "SHORT", str(tmp_path))

    def shut_off(**given):
        for key in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
            # First set, so that whatever is set here is taken back in the end.
            monkeypatch.setenv(key, "")
            monkeypatch.delenv(key)
        for key, one in given.items():
            monkeypatch.setenv(key, one)
        folder = cluster._shut_off_ray_cluster()
        return folder, os.environ["RAY_AUTH_MODE"], os.environ.get("RAY_AUTH_TOKEN")

    yield shut_off
    os.umask(before)


def test_every_cluster_has_a_token_of_its_own(shut_off):
    """Whatever is said of others' clusters, and unless somebody names a token."""
    _, mode, one = shut_off(RAY_AUTH_MODE="disabled")
    _, _, other = shut_off()
    assert mode == "token"
    assert len(one) == len(other) == 64
    assert one != other
    assert shut_off(RAY_AUTH_TOKEN="ours")[2] == "ours"
    assert shut_off(RAY_AUTH_TOKEN_PATH="a file")[2] is None


@pytest.mark.skipif(os.name != "posix", reason="modes are of another kind")
def test_a_cluster_s_folder_is_closed_to_others(shut_off, tmp_path):
    folder = Path(shut_off()[0])
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "log").touch()
    assert (folder / "log").stat().st_mode & 0o777 == 0o600


def test_a_ray_without_tokens_starts_no_cluster(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda _: object())
    begun = []
    monkeypatch.setattr(
        cluster.RayWorkers,
        "_begun",
        lambda *what: (begun.append(what), (False, "x"))[1],
    )
    monkeypatch.setattr(cluster.RayWorkers, "shutdown", lambda *_, **__: None)
    for old in ("2.51.1", "2.40.0", "1.13.0"):
        monkeypatch.setattr(cluster, "version", lambda _, found=old: found)
        with refused("ray-without-token"):
            cluster.RayWorkers("2", 2)
    assert not begun
    monkeypatch.setattr(cluster, "version", lambda _: "2.52.0")
    with refused("cluster-unreachable"):
        cluster.RayWorkers("2", 2)
    assert len(begun) == cluster.STARTS
