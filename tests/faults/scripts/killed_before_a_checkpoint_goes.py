"""A run that keeps one checkpoint, killed before the one that it replaces is removed."""

import os
import sys

from script_kit import die, dies_before

from minitune import Checkpoint, CheckpointConfig, RunConfig, TuneConfig, Tuner, get_checkpoint, report
from minitune.record import checkpoint_manager, housekeeper, recorder


def counter(config):
    checkpoint = get_checkpoint()
    done = int(open(os.path.join(checkpoint.path, "n")).read()) if checkpoint else 0
    print("from", done, flush=True)
    for n in range(done + 1, 4):
        os.makedirs("made", exist_ok=True)
        with open("made/n", "w") as file:
            file.write(str(n))
        report({"n": n}, checkpoint=Checkpoint.from_directory("made"))


path = os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run")
if sys.argv[1] == "committed":
    recorder.Recorder._drop = lambda self, surplus: surplus and (self.write(), die())
elif sys.argv[1] == "dropped":
    dies_before(checkpoint_manager.CheckpointManager, "remove")
housekeeper.Housekeeper.sync_checkpoint = lambda *arguments: None  # which one is synced first depends on the disk
config = RunConfig(name="run", verbose=0, checkpoint_config=CheckpointConfig(num_to_keep=1))
tuner = Tuner(counter, tune_config=TuneConfig(executor="inline"), run_config=config)
if Tuner.can_restore(path):
    tuner = Tuner.restore(path, counter)
print(tuner.fit()[0].metrics["n"])
