"""Imports the package where everything is missing that Windows does not have, and tries to run."""

import os
import select
import signal
import socket
import subprocess  # noqa: F401  (Python's own modules need what is removed below)
import sys
import tempfile  # noqa: F401
import threading  # noqa: F401

for module, names in {
    os: "fork register_at_fork getuid geteuid uname killpg getpgrp getsid setsid wait4 waitid WNOHANG pidfd_open "
    "fdatasync sched_getaffinity O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_PATH",
    signal: "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGSTOP SIGCONT SIGALRM SIGCHLD setitimer pthread_sigmask",
    socket: "AF_UNIX MSG_NOSIGNAL send_fds recv_fds",
    select: "poll epoll",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "resource", "termios", "grp", "pwd"):
    sys.modules[name] = None
sys.platform = "win32"

import minitune

for name in minitune.__all__:
    getattr(minitune, name)
for executor in ("local", "inline"):
    tuner = minitune.Tuner(lambda config: {"score": 1}, tune_config=minitune.TuneConfig(executor=executor))
    try:
        tuner.fit()
    except minitune.TuneError as error:
        print(error)
