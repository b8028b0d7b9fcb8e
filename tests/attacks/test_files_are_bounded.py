"""Sizes are bounded before work is done: a small file cannot hang a party.

Whoever organises a run writes the file that all others read, and a party reads it
before it is asked whether to take part. Each file here once took minutes or gigabytes;
it must be refused by a sentence, or its work counted and kept within bounds.
"""

import difflib
import os
import tomllib
from itertools import combinations, product
from pathlib import Path

import networkx as nx
import pytest

from cases import each
from refusals import refused
from veilsum.consortium.costs import PublicCost
from veilsum.consortium.sections import MasksSection, PolicySection, policy_of_section
from veilsum.errors import InvalidGraphError, InvalidInputError, InvalidScenarioError
from veilsum.files.consortiums import read_certificate_file, read_consortium
from veilsum.files.graphs import read_topology
from veilsum.files.scenarios import MOST_DOTS, read_scenario, read_toml_file
from veilsum.graphs import symmetry
from veilsum.graphs.symmetry import is_vertex_transitive
from veilsum.graphs.topology import Topology
from veilsum.net.receipt import read_receipt
from veilsum.numbers.arrays import nearest_name
from veilsum.privacy import coalitions
from veilsum.privacy.coalitions import LEAST_PER_TEST, CoalitionSearch
from veilsum.privacy.remaining import mu2_values_without_coalitions
from veilsum.reading import read_section
from veilsum.tables.formula import reader as formula
from veilsum.tables.formula.reader import read_formula
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Schema

LONG_KEYS = {
    "a key": ".".join("a" * 200) + " = 1",
    "spaced": " . ".join("a" * 200) + " = 1",
    "quoted": ".".join(['"a"', "'a'"] * 100) + " = 1",
    "a heading": "[" + ".".join("a" * 200) + "]",
    "a heading of lists": "[[" + ".".join("a" * 200) + "]]",
    "inside braces": "a = {" + ".".join("a" * 200) + " = 1}",
    "after a text": 'b = """x"""\n' + ".".join("a" * 200) + " = 1",
    "after an open text's line": 'b = "x\n' + ".".join("a" * 200) + " = 1",
}
HARMLESS = {
    "numbers": f"a = [{', '.join(['1.5'] * 500)}]",
    "a sentence": f'a = "{"." * 500}"',
    "with escapes": 'a = "\\"' + "." * 500 + '"',
    "a literal": f"a = '{'a.' * 500}'",
    "several lines": f'a = """\n{"a." * 500}\n"{"a." * 500}"""',
    "literal lines": f"a = '''\n{'a.' * 500}\n'{'a.' * 500}'''",
    "a comment": f"a = 1 # {'a.' * 500}",
    "the longest": ".".join("a" * (MOST_DOTS + 1)) + " = 1",
}


@pytest.fixture
def write(tmp_path):
    def put(text, name="file.toml"):
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return put


@pytest.mark.parametrize("text", LONG_KEYS.values(), ids=LONG_KEYS)
def test_a_key_of_many_parts_never_reaches_the_parser(write, text, monkeypatch):
    # The parser takes the square of its length, in time and in memory.
    monkeypatch.setattr(tomllib, "loads", lambda _: pytest.fail("it was parsed"))
    for reader in (read_toml_file, read_scenario, read_consortium):
        with refused("nested-too-deep", InvalidScenarioError, mentions=("20",)):
            reader(write(text))


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_dots_elsewhere_are_no_key(write, text):
    assert read_toml_file(write(text)) == tomllib.loads(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"a = {'9' * 5000}", "is not valid TOML"),
        (f"a = 0x{'f' * 20_000}", "whole number beyond 1e308"),
        (f"a = [[{2**1023}]]", "whole number beyond 1e308"),
        (f"a = {'[' * 90}{']' * 90}", "more than 64 deep"),
        (f"a = {'[' * 50_000}{']' * 50_000}", "too deep to be read"),
        ("a = 9999-99-99", "is not valid TOML"),
    ],
)
def test_numbers_and_nesting_are_refused_in_a_sentence(write, text, words):
    with pytest.raises(InvalidScenarioError, match=words):
        read_toml_file(write(text))


def test_the_largest_number_is_read(write):
    assert read_toml_file(write(f"a = {2**1022}")) == {"a": 2**1022}


