"""FunctionRunner: runs the user's function on its own thread and returns one report at a time.

Theory
------
Two sides take turns. The control side asks for the next report. The user's thread runs until `report()` hands one over,
and waits there until it is asked for the next one::

    control   pull ------------------> (answer) ........... pull ------------------> (answer)
    user            runs ... report()                            returns ... report()

`Reports` carries a report to the other side and wakes the user's thread. In a worker process it is a pipe to the
driver, which the user's thread writes and reads itself. Elsewhere it is `HandOver`.

The changes that a report makes here (it counts an iteration) are prepared first and committed when the report counts.
So if the exception of a signal handler comes up in `report()`, either all changes are made or none. Several threads of
the function may report, but only one at a time, so that the driver sees the iterations in their order.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from numbers import Number
from queue import SimpleQueue
from types import FrameType
from typing import Any, Protocol

from minitune.base.checks import shown
from minitune.checkpoint import Checkpoint
from minitune.error import STOP_SWALLOWED, TrialStopped
from minitune.experiment.trial import TrialInfo
from minitune.resources import Allocation, Resources
from minitune.result import DEFAULT_METRIC, DONE, RESULT_DUPLICATE, Report, complete
from minitune.trainable.session import Session
from minitune.trainable.trainable import Trainable, TrainingResult, as_path, read_state, way_out, write_state

logger = logging.getLogger("minitune")

UserFunction = Callable[[dict[str, Any]], Any]

_END = Report(metrics=None, done=True)
"""The function has returned, and there is nothing new to report."""

_OLD_PARAMETERS = frozenset({"checkpoint_dir", "reporter"})
"""Parameters of functions in older versions of Ray Tune, which were passed by name."""
_STANDALONE_STOP_S = 10.0
"""Seconds that a function without a driver has to end after a stop."""
_DEAF = 3
"""If a thread gets `TrialStopped` this often, it has caught it. A `finally` block that reports gets it less often."""
_ATTEMPTS = 3
"""If completing the last result fails this often in a row, the errors do not come from signal handlers."""


class Reports(Protocol):
    """Carries one function's reports to the control side. Strict turns: each report has one answer."""

    def start(self, run: Callable[[], object], end: Callable[[BaseException | None], object]) -> Any:
        """Run the function on the user's thread, then call `end` with its exception or None.

        Returns:
            The result of an actor's `stop`: done when `end` is.
        """

    def pull(self) -> Any:
        """Ask for the next report. Returns the result of an actor's `train`."""

    def stop(self) -> None:
        """Wake a report that waits for its answer; `exchange` returns False."""

    def settle(self) -> bool:
        """Finish an interrupted exchange before the next one; return whether the function may continue."""

    def exchange(self, report: Report, commit: Callable[[], object]) -> bool:
        """Hand over a report, call `commit` when it counts, and wait for the answer; return the same as `settle`."""

    def end(self, last_word: Report | BaseException) -> None:
        """Hand over the outcome of the function."""

    def abandon(self) -> None:
        """The function ignores the stop: end it by force, if possible."""


class HandOver:
    """Carries reports between two threads of one process.

    Args:
        user_thread: An executor with one thread; the function is submitted to it.
    """

    def __init__(self, user_thread: Executor):
        self._user_thread = user_thread
        self._turns: SimpleQueue[None] = SimpleQueue()  # its `get` lets signal handlers run
        self._pull: Future[Report] | None = None  # the latest pull; done if it is answered
        self._is_stopped = False

    def start(self, run: Callable[[], object], end: Callable[[BaseException | None], object]) -> Future[None]:
        """See `Reports.start`."""

        def both() -> None:
            error = None
            try:
                run()
            except BaseException as raised:
                error = raised
            end(error)

        return self._user_thread.submit(both)

    def pull(self) -> Future[Report]:
        """See `Reports.pull`. Until it is answered, each call returns the same pull."""
        if self._pull is None or self._pull.done():
            self._pull = Future()
        self._turns.put(None)
        return self._pull

    def stop(self) -> None:
        """See `Reports.stop`."""
        self._is_stopped = True
        self._turns.put(None)

    def settle(self) -> bool:
        """See `Reports.settle`: wait until there is an unanswered pull."""
        while not self._is_stopped and (self._pull is None or self._pull.done()):
            self._turns.get()
        return not self._is_stopped

    def exchange(self, report: Report, commit: Callable[[], object]) -> bool:
        """See `Reports.exchange`."""
        commit()
        if self._pull is not None:
            self._pull.set_result(report)
        return self.settle()

    def end(self, last_word: Report | BaseException) -> None:
        """See `Reports.end`."""
        if self._pull is None or self._pull.done():  # the function is stopped, and no report was requested
            return
        if isinstance(last_word, BaseException):
            self._pull.set_exception(last_word)
        else:
            self._pull.set_result(last_word)

    def abandon(self) -> None:
        """See `Reports.abandon`: a thread cannot be ended by force."""


