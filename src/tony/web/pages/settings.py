"""The resolved configuration: every value, and where it was set."""

from __future__ import annotations

from starlette.responses import Response

from tony.config.table.resolved_table import ResolvedRow, list_recorded_rows
from tony.errors import RecordError
from tony.linux.thread_pools import to_thread
from tony.model.submission_record import JobRecord
from tony.web.pages.job_layout import Unknown, await_part, build_frame
from tony.web.request import PageRequest
from tony.web.template_rendering import render


async def render_page(page_request: PageRequest) -> Response:
    view, report = await page_request.find_job()
    values = await build_frame(page_request, view, report, "settings")
    record = await await_part(view.record())
    found: object = record
    if isinstance(record, JobRecord):
        found = await to_thread(build_rows, record)
    every = page_request.get_word("all") == "yes"
    if isinstance(found, tuple):
        values["default_count"] = sum(row.source == "default" for row in found)
        found = tuple(row for row in found if every or row.source != "default")
    values |= {"rows": found, "every": every}
    return render("settings.html", page_request, values)


def build_rows(record: JobRecord) -> tuple[ResolvedRow, ...] | Unknown:
    """Return every setting with secrets masked, or why that is impossible."""
    try:
        return list_recorded_rows(record)
    except RecordError as error:
        return Unknown(f"{error}")
