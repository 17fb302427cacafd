"""Objects for actors. Each worker imports this file, so it imports no module that takes long, such as pytest."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOREVER_S = 3600


def sleep_forever() -> None:
    """Sleep in short pieces: a signal that comes just before a system call is heard at the next one."""
    while True:
        time.sleep(0.05)


class Counter:
    """State, errors, and ways to end."""

    def __init__(self, start: int = 0):
        self.value = start

    def add(self, amount: int) -> int:
        self.value += amount
        return self.value

    def pid(self) -> int:
        return os.getpid()

    def echo(self, value: Any) -> Any:
        return value

    def fail(self, text: str) -> None:
        raise ValueError(text)

    def lock(self) -> Any:
        return threading.Lock()

    def exit_process(self, code: int) -> None:
        os._exit(code)

    def raise_signal(self, number: int) -> None:
        signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), number)
        time.sleep(FOREVER_S)

    def close_descriptors(self) -> None:
        os.closerange(3, 65536)

    def close_standard_streams(self) -> str:
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        sys.stdout = None
        return "still here"

    def show(self, text: str) -> None:
        print(text)
        print(text, file=sys.stderr)

    def environment(self, name: str) -> str | None:
        return os.environ.get(name)

    def directory(self) -> str:
        return os.getcwd()

    def call(self, function: Any, *args: Any) -> Any:
        return function(*args)


class Sleeper:
    """User code that does not come back by itself."""

    def __init__(self, pid_file: str):
        self.pid_file = pid_file

    def _note(self) -> None:
        with open(self.pid_file, "a") as file:
            file.write(f"{os.getpid()}\n")

    def sleep(self) -> None:
        self._note()
        sleep_forever()

    def sleep_and_clean_up(self) -> None:
        self._note()
        try:
            sleep_forever()
        finally:
            with open(self.pid_file + ".cleaned", "w") as file:
                file.write("yes")

    def ignore_everything(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._note()
        while True:
            try:
                time.sleep(FOREVER_S)
            except BaseException:
                continue

    def hold_the_gil(self) -> None:
        self._note()
        ctypes.PyDLL(None).sleep(FOREVER_S)


class Family:
    """Starts descendants of every kind; each notes its pid in a file."""

    KINDS = (
        "plain child",
        "forked child",
        "shell background",
        "own session",
        "daemon",
        "daemon without a main thread",
        "stopped",
        "ignores TERM",
    )

    def __init__(self, pid_file: str):
        self.pid_file = pid_file
        self.children: list[Any] = []

    def start_all(self) -> int:
        note = f"echo $$ >> {self.pid_file}; exec sleep {FOREVER_S}"
        self.children.append(subprocess.Popen(["sh", "-c", note]))
        self._fork(lambda: None)
        subprocess.run(["sh", "-c", f"sh -c '{note}' & "], check=True)
        self.children.append(subprocess.Popen(["sh", "-c", note], start_new_session=True))
        self._fork(self._become_daemon)
        self._fork(self._lose_main_thread)
        self.children.append(subprocess.Popen(["sh", "-c", f"echo $$ >> {self.pid_file}; kill -STOP $$; sleep 9"]))
        self.children.append(subprocess.Popen(["sh", "-c", f"trap '' TERM; {note}"]))
        return len(self.KINDS)

    def sleep(self) -> None:
        sleep_forever()

    def leave(self) -> None:
        os._exit(3)

    def _fork(self, then: Any) -> None:
        if os.fork() == 0:
            try:
                then()
                self._note_and_sleep()
            finally:
                os._exit(0)

    def _note_and_sleep(self) -> None:
        with open(self.pid_file, "a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(FOREVER_S)

    def _become_daemon(self) -> None:
        os.setsid()
        if os.fork():
            os._exit(0)

    def _lose_main_thread(self) -> None:
        """Ends the main thread of a daemon. Another thread lives on."""
        self._become_daemon()

        def live_on() -> None:
            while sys.platform == "linux" and b") Z " not in Path(f"/proc/{os.getpid()}/stat").read_bytes():
                time.sleep(0.001)
            self._note_and_sleep()

        threading.Thread(target=live_on).start()
        ctypes.CDLL(None).pthread_exit(None)


class Nester:
    """A method that reports, as `report()` does, and others that are called while it waits."""

    def __init__(self, host: Any):
        self._host = host

    def work(self, *reports: Any) -> str:
        for value in reports:
            if not self._host.exchange(lambda value=value: ((value,), lambda: None)):
                return "stopped"
        return "done"

    def reset(self, allocation: Any) -> bool:
        return True

    def save(self, name: str, depth: int) -> tuple[str, int]:
        return name, depth

    def fail(self) -> None:
        raise ValueError("within a report")


class Brittle:
    """Cannot be loaded again."""

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    raise RuntimeError("this object does not like to be loaded")


class Fatal:
    """Ends the process that loads it."""

    def __reduce__(self) -> Any:
        return os._exit, (7,)


class NeedsTwo(Exception):
    """Cannot be rebuilt from its message alone."""

    def __init__(self, first: int, second: int):
        super().__init__(f"{first} and {second}")


class Hosted:
    """An actor made of a plain object, whose methods are the actor's.

    Args:
        host: Not used.
        factory: Makes the object.
    """

    def __init__(self, host: Any, factory: Callable[[], Any]):
        self._object = factory()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._object, name)
        if not callable(method):
            raise TypeError(f"only methods can be called, but {name!r} is a {type(method).__name__}")
        return method

    def reset(self, allocation: Any) -> bool:
        """The object is used again as it is."""
        return True


class Clean(Hosted):
    """One whose reset cannot fail: it is sent with the first call."""

    resets_at_once = True


def counter(host: Any, *, allocation: Any = None) -> Hosted:
    return Hosted(host, Counter)
