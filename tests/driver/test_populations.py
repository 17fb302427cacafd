"""Population based training in whole runs: the view of the trials, the files, and a resume."""

import json
from pathlib import Path

import pytest
from kit import Counter, cut, fit, report_state, restored_state, resume, run_path

from minitune import (
    ConcurrencyLimiter,
    Searcher,
    Trainable,
    TuneError,
    get_checkpoint,
    grid_search,
    report,
    uniform,
)
from minitune.schedulers.pbt import PopulationBasedTraining, PopulationBasedTrainingReplay
from minitune.search import SearchGenerator

END = 20


def pbt(**settings):
    return PopulationBasedTraining(
        **{
            "time_attr": "training_iteration",
            "metric": "score",
            "mode": "max",
            "perturbation_interval": 4,
            "hyperparam_mutations": {"lr": uniform(0, 100)},
            **settings,
        }
    )


class Climber(Trainable):
    """Gains `lr` in each step; knows which rates it has been through."""

    def setup(self, config):
        self.score, self.rates = 0.0, list[float]()

    def step(self):
        self.score += self.config["lr"]
        self.rates.append(self.config["lr"])
        return {"score": self.score, "rates": list(self.rates), "done": len(self.rates) >= END}

    def save_checkpoint(self, checkpoint_dir):
        return {"score": self.score, "rates": self.rates}

    def load_checkpoint(self, checkpoint):
        self.score, self.rates = checkpoint["score"], list(checkpoint["rates"])


class ReusedClimber(Climber):
    """The same, for workers that are handed on."""

    def reset_config(self, new_config):
        self.config = new_config
        self.score, self.rates = 0.0, []
        return True


def climb(config):
    """The same as a function."""
    checkpoint = get_checkpoint()
    rates = []
    if checkpoint is not None:
        rates = json.loads(Path(checkpoint.path, "state").read_text())
    while len(rates) < END:
        rates.append(config["lr"])
        metrics = {"score": sum(rates), "rates": list(rates), "done": len(rates) >= END}
        report_state(json.dumps(rates), metrics)


KINDS = {
    "class": (Climber, {}),
    "class, workers handed on": (ReusedClimber, {"reuse_actors": True}),
    "function": (climb, {}),
    "function, workers handed on": (climb, {"reuse_actors": True}),
}
SPACE = {"lr": grid_search([1.0, 2.0, 3.0, 50.0]), "kept": "k"}


def exploits():
    return [json.loads(line) for line in (run_path() / "pbt_global.txt").read_text().splitlines()]


def check(grid):
    """Every trial came to its end, by the rates that the files tell of."""
    assert not grid.errors
    for result in grid:
        assert result.metrics["training_iteration"] == len(result.metrics["rates"]) == END
        assert result.metrics["score"] == pytest.approx(sum(result.metrics["rates"]))
        assert result.metrics["config"] == result.config
        assert result.metrics["rates"][-1] == result.config["lr"]
        policy = run_path() / f"pbt_policy_{result.metrics['trial_id']}.txt"
        if policy.exists():
            assert result.metrics["rates"][0] == PopulationBasedTrainingReplay(policy).config["lr"]
            assert result.config == json.loads(policy.read_text().splitlines()[-1])[5]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "cpus"),
    [({}, "4"), ({"synch": True}, "2")],
    ids=["free", "synch"],
)
def test_a_population_trains_to_its_end(kind, settings, cpus, monkeypatch):
    monkeypatch.setenv("MINITUNE_NUM_CPUS", cpus)
    trainable, tune = KINDS[kind]
    grid = fit(trainable, SPACE, scheduler=pbt(**settings), num_to_keep=1, seed=1, **tune)
    check(grid)
    assert exploits()
    assert grid[0].metrics["score"] > 4 * END, "it did not stay with what it had begun with"
    assert "@perturbed[lr=" in grid[0].metrics["experiment_tag"]


