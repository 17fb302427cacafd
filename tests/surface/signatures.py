"""Signatures as text that is the same in every Python version.

Run in an environment with Ray Tune, it writes the table of Ray Tune's:

python tests/surface/signatures.py tests/surface/ray_tune_2_60.json
"""

import enum
import importlib
import inspect
import json
import sys

RAY_NAMES = {
    "": "put get shutdown is_initialized cluster_resources available_resources get_gpu_ids",
    "tune": "CLIReporter Callback Checkpoint CheckpointConfig Experiment ExperimentAnalysis FailureConfig "
    "JupyterNotebookReporter PlacementGroupFactory ProgressReporter Result ResultGrid ResumeConfig RunConfig Stopper "
    "Trainable TuneConfig TuneContext Tuner choice create_scheduler create_searcher get_checkpoint get_context "
    "grid_search lograndint loguniform qlograndint qloguniform qrandint qrandn quniform randint randn "
    "register_trainable report run run_experiments sample_from uniform with_parameters with_resources",
    "tune.experiment": "Trial",
    "tune.logger": "LoggerCallback CSVLoggerCallback JsonLoggerCallback TBXLoggerCallback pretty_print",
    "tune.registry": "get_trainable_cls validate_trainable",
    "tune.schedulers": "TrialScheduler FIFOScheduler AsyncHyperBandScheduler",
    "tune.search": "BasicVariantGenerator ConcurrencyLimiter Repeater Searcher",
    "tune.search.sample": "Categorical Float Integer Function Quantized Domain",
    "tune.stopper": "CombinedStopper MaximumIterationStopper ExperimentPlateauStopper TrialPlateauStopper "
    "FunctionStopper NoopStopper TimeoutStopper",
    "tune.utils": "flatten_dict merge_dicts deep_update date_str validate_save_restore diagnose_serialization",
    "tune.utils.util": "unflatten_dict",
}
"""What is compared: public names by the module below `ray`."""


def describe(value, drop_self=False):
    """The signature of a function or class: names, order, kinds and plain defaults; `property`, or `value` if none."""
    if isinstance(value, property) or inspect.isdatadescriptor(value):
        return "property"
    if isinstance(value, (staticmethod, classmethod)):
        value, drop_self = value.__func__, isinstance(value, classmethod)
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return "value"
    parts, has_star = [], False
    for parameter in parameters[drop_self:]:
        if parameter.name.startswith("_"):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            has_star = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            parts.append("*")
            has_star = True
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
        parts.append(f"{star}{parameter.name}{default}")
    return f"({', '.join(parts)})"


def _default(default):
    if isinstance(default, enum.Enum):
        return f"{type(default).__name__}.{default.name}"
    return repr(default) if default is None or isinstance(default, (bool, int, float, str, tuple, list)) else "..."


def members(kind):
    """Public methods and properties of a class, by name, those that it inherits from the same package included."""
    package = kind.__module__.partition(".")[0]
    found = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] != package:
            continue
        for name, value in vars(base).items():
            if name.startswith("_"):
                continue
            if isinstance(value, (property, staticmethod, classmethod)) or inspect.isfunction(value):
                found[name] = describe(value, drop_self=inspect.isfunction(value))
    return found


def table(package, names_by_module):
    """Signatures by path below `package`, of the named things and of the members of classes."""
    found = {}
    for module_name, names in names_by_module.items():
        module = importlib.import_module(f"{package}.{module_name}".rstrip("."))
        for name in names.split():
            path, value = f"{module_name}.{name}".lstrip("."), getattr(module, name)
            found[path] = describe(value)
            if inspect.isclass(value):
                found.update({f"{path}.{member}": text for member, text in members(value).items()})
    return found


def write(found, path):
    """Write a table with one line for each entry."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=0, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    write(table("ray", RAY_NAMES), sys.argv[1])
