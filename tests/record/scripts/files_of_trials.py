"""A run that prints which files and directories its driver makes for each trial."""

import os
import sys

import minitune as tune

made = []


def audit(event, args):
    if event == "os.rename" and args[0] in made:  # from a temporary name
        made[made.index(args[0])] = args[1]
    elif event == "os.mkdir" or (event == "open" and isinstance(args[2], int) and args[2] & os.O_CREAT):
        made.append(args[0])


def trainable(config):
    tune.report({"loss": config["x"]})


sys.addaudithook(audit)
results = tune.Tuner(
    trainable,
    param_space={"x": tune.uniform(0, 1)},
    tune_config=tune.TuneConfig(num_samples=4, max_concurrent_trials=1, reuse_actors=sys.argv[1] == "reused"),
    run_config=tune.RunConfig(verbose=0),
).fit()
for result in results:
    print(result.metrics["trial_id"], *(os.path.basename(path) for path in made if str(path).startswith(result.path)))
