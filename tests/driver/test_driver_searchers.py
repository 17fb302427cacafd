"""The calls that searchers get; configurations that trials change; seeds."""

import pytest
from kit import (
    Counter,
    Log,
    LoggingSearcher,
    LoggingStopper,
    SavedCounter,
    Spy,
    fit,
    report_n,
    virtual_executor,
)

from minitune import (
    ConcurrencyLimiter,
    FIFOScheduler,
    Searcher,
    grid_search,
    report,
    uniform,
    with_resources,
)
from minitune.base import clock


def ends(log):
    """The trials whose end the searcher was told of."""
    return sorted(line.split()[1 if "error" not in line else 2] for line in log.of("searcher.on_trial_complete"))


def mixed(config):
    """Trials that end in all ways, by number."""
    kind = config["i"] % 5
    for n in range(1, 5):
        clock.current.sleep(1)
        if kind == 1 and n == 3:
            raise RuntimeError("no luck")
        report({"n": n, "done": kind == 2 and n == 2})
        if kind == 3:
            return


class PauseOrStop(FIFOScheduler):
    """Pauses once, and stops trials whose number ends in 4."""

    def __init__(self):
        self.paused = set()

    def on_trial_result(self, tune_controller, trial, result):
        if trial.trial_id not in self.paused:
            self.paused.add(trial.trial_id)
            return self.PAUSE
        return self.STOP if trial.number % 5 == 4 else self.CONTINUE


@pytest.mark.parametrize("wrap", [lambda searcher: searcher, lambda searcher: ConcurrencyLimiter(searcher, 3)])
def test_each_suggestion_is_told_of_exactly_once_however_its_trial_ends(wrap):
    log = Log()
    fit(
        mixed,
        search_alg=wrap(LoggingSearcher(log)),
        scheduler=PauseOrStop(),
        num_samples=10,
        max_failures=1,
        executor=virtual_executor(),
    )
    assert ends(log) == [str(number) for number in range(10)]


@pytest.mark.parametrize("how", ["stop_all", "time budget", "fail fast", "callback"])
def test_also_when_the_run_is_cut_short(how):
    log = Log()

    stopper = LoggingStopper(Log(), stop_all_when=lambda: len(log.of("searcher.on_trial_result")) > 5)

    class Stubborn(FIFOScheduler):
        """Leaves a paused trial and a few pending ones behind."""

        def on_trial_result(self, tune_controller, trial, result):
            return self.PAUSE if trial.number == 0 else self.CONTINUE

        def choose_trial_to_run(self, tune_controller):
            return tune_controller.first_pending()

    def trainable(config):
        for n in range(1, 30):
            clock.current.sleep(1)
            if how == "fail fast" and config["i"] == 2 and n == 4:
                raise RuntimeError("no luck")
            report({"n": n})

    grid = fit(
        trainable,
        search_alg=LoggingSearcher(log),
        scheduler=Stubborn(),
        num_samples=-1,
        stop={"stop_all": stopper, "callback": lambda trial_id, result: result["n"] > 3}.get(how),
        time_budget_s=None if how == "stop_all" else 10,
        fail_fast=how == "fail fast",
        executor=virtual_executor(),
    )
    assert ends(log) == sorted(str(number) for number in range(len(grid)))
    assert len(grid) == len(log.of("searcher.suggest"))


def test_a_run_that_its_stopper_ends_at_once_starts_no_trial():
    """It is asked before the first wait: a time budget begins then, even if the cluster has no room for any trial."""
    started = []

    grid = fit(started.append, num_samples=3, stop=LoggingStopper(Log(), stop_all_when=lambda: True))

    assert not started
    assert not grid.num_terminated


def test_none_means_later_and_finished_means_the_end():
    class Hesitant(Searcher):
        def __init__(self):
            super().__init__()
            self.asked = 0

        def suggest(self, trial_id):
            self.asked += 1
            if self.asked > 12:
                return self.FINISHED
            return {"i": self.asked} if self.asked % 3 == 0 else None

    grid = fit(report_n(2), search_alg=Hesitant(), num_samples=-1)
    assert [result.config["i"] for result in grid] == [3, 6, 9, 12]
    assert grid.num_terminated == 4


def test_a_searcher_is_asked_when_its_suggestion_can_start_and_not_before():
    """Until then it may hear of one more result."""
    log = Log()
    wide = with_resources(report_n(1), {"cpu": 4})
    fit(wide, search_alg=LoggingSearcher(log), num_samples=3, executor=virtual_executor(4))
    order = [line for line in log.of("searcher.") if "suggest" in line or "complete" in line]
    assert [line.split()[0].rpartition(".")[2] for line in order] == ["suggest", "on_trial_complete"] * 3


def test_a_searcher_with_a_space_of_its_own_allows_no_domains_beside_it():
    with pytest.raises(ValueError, match="x"):
        fit(Counter, {"x": uniform(0, 1), "end": 1}, search_alg=LoggingSearcher(Log()))
    grid = fit(Counter, {"end": 1}, search_alg=LoggingSearcher(Log()), num_samples=2, name="constants")
    assert [result.config for result in grid] == [{"end": 1, "i": 0}, {"end": 1, "i": 1}]


# -- configurations -------------------------------------------------------------------------------------------------


def test_change_of_a_config_in_a_trial_stays_there():
    def trainable(config):
        config["x"] = "spoilt"
        config["nested"]["list"].append(99)
        report({"n": 1})

    class Spoiling(SavedCounter):
        def setup(self, config):
            super().setup(config)
            config["nested"]["list"].append(99)
            config["x"] = "spoilt"

    space = {"x": grid_search([1, 2]), "nested": {"list": [0]}, "end": 1}
    for trainable_kind in (trainable, Spoiling):
        spy = Spy()
        grid = fit(trainable_kind, space, callbacks=[spy])
        for number, (result, trial) in enumerate(zip(grid, spy.trials, strict=True)):
            wanted = {"x": number + 1, "nested": {"list": [0]}, "end": 1}
            assert result.config == trial.config == result.metrics["config"] == wanted
    assert space == {"x": {"grid_search": [1, 2]}, "nested": {"list": [0]}, "end": 1}
