"""A party in a study as a process of its own, with histories, that may kill itself."""

from __future__ import annotations

import os
import signal
import traceback
from pathlib import Path

from histories import POINTS, Recorder
from veilsum.files.consortiums import read_agreement
from veilsum.net.identity import read_identity
from veilsum.party.run import PartyInputs
from veilsum.party.run_status import EventFeed
from veilsum.party.studying import StudyStatus, prepare_study


class Steps:
    """Counts what happens in all questions and between them; dies after so many."""

    def __init__(self, folder, party, kill_after):
        self._folder, self._party, self._left = folder, party, kill_after
        self._recorders, self.count = {}, 0

    def step(self):
        self.count += 1
        if self.count == self._left:
            os.kill(os.getpid(), signal.SIGKILL)

    def note(self, run, what, detail, peer):
        if run not in self._recorders:
            path = self._folder / f"history-{run[-8:]}"
            self._recorders[run] = Recorder(path, self._party)
        self._recorders[run](what, detail, peer)
        if what in POINTS or what == "closed":
            self.step()


def watched(steps):
    """Have everything told that happens in a run, and every writing between them."""
    note, write = EventFeed.note, StudyStatus.write

    def noted(self, what, detail, peer):
        steps.note(self.last.run, what, detail, peer)
        note(self, what, detail, peer)

    def written(self, folder):
        steps.step()
        write(self, folder)
        steps.step()

    EventFeed.note, StudyStatus.write = noted, written


def take_part(folder, kill_after):
    """Take part in a folder made by veilsum.party.local; die after so many steps."""
    os.chdir(folder)
    here = Path(folder)
    try:
        (key,) = here.glob("*.key")
        identity = read_identity(key)
        steps = Steps(here, identity.name, kill_after)
        watched(steps)
        prepare_study(
            read_agreement(here / "consortium.toml"),
            identity,
            PartyInputs(data=here / "data.csv", out=here / "out"),
        ).run(lambda page: page is not None)
        (here / "steps").write_text(str(steps.count))
    except BaseException:
        (here / "error").write_text(traceback.format_exc())
        raise
