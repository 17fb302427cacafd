"""A run that goes on with other settings, or other code, than it began with."""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit import RUN, Script, counting, cut, fit, journal_of, restore, resume, run_path

import minitune as tune
from minitune import TuneError, cli, grid_search, run, uniform
from minitune.experiment.goal import Goal
from minitune.experiment.run_description import RunDescription, compare_descriptions
from minitune.record.reading import read_run
from minitune.schedulers import MedianStoppingRule
from minitune.search import SearchAlgorithm, Searcher
from minitune.trainable.code_hash import code_hash
from minitune.trainable.command_line import read_command
from minitune.trainable.program import Program
from minitune.visualization import RunHistory

SCRIPTS = Path(__file__).with_name("scripts")

pytestmark = pytest.mark.usefixtures("inline")

SPACE = {"i": uniform(1, 2)}
OBJECTIVE: dict[str, Any] = {"metric": "score", "mode": "min"}


def by_run(**settings: Any) -> list[dict[str, Any]]:
    trials = run(counting(2), config=SPACE, name=RUN, verbose=0, resume="AUTO", **settings).trials
    return [trial.config for trial in trials]


def by_restore(**settings: Any) -> list[dict[str, Any]]:
    return [result.config for result in resume(counting(2), callbacks=(), **settings)]


def by_script(**settings: Any) -> list[dict[str, Any]]:
    """As under `minitune resume SCRIPT`."""
    os.environ["MINITUNE_RESUME"] = str(run_path())
    try:
        return [result.config for result in fit(counting(2), SPACE, **settings)]
    finally:
        del os.environ["MINITUNE_RESUME"]


WAYS = pytest.mark.parametrize("go_on", [by_run, by_restore, by_script])
Way = Callable[..., list[dict[str, Any]]]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if "continues, but" in record.message]


# -- the objective -----------------------------------------------------------------------------------------------------


@WAYS
def test_another_mode_is_refused_and_changes_nothing(go_on: Way) -> None:
    cut(counting(2), SPACE, results=3, num_samples=3, max_concurrent_trials=1, **OBJECTIVE)
    before = journal_of()
    with pytest.raises(TuneError, match=r"the objective is score \(max\) and was score \(min\).*another name"):
        go_on(metric="score", mode="max", num_samples=3)
    assert journal_of()[: len(before)] == before
    assert all(record["type"] in ("open", "close") for record in journal_of()[len(before) :])
    assert read_run(run_path()).setup.goal.mode == "min"
    assert len(go_on(**OBJECTIVE, num_samples=3)) == 3


@WAYS
def test_another_metric_of_the_earlier_results_counts_from_now_on(go_on: Way, caplog: pytest.LogCaptureFixture) -> None:
    cut(counting(2), SPACE, results=3, num_samples=3, max_concurrent_trials=1, **OBJECTIVE)
    go_on(metric="n", mode="max", num_samples=3)
    assert told(caplog) == [f"the run in {run_path()} continues, but the objective is n (max) and was score (min)"]
    assert str(read_run(run_path()).setup.goal) == "n (max)"
    assert list(RunHistory(str(run_path())).trials[0].values) == [1, 2]
    # The next one who goes on, without a word of its own, has the same objective.
    grid = resume(counting(2))
    assert grid.get_best_result().metrics["n"] == 2
    assert len(told(caplog)) == 1


@WAYS
def test_a_metric_that_no_earlier_result_has_is_refused(go_on: Way) -> None:
    cut(counting(2), SPACE, results=3, num_samples=3, max_concurrent_trials=1, **OBJECTIVE)
    with pytest.raises(
        TuneError, match=r"the objective is loss \(min\) and was score \(min\), and none of its results"
    ):
        go_on(metric="loss", mode="min", num_samples=3)


def test_of_several_metrics_an_earlier_result_must_have_all() -> None:
    cut(counting(2), SPACE, results=3, num_samples=3, max_concurrent_trials=1, **OBJECTIVE)
    with pytest.raises(TuneError, match="none of its results has n and loss"):
        resume(counting(2), callbacks=(), metric=["n", "loss"], mode=["max", "min"], num_samples=3)


def test_a_misspelt_metric_is_corrected_and_the_correction_is_kept() -> None:
    with pytest.raises(TuneError, match="Did you mean 'score'"):
        fit(counting(2), SPACE, metric="scroe", mode="max", num_samples=3, max_concurrent_trials=1)
    grid = resume(counting(2), resume_errored=True, metric="score", mode="max", num_samples=3)
    assert grid.get_best_result().metrics["n"] == 2
    assert cli.main(["best", str(run_path())]) == 0
    assert restore(counting(2)).fit().get_best_result().metrics["n"] == 2


