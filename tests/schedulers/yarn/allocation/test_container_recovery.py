"""A later application master on a fake YARN: whose containers it takes over, and which it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.facts import mentions
from tests.schedulers.yarn import fake_cluster as scene
from tests.schedulers.yarn.fake_cluster import FakeCluster, start_fake_cluster
from tests.support.hadoop.fake_resource_manager import APPLICATION
from tests.support.hadoop.fake_webhdfs import FakeFile, Trouble
from tests.support.hadoop.faults import DropResponse
from tony.core.events import ContainerEnded, Granted
from tony.errors import AttemptSupersededError
from tony.hadoop.ids import parse_container_id
from tony.hadoop.wire.yarn_records import (
    ApplicationAttemptId,
    Container,
    ContainerId,
    ContainerLaunchContext,
)
from tony.model.ids import TaskId
from tony.schedulers.allocator_interface import KnownContainer
from tony.schedulers.job_store import previous_attempts
from tony.schedulers.yarn.allocation import container_recovery, container_table
from tony.schedulers.yarn.allocation.session import YarnSession


def old(number: int, epoch: int = 0) -> ContainerId:
    attempt = ApplicationAttemptId(application=APPLICATION, number=1)
    return ContainerId(attempt=attempt, number=epoch << 40 | 100 + number)


def name(number: int, epoch: int = 0) -> str:
    return f"container_{f'e{epoch:02}_' if epoch else ''}1410901177871_0001_01_{100 + number:06}"


def known(number: int, epoch: int = 0) -> KnownContainer:
    task = TaskId(role="worker", index=number)
    return KnownContainer(id=name(number, epoch), role="worker", host="127.0.0.1", task=task, executor_pid=7)


@asynccontextmanager
async def second(tmp_path: Path, *numbers: int, nodes: int = 2, epoch: int = 0) -> AsyncIterator[FakeCluster]:
    """The second attempt, not registered yet, and what runs of the first one's, on the first node."""
    async with start_fake_cluster(tmp_path, attempt=2, opens=False, node_count=nodes, epoch=epoch) as cluster:
        cluster.source._has_history = True
        cluster.manager.previous = tuple(runs(cluster, number) for number in numbers)
        yield cluster


def find_session(cluster: FakeCluster) -> YarnSession:
    assert cluster.source._session
    return cluster.source._session


def runs(cluster: FakeCluster, number: int, epoch: int = 0) -> Container:
    """Has a container of the first attempt run."""
    container = Container(id=old(number, epoch), node=cluster.nodes[0].node)
    cluster.manager.live[old(number, epoch)] = container
    cluster.nodes[0].running[name(number, epoch)] = ContainerLaunchContext()
    return container


async def test_recovered_containers_count(tmp_path: Path) -> None:
    """For the demand; they are stopped and released as any other, and their end is reported."""
    async with second(tmp_path, 1, 2) as cluster:
        await cluster.open()
        assert await cluster.source.recover([known(1), known(2)]) == [name(1), name(2)]
        cluster.source.set_demand("worker", 3)
        await cluster.until(lambda: cluster.of(Granted))
        cluster.source.set_demand("worker", 1)
        cluster.source.kill(name(1), "it fell silent")
        await cluster.until(lambda: "killed: it fell silent" in cluster.causes())
        cluster.manager.complete(old(2), 137)
        await cluster.until(lambda: len(cluster.causes()) == 2)
        assert len(cluster.of(Granted)) == 1


async def test_containers_unknown_to_the_log_are_released(tmp_path: Path) -> None:
    """They were launched, and their event was not durable yet."""
    async with second(tmp_path, 1, 2) as cluster:
        await cluster.open()
        assert await cluster.source.recover([known(1)]) == [name(1)]
        await cluster.until(lambda: cluster.running() == [name(1)])
        await cluster.until(lambda: old(2) in cluster.manager.released)


async def test_containers_that_ended_between_attempts_are_reported(tmp_path: Path) -> None:
    """With their causes, after the events of the recovery itself."""
    async with second(tmp_path, 1, 2) as cluster:
        cluster.manager.complete(old(2), -102, "preempted")
        await cluster.open()
        found = await cluster.source.recover([known(1), known(2)])
        assert (found, cluster.events) == ([name(1), name(2)], [])
        await cluster.until(lambda: cluster.of(ContainerEnded))
        (end,) = cluster.of(ContainerEnded)
        assert (end.container, end.blameless, end.is_unconfirmed) == (name(2), True, False)


async def test_containers_that_were_not_kept_are_gone(tmp_path: Path) -> None:
    """The ResourceManager had not seen it run. Where its node can be asked it is stopped at once."""
    async with second(tmp_path, 1) as cluster:
        cluster.nodes[0].running[name(2)] = ContainerLaunchContext()
        await cluster.open()
        assert await cluster.source.recover([known(1), known(2)]) == [name(1)]
        assert cluster.running() == [name(1)]
        assert cluster.events == []


