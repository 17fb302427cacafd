"""SchedulerContract: what every scheduler must do.

Examples:
    A file `test_my_scheduler.py`, for pytest:

    ```
    class TestMyScheduler(SchedulerContract):
        def make_scheduler(self):
            return MyScheduler(max_t=16)
    ```

The runs are simulated, so the whole suite takes a second and starts no process. The contract is in the package and not
in a test file, so pytest does not rewrite its asserts. To see values where one fails, call
`pytest.register_assert_rewrite("minitune.testing.scheduler_contract")` before the import.
"""

from __future__ import annotations

import copy
import itertools
import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minitune.config import FailureConfig, RunConfig
from minitune.experiment.lifecycle import ERROR, PAUSED, PENDING, TERMINATED
from minitune.experiment.trial import Trial
from minitune.result import TRAINING_ITERATION, flatten
from minitune.schedulers.trial_scheduler import SchedulerContext, TrialScheduler
from minitune.simulation import Simulation, simulate
from minitune.space.domains import uniform
from minitune.tune_config import TuneConfig

Steps = Iterator[tuple[dict[str, Any], float]]

_EPOCHS = 16

_MOST_ATTEMPTS = 1000
"""How often the trials of one run may be started in all. A good scheduler needs some dozens."""

_DECISIONS = {TrialScheduler.CONTINUE, TrialScheduler.PAUSE, TrialScheduler.STOP, TrialScheduler.NOOP}


class SchedulerContract:
    """Subclass it, name the class `Test...`, and override `make_scheduler`.

    Attributes:
        param_space: The search space of the runs. Its number `x` decides how good a trial is.
    """

    param_space: dict[str, Any] = {"x": uniform(0.0, 1.0)}  # noqa: RUF012 - subclasses replace it, no code changes it

    def make_scheduler(self) -> TrialScheduler:
        """Make a scheduler without metric and mode; trials have 16 iterations of one second each."""
        raise NotImplementedError("say how a scheduler is made: override make_scheduler")

    def curve(self, config: dict[str, Any]) -> Steps:
        """The reports of a trial, each with its duration in seconds. The larger `x`, the better is the last one."""
        noise = random.Random(repr(config["x"]))
        for step in range(1, _EPOCHS + 1):
            yield {"score": config["x"] * (1 - 0.8**step) + 0.1 * noise.random()}, 1.0

    def simulated(self, scheduler: TrialScheduler | None = None, curve: Any = None, **options: Any) -> Simulation:
        """A run of `num_samples` trials, 8 by default, on `num_workers`, 3 by default."""
        tune = {"metric": "score", "mode": "max", "num_samples": 8}
        tune.update({name: options.pop(name) for name in tuple(options) if name in tune})
        attempts = itertools.count(1)

        def attempt(config: dict[str, Any]) -> Steps:
            if next(attempts) > _MOST_ATTEMPTS:
                raise _EndlessError
            begun: Steps = (curve or self.curve)(config)
            return begun

        try:
            return simulate(
                attempt,
                param_space=self.param_space,
                tune_config=TuneConfig(**tune, scheduler=scheduler or self.make_scheduler()),  # type: ignore[arg-type]  # checked there
                run_config=RunConfig(failure_config=FailureConfig(options.pop("max_failures", 0))),
                **{"num_workers": 3, "seed": 1, **options},
            )
        except _EndlessError:
            text = "the run does not end: trials have started over, or gone on from checkpoints"
            raise AssertionError(f"{text}, {_MOST_ATTEMPTS} times") from None

    # -- every trial ends --------------------------------------------------------------------------------------------

    def test_every_trial_comes_to_its_end(self) -> None:
        """With few or many workers and trials, no trial waits or runs for ever."""
        for num_samples, num_workers in ((1, 1), (7, 1), (7, 9)):
            done = self.simulated(num_samples=num_samples, num_workers=num_workers)
            assert len(done.results) == num_samples
            assert {trial.status for trial in _trials(done)} == {TERMINATED}

    def test_failures_leave_the_others_alone(self) -> None:
        """A trial without retries gets the status ERROR, a retried trial continues, and all other trials finish."""

        def curve(config: dict[str, Any]) -> Steps:
            for number, step in enumerate(self.curve(config)):
                if config["x"] < 0.4 and number == 2:
                    raise RuntimeError("this one fails")
                yield step

        done = self.simulated(curve=curve)
        for trial in _trials(done):
            assert trial.status == TERMINATED or (trial.status == ERROR and trial.config["x"] < 0.4)
        done = self.simulated(failure_rate=0.05, max_failures=-1)
        assert done.num_failures > 0
        assert {trial.status for trial in _trials(done)} == {TERMINATED}

    def test_trials_without_checkpoints_end_too(self) -> None:
        """A paused trial without a checkpoint starts over."""
        assert {trial.status for trial in _trials(self.simulated(can_save=False))} == {TERMINATED}

    def test_values_that_are_no_numbers_do_no_harm(self) -> None:
        """Trainings that diverge report NaN and infinities: these values neither raise nor win."""
        bad: dict[float, float] = {}  # by the trial's x: the first one with a small x reports NaN, and so on

        def curve(config: dict[str, Any]) -> Steps:
            x = config["x"]
            if x < 0.5:
                bad.setdefault(x, (math.nan, math.inf, -math.inf)[len(bad) % 3])
            for metrics, duration_s in self.curve(config):
                yield ({"score": bad[x]} if x in bad else metrics), duration_s

        done = self.simulated(curve=curve, num_samples=12)
        assert {trial.status for trial in _trials(done)} == {TERMINATED}
        last = {trial.config["x"]: flatten(trial.last_result) for trial in _trials(done) if trial.last_result}
        assert max(result[TRAINING_ITERATION] for x, result in last.items() if x >= 0.5) >= max(
            (result[TRAINING_ITERATION] for result in last.values() if math.isnan(result["score"])), default=0
        )

    # -- the same again ----------------------------------------------------------------------------------------------

    def test_a_seed_decides_everything(self) -> None:
        """The same seed gives the same decisions, for any state of the global generator, which does not change."""
        first = self.simulated().decision_log
        random.seed(99)
        state = random.getstate()
        assert self.simulated().decision_log == first
        assert random.getstate() == state

    def test_min_is_max_of_the_negative(self) -> None:
        """The mode reverses the order and changes nothing else."""

        def negative(config: dict[str, Any]) -> Steps:
            for metrics, duration_s in self.curve(config):
                yield {"score": -metrics["score"]}, duration_s

        one = self.simulated()
        other = self.simulated(curve=negative, mode="min")
        assert [(line.time_s, line.trial_id, line.event) for line in one.log] == [
            (line.time_s, line.trial_id, line.event) for line in other.log
        ]

    def test_a_saved_state_goes_on_as_if_nothing_had_happened(self, tmp_path: Path) -> None:
        """A new scheduler with a saved state makes the same decisions as the old one, from any point on."""
        path = str(tmp_path / "scheduler")
        for num_workers in (2, 8):
            plain = self.simulated(num_workers=num_workers)
            cut_off = _CutOff.of(self.make_scheduler(), make=self.make_scheduler, path=path)
            cut = self.simulated(cut_off, num_workers=num_workers)
            assert cut.decision_log == plain.decision_log
        assert os.listdir(tmp_path) == ["scheduler"]

    # -- hooks -------------------------------------------------------------------------------------------------------

    def test_a_report_that_comes_twice_counts_once(self) -> None:
        """A trial that starts again from a checkpoint repeats iterations: what is decided later stays the same."""
        doubled = _Doubled.of(self.make_scheduler())
        assert self.simulated(doubled).decision_log == self.simulated().decision_log

    def test_hooks_answer_as_they_should(self) -> None:
        """Each decision is a known one, the chosen trial waits, and results and configurations stay as they are."""
        decisions: list[str] = []
        self.simulated(_Watched.of(self.make_scheduler(), decisions=decisions))
        assert decisions

    def test_metric_and_mode_come_from_one_place(self) -> None:
        """The scheduler takes them over from the run, and refuses them if it has its own."""
        scheduler = self.make_scheduler()
        assert scheduler.set_search_properties("score", "max")
        assert scheduler.metric == "score"
        assert not scheduler.set_search_properties("loss", "min")
        assert isinstance(scheduler.debug_string(), str)


