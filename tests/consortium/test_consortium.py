"""Consortiums: what a file must say, what it must not, and whether two are the same."""

import copy
import math
import tomllib
from datetime import date
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from veilsum.consortium.consortium import Address, consortium_from
from veilsum.consortium.drafting import consortium_of, study_of_scenario_file
from veilsum.consortium.pem import der_of_pem, pem_of_der
from veilsum.consortium.sections import PolicySection, ScenarioFile
from veilsum.consortium.study import runs_of_agreement
from veilsum.errors import InvalidScenarioError
from veilsum.graphs.topology import Topology
from veilsum.reading import read_section

RUN = "a-test-" + "0123456789abcdef" * 2
EXAMPLES = Path(__file__).parents[2] / "examples"


def certificate(name):
    """Not one that TLS would take; here nobody looks inside."""
    return pem_of_der(f"the certificate of {name}".encode())


def member(name, address=None):
    place = {"address": address} if address else {}
    return {"name": name, "certificate": certificate(name), **place}


def table(**changes):
    """A consortium of three with private costs; None takes a section out."""
    plain = {
        "format": 1,
        "run": RUN,
        "title": "a test",
        "members": [
            member("ann", "ann.example.org:8443"),
            member("bob", "[2001:db8::7]:8443"),
            member("cem"),
        ],
        "graph": {"edges": [["ann", "bob"], ["bob", "cem"], ["ann", "cem"]]},
        "masks": {"law": "lattice", "sigma": 1000.0, "grid": 30, "largest": 10.0},
        "cost": {"kind": "affine", "remainder": "squared-norm", "dim": 2},
        "domain": {"kind": "box", "lower": -1, "upper": 1},
        "method": {"name": "dgd", "step": 0.5},
        "stopping": {"iterations": 100},
        "policy": {"tolerate": 1, "resend": 0.5, "deadline": 20, "patience": 3},
    }
    merged = {**copy.deepcopy(plain), **changes}
    return {name: value for name, value in merged.items() if value is not None}


def job(**changes):
    """The same three with a job on data."""
    mine = {
        "model": {"formula": "y ~ x"},
        "schema": {
            "columns": {
                "x": {"kind": "number", "unit": 0.001},
                "y": {"kind": "number", "unit": 0.001},
            }
        },
        "masks": {"law": "uniform", "largest": 1e6},
    }
    without = dict.fromkeys(["cost", "domain", "method", "stopping"])
    return table(**{**without, **mine, **changes})


# Addresses


@each(
    ("text", "host", "port"),
    [
        ("ward7.example.org:8443", "ward7.example.org", 8443),
        ("127.0.0.1:1", "127.0.0.1", 1),
        ("[::1]:65535", "::1", 65535),
        ("[2001:DB8:0::7]:443", "2001:db8::7", 443),
        (" localhost:80 ", "localhost", 80),
    ],
)
def test_addresses_are_read_and_written(text, host, port):
    found = Address.of(text)
    assert (found.host, found.port) == (host, port)
    assert Address.of(str(found)) == found


