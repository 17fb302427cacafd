"""Which results lack an objective, and when that ends the run: a wrong name, but no accident of one trial."""

import pytest
from kit import fit

from minitune import ASHAScheduler, grid_search
from minitune.error import CrashLoopError


@pytest.mark.parametrize("place", ["run", "scheduler"])
def test_a_wrong_metric_ends_the_run(place):
    settings = {"metric": "los", "mode": "min"}
    if place == "scheduler":
        settings = {"scheduler": ASHAScheduler(**settings)}
    with pytest.raises(CrashLoopError, match="reported were: loss"):
        fit(lambda config: {"loss": 1.0}, {"x": grid_search(list(range(9)))}, **settings)
