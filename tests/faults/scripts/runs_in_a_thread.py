"""An interpreter that ends while a run is in another thread."""

import os
import threading
import time

import psutil
from script_kit import fit, hurry, slow

hurry()

STORAGE = os.environ["MINITUNE_STORAGE_PATH"]

threading.Thread(target=lambda: fit(slow, (0, 1)), daemon=True).start()
while (
    sum(os.path.getsize(os.path.join(d, "result.json")) > 0 for d, _, fs in os.walk(STORAGE) if "result.json" in fs) < 2
):
    time.sleep(0.01)

for child in psutil.Process().children(recursive=True):
    print(child.pid)
