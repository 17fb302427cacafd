"""Signals while the driver runs the user's code: a hook of a plug-in, or a trial of the inline executor.

The hooks of these tests do not hang. They send the signals to their own process, and then they look whether they go on.
"""

import logging
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from kit import PauseOnce, SavedCounter, fit, journal_of, listening, resume, run_path

from minitune import (
    Callback,
    Checkpoint,
    FIFOScheduler,
    ProgressReporter,
    Searcher,
    Stopper,
    get_context,
    report,
)
from minitune.base.user_code import user_code
from minitune.executors.inline import InlineTrialExecutor
from minitune.logger import LoggerCallback
from minitune.record.journal import Journal
from minitune.record.recorder import Recorder


class Always(Searcher):
    def suggest(self, trial_id):
        return {"end": 6}


class Reports(ProgressReporter):
    def should_report(self, trials, done=False):
        return True

    def report(self, trials, done, *sys_info):
        pass


BASES = {
    "callbacks": Callback,
    "scheduler": PauseOnce,
    "search_alg": Always,
    "stop": Stopper,
    "progress_reporter": Reports,
}
HOOKS = [
    ("callbacks", "setup"),
    ("callbacks", "on_step_begin"),
    ("callbacks", "on_trial_start"),
    ("callbacks", "on_trial_result"),
    ("callbacks", "on_checkpoint"),
    ("callbacks", "on_trial_complete"),
    ("callbacks", "get_state"),
    ("scheduler", "on_trial_add"),
    ("scheduler", "on_trial_result"),
    ("scheduler", "on_trial_complete"),
    ("scheduler", "choose_trial_to_run"),
    ("scheduler", "get_state"),
    ("search_alg", "suggest"),
    ("search_alg", "on_trial_complete"),
    ("search_alg", "get_state"),
    ("stop", "__call__"),
    ("stop", "stop_all"),
    ("stop", "get_state"),
    ("progress_reporter", "setup"),
    ("progress_reporter", "should_report"),
    ("progress_reporter", "report"),
]


class Hanging:
    """A hook that gets signals, as a hook that hangs would. Each is ignored, or ends the hook.

    Args:
        *numbers: The signals.
        at: The number of the call in which they come.
    """

    def __init__(self, *numbers, at=1):
        self.numbers = numbers
        self.calls_left = at
        self.heard = []
        self.come_back = False

    def __call__(self):
        self.calls_left -= 1
        if self.calls_left == 0:
            for number in self.numbers:
                self.heard.append(number)
                signal.raise_signal(number)
            self.come_back = True


def run_with(kind, hook, hanging, **settings):
    """A run of two trials whose plug-in of this kind, a `Stuck`, hangs in a hook."""
    base = BASES[kind]

    def method(self, *args, **kwargs):
        hanging()
        return getattr(base, hook)(self, *args, **kwargs)

    method.__name__ = hook
    plugin = type("Stuck", (base,), {hook: method})()
    mine = {"search_alg": Always(), "scheduler": PauseOnce(), "stop": Stopper(), **settings}
    mine[kind] = [plugin] if kind == "callbacks" else plugin
    return fit(SavedCounter, num_samples=2, checkpoint_frequency=1, verbose=1, **mine)


