"""All that a resumed run takes over besides the journal: states of plug-ins, files of loggers, references of `put`.

A replay of the journal gives most plug-ins all that they knew. Their own states are saved besides, for what no replay
brings back: random numbers without a seed, the time that is left of a budget, what callbacks have counted.
Each state stands for the journal up to an offset; a resume takes it over there and tells the plug-in only of what came
after it. Where there is no state that can be taken over, the plug-in hears everything from the beginning.

The files are those that a plug-in's own `save`, or `save_to_dir`, writes; their names and checksums stand in the
journal, so that a torn file is never read and no date plays a part. The last two of each component are kept.

Loggers write before the journal does, so a killed driver may have logged one report too many; a full disk, or a person,
may have cost some. Only the journal counts: what is too much is cut, and what is not whole is written again.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from minitune.base import descriptors, files
from minitune.base.shared_values import ObjectRef
from minitune.callback import Callback
from minitune.error import TuneError
from minitune.execution.hooks import DriverContext, Hooks
from minitune.experiment.trial import Trial
from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.logger.logger import LoggerCallback
from minitune.record import records
from minitune.record.layout import STATES_KEPT, RunDirectory
from minitune.record.recorder import Recorder
from minitune.record.run_files import load_tuner_file
from minitune.result import EXPR_PROGRESS_FILE, EXPR_RESULT_FILE
from minitune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler
from minitune.search.search_algorithm import SearchAlgorithm, SearchGenerator
from minitune.search.searcher import Searcher, SearcherWrapper, newest_file
from minitune.settings import number_setting, setting
from minitune.space.domains import Categorical
from minitune.space.tree import is_plain
from minitune.stopper import NoopStopper, Stopper

logger = logging.getLogger("minitune")

SEARCHER, SCHEDULER, STOPPER, CALLBACKS = "searcher", "scheduler", "stopper", "callbacks"

TOLD_AGAIN = (SEARCHER, SCHEDULER, STOPPER)
"""The components that hear of what came after their state; callbacks do not."""

SAVE_PERIOD_S = 10.0
"""States are saved at most so often, unless `MINITUNE_GLOBAL_CHECKPOINT_S` says otherwise."""

SAVE_SHARE = 1 / 20
"""Nor may the saving take more than this share of the time."""

_FILES: dict[type[Callback], tuple[str, int]] = {
    JsonLoggerCallback: (EXPR_RESULT_FILE, 0),
    CSVLoggerCallback: (EXPR_PROGRESS_FILE, 1),
}
"""By who writes them: their names, and how many lines they have besides one for each report."""

_BLOCK_BYTES = 1 << 20

PastReports = Callable[[], Iterable[tuple[str, dict[str, Any]]]]
"""Makes an iterator over (trial id, report as it was logged), in order."""


# -- states of plug-ins ------------------------------------------------------------------------------------------------


class StateKeeper:
    """Saves the states of a run's plug-ins.

    Args:
        run: The run's directory.
        recorder: Writes to the journal which states were saved.
        hooks: The plug-ins.
        context: The scheduler's view of the run: a state that refers to it does not hold it.
        past: The records of states that were saved before.

    Attributes:
        due_s: When the states are to be saved the next time, by `time.monotonic`.
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
        self._unfit: set[str] = set()
        self._kept: dict[str, list[set[str]]] = {}
        for record in past:
            self._kept.setdefault(record["component"], []).append(set(record["files"]))
        period = setting("GLOBAL_CHECKPOINT_S")
        self._period_s = None if period == "auto" else number_setting("GLOBAL_CHECKPOINT_S")
        self.due_s = time.monotonic() + (SAVE_PERIOD_S if self._period_s is None else self._period_s)
        self._saved_at = recorder.offset

    def save(self, *components: str) -> None:
        """Save the states if there is something on record since the last time. Blocks.

        Args:
            *components: Save these in any case, and no others.
        """
        begin_s = time.monotonic()
        if components or self._recorder.offset != self._saved_at:
            offset = self._recorder.offset
            for component in components or (*TOLD_AGAIN, CALLBACKS):
                self._save(component, offset)
            self._saved_at = self._recorder.offset
        now_s = time.monotonic()
        pause_s = max(SAVE_PERIOD_S, (now_s - begin_s) * (1 / SAVE_SHARE - 1))
        self.due_s = now_s + (pause_s if self._period_s is None else self._period_s)

    def _save(self, component: str, offset: int) -> None:
        if component in self._unfit:
            return
        plugin = _plugin(self._hooks, component)
        try:
            with _scratch(self._run) as directory:
                _write(component, plugin, directory, f"{offset:012d}", self._context)
                found = {name: _sha256(os.path.join(directory, name)) for name in files.names(directory)}
                for name in found:
                    path = os.path.join(directory, name)
                    if not os.path.islink(path):
                        os.chmod(path, files.BLOB_MODE)  # a plug-in's own way may leave it open
                    files.replace(path, os.path.join(self._run.path, name))
        except Exception as error:
            is_disk = isinstance(error, OSError) and self._recorder.disk.is_to_blame(error)
            if is_disk or descriptors.is_lack(error):  # the next time will do
                logger.debug("the state of the %s is not saved now: %s", component, error)
                return
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
        self._recorder.state_saved(component, kind_of(plugin), found, offset)
        self._prune(component, set(found))

    def _prune(self, component: str, newest: set[str]) -> None:
        kept = self._kept.setdefault(component, [])
        kept.append(newest)
        while len(kept) > STATES_KEPT:
            for name in kept.pop(0).difference(*kept):
                files.remove_file(os.path.join(self._run.path, name))