class FunctionRunner:
    """Runs one function once. The control side calls `pull` and `stop`, which never block.

    Args:
        function: The user's function, from `modern`.
        config: Its argument.
        session: Its connection to `report()`.
        user_thread: An executor with one thread; the function is submitted to it at the first pull.
    """

    def __init__(self, function: UserFunction, config: dict[str, Any], session: Session, user_thread: Executor):
        self._function = function
        self._config = config
        self._session = session
        new_reports: Callable[[], Reports] | None = getattr(user_thread, "new_reports", None)
        self._reports: Reports = HandOver(user_thread) if new_reports is None else new_reports()
        self._reporting = threading.RLock()  # one report at a time if the function reports from several threads
        self._reporter = 0  # the reporting thread; stale if a signal handler has ended its report
        self._running: Any = None
        self._is_stopping = False
        self._has_ended = False
        self._stops_heard: dict[int, int] = {}
        # The result of the function, and the result of a generator after that. Lists: see `_run`.
        self._returned: list[Any] = []
        self._drained: list[Any] = []
        self._last_word: Report | BaseException | None = None
        session.hand_over, session.check_stopping = self._hand_over, self._check_stopping

    @property
    def is_started(self) -> bool:
        """Whether a report was ever requested from the function."""
        return self._running is not None

    @property
    def has_ended(self) -> bool:
        """Whether the user's code has ended, or will never start."""
        return self._has_ended

    def pull(self) -> Any:
        """Ask for the next report.

        Returns:
            The result of an actor's `train`: the next report, the function's exception, or `Report(None, done=True)`
            once it has returned.
        """
        if self._has_ended:
            return _END
        answer = self._reports.pull()
        if self._running is None:
            self._running = self._reports.start(self._run, self._end)
        return answer

    def stop(self) -> Any:
        """Stop the function: its current or next `report()` raises `TrialStopped`.

        Returns:
            None if the user's code has ended, or a Future that is done when it has.
        """
        self._is_stopping = True
        self._reports.stop()
        self._has_ended = self._has_ended or self._running is None
        return None if self._has_ended else self._running

    # -- on the user's thread --------------------------------------------------------------------------------------

    def _hand_over(self, make: Callable[[], tuple[Report, Callable[[], object]]]) -> None:
        """Hand over a report and wait for the next pull. Called by `report()`, on any thread of the trial.

        Args:
            make: Makes the report, and a function to call when it counts.

        Raises:
            RuntimeError: If a signal handler reports after it has interrupted a report.
            TrialStopped: If the trial has to stop, or the function has returned while another thread reports.
        """
        thread = threading.get_ident()
        if self._reporter == thread:
            if _is_within(FunctionRunner._hand_over):
                raise RuntimeError(
                    "a signal handler called report() while report() was running: set a flag in the handler, and "
                    "report after the function has seen the flag"
                )
            self._let_go()
        with self._reporting:
            self._reporter = thread
            self._check_stopping()
            self._goes_on(self._reports.settle())
            self._goes_on(self._reports.exchange(*make()))
            self._reporter = 0

    def _let_go(self) -> None:
        """Release the lock if a signal handler has prevented that."""
        with suppress(RuntimeError):  # this thread does not hold it
            while True:
                self._reporting.release()

    def _goes_on(self, may: bool) -> None:
        if not may:
            self._is_stopping = True
        self._check_stopping()

    def _check_stopping(self) -> None:
        """Raise TrialStopped if the trial has to stop, or the function has returned while another thread reports."""
        if not self._is_stopping and not self._has_ended:
            return
        thread = threading.get_ident()
        times = self._stops_heard[thread] = self._stops_heard.get(thread, 0) + 1
        if times == _DEAF and self._is_stopping:
            logger.warning("the trial was told to stop, but %s", STOP_SWALLOWED)
            self._reports.abandon()
        raise TrialStopped("the trial is stopped; do not catch this exception, so that the trial can end")

    def _run(self) -> None:
        """Run the function.

        C code stores the returned value, so an exception of a signal handler after the function's end does not make it
        fail.
        """
        has_failed = False
        with self._session.bound():
            try:
                self._session.seed_generators(self._session.fields.iteration)
                self._session.fields.begin()
                self._returned.extend(map(self._function, (self._config,)))
                if self._returned and isinstance(self._returned[0], Generator):
                    self._drained.extend(map(self._drain, self._returned))
                if not any(value is not None for value in self._drained or self._returned):
                    self._session.hand_over_made()
            except BaseException as error:
                has_failed = not is_clean_end(error)
                raise
            finally:
                for finish in self._session.at_end:
                    try:
                        finish(has_failed)
                    except Exception as error:
                        logger.warning("after the end of the trial's function: %s: %s", type(error).__name__, error)

    def _end(self, error: BaseException | None) -> None:
        """Hand over the outcome of the function. In a worker, this is repeated if a signal handler raises."""
        self._let_go()
        with self._reporting:
            if not self._reports.settle():
                self._is_stopping = True
            self._has_ended = True  # before the outcome is sent: once it has arrived, the next pull may come
            if self._last_word is None:
                self._last_word = self._come_to(error)
            self._reports.end(self._last_word)

    def _come_to(self, error: BaseException | None) -> Report | BaseException:
        """Return the outcome: an error, or a report of the returned value."""
        values = self._drained or [value for value in self._returned if not isinstance(value, Generator)]
        if not values and error is not None and not is_clean_end(error):
            if isinstance(error, AttributeError) and error.obj is self._config:
                error.args = (f"{error}; the configuration is a dict: write config[{error.name!r}]",)
            if not self._is_stopping:
                return error
            logger.warning("the trial was stopped, and its function then raised an exception", exc_info=error)
        if self._is_stopping or not values or values[0] is None:
            return _END
        attempts = 0
        while True:
            try:
                report, commit = self._session.complete(self._as_metrics(values[0], "returned"))
                commit()
                return report
            except BaseException as raised:
                attempts += 1
                if attempts == _ATTEMPTS:
                    return raised

    def _drain(self, generator: Generator[Any, Any, Any]) -> Any:
        """Report each value that `generator` yields; return its return value.

        An exception of `report()` is raised at the generator's `yield`, so that its `finally` blocks run.
        """
        error: BaseException | None = None
        while True:
            try:
                value = next(generator) if error is None else generator.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            try:
                if value is not None:
                    self._session.report(self._as_metrics(value, "yielded"))
            except BaseException as raised:
                error = raised

    def _as_metrics(self, value: Any, verb: str) -> dict[str, Any]:
        """Return the value that the function has returned or yielded, as metrics.

        Raises:
            ValueError: If it is neither a dict nor a number. The text names the place of the function, because the
                traceback no longer has a frame of it.
        """
        if isinstance(value, dict):
            return value
        if isinstance(value, Number):
            return {DEFAULT_METRIC: value}
        raise ValueError(
            f"a trainable function must return or yield a dict of metrics, a number or None, but it {verb} "
            f"{type(value).__name__}: {value!r:.200}{_place_of(self._function)}{way_out(value)}"
        )


