"""How a Job has ended, as its conditions say, and why a client has ended it. Pure.

Source: reasons of the condition Failed in pkg/controller/job/job_controller.go of Kubernetes v1.36.
"""

from __future__ import annotations

from dataclasses import dataclass

from tony.control_characters import escape
from tony.kube.api_client import Object, parse_time
from tony.model.states import JobState
from tony.schedulers.job_store.job_objects import PREFIX

#: Annotation of a Job that a client has ended: why. Users who may write Jobs can forge it.
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
        reason, text = each.get("reason"), str(each.get("message") or "")
        if reason == "DeadlineExceeded":  # see `build_end_patch`
            why = str((job["metadata"].get("annotations") or {}).get(_END_REASON, ""))
            # Without a reason a client has only removed what a dead AM had left.
            return JobEnd(JobState.KILLED if why else JobState.FAILED, at, escape(why[:_MAX_REASON_CHARACTERS]))
        return JobEnd(JobState.FAILED, at, text, is_exit_only=reason == "BackoffLimitExceeded")
    return None


def build_end_patch(reason: str) -> Object:
    """Return the patch that ends a Job, and with it the pod of its AM; its objects stay for `ttl`.

    Args:
        reason: empty to keep that of an earlier patch.
    """
    note = {"annotations": {_END_REASON: reason}} if reason else {}
    return {"metadata": note, "spec": {"activeDeadlineSeconds": 1}}
