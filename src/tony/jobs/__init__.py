"""Jobs seen from outside, for the command line, the Python API and the pages.

`state_dir` finds where state lies, `job_ids` which job is meant.

Status: `facts` asks the running AM (`am_client`), the summary or the record; `job_list` does so for many.
Actions: `killing`, `changing`; through a portal: `portal_client`, `portal_logs`, `portal_stacks`.
Following: `job_follower`; output by `log_tail`, `log_reader` and `log_stream`, events by `job_events`.
As a whole: `told` (timeline and goodput), `job_metrics`, `progress`, `comparison`, `otlp_export`.
On other machines: `remote_jobs` keeps the job directory here up to date; `log_fetcher` and `log_mirror` copy output.
The end: `failure_text` and `failure_hints` word it; `finalize_lost` and `dead_am_report` close the record of a job
whose AM died, `aborted_submissions` removes what a killed submission left.
"""
