"""The snapshot: the states of a run's plug-ins at one offset of the journal, in one file.

A replay of the journal restores most of what plug-ins knew; the rest, such as the remaining time of a budget, is in
their states. A resume loads the newest snapshot when its replay reaches the offset, and tells the plug-ins only what
follows. One without a state there is told all; callbacks are told nothing.

The file is whole before it gets its name, and counts once the journal has its checksum. So a resume never reads a torn
file. The last two are kept, since the newest may be damaged later.

A state is what `get_state` returns.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from minitune.base import files
from minitune.base.pickling import by_value_pickler, loads_referring
from minitune.base.settings import number_setting, setting
from minitune.base.snapshots import (
    NAME,
    SCHEDULER,
    SEARCHER,
    STOPPER,
    PluginState,
    decode_states,
    encode_states,
)
from minitune.base.user_code import runs
from minitune.driver.hooks import DriverContext, Hooks
from minitune.experiment.trial import Trial
from minitune.record import journal, records
from minitune.record.layout import RunDirectory
from minitune.record.recorder import Recorder
from minitune.schedulers.trial_scheduler import TrialScheduler
from minitune.search.search_algorithm import SearchAlgorithm, SearchGenerator
from minitune.search.searcher import Searcher, layers_of
from minitune.stopper import Stopper

logger = logging.getLogger("minitune")

SNAPSHOTS_KEPT = 2
"""How many snapshots are kept."""

PERIOD_S = 1.0
"""The least time between two snapshots, unless `MINITUNE_GLOBAL_CHECKPOINT_S` sets another one. A resume tells the
plug-ins all that came later, so more time makes it longer.
"""

COST_SHARE = 1 / 20
"""The largest share of time that snapshots may take. Not measured: more delays trials, less lets a resume replay more.
"""


class Snapshot(NamedTuple):
    """The states of the plug-ins at one moment."""

    offset: int = 0
    states: Mapping[str, PluginState] = {}

    def only(self, components: Iterable[str]) -> Snapshot:
        """The snapshot with the states of these components only."""
        return Snapshot(self.offset, {each: self.states[each] for each in components if each in self.states})


class StateRefusedError(Exception):
    """A plug-in cannot load its state."""

    def __init__(self, component: str, plugin: Any, error: Exception):
        super().__init__(f"the {component} ({class_names(plugin)}) cannot load its saved state: {error!r}")
        self.component = component


def newest_snapshot(run: RunDirectory) -> Snapshot:
    """The newest snapshot whose file has its recorded checksum, else an empty one. Blocks."""
    for record in reversed(list(journal.of_kinds(run.journal, records.STATE))):
        path = os.path.join(run.path, record["file"])
        if not os.path.isfile(path):
            continue
        data = files.read_bytes(path)
        if _sha256(data) == record["sha256"]:
            return Snapshot(record["offset"], decode_states(data))
    return Snapshot()


def load_state(
    component: str,
    state: PluginState,
    plugin: Any,
    context: DriverContext,
    trials: Mapping[str, Trial],
) -> None:
    """Let a plug-in load its state. This runs its code.

    Raises:
        StateRefusedError: If that raises an error.
    """
    try:
        found = _loads(state.state, context, trials)
        if component == SEARCHER:
            own, of_searcher = found
            plugin.set_state(own)
            searcher = innermost(plugin)
            if searcher is not None:
                searcher.set_state(of_searcher)
        else:
            plugin.set_state(found)
    except Exception as error:
        raise StateRefusedError(component, plugin, error) from error


class SnapshotKeeper:
    """Takes snapshots of a run's plug-ins."""

    def __init__(self, recorder: Recorder, hooks: Hooks):
        self._run = recorder.run
        self._recorder = recorder
        self._plugins = dict(hooks.components())
        self._context = hooks.context
        self._unfit: set[str] = set()  # components whose state cannot be saved
        self._kept = [record["file"] for record in journal.of_kinds(self._run.journal, records.STATE)]
        self._period_s: float | None = None  # None: it depends on how long a snapshot takes
        if setting("GLOBAL_CHECKPOINT_S") != "auto":
            self._period_s = number_setting("GLOBAL_CHECKPOINT_S")
        first_s = PERIOD_S if self._period_s is None else self._period_s
        self.due_s = time.monotonic() + first_s
        self._saved_at = recorder.offset  # the length of the journal after the last snapshot

    def save(self) -> None:
        """Take a snapshot if anything was recorded since the last one. Blocks. A DiskError ends the run."""
        begin_s = time.monotonic()
        if self._recorder.offset != self._saved_at:
            self._write(self._states())
        now_s = time.monotonic()
        pause_s = self._period_s
        if pause_s is None:  # so long that snapshots take their share at most
            pause_s = max(PERIOD_S, (now_s - begin_s) / COST_SHARE)
        self.due_s = now_s + pause_s

    def _states(self) -> dict[str, PluginState]:
        """The states by component. One that cannot be saved gets a warning, and is left out from now on."""
        found = {}
        for component, plugin in self._plugins.items():
            if component in self._unfit:
                continue
            try:
                state = self._state_of(component, plugin)
            except Exception as error:
                if isinstance(error, OSError):
                    self._recorder.directories.raise_if_run_ends(error, self._run.path)
                self._unfit.add(component)
                told = f"{class_names(plugin)}: {type(error).__name__}: {error}"
                logger.warning("the state of the %s cannot be saved (%s); a resume goes on without it", component, told)
                continue
            if state:
                found[component] = PluginState(class_names(plugin), state)
        return found

    def _state_of(self, component: str, plugin: Any) -> bytes | None:
        """The state of a plug-in; None if it has none."""
        if component == SEARCHER:
            return self._state_of_search(plugin)
        with runs(plugin.get_state):
            state = plugin.get_state()
            return _dumps(state, self._context) if state else None

    def _state_of_search(self, plugin: SearchAlgorithm) -> bytes | None:
        searcher = innermost(plugin)
        if searcher is None and not saves_itself(SEARCHER, plugin):
            return None  # it is told all events again
        with runs(plugin.get_state):
            inner = None if searcher is None else searcher.get_state()
            return _dumps((plugin.get_state(), inner), self._context)

    def _write(self, states: Mapping[str, PluginState]) -> None:
        """Write a snapshot and its record, and remove the file of the oldest one."""
        if not states:
            return
        data = encode_states(states)
        offset = self._recorder.offset
        name = NAME.format(f"{offset:012d}")  # the journal grows, so no two have the same name
        path = os.path.join(self._run.path, name)
        try:
            files.atomic_write(path, data, files.BLOB_MODE)
        except OSError as error:
            self._recorder.directories.raise_if_run_ends(error, path)
            logger.warning("no snapshot of the plug-ins can be written to %s: %s", path, error)
            return
        self._recorder.record(records.state(name, _sha256(data), offset))
        # It is written at once, since an older snapshot is removed now. It is no reason for another snapshot.
        self._saved_at = self._recorder.offset
        self._kept.append(name)
        while len(self._kept) > SNAPSHOTS_KEPT:
            with contextlib.suppress(OSError):  # something else has taken its place, or the directory is not writable
                files.remove_file(os.path.join(self._run.path, self._kept.pop(0)))


