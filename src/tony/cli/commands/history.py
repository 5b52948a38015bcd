"""`tony history JOB`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tony.cli.open_job import load_report
from tony.cli.options import job_argument, job_id, json_option
from tony.cli.terminal.output import print_json, say, say_all
from tony.cli.terminal.terminal_text import find_columns, format_table
from tony.cli.text.status_text import find_further_sessions, find_lone_restarts, format_status
from tony.history.event_log import segments
from tony.history.event_queries import read_session_reasons, read_session_sizes
from tony.model.job_report import JobReport
from tony.model.state_directory import JobFolder

#: Labels that differ from the JSON key.
_LABELS = {"measured": "metrics"}


@click.command("history")
@job_argument
@json_option("Print the paths and the report as JSON.")
def command(job: str, as_json: bool) -> None:
    """Show the summary of JOB and where its files are."""
    home, name = job_id(job)
    report, folder = load_report(home, name), home.job(name)
    places = _find_places(folder)
    if as_json:
        paths = {word.replace(" ", "_"): str(path) for word, path in places.items()}
        print_json({"job": name, "places": paths, "report": report, "sessions": _find_sessions(folder, report)})
        return
    labelled = [(_LABELS.get(word, word), str(path)) for word, path in places.items()]
    say_all(format_table([("directory", str(folder.path)), *labelled]))
    say()
    sessions, restarts = find_further_sessions(folder, report), find_lone_restarts(folder, report)
    say_all(format_status(report, find_columns(), sessions, restarts))


def _find_sessions(folder: JobFolder, report: JobReport) -> list[dict[str, Any]]:
    """Return the reason of each session, and its number of tasks if the gang size may change."""
    reasons, sizes = read_session_reasons(folder), read_session_sizes(folder)
    return [
        {
            "session": number,
            "reason": reasons.get(number),
            "tasks": dict(sizes[number].tasks) if number in sizes else None,
            "left_out": [f"{role}:{i}" for role, absent in sizes[number].absent.items() for i in absent]
            if number in sizes
            else None,
        }
        for number in range(1, report.session + 1)
    ]


def _find_places(folder: JobFolder) -> dict[str, Path]:
    """Return label -> path for each part of the job directory that exists."""
    logs = segments(folder.path)
    places = {
        "job file": folder.job,
        "summary": folder.summary,
        "task logs": folder.logs,
        **{"events" if len(logs) == 1 else f"events {n}": path for n, path in enumerate(logs, start=1)},
        "measured": folder.metrics,
        "am log": folder.am_log,
        "work": folder.work,
    }
    return {word: path for word, path in places.items() if path.exists()}
