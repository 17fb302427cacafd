"""A driver that is killed at any moment: what was acknowledged is there, nothing finished runs again."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import psutil
from kit import records_in, scaled_s

RUN = """
    import os, sys
    from minitune import RunConfig, TuneConfig, Tuner, grid_search, with_resources

    def trainable(config):
        with open(sys.argv[2], "a") as witness:
            witness.write(config["model_id"] + "\\n")
        return {"score": config["model_id"], "other_data": ...}

    trainable = with_resources(trainable, {"cpu": 1})
    if sys.argv[1] == "fit":
        space = {"model_id": grid_search([f"model_{i}" for i in range(20)])}
        results = Tuner(trainable, param_space=space, run_config=RunConfig(name="run", verbose=0)).fit()
    else:
        results = Tuner.restore(os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run"), trainable).fit()
    assert [r.metrics["score"] for r in results] == [f"model_{i}" for i in range(20)]
    assert all(r.metrics["other_data"] is Ellipsis and r.metrics["done"] for r in results)
    assert results.num_terminated == 20
"""


def count(journal: Path, text: bytes) -> int:
    return journal.read_bytes().count(text) if journal.exists() else 0


def test_restore_finishes_the_basic_experiment(script):
    journal, witness = script.storage / "run" / "journal", script.directory / "witness"
    moment = 9
    driver = script.start(RUN, "fit", str(witness))
    script.wait_until(lambda: count(journal, b'"type":"result"') >= moment or driver.poll() is not None)
    workers = psutil.Process(driver.pid).children(recursive=True) if driver.poll() is None else []
    driver.send_signal(signal.SIGKILL)
    script.finish(driver)
    _, alive = psutil.wait_procs(workers, timeout=scaled_s(5))
    assert not alive, "the workers die with their driver"

    before = records_in(journal)
    acknowledged = {r["trial"]: r["metrics"] for r in before if r["type"] == "result"}
    finished = {r["trial"] for r in before if r["type"] == "status" and r["status"] == "TERMINATED"}
    configs = {r["trial"]: r["config"] for r in before if r["type"] == "trial"}
    assert len(acknowledged) >= moment
    runs_before = Counter(witness.read_text().split())

    script.run(RUN, "restore", str(witness))

    after = records_in(journal)
    assert after[: len(before)] == before, "the journal is only appended to"
    assert {r["trial"]: r["config"] for r in after if r["type"] == "trial" and r["trial"] in configs} == configs
    runs_after = Counter(witness.read_text().split())
    for trial in finished:
        name = configs[trial]["model_id"]
        assert runs_after[name] == runs_before[name] == 1, "a finished trial ran again"
    assert set(runs_after) == {f"model_{i}" for i in range(20)}
    for path in (script.storage / "run").glob("trainable_*/result.json"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        recorded = [r for r in after if r["type"] == "result" and r["trial"] == rows[0]["trial_id"]]
        assert len(rows) == len(recorded), "one row for each record"
