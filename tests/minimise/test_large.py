"""One large graph, here of a few thousand parties, against the ordinary road."""

import json
import pickle

import numpy as np
import pytest
from click.testing import CliRunner

import refusals
import veilsum as vs
from cases import each
from veilsum import memory
from veilsum.cli.app import app
from veilsum.errors import (
    InvalidGraphError,
    InvalidInputError,
    MemoryShortError,
    MissingExtraError,
    NumericalError,
)
from veilsum.files.graphs import topology_from
from veilsum.graphs import spectrum
from veilsum.graphs.connectivity import algebraic_connectivity
from veilsum.graphs.topology import NumberedParties, Topology
from veilsum.masks.laws import Masks
from veilsum.masks.masking import CounterStreams, draw_mask_shares
from veilsum.minimise import large_graphs as job
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.engines import registry
from veilsum.minimise.engines.numba import FusedEngine
from veilsum.minimise.engines.numpy import PlainEngine
from veilsum.minimise.large_graphs import (
    LARGE_METHODS,
    bytes_wanted_by_large_graph,
    engine_task,
    large,
    read_large_graph_targets,
)

GRAPH = "cycles:1200:6"
slow = pytest.mark.slow
QUICK = {"progress": False, "certify": False}


@pytest.fixture(scope="module")
def targets():
    return np.random.default_rng(3).standard_normal((1200, 4))


@pytest.fixture(scope="module")
def theta(targets):
    """What is masked, with all shares at once."""
    graph = Topology.family(GRAPH)
    law = Masks("lattice", 1.0, None, 2.0 * float(np.abs(targets).max())).on(graph)
    shares = draw_mask_shares(graph, law, CounterStreams(5), size=4)
    return law.decode(law.encode(-2.0 * targets) + shares.masks())


@each("method", LARGE_METHODS)
def test_estimates_are_those_of_the_ordinary_road(method, targets, theta):
    """All shares at once, networkx's weights, each method by its own source."""
    found = large(GRAPH, targets, method=method, iterations=30, seed=5, **QUICK)
    graph, reach = Topology.family(GRAPH), float(np.abs(targets).max())
    cost = EffectiveCost(Affine(4), theta, SquaredNorm(1.0))
    task = engine_task(graph, cost, method=method, step=None, reach=reach)
    plain = PlainEngine(task)
    wanted = plain.points(plain.advance(plain.begin(), 30))
    np.testing.assert_allclose(found.estimates, wanted, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.answer, targets.mean(axis=0), atol=1e-9)
    assert found.sum_of_masks == (0, 0, 0, 0)
    assert found.engine == "numba"


@pytest.mark.parametrize("engine", ["numpy", pytest.param("jax", marks=slow)])
def test_other_engines_are_given_the_same_task(engine, targets):
    asked = {"iterations": 20, "method": "gradient-tracking", **QUICK}
    if engine == "jax":
        pytest.importorskip("jax")
    one, other = (
        large(GRAPH, targets, engine=name, **asked) for name in ("numba", engine)
    )
    assert other.engine == engine
    np.testing.assert_allclose(one.estimates, other.estimates, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["gradient-tracking", "extra"])
def test_the_exact_answer_is_found(method, targets):
    found = large(GRAPH, targets, method=method, iterations=400, **QUICK)
    assert found.max_error < 1e-8
    np.testing.assert_allclose(found.minimiser, targets.mean(axis=0), atol=1e-8)


def test_epsilon_lies_within_its_bounds():
    found = large("cycles:2000:6:seed=4", iterations=1, sigma=2.0, progress=False)
    mu2 = algebraic_connectivity(Topology.family("cycles:2000:6:seed=4"))
    least, most = found.epsilon
    assert least <= 1.0 / (4.0 * 2.0**2 * mu2) <= most < 1.3 * least
    assert found.mu2.lower <= mu2 <= found.mu2.upper * (1 + 1e-12)
    assert found.mu2.certificate == "probabilistic"
    assert found.failure_probability == 1e-9
    assert "but for a probability of 1e-09" in str(found).replace("\n", " ")