def _is_within(function: Callable[..., Any]) -> bool:
    """Whether `function` is the caller of the caller of this function, at any depth."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


def old_parameters(function: Any) -> frozenset[str]:
    """Return the old parameters that a function takes: `checkpoint_dir` and `reporter`, unless values are bound to
    them.

    This runs in each worker, so it reads the code object: `inspect.signature` takes as long as a short trial.
    """
    bound: set[str] = set()
    while True:
        if isinstance(function, functools.partial):
            bound.update(function.keywords)
            function = function.func
        elif hasattr(function, "__wrapped__"):
            bound.update(getattr(function, "parameters", ()), getattr(function, "handles", ()))
            function = function.__wrapped__
        else:
            break
    plain = function if hasattr(function, "__code__") else getattr(type(function), "__call__", None)  # noqa: B004  # its code is wanted
    code = getattr(plain, "__code__", None)
    if code is None:
        return frozenset()
    return _OLD_PARAMETERS.intersection(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - bound


def modern(function: UserFunction) -> UserFunction:
    """Return the function as one that takes only the configuration."""
    old = old_parameters(function)
    if not old:
        return function
    from minitune.legacy.trainables import OldFunction

    return OldFunction(function, old)


def is_clean_end(error: BaseException) -> bool:
    """Whether `error` is a normal end of user code: a stop, `StopIteration`, `sys.exit()`, `sys.exit(0)`."""
    if isinstance(error, SystemExit):
        return error.code is None or error.code == 0
    return isinstance(error, (TrialStopped, StopIteration))


def _place_of(function: Any) -> str:
    """Return where a function is defined, in brackets; empty if unknown."""
    function = getattr(function, "function", function)  # with values or resources bound to it
    code = getattr(function, "__code__", None)
    return f" ({function.__name__}, {code.co_filename}, line {code.co_firstlineno})" if code is not None else ""


class _DaemonThread(Executor):
    """Runs each call on a new daemon thread, so that a function that never stops does not block the exit of the
    interpreter.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, name="minitune-function", daemon=True).start()
        return future


