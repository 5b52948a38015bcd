"""Containers of a played YARN, and everything that goes wrong. The contract of all sources: tests/conformance/."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.facts import mentions
from tests.schedulers.yarn import fake_cluster as scene
from tests.schedulers.yarn.fake_cluster import HDFS_TOKEN, SECRET, Played, playing
from tests.support.hadoop.fake_resource_manager import YARN
from tests.support.hadoop.fake_webhdfs import Trouble
from tests.support.hadoop.faults import HoldResponse, Refuse
from tony.core.events import ClusterKill, ContainerEnded, Excluded, Granted, KillRequested, Queued, Unsatisfiable
from tony.errors import AttemptLostError, AttemptSupersededError, SchedulerError
from tony.hadoop.ids import parse_container_id
from tony.hadoop.wire.application_master import (
    NegotiablePreemption,
    PreemptedContainer,
    Preemption,
    RegisterRequest,
)
from tony.hadoop.wire.reports import ApplicationReport, ApplicationState
from tony.hadoop.wire.yarn_records import (
    ApplicationAttemptId,
    FinalStatus,
    NodeId,
    NodeReport,
    NodeState,
)
from tony.history.job_record import build_pending_report, write_summary
from tony.model.job_report import JobReport
from tony.model.job_spec import MIB, JobSpec, Resources, Role
from tony.model.states import JobState
from tony.retry import Backoff
from tony.schedulers.job_store import event_log_replication
from tony.schedulers.job_store import record_publisher as publishing
from tony.schedulers.job_store.hdfs_job_store import HdfsJobStore
from tony.schedulers.yarn.allocation import container_table, exit_reasons, outstanding_requests
from tony.testing.sample_jobs import build_two_roles

GONE = Refuse(class_name=f"{YARN}ApplicationAttemptNotFoundException", message="application was killed by user bob")
NO = Refuse(class_name=f"{YARN}YarnException", message="no disk is left")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits seconds for what these tests provoke."""
    monkeypatch.setattr(outstanding_requests, "_PENDING_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(container_table, "_CLOSE_SECONDS", 2.0)


def with_worker(**fields: Any) -> JobSpec:
    """The usual job, and something of its workers."""
    spec = build_two_roles()
    worker = replace(spec.roles["worker"], **fields)
    return replace(spec, roles={**spec.roles, "worker": worker})


# --- asking --------------------------------------------------------------------------------------------------------


async def test_too_large_is_refused(tmp_path: Path) -> None:
    """What the ResourceManager does not take is told with its own words; other roles go on."""
    async with playing(tmp_path) as played:
        played.manager.maximum = 8
        played.source.set_demand("worker", 1)
        await played.until(lambda: played.of(Unsatisfiable))
        (event,) = played.of(Unsatisfiable)
        assert isinstance(event, Unsatisfiable)
        assert (event.role, "maximum" in event.reason) == ("worker", True)


async def test_an_unknown_resource_is_refused(tmp_path: Path) -> None:
    """YARN would grant a container without it, and say nothing."""
    role = Role(resources=Resources(memory=16 * MIB, gpus=1))
    async with playing(tmp_path, spec=build_two_roles(roles={"worker": role, "ps": Role()})) as played:
        played.source.set_demand("worker", 1)
        await played.until(lambda: played.of(Unsatisfiable))
        (event,) = played.of(Unsatisfiable)
        assert isinstance(event, Unsatisfiable)
        assert mentions(event.reason, "yarn.io/gpu")
        assert played.manager.asks == {}


async def test_what_is_missing_is_told(tmp_path: Path) -> None:
    """By role, with the queue; and that nothing is any more."""
    async with playing(tmp_path) as played:
        played.manager.grants_by_hand = True
        played.source.set_demand("worker", 3)
        await played.until(lambda: played.of(Queued))
        (event,) = played.of(Queued)
        assert isinstance(event, Queued)
        assert mentions(event.reason, "3 of 3", "YARN", "worker pending", "default")
        played.manager.grants_by_hand = False
        await played.until(lambda: len(played.of(Granted)) == 3 and len(played.of(Queued)) == 2)
        assert played.events[-1] == Queued(reason="")


async def test_what_finds_no_place_is_waited_for(tmp_path: Path) -> None:
    """A role with `spread` on a cluster that rejects what does not fit now: told why, granted when there is room."""
    async with playing(tmp_path, spec=with_worker(spread=True)) as played:
        played.manager.places = 1
        played.source.set_demand("worker", 3)
        waiting = Queued(
            reason="waiting for YARN: 2 of 3 containers of worker pending in queue default; no suitable node for "
            "worker now (could not place on node), retrying"
        )
        await played.until(lambda: waiting in played.events)
        played.manager.places = 2
        await played.until(lambda: len(played.of(Granted)) == 3 and played.events[-1] == Queued(reason=""))
        assert (played.events[-1], played.of(Unsatisfiable)) == (Queued(reason=""), [])


@pytest.mark.parametrize("settings", [{}, {"placement": "os=linux"}])
async def test_no_constraints_here(tmp_path: Path, settings: dict[str, str | int | float | bool]) -> None:
    """A ResourceManager without a handler for them refuses the ask: told with the setting that wants them.

    Nothing of them is in the registration: it would be refused for good.
    """
    said = "Found non empty SchedulingRequest, but the configured handler cannot handle placement constraints"
    no = Refuse(class_name=f"{YARN}YarnException", message=said)
    spec = replace(with_worker(spread=not settings), scheduler_settings=settings)
    async with playing(tmp_path, spec=spec) as played:
        (registration,) = played.manager.server.named("registerApplicationMaster")
        assert isinstance(registration.request, RegisterRequest)
        assert registration.request.placement_constraints == ()
        await played.manager.server.wait_called("allocate")
        played.manager.server.order(no, method="allocate", times=100)
        played.source.set_demand("worker", 1)
        await played.until(lambda: played.of(Unsatisfiable))
        (event,) = played.of(Unsatisfiable)
        assert isinstance(event, Unsatisfiable)
        key = "scheduler.yarn.placement" if settings else "roles.worker.spread"
        assert event.reason.startswith(f"this cluster has placement constraints disabled, but {key} needs them.")
        played.manager.server.forgive()


# --- starting ------------------------------------------------------------------------------------------------------


async def test_gpus_under_yarns_own_name_are_gpus(tmp_path: Path) -> None:
    """A task that has none would be kept from seeing any."""
    async with playing(tmp_path) as played:
        (container,) = await played.granted("worker", 1)
        role = Role(resources=Resources(memory=16 * MIB, others={"yarn.io/gpu": 2}))
        object.__setattr__(played.source, "_spec", replace(played.spec, roles={"worker": role, "ps": Role()}))
        await played.launch(container)
        assert 2 == played.papers_of(container).task.gpus


async def test_a_task_gets_the_users_tokens_and_not_the_masters(tmp_path: Path) -> None:
    """Its program may use HDFS; nobody in it can be the application master."""
    async with playing(tmp_path) as played:
        (container,) = await played.launched()
        tokens = played.tokens_of(container)
        assert [token.kind for token in tokens.tokens.values()] == [HDFS_TOKEN.kind]
        assert tokens.secrets["own"] == b"key"
        assert played.papers_of(container).credentials == SECRET


async def test_a_launch_that_fails_is_given_back(tmp_path: Path) -> None:
    """Its words say where and why, no end is told besides, and another container comes for it."""
    async with playing(tmp_path) as played:
        (container,) = await played.granted()
        played.node(container).refusals[container] = "no disk is left"
        with pytest.raises(SchedulerError, match=rf"cannot launch worker:0 in {container}: .*no disk is left"):
            await played.launch(container)
        await played.until(lambda: len(played.of(Granted)) == 2)
        assert parse_container_id(container) in played.manager.released
        assert played.causes() == []


async def test_a_launch_that_fails_after_it_was_released(tmp_path: Path) -> None:
    """It is refused once, and nothing comes of it later."""
    async with playing(tmp_path) as played:
        (container,) = await played.granted()
        played.source.set_demand("worker", 0)
        hold = HoldResponse()
        played.node(container).refusals[container] = "no"
        played.node(container).server.order(hold, method="startContainers")
        launch = asyncio.ensure_future(played.launch(container))
        await hold.is_held.wait()
        played.source.release(container, 0.01)
        await asyncio.sleep(0.05)
        hold.release()
        with pytest.raises(SchedulerError):
            await launch
        await played.until(lambda: not played.manager.live)
        assert played.causes() == []


async def test_it_ended_while_it_was_launched(tmp_path: Path) -> None:
    """Its node was lost at that moment: one end is told, and the launch says nothing more."""
    async with playing(tmp_path) as played:
        (container,) = await played.granted()
        played.source.set_demand("worker", 0)
        hold = HoldResponse()
        played.node(container).refusals[container] = "I am going"
        played.node(container).server.order(hold, method="startContainers")
        launch = asyncio.ensure_future(played.launch(container))
        await hold.is_held.wait()
        played.manager.complete(parse_container_id(container), -100, "Container released on a *lost* node")
        await played.until(lambda: played.of(ContainerEnded))
        hold.release()
        await launch
        assert len(played.causes()) == 1
        assert "lost" in played.causes()[0]


async def test_killed_while_it_starts(tmp_path: Path) -> None:
    """It is ended as soon as its node has started it."""
    async with playing(tmp_path) as played:
        (container,) = await played.granted()
        played.source.set_demand("worker", 0)
        hold = HoldResponse()
        played.node(container).server.order(hold, method="startContainers")
        launch = asyncio.ensure_future(played.launch(container))
        await hold.is_held.wait()
        played.source.kill(container, "nobody wants it")
        hold.release()
        await launch
        await played.until(lambda: played.of(ContainerEnded))
        assert played.causes() == ["killed: nobody wants it"]
        assert played.running() == []


async def test_closed_while_it_starts(tmp_path: Path) -> None:
    """Whoever launched it was cancelled, and its node started it all the same: it is ended, and that at once."""
    async with playing(tmp_path) as played:
        (container,) = await played.granted()
        hold = HoldResponse()
        played.node(container).server.order(hold, method="startContainers")
        launch = asyncio.ensure_future(played.launch(container))
        await hold.is_held.wait()
        launch.cancel()
        await asyncio.wait([launch])
        async with asyncio.timeout(1.5):  # and not only when patience is over
            await played.source.close()
        assert (played.running(), dict(played.manager.live)) == ([], {})


# --- ending --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "said", "cause", "blameless"),
    [
        (-100, "Container released on a *lost* node", "its node was lost", True),
        (-102, "Container preempted by scheduler", "preempted it", True),
        (137, "", "SIGKILL", False),
        (7, "", "exited with exit code 7", False),
        (-104, "Current usage: 173.1 MB of 128 MB physical memory used", "173.1 MB used, 128 MB allowed", False),
        (
            -103,
            "Current usage: 9 MB of 9 MB physical memory used; 2 GB of 1 GB virtual memory used",
            "2 GB used",
            False,
        ),
    ],
)
async def test_why_it_ended(tmp_path: Path, status: int, said: str, cause: str, blameless: bool) -> None:
    """What YARN does is told apart from what programs do."""
    async with playing(tmp_path) as played:
        (container,) = await played.launched()
        played.source.set_demand("worker", 0)
        played.manager.complete(parse_container_id(container), status, said)
        await played.until(lambda: played.of(ContainerEnded))
        (event,) = played.of(ContainerEnded)
        assert isinstance(event, ContainerEnded)
        assert (cause in event.cause, event.blameless, event.kill is not None) == (True, blameless, status < 0)
        assert (event.kill is ClusterKill.MEMORY_LIMIT) is (status in (-104, -103))


