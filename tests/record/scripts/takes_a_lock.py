"""Takes the lock at a path, and then holds it, leaves its main thread, or forks."""

import ctypes
import os
import sys
import threading
from pathlib import Path

from minitune.record.lock import RunLock

path, then = sys.argv[1:]


def hold():
    print("held", flush=True)
    sys.stdin.read()


def hold_without_main_thread():
    threading.Thread(target=hold_when_alone).start()
    ctypes.CDLL(None).pthread_exit(None)


def hold_when_alone():
    while b") Z " not in Path("/proc/self/stat").read_bytes():
        pass
    hold()


def fork():
    if os.fork() == 0:
        sys.stdin.read()
    os._exit(0)


RunLock(path).acquire()
globals()[then]()
