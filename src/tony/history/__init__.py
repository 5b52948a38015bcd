"""The history of jobs: how a job directory is written and read, and what follows from it alone.

`job_record` has who submitted what and how it ended, `event_log` what happened in order (`event_tail` follows it,
`replay` feeds it to a fresh state machine), `metrics_writer` and `metrics_reader` the metrics (`metrics_schema`),
`progress_records` the steps and checkpoints that programs reported. `job_listing` and `ended_jobs_index` list many
jobs. `timeline`, `goodput`, `prometheus_text` and `otlp_trace` are computed from these files without asking anything
else.
"""