NO_PYTHON = "there is no python3 on host n1: PATH is /bin. Install Python 3.11 or later on the nodes"
SAID = f"[2026-11-21 15:46:19.325]Exit code: 127\nLast 4096 bytes of stderr :\ntony: {NO_PYTHON}\n"


@pytest.mark.parametrize("python", [None, "own", "environment"])
async def test_no_python_anywhere(tmp_path: Path, python: str | None) -> None:
    """One container has shown it: the job need not try more where no others could be had, or all are alike."""
    settings = {"python": python} if python else {}
    room = {"worker": 5} if python else {"worker": 1}
    async with playing(tmp_path, spec=build_two_roles(scheduler_settings=settings), room=room) as played:
        (container,) = await played.launched()
        played.manager.complete(parse_container_id(container), 127, SAID)
        await played.until(lambda: played.of(ContainerEnded))
        (event,) = played.of(Unsatisfiable)
        assert event == Unsatisfiable(role="worker", reason=f"cannot start any task of worker: {NO_PYTHON}")
        assert played.events.index(event) < played.events.index(played.of(ContainerEnded)[0])


async def test_no_python_on_one_node(tmp_path: Path) -> None:
    """Nothing more is wanted there, which is said while others are waited for."""
    said = "2 of 2 containers of worker pending in queue default; excluded hosts without a suitable Python: 127.0.0.1"
    async with playing(tmp_path, room={"worker": 2}) as played:
        containers = await played.launched(2)
        for container in containers:
            played.manager.complete(parse_container_id(container), 127, SAID)
        # On a slow machine the first of the two may be waited for before the second has ended.
        await played.until(lambda: any(isinstance(e, Queued) and e.reason.endswith(said) for e in played.of(Queued)))
        await played.until(lambda: played.manager.excluded == {"127.0.0.1"})
        assert (len(played.of(Granted)), played.of(Unsatisfiable)) == (2, [])


