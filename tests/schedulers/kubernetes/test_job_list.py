"""What `tony list --scheduler kubernetes` says of the Jobs of a namespace."""

from __future__ import annotations

import pytest

from tony.model.states import JobState
from tony.schedulers.kubernetes.job_list import build_list_entry


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
