"""TensorBoard's pages: what there is to show, starting one, and all that it answers, below an address of the portal's.

    /tensorboard/JOBS             one job, or several with commas between
    /tensorboard/JOBS/start       PUT: starts one on their event files
    /tensorboard/JOBS/board/...   what it answers
    /tensorboard/JOB/live/...     what a running job's own answers, through its application master

Each request asks the gate again, for each of the jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tony.dataclass import dataclass
from tony.errors import ConnectionFailed, OverloadedError, TonyError, UserError
from tony.jobs.tunnel_client import opened
from tony.linux.threads import Slots
from tony.model.ids import JOB_ID, TaskId
from tony.model.job_query import Query
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.layout import Home, JobFolder
from tony.portal.history_location import open_location
from tony.portal.indexed_jobs import IndexedJobs
from tony.portal.reverse_proxy import RequestTooLargeError, forward_request
from tony.portal.tensorboard_event_files import EventFileSet, TensorBoardSource, find, gather
from tony.portal.tensorboard_manager import NotInstalled, TensorBoardManager
from tony.rpc.tunnel import carry
from tony.storage.store import FileStore
from tony.web.app import problem, refused
from tony.web.auth import Authenticator
from tony.web.authorization import AccessDenied, PortalAction, PortalUser, find_job, jobs_for
from tony.web.lanes import STORES
from tony.web.links import Links
from tony.web.request import PageRequest
from tony.web.template_rendering import render

#: Jobs shown together, bytes of a request to start one, jobs to choose from.
_MOST_JOBS, _LONGEST, _OTHERS = 8, 8192, 20
#: Requests handed on at a time, and of these those of one user.
_AT_ONCE = 200
_AT_ONCE_FOR_ONE_USER = 40


@dataclass(frozen=True, slots=True)
class _One:
    report: JobReport
    record: JobRecord | None
    place: TensorBoardSource


@dataclass(frozen=True, slots=True)
class _Found:
    job: str
    summaries: EventFileSet


@dataclass(frozen=True, slots=True)
class _Running:
    task: str
    href: str
    why: str = ""


class _NotShown(Exception):  # noqa: N818 - what the answer is
    def __init__(self, status: int, title: str, what: str) -> None:
        self.status, self.title, self.what = status, title, what
        super().__init__(title)


class TensorBoardRoutes:
    """The routes.

    Args:
        boards: that were started; those of `home`, if nothing is said.
    """

    def __init__(
        self, home: Home, portal: IndexedJobs, door: Authenticator, boards: TensorBoardManager | None = None
    ) -> None:
        self._home, self._portal, self._door = home, portal, door
        self.boards = boards or TensorBoardManager(home.portal / "boards")
        self._slots = Slots(_AT_ONCE, _AT_ONCE, _AT_ONCE_FOR_ONE_USER)
        self._bridges: set[asyncio.Task[None]] = set()

    def routes(self) -> list[Route]:
        """For the application."""
        here, to = "/tensorboard/{jobs}", self._guarded
        return [
            Route("/tensorboard", to(self._together), methods=["GET"]),
            Route(here, to(self._page), methods=["GET"]),
            Route(f"{here}/start", to(self._start, as_json=True), methods=["PUT"]),
            Route(f"{here}/board/{{path:path}}", to(self._board), methods=["GET", "POST"]),
            Route(f"{here}/live/{{path:path}}", to(self._live), methods=["GET", "POST"]),
        ]

    async def close(self) -> None:
        """Ends all that was started."""
        for bridge in self._bridges:
            bridge.cancel()
        await asyncio.gather(*self._bridges, return_exceptions=True)
        await self.boards.close()

    def _guarded(
        self, answer: Callable[[Request, PortalUser], Awaitable[Response]], *, as_json: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        async def run(request: Request) -> Response:
            visitor = await self._door.visitor(request)
            if isinstance(visitor, AccessDenied):
                return _error(visitor.status, visitor.reason) if as_json else refused(request, visitor)
            try:
                return await answer(request, visitor)
            except _NotShown as error:
                status, title, what = error.status, error.title, error.what
            except OverloadedError as error:
                if not as_json:
                    raise
                status, title, what = 503, "", str(error)
            except TonyError as error:
                status, title, what = 502, "This cannot be shown", " ".join(str(error).split())
            return _error(status, what) if as_json else problem(request, status, title, what)

        return run

    # --- pages --------------------------------------------------------------------------------------------------------

    async def _together(self, request: Request, visitor: PortalUser) -> Response:
        """From a form to the page of its jobs."""
        names = [request.query_params.get("jobs", ""), request.query_params.get("with", "")]
        jobs = [job for text in names for job in text.split(",") if job]
        return await self._shown(request, visitor, _checked(jobs))

    async def _page(self, request: Request, visitor: PortalUser) -> Response:
        return await self._shown(request, visitor, _jobs(request))

    async def _shown(
        self, request: Request, visitor: PortalUser, jobs: tuple[str, ...], *, stopped: bool = False, status: int = 200
    ) -> Response:
        ones = await self._ones(visitor, jobs)
        found = await STORES.run(self._find_alone, ones)
        asked = PageRequest(
            request=request, visitor=visitor, source=self._portal, links=Links.of(request.scope["path"]), only=""
        )
        values: dict[str, object] = {
            "title": "TensorBoard",
            "reports": [one.report for one in ones],
            "jobs": ",".join(jobs),
            "found": [_Found(job, summaries) for job, summaries in found.items()],
            "any": any(each.files for each in found.values()),
            "installed": self.boards.installed(),
            "running": _running(visitor, ones[0], asked.links) if len(ones) == 1 else None,
            "others": await self._others(visitor, ones) if len(jobs) < _MOST_JOBS else (),
            "stopped": stopped,
        }
        return render("tensorboard.html", asked, values, status)

    async def _others(self, visitor: PortalUser, ones: list[_One]) -> list[JobHead]:
        query = Query(text=ones[0].report.name, most=_OTHERS)
        shown = {one.report.job for one in ones}
        page = await jobs_for(visitor, self._portal, query)
        return [head for head in page.heads if head.job not in shown and not head.damaged]

    async def _start(self, request: Request, visitor: PortalUser) -> Response:
        token = await _token(request)
        refusal = self._door.change(request, visitor, token)
        if refusal is not None:
            return _error(refusal.status, refusal.reason)
        jobs = _jobs(request)
        ones = await self._ones(visitor, jobs)

        def bring(folder: Path) -> None:
            with ExitStack() as stack:
                found = self._find(ones, stack)
                if not any(each.files for each in found.values()):
                    raise UserError("no event file was found: the page TensorBoard of the job says where.")
                gather(found, folder)

        try:
            await self.boards.open(jobs, bring)
        except NotInstalled as error:
            return _error(503, str(error))
        except UserError as error:
            return _error(409, str(error))
        except TonyError as error:
            return _error(503, str(error))
        return JSONResponse({"jobs": list(jobs), "open": "board/"})

    def _find_alone(self, ones: list[_One]) -> Mapping[str, EventFileSet]:
        """What there is, without reading it; the stores are closed again in the thread that opened them."""
        with ExitStack() as stack:
            return self._find(ones, stack)

    def _find(self, ones: list[_One], stack: ExitStack) -> Mapping[str, EventFileSet]:
        stores: dict[str, FileStore] = {}

        def store_of(address: str) -> FileStore:
            if address not in stores:
                stores[address] = open_location(address, self._home, os.environ)
                stack.callback(stores[address].close)
            return stores[address]

        found = {}
        for one in ones:
            if one.record is None:
                found[one.report.job] = EventFileSet(files=(), problems=("its settings were not kept.",), searched=())
            else:
                found[one.report.job] = find(one.place, one.record, store_of, self._portal.has_file_system_of)
        return found

    # --- what a TensorBoard answers -----------------------------------------------------------------------------------

    async def _board(self, request: Request, visitor: PortalUser) -> Response:
        jobs = _jobs(request)
        await self._ones(visitor, jobs)
        self._own(request)
        board = self.boards.of(jobs)
        if board is None:
            if request.method == "GET" and not request.path_params["path"]:
                return await self._shown(request, visitor, jobs, stopped=True, status=404)
            raise _NotShown(404, "It does not run", "This TensorBoard was stopped. Start it again.")
        with ExitStack() as stack:
            slot = await self._slots.acquire()
            stack.callback(slot.release)
            stack.enter_context(board.in_use())
            try:
                reader, writer = await board.connect()
            except OSError as error:
                raise ConnectionFailed(f"TensorBoard has ended: {error}") from error
            return await _handed_on(request, reader, writer, stack.pop_all())

    async def _live(self, request: Request, visitor: PortalUser) -> Response:
        one, *others = await self._ones(visitor, _jobs(request))
        running = None if others else _running(visitor, one, Links.of(request.scope["path"]))
        if running is None or not running.href:
            why = running.why if running else "Only a job that runs serves something itself."
            raise _NotShown(404, "It does not run", why)
        self._own(request)
        with ExitStack() as stack:
            slot = await self._slots.acquire()
            stack.callback(slot.release)
            reader, writer, bridge = await self._bridge(one.place.folder, TaskId.parse(running.task))
            stack.callback(bridge.cancel)
            return await _handed_on(request, reader, writer, stack.pop_all())

    async def _bridge(
        self, folder: JobFolder, task: TaskId
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Task[None]]:
        """A connection to the port that was reserved for a task; as long as the task that carries it runs."""
        here, there = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=here)
        far_reader, far_writer = await asyncio.open_unix_connection(sock=there)
        open_: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                async with opened(folder, task, 0) as (connection, _):
                    open_.set_result(None)
                    await carry(connection, far_reader, far_writer)
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

    # --- who may ------------------------------------------------------------------------------------------------------

    async def _ones(self, visitor: PortalUser, jobs: tuple[str, ...]) -> list[_One]:
        """The jobs, each of which the visitor may see.

        Raises:
            _NotShown: one of them is not there, or not for them; nobody learns which of the two.
        """
        found = []
        for job in jobs:
            seen = await find_job(visitor, self._portal, job)
            view = await self._portal.job(job) if seen else None
            if seen is None or view is None:
                raise _NotShown(404, "There is no such job here", "It may have been removed, or you may not see it.")
            found.append(_One(seen[1], await view.record(), view.place))
        return found

    def _own(self, request: Request) -> None:
        """What is sent there comes from a page of ours."""
        if request.method != "GET" and not self._door.own_page(request):
            raise _NotShown(403, "This was not done", "Another site's page asked for it.")


def _running(visitor: PortalUser, one: _One, links: Links) -> _Running | None:
    """What a job serves itself; None for one that has ended.

    What listens at that port is a program of the job's: unless it is the role `tensorboard`, nobody knows which, and
    whoever reaches it may be able to do anything there. So that is for those who may change the job.
    """
    if one.report.state.ended or one.record is None:
        return None
    task = one.record.spec.tensorboard_task
    if task is None:
        return _Running("", "", "No task of this job has a port for a TensorBoard: a role `tensorboard` would.")
    if not one.place.own:
        return _Running(str(task), "", "Only a portal of the job's own user reaches what it serves.")
    if task.role != "tensorboard" and not visitor.may(PortalAction.CHANGE, one.report, one.record):
        return _Running(str(task), "", f"What {task} serves is for those who may change the job.")
    return _Running(str(task), links.page(f"tensorboard/{one.report.job}/live/"))


def _jobs(request: Request) -> tuple[str, ...]:
    return _checked(request.path_params["jobs"].split(","))


def _checked(jobs: list[str]) -> tuple[str, ...]:
    if not jobs or len(jobs) > _MOST_JOBS or not all(JOB_ID.fullmatch(job) for job in jobs):
        raise _NotShown(404, "There is no such page", f"Name one job, or up to {_MOST_JOBS} with commas between.")
    return tuple(dict.fromkeys(jobs))


async def _handed_on(
    request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: ExitStack
) -> Response:
    try:
        return await forward_request(request, request.path_params["path"], reader, writer, held.close)
    except RequestTooLargeError:
        raise _NotShown(413, "This is too long", "No TensorBoard asks for so much at once.") from None


async def _token(request: Request) -> str:
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _LONGEST:
            return ""
    with contextlib.suppress(ValueError, RecursionError):
        told = json.loads(data or b"{}")
        if isinstance(told, dict) and isinstance(told.get("token"), str):
            return str(told["token"])
    return ""


def _error(status: int, what: str) -> Response:
    told = {"status": status, "code": "tensorboard", "message": " ".join(what.split()), "advice": ""}
    return JSONResponse({"error": told}, status)