async def test_what_will_end_it_is_told_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once, with task and container: its node goes, or YARN wants it back. The end says it again."""
    async with playing(tmp_path) as played:
        container, other = await played.launched(2)
        (node, elsewhere) = (played.manager.live[parse_container_id(each)].node for each in (container, other))
        played.source.set_demand("worker", 0)
        for _ in range(2):
            played.manager.update(NodeReport(id=node, state=NodeState.DECOMMISSIONING, decommissioning_timeout=60))
            played.manager.update(NodeReport(id=NodeId(host="another", port=1), state=NodeState.LOST))
            wanted_back = (PreemptedContainer(id=parse_container_id(container)),)
            played.manager.preempt(Preemption(negotiable=NegotiablePreemption(containers=wanted_back)))
            beats = len(played.manager.server.named("allocate"))
            await played.manager.server.wait_called("allocate", beats + 2)
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
        played.manager.complete(parse_container_id(container), -100, "Container released on a *lost* node")
        await played.until(lambda: played.of(ContainerEnded))
        assert mentions(played.causes()[0], "127.0.0.1", "decommissioned")
        played.manager.update(NodeReport(id=elsewhere, state=NodeState.UNHEALTHY))
        played.manager.update(NodeReport(id=elsewhere, state=NodeState.RUNNING))
        await played.until(lambda: f"worker:1 in {other}: its node 127.0.0.1 is healthy again" in caplog.messages)
        played.manager.update(NodeReport(id=elsewhere, state=NodeState.UNHEALTHY, health_report="no fan"))
        played.manager.complete(parse_container_id(other), -100, "Container released on a *lost* node")
        await played.until(lambda: len(played.causes()) == 2)
        assert mentions(played.causes()[1], "127.0.0.1", "unhealthy")


async def test_nodes_that_come_make_room_to_leave_one_out(tmp_path: Path) -> None:
    """The third of them is another one then."""
    async with playing(tmp_path) as played:
        await played.until(lambda: played.source._master and played.source._master.answers)
        played.source.exclude("bad")
        played.manager.nodes *= 3
        played.manager.update(NodeReport(id=NodeId(host="new", port=1), state=NodeState.RUNNING))
        await played.until(lambda: played.manager.excluded == {"bad"})
        await played.until(lambda: played.of(Excluded) == [Excluded(hosts=("bad",))])


async def test_where_there_is_no_room_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is left out is taken back when a job waits for long and gets nothing."""
    monkeypatch.setattr("tony.schedulers.yarn.allocation.allocator._MAX_EXCLUSION_WAIT_SECONDS", 0.2)
    async with playing(tmp_path) as played:
        played.manager.nodes *= 3  # all on one host
        played.manager.update(NodeReport(id=NodeId(host="new", port=1), state=NodeState.RUNNING))
        await played.until(lambda: played.source._master and (played.source._master.cluster_nodes or 0) >= 3)
        played.source.exclude("127.0.0.1")
        await played.until(lambda: played.manager.excluded == {"127.0.0.1"})
        played.source.set_demand("worker", 1)
        await played.until(lambda: played.of(Granted))
        assert played.of(Excluded) == [Excluded(hosts=("127.0.0.1",)), Excluded(hosts=())]


