"""Start daemons and further nodes from within the namespaces that they belong to.

Each further node is like a machine of its own: it has namespaces below those of the first one, so that all of its
processes, those in containers as well, end with its first process. A cable connects its bridge with that of the first
node.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tony import isolated_interpreter
from tony.errors import InfraError, TonyError
from tony.mini.kubernetes.daemons import build_control_plane_commands, build_node_commands
from tony.mini.kubernetes.layout import NODE_MARKER, KubernetesLayout, NodeLayout, Software
from tony.mini.kubernetes.software import UNSHARE
from tony.mini.processes import log_tail

WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.05


def spawn_daemon(places: KubernetesLayout, node: NodeLayout, software: Software, name: str) -> subprocess.Popen[bytes]:
    """Start a daemon in the namespaces of this process, those of its node."""
    commands = {**build_control_plane_commands(places, software), **build_node_commands(places, node, software)}
    with open(places.find_log(name), "ab") as log:
        return subprocess.Popen(commands[name], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def spawn_node(places: KubernetesLayout, node: NodeLayout, software: Software, image: str) -> subprocess.Popen[bytes]:
    """Start a further node, whose daemons are ready some time later; call it in the namespaces of the first one.

    Raises:
        InfraError: its namespaces or its cable could not be made.
    """
    node.ready.unlink(missing_ok=True)
    arguments = (str(places.path), str(software.path), image, str(node.number))
    with open(places.find_log(node.name), "wb") as log:
        process = subprocess.Popen(
            [*UNSHARE, *isolated_interpreter.command("tony.mini.kubernetes.node", *arguments)],
            env={**os.environ, NODE_MARKER: str(node.number)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    own = os.readlink("/proc/self/ns/net")
    network = f"/proc/{process.pid}/ns/net"
    wait_until(
        lambda: os.readlink(network) != own, {node.name: process}, places, f"{node.name} has no network of its own"
    )
    run_command("ip", "link", "add", node.name, "type", "veth", "peer", "name", "eth0", "netns", str(process.pid))
    run_command("ip", "link", "set", node.name, "master", "cni0", "up")
    return process


def wait_until(
    condition: Callable[[], bool],
    processes: dict[str, subprocess.Popen[bytes]],
    places: KubernetesLayout,
    reason: str,
) -> None:
    """Wait for a condition.

    Raises:
        InfraError: one of the processes died, or it takes too long; then the message begins with the reason.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        for name, process in processes.items():
            if process.poll() is not None:
                log = places.find_log(name)
                raise InfraError("\n".join([f"{name} died; end of {log}:", *log_tail(log)]))
        if time.monotonic() > deadline:
            raise InfraError(f"{reason} after {WAIT_SECONDS:.0f} s; see {places.logs}")
        time.sleep(_POLL_SECONDS)


def run_command(*words: str) -> None:
    """Run a program.

    Raises:
        InfraError: it failed; says how.
    """
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InfraError(f"{' '.join(words)} failed: {done.stderr.strip()}")


def main() -> int:
    """Start again: folder of the cluster, folder of the programs, archive of the image, name of a daemon or a node."""
    places, software = KubernetesLayout(Path(sys.argv[1])), Software(Path(sys.argv[2]))
    image, name = sys.argv[3:]
    os.umask(0o022)
    try:
        for node in places.list_nodes():
            if node.name == name:
                spawn_node(places, node, software, image)
                return 0
        number = int(os.environ[NODE_MARKER])
        spawn_daemon(places, NodeLayout(places.path, number), software, name)
    except (TonyError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
