"""How a Job has ended, as in `tony list --scheduler kubernetes`."""

from __future__ import annotations

import pytest

from tony.model.states import JobState
from tony.schedulers.kubernetes.job_end import build_end_note, build_end_patch, build_list_entry, find_requested_end


@pytest.mark.parametrize(
    ("condition", "state", "reason"),
    [
        ({}, JobState.RUNNING, ""),
        ({"type": "Complete"}, JobState.SUCCEEDED, ""),
        ({"type": "Failed", "reason": "DeadlineExceeded", "message": "Job was active longer"}, JobState.FAILED, ""),
        ({"type": "Failed", "reason": "BackoffLimitExceeded", "message": "backoff limit"}, JobState.FAILED, ""),
        ({"type": "Failed", "reason": "PodFailurePolicy", "message": "pod x"}, JobState.FAILED, "pod x"),
    ],
)
def test_how_a_job_has_ended(condition: dict[str, str], state: JobState, reason: str) -> None:
    """The API's words are a reason only if they say more than that the application master has ended."""
    ended = {**condition, "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}
    metadata = {"name": "j", "creationTimestamp": "2026-01-01T00:00:00Z"}
    entry = build_list_entry({"metadata": metadata, "status": {"conditions": [ended] if condition else []}})
    assert (entry.state, entry.reason) == (state, reason)
    assert (entry.ended is not None) is state.ended


@pytest.mark.parametrize("reason", ["DeadlineExceeded", "BackoffLimitExceeded"])
def test_a_job_that_a_user_has_killed_is_listed_as_killed(reason: str) -> None:
    """By a client, or by its AM at a client's request."""
    ended = {"type": "Failed", "reason": reason, "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}
    metadata = {"name": "j", "creationTimestamp": "2026-01-01T00:00:00Z", **build_end_note("killed by ann\x1b")}
    entry = build_list_entry({"metadata": metadata, "status": {"conditions": [ended]}})
    assert (entry.state, entry.reason) == (JobState.KILLED, "killed by ann\\x1b")


def test_a_job_without_pods_has_ended_as_soon_as_that_is_requested() -> None:
    """A quota keeps its pod from being created, and its controller looks at it again half a minute later."""
    assert find_requested_end({"metadata": {}}, 7.0) is None
    end = find_requested_end({"metadata": build_end_patch("killed by ann")["metadata"]}, 7.0)
    assert end is not None
    assert (end.state, end.at, end.text) == (JobState.KILLED, 7.0, "killed by ann")
