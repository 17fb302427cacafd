"""A run that was cut short goes on where it was, and one that was not has nothing left to do."""

import os
import signal
from collections import Counter as Tally
from pathlib import Path

import pytest
from kit import (
    Counter,
    CutOff,
    EndAfter,
    LastFirst,
    Log,
    LoggingScheduler,
    LoggingSearcher,
    SavedCounter,
    Spy,
    counting,
    cut,
    deciding,
    files_below,
    fit,
    journal_of,
    listening,
    report_n,
    report_state,
    restored_state,
    resume,
    run_path,
    virtual_executor,
)

from minitune import (
    BasicVariantGenerator,
    ConcurrencyLimiter,
    FIFOScheduler,
    TuneError,
    Tuner,
    grid_search,
    report,
    uniform,
)
from minitune.base import clock
from minitune.experiment.decision import Decision

NOT_THE_SAME = ("journal", "lock", "trainable.pkl")
"""The files of a run that a resume changes: the journal says that it was opened again, and the trainable is another."""

SPACE = {"x": uniform(0, 1), "i": grid_search([0, 1, 2])}


# -- a finished run ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trainable", [counting(3), report_n(3), lambda config: None])
def test_a_finished_run_has_nothing_left_to_do(trainable):
    trainable.__name__ = "trainable"
    spy = Spy()
    before = fit(trainable, SPACE, num_samples=2, callbacks=[spy])
    files = files_below(run_path(), without=NOT_THE_SAME)
    analyses = [trial.metric_analysis for trial in spy.trials]

    def never(config):
        raise AssertionError("nothing is left to run")

    never.__name__ = "trainable"
    seen = Spy()
    after = resume(never, callbacks=[seen])
    assert [result.metrics for result in after] == [result.metrics for result in before]
    assert [result.config for result in after] == [result.config for result in before]
    assert [result.path for result in after] == [result.path for result in before]
    assert [result.best_checkpoints for result in after] == [result.best_checkpoints for result in before]
    assert [trial.metric_analysis for trial in seen.trials] == analyses
    assert files_below(run_path(), without=NOT_THE_SAME) == files
    assert not after.interrupted


BUDGET = {"time_budget_s": 5}
ENDED_EARLY = {
    "stopper": ({"stop": EndAfter(4)}, {}, [4]),
    "another stopper": ({"stop": EndAfter(4)}, {"stop": EndAfter(7)}, [7]),
    "time budget": (BUDGET, BUDGET, [5]),
    "larger budget": (BUDGET, {"time_budget_s": 12}, [9, 3]),
    "no budget": (BUDGET, {"time_budget_s": None}, [9, 9]),
    "fail fast": ({"fail_fast": True}, {"fail_fast": True}, [2, 9]),
    "stop": ({"stop": {"n": 3}}, {"stop": {"n": 3}}, [3, 3]),
    "larger stop": ({"stop": {"n": 3}}, {"stop": {"n": 4}}, [4, 4]),
    "smaller stop": ({"stop": {"n": 3}}, {"stop": {"n": 2}}, [3, 3]),
    "no stop": ({"stop": {"n": 3}}, {"stop": None}, [3, 3]),
}


@pytest.mark.parametrize(("then", "now", "reports"), ENDED_EARLY.values(), ids=ENDED_EARLY)
def test_a_resume_of_a_run_that_has_ended_does_what_it_is_given(then, now, reports):
    """Two trials report nine times, one after the other; the first one may fail once."""
    failures = []

    def trainable(config):
        for n in range(restored_state() + 1, 10):
            clock.current.sleep(1)
            if "fail_fast" in then and n == 3 and not failures:
                failures.append(n)
                raise ValueError("no luck")
            report_state(n, {"n": n})

    settings = {"max_concurrent_trials": 1, "executor": virtual_executor(1)}
    fit(trainable, {"x": grid_search([0, 1])}, **settings, **then)
    after = resume(trainable, **settings, **now)
    assert [[row["n"] for row in result.get_rows()] for result in after] == [list(range(1, n + 1)) for n in reports]
    again = resume(trainable, **settings, **now)
    assert [result.metrics for result in again] == [result.metrics for result in after]


