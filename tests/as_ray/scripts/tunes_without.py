"""A run, a resume and a name of Ray, in a copy of the package without the folder `ray`."""

import minitune as tune


def train(config):
    tune.report({"loss": config["x"]})


if __name__ == "__main__":
    space = {"x": tune.grid_search([2, 1])}
    tuner = tune.Tuner(
        train,
        param_space=space,
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(storage_path=".", name="run", verbose=0),
    )
    print(tuner.fit().get_best_result().config)
    print(len(tune.Tuner.restore("run", train).fit()))
    print(hasattr(tune, "rllib"), tune.schedulers.ASHAScheduler.__name__)
    try:
        import minitune.tune
    except ModuleNotFoundError as error:
        print(error)
    try:
        tune.init(address="x")
    except ValueError as error:
        print(str(error)[:40])
