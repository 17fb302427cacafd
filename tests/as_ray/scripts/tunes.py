"""A script for Ray that runs where `import ray` means minitune, in its trials and their children, too."""

import importlib.metadata
import importlib.util
import sys

import ray
from ray import air, train, tune  # noqa: F401
from ray.air import session  # noqa: F401
from ray.train import ScalingConfig  # noqa: F401
from ray.tune.schedulers import ASHAScheduler

assert importlib.util.find_spec("ray") is not None and importlib.util.find_spec("ray.tune.search") is not None
assert importlib.util.find_spec("ray.rllib_contrib") is None
assert importlib.metadata.version("ray") == ray.__version__, importlib.metadata.version("ray")
assert ray.tune.schedulers.ASHAScheduler is ASHAScheduler


def objective(config):
    import importlib.metadata
    import multiprocessing
    import subprocess
    import sys

    import ray.train
    from ray.tune.utils import flatten_dict  # noqa: F401

    child = subprocess.run([sys.executable, "-c", "import ray; print(ray.__version__)"], capture_output=True, text=True)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        forked = pool.apply(eval, ("__import__('ray.tune').__version__",))
    ray.train.report({"versions": [importlib.metadata.version("ray"), child.stdout.strip(), forked]})


run_config = tune.RunConfig(storage_path=sys.argv[1], verbose=0)
grid = tune.Tuner(objective, run_config=run_config).fit(raise_on_failed_trial=True)
print(*grid[0].metrics["versions"])
