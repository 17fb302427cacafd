"""RayActor: the side of `RayTrialExecutor` that runs on a node, in a Ray actor around the object of a trial.

The driver asks one thing at a time (`ask`); a `stop` does not wait, on a thread of its own. All user code runs on one
more thread.

A request is repeated if the connection breaks, so each has a number, and one that was carried out gets the same answer
again.

The outbox
----------
Ray may have given up this attempt without its knowledge: on a node that is cut off, it runs on beside the next one. So
a trial that prepares a checkpoint only puts its number into the outbox, and the driver gives the name as soon as the
next answer has arrived.
"""

from __future__ import annotations

import functools
import logging
import os
import pickle
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from minitune import checkpoint
from minitune.actor.messages import Workplace
from minitune.actor.surroundings import Surroundings, dump_stacks
from minitune.base import __version__, processes, shared_values
from minitune.base.actor_thread import ActorThread
from minitune.base.pickling import dump_answer, load_value
from minitune.base.settings import ORIG_WORKING_DIR
from minitune.base.user_code import declare_trial_thread
from minitune.error import RemoteError
from minitune.resources import Allocation
from minitune.result import NODE_IP_VARIABLE

logger = logging.getLogger("minitune")

CONTROL = "control"
"""Ray's name for the thread of `RayActor.stop`."""
REPORTS = "reports"
"""Ray's name for the thread of reports that come from other actors, which the trial has started."""
WATCH = "watch"
"""Ray's name for the thread of `RayActor.watch`."""


class Here(NamedTuple):
    """An actor's process and node.

    Attributes:
        gpu_ids: The devices that Ray has given to the actor.
        sees_directory: Whether the trial's directory is there.
    """

    node_id: str
    host: str
    ip: str
    pid: int
    gpu_ids: tuple[str, ...]
    sees_directory: bool


class Delivery(NamedTuple):
    """What an actor's process sends back for a request: its answer, and the checkpoints that belong to it."""

    payload: bytes = b""
    error: RemoteError | None = None
    checkpoints: tuple[int, ...] = ()

    def opened(self) -> tuple[Any, RemoteError | None]:
        """The value, or None and the error that there is instead."""
        if self.error is not None or not self.payload:
            return None, self.error
        try:
            return pickle.loads(self.payload), None
        except (Exception, SystemExit) as error:
            broken = TypeError(f"the value that an actor returned cannot be loaded here: {error!r}")
            broken.__cause__ = error
            return None, RemoteError.of(broken)