READERS = {
    "scenario": read_toml_file,
    "consortium": read_consortium,
    "certificate": read_certificate_file,
    "graph": read_topology,
    "receipt": read_receipt,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_only_an_ordinary_file_is_read(reader, tmp_path):
    # Opening a pipe that nobody writes to would wait forever.
    odd = [tmp_path]
    if os.name == "posix":
        os.mkfifo(tmp_path / "pipe")
        odd += [tmp_path / "pipe", Path("/dev/zero")]
    for path in odd:
        with refused("not-a-file"):
            reader(path)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_file_that_is_too_large_is_not_opened(reader, tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate((64 << 20) + 1)  # a hole: it takes no room
    with refused("file-too-large"):
        reader(path)


def test_a_file_that_is_no_graph_is_not_quoted(write):
    for text in ("root:secret:0 a b c d", "a b secret"):
        with refused(
            "wrong-graph-format", InvalidGraphError, mentions=("1",)
        ) as refusal:
            read_topology(write(text, "passwd"))
        assert "secret" not in str(refusal.value)


def test_deep_json_is_refused_in_a_sentence(write):
    with refused("nested-too-deep", InvalidGraphError):
        read_topology(write("[" * 100_000, "graph.json"))


def names(count):
    """Return names of one letter each."""
    return [chr(0x4E00 + place) for place in range(count)]


def groups(count, size):
    each = iter(names(count * size))
    return ":".join(
        f"({'+'.join(next(each) for _ in range(size))})" for _ in "x" * count
    )


@each(
    "text",
    [
        f"y~{':'.join(names(2500))}:{groups(3, 17)}",
        f"y~{':'.join(names(21))}",
        f"y~{'*'.join(names(21))}",
        f"y~({'+'.join(names(2500))})/x",
        f"y~x %in% ({'+'.join(names(21))})",
    ],
)
def test_the_factors_of_a_term_are_few(text):
    with pytest.raises(InvalidInputError, match=r"more than 20 factors|terms, and"):
        read_formula(text)


def test_a_product_of_long_terms_is_charged_by_its_factors(monkeypatch):
    made = []
    check = formula._FormulaReader._check_factors
    monkeypatch.setattr(
        formula._FormulaReader,
        "_check_factors",
        lambda self, term: (made.append(len(term)), check(self, term)),
    )
    long = ":".join(names(16))
    with refused("too-many-terms"):
        read_formula(f"y~{long}:{groups(4, 17)}")
    assert sum(made) <= 200_000
    assert len(read_formula(f"y~({'+'.join(names(12))})**4").right) == 794


def test_a_wrong_number_is_looked_at_once():
    # Each of its digits once began another try at the rest.
    for text in ("1" * 9990 + "x", "1" * 4990 + "." + "1" * 4990 + ".", "1e" * 4000):
        (token,) = formula._FormulaReader(text).tokens
        assert (token.kind, token.text) == ("wrong", text)
        with refused("unreadable-formula"):
            read_formula(f"y~{text}")


@each("text", ["1", "1.", ".5", "1.5e-3", "2E+10", "1.e5"])
def test_a_number_is_a_number(text):
    (token,) = formula._FormulaReader(text).tokens
    assert (token.kind, token.text) == ("number", text)


def test_a_sum_of_a_thousand_terms_is_put_together_in_place(monkeypatch):
    monkeypatch.setattr(
        formula, "_unite_formula_terms", lambda *_: pytest.fail("all were copied")
    )
    assert len(read_formula(f"y~{'+'.join(names(990))}").right) == 991
    text = "+".join(names(480))
    assert read_formula(f"y~{text}-{text.replace('+', '-')}").right == ((),)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("a" * 61, ["a" * 60]),
        ("a" * 59, ["a" * 61]),
        ("ring", ["rings"] * 201),
    ],
)
def test_names_that_take_long_are_not_compared(name, known, monkeypatch):
    seen = []
    monkeypatch.setattr(
        difflib, "get_close_matches", lambda _, names, **__: seen.extend(names) or []
    )
    assert nearest_name(name, known) == ""
    assert not seen


def test_coalitions_are_made_a_few_at_a_time(monkeypatch):
    # All 13 of 40 are 12 billion; they were once listed before any was charged for.
    topology = Topology.family("circulant:40:1,2,3,4,5,6,7,8")
    held = []
    clear = CoalitionSearch._clear_waiting
    monkeypatch.setattr(
        CoalitionSearch,
        "_clear_waiting",
        lambda self: (held.append(sum(map(len, self._waiting))), clear(self)),
    )
    search = CoalitionSearch(topology, 13, 500.0)
    found = search.run()
    assert not found.exact
    assert found.lower <= found.upper
    assert 0 < max(held) <= 2 * search._batch
    assert sum(held) <= 3 * 500.0


def test_a_set_is_charged_for_however_few_parties_it_leaves():
    topology = Topology.family("complete:30")
    search = CoalitionSearch(topology, 27, 50.0)
    search.run()
    assert search._test_cost == LEAST_PER_TEST


@pytest.mark.parametrize("size", [20, 75])
def test_an_attack_ends_when_its_work_is_done(size, monkeypatch):
    offsets = ",".join(map(str, range(1, 51)))
    topology = Topology.family(f"circulant:150:{offsets}")
    adjacency = topology.adjacency.toarray()
    solved = []
    monkeypatch.setattr(
        coalitions,
        "mu2_values_without_coalitions",
        lambda matrix, sets: (
            solved.append(len(sets)),
            mu2_values_without_coalitions(matrix, sets),
        )[1],
    )
    monkeypatch.setattr(coalitions, "MOST_PER_ATTACK", 1e8)
    found = coalitions.attack_mu2_by_coalition(adjacency, size)
    assert len(set(found)) == size
    assert sum(solved) * 75**3 <= 1e8


