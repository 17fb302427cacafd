"""Schedulers that act at random, trials that fail, drivers that are cut off: the run still ends in order.

`check_run` has the rules that hold for each run. `MINITUNE_TEST_STORMS=500` tries more of them than the suite does.
"""

import os
import random
import signal
from collections import Counter as Tally

import pytest
from kit import (
    EndAfter,
    Log,
    LoggingCallback,
    LoggingSearcher,
    Reader,
    SavedCounter,
    Spy,
    check_story,
    fit,
    live_reports,
    records_in,
    report_state,
    restored_state,
    resume,
    run_path,
)

from minitune import (
    Callback,
    FIFOScheduler,
    TuneError,
    report,
)
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.experiment.decision import Decision
from minitune.record.reading import read_run

TRIALS, STEPS = 5, 5


class Storm(FIFOScheduler):
    """Decides at random, and asks for things about random trials, so many times."""

    def __init__(self, seed, acts):
        self.random = random.Random(seed)
        self.acts = acts

    def on_trial_result(self, tune_controller, trial, result):
        self.act(tune_controller)
        if self.acts <= 0 or self.random.random() < 0.5:
            return self.CONTINUE
        self.acts -= 1
        donor = self.random.choice(donors(tune_controller) or [trial])
        return self.random.choice(
            [
                self.PAUSE,
                self.NOOP,
                self.STOP if self.random.random() < 0.3 else self.PAUSE,
                Decision("CONTINUE", save=True),
                Decision("PAUSE", exploit=(donor, self.changed(trial))),
            ]
        )

    def act(self, context):
        while self.acts > 0 and self.random.random() < 0.3:
            self.acts -= 1
            trial = self.random.choice(context.get_trials())
            verb = self.random.choice(["stop", "pause", "pause", "abandon", "exploit"])
            if verb == "stop" and self.random.random() < 0.3:
                context.stop_trial(trial)
            elif verb == "pause":
                context.pause_trial(trial)
            elif verb == "abandon":
                context.pause_trial(trial, should_checkpoint=False)
            elif verb == "exploit":
                context.exploit_trial(trial, self.random.choice(donors(context) or [trial]), self.changed(trial))

    def changed(self, trial):
        return {**trial.config, "i": self.random.randrange(100)}

    def on_trial_error(self, tune_controller, trial):
        self.act(tune_controller)

    def on_trial_complete(self, tune_controller, trial, result):
        self.act(tune_controller)

    def on_trial_remove(self, tune_controller, trial):
        self.act(tune_controller)

    def choose_trial_to_run(self, tune_controller):
        waiting = [t for t in tune_controller.get_live_trials() if t.status in ("PENDING", "PAUSED")]
        if self.acts > 0 and any(trial.status == "RUNNING" for trial in tune_controller.get_trials()):
            return self.random.choice(tune_controller.get_trials() or [None])
        return self.random.choice(waiting) if waiting else None


def donors(context):
    """Those whose checkpoints are not of the very end."""
    return [trial for trial in context.get_live_trials() if trial.last_result.get("n", 0) < STEPS]


class CutAtHook(Callback):
    """Raises at the n-th call of any hook of a trial; at the minus n-th it presses Ctrl-C."""

    def __init__(self, calls):
        self.calls = abs(calls)
        self.interrupts = calls < 0

    def count(self, **info):
        self.calls -= 1
        if self.calls == 0 and self.interrupts:
            os.kill(os.getpid(), signal.SIGINT)
        elif self.calls == 0:
            raise RuntimeError("cut off")

    on_trial_start = on_trial_restore = on_trial_save = on_trial_result = count
    on_checkpoint = on_trial_complete = on_trial_recover = on_trial_error = count


def trainable_of(kind, seed, failures, overrun):
    """A trainable that fails at random, so many times in all."""
    chance, left = random.Random(seed), [failures]

    def maybe_fail():
        if left[0] and chance.random() < 0.2:
            left[0] -= 1
            raise ValueError("no luck")

    def storm(config):
        for n in range((restored_state() if kind == "saved function" else 0) + 1, STEPS + 1):
            maybe_fail()
            if kind == "saved function":
                report_state(n, {"n": n})
            else:
                report({"n": n})

    class storm_class(SavedCounter):  # the trainable's name is the run's
        def step(self):
            if self.n >= STEPS:
                overrun.append(self.trial_id)
                return {"n": self.n, "done": True}
            maybe_fail()
            return super().step()

        def reset_config(self, new_config):
            self.n = 0
            return chance.random() < 0.7

    if kind == "class":
        storm_class.__name__ = "storm"
        return storm_class
    return storm


