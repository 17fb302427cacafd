"""Reporters: with chosen and renamed columns, with one report at the end, and a user-defined reporter."""

import contextlib
import io
import json
import os

import ray
from ray import tune
from ray.tune import CLIReporter, ProgressReporter


class AtTheEnd(CLIReporter):
    """From the documentation of the class."""

    def should_report(self, trials, done=False):
        return done


class Counts(ProgressReporter):
    def __init__(self):
        self.done = []

    def should_report(self, trials, done=False):
        return True

    def report(self, trials, done, *sys_info):
        self.done.append(done)
        self.last = sorted(t.status for t in trials)


def train_fn(config):
    for i in range(3):
        tune.report({"mean_accuracy": i / 4, "loss": 7 - i, "hidden_metric": 1, "deep": {"m": i}})


ray.init(num_cpus=2, include_dashboard=False)


def go(reporter, **kwargs):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        tune.run(
            train_fn,
            config={"lr": tune.grid_search([0.5, 0.25]), "model": {"width": 32}, "secret": 3},
            progress_reporter=reporter,
            storage_path=os.environ["STORAGE"],
            verbose=1,
            **kwargs,
        )
    return out.getvalue()


def has(text, *words):
    return {word: word in text for word in words}


reporter = AtTheEnd(
    metric_columns={"loss": "Loss!", "training_iteration": "iter", "deep/m": "deep/m"},
    parameter_columns={"lr": "learning rate", "model/width": "width"},
)
reporter.add_metric_column("mean_accuracy", representation="accuracy")
text = go(reporter, metric="loss", mode="min")
listed = AtTheEnd(metric_columns=["loss"], max_progress_rows=1, sort_by_metric=True, metric="loss", mode="max")
listed.add_metric_column("training_iteration")
text2 = go(listed)
counts = Counts()
go(counts)
print(
    json.dumps(
        {
            "renamed": has(
                text, "Loss!", "iter", "deep/m", "learning rate", "width", "accuracy", "hidden_metric", "secret"
            ),
            "status": has(text, "TERMINATED", "2/2", "train_fn_"),
            "listed": has(text2, "loss", "hidden_metric", "mean_accuracy"),
            "counts": [len(counts.done) > 0, counts.done[-1], any(counts.done[:-1]), counts.last],
        }
    )
)
