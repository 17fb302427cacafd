"""Plug-ins that raise: the run ends, names the plug-in, leaves nothing behind, and can be resumed."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from kit import RUN, PauseOnce, SavedCounter, fit, journal_of, listening, raiser, resume, run_path

from minitune import (
    Callback,
    ConcurrencyLimiter,
    FIFOScheduler,
    ProgressReporter,
    Searcher,
    Stopper,
    TuneError,
    Tuner,
)
from minitune.stopper import CombinedStopper


class Bad(Exception):
    """What the plug-ins of these tests raise."""


class Failing(SavedCounter):
    """Fails once, so that all hooks have their turn."""

    failed: list[int]

    def step(self):
        if self.n == 3 and not self.failed:
            self.failed.append(1)
            raise RuntimeError("once")
        return super().step()


class Always(Searcher):
    def suggest(self, trial_id):
        return {"end": 6}


def spoiled(base, hook, error):
    """An instance of a subclass named `Spoiled` whose `hook` raises."""
    method = raiser(error)
    method.__name__ = hook
    return type("Spoiled", (base,), {hook: method})()


def run_with(kind, hook, error, executor="inline"):
    base = {"callback": Callback, "scheduler": PauseOnce, "searcher": Always, "stopper": Stopper}
    settings = {"search_alg": Always(), "scheduler": PauseOnce(), "callbacks": [], "stop": Stopper()}
    bad = spoiled(base[kind], hook, error)
    if kind == "callback":
        settings["callbacks"] = [bad]
    else:
        settings[{"scheduler": "scheduler", "searcher": "search_alg", "stopper": "stop"}[kind]] = bad
    return fit(
        type("Failing", (Failing,), {"failed": []}),
        num_samples=2,
        max_failures=1,
        checkpoint_frequency=1,
        executor=executor,
        **settings,
    )


HOOKS = [
    ("callback", "setup", ""),
    ("callback", "on_step_begin", ""),
    ("callback", "on_step_end", ""),
    ("callback", "on_trial_start", "00000"),
    ("callback", "on_trial_restore", "00000"),
    ("callback", "on_trial_save", "00000"),
    ("callback", "on_trial_result", "00000"),
    ("callback", "on_checkpoint", "00000"),
    ("callback", "on_trial_complete", "0000"),
    ("callback", "on_trial_recover", "0000"),
    ("callback", "on_experiment_end", ""),
    ("scheduler", "on_trial_add", "00000"),
    ("scheduler", "on_trial_error", "0000"),
    ("scheduler", "on_trial_result", "00000"),
    ("scheduler", "on_trial_complete", "0000"),
    ("scheduler", "choose_trial_to_run", ""),
    ("searcher", "suggest", ""),
    ("searcher", "on_trial_result", "00000"),
    ("searcher", "on_trial_complete", "0000"),
    ("searcher", "on_trial_error", "0000"),
    ("searcher", "on_pause", "00000"),
    ("searcher", "on_unpause", "00000"),
    ("stopper", "__call__", "00000"),
    ("stopper", "stop_all", ""),
    ("stopper", "seconds_left", ""),
]


@pytest.mark.parametrize(("kind", "hook", "trial"), HOOKS)
def test_the_error_names_the_hook_and_the_trial_and_the_run_can_go_on(kind, hook, trial):
    error = Bad("I am bad")
    with pytest.raises(TuneError) as caught:
        run_with(kind, hook, error)
    assert caught.value.__cause__ is error
    text = str(caught.value)
    assert f"Spoiled{'' if hook == '__call__' else '.' + hook} raised Bad: I am bad" in text
    assert f"trial Failing_{journal_trial_prefix()}_{trial}" in text if trial else "told of trial" not in text
    if hook != "setup":
        assert journal_of()[-1]["type"] == "close"
    grid = resumed()
    assert [result.metrics["n"] for result in grid] == [6, 6]
    assert grid.num_terminated == 2


def resumed():
    """The run goes on with plug-ins that are well."""
    return resume(
        type("Failing", (Failing,), {"failed": [1]}),
        search_alg=Always(),
        scheduler=PauseOnce(),
        num_samples=2,
        max_failures=1,
        checkpoint_frequency=1,
    )


def journal_trial_prefix():
    return next((record["trial"].rpartition("_")[0] for record in journal_of() if record["type"] == "trial"), "")


@pytest.mark.parametrize(
    ("settings", "who"),
    [
        ({"stop": CombinedStopper(Stopper(), spoiled(Stopper, "stop_all", Bad("no")))}, "Spoiled.stop_all"),
        ({"stop": [spoiled(Stopper, "__call__", Bad("no")), Stopper()]}, "Spoiled"),
        ({"search_alg": ConcurrencyLimiter(spoiled(Always, "suggest", Bad("no")), 2)}, r"Spoiled\.suggest"),
        ({"trial_dirname_creator": raiser(Bad("no"))}, "trial_dirname_creator"),
        ({"callbacks": [MagicMock(spec=Callback, on_trial_start=MagicMock(side_effect=Bad("no")))]}, "MagicMock"),
    ],
)
def test_the_error_names_who_has_raised_behind_others(settings, who):
    with pytest.raises(TuneError, match=rf"^{who}\S* raised Bad: no"):
        fit(Failing, None if "search_alg" in settings else {"end": 1}, **settings)


@pytest.mark.parametrize("hook", ["on_trial_error", "on_trial_remove"])
@pytest.mark.usefixtures("one_cpu")
def test_the_error_names_each_hook_that_a_trials_end_calls(hook):
    """The final failure, and the end of a trial that does not run."""

    class StopOthers(PauseOnce):
        def on_trial_error(self, tune_controller, trial):
            for other in tune_controller.get_live_trials():
                if other.status != "RUNNING":
                    tune_controller.stop_trial(other)

    bad = spoiled(StopOthers, "on_trial_remove", Bad("I am bad")) if hook == "on_trial_remove" else StopOthers()
    callbacks = [spoiled(Callback, "on_trial_error", Bad("I am bad"))] if hook == "on_trial_error" else []
    with pytest.raises(TuneError, match=rf"Spoiled\.{hook} raised Bad"):
        fit(
            type("Failing", (Failing,), {"failed": []}),
            {"end": 6},
            num_samples=3,
            scheduler=bad,
            callbacks=callbacks,
        )


@pytest.mark.parametrize(
    ("base", "hook", "answer", "message"),
    [
        (FIFOScheduler, "on_trial_result", "GO ON", "returned no decision about trial SavedCounter_.*_00000"),
        (FIFOScheduler, "on_trial_result", 7, "returned no decision about trial SavedCounter_.*_00000"),
        (FIFOScheduler, "choose_trial_to_run", "the best one", "must return a trial or None, but returned 'the"),
        (FIFOScheduler, "choose_trial_to_run", False, "must return a trial or None, but returned False"),
        (Searcher, "suggest", [1, 2], "raised TypeError"),
    ],
)
def test_an_answer_of_another_type_than_the_hook_returns_ends_the_run(base, hook, answer, message):
    """No decision, no trial, no configuration."""

    def answering(self, *arguments):
        return answer

    answering.__name__ = hook
    odd = type("Odd", (base,), {hook: answering})()
    with pytest.raises(TuneError, match=rf"Odd\.{hook} {message}"):
        fit(SavedCounter, **{"search_alg" if base is Searcher else "scheduler": odd})


@pytest.mark.parametrize(
    ("kind", "hook", "error", "executor"),
    [
        *(("callback", "on_trial_result", error, "inline") for error in (KeyboardInterrupt(), GeneratorExit())),
        ("callback", "on_trial_result", SystemExit(3), "local"),
        ("stopper", "__call__", SystemExit(3), "inline"),
        ("scheduler", "on_trial_result", SystemExit(3), "inline"),
        ("searcher", "on_trial_result", SystemExit(3), "inline"),
    ],
)
def test_base_exceptions_pass_through(kind, hook, error, executor):
    with pytest.raises(type(error)) as caught:
        run_with(kind, hook, error, executor)
    assert caught.value is error
    assert journal_of()[-1] == {**journal_of()[-1], "type": "close", "ending": "error"}
    assert Tuner.can_restore(run_path())
    assert [result.metrics["n"] for result in resumed()] == [6, 6]


def test_all_callbacks_hear_of_the_end_even_if_one_of_them_raises():
    ended = []
    last = listening(on_experiment_end=lambda trials, **info: ended.append("last"))
    with pytest.raises(TuneError, match=r"Spoiled\.on_experiment_end"):
        fit(SavedCounter, {"end": 1}, callbacks=[spoiled(Callback, "on_experiment_end", Bad()), last])
    assert ended == ["last"]
    with pytest.raises(TuneError, match=r"Spoiled\.on_trial_start"):
        fit(SavedCounter, {"end": 1}, callbacks=[spoiled(Callback, "on_trial_start", Bad()), last], name=RUN + "2")
    assert ended == ["last", "last"]


@pytest.mark.parametrize("hook", ["setup", "should_report", "report", "trial_result", "trial_ended"])
def test_a_reporter_that_raises_ends_the_run_with_its_error(hook):
    class Quiet(ProgressReporter):
        def setup(self, *args, **info):
            pass

        def should_report(self, trials, done=False):
            return True

        def report(self, trials, done, *sys_info):
            pass

    error = Bad("I am bad")
    with pytest.raises(TuneError, match=rf"Spoiled\.{hook} raised Bad") as caught:
        fit(SavedCounter, {"end": 2}, verbose=1, progress_reporter=spoiled(Quiet, hook, error))
    assert caught.value.__cause__ is error
