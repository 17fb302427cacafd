"""The module in which a run is started when it is imported."""

import minitune as tune


def train(config):
    return {"epochs": 1}


tune.Tuner(train, run_config=tune.RunConfig(verbose=0, name="of_module")).fit()
