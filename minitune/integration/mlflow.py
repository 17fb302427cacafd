"""MLflow: one run for each trial, written by the driver (`MLflowLoggerCallback`) or by the trial (`setup_mlflow`).

MLflow chooses the ids of its runs, so each run has the trial's id as a tag. Later attempts, also under another driver,
find the run by this tag and continue it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from minitune.integration._tracking import (
    RecordEnd,
    TrackerCallback,
    TrialFacts,
    check_installed,
    numbers_in,
    plain_config,
)
from minitune.trainable.session import current_session

_TAG = "minitune.trial"
_TOKEN = "MLFLOW_TRACKING_TOKEN"
_NAME = "MLFLOW_EXPERIMENT_NAME"
_ID = "MLFLOW_EXPERIMENT_ID"
_STATUS = {RecordEnd.FINISHED: "FINISHED", RecordEnd.FAILED: "FAILED", RecordEnd.INTERRUPTED: "KILLED"}
_REFUSED = re.compile(r"[^\w./: -]", re.ASCII)
"""Characters that MLflow does not allow in names."""
_LONGEST_VALUE = 500
_LONGEST_NAME = 250
_MOST_PARAMS = 100
_MOST_METRICS = 1000
"""MLflow's limits: the characters of a value and of a name, and the number of values in a request."""


class MLflowLoggerCallback(TrackerCallback):
    """Writes the configuration and the results of each trial to a run of MLflow.

    A thread of the driver writes the runs. If the server does not answer, the log has one warning, and the tuning
    continues. Parameters of a run cannot change: if a scheduler changes a configuration, the first values stay.

    Args:
        tracking_uri: A server, a directory, or a database such as `sqlite:///mlflow.db`; by default the variable
            `MLFLOW_TRACKING_URI`, else MLflow's own choice.
        experiment_name: By default the variable `MLFLOW_EXPERIMENT_NAME`, else the name of this run.
        tracking_token: The token for the server, which is not saved with the run. While the thread runs, the variable
            `MLFLOW_TRACKING_TOKEN` has it.
        save_artifact: Whether to store the trial's directory when the trial ends.

    Raises:
        ImportError: If MLflow is not installed.
    """

    tracker = "mlflow"

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        registry_uri: str | None = None,
        experiment_name: str | None = None,
        tags: Mapping[str, Any] | None = None,
        tracking_token: str | None = None,
        save_artifact: bool = False,
    ):
        check_installed("mlflow", type(self).__name__)
        super().__init__()
        self.tracking_uri = tracking_uri
        self.registry_uri = registry_uri
        self.experiment_name = experiment_name
        self.tags = dict(tags or {})
        self._token = tracking_token
        self.should_save_artifact = save_artifact
        self._client: Any = None
        self._experiment_id = ""

    def __getstate__(self) -> dict[str, Any]:
        """See `TrackerCallback`. The token is left out, so that it does not get into files."""
        return {**super().__getstate__(), "_token": None, "_client": None}

    @contextmanager
    def settings(self) -> Iterator[None]:
        before = os.environ.get(_TOKEN)
        if self._token:
            os.environ[_TOKEN] = self._token
        try:
            yield
        finally:
            self._client = None
            if self._token and before is None:
                os.environ.pop(_TOKEN, None)
            elif self._token and before is not None:
                os.environ[_TOKEN] = before

    def open(self, facts: TrialFacts) -> str:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        if self._client is None:
            client = MlflowClient(self.tracking_uri, self.registry_uri)
            self._experiment_id = _experiment_id(client, None, self.experiment_name, facts.run_name)
            self._client = client
        found = None
        if not facts.is_new:
            found = _earlier_run(self._client, self._experiment_id, facts.trial_id)
        if found is None:
            tags = {"trial_name": facts.name, **self.tags, _TAG: facts.trial_id}
            found = self._client.create_run(
                self._experiment_id, tags={k: str(v) for k, v in tags.items()}, run_name=facts.name
            )
        else:
            self._client.update_run(found.info.run_id, status="RUNNING")
        run_id = str(found.info.run_id)
        written = found.data.params  # MLflow refuses another value for them
        new = [Param(name, value) for name, value in _params_of(facts.config).items() if name not in written]
        for first in range(0, len(new), _MOST_PARAMS):
            self._client.log_batch(run_id, params=new[first : first + _MOST_PARAMS])
        return run_id

    def write(self, record: str, step: int, result: dict[str, Any]) -> None:
        from mlflow.entities import Metric

        now_ms = int(time.time() * 1000)
        metrics = [Metric(_name_of(name), float(value), now_ms, step) for name, value in numbers_in(result).items()]
        for first in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(record, metrics=metrics[first : first + _MOST_METRICS])

    def close(self, record: str, facts: TrialFacts, end: RecordEnd) -> None:
        try:
            if self.should_save_artifact:
                self._client.log_artifacts(record, facts.path)
        finally:
            self._client.set_terminated(record, _STATUS[end])


