"""A reporter of a run shows much. With an argument it waits for the end of the standard input before."""

import sys

from minitune.output.live_reporter import default_reporter

reporter = default_reporter()
reporter.setup(total_samples=1)
if sys.argv[1:]:
    sys.stdin.read()
for _ in range(3):
    if reporter.should_report([], True):
        reporter.report([], True, "x" * 100_000)
print("the run goes on", file=sys.stderr)
