"""A module of the user's: what it remembers is what a library would see when it is imported."""

import os

DEVICES = os.environ.get("CUDA_VISIBLE_DEVICES")
ORDER = os.environ.get("CUDA_DEVICE_ORDER")
OPENBLAS_THREADS = os.environ.get("OPENBLAS_NUM_THREADS")
THREADS = os.environ.get("OMP_NUM_THREADS")
