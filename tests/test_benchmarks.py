"""The benchmarks run, check what they measure, and say what they show. How fast anything is, is not asked here."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
WORKLOADS = ["cold", "reused", "asha", "checkpoints", "population", "growth", "idle"]
"""One of each kind that needs no other package; those left out differ from these in sizes and settings."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are measured by /proc")


def run(script: str, *arguments: str, bound_s: float, prelude: str = "") -> subprocess.CompletedProcess[str]:
    """A benchmark's command; `prelude` is Python that runs before it."""
    start = f"import runpy, sys; sys.path[0] = {str(BENCHMARKS)!r}; sys.argv[0] = {script!r}; {prelude}\n"
    code = f"{start}runpy.run_path({str(BENCHMARKS / script)!r}, run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=bound_s,
    )


def test_workloads_run_and_their_records_equal_their_reports(tmp_path: Path, bound_s: Callable[[float], float]) -> None:
    document_path = tmp_path / "figures.json"

    done = run(
        "compare.py",
        *("--quick", "--engines", "minitune", "pool", "--json", str(document_path)),
        *("--only", *WORKLOADS),
        bound_s=bound_s(120),
    )

    assert done.returncode == 0, done.stderr + done.stdout
    document = json.loads(document_path.read_text(encoding="utf-8"))
    runs = [(each["workload"], each["engine"]) for each in document["runs"]]
    assert sorted(runs) == sorted([*((name, "minitune") for name in WORKLOADS), ("reused", "pool")])
    for row in document["figures"]:
        assert len(row["engines"]["minitune"]["values"]) == document["rounds"] == 1
        assert f"| {row['title']} | " in done.stdout
    (against_pool,) = [row["ratios"] for row in document["figures"] if row["ratios"]]
    assert against_pool["pool"]["times"] > 0
    assert {kind for each in document["runs"] for kind in each["seen"]["cpu_s"]} == {"driver", "helpers", "workers"}


def test_a_profile_names_the_drivers_functions_and_the_processes(
    tmp_path: Path, bound_s: Callable[[float], float]
) -> None:
    done = run(
        "profile_run.py",
        *("reports", "--quick", "--sort", "cumulative", "--lines", "300", "--save", str(tmp_path / "profile")),
        *("--directory", str(tmp_path / "runs"), "--clean"),
        bound_s=bound_s(60),
    )

    assert done.returncode == 0, done.stderr
    assert "CPU of workers" in done.stdout
    assert "tune_controller.py" in done.stdout
    assert (tmp_path / "profile").stat().st_size > 0
    assert not (tmp_path / "runs").exists()


