"""Weights & Biases: one run for each trial, written by the driver (`WandbLoggerCallback`) or the trial (`setup_wandb`).

A trial's run has the trial's id, so that later attempts, also under another driver, continue the same run.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from typing import Any

from minitune.base.checks import require
from minitune.integration._tracking import (
    RecordEnd,
    TrackerCallback,
    TrialFacts,
    begins_with,
    check_installed,
    config_in,
    numbers_in,
    plain_config,
)
from minitune.result import DONE, unflatten
from minitune.trainable.session import current_session

_PROJECT = "WANDB_PROJECT_NAME"
_GROUP = "WANDB_GROUP_NAME"
"""Variables that Ray Tune reads, too."""
_EXIT_CODES = {RecordEnd.FINISHED: 0, RecordEnd.FAILED: 1, RecordEnd.INTERRUPTED: 130}


class WandbLoggerCallback(TrackerCallback):
    """Sends the configuration and the results of each trial to a run of Weights & Biases.

    A thread of the driver writes the runs. If the service does not answer, the log has one warning, and the tuning
    continues. With the variable `WANDB_MODE=offline`, `wandb sync` sends the runs later. They are in the trials'
    directories, unless you set `dir` or `WANDB_DIR`.

    Args:
        project: By default the variable `WANDB_PROJECT_NAME`.
        group: By default the variable `WANDB_GROUP_NAME`, else the name of this run.
        api_key_file: A file whose first line is the key.
        api_key: The key, which is not saved with the run.
        excludes: Metrics to leave out.
        log_config: Whether to send the configuration with each result.
        upload_checkpoints: Whether to upload checkpoints as artifacts.
        upload_timeout: Seconds for the rest at the end of the run.
        **kwargs: Further arguments of `wandb.init()`.

    Raises:
        ImportError: If wandb is not installed.
        OSError: If `api_key_file` cannot be read.
    """

    tracker = "wandb"

    def __init__(
        self,
        project: str | None = None,
        group: str | None = None,
        api_key_file: str | None = None,
        api_key: str | None = None,
        excludes: Iterable[str] | None = None,
        log_config: bool = False,
        upload_checkpoints: bool = False,
        save_checkpoints: bool = False,
        upload_timeout: float = 1800,
        **kwargs: Any,
    ):
        check_installed("wandb", type(self).__name__)
        super().__init__(upload_timeout)
        self.project = project
        self.group = group
        self._key = _key_of(api_key, api_key_file)
        self._excludes = (DONE, *([excludes] if isinstance(excludes, str) else excludes or ()))
        self._logs_config = log_config
        self._keeps_checkpoints = upload_checkpoints or save_checkpoints
        self.kwargs = kwargs

    def __getstate__(self) -> dict[str, Any]:
        """See `TrackerCallback`. The key is left out, so that it does not get into files."""
        return {**super().__getstate__(), "_key": None}

    def open(self, facts: TrialFacts) -> Any:
        options = {"project": self.project, "group": self.group, **self.kwargs}
        return _init(facts, options, self._key, reinit="create_new", is_quiet=True)

    def restart(self, record: Any, facts: TrialFacts) -> None:
        record.config.update(unflatten(facts.config), allow_val_change=True)

    def write(self, record: Any, step: int, result: dict[str, Any]) -> None:
        # Pictures and tables are objects of wandb itself, and it takes only numbers and these.
        media = {name: value for name, value in result.items() if type(value).__module__.partition(".")[0] == "wandb"}
        logged = {**numbers_in(result), **media}
        record.log({name: value for name, value in logged.items() if not begins_with(name, self._excludes)})
        if self._logs_config:
            record.config.update(unflatten(config_in(result)), allow_val_change=True)

    def save(self, record: Any, facts: TrialFacts, directory: str) -> None:
        import wandb

        artifact = wandb.Artifact(f"checkpoint_{facts.name}", type="model")
        artifact.add_dir(directory)
        record.log_artifact(artifact)

    def close(self, record: Any, facts: TrialFacts, end: RecordEnd) -> None:
        record.finish(exit_code=_EXIT_CODES[end])


def setup_wandb(
    config: Mapping[str, Any] | None = None,
    api_key: str | None = None,
    api_key_file: str | None = None,
    rank_zero_only: bool = True,
    **kwargs: Any,
) -> Any:
    """Begin a run of Weights & Biases in the calling trial, or continue the trial's existing one.

    The run has the trial's id and name, and its group is the name of the tuning run. `config["wandb"]` may contain
    further arguments. The key is that of `api_key`, of the first line of `api_key_file`, or W&B's own. Arguments of
    `wandb.init()` have precedence over all others. `rank_zero_only` has no effect. The run ends with the trial's
    function. In a class trainable, call its `finish()` in `cleanup()`. Blocks like `wandb.init()`.

    Returns:
        The return value of `wandb.init()`.

    Raises:
        ImportError: If wandb is not installed.
        ValueError: If both `api_key` and `api_key_file` are given.

    Examples:
        >>> from minitune.integration.wandb import setup_wandb
        >>> def train(config):
        ...     run = setup_wandb(config, project="mnist")
        ...     run.log({"loss": 0.1})
    """
    check_installed("wandb", "setup_wandb()")
    plain = dict(config or {})
    options = {**plain.pop("wandb", {}), **kwargs}
    for old, new in (("trial_id", "id"), ("trial_name", "name")):
        value = options.pop(old, None)
        if value is not None:
            options.setdefault(new, value)
    key = _key_of(
        api_key or options.pop("api_key", None), api_key_file or options.pop("api_key_file", None), "setup_wandb()"
    )
    session = current_session()
    if session is None:
        return _run({"config": unflatten(plain_config(plain)), **options}, key, {})
    info = session.info
    path = info.directory
    run_path = os.path.dirname(info.directory)
    facts = TrialFacts(info.trial_id, info.name, info.experiment_name, run_path, path, plain_config(plain), True)
    run = _init(facts, options, key, reinit="finish_previous", is_quiet=False)
    session.at_end.append(lambda has_failed: run.finish(exit_code=int(has_failed)))
    return run


def _key_of(key: str | None, path: str | None, user: str = "WandbLoggerCallback") -> str | None:
    """The key of the account from one of the two arguments, or None."""
    require(not (key and path), f"{user}: only one of api_key and api_key_file", path)
    if path:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.readline().strip()
    return key


def _init(facts: TrialFacts, options: Mapping[str, Any], key: str | None, *, reinit: str, is_quiet: bool) -> Any:
    """The run of a trial."""
    given = {name: value for name, value in options.items() if value is not None}
    arguments: dict[str, Any] = {
        "id": facts.trial_id,
        "name": facts.name,
        "project": os.environ.get(_PROJECT),
        "group": os.environ.get(_GROUP) or facts.run_name,
        "resume": "allow",
        "reinit": reinit,
        "allow_val_change": True,
        "config": unflatten(facts.config),
        "dir": os.environ.get("WANDB_DIR") or facts.path,
        **given,
    }
    # In the driver, stdout does not belong to the trial, and two lines for each trial would hide the run's table.
    return _run(arguments, key, {"console": "off", "silent": True} if is_quiet else {})


def _run(arguments: dict[str, Any], key: str | None, settings: dict[str, Any]) -> Any:
    import wandb

    given = arguments.get("settings")
    if given is None or isinstance(given, Mapping):
        given = wandb.Settings(**{**settings, **(given or {})})
    if key:
        # In the settings and not by a variable: trials and their children inherit variables.
        given.api_key = key
    elif {arguments.get("mode"), os.environ.get("WANDB_MODE"), given.mode} <= {None, "online"}:
        # Otherwise W&B would ask for the key on the terminal during the run.
        takes_prompt = "prompt" in inspect.signature(wandb.login).parameters
        if not wandb.login(**({"prompt": False} if takes_prompt else {"timeout": 1})):
            raise RuntimeError(
                "no API key was found: run `wandb login`, set WANDB_API_KEY, pass api_key, or set WANDB_MODE=offline"
            )
    return wandb.init(**{**arguments, "settings": given})
