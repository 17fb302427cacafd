"""A run of three trials."""

from script_kit import fit, hurry

hurry()


def trainable(config):
    return {"x": config["x"]}


print([r.metrics["x"] for r in fit(trainable, range(3))])
