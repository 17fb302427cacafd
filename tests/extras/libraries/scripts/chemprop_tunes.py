"""Chemprop is a command, so the switch is on before it."""

import subprocess
import sys
from pathlib import Path

from ray.tune import ExperimentAnalysis

carbons = [f"{'C' * length}{end},{length}" for length in range(1, 11) for end in ("", "O")]
Path("molecules.csv").write_text("\n".join(["smiles,y", *carbons]))
options = "--task-type regression --search-parameter-keywords depth ffn_num_layers --epochs 4 --num-workers 0"
of_ray = "--raytune-num-samples 2 --raytune-search-algorithm random --raytune-num-workers 1"
command = ["chemprop.cli.main", "hpopt", "--data-path", "molecules.csv", "--hpopt-save-dir", "saved"]
code = "from chemprop.cli.main import main; main()"
done = subprocess.run([sys.executable, "-c", code, *command[1:], *options.split(), *of_ray.split()], check=True)
run = next(Path("stored").iterdir())
trials = ExperimentAnalysis(run).trials
failed = sum(trial.status == "ERROR" for trial in trials)
print(len(trials), failed, Path("saved/best_checkpoint.ckpt").exists(), trials[0].last_result["training_iteration"])
