"""Files of very many parties: links, targets, checkpoints and tables that lie.

Whoever simulates reads links and targets that others made, and goes on from files that
lay about for a night. A head that promises more than there is, an archive of zeros that
unpacks to gigabytes, a pipe in a file's place: each once ran until memory or patience
was over, or came out as an error of a library.
"""

import io
import os
import re
import zipfile

import numpy as np
import pytest

import veilsum as vs
from cases import each
from refusals import refused
from veilsum import memory
from veilsum.consortium import sections
from veilsum.errors import InvalidGraphError, InvalidInputError, InvalidScenarioError
from veilsum.files.arrays import PackedArrays, packed_arrays
from veilsum.files.graphs import read_topology
from veilsum.files.scenarios import read_scenario
from veilsum.graphs import links
from veilsum.graphs.mixing import mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.masks.masking import CounterStreams, masks_in_pieces
from veilsum.minimise.checkpoints import read_checkpoint, write_checkpoint
from veilsum.minimise.large_graphs import large, read_large_graph_targets
from veilsum.minimise.methods.dgd import DgdState

GRAPH = "cycles:300:4"
QUICK = {"progress": False, "certify": False, "engine": "numpy", "iterations": 20}
PAIRS = np.array([[0, 1], [0, 2], [1, 2]])


def head(shape, kind="<i8", by_columns=False):
    made = io.BytesIO()
    said = {"descr": kind, "fortran_order": by_columns, "shape": shape}
    np.lib.format.write_array_header_1_0(made, said)
    return made.getvalue()


def array(path, shape, content=b"", kind="<i8", *, hole=0):
    with path.open("wb") as stream:
        stream.write(head(shape, kind) + content)
        stream.truncate(stream.tell() + hole)
    return path


def archive(path, how=zipfile.ZIP_DEFLATED, **members):
    with zipfile.ZipFile(path, "w", how) as packed:
        for name, content in members.items():
            if not isinstance(content, bytes):
                made = io.BytesIO()
                np.save(made, np.asarray(content))
                content = made.getvalue()
            packed.writestr(f"{name}.npy", content)
    return path


def changed(path, mark, place, change):
    """Set a field of every entry of an archive."""
    content = bytearray(path.read_bytes())
    for one in re.finditer(re.escape(mark), bytes(content)):
        content[one.start() + place] = change(content[one.start() + place])
    path.write_bytes(content)
    return path


def locked(path):
    made = changed(archive(path, ends=PAIRS), b"PK\x03\x04", 6, lambda one: one | 1)
    return changed(made, b"PK\x01\x02", 8, lambda one: one | 1)


def unknown_packing(path):
    made = changed(archive(path, ends=PAIRS), b"PK\x03\x04", 8, lambda _: 99)
    return changed(made, b"PK\x01\x02", 10, lambda _: 99)


def broken(path):
    archive(path, ends=np.arange(4000).reshape(-1, 2))
    content = bytearray(path.read_bytes())
    content[200:260] = bytes(one ^ 0x5A for one in content[200:260])
    path.write_bytes(content)
    return path


