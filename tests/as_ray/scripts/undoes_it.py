"""Turns the switch on, off and on again."""

import importlib.metadata
import importlib.util
import os
import sys

before = dict(os.environ), list(sys.path)
import minitune.as_ray  # isort: skip  # before Ray
import ray.tune

minitune.as_ray.turn_on()
assert sys.path.count(minitune.ray.switch.DIRECTORY) == 1
assert os.environ["PYTHONPATH"].count(minitune.ray.switch.DIRECTORY) == 1
tune = ray.tune
minitune.as_ray.undo()
assert (dict(os.environ), sys.path) == before
assert importlib.util.find_spec("ray") is None
assert tune.uniform(0, 1) is not None
for name in ("ray", "ray.tune"):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        print(error)
try:
    importlib.metadata.version("ray")
except importlib.metadata.PackageNotFoundError:
    print("no distribution")
minitune.as_ray.turn_on()
import ray.tune

print(ray.tune is tune)
