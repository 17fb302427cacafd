"""The layout of a run on disk: names, directories, error files, and safe removal.

A run is one directory with one for each trial. Nothing is written or removed outside of it, whatever names the user
chooses; removal follows no link, and removes only what minitune has created.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Container, Iterator
from datetime import datetime

from minitune.base import clock, files
from minitune.base.files import TEMPORARY_PREFIX, local_path
from minitune.checkpoint import directory_name, number_of_directory, temporary_path
from minitune.config import default_storage_path
from minitune.error import JournalCorruptError, RunLockedError, TuneError
from minitune.experiment.trial import Trial
from minitune.record.lock import OBJECTS_DIRECTORY, RunLock, check_own_directory
from minitune.result import EXPR_ERROR_FILE

logger = logging.getLogger("minitune")

DATE_FORMAT = "%Y-%m-%d_%H-%M-%S"
NAME_LIMIT_BYTES = 255
"""The longest name that common file systems allow."""
# This leaves room for a date and a suffix.
_IDENTIFIER_BYTES = NAME_LIMIT_BYTES - 30
# Longer names of trials are cut in those of their directories. It is the default of Ray Tune.
_IDENTIFIER_LENGTH = 130

_UNFIT_FOR_DIRECTORY = re.compile(r'[/()<>:"\\|?*\x00-\x1f\x7f-\x9f\u2028\u2029]')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CHECKPOINT_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + r"\d{6,}-\d+")
# The entries of a run's directory that drivers name, besides those of trials. The journal and the lock go last.
_OWN_ENTRY = re.compile(
    rf"(tuner|trainable|plugins-\d+)\.pkl|{OBJECTS_DIRECTORY}|shared|requests|pbt_(policy_\w+|global)\.txt|"
    rf"journal\.torn-\d+|{files.WRITE_TEMPORARY.pattern}"
)


LAST = "last"
"""The name of the newest run."""
# The number of levels below a directory that are searched for runs.
_MAX_DEPTH = 4


class RunDirectory:
    """The paths of the files of a run.

    Attributes:
        journal: All events of the run.
        lock: The lock file that keeps a second driver out.
        tuner: The configs and the search space, without the trainable.
        trainable: The pickled trainable.
        objects: The directory of the objects that are too large for the journal, named by checksums.
        shared: The directory of the values that workers share, while a driver runs.
        requests: The directory of the requests to the driver, while it hears some.
    """

    def __init__(self, path: str):
        self.path = path
        self.name = os.path.basename(path)
        self.journal = os.path.join(path, "journal")
        self.lock = os.path.join(path, "lock")
        self.tuner = os.path.join(path, "tuner.pkl")
        self.trainable = os.path.join(path, "trainable.pkl")
        self.objects = os.path.join(path, OBJECTS_DIRECTORY)
        self.shared = os.path.join(path, "shared")
        self.requests = os.path.join(path, "requests")

    def has_trials(self) -> bool:
        """Whether the run's directory has directories that may be those of trials."""
        others = (self.objects, self.shared, self.requests)
        with os.scandir(self.path) as entries:
            return any(
                entry.is_dir(follow_symlinks=False)
                and entry.path not in others
                and not files.WRITE_TEMPORARY.fullmatch(entry.name)
                for entry in entries
            )

    def lost_journal(self) -> JournalCorruptError:
        """The error for a journal without a good record although the run `has_trials`."""
        return JournalCorruptError(
            f"the journal {self.journal} holds no record, although there are directories of trials beside it: it was "
            "damaged, and its records are lost; put back a copy, or start a run with another name"
        )

    def remove(self, trial_directories: Container[str]) -> list[str]:
        """Remove what drivers have written: their own files, and the directories of trials, by name. Blocks. The caller
        holds the lock.

        Returns the names of the other entries. They stay; without any, the run's directory goes, too.
        """
        own = {os.path.basename(self.journal), os.path.basename(self.lock)}
        stays = []
        for name in files.names(self.path):
            if name in trial_directories or _OWN_ENTRY.fullmatch(name):
                files.remove_tree(os.path.join(self.path, name))
            elif name not in own:
                stays.append(name)
        files.remove_file(self.journal)  # after all that it names: a removal that is cut off can be done again
        files.remove_file(self.lock)
        if not stays:
            os.rmdir(self.path)
        return stays

    def clean(self) -> None:
        """Remove what a killed driver has left: values of its workers, and temporary files."""
        files.remove_tree(self.shared)
        for directory in (self.path, self.objects):
            files.remove_write_temporaries(directory)


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether directory `path` holds a run, even a damaged one: it has a `tuner.pkl`, or a journal that is not empty.

    With only a lock and an empty journal, its driver was killed before it wrote what to run.
    """
    run = RunDirectory(local_path(path))
    # It is written before the first record of the journal.
    if os.path.lexists(run.tuner):
        return True
    try:
        return os.lstat(run.journal).st_size > 0
    except OSError:
        return False


def find_runs(directory: str, depth: int = _MAX_DEPTH) -> Iterator[str]:
    """Find runs in a directory, and in its subdirectories that are no runs, `depth` levels deep, since a run may be
    named `project/model`. Yields sorted paths.
    """
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in names:
        path = os.path.join(directory, name)
        if is_run(path):
            yield path
        elif depth > 1 and not name.startswith("."):
            yield from find_runs(path, depth - 1)


def locate_run(run: str | os.PathLike[str]) -> str | None:
    """The directory of a run, from its path, its name below the storage path, or `last` for the newest one there.

    A path comes before a name; None without such a run.
    """
    path = local_path(run)
    if is_run(path):
        return path
    storage = local_path(default_storage_path())
    named = os.path.join(storage, os.fspath(run))
    if is_run(named):
        return named
    if os.fspath(run) == LAST:
        return max(find_runs(storage), key=_changed_s, default=None)
    return None


def run_path(run: str | os.PathLike[str]) -> str:
    """The directory of a run as `locate_run`, else the path itself, for the caller's error."""
    return locate_run(run) or local_path(run)