ARRAYS = {
    "a head that promises more": lambda one: array(one, (2**60, 2), bytes(80)),
    "more than is counted in words": lambda one: array(one, (2**62, 2), bytes(80)),
    "less than nothing": lambda one: array(one, (-5, 2), bytes(80)),
    "objects": lambda one: array(one, (2, 2), bytes(32), "|O"),
    "entries of no bytes": lambda one: array(one, (2**40, 2), kind="<U0"),
    "texts": lambda one: array(one, (2, 2), bytes(64), "<U4"),
    "fractions": lambda one: array(one, (2, 2), bytes(32), "<f8"),
    "an archive": lambda one: archive(one, ends=PAIRS),
    "a negative party": lambda one: array(one, (1, 2), np.array([0, -1]).tobytes()),
    "a link to oneself": lambda one: array(one, (1, 2), np.array([1, 1]).tobytes()),
}
ARCHIVES = {
    "an array": lambda one: array(one, (3, 2), PAIRS.tobytes()),
    "a head that promises more": lambda one: archive(one, ends=head((10**6, 2))),
    "a head that promises less": lambda one: archive(
        one, ends=head((2, 2)) + PAIRS.tobytes()
    ),
    "locked": locked,
    "unknown packing": unknown_packing,
    "broken": broken,
    "parties in a text": lambda one: archive(one, ends=PAIRS, parties="7"),
    "half a party": lambda one: archive(one, ends=PAIRS, parties=3.5),
    "parties without end": lambda one: archive(one, ends=PAIRS, parties=np.inf),
    "fewer parties than nobody": lambda one: archive(one, ends=PAIRS, parties=-3),
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
def test_an_array_that_lies_is_refused_in_a_sentence(make, tmp_path):
    with pytest.raises(InvalidGraphError):
        read_topology(make(tmp_path / "links.npy"))


@pytest.mark.parametrize("make", ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_that_lies_is_refused_in_a_sentence(make, tmp_path):
    with pytest.raises(InvalidGraphError):
        read_topology(make(tmp_path / "links.npz"))


def test_honest_files_of_any_order_are_read(tmp_path):
    """The twin: what is only unusual."""
    wanted = Topology.numbered(3, PAIRS)
    path = tmp_path / "links.npy"
    path.write_bytes(head((3, 2), "<i8", True) + PAIRS.tobytes("F"))
    assert read_topology(path) == wanted
    for kind in (">i4", "<u8", "|u1"):
        assert read_topology(
            array(path, (3, 2), PAIRS.astype(kind).tobytes(), kind)
        ) == (wanted)
    for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        made = archive(tmp_path / "links.npz", how, ends=PAIRS, parties=4)
        assert read_topology(made).n_parties == 4


def test_links_are_counted_before_one_is_looked_at(tmp_path, monkeypatch):
    # A hole of four terabytes, and zeros that unpack to sixteen gigabytes.
    monkeypatch.setattr(PackedArrays, "read", lambda *_: pytest.fail("it was unpacked"))
    monkeypatch.setattr(Topology, "numbered", lambda *_: pytest.fail("it was read"))
    many = links.MOST_LINKS + 1
    hole = array(tmp_path / "hole.npy", (many, 2), kind="<i4", hole=8 * many)
    zeros = archive(tmp_path / "zeros.npz", ends=head((2**30, 2)) + bytes(1000))
    for path in (hole, zeros):
        with refused("too-many-links", InvalidGraphError, mentions=("350,000,000",)):
            read_topology(path)
    # Fewer than these may still be more than there is room for.
    monkeypatch.setattr(memory, "available_memory", lambda: 10**9)
    packed = archive(tmp_path / "room.npz", ends=head((10**8, 2)) + bytes(1000))
    with refused("memory-short", vs.errors.MemoryShortError, mentions=("100,000,000",)):
        read_topology(packed)


def test_how_many_parties_there_are_is_one_number(tmp_path, monkeypatch):
    read, kept = PackedArrays.read, []
    monkeypatch.setattr(
        PackedArrays,
        "read",
        lambda self, *what: (kept.append(what), read(self, *what))[1],
    )
    bomb = archive(tmp_path / "p.npz", ends=PAIRS, parties=head((2**40,)) + bytes(99))
    with refused("malformed-party-count", InvalidGraphError):
        read_topology(bomb)
    assert [name for name, _ in kept] == ["ends"]


@pytest.mark.skipif(os.name != "posix", reason="there are no such pipes")
def test_nobody_waits_for_a_pipe(tmp_path):
    for name in ("pipe.npy", "pipe.npz"):
        os.mkfifo(tmp_path / name)
        with refused("not-a-file", InvalidGraphError):
            read_topology(tmp_path / name)
        with refused("not-a-file"):
            read_large_graph_targets(tmp_path / name)
        with refused("not-a-checkpoint"):
            large(GRAPH, checkpoint=tmp_path / name, **QUICK)


# Graphs that a scenario names

SCENARIO = """
[graph]
{graph}

[cost]
kind = "squared-distance"
targets = [[1.0], [2.0], [3.0]]

[domain]
kind = "box"
lower = -9
upper = 9

[masks]
law = "gaussian"
sigma = 1
"""


@pytest.mark.parametrize(
    "family",
    [
        *("ring:300000000", "path:100000000", "circulant:1000000:1,2,3"),
        *("regular:1000000:6", "cycles:100000:50", "cycles:100000000:6"),
        *("geometric:90000:60", "geometric:70000000:6", "grid:10000x10000"),
    ],
)
def test_a_scenario_names_no_graph_of_millions(family, tmp_path, monkeypatch):
    def fail(*_, **__):
        pytest.fail("it was made")

    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO.format(graph=f'family = "{family}"'))
    with monkeypatch.context() as patch:
        patch.setattr(links, "check_memory_room", fail)
        with refused("too-many-links", InvalidGraphError, mentions=("2,000,000",)):
            read_scenario(path)
    # The twin: whoever types it may have it, as far as there is room.
    monkeypatch.setattr(memory, "available_memory", lambda: 0)
    if not family.startswith(("cycles:100000:", "geometric:90000", "circ", "regular")):
        with pytest.raises(vs.errors.MemoryShortError):
            Topology.family(family)


def test_a_scenario_s_file_of_links_is_as_bounded(tmp_path, monkeypatch):
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO.format(graph='file = "links.npy"'))
    array(tmp_path / "links.npy", (2_000_001, 2), hole=16 * 2_000_001)
    with refused("too-many-links", InvalidGraphError, mentions=("2,000,000",)):
        read_scenario(path)
    # One link, and two thousand million parties.
    array(tmp_path / "links.npy", (1, 2), np.array([0, 2**31 - 2]).tobytes())
    with refused("too-many-parties", InvalidScenarioError, mentions=("2,147,483,647",)):
        read_scenario(path)
    array(tmp_path / "links.npy", (3, 2), PAIRS.tobytes())
    assert read_scenario(path).topology.n_parties == 3
    monkeypatch.setattr(sections, "MOST_PARTIES", 2)
    with refused("too-many-parties", InvalidScenarioError, mentions=("3", "2")):
        read_scenario(path)


