"""The order in which plug-ins hear of events, and the status of the trial at that moment."""

import pytest
from kit import (
    Counter,
    Log,
    LoggingCallback,
    LoggingScheduler,
    LoggingSearcher,
    LoggingStopper,
    SavedCounter,
    counting,
    cut,
    deciding,
    fit,
    journal_of,
    logged_run,
    report_n,
    report_state,
    restored_state,
)

from minitune import grid_search, report
from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.experiment.decision import Decision

BEGIN = ["searcher.suggest 0", "scheduler.on_trial_add 0 PENDING", "callback.on_trial_start 0 PENDING"]
END = ["callback.on_experiment_end"]


def reported(n, number=0):
    """A report that changes nothing."""
    return [
        f"stopper {number} n={n}",
        f"scheduler.on_trial_result {number} RUNNING n={n}",
        f"searcher.on_trial_result {number} n={n}",
        f"callback.on_trial_result {number} RUNNING n={n}",
    ]


def completed(n):
    """The end of the first trial while it runs."""
    return [
        f"scheduler.on_trial_complete 0 RUNNING n={n} done",
        f"searcher.on_trial_complete 0 n={n} done",
        "callback.on_trial_complete 0 RUNNING",
    ]


def test_a_function_that_returns_counts_its_last_result_again_as_done():
    log, grid = logged_run(report_n(2))
    assert log.lines == [*BEGIN, *reported(1), *reported(2), *completed(2), *END]
    assert grid[0].metrics["n"] == 2
    assert grid[0].metrics["done"] is True
    assert [row["done"] for row in grid[0].get_rows()] == [False, False]


def test_the_report_comes_back_after_everybody_has_heard_of_it():
    log = Log()

    def trainable(config):
        report({"n": 1})
        log.add("trial goes on")

    logged_run(trainable, log=log)
    assert log.lines == [*BEGIN, *reported(1), "trial goes on", *completed(1), *END]


def test_a_returned_value_is_the_final_result():
    def trainable(config):
        report({"n": 1})
        return {"n": 2}

    log, grid = logged_run(trainable)
    assert log.lines == [*BEGIN, *reported(1), *reported(2), *completed(2), *END]
    assert len(grid[0].get_rows()) == 2


def test_plug_ins_hear_the_end_of_a_function_that_never_reports():
    log, grid = logged_run(lambda config: None)
    assert log.lines == [*BEGIN, *completed(None), *END]
    assert set(grid[0].metrics) == {"trial_id", "experiment_tag", "done"}


@pytest.mark.parametrize("how", ["criterion", "reported done"])
def test_a_stop_by_criterion_is_not_shown_to_the_scheduler(how):
    def trainable(config):
        for n in (1, 2, 3):
            report({"n": n, "done": n == 2 and how == "reported done"})

    log, grid = logged_run(trainable, stop=lambda result: result["n"] == 2 and how == "criterion")
    done = " done" if how == "reported done" else ""
    middle = [f"stopper 0 n=2{done}", "callback.on_trial_result 0 RUNNING n=2 done"]
    assert log.lines == [*BEGIN, *reported(1), *middle, *completed(2), *END]
    assert grid[0].metrics["n"] == 2


def test_a_stop_by_the_scheduler_is_not_shown_to_the_searcher():
    log, grid = logged_run(report_n(3), decide=lambda context, trial, result: "STOP")
    middle = ["stopper 0 n=1", "scheduler.on_trial_result 0 RUNNING n=1", "callback.on_trial_result 0 RUNNING n=1 done"]
    assert log.lines == [*BEGIN, *middle, *completed(1), *END]
    assert [row["done"] for row in grid[0].get_rows()] == [True]


def test_plug_ins_hear_of_the_pause_and_the_restore_of_a_class():
    log, grid = logged_run(
        SavedCounter, {"end": 2}, decide=lambda context, trial, result: "PAUSE" if result["n"] == 1 else "CONTINUE"
    )
    assert log.lines == [
        *BEGIN,
        *reported(1),
        "callback.on_checkpoint 0 RUNNING",
        "callback.on_trial_save 0 RUNNING",
        "searcher.on_pause 0",
        "searcher.on_unpause 0",
        "callback.on_trial_start 0 PENDING",
        "callback.on_trial_restore 0 RUNNING",
        "stopper 0 n=2 done",
        "callback.on_trial_result 0 RUNNING n=2 done",
        "callback.on_checkpoint 0 RUNNING",
        "callback.on_trial_save 0 RUNNING",
        *completed(2),
        *END,
    ]
    assert grid[0].metrics["training_iteration"] == 2


