"""Names, addresses and files of a small Kubernetes. The only module that knows them.

<home>/mini-kubernetes/
  kubeconfig           for clients on this machine
  daemons.kubeconfig   for daemons
  token, tokens.csv    the administrator's token; the same as the API server reads it
  accounts.key         signs the tokens of service accounts
  resolv.conf
  logs/<daemon>.log, logs/<node>.log
  apiserver/, etcd/    data
  data/                the content of the claim `data`
  nodes/<number>/      of one node
    containerd.toml, kubelet.json, cni/
    kubelet/           volumes of pods
    ready              exists once all daemons of the node have been started
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

#: Variable in the environment of all processes of a cluster but those in containers: its folder.
MARKER = "TONY_MINI_KUBERNETES"
#: The same, for the processes of one node: its number.
NODE_MARKER = "TONY_MINI_KUBERNETES_NODE"
#: Of the first node; others have their number behind it.
NODE_NAME = "mini"
#: At least, whatever the machine has: as the nodes of the small Hadoop.
NODE_CPUS = 8
#: Nodes have networks of 256 addresses in the one of pods.
MAX_NODES = 100
POD_NETWORK = "10.244.0.0/16"
#: Also an address of the first node: so pods reach the API server without kube-proxy.
API_SERVER_IP = "10.96.0.1"
SERVICE_NETWORK = "10.96.0.0/16"
#: A name in the API server's certificate, which it makes itself.
TLS_NAME = "kubernetes"
#: A PersistentVolumeClaim in the namespace `default`.
DATA_CLAIM = "data"
PAUSE_IMAGE = "tony.local/pause:1"
#: In the order in which they are started. containerd is not the only one of that name: its shims are `containerd-shim`.
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE_DAEMONS = ("containerd", "kubelet")


class NodeLayout:
    """The names, addresses and files of one node.

    Args:
        path: the folder of the cluster.
        number: from 1; the first node has the control plane, too.
    """

    def __init__(self, path: Path, number: int) -> None:
        self.number = number
        self.suffix = "" if number == 1 else str(number)
        self.name = f"{NODE_NAME}{self.suffix}"
        self.path = path / "nodes" / str(number)
        self.containerd_config = self.path / "containerd.toml"
        self.kubelet_config = self.path / "kubelet.json"
        self.cni = self.path / "cni"
        self.volumes = self.path / "kubelet"
        self.ready = self.path / "ready"
        self.cgroup = f"{_build_cgroup_name(path)}{f'-{self.suffix}' if self.suffix else ''}"
        self.ip = self.find_address(1)
        #: Without an address of its own a bridge has that of one of its ports: whenever a pod came or went it could
        #: change, and other pods sent to the old one until they asked again.
        self.bridge_mac = f"02:00:0a:f4:{number - 1:02x}:01"

    def find_address(self, host: int) -> str:
        """Return an address of the node's part of the network of pods."""
        return f"10.244.{self.number - 1}.{host}"

    @property
    def daemons(self) -> Sequence[str]:
        """The names of its daemons, without those of the control plane."""
        return [f"{name}{self.suffix}" for name in NODE_DAEMONS]


class KubernetesLayout:
    """The folder of a small Kubernetes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kubeconfig = path / "kubeconfig"
        self.daemons_kubeconfig = path / "daemons.kubeconfig"
        self.token = path / "token"
        self.tokens = path / "tokens.csv"
        self.accounts_key = path / "accounts.key"
        self.resolver_config = path / "resolv.conf"
        self.logs = path / "logs"
        self.data = path / "data"
        self.nodes = path / "nodes"
        self.certificates = path / "apiserver"
        #: The API server's certificate and its authority, which it writes when it starts.
        self.authority = self.certificates / "apiserver.crt"

    @property
    def marker(self) -> str:
        """The entry in the environment of the cluster's processes."""
        return f"{MARKER}={self.path}\0"

    @property
    def cgroup(self) -> str:
        """The beginning of the names of its control groups: each node has one, with its pods."""
        return _build_cgroup_name(self.path)

    def list_nodes(self) -> Sequence[NodeLayout]:
        """Return all nodes of the cluster, whether they run or not; at least one."""
        folders = [path.name for path in self.nodes.iterdir()] if self.nodes.exists() else ["1"]
        return [NodeLayout(self.path, number) for number in sorted(map(int, folders))]

    def find_log(self, name: str) -> Path:
        """Return a daemon's log; that of a node has what failed before a daemon could."""
        return self.logs / f"{name}.log"


def _build_cgroup_name(path: Path) -> str:
    return f"tony-mini-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


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
        places = (self.programs, self.debian / "usr/sbin")
        return ":".join([*map(str, places), "/usr/sbin:/usr/bin:/sbin:/bin"])
