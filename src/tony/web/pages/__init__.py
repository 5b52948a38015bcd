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
    ("/", jobs.page),
    ("/compare", compare.page),
    ("/waste", waste.page),
    ("/job/{job}", job.page),
    ("/job/{job}/timeline", job.timeline),
    ("/job/{job}/tasks", tasks.page),
    ("/job/{job}/task/{task}", task.page),
    (_LOG, log.page),
    (f"{_LOG}/more", log.more),
    (f"{_LOG}/follow", log.follow),
    (f"{_LOG}/download", log.download),
    ("/job/{job}/metrics", metrics.page),
    ("/job/{job}/points", metrics.points),
    ("/job/{job}/events", events.page),
    ("/job/{job}/settings", settings.page),
    ("/job/{job}/files", files.page),
    ("/job/{job}/advice", advice.page),
    ("/job/{job}/file", files.one),
)