def test_a_coalition_is_left_out_of_the_graph():
    alone = large("cycles:100:4", iterations=1, corrupted=["3", "7"], progress=False)
    wanted = vs.guarantee(
        Topology.family("cycles:100:4"), sigma=1.0, corrupted=["3", "7"]
    )
    assert alone.guarantee.epsilon == pytest.approx(wanted.epsilon, rel=1e-9)
    ring = large("ring:12", iterations=1, corrupted=["3", "7"], progress=False)
    assert ring.guarantee.status == "partial"
    assert ring.epsilon is None
    assert "partial" in str(ring)


@pytest.mark.parametrize("method", LARGE_METHODS)
def test_a_resumed_run_is_the_uninterrupted_one(method, targets, tmp_path, monkeypatch):
    whole = large(GRAPH, targets, method=method, iterations=47, **QUICK)
    path = tmp_path / "state.npz"
    # Only Ctrl-C and the end write anything within an hour.
    again = {"method": method, "checkpoint": path, "every": 60.0, **QUICK}
    plain, steps = FusedEngine.advance, []

    def stopped(engine, state, count):
        if state.iteration == 30:
            raise KeyboardInterrupt
        steps.append(count)
        return plain(engine, state, count)

    with monkeypatch.context() as patch:
        patch.setattr(FusedEngine, "advance", stopped)
        with pytest.raises(KeyboardInterrupt, match="has 30 of 47 iterations"):
            large(GRAPH, targets, iterations=47, **again)
    assert [one.name for one in tmp_path.iterdir()] == ["state.npz"]
    found = large(GRAPH, targets, iterations=47, **again)
    assert found.resumed == 30
    assert found.iterations == 47
    np.testing.assert_array_equal(found.estimates, whole.estimates)
    # And from the end of a shorter run, between two of its usual stops.
    further = large(GRAPH, targets, iterations=60, **again)
    straight = large(GRAPH, targets, method=method, iterations=60, **QUICK)
    assert further.resumed == 47
    np.testing.assert_array_equal(further.estimates, straight.estimates)


def test_every_so_often_the_state_is_written(targets, tmp_path, monkeypatch):
    written = []

    def write(_path, _digest, state):
        written.append(state.iteration)

    monkeypatch.setattr(job, "write_checkpoint", write)
    asked = {"iterations": 25, "checkpoint": tmp_path / "state.npz", **QUICK}
    large(GRAPH, targets, every=1e-9, **asked)
    assert written == [10, 20, 25]
    written.clear()
    large(GRAPH, targets, every=60.0, **asked)
    assert written == [25]


@pytest.mark.parametrize(("kept", "said"), [(True, "has 10 of 40"), (False, "nothing")])
def test_the_command_says_what_ctrl_c_left(kept, said, tmp_path, monkeypatch):
    plain = FusedEngine.advance

    def stopped(engine, state, count):
        if state.iteration == 10:
            raise KeyboardInterrupt
        return plain(engine, state, count)

    path = tmp_path / "deep" / "state.npz"
    words = ["large", GRAPH, "--iterations", "40", "--no-certificate"]
    words += ["--checkpoint", str(path)] if kept else []
    with monkeypatch.context() as patch:
        patch.setattr(FusedEngine, "advance", stopped)
        ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 1
    assert f"stopped: {path} {said}" in ended.stderr or f": {said}" in ended.stderr
    assert path.exists() == kept
    again = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(again.stdout)["resumed"] == (10 if kept else 0)


def test_fewer_iterations_than_there_are_is_refused(targets, tmp_path):
    path = tmp_path / "state.npz"
    large(GRAPH, targets, iterations=12, checkpoint=path, **QUICK)
    with refusals.refused("already-further", mentions=("12", "11")):
        large(GRAPH, targets, iterations=11, checkpoint=path, **QUICK)
    assert large(GRAPH, targets, iterations=12, checkpoint=path, **QUICK).resumed == 12


def test_what_is_missing_is_said_before_anything_is_made(monkeypatch):
    def made(_spec):
        raise InvalidGraphError("made")

    monkeypatch.setattr(job, "topology_from", made)
    with pytest.raises(InvalidGraphError, match="made"):
        large(GRAPH, **QUICK)
    monkeypatch.setattr(registry, "find_spec", lambda _name: None)
    with refusals.refused("missing-extra", MissingExtraError, mentions=("[fast]",)):
        large(GRAPH, **QUICK)


