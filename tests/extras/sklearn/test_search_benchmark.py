"""The benchmark of the search runs and prints its results. Its speed is not tested here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[3] / "benchmarks" / "sklearn_search.py"
MODELS = BENCHMARK.with_name("search_models.py")
STOPPING = BENCHMARK.with_name("search_stopping.py")


def test_the_benchmark_compares_both_searches() -> None:
    command = [sys.executable, str(BENCHMARK), "--seeds", "1", "--candidates", "2", "--epochs", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode in (0, 1)  # with two candidates there is little to stop
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines[1:3]] == ["RandomizedSearchCV", "TuneSearchCV"]
    assert "times as fast, mean accuracy" in lines[3]


def test_searchers_are_compared_on_real_models() -> None:
    tasks = ("svc cancer", "tree clusters")
    command = [sys.executable, str(MODELS), "--quick", "--searchers", "random", "minitune auto", "--tasks", *tasks]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    beginning, rest = done.stdout.split("P(beat) of minitune auto by the truth")
    wins = beginning.splitlines()
    truth, medians = (part.splitlines() for part in rest.split("Median of the best values"))
    assert wins[2] == "| over | 3 | svc cancer, 3 | tree clusters, 3 |"
    assert wins[4].startswith("| random | ")
    groups = ["| random | all (2)", "| random | deterministic (1)", "| random | noisy (1)"]
    assert [" | ".join(line.split(" | ")[:2]) for line in truth[4:7]] == groups
    assert [line.split(" | ")[0] for line in medians[4:6]] == ["| minitune auto", "| random"]


def test_the_choice_of_a_confirmed_trial_is_compared_with_that_of_the_best_value() -> None:
    options = ["--quick", "--confirm", "--searchers", "minitune auto", "--tasks", "tree clusters"]
    done = subprocess.run([sys.executable, str(MODELS), *options], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    table = done.stdout.partition("chosen trial is truer")[2].splitlines()
    assert table[2] == "| searcher | chosen by | 12 |"
    ways = ["| minitune auto | estimate", "| minitune auto | confirm"]
    assert [" | ".join(line.split(" | ")[:2]) for line in table[4:6]] == ways


def test_searchers_are_compared_while_trials_are_stopped() -> None:
    command = [sys.executable, str(STOPPING), "--quick", "--workers", "4", "--searchers", "random", "minitune auto"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    seen, truth = done.stdout.split("P(beat) of minitune auto by the truth")
    header = "| over | 10% | 25% | 50% | 100% | linear digits, 4, 50% |"
    for lines in (seen.splitlines(), truth.splitlines()):
        assert lines[2] == header
        assert lines[4].startswith("| random | ")