def test_without_matplotlib_the_plot_names_the_extra(tmp_path: Path, bound_s: Callable[[float], float]) -> None:
    hidden = "import importlib.util; importlib.util.find_spec = lambda name: None"

    done = run("growth.py", "--output", str(tmp_path / "growth.png"), bound_s=bound_s(60), prelude=hidden)

    assert done.returncode == 2
    assert "pip install 'minitune[plot]'" in done.stderr


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Holds records against reports; raises an error whose name is VoidError."""
    path = BENCHMARKS / "harness" / "records.py"
    spec = importlib.util.spec_from_file_location("benchmark_records", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    checks: Callable[..., None] = module.check
    return checks


def write_run(storage: Path, numbers: list[int]) -> None:
    """A run of one trial with a row in each of its files for each number."""
    trial = storage / "run" / "trial"
    trial.mkdir(parents=True)
    rows = [{"trial_id": "a", "number": number} for number in numbers]
    (trial / "result.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (trial / "progress.csv").write_text("trial_id,number\n" + "".join(f"a,{number}\n" for number in numbers))
    records = [{"type": "result", "trial": "a", "metrics": row} for row in rows]
    (storage / "run" / "journal").write_text("".join(f"00000000 {json.dumps(record)}\n" for record in records))


PARAMETERS: dict[str, Any] = {"trials": 1, "reports": 3}


def test_records_that_equal_the_reports_count(tmp_path: Path, check: Callable[..., None]) -> None:
    write_run(tmp_path, [0, 1, 2])

    check(tmp_path, ("json", "csv", "journal"), PARAMETERS, {"reports": {"a": 3}, "errors": 0})


@pytest.mark.parametrize("numbers", [[0, 1], [0, 1, 1], [0, 2, 1], [0, 1, 2, 3]])
@pytest.mark.parametrize("kind", ["json", "csv", "journal"])
def test_a_figure_is_void_if_a_row_is_missing_doubled_or_out_of_order(
    tmp_path: Path, check: Callable[..., None], kind: str, numbers: list[int]
) -> None:
    write_run(tmp_path, numbers)

    with pytest.raises(Exception, match=f"{kind}: .* do not equal 3 reports"):
        check(tmp_path, (kind,), PARAMETERS, {"reports": {"a": 3}, "errors": 0})


@pytest.mark.parametrize(
    "seen",
    [{"reports": {"a": 3}, "errors": 1}, {"reports": {"a": 2}, "errors": 0}, {"reports": {}, "errors": 0}],
    ids=["an error", "too few reports", "no trial"],
)
def test_a_figure_is_void_if_the_run_did_not_do_its_work(
    tmp_path: Path, check: Callable[..., None], seen: dict[str, Any]
) -> None:
    with pytest.raises(Exception, match="instead of"):
        check(tmp_path, (), PARAMETERS, seen)


def test_searchers_are_compared(tmp_path: Path, bound_s: Callable[[float], float]) -> None:
    document_path = tmp_path / "figures.json"

    done = run(
        "searchers.py",
        *("--quick", "--searchers", "random", "--json", str(document_path)),
        bound_s=bound_s(60),
    )

    assert done.returncode == 0, done.stderr
    document = json.loads(document_path.read_text(encoding="utf-8"))
    assert set(document) == {"seeds", "trials", "searchers", "functions", "parallel", "digits", "cost", "import"}
    assert all(len(values) == 2 for values in document["functions"]["branin"].values())
    assert "| minitune TPE | " in done.stdout


# -- faults ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def mutants(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that puts faults into the code."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("mutants")


def test_every_fault_of_the_list_has_its_place(mutants: Any) -> None:
    """Change the list together with the code that it is about: `python benchmarks/mutants.py --check --move` helps."""
    faults = mutants.all_faults()
    assert [f"{fault}: {problem}" for fault, problem, _ in mutants.misplaced(faults)] == []
    assert len({(fault.file, fault.old, fault.new) for fault in faults}) == len(faults) >= 200
    folders = {path.parent.name for path in (BENCHMARKS.parent / "minitune").glob("*/__init__.py")}
    assert {fault.folder for fault in faults} == folders | {"(root)"}


@pytest.fixture
def checkout(tmp_path: Path, mutants: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one function, with a test of half of what it does."""
    for name in ("minitune", "tests"):
        (tmp_path / name).mkdir()
    (tmp_path / "minitune" / "__init__.py").touch()
    (tmp_path / "minitune" / "more.py").write_text("def more(x):\n    return x + 1 if x < 5 else 0\n")
    test = "from minitune.more import more\n\ndef test_more():\n    assert more(1) == 2\n"
    (tmp_path / "tests" / "test_more.py").write_text(test)
    monkeypatch.setattr(mutants, "CHECKOUT", tmp_path)
    return tmp_path


def test_a_fault_is_noticed_if_a_test_fails(mutants: Any, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = ["tests/test_more.py::test_more"]
    faults = [
        mutants.Fault("minitune/more.py", "x + 1", "x - 1", tests),
        mutants.Fault("minitune/more.py", "x < 5", "x < 6", tests),
    ]
    assert list(mutants.misplaced(faults)) == []

    mutants.try_all(faults, 2, 60.0, verbose=False)

    assert [fault.noticed_by.partition(" - ")[0] for fault in faults] == [f"FAILED {tests[0]}", ""]
    assert mutants.tell(faults) == 1
    assert "all                  2        1   50.0%" in capsys.readouterr().out
    assert (checkout / "minitune" / "more.py").read_text() == "def more(x):\n    return x + 1 if x < 5 else 0\n"
