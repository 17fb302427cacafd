"""Trust: before anything is unpickled, who could have written it?"""

from __future__ import annotations

import os
import stat
import sys

from minitune.base import files
from minitune.error import UntrustedStateError
from minitune.settings import is_on

_OBJECTS_DIRECTORY = "objects"


def check_trusted(path: str | os.PathLike[str]) -> None:
    """Refuse to go on if somebody else may have written what is about to be unpickled.

    Unpickling runs whatever code the pickle's author wrote. So `path`, the directory around it if it is a file,
    and what is read from it if it is a directory (pickles, the journal, the objects, the trials' directories) must
    belong to the current user or to root, and nobody else may be able to write there. `MINITUNE_TRUST=1` skips the
    check. On Windows there is none.

    Args:
        path: A run's directory, or a file.

    Raises:
        UntrustedStateError: Naming the path, its owner and its mode.
        FileNotFoundError: If `path` is not there.
    """
    if is_on("TRUST") or not hasattr(os, "getuid"):
        return
    real = os.path.realpath(path)
    if not stat.S_ISDIR(os.stat(real).st_mode):
        _check_owner(os.path.dirname(real))
        _check_owner(real)
        return
    _check_owner(real)
    with os.scandir(real) as entries:
        for entry in entries:
            if entry.name.endswith(".pkl") or entry.name == "journal" or entry.is_dir(follow_symlinks=False):
                _check_owner(entry.path)
    objects = os.path.join(real, _OBJECTS_DIRECTORY)
    if os.path.lexists(objects):
        _check_owner(objects)
        for name in files.names(objects):
            _check_owner(os.path.join(objects, name))


def _check_owner(path: str) -> None:
    if sys.platform == "win32":  # access lists there say more than these modes; whoever restores runs the author's code
        return
    found = os.lstat(path)
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        reason = "it is a link"
    elif found.st_uid not in (0, os.getuid()):
        reason = "it belongs to another user"
    elif mode & stat.S_IWOTH:
        reason = "everybody can write to it"
    elif mode & stat.S_IWGRP and not _is_private_group(found.st_gid):
        reason = "its group can write to it"
    else:
        return
    raise UntrustedStateError(
        f"{path} may have been written by somebody else: {reason} (owner {_user_name(found.st_uid)}, mode {mode:04o}). "
        "Reading it would run code that its author chose. If you trust it, take it over (chown, chmod go-w) or set "
        "MINITUNE_TRUST=1"
    )


def _is_private_group(group_id: int) -> bool:
    """Whether a group has no member but the current user, as on systems that give each user a group and umask 002."""
    if sys.platform == "win32":
        return False
    try:
        import grp
        import pwd

        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(group_id)
    except (ImportError, KeyError):
        return False
    return user.pw_gid == group_id and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user_name(user_id: int) -> str:
    if sys.platform == "win32":
        return str(user_id)
    try:
        import pwd

        return f"{pwd.getpwuid(user_id).pw_name} ({user_id})"
    except (ImportError, KeyError):
        return str(user_id)
