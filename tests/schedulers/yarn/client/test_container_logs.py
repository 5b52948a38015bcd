"""What ended containers printed is found where it is now; what is nowhere is said, with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from tests.facts import mentions
from tests.hadoop.logs.memory_files import MemoryFiles
from tests.hadoop.logs.test_tfile import log_files, make
from tests.support.hadoop.fake_node_web import FakeNodeWeb
from tony.errors import SchedulerError
from tony.hadoop.configuration import Configuration
from tony.hadoop.errors import ApplicationNotFoundError
from tony.hadoop.wire.application_client import ApplicationReport, ApplicationState, LogAggregationStatus
from tony.hadoop.wire.yarn_records import ApplicationId, NodeId, NodeReport
from tony.model.log_file_tail import LogFileTail
from tony.schedulers.yarn.client import container_logs
from tony.schedulers.yarn.client.container_logs import ContainerLogs
from tony.schedulers.yarn.cluster_clients import ClusterClients

JOB = "application_1795272430499_0007"
ONE, TWO = "container_1795272430499_0007_01_000002", "container_1795272430499_0007_01_000003"
AGGREGATED = f"/tmp/logs/ann/bucket-logs-tfile/0007/{JOB}"


class Files(MemoryFiles):
    """The file system, as the cluster gives it."""

    def close(self) -> None:
        """Nothing to close."""


class FakeCluster:
    """A ResourceManager that knows one application, its nodes, and a file system.

    Attributes:
        reports: what it says of the application, one after the other; the last one again and again.
    """

    user = "ann"

    def __init__(self) -> None:
        self.configuration = Configuration.load(None, {}, given={})
        self.reports: list[ApplicationReport | None] = []
        self.known_nodes: list[NodeReport] = []
        self.files = Files({})

    @asynccontextmanager
    async def applications(self) -> AsyncIterator[FakeCluster]:
        yield self

    async def report(self, application: ApplicationId) -> ApplicationReport:
        found = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        if found is None:
            raise ApplicationNotFoundError("org.apache.hadoop.yarn.exceptions.ApplicationNotFoundException", "who?")
        return found

    async def nodes(self) -> list[NodeReport]:
        return self.known_nodes

    def web_files(self, key: str) -> Files:
        """The file system that a setting names."""
        assert key == "yarn.nodemanager.remote-app-log-dir"
        return self.files

    def running(self) -> None:
        self.reports = [ApplicationReport(state=ApplicationState.RUNNING)]

    def ended(self, *states: LogAggregationStatus | None) -> None:
        """The application has ended; each report has the next of these states of its log aggregation."""
        self.reports = [
            ApplicationReport(state=ApplicationState.FINISHED, user="ann", log_aggregation_status=state)
            for state in states
        ]

    @property
    def me(self) -> ClusterClients:
        return cast(ClusterClients, self)


class Shelf:
    """Takes everything."""

    def __init__(self) -> None:
        self.begun: dict[str, tuple[int, int]] = {}
        self.got: dict[str, bytes] = {}
        self.have: dict[str, int] = {}
        self.indexes: dict[str, bytes] = {}

    def find_start(self, name: str, older: int, newer: int) -> int | None:
        if not name.endswith(".out"):
            return None
        self.begun[name] = (older, newer)
        return self.have.get(name, 0)

    def put(self, name: str, start: int, offset: int, data: bytes) -> None:
        assert start in (0, self.begun[name][0])
        assert offset == self.have.get(name, 0) + len(self.got.get(name, b""))
        self.got[name] = self.got.get(name, b"") + data

    def put_tail(self, tail: LogFileTail) -> None:
        raise AssertionError("YARN has whole files")

    def put_index(self, file: str, data: bytes) -> None:
        assert file.removesuffix(".1") in self.got
        self.indexes[file] = data


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Whose aggregation is requested without long pauses."""
    monkeypatch.setattr(container_logs, "_POLL_SECONDS", 0.001)
    return FakeCluster()


@pytest.fixture
def node(cluster: FakeCluster) -> Iterator[FakeNodeWeb]:
    with FakeNodeWeb() as node:
        address = node.url.removeprefix("http://")
        cluster.known_nodes = [NodeReport(id=NodeId(host="n1", port=1), http_address=address)]
        yield node


