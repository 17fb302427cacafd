from pathlib import Path

import cv2
import numpy
from ray import tune
from ultralytics import YOLO

root = Path("pictures").absolute()
numbers = numpy.random.default_rng(0)
for part in ("train", "val"):
    for kind in ("a", "b"):
        (root / part / kind).mkdir(parents=True)
        for number in range(4):
            picture = numbers.integers(0, 255, (32, 32, 3), dtype=numpy.uint8)
            cv2.imwrite(str(root / part / kind / f"{number}.jpg"), picture)
small = {"epochs": 2, "imgsz": 32, "batch": 4, "device": "cpu", "workers": 0, "plots": False}
space = {"lr0": tune.uniform(1e-4, 1e-2)}
grid = YOLO("yolo11n-cls.yaml").tune(
    data=str(root),
    use_ray=True,
    iterations=2,
    gpu_per_trial=0,
    space=space,
    project=str(Path("runs").absolute()),
    **small,
)
best = grid.get_best_result(metric="metrics/accuracy_top1", mode="max")
print(len(grid), grid.num_errors, 1e-4 <= best.config["lr0"] <= 1e-2, best.metrics["epoch"])
