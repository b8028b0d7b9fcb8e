"""Entry points of installed distributions, without the time that looking them up takes.

`importlib.metadata` and its search take half as long as `veilsum --help`. Hardly any
computer has a distribution that adds to this program, and that is visible from the
files `entry_points.txt` alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Folders with a distribution's facts, as `importlib.metadata` knows them.
FOLDERS = (".dist-info", ".egg-info", f"{os.sep}egg-info")


def entry_points(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group that installed distributions offer.

    Args:
        group: such as `veilsum.questions`.
    """
    if not _may_exist(group.encode()):
        return ()
    from importlib import metadata

    return tuple(metadata.entry_points(group=group))


def _may_exist(group: bytes) -> bool:
    """Return whether a file of entry points has the group's name, or may have it.

    It may where distributions are not folders on the path: in archives, or with
    finders of their own.
    """
    for finder in sys.meta_path:
        if finder is not PathFinder and hasattr(finder, "find_distributions"):
            return True
    for place in dict.fromkeys(sys.path):
        try:
            with os.scandir(place or ".") as entries:
                paths = [entry.path for entry in entries]
        except NotADirectoryError:
            return True
        except OSError:
            continue
        for path in paths:
            if path.lower().endswith(FOLDERS):
                with suppress(OSError):
                    if group in Path(path, "entry_points.txt").read_bytes():
                        return True
    return False