async def test_logs_of_a_running_application_come_from_its_nodes(cluster: FakeCluster, node: FakeNodeWeb) -> None:
    """For the containers that have ended; the older part of a file comes first, and existing parts are not
    requested."""
    cluster.running()
    node.containers[ONE] = {"a.out": b"newer", "a.out.1": b"older ", "stderr": b"not this"}
    node.containers[TWO] = {"b.out": b"had and new", "c.out": b""}
    shelf = Shelf()
    shelf.have = {"b.out": 8}
    await ContainerLogs(cluster.me, JOB).fetch({ONE: "n1", TWO: "n1"}, shelf)
    assert shelf.got == {"a.out": b"older newer", "b.out": b"new"}
    assert shelf.begun == {"a.out": (6, 5), "b.out": (0, 11), "c.out": (0, 0)}


async def test_a_node_that_does_not_have_it_is_named(cluster: FakeCluster, node: FakeNodeWeb) -> None:
    """The others' files come all the same."""
    cluster.running()
    node.containers[ONE] = {"a.out": b"here"}
    shelf = Shelf()
    with pytest.raises(SchedulerError) as raised:
        await ContainerLogs(cluster.me, JOB).fetch({TWO: "n1", ONE: "n1", "container_x": "n9"}, shelf)
    assert shelf.got == {"a.out": b"here"}
    assert f"{TWO}: " in str(raised.value)
    assert mentions(str(raised.value), "container_x", "ResourceManager")


async def test_after_the_end_hdfs_has_it(cluster: FakeCluster) -> None:
    """It is waited for until the nodes have brought it."""
    cluster.ended(LogAggregationStatus.NOT_STARTED, LogAggregationStatus.RUNNING, LogAggregationStatus.SUCCEEDED)
    files = {"a.out": b"newer", "a.out.1": b"older ", "stdout": b"not this"}
    files |= {".a.out.times": b"times", ".a.out.1.times": b"x" * 5000, ".stdout.times": b"nor this"}
    cluster.files.files = {f"{AGGREGATED}/n1_1": make([[(ONE, log_files(files))]])}
    shelf = Shelf()
    await ContainerLogs(cluster.me, JOB).fetch({}, shelf)
    assert shelf.got == {"a.out": b"older newer"}
    assert shelf.indexes == {"a.out": b"times"}  # no index is so much longer than its log
    assert len(cluster.reports) == 1


async def test_an_application_that_ends_while_its_nodes_are_asked(cluster: FakeCluster, node: FakeNodeWeb) -> None:
    """They forget its containers; HDFS has the output."""
    cluster.ended(LogAggregationStatus.SUCCEEDED)
    cluster.reports.insert(0, ApplicationReport(state=ApplicationState.RUNNING))
    cluster.files.files = {f"{AGGREGATED}/n1_1": make([[(ONE, log_files({"a.out": b"all"}))]])}
    shelf = Shelf()
    await ContainerLogs(cluster.me, JOB).fetch({ONE: "n1"}, shelf)
    assert shelf.got == {"a.out": b"all"}


@pytest.mark.parametrize(
    ("state", "words"),
    [(LogAggregationStatus.FAILED, "is incomplete"), (LogAggregationStatus.RUNNING, "still running")],
)
async def test_partial_logs_are_reported_as_partial(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, state: LogAggregationStatus, words: str
) -> None:
    """What is there is fetched, and the error says that something is missing."""
    monkeypatch.setattr(container_logs, "_AGGREGATION_SECONDS", 0.01)
    cluster.ended(state)
    cluster.files.files = {f"{AGGREGATED}/n1_1": make([[(ONE, log_files({"a.out": b"x"}))]])}
    shelf = Shelf()
    with pytest.raises(SchedulerError, match=words):
        await ContainerLogs(cluster.me, JOB).fetch({}, shelf)
    assert shelf.got == {"a.out": b"x"}


async def test_without_aggregation_the_nodes_may_still_have_it(cluster: FakeCluster, node: FakeNodeWeb) -> None:
    """They keep files for some hours; if not, the setting that would help is named."""
    cluster.ended(LogAggregationStatus.DISABLED)
    node.containers[ONE] = {"a.out": b"kept"}
    shelf = Shelf()
    await ContainerLogs(cluster.me, JOB).fetch({ONE: "n1"}, shelf)
    assert shelf.got == {"a.out": b"kept"}
    node.containers.clear()
    with pytest.raises(SchedulerError) as raised:
        await ContainerLogs(cluster.me, JOB).fetch({ONE: "n1"}, shelf)
    assert str(raised.value).startswith(
        "There are no aggregated logs: yarn.log-aggregation-enable is false on this cluster."
    )
    with pytest.raises(SchedulerError, match="aggregation-enable is false"):
        await ContainerLogs(cluster.me, JOB).fetch({}, shelf)


