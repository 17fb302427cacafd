"""The driver: one run, from its plan to its last record.

It calls plug-ins, executors and the record; none of them imports it.

Modules
-------
::

    experiment, plan      what the user wants: trainables, spaces and configs, and plug-ins as they were before a run
    parts                 the plug-ins and the executor that a plan asks for
    run                   Driver: one run, from `open` over `loop` to `close`
    open_run              the directory of the run, with its lock and its journal; or a run in memory
    resume                ResumedDriver: a Driver that opens an earlier run
    replay                how a resume brings trials and plug-ins up to date: the journal is told to them
    snapshot              the states of plug-ins in one file, from which a resume goes on
    state                 RunState: the settings, the trials, and the requests of schedulers. WaitingTrials: those that
                          wait, and which of them may start
    tune_controller       TuneController: one turn of the loop
    events                EventHandler: what follows from an event. ReportHandler: from a report or a save
    launching             TrialSource: draws trials from the searcher. TrialLauncher: starts waiting trials
    earlier_results       EarlierResults: finds the result of a trial whose configuration was tried before
    hooks                 Hooks: all calls to plug-ins
    step                  Run: the parts that all others work on. `take`: a step of a trial, its record, and the hooks
                          before and after it, by two tables
    actions               TrialActions: carries out decisions; commands to workers wait there for the write
    report_path           ReportPath: writes plain reports, which are most of the work, by a shorter way
    failure               Failures: what follows from a failed attempt or a lost worker; the errors of trials
    limits                Backoff and Deadlines: when an attempt may start, and how long it may take

One run
-------
`Driver.open` makes the parts, then the directory (`open_run_of`). A ResumedDriver opens the old one, and `Replay`
applies its journal. Both end in `put_together`, which makes RunState and Hooks. `Driver.loop` calls
`TuneController.step` until all trials have ended.

One configuration
-----------------
`TuneController.step` calls `TrialLauncher.launch`. `TrialSource.draw` asks the searcher, and adds the record of the
trial. If the executor has room for the scheduler's choice, its start is recorded, and `TrialExecutor.start` is called.
A trial that can never start is a `Refusal`, and `Failures.cannot_start` ends it.

One report
----------
Then it waits in `TrialExecutor.wait`, and a table of the EventHandler says which method handles the event. For a
report, `ReportHandler.on_report` asks stopper and scheduler (`Hooks.decide`), tells searcher and callbacks, and adds
the result to the journal, by `ReportPath.write` or `Recorder.result`. `TrialActions.commit` writes all records of the
turn, and then carries out the commands for the workers.

One failure
-----------
If a call has raised or a worker has died, `Failures.failed` decides whether the trial is retried, and `Backoff` when.
`Failures.lost` handles a lost worker, which is not the trial's fault.

One resume
----------
In `ResumedDriver.catch_up`, the plug-ins load their states from the newest Snapshot, and are told what was recorded
after it. The files of the loggers are made to match the journal (`reconcile`). The remaining work, a `LeftOver`, goes
to `TuneController.begin`.
"""
