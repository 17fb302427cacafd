"""Large values are stored once, mapped by their users, private to each of them, and removed with their owner."""

import os
import pickle
import signal
import sys
from pathlib import Path

import pytest
from kit import fit

import minitune as tune
from minitune.base.shared_values import ObjectRef, ValueFile, read_value

SCRIPTS = Path(__file__).with_name("scripts")

MB = 1 << 20


class Block:
    """A large buffer that pickles itself out of band, as an array of numpy does."""

    def __init__(self, content):
        self.view = memoryview(content)

    def __reduce_ex__(self, protocol):
        return Block, (pickle.PickleBuffer(self.view),)

    def is_mapped(self):
        return type(self.view.obj).__name__ == "mmap"


def make_file(tmp_path, memory_bytes=0):
    return ValueFile(str(tmp_path / "values"), "have more space", memory_bytes=memory_bytes)


@pytest.fixture(params=["disk", "memory"])
def file(request, tmp_path):
    made = make_file(tmp_path, memory_bytes=1 << 30 if request.param == "memory" else 0)
    yield made
    made.close()


def is_in_memory(location):
    """Whether a stored value is in anonymous memory, and not in a file on disk."""
    return os.readlink(location.path).startswith("/memfd:")


in_memory = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="anonymous memory is of Linux")


def fit_in_turn(trainable, storage, **options):
    """Three trials with worker processes, one after the other."""
    space = {"x": tune.grid_search([1, 2, 3]), **options.pop("space", {})}
    settings = {"executor": "local", "max_concurrent_trials": 1, "name": None, "storage_path": storage, **options}
    return fit(trainable, space, **settings)


@pytest.mark.parametrize("sizes", [[], [10], [3 * MB], [70_000, 5, 2 * MB + 1, 2 * MB], [100_000]])
def test_values_come_back_whole(file, sizes):
    locations = [file.put({"blocks": [Block(os.urandom(size)) for size in sizes], "n": sizes}) for _ in range(3)]
    for location in locations:
        value, is_mapped = read_value(location)
        assert value["n"] == [len(block.view) for block in value["blocks"]] == sizes
        assert is_mapped == (sum(sizes) > MB)
    [first, again, other] = [
        read_value(location)[0]["blocks"] for location in (locations[0], locations[0], locations[1])
    ]
    assert [block.view for block in first] == [block.view for block in again]
    assert not sizes or [block.view for block in first] != [block.view for block in other]


def test_a_buffer_stays_read_only_or_is_private(file):
    location = file.put([Block(bytes(2 * MB)), Block(bytearray(2 * MB))])
    fixed, private = read_value(location)[0]
    assert fixed.view.readonly
    private.view[:5] = b"mine!"
    assert bytes(read_value(location)[0][1].view[:5]) == bytes(5)


def test_a_file_that_cannot_be_mapped_is_read(file, monkeypatch):
    location = file.put(Block(b"x" * 3 * MB))

    def refuse(*args, **kwargs):
        raise OSError(19, "No such device")

    monkeypatch.setattr("mmap.mmap", refuse)
    assert bytes(read_value(location)[0].view) == b"x" * 3 * MB


def test_a_value_that_cannot_be_stored_leaves_the_others(tmp_path):
    import resource

    file = make_file(tmp_path)
    first = file.put("first")
    with pytest.raises(TypeError, match="the data cannot be pickled"):
        file.put([Block(bytes(MB)), (x for x in ())], "the data")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MB, limits[1]))
    try:
        with pytest.raises(OSError, match=r"the data cannot be stored in .*values \(File too large\); have more space"):
            file.put(Block(bytes(3 * MB)), "the data")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert os.stat(first.path).st_size < MB, "the parts that were written are cut off"
    assert read_value(file.put("second"))[0] == "second"
    assert read_value(first)[0] == "first"
    file.close()


@in_memory
def test_values_stay_in_memory_while_there_is_enough(tmp_path):
    file = make_file(tmp_path, memory_bytes=4 * MB)
    values = [Block(b"a" * 3 * MB), Block(b"b" * 3 * MB), b"c" * 3 * MB, Block(b"d" * 1000)]
    locations = [file.put(value) for value in values]
    assert [is_in_memory(location) for location in locations] == [True, False, False, True]
    assert os.stat(locations[0].path).st_size < 4 * MB, "the parts of a larger value are cut off"
    found = [read_value(location)[0] for location in locations]
    first_bytes = [bytes(value.view[:1]) if isinstance(value, Block) else value[:1] for value in found]
    assert first_bytes == [b"a", b"b", b"c", b"d"]
    file.close()
    for location in locations:
        with pytest.raises(FileNotFoundError):
            read_value(location)


