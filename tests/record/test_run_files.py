"""The files from which a run is resumed."""

from kit import fit, report_n, run_path

from minitune import Callback
from minitune.record.layout import RunDirectory
from minitune.record.run_files import load_tuner_file


class WithData(Callback):
    def __init__(self, data):
        self.data = data


def test_large_values_of_two_settings_are_not_exchanged():
    space = {"one": bytes([1]) * 2_000_000, "two": bytes([2]) * 2_000_000}
    fit(report_n(1), space, callbacks=[WithData(bytes([3]) * 2_000_000)])
    recorded = load_tuner_file(RunDirectory(str(run_path())))
    assert len(set(recorded.param_space["one"])) == 1
    (callback,) = recorded.run_config.callbacks or ()
    assert isinstance(callback, WithData)
    assert [data[0] for data in (*recorded.param_space.values(), callback.data)] == [1, 2, 3]