@pytest.mark.parametrize("method", ["gradient-tracking", "extra"])
def test_numbers_that_ran_away_are_no_answer(method, targets):
    asked = {"method": method, "iterations": 300, **QUICK}
    assert large(GRAPH, targets, step=0.05, **asked).max_error < 1.0
    with refusals.refused("steps-too-long", NumericalError):
        large(GRAPH, targets, step=5.0, **asked)


def test_another_run_s_checkpoint_is_refused(targets, tmp_path):
    path = tmp_path / "state.npz"
    asked = {"iterations": 3, "checkpoint": path, **QUICK}
    large(GRAPH, targets, seed=1, **asked)
    before = path.read_bytes()
    others = [
        {"seed": 2},
        {"seed": 1, "sigma": 2.0},
        {"seed": 1, "method": "extra"},
        {"seed": 1, "step": 0.25},
    ]
    for other in others:
        with refusals.refused("checkpoint-of-other-run"):
            large(GRAPH, targets, **asked, **other)
    with refusals.refused("checkpoint-of-other-run"):
        large(GRAPH, targets + 1.0, seed=1, **asked)
    with refusals.refused("checkpoint-of-other-run"):
        large("cycles:1200:6:seed=9", targets, seed=1, **asked)
    assert path.read_bytes() == before


def test_what_is_no_checkpoint_is_refused_and_never_run(targets, tmp_path):
    class Planted:
        def __reduce__(self):
            return (tmp_path.joinpath("planted").touch, ())

    path = tmp_path / "state.npz"
    array = np.array([Planted()], dtype=object)
    for content in (b"", b"PK\x03\x04 nothing", pickle.dumps(Planted())):
        path.write_bytes(content)
        said = "no checkpoint that can be read"
        with pytest.raises(InvalidInputError, match=said) as refused:
            large(GRAPH, targets, iterations=1, checkpoint=path, **QUICK)
        assert "allow_pickle" not in str(refused.value)  # which nobody should try
    np.savez(path, ends=np.zeros((3, 2), int))
    with refusals.refused("not-a-checkpoint"):
        large(GRAPH, targets, iterations=1, checkpoint=path, **QUICK)
    np.savez(path, digest=array, x=array)
    with refusals.refused("not-a-checkpoint"):
        large(GRAPH, targets, iterations=1, checkpoint=path, **QUICK)
    assert not (tmp_path / "planted").exists()


def test_a_run_that_does_not_fit_is_refused_with_both_numbers(monkeypatch):
    graph = Topology.family("regular:200000:6")
    wanted = bytes_wanted_by_large_graph(
        200_000, 600_000, 4, method="dgd", certify=False
    )
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 100_000_000)
    said = (
        f"about {memory.memory_in_words(wanted - 4_800_000)} of memory, and 100 MB "
        "are free"
    )
    with pytest.raises(MemoryShortError, match=said):
        large(graph, **QUICK)


@pytest.mark.parametrize(
    ("parties", "degree", "taken"), [(100_000, 6, 0.442e9), (300_000, 6, 0.846e9)]
)
def test_cycles_that_a_proof_looks_at_are_in_the_estimate(parties, degree, taken):
    """Measured of runs with a certificate; without one they are not made."""
    asked = {"dim": 4, "method": "dgd"}
    found = bytes_wanted_by_large_graph(parties, parties * degree // 2, **asked)
    assert taken < found < 1.4 * taken
    assert (
        bytes_wanted_by_large_graph(
            parties, parties * degree // 2, certify=False, **asked
        )
        < taken
    )


def test_ten_million_are_estimated_below_eight_gigabytes():
    for method in LARGE_METHODS:
        assert bytes_wanted_by_large_graph(10**7, 3 * 10**7, 4, method=method) < 8e9


@each(
    ("asked", "said"),
    [
        ({"method": "nids"}, "no method of large runs"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"every": 0.0}, "more than 0"),
        ({"step": 0.0}, "step scale must be positive and finite, found 0"),
        ({"step": 0.0, "method": "gradient-tracking"}, "found 0"),
        ({"step": 0.0, "method": "extra"}, "found 0"),
        ({"targets": np.zeros((7, 2))}, "one row for each of 1,200 parties"),
        ({"targets": np.full(1200, np.nan)}, "finite"),
        ({"targets": np.full(1200, "a")}, "must be numbers"),
        ({"grid": 61}, "coarser grid"),
        ({"corrupted": ["1200"]}, "unknown party"),
        ({"engine": "abacus"}, "no engine"),
        ({"step": 0.0}, "positive"),
    ],
)
def test_what_cannot_be_is_refused(asked, said):
    with pytest.raises(InvalidInputError, match=said):
        large(GRAPH, **{"progress": False, "iterations": 1, **asked})