async def test_a_recovered_containers_exit_comes_from_its_node(tmp_path: Path) -> None:
    """The ResourceManager has reported it to the first attempt, which did not record it."""
    async with second(tmp_path, 1) as cluster:
        cluster.nodes[0].ended[name(2)] = 143
        await cluster.open()
        assert await cluster.source.recover([known(1), known(2)]) == [name(1), name(2)]
        await cluster.until(lambda: cluster.causes() == ["its executor was killed by SIGTERM"])


async def test_a_resource_manager_that_was_restarted_too(tmp_path: Path) -> None:
    """It learns of a node's containers when the node comes back to it: what is missing is waited for."""
    async with second(tmp_path, nodes=5) as cluster:
        await cluster.open()
        recovering = asyncio.ensure_future(cluster.source.recover([known(1), known(2)]))
        await cluster.until(lambda: cluster.source._master.answers > 1)
        assert not recovering.done()
        cluster.manager.recover(runs(cluster, 1))
        cluster.source._master.wake()
        await cluster.until(lambda: find_session(cluster)._containers.has(name(1)))
        cluster.manager.recover(runs(cluster, 2))
        assert await recovering == [name(1), name(2)]
        assert cluster.causes() == []


async def test_a_node_that_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of its containers is unknown: they count as running until their lease has ended."""
    monkeypatch.setattr("tony.schedulers.yarn.allocation.session._NODES_RETURN_SECONDS", -59.5)
    async with second(tmp_path, nodes=5) as cluster:
        await cluster.open()
        assert await cluster.source.recover([known(1)]) == [name(1)]
        await cluster.until(lambda: cluster.of(ContainerEnded))
        (end,) = cluster.of(ContainerEnded)
        assert (end.blameless, end.is_unconfirmed) == (True, True)


async def test_a_node_that_returns_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other containers have replaced its own: running ones are stopped, and their end is confirmed then."""
    monkeypatch.setattr("tony.schedulers.yarn.allocation.session._NODES_RETURN_SECONDS", -59.5)
    async with second(tmp_path, nodes=5) as cluster:
        await cluster.open()
        assert await cluster.source.recover([known(1), known(2)]) == [name(1), name(2)]
        await cluster.until(lambda: len(cluster.of(ContainerEnded)) == 2)
        runs(cluster, 2)
        cluster.manager.complete(old(2), 137)
        cluster.manager.recover(runs(cluster, 1))
        cluster.source._master.wake()
        await cluster.until(lambda: len(cluster.of(ContainerEnded)) == 4)
        late = {end.container: end for end in cluster.of(ContainerEnded)[2:] if isinstance(end, ContainerEnded)}
        assert mentions(late[name(1)].cause, "killed")
        assert late[name(2)].cause == "its executor was killed by SIGKILL"
        assert not any(end.is_unconfirmed for end in late.values())
        assert name(1) not in cluster.running()


async def test_the_answer_to_the_registration_was_lost(tmp_path: Path) -> None:
    """It named what runs, once: the next attempt hears it anew, and this one leaves everything to it."""
    async with second(tmp_path, 1) as cluster:
        cluster.manager.server.order(DropResponse(executed=True), method="registerApplicationMaster")
        with pytest.raises(AttemptSupersededError, match="registration was lost"):
            await cluster.open()
        assert cluster.running() == [name(1)]


async def test_a_later_attempts_address_is_not_overwritten(tmp_path: Path) -> None:
    """It was published while this attempt could not reach HDFS: clients continue to find it."""
    async with second(tmp_path) as cluster:
        theirs = FakeFile(content=b'{"attempt":3}')
        cluster.files.files[f"{scene.FOLDER}/am.json"] = theirs
        await cluster.open()
        publisher = cluster.source._publisher
        assert publisher._work
        await publisher._work
        assert (cluster.file("am.json"), cluster.file("access.json")) == (theirs.content, None)


async def test_older_than_the_resource_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes have come back to the new one: what it does not tell of then has ended, and that is certain."""
    monkeypatch.setattr(container_recovery, "_LAST_NODE_SECONDS", 0.05)
    async with second(tmp_path, nodes=2, epoch=1) as cluster:
        await cluster.open()
        assert await cluster.source.recover([known(1)]) == []


async def test_without_known_containers_nothing_is_recovered(tmp_path: Path) -> None:
    async with second(tmp_path) as cluster:
        await cluster.open()
        assert await cluster.source.recover([]) == []
        assert await cluster.source.recover([]) == []


async def test_the_lease_is_longer_than_yarn_takes(tmp_path: Path) -> None:
    """To give up a node or a master, as the cluster is configured; and this attempt has YARN's number."""
    async with second(tmp_path) as cluster:
        assert (cluster.source.lease, cluster.source.attempt) == (900 + 300, 2)


