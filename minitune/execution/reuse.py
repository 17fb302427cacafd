"""Reuse: a trial whose configuration was tried before ends at once, with the result of the earlier trial."""

from __future__ import annotations

from minitune import clock
from minitune.decision import STOP, Decision
from minitune.execution.hooks import TRAINABLE_ENDED, Hooks
from minitune.execution.recorder import Recorder
from minitune.execution.run_state import RunState
from minitune.execution.trial_actions import TrialActions
from minitune.experiment.lifecycle import Phase, Step
from minitune.experiment.trial import Trial
from minitune.result import CHECKPOINT_DIR_NAME, CONFIG, DONE, EXPERIMENT_TAG, TRIAL_ID
from minitune.search.equality import config_key


class Reuse:
    """Finds earlier trials by what they have tried.

    Args:
        state: The trials of the run.
        hooks: The plug-ins: for them the trial begins, reports once and ends.
        recorder: Who writes that down.
        actions: Carries out its steps.
    """

    def __init__(self, state: RunState, hooks: Hooks, recorder: Recorder, actions: TrialActions):
        self._state = state
        self._hooks = hooks
        self._recorder = recorder
        self._actions = actions
        self._by_key: dict[str, list[Trial]] = {}
        self._num_known = 0

    def find(self, trial: Trial) -> Trial | None:
        """The first trial that has tried the same and has ended well; None for a trial that has begun already."""
        while self._num_known < len(self._state.trials):
            known = self._state.trials[self._num_known]
            self._by_key.setdefault(config_key(known.config), []).append(known)
            self._num_known += 1
        if trial.attempt > 1 or trial.report_count:
            return None
        key = config_key(trial.config)
        for earlier in self._by_key.get(key, ()):
            has_ended = earlier.phase is Phase.TERMINATED and bool(earlier.last_result.get(DONE))
            if has_ended and config_key(earlier.config) == key:  # a scheduler may have changed it on the way
                return earlier
        return None

    def end(self, trial: Trial, earlier: Trial) -> None:
        """Bring a trial that was about to get a worker to its end. It has no checkpoint: the earlier one has.

        Args:
            trial: The trial; its directory is there, and its start on record.
            earlier: Whose result it gets.
        """
        trial.start_time = clock.current().time()
        self._hooks.started(trial)
        self._actions.move(trial, Step.TRAIN, f"has the configuration of trial {earlier.name}")
        result = {**earlier.last_result, TRIAL_ID: trial.trial_id, CONFIG: trial.config}
        if CHECKPOINT_DIR_NAME in result:
            result[CHECKPOINT_DIR_NAME] = None
        decision = self._hooks.decide(trial, result, ends=True)
        self._hooks.result(trial, result)
        result[EXPERIMENT_TAG] = trial.experiment_tag
        trial.record_result(result)
        reason = f"{TRAINABLE_ENDED}: it has the result of trial {earlier.name}, whose configuration is equal"
        decision = decision if decision.reason != TRAINABLE_ENDED else Decision(STOP, reason)
        self._recorder.result(trial, result, decision, None)
        trial.completes()
        self._hooks.completed(trial)
        self._actions.move(trial, Step.STOP, decision.reason)
        self._actions.is_over(trial)
