"""Pickling between driver, workers and later processes, with errors that name the part that cannot be pickled.

For a worker, which does not import the user's main module, lambdas, closures and its objects are pickled by value
(cloudpickle). The worker enters them into its own `__main__`, where plain `pickle` finds them. For a later process, it
is the same, but that prefers the class in its own main module.

In all functions, `what` is the name of the value in errors, such as `the trainable`. A value that cannot be pickled
raises a TypeError with the path to the part that causes this.
"""

from __future__ import annotations

import functools
import io
import pickle
import re
import sys
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from minitune.base.user_code import loads_code

PROTOCOL = 5
"""The pickle protocol, which copies large buffers once less than older ones."""
_PACKAGE = __name__.partition(".")[0]
_MAIN = ("__main__", "__mp_main__")
_NAME = re.compile(r"[^\W\d]\w*")
_DEPTH_LIMIT = 12
_FILENAME = 10  # the position of a code object's file name among the arguments of `types.CodeType`
# How many objects the search for the unpicklable part tries. Without a limit, a huge list would take minutes.
_VISIT_LIMIT = 2_000
# The search does not look into objects of these modules: "a threading.Thread" says more than the lock inside it.
_LIBRARY = sys.stdlib_module_names - {"__main__"}


# -- pickling ----------------------------------------------------------------------------------------------------------
def dumps(value: Any, what: str) -> bytes:
    """Pickle any `value`, for `load_value` or `pickle.loads`. Objects of the main module go by value."""
    buffer = io.BytesIO()
    dump(value, buffer, what)
    return buffer.getvalue()


def dump(value: Any, file: Any, what: str, buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None) -> None:
    """Pickle `value` to a binary file, like `dumps`. `buffer_callback` is called for each large buffer, and keeps it in
    the pickle by a true value. Blocks while it writes.
    """
    import cloudpickle

    main_of_spawned = sys.modules.get("__mp_main__")
    if main_of_spawned is not None:  # the name of the user's main module in a child that `multiprocessing` spawns
        cloudpickle.register_pickle_by_value(main_of_spawned)
    try:
        by_value_pickler()(file, protocol=PROTOCOL, buffer_callback=buffer_callback).dump(value)
    except OSError:
        raise
    except Exception as error:
        raise unpicklable_error(value, what, error) from error


@functools.cache
def by_value_pickler() -> Any:
    """Cloudpickle's pickler class, with three differences.

    - Code keeps the name of its file, which cloudpickle 3.1.3 replaces by a constant for equal pickles.
    - Cached functions and `NewType`s of the main module, which pickle by name, are made anew.
    - A class of the main module whose annotations are texts takes along the types that these name, for
      `typing.get_type_hints`.
    """
    import cloudpickle

    reduce_nameless = cloudpickle.Pickler.dispatch_table[types.CodeType]

    def reduce_code(code: types.CodeType) -> tuple[Any, tuple[Any, ...]]:
        kind, arguments = reduce_nameless(code)
        before = arguments[:_FILENAME]
        after = arguments[_FILENAME + 1 :]
        return kind, (*before, code.co_filename, *after)

    own = {types.CodeType: reduce_code, _Cached: _reduce_cached, typing.NewType: _reduce_new_type}
    reducers = ChainMap(own, cloudpickle.Pickler.dispatch_table)

    class ByValuePickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no type information
        dispatch_table = reducers

        def reducer_override(self, value: Any) -> Any:
            reduced = super().reducer_override(value)
            if isinstance(value, type) and isinstance(reduced, tuple) and (named := _named_types(value)):
                make, arguments, state, items, pairs, fill = reduced
                return make, arguments, (named, fill, state), items, pairs, _fill_annotated
            return reduced

    return ByValuePickler


_Cached = type(functools.cache(len))


def _is_of_main(value: Any) -> bool:
    return value.__module__ in _MAIN or "<locals>" in value.__qualname__


def _reduce_cached(function: Any) -> Any:
    if not _is_of_main(function):
        return function.__reduce__()
    return _cached, (function.__wrapped__, function.cache_parameters())


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _reduce_new_type(new: Any) -> Any:
    if not _is_of_main(new):
        return new.__reduce__()
    return _new_type, (new.__name__, new.__supertype__)


