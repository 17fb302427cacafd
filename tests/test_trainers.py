"""Trainers of Ray Train with one worker: what `Tuner` makes of them, alone and in a space."""

import contextlib
import copy
import os
import random
import signal
from collections import namedtuple
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kit import fit, stand_ins

import minitune
from minitune import tune
from minitune.ray.trainers import (
    BoostingTrainer,
    TorchConfig,
    TorchTrainer,
    enable_reproducibility,
    get_device,
    get_devices,
    prepare_data_loader,
    prepare_model,
)
from minitune.train import Checkpoint, RunConfig, ScalingConfig
from minitune.train.base_trainer import TrainingFailedError
from minitune.train.data_parallel_trainer import DataParallelTrainer
from minitune.train.tensorflow import TensorflowTrainer

SCRIPTS = Path(__file__).with_name("scripts")


@pytest.fixture
def run_config(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_EXECUTOR", "inline")
    return RunConfig(storage_path=tmp_path, name="run", verbose=0)


def loop(config):
    context = minitune.train.get_context()
    assert (context.get_world_size(), context.get_world_rank()) == (1, 0)
    for epoch in range(3):
        minitune.train.report({"loss": config["lr"] / (epoch + 1), "width": config["model"]["width"]})


CONFIG = {"lr": 3.0, "model": {"width": 8, "depth": 2}}


def test_fit_alone_is_a_run_with_one_trial(run_config):
    result = DataParallelTrainer(loop, train_loop_config=CONFIG, run_config=run_config).fit()
    assert result.metrics["loss"] == 1.0
    assert result.config == {"train_loop_config": CONFIG}
    assert result.path.startswith(f"{run_config.storage_path}/run/DataParallelTrainer_")


def test_a_space_changes_single_values_of_the_loop(run_config):
    trainer = DataParallelTrainer(loop, train_loop_config=CONFIG, run_config=run_config)
    space = {"train_loop_config": {"model": {"width": tune.grid_search([1, 2])}}}
    grid = tune.Tuner(trainer, param_space=space, tune_config=tune.TuneConfig(metric="loss", mode="min")).fit()
    assert [(result.metrics["width"], result.metrics["loss"]) for result in grid] == [(1, 1.0), (2, 1.0)]
    assert CONFIG == {"lr": 3.0, "model": {"width": 8, "depth": 2}}
    assert grid.experiment_path == f"{run_config.storage_path}/run"


def test_the_run_of_the_tuner_comes_first(run_config, tmp_path):
    trainer = DataParallelTrainer(loop, train_loop_config=CONFIG, run_config=run_config)
    other = RunConfig(storage_path=tmp_path, name="other", verbose=0)
    assert tune.Tuner(trainer, run_config=other).fit().experiment_path == str(tmp_path / "other")
    assert tune.run(trainer.as_trainable(), storage_path=str(tmp_path), verbose=0).trials[0].last_result["loss"] == 1.0


def test_a_loop_changes_its_configuration_for_itself_alone(run_config):
    def greedy(config):
        minitune.train.report({"width": config["model"].pop("width")})

    trainer = DataParallelTrainer(greedy, train_loop_config=CONFIG, run_config=run_config)
    space = {"train_loop_config": {"lr": tune.grid_search([1, 2])}}
    assert [result.metrics["width"] for result in tune.Tuner(trainer, param_space=space).fit()] == [8, 8]


def test_a_loop_may_take_nothing_and_returns_nothing(run_config):
    def plain():
        minitune.train.report({"loss": 1})
        return "ignored"

    assert TensorflowTrainer(plain, run_config=run_config).fit().metrics["loss"] == 1


def test_a_scaling_config_gives_resources(run_config, monkeypatch):
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "8")
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "2")

    def shows():
        minitune.train.report(minitune.train.get_context().get_trial_resources().required_resources)

    def resources(own, **space):
        trainer = DataParallelTrainer(shows, scaling_config=own, run_config=run_config)
        grid = tune.Tuner(trainer, param_space=space).fit()
        assert not grid.errors
        return [{key: result.metrics.get(key) for key in ("CPU", "GPU")} for result in grid]

    assert resources(None) == [{"CPU": 1, "GPU": None}]
    assert resources(ScalingConfig(num_workers=1, use_gpu=True)) == [{"CPU": 1, "GPU": 1}]
    share = {"CPU": 2, "GPU": 0.5}
    scaling = ScalingConfig(use_gpu=True, resources_per_worker=share, trainer_resources={"CPU": 1})
    assert resources(scaling) == [{"CPU": 3, "GPU": 0.5}]
    bare = ScalingConfig(use_gpu=True, resources_per_worker={"GPU": 0.5})
    assert resources(bare) == [{"CPU": 1, "GPU": 0.5}]
    # in a space: a constant, fields with a domain among them, a domain
    constant = ScalingConfig(resources_per_worker={"CPU": 4})
    assert resources(None, scaling_config=constant) == [{"CPU": 4, "GPU": None}]
    open_one = {"resources_per_worker": {"CPU": tune.grid_search([1, 2])}}
    assert resources(None, scaling_config=open_one) == [{"CPU": 1, "GPU": None}, {"CPU": 2, "GPU": None}]
    grid = tune.grid_search([constant, scaling])
    assert resources(None, scaling_config=grid) == [{"CPU": 4, "GPU": None}, {"CPU": 3, "GPU": 0.5}]


