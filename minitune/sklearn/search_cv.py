"""TuneSearchCV: an estimator that searches for the parameters of another one.

It subclasses scikit-learn's `BaseSearchCV`, which provides `cv_results_`, scorers, metadata routing, tags, and the
methods of the best estimator. Only `fit` is new: the base class trains each candidate in one call. It uses private
parts of scikit-learn that have not changed since version 1.6.
"""

from __future__ import annotations

import copy
import os
import tempfile
import time
from contextlib import ExitStack
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from joblib import effective_n_jobs
from sklearn.base import clone, is_classifier
from sklearn.metrics._scorer import _MultimetricScorer
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _insert_error_scores, _warn_or_raise_about_fit_failures
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state, indexable
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import _check_method_params

from minitune.base.calls import explains_calls
from minitune.config import CheckpointConfig, FailureConfig, RunConfig
from minitune.result import TRAINING_ITERATION
from minitune.runtime import cluster_resources
from minitune.schedulers import ASHAScheduler, TrialScheduler, create_scheduler
from minitune.schedulers.pbt import PopulationBasedTraining, PopulationBasedTrainingReplay
from minitune.search import SearchAlgorithm, Searcher
from minitune.sklearn.candidates import PARAMS, dicts_of, drawn_ahead, space_of
from minitune.sklearn.training import (
    FOLDS,
    PARTIAL_FIT,
    SCORE,
    CandidateTraining,
    FoldOutcome,
    FoldTask,
    StepwiseFit,
    resource_of,
    why_no_steps,
)
from minitune.trainable.util import with_parameters, with_resources
from minitune.tune_config import TuneConfig
from minitune.tuner import Tuner

if TYPE_CHECKING:
    from minitune.result_grid import Result, ResultGrid


