"""Public names of Ray Tune 2.60, their arguments and members: ours take all that they take, in the same order."""

import ast
import importlib
import inspect
import json
from pathlib import Path

from signatures import describe

TABLE = json.loads((Path(__file__).parent / "ray_tune_2_60.json").read_text(encoding="utf-8"))

INTERNAL = """
    checkpoint_at_end checkpoint_freq create_placement_group_factory from_directory from_json_state get_json_state
    get_pickled_error get_ray_actor_ip get_trainable_cls handle_error init_logdir invalidate_json_state
    latest_checkpoint_result metric_n_steps node_ip num_failures_after_restore on_checkpoint on_restore
    remote_experiment_path reset resolve_config_placeholders restore_run_metadata set_location set_ray_actor
    set_storage should_checkpoint should_recover update_last_result has_reported_at_least_once is_restoring is_saving
    pickled_error_file set_status should_stop
"""
"""What the engine of Ray Tune does with a trial through the trial itself; here others do it."""

DIFFERENCES = {
    **{
        f"tune.{reporter}.{name}": "setup() tells a reporter all of it"
        for reporter in ("CLIReporter", "JupyterNotebookReporter")
        for name in ("set_search_properties", "set_start_time", "set_total_samples")
    },
    **{
        f"tune.{name}": "by default, no trial that a scheduler has stopped early is the best one"
        for name in (
            "ExperimentAnalysis.get_best_config",
            "ExperimentAnalysis.get_best_trial",
            "ResultGrid.get_best_result",
        )
    },
    "tune.run_experiments": "concurrent=True has no effect but a warning",
    "shutdown": "there are no processes to wait for",
    "tune.Experiment.checkpoint_config": "an attribute of its instances",
    "tune.Experiment.checkpoint_dir": "old",
    "tune.Experiment.local_dir": "old",
    **{
        f"tune.Experiment.{name}": "part of Ray's engine"
        for name in ("get_trainable_name", "local_path", "register_if_needed", "remote_path", "run_identifier")
    },
    "tune.ExperimentAnalysis.experiment_path": "an attribute of its instances",
    "tune.ExperimentAnalysis.trial_dataframes": "made once, by functools.cached_property",
    "tune.JupyterNotebookReporter.display": "a reporter shows its own block alone",
    "tune.JupyterNotebookReporter.output_queue": "there is no remote driver",
    "tune.PlacementGroupFactory.to_placement_group": "there are no placement groups on one machine",
    "tune.Result.config": "an attribute of its instances",
    "tune.Result.filesystem": "results are local",
    "tune.ResultGrid.filesystem": "results are local",
    "tune.Trainable.export_model": "old, and without a use in scripts",
    "tune.Trainable.get_auto_filled_metrics": "each result has these keys",
    "tune.Trainable.get_current_ip_pid": "part of Ray's engine",
    "tune.Trainable.get_state": "its result has these keys",
    "tune.Trainable.is_actor": "there are no actors",
    "tune.Trainable.reset": "users do not call it with a storage",
    "tune.Trainable.resource_help": "old, and without a use in scripts",
    "tune.Trainable.train_buffered": "old, and without a use in scripts",
    "tune.TuneConfig": "chdir_to_trial_dir works, with a warning",
    "tune.TuneContext.get_metadata": "part of Ray Train",
    "tune.experiment.Trial": "users do not make trials; storage, files and checkpoints belong to the run",
    **{f"tune.experiment.Trial.{name}": "part of Ray's engine" for name in INTERNAL.split()},
    "tune.experiment.Trial.get_error": "Result.error has it",
    "tune.experiment.Trial.update_resources": "a trial keeps its resources",
    **{
        f"tune.search.{name}": "a run saves what get_state returns"
        for name in (
            "BasicVariantGenerator.has_checkpoint",
            "BasicVariantGenerator.restore_from_dir",
            "BasicVariantGenerator.save_to_dir",
            "ConcurrencyLimiter.save_to_dir",
            "Repeater.save_to_dir",
            "Searcher.save_to_dir",
        )
    },
    **{
        f"tune.search.{name}.set_max_concurrency": "TuneConfig(max_concurrent_trials=...) limits every searcher"
        for name in ("ConcurrencyLimiter", "Repeater", "Searcher")
    },
    **{
        f"tune.search.{name}.add_evaluated_trials": "add_evaluated_point takes each one"
        for name in ("ConcurrencyLimiter", "Repeater", "Searcher")
    },
    **{
        f"tune.schedulers.{name}.supports_buffered_results": "results are handed over one by one"
        for name in ("AsyncHyperBandScheduler", "FIFOScheduler", "TrialScheduler")
    },
    "tune.search.BasicVariantGenerator": "random values for a whole grid are a grid of their own",
    "tune.utils.deep_update": "one rule for all keys",
    "tune.utils.validate_save_restore": "it uses the process that calls it",
    "tune.run": "chdir_to_trial_dir works, with a warning",
    "tune.experiment.Trial.local_path": "an attribute of each trial",
    "tune.experiment.Trial.num_failures": "an attribute of each trial",
}
"""Deliberate differences, each with its reason."""


