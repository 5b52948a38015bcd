"""Frozen values that every part uses. No I/O, no decisions.

The job: `job_spec`, `ids`, `states`, `file_entry`, `staged_files`. Its status: `job_report`, `failure`, `program_exit`,
`metric_definitions`, `progress` (with `progress_rules`: rate, remaining time, stalls). Its history:
`submission_record`, `job_summary`, `state_directory`. `codec` and `strict_json` convert all of them to and from JSON;
`masking` masks secrets in text.
"""