@explains_calls
class TuneSearchCV(BaseSearchCV):  # type: ignore[misc]  # the library has no types
    """Searches for parameters of an estimator by cross-validation, in parallel, and stops bad candidates early.

    It replaces scikit-learn's `RandomizedSearchCV`, with its other arguments.

    Args:
        param_distributions: A dict from names to lists, domains, or distributions with `rvs`, or a list of such dicts.
        early_stopping: True (`ASHAScheduler`) or a scheduler trains in steps, with a score after each.
        max_iters: The number of steps of a complete training.
        search_alg: A searcher or its name; None draws at random.
        n_jobs: How many candidates are trained at a time, in processes; None, 1: here, -1: one for each CPU.
        time_budget_s: Seconds after which the search ends, without candidates that have no score.
        storage_path, name: Where the run is stored; None: nowhere.

    Attributes:
        best_index_: With early stopping, only candidates with the most steps count, unless `refit` is a function.
        run_path_: The directory of the run, or None.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: rule for name, rule in BaseSearchCV._parameter_constraints.items() if name != "pre_dispatch"},
        "param_distributions": [dict, list],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean", str, TrialScheduler],
        "max_iters": [Interval(Integral, 1, None, closed="left")],
        "search_alg": [str, Searcher, SearchAlgorithm, None],
        "random_state": ["random_state"],
        "time_budget_s": [Interval(Real, 0, None, closed="neither"), None],
        "storage_path": [str, os.PathLike, None],
        "name": [str, None],
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 10,
        early_stopping: bool | str | TrialScheduler = False,
        max_iters: int = 10,
        search_alg: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        random_state: Any = None,
        error_score: Any = numpy.nan,
        return_train_score: bool = False,
        time_budget_s: float | None = None,
        storage_path: str | os.PathLike[str] | None = None,
        name: str | None = None,
    ):
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        del self.pre_dispatch  # an option for joblib; here, candidates are drawn when a worker is free
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.early_stopping = early_stopping
        self.max_iters = max_iters
        self.search_alg = search_alg
        self.random_state = random_state
        self.time_budget_s = time_budget_s
        self.storage_path = storage_path
        self.name = name

    def fit(self, X: Any, y: Any = None, **params: Any) -> TuneSearchCV:
        """Search, and train the best candidate on all data. Blocks.

        Args:
            X: The data: n samples.
            y: The n targets; None for unsupervised estimators.
            **params: Arguments for the estimator's `fit`, the scorer and the splitter, as in `RandomizedSearchCV`.
                `groups` goes to the splitter.

        Raises:
            ValueError: If an argument is out of range, if all fits fail, or if `early_stopping` is set and the
                estimator cannot be trained in steps.
            TimeoutError: If no candidate has a score at the end of the time budget.
            KeyboardInterrupt: At Ctrl-C, after all trials have ended.
        """
        self._validate_params()
        self._refuse_callbacks()
        scorers, refit_metric = self._get_scorers()
        X, y = indexable(X, y)
        routed = self._get_routed_params_for_fit(_check_method_params(X, params=params))
        split_params = routed.splitter.split
        fit_params = routed.estimator.fit
        splitter = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        self.n_splits_ = splitter.get_n_splits(X, y, **split_params)
        estimator = clone(self.estimator)
        max_iters = self._max_iters_of(estimator)
        needs_classes = max_iters is not None and y is not None and is_classifier(estimator)
        evaluation = FoldTask(
            estimator,
            X,
            y,
            splits=list(splitter.split(X, y, **split_params)),
            fit_arguments={
                "scorer": scorers,
                "fit_params": fit_params,
                "score_params": routed.scorer.score,
                "return_train_score": self.return_train_score,
                "error_score": self.error_score,
                "verbose": self.verbose,
            },
            max_iters=max_iters,
            classes=unique_labels(y) if needs_classes else None,
            metric=self.refit if isinstance(self.refit, str) else None,
        )
        # A splitter of the user's may draw again at each call. Then scores of different folds would be compared.
        if len(evaluation.splits) != self.n_splits_:
            raise ValueError(
                "cv.split and cv.get_n_splits must agree, but there are "
                f"{len(evaluation.splits)} splits instead of {self.n_splits_}"
            )
        candidates, outcomes, iterations = self._search(evaluation)
        more_results = {}
        if max_iters is not None:
            more_results = {TRAINING_ITERATION: iterations}
        results = self._format_results(candidates, self.n_splits_, outcomes, more_results)
        first_scores = outcomes[0]["test_scores"]
        self.multimetric_ = isinstance(first_scores, dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(first_scores)
            refit_metric = self.refit
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, refit_metric, results)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{refit_metric}"][self.best_index_]
            self.best_params_ = results["params"][self.best_index_]
        if self.refit:
            self._refit(evaluation, fit_params)
        self.scorer_ = scorers._scorers if isinstance(scorers, _MultimetricScorer) else scorers
        self.cv_results_ = results
        return self

    # -- before the search ---------------------------------------------------------------------------------------------

    def _refuse_callbacks(self) -> None:
        if vars(self).get("_skl_callbacks"):
            raise ValueError(
                "TuneSearchCV calls no callbacks of scikit-learn; set them on the estimator that it trains: "
                "TuneSearchCV(estimator.set_callbacks(...), ...)"
            )

    def _max_iters_of(self, estimator: Any) -> int | None:
        """The number of steps of each training; None for one ordinary fit.

        Raises:
            ValueError: If the estimator cannot be trained in steps. If the search space also chooses the estimator,
                this is checked later.
        """
        if self.early_stopping is False:
            return None
        name, last = estimator.steps[-1] if isinstance(estimator, Pipeline) else ("", estimator)
        # A step of the pipeline may be a parameter itself. Then each candidate has another estimator.
        is_searched = any(name in one for one in dicts_of(self.param_distributions))
        if not is_searched and resource_of(last) is None:
            raise ValueError(why_no_steps(last))
        return int(self.max_iters)

    def _scheduler(self) -> str | TrialScheduler | None:
        """The scheduler of the run; None stops no trial early.

        Raises:
            ValueError: If the scheduler changes parameters during the training.
        """
        scheduler = self.early_stopping
        if isinstance(scheduler, bool):
            if scheduler:
                return ASHAScheduler(max_t=self.max_iters)
            return None
        made = create_scheduler(scheduler) if isinstance(scheduler, str) else copy.deepcopy(scheduler)
        if isinstance(made, (PopulationBasedTraining, PopulationBasedTrainingReplay)):
            raise ValueError(
                f"early_stopping must leave the parameters of a candidate as they are, but {type(made).__name__} "
                "changes them during the training; use ASHAScheduler, HyperBandScheduler or MedianStoppingRule"
            )
        return made

    # -- the search ----------------------------------------------------------------------------------------------------

    def _search(self, evaluation: FoldTask) -> tuple[list[dict[str, Any]], list[FoldOutcome], list[int]]:
        """Run the trials; return the scored candidates, the outcomes of all their folds in one list, and the steps of
        each candidate.
        """
        random_state = check_random_state(self.random_state)
        if self.search_alg is None:
            space = drawn_ahead(self.param_distributions, self.n_iter, random_state)
        else:
            space = space_of(self.param_distributions)
        # Drawn after the candidates, so that those are the ones of `RandomizedSearchCV`.
        seed = int(random_state.randint(2**31 - 1))
        # More workers than candidates would only take CPUs from each other.
        jobs = min(effective_n_jobs(self.n_jobs), self.n_iter)
        with ExitStack() as closing:
            storage_path = self.storage_path
            if storage_path is None:
                storage_path = closing.enter_context(tempfile.TemporaryDirectory(prefix="minitune-sklearn-"))
            cpus = cluster_resources().get("CPU", 1.0)
            tuner = Tuner(
                with_resources(
                    with_parameters(CandidateTraining, evaluation=evaluation),
                    {"cpu": cpus // jobs if cpus >= jobs else cpus / jobs},
                ),
                param_space=space,
                tune_config=TuneConfig(
                    metric=SCORE,
                    mode="max",
                    search_alg=copy.deepcopy(self.search_alg),  # `fit` must leave the arguments as they are
                    scheduler=self._scheduler(),
                    num_samples=1 if self.search_alg is None else self.n_iter,
                    max_concurrent_trials=jobs,
                    time_budget_s=self.time_budget_s,
                    reuse_actors=True,
                    seed=seed,
                    executor="inline" if jobs == 1 else "local",
                ),
                run_config=RunConfig(
                    name=self.name,
                    storage_path=os.fspath(storage_path),
                    verbose=self.verbose,
                    checkpoint_config=CheckpointConfig(checkpoint_at_end=False),
                    failure_config=FailureConfig(
                        fail_fast="raise" if self.error_score == "raise" else False, give_up_after=0
                    ),
                ),
            )
            grid = tuner.fit(raise_on_failed_trial=False)
            if grid.interrupted:
                raise KeyboardInterrupt
            self.run_path_ = None if self.storage_path is None else grid.experiment_path
            return self._scored(grid, evaluation)

    def _scored(
        self, grid: ResultGrid, evaluation: FoldTask
    ) -> tuple[list[dict[str, Any]], list[FoldOutcome], list[int]]:
        candidates: list[dict[str, Any]] = []
        outcomes: list[FoldOutcome] = []
        iterations: list[int] = []
        for result in grid:
            folds = result.metrics.get(FOLDS) if result.error is None else self._lost(result, evaluation)
            if folds is not None:  # otherwise the time budget ended before its first score
                candidates.append(result.config[PARAMS])
                outcomes += folds
                iterations.append(result.metrics.get(TRAINING_ITERATION, 0))
        if not candidates:
            raise TimeoutError(
                f"no candidate has a score after {self.time_budget_s} s; give the search a larger time_budget_s"
            )
        _warn_or_raise_about_fit_failures(outcomes, self.error_score)
        if callable(self.scoring):
            _insert_error_scores(outcomes, self.error_score)
        return candidates, outcomes, iterations

    def _lost(self, result: Result, evaluation: FoldTask) -> list[FoldOutcome]:
        """The outcomes of a candidate whose worker has died: the same as those of failed fits."""
        scorer = evaluation.fit_arguments["scorer"]
        score: Any = self.error_score
        if isinstance(scorer, _MultimetricScorer):
            score = dict.fromkeys(scorer._scorers, score)
        lost: FoldOutcome = {"test_scores": score, "fit_time": 0.0, "score_time": 0.0, "fit_error": f"{result.error}\n"}
        if self.return_train_score:
            lost["train_scores"] = score
        return [{**lost, "n_test_samples": len(test)} for _, test in evaluation.splits]

    # -- after the search ----------------------------------------------------------------------------------------------

    @staticmethod
    def _select_best_index(refit: Any, refit_metric: str, results: dict[str, Any]) -> Any:
        """The index of the best candidate, without those that were stopped early: their complete score is unknown."""
        if callable(refit) or TRAINING_ITERATION not in results:
            return BaseSearchCV._select_best_index(refit, refit_metric, results)
        ranks = results[f"rank_test_{refit_metric}"]
        steps = results[TRAINING_ITERATION]
        return numpy.where(steps == steps.max(), ranks, len(ranks) + 1).argmin()

    def _refit(self, evaluation: FoldTask, fit_params: dict[str, Any]) -> None:
        """Train the best candidate completely, on all data."""
        # clone the parameters as well, because some may be estimators
        best = clone(evaluation.estimator).set_params(**clone(self.best_params_, safe=False))
        target: tuple[Any, ...] = ()
        if evaluation.y is not None:
            target = (evaluation.y,)
        began_s = time.perf_counter()
        last = best
        if isinstance(best, Pipeline):
            last = best.steps[-1][1]
        if evaluation.max_iters is not None and resource_of(last) == PARTIAL_FIT:
            fit = StepwiseFit(best, evaluation.max_iters, evaluation.classes)
            for _ in range(evaluation.max_iters):
                fit(evaluation.X, *target, **fit_params)
        else:
            best.fit(evaluation.X, *target, **fit_params)
        self.refit_time_ = time.perf_counter() - began_s
        self.best_estimator_ = best
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_
