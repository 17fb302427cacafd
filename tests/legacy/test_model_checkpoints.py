"""The checkpoints of `ray.train` with one model, with stand-ins for the libraries."""

import gc
import importlib
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from kit import stand_ins

from minitune import Checkpoint
from minitune.ray.legacy.model_checkpoints import (
    LightGBMCheckpoint,
    TensorflowCheckpoint,
    TorchCheckpoint,
    XGBoostCheckpoint,
    _ModelCheckpoint,
)


class Model:
    """A model of Keras, LightGBM or xgboost: a text in a file."""

    def __init__(self, text="", model_file=None):
        self.text = text if model_file is None else Path(model_file).read_text()

    def save(self, path):
        Path(path).write_text(self.text)

    save_model = save


class Module:
    """A module of PyTorch."""

    def __init__(self):
        self.state = None

    def load_state_dict(self, state):
        self.state = state


HELD = {}


def torch_save(value, file):
    name = str(len(HELD)).encode()
    HELD[name] = value
    file.write(name)


def torch_load(path, map_location, weights_only):
    assert (map_location, weights_only) == ("cpu", False), "it may be read where there is no GPU, and hold any module"
    return HELD[Path(path).read_bytes()]


LIBRARIES = {
    "torch": {"save": torch_save, "load": torch_load, "nn": SimpleNamespace(Module=Module)},
    "keras": {"saving": SimpleNamespace(load_model=lambda path: Model(model_file=path))},
    "xgboost": {"Booster": Model},
    "lightgbm": {"Booster": Model},
}


@pytest.fixture(autouse=True)
def libraries():
    with stand_ins(LIBRARIES):
        yield


@pytest.mark.parametrize(
    ("kind", "name", "also"),
    [
        (TensorflowCheckpoint, "model.keras", "model.h5"),
        (XGBoostCheckpoint, "model.json", "model.ubj"),
        (LightGBMCheckpoint, "model.txt", "model.bin"),
    ],
)
def test_a_model_is_saved_in_one_file_and_loaded_by_its_stem(kind, name, also, tmp_path):
    checkpoint = kind.from_model(Model("a"), path=tmp_path)
    assert (checkpoint.path, os.listdir(tmp_path)) == (str(tmp_path), [name])
    assert checkpoint.get_model().text == "a"
    os.rename(tmp_path / name, tmp_path / also)
    again = kind.from_checkpoint(Checkpoint(tmp_path))
    assert (type(again), again.get_model().text) == (kind, "a")
    os.remove(tmp_path / also)
    with pytest.raises(FileNotFoundError, match=f"{tmp_path} holds no {name}"):
        again.get_model()
    with pytest.raises(ValueError, match="preprocessor must be None; write what you need to a file"):
        kind.from_model(Model("a"), preprocessor=1)


def test_a_temporary_directory_lives_as_long_as_its_checkpoint(tmp_path):
    checkpoint = LightGBMCheckpoint.from_model(Model("a"))
    path = checkpoint.path
    assert os.listdir(path) == ["model.txt"]
    del checkpoint
    gc.collect()
    assert not os.path.exists(path)
    LightGBMCheckpoint.from_model(Model("a"), path=tmp_path)
    gc.collect()
    assert os.listdir(tmp_path) == ["model.txt"], "the user's own directory stays"


def test_weights_of_pytorch_need_a_module_and_a_module_needs_none():
    module = Module()
    assert TorchCheckpoint.from_model(module).get_model() is module
    assert TorchCheckpoint.from_model(module).get_model(Module()) is module
    weights = TorchCheckpoint.from_state_dict({"w": 1})
    assert os.listdir(weights.path) == ["model.pt"]
    with pytest.raises(ValueError, match="model must be given: this checkpoint holds weights"):
        weights.get_model()
    assert weights.get_model(module) is module
    assert module.state == {"w": 1}
    with pytest.raises(ValueError, match="preprocessor must be None"):
        TorchCheckpoint.from_state_dict({}, preprocessor=1)


def test_a_checkpoint_without_a_kind_saves_nothing(tmp_path):
    with pytest.raises(NotImplementedError):
        _ModelCheckpoint.from_model(1, path=tmp_path)


class Generator:
    """A generator of numpy, with the methods of the new one or of the old one."""

    def __init__(self, seed, *methods):
        self.seed = seed
        for method in methods:
            setattr(self, method, lambda *args, name=method: (name, *args))


class RandomState(Generator):
    pass


def test_a_generator_of_old_has_the_methods_of_the_new_one():
    random = SimpleNamespace(RandomState=RandomState, default_rng=lambda seed: Generator(seed, "integers", "random"))
    with stand_ins({"numpy": {"random": random}}, "minitune.ray.legacy.random_state") as module:
        kind = module._BackwardsCompatibleNumpyRng
        new = kind(7)
        assert (new.legacy_rng, new.seed, new.integers(3), new.random()) == (False, 7, ("integers", 3), ("random",))
        old = kind(RandomState(7, "randint", "rand", "normal"))
        assert (old.legacy_rng, old.seed) == (True, 7)
        assert (old.integers(3), old.random(), old.normal()) == (("randint", 3), ("rand",), ("normal",))
        empty = kind.__new__(kind)  # as while it is copied
        for name in ("rng", "__deepcopy__"):
            with pytest.raises(AttributeError, match=name):
                getattr(empty, name)


def test_verbosities_of_ray_tune_have_names_and_no_effect(caplog):
    module = importlib.import_module("minitune.ray.legacy.verbosity")
    assert [module.get_air_verbosity(number) for number in (0, 1, 2)] == list(module.AirVerbosity)
    assert [module.get_air_verbosity(other) for other in (-1, 3, None, "1")] == [None] * 4
    assert [kind.value for kind in module.Verbosity] == [0, 1, 2, 3]
    assert module.has_verbosity(3)
    for _ in range(2):
        module.set_verbosity(2)
    assert caplog.messages == ["set_verbosity() has no effect: pass RunConfig(verbose=...)"]
