"""Web pages and a JSON API for jobs, as an ASGI library. Used by the portal (many jobs) and by each AM (its own job).

`app` is the application, `api/` the JSON API, `pages/` the pages with their `templates/`. Both read jobs
through a `job_provider`: the portal's index, or one running job (served by the
`am_server` process). One job is a `DirectoryJobView` (`tony.jobs.directory`).

Access control: `user_authentication` authenticates a request and counts wrong tokens, `authorization` defines what the
user may see and change.

Each kind of blocking work has its own threads (`lanes`), so that job lists never wait for job directories.
"""