async def test_its_node_knows_first(tmp_path: Path) -> None:
    """One that should end is asked for at its node, too; what the ResourceManager tells later is no second end."""
    async with playing(tmp_path) as played:
        (container,) = await played.launched()
        played.source.set_demand("worker", 0)
        played.source.release(container, 60.0)
        node = played.node(container)
        await node.server.wait_called("getContainerStatuses")
        assert played.causes() == []
        del node.running[container]
        node.ended[container] = 0
        await played.until(lambda: played.of(ContainerEnded))
        played.manager.complete(parse_container_id(container), 0)
        beats = len(played.manager.server.named("allocate"))
        await played.manager.server.wait_called("allocate", beats + 2)
        assert len(played.causes()) == 1


async def test_a_node_that_says_nothing(tmp_path: Path) -> None:
    """Is asked no more: the ResourceManager will tell."""
    async with playing(tmp_path) as played:
        (container,) = await played.launched()
        played.source.set_demand("worker", 0)
        node = played.node(container)
        node.server.order(NO, method="getContainerStatuses", times=100)
        played.source.release(container, 60.0)
        await node.server.wait_called("getContainerStatuses")
        played.manager.complete(parse_container_id(container), 0)
        await played.until(lambda: played.of(ContainerEnded))
        assert len(node.server.named("getContainerStatuses")) == 1


