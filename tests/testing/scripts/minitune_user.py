"""A trainable of a user's, which fails at high rates."""


def train(config):
    return {"loss": check(config["lr"])}


def check(lr):
    assert lr < 0.5, "too large"
    return lr
