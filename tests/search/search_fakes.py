"""Experiments without a run, and searchers that write down what they hear."""

from __future__ import annotations

from typing import Any

from minitune.experiment.trial import Trial
from minitune.experiment.trial_maker import TrialMaker
from minitune.search import BasicVariantGenerator, SearchAlgorithm, Searcher, SearchGenerator


class FakeExperiment:
    def __init__(self, param_space: dict[str, Any] | None = None, num_samples: int = 1, prefix: str = "abcde"):
        self.param_space = param_space or {}
        self.num_samples = num_samples
        self.maker = TrialMaker("train", prefix=prefix)


class Recording(Searcher):
    """Suggests {"x": 0}, {"x": 1}, ...; what it hears is in `heard`."""

    def __init__(self, limit: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.limit = limit
        self.count = 0
        self.heard: list[tuple[Any, ...]] = []

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self.count == self.limit:
            return Searcher.FINISHED
        self.count += 1
        self.heard.append(("suggest", trial_id))
        return {"x": self.count - 1}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.heard.append(("result", trial_id, result))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.heard.append(("complete", trial_id, result, error))

    def on_trial_error(self, trial_id: str) -> None:
        self.heard.append(("error", trial_id))

    def on_pause(self, trial_id: str) -> None:
        self.heard.append(("pause", trial_id))

    def on_unpause(self, trial_id: str) -> None:
        self.heard.append(("unpause", trial_id))

    def completed(self) -> list[str]:
        return [event[1] for event in self.heard if event[0] == "complete"]


class Listed(Searcher):
    """Suggests what it is given, in order; takes any space."""

    def __init__(self, *suggestions: Any):
        super().__init__()
        self.suggestions = list(suggestions)

    def set_search_properties(self, metric: Any, mode: Any, config: Any, **spec: Any) -> bool:
        return True

    def suggest(self, trial_id: str) -> Any:
        return self.suggestions.pop(0) if self.suggestions else Searcher.FINISHED


def basic(space: dict[str, Any], num_samples: int = 1, seed: int = 7, **kwargs: Any) -> BasicVariantGenerator:
    """A generator over one experiment."""
    generator = BasicVariantGenerator(**kwargs)
    generator.set_seed(seed)
    generator.add_configurations(FakeExperiment(space, num_samples))
    return generator


def suggesting(searcher: Searcher, space: dict[str, Any] | None = None, num_samples: int = 10) -> SearchGenerator:
    """A SearchGenerator over one experiment."""
    generator = SearchGenerator(searcher)
    generator.set_seed(7)
    generator.set_search_properties("loss", "min", space or {}, num_samples=num_samples)
    generator.add_configurations(FakeExperiment(space, num_samples))
    return generator


def all_trials(algorithm: SearchAlgorithm, limit: int = 1000) -> list[Trial]:
    """Ask until the algorithm is finished, completing nothing."""
    trials: list[Trial] = []
    while not algorithm.is_finished() and len(trials) < limit:
        trial = algorithm.next_trial()
        if trial is not None:
            trials.append(trial)
    return trials


def configs(algorithm: SearchAlgorithm, limit: int = 1000) -> list[dict[str, Any]]:
    """The configurations of `all_trials`."""
    return [trial.config for trial in all_trials(algorithm, limit)]
