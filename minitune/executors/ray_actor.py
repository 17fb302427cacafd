"""RayActor: the side of `RayTrialExecutor` that runs on a node, in a Ray actor around the object of a trial.

The driver asks one thing at a time (`ask`), and Ray runs these requests one after the other. A `stop` does not wait
for them: it has a thread of Ray's of its own. All user code runs on one more thread.

The driver repeats a request if the connection breaks before the answer has arrived. So each request has a number, and
one that was carried out already gets the same answer again.

The outbox
----------
A trial that prepares a checkpoint does not give it its final name, because Ray may have given up this attempt without
its knowledge: if its node is cut off, it runs on beside the next attempt. It puts the number into the outbox, and the
driver gives the name as soon as the next answer has arrived. On a node that does not see the run's directory, the
checkpoint lies in a directory of the node, from where the driver gets it in pieces. There, output is in files of the
node, too, and what is new in them goes with each answer.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from minitune import checkpoint
from minitune._version import __version__
from minitune.actor.messages import Place
from minitune.actor.surroundings import Surroundings, dump_stacks
from minitune.base import shared_values, user_thread
from minitune.base.actor_thread import ActorThread
from minitune.base.pickling import dump_value, load_value
from minitune.error import RemoteError
from minitune.executors.ray_files import PIECE_BYTES, Part, Scratch, read_pieces, write_piece
from minitune.resources import Allocation
from minitune.result import NODE_IP_VARIABLE
from minitune.settings import ORIG_WORKING_DIR

logger = logging.getLogger("minitune")


class Proof(NamedTuple):
    """How an actor finds out whether it sees the driver's files.

    Attributes:
        path: A file of the driver in the run's directory.
        content: What is in it.
        answer: A file that the actor creates there. If the driver sees it, both see the same directory.
        scratch: The name of the actor's scratch directory, if it needs one.
    """

    path: str
    content: str
    answer: str
    scratch: str


class Here(NamedTuple):
    """An actor's process and node.

    Attributes:
        node_id: Ray's id of the node.
        host: Its name.
        ip: Its address.
        pid: The process.
        gpu_ids: The devices that Ray has given to the actor.
        has_read: Whether the driver's proof was there.
    """

    node_id: str
    host: str
    ip: str
    pid: int
    gpu_ids: tuple[str, ...]
    has_read: bool


class Home(NamedTuple):
    """Where a trial works.

    Attributes:
        directory: The trial's directory, as the driver knows it.
        outputs: The files of its stdout and stderr, as the driver knows them.
        is_seen: Whether the node sees the run's directory.
        changes_directory: Whether the trial works in its directory.
    """

    directory: str
    outputs: tuple[str, str]
    is_seen: bool
    changes_directory: bool


class Answer(NamedTuple):
    """An answer that is more than a value.

    Attributes:
        payload: The pickled value.
        error: The exception that was raised instead.
        checkpoints: The numbers of the checkpoints in the outbox, in order.
        output: New bytes of stdout and stderr, of a trial whose output files the driver does not see.
        has_more: Whether there is more new output than that.
    """

    payload: bytes = b""
    error: RemoteError | None = None
    checkpoints: tuple[int, ...] = ()
    output: tuple[bytes, bytes] = (b"", b"")
    has_more: bool = False


class RayActor:
    """What Ray makes an actor of. Ray wraps each method, so the frames of these two are in no user's traceback."""

    def __init__(self) -> None:
        self._worker = RayWorker()

    def ask(self, number: int, verb: str, *args: Any) -> bytes | Answer:
        """See `RayWorker.ask`."""
        return self._worker.ask(number, verb, *args)

    def stop(self, keep: bool, dump: bool) -> bool:
        """See `RayWorker.stop`."""
        return self._worker.stop(keep, dump)


