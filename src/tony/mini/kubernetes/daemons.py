"""The command lines of the daemons. Their programs are links to one binary, which looks at its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tony.mini.kubernetes.layout import NODE_IP, NODE_NAME, SERVICE_NETWORK, KubernetesLayout, Software


def build_commands(places: KubernetesLayout, software: Software) -> Mapping[str, Sequence[str]]:
    """Return daemon -> command."""
    access = f"--kubeconfig={places.daemons_kubeconfig}"
    key = places.accounts_key
    # PodGroup, and a scheduler that starts gangs: not on by default in 1.36.
    gates = "--feature-gates=GenericWorkload=true,GangScheduling=true"
    arguments = {
        "etcd": [f"--data-dir={places.path}/etcd", "--unsafe-no-fsync"],
        "kube-apiserver": [
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={NODE_IP}",
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
        "kubelet": [
            access,
            f"--config={places.kubelet_config}",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={NODE_IP}",
        ],
    }
    commands = {name: [str(software.programs / name), *words] for name, words in arguments.items()}
    containerd = software.debian / "usr/bin/containerd"
    return {**commands, "containerd": [str(containerd), f"--config={places.containerd_config}"]}
