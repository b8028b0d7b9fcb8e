"""An audit of a run that took place: nothing that it writes holds a party's number."""

import pytest
from click.testing import CliRunner

from net.runs import ONE_SHOT, answers, changed
from party.test_transcript_file import Tapped
from veilsum.audit import auditing
from veilsum.cli.app import app
from veilsum.net.identity import read_identity
from veilsum.party.transcript_file import write_transcript

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

MARKERS = [[713.4375, -288.8125], [911.0625, 377.5625], [-655.1875, 149.3125]]
MARKERS.append([-507.6875, 823.9375])
ASKED = ("--depth", "quick", "--executions", "200", "--coalitions", "b,d")


def spellings(values):
    """How a number, or twice of it as a coefficient, may stand in a file."""
    for one in values:
        for number in (one, -one, 2 * one, -2 * one, one * one):
            yield from (f"{number!r}", f"{number:.4f}", f"{abs(number):.3f}")
            yield str(int(number * 2**24))


@pytest.mark.slow
def test_no_number_of_a_party_is_in_anything_that_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(auditing, "PLANTED", {})  # which take long, and write no more
    table = changed(ONE_SHOT, cost={"targets": MARKERS})
    company = Tapped(tmp_path, table)
    answers(company.run())
    words, found = [], company.transcripts()
    for name in ("b", "d"):
        key = company.folder(name) / f"{name}.key"
        path = company.folder(name) / "mine"
        run = company.consortium.run
        write_transcript(path, found[name], read_identity(key), run=run)
        words += ["--transcript", path, key]
    out, file = tmp_path / "out", company.folder("b") / "consortium.toml"
    words = ["audit", file, *ASKED, *words, "--out", out, "--identity", words[2]]
    said = CliRunner().invoke(app, [*map(str, words)])
    assert said.exit_code == 0, said.output
    assert "can compute the sum of a, c exactly" in " ".join(said.output.split())
    written = [path.read_bytes() for path in out.iterdir()]
    assert len(written) > 1
    # Everybody's: members' own numbers, others', shares and masked ones.
    numbers = [*spellings(one for row in MARKERS for one in row)]
    for exchange in found["b"].rounds:
        vectors = [one for part in exchange.held.values() for one in part.values()]
        numbers += [str(one) for vector in vectors for one in vector.tolist()]
    for content in (said.output.encode(), *written):
        assert not [one for one in numbers if len(one) > 4 and one.encode() in content]
    # The search would find them: they are in the parties' own files.
    own = company.folder("b") / company.seats["b"].option[1]
    assert any(one in own.read_text() for one in numbers)


def test_a_transcript_of_another_run_is_refused(tmp_path):
    company = Tapped(tmp_path, ONE_SHOT)
    answers(company.run())
    key, path = company.folder("b") / "b.key", tmp_path / "mine"
    mine = company.transcripts()["b"]
    write_transcript(path, mine, read_identity(key), run="another")
    file = company.folder("b") / "consortium.toml"
    words = ["audit", file, *ASKED, "--transcript", path, key]
    said = CliRunner().invoke(app, [*map(str, words)])
    assert said.exit_code == 2
    assert "transcript of another run" in said.output
