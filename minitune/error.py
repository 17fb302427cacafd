"""The errors that users see, and what a worker says about an exception.

Every error here says which rule was broken, by which values, where, and what to do. `TuneError` is the base of
everything that minitune raises on its own account; a `ValueError` or `TypeError` marks a bad argument. This module
imports nothing but the standard library and the settings, so any other part may raise from it.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import linecache
import pickle
import re
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MemberDescriptorType, TracebackType
from typing import Any, TypeVar

from minitune.settings import is_on

MESSAGE_LIMIT = 64_000
"""Characters of an exception's message or traceback that are kept; longer text is cut and says so."""


HINT = "hint: "
"""How a line begins that says what to do about an error. Such lines follow a traceback and are no part of it."""

_Kind = TypeVar("_Kind", bound=Exception)


class TuneError(Exception):
    """Base class of the errors that concern a run rather than one argument."""


class InvalidArgumentError(TuneError, ValueError):
    """A bad argument that Ray Tune refuses with one of the two classes where the other one fits better.

    Scripts wait for either.
    """


class ConstraintError(TuneError, ValueError):
    """A constraint of the search fails, or no configuration that was proposed fulfils all of them."""


class TrialError(TuneError):
    """How one trial ended badly. `Result.error` is one; it is also an instance of the user's exception class.

    Attributes:
        remote: What the worker said of the exception, or None if the worker could not say anything.
        cause: What happened, in one line, where that is not the last line of the text.
    """

    remote: RemoteError | None = None
    cause: str = ""

    def summary(self) -> str:
        """The error in one line: of an exception its class and the first line of its message."""
        if self.cause or self.remote is None:
            return self.cause or _last_line_without_hints(str(self))
        message = self.remote.message.strip().partition("\n")[0]
        return f"{self.remote.type_name}: {message}" if message else self.remote.type_name


def _last_line_without_hints(text: str) -> str:
    lines = [line for line in text.strip().split("\n") if not line.startswith(HINT)]
    return lines[-1] if lines else text


class WorkerDiedError(TrialError):
    """The trial's process ended without being asked to; the text names the exit code or the signal."""


class WorkerStartError(TrialError):
    """The trial's process came up, but its trainable could not be loaded or set up."""


class TrialTimeoutError(TrialError):
    """The trial broke a time limit that the user had set."""


class MissingMetricError(TrialError, ValueError):
    """A result lacks a metric that the run, its scheduler or its searcher goes by.

    It is the error of such a trial. It also comes out of `fit` once the metric's name is wrong beyond doubt.

    Attributes:
        metric: The flattened name.
    """

    metric = ""


class CheckpointError(TrialError):
    """A checkpoint could not be written or does not match its record."""


class CrashLoopError(TuneError):
    """Trials that may be retried without end fail again and again, and nothing is reported in between."""


class RunNotFoundError(TuneError, FileNotFoundError):
    """There is no run in the directory that was named."""


class RunLockedError(TuneError):
    """Another driver holds the lock of this run's directory."""


class JournalCorruptError(TuneError):
    """The journal has a bad line before good ones, so it cannot be replayed as it is."""


class UntrustedStateError(TuneError):
    """A file that would have to be unpickled may have been written by another user."""


class ObjectLostError(TuneError):
    """The value behind a reference of `put()` does not exist any more."""


