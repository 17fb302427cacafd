"""A population whose driver is killed in the midst of it goes on where it was."""

from __future__ import annotations

import json
import signal

import pytest

RUN = """
    import json, os, sys, time
    from pathlib import Path
    from minitune import CheckpointConfig, RunConfig, Trainable, TuneConfig, Tuner, grid_search, init, uniform
    from minitune.schedulers.pbt import PopulationBasedTraining

    class Climber(Trainable):
        def setup(self, config):
            self.score, self.rates = 0.0, []

        def step(self):
            if sys.argv[1] == "fit" and self.iteration == 17:
                time.sleep(600)  # the driver is killed before the end, however late that comes
            self.score += self.config["lr"]
            self.rates.append(self.config["lr"])
            return {"score": self.score, "rates": list(self.rates)}

        def save_checkpoint(self, directory):
            Path(directory, "state").write_text(json.dumps([self.score, self.rates]))

        def load_checkpoint(self, directory):
            self.score, self.rates = json.loads(Path(directory, "state").read_text())

    if sys.argv[1] == "fit":
        init(num_cpus=2)
        scheduler = PopulationBasedTraining(
            "training_iteration", "score", "max", 3, hyperparam_mutations={"lr": uniform(0, 100)},
            synch=sys.argv[2] == "synch",
        )
        results = Tuner(
            Climber,
            param_space={"lr": grid_search([1.0, 2.0, 3.0, 40.0, 50.0])},
            tune_config=TuneConfig(scheduler=scheduler, seed=1),
            run_config=RunConfig(
                name="run", verbose=0, stop={"training_iteration": 18},
                checkpoint_config=CheckpointConfig(num_to_keep=1),
            ),
        ).fit()
    else:
        init(num_cpus=2)
        results = Tuner.restore(os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run"), Climber).fit()
    assert not results.errors, results.errors
    for result in results:
        rates = result.metrics["rates"]
        assert len(rates) == result.metrics["training_iteration"] == 18, result
        assert abs(sum(rates) - result.metrics["score"]) < 1e-6, result
        assert rates[-1] == result.config["lr"] == result.metrics["config"]["lr"], result
    print(json.dumps([result.metrics["experiment_tag"] for result in results]))
"""


@pytest.mark.parametrize(("how", "moment"), [("async", 12), ("synch", 40)])
def test_a_population_goes_on_after_its_driver_was_killed(script, how, moment):
    journal, files = script.storage / "run" / "journal", script.storage / "run" / "pbt_global.txt"
    driver = script.start(RUN, "fit", how)
    reached = b'"type":"result"'
    script.wait_until(
        lambda: (journal.exists() and journal.read_bytes().count(reached) >= moment) or driver.poll() is not None
    )
    assert driver.poll() is None, script.finish(driver)
    driver.send_signal(signal.SIGKILL)
    script.finish(driver)
    before = files.read_text() if files.exists() else ""

    (tags, *_) = script.run(RUN, "restore", how).splitlines()

    assert any("@perturbed[lr=" in tag for tag in json.loads(tags))
    after = files.read_text()
    assert after.startswith(before), "what had been written stands, once"
    for line in after.splitlines():
        target, donor, _, _, old, new = json.loads(line)
        assert {target[0], donor[0]} <= set("01234")
        assert 0 <= new["lr"] <= 100
        assert set(old) == {"lr"}
