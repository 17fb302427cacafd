"""Trials on a real card: shares, devices, memory, contexts, a training. `.ci/extras gpu` runs all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Card

from minitune import Checkpoint, RunConfig, TuneConfig, Tuner, grid_search, loguniform, report, with_resources
from minitune.schedulers import ASHAScheduler

SCRIPTS = Path(__file__).with_name("scripts")

HELD_MIB = 512
"""More than a context takes that is left behind would be seen, too: the tests allow 32 MiB."""


def run_of(tmp_path: Path, **settings: Any) -> RunConfig:
    return RunConfig(storage_path=tmp_path / "runs", verbose=0, **settings)


@pytest.mark.parametrize("at_a_time", [2, 4])
def test_trials_with_shares_use_one_card_at_the_same_time(card: Card, tmp_path: Path, at_a_time: int) -> None:
    present = tmp_path / "present"
    present.mkdir()

    def trainable(config: dict[str, Any]) -> dict[str, Any]:
        import time

        import torch

        x = torch.ones(1024, 1024, device="cuda")
        mark = present / str(config["x"])
        mark.touch()
        # Each wave of trials meets: it goes on when all of it are here.
        until = time.monotonic() + 60
        wave = range(config["x"] // at_a_time * at_a_time, (config["x"] // at_a_time + 1) * at_a_time)
        while not all((present / f"{number}").exists() for number in wave) and time.monotonic() < until:
            time.sleep(0.01)
        together = sum((present / f"{number}").exists() for number in wave)
        found = {
            "together": together,
            "sum": float((x @ x).sum()),
            "devices": torch.cuda.device_count(),
            "visible": os.environ["CUDA_VISIBLE_DEVICES"],
            "order": os.environ["CUDA_DEVICE_ORDER"],
        }
        torch.cuda.synchronize()
        return found

    space = {"x": grid_search(list(range(2 * at_a_time)))}
    resources = {"cpu": 0.1, "gpu": 1 / at_a_time}
    tune_config = TuneConfig(max_concurrent_trials=at_a_time)
    grid = Tuner(
        with_resources(trainable, resources), param_space=space, tune_config=tune_config, run_config=run_of(tmp_path)
    ).fit()
    assert not grid.errors
    assert {result.metrics["together"] for result in grid} == {at_a_time}
    assert {result.metrics["sum"] for result in grid} == {1024.0**3}
    assert {result.metrics["devices"] for result in grid} == {1}
    assert len({result.metrics["visible"] for result in grid}) == 1
    assert {result.metrics["order"] for result in grid} == {"PCI_BUS_ID"}


@pytest.mark.parametrize("kind", ["index", "uuid"])
def test_a_trial_gets_the_card_that_the_variable_names(card: Card, tmp_path: Path, kind: str) -> None:
    named = getattr(card, kind)
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": named}
    env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # that of nvidia-smi, whose index it is
    done = subprocess.run(
        [sys.executable, SCRIPTS / "shows_its_device.py", str(tmp_path)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["visible"] == named
    assert found["uuid"] in card.uuid


def test_the_memory_of_a_killed_trial_is_free_for_its_retry(card: Card, tmp_path: Path) -> None:
    before = card.used_mib()

    def trainable(config: dict[str, Any]) -> None:
        import signal

        import torch

        from minitune import get_context

        free_bytes, _ = torch.cuda.mem_get_info()
        held = torch.empty(HELD_MIB * 2**20, dtype=torch.uint8, device="cuda")
        report({"free_mib": free_bytes // 2**20, "held": held.numel(), "pid": os.getpid()})
        if get_context().get_attempt() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    from minitune import FailureConfig

    run_config = run_of(tmp_path, failure_config=FailureConfig(max_failures=1))
    grid = Tuner(with_resources(trainable, {"gpu": 1}), run_config=run_config).fit()
    assert not grid.errors
    first, second = _rows(grid[0])
    assert first["pid"] != second["pid"]
    assert abs(first["free_mib"] - second["free_mib"]) < HELD_MIB / 2
    assert (
        card.total_mib - second["free_mib"] - before < 2 * HELD_MIB + 1024
    )  # its own context, and that of nobody else


def test_the_memory_of_a_stopped_trial_returns(tmp_path: Path) -> None:
    def trainable(config: dict[str, Any]) -> None:
        import torch

        held = torch.empty(HELD_MIB * 2**20, dtype=torch.uint8, device="cuda")
        while True:
            report({"held": held.numel()})

    grid = Tuner(
        with_resources(trainable, {"gpu": 1}), run_config=run_of(tmp_path, stop={"training_iteration": 3})
    ).fit()
    assert (grid.num_errors, grid[0].metrics["training_iteration"]) == (0, 3)


def test_a_trial_out_of_memory_fails_alone_and_says_so(tmp_path: Path) -> None:
    def trainable(config: dict[str, Any]) -> dict[str, Any]:
        import torch

        _, total_bytes = torch.cuda.mem_get_info()
        size = 2 * total_bytes if config["is_greedy"] else 2**20
        return {"held": torch.empty(size, dtype=torch.uint8, device="cuda").numel()}

    grid = Tuner(
        with_resources(trainable, {"gpu": 1}),
        param_space={"is_greedy": grid_search([True, False])},
        run_config=run_of(tmp_path),
    ).fit()
    assert "CUDA out of memory" in str(grid[0].error)
    assert grid[1].metrics["held"] == 2**20


def test_trials_in_one_process_find_its_card_again(tmp_path: Path) -> None:
    def trainable(config: dict[str, Any]) -> dict[str, Any]:
        import torch

        before = torch.cuda.memory_allocated()
        held = torch.empty(HELD_MIB * 2**20, dtype=torch.uint8, device="cuda")
        return {"before": before, "held": held.numel(), "pid": os.getpid()}

    grid = Tuner(
        with_resources(trainable, {"gpu": 1}),
        param_space={"x": grid_search([1, 2, 3])},
        tune_config=TuneConfig(reuse_actors=True),
        run_config=run_of(tmp_path),
    ).fit()
    assert not grid.errors
    assert {result.metrics["before"] for result in grid} == {0}
    assert len({result.metrics["pid"] for result in grid}) == 1


def test_neither_driver_nor_zygote_touches_the_card(tmp_path: Path) -> None:
    driver = os.getpid()

    def trainable(config: dict[str, Any]) -> dict[str, Any]:
        import torch

        def devices_of(pid: int) -> list[str]:
            """The devices of NVIDIA that a process has open. A context needs several."""
            links = [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
            found = [os.readlink(link) for link in links if os.path.islink(link)]
            return sorted({path for path in found if path.startswith("/dev/nvidia")})

        torch.ones(1, device="cuda")
        zygote = os.getppid()
        return {
            "own": devices_of(os.getpid()),
            "zygote": devices_of(zygote),
            "driver": devices_of(driver),
            "is_forked": zygote != driver,
        }

    found = Tuner(with_resources(trainable, {"gpu": 1}), run_config=run_of(tmp_path)).fit()[0].metrics
    assert found["own"] != []  # or the look at the others would prove nothing
    assert (found["zygote"], found["driver"]) == ([], [])
    assert found["is_forked"]


def test_preloaded_torch_works_with_a_card_and_without(tmp_path: Path) -> None:
    def trainable(config: dict[str, Any]) -> dict[str, Any]:
        import torch

        device = "cuda" if config["gpu"] else "cpu"
        x = torch.ones(8, 8, device=device)
        with open(f"/proc/{os.getppid()}/maps") as file:
            is_preloaded = "libtorch" in file.read()
        return {
            "sum": float((x @ x).sum()),
            "is_initialized": torch.cuda.is_initialized(),
            "is_preloaded": is_preloaded,
        }

    grid = Tuner(
        with_resources(trainable, lambda config: {"cpu": 1, "gpu": config["gpu"]}),
        param_space={"gpu": grid_search([1, 0])},
        run_config=run_of(tmp_path),
    ).fit()
    assert not grid.errors
    on_card, without = (result.metrics for result in grid)
    assert (on_card["sum"], on_card["is_initialized"]) == (512, True)
    assert (without["sum"], without["is_initialized"], without["is_preloaded"]) == (512, False, True)


def _rows(result: Any) -> list[dict[str, Any]]:
    """The reports of a trial."""
    lines = Path(result.path, "result.json").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_a_network_is_tuned_with_asha_and_its_best_checkpoint_loads(tmp_path: Path) -> None:
    def trainable(config: dict[str, Any]) -> None:
        import tempfile

        import torch

        from minitune import get_checkpoint

        torch.manual_seed(0)
        x = torch.randn(512, 8, device="cuda")
        y = (x.sum(dim=1, keepdim=True) > 0).float()
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).cuda()
        optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
        found = get_checkpoint()
        begin = 0
        if found is not None:
            with found.as_directory() as directory:
                state = torch.load(Path(directory, "state.pt"), weights_only=True)
            model.load_state_dict(state["model"])
            begin = state["epoch"] + 1
        for epoch in range(begin, 9):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with tempfile.TemporaryDirectory() as directory:
                torch.save({"model": model.state_dict(), "epoch": epoch}, Path(directory, "state.pt"))
                report({"loss": loss.item(), "epoch": epoch}, checkpoint=Checkpoint.from_directory(directory))

    grid = Tuner(
        with_resources(trainable, {"cpu": 0.5, "gpu": 0.5}),
        param_space={"lr": loguniform(1e-5, 1e-1)},
        tune_config=TuneConfig(
            metric="loss", mode="min", num_samples=6, scheduler=ASHAScheduler(max_t=9, grace_period=1), seed=1
        ),
        run_config=run_of(tmp_path),
    ).fit()
    assert not grid.errors
    epochs = sorted(result.metrics["epoch"] for result in grid)
    assert epochs[-1] == 8
    best = grid.get_best_result()
    with best.checkpoint.as_directory() as directory:
        code = "import sys, torch; print(torch.load(sys.argv[1], map_location='cpu', weights_only=True)['epoch'])"
        done = subprocess.run(
            [sys.executable, "-c", code, str(Path(directory, "state.pt"))],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    assert int(done.stdout) == best.metrics["epoch"]


def test_a_torch_trainer_trains_on_the_card(tmp_path: Path) -> None:
    from minitune.train import ScalingConfig
    from minitune.train.torch import TorchTrainer, get_device, prepare_data_loader, prepare_model

    def loop(config: dict[str, Any]) -> None:
        import torch

        model = prepare_model(torch.nn.Linear(4, 1))
        samples = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
        loader = prepare_data_loader(torch.utils.data.DataLoader(samples, batch_size=16))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(2):
            for x, y in loader:
                loss = ((model(x) - y) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total = loss.detach().clone()
            torch.distributed.all_reduce(total)
            report({"is_same": bool(total == loss), "device": str(x.device), "own": str(get_device())})

    scaling = ScalingConfig(num_workers=1, use_gpu=True)
    found = TorchTrainer(loop, scaling_config=scaling, run_config=run_of(tmp_path)).fit().metrics
    assert (found["is_same"], found["device"], found["own"]) == (True, "cuda:0", "cuda:0")


def test_doctor_names_the_card(card: Card) -> None:
    command = [sys.executable, "-m", "minitune", "doctor"]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": card.uuid}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    line = next(line for line in done.stdout.splitlines() if "gpus" in line.lower())
    assert card.uuid in line
    del env["CUDA_VISIBLE_DEVICES"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    line = next(line for line in done.stdout.splitlines() if "gpus" in line.lower())
    assert card.index in line
    assert "none" not in line
