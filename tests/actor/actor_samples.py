"""Objects for actors. Each worker imports this file, so it imports no module that takes long, such as pytest."""

import ctypes
import os
import signal
import subprocess
import sys
import time

FOREVER_S = 3600


def sleep_forever():
    """Sleep in short pieces: a signal that comes just before a system call is heard at the next one."""
    while True:
        time.sleep(0.05)


class Counter:
    """State, errors, and ways to end."""

    def __init__(self, start=0):
        self.value = start

    def add(self, amount):
        self.value += amount
        return self.value

    def pid(self):
        return os.getpid()

    def echo(self, value):
        return value

    def fail(self, text):
        raise ValueError(text)

    def exit_process(self, code):
        os._exit(code)

    def raise_signal(self, number):
        signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), number)
        time.sleep(FOREVER_S)

    def show(self, text):
        print(text)
        print(text, file=sys.stderr)

    def environment(self, name):
        return os.environ.get(name)

    def directory(self):
        return os.getcwd()

    def call(self, function, *args):
        return function(*args)


class Sleeper:
    """User code that does not come back by itself."""

    def __init__(self, pid_file):
        self.pid_file = pid_file

    def _note(self):
        with open(self.pid_file, "a") as file:
            file.write(f"{os.getpid()}\n")

    def sleep(self):
        self._note()
        sleep_forever()

    def sleep_and_clean_up(self):
        self._note()
        try:
            sleep_forever()
        finally:
            with open(self.pid_file + ".cleaned", "w") as file:
                file.write("yes")

    def ignore_everything(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._note()
        while True:
            try:
                time.sleep(FOREVER_S)
            except BaseException:
                continue

    def hold_the_gil(self):
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
        "stopped",
        "ignores TERM",
    )

    def __init__(self, pid_file):
        self.pid_file = pid_file
        self.children = []

    def start_all(self):
        note = f"echo $$ >> {self.pid_file}; exec sleep {FOREVER_S}"
        self.children.append(subprocess.Popen(["sh", "-c", note]))
        self._fork(lambda: None)
        subprocess.run(["sh", "-c", f"sh -c '{note}' & "], check=True)
        self.children.append(subprocess.Popen(["sh", "-c", note], start_new_session=True))
        self._fork(self._become_daemon)
        self.children.append(subprocess.Popen(["sh", "-c", f"echo $$ >> {self.pid_file}; kill -STOP $$; sleep 9"]))
        self.children.append(subprocess.Popen(["sh", "-c", f"trap '' TERM; {note}"]))
        return len(self.KINDS)

    def sleep(self):
        sleep_forever()

    def leave(self):
        os._exit(3)

    def _fork(self, then):
        if os.fork() == 0:
            try:
                then()
                self._note_and_sleep()
            finally:
                os._exit(0)

    def _note_and_sleep(self):
        with open(self.pid_file, "a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(FOREVER_S)

    def _become_daemon(self):
        os.setsid()
        if os.fork():
            os._exit(0)


class Nester:
    """A method that reports, as `report()` does, and others that are called while it waits."""

    def __init__(self, host):
        self._host = host

    def work(self, *reports):
        for value in reports:
            if not self._host.exchange(lambda value=value: ((value,), lambda: None)):
                return "stopped"
        return "done"

    def reset(self, allocation):
        return True


class Brittle:
    """Cannot be loaded again."""

    def __reduce__(self):
        return _explode, ()


def _explode():
    raise RuntimeError("this object does not like to be loaded")


class NeedsTwo(Exception):
    """Cannot be rebuilt from its message alone."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Hosted:
    """An actor made of a plain object, whose methods are the actor's.

    Args:
        host: Not used.
        factory: Makes the object.
    """

    def __init__(self, host, factory):
        self._object = factory()

    def __getattr__(self, name):
        method = getattr(self._object, name)
        if not callable(method):
            raise TypeError(f"only methods can be called, but {name!r} is a {type(method).__name__}")
        return method

    def reset(self, allocation):
        """The object is used again as it is."""
        return True


class Clean(Hosted):
    """One whose reset cannot fail: it is sent with the first call."""

    resets_at_once = True


def counter(host, *, allocation=None):
    return Hosted(host, Counter)