async def test_a_node_that_does_not_end_it(tmp_path: Path) -> None:
    """Then the ResourceManager is asked to."""
    async with playing(tmp_path) as played:
        (container,) = await played.launched()
        played.source.set_demand("worker", 0)
        played.node(container).server.order(NO, method="stopContainers", times=100)
        played.source.kill(container, "it fell silent")
        await played.until(lambda: played.of(ContainerEnded))
        assert played.causes() == ["killed: it fell silent"]
        assert played.manager.released == [parse_container_id(container)]


async def test_close_ends_what_was_granted_and_what_runs(tmp_path: Path) -> None:
    async with playing(tmp_path) as played:
        await played.launched(2)
        await played.granted("ps", 3)
        played.manager.grants_by_hand = True
        played.source.set_demand("worker", 5)
        await played.until(lambda: played.manager.outstanding(0) == 3)
        await played.source.close()
        assert (played.running(), dict(played.manager.live)) == ([], {})
        assert played.manager.outstanding(0) == 0


# --- a ResourceManager that is lost, or wants us no more -------------------------------------------------------------


async def test_the_application_was_ended(tmp_path: Path) -> None:
    """The job is killed with YARN's own words; the containers are ended by their nodes, whom nobody else asks."""
    async with playing(tmp_path) as played:
        await played.launched(2)
        played.manager.server.order(GONE, times=1000)
        await played.until(lambda: played.of(KillRequested))
        (event,) = played.of(KillRequested)
        assert isinstance(event, KillRequested)
        assert event.now
        assert "application was killed by user bob" in event.actor.name
        await played.source.watch()
        await played.source.close()
        assert played.running() == []
        await played.source.finish(_report(played))


async def test_the_application_is_about_to_be_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """YARN tells that it runs until it has ended it: killed. If it does not tell, another master may have the job."""
    monkeypatch.setattr(exit_reasons, "_POLL_SECONDS", 0.01)
    async with playing(tmp_path) as played:
        played.reports = [*[ApplicationReport(state=ApplicationState.RUNNING)] * 3, *played.reports]
        played.manager.server.order(GONE, times=1000)
        await played.until(lambda: played.of(KillRequested))
    monkeypatch.setattr(exit_reasons, "_REASON_SECONDS", 0.1)
    async with playing(tmp_path / "other") as played:
        (container,) = await played.launched(1)
        await played.clients_door.stop()
        played.manager.server.order(GONE, times=1000)
        with pytest.raises(AttemptSupersededError, match="reason unknown: no response in time"):
            await played.source.watch()
        assert (played.of(KillRequested), played.running()) == ([], [container])


