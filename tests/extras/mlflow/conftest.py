from __future__ import annotations

import os

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
