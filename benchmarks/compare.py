"""first version"""
import argparse, sys, tempfile
from pathlib import Path
from harness.engines import find
from harness.measure import run_all
from harness.workloads import WORKLOADS

parser = argparse.ArgumentParser()
parser.add_argument("--only", nargs="+", choices=list(WORKLOADS))
parser.add_argument("--engines", nargs="+", default=["minitune"])
parser.add_argument("--peer", action="append", default=[])
parser.add_argument("--rounds", type=int, default=1)
parser.add_argument("--quick", action="store_true")
o = parser.parse_args()
engines = {k: v for k, v in find(dict(p.split("=") for p in o.peer)).items() if k in o.engines}
run_all([WORKLOADS[n] for n in (o.only or WORKLOADS)], engines, o.rounds, Path(tempfile.mkdtemp(prefix="bench-")), o.quick, print)
