"""The engine: executors, which run trials, and the driver, which decides about them."""
