"""What a scheduler decides, as data."""

import pytest

from minitune.experiment.decision import CONTINUE, DECISIONS, GO_ON, PAUSE, STOP, Decision
from minitune.experiment.endings import Ending, EndKind


def test_a_decision_is_its_word_without_a_reason_or_instructions():
    for word in DECISIONS:
        decision = Decision(word)
        assert decision == word
        assert (decision.reason, decision.save, decision.exploit) == ("", False, None)
        assert decision.facts == {}
    assert GO_ON == CONTINUE
    with pytest.raises(ValueError, match="one of CONTINUE, PAUSE, STOP, NOOP, but got 'GO'"):
        Decision("GO")


def test_a_decision_keeps_what_it_is_given():
    decision = Decision(PAUSE, "have a rest", save=True, exploit=("donor", {"x": 1}), facts={"rule": "mine"})
    assert (decision.reason, decision.save, decision.exploit) == ("have a rest", True, ("donor", {"x": 1}))
    assert decision.facts == {"rule": "mine"}


@pytest.mark.parametrize("kind", [EndKind.CRITERION, EndKind.REQUEST, EndKind.MAX_T])
def test_a_decision_to_stop_has_the_ending(kind):
    ending = Ending(kind, "it is enough", {"rule": "mine"})
    decision = Decision.stop(ending)
    assert decision == STOP
    assert (decision.reason, decision.facts, decision.ending) == ("it is enough", {"rule": "mine"}, ending)
    own = Decision(STOP, "it is enough", facts={"rule": "mine"})
    assert own.ending == Ending(EndKind.SCHEDULER, "it is enough", {"rule": "mine"})


def test_a_word_becomes_a_decision_and_a_decision_stays_as_it_is():
    decision = Decision(STOP, "why")
    assert Decision.of(decision) is decision
    assert type(Decision.of("STOP")) is Decision
    assert Decision.of("STOP").reason == ""
