"""create_searcher: searchers by name."""

from __future__ import annotations

import logging

import pytest

from minitune.search import BasicVariantGenerator, create_searcher


@pytest.mark.parametrize("name", ["random", "variant_generator", "Random"])
def test_the_default_has_two_names(name: str) -> None:
    searcher = create_searcher(name, max_concurrent=3)
    assert isinstance(searcher, BasicVariantGenerator)
    assert searcher.max_concurrent == 3


def test_arguments_that_it_does_not_know_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="minitune"):
        create_searcher("random", metric="loss", mode="min")
    assert "BasicVariantGenerator does not take metric, mode" in caplog.text


@pytest.mark.parametrize("name", ["ax", "bohb", "hebo", "zoopt", "HEBO"])
def test_names_that_will_not_come_say_what_to_do(name: str) -> None:
    with pytest.raises(ValueError, match=r"not supported; there are .*random.*subclass of minitune\.search\.Searcher"):
        create_searcher(name)


@pytest.mark.parametrize("name", ["annealing", 3, None])
def test_unknown_names(name: object) -> None:
    with pytest.raises(ValueError, match=r"search_alg must be one of variant_generator, random.* but got"):
        create_searcher(name)  # type: ignore[arg-type]  # what is tested