@each("spec", ["cycles:1000:500", "cycles:401:134", "cycles:9000:1002"])
def test_cycles_that_would_be_drawn_for_ever_are_refused(spec):
    with refused("malformed-family", InvalidGraphError):
        Topology.family(spec)


def test_a_third_of_all_pairs_is_drawn():
    assert Topology.family("cycles:402:134").n_edges == 402 * 67


def test_digits_that_are_no_numbers_are_refused_in_a_sentence():
    for spec in ("ring:²", "grid:²x3", "cycles:1²:2", "regular:②:2"):
        with refused("malformed-family", InvalidGraphError):
            Topology.family(spec)


def test_a_circle_of_many_steps_takes_the_room_that_was_counted(monkeypatch):
    # A piece had so many parties, each with all of its steps: 20 GB instead of 8.
    asked, arange = [], np.arange

    def counted(low, high=None, **how):
        asked.append((high or low) - (low if high else 0))
        return arange(low, high, **how)

    monkeypatch.setattr(links, "PIECE", 1000)
    wanted = links.circle_graph_links(500, range(1, 101)).ends
    monkeypatch.setattr(np, "arange", counted)
    np.testing.assert_array_equal(
        links.circle_graph_links(500, range(1, 101)).ends, wanted
    )
    assert max(asked) * 200 <= 1000
    assert len(wanted) == 500 * 100


