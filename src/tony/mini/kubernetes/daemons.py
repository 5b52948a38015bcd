"""The command lines of the daemons. Their programs are links to one binary, which looks at its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tony.mini.kubernetes.layout import SERVICE_NETWORK, KubernetesLayout, NodeLayout, Software

#: Seconds after which pods leave a node that does not answer. The defaults are 50 and 300; they are kept where there is
#: no other node, because a busy machine may be silent for as long.
_SILENCE_SECONDS, _TOLERATION_SECONDS = 10, 3


def build_control_plane_commands(places: KubernetesLayout, software: Software) -> Mapping[str, Sequence[str]]:
    """Return daemon -> command."""
    node, *others = places.list_nodes()
    access = f"--kubeconfig={places.daemons_kubeconfig}"
    key = places.accounts_key
    # PodGroup, and a scheduler that starts gangs: not on by default in 1.36.
    gates = "--feature-gates=GenericWorkload=true,GangScheduling=true"
    arguments = {
        "etcd": [f"--data-dir={places.path}/etcd", "--unsafe-no-fsync"],
        "kube-apiserver": [
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={node.ip}",
            "--secure-port=443",
            f"--cert-dir={places.certificates}",
            f"--token-auth-file={places.tokens}",
            "--authorization-mode=RBAC",
            gates,
            "--runtime-config=scheduling.k8s.io/v1alpha2=true",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--kubelet-preferred-address-types=InternalIP",
        ],
        "kube-controller-manager": [
            access,
            gates,
            "--leader-elect=false",
            "--secure-port=0",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={places.authority}",
            "--use-service-account-credentials",
            # With the defaults the first service account takes some seconds more.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ],
        "kube-scheduler": [access, gates, "--leader-elect=false", "--secure-port=0"],
    }
    if others:
        arguments["kube-apiserver"] += [
            f"--default-{state}-toleration-seconds={_TOLERATION_SECONDS}" for state in ("not-ready", "unreachable")
        ]
        arguments["kube-controller-manager"] += [
            f"--node-monitor-grace-period={_SILENCE_SECONDS}s",
            "--node-monitor-period=1s",
        ]
    return {name: [str(software.programs / name), *words] for name, words in arguments.items()}


def build_node_commands(places: KubernetesLayout, node: NodeLayout, software: Software) -> Mapping[str, Sequence[str]]:
    """Return daemon -> command, for the daemons of one node."""
    containerd, kubelet = node.daemons
    return {
        containerd: [str(software.programs / "containerd"), f"--config={node.containerd_config}"],
        kubelet: [
            str(software.programs / "kubelet"),
            f"--kubeconfig={places.daemons_kubeconfig}",
            f"--config={node.kubelet_config}",
            f"--hostname-override={node.name}",
            f"--node-ip={node.ip}",
        ],
    }
