"""The closing remarks of a run: what its user may not have meant, as far as only its end shows it.

This is the one place where they are made. Each is a line for the end of the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitune.base.numbers import known_number
from minitune.base.text import counted
from minitune.experiment.lifecycle import TERMINATED
from minitune.experiment.trial import Trial
from minitune.result import AUTO_RESULT_KEYS, CONFIG, OF_THE_CLOCK, lookup
from minitune.schedulers.trial_scheduler import TrialScheduler
from minitune.search.search_algorithm import SearchAlgorithm
from minitune.space.parameters import config_key

_FEWEST = 4
"""So many trials must agree before that is more than a coincidence."""
_LONG_S = 10
"""Seconds. An estimate of the best value takes up to 0.2, which a short run should not wait for."""


def closing_remarks(
    trials: Sequence[Trial], scheduler: TrialScheduler, search_alg: SearchAlgorithm, is_cut: bool
) -> Iterator[str]:
    """The remarks on a run that has ended."""
    if search_alg.end_reason:
        yield f"No more trials: {search_alg.end_reason}"
    if is_cut or not trials:
        return
    # The commonest mistake of a first script: it prints its loss and does not report it.
    if all(trial.status == TERMINATED and not trial.progress.num_reports for trial in trials):
        yield "hint: no trial has reported a result: call report({'loss': ...}) in the trainable, or return such a dict"
        return
    for remark in (search_alg.closing_remark, _on_turns(trials, scheduler), _on_curves(trials)):
        if remark:
            yield f"hint: {remark}"


def remark_on_luck_of(trials: Sequence[Trial], metric: str, mode: str, took_s: float) -> Iterator[str]:
    """The remark on a best value that was lucky, if the run took so long that the estimate takes no time beside it."""
    if took_s < _LONG_S:
        return
    from minitune.search.estimate import estimates, remark_on_luck

    if remark := remark_on_luck(estimates(trials, metric, mode), mode):
        yield f"hint: {remark}; see get_best_result(by='estimate')"


def _on_turns(trials: Sequence[Trial], scheduler: TrialScheduler) -> str:
    """The remark on a scheduler that had no occasion to decide anything."""
    name = scheduler.time_attr
    first = scheduler.first_turn
    if name is None or first is None:
        return ""
    reached = [known_number(lookup(trial.progress.metrics, name)) for trial in trials]
    known = [time for time in reached if time is not None]
    if not known or max(known) >= first:
        return ""
    text = f"{scheduler.short_name} decided nothing: its first turn is at {name}={first:g}, and no trial got beyond "
    text += f"{max(known):.3g}"
    if name in OF_THE_CLOCK:
        text += f" (time_attr={name!r} counts seconds, 'training_iteration' counts reports)"
    return text


def _on_curves(trials: Sequence[Trial]) -> str:
    """The remark on trials that have all reported the same, although their configurations differ."""
    ended = [trial for trial in trials if trial.status == TERMINATED and trial.progress.num_reports]
    if len(ended) < _FEWEST:
        return ""
    first = _curve(ended[0])
    # Counters and perfect scores are often the same. A fraction hardly ever is.
    if not any(abs(statistics["last"]) % 1 > 0 for statistics in first.values()):
        return ""
    for trial in ended[1:]:  # in nearly all runs, the first of these ends the search
        if trial.progress.num_reports != ended[0].progress.num_reports or _curve(trial) != first:
            return ""
    if len({config_key(trial.current_config) for trial in ended}) < _FEWEST:
        return ""
    names = ", ".join(first)
    return (
        f"{counted(len(ended), 'trial')} with different configurations have all reported exactly the same {names}: "
        "the parameters may not reach the training"
    )


def _curve(trial: Trial) -> dict[str, dict[str, float]]:
    """The statistics of a trial's own metrics."""
    return {
        name: statistics
        for name, statistics in trial.metric_analysis.items()
        if name not in AUTO_RESULT_KEYS and not name.startswith(f"{CONFIG}/")
    }
