"""Pickling between driver, workers and later processes, with errors that name the offending member.

From the driver to a worker, objects of the user's main module, lambdas and closures are pickled by value (cloudpickle),
because a worker never imports that module again. The worker enters them into its own `__main__`, so that plain `pickle`
finds them there. From a worker to the driver, objects are pickled by reference if possible, because the driver has the
main module. For a later process they are pickled by value, but that process prefers the class in its own main module.

Loading may run user code. Where that is not allowed, `load_plain` loads only numbers, texts, containers and our own
values.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

PROTOCOL = 5
"""The pickle protocol of all that is written. It copies large buffers once less than older ones."""
_PACKAGE = __name__.partition(".")[0]
_DEPTH_LIMIT = 12
_VISIT_LIMIT = 2_000
"""Objects that the search for a culprit tries: without a limit a huge list would take it minutes."""
_DEEP_RECURSION = 5_000
"""Recursion limit for values nested too deep for the usual one, which allows about 490 levels. Each level takes
less than 500 bytes of a stack of 8 MB."""


# -- pickling ----------------------------------------------------------------------------------------------------------
def dumps(value: Any, what: str) -> bytes:
    """Pickle `value`, by value where it belongs to the user's main module.

    Args:
        value: Any object.
        what: Name of the value, for the error text: `the trainable`.

    Returns:
        The bytes, for `pickle.loads`.

    Raises:
        TypeError: If it cannot be pickled; the text names the path to the offending member.
    """
    buffer = io.BytesIO()
    try:
        _PlainPickler(buffer, PROTOCOL).dump(value)
    except Exception:  # not plain, or cannot be pickled at all; the code below reports that
        buffer = io.BytesIO()
        dump(value, buffer, what)
    return buffer.getvalue()


class _NotPlainError(Exception):
    """The value holds an object that plain `pickle` might pickle in another way than cloudpickle."""


class _PlainPickler(pickle.Pickler):
    """Pickles numbers, texts, built-in containers and our own values, which every process knows.

    It is faster than cloudpickle, which runs Python code for each object that is not built in.
    """

    def reducer_override(self, value: Any) -> Any:
        """Called for all but the built-in types."""
        kind = value if isinstance(value, (type, types.FunctionType)) else type(value)
        if kind.__module__.partition(".")[0] != _PACKAGE and kind is not functools.partial:
            raise _NotPlainError
        return NotImplemented


def dump(value: Any, file: Any, what: str, buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None) -> None:
    """Pickle `value` into a file, as `dumps` does. Blocks while it writes.

    Args:
        value: Any object.
        file: An open binary file, or whatever has its `write`.
        what: Name of the value, for the error text.
        buffer_callback: Gets the large buffers in it; those for which it returns something true stay in the pickle.

    Raises:
        TypeError: If it cannot be pickled; the text names the path to the offending member.
        OSError: If the file cannot be written.
    """
    import cloudpickle

    main_of_spawned = sys.modules.get("__mp_main__")
    if main_of_spawned is not None:  # the name of the user's main module in a child that `multiprocessing` spawns
        cloudpickle.register_pickle_by_value(main_of_spawned)
    try:
        cloudpickle.Pickler(file, protocol=PROTOCOL, buffer_callback=buffer_callback).dump(value)
    except OSError:
        raise
    except Exception as error:
        raise unpicklable_error(value, what, error) from error


# -- pickles of limited size -------------------------------------------------------------------------------------------
def dumps_small(value: Any, what: str, limit_bytes: int) -> bytes | None:
    """Pickle `value` as `dumps` does if that is small. Else the pickling ends early, and nothing large is copied.

    Args:
        value: Any object.
        what: Name of the value, for the error text.
        limit_bytes: How large it may be.

    Returns:
        The bytes, for `pickle.loads`; None if they are too many.

    Raises:
        TypeError: If it cannot be pickled; the text names the path to the offending member.
    """
    try:
        sink = _Limited(limit_bytes)
        _PlainPickler(sink, PROTOCOL, buffer_callback=sink.take).dump(value)
        return b"".join(sink.parts)
    except _TooLarge:
        return None
    except Exception:  # not plain, or not to be pickled at all
        return _dumps_within(value, what, limit_bytes, dump)


def dumps_small_for_later(value: Any, what: str, limit_bytes: int) -> bytes | None:
    """Pickle `value` as `dumps_for_later` does if that is small. See `dumps_small`."""
    return _dumps_within(value, what, limit_bytes, dump_for_later)


def _dumps_within(value: Any, what: str, limit_bytes: int, dump: Callable[..., None]) -> bytes | None:
    sink = _Limited(limit_bytes)
    try:
        dump(value, sink, what, sink.take)
    except _TooLarge:
        return None
    return b"".join(sink.parts)


class _TooLarge(BaseException):  # no Exception: to pickling those mean that the value is at fault
    """A pickle is too large."""


class _Limited:
    """A file that takes so many bytes and no more."""

    def __init__(self, limit_bytes: int) -> None:
        self.parts: list[bytes] = []
        self._left_bytes = limit_bytes

    def write(self, data: Any) -> int:
        """Take a part of the pickle."""
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise _TooLarge
        self.parts.append(bytes(data))
        return len(data)

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        """Let a buffer stay in the pickle if there is room for it."""
        with memoryview(buffer) as view:
            if view.nbytes > self._left_bytes:
                raise _TooLarge
        return True


def require_picklable(value: Any, what: str) -> None:
    """Refuse what cannot be pickled; nothing large is copied on the way.

    Raises:
        TypeError: The text names the path to the offending member.
    """
    dump(value, _Nowhere(), what, lambda buffer: False)


class _Nowhere:
    """Forgets what is written."""

    def write(self, data: Any) -> int:
        return len(data)


class SmallPickle:
    """A pickle that is kept if it is small; to try it copies nothing large.

    Args:
        value: Any object.
        what: Name of the value, for the error text.
        limit_bytes: How large it may be.

    Raises:
        TypeError: If it cannot be pickled; the text names the path to the offending member.
    """

    def __init__(self, value: Any, what: str, limit_bytes: int):
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._parts: list[bytes] = []
        self._buffers: list[pickle.PickleBuffer] = []
        dump(value, self, what, self._take_buffer)

    def write(self, data: Any) -> int:
        """Take a part of the pickle."""
        self._size_bytes += len(data)
        if self._size_bytes <= self._limit_bytes:
            self._parts.append(bytes(data))
        return len(data)

    def _take_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        self._size_bytes += buffer.raw().nbytes
        self._buffers.append(buffer)
        return False

    def content(self) -> tuple[bytes, list[bytes]] | None:
        """The pickle and its buffers, for `load`; None if they are too large."""
        if self._size_bytes > self._limit_bytes:
            return None
        return b"".join(self._parts), [bytes(buffer.raw()) for buffer in self._buffers]


# -- for a later process -----------------------------------------------------------------------------------------------
def dumps_for_later(value: Any, what: str, refer: Callable[[Any], Any] | None = None) -> bytes:
    """Pickle `value` for a process that may run another version of the user's script.

    Classes of the main module travel by value, as with `dumps`, but the process that loads prefers the class of the
    same name in its own main module, if there is one: `config["colour"] is Colour.RED` must hold after a resume, too.

    Args:
        value: Any object.
        what: Name of the value, for the error text.
        refer: Asked about each object in it: what is not None is pickled in its place, for the function that
            `loads_referring` is given.

    Returns:
        The bytes, for `pickle.loads`, or with `refer` for `loads_referring`.

    Raises:
        TypeError: If it cannot be pickled; the text names the path to the offending member.
    """
    buffer = io.BytesIO()
    dump_for_later(value, buffer, what, refer=refer)
    return buffer.getvalue()


def loads_referring(data: bytes, resolve: Callable[[Any], Any]) -> Any:
    """Unpickle what `dumps_for_later` has pickled with `refer`. This executes code of the program that wrote it.

    Args:
        data: The bytes.
        resolve: Gives the object for what `refer` has returned.
    """

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, reference: Any) -> Any:
            return resolve(reference)

    return Unpickler(io.BytesIO(data)).load()


def dump_for_later(
    value: Any,
    file: Any,
    what: str,
    buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None,
    refer: Callable[[Any], Any] | None = None,
) -> None:
    """Pickle `value` into a file, as `dumps_for_later` does. Blocks while it writes. See `dump`.

    Raises:
        TypeError: If it cannot be pickled; the text names the path to the offending member.
        OSError: If the file cannot be written.
    """
    try:
        kind = _later_pickler()
        if refer is not None:  # C code calls the class's method; without one, pickling is not slower
            kind = type("ReferringPickler", (kind,), {"persistent_id": staticmethod(refer)})
        kind(file, protocol=PROTOCOL, buffer_callback=buffer_callback).dump(value)
    except OSError:
        raise
    except Exception as error:
        raise unpicklable_error(value, what, error) from error


@functools.cache
def _later_pickler() -> Any:
    """The pickler of `dumps_for_later`; made when it is first needed, since cloudpickle takes a while to import."""
    import cloudpickle

    class LaterPickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no type information
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, type) and value.__module__ == "__main__" and _of_main(value.__qualname__) is value:
                return _class_of_main, (value.__qualname__, cloudpickle.dumps(value, protocol=PROTOCOL))
            return super().reducer_override(value)

    return LaterPickler


def _of_main(qualified_name: str) -> Any:
    """Return the object of this process's main module with a name; None if there is none."""
    try:
        return functools.reduce(getattr, qualified_name.split("."), sys.modules["__main__"])
    except AttributeError:
        return None


