"""A small Kubernetes as a whole: start, inspect, stop."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tony import isolated_interpreter
from tony.errors import ConfigError, InfraError, StorageError, UserError
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.kubeconfig import load_cluster_access
from tony.kube.resources import NODES, PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS, ApiResource
from tony.linux import process
from tony.mini.cluster import DaemonStatus
from tony.mini.kubernetes.cgroups import remove_cgroup
from tony.mini.kubernetes.cluster_files import build_data_claim, write_cluster_files
from tony.mini.kubernetes.layout import DAEMONS, DATA_CLAIM, MARKER, NODE_NAME, KubernetesLayout, Software
from tony.mini.kubernetes.software import UNSHARE, VERSION, fetch
from tony.mini.processes import log_tail
from tony.mini.state_lock import lock_state_directory
from tony.model.state_directory import Home

#: Seconds for a cluster to start; it takes about 5.
START_TIMEOUT_SECONDS = 120.0
_REMOVE_SECONDS = 20.0
_POLL_SECONDS = 0.05
#: The node has a `/run` and a `/var` of its own.
_HIDDEN_FOLDERS = (Path("/run"), Path("/var"), Path("/proc"))


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesStatus:
    """The status of a small Kubernetes.

    Attributes:
        running: whether any daemon is running.
        waiting_for: why it is not ready; None if it is.
        version: of Kubernetes.
        kubeconfig: the value for KUBECONFIG.
    """

    running: bool
    waiting_for: str | None
    version: str
    kubeconfig: str
    daemons: tuple[DaemonStatus, ...]


class KubernetesCluster:
    """The small Kubernetes of a state directory, running or not."""

    def __init__(self, home: Home, environment: Mapping[str, str]) -> None:
        """Create the object; starts nothing.

        Args:
            environment: locates Go and its caches.
        """
        self.home = home
        self.places = KubernetesLayout(home.mini_kubernetes)
        self._environment = environment

    @property
    def kubeconfig(self) -> Path:
        """The value for KUBECONFIG."""
        return self.places.kubeconfig

    @property
    def is_running(self) -> bool:
        """Whether any of its processes is running."""
        return self.places.path.exists() and bool(process.with_marker(self.places.marker))

    def start(self, objects: Iterable[tuple[ApiResource, Object]], notice: Callable[[str], None]) -> None:
        """Start an empty cluster, wait until it is ready, and create objects in its namespace `default`.

        Raises:
            UserError: this machine lacks something, or a cluster is already running.
            InfraError: a daemon died, or is not ready in time; says which, with the end of its log.
        """
        path = self.places.path.resolve()
        if any(path.is_relative_to(hidden) for hidden in _HIDDEN_FOLDERS):
            raise UserError(f"a small Kubernetes cannot use {path}, because it has a {path.parents[-2]} of its own")
        software, image = fetch(self._environment, notice)
        with lock_state_directory(self.home):
            if self.is_running:
                raise UserError(
                    f"a small Kubernetes is already running in {self.places.path}; see: tony mini status; stop it: "
                    "tony mini stop"
                )
            self._stop_and_remove()
            try:
                self._start(software, image)
                client = ApiClient(load_cluster_access([self.kubeconfig]))
                with closing(client):
                    for resource, body in [*build_data_claim(self.places), *objects]:
                        client.create(resource, body)
                    _wait_for_claim(client)
            except (InfraError, KubeError):
                self._kill()  # keeps its files and logs for diagnosis
                raise
            except BaseException:
                self._stop_and_remove()
                raise

    def stop(self) -> int:
        """Stop everything, and remove all files but the cache. Also cleans up after crashes.

        Returns:
            How many daemons were running.
        """
        if not self.places.path.exists():
            return 0
        with lock_state_directory(self.home):
            count = len(self._find_running())
            self._stop_and_remove()
            return count

    def status(self) -> KubernetesStatus | None:
        """Return the status of every daemon, and of the cluster as a whole; None if there is no cluster."""
        if not self.places.path.exists():
            return None
        running = self._find_running()
        return KubernetesStatus(
            running=bool(running),
            waiting_for=self._explain_not_ready(running),
            version=VERSION,
            kubeconfig=str(self.kubeconfig),
            daemons=tuple(self._describe(name, running.get(name)) for name in DAEMONS),
        )

    def _start(self, software: Software, image: Path) -> None:
        variables = {"PATH": software.search_path, "LANG": "C.UTF-8", "TMPDIR": "/run", MARKER: str(self.places.path)}
        with socket.create_server(("127.0.0.1", 0)) as listener:
            write_cluster_files(self.places, software, listener.getsockname()[1])
            arguments = (self.places.path, software.path, image, listener.fileno())
            with open(self.places.find_log("node"), "wb") as log:
                node = subprocess.Popen(
                    [*UNSHARE, *isolated_interpreter.command("tony.mini.kubernetes.node", *map(str, arguments))],
                    env=variables,
                    cwd=self.places.path,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[listener.fileno()],
                    start_new_session=True,
                )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        reason: str | None = "its daemons are being started"
        while reason:
            if node.poll() is not None:
                raise InfraError("\n".join(log_tail(self.places.find_log("node"))) or "its first process died")
            if self.places.ready.exists():
                running = self._find_running()
                if dead := [name for name in DAEMONS if name not in running]:
                    path = self.places.find_log(dead[0])
                    raise InfraError("\n".join([f"{dead[0]} died; end of {path}:", *log_tail(path)]))
                reason = self._explain_not_ready(running)
            if reason and time.monotonic() > deadline:
                raise InfraError(f"the small Kubernetes was not ready after {START_TIMEOUT_SECONDS:.0f} s: {reason}")
            time.sleep(_POLL_SECONDS)

    def _explain_not_ready(self, running: Collection[str]) -> str | None:
        """Return why the cluster is not ready; None if it is.

        Args:
            running: names of running daemons.
        """
        dead = [name for name in DAEMONS if name not in running]
        if dead:
            return f"{', '.join(dead)} {'is' if len(dead) == 1 else 'are'} dead; see {self.places.logs}"
        try:
            client = ApiClient(load_cluster_access([self.kubeconfig]), give_up_seconds=0)
            with closing(client):
                conditions = client.get(NODES, NODE_NAME).get("status", {}).get("conditions", ())
                client.get(SERVICE_ACCOUNTS, "default")
        except KubeApiError as error:
            return str(error)
        except (KubeError, ConfigError) as error:
            return f"the API server does not respond: {error}"
        is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        return None if is_ready else "the node is not ready"

    def _find_running(self) -> dict[str, int]:
        """Return daemon -> pid. The kernel keeps 15 characters of a name."""
        names = {name[:15]: name for name in DAEMONS}
        found = {process.name(pid): pid for pid in process.with_marker(self.places.marker)}
        return {names[short]: pid for short, pid in found.items() if short in names}

    def _describe(self, name: str, pid: int | None) -> DaemonStatus:
        return DaemonStatus(
            name=name,
            state="dead" if pid is None else "stopped" if process.is_stopped(pid) else "running",
            pid=pid,
            memory=None if pid is None else process.memory_of([pid]),
            web="",
            log=str(self.places.find_log(name)),
        )

    def _kill(self) -> None:
        """Kill the first process of the namespaces, and with it all others; then remove their control groups."""
        process.sweep(self.places.marker)
        remove_cgroup(self.places.cgroup)

    def _stop_and_remove(self) -> None:
        self._kill()
        deadline = time.monotonic() + _REMOVE_SECONDS
        while self.places.path.exists():
            try:
                shutil.rmtree(self.places.path)
            except OSError as error:
                if time.monotonic() >= deadline:
                    raise StorageError(f"cannot remove {self.places.path}: {error}") from error
                time.sleep(_POLL_SECONDS)


def _wait_for_claim(client: ApiClient) -> None:
    """Wait until the claim for data is bound to its volume."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while client.get(PERSISTENT_VOLUME_CLAIMS, DATA_CLAIM).get("status", {}).get("phase") != "Bound":
        if time.monotonic() > deadline:
            raise InfraError(f"the claim {DATA_CLAIM} was not bound after {START_TIMEOUT_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
