"""Schedulers, searchers and stoppers as users write them for Ray Tune, in whole runs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from kit import fit

from minitune.error import TuneError
from minitune.experiment.experiment import Experiment
from minitune.experiment.trial import Trial
from minitune.result_grid import ResultGrid
from minitune.schedulers import FIFOScheduler, TrialScheduler
from minitune.search import BasicVariantGenerator, ConcurrencyLimiter, Repeater, SearchAlgorithm, Searcher
from minitune.space.domains import grid_search, uniform
from minitune.stopper import Stopper
from minitune.trainable.session import report


def train(config: dict[str, Any]) -> None:
    for i in range(config.get("n", 4)):
        if config.get("fail") == i:
            raise RuntimeError("boom")
        report({"score": config["x"] * (i + 1), "nest": {"v": i}})


def fit_with(path: Path, space: dict[str, Any], num_samples: int = 1, **settings: Any) -> ResultGrid:
    return fit(train, space, num_samples=num_samples, seed=1, storage_path=path, **settings)


class Telling:
    """Notes what it hears, with trials by number."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def note(self, what: str, trial: Trial | str, *more: Any) -> None:
        trial_id = trial if isinstance(trial, str) else trial.trial_id
        self.told.append((what, int(trial_id[-2:]), *more))

    def of(self, what: str) -> list[tuple[Any, ...]]:
        return [more for name, *more in self.told if name == what]  # type: ignore[misc]  # tuples from lists


# -- schedulers -----------------------------------------------------------------------------------------------------


