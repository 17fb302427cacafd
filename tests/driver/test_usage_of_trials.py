"""What the processes of a trial have used: on record, and in every view of the trial."""

import json
import subprocess
import sys
import time

import pytest
from kit import RUN, fit, journal_of, restore, run_path

from minitune import grid_search, report
from minitune.commands import cli
from minitune.view.history import history_of
from minitune.visualization.page import trial_details

MIB = 1 << 20


def busy(config):
    data = bytearray(config["mib"] * MIB)
    end_s = time.process_time() + config["cpu_s"]
    while time.process_time() < end_s:
        pass
    report({"loss": len(data)})


def test_cpu_time_and_peak_memory_of_a_trial_are_recorded_and_shown(capsys):
    space = {"mib": grid_search([0, 200]), "cpu_s": 0.3}
    small, large = fit(busy, space, executor="local")

    assert 0.3 <= large.cpu_s < 60
    assert large.peak_bytes > 200 * MIB
    assert 4 * MIB < small.peak_bytes < large.peak_bytes - 150 * MIB
    recorded = [record for record in journal_of() if record["type"] == "usage"]
    assert {(record["cpu_s"], record["peak_bytes"]) for record in recorded} == {
        (each.cpu_s, each.peak_bytes) for each in (small, large)
    }
    _, again = restore(busy).get_results()
    assert (again.cpu_s, again.peak_bytes) == (large.cpu_s, large.peak_bytes)
    assert cli.main(["show", str(run_path()), "1", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["cpu_s"], shown["peak_bytes"]) == (large.cpu_s, large.peak_bytes)
    assert cli.main(["show", str(run_path()), "1"]) == 0
    assert f" {large.peak_bytes / MIB:.0f} MiB\n" in capsys.readouterr().out
    history = history_of(str(run_path()), "loss", "min")
    assert trial_details(history, history.trials[1])["peak_bytes"] == f"{large.peak_bytes / MIB:.0f} MiB"
    assert cli.main(["ls", str(run_path()), "--columns", "trial,peak_bytes"]) == 0
    assert str(large.peak_bytes) in capsys.readouterr().out


def child_works(config):
    code = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    raise ValueError("in vain")


def test_attempts_and_children_add_up():
    [result] = fit(child_works, executor="local", max_failures=1)
    recorded = [record for record in journal_of(RUN) if record["type"] == "usage"]
    assert [record["attempt"] for record in recorded] == [1, 2]
    assert result.cpu_s == pytest.approx(sum(record["cpu_s"] for record in recorded))
    assert result.cpu_s >= 0.6
    assert result.peak_bytes == max(record["peak_bytes"] for record in recorded)


@pytest.mark.parametrize("settings", [{"executor": "local", "reuse_actors": True}, {"executor": "inline"}])
def test_what_one_process_has_used_for_several_trials_is_unknown(settings):
    for result in fit(busy, {"mib": grid_search([0, 1]), "cpu_s": 0}, **settings):
        assert (result.cpu_s, result.peak_bytes) == (None, None)
    assert "usage" not in {record["type"] for record in journal_of()}
