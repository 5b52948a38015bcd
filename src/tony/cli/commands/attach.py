"""`tony attach JOB`."""

from __future__ import annotations

import sys

import click

from tony.cli.open_job import load_report
from tony.cli.options import Count, job_argument, job_id, json_option
from tony.cli.submission_signals import SignalGuard
from tony.cli.terminal.output import print_json, say, say_all
from tony.cli.text.job_heading import print_heading
from tony.history.job_record import record_of
from tony.jobs.failure_text import format_ending, format_outcome
from tony.model.job_report import JobReport


@click.command("attach")
@job_argument
@click.option("-n", "--tail", type=Count(0), help="Start with the last N lines of each stream.")
@json_option("Print the last report as JSON; all else on standard error.")
def command(job: str, tail: int | None, as_json: bool) -> int:
    """Follow JOB to its end, as `tony submit` does after the submission.

    Prints its output from the beginning, or with --tail the end of it. Of a job that has ended, print the final report.
    Exit codes as with `tony submit`. On a terminal Ctrl-C asks whether to stop the job or to detach from it; elsewhere
    it stops the job (setting on_interrupt). To watch only: tony logs JOB --follow.
    """
    home, name = job_id(job)
    report = load_report(home, name)
    # late: help, and the report of a job that has ended, do not wait for what talks to a job
    from tony.cli.submission_follower import exit_code, follow_and_report

    if not report.state.ended:
        spec, early = record_of(home, name).spec, SignalGuard()
        early.begin()
        print_heading("Following", spec, home.job(name), to=sys.stderr if as_json else sys.stdout)
        return follow_and_report(home, name, spec, as_json=as_json, early=early, tail=tail)
    _print_report(report, as_json=as_json)
    return exit_code(report)


def _print_report(report: JobReport, *, as_json: bool) -> None:
    say_all(format_ending(report), to=sys.stderr)
    if report.failure is None and not as_json:
        say(format_outcome(report))
    if as_json:
        print_json(report)