class CutInHalf(Telling, TrialScheduler):
    """Pauses everyone at the second result, ends the worse half and changes the configuration of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cut = False

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        self.note("add", trial, trial.status)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        self.note("result", trial, result["training_iteration"], trial.config["x"])
        if result["training_iteration"] != 2 or self.is_cut:
            return TrialScheduler.CONTINUE
        paused = [t for t in tune_controller.get_live_trials() if t is not trial and t.status == Trial.PAUSED]
        if len(paused) + 1 == len(tune_controller.get_trials()):
            self.is_cut = True
            paused.sort(key=lambda t: t.last_result["score"])
            for worse in paused[:2]:
                tune_controller.stop_trial(worse)
            for better in paused[2:]:
                better.set_config({**better.config, "x": better.config["x"] * 10})
                better.set_experiment_tag(better.experiment_tag + "@perturbed")
        return TrialScheduler.PAUSE

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        self.note("complete", trial, trial.status, result["training_iteration"], result["done"])

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        self.note("remove", trial, trial.status)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        wanted = [Trial.PENDING, Trial.PAUSED] if self.is_cut else [Trial.PENDING]
        return next((t for status in wanted for t in tune_controller.get_trials() if t.status == status), None)

    def debug_string(self) -> str:
        return "half of them"


def test_a_scheduler_that_pauses_stops_and_changes_others(tmp_path: Path) -> None:
    scheduler = CutInHalf()
    grid = fit_with(tmp_path, {"x": grid_search([1, 2, 3, 4])}, scheduler=scheduler)
    assert scheduler.of("add") == [[n, "PENDING"] for n in range(4)]
    assert scheduler.of("remove") == [[0, "PAUSED"], [1, "PAUSED"]]
    # a function without checkpoints starts anew when it goes on
    assert [config for number, _, config in scheduler.of("result") if number == 2][-1] == 30
    assert {tuple(one) for one in scheduler.of("complete")} == {(2, "RUNNING", 4, True), (3, "RUNNING", 4, True)}
    assert [result.config["x"] for result in grid] == [1, 2, 30, 4]
    assert not grid.errors


class AsksForAPause(FIFOScheduler):
    asked = 0

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        assert tune_controller._resource_updater.get_num_cpus() > 0
        assert tune_controller._resource_updater.get_num_gpus() >= 0
        assert tune_controller.search_alg.total_samples == 2
        assert tune_controller.get_trial(trial.trial_id) is trial
        assert tune_controller.get_trial("unknown") is None
        if result["training_iteration"] == 2 and self.asked < 2:
            self.asked += 1
            tune_controller.pause_trial(trial, should_checkpoint=False)
            assert trial.status == Trial.RUNNING  # requests are carried out after the hook
            return TrialScheduler.NOOP
        return TrialScheduler.CONTINUE


def test_a_scheduler_that_asks_and_returns_noop(tmp_path: Path) -> None:
    scheduler = AsksForAPause()
    grid = fit_with(tmp_path, {"x": grid_search([1, 2])}, scheduler=scheduler)
    assert scheduler.asked == 2
    assert [result.metrics["score"] for result in grid] == [4, 8]


def test_a_scheduler_hears_of_every_failure(tmp_path: Path) -> None:
    class Hears(Telling, FIFOScheduler):
        def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
            self.note("add", trial, trial.status)

        def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
            self.note("error", trial, trial.num_failures)

    scheduler = Hears()
    grid = fit_with(tmp_path, {"x": 1, "fail": 1}, scheduler=scheduler, max_failures=1)
    assert scheduler.told == [("add", 0, "PENDING"), ("error", 0, 1), ("add", 0, "PENDING"), ("error", 0, 2)]
    assert len(grid.errors) == 1


# -- searchers ------------------------------------------------------------------------------------------------------


class Counting(Telling, Searcher):
    """Suggests x = 1, 2, ...; saves itself with pickle."""

    def __init__(self, metric: str = "score", mode: str = "max", failing: int = 0, answer: Any = None):
        Telling.__init__(self)
        Searcher.__init__(self, metric=metric, mode=mode)
        self.count = 0
        self.failing = failing
        self.answer = answer

    def set_search_properties(self, metric: Any, mode: Any, config: Any) -> bool:  # type: ignore[override]  # the old form
        return False

    def suggest(self, trial_id: str) -> Any:
        if self.answer is not None and self.count == 2:
            return self.answer
        self.count += 1
        self.note("suggest", trial_id, self.count)
        return {"x": self.count, **({"fail": 1} if self.count == self.failing else {})}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.note("result", trial_id, result["nest/v"])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.note("complete", trial_id, result and result[self.metric], error)  # type: ignore[index]  # one metric

    def save(self, checkpoint_path: str) -> None:
        with open(checkpoint_path, "wb") as file:
            pickle.dump(self.count, file)

    def restore(self, checkpoint_path: str) -> None:
        with open(checkpoint_path, "rb") as file:
            self.count = pickle.load(file)


def test_a_searcher_hears_of_steps_and_of_each_end_once(tmp_path: Path) -> None:
    searcher = Counting(failing=2)
    fit_with(tmp_path, {"n": 2}, 3, search_alg=searcher, max_concurrent_trials=1)
    assert searcher.told == [
        *[("suggest", 0, 1), ("result", 0, 0), ("result", 0, 1), ("complete", 0, 2, False)],
        *[("suggest", 1, 2), ("result", 1, 0), ("complete", 1, None, True)],
        *[("suggest", 2, 3), ("result", 2, 0), ("result", 2, 1), ("complete", 2, 6, False)],
    ]


def test_a_batch_holds_although_trials_run_one_by_one(tmp_path: Path) -> None:
    searcher = Counting()
    limited = ConcurrencyLimiter(searcher, max_concurrent=2, batch=True)
    fit_with(tmp_path, {"n": 1}, 3, search_alg=limited)
    kinds = [(what, number) for what, number, *_ in searcher.told if what != "result"]
    assert [one for one in kinds if one[0] == "complete"] == [("complete", n) for n in range(3)]
    assert kinds.index(("complete", 0)) > kinds.index(("suggest", 1))
    assert kinds.index(("complete", 1)) < kinds.index(("suggest", 2))


def test_repeats_are_told_of_as_their_mean(tmp_path: Path) -> None:
    searcher = Counting()
    grid = fit_with(
        tmp_path, {"n": 1}, 4, search_alg=ConcurrencyLimiter(Repeater(searcher, repeat=2), max_concurrent=1)
    )
    assert [(r.config["x"], r.config["__trial_index__"]) for r in grid] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert searcher.of("complete") == [[0, 1, False], [2, 2, False]]


def test_a_searcher_that_is_finished_ends_the_run(tmp_path: Path) -> None:
    assert len(fit_with(tmp_path, {"n": 1}, -1, search_alg=Counting(answer=Searcher.FINISHED))) == 2


def test_a_suggestion_of_the_wrong_type_is_named(tmp_path: Path) -> None:
    with pytest.raises(TuneError, match=r"suggest\(\) must return a dict, None or .*Counting returned \[1\]"):
        fit_with(tmp_path, {"n": 1}, 3, search_alg=Counting(answer=[1]))


def test_a_searcher_with_its_own_space_takes_no_domains(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="param_space must hold constants only, but got a domain at 'y'"):
        fit_with(tmp_path, {"y": uniform(0, 1)}, search_alg=Counting())


def test_a_search_algorithm_of_the_old_form(tmp_path: Path) -> None:
    class Every(BasicVariantGenerator):
        config: Any = None

        def set_search_properties(self, metric: Any, mode: Any, config: Any) -> bool:  # type: ignore[override]  # old
            self.config = config
            return super().set_search_properties(metric, mode, config)

    search_alg = Every()
    assert len(fit_with(tmp_path, {"x": grid_search([1, 2]), "n": 1}, search_alg=search_alg)) == 2


class MakesTrials(SearchAlgorithm):
    """Makes its trials itself, as Ray Tune's base classes have it."""

    def __init__(self) -> None:
        self.left = [1, 2, 3]
        self.saved: list[str] = []

    def add_configurations(self, experiments: Any) -> None:
        (self.experiment,) = [experiments] if isinstance(experiments, Experiment) else list(experiments)

    def next_trial(self) -> Trial | None:
        if not self.left:
            self.set_finished()
            return None
        x, spec = self.left.pop(0), self.experiment.spec
        return Trial(
            spec["run"],
            config={"x": x, **spec["config"]},
            evaluated_params={"x": x},
            experiment_tag=str(x),
            stopping_criterion=spec["stop"],
            storage=self.experiment.storage,
        )

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None: ...

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None: ...

    def save_to_dir(self, dirpath: str, **kwargs: Any) -> None:
        self.saved.append(kwargs["session_str"])


