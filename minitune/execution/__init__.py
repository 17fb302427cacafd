"""The engine: executors, which run trials, and the driver, which decides about them."""

from minitune._alias import submodules

__getattr__ = submodules(__name__)
