"""A trial that tells which card it has."""

import json
import os
import sys

from minitune import RunConfig, Tuner, with_resources


def trainable(config):
    import torch

    torch.ones(1, device="cuda")
    return {"visible": os.environ["CUDA_VISIBLE_DEVICES"], "uuid": str(torch.cuda.get_device_properties(0).uuid)}


grid = Tuner(with_resources(trainable, {"gpu": 1}), run_config=RunConfig(storage_path=sys.argv[1], verbose=0)).fit()
assert not grid.errors, grid.errors
print(json.dumps({name: grid[0].metrics[name] for name in ("visible", "uuid")}))
