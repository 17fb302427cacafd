"""`import ray` while `minitune.as_ray` is on: this module gives its place to `minitune.ray`."""

import sys

import minitune.ray

sys.modules[__name__] = minitune.ray
