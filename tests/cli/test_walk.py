"""The modules that the consortium file visits between `veilsum join` and a message.

A module is visited when a function of it is given a `Consortium`, holds one in a local
name, returns one, or reads a field of one. The last place before the first message is
the greeting of a neighbour.
"""

import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack
from subprocess import DEVNULL

import pytest
from click.testing import CliRunner

from cli.test_join import with_others, with_tables
from net.runs import ONE_SHOT, Company, changed
from surveyors import Surveyors
from veilsum.cli.app import app
from veilsum.consortium.consortium import Consortium
from veilsum.files.consortiums import write_consortium

pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")

FEWER_THAN = 15
LAST = "exchange_hellos"


class Walk:
    """Notes functions that handle a consortium, by module, until a party greets."""

    def __init__(self):
        self.visited, self.over = defaultdict(set), False

    def __enter__(self):
        reads = Consortium.__getattribute__

        def noting(consortium, name):
            self._note(sys._getframe(1))
            return reads(consortium, name)

        Consortium.__getattribute__ = noting
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        del Consortium.__getattribute__

    def _look(self, frame, event, value):
        if self.over or event not in ("call", "return"):
            return
        self._hold(frame, value)
        if frame.f_code.co_name == LAST:
            while frame is not None:  # functions that have not returned yet
                self._hold(frame, None)
                frame = frame.f_back
            self.over = True

    def _hold(self, frame, value):
        if any(type(one) is Consortium for one in (value, *frame.f_locals.values())):
            self._note(frame)

    def _note(self, frame):
        module = frame.f_globals.get("__name__", "")
        if not self.over and module.startswith("veilsum."):
            self.visited[module].add(frame.f_code.co_name)


def with_costs(folder):
    patient = {"meeting": 600.0, "deadline": 300.0}
    return Company(folder, changed(ONE_SHOT, policy=patient))


@pytest.mark.parametrize("parties", [with_costs, with_tables])
def test_a_consortium_file_visits_few_modules(parties, tmp_path):
    company = parties(tmp_path)
    with Walk() as walk:
        found = with_others(company, "a", "--yes")
    assert found.exit_code == 0, found.stderr
    check(walk)


def test_the_file_of_a_survey_visits_few_modules(tmp_path):
    company, joined = Surveyors(tmp_path, policy={"tolerate": 1}), []
    with ExitStack() as stack:
        for name in company.names:
            folder = company.folder(name)
            write_consortium(folder / "closed.toml", company.consortium)
            words = ["join", folder / "closed.toml", "--data", folder, "--yes"]
            joined.append([*map(str, words), "--out", str(folder / "out")])
        for words in joined[1:]:
            program = [sys.executable, "-m", "veilsum", *words]
            other = subprocess.Popen(program, stdout=DEVNULL, stderr=DEVNULL)
            stack.callback(other.wait)
            stack.callback(other.terminate)
        with Walk() as walk:
            found = CliRunner().invoke(app, joined[0], catch_exceptions=False)
    assert found.exit_code == 0, found.stderr
    check(walk)


def check(walk):
    assert walk.over
    assert {"veilsum.cli.join", "veilsum.net.links"} <= walk.visited.keys()
    assert len(walk.visited) < FEWER_THAN, "\n".join(sorted(walk.visited))
