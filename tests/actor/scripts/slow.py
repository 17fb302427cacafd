"""A module that notes each process which imports it, and may start a thread or fail at its import."""

import os
import threading

os.environ.setdefault("DRIVER", str(os.getpid()))  # the driver is the first to import it; its workers inherit this
with open(os.environ["IMPORTS"], "a") as file:
    file.write(f"{os.getpid()}\n")
if "thread" in os.environ["KIND"]:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
if "broken" in os.environ["KIND"] and int(os.environ["DRIVER"]) != os.getpid():
    raise RuntimeError("not in a worker")
VALUE = 5
