"""The arguments that several commands have, and the run and the trial that they name."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Sequence

from minitune.base.files import local_path
from minitune.base.text import echo
from minitune.config import default_storage_path
from minitune.error import RunNotFoundError, TuneError
from minitune.experiment.lifecycle import ERROR
from minitune.experiment.trial import Trial
from minitune.record.layout import LAST, find_runs, is_run, locate_run
from minitune.record.standing import FINISHED_RUN, STOPPED_RUN, Standing
from minitune.record.story import Story

RUN_HELP = "the run's directory, its name below the storage path, or `last` for the newest one there"
TRIAL_HELP = "the trial's number, its name, or its id or a unique part of it"

# Exit statuses, see `minitune.commands`. Shells use the last one after Ctrl-C.
EXIT_CANNOT = 1
EXIT_TRIALS_FAILED = 3
EXIT_ENDED_EARLY = 4
EXIT_INTERRUPTED = 130


class NotFoundError(LookupError):
    """The run, trial or column that the user has named does not exist."""


ERRORS = (OSError, ImportError, NotFoundError, ValueError, TypeError, TuneError)
"""The errors that become one line on standard error; see `cli.main`."""

_NAMES_SHOWN = 10
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_ELSEWHERE = "set MINITUNE_STORAGE_PATH to the directory of the runs"


def note(text: str) -> None:
    """Print a message on standard error."""
    echo(f"minitune: {text}", file=sys.stderr)


def add_run(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add the argument `run`, by default the newest one; `more` is the end of its help text."""
    parser.add_argument("run", nargs="?", default=LAST, help=f"{RUN_HELP} (default: {LAST}){more}")


def add_objective(parser: argparse.ArgumentParser) -> None:
    """Add the options `--metric` and `--mode`."""
    parser.add_argument("--metric", help="the metric to optimise (default: as in the run)")
    parser.add_argument(
        "--mode", choices=("min", "max"), help="its mode (default: as in the run, if --metric is the run's)"
    )


def count_from(least: int) -> Callable[[str], int]:
    """The type of an argument that must be a whole number of at least `least`."""

    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected N >= {least}, but got {text}")
        return int(text)

    return count


def seconds(text: str) -> float:
    """The type of an argument that is a time: seconds, or a number with a unit, such as `90s`, `10m`, `1.5h`, `2d`."""
    unit = _UNITS_S.get(text[-1:], 1.0)
    number = text
    if text[-1:] in _UNITS_S:
        number = text[:-1]
    try:
        value = float(number) * unit
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected seconds, or a time such as 90s, 10m, 2h, but got {text}") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected 0 < S < infinity, but got {text}")
    return value


def exit_status(run: Story, state: Standing) -> int:
    """The exit status of a command that has followed a run to its end."""
    # Interrupted, killed, failed, or still running: a resume would go on.
    if state.name not in (FINISHED_RUN, STOPPED_RUN):
        return EXIT_ENDED_EARLY
    if any(trial.status == ERROR for trial in run.trials):
        return EXIT_TRIALS_FAILED
    ending = run.driver.ending
    if ending is not None and ending.facts.get("is_goal"):  # no trial is missing
        return 0
    if run.total_samples is None:  # an endless search always ends while trials wait
        return 0
    is_cut = state.name == STOPPED_RUN and run.not_drawn  # a search may also end before it has drawn all trials
    if is_cut or any(not trial.has_started for trial in run.trials):
        return EXIT_ENDED_EARLY
    return 0


def existing_run(run: str) -> str:
    """Return the directory of a run, from its path, its name below the storage path, or `last`.

    A line on standard error names the run that `last` is: the newest run may be in another storage path.

    Raises:
        RunNotFoundError: If there is no such run. The error names similar ones.
    """
    found = locate_run(run)
    if found is not None:
        if run == LAST and os.path.basename(found) != LAST:
            note(f"{LAST} is {found}")
        return found
    # Only now the storage is searched, since that takes a while with many runs.
    storage = local_path(default_storage_path())
    runs = list(find_runs(storage))
    if run == LAST:
        raise RunNotFoundError(f"there is no run below {storage} yet; pass the directory of one, or {_ELSEWHERE}")
    names = [os.path.relpath(path, storage) for path in runs]
    near = difflib.get_close_matches(run, names, 3, 0.5)
    hint = f"`minitune ls {storage}` lists those there"
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    elif not runs:
        hint = f"pass the directory of one, or {_ELSEWHERE}"
    raise RunNotFoundError(f"there is no run {run!r}, neither here nor below {storage}; {hint}")


def run_and_trial(run: str, trial: str | None) -> tuple[str, str | None]:
    """Return the directory of a run and the name of a trial. A trial's directory names both.

    Raises:
        RunNotFoundError: If there is no such run.
    """
    parent, name = os.path.split(local_path(run))
    # A shell completes paths, so a path to the directory of a trial is the easiest way to name one.
    if trial is None and not is_run(local_path(run)) and is_run(parent):
        return parent, name
    return existing_run(run), trial


def find_trial(trials: Sequence[Trial], wanted: str | None) -> Trial:
    """Return the trial with this number, id, name or directory, or with this unique part of its id.

    If a run has only one trial, no name is needed.

    Raises:
        NotFoundError: If there is no such trial, or more than one.
    """
    if wanted is None:
        if len(trials) == 1:
            return trials[0]
        wanted = ""
    # A number is taken for the number of a trial, although it may also be a part of an id: people count trials.
    is_number = wanted.isdecimal() and len(wanted) < 5  # an end of an id has five digits
    name = os.path.basename(wanted.rstrip(os.sep))
    found = [trial for trial in trials if name in (trial.trial_id, trial.name, trial.custom_dirname)]
    if is_number and not found:
        found = [trial for trial in trials if trial.number == int(wanted)]
    elif not found:
        found = [trial for trial in trials if wanted in trial.trial_id]
    if len(found) == 1:
        return found[0]
    what = f"there is no trial {wanted!r}"
    if not wanted:
        what = "a trial must be named"
    elif found:
        what = f"{wanted!r} could mean each of {len(found)} trials"
    if not trials:
        raise NotFoundError(f"{what}: the run has none yet")
    possible = found or trials
    known = [f"{trial.number}: {trial.trial_id}" for trial in possible[:_NAMES_SHOWN]]
    if len(possible) > _NAMES_SHOWN:
        known.append("...")
    raise NotFoundError(f"{what}; pass one of {', '.join(known)}")