def test_a_reported_checkpoint_is_shown_before_the_decision_is_carried_out():
    log, _ = logged_run(counting(1))
    saved = ["callback.on_checkpoint 0 RUNNING", "callback.on_trial_save 0 RUNNING"]
    assert log.lines == [*BEGIN, *reported(1), *saved, *completed(1), *END]


def test_plug_ins_hear_an_error_with_retries_left_and_then_the_final_one():
    def trainable(config):
        report({"n": 1})
        raise RuntimeError("no luck")

    log, grid = logged_run(trainable, max_failures=1)
    assert log.lines == [
        *BEGIN,
        *reported(1),
        "scheduler.on_trial_error 0 RUNNING",
        "searcher.on_trial_error 0",
        "scheduler.on_trial_add 0 PENDING",
        "callback.on_trial_recover 0 PENDING",
        "callback.on_trial_start 0 PENDING",
        *reported(1),
        "scheduler.on_trial_error 0 RUNNING",
        "searcher.on_trial_error 0",
        "searcher.on_trial_complete error 0",
        "callback.on_trial_error 0 ERROR",
        *END,
    ]
    assert grid.num_errors == 1


def test_plug_ins_hear_an_error_while_the_trial_is_set_up():
    class Broken(Counter):
        def setup(self, config):
            raise RuntimeError("no luck")

    log, _ = logged_run(Broken)
    assert log.lines == [
        "searcher.suggest 0",
        "scheduler.on_trial_add 0 PENDING",
        "scheduler.on_trial_error 0 PENDING",
        "searcher.on_trial_error 0",
        "searcher.on_trial_complete error 0",
        "callback.on_trial_error 0 ERROR",
        *END,
    ]


@pytest.mark.usefixtures("one_cpu")
def test_stop_trial_of_a_running_a_paused_and_a_pending_trial():
    def decide(context, trial, result):
        if trial.number == 0 and result["n"] == 1:
            return "PAUSE"
        if trial.number == 1 and result["n"] == 2:
            for other in context.get_live_trials():
                context.stop_trial(other)
        return "CONTINUE"

    log = Log()
    scheduler = LoggingScheduler(log, decide)
    # The paused trial is not taken up again, and the search is ahead of the two trials that there is room for.
    scheduler.choose_trial_to_run = lambda context: context.first_pending()
    grid = fit(report_n(9), num_samples=3, scheduler=scheduler, callbacks=[LoggingCallback(log)])
    ends = [line for line in log.lines if "complete" in line or "remove" in line]
    assert ends == [
        "scheduler.on_trial_remove 0 PAUSED",
        "callback.on_trial_complete 0 PAUSED",
        "scheduler.on_trial_complete 1 RUNNING n=2 done",
        "callback.on_trial_complete 1 RUNNING",
        "scheduler.on_trial_remove 2 PENDING",
        "callback.on_trial_complete 2 PENDING",
    ]
    assert (grid.num_terminated, grid.num_not_started) == (2, 1)
    assert [result.metrics.get("n") for result in grid] == [1, 2, None]


@pytest.mark.parametrize("answer", ["NOOP", "CONTINUE"])
def test_requests_about_other_trials_are_carried_out_after_the_hook(answer):
    seen = []

    def decide(context, trial, result):
        if trial.number == 1 and result["n"] == 2:
            context.stop_trial(context.get_trials()[0])
            context.stop_trial(context.get_trials()[0])
            seen.append([other.status for other in context.get_trials()])
            return answer
        return "CONTINUE"

    log, grid = logged_run(report_n(4), decide=decide, num_samples=2)
    assert seen == [["RUNNING", "RUNNING"]]
    assert [result.metrics["n"] for result in grid] == [2, 4]
    assert log.of("scheduler.on_trial_complete") == [
        "scheduler.on_trial_complete 0 RUNNING n=2 done",
        "scheduler.on_trial_complete 1 RUNNING n=4 done",
    ]


