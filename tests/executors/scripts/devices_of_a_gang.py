"""A gang whose children get devices of their own, and a trial that needs all devices."""

import json
import os
import signal
import subprocess
import sys

from script_kit import hurry

from minitune import PlacementGroupFactory, RunConfig, Tuner, get_context, grid_search, report, with_resources

hurry()

CHILD = "import os, time; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True); time.sleep(600)"


def trainable(config):
    if not config["is_gang"]:
        return {"devices": os.environ["CUDA_VISIBLE_DEVICES"]}
    options = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD], env={**os.environ, **bundle.env}, **options)
        for bundle in get_context().get_bundles()
    ]
    seen = [child.stdout.readline().strip() for child in children]
    report({"seen": seen, "devices": os.environ["CUDA_VISIBLE_DEVICES"], "pids": [c.pid for c in children]})
    children[1].kill()
    children[1].wait()
    return os.kill(os.getpid(), signal.SIGKILL)


def request(config):
    gang = [{"CPU": 1, "GPU": 1}, {"CPU": 1, "GPU": 2}]
    return PlacementGroupFactory(gang if config["is_gang"] else [{"CPU": 2, "GPU": 4}])


tuner = Tuner(
    with_resources(trainable, request),
    param_space={"is_gang": grid_search([True, False])},
    run_config=RunConfig(verbose=0),
)
gang, after = tuner.fit()
print(json.dumps([gang.metrics, after.metrics, str(gang.error)], default=str))
