"""Scenario files: every section, every kind of cost and domain."""

from dataclasses import astuple
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from cases import each
from refusals import refused
from section_keys import section_keys
from veilsum.consortium.scenario import scenario_from
from veilsum.consortium.sections import ScenarioFile
from veilsum.errors import InvalidInputError, InvalidScenarioError, SecretError
from veilsum.files.graphs import read_topology
from veilsum.files.scenarios import read_scenario, read_toml_file
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.minimise.costs.domains import Ball, Box, HalfSpaces, Simplex, WholeSpace
from veilsum.minimise.methods.link_faults import LinkFaults
from veilsum.minimise.solve import run_scenario
from veilsum.reading import read_section
from veilsum.sums.job_file import read_job

EXAMPLES = Path(__file__).parents[2] / "examples"


def table(**changes):
    plain = {
        "title": "a test",
        "graph": {"family": "complete:3"},
        "cost": {"kind": "affine", "coefficients": [[1, 0], [2, 0], [3, 0]]},
        "domain": {"kind": "box", "lower": -1, "upper": 1},
        "masks": {"law": "gaussian", "sigma": 2},
    }
    return {**plain, **changes}


def parsed(**changes):
    file = read_section(table(**changes), ScenarioFile, "the scenario")
    return scenario_from(file, _no_files)


def _no_files(name, weight):
    raise AssertionError("no graph file was named")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_file_may_begin_with_a_byte_order_mark(tmp_path, encoding):
    path = tmp_path / "saved by an editor.toml"
    path.write_text('title = "M\u00e4rz"\n', encoding=encoding)
    assert read_toml_file(path) == {"title": "M\u00e4rz"}


def test_a_file_that_is_no_toml_is_named(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_bytes("title = 1".encode("utf-16"))
    with refused("not-toml", InvalidScenarioError):
        read_toml_file(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, "too deep"),
        ("a = " + "9" * 5000, "not valid TOML"),
        ("# much\n" * 20, "140 bytes, and 100 are the most"),
    ],
    ids=["deep", "long number", "large"],
)
def test_a_file_that_would_cost_too_much_is_refused(tmp_path, text, words):
    path = tmp_path / "odd.toml"
    path.write_text(text)
    most = 100 if "bytes" in words else 10**6
    with pytest.raises(InvalidScenarioError, match=words):
        read_toml_file(path, most_bytes=most)


def test_defaults_are_the_papers_method():
    found = parsed()
    assert found.settings.method == "dgd"
    assert (found.settings.step, found.settings.power) == (None, 1)
    assert found.settings.mixing is None
    assert found.settings.iterations == 10_000
    assert found.masks == Masks("gaussian", sigma=2.0)
    assert (found.seed, found.corrupted) == (None, ())


@each(
    ("section", "kind"),
    [
        ({"kind": "box", "lower": [-1, -2], "upper": 1}, Box),
        ({"kind": "ball", "centre": [1, 1], "radius": 2}, Ball),
        ({"kind": "simplex", "total": 2}, Simplex),
        (
            {"kind": "half-spaces", "normals": [[1, 0]], "offsets": [1]},
            HalfSpaces,
        ),
        ({"kind": "all"}, WholeSpace),
    ],
)
def test_every_domain_can_be_written(section, kind):
    found = parsed(domain=section).domain
    assert isinstance(found, kind)
    assert found.dim == 2


@each(
    ("section", "gradient_at_one"),
    [
        # h = c x, c x + x^2, (x - c)^2, c x + c x^2, P x^2/2 + q x: derivatives at 1.
        ({"kind": "affine", "coefficients": [[5]] * 3}, 5),
        (
            {
                "kind": "affine",
                "coefficients": [[5]] * 3,
                "remainder": "squared-norm",
            },
            7,
        ),
        ({"kind": "squared-distance", "targets": [[5]] * 3}, -8),
        ({"kind": "polynomial", "coefficients": [[5, 3]] * 3}, 11),
        ({"kind": "quadratic", "matrices": [[[4]]] * 3, "vectors": [[5]] * 3}, 9),
    ],
)
def test_every_kind_of_cost_can_be_written(section, gradient_at_one):
    cost = parsed(cost=section).costs[0]
    assert cost.gradient(np.array([1.0])) == pytest.approx([gradient_at_one])


def test_a_polynomial_in_the_plane_can_be_written():
    section = {"kind": "polynomial", "dim": 2, "coefficients": [[0, 0, 1, 3, 2]] * 3}
    # x^2 + 3xy + 2y^2 at (1, 2): (2x + 3y, 3x + 4y).
    cost = parsed(cost=section).costs[0]
    assert cost.gradient(np.array([1.0, 2.0])) == pytest.approx([8, 11])