def _class_of_main(qualified_name: str, copy: bytes) -> Any:
    found = _of_main(qualified_name)
    return found if isinstance(found, type) else pickle.loads(copy)


# -- the culprit -------------------------------------------------------------------------------------------------------
def unpicklable_error(value: Any, what: str, error: BaseException) -> TypeError:
    """Return the error to raise when pickling `value` has failed with `error`.

    Args:
        value: The value that could not be pickled.
        what: Its name, for the error text.
        error: The error of pickle.
    """
    path = find_unpicklable(value) or f"it is {_describe(value)}"
    return TypeError(
        f"{what} cannot be pickled: {path} ({type(error).__name__}: {error}); "
        "make it inside the trainable instead, or leave it out"
    )


def find_unpicklable(value: Any) -> str | None:
    """Find out which part of `value` cannot be pickled. May take seconds on large objects.

    Args:
        value: Any object.

    Returns:
        The path from `value` to the part, such as `closure variable 'model' -> attribute 'lock' is a _thread.lock`;
        None if `value` can be pickled.
    """
    search = _Search()
    if search.can_pickle(value):
        return None
    steps, culprit = search.descend(value, 0)
    return f"{' -> '.join(steps) or 'it'} is {_describe(culprit)}"


def unpicklable_variables(function: types.FunctionType) -> dict[str, str]:
    """Find out which variables from outside of `function` cannot be pickled. May take seconds on large objects.

    Args:
        function: A function of the user's.

    Returns:
        By the variable's name, the path to its offending member, as `find_unpicklable` gives it.
    """
    variables = {**dict(_global_variables(function)), **dict(_closure_variables(function))}
    found = {name: find_unpicklable(value) for name, value in variables.items()}
    return {name: path for name, path in found.items() if path is not None}


