"""FunctionRunner: gives the user's function a thread to itself and pulls one report at a time out of it.

Theory
------
Two sides take turns. The control side asks for the next report; the user's thread runs until `report()` hands one over,
and waits there until it is asked for the next one::

    control   pull ------------------> (answer) ........... pull ------------------> (answer)
    user            runs ... report()                            returns ... report()

How a report gets to the other side, and the user's thread is woken, is the affair of `Reports`. In a worker of its own
it is a pipe to the driver, which the user's thread writes and reads itself. Elsewhere it is `HandOver`.

What a report changes here (it counts an iteration) is prepared aside and committed when the report counts. So if the
exception of a signal handler comes up in `report()`, either all of it has happened or nothing. Several threads of the
function may report: one at a time, so that the driver sees the iterations in their order.
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
from minitune.result import DEFAULT_METRIC, DONE, RESULT_DUPLICATE, Report
from minitune.trainable.session import Session
from minitune.trainable.trainable import Trainable, TrainingResult, as_path, read_state, way_out, write_state

logger = logging.getLogger("minitune")

UserFunction = Callable[[dict[str, Any]], Any]

_END = Report(metrics=None, done=True)
"""The function has returned, and has nothing new to say."""

_OLD_PARAMETERS = frozenset({"checkpoint_dir", "reporter"})
"""Parameters of functions in older versions of Ray Tune, which were given by name."""
_STANDALONE_STOP_S = 10.0
"""How long a function that is used without a driver may take to unwind."""
_DEAF = 3
"""A thread that gets `TrialStopped` so often has caught it, and was not just in a `finally` block that reports."""
_ATTEMPTS = 3
"""Failures to complete the last result, in a row, until it is believed that no signal handler has raised them."""


class Reports(Protocol):
    """The way of one function's reports to the control side. Strict turns: each report has one answer."""

    def start(self, run: Callable[[], object], end: Callable[[BaseException | None], object]) -> Any:
        """Run the function on the user's thread, then `end` with what it has raised.

        Returns:
            The result of an actor's `stop`: done when `end` is.
        """

    def pull(self) -> Any:
        """Ask for the next report. Returns what an actor's `train` returns."""

    def stop(self) -> None:
        """Wake a report that waits for its answer; `exchange` returns False."""

    def settle(self) -> bool:
        """End what was interrupted, before anything else is handed over; returns whether the function may go on."""

    def exchange(self, report: Report, commit: Callable[[], object]) -> bool:
        """Hand over a report, call `commit` when it counts, and wait for the answer; returns as `settle` does."""

    def end(self, last_word: Report | BaseException) -> None:
        """Hand over what the function has come to."""

    def abandon(self) -> None:
        """The function does not hear the stop: end it by force, where that is possible."""


class HandOver:
    """The way of reports between two threads of one process.

    Args:
        user_thread: One thread; the function is submitted to it.
    """

    def __init__(self, user_thread: Executor):
        self._user_thread = user_thread
        self._turns: SimpleQueue[None] = SimpleQueue()  # its `get` still lets signal handlers run
        self._pull: Future[Report] | None = None  # the latest one, answered (done) or not
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
        """See `Reports.pull`. As long as it is not answered, it is the same one, however often it is asked for."""
        if self._pull is None or self._pull.done():
            self._pull = Future()
        self._turns.put(None)
        return self._pull

    def stop(self) -> None:
        """See `Reports.stop`."""
        self._is_stopped = True
        self._turns.put(None)

    def settle(self) -> bool:
        """See `Reports.settle`: wait until there is a pull that is not answered."""
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
        if self._pull is None or self._pull.done():  # it is stopped, and nothing was asked for
            return
        if isinstance(last_word, BaseException):
            self._pull.set_exception(last_word)
        else:
            self._pull.set_result(last_word)

    def abandon(self) -> None:
        """See `Reports.abandon`: a thread cannot be ended by force."""