def test_parties_can_be_named():
    found = parsed(parties={"names": ["ann", "bob", "cem"]})
    assert found.topology.neighbours("ann") == ("bob", "cem")


def test_edges_and_names_fix_the_order_of_parties():
    names = ["cem", "ann", "bob"]
    graph = {"edges": [["ann", "bob"], ["bob", "cem"]]}
    found = parsed(graph=graph, parties={"names": names})
    assert found.topology.parties == tuple(names)


def test_a_graph_file_is_found_beside_the_scenario(tmp_path):
    (tmp_path / "net.txt").write_text("a b\nb c\nc a\n")
    path = tmp_path / "scenario.toml"
    path.write_text(
        '[graph]\nfile = "net.txt"\n'
        '[cost]\nkind = "affine"\ncoefficients = [[1], [2], [3]]\n'
        '[domain]\nkind = "box"\nlower = -1\nupper = 1\n'
        '[masks]\nlaw = "none"\n'
    )
    found = read_scenario(path)
    assert found.topology == Topology.from_edges([("a", "b"), ("b", "c"), ("c", "a")])
    assert found.masks == Masks("none")


SECTIONS = section_keys(ScenarioFile)


@each("section", SECTIONS)
def test_a_misspelt_key_in_any_section_is_answered_with_the_nearest(section):
    key = SECTIONS[section][0]
    content = {**table().get(section, {}), key + "x": 1}
    with refused("unknown-key", InvalidScenarioError, mentions=(key,)):
        parsed(**{section: content})


@each("needed", ["graph", "cost", "domain", "masks"])
def test_a_missing_section_is_named(needed):
    with refused("missing-section", InvalidScenarioError, mentions=(needed,)):
        parsed(**{needed: {}})


@each(
    ("changes", "words"),
    [
        ({"graph": "complete:3"}, "must be a section"),
        ({"graph": {"edges": "ab"}}, "must be a list of pairs .*, found 'ab'"),
        ({"graph": {"edges": [["a", "b", "c"]]}}, "pairs of names"),
        ({"parties": {"names": "abc"}}, "list of names"),
        ({"parties": {"names": ["a", "b"]}}, "expected 3 different"),
        ({"domain": {"kind": "box", "lower": 0}}, "needs 'upper'"),
        ({"domain": {"kind": "ball", "radius": "far"}}, "must be a number"),
        ({"masks": {"law": "gaussian"}}, "needs 'sigma'"),
        ({"masks": {"law": "gaussian", "sigma": "big"}}, "must be a number"),
        ({"masks": {"law": "lattice"}}, "needs 'sigma'"),
        ({"masks": {"law": "none", "sigma": 1}}, r"\[masks\].*leave sigma out"),
        ({"masks": {"law": "uniform", "sigma": 1}}, r"\[masks\].*leave it out"),
        ({"masks": {"law": "none", "grid": 20}}, "no grid and no range"),
        (
            {"masks": {"law": "gaussian", "sigma": 1, "largest": 2}},
            "no grid and no range",
        ),
        ({"masks": {"law": "uniform", "grid": 20.5}}, "whole number"),
        ({"masks": {"law": "uniform", "largest": "much"}}, "must be a number"),
        ({"method": {"name": "extr"}}, "did you mean 'extra'"),
        (
            {"method": {"recentre": "yes"}},
            "recentre must be true or false, found 'yes'",
        ),
        ({"method": {"spread": "gossip"}}, "auto, flooding, tree"),
        ({"simulation": {"seed": 1.5}}, "whole number"),
        (
            {"cost": {"kind": "quadratic", "matrices": [[[1]]] * 3, "vectors": [[1]]}},
            "3 matrices and 1 vectors",
        ),
    ],
)
def test_a_wrong_value_says_where_it_stands(changes, words):
    with pytest.raises(ValueError, match=words):
        parsed(**changes)


# --- Integer masks and one-shot ----------------------------------------------------


def test_a_lattice_can_be_written_with_its_grid_and_range():
    masks = {"law": "lattice", "sigma": [1, 2], "grid": 40, "largest": 8}
    found = parsed(masks=masks, method={"name": "one-shot", "spread": "tree"})
    assert (found.masks.law, found.masks.sigma) == ("lattice", (1.0, 2.0))
    assert (found.masks.grid, found.masks.largest) == (40, 8.0)
    assert (found.settings.method, found.settings.spread) == ("one-shot", "tree")


def test_without_them_the_law_chooses():
    found = parsed(masks={"law": "uniform"})
    assert found.masks == Masks("uniform")
    assert (found.masks.grid, found.masks.largest) == (None, None)
    assert (found.settings.spread, found.settings.recentre) == ("auto", None)


@pytest.mark.parametrize("choice", [True, False])
def test_recentring_can_be_switched(choice):
    assert parsed(method={"recentre": choice}).settings.recentre is choice


