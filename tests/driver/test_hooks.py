"""What a scheduler sees of the run, and what a plug-in may do with what it gets."""

from types import SimpleNamespace

import pytest
from kit import Spy, cut, deciding, fit, listening, make_trial, report_n, resume

from minitune import Searcher, Stopper, TuneConfig
from minitune.driver.hooks import DriverContext
from minitune.driver.state import RunState
from minitune.experiment.lifecycle import Transition
from minitune.search import BasicVariantGenerator


def test_a_scheduler_finds_the_trials_of_the_run_by_id_and_by_state():
    state = RunState(SimpleNamespace(tune_config=TuneConfig()))
    context = DriverContext(state, BasicVariantGenerator())
    assert (context.get_trials(), context.first_pending(), context.first_paused()) == ([], None, None)
    trials = [make_trial(number) for number in range(6)]
    for trial in trials:
        state.add(trial)
    for trial, last in ((trials[0], Transition.STOP), (trials[4], Transition.PAUSE), (trials[1], Transition.PAUSE)):
        for transition in (Transition.START, Transition.TRAIN, last):
            state.move(trial, transition)
    assert context.get_trials() == trials
    assert context.get_live_trials() == trials[1:]
    assert (context.first_pending(), context.first_paused()) == (trials[2], trials[4])
    assert context.get_trial(trials[0].trial_id) is trials[0]
    assert context.get_trial("nowhere") is None
    context.get_live_trials().clear()
    assert context.get_live_trials() == trials[1:]


def empty(told):
    """Take everything out of a result, and out of the dicts in it."""
    for value in told.values():
        if isinstance(value, dict):
            value.clear()
    told.clear()


class EmptiesSearch(Searcher):
    def suggest(self, trial_id):
        return {"net": {"size": 1}}

    def on_trial_result(self, trial_id, result):
        empty(result)

    def on_trial_complete(self, trial_id, result=None, error=False):
        empty(result or {})


class EmptiesStop(Stopper):
    def __call__(self, trial_id, result):
        empty(result)
        return False

    def stop_all(self):
        return False


def empty_all(trials, trial, result=None, **info):
    for data in (trials, trial.config):
        with pytest.raises(TypeError, match="read-only"):
            data.clear()
    for told in (result or {}, trial.config["net"], trial.last_result):
        empty(told)


def decide_and_empty(context, trial, result):
    assert context.search_alg.total_samples >= 1
    empty(result)
    return "CONTINUE"


EMPTIES = {
    "callback": lambda: {"callbacks": [listening(on_trial_result=empty_all, on_trial_complete=empty_all)]},
    "scheduler": lambda: {"scheduler": deciding(decide_and_empty)},
    "searcher": lambda: {"search_alg": EmptiesSearch()},
    "stopper": lambda: {"stop": EmptiesStop()},
}


@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("kind", EMPTIES)
def test_a_plug_in_that_empties_what_it_hears_takes_nothing_from_a_trial(kind, is_resumed):
    trainable = report_n(4, eval={"loss": 0.5})
    space = {"net": {"size": 1}}
    spy = Spy()
    settings = EMPTIES[kind]()
    settings["callbacks"] = [*settings.get("callbacks", ()), spy]
    if is_resumed:  # then it is another plug-in, which hears of all earlier results
        cut(trainable, space, results=7, num_samples=2, max_concurrent_trials=1)
        grid = resume(trainable, **settings)
    else:
        grid = fit(trainable, {} if kind == "searcher" else space, num_samples=2, **settings)
    assert [result.config for result in grid] == [space] * 2
    for result, trial in zip(grid, spy.trials, strict=True):
        assert (result.metrics["n"], result.metrics["eval"], result.metrics["done"]) == (4, {"loss": 0.5}, True)
        assert (trial.metric_analysis["n"]["avg"], trial.metric_analysis["eval/loss"]["last"]) == (2.5, 0.5)
