"""Errors of pickling name the culprit; shared values are loaded once."""

import functools
import io
import pickle
import socket
import sys
import threading
import types
from pathlib import Path

import cloudpickle
import pytest

from minitune.base.pickling import (
    dump_answer,
    dump_value,
    dumps,
    dumps_for_later,
    dumps_small,
    find_unpicklable,
    load,
    load_value,
    require_picklable,
)
from minitune.base.shared_values import Ref, store

SCRIPTS = Path(__file__).with_name("scripts")

BY_REFERENCE = True  # see `conftest`
LOCK = threading.Lock()


class Holder:
    def __init__(self, lock=None):
        self.lock = lock or threading.Lock()

    def method(self): ...


def _generator():
    yield 1


def closure():
    model = Holder()
    return lambda config: model


def nested_closure():
    lock = threading.Lock()

    def outer():
        def inner():
            return lock

        return inner

    return lambda: outer()


def recursive():
    lock = threading.Lock()

    def again(n):
        return again(n - 1) if n else lock

    return again


def cyclic():
    one = {}
    one["self"] = one
    one["bad"] = LOCK
    return one


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: LOCK, "it is a _thread.lock"),
        (_generator, "it is a generator"),
        (closure, "closure variable 'model' -> attribute 'lock' is a _thread.lock"),
        (nested_closure, "closure variable 'outer' -> closure variable 'lock' is a _thread.lock"),
        (recursive, "closure variable 'lock' is a _thread.lock"),
        (lambda: Holder().method, "the object it is bound to -> attribute 'lock' is a _thread.lock"),
        (lambda: functools.partial(print, 1, key=LOCK), "the partial's argument 'key' is a _thread.lock"),
        (lambda: functools.partial(print, LOCK), "the partial's argument 0 is a _thread.lock"),
        (lambda: {"a": {"b": LOCK}}, "item 'a' -> item 'b' is a _thread.lock"),
        (lambda: [1, (2, LOCK)], "item 1 -> item 1 is a _thread.lock"),
        (cyclic, "item 'bad' is a _thread.lock"),
        (lambda: [threading.Thread()], "item 0 is a threading.Thread"),
        (lambda: lambda config, lock=LOCK: 1, "a default argument is a _thread.lock"),
        (lambda: lambda config, *, lock=LOCK: 1, "a default argument is a _thread.lock"),
    ],
)
def test_the_path_to_the_culprit_is_named(make, path):
    value = make()
    assert find_unpicklable(value) == path
    with pytest.raises(TypeError) as caught:
        dumps(value, "the trainable")
    assert str(caught.value).startswith(f"the trainable cannot be pickled: {path} (")


def test_sockets_and_files_are_named(tmp_path):
    with socket.socket() as sock, open(tmp_path / "file", "w") as file:
        assert find_unpicklable({"s": sock}) == "item 's' is a socket.socket"
        assert find_unpicklable({"f": file}) == "item 'f' is a _io.TextIOWrapper"


def test_globals_of_a_script_are_named(script):
    path = "global 'helper' -> global 'Net' -> class attribute 'step' -> global 'LOCK' is a _thread.lock"
    assert f"the trainable cannot be pickled: {path} (" in script.run(SCRIPTS / "pickles_a_lock.py")


def test_a_value_that_can_be_pickled_has_no_culprit():
    value = {"a": [1, closure], "f": lambda x: x + 1}
    assert find_unpicklable(value) is None
    assert pickle.loads(dumps(value, "it"))["f"](1) == 2


# -- in a worker -------------------------------------------------------------------------------------------------------


def of_main(name, **members):
    """A class as a script's main module defines one."""
    return type(name.rpartition(".")[2], (), {"__module__": "__main__", "__qualname__": name, **members})


def test_what_came_by_value_is_entered_into_the_main_module(monkeypatch):
    main = sys.modules["__main__"]
    kinds = {name: of_main(name, limit=3) for name in ("SettingOfATest", "f.<locals>.Inner")}
    data = dumps([kind() for kind in kinds.values()], "it")
    monkeypatch.setattr(main, "SettingOfATest", None, raising=False)
    monkeypatch.delattr(main, "SettingOfATest")
    assert [found.limit for found in load(io.BytesIO(data))] == [3, 3]
    assert main.SettingOfATest is kinds["SettingOfATest"]
    assert not hasattr(main, "Inner")
    other = main.SettingOfATest = of_main("SettingOfATest")
    load(io.BytesIO(data))
    assert main.SettingOfATest is other, "a name that exists stays in the driver"
    load_value(data)
    assert main.SettingOfATest is kinds["SettingOfATest"], "in a worker, the newest counts"


class Counting:
    """Counts how often it is loaded."""

    loads = 0

    def __setstate__(self, state):
        Counting.loads += 1


class Unloadable:
    def __reduce__(self):
        return int, ("no number",)


