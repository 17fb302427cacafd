"""Ray's import paths: names of the same modules."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import minitune

ROOT = Path(__file__).resolve().parent.parent.parent

PATHS = """
    air.config:RunConfig,CheckpointConfig,FailureConfig air.constants:TRAINING_ITERATION air.result:Result
    air.session:report,get_checkpoint,get_trial_name,get_trial_id,get_trial_dir,get_trial_resources
    air.session:get_experiment_name,get_world_size,get_world_rank,get_local_rank
    air:session,RunConfig,CheckpointConfig,FailureConfig,Result cloudpickle:dumps,loads exceptions:RayTaskError,RayError
    train:report,get_checkpoint,get_context,Checkpoint,RunConfig,CheckpointConfig,FailureConfig,SyncConfig,Result
    tune.analysis.experiment_analysis:ExperimentAnalysis tune.analysis:ExperimentAnalysis tune.callback:Callback
    tune.context:TuneContext,get_context tune.error:TuneError tune.execution.placement_groups:PlacementGroupFactory
    tune.execution.tune_controller:TuneController tune.experiment.experiment:Experiment tune.experiment.trial:Trial
    tune.experiment:Experiment,Trial tune.logger.csv:CSVLoggerCallback tune.logger.json:JsonLoggerCallback
    tune.logger.logger:LoggerCallback,pretty_print tune.logger.tensorboardx:TBXLoggerCallback
    tune.logger:LoggerCallback,JsonLoggerCallback,CSVLoggerCallback,TBXLoggerCallback,pretty_print
    tune.progress_reporter:CLIReporter,JupyterNotebookReporter,ProgressReporter
    tune.registry:register_trainable,register_env,get_trainable_cls,is_function_trainable,validate_trainable
    tune.resources:Resources tune.result:DONE,TRAINING_ITERATION,DEFAULT_METRIC,AUTO_RESULT_KEYS,DEBUG_METRICS
    tune.result_grid:ResultGrid tune.schedulers.async_hyperband:ASHAScheduler,AsyncHyperBandScheduler
    tune.schedulers.trial_scheduler:FIFOScheduler,TrialScheduler
    tune.schedulers:ASHAScheduler,AsyncHyperBandScheduler,FIFOScheduler,TrialScheduler,create_scheduler
    tune.search.basic_variant:BasicVariantGenerator tune.search.concurrency_limiter:ConcurrencyLimiter
    tune.search.repeater:Repeater tune.search.sample:Categorical,Domain,Float,Integer,Function,LogUniform,Quantized
    tune.search.searcher:Searcher tune.search.search_algorithm:SearchAlgorithm
    tune.search.search_generator:SearchGenerator
    tune.search.variant_generator:generate_variants,grid_search
    tune.search:BasicVariantGenerator,ConcurrencyLimiter,Repeater,Searcher,SearchAlgorithm,create_searcher
    tune.stopper.stopper:Stopper,CombinedStopper tune.stopper.timeout:TimeoutStopper
    tune.stopper:Stopper,CombinedStopper,MaximumIterationStopper,ExperimentPlateauStopper,TrialPlateauStopper
    tune.stopper:FunctionStopper,NoopStopper,TimeoutStopper tune.syncer:SyncConfig
    tune.trainable.function_trainable:FunctionTrainable,wrap_function tune.trainable.trainable:Trainable
    tune.trainable.trainable_fn_utils:report,get_checkpoint,Checkpoint
    tune.trainable.util:with_parameters,with_resources tune.trainable:Trainable,with_parameters,wrap_function
    tune.tune:run,run_experiments tune.tune_config:TuneConfig tune.tuner:Tuner
    tune.utils.mock_trainable:MyTrainableClass,register_mock_trainable
    tune.utils.placement_groups:PlacementGroupFactory tune.utils.util:flatten_dict,date_str
    tune.utils:flatten_dict,unflatten_dict,merge_dicts,deep_update,unflattened_lookup,date_str,warn_if_slow
    tune.utils:validate_save_restore,diagnose_serialization,wait_for_gpu
    tune:Analysis,TrainingResult,checkpoint_dir,is_session_enabled,track tune.track:log,trial_id
    tune.async_hyperband:AsyncHyperBandScheduler tune.hyperband:HyperBandScheduler tune.sample:Domain
    tune.median_stopping_rule:MedianStoppingRule tune.pbt:PopulationBasedTraining
    tune.scheduler:PopulationBasedTraining tune.trial_scheduler:FIFOScheduler,TrialScheduler
    tune.experimental.output:AirVerbosity,get_air_verbosity tune.utils.log:Verbosity tune.variant_generator:grid_search
    tune.experiment.trial:ExportFormat tune.trial:ExportFormat,Trial tune.trial_runner:TuneController
    tune.logger:CSVLogger,DEFAULT_LOGGERS,JsonLogger,LegacyLoggerCallback,Logger,TBXLogger
    tune.resources:json_to_resources,resources_to_json tune.result:DEFAULT_RESULTS_DIR,TRIAL_INFO
    tune.suggest:BasicVariantGenerator,ConcurrencyLimiter,Repeater,Searcher tune.suggest.suggestion:Searcher
    tune.suggest.basic_variant:BasicVariantGenerator tune.suggest.optuna:OptunaSearch
    tune.suggest.hyperopt:HyperOptSearch tune.suggest.nevergrad:NevergradSearch
    tune:DurableTrainable,durable,function
    tune.suggest.ax:AxSearch tune.util:pin_in_object_store,get_pinned_object tune.search.ax.ax_search:AxSearch
    tune.suggest.variant_generator:generate_variants train.torch:TorchCheckpoint runtime_env:RuntimeEnv
    ray:init,nodes,tune,train ray.tune:run,Tuner ray.tune.schedulers:ASHAScheduler ray.air:session
