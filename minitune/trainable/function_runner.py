"""FunctionRunner: runs the user's function, and turns `report()` into an answer to the driver's call.

Theory
------
For the driver a trial is an object whose `train()` returns the next report. A function has only one call for all its
reports, so its first `train()` stays on the stack until it ends, and `report()` answers meanwhile::

    driver      train() ------------------> (answer) ........... train() ------------------> (answer)
    function         runs ... report()                            returns ... report()

A `Host` carries the reports. In a worker process it is the pipe to the driver, on the thread that reports. Elsewhere,
the function has a thread of its own, an `ActorThread`.

The changes that a report makes here are prepared first and committed when the report counts. So an exception of a
signal handler in `report()` leaves all of them or none. Several threads may report, one at a time, so that iterations
stay in order.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Generator
from typing import Any, NoReturn, Protocol
from weakref import WeakKeyDictionary

from minitune.base.numbers import as_objective
from minitune.error import STOP_SWALLOWED, TrialStopped
from minitune.result import DEFAULT_METRIC, Report
from minitune.trainable.session import Session

logger = logging.getLogger("minitune")

UserFunction = Callable[[dict[str, Any]], Any]

# The function has returned, and there is nothing new to report.
_END = Report(metrics=None, done=True)

# Parameters of functions in older versions of Ray Tune, which were passed by name.
_REPORTER = "reporter"
_OLD_PARAMETERS = frozenset({"checkpoint_dir", _REPORTER})
# If a thread gets `TrialStopped` this often, it has caught it. A `finally` block that reports gets it less often.
_DEAF = 3


class Host(Protocol):
    """What carries the reports of an actor's object to the driver: a `Worker`, an `ActorThread`, or a rerun."""

    at_stop: Callable[[], object]
    """Is called at a stop, on another thread than the function's. It does not block or raise."""

    @property
    def is_stopped(self) -> bool:
        """Whether the driver has said that the actor must end."""

    def exchange(self, make: Callable[[], tuple[Report, Callable[[], object]]]) -> bool:
        """Answer the running call with the report that `make` returns, and block until the call may continue.

        Then the other function that `make` returns is called. Any thread may call this, one at a time. Returns whether
        the call may continue; if not, no report counts any more.
        """

    def abandon(self) -> None:
        """The function ignores the stop: end it by force, if possible."""