def test_a_drawn_number_of_workers_ends_the_run(run_config):
    trainer = DataParallelTrainer(loop, train_loop_config=CONFIG, run_config=run_config)
    space = {"scaling_config": {"num_workers": tune.grid_search([1, 2])}}
    with pytest.raises(minitune.TuneError, match="num_workers must be 1, but got 2"):
        tune.Tuner(trainer, param_space=space).fit()


def test_a_trainer_resumes_from_a_checkpoint(run_config, tmp_path):
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "step").write_text("7")

    def resumes():
        found = minitune.train.get_checkpoint()
        with found.as_directory() as directory:
            minitune.train.report({"step": int(Path(directory, "step").read_text())})

    checkpoint = Checkpoint(tmp_path / "given")
    result = DataParallelTrainer(resumes, run_config=run_config, resume_from_checkpoint=checkpoint).fit()
    assert result.metrics["step"] == 7


def test_a_failed_training_raises_with_its_error_as_the_cause(run_config):
    def fails():
        raise KeyError("no such column")

    with pytest.raises(TrainingFailedError, match="no such column") as caught:
        DataParallelTrainer(fails, run_config=run_config).fit()
    assert "KeyError: 'no such column'" in str(caught.value.__cause__)
    with pytest.raises(TrainingFailedError, match="minitune has no data sets"):
        DataParallelTrainer(lambda: minitune.train.get_dataset_shard("train"), run_config=run_config).fit()


def test_what_a_trainer_cannot_do_is_refused_at_once(run_config):
    for kind, arguments, error, text in (
        (DataParallelTrainer, (5,), TypeError, "train_loop_per_worker must be a function, but got 5"),
        (
            DataParallelTrainer,
            (lambda config, data: None,),
            ValueError,
            r"its signature is \(config, data\)",
        ),
        (partial(TorchTrainer, torch_config=5), (loop,), TypeError, "torch_config must be a TorchConfig, but got 5"),
        (partial(TensorflowTrainer, tensorflow_config=5), (loop,), TypeError, "must be a TensorflowConfig, but got 5"),
    ):
        with pytest.raises(error, match=text):
            kind(*arguments)
    for name, value, text in (
        ("datasets", {"train": [1]}, "datasets must be None: this package has no data sets"),
        ("dataset_config", 1, "dataset_config must be None"),
        ("metadata", {"a": 1}, "metadata must be None"),
        ("train_loop_config", 5, "train_loop_config must be a dict, but got 5"),
        ("scaling_config", 5, "scaling_config must be None or a ScalingConfig, but got 5"),
        ("resume_from_checkpoint", "here", "resume_from_checkpoint must be None or a Checkpoint"),
    ):
        with pytest.raises(ValueError, match=text):
            DataParallelTrainer(loop, **{name: value})
    with pytest.raises(ValueError, match="keys train_loop_config and scaling_config, but got 'lr'"):
        tune.Tuner(DataParallelTrainer(loop), param_space={"lr": 1})
    with pytest.raises(ValueError, match=r"older form \(params\) reads data sets of Ray"):
        BoostingTrainer(params={"eta": 1}, datasets={})
    assert BoostingTrainer(loop, train_loop_config=CONFIG, run_config=run_config).fit().metrics["loss"] == 1.0


