"""AxSearch: the suite of all adapters, constraints, clients and spaces in Ax's form. One test fits models."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
from adapter_suite import GRID, Adapter, AdapterSuite
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.service.ax_client import AxClient

import minitune as tune
from minitune.search import Searcher
from minitune.search.ax import AxSearch

pytest.register_assert_rewrite("minitune.testing.searcher_contract")

from minitune.testing import SearcherContract  # noqa: E402 - its asserts are rewritten first

RANDOM = {"method": "random_search"}


class TestAx(AdapterSuite):
    adapter = Adapter(
        AxSearch,
        "ax",
        options=RANDOM,
        refused={**GRID, "Ax has no normal distribution, but parameter 'x' has one": tune.randn(0, 1)},
        bad=[{"metric": ["a"]}, {"mode": "up"}, {"space": {"x": (0, 1)}}, {"space": [5]}, {"ax_client": 5}],
        trials=20,
        examples=3,
    )

    @pytest.mark.parametrize("mode", ["min", "max"])
    def test_ax_finds_the_optimum(self, mode: str) -> None:
        """With the default method and only a few trials: from the sixth on, each fits a model, which takes seconds."""
        search = AxSearch({"x": tune.uniform(0, 1)}, metric="loss", mode=mode, random_seed=1)
        assert min(abs(config["x"] - 0.3) for config in play(search, 9, 1 if mode == "min" else -1)[5:]) < 0.05


class TestContract(SearcherContract):
    def make_searcher(self) -> Searcher:
        return AxSearch(**RANDOM)


def play(search: AxSearch, trials: int, sign: int = 1) -> list[dict[str, Any]]:
    configs = []
    for number in range(trials):
        config: Any = search.suggest(str(number))
        configs.append(config)
        search.on_trial_complete(str(number), {"loss": sign * (config["x"] - 0.3) ** 2, "size": 10 * config["x"]})
    return configs


def random_search(space: Any, **options: Any) -> AxSearch:
    return AxSearch(space, metric="loss", mode="min", **{"random_seed": 1, **RANDOM, **options})


def configured_client() -> Client:
    client = Client(random_seed=1)
    client.configure_experiment([RangeParameterConfig("inner/x", (0, 1), "float")])
    client.configure_optimization("-loss", outcome_constraints=["size <= 4"])
    client.configure_generation_strategy(method="random_search")
    return client


def test_the_seed_decides_and_random_seed_takes_precedence() -> None:
    space = {"x": tune.uniform(0, 1), "kind": tune.choice(list("abc"))}
    assert (
        play(random_search(space), 6) == play(random_search(space), 6) != play(random_search(space, random_seed=2), 6)
    )
    searches = [AxSearch(space, "loss", "min", **RANDOM) for _ in range(3)]
    for search, seed in zip(searches, (5, 5, 6), strict=True):
        search.set_seed(seed)
    one, same, other = [play(search, 6) for search in searches]
    assert one == same != other


def test_names_with_meanings_in_formulas_are_plain_names() -> None:
    search = AxSearch({"beta": tune.uniform(0, 1), "if": {"x y": tune.uniform(0, 1)}}, "S/E", "max", **RANDOM)
    config: Any = search.suggest("0")
    search.on_trial_complete("0", {"S/E": 1.0})
    assert set(config) == {"beta", "if"}
    assert search._client.summarize()["objective"].tolist() == [1.0]


def test_a_space_in_the_form_of_ax_is_searched() -> None:
    space = [
        {"name": "rate", "type": "range", "bounds": [1e-4, 1.0], "log_scale": True},
        {"name": "inner/depth", "type": "range", "bounds": [2, 3]},
        {"name": "width", "type": "range", "bounds": [0, 2], "value_type": "float"},
        {"name": "kind", "type": "choice", "values": ["a", "b"]},
        {"name": "fixed", "type": "fixed", "value": None},
    ]
    configs: Any = [search.suggest(str(number)) for search in [random_search(space)] for number in range(20)]
    assert {config["inner"]["depth"] for config in configs} == {2, 3}
    assert {config["kind"] for config in configs} == {"a", "b"}
    assert {config["fixed"] for config in configs} == {None}
    assert sum(config["rate"] < 0.01 for config in configs) > 5
    assert any(config["width"] % 1 for config in configs)
    with pytest.raises(ValueError, match="'x' in space must be a dict with bounds, values or a value"):
        AxSearch([{"name": "x", "type": "range"}])


def test_a_finite_space_ends_without_asking_ax(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tune.choice([{"depth": tune.randint(0, 2)}, {"kind": "linear"}])
    search = random_search({"model": model}, points_to_evaluate=[{"model": {"kind": "linear"}}])
    search.suggest("first")
    search.add_evaluated_point({"model": {"depth": 0}}, 1.0)
    left: Any = search.suggest("second")
    while left == {"model": {"kind": "linear"}}:  # Ax knows no conditional parameters, so it can suggest this again
        left = search.suggest("another")
    assert left == {"model": {"depth": 1}}
    monkeypatch.setattr(Client, "get_next_trials", None)
    assert search.suggest("third") == search.FINISHED


def test_ax_waits_only_while_results_may_come() -> None:
    search = AxSearch({"x": tune.uniform(0, 1)}, metric="loss", mode="min", random_seed=1)
    assert [search.suggest(str(number)) is None for number in range(6)] == [False] * 5 + [True]
    for number in range(5):
        search.on_trial_complete(str(number), error=True)
    assert search.suggest("next") is not None
    assert search._client.summarize()["trial_status"].tolist()[:5] == ["FAILED"] * 5


def test_parameter_constraints_hold_for_plain_numbers(caplog: pytest.LogCaptureFixture) -> None:
    space: dict[str, Any] = {"x": tune.uniform(0, 1), "inner": {"y": tune.uniform(0, 1)}}
    constrained: dict[str, Any] = {"parameter_constraints": ["x + inner/y <= 0.8"]}
    assert all(each["x"] + each["inner"]["y"] <= 0.8 for each in play(random_search(space, **constrained), 12))
    point = {"x": 0.9, "inner": {"y": 0.9}}
    search = random_search(space, points_to_evaluate=[point], **constrained)
    assert play(search, 2)[0] == point
    assert "Ax does not learn from the point" in caplog.text
    assert len(search._client.summarize()) == 1
    for domain in (tune.quniform(0, 1, 0.1), tune.qrandint(2, 8, 2), tune.choice([1, 2])):
        with pytest.raises(ValueError, match="x has categories or a step, so it cannot be part of parameter_constra"):
            random_search({**space, "x": domain}, **constrained).suggest("0")
    with pytest.raises(ValueError, match=r"Ax refuses .*`z` does not exist in search space"):
        random_search(space, parameter_constraints=["z <= 1"]).suggest("0")


def test_a_missing_metric_of_a_constraint_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    search = random_search({"x": tune.uniform(0, 1)}, outcome_constraints=["size <= 4"])
    play(search, 2)
    assert "AxSearch" not in caplog.text
    search.suggest("2")
    search.on_trial_complete("2", {"loss": 1.0})
    assert "AxSearch counts trials as failed that do not report size" in caplog.text
    assert search._client.summarize()["trial_status"].tolist() == ["COMPLETED"] * 2 + ["FAILED"]


def test_a_client_of_the_user_is_used() -> None:
    client = configured_client()
    search = AxSearch(ax_client=client, metric="loss")
    assert not search.set_search_properties("loss", "min", {})
    for number, metrics in enumerate([{"loss": 1.0, "size": 2.0}, {"loss": 1.0}]):
        config: Any = search.suggest(str(number))
        assert 0 <= config["inner"]["x"] <= 1
        search.on_trial_complete(str(number), metrics)
    assert client.summarize()["trial_status"].tolist() == ["COMPLETED", "FAILED"]
    with pytest.raises(ValueError, match="mode must be not given, as ax_client has its own"):
        AxSearch(ax_client=client, mode="max")
    with pytest.raises(ValueError, match="ax_client must be one whose configure_experiment"):
        AxSearch(ax_client=Client())
    with pytest.raises(ValueError, match=r"but got .*AxClient.*; configure a Client with configure_experiment\(\)"):
        AxSearch(ax_client=AxClient(verbose_logging=False))


def test_arguments_that_ax_does_not_know_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"no argument 'methd' \(did you mean 'method'\?\)"):
        AxSearch(methd="fast")


def test_ax_is_silent_and_logging_stays_as_the_user_set_it(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(**options: Any) -> str:
        play(random_search({"x": tune.uniform(0, 1)}, **options), 1)
        return capsys.readouterr().err

    ax = logging.getLogger("ax")
    (own,) = [handler for handler in ax.handlers if type(handler) is logging.StreamHandler]
    records: list[str] = []
    mine = logging.Handler(logging.INFO)
    mine.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]  # a test's handler
    stream = own.setStream(sys.stderr)  # pytest has another one for each test
    ax.addHandler(mine)
    try:
        assert shown() == ""
        assert "Generated new trial 0" in "".join(records)
        assert "Generated new trial 0" in shown(verbose_logging=True)
        own.setLevel(logging.DEBUG)
        assert "Generated new trial 0" in shown()
        assert own.level == logging.DEBUG
    finally:
        ax.removeHandler(mine)
        own.setLevel(logging.INFO)
        own.setStream(stream)
