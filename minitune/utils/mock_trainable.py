"""A trainable for experiments and tests."""

from __future__ import annotations

import json
import math
import os
import time
from typing import Any

from minitune.registry import register_trainable
from minitune.trainable.trainable import Trainable

MOCK_TRAINABLE_NAME = "mock_trainable"
MOCK_ERROR_KEY = "mock_error"


class MyTrainableClass(Trainable):
    """Its `episode_reward_mean` rises along a hyperbolic tangent.

    The configuration may have `width` and `height` of the curve (default 1), `sleep` (seconds for each step),
    `mock_error` (the second step fails) and `persistent_error` (it also fails after a restore).
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Start at step 0."""
        self._sleep_s = config.get("sleep", 0)
        self._fails = config.get(MOCK_ERROR_KEY, False)
        self._fails_again = config.get("persistent_error", False)
        self.timestep = 0
        self.restored = False

    def step(self) -> dict[str, Any]:
        """One step along the curve.

        Raises:
            RuntimeError: If the configuration asks for a failure.
        """
        if self._fails and self.timestep > 0 and (self._fails_again or not self.restored):
            raise RuntimeError(f"failing on purpose in step {self.timestep + 1}")
        if self._sleep_s > 0:
            time.sleep(self._sleep_s)
        self.timestep += 1
        height = math.tanh(self.timestep / self.config.get("width", 1)) * self.config.get("height", 1)
        return {"episode_reward_mean": height}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the step."""
        with open(os.path.join(checkpoint_dir, "checkpoint"), "w", encoding="utf-8") as file:
            json.dump({"timestep": self.timestep}, file)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Continue at the saved step."""
        with open(os.path.join(checkpoint, "checkpoint"), encoding="utf-8") as file:
            self.timestep = json.load(file)["timestep"]
        self.restored = True


def register_mock_trainable() -> None:
    """Register `MyTrainableClass` as `mock_trainable`."""
    register_trainable(MOCK_TRAINABLE_NAME, MyTrainableClass)