def test_a_process_of_its_own_trains_and_is_resumed(tmp_path):
    def once(config):
        found = minitune.train.get_checkpoint()
        start = found.to_dict()["step"] + 1 if found else 0
        for step in range(start, 4):
            minitune.train.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))
            if step == 1 and not found:
                raise RuntimeError("breaks once")

    run_config = RunConfig(
        storage_path=tmp_path, verbose=0, callbacks=[NotPicklable()], failure_config=minitune.FailureConfig(1)
    )
    result = DataParallelTrainer(once, run_config=run_config).fit()
    assert result.metrics["step"] == 3


class NotPicklable(minitune.Callback):
    def __reduce__(self):
        raise TypeError("this stays in the driver")


# -- a training that goes on -------------------------------------------------------------------------------------------


def test_a_tuner_restores_a_training_whose_driver_was_killed(script, inline):
    process = script.start(SCRIPTS / "training_that_dies.py")
    script.finish(process)
    assert process.returncode == -signal.SIGKILL
    path = str(script.storage / "job")

    def loop(config):
        step = minitune.train.get_checkpoint().to_dict()["step"]
        minitune.train.report({"step": step, "own": config["own"], "lr": config["lr"]})

    trainer = DataParallelTrainer(loop, train_loop_config={"lr": 7, "own": 5})
    (result,) = tune.Tuner.restore(path, trainer).fit()
    assert [result.metrics[name] for name in ("step", "own", "lr", "training_iteration")] == [2, 5, 1.0, 4]
    assert result.path.startswith(f"{path}/")


def test_a_tuner_restores_a_failed_training_with_its_surroundings_and_its_given_checkpoint(run_config):
    around = []

    class Surrounded(DataParallelTrainer):
        def _surroundings(self):
            @contextlib.contextmanager
            def surroundings():
                around.append("begin")
                yield
                around.append("end")

            return surroundings

    def loop():
        if len(around) == 1:
            raise RuntimeError("not yet")
        minitune.train.report(minitune.train.get_checkpoint().to_dict())

    checkpoint = Checkpoint.from_dict({"step": 7})
    trainer = Surrounded(loop, resume_from_checkpoint=checkpoint, run_config=run_config)
    with pytest.raises(TrainingFailedError, match="not yet"):
        trainer.fit()
    path = Path(run_config.storage_path, "run")
    (result,) = tune.Tuner.restore(path, trainer, resume_errored=True).fit()
    assert (result.metrics["step"], around) == (7, ["begin", "begin", "end"])
    assert trainer.fit().path.startswith(f"{run_config.storage_path}/run_1/"), "a run of its own, beside the other"


@pytest.mark.parametrize("method", ["restore", "can_restore"])
def test_a_trainer_names_the_method_of_the_tuner(method):
    with pytest.raises(NotImplementedError, match=r"no TorchTrainer.restore .*Tuner.restore\(path, trainer,"):
        getattr(TorchTrainer, method)("path")


# -- PyTorch, with a stand-in for it -----------------------------------------------------------------------------------


class Group:
    """`torch.distributed` of a process."""

    HashStore = object

    def __init__(self, is_there=True):
        self.is_there = is_there
        self.begun = []
        self.is_open = False

    def is_available(self):
        return self.is_there

    def is_initialized(self):
        return self.is_open

    def init_process_group(self, backend, *, store, rank, world_size):
        assert type(store) is object, "in this process, without a port"
        self.begun.append((backend, rank, world_size))
        self.is_open = True

    def destroy_process_group(self):
        self.is_open = False


class Torch:
    """The parts of PyTorch that a trainer uses, on a machine with or without a GPU."""

    def __init__(self):
        self.has_gpu = False
        self.seeds = []
        self.distributed = Group()
        self.cuda = SimpleNamespace(is_available=lambda: self.has_gpu)
        self.backends = SimpleNamespace(cudnn=SimpleNamespace(benchmark=True))
        self.manual_seed = self.seeds.append
        self.use_deterministic_algorithms = self.seeds.append

    def device(self, name):
        return Device(name)


class Device(str):
    @property
    def type(self):
        return self.partition(":")[0]


class Tensor:
    """Knows where it is."""

    def __init__(self, device="cpu"):
        self.device = device

    def to(self, device, non_blocking=False):
        return Tensor(device)


@pytest.fixture
def torch():
    known = Torch()
    with stand_ins({"torch": vars(known) | {"device": known.device}}):
        known.cuda.is_available = lambda: known.has_gpu
        yield known