class FunctionRunner:
    """Runs one function once. `pull` and `stop` belong to the control side and never block.

    Args:
        function: The user's function.
        config: Its argument.
        session: Its way to `report()`.
        user_thread: One thread; the function is submitted to it at the first pull.
    """

    def __init__(self, function: UserFunction, config: dict[str, Any], session: Session, user_thread: Executor):
        self._function = _modern(function)
        self._config = config
        self._session = session
        new_reports: Callable[[], Reports] | None = getattr(user_thread, "new_reports", None)
        self._reports: Reports = HandOver(user_thread) if new_reports is None else new_reports()
        self._reporting = threading.RLock()  # one report at a time, should the function report from several threads
        self._reporter = 0  # the thread that reports; a wrong one if a signal handler has ended its report
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
        """Whether the function was ever asked for a report."""
        return self._running is not None

    @property
    def has_ended(self) -> bool:
        """Whether the user's code has unwound, or will never start."""
        return self._has_ended

    def pull(self) -> Any:
        """Ask for the next report.

        Returns:
            The result of an actor's `train`: it comes to the next report, to the function's exception, or to
            `Report(None, done=True)` once it has returned.
        """
        if self._has_ended:
            return _END
        answer = self._reports.pull()
        if self._running is None:
            self._running = self._reports.start(self._run, self._end)
        return answer

    def stop(self) -> Any:
        """End the function: its current or next `report()` raises `TrialStopped`.

        Returns:
            None if the user's code has unwound, or a Future that is done when it has.
        """
        self._is_stopping = True
        self._reports.stop()
        self._has_ended = self._has_ended or self._running is None
        return None if self._has_ended else self._running

    # -- on the user's thread --------------------------------------------------------------------------------------

    def _hand_over(self, make: Callable[[], tuple[Report, Callable[[], object]]]) -> None:
        """Hand over a report and wait for the next pull. Called by `report()`, on any thread of the trial.

        Args:
            make: Makes the report, and what is to be done when it counts.

        Raises:
            RuntimeError: If a signal handler reports that has interrupted a report.
            TrialStopped: If the trial is to stop, or the function has returned while another thread reports.
        """
        thread = threading.get_ident()
        if self._reporter == thread:
            if _is_within(FunctionRunner._hand_over):
                raise RuntimeError(
                    "a signal handler called report() while report() was running: set a flag in the handler, and "
                    "report "
                    "after the function has seen the flag"
                )
            self._let_go()
        with self._reporting:
            self._reporter = thread
            self._check_stopping()
            self._goes_on(self._reports.settle())
            self._goes_on(self._reports.exchange(*make()))
            self._reporter = 0

    def _let_go(self) -> None:
        """Release the lock, if a signal handler has kept this thread from it."""
        with suppress(RuntimeError):  # this thread does not hold it
            while True:
                self._reporting.release()

    def _goes_on(self, may: bool) -> None:
        if not may:
            self._is_stopping = True
        self._check_stopping()

    def _check_stopping(self) -> None:
        """Raise TrialStopped if the trial is to stop, or the function has returned while another thread reports."""
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

        C code keeps what it has returned, so the exception of a signal handler after its end makes no failure of it.
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
        """Hand over what the function has come to. In a worker this is repeated if a signal handler raises."""
        self._let_go()
        with self._reporting:
            if not self._reports.settle():
                self._is_stopping = True
            self._has_ended = True  # before the last word: once that is heard, the next pull may come
            if self._last_word is None:
                self._last_word = self._come_to(error)
            self._reports.end(self._last_word)

    def _come_to(self, error: BaseException | None) -> Report | BaseException:
        """The last word: an error, or a report of what was returned."""
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
        """Report whatever `generator` yields; returns what it returns.

        Whatever `report()` would raise is raised at the generator's `yield`, so that its `finally` blocks run.
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
        """The value that the function has returned or yielded, as metrics.

        Raises:
            ValueError: If it is none; the text says where the function is, which no frame does any more.
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
    """Whether `function` calls the caller of the function that asks, at whatever depth."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


def old_parameters(function: Any) -> frozenset[str]:
    """Which parameters of old a function takes: `checkpoint_dir` and `reporter`, unless values are bound to them.

    This runs in each worker, so it looks at the code: `inspect.signature` takes as long as a short trial.
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


def _modern(function: UserFunction) -> UserFunction:
    """The function, as one that takes the configuration alone."""
    old = old_parameters(function)
    if not old:
        return function
    from minitune.legacy.trainables import OldFunction

    return OldFunction(function, old)


def is_clean_end(error: BaseException) -> bool:
    """Whether user code that raised `error` meant to end well: a stop, `StopIteration`, `sys.exit()`, `sys.exit(0)`."""
    if isinstance(error, SystemExit):
        return error.code is None or error.code == 0
    return isinstance(error, (TrialStopped, StopIteration))


