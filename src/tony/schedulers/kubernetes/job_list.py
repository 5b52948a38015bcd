"""Entries of `tony list` for the Jobs of a namespace."""

from __future__ import annotations

from tony.kube.api_client import Object, parse_time
from tony.model.states import JobState
from tony.schedulers.client_interface import ListEntry


def build_list_entry(job: Object) -> ListEntry:
    """Return what the scheduler knows of a job."""
    metadata, status = job["metadata"], job.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or () if each.get("status") == "True"}
    failure = conditions.get("Failed") or {}
    state, reason = JobState.RUNNING, ""
    if "Complete" in conditions:
        state = JobState.SUCCEEDED
    elif failure.get("reason") == "DeadlineExceeded":  # set to end it
        state = JobState.KILLED
    elif failure:
        # Of a failure that the AM has reported, Kubernetes knows no more than that the AM has ended.
        state = JobState.FAILED
        reason = "" if failure.get("reason") == "BackoffLimitExceeded" else str(failure.get("message") or "")
    ended = next((each.get("lastTransitionTime") for each in conditions.values()), None)
    return ListEntry(
        job=str(metadata["name"]),
        name=str((metadata.get("annotations") or {}).get("tony.dev/name", "")),
        state=state,
        user="",
        submitted=parse_time(str(metadata["creationTimestamp"])),
        ended=parse_time(ended) if ended and state.ended else None,
        exit_code=0 if state is JobState.SUCCEEDED else None,
        reason=reason,
    )