STOP_SWALLOWED = (
    "its code has caught TrialStopped and gone on: a bare `except:` or an `except BaseException:` around report() does "
    "that; use `except Exception:`"
)
"""Told of a trial that does not let its stop through."""


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
        pickled: The exception itself and those that led to it, as far as they survived a round trip in the worker.
        hint: A line that begins with `HINT`, if where the code ran may be the reason; empty if not.
    """

    type_name: str
    message: str
    traceback: str
    pickled: bytes | None = None
    hint: str = ""

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
        """Rebuild the exception object, with its causes.

        Returns:
            The exception, or None if it did not travel or its class cannot be loaded here.
        """
        return None if self.pickled is None else _load_chain(self.pickled)

    def with_sources(self) -> RemoteError:
        """The same, with the lines of source that only this process knows: of functions defined in a notebook's cells.

        Such a cell is no file. Its text is in the `linecache` of the process that has run it.
        """
        return replace(self, traceback=_with_sources(self.traceback))

    def last_line(self) -> str:
        """The line that ends a traceback: the class and the message."""
        return f"{self.type_name}: {self.message}" if self.message else self.type_name


def format_traceback(error: BaseException) -> str:
    """Format `error` with the user's frames only, unless the setting `FULL_TRACEBACKS` asks for all.

    The frames of minitune before the first and after the last frame of the user's say nothing to a user and are left
    out; if there is no frame of the user's, those that only served the call are, and all where it is said of the user's
    code that it has returned what it must not. Causes and contexts are treated alike.

    Args:
        error: The exception, with its traceback.

    Returns:
        The text, ending in a newline.
    """
    try:
        formatted = traceback.TracebackException.from_exception(error)
        if not is_on("FULL_TRACEBACKS"):
            _drop_own_frames(formatted, set())
        return "".join(formatted.format())
    except Exception:
        return f"{_qualified_name(type(error))}: <its traceback could not be formatted>\n"


def user_traceback(error: BaseException) -> TracebackType | None:
    """The part of an exception's traceback that is the user's, for a debugger: without our frames around it.

    Args:
        error: The exception, with its traceback.

    Returns:
        The traceback; as it is if there is no frame of the user's.
    """
    trace, links = error.__traceback__, []
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


def as_cause(error: TrialError) -> TrialError:
    """A copy of a trial's error as the cause of one that is raised, so that what is printed tells each thing once.

    The text of a trial's error is the traceback of the user's exception. That exception is the error's own cause, and
    would be printed before it; the copy has none.
    """
    alone = copy.copy(error)
    alone.__cause__ = None
    return alone


def trial_error_of_text(text: str, cause: str = "") -> TrialError:
    """Build the error of a trial from the text that was kept of it; nothing is unpickled.

    Args:
        text: What stands in the trial's error file, or a cause in a few words.
        cause: What happened, in one line, if it is known: where a traceback's message begins is not.

    Returns:
        An error that is also an instance of the exception's class if that is one of Python's own.
    """
    error = _error_of_own_class(text) or TrialError(text)
    is_traceback = "Traceback (most recent call last)" in text  # else how a worker has died, or what limit was broken
    error.cause = cause if is_traceback else text.strip().partition("\n")[0]
    return error


def _error_of_own_class(text: str) -> TrialError | None:
    for line in reversed(text.splitlines()):
        name, colon, message = line.partition(": ")
        kind = getattr(builtins, name.strip(), None) if line[:1].strip() else None
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                original = kind(message) if colon else kind()
            except TypeError:  # it cannot be made from a text alone
                break
            return _dual_error(TrialError, original, text)
    return None


def _dual_error(kind: type[TrialError], original: Exception, text: str) -> TrialError | None:
    """An instance of both `kind` and the class of `original`, or None where Python or the class refuses."""

    def reduce(self: TrialError) -> tuple[Any, ...]:
        return trial_error, (self.remote, text, kind)

    return dual_error(kind, original, text, reduce)


def dual_error(
    kind: type[_Kind], original: Exception, text: str, reduce: Callable[[Any], tuple[Any, ...]] | None = None
) -> _Kind | None:
    """An error that is told apart by two classes.

    Args:
        kind: The one class.
        original: An exception of the other one; the error gets its arguments and attributes.
        text: What the error says.
        reduce: How it is pickled, its `__reduce__`; by default as a `kind` with this text.

    Returns:
        An instance of both `kind` and the class of `original`, or None where Python or the class refuses.
    """
    user_class = type(original)
    if issubclass(user_class, kind):
        return None

    def show(self: BaseException) -> str:
        return text

    def represent(self: OSError) -> str:
        # OSError keeps the file's name apart from `args`, and its own text for repr() leaves it out.
        return f"{type(self).__name__}({', '.join(map(repr, OSError.__reduce__(self)[1]))})"

    try:
        body = {"__str__": show, "__reduce__": reduce or (lambda self: (kind, (text,))), "__module__": kind.__module__}
        if isinstance(original, OSError) and user_class.__repr__ is BaseException.__repr__:
            body["__repr__"] = represent
        dual = type(f"{kind.__name__}({user_class.__name__})", (kind, user_class), body)
        new = BaseException.__new__ if isinstance(original, MemoryError) else dual.__new__  # its own makes only itself
        error: _Kind = new(dual, *original.args)
        error.__dict__.update(original.__dict__)
        error.args = original.args
        for name, value in _slots_of(original).items():
            setattr(error, name, value)
    except Exception:
        return None
    return error


def _slots_of(error: BaseException) -> dict[str, Any]:
    """The values that an exception keeps outside of `args` and `__dict__`, such as the file's name of an `OSError`.

    The `obj` of an `AttributeError` is left out: it may be anything, and of any size.
    """
    slots = {}
    for kind in type(error).__mro__:
        for name, slot in vars(kind).items():
            if isinstance(slot, MemberDescriptorType) and not name.startswith("__") and name != "obj":
                with contextlib.suppress(AttributeError):  # one of `__slots__` that is not set
                    slots[name] = slot.__get__(error)
    return {name: value for name, value in slots.items() if value is not None}  # others that are not set read as None


def _qualified_name(kind: type) -> str:
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


# -- the way of an exception -------------------------------------------------------------------------------------------

_CHAIN_LIMIT = 20
"""Causes beyond so many do not travel."""
_PICKLE_LIMIT_BYTES = 16 * MESSAGE_LIMIT
"""An exception with more than this in it travels with its class and a part of its message only."""

_Link = tuple[str, bytes]
"""The attribute of the exception before that leads to this one, empty for the first; and the pickled exception."""


@dataclass(frozen=True)
class _Bare:
    """An exception without its own ways of being pickled and made: many classes cannot be loaded from what they pickle.

    Attributes:
        kind: Its class.
        args: Its `args`.
        state: Its attributes.
        slots: See `_slots_of`.
    """

    kind: type[BaseException]
    args: tuple[Any, ...]
    state: dict[str, Any]
    slots: dict[str, Any]

    def revive(self) -> BaseException:
        """The exception; its `__init__` is not called."""
        error: BaseException = self.kind.__new__(self.kind, *self.args)
        error.args = self.args
        error.__dict__.update(self.state)
        for name, value in self.slots.items():
            setattr(error, name, value)
        return error


def _pickle_exception(error: BaseException) -> bytes | None:
    """The exception and what it came from (`__cause__`, else `__context__`) as bytes; None if it cannot travel."""
    links: list[_Link] = []
    seen: set[int] = set()
    following: BaseException | None = error
    way = ""
    while following is not None and id(following) not in seen and len(links) < _CHAIN_LIMIT:
        seen.add(id(following))
        data = _pickle_link(following)
        if data is None:
            break
        links.append((way, data))
        way = "__context__" if following.__cause__ is None else "__cause__"
        if way == "__context__" and following.__suppress_context__:
            break
        following = getattr(following, way)
    return pickle.dumps(links) if links else None


def _pickle_link(error: BaseException) -> bytes | None:
    """One exception as bytes that load again here to the same class: as it is, else bare, else bare and cut."""
    kind = type(error)
    try:
        message = clip(str(error))
    except Exception:
        message = ""
    bare = _Bare(kind, error.args, dict(error.__dict__), _slots_of(error))
    for value in (error, bare, _Bare(kind, (message,), {}, {})):
        try:
            import cloudpickle

            data: bytes = cloudpickle.dumps(value)
            if len(data) <= _PICKLE_LIMIT_BYTES and type(_load_link(data)).__name__ == kind.__name__:
                return data
        except Exception:
            continue
    return None


def _load_link(data: bytes) -> BaseException:
    value = pickle.loads(data)
    if isinstance(value, _Bare):
        value = value.revive()
    if not isinstance(value, BaseException):
        raise TypeError(f"an exception must be loaded, but got {type(value).__name__}")
    return value


def _load_chain(pickled: bytes) -> BaseException | None:
    """What `_pickle_exception` made; the causes end where one cannot be loaded here."""
    first: BaseException | None = None
    last: BaseException | None = None
    try:
        links: list[_Link] = pickle.loads(pickled)
        for way, data in links:
            error = _load_link(data)
            if last is not None:
                setattr(last, way, error)
            first, last = error if first is None else first, error
    except Exception:
        return first
    return first


# -- frames ------------------------------------------------------------------------------------------------------------


def _drop_own_frames(formatted: traceback.TracebackException, seen: set[int]) -> None:
    if id(formatted) in seen:
        return
    seen.add(id(formatted))
    names = [frame.filename for frame in formatted.stack]
    kept = [i for i, name in enumerate(names) if not _is_own_frame(name)]
    if kept:
        formatted.stack[:] = formatted.stack[kept[0] : kept[-1] + 1]
    elif names and names[-1].startswith(_TRAINABLE):  # a complaint of ours about the user's code, which has returned
        formatted.stack.clear()
    else:
        first = next((i for i, name in enumerate(names) if not _is_serving_frame(name)), 0)
        del formatted.stack[:first]
    for linked in (formatted.__cause__, formatted.__context__):
        if linked is not None:
            _drop_own_frames(linked, seen)


_FRAME = re.compile(r'( +)File "(.+)", line (\d+), in .+')
_PACKAGE = __file__.rpartition("error.py")[0]
_EXAMPLES = _PACKAGE + "examples"


_TRAINABLE = _PACKAGE + "trainable"
_SERVING = (_PACKAGE + "actor", _PACKAGE + "execution")
"""The packages that carry calls to the trainable; which of them do depends on the executor."""


def format_stack(stack: traceback.StackSummary) -> str:
    """Format the stack of a trial's thread: the user's frames only.

    Args:
        stack: The thread's frames, outermost first.

    Returns:
        The text, empty if there is no frame of the user's.
    """
    own = [_is_own_frame(frame.filename) for frame in stack]
    others = range(own.index(True), len(own)) if any(own) else ()  # what stands before has started the thread
    kept = [i for i in others if not own[i] and stack[i].filename != threading.__file__]
    return "".join(traceback.format_list(stack[kept[0] : kept[-1] + 1])) if kept else ""


def _with_sources(text: str) -> str:
    """A formatted traceback in which frames without a line of source have got it, where this process has it."""
    lines: list[str] = []
    for line in text.splitlines():
        lines += [*_source_of(lines[-1] if lines else "", line), line]
    return "\n".join(lines) + text[len(text.rstrip("\n")) :]


def _source_of(frame: str, following: str) -> list[str]:
    """The source of a frame's line, if that does not follow it already."""
    match = _FRAME.fullmatch(frame)
    if match is None or following.startswith(f"{match[1]}  "):
        return []
    source = linecache.getline(match[2], int(match[3])).strip()
    return [f"{match[1]}  {source}"] if source else []


def _is_own_frame(filename: str) -> bool:
    own = filename.startswith(_PACKAGE) and not filename.startswith(_EXAMPLES)
    return own or _is_serving_frame(filename)


def _is_serving_frame(filename: str) -> bool:
    futures = filename.endswith(("concurrent/futures/thread.py", "concurrent/futures/_base.py"))
    return futures or filename.startswith(_SERVING)


# The names by which users of Ray know them.
RayError = TuneError
RayTaskError = TrialError
RayActorError = WorkerCrashedError = WorkerDiedError