LATTICE = {"law": "lattice", "sigma": 3.0, "grid": 40, "largest": 8.0}


def test_a_unit_of_the_costs_is_that_of_the_masks():
    cost = {"kind": "affine", "coefficients": [[0.07], [0.074], [3.0]], "unit": 0.01}
    found = parsed(cost=cost, masks=LATTICE)
    assert [one.counts.tolist() for one in found.costs] == [[7], [7], [300]]
    assert found.masks.unit == found.costs[0].unit == Fraction(1, 100)
    run = run_scenario(found)
    assert run.private.sum(axis=0).tolist() == [314 << run.terms.law.masks.grid]


def mask_keys(scenario):
    return astuple(scenario.masks)[:4]


def test_an_altered_scenario_keeps_what_was_not_altered():
    found = parsed(masks=LATTICE, simulation={"seed": 5})
    same = found.altered()
    assert mask_keys(same) == mask_keys(found) == ("lattice", 3.0, 40, 8.0)
    assert same.costs is found.costs
    assert (same.seed, same.settings) == (5, found.settings)


@each(
    ("change", "expected"),
    [
        ({"sigma": 9.0}, ("lattice", 9.0, 40, 8.0)),
        ({"grid": 0}, ("lattice", 3.0, 0, 8.0)),
        ({"law": "uniform"}, ("uniform", None, 40, 8.0)),
        ({"law": "gaussian"}, ("gaussian", 3.0, None, None)),
        ({"law": "none"}, ("none", None, None, None)),
    ],
)
def test_a_new_law_takes_over_what_it_has(change, expected):
    assert mask_keys(parsed(masks=LATTICE).altered(**change)) == expected


@pytest.mark.usefixtures("unchecked_shapes")  # types know the laws that there are
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"law": "none", "sigma": 2.0}, "leave sigma out"),
        ({"law": "gaussian", "grid": 7}, "no grid and no range"),
        ({"law": "gausian"}, "no mask law is called 'gausian'"),
    ],
)
def test_what_a_new_law_does_not_have_is_refused_with_a_sentence(change, words):
    with pytest.raises(InvalidInputError, match=words):
        parsed(masks=LATTICE).altered(**change)


def test_an_altered_method_keeps_the_other_settings():
    found = parsed(stopping={"iterations": 7}).altered(method="one-shot")
    assert (found.settings.method, found.settings.iterations) == ("one-shot", 7)


def test_a_scenario_holds_secrets_and_shows_none():
    found = parsed()
    assert "3" not in repr(found)
    with pytest.raises(SecretError):
        found.__reduce_ex__(2)


def test_faults_of_links_are_read_with_their_stragglers_by_name():
    faults = {"loss": 0.3, "delay": [0, 5], "stragglers": ["2"], "seed": 7}
    found = parsed(simulation={"faults": faults}).faults
    assert found == LinkFaults(loss=0.3, delay=(0, 5), stragglers=(2,), seed=7)
    assert parsed().faults is None


@each(
    ("faults", "words"),
    [
        (3, "must be a table"),
        ({"los": 0.3}, "did you mean 'loss'"),
        ({"loss": 1.5}, "loss"),
        ({"stragglers": ["nobody"]}, "unknown party 'nobody'"),
    ],
)
def test_faults_that_cannot_be_are_refused(faults, words):
    with pytest.raises(InvalidInputError, match=words):
        parsed(simulation={"faults": faults})


def test_another_method_does_not_take_the_step_of_the_one_in_the_file():
    found = parsed(method={"name": "dgd", "step": 0.3})
    assert found.altered(method="nids").settings.step is None
    assert found.altered(method="dgd").settings.step == 0.3
    assert found.altered(sigma=3.0).settings.step == 0.3


def test_the_settings_of_a_method_are_read_under_their_names():
    found = parsed(
        method={"name": "nids", "smooth": 4, "mean_convex": 0.5, "rounds": 2},
        stopping={"tolerance": 1e-9, "byte_budget": 10**9},
        simulation={"engine": "numpy", "precision": "float32", "history": 5},
    ).settings
    assert (found.method, found.smooth, found.mean_convex) == ("nids", 4.0, 0.5)
    assert (found.rounds, found.byte_budget, found.history) == (2, 10**9, 5)
    assert (found.engine, found.precision, found.tolerance) == (
        "numpy",
        "float32",
        1e-9,
    )


def test_paths_may_be_text(tmp_path):
    (tmp_path / "two.csv").write_text("a b\n")
    scenario = EXAMPLES / "rendezvous.toml"
    job = EXAMPLES / "diabetes.toml"
    assert read_scenario(str(scenario)).topology == read_scenario(scenario).topology
    assert read_topology(str(tmp_path / "two.csv")).n_parties == 2
    assert read_job(str(job), "model").title == read_job(job, "model").title
