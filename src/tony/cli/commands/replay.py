"""`tony replay JOB`."""

from __future__ import annotations

from pathlib import Path

import click

from tony.cli.options import JobParameter, job_id, json_option
from tony.cli.output import print_json, say
from tony.errors import ExitCode, UnknownJobError
from tony.history.event_log import place_of, read, segments
from tony.history.job_record import read_job, read_summary
from tony.model.layout import JobFolder


@click.command("replay")
@click.argument("job", type=JobParameter())
@json_option("Print the result as JSON.")
def command(job: str, as_json: bool) -> int:
    """Replay the event log of JOB and verify its recorded states.

    JOB may also be the path of a job's record. The exit code is 0 if both agree and 70 if they differ: then the log is
    a bug report.
    """
    from tony.history.replay import replay

    folder = _folder(job)
    record = read_job(folder)
    logs = segments(folder.path)
    if record is None or not logs:
        raise UnknownJobError(f"{folder.path} holds no event log yet")
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
        met = f"{result.checked} recorded state{' was' if result.checked == 1 else 's were'} met"
        say(f"identical: {result.events} events lead to {state}; {met}")
        if summary is not None and summary.state is not result.app.state.job:
            say(f"the log ends with the job {state}; its record was closed later, as {summary.state.value}")
    else:
        say(f"different after {result.events} events, in state {state}: {place}: {result.mismatch}")
    return ExitCode.SUCCEEDED if result.mismatch is None else ExitCode.BUG


def _folder(text: str) -> JobFolder:
    path = Path(text)
    if "/" in text and (path / "job.json").is_file():
        return JobFolder(path.resolve())
    home, name = job_id(text)
    return home.job(name)