@each(
    "text",
    [
        *("", "ward7", "ward7:", ":8443", "ward7:0", "ward7:65536", "ward7:-1"),
        *("wss://ward7:8443", "ward7:8443/path", "::1:8443", "[::1]", "[ward7]:1"),
        *("a b:1", "ward7:8 443", "ward7:٣", "ward7:" + "9" * 5000, "[]:1", "u@h:1"),
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_what_is_no_address_is_refused(text):
    with refused("malformed-address", InvalidScenarioError):
        Address.of(text)


# What is agreed


def test_a_consortium_says_who_runs_what_with_whom():
    found = consortium_from(table())
    assert found.run == RUN
    assert [one.name for one in found.members] == ["ann", "bob", "cem"]
    assert found.topology == Topology.family("complete:3").renamed(
        ["ann", "bob", "cem"]
    )
    assert found.member("bob").address == Address("2001:db8::7", 8443)
    assert found.member("cem").address is None
    assert der_of_pem(found.certificates["cem"]) == b"the certificate of cem"
    assert found.title == "a test"
    assert found.to_table()["method"] == {"name": "dgd", "step": 0.5}
    assert consortium_from(found.to_table()).digest == found.digest


def test_a_job_on_data_has_a_schema_instead_of_costs():
    assert consortium_from(job()).to_table()["model"] == {"formula": "y ~ x"}
    consortium_from(job(model=None, statistics={"columns": ["x"]}))
    dispatched = {"dispatch": {"prices": [0, 1]}}
    consortium_from(job(model=None, schema=None, **dispatched))


def test_members_go_in_the_files_order_not_in_the_edges():
    found = consortium_from(
        table(graph={"edges": [["cem", "ann"], ["cem", "bob"], ["bob", "ann"]]})
    )
    assert found.topology.parties == ("ann", "bob", "cem")
    assert found.topology.edges.tolist() == [[0, 1], [0, 2], [1, 2]]


def test_weights_of_links_are_kept():
    edges = table()["graph"]["edges"]
    found = consortium_from(table(graph={"edges": edges, "weights": [2.0, 1.0, 3.0]}))
    assert found.topology.weights.tolist() == [2.0, 3.0, 1.0]


def test_who_has_no_address_dials_and_else_the_earlier():
    found = consortium_from(table())
    assert found.links == (("ann", "bob"), ("cem", "ann"), ("cem", "bob"))
    assert found.dials("ann", "bob")
    assert not found.dials("bob", "ann")


@given(reachable=st.sets(st.integers(0, 5), min_size=5))
def test_of_every_link_exactly_one_end_dials_and_the_other_is_reachable(reachable):
    parties = [str(k) for k in range(6)]
    members = [
        member(name, f"h{name}:1" if k in reachable else None)
        for k, name in enumerate(parties)
    ]
    edges = [[a, b] for a in parties for b in parties if a < b]
    found = consortium_from(table(members=members, graph={"edges": edges}))
    for a, b in edges:
        assert found.dials(a, b) != found.dials(b, a)
        called = b if found.dials(a, b) else a
        assert found.member(called).address is not None


@each(
    ("changes", "words"),
    [
        ({"format": 2}, "format = 1"),
        ({"format": None}, "found 'none'"),
        ({"run": None}, "run must be a name"),
        ({"run": "a-test"}, "32 random"),
        ({"run": "../" + RUN}, "run must be a name"),
        ({"run": "x" * 80 + RUN}, "run must be a name"),
        ({"title": 3}, "title must be a text"),
        ({"titel": "x"}, "did you mean 'title'"),
        ({"simulation": {"seed": 0}}, r"\[simulation\] has no place"),
        ({"data": {"file": "all.csv"}}, r"\[data\] has no place"),
        ({"deployment": {}}, r"\[deployment\] has no place"),
        ({"parties": {"names": ["ann"]}}, r"\[parties\] has no place"),
        ({"members": None}, r"needs 'members'"),
        ({"members": "ann"}, r"members must be a list, .*, found 'ann'"),
        ({"members": ["ann", "bob"]}, "must be tables"),
        ({"graph": None}, r"\[graph\] needs 'edges'"),
        ({"graph": {"family": "complete:3"}}, "unknown key 'family'"),
        (
            {"graph": {"edges": [["ann", "bob"], ["bob", "dan"]]}},
            "unknown parties: dan",
        ),
        ({"graph": {"edges": [["ann", "bob", "cem"]]}}, "pairs of names"),
        ({"graph": {"edges": [["ann", "bob"]]}}, r"2 pieces \(ann, bob; cem\)"),
        ({"graph": "complete:3"}, r"\[graph\] must be a section"),
        ({"masks": None}, r"needs 'law'"),
        ({"masks": {"law": "gaussian", "sigma": 1.0}}, "simulation only"),
        ({"masks": {"law": "none"}}, "simulation only"),
        ({"masks": {"law": "lattice"}}, "needs 'sigma'"),
        ({"masks": {"law": "lattice", "sigma": 1.0, "grid": 5}}, "1024 steps"),
        ({"masks": {"law": "lattice", "sigm": 1.0}}, "did you mean 'sigma'"),
        ({"cost": None}, "exactly one of"),
        ({"model": {"formula": "y ~ x"}}, "found cost, model"),
        ({"cost": {"kind": "affine", "dim": 0}}, "at least 1"),
        ({"cost": {"kind": "affine"}}, "needs 'dim'"),
        ({"cost": {"kind": "cubic", "dim": 1}}, "choose from"),
        ({"cost": {"kind": "affine", "dim": 2, "remainder": "x"}}, "choose from"),
        ({"cost": {"kind": "quadratic", "dim": 2, "remainder": "none"}}, "unknown key"),
        ({"domain": None}, r"needs a \[domain\]"),
        ({"domain": {"kind": "box", "lower": 0}}, "needs 'upper'"),
        ({"method": {"name": "sgd"}}, "choose from"),
        ({"method": {"nam": "dgd"}}, "did you mean 'name'"),
        ({"stopping": {"iterations": 1.5}}, "whole number"),
        ({"schema": {}}, "belongs to a job"),
        ({"policy": {"corrupted": ["ann"]}}, "names a coalition for a simulation"),
        ({"policy": {"resend": 5, "deadline": 1}}, "resend <= deadline"),
        ({"policy": {"patience": 0}}, "patience"),
        ({"policy": {"deadline": "long"}}, "must be a number"),
        ({"policy": {"tolerate": -1}}, "from 0 to 1000 in a file"),
        ({"policy": {"drop": 1}}, "true or false"),
        ({"policy": {"droop": True}}, "did you mean 'drop'"),
        ({"title": "\x1b[2J"}, "control characters"),
        ({"policy": {"deadline": math.inf}}, "finite numbers"),
        ({"method": {"step": math.nan}}, "finite numbers"),
        ({"method": {"step": date(2030, 1, 1)}}, "finite numbers"),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_an_odd_file_is_refused(changes, words):
    with pytest.raises(InvalidScenarioError, match=words):
        consortium_from(table(**changes))


@each(
    ("changes", "words"),
    [
        ({"schema": None}, r"a \[model\] needs a \[schema\]: .*\[schema.columns\]"),
        ({"schema": None, "model": None, "statistics": {}}, r"needs a \[schema\]"),
        ({"model": {"formla": "y ~ x"}}, "did you mean 'formula'"),
        ({"domain": {"kind": "all"}}, r"\[domain\] belongs to a \[cost\]"),
        ({"method": {"name": "dgd"}}, r"\[method\] belongs to a \[cost\]"),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_an_odd_job_is_refused(changes, words):
    with pytest.raises(InvalidScenarioError, match=words):
        consortium_from(job(**changes))


def test_a_grid_is_refused_when_a_file_about_tables_is_read():
    masks = {"law": "lattice", "sigma": 1000.0, "grid": 30}
    with refused("grid-not-accepted", mentions=["[masks] grid"]):
        consortium_from(job(masks=masks))


def nested(depth):
    return [nested(depth - 1)] if depth else []


@each(
    ("changes", "words"),
    [
        (
            {"members": [member(f"m{k}", f"m{k}:1") for k in range(1001)]},
            "1000 members",
        ),
        ({"cost": {"kind": "quadratic", "dim": 10**5}}, "5.0e.09 coefficients"),
        ({"cost": {"kind": "affine", "dim": 10**30}}, "use fewer variables"),
        ({"cost": {"kind": "polynomial", "dim": 90, "degree": 90}}, "coefficients"),
        ({"cost": {"kind": "polynomial", "dim": 1, "degree": 10**30}}, "coefficients"),
        ({"method": {"start": nested(20)}}, r"\[method\] has .* more than 16 deep"),
    ],
    ids=["members", "quadratic", "affine", "both", "degree", "depth"],
)
def test_what_is_too_large_is_refused_before_it_is_made(changes, words):
    with pytest.raises(InvalidScenarioError, match=words):
        consortium_from(table(**changes))


@each("key", ["coefficients", "targets", "matrices", "vectors"])
def test_nobodys_private_entries_get_into_the_file(key):
    """Twin: without them the same file is read."""
    cost = {"kind": "squared-distance", "dim": 2}
    consortium_from(table(cost=cost))
    with refused("cost-not-public", InvalidScenarioError, mentions=(key,)) as caught:
        consortium_from(table(cost={**cost, key: [[41.5, 2.0]]}))
    assert "41.5" not in str(caught.value)


def changed_member(**changes):
    members = table()["members"]
    mine = {**members[1], **changes}
    return [members[0], {k: v for k, v in mine.items() if v is not None}, members[2]]


@each(
    ("changes", "words"),
    [
        ({"name": "ann"}, "one name: 'ann' and 'ann'"),
        ({"name": "Ann"}, "one name: 'ann' and 'Ann'"),
        ({"name": None}, "needs 'name'"),
        ({"name": 3}, "letters, digits"),
        ({"name": "../bob"}, "letters, digits"),
        ({"nme": "bob"}, "did you mean 'name'"),
        ({"certificate": None}, "'bob': it has no certificate"),
        ({"certificate": ""}, "'bob': expected one certificate"),
        ({"certificate": certificate("a") + certificate("b")}, "found 2 of them"),
        ({"certificate": certificate("bob").replace("Y", "Y=")}, "damaged"),
        ({"certificate": "-----BEGIN PRIVATE KEY-----"}, "found a private key"),
        ({"certificate": certificate("ann")}, "one certificate: 'ann' and 'bob'"),
        ({"address": "ANN.example.org:8443"}, "one address: 'ann' and 'bob'"),
        ({"address": "0.0.0.0:8443"}, "nobody can dial it"),
        ({"address": "[::]:8443"}, "nobody can dial it"),
        ({"address": 8443}, "must be a text"),
        ({"address": "ward7"}, "'bob': an address is host:port"),
        ({"address": None}, "the link bob - cem joins two parties without"),
        ({"address": ""}, "the link bob - cem joins two parties without"),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_an_odd_member_is_refused(changes, words):
    with pytest.raises(InvalidScenarioError, match=words):
        consortium_from(table(members=changed_member(**changes)))


def test_two_who_only_dial_may_take_part_without_a_link_between_them():
    edges = [["ann", "bob"], ["ann", "cem"]]
    members = changed_member(address=None)
    found = consortium_from(table(members=members, graph={"edges": edges}))
    assert found.links == (("bob", "ann"), ("cem", "ann"))


# Whether two files are the same


def shuffled(value, order):
    """The same content with keys in another order."""
    if isinstance(value, dict):
        keys = order.sample(list(value), len(value))
        return {key: shuffled(value[key], order) for key in keys}
    if isinstance(value, list):
        return [shuffled(item, order) for item in value]
    return value


@given(order=st.randoms(use_true_random=False), made=st.sampled_from([table, job]))
def test_the_order_of_keys_means_nothing(order, made):
    found, other = consortium_from(made()), consortium_from(shuffled(made(), order))
    assert found.digest == other.digest
    assert found.section_digests == other.section_digests
    assert str(found.to_table()) == str(other.to_table())


def test_how_a_certificate_is_spelt_means_nothing():
    text = certificate("bob").replace("\n", "\r\n").replace("Y", "Y \n")
    found = consortium_from(table(members=changed_member(certificate=text)))
    assert found.digest == consortium_from(table()).digest


CHANGES = {
    "run": RUN[:-1] + "0",
    "title": "another",
    "members": changed_member(certificate=certificate("eve")),
    "graph": {"edges": [["ann", "bob"], ["bob", "cem"]]},
    "masks": {"law": "lattice", "sigma": 1001.0, "grid": 30, "largest": 10.0},
    "cost": {"kind": "affine", "dim": 2},
    "domain": {"kind": "box", "lower": -1, "upper": 2},
    "method": {"name": "dgd", "step": 0.25},
    "stopping": {"iterations": 101},
    "policy": {"tolerate": 1},
}


@each("section", CHANGES)
def test_a_changed_section_is_the_one_that_differs(section):
    found = consortium_from(table())
    other = consortium_from(table(**{section: CHANGES[section]}))
    assert found.digest != other.digest
    assert {
        name
        for name in found.section_digests
        if found.section_digests[name] != other.section_digests[name]
    } == {section}


def test_a_section_that_is_missing_differs():
    found, other = consortium_from(table()), consortium_from(table(policy=None))
    assert set(found.section_digests) - set(other.section_digests) == {"policy"}
    assert found.digest != other.digest
    assert len(found.digest) == 32


def test_the_digest_never_changes_between_versions():
    """Members with different versions must still agree; else raise FORMAT."""
    assert consortium_from(table()).digest.hex() == (
        "1ab3f8c57de7b560b8f1e09a41a600c45563786048bbd7af7fbca2d302c419e2"
    )


def test_a_consortium_does_not_change_with_the_table_it_came_from():
    given = table()
    found = consortium_from(given)
    given["method"]["step"] = 9.0
    assert found.to_table()["method"]["step"] == 0.5


# From a scenario


def scenario(**changes):
    plain = {
        "title": "a plan",
        "graph": {"family": "complete:3"},
        "parties": {"names": ["ann", "bob", "cem"]},
        "cost": {"kind": "affine", "coefficients": [[41.5, 0], [2, 0], [3, 0]]},
        "domain": {"kind": "box", "lower": -1, "upper": 1},
        "masks": {"law": "gaussian", "sigma": 2.0},
        "deployment": {"law": "lattice", "sigma": 500.0, "grid": 30},
        "simulation": {"seed": 0},
    }
    merged = {**plain, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def drafted(names=("ann", "bob", "cem"), addresses=None, **changes):
    everywhere = {name: Address(f"{name}.example.org", 8443) for name in names}
    return consortium_of(
        read_section(scenario(**changes), ScenarioFile, "the scenario"),
        certificates={name: certificate(name) for name in names},
        addresses=everywhere if addresses is None else addresses,
        run=RUN,
    )


def test_a_scenario_becomes_a_consortium_without_its_private_parts():
    found, left_out = drafted()
    assert found.to_table()["cost"] == {"kind": "affine", "dim": 2}
    assert found.to_table()["masks"] == {"law": "lattice", "sigma": 500.0, "grid": 30}
    assert found.to_table()["graph"]["edges"] == [
        *(["ann", "bob"], ["ann", "cem"], ["bob", "cem"])
    ]
    assert "41.5" not in str(found.to_table())
    assert [words.partition(":")[0] for words in left_out] == [
        "[cost] coefficients",
        "[simulation] seed",
        "[masks] law = 'gaussian'",
        "[masks] sigma = 2.0",
    ]


@each(
    ("cost", "public"),
    [
        (
            {"kind": "affine", "remainder": "none", "coefficients": [[1, 2]] * 3},
            {"kind": "affine", "remainder": "none", "dim": 2},
        ),
        (
            {"kind": "squared-distance", "targets": [[1, 2, 3]] * 3},
            {"kind": "squared-distance", "dim": 3},
        ),
        (
            {"kind": "polynomial", "coefficients": [[1, 2, 3, 4, 5]] * 3, "dim": 2},
            {"kind": "polynomial", "dim": 2, "degree": 2},
        ),
        (
            {"kind": "polynomial", "coefficients": [[1, 2, 3]] * 3},
            {"kind": "polynomial", "dim": 1, "degree": 3},
        ),
        (
            {
                "kind": "quadratic",
                "matrices": [[[2, 0], [0, 2]]] * 3,
                "vectors": [[1, 2]] * 3,
            },
            {"kind": "quadratic", "dim": 2},
        ),
        ({"kind": "affine", "dim": 4}, {"kind": "affine", "dim": 4}),
    ],
    ids=lambda cost: cost["kind"],
)
def test_the_size_of_a_cost_is_public(cost, public):
    found, left_out = drafted(cost=cost)
    assert found.to_table()["cost"] == public
    private = {"coefficients", "targets", "matrices", "vectors"} & set(cost)
    named = {words.split()[1].rstrip(":") for words in left_out if "[cost]" in words}
    assert named == private


def test_a_named_coalition_is_left_out_and_that_is_said():
    policy = {"corrupted": ["bob", "cem"], "tolerate": 2, "deadline": 5}
    found, left_out = drafted(policy=policy)
    assert found.to_table()["policy"] == {"tolerate": 2, "deadline": 5}
    (words,) = [line for line in left_out if "[policy]" in line]
    assert words.startswith("[policy] corrupted: ")
    assert words.endswith("tolerate covers every coalition of that size")
    plain, left_out = drafted(policy={"tolerate": 2, "deadline": 5})
    assert plain.digest == found.digest
    assert "corrupted" not in str(left_out)


@each("tolerate", [{}, {"tolerate": 0}, {"tolerate": 1}], ids=str)
def test_a_named_coalition_that_is_not_covered_is_refused(tolerate):
    """Twin: the same policy, with a coalition of the size that is covered."""
    covered = tolerate.get("tolerate", 1)
    drafted(policy={"corrupted": ["ann", "bob"][:covered], **tolerate})
    drafted(policy={"corrupted": ["bob"] * covered * 2, **tolerate})
    size = covered + 1
    with refused(
        "coalition-too-large", InvalidScenarioError, mentions=(size,)
    ) as caught:
        drafted(policy={"corrupted": ["ann", "bob"][:size], **tolerate})
    assert f"holds against {covered} (tolerate)" in str(caught.value)


def test_a_coalition_of_strangers_is_refused():
    with refused("unknown-party", InvalidScenarioError, mentions=("dan",)):
        drafted(policy={"corrupted": ["dan"], "tolerate": 2})


def quadratics(n_matrices, n_vectors):
    return {
        "kind": "quadratic",
        "matrices": [[[1]]] * n_matrices,
        "vectors": [[1]] * n_vectors,
    }


def test_entries_that_do_not_fit_each_other_are_refused():
    for cost, words in (
        ({"kind": "affine", "coefficients": [[1], [1, 2], [3]]}, "bob"),
        ({"kind": "affine", "coefficients": [[1], [2]]}, "one entry for each"),
        ({"kind": "affine", "coefficients": [[1]] * 3, "dim": 2}, "entries have 1"),
        (quadratics(3, 2), "3 matrices and 2 vectors"),
        (quadratics(3, 4), "3 matrices and 4 vectors"),
    ):
        with pytest.raises(InvalidScenarioError, match=words):
            drafted(cost=cost)


@each(
    ("masks", "deployment", "expected"),
    [
        (None, None, {"law": "uniform"}),
        ({"law": "lattice", "sigma": 9.0}, None, {"law": "lattice", "sigma": 9.0}),
        (
            {"law": "lattice", "sigma": 9.0, "grid": 30, "largest": 5.0},
            {"law": "uniform"},
            {"law": "uniform", "grid": 30, "largest": 5.0},
        ),
        (
            {"law": "gaussian", "sigma": 9.0},
            {"law": "lattice", "largest": 5.0},
            {"law": "lattice", "sigma": 9.0, "largest": 5.0},
        ),
        (
            {"law": "lattice", "sigma": 9.0, "grid": 30},
            {"grid": 40},
            {"law": "lattice", "sigma": 9.0, "grid": 40},
        ),
    ],
)
def test_deployments_masks_go_before_the_simulations(masks, deployment, expected):
    found, _ = drafted(masks=masks, deployment=deployment)
    assert found.to_table()["masks"] == expected


def test_masks_for_simulation_are_refused():
    """Twin: `test_a_scenario_becomes_a_consortium_without_its_private_parts`."""
    with refused("law-not-deployable", InvalidScenarioError):
        drafted(deployment=None)


def data_job(**changes):
    gone = dict.fromkeys(["cost", "domain", "parties", "masks", "deployment"])
    mine = {
        "data": {"dataset": "diabetes", "parties": 3},
        "model": {"formula": "y ~ x"},
        "schema": {
            "columns": {
                "x": {"kind": "number", "unit": 0.001},
                "y": {"kind": "number", "unit": 0.001},
            }
        },
    }
    return {**gone, **mine, **changes}


@pytest.mark.parametrize("graph", [None, {"family": "complete:3"}], ids=str)
def test_a_jobs_parties_are_called_by_their_certificates(graph):
    found, left_out = drafted(names=("cem", "ann", "bob"), **data_job(graph=graph))
    assert found.topology.parties == ("cem", "ann", "bob")
    assert found.topology.n_edges == 3
    assert found.to_table()["masks"] == {"law": "uniform"}
    assert "data" not in found.to_table()
    assert left_out[0].startswith("[data]: private")


def test_a_job_names_what_it_does_not_use():
    _, left_out = drafted(**data_job(method={"name": "dgd"}))
    assert "[method]: a [model] does not use it" in left_out


def test_a_job_needs_a_schema_that_is_written_down():
    with refused("missing-section", InvalidScenarioError):
        drafted(**data_job(schema=None))


@pytest.mark.parametrize(
    "column", [{"kind": "number"}, {"kind": "number", "minimum": 0}]
)
def test_real_parties_agree_on_what_they_count_in(column):
    why = r"\[schema\].* column 'x': nobody said .* agree on a unit"
    with pytest.raises(InvalidScenarioError, match=why):
        drafted(**data_job(schema={"columns": {"x": column, "y": {"kind": "integer"}}}))


@each(
    ("changes", "words"),
    [
        ({"names": ("ann", "bob")}, "no certificate of cem: .* identity new"),
        ({"names": ("ann", "bob", "cem", "dan")}, "unknown party 'dan'"),
        ({"addresses": {"anne": Address("a", 1)}}, "did you mean 'ann'"),
        (
            {"addresses": {"cem": Address("a", 1)}},
            "the link ann - bob joins two parties without an address",
        ),
        ({"graph": {"file": "net.txt"}}, "'net.txt', which is not read here"),
        ({"graph": {"family": "complete:4"}}, "expected 4 different party names"),
        ({"deployment": {"adresses": {}}}, "did you mean 'addresses'"),
        ({"deployment": "lattice"}, r"\[deployment\] must be a section"),
        ({"costs": {}}, "did you mean 'cost'"),
        ({"simulation": {"seeds": 1}}, "did you mean 'seed'"),
        ({"model": {"formula": "y ~ x"}}, "found cost, model"),
        ({"cost": {"kind": "afine"}}, "did you mean 'affine'"),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_an_odd_plan_is_refused(changes, words):
    with pytest.raises(InvalidScenarioError, match=words):
        drafted(**changes)


def test_without_any_address_all_meet_through_files():
    agreed, _ = drafted(addresses={})
    assert agreed.by_files
    assert not drafted()[0].by_files


def test_a_graph_with_one_way_links_is_refused():
    arcs = Topology.from_edges([("ann", "bob"), ("bob", "cem")], directed=True)
    names = arcs.parties
    with refused("directed-graph", InvalidScenarioError):
        consortium_of(
            read_section(
                scenario(graph={"file": "net"}, parties=None), ScenarioFile, ""
            ),
            certificates={name: certificate(name) for name in names},
            addresses={name: Address(name, 1) for name in names},
            run=RUN,
            read_graph=lambda name, weight: arcs,
        )


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (1.0, 4.0, 0.25)])
def test_a_graph_s_weights_are_agreed_on_unless_all_are_one(weights):
    """One link as usual does not make the others so."""
    names = ("ann", "bob", "cem")
    pairs = list(combinations(names, 2))
    graph = Topology.from_edges(pairs, parties=names, weights=weights)
    found, _ = consortium_of(
        read_section(scenario(graph={"file": "net"}, parties=None), ScenarioFile, ""),
        certificates={name: certificate(name) for name in names},
        addresses={name: Address(name, 1) for name in names},
        run=RUN,
        read_graph=lambda name, weight: graph,
    )
    assert found.topology == graph
    assert ("weights" in found.to_table()["graph"]) == (set(weights) != {1.0})


@each("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_every_example_can_be_agreed_on(path):
    plan = tomllib.loads(path.read_text("utf-8"))
    family = Topology.family(plan["graph"]["family"])
    names = plan.get("parties", {}).get("names", family.parties)
    if plan.get("masks", {}).get("law") == "gaussian":
        plan["deployment"] = {"law": "lattice", "sigma": 1e6}
    draft = study_of_scenario_file if "question" in plan else consortium_of
    found, left_out = draft(
        read_section(plan, ScenarioFile, "the scenario"),
        certificates={name: certificate(name) for name in names},
        addresses={name: Address(f"h{name}", 1) for name in names},
        run=RUN,
    )
    assert runs_of_agreement(found)[0].topology == family.renamed(names)
    assert not {"data", "simulation"} & set(found.to_table())
    assert any("simulation" in words for words in left_out)


@each(
    "waits",
    [
        {"resend": 1e-6},
        {"resend": 0.001, "deadline": 0.001},
        {"deadline": 1e9},
        {"meeting": -1},
        {"meeting": 1e9},
        {"patience": 0},
        {"patience": 10**9},
        {"resend": 60.0, "deadline": 30.0},
        {"resend": float("nan")},
        {"deadline": float("inf")},
    ],
    ids=str,
)
def test_waits_that_nobody_should_be_held_to_are_refused(waits):
    """Others' machines ask each other that often, and stay that long."""
    with pytest.raises(InvalidScenarioError, match=r"\[policy\]"):
        read_section(waits, PolicySection, "[policy]")
    assert read_section({"resend": 0.01, "deadline": 0.01}, PolicySection, "[policy]")