class RayWorker:
    """Runs the trials of one place in the cluster, one after the other. Its public methods are the requests."""

    def __init__(self) -> None:
        checkpoint.rename = self._put_out
        self._thread = ActorThread("minitune-trial")
        self._thread.ask("declare", user_thread.declare)
        self._surroundings = Surroundings()
        self._object: Any = None
        self._number = 0
        self._answer: bytes | Answer = b""
        self._home: Home | None = None
        self._scratch: Scratch | None = None
        self._scratch_name = ""
        self._local: str | None = None  # the directory that stands for the trial's, if that is not seen
        self._outbox: list[int] = []
        self._pieces: Iterator[list[Part]] = iter(())
        self._own_checkpoints: list[str] = []  # on this node, the oldest first
        self._outputs: list[_Output] = []

    # -- requests --------------------------------------------------------------------------------------------------

    def ask(self, number: int, verb: str, *args: Any) -> bytes | Answer:
        """Carry out a request, and return its answer: the pickled value, or an `Answer`. Blocks as long as it takes.

        Args:
            number: The number of the request. The same number gets the same answer.
            verb: The name of a public method.
            args: Its arguments.
        """
        if number < self._number:  # the driver waits for the answer to a later one
            return b""
        if number > self._number:
            self._answer = self._answer_to(getattr(self, verb), args)
            self._number = number
        return self._answer

    def _answer_to(self, method: Callable[..., Any], args: tuple[Any, ...]) -> bytes | Answer:
        payload = b""
        error = None
        try:
            value = method(*args)
            if value is not None:
                payload = _pickled(value)
        except BaseException as raised:
            error = RemoteError.of(raised)
        checkpoints = tuple(self._outbox)
        self._outbox.clear()
        output = (b"", b"")
        has_more = False
        if self._outputs:
            output = (self._outputs[0].read(), self._outputs[-1].read() if len(self._outputs) > 1 else b"")
            has_more = any(len(new) == PIECE_BYTES for new in output)
        if error is None and not checkpoints and not any(output):
            return payload
        return Answer(payload, error, checkpoints, output, has_more)

    def look(
        self, version: str, proof: Proof, directory: str, path: tuple[str, ...], argv: list[str]
    ) -> tuple[Any, ...]:
        """Look where this actor is. The first request.

        Args:
            version: The driver's version of this package.
            proof: See `Proof`.
            directory: The driver's working directory. It is that of this process, too, if it is there.
            path: The driver's `sys.path`. What a `runtime_env` or Ray has brought here has precedence over it.
            argv: The driver's `sys.argv`.

        Returns:
            Where it is.

        Raises:
            ImportError: If another version is installed on this node.
        """
        import ray

        if version != __version__:
            raise ImportError(f"minitune {__version__} is installed on this node, but the driver has {version}")
        context = ray.get_runtime_context()
        self._scratch_name = proof.scratch
        has_read = False
        try:
            with open(proof.path, encoding="utf-8") as file:
                has_read = file.read() == proof.content
            if has_read:
                with open(proof.answer, "x", encoding="utf-8"):
                    pass
        except OSError:
            has_read = False
        if not context.runtime_env.get("working_dir") and os.path.isdir(directory):
            os.chdir(directory)
        sys.path.extend(entry for entry in path if entry not in sys.path)
        sys.argv[:] = argv
        # Ray may be installed or not where types are checked, and this function of it has no types
        address = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call,unused-ignore]
        os.environ[NODE_IP_VARIABLE] = address
        for name in ORIG_WORKING_DIR:
            os.environ[name] = os.getcwd()
        self._surroundings = Surroundings()
        gpu_ids = tuple(map(str, ray.get_gpu_ids()))
        return Here(context.get_node_id(), socket.gethostname(), address, os.getpid(), gpu_ids, has_read)

    def begin(self, home: Home | None, values: list[tuple[str, Any]], factory: bytes, allocation: Allocation) -> None:
        """Make the trial's object.

        Args:
            home: Where it works.
            values: The tokens of shared values, and the references by which Ray finds them.
            factory: Makes the object. Pickled.
            allocation: Its resources.
        """
        self._learn(values)
        self._settle(home)

        def make() -> Any:
            return load_value(factory)(self._thread, allocation=allocation, **self._place())

        self._object = self._thread.ask("make", make).result()

    def reset(self, home: Home | None, values: list[tuple[str, Any]], args: bytes) -> bool:
        """Reset the parked object for the next trial, and return whether it can be used. See `begin`."""
        self._learn(values)
        self._settle(home)
        self._thread.is_stopped = False
        return bool(self._ask("reset", lambda: (load_value(args), self._place())))

    def call(self, method: str, args: bytes) -> Any:
        """Call a method of the object, and return its value."""
        return self._ask(method, lambda: (load_value(args) if args else (), {}))

    def restore(self, name: str, args: bytes) -> Any:
        """Let the object load the directory that `receive` has written under this name.

        Args:
            name: The directory's name.
            args: The other arguments of the object's method.
        """
        assert self._local is not None
        directory = os.path.join(self._local, name)
        return self._ask("restore", lambda: ((directory, *load_value(args)), {}))

    def _ask(self, method: str, arguments: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]) -> Any:
        """Have the actor's thread call a method of the object, and return its value or its next report. Blocks.

        Args:
            method: The method's name.
            arguments: Returns the arguments. Called on that thread, because loading them may run user code.
        """

        def call() -> Any:
            args, kwargs = arguments()
            return getattr(self._object, method)(*args, **kwargs)

        return self._thread.ask(method, call).result()

    def receive(self, name: str, piece: list[Part], is_first: bool) -> None:
        """Write a piece of a directory of the driver."""
        assert self._local is not None
        top = os.path.join(self._local, name)
        if is_first:
            shutil.rmtree(top, ignore_errors=True)
            os.mkdir(top)
        write_piece(piece, top)

    def piece(self, number: int, is_first: bool) -> list[tuple[Any, ...]] | None:
        """Return the next piece of checkpoint `number`; None after the last one."""
        assert self._local is not None
        if is_first:
            self._pieces = read_pieces(os.path.join(self._local, checkpoint.directory_name(number)))
        piece = next(self._pieces, None)
        return None if piece is None else [tuple(part) for part in piece]

    def output(self) -> None:
        """Do nothing: the new output goes with the answer."""

    def stop(self, keep: bool, dump: bool) -> bool:
        """Stop the object, or park it. No request: it does not wait for the running one. Blocks until that has ended.

        Args:
            keep: Park it if possible.
            dump: First write the stacks of all threads to standard error.

        Returns:
            Whether it is parked.
        """
        if dump:
            dump_stacks()
        self._thread.stop()
        try:
            self._thread.ask("stop", lambda: None if keep else self._stop_object()).result()
        except BaseException as error:
            logger.warning("the stop of a trial raised an exception", exc_info=error)
            keep = False
        return keep and not _has_children()

    def _stop_object(self) -> None:
        stop = getattr(self._object, "stop", None)
        if stop is not None:
            stop()

    def leave(self) -> None:
        """Remove what this process has written on its node; it is about to be killed."""
        if self._scratch is not None:
            os.chdir("/")
            self._scratch.remove()

    @staticmethod
    def _learn(values: list[tuple[str, Any]]) -> None:
        """Let shared values be found in Ray's object store."""
        import ray

        for token, reference in values:
            shared_values.fetchers[token] = functools.partial(ray.get, reference)

    # -- places ----------------------------------------------------------------------------------------------------

    def _settle(self, home: Home | None) -> None:
        """Take a place: directory, output files, and the way of checkpoints."""
        self._home = home
        self._local = None
        self._outputs = []
        self._own_checkpoints = []
        if home is None:
            return
        if home.is_seen:
            self._surroundings.apply(Place(home.directory if home.changes_directory else None, *home.outputs))
            return
        if self._scratch is None:
            self._scratch = Scratch(self._scratch_name)
        self._local = os.path.join(self._scratch.path, "trial", os.path.basename(home.directory))
        shutil.rmtree(os.path.dirname(self._local), ignore_errors=True)
        os.makedirs(self._local)
        files = self._scratch.outputs
        for path in files:
            with suppress(FileNotFoundError):
                os.unlink(path)  # of the trial before
        if home.outputs[0] == home.outputs[1]:
            files[1] = files[0]
        self._surroundings.apply(Place(self._local if home.changes_directory else None, files[0], files[1]))
        self._outputs = [_Output(path) for path in dict.fromkeys(files)]

    def _place(self) -> dict[str, str]:
        """The argument for the object's directory, if the one that it expects is not seen here."""
        return {} if self._local is None else {"directory": self._local}

    def _put_out(self, temporary: str, trial_directory: str, number: int) -> None:
        """Leave a prepared checkpoint to the driver. Instead of `checkpoint.rename_prepared`."""
        if self._local is not None:
            checkpoint.rename_prepared(temporary, trial_directory, number)
            for path in self._own_checkpoints:  # the driver has them
                shutil.rmtree(path, ignore_errors=True)
            self._own_checkpoints = [os.path.join(trial_directory, checkpoint.directory_name(number))]
        self._outbox.append(number)


class _Output:
    """A file of output on this node, of which the driver gets what is new.

    Args:
        path: The file.
    """

    def __init__(self, path: str):
        self._path = path
        self._read_bytes = 0

    def read(self) -> bytes:
        """The next bytes, at most `PIECE_BYTES`."""
        size_bytes = os.stat(self._path).st_size
        if size_bytes == self._read_bytes:
            return b""
        with open(self._path, "rb") as file:
            file.seek(self._read_bytes)
            new = file.read(PIECE_BYTES)
        self._read_bytes += len(new)
        return new


def _pickled(value: Any) -> bytes:
    try:
        return dump_value(value)
    except Exception as error:
        kind = type(value).__qualname__
        broken = TypeError(f"a value of type {kind} cannot be sent to the driver ({type(error).__name__}: {error})")
        raise broken from error


def _has_children() -> bool:
    """Whether this process has left child processes running."""
    import psutil

    return bool(psutil.Process().children())
