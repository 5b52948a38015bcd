"""The lease: how long programs and executors outlive their application master."""

from __future__ import annotations

from tony.model.job_spec import JobSpec

#: Seconds for which an executor tries to reach an AM that is not known to be dead.
CONNECT_TIMEOUT_SECONDS = 60.0


def compute_am_lease(spec: JobSpec, lease: float) -> float:
    """Return for how many seconds programs outlive their AM."""
    return lease if spec.orphan_grace is None else spec.orphan_grace


def compute_executor_lease(spec: JobSpec, lease: float) -> float:
    """Return after how many seconds without an AM an executor has certainly given up."""
    return max(compute_am_lease(spec, lease), CONNECT_TIMEOUT_SECONDS)
