"""What the commands `replay` and `explain` say of a run, and `Result.decisions`."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from kit import cut, fit

from minitune import (
    ASHAScheduler,
    Callback,
    Result,
    ResultGrid,
    RunConfig,
    TuneConfig,
    Tuner,
    cli,
    clock,
    create_scheduler,
    grid_search,
    report,
    uniform,
)
from minitune.clock import VirtualClock
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.record.past_run import PastRun
from minitune.schedulers import FIFOScheduler, HyperBandScheduler, PopulationBasedTraining
from minitune.simulation import simulate


def train(config: dict[str, Any]) -> None:
    for epoch in range(1, 10):
        report({"loss": config["x"] + 1 / epoch, "time_this_iter_s": 2.0})
        if config["x"] == 5 and epoch == 4:
            raise ValueError("a bad one")


def run(path: Path, name: str = "past", scheduler: Any = None, count: int = 9, **settings: Any) -> ResultGrid:
    config = TuneConfig(metric="loss", mode="min", executor="inline", scheduler=scheduler, max_concurrent_trials=1)
    run_config = RunConfig(verbose=0, storage_path=str(path), name=name, **settings)
    return Tuner(train, param_space={"x": grid_search(range(count))}, tune_config=config, run_config=run_config).fit()


def test_a_past_run_is_a_table_of_curves(tmp_path: Path) -> None:
    grid = run(tmp_path)
    past = PastRun.read(grid.experiment_path)
    ids = [result.metrics["trial_id"] for result in grid]

    assert list(past.curves) == ids
    assert past.configs[ids[3]] == {"x": 3}
    assert past.curves[ids[3]][1] == ({"loss": 3.5, "training_iteration": 2}, 2.0)
    assert (past.num_results, past.training_s) == (8 * 9 + 4, 2.0 * (8 * 9 + 4))
    assert past.cut == {ids[5]}
    assert (past.metric, past.mode) == ("loss", "min")


def test_a_past_run_is_simulated_under_another_scheduler(tmp_path: Path) -> None:
    grid = run(tmp_path)
    config = TuneConfig(metric="loss", mode="min", scheduler=ASHAScheduler(max_t=9, reduction_factor=3))
    done = simulate(grid.experiment_path, tune_config=config, num_workers=2)

    assert done.results.get_best_result().config == {"curve": grid[0].metrics["trial_id"]}
    assert done.num_steps < 40


def test_replay_tells_the_savings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = run(tmp_path, count=4)

    assert cli.main(["replay", grid.experiment_path, "--set", "reduction_factor=3"]) == 0
    took = f"{PastRun.read(grid.experiment_path).took_s:.3g}"
    assert capsys.readouterr().out.splitlines() == [
        f"{grid.experiment_path}: 4 trials, 36 results, 72 s of training; the best report has loss=0.111111 (min)",
        "asha on 1 worker would have used",
        "  results   12 of 36 (33% of the run's)",
        "  training  24 s of 72 s (33%)",
        f"  time      24 s instead of {took} s, which the run took",
        "and found loss 0.111111, the best, after 9 results (25% of all)",
    ]


class EndsAtOne(Callback):
    """Raises at the first result of the second trial."""

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any) -> None:
        if trial.config["x"] == 1:
            raise OSError("enough")


def slow(config: dict[str, Any]) -> None:
    for _ in range(3):
        clock.current.sleep(10.0)
        report({"loss": config["x"]})


def virtual(workers: int) -> TuneConfig:
    executor = InlineTrialExecutor(Machine({"CPU": 8}, ()), VirtualClock())
    return TuneConfig(metric="loss", mode="min", executor=executor, max_concurrent_trials=workers)


def test_replay_takes_the_runs_workers_and_the_time_that_it_took(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, path = virtual(workers=2), str(tmp_path / "past")
    run_config = RunConfig(verbose=0, storage_path=str(tmp_path), name="past")
    Tuner(slow, param_space={"x": grid_search(range(4))}, tune_config=config, run_config=run_config).fit()
    past = PastRun.read(path)
    assert (past.num_workers, past.took_s) == (2, config.executor.clock.monotonic())

    assert cli.main(["replay", path, "--scheduler", "fifo"]) == 0
    shown = capsys.readouterr().out
    assert "fifo on 2 workers would have used\n" in shown
    assert f"  time      60 s instead of {past.took_s:.3g} s, which the run took\n" in shown
    assert cli.main(["replay", path, "--scheduler", "fifo", "--workers", "4"]) == 0
    shown = capsys.readouterr().out
    assert "fifo on 4 workers would have used\n" in shown
    assert f"  time      30 s instead of 30 s (the run took {past.took_s:.3g} s on 2 workers)\n" in shown


def test_the_time_between_two_parts_of_a_run_does_not_count(tmp_path: Path) -> None:
    first, second, path = virtual(workers=1), virtual(workers=1), str(tmp_path / "past")
    run_config = RunConfig(verbose=0, storage_path=str(tmp_path), name="past", callbacks=[EndsAtOne()])
    with pytest.raises(OSError, match="enough"):
        Tuner(slow, param_space={"x": grid_search(range(3))}, tune_config=first, run_config=run_config).fit()
    second.executor.clock.sleep(1000.0)
    Tuner.restore(path, slow, tune_config=second, run_config=RunConfig(verbose=0)).fit()
    assert PastRun.read(path).took_s == pytest.approx(40.0 + 60.0)


def test_a_driver_that_was_killed_was_at_work_until_its_last_record(tmp_path: Path) -> None:
    path = Path(run(tmp_path, count=2).experiment_path)
    took_s = PastRun.read(path).took_s
    *rest, close = (path / "journal").read_text().splitlines(keepends=True)
    assert '"close"' in close
    (path / "journal").write_text("".join(rest))
    assert 0 < PastRun.read(path).took_s < took_s + 1


def test_replay_follows_its_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configs: list[dict[str, Any]] = []
    made: list[tuple[str, dict[str, Any]]] = []

    def note(run: Any, *, tune_config: TuneConfig, **settings: Any) -> Any:
        configs.append({"metric": tune_config.metric, "mode": tune_config.mode, **settings})
        return simulate(run, tune_config=tune_config, **settings)

    def note_scheduler(name: str, **arguments: Any) -> Any:
        made.append((name, arguments))
        return create_scheduler(name, **arguments)

    monkeypatch.setattr("minitune.commands.why.simulate", note)
    monkeypatch.setattr("minitune.commands.why.create_scheduler", note_scheduler)
    path = run(tmp_path, count=3).experiment_path
    options = ["--metric", "training_iteration", "--mode", "max", "--seed", "7", "--workers", "3"]
    assert cli.main(["replay", path, "--scheduler", "asha", "--set", "grace_period=2", *options]) == 0
    expected = {"metric": "training_iteration", "mode": "max", "num_workers": 3, "seed": 7}
    assert configs == [expected] * 2
    assert made[-1] == ("asha", {"grace_period": 2, "time_attr": "training_iteration", "max_t": 9})
    assert cli.main(["replay", path, "--set", "max_t=5", *options]) == 0
    assert made[-1] == ("asha", {"time_attr": "training_iteration", "max_t": 5})


def test_replay_says_if_another_trial_would_have_been_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def crosses(config: dict[str, Any]) -> None:
        for epoch in range(1, 10):
            report({"loss": config["x"] if epoch < 9 else -config["x"]})

    space = {"x": grid_search([1, 2, 3, 4])}
    path = fit(crosses, space, metric="loss", mode="min", max_concurrent_trials=1, storage_path=tmp_path)
    assert cli.main(["replay", path.experiment_path, "--set", "reduction_factor=4"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("and found loss -1, not the best, after ")


def test_replay_says_that_curves_are_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path))
    run(tmp_path, "stopped", ASHAScheduler(max_t=9, reduction_factor=3))

    assert cli.main(["replay", "stopped", "--scheduler", "fifo"]) == 0
    shown = capsys.readouterr().out
    assert "of its 9 curves are cut" in shown
    assert "of the cut curves, and ended those trials there" in shown


def test_replay_refuses_unsuitable_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run(tmp_path, count=2).experiment_path

    for arguments, text in (
        ([str(tmp_path / "nowhere")], "there is no run"),
        ([path, "--metric", "accuracy"], "reported were: loss"),
        ([path, "--metric", "los"], "has the metric 'los' (did you mean 'loss'?)"),
    ):
        status = cli.main(["replay", *arguments])
        captured = capsys.readouterr()
        assert text in captured.err
        assert status == 1
    for arguments, text in (
        (["--scheduler", "fifo", "--set", "max_t=9"], "FIFOScheduler does not take max_t; it takes none"),
        (["--scheduler", "sooner"], "scheduler must be one of"),
        (["--set", "brackets"], "NAME=VALUE"),
        (["--set", "reduction_factor=0"], "reduction_factor"),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(["replay", path, *arguments])
        assert ended.value.code == 2
        assert text in capsys.readouterr().err


def test_a_result_tells_why_it_was_stopped(tmp_path: Path) -> None:
    grid = run(tmp_path, scheduler=ASHAScheduler(max_t=9, reduction_factor=3))

    last = grid[4].decisions[-1]
    assert (last.action, last.iteration) == ("STOP", 1)
    assert last.reason == "rank 5 of 5 at training_iteration 1, where the best 1 go on: loss=5, cutoff 1"
    assert str(last) == f"after iteration 1: stopped: {last.reason}"
    assert [one.action for one in grid[0].decisions] == ["CONTINUE", "CONTINUE", "STOP"]
    assert [str(one) for one in Result.from_path(grid[4].path).decisions] == [str(last)]


def test_a_promotion_is_explained_by_the_rank_that_led_to_it(tmp_path: Path) -> None:
    def curve(config: dict[str, Any]) -> list[tuple[dict[str, Any], float]]:
        return [({"loss": config["x"] + 1 / epoch}, 1.0) for epoch in range(1, 10)]

    scheduler = ASHAScheduler(max_t=9, reduction_factor=3, variant="promote")
    config = TuneConfig(metric="loss", mode="min", scheduler=scheduler)
    done = simulate(curve, param_space={"x": grid_search(list(range(9)))}, tune_config=config)
    promoted = next(one for one in done.results[0].decisions if one.action == "PROMOTE")

    assert promoted.facts == {"rule": "asha", "rung": 1, "bracket": 0, "rank": 1, "of": 3}
    assert str(promoted) == "after iteration 1: promoted: rank 1 of 3 at training_iteration 1"
    left = next(one for one in done.results[8].decisions if one.action == "STOP")
    assert str(left).endswith("stopped: no trial can be promoted any more: rank 9 of 9 at training_iteration 1")
    assert (left.facts["rank"], left.facts["of"], left.facts["scheduler"]) == (9, 9, "ASHA")


def test_a_scheduler_of_the_user_says_why_it_chooses_a_trial(tmp_path: Path) -> None:
    class LargestFirst(FIFOScheduler):
        def choose_trial_to_run(self, tune_controller: Any) -> Any:
            waiting = [one for one in tune_controller.get_trials() if one.status in ("PENDING", "PAUSED")]
            return max(waiting, key=lambda one: one.config["x"], default=None)

        def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
            return self.PAUSE if trial.attempt.number == 1 else self.CONTINUE

        def why_chosen(self, trial: Any) -> tuple[str, dict[str, Any]]:
            return f"x={trial.config['x']} is the largest", {"x": trial.config["x"]}

    grid = fit(train, {"x": grid_search([1, 2])}, scheduler=LargestFirst(), storage_path=str(tmp_path))
    told = [one for one in grid[1].decisions if one.action in ("START", "RESUME")]
    assert [str(one) for one in told] == [
        "at the start: started: x=2 is the largest",
        "after iteration 1: resumed: x=2 is the largest",
    ]
    assert [one.facts for one in told] == [{"x": 2}] * 2


def test_explain_prints_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run(
        tmp_path, scheduler=ASHAScheduler(max_t=9, reduction_factor=3), stop={"loss": ("<=", 0.3)}
    ).experiment_path

    assert cli.main(["explain", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    assert "after iteration 4: stopped because loss <= 0.3 was reached" in lines[0]

    assert cli.main(["explain", path, "00004"]) == 0
    assert "rank 5 of 5" in capsys.readouterr().out

    assert cli.main(["explain", path, "00004", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["decisions"]
    assert (told["action"], told["iteration"], told["kind"]) == ("STOP", 1, "scheduler")
    assert (told["facts"]["rank"], told["facts"]["of"], told["facts"]["cutoff"]) == (5, 5, 1)

    assert cli.main(["explain", path, "unknown"]) == 1
    assert "there is no trial 'unknown'" in capsys.readouterr().err


def test_an_end_of_the_trainable_s_own_is_no_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def train(config: dict[str, Any]) -> Any:
        if config["n"] == 2:
            return {"loss": 2}
        report({"loss": 1, "done": config["n"] == 1})
        return None

    grid = fit(train, {"n": grid_search([0, 1, 2])}, storage_path=str(tmp_path))
    returned = "after iteration 1: finished: the trainable has returned"
    ended = "after iteration 1: finished: the trainable has ended"
    assert [[str(one) for one in result.decisions] for result in grid] == [[returned], [ended], [returned]]
    assert cli.main(["explain", grid.experiment_path]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(f"_00000 {returned}")


def test_of_a_trial_that_can_continue_nothing_was_decided_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut(train, {"x": 1}, results=2, how="SIGINT", storage_path=str(tmp_path), name="cut")
    capsys.readouterr()
    for arguments in ([], ["0"]):
        assert cli.main(["explain", str(tmp_path / "cut"), *arguments]) == 0
        assert "nothing was decided so far\n" in capsys.readouterr().out


def test_a_report_has_the_runs_and_the_objective_that_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [run(tmp_path, name, count=2).experiment_path for name in ("one", "two")]
    target = tmp_path / "report.html"
    options = ["--metric", "training_iteration", "--mode", "max", "-o", str(target)]
    assert cli.main(["report", *paths, *options]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    data = json.loads(target.read_text().partition('id="data">')[2].partition("</script>")[0])
    shown = [(one["name"], one["metric"], one["mode"]) for one in data["runs"]]
    assert shown == [("one", "training_iteration", "max"), ("two", "training_iteration", "max")]


def test_failures_are_explained_too(tmp_path: Path) -> None:
    failed = run(tmp_path, count=6)[5]

    assert [one.action for one in failed.decisions] == ["FAIL"]
    assert "a bad one" in failed.decisions[0].reason


@pytest.mark.parametrize("now_s", [0.0, 100.0, 1e9])
def test_a_virtual_clock_moves_however_little_it_is_to(now_s: float) -> None:
    clock = VirtualClock(now_s)
    clock.sleep(1e-300)
    moved_s = clock.monotonic()
    clock.sleep(-1.0)

    assert clock.monotonic() == moved_s > now_s


def _noisy(config: dict[str, Any]) -> list[tuple[dict[str, Any], float]]:
    draws = random.Random(config["x"])
    return [({"loss": config["x"] + draws.random() / 2 + 1 / t}, draws.choice([0.7, 1.0, 2.0])) for t in range(1, 17)]


def _sentences(scheduler: Any, count: int) -> list[str]:
    config = TuneConfig(metric="loss", mode="min", scheduler=scheduler)
    space = {"x": grid_search([number / count for number in range(count)])}
    done = simulate(_noisy, param_space=space, tune_config=config, num_workers=3, seed=0)
    return [str(one) for result in done.results for one in result.decisions]


def test_ranks_of_hyperband_are_those_within_a_bracket_of_one_band() -> None:
    told = _sentences(HyperBandScheduler(max_t=16, reduction_factor=4), 60)
    found = re.findall(r"promoted: rank (\d+) of (\d+) ", "".join(told))
    assert len(found) > 10
    assert all(int(rank) <= max(1, int(of) // 4) for rank, of in found)


def test_population_based_training_tells_the_values_that_were_compared(caplog: pytest.LogCaptureFixture) -> None:
    mutations = {"x": uniform(0, 1)}
    pbt = PopulationBasedTraining("training_iteration", perturbation_interval=2, hyperparam_mutations=mutations)
    told = [one for one in _sentences(pbt, 12) if "continues from" in one]
    assert {one.split(": ")[1] for one in told} == {"exploits another trial", "explores"}
    for one in told:
        losses = [float(loss) for loss in re.findall(r"loss=([\d.]+)", one)]
        assert ("its own checkpoint" in one) == (": explores: " in one) == (len(losses) == 1)
        assert losses == sorted(losses, reverse=True)
    assert not caplog.records, "a simulation in memory has no directory for a log of the exploits"


def test_replay_tells_programs_what_was_used_and_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = run(tmp_path, count=6)
    arguments = ["replay", grid.experiment_path, "--json", "--workers", "1", "--set", "reduction_factor=3"]
    assert cli.main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    fixed = ("metric", "mode", "scheduler", "workers", "trials", "cut_trials")
    assert [told[name] for name in fixed] == ["loss", "min", "asha", 1, 6, 1]
    assert told["results"] == {"used": 14, "all": 49}
    assert told["training_s"] == {"used": 28.0, "all": 98.0}
    assert told["time_s"] == {"used": 28.0, "all": 98.0, "run": PastRun.read(grid.experiment_path).took_s}
    assert told["found"] == told["best"] == {"value": 1 / 9, "results": 9}
    assert cli.main(["replay", grid.experiment_path, "--json", "--mode", "max"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["mode"], told["best"]["value"]) == ("max", 6.0)


def test_a_run_without_a_finite_value_has_nothing_to_find(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = fit(lambda config: {"loss": float("nan")}, metric="loss", mode="min", storage_path=tmp_path).experiment_path
    assert cli.main(["replay", path, "--scheduler", "fifo"]) == 0
    out = capsys.readouterr().out
    assert "the best report has loss=nothing (min)\n" in out
    assert out.endswith("and found loss nothing\n")
    assert cli.main(["replay", path, "--scheduler", "fifo", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["found"], told["best"]) == (None, None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--set", "grace_period"], "--set takes NAME=VALUE, but got 'grace_period'"),
        (["--set", "grace=2"], "does not take grace; it takes time_attr, metric, "),
        (["--set", "time_attr=epoch", "--set", "max_t=much"], "--scheduler asha: "),
        (["--scheduler", "ashaa"], "--scheduler ashaa: "),
        (["--workers", "0"], "expected N >= 1, but got 0"),
    ],
)
def test_wrong_arguments_of_a_scheduler_are_told(
    tmp_path: Path, options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run(tmp_path, count=1).experiment_path
    with pytest.raises(SystemExit) as ended:
        cli.main(["replay", path, *options])
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_explain_tells_programs_each_decision_with_its_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run(tmp_path, count=3, scheduler=ASHAScheduler(max_t=9, reduction_factor=3)).experiment_path
    assert cli.main(["explain", path, "--json"]) == 0
    every = json.loads(capsys.readouterr().out)["decisions"]
    assert cli.main(["explain", path, "1", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)["decisions"]
    assert one == [each for each in every if each["trial"] == 1] != []
    assert {each["trial"] for each in every} == {0, 1, 2}
    assert {each["status"] for each in one} == {"stopped"}
    assert (one[-1]["kind"], one[-1]["iteration"]) == ("scheduler", 1)


def test_importances_without_a_model_are_a_line_for_each_parameter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_model(*args: Any, **kwargs: Any) -> None:
        raise ImportError("no sklearn")

    monkeypatch.setattr("minitune.visualization.importances.get_param_importances", no_model)
    space = {"long_name": grid_search(list(range(6))), "y": grid_search([0, 1])}
    grid = fit(
        lambda config: {"loss": config["long_name"] / 3}, space, metric="loss", mode="min", storage_path=tmp_path
    )
    assert cli.main(["importance", grid.experiment_path]) == 0
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"long_name  +[\d.]+", first)
    assert re.fullmatch(r"y          +-?[\d.]+", second)
    assert len(first) == len(second)
    assert rest
    assert cli.main(["importance", grid.experiment_path, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["metric"], told["mode"], told["trials"], told["r2"]) == ("loss", "min", 12, None)
    assert [each["parameter"] for each in told["importances"]] == ["long_name", "y"]
    assert {each["std"] for each in told["importances"]} == {None}
