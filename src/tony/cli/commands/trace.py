"""`tony trace JOB`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tony import __version__
from tony.cli.open_job import find_job
from tony.cli.options import job_argument, json_option
from tony.cli.terminal.output import print_json, say
from tony.cli.text.timeline_text import describe_missing_events
from tony.errors import UnknownJobError, UserError
from tony.history.metrics_reader import Metrics
from tony.jobs.otlp_export import ENDPOINT, HEADERS, build_traces_url, parse_headers, requests, send
from tony.model.codec import Json

if TYPE_CHECKING:
    from tony.history.timeline import Timeline
    from tony.jobs.directory.view import DirectoryJobView
    from tony.model.job_report import JobReport


@click.command("trace")
@job_argument
@click.option(
    "--otlp",
    metavar="URL",
    help="Collector, such as http://host:4318 [default: OTEL_EXPORTER_OTLP_ENDPOINT].",
)
@json_option("Without a collector: print the trace, one OTLP request per line. With one: print counts.")
def command(job: str, otlp: str | None, as_json: bool) -> None:
    """Export JOB as an OpenTelemetry trace.

    It has a span for the job, for each session, for each task of a session, and for each phase of a task: queue,
    allocate, container setup, rendezvous, warm-up, productive, checkpoint, recomputed (lost work), restart, idle.
    Exporting a job again gives the same trace. Headers for the collector are read from OTEL_EXPORTER_OTLP_HEADERS.
    """
    view = find_job(job)
    name = view.id
    url = otlp or os.environ.get(ENDPOINT, "")
    if not url:
        if not as_json:
            raise UserError(
                f"no collector given. Use tony trace {name} --otlp http://host:4318, or set {ENDPOINT}. "
                f"To print the trace: tony trace {name} --json"
            )
        for body in _build_requests(view):
            print(json.dumps(body, separators=(",", ":")))
        return
    sent = send(build_traces_url(url), _build_requests(view), parse_headers(os.environ.get(HEADERS, "")))
    if as_json:
        print_json({"job": name, "spans": sent.spans, "rejected": sent.rejected, "message": sent.message})
        return
    say(f"Sent {sent.spans} spans of {name} to {build_traces_url(url)}")
    if sent.rejected:
        say(f"The collector rejected {sent.rejected} of them{f': {sent.message}' if sent.message else ''}")


async def _load(view: DirectoryJobView) -> tuple[JobReport, Timeline]:
    report, line = await view.status(), await view.timeline()
    if line is None:
        raise UnknownJobError(describe_missing_events(view.id, report.state))
    return report, line


def _build_requests(view: DirectoryJobView) -> Iterator[Json]:
    report, line = asyncio.run(_load(view))
    with Metrics(view.folder.metrics) as metrics:
        yield from requests(line, report, metrics if metrics.known else None, __version__)