class FunctionTrainable(Trainable):
    """A function as a class: each `train()` is one report. Made by `wrap_function`.

    Under a driver only the function is used; without one, this class runs the function on a separate thread.
    """

    _name = "func"
    _tune_function: UserFunction

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """Return the resources that `with_resources` has set for the function, or None."""
        request = getattr(cls._tune_function, "resources", None)
        return request(config) if callable(request) else request

    def setup(self, config: dict[str, Any]) -> None:
        """Prepare the function; it starts with the first `train()`."""
        info = TrialInfo(
            trial_id=self.trial_id,
            name=self.trial_name,
            directory=self.logdir,
            experiment_name=self.trial_name,
            resources=self.trial_resources or Resources.of(None),
            seed=0,
            config=config,
        )
        self._tune_fields = self._tune_new_fields()
        self._tune_session = Session(info, Allocation(), self._tune_fields)
        function = modern(type(self)._tune_function)
        self._tune_runner = FunctionRunner(function, config, self._tune_session, _DaemonThread())

    def train(self) -> dict[str, Any]:
        """Run the function until its next report. Blocks until then.

        Returns:
            The result; after the function has returned, the last one again, with `done`.

        Raises:
            BaseException: The error of the function.
        """
        result: dict[str, Any] | None = None
        while result is None:
            answer = self._tune_runner.pull()
            report: Report = answer.result() if isinstance(answer, Future) else answer
            if report.metrics is not None:  # None for a report that has only a checkpoint
                result = complete(report.metrics, self.config)
            elif report.done:
                result = {**self._tune_last_result, DONE: True, RESULT_DUPLICATE: True}
        self._tune_last_result = result
        self.log_result(result)
        return result

    def step(self) -> dict[str, Any]:
        """Same as `train`: the results of a function are complete."""
        return self.train()

    def save(self, checkpoint_dir: str | None = None) -> TrainingResult:
        """Return the last reported checkpoint.

        Args:
            checkpoint_dir: Directory to copy it to, or None.

        Raises:
            RuntimeError: If the function has not reported a checkpoint.
        """
        checkpoint = self._tune_session.checkpoint
        if checkpoint is None:
            raise RuntimeError("there is no checkpoint to save: the function has not reported one yet")
        if checkpoint_dir is not None:
            checkpoint = Checkpoint(checkpoint.to_directory(checkpoint_dir))
        write_state(checkpoint.path, self._tune_fields)
        return TrainingResult(checkpoint, dict(self._tune_last_result))

    def restore(self, checkpoint_path: Any) -> None:
        """Make the function start from a checkpoint.

        Args:
            checkpoint_path: The result of `save`, a Checkpoint, or a path.

        Raises:
            RuntimeError: If the function has been started.
        """
        if self._tune_runner.is_started:
            raise RuntimeError("a function can only be restored before its first train()")
        path = as_path(checkpoint_path)
        metrics = checkpoint_path.metrics if isinstance(checkpoint_path, TrainingResult) else read_state(path)
        self._tune_fields.restore(metrics)
        self._tune_session.checkpoint = Checkpoint(path)

    def reset(self, new_config: dict[str, Any]) -> bool:
        """Stop the function and prepare it with another configuration. Blocks until it has ended."""
        if not self._tune_unwind():
            return False
        self.config = new_config
        self._tune_last_result = {}
        self.setup(copy.deepcopy(new_config))
        return True

    def stop(self) -> None:
        """Stop the function: its `report()` raises `TrialStopped`. Blocks until it has ended, at most 10 s."""
        if not self._tune_unwind():
            logger.warning("the function of %s did not end within %g s", self.trial_name, _STANDALONE_STOP_S)

    def _tune_unwind(self) -> bool:
        running = self._tune_runner.stop()
        return running is None or bool(wait([running], _STANDALONE_STOP_S).done)


def wrap_function(train_func: UserFunction, name: str | None = None) -> type[FunctionTrainable]:
    """Make a class from a function.

    Args:
        train_func: A function of one positional argument.
        name: The name of its trials; by default the function's name.

    Returns:
        A subclass of FunctionTrainable with that name.

    Raises:
        TypeError: If it is not a function, or the name is not text.
    """
    if not callable(train_func):
        raise TypeError(f"train_func must be a function of the configuration, but got {shown(train_func)}")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be None or text, but got {shown(name)}")
    called = name or str(getattr(train_func, "__name__", type(train_func).__name__))
    body = {
        "_name": called,
        "_tune_function": staticmethod(train_func),
        "__module__": FunctionTrainable.__module__,
        "__doc__": inspect.getdoc(train_func),
    }
    return type(called, (FunctionTrainable,), body)
