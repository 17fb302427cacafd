"""Plug-ins over a resume: they get their own states, and then the events after these, each once."""

import random
import threading
from collections import Counter

import pytest
from kit import (
    CutAfter,
    Learner,
    SavedCounter,
    Spy,
    counting,
    cut,
    fit,
    journal_of,
    newest_state,
    resume,
    run_path,
    virtual_executor,
)

from minitune import (
    Callback,
    FIFOScheduler,
    Searcher,
    Stopper,
    TuneError,
    report,
)
from minitune.base import clock
from minitune.driver import driver as _driver
from minitune.driver import snapshot

pytestmark = pytest.mark.usefixtures("inline")

ONE_BY_ONE = {"max_concurrent_trials": 1}


@pytest.fixture(params=["0", "3600"])
def save_period(request, monkeypatch):
    """States are saved at every turn, or only at the end."""
    period = request.param
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", period)
    return period


@pytest.fixture
def timed(monkeypatch):
    """Makes virtual executors whose clocks tell, too, when it is time to save."""

    def executor():
        made = virtual_executor()
        for module in (snapshot, _driver):
            monkeypatch.setattr(module, "time", made.clock)
        return made

    return executor


# -- searchers -----------------------------------------------------------------------------------------------------


class SavedLearner(Learner):
    """Says what its state is, so that it takes over the saved one also where it is given again."""

    def get_state(self):
        return super().get_state()


@pytest.mark.parametrize(("reports", "results"), [*((3, results) for results in range(3, 12)), (40, 100)])
def test_searcher_gets_the_results_after_its_last_state(reports, results, timed, monkeypatch):
    """Whole trials may have come and gone since then. Of one with many results, the record of its end has the sum."""
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "11")

    def slowly(config):
        for n in range(1, reports + 1):
            clock.current.sleep(6 / reports)
            report({"n": n, "score": n})

    settings = {"num_samples": 4, **ONE_BY_ONE}
    fit(slowly, None, search_alg=SavedLearner(5), name="whole", executor=timed(), **settings)
    cut(slowly, None, results=results, search_alg=SavedLearner(5), executor=timed(), **settings)
    has_state = any(run_path().glob("plugins-*"))
    assert has_state == ((results - 1) * 6 / reports > 11), "a turn after 11 seconds saves, and no other turn"
    resume(slowly, callbacks=(), search_alg=SavedLearner(5), executor=timed(), **settings)
    whole = newest_state("searcher", run_path("whole"))["heard"]
    heard = newest_state("searcher")["heard"]
    assert set(heard) == set(whole)
    assert [line for line in heard if "complete" in line] == [line for line in whole if "complete" in line]


class Scoring(SavedCounter):
    """Counts to three, and is saved when a signal comes."""

    def setup(self, config):
        super().setup({"end": 3})

    def step(self):
        return {**super().step(), "score": self.n * self.config["i"]}


@pytest.mark.parametrize("trainable", [counting(3), Scoring], ids=["function", "class"])
@pytest.mark.parametrize("results", [2, 3, 5])
def test_a_searcher_that_was_told_of_an_interrupt_does_not_remember_that(trainable, results):
    whole = fit(trainable, None, search_alg=Learner(5), num_samples=3, name="whole", **ONE_BY_ONE)
    cut(trainable, None, results=results, how="SIGINT", search_alg=Learner(5), num_samples=3, **ONE_BY_ONE)
    assert list(run_path().glob("plugins-*")), "it was saved before it was told"
    grid = resume(trainable, callbacks=())
    assert [result.config for result in grid] == [result.config for result in whole]
    assert newest_state("searcher")["heard"] == newest_state("searcher", run_path("whole"))["heard"]


class Unrepeatable(Searcher):
    """Draws from a generator that no one seeds, and remembers what it has proposed, in the manner of Ray Tune."""

    def __init__(self):
        super().__init__(metric="score", mode="max")
        self.proposed = {}
        self.results = {}

    def suggest(self, trial_id):
        self.proposed[trial_id] = random.SystemRandom().random()
        return {"i": self.proposed[trial_id]}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.results[trial_id] = result["score"] if result else 0.0

    def save(self, checkpoint_path):
        raise NotImplementedError("only users call it")

    def restore(self, checkpoint_path):
        raise NotImplementedError("only users call it")


@pytest.mark.parametrize("again", [False, True])
def test_the_attributes_of_a_searcher_are_its_state(again, monkeypatch):
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "0")
    cut(counting(2), None, results=5, search_alg=Unrepeatable(), num_samples=5, **ONE_BY_ONE)
    recorded = {record["trial"]: record["config"]["i"] for record in journal_of() if record["type"] == "trial"}
    settings = {"search_alg": Unrepeatable(), "num_samples": 5, **ONE_BY_ONE} if again else {}
    grid = resume(counting(2), callbacks=(), **settings)
    configs = {result.metrics["trial_id"]: result.config["i"] for result in grid}
    assert configs.items() >= recorded.items()
    state = newest_state("searcher")
    assert state["proposed"] == configs
    assert state["results"] == {trial_id: 2 * i for trial_id, i in configs.items()}


