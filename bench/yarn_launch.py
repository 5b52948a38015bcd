"""Two hundred containers on simulated nodes: how fast one application master launches them.

The application master is `tony.am.container_main` as it runs in a container, with its event log, its server and its
record in HDFS. ResourceManager, NodeManagers and NameNode are simulated in this process (`tests.support.hadoop`), over
TCP and with tokens: what they cost is a part of the time, for all run on this machine. All containers are granted at
once; no executor runs in them. The rate is that from the answer that grants them to the last start request at a node.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.harness import CannotRunError, Figures, Result, Unit, at_least, interleaved
from bench.process_facts import processor_time, resident
from tests.support.hadoop.fake_node_manager import FakeNodeManager
from tests.support.hadoop.fake_resource_manager import ATTEMPT, FakeResourceManager
from tests.support.hadoop.fake_webhdfs import FakeWebHdfs
from tests.support.hadoop.ipc_server import Incoming
from tony import clock
from tony.client.credential_creation import make_credentials
from tony.frameworks import registry as frameworks
from tony.hadoop.ids import format_container
from tony.hadoop.tokens import AM_RM, TokenCredentials, write_file
from tony.hadoop.wire.application_master import ALLOCATE, AllocateRequest, AllocateResponse
from tony.hadoop.wire.yarn_records import ContainerId
from tony.isolated_interpreter import command
from tony.model.job_spec import JobSpec, Role
from tony.schedulers.yarn.launch_payload import JOB, RUNTIME, JobPayload, Uploaded, encode_payload
from tony.testing.sample_jobs import build_prepared_job

TITLE = "Two hundred containers on simulated nodes"

_CONTAINERS, _NODES = 200, 20
_TIMEOUT_SECONDS = 120.0
_TICK = 0.002


def measure(quick: bool) -> Result:
    """A few jobs, one after the other."""
    tasks, nodes = (20, 2) if quick else (_CONTAINERS, _NODES)
    rounds = interleaved({"tony": lambda: asyncio.run(_play(tasks, nodes))}, 1 if quick else 5, discard=0)
    head = f"{tasks} containers on {nodes} simulated nodes: "
    return Result(
        lines=(
            rounds.line(head + "launched", "tony", "rate", unit=Unit.PER_SECOND, target=at_least(100)),
            rounds.line(head + "granted → the last start request", "tony", "wall"),
            rounds.line(head + "CPU of the application master", "tony", "master"),
            rounds.line(head + "its memory, RSS", "tony", "rss", unit=Unit.BYTES),
        ),
    )


@dataclass(slots=True)
class _Generous:
    """A ResourceManager that grants all that is requested with the next answer, on all nodes in turn."""

    manager: FakeResourceManager
    granted_at: float = 0.0

    def allocate(self, request: AllocateRequest, call: Incoming) -> AllocateResponse:
        """A heartbeat."""
        answer = self.manager.answer(request)
        if answer.allocated:
            self.granted_at = self.granted_at or time.monotonic()
        if missing := self.manager.outstanding(0):
            self.manager.grant(0, missing)
        return answer


async def _play(tasks: int, count: int) -> Figures:
    async with _cluster(count) as (rm, nodes):
        with (
            FakeWebHdfs() as files,
            tempfile.TemporaryDirectory(prefix="tony-bench-") as folder,
            _master(Path(folder), tasks, rm.manager, nodes, files) as master,
        ):
            deadline = time.monotonic() + _TIMEOUT_SECONDS
            while not rm.granted_at:
                await _moment(master, Path(folder), deadline)
            before = processor_time(master.pid)
            while sum(len(node.running) for node in nodes) < tasks:
                await _moment(master, Path(folder), deadline)
            wall = time.monotonic() - rm.granted_at
            return {
                "rate": tasks / wall,
                "wall": wall,
                "master": processor_time(master.pid) - before,
                "rss": resident(master.pid),
            }


async def _moment(master: subprocess.Popen[bytes], folder: Path, deadline: float) -> None:
    if master.poll() is not None:
        raise CannotRunError(f"the application master ended with {master.returncode}: {_said(folder)}")
    if time.monotonic() > deadline:
        raise CannotRunError(f"not all are launched after {_TIMEOUT_SECONDS:.0f} s: {_said(folder)}")
    await asyncio.sleep(_TICK)


def _said(folder: Path) -> str:
    return (folder / "stderr").read_text(errors="replace")[-2000:]


@asynccontextmanager
async def _cluster(count: int) -> AsyncIterator[tuple[_Generous, Sequence[FakeNodeManager]]]:
    async with AsyncExitStack() as stack:
        manager = FakeResourceManager(grants_by_hand=True)
        nodes = [FakeNodeManager(manager.node_tokens) for _ in range(count)]
        for node in nodes:
            await stack.enter_async_context(node.server)
        manager.nodes = tuple(node.node for node in nodes)
        generous = _Generous(manager)
        manager.server.on(ALLOCATE, generous.allocate)
        await stack.enter_async_context(manager.server)
        yield generous, nodes


@contextmanager
def _master(
    folder: Path, tasks: int, manager: FakeResourceManager, nodes: Sequence[FakeNodeManager], files: FakeWebHdfs
) -> Iterator[subprocess.Popen[bytes]]:
    """The application master in what looks like a container. It is killed in the end: nothing of its job is real."""
    tokens = folder / "tokens"
    secrets = {JOB: encode_payload(_papers(folder, tasks, manager, nodes, files))}
    write_file(tokens, TokenCredentials(tokens={AM_RM: manager.token}, secrets=secrets))
    environ = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HADOOP_TOKEN_FILE_LOCATION": str(tokens),
        "NM_HOST": "127.0.0.1",
        "CONTAINER_ID": format_container(ContainerId(attempt=ATTEMPT, number=1)),
        "LOG_DIRS": str(folder),
        "LOCAL_DIRS": str(folder),
    }
    with (folder / "stderr").open("ab") as output:
        process = subprocess.Popen(
            command("tony.am.container_main", "tony.schedulers.yarn.containers:YarnAmContainer"),
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _papers(
    folder: Path, tasks: int, manager: FakeResourceManager, nodes: Sequence[FakeNodeManager], files: FakeWebHdfs
) -> JobPayload:
    spec = JobSpec(name="launch", command="true", scheduler="yarn", roles={"worker": Role(instances=tasks)})
    job = build_prepared_job(folder / "submitter", spec, job_id="application_1410901177871_0001")
    return JobPayload(
        record=replace(job.record, submitted=clock.wall(), framework_module=frameworks.home_of("none")),
        credentials=make_credentials(tls=True),
        archives={RUNTIME: Uploaded(url="hdfs://127.0.0.1:1/user/bench/cache/runtime.zip", size=1, timestamp=1)},
        objects={},
        configuration={
            "fs.defaultFS": "hdfs://127.0.0.1:1",
            "dfs.namenode.http-address": files.url.partition("://")[2],
            "yarn.resourcemanager.scheduler.address": str(manager.server.address),
        },
        folder="/user/bench/jobs/launch",
        user="bench",
        nodes={node.node.host or "": "/default-rack" for node in nodes},
    )
