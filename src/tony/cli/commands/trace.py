"""`tony trace JOB`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator

import click

from tony.cli.options import job_argument, job_id, json_option
from tony.cli.terminal.output import print_json, say
from tony.model.codec import Json
from tony.model.layout import Home


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
    allocate, set-up, rendezvous, warm-up, productive, checkpoint, redone, restart, idle. Exporting a job again gives
    the same trace. Headers for the collector are read from OTEL_EXPORTER_OTLP_HEADERS.
    """
    from tony.errors import UserError
    from tony.jobs.otlp_export import ENDPOINT, HEADERS, address, headers_of, send

    home, name = job_id(job)
    url = otlp or os.environ.get(ENDPOINT, "")
    if not url:
        if not as_json:
            raise UserError(
                f"No collector given. Use tony trace {name} --otlp http://host:4318, or set {ENDPOINT}. "
                f"To print the trace: tony trace {name} --json"
            )
        for body in _requests(home, name):
            print(json.dumps(body, separators=(",", ":")))
        return
    sent = send(address(url), _requests(home, name), headers_of(os.environ.get(HEADERS, "")))
    if as_json:
        print_json({"job": name, "spans": sent.spans, "rejected": sent.rejected, "message": sent.message})
        return
    say(f"Sent {sent.spans} spans of {name} to {address(url)}")
    if sent.rejected:
        say(f"The collector rejected {sent.rejected} of them{f': {sent.message}' if sent.message else ''}")


def _requests(home: Home, name: str) -> Iterator[Json]:
    from tony import __version__
    from tony.errors import UnknownJobError
    from tony.history.metrics_reader import open_metrics
    from tony.history.otlp_trace import requests
    from tony.jobs.job_overview import load_overview

    overview = asyncio.run(load_overview(home, name))
    if overview.line is None:
        raise UnknownJobError(f"job {name} has no events yet: it is {overview.report.state.value}")
    with open_metrics(home.job(name).metrics) as metrics:
        yield from requests(overview.line, overview.report, metrics if metrics.known else None, __version__)
