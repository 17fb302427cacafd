"""Keys of metrics that are no texts: plain ones stay, others become texts, and one without a text fails its trial."""

import enum
import json
from pathlib import Path

import pytest
from kit import fit, listening, restore

from minitune import TuneError, grid_search, report


class Level(enum.IntEnum):
    LOW = 3


class Colour(enum.Enum):
    RED = "red"


class Mute:
    def __str__(self):
        raise RuntimeError("no text")

    __format__ = __repr__ = __str__


class OwnText(str):
    """A text all of whose own texts fail."""

    __slots__ = ()

    def __str__(self):
        raise RuntimeError("no text")

    __format__ = __repr__ = __str__


class Unloadable:
    """Its hash fails when it is unpickled."""

    number = 1

    def __init__(self):
        self.at_home = True

    def __hash__(self):
        return hash(self.at_home)

    def __str__(self):
        return "unloadable"


BAD = {
    "object": (Mute(), "str() of <Mute instance"),
    "huge": (10**6000, "str() of <int of 19932 bits> raised ValueError"),
    "in a tuple": ((1, Mute()), "str() of (1, <Mute instance"),
}
"""Keys that have no text, and what the error says."""


def spread(key, where):
    return {"top": {key: 1}, "nested": {"deep": {"er": {key: 1}}}}[where]


@pytest.mark.parametrize("where", ["top", "nested"])
@pytest.mark.parametrize("name", BAD)
def test_a_key_without_a_text_fails_its_trial_and_no_other(name, where):
    key, text = BAD[name]

    def reports(config):
        for n in range(2):
            report({"v": n, **(spread(key, where) if config["is_bad"] else {})})

    bad, good = fit(reports, {"is_bad": grid_search([True, False])})

    assert good.error is None
    assert good.metrics["v"] == 1
    assert "each key of the metrics must have a text, but" in str(bad.error)
    assert text in str(bad.error)


@pytest.mark.parametrize("where", ["top", "nested"])
def test_keys_become_texts(where):
    keys = [7, None, (1, ("x", None)), "t", Level.LOW, Colour.RED, OwnText("own"), 2**70, Unloadable(), frozenset([1])]
    texts = ["7", "None", "(1, ('x', None))", "t", "3", "Colour.RED", "own", str(2**70), "unloadable", "frozenset({1})"]
    values = {key: number for number, key in enumerate(keys)}
    metrics = values if where == "top" else {"d": {"e": values}}

    def reports(config):
        report(metrics)

    [result] = fit(reports)
    [restored] = restore(reports).get_results()
    [line] = Path(result.path, "result.json").read_text().splitlines()

    assert result.error is None
    for one in (result.metrics, restored.metrics, json.loads(line)):
        found = one if where == "top" else one["d"]["e"]
        assert [found[text] for text in texts] == list(range(len(keys)))


def test_two_keys_with_one_text_are_refused_so_that_no_metric_is_lost():
    [result] = fit(lambda config: {"d": {Unloadable(): 1, "unloadable": 2}})
    assert "each key of the metrics must have its own text, but two have 'unloadable'" in str(result.error)


def test_a_bad_key_that_a_callback_adds_names_the_callback():
    def on_trial_result(result, **more):
        result["d"] = {Mute(): 1}

    with pytest.raises(TuneError, match=r"Listening.* raised TypeError: each key of the metrics must have a text"):
        fit(lambda config: {"v": 1}, callbacks=[listening(on_trial_result=on_trial_result)])
