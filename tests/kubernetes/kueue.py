"""A real Kueue for groups of pods, next to the API server of a small Kubernetes, and a queue of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from bench.kubernetes_baselines import find_module, find_program
from bench.kubernetes_controllers import (
    CERTIFICATES,
    Object,
    apply_objects,
    load_manifests,
    start_controller,
    wait_for_webhook,
)
from bench.small_kubernetes import RunningKubernetes
from tony.kube.resources import ApiResource
from tony.mini.kubernetes.cluster import KubernetesCluster

LOCAL_QUEUES = ApiResource(group="kueue.x-k8s.io", version="v1beta1", plural="localqueues", kind="LocalQueue")
#: The queue of all namespaces, and what it has room for.
CLUSTER_QUEUE, QUOTA = "all", 4
#: Of a job with this class, whose label it has, pods go before those of others.
HIGH_PRIORITY = "high"
_PORT = 9445
#: Webhooks of Kueue for its own objects and for pods, without their first letter.
_HOOKS = {f"{kind}.kb.io" for kind in ("clusterqueue", "cohort", "pod", "resourceflavor", "workload")}
#: Namespaces whose pods Kueue leaves alone. It does not start without its own.
_EXEMPT = ["kube-system", "kueue-system"]
_SELECTOR = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": _EXEMPT}]}
#: Kueue looks for the certificate of its metrics at a fixed path: it has an /etc of its own. `$1` is the certificate.
_OWN_ETC = "mount -t tmpfs tmpfs /etc && mkdir -p /etc/kueue/metrics && ln -s $1 /etc/kueue/metrics/certs && shift"


def skip_unless_built() -> None:
    """Skip the test if Kueue has not been built."""
    if missing := [name for name in ("kubectl", "kueue") if find_program(name) is None]:
        names = " ".join(missing)
        pytest.skip(f"not built: {names}; .venv/bin/python -m bench.kubernetes_baselines {names}")


@contextlib.contextmanager
def run_kueue(cluster: KubernetesCluster) -> Iterator[None]:
    """Run Kueue, with a queue that has room for QUOTA pods."""
    running = RunningKubernetes(cluster.places, os.environ)
    certificates = cluster.places.path / "kueue" / CERTIFICATES
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {"frameworks": ["pod"]},
        "internalCertManagement": {"enable": False},
        "managedJobsNamespaceSelector": _SELECTOR,
        "webhook": {"port": _PORT, "certDir": str(certificates)},
    }
    components = find_module("kueue") / "config/components"
    types = sorted((components / "crd/bases").glob("*.yaml"))
    hooks = [_select_hooks(each) for each in load_manifests(components / "webhook/manifests.yaml")]
    prefix = ["unshare", "--mount", "sh", "-c", f'{_OWN_ETC} && exec "$@"', "kueue", str(certificates)]
    with contextlib.ExitStack() as stack:
        folder = start_controller(running, stack, "kueue", config, types, hooks, _PORT, prefix)
        objects = _build_queue()
        wait_for_webhook(running, objects[0], folder)
        apply_objects(running, folder / "queue.json", objects)
        yield


def _select_hooks(configuration: Object) -> Object:
    """Leave out webhooks of integrations that are off, and those of pods of the cluster itself."""
    hooks = [each for each in configuration["webhooks"] if each["name"][1:] in _HOOKS]
    for each in hooks:
        if each["name"].endswith("pod.kb.io"):
            each["namespaceSelector"] = _SELECTOR
    return {**configuration, "webhooks": hooks}


def _build_queue() -> list[Object]:
    version = LOCAL_QUEUES.api_version
    quotas = {"cpu": "100", "memory": "100Gi", "pods": QUOTA}
    flavor = {"name": "any", "resources": [{"name": name, "nominalQuota": quota} for name, quota in quotas.items()]}
    spec = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": [*quotas], "flavors": [flavor]}],
    }
    kinds: dict[str, Object] = {
        "ResourceFlavor": {"metadata": {"name": "any"}},
        "ClusterQueue": {"metadata": {"name": CLUSTER_QUEUE}, "spec": spec},
        "WorkloadPriorityClass": {"metadata": {"name": HIGH_PRIORITY}, "value": 1000},
    }
    return [{"apiVersion": version, "kind": kind, **content} for kind, content in kinds.items()]
