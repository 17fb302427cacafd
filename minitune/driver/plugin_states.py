"""What a resumed run restores in addition to the journal: states of plug-ins, files of loggers, references of `put`.

A replay of the journal restores most of what plug-ins knew. The rest is in their saved states, for example the state of
an unseeded random generator, the remaining time of a budget, or the counters of callbacks. Each state includes the
journal up to an offset. A resume loads the state at this offset of the replay, and calls the plug-in only for later
records. A plug-in without a loadable state gets all events from the beginning.

A plug-in's own `save` or `save_to_dir` writes the files of its state. The journal has their names and checksums, so
that a resume never reads a torn file and does not depend on file dates. The last two states of each component are kept.

Loggers write a report before the journal does, so a killed driver may have logged one report too many. A full disk or
a user may also have damaged the files of loggers. The journal decides: surplus lines are cut off, and a file that does
not match is written again.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from minitune.base import descriptors, files
from minitune.base.pickling import by_value_pickler, loads_referring
from minitune.base.shared_values import ObjectRef
from minitune.callback import Callback
from minitune.driver.hooks import DriverContext, Hooks
from minitune.error import TuneError
from minitune.experiment.trial import Trial
from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.logger.logger import LoggerCallback
from minitune.record import records
from minitune.record.layout import RunDirectory
from minitune.record.recorder import Recorder
from minitune.record.run_files import load_tuner_file
from minitune.result import EXPR_PROGRESS_FILE, EXPR_RESULT_FILE, complete
from minitune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler
from minitune.search.search_algorithm import SearchAlgorithm, SearchGenerator
from minitune.search.searcher import Searcher, SearcherWrapper, newest_file
from minitune.settings import number_setting, setting
from minitune.space.domains import Categorical
from minitune.space.tree import is_plain
from minitune.stopper import NoopStopper, Stopper

logger = logging.getLogger("minitune")

SEARCHER = "searcher"
SCHEDULER = "scheduler"
STOPPER = "stopper"
CALLBACKS = "callbacks"

_FIELDS = {SEARCHER: "search_alg", SCHEDULER: "scheduler", STOPPER: "stopper", CALLBACKS: "callbacks"}
"""The attribute of `Hooks` with the plug-in of each component."""

TOLD_AGAIN = (SEARCHER, SCHEDULER, STOPPER)
"""The components that get the events after their state again. Callbacks do not."""

STATES_KEPT = 2
"""How many states of a component are kept. More than one, because the newest may be damaged."""

SAVE_PERIOD_S = 10.0
"""The least time between two saves, unless `MINITUNE_GLOBAL_CHECKPOINT_S` sets another one."""

SAVE_SHARE = 1 / 20
"""The largest share of time that saving may take."""

_FILES: dict[type[LoggerCallback], tuple[str, int]] = {
    JsonLoggerCallback: (EXPR_RESULT_FILE, 0),
    CSVLoggerCallback: (EXPR_PROGRESS_FILE, 1),
}
"""By logger: the name of the file that it writes, and the number of its header lines."""

PastReports = Callable[[], Iterable[tuple[str, dict[str, Any], dict[str, Any]]]]
"""A function that returns an iterator over (trial id, metrics, configuration) of the reports, in order."""


# -- states of plug-ins ------------------------------------------------------------------------------------------------


class StateKeeper:
    """Saves the states of a run's plug-ins.

    Args:
        run: The run's directory.
        recorder: Records in the journal which states were saved.
        hooks: The plug-ins.
        context: The scheduler's view of the run. In a state it is pickled as a reference.
        past: The `state` records of earlier drivers.

    Attributes:
        due_s: When to save the states next, by `time.monotonic`.
    """

    def __init__(
        self,
        run: RunDirectory,
        recorder: Recorder,
        hooks: Hooks,
        context: DriverContext,
        past: Iterable[records.Record] = (),
    ):
        self._run = run
        self._recorder = recorder
        self._hooks = hooks
        self._context = context
        self._unfit: set[str] = set()  # components whose state cannot be saved
        self._kept: dict[str, list[set[str]]] = {}  # by component: the files of its last states
        for record in past:
            self._kept.setdefault(record["component"], []).append(set(record["files"]))
        self._period_s: float | None = None  # None: it depends on how long a save takes
        if setting("GLOBAL_CHECKPOINT_S") != "auto":
            self._period_s = number_setting("GLOBAL_CHECKPOINT_S")
        first_s = SAVE_PERIOD_S if self._period_s is None else self._period_s
        self.due_s = time.monotonic() + first_s
        self._saved_at = recorder.offset  # the length of the journal after the last save

    def save(self, *components: str) -> None:
        """Save the states if anything has been recorded since the last save. Blocks.

        If components are given, save only these, and save them in any case. A DiskError ends the run.
        """
        begin_s = time.monotonic()
        if components or self._recorder.offset != self._saved_at:
            offset = self._recorder.offset
            for component in components or (*TOLD_AGAIN, CALLBACKS):
                self._save(component, offset)
            self._saved_at = self._recorder.offset  # with the records of these saves, which are no reason for another
        now_s = time.monotonic()
        pause_s = self._period_s
        if pause_s is None:  # so long that saving takes its share at most
            took_s = now_s - begin_s
            pause_s = max(SAVE_PERIOD_S, took_s * (1 / SAVE_SHARE - 1))
        self.due_s = now_s + pause_s

    def _save(self, component: str, offset: int) -> None:
        if component in self._unfit:
            return
        plugin = getattr(self._hooks, _FIELDS[component])
        try:
            # The plug-in writes to a scratch directory. Its files get their places when all are whole, and count once
            # the journal has their checksums.
            with _scratch(self._run) as directory:
                _write(component, plugin, directory, f"{offset:012d}", self._context)
                found = {name: _sha256(os.path.join(directory, name)) for name in files.names(directory)}
                for name in found:
                    path = os.path.join(directory, name)
                    if not os.path.islink(path):
                        os.chmod(path, files.BLOB_MODE)  # the plug-in may have made it readable for all
                    os.replace(path, os.path.join(self._run.path, name))
        except Exception as error:
            if descriptors.is_lack(error):  # a temporary fault: the next save tries again
                logger.debug("the state of the %s is not saved now: %s", component, error)
                return
            if isinstance(error, OSError):
                self._recorder.directories.raise_if_run_ends(error, self._run.path)
            self._unfit.add(component)
            logger.warning(
                "the state of the %s cannot be saved (%s: %s); a resume replays all events to it",
                component,
                type(error).__name__,
                error,
            )
            return
        if not found:
            return
        self._recorder.state_saved(component, class_names(plugin), found, offset)
        self._prune(component, set(found))

    def _prune(self, component: str, newest: set[str]) -> None:
        kept = self._kept.setdefault(component, [])
        kept.append(newest)
        while len(kept) > STATES_KEPT:
            oldest = kept.pop(0)
            for name in oldest.difference(*kept):  # a plug-in may write to the same file again
                files.remove_file(os.path.join(self._run.path, name))


class NoStates:
    """Stands in for the StateKeeper of a run in memory: saves nothing."""

    due_s = math.inf

    def save(self, *components: str) -> None:
        """Save nothing."""


class StateLoader:
    """Loads the saved states of a run into fresh plug-ins during a replay.

    Args:
        run: The run's directory.
        hooks: The fresh plug-ins.
        context: The scheduler's view of the run.
        past: The `state` records, in order.
        wanted: Called with a component and its plug-in; returns whether the plug-in may load a state.
    """

    def __init__(
        self,
        run: RunDirectory,
        hooks: Hooks,
        context: DriverContext,
        past: list[records.Record],
        wanted: Callable[[str, Any], bool],
    ):
        self._run = run
        self._context = context
        self.search_alg: SearchAlgorithm = hooks.search_alg
        self._waiting: list[tuple[int, str, Any, records.Record]] = []  # states that the replay has not reached yet
        for component in (*TOLD_AGAIN, CALLBACKS):
            plugin = getattr(hooks, _FIELDS[component])
            record = self._newest(component, plugin, past)
            if record is not None and wanted(component, plugin) and self._fits(component, plugin, record):
                self._waiting.append((record["offset"], component, plugin, record))

    @property
    def is_silent_searcher(self) -> bool:
        """Whether the searcher will load a state that the replay has not reached yet."""
        return any(component == SEARCHER for _, component, _, _ in self._waiting)

    @property
    def first_offset(self) -> int | None:
        """The offset, in bytes, at which the first of the remaining states is loaded; None if none remains."""
        return min((offset for offset, *_ in self._waiting), default=None)

    def begin(self, hooks: Hooks) -> None:
        """Replace each plug-in that will load a state by a passive one until then. Call this before the replay."""
        for _, component, _, _ in self._waiting:
            if component in _PASSIVE:
                hooks.exchange(**{_FIELDS[component]: _PASSIVE[component]()})

    def reach(self, offset: int | None, hooks: Hooks, trials: Mapping[str, Trial]) -> None:
        """Load the states that were saved at or before `offset`, and put their plug-ins back into the hooks.

        Args:
            offset: Offset of the record that the replay applies next; None at the end of the replay.
            hooks: The hooks of the replay.
            trials: The trials of the run by id. States refer to trials by id.

        Raises:
            TuneError: If a plug-in cannot load its state.
        """
        if not self._waiting:
            return
        for entry in list(self._waiting):
            if offset is None or entry[0] <= offset:
                self._waiting.remove(entry)
                self._take_over(*entry[1:], hooks, trials)

    def _take_over(
        self, component: str, plugin: Any, record: records.Record, hooks: Hooks, trials: Mapping[str, Trial]
    ) -> None:
        try:
            self._read(component, plugin, record, trials)
        except Exception as error:
            raise TuneError(
                f"the {component} ({class_names(plugin)}) cannot load the state that it saved in "
                f"{', '.join(sorted(record['files']))} of {self._run.path} ({type(error).__name__}: {error}); remove "
                "these files to replay all events to it, or pass another one"
            ) from error
        if component in _PASSIVE:
            hooks.exchange(**{_FIELDS[component]: plugin})

    def _fits(self, component: str, plugin: Any, record: records.Record) -> bool:
        """Whether a plug-in can load a state. A copy of it tries, because a failed attempt may leave it half loaded."""
        try:
            copy = deepcopy(plugin)
        except Exception:  # it cannot be copied, so assume that it can load the state
            return True
        try:
            self._read(component, copy, record, _Anybody())
        except Exception as error:
            logger.warning(
                "the %s (%s) cannot load its saved state (%s: %s); all events are replayed to it",
                component,
                class_names(plugin),
                type(error).__name__,
                error,
            )
            return False
        return True

    def _read(self, component: str, plugin: Any, record: records.Record, trials: Mapping[str, Trial]) -> None:
        with _scratch(self._run) as directory:
            for name in record["files"]:
                shutil.copyfile(os.path.join(self._run.path, name), os.path.join(directory, name))
            _read(component, plugin, directory, f"{record['offset']:012d}", self._context, trials)

    def _newest(self, component: str, plugin: Any, past: list[records.Record]) -> records.Record | None:
        """The record of the component's newest state whose files match their checksums, or None."""
        for record in reversed(past):
            if record["component"] != component or record["plugin"] != class_names(plugin):
                continue
            paths = {os.path.join(self._run.path, name): digest for name, digest in record["files"].items()}
            # A torn or changed file of the newest state is no loss: the one before it leads to the same end.
            if all(os.path.isfile(path) and _sha256(path) == digest for path, digest in paths.items()):
                return record
        return None


