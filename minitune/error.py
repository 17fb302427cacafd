"""The errors that users see, and how an exception travels from a worker to the driver.

A text says which rule was broken, by which value, where, and what to do. `TuneError` is the base class for runs; a
`ValueError` or `TypeError` is for a bad argument.
"""

from __future__ import annotations

import copy
import linecache
import pickle
import re
import threading
import traceback
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from minitune.base.pickling import dumps_by_value
from minitune.base.settings import is_on

MESSAGE_LIMIT = 64_000
"""Characters of an exception's message or traceback that are kept; longer text is cut and says so. Not measured: with
fewer, long tracebacks lose more of their middle; with more, journals of runs with many failures grow.
"""

HINT = "hint: "
"""The prefix of a line, after the traceback, with the way out."""


class TuneError(Exception):
    """Base class of the errors that concern a run rather than one argument."""


class InvalidArgumentError(TuneError, ValueError):
    """A bad argument for which Ray Tune raises one of these two classes, although the other one fits better."""


class ConstraintError(TuneError, ValueError):
    """A constraint of the search raises an error, or no suggested configuration satisfies all constraints."""


class SampleError(TuneError, ValueError):
    """A function of the search space has raised an error, which is the cause; see `sample_from`."""


def sample_error(error: Exception, text: str) -> SampleError:
    """The `SampleError` with this text, caused by an error of a user's function with the user's frames only."""
    if not is_on("FULL_TRACEBACKS"):
        error.with_traceback(user_traceback(error))
    sampling = SampleError(text)
    sampling.__cause__ = error
    return sampling


class TrialError(TuneError):
    """The failure of one trial. Its `__cause__` is the exception of the user's code, if that can be pickled.

    Attributes:
        remote: The worker's description of the exception, or None.
        cause: What happened, in one line, if the last line of the text does not say it.
    """

    remote: RemoteError | None = None
    cause: str = ""
    died_s: float = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        if self.remote is None:
            return type(self), self.args, self.__dict__
        return trial_error, (self.remote, str(self), type(self)), self.__dict__

    def summary(self) -> str:
        """The error in one line: its class and the first line of its message."""
        if self.cause or self.remote is None:
            return self.cause or _last_line_without_hints(str(self))
        message = self.remote.message.strip().partition("\n")[0]
        if message:
            return f"{self.remote.type_name}: {message}"
        return self.remote.type_name


def _last_line_without_hints(text: str) -> str:
    """The line of a traceback with the exception."""
    lines = [line for line in text.strip().split("\n") if not line.startswith(HINT)]
    return lines[-1] if lines else text


class WorkerDiedError(TrialError):
    """The trial's process ended unexpectedly. The text names the exit code or the signal."""


class WorkerStartError(TrialError):
    """The trial's process started, but it could not load or set up the trainable."""


class TrialTimeoutError(TrialError):
    """The trial broke a time limit that the user had set."""


class MissingMetricError(TrialError, ValueError):
    """A result lacks a metric that the run, its scheduler or its searcher needs, or has no number in its place.

    It fails the trial.
    """


class ProgramError(TuneError):
    """A program of `minitune run` has failed or reported nothing, or cannot be started. The text has its last lines."""


class CrashLoopError(TuneError):
    """Trials fail again and again, or lose their workers, and no attempt brings a new report."""


class DiskError(TuneError):
    """The system has refused a file of the run: the disk is full, read-only, or gone, or too many files are open.

    The run can be resumed.
    """

    run_path = ""


class RunNotFoundError(TuneError, FileNotFoundError):
    """The given directory contains no run."""


class RunLockedError(TuneError):
    """Another driver holds the lock of this run's directory."""


class JournalCorruptError(TuneError):
    """The journal has a damaged line before intact ones, so it cannot be replayed."""


class UntrustedStateError(TuneError):
    """Another user may have written a file that must be unpickled."""