@each(
    ("spec", "alike"),
    [
        *((one, True) for one in ("petersen", "ring:128", "complete:64")),
        *((one, True) for one in ("hypercube:6", "circulant:63:1,4,7,20,31")),
        *((one, False) for one in ("karate", "regular:60:8", "wheel:9")),
    ],
)
def test_symmetries_are_found(spec, alike):
    assert is_vertex_transitive(Topology.family(spec)) is alike


def test_symmetries_that_are_hard_to_find_are_left(monkeypatch):
    # Two graphs of the same numbers side by side: 16 parties of 6 links each, any two
    # with 2 neighbours in common, and yet no symmetry takes one to the other.
    rook = nx.line_graph(nx.complete_bipartite_graph(4, 4))
    steps = {(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)}
    places = list(product(range(4), repeat=2))
    shrikhande = nx.Graph(
        (a, b)
        for a, b in combinations(places, 2)
        if ((a[0] - b[0]) % 4, (a[1] - b[1]) % 4) in steps
    )
    both = nx.complement(nx.disjoint_union(rook, shrikhande))
    assert not is_vertex_transitive(Topology.from_networkx(both))
    monkeypatch.setattr(symmetry, "LOOKS_PER_PARTY", 0)
    assert not is_vertex_transitive(Topology.family("hypercube:5"))


@pytest.mark.parametrize(
    "keys",
    [
        {"kind": "affine", "dim": 10**8},
        {"kind": "squared-distance", "dim": 10**10},
        {"kind": "quadratic", "dim": 20_000},
        {"kind": "quadratic", "dim": 10**200},
        {"kind": "polynomial", "dim": 60, "degree": 5},
        {"kind": "polynomial", "dim": 1, "degree": 10_000},
        {"kind": "polynomial", "dim": 10**30, "degree": 10**30},
    ],
)
def test_a_cost_that_is_too_large_is_never_made(keys, monkeypatch):
    monkeypatch.setattr(PublicCost, "stand_in", lambda _: pytest.fail("it was made"))
    with refused("too-many-coefficients", InvalidScenarioError):
        PublicCost(**keys)


@pytest.mark.parametrize(
    "spec",
    [
        "complete:3000",
        "circulant:1000000:" + ",".join(map(str, range(1, 400))),
        "regular:3000:1500",
        "regular:100000:30",
        "barbell:3000:3000",
        "barbell:1500:1500",
        "regular:1000:500",
    ],
)
def test_the_links_of_a_family_are_counted_before_one_is_made(spec, monkeypatch):
    for name in ("complete", "circulant", "random_regular"):
        monkeypatch.setattr(
            nx, f"{name}_graph", lambda *_, **__: pytest.fail("it was made")
        )
    with pytest.raises(InvalidGraphError, match=r"links, and at most|too long to draw"):
        Topology.family(spec)


BEYOND = [
    *(("policy", {"release_fraction": one}) for one in (1e9, 1.0001, 0, -1, 10**300)),
    *(("policy", {"minimum_honest": one}) for one in (0, 1, -3, 10**9)),
    *(("policy", {"tolerate": one}) for one in (-1, 10**9)),
    *(("policy", {"most_rounds": one}) for one in (0, 101, 10**9)),
    *(("policy", {"resend": one}) for one in (0, 1e-9, 1e9)),
    *(("policy", {"deadline": one}) for one in (0, 1e9, 10**300)),
    *(("policy", {"meeting": one}) for one in (-1, 1e9)),
    *(("policy", {"patience": one}) for one in (0, 10**9)),
    *(("policy", {"maximum_columns": one}) for one in (-1, 2, 1e300)),
    *(("policy", {"maximum_influence": one}) for one in (-1, 1.5)),
    *(("policy", {"minimum_count": one}) for one in (-1, 10**12)),
    ("masks", {"law": "uniform", "largest": 1e308}),
    ("masks", {"law": "lattice", "sigma": 1e120, "grid": 40}),
    ("masks", {"law": "lattice", "sigma": [1.0, 1e120], "grid": 40}),
    ("masks", {"law": "lattice", "sigma": 1.0, "grid": 10**9}),
]


@each(("heading", "keys"), BEYOND, ids=map(str, BEYOND))
def test_what_a_file_says_is_bounded(heading, keys):
    kind = {"policy": PolicySection, "masks": MasksSection}[heading]
    with pytest.raises(InvalidScenarioError, match=rf"\[{heading}\]"):
        getattr(read_section(keys, kind, f"[{heading}]"), heading)
    # Who calls Python with numbers of its own may go further.
    assert Rules(release_fraction=1e9, most_rounds=1000).release_fraction == 1e9
    assert policy_of_section(minimum_honest=1).minimum_honest == 1


@each("rows", [0, -1, 10**9 + 1, 10**300])
def test_a_schema_has_no_more_rows_than_there_can_be(rows):
    column = {"x": {"kind": "number", "unit": 1}}
    for key in ("minimum_rows", "maximum_rows"):
        with refused("row-limit-out-range", mentions=(key,)):
            Schema.from_table({key: rows, "columns": column})