def saves_itself(component: str, plugin: Any) -> bool:
    """Whether a plug-in's class overrides the methods that define its state."""
    if component == SEARCHER:
        searcher = innermost(plugin)
        if searcher is None:
            return type(plugin).get_state is not SearchAlgorithm.get_state
        kind = type(searcher)
        return kind.get_state is not Searcher.get_state or kind.save is not Searcher.save
    if component == SCHEDULER:
        kind = type(plugin)
        return kind.get_state is not TrialScheduler.get_state or kind.save is not TrialScheduler.save
    return component == CALLBACKS or type(plugin).get_state is not Stopper.get_state


def innermost(search_alg: SearchAlgorithm) -> Searcher | None:
    """The user's searcher without its wrappers; None if the search algorithm has no searcher."""
    if not isinstance(search_alg, SearchGenerator):
        return None
    searcher = search_alg.searcher
    while isinstance(searcher, SearcherWrapper):
        searcher = searcher.searcher
    return searcher


def class_names(plugin: Any) -> str:
    """The class name of a plug-in, with those of the searchers that it wraps; `callbacks` for the tuple of callbacks.

    The state of the callbacks has the class name of each callback in it.
    """
    if isinstance(plugin, tuple):
        return "callbacks"
    names = [type(plugin).__qualname__]
    while isinstance(plugin, (SearchGenerator, SearcherWrapper)):
        plugin = plugin.searcher
        names.append(type(plugin).__qualname__)
    return "/".join(names)


