"""Starts scripts and processes of the package from an interpreter that has it loaded, which saves most of a start.

A new interpreter that imports what a run needs takes 0.4 s of CPU, and what a worker needs 0.15 s; to fork one that has
done so takes 0.01 s. The suite starts more than a thousand of each. `ScriptServer` starts this file as a program. The
program imports, waits for requests, and forks for each:

- The forked process becomes what `python script.py` would be: it has the arguments, the variables, the working
  directory and the standard streams of the request, runs the script as `__main__` and ends as an interpreter ends. A
  test for which a difference matters starts an interpreter itself, with `Script.start_command`.
- Or it becomes what the driver in the test's own process starts, such as a zygote. A script has a *seed* for
  that, a child that waits until the script starts its first. The fixture `new_interpreters` switches both off.

A forked process differs in what it has imported, and the kernel shows the command line of the server as its own. It
shows the right variables, for which the server's own leave room.

A process that is started must be a child of the test's process, whose `Popen` waits for it and reads its exit status.
So the server forks twice, the process in between ends at once, and the kernel gives its child to the nearest process
above that takes in orphans. For this moment that is the test's process. Only Linux has this; elsewhere, and where a
process would inherit what the server does not have, such as a limit or a variable that changes the interpreter itself,
a new interpreter is started.
"""

from __future__ import annotations

import ast
import ctypes
import gc
import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MESSAGE_BYTES = 1 << 20
_OF_THE_INTERPRETER = ("PYTHON", "LC_", "LANG", "LD_", "TZ")
"""Variables that count when an interpreter starts; a process with other ones cannot be forked."""
_NOT_OF_THE_PACKAGE = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
"""Those of them that do not change a process of the package, which takes over the path of its driver."""
_INHERITED = re.compile("^(?:Umask|Uid|Gid|CapEff|NoNewPrivs|Seccomp|Cpus_allowed):.*$", re.MULTILINE)
"""What a new process has from its parent, as /proc/PID/status shows it."""
_ROOM_BYTES = 4096
"""More than the variables of any process here take beyond those of the server."""
_DESCRIPTORS = 16
"""More than any request has."""
_EXECUTABLE = sys.executable
_CALL = re.compile(r"__import__\('([\w.]+)', fromlist=\['main'\]\)\.main\((.*)\)\n$")
"""The end of an `interpreter_command`: the module, and the arguments of its `main`."""


class ScriptServer:
    """The server, seen from the tests. `close` ends it; what it has started goes on.

    Args:
        environment: Its variables.
    """

    def __init__(self, environment: Mapping[str, str]):
        environment = {**environment, "MINITUNE_TEST_ROOM": " " * _ROOM_BYTES}
        self._settings = _settings_in(environment)
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        ForkedInterpreter.source = _Source(self._process.pid, environment, len(_block(environment)), self._request)

    def can_start(self, environment: Mapping[str, str]) -> bool:
        """Whether an interpreter of the server is what these variables ask for."""
        return _settings_in(environment) == self._settings

    def fork(self, arguments: list[str], environment: Mapping[str, str], cwd: str, streams: list[int]) -> int:
        """Start a script; returns its process id. Blocks until it is a child of this process."""
        request = {
            "arguments": arguments,
            "cwd": cwd,
            "numbers": [0, 1, 2],
            "has_seed": ForkedInterpreter.source is not None,
        }
        return self._request({**request, "environment": dict(environment)}, streams)

    def _request(self, request: dict[str, Any], descriptors: list[int]) -> int:
        with self._lock:
            _take_in_orphans(True)
            try:
                socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
                pid = int(self._channel.recv(_MESSAGE_BYTES))
                self._channel.recv(_MESSAGE_BYTES)  # the process in between is gone
            finally:
                _take_in_orphans(False)
        return pid

    def close(self) -> None:
        """End the server; it ends when the channel is closed."""
        ForkedInterpreter.source = None
        self._channel.close()
        self._process.wait()


