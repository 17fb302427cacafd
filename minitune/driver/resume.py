"""Resume: how `Tuner.restore`, `run(resume=...)` and `minitune resume` continue an earlier run.

Searcher, scheduler, stopper and callbacks load their states, or the journal is replayed to them.
The run's lock keeps a second driver out. `docs/records.md` has the order of a resume.

The present search space may differ: trials on record keep their configurations, and new ones are drawn from it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from minitune.base.files import local_path
from minitune.base.settings import RESUME, shared_variable
from minitune.base.snapshots import SCHEDULER, SEARCHER
from minitune.config import ResumeConfig, default_storage_path
from minitune.driver.driver import Driver, base_seed, run_record
from minitune.driver.open_run import begin, open_run
from minitune.driver.plan import Plan, offer
from minitune.driver.replay import RESUMED, Replay
from minitune.driver.snapshot import Snapshot, StateRefusedError, class_names, newest_snapshot, saves_itself
from minitune.error import TuneError
from minitune.experiment.endings import Ending
from minitune.experiment.run_description import RunDescription
from minitune.experiment.trial import Trial
from minitune.logger.reconcile import reconcile
from minitune.record import journal, records
from minitune.record.layout import RunDirectory, find_runs
from minitune.record.lock import check_own_directory, check_trusted, driver_pid
from minitune.record.reading import read_beginnings
from minitune.record.reports import logged_reports
from minitune.record.run_files import dump_trainable, write_trainable_file
from minitune.result import flatten
from minitune.trainable.session import current_session

logger = logging.getLogger("minitune")

_resumed: set[str] = set()
"""The runs that `run_to_resume` has chosen in this process, each once."""


# -- continuing a run ------------------------------------------------------------------------------------------------
@dataclass
class Resumption:
    """How to resume an earlier run.

    Attributes:
        choice: What to do with finished, failed and unfinished trials.
        has_new_tune: Whether the user has passed a TuneConfig again, which has searcher and scheduler. A plug-in that
            is passed again gets its saved state only if its class defines how to save it; otherwise the journal is
            replayed to it.
        has_new_run: The same for a RunConfig, which has stopper and callbacks.
    """

    run: RunDirectory
    choice: ResumeConfig = field(default_factory=ResumeConfig)
    add_samples: int = 0
    has_new_tune: bool = True
    has_new_run: bool = True


class ResumedDriver(Driver):
    """Continues an earlier run."""

    is_new = False

    def __init__(self, plan: Plan, wanted: Resumption):
        super().__init__(plan)
        self._wanted = wanted
        self._has_more = wanted.add_samples > 0  # it gets more samples than before

    def open(self) -> None:
        """Open the run's directory and restore everything.

        Raises:
            RunLockedError: If another driver has the run open.
            JournalCorruptError: If the run's journal is damaged.
            TuneError: If its objective was another one.
            ValueError: If the trainable has another name than the run's trainable.
            UntrustedStateError: If another user may have written the files that must be unpickled.
        """
        plan = self.plan
        run = self._wanted.run
        # Before a file of the run is unpickled here.
        check_own_directory(run.path)
        check_trusted(run.path)
        offer(plan)  # as in `Driver.open`
        trainable = dump_trainable(*plan.bare_trainable())
        recorder = open_run(self._closing, plan, run)
        first = None
        recorded = read_beginnings(run.path)  # raises an error for damage before anything is added to the journal
        if not recorder.journal.offset:
            first = run_record(plan, run, base_seed(plan.tune_config.seed))
            recorded.apply(first)
        check_same_trainable(plan, recorded.setup.trainable_name)
        # Before this driver's first record, because wrong settings raise their errors here.
        self.make_parts(int(recorded.setup.seed or 0))
        description = self.description()
        self._has_more = self._has_more or description.wants_more_than(recorded.description)
        if first is None:
            check_description(run, recorded.description, description)
        begin(recorder, plan, description, first)
        write_trainable_file(run, trainable)
        self.put_together(recorder)

    def catch_up(self) -> Sequence[tuple[Trial, Ending]]:
        """See `Driver.catch_up`. It also makes the files of the trials agree with the record."""
        recorder = self.recorder
        run = recorder.run
        snapshot = newest_snapshot(run)
        snapshot = snapshot.only(self._components_to_load(snapshot))
        while True:
            replay = Replay(run, self.state, self.hooks, self.plan.experiment.maker, snapshot)
            try:
                replay.run(self._wanted.choice)
                break
            except StateRefusedError as error:
                logger.warning("%s; all events are told to it again", error)
                snapshot = snapshot.only(snapshot.states.keys() - {error.component})
                # The replay begins again, with plug-ins that know nothing of it.
                self.make_plugins()
                self.make_state()
        state = self.state
        hooks = self.hooks
        for trial, replaced in replay.changes:
            if replaced is not None:
                recorder.trial_added(trial, replaces=replaced.trial_id)
            else:
                recorder.status(trial, trial.ending or RESUMED)
        if self._has_more or replay.was_ended:  # the search was ended with the run: it goes on
            hooks.search_alg.add_samples(self._wanted.add_samples)
        total = self.known_total()
        if self._has_more or total != replay.total_samples:
            recorder.record(records.extend(self._wanted.add_samples, total))
        recorder.resume(state.trials)
        past = journal.read(run.journal, unpickle=True)  # not begun unless it is needed
        reconcile(hooks.callbacks, state.trials, replay.reports, lambda: logged_reports(past))
        return replay.to_end

    def _components_to_load(self, snapshot: Snapshot) -> Iterator[str]:
        """The components that load their states from the snapshot."""
        for component, plugin in self.hooks.components():
            state = snapshot.states.get(component)
            is_same = state is not None and state.plugin == class_names(plugin)
            is_new = self._wanted.has_new_tune if component in (SEARCHER, SCHEDULER) else self._wanted.has_new_run
            if is_same and (not is_new or saves_itself(component, plugin)):
                yield component


def check_same_trainable(plan: Plan, recorded_name: str) -> None:
    """Refuse a trainable with another name than the run's trainable."""
    given_name = plan.experiment.trainable_name
    if given_name != recorded_name:
        raise ValueError(f"the trainable must have the name of the run's, {recorded_name!r}, but got {given_name!r}")