def test_links_of_a_file_stay_on_disk(tmp_path):
    made = Topology.family(GRAPH)
    path = tmp_path / "links.npy"
    np.save(path, made.edges.astype(np.int32))
    found = topology_from(str(path))
    assert isinstance(found.parties, NumberedParties)
    assert isinstance(found.edges.base, np.memmap)
    assert found == made
    np.savez(tmp_path / "links.npz", ends=made.edges[::-1, ::-1], parties=1300)
    more = topology_from(str(tmp_path / "links.npz"))
    assert more.n_parties == 1300
    np.testing.assert_array_equal(more.edges, made.edges)
    one, other = (large(graph, iterations=3, **QUICK) for graph in (GRAPH, str(path)))
    np.testing.assert_array_equal(one.estimates, other.estimates)


def test_a_file_without_links_is_refused(tmp_path):
    path = tmp_path / "links.npy"
    for content in (np.array([{}], dtype=object), np.zeros((3, 2)), np.zeros(4, int)):
        np.save(path, content, allow_pickle=True)
        with pytest.raises(InvalidGraphError):
            topology_from(str(path))
    np.savez(tmp_path / "links.npz", other=np.zeros((3, 2), int))
    with refusals.refused("no-links", InvalidGraphError):
        topology_from(str(tmp_path / "links.npz"))
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with refusals.refused("unreadable-arrays"):
        read_large_graph_targets(path)
    path.write_text("a,b\n1,2\n")
    with refusals.refused("unreadable-arrays") as refused:
        read_large_graph_targets(path)
    assert "allow_pickle" not in str(refused.value)
    with refusals.refused("cannot-read"):
        read_large_graph_targets(tmp_path / "nowhere.npy")


def test_whoever_waits_is_told_how_far_it_is(targets):
    told = []
    large(
        GRAPH,
        targets,
        iterations=25,
        certify=False,
        progress=lambda done, total: told.append((done, total)),
    )
    assert (3600, 3600) in told
    assert [one for one in told if one[1] == 25] == [(10, 25), (20, 25), (25, 25)]


def test_the_command_prints_what_the_function_finds(tmp_path, targets):
    np.save(tmp_path / "targets.npy", targets)
    words = ["large", GRAPH, "--targets", str(tmp_path / "targets.npy")]
    more = ["--iterations", "5", "--no-certificate", "--json"]
    done = CliRunner().invoke(app, [*words, *more])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    wanted = large(GRAPH, targets, iterations=5, **QUICK).to_dict()
    untimed = {"phases"}
    assert {k: v for k, v in found.items() if k not in untimed} == {
        k: v for k, v in wanted.items() if k not in untimed
    }
    assert [one["name"] for one in found["phases"]] == [
        "graph",
        "masks",
        "weights",
        "iterations",
        "estimates",
    ]


def test_whoever_waits_is_told_how_far_a_certificate_is():
    """It takes longest of all: an estimate and a proof, product by product."""
    told = []

    def opening(label, total):
        return lambda done: told.append((label, done, total))

    found = spectrum.certified_mu2(
        Topology.family("cycles:2000:6"), work=80 * 14_000, opening=opening
    )
    assert found.certificate == "probabilistic"
    guessed = [one for one in told if one[0] == "products for an estimate"]
    assert [done for _, done, _ in guessed] == [*range(1, guessed[0][2] + 1)]
    proved = told[len(guessed) :]
    assert {label for label, _, _ in proved} == {"products for a proof"}
    assert proved[-1][1] == proved[-1][2] <= 80
    told.clear()
    spectrum.certified_mu2(Topology.family("grid:40x40"), opening=opening)
    assert told == [("factors", 1, 2), ("factors", 2, 2)]


@pytest.mark.slow
def test_a_million_parties_take_what_was_estimated():
    found = job.large("geometric:1000000:6", iterations=20, **QUICK)
    assert found.sum_of_masks == (0, 0, 0, 0)
    assert "own order" in found.order
    assert found.phases[-1].peak_bytes < 1.2 * found.wanted_bytes + 300e6
