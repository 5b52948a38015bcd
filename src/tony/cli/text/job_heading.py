"""The line that is printed first about a job that is followed."""

from __future__ import annotations

import contextlib
from typing import TextIO

from tony.cli.terminal.output import format_stamp, has_live_view, say
from tony.model.job_spec import JobSpec
from tony.model.state_directory import JobFolder
from tony.units import format_count


def print_heading(verb: str, spec: JobSpec, folder: JobFolder, *, to: TextIO) -> None:
    """Print what has happened to a job, with its id, size, scheduler and job directory."""
    where = f"{format_count(len(spec.task_ids), 'task')} on {spec.scheduler}. Directory: {folder.path}"
    stamp = "" if has_live_view(to) else format_stamp()
    with contextlib.suppress(OSError):  # the reader has gone, which is handled when the job is followed
        say(f"{stamp}{verb} job {folder.job_id} ({spec.name}): {where}", to=to)
        to.flush()
