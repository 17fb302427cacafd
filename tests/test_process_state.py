"""What a test leaves behind is named, and the old state comes back."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from process_state import ProcessSnapshot


class TMonitor(threading.Thread):
    """A thread with the name of the class of tqdm's."""


@pytest.fixture
def left(tmp_path, monkeypatch):
    """What the functions below leave behind; the test takes back what the snapshot cannot."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REMOVED_ONE", "2")
    release = threading.Event()
    threads = []
    descriptors = []

    def start(kind, name):
        threads.append(kind(target=release.wait, name=name, daemon=True))
        threads[-1].start()

    yield {
        "threads": lambda: [start(threading.Thread, "own"), start(TMonitor, "tqdm's")],
        "children": lambda: subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]),
        "environment": lambda: [os.environ.update(SET_ONE="1", TORCH_ONE="1"), os.environ.pop("REMOVED_ONE")],
        "directory": lambda: os.chdir(os.pardir),
        "files": lambda: [Path(name).touch() for name in ("__pycache__", ".coverage.host.1", "model")],
        "descriptors": lambda: descriptors.append(os.open(os.devnull, os.O_RDONLY)),
        "signals": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    }
    release.set()
    for thread in threads:
        thread.join()
    for descriptor in descriptors:
        os.close(descriptor)
    os.environ.pop("TORCH_ONE", None)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("threads", ["thread 'own' (daemon=True)"]),
        ("children", ["process "]),
        ("environment", ["environment variable REMOVED_ONE was removed", "environment variable SET_ONE was set"]),
        ("directory", ["the working directory is "]),
        ("files", ["file model in "]),
        ("descriptors", ["descriptor "]),
        ("signals", ["the handler of SIGUSR1 is "]),
    ],
)
def test_what_is_left_is_named_and_undone(left, kind, told):
    if kind == "descriptors" and not sys.platform.startswith("linux"):
        pytest.skip("this system does not show descriptors")
    before = ProcessSnapshot((kind,))
    assert before.leftovers(0) == []
    process = left[kind]()
    found = before.leftovers(0)
    assert [text[: len(start)] for text, start in zip(found, told, strict=True)] == told
    if kind == "children":
        process.wait()
    if kind not in ("threads", "files", "descriptors"):
        assert before.leftovers(0) == []