def test_a_member_that_fails_before_its_first_checkpoint_goes_on_from_the_best():
    starts = []

    class Fragile(Climber):
        def step(self):
            if self.config["name"] == "fragile" and len(self.rates) == 2 and not starts:
                starts.append([])
                raise RuntimeError("no luck")
            return super().step()

        def load_checkpoint(self, checkpoint):
            super().load_checkpoint(checkpoint)
            starts.append(list(self.rates))

    grid = fit(
        Fragile,
        {"lr": 50.0, "name": grid_search(["robust", "fragile"])},
        scheduler=pbt(perturbation_interval=2),
        max_failures=1,
        seed=1,
    )
    check(grid)
    assert starts[1] == [50.0, 50.0]
    assert grid[1].metrics["rates"][:2] == [50.0, 50.0]


def test_a_searcher_is_refused():
    class Fixed(Searcher):
        def suggest(self, trial_id):
            return {"lr": 1.0}

    limited = ConcurrencyLimiter(Fixed(), 2)
    for choice, name in ((limited, "Fixed"), (SearchGenerator(Fixed()), "Fixed"), ("tpe", "TPESearch")):
        with pytest.raises(ValueError, match=f"takes no search algorithm, but got {name}; leave") as caught:
            fit(Climber, {}, scheduler=pbt(), search_alg=choice, max_concurrent_trials=2)
        assert not isinstance(caught.value, TuneError)  # of a run that has not begun
        assert not run_path().exists()
    assert fit(Climber, {"lr": 1.0}, scheduler=pbt(), search_alg="random").num_errors == 0


def test_a_result_without_time_or_metric_fails_its_trial_only():
    def odd(config):
        for n in range(1, 6):
            report({"score": n, "steps": n} if config["lr"] == 1 else {"score": n})

    scheduler = pbt(time_attr="steps", hyperparam_mutations={"lr": [1, 2]})
    grid = fit(odd, {"lr": grid_search([1, 2])}, scheduler=scheduler)
    assert [result.error is None for result in grid] == [True, False]
    assert "'steps' must be in every reported result" in str(grid[1].error)
    lenient = pbt(time_attr="steps", require_attrs=False, metric=None, mode=None, hyperparam_mutations={"lr": [1, 2]})
    grid = fit(odd, {"lr": grid_search([1, 2])}, scheduler=lenient, metric="missing", mode="max", name="lenient")
    assert not grid.errors


def test_trials_without_checkpoints_are_trained_to_their_end(caplog):
    grid = fit(Counter, {"end": 9, "lr": grid_search([1, 2, 3])}, scheduler=pbt(metric="n"))
    assert [result.metrics["n"] for result in grid] == [9, 9, 9]
    assert not (run_path() / "pbt_global.txt").exists()


def test_member_shows_the_config_of_its_last_report():
    def brief(config):
        for n in range(restored_state() + 1, 5):
            report_state(n, {"score": n * config["lr"], "lr": config["lr"]})

    grid = fit(brief, {"lr": grid_search([1.0, 50.0])}, scheduler=pbt(synch=True), seed=1)
    assert exploits()[-1][2:4] == [4, 4]
    assert [result.config["lr"] for result in grid] == [result.metrics["lr"] for result in grid] == [1.0, 50.0]


# -- replay ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["class", "function"])
def test_a_replay_trains_under_the_same_schedule(kind):
    trainable, _ = KINDS[kind]
    grid = fit(trainable, SPACE, scheduler=pbt(), metric=None, seed=1)
    best = max(
        (result for result in grid if (run_path() / f"pbt_policy_{result.metrics['trial_id']}.txt").exists()),
        key=lambda result: result.metrics["score"],
    )
    policy = run_path() / f"pbt_policy_{best.metrics['trial_id']}.txt"
    (again,) = fit(trainable, scheduler=PopulationBasedTrainingReplay(str(policy)), name="replay")
    assert len(set(again.metrics["rates"])) > 1
    assert again.metrics["rates"] == best.metrics["rates"]
    assert again.config == best.config


# -- resume ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("results", "settings"),
    [(1, {}), (18, {"synch": True}), (19, {}), (33, {"synch": True}), (47, {})],
)
def test_a_population_that_was_cut_off_goes_on(results, settings):
    cut(Climber, SPACE, results=results, scheduler=pbt(**settings), num_to_keep=1, seed=1)
    before = exploits() if (run_path() / "pbt_global.txt").exists() else []
    grid = resume(Climber)
    check(grid)
    assert exploits()[: len(before)] == before, "what was written stays, and is not written again"
    assert len(exploits()) > len(before)
