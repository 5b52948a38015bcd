"""The configuration of a small Kubernetes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tony.kube.api_client import Object
from tony.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, ApiResource
from tony.mini.kubernetes.layout import (
    API_SERVER_IP,
    DATA_CLAIM,
    PAUSE_IMAGE,
    POD_NETWORK,
    TLS_NAME,
    KubernetesLayout,
    NodeLayout,
    Software,
)

#: Makes name lookups fail at once instead of timing out: no name server listens at this address, and there is no
#: cluster DNS.
_RESOLVER = f"nameserver {API_SERVER_IP}\n"
#: A kubelet renews its lease four times as often: a lost node is noticed when it has not done so for 10 s.
_LEASE_SECONDS = 8
_CONTAINERD = """\
version = 3
root = "/run/containerd/root"
state = "/run/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs"]
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "/run/containerd/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{debian}/usr/lib/cni"]
conf_dir = "{cni}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{debian}/usr/sbin/runc"
"""


def write_cluster_files(places: KubernetesLayout, software: Software, port: int, nodes: int) -> None:
    """Write all files that are needed before the start.

    Args:
        port: on which clients of this machine reach the API server.
        nodes: how many there are.
    """
    for folder in (places.path, places.logs, places.nodes):
        folder.mkdir(mode=0o700)
    token = secrets.token_urlsafe(32)
    places.data.mkdir()
    places.data.chmod(0o777)  # for pods of any user; on this machine the folder above keeps others out
    _write(places.token, token)
    _write(places.tokens, f'{token},admin,admin,"system:masters"\n')
    _write(places.accounts_key, _create_key())
    _write(places.kubeconfig, _format(build_kubeconfig(f"https://127.0.0.1:{port}", places.authority, token)))
    inside = build_kubeconfig(f"https://{API_SERVER_IP}", places.authority, token)
    _write(places.daemons_kubeconfig, _format(inside))
    _write(places.resolver_config, _RESOLVER)
    for number in range(1, nodes + 1):
        node = NodeLayout(places.path, number)
        for folder in (node.path, node.volumes, node.cni):
            folder.mkdir(mode=0o700)
        _write(node.containerd_config, _CONTAINERD.format(pause=PAUSE_IMAGE, debian=software.debian, cni=node.cni))
        _write(node.kubelet_config, _format(build_kubelet_config(places, node)))
        _write(node.cni / "mini.conflist", _format(build_pod_network(node)))


def build_kubeconfig(server: str, authority: Path, token: str) -> dict[str, Any]:
    """Return a kubeconfig file with the administrator's token."""
    cluster = {"server": server, "certificate-authority": str(authority), "tls-server-name": TLS_NAME}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "mini", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "mini", "context": {"cluster": "mini", "user": "admin"}}],
        "current-context": "mini",
    }


def build_kubelet_config(places: KubernetesLayout, node: NodeLayout) -> dict[str, Any]:
    """Return the kubelet's configuration. It accepts every request, but is reachable only in the cluster's network."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.ip,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "clusterDNS": [API_SERVER_IP],
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "evictionHard": {"memory.available": "100Mi"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "nodeLeaseDurationSeconds": _LEASE_SECONDS,
        "resolvConf": str(places.resolver_config),
        "volumePluginDir": "/run/kubelet-plugins",
    }


def build_pod_network(node: NodeLayout) -> dict[str, Any]:
    """Return the CNI configuration: pods are on a bridge, and reach all nodes and each other."""
    part = {"rangeStart": node.find_address(2), "rangeEnd": node.find_address(254), "gateway": node.ip}
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": POD_NETWORK, **part}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": "mini", "plugins": [bridge]}


def build_data_claim(places: KubernetesLayout) -> Sequence[tuple[ApiResource, Object]]:
    """Return a volume in the cluster's folder, and the claim that is bound to it, in the order of their creation."""
    size = {"storage": "1Ti"}  # the kubelet does not look at it
    volume = {
        "capacity": size,
        "accessModes": ["ReadWriteMany"],
        "hostPath": {"path": str(places.data.resolve())},
        "claimRef": {"namespace": "default", "name": DATA_CLAIM},
        "storageClassName": "",
    }
    claim = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": size},
        "volumeName": DATA_CLAIM,
        "storageClassName": "",
    }
    return [
        (resource, {"apiVersion": "v1", "kind": resource.kind, "metadata": {"name": DATA_CLAIM}, "spec": spec})
        for resource, spec in ((PERSISTENT_VOLUMES, volume), (PERSISTENT_VOLUME_CLAIMS, claim))
    ]


def _create_key() -> str:
    from cryptography.hazmat.primitives import serialization  # late: it takes long, and most commands need no key
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


def _format(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=1) + "\n"


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