class _Anybody(dict[str, Trial]):
    """A mapping that has a trial for every id, for loading a state into a copy."""

    def __missing__(self, trial_id: str) -> Trial:
        return Trial("", trial_id=trial_id)


class _Silence(SearchAlgorithm):
    """Replaces a search algorithm until it loads its state: proposes no trials and ignores all events."""

    def next_trial(self) -> Trial | None:
        return None

    def is_finished(self) -> bool:
        return True


_PASSIVE: dict[str, Callable[[], Any]] = {SEARCHER: _Silence, SCHEDULER: FIFOScheduler, STOPPER: NoopStopper}
"""What takes a plug-in's place until it loads its state. Callbacks hear nothing of a replay."""


# -- files of states ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _scratch(run: RunDirectory) -> Iterator[str]:
    """A temporary empty directory in the run's directory. It is removed at the end of the `with` block."""
    directory = os.path.join(run.path, files.temporary_name())
    pid = os.getpid()
    os.mkdir(directory, 0o700)
    try:
        yield directory
    finally:
        if os.getpid() == pid:  # not in a child that the plug-in forked: the parent still uses the directory
            shutil.rmtree(directory, ignore_errors=True)


def _sha256(path: str) -> str:
    import hashlib

    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _write(component: str, plugin: Any, directory: str, stamp: str, context: DriverContext) -> None:
    """Let a component write its state to files in `directory`. A component without a state writes no file."""
    path = os.path.join(directory, f"{_stem(component)}-{stamp}.pkl")
    if component == SEARCHER:
        plugin.save_to_dir(directory, session_str=stamp)  # a keyword, because Ray Tune's base class takes **kwargs
        searcher = innermost(plugin)
        if searcher is not None and newest_file(directory, searcher.CKPT_FILE_TMPL) is None:
            raise TuneError(f"{type(searcher).__name__} has written no state")
    elif component == SCHEDULER and type(plugin).save is not TrialScheduler.save:
        plugin.save(path)
    elif component == CALLBACKS:
        states = [(type(callback).__qualname__, _callback_state(callback, context)) for callback in plugin]
        if any(state is not None for _, state in states):
            files.atomic_write(path, _dumps(states, context))
    elif state := plugin.get_state():
        files.atomic_write(path, _dumps(state, context))


