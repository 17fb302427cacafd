"""Starting workers: zygote, preload, scarce processes, hostile surroundings, and systems that have less."""

import errno
import importlib
import logging
import os
import random
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from actor_driver import PYTHONPATH, Driver, Group, zygote_pids
from actor_samples import Counter, Hosted
from kit import is_gone, scaled_s, wait_until

from minitune.actor import packets
from minitune.actor.launcher import start_method as chosen_start_method
from minitune.actor.messages import Exited, Started
from minitune.error import TuneError

SCRIPTS = Path(__file__).with_name("scripts")

BY_REFERENCE = True  # see `conftest`
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the zygote needs Linux")


def test_replies_come_before_the_loss_when_the_zygote_is_killed(zygote):
    pid = zygote.start("a")
    zygote.group.call("a", "add", 4)
    [zygote_pid] = zygote_pids()
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_SLEEPING, "the worker sleeps")
    os.kill(zygote_pid, signal.SIGKILL)
    wait_until(lambda: is_gone(pid), "the worker is dead")
    event = zygote.next("a")
    if not isinstance(event, Exited):
        assert event.value == 4
        event = zygote.ended("a")
    assert (event.kind, event.counts) == ("lost", False)


@pytest.mark.parametrize("lacks", ["a process", "a thread"])
def test_a_worker_that_cannot_be_forked_or_has_no_thread_is_not_the_trials_fault(zygote, lacks):
    """No limit holds for root, so the zygote's own call is made to fail, by way of a preload."""
    zygote.group.preload(partial(_break_fork, errno.EAGAIN) if lacks == "a process" else _break_threads)
    zygote.group.start_in("a", partial(Hosted, factory=Counter))
    event = zygote.ended("a")
    assert (event.kind, event.counts) == ("refused", False)
    assert {"a process": os.strerror(errno.EAGAIN), "a thread": "could not start a thread; limits are ulimit -u"}[
        lacks
    ] in event.cause
    zygote.start("b", preload=False)


def _break_threads():
    import _thread

    def refuse(*args):
        raise RuntimeError("can't start new thread")

    _thread.start_new_thread = refuse


def test_descriptors_that_do_not_arrive_at_the_zygote_are_not_waited_for(zygote, monkeypatch):
    """This happens if the zygote has no free descriptor, or if too many are on their way."""
    really_send = packets.send_packet

    def send(end, packet, descriptors=()):
        really_send(end, packet)

    monkeypatch.setattr("minitune.actor.packets.send_packet", send)
    zygote.group.start_in("a", partial(Hosted, factory=Counter))
    event = zygote.ended("a")
    assert (event.kind, event.cause) == ("refused", "the zygote had no free file descriptor")


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS], ids=errno.errorcode.get)
def test_where_forking_is_never_allowed_the_error_names_the_way_out(zygote, number):
    zygote.group.preload(partial(_break_fork, number))
    zygote.group.start_in("a", partial(Hosted, factory=Counter))
    with pytest.raises(TuneError, match="MINITUNE_START_METHOD=interpreter"):
        zygote.next("a")


def _break_fork(number):
    def fail(*args):
        raise OSError(number, os.strerror(number))

    os.fork = fail


_cache = {}


def _fill_cache():
    _cache["filled by"] = os.getpid()


def _cached():
    return _cache.get("filled by")


def test_preload_is_shared_by_those_who_want_it(zygote):
    zygote.group.preload(_fill_cache)
    pids = {actor_id: zygote.start(actor_id) for actor_id in "ab"}
    zygote.start("c", preload=False)
    found = {actor_id: zygote.call(actor_id, "call", _cached) for actor_id in "abc"}
    assert found["a"] == found["b"] is not None
    assert found["a"] not in pids.values()
    assert found["c"] is None
    zygote.group.preload(_fill_twice)
    zygote.start("d")
    assert zygote.call("d", "call", _cached) == -1


def _fill_twice():
    assert "filled by" in _cache
    _cache["filled by"] = -1


def _start_thread():
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def _fail():
    raise ValueError("no preload today")


def _die():
    os._exit(4)


def _hang():
    threading.Event().wait()


def _open_device():
    zygote = sys.modules["minitune.actor.zygote"]
    zygote.GPU_PATHS = ("/dev/zero",)
    _log_file.append(os.open("/dev/zero", os.O_RDONLY))


def test_a_preload_that_is_not_safe_is_left_out_with_all_others(zygote, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG, logger="minitune")
    monkeypatch.setattr("minitune.actor.zygote_launcher.PRELOAD_S", scaled_s(0.5))
    unsafe = [_start_thread, _open_device, _fail, _die, _hang]
    for number, action in enumerate(unsafe):
        zygote.group.preload(_fill_cache)
        zygote.group.preload(action)
        zygote.start(f"a{number}")
        assert zygote.call(f"a{number}", "call", _cached) is None
    told = "each worker loads the trainable itself, because loading it once for all failed"
    assert caplog.text.count(told) == len(unsafe)
    assert "no preload today" in caplog.text
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
    zygote.group.preload(_fill_cache)
    zygote.start("b")
    assert zygote.call("b", "call", _cached) is not None


def test_a_worker_may_wait_for_a_slow_preload(zygote, monkeypatch):
    """A preload has a time limit of its own."""
    zygote.start("earlier")
    monkeypatch.setattr("minitune.actor.zygote_launcher.ZYGOTE_HELLO_S", 0.1)
    zygote.group.preload(partial(time.sleep, 0.5))
    zygote.group.preload(_fill_cache)
    zygote.start("a")
    assert zygote.call("a", "call", _cached) is not None


