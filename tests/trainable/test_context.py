"""get_context() and its old forms: what a trial learns about itself, and what code outside of trials hears."""

import os

import pytest
from kit import fit, raiser

import minitune as tune
from minitune import context as old
from minitune import get_context
from minitune.trainable.context import get_gpu_ids

KNOWN = (
    "get_experiment_name",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "get_trial_resources",
    "get_local_rank",
    "get_world_rank",
    "get_world_size",
)
OF_A_TRIAL = (*KNOWN[:5], "get_storage", "get_bundles", "get_trial_seed", "get_attempt")


def test_a_trial_knows_itself_and_its_run(caplog):
    found = []

    def train(config):
        context = get_context()
        found.append({name: getattr(context, name)() for name in (*KNOWN, *OF_A_TRIAL)})
        found.append({name: getattr(old, name)() for name in KNOWN})
        if context.get_attempt() == 1:
            raiser(ValueError("once"))(config)
        tune.report({"loss": 1})

    trainable = tune.with_resources(train, tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 2}]))
    (result,) = fit(trainable, name="mine", seed=7, max_failures=1)
    first, by_old_names, second, _ = found
    trial_id = result.metrics["trial_id"]
    assert {name: first[name] for name in KNOWN} == by_old_names
    assert (first["get_experiment_name"], first["get_trial_name"]) == ("mine", f"train_{trial_id}")
    assert (first["get_trial_id"], first["get_trial_dir"]) == (trial_id, result.path)
    assert first["get_trial_resources"].bundles == [{"CPU": 1}, {"CPU": 2}]
    assert [bundle.cpus for bundle in first["get_bundles"]] == [1, 2]
    storage = first["get_storage"]
    assert (storage.experiment_fs_path, storage.trial_fs_path) == (os.path.dirname(result.path), result.path)
    assert [first["get_attempt"], second["get_attempt"]] == [1, 2]
    assert first["get_trial_seed"] == second["get_trial_seed"] is not None
    for name in KNOWN:
        assert caplog.messages.count(f"{name}() is old: use get_context().{name}()") == 1


def test_a_trial_is_a_group_of_one():
    context = get_context()
    assert (context.get_world_size(), context.get_local_world_size()) == (1, 1)
    assert (context.get_world_rank(), context.get_local_rank(), context.get_node_rank()) == (0, 0, 0)


OUTSIDE = {
    **{name: lambda name=name: getattr(get_context(), name)() for name in OF_A_TRIAL},
    "on_stop": lambda: get_context().on_stop(raiser(ValueError("it is called"))),
    "get_checkpoint": tune.get_checkpoint,
    "report": lambda: tune.report({"x": 1}),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_of_trials_there_is_nothing_to_know_to_stop_or_to_report(name, caplog):
    for _ in range(2):
        assert OUTSIDE[name]() is None
    (message,) = caplog.messages
    assert f"{name}()" in message
    assert "outside of a trial" in message


def test_gpus_are_numbers_where_their_ids_are(monkeypatch):
    assert get_gpu_ids() == []
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "2")
    trainable = tune.with_resources(lambda config: {"ids": get_gpu_ids()}, {"gpu": 2})
    assert fit(trainable)[0].metrics["ids"] == [0, 1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-11,5")
    assert fit(trainable)[0].metrics["ids"] == ["GPU-11", 5]