class ObjectLostError(TuneError):
    """The value behind a reference of `put()` no longer exists."""


STOP_SWALLOWED = (
    "its code has caught TrialStopped and gone on: a bare `except:` or an `except BaseException:` around report() does "
    "that; use `except Exception:`"
)
"""The explanation for a trial that swallows its stop."""


class TrialStopped(BaseException):
    """`report()` raises this in a trial that must stop, so that `with` and `finally` blocks run.

    It is a `BaseException`, which `except Exception` around `report()` does not swallow.
    """


def clip(text: str) -> str:
    """The text, shortened to about `MESSAGE_LIMIT` characters: a note replaces the middle of a longer text."""
    if len(text) <= MESSAGE_LIMIT:
        return text
    half = MESSAGE_LIMIT // 2
    return f"{text[:half]}\n... [{len(text) - 2 * half} characters left out] ...\n{text[-half:]}"


@dataclass(frozen=True)
class RemoteError:
    """An exception on its way from a worker to the driver: always as text, also as an object if it can be pickled."""

    type_name: str
    message: str
    traceback: str
    pickled: bytes | None = None
    hint: str = ""

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """Describe an exception with its traceback. Works even if its own methods raise."""
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
        """Rebuild the exception object; None if it could not be pickled, or its class cannot be loaded here."""
        if self.pickled is None:
            return None
        try:
            error: BaseException = pickle.loads(self.pickled)
        except Exception:
            return None
        return error

    def with_sources(self) -> RemoteError:
        """A copy whose traceback has source lines of notebook cells, which are no files."""
        return replace(self, traceback=_with_sources(self.traceback))

    def last_line(self) -> str:
        """The last line of a traceback: the class and the message."""
        if self.message:
            return f"{self.type_name}: {self.message}"
        return self.type_name


def format_traceback(error: BaseException) -> str:
    """Format `error` with the user's frames only, or with all frames if the setting `FULL_TRACEBACKS` is on.

    Frames of minitune before the user's first and after the last one are left out. Without a frame of the user, only
    those that carried the call are. If minitune complains about a returned value, all are.
    """
    try:
        formatted = traceback.TracebackException.from_exception(error)
        if not is_on("FULL_TRACEBACKS"):
            _drop_own_frames(formatted, set())
        return "".join(formatted.format())
    except Exception:
        return f"{_qualified_name(type(error))}: <its traceback could not be formatted>\n"


