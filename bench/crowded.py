"""One job of very many simulated executors before one real application master: TCP, TLS, token, acknowledgements.

The application master is a process as in production, with its machine, its server and its event log; only its
scheduler grants at once. Executors are simulated (`tests.support.executor_load`), thousands in a process, so that both
ends fit on a small machine; the work that programs and executors do on nodes of their own is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from bench.harness import CannotRunError
from bench.memory import memory_of
from tests.support.child_modules import module_command
from tests.support.executor_load import LoadEvent, LoadProfile
from tony import clock
from tony.client.credential_creation import make_credentials
from tony.frameworks import registry
from tony.model.codec import from_plain, to_plain
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import TlsMode
from tony.model.state_directory import JobFolder
from tony.model.states import TaskState
from tony.protocol.client_messages import GetReport, Report
from tony.protocol.hello import PeerKind
from tony.protocol.launch import JobCredentials
from tony.rpc import connect
from tony.testing.sample_jobs import build_prepared_job

#: Seconds after which something is taken to hang. Far above what anything takes on a loaded machine.
TIMEOUT_SECONDS = 300.0
#: Players of one process: two processes for ten thousand, on whatever cores the application master leaves.
_PER_PROCESS = 5000
_ROLE = "worker"
#: Seconds for what comes with a registration to be over, and what comes with a start.
REST = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowded:
    """What one job cost its application master. Each `..._cpu` is in seconds of its processor time.

    Attributes:
        joined: seconds from the first connection until all but one had registered.
        beats: heartbeats that came in that time; on a busy machine they are many, and no part of what joining costs.
        told: seconds from the last registration until all had their spec.
        started: seconds from the last registration until each had heard that its start is in the log.
        ended: seconds from the end of all programs until the application master was gone.
        steady: seconds of its processor time per second, with nothing but heartbeats.
        memory: `rss` and `pss` in bytes, then.
        received: bytes that one executor was sent until then, TLS not counted.
    """

    tasks: int
    joined: float
    joined_cpu: float
    beats: int
    told: float
    started: float
    started_cpu: float
    ended: float
    ended_cpu: float
    steady: float
    memory: Mapping[str, int]
    received: float


def play(framework: str, tasks: int, steady: float) -> Crowded:
    """Plays one job from its submission to its end.

    Args:
        steady: seconds to measure in steady state.

    Raises:
        CannotRunError: something of it failed; the text says what.
    """
    with crowded_job(framework, tasks) as (_, master, crowd):
        return _play(master, crowd, tasks, steady)


@contextlib.contextmanager
def crowded_job(
    framework: str, tasks: int, *, restarts: int = 0
) -> Iterator[tuple[JobFolder, subprocess.Popen[bytes], Sequence[Players]]]:
    """Start the application master of a job, and executors for the containers that it has got.

    Raises:
        CannotRunError: something of it failed; the text ends with what the application master said.
    """
    with tempfile.TemporaryDirectory(prefix="tony-bench-") as home:
        folder, credentials = submitted(Path(home), framework, tasks, restarts=restarts)
        with running_master(folder) as master:
            try:
                address = address_of(folder, master)
                asyncio.run(until_granted(address, credentials, tasks))
                with players(address, credentials, tasks) as crowd:
                    yield folder, master, crowd
            except (CannotRunError, OSError) as error:
                raise CannotRunError(
                    f"{error}; the application master said: {folder.am_log.read_text()[-2000:]}"
                ) from error


def _play(master: subprocess.Popen[bytes], crowd: Sequence[Players], tasks: int, steady: float) -> Crowded:
    watch = Watch(master.pid)
    joined = wait_for_all(crowd, "joined", order="join")
    joined_cpu = watch.cpu()
    time.sleep(REST)
    registering = Watch(master.pid)
    told = wait_for_all(crowd, "told", order="register")
    started = wait_for_all(crowd, "started")
    started_cpu = registering.cpu()
    time.sleep(REST)
    beating = Watch(master.pid)
    time.sleep(steady)
    share = beating.cpu() / beating.wall(time.monotonic())
    memory = memory_of(master.pid)
    ending = Watch(master.pid)
    wait_for_all(crowd, "left", order="exit")
    total = cpu_at_end(master)
    return Crowded(
        tasks=tasks,
        joined=watch.wall(max(moment.at for moment in joined)),
        joined_cpu=joined_cpu,
        beats=sum(moment.beats for moment in joined),
        told=registering.wall(max(moment.at for moment in told)),
        started=registering.wall(max(moment.at for moment in started)),
        started_cpu=started_cpu,
        ended=ending.wall(time.monotonic()),
        ended_cpu=total - ending.cpu_before,
        steady=share,
        memory=memory,
        received=sum(moment.received for moment in started) / tasks,
    )


class Watch:
    """What a process has used since now."""

    def __init__(self, pid: int) -> None:
        self._clock = (
            ~pid << 3
        ) | 2  # Linux's clock of another process's processor time, as clock_getcpuclockid makes it
        self._began = time.monotonic()
        self.cpu_before = time.clock_gettime(self._clock)

    def cpu(self) -> float:
        """Seconds of processor time since then."""
        return time.clock_gettime(self._clock) - self.cpu_before

    def wall(self, at: float) -> float:
        """Seconds from then to another moment."""
        return at - self._began


# --- the application master ---------------------------------------------------------------------------------------


def submitted(
    home: Path, framework: str, tasks: int, *, restarts: int = 0, tls: TlsMode = TlsMode.ALWAYS
) -> tuple[JobFolder, JobCredentials]:
    """A job as a client leaves it to its application master."""
    roles = {_ROLE: Role(instances=tasks)}
    spec = JobSpec(
        name="crowded",
        framework=framework,
        command="true",
        roles=roles,
        tls=tls,
        max_restarts=restarts,
    )
    job = build_prepared_job(home, spec, job_id="bench-1")
    record = replace(job.record, submitted=clock.wall(), framework_module=registry.home_of(framework))
    credentials = make_credentials(tls=tls is TlsMode.ALWAYS)
    job.folder.secret_job.write_text(json.dumps(to_plain(record)))
    job.folder.credentials.write_text(json.dumps(to_plain(credentials)))
    return job.folder, credentials


@contextlib.contextmanager
def running_master(folder: JobFolder) -> Iterator[subprocess.Popen[bytes]]:
    argv = module_command("instant_allocator", str(folder.path))
    with folder.am_log.open("ab") as output, _process(argv, output.fileno()) as process:
        yield process


@contextlib.contextmanager
def _process(argv: Sequence[str], output: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is gone at the end. Its pipes are not buffered, so that they can be waited for."""
    process = subprocess.Popen(
        argv, bufsize=0, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address_of(folder: JobFolder, master: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + TIMEOUT_SECONDS
    while not folder.am.exists():
        if master.poll() is not None or time.monotonic() > until:
            raise CannotRunError("the application master did not come up")
        time.sleep(0.01)
    return str(json.loads(folder.am.read_text())["address"])


async def until_granted(address: str, credentials: JobCredentials, tasks: int) -> None:
    """Waits until every task has its container; a second later each may be taken for launched."""
    connection = await connect(address, credentials.executors, PeerKind.CLIENT)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            connection.send(GetReport())
            answer = await connection.receive()
            assert isinstance(answer, Report)
            if all(task.state is TaskState.STARTING for task in answer.report.tasks):
                break
            await asyncio.sleep(0.1)
    connection.close()
    await connection.wait_closed()
    await asyncio.sleep(1.0)


def cpu_at_end(master: subprocess.Popen[bytes]) -> float:
    """Waits until the application master is gone; seconds of its processor time in all."""
    _, status, usage = os.wait4(master.pid, 0)
    master.returncode = os.waitstatus_to_exitcode(status)
    if master.returncode:
        raise CannotRunError(f"the application master ended with {master.returncode}")
    return usage.ru_utime + usage.ru_stime


# --- the executors ------------------------------------------------------------------------------------------------


class Players:
    """One process of players."""

    def __init__(self, process: subprocess.Popen[bytes], casting: LoadProfile) -> None:
        self._process = process
        self.tell(json.dumps(to_plain(casting)))

    def tell(self, line: str) -> None:
        """Gives an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    def moment(self, what: str) -> LoadEvent:
        """Waits until something came true."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], TIMEOUT_SECONDS)[0]:
            raise CannotRunError(f"not all players have {what} within {TIMEOUT_SECONDS:g} s")
        line = self._process.stdout.readline()
        if not line.startswith(b"{"):
            rest = self._process.communicate()[0]
            raise CannotRunError(f"players failed before all had {what}: {(line + rest).decode()[-2000:]}")
        moment = from_plain(LoadEvent, json.loads(line))
        assert moment.what == what, moment
        return moment


@contextlib.contextmanager
def players(address: str, credentials: JobCredentials, tasks: int) -> Iterator[Sequence[Players]]:
    parts = -(-tasks // _PER_PROCESS)
    argv = module_command("executor_load")
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_process(argv, subprocess.PIPE)) for _ in range(parts)]
        bounds = [tasks * number // parts for number in range(parts + 1)]
        yield [
            Players(process, _casting(address, credentials, first, after, tasks))
            for process, (first, after) in zip(processes, pairwise(bounds), strict=True)
        ]


def _casting(address: str, credentials: JobCredentials, first: int, after: int, tasks: int) -> LoadProfile:
    return LoadProfile(
        address=address,
        credentials=credentials.executors,
        role=_ROLE,
        first=first,
        count=after - first,
        understudy=after == tasks,
    )


def wait_for_all(crowd: Sequence[Players], what: str, *, order: str = "") -> list[LoadEvent]:
    """Send `order`, if there is one, to all simulated executors, and wait until each has reported the moment `what`."""
    for each in crowd if order else ():
        each.tell(order)
    return [each.moment(what) for each in crowd]
