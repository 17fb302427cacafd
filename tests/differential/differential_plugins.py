"""Plug-ins that write down what they are told, and that decide by counting alone."""

import random
from collections import Counter
from typing import Any

from minitune import Callback, Searcher, Stopper, TrialScheduler
from minitune.experiment.decision import CONTINUE, NOOP, PAUSE, STOP, Decision

Notes = list[tuple[str, str, Any]]
"""(what, the trial's id or nothing, details)."""


class NotingCallback(Callback):
    """Writes down each hook, with what can be seen of the trial at that moment."""

    def __init__(self, notes):
        self._notes = notes

    def _note(self, hook, trial, details=None):
        seen = (
            trial.status,
            trial.attempt.number,
            trial.progress.num_reports,
            trial.num_failures,
            len(trial.checkpoints),
        )
        self._notes.append((hook, trial.trial_id, (*seen, details)))

    def on_trial_start(self, iteration, trials, trial, **info):
        self._note("start", trial)

    def on_trial_restore(self, iteration, trials, trial, **info):
        self._note("restore", trial)

    def on_trial_save(self, iteration, trials, trial, **info):
        self._note("save", trial)

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self._note("result", trial, result)

    def on_checkpoint(self, iteration, trials, trial, checkpoint, **info):
        self._note("checkpoint", trial, checkpoint.path)

    def on_trial_complete(self, iteration, trials, trial, **info):
        self._note("complete", trial)

    def on_trial_recover(self, iteration, trials, trial, **info):
        self._note("recover", trial)

    def on_trial_error(self, iteration, trials, trial, **info):
        self._note("error", trial)

    def on_experiment_end(self, trials, **info):
        self._notes.append(("end", "", [trial.status for trial in trials]))


class PausingScheduler(TrialScheduler):
    """Pauses each trial after every two reports, and goes on with whichever its seed and the counts say."""

    def __init__(self, seed, notes, pauses=4):
        self._seed = seed
        self._notes = notes
        self._reports = Counter()
        self._rng_of_pause = pauses

    def on_trial_result(self, tune_controller, trial, result):
        self._reports[trial.trial_id] += 1
        count = self._reports[trial.trial_id]
        self._notes.append(("scheduler", trial.trial_id, ("result", count, result.get("step"))))
        if count % 2 == 0 and count <= 2 * self._rng_of_pause:
            return Decision(PAUSE, f"after {count} reports")
        return self.decide(tune_controller, trial, count)

    def decide(self, tune_controller, trial, count):
        """The decision where there is no pause."""
        return Decision(CONTINUE) if count < 25 else Decision(STOP, "enough")

    def choose_trial_to_run(self, tune_controller):
        waiting = [trial for trial in tune_controller.get_live_trials() if trial.status in ("PENDING", "PAUSED")]
        return min(waiting, key=self._order, default=None)

    def _order(self, trial):
        return random.Random(f"{self._seed}/{trial.number}/{self._reports[trial.trial_id]}").random()

    def on_trial_add(self, tune_controller, trial):
        self._notes.append(("scheduler", trial.trial_id, "add"))

    def on_trial_error(self, tune_controller, trial):
        self._notes.append(("scheduler", trial.trial_id, "error"))

    def on_trial_complete(self, tune_controller, trial, result):
        self._notes.append(("scheduler", trial.trial_id, ("complete", result)))

    def on_trial_remove(self, tune_controller, trial):
        self._notes.append(("scheduler", trial.trial_id, "remove"))


class MeddlingScheduler(PausingScheduler):
    """Also saves, stops and pauses others and the trial itself, and copies from other trials."""

    def decide(self, tune_controller, trial, count):
        """One of all things that a scheduler can do."""
        if count >= 25:
            return Decision(STOP, "enough")
        rng = random.Random(f"{self._seed}/{trial.number}/{count}/decide")
        others = [other for other in tune_controller.get_live_trials() if other is not trial]
        other = rng.choice(others) if others else trial
        action = rng.choice(("none", "none", "save", "pause", "pause unsaved", "stop", "other", "exploit"))
        if action == "save":
            return Decision(CONTINUE, "saves", save=True)
        if action.startswith("pause"):
            tune_controller.pause_trial(trial, should_checkpoint=action == "pause")
            return NOOP
        if action == "stop" and count > 4:
            tune_controller.stop_trial(trial)
            return NOOP
        if action == "other" and rng.random() < 0.5:
            (tune_controller.stop_trial if rng.random() < 0.3 else tune_controller.pause_trial)(other)
        if action == "exploit" and other is not trial:
            return Decision(PAUSE, "exploits", exploit=(other, {**other.config, "x": count + 0.5}))
        return CONTINUE


class LoggingSearcher(Searcher):
    """A searcher that is asked for each trial when it can start, and writes down what it hears."""

    def __init__(self, seed, limit, notes):
        super().__init__()
        self._rng = random.Random(seed)
        self._left = limit
        self._notes = notes
        self._space = {}

    def set_search_properties(self, metric, mode, config, **spec):
        super().set_search_properties(metric, mode, config, **spec)
        self._space = dict(config)
        return True

    def suggest(self, trial_id):
        self._notes.append(("searcher", trial_id, "suggest"))
        if not self._left:
            return Searcher.FINISHED
        self._left -= 1
        return {**self._space, "salt": self._rng.randrange(10**9), "x": self._rng.random()}

    def on_trial_result(self, trial_id, result):
        self._notes.append(("searcher", trial_id, ("result", result.get("step"))))

    def on_trial_complete(self, trial_id, result=None, error=False):
        self._notes.append(("searcher", trial_id, ("complete", result, error)))

    def on_trial_error(self, trial_id):
        self._notes.append(("searcher", trial_id, "error"))

    def on_pause(self, trial_id):
        self._notes.append(("searcher", trial_id, "pause"))

    def on_unpause(self, trial_id):
        self._notes.append(("searcher", trial_id, "unpause"))


class StopAfter(Stopper):
    """Ends the run after so many reports of all trials together."""

    def __init__(self, limit):
        self._left = limit

    def __call__(self, trial_id, result):
        self._left -= 1
        return False

    def stop_all(self):
        return self._left <= 0