def user_traceback(error: BaseException) -> TracebackType | None:
    """The traceback without minitune's frames around the user's, for a debugger."""
    trace = error.__traceback__
    links = []
    while trace is not None:
        links.append(trace)
        trace = trace.tb_next
    kept = [i for i, link in enumerate(links) if not _is_own_frame(link.tb_frame.f_code.co_filename)]
    if not kept:
        return error.__traceback__
    following: TracebackType | None = None
    for link in reversed(links[kept[0] : kept[-1] + 1]):
        following = TracebackType(following, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return following


def trial_error(remote: RemoteError, text: str | None = None, kind: type[TrialError] = TrialError) -> TrialError:
    """Build the error of a trial from its worker's description, with the user's exception as its cause."""
    error = kind(remote.traceback.rstrip() if text is None else text)
    error.remote = remote
    error.__cause__ = remote.load()
    return error


def as_cause(error: TrialError) -> TrialError:
    """A copy of a trial's error without a cause, to be the cause of another error.

    Its text is already the traceback of the user's exception, which Python would print twice.
    """
    alone = copy.copy(error)
    alone.__cause__ = None
    return alone


def trial_error_of_text(text: str, cause: str = "") -> TrialError:
    """Build a trial's error from its error file, or from a cause in a few words. Unpickles nothing."""
    error = TrialError(text)
    is_traceback = "Traceback (most recent call last)" in text  # else: how a worker died, or which limit was exceeded
    error.cause = cause if is_traceback else text.strip().partition("\n")[0]
    return error


def _qualified_name(kind: type) -> str:
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


# -- exceptions between processes --------------------------------------------------------------------------------------

# The largest pickled exception, in bytes. A larger one is a text alone. Not measured: with less, errors lose their
# causes; with more, trials that fail with data in exceptions slow the driver.
_PICKLE_LIMIT_BYTES = 16 * MESSAGE_LIMIT


def _pickle_exception(error: BaseException) -> bytes | None:
    """The pickle of an exception, without its causes, which are in the text; None if it is large or does not load."""
    try:
        data = dumps_by_value(error)
        if len(data) <= _PICKLE_LIMIT_BYTES and isinstance(pickle.loads(data), BaseException):
            return data
    except Exception:  # its methods may raise anything
        pass
    return None


# -- frames ------------------------------------------------------------------------------------------------------------

_FRAME = re.compile(r'( +)File "(.+)", line (\d+), in .+')
_PACKAGE = __file__.rpartition("error.py")[0]
_EXAMPLES = _PACKAGE + "examples"
_TRAINABLE = _PACKAGE + "trainable"
# The packages that carry calls to the trainable. The executor determines which of them do.
_SERVING = (_PACKAGE + "actor", _PACKAGE + "executors", _PACKAGE + "ray/cluster")
# The ends of the names of other files that carry such calls; the last one wraps each method of a Ray actor.
_CARRYING = ("concurrent/futures/thread.py", "concurrent/futures/_base.py", "ray/util/tracing/tracing_helper.py")


def _drop_own_frames(formatted: traceback.TracebackException, seen: set[int]) -> None:
    if id(formatted) in seen:
        return
    seen.add(id(formatted))
    names = [frame.filename for frame in formatted.stack]
    kept = [i for i, name in enumerate(names) if not _is_own_frame(name)]
    if kept:
        formatted.stack[:] = formatted.stack[kept[0] : kept[-1] + 1]
    elif names and names[-1].startswith(_TRAINABLE):
        formatted.stack.clear()  # minitune complains about the result of the user's code, which has returned
    else:
        first = next((i for i, name in enumerate(names) if not _is_serving_frame(name)), 0)
        del formatted.stack[:first]
    for linked in (formatted.__cause__, formatted.__context__):
        if linked is not None:
            _drop_own_frames(linked, seen)


def format_stack(stack: traceback.StackSummary) -> str:
    """Format the stack of a trial's thread, outermost frame first: the user's frames only, or empty."""
    own = [_is_own_frame(frame.filename) for frame in stack]
    others = range(own.index(True), len(own)) if any(own) else ()  # the frames before started the thread
    kept = [i for i in others if not own[i] and stack[i].filename != threading.__file__]
    if kept:
        return "".join(traceback.format_list(stack[kept[0] : kept[-1] + 1]))
    return ""


def _with_sources(text: str) -> str:
    """A formatted traceback, with source lines that this process knows."""
    lines: list[str] = []
    for line in text.splitlines():
        lines += [*_source_of(lines[-1] if lines else "", line), line]
    return "\n".join(lines) + text[len(text.rstrip("\n")) :]


def _source_of(frame: str, following: str) -> list[str]:
    match = _FRAME.fullmatch(frame)
    if match is None or following.startswith(f"{match[1]}  "):
        return []
    source = linecache.getline(match[2], int(match[3])).strip()
    return [f"{match[1]}  {source}"] if source else []


def _is_own_frame(filename: str) -> bool:
    own = filename.startswith(_PACKAGE) and not filename.startswith(_EXAMPLES)
    return own or _is_serving_frame(filename)


def _is_serving_frame(filename: str) -> bool:
    return filename.startswith(_SERVING) or filename.endswith(_CARRYING)


# Ray Tune's names for these errors.
RayError = TuneError
RayTaskError = TrialError
RayActorError = WorkerCrashedError = WorkerDiedError
