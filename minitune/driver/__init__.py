"""The driver: one run, from its plan to its last record.

It calls plug-ins, executors and the record; none of them imports it. It knows executors by their protocol only.

Modules
-------
::

    experiment, plan      what the user wants: trainables, spaces and configs, and plug-ins as they were before a run
    parts                 the plug-ins and the executor that a plan asks for
    run                   Driver: one run, from `open` over `loop` to `close`
    open_run              the directory of the run, with its lock and its journal; or a run in memory
    resume                ResumedDriver: a Driver that opens an earlier run
    replay, plugin_states how a resume brings trials and plug-ins up to date: by the journal, and by saved states
    state                 RunState: the settings, the trials by phase, and the requests of schedulers
    tune_controller       TuneController: one turn of the loop, and what follows from each event
    launching             TrialLauncher: asks the searcher for trials, and starts waiting trials
    hooks                 Hooks: all calls to plug-ins
    actions               TrialActions: carries out decisions; requests to workers wait there for the write
    report_path           ReportPath: writes plain reports, which are most of the work, by a shorter way
    failure               what follows from a failed attempt or a lost worker; time limits of trials

One run
-------
`Driver.open` makes the parts (`build_components`, `build_executor`), then the directory (`open_run`). A ResumedDriver
opens the old directory, and `Replay` applies its journal. Both end in `put_together`, which makes RunState, Hooks and
TuneController. `Driver.loop` calls `TuneController.step` until all trials have ended. `Driver.close` cleans up.

One configuration
-----------------
`TuneController.step` calls `TrialLauncher.launch`. `Hooks.next_trial` asks the searcher, and the record of the trial is
added. `Hooks.choose` asks the scheduler which trial is next. If the executor has room, the record of its start is
added, and `TrialExecutor.start` is called.

One report
----------
`TuneController.step` waits in `TrialExecutor.wait` and applies each event (`_on_event`). For a report, `Hooks.decide`
asks stopper and scheduler. Then the searcher and the callbacks are called, and the result is added to the journal, by
ReportPath or by `Recorder.result`. `TrialActions.carry_out` or `pull` prepares the request to the worker.
`TrialActions.commit` writes all records of the turn, and then sends the requests.

One failure
-----------
The event is CallRaised, or Exited for a worker that has died. `failure.after_failure` says whether the trial is
retried. `TrialActions.move` takes the step and records the status. A lost worker is not the trial's fault: `Backoff`
decides when the next attempt starts.
"""

from minitune._alias import submodules

__getattr__ = submodules(__name__)