def test_a_scheduler_may_stop_or_pause_the_reporting_trial_by_request():
    def decide(context, trial, result):
        if result["n"] == 1:
            context.pause_trial(trial)
        elif result["n"] == 3:
            context.stop_trial(trial)
        return "NOOP"

    log, grid = logged_run(SavedCounter, decide=decide)
    assert [line for line in log.lines if "pause" in line] == ["searcher.on_pause 0", "searcher.on_unpause 0"]
    assert log.lines[-4:] == [*completed(3), *END]
    assert grid[0].metrics["training_iteration"] == 3
    assert len(grid[0].best_checkpoints) == 2, "the one of the pause, and the one at the end"


def test_pause_trial_of_another_running_trial_waits_for_its_report():
    def decide(context, trial, result):
        if trial.number == 1 and result["n"] == 2:
            context.pause_trial(context.get_trials()[0])
        return "CONTINUE"

    log, grid = logged_run(SavedCounter, {"end": 4}, decide=decide, num_samples=2)
    assert [line for line in log.lines if "pause" in line] == ["searcher.on_pause 0", "searcher.on_unpause 0"]
    assert [result.metrics["n"] for result in grid] == [4, 4]


@pytest.mark.usefixtures("one_cpu")
def test_a_pending_trial_can_be_paused_by_request():
    def decide(context, trial, result):
        if trial.number == 0 and result["n"] == 1:
            context.pause_trial(context.get_trials()[1])
        return "CONTINUE"

    log = Log()
    scheduler = LoggingScheduler(log, decide)
    grid = fit(report_n(2), num_samples=3, scheduler=scheduler, callbacks=[LoggingCallback(log)])
    starts = [line for line in log.lines if "on_trial_start" in line]
    assert starts == [f"callback.on_trial_start {number} PENDING" for number in (0, 2, 1)]
    assert grid.num_terminated == 3


def all_stop(log):
    """All trials are stopped after the second result of the first one."""
    return {"log": log, "stop_all_when": lambda: "stopper 0 n=2" in log.lines}


def test_stop_all_ends_every_trial_as_if_it_had_been_stopped():
    log, grid = logged_run(report_n(9), {"i": 0}, **all_stop(Log()), num_samples=-1, max_concurrent_trials=1)
    assert log.lines == [*BEGIN, *reported(1), *reported(2), *completed(2), *END]
    assert not grid.interrupted
    assert grid[0].metrics["done"] is True


def test_stop_all_takes_a_last_checkpoint_of_a_class():
    log = Log()
    fit(
        SavedCounter,
        stop=LoggingStopper(log, stop_all_when=lambda: "stopper 0 n=2" in log.lines),
        callbacks=[LoggingCallback(log)],
        checkpoint_at_end=True,
    )
    assert log.lines[-6:] == [
        "stopper 0 n=2",
        "callback.on_trial_result 0 RUNNING n=2",
        "callback.on_checkpoint 0 RUNNING",
        "callback.on_trial_save 0 RUNNING",
        "callback.on_trial_complete 0 RUNNING",
        *END,
    ]


def test_a_checkpoint_that_is_being_written_at_stop_all_still_counts():
    _, grid = logged_run(SavedCounter, **all_stop(Log()), checkpoint_frequency=1, checkpoint_at_end=False)
    assert [metrics["n"] for _, metrics in grid[0].best_checkpoints] == [1, 2]
    assert grid[0].metrics["done"] is True


@pytest.mark.parametrize("verb", ["pause", "abandon", "exploit"])
def test_requests_do_not_delay_the_end_of_the_run(verb):
    def decide(context, trial, result):
        if result["n"] == 3:
            for other in context.get_live_trials():
                if verb == "exploit":
                    context.exploit_trial(other, trial, {})
                else:
                    context.pause_trial(other, should_checkpoint=verb == "pause")
        return "CONTINUE"

    settings = {"decide": decide, "num_samples": 2, "checkpoint_frequency": 1}
    _, grid = logged_run(SavedCounter, **all_stop(Log()), **settings)
    assert grid.num_terminated == 2
    assert [result.metrics["done"] for result in grid] == [True, True]


