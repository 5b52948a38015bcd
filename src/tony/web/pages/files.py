"""The files of a job directory: the list, and each file as a download."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from tony.web.pages.job_layout import await_part, build_frame
from tony.web.request import PageError, PageRequest
from tony.web.template_rendering import render


async def render_page(page_request: PageRequest) -> Response:
    view, report = await page_request.find_job()
    values = await build_frame(page_request, view, report, "files")
    values["files"] = await await_part(view.files())
    return render("files.html", page_request, values)


async def serve_file(page_request: PageRequest) -> Response:
    """Return a file as a download, so that no browser renders it as a page."""
    view, _ = await page_request.find_job()
    path = page_request.get_word("path")
    content = await view.file(path)
    if content is None:
        raise PageError(404, "File not found", "The job directory has no such file, or it may not be downloaded.")
    return StreamingResponse(
        content, media_type="application/octet-stream", headers=build_download_headers(path.rpartition("/")[2])
    )


def build_download_headers(name: str) -> dict[str, str]:
    """Return headers that make a browser save the response as a file of that name."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
