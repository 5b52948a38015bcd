"""Frozen values that every part uses. No I/O, no decisions.

What runs: `job_spec`, `ids`, `states`, `cluster_spec`, `staged`. How it is doing: `job_report`, `exit_status`,
`metrics`, `progress`. What is kept of it: `job_record`, `job_summary`, `layout`. `codec` and `json_text` convert all
of them to and from JSON; `masking` replaces secrets in text.
"""
