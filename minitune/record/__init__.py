"""The files of a run on disk. This folder knows no plug-ins and no driver.

::

    records             the fields of each kind of record
    codec               a record as JSON, and back
    journal, lines      Journal: one line for each record, with a checksum; its readers
    lock                RunLock: one driver for each run; whether files can be trusted
    requests            what another process asks a driver for
    layout              names of runs, directories and error files
    recorder            Recorder: writes all events of the trials
    trial_directories   makes, checks and cleans them
    checkpoint_manager  which checkpoints are kept
    housekeeper         the thread that syncs and removes files
    run_files           what else a resume needs
    story               Story: the state of a run, from its records
    reports, decisions  views of it: the results of a trial, why things were decided
    past_run            the learning curves of a run, for simulations
    standing            whether a run is running, has ended, or was interrupted

Writing: Recorder, `records`, `codec`; `Recorder.write` writes all added lines at once. Then checkpoints are removed.
Reading: `journal`, `codec`, Story; commands and plots use `story.read_run`.
"""