# -- a run that was cut short -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "after"), [("raise", 1), ("exit", 7), ("SIGINT", 20)])
def test_the_rest_is_done_and_nothing_twice(how, after):
    runs = Tally()
    reports = Tally()

    def trainable(config):
        runs[config["x"]] += 1
        for n in range(restored_state() + 1, 5):
            reports[config["x"], n] += 1
            report_state(n, {"n": n})

    uncut = fit(trainable, SPACE, num_samples=2, seed=7, name="uncut")
    runs.clear()
    reports.clear()
    cut(trainable, SPACE, results=after, how=how, num_samples=2, seed=7, max_concurrent_trials=2)
    ended = {
        record["trial"]
        for record in journal_of()
        if record["type"] == "status" and record["status"] in ("TERMINATED", "ERROR")
    }
    configs = {record["trial"]: record["config"] for record in journal_of() if record["type"] == "trial"}
    rows = files_below(run_path(), "result.json")
    grid = resume(trainable, callbacks=())
    assert [result.config for result in grid] == [result.config for result in uncut]
    assert [result.metrics["n"] for result in grid] == [4] * 6
    assert [result.metrics["training_iteration"] for result in grid] == [4] * 6
    assert grid.num_terminated == 6
    for trial_id in ended:
        assert runs[configs[trial_id]["x"]] == 1, "a trial that had ended has not run again"
    assert len({result.metrics["trial_id"] for result in grid}) == 6
    assert {result.metrics["trial_id"] for result in grid} >= set(configs)
    for name, text in rows.items():
        if any(trial_id in name for trial_id in ended):
            assert (run_path() / name).read_bytes() == text
    for result in grid:
        assert [row["training_iteration"] for row in result.get_rows()] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("kind", "how", "repeated"),
    [
        *((Counter, how, [1, 2, 3, 4, 5]) for how in ("raise", "SIGINT")),
        (SavedCounter, "raise", [5]),
        (SavedCounter, "SIGINT", []),
    ],
)
def test_classes_go_on_from_their_checkpoints(kind, how, repeated):
    """An interrupt saves a class after its step."""
    steps = Tally()

    class Kind(kind):
        def step(self):
            result = super().step()
            steps[result["n"]] += 1
            return result

    settings = {"checkpoint_frequency": 2} if kind is SavedCounter else {}
    cut(Kind, {"end": 6}, results=5, how=how, **settings)
    grid = resume(Kind, callbacks=(), **settings)
    assert grid[0].metrics["n"] == grid[0].metrics["training_iteration"] == 6
    assert [n for n, count in sorted(steps.items()) if count == 2] == repeated


def test_a_trial_that_ends_by_itself_during_an_interrupt_has_ended():
    class Kind(SavedCounter):
        def step(self):
            if self.n == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return super().step()

    log = Log()
    grid = fit(Kind, {"end": 2}, search_alg=LoggingSearcher(log), checkpoint_frequency=1)
    assert grid.interrupted
    assert log.of("searcher.on_trial_complete") == ["searcher.on_trial_complete 0 n=2 done"]
    assert [record["status"] for record in journal_of() if record["type"] == "status"] == ["TERMINATED"]


# -- what plug-ins hear -----------------------------------------------------------------------------------------------


def told(log):
    """What searcher and scheduler have learned, without what a restart adds."""
    return [line for line in log.lines if line.startswith(("searcher.", "scheduler."))]


@pytest.mark.parametrize("how", ["raise", "SIGINT"])
@pytest.mark.parametrize("limited", [False, True])
def test_fresh_plug_ins_hear_of_the_first_part_once_and_then_of_the_rest(how, limited):
    def searcher(log):
        return ConcurrencyLimiter(LoggingSearcher(log), 2) if limited else LoggingSearcher(log)

    first, second = Log(), Log()
    cut(
        counting(3),
        None,
        results=8,
        how=how,
        search_alg=searcher(first),
        scheduler=LoggingScheduler(first),
        num_samples=5,
        max_concurrent_trials=2,
    )
    suggested = len(first.of("searcher.suggest"))
    grid = resume(
        counting(3),
        callbacks=(),
        search_alg=searcher(second),
        scheduler=LoggingScheduler(second),
        num_samples=5,
        max_concurrent_trials=2,
    )
    assert [result.config["i"] for result in grid] == [0, 1, 2, 3, 4]
    assert suggested < 5
    lines = Tally(told(second))
    assert set(lines.values()) == {1}, "each thing is told once"
    for number in range(5):
        of_trial = [line for line in told(second) if str(number) in line.split()]
        assert of_trial[0] == f"searcher.suggest {number}"
        assert of_trial[-1].startswith(f"searcher.on_trial_complete {number} n=3")
        assert sum("on_trial_result" in line for line in of_trial) == 6


@pytest.mark.parametrize("how", ["raise", "SIGINT"])
def test_fresh_searcher_does_not_hear_results_that_stopped_a_trial(how):
    """For the result comes to it with the end of that trial; but it hears one before a stop from elsewhere."""

    def decide(context, trial, result):
        return "STOP" if trial.number == 0 and result["n"] == 2 else "CONTINUE"

    first, second = Log(), Log()
    settings = {"num_samples": 3, "max_concurrent_trials": 1}
    cut(
        counting(3),
        None,
        results=4,
        how=how,
        search_alg=LoggingSearcher(first),
        scheduler=LoggingScheduler(Log(), decide),
        **settings,
    )
    resume(
        counting(3),
        callbacks=(),
        search_alg=LoggingSearcher(second),
        scheduler=LoggingScheduler(Log(), decide),
        **settings,
    )
    assert [line for line in told(first) if " 0 " in line] == [line for line in told(second) if " 0 " in line]