def test_a_run_is_counted_before_targets_are_drawn(tmp_path, monkeypatch):
    path = array(tmp_path / "far.npy", (1, 2), np.array([0, 2**31 - 2]).tobytes())
    monkeypatch.setattr(
        np.random, "default_rng", lambda *_: pytest.fail("targets were drawn")
    )
    monkeypatch.setattr(memory, "available_memory", lambda: 64 << 30)
    with refused(
        "memory-short", vs.errors.MemoryShortError, mentions=("2,147,483,647",)
    ):
        large(str(path), dim=1, **QUICK)


# Checkpoints


@pytest.fixture(scope="module", name="whole")
def whole_fixture(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "state.npz"
    large(GRAPH, method="gradient-tracking", checkpoint=path, **QUICK)
    return path.read_bytes()


def went_on(path, **changes):
    how = {**QUICK, "method": "gradient-tracking", "iterations": 30}
    return large(GRAPH, checkpoint=path, **{**how, **changes})


def test_a_state_and_a_seed_tell_targets(tmp_path):
    """After one step from zero estimates are what is masked, mixed once."""
    targets, path = np.arange(1200.0).reshape(300, 4), tmp_path / "state.npz"
    how = {**QUICK, "iterations": 1, "step": 0.25, "checkpoint": path}
    found = large(GRAPH, targets, method="gradient-tracking", **how)
    law = Masks("lattice", 1.0, found.grid).on(found.topology)
    masks = masks_in_pieces(found.topology, law, CounterStreams(0), size=4)
    weights = mixing_weights(found.topology, "metropolis").toarray()
    unmixed = np.linalg.solve(weights, np.load(path)["x"])
    theirs = unmixed / -0.25 - law.decode(masks)
    np.testing.assert_allclose(theirs / -2.0, targets, atol=1e-6)


@pytest.mark.skipif(os.name != "posix", reason="modes are of another kind")
def test_only_the_owner_reads_a_checkpoint(tmp_path):
    path = tmp_path / "state.npz"
    before = os.umask(0)
    try:
        large(GRAPH, checkpoint=path, **QUICK)
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o666)
        went = large(GRAPH, checkpoint=path, **{**QUICK, "iterations": 30})
    finally:
        os.umask(before)
    assert went.resumed == 20
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_checkpoint_cut_off_anywhere_is_refused(whole, tmp_path):
    path = tmp_path / "state.npz"
    with zipfile.ZipFile(io.BytesIO(whole)) as packed:
        digest = str(np.load(packed.open("digest.npy")))
    begun = DgdState(np.zeros((300, 4)))
    for length in range(0, len(whole), 1000):
        path.write_bytes(whole[:length])
        with refused("not-a-checkpoint"):
            read_checkpoint(path, digest, begun)
    stream = np.random.default_rng(1)
    for _ in range(150):
        content = bytearray(whole)
        content[stream.integers(len(whole))] ^= int(stream.integers(1, 256))
        content[-int(stream.integers(1, 400))] ^= int(stream.integers(1, 256))
        path.write_bytes(content)
        with pytest.raises(InvalidInputError):
            read_checkpoint(path, digest, begun)
    path.write_bytes(whole)
    assert went_on(path).resumed == 20


@pytest.mark.parametrize(
    "change",
    [
        {"iteration": np.int64(-5)},
        {"iteration": np.array("20")},
        {"iteration": np.array(np.nan)},
        {"iteration": np.array([20])},
        {"x": np.zeros((300, 4), np.float32)},
        {"x": np.zeros((300, 4), complex)},
        {"x": np.zeros((300, 4), "U5")},
        {"x": np.zeros((4, 300))},
        {"x": head((2**31, 4), "<f8")},
        {"more": np.zeros(3)},
    ],
    ids=str,
)
def test_a_state_of_other_numbers_is_refused_before_they_are_read(
    change, whole, tmp_path
):
    path = tmp_path / "state.npz"
    held = dict(np.load(io.BytesIO(whole)))
    archive(path, **held)
    assert went_on(path).resumed == 20
    archive(path, **{**held, **change})
    with refused("other-checkpoint-state"):
        went_on(path)


