"""Stages and submits jobs, and the Python API. `jobs/` reads and controls them afterwards.

job, portal            the Python API for scripts and notebooks: jobs here, and of a portal
blocking               makes its methods from those of a job view, and runs them in an event loop of their own
submission             checks, stages, records and submits a job
staging, credentials   its files and its secrets
port_forward           local ports that lead to its tasks
"""
