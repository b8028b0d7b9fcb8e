"""What the planner page is told is what the package says; what it must not ask."""

import io
import json
from itertools import combinations
from math import sqrt

import pytest
from click.testing import CliRunner
from hypothesis import example, given, strategies as st

import veilsum as vs
from cases import each
from strategies import few
from veilsum.cli.app import app
from veilsum.errors import InvalidGraphError, InvalidInputError
from veilsum.files.scenarios import read_scenario
from veilsum.graphs.topology import Topology
from veilsum.web import planning
from veilsum.web.planning import (
    ASKED,
    MOST_LINKS,
    answer_planner_questions,
    planner_reply,
)


@st.composite
def networks(draw):
    """Any network that a page may draw, in pieces or not."""
    n = draw(st.integers(4, 9))
    pairs = st.sampled_from(list(combinations(range(n), 2)))
    links = draw(st.sets(pairs, min_size=1, max_size=3 * n))
    return Topology.from_edges(sorted(links), parties=range(n))


TARGET = {"success": 0.51, "within": 10.0}


def asked(topology, tolerate=1, **more):
    drawn = {"parties": list(topology.parties), "links": topology.edges.tolist()}
    return {**drawn, "tolerate": tolerate, "target": TARGET, **more}


def answer(what, question):
    found = planner_reply(what, json.dumps(question).encode())
    assert "error" not in found, found
    return found["answer"]


def refusal(what, question):
    body = question if isinstance(question, bytes) else json.dumps(question).encode()
    found = planner_reply(what, body)
    assert set(found) == {"error"}, found
    return found["error"]


def places(topology, names):
    return sorted(topology.index(name) for name in names)


@few
@example(Topology.family("petersen"), 2, 0.51, 20.0, "lattice")
@example(Topology.family("ring:9"), 1, 0.6, None, "lattice")
@given(
    networks(),
    st.integers(0, 2),
    st.floats(0.5001, 0.99),
    st.one_of(st.none(), st.floats(0.01, 1e3)),
    st.sampled_from(["lattice", "uniform"]),
)
def test_an_answer_is_what_plan_and_worst_case_say(topology, t, success, sigma, law):
    """Whatever is drawn: needed noise, epsilon, success, coalition, cut."""
    distance = 10.0 * sqrt(2.0)
    target = {"success": success, "within": 10.0}
    more = {} if sigma is None else {"sigma": sigma}
    found = answer("plan", asked(topology, t, target=target, law=law) | more)
    wanted = {"attacker_success": success, "distance": distance, "law": law}
    try:
        best = vs.plan(graph=topology, tolerate=t, progress=False, **wanted).best
    except InvalidGraphError:
        best = None
    assert (best is None) == (vs.graphs.vertex_connectivity(topology) <= t)
    assert found["needed"] == (best and best.sigma)
    used = None if law == "uniform" else sigma or (best.sigma if best else 1.0)
    grid = None if used is None else planning.grid_bits_for_sigma(topology, used)
    masks = {"law": law, "sigma": used, "grid": grid, "distance": distance}
    worst = vs.worst_case(topology, tolerate=t, progress=False, **masks)
    assert found["status"] == worst.status
    assert found["sentence"] == worst.sentence
    assert found["epsilon"] == worst.epsilon
    assert found["success"] == worst.attacker_success
    assert found["exact"] == worst.worst.exact
    assert found["epsilon_lower"] == worst.worst.epsilon_lower
    assert found["coalition"] == places(topology, worst.worst.worst_coalition)
    assert found["connectivity"] == vs.graphs.vertex_connectivity(topology)
    if best is None:
        assert found["cut"] == places(topology, worst.worst.cut)
        assert len(found["pieces"]) > 1
        assert not found["met"]
    else:
        assert found["cut"] is None
        assert found["met"] == (worst.attacker_success <= success)
        if sigma is None or law == "uniform":
            assert found["met"]


@few
@given(networks(), st.integers(0, 2))
def test_a_repair_is_what_examine_says(topology, t):
    found = answer("mend", asked(topology, t))
    expected = vs.privacy.examine(topology, tolerate=t, progress=False)

    def ends(link):
        return [topology.index(name) for name in link]

    assert found["safe"] == expected.safe
    assert found["verdict"] == expected.verdict
    assert found["gap"] == expected.gap
    assert found["links"] == [ends(link) for link in expected.links_to_add]
    assert found["helpful"] == [
        {"link": ends(one.link), "ratio": one.epsilon_ratio}
        for one in expected.helpful_links
    ]
    assert [one["sentence"] for one in found["cuts"]] == [
        cut.sentence for cut in expected.cuts
    ]


