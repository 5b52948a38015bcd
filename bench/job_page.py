"""Pages of a job of 10,000 tasks, and of a log of 1 GB: how long the server works on each, and how many bytes it sends.

The job is made up: its gang failed once, started again in its containers, and succeeded; 100,000 events. No network is
involved: the application is called as its server calls it, and there are no other requests. A first
look reads summary and events; what was read is kept, for the job has ended. Its picture takes longer than the page
waits for it; the page's script shows it once it is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from starlette.types import ASGIApp, Message

from bench.event_sequences import ordinary, ordinary_spec
from bench.harness import Figures, Line, Result, Unit, at_most, interleaved
from tests.web.home_source import HomeSource
from tony.core.application import Application
from tony.core.report_builder import ReportContext, build_report
from tony.history.event_log import FORMAT, VERSION, Header, LogWriter, settings_digest
from tony.history.job_record import write_summary
from tony.history.json_files import write_json
from tony.isolated_interpreter import settle
from tony.model.codec import to_plain
from tony.model.state_directory import Home
from tony.model.states import JobState
from tony.testing.sample_jobs import build_prepared_job
from tony.web.app import create
from tony.web.assets import load_assets
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator
from tony.web.uvicorn_server import PEER

TITLE = "Pages of a job of 10,000 tasks"

_JOB = "local-20260101-000000-0a1b2c"
_SUBMITTED = 1_760_000_000.0
_LINE = b"epoch 12/90 step 4100/5004 loss 2.1834 lr 0.1 \x1b[36m841 images/s\x1b[0m\n"
_MIB = 1 << 20


def measure(quick: bool) -> Result:
    """Each page several times, after one first look."""
    tasks, size, rounds = (20, _MIB, 1) if quick else (10_000, 1024 * _MIB, 9)
    with tempfile.TemporaryDirectory(prefix="tony-bench-") as folder:
        home = Home(Path(folder))
        _write(home, tasks, size)
        job = f"/job/{_JOB}"
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            ask = _asker(
                loop,
                create(ServerContext(HomeSource(home, "ann"), Authenticator(AuthConfig(key=b"k" * 32, owner="ann")))),
            )
            settle()  # as the portal does
            first = ask(job)
            picture = ask(f"{job}/timeline")
            ways: dict[str, Callable[[], Figures]] = {
                "jobs": lambda: ask("/"),
                "job": lambda: ask(job),
                "tasks": lambda: ask(f"{job}/tasks?sort=since&text=host-7&from=100"),
                "task": lambda: ask(f"{job}/task/worker:{tasks - 1}"),
                "log": lambda: ask(f"{job}/logs?task=worker:0&stream=out&text=x"),
                "end": lambda: ask(f"{job}/logs?task=worker:0&stream=out"),
            }
            seen = interleaved(ways, rounds)
    own = sum(len(load_assets()[name].content) for name in ("style.css", "page.js", "icon.svg"))
    return Result(
        lines=(
            Line(what="the job's page, a first look", value=first["wall"], target=at_most(0.1)),
            seen.line("again", "job", "wall", target=at_most(0.1)),
            Line(what="its timeline, a first look", value=picture["wall"]),
            seen.line("its tasks: searched, ordered, 100 of them", "tasks", "wall", target=at_most(0.1)),
            seen.line("one task", "task", "wall", target=at_most(0.1)),
            seen.line("a text in a log of 1 GB", "log", "wall", target=at_most(0.1)),
            seen.line("its end", "end", "wall", target=at_most(0.1)),
            seen.line("the list of jobs", "jobs", "wall", target=at_most(0.1)),
            Line(what="the job's page, bytes", unit=Unit.BYTES, value=seen.median("job", "size")),
            Line(
                what="the first page with all that it loads, bytes",
                unit=Unit.BYTES,
                value=seen.median("jobs", "size") + own,
                target=at_most(150_000),
            ),
        ),
        notes=(f"{tasks} tasks; nothing is compressed on the way.",),
    )


def _asker(loop: asyncio.AbstractEventLoop, app: ASGIApp) -> Callable[[str], Figures]:
    """What asks for one page: seconds until the last byte, and how many bytes."""

    async def ask(path: str) -> Figures:
        place, _, query = path.partition("?")
        size = 0

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            nonlocal size
            assert message.get("status", 200) == 200, message
            size += len(message.get("body", b""))

        scope = {
            "type": "http",
            "method": "GET",
            "path": place,
            "raw_path": place.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", b"127.0.0.1")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "scheme": "http",
            "http_version": "1.1",
            "root_path": "",
            PEER: os.geteuid(),
        }
        began = time.perf_counter()
        await app(scope, receive, send)
        return {"wall": time.perf_counter() - began, "size": float(size)}

    return lambda path: loop.run_until_complete(ask(path))


def _write(home: Home, tasks: int, size: int) -> None:
    """The record of the job, and a log of that size."""
    spec = replace(ordinary_spec(tasks), name="a job of many tasks")
    prepared = build_prepared_job(home.path, spec, _JOB)
    folder = prepared.folder
    write_json(folder.job, to_plain(replace(prepared.record, user="ann", submitted=_SUBMITTED)))
    app = Application(_JOB, spec)
    header = Header(format=FORMAT, version=VERSION, job=_JOB, attempt=1, settings=settings_digest(spec))
    log = LogWriter(folder.events(1), header)
    at = 0.0
    for event, at in ordinary(tasks):
        app.handle(event, at)
        log.append(event, at, _SUBMITTED + at)
    log.close()
    around = ReportContext(folder=str(folder.path), user="ann", submitted=_SUBMITTED, live={})
    ended = build_report(app, at, around)
    state = ended.state if ended.state.ended else JobState.SUCCEEDED
    write_summary(folder, replace(ended, state=state, exit_code=0, ended=_SUBMITTED + at))
    with (folder.logs / "worker-0.s2.t1.out").open("wb") as file:
        block = _LINE * (_MIB // len(_LINE))
        while file.tell() < size:
            file.write(block)
        os.fsync(file.fileno())
