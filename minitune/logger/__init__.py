"""Loggers: callbacks that write files."""

from __future__ import annotations

from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.logger.logger import LoggerCallback, pretty_print

__all__ = ["CSVLoggerCallback", "JsonLoggerCallback", "LoggerCallback", "pretty_print"]
