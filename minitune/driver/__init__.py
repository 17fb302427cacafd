"""The driver: one run, from its plan to its last record.

`docs/how-it-works.md` follows a configuration through these modules.

::

    experiment_spec    Experiment
    plan               what the user wants
    parts              the plug-ins and the executor of a plan
    driver             Driver: `open`, `loop`, `close`
    interrupts         signals during a run
    open_run           directory, lock and journal
    resume, replay     ResumedDriver; the journal, told to trials and plug-ins
    snapshot           the states of plug-ins
    run                Run: what the parts below work on
    state              RunState: settings, trials, requests; WaitingTrials
    tune_controller    TuneController: one turn of the loop
    events             EventHandler, ReportHandler: what follows from an event
    launching          TrialSource draws trials, TrialLauncher starts
    earlier_results    results of equal configurations
    confirming         repeats of the best trials
    hooks              Hooks: all calls to plug-ins
    transitions        `take`: a transition, its record, the hooks around it
    actions            TrialActions: decisions, commands to workers
    report_path        ReportPath: plain reports, a shorter way
    failure            Failures: failed attempts, lost workers
    objectives         Objectives: the metrics that a result needs
    limits             Backoff and Deadlines
"""
