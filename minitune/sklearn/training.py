"""CandidateTraining: one trial is one candidate, which is trained and scored on all folds.

All folds are trained in turn, one step each, so that a report has the score on all of them, by scikit-learn's own
`_fit_and_score`. If the training is in steps, `StepwiseFit` replaces the estimator's `fit` there.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection._validation import _fit_and_score
from sklearn.pipeline import Pipeline

from minitune.result import DONE
from minitune.sklearn.candidates import PARAMS
from minitune.trainable import Trainable

SCORE = "score"
"""The metric of a trial: the mean of its folds' scores, as searchers and schedulers see it."""
FOLDS = "folds"
"""The key of a result under which scikit-learn's outcomes of the folds are."""
PARTIAL_FIT = "partial_fit"
"""The method of estimators that can continue their training."""
_STATE_FILE = "folds.pickle"

FoldOutcome = dict[str, Any]
"""What `_fit_and_score` returns for a fold."""


# -- steps -------------------------------------------------------------------------------------------------------------
class StepwiseFit:
    """A `fit` that trains one step further with each call. All with the same data.

    A step is one call of `partial_fit`, or one `max_iters`-th of the trees with `warm_start`. The transformers of a
    pipeline are fitted by the first call, and their last estimator is trained in steps.
    """

    def __init__(self, estimator: Any, max_iters: int, classes: Any):
        self._estimator = estimator
        self._max_iters = max_iters
        self._classes = classes
        self._resource = ""  # set by the first step
        self._step = 0
        self._total = 0
        self._features: Any = None

    def __call__(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Train one step further.

        Raises:
            ValueError: If the estimator cannot be trained in steps, or a parameter of fit is not for the last step of a
                pipeline.
        """
        vars(self._estimator).pop("fit", None)  # remove this object, so that `fit` is the estimator's own below
        last = self._estimator
        own_params = fit_params
        is_pipeline = isinstance(last, Pipeline)
        if is_pipeline:
            name, last = last.steps[-1]
            own_params = _params_of_last(name, fit_params)
        if not self._resource:
            self._begin(last)
            if is_pipeline and len(self._estimator.steps) > 1:
                # The other steps of the pipeline have no steps of training, so they are fitted once, and their output
                # is kept.
                head = self._estimator[:-1]
                self._features = head.fit_transform(X, y)
                self._estimator.steps[:-1] = head.steps  # with a cache, the pipeline has fitted clones of them
        self._train(last, X if self._features is None else self._features, () if y is None else (y,), own_params)
        self._step += 1
        return self._estimator

    def _begin(self, last: Any) -> None:
        resource = resource_of(last)
        if resource is None:
            raise ValueError(why_no_steps(last))
        self._resource = resource
        if resource != PARTIAL_FIT:
            self._total = getattr(last, resource)
            last.set_params(warm_start=True)

    def _train(self, last: Any, features: Any, target: tuple[Any, ...], fit_params: dict[str, Any]) -> None:
        if self._resource == PARTIAL_FIT:
            classes = {}
            if is_classifier(last):
                classes = {"classes": self._classes}
            last.partial_fit(features, *target, **classes, **fit_params)
            return
        # how many trees there are after the step before and after this one; the first step always trains some
        before, now = (max(self._total * n // self._max_iters, min(n, 1)) for n in (self._step, self._step + 1))
        if now > before:  # otherwise there are fewer trees than steps
            last.set_params(**{self._resource: now})
            last.fit(features, *target, **fit_params)


_BOOSTING = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
"""Their `max_iter` is the number of trees."""


def resource_of(last: Any) -> str | None:
    """The resource of an estimator's steps: `partial_fit`, or the number of trees; None if it has no steps."""
    params = last.get_params(deep=False)
    warm = "warm_start" in params
    for name, is_there in (
        ("n_estimators", warm),
        ("max_iter", warm and isinstance(last, _BOOSTING)),
        (PARTIAL_FIT, hasattr(last, "partial_fit")),
    ):
        if is_there and (name == PARTIAL_FIT or isinstance(params.get(name), Integral)):
            return name
    return None


def why_no_steps(last: Any) -> str:
    """The text of the error for an estimator that cannot be trained in steps."""
    return (
        "early_stopping needs an estimator with partial_fit, with warm_start and a number n_estimators, or histogram "
        f"gradient boosting, but got {last!r}; use another one, or early_stopping=False"
    )


def _params_of_last(name: str, fit_params: dict[str, Any]) -> dict[str, Any]:
    prefix = f"{name}__"
    for key in fit_params:
        if not key.startswith(prefix):
            raise ValueError(
                f"with early_stopping, parameters of fit go to the last step of a pipeline, so they must begin with "
                f"{prefix!r}, but got {key!r}; use early_stopping=False"
            )
    return {key.removeprefix(prefix): value for key, value in fit_params.items()}


# -- trials ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class FoldTask:
    """All that the trials of a search share.

    Attributes:
        splits: The indices to train with and to test with, by fold.
        metric: The scorer whose mean is reported; None for the first one.
    """

    estimator: Any
    X: Any
    y: Any
    splits: Sequence[tuple[Any, Any]]
    fit_arguments: dict[str, Any]
    max_iters: int | None
    classes: Any
    metric: str | None

    def step(self, fold: Fold) -> FoldOutcome:
        """Train a fold one step further, and score it."""
        if fold.outcome is not None and fold.outcome["fit_error"] is not None:
            return fold.outcome
        train, test = self.splits[fold.index]
        if fold.fit is not None:
            # for one call, and on this object only: scorers see the estimator itself, not a wrapper
            fold.estimator.fit = fold.fit
        outcome: FoldOutcome = _fit_and_score(
            fold.estimator,
            self.X,
            self.y,
            train=train,
            test=test,
            parameters=fold.params if fold.outcome is None else None,
            split_progress=(fold.index, len(self.splits)),
            return_n_test_samples=True,
            return_times=True,
            **self.fit_arguments,
        )
        if fold.outcome is not None:
            # The times of all steps, as for one ordinary fit.
            for key in ("fit_time", "score_time"):
                outcome[key] += fold.outcome[key]
        fold.outcome = outcome
        return outcome

    def score(self, outcomes: Sequence[FoldOutcome]) -> float:
        """The mean of the folds' scores, by the one metric that a search optimises."""
        scores = [outcome["test_scores"] for outcome in outcomes]
        chosen = [one[self.metric or next(iter(one))] if isinstance(one, dict) else one for one in scores]
        return float(numpy.mean(chosen))


class Fold:
    """One fold of a candidate: its estimator and its last outcome; None before the first step."""

    def __init__(self, evaluation: FoldTask, params: dict[str, Any], index: int):
        self.estimator = clone(evaluation.estimator)
        self.params = params
        self.index = index
        steps = evaluation.max_iters
        self.fit = None if steps is None else StepwiseFit(self.estimator, steps, evaluation.classes)
        self.outcome: FoldOutcome | None = None


class CandidateTraining(Trainable):
    """The trial of a candidate: a step trains and scores all folds one step further."""

    def setup(self, config: dict[str, Any], evaluation: FoldTask | None = None) -> None:
        if evaluation is not None:
            self._evaluation = evaluation
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._begin(new_config)
        return True

    def step(self) -> dict[str, Any]:
        outcomes = [self._evaluation.step(fold) for fold in self._folds]
        is_done = self.training_iteration + 1 >= (self._evaluation.max_iters or 1)
        return {SCORE: self._evaluation.score(outcomes), FOLDS: [_plain(one) for one in outcomes], DONE: is_done}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        with open(os.path.join(checkpoint_dir, _STATE_FILE), "wb") as file:
            pickle.dump(self._folds, file)

    def load_checkpoint(self, checkpoint: Any) -> None:
        with open(os.path.join(checkpoint, _STATE_FILE), "rb") as file:
            self._folds = pickle.load(file)

    def _begin(self, config: dict[str, Any]) -> None:
        count = len(self._evaluation.splits)
        self._folds = [Fold(self._evaluation, config[PARAMS], index) for index in range(count)]


def _plain(outcome: FoldOutcome) -> FoldOutcome:
    """An outcome with Python's own numbers, as a record has them."""
    plain = dict(outcome)
    for key in ("test_scores", "train_scores", "fit_time", "score_time"):
        if isinstance(value := plain.get(key, 0.0), dict):
            plain[key] = {name: float(score) for name, score in value.items()}
        elif key in plain:
            plain[key] = float(value)
    return plain