def _read(
    component: str, plugin: Any, directory: str, stamp: str, context: DriverContext, trials: Mapping[str, Trial]
) -> None:
    """Let a component load the state that `_write` has written."""
    path = os.path.join(directory, f"{_stem(component)}-{stamp}.pkl")
    if component == SEARCHER:
        plugin.restore_from_dir(directory)
    elif component == SCHEDULER and type(plugin).restore is not TrialScheduler.restore:
        plugin.restore(path)
    elif component == CALLBACKS:
        for callback, (name, state) in zip(plugin, _load(path, context, trials), strict=False):
            if state is not None and name == type(callback).__qualname__:
                callback.set_state(_loads(state, context, trials))
    else:
        plugin.set_state(_load(path, context, trials))


def _stem(component: str) -> str:
    return "callback-states" if component == CALLBACKS else f"{component}-state"


def _callback_state(callback: Callback, context: DriverContext) -> bytes | None:
    """The pickled state of one callback. Each is pickled alone, so that a failure does not affect the others."""
    try:
        state = callback.get_state()
        return None if state is None else _dumps(state, context)
    except Exception as error:
        logger.warning("the state of %s cannot be saved (%s: %s)", type(callback).__name__, type(error).__name__, error)
        return None


def _load(path: str, context: DriverContext, trials: Mapping[str, Trial]) -> Any:
    with open(path, "rb") as file:
        return _loads(file.read(), context, trials)


def _dumps(value: Any, context: DriverContext) -> bytes:
    """Pickle a state. Trials and the driver's context are pickled as references to those of the run."""

    class Pickler(by_value_pickler()):  # type: ignore[misc]  # its base has no type information
        def persistent_id(self, value: Any) -> tuple[str, str] | None:
            if isinstance(value, Trial):
                return "trial", value.trial_id
            return ("context", "") if value is context else None

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()