def _new_type(name: str, supertype: Any) -> Any:
    new = typing.NewType(name, supertype)  # type: ignore[misc]  # a type that is known at run time only
    new.__module__ = "__main__"
    return new


def _named_types(kind: type) -> dict[str, Any]:
    """The types and modules that annotations of a class of the main module name, if these are texts."""
    if kind.__module__ not in _MAIN:
        return {}
    names = vars(sys.modules[kind.__module__])
    texts = [text for text in vars(kind).get("__annotations__", {}).values() if isinstance(text, str)]
    found = {name: names[name] for text in texts for name in _NAME.findall(text) if name in names}
    search = _CulpritSearch()
    return {name: value for name, value in found.items() if _is_of_types(value) and search.can_pickle(value)}


def _is_of_types(value: Any) -> bool:
    """Whether a value is a class, a module, or what annotations are made of, such as `Optional`."""
    return isinstance(value, (type, types.ModuleType)) or type(value).__module__ in ("typing", "types")


def _fill_annotated(made: Any, state: tuple[dict[str, Any], Callable[[Any, Any], Any], Any]) -> Any:
    named, fill, own_state = state
    for name, value in named.items():
        vars(sys.modules["__main__"]).setdefault(name, value)
    return _fill_and_enter(fill, False, made, own_state)


def dumps_by_value(value: Any) -> bytes:
    """Pickle `value` with `by_value_pickler`. It raises whatever pickling raises."""
    buffer = io.BytesIO()
    by_value_pickler()(buffer, protocol=PROTOCOL).dump(value)
    return buffer.getvalue()


# -- pickles of limited size -------------------------------------------------------------------------------------------
def dumps_small(value: Any, what: str, limit_bytes: int) -> bytes | None:
    """Pickle `value` like `dumps` if the pickle is small. Otherwise stop early and return None."""
    sink = _Limited(limit_bytes)
    try:
        dump(value, sink, what, sink.take)
    except _TooLarge:
        return None
    return b"".join(sink.parts)


class _TooLarge(BaseException):  # not an Exception, because pickling blames those on the value
    """A pickle is too large."""


class _Limited:
    """A file in memory with a maximum size, beyond which it raises `_TooLarge`."""

    def __init__(self, limit_bytes: int) -> None:
        self.parts: list[bytes] = []
        self._left_bytes = limit_bytes

    def write(self, data: Any) -> int:
        part_bytes = memoryview(data).nbytes  # a large buffer has no length
        self._left_bytes -= part_bytes
        if self._left_bytes < 0:
            raise _TooLarge
        self.parts.append(bytes(data))
        return part_bytes

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        with memoryview(buffer) as view:
            if view.nbytes > self._left_bytes:
                raise _TooLarge
        return True


def require_picklable(value: Any, what: str) -> None:
    """Pickle the whole `value` without keeping the pickle. Large buffers are not copied."""
    dump(value, ByteCounter(), what, lambda buffer: False)


class ByteCounter:
    """A file that only counts the bytes that are written to it."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        """Count a part of the pickle."""
        part_bytes = memoryview(data).nbytes
        self.size_bytes += part_bytes
        return part_bytes


# -- for a later process -----------------------------------------------------------------------------------------------
def dumps_for_later(value: Any, what: str, refer: Callable[[Any], Any] | None = None) -> bytes:
    """Pickle `value` for a process that may run another version of the user's script.

    Classes of the main module are pickled by value, as with `dumps`. If `refer` returns a reference for an object, that
    is pickled in its place, for `loads_referring`. But the loading process prefers the class of its own main module:
    `config["colour"] is Colour.RED` must hold after a resume.
    """
    buffer = io.BytesIO()
    kind = _later_pickler()
    if refer is not None:  # C code calls the method of the class; without the method, pickling is faster
        kind = type("ReferringPickler", (kind,), {"persistent_id": staticmethod(refer)})
    try:
        kind(buffer, protocol=PROTOCOL).dump(value)
    except Exception as error:
        raise unpicklable_error(value, what, error) from error
    return buffer.getvalue()


def loads_referring(data: bytes, resolve: Callable[[Any], Any]) -> Any:
    """Unpickle the bytes of `dumps_for_later`. May run code of the program that wrote them."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, reference: Any) -> Any:
            return resolve(reference)

    return Unpickler(io.BytesIO(data)).load()


