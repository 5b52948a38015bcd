"""The list of the files of a job directory; each is downloaded from the API."""

from __future__ import annotations

from starlette.responses import Response

from tony.web.pages.job_layout import await_part, build_frame
from tony.web.request import PageRequest
from tony.web.template_rendering import render


async def render_page(page_request: PageRequest) -> Response:
    view, report = await page_request.find_job()
    values = await build_frame(page_request, view, report, "files")
    values["files"] = await await_part(view.files())
    return render("files.html", page_request, values)
