"""Clients of the API server for a user's machine: from the settings of a job, and the kubeconfig files."""

from __future__ import annotations

import os

from tony.kube.api_client import ApiClient
from tony.kube.kubeconfig import find_kubeconfig_files, load_cluster_access
from tony.schedulers.kubernetes.settings import KubernetesSettings


def create_client(settings: KubernetesSettings, *, give_up_seconds: float = 30.0) -> ApiClient:
    """Return a client of the cluster that a job's settings name.

    Raises:
        KubeconfigError: there is none.
    """
    files = (settings.kubeconfig,) if settings.kubeconfig else find_kubeconfig_files(os.environ)
    access = load_cluster_access(files, settings.context, settings.namespace)
    return ApiClient(access, give_up_seconds=give_up_seconds)
