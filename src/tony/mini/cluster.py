"""A small cluster as a whole: start, inspect, kill and restart daemons, stop; also one that ends with its owner."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tony import isolated_interpreter
from tony.errors import InfraError, RecordError, StorageError, TonyError, UserError, get_first_line
from tony.linux.process import is_stopped, memory_of
from tony.mini import processes
from tony.mini.cluster_files import check_path, user_name, write_files
from tony.mini.cluster_state import ClusterState, Process, load, save
from tony.mini.daemon_requests import explain_not_ready, initialize_hdfs, kill_applications, wait_until_ready
from tony.mini.daemons import DaemonKind, MiniDaemon, command, list_daemons, parse
from tony.mini.free_ports import choose_ports
from tony.mini.layout import ClusterLayout
from tony.mini.options import MiniOptions
from tony.mini.software import fetch, find_java
from tony.mini.state_lock import lock_state_directory
from tony.model.state_directory import Home

#: Seconds for a cluster to start; it takes about 10.
START_TIMEOUT_SECONDS = 120.0
#: Seconds for a daemon to end: a NodeManager whose ResourceManager is down takes 15 to shut down.
_END_SECONDS = 20.0
#: Seconds to wait for the guard of an ephemeral cluster to stop it.
_GUARD_SECONDS = 60.0
#: Attempts to start with other ports, if another process took one after it was chosen.
_START_ATTEMPTS = 3


class _PortInUseError(InfraError):
    """A daemon could not bind its port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """The status of a daemon.

    Attributes:
        state: `running`, `stopped` (by a signal) or `dead`.
        memory: resident bytes.
        web: URL of its web page.
    """

    name: str
    state: str
    pid: int | None
    memory: int | None
    web: str
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status of a cluster.

    Attributes:
        running: whether any daemon is running.
        waiting_for: why it is not ready; None if it is.
        conf: the value for HADOOP_CONF_DIR.
    """

    running: bool
    waiting_for: str | None = None
    hadoop: str | None = None
    conf: str | None = None
    daemons: tuple[DaemonStatus, ...] = ()


class MiniCluster:
    """The cluster of a state directory, running or not."""

    def __init__(self, home: Home, environment: Mapping[str, str]) -> None:
        """Create the object; starts nothing.

        Args:
            environment: locates Java and Maven; daemons inherit a part of it.
        """
        self.home = home
        self.places = ClusterLayout(home.mini)
        self._environment = environment

    @property
    def conf(self) -> Path:
        """The value for HADOOP_CONF_DIR."""
        return self.places.conf

    @property
    def state(self) -> ClusterState:
        """The stored state of the cluster.

        Raises:
            UserError: there is no cluster.
        """
        state = load(self.places)
        if state is None:
            raise UserError(f"no cluster is running in {self.home.path}; start one with: tony mini start")
        return state

    def start(
        self, options: MiniOptions, notice: Callable[[str], None], timeout: float = START_TIMEOUT_SECONDS
    ) -> ClusterState:
        """Start an empty cluster, and wait until it is ready.

        Raises:
            UserError: the options are invalid, Java or Maven are missing, or a cluster is already running.
            InfraError: a daemon died or is not ready in time; says which, with the end of its log.
        """
        options.check()
        check_path(self.places.path)
        java = find_java(self._environment, options.hadoop)
        jars = fetch(options.hadoop, java, self._environment, notice)
        with lock_state_directory(self.home):
            self._refuse_second()
            self._stop_and_remove()
            for left in reversed(range(_START_ATTEMPTS)):
                state = self._plan(options, str(java.home), str(jars))
                try:
                    return self._start_all(state, timeout)
                except _PortInUseError as error:
                    self._stop_all()
                    if not left:
                        raise
                    notice(f"{get_first_line(error)}: trying other ports")
                except InfraError:
                    self._stop_all()  # keeps its files and logs for diagnosis
                    raise
                except BaseException:
                    self._stop_and_remove()
                    raise
        raise AssertionError

    def stop(self, notice: Callable[[str], None] | None = None, *, wait: bool = False) -> int:
        """Stop everything, and remove all files but the cache of archives. Also cleans up after crashes.

        Args:
            notice: receives a message about running applications, which are killed first. Without it they end with
                the cluster.
            wait: wait while another process changes the cluster, instead of raising UserError.

        Returns:
            How many daemons were running.
        """
        if not self.home.path.is_dir():
            return 0
        with lock_state_directory(self.home, wait=wait):
            with contextlib.suppress(RecordError):
                state = load(self.places) if notice else None
                if state is not None and notice is not None:
                    kill_applications(state, notice)
            return self._stop_and_remove()

    def kill(self, name: str, number: int = signal.SIGKILL) -> Process | None:
        """Send a signal to a daemon, and wait for its end if it is SIGTERM or SIGKILL. Its containers stay.

        Returns:
            The process; None if it was dead already.

        Raises:
            UserError: there is no cluster, or no such daemon.
            InfraError: it does not end.
        """
        state = self.state
        daemon = parse(name, state.options.nodes, state.options.datanodes, map(MiniDaemon, state.others))
        with lock_state_directory(self.home):
            process = self.state.find_running().get(daemon.name)
            if process is None:
                return None
            processes.signal_one(process, number)
            if number in (signal.SIGTERM, signal.SIGKILL) and not processes.wait_for_end([process], _END_SECONDS):
                raise InfraError(f"{daemon.name} still runs {_END_SECONDS:.0f} s after the signal; try --signal KILL")
            return process

    def restart(self, name: str, timeout: float = START_TIMEOUT_SECONDS) -> Sequence[str]:
        """Restart a daemon, and wait until the cluster is ready. Its ports stay the same.

        Returns:
            Names of other daemons that are dead. Then it does not wait: the cluster cannot get ready without them.

        Raises:
            UserError: there is no cluster, or no such daemon.
            InfraError: it died or is not ready in time.
        """
        state = self.state
        daemon = parse(name, state.options.nodes, state.options.datanodes, map(MiniDaemon, state.others))
        with lock_state_directory(self.home):
            old = self.state.find_running().get(daemon.name)
            if old is not None:
                processes.end([old])
            since = time.time()
            state = self._spawn(self.state, daemon)
            living = state.find_running()
            dead = [each.name for each in state.daemons if each.name != daemon.name and each.name not in living]
            if not dead:
                self._wait(state, {daemon.name: since}, (daemon,), timeout)
            return dead

    def wait(self, timeout: float = START_TIMEOUT_SECONDS) -> None:
        """Wait until the cluster is ready.

        Raises:
            InfraError: it is not ready in time.
        """
        self._wait(self.state, {}, (), timeout)

    def status(self) -> Status:
        """Return the status of every daemon, and of the cluster as a whole."""
        state = load(self.places)
        if state is None:
            return Status(running=False)
        living = state.find_running()
        return Status(
            running=bool(living),
            waiting_for=self._explain_waiting(state, living),
            hadoop=state.options.hadoop,
            conf=str(self.conf),
            daemons=tuple(self._status_of(daemon, living.get(daemon.name), state) for daemon in state.daemons),
        )

    def _refuse_second(self) -> None:
        state = load(self.places)
        if state is not None and state.find_running():
            raise UserError(
                f"a cluster is already running in {self.places.path}; see: tony mini status; stop it: tony mini stop"
            )

    def _plan(self, options: MiniOptions, java: str, jars: str) -> ClusterState:
        path = options.path or f"{self.places.bin}:{self._environment.get('PATH') or os.defpath}"
        names = [port for daemon in list_daemons(options.nodes, options.datanodes) for port in daemon.ports]
        return ClusterState(options=options, java=java, jars=jars, path=path, ports=choose_ports(names))

    def _start_all(self, state: ClusterState, timeout: float) -> ClusterState:
        self.places.path.mkdir(mode=0o700, exist_ok=True)
        write_files(state, self.places)
        # HDFS needs to be formatted first; YARN starts without HDFS.
        yarn = [
            daemon for daemon in state.daemons if daemon.kind in (DaemonKind.RESOURCE_MANAGER, DaemonKind.NODE_MANAGER)
        ]
        for daemon in yarn:
            state = self._spawn(state, daemon)
        processes.format_name_node(state, self.places, self._variables(state))
        for daemon in state.daemons:
            if daemon not in yarn:
                state = self._spawn(state, daemon)
        self._wait(state, {}, state.daemons, timeout)
        self._initialize(state)
        state = replace(state, ready=True)
        save(self.places, state)
        return state

    def _initialize(self, state: ClusterState) -> None:
        initialize_hdfs(state, user_name())

    def _spawn(self, state: ClusterState, daemon: MiniDaemon) -> ClusterState:
        line = command(daemon, Path(state.java), Path(state.jars), self.places)
        pid = processes.spawn(line, self._variables(state), self.places.path, self.places.find_log(daemon.name))
        state = state.with_process(daemon, pid)
        save(self.places, state)
        return state

    def _variables(self, state: ClusterState) -> dict[str, str]:
        return processes.environment(state, self.places, self._environment)

    def _wait(
        self, state: ClusterState, since: Mapping[str, float], needed: tuple[MiniDaemon, ...], timeout: float
    ) -> None:
        def check_alive() -> None:
            living = state.find_running()
            for daemon in needed:
                if daemon.name not in living:
                    self._raise_died(daemon)

        wait_until_ready(lambda: self._explain_not_ready(state, since), check_alive, timeout)

    def _explain_not_ready(self, state: ClusterState, since: Mapping[str, float]) -> str | None:
        return explain_not_ready(state, since)

    def _raise_died(self, daemon: MiniDaemon) -> None:
        log = self.places.find_log(daemon.name)
        kind = _PortInUseError if processes.is_port_in_use(log) else InfraError
        title = daemon.kind.name.replace("_", " ").title().replace(" ", "")
        raise kind("\n".join([f"the {title} ({daemon.name}) died; end of {log}:", *processes.log_tail(log)]))

    def _stop_all(self) -> int:
        """Stop daemons, then what they have started; keep the files."""
        try:
            state = load(self.places)
        except RecordError:
            state = None  # its processes are found all the same
        living = list(state.find_running().values()) if state is not None else []
        processes.end(living)
        processes.sweep(self.places)
        if state is not None:
            save(self.places, replace(state, ready=False))
        return len(living)

    def _stop_and_remove(self) -> int:
        count = self._stop_all()
        deadline = time.monotonic() + _END_SECONDS
        while self.places.path.exists():
            try:
                shutil.rmtree(self.places.path)
            except OSError as error:
                if time.monotonic() >= deadline:
                    raise StorageError(f"cannot remove {self.places.path}: {error}") from error
                time.sleep(0.05)
        return count

    def _explain_waiting(self, state: ClusterState, living: Mapping[str, Process]) -> str | None:
        dead = [daemon.name for daemon in state.daemons if daemon.name not in living]
        if not living:
            return "no daemon is running"
        if dead:
            verb = "is" if len(dead) == 1 else "are"
            return f"{' and '.join(dead)} {verb} dead; restart with: tony mini restart {dead[0]}"
        return explain_not_ready(state, {})

    def _status_of(self, daemon: MiniDaemon, process: Process | None, state: ClusterState) -> DaemonStatus:
        is_suspended = process is not None and is_stopped(process.pid)
        return DaemonStatus(
            name=daemon.name,
            state="dead" if process is None else "stopped" if is_suspended else "running",
            pid=process.pid if process is not None else None,
            memory=memory_of([process.pid]) if process is not None else None,
            web=f"http://{state.address(f'{daemon.name}.web')}",
            log=str(self.places.find_log(daemon.name)),
        )


@contextlib.contextmanager
def run_ephemeral_cluster(
    options: MiniOptions, environment: Mapping[str, str], notice: Callable[[str], None]
) -> Iterator[MiniCluster]:
    """Start a cluster in a folder of its own, and stop it at the end of the block, however that ends; leaves no files.

    A guard process stops it. It waits for the end of its standard input, which the kernel closes however we end.

    Raises:
        UserError: Java or Maven are missing.
        InfraError: a daemon died or is not ready in time; says which, with the end of its log.
    """
    folder = Path(tempfile.mkdtemp(prefix="tony-local-"))
    guard = subprocess.Popen(
        isolated_interpreter.command("tony.mini.cluster", str(folder)), stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        cluster = MiniCluster(Home(folder), environment)
        cluster.start(options, notice)
        yield cluster
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.wait(_GUARD_SECONDS)


def main() -> int:
    """Wait for the end of standard input, then stop the cluster in the folder `sys.argv[1]` and remove the folder."""
    folder = Path(sys.argv[1])
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    try:
        # The kernel closes the files of a killed owner one after the other: our input maybe before its lock.
        MiniCluster(Home(folder), os.environ).stop(wait=True)
    except TonyError as error:
        print(f"tony: {error}", file=sys.stderr)
        return error.exit_code
    shutil.rmtree(folder, ignore_errors=True)
    return 0
