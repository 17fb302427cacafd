"""The records of a run's journal: the fields of each kind. Only this module has their names.

A record is a dict: first its kind, then the arguments of the function that makes it.

* `trial`: the trial's id;
* `attempt`: the number of its attempt, from 1;
* `number`: minitune's own count of its reports, from 1; in a `trial` record its position in the order of submission;
* `checkpoint`: the number of a checkpoint; in `result` and `checkpoint` records its manifest;
* `directory`: the name of the trial's directory below the run's;
* `tag`: its experiment tag; `evaluated_params`: its searched parameters by path;
* `ending`: why something has ended, by the value of an `EndKind`. The text is in `reason` or `cause`, and `facts` has
  the facts; `ending_of` puts them together;
* `at`: the time of the record, in seconds since the epoch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from minitune.base import clock
from minitune.checkpoint import CheckpointRecord
from minitune.experiment.decision import STOP, Decision
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.run_description import RunDescription
from minitune.experiment.trial import Repeat
from minitune.resources import Resources

SCHEMA = 2
"""The version of these records; a reader refuses another one."""

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

NUMBER = "number"
"""The field of a `result` record with the trial's count of reports so far."""

ENDING = "ending"
"""The field with the kind of an ending."""
FACTS = "facts"
"""The optional field with the facts of an ending or a decision."""

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
    scales: Mapping[str, Mapping[str, Any]] | None = None,
) -> Record:
    """The first record: describes the run. `scales` say how a plot shows each searched value (see
    `space.parameters.scales`), since no reader may load the space.
    """
    python = ".".join(map(str, sys.version_info[:3]))
    return {
        KIND: RUN,
        "schema": SCHEMA,
        "name": name,
        "metric": metric,
        "mode": mode,
        "seed": seed,
        "space_keys": list(space_keys),
        "trainable": trainable,
        "versions": {"python": python, **versions},
        "total_samples": total_samples,
        "scales": scales or {},
        "at": clock.current.time(),
    }


def opened(pid: int, host: str, time_budget_s: float | None, description: RunDescription) -> Record:
    """A driver starts to work on the run. Pid and host tell people which process it was. `time_budget_s` lets others
    estimate the time left. The next driver needs the description.
    """
    return {
        KIND: OPEN,
        "schema": SCHEMA,
        "pid": pid,
        "host": host,
        "time_budget_s": time_budget_s,
        "description": dict(vars(description)),
        "at": clock.current.time(),
    }


def description_of(record: Record) -> RunDescription:
    """What a `run` or `open` record says of what the run does."""
    if record[KIND] == RUN:
        return RunDescription(record["metric"], record["mode"])
    return RunDescription.of_fields(record["description"])


def trial(
    trial: str,
    number: int,
    config: Mapping[str, Any],
    *,
    seed: int,
    resources: Resources,
    name: str,
    tag: str = "",
    evaluated_params: Mapping[str, Any] | None = None,
    replaces: str = "",
    repeats: Repeat | None = None,
) -> Record:
    """A trial is part of the run: its configuration, and what else its start needs.

    `replaces` has the id of the trial that it starts over, `repeats` what a repeat repeats.
    """
    return {
        KIND: TRIAL,
        "trial": trial,
        "number": number,
        "config": config,
        "seed": seed,
        "resources": {"bundles": resources.bundles, "strategy": resources.strategy},
        "name": name,
        "tag": tag,
        "evaluated_params": evaluated_params or {},
        "replaces": replaces,
        "repeats": None if repeats is None else repeats._asdict(),
    }


def repeat_of(record: Record) -> Repeat | None:
    """What a `trial` record repeats; None if it is no repeat."""
    fields = record["repeats"]
    return None if fields is None else Repeat(**fields)


def start(trial: str, attempt: int, origin: str, directory: str = "") -> Record:
    """A worker is requested for a trial, which is RUNNING from now on for readers of the journal. `origin` tells people
    from where.

    If the worker gets GPUs, a `status` record names them when it is ready.
    """
    return {
        KIND: START,
        "trial": trial,
        "attempt": attempt,
        "from": origin,
        "directory": directory,
        "at": clock.current.time(),
    }