"""

LEFT_OUT = """
    remote ScalingConfig rllib data serve util.joblib rllib.algorithms.ppo cluster_utils tune.config_parser
    train.lightning train.xgboost tune.search.skopt tune.suggest.dragonfly tune.examples.utils tune.suggest.SkOptSearch
    tune.suggest.flaml tune.integration.torch tune.sync_client tune.examples.pbt_function tune.logger.MLFLowLogger
    tune._make_scheduler
"""


def test_paths_have_the_names_that_users_import():
    missing = []
    for entry in PATHS.split():
        path, _, names = entry.partition(":")
        module = importlib.import_module(f"minitune.{path}")
        missing += [f"{path}.{name}" for name in names.split(",") if not hasattr(module, name)]
    assert missing == []


def test_an_alias_is_the_module_itself():
    import minitune.tune.schedulers
    import minitune.tune.stopper.noop
    from minitune.tune.schedulers import ASHAScheduler

    import minitune.schedulers
    import minitune.stopper.stopper
    from minitune import air, train, tune

    assert tune is train is air is minitune
    assert minitune.tune.schedulers is minitune.schedulers
    assert sys.modules["minitune.tune.stopper.noop"] is minitune.stopper.noop
    assert ASHAScheduler is minitune.ASHAScheduler
    assert ASHAScheduler.__module__ == "minitune.schedulers.async_hyperband"


def test_an_import_by_alias_leaves_the_module_what_it_is():
    import cloudpickle
    import minitune.cloudpickle
    import minitune.train.session

    assert minitune.cloudpickle is cloudpickle
    assert cloudpickle.__spec__.name == "cloudpickle"
    assert minitune.train.session.__spec__.name == minitune.train.session.__name__ == "minitune.context"
    assert minitune.__spec__.name == "minitune"


def test_the_import_system_knows_what_is_there_and_what_is_not():
    for name in ("stopper.timeout", "examples.mnist_pytorch"):  # the second one needs torch, so it is not imported here
        assert importlib.util.find_spec(f"minitune.tune.{name}") is not None
    assert importlib.util.find_spec("minitune.tune.nonsense") is None
    for name in ("minitune.tune.nonsense", "minitune.air.nonsense.deeper"):
        with pytest.raises(ModuleNotFoundError, match="nonsense"):
            importlib.import_module(name)
    found = [module.name for module in pkgutil.iter_modules(minitune.__path__)]
    assert "schedulers" in found
    assert "tune" not in found


def test_reloading_an_alias_reloads_the_module():
    # A package whose names come from other modules: a reload here makes no class a second time for later tests.
    import minitune.tune.utils.util as alias

    assert importlib.reload(alias) is sys.modules["minitune.utils"]


def test_names_that_are_missing_on_purpose_say_what_to_do_instead():
    with pytest.raises(AttributeError, match=r"concurrent\.futures"):
        _ = minitune.remote
    with pytest.raises(AttributeError, match="no attribute 'serve': minitune does not serve models"):
        _ = minitune.serve
    assert not hasattr(minitune, "wait")


SCRIPT = """
import sys
import minitune as ray
from minitune import air, train, tune
from minitune.air import session
from minitune.air.config import RunConfig
from minitune.tune.stopper import MaximumIterationStopper