def test_preload_runs_under_thread_caps_that_workers_do_not_inherit(zygote):
    zygote.group.preload(_note_caps)
    zygote.start("a")
    assert zygote.call("a", "call", _noted_caps) == ("1", os.environ.get("OMP_NUM_THREADS"))


def _note_caps():
    _cache["caps"] = os.environ["OMP_NUM_THREADS"]


def _noted_caps():
    return _cache.get("caps"), os.environ.get("OMP_NUM_THREADS")


def test_preloaded_random_generators_are_not_shared(zygote):
    zygote.group.preload(partial(random.seed, 1))
    zygote.start("a")
    zygote.start("b")
    assert zygote.call("a", "call", _draw) != zygote.call("b", "call", _draw)


def _draw():
    return random.random()


def test_the_package_that_a_preload_imports_is_known_while_that_takes_long(zygote, tmp_path):
    """It is an installed package. The name of the user's own module, which imports it, would say less."""
    installed = tmp_path / "site-packages"
    installed.mkdir()
    os.mkfifo(tmp_path / "gate")
    (installed / "heavy.py").write_text(f"open({str(tmp_path / 'gate')!r}).read()\n")
    (tmp_path / "users_own.py").write_text("import heavy\n")
    zygote.group.preload(partial(_import_from, [str(installed), str(tmp_path)], "users_own"))
    zygote.group.start_in("a", partial(Hosted, factory=Counter))
    wait_until(lambda: zygote.group.wait(0.05) or zygote.group.importing == "heavy")
    (tmp_path / "gate").write_text("")
    assert isinstance(zygote.next("a"), Started)
    assert zygote.group.importing == ""
    assert zygote.call("a", "call", partial(_is_imported, "heavy"))


def _import_from(folders, name):
    sys.path[:0] = folders
    importlib.import_module(name)


def _is_imported(name):
    return name in sys.modules


def test_a_file_that_a_preload_has_opened_keeps_its_number(zygote, tmp_path):
    zygote.group.preload(partial(_open_log, str(tmp_path / "log")))
    zygote.start("a")
    zygote.call("a", "call", _write_log)
    assert (tmp_path / "log").read_text() == "line\n"


_log_file = []


def _open_log(path):
    _log_file.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))


def _write_log():
    os.write(_log_file[0], b"line\n")


def test_a_forked_worker_holds_no_descriptor_of_the_zygote(zygote):
    zygote.start("a")
    low = zygote.call("a", "call", _low_descriptors)
    assert low == [0, 1, 2]


def _low_descriptors():
    found = []
    for descriptor in range(1000):
        with suppress(OSError):
            if "libffi" not in os.readlink(f"/proc/self/fd/{descriptor}"):  # newer ones keep their own file open
                found.append(descriptor)
    return found


def test_workers_do_not_die_with_the_thread_that_started_them(start_method):
    with Group() as group:
        driver = Driver(group)
        with ThreadPoolExecutor(1) as pool:
            pid = pool.submit(driver.start, "a").result()
        assert driver.call("a", "add", 1) == 1
        assert driver.call("a", "pid") == pid


_PLAIN = SCRIPTS / "flags_of_workers.py"


def test_actors_work_on_a_system_without_process_descriptors(script, tmp_path):
    """No process descriptors, no anonymous files, no `waitid`, in the driver and in the workers, as on macOS."""
    (tmp_path / "site").mkdir()
    shutil.copy(SCRIPTS / "lacks_descriptors.py", tmp_path / "site" / "sitecustomize.py")
    command = [sys.executable, str(script.write(_PLAIN))]
    done = script.run_command(command, PYTHONPATH=os.pathsep.join([str(tmp_path / "site"), PYTHONPATH]))
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


def test_a_start_method_that_does_not_exist_is_refused(monkeypatch):
    monkeypatch.setenv("MINITUNE_START_METHOD", "spawn")
    with pytest.raises(ValueError, match="must be 'zygote' or 'interpreter', but got 'spawn'"):
        Group()


def test_the_zygote_is_the_choice_where_it_works(monkeypatch):
    monkeypatch.delenv("MINITUNE_START_METHOD", raising=False)
    assert chosen_start_method() == "zygote"
    monkeypatch.delattr(os, "pidfd_open")
    assert chosen_start_method() == "interpreter"
    monkeypatch.setenv("MINITUNE_START_METHOD", "zygote")
    with pytest.raises(ValueError, match="use 'interpreter'"):
        Group()


def test_many_workers_come_and_go_and_nothing_grows(zygote):
    def cycle(number):
        zygote.start(f"a{number}")
        assert zygote.stop(f"a{number}").cause == "stopped"

    for number in range(5):
        cycle(number)
    [pid] = zygote_pids()
    processes = [psutil.Process(), psutil.Process(pid)]
    before = [(process.num_fds(), process.num_threads()) for process in processes]
    for number in range(5, 60):
        cycle(number)
    assert [(process.num_fds(), process.num_threads()) for process in processes] == before


def test_worker_starts_without_access_to_its_memory_score(zygote):
    zygote.group.preload(_refuse_the_score)
    zygote.start("a")
    assert zygote.call("a", "add", 2) == 2


def _refuse_the_score():
    really_open = os.open

    def refusing(path, *args, **kwargs):
        if path == "/proc/self/oom_score_adj":
            raise PermissionError(errno.EACCES, "refused", path)
        return really_open(path, *args, **kwargs)

    os.open = refusing
