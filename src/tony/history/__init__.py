"""Job history: reading and writing a job directory, and everything that is computed from it alone.

`job_record` reads what was submitted and how it ended. `event_log` is the ordered log of events, and follows
it and `replay` feeds it to a fresh state machine. `metrics_writer` and `metrics_reader` store metrics
(`metrics_schema`), `session_facts` the reported steps and checkpoints. `directory_scan` and `ended_jobs_index` list
many jobs. `timeline`, `goodput`, `prometheus_text` and `otlp_trace` are computed from these files.
"""