@pytest.mark.parametrize("hangs", [True, False])
async def test_hdfs_has_all_of_it_and_no_resource_manager_answers(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    """A job that has ended needs none then. If a container is missing there, only the ResourceManager knows more."""
    monkeypatch.setattr(container_logs, "_REPORT_SECONDS", 0.01)

    async def away(_: FakeCluster, __: ApplicationId) -> ApplicationReport:
        if hangs:
            await asyncio.sleep(0.1)
        raise SchedulerError("no daemon answers")

    monkeypatch.setattr(FakeCluster, "report", away)
    cluster.files.files = {f"{AGGREGATED}/n1_1": make([[(ONE, log_files({"a.out": b"all"}))]])}
    shelf = Shelf()
    await ContainerLogs(cluster.me, JOB).fetch({ONE: "n1"}, shelf, ended=True)
    assert shelf.got == {"a.out": b"all"}
    with pytest.raises(SchedulerError, match="no daemon answers"):
        await ContainerLogs(cluster.me, JOB).fetch({ONE: "n1", TWO: "n1"}, Shelf(), ended=True)
    with pytest.raises(SchedulerError, match="no daemon answers"):
        await ContainerLogs(cluster.me, JOB).fetch({ONE: "n1"}, Shelf())


async def test_an_application_that_is_forgotten(cluster: FakeCluster) -> None:
    """HDFS may have its logs longer than the ResourceManager remembers it."""
    cluster.reports = [None]
    cluster.files.files = {f"{AGGREGATED}/n1_1": make([[(ONE, log_files({"a.out": b"old"}))]])}
    shelf = Shelf()
    await ContainerLogs(cluster.me, JOB).fetch({}, shelf)
    assert shelf.got == {"a.out": b"old"}
    cluster.files.files = {}
    with pytest.raises(SchedulerError, match="HDFS has no logs"):
        await ContainerLogs(cluster.me, JOB).fetch({}, shelf)


async def test_an_application_of_which_nothing_ever_ran(cluster: FakeCluster) -> None:
    """Its log aggregation is reported as pending for ever, but there are no nodes: it is not waited for."""
    coming = LogAggregationStatus.NOT_STARTED
    cluster.reports = [ApplicationReport(state=ApplicationState.KILLED, launch_time=0, log_aggregation_status=coming)]
    with pytest.raises(SchedulerError, match="no container"):
        await asyncio.wait_for(
            ContainerLogs(cluster.me, JOB).fetch({}, Shelf(), ended=True), container_logs._AGGREGATION_SECONDS / 2
        )


async def test_logs_of_another_users_application(cluster: FakeCluster, node: FakeNodeWeb) -> None:
    """A job directory may name any application, and any container. Only logs of its owner are shown."""
    theirs = "container_1795272430499_0008_01_000002"
    cluster.ended(LogAggregationStatus.SUCCEEDED)
    cluster.files.files = {f"{AGGREGATED}/n1_1": make([[(ONE, log_files({"a.out": b"of ann"}))]])}
    with pytest.raises(SchedulerError, match=r"eve.*ann"):
        await ContainerLogs(cluster.me, JOB, "eve").fetch({ONE: "n1"}, Shelf(), ended=True)
    shelf = Shelf()
    await ContainerLogs(cluster.me, JOB, "ann").fetch({ONE: "n1"}, shelf, ended=True)
    assert shelf.got == {"a.out": b"of ann"}

    cluster.files.files = {}
    cluster.ended(LogAggregationStatus.DISABLED)
    node.containers = {ONE: {"a.out": b"own"}, theirs: {"b.out": b"theirs"}}
    shelf = Shelf()
    await ContainerLogs(cluster.me, JOB, "ann").fetch({ONE: "n1", theirs: "n1"}, shelf, ended=True)
    assert shelf.got == {"a.out": b"own"}
    # The ResourceManager has forgotten it: the owner of those containers is unknown.
    cluster.reports = [None]
    shelf = Shelf()
    with pytest.raises(SchedulerError, match="no longer knows the application"):
        await ContainerLogs(cluster.me, JOB, "ann").fetch({ONE: "n1"}, shelf, ended=True)
    assert shelf.got == {}


async def test_logs_that_were_removed(cluster: FakeCluster) -> None:
    """What has been brought to HDFS does not stay there for ever: which setting says so is told, and what else there
    may be."""
    cluster.ended(LogAggregationStatus.SUCCEEDED)
    with pytest.raises(SchedulerError, match=r"no longer there.*retain-seconds.*`tony logs -f` keep"):
        await ContainerLogs(cluster.me, JOB).fetch({}, Shelf())
