"""A signal handler of the user's that raises while `report()` is at work, and reports from several threads."""

import signal
import threading
from pathlib import Path

from kit import Spy, fit

from minitune import grid_search, report
from minitune.error import WorkerDiedError


def _fit(trainable, space=None, **settings):
    """A run, with the iterations of its reports in the order in which they arrive."""
    seen = []
    spy = Spy(lambda trial, result: seen.append(result["training_iteration"]))
    return seen, fit(trainable, space, executor="local", callbacks=[spy], **settings)


def _under_alarms(config):
    """Single shots with delays of all lengths that a report takes, or one interval timer."""

    def ring(number, frame):
        nonlocal is_armed
        if is_armed:  # another one in the `except` clause would be the function's own mistake
            is_armed = False
            raise TimeoutError

    is_armed = False
    signal.signal(signal.SIGALRM, ring)
    if config["interval_s"]:
        signal.setitimer(signal.ITIMER_REAL, config["interval_s"], config["interval_s"])
    for i in range(config["reports"]):
        try:
            is_armed = True
            if not config["interval_s"]:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + 7 * i % 500))
            report({"i": i, "text": "x" * config["size"]})
            is_armed = False
        except TimeoutError:
            Path("struck").touch()


def test_raising_alarm_in_report_loses_no_report():
    alarms = [(0.0, 400, 0), (0.005, 400, 0), (0.005, 20, 1_000_000)] * 3
    space = {"alarm": grid_search([dict(zip(("interval_s", "reports", "size"), one, strict=True)) for one in alarms])}
    seen, grid = _fit(lambda config: _under_alarms(config["alarm"]), space, max_concurrent_trials=1, reuse_actors=True)
    starts = [at for at, iteration in enumerate(seen) if iteration == 1]
    assert starts
    for begin, end in zip(starts, [*starts[1:], len(seen)], strict=True):
        assert seen[begin:end] == list(range(1, end - begin + 1))
    assert grid.errors, "one of so many alarms strikes while report() waits for the driver"
    for result in grid:
        if result.error is not None:
            assert isinstance(result.error, WorkerDiedError)
            assert "a signal handler of the trial has raised it" in str(result.error)
            assert Path(result.path, "struck").exists()


def _interrupted(config):
    report({"x": 1})
    delay_s = 1e-4
    while True:
        delay_s += 1e-5
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, delay_s)
        report({"x": 2})
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_keyboard_interrupt_in_report_is_a_loss_like_one_in_user_code(hurried, caplog):
    _, grid = _fit(_interrupted)
    assert "lost its worker" in caplog.text
    assert grid.errors


def _reports_in_handler(config):
    errors = []

    def ring(number, frame):
        try:
            report({"of": "handler"})
        except RuntimeError as error:
            errors.append(str(error))

    signal.signal(signal.SIGALRM, ring)
    while not errors:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        report({"of": "function"})
    signal.setitimer(signal.ITIMER_REAL, 0)
    report({"of": "function", "error": errors[0]})


def test_a_handler_that_has_interrupted_report_must_not_report():
    _, grid = _fit(_reports_in_handler)
    assert "a signal handler called report()" in grid[0].metrics["error"]


def _reports_from_threads(config):
    def work():
        for _ in range(50):
            report({"x": 1})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_reports_from_several_threads_arrive_in_the_order_of_their_iterations():
    seen, _ = _fit(_reports_from_threads)
    assert seen == list(range(1, 201))


def _deaf(config):
    while True:
        try:
            report({"x": 1})
        except:  # noqa: E722 - the mistake that is tried
            pass


def test_trial_that_swallows_its_stop_ends_at_a_later_report(caplog, monkeypatch):
    monkeypatch.setenv("TUNE_FORCE_TRIAL_CLEANUP_S", "3600")  # nothing but the worker itself ends it in time
    _, grid = _fit(_deaf, stop={"training_iteration": 3})
    assert grid[0].metrics["training_iteration"] == 3
    assert "has caught TrialStopped and gone on" in caplog.text
    assert "has caught TrialStopped and gone on" in Path(grid[0].path, "stderr").read_text()
