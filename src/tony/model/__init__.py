"""Frozen values that every part uses. No I/O, no decisions.

The job: `job_spec`, `ids`, `states`, `staged`. Its status: `job_report`, `exit_status`,
`metric_definitions`, `progress`. Its history: `job_record`, `job_summary`, `layout`. `codec` and `strict_json` convert
all of them to and from JSON; `masking` masks secrets in text.
"""
