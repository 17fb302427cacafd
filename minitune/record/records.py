"""The records of a run's journal: what each kind holds. The names of all fields stand here and nowhere else.

A record is a dict whose first field is its kind. A reader finds the fields under the names of the writing function's
arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from minitune import clock
from minitune.checkpoint import CheckpointRecord
from minitune.resources import Resources

SCHEMA = 1
"""Version of what stands here. A reader refuses a journal with a higher one."""

KIND = "type"
"""The field that holds a record's kind."""
RUN = "run"
OPEN = "open"
TRIAL = "trial"
START = "start"
RESULT = "result"
CHECKPOINT = "checkpoint"
DROP = "drop"
ROLLBACK = "rollback"
EXPLOIT = "exploit"
STATUS = "status"
STATE = "state"
EXTEND = "extend"
CHANGE = "change"
CLOSE = "close"
NOTE = "note"

NUMBER = "number"
"""The field of a `result` record that counts the trial's reports."""

SUM = "sum_of_results"
"""The field of a `status` record that stands for all results of its trial, where there is one."""

FINISHED = "finished"
"""The reason of a `close` record if every trial has had its way."""
ENDED = "ended: "
"""The beginning of the reason if the run was ended before its trials, for good."""
INTERRUPTED = "interrupted"
"""It, if a signal has ended the run, so that it can go on."""

Record = dict[str, Any]


def run(
    name: str,
    *,
    metric: str | list[str] | None,
    mode: str | list[str] | None,
    seed: int | None,
    space_keys: Iterable[str],
    trainable: str,
    versions: Mapping[str, str],
    total_samples: int | None = None,
) -> Record:
    """The first record: what the run is.

    Args:
        name: The run's name.
        metric: The metric to optimise, a list of several, or None.
        mode: `"max"`, `"min"` or None; a list for a list of metrics.
        seed: The run's seed, or None.
        space_keys: The flattened keys of the search space.
        trainable: The trainable's name.
        versions: Of minitune and of what else matters; Python's is added.
        total_samples: How many trials there will be; the field is there only if that is known.
    """
    python = ".".join(map(str, sys.version_info[:3]))
    record = {
        KIND: RUN,
        "schema": SCHEMA,
        "name": name,
        "metric": metric,
        "mode": mode,
        "seed": seed,
        "space_keys": list(space_keys),
        "trainable": trainable,
        "versions": {"python": python, **versions},
        "at": clock.current.time(),
    }
    if total_samples is not None:
        record["total_samples"] = total_samples
    return record


def opened(pid: int, start_time: float, boot_id: str, host: str) -> Record:
    """A driver begins to work on the run.

    Args:
        pid: The driver's process.
        start_time: When that process was started, in seconds since the epoch: a pid alone may be used again.
        boot_id: Identifies the machine's boot, likewise.
        host: The machine's name.
    """
    at = clock.current.time()
    return {KIND: OPEN, "pid": pid, "start_time": start_time, "boot_id": boot_id, "host": host, "at": at}


def trial(
    trial: str,
    number: int,
    config: Mapping[str, Any],
    *,
    seed: int,
    resources: Resources,
    name: str,
    directory: str,
    tag: str = "",
    evaluated_params: Mapping[str, Any] | None = None,
    experiment: int = 0,
    replaces: str = "",
) -> Record:
    """A trial is part of the run.

    Args:
        trial: Its id.
        number: Its place in the order of submission.
        config: Its configuration.
        seed: Its seed.
        resources: The resources that it asks for.
        name: Its name.
        directory: Name of its directory below the run's, or an empty text if it has none yet.
        tag: Its experiment tag.
        evaluated_params: The searched parameters by path.
        experiment: Which of the run's experiments it belongs to.
        replaces: Id of the trial whose place it takes, because that is begun anew; empty for one of the searcher's.
    """
    return {
        KIND: TRIAL,
        "trial": trial,
        "number": number,
        "config": config,
        "seed": seed,
        "resources": _resource_fields(resources),
        "name": name,
        "directory": directory,
        "tag": tag,
        "evaluated_params": evaluated_params or {},
        "experiment": experiment,
        "replaces": replaces,
    }


def start(trial: str, attempt: int, checkpoint: int | None, directory: str = "") -> Record:
    """A trial's worker is about to get its first call.

    Args:
        trial: The trial's id.
        attempt: 1 for the first.
        checkpoint: Number of the checkpoint that it goes on from, or None.
        directory: Name of the trial's directory below the run's.
    """
    at = clock.current.time()
    return {KIND: START, "trial": trial, "attempt": attempt, "checkpoint": checkpoint, "directory": directory, "at": at}