async def test_yarn_gives_the_master_up(tmp_path: Path) -> None:
    """Nobody had it killed, and no other attempt is to begin: its own failure, with YARN's words."""
    async with playing(tmp_path) as played:
        await played.launched(1)
        number, state = ApplicationAttemptId(number=1), ApplicationState.FAILED
        played.reports = [ApplicationReport(state=state, current_attempt=number, diagnostics="on a *lost* node")]
        played.manager.server.order(GONE, times=1000)
        with pytest.raises(
            AttemptLostError, match=r"application master is lost.*: on a \*lost\* node\. Submit the job again"
        ):
            await played.source.watch()
        assert played.of(KillRequested) == []
        await played.source.close()
        assert played.running() == []


@pytest.mark.parametrize(
    "state", [ApplicationState.ACCEPTED, ApplicationState.RUNNING, ApplicationState.FINISHED, ApplicationState.KILLED]
)
async def test_another_attempt_has_the_job(tmp_path: Path, state: ApplicationState) -> None:
    """Then nothing of it is touched, neither by a master that was cut off nor by one that slept."""
    async with playing(tmp_path) as played:
        (container,) = await played.launched(1)
        played.reports = [ApplicationReport(state=state, current_attempt=ApplicationAttemptId(number=2))]
        played.manager.server.order(GONE, times=1000)
        with pytest.raises(AttemptSupersededError, match="AM attempt 2"):
            await played.source.watch()
        assert (played.of(KillRequested), played.running()) == ([], [container])


async def test_ends_are_told_when_nobody_else_tells_them(tmp_path: Path) -> None:
    """After YARN's last word the machine still hears of each container that its node has ended."""
    async with playing(tmp_path) as played:
        (container,) = await played.launched()
        played.manager.server.order(GONE, times=1000)
        await played.until(lambda: played.of(KillRequested))
        played.source.kill(container, "the job was killed")
        await played.until(lambda: played.of(ContainerEnded))
        assert played.causes() == ["killed: the job was killed"]


