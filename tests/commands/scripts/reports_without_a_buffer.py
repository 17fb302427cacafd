"""A program that reports while its standard output is redirected."""

import contextlib
import io

import minitune

print("no newline", end="")
with contextlib.redirect_stdout(io.StringIO()):
    minitune.report({"v": 1})
from decimal import Decimal

minitune.report({"v": Decimal(2), "name": Decimal})
