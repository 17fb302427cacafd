"""The trainers of Ray Train, with one worker: the trial's own process.

A trainer is a function trainable with resources, so `Tuner` and `run` take it. In its `train_loop_per_worker`,
`report`, `get_checkpoint` and `get_context` are those of the trial.

No training library is imported before it is used.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from minitune.base.calls import explains_calls
from minitune.base.checks import instance_of, require, shown
from minitune.checkpoint import Checkpoint
from minitune.config import RunConfig, ScalingConfig, as_config
from minitune.error import TuneError
from minitune.resources import Resources
from minitune.trainable.session import current_session
from minitune.trainable.util import BoundFunction
from minitune.utils.nested import merge_dicts

if TYPE_CHECKING:
    from minitune.result_grid import Result

_LOOP_CONFIG = "train_loop_config"
_SCALING = "scaling_config"

TrainingFailedError = TuneError
"""Ray's name of the error that `fit` of a trainer raises."""


# -- any library -------------------------------------------------------------------------------------------------------
class _TrainLoop:
    """The function trainable of a trainer. `around` makes what surrounds each call of the loop."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        config: dict[str, Any],
        scaling: ScalingConfig,
        checkpoint: Checkpoint | None,
        around: Callable[[], AbstractContextManager[object]],
    ):
        self.__name__ = name
        self.function = function
        self._takes_config = bool(inspect.signature(function).parameters)
        self.config = config
        self.scaling = scaling
        self.checkpoint = checkpoint
        self.around = around

    def __call__(self, config: dict[str, Any]) -> None:
        """Train in the calling trial, with the configuration of the loop that is in the trial's."""
        session = current_session()
        if session is not None and session.checkpoint is None:
            session.checkpoint = self.checkpoint
        arguments = []
        if self._takes_config:
            arguments.append(merge_dicts(self.config, config.get(_LOOP_CONFIG) or {}))
        with self.around():
            self.function(*arguments)

    def resources(self, config: dict[str, Any]) -> Resources:
        """The resources of a trial with this configuration."""
        given = config.get(_SCALING)
        scaling = self.scaling
        if isinstance(given, Mapping):
            scaling = replace(scaling, **given)
        elif given is not None:
            scaling = as_config(_SCALING, given, ScalingConfig)
        return scaling.as_placement_group_factory()


