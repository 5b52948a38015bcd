"""What jobs on Kubernetes need, for `tony doctor`: the cluster of the current context, rights, a service account."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tony.kube.errors import KubeError
from tony.kube.kubeconfig import KubeconfigError, find_kubeconfig_files
from tony.model.health_check import Health, HealthCheck
from tony.schedulers.kubernetes.access_rules import CLIENT_RULES, find_account_problem, find_missing_rules
from tony.schedulers.kubernetes.cluster_clients import create_client
from tony.schedulers.kubernetes.settings import KubernetesSettings

_NAME, _COST = "Kubernetes", "jobs cannot run there"


def check_cluster() -> Iterator[HealthCheck]:
    """Yield a check of the current context; none without a kubeconfig file."""
    if "KUBECONFIG" not in os.environ and not any(file.exists() for file in find_kubeconfig_files(os.environ)):
        return
    settings = KubernetesSettings()
    try:
        with contextlib.closing(create_client(settings)) as client:
            where = f"namespace {client.namespace} of {client.access.origin}"
            if missing := find_missing_rules(client, CLIENT_RULES):
                text = f"{where}: you may not {', '.join(missing)}"
                remedy = "ask the administrator of the namespace for these rights"
                yield HealthCheck(name=_NAME, state=Health.MISSING, detail=text, cost=_COST, remedy=remedy)
            elif problem := find_account_problem(client, settings.service_account, ()):
                text = f"{where}: {problem.value}: {problem.message}"
                remedy = "see the commands above"
                yield HealthCheck(name=_NAME, state=Health.MISSING, detail=text, cost=_COST, remedy=remedy)
            else:
                yield HealthCheck(name=_NAME, state=Health.OK, detail=where)
    except (KubeconfigError, KubeError) as error:
        remedy = "correct the kubeconfig file, or set KUBECONFIG to that of your cluster"
        yield HealthCheck(name=_NAME, state=Health.MISSING, detail=str(error), cost=_COST, remedy=remedy)