class ForkedScript(subprocess.Popen[str]):
    """The process of a script that a server has forked: `ForkedScript([path, *arguments], server=server, ...)`."""

    def __init__(self, arguments: list[str], *, server: ScriptServer, **options: Any):
        self._server = server
        super().__init__(arguments, **options)

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, startupinfo: Any, creationflags: Any, shell: Any, p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int, *rest: Any) -> None:  # fmt: skip  # noqa: E501
        """Fork in place of `exec`, with the streams that `Popen` has made."""
        try:
            self.pid = self._server.fork(args, env, os.fspath(cwd), [p2cread, c2pwrite, errwrite])
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is not None:
            self.kill()  # else a script that hangs would be waited for
        super().__exit__(kind, *rest)


class ForkedInterpreter(subprocess.Popen[bytes]):
    """A process of the package that `source` forks, or a new interpreter where there is no source that can.

    It is started with an `interpreter_command` and in a session of its own.
    """

    source: _Source | None = None

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, startupinfo: Any, creationflags: Any, shell: Any, p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int, *rest: Any) -> None:  # fmt: skip  # noqa: E501
        """Fork in place of `exec`, with the standard output and error of this process."""
        source, call = type(self).source, _CALL.search(args[-1])
        is_plain = args[0] == _EXECUTABLE and set(args[1:-1]) <= {"-B", "-c"} and cwd is None
        if source is None or call is None or not (is_plain and source.can_fork(env)):
            _dismiss_seed()
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *rest)  # type: ignore[misc]  # fmt: skip  # noqa: E501
            return
        numbers = [0, 1, 2, *pass_fds]
        request = {"call": call.groups(), "numbers": numbers, "cwd": os.getcwd(), "environment": env}
        try:
            self.pid = source.fork(request, [p2cread, *numbers[1:]])
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


class _Source:
    """Forks processes for the driver in this process.

    Args:
        pid: The process that forks, or that becomes the new one.
        environment: Its variables.
        room_bytes: The length of those that the kernel shows for it.
        fork: Sends it a request with descriptors; returns the id of the new process.
    """

    def __init__(
        self,
        pid: int,
        environment: Mapping[str, str],
        room_bytes: int,
        fork: Callable[[dict[str, Any], list[int]], int],
    ):
        self.fork = fork
        self._pid = pid
        self._owner = os.getpid()
        self._settings = _settings_of_package(environment)
        self._room_bytes = room_bytes

    def can_fork(self, environment: Mapping[str, str]) -> bool:
        """Whether a process with these variables would differ from a new interpreter only in what it has imported."""
        return (
            os.getpid() == self._owner  # and not a process that was forked from it
            and _settings_of_package(environment) == self._settings
            and len(_block(environment)) <= self._room_bytes
            and _inherited(self._pid) == _inherited(self._owner)
        )


def fork_interpreters() -> None:
    """Let the driver in this process have its processes forked, as long as there is a source."""
    from minitune.actor import interpreter_launcher, zygote_process

    for module in (interpreter_launcher, zygote_process):
        module.subprocess = types.SimpleNamespace(**{**vars(subprocess), "Popen": ForkedInterpreter})  # type: ignore


def _settings_in(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_OF_THE_INTERPRETER)}


def _settings_of_package(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in _settings_in(environment).items() if name not in _NOT_OF_THE_PACKAGE}


def _inherited(pid: int) -> object:
    """What a child of this process would have from it, but for descriptors, variables and the directory."""
    process = Path("/proc", str(pid))
    texts = [(process / name).read_text() for name in ("limits", "cgroup", "oom_score_adj")]
    return texts, _INHERITED.findall((process / "status").read_text()), os.getpriority(os.PRIO_PROCESS, pid)


def _block(environment: Mapping[str, str]) -> bytes:
    return b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())


def _take_in_orphans(on: bool) -> None:
    _prctl(_PR_SET_CHILD_SUBREAPER, int(on))


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


# -- the server's own process ------------------------------------------------------------------------------------------


