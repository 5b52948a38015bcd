"""The Secrets of a job: created at its submission, read by its pods, and deleted when it has ended."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import KubeApiError
from tony.kube.resources import SECRETS
from tony.schedulers.job_store.job_objects import build_labels, build_object_name, build_owner
from tony.schedulers.job_store.job_store import ACCESS_FILE

#: Their parts: the launch payload of the AM, the executors' credentials, `container_env`, and the access to HDFS.
AM_SECRET, EXECUTOR_SECRET, ENVIRONMENT_SECRET, HADOOP_SECRET = "am", "x", "env", "hadoop"


def build_secret_name(job: str, part: str) -> str:
    """Return the name of a Secret of a job."""
    return f"{job}-{part}"


def create_secret(client: ApiClient, job: str, part: str, owner: str, content: Mapping[str, bytes]) -> None:
    """Create a Secret of a job.

    Args:
        owner: uid of the Job.
    """
    metadata = {
        "name": build_secret_name(job, part),
        "labels": build_labels(job, "secret"),
        "ownerReferences": [build_owner(job, owner)],
    }
    data = {key: base64.b64encode(value).decode() for key, value in content.items()}
    body: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "immutable": True, "data": data}
    client.create_unique(SECRETS, body)


def delete_secrets(client: ApiClient, job: str) -> None:
    """Delete the Secrets of a job that has ended, its clients' too; no pod of it can be started any longer.

    Raises:
        KubeError: not all were deleted.
    """
    failed: KubeApiError | None = None
    own = [build_secret_name(job, part) for part in (AM_SECRET, EXECUTOR_SECRET, ENVIRONMENT_SECRET, HADOOP_SECRET)]
    for name in (*own, build_object_name(job, ACCESS_FILE)):
        try:
            client.delete(SECRETS, name)
        except KubeApiError as error:
            failed = error
    if failed:
        raise failed
