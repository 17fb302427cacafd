"""A function as a trial: the hand-over, how it ends, and how it is stopped."""

import contextlib
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from kit import BOUND_S, fit, pull, reports_of, settle, values_of

from minitune import get_context, grid_search
from minitune.checkpoint import Checkpoint
from minitune.error import TrialStopped
from minitune.resources import Allocation
from minitune.result import Report
from minitune.trainable import Trainable, report
from minitune.trainable.session import current_session
from minitune.trainable.trial_actor import FunctionActor

# -- the hand-over -----------------------------------------------------------------------------------------------------


def test_the_function_starts_at_the_first_pull(driver):
    started = threading.Event()

    def fn(config):
        started.set()
        report({"x": 1})

    actor = driver.start(fn)
    assert not started.is_set()
    pull(actor)
    assert started.is_set()


def test_report_blocks_until_the_driver_pulls_again(driver):
    steps = []

    def fn(config):
        for i in range(2):
            steps.append(f"before {i}")
            report({"x": i})
            steps.append(f"after {i}")

    actor = driver.start(fn)
    assert pull(actor).metrics["x"] == 0
    settle(actor.save())  # the control side answers while report() blocks
    assert steps == ["before 0"]
    assert pull(actor).metrics["x"] == 1
    assert steps == ["before 0", "after 0", "before 1"]
    assert pull(actor) == Report(None, None, True)
    assert steps[-1] == "after 1"


def test_metrics_can_be_changed_after_report_has_returned(driver):
    def fn(config):
        metrics = {"x": 0}
        for i in range(3):
            metrics["x"] = i
            report(metrics)
        assert metrics == {"x": 2}  # nothing was added to the user's dict

    actor = driver.start(fn)
    seen = [settle(actor.train()) for _ in range(3)]
    assert [one.metrics["x"] for one in seen] == [0, 1, 2]
    assert pull(actor) == Report(None, None, True)


def test_a_config_that_is_read_by_attributes_is_told_to_be_a_dict(driver):
    with pytest.raises(AttributeError, match=r"no attribute 'lr'; the configuration is a dict: write config\['x'\]"):
        pull(driver.start(lambda config: config.lr, {"lr": 1}))
    with pytest.raises(AttributeError, match=r"no attribute 'lr'$"):
        pull(driver.start(lambda config: {}.lr, {"lr": 1}))


# -- return values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "key", "expected"),
    [
        ({"x": 3}, "x", 3),
        (2.5, "_metric", 2.5),
        (0.0, "_metric", 0.0),
        (0, "_metric", 0),
        ({}, "training_iteration", 1),
    ],
)
def test_a_returned_dict_or_number_is_one_more_report(driver, value, key, expected):
    actor = driver.start(lambda config: value)
    first = pull(actor)
    assert first.metrics[key] == expected
    assert first.done is False
    assert pull(actor) == Report(None, None, True)


@pytest.mark.parametrize("value", ["text", [1, 2], object()])
def test_other_return_values_are_refused(driver, value):
    with pytest.raises(ValueError, match="must return or yield a dict"):
        pull(driver.start(lambda config: value))


# -- generators --------------------------------------------------------------------------------------------------------


def test_each_yielded_dict_or_number_is_a_report(driver):
    def fn(config):
        yield {"_metric": 1}
        yield None  # nothing to say yet
        yield 2
        return {"_metric": 3}

    assert values_of(driver.start(lambda config: fn(config)), "_metric") == [1, 2, 3]


@pytest.mark.parametrize("yields", [True, False])
def test_a_stop_runs_the_finally_blocks_of_a_function_or_generator(driver, yields):
    seen = []

    @contextlib.contextmanager
    def watched():
        try:
            yield
        except Exception:
            seen.append("must not be caught as an Exception")
        except BaseException as error:
            seen.append(type(error).__name__)
            raise
        finally:
            seen.append("finally")

    def function(config):
        with watched():
            report({"x": 1})

    def generator(config):
        with watched():
            yield 1

    actor = driver.start(generator if yields else function)
    pull(actor)
    settle(actor.stop())
    assert seen == ["TrialStopped", "finally"]