@in_memory
@pytest.mark.parametrize(("free_bytes", "is_memory"), [(16 * MB, True), (4 * MB, False)])
@pytest.mark.parametrize("how", ["bound", "put"])
def test_a_run_takes_a_quarter_of_the_free_memory_for_values(tmp_path, monkeypatch, how, free_bytes, is_memory):
    monkeypatch.setattr("minitune.executors.devices.free_memory_bytes", lambda: free_bytes)

    def trainable(config, data=None):
        block = tune.get(config["data"]) if data is None else data
        assert block.is_mapped()
        with open("/proc/self/maps") as maps:
            tune.report({"in_memory": "/memfd:minitune-values" in maps.read()})

    block = Block(bytes(2 * MB))
    try:
        space = {"data": tune.put(block)} if how == "put" else {}
        bound = tune.with_parameters(trainable, data=block) if how == "bound" else trainable
        grid = fit_in_turn(bound, tmp_path, space=space)
    finally:
        tune.shutdown()
    assert [result.error for result in grid] == [None] * 3
    assert [result.metrics["in_memory"] for result in grid] == [is_memory] * 3


def test_values_go_with_their_file(file, tmp_path):
    location = file.put(Block(b"x" * 2 * MB))
    block, _ = read_value(location)
    file.close()
    file.close()
    with pytest.raises(FileNotFoundError):
        read_value(location)
    assert list(tmp_path.iterdir()) == []
    assert bytes(block.view[:3]) == b"xxx", "a value that was loaded stays"


def test_a_file_with_a_name_where_one_without_cannot_be_reached(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    file = ValueFile(str(tmp_path / "values"), "have more space")
    location = file.put(Block(b"x" * 2 * MB))
    assert Path(location.path).parent == tmp_path / "values"
    child = os.fork()
    if child == 0:
        file.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert bytes(read_value(location)[0].view[:3]) == b"xxx", "a forked child does not remove its parent's file"
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_means_another_file_by_now_is_refused(tmp_path):
    old = ValueFile(str(tmp_path / "values"), "have more space")
    location = old.put("old")
    old.close()
    new = ValueFile(str(tmp_path / "values"), "have more space")
    assert new.put("new").offset == location.offset
    with pytest.raises(FileNotFoundError):
        read_value(location)
    new.close()
    reader, writer = os.pipe()
    with open(reader), open(writer, "w"), pytest.raises(FileNotFoundError, match="is no longer the file"):
        read_value(ObjectRef(f"/dev/fd/{reader}"))


@pytest.mark.parametrize(("how", "reuse_actors"), [("bound", True), ("put", False), ("closure", False)])
def test_write_to_a_shared_value_is_private(tmp_path, how, reuse_actors):
    data = Block(bytearray(b"a" * 2 * MB))

    def bound(config, data=None):
        mine = tune.get(config["data"]) if data is None else data
        assert mine.is_mapped()
        seen = bytes(mine.view[:1])
        mine.view[: len(mine.view)] = b"b" * len(mine.view)
        tune.report({"seen": seen, "pid": os.getpid()})

    def closure(config):
        bound(config, data)

    trainable = {"bound": tune.with_parameters(bound, data=data), "put": bound, "closure": closure}[how]
    space = {"data": tune.put(data)} if how == "put" else {}
    try:
        grid = fit_in_turn(trainable, tmp_path, space=space, reuse_actors=reuse_actors)
    finally:
        tune.shutdown()
    assert [result.error for result in grid] == [None] * 3
    assert [result.metrics["seen"] for result in grid] == [b"a"] * 3
    assert bytes(data.view[:1]) == b"a"
    assert [path.name for path in tmp_path.glob("*/*") if path.name.startswith(("shared", "values"))] == []


def test_the_driver_holds_one_copy_and_a_trial_none(script):
    """Of a buffer of 64 MB. The test measures the memory that belongs to no file."""
    source = SCRIPTS / "one_copy.py"
    done = script.run_command([sys.executable, str(script.write(source))])
    assert done.returncode == 0, done.stderr
    driver_mb, *trials_mb = map(int, done.stdout.split())
    assert driver_mb < 40, "beside the modules that a run loads there is no second copy"
    assert max(trials_mb) < 32


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a file without a name cannot be reached by others")
def test_nothing_is_left_of_a_killed_driver(script, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    driver = script.start(SCRIPTS / "killed_driver.py", TMPDIR=str(temporary))
    stdout, stderr = script.finish(driver)
    assert (driver.returncode, stdout) == (-signal.SIGKILL, "reported\n"), stderr
    assert list(temporary.iterdir()) == []
    sizes = [path.stat().st_size for path in script.storage.rglob("*") if path.is_file()]
    assert 0 < sum(sizes) < 1_000_000