class FunctionRunner:
    """Runs one function once."""

    def __init__(self, function: UserFunction, config: dict[str, Any], session: Session, host: Host):
        self._function = function
        self._config = config
        self._session = session
        self._host = host
        self.has_begun = False
        # By thread, and not by its number: a later thread may get that of one that has ended.
        self._stops_heard: WeakKeyDictionary[threading.Thread, int] = WeakKeyDictionary()
        session.hand_over = self._hand_over
        session.check_stopping = self._check_stopping

    def run(self) -> Report:
        """Run the function, and block until it has ended. Its reports answer this call, and those that follow. Returns
        a report of what it has returned, or `Report(None, done=True)`.
        """
        if self.has_begun or self._host.is_stopped:
            return _END
        self.has_begun = True
        try:
            value = self._call()
        except BaseException as error:
            if is_clean_end(error):
                return _END
            # `config.lr`, or `trial.suggest_float(...)` of an objective for Optuna.
            if isinstance(error, AttributeError) and error.obj is self._config:
                error.args = (f"{error}; the configuration is a dict: write config['x'] for an x of param_space",)
            # While a function unwinds after a stop, its errors fail nothing.
            if not self._host.is_stopped:
                raise
            logger.warning("the trial was stopped, and its function then raised an exception", exc_info=error)
            return _END
        if value is None or self._host.is_stopped:
            return _END
        report, commit = self._session.complete(self._as_metrics(value, "returned"))
        commit()
        return report

    def _call(self) -> Any:
        """Call the function, and return its value; if it is a generator, report what it yields."""
        has_failed = False
        with self._session.bound():
            try:
                self._session.seed_generators(self._session.fields.iteration)
                self._session.fields.begin()
                value = self._function(self._config)
                # None first: most functions return it, and the check of a type by an abstract class is slow.
                if value is not None and isinstance(value, Generator):
                    value = self._drain(value)
                # Otherwise the report of the returned value takes the checkpoint along.
                if value is None:
                    self._session.hand_over_made()
                return value
            except BaseException as error:
                has_failed = not is_clean_end(error)
                raise
            finally:
                for finish in self._session.at_end:
                    try:
                        finish(has_failed)
                    except Exception as error:
                        logger.warning("after the end of the trial's function: %s: %s", type(error).__name__, error)

    def _hand_over(self, make: Callable[[], tuple[Report, Callable[[], object]]]) -> None:
        """Hand over a report, and block until the function may continue. Called by `report()`, on any thread.

        Raises:
            RuntimeError: If a signal handler has interrupted a report.
            TrialStopped: If the trial has to stop, or the function has returned while another thread reports.
        """
        if not self._host.exchange(make):
            self._stop()

    def _check_stopping(self) -> None:
        if self._host.is_stopped:
            self._stop()

    def _stop(self) -> NoReturn:
        thread = threading.current_thread()
        times = self._stops_heard.get(thread, 0) + 1
        self._stops_heard[thread] = times
        # It may be in a loop that catches every exception, and would never come back.
        if times >= _DEAF and self._host.is_stopped:
            logger.warning("the trial was told to stop, but %s", STOP_SWALLOWED)
            self._host.abandon()
        raise TrialStopped("the trial is stopped; do not catch this exception, so that the trial can end")

    def _drain(self, generator: Generator[Any, Any, Any]) -> Any:
        """Report each value that `generator` yields; return its return value.

        An exception of `report()` is raised at the `yield`, so that `finally` blocks run.
        """
        error: BaseException | None = None
        while True:
            try:
                if error is None:
                    value = next(generator)
                else:
                    value = generator.throw(error)
            except StopIteration as end:
                return end.value
            # A `yield` without a value is no report.
            error = None
            try:
                if value is not None:
                    self._session.report(self._as_metrics(value, "yielded"))
            except BaseException as raised:
                error = raised

    def _as_metrics(self, value: Any, verb: str) -> dict[str, Any]:
        """The value that the function has returned or yielded, as metrics. A ValueError names the place of the
        function, which the traceback lacks.
        """
        if isinstance(value, dict):
            return value
        try:
            return {DEFAULT_METRIC: as_objective(value, DEFAULT_METRIC)}
        except ValueError:
            raise ValueError(
                f"a trainable function must return or yield a dict of metrics, a number or None, but it {verb} "
                f"{type(value).__name__}: {value!r:.200}{_source_of(self._function)}"
            ) from None


def old_parameters(function: Any) -> frozenset[str]:
    """The old parameters that a function takes, `checkpoint_dir` and `reporter`, unless values are bound to them.

    `inspect.signature` would take as long as a short trial.
    """
    bound: set[str] = set()
    while True:
        if isinstance(function, functools.partial):
            bound.update(function.keywords)
            function = function.func
        # Values that are already bound need no argument.
        elif hasattr(function, "__wrapped__"):
            bound.update(getattr(function, "parameters", ()), getattr(function, "handles", ()))
            function = function.__wrapped__
        else:
            break
    plain = function if hasattr(function, "__code__") else getattr(type(function), "__call__", None)  # noqa: B004  # its code is wanted
    code = getattr(plain, "__code__", None)
    if code is None:
        return frozenset()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = getattr(plain, "__defaults__", None) or ()
    optional = names[code.co_argcount - len(defaults) : code.co_argcount]
    # In the old form it comes after the configuration, in a method the third. Elsewhere a library has its own of this
    # name.
    if _REPORTER in optional and _REPORTER not in names[:3]:
        bound.add(_REPORTER)
    return _OLD_PARAMETERS.intersection(names) - bound


def modern(function: UserFunction) -> UserFunction:
    """Return the function as one that takes only the configuration."""
    old = old_parameters(function)
    if not old:
        return function
    from minitune.trainable.old_forms import OldFunction

    return OldFunction(function, old)


def is_clean_end(error: BaseException) -> bool:
    """Whether `error` is a normal end of user code: a stop, `StopIteration`, `sys.exit()`, `sys.exit(0)`."""
    if isinstance(error, SystemExit):
        return error.code is None or error.code == 0
    return isinstance(error, (TrialStopped, StopIteration))


def _source_of(function: Any) -> str:
    function = getattr(function, "function", function)  # with values or resources bound to it
    code = getattr(function, "__code__", None)
    if code is not None:
        return f" ({function.__name__}, {code.co_filename}, line {code.co_firstlineno})"
    return ""