def test_without_an_objective_the_earlier_one_stays() -> None:
    fit(counting(2), SPACE, num_samples=2, **OBJECTIVE)
    resume(counting(2), num_samples=3)
    assert str(read_run(run_path()).setup.goal) == "score (min)"
    assert resume(counting(2)).get_best_result().metrics["n"] == 2


def test_a_mode_without_a_metric_is_that_of_the_present_driver() -> None:
    assert RunDescription(mode="max").after(RunDescription(mode="min")).mode == "max"
    assert RunDescription(mode="max").after(RunDescription("loss", "min")).goal == Goal("loss", "min")


# -- samples -----------------------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("search_alg", [None, "tpe", "auto"])
@pytest.mark.parametrize("is_cut", [True, False])
def test_more_samples_are_drawn_whether_the_run_had_ended_or_not(
    go_on: Way, search_alg: str | None, is_cut: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, Any] = {**OBJECTIVE, "search_alg": search_alg, "seed": 1, "max_concurrent_trials": 1}
    whole = fit(counting(2), SPACE, num_samples=5, name="whole", **settings)
    if is_cut:
        cut(counting(2), SPACE, results=3, num_samples=3, **settings)
    else:
        fit(counting(2), SPACE, num_samples=3, **settings)
    of_way = {name: value for name, value in settings.items() if name != "seed" or go_on is not by_run}
    assert go_on(num_samples=5, **of_way) == [result.config for result in whole]
    assert told(caplog) == [f"the run in {run_path()} continues, but num_samples is 5 and was 3"]
    story = read_run(run_path())
    assert (story.total_samples, story.not_drawn) == (5, 0)
    assert len(resume(counting(2))) == 5, "and that stays so"
    assert len(told(caplog)) == 1


def test_a_grid_gets_whole_rounds() -> None:
    space = {"i": grid_search([1, 2, 3])}
    fit(counting(1), space, num_samples=1)
    assert len(resume(counting(1), num_samples=2)) == 6
    assert len(resume(counting(1), add_samples=1)) == 9
    story = read_run(run_path())
    assert (story.total_samples, story.not_drawn) == (9, 0)


def test_fewer_samples_draw_no_more(caplog: pytest.LogCaptureFixture) -> None:
    cut(counting(2), SPACE, results=3, num_samples=9, max_concurrent_trials=1)
    assert len(resume(counting(2), num_samples=2, callbacks=())) == 2
    assert told(caplog) == [f"the run in {run_path()} continues, but num_samples is 2 and was 9"]
    assert read_run(run_path()).not_drawn == 0


def test_a_run_that_its_stopper_had_ended_gets_more_samples() -> None:
    class EndAfter(tune.Stopper):
        seen = 0

        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            self.seen += 1
            return False

        def stop_all(self) -> bool:
            return self.seen >= 2

    fit(counting(1), SPACE, stop=EndAfter(), num_samples=4, max_concurrent_trials=1)
    assert len(resume(counting(1), num_samples=6, stop=None, callbacks=())) == 6


def test_a_search_algorithm_that_cannot_add_samples_may_have_more_of_its_own() -> None:
    class Two(SearchAlgorithm):
        """Makes as many trials as the experiment says."""

        def __init__(self) -> None:
            self.made = 0

        def add_configurations(self, experiments: Any) -> None:
            (self.experiment,) = experiments

        def next_trial(self) -> Any:
            if self.is_finished():
                return None
            self.made += 1
            return self.experiment.maker.make({"i": self.made}, {"i": self.made}, str(self.made))

        def is_finished(self) -> bool:
            return self.made >= int(self.experiment.num_samples)

    fit(counting(1), search_alg=Two(), num_samples=2)
    assert len(resume(counting(1), search_alg=Two(), num_samples=3)) == 3
    with pytest.raises(NotImplementedError, match="add_samples"):
        resume(counting(1), search_alg=Two(), num_samples=3, add_samples=1)


def test_added_samples_count_once_although_a_state_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    class Forgetful(Fixed):
        def get_state(self) -> dict[str, Any]:
            return {"known": 1}

        def set_state(self, state: dict[str, Any]) -> None:
            raise ValueError("too old")

    fit(counting(1), SPACE, search_alg=Forgetful(), num_samples=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Forgetful, "set_state", lambda self, state: None)
        assert len(resume(counting(1), add_samples=2)) == 4
    assert len(resume(counting(1), callbacks=())) == 4
    assert "cannot load its saved state" in caplog.text