def test_the_name_of_a_run_is_short(tmp_path, monkeypatch):
    path = archive(tmp_path / "s.npz", digest=head((), "<U9000") + bytes(99))
    monkeypatch.setattr(PackedArrays, "read", lambda *_: pytest.fail("it was read"))
    with refused("not-a-checkpoint"):
        read_checkpoint(path, "a", DgdState(np.zeros((2, 1))))


def test_what_lies_in_the_checkpoint_s_place_is_never_written_over(tmp_path):
    """Another run's state, another file, and what a link leads to."""
    state = DgdState(np.zeros((2, 1)))
    theirs, other, led_to = (tmp_path / name for name in ("a.npz", "b.txt", "c.npz"))
    write_checkpoint(theirs, "theirs", state)
    other.write_text("a thesis")
    led_to.symlink_to(other)
    before = theirs.read_bytes()
    for path in (theirs, other, led_to):
        with pytest.raises(vs.errors.OutputError, match="somebody else writes there"):
            write_checkpoint(path, "ours", state)
    assert theirs.read_bytes() == before
    assert other.read_text() == "a thesis"
    assert led_to.is_symlink()
    write_checkpoint(theirs, "theirs", DgdState(np.ones((2, 1)), 7))
    assert read_checkpoint(theirs, "theirs", state).iteration == 7
    assert len([*tmp_path.iterdir()]) == 3


