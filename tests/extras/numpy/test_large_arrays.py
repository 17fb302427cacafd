"""Trials map large arrays, however they get them, and each trial may write to its own copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kit import fit

import minitune as tune

LARGE = 1_000_000


def is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return type(getattr(array, "obj", None)).__name__ == "mmap"


@pytest.mark.parametrize("reuse_actors", [False, True])
@pytest.mark.parametrize("how", ["bound", "put", "put and bound"])
def test_arrays_are_mapped_and_private(how: str, reuse_actors: bool) -> None:
    arrays = {"c": np.arange(LARGE), "fortran": np.asfortranarray(np.ones((1000, 500))), "small": np.arange(3)}
    arrays["fixed"] = np.zeros(LARGE)
    arrays["fixed"].flags.writeable = False

    def trainable(config: dict[str, Any], data: dict[str, Any] | None = None) -> None:
        found = tune.get(config["data"]) if data is None else data
        with pytest.raises(ValueError, match="read-only"):
            found["fixed"][0] = 1
        found["c"] += 1
        tune.report(
            {
                "mapped": [name for name in found if is_mapped(found[name])],
                "sums": [int(found["c"][0]), float(found["fortran"].sum()), int(found["small"].sum())],
            }
        )

    given = tune.put(arrays) if how.startswith("put") else arrays
    bound = tune.with_parameters(trainable, data=given) if how.endswith("bound") else trainable
    try:
        space = {"x": tune.grid_search([1, 2, 3]), **({"data": given} if how == "put" else {})}
        grid = fit(bound, space, executor="local", max_concurrent_trials=1, reuse_actors=reuse_actors)
    finally:
        tune.shutdown()
    assert [result.error for result in grid] == [None] * 3
    assert [result.metrics["mapped"] for result in grid] == [["c", "fortran", "fixed"]] * 3
    assert [result.metrics["sums"] for result in grid] == [[1, 500_000.0, 3]] * 3
    assert arrays["c"][0] == 0


def test_closures_and_classes_get_bound_values() -> None:
    array = np.arange(LARGE)

    class Summing(tune.Trainable):
        def setup(self, config: dict[str, Any], data: Any) -> None:
            self.mapped = is_mapped(data) and is_mapped(array)

        def step(self) -> dict[str, Any]:
            return {"mapped": self.mapped, "done": True}

    trainable = tune.with_parameters(Summing, data=np.arange(LARGE))
    [result] = fit(trainable, executor="local")
    assert result.error is None
    assert result.metrics["mapped"]
