"""What jobs on Kubernetes need, for `tony doctor`: the cluster of the current context, rights, a service account."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tony.kube.errors import KubeError
from tony.kube.kubeconfig import KubeconfigError, find_kubeconfig_files
from tony.kube.service_account import MOUNT, is_in_pod
from tony.model.health_check import Health, HealthCheck
from tony.schedulers.kubernetes.access_rules import find_account_problem, find_rights_problem
from tony.schedulers.kubernetes.cluster_clients import create_client
from tony.schedulers.kubernetes.settings import KubernetesSettings


def check_cluster() -> Iterator[HealthCheck]:
    """Yield a check of the current context, or of this pod's service account; none without either."""
    has_file = any(file.exists() for file in find_kubeconfig_files(os.environ))
    has_account = not has_file and is_in_pod(os.environ, MOUNT)
    if not (has_file or has_account or os.environ.get("KUBECONFIG")):
        return
    settings, trouble = KubernetesSettings(), ""
    where = "the kubeconfig file" if has_file else "the service account of this pod" if has_account else "KUBECONFIG"
    try:
        with contextlib.closing(create_client(settings)) as client:
            where = f"namespace {client.namespace} of {client.access.origin}"
            problem = find_rights_problem(client) or find_account_problem(client, settings.service_account, ())
            trouble = problem.message if problem else ""
    except (KubeconfigError, KubeError) as error:
        trouble = str(error)
    if trouble:
        cost = "jobs cannot run there"
        yield HealthCheck(name="Kubernetes", state=Health.MISSING, detail=where, cost=cost, remedy=trouble)
    else:
        yield HealthCheck(name="Kubernetes", state=Health.OK, detail=where)
