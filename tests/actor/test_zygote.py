"""The parts of a zygote that need no process: what a preload may import, and which threads it may start."""

import os
import sys
import types

import pytest

if sys.platform != "linux":
    pytest.skip("only Linux has zygotes", allow_module_level=True)
from minitune.actor.zygote import _package_in_import, _reseed, _why_unsafe


def frame_of(*modules):
    """A stack, innermost last: of each frame the module's name, and the file whose top level it runs; empty: a
    function."""
    frame = None
    for name, file in modules:
        code = types.SimpleNamespace(co_name="<module>" if file else "call", co_filename=file)
        frame = types.SimpleNamespace(f_globals={"__name__": name}, f_code=code, f_back=frame)
    return frame


@pytest.mark.parametrize(
    ("modules", "package"),
    [
        ([], ""),
        ([("minitune.actor", "")], ""),
        ([("__main__", "/home/me/train.py"), ("json", "")], ""),
        ([("mine", "/home/me/mine.py")], "mine"),
        ([("mine.part", "/home/me/mine/part.py"), ("other", "/home/me/other.py")], "mine"),
        ([("mine", "/home/me/mine.py"), ("torch", "/lib/site-packages/torch/__init__.py")], "torch"),
        ([("torch", "/lib/site-packages/torch/a.py"), ("numpy", "/lib/site-packages/numpy/b.py")], "torch"),
        ([("pandas.core", "/usr/lib/dist-packages/pandas/core.py"), ("re", "/lib/re.py")], "pandas"),
    ],
)
def test_the_outermost_installed_package_is_the_one_that_is_imported(modules, package):
    assert _package_in_import(frame_of(*modules)) == package


def test_a_process_with_a_thread_or_a_gpu_is_not_forked(monkeypatch):
    threads = ["1"]
    monkeypatch.setattr("minitune.actor.zygote.processes.threads", lambda pid: threads)
    opened = {"0": "/dev/null", "7": "/home/me/data"}

    def read(path):
        name = os.path.basename(path)
        if name not in opened:
            raise FileNotFoundError(path)
        return opened[name]

    monkeypatch.setattr(os, "listdir", lambda path: [*opened, "9"])
    monkeypatch.setattr(os, "readlink", read)
    assert _why_unsafe() == ""
    for path in ("/dev/nvidia0", "/dev/kfd", "/dev/dri/card0"):
        opened["7"] = path
        assert _why_unsafe() == f"it has opened {path}"
    threads.append("2")
    assert _why_unsafe() == "it has started 1 thread(s)"


def test_generators_that_a_preload_has_seeded_are_seeded_again(monkeypatch):
    seeds = []
    generator = types.SimpleNamespace(manual_seed=seeds.append)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(default_generator=generator))
    monkeypatch.setitem(sys.modules, "numpy.random", types.SimpleNamespace(seed=lambda: seeds.append("numpy")))
    for _ in range(2):
        _reseed()
    assert seeds[::2] == ["numpy", "numpy"]
    assert seeds[1] != seeds[3]
    assert all(0 <= seed < 2**56 for seed in seeds[1::2])
