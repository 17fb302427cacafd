"""EarlierResults: with `on_duplicate="reuse"`, the result of the finished trial whose configuration is equal."""

from __future__ import annotations

from minitune.driver.state import RunState
from minitune.executors.trial_executor import ActorSpec
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import Phase
from minitune.experiment.parameter_files import write_parameters
from minitune.experiment.trial import Trial
from minitune.experiment.trial_info import TrialInfo
from minitune.record.recorder import Recorder
from minitune.result import CHECKPOINT_DIR_NAME, DONE, TRIAL_ID, Report
from minitune.space.parameters import config_key


class EarlierResults:
    """The finished trials of a run, by their configurations."""

    def __init__(self, state: RunState, recorder: Recorder):
        self._state = state
        self._directories = recorder.directories
        self._by_key: dict[str, list[Trial]] = {}
        self._num_known = 0

    def report(self, spec: ActorSpec) -> Report | None:
        """What the trial of a new actor reports without training; None if it has to train.

        Makes the trial's directory and parameter files, as a worker would, and no checkpoint.
        """
        info = TrialInfo(*spec.args[0])
        trial = self._state.unfinished[info.trial_id]
        earlier = self._find(trial)
        if earlier is None:
            return None
        self._make_files(trial, info)
        result = {**earlier.progress.metrics, TRIAL_ID: trial.trial_id}
        if CHECKPOINT_DIR_NAME in result:
            result[CHECKPOINT_DIR_NAME] = None
        detail = f"it has the result of trial {earlier.name}, whose configuration is equal"
        ending = Ending.of(EndKind.DONE, detail, same_as=earlier.trial_id)
        return Report(result, done=True, ending=ending)

    def _find(self, trial: Trial) -> Trial | None:
        """The first finished trial with the same configuration; None if there is none, or `trial` has begun or confirms
        another one.
        """
        while self._num_known < len(self._state.trials):
            known = self._state.trials[self._num_known]
            self._by_key.setdefault(config_key(known.current_config), []).append(known)
            self._num_known += 1
        if trial.repeats is not None:
            return None
        # A worker that was lost has brought nothing, and with a donor's checkpoint the trial is another one.
        if trial.progress.num_reports or trial.num_failures or trial.inherited is not None:
            return None
        key = config_key(trial.current_config)
        for earlier in self._by_key.get(key, ()):
            has_ended = earlier.phase is Phase.TERMINATED and bool(earlier.progress.metrics.get(DONE))
            if has_ended and config_key(earlier.current_config) == key:  # a scheduler may have changed it
                return earlier
        return None

    def _make_files(self, trial: Trial, info: TrialInfo) -> None:
        try:
            self._directories.fault(trial)
            if info.writes_parameters:
                write_parameters(trial.local_path, trial.current_config)
        except OSError as error:  # the trial's loggers meet the same error, and log it
            self._directories.raise_if_run_ends(error, trial.local_path)