def _place_of(function: Any) -> str:
    """Where a function is defined, in brackets; nothing if that is not known."""
    function = getattr(function, "function", function)  # with values or resources bound to it
    code = getattr(function, "__code__", None)
    return f" ({function.__name__}, {code.co_filename}, line {code.co_firstlineno})" if code is not None else ""


class _DaemonThread(Executor):
    """Runs each call on a daemon thread of its own: a function that is never stopped must not hold the interpreter."""

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

    Under a driver only the function counts; without one this class runs it on a thread of its own.
    """

    _name = "func"
    _tune_function: UserFunction

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """What `with_resources` said of the function, if anything."""
        request = getattr(cls._tune_function, "resources", None)
        return request(config) if callable(request) else request

    def setup(self, config: dict[str, Any]) -> None:
        """Prepare the function; it starts with the first `train()`."""
        self._tune_start(config)

    def _tune_start(self, config: dict[str, Any]) -> None:
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
        self._tune_runner = FunctionRunner(type(self)._tune_function, config, self._tune_session, _DaemonThread())

    def train(self) -> dict[str, Any]:
        """Let the function run to its next report. Blocks until then.

        Returns:
            The result; after the function has returned, the last one again, with `done`.

        Raises:
            BaseException: The error of the function.
        """
        answer = self._tune_runner.pull()
        report: Report = answer.result() if isinstance(answer, Future) else answer
        while report.metrics is None and not report.done:  # a checkpoint by itself
            answer = self._tune_runner.pull()
            report = answer.result() if isinstance(answer, Future) else answer
        if report.metrics is None:
            result = {**self._tune_last_result, DONE: True, RESULT_DUPLICATE: True}
        else:
            result = report.metrics
        self._tune_last_result = result
        self.log_result(result)
        return result

    def step(self) -> dict[str, Any]:
        """Same as `train`: a function completes its own results."""
        return self.train()

    def save(self, checkpoint_dir: str | None = None) -> TrainingResult:
        """The last reported checkpoint.

        Args:
            checkpoint_dir: Where to copy it, if anywhere.

        Raises:
            RuntimeError: If the function has not reported any.
        """
        checkpoint = self._tune_session.checkpoint
        if checkpoint is None:
            raise RuntimeError("there is no checkpoint to save: the function has not reported one yet")
        if checkpoint_dir is not None:
            checkpoint = Checkpoint(checkpoint.to_directory(checkpoint_dir))
        write_state(checkpoint.path, self._tune_fields)
        return TrainingResult(checkpoint, dict(self._tune_last_result))

    def restore(self, checkpoint_path: Any) -> None:
        """Let the function start from a checkpoint.

        Args:
            checkpoint_path: What `save` returned, a Checkpoint, or a path.

        Raises:
            RuntimeError: If the function runs already.
        """
        if self._tune_runner.is_started:
            raise RuntimeError("a function can only be restored before its first train()")
        path = as_path(checkpoint_path)
        metrics = checkpoint_path.metrics if isinstance(checkpoint_path, TrainingResult) else read_state(path)
        self._tune_fields.restore(metrics)
        self._tune_session.checkpoint = Checkpoint(path)

    def reset(self, new_config: dict[str, Any]) -> bool:
        """Stop the function and prepare it again under another configuration. Blocks until it has unwound."""
        if not self._tune_unwind():
            return False
        self.config = new_config
        self._tune_last_result = {}
        self._tune_start(copy.deepcopy(new_config))
        return True

    def stop(self) -> None:
        """End the function: its `report()` raises `TrialStopped`. Blocks until it has unwound, 10 s at most."""
        if not self._tune_unwind():
            logger.warning("the function of %s did not end within %g s", self.trial_name, _STANDALONE_STOP_S)

    def _tune_unwind(self) -> bool:
        running = self._tune_runner.stop()
        return running is None or bool(wait([running], _STANDALONE_STOP_S).done)


def wrap_function(train_func: UserFunction, name: str | None = None) -> type[FunctionTrainable]:
    """Make a class of a function.

    Args:
        train_func: A function of one positional argument.
        name: The name that trials are called after; by default the function's name.

    Returns:
        A subclass of FunctionTrainable with that name.

    Raises:
        TypeError: If it is no function, or the name no text.
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