class _EndlessError(BaseException):
    """Ends a run from within a trial. It is no `Exception`, because that would be a failure of the trial."""


def _trials(done: Simulation) -> list[Trial]:
    return done.results._run.trials


class _Observed(TrialScheduler):
    """The base of classes that see what a run asks of a scheduler. Nothing is added to the scheduler's attributes."""

    @classmethod
    def of(cls, scheduler: TrialScheduler, **attributes: Any) -> TrialScheduler:
        """Change the class of a scheduler to one derived from it and from this class."""
        scheduler.__class__ = type(cls.__name__, (cls, type(scheduler)), attributes)
        return scheduler

    def __deepcopy__(self, memo: dict[int, Any]) -> TrialScheduler:
        return self  # a run may work on a copy


class _CutOff(_Observed):
    """After every seventh result the scheduler becomes a new one that reads the saved state of the old one."""

    make: Any
    path: str
    count = 0
    seed = 0
    properties: tuple[Any, ...] = ()

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        type(self).properties = (metric, mode, spec)
        return super().set_search_properties(metric, mode, **spec)

    def set_seed(self, seed: int) -> None:
        type(self).seed = seed
        super().set_seed(seed)

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        decision = super().on_trial_result(tune_controller, trial, result)
        type(self).count += 1
        if self.count % 7 == 3:
            self.save(self.path)
            self.__dict__ = vars(type(self).make())
            metric, mode, spec = self.properties
            super().set_seed(self.seed)
            super().set_search_properties(metric, mode, **spec)
            self.restore(self.path)
        return decision


class _Doubled(_Observed):
    """Hears each report twice, unless the first answer ends or pauses the trial."""

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        again = dict(result)
        decision = super().on_trial_result(tune_controller, trial, result)
        if decision == self.CONTINUE:
            super().on_trial_result(tune_controller, trial, again)
        return decision


class _Watched(_Observed):
    """Checks each answer, and that nothing changes that must stay."""

    decisions: list[str]

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        before = copy.deepcopy((result, trial.config))
        decision = super().on_trial_result(tune_controller, trial, result)
        assert decision in _DECISIONS, f"{decision!r} is no decision"
        after = ({name: result.get(name) for name in before[0]}, trial.config)  # it may add something for the searcher
        assert after == before, "on_trial_result has changed the result or the configuration"
        assert isinstance(self.debug_string(), str)
        self.decisions.append(decision)
        return decision

    def choose_trial_to_run(self, tune_controller: SchedulerContext) -> Trial | None:
        chosen = super().choose_trial_to_run(tune_controller)
        again = super().choose_trial_to_run(tune_controller)
        assert chosen is again, "choose_trial_to_run gives another answer when it is asked again"
        assert chosen is None or chosen.status in (PENDING, PAUSED), f"{chosen} was chosen, but is {chosen.status}"
        return chosen
