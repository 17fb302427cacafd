"""create_searcher: searchers by name."""

import logging
import sys

import pytest

from minitune.search import BasicVariantGenerator, create_searcher


@pytest.mark.parametrize("name", ["random", "variant_generator", "Random"])
def test_the_default_has_two_names(name):
    searcher = create_searcher(name, max_concurrent=3)
    assert isinstance(searcher, BasicVariantGenerator)
    assert searcher.max_concurrent == 3


def test_arguments_that_it_does_not_know_are_left_out_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING, logger="minitune"):
        create_searcher("random", metric="loss", mode="min")
    assert "BasicVariantGenerator does not take metric, mode" in caplog.text


@pytest.mark.parametrize("name", ["ax", "hyperopt", "nevergrad", "optuna"])
def test_a_library_that_is_not_there_is_named_with_its_requirement(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"pip install '{name}[\w-]*>=[\d.]+', or use TPESearch"):
        create_searcher(name)
