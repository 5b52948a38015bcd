"""How a Job has ended, as its conditions say, and why a client or the AM has ended it. Pure.

Source: reasons of the condition Failed in pkg/controller/job/job_controller.go of Kubernetes v1.36.
"""

from __future__ import annotations

from dataclasses import dataclass

from tony.control_characters import escape
from tony.kube.api_client import Object, parse_time
from tony.model.states import JobState
from tony.schedulers.client_interface import ListEntry
from tony.schedulers.job_store.job_objects import PREFIX

#: Annotation of a Job that a client or the AM has ended: why. Users who may write Jobs can forge it.
_END_REASON = f"{PREFIX}end-reason"
_MAX_REASON_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a Job has ended.

    Attributes:
        state: SUCCEEDED, FAILED or KILLED.
        at: seconds since 1970.
        text: why, as far as it is known.
        is_exit_only: all that is known is that the AM has exited.
    """

    state: JobState
    at: float
    text: str = ""
    is_exit_only: bool = False


def find_end(job: Object) -> JobEnd | None:
    """Return how a Job has ended; None if it has not."""
    for each in (job.get("status") or {}).get("conditions") or ():
        if each.get("status") != "True" or each["type"] not in ("Complete", "Failed"):
            continue
        at = parse_time(str(each["lastTransitionTime"]))
        if each["type"] == "Complete":
            return JobEnd(JobState.SUCCEEDED, at)
        if why := read_end_reason(job):
            return JobEnd(JobState.KILLED, at, why)
        if each.get("reason") == "DeadlineExceeded":  # a client has only removed what a dead AM had left
            return JobEnd(JobState.FAILED, at)
        is_exit_only = each.get("reason") == "BackoffLimitExceeded"
        return JobEnd(JobState.FAILED, at, str(each.get("message") or ""), is_exit_only)
    return None


def build_list_entry(job: Object) -> ListEntry:
    """Return what the scheduler knows of a job."""
    metadata, end = job["metadata"], find_end(job)
    state = end.state if end else JobState.RUNNING
    return ListEntry(
        job=str(metadata["name"]),
        name=str((metadata.get("annotations") or {}).get(f"{PREFIX}name", "")),
        state=state,
        user="",
        submitted=parse_time(str(metadata["creationTimestamp"])),
        ended=end.at if end else None,
        exit_code=0 if state is JobState.SUCCEEDED else None,
        reason=end.text if end and not end.is_exit_only else "",
    )


def find_requested_end(job: Object, now: float) -> JobEnd | None:
    """Return the end that a client has requested; of a Job without pods nothing else is to come.

    The controller of Jobs records it up to half a minute later, if it could not create the pod before.
    """
    why = read_end_reason(job)
    return JobEnd(JobState.KILLED, now, why) if why else None


def read_end_reason(job: Object) -> str:
    """Return why a client or the AM has ended a Job; empty if none has."""
    return escape(str((job["metadata"].get("annotations") or {}).get(_END_REASON, ""))[:_MAX_REASON_CHARACTERS])


def build_end_patch(reason: str) -> Object:
    """Return the patch that ends a Job, and with it the pod of its AM; its objects stay for `ttl`.

    Args:
        reason: empty to keep that of an earlier patch.
    """
    return {"metadata": build_end_note(reason), "spec": {"activeDeadlineSeconds": 1}}


def build_end_note(reason: str) -> Object:
    """Return what to change of the metadata of a Job that is ended; empty without a reason."""
    return {"annotations": {_END_REASON: reason}} if reason else {}
