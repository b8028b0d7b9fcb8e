"""Sizes are bounded before work is done: a small file cannot hang a party.

Whoever organises a run writes the file that all others read, and a party reads it
before it is asked whether to take part. Each file here once took minutes or gigabytes;
it must be refused by a sentence, or its work counted and kept within bounds.
"""

import os
import tomllib
from pathlib import Path

import pytest

from veilsum.errors import InvalidGraphError, InvalidInputError, InvalidScenarioError
from veilsum.files.consortiums import read_certificate, read_consortium
from veilsum.files.graphs import read_topology
from veilsum.files.scenarios import MOST_DOTS, read_scenario, read_toml
from veilsum.net.receipt import read_receipt

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
    for reader in (read_toml, read_scenario, read_consortium):
        with pytest.raises(InvalidScenarioError, match="more than 20 dots"):
            reader(write(text))


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_dots_elsewhere_are_no_key(write, text):
    assert read_toml(write(text)) == tomllib.loads(text)


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
        read_toml(write(text))


def test_the_largest_number_is_read(write):
    assert read_toml(write(f"a = {2**1022}")) == {"a": 2**1022}


READERS = {
    "scenario": read_toml,
    "consortium": read_consortium,
    "certificate": read_certificate,
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
        with pytest.raises(InvalidInputError, match="expected an ordinary file"):
            reader(path)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_file_that_is_too_large_is_not_opened(reader, tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate((64 << 20) + 1)  # a hole: it takes no room
    with pytest.raises(InvalidInputError, match="are the most for a file"):
        reader(path)


def test_a_file_that_is_no_graph_is_not_quoted(write):
    for text in ("root:secret:0 a b c d", "a b secret"):
        with pytest.raises(InvalidGraphError, match="line 1") as refusal:
            read_topology(write(text, "passwd"))
        assert "secret" not in str(refusal.value)


def test_deep_json_is_refused_in_a_sentence(write):
    with pytest.raises(InvalidGraphError, match="too deep to be read"):
        read_topology(write("[" * 100_000, "graph.json"))
