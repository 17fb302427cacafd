"""Starts scripts from an interpreter that has the package loaded, so that each saves most of its start.

A new interpreter that imports what a run needs takes 0.4 s of CPU; to fork one that has done so takes 0.01 s. The suite
starts more than a thousand scripts. `ScriptServer` starts this file as a program. The program imports, waits for
requests, and forks for each. The forked process becomes what `python script.py` would be: it has the arguments, the
variables, the working directory and the standard streams of the request, runs the script as `__main__` and ends as an
interpreter ends. It differs in what it has imported, and the kernel shows the variables and the command line of the
server as its own. A test for which that matters starts an interpreter itself, with `Script.start_command`.

The script must be a child of the test's process, whose `Popen` waits for it and reads its exit status. So the server
forks twice, the process in between ends at once, and the kernel gives its child to the nearest process above that
takes in orphans. For this moment that is the test's process. Only Linux has this; elsewhere, and for a script whose
variables change the interpreter itself, there is no server, and a new interpreter is started.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PR_SET_CHILD_SUBREAPER = 36
_MESSAGE_BYTES = 1 << 20
_OF_THE_INTERPRETER = ("PYTHON", "LC_", "LANG", "LD_", "TZ")
"""Variables that count when an interpreter starts; a script with other ones cannot be forked."""


class ScriptServer:
    """The server, seen from the tests. `close` ends it; scripts that run go on."""

    def __init__(self, environment: Mapping[str, str]):
        self._settings = _settings_in(environment)
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=dict(environment),
            )

    def can_start(self, environment: Mapping[str, str]) -> bool:
        """Whether an interpreter of the server is what these variables ask for."""
        return _settings_in(environment) == self._settings

    def fork(self, arguments: list[str], environment: Mapping[str, str], cwd: str, streams: list[int]) -> int:
        """Start a script; returns its process id. Blocks until it is a child of this process."""
        request = json.dumps({"arguments": arguments, "environment": dict(environment), "cwd": cwd})
        with self._lock:
            _take_in_orphans(True)
            try:
                socket.send_fds(self._channel, [request.encode()], streams)
                pid = int(self._channel.recv(_MESSAGE_BYTES))
                self._channel.recv(_MESSAGE_BYTES)  # the process in between is gone
            finally:
                _take_in_orphans(False)
        return pid

    def close(self) -> None:
        """End the server; it ends when the channel is closed."""
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


def _settings_in(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_OF_THE_INTERPRETER)}


def _take_in_orphans(on: bool) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


# -- the server's own process ------------------------------------------------------------------------------------------


def _load() -> None:
    """Import what a driver needs, also what it imports late."""
    import minitune
    import minitune._driver
    import minitune.actor.zygote_launcher
    import minitune.execution.local
    import minitune.output.summary

    for name in minitune.__all__:
        getattr(minitune, name)


def _serve(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork until the channel is closed; then returns None. In a forked process returns its request."""
    while True:
        message, streams, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 3)
        if not message:
            return None
        between = os.fork()
        if not between:
            pid = os.fork()
            if not pid:
                return json.loads(message), streams
            channel.send(str(pid).encode())
            os._exit(0)
        for stream in streams:
            os.close(stream)
        os.waitpid(between, 0)
        channel.send(b"gone")


def _become(request: dict[str, Any], streams: list[int]) -> str:
    """Make this process that of the script; returns the script's path."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    path = request["arguments"][0]
    sys.argv = request["arguments"]
    sys.orig_argv = [sys.executable, *sys.argv]
    sys.path[0] = os.path.dirname(path)
    return path


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _load()
    with socket.socket(fileno=int(sys.argv[1])) as _channel:
        _given = _serve(_channel)
    if _given is not None:
        _path = _become(*_given)
        _main = types.ModuleType("__main__")
        _main.__file__ = _path
        _main.__builtins__ = __builtins__  # type: ignore[attr-defined]
        sys.modules["__main__"] = _main
        exec(compile(Path(_path).read_bytes(), _path, "exec"), _main.__dict__)
