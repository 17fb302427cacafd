"""The files of a trial with its configuration."""

import json
import pickle
import stat
import threading

from minitune.experiment.parameter_files import write_parameters


def test_a_configuration_that_json_does_not_hold_is_pickled_for_the_owner_alone(tmp_path):
    write_parameters(str(tmp_path), {"pair": (1, 2)})
    assert json.loads((tmp_path / "params.json").read_text()) == {"pair": [1, 2]}
    pickled = tmp_path / "params.pkl"
    assert pickle.loads(pickled.read_bytes()) == {"pair": (1, 2)}
    assert stat.S_IMODE(pickled.stat().st_mode) == 0o600


def test_the_pickle_of_an_earlier_configuration_does_not_stay(tmp_path):
    later = [{"x": 1}, {"lock": threading.Lock()}]
    for config in later:
        write_parameters(str(tmp_path), {"pair": (1, 2)})
        write_parameters(str(tmp_path), config)
        assert [path.name for path in tmp_path.iterdir()] == ["params.json"]