def objective(config):
    from minitune.train import get_context
    from minitune.tune.search.sample import Float
    for step in range(4):
        session.report({"x": config["x"] * step, "name": get_context().get_trial_name(), "kind": Float})

grid = ray.tune.Tuner(
    objective,
    param_space={"x": tune.grid_search([1, 2])},
    tune_config=tune.TuneConfig(metric="x", mode="max"),
    run_config=RunConfig(storage_path=sys.argv[1], stop=MaximumIterationStopper(3), verbose=0),
).fit()
best = grid.get_best_result()
print(best.metrics["x"], best.metrics["kind"] is tune.search.sample.Float)
"""


def test_a_script_in_all_dialects(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("4 True\n", 0), done.stderr


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("search.hebo", "write a minitune.search.Searcher"),
        ("tune.search.zoopt", "write a minitune.search.Searcher"),
        ("train.xgboost", r"minitune\.integration\.xgboost"),
        ("train._internal.storage", "internal"),
    ],
)
def test_modules_that_are_missing_on_purpose_say_what_to_do_instead(name, instead):
    with pytest.raises(ModuleNotFoundError, match=rf"No module named 'minitune\..*: .*{instead}"):
        importlib.import_module(f"minitune.{name}")


@pytest.mark.parametrize("path", LEFT_OUT.split())
def test_an_import_of_something_left_out_says_what_to_do(path: str) -> None:
    parent, _, name = f"minitune.{path}".rpartition(".")
    texts = []
    for statement in (f"import minitune.{path}", f"from {parent} import {name}"):
        with pytest.raises(ModuleNotFoundError) as caught:
            exec(statement)
        texts.append(str(caught.value))
    assert all(": " in text for text in texts), texts


@pytest.mark.parametrize(
    ("path", "name", "instead"),
    [
        ("minitune.train.torch", "TorchTrainer", "minitune has no distributed training"),
        ("minitune.tune.registry", "register_input", "minitune has no reinforcement learning"),
    ],
)
def test_a_name_that_a_module_lacks_says_what_to_do(path: str, name: str, instead: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"{name}': {instead}"):
        exec(f"from {path} import {name}", {})
    module = importlib.import_module(path)
    with pytest.raises(AttributeError, match=f"{name}': {instead}"):
        getattr(module, name)
    assert getattr(module, name, 5) == 5
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        exec(f"from {path.replace('torch', 'registry')} import nonsense", {})


def test_a_module_with_another_home_is_an_attribute_too() -> None:
    assert minitune.train.torch.TorchCheckpoint.__name__ == "TorchCheckpoint"
