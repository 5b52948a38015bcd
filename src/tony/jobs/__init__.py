"""Client-side operations on jobs, for the command line, the Python API and the portal.

`state_dir` finds the state directory, `job_ids` resolves job ids.

`view` is one job for commands and the Python API: `directory/` sees it through its directory, which is what pages show,
too; `portal_view` through a portal.

Status: `job_status` queries the running AM (`am_client`), the summary or the record; `job_list` does so for many jobs.
Requests: `killing`, `changing`; to a portal: `portal_client`.
Following: `job_follower`; output by `log_follower`, `log_reader` and `log_stream`.
Reports: `job_metrics`, `progress`, `comparison`, `otlp_export`.
Other machines: `remote_job_sync` keeps a local copy of the job directory; `log_fetcher` and `log_mirror` copy output.
The end: `failure_text` and `failure_hints` describe it; `finalize_lost` and `dead_am_report` write the summary of a job
whose AM died; `aborted_submissions` removes what a killed submission left.
"""
