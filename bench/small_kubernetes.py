"""A small Kubernetes for a row of the bench: `tony mini --kubernetes`, in a state directory of its own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.harness import CannotRunError
from bench.measured_processes import TIMEOUT_SECONDS, Workshop, tony
from tony.kube.api_client import ApiClient
from tony.kube.kubeconfig import load_cluster_access
from tony.linux import process
from tony.mini.kubernetes.layout import KubernetesLayout
from tony.mini.kubernetes.software import PYTHON_IMAGE, find_missing, find_software
from tony.model.state_directory import Home

_READ_BYTES = 1 << 16
#: What a job file needs for the cluster.
SCHEDULER_TABLE = f"""\
[scheduler]
name = "kubernetes"
[scheduler.kubernetes]
image = "{PYTHON_IMAGE}"
"""


class RunningKubernetes:
    """A small Kubernetes.

    Attributes:
        places: its files.
        environ: the environment of its users' programs.
    """

    def __init__(self, places: KubernetesLayout, environ: Mapping[str, str]) -> None:
        self.places = places
        self.environ = {**environ, "KUBECONFIG": str(places.kubeconfig)}

    def enter_network(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs in the network of its pods; the API server is at `daemons.kubeconfig` there."""
        kubelet = next(pid for pid in process.with_marker(self.places.marker) if process.name(pid) == "kubelet")
        return ["nsenter", "--target", str(kubelet), "--net", *command]


class SmallKubernetes(RunningKubernetes):
    """A context: a cluster of one node. Enter it inside the workshop, so that it ends first.

    Attributes:
        client: of its API server, as the administrator.
    """

    def __init__(self, shop: Workshop) -> None:
        super().__init__(KubernetesLayout(Home(shop.path / "cluster").mini_kubernetes), shop.environ)
        self._mini_environ = {**shop.environ, "TONY_HOME": str(shop.path / "cluster")}

    def __enter__(self) -> SmallKubernetes:
        if missing := find_missing(os.environ):
            raise CannotRunError(f"a small Kubernetes needs {'; '.join(missing)}")
        if find_software(os.environ) is None:
            raise CannotRunError("Kubernetes has not been built: `tony mini start --kubernetes` does")
        self._mini("start", "--kubernetes")
        self.client = ApiClient(load_cluster_access([self.places.kubeconfig]))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.client.close()
        self._mini("stop")

    def _mini(self, *words: str) -> None:
        """Raises `CannotRunError` with what it says."""
        try:
            done = subprocess.run(
                tony("mini", *words), env=self._mini_environ, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise CannotRunError(f"tony mini {words[0]} did not end in {TIMEOUT_SECONDS:.0f} s") from None
        if done.returncode:
            raise CannotRunError(f"tony mini {words[0]}: {done.stderr.decode(errors='replace').strip()[-2000:]}")


class CountingProxy:
    """A context: a port that leads to the API server, and counts what clients send, TLS and all.

    Attributes:
        sent: bytes.
        kubeconfig: the value for KUBECONFIG of these clients.
    """

    def __init__(self, cluster: SmallKubernetes, folder: Path) -> None:
        config: dict[str, Any] = json.loads(cluster.places.kubeconfig.read_text())
        access = config["clusters"][0]["cluster"]
        self._port = int(access["server"].rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        access["server"] = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.kubeconfig = folder / "counted.kubeconfig"
        self.kubeconfig.write_text(json.dumps(config))
        self.sent = 0

    def __enter__(self) -> CountingProxy:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                threading.Thread(target=self._copy_counted, args=(client, server), daemon=True).start()
                threading.Thread(target=_copy, args=(server, client), daemon=True).start()

    def _copy_counted(self, client: socket.socket, server: socket.socket) -> None:
        for size in _copy_parts(client, server):
            self.sent += size


def _copy(source: socket.socket, target: socket.socket) -> None:
    for _ in _copy_parts(source, target):
        pass


def _copy_parts(source: socket.socket, target: socket.socket) -> Iterator[int]:
    with contextlib.suppress(OSError):
        while data := source.recv(_READ_BYTES):
            target.sendall(data)
            yield len(data)
        target.shutdown(socket.SHUT_WR)