def _loads(data: bytes, context: DriverContext, trials: Mapping[str, Trial]) -> Any:
    """Unpickle the state of a plug-in. It refers to trials by their ids, and to the context."""

    def resolve(reference: tuple[str, str]) -> Any:
        kind, trial_id = reference
        return trials[trial_id] if kind == "trial" else context

    return loads_referring(data, resolve)


# -- the files of loggers ----------------------------------------------------------------------------------------------


def reconcile(
    callbacks: Sequence[Callback], trials: Sequence[Trial], reports: Mapping[str, int], past: PastReports
) -> None:
    """Make `result.json` and `progress.csv` of all trials match the journal. Blocks.

    A file matches if it has the right number of lines. Changes within a line are not detected, because that would take
    as long as writing the file again. A file that cannot be read or written stays as it is, with a warning in the log:
    the journal still has the reports.

    Args:
        callbacks: The callbacks of the run. Only files that one of them writes are written again.
        trials: The trials of the run. A missing trial directory is not created again.
        reports: The number of recorded reports by trial id, over all attempts.
        past: All reports. It is called only if a file has to be written again.
    """
    writers = {type(one): one for one in callbacks if isinstance(one, LoggerCallback)}  # a subclass may write otherwise
    broken: dict[str, list[tuple[LoggerCallback, Trial]]] = {}
    for trial in trials:
        for kind, (name, header_lines) in _FILES.items():
            path = os.path.join(trial.local_path, name)
            count = reports[trial.trial_id]
            num_lines = count + header_lines if count else 0
            try:
                matches = _matches(path, trial, num_lines)
                if not matches and (writer := writers.get(kind)) is not None:
                    files.remove_file(path)
                    broken.setdefault(trial.trial_id, []).append((writer, trial))
            except OSError as error:
                logger.warning("%s cannot be made to match the journal: %s", path, error.strerror or error)
    try:
        for trial_id, metrics, config in past() if broken else ():
            for writer, trial in broken.get(trial_id, ()):
                writer.log_trial_result(0, trial, complete(metrics, config))
    finally:
        for writer, trial in chain.from_iterable(broken.values()):
            writer.log_trial_end(trial)


def _matches(path: str, trial: Trial, count: int) -> bool:
    """Whether a file has `count` whole lines. If the trial is unfinished, first cut off what follows these lines."""
    may_cut = not trial.is_finished()
    if not os.path.exists(path):
        return not count or not os.path.isdir(trial.local_path)
    with open(path, "rb+" if may_cut else "rb") as file:
        for _ in range(count):
            if not file.readline().endswith(b"\n"):
                return False
        if not file.read(1):
            return True
        if may_cut:
            file.seek(-1, os.SEEK_CUR)  # back over the byte that was read above
            file.truncate()
        return may_cut


# -- references of put -------------------------------------------------------------------------------------------------


def renew_references(run: RunDirectory, trials: Sequence[Trial], space: Any) -> None:
    """Replace the references of the recorded space by those of `space` in the configurations of unfinished trials.

    References at the same place of both spaces correspond. If the spaces have different numbers of references, nothing
    is replaced. If `space`, with which the run is resumed, has references and the recorded space cannot be read, a
    TuneError is raised.
    """
    new = list(_references(space))
    old = list(_references(load_tuner_file(run).param_space)) if new else []
    if old == new or len(old) != len(new):
        return
    successors = dict(zip(old, new, strict=True))
    for trial in trials:
        if not trial.is_finished():
            trial.set_config(_renewed(trial.raw_config, successors))


def _references(space: Any) -> Iterator[ObjectRef]:
    if isinstance(space, ObjectRef):
        yield space
    elif isinstance(space, Mapping):
        for key in sorted(space, key=str):
            yield from _references(space[key])
    elif isinstance(space, (list, tuple)) and not is_plain(space):
        for member in space:
            yield from _references(member)
    elif isinstance(space, Categorical):
        yield from _references(list(space.categories))


def _renewed(value: Any, successors: Mapping[ObjectRef, ObjectRef]) -> Any:
    if isinstance(value, ObjectRef):
        return successors.get(value, value)
    if type(value) is dict:
        return {key: _renewed(member, successors) for key, member in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_renewed(member, successors) for member in value)
    return value
