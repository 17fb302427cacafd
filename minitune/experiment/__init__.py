"""Trials and their life: see `lifecycle` and `trial`."""