# -- plug-ins ----------------------------------------------------------------------------------------------------------


def saves_itself(component: str, plugin: Any) -> bool:
    """Whether a plug-in's class says what its state is."""
    if component not in (SEARCHER, SCHEDULER, STOPPER):
        return True
    one = plugin
    if component == SEARCHER:
        one = innermost(plugin) or plugin
    base = next(base for base in (SearchAlgorithm, Searcher, TrialScheduler, Stopper) if isinstance(one, base))
    own = ("_STATE", "get_state", "save")
    return any(getattr(type(one), name, None) is not getattr(base, name, None) for name in own)


def innermost(search_alg: SearchAlgorithm) -> Searcher | None:
    """The user's searcher without its wrappers; None if the search algorithm has no searcher."""
    if not isinstance(search_alg, SearchGenerator):
        return None
    return layers_of(search_alg.searcher)[-1]


def class_names(plugin: Any) -> str:
    """The class name of a plug-in, with those of wrapped searchers."""
    parts = [plugin]
    if isinstance(plugin, SearchGenerator):
        parts += layers_of(plugin.searcher)
    return "/".join(type(part).__qualname__ for part in parts)


# -- contents ----------------------------------------------------------------------------------------------------------


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _dumps(value: Any, context: DriverContext) -> bytes:
    """Pickle a state, with references to the run's trials and context."""

    class Pickler(by_value_pickler()):  # type: ignore[misc]  # its base has no type information
        def persistent_id(self, value: Any) -> tuple[str, str] | None:
            if isinstance(value, Trial):
                return "trial", value.trial_id
            return ("context", "") if value is context else None

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()


def _loads(data: bytes, context: DriverContext, trials: Mapping[str, Trial]) -> Any:
    """Unpickle a state that refers to trials by their ids, and to the context."""

    def resolve(reference: tuple[str, str]) -> Any:
        kind, trial_id = reference
        return trials[trial_id] if kind == "trial" else context

    return loads_referring(data, resolve)
