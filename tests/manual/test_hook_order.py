"""The manual's table of what plug-ins hear is what `take` tells them."""

import re
from types import SimpleNamespace

import pytest
from kit import Log, LoggingScheduler, LoggingSearcher
from manual_pages import MANUAL

from minitune import Callback, TuneConfig
from minitune.driver.hooks import Hooks
from minitune.driver.state import RunState
from minitune.driver.transitions import take
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial_maker import TrialMaker
from minitune.search.search_algorithm import PlainExperiment, SearchGenerator
from minitune.stopper import NoopStopper

RUNS = [Transition.START, Transition.TRAIN]
STEPS = {
    "it pauses": (RUNS, Transition.PAUSE, ""),
    "it goes on after a pause": ([*RUNS, Transition.PAUSE], Transition.UNPAUSE, ""),
    "it ends while it runs": (RUNS, Transition.STOP, Ending.of(EndKind.DONE)),
    "it ends while it waits or is paused": ([], Transition.STOP, Ending.of(EndKind.SCHEDULER)),
    "it fails, and is tried again": (RUNS, Transition.RETRY, Ending.of(EndKind.FAILED)),
    "it fails for good": (RUNS, Transition.FAIL, Ending.of(EndKind.FAILED)),
    "its worker is lost": (RUNS, Transition.RETRY, Ending.of(EndKind.LOST)),
    "a resume continues it after its end": ([Transition.STOP], Transition.REVIVE, "resumed"),
}


class LoggingCallback(Callback):
    """Logs its hooks about steps."""

    def __init__(self, log):
        self.log = log

    def on_trial_complete(self, iteration, trials, trial, **info):
        self.log.add("callbacks.on_trial_complete")

    def on_trial_recover(self, iteration, trials, trial, **info):
        self.log.add("callbacks.on_trial_recover")

    def on_trial_error(self, iteration, trials, trial, **info):
        self.log.add("callbacks.on_trial_error")


def rows():
    """The manual's table: by step, the hooks before it, the step, and the hooks after it."""
    page = (MANUAL / "extending.md").read_text(encoding="utf-8")
    table = page.partition("## What plug-ins hear")[2].partition("## ")[0]
    found = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0] in STEPS:
            hooks = [re.sub(r" `(\w+)`", r".\1", cell).split(", ") if cell else [] for cell in cells[1:]]
            found[cells[0]] = [*hooks[0], "the step", *hooks[1]]
    return found


def told(name):
    """What plug-ins hear of a step, and when it is recorded."""
    log = Log()
    searcher = SearchGenerator(LoggingSearcher(log))
    searcher.add_configurations([PlainExperiment({}, 1, TrialMaker("train"))])
    state = RunState(SimpleNamespace(tune_config=TuneConfig()))
    hooks = Hooks(LoggingScheduler(log), searcher, NoopStopper(), [LoggingCallback(log)], state)
    hooks.setup(stop=None, num_samples=1, total_num_samples=1)
    trial = hooks.next_trial()
    assert trial is not None
    state.add(trial)
    before, step, why = STEPS[name]
    for earlier in before:
        state.move(trial, earlier, Ending.of(EndKind.DONE) if earlier is Transition.STOP else "")
    log.lines.clear()
    recorder = SimpleNamespace(status=lambda trial, why: log.add("the step"))
    take(state, hooks, recorder, trial, step, why)
    return [line if line == "the step" else line.split()[0] for line in log.lines]


@pytest.mark.parametrize("name", STEPS)
def test_the_manual_has_the_order_of_hooks_of_each_step(name):
    assert rows()[name] == told(name)