def result(
    trial: str,
    attempt: int,
    number: int,
    metrics: Mapping[str, Any],
    decision: str,
    reason: str = "",
    checkpoint: CheckpointRecord | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Record:
    """A report, what was decided upon it, and the checkpoint that came with it.

    Args:
        trial: The trial's id.
        attempt: The attempt that reported.
        number: Our own count of the trial's reports, from 1.
        metrics: The report.
        decision: CONTINUE, PAUSE, STOP or NOOP.
        reason: Why.
        checkpoint: Committed with this very record.
        facts: The facts behind the reason; the field is there only if there are any.
    """
    record = {
        KIND: RESULT,
        "trial": trial,
        "attempt": attempt,
        NUMBER: number,
        "metrics": metrics,
        "decision": str.__str__(decision),  # a plain text: a Decision carries objects
        "reason": reason,
        "checkpoint": None if checkpoint is None else _checkpoint_fields(checkpoint),
    }
    if facts:
        record["facts"] = dict(facts)
    return record


def checkpoint(trial: str, attempt: int, number: int, checkpoint: CheckpointRecord) -> Record:
    """A class has been saved; this record commits the checkpoint.

    Args:
        trial: The trial's id.
        attempt: The attempt that wrote it.
        number: The report that it belongs to.
        checkpoint: The checkpoint that was written.
    """
    fields = _checkpoint_fields(checkpoint)
    return {KIND: CHECKPOINT, "trial": trial, "attempt": attempt, "number": number, "checkpoint": fields}


def drop(trial: str, checkpoint: int) -> Record:
    """A surplus checkpoint, by its number, is about to be removed."""
    return {KIND: DROP, "trial": trial, "checkpoint": checkpoint}


def rollback(trial: str, attempt: int, number: int) -> Record:
    """Attempt `attempt` starts after report `number`: later ones of earlier attempts leave the live view."""
    return {KIND: ROLLBACK, "trial": trial, "attempt": attempt, "number": number}


def exploit(trial: str, donor: str, checkpoint: int, config: Mapping[str, Any], reason: str = "") -> Record:
    """A trial is about to go on from the donor's checkpoint, by its number, under a new configuration.

    The field `reason` is there only if there is one: what a scheduler decides upon a result has it in the result's.
    """
    record = {KIND: EXPLOIT, "trial": trial, "donor": donor, "checkpoint": checkpoint, "config": config}
    if reason:
        record["reason"] = reason
    return record


def status(
    trial: str,
    status: str,
    cause: str = "",
    sum_of_results: Mapping[str, Any] | None = None,
    stopped_by: str = "",
) -> Record:
    """A trial's public status changes, and why.

    Args:
        trial: The trial's id.
        status: The new status.
        cause: Why.
        sum_of_results: The sum of the trial's results so far, if there are many: see `Trial.sum_up`. A
            reader that knows it need not read them.
        stopped_by: The name of the scheduler that has stopped the trial; the field is there only if one has.
    """
    record = {KIND: STATUS, "trial": trial, "status": status, "cause": cause, "at": clock.current.time()}
    if sum_of_results is not None:
        record[SUM] = sum_of_results
    if stopped_by:
        record["stopped_by"] = stopped_by
    return record


def note(trial: str, text: str) -> Record:
    """Something about a trial that only its reader needs to know.

    Args:
        trial: The trial's id.
        text: A clause, such as `it was told to stop, but ...`.
    """
    return {KIND: NOTE, "trial": trial, "text": text}


def state(component: str, plugin: str, files: Mapping[str, str], offset: int) -> Record:
    """A component's state has been written.

    Args:
        component: Such as `searcher`.
        plugin: Its class: only a plug-in of the same class can take the state over.
        files: By name, below the run's directory, the SHA-256 of each file's content.
        offset: Length of the journal that the state stands for, in bytes.
    """
    return {KIND: STATE, "component": component, "plugin": plugin, "files": dict(files), "offset": offset}


def extend(samples: int) -> Record:
    """The run is to have more samples than it began with."""
    return {KIND: EXTEND, "samples": samples}


def change(
    trial: str,
    *,
    config: Mapping[str, Any] | None,
    tag: str | None,
    resources: Resources | None,
    evaluated_params: Mapping[str, Any] | None = None,
) -> Record:
    """A plug-in has changed a trial.

    Args:
        trial: The trial's id.
        config: Its configuration, or None if that is what it was.
        tag: Its experiment tag, likewise.
        resources: The resources that it asks for, likewise.
        evaluated_params: The searched parameters by path; the field is there only if they have changed.
    """
    fields = None if resources is None else _resource_fields(resources)
    record = {KIND: CHANGE, "trial": trial, "config": config, "tag": tag, "resources": fields}
    if evaluated_params is not None:
        record["evaluated_params"] = evaluated_params
    return record


def close(reason: str, took_s: float | None = None) -> Record:
    """The driver has ended in order.

    Args:
        reason: Why.
        took_s: How long it was at work, in seconds by a clock that cannot be set; the field is there only if that is
            known.
    """
    record = {KIND: CLOSE, "reason": reason, "at": clock.current.time()}
    return record if took_s is None else {**record, "took_s": took_s}


def _resource_fields(resources: Resources) -> dict[str, Any]:
    return {"bundles": resources.bundles, "strategy": resources.strategy}


def _checkpoint_fields(checkpoint: CheckpointRecord) -> dict[str, int]:
    return {
        "number": checkpoint.number,
        "file_count": checkpoint.file_count,
        "total_bytes": checkpoint.total_bytes,
        "listing_crc": checkpoint.listing_crc,
    }


def checkpoint_of(record: Mapping[str, Any]) -> CheckpointRecord | None:
    """The checkpoint that a `result` or `checkpoint` record commits, or None.

    Raises:
        ValueError: If the fields are not what they should be.
    """
    fields = record.get("checkpoint")
    if fields is None:
        return None
    try:
        values = [fields[name] for name in ("number", "file_count", "total_bytes", "listing_crc")]
    except (TypeError, KeyError) as error:
        raise ValueError(f"a record of a checkpoint must hold its manifest, but got {fields!r}") from error
    if not all(type(value) is int and value >= 0 for value in values):
        raise ValueError(f"a checkpoint's manifest must consist of ints >= 0, but got {fields!r}")
    return CheckpointRecord(*values)


def resources_of(record: Mapping[str, Any]) -> Resources:
    """The resources that the trial of a `trial` or `change` record asks for.

    Raises:
        ValueError: If the fields are not what they should be.
    """
    fields = record["resources"]
    return Resources(fields["bundles"], fields["strategy"]).shared()