def test_a_search_algorithm_that_makes_its_trials_itself(tmp_path: Path) -> None:
    search_alg = MakesTrials()
    grid = fit_with(tmp_path, {"n": 3}, stop={"nest/v": 1}, search_alg=search_alg)
    assert [result.config for result in grid] == [{"x": x, "n": 3} for x in (1, 2, 3)]
    assert [result.metrics["training_iteration"] for result in grid] == [2, 2, 2]
    assert search_alg.saved
    assert search_alg.experiment.storage.experiment_fs_path == grid.experiment_path == str(Path(grid[0].path).parent)


# -- stoppers -------------------------------------------------------------------------------------------------------


class EndsAll(Stopper):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self.seen.append(result["nest"]["v"])
        return bool(result["training_iteration"] >= 3)

    def stop_all(self) -> bool:
        return len(self.seen) >= 5


def test_a_stopper_sees_nested_results_and_ends_the_run(tmp_path: Path) -> None:
    stopper, searcher = EndsAll(), Counting()
    grid = fit_with(tmp_path, {}, 4, stop=stopper, search_alg=searcher, max_concurrent_trials=1)
    assert stopper.seen == [0, 1, 2, 0, 1]
    assert [result.metrics["training_iteration"] for result in grid] == [3, 2]
    assert searcher.of("complete") == [[0, 3, False], [1, 4, False]]


@pytest.mark.parametrize(
    ("stop", "iterations"),
    [
        (lambda trial_id, result: result["score"] >= 4, [4, 2]),
        ({"nest/v": 1}, [2, 2]),
        ({"score": 4, "training_iteration": 3}, [3, 2]),
        ({"score": ("<", 3)}, [1, 1]),
        ({"never/there": 1}, [4, 4]),
    ],
)
def test_rules(tmp_path: Path, stop: Any, iterations: list[int]) -> None:
    grid = fit_with(tmp_path, {"x": grid_search([1, 2])}, stop=stop)
    assert [result.metrics["training_iteration"] for result in grid] == iterations