def test_callbacks_of_a_resumed_run_hear_only_results_that_were_not_on_record():
    cut(counting(3), {"i": grid_search([0, 1])}, results=4, max_concurrent_trials=1)
    heard = []
    spy = Spy(lambda trial, result: heard.append((trial.number, result["n"])))
    resume(counting(3), callbacks=[spy])
    assert heard == [(1, 1), (1, 2), (1, 3)], "the report that was cut off has not been recorded"


def test_changed_searcher_does_not_change_recorded_trials(caplog):
    class Other(LoggingSearcher):
        def suggest(self, trial_id):
            return {"i": super().suggest(trial_id)["i"] + 100}

    cut(counting(2), None, results=3, search_alg=LoggingSearcher(Log()), num_samples=4, max_concurrent_trials=1)
    log = Log()
    grid = resume(counting(2), callbacks=(), search_alg=Other(log), num_samples=4, max_concurrent_trials=1)
    assert [result.config["i"] for result in grid] == [0, 1, 102, 103]
    assert caplog.text.count("proposes another configuration than before") == 1
    assert len(log.of("searcher.on_trial_complete")) == 4


def test_a_limit_of_the_search_still_holds_after_a_resume():
    cut(counting(3), SPACE, results=7, num_samples=3, search_alg=BasicVariantGenerator(max_concurrent=2))
    spy = Spy()
    grid = resume(counting(3), callbacks=[spy])
    assert grid.num_terminated == 9
    assert spy.most_running == 2


@pytest.mark.parametrize(("how", "after"), [("raise", 3), ("SIGINT", 15)])
def test_paused_trials_are_taken_up_again(how, after):
    settings = {"num_samples": 4, "max_concurrent_trials": 2}
    cut(SavedCounter, {"end": 5}, results=after, how=how, scheduler=LastFirst(), **settings)
    grid = resume(SavedCounter, callbacks=(), scheduler=LastFirst(), **settings)
    assert [result.metrics["n"] for result in grid] == [5] * 4


def test_recorded_request_of_the_scheduler_is_not_repeated():
    """Replaying its hooks makes a scheduler ask again; what was done then must not be done a second time now."""

    def pause_the_other(context, trial, result):
        if trial.number == 0 and result["n"] == 1:
            context.pause_trial(context.get_trials()[1])
        return "CONTINUE"

    starts = []
    watch = listening(on_trial_start=lambda trial, **info: starts.append(trial.number))
    settings = {"num_samples": 2, "checkpoint_frequency": 1}
    cut(SavedCounter, {"end": 6}, results=7, scheduler=deciding(pause_the_other), **settings)
    grid = resume(SavedCounter, callbacks=[watch], scheduler=deciding(pause_the_other), **settings)
    assert [result.metrics["n"] for result in grid] == [6, 6]
    assert sorted(starts) == [0, 1], "each was started once"


def test_an_exploit_that_was_cut_off_is_still_carried_out():
    def exploit(context, trial, result):
        if trial.number == 1 and result["n"] == 1:
            return Decision("PAUSE", exploit=(context.get_trials()[0], {"i": "given"}))
        return "CONTINUE"

    starts = []

    def trainable(config):
        starts.append((config["i"], restored_state()))
        for n in range(restored_state() + 1, 7):
            if config["i"] == "given" and n < 6:
                report({"n": n})
            else:
                report_state(n, {"n": n})

    def cut_off(trial, **info):
        if trial.attempt.number == 2:
            raise CutOff

    space = {"i": grid_search(["donor", "taker"])}
    with pytest.raises(TuneError):
        fit(trainable, space, scheduler=deciding(exploit), callbacks=[listening(on_trial_start=cut_off)], num_to_keep=1)
    assert starts == [("donor", 0), ("taker", 0)]
    grid = resume(trainable, num_to_keep=1, scheduler=deciding(exploit))
    assert [result.config["i"] for result in grid] == ["donor", "given"]
    (donor, own), (taker, given) = starts[2:]
    assert (donor, taker) == ("donor", "given")
    assert 0 < given <= own, "what was given away was kept, although the donor has gone on"
    assert [result.metrics["n"] for result in grid] == [6, 6]


