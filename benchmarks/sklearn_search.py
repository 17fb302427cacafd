"""Compares TuneSearchCV with early stopping to scikit-learn's RandomizedSearchCV: time, and accuracy on other digits.

    python benchmarks/sklearn_search.py [--seeds N] [--candidates N] [--epochs N] [--jobs N]

Both try the same candidates for a network, and may train each for the same number of epochs. RandomizedSearchCV always
does so, while TuneSearchCV stops bad candidates early. The exit status is 0 if the searches of TuneSearchCV take less
time in total and their mean accuracy is at most 0.01 lower; else 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from typing import Any

from scipy.stats import loguniform
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import RandomizedSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import minitune
from minitune.sklearn import TuneSearchCV

SPACE = {
    "mlpclassifier__learning_rate_init": loguniform(1e-5, 1),
    "mlpclassifier__alpha": loguniform(1e-6, 1),
    "mlpclassifier__hidden_layer_sizes": [(64,), (128,), (256,)],
}
TOLERANCE = 0.01


def measure(search: Any, data: list[Any]) -> tuple[float, float]:
    """The seconds that a search takes, and the accuracy of the model that it finds, on data that it has not seen."""
    x, x_test, y, y_test = data
    start_s = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is the budget
        search.fit(x, y)
    return time.perf_counter() - start_s, search.score(x_test, y_test)


def main() -> int:
    """Measure and print. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=2, help="searches of each kind (default: 2)")
    parser.add_argument("--candidates", type=int, default=24, help="candidates of each search (default: 24)")
    parser.add_argument("--epochs", type=int, default=54, help="epochs of a complete training (default: 54)")
    parser.add_argument("--jobs", type=int, default=1, help="n_jobs of both (default: 1)")
    options = parser.parse_args()
    took: dict[str, list[float]] = {}
    reached: dict[str, list[float]] = {}
    print(f"{'seed':>4}  {'search':<20} {'seconds':>8} {'accuracy':>9}")
    for seed in range(options.seeds):
        data = train_test_split(*load_digits(return_X_y=True), random_state=seed)
        model = make_pipeline(StandardScaler(), MLPClassifier(max_iter=options.epochs, random_state=seed))
        same = {"n_iter": options.candidates, "cv": 3, "n_jobs": options.jobs, "random_state": seed}
        scheduler = minitune.ASHAScheduler(max_t=options.epochs, grace_period=1, reduction_factor=3)
        for search in (
            RandomizedSearchCV(model, SPACE, **same),
            TuneSearchCV(model, SPACE, early_stopping=scheduler, max_iters=options.epochs, **same),
        ):
            name = type(search).__name__
            spent_s, accuracy = measure(search, data)
            print(f"{seed:>4}  {name:<20} {spent_s:>8.2f} {accuracy:>9.4f}", flush=True)
            took.setdefault(name, []).append(spent_s)
            reached.setdefault(name, []).append(accuracy)
    (theirs_s, ours_s), (theirs, ours) = map(sum, took.values()), map(statistics.mean, reached.values())
    print(f"TuneSearchCV: {theirs_s / ours_s:.1f} times as fast, mean accuracy {ours:.4f} against {theirs:.4f}")
    return 0 if ours_s < theirs_s and ours >= theirs - TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
