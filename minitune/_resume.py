"""Resume: how `Tuner.restore`, `run(resume=...)` and `minitune resume` go on with an earlier run.

The journal is read from its start, and searcher, scheduler, stopper and callbacks are brought to where they were: from
their saved states, or by telling them all that has happened (`Fresh` says which). Then the driver goes on as with a new
run, in the same directory. The run's lock keeps a second driver out, and its first record fixes trainable and seed.

A resume uses the code of today, so the search space may have changed. A call that names its run goes on with a warning.
`minitune resume SCRIPT`, which has to find the run, refuses.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minitune._driver import Driver, base_seed, open_run, run_record
from minitune._plan import Plan
from minitune.base.files import local_path
from minitune.config import ResumeConfig, default_storage_path
from minitune.error import RunLockedError, TuneError
from minitune.experiment.lifecycle import TERMINATED
from minitune.record import records
from minitune.record.layout import RunDirectory, check_trusted
from minitune.record.lock import read_holder
from minitune.record.open_run import OpenRun
from minitune.record.plugin_states import (
    CALLBACKS,
    STOPPER,
    StateLoader,
    reconcile,
    renew_references,
    saves_itself,
)
from minitune.record.replay import RESUMED, SKIPPED, Replay
from minitune.record.run_files import dump_trainables, load_param_space, offer, write_trainable_file
from minitune.record.story import Story, find_runs, logged_reports, read_overview
from minitune.result import flatten
from minitune.settings import is_on, setting
from minitune.space.difference import differences
from minitune.trainable.session import current_session

logger = logging.getLogger("minitune")

_resumed: set[str] = set()
"""The runs that `run_to_resume` has chosen in this process. It chooses each of them once."""


# -- going on with a run ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Fresh:
    """Which plug-ins the user has passed again; the others come out of the run's own record.

    A plug-in that is passed again gets its saved state only if its class defines how to save. Otherwise it is told all
    that has happened.

    Attributes:
        tune: Whether those of the `TuneConfig` are passed again: searcher and scheduler.
        run: Whether those of the `RunConfig` are: stoppers and callbacks.
    """

    tune: bool = True
    run: bool = True

    def takes_over(self, component: str, plugin: Any) -> bool:
        """Whether a component gets its saved state."""
        is_fresh = self.run if component in (STOPPER, CALLBACKS) else self.tune
        return not is_fresh or saves_itself(component, plugin)


@dataclass
class Resumption:
    """The wanted treatment of an earlier run.

    Attributes:
        run: The run's directory.
        choice: Says for finished, unfinished and failed trials whether they go on.
        add_samples: The number of samples in addition to those so far.
        fresh: The plug-ins that were passed again; by default all.
        has_other_space: Whether the run began with another space, where the user knows that already; None to find out,
            and to warn of it.
        objects: Held until the run has been read; see `RecordedTuner.objects`.
    """

    run: RunDirectory
    choice: ResumeConfig = field(default_factory=ResumeConfig)
    add_samples: int = 0
    fresh: Fresh = field(default_factory=Fresh)
    has_other_space: bool | None = None
    objects: object = None


class ResumedDriver(Driver):
    """Goes on with an earlier run.

    If that has ended and its space is another one, no new trials come unless samples are added.

    Args:
        plan: The recorded plan, or one from the code of today.
        wanted: The run, and what becomes of its trials.
    """

    is_new = False
    opened: OpenRun

    def __init__(self, plan: Plan, wanted: Resumption):
        super().__init__(plan)
        self._wanted = wanted
        self._is_closed = False  # the run has ended, and no new trials come

    def open(self) -> None:
        """Open the run's directory and bring everything to where the earlier driver was.

        Raises:
            RunLockedError: If another driver is at work on it.
            JournalCorruptError: If its journal is damaged.
            ValueError: If the trainable is not that of the run.
            UntrustedStateError: If somebody else may have written the files that must be unpickled.
        """
        plan, run, has_other_space = self.plan, self._wanted.run, self._wanted.has_other_space
        check_trusted(run.path)
        offer(plan)
        trainables = dump_trainables(plan.experiments)
        if has_other_space is None:
            changes = _changes(plan, run)
            has_other_space = bool(changes)
            if changes:
                warn_of_other_space(run, changes)
        self._is_closed = has_other_space and not read_overview(run.path).is_unfinished
        opened = self.enter(open_run(plan, run, is_new=False))
        begins = opened.is_blank
        first = run_record(plan, run, base_seed(plan.tune_config.seed)) if begins else next(opened.read())
        recorded = Story(run.path)
        recorded.apply(first)
        check_same_trainable(plan, recorded.trainable_name)
        before, now = recorded.versions["python"], platform.python_version()
        if before.split(".")[:2] != now.split(".")[:2]:
            logger.warning(
                "%s was started with Python %s and resumes with Python %s; its pickled values may not load",
                run.path,
                before,
                now,
            )
        self.make_parts(int(recorded.seed or 0))
        opened.begin(first if begins else None)
        write_trainable_file(run, trainables)
        self.put_together(opened)

    def catch_up(self) -> bool:
        """See `Driver.catch_up`. It also makes the files of the trials agree with the record."""
        opened, recorder, state, hooks = self.opened, self.opened.recorder, self.state, self.hooks
        saved, takes_over = opened.of_kind(records.STATE), self._wanted.fresh.takes_over
        loader = StateLoader(opened.run, hooks, hooks.context, saved, takes_over)
        replay = Replay(opened.run.path, state, hooks, self.plan.makers, loader)
        replay.run(opened.scan, self._wanted.choice)
        for trial, replaced in replay.changes:
            if replaced is not None:
                recorder.trial_added(trial, replaces=replaced.trial_id)
            else:
                recorder.status(trial, SKIPPED if trial.status == TERMINATED else RESUMED)
        add_samples = self._wanted.add_samples
        if add_samples:
            hooks.search_alg.add_samples(add_samples)
            recorder.extends(add_samples)
        for donation in state.donations.values():
            recorder.pin(donation.donor, donation.record)
        renew_references(opened.run, state.trials, self.plan.experiment.param_space)
        for trial in state.trials:
            recorder.adopt(trial)
        reconcile(hooks.callbacks, state.trials, replay.reports, lambda: logged_reports(opened.read()))
        return (replay.was_ended or self._is_closed) and not add_samples


def check_same_trainable(plan: Plan, recorded_name: str) -> None:
    """Refuse to go on with a trainable of another name than the run's.

    Raises:
        ValueError: Naming both.
    """
    given_name = plan.experiment.trainable_name
    if given_name != recorded_name:
        raise ValueError(f"the trainable must have the name of the run's, {recorded_name!r}, but got {given_name!r}")


# -- another search space --------------------------------------------------------------------------------------------
def _changes(plan: Plan, run: RunDirectory) -> list[str]:
    """How the space of a plan differs from the recorded one; nothing if that cannot be read."""
    recorded = load_param_space(run)
    return [] if recorded is None else differences(recorded, plan.experiment.param_space)


def warn_of_other_space(run: RunDirectory, changes: Sequence[str]) -> None:
    """Warn that a run goes on with another space than it began with.

    Args:
        run: The run's directory.
        changes: From `differences`.
    """
    logger.warning(
        "the search space differs from that of the run in %s (%s); %s",
        run.path,
        "; ".join(changes),
        "existing trials keep their configurations; if the run has not ended, new trials are drawn from the new space",
    )


# -- which run goes on -----------------------------------------------------------------------------------------------
class _Candidate(NamedTuple):
    """A run that `run_to_resume` may choose: the largest one is chosen.

    Attributes:
        has_keys: Whether its space has the parameters of the plan's.
        is_unfinished: Whether there may be something left to do in it.
        begun_s: When it began, in seconds since the epoch.
        path: Its directory.
    """

    has_keys: bool
    is_unfinished: bool
    begun_s: float
    path: str


def run_to_resume(plan: Plan) -> RunDirectory | None:
    """The run that a plan is to go on with, if this process is set to (`MINITUNE_RESUME`, `minitune resume SCRIPT`).

    That is the newest unfinished run of the same trainable, space and (if it has one) name. If there is none, it is
    the newest one that has ended, so that nothing is done twice. The process goes on with each run once.

    A run with another space is refused: it would mix two spaces. If `MINITUNE_RESUME_FORCE` is set, an unfinished run
    with the same parameters goes on all the same; any other one stays as it is, and a new run begins.

    Args:
        plan: The plan of the run.

    Returns:
        Its directory; None if nothing is set, or there is no such run.

    Raises:
        RunLockedError: If another process is at work on it, and there is no other.
        TuneError: If there are only runs with another space; the text names the differences.
    """
    wanted = setting("RESUME")
    if not is_on("RESUME") or current_session() is not None:  # a trial may have runs of its own
        return None
    first = plan.experiment
    storage_path = local_path(first.storage_path or default_storage_path())
    paths = [local_path(wanted)] if wanted != "1" else list(find_runs(storage_path))
    keys = sorted(flatten(first.param_space))
    found: list[_Candidate] = []
    live: list[tuple[str, int]] = []
    for path in paths:
        if path in _resumed or (wanted == "1" and not _may_be_named(os.path.relpath(path, storage_path), first.name)):
            continue
        seen = read_overview(path)
        if seen.trainable_name != first.trainable_name:
            continue
        has_keys = seen.space_keys == keys
        holder = None if seen.close_reason is not None else read_holder(RunDirectory(path).lock)
        # A run that has ended and has other parameters comes from another fit() of the script.
        if holder is None and (has_keys or seen.is_unfinished or wanted != "1"):
            found.append(_Candidate(has_keys, seen.is_unfinished, seen.begun_s, path))
        elif holder is not None and has_keys and holder.pid != os.getpid():
            live.append((path, holder.pid))
    if live and not any(one.has_keys and one.is_unfinished for one in found):
        path, pid = live[-1]
        raise RunLockedError(
            f"the run of {first.trainable_name} in {path} is running (process {pid}; see `minitune watch {path}`); "
            "resume it when it has ended, or run the script without `minitune resume` to start another run"
        )
    chosen = _choose(plan, sorted(found, reverse=True))
    if chosen is None:
        logger.warning("there is no run of %s to resume; a new run starts", first.trainable_name)
        return None
    _resumed.add(chosen)
    logger.warning("resuming the run in %s", chosen)
    return RunDirectory(chosen)


def _choose(plan: Plan, found: Sequence[_Candidate]) -> str | None:
    """The path of the first one with the space of the plan; without one, see `run_to_resume`."""
    refused: tuple[_Candidate, list[str]] | None = None
    for one in found:
        changes = _changes(plan, RunDirectory(one.path))
        if one.has_keys and not changes:
            return one.path
        if changes and refused is None:
            refused = one, changes
    if refused is None:
        return None
    one, changes = refused
    can_go_on = one.has_keys and one.is_unfinished
    if is_on("RESUME_FORCE"):
        return one.path if can_go_on else None
    if can_go_on:
        way_out = "`minitune resume --force SCRIPT.py` continues it and draws new trials from the new space"
    else:
        what = "has other parameters" if one.is_unfinished else "has ended"
        way_out = f"this run {what}, so `minitune resume --force SCRIPT.py` leaves it unchanged and starts a new one"
    raise TuneError(
        "\n  ".join([f"the search space differs from that of the run in {one.path}:", *changes])
        + f"\nRestore the old space, or run the script without `minitune resume` to start a new run; {way_out}"
    )


def _may_be_named(name: str, given: str | None) -> bool:
    """Whether a run of this name may have been given that one: a number is added if the name was taken."""
    return given is None or name == given or (name.startswith(f"{given}_") and name[len(given) + 1 :].isdigit())
