"""Hooks: all calls of the driver to plug-ins (schedulers, searchers, stoppers, callbacks), in the right order. An error
names the hook.

`DriverContext` is a scheduler's view of the run. An action on another trial that a scheduler requests follows after the
hook has returned, so no trial changes while a hook runs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from minitune.base.plugin_calls import PluginCaller, hook_name, raise_told
from minitune.base.settings import number_setting
from minitune.base.snapshots import CALLBACK, SCHEDULER, SEARCHER, STOPPER
from minitune.driver.state import Request, RunState
from minitune.error import TuneError
from minitune.experiment.callback import Callback
from minitune.experiment.decision import CONTINUE, GO_ON, STOP, Decision
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.goal import Metric
from minitune.experiment.lifecycle import RUNNING, STATUS
from minitune.experiment.trial import Trial, copy_of_metrics
from minitune.result import CONFIG, DEFAULT_METRIC, DONE, complete, flatten, with_text_keys
from minitune.schedulers.trial_scheduler import TrialScheduler
from minitune.search.search_algorithm import SearchAlgorithm
from minitune.search.searcher import Repeated
from minitune.space.tree import copy_tree
from minitune.stopper.stopper import ASKED_EVERY_S, DictStopper, Stopper, is_goal_of

logger = logging.getLogger("minitune")

_HookList = Sequence[Callable[..., Any]]
_CALLBACK_HOOKS = tuple(name for name in vars(Callback) if name.startswith("on_"))


# -- a scheduler's view of the run -------------------------------------------------------------------------------------
class DriverContext:
    """The first argument of every scheduler hook."""

    def __init__(self, state: RunState, search_alg: SearchAlgorithm):
        self.search_alg = search_alg
        self.is_replaying = False
        self._state = state

    @property
    def supply(self) -> str:
        """See `SchedulerContext`."""
        return self._state.supply

    def get_trials(self) -> list[Trial]:
        """See `SchedulerContext.get_trials`. The list is read-only."""
        return self._state.trials

    def get_trial(self, tid: str) -> Trial | None:
        """The trial with this id, or None. O(n)."""
        return next((trial for trial in self._state.trials if trial.trial_id == tid), None)

    def get_live_trials(self) -> list[Trial]:
        """See `SchedulerContext.get_live_trials`."""
        return list(self._state.unfinished.values())

    def first_pending(self) -> Trial | None:
        """See `SchedulerContext.first_pending`: the one that has waited longest."""
        return next(iter(self._state.waiting.queue.values()), None)

    def first_paused(self) -> Trial | None:
        """See `SchedulerContext.first_paused`: the one that has waited longest."""
        return next(iter(self._state.waiting.paused.values()), None)

    def stop_trial(self, trial: Trial, reason: str = "", facts: Mapping[str, Any] | None = None) -> None:
        """See `SchedulerContext.stop_trial`."""
        self._state.requests.append(Request("stop", trial, (reason, facts)))

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        """See `SchedulerContext.pause_trial`."""
        self._state.requests.append(Request("pause", trial, should_checkpoint))

    def exploit_trial(self, trial: Trial, donor: Trial, config: dict[str, Any], reason: str = "") -> None:
        """See `SchedulerContext.exploit_trial`."""
        self._state.requests.append(Request("exploit", trial, (donor, config, reason)))


class Hooks:
    """Calls the plug-ins of a run.

    Most hooks of most plug-ins do nothing, so the overridden ones are looked up once per run, and only those are
    called.
    """

    scheduler: TrialScheduler
    search_alg: SearchAlgorithm
    stopper: Stopper

    def __init__(
        self,
        scheduler: TrialScheduler,
        search_alg: SearchAlgorithm,
        stopper: Stopper,
        callbacks: Sequence[Callback],
        state: RunState,
    ):
        self.callbacks = tuple(callbacks)
        self.context = DriverContext(state, search_alg)
        self.iteration = 0
        self._state = state
        self._call = PluginCaller(number_setting("WARN_THRESHOLD_S")).call
        self._limits: DictStopper | None = None
        self._limited: Mapping[str, Any] = {}  # the criterion of `_limits`
        # Empty until `setup`: a replay calls no callbacks, because they have already handled its events.
        self._listeners: dict[str, _HookList] = dict.fromkeys(_CALLBACK_HOOKS, ())
        self.scheduler = scheduler
        self.search_alg = search_alg
        self.stopper = stopper
        self.stops_run = not _is_left(stopper.stop_all, Stopper.stop_all)  # whether the stopper can end the run
        self.tell_all_but()

    def components(self) -> Iterator[tuple[str, Any]]:
        """Each plug-in by the name of its component."""
        # Without `search.confirm`, which has no state.
        yield SEARCHER, getattr(self.search_alg, "__wrapped__", self.search_alg)
        yield SCHEDULER, self.scheduler
        yield STOPPER, self.stopper
        for number, callback in enumerate(self.callbacks):
            yield f"{CALLBACK} {number}", callback

    def tell_all_but(self, deaf: Collection[str] = ()) -> None:
        """From now on, tell searcher, scheduler or stopper nothing if it is in `deaf`."""
        hears_stops = STOPPER not in deaf and not _is_left(self.stopper.__call__, Stopper.__call__)
        self._on_stop = (self.stopper,) if hears_stops else ()
        self._of_scheduler = _overridden(None if SCHEDULER in deaf else self.scheduler, TrialScheduler)
        self._of_searcher = _overridden(None if SEARCHER in deaf else self.search_alg, SearchAlgorithm)
        self._adopts = SEARCHER not in deaf

    @property
    def needs_turns(self) -> bool:
        """Whether a plug-in needs turns of the loop even if there are no events."""
        return self.hears_turns or self.stops_run or not _is_left(self.stopper.seconds_left, Stopper.seconds_left)

    @property
    def hears_turns(self) -> bool:
        """Whether a callback has a hook for each turn."""
        return bool(self._listeners["on_step_begin"] or self._listeners["on_step_end"])

    def objectives(self, of_run: Metric) -> dict[str, bool]:
        """The flattened names of the metrics of run, scheduler and searcher; True if a result must have it."""
        required = self.scheduler.required_attrs
        own = self.scheduler.metric
        is_optional = of_run == own and own not in required  # the scheduler accepts results without it
        names: dict[str, bool] = {}
        for metric in (required, self.search_alg.metric, None if is_optional else of_run):
            listed = [metric] if metric is None or isinstance(metric, str) else metric
            names.update((name, name != DEFAULT_METRIC) for name in listed if name)
        if own or self.goes_by_bare_number(of_run):
            names.setdefault(own or DEFAULT_METRIC, False)
        return names

    def goes_by_bare_number(self, of_run: Metric) -> bool:
        """Whether there is a mode but no metric: the objective is a trainable's bare number."""
        named = (of_run, self.scheduler.metric, self.search_alg.metric)
        return self.scheduler._mode is not None and all(name in (None, DEFAULT_METRIC) for name in named)

    # -- the run -------------------------------------------------------------------------------------------------

    def setup(self, **spec: Any) -> None:
        """The run begins."""
        self._call(self._listening("setup"), None, **spec)
        # From now on the callbacks hear events.
        self._listeners = {name: self._listening(name) for name in _CALLBACK_HOOKS}

    def _listening(self, name: str) -> list[Callable[..., Any]]:
        base = getattr(Callback, name)
        hooks = [getattr(callback, name) for callback in self.callbacks]
        return [hook for hook in hooks if not _is_left(hook, base)]

    def experiment_ends(self, trials: list[Trial], *, after_error: bool = False) -> None:
        """The run and all workers have ended. Every callback is called, even after an error, to close its files.
        `after_error`: errors of hooks are only logged.

        Raises:
            TuneError: The error of the first hook that raised one.
            KeyboardInterrupt: If the user has ended a hook by Ctrl-C.
        """
        failure: TuneError | KeyboardInterrupt | None = None
        for listener in self._listeners["on_experiment_end"]:
            try:
                self._call((listener,), None, trials=trials)
            except KeyboardInterrupt as error:
                failure = error
            except TuneError as error:
                if after_error or failure is not None:
                    logger.warning("%s", error)
                else:
                    failure = error
        if failure is not None:
            raise failure

    def wants_all_stopped(self) -> bool:
        """Whether the stopper ends the run; only if `stops_run`."""
        return bool(self._call((self.stopper.stop_all,), None))

    def ending_by_stopper(self) -> Ending:
        """The ending of a run that the stopper ends."""
        facts = {"is_goal": True} if is_goal_of(self.stopper) else {}
        return Ending.of(EndKind.STOPPER, self._call((self.stopper.describe,), None), **facts)

    def seconds_left(self) -> float:
        """After how many seconds the loop must turn again even without an event; infinite if that is not needed."""
        left_s: float | None = self._call((self.stopper.seconds_left,), None)
        wait_s = math.inf
        if self.hears_turns:
            wait_s = ASKED_EVERY_S
        if left_s is not None:
            wait_s = min(wait_s, left_s)
        return wait_s

    # -- what to do next ---------------------------------------------------------------------------------------------

    def next_trial(self) -> Trial | None:
        """The searcher's next trial, or None."""
        trial: Trial | None = self._call((self.search_alg.next_trial,), None)
        return trial

    def adopt(self, trial: Trial) -> None:
        """Tell the searcher of a recorded trial that it has suggested."""
        config = trial.current_config
        repeats = trial.repeats
        if repeats is not None:
            config = Repeated(config, repeats.trial_id)
        if self._adopts and (repeats is None or repeats.is_suggested):
            self._call((self.search_alg.adopt,), None, trial.trial_id, config)

    def search_has_ended(self) -> bool:
        """Whether the searcher will never suggest another trial."""
        return bool(self._call((self.search_alg.is_finished,), None))

    def search_ends(self) -> None:
        """Tell the searcher to suggest no more trials."""
        self._call((self.search_alg.set_finished,), None)

    def choose(self) -> Trial | None:
        """The trial that the scheduler has chosen to run next, or None."""
        trial = self._call((self.scheduler.choose_trial_to_run,), None, self.context)
        if trial is None or isinstance(trial, Trial):
            return trial
        raise TuneError(
            f"{hook_name(self.scheduler.choose_trial_to_run)} must return a trial or None, but returned {trial!r:.200}"
        )

    # -- one trial -----------------------------------------------------------------------------------------------

    def tell(self, hook: str, trial: Trial | None = None, **arguments: Any) -> None:
        """Call a hook of all callbacks that have it."""
        listeners = self._listeners[hook]
        if listeners:
            if trial is not None:
                arguments["trial"] = trial
            self._call(listeners, trial, iteration=self.iteration, trials=self._state.trials, **arguments)

    def added(self, trial: Trial) -> bool:
        """A trial was added, or will be retried; returns whether the scheduler was told."""
        hooks = self._scheduler_hooks("on_trial_add", trial)
        self._call(hooks, trial, self.context, trial)
        return bool(hooks)

    def _scheduler_hooks(self, name: str, trial: Trial) -> _HookList:
        """The scheduler's hook; none for a repeat of `search.confirm`, of which no scheduler hears."""
        return self._of_scheduler[name] if trial.repeats is None else ()

    def decide(
        self, trial: Trial, result: dict[str, Any], *, ends: bool = False, recorded: Decision | None = None
    ) -> Decision:
        """Pass a new result to stopper, scheduler and searcher, in this order, and return the decision. To stop the
        trial, `done` is set in `result`.

        `ends`: the trial has ended by itself. `recorded`: the decision on record, so that their answers do not count.
        """
        # Scheduler and searcher get the result of a trial that ends anyway once, as that of a trial that has completed.
        ending = None
        is_met = self._on_stop and self._call(self._on_stop, trial, trial.trial_id, _completed(trial, result))
        if recorded is not None:
            if recorded == STOP and recorded.ending.kind in (EndKind.CRITERION, EndKind.DONE):
                ending = recorded.ending
        elif is_met:
            ending = _criterion_met(self._call((self.stopper.describe,), trial))
        elif ends or result.get(DONE):
            ending = Ending.of(EndKind.DONE)
        elif trial.stopping_criterion:
            reached = self._limits_of(trial).reason(flatten(complete(result, trial.attempt.config)))
            if reached:
                ending = _criterion_met(reached)
        if ending is not None:
            result[DONE] = True
            return Decision.stop(ending)
        searcher = self._of_searcher["on_trial_result"]
        hooks = self._scheduler_hooks("on_trial_result", trial)
        if not (searcher or hooks):
            return recorded or GO_ON
        # One dict for both: a scheduler may tell the searcher something by adding a key, as that of BOHB does.
        flat = flatten(complete(result, trial.attempt.config))
        answer = self._call(hooks, trial, self.context, trial, flat)
        decision = recorded
        if decision is None:
            decision = answer if isinstance(answer, Decision) else self._understood(answer or CONTINUE, trial)
            if decision == STOP:
                result[DONE] = True
                if decision.ending.kind is EndKind.SCHEDULER:
                    end = self.scheduler_stops(decision.reason, decision.facts)
                    decision = Decision(STOP, end.text, save=decision.save, exploit=decision.exploit, facts=end.facts)
        # Of a trial that the scheduler stops it hears `on_trial_complete`. Any other stop on record came later.
        if searcher and not result.get(DONE):
            self._call(searcher, trial, trial.trial_id, flat)
        return decision

    def _understood(self, answer: str, trial: Trial) -> Decision:
        try:
            return Decision.of(answer)
        except ValueError as error:
            hook = hook_name(self.scheduler.on_trial_result)
            raise TuneError(f"{hook} returned no decision about trial {trial.name}: {error}") from error

    def scheduler_stops(self, reason: str, facts: Mapping[str, Any] | None = None) -> Ending:
        """The ending of a trial that the scheduler stops, with its name."""
        text = reason or EndKind.SCHEDULER.text
        return Ending(EndKind.SCHEDULER, text, {**(facts or {}), "scheduler": self.scheduler.short_name})

    def limit_reached(self, trial: Trial) -> str:
        """The limit of its stop criterion that a trial's last result has reached, as text; empty if there is none."""
        return self._limits_of(trial).reason(flatten(trial.last_result))

    def _limits_of(self, trial: Trial) -> DictStopper:
        """The trial's own stop criterion, one object for all that have the same."""
        if self._limits is None or self._limited != trial.stopping_criterion:
            self._limited = trial.stopping_criterion
            self._limits = DictStopper(trial.stopping_criterion)
        return self._limits

    def result(self, trial: Trial, result: dict[str, Any]) -> dict[str, Any]:
        """Pass a result to the callbacks. They may add and change metrics, but remove none. Returns it completed."""
        completed = None
        for hook in self._listeners["on_trial_result"]:
            log = getattr(hook, "__self__", None)
            if log is not None and "only_reads" in vars(type(log)):  # of its very class: a subclass may change results
                completed = completed or complete(result, trial.attempt.config)
                self._call((log.log_trial_result,), trial, self.iteration, trial, completed)
                continue
            told = _completed(trial, result)
            self._call((hook,), trial, iteration=self.iteration, trials=self._state.trials, trial=trial, result=told)
            # A metric that one callback adds is seen by the next ones, by the journal and by the grid of results.
            told.pop(CONFIG, None)
            try:
                result.update(with_text_keys(told))
            except TypeError as error:
                raise_told(hook, trial, error)
            completed = None
        return completed or complete(result, trial.attempt.config)

    def paused(self, trial: Trial) -> None:
        """The trial was paused."""
        self._call(self._of_searcher["on_pause"], trial, trial.trial_id)

    def unpaused(self, trial: Trial) -> None:
        """The trial waits for a worker again."""
        self._call(self._of_searcher["on_unpause"], trial, trial.trial_id)

    def ends(self, trial: Trial) -> None:
        """A trial ends that has not failed. If it is still RUNNING, it finishes, and its last result is set."""
        if STATUS[trial.phase] == RUNNING:
            result = trial.progress.metrics
            if trial.progress.config is not None:
                result = complete(result, trial.progress.config)
            flat = flatten(result)
            self._call(self._scheduler_hooks("on_trial_complete", trial), trial, self.context, trial, flat)
            self._call(self._of_searcher["on_trial_complete"], trial, trial.trial_id, result=flat)
        else:
            self._call(self._scheduler_hooks("on_trial_remove", trial), trial, self.context, trial)
            self._call(self._of_searcher["on_trial_complete"], trial, trial.trial_id)
        self.tell("on_trial_complete", trial)

    def interrupted(self, trial: Trial) -> None:
        """The user has interrupted the run. The trial can be resumed later."""
        result = None
        if trial.progress.metrics:
            result = flatten(trial.last_result)
        self._call(self._of_searcher["on_trial_complete"], trial, trial.trial_id, result=result)
        self.tell("on_trial_complete", trial)

    def failed(self, trial: Trial) -> None:
        """An attempt of the trial has failed. Called before `recovers` or `errored`."""
        self._call(self._scheduler_hooks("on_trial_error", trial), trial, self.context, trial)
        self._call(self._of_searcher["on_trial_error"], trial, trial.trial_id)

    def recovers(self, trial: Trial) -> None:
        """The trial will be retried, and is PENDING."""
        self.added(trial)
        self.tell("on_trial_recover", trial)

    def errored(self, trial: Trial) -> None:
        """The trial has failed for good, and has the status ERROR."""
        self._call(self._of_searcher["on_trial_complete"], trial, trial.trial_id, error=True)
        self.tell("on_trial_error", trial)


def _criterion_met(criterion: str) -> Ending:
    return Ending.of(EndKind.CRITERION, criterion, criterion=criterion)


def _completed(trial: Trial, result: dict[str, Any]) -> dict[str, Any]:
    """A nested result as a plug-in gets it: a copy, so that nothing can be removed from the grid."""
    return complete(copy_of_metrics(result), copy_tree(trial.attempt.config))


def _is_left(hook: Any, base: Any) -> bool:
    """Whether a plug-in inherits a hook from its base class, which does nothing."""
    return getattr(hook, "__func__", None) is base


def _overridden(plugin: Any, base: type) -> dict[str, _HookList]:
    """For each hook of a plug-in: the bound hook if it is overridden, or nothing."""
    found: dict[str, _HookList] = {}
    for name in vars(base):
        if name.startswith("on_"):
            found[name] = ()
            if plugin is not None and not _is_left(hook := getattr(plugin, name), getattr(base, name)):
                found[name] = (hook,)
    return found
