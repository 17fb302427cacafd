"""SearcherContract: what every searcher must do.

Examples:
    A file `test_my_searcher.py`, for pytest:

    ```
    class TestMySearcher(SearcherContract):
        def make_searcher(self):
            return MySearcher()
    ```

No process is started. To see values where an assert fails, call
`pytest.register_assert_rewrite("minitune.testing.searcher_contract")` before the import.
"""

from __future__ import annotations

import copy
import math
import os
import random
import statistics
from pathlib import Path
from typing import Any

from minitune.config import RunConfig
from minitune.search.searcher import Searcher
from minitune.space.domains import choice, fits, loguniform, randint, uniform
from minitune.space.tree import find_unresolved, get_value
from minitune.trainable.context import get_trial_id
from minitune.trainable.session import report
from minitune.tune_config import TuneConfig
from minitune.tuner import Tuner

Told = list[tuple[str, dict[str, Any]]]
"""Trial ids and what was suggested for them."""


class SearcherContract:
    """Subclass it, name the class `Test...`, and override `make_searcher`.

    Attributes:
        param_space: The search space of the tests. A searcher with a space of its own names that one here, and ignores
            the one of the run.
        is_random: Whether another seed gives other suggestions.
        learns: Whether later suggestions for a simple function are much better than the first ones.
    """

    param_space: dict[str, Any] = {  # noqa: RUF012 - subclasses replace it, no code changes it
        "lr": loguniform(1e-4, 1.0),
        "momentum": uniform(0.0, 1.0),
        "layers": {"count": randint(1, 9), "kind": choice(["relu", "tanh"])},
    }
    is_random = True
    learns = False

    def make_searcher(self) -> Searcher:
        """Make a searcher without seed, metric and mode."""
        raise NotImplementedError("say how a searcher is made: override make_searcher")

    def loss_of(self, config: dict[str, Any]) -> float:
        """The loss of a configuration; less is better. Override it together with the space."""
        distance = (math.log10(config["lr"]) + 2) ** 2 / 4 + (config["momentum"] - 0.9) ** 2
        return float(distance + (config["layers"]["kind"] != "relu") * 0.5)

    def ready(self, seed: int = 1, mode: str = "min") -> Searcher:
        """A searcher that is ready to suggest."""
        searcher = self.make_searcher()
        searcher.set_seed(seed)
        searcher.set_search_properties("loss", mode, self.param_space, num_samples=100, stop=None, time_budget_s=None)
        return searcher

    def play(self, searcher: Searcher, count: int, first: int = 0, sign: int = 1) -> Told:
        """Try `count` configurations, one after the other, each with a result and an end."""
        told: Told = []
        for number in range(first, first + count):
            trial_id = f"trial_{number}"
            config = suggested(searcher, trial_id)
            told.append((trial_id, config))
            result = {"loss": sign * self.loss_of(config), "training_iteration": 1}
            searcher.on_trial_result(trial_id, {**result, "loss": result["loss"] + 1})
            searcher.on_trial_complete(trial_id, {**result, "training_iteration": 2})
        return told

    # -- suggestions -------------------------------------------------------------------------------------------------

    def test_suggestions_lie_in_the_space(self) -> None:
        """Each suggestion is a new dict, in which every domain of the space has one of its values."""
        searcher = self.ready()
        told = self.play(searcher, 25)
        for _, config in told:
            for path, domain in find_unresolved(self.param_space):
                assert fits(domain, get_value(config, path)), f"{config} is not in the space, see {path}"
        assert len({id(config) for _, config in told}) == len(told)

    def test_several_trials_at_a_time(self) -> None:
        """A suggestion may be asked for before others have their results. Results come in any order."""
        searcher = self.ready()
        configs = {f"trial_{number}": suggested(searcher, f"trial_{number}") for number in range(4)}
        for trial_id in reversed(configs):
            searcher.on_trial_complete(trial_id, {"loss": self.loss_of(configs[trial_id])})
        assert isinstance(suggested(searcher, "trial_4"), dict)

    def test_what_it_is_given_stays_as_it_is(self) -> None:
        """It changes neither the space nor a result. It does not see what the caller changes in a suggestion."""
        searcher = self.ready()
        space = repr(self.param_space)
        result = {"loss": 1.0, "training_iteration": 1}
        config = suggested(searcher, "trial_0")
        kept = copy.deepcopy(config)
        config.clear()
        searcher.on_trial_complete("trial_0", result)
        assert result == {"loss": 1.0, "training_iteration": 1}
        assert repr(self.param_space) == space
        other = self.ready()
        assert suggested(other, "trial_0") == kept or not self.is_random
        other.on_trial_complete("trial_0", dict(result))
        assert suggested(searcher, "trial_1") == suggested(other, "trial_1")

    # -- what trials do ----------------------------------------------------------------------------------------------

    def test_nothing_that_trials_do_throws_it_off(self) -> None:
        """It handles failures, ends without a result, values that are not finite, pauses, and unknown ids."""
        searcher = self.ready()
        ends: list[dict[str, Any]] = [
            {"error": True},
            {"result": None},
            *({"result": {"loss": value}} for value in (math.nan, math.inf, -math.inf, 1e300)),
        ]
        for number, end in enumerate(ends * 3):
            trial_id = f"bad_{number}"
            suggested(searcher, trial_id)
            searcher.on_pause(trial_id)
            searcher.on_unpause(trial_id)
            if end.get("error"):
                searcher.on_trial_error(trial_id)
            searcher.on_trial_complete(trial_id, **end)
        searcher.on_trial_complete("unknown", {"loss": 1.0})
        searcher.on_trial_result("unknown", {"loss": 1.0})
        for _, config in self.play(searcher, 5):
            for path, domain in find_unresolved(self.param_space):
                assert fits(domain, get_value(config, path))
        searcher.on_search_end()

    # -- the same again ----------------------------------------------------------------------------------------------

    def test_a_seed_decides_everything(self) -> None:
        """The same seed gives the same suggestions, for any state of the global generator, which does not change."""
        first = self.play(self.ready(seed=1), 20)
        random.seed(99)
        state = random.getstate()
        assert self.play(self.ready(seed=1), 20) == first
        assert random.getstate() == state
        if self.is_random:
            assert self.play(self.ready(seed=2), 20) != first

    def test_max_is_min_of_the_negative(self) -> None:
        """The mode reverses the order and changes nothing else."""
        assert self.play(self.ready(mode="max"), 20, sign=-1) == self.play(self.ready(mode="min"), 20)

    def test_a_saved_state_goes_on_as_if_nothing_had_happened(self, tmp_path: Path) -> None:
        """A new searcher with a saved state makes the same suggestions as the old one, even with a running trial."""
        plain = self.ready()
        cut = self.ready()
        path = str(tmp_path / "searcher")
        told: list[Told] = []
        for searcher in (plain, cut):
            self.play(searcher, 12)
            running = suggested(searcher, "running")
            if searcher is cut:
                cut.save(path)
                searcher = self.ready(seed=2)  # as after a crash
                searcher.restore(path)
            searcher.on_trial_complete("running", {"loss": self.loss_of(running)})
            told.append(self.play(searcher, 8, first=12))
        assert told[0] == told[1]
        assert os.listdir(tmp_path) == ["searcher"]

    # -- in a run ----------------------------------------------------------------------------------------------------

    def test_it_learns(self) -> None:
        """Half of the later suggestions are better than the best quarter of the first ones (`learns`)."""
        for seed in (1, 2, 3) if self.learns else ():
            losses = [self.loss_of(config) for _, config in self.play(self.ready(seed), 60)]
            assert statistics.median(losses[40:]) < statistics.quantiles(losses[:20])[0]

    def test_it_serves_a_run(self, tmp_path: Path) -> None:
        """A run gets its trials from it. One of them fails."""

        def train(config: dict[str, Any]) -> None:
            report({"loss": self.loss_of(config)})
            if str(get_trial_id()).endswith("_00002"):
                raise RuntimeError("this one fails")

        tuner = Tuner(
            train,
            param_space=self.param_space,
            tune_config=TuneConfig(
                search_alg=self.make_searcher(), metric="loss", mode="min", num_samples=6, seed=1, executor="inline"
            ),
            run_config=RunConfig(storage_path=tmp_path, verbose=0),
        )
        grid = tuner.fit()
        assert (len(grid), grid.num_errors, grid.num_terminated) == (6, 1, 5)


def suggested(searcher: Searcher, trial_id: str) -> dict[str, Any]:
    """Return a suggestion, which the searcher must have at this point."""
    config = searcher.suggest(trial_id)
    assert isinstance(config, dict), f"a suggestion for {trial_id} was expected, but got {config!r}"
    return config