@functools.cache
def _later_pickler() -> Any:
    """The pickler class of `dumps_for_later`, made late, because cloudpickle is slow to import."""

    class LaterPickler(by_value_pickler()):  # type: ignore[misc]  # its base has no type information
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, type) and value.__module__ == "__main__" and _of_main(value.__qualname__) is value:
                return _class_of_main, (value.__qualname__, dumps_by_value(value))
            return super().reducer_override(value)

    return LaterPickler


def _of_main(qualified_name: str) -> Any:
    """The object with this name in the main module, or None."""
    try:
        return functools.reduce(getattr, qualified_name.split("."), sys.modules["__main__"])
    except AttributeError:
        return None


def _class_of_main(qualified_name: str, copy: bytes) -> Any:
    found = _of_main(qualified_name)
    return found if isinstance(found, type) else pickle.loads(copy)


# -- the unpicklable part ----------------------------------------------------------------------------------------------
def unpicklable_error(value: Any, what: str, error: BaseException) -> TypeError:
    """The error to raise after pickling `value` has failed with `error`."""
    path = find_unpicklable(value) or f"it is {_describe(value)}"
    return TypeError(
        f"{what} cannot be pickled: {path} ({type(error).__name__}: {error}); "
        "make it inside the trainable instead, or leave it out"
    )


def find_unpicklable(value: Any) -> str | None:
    """Find the part of `value` that cannot be pickled. May take seconds for large objects.

    Returns:
        The path to it, such as `closure variable 'model' -> attribute 'lock' is a _thread.lock`; None if there is none.
    """
    search = _CulpritSearch()
    if search.can_pickle(value):
        return None
    steps, culprit = search.descend(value, 0)
    return f"{' -> '.join(steps) or 'it'} is {_describe(culprit)}"


def unpicklable_variables(function: types.FunctionType) -> dict[str, str]:
    """The global and closure variables of `function` that cannot be pickled, each with its path as in
    `find_unpicklable`. May take seconds for large objects.
    """
    variables = {**dict(_global_variables(function)), **dict(_closure_variables(function))}
    found = {name: find_unpicklable(value) for name, value in variables.items()}
    return {name: path for name, path in found.items() if path is not None}


class _CulpritSearch:
    """One search for the unpicklable part. It remembers visited objects and counts attempts."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}  # keeps the objects alive, because an id is unique only among living objects
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
        """The steps from `value` to its innermost part that cannot be pickled, and that part."""
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
    """The parts of `value` that pickling would pickle, each with a description."""
    if isinstance(value, types.FunctionType):
        yield from _function_parts(value)
    elif isinstance(value, types.MethodType):
        yield "the object it is bound to", value.__self__
        yield f"function {value.__func__.__name__!r}", value.__func__
    elif isinstance(value, functools.partial):
        yield "the partial's function", value.func
        for name, part in (*enumerate(value.args), *value.keywords.items()):
            yield f"the partial's argument {name!r}", part
    elif isinstance(value, type):
        for name, part in list(vars(value).items()):
            if name not in ("__dict__", "__weakref__", "__doc__", "__module__"):
                yield f"class attribute {name!r}", part
    elif isinstance(value, dict):
        for key, part in list(value.items()):
            yield f"item {key!r:.80}", part
    elif isinstance(value, (list, tuple, set, frozenset)):
        for position, part in enumerate(value):
            yield f"item {position}", part
    elif type(value).__module__.partition(".")[0] not in _LIBRARY:
        for name, part in list(getattr(value, "__dict__", {}).items()):
            yield f"attribute {name!r}", part
        if type(value).__module__ in _MAIN or "<locals>" in type(value).__qualname__:
            yield "attribute '__class__'", type(value)


def _function_parts(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, part in _closure_variables(function):
        yield f"closure variable {name!r}", part
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield "a default argument", default
    for name, part in _global_variables(function):
        yield f"global {name!r}", part


def _closure_variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # an empty cell


def _global_variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _global_names(code: types.CodeType) -> Iterator[str]:
    """The names that `code`, and functions defined inside it, may look up as globals."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _describe(value: Any) -> str:
    kind = type(value)
    if kind.__module__ == "builtins":
        name = kind.__qualname__
    else:
        name = f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