def check_run(grid, spy, log):
    """The rules that hold for each run that has ended."""
    assert set(spy.statuses) <= {"TERMINATED", "ERROR"}
    assert grid.num_errors + grid.num_terminated + grid.num_not_started == len(grid) <= TRIALS
    assert [trial.number for trial in spy.trials] == list(range(len(grid)))

    # the searcher hears of each suggestion's end once
    completed = [line.removesuffix(" done") for line in log.of("searcher.on_trial_complete")]
    ended = Tally(line.split()[-2 if "n=" in line else -1] for line in completed)
    assert ended == Tally(str(number) for number in range(len(grid)))
    pauses = Tally(line.split()[1] for line in log.of("searcher.on_pause"))
    unpauses = Tally(line.split()[1] for line in log.of("searcher.on_unpause"))
    assert all(unpauses[number] <= count for number, count in pauses.items())

    # callbacks hear of each trial's life in order: nothing before its start, and its end once, as the last of it
    assert log.of("callback.")[-1:] == log.of("callback.on_experiment_end") == ["callback.on_experiment_end"]
    lives = {}
    for line in log.of("callback.")[:-1]:
        hook, number = line.split()[:2]
        lives.setdefault(number, []).append(hook.removeprefix("callback."))
    for hooks in lives.values():
        while hooks[0] == "on_trial_save":  # a trial that waits may be paused
            del hooks[0]
        assert hooks[0] in ("on_trial_start", "on_trial_complete", "on_trial_error"), hooks
        assert [hook for hook in hooks if hook in ("on_trial_complete", "on_trial_error")] == hooks[-1:], hooks

    # the journal has each report of the live view once
    check_story(read_run(run_path()), spy.trials)
    live = live_reports(records_in(run_path() / "journal"))
    assert [len(live.get(trial.trial_id, ())) for trial in spy.trials] == [
        trial.progress.num_reports for trial in spy.trials
    ]


@pytest.mark.parametrize("seed", range(int(os.environ.get("MINITUNE_TEST_STORMS", "10"))))
def test_the_run_ends_in_order(seed):
    """All follows from the seed."""
    draw = random.Random(seed)
    kind = draw.choice(["class", "function", "saved function"])
    acts, failures = draw.randint(0, 25), draw.randint(0, 6)
    failure = draw.choice([*({"max_failures": n} for n in (0, 1, -1)), {"fail_fast": True}])
    results = draw.choice([None, None, draw.randint(1, 30)])
    limit, reuse = draw.choice([None, 1, 2]), draw.random() < 0.5
    cuts = [draw.choice([-1, 1]) * draw.randint(1, 40) for _ in range(draw.randint(0, 3))]
    overrun = []
    executor = InlineTrialExecutor(Machine({"CPU": 4}, ()))
    trainable = trainable_of(kind, seed, failures, overrun)

    def begin_or_go_on(log, callbacks):
        settings = {
            "executor": executor,
            "search_alg": LoggingSearcher(log),
            "scheduler": Storm(seed, acts),
            "num_samples": TRIALS,
            "max_concurrent_trials": limit,
            "reuse_actors": reuse,
            "callbacks": callbacks,
            "num_to_keep": 2,
            "checkpoint_frequency": 2 if kind == "class" else 0,
            "stop": None if results is None else EndAfter(results),
            **failure,
        }
        if run_path().exists():
            return resume(trainable, **settings)
        return fit(trainable, {"end": STEPS}, **settings)

    for cut in cuts:
        ended_by = "cut off"
        try:
            begin_or_go_on(Log(), [CutAtHook(cut)])
        except TuneError as error:
            ended_by = str(error)
        assert "cut off" in ended_by
    log, spy = Log(), Spy()
    grid = begin_or_go_on(log, [spy, LoggingCallback(log), Reader()])
    check_run(grid, spy, log)
    totals, free = executor.resources()
    assert free == totals, "nothing is held any more"
    assert len(grid) == TRIALS or results is not None or "fail_fast" in failure
    assert not overrun, "a trial that had ended went on"
    again = begin_or_go_on(Log(), [Spy()])
    assert [result.metrics for result in again] == [result.metrics for result in grid]
    assert [str(result.error)[-20:] for result in again] == [str(result.error)[-20:] for result in grid]
