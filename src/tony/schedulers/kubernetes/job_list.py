"""Entries of `tony list` for the Jobs of a namespace."""

from __future__ import annotations

from tony.kube.api_client import Object, parse_time
from tony.model.states import JobState
from tony.schedulers.client_interface import ListEntry
from tony.schedulers.kubernetes.job_end import find_end


def build_list_entry(job: Object) -> ListEntry:
    """Return what the scheduler knows of a job."""
    metadata, end = job["metadata"], find_end(job)
    state = end.state if end else JobState.RUNNING
    return ListEntry(
        job=str(metadata["name"]),
        name=str((metadata.get("annotations") or {}).get("tony.dev/name", "")),
        state=state,
        user="",
        submitted=parse_time(str(metadata["creationTimestamp"])),
        ended=end.at if end else None,
        exit_code=0 if state is JobState.SUCCEEDED else None,
        reason=end.text if end and not end.is_exit_only else "",
    )