@explains_calls
class DataParallelTrainer(BoundFunction):
    """Trains with `train_loop_per_worker` in one process; the base class of the trainers.

    `Tuner` and `run` take it as their trainable, with the keys `train_loop_config` and `scaling_config` in the space.

    Args:
        train_loop_per_worker: The training, called with the configuration of the loop, or without an argument. It calls
            `report`.
        train_loop_config: The configuration of the loop. The space of a `Tuner` overrides single values.
        scaling_config: The resources of the worker.
        run_config: The run of `fit`, and of a `Tuner` that has none.
        datasets, dataset_config, metadata: Must be empty or None.
        resume_from_checkpoint: The checkpoint that the first attempt finds with `get_checkpoint`.

    Raises:
        TypeError: If `train_loop_per_worker` is not a function.
        ValueError: If it takes more than one argument, or another argument is invalid.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: Mapping[str, Any] | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: Any = None,
        metadata: Mapping[str, Any] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
    ):
        kind = type(self).__name__
        _check_loop(kind, train_loop_per_worker)
        config = train_loop_config if train_loop_config is not None else {}
        require(isinstance(config, Mapping), "train_loop_config: a dict", config)
        way_out = "None: this package has no data sets; read them in the loop, or put() them into train_loop_config"
        require(not datasets, f"datasets: {way_out}", datasets)
        require(dataset_config is None, f"dataset_config: {way_out}", dataset_config)
        require(metadata is None, "metadata: None; write what you need into the checkpoint", metadata)
        checkpoint = resume_from_checkpoint
        good = checkpoint is None or isinstance(checkpoint, Checkpoint)
        require(good, "resume_from_checkpoint: None or a Checkpoint", checkpoint)
        self._run_config = as_config("run_config", run_config, RunConfig)
        self.scaling_config = as_config(_SCALING, scaling_config, ScalingConfig)
        self.train_loop_config = dict(config)
        self._loop = _TrainLoop(
            kind, train_loop_per_worker, self.train_loop_config, self.scaling_config, checkpoint, self._surroundings()
        )
        super().__init__(self._loop, resources=self._loop.resources)

    def _surroundings(self) -> Callable[[], AbstractContextManager[object]]:
        """Return a function, for the workers, that makes what surrounds each call of the loop."""
        return nullcontext

    def __reduce__(self) -> tuple[Any, ...]:
        """Workers need neither the trainer's class nor its run, which may have parts that cannot be sent."""
        return BoundFunction, (self.function, self.parameters, self.handles, self.resources)

    @property
    def run_config(self) -> RunConfig:
        """The run of `fit`, and of a `Tuner` that has none."""
        return self._run_config

    def as_trainable(self) -> DataParallelTrainer:
        """The trainer itself, which is a trainable."""
        return self

    def space(self, param_space: Any) -> Any:
        """The space of a `Tuner`.

        Raises:
            ValueError: If it has other keys than a trainer takes.
        """
        if not isinstance(param_space, Mapping):
            return param_space
        known = (_LOOP_CONFIG, _SCALING)
        for key in param_space:
            if key not in known:
                raise ValueError(
                    f"param_space of a trainer must have the keys {' and '.join(known)}, but got {shown(key)}: pass "
                    f"the parameters of the loop as {{{_LOOP_CONFIG!r}: {{...}}}}"
                )
        return param_space

    def fit(self) -> Result:
        """Train once, as a run with one trial. Blocks. `Tuner.restore(path, trainer)` resumes it.

        Returns:
            The result.

        Raises:
            TuneError: If the training has failed. Its cause is the loop's error.
        """
        from minitune.tuner import Tuner

        session = current_session()
        if (
            session is not None
            and not session.allocation.gpu_ids
            and self._loop.resources({}).required_resources.get("GPU")
        ):
            raise TuneError(
                "scaling_config asks for a GPU, but fit() is called in a trial that has none: let the trial have it "
                'with with_resources(function, {"gpu": 1})'
            )
        space = {_LOOP_CONFIG: self.train_loop_config} if self.train_loop_config else {}
        return Tuner(self, param_space=space).fit(raise_on_failed_trial=True)[0]

    @classmethod
    def _use_tuner(cls, *arguments: Any, **settings: Any) -> NoReturn:
        """Not here: raises the error that names `Tuner`'s method."""
        raise NotImplementedError(
            f"minitune has no {cls.__name__}.restore and no can_restore: Tuner.can_restore(path) tells whether there "
            "is a run, and Tuner.restore(path, trainer, resume_errored=True).fit()[0] continues it"
        )

    restore = can_restore = _use_tuner


def _check_loop(kind: str, loop: Any) -> None:
    """Refuse what cannot be a loop."""
    if not callable(loop):
        raise TypeError(f"train_loop_per_worker must be a function, but got {shown(loop)}")
    try:
        signature = inspect.signature(loop)
    except (TypeError, ValueError) as error:
        raise ValueError(f"train_loop_per_worker must have a signature, but {shown(loop)} has none") from error
    parameters = signature.parameters.values()
    needed = [each for each in parameters if each.default is each.empty and each.kind not in _ANY_NUMBER]
    if len(needed) > 1:
        raise ValueError(
            "train_loop_per_worker must take the configuration of the loop, or nothing, but its signature is "
            f"{signature}; put other values into train_loop_config"
        )


_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


