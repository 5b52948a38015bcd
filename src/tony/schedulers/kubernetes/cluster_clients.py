"""Clients of the API server for a user's machine: from the settings of a job, and the kubeconfig files."""

from __future__ import annotations

import os

from tony.errors import Problem
from tony.kube.api_client import ApiClient
from tony.kube.kubeconfig import KubeconfigError, find_kubeconfig_files, load_cluster_access
from tony.schedulers.kubernetes.settings import KubernetesSettings

#: Seconds for which a person waits for an API server that cannot be reached: it may be starting again.
_GIVE_UP_SECONDS = 3.0


def create_client(settings: KubernetesSettings, *, give_up_seconds: float = _GIVE_UP_SECONDS) -> ApiClient:
    """Return a client of the cluster that a job's settings name.

    Raises:
        KubeconfigError: there is none.
    """
    files = (settings.kubeconfig,) if settings.kubeconfig else find_kubeconfig_files(os.environ)
    try:
        access = load_cluster_access(files, settings.context, settings.namespace)
    except KubeconfigError as error:
        raise KubeconfigError([_name_setting(each, settings) for each in error.problems]) from None
    return ApiClient(access, give_up_seconds=give_up_seconds)


def _name_setting(problem: Problem, settings: KubernetesSettings) -> Problem:
    """Name the setting that a problem is about in place of the file: messages then say where it was set."""
    if problem.key == "context" and settings.context:
        text = f"{problem.source}: {problem.message}"
        return Problem(key="scheduler.kubernetes.context", value=settings.context, message=text)
    if not problem.key and settings.kubeconfig:
        return Problem(key="scheduler.kubernetes.kubeconfig", value=problem.source, message=problem.message)
    return problem