# --- the log ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def closes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files that were closed for their writers: each at the second try."""
    asked: list[str] = []

    def recover(_: object, path: str) -> bool:
        asked.append(path)
        return asked.count(path) > 1

    monkeypatch.setattr("tony.schedulers.yarn.cluster_clients.ClusterClients.recover_lease", recover)
    return asked


async def test_the_event_log_is_fetched_and_renamed(tmp_path: Path, closes: list[str]) -> None:
    """Whole, with its torn end; the earlier attempt's file is renamed, so it cannot write to it any longer."""
    async with start_fake_cluster(tmp_path, attempt=3, opens=False) as cluster:
        cluster.files.files[f"{scene.FOLDER}/events.1.jsonl"] = FakeFile(content=b'{"a":1}\n{"b')
        await cluster.source.fetch_event_logs()
        await cluster.source.fetch_event_logs()
        assert cluster.job.folder.events(1).read_bytes() == b'{"a":1}\n{"b'
        assert cluster.job.folder.events(2).read_bytes() == b""
        assert cluster.file("events.1.jsonl") is None
        assert cluster.file("events.1.closed.jsonl") == b'{"a":1}\n{"b'
        assert cluster.file("events.2.closed.jsonl") == b""
        assert len(closes) == 4


async def test_the_first_attempt_takes_nothing(tmp_path: Path, closes: list[str]) -> None:
    """There is no earlier attempt."""
    async with start_fake_cluster(tmp_path, opens=False) as cluster:
        await cluster.source.fetch_event_logs()
        assert closes == []


async def test_a_name_node_that_starts(tmp_path: Path, closes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for; after too long another attempt may have more luck, and nothing is touched."""
    monkeypatch.setattr(previous_attempts, "_RETRY_SECONDS", 0.01)
    async with start_fake_cluster(tmp_path, attempt=2, opens=False) as cluster:
        cluster.files.files[f"{scene.FOLDER}/events.1.jsonl"] = FakeFile(content=b"kept\n")
        cluster.files.fail_next("GETFILESTATUS", *[Trouble.SAFE_MODE] * 3)
        await cluster.source.fetch_event_logs()
        assert cluster.job.folder.events(1).read_bytes() == b"kept\n"
    async with start_fake_cluster(tmp_path / "other", attempt=2, opens=False) as cluster:
        monkeypatch.setattr("tony.schedulers.yarn.allocation.allocator._HDFS_WAIT_SHARE", 0.0001)
        cluster.files.fail_next("GETFILESTATUS", *[Trouble.SAFE_MODE] * 1000)
        with pytest.raises(AttemptSupersededError, match="another AM attempt may continue"):
            await cluster.source.fetch_event_logs()
        cluster.files.troubles_over()


async def test_a_request_that_was_kept_is_found(tmp_path: Path) -> None:
    """A user killed the job while it had no AM."""
    async with second(tmp_path) as cluster:
        cluster.files.files[f"{scene.FOLDER}/kill.json"] = FakeFile(content=b'{"actor":"ann","now":false}')
        await cluster.open()
        await cluster.until(cluster.job.folder.kill_request.exists)
        assert cluster.job.folder.kill_request.read_bytes() == b'{"actor":"ann","now":false}'


# --- unconfirmed exits ------------------------------------------------------------------------------------------------


async def test_a_lost_node_that_answers(tmp_path: Path) -> None:
    """YARN has given it up, but it lives: it proves the end."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.launched()
        node = cluster.node(container)
        cluster.source.set_demand("worker", 0)
        cluster.manager.complete(parse_container_id(container), -100, "Container released on a *lost* node")
        await cluster.until(lambda: cluster.of(ContainerEnded))
        (end,) = cluster.of(ContainerEnded)
        assert (end.is_unconfirmed, end.blameless, container in node.running) == (False, True, False)


async def test_a_lost_node_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its programs may run on, behind a partition: the end is presumed, once."""
    monkeypatch.setattr(container_table, "_PROOF_SECONDS", 0.1)
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.launched()
        await cluster.node(container).server.stop()
        cluster.source.set_demand("worker", 0)
        cluster.manager.complete(parse_container_id(container), -100, "Container released on a *lost* node")
        await cluster.until(lambda: cluster.of(ContainerEnded))
        (end,) = cluster.of(ContainerEnded)
        assert (end.is_unconfirmed, end.blameless) == (True, True)


async def test_a_release_is_no_proof(tmp_path: Path) -> None:
    """The node could not be told; YARN calls the container ended as soon as it is given back."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.launched()
        find_session(cluster)._nodes._timeout = 0.05
        await cluster.node(container).server.stop()
        cluster.source.set_demand("worker", 0)
        cluster.source.kill(container, "it fell silent")
        await cluster.until(lambda: cluster.of(ContainerEnded))
        (end,) = cluster.of(ContainerEnded)
        assert (end.is_unconfirmed, end.cause) == (True, "killed: it fell silent")
