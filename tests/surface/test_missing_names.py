"""Names that modules and objects lack: the error says where the name is, or has a similar one."""

import pickle
import traceback

import pytest
from kit import fit

from minitune import ExperimentAnalysis, Result
from minitune.base.lazy import Missing

MODULES = [
    ("minitune", "PopulationBasedTraining", ": it is minitune.schedulers.PopulationBasedTraining"),
    ("minitune", "OptunaSearch", ": it is minitune.search.OptunaSearch"),
    ("minitune", "MaximumIterationStopper", ": it is minitune.stopper.MaximumIterationStopper"),
    ("minitune", "WandbLoggerCallback", ": it is minitune.integration.wandb.WandbLoggerCallback"),
    ("minitune", "loguniformm", " (did you mean 'loguniform'?)"),
    ("minitune", "schedulerss", " (did you mean 'schedulers'?)"),
    ("minitune.schedulers", "ASHASchedulr", " (did you mean 'ASHAScheduler'?)"),
    ("minitune.schedulers", "Tuner", ": it is minitune.Tuner"),
    ("minitune.search", "TPESerch", " (did you mean 'TPESearch'?)"),
    ("minitune", "zzz", ""),
]


@pytest.mark.parametrize(("module", "name", "hint"), MODULES)
def test_a_name_that_a_module_lacks_is_looked_for(module, name, hint):
    namespace = {}
    exec(f"import {module} as module", namespace)
    with pytest.raises(AttributeError) as caught:
        getattr(namespace["module"], name)
    assert str(caught.value) == f"module {module!r} has no attribute {name!r}{hint}"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert not hasattr(namespace["module"], name)


@pytest.mark.parametrize(("module", "name", "hint"), MODULES)
def test_an_import_of_a_name_that_a_module_lacks_is_looked_for(module, name, hint):
    with pytest.raises(ImportError, match="cannot import") as caught:
        exec(f"from {module} import {name}")
    assert hint in str(caught.value) or "did you mean" in hint  # Python itself makes the others up


def test_a_module_that_is_not_there_stays_absent():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'minitune\.zzz'") as caught:
        exec("import minitune.zzz")
    assert caught.value.name == "minitune.zzz"


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    return fit(lambda config: {"loss": 1.0}, storage_path=path, metric="loss", mode="min")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("best_config", ": write get_best_result().config"),
        ("best_params", ": write get_best_result().config"),
        ("best_trial", ": write get_best_result()"),
        ("best_value", ": write get_best_result().metrics[NAME]"),
        ("results", ": write list(grid)"),
        ("results_df", ": write get_dataframe()"),
        ("get_dataframee", " (did you mean 'get_dataframe'?)"),
        ("zzz", ""),
        ("_zzz", ""),
    ],
)
def test_an_attribute_that_a_grid_lacks_is_looked_for(name, hint, grid):
    with pytest.raises(AttributeError) as caught:
        getattr(grid, name)
    assert str(caught.value) == f"'ResultGrid' object has no attribute {name!r}{hint}"


def test_attributes_that_results_and_analyses_lack_are_looked_for(grid):
    analysis = ExperimentAnalysis(grid.experiment_path)
    for owner, name, hint in (
        (grid[0], "loss", ": write metrics['loss']"),
        (grid[0], "value", ": write metrics[NAME]"),
        (grid[0], "params", ": write config"),
        (Result({"_own": 1}, None, None, "/a"), "_own", ""),
        (grid[0], "eror", " (did you mean 'error'?)"),
        (analysis, "get_best_result", ": write best_result"),
        (analysis, "best_configs", " (did you mean 'best_config'?)"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        assert str(caught.value).endswith(f"object has no attribute {name!r}{hint}")


def test_a_similar_name_is_told_once(grid):
    with pytest.raises(AttributeError) as caught:
        grid.get_dataframee  # noqa: B018
    assert "".join(traceback.format_exception(caught.value)).lower().count("did you mean") == 1


def test_a_package_with_a_similar_name_is_left_alone():
    with pytest.raises(ModuleNotFoundError) as caught:
        exec("import minitune_plugins.Tuner")
    assert caught.value.name == "minitune_plugins"
    assert Missing().find_spec("minitune_plugins.Tuner") is None


def test_a_grid_and_its_results_are_pickled_as_before(grid):
    assert pickle.loads(pickle.dumps(grid[0])).metrics == grid[0].metrics


def test_a_variable_with_nearly_the_name_of_a_setting_is_told(monkeypatch, caplog):
    for name in ("MINITUNE_NUM_CPU", "MINITUNE_MY_OWN", "MINITUNE_RUN_ID", "MINITUNE_EXECUTOR"):
        monkeypatch.setenv(name, "inline")
    fit(lambda config: {"loss": 1})
    assert caplog.messages == ["MINITUNE_NUM_CPU is no setting of minitune (did you mean MINITUNE_NUM_CPUS?)"]