class StateLoader:
    """Hands the saved states of a run to fresh plug-ins, in the midst of a replay.

    Args:
        run: The run's directory.
        hooks: The fresh plug-ins.
        context: The scheduler's view of the run.
        past: The records of states, in order.
        wanted: Whether a component may take over a state at all.
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
        self._waiting: list[tuple[int, str, Any, records.Record]] = []
        for component in (*TOLD_AGAIN, CALLBACKS):
            plugin = _plugin(hooks, component)
            record = self._newest(component, plugin, past)
            if record is not None and wanted(component, plugin) and self._fits(component, plugin, record):
                self._waiting.append((record["offset"], component, plugin, record))

    @property
    def is_silent_searcher(self) -> bool:
        """Whether the searcher is to take over a state that has not been reached yet."""
        return any(component == SEARCHER for _, component, _, _ in self._waiting)

    @property
    def first_offset(self) -> int | None:
        """Where the first of them is to be taken over, in bytes; None if there is none."""
        return min((offset for offset, *_ in self._waiting), default=None)

    def begin(self, hooks: Hooks) -> None:
        """The replay begins: a plug-in that takes over a state later hears nothing until then."""
        for _, component, _, _ in self._waiting:
            if component == SEARCHER:
                hooks.exchange(search_alg=_Silence())
            elif component == SCHEDULER:
                hooks.exchange(scheduler=FIFOScheduler())
            elif component == STOPPER:
                hooks.exchange(stopper=NoopStopper())

    def reach(self, offset: int | None, hooks: Hooks, trials: Mapping[str, Trial]) -> None:
        """The replay has come to the record at `offset` (None: to the end): plug-ins that saved here go on from here.

        Raises:
            TuneError: If a state cannot be taken over.
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
                f"the {component} ({kind_of(plugin)}) cannot load the state that it saved in "
                f"{', '.join(sorted(record['files']))} of {self._run.path} ({type(error).__name__}: {error}); remove "
                "these files to replay all events to it, or pass another one"
            ) from error
        if component == SEARCHER:
            hooks.exchange(search_alg=plugin)
        elif component == SCHEDULER:
            hooks.exchange(scheduler=plugin)
        elif component == STOPPER:
            hooks.exchange(stopper=plugin)

    def _fits(self, component: str, plugin: Any, record: records.Record) -> bool:
        """Try it on a copy: a plug-in that refuses the state after taking over half of it could not start again."""
        try:
            copy = deepcopy(plugin)
        except Exception:  # it holds something that has no copy: there is only one way to find out
            return True
        try:
            self._read(component, copy, record, _Anybody())
        except Exception as error:
            logger.warning(
                "the %s (%s) cannot load its saved state (%s: %s); all events are replayed to it",
                component,
                kind_of(plugin),
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
        """The newest state of the component whose files are what their record says."""
        for record in reversed(past):
            if record["component"] != component or record["plugin"] != kind_of(plugin):
                continue
            paths = {os.path.join(self._run.path, name): digest for name, digest in record["files"].items()}
            if all(os.path.isfile(path) and _sha256(path) == digest for path, digest in paths.items()):
                return record
        return None


def saves_itself(component: str, plugin: Any) -> bool:
    """Whether a plug-in's class says itself what its state is, rather than leaving that to its base class."""
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
    """The user's searcher, without what is wrapped around it; None if the search algorithm has none."""
    if not isinstance(search_alg, SearchGenerator):
        return None
    searcher = search_alg.searcher
    while isinstance(searcher, SearcherWrapper):
        searcher = searcher.searcher
    return searcher


def kind_of(plugin: Any) -> str:
    """The class of a plug-in; of several callbacks only that there are some: they are told apart one by one."""
    if isinstance(plugin, tuple):
        return "callbacks"
    names = [type(plugin).__qualname__]
    while isinstance(plugin, (SearchGenerator, SearcherWrapper)):
        plugin = plugin.searcher
        names.append(type(plugin).__qualname__)
    return "/".join(names)


def _plugin(hooks: Hooks, component: str) -> Any:
    return {
        SEARCHER: hooks.search_alg,
        SCHEDULER: hooks.scheduler,
        STOPPER: hooks.stopper,
        CALLBACKS: hooks.callbacks,
    }[component]


class _Anybody(dict[str, Trial]):
    """Trials for a trial run: each id that is asked for is there."""

    def __missing__(self, trial_id: str) -> Trial:
        return Trial("", trial_id=trial_id)


class _Silence(SearchAlgorithm):
    """Stands in for a search algorithm that will take over what it has saved: it has nothing to say and to hear."""

    def next_trial(self) -> Trial | None:
        """See `SearchAlgorithm.next_trial`."""
        return None

    def is_finished(self) -> bool:
        """See `SearchAlgorithm.is_finished`."""
        return True


# -- files of states ---------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _scratch(run: RunDirectory) -> Iterator[str]:
    """An empty directory within the run's, which is gone afterwards."""
    directory, pid = os.path.join(run.path, files.temporary_name()), os.getpid()
    os.mkdir(directory, 0o700)
    try:
        yield directory
    finally:
        if os.getpid() == pid:  # else a plug-in has forked while it was saved, and its parent is still at it
            shutil.rmtree(directory, ignore_errors=True)


def _sha256(path: str) -> str:
    import hashlib

    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _write(component: str, plugin: Any, directory: str, stamp: str, context: DriverContext) -> None:
    """Have a component write its state to files in `directory`; none if it remembers nothing."""
    path = os.path.join(directory, f"{_stem(component)}-{stamp}.pkl")
    if component == SEARCHER:
        plugin.save_to_dir(directory, session_str=stamp)  # by name: Ray Tune's base class has it in **kwargs
        searcher = innermost(plugin)
        if searcher is not None and newest_file(directory, searcher.CKPT_FILE_TMPL) is None:
            raise TuneError(f"{type(searcher).__name__} has written no state")
    elif component == SCHEDULER and type(plugin).save is not TrialScheduler.save:
        plugin.save(path)
    elif component == CALLBACKS:
        states = [(type(callback).__qualname__, _callback_state(callback, context)) for callback in plugin]
        if any(state is not None for _, state in states):
            _write_file(path, _dumps(states, context))
    elif state := plugin.get_state():
        _write_file(path, _dumps(state, context))


def _read(
    component: str, plugin: Any, directory: str, stamp: str, context: DriverContext, trials: Mapping[str, Trial]
) -> None:
    """Have a component take over what `_write` has written."""
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
    """A callback's state on its own, so that one that cannot be pickled spoils nothing else."""
    try:
        state = callback.get_state()
        return None if state is None else _dumps(state, context)
    except Exception as error:
        logger.warning("the state of %s cannot be saved (%s: %s)", type(callback).__name__, type(error).__name__, error)
        return None


def _write_file(path: str, data: bytes) -> None:
    files.atomic_write(path, data, files.BLOB_MODE)


def _load(path: str, context: DriverContext, trials: Mapping[str, Trial]) -> Any:
    with open(path, "rb") as file:
        return _loads(file.read(), context, trials)


def _dumps(value: Any, context: DriverContext) -> bytes:
    """Pickle a state. Trials, and the driver's context, are written as references: they are those of the run."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle is untyped
        def persistent_id(self, value: Any) -> tuple[str, str] | None:
            if isinstance(value, Trial):
                return "trial", value.trial_id
            return ("context", "") if value is context else None

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()


def _loads(data: bytes, context: DriverContext, trials: Mapping[str, Trial]) -> Any:
    class Unpickler(pickle.Unpickler):
        def persistent_load(self, reference: tuple[str, str]) -> Any:
            kind, trial_id = reference
            return trials[trial_id] if kind == "trial" else context

    return Unpickler(io.BytesIO(data)).load()


# -- the files of loggers ----------------------------------------------------------------------------------------------


def reconcile(
    callbacks: Sequence[Callback], trials: Sequence[Trial], reports: Mapping[str, int], past: PastReports
) -> None:
    """Make `result.json` and `progress.csv` of a run agree with its record. Blocks while it looks at the files.

    A file is whole if it has as many lines as there are reports; changes within a line are not looked for, since that
    would take as long as writing everything anew.

    Args:
        callbacks: The run's: only those of them that write such files have theirs written anew.
        trials: Its trials. Where a trial's directory is gone, it stays so.
        reports: By trial id, how many of its reports are on record, over all attempts.
        past: All of them; asked for only if something is missing.

    A file that cannot be read or written stays as it is, which the log says: whatever it lacks is on record.
    """
    for trial in trials:
        if not trial.is_finished():
            for name, more in _FILES.values():
                path = os.path.join(trial.local_path, name)
                with _told(path):
                    _cut(path, trial.experiment_path, reports[trial.trial_id] + more)
    broken: list[tuple[LoggerCallback, dict[str, Trial]]] = []
    for callback in callbacks:
        if isinstance(callback, LoggerCallback) and type(callback) in _FILES:  # a subclass may write what it likes
            name, more = _FILES[type(callback)]
            found = {trial.trial_id: trial for trial in trials if _is_to_write(trial, name, reports, more)}
            broken += [(callback, found)] if found else []
    if broken:
        _write_anew(broken, past())


def _write_anew(
    broken: Sequence[tuple[LoggerCallback, dict[str, Trial]]], past: Iterable[tuple[str, dict[str, Any]]]
) -> None:
    for trial_id, result in past:
        for callback, trials in broken:
            if trial_id in trials:
                callback.log_trial_result(0, trials[trial_id], result)
    for callback, trials in broken:
        for trial in trials.values():
            callback.log_trial_end(trial)


def _is_to_write(trial: Trial, name: str, reports: Mapping[str, int], more: int) -> bool:
    """Whether a file is to be written anew; if so, the one that is there goes."""
    path = os.path.join(trial.local_path, name)
    with _told(path):
        if _is_broken(path, reports[trial.trial_id], more):
            files.remove_file(path, trial.experiment_path)
            return True
    return False


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Log an OSError of the `with` block, and go on."""
    try:
        yield
    except OSError as error:
        logger.warning("%s cannot be brought to the recorded state: %s", path, error.strerror or error)


def _is_broken(path: str, reports: int, more: int) -> bool:
    """Whether a file has not one line for each report, though there is a directory for it."""
    lines, ends_whole = 0, True
    try:
        with files.open_to_read(path, follow=False) as file:
            while block := file.read(_BLOCK_BYTES):
                lines += block.count(b"\n")
                ends_whole = block.endswith(b"\n")
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(path)):
            return False
    return not ends_whole or lines != (reports + more if reports else 0)