def test_a_value_for_the_driver_is_loaded_at_once_unless_it_is_plain():
    Counting.loads = 0
    counting = Counting()
    counting.state = 1
    assert type(pickle.loads(dump_value([counting]))[0]) is Counting
    assert Counting.loads == 2, "here and there"
    with pytest.raises(ValueError, match="no number"):
        dump_value({"a": Unloadable()})
    assert pickle.loads(dump_value({"a": [1, (2.5, None)], "b": Ref("/nowhere")}))["a"] == [1, (2.5, None)]


def test_an_answer_that_cannot_be_sent_names_its_type():
    assert pickle.loads(dump_answer([1])) == [1]
    with pytest.raises(TypeError, match=r"a value of type lock cannot be sent to the driver \(TypeError: "):
        dump_answer(LOCK)

    class NoMemory:
        def __reduce__(self):
            raise MemoryError

    with pytest.raises(MemoryError, match="not enough memory to send this to the driver"):
        dump_answer(NoMemory())


# -- shared values -----------------------------------------------------------------------------------------------------


class Block:
    """Hands out its content as a buffer, like an array."""

    def __init__(self, content):
        self.content = content

    def __reduce_ex__(self, protocol):
        return Block, (pickle.PickleBuffer(self.content),)


def test_a_pickle_is_small_only_if_its_buffers_are():
    for size_bytes in (100, 100_000):
        small = dumps_small(Block(b"." * size_bytes), "it", size_bytes + 1_000)
        assert small is not None
        assert pickle.loads(small).content == b"." * size_bytes
        assert dumps_small(Block(b"." * size_bytes), "it", size_bytes // 2) is None


@pytest.mark.parametrize("value", [list(range(1_000)), [lambda x: x]])
def test_a_pickle_may_have_exactly_as_many_bytes_as_the_limit(value):
    size_bytes = len(dumps(value, "it"))
    assert dumps_small(value, "it", size_bytes + 100) is not None
    assert dumps_small(value, "it", size_bytes - 100) is None
    plain = dumps_small([1, 2], "it", len(dumps([1, 2], "it")))
    assert plain is not None
    assert dumps_small([1, 2], "it", len(plain) - 1) is None


def test_a_value_may_be_tried_without_keeping_its_pickle():
    require_picklable([closure, Block(b"." * 1_000)], "the value")
    with pytest.raises(TypeError, match=r"the value cannot be pickled: item 1 is a _thread\.lock"):
        require_picklable([1, LOCK], "the value")


def test_an_object_that_changes_while_it_is_pickled_is_searched_nevertheless():
    class Caching:
        def __init__(self):
            self.before = Noting(self)
            self.lock = LOCK

    class Noting:
        def __init__(self, owner):
            self.owner = owner

        def __reduce__(self):
            self.owner.cached = 1
            return int, ()

    assert str(find_unpicklable(Caching())).endswith("attribute 'lock' is a _thread.lock")


def test_classes_of_a_script_that_multiprocessing_has_loaded_travel(monkeypatch):
    script = types.ModuleType("__mp_main__")
    exec("class Setting:\n    limit = 3", vars(script))
    monkeypatch.setitem(sys.modules, "__mp_main__", script)
    try:
        data = dumps(script.Setting(), "it")
    finally:
        cloudpickle.unregister_pickle_by_value(script)
    monkeypatch.delitem(sys.modules, "__mp_main__")
    assert pickle.loads(data).limit == 3


def test_a_value_kept_for_later_gets_the_class_that_the_script_has_then(monkeypatch):
    def define(**members):
        made = type("Setting", (), {"__module__": "__main__", "__qualname__": "Setting", **members})
        monkeypatch.setattr(sys.modules["__main__"], "Setting", made, raising=False)
        return made

    data = dumps_for_later(define()(), "it")
    newer = define(limit=3)
    assert type(pickle.loads(data)) is newer


def stored(value, directory):
    path = str(directory / "v.pkl")
    store(value, path, "the value")
    return Ref(path)


def test_all_threads_get_the_same_object(tmp_path):
    handle = stored(list(range(10_000)), tmp_path)
    gate, found = threading.Barrier(8), []

    def ask():
        gate.wait(10)
        found.append(handle.get())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len({id(value) for value in found}) == 1


def test_classes_of_a_script_are_found_by_name_in_a_worker(script, tmp_path):
    """A worker's main module is another one; pickle looks the script's classes up there."""
    worker = """
        import sys
        from minitune.base.shared_values import Ref
        print(Ref(sys.argv[1]).get()({}))
    """
    path = str(tmp_path / "train.pkl")
    script.run(SCRIPTS / "stores_a_function.py", path)
    assert script.run(worker, path) == "(5, True)\n"


def test_objects_of_the_main_module_stay(script, tmp_path):
    script.run(SCRIPTS / "keeps_its_objects.py", str(tmp_path / "v.pkl"))
