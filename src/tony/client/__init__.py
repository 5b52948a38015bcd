"""Stages and submits jobs, and the Python API. `jobs/` reads and controls them afterwards.

python_api             the Python API for scripts and notebooks; its methods are made of those of a job view
portal_python_api      the same for the jobs of a portal
submission             checks, stages, records and submits a job
staging                its files
credential_creation, certificate_authority    its secrets
port_forward           local ports that lead to its tasks
"""
