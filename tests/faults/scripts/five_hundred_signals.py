"""A driver that gets five hundred signals, at random moments."""

import random
import signal

from script_kit import hurry

from minitune import RunConfig, Stopper, Tuner, grid_search, report

hurry()

count = 0


def handler(number, frame):
    global count
    count += 1
    if count < 500:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.003))


def trainable(config):
    i = 0
    while True:
        i += 1
        report({"i": i, "blob": "x" * (100_000 if i % 10 == 0 else 10)})


class Enough(Stopper):
    def __call__(self, trial_id, result):
        return count >= 500

    def stop_all(self):
        return False


signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001)
run = RunConfig(name="run", verbose=0, stop=Enough())
results = Tuner(trainable, param_space={"x": grid_search([0, 1])}, run_config=run).fit()
print(count, results.num_errors, *[r.metrics["i"] == r.metrics["training_iteration"] for r in results])
