"""FunctionRunner: gives the user's function a thread to itself and pulls one report at a time out of it.

Theory
------
Two threads take turns. The control side calls `pull()`, which returns a Future at once. The user's thread runs until
`report()`, which resolves that Future and waits for the next pull::

    control   pull ------------------> (Future done) ...... pull ------------------> (Future done)
    user            runs ... report()                            returns ... report()

Invariant: while user code runs outside of `report()`, exactly one Future is pending. A pull is one entry in a
`SimpleQueue`, whose `get` waits in C without polling and, on the main thread, still lets signal handlers run; or in a
queue of the user's thread itself, which may then do the control side's work and pull while it waits. A stop is one more
entry and a flag: whoever waits wakes up, sees the flag, and raises `TrialStopped` in the user's frame.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, wait
from numbers import Number
from queue import SimpleQueue
from typing import Any

from minitune.base.checks import shown
from minitune.checkpoint import Checkpoint
from minitune.error import TrialStopped
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


class FunctionRunner:
    """Runs one function once. All methods but `_hand_over` belong to the control side and never block.

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
        self._user_thread = user_thread
        self._lock = threading.Lock()  # orders a pull against the end of the function; held for a few instructions
        self._reporting = threading.Lock()  # one report at a time, should the function report from several threads
        new_turns: Callable[[], SimpleQueue[None]] = getattr(user_thread, "new_turns", SimpleQueue)
        self._turns = new_turns()
        # The latest pull, answered (done) or not. It is never cleared: an exception out of a signal handler may strike
        # between any two lines, and then a Future taken out of here would be lost.
        self._pull: Future[Report] | None = None
        self._late_error: BaseException | None = None
        self._is_started = False
        self._is_stopping = False
        self._has_ended = False
        self._unwound: Future[None] = Future()
        session.hand_over, session.check_stopping = self._hand_over, self._check_stopping

    @property
    def is_started(self) -> bool:
        """Whether the function was ever asked for a report."""
        return self._is_started

    @property
    def has_ended(self) -> bool:
        """Whether the user's code has unwound, or will never start."""
        return self._has_ended

    def pull(self) -> Future[Report]:
        """Ask for the next report.

        Returns:
            Resolved by the next `report()`, by the function's exception, or with `Report(None, done=True)` once it
            has returned. As long as that has not happened it is the same one, however often it is asked for.
        """
        with self._lock:
            future = self._pull
            if future is None or future.done():
                future = Future()
                if self._has_ended:
                    error, self._late_error = self._late_error, None
                    _resolve(future, error)
                    return future
                self._pull = future
        if self._is_started:
            self._turns.put(None)
        else:
            self._is_started = True
            self._user_thread.submit(self._main)
        return future

    def stop(self) -> Future[None]:
        """End the function: its current or next `report()` raises `TrialStopped`.

        Returns:
            Done when the user's code has unwound.
        """
        self._is_stopping = True
        if self._is_started:
            self._turns.put(None)
        elif not self._has_ended:
            self._has_ended = True
            self._unwound.set_result(None)
        return self._unwound

    # -- on the user's thread --------------------------------------------------------------------------------------

    def _hand_over(self, report: Report) -> None:
        """Answer the pull and wait for the next one. Called by `report()`, on any thread of the trial."""
        with self._reporting:
            pull = self._await_pull()  # waits only if an exception had ended the wait of the previous report
            pull.set_result(report)
            if not report.has_returned:
                self._await_pull()

    def _await_pull(self) -> Future[Report]:
        """The pull that is to be answered; blocks until there is one.

        Raises:
            TrialStopped: If the trial is to stop, or the function has returned while another thread reports.
        """
        while True:
            self._check_stopping()
            if self._pull is not None and not self._pull.done():
                return self._pull
            self._turns.get()

    def _check_stopping(self) -> None:
        """Raise TrialStopped if the trial is to stop, or the function has returned while another thread reports."""
        if self._is_stopping or self._has_ended:
            raise TrialStopped("the trial is stopped; let this exception through, so that the trial can end")

    def _main(self) -> None:
        """The whole life of the function; never raises."""
        error: BaseException | None = None
        with self._session.bound():
            try:
                self._session.seed_generators(self._session.fields.iteration)
                self._session.fields.begin()
                self._take_return_value(self._function(self._config))
            except BaseException as raised:
                error = None if is_clean_end(raised) else raised
            for finish in self._session.at_end:
                try:
                    finish(error is not None)
                except Exception as raised:
                    logger.warning("after the end of the trial's function: %s: %s", type(raised).__name__, raised)
        if isinstance(error, AttributeError) and error.obj is self._config:
            error.args = (f"{error}; the configuration is a dict: write config[{error.name!r}]",)
        if error is not None and self._is_stopping:
            logger.warning("the trial was stopped, and its function raised while it unwound", exc_info=error)
            error = None
        with self._lock:
            self._has_ended = True
            pull = self._pull
            if pull is None or pull.done():
                self._late_error = error
        self._turns.put(None)  # for another thread of the trial's that still waits in report()
        if pull is not None and not pull.done():
            _resolve(pull, error)
        self._unwound.set_result(None)

    def _take_return_value(self, value: Any) -> None:
        """Report what the function returned, if that is a last result; run it, if it is a generator."""
        if isinstance(value, Generator):
            value = self._drain(value)
        if value is not None:
            self._session.report(self._as_metrics(value, "returned"), has_returned=True)
        else:
            self._session.hand_over_made()

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
        """What the function has returned or yielded, as metrics.

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


def _resolve(future: Future[Report], outcome: BaseException | None) -> None:
    if outcome is None:
        future.set_result(_END)
    else:
        future.set_exception(outcome)


class _DaemonThread(Executor):
    """Runs each call on a daemon thread of its own: a function that nobody stops must not hold the interpreter."""

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
            BaseException: What the function has raised.
        """
        report = self._tune_runner.pull().result()
        while report.metrics is None and not report.done:  # a checkpoint by itself
            report = self._tune_runner.pull().result()
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
            raise RuntimeError("there is nothing to save: the function has not reported a checkpoint yet")
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
        return bool(wait([self._tune_runner.stop()], _STANDALONE_STOP_S).done)


def wrap_function(train_func: UserFunction, name: str | None = None) -> type[FunctionTrainable]:
    """Make a class of a function.

    Args:
        train_func: A function of one positional argument.
        name: What trials are called after; by default the function's name.

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
