"""Consortium files: what is written is what is read, beside the files a plan names."""

import re
import subprocess
import sys
import tomllib

import pytest
from hypothesis import given, strategies as st

from refusals import refused
from veilsum.consortium.consortium import (
    Address,
    canonical_agreement_json,
    consortium_from,
    plain_agreement_value,
)
from veilsum.consortium.pem import pem_of_der
from veilsum.errors import (
    InvalidInputError,
    InvalidScenarioError,
    OutputError,
    is_seen,
)
from veilsum.files.consortiums import (
    draft_consortium,
    new_run_name_for_file,
    read_consortium,
    toml_text_of_table,
    write_consortium,
)
from veilsum.graphs.topology import Topology

PLAN = """\
title = "A plan"
[graph]
file = "net.txt"
weight = "weight"
[cost]
kind = "squared-distance"
targets = [[41.5], [2.0], [3.0]]
[domain]
kind = "all"
[masks]
law = "gaussian"
sigma = 1.0
[deployment]
law = "lattice"
sigma = 1e6
largest = 100.0
[deployment.addresses]
ann = "ann.example.org:8443"
bob = "bob.example.org:8443"
cem = ""
[deployment.certificates]
ann = "keys/ann.crt"
bob = "keys/bob.crt"
cem = "keys/cem.crt"
"""


def certificate(name):
    return pem_of_der(f"the certificate of {name}".encode())


def consortium(**sections):
    members = [
        {"name": name, "certificate": certificate(name), "address": f"{name}:1"}
        for name in ("ann", "bob")
    ]
    table = {
        "format": 1,
        "run": new_run_name_for_file("a test"),
        "members": members,
        "graph": {"edges": [["ann", "bob"]]},
        "masks": {"law": "uniform"},
        "statistics": {"columns": ["x"]},
        "schema": {"columns": {"x": {"kind": "number", "unit": 0.001}}},
    }
    return consortium_from({**table, **sections})


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "keys").mkdir()
    for name in ("ann", "bob", "cem"):
        (tmp_path / "keys" / f"{name}.crt").write_text(certificate(name))
    (tmp_path / "net.txt").write_text("ann bob 2\nbob cem 1\nann cem 1\n")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


seen = st.characters(categories=["L", "M", "N", "P", "S"]).filter(is_seen)
words = st.text(seen | st.sampled_from(" \n\t"), max_size=20)
numbers = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False).filter(
    lambda x: abs(x) < 1e308
)
values = st.recursive(
    words | numbers | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3)
    ),
    max_leaves=6,
)
# One line that can be seen, and nothing in it that looks like another line.
titles = st.lists(
    st.text(seen, min_size=1),
    min_size=1,
).map(lambda parts: " ".join(parts)[:200].strip())


@given(content=st.dictionaries(words, values, max_size=4))
def test_whatever_is_plain_survives_the_file(content):
    """Whatever a text contains, and however values lie in each other."""
    spelt = {
        key: plain_agreement_value(value, "a section") for key, value in content.items()
    }
    assert canonical_agreement_json(
        tomllib.loads(toml_text_of_table(spelt))
    ) == canonical_agreement_json(spelt)


@given(title=titles, edges=st.lists(numbers, min_size=2, max_size=4))
def test_what_is_written_is_what_is_read(tmp_path_factory, title, edges):
    """Whatever members agree on."""
    made = consortium(title=title, statistics={"histograms": {"x": edges}})
    path = tmp_path_factory.mktemp("files") / "a.veil"
    write_consortium(path, made)
    found = read_consortium(path)
    assert found.digest == made.digest
    assert found.to_table() == made.to_table()


def test_a_file_from_another_system_is_the_same(tmp_path):
    made, path = consortium(), tmp_path / "a.veil"
    write_consortium(path, made)
    assert any("\n" in member.certificate for member in made.members)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_consortium(path).digest == made.digest


def test_a_consortium_file_is_never_replaced(tmp_path):
    path = tmp_path / "a.veil"
    made = consortium()
    write_consortium(path, made)
    with refused("file-exists", OutputError):
        write_consortium(path, consortium())
    assert read_consortium(path).digest == made.digest
    with refused("cannot-write", OutputError):
        write_consortium(tmp_path / "no folder" / "a.veil", made)


def test_a_refusal_names_the_file(tmp_path):
    path = tmp_path / "a.veil"
    with refused("cannot-read"):
        read_consortium(path)
    write_consortium(path, consortium())
    path.write_text(path.read_text().replace("uniform", "none"))
    with refused("law-not-deployable", InvalidScenarioError):
        read_consortium(path)


def test_no_two_runs_have_one_name():
    names = {new_run_name_for_file("Wages, 1987: Michigan") for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch("wages-1987-michigan-[0-9a-f]{32}", one) for one in names)
    assert re.fullmatch("[0-9a-f]{32}", new_run_name_for_file("")) is not None


@given(title=words)
def test_every_title_makes_a_name_that_is_accepted(title):
    assert consortium(run=new_run_name_for_file(title)).run


def test_a_plan_finds_graph_and_certificates_beside_it(plan):
    found, left_out = draft_consortium(plan)
    assert found.run.startswith("a-plan-")
    assert found.certificates == {
        name: certificate(name) for name in ("ann", "bob", "cem")
    }
    edges = [("ann", "bob"), ("bob", "cem"), ("ann", "cem")]
    assert found.topology == Topology.from_edges(edges, weights=[2.0, 1.0, 1.0])
    assert found.links == (("ann", "bob"), ("cem", "ann"), ("cem", "bob"))
    assert found.to_table()["cost"] == {"kind": "squared-distance", "dim": 1}
    assert left_out[0].startswith("[cost] targets: private")


def test_what_is_given_goes_before_what_the_plan_says(plan):
    (plan.parent / "keys" / "ann.crt").unlink()  # not needed then
    found, _ = draft_consortium(
        plan,
        certificates={"ann": certificate("ann again")},
        addresses={"bob": None, "cem": Address("cem.example.org", 1)},
    )
    assert found.certificates["ann"] == certificate("ann again")
    assert found.links == (("bob", "ann"), ("ann", "cem"), ("bob", "cem"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("keys/bob.crt", "keys/eve.crt", r"cannot read .*eve\.crt"),
        ("keys/bob.crt", "net.txt", r"net\.txt: expected one certificate"),
        ('"ann.example.org:8443"', "8443", "one text for each party"),
        ("ann.example.org:8443", "ann.example.org", "an address is host:port"),
        ("net.txt", "gone.txt", r"gone\.txt"),
    ],
)
def test_what_a_plan_names_must_be_there(plan, old, new, expected):
    plan.write_text(PLAN.replace(old, new))
    with pytest.raises(InvalidInputError, match=expected):
        draft_consortium(plan)


def test_without_the_package_the_extra_is_named(tmp_path):
    code = (
        "import sys; sys.modules['tomli_w'] = None\n"
        "from veilsum.errors import MissingExtraError\n"
        "from veilsum.files.consortiums import toml_text_of_table\n"
        "try:\n    toml_text_of_table({})\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    words = [sys.executable, "-c", code]
    found = subprocess.run(words, check=False, capture_output=True, text=True)
    assert ".[net]" in found.stdout, found.stderr