def test_a_generator_that_yields_text_gets_the_error(driver):
    def fn(config):
        try:
            yield "text"
        except ValueError:
            yield {"caught": True}

    assert pull(driver.start(fn)).metrics["caught"] is True


# -- exceptions --------------------------------------------------------------------------------------------------------


class OwnBaseError(BaseException):
    pass


def fails(config):
    report({"x": 1})
    raise config["error"]


class Fails(Trainable):
    def step(self):
        if self.iteration:
            raise self.config["error"]
        return {"x": 1}


BOTH = pytest.mark.parametrize("trainable", [fails, Fails])


@BOTH
@pytest.mark.parametrize(
    "error",
    [ValueError("v"), SystemExit(4), SystemExit("text"), KeyboardInterrupt(), OwnBaseError("o"), GeneratorExit()],
)
def test_an_exception_is_the_answer_to_the_pull(driver, trainable, error):
    actor = driver.start(trainable, {"error": error})
    pull(actor)
    assert actor.train().exception(BOUND_S) is error
    if trainable is fails:
        assert actor.reset(driver.info("t_00001").fields(), None)  # the process is not spoilt


@BOTH
@pytest.mark.parametrize("error", [SystemExit(0), SystemExit(None), StopIteration()])
def test_a_clean_end_is_no_error(driver, trainable, error):
    assert [one.done for one in reports_of(driver.start(trainable, {"error": error}))] == [False, True]


def test_done_in_a_report_ends_the_trial(driver):
    reached = []

    def fn(config):
        report({"x": 1, "done": True})
        reached.append(1)

    actor = driver.start(fn)
    assert pull(actor).done is True
    settle(actor.stop())
    assert not reached


# -- stopping ----------------------------------------------------------------------------------------------------------


def test_stop_while_the_function_works_hits_the_next_report(driver):
    working, go, seen = threading.Event(), threading.Event(), []

    def fn(config):
        working.set()
        go.wait(BOUND_S)
        try:
            report({"x": 1}, checkpoint=Checkpoint(str(driver.directory)))
        except TrialStopped:
            seen.append("stopped")
            raise

    actor = driver.start(fn)
    pulled = actor.train()
    assert working.wait(BOUND_S)
    stopped = actor.stop()
    assert not stopped.done()
    go.set()
    settle(stopped)
    assert seen == ["stopped"]
    assert settle(pulled) == Report(None, None, True)
    assert not list((driver.directory / "t_00000").iterdir()), "a checkpoint that no one will hear of is not copied"


def test_function_that_catches_its_stop_is_stopped_again(driver):
    caught = []

    def fn(config):
        for i in range(4):
            try:
                report({"x": i})
            except BaseException:
                caught.append(i)

    actor = driver.start(fn)
    pull(actor)
    settle(actor.stop())
    assert caught == [0, 1, 2, 3]


def test_a_function_that_is_given_to_on_stop_after_the_stop_is_called_at_once():
    called = []

    def train(config):
        try:
            while True:
                report({"x": 1})
        finally:
            get_context().on_stop(lambda: called.append("late"))

    fit(train, stop={"x": 1})
    assert called == ["late"]


def test_what_ends_with_a_function_hears_whether_it_has_failed():
    heard = []

    def train(config):
        session = current_session()
        session.at_end.append(heard.append)
        while not config["fails"]:
            report({"x": 1})
        raise ValueError("on purpose")

    fit(train, {"fails": grid_search([True, False])}, stop={"x": 1}, max_concurrent_trials=1)
    assert heard == [True, False]


def test_stop_before_the_first_pull_runs_nothing(driver):
    ran = []
    actor = driver.start(lambda config: ran.append(1))
    settle(actor.stop())
    assert pull(actor) == Report(None, None, True)
    assert not ran


