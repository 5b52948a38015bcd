"""The first process in the namespaces of a small Kubernetes: prepares them, starts the daemons, forwards connections.

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
import time
from collections.abc import Callable
from pathlib import Path

from tony.errors import InfraError, TonyError
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.kube.credentials import FixedCredentials, LoginCredentials, build_bearer
from tony.kube.errors import KubeError
from tony.kube.resources import SERVICE_ACCOUNTS
from tony.mini.kubernetes.cgroups import create_cgroup
from tony.mini.kubernetes.daemons import build_commands
from tony.mini.kubernetes.layout import API_SERVER_IP, NODE_CPUS, NODE_IP, TLS_NAME, KubernetesLayout, Software
from tony.mini.kubernetes.mounts import list_writable_mounts
from tony.mini.processes import log_tail

_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.05
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
#: Without an address of its own a bridge has that of one of its ports: whenever a pod came or went it could change, and
#: other pods sent to the old one until they asked again.
_BRIDGE_MAC = "02:00:0a:f4:00:01"


class Node:
    """The daemons of a node, started one after the other."""

    def __init__(self, places: KubernetesLayout, software: Software) -> None:
        self._places = places
        self._software = software
        self._commands = build_commands(places, software)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, image: str) -> None:
        """Start all daemons; the API server is ready then, the node soon.

        Args:
            image: archive with the image for jobs.

        Raises:
            InfraError: one of them died, or is not ready in time.
        """
        for name in ("etcd", "kube-apiserver", "containerd"):
            self._spawn(name)
        self._wait(_CONTAINERD_SOCKET.exists, "containerd does not respond")
        for archive in (str(self._software.pause), image):
            run_command("ctr", "--address", str(_CONTAINERD_SOCKET), "-n", "k8s.io", "images", "import", archive)
        self._wait(self._is_api_ready, "the API server is not ready")
        for name in ("kube-controller-manager", "kube-scheduler", "kubelet"):
            self._spawn(name)

    def _spawn(self, name: str) -> None:
        with open(self._places.find_log(name), "ab") as log:
            self._processes[name] = subprocess.Popen(
                self._commands[name], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _wait(self, condition: Callable[[], bool], reason: str) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS
        while not condition():
            for name, process in self._processes.items():
                if process.poll() is not None:
                    log = self._places.find_log(name)
                    raise InfraError("\n".join([f"{name} died; end of {log}:", *log_tail(log)]))
            if time.monotonic() > deadline:
                raise InfraError(f"{reason} after {_WAIT_SECONDS:.0f} s; see {self._places.logs}")
            time.sleep(_POLL_SECONDS)

    def _is_api_ready(self) -> bool:
        try:
            access = ClusterAccess(
                server=f"https://{API_SERVER_IP}",
                authority=self._places.authority.read_text("ascii"),
                tls_name=TLS_NAME,
                credentials=FixedCredentials(build_bearer(self._places.token.read_text("ascii"), LoginCredentials())),
            )
            ApiClient(access, give_up_seconds=0).list(SERVICE_ACCOUNTS)
        except (OSError, KubeError):
            return False
        return True


def prepare_mounts(places: KubernetesLayout) -> None:
    """Give the daemons a `/run` and a `/var` of their own, in memory but for volumes of pods, and make all other mounts
    read-only but the cluster's folder, `/proc` and control groups.
    """
    path = places.path.resolve()
    run_command("mount", "--make-rshared", "/")
    run_command("mount", "--bind", str(path), str(path))
    mountinfo = os.fsdecode(Path("/proc/self/mountinfo").read_bytes())
    for mount in list_writable_mounts(mountinfo, (path, *_WRITABLE_MOUNTS, *_OWN_FOLDERS)):
        if mount.is_visible:
            run_command("mount", "-o", ",".join(("remount", "bind", "ro", *mount.options)), str(mount.path))
    run_command("mount", "-t", "tmpfs", "tmpfs", "/run")
    for name in ("var", "work", "netns", "kernel"):
        Path("/run", name).mkdir()
    layers = "lowerdir=/var,upperdir=/run/var,workdir=/run/work"
    run_command("mount", "-t", "overlay", "overlay", "-o", layers, "/var")
    Path("/var/lib/kubelet").mkdir(parents=True, exist_ok=True)
    run_command("mount", "--bind", str(places.kubelet), "/var/lib/kubelet")
    for name in _KERNEL_SETTINGS:
        setting, copy = Path("/proc/sys", name), Path("/run/kernel", name.replace("/", "."))
        if setting.exists():
            copy.write_bytes(setting.read_bytes())
            run_command("mount", "--bind", str(copy), str(setting))


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


def prepare_network() -> None:
    """Create the bridge of pods, with the addresses of the node and of the API server."""
    run_command("ip", "link", "set", "lo", "up")
    run_command("ip", "link", "add", "cni0", "address", _BRIDGE_MAC, "type", "bridge")
    for address in (f"{NODE_IP}/24", f"{API_SERVER_IP}/32"):
        run_command("ip", "address", "add", address, "dev", "cni0")
    run_command("ip", "link", "set", "cni0", "up")


def run_command(*words: str) -> None:
    """Run a program.

    Raises:
        InfraError: it failed; says how.
    """
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InfraError(f"{' '.join(words)} failed: {done.stderr.strip()}")


async def serve(listener: socket.socket) -> None:
    """Forward connections to the API server, and reap orphans, until this process is killed."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, _reap)
    _reap()
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
    """Run a node: folder of the cluster, folder of the programs, archive of the image, number of the socket."""
    places, software = KubernetesLayout(Path(sys.argv[1])), Software(Path(sys.argv[2]))
    os.umask(0o022)
    try:
        prepare_mounts(places)
        oversubscribe_cpus(NODE_CPUS)
        prepare_network()
        create_cgroup(places.cgroup)
        Node(places, software).start(sys.argv[3])
    except (TonyError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    places.ready.touch()
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[4]))))
    return 0
