"""A driver in a thread that ends, beside busy ones; the start method of `multiprocessing` is spawn."""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

from minitune import RunConfig, Tuner, grid_search


def trainable(config):
    return {"y": config["x"]}


def fit():
    space = {"x": grid_search([1, 2, 3])}
    return Tuner(trainable, param_space=space, run_config=RunConfig(verbose=0)).fit()


def work():
    while not over.is_set():
        sum(range(1000))


multiprocessing.set_start_method("spawn")
over = threading.Event()
busy = [threading.Thread(target=work) for _ in range(2)]
for thread in busy:
    thread.start()
grids = []
thread = threading.Thread(target=lambda: grids.append(fit()))
thread.start()
thread.join()
with ThreadPoolExecutor(2) as pool:
    grids += pool.map(lambda _: fit(), range(2))
over.set()
print([[result.metrics["y"] for result in grid] for grid in grids], multiprocessing.get_start_method())
