"""YARN keeps to the contract of container allocators, on a real cluster: an unmanaged master is in this process.

Not asked here are what a fake cluster does better (`tests/conformance/test_yarn.py`: launches that are refused,
answers that get lost, no room for a while), and a demand that can never be met: it waits, for a cluster grows.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import signal
import tempfile
import zipfile
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tony
from tests.change_detection import CLUSTER
from tests.mini_clusters import Clusters
from tests.support.waiting import wait_until
from tests.yarn.lab import CEILING, processes_of
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.hadoop.errors import HadoopError
from tony.hadoop.tokens import TokenCredentials as Tokens
from tony.hadoop.wire.application_client import ApplicationSubmissionContext
from tony.hadoop.wire.yarn_records import ApplicationId, ContainerLaunchContext, Resource
from tony.hadoop.yarn.application_client import ApplicationClient
from tony.history.job_record import build_pending_report
from tony.linux.process import is_alive
from tony.mini.cluster import MiniCluster
from tony.protocol.launch import AmCredentials, JobCredentials, TaskLaunch, TaskPart
from tony.schedulers.yarn.allocation.allocator import YarnAllocator
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.containers import ContainerEnv
from tony.schedulers.yarn.launch_payload import RUNTIME, JobPayload, Uploaded, decode_payload
from tony.testing import allocator_bench, conformance, container_faults
from tony.testing.sample_jobs import build_credentials, build_prepared_job, build_two_roles

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.xdist_group("shared-cluster"),
    pytest.mark.on_change(*CLUSTER),
]

FAULTS = (container_faults.LostContainer, container_faults.ContainerExitsBeforeRegistering)
CLAUSES = [clause for clause in conformance.clauses(FAULTS) if clause != "impossible_demand_is_refused"]
#: How many clauses are checked at a time, each by an application of its own.
AT_ONCE = 4
#: Seconds; longer than the heartbeats of all daemons, in which what should not happen would.
QUIET = 1.5
#: Seconds that a killed process may take to die.
DYING = 10.0


class RealBench(allocator_bench.Bench):
    """One unmanaged master.

    Args:
        folder: where stand-ins write.
    """

    def __init__(self, source: YarnAllocator, job_id: str, folder: Path) -> None:
        self.source, self.spec, self.job_id = source, build_two_roles(), job_id
        self._folder = folder
        self._later: list[asyncio.Task[None]] = []

    async def _report(self, container: str) -> dict[str, Any]:
        path = self._folder / f"{container}.json"
        await wait_until(path.exists)
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    async def fetch_payload(self, container: str) -> tuple[TaskPart, AmCredentials]:
        payload = decode_payload(TaskLaunch, (await self._report(container))["payload"].encode())
        return payload.task, payload.credentials

    async def is_alive(self, container: str) -> bool:
        path = self._folder / f"{container}.json"
        if not path.exists():
            return False
        report = json.loads(path.read_text())
        if is_alive(report["pid"]):
            return True
        # The kernel has killed it by now; on a busy machine it dies when its turn comes.
        deadline = asyncio.get_running_loop().time() + DYING
        while is_alive(report["program"]) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        return is_alive(report["program"])

    async def end_executor(self, container: str) -> None:
        os.kill((await self._report(container))["pid"], signal.SIGTERM)

    async def crash_executor(self, container: str) -> None:
        os.kill((await self._report(container))["pid"], signal.SIGKILL)

    async def read_visible_data(self, container: str) -> str:
        return json.dumps((await self._report(container))["seen"])

    async def list_leftovers(self) -> Sequence[str]:
        return [str(pid) for pid in processes_of(self.job_id)]

    def provoke(self, fault: container_faults.Fault) -> None:
        match fault:
            case container_faults.LostContainer():
                self._later.append(asyncio.get_running_loop().create_task(self._crash_first()))
            case container_faults.ContainerExitsBeforeRegistering(exit_code=code):
                (self._folder / "order").write_text(str(code))

    async def _crash_first(self) -> None:
        while not (found := list(self._folder.glob("*.json"))):
            await asyncio.sleep(0.01)
        await self.crash_executor(found[0].stem)


@asynccontextmanager
async def bench(
    cluster: MiniCluster, runtime: Uploaded, folder: Path, wanted: Sequence[container_faults.Fault]
) -> AsyncIterator[RealBench]:
    """A source whose job is an application of its own."""
    hadoop = ClusterClients.from_configuration(Configuration.load(cluster.conf), os.environ)
    async with hadoop.applications() as client:
        application, token = await _unmanaged(client)
        nodes = {node.id.host or "": node.rack or "" for node in await client.nodes() if node.id}
        job = build_prepared_job(folder / "home", build_two_roles(), ids.format_application(application))
        payload = JobPayload(
            record=job.record,
            credentials=JobCredentials(am=build_credentials(), executors=build_credentials()),
            archives={RUNTIME: runtime},
            objects={},
            configuration=hadoop.collect_needed_settings(),
            folder=f"/tmp/{folder.parent.name}/{job.folder.job_id}",
            user=hadoop.user,
            nodes=nodes,
        )
        inside = ContainerEnv(
            container="container_0_0000_01_000001",
            host="127.0.0.1",
            folder=folder,
            logs=folder,
            shared=folder,
            tokens=folder / "tokens",
            credentials=token,
        )
        source = YarnAllocator(job, payload, inside)
        made = RealBench(source, job.folder.job_id, folder)
        for fault in wanted:
            made.provoke(fault)
        try:
            yield made
        finally:
            await source.close()
            await source.finish(build_pending_report(job.folder, job.record))
            with suppress(HadoopError):
                await client.kill(application)


async def _unmanaged(client: ApplicationClient) -> tuple[ApplicationId, Tokens]:
    new = await client.request_new_application()
    size = Resource(memory=64, vcores=1)
    await client.submit(
        ApplicationSubmissionContext(
            application_id=new.id,
            name="a contract",
            queue="default",
            am_container=ContainerLaunchContext(),
            unmanaged_am=True,
            resource=size,
            max_attempts=1,
        )
    )
    async with asyncio.timeout(CEILING):
        while (token := (await client.report(new.id)).am_rm_token) is None:
            await asyncio.sleep(0.05)
    return new.id, Tokens(tokens={"master": token})


def _runtime(cluster: MiniCluster, folder: Path, into: str) -> bytes:
    """An archive in place of that of our programs, whose start leads to the stand-in."""
    source = Path(tony.__file__).parents[1]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("recording_executor.py", Path(__file__).with_name("recording_executor.py").read_text())
        archive.writestr("start.sh", f'exec python3 -I -S "${{0%/*}}/recording_executor.py" {source} {folder}/{into}\n')
    return buffer.getvalue()


def _check(clause: str, made: allocator_bench.MakeBench) -> None:
    asyncio.run(conformance.check(clause, made))


@pytest.fixture(scope="module")
def checked(request: pytest.FixtureRequest, clusters: Clusters) -> Iterator[dict[str, Future[None]]]:
    """All clauses that were chosen, some at a time."""
    folder = Path(tempfile.mkdtemp(prefix="tony-contract-"))
    cluster = clusters.shared()
    hadoop = ClusterClients.from_configuration(Configuration.load(cluster.conf), os.environ)
    names = [item.name.partition("[")[2].rstrip("]") for item in request.session.items if item.path == Path(__file__)]
    files, pool = hadoop.web_files(), ThreadPoolExecutor(AT_ONCE)
    normal = allocator_bench.TIMEOUT_SECONDS, allocator_bench.QUIET_SECONDS
    allocator_bench.TIMEOUT_SECONDS, allocator_bench.QUIET_SECONDS = CEILING, QUIET
    try:
        files.make_directories(f"/tmp/{folder.name}", 0o755)
        found = {}
        for name in names:
            (folder / name).mkdir()
            path = f"/tmp/{folder.name}/{name}.zip"
            files.create(path, _runtime(cluster, folder, name), permission=0o644)
            status = files.get_status(path)
            runtime = Uploaded(url=f"{hadoop.files.uri}{path}", size=status.length, timestamp=status.modified_ms)
            made = partial(bench, cluster, runtime, folder / name)
            found[name] = pool.submit(_check, name, made)
        yield found
    finally:
        pool.shutdown(cancel_futures=True)
        allocator_bench.TIMEOUT_SECONDS, allocator_bench.QUIET_SECONDS = normal
        files.delete(f"/tmp/{folder.name}", recursive=True)
        files.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("clause", CLAUSES)
def test_contract(checked: dict[str, Future[None]], clause: str) -> None:
    """Each clause holds; its docstring says which it is."""
    checked[clause].result()