# -- PyTorch -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TorchConfig:
    """The process group of PyTorch's `distributed` in a worker.

    Args:
        backend: Its backend, such as `"gloo"` or `"nccl"`. By default `nccl` on a GPU, else `gloo`.
        init_method: For Ray's signature.
        timeout_s: For Ray's signature.
    """

    backend: str | None = None
    init_method: str = "env"
    timeout_s: float = 1800

    @contextmanager
    def process_group(self) -> Iterator[None]:
        """Inside the `with` block, the process is a group of one, as in a worker of Ray Train.

        `torch.distributed` and the variables of launchers have its rank and size.
        """
        import torch

        device = get_device()
        ours = {
            "ACCELERATE_TORCH_DEVICE": str(device),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "NODE_RANK": "0",
            "RANK": "0",
            "WORLD_SIZE": "1",
        }
        before = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)
        group = torch.distributed
        if group.is_available() and not group.is_initialized():
            backend = self.backend or ("nccl" if device.type == "cuda" else "gloo")
            # The store is an object of this process, so no port is opened that two trials could want.
            group.init_process_group(backend, store=group.HashStore(), rank=0, world_size=1)
        try:
            yield
        finally:
            if group.is_available() and group.is_initialized():
                group.destroy_process_group()
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


class TorchTrainer(DataParallelTrainer):
    """Trains with PyTorch in one process, in a process group of one; see `DataParallelTrainer`.

    Args:
        train_loop_per_worker: The training.
        torch_config: The process group.
        **settings: Those of `DataParallelTrainer`.

    Example:
        >>> from minitune.train import RunConfig, ScalingConfig, report
        >>> from minitune.train.torch import TorchTrainer
        >>> def loop(config):
        ...     for epoch in range(3):
        ...         report({"loss": config["lr"] / (epoch + 1)})
        >>> trainer = TorchTrainer(loop, train_loop_config={"lr": 0.3}, scaling_config=ScalingConfig(num_workers=1))
    """

    def __init__(
        self, train_loop_per_worker: Callable[..., Any], *, torch_config: TorchConfig | None = None, **settings: Any
    ):
        self._torch_config: TorchConfig = instance_of("torch_config", torch_config, TorchConfig)
        super().__init__(train_loop_per_worker, **settings)

    def _surroundings(self) -> Callable[[], AbstractContextManager[object]]:
        return self._torch_config.process_group


def get_device() -> Any:
    """The `torch.device` of the calling trial: its first GPU if it has one, else the CPU.

    Elsewhere, a GPU wherever PyTorch finds one.
    """
    import torch

    session = current_session()
    has_gpu = session is None or bool(session.allocation.gpu_ids)
    # A trial sees only its own GPUs, and the first of them has the number 0.
    return torch.device("cuda:0" if has_gpu and torch.cuda.is_available() else "cpu")


def get_devices() -> list[Any]:
    """The list with `get_device()`."""
    return [get_device()]


def enable_reproducibility(seed: int = 0) -> None:
    """Seed the generators of PyTorch, numpy and Python, and let PyTorch use deterministic algorithms.

    Args:
        seed: The seed.
    """
    import random

    import numpy
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it, cuBLAS refuses deterministic algorithms


