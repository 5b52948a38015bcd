"""`tony replay JOB`."""

from __future__ import annotations

from pathlib import Path

import click

from tony.cli.open_job import fetch_job_dir
from tony.cli.options import JobParameter, job_id, json_option
from tony.cli.terminal.output import print_json, say
from tony.errors import ExitCode, UnknownJobError
from tony.history.event_log import place_of, read, segments
from tony.history.job_record import read_job, read_summary
from tony.history.replay import replay
from tony.model.state_directory import JobFolder
from tony.units import format_count


@click.command("replay")
@click.argument("job", type=JobParameter())
@json_option("Print the result as JSON.")
def command(job: str, as_json: bool) -> int:
    """Replay the event log of JOB and verify its recorded states.

    JOB may also be the path of a job directory. The exit code is 0 if the states agree, and 70 if they differ: please
    report the log as a bug.
    """
    folder = _find_folder(job)
    record = read_job(folder)
    logs = segments(folder.path)
    if record is None or not logs:
        raise UnknownJobError(f"{folder.path} has no event log yet")
    result = replay(record.job_id, record.spec, read(logs))
    state = result.app.state.job.value
    summary = read_summary(folder)
    place = None if result.mismatch is None else place_of(logs, result.events + 1)
    if as_json:
        print_json(
            {
                "job": record.job_id,
                "identical": result.mismatch is None,
                "events": result.events,
                "compared": result.checked,
                "difference": result.mismatch,
                "place": place,
                "state": state,
            }
        )
    elif result.mismatch is None:
        checked = format_count(result.checked, "recorded state")
        say(f"OK: replaying {result.events} events gives the recorded state ({state}); {checked} verified")
        if summary is not None and summary.state is not result.app.state.job:
            say(f"the log ends in state {state}; the job was finalized later, as {summary.state.value}")
    else:
        say(f"DIFFERENT after {result.events} events, in state {state}: {place}: {result.mismatch}")
    return ExitCode.SUCCEEDED if result.mismatch is None else ExitCode.BUG


def _find_folder(text: str) -> JobFolder:
    path = Path(text)
    if "/" in text and (path / "job.json").is_file():
        return JobFolder(path.resolve())
    home, name = job_id(text)
    return fetch_job_dir(home, name)
