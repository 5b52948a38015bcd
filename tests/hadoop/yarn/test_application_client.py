"""Tests of `tony.hadoop.yarn.application_client` with fake ResourceManagers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.hadoop.fake_applications import FakeApplications
from tests.support.hadoop.faults import DropResponse, HoldResponse, standby
from tests.support.hadoop.ipc_server import FakeIpcServer, Incoming
from tony.hadoop import ids
from tony.hadoop.configuration.service_addresses import ServiceAddress
from tony.hadoop.errors import (
    ApplicationNotFoundError,
    InvalidResourceRequestError,
)
from tony.hadoop.failover import FailoverProxy, Policy
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.wire import application_client as wire
from tony.hadoop.wire.application_client import (
    ApplicationState,
    ApplicationSubmissionContext,
    QueueState,
)
from tony.hadoop.wire.yarn_records import NodeState, Resource, ResourceTypeInfo
from tony.hadoop.yarn.application_client import (
    ENDED,
    ApplicationClient,
    ApplicationRejectedError,
    NewApplication,
    OperationTimeoutError,
)

Scene = tuple[ApplicationClient, FakeApplications, list[FakeIpcServer]]


@asynccontextmanager
async def fake_managers(servers: int = 1, **given: Any) -> AsyncIterator[Scene]:
    """A client, the cluster, and the servers that serve it."""
    cluster = FakeApplications(**given)
    made = [FakeIpcServer() for _ in range(servers)]
    for server in made:
        cluster.serve(server)
        await server.start()
    proxy = FailoverProxy(
        name="ResourceManager",
        daemons=[ServiceAddress(id=f"rm{number}", address=server.address) for number, server in enumerate(made)],
        login=LoginIdentity(user="alice"),
        protocol=wire.PROTOCOL,
        policy=Policy(give_up_after=20, shortest=0.01, longest=0.02),
    )
    try:
        async with ApplicationClient(proxy) as client:
            yield client, cluster, made
    finally:
        for server in made:
            await server.stop()


def context(new: NewApplication, **given: Any) -> ApplicationSubmissionContext:
    given = {"name": "job", "queue": "default", "resource": Resource(memory=128, vcores=1), **given}
    return ApplicationSubmissionContext(application_id=new.id, **given)


async def test_an_application_is_submitted_and_awaited() -> None:
    """Until the scheduler has taken it; the report is that of the moment."""
    async with fake_managers(undecided=3) as (client, cluster, (server,)):
        new = await client.request_new_application()
        assert Resource(memory=8192, vcores=8) == new.maximum
        report = await client.submit(context(new, tags=("t",), application_type="TEST"))
        assert (ApplicationState.ACCEPTED, "alice", "job") == (report.state, report.user, report.name)
        assert (1, 4) == (cluster.applications[new.id].submissions, len(server.named("getApplicationReport")))


async def test_a_resource_manager_that_forgot_gets_the_application_again() -> None:
    """It failed over before it had stored the application: the same context, the same id."""
    async with fake_managers(servers=2) as (client, cluster, (one, two)):
        new = await client.request_new_application()
        lost: list[Incoming] = []

        def submitted(request: wire.SubmitApplicationRequest, call: Incoming) -> wire.SubmitApplicationResponse:
            answer = cluster._submit(request, call)
            cluster.forget(new.id)
            lost.append(call)
            one.order(standby(), times=1000)
            return answer

        one.on(wire.SUBMIT_APPLICATION, submitted)
        report = await client.submit(context(new))
        assert ApplicationState.ACCEPTED is report.state
        assert (1, 1) == (len(lost), len(two.named("submitApplication")))
        assert lost[0].request == two.named("submitApplication")[0].request


async def test_an_answer_that_got_lost_does_no_harm() -> None:
    """The ResourceManager allows a second submission of the same application."""
    async with fake_managers() as (client, cluster, (server,)):
        new = await client.request_new_application()
        server.order(DropResponse(executed=True), method="submitApplication")
        assert ApplicationState.ACCEPTED is (await client.submit(context(new))).state
        assert 2 == cluster.applications[new.id].submissions


@pytest.mark.parametrize(("queue", "said"), [("nope", "unknown queue: nope"), ("shut", "is STOPPED")])
async def test_a_rejected_application_is_reported_with_the_reason(queue: str, said: str) -> None:
    """The ResourceManager takes the submission, and fails the application afterwards."""
    async with fake_managers(queues=("default", "shut")) as (client, cluster, _):
        cluster.queues["shut"] = QueueState.STOPPED
        new = await client.request_new_application()
        with pytest.raises(ApplicationRejectedError, match=said) as caught:
            await client.submit(context(new, queue=queue))
        assert ids.format_application(new.id) in str(caught.value)
        assert ApplicationState.FAILED is caught.value.report.state


async def test_an_application_that_ran_and_failed_was_not_rejected() -> None:
    """Its master ended while we looked away."""
    async with fake_managers() as (client, cluster, _):
        new = await client.request_new_application()
        await client.submit(context(new))
        cluster.run(new.id)
        cluster.end(new.id, ApplicationState.FAILED, "exit 1")
        assert "exit 1" == (await client.submit(context(new))).diagnostics


async def test_a_request_that_is_too_large_is_refused_at_once() -> None:
    async with fake_managers() as (client, _, _):
        with pytest.raises(InvalidResourceRequestError):
            await client.submit(
                context(await client.request_new_application(), resource=Resource(memory=10**9, vcores=1))
            )
        with pytest.raises(ValueError, match="no application id"):
            await client.submit(ApplicationSubmissionContext(name="x"))


async def test_patience_ends() -> None:
    """An application that stays undecided, and one that is never killed."""
    async with fake_managers(undecided=10**4, kill_takes=10**4) as (client, _, _):
        new = await client.request_new_application()
        with pytest.raises(OperationTimeoutError, match="has not accepted it"):
            await client.submit(context(new), timeout=0.2)
        with pytest.raises(OperationTimeoutError, match="is not killed after"):
            await client.kill(new.id, timeout=0.2)


async def test_a_kill_is_repeated_until_it_is_confirmed() -> None:
    """And again without harm; but not for an unknown application."""
    async with fake_managers(kill_takes=3) as (client, _, (server,)):
        new = await client.request_new_application()
        await client.submit(context(new))
        await client.kill(new.id, "no longer needed")
        assert 4 == len(server.named("forceKillApplication"))
        report = await client.report(new.id)
        assert ApplicationState.KILLED is report.state
        assert "by user alice" in report.diagnostics
        assert "no longer needed" in report.diagnostics
        await client.kill(new.id)
        other = await client.request_new_application()
        with pytest.raises(ApplicationNotFoundError):
            await client.kill(other.id)
        with pytest.raises(ApplicationNotFoundError):
            await client.report(other.id)


async def test_a_resource_manager_that_restarts_under_a_poll_is_waited_for() -> None:
    async with fake_managers(undecided=4) as (client, _, (server,)):
        new = await client.request_new_application()
        hold = HoldResponse(executed=False)
        server.order(hold, method="getApplicationReport", skip=1)

        async def restart() -> None:
            await hold.is_held.wait()
            await server.stop()
            await server.start()

        async with asyncio.TaskGroup() as group:
            group.create_task(restart())
            report = await client.submit(context(new))
        assert ApplicationState.ACCEPTED is report.state


async def test_applications_are_chosen() -> None:
    """By state and type."""
    async with fake_managers() as (client, _, _):
        for number, kind in enumerate("AAB"):
            await client.submit(
                context(await client.request_new_application(), application_type=kind, name=f"n{number}")
            )

        async def names(**given: Any) -> list[str | None]:
            return [each.name for each in await client.list_applications(**given)]

        assert ["n0", "n1", "n2"] == await names()
        assert ["n0", "n1"] == await names(types=("A",))
        assert ["n2"] == await names(types=("B", "C"), states=(ApplicationState.ACCEPTED,))
        assert [] == await names(states=ENDED)


async def test_the_cluster() -> None:
    """Nodes with racks and labels, queues, resource types."""
    given: dict[str, Any] = {"nodes": ("a", "b"), "labels": {"gpu": ("b",)}, "queues": ("x", "y")}
    async with fake_managers(resource_types=(ResourceTypeInfo(name="yarn.io/gpu"),), **given) as (client, cluster, _):
        cluster.lose("a")
        nodes = await client.nodes()
        assert [("a", (), NodeState.LOST), ("b", ("gpu",), NodeState.RUNNING)] == [
            (each.id.host, each.labels, each.state) for each in nodes if each.id
        ]
        assert ["/default-rack"] == [each.rack for each in await client.nodes((NodeState.RUNNING,))]
        assert ["memory-mb", "vcores", "yarn.io/gpu"] == [each.name for each in await client.list_resource_types()]
        assert ["gpu"] == [each.name for each in await client.list_labels()]
        root = await client.fetch_queue()
        assert root is not None
        assert ["x", "y"] == [each.name for each in root.children]
        assert None is await client.fetch_queue("nope")
