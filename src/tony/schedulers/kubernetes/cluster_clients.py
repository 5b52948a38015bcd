"""Clients of the API server for a user's machine: from the settings of a job, and the kubeconfig files."""

from __future__ import annotations

import os

from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.kube.kubeconfig import find_kubeconfig_files, load_cluster_access
from tony.schedulers.kubernetes.settings import KubernetesSettings


def find_access(settings: KubernetesSettings) -> ClusterAccess:
    """Return the cluster and user that a job's settings name.

    Raises:
        KubeconfigError: there is none.
    """
    files = (settings.kubeconfig,) if settings.kubeconfig else find_kubeconfig_files(os.environ)
    return load_cluster_access(files, settings.context, settings.namespace)


def create_client(settings: KubernetesSettings, *, give_up_seconds: float = 30.0) -> ApiClient:
    """Return a client. Raises like `find_access`."""
    return ApiClient(find_access(settings), give_up_seconds=give_up_seconds)
