"""The demo, run as users run it; its figures are computed again from the files that it leaves."""

import json
import os
import re
import signal
import statistics
from pathlib import Path

import pytest

from minitune import Checkpoint
from minitune.commands import cli
from minitune.examples import quickstart


def _reports(run):
    """What each trial has reported, by its directory."""
    return {
        path.parent: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in sorted(run.glob("*/result.json"))
    }


def _held_out_accuracy(trial, reports, seed):
    """The held-out accuracy of the checkpoint that came with the trial's lowest validation loss."""
    best = min(reports, key=lambda report: report["loss"])
    network, epoch = quickstart.load(str(trial / best["checkpoint_dir_name"]))
    assert epoch == best["training_iteration"]
    _, validation, held_out = quickstart.split(seed)
    assert network.evaluate(validation) == pytest.approx((best["loss"], best["accuracy"]))
    return network.evaluate(held_out)[1]


def _shown(pattern, output):
    found = re.search(pattern, output)
    assert found, f"{pattern} is not in:\n{output}"
    return found[1]


def _check(output, storage, seed, samples):
    """Hold the demo's figures against its files; returns the figures as they were shown."""
    (run,) = storage.iterdir()
    trials = _reports(run)
    assert len(trials) == samples
    assert {row["config"]["seed"] for rows in trials.values() for row in rows} == {seed}
    winner = min(trials, key=lambda trial: min(row["loss"] for row in trials[trial]))
    accuracies = {trial: _held_out_accuracy(trial, rows, seed) for trial, rows in trials.items()}
    epochs = sum(len(rows) for rows in trials.values())
    saved = 1 - epochs / (samples * quickstart.MAX_EPOCHS)

    figures = (
        _shown(r"Held-out accuracy, best trial: +(\S+)", output),
        _shown(r"Held-out accuracy, median trial: +(\S+)", output),
        _shown(r"Epochs saved by early stopping: +(\S+)", output),
    )
    assert figures == (f"{accuracies[winner]:.4f}", f"{statistics.median(accuracies.values()):.4f}", f"{saved:.2%}")
    assert f"({epochs} were run)" in output
    assert _shown(r"All results: +(.+)", output) == str(run)
    assert Path(_shown(r"Best checkpoint: +(.+)", output)).parent == winner
    config = json.loads((winner / "params.json").read_text(encoding="utf-8"))
    shown = dict(pair.split("=") for pair in _shown(r"Best configuration: +(.+)", output).split(", "))
    assert shown == {key: f"{value:.3g}" for key, value in config.items() if key != "seed"}
    return figures


def test_the_demo_agrees_with_its_files_and_depends_on_its_seed(script, tmp_path):
    figures = {}
    for seed in (1, 2):
        storage = tmp_path / f"storage{seed}"
        done = script.run_minitune("demo", "--seed", str(seed), "--num-samples", "3", "--storage", str(storage))
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        output = done.stdout
        figures[seed] = _check(output, storage, seed, 3)
        assert "Run of 3 trials (min loss)" in output, "the run was not announced"

    assert figures[1] != figures[2]
    assert all(float(best) > float(median) for best, median, _ in figures.values())


def test_demo_ends_with_commands_that_work_without_minitune_on_path(script, monkeypatch):
    monkeypatch.setenv("PATH", os.defpath)
    output = script.run_minitune("demo", "--num-samples", "2").stdout
    commands = output.partition("\nNext: ")[2].splitlines()[1:]
    assert len(commands) == 3, output
    for command in commands:
        done = script.run_command(["sh", "-c", command])
        assert (done.returncode, done.stderr) == (0, ""), command


def test_ctrl_c_ends_the_demo_with_the_results_so_far(script, tmp_path):
    demo = script.start_minitune("demo", "--num-samples", "200", "--storage", str(tmp_path))
    script.wait_until(lambda: any(path.stat().st_size for path in tmp_path.glob("*/*/result.json")))
    demo.send_signal(signal.SIGINT)
    stdout, stderr = script.finish(demo)
    assert demo.returncode == 4
    assert "Ended early: interrupted by SIGINT" in stdout
    assert "minitune resume" in stderr
    assert "Traceback" not in stderr


def test_the_demo_refuses_a_number_of_samples_that_makes_no_sense(capsys):
    with pytest.raises(SystemExit):
        cli.main(["demo", "--num-samples", "0"])

    assert "argument --num-samples: expected N >= 1, but got 0" in capsys.readouterr().err


def test_the_data_are_split_into_parts_that_share_no_flower():
    for seed in (1, 2):
        parts = quickstart.split(seed)

        assert [len(part) for part in parts] == [45, 45, 60]
        assert [sum(label == k for part in parts for _, label in part) for k in range(3)] == [50, 50, 50]
    assert quickstart.split(1) == quickstart.split(1) != quickstart.split(2)


def test_a_training_that_was_interrupted_goes_on_as_if_it_had_not_been(monkeypatch, tmp_path):
    config = {"lr": 0.2, "l2": 1e-3, "units": 4, "batch": 8, "seed": 3}
    stopped_after = 7

    class Stop(Exception):
        pass

    def train(start, stop_after):
        losses = []

        def report(metrics, checkpoint):
            losses.append(metrics["loss"])
            if len(losses) == stop_after:
                checkpoint.to_directory(tmp_path / "kept")
                raise Stop

        monkeypatch.setattr(quickstart, "report", report)
        monkeypatch.setattr(quickstart, "get_checkpoint", lambda: start)
        try:
            quickstart.train_iris(config)
        except Stop:
            pass
        return losses

    whole = train(None, None)
    first = train(None, stopped_after)
    rest = train(Checkpoint(tmp_path / "kept"), None)

    assert len(whole) == quickstart.MAX_EPOCHS
    assert first + rest == whole
    assert whole[-1] < whole[0] / 2
