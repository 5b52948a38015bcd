"""Stages and submits jobs, and the Python API. `jobs/` reads and controls them afterwards.

job, event_loop_thread   the Python API for scripts and notebooks, and its event loop
remote_portal            the same API for the jobs of a portal
output_lines             output lines of both
submission               checks, stages, records and submits a job
staging, credentials     its files and its secrets
port_forward             local ports that lead to its tasks
"""
