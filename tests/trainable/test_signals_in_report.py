"""A signal handler of the user's that raises while `report()` waits for the driver."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from minitune import Callback, RunConfig, Tuner, report

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs signals")

REPORTS, HIT = 12, (1, 2, 7)


def _reporting(config: dict[str, Any]) -> None:
    def ring(number: int, frame: Any) -> None:
        if not Path(f"caught{i}").exists():
            raise TimeoutError

    i = 0
    signal.signal(signal.SIGALRM, ring)
    for i in range(REPORTS):
        try:
            report({"i": i})
        except TimeoutError:
            Path(f"caught{i}").touch()


class _Ringing(Callback):
    """Sends the signal while the trial waits in `report()`, and lets it go on only when that has raised."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any) -> None:
        self.seen.append(result["i"])
        if result["i"] in HIT:
            caught = Path(trial.path, f"caught{result['i']}")
            while not caught.exists():
                os.kill(result["pid"], signal.SIGALRM)  # one that strikes while the answer is sent is dropped
                until_s = time.monotonic() + 0.2
                while not caught.exists() and time.monotonic() < until_s:
                    time.sleep(0.001)


def test_what_it_raises_comes_out_of_report_and_no_report_is_lost(tmp_path: Path) -> None:
    ringing = _Ringing()
    grid = Tuner(_reporting, run_config=RunConfig(storage_path=str(tmp_path), verbose=0, callbacks=[ringing])).fit()
    assert not grid.errors
    assert ringing.seen[:REPORTS] == list(range(REPORTS))
