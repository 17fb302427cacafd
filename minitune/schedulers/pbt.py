"""Population based training, and the replay of the schedule that it has found.

Source: Jaderberg et al., "Population Based Training of Neural Networks" (arXiv 1711.09846). At fixed intervals each
member has its turn and is saved: one of the worst continues from a copy of one of the best (exploit) with other
hyperparameters (explore).

Two kinds of files in the run's directory record the exploits, in Ray Tune's format: `pbt_global.txt` those of the run,
`pbt_policy_<trial id>.txt` those of a member. Each line is a JSON list for one exploit: the target's and the donor's
tag (before anything was perturbed), the target's iteration, the donor's iteration, the donor's configuration, the new
one. A member's file is a copy of its donor's with one more line: the whole history of its state.
"""

from __future__ import annotations

import json
import logging
import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from minitune.base import files
from minitune.base.calls import explains_calls
from minitune.base.checks import is_real, require, require_flag, shown
from minitune.base.json_text import dumps
from minitune.base.numbers import known_number
from minitune.base.randomness import GlobalDraws
from minitune.base.text import number_text, plain_or_short, warn_once
from minitune.error import InvalidArgumentError
from minitune.experiment import decision
from minitune.experiment.decision import Decision
from minitune.experiment.lifecycle import PAUSED, PENDING
from minitune.experiment.trial import Trial
from minitune.result import TRAINING_ITERATION
from minitune.schedulers.async_hyperband import exact
from minitune.schedulers.population import (
    Changes,
    Explorer,
    Member,
    Population,
    check_mutations,
    describe,
    fill,
    look_up,
)
from minitune.schedulers.trial_scheduler import (
    SUPPLY_ENDED,
    FIFOScheduler,
    MetricScheduler,
    SchedulerContext,
    has_failed_for_good,
    number_above,
)
from minitune.space.tree import copy_tree, format_vars

logger = logging.getLogger("minitune")

PERTURBED = "@perturbed["
"""A tag is the trial's first tag, then this, then the new hyperparameters and a closing bracket."""

_ROUNDING = 1e-9


# -- policy files -----------------------------------------------------------------------------------------------------


class ExploitStep(NamedTuple):
    """One exploit, in the order of the fields of a line."""

    target_tag: str
    donor_tag: str
    target_iteration: Any
    donor_iteration: Any
    old_config: dict[str, Any]
    new_config: dict[str, Any]


def policy_path(run_path: str, trial_id: str) -> str:
    """The path of the file with a trial's history."""
    return os.path.join(run_path, f"pbt_policy_{trial_id}.txt")


def write_step(run_path: str, target_id: str, donor_id: str, step: ExploitStep) -> None:
    """Write one exploit into the run's file and the target's."""
    line = dumps(step) + "\n"
    path = os.path.join(run_path, "pbt_global.txt")
    with open(path, "ab") as file:
        file.write(line.encode())
    target = policy_path(run_path, target_id)
    donor = policy_path(run_path, donor_id)
    try:
        with open(donor, "rb") as history:
            steps = history.read()
    except FileNotFoundError:
        steps = b""
    files.atomic_write(target, steps + line.encode())


def read_policy(path: str) -> tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]:
    """The schedule that led to a member's last configuration: the first one, and ascending pairs of the iteration and
    the new one.

    Raises:
        ValueError: If the file cannot be read, is empty, or is no policy file.
    """
    try:
        with open(path, encoding="utf-8") as file:
            steps = [_step(line, path) for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"policy_file must be a file that PopulationBasedTraining has written, but {path!r} cannot be read "
            f"({error}); it lies in the run's directory as pbt_policy_<trial id>.txt"
        ) from error
    if not steps:
        raise ValueError(f"policy_file must have at least one exploit, but {path!r} is empty")
    start = steps[-1].old_config
    changes = list[tuple[int, dict[str, Any]]]()
    expected: str | None = None
    for step in reversed(steps):
        if expected is not None and step.target_tag != expected:
            break  # the line below has overwritten this change
        expected = step.donor_tag
        start = step.old_config
        changes.append((step.donor_iteration, step.new_config))
    changes.reverse()
    return start, sorted(changes, key=lambda change: change[0])  # of equal ones the later line comes last


