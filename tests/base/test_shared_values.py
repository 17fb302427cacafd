"""Values that are stored once for all trials."""

import os
import pickle
from hashlib import sha256
from pathlib import Path

import pytest
from kit import Block

from minitune.base import files
from minitune.base.shared_values import (
    ObjectRef,
    ObjectStore,
    Ref,
    ValueDirectory,
    check_object_name,
    hold,
    let_go,
    noting,
    read_value,
    store,
)
from minitune.error import ObjectLostError

MB = 1 << 20


# -- values in files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[], [10], [3 * MB], [70_000, 5, 2 * MB + 1, 2 * MB], [100_000]])
def test_values_come_back_whole(sizes, tmp_path):
    directory = ValueDirectory(str(tmp_path / "values"), "have more space")
    blocks = [os.urandom(size) for size in sizes]
    refs = [directory.put({"blocks": [Block(block) for block in blocks], "n": sizes}) for _ in range(2)]
    for ref in refs:
        value, is_mapped = read_value(ref.path)
        assert value["n"] == sizes
        assert [bytes(block.view) for block in value["blocks"]] == blocks
        assert is_mapped == (sum(sizes) > MB)
    directory.close()
    directory.close()
    assert not (tmp_path / "values").exists()
    assert [bytes(block.view) for block in value["blocks"]] == blocks, "a value that was loaded stays"


def test_a_buffer_stays_read_only_or_is_private(tmp_path):
    path = str(tmp_path / "value")
    store([Block(bytes(2 * MB)), Block(bytearray(2 * MB))], path, "the value")
    fixed, private = read_value(path)[0]
    assert fixed.view.readonly
    private.view[:5] = b"mine!"
    assert bytes(read_value(path)[0][1].view[:5]) == bytes(5)


def test_a_value_that_cannot_be_stored_leaves_nothing(tmp_path):
    values = ValueDirectory(str(tmp_path / "values"), "have more space")
    with pytest.raises(TypeError, match="the data cannot be pickled"):
        values.put([Block(bytes(MB)), (x for x in ())], "the data")
    assert os.listdir(tmp_path / "values") == []
    (tmp_path / "file").touch()
    full = ValueDirectory(str(tmp_path / "file"), "have more space")
    with pytest.raises(OSError, match=r"the data cannot be stored in .*file \(Not a directory\); have more space"):
        full.put(1, "the data")


def test_a_forked_child_does_not_remove_the_values_of_its_parent(tmp_path):
    values = ValueDirectory(str(tmp_path / "values"), "have more space")
    ref = values.put("x")
    child = os.fork()
    if child == 0:
        values.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert read_value(ref.path)[0] == "x"
    values.close()


# -- handles -----------------------------------------------------------------------------------------------------------


def test_a_value_of_the_user_is_new_at_each_call_and_others_are_shared(tmp_path):
    path = str(tmp_path / "value")
    store([1, 2], path, "the value")
    ref = Ref(path)
    assert ref.get() is ref.get()
    users = ObjectRef(path, 3)
    assert users.get() == [1, 2]
    assert users.get() is not users.get()
    assert (users.__name__, repr(users)) == ("object_3", "ObjectRef(object_3)")
    assert pickle.loads(pickle.dumps([users, ref])) == [users, ref]


def test_a_mapped_value_is_loaded_again_and_one_that_was_loaded_in_advance_once(tmp_path):
    path = str(tmp_path / "value")
    store(Block(bytearray(2 * MB)), path, "the value")
    ref = Ref(path)
    assert ref.get() is not ref.get()
    ref.preload()
    os.unlink(path)
    assert len(ref.get().view) == 2 * MB
    with pytest.raises(ObjectLostError):
        ref.get()


def test_a_value_that_has_gone_says_whose_it_was(tmp_path):
    path = str(tmp_path / "gone")
    for ref, text in (
        (Ref(path), "that was stored for the trials of a run is gone"),
        (ObjectRef(path, 1), r"the value of ObjectRef\(object_1\) is gone: it lives until shutdown\(\)"),
    ):
        with pytest.raises(ObjectLostError, match=text):
            ref.get()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 1_000])
def test_a_file_that_is_no_value_any_more_is_refused(tmp_path, content):
    path = tmp_path / "value"
    path.write_bytes(content)
    with pytest.raises(FileNotFoundError, match="no longer holds the value"):
        read_value(str(path))


def test_an_object_is_held_until_it_is_let_go():
    data = object()
    held = hold(data)
    copy = pickle.loads(pickle.dumps(held))
    assert copy.get() is held.get() is data
    let_go(held)
    with pytest.raises(ObjectLostError, match="no longer in this process"):
        copy.get()


