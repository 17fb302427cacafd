"""init, shutdown, put, get and the totals of resources."""

import logging
import pickle

import pytest
from kit import fit, listening, raiser, report_n, resume

import minitune as ray
from minitune import Trainable, grid_search, report, with_parameters
from minitune.error import ObjectLostError


@pytest.fixture(autouse=True)
def fresh_runtime():
    ray.shutdown()
    yield
    ray.shutdown()


def test_totals_are_those_of_init():
    context = ray.init(num_cpus=3, num_gpus=2, resources={"tokens": 5, "memory": 100})
    assert ray.cluster_resources() == {"CPU": 3.0, "GPU": 2.0, "tokens": 5.0, "memory": 100.0}
    assert ray.available_resources() == ray.cluster_resources()
    assert context.dashboard_url == ""


def test_a_second_init_is_refused_or_ignored():
    assert not ray.is_initialized()
    ray.init(num_cpus=2)
    assert ray.is_initialized()
    with pytest.raises(RuntimeError, match="ignore_reinit_error=True"):
        ray.init(num_cpus=4)
    ray.init(num_cpus=4, ignore_reinit_error=True)
    assert ray.cluster_resources()["CPU"] == 2
    ray.shutdown()
    assert not ray.is_initialized()
    with ray.init(num_cpus=4):
        assert ray.cluster_resources()["CPU"] == 4
    assert not ray.is_initialized()


def test_a_run_counts_as_the_start():
    assert not ray.is_initialized()
    fit(lambda config: {"x": 1})
    assert ray.is_initialized()


def test_arguments_of_a_cluster_are_named_once(caplog):
    with caplog.at_level(logging.WARNING, "minitune"):
        ray.init("auto", log_to_driver=False, include_dashboard=False, _temp_dir="x")
    (record,) = caplog.records
    assert "address='auto', _temp_dir, include_dashboard, log_to_driver" in record.getMessage()


def test_arguments_of_earlier_versions_have_no_effect_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "minitune"):
        ray.init(redis_address=None, num_workers=8, include_webui=False, num_cpus=3)
    assert ray.cluster_resources()["CPU"] == 3
    (record,) = caplog.records
    assert "no effect: include_webui, num_workers" in record.getMessage()
    with pytest.raises(ValueError, match="ray://head:10001"):
        ray.init(redis_address="ray://head:10001")


def test_a_call_that_is_refused_sets_nothing():
    with pytest.raises(ValueError, match="num_cpus"):
        ray.init(num_cpus=-1)
    assert not ray.is_initialized()


def test_runs_have_the_totals_of_init_and_show_free_resources():
    seen = []
    watch = listening(on_trial_result=lambda **info: seen.append(ray.available_resources()))

    ray.init(num_cpus=3, resources={"tokens": 5})
    fit(ray.with_resources(lambda config: {"x": 1}, {"cpu": 2, "tokens": 4}), callbacks=[watch])
    assert [(left["CPU"], left["tokens"]) for left in seen] == [(1.0, 1.0)]
    assert ray.available_resources()["CPU"] == 3


def test_a_run_that_was_left_by_an_exception_uses_no_resources():
    with pytest.raises(SystemExit) as caught:
        fit(report_n(2), executor="local", callbacks=[listening(on_trial_result=raiser(SystemExit(3)))])
    assert caught.tb is not None, "the error is kept, and with it all objects of the run"
    assert ray.available_resources() == ray.cluster_resources()


def test_local_mode_runs_trials_in_this_process():
    here = []
    ray.init(local_mode=True)
    fit(lambda config: here.append(1) or {"x": 1}, executor="local")
    assert here == [1]


def test_a_value_that_is_put_can_be_got():
    value = {"a": [1, 2]}
    ref = ray.put(value)
    value["a"].append(3)
    first = ray.get(ref)
    first["a"].append(4)
    assert ray.get([ref, ray.put(5)]) == [{"a": [1, 2]}, 5]
    assert ray.get(pickle.loads(pickle.dumps(ref))) == {"a": [1, 2]}
    assert len(pickle.dumps(ref)) < 300
    assert isinstance(ref, ray.ObjectRef)


def test_values_end_with_shutdown():
    ref = ray.put(1)
    assert ray.get(ref) == 1
    ray.shutdown()
    ray.put(2)  # in another file, which may have the path of the first
    with pytest.raises(ObjectLostError, match="object_"):
        ray.get(ref)


@pytest.mark.parametrize("executor", ["inline", "local"])
def test_a_reference_may_be_in_a_space_and_is_not_made_in_a_trial(executor):
    def objective(config):
        data = ray.get(config["data"])
        data.append(0)
        with pytest.raises(RuntimeError, match=r"put\(\) must be called before the run"):
            ray.put(data)
        report({"length": len(data), "started": ray.is_initialized()})

    refs = [ray.put([1]), ray.put([1, 2])]
    first, second = fit(objective, executor=executor, space={"data": grid_search(refs)})
    assert (first.metrics["length"], second.metrics["length"]) == (2, 3)
    assert first.metrics["started"]
    assert first.config["data"] == refs[0]
    assert first.metrics["experiment_tag"].startswith("0_data=object_")
    assert [ray.get(ref) for ref in refs] == [[1], [1, 2]]


def test_a_restored_run_gets_the_references_of_the_new_space(tmp_path):
    def objective(config):
        length = len(ray.get(config["data"])) + len(ray.get(config["nested"]["more"]))
        if not (tmp_path / "mended").exists():
            raise RuntimeError("broken")
        report({"length": length})

    def space():
        return {"data": grid_search([ray.put([1]), ray.put([1, 2])]), "nested": {"more": ray.put([0] * 10)}}

    assert fit(objective, space=space(), name="run").num_errors == 2
    (tmp_path / "mended").touch()
    ray.shutdown()
    written_otherwise = dict(reversed(space().items()))
    results = resume(objective, restart_errored=True, param_space=written_otherwise)
    assert [result.metrics["length"] for result in results] == [11, 12]


def test_a_reference_bound_to_a_function_arrives_as_its_value():
    def objective(config, data, scale):
        report({"sum": sum(data) * scale})

    (result,) = fit(with_parameters(objective, data=ray.put([1, 2]), scale=10))
    assert result.metrics["sum"] == 30


def test_a_reference_bound_to_a_class_arrives_as_its_value():
    class Sum(Trainable):
        def setup(self, config, data):
            self.data = data

        def step(self):
            return {"sum": sum(self.data), "done": True}

    (result,) = fit(with_parameters(Sum, data=ray.put([1, 2])))
    assert result.metrics["sum"] == 3


def test_there_are_no_gpus_outside_of_trials():
    assert ray.get_gpu_ids() == []