def _cut(path: str, within: str, count: int) -> None:
    """Cut a file behind its first `count` lines; shorter or missing ones stay as they are."""
    try:
        with open(files.open_own(path, os.O_RDWR, within=within), "rb+") as file:
            for _ in range(count):
                if not file.readline().endswith(b"\n"):
                    return
            if file.read(1):
                file.seek(-1, os.SEEK_CUR)
                file.truncate()
    except FileNotFoundError:
        return


# -- references of put -------------------------------------------------------------------------------------------------


def renew_references(run: RunDirectory, trials: Sequence[Trial], space: Any) -> None:
    """Put the references of `space` where those of the recorded space stand in the configurations of trials.

    Those at the same place of both spaces correspond. Nothing is done if the spaces hold different numbers of them.

    Args:
        run: The directory of the run, with the space with which it began.
        trials: Its trials; the ones that have ended are left alone.
        space: The space with which it goes on.

    Raises:
        TuneError: If there are references, and the recorded space cannot be read.
    """
    new = list(_references(space))
    old = list(_references(load_tuner_file(run).param_space)) if new else []
    if old == new or len(old) != len(new):
        return
    successors = dict(zip(old, new, strict=True))
    for trial in trials:
        if not trial.is_finished():
            trial.set_config(_renewed(trial.config, successors))


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