def environment():
    names = ("ACCELERATE_TORCH_DEVICE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "RANK", "WORLD_SIZE")
    return {name: os.environ.get(name) for name in names}


@pytest.mark.parametrize(
    ("has_gpu", "config", "backend", "device"),
    [
        (False, None, "gloo", "cpu"),
        (True, None, "nccl", "cuda:0"),
        (True, TorchConfig("gloo"), "gloo", "cuda:0"),
        (False, TorchConfig(backend="mpi"), "mpi", "cpu"),
    ],
)
def test_a_loop_of_pytorch_runs_in_a_group_of_one(torch, run_config, monkeypatch, has_gpu, config, backend, device):
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "1")
    monkeypatch.setenv("RANK", "7")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    before = environment()
    torch.has_gpu = has_gpu
    seen = []

    def trains():
        seen.append((torch.distributed.is_open, environment()))
        raise ValueError("the loop fails")

    scaling = ScalingConfig(use_gpu=has_gpu)
    trainer = TorchTrainer(trains, torch_config=config, scaling_config=scaling, run_config=run_config)
    with pytest.raises(TrainingFailedError, match="the loop fails"):
        trainer.fit()
    ((is_open, inside),) = seen
    assert is_open
    assert list(inside.values()) == [device, "0", "1", "0", "0", "1"]
    assert torch.distributed.begun == [(backend, 0, 1)]
    assert not torch.distributed.is_open
    assert environment() == before


@pytest.mark.parametrize("state", ["there is none", "the user has begun one"])
def test_a_process_group_that_is_not_needed_is_not_begun(torch, state):
    torch.distributed.is_there = state != "there is none"
    torch.distributed.is_open = state == "the user has begun one"
    with TorchConfig().process_group():
        assert os.environ["WORLD_SIZE"] == "1"
    assert torch.distributed.begun == []


def test_a_trial_uses_a_gpu_only_if_it_has_one(torch, monkeypatch):
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "1")

    def device(gpus):
        trains = tune.with_resources(
            lambda config: {"device": str(get_device()), "all": len(get_devices())}, {"gpu": gpus}
        )
        (result,) = fit(trains)
        assert result.metrics["all"] == 1
        return result.metrics["device"]

    assert (get_device(), get_devices(), device(1)) == ("cpu", ["cpu"], "cpu")
    torch.has_gpu = True
    assert (get_device(), get_devices(), device(0), device(1)) == ("cuda:0", ["cuda:0"], "cpu", "cuda:0")


def test_a_model_is_moved_to_the_device_that_is_wanted(torch):
    model = Tensor("elsewhere")
    torch.has_gpu = True
    assert prepare_model(model).device == "cuda:0"
    assert prepare_model(model, move_to_device="cuda:3").device == "cuda:3"
    assert prepare_model(model, False) is model


Pair = namedtuple("Pair", "x y")


def test_batches_arrive_on_the_device(torch):
    class Loader(list[Any]):
        batch_size = 32

    loader = Loader([{"a": Tensor(), "b": [Tensor(), 1]}, (Tensor(), "text"), Pair(Tensor(), None), Tensor()])
    assert prepare_data_loader(loader) is loader, "there is no GPU"
    torch.has_gpu = True
    assert prepare_data_loader(loader, move_to_device=False) is loader
    moved = prepare_data_loader(loader)
    assert (len(moved), moved.batch_size) == (4, 32)
    for _ in range(2):
        mapping, pair, named, tensor = moved
        assert (mapping["a"].device, mapping["b"][0].device, mapping["b"][1]) == ("cuda:0", "cuda:0", 1)
        assert (type(pair), pair[0].device, pair[1]) == (tuple, "cuda:0", "text")
        assert (type(named), named.x.device, named.y) == (Pair, "cuda:0", None)
        assert tensor.device == "cuda:0"
    assert loader[3].device == "cpu", "the loader's own batches stay"
    assert copy.copy(moved).batch_size == 32
    with pytest.raises(AttributeError, match="drop_last"):
        moved.drop_last  # noqa: B018


def test_reproducibility_seeds_all_generators(torch, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    of_numpy = []
    numpy = {"random": SimpleNamespace(seed=of_numpy.append)}
    state = random.getstate()
    try:
        with stand_ins({"numpy": numpy}):
            enable_reproducibility(7)
            first = random.random()
            enable_reproducibility()
        assert (first, random.random()) == (random.Random(7).random(), random.Random(0).random())
    finally:
        random.setstate(state)
    assert of_numpy == [7, 0]
    assert torch.seeds == [7, True, 0, True]
    assert torch.backends.cudnn.benchmark is False
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
