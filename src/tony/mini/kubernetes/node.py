"""The first process in the namespaces of a node: prepares them, starts the daemons, and forwards connections.

Clients reach the API server by a socket that listens on the machine's loopback: it was created before the namespaces,
and belongs to the machine's network in a process that is in another one. All else is out of each other's reach.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tony.errors import TonyError
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.kube.credentials import FixedCredentials, LoginCredentials, build_bearer
from tony.kube.errors import KubeError
from tony.kube.resources import SERVICE_ACCOUNTS
from tony.mini.kubernetes.cgroups import create_cgroup
from tony.mini.kubernetes.daemon_start import run_command, spawn_daemon, spawn_node, wait_until
from tony.mini.kubernetes.layout import (
    API_SERVER_IP,
    NODE_CPUS,
    TLS_NAME,
    KubernetesLayout,
    NodeLayout,
    Software,
)
from tony.mini.kubernetes.mounts import list_writable_mounts

#: Settings of the machine's kernel that a kubelet changes: here it changes files.
_KERNEL_SETTINGS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
)
#: The only mounts of the machine that stay writable, for settings of processes and of control groups.
_WRITABLE_MOUNTS = (Path("/proc"), Path("/sys/fs/cgroup"))
#: Folders of the machine over which the node mounts its own.
_OWN_FOLDERS = (Path("/run"), Path("/var"))
_CONTAINERD_SOCKET = Path("/run/containerd/containerd.sock")
#: Where a kubelet, containerd and the network plug-ins write, whatever their options say.
_NODE_FOLDERS = (Path("/var/log"), Path("/var/lib/cni"))


class Node:
    """The daemons of a node, started one after the other."""

    def __init__(self, places: KubernetesLayout, node: NodeLayout, software: Software) -> None:
        self._places, self._node, self._software = places, node, software
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, image: str) -> None:
        """Start all daemons; the API server is ready then, the node soon.

        Args:
            image: archive with the image for jobs.

        Raises:
            InfraError: one of them died, or is not ready in time.
        """
        containerd, kubelet = self._node.daemons
        is_first = self._node.number == 1
        if is_first:
            self._spawn("etcd", "kube-apiserver")
        self._spawn(containerd)
        self._wait(_CONTAINERD_SOCKET.exists, f"{containerd} does not respond")
        for archive in (str(self._software.pause), image):
            run_command("ctr", "--address", str(_CONTAINERD_SOCKET), "-n", "k8s.io", "images", "import", archive)
        self._wait(self._is_api_ready, "the API server is not ready")
        if is_first:
            self._spawn("kube-controller-manager", "kube-scheduler")
        self._spawn(kubelet)
        self._node.ready.touch()

    def _spawn(self, *names: str) -> None:
        for name in names:
            self._processes[name] = spawn_daemon(self._places, self._node, self._software, name)

    def _wait(self, condition: Callable[[], bool], reason: str) -> None:
        wait_until(condition, self._processes, self._places, reason)

    def _is_api_ready(self) -> bool:
        try:
            access = ClusterAccess(
                server=f"https://{API_SERVER_IP}",
                authority=self._places.authority.read_text("ascii"),
                tls_name=TLS_NAME,
                credentials=FixedCredentials(build_bearer(self._places.token.read_text("ascii"), LoginCredentials())),
            )
            with contextlib.closing(ApiClient(access, give_up_seconds=0)) as client:
                client.list(SERVICE_ACCOUNTS)
        except (OSError, KubeError):
            return False
        return True


def prepare_mounts(places: KubernetesLayout, node: NodeLayout) -> None:
    """Give the daemons a `/run` of their own, and what they need of `/var`, in memory but for volumes of pods.

    On the first node, also make all other mounts read-only but the cluster's folder, `/proc` and control groups.
    """
    run_command("mount", "--make-rshared", "/")
    if node.number == 1:
        _make_read_only(places.path.resolve())
    run_command("mount", "-t", "tmpfs", "tmpfs", "/run")
    for name in ("var", "work", "netns", "kernel"):
        Path("/run", name).mkdir()
    if node.number == 1:
        layers = "lowerdir=/var,upperdir=/run/var,workdir=/run/work"
        run_command("mount", "-t", "overlay", "overlay", "-o", layers, "/var")
        for folder in (*_NODE_FOLDERS, Path("/var/lib/kubelet")):
            folder.mkdir(parents=True, exist_ok=True)
    for folder in _NODE_FOLDERS:
        run_command("mount", "-t", "tmpfs", "tmpfs", str(folder))
    run_command("mount", "--bind", str(node.volumes), "/var/lib/kubelet")
    for name in _KERNEL_SETTINGS:
        setting, copy = Path("/proc/sys", name), Path("/run/kernel", name.replace("/", "."))
        if setting.exists():
            copy.write_bytes(setting.read_bytes())
            run_command("mount", "--bind", str(copy), str(setting))


def _make_read_only(path: Path) -> None:
    run_command("mount", "--bind", str(path), str(path))
    mountinfo = os.fsdecode(Path("/proc/self/mountinfo").read_bytes())
    for mount in list_writable_mounts(mountinfo, (path, *_WRITABLE_MOUNTS, *_OWN_FOLDERS)):
        if mount.is_visible:
            run_command("mount", "-o", ",".join(("remount", "bind", "ro", *mount.options)), str(mount.path))


def oversubscribe_cpus(count: int) -> None:
    """Make the kubelet count CPUs several times, so that a gang of idle tasks fits on a small machine.

    It finds them below NUMA nodes: here each of some nodes has all of them.
    """
    cpus = sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*"))
    for number in range(math.ceil(count / len(cpus))):
        node = Path(f"/run/numa/node{number}")
        node.mkdir(parents=True)
        for cpu in cpus:
            (node / cpu.name).symlink_to(cpu)
    if Path("/sys/devices/system/node").exists():
        run_command("mount", "--bind", "/run/numa", "/sys/devices/system/node")


def prepare_network(places: KubernetesLayout, node: NodeLayout) -> None:
    """Create the bridge of pods with the addresses of the node; all bridges are one network."""
    run_command("ip", "link", "set", "lo", "up")
    run_command("ip", "link", "add", "cni0", "address", node.bridge_mac, "type", "bridge")
    run_command("ip", "address", "add", f"{node.ip}/16", "dev", "cni0")
    run_command("ip", "link", "set", "cni0", "up")
    if node.number == 1:
        run_command("ip", "address", "add", f"{API_SERVER_IP}/32", "dev", "cni0")
        return
    run_command("ip", "route", "add", f"{API_SERVER_IP}/32", "via", NodeLayout(places.path, 1).ip)
    wait_until(lambda: "eth0" in dict(socket.if_nameindex()).values(), {}, places, "there is no cable")
    run_command("ip", "link", "set", "eth0", "master", "cni0", "up")


async def serve(listener: socket.socket | None) -> None:
    """Forward connections to the API server, and reap orphans, until this process is killed."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, _reap)
    _reap()
    if listener is None:
        await asyncio.Event().wait()
        return
    server = await asyncio.start_server(_forward, sock=listener)
    await server.serve_forever()


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        api_reader, api_writer = await asyncio.open_connection(API_SERVER_IP, 443)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copy(reader, api_writer), _copy(api_reader, writer))
    for each in (writer, api_writer):
        each.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


def main() -> int:
    """Run a node: folder of the cluster, folder of the programs, archive of the image, number of the node; for the
    first one, number of the socket.
    """
    places, software, image = KubernetesLayout(Path(sys.argv[1])), Software(Path(sys.argv[2])), sys.argv[3]
    node = NodeLayout(places.path, int(sys.argv[4]))
    listener = socket.socket(fileno=int(sys.argv[5])) if node.number == 1 else None
    os.umask(0o022)
    try:
        prepare_mounts(places, node)
        if node.number == 1:
            oversubscribe_cpus(NODE_CPUS)
        prepare_network(places, node)
        create_cgroup(node.cgroup)
        if node.number == 1:
            for other in places.list_nodes()[1:]:
                spawn_node(places, other, software, image)
        Node(places, node, software).start(image)
    except (TonyError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    asyncio.run(serve(listener))
    return 0