def _load() -> None:
    """Import what the driver and the processes of the package need, also what they import late."""
    import minitune
    import minitune._driver
    import minitune.actor.guard
    import minitune.actor.zygote
    import minitune.actor.zygote_launcher
    import minitune.execution.local
    import minitune.output.summary

    for name in minitune.__all__:
        getattr(minitune, name)
    gc.freeze()  # a script that collects garbage or ends would else copy each page of what is loaded here


def _serve(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork until the channel is closed; then returns None. In a forked process returns its request."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, _DESCRIPTORS)
        if not message:
            return None
        between = os.fork()
        if not between:
            between = os.getpid()
            pid = os.fork()
            if not pid:
                while os.getppid() == between:
                    time.sleep(0.0002)
                return json.loads(message), descriptors
            channel.send(str(pid).encode())
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        os.waitpid(between, 0)
        channel.send(b"gone")


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Give this process the streams, the directory and the variables of a request."""
    import fcntl

    numbers = request["numbers"]
    above = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, max(numbers) + 1) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(above, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()  # no pointer goes to the memory that the kernel shows, any more
    os.environ.update(request["environment"])
    start, room_bytes = _shown()
    block = _block(request["environment"])
    if len(block) <= room_bytes:
        ctypes.memmove(start, block.ljust(room_bytes, b"\0"), room_bytes)


def _shown() -> tuple[int, int]:
    """The address and the length of the memory that the kernel shows as the variables of this process."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[47]), int(fields[48])  # fields 50 and 51 of proc(5); the first two are cut off
    return start, end - start


def _become_interpreter(request: dict[str, Any], descriptors: list[int]) -> None:
    """Be the process that a driver starts."""
    os.setsid()
    _become(request, descriptors)
    sys.argv = ["-c"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    module, arguments = request["call"]
    importlib.import_module(module).main(*ast.literal_eval(f"[{arguments}]"))


_seed: tuple[int, int, socket.socket] | None = None
"""The process that may use it, the seed itself, and the way to it."""


def _start_seed() -> None:
    """Fork a process that becomes the first one that the driver in this one starts, or dies with it."""
    global _seed
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    driver = os.getpid()
    pid = os.fork()
    if not pid:
        ours.close()
        _wait_as_seed(theirs, driver)
    theirs.close()

    def grow(request: dict[str, Any], descriptors: list[int]) -> int:
        global _seed
        _seed = ForkedInterpreter.source = None  # there is no second one
        with ours:
            socket.send_fds(ours, [json.dumps(request).encode()], descriptors)
        return pid

    _seed = driver, pid, ours
    ForkedInterpreter.source = _Source(pid, os.environ, _shown()[1], grow)


def _dismiss_seed() -> None:
    """End the seed, if there is one: a script that starts new interpreters has no child that it has not started."""
    global _seed
    if _seed is not None and _seed[0] == os.getpid():
        _, pid, channel = _seed
        _seed = ForkedInterpreter.source = None
        channel.close()
        os.waitpid(pid, 0)


def _wait_as_seed(channel: socket.socket, driver: int) -> NoReturn:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != driver:
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)
    with channel:
        message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, _DESCRIPTORS)
    if not message:
        os._exit(0)
    _prctl(_PR_SET_PDEATHSIG, 0)
    _become_interpreter(json.loads(message), descriptors)
    os._exit(0)


def _run_script(request: dict[str, Any], streams: list[int]) -> None:
    _become(request, streams)
    if request["has_seed"]:
        fork_interpreters()
        _start_seed()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    path = request["arguments"][0]
    sys.argv = request["arguments"]
    sys.orig_argv = [sys.executable, *sys.argv]
    sys.path[0] = os.path.dirname(path)
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    exec(compile(Path(path).read_bytes(), path, "exec"), main.__dict__)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _load()
    with socket.socket(fileno=int(sys.argv[1])) as _channel:
        _given = _serve(_channel)
    if _given is not None:
        (_run_script if "arguments" in _given[0] else _become_interpreter)(*_given)
