"""Two executors, one behaviour: random experiments leave the same records, files and results on both.

Everything follows from the number of the experiment; `MINITUNE_TEST_SEED=17` repeats number 17 alone.
"""

import os

import pytest
from differential_plan import NUM_CPUS, Plan
from differential_views import differences, run, views

NUM_EXPERIMENTS = 24
_PER_TEST = 12


def _groups():
    alone = os.environ.get("MINITUNE_TEST_SEED")
    if alone:
        return [range(int(alone), int(alone) + 1)]
    return [range(first, first + _PER_TEST) for first in range(0, NUM_EXPERIMENTS, _PER_TEST)]


@pytest.mark.parametrize("seeds", _groups(), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_experiments_are_the_same_on_both_executors(seeds, tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_NUM_CPUS", str(NUM_CPUS))
    monkeypatch.setattr("minitune.driver.limits.BACKOFF_S", (0.0,))  # otherwise the order depends on real time
    monkeypatch.setattr("minitune.driver.limits.BACKOFF_AFTER_SIGNAL_S", 0.0)

    for seed in seeds:
        plan = Plan.of(seed)
        # one after the other: two drivers in threads of one process may disturb each other when both format tracebacks
        inline, local = (views(plan, run(plan, kind, tmp_path / f"{seed}_{kind}")) for kind in ("inline", "local"))
        found = differences(inline, local)
        assert not found, f"inline and local differ; MINITUNE_TEST_SEED={seed} repeats\n{plan}\n" + "\n".join(found)
