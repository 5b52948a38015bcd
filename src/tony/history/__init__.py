"""The record of every job: where it lies, how it is written and read.

    json_files          small files of JSON, whole or not at all
    job_record          who submitted what, and how it ended
    kill_request        what somebody wants while nobody answers
    log, event_tail     what happened, in order; reading on while it is written
    replay              the log, fed to a fresh machine
    session_facts       why each session began, and with how many tasks
    index, listing      many jobs at a glance

What was measured:

    metrics_schema      how the file is laid out
    metrics_writer      the application master writes it
    metrics_reader      everybody reads it
    progress_records    what programs told of their steps and checkpoints

What follows from log and measurements, without a look at anything else:

    timeline            what each task was doing when
    goodput             where the time went
    prometheus_text     jobs as numbers for Prometheus
    otlp_trace          a job's life for OpenTelemetry
"""