def test_a_searcher_that_is_not_saved_hears_all_again(monkeypatch, caplog):
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "0")

    class NotSaved(Learner):
        def get_state(self):
            raise NotImplementedError

    cut(counting(2), None, results=3, search_alg=NotSaved(), num_samples=3, **ONE_BY_ONE)
    assert caplog.text.count("state of the searcher cannot be saved") == 1
    searcher = NotSaved()
    grid = resume(counting(2), callbacks=(), search_alg=searcher, num_samples=3, **ONE_BY_ONE)
    assert len(grid) == 3
    assert set(Counter(searcher.heard).values()) == {1}
    assert len(searcher.heard) == 3 * 4


@pytest.mark.parametrize("damage", ["remove", "empty", "tear", "change", "other"])
def test_a_damaged_state_is_not_used(damage):
    fit(counting(2), None, search_alg=Learner(2), num_samples=3, **ONE_BY_ONE)
    whole = fit(counting(2), None, search_alg=Learner(2), num_samples=5, name="whole", **ONE_BY_ONE)
    older = sorted(run_path("whole").glob("plugins-*.pkl"))[0].read_bytes()
    for path in run_path().glob("plugins-*.pkl"):
        data = path.read_bytes()
        if damage == "remove":
            path.unlink()
        else:
            path.write_bytes({"empty": b"", "tear": data[:-3], "change": data[:-1] + b"!", "other": older}[damage])
    grid = resume(counting(2), add_samples=2)
    assert [result.config for result in grid] == [result.config for result in whole]


def test_a_state_that_does_not_fit_is_named_and_not_used(caplog):
    class Picky(Learner):
        def set_state(self, state):
            raise ValueError("from another time")

    fit(counting(2), None, search_alg=Picky(2), num_samples=3, **ONE_BY_ONE)
    whole = fit(counting(2), None, search_alg=Learner(2), num_samples=5, name="whole", **ONE_BY_ONE)
    grid = resume(counting(2), add_samples=2)
    assert "from another time" in caplog.text
    assert [result.config for result in grid] == [result.config for result in whole]


def test_only_two_snapshots_are_kept(monkeypatch):
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "0")
    fit(counting(3), None, search_alg=Learner(), num_samples=3)
    assert sum(record["type"] == "state" for record in journal_of()) > 5
    assert len(list(run_path().glob("plugins-*"))) == 2
    assert not list(run_path().glob(".tmp*"))


# -- schedulers ----------------------------------------------------------------------------------------------------


class Ranks(FIFOScheduler):
    """Keeps trials themselves, and the first argument of its hooks, as schedulers of users do."""

    def __init__(self):
        self.best = {}
        self.context = None
        self.told = []

    def on_trial_add(self, tune_controller, trial):
        self.context = tune_controller
        self.best[trial] = 0

    def on_trial_result(self, tune_controller, trial, result):
        assert tune_controller is self.context
        assert trial in self.best, "it is the very same object"
        self.best[trial] = max(self.best[trial], result["n"])
        self.told.append(f"{trial.number} {result['n']}")
        return self.CONTINUE


@pytest.mark.parametrize("results", [2, 8])
def test_a_scheduler_finds_its_trials_again(results, save_period):
    cut(counting(3), {"i": 1}, results=results, scheduler=Ranks(), num_samples=3, **ONE_BY_ONE)

    resume(counting(3), callbacks=[spy := Spy()])
    assert [trial.last_result["n"] for trial in spy.trials] == [3, 3, 3]
    seen = []

    class Keep(Ranks):
        def restore(self, checkpoint_path):
            seen.append(checkpoint_path)

    scheduler = Keep()
    resume(counting(3), callbacks=(), scheduler=scheduler, num_samples=3)
    assert not seen, "the state of another class is not for it"
    assert scheduler.told == [f"{trial} {n}" for trial in range(3) for n in (1, 2, 3)]
    assert {trial.number: best for trial, best in scheduler.best.items()} == {0: 3, 1: 3, 2: 3}


def test_scheduler_given_at_a_resume_keeps_its_new_arguments(monkeypatch):
    """Its class does not say what its state is, so the state that was saved holds the arguments of the earlier one."""
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "0")

    class Limit(FIFOScheduler):
        def __init__(self, most):
            self.most = most

        def on_trial_result(self, tune_controller, trial, result):
            return self.STOP if result["n"] >= self.most else self.CONTINUE

    cut(counting(9), {"i": 1}, results=2, scheduler=Limit(3), num_samples=2, **ONE_BY_ONE)
    grid = resume(counting(9), callbacks=(), scheduler=Limit(5), num_samples=2)
    assert [result.metrics["n"] for result in grid] == [5, 5]


