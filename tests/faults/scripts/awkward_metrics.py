"""A trial with values of many types as metrics: run (`fit`), or read after a restore."""

import datetime
import decimal
import enum
import math
import os
import pathlib
import sys
import uuid

from script_kit import fit, hurry

from minitune import Tuner

hurry()

DEPTH = 90


class Colour(enum.Enum):
    RED = 1


class Point:
    def __init__(self, x):
        self.x = x


def nest(depth):
    outer = inner = {}
    for _ in range(depth):
        inner["n"] = inner = {}
    return outer


def trainable(config):
    return {
        "ellipsis": ...,
        "nan": math.nan,
        "inf": [math.inf, -math.inf],
        "bytes": b"\x00\xff",
        "none": None,
        "date": [datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)],
        "huge": 10**400,
        "large": 2**70,
        "small": 5e-324,
        "surrogate": "a\ud800b",
        "colour": Colour.RED,
        "point": Point(3),
        "tuple": (1, (2,)),
        "set": {1},
        "complex": 1j,
        "decimal": decimal.Decimal("1.10"),
        "path": pathlib.PurePosixPath("a/b"),
        "uuid": uuid.UUID(int=1),
        "a/b": 1,
        "a.b": 2,
        "a\nb": 3,
        5: "five",
        None: 0,
        (1, 2): 3,
        "nested": nest(DEPTH),
        "type": int,
    }


if sys.argv[1] == "fit":
    [result] = fit(trainable, [0])
else:
    path = os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run")
    [result] = Tuner.restore(path, trainable).fit()
metrics = dict(result.metrics)
depth, inner = 0, metrics.pop("nested")
while inner:
    depth, inner = depth + 1, inner["n"]
point, colour = metrics.pop("point"), metrics.pop("colour")
print(result.error, depth == DEPTH, type(point) is Point and point.x, colour is Colour.RED)
assert metrics["ellipsis"] is ...
own = {str(key) for key in trainable(None)} - {"nested", "point", "colour"}
print(ascii({key: metrics[key] for key in metrics if key in own}), len([key for key in metrics if key in own]))
