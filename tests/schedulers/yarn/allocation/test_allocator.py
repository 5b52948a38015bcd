"""Containers of a fake YARN, and everything that goes wrong. The contract of all sources: tests/conformance/."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.facts import mentions
from tests.schedulers.yarn import fake_cluster as scene
from tests.schedulers.yarn.fake_cluster import HDFS_TOKEN, SECRET, FakeCluster, start_fake_cluster
from tests.support.hadoop.fake_resource_manager import YARN
from tests.support.hadoop.fake_webhdfs import FakeFile, Trouble
from tests.support.hadoop.faults import HoldResponse, Refuse
from tony.core.events import ContainerEnded, Excluded, Granted, KillRequested, Queued, Unsatisfiable
from tony.errors import AttemptLostError, AttemptSupersededError, SchedulerError
from tony.hadoop.ids import parse_container_id
from tony.hadoop.wire.application_client import ApplicationReport, ApplicationState
from tony.hadoop.wire.application_master import (
    NegotiablePreemption,
    PreemptedContainer,
    Preemption,
)
from tony.hadoop.wire.yarn_records import (
    ApplicationAttemptId,
    FinalStatus,
    NodeId,
    NodeReport,
    NodeState,
)
from tony.history.job_record import build_pending_report, write_summary
from tony.model.failure import ClusterKill
from tony.model.job_report import JobReport
from tony.model.job_spec import MIB, JobSpec, Resources, Role
from tony.model.states import JobState
from tony.retry import Backoff
from tony.schedulers.allocator_interface import AmAddresses
from tony.schedulers.job_store import event_log_replication
from tony.schedulers.job_store import record_publisher as publishing
from tony.schedulers.job_store.hdfs_job_store import HdfsJobStore
from tony.schedulers.yarn.allocation import am_attempt, container_table, outstanding_requests
from tony.schedulers.yarn.allocation.allocator import YarnAllocator
from tony.testing.sample_jobs import build_two_roles

GONE = Refuse(class_name=f"{YARN}ApplicationAttemptNotFoundException", message="application was killed by user bob")
NO = Refuse(class_name=f"{YARN}YarnException", message="no disk is left")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short timeouts for what these tests provoke."""
    monkeypatch.setattr(outstanding_requests, "_PENDING_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(container_table, "_CLOSE_SECONDS", 2.0)


def with_worker(**fields: Any) -> JobSpec:
    """The usual job, and something of its workers."""
    spec = build_two_roles()
    worker = replace(spec.roles["worker"], **fields)
    return replace(spec, roles={**spec.roles, "worker": worker})


# --- asking --------------------------------------------------------------------------------------------------------


async def test_an_unknown_resource_is_refused(tmp_path: Path) -> None:
    """YARN would grant a container without it, and say nothing."""
    role = Role(resources=Resources(memory=16 * MIB, gpus=1))
    async with start_fake_cluster(tmp_path, spec=build_two_roles(roles={"worker": role, "ps": Role()})) as cluster:
        cluster.source.set_demand("worker", 1)
        await cluster.until(lambda: cluster.of(Unsatisfiable))
        (event,) = cluster.of(Unsatisfiable)
        assert mentions(event.reason, "yarn.io/gpu")
        assert cluster.manager.asks == {}


async def test_raised_memory_is_requested_for_further_containers(tmp_path: Path) -> None:
    """In whole MiB, rounded up; each grant says how much it has."""
    async with start_fake_cluster(tmp_path) as cluster:
        await cluster.granted("worker", 1)
        cluster.source.set_memory("worker", 40 * MIB + 1)
        await cluster.granted("worker", 2)
        assert [event.memory for event in cluster.of(Granted)] == [16 * MIB, 41 * MIB]


async def test_open_requests_are_for_the_raised_memory(tmp_path: Path) -> None:
    async with start_fake_cluster(tmp_path) as cluster:
        cluster.manager.grants_by_hand = True
        cluster.source.set_demand("worker", 2)
        await cluster.until(lambda: cluster.manager.asks)
        cluster.source.set_memory("worker", 40 * MIB)
        await cluster.until(lambda: {size.memory for size in cluster.manager.sizes.values()} == {40})
        cluster.manager.grants_by_hand = False
        await cluster.until(lambda: len(cluster.of(Granted)) == 2)
        assert [event.memory for event in cluster.of(Granted)] == [40 * MIB, 40 * MIB]


async def test_more_memory_than_the_cluster_grants_is_refused(tmp_path: Path) -> None:
    async with start_fake_cluster(tmp_path) as cluster:
        cluster.source.set_memory("worker", (cluster.manager.maximum + 1) * MIB)
        cluster.source.set_demand("worker", 1)
        await cluster.until(lambda: cluster.of(Unsatisfiable))
        assert cluster.of(Unsatisfiable)[0].role == "worker"


async def test_missing_containers_are_reported(tmp_path: Path) -> None:
    """By role, with the queue; and again when none is missing any longer."""
    async with start_fake_cluster(tmp_path) as cluster:
        cluster.manager.grants_by_hand = True
        cluster.source.set_demand("worker", 3)
        await cluster.until(lambda: cluster.of(Queued))
        (event,) = cluster.of(Queued)
        assert mentions(event.reason, "3 of 3", "YARN", "worker pending", "default")
        cluster.manager.grants_by_hand = False
        await cluster.until(lambda: len(cluster.of(Granted)) == 3 and len(cluster.of(Queued)) == 2)
        assert cluster.events[-1] == Queued(reason="")


async def test_a_rejected_request_waits_for_room(tmp_path: Path) -> None:
    """A role with `spread` on a cluster that rejects what does not fit now: the reason is reported, and it is
    granted when there is room."""
    async with start_fake_cluster(tmp_path, spec=with_worker(spread=True)) as cluster:
        cluster.manager.places = 1
        cluster.source.set_demand("worker", 3)
        waiting = Queued(
            reason="waiting for YARN: 2 of 3 containers of worker pending in queue default; no suitable node for "
            "worker now (could not place on node), retrying"
        )
        await cluster.until(lambda: waiting in cluster.events)
        cluster.manager.places = 2
        await cluster.until(lambda: len(cluster.of(Granted)) == 3 and cluster.events[-1] == Queued(reason=""))
        assert (cluster.events[-1], cluster.of(Unsatisfiable)) == (Queued(reason=""), [])


@pytest.mark.parametrize("settings", [{}, {"placement": "os=linux"}])
async def test_no_constraints_here(tmp_path: Path, settings: dict[str, str | int | float | bool]) -> None:
    """A ResourceManager without a handler for them refuses the ask: told with the setting that wants them.

    Nothing of them is in the registration: it would be refused for good.
    """
    said = "Found non empty SchedulingRequest, but the configured handler cannot handle placement constraints"
    no = Refuse(class_name=f"{YARN}YarnException", message=said)
    spec = replace(with_worker(spread=not settings), scheduler_settings=settings)
    async with start_fake_cluster(tmp_path, spec=spec) as cluster:
        await cluster.manager.server.wait_called("allocate")
        cluster.manager.server.order(no, method="allocate", times=100)
        cluster.source.set_demand("worker", 1)
        await cluster.until(lambda: cluster.of(Unsatisfiable))
        (event,) = cluster.of(Unsatisfiable)
        key = "scheduler.yarn.placement" if settings else "roles.worker.spread"
        assert event.reason.startswith(f"this cluster has placement constraints disabled, but {key} needs them.")
        cluster.manager.server.forgive()


# --- starting ------------------------------------------------------------------------------------------------------


async def test_gpus_under_yarns_own_name_are_gpus(tmp_path: Path) -> None:
    """A task that has none would be kept from seeing any."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.granted("worker", 1)
        role = Role(resources=Resources(memory=16 * MIB, others={"yarn.io/gpu": 2}))
        spec = replace(cluster.spec, roles={"worker": role, "ps": Role()})
        job = replace(cluster.job, record=replace(cluster.job.record, spec=spec))
        cluster.source._attempt = replace(cluster.source._attempt, job=job)
        await cluster.launch(container)
        assert 2 == cluster.payload_of(container).task.gpus


async def test_a_task_gets_the_users_tokens_and_not_the_masters(tmp_path: Path) -> None:
    """Its program may use HDFS, but cannot act as the application master."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.launched()
        tokens = cluster.tokens_of(container)
        assert [token.kind for token in tokens.tokens.values()] == [HDFS_TOKEN.kind]
        assert tokens.secrets["own"] == b"key"
        assert cluster.payload_of(container).credentials == SECRET


async def test_a_launch_that_fails_after_it_was_released(tmp_path: Path) -> None:
    """It is refused once, and nothing comes of it later."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.granted()
        cluster.source.set_demand("worker", 0)
        hold = HoldResponse()
        cluster.node(container).refusals[container] = "no"
        cluster.node(container).server.order(hold, method="startContainers")
        launch = asyncio.ensure_future(cluster.launch(container))
        await hold.is_held.wait()
        cluster.source.release(container, 0.01)
        await asyncio.sleep(0.05)
        hold.release()
        with pytest.raises(SchedulerError):
            await launch
        await cluster.until(lambda: not cluster.manager.live)
        assert cluster.causes() == []


async def test_it_ended_while_it_was_launched(tmp_path: Path) -> None:
    """Its node was lost at that moment: one end is told, and the launch says nothing more."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.granted()
        cluster.source.set_demand("worker", 0)
        hold = HoldResponse()
        cluster.node(container).refusals[container] = "I am going"
        cluster.node(container).server.order(hold, method="startContainers")
        launch = asyncio.ensure_future(cluster.launch(container))
        await hold.is_held.wait()
        cluster.manager.complete(parse_container_id(container), -100, "Container released on a *lost* node")
        await cluster.until(lambda: cluster.of(ContainerEnded))
        hold.release()
        await launch
        assert len(cluster.causes()) == 1
        assert "lost" in cluster.causes()[0]


async def test_closed_while_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch was cancelled, and its node started it all the same: it is stopped at once."""
    monkeypatch.setattr(container_table, "_CLOSE_SECONDS", 60.0)
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.granted()
        hold = HoldResponse()
        cluster.node(container).server.order(hold, method="startContainers")
        launch = asyncio.ensure_future(cluster.launch(container))
        await hold.is_held.wait()
        launch.cancel()
        await asyncio.wait([launch])
        async with asyncio.timeout(20):
            await cluster.source.close()
        assert (cluster.running(), dict(cluster.manager.live)) == ([], {})


# --- ending --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "said", "cause", "blameless"),
    [
        (-102, "Container preempted by scheduler", "preempted it", True),
        (137, "", "SIGKILL", False),
        (-104, "Current usage: 173.1 MB of 128 MB physical memory used", "173.1 MB used, 128 MB allowed", False),
    ],
)
async def test_why_it_ended(tmp_path: Path, status: int, said: str, cause: str, blameless: bool) -> None:
    """What YARN does is told apart from what programs do."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.launched()
        cluster.source.set_demand("worker", 0)
        cluster.manager.complete(parse_container_id(container), status, said)
        await cluster.until(lambda: cluster.of(ContainerEnded))
        (event,) = cluster.of(ContainerEnded)
        assert (cause in event.cause, event.blameless, event.kill is not None) == (True, blameless, status < 0)
        assert (event.kill is ClusterKill.MEMORY_LIMIT) is (status == -104)


NO_PYTHON = "there is no python3 on host n1: PATH is /bin. Install Python 3.11 or later on the nodes"
SAID = f"[2026-11-21 15:46:19.325]Exit code: 127\nLast 4096 bytes of stderr :\ntony: {NO_PYTHON}\n"


@pytest.mark.parametrize("python", [None, "own", "environment"])
async def test_no_python_anywhere(tmp_path: Path, python: str | None) -> None:
    """One container has shown it: the job need not try more where no others could be had, or all are alike."""
    settings = {"python": python} if python else {}
    room = {"worker": 5} if python else {"worker": 1}
    async with start_fake_cluster(tmp_path, spec=build_two_roles(scheduler_settings=settings), room=room) as cluster:
        (container,) = await cluster.launched()
        cluster.manager.complete(parse_container_id(container), 127, SAID)
        await cluster.until(lambda: cluster.of(ContainerEnded))
        (event,) = cluster.of(Unsatisfiable)
        assert event == Unsatisfiable(role="worker", reason=f"cannot start any task of worker: {NO_PYTHON}")
        assert cluster.events.index(event) < cluster.events.index(cluster.of(ContainerEnded)[0])


async def test_no_python_on_one_node(tmp_path: Path) -> None:
    """Nothing more is wanted there, which is said while others are waited for."""
    said = "2 of 2 containers of worker pending in queue default; excluded hosts without a suitable Python: 127.0.0.1"
    async with start_fake_cluster(tmp_path, room={"worker": 2}) as cluster:
        containers = await cluster.launched(2)
        for container in containers:
            cluster.manager.complete(parse_container_id(container), 127, SAID)
        # On a slow machine the first of the two may be waited for before the second has ended.
        await cluster.until(lambda: any(isinstance(e, Queued) and e.reason.endswith(said) for e in cluster.of(Queued)))
        await cluster.until(lambda: cluster.manager.excluded == {"127.0.0.1"})
        assert (len(cluster.of(Granted)), cluster.of(Unsatisfiable)) == (2, [])


async def test_an_announced_end_is_reported_in_advance(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once, with task and container: its node is decommissioned, or YARN preempts it. The end repeats the reason."""
    async with start_fake_cluster(tmp_path) as cluster:
        container, other = await cluster.launched(2)
        (node, elsewhere) = (cluster.manager.live[parse_container_id(each)].node for each in (container, other))
        cluster.source.set_demand("worker", 0)
        for _ in range(2):
            cluster.manager.update(NodeReport(id=node, state=NodeState.DECOMMISSIONING, decommissioning_timeout=60))
            cluster.manager.update(NodeReport(id=NodeId(host="another", port=1), state=NodeState.LOST))
            wanted_back = (PreemptedContainer(id=parse_container_id(container)),)
            cluster.manager.preempt(Preemption(negotiable=NegotiablePreemption(containers=wanted_back)))
            beats = len(cluster.manager.server.named("allocate"))
            await cluster.manager.server.wait_called("allocate", beats + 2)
        on_it = [each for each in (container, other) if node == elsewhere or each == container]
        told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        going = [
            each
            for each in told
            if "its node 127.0.0.1 is being decommissioned; containers still running in 1 m 00 s" in each
        ]
        assert [each.split(": ")[0] for each in going] == [f"worker:{n} in {each}" for n, each in enumerate(on_it)]
        back = f"worker:0 in {container}: YARN will preempt it for another queue or application"
        assert sorted(told) == sorted([*going, back])
        cluster.manager.complete(parse_container_id(container), -100, "Container released on a *lost* node")
        await cluster.until(lambda: cluster.of(ContainerEnded))
        assert mentions(cluster.causes()[0], "127.0.0.1", "decommissioned")
        cluster.manager.update(NodeReport(id=elsewhere, state=NodeState.UNHEALTHY))
        cluster.manager.update(NodeReport(id=elsewhere, state=NodeState.RUNNING))
        await cluster.until(lambda: f"worker:1 in {other}: its node 127.0.0.1 is healthy again" in caplog.messages)
        cluster.manager.update(NodeReport(id=elsewhere, state=NodeState.UNHEALTHY, health_report="no fan"))
        cluster.manager.complete(parse_container_id(other), -100, "Container released on a *lost* node")
        await cluster.until(lambda: len(cluster.causes()) == 2)
        assert mentions(cluster.causes()[1], "127.0.0.1", "unhealthy")


async def test_nodes_that_come_make_room_to_leave_one_out(tmp_path: Path) -> None:
    """The third of them is another one then."""
    async with start_fake_cluster(tmp_path) as cluster:
        await cluster.until(lambda: cluster.source._master.answers)
        cluster.source.exclude("bad")
        cluster.manager.nodes *= 3
        cluster.manager.update(NodeReport(id=NodeId(host="new", port=1), state=NodeState.RUNNING))
        await cluster.until(lambda: cluster.manager.excluded == {"bad"})
        await cluster.until(lambda: cluster.of(Excluded) == [Excluded(hosts=("bad",))])


async def test_exclusions_end_where_no_other_host_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An excluded host is used again when a job waits for long and gets nothing."""
    monkeypatch.setattr("tony.schedulers.yarn.allocation.node_blacklist._MAX_EXCLUSION_WAIT_SECONDS", 0.2)
    async with start_fake_cluster(tmp_path) as cluster:
        cluster.manager.nodes *= 3  # all on one host
        cluster.manager.update(NodeReport(id=NodeId(host="new", port=1), state=NodeState.RUNNING))
        await cluster.until(lambda: (cluster.source._master.cluster_nodes or 0) >= 3)
        cluster.source.exclude("127.0.0.1")
        await cluster.until(lambda: cluster.manager.excluded == {"127.0.0.1"})
        cluster.source.set_demand("worker", 1)
        await cluster.until(lambda: cluster.of(Granted))
        assert cluster.of(Excluded) == [Excluded(hosts=("127.0.0.1",)), Excluded(hosts=())]


async def test_its_node_knows_first(tmp_path: Path) -> None:
    """One that should end is requested at its node, too; what the ResourceManager tells later is no second end."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.launched()
        cluster.source.set_demand("worker", 0)
        cluster.source.release(container, 60.0)
        node = cluster.node(container)
        await node.server.wait_called("getContainerStatuses")
        assert cluster.causes() == []
        del node.running[container]
        node.ended[container] = 0
        await cluster.until(lambda: cluster.of(ContainerEnded))
        cluster.manager.complete(parse_container_id(container), 0)
        beats = len(cluster.manager.server.named("allocate"))
        await cluster.manager.server.wait_called("allocate", beats + 2)
        assert len(cluster.causes()) == 1


async def test_a_silent_node_is_not_polled_any_more(tmp_path: Path) -> None:
    """The ResourceManager will report."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.launched()
        cluster.source.set_demand("worker", 0)
        node = cluster.node(container)
        node.server.order(NO, method="getContainerStatuses", times=100)
        cluster.source.release(container, 60.0)
        await node.server.wait_called("getContainerStatuses")
        cluster.manager.complete(parse_container_id(container), 0)
        await cluster.until(lambda: cluster.of(ContainerEnded))
        assert len(node.server.named("getContainerStatuses")) == 1


async def test_a_node_that_does_not_end_it(tmp_path: Path) -> None:
    """Then the ResourceManager is asked to."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.launched()
        cluster.source.set_demand("worker", 0)
        cluster.node(container).server.order(NO, method="stopContainers", times=100)
        cluster.source.kill(container, "it fell silent")
        await cluster.until(lambda: cluster.of(ContainerEnded))
        assert cluster.causes() == ["killed: it fell silent"]
        assert cluster.manager.released == [parse_container_id(container)]


async def test_close_releases_granted_and_running_containers(tmp_path: Path) -> None:
    async with start_fake_cluster(tmp_path) as cluster:
        await cluster.launched(2)
        await cluster.granted("ps", 3)
        cluster.manager.grants_by_hand = True
        cluster.source.set_demand("worker", 5)
        await cluster.until(lambda: cluster.manager.outstanding(0) == 3)
        await cluster.source.close()
        assert (cluster.running(), dict(cluster.manager.live)) == ([], {})
        assert cluster.manager.outstanding(0) == 0


# --- a ResourceManager that is lost, or wants us no more -------------------------------------------------------------


async def test_the_application_was_ended(tmp_path: Path) -> None:
    """The job is killed with YARN's diagnostics; the containers are stopped by their nodes, which tony asks itself."""
    async with start_fake_cluster(tmp_path) as cluster:
        await cluster.launched(2)
        cluster.manager.server.order(GONE, times=1000)
        await cluster.until(lambda: cluster.of(KillRequested))
        (event,) = cluster.of(KillRequested)
        assert event.now
        assert "application was killed by user bob" in event.actor.name
        await cluster.source.watch()
        await cluster.source.close()
        assert cluster.running() == []
        await cluster.source.finish(_report(cluster))


async def test_the_application_is_about_to_be_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """YARN tells that it runs until it has ended it: killed. If it does not tell, another master may have the job."""
    monkeypatch.setattr(am_attempt, "_POLL_SECONDS", 0.01)
    async with start_fake_cluster(tmp_path) as cluster:
        cluster.reports = [*[ApplicationReport(state=ApplicationState.RUNNING)] * 3, *cluster.reports]
        cluster.manager.server.order(GONE, times=1000)
        await cluster.until(lambda: cluster.of(KillRequested))
    monkeypatch.setattr(am_attempt, "_REASON_SECONDS", 0.1)
    async with start_fake_cluster(tmp_path / "other") as cluster:
        (container,) = await cluster.launched(1)
        await cluster.clients_door.stop()
        cluster.manager.server.order(GONE, times=1000)
        with pytest.raises(AttemptSupersededError, match="reason unknown: no response in time"):
            await cluster.source.watch()
        assert (cluster.of(KillRequested), cluster.running()) == ([], [container])


async def test_yarn_gives_the_master_up(tmp_path: Path) -> None:
    """It was not killed, and no further attempt begins: its own failure, with YARN's diagnostics."""
    async with start_fake_cluster(tmp_path) as cluster:
        await cluster.launched(1)
        number, state = ApplicationAttemptId(number=1), ApplicationState.FAILED
        cluster.reports = [ApplicationReport(state=state, current_attempt=number, diagnostics="on a *lost* node")]
        cluster.manager.server.order(GONE, times=1000)
        with pytest.raises(
            AttemptLostError, match=r"application master is lost.*: on a \*lost\* node\. Submit the job again"
        ):
            await cluster.source.watch()
        assert cluster.of(KillRequested) == []
        await cluster.source.close()
        assert cluster.running() == []


@pytest.mark.parametrize(
    "state", [ApplicationState.ACCEPTED, ApplicationState.RUNNING, ApplicationState.FINISHED, ApplicationState.KILLED]
)
async def test_another_attempt_has_the_job(tmp_path: Path, state: ApplicationState) -> None:
    """Then nothing of it is touched, neither by a master that was cut off nor by one that slept."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.launched(1)
        cluster.reports = [ApplicationReport(state=state, current_attempt=ApplicationAttemptId(number=2))]
        cluster.manager.server.order(GONE, times=1000)
        with pytest.raises(AttemptSupersededError, match="AM attempt 2"):
            await cluster.source.watch()
        assert (cluster.of(KillRequested), cluster.running()) == ([], [container])


async def test_container_ends_are_reported_after_the_application_ended(tmp_path: Path) -> None:
    """After YARN's last response the state machine still gets an event for each container that its node has ended."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.launched()
        cluster.manager.server.order(GONE, times=1000)
        await cluster.until(lambda: cluster.of(KillRequested))
        cluster.source.kill(container, "the job was killed")
        await cluster.until(lambda: cluster.of(ContainerEnded))
        assert cluster.causes() == ["killed: the job was killed"]


async def test_a_silent_resource_manager_does_not_delay_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a job the nodes have stopped the containers: a follower need not wait for YARN's confirmation."""
    monkeypatch.setattr(container_table, "_CLOSE_SECONDS", 60.0)
    monkeypatch.setattr(container_table, "_RM_SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(container_table, "_POLL_SECONDS", 0.02)
    async with start_fake_cluster(tmp_path) as cluster:
        await cluster.launched(2)
        hold = HoldResponse()
        cluster.manager.server.order(hold, method="allocate")
        await hold.is_held.wait()
        async with asyncio.timeout(20):
            await cluster.source.close()
        assert cluster.running() == []
        hold.release()


async def test_the_resource_manager_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscribers get the reason; the containers are stopped all the same, and soon."""
    monkeypatch.setattr(container_table, "_CLOSE_SECONDS", 60.0)
    monkeypatch.setattr(container_table, "_RM_SILENCE_SECONDS", 60.0)
    async with start_fake_cluster(tmp_path) as cluster:
        await cluster.launched(2)
        await cluster.manager.server.stop()
        with pytest.raises(SchedulerError, match=r"(?s)lost the connection to the ResourceManager: .*refused"):
            await cluster.source.watch()
        async with asyncio.timeout(20):
            await cluster.source.close()
        assert cluster.running() == []


async def test_the_resource_manager_was_away_for_too_long(tmp_path: Path) -> None:
    """It may have started another attempt meanwhile: everything is left to that one."""
    async with start_fake_cluster(tmp_path) as cluster:
        (container,) = await cluster.launched(1)
        await cluster.manager.server.stop()
        cluster.source.overlap = 0.0
        with pytest.raises(AttemptSupersededError, match="may start another"):
            await cluster.source.watch()
        assert cluster.running() == [container]


async def test_nothing_is_ended_while_another_master_may_have_it(tmp_path: Path) -> None:
    """It is when the ResourceManager has answered again, all of it."""
    async with start_fake_cluster(tmp_path) as cluster:
        first, second, third = await cluster.launched(3)
        cluster.source.set_demand("worker", 0)
        cluster.source.release(third, 0.01)
        hold = HoldResponse()
        overlap, cluster.source.overlap = cluster.source.overlap, 0.0
        cluster.manager.server.order(hold, method="allocate")
        cluster.source.kill(first, "it fell silent")
        cluster.source.release(second, 0.01)
        await hold.is_held.wait()
        await asyncio.sleep(0.1)
        assert cluster.running() == sorted([first, second, third])
        cluster.source.overlap = overlap
        hold.release()
        await cluster.until(lambda: len(cluster.causes()) == 3)
        assert cluster.running() == []


async def test_a_bug_in_the_heartbeat_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It never ends silently: YARN would wait ten minutes before it missed the AM."""
    async with start_fake_cluster(tmp_path) as cluster:

        def stumble(*_: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(cluster.source._session, "_take", stumble)
        cluster.source.set_demand("worker", 1)
        with pytest.raises(RuntimeError, match="a bug"):
            await cluster.source.watch()


async def test_no_token(tmp_path: Path) -> None:
    """A master without its token can only say so."""
    async with start_fake_cluster(tmp_path, opens=False) as cluster:
        env = cluster._container_env()
        env = replace(env, credentials=env.credentials.to_reduced("YARN_AM_RM_TOKEN"))
        with pytest.raises(SchedulerError, match="no AMRMToken for the ResourceManager"):
            YarnAllocator(cluster.job, cluster._payload(), env)


@pytest.mark.parametrize(
    ("am", "host", "port"), [("tls:node-1:5000", "node-1", 5000), ("tls:[fe80::1]:5000", "fe80::1", 5000), ("", "", -1)]
)
async def test_the_am_registers_its_address(tmp_path: Path, am: str, host: str, port: int) -> None:
    async with start_fake_cluster(tmp_path, opens=False) as cluster:
        await cluster.source.open(cluster.events.append, AmAddresses(am=am))
        registration = cluster.manager.registration
        assert registration is not None
        assert (registration.host or "", registration.rpc_port) == (host, port)


# --- the end of the job ----------------------------------------------------------------------------------------------


async def test_finish(tmp_path: Path) -> None:
    """The record is in HDFS, without what clients needed for a living master and without what a write that HDFS
    interrupted has left, and YARN knows how it ended."""
    async with start_fake_cluster(tmp_path) as cluster:
        cluster.files.files[f"{scene.FOLDER}/.metrics.db.copy"] = FakeFile(content=b"half")
        await cluster.until(lambda: cluster.file("access.json"))
        assert cluster.files.files[f"{scene.FOLDER}/access.json"].permission == 0o600
        await cluster.until(lambda: cluster.file("am.json"))
        there = json.loads(cluster.file("am.json") or b"")
        assert there["address"] == scene.ADDRESSES.am
        assert cluster.files.files[scene.FOLDER].permission == 0o700
        (tmp_path / "stderr").write_text("what it said\n")
        await cluster.source.close()
        await cluster.source.finish(_report(cluster))
        final = cluster.manager.final
        assert final is not None
        assert (final.final_status, final.diagnostics) == (FinalStatus.SUCCEEDED, "succeeded")
        assert (cluster.file("access.json"), cluster.file("am.log")) == (None, b"what it said\n")
        assert cluster.file("am.json") is None
        assert cluster.file(".metrics.db.copy") is None
        summary = cluster.file("summary.json")
        assert summary is not None
        assert json.loads(summary)["state"] == "succeeded"


async def test_events_are_there_while_it_runs(tmp_path: Path) -> None:
    """After a moment if no action waits for them; and in the end all that the file has."""
    async with start_fake_cluster(tmp_path) as cluster:
        cluster.log()
        cluster.wrote(b'{"a":1}\n')
        await cluster.until(lambda: cluster.file("events.1.jsonl") == b'{"a":1}\n')
        with cluster.job.folder.events(1).open("ab") as file:
            file.write(b'{"b":2}\n')
        await cluster.source.close()
        await cluster.source.finish(_report(cluster))
        assert cluster.file("events.1.jsonl") == b'{"a":1}\n{"b":2}\n'


async def test_it_ends_before_the_record_was_begun(tmp_path: Path) -> None:
    """A job can be that short."""
    async with start_fake_cluster(tmp_path) as cluster:
        cluster.log(b'{"a":1}\n')
        await cluster.source.close()
        await cluster.source.finish(_report(cluster))
        assert cluster.file("events.1.jsonl") == b'{"a":1}\n'
        assert (cluster.file("access.json"), bool(cluster.file("summary.json"))) == (None, True)


async def test_hdfs_refuses_at_the_beginning(tmp_path: Path) -> None:
    """A NameNode that starts: it is tried again, and the record is whole."""
    async with start_fake_cluster(tmp_path, opens=False) as cluster:
        cluster.files.fail_next("MKDIRS", Trouble.FORBIDDEN, Trouble.FORBIDDEN)
        await cluster.open()
        await cluster.until(lambda: cluster.file("access.json"))


async def test_a_closed_allocator_publishes_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A kill of the AM in between would leave it there for good."""
    put: list[str] = []
    really = HdfsJobStore.put_json

    def note(files: HdfsJobStore, name: str, content: object) -> None:
        put.append(name)
        really(files, name, content)

    monkeypatch.setattr(HdfsJobStore, "put_json", note)
    monkeypatch.setattr(publishing, "STORE_BACKOFF", Backoff(first=60.0, most=60.0))
    async with start_fake_cluster(tmp_path, opens=False) as cluster:
        cluster.files.fail_next("MKDIRS", Trouble.FORBIDDEN)
        await cluster.open()
        await cluster.until(lambda: "cannot write the job's history" in caplog.text)
        await cluster.source.close()
        await cluster.source.finish(_report(cluster))
        assert (bool(cluster.file("job.json")), bool(cluster.file("summary.json"))) == (True, True)
        assert "access.json" not in put


@pytest.mark.parametrize("operation", ["CREATE", "DELETE", "APPEND"])
async def test_hdfs_refuses_at_the_end(tmp_path: Path, operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """YARN hears how it ended, whatever happens to the record; and one thing that fails hinders no other."""
    monkeypatch.setattr(publishing, "_FINISH_SECONDS", 1.0)
    monkeypatch.setattr(event_log_replication, "_HOPELESS_SECONDS", 0.1)
    async with start_fake_cluster(tmp_path) as cluster:
        cluster.log()
        await cluster.until(lambda: cluster.file("events.1.jsonl") is not None and cluster.file("job.json"))
        cluster.job.folder.events(1).write_bytes(b'{"a":1}\n')
        await cluster.source.close()
        cluster.files.fail_next(operation, *[Trouble.FORBIDDEN] * 100)
        await cluster.source.finish(_report(cluster))
        assert cluster.manager.final is not None
        assert bool(cluster.file("summary.json")) is (operation != "CREATE")
        cluster.files.troubles_over()


@pytest.mark.parametrize("operation", ["CREATE", "RENAME", "DELETE"])
async def test_hdfs_is_away_for_a_moment_at_the_end(tmp_path: Path, operation: str) -> None:
    """The record waits for it, and is whole."""
    async with start_fake_cluster(tmp_path) as cluster:
        await cluster.until(lambda: cluster.file("job.json"))
        await cluster.source.close()
        cluster.files.fail_next(operation, Trouble.SAFE_MODE)
        await cluster.source.finish(_report(cluster))
        assert (bool(cluster.file("summary.json")), cluster.file("access.json")) == (True, None)
        assert [name for name in cluster.files.files if name.endswith(".new")] == []


async def test_more_events_than_wait_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While HDFS takes none they stay in the container's file; all of them are there in the end, in order."""
    monkeypatch.setattr(event_log_replication, "_READ_BYTES", 100)
    monkeypatch.setattr(event_log_replication, "_MAX_BUFFERED_BYTES", 500)
    lines = b"".join(b'{"number":%d}\n' % number for number in range(1000))
    async with start_fake_cluster(tmp_path) as cluster:
        cluster.log()
        await cluster.until(lambda: cluster.file("events.1.jsonl") is not None)
        cluster.files.fail_next("APPEND", *[Trouble.QUOTA] * 3)
        cluster.wrote(lines, urgent=True)
        await cluster.until(lambda: (cluster.file("events.1.jsonl") or b"").startswith(b'{"number":0}'))
        await cluster.source.close()
        await cluster.source.finish(_report(cluster))
        assert cluster.file("events.1.jsonl") == lines


async def test_no_summary_was_written_here(tmp_path: Path) -> None:
    """The disk was full: YARN is told all the same."""
    async with start_fake_cluster(tmp_path) as cluster:
        await cluster.source.close()
        await cluster.source.finish(replace(_report(cluster, write=False), state=JobState.KILLED))
        assert cluster.manager.final is not None
        assert cluster.manager.final.final_status is FinalStatus.KILLED


@pytest.mark.parametrize("attempt", [1, 2])
async def test_it_never_began(tmp_path: Path, attempt: int) -> None:
    """A framework that cannot be loaded, a rule of the node's: YARN and the record are told all the same."""
    async with start_fake_cluster(tmp_path, attempt=attempt, opens=False) as cluster:
        await cluster.source.close()
        await cluster.source.finish(replace(_report(cluster), state=JobState.FAILED))
        assert cluster.manager.final is not None
        assert cluster.manager.final.final_status is FinalStatus.FAILED
        assert (bool(cluster.file("summary.json")), cluster.file("access.json")) == (True, None)


async def test_a_publisher_with_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stumble(*_: object) -> None:
        raise RuntimeError("a bug")

    async with start_fake_cluster(tmp_path) as cluster:
        await cluster.source.close()
        monkeypatch.setattr(publishing.RecordPublisher, "finish", stumble)
        with pytest.raises(RuntimeError, match="a bug"):
            await cluster.source.finish(_report(cluster))
        assert cluster.manager.final is not None


def _report(cluster: FakeCluster, *, write: bool = True) -> JobReport:
    """How the job ended; also where the master keeps it."""
    report = replace(
        build_pending_report(cluster.job.folder, cluster.job.record), state=JobState.SUCCEEDED, exit_code=0
    )
    if write:
        write_summary(cluster.job.folder, report)
    return report
