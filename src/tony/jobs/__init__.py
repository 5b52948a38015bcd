"""Client-side operations on jobs, for the command line, the Python API and the portal.

`state_dir` finds the state directory, `job_ids` resolves job ids, `job_list` lists jobs.

`job_view` is one job for commands and the Python API: `directory/` sees it through its directory, which is what pages
show, too; `portal_client/` through a portal.

Status: `status/`, which queries the running AM (`am_client`). Requests: `actions`. Ports of tasks: `tunnel_client`.
Following: `job_follower`, `job_output`. Output: `log_files`, `log_lines`, `log_reader`, `log_tail`.
Reports: `job_metrics`, `comparison`, `otlp_export`.
Other machines: `remote/`. The end: `failure_text` describes it.
"""