def test_last_request_of_the_scheduler_is_carried_out():
    def stop_the_other(context, trial, result):
        if trial.number == 0 and result["n"] == 3:
            context.stop_trial(context.get_trials()[1])
        return "CONTINUE"

    def cut_off(trial, **info):
        """The result is on record; what was asked for because of it has not been done."""
        if trial.number == 0 and trial.last_result["n"] == 3:
            raise CutOff

    cutting = [listening(on_trial_save=cut_off)]
    with pytest.raises(TuneError):
        fit(counting(6), scheduler=deciding(stop_the_other), num_samples=2, callbacks=cutting)
    grid = resume(counting(6), callbacks=(), scheduler=deciding(stop_the_other), num_samples=2)
    assert [result.metrics["n"] for result in grid] == [6, 2]
    assert grid.num_terminated == 2


# -- failed trials ----------------------------------------------------------------------------------------------------


def test_failed_trials_go_on_from_their_checkpoints_if_wanted():
    bad = [0, 2]
    first = fit(counting(5, bad=bad, at=3), SPACE, scheduler=FIFOScheduler())
    assert first.num_errors == 2
    same = resume(counting(5, bad=[], at=3))
    assert [result.metrics["n"] for result in same] == [2, 5, 2]
    assert ["no luck" in str(result.error) for result in same] == [True, False, True], "errors are told again"
    assert same.num_errors == 2
    log = Log()
    second = resume(counting(5, bad=[2], at=3), resume_errored=True, scheduler=LoggingScheduler(log))
    assert [result.error is None for result in second] == [True, True, False]
    assert log.of("scheduler.on_trial_add").count("scheduler.on_trial_add 0 PENDING") == 2, "it is new again"
    third = resume(counting(5, bad=[], at=3), resume_errored=True)
    assert [result.metrics["n"] for result in third] == [5, 5, 5]
    assert third.num_errors == 0
    assert [[row["n"] for row in result.get_rows()] for result in third] == [[1, 2, 3, 4, 5]] * 3
    assert Path(third[2].path, "error.txt").read_text().count("Failure # ") == 2
    fourth = resume(counting(5, bad=[0, 1, 2], at=3), resume_errored=True)
    assert [result.metrics for result in fourth] == [result.metrics for result in third]


def stop_others(context, trial, result):
    """Stop all others as soon as a trial reports."""
    for other in context.get_live_trials():
        if other is not trial:
            context.stop_trial(other)
    return "CONTINUE"


def test_a_waiting_trial_is_stopped_after_a_resume():
    """The second driver stops a trial that had a worker only under the first; a third one must not mistake that."""
    cut(counting(5), None, results=4, num_samples=2)
    first = resume(counting(5), callbacks=(), max_concurrent_trials=1, scheduler=deciding(stop_others))
    assert [(result.metrics["n"], result.metrics["done"]) for result in first] == [(5, True), (1, False)]
    log = Log()
    second = resume(counting(5), callbacks=(), scheduler=LoggingScheduler(log))
    assert [result.metrics for result in second] == [result.metrics for result in first]
    assert log.of("scheduler.on_trial_remove") == ["scheduler.on_trial_remove 1 PENDING"]


def test_retries_start_anew_with_each_resume():
    attempts = []

    def trainable(config):
        attempts.append(1)
        raise ValueError("no luck")

    fit(trainable, max_failures=2)
    assert len(attempts) == 3
    resume(trainable, resume_errored=True)
    assert len(attempts) == 6


# -- what is refused --------------------------------------------------------------------------------------------------


def test_mismatch_with_the_run_is_refused(tmp_path):
    fit(counting(1), SPACE)
    with pytest.raises(ValueError, match="'counter'"):
        resume(report_n(1))
    with pytest.raises(ValueError, match="'x'"):
        Tuner.restore(str(run_path()), counting(1), param_space={"i": 1})
    with pytest.raises(TuneError, match="no run"):
        Tuner.restore(str(tmp_path / "nothing"), counting(1))
    assert not Tuner.can_restore(tmp_path)


def test_trial_ended_before_its_worker_was_ready_never_ran():
    class StopsTheFirst(LoggingScheduler):
        def choose_trial_to_run(self, tune_controller):
            if not self.log.of("scheduler.on_trial_remove") and len(tune_controller.get_trials()) > 1:
                tune_controller.stop_trial(tune_controller.get_trials()[0])  # its worker starts in this turn
            return super().choose_trial_to_run(tune_controller)

    first, second = Log(), Log()
    space = {"i": grid_search([0, 1, 2])}
    cut(counting(3), space, results=2, scheduler=StopsTheFirst(first), max_concurrent_trials=2)
    resume(counting(3), callbacks=(), scheduler=LoggingScheduler(second), max_concurrent_trials=2)

    for log in (first, second):
        assert log.of("scheduler.on_trial_remove") == ["scheduler.on_trial_remove 0 PENDING"]
        assert not [line for line in log.of("scheduler.on_trial_complete") if line.split()[1] == "0"]