def test_an_exception_while_unwinding_is_logged_only(driver, caplog):
    def fn(config):
        try:
            report({"x": 1})
        finally:
            raise OSError("in finally")

    actor = driver.start(fn)
    pull(actor)
    assert settle(actor.stop()) is None
    assert "in finally" in caplog.text


def test_stop_reaches_a_helper_thread_that_reports(driver):
    seen = []

    def helper(session_report):
        try:
            session_report({"x": 1})
        except TrialStopped:
            seen.append("helper")

    def fn(config):
        session = current_session()
        thread = threading.Thread(target=helper, args=(session.report,))
        thread.start()
        thread.join(BOUND_S)

    actor = driver.start(fn)
    assert pull(actor).metrics["x"] == 1
    settle(actor.stop())
    assert seen == ["helper"]


# -- on the main thread ------------------------------------------------------------------------------------------------


def host_of(exchange):
    return SimpleNamespace(is_stopped=False, exchange=exchange, abandon=lambda: None)


def test_on_the_main_thread_helper_threads_find_their_session(driver):
    """In a worker a function runs on the main thread, and its reports go to the driver from there."""
    reports = []

    def exchange(make):
        reports.append(make()[0].metrics["x"])
        return True

    def fn(config):
        thread = threading.Thread(target=report, args=({"x": 1},))
        thread.start()
        thread.join(BOUND_S)

    assert FunctionActor(fn, driver.info(), host_of(exchange), Allocation()).train() == Report(None, None, True)
    assert reports == [1]
    assert current_session() is None


def test_a_thread_that_reports_after_its_function_has_returned_hears_of_the_end(driver):
    over = threading.Event()
    heard = []
    threads = []

    def late():
        over.wait(BOUND_S)
        try:
            report({"x": 1})
        except TrialStopped:
            heard.append("the end")

    def fn(config):
        threads.append(threading.Thread(target=late))
        threads[0].start()

    FunctionActor(fn, driver.info(), host_of(lambda make: not over.is_set()), Allocation()).train()
    over.set()
    threads[0].join(BOUND_S)
    assert heard == ["the end"]


# -- reuse -------------------------------------------------------------------------------------------------------------


def test_an_actor_is_reused_once_its_function_has_unwound(driver):
    go = threading.Event()

    def fn(config):
        try:
            report({"a": config["a"]})
        finally:
            go.wait(BOUND_S)

    actor = driver.start(fn, {"a": 1})
    assert pull(actor).metrics["a"] == 1
    stopped = actor.stop()
    assert not stopped.done()
    go.set()
    settle(stopped)
    assert actor.reset(driver.info("t_00001", config={"a": 2}).fields(), None) is True
    metrics = pull(actor).metrics
    assert (metrics["a"], metrics["trial_id"], metrics["training_iteration"]) == (2, "t_00001", 1)


def test_two_trials_in_one_process_do_not_mix(driver):
    def fn(config):
        for i in range(3):
            report({"x": config["a"] * 10 + i})

    one, two = driver.start(fn, {"a": 1}, name="t_1"), driver.start(fn, {"a": 2}, name="t_2")
    seen = [(pull(one).metrics["x"], pull(two).metrics["x"]) for _ in range(3)]
    assert seen == [(10, 20), (11, 21), (12, 22)]


def test_each_thread_may_hear_of_the_stop_before_the_trial_is_ended_by_force(caplog):
    def train(config):
        def help_out():
            with contextlib.suppress(TrialStopped):
                report({"x": 2})

        try:
            while True:
                report({"x": 1})
        finally:
            for _ in range(4):
                helper = threading.Thread(target=help_out)
                helper.start()
                helper.join()
            Path(get_context().get_trial_dir() or "", "unwound").touch()

    (result,) = fit(train, stop={"x": 1}, executor="local")
    assert Path(result.path, "unwound").exists()
    assert caplog.messages == []
