"""SearchAlgorithm: what the controller asks for trials."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from minitune.experiment.trial import Trial
from minitune.experiment.trial_maker import TrialMaker
from minitune.resources import Resources
from minitune.search.filters import Rules
from minitune.search.searcher import Metric, in_one_step, newest_file, newest_state, read_state, write_state


class ExperimentSpec(Protocol):
    """What a search algorithm needs of an experiment."""

    param_space: dict[str, Any]
    num_samples: int
    """Rounds; -1 for endlessly many."""
    maker: TrialMaker


@dataclass
class PlainExperiment:
    """An experiment as a dict describes it, for a search algorithm that is used without a run.

    Attributes:
        param_space: The search space.
        num_samples: Rounds; -1 for endlessly many.
        maker: Makes its trials.
    """

    param_space: dict[str, Any]
    num_samples: int
    maker: TrialMaker

    @classmethod
    def of(cls, name: str, spec: Mapping[str, Any]) -> PlainExperiment:
        """The experiment of a name and the arguments of `Experiment`; those that concern a run have no effect here.

        Raises:
            ValueError: If there is no `run`, or its resources are none.
        """
        if "run" not in spec:
            raise ValueError(f"{name!r} must hold a trainable under the key 'run', but it has {sorted(spec)}")
        run, stop = spec["run"], spec.get("stop")
        maker = TrialMaker(
            run if isinstance(run, str) else getattr(run, "__name__", name),
            request=Resources.of(spec.get("resources_per_trial")),
            stopping_criterion=stop if isinstance(stop, Mapping) else None,
            max_failures=spec.get("max_failures", 0),
            name_creator=spec.get("trial_name_creator"),
        )
        return cls(dict(spec.get("config") or {}), spec.get("num_samples", 1), maker)


class SearchAlgorithm:
    """Base of what yields trials; most users want a `Searcher` instead.

    A run calls `set_search_properties`, `set_seed` and `add_configurations` in this order, then `next_trial` until
    `is_finished()`.
    """

    CKPT_FILE_TMPL = "search-algorithm-state-{}.pkl"

    _finished = False

    # -- setting up ----------------------------------------------------------------------------------------------

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        """Take over what the run knows; see `Searcher.set_search_properties`.

        Raises:
            ValueError: If `config` holds domains and nobody searches it.
        """
        return True

    def set_seed(self, seed: int) -> None:
        """Seed all random choices, unless the user has done so. Called before the first trial."""

    def set_rules(self, rules: Rules) -> None:
        """Propose only what the user's rules admit. Called before the search properties, and only if there are any.

        Raises:
            ValueError: If this search algorithm cannot.
        """
        raise ValueError(
            f"on_duplicate and constraints cannot be kept by {type(self).__name__}, which makes its trials itself; "
            "override set_rules() there, or write a Searcher, which proposes configurations only"
        )

    def add_configurations(
        self, experiments: ExperimentSpec | Iterable[ExperimentSpec] | Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Take one experiment, or several, or a dict of their arguments by name, whose trials are to be made.

        Raises:
            ValueError: If an experiment's space or number of samples makes no sense.
        """
        raise NotImplementedError(f"{type(self).__name__} must override add_configurations()")

    @property
    def metric(self) -> Metric:
        """Name of what is optimised, or None."""
        return None

    @property
    def max_running(self) -> int | None:
        """How many of its trials may run at a time, be they new or taken up again; None for no limit."""
        return None

    @property
    def total_samples(self) -> int:
        """How many trials there will be; `sys.maxsize` for endlessly many."""
        return 0

    @property
    def end_reason(self) -> str:
        """Why the search has ended before all samples; empty if it has not."""
        return ""

    # -- the loop --------------------------------------------------------------------------------------------------

    def next_trial(self) -> Trial | None:
        """Make the next trial.

        Returns:
            The trial; None if there is none now, or none at all: `is_finished` tells.
        """
        raise NotImplementedError(f"{type(self).__name__} must override next_trial()")

    def is_finished(self) -> bool:
        """Whether all trials have been made."""
        return self._finished

    def set_finished(self) -> None:
        """Make no more trials."""
        self._finished = True

    def add_samples(self, samples: int) -> None:
        """Go on with more rounds than the experiments ask for, also if all trials had been made.

        Raises:
            NotImplementedError: If this search algorithm cannot.
        """
        raise NotImplementedError(f"{type(self).__name__} must override add_samples() for a run to be extended")

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Emitted for every result that does not end the trial; `result` is flattened."""

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Emitted when the trial has ended; see `Searcher.on_trial_complete`."""

    def on_trial_error(self, trial_id: str) -> None:
        """Emitted for every failure of the trial, also those that are retried."""

    def on_pause(self, trial_id: str) -> None:
        """Emitted when the trial is paused."""

    def on_unpause(self, trial_id: str) -> None:
        """Emitted when a paused trial goes on."""

    # -- state ---------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Everything to be saved, without the experiments: a new object gets those through `add_configurations`."""
        return {"finished": self._finished}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned, after `add_configurations` with the same experiments."""
        self._finished = state["finished"]

    def has_checkpoint(self, dirpath: str) -> bool:
        """Whether a state lies in the directory."""
        return newest_file(dirpath, self.CKPT_FILE_TMPL) is not None

    def save_to_dir(self, dirpath: str, session_str: str = "default") -> None:
        """Write the state to a directory, in one step that a crash cannot halve. Blocks.

        Args:
            dirpath: The directory.
            session_str: Part of the file's name.
        """
        with in_one_step(os.path.join(dirpath, self.CKPT_FILE_TMPL.format(session_str))) as temporary:
            self._write(temporary, self.get_state())

    def restore_from_dir(self, dirpath: str) -> None:
        """Read the newest state from a directory. Blocks.

        Raises:
            RuntimeError: If there is none.
        """
        self.set_state(self._read(newest_state(dirpath, self.CKPT_FILE_TMPL, type(self))))

    def _write(self, path: str, state: dict[str, Any]) -> None:
        write_state(path, state)

    def _read(self, path: str) -> Any:
        return read_state(path)


def experiment_list(experiments: Any) -> list[ExperimentSpec]:
    """One experiment or several, or a dict of arguments by name, as a list."""
    if isinstance(experiments, Mapping):
        return [PlainExperiment.of(name, spec) for name, spec in experiments.items()]
    return list(experiments) if isinstance(experiments, Iterable) else [experiments]
