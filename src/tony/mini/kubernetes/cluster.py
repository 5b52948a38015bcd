"""A small Kubernetes as a whole: start, inspect, stop."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
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
from tony.mini.kubernetes.cgroups import remove_cgroups
from tony.mini.kubernetes.cluster_files import build_data_claim, write_cluster_files
from tony.mini.kubernetes.layout import (
    CONTROL_PLANE,
    DATA_CLAIM,
    MARKER,
    MAX_NODES,
    NODE_DAEMONS,
    NODE_MARKER,
    KubernetesLayout,
    NodeLayout,
    Software,
)
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
        self._node: subprocess.Popen[bytes] | None = None  # if this object has started it

    @property
    def kubeconfig(self) -> Path:
        """The value for KUBECONFIG."""
        return self.places.kubeconfig

    @property
    def is_running(self) -> bool:
        """Whether any of its processes is running."""
        return self.places.path.exists() and bool(process.with_marker(self.places.marker))

    def start(
        self,
        objects: Iterable[tuple[ApiResource, Object]],
        notice: Callable[[str], None],
        nodes: int = 1,
        ending: AbstractContextManager[None] | None = None,
    ) -> None:
        """Start an empty cluster, wait until it is ready, and create objects in its namespace `default`.

        Args:
            nodes: how many it has.
            ending: as in `stop`, for the jobs of an earlier cluster that has crashed.

        Raises:
            UserError: this machine lacks something, or a cluster is already running.
            InfraError: a daemon died, or is not ready in time; says which, with the end of its log.
        """
        if not 1 <= nodes <= MAX_NODES:
            raise UserError(f"--nodes {nodes}: expected a number from 1 to {MAX_NODES}")
        path = self.places.path.resolve()
        if any(path.is_relative_to(hidden) for hidden in _HIDDEN_FOLDERS):
            text = f"a small Kubernetes cannot be in {path}: {path.parents[-2]} is another folder inside it"
            raise UserError(f"{text}. Set TONY_HOME to a folder elsewhere")
        software, image = fetch(self._environment, notice)
        with lock_state_directory(self.home):
            if self.is_running:
                raise UserError(
                    f"a small Kubernetes is already running in {self.places.path}; see: tony mini status; stop it: "
                    "tony mini stop"
                )
            self._end(ending)
            try:
                self._start(software, image, nodes)
                client = ApiClient(load_cluster_access([self.kubeconfig]))
                with closing(client):
                    for resource, body in [*build_data_claim(self.places), *objects]:
                        client.create(resource, body)
                    _wait_for_claim(client)
            except InfraError:
                self._kill()  # keeps its files and logs for diagnosis
                raise
            except BaseException:
                self._stop_and_remove()
                raise

    def stop(self, ending: AbstractContextManager[None] | None = None) -> int:
        """Stop everything, and remove all files but the cache. Also cleans up after crashes.

        Args:
            ending: entered before the daemons are stopped, and left before their files are removed.

        Returns:
            How many daemons were running.
        """
        if not self.places.path.exists():
            return 0
        with lock_state_directory(self.home):
            count = len(self._list_daemons()) - len(self._list_dead(self._find_running()))
            self._end(ending)
            return count

    def _end(self, ending: AbstractContextManager[None] | None) -> None:
        with ending or nullcontext():
            self._kill()
        self._stop_and_remove()

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
            daemons=tuple(self._describe(name, running.get(name)) for name in self._list_daemons()),
        )

    def kill(self, name: str, number: int = signal.SIGKILL) -> int | None:
        """Send a signal to a daemon, or kill a node with all of its pods; wait for the end if it is SIGTERM or SIGKILL.

        Returns:
            The pid of the daemon, or of the first process of the node; None if it was dead already.

        Raises:
            UserError: there is no such daemon or node.
            InfraError: it does not end.
        """
        self._check_name(name)
        is_node = name in {node.name for node in self.places.list_nodes()}
        if is_node:
            number = signal.SIGKILL  # a machine without power gets no other signal
        with lock_state_directory(self.home):
            pid = self._find_running().get(name)
            # All of a node ends with the first process in its namespaces, and only then does the one that made them.
            target = next(iter(process.children(pid)), None) if pid and is_node else pid
            if pid is None or target is None or not process.send(target, number):
                return None
            deadline = time.monotonic() + _REMOVE_SECONDS
            while number in (signal.SIGTERM, signal.SIGKILL) and process.is_alive(pid):
                if time.monotonic() >= deadline:
                    raise InfraError(f"{name} still runs {_REMOVE_SECONDS:.0f} s after the signal; try --signal KILL")
                time.sleep(_POLL_SECONDS)
            return target

    def restart(self, name: str) -> Sequence[str]:
        """Restart a daemon or a node, and wait until the cluster is ready.

        Returns:
            Names of other daemons that are dead. Then it does not wait: the cluster cannot get ready without them.

        Raises:
            UserError: there is no such daemon or node.
            InfraError: it died or is not ready in time.
        """
        self.kill(name)
        software, image = fetch(self._environment, _ignore)
        with lock_state_directory(self.home):
            nodes = self.places.list_nodes()
            own = next((node for node in nodes if name in node.daemons), nodes[0])
            running = self._find_running()
            if own.name not in running:
                raise UserError(f"node {own.name} does not run; start it first: tony mini restart {own.name}")
            (first,) = process.children(running[own.name])
            arguments = (self.places.path, software.path, image, name)
            enter = ["nsenter", f"--target={first}", "--mount", "--net", "--pid"]
            done = subprocess.run(
                [*enter, *isolated_interpreter.command("tony.mini.kubernetes.daemon_start", *map(str, arguments))],
                env={**self._build_variables(software), NODE_MARKER: str(own.number)},
                cwd=self.places.path,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise InfraError(f"{name} could not be started: {done.stderr.strip()}")
            new = [node for node in nodes if node.name == name]
            needed = {name, *(daemon for node in new for daemon in node.daemons)}
            self._wait(new, needed)
            return [each for each in self._list_dead(self._find_running()) if each not in needed]

    def _check_name(self, name: str) -> None:
        if not self.is_running:
            raise UserError(f"no small Kubernetes is running in {self.home.path}; start one with: tony mini start")
        first, *others = self.places.list_nodes()
        if name == first.name:
            raise UserError(f"{name} has the control plane, too; stop all with: tony mini stop")
        known = [*self._list_daemons(), *(node.name for node in others)]
        if name not in known:
            raise UserError(f"no daemon or node {name} in this cluster; there are: {', '.join(known)}")

    def _start(self, software: Software, image: Path, nodes: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            write_cluster_files(self.places, software, listener.getsockname()[1], nodes)
            first, *others = self.places.list_nodes()
            arguments = (self.places.path, software.path, image, first.number, listener.fileno())
            with open(self.places.find_log(first.name), "wb") as log:
                self._node = subprocess.Popen(
                    [*UNSHARE, *isolated_interpreter.command("tony.mini.kubernetes.node", *map(str, arguments))],
                    env=self._build_variables(software),
                    cwd=self.places.path,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[listener.fileno()],
                    start_new_session=True,
                )
        self._wait([first], {first.name, *CONTROL_PLANE, *first.daemons})
        self._wait(others, set(self._list_daemons()))

    def _build_variables(self, software: Software) -> Mapping[str, str]:
        own = {MARKER: str(self.places.path), NODE_MARKER: "1"}
        return {"PATH": software.search_path, "LANG": "C.UTF-8", "TMPDIR": "/run", **own}

    def _wait(self, nodes: Sequence[NodeLayout], needed: Collection[str]) -> None:
        """Wait until nodes have started their daemons, and, unless others are dead, until the cluster is ready.

        Args:
            needed: daemons and nodes that must not die.
        """
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        reason: str | None = "its daemons are being started"
        while reason:
            are_started = all(node.ready.exists() for node in nodes)  # before the list, which has all of them then
            running = self._find_running()
            for node in nodes:
                if node.name not in running:
                    log = self.places.find_log(node.name)
                    raise InfraError("\n".join(log_tail(log)) or f"the first process of {node.name} died")
            if are_started:
                if dead := [name for name in needed if name not in running]:
                    path = self.places.find_log(dead[0])
                    raise InfraError("\n".join([f"{dead[0]} died; end of {path}:", *log_tail(path)]))
                if any(name not in needed for name in self._list_dead(running)):
                    return
                reason = self._explain_not_ready(running)
            if reason and time.monotonic() > deadline:
                raise InfraError(f"the small Kubernetes was not ready after {START_TIMEOUT_SECONDS:.0f} s: {reason}")
            time.sleep(_POLL_SECONDS)

    def _explain_not_ready(self, running: Collection[str]) -> str | None:
        """Return why the cluster is not ready; None if it is.

        Args:
            running: names of running daemons and nodes.
        """
        if dead := self._list_dead(running):
            return f"{', '.join(dead)} {'is' if len(dead) == 1 else 'are'} dead; see {self.places.logs}"
        try:
            client = ApiClient(load_cluster_access([self.kubeconfig]), give_up_seconds=0)
            with closing(client):
                client.get(SERVICE_ACCOUNTS, "default")
                for node in self.places.list_nodes():
                    conditions = client.get(NODES, node.name).get("status", {}).get("conditions", ())
                    if not any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
                        return f"the node {node.name} is not ready"
        except KubeApiError as error:
            return str(error)
        except (KubeError, ConfigError) as error:
            return f"the API server does not respond: {error}"
        return None

    def _list_daemons(self) -> Sequence[str]:
        return [*CONTROL_PLANE, *(name for node in self.places.list_nodes() for name in node.daemons)]

    def _list_dead(self, running: Collection[str]) -> Sequence[str]:
        return [name for name in self._list_daemons() if name not in running]

    def _find_running(self) -> dict[str, int]:
        """Return daemon or node -> pid; that of a node is the process that made its namespaces."""
        found: dict[str, int] = {}
        nodes = {f"{NODE_MARKER}={node.number}\0".encode(): node for node in self.places.list_nodes()}
        names = {name[:15]: name for name in (*CONTROL_PLANE, *NODE_DAEMONS)}  # the kernel keeps 15 characters
        for pid in process.with_marker(self.places.marker):
            short, environment = process.name(pid), process.environment_of(pid)
            for marker, node in nodes.items():
                if marker in environment and short in names:
                    name = names[short]
                    found[f"{name}{node.suffix}" if name in NODE_DAEMONS else name] = pid
                elif marker in environment and short == UNSHARE[0]:
                    found[node.name] = pid
        return found

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
        if self._node:
            self._node.wait()
        remove_cgroups(self.places.cgroup)

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


def _ignore(text: str) -> None:
    """Take a message about a build, which was done before."""
