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
from minitune.error import DiskError, RemoteError
from minitune.ray.cluster.files import Delivery, Home, Scratch, remove_leftovers
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
        sees_run: Whether the run's directory is the same here as on the driver's machine.
    """

    node_id: str
    host: str
    ip: str
    pid: int
    gpu_ids: tuple[str, ...]
    sees_run: bool


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
        self._name = ""
        self._sees_run = False
        self._scratch: Scratch | None = None  # once a trial needs it, because its own directory is not seen here
        self._outbox: list[int] = []

    # -- requests --------------------------------------------------------------------------------------------------

    def ask(self, number: int, verb: str, *args: Any) -> bytes | Delivery:
        """Carry out a request, and return its answer: the pickled value, or a `Delivery` if files come with it. Blocks.
        The same number gets the same answer.
        """
        if number < self._number:  # the driver waits for the answer to a later one
            return b""
        if number > self._number:
            method = getattr(self, verb, None) or getattr(self._scratch, verb)
            answer = self._answer_to(method, args)
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
            error = RemoteError.of(self._of_this_node(raised))
        # With this answer and no later one: a report and its checkpoint belong together.
        checkpoints = tuple(self._outbox)
        self._outbox.clear()
        # After the call, so that what it has printed is there before its value counts.
        if self._scratch is None:
            return Delivery(payload, error, checkpoints)
        return Delivery(payload, error, checkpoints, self._scratch.new_output())

    def _of_this_node(self, error: BaseException) -> BaseException:
        """The error that the trial has met.

        A full disk of this node, which is not the run's, is a failure of this trial.
        """
        if self._scratch is None or not isinstance(error, DiskError) or error.__cause__ is None:
            return error
        return error.__cause__.with_traceback(error.__traceback__)

    def look(
        self, version: str, landmark: str, name: str, directory: str, path: tuple[str, ...], argv: list[str]
    ) -> Here:
        """Look where this actor is: the first request. ImportError if another version is installed."""
        import ray

        if version != __version__:
            raise ImportError(f"minitune {__version__} is installed on this node, but the driver has {version}")
        context = ray.get_runtime_context()
        self._name = name
        self._sees_run = os.path.exists(landmark)
        remove_leftovers()
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
            sees_run=self._sees_run,
        )

    def begin(self, home: Home, values: list[tuple[str, Any]], factory: bytes, allocation: Allocation) -> None:
        """Make the trial's object."""
        self._learn(values)
        directory = self._settle(home)
        # On that thread, because loading it may run user code.
        make = functools.partial(self._make, factory, allocation, directory)
        self._object = self._thread.ask("make", make).result()

    def _make(self, factory: bytes, allocation: Allocation, directory: dict[str, str]) -> Any:
        make, args = load_value(factory)
        return make(self._thread, *args, allocation=allocation, **directory)

    def reset(self, home: Home, values: list[tuple[str, Any]], args: bytes) -> bool:
        """Reset the parked object for the next trial; return whether it can be used."""
        self._learn(values)
        directory = self._settle(home)
        self._thread.is_stopped = False
        return bool(self._ask("reset", lambda: (load_value(args), directory)))

    def call(self, method: str, args: bytes) -> Any:
        """Call a method of the object, and return its value."""
        return self._ask(method, lambda: (load_value(args) if args else (), {}))

    def restore(self, args: bytes) -> Any:
        """Let the object load the directory that `Scratch.receive` has written."""
        assert self._scratch is not None
        directory = self._scratch.received
        return self._ask("restore", lambda: ((directory, *load_value(args)), {}))

    def _ask(self, method: str, arguments: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]) -> Any:
        """Have the actor's thread call a method, and return its value or its next report. Blocks. `arguments` is called
        there, since loading may run user code.
        """

        def call() -> Any:
            args, kwargs = arguments()
            return getattr(self._object, method)(*args, **kwargs)

        return self._thread.ask(method, call).result()

    def output(self) -> None:
        """Do nothing: the new output goes with the answer."""

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

    def leave(self) -> None:
        """Remove what this process has written on its node; it is about to be killed."""
        if self._scratch is not None:
            os.chdir("/")  # some file systems keep a directory that a process is in
            self._scratch.remove()
            self._scratch = None

    # -- values and directories ------------------------------------------------------------------------------------

    @staticmethod
    def _learn(values: list[tuple[str, Any]]) -> None:
        for token, reference in values:
            if token not in shared_values.fetchers:
                shared_values.fetchers[token] = functools.cache(functools.partial(_value_of, reference))

    def _settle(self, home: Home) -> dict[str, str]:
        """Take over a workplace; returns the argument for the object's directory, if the expected one is not here."""
        if not home.directory:
            return {}
        if self._sees_run:
            directory = home.directory if home.changes_directory else None
            self._surroundings.apply(Workplace(directory, *home.outputs))
            return {}
        if self._scratch is None:
            self._scratch = Scratch(self._name)
        self._surroundings.apply(self._scratch.settle(home))
        return {"directory": self._scratch.trial}

    def _put_out(self, temporary: str, trial_directory: str, number: int) -> None:
        """Leave a prepared checkpoint to the driver, in place of `checkpoint.rename_prepared`."""
        if self._scratch is not None:
            # No other attempt has this directory, so here it gets its name at once: the trial may ask for it.
            checkpoint.rename_prepared(temporary, trial_directory, number)
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
