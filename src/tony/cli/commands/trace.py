"""`tony trace JOB`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator

import click

from tony.cli.options import job_argument, job_id, json_option
from tony.cli.output import print_json, say
from tony.model.codec import Json
from tony.model.layout import Home


@click.command("trace")
@job_argument
@click.option(
    "--otlp",
    metavar="URL",
    help="Send it to this collector, http://host:4318; without it to OTEL_EXPORTER_OTLP_ENDPOINT.",
)
@json_option("Print the trace instead, one request of the protocol a line; of what was sent, how much it was.")
def command(job: str, otlp: str | None, as_json: bool) -> None:
    """Export JOB as an OpenTelemetry trace.

    It has a span for the job, for each session, for each task in it, and for what each task did: queue, allocate,
    set-up, rendezvous, warm-up, productive, checkpoint, redone, restart, idle. A job that is sent again is the same
    trace. Headers for the collector are read from OTEL_EXPORTER_OTLP_HEADERS.
    """
    from tony.errors import UserError
    from tony.jobs.otlp_export import ENDPOINT, HEADERS, address, headers_of, send

    home, name = job_id(job)
    url = otlp or os.environ.get(ENDPOINT, "")
    if not url:
        if not as_json:
            raise UserError(
                f"say where the collector is: tony trace {name} --otlp http://host:4318, or set {ENDPOINT}. "
                f"To see what would be sent: tony trace {name} --json"
            )
        for body in _requests(home, name):
            print(json.dumps(body, separators=(",", ":")))
        return
    sent = send(address(url), _requests(home, name), headers_of(os.environ.get(HEADERS, "")))
    if as_json:
        print_json({"job": name, "spans": sent.spans, "rejected": sent.rejected, "message": sent.message})
        return
    say(f"{sent.spans} spans of {name} were sent to {address(url)}")
    if sent.rejected:
        say(f"the collector did not want {sent.rejected} of them{f': {sent.message}' if sent.message else ''}")


def _requests(home: Home, name: str) -> Iterator[Json]:
    from tony import __version__
    from tony.errors import UnknownJobError
    from tony.history.metrics_reader import open_metrics
    from tony.history.otlp_trace import requests
    from tony.jobs.told import load_overview

    told = asyncio.run(load_overview(home, name))
    if told.line is None:
        raise UnknownJobError(f"nothing of {name} was logged yet: it is {told.report.state.value}")
    with open_metrics(home.job(name).metrics) as metrics:
        yield from requests(told.line, told.report, metrics if metrics.known else None, __version__)
