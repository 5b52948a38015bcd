"""Clients of the API server for a user's machine: from the settings of a job, and the kubeconfig files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tony.errors import Problem, SchedulerError
from tony.kube import service_account
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.kube.errors import CredentialsError
from tony.kube.kubeconfig import KubeconfigError, find_kubeconfig_files, load_cluster_access
from tony.kube.service_account import is_in_pod, load_service_account
from tony.model.strict_json import loads
from tony.model.submission_record import PINNED_SOURCE
from tony.schedulers.kubernetes.settings import KubernetesSettings

#: Seconds for which a command waits for an API server that cannot be reached: it may be starting again.
_GIVE_UP_SECONDS = 3.0


def create_client(settings: KubernetesSettings, *, give_up_seconds: float = _GIVE_UP_SECONDS) -> ApiClient:
    """Return a client of the cluster that a job's settings name.

    Raises:
        KubeconfigError: there is none.
    """
    return ApiClient(_load_access(settings, _find_files(settings)), give_up_seconds=give_up_seconds)


def find_cluster_settings(settings: KubernetesSettings) -> Mapping[str, str]:
    """Return the settings that name the cluster and namespace to which a job's settings lead now.

    Raises:
        KubeconfigError: there is none.
    """
    files = _find_files(settings)
    access = _load_access(settings, files)
    names = {"context": access.context, "namespace": access.namespace}
    if _uses_service_account(settings, files):
        return {**names, "kubeconfig": str(service_account.MOUNT)}
    for file in files:  # several are one together, of which one may have all that is needed
        with contextlib.suppress(KubeconfigError):
            if load_cluster_access([file], access.context).server == access.server:
                return {**names, "kubeconfig": os.path.abspath(file)}
    return names


def localize_record(job: bytes, job_id: str, settings: KubernetesSettings) -> bytes:
    """Replace how a job's submitter reached the cluster by how this client does.

    The file may be anyone's who may write ConfigMaps. It must not choose a kubeconfig file, which can name programs, or
    another scheduler, which would run the job's programs on this machine.

    Args:
        settings: of this client.

    Raises:
        SchedulerError: the kubeconfig file cannot be used, or the record is damaged.
    """
    try:
        own = find_cluster_settings(settings)
    except KubeconfigError as error:
        raise SchedulerError(str(error)) from error
    try:
        record: Any = loads(job)
        given, sources = dict(record["spec"].get("scheduler_settings") or {}), dict(record.get("sources") or {})
        given.pop("kubeconfig", None)
        sources |= {f"scheduler.kubernetes.{name}": PINNED_SOURCE for name in own if name not in given}
        spec = {**record["spec"], "scheduler": "kubernetes", "scheduler_settings": {**given, **own}}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise SchedulerError(f"job.json of {job_id} in the cluster is damaged: {error}") from error
    return json.dumps({**record, "job_id": job_id, "spec": spec, "sources": sources}).encode()


def _find_files(settings: KubernetesSettings) -> Sequence[Path]:
    return (settings.kubeconfig,) if settings.kubeconfig else find_kubeconfig_files(os.environ)


def _load_access(settings: KubernetesSettings, files: Sequence[Path]) -> ClusterAccess:
    if _uses_service_account(settings, files):
        return _load_service_account(settings)
    try:
        return load_cluster_access(files, settings.context, settings.namespace)
    except KubeconfigError as error:
        raise KubeconfigError([_name_setting(each, settings) for each in error.problems]) from None


def _uses_service_account(settings: KubernetesSettings, files: Sequence[Path]) -> bool:
    """Return True for a job that was submitted so, and in a pod that has no kubeconfig file."""
    if settings.kubeconfig:
        return settings.kubeconfig == service_account.MOUNT
    return not any(file.exists() for file in files) and is_in_pod(os.environ, service_account.MOUNT)


def _load_service_account(settings: KubernetesSettings) -> ClusterAccess:
    try:
        access = load_service_account(os.environ, service_account.MOUNT, settings.namespace)
    except CredentialsError as error:
        key, value = "scheduler.kubernetes.kubeconfig", str(service_account.MOUNT)
        raise KubeconfigError([Problem(key=key, value=value, message=str(error))]) from None
    if settings.context not in ("", access.context):
        text = (
            "there is no kubeconfig file with this context, and the service account of this pod belongs to "
            f"{access.context}; set KUBECONFIG, or use a pod of the cluster where the job is"
        )
        raise KubeconfigError([Problem(key="scheduler.kubernetes.context", value=settings.context, message=text)])
    return access


def _name_setting(problem: Problem, settings: KubernetesSettings) -> Problem:
    """Name the setting that a problem is about in place of the file: messages then say where it was set."""
    if problem.key == "context" and settings.context:
        text = f"{problem.source}: {problem.message}"
        return Problem(key="scheduler.kubernetes.context", value=settings.context, message=text)
    if not problem.key and settings.kubeconfig:
        return Problem(key="scheduler.kubernetes.kubeconfig", value=problem.source, message=problem.message)
    return problem
