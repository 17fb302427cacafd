"""The files in which population based training writes down who took over what: `pbt_global.txt`, `pbt_policy_*.txt`.

One JSON list per line and exploit, as Ray Tune writes them: the target's tag, the donor's tag (both as they were
before anything was perturbed), the target's iteration, the donor's iteration, the donor's configuration, the new one. A
member's own file is a copy of its donor's with one more line: the whole history of what it has become.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from minitune._checks import shown
from minitune.base import files

PERTURBED = "@perturbed["
"""What follows the tag that a trial had at first, before its new hyperparameters and a closing bracket."""

_FIELDS = 6


@dataclass(frozen=True)
class Step:
    """One exploit, in the order of the fields of a line."""

    target_tag: str
    donor_tag: str
    target_iteration: Any
    donor_iteration: Any
    old_config: dict[str, Any]
    new_config: dict[str, Any]


def policy_path(run_path: str, trial_id: str) -> str:
    """Where the history of a trial stands."""
    return os.path.join(run_path, f"pbt_policy_{trial_id}.txt")


def write_step(run_path: str, target_id: str, donor_id: str, step: Step) -> None:
    """Write one exploit into the run's file and the target's.

    Args:
        run_path: The run's directory.
        target_id: Id of the trial that goes on from another one.
        donor_id: Id of that one.
        step: What it has taken over.

    Raises:
        OSError: If a file cannot be written.
    """
    line = json.dumps(list(vars(step).values()), default=_plain) + "\n"
    path = os.path.join(run_path, "pbt_global.txt")
    descriptor = files.open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, within=run_path)
    with open(descriptor, "a", encoding="utf-8") as file:
        file.write(line)
    target, donor = policy_path(run_path, target_id), policy_path(run_path, donor_id)
    try:
        with files.open_to_read(donor, follow=False) as history:
            steps = history.read()
    except FileNotFoundError:
        steps = b""
    files.atomic_write(target, steps + line.encode())


def read_policy(path: str) -> tuple[dict[str, Any] | None, list[tuple[int, dict[str, Any]]]]:
    """The schedule of configurations that led to a member's last one.

    Args:
        path: A member's policy file.

    Returns:
        The configuration to begin with, or None if the file is empty; and the iterations at which another one follows,
        ascending.

    Raises:
        ValueError: If there is no such file, or it is none.
    """
    try:
        with open(path, encoding="utf-8") as file:
            steps = [_step(line, path) for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"policy_file must be a file that PopulationBasedTraining has written, but {path!r} cannot be read "
            f"({error}); it lies in the run's directory as pbt_policy_<trial id>.txt"
        ) from error
    start, changes = None, list[tuple[int, dict[str, Any]]]()
    expected: str | None = None
    for step in reversed(steps):
        if expected is not None and step.target_tag != expected:
            break  # what this line changed was overwritten by the one below it
        expected, start = step.donor_tag, step.old_config
        changes.append((step.donor_iteration, step.new_config))
    changes.reverse()
    return start, sorted(changes, key=lambda change: change[0])  # of equal ones the later line comes last


def _step(line: str, path: str) -> Step:
    try:
        fields = json.loads(line)
        step = Step(*fields)
        good = len(fields) == _FIELDS and isinstance(step.donor_iteration, (int, float))
        if good and isinstance(step.old_config, dict) and isinstance(step.new_config, dict):
            return step
    except (ValueError, TypeError):
        pass
    raise ValueError(
        f"every line of a policy file must be a JSON list of {_FIELDS} fields (two tags, two iterations, two "
        f"configurations), but {path!r} has {shown(line)}"
    )


def _plain(value: Any) -> Any:
    """What JSON takes for an object that it does not know: the number of a scalar, the items of an array, its text."""
    for convert in ("item", "tolist"):
        try:
            return getattr(value, convert)()
        except Exception:  # no such method, or an array of several items
            continue
    return str(value)