class _Search:
    """One walk to the culprit: remembers where it has been, so that cycles end, and how much it has tried."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}  # holds the objects: an id is only unique among living ones
        self._visits = 0

    def can_pickle(self, value: Any) -> bool:
        import cloudpickle

        self._visits += 1
        try:
            cloudpickle.dumps(value, protocol=PROTOCOL)
        except Exception:
            return False
        return True

    def descend(self, value: Any, depth: int) -> tuple[list[str], Any]:
        """Steps from `value`, which cannot be pickled, to its innermost part that cannot, and that part."""
        self._seen[id(value)] = value
        if depth < _DEPTH_LIMIT:
            for label, part in _parts(value):
                if self._visits >= _VISIT_LIMIT:
                    break
                if id(part) in self._seen or self.can_pickle(part):
                    continue
                steps, culprit = self.descend(part, depth + 1)
                return [label, *steps], culprit
        return [], value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts that pickling `value` would pickle, each with the words that name it."""
    for kind, parts in _PARTS:
        if isinstance(value, kind):
            yield from parts(value)
            return
    if type(value).__module__.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return  # "a threading.Thread" says more than the lock inside it
    for name, part in _attributes(value):
        yield f"attribute {name!r}", part


def _function_parts(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, part in _closure_variables(function):
        yield f"closure variable {name!r}", part
    for default in function.__defaults__ or ():
        yield "a default argument", default
    for name, default in (function.__kwdefaults__ or {}).items():
        yield f"default of argument {name!r}", default
    for name, part in _global_variables(function):
        yield f"global {name!r}", part
    for name, part in vars(function).items():
        yield f"attribute {name!r}", part


def _closure_variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # a cell that is not filled yet


def _global_variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Names that `code` and the functions defined inside it may look up as globals."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _method_parts(method: types.MethodType) -> Iterator[tuple[str, Any]]:
    yield "the object it is bound to", method.__self__
    yield f"function {method.__func__.__name__!r}", method.__func__


def _partial_parts(partial: functools.partial[Any]) -> Iterator[tuple[str, Any]]:
    yield "the partial's function", partial.func
    for position, argument in enumerate(partial.args):
        yield f"the partial's argument {position}", argument
    for name, argument in partial.keywords.items():
        yield f"the partial's argument {name!r}", argument


def _class_parts(kind: type) -> Iterator[tuple[str, Any]]:
    for name, part in list(vars(kind).items()):
        if name not in ("__dict__", "__weakref__", "__doc__", "__module__"):
            yield f"class attribute {name!r}", getattr(part, "__func__", part)
    for base in kind.__bases__:
        yield f"base class {base.__name__}", base


def _mapping_parts(mapping: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, part in list(mapping.items()):
        yield f"item {key!r:.80}", part
        yield f"key {key!r:.80}", key


def _sequence_parts(sequence: Any) -> Iterator[tuple[str, Any]]:
    for position, part in enumerate(sequence):
        yield f"item {position}", part


def _exception_parts(error: BaseException) -> Iterator[tuple[str, Any]]:
    for position, part in enumerate(error.args):
        yield f"argument {position}", part
    for name, part in _attributes(error):
        yield f"attribute {name!r}", part


_PARTS: tuple[tuple[Any, Callable[[Any], Iterator[tuple[str, Any]]]], ...] = (
    (types.FunctionType, _function_parts),
    (types.MethodType, _method_parts),
    (functools.partial, _partial_parts),
    (type, _class_parts),
    ((dict, types.MappingProxyType), _mapping_parts),
    ((list, tuple, set, frozenset), _sequence_parts),
    (BaseException, _exception_parts),
)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The state of an instance: its `__dict__` and its slots."""
    yield from list(getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)
    if type(value).__module__ == "__main__" or "<locals>" in type(value).__qualname__:
        yield "__class__", type(value)


def _describe(value: Any) -> str:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


# -- loading -----------------------------------------------------------------------------------------------------------
def load(file: IO[bytes], buffers: Iterable[memoryview] | None = None) -> Any:
    """Unpickle what `dumps`, or cloudpickle, has pickled. May run user code and import modules.

    Classes and functions that came by value from the driver's `__main__` are entered into this process's own, since
    `pickle.dumps(Net())` in a trial looks `Net` up there. Names that `__main__` has already stay as they are, so
    nothing changes in the process that runs the user's script.

    Args:
        file: An open binary file.
        buffers: The large buffers that were kept out of the pickle.

    Returns:
        The object.
    """
    return _EnteringUnpickler(file, buffers=buffers).load()


class _EnteringUnpickler(pickle.Unpickler):
    """Enters what was pickled by value into the `__main__` of this process, when cloudpickle fills it in.

    cloudpickle makes an empty class or function first, and fills it in with one of its state setters.
    """

    replaces = False
    """Whether a new object takes the place of one of the same name."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if name in ("_class_setstate", "_function_setstate") and module.partition(".")[0] == "cloudpickle":
            return functools.partial(_fill_and_enter, found, self.replaces)
        return found


def _fill_and_enter(fill: Callable[[Any, Any], Any], replaces: bool, made: Any, state: Any) -> Any:
    result = fill(made, state)
    name = getattr(made, "__qualname__", "")
    if getattr(made, "__module__", None) == "__main__" and name.isidentifier():  # not one local to a function
        names = vars(sys.modules["__main__"])
        if replaces or name not in names:
            names[name] = made
    return result


# -- in a worker -------------------------------------------------------------------------------------------------------
class UserCodeNeededError(Exception):
    """The pickle names a class or function that is not ours, so that loading it may run user code."""


class _WorkerUnpickler(_EnteringUnpickler):
    """Also replaces names of `__main__`, which is the worker's own: the latest pickle has the class that counts."""

    replaces = True


class _PlainUnpickler(pickle.Unpickler):
    """Refuses everything whose loading could run code of others."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == _PACKAGE and module in sys.modules:
            return super().find_class(module, name)
        raise UserCodeNeededError(f"{module}.{name}")


def load_value(data: bytes) -> Any:
    """Unpickle in a worker a value that cloudpickle has pickled in the driver. May run user code and import modules.

    Args:
        data: The pickle.

    Returns:
        The object.

    Raises:
        Exception: Any error of the object's own loading.
    """
    return _WorkerUnpickler(io.BytesIO(data)).load()


def load_plain(data: bytes) -> Any:
    """Unpickle numbers, texts, built-in containers and our own values; runs no code of others.

    Raises:
        UserCodeNeededError: If there is anything else in it.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()


class _WaryPickler(pickle.Pickler):
    """Notes whether it has met anything but numbers, texts and built-in containers."""

    is_plain = True

    def reducer_override(self, value: Any) -> Any:
        """Called for everything else, before it is pickled; what is ours counts as plain, and so do our classes."""
        kind = value if isinstance(value, type) else type(value)
        if kind.__module__.partition(".")[0] != _PACKAGE:
            self.is_plain = False
        return NotImplemented


def dump_value(value: Any) -> bytes:
    """Pickle a value in a worker for the driver, by reference if possible, because the driver has its main module.

    An object that only this process knows is pickled by value. A value that is not plain is loaded again at once: if an
    object cannot be loaded, or ends the process that loads it, this process is hurt and not the driver.

    Raises:
        Exception: Any error of the object's own pickling or loading.
    """
    try:
        return _dump_value(value)
    except RecursionError:
        with _deep_recursion():
            return _dump_value(value)


@contextmanager
def _deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEP_RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _dump_value(value: Any) -> bytes:
    buffer = io.BytesIO()
    pickler = _WaryPickler(buffer, pickle.HIGHEST_PROTOCOL)
    try:
        pickler.dump(value)
        data = buffer.getvalue()
    except RecursionError:
        raise
    except Exception:
        import cloudpickle

        data = cloudpickle.dumps(value)
    if not pickler.is_plain:
        pickle.loads(data)
    return data