def find(path):
    """What minitune has under a path below Ray's package, undisturbed by descriptors; None if there is nothing."""
    parts = path.split(".")
    cut = next(index for index, part in enumerate(parts) if not part.islower() or index == len(parts) - 1)
    while True:
        try:
            found = importlib.import_module(".".join(["minitune", *parts[:cut]]))
            break
        except ModuleNotFoundError:
            cut -= 1
    for part in parts[cut:]:
        try:
            found = inspect.getattr_static(found, part) if inspect.isclass(found) else getattr(found, part)
        except AttributeError:
            return None
    return found


def arguments(signature):
    """The parsed arguments of a signature in text."""
    (function,) = ast.parse(f"def f{signature}: ...").body
    assert isinstance(function, ast.FunctionDef)
    return function.args


def defaults(of):
    """Defaults in text by argument, None where there is none."""
    positional = [*of.posonlyargs, *of.args]
    given = [None] * (len(positional) - len(of.defaults)) + [ast.unparse(value) for value in of.defaults]
    keyword = [None if value is None else ast.unparse(value) for value in of.kw_defaults]
    names = [argument.arg for argument in [*positional, *of.kwonlyargs]]
    return dict(zip(names, [*given, *keyword], strict=True))


def complaints(theirs, ours):
    """How a call that is written for `theirs` may go wrong with `ours`."""
    if "property" in (theirs, ours) or "value" in (theirs, ours):
        return [] if theirs == ours else [f"{theirs} against {ours}"]
    their_args, our_args = arguments(theirs), arguments(ours)
    their_order = [argument.arg for argument in their_args.args]
    our_order = [argument.arg for argument in our_args.args]
    found = [] if our_order[: len(their_order)] == their_order or our_args.vararg else ["order"]
    their_defaults, our_defaults = defaults(their_args), defaults(our_args)
    for name, default in their_defaults.items():
        if name not in our_defaults:
            found += [] if our_args.kwarg else [f"no {name}"]
        elif default not in (our_defaults[name], "...", None):
            found.append(f"{name}={default} against {our_defaults[name]}")
    extra = [name for name, default in our_defaults.items() if name not in their_defaults and default is None]
    return found + [f"needs {name}" for name in extra]


def difference(path):
    """What is different from the table, empty if nothing is."""
    found = find(path)
    if found is None:
        return "not there"
    is_method = inspect.isfunction(found) and path.rpartition(".")[0].rpartition(".")[2][:1].isupper()
    return "; ".join(complaints(TABLE[path], describe(found, drop_self=is_method)))


def test_calls_for_ray_tune_fit_the_signatures_here():
    differences = {path: difference(path) for path in TABLE if path not in DIFFERENCES}
    found = {f"{path}{TABLE[path]}": text for path, text in differences.items() if text}
    assert found == {}, "follow Ray Tune, or say why not in DIFFERENCES"


def test_the_listed_differences_to_ray_tune_exist():
    assert DIFFERENCES.keys() <= TABLE.keys()
    assert [path for path in DIFFERENCES if not difference(path)] == [], "as in Ray Tune now: out of DIFFERENCES"
