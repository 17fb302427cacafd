from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"
