"""A module of the script, which reads the arguments of the script."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
epochs = parser.parse_args().epochs


def train(config):
    return {"epochs": epochs}