def test_the_files_of_pickled_references_are_noted(tmp_path):
    ref = Ref(str(tmp_path / "value"))
    with noting() as outer:
        pickle.dumps([ref, hold("value")])
        with noting() as inner:
            pickle.dumps(ref)
        pickle.dumps(ref)
    pickle.dumps(ref)
    assert (outer, inner) == ([ref.path, ref.path], [ref.path])


# -- the store of a run ------------------------------------------------------------------------------------------------


def path_of(objects, stored):
    return Path(objects.path_of(stored.name))


def test_equal_values_are_stored_once_under_the_checksum_of_their_file(tmp_path):
    objects = ObjectStore(str(tmp_path / "objects"))
    one = objects.put(pickle.dumps(list(range(100))), "[0, ...]")
    two = objects.put(pickle.dumps(list(range(100))), "[0, ...]")
    other = objects.put(pickle.dumps(list(range(101))), "[0, ...]")
    three = ObjectStore(objects.directory).put(pickle.dumps(list(range(100))), "[0, ...]")
    assert one == two == three != other
    assert sorted(os.listdir(objects.directory)) == sorted(f"{stored.name}.pkl" for stored in (one, other))
    content = path_of(objects, one).read_bytes()
    assert (sha256(content).hexdigest(), len(content), repr(one)) == (one.name, one.size_bytes, "[0, ...]")
    assert path_of(objects, one).stat().st_mode & 0o777 == 0o600
    assert pickle.loads(pickle.dumps(one)) == one, "it is data"
    assert objects.load(one) == list(range(100))
    assert objects.load(one) is not objects.load(one)
    assert objects.load(one, is_shared=True) is objects.load(one)


@pytest.mark.parametrize("spoil", ["cut", "changed", "removed"])
def test_a_file_that_is_not_whole_is_written_again(tmp_path, spoil):
    objects = ObjectStore(str(tmp_path / "objects"))
    stored = objects.put(pickle.dumps("x" * 100), "x...")
    path = path_of(objects, stored)
    content = path.read_bytes()
    if spoil == "removed":
        path.unlink()
    else:
        path.write_bytes(content[:-1] if spoil == "cut" else content[:50] + b"yy" + content[52:])
    with pytest.raises(ObjectLostError, match="cannot be read" if spoil == "removed" else "is damaged"):
        objects.load(stored)
    assert ObjectStore(objects.directory).put(pickle.dumps("x" * 100), "x...") == stored
    assert path.read_bytes() == content
    assert objects.load(stored) == "x" * 100


@pytest.mark.parametrize("same_disk", [True, False])
def test_a_run_has_its_own_copy_of_a_value_of_put(same_disk, tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(18, "Invalid cross-device link")

    if not same_disk:
        monkeypatch.setattr(os, "link", refuse)
    objects = ObjectStore(str(tmp_path / "run" / "objects"))
    (tmp_path / "run").mkdir()
    values = ValueDirectory(str(tmp_path / "values"), "elsewhere")
    ref = values.put("x" * 100)
    [stored] = {objects.take_in(ref.path), objects.take_in(ref.path)}
    values.close()
    own = objects.path_of(stored.name)
    assert os.listdir(objects.directory) == [os.path.basename(own)]
    assert os.stat(own).st_mode & 0o777 == 0o600
    objects.check(stored.name)
    assert read_value(own)[0] == "x" * 100
    assert objects.take_in(own).name == stored.name
    assert objects.take_in(ref.path).name == stored.name
    assert objects.take_in(str(tmp_path / "gone")) is None


def test_each_stored_file_is_synced_once_and_then_its_name(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files, "sync_descriptor", lambda found: synced.append(os.readlink(f"/proc/self/fd/{found}")))
    monkeypatch.setattr(files, "sync_directory", synced.append)
    objects = ObjectStore(str(tmp_path / "objects"))
    objects.sync()
    paths = [str(path_of(objects, objects.put(pickle.dumps(value), value))) for value in ("one", "two", "one")]
    assert synced == []
    objects.sync()
    objects.sync()
    assert synced == [*paths[:2], objects.directory]
    synced.clear()
    later = ObjectStore(objects.directory)  # the earlier driver may have been killed before its sync
    later.put(pickle.dumps("two"), "two")
    later.sync()
    assert synced == [paths[1], objects.directory]


def test_only_a_checksum_names_a_file():
    assert check_object_name("0a" * 32) == "0a" * 32
    for name in ("../" + "0" * 61, "0" * 63, "0A" * 32, "0" * 65, "", None):
        with pytest.raises(ValueError, match="must be a sha256 in hex"):
            check_object_name(name)
