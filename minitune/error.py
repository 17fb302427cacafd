"""The errors that users see, and what a worker says about an exception.

Every error here says which rule was broken, by which values, where, and what to do. `TuneError` is the base of
everything that minitune raises on its own account; a `ValueError` or `TypeError` marks a bad argument. This module
imports nothing but the standard library, so any other part may raise from it.
"""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from typing import Any

MESSAGE_LIMIT = 64_000
"""Characters of an exception's message or traceback that are kept; longer text is cut and says so."""


class TuneError(Exception):
    """Base class of the errors that concern a run rather than one argument."""


class TrialError(TuneError):
    """How one trial ended badly. `Result.error` is one; it is also an instance of the user's exception class.

    Attributes:
        remote: What the worker said of the exception, or None if the worker could not say anything.
        cause: What happened, in one line, where that is not the last line of the text.
    """

    remote: RemoteError | None = None
    cause: str = ""

    def summary(self) -> str:
        """What happened, in one line."""
        return self.cause or str(self).strip().rpartition("\n")[2]


class WorkerDiedError(TrialError):
    """The trial's process ended without being asked to; the text names the exit code or the signal."""


class WorkerStartError(TrialError):
    """The trial's process came up, but its trainable could not be loaded or set up."""


class TrialTimeoutError(TrialError):
    """The trial broke a time limit that the user had set."""


class CheckpointError(TrialError):
    """A checkpoint could not be written or is not what its record says."""


class RunLockedError(TuneError):
    """Another driver holds the lock of this run's directory."""


class JournalCorruptError(TuneError):
    """The journal has a bad line before good ones, so it cannot be replayed as it is."""


class UntrustedStateError(TuneError):
    """A file that would have to be unpickled may have been written by somebody else."""


class TrialStopped(BaseException):
    """Raised out of `report()` in a trial that is to stop, so that `with` and `finally` blocks run.

    It is a `BaseException`: code that catches `Exception` around `report()` must not swallow the stop.
    """


def clip(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Cut `text` to `limit` characters, saying how many were left out.

    Args:
        text: Any text.
        limit: The longest text that passes uncut, in characters.

    Returns:
        `text`, or its beginning and end around a note about the cut.
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... [{len(text) - 2 * half} characters left out] ...\n{text[-half:]}"


@dataclass(frozen=True)
class RemoteError:
    """An exception as it travels from a worker to the driver: text always, the object if it can travel.

    Attributes:
        type_name: Qualified name of the exception's class, such as `ValueError` or `mymodule.MyError`.
        message: `str(exception)`, cut at `MESSAGE_LIMIT` characters.
        traceback: The formatted traceback without the frames of minitune.
        pickled: The exception itself, if it survived a round trip in the worker, else None.
    """

    type_name: str
    message: str
    traceback: str
    pickled: bytes | None = None

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """Describe `error`, whatever its methods do.

        Args:
            error: The exception, with its traceback.

        Returns:
            The description. Nothing that the exception's own methods raise comes out of here.
        """
        try:
            message = str(error)
        except Exception as broken:
            message = f"<str() of this exception raised {type(broken).__name__}>"
        return cls(
            type_name=_qualified_name(type(error)),
            message=clip(message),
            traceback=clip(format_traceback(error)),
            pickled=_pickle_exception(error),
        )

    def load(self) -> BaseException | None:
        """Rebuild the exception object.

        Returns:
            The exception, or None if it did not travel or its class cannot be loaded here.
        """
        if self.pickled is None:
            return None
        try:
            error = pickle.loads(self.pickled)
        except Exception:
            return None
        return error if isinstance(error, BaseException) else None

    def last_line(self) -> str:
        """The line that ends a traceback: the class and the message."""
        return f"{self.type_name}: {self.message}" if self.message else self.type_name


def format_traceback(error: BaseException) -> str:
    """Format `error` with the user's frames only.

    The frames of minitune before the first frame of the user's say nothing to a user and are left out; if there is no
    other frame, all are kept. Causes and contexts are treated alike.

    Args:
        error: The exception, with its traceback.

    Returns:
        The text, ending in a newline.
    """
    try:
        formatted = traceback.TracebackException.from_exception(error)
        _drop_own_frames(formatted, set())
        return "".join(formatted.format())
    except Exception:
        return f"{_qualified_name(type(error))}: <its traceback could not be formatted>\n"


def trial_error(remote: RemoteError, text: str | None = None, kind: type[TrialError] = TrialError) -> TrialError:
    """Build the error of a trial from what its worker said.

    Args:
        remote: The worker's description of the exception.
        text: The message of the new error; by default the traceback.
        kind: The class of the error, where it is a more special one than `TrialError`.

    Returns:
        An error that is also an instance of the user's exception class where that class could be loaded and allows
        it, with the user's exception as its `__cause__`.
    """
    text = remote.traceback.rstrip() if text is None else text
    original = remote.load()
    error = _dual_error(kind, original, text) if isinstance(original, Exception) else None
    if error is None:
        error = kind(text)
    error.remote = remote
    error.__cause__ = original
    return error


def _dual_error(kind: type[TrialError], original: Exception, text: str) -> TrialError | None:
    """An instance of both `kind` and the class of `original`, or None where Python or the class refuses."""
    user_class = type(original)
    if issubclass(user_class, kind):
        return None

    def show(self: BaseException) -> str:
        return text

    def reduce(self: TrialError) -> tuple[Any, ...]:
        return trial_error, (self.remote, text, kind)

    try:
        body = {"__str__": show, "__reduce__": reduce, "__module__": kind.__module__}
        dual = type(f"{kind.__name__}({user_class.__name__})", (kind, user_class), body)
        error: TrialError = dual.__new__(dual, *original.args)
        error.__dict__.update(original.__dict__)
        error.args = original.args
    except Exception:
        return None
    return error


def _qualified_name(kind: type) -> str:
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _pickle_exception(error: BaseException) -> bytes | None:
    """The exception as bytes if those bytes load again here to the same class, else None."""
    try:
        import cloudpickle

        data: bytes = cloudpickle.dumps(error)
        if len(data) > 16 * MESSAGE_LIMIT:
            return None
        return data if type(pickle.loads(data)).__name__ == type(error).__name__ else None
    except Exception:
        return None


def _drop_own_frames(formatted: traceback.TracebackException, seen: set[int]) -> None:
    if id(formatted) in seen:
        return
    seen.add(id(formatted))
    first = next((i for i, f in enumerate(formatted.stack) if not _is_own_frame(f.filename)), None)
    if first:
        del formatted.stack[:first]
    for linked in (formatted.__cause__, formatted.__context__):
        if linked is not None:
            _drop_own_frames(linked, seen)


_PACKAGE = __file__.rpartition("error.py")[0]
_EXAMPLES = _PACKAGE + "examples"


def _is_own_frame(filename: str) -> bool:
    own = filename.startswith(_PACKAGE) and not filename.startswith(_EXAMPLES)
    return own or filename.endswith(("concurrent/futures/thread.py", "concurrent/futures/_base.py"))