# -- stoppers ------------------------------------------------------------------------------------------------------


def test_a_resumed_run_has_the_rest_of_its_time(monkeypatch):
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "0")

    forever = {"num_samples": -1, "time_budget_s": 10}

    def trainable(config):
        for n in range(1, 100):
            clock.current.sleep(1)
            report({"n": n})

    def interrupt(trial, result):
        if result["n"] == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(trainable, callbacks=[Spy(interrupt)], executor=virtual_executor(1), **forever)
    grid = resume(trainable, callbacks=(), executor=virtual_executor(1), **forever)
    assert 4 <= grid[0].metrics["n"] <= 6, "five or six of ten seconds were used up"


class Third(Stopper):
    """Stops a trial at the third result of the whole run, the sixth and so on."""

    def __init__(self):
        self.count = 0

    def __call__(self, trial_id, result):
        self.count += 1
        return self.count % 3 == 0


@pytest.mark.parametrize("results", [1, 4])
def test_a_stopper_counts_each_result_once(results, save_period):
    whole = fit(counting(9), {"i": 1}, num_samples=3, name="whole", stop=Third(), **ONE_BY_ONE)
    cut(counting(9), {"i": 1}, results=results, num_samples=3, stop=Third(), **ONE_BY_ONE)
    grid = resume(counting(9), stop=Third())
    assert [result.metrics["n"] for result in grid] == [result.metrics["n"] for result in whole] == [3, 3, 3]


class Saved(Third):
    """Saves its state by itself."""

    is_loaded = False

    def get_state(self):
        return {"count": self.count}

    def set_state(self, state):
        self.is_loaded = True
        self.count = state["count"]


class Renamed(Saved):
    """Another class, whose state has the same form."""


@pytest.mark.parametrize(("stop", "is_loaded"), [(Saved(), True), (Renamed(), False)])
def test_a_stopper_of_another_class_gets_no_saved_state(stop, is_loaded, monkeypatch):
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "0")
    cut(counting(9), {"i": 1}, results=4, num_samples=3, stop=Saved(), **ONE_BY_ONE)
    grid = resume(counting(9), stop=stop)
    assert [result.metrics["n"] for result in grid] == [3, 3, 3]
    assert (stop.count, stop.is_loaded) == (9, is_loaded)


# -- callbacks -----------------------------------------------------------------------------------------------------


class Heard(Callback):
    """Counts results, over resumes."""

    def __init__(self, name=""):
        self.name = name
        self.count = 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.count += 1

    def get_state(self):
        return {"count": self.count, "name": self.name}

    def set_state(self, state):
        assert state["name"] == self.name
        self.count = state["count"]


@pytest.mark.parametrize("again", [False, True])
def test_callbacks_get_their_states_by_position(again, monkeypatch):
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "0")
    callbacks = [Heard("first"), Heard("second"), CutAfter(4), Heard("third")]
    with pytest.raises(TuneError):
        fit(counting(3), {"i": 1}, num_samples=2, callbacks=callbacks, **ONE_BY_ONE)
    given = [Heard("first"), Heard("second"), CutAfter(0), Heard("third")]
    resume(counting(3), **({"callbacks": given} if again else {}))
    counts = [newest_state(f"callback {number}")["count"] for number in (0, 1, 3)]
    assert counts == [6, 6, 6], "the result at which the run was cut off is not in a snapshot, and comes again"
    if again:
        assert [callback.count for callback in given if isinstance(callback, Heard)] == counts


def test_callback_of_another_class_gets_no_saved_state(monkeypatch):
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "0")

    class Other(Heard):
        pass

    cut(counting(3), results=2, callbacks=[Heard("first"), Heard("second")])
    given = [CutAfter(0), Other("first"), Heard("second")]
    resume(counting(3), callbacks=given)
    assert [callback.count for callback in given if isinstance(callback, Heard)] == [2, 3]


def test_a_callback_that_cannot_be_saved_spoils_nothing(caplog):
    class Bad(Heard):
        def get_state(self):
            return {"lock": threading.Lock()}

    fit(counting(3), {"i": 1}, callbacks=[Heard("good"), Bad("bad")])
    assert "the state of the callback 1 cannot be saved (" in caplog.text
    good = Heard("good")
    resume(counting(3), callbacks=[good, Heard("bad")])
    assert good.count == 3


@pytest.mark.parametrize(("takes_s", "saves"), [(0.0, 39), (2.0, 1)])
def test_snapshots_take_at_most_a_twentieth_of_the_time(takes_s, saves, timed):
    class Slow(FIFOScheduler):
        def get_state(self):
            saved.append(clock.current.monotonic())
            clock.current.sleep(takes_s)
            return {}

    def trainable(config):
        for n in range(41):
            clock.current.sleep(1.0)
            report({"n": n})

    saved = []
    fit(trainable, scheduler=Slow(), executor=timed())
    assert len([at_s for at_s in saved if at_s < 40]) == saves
