"""TuneSearchCV: compared with RandomizedSearchCV, its early stopping, its errors, and that it leaves nothing behind."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import tempfile
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest
import sklearn
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, RandomizedSearchCV, cross_val_score
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _fit_and_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import minitune
from minitune.schedulers import FIFOScheduler, HyperBandScheduler, PopulationBasedTraining
from minitune.search import TPESearch
from minitune.sklearn import TuneSearchCV
from minitune.sklearn.training import CandidateTraining, FoldTask

X, Y = load_iris(return_X_y=True)
NEAREST = KNeighborsClassifier()
NEIGHBOURS = {"n_neighbors": [1, 3, 5, 7, 9], "weights": ["uniform", "distance"]}


class Faulty(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # the library has no types
    """A classifier whose `fit` works, raises, dies or interrupts, depending on its parameter."""

    def __init__(self, how: str = "well"):
        self.how = how

    def fit(self, X: Any, y: Any) -> Faulty:
        if self.how == "raise":
            raise KeyError("a fault of the estimator")
        if self.how == "die":
            os._exit(3)
        if self.how == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        self.classes_ = numpy.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return numpy.full(len(X), self.classes_[0])


def without_times(results: dict[str, Any]) -> dict[str, str]:
    return {key: repr(value) for key, value in results.items() if not key.endswith("_time")}


def last_steps(search: TuneSearchCV) -> list[int]:
    return [int(steps) for steps in search.cv_results_["training_iteration"]]


# -- beside RandomizedSearchCV -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("distributions", "n_jobs"),
    [
        (NEIGHBOURS, 1),
        ({"n_neighbors": stats.randint(1, 20)}, 1),
        ([{"n_neighbors": [1, 3]}, {"n_neighbors": stats.randint(5, 20), "weights": ["distance"]}], 2),
    ],
    ids=["lists", "scipy", "dicts"],
)
def test_a_random_search_equals_that_of_scikit_learn(distributions: Any, n_jobs: int) -> None:
    arguments = {"n_iter": 4, "cv": 3, "random_state": 5, "return_train_score": True}
    theirs = RandomizedSearchCV(NEAREST, distributions, **arguments).fit(X, Y)
    ours = TuneSearchCV(NEAREST, distributions, n_jobs=n_jobs, **arguments).fit(X, Y)

    assert list(ours.cv_results_) == list(theirs.cv_results_)
    assert without_times(ours.cv_results_) == without_times(theirs.cv_results_)
    for name in ("best_params_", "best_index_", "best_score_", "n_splits_", "multimetric_", "n_features_in_"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.refit_time_ > 0
    assert (ours.predict_proba(X) == theirs.predict_proba(X)).all()
    assert ours.score(X, Y) == theirs.score(X, Y)
    assert (ours.classes_ == theirs.classes_).all()


@pytest.mark.parametrize("refit", ["recall_macro", False, lambda results: 1], ids=["name", "none", "function"])
def test_several_metrics_are_as_in_scikit_learn(refit: Any) -> None:
    arguments = {"n_iter": 3, "cv": 3, "random_state": 0, "refit": refit, "scoring": ["accuracy", "recall_macro"]}
    theirs = RandomizedSearchCV(NEAREST, NEIGHBOURS, **arguments).fit(X, Y)
    ours = TuneSearchCV(NEAREST, NEIGHBOURS, **arguments).fit(X, Y)

    assert without_times(ours.cv_results_) == without_times(theirs.cv_results_)
    attributes = {name for name in vars(theirs) if name.endswith("_") and not name.startswith("_")}
    assert attributes <= set(vars(ours))
    if refit is not False:
        assert ours.best_params_ == theirs.best_params_
        assert ours.best_index_ == theirs.best_index_


def test_groups_weights_and_frames_reach_the_estimator() -> None:
    frame = pandas.DataFrame(X, columns=list("abcd"))
    arguments = {"n_iter": 3, "cv": GroupKFold(3), "random_state": 0}
    given = {"groups": numpy.arange(len(X)) % 7, "sample_weight": numpy.linspace(0.1, 2, len(X))}
    model = LogisticRegression(max_iter=500)
    theirs = RandomizedSearchCV(model, {"C": [0.01, 0.1, 1]}, **arguments).fit(frame, Y, **given)
    ours = TuneSearchCV(model, {"C": [0.01, 0.1, 1]}, **arguments).fit(frame, Y, **given)

    assert without_times(ours.cv_results_) == without_times(theirs.cv_results_)
    assert list(ours.feature_names_in_) == list("abcd")


def test_metadata_are_routed_as_in_scikit_learn() -> None:
    weights = numpy.linspace(0.1, 2, len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            LogisticRegression(max_iter=500).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        )
        theirs = RandomizedSearchCV(model, {"C": [0.01, 1]}, n_iter=2).fit(X, Y, sample_weight=weights)
        ours = TuneSearchCV(model, {"C": [0.01, 1]}, n_iter=2).fit(X, Y, sample_weight=weights)

    assert set(without_times(ours.cv_results_)["mean_test_score"]) == set(
        without_times(theirs.cv_results_)["mean_test_score"]
    )


def test_used_private_functions_of_scikit_learn_keep_their_signatures() -> None:
    """If this fails with a newer version, look at `BaseSearchCV.fit` there and change ours likewise."""
    wanted = {
        "scorer",
        "train",
        "test",
        "parameters",
        "fit_params",
        "score_params",
        "return_train_score",
        "error_score",
    }
    wanted |= {"verbose", "split_progress", "return_n_test_samples", "return_times"}
    assert wanted <= set(inspect.signature(_fit_and_score).parameters), sklearn.__version__
    for name in ("_get_scorers", "_get_routed_params_for_fit", "_check_refit_for_multimetric", "_select_best_index"):
        assert callable(getattr(BaseSearchCV, name)), sklearn.__version__
    parameters = list(inspect.signature(BaseSearchCV._format_results).parameters)
    assert parameters == ["self", "candidate_params", "n_splits", "out", "more_results"], sklearn.__version__


def test_a_function_may_give_several_scores() -> None:
    def scoring(estimator: Any, X: Any, y: Any) -> dict[str, float]:
        return {"complexity": 1 / estimator.n_neighbors, "accuracy": estimator.score(X, y)}

    search = TuneSearchCV(NEAREST, {"n_neighbors": [0, 1, 3]}, n_iter=3, cv=2, scoring=scoring, refit="accuracy")
    with pytest.warns(FitFailedWarning, match="2 fits failed"), pytest.warns(UserWarning, match="non-finite"):
        search.fit(X, Y)
    assert search.best_params_["n_neighbors"] in (1, 3)
    assert search.score(X, Y) > 0.9


def test_scripts_for_tune_sklearn_find_the_class_by_its_old_path() -> None:
    from minitune.tune.sklearn import TuneSearchCV as ByItsOldPath

    assert ByItsOldPath is TuneSearchCV


# -- candidates --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("search_alg", [None, "tpe", TPESearch(n_initial_points=2)])
def test_domains_lists_and_conditions_are_searched(search_alg: Any) -> None:
    distributions = [
        {"hidden_layer_sizes": [(4,), (6, 5)], "alpha": minitune.loguniform(1e-5, 1e-1)},
        {"solver": ["lbfgs"], "alpha": stats.loguniform(1, 10)},
    ]
    search = TuneSearchCV(
        MLPClassifier(max_iter=3), distributions, n_iter=8, cv=2, random_state=1, search_alg=search_alg
    ).fit(X, Y)

    found = search.cv_results_["params"]
    assert len(found) == 8
    for params in found:
        if "solver" in params:
            assert 1 <= params["alpha"] <= 10
        else:
            assert 1e-5 <= params["alpha"] <= 1e-1
            assert params["hidden_layer_sizes"] in [(4,), (6, 5)]
    assert {"solver" in params for params in found} == {True, False}
    assert len({params["alpha"] for params in found}) == 8


def test_auto_begins_with_the_middle() -> None:
    search = TuneSearchCV(
        SVC(C=7.0),
        {"C": minitune.loguniform(1e-4, 1.0)},
        n_iter=2,
        cv=2,
        random_state=1,
        search_alg="auto",
    ).fit(X, Y)
    assert search.cv_results_["params"][0]["C"] == pytest.approx(1e-2)


def test_estimators_may_be_searched_for() -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("model", SVC())])
    search = TuneSearchCV(
        pipeline, {"model": [SVC(), NEAREST], "scale": ["passthrough", StandardScaler()]}, n_iter=4, search_alg="tpe"
    ).fit(X, Y)

    assert isinstance(search.best_params_["model"], SVC | KNeighborsClassifier)
    assert type(search.best_estimator_["model"]) is type(search.best_params_["model"])


@pytest.mark.parametrize("early_stopping", [False, True])
def test_one_seed_gives_one_search(early_stopping: bool) -> None:
    def results() -> dict[str, Any]:
        search = TuneSearchCV(
            SGDClassifier(),  # draws from numpy's global generator
            {"alpha": minitune.loguniform(1e-6, 1e-1)},
            n_iter=5,
            search_alg="tpe",
            early_stopping=early_stopping,
            random_state=3,
        )
        return without_times(search.fit(X, Y).cv_results_)

    first = results()
    numpy.random.rand()
    assert results() == first


def test_arguments_stay_as_they_are() -> None:
    searcher, scheduler = TPESearch(), minitune.ASHAScheduler(max_t=4)
    search = TuneSearchCV(
        SGDClassifier(random_state=0),
        {"alpha": minitune.loguniform(1e-6, 1e-1)},
        search_alg=searcher,
        early_stopping=scheduler,
        max_iters=4,
        random_state=0,
    )
    first = without_times(search.fit(X, Y).cv_results_)
    assert search.search_alg is searcher
    assert search.early_stopping is scheduler
    assert without_times(search.fit(X, Y).cv_results_) == first
    assert without_times(clone(search).fit(X, Y).cv_results_) == first
    assert (pickle.loads(pickle.dumps(search)).predict(X) == search.predict(X)).all()


# -- early stopping ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(n_estimators=8, random_state=0),
        GradientBoostingClassifier(n_estimators=8, random_state=0),
        HistGradientBoostingClassifier(max_iter=8, random_state=0),
        make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=3, random_state=0)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_training_in_steps_ends_where_one_fit_ends(model: Any) -> None:
    prefix = "randomforestclassifier__" if isinstance(model, Pipeline) else ""
    name = "learning_rate" if hasattr(model, "learning_rate") else f"{prefix}max_depth"
    distributions = {name: [1, 2]}
    theirs = RandomizedSearchCV(model, distributions, n_iter=2, cv=3, random_state=0).fit(X, Y)
    ours = TuneSearchCV(
        model, distributions, n_iter=2, cv=3, random_state=0, early_stopping=FIFOScheduler(), max_iters=4
    ).fit(X, Y)

    assert last_steps(ours) == [4, 4]
    assert without_times(ours.cv_results_)["mean_test_score"] == without_times(theirs.cv_results_)["mean_test_score"]
    assert (ours.predict_proba(X) == theirs.predict_proba(X)).all()


def test_bad_candidates_are_stopped_and_the_best_is_trained_on_all_data() -> None:
    scaled = make_pipeline(StandardScaler(), SGDClassifier(random_state=0))
    search = TuneSearchCV(
        scaled, {"sgdclassifier__alpha": [1e-4, 1e-3, 1e2, 1e3, 1e4]}, n_iter=5, early_stopping=True, random_state=0
    ).fit(X, Y)

    steps = last_steps(search)
    assert max(steps) == 10
    assert min(steps) < 10
    assert steps[search.best_index_] == 10
    assert search.best_params_["sgdclassifier__alpha"] < 1
    # as many passes over the data as the candidates made, and over all of it
    assert search.best_estimator_[-1].t_ == 10 * len(X) + 1
    assert search.score(X, Y) > 0.8


def test_a_stopped_candidate_is_never_the_best() -> None:
    class WorseWithTime(Faulty):
        def partial_fit(self, X: Any, y: Any, classes: Any) -> Any:
            self.passes = getattr(self, "passes", 0) + 1
            return super().fit(X, y)

        def score(self, X: Any, y: Any) -> float:
            return float({"good": 1 - self.passes / 10, "bad": 0.85}[self.how])

    # after one pass 0.9 against 0.85, so the second is stopped; at the end 0.6 against the 0.85 of the stopped one
    search = TuneSearchCV(
        WorseWithTime(),
        [{"how": ["good"]}, {"how": ["bad"]}],
        n_iter=2,
        cv=2,
        early_stopping=minitune.ASHAScheduler(max_t=4, reduction_factor=2),
        max_iters=4,
        random_state=1,
    ).fit(X, Y)
    how = [params["how"] for params in search.cv_results_["params"]]
    assert dict(zip(how, last_steps(search), strict=True)) == {"good": 4, "bad": 1}
    assert search.best_params_ == {"how": "good"}
    assert search.best_score_ == pytest.approx(0.6)


def test_the_times_of_a_training_in_steps_are_those_of_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(*arguments: Any, **options: Any) -> dict[str, Any]:
        return {**_fit_and_score(*arguments, **options), "fit_time": 1.0, "score_time": 2.0}

    monkeypatch.setattr("minitune.sklearn.training._fit_and_score", timed)
    options = {"n_iter": 1, "cv": 2, "early_stopping": True, "max_iters": 3, "refit": False}
    search = TuneSearchCV(SGDClassifier(), {"alpha": [0.1]}, **options).fit(X, Y)
    assert [search.cv_results_[f"mean_{name}_time"][0] for name in ("fit", "score")] == [3, 6]


def test_a_paused_training_continues_from_its_checkpoint() -> None:
    model, distributions = SGDClassifier(random_state=0), {"alpha": [1e-4, 1e-3, 1e2, 1e3]}
    arguments = {"n_iter": 4, "cv": 2, "max_iters": 9, "random_state": 0}
    all_steps = TuneSearchCV(model, distributions, early_stopping=FIFOScheduler(), **arguments).fit(X, Y)
    paused = TuneSearchCV(model, distributions, early_stopping=HyperBandScheduler(max_t=9), **arguments).fit(X, Y)

    assert min(last_steps(paused)) < 9
    assert last_steps(paused)[paused.best_index_] == 9
    assert paused.best_score_ == all_steps.cv_results_["mean_test_score"][paused.best_index_]


def test_a_checkpoint_has_the_trainings_of_all_folds(tmp_path: Path) -> None:
    evaluation = FoldTask(
        make_pipeline(StandardScaler(), SGDClassifier(random_state=0)),
        X,
        Y,
        splits=[(range(0, 150, 2), range(1, 150, 2)), (range(1, 150, 2), range(0, 150, 2))],
        fit_arguments={
            "scorer": get_scorer("accuracy"),
            "fit_params": {},
            "score_params": {},
            "error_score": "raise",
            "verbose": 0,
        },
        max_iters=5,
        classes=[0, 1, 2],
        metric=None,
    )
    kind = minitune.with_parameters(CandidateTraining, evaluation=evaluation)
    config = {"params": {"sgdclassifier__alpha": 0.1}}
    first, second = kind(config), kind(config)
    first.train()
    first.save(str(tmp_path / "checkpoint"))
    second.restore(str(tmp_path / "checkpoint"))
    assert second.train()["score"] == first.train()["score"]
    for ours, theirs in zip(second._folds, first._folds, strict=True):
        assert ours.estimator[-1].t_ == theirs.estimator[-1].t_ == 2 * 75 + 1
        assert (ours.estimator[-1].coef_ == theirs.estimator[-1].coef_).all()


def test_parameters_of_fit_reach_the_last_step_of_a_pipeline() -> None:
    scaled = make_pipeline(StandardScaler(), SGDClassifier(random_state=0))
    search = TuneSearchCV(scaled, {"sgdclassifier__alpha": [1e-3]}, n_iter=1, early_stopping=True, error_score="raise")
    weights = numpy.where(Y == 0, 1.0, 0.0)
    assert set(search.fit(X, Y, sgdclassifier__sample_weight=weights).predict(X[Y == 0])) == {0}
    with pytest.raises(ValueError, match="must begin with 'sgdclassifier__'"):
        search.fit(X, Y, standardscaler__sample_weight=weights)


# -- what goes wrong ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"early_stopping": True}, "needs an estimator with partial_fit"),
        (
            {"early_stopping": True, "estimator": LogisticRegression(), "param_distributions": {}},
            "needs an estimator with partial_fit",
        ),
        ({"search_alg": "tpr"}, "did you mean 'tpe'"),
        ({"search_alg": "tpe", "param_distributions": {"n_neighbors": stats.poisson(5)}}, "'poisson' does not tell it"),
        ({"param_distributions": {"n_neighbors": minitune.sample_from(lambda config: 3)}}, "sample_from computes it"),
        ({"param_distributions": {"n_neighbors": minitune.grid_search([1, 2])}}, "list of values or a distribution"),
        ({"param_distributions": [[1]]}, "list of dicts"),
        ({"n_iter": 0}, "'n_iter' parameter"),
        ({"max_iters": 2.5}, "'max_iters' parameter"),
        ({"time_budget_s": 0}, "'time_budget_s' parameter"),
    ],
)
def test_a_bad_argument_is_refused_at_once(changes: dict[str, Any], message: str) -> None:
    search = TuneSearchCV(**{"estimator": NEAREST, "param_distributions": NEIGHBOURS, **changes})
    with pytest.raises((ValueError, TypeError), match=message):
        search.fit(X, Y)


def test_a_scheduler_that_changes_parameters_is_refused() -> None:
    population = PopulationBasedTraining(hyperparam_mutations={"alpha": [1, 2]})
    search = TuneSearchCV(SGDClassifier(), {"alpha": [1, 2]}, early_stopping=population)
    with pytest.raises(ValueError, match="PopulationBasedTraining changes them"):
        search.fit(X, Y)


@pytest.mark.skipif(not hasattr(BaseSearchCV, "set_callbacks"), reason="scikit-learn has callbacks since 1.9")
def test_callbacks_of_scikit_learn_are_refused() -> None:
    class Callback:
        def setup(self, estimator: Any, context: Any) -> None: ...

        def teardown(self, estimator: Any, context: Any) -> None: ...

        def on_fit_task_begin(self, *args: Any, **kwargs: Any) -> None: ...

        def on_fit_task_end(self, *args: Any, **kwargs: Any) -> None: ...

    search = TuneSearchCV(NEAREST, NEIGHBOURS).set_callbacks(Callback())
    with pytest.raises(ValueError, match="set them on the estimator"):
        search.fit(X, Y)


def test_a_failed_fit_has_the_error_score() -> None:
    search = TuneSearchCV(Faulty(), {"how": ["well", "raise"]}, n_iter=2, cv=2, error_score=-1, return_train_score=True)
    with pytest.warns(FitFailedWarning, match="a fault of the estimator"):
        search.fit(X, Y)
    scores = dict(zip(search.cv_results_["param_how"], search.cv_results_["mean_test_score"], strict=True))
    assert scores["raise"] == -1
    assert scores["well"] > 0


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_error_score_raise_raises_the_error(n_jobs: int) -> None:
    search = TuneSearchCV(Faulty(), {"how": ["well", "raise"]}, n_iter=2, cv=2, n_jobs=n_jobs, error_score="raise")
    with pytest.raises(KeyError, match="a fault of the estimator"):
        search.fit(X, Y)


def test_a_candidate_that_ends_its_process_has_the_error_score() -> None:
    search = TuneSearchCV(
        Faulty(), {"how": ["well", "raise", "die"]}, n_iter=3, cv=2, n_jobs=2, scoring=["accuracy"], refit="accuracy"
    )
    with (
        pytest.warns(FitFailedWarning, match=r"4 fits failed(.|\n)*a fault of the estimator"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search.fit(X, Y)
    assert search.best_params_ == {"how": "well"}
    assert numpy.isnan(search.cv_results_["mean_test_accuracy"]).sum() == 2


def test_ctrl_c_ends_the_search() -> None:
    before = signal.getsignal(signal.SIGINT)
    one_fold = [(range(100), range(100, 150))]  # so one signal: a second one would raise by itself
    search = TuneSearchCV(Faulty(), {"how": ["interrupt"] * 5}, n_iter=5, cv=one_fold, refit=False)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, Y)
    assert signal.getsignal(signal.SIGINT) is before
    assert not hasattr(search, "cv_results_")


def test_a_budget_without_any_score_gets_an_error() -> None:
    search = TuneSearchCV(NEAREST, NEIGHBOURS, time_budget_s=1e-6, n_jobs=2)
    with pytest.raises(TimeoutError, match="larger time_budget_s"):
        search.fit(X, Y)


# -- surroundings ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_is_quiet_and_leaves_nothing_behind(
    n_jobs: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary, elsewhere = tmp_path / "temporary", tmp_path / "elsewhere"
    temporary.mkdir()
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(elsewhere)
    search = TuneSearchCV(NEAREST, NEIGHBOURS, n_iter=3, n_jobs=n_jobs, random_state=0).fit(X, Y)

    assert capfd.readouterr() == ("", "")
    assert search.run_path_ is None
    assert [path for path in temporary.iterdir() if path.name.startswith("minitune-sklearn")] == []
    assert list(elsewhere.iterdir()) == []


def test_a_run_can_be_kept(tmp_path: Path) -> None:
    search = TuneSearchCV(NEAREST, NEIGHBOURS, n_iter=3, storage_path=tmp_path, name="kept", random_state=0).fit(X, Y)

    assert search.run_path_ == str(tmp_path / "kept")
    kept = minitune.ExperimentAnalysis(search.run_path_, default_metric="score", default_mode="max")
    assert kept.best_result["score"] == pytest.approx(search.best_score_)
    assert kept.best_config["params"] == search.best_params_


@pytest.mark.parametrize(("cpus", "share"), [(1.0, 0.5), (5.0, 2)])
def test_candidates_share_the_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: float, share: float) -> None:
    monkeypatch.setattr("minitune.sklearn.search_cv.cluster_resources", lambda: {"CPU": cpus})
    monkeypatch.setenv("MINITUNE_NUM_CPUS", str(int(cpus)))
    options = {"n_iter": 2, "n_jobs": 2, "storage_path": tmp_path, "cv": 2, "refit": False}
    search = TuneSearchCV(NEAREST, NEIGHBOURS, **options).fit(X, Y)
    trials = minitune.ExperimentAnalysis(search.run_path_).trials
    assert [trial.resources.required_resources["CPU"] for trial in trials] == [share, share]


def test_verbose_shows_the_progress(capfd: pytest.CaptureFixture[str]) -> None:
    TuneSearchCV(NEAREST, NEIGHBOURS, n_iter=2, verbose=1).fit(X, Y)
    assert "2 trials" in capfd.readouterr().out


def test_a_search_may_be_part_of_another() -> None:
    inner = TuneSearchCV(NEAREST, {"n_neighbors": [1, 3]}, n_iter=2, cv=2)
    outer = TuneSearchCV(inner, {"estimator__weights": ["uniform", "distance"]}, n_iter=2, cv=2, error_score="raise")
    assert set(outer.fit(X, Y).best_params_) == {"estimator__weights"}
    assert len(cross_val_score(inner, X, Y, cv=2, error_score="raise")) == 2


def test_digits_are_learned_with_all_cpus() -> None:
    digits, labels = load_digits(return_X_y=True)
    search = TuneSearchCV(
        make_pipeline(StandardScaler(), MLPClassifier((16,), random_state=0)),
        {"mlpclassifier__learning_rate_init": stats.loguniform(1e-5, 1)},
        n_iter=6,
        cv=2,
        n_jobs=-1,
        early_stopping=True,
        random_state=0,
    ).fit(digits[:900], labels[:900])
    assert search.best_score_ > 0.5  # one in ten is chance
    assert min(last_steps(search)) < 10