class RayActor:
    """What Ray makes an actor of: runs the trials of one process, one after the other.

    Its public methods are the requests.
    """

    def __init__(self) -> None:
        checkpoint.rename = self._put_out
        # Ray keeps the main thread for itself, so user code learns which thread is the trial's instead.
        self._thread = ActorThread("minitune-trial")
        self._thread.ask("declare", declare_trial_thread)
        self._surroundings = Surroundings()
        self._object: Any = None
        self._number = 0
        self._answer: bytes | Delivery = b""
        self._outbox: list[int] = []

    # -- requests --------------------------------------------------------------------------------------------------

    def ask(self, number: int, verb: str, *args: Any) -> bytes | Delivery:
        """Carry out a request, and return its answer: the pickled value, or a `Delivery` if more comes with it. Blocks.
        The same number gets the same answer.
        """
        if number < self._number:  # the driver waits for the answer to a later one
            return b""
        if number > self._number:
            answer = self._answer_to(getattr(self, verb), args)
            self._answer = answer.payload if answer == Delivery(answer.payload) else answer
            self._number = number
        return self._answer

    def _answer_to(self, method: Callable[..., Any], args: tuple[Any, ...]) -> Delivery:
        payload = b""
        error = None
        # Whatever is raised is an answer. Ray would tell it in its own words, and not bring the outbox.
        try:
            value = method(*args)
            if value is not None:
                payload = dump_answer(value)
        except BaseException as raised:
            error = RemoteError.of(raised)
        # With this answer and no later one: a report and its checkpoint belong together.
        checkpoints = tuple(self._outbox)
        self._outbox.clear()
        return Delivery(payload, error, checkpoints)

    def look(
        self, version: str, trial_directory: str | None, directory: str, path: tuple[str, ...], argv: list[str]
    ) -> Here:
        """Look where this actor is: the first request. ImportError if another version is installed."""
        import ray

        if version != __version__:
            raise ImportError(f"minitune {__version__} is installed on this node, but the driver has {version}")
        context = ray.get_runtime_context()
        # Relative paths and modules beside the script are found as by the driver, if its directories are here. What a
        # `runtime_env` or Ray has brought to this node has precedence over them.
        if not context.runtime_env.get("working_dir") and os.path.isdir(directory):
            os.chdir(directory)
        sys.path.extend(entry for entry in path if entry not in sys.path)
        sys.argv[:] = argv
        # Ray may be installed or not where types are checked, and this function of it has no types
        address = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call,unused-ignore]
        os.environ[NODE_IP_VARIABLE] = address
        for name in ORIG_WORKING_DIR:
            os.environ[name] = os.getcwd()
        # The changes of a trial are undone to this state for the next one.
        self._surroundings = Surroundings()
        return Here(
            node_id=context.get_node_id(),
            host=socket.gethostname(),
            ip=address,
            pid=os.getpid(),
            gpu_ids=tuple(map(str, ray.get_gpu_ids())),
            sees_directory=trial_directory is None or os.path.isdir(trial_directory),
        )

    def begin(
        self, workplace: Workplace, values: list[tuple[str, Any]], factory: bytes, allocation: Allocation
    ) -> None:
        """Make the trial's object."""
        self._learn(values)
        self._surroundings.apply(workplace)
        # On that thread, because loading it may run user code.
        self._object = self._thread.ask("make", lambda: self._make(factory, allocation)).result()

    def _make(self, factory: bytes, allocation: Allocation) -> Any:
        make, args = load_value(factory)
        return make(self._thread, *args, allocation=allocation)

    def reset(self, workplace: Workplace, values: list[tuple[str, Any]], args: bytes) -> bool:
        """Reset the parked object for the next trial; return whether it can be used."""
        self._learn(values)
        self._surroundings.apply(workplace)
        self._thread.is_stopped = False
        return bool(self.call("reset", args))

    def call(self, method: str, args: bytes) -> Any:
        """Have the actor's thread call a method of the object, and return its value or its next report. Blocks."""

        def run() -> Any:
            return getattr(self._object, method)(*(load_value(args) if args else ()))  # loading may run user code

        return self._thread.ask(method, run).result()

    def stop(self, keep: bool, dump: bool) -> bool:
        """Stop the object, or park it. It does not wait for the running request. Blocks until that has ended. Returns
        whether the object is parked.
        """
        if dump:  # before the stop, because they shall show where the trial hangs
            dump_stacks()
        self._thread.stop()
        try:
            self._thread.ask("stop", lambda: None if keep else self._stop_object()).result()
        except BaseException as error:
            logger.warning("the stop of a trial raised an exception", exc_info=error)
            keep = False
        # A child that runs on would have the next trial's directory and devices.
        return keep and not processes.has_living_child()

    def _stop_object(self) -> None:
        stop = getattr(self._object, "stop", None)
        if stop is not None:
            stop()

    def watch(self) -> None:
        """Never return: the driver hears of the death of this process by this call."""
        threading.Event().wait()

    # -- values and checkpoints ------------------------------------------------------------------------------------

    @staticmethod
    def _learn(values: list[tuple[str, Any]]) -> None:
        for token, reference in values:
            if token not in shared_values.fetchers:
                shared_values.fetchers[token] = functools.cache(functools.partial(_value_of, reference))

    def _put_out(self, temporary: str, trial_directory: str, number: int) -> None:
        """Leave a prepared checkpoint to the driver, in place of `checkpoint.rename_prepared`."""
        self._outbox.append(number)


def _value_of(reference: Any) -> Any:
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RaySystemError as error:
        # Ray wraps what unpickling has raised, such as the lack of a module on this node. The driver tells it by kind.
        if isinstance(error.client_exc, Exception):
            raise error.client_exc from None
        raise
