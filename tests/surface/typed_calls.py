"""What a type checker accepts and what it refuses. mypy reads this file, and complains about an unused `ignore`."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import minitune as tune


def train(config: dict[str, Any]) -> dict[str, Any]:
    """A trainable."""
    return {"loss": 1}


class Mine(tune.Trainable):
    """A class."""


# accepted
tune.TuneConfig(mode="min", search_alg="tpe", scheduler="asha", executor="inline")
tune.TuneConfig(search_alg="TPE".lower(), scheduler="asha".upper(), executor="LOCAL".lower())  # names from elsewhere
tune.create_searcher("tpe")
tune.create_scheduler("asha")
tune.TuneConfig(metric=["a", "b"], mode=["min", "obs"], search_alg=tune.TPESearch())
tune.TuneConfig(search_alg=tune.BasicVariantGenerator(), scheduler=tune.ASHAScheduler(), mode=None)
tune.TuneConfig(search_alg=tune.ConcurrencyLimiter(tune.TPESearch(), 2))
tune.Tuner(train, param_space={"x": tune.uniform(0, 1), "y": {"z": [1]}})
tune.Tuner(Mine)
tune.Tuner("registered", param_space=OrderedDict(x=1))
tune.Tuner(lambda config: 1.0)
tune.Tuner(tune.with_parameters(train, data=1))
tune.Tuner(tune.with_resources(Mine, {"cpu": 1}))

# refused
tune.TuneConfig(mode="minimize")  # type: ignore[arg-type]
tune.TuneConfig(search_alg=5)  # type: ignore[arg-type]
tune.TuneConfig(search_alg=tune.ASHAScheduler())  # type: ignore[arg-type]
tune.TuneConfig(scheduler=tune.TPESearch())  # type: ignore[arg-type]
tune.TuneConfig(executor=5)  # type: ignore[arg-type]
tune.Tuner(3)  # type: ignore[arg-type]
tune.Tuner(train, param_space=7)  # type: ignore[arg-type]
tune.run(train, mode="minimize")  # type: ignore[arg-type]
tune.run(train, search_alg=5)  # type: ignore[arg-type]
