"""One module per page: it reads the address, queries the job provider, and renders its template.

jobs        all jobs, with search, filters and sorting
job         overview of one job: progress, failure, timeline, goodput
tasks       the tasks of a job, in pages
task        one task: status, task attempts, output
log         the output of a task
metrics     metrics as charts and tables
events      the event log
settings    the resolved configuration
files       the files of the job directory
advice      recommendations
compare     two jobs side by side
waste       reserved but unused GPU- and GB-hours, by user and week
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.responses import Response

from tony.web.pages import advice, compare, events, files, job, jobs, log, metrics, settings, task, tasks, waste
from tony.web.request import PageRequest

Page = Callable[[PageRequest], Awaitable[Response]]

_LOG = "/job/{job}/log/{task}/{stream}"
#: Address -> page. A single-job server has only the pages of the job, without the prefix `/job/{job}`.
PAGES: Sequence[tuple[str, Page]] = (
    ("/", jobs.render_page),
    ("/compare", compare.render_page),
    ("/waste", waste.render_page),
    ("/job/{job}", job.render_page),
    ("/job/{job}/timeline", job.render_timeline),
    ("/job/{job}/tasks", tasks.render_page),
    ("/job/{job}/task/{task}", task.render_page),
    (_LOG, log.render_page),
    (f"{_LOG}/more", log.serve_more),
    (f"{_LOG}/follow", log.follow),
    ("/job/{job}/metrics", metrics.render_page),
    ("/job/{job}/points", metrics.serve_points),
    ("/job/{job}/events", events.render_page),
    ("/job/{job}/settings", settings.render_page),
    ("/job/{job}/files", files.render_page),
    ("/job/{job}/advice", advice.render_page),
)