def test_two_runs_that_share_a_checkpoint_are_told(tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    read = read_checkpoint

    def late(*what):
        found = read(*what)
        write_checkpoint(path, "another run's", DgdState(np.zeros((2, 1))))
        return found

    monkeypatch.setattr("veilsum.minimise.large_graphs.read_checkpoint", late)
    with refused("checkpoint-of-other-run", vs.errors.OutputError):
        large(GRAPH, checkpoint=path, **QUICK)


def test_a_full_disk_leaves_the_last_state(whole, tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "state.npz"
    path.write_bytes(whole)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, before[1]))
    try:
        with refused("cannot-write", vs.errors.OutputError):
            went_on(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == whole
    assert [one.name for one in tmp_path.iterdir()] == ["state.npz"]
    assert went_on(path).resumed == 20


def test_ctrl_c_while_a_state_is_written_leaves_the_last_one(
    whole, tmp_path, monkeypatch
):
    path = tmp_path / "state.npz"
    path.write_bytes(whole)

    def stopped(stream, **_):
        stream.write(b"PK")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", stopped)
        with pytest.raises(KeyboardInterrupt):
            went_on(path)
    assert path.read_bytes() == whole
    assert [one.name for one in tmp_path.iterdir()] == ["state.npz"]


def test_a_place_that_cannot_be_written_is_refused_before_work(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(
        "veilsum.minimise.large_graphs.topology_from",
        lambda _: pytest.fail("it was begun"),
    )
    with refused("cannot-write", vs.errors.OutputError):
        large(GRAPH, checkpoint=tmp_path / "file" / "state.npz", **QUICK)


def test_a_state_is_of_the_numbers_that_were_used(tmp_path, monkeypatch):
    """Targets' files change, versions change, and so does the order of parties."""
    rows = np.random.default_rng(1).standard_normal((300, 4))
    path, file = tmp_path / "state.npz", tmp_path / "targets.npy"
    np.save(file, rows)
    how = {**QUICK, "checkpoint": path}
    large(GRAPH, read_large_graph_targets(file), **how)
    # The same numbers from elsewhere are the same run.
    assert large(GRAPH, rows, **how).resumed == 20
    rows[7, 2] += 1e-3
    np.save(file, rows)
    with refused("checkpoint-of-other-run"):
        large(GRAPH, read_large_graph_targets(file), **how)
    rows[7, 2] -= 1e-3
    for name in ("veilsum.__version__", "numpy.__version__"):
        with monkeypatch.context() as patch:
            patch.setattr(name, "0.0")
            with refused("checkpoint-of-other-run"):
                large(GRAPH, rows, **how)
    with refused("checkpoint-of-other-run"):
        large(GRAPH, rows, **{**how, "engine": "numba"})


def test_the_order_of_parties_is_part_of_a_state(tmp_path, monkeypatch):
    from veilsum.minimise.engines import numba

    how = {**QUICK, "engine": "numba", "checkpoint": tmp_path / "state.npz"}
    large(GRAPH, **how)
    turned = numba.EngineNearness(np.arange(300, dtype=np.int32)[::-1], 9.0, 1.0)
    monkeypatch.setattr(numba, "engine_order_of_near_parties", lambda *_, **__: turned)
    with refused("checkpoint-of-other-run"):
        large(GRAPH, **how)


def test_ranks_do_not_share_one_state(tmp_path):
    """Two ranks wrote one file in turn, went on from one of both, and were wrong."""
    with refused("graph-on-every-rank", mentions=("--on",)):
        large(GRAPH, checkpoint=tmp_path / "s.npz", **{**QUICK, "engine": "mpi"})


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_estimates_that_run_away_have_no_error_of_zero(engine):
    how = {"method": "gradient-tracking", "engine": engine, "iterations": 400}
    with (
        np.errstate(all="ignore"),
        refused("steps-too-long", vs.errors.NumericalError, mentions=("400",)),
    ):
        large(GRAPH, step=50.0, **{**QUICK, **how})
    assert large(GRAPH, **{**QUICK, **how}).max_error < 1e-5


# Tables of sweeps

COSTS = [vs.minimise.Cost.squared_distance([p]) for p in (1.0, 2.0, 6.0, 3.0)]
SWEPT = {
    "graphs": ["ring:4"],
    "domain": vs.minimise.Box(-9, 9, dim=1),
    "sigmas": [1.0],
    "methods": ["dgd"],
    "seeds": 2,
    "settings": vs.minimise.Settings(iterations=20),
    "progress": False,
}


def test_no_line_of_another_sweep_is_cut_off(tmp_path):
    path = tmp_path / "swept.csv"
    vs.minimise.sweep(COSTS, **SWEPT, out=path)
    before = path.read_bytes()
    # Lines of a run that is not whole are cut off, if they are of this sweep.
    first = b"\n".join(before.split(b"\n")[:2]) + b"\n"
    path.write_bytes(first)
    with refused("other-sweep"):
        vs.minimise.sweep(COSTS, **SWEPT, tolerate=[1, 2], out=path)
    assert path.read_bytes() == first


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (b"\n" * 1000, "it has more lines than this one"),
        (b'"' + b"a" * 200_000 + b'"\n', "not the table of a sweep"),
        (b"\0\xff,\n", "table of another sweep"),
    ],
    ids=["lines", "a long cell", "bytes"],
)
def test_a_table_that_is_none_is_refused_and_kept(more, said, tmp_path):
    path = tmp_path / "swept.csv"
    vs.minimise.sweep(COSTS, **SWEPT, out=path)
    head_line = path.read_bytes().partition(b"\n")[0] + b"\n"
    path.write_bytes(head_line + more)
    with pytest.raises(InvalidInputError, match=said):
        vs.minimise.sweep(COSTS, **SWEPT, out=path)
    assert path.read_bytes() == head_line + more


def test_an_open_archive_reads_what_was_looked_at_only(tmp_path):
    path = archive(tmp_path / "a.npz", one=PAIRS, other=PAIRS[:2])
    with packed_arrays(path, InvalidInputError) as found:
        np.testing.assert_array_equal(found.read("one", found.head("one")), PAIRS)
    with (
        refused("unreadable-arrays"),
        packed_arrays(path, InvalidInputError) as found,
    ):
        found.read("one", found.head("other"))