# -- loading -----------------------------------------------------------------------------------------------------------
def load(file: IO[bytes], buffers: Iterable[memoryview] | None = None) -> Any:
    """Unpickle a pickle of `dumps` or cloudpickle. May run user code and import modules.

    Classes and functions that came by value from the driver's `__main__` are entered into that of this process, where
    `pickle.dumps(Net())` in a trial looks up `Net`. `buffers` are the large buffers that are not in the pickle.
    """
    return _EnteringUnpickler(file, buffers=buffers).load()


def load_value(data: bytes) -> Any:
    """In a worker, unpickle a value that the driver has pickled. May run user code and import modules.

    Unlike `load`, it overwrites existing names in `__main__`: the newest pickle has the present class.
    """
    unpickler = _EnteringUnpickler(io.BytesIO(data))
    unpickler.overwrites = True
    return unpickler.load()


class _EnteringUnpickler(pickle.Unpickler):
    """Enters what was pickled by value into the `__main__` of this process, and says that user code is loaded.

    cloudpickle first creates an empty class or function, and then fills it with one of its state setters.
    """

    overwrites = False  # existing objects of the same names

    def load(self) -> Any:
        with loads_code():
            return super().load()

    def find_class(self, module: str, name: str) -> Any:
        try:
            found = super().find_class(module, name)
        except AttributeError as error:
            if module not in _MAIN:
                raise
            raise AttributeError(
                f"{name} of the main module does not exist in this process, and objects like it travel by name only: "
                f"move it into a module of its own, and import it from there"
            ) from error
        if name in ("_class_setstate", "_function_setstate") and module.partition(".")[0] == "cloudpickle":
            return functools.partial(_fill_and_enter, found, self.overwrites)
        return found


def _fill_and_enter(fill: Callable[[Any, Any], Any], overwrites: bool, made: Any, state: Any) -> Any:
    result = fill(made, state)
    name = getattr(made, "__qualname__", "")
    if getattr(made, "__module__", None) == "__main__" and name.isidentifier():  # not defined inside a function
        names = vars(sys.modules["__main__"])
        if overwrites or name not in names:
            names[name] = made
    return result


# -- in a worker -------------------------------------------------------------------------------------------------------
class _WaryPickler(pickle.Pickler):
    """Notes whether the value has anything but numbers, strings, built-in containers and our own objects."""

    is_plain = True

    def reducer_override(self, value: Any) -> Any:
        """Called for each object that has no built-in type; ours are plain."""
        kind = value if isinstance(value, type) else type(value)
        if kind.__module__.partition(".")[0] != _PACKAGE:
            self.is_plain = False
        return NotImplemented


def dump_value(value: Any) -> bytes:
    """In a worker, pickle a value for the driver, by reference if possible, because the driver has the main module.

    A value that is not plain is loaded at once as a test: if that fails, or crashes the process, it happens here and
    not in the driver.
    """
    buffer = io.BytesIO()
    pickler = _WaryPickler(buffer, pickle.HIGHEST_PROTOCOL)
    try:
        try:
            pickler.dump(value)
            data = buffer.getvalue()
        except Exception:
            data = dumps_by_value(value)
        if not pickler.is_plain:
            pickle.loads(data)
        return data
    except MemoryError as error:
        raise MemoryError("not enough memory to send this to the driver") from error


def dump_answer(value: Any) -> bytes:
    """Like `dump_value`, for the answer to a call. TypeError: it cannot be sent to the driver."""
    try:
        return dump_value(value)
    except MemoryError:
        raise
    except Exception as error:
        kind = type(value).__qualname__
        reason = f"{type(error).__name__}: {error}"
        raise TypeError(f"a value of type {kind} cannot be sent to the driver ({reason})") from error
