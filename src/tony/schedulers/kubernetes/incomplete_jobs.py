"""Jobs whose submission has not released them: it is under way, or its client was killed.

They are suspended, so their TTL never begins. A later submission deletes them, with all that they own. It lists them
before it looks for their staging pods, which live until the release, and deletes them in the version that it listed: so
one that is released meanwhile stays. A submission that sends files without such a pod notes that it is under way in its
Job.
"""

from __future__ import annotations

from tony.kube.api_client import ApiClient, Object, parse_time
from tony.kube.resources import JOBS, PODS
from tony.schedulers.job_store.job_objects import JOB_LABEL, MANAGED_LABELS, PART_LABEL, PREFIX
from tony.schedulers.kubernetes.manifests import INCOMPLETE, STAGING_PART, SUBMISSION_LABEL
from tony.schedulers.kubernetes.shared_objects import find_last_note

#: Annotation of a Job: when its submission was under way, in seconds since 1970, of the server.
_ALIVE = f"{PREFIX}alive"
#: Age of a Job whose submission is no longer under way. A client that was suspended for longer finds no Job to release.
_ABANDONED_SECONDS = 600.0


def is_incomplete(job: Object) -> bool:
    """Return True if a Job was not released."""
    return bool((job["metadata"].get("labels") or {}).get(SUBMISSION_LABEL) == INCOMPLETE)


def delete_abandoned_jobs(client: ApiClient, created: Object) -> None:
    """Delete the Jobs of submissions that were interrupted long before another Job was created.

    Args:
        created: that other Job, just created: it has the time of the server.

    Raises:
        KubeError: they cannot be listed or deleted now.
    """
    now = parse_time(created["metadata"]["creationTimestamp"])
    labels = {**MANAGED_LABELS, SUBMISSION_LABEL: INCOMPLETE}
    for job in client.list(JOBS, labels=labels, metadata_only=True).items:
        metadata = job["metadata"]
        is_old = now - find_last_note(metadata, _ALIVE) > _ABANDONED_SECONDS
        if is_old and not _is_sending_files(client, metadata["name"], now):
            client.delete_version(JOBS, metadata)


def note_alive(client: ApiClient, created: Object, now: float) -> None:
    """Note in a Job that its submission is under way.

    Args:
        now: seconds since 1970, of the server.

    Raises:
        KubeError: the Job was deleted, or the server cannot be reached.
    """
    client.patch(JOBS, str(created["metadata"]["name"]), {"metadata": {"annotations": {_ALIVE: str(int(now))}}})


def _is_sending_files(client: ApiClient, job: str, now: float) -> bool:
    """Return True if a pod receives files of a job, which can take long, or is starting to.

    It exits without a client. One that cannot start is of a client that was killed: others give up.
    """
    pods = client.list(PODS, labels={JOB_LABEL: job, PART_LABEL: STAGING_PART}).items
    return any(
        phase == "Running"
        or (phase == "Pending" and now - parse_time(pod["metadata"]["creationTimestamp"]) <= _ABANDONED_SECONDS)
        for pod in pods
        for phase in [pod.get("status", {}).get("phase", "Pending")]
    )
