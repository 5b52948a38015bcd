"""The record of every job: where it lies, how it is written and read.

    files               small files of JSON, whole or not at all
    record              who submitted what, and how it ended
    requests            what somebody wants while nobody answers
    log, event_tail     what happened, in order; reading on while it is written
    replay              the log, fed to a fresh machine
    sessions            why each session began, and with how many tasks
    index, listing      many jobs at a glance

What was measured:

    metrics_file        how the file is laid out
    metrics_writer      the application master writes it
    metrics             everybody reads it
    marks               what programs told of their steps and checkpoints

What follows from log and measurements, without a look at anything else:

    timeline            what each task was doing when
    goodput             where the time went
    exposition          jobs as numbers for Prometheus
    trace               a job's life for OpenTelemetry
"""
