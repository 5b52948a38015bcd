"""Frozen values that every part uses. No I/O, no decisions.

The job: `job_spec`, `ids`, `states`, `staged_files`. Its status: `job_report`, `exit_status`, `metric_definitions`,
`progress` (with `progress_rules`: rate, remaining time, stalls). Its history: `submission_record`, `job_summary`,
`layout`. `codec` and `strict_json` convert all of them to and from JSON; `masking` masks secrets in text.
"""