def prepare_model(
    model: Any,
    move_to_device: Any = True,
    parallel_strategy: str | None = "ddp",
    parallel_strategy_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Move a model to the device of the trial.

    Args:
        model: A `torch.nn.Module`.
        move_to_device: False leaves it where it is; a `torch.device` replaces the trial's.
        parallel_strategy: For Ray's signature.
        parallel_strategy_kwargs: Likewise.

    Returns:
        The model.
    """
    if move_to_device is False:
        return model
    return model.to(get_device() if move_to_device is True else move_to_device)


def prepare_data_loader(
    data_loader: Any, add_dist_sampler: bool = True, move_to_device: bool = True, auto_transfer: bool = True
) -> Any:
    """Let the batches of a `DataLoader` arrive on the device of the trial.

    Args:
        data_loader: The loader.
        add_dist_sampler: For Ray's signature.
        move_to_device: False leaves the batches where they are.
        auto_transfer: For Ray's signature.

    Returns:
        `data_loader` itself where nothing has to be moved, else an object with its attributes.
    """
    device = get_device()
    if not move_to_device or device.type == "cpu":
        return data_loader
    return _OnDevice(data_loader, device)


class _OnDevice:
    """A data loader whose batches are moved to a device."""

    def __init__(self, loader: Any, device: Any):
        self._loader = loader
        self._device = device

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loader:
            yield _moved(batch, self._device)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of a copy that has no loader yet
            raise AttributeError(name)
        return getattr(self._loader, name)


def _moved(batch: Any, device: Any) -> Any:
    """The batch with all its tensors on a device."""
    if hasattr(batch, "to"):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {name: _moved(value, device) for name, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_moved(value, device) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_moved(value, device) for value in batch)
    return batch


# -- TensorFlow --------------------------------------------------------------------------------------------------------
class TensorflowConfig:
    """The settings of TensorFlow in a worker: there are none. `MultiWorkerMirroredStrategy` needs none."""


class TensorflowTrainer(DataParallelTrainer):
    """Trains with TensorFlow in one process; see `DataParallelTrainer`.

    Args:
        train_loop_per_worker: The training.
        tensorflow_config: None or a `TensorflowConfig`.
        **settings: Those of `DataParallelTrainer`.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        tensorflow_config: TensorflowConfig | None = None,
        **settings: Any,
    ):
        instance_of("tensorflow_config", tensorflow_config, TensorflowConfig)
        super().__init__(train_loop_per_worker, **settings)


# -- gradient boosting -------------------------------------------------------------------------------------------------
class BoostingTrainer(DataParallelTrainer):
    """The base of `XGBoostTrainer` and `LightGBMTrainer`: trains with a boosting library in one process.

    Args:
        train_loop_per_worker: The training. It calls the library's `train`.
        **settings: Those of `DataParallelTrainer`. The config of the library's own group of workers is None.

    Raises:
        ValueError: If there is no loop, as in the older form, which reads data sets of Ray.
    """

    _CONFIG = ""
    """The argument with the config of the library's own group of workers."""

    def __init__(self, train_loop_per_worker: Callable[..., Any] | None = None, **settings: Any):
        old = {"params", "label_column", "num_boost_round", "dmatrix_params"}.intersection(settings)
        if train_loop_per_worker is None or old:
            named = f" ({', '.join(sorted(old))})" if old else ""
            raise ValueError(
                f"{type(self).__name__} must get train_loop_per_worker, a function that calls the library's train(): "
                f"the older form{named} reads data sets of Ray, which this package does not have"
            )
        group = settings.pop(self._CONFIG, None)
        require(group is None, f"{self._CONFIG}: None, with one worker", group)
        super().__init__(train_loop_per_worker, **settings)


class XGBoostTrainer(BoostingTrainer):
    """Trains with `xgboost.train` in the process of the trial; see `BoostingTrainer`."""

    _CONFIG = "xgboost_config"

    @staticmethod
    def get_model(checkpoint: Checkpoint) -> Any:
        """Load the `xgboost.Booster` from a checkpoint of `RayTrainReportCallback`."""
        from minitune.integration.xgboost import TuneReportCheckpointCallback

        return TuneReportCheckpointCallback.get_model(checkpoint)


class LightGBMTrainer(BoostingTrainer):
    """Trains with `lightgbm.train` in the process of the trial; see `BoostingTrainer`."""

    _CONFIG = "lightgbm_config"

    @staticmethod
    def get_model(checkpoint: Checkpoint) -> Any:
        """Load the `lightgbm.Booster` from a checkpoint of `RayTrainReportCallback`."""
        from minitune.integration.lightgbm import TuneReportCheckpointCallback

        return TuneReportCheckpointCallback.get_model(checkpoint)
