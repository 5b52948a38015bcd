"""`tony why JOB`."""

from __future__ import annotations

import click

from tony.cli.open_job import load_report, open_portal, portal_option
from tony.cli.options import job_argument, job_id, json_option
from tony.cli.terminal.output import print_json, say, say_all
from tony.cli.text.root_cause_text import format_root_cause, format_rules
from tony.control_characters import escape
from tony.jobs.failure_text import format_outcome, format_warnings
from tony.jobs.next_commands import format_next_commands, list_next_commands
from tony.jobs.root_cause import build_root_cause, find_past_root_cause
from tony.model.job_report import JobReport


@click.command("why")
@job_argument
@click.option("--explain", is_flag=True, help="Show the rules that the lines of output met, and where they come from.")
@portal_option
@json_option("Print JSON; null if nothing failed.")
def command(job: str, explain: bool, portal: str | None, as_json: bool) -> None:
    """Show why JOB failed: the first task, its kind of failure, the lines that prove it, and what to do.

    For a job that restarted and has not failed since, show why the session before failed.
    """
    report = _load(job, portal)
    past = find_past_root_cause(report)
    root_cause = past or build_root_cause(report)
    if as_json:
        print_json(root_cause)
    elif root_cause is None:
        say(f"{format_outcome(report)}: nothing has failed")
        say_all(
            escape(sentence) for sentence in (report.waiting, report.stragglers, *format_warnings(report)) if sentence
        )
        say_all(map(escape, format_next_commands(list_next_commands(report, None, portal=portal))))
    else:
        say_all(format_root_cause(report, root_cause, is_past=past is not None, portal=portal))
        if explain:
            say_all(format_rules(root_cause))


def _load(job: str, portal: str | None) -> JobReport:
    if portal is None:
        return load_report(*job_id(job))
    with open_portal(portal) as portal_client:
        return portal_client.fetch_report(portal_client.resolve(job))
