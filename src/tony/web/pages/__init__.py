"""The pages: each reads the address, queries the job provider, and renders its template.

jobs        all jobs, with search, filters and sorting; unused resources by user and week
job         overview of one job: progress, failure, timeline, goodput
job_tabs    its events, recommendations, configuration and files
tasks       its tasks, and one task
logs        the output of all tasks
metrics     metrics as charts and tables
compare     up to eight jobs side by side
charts      charts of metrics: their data and the newest values
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.responses import Response

from tony.web.pages import compare, job, job_tabs, jobs, logs, metrics, tasks
from tony.web.request import PageRequest

Page = Callable[[PageRequest], Awaitable[Response]]

#: Address -> page. A single-job server has only the pages of the job, without the prefix `/job/{job}`.
PAGES: Sequence[tuple[str, Page]] = (
    ("/", jobs.render_jobs),
    ("/compare", compare.render_page),
    ("/compare/points", compare.serve_points),
    ("/waste", jobs.render_waste),
    ("/job/{job}", job.render_page),
    ("/job/{job}/timeline", job.render_timeline),
    ("/job/{job}/tasks", tasks.render_tasks),
    ("/job/{job}/task/{task}", tasks.render_task),
    ("/job/{job}/logs", logs.render_page),
    ("/job/{job}/metrics", metrics.render_page),
    ("/job/{job}/points", metrics.serve_points),
    ("/job/{job}/events", job_tabs.render_events),
    ("/job/{job}/settings", job_tabs.render_settings),
    ("/job/{job}/files", job_tabs.render_files),
    ("/job/{job}/advice", job_tabs.render_advice),
)
