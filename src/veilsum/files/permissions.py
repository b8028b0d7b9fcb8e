"""Checks of who else can read or replace a file, on POSIX only."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def why_file_is_open_to_others(path: Path, found: os.stat_result) -> str | None:
    """Say how another user could read or exchange a file, and what to do about it.

    Args:
        path: of the file.
        found: its own entry, as it was when it was opened.
    """
    if os.name != "posix":
        return None
    if found.st_uid != os.geteuid():
        return (
            f"{path} belongs to another user ({_file_owner_name(found.st_uid)}), who "
            "can read and "
            f"change it: copy it to a folder of your own, or have it given to you "
            f"(chown {_file_owner_name(os.geteuid())} {shlex.quote(str(path))})"
        )
    if found.st_mode & _OTHERS:
        return (
            f"{path} is open to other users (mode {stat.S_IMODE(found.st_mode):04o}): "
            f"run chmod 600 {shlex.quote(str(path))}"
        )
    return _why_open_folder(path)


def _why_open_folder(path: Path) -> str | None:
    """Say how another user could put a file of its own in the place of this one."""
    folder = path.absolute().parent
    found = folder.stat()
    if found.st_mode & stat.S_ISVTX:
        return None  # everybody may put files there, and nobody replaces another's
    if found.st_uid not in (os.geteuid(), 0):
        return (
            f"{path} is in a folder that belongs to another user "
            f"({_file_owner_name(found.st_uid)}), who can put another file in its "
            "place: copy it "
            "to a folder of your own"
        )
    shared = found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid)
    if shared or found.st_mode & stat.S_IWOTH:
        return (
            f"{path} is in a folder to which other users may write (mode "
            f"{stat.S_IMODE(found.st_mode):04o}), and so put another file in its "
            f"place: run chmod go-w {shlex.quote(str(folder))}"
        )
    return None


def _file_owner_name(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _is_own_group(number: int) -> bool:
    """Say whether a group has this user only, as many systems make one for each."""
    import grp

    try:
        found = grp.getgrgid(number)
    except KeyError:
        return False
    name = _file_owner_name(os.geteuid())
    return found.gr_name == name and set(found.gr_mem) <= {name}
