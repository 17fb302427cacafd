"""Starts two shells that do not listen, one in a session of its own, each of which writes down two processes."""

import subprocess
import sys
import time

SHELL = "trap '' TERM; sleep 600 & printf '%s\\n%s\\n' $$ $! >> \"$0\"; wait"
for own in (False, True):
    subprocess.Popen(["sh", "-c", SHELL, sys.argv[1]], start_new_session=own)
time.sleep(600)