def result(
    trial: str,
    attempt: int,
    number: int,
    metrics: Mapping[str, Any],
    decision: Decision,
    checkpoint: CheckpointRecord | None = None,
) -> Record:
    """A report, the decision on it with its reason, and the checkpoint that came with it, which this record commits."""
    record = {
        KIND: RESULT,
        "trial": trial,
        "attempt": attempt,
        NUMBER: number,
        "metrics": metrics,
        "decision": str.__str__(decision),  # a plain str: a Decision also holds objects
        "reason": decision.reason,
        "checkpoint": None if checkpoint is None else dict(vars(checkpoint)),
    }
    if decision == STOP:
        record[ENDING] = decision.ending.kind.value
    if decision.facts:
        record[FACTS] = dict(decision.facts)
    return record


def checkpoint(trial: str, attempt: int, number: int, checkpoint: CheckpointRecord) -> Record:
    """Commits a checkpoint of report `number` that was made without a report, for example of a class."""
    fields = dict(vars(checkpoint))
    return {KIND: CHECKPOINT, "trial": trial, "attempt": attempt, "number": number, "checkpoint": fields}


def drop(trial: str, checkpoint: int) -> Record:
    """A surplus checkpoint is about to be removed."""
    return {KIND: DROP, "trial": trial, "checkpoint": checkpoint}


def rollback(trial: str, attempt: int, number: int) -> Record:
    """Attempt `attempt` continues after report `number`: later reports of earlier attempts no longer count."""
    return {KIND: ROLLBACK, "trial": trial, "attempt": attempt, "number": number}


def exploit(trial: str, donor: str, checkpoint: int, config: Mapping[str, Any], reason: str = "") -> Record:
    """A trial is about to continue from a checkpoint of the donor with a new configuration.

    The `reason` of a decision upon a result is in its record.
    """
    return {
        KIND: EXPLOIT,
        "trial": trial,
        "donor": donor,
        "checkpoint": checkpoint,
        "config": config,
        "reason": reason,
    }


def status(trial: str, status: str, cause: str | Ending = "") -> Record:
    """A trial's public status changes."""
    text = cause.text if isinstance(cause, Ending) else cause
    record = {KIND: STATUS, "trial": trial, "status": status, "cause": text, "at": clock.current.time()}
    return record | _ending_fields(cause) if isinstance(cause, Ending) else record


def state(file: str, sha256: str, offset: int) -> Record:
    """A snapshot of the plug-ins, which includes the journal up to `offset` bytes, has been written."""
    return {KIND: STATE, "file": file, "sha256": sha256, "offset": offset}


def extend(samples: int, total_samples: int | None) -> Record:
    """The run gets `samples` more than its drivers' descriptions name; `total_samples` is None if the search has no
    end.
    """
    return {KIND: EXTEND, "samples": samples, "total_samples": total_samples}


def change(trial: str, config: Mapping[str, Any], tag: str, evaluated_params: Mapping[str, Any]) -> Record:
    """A plug-in has changed a trial."""
    return {KIND: CHANGE, "trial": trial, "config": config, "tag": tag, "evaluated_params": evaluated_params}


def close(ending: Ending, took_s: float | None = None) -> Record:
    """The driver ends in an orderly way, after `took_s` seconds of a monotonic clock; None if that is unknown."""
    record = {KIND: CLOSE, "reason": ending.text, "took_s": took_s, "at": clock.current.time()}
    return record | _ending_fields(ending)


def _ending_fields(ending: Ending) -> dict[str, Any]:
    fields: dict[str, Any] = {ENDING: ending.kind.value}
    if ending.facts:
        fields[FACTS] = dict(ending.facts)
    return fields


def ending_of(record: Mapping[str, Any]) -> Ending:
    """The ending in a `result`, `status` or `close` record that has one. ValueError if its kind is unknown."""
    if record[KIND] == STATUS:
        text = record["cause"]
    else:
        text = record["reason"]
    return Ending(EndKind(record[ENDING]), text, record.get(FACTS) or {})


def checkpoint_of(record: Mapping[str, Any]) -> CheckpointRecord | None:
    """The checkpoint that a `result` or `checkpoint` record commits, or None."""
    fields = record.get("checkpoint")
    return None if fields is None else CheckpointRecord(**fields)


def resources_of(record: Mapping[str, Any]) -> Resources:
    """The resources in a `trial` record. ValueError if they are malformed."""
    fields = record["resources"]
    return Resources(fields["bundles"], fields["strategy"])
