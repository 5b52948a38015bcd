"""Stages, submits and follows jobs.

The doors:

    blocking, background    for scripts and notebooks; the event loop behind it
    home, user, job_ids     where all state lies, who we are, which job is meant

A job begins:

    submission              checked, staged, recorded, handed over
    staging, certificates   its files and its secrets
    unfinished              what a killed submission has left

How it stands:

    facts, listing          from whoever knows: the living master, the summary, the record
    master                  asks the living application master
    killing                 ends a job

It is followed:

    following               states and output, to the end
    log_tail, log_reader    output while it is written; `log_names` says which files, `live_reader` shows progress bars
    log_stream, events      output and events for programs
    inotify                 woken instead of looking again and again
    queue_limit             ends a job that waits for its master too long
    proxy, tunnels          ports of its tasks, reached from here

It runs on other machines, and its folder here follows it:

    elsewhere               how it stands, its event log, its end
    remote_logs             output, asked of its application master while it is printed
    mirror                  the copies of its log files here

It ends:

    failure                 its end in words
    last_known              how it stood when it was heard of last, where nobody answers for it
    closing, post_mortem    the record of a job whose master died
"""