async def test_a_silent_resource_manager_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a job the nodes have ended the containers: whoever follows need not wait until YARN says so."""
    monkeypatch.setattr(container_table, "_CLOSE_SECONDS", 60.0)
    monkeypatch.setattr(container_table, "_RM_SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(container_table, "_POLL_SECONDS", 0.02)
    async with playing(tmp_path) as played:
        await played.launched(2)
        hold = HoldResponse()
        played.manager.server.order(hold, method="allocate")
        await hold.is_held.wait()
        async with asyncio.timeout(20):
            await played.source.close()
        assert played.running() == []
        hold.release()


async def test_the_resource_manager_is_lost(tmp_path: Path) -> None:
    """Whoever watches hears why; the containers are ended all the same, and soon."""
    async with playing(tmp_path) as played:
        await played.launched(2)
        await played.manager.server.stop()
        with pytest.raises(SchedulerError, match=r"(?s)lost the connection to the ResourceManager: .*refused"):
            await played.source.watch()
        async with asyncio.timeout(1.5):
            await played.source.close()
        assert played.running() == []


async def test_the_resource_manager_was_away_for_too_long(tmp_path: Path) -> None:
    """It may have started another attempt meanwhile: everything is left to that one."""
    async with playing(tmp_path) as played:
        (container,) = await played.launched(1)
        await played.manager.server.stop()
        played.source.overlap = 0.0
        with pytest.raises(AttemptSupersededError, match="may start another"):
            await played.source.watch()
        assert played.running() == [container]


async def test_nothing_is_ended_while_another_master_may_have_it(tmp_path: Path) -> None:
    """It is when the ResourceManager has answered again, all of it."""
    async with playing(tmp_path) as played:
        first, second, third = await played.launched(3)
        played.source.set_demand("worker", 0)
        played.source.release(third, 0.01)
        hold = HoldResponse()
        overlap, played.source.overlap = played.source.overlap, 0.0
        played.manager.server.order(hold, method="allocate")
        played.source.kill(first, "it fell silent")
        played.source.release(second, 0.01)
        await hold.is_held.wait()
        await asyncio.sleep(0.1)
        assert played.running() == sorted([first, second, third])
        played.source.overlap = overlap
        hold.release()
        await played.until(lambda: len(played.causes()) == 3)
        assert played.running() == []


async def test_a_bug_in_the_heartbeat_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It never ends in silence: YARN would wait ten minutes before it missed us."""
    async with playing(tmp_path) as played:

        def stumble(*_: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(played.source, "_take", stumble)
        played.source.set_demand("worker", 1)
        with pytest.raises(RuntimeError, match="a bug"):
            await played.source.watch()


async def test_no_token(tmp_path: Path) -> None:
    """A master without its token can only say so."""
    async with playing(tmp_path, opens=False) as played:
        played.source._container_env = replace(
            played.source._container_env,
            credentials=played.source._container_env.credentials.to_reduced("YARN_AM_RM_TOKEN"),
        )
        with pytest.raises(SchedulerError, match="no AMRMToken for the ResourceManager"):
            await played.open()
        await played.source.close()
        await played.source.finish(_report(played))


# --- the end of the job ----------------------------------------------------------------------------------------------


async def test_finish(tmp_path: Path) -> None:
    """The record is in HDFS, without what clients needed for a living master, and YARN knows how it ended."""
    async with playing(tmp_path) as played:
        await played.until(lambda: played.file("access.json"))
        assert played.files.files[f"{scene.FOLDER}/access.json"].permission == 0o600
        await played.until(lambda: played.file("am.json"))
        there = json.loads(played.file("am.json") or b"")
        assert there["address"] == scene.ADDRESSES.am
        assert played.files.files[scene.FOLDER].permission == 0o700
        (tmp_path / "stderr").write_text("what it said\n")
        await played.source.close()
        await played.source.finish(_report(played))
        final = played.manager.final
        assert final is not None
        assert (final.final_status, final.diagnostics) == (FinalStatus.SUCCEEDED, "succeeded")
        assert (played.file("access.json"), played.file("am.log")) == (None, b"what it said\n")
        assert played.file("am.json") is None
        summary = played.file("summary.json")
        assert summary is not None
        assert json.loads(summary)["state"] == "succeeded"


async def test_events_are_there_while_it_runs(tmp_path: Path) -> None:
    """After a moment if nobody waits; and in the end all that the file has."""
    async with playing(tmp_path) as played:
        played.log()
        played.wrote(b'{"a":1}\n')
        await played.until(lambda: played.file("events.1.jsonl") == b'{"a":1}\n')
        with played.job.folder.events(1).open("ab") as file:
            file.write(b'{"b":2}\n')
        await played.source.close()
        await played.source.finish(_report(played))
        assert played.file("events.1.jsonl") == b'{"a":1}\n{"b":2}\n'


async def test_it_ends_before_the_record_was_begun(tmp_path: Path) -> None:
    """A job can be that short."""
    async with playing(tmp_path) as played:
        played.log(b'{"a":1}\n')
        await played.source.close()
        await played.source.finish(_report(played))
        assert played.file("events.1.jsonl") == b'{"a":1}\n'
        assert (played.file("access.json"), bool(played.file("summary.json"))) == (None, True)


async def test_hdfs_refuses_at_the_beginning(tmp_path: Path) -> None:
    """A NameNode that starts: it is tried again, and the record is whole."""
    async with playing(tmp_path, opens=False) as played:
        played.files.fail_next("MKDIRS", Trouble.FORBIDDEN, Trouble.FORBIDDEN)
        await played.open()
        await played.until(lambda: played.file("access.json"))


async def test_what_ends_before_it_has_begun_tells_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who kills the master in between would leave it there for good."""
    put: list[str] = []
    really = HdfsJobStore.put_json

    def note(files: HdfsJobStore, name: str, content: object) -> None:
        put.append(name)
        really(files, name, content)

    monkeypatch.setattr(HdfsJobStore, "put_json", note)
    monkeypatch.setattr(publishing, "STORE_BACKOFF", Backoff(first=60.0, most=60.0))
    async with playing(tmp_path, opens=False) as played:
        played.files.fail_next("MKDIRS", Trouble.FORBIDDEN)
        await played.open()
        await played.until(lambda: "cannot write the job's history" in caplog.text)
        await played.source.close()
        await played.source.finish(_report(played))
        assert (bool(played.file("job.json")), bool(played.file("summary.json"))) == (True, True)
        assert "access.json" not in put


@pytest.mark.parametrize("operation", ["CREATE", "DELETE", "APPEND"])
async def test_hdfs_refuses_at_the_end(tmp_path: Path, operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """YARN hears how it ended, whatever happens to the record; and one thing that fails hinders no other."""
    monkeypatch.setattr(publishing, "_FINISH_SECONDS", 1.0)
    monkeypatch.setattr(event_log_replication, "_HOPELESS_SECONDS", 0.1)
    async with playing(tmp_path) as played:
        played.log()
        await played.until(lambda: played.file("events.1.jsonl") is not None and played.file("job.json"))
        played.job.folder.events(1).write_bytes(b'{"a":1}\n')
        await played.source.close()
        played.files.fail_next(operation, *[Trouble.FORBIDDEN] * 100)
        await played.source.finish(_report(played))
        assert played.manager.final is not None
        assert bool(played.file("summary.json")) is (operation != "CREATE")
        played.files.troubles_over()


@pytest.mark.parametrize("operation", ["CREATE", "RENAME", "DELETE"])
async def test_hdfs_is_away_for_a_moment_at_the_end(tmp_path: Path, operation: str) -> None:
    """The record waits for it, and is whole."""
    async with playing(tmp_path) as played:
        await played.until(lambda: played.file("job.json"))
        await played.source.close()
        played.files.fail_next(operation, Trouble.SAFE_MODE)
        await played.source.finish(_report(played))
        assert (bool(played.file("summary.json")), played.file("access.json")) == (True, None)
        assert [name for name in played.files.files if name.endswith(".new")] == []


async def test_more_events_than_wait_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While HDFS takes none they stay in the container's file; all of them are there in the end, in order."""
    monkeypatch.setattr(event_log_replication, "_READ_BYTES", 100)
    monkeypatch.setattr(event_log_replication, "_MAX_BUFFERED_BYTES", 500)
    lines = b"".join(b'{"number":%d}\n' % number for number in range(1000))
    async with playing(tmp_path) as played:
        played.log()
        await played.until(lambda: played.file("events.1.jsonl") is not None)
        played.files.fail_next("APPEND", *[Trouble.QUOTA] * 3)
        played.wrote(lines, urgent=True)
        await played.until(lambda: (played.file("events.1.jsonl") or b"").startswith(b'{"number":0}'))
        await played.source.close()
        await played.source.finish(_report(played))
        assert played.file("events.1.jsonl") == lines


async def test_no_summary_was_written_here(tmp_path: Path) -> None:
    """The disk was full: YARN is told all the same."""
    async with playing(tmp_path) as played:
        await played.source.close()
        await played.source.finish(replace(_report(played, write=False), state=JobState.KILLED))
        assert played.manager.final is not None
        assert played.manager.final.final_status is FinalStatus.KILLED


@pytest.mark.parametrize("attempt", [1, 2])
async def test_it_never_began(tmp_path: Path, attempt: int) -> None:
    """A framework that cannot be loaded, a rule of the node's: YARN and the record are told all the same."""
    async with playing(tmp_path, attempt=attempt, opens=False) as played:
        await played.source.close()
        await played.source.finish(replace(_report(played), state=JobState.FAILED))
        assert played.manager.final is not None
        assert played.manager.final.final_status is FinalStatus.FAILED
        assert (bool(played.file("summary.json")), played.file("access.json")) == (True, None)


async def test_a_publisher_with_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stumble(*_: object) -> None:
        raise RuntimeError("a bug")

    async with playing(tmp_path) as played:
        await played.source.close()
        monkeypatch.setattr(publishing.RecordPublisher, "finish", stumble)
        with pytest.raises(RuntimeError, match="a bug"):
            await played.source.finish(_report(played))
        assert played.manager.final is not None


def _report(played: Played, *, write: bool = True) -> JobReport:
    """How the job ended; also where the master keeps it."""
    report = replace(build_pending_report(played.job.folder, played.job.record), state=JobState.SUCCEEDED, exit_code=0)
    if write:
        write_summary(played.job.folder, report)
    return report