def setup_mlflow(
    config: Mapping[str, Any] | None = None,
    tracking_uri: str | None = None,
    registry_uri: str | None = None,
    experiment_id: str | None = None,
    experiment_name: str | None = None,
    tracking_token: str | None = None,
    artifact_location: str | None = None,
    run_name: str | None = None,
    create_experiment_if_not_exists: bool = False,
    tags: Mapping[str, Any] | None = None,
    rank_zero_only: bool = True,
) -> Any:
    """Begin a run of MLflow in the calling trial, or continue the trial's existing one, and make it the active run.

    The run ends with the trial's function. In a class trainable, call `mlflow.end_run()` in `cleanup()`. Blocks.

    Args:
        config: The parameters to write, without `config["mlflow"]`, which may have further arguments.
        tracking_uri: See `MLflowLoggerCallback`, as an absolute path.
        registry_uri: The storage of registered models.
        experiment_id: Has precedence over the name.
        experiment_name: By default the variable `MLFLOW_EXPERIMENT_NAME`, else the run's name.
        tracking_token: Set as the variable `MLFLOW_TRACKING_TOKEN`.
        artifact_location: The storage of a new experiment's artifacts.
        run_name: By default the trial's name.
        create_experiment_if_not_exists: Whether to create one that was named.
        tags: The tags of the run.
        rank_zero_only: For Ray Tune's signature.

    Returns:
        The module `mlflow`.

    Raises:
        ImportError: If MLflow is not installed.
        ValueError: If there is no such experiment.
    """
    check_installed("mlflow", "setup_mlflow()")
    import mlflow
    from mlflow.tracking import MlflowClient

    plain = dict(config or {})
    given = {
        "tracking_uri": tracking_uri,
        "registry_uri": registry_uri,
        "experiment_id": experiment_id,
        "experiment_name": experiment_name,
        "tracking_token": tracking_token,
        "run_name": run_name,
    }
    options = {**plain.pop("mlflow", {}), **{name: value for name, value in given.items() if value}}
    if "tracking_token" in options:
        os.environ[_TOKEN] = options["tracking_token"]
    if "tracking_uri" in options:
        mlflow.set_tracking_uri(options["tracking_uri"])
    if "registry_uri" in options:
        mlflow.set_registry_uri(options["registry_uri"])
    session = current_session()
    info = None
    if session is not None:
        info = session.info
    client = MlflowClient()
    experiment = _experiment_id(
        client,
        options.get("experiment_id"),
        options.get("experiment_name"),
        info.experiment_name if info is not None else "Default",
        makes_named=create_experiment_if_not_exists,
        artifact_location=artifact_location,
    )
    mlflow.end_run()  # the run of an earlier trial in this worker
    found = None
    # Only then there may be an earlier run. The search is a request to the server.
    if info is not None and (info.attempt > 1 or info.next_checkpoint):
        found = _earlier_run(client, experiment, info.trial_id)
    if found is not None:
        mlflow.start_run(run_id=found.info.run_id)
    else:
        texts = {name: str(value) for name, value in {**options.get("tags", {}), **(tags or {})}.items()}
        if info is not None:
            texts |= {"trial_name": info.name, _TAG: info.trial_id}
        mlflow.start_run(
            experiment_id=experiment,
            run_name=options.get("run_name", info and info.name),
            tags=texts,
        )
    written = {}
    if found is not None:
        written = found.data.params
    new = {name: value for name, value in _params_of(plain_config(plain)).items() if name not in written}
    if new:
        mlflow.log_params(new)
    if session is not None:
        session.at_end.append(lambda has_failed: mlflow.end_run("FAILED" if has_failed else "FINISHED"))
    return mlflow


def _experiment_id(
    client: Any,
    id: str | None,
    name: str | None,
    default: str,
    *,
    makes_named: bool = True,
    artifact_location: str | None = None,
) -> str:
    """The id of MLflow's experiment, which is created if necessary."""
    id = id or (None if name else os.environ.get(_ID))
    if id is not None:
        return str(client.get_experiment(str(id)).experiment_id)
    name = name or os.environ.get(_NAME)
    found = client.get_experiment_by_name(name or default)
    if found is not None:
        return str(found.experiment_id)
    if name and not makes_named:
        raise ValueError(f"MLflow has no experiment {name!r}: create it, or pass create_experiment_if_not_exists=True")
    try:
        return str(client.create_experiment(name or default, artifact_location))
    except Exception:  # another trial has created it meanwhile
        found = client.get_experiment_by_name(name or default)
        if found is None:
            raise
        return str(found.experiment_id)


def _earlier_run(client: Any, experiment_id: str, trial_id: str) -> Any:
    """The run of a trial's earlier attempt, or None."""
    found = client.search_runs([experiment_id], filter_string=f"tags.`{_TAG}` = '{trial_id}'", max_results=1)
    if found:
        return found[0]
    return None


def _params_of(config: Mapping[str, Any]) -> dict[str, str]:
    return {_name_of(name): str(value)[:_LONGEST_VALUE] for name, value in config.items()}


def _name_of(name: str) -> str:
    return _REFUSED.sub("_", str(name))[:_LONGEST_NAME]