def resumed():
    """The last report of each trial of the resumed run, whose plug-ins are well."""
    grid = resume(SavedCounter, search_alg=Always(), scheduler=PauseOnce(), num_samples=2, checkpoint_frequency=1)
    return [result.metrics["n"] for result in grid]


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A hook is named as soon as it has begun, and states are saved in each turn."""
    monkeypatch.setattr("minitune.driver.interrupts._TOLD_S", 0)
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "0")


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "hook"), HOOKS)
def test_the_first_ctrl_c_names_the_hook_and_the_second_ends_it_and_the_run_can_go_on(kind, hook, caplog):
    hanging = Hanging(signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_with(kind, hook, hanging)
    assert hanging.heard == [signal.SIGINT] * 2
    assert not hanging.come_back
    name = "Stuck" if hook == "__call__" else f"Stuck.{hook}"
    first, last = [text for text in caplog.messages if text.startswith("interrupted by SIGINT")]
    assert first.startswith(f"interrupted by SIGINT: {name} has run for 0.0 s")
    assert last.startswith("interrupted by SIGINT; resume with Tuner.restore(")
    end = journal_of()[-1]
    assert (end["type"], end["ending"]) == ("close", "interrupted")
    assert resumed() == [6, 6]


def test_records_before_a_hook_that_hangs_are_on_disk():
    """Also what the same turn of the loop has brought."""
    heard = []

    class Second(Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            heard.append(f"{trial.trial_id} {result['n']}")
            if len(heard) == 5:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(SavedCounter, {"end": 6}, num_samples=2, checkpoint_frequency=1, callbacks=[Second()])
    results = [f"{record['trial']} {record['metrics']['n']}" for record in journal_of() if record["type"] == "result"]
    assert results == heard[:4]


def test_a_hook_that_comes_back_after_the_first_ctrl_c_costs_nothing(caplog):
    hanging = Hanging(signal.SIGINT, at=3)
    grid = run_with("callbacks", "on_trial_result", hanging)
    assert hanging.come_back
    assert grid.interrupted
    assert sum(record["type"] == "result" for record in journal_of()) >= 3
    assert "no new trials start" in caplog.text
    assert resumed() == [6, 6]


def test_a_ctrl_c_at_the_start_of_a_run_starts_no_trial():
    grid = run_with("callbacks", "setup", Hanging(signal.SIGINT))
    assert grid.interrupted
    assert len(grid) == 0
    assert "start" not in [record["type"] for record in journal_of()]
    assert resumed() == [6, 6]


def test_a_hook_that_catches_the_interrupt_cannot_keep_the_run_from_ending():
    caught = []

    def stubborn(**info):
        try:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        except BaseException as error:
            caught.append(error)

    with pytest.raises(KeyboardInterrupt):
        fit(SavedCounter, {"end": 6}, num_samples=2, callbacks=[listening(on_trial_result=stubborn)])
    assert len(caught) == 1


def test_after_an_interrupt_all_callbacks_hear_of_the_end():
    ended = []

    class Ends(Callback):
        def on_experiment_end(self, trials, **info):
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "one Ctrl-C would end this hook"
            assert journal_of()[-1]["type"] == "close"
            ended.append(self)

    class Hangs(Ends):
        def on_trial_result(self, *args, **info):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    callbacks = [Ends(), Hangs(), Ends()]
    with pytest.raises(KeyboardInterrupt):
        fit(SavedCounter, {"end": 6}, callbacks=callbacks)
    assert ended == callbacks


def test_after_an_error_one_ctrl_c_ends_a_hook_at_the_end():
    """The record is closed, and the handlers are again those from before the run."""
    hanging = Hanging(signal.SIGINT)

    def fail(**info):
        raise RuntimeError("on purpose")

    with pytest.raises(KeyboardInterrupt):
        fit(
            SavedCounter,
            {"end": 6},
            callbacks=[listening(on_trial_result=fail, on_experiment_end=lambda **info: hanging())],
        )
    assert not hanging.come_back
    assert journal_of()[-1]["type"] == "close"


def test_a_function_for_directory_names_that_hangs_can_be_interrupted(caplog):
    hanging = Hanging(signal.SIGINT, signal.SIGINT)

    def name(trial):
        hanging()
        return trial.trial_id

    with pytest.raises(KeyboardInterrupt):
        fit(SavedCounter, {"end": 6}, trial_dirname_creator=name)
    assert "trial_dirname_creator has run for" in caplog.text
    assert journal_of()[-1]["ending"] == "interrupted"


def test_a_log_that_hangs_can_be_interrupted():
    hanging = Hanging(signal.SIGINT, signal.SIGINT)

    class Hangs(logging.Handler):
        def emit(self, record):
            if "failed" in record.getMessage():
                hanging()

    def trainable(config):
        if get_context().get_attempt() == 1:
            raise ValueError("once")

    log = logging.getLogger("minitune")
    handler = Hangs()
    log.addHandler(handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            fit(trainable, max_failures=1)
    finally:
        log.removeHandler(handler)
    assert hanging.heard == [signal.SIGINT] * 2
    assert journal_of()[-1]["ending"] == "interrupted"


def test_a_trial_of_the_inline_executor_that_hangs_can_be_interrupted(monkeypatch):
    """Its code runs on another thread, for which the driver waits."""
    told = []
    shutdown = InlineTrialExecutor.shutdown

    def tell_and_shut_down(self, grace_s=0.0):
        told.append("shutdown")
        shutdown(self, grace_s)

    class Keeps(logging.Handler):
        def emit(self, record):
            told.append(record.getMessage())

    def send(number, until):
        main = threading.main_thread().ident
        assert main is not None
        count = 0
        while not any(until in text for text in told):
            if number == signal.SIGUSR1 or count == 0:
                signal.pthread_kill(main, number)
            count += 1
            time.sleep(0.001)

    def trainable(config):
        report({"n": 1})
        send(signal.SIGUSR1, "interrupted by SIGUSR1: ")  # now the driver waits for this code
        send(signal.SIGINT, "interrupted by SIGINT: ")
        send(signal.SIGINT, "shutdown")

    log = logging.getLogger("minitune")
    handler = Keeps()
    log.addHandler(handler)
    monkeypatch.setattr(InlineTrialExecutor, "shutdown", tell_and_shut_down)
    try:
        with pytest.raises(KeyboardInterrupt):
            fit(trainable)
    finally:
        log.removeHandler(handler)
    assert "#1 has run for" in told[0]
    assert [record["metrics"]["n"] for record in journal_of() if record["type"] == "result"] == [1]


# -- other signals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_another_signal_names_a_hook_and_never_ends_it(number, caplog):
    sent_again = []
    before = signal.signal(signal.SIGTERM, lambda *_: sent_again.append(journal_of()[-1]["type"]))
    try:
        hanging = Hanging(number, number)
        grid = run_with("callbacks", "on_trial_start", hanging)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert hanging.come_back
    assert grid.interrupted
    assert sent_again == (["close"] if number == signal.SIGTERM else []), "after the run"
    assert f"interrupted by {number.name}: Stuck.on_trial_start has run for" in caplog.text


# -- our own code ------------------------------------------------------------------------------------------------------


def test_no_signal_handler_can_raise_while_a_record_is_made_or_written(monkeypatch):
    """Also not in a run that a hook of another run starts."""
    seen = set()
    num_writes = Counter()

    def watch(owner, name):
        real = getattr(owner, name)

        def watched(self, *args, **kwargs):
            is_our_own = user_code.running is None
            offset = getattr(self, "journal", self).offset
            done = real(self, *args, **kwargs)
            # The first two records of a run are written before its handlers are installed, as outside of any run.
            if name == "write" and self.offset > offset:
                num_writes[id(self)] += 1
            if name != "write" or (self.offset > offset and num_writes[id(self)] > 2):
                seen.add((name, is_our_own))
            return done

        monkeypatch.setattr(owner, name, watched)

    watch(Journal, "write")
    for name in ("result", "status", "trial_added", "attempt_starts", "checkpoint", "close"):
        watch(Recorder, name)

    class Nests(LoggerCallback):
        inner_path = ""

        def log_trial_start(self, trial):
            if not self.inner_path:
                [inner] = fit(SavedCounter, {"end": 2}, checkpoint_frequency=1, name="inner", callbacks=[Callback()])
                self.inner_path = inner.path

    def trainable(config):
        for n in range(3):
            report({"n": n}, checkpoint=Checkpoint.from_dict({"n": n}))

    nests = Nests()
    fit(trainable, num_samples=2, callbacks=[nests], scheduler=FIFOScheduler(), search_alg=Always(), verbose=1)
    assert Path(nests.inner_path).parent.name == "inner"
    assert run_path("inner").is_dir()
    assert user_code.running is None
    assert {name for name, is_our_own in seen if not is_our_own} == set()
    assert {"write", "result", "checkpoint", "close"} <= {name for name, _ in seen}