def no_run(path: str) -> str:
    """The text of the error that a directory, or what was meant as the name of a run, holds no run."""
    return f"there is no run in {path}; pass the directory of a run, its name below the storage path, or 'last'"


def _changed_s(path: str) -> float:
    try:
        return os.stat(RunDirectory(path).journal).st_mtime
    except OSError:
        return 0.0


# -- names ---------------------------------------------------------------------------------------------------------


def check_name(name: str, what: str) -> str:
    """Return the name of a run or of a trial's directory if it is safe and common file systems allow it. `what` is for
    errors.

    Raises:
        ValueError: If it is empty, absolute, `.` or `..`, has a separator or a control character, ends in a dot or a
            space, is too long, or cannot be encoded.
        TypeError: If it is not a str.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what} must be text, but got {type(name).__name__}")
    rule = _broken_rule(name)
    if rule is not None:
        shown = name if len(name) <= 80 else name[:80] + "..."
        raise ValueError(f"{what} must {rule}, but got {shown!r}; choose another name")
    return name


def check_run_name(name: str) -> str:
    """Return the name of a run if `check_name` allows each of its parts. `project/model` has two."""
    for part in name.split("/") if isinstance(name, str) else [name]:
        check_name(part, "the run's name")
    return name


def _broken_rule(name: str) -> str | None:
    """The rule that `name` breaks, as the end of "must ...", or None."""
    if not name.strip():
        return "not be empty"
    if "/" in name or "\\" in name or os.path.isabs(name):
        return "be one name without a path separator"
    if name in (".", ".."):
        return "not lead to another directory"
    if _CONTROL.search(name):
        return "hold no control character"
    if name[-1] in ". ":
        return "not end in a dot or a space"
    try:
        length_bytes = len(os.fsencode(name))
    except UnicodeEncodeError:
        return "be encodable as a file name"
    if length_bytes <= NAME_LIMIT_BYTES:
        return None
    return f"take at most {NAME_LIMIT_BYTES} bytes"


def clean_name(text: str) -> str:
    """`text` with `_` in place of every character that is not allowed in the name of a directory."""
    return _UNFIT_FOR_DIRECTORY.sub("_", text.encode("utf-8", "replace").decode())


def date_text() -> str:
    """The date and time of the current clock, in the format of names and files."""
    return datetime.fromtimestamp(clock.current.time()).strftime(DATE_FORMAT)


def create_run_directory(
    storage_path: str | os.PathLike[str], name: str | None, trainable_name: str = "run"
) -> tuple[RunDirectory, RunLock]:
    """Create the directory of a run, `<trainable>_<date>` by default, and take its lock, which this process holds.
    `project/model` is the directory `model` in `project`.

    Returns:
        The directory and its lock. If another run is there or just begins there, or a directory that has directories of
        its own, the name gets a suffix, with a warning if `name` was given.

    Raises:
        ValueError: If `name` breaks a rule of `check_name`.
        UntrustedStateError: If a link, or a directory that another user can write to, has the name.
        TuneError: If it cannot be created or written.
    """
    if name is None:
        chosen = default_run_name(trainable_name)
    else:
        chosen = check_run_name(name)
    root = local_path(storage_path)
    try:
        os.makedirs(os.path.dirname(os.path.join(root, chosen)), exist_ok=True)
        run, lock = _claim(root, chosen, may_share=name is not None)
    except OSError as error:
        raise TuneError(
            f"the run's directory {os.path.join(root, chosen)} cannot be made or written "
            f"({error.strerror or error}); choose another storage_path"
        ) from error
    if run.path != os.path.join(root, chosen):
        level = logging.INFO if name is None else logging.WARNING  # the user did not choose a default name
        text = "%s is in use already; this run goes to %s (`minitune resume` continues an unfinished run)"
        logger.log(level, text, os.path.join(root, chosen), run.path)
    return run, lock


def default_run_name(trainable_name: str) -> str:
    """`<trainable>_<date>` as a valid name."""
    return f"{_cut(clean_name(trainable_name), _IDENTIFIER_LENGTH)}_{date_text()}"


def _claim(root: str, name: str, *, may_share: bool) -> tuple[RunDirectory, RunLock]:
    """A directory for the run, and its lock: a new directory, or one without a run whose name the user has chosen. Of
    two runs with one default name, only the one that creates the directory may use it; of several drivers that find a
    chosen one, the one that gets the lock.
    """
    suffix = 0
    wanted = os.path.join(root, name)
    while True:
        path = wanted
        if suffix:
            parent, last = os.path.split(wanted)
            path = os.path.join(parent, f"{_cut(last)}_{suffix}")
        suffix += 1
        try:
            os.mkdir(path, files.OWN_DIRECTORY_MODE)
        except FileExistsError:
            if is_run(path):
                continue
            if os.path.islink(path) or os.path.isdir(path):
                check_own_directory(path)
            if not may_share or not os.path.isdir(path) or RunDirectory(path).has_trials():
                continue
        run = RunDirectory(path)
        lock = RunLock(run.lock)
        try:
            lock.acquire()
        except RunLockedError:
            continue
        # Only the holder of the lock can be sure, because another driver may have been quicker.
        if not is_run(path):
            return run, lock
        lock.release()  # another driver has run here since the first look


def create_trial_directory(
    run_path: str,
    trial: Trial,
    dirname_creator: Callable[[Trial], str] | None = None,
) -> str:
    """Choose the name of a trial's directory, and create it. It ends in eight hex digits if the wanted one existed.

    Raises:
        ValueError: If the trial's custom name breaks a rule of `check_name`.
        OSError: If the directory cannot be created.
    """
    if dirname_creator is not None:
        wanted = check_name(str(dirname_creator(trial)), f"the directory's name of trial {trial.trial_id}")
    else:
        wanted = _default_directory_name(trial)
    name = wanted
    while True:
        try:
            os.mkdir(os.path.join(run_path, name), files.OWN_DIRECTORY_MODE)
            return name
        except FileExistsError:
            name = f"{_cut(wanted, size_bytes=NAME_LIMIT_BYTES - 9)}_{os.urandom(4).hex()}"


def _default_directory_name(trial: Trial) -> str:
    if trial.custom_trial_name:
        check_trial_name(trial.custom_trial_name)
    identifier = f"{trial.name}_{trial.experiment_tag}" if trial.experiment_tag else trial.name
    return f"{_cut(clean_name(identifier), _IDENTIFIER_LENGTH)}_{date_text()}"


def check_trial_name(name: str) -> str:
    """Check a trial's name with `check_name`, but allow `/`, which is replaced later."""
    check_name(_cut(name.replace("/", "_")), "a trial's name")
    if os.path.isabs(name) or ".." in name.split("/"):
        raise ValueError(f"a trial's name must not be a path, but got {name!r}; choose another name")
    return name


