"""TensorBoard's pages: what there is to show, starting a TensorBoard, and forwarding requests to it.

    /tensorboard/JOBS             one job, or several, comma-separated
    /tensorboard/JOBS/start       PUT: start a TensorBoard on their event files
    /tensorboard/JOBS/board/...   forwarded to it
    /tensorboard/JOB/live/...     forwarded to the running job's own TensorBoard, through its AM

Each request is authorized again, for each of the jobs.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tony.errors import ConnectionFailedError, InfraError, TonyError, UserError
from tony.jobs.tunnel_client import open_tunnel
from tony.linux.thread_pools import STORES, Slots
from tony.model.ids import JOB_ID, TaskId
from tony.model.job_query import Query
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import JobRecord
from tony.portal.histories.history_locations import open_location
from tony.portal.histories.job_dir_location import JobDirLocation
from tony.portal.indexed_jobs import IndexedJobs, PortalView
from tony.portal.tensorboard.event_file_collection import EventFileSet, find, gather
from tony.portal.tensorboard.reverse_proxy import forward_request
from tony.portal.tensorboard.tensorboard_manager import TensorBoardManager, TensorBoardMissingError
from tony.storage.stores.store_interface import FileStore
from tony.web.api.operation import ApiError
from tony.web.api.request_handler import authenticate, check_change, respond
from tony.web.app import wrap_page
from tony.web.authorization import PortalAction, User, find_job, list_visible_jobs
from tony.web.pages.job_layout import build_frame
from tony.web.request import Links, PageError, PageRequest
from tony.web.server_context import ServerContext
from tony.web.template_rendering import render

#: Maximum jobs shown together, and jobs offered to add.
_MAX_JOBS = 8
_MAX_OTHER_JOBS = 20
#: Maximum requests forwarded concurrently: in total, and of one user.
_MAX_REQUESTS = 200
_MAX_REQUESTS_OF_ONE_USER = 40


@dataclass(frozen=True, slots=True)
class _ShownJob:
    report: JobReport
    record: JobRecord | None
    place: JobDirLocation


@dataclass(frozen=True, slots=True)
class _FoundFiles:
    job: str
    summaries: EventFileSet


@dataclass(frozen=True, slots=True)
class _LiveBoard:
    task: TaskId | None
    href: str
    why: str = ""


class TensorBoardRoutes:
    """The routes below `/tensorboard`.

    Args:
        boards: default a manager in the portal's folder of `home`.
    """

    def __init__(
        self, home: Home, portal: IndexedJobs, context: ServerContext, boards: TensorBoardManager | None = None
    ) -> None:
        self._home, self._portal, self._context = home, portal, context
        self.boards = boards or TensorBoardManager(home.portal / "boards")
        self._slots = Slots(_MAX_REQUESTS, _MAX_REQUESTS, _MAX_REQUESTS_OF_ONE_USER)
        self._bridges: set[asyncio.Task[None]] = set()

    def build_routes(self) -> list[Route]:
        """Return the routes for the application."""
        jobs = "/tensorboard/{jobs}"
        return [
            Route("/tensorboard", wrap_page(self._context, self._serve_page_of_form), methods=["GET"]),
            Route(jobs, wrap_page(self._context, self._serve_page), methods=["GET"]),
            Route(f"{jobs}/start", self._serve_start, methods=["PUT"]),
            Route(f"{jobs}/board/{{path:path}}", wrap_page(self._context, self._serve_board), methods=["GET", "POST"]),
            Route(f"{jobs}/live/{{path:path}}", wrap_page(self._context, self._serve_live), methods=["GET", "POST"]),
        ]

    async def close(self) -> None:
        """Stop all TensorBoards and close all connections."""
        for bridge in self._bridges:
            bridge.cancel()
        await asyncio.gather(*self._bridges, return_exceptions=True)
        await self.boards.close()

    # --- pages --------------------------------------------------------------------------------------------------------

    async def _serve_page_of_form(self, page_request: PageRequest) -> Response:
        """Show the page of the jobs chosen in a form."""
        names = [page_request.words.get("jobs", ""), page_request.words.get("with", "")]
        jobs = [job for text in names for job in text.split(",") if job]
        return await self._render_page(page_request, _check_jobs(jobs))

    async def _serve_page(self, page_request: PageRequest) -> Response:
        return await self._render_page(page_request, _parse_jobs(page_request.request))

    async def _render_page(
        self, page_request: PageRequest, jobs: tuple[str, ...], *, stopped: bool = False, status: int = 200
    ) -> Response:
        user = page_request.portal_user
        ones = await self._find_jobs(user, jobs)
        found = await STORES.run(self._find_once, ones)
        values: dict[str, object] = {"frame": "tensorboard_frame.html"}
        if len(jobs) == 1:
            view, report = await page_request.find_job(jobs[0])
            values = {**await build_frame(page_request, view, report, "tensorboard"), "frame": "job_frame.html"}
        values |= {
            "title": "TensorBoard",
            "reports": [one.report for one in ones],
            "jobs": ",".join(jobs),
            "found": [_FoundFiles(job, summaries) for job, summaries in found.items()],
            "any": any(file_set.files for file_set in found.values()),
            "installed": self.boards.is_installed(),
            "running": _find_live_board(user, ones[0], page_request.links) if len(ones) == 1 else None,
            "others": await self._list_other_jobs(user, ones) if len(jobs) < _MAX_JOBS else (),
            "stopped": stopped,
        }
        return render("tensorboard.html", page_request, values, status)

    async def _list_other_jobs(self, user: User, ones: list[_ShownJob]) -> list[JobHead]:
        query = Query(text=ones[0].report.name, most=_MAX_OTHER_JOBS)
        shown = {one.report.job for one in ones}
        page = await list_visible_jobs(user, self._portal, query)
        return [head for head in page.heads if head.job not in shown and not head.damaged]

    async def _serve_start(self, request: Request) -> Response:
        return await respond(request, self._start)

    async def _start(self, request: Request) -> Response:
        """Start a TensorBoard; every response is JSON."""
        user = await authenticate(self._context.auth, request)
        await check_change(self._context.auth, request, user)
        jobs = _parse_jobs(request)
        ones = await self._find_jobs(user, jobs)

        def fetch_files(folder: Path) -> None:
            with self._find(ones) as found:
                if not any(file_set.files for file_set in found.values()):
                    raise UserError("no event files were found; the job's TensorBoard page lists the places searched")
                gather(found, folder)

        try:
            await self.boards.open(jobs, fetch_files)
        except (TensorBoardMissingError, InfraError) as error:
            raise ApiError(503, "no-tensorboard", str(error)) from error
        return JSONResponse({"jobs": list(jobs), "open": "board/"})

    def _find_once(self, ones: list[_ShownJob]) -> Mapping[str, EventFileSet]:
        with self._find(ones) as found:
            return found

    @contextmanager
    def _find(self, ones: list[_ShownJob]) -> Iterator[Mapping[str, EventFileSet]]:
        """List event files; their stores are open as long as the context lasts, and closed in the same thread."""
        stores: dict[str, FileStore] = {}

        def store_of(address: str) -> FileStore:
            if address not in stores:
                stores[address] = open_location(address, self._home, os.environ)
            return stores[address]

        unknown = EventFileSet(files=(), problems=("its settings are missing.",), searched=())
        try:
            yield {
                one.report.job: find(one.place, one.record, store_of, self._portal.has_file_system_of)
                if one.record
                else unknown
                for one in ones
            }
        finally:
            for store in stores.values():
                store.close()

    # --- forwarding ---------------------------------------------------------------------------------------------------

    async def _serve_board(self, page_request: PageRequest) -> Response:
        request = page_request.request
        jobs = _parse_jobs(request)
        await self._find_jobs(page_request.portal_user, jobs)
        self._check_own_page(request)
        board = self.boards.find(jobs)
        if board is None:
            if request.method == "GET" and not request.path_params["path"]:
                return await self._render_page(page_request, jobs, stopped=True, status=404)
            raise PageError(404, "TensorBoard is not running", "This TensorBoard was stopped. Start it again.")
        with ExitStack() as stack:
            slot = await self._slots.acquire()
            stack.callback(slot.release)
            stack.enter_context(board.track_use())
            try:
                reader, writer = await board.connect()
            except OSError as error:
                raise ConnectionFailedError(f"TensorBoard has ended: {error}") from error
            return await forward_request(request, request.path_params["path"], reader, writer, stack.pop_all().close)

    async def _serve_live(self, page_request: PageRequest) -> Response:
        request, user = page_request.request, page_request.portal_user
        one, *others = await self._find_jobs(user, _parse_jobs(request))
        running = None if others else _find_live_board(user, one, page_request.links)
        if running is None or running.task is None or not running.href:
            why = running.why if running else "Only a running job serves a TensorBoard itself."
            raise PageError(404, "TensorBoard is not running", why)
        self._check_own_page(request)
        with ExitStack() as stack:
            slot = await self._slots.acquire()
            stack.callback(slot.release)
            reader, writer, bridge = await self._open_bridge(one.place.folder, running.task)
            stack.callback(bridge.cancel)
            return await forward_request(request, request.path_params["path"], reader, writer, stack.pop_all().close)

    async def _open_bridge(
        self, folder: JobFolder, task: TaskId
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Task[None]]:
        """Connect to the port reserved for a task, while the asyncio task that carries the connection runs."""
        near_end, far_end = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=near_end)
        far_reader, far_writer = await asyncio.open_unix_connection(sock=far_end)
        open_: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                async with open_tunnel(folder, task, 0) as tunnel:
                    open_.set_result(None)
                    await tunnel.carry(far_reader, far_writer)
            except TonyError as error:
                if not open_.done():
                    open_.set_exception(error)
            finally:
                far_writer.close()
                if not open_.done():
                    open_.cancel()

        bridge = asyncio.get_running_loop().create_task(run())
        self._bridges.add(bridge)
        bridge.add_done_callback(self._bridges.discard)
        try:
            await open_
        except BaseException:
            bridge.cancel()
            writer.close()
            raise
        return reader, writer, bridge

    # --- authorization ------------------------------------------------------------------------------------------------

    async def _find_jobs(self, user: User, jobs: tuple[str, ...]) -> list[_ShownJob]:
        """Return the jobs, each of which the user may see.

        Raises:
            PageError: one does not exist or may not be seen; the message does not tell which of the two.
        """
        found = []
        for job in jobs:
            seen = await find_job(user, self._portal, job)
            if seen is None:
                raise PageError(404, "Job not found", "It does not exist, or you do not have permission to view it.")
            view, report = seen
            assert isinstance(view, PortalView)
            found.append(_ShownJob(report, await view.record(), view.place))
        return found

    def _check_own_page(self, request: Request) -> None:
        """Refuse requests that change something and do not come from a page of this portal."""
        if request.method != "GET" and not self._context.auth.is_own_page(request):
            raise PageError(403, "Request refused", "It came from a page of another site.")


def _find_live_board(user: User, one: _ShownJob, links: Links) -> _LiveBoard | None:
    """Return the job's own TensorBoard; None if the job has ended.

    At that port any program of the job may listen, unless the role is `tensorboard`, and it may allow its clients to do
    anything. So it is only for users who may change the job.
    """
    if one.report.state.ended or one.record is None:
        return None
    task = one.record.spec.tensorboard_task
    if task is None:
        return _LiveBoard(None, "", "No task of this job has a port for a TensorBoard; add a role named `tensorboard`.")
    if not one.place.own:
        return _LiveBoard(task, "", "It can be reached only through a portal run by the job's owner.")
    if task.role != "tensorboard" and not user.may(PortalAction.CHANGE, one.report, one.record):
        return _LiveBoard(task, "", f"Only users who may change the job can access {task}.")
    return _LiveBoard(task, links.to_page(f"tensorboard/{one.report.job}/live/"))


def _parse_jobs(request: Request) -> tuple[str, ...]:
    return _check_jobs(request.path_params["jobs"].split(","))


def _check_jobs(jobs: list[str]) -> tuple[str, ...]:
    if not jobs or len(jobs) > _MAX_JOBS or not all(JOB_ID.fullmatch(job) for job in jobs):
        raise PageError(404, "Page not found", f"The address must name 1 to {_MAX_JOBS} jobs, separated by commas.")
    return tuple(dict.fromkeys(jobs))
