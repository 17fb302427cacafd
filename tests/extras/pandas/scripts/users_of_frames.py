"""A trainable whose module imports pandas, and notes each process that imports it."""

import os

import pandas as pd  # noqa: F401
import pyarrow  # noqa: F401

import minitune as tune

with open(os.environ["IMPORTS"], "a") as file:
    file.write(f"{os.getpid()}\n")


def train(config, data):
    before = (int(data["number"].sum()), data["text"].iloc[-1], len(data.select_dtypes("category").columns))
    data.loc[0, "number"] = -1
    tune.report({"before": before, "after": int(data["number"].iloc[0])})
