"""ConcurrencyLimiter and Repeater."""

import math

import pytest
from kit import Listed, Recording, all_trials, suggesting

from minitune.search import ConcurrencyLimiter, Repeater, Searcher
from minitune.search.searcher import SearcherWrapper
from minitune.search.wrappers import TRIAL_INDEX

# -- ConcurrencyLimiter -------------------------------------------------------------------------------------------


def ask(searcher, *trial_ids):
    """Ask once per id; returns those that got a suggestion."""
    return [trial_id for trial_id in trial_ids if isinstance(searcher.suggest(trial_id), dict)]


CALLS = {
    "set_search_properties": ("loss", "min", {"x": 1}),
    "set_seed": (7,),
    "suggest": ("t",),
    "adopt": ("t", {"x": 1}),
    "on_trial_result": ("t", {"loss": 1}),
    "on_trial_complete": ("t", {"loss": 1}, True),
    "on_trial_error": ("t",),
    "on_pause": ("t",),
    "on_unpause": ("t",),
    "on_search_end": (),
    "add_evaluated_point": ({"x": 1}, 2.0, True, True, [1.0]),
    "learn_from": ([],),
    "save": ("file",),
    "restore": ("file",),
    "restore_from_dir": ("directory",),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrapper_passes_everything_on_and_returns_the_answer(name):
    heard = []
    inner = Searcher("loss", "max")

    def hear(*given, **named):
        heard.append((*given, *named.values()))
        return "the answer"

    setattr(inner, name, hear)
    wrapper = SearcherWrapper(inner)
    answer = getattr(wrapper, name)(*CALLS[name])
    assert heard == [CALLS[name]]
    if name in ("suggest", "set_search_properties"):
        assert answer
    assert (wrapper.metric, wrapper.mode) == ("loss", "max")


def test_a_plain_searcher_takes_metric_and_mode_once_and_no_space():
    searcher = Searcher()
    assert not searcher.set_search_properties("loss", "min", {})
    assert not searcher.set_search_properties("other", "max", {})
    assert (searcher.metric, searcher.mode) == ("loss", "min")
    assert (searcher.own_space, list(searcher.first_points()), searcher.max_concurrent) == (None, [], 0)


def test_a_refused_suggestion_is_a_failed_trial_unless_the_searcher_says_otherwise():
    searcher = Recording()
    searcher.on_suggestion_refused("t")
    assert searcher.heard == [("complete", "t", None, True)]


def test_limiter_bounds_open_suggestions():
    inner = Recording()
    limiter = ConcurrencyLimiter(inner, 2)
    assert ask(limiter, "a", "b", "c") == ["a", "b"]
    limiter.on_trial_complete("b", {"loss": 1})
    assert ask(limiter, "c", "d") == ["c"]
    limiter.on_trial_complete("b", {"loss": 1})
    limiter.on_trial_complete("unknown", {"loss": 1})
    assert inner.completed() == ["b"]


def test_paused_trials_do_not_count():
    inner = Recording()
    limiter = ConcurrencyLimiter(inner, 2)
    assert ask(limiter, "a", "b") == ["a", "b"]
    limiter.on_pause("a")
    limiter.on_pause("b")
    assert ask(limiter, "c", "d", "e") == ["c", "d"]
    limiter.on_unpause("a")
    limiter.on_trial_complete("c")
    assert ask(limiter, "e") == []
    limiter.on_trial_complete("b")  # while paused
    limiter.on_trial_complete("d")
    assert ask(limiter, "e", "f") == ["e"]
    assert ("pause", "a") in inner.heard
    assert ("unpause", "a") in inner.heard
    assert inner.completed() == ["c", "b", "d"]


def test_a_batch_is_told_at_once_in_the_order_of_suggestion():
    inner = Recording()
    limiter = ConcurrencyLimiter(inner, 3, batch=True)
    assert ask(limiter, "a", "b", "c", "d") == ["a", "b", "c"]
    limiter.on_trial_complete("c", {"loss": 3})
    limiter.on_trial_complete("a", error=True)
    assert inner.completed() == []
    assert ask(limiter, "d") == []
    limiter.on_trial_complete("b", {"loss": 2})
    assert inner.heard[3:] == [
        ("complete", "a", None, True),
        ("complete", "b", {"loss": 2}, False),
        ("complete", "c", {"loss": 3}, False),
    ]
    assert ask(limiter, "d", "e", "f", "g") == ["d", "e", "f"]


@pytest.mark.parametrize(
    ("limit", "steps"),
    [
        (3, "ask a b c: a b c, pause a, ask d:, done c, done b, told: b c, ask d e f g: d e f, done a, told: b c a"),
        (2, "ask a: a, done a, told:, ask b c: b, done b, told: a b"),
        (3, "ask a b: a b, done a, search ends, told:, done b, told: a b"),
        (2, "ask a b: a b, done a, pause b, told: a, unpause b, ask c d: c"),
        (2, "ask a b: a b, pause a, unpause a, done b, told:, done a, told: a b"),
    ],
    ids=[
        "it closes when each member has ended or is paused",
        "it waits for its last member to be suggested",
        "the last one closes when no more trials are made",
        "a pause closes it too",
        "a member that runs again before it closes stays in it",
    ],
)
def test_a_limiter_with_batches_follows_its_steps(limit, steps):
    """A step is what happens to a member, who of those that ask gets a suggestion, or whose ends were told so far."""
    inner = Recording()
    limiter = ConcurrencyLimiter(inner, limit, batch=True)
    for step in steps.split(","):
        words, _, answer = step.strip().partition(":")
        verb, *names = words.split()
        if verb == "ask":
            assert ask(limiter, *names) == answer.split(), step
        elif verb == "told":
            assert inner.completed() == answer.split(), step
        elif verb == "done":
            limiter.on_trial_complete(*names, {"loss": 1})
        elif verb == "search":
            limiter.on_search_end()
        else:
            {"pause": limiter.on_pause, "unpause": limiter.on_unpause}[verb](*names)


def test_an_adopted_trial_is_the_first_of_a_batch():
    inner = Recording()
    limiter = ConcurrencyLimiter(inner, 2, batch=True)
    limiter.adopt("a", {"x": 0})
    limiter.on_trial_complete("a", {"loss": 1})
    assert inner.completed() == []
    assert ask(limiter, "b", "c") == ["b"]
    limiter.on_trial_complete("b", {"loss": 2})
    assert inner.completed() == ["a", "b"]


def test_a_batch_that_the_searcher_does_not_fill_closes():
    class Shy(Recording):
        def suggest(self, trial_id):
            return None if trial_id == "b" else super().suggest(trial_id)

    inner = Shy()
    limiter = ConcurrencyLimiter(inner, 3, batch=True)
    assert ask(limiter, "a", "b") == ["a"]
    limiter.on_trial_complete("a", {"loss": 1})
    assert inner.completed() == ["a"]
    ask(limiter, "c")
    limiter.on_trial_complete("c", {"loss": 1})
    assert inner.completed() == ["a"]
    ask(limiter, "b")
    assert inner.completed() == ["a", "c"]


def test_a_limiter_does_not_count_a_searcher_that_suggests_nothing():
    limiter = ConcurrencyLimiter(Listed(None, {"x": 1}), 1)
    assert limiter.suggest("a") is None
    assert limiter.suggest("a") == {"x": 1}
    limiter.on_trial_complete("a")
    assert limiter.suggest("b") == Searcher.FINISHED


# -- Repeater -----------------------------------------------------------------------------------------------------


def test_a_suggestion_is_repeated_and_the_mean_is_told_once():
    inner = Recording(metric="loss", mode="min")
    repeater = Repeater(inner, 3)
    suggested = [repeater.suggest(f"t{i}") for i in range(6)]
    assert suggested == [{"x": x, "__trial_index__": i} for x in (0, 1) for i in range(3)]
    assert [event[1] for event in inner.heard] == ["t0", "t3"]
    repeater.on_trial_result("t1", {"loss": 7})
    repeater.on_trial_complete("t1", {"loss": 2.0, "other": 1})
    repeater.on_trial_complete("t4", {"loss": 5.0})
    repeater.on_trial_complete("t0", {"loss": 1.0})
    assert inner.completed() == []
    repeater.on_trial_complete("t2", {"loss": 6.0})
    assert inner.heard[2:] == [("complete", "t0", {"loss": 3.0}, False)]
    repeater.on_trial_complete("t2", {"loss": 100.0})
    assert inner.completed() == ["t0"]


def test_failed_trials_and_nans_take_no_part_in_the_mean():
    inner = Recording(metric="loss", mode="min")
    repeater = Repeater(inner, 5)
    for i in range(5):
        repeater.suggest(f"t{i}")
    repeater.on_trial_error("t0")
    repeater.on_trial_complete("t0", {"loss": 50.0}, error=True)
    repeater.on_trial_complete("t1", {"loss": math.nan})
    repeater.on_trial_complete("t2", None)
    repeater.on_trial_complete("t3", {"loss": 2.0})
    repeater.on_trial_complete("t4", {"loss": 4.0})
    assert inner.heard[1:] == [("complete", "t0", {"loss": 3.0}, False)]


def test_a_group_without_any_value_is_nan_and_failed_if_all_have_failed():
    for error in (True, False):
        inner = Recording(metric="loss", mode="min")
        repeater = Repeater(inner, 2)
        for i in range(2):
            repeater.suggest(f"t{i}")
            repeater.on_trial_complete(f"t{i}", None, error=error)
        ((_, _, result, told),) = [event for event in inner.heard if event[0] == "complete"]
        assert math.isnan(result["loss"])
        assert told is error


def test_several_objectives_have_a_mean_each():
    inner = Recording(metric=["a", "b"], mode=["min", "max"])
    repeater = Repeater(inner, 2)
    for i in range(2):
        repeater.suggest(f"t{i}")
        repeater.on_trial_complete(f"t{i}", {"a": i, "b": 10 * i, "c": 1})
    assert inner.heard[-1] == ("complete", "t0", {"a": 0.5, "b": 5.0}, False)


def test_trials_of_a_group_share_nothing():
    repeater = Repeater(Listed({"deep": [1]}), 2, set_index=False)
    first, second = repeater.suggest("a"), repeater.suggest("b")
    assert first == second == {"deep": [1]}
    first["deep"].append(2)
    assert second == {"deep": [1]}


def test_an_adopted_configuration_is_repeated_as_it_was():
    repeater = Repeater(Recording(), 2)
    config = {"x": 0, "deep": {"a": [1]}, TRIAL_INDEX: 0}
    repeater.adopt("a", config)
    config["deep"]["a"].append(2)
    assert repeater.suggest("b") == {"x": 0, "deep": {"a": [1]}, TRIAL_INDEX: 1}
    assert repeater.suggest("c") == {"x": 1, TRIAL_INDEX: 0}


def test_num_samples_counts_trials_and_a_leftover_group_is_ignored():
    inner = Recording()
    generator = suggesting(Repeater(inner, 3), num_samples=7)
    for trial in all_trials(generator):
        generator.on_trial_complete(trial.trial_id, {"loss": 1.0})
    assert inner.completed() == ["abcde_00000", "abcde_00003"]


def test_a_groups_index_shows_in_tag_and_parameters():
    trial = suggesting(Repeater(Recording(), 2)).next_trial()
    assert trial.config == {"x": 0, "__trial_index__": 0}
    assert trial.evaluated_params == {"x": 0, "__trial_index__": 0}


def test_a_searcher_adopts_the_first_trial_of_a_group_without_its_index():
    class Adopting(Recording):
        def adopt(self, trial_id, config):
            self.heard.append(("adopt", trial_id, dict(config)))

    inner = Adopting(metric="loss", mode="min")
    repeater = Repeater(inner, 2)
    for number in range(3):
        repeater.adopt(f"t{number}", {"x": number // 2, TRIAL_INDEX: number % 2})
    assert inner.heard == [("adopt", "t0", {"x": 0}), ("adopt", "t2", {"x": 1})]
    assert repeater.suggest("t3") == {"x": 1, TRIAL_INDEX: 1}
