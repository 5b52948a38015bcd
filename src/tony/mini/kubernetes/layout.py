"""Names, addresses and files of a small Kubernetes. The only module that knows them.

<home>/mini-kubernetes/
  kubeconfig           for clients on this machine
  daemons.kubeconfig   for daemons
  token, tokens.csv    the administrator's token; the same as the API server reads it
  accounts.key         signs the tokens of service accounts
  containerd.toml, kubelet.json, cni/, resolv.conf
  ready                exists once all daemons have been started
  logs/<daemon>.log, logs/node.log
  apiserver/, etcd/, kubelet/  data; kubelet/ has the volumes of pods
  data/                the content of the claim `data`
"""

from __future__ import annotations

import hashlib
from pathlib import Path

#: Variable in the environment of all processes of a cluster but those in containers: its folder.
MARKER = "TONY_MINI_KUBERNETES"
NODE_NAME = "mini"
#: At least, whatever the machine has: as the nodes of the small Hadoop.
NODE_CPUS = 8
NODE_IP = "10.244.0.1"
POD_NETWORK = "10.244.0.0/24"
#: Also an address of the node: so pods reach the API server without kube-proxy.
API_SERVER_IP = "10.96.0.1"
SERVICE_NETWORK = "10.96.0.0/16"
#: A name in the API server's certificate, which it makes itself.
TLS_NAME = "kubernetes"
#: A PersistentVolumeClaim in the namespace `default`.
DATA_CLAIM = "data"
PAUSE_IMAGE = "tony.local/pause:1"
#: In the order in which they are started. containerd is not the only one of that name: its shims are `containerd-shim`.
DAEMONS = ("etcd", "kube-apiserver", "containerd", "kube-controller-manager", "kube-scheduler", "kubelet")


class KubernetesLayout:
    """The folder of a small Kubernetes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kubeconfig = path / "kubeconfig"
        self.daemons_kubeconfig = path / "daemons.kubeconfig"
        self.token = path / "token"
        self.tokens = path / "tokens.csv"
        self.accounts_key = path / "accounts.key"
        self.containerd_config = path / "containerd.toml"
        self.kubelet_config = path / "kubelet.json"
        self.resolver_config = path / "resolv.conf"
        self.cni = path / "cni"
        self.ready = path / "ready"
        self.logs = path / "logs"
        self.kubelet = path / "kubelet"
        self.data = path / "data"
        self.certificates = path / "apiserver"
        #: The API server's certificate and its authority, which it writes when it starts.
        self.authority = self.certificates / "apiserver.crt"

    @property
    def marker(self) -> str:
        """The entry in the environment of the cluster's processes."""
        return f"{MARKER}={self.path}\0"

    @property
    def cgroup(self) -> str:
        """The name of the control group that has all pods."""
        return f"tony-mini-{hashlib.sha256(str(self.path).encode()).hexdigest()[:8]}"

    def find_log(self, daemon: str) -> Path:
        """Return a daemon's log; that of `node` has what failed before a daemon could."""
        return self.logs / f"{daemon}.log"


class Software:
    """The folder of built programs; see `software`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.programs = path / "bin"
        self.debian = path / "debian"
        self.pause = path / "pause.tar"

    @property
    def search_path(self) -> str:
        """PATH of the daemons: the programs, and those of the system."""
        places = (self.programs, self.debian / "usr/bin", self.debian / "usr/sbin")
        return ":".join([*map(str, places), "/usr/sbin:/usr/bin:/sbin:/bin"])
