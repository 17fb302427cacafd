"""The automatic keys of results: counts, times, and what the user may set."""

import os

import pytest
from kit import pull

from minitune.base import clock
from minitune.resources import Allocation
from minitune.result import NODE_IP_VARIABLE
from minitune.trainable import get_checkpoint, report
from minitune.trainable.auto_fields import AutoFields
from minitune.trainable.session import Session


def test_the_automatic_keys_count_iterations_and_the_time_of_the_trial_alone(driver):
    virtual = clock.VirtualClock(1_000_000.0)

    def fn(config):
        for _ in range(2):
            virtual.sleep(2.0)
            report({"loss": 1})

    with clock.use(virtual):
        actor = driver.start(fn, {"a": 1})
        first = pull(actor).metrics
        virtual.sleep(100.0)  # the driver's time does not count
        second = pull(actor).metrics
    assert first["timestamp"] == 1_000_002
    assert (first["done"], first["trial_id"], first["pid"]) == (False, "t_00000", os.getpid())
    assert "config" not in first
    keys = ("training_iteration", "time_this_iter_s", "time_total_s", "time_since_restore", "iterations_since_restore")
    assert [first[key] for key in keys] == [1, 2.0, 2.0, 2.0, 1]
    assert [second[key] for key in keys] == [2, 2.0, 4.0, 4.0, 2]
    assert "timesteps_total" not in first
    assert "should_checkpoint" not in first
    assert len(first["date"]) == len("2026-01-01_00-00-00")


def test_the_users_own_values_win_where_they_may(driver):
    own = {"training_iteration": 7, "timestamp": 3, "time_this_iter_s": 1.5, "should_checkpoint": True, "done": False}
    metrics = pull(driver.start(lambda config: {**own, "pid": "mine"})).metrics
    assert {key: metrics[key] for key in own} == own
    assert metrics["time_total_s"] == 1.5
    assert metrics["pid"] == os.getpid()


@pytest.mark.parametrize(
    ("restored", "reports", "totals", "since_restore"),
    [
        (100, [{"timesteps_this_iter": 5}, {"timesteps_this_iter": 6}, {}], [105, 111, 111], [5, 11, 11]),
        (
            None,
            [{"timesteps_total": 50}, {"timesteps_total": 60, "timesteps_this_iter": 4}, {}],
            [50, 60, 4],
            [None, 4, 4],
        ),
    ],
)
def test_increments_are_summed_up_and_totals_of_the_users_own_are_not(driver, restored, reports, totals, since_restore):
    actor = driver.start(lambda config: (metrics for metrics in reports))
    if restored is not None:
        actor.restore(
            str(driver.directory), {"timesteps_total": restored, "training_iteration": 4, "time_total_s": 9.0}
        )
    seen = [pull(actor).metrics for _ in reports]
    assert [one.get("timesteps_total") for one in seen] == totals
    assert [one.get("timesteps_since_restore") for one in seen] == since_restore


def test_counters_go_on_from_the_checkpoints_metrics(driver):
    actor = driver.start(lambda config: {"path": get_checkpoint().path})
    actor.restore(str(driver.directory), {"training_iteration": 4, "time_total_s": 9.0, "time_this_iter_s": 1.0})
    metrics = pull(actor).metrics
    assert metrics["path"] == str(driver.directory)
    assert metrics["training_iteration"] == 5
    assert metrics["iterations_since_restore"] == 1
    assert metrics["time_total_s"] == pytest.approx(9.0 + metrics["time_since_restore"])


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 10**400, "seven", None])
def test_a_value_that_cannot_be_counted_does_not_prevent_a_restore(driver, value):
    metrics = {"training_iteration": value, "time_total_s": value, "timesteps_total": value}
    actor = driver.start(lambda config: {**metrics, "time_this_iter_s": value, "timesteps_this_iter": value, "n": 1})
    actor.restore(str(driver.directory), metrics)
    assert pull(actor).metrics["n"] == 1


def test_a_report_that_does_not_count_leaves_the_counters_as_they_were(driver):
    """Such as one within which a signal handler has raised an exception."""
    heard = Session(driver.info(), Allocation(), AutoFields("t_00000", None))
    counts = []

    def hand_over(make):
        made, commit = make()
        iterations.append(made.metrics["training_iteration"])
        if counts.pop():
            commit()

    heard.hand_over = hand_over
    iterations = []
    for is_counted in (False, True, False, True):
        counts.append(is_counted)
        heard.report({"timesteps_this_iter": 5})
    assert iterations == [1, 1, 2, 2]
    assert (heard.fields.timesteps_total, heard.fields.iterations_since_restore) == (10, 2)


def test_a_result_names_the_machine(driver, monkeypatch):
    metrics = pull(driver.start(lambda config: 1)).metrics
    assert (metrics["hostname"], metrics["node_ip"]) == (os.uname().nodename, "127.0.0.1")
    monkeypatch.setenv(NODE_IP_VARIABLE, "10.0.0.7")
    assert pull(driver.start(lambda config: 1, name="t_1")).metrics["node_ip"] == "10.0.0.7"
