"""`tony compare A B`."""

from __future__ import annotations

import asyncio

import click

from tony.cli.open_job import find_job
from tony.cli.options import JobParameter, json_option
from tony.cli.terminal.output import print_json, say_all, to_plain_value
from tony.cli.terminal.terminal_text import find_columns
from tony.cli.text.compare_text import format_comparison
from tony.jobs.comparison import ComparedJob, Comparison, compare_jobs
from tony.model.codec import Json, to_plain


@click.command("compare")
@click.argument("a", type=JobParameter())
@click.argument("b", type=JobParameter())
@json_option("Print both sides as JSON.")
def command(a: str, b: str, as_json: bool) -> None:
    """Compare two jobs: outcome, settings, goodput and metrics."""

    def build_side(each: ComparedJob) -> Json:
        report = each.report
        return {
            "job": report.job,
            "name": report.name,
            "state": report.state.value,
            "took": each.took,
            "sessions": report.session,
            "tasks": len(report.tasks),
            "restarts": each.restarts,
            "cause": report.failure.cause if report.failure else None,
            "goodput": each.goodput,
            "seconds": dict(each.seconds),
            "used": to_plain(report.used),
        }

    def build_found(found: Comparison) -> Json:
        settings = found.settings
        return {
            "a": build_side(found.a),
            "b": build_side(found.b),
            "settings": None
            if settings is None
            else [
                {"key": setting.key, "a": _build_value(setting.a), "b": _build_value(setting.b)} for setting in settings
            ],
            "same": found.same,
            "measured": [to_plain(measure) for measure in found.measures],
        }

    found = asyncio.run(compare_jobs(find_job(a), find_job(b)))
    if as_json:
        print_json(build_found(found))
    else:
        say_all(format_comparison(found, find_columns()))


def _build_value(value: tuple[str, str] | None) -> Json:
    return None if value is None else {"value": to_plain_value(value[0]), "source": value[1]}