def test_below_forty_it_is_exact_and_above_an_interval():
    few_parties = answer("plan", asked(Topology.family("regular:38:3"), 2, sigma=9.0))
    assert few_parties["exact"]
    assert few_parties["epsilon_lower"] == few_parties["epsilon_upper"]
    many = answer("plan", asked(Topology.family("regular:90:5:seed=2"), 3, sigma=9.0))
    assert not many["exact"]
    assert 0 < many["epsilon_lower"] < many["epsilon_upper"] == many["epsilon"]


def test_numbers_within_so_much_are_two_that_are_exchanged():
    ring = asked(Topology.family("ring:6"))
    found = answer("plan", ring)["target"]
    assert found["distance"] == pytest.approx(10.0 * sqrt(2.0))
    far = answer("plan", ring | {"target": {"success": 0.51, "distance": 3.0}})
    assert far["target"]["distance"] == 3.0


def deep(count=100_000):
    return b"[" * count


RING = asked(Topology.family("ring:5"))


@each(
    ("changed", "word"),
    [
        ({"tolerate": -1}, "must not be negative"),
        ({"tolerate": 4}, "below n - 1"),
        ({"tolerate": 1.5}, "a whole number"),
        ({"tolerate": None}, "a whole number"),
        ({"parties": ["<b>x</b>", *"1234"]}, "letters, digits"),
        ({"parties": ["x\nname = 1", *"1234"]}, "letters, digits"),
        ({"parties": ["\u202eabc", *"1234"]}, "letters, digits"),
        ({"parties": ["x" * 65, *"1234"]}, "64 bytes"),
        ({"parties": [{}, *"1234"]}, "a list of names"),
        ({"parties": [*"01214"]}, "one name"),
        ({"parties": [str(k) for k in range(501)]}, "at most 500 parties"),
        ({"parties": [], "links": []}, "found no edges"),
        ({"links": []}, "found no edges"),
        ({"links": [[0, 0]]}, "self-loops"),
        ({"links": [[0, 5]]}, "from 0 to 4"),
        ({"links": [[0, -1]]}, "from 0 to 4"),
        ({"links": [[0, 10**30]]}, "from 0 to 4"),
        ({"links": [["0", "1"]]}, "pairs of places"),
        ({"links": [[0, 1, 2]]}, "pairs of places"),
        ({"links": [[0, 1]] * (MOST_LINKS + 1)}, "5,000 links"),
        ({"target": {"success": 0.5, "within": 1.0}}, "0.5"),
        ({"target": {"success": 1.0, "within": 1.0}}, "1"),
        ({"target": {"success": 0.51}}, "one of within and distance"),
        ({"target": {**TARGET, "distance": 1.0}}, "one of within and distance"),
        ({"target": {"success": 0.51, "within": 0}}, "positive"),
        ({"target": {"success": 0.51, "within": 1e300}}, "positive"),
        ({"target": {"success": 0.51, "distance": -1}}, "positive"),
        ({"target": []}, "must be a section"),
        ({"sigma": 0}, "sigma must be positive"),
        ({"sigma": -1.0}, "sigma must be positive"),
        ({"sigma": "1"}, "a number"),
        ({"law": "none"}, "choose from lattice, uniform"),
        ({"law": "__class__"}, "choose from lattice, uniform"),
        ({"lawn": "lattice"}, "lawn"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(changed, word):
    for what in ("plan", "mend", "export"):
        if what == "mend" and ["law", "sigma", "target"].count(next(iter(changed))):
            continue  # nothing depends on them
        assert word in refusal(what, RING | changed)


@each(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xfe",
        deep(),
        b'{"parties": ' + deep(),
        json.dumps(RING | {"sigma": float("nan")}).encode(),
        json.dumps(RING | {"sigma": float("inf")}).encode(),
        json.dumps(RING)[:-1].encode(),
        b'{"tolerate": 1' + b"0" * 100_000 + b"}",
    ],
)
@each("what", ASKED)
def test_what_is_no_question_is_refused(what, body):
    assert refusal(what, body)


def test_files_of_every_kind_are_drawn():
    triangle = [[0, 1], [0, 2], [1, 2]]
    graphml = (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph '
        'edgedefault="undirected"><node id="a"/><node id="b"/><node id="c"/>'
        '<edge source="a" target="b"/><edge source="b" target="c"/>'
        '<edge source="a" target="c"/></graph></graphml>'
    )
    nodes = [{"id": name} for name in "abc"]
    links = [{"source": a, "target": b} for a, b in ("ab", "bc", "ac")]
    linked = json.dumps({"nodes": nodes, "links": links, "multigraph": False})
    scenario = (
        '[graph]\nedges = [["a", "b"], ["b", "c"], ["a", "c"]]\n[policy]\ntolerate = 0'
    )
    for name, text in (
        ("net.txt", "a b # one\nb,c\na c 2.5\n"),
        ("NET.GRAPHML", graphml),
        ("net.json", linked),
        ("net.toml", scenario),
    ):
        found = answer("file", {"name": name, "text": text})
        assert found["parties"] == [*"abc"], name
        assert found["links"] == triangle
        assert len(found["places"]) == 3
    assert found["tolerate"] == 0
    assert answer("family", {"family": "ring:4"})["parties"] == [*"0123"]


@each(
    ("name", "text", "word"),
    [
        ("net.txt", "a", "two names"),
        ("net.txt", "<script> x", "letters, digits"),
        ("net.graphml", "<!DOCTYPE x []><graphml/>", "DOCTYPE"),
        ("net.graphml", "<graphml", "not a graph"),
        ("net.json", "[" * 100_000, "too deep"),
        ("net.json", "{}", "not a graph"),
        ("net.toml", "[graph", "not valid TOML"),
        ("net.toml", "title = 'x'", "no [graph]"),
        ("net.toml", "[graph]\nfile = '/etc/passwd'", "open that file itself"),
        ("net.toml", "[graph]\nfamily = 'complete:2000'", "at most 500"),
        ("net.toml", "[graph]\nfamily = 'grid:400x400'", "at most 500"),
        ("net.txt", "\n".join(f"a{k} b{k}" for k in range(600)), "at most 500"),
        ("net.txt", "a b\n" * 300_000, "1,048,576 bytes"),
    ],
)
def test_a_file_that_is_none_is_refused_in_words(name, text, word):
    found = refusal("file", {"name": name, "text": text})
    assert word in found
    assert "/tmp" not in found


@each("family", ["complete:501", "hypercube:9999", "nothing:3", "ring", "x" * 101, ""])
def test_a_family_that_is_none_is_refused(family):
    assert refusal("family", {"family": family})


@pytest.mark.parametrize("law", ["lattice", "uniform"])
def test_what_is_exported_is_checked_solved_and_drawn_again(law, tmp_path):
    topology = Topology.family("petersen")
    question = asked(topology, 2, law=law)
    found = answer("export", question)
    place = tmp_path / found["name"]
    place.write_text(found["text"])
    scenario = read_scenario(place)
    assert scenario.topology == topology
    runner = CliRunner()
    assert found["commands"][0] == "veilsum check network.toml"
    checked = runner.invoke(app, ["check", str(place), "--json"])
    assert checked.exit_code == 0, checked.output
    solved = runner.invoke(app, ["solve", str(place), "--json"])
    assert solved.exit_code == 0, solved.output
    told = answer("plan", question)
    masks = scenario.masks
    promise = vs.worst_case(
        topology,
        tolerate=2,
        law=law,
        sigma=masks.sigma,
        grid=masks.grid,
        distance=told["target"]["distance"],
        progress=False,
    )
    assert promise.epsilon == told["epsilon"]
    assert promise.attacker_success <= 0.51
    again = answer("file", {"name": found["name"], "text": found["text"]})
    assert again["parties"] == question["parties"]
    assert again["links"] == question["links"]
    assert again["tolerate"] == 2


def test_what_a_coalition_cuts_is_not_exported():
    assert "mend it" in refusal("export", asked(Topology.family("star:5")))


def test_a_process_answers_line_by_line_and_survives_nonsense():
    body = json.dumps(RING).encode()
    lines = b"plan " + body + b"\nplan nonsense\nmend " + body + b"\n"
    answers = io.BytesIO()
    answer_planner_questions(io.BytesIO(lines), answers)
    ready, *found = answers.getvalue().splitlines()
    assert ready == b"ready"
    first, second, third = map(json.loads, found)
    assert first == planner_reply("plan", body)
    assert second == {"error": "the question is not JSON"}
    assert third == planner_reply("mend", body)


def test_the_target_is_the_planner_s():
    with pytest.raises(InvalidInputError):
        _ = planning.PlannerTarget(success=0.2, within=1.0).wanted
