"""Record the outcomes of the scripts under Ray Tune: `python tests/ported/record.py [name ...]`. Needs Ray 2.60.

Without names it runs all scripts, one after the other. Each one starts Ray, which takes about 10 s. Scripts with
`train.report` or `session.report`, and those with a reporter, need the variables of Ray in `_SWITCHES`. Ray 2.60
refuses the scripts `old_...`, which are for Ray 0.2 to 1.13, so this records the name of the error.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path

from ported_scripts import NAMES, OUTCOMES, SCRIPTS, environment, outcome

_SWITCHES = {"RAY_AIR_NEW_OUTPUT": "0", "RAY_TRAIN_V2_ENABLED": "0", "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0"}


def main(names: list[str]) -> None:
    """Run each script unchanged, and store its outcome."""
    OUTCOMES.mkdir(exist_ok=True)
    failed = []
    for name in names or NAMES:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            script = Path(directory) / f"{name}.py"
            script.write_text((SCRIPTS / f"{name}.py").read_text())
            try:
                said = outcome(script, {**environment(Path(directory)), **_SWITCHES}, timeout_s=180)
            except Exception as error:
                names_of_errors = re.findall(r"^(?:\w+\.)*(\w*(?:Error|Warning)): ", str(error), re.MULTILINE)
                if not (name.startswith("old_") and names_of_errors):
                    failed.append(name)
                    print(f"{name}: {str(error)[-1500:]}", flush=True)
                    continue
                said = {"refused": names_of_errors[-1]}
        (OUTCOMES / f"{name}.json").write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")
        print(f"{name}: {time.monotonic() - started:.1f} s", flush=True)
    if failed:
        sys.exit(f"no outcome: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
