"""Pages and a JSON API over jobs: an ASGI library. The portal serves it for many jobs, a running job for itself.

`app` is the application; `api/` the JSON API, `pages/` one module per page with `templates/`. Both ask a `job_source`
for jobs: the portal's index, `home_source`, or `single_job_source` for one running job (its process is `am_server`).
`folder_job_view` is one job, from its directory and its AM; `log_files` and `remote_logs` have its output.

Users: `auth` authenticates a connection, `principal` is the result, `authorization` decides what that user may see
and change, `login_throttle` counts wrong tokens. `secret_masking` masks what looks like a secret.

Blocking work runs in one lane of threads for each kind (`lanes`), so that lists never wait for records.
"""