# -- plug-ins ----------------------------------------------------------------------------------------------------------


class Fixed(Searcher):
    def set_search_properties(self, metric: Any, mode: Any, config: Any, **spec: Any) -> bool:
        return True

    def suggest(self, trial_id: str) -> dict[str, Any]:
        return {"i": 1.5}


@WAYS
def test_another_searcher_and_scheduler_are_told(go_on: Way, caplog: pytest.LogCaptureFixture) -> None:
    cut(counting(2), SPACE, results=3, num_samples=3, max_concurrent_trials=1, **OBJECTIVE)
    rule = MedianStoppingRule("training_iteration")
    configs = go_on(num_samples=3, search_alg=Fixed(), scheduler=rule, max_concurrent_trials=1, **OBJECTIVE)
    assert configs[-1] == {"i": 1.5}
    assert told(caplog) == [
        f"the run in {run_path()} continues, but the searcher is Fixed and was BasicVariantGenerator; "
        "the scheduler is MedianStoppingRule and was FIFOScheduler"
    ]


# -- the comparison by itself ------------------------------------------------------------------------------------------

ONE = RunDescription("loss", "min", "TPESearch", "FIFOScheduler", [3], ["train"], ["3.11:a"])


@pytest.mark.parametrize(
    ("before", "now", "texts"),
    [
        (ONE, ONE, []),
        (RunDescription(), ONE, []),
        (ONE, RunDescription("loss", "min"), []),
        (
            RunDescription("loss", "min"),
            RunDescription("loss", None),
            ["the objective is loss (None) and was loss (min)"],
        ),
        (
            RunDescription(["a", "b"], ["min", "max"]),
            RunDescription(["a", "b"], ["min", "min"]),
            ["the objective is a (min), b (min) and was a (min), b (max) REFUSED"],
        ),
        (ONE, RunDescription(), ["the objective is not set and was loss (min)"]),
        (
            RunDescription(num_samples=[3, 1]),
            RunDescription(num_samples=[-1, 1]),
            ["num_samples is -1, 1 and was 3, 1"],
        ),
        (
            RunDescription(trainables=["a", "b"]),
            RunDescription(trainables=["a", "c"]),
            ["the trainable is a, c and was a, b"],
        ),
        (
            RunDescription(code=["3.11:a", "", "3.11:c"]),
            RunDescription(trainables=["a", "b", "c"], code=["3.11:b", "3.11:b", "3.12:d"]),
            ["the code of a has changed"],
        ),
    ],
)
def test_each_setting_that_differs_is_told_or_refused(
    before: RunDescription, now: RunDescription, texts: Sequence[str]
) -> None:
    def has_only_others(metrics: Sequence[str]) -> bool:
        raise AssertionError("no metric has changed, so no result is read")

    found = compare_descriptions(before, now, has_only_others)
    assert [one.text + (" REFUSED" if one.refusal else "") for one in found] == texts


@pytest.mark.parametrize(
    ("then", "now", "more"),
    [([3], [5], True), ([5], [3], False), ([3], [-1], True), ([-1], [9], False), ([1, 1], [1, 2], True)],
)
def test_a_run_wants_more_samples_if_one_experiment_has_more_than_before(
    then: list[int], now: list[int], more: bool
) -> None:
    assert RunDescription(num_samples=now).wants_more_than(RunDescription(num_samples=then)) is more
    assert not RunDescription(num_samples=now).wants_more_than(RunDescription())


def test_a_record_of_a_later_version_may_have_more_fields() -> None:
    assert RunDescription.of_fields({**ONE.as_fields(), "new": 1}) == ONE


# -- code --------------------------------------------------------------------------------------------------------------

CODE = (SCRIPTS / "is_hashed.py").read_text("utf-8")


