"""A home with jobs in it, as pages and programs find it: real records, of lives that were simulated."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.history.simulated_logs import entries, life
from tony.core.report_builder import ReportContext, build_report
from tony.history.event_log import FORMAT, VERSION, Header, LogWriter, settings_digest
from tony.history.job_record import write_summary
from tony.history.json_files import write_json
from tony.history.metrics_schema import TaskMetricsUpdate
from tony.history.metrics_writer import MetricsWriter
from tony.model.codec import to_plain
from tony.model.job_spec import JobSpec
from tony.model.log_name import LogName
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.testing.sample_jobs import build_prepared_job
from tony.web.user_authentication import TrustedProxy
from tony.web.uvicorn_server import PEER

#: Seconds since 1970 at which the first of them was submitted.
LONG_AGO = 1_700_000_000.0
#: A proxy that authenticates users, for tests: a client from its addresses is the user that the header names.
TEST_PROXY = TrustedProxy(addresses=(ipaddress.ip_network("10.0.0.0/8"),), header="x-user")


def keep(
    home: Home, job: str = "local-20260101-000000-0a1b2c", *, user: str = "ann", seed: int = 3, **spec: Any
) -> JobFolder:
    """Puts the record of a job into a home, with events, output and measurements.

    Args:
        seed: of its life.
        spec: fields of the job that decide nothing: `viewers`, `env`, `name`.
    """
    lived = life(seed)
    cluster = lived.cluster
    said: JobSpec = replace(lived.spec, **{"name": "digits", **spec})
    prepared = build_prepared_job(home.path, said, job)
    folder = prepared.folder
    record = replace(prepared.record, user=user, submitted=LONG_AGO, host="here", sources={"name": "job.toml:1"})
    write_json(folder.job, to_plain(record))
    header = Header(format=FORMAT, version=VERSION, job=job, attempt=1, settings=settings_digest(said))
    log = LogWriter(folder.events(1), header)
    for entry in entries(cluster):
        log.append(entry.event, entry.at, LONG_AGO + entry.at)
    log.close()
    around = ReportContext(folder=str(folder.path), user=user, submitted=LONG_AGO, live={})
    ended = build_report(cluster.app, cluster.now, around)
    state = ended.state if ended.state.ended else JobState.SUCCEEDED
    write_summary(
        folder,
        replace(
            ended,
            job=job,
            name=said.name,
            state=state,
            exit_code=ended.exit_code or 0,
            ended=LONG_AGO + cluster.now,
            viewers=said.viewers,
            editors=said.editors,
        ),
    )
    first = said.task_ids[0]
    for stream in ("out", "err"):
        (folder.logs / LogName(*first, 1, 1, stream).file).write_text(f"line of {stream}\n" * 100)
    if ended.previous_failure and ended.previous_failure.log:
        (folder.path / ended.previous_failure.log).write_text("line of an earlier session\n")
    writer = MetricsWriter(folder.metrics, job, 5.0)
    writer.write([TaskMetricsUpdate(str(first), first.role, 5.0, True, 0, {"cpu": (1.0, 1.5, 2.0, 2.0, 2.5, 3.0)})])
    writer.close()
    return folder


def as_peer(app: ASGIApp, uid: int | None) -> ASGIApp:
    """The application behind a server that knows whose connections these are."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        scope[PEER] = uid
        await app(scope, receive, send)

    return run


def fetch(
    app: ASGIApp,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    client: str = "127.0.0.1",
    content: bytes = b"",
) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, client=(client, 50000), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8600") as browser:
            made = headers if isinstance(headers, Mapping) else list(headers)
            return await browser.request(method, path, headers=made, content=content or None)

    return asyncio.run(ask())
