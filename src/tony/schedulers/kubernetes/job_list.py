"""Entries of `tony list` for the Jobs of a namespace."""

from __future__ import annotations

from tony.kube.api_client import Object, parse_time
from tony.model.states import JobState
from tony.schedulers.client_interface import ListEntry


def build_list_entry(job: Object) -> ListEntry:
    """Return what the scheduler knows of a job."""
    metadata, status = job["metadata"], job.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or () if each.get("status") == "True"}
    state = JobState.RUNNING
    if "Complete" in conditions:
        state = JobState.SUCCEEDED
    elif "Failed" in conditions:
        state = JobState.FAILED
    ended = next((each.get("lastTransitionTime") for each in conditions.values()), None)
    return ListEntry(
        job=str(metadata["name"]),
        name=str((metadata.get("annotations") or {}).get("tony.dev/name", "")),
        state=state,
        user="",
        submitted=parse_time(str(metadata["creationTimestamp"])),
        ended=parse_time(ended) if ended and state.ended else None,
        exit_code=0 if state is JobState.SUCCEEDED else None,
        reason=str(conditions["Failed"].get("message") or "") if state is JobState.FAILED else "",
    )
