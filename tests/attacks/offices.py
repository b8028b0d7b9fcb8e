"""A party that is sent files, one after the other, and types `veilsum join` for each.

Everything goes through commands, as people use them: keys are made, an organiser writes
plans, and the party answers or takes part. The others are never there: that it would
take part shows in its waiting for them.
"""

from __future__ import annotations

import logging
import tempfile
from functools import cache
from pathlib import Path

import tomli_w
from click.testing import CliRunner

from veilsum.cli.app import app

NAMES = ("ann", "bob", "cem", "dee")
# Nobody comes, and nobody waits long.
HASTY = {"meeting": 0.01, "deadline": 0.01, "patience": 1, "resend": 0.01}


def called(*words, answer=None):
    """What a command prints, and how it ends; loggers are left as they were."""
    logs = [logging.getLogger(name) for name in ("veilsum.net", "asyncio")]
    before = [(log.handlers[:], log.propagate, log.level) for log in logs]
    try:
        return CliRunner().invoke(app, [*map(str, words)], input=answer)
    finally:
        for log, (handlers, propagate, level) in zip(logs, before, strict=True):
            log.handlers[:], log.propagate = handlers, propagate
            log.setLevel(level)


@cache
def keys():
    """Everybody's key and certificate, made once."""
    folder = Path(tempfile.mkdtemp())
    for name in NAMES:
        made = called("identity", "new", name, "--folder", folder)
        assert made.exit_code == 0, made.output
    return folder


class Office:
    """One party's folder: its key, its table, and the files that it was sent."""

    def __init__(self, folder, table):
        self.folder, self.n_files = Path(folder), 0
        self.data = self.folder / "own.csv"
        table.to_csv(self.data, index=False)
        key = keys() / "ann.key"
        (self.folder / key.name).write_bytes(key.read_bytes())
        (self.folder / key.name).chmod(0o600)
        crt = key.with_suffix(".crt")
        (self.folder / crt.name).write_bytes(crt.read_bytes())

    def file(self, plan):
        """Return a consortium file that an organiser has made of a plan."""
        self.n_files += 1
        path = self.folder / f"plan-{self.n_files}.toml"
        place = self.folder / f"study-{self.n_files}.veil"
        graph = {"edges": [[a, b] for a in NAMES for b in NAMES if a < b]}
        path.write_text(tomli_w.dumps({"title": "a study", "graph": graph, **plan}))
        members = [
            word
            for k, name in enumerate(NAMES)
            for word in (
                *("--certificate", keys() / f"{name}.crt"),
                # The party itself only dials: no door is opened.
                *("--address", f"{name}={f'127.0.0.1:{k}' if k else ''}"),
            )
        ]
        made = called("consortium", "new", path, "-o", place, *members)
        assert made.exit_code == 0, made.output
        return place

    def join(self, file, *words, answer=None):
        """What the party's command says and how it ends."""
        out = self.folder / f"out-{file.stem}"
        key = self.folder / "ann.key"
        return called(
            *("join", file, "--data", self.data, "--identity", key, "--out", out),
            *words,
            answer=answer,
        )

    def takes_part(self, plan):
        """Whether the party comes to the meeting: all that the others see of it."""
        found = self.join(self.file({**plan, "policy": HASTY}), "--yes")
        assert found.exit_code in {1, 2}, found.output
        return found.exit_code == 1
