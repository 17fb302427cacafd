"""Random experiments leave the same records, files and results on Ray as on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

DIFFERENTIAL = Path(__file__).parents[2] / "differential"


@pytest.mark.usefixtures("connection")
@pytest.mark.parametrize("seed", range(12))
def test_an_experiment_is_the_same_as_on_the_local_executor(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(DIFFERENTIAL))
    from differential_plan import Plan
    from differential_views import differences, run, views

    monkeypatch.setenv("MINITUNE_NUM_CPUS", "8")
    plan = Plan.of(seed)
    if plan.resources == "too much":
        pytest.skip("an error on this machine, and a wait on a cluster")
    local, on_ray = (views(plan, run(plan, kind, tmp_path / kind)) for kind in ("local", "ray"))
    assert not differences(local, on_ray)