# -- other settings --------------------------------------------------------------------------------------------------
def check_description(run: RunDirectory, before: RunDescription, now: RunDescription) -> None:
    """Warn if the source of the trainable has changed.

    Raises:
        TuneError: If the objective has changed: the earlier trials were chosen by the other one.
    """
    if now.has_other_objective(before):
        raise TuneError(
            f"the run in {run.path} cannot continue: the objective is {now.goal} and was {before.goal}, by which its "
            "earlier trials were chosen. Restore the old objective, or start a new run: with another name, and without "
            "`minitune resume`. TuneConfig(warm_start=[...]) lets it learn from this one"
        )
    if None not in (before.source, now.source) and before.source != now.source:
        logger.warning("the run in %s continues, but the source of its trainable has changed", run.path)


# -- which run to resume ---------------------------------------------------------------------------------------------
def run_to_resume(plan: Plan) -> RunDirectory | None:
    """The directory of the run that this plan continues under `minitune resume SCRIPT` (`settings.RESUME`); None
    outside of it, or without such a run.

    It is the newest unfinished run with the trainable and the parameters of the plan, and with its name if it has one;
    else the newest finished one, so that no trial runs twice. A process continues each run once.

    Of unfinished runs, one that another process has open comes last; to open it is an error.
    """
    wanted = shared_variable(RESUME)
    if not wanted or current_session() is not None:  # a trial may itself start runs
        return None
    first = plan.experiment
    storage_path = local_path(first.storage_path or default_storage_path())
    paths = [local_path(wanted)]
    if wanted == "1":
        # A name that was in use got a number.
        name = ".*" if first.name is None else re.escape(first.name) + r"(_\d+)?"
        paths = [path for path in find_runs(storage_path) if re.fullmatch(name, os.path.relpath(path, storage_path))]
    keys = sorted(flatten(first.param_space))
    found: list[tuple[bool, bool, float, str]] = []
    for path in paths:
        seen = read_beginnings(path)
        setup = seen.setup
        if path in _resumed or (setup.trainable_name, setup.space_keys) != (first.trainable_name, keys):
            continue
        pid = driver_pid(RunDirectory(path).lock)
        if pid != os.getpid():
            found.append((seen.is_unfinished, pid is None, setup.begun_s, path))
    if not found:
        logger.warning("there is no run of %s with these parameters to resume; a new run starts", first.trainable_name)
        return None
    *_, path = max(found)
    _resumed.add(path)
    logger.warning("resuming the run in %s", path)
    return RunDirectory(path)