def hash_of(source: str, name: str = "train") -> str:
    module: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "train.py", "exec"), module)
    return code_hash(module[name])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x\n", "return x + 1\n"),
        ("width = 3", "width = 4"),
        ("return helper(x)", "return helper(x) * 2"),
        ("scale=1", "scale=2"),
        ("EPOCHS = 2", "EPOCHS = 3"),
        ("range(EPOCHS)", "range(5)"),
        ('"c", "d"', '"c", "e"'),
    ],
)
def test_each_part_of_the_users_code_counts(old: str, new: str) -> None:
    assert old in CODE
    assert hash_of(CODE) != hash_of(CODE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("net = Net()", "net = Net()  # a note"),
        ("EPOCHS = 2\n", "EPOCHS = 2\n\n\n"),
        ("    def helper", "    count = 0\n\n    def unused():\n        pass\n\n    def helper"),
    ],
)
def test_comments_places_and_other_code_do_not_count(old: str, new: str) -> None:
    assert hash_of(CODE) == hash_of(CODE.replace(old, new)) != ""


def test_functions_of_the_users_other_modules_count(tmp_path: Path) -> None:
    def hash_with(helper: str) -> str:
        module = types.ModuleType("helpers")
        module.__file__ = str(tmp_path / "helpers.py")
        exec(compile(f"def scaled(x):\n    return {helper}", module.__file__, "exec"), vars(module))
        names: dict[str, Any] = {"__name__": "__main__", "helpers": module}
        exec(compile("def train(config):\n    return helpers.scaled(config['x'])", "train.py", "exec"), names)
        return code_hash(names["train"])

    assert hash_with("2 * x") == hash_with("2 * x") != hash_with("3 * x")


def test_wrappers_have_the_code_of_what_they_wrap() -> None:
    import functools

    import cloudpickle

    def train(config: dict[str, Any], more: int = 0) -> None:
        tune.report({"n": more})

    own = code_hash(train)
    assert own == code_hash(tune.with_parameters(train, more=1)) == code_hash(functools.partial(train, more=1))
    assert own == code_hash(tune.with_resources(train, {"cpu": 1}))
    assert own == code_hash(cloudpickle.loads(cloudpickle.dumps(train)))
    assert own != code_hash(tune.Trainable)


def test_a_trainable_without_code_of_the_user_has_no_hash() -> None:
    class Odd:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("no attributes")

    assert code_hash(print) == code_hash(tune.Trainable) == code_hash(Odd()) == ""


def test_the_code_of_a_program_is_its_script(tmp_path: Path) -> None:
    command, _ = read_command(["python", "train.py", "--lr", "{lr:uniform(0, 1)}"])
    program = Program(command, str(tmp_path))
    (tmp_path / "train.py").write_text("print(1)")
    before = code_hash(program)
    assert before == code_hash(Program(command, str(tmp_path)))
    (tmp_path / "train.py").write_text("print(2)")
    assert code_hash(program) != before


def test_the_hash_does_not_depend_on_the_process(script: Script) -> None:
    source = CODE + "\nfrom minitune.trainable.code_hash import code_hash\nprint(code_hash(train))\n"
    assert len({script.run(source, PYTHONHASHSEED=seed) for seed in ("1", "2")}) == 1


EDITED = (SCRIPTS / "is_edited.py").read_text("utf-8")


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("max_concurrent_trials=1", "max_concurrent_trials=2", None),
        ('"loss": config["x"]', '"loss": config["x"] + 1', "continues, but the code of train has changed\n"),
        ("train", "train2", ": to resume it, give the function that name again\n"),
        ('mode="min"', 'mode="max"', "cannot continue: the objective is loss (max) and was loss (min)"),
    ],
)
def test_an_edit_between_kill_and_resume_is_told(script: Script, old: str, new: str, text: str | None) -> None:
    killed = script.start(EDITED, "--cut")
    script.finish(killed)
    assert killed.returncode == -9
    path = script.write(EDITED.replace(old, new))
    resumed = script.run_minitune("resume", str(path))
    assert resumed.returncode == (1 if 'mode="max"' in new else 0), resumed.stderr
    if text is None:
        (run,) = script.storage.iterdir()
        assert resumed.stderr == f"resuming the run in {run}\n"
    else:
        assert text in resumed.stderr
    assert len(list(script.storage.iterdir())) == (2 if new == "train2" else 1)


def test_of_two_runs_that_with_the_same_objective_goes_on(script: Script) -> None:
    for mode in ("min", "max"):
        script.finish(script.start(EDITED.replace('mode="min"', f'mode="{mode}"'), "--cut"))
    resumed = script.run_minitune("resume", str(script.write(EDITED)))
    assert resumed.returncode == 0, resumed.stderr
    states = {str(read_run(path).setup.goal): read_run(path).is_unfinished for path in script.storage.iterdir()}
    assert states == {"loss (min)": False, "loss (max)": True}
