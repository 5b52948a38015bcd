"""The files of a job's record: a list, and each of them as it is."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from tony.web.pages.job_layout import frame, known
from tony.web.request import NotAnswered, PageRequest
from tony.web.template_rendering import render


async def page(asked: PageRequest) -> Response:
    """The list."""
    view, report = await asked.job()
    values = await frame(asked, view, report, "files")
    values["files"] = await known(view.files())
    return render("files.html", asked, values)


async def one(asked: PageRequest) -> Response:
    """One of them, to be kept: no browser is to take it for a page."""
    view, _ = await asked.job()
    path = asked.word("path")
    content = await view.file(path)
    if content is None:
        raise NotAnswered(404, "There is no such file", "The record has other files, or this one may not be shown.")
    return StreamingResponse(content, media_type="application/octet-stream", headers=kept_as(path.rpartition("/")[2]))


def kept_as(name: str) -> dict[str, str]:
    """Headers by which a browser keeps an answer as a file of that name."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