@pytest.mark.usefixtures("one_cpu")
def test_waiting_trials_are_removed_when_stop_all_ends_the_run():
    log = Log()
    grid = fit(
        report_n(9),
        num_samples=3,
        scheduler=LoggingScheduler(log),
        stop=LoggingStopper(log, stop_all_when=lambda: "stopper 0 n=2" in log.lines),
        callbacks=[LoggingCallback(log)],
    )
    assert log.lines[-7:] == [
        "scheduler.on_trial_complete 0 RUNNING n=2 done",
        "callback.on_trial_complete 0 RUNNING",
        "scheduler.on_trial_remove 1 PENDING",
        "callback.on_trial_complete 1 PENDING",
        "scheduler.on_trial_remove 2 PENDING",
        "callback.on_trial_complete 2 PENDING",
        *END,
    ]
    assert (grid.num_terminated, grid.num_not_started) == (1, 2)


@pytest.mark.parametrize("fail_fast", [True, "raise"])
def test_fail_fast_ends_the_others_with_all_hooks(fail_fast):
    def trainable(config):
        for n in (1, 2, 3):
            if config["i"] == 1 and n == 2:
                raise KeyError("no luck")
            report({"n": n})

    log = Log()
    settings = {"log": log, "num_samples": 2, "fail_fast": fail_fast}
    if fail_fast == "raise":
        with pytest.raises(KeyError, match="no luck"):
            logged_run(trainable, **settings)
    else:
        _, grid = logged_run(trainable, **settings)
        assert (grid.num_errors, grid.num_terminated) == (1, 1)
    failed = log.lines.index("scheduler.on_trial_error 1 RUNNING")
    assert log.lines[failed:] == [
        "scheduler.on_trial_error 1 RUNNING",
        "searcher.on_trial_error 1",
        "searcher.on_trial_complete error 1",
        "callback.on_trial_error 1 ERROR",
        *completed(2),
        *END,
    ]


def test_in_logical_order_a_save_takes_no_time():
    def decide(context, trial, result):
        heard.append(result["n"])
        return Decision("CONTINUE", save=trial.number == 0)

    heard = []
    settings = {"num_samples": 2, "max_concurrent_trials": 2, "deterministic": True}
    fit(SavedCounter, {"end": 6}, scheduler=deciding(decide), **settings)
    assert heard == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_a_searcher_hears_the_last_result_of_a_trial_that_a_signal_has_ended():
    log = Log()
    cut(report_n(4), {"i": 0}, results=3, how="SIGINT", search_alg=LoggingSearcher(log), max_concurrent_trials=1)
    assert log.of("searcher.on_trial_complete") == ["searcher.on_trial_complete 0 n=3"]


def test_decision_during_a_save_waits_and_the_stronger_one_wins():
    def decide(context, trial, result):
        if trial.number == 0 and result["n"] == 1:
            return Decision("CONTINUE", save=True)
        if trial.number == 1 and result["n"] == 1:
            context.pause_trial(context.get_trials()[0])
        return "CONTINUE"

    log, grid = logged_run(SavedCounter, {"end": 2}, decide=decide, num_samples=2)
    assert log.of("searcher.on_pause") == ["searcher.on_pause 0"]
    assert [result.metrics["n"] for result in grid] == [2, 2]


def test_decision_is_recorded_before_the_worker_is_stopped():
    """A driver that is killed in between would not know after a resume why the trial was where it is."""
    last = []

    class Noting(InlineTrialExecutor):
        def stop(self, actor_id, grace_s, keep=False, dump=False):
            decisions = [record for record in journal_of() if "decision" in record or "status" in record]
            record = decisions[-1]
            last.append(f"{record['type']} {record.get('decision') or record.get('status')}")
            super().stop(actor_id, grace_s, keep, dump)

    def decide(context, trial, result):
        if trial.number == 0 and result["n"] == 3:
            context.exploit_trial(context.get_live_trials()[1], trial, {"seconds": 1.0})
        return "CONTINUE"

    def trainable(config):
        for n in range(restored_state() + 1, 9):
            clock.current.sleep(config["seconds"])
            report_state(n, {"n": n})

    fit(
        trainable,
        {"seconds": grid_search([1.0, 1.7])},
        stop={"n": 5},
        scheduler=LoggingScheduler(Log(), decide),
        executor=Noting(Machine({"CPU": 4.0}, ()), VirtualClock()),
    )
    assert last == ["status PAUSED", "status TERMINATED", "status TERMINATED"]
