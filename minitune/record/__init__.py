"""The files of a run on disk: writing and reading them. This folder knows values only: no plug-ins, no driver.

Modules
-------
::

    records             the fields of each kind of record
    codec               a record as JSON, and back
    journal             Journal: the file of these texts, one a line with a checksum; and its readers
    lock                RunLock: one driver for each run; and whether the run's files can be trusted
    requests            what another process asks a driver for: to stop a trial
    layout              names of runs, of the directories of trials and of their error files
    recorder            Recorder: writes all events of the trials for the driver
    trial_directories   TrialDirectories: makes, checks and cleans the directories of trials
    checkpoint_manager  CheckpointManager: which checkpoints are kept
    housekeeper         Housekeeper: the thread that syncs and removes files
    run_files           `tuner.pkl` and `trainable.pkl`, which a resume needs besides the journal
    story               Story: the state of a run, from its records
    standing            whether a run is running, has ended, or was interrupted

Writing
-------
The driver calls a method of the Recorder, which makes a record (`records`), encodes it (`codec`), and adds it to the
journal. `Recorder.write` writes all added records at once. Checkpoints are removed after it: the CheckpointManager
decides which, the Housekeeper removes the files.

Reading
-------
`journal` reads lines, `codec` decodes them, and a Story applies them one after the other. Commands, results and plots
read runs by `story.read_run`. `minitune.driver.replay` is a Story that also calls the plug-ins.
"""
