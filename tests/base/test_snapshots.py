"""The file with the states of a run's plug-ins."""

from minitune.base.snapshots import CALLBACK, SEARCHER, PluginState, decode_states, encode_states


def test_states_come_back_by_component():
    states = {
        SEARCHER: PluginState("TPESearch", {"state.pkl": b"\0one", "more": b""}),
        CALLBACK: PluginState("", b"one"),
    }
    found = decode_states(encode_states(states))
    assert found == states
    assert all(type(state) is PluginState for state in found.values())
    assert decode_states(encode_states({})) == {}
