"""The driver: one run, from its plan to its last record.

- `plan`: what the user wants, as plain values. `parts`: the plug-ins and the executor that a plan asks for.
- `run`: one run. It opens the directory (`open_run`), makes the parts, turns the loop, and closes everything.
- `resume`: a run that continues: it applies the journal (`replay`) and brings plug-ins up to date (`plugin_states`).
- `tune_controller`: the loop. It asks the searcher, starts trials (`launching`), waits for events, and applies them to
  the trials (`state`). `failure` decides about a failed attempt.
- `hooks` calls the plug-ins, `actions` carries out decisions after their record is written, and `report_path` does both
  for plain reports, which are most of the work.

The driver knows executors by their protocol only.
"""

from minitune._alias import submodules

__getattr__ = submodules(__name__)
