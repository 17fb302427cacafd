"""A trainable of a cell of a notebook, which needs a class of that cell."""

from minitune import RunConfig, Tuner, grid_search


class Net:
    pass


def trainable(config):
    import pickle

    assert type(pickle.loads(pickle.dumps(Net()))) is Net
    return {"y": config["x"] * 10}


space = {"x": grid_search([1, 2])}
results = Tuner(trainable, param_space=space, run_config=RunConfig(verbose=0)).fit()
assert not results.errors, results.errors
print([r.metrics["y"] for r in results])