def _step(line: str, path: str) -> ExploitStep:
    try:
        step = ExploitStep(*json.loads(line))
        good = is_real(step.donor_iteration)
        if good and isinstance(step.old_config, dict) and isinstance(step.new_config, dict):
            return step
    except (ValueError, TypeError):
        pass
    raise ValueError(
        f"every line of a policy file must be a JSON list of {len(ExploitStep._fields)} fields (two tags, "
        f"two iterations, two configurations), but {path!r} has {shown(line)}"
    )


# -- replay -----------------------------------------------------------------------------------------------------------


@explains_calls
class PopulationBasedTrainingReplay(FIFOScheduler):
    """Trains one trial with the schedule of configurations that population based training has found.

    At each change, the trial is saved and continues with the next configuration.

    Args:
        policy_file: A member's `pbt_policy_<trial id>.txt`, which is in the run's directory.
    """

    _short_name = "PBT replay"
    _STATE = ("_trial_id", "_step", "_num_perturbations")

    def __init__(self, policy_file: str | os.PathLike[str]):
        require(isinstance(policy_file, (str, os.PathLike)), "policy_file: the path of a policy file", policy_file)
        self.policy_file = os.path.expanduser(os.fspath(policy_file))
        self.config, self._changes = read_policy(self.policy_file)
        self.experiment_tag = f"replay_{os.path.basename(self.policy_file)}"
        self._trial_id = ""
        self._step = 0
        self._num_perturbations = 0

    def on_trial_add(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Give the trial the configuration that the schedule begins with.

        Raises:
            ValueError: If it is the second trial.
        """
        if trial.trial_id == self._trial_id:
            return
        if self._trial_id:
            raise ValueError(
                "a replay trains one trial, but got a second one, which would train the same schedule again; use "
                "num_samples=1 and no grid_search"
            )
        self._trial_id = trial.trial_id
        if trial.current_config:
            logger.warning("trial %s gets the configuration of %s", trial.name, self.policy_file)
        trial.set_config(self.config)

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        step = known_number(result.get(TRAINING_ITERATION))
        if step is None:
            return decision.GO_ON
        self._step = int(step)
        passed = sum(1 for at, _ in self._changes if at <= step)
        if passed <= self._num_perturbations:
            return decision.GO_ON
        self._num_perturbations = passed
        at, self.config = self._changes[passed - 1]
        values = {(str(name),): value for name, value in self.config.items()}
        trial.set_experiment_tag(f"{self.experiment_tag}{PERTURBED}{format_vars(values)}]")
        return Decision(
            decision.PAUSE,
            f"the schedule changes at {TRAINING_ITERATION} {at} to {shown(self.config)}",
            exploit=(trial, copy_tree(self.config)),
            save=True,
            facts={"rule": "pbt replay", "time": step, "donor": trial.trial_id},
        )

    def debug_string(self) -> str:
        return f"PopulationBasedTraining replay: Step {self._step}, perturb {self._num_perturbations}"


# -- training ---------------------------------------------------------------------------------------------------------


@explains_calls
class PopulationBasedTraining(MetricScheduler):
    """Trains all trials of a run as one population, in which the worst continue from copies of the best.

    A value that is NaN or no number ranks below all others. If not all trials can run at once, they take turns. Trials
    must save checkpoints. Exploits are written to `pbt_global.txt` and `pbt_policy_<trial id>.txt`.

    Args:
        perturbation_interval: The time between two turns of a member, in units of `time_attr`.
        burn_in_period: No member has a turn before.
        hyperparam_mutations: By name, values in their order, a domain, a function without arguments, or a dict of
            these.
        quantile_fraction: The part that is replaced, and the part that replaces it: 0 to 0.5.
        resample_probability: How often a value is drawn anew.
        synch: Whether members wait for each other at each turn.

    Raises:
        TuneError: Without a mutation and a `custom_explore_fn`.
    """

    _short_name = "PBT"
    _rule = "pbt"
    _STATE: tuple[str, ...] = (
        *("_population", "_turn", "_arrived", "_rng"),
        *("_num_checkpoints", "_num_perturbations"),
    )

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        burn_in_period: float = 0.0,
        hyperparam_mutations: Mapping[str, Any] | None = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: Sequence[float] = (1.2, 0.8),
        custom_explore_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
        reward_attr: str | None = None,
    ):
        mutations = {} if hyperparam_mutations is None else hyperparam_mutations
        custom = custom_explore_fn
        check_mutations(mutations)
        require(
            custom is None or callable(custom), "custom_explore_fn: None or a function of the configuration", custom
        )
        if not mutations and custom is None:
            raise InvalidArgumentError(
                "hyperparam_mutations must hold at least one hyperparameter, unless there is a custom_explore_fn"
            )
        good = is_real(resample_probability) and 0 <= resample_probability <= 1
        require(good, "resample_probability: a number from 0 to 1", resample_probability)
        factors = perturbation_factors
        good = isinstance(factors, Sequence) and bool(factors)
        good = good and all(is_real(factor) and 0 < factor < math.inf for factor in factors)
        require(good, "perturbation_factors: numbers above 0, such as (1.2, 0.8)", factors)
        super().__init__(time_attr, metric, mode, reward_attr)
        self._interval = number_above("perturbation_interval", perturbation_interval, 0)
        self._burn_in = number_above("burn_in_period", burn_in_period, 0, or_equal=True)
        good = is_real(quantile_fraction) and 0 <= quantile_fraction <= 0.5
        require(good, "quantile_fraction: a number from 0 to 0.5", quantile_fraction)
        for name, flag in (("log_config", log_config), ("require_attrs", require_attrs), ("synch", synch)):
            require_flag(name, flag)
        self._log_config = log_config
        self._require_attrs = require_attrs
        self._synch = synch
        # How new configurations are made.
        self._explorer = Explorer(mutations, resample_probability, tuple(factors))
        self._custom_explore_fn = custom
        self._rng = random.Random(0)  # the run sets the seed
        # The members and their turns.
        self._population = Population(exact(quantile_fraction))
        self._turn = max(1, math.ceil(self._burn_in / self._interval))  # with `synch`: for which all wait
        self._arrived: set[str] = set()  # ids of the members that wait for it
        # Counts for the user.
        self._num_checkpoints = 0
        self._num_perturbations = 0

    @property
    def required_attrs(self) -> tuple[str, ...]:
        if self._require_attrs:
            return (self._metric or "", self._time_attr)
        return ()

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """See `TrialScheduler.set_search_properties`.

        Raises:
            ValueError: If no mode is known, if members would wait for an endless supply of others, if the run confirms
                its best trials, or if it has a searcher, which would credit a first configuration with later scores.
        """
        if spec.get("searcher") is not None:
            raise ValueError(
                f"{type(self).__name__} changes configurations while they are trained, so it takes no search "
                f"algorithm, but got {spec['searcher']}; leave out search_alg"
            )
        if spec.get("confirm"):
            raise ValueError(
                f"{type(self).__name__} changes configurations while they are trained, so running the last one again "
                f"confirms nothing, but got confirm={spec['confirm']}; leave it out"
            )
        if not super().set_search_properties(metric, mode, **spec):
            return False
        if self._synch and spec.get("num_samples") == -1:
            raise ValueError(
                "with synch=True all members of the population wait for each other, so num_samples must be the "
                "number of trials, but got -1"
            )
        return True

    @property
    def first_turn(self) -> float | None:
        return max(self._burn_in, self._interval)

    def set_seed(self, seed: int) -> None:
        self._rng = random.Random(seed)

    # -- hooks ---------------------------------------------------------------------------------------------------

    def on_trial_add(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        super().on_trial_add(tune_controller, trial)
        is_new = trial.trial_id not in self._population.members
        self._member(trial)
        if is_new:
            # what the configuration lacks
            config, drawn = fill(trial.current_config, self._explorer.mutations, self._rng)
            if drawn:
                if trial.current_config:
                    names = ", ".join(str(path[0]) for path in drawn)
                    warn_once(f"hyperparam_mutations has {names}, which the search space lacks, so PBT adds it")
                trial.set_config(config)
                values = {"/".join(path): new for path, (_, new) in drawn.items()}
                trial.evaluated_params = {**trial.evaluated_params, **values}
        self._arrived.discard(trial.trial_id)  # it has failed while it was saved at the turn

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        """Give the trial its turn if the time has come. O(log n) comparisons, unless there is an exploit."""
        at = self._time_of(result)
        if at is None:
            return decision.GO_ON
        member = self._member(trial)
        member.time = at
        if at < self._burn_in:
            return decision.GO_ON
        if self._synch:
            return self._reach_turn(member, at, result)
        if _turns(at - member.last_turn, self._interval) < 1:
            return decision.GO_ON
        self._record(member, at, result)
        return self._take_turn(tune_controller, member)

    def on_trial_complete(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> None:
        self._forget(trial.trial_id)

    def on_trial_remove(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        self._forget(trial.trial_id)

    def on_trial_error(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """A member that has failed for good leaves the population."""
        if has_failed_for_good(trial):
            self._forget(trial.trial_id)

    def choose_trial_to_run(self, tune_controller: SchedulerContext) -> Trial | None:
        """New trials come first, then the one that has waited longest; with `synch`, among those that have not reached
        this turn, in O(n).
        """
        if not self._synch:
            return super().choose_trial_to_run(tune_controller)
        if self._have_all_arrived(tune_controller):
            self._take_turns(tune_controller)
        early = [trial for trial in tune_controller.get_trials() if trial.trial_id not in self._arrived]
        return next((t for status in (PENDING, PAUSED) for t in early if t.status == status), None)

    def debug_string(self) -> str:
        return f"{type(self).__name__}: {self._num_checkpoints} checkpoints, {self._num_perturbations} perturbs"

    # -- state ---------------------------------------------------------------------------------------------------

    def set_state(self, state: dict[str, Any]) -> None:
        fraction = self._population.fraction
        super().set_state(state)
        self._population.fraction = fraction

    # -- turns ---------------------------------------------------------------------------------------------------

    def _take_turn(self, context: SchedulerContext, member: Member) -> Decision:
        facts = self._rank_facts(member)
        if self._population.is_low(member):
            donor = self._draw_donor(context, member)
            if donor is not None:
                exploit, reason = self._exploit(context, member, donor, facts)
                return Decision(decision.PAUSE, reason, exploit=exploit, save=donor is member, facts=facts)
        if super().choose_trial_to_run(context) is None:
            return Decision(decision.CONTINUE, f"{self._standing(facts)}: goes on", save=True, facts=facts)
        return Decision(decision.PAUSE, f"{self._standing(facts)}: makes room for a waiting trial", facts=facts)

    def _reach_turn(self, member: Member, at: float, result: dict[str, Any]) -> Decision:
        """With `synch`: pause a member that has reached the turn, however far beyond it is."""
        if member.trial_id in self._arrived:  # it runs again, so an earlier driver has completed that turn
            self._begin_turn()
        if _turns(at, self._interval) < self._turn:
            return decision.GO_ON
        self._record(member, at, result)
        self._arrived.add(member.trial_id)
        facts = self._rank_facts(member)
        reason = f"{self._standing(facts)}: waits until all trials have reached turn {self._turn}"
        return Decision(decision.PAUSE, reason, facts=facts)

    def _have_all_arrived(self, context: SchedulerContext) -> bool:
        """Whether all members are paused at the turn and no more members will come."""
        members = self._population.members
        if not members or len(self._arrived) < len(members) or context.supply != SUPPLY_ENDED:
            return False
        found = [self._find(context, trial_id) for trial_id in members]
        return all(trial is not None and trial.status == PAUSED for trial in found)

    def _take_turns(self, context: SchedulerContext) -> None:
        """With `synch`: the turn of all members, all of which are saved. O(n)."""
        for member in self._population.lower():
            donor = self._draw_donor(context, member)
            if donor is not None:
                exploit, reason = self._exploit(context, member, donor, self._rank_facts(member))
                context.exploit_trial(self._trials[member.trial_id], *exploit, reason)
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._turn += 1
        self._arrived.clear()

    def _record(self, member: Member, at: float, result: dict[str, Any]) -> None:
        self._population.record(member, self._score_of(result))
        member.last_turn = at
        member.iteration = result.get(TRAINING_ITERATION, 0)
        self._num_checkpoints += 1

    # -- exploit and explore ---------------------------------------------------------------------------------------

    def _draw_donor(self, context: SchedulerContext, member: Member) -> Member | None:
        """One of the best, if it is strictly better: a copy of an equal one would change nothing."""
        better = self._population.best(self._population.count_better(member))
        able = [other for other in better if self._can_give(context, other)]
        if able:
            return self._rng.choice(able)
        if better:
            logger.info("trial %s continues unchanged: no better trial has saved a checkpoint", member.trial_id)
            return None
        return member if self._can_give(context, member) else None

    def _can_give(self, context: SchedulerContext, member: Member) -> bool:
        """Whether a member has a state to be copied: its own checkpoint, or the one that it was given."""
        trial = self._find(context, member.trial_id)
        return trial is not None and (member.is_clone or trial.has_checkpoint())

    def _exploit(
        self, context: SchedulerContext, member: Member, donor: Member, facts: dict[str, Any]
    ) -> tuple[tuple[Trial, dict[str, Any]], str]:
        """Make a member a copy of a donor (or of itself) with another configuration. Returns the donor, the
        configuration, and the reason. The facts get the donor and the changes.
        """
        giver = self._trials[donor.trial_id]
        config, changes = self._explore(member, donor, giver.current_config)
        self._log(context, member, donor, config)
        self._become(member, donor, changes)
        facts["donor"] = donor.trial_id
        facts["perturbed"] = {
            "/".join(path): [plain_or_short(old), plain_or_short(new)] for path, (old, new) in changes.items()
        }
        which = f"the checkpoint of {donor.trial_id} ({self._metric}={self._shown(donor.score)})"
        if donor is member:
            which = "its own checkpoint"
        return (giver, config), f"{self._standing(facts)}: continues from {which}, with {describe(changes)}"

    def _explore(
        self, member: Member, donor: Member, donor_config: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Changes]:
        """The member's next configuration, after the user's function, and what it changes."""
        config, changes = self._new_config(member, donor, donor_config)
        if self._custom_explore_fn is not None:
            with GlobalDraws(self._rng).lent():
                config = self._custom_explore_fn(config)
            if not isinstance(config, dict):
                raise ValueError(
                    "custom_explore_fn must return the new configuration, a dict, but returned "
                    f"{shown(config)}; end it with 'return config'"
                )
        return config, {path: (old, look_up(config, path)) for path, (old, _) in changes.items()}

    def _become(self, member: Member, donor: Member, changes: Changes) -> None:
        """The member's state is from now on the donor's, with other hyperparameters."""
        trial = self._trials[member.trial_id]
        values = {path: new for path, (_, new) in changes.items()}
        trial.set_experiment_tag(f"{member.tag}{PERTURBED}{format_vars(values)}]")
        shown_values = {"/".join(path): new for path, new in values.items()}
        trial.evaluated_params = {**trial.evaluated_params, **shown_values}
        self._population.become(member, donor)
        self._num_perturbations += 1

    def _log(self, context: SchedulerContext, member: Member, donor: Member, config: dict[str, Any]) -> None:
        """Write the exploit into the policy files."""
        trial = self._trials[member.trial_id]
        giver = self._trials[donor.trial_id]
        path = trial.local_experiment_path
        # A trial of no run has no path.
        if not self._log_config or not path or context.is_replaying:
            return
        newest = {}
        if giver.checkpoints:
            newest = giver.checkpoints[-1].progress.metrics
        donor_iteration = newest.get(TRAINING_ITERATION, donor.iteration)
        step = ExploitStep(member.tag, donor.tag, member.iteration, donor_iteration, giver.current_config, config)
        try:
            write_step(path, trial.trial_id, giver.trial_id, step)
        except OSError as error:
            warn_once(f"cannot write the log of population based training to {path}: {error}", "pbt policy files")

    def _new_config(
        self, member: Member, donor: Member, donor_config: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Changes]:
        return self._explorer.explore(donor_config, self._rng)

    # -- results and members ------------------------------------------------------------------------------------------

    def _rank_facts(self, member: Member) -> dict[str, Any]:
        rank = self._population.rank(member)
        return self._facts(member.score, member.time, rank=rank, of=len(self._population))

    def _standing(self, facts: Mapping[str, Any]) -> str:
        value = "no number"
        if facts["value"] is not None:
            value = number_text(facts["value"])
        where = f"{self._time_attr} {number_text(facts['time'])}"
        return f"rank {facts['rank']} of {facts['of']} at {where} ({facts['metric']}={value})"

    def _member(self, trial: Trial) -> Member:
        self._trials[trial.trial_id] = trial
        known = self._population.members.get(trial.trial_id)
        return known or self._population.add(trial.trial_id, trial.experiment_tag)

    def _forget(self, trial_id: str) -> None:
        self._population.remove(trial_id)
        self._trials.pop(trial_id, None)
        self._arrived.discard(trial_id)


def _turns(time: float, interval: float) -> int:
    return math.floor(time / interval + _ROUNDING)
