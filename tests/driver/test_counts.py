"""How many steps the driver takes for each report and for each trial: speed that no busy machine can hide.

`benchmarks/counts.py` counts, and says how the counts become the same on a busy machine. The bounds leave 5 % of room
for other machines and versions of the dependencies.
"""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"
ROOM = 1.05


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other Pythons call comprehensions in other ways")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems start and reuse workers in other ways")
@pytest.mark.parametrize(
    ("kind", "calls", "modules", "records", "system_calls"),
    [
        ("report", 39, 23, 1, 6),
        ("asha", 47, 26, 1, 6),
        ("fresh", 295, 45, 4, 42),
        ("reused", 224, 40, 4, 25),
        ("returned", 209, 40, 4, 21),
    ],
)
def test_the_driver_takes_few_steps(kind, calls, modules, records, system_calls, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    counts = importlib.import_module("counts")

    found = counts.count(kind)

    listed = "\n".join(f"{number:7.2f} {name}" for name, number in sorted(found["calls"].items()) if number >= 0.1)
    assert sum(found["calls"].values()) <= calls * ROOM, listed
    assert len(counts.modules(found["calls"])) <= modules * ROOM, listed
    assert found["records"] == pytest.approx(records, abs=0.1)
    assert sum(found["system_calls"].values()) <= system_calls * ROOM, found["system_calls"]
