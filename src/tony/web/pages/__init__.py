"""One module per page: it reads the address, asks the source, and fills its template.

jobs        all jobs: search, filters, order
job         one job at a glance: how far, why it failed, its timeline, where its time went
tasks       its tasks, a page at a time
task        one of them: its tries, how to reach its output
log         what a task printed
metrics     what was measured, as charts and tables
events      what happened
settings    the resolved configuration
files       the files of its record
advice      what could be better about it
compare     two jobs side by side
waste       hours that were held for nothing, by user and week
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.responses import Response

from tony.web.pages import advice, compare, events, files, job, jobs, log, metrics, settings, task, tasks, waste
from tony.web.request import PageRequest

Page = Callable[[PageRequest], Awaitable[Response]]

_LOG = "/job/{job}/log/{task}/{stream}"
#: Address -> page. Where a job is served alone, its own are without `/job/{job}`, and there are no others.
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
