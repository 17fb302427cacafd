"""Values that are stored once for all trials."""

import hashlib
import os
import pickle
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from minitune.base import files
from minitune.base.shared_values import (
    ObjectRef,
    ObjectStore,
    ValueFile,
    check_object_name,
    digest_of,
    hold,
    noting,
    read_value,
    store,
)
from minitune.error import ObjectLostError


@pytest.mark.parametrize(("memory_bytes", "places"), [(0, 1), (3 << 20, 2), (9 << 20, 1)])
def test_large_values_are_in_memory_as_far_as_it_is_enough_each_at_its_place(memory_bytes, places, tmp_path):
    with closing(ValueFile(str(tmp_path / "values"), "elsewhere", memory_bytes)) as values:
        refs = [values.put(pickle.PickleBuffer(bytes([number]) * (2 << 20))) for number in range(3)]
        assert [bytes(ref.get()[:1]) for ref in refs] == [b"\0", b"\1", b"\2"]
        if sys.platform == "linux":  # elsewhere all of them are on the disk
            assert len({ref.path for ref in refs}) == places


def test_a_value_that_cannot_be_stored_leaves_nothing_in_the_store(tmp_path):
    store = ObjectStore(str(tmp_path / "objects"))
    with pytest.raises(TypeError, match="lock"):
        store.put([threading.Lock()], "[lock]", 10)
    assert os.listdir(tmp_path / "objects") == []


# -- handles -----------------------------------------------------------------------------------------------------------


def test_a_value_of_the_user_is_new_at_each_call_and_others_are_shared(tmp_path):
    ref = store([1, 2], tmp_path / "value")
    assert ref.get() is ref.get()
    users = ObjectRef(ref.path, ref.offset, ref.token, number=3)
    assert users.get() == [1, 2]
    assert users.get() is not users.get()
    assert (users.__name__, repr(users)) == ("object_3", "ObjectRef(object_3)")
    again = pickle.loads(pickle.dumps(users))
    assert (again.number, again.token, again.path) == (3, ref.token, ref.path)


def test_a_value_that_has_gone_says_whose_it_was(tmp_path):
    path = str(tmp_path / "gone")
    for ref, text in (
        (ObjectRef(path), "that was stored for the trials of a run is gone"),
        (ObjectRef(path, number=1), r"the value of ObjectRef\(object_1\) is gone: it lives until shutdown\(\)"),
    ):
        with pytest.raises(ObjectLostError, match=text):
            ref.get()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 1_000])
def test_a_file_that_is_no_value_any_more_is_refused(tmp_path, content):
    ref = store("value", tmp_path / "value")
    (tmp_path / "value").write_bytes(content)
    with pytest.raises(FileNotFoundError, match="no longer holds the value"):
        read_value(ref)
    (tmp_path / "value").unlink()
    os.mkfifo(tmp_path / "value")
    with pytest.raises(FileNotFoundError, match="is no longer the file in which the value was stored"):
        read_value(ref)


def test_an_object_is_held_as_long_as_its_handle():
    class Data:
        pass

    first, second = Data(), Data()
    refs = [hold(first), hold(second)]
    assert [ref.get() for ref in refs] == [first, second]
    copy = pickle.loads(pickle.dumps(refs[0]))
    assert copy.get() is first
    data = pickle.dumps(refs[1])
    del refs[1]
    with pytest.raises(ObjectLostError, match="no longer in this process"):
        pickle.loads(data).get()
    assert refs[0].get() is first


def test_pickled_references_to_files_are_noted(tmp_path):
    ref = store("value", tmp_path / "value")
    held = hold("value")
    with noting() as outer:
        pickle.dumps([ref, held])
        with noting() as inner:
            pickle.dumps(ref)
        pickle.dumps(ref)
    pickle.dumps(ref)
    assert (outer, inner) == ([ref, ref], [ref])


# -- the store of a run ------------------------------------------------------------------------------------------------


def test_equal_values_are_stored_once_under_their_checksum(tmp_path):
    objects = ObjectStore(str(tmp_path / "objects"))
    one = objects.put(list(range(100)), "[0, ...]", 500)
    two = objects.put(list(range(100)), "[0, ...]", 500)
    other = objects.put(list(range(101)), "[0, ...]", 500)
    three = ObjectStore(objects.directory).put(list(range(100)), "[0, ...]", 7)
    assert one == two == three != other
    assert sorted(os.listdir(objects.directory)) == sorted(f"{ref.token}.pkl" for ref in (one, other))
    assert digest_of(one.path, hashlib.sha256()) == one.token
    assert (os.path.getsize(one.path), repr(one)) == (one.size_bytes, "[0, ...]")
    assert os.stat(one.path).st_mode & 0o777 == 0o600
    assert pickle.loads(pickle.dumps(one)) == list(range(100)), "in a pickle it is its value"
    assert objects.load(one.token) == list(range(100))
    assert objects.load(one.token) is not objects.load(one.token)
    assert objects.load(one.token, keep=True) is objects.load(one.token)


@pytest.mark.parametrize("spoil", ["cut", "changed", "removed"])
def test_a_file_that_is_not_whole_is_written_again(tmp_path, spoil):
    objects = ObjectStore(str(tmp_path / "objects"))
    ref = objects.put("x" * 100, "x...", 100)
    content = Path(ref.path).read_bytes()
    if spoil == "removed":
        os.unlink(ref.path)
    else:
        Path(ref.path).write_bytes(content[:-1] if spoil == "cut" else content[:-2] + b"yy")
    with pytest.raises(ObjectLostError, match="cannot be read" if spoil == "removed" else "is damaged"):
        objects.load(ref.token)
    assert ObjectStore(objects.directory).put("x" * 100, "x...", 100) == ref
    assert Path(ref.path).read_bytes()[40:] == content[40:]
    assert objects.load(ref.token) == "x" * 100


def test_each_stored_file_is_synced_once_and_then_its_name(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files, "sync_descriptor", lambda found: synced.append(os.readlink(f"/proc/self/fd/{found}")))
    monkeypatch.setattr(files, "sync_directory", synced.append)
    objects = ObjectStore(str(tmp_path / "objects"))
    objects.sync()
    refs = [objects.put(value, value, 1) for value in ("one", "two", "one")]
    assert synced == []
    objects.sync()
    objects.sync()
    assert synced == [refs[0].path, refs[1].path, objects.directory]
    synced.clear()
    later = ObjectStore(objects.directory)  # the earlier driver may have been killed before its sync
    later.put("two", "two", 1)
    later.sync()
    assert synced == [refs[1].path, objects.directory]


def test_one_store_reads_a_directory(tmp_path):
    reader = ObjectStore.to_read(str(tmp_path))
    assert ObjectStore.to_read(str(tmp_path)) is reader
    assert ObjectStore.to_read(str(tmp_path / "other")) is not reader


def test_only_a_checksum_names_a_file():
    assert check_object_name("0a" * 32) == "0a" * 32
    for name in ("../" + "0" * 61, "0" * 63, "0A" * 32, "0" * 65, "", None):
        with pytest.raises(ValueError, match="must be a sha256 in hex"):
            check_object_name(name)


def test_a_stored_value_tells_whether_it_has_code(tmp_path):
    objects = ObjectStore(str(tmp_path / "objects"))
    plain, code = (objects.put(value, "value", 1) for value in ([1], [lambda x: x]))
    assert [objects.holds_code(ref.token) for ref in (plain, code)] == [False, True]