def _cut(text: str, characters: int = NAME_LIMIT_BYTES, size_bytes: int = _IDENTIFIER_BYTES) -> str:
    """`text` cut to at most `characters` and `size_bytes`."""
    text = text[:characters]
    while len(text.encode("utf-8", "surrogatepass")) > size_bytes:
        text = text[:-1]
    return text


# -- errors of a trial ---------------------------------------------------------------------------------------------


def append_error(trial_directory: str, number: int, traceback_text: str, date: str) -> None:
    """Append a failure to the trial's `error.txt`.

    Raises:
        OSError: If the directory cannot be written.
    """
    text = f"Failure # {number} (occurred at {date})\n{traceback_text.rstrip()}\n"
    path = os.path.join(trial_directory, EXPR_ERROR_FILE)
    with open(path, "ab") as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def last_error_text(trial_directory: str | os.PathLike[str]) -> str:
    """The last entry of a trial's `error.txt`, without its heading; empty if there is none."""
    try:
        with open(os.path.join(trial_directory, EXPR_ERROR_FILE), "rb") as file:
            entry = file.read().decode("utf-8", "replace").rpartition("Failure # ")[2]
    except OSError:
        return ""
    return entry.partition("\n")[2].strip()


# -- removal -------------------------------------------------------------------------------------------------------


def clean_trial_directory(run_path: str, trial_directory: str, recorded: Container[int]) -> None:
    """Remove the leftovers of a killed worker or driver: temporary files, and checkpoints that are not `recorded`.
    Blocks. A link, or a directory elsewhere, is left alone.
    """
    parent, name = os.path.split(trial_directory)
    # The name comes from the journal, and removal must stay inside of the run.
    if parent != run_path or name in ("", ".", "..") or os.path.islink(trial_directory):
        return
    for name in files.names(trial_directory):
        number = number_of_directory(name)
        left_over = number is not None and number not in recorded
        if left_over or _CHECKPOINT_TEMPORARY.fullmatch(name) or files.WRITE_TEMPORARY.fullmatch(name):
            files.remove_tree(os.path.join(trial_directory, name))


def retire_checkpoint(trial_directory: str, number: int) -> str | None:
    """Rename a surplus checkpoint before it is removed, so that no reader sees a part of it.

    The journal must have its `drop` record. Returns the path to remove, or None if it does not exist.
    """
    path = os.path.join(trial_directory, directory_name(number))
    target = temporary_path(trial_directory, number, 0)  # attempts are counted from 1, so no worker uses this name
    try:
        os.replace(path, target)
    except FileNotFoundError:
        return None
    return target
