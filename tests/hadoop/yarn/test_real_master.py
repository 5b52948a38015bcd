"""The master's side of YARN against real daemons: an unmanaged master in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress

import pytest

from tests.change_detection import CLUSTER
from tests.hadoop.clients import resource_manager
from tests.mini_clusters import Clusters, options
from tests.support.waiting import wait_until
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.errors import HadoopError
from tony.hadoop.failover import Policy
from tony.hadoop.wire.application_client import ApplicationSubmissionContext
from tony.hadoop.wire.placement import NODE, forbid_tags
from tony.hadoop.wire.yarn_records import (
    ApplicationId,
    Container,
    ContainerId,
    ContainerLaunchContext,
    FinalStatus,
    NodeId,
    Resource,
    YarnExitStatus,
)
from tony.hadoop.yarn.am_rm_client import MasterClient, create_scheduler_proxy
from tony.hadoop.yarn.application_client import ApplicationClient
from tony.hadoop.yarn.nm_client import NodeClients
from tony.hadoop.yarn.request_table import AllocationUpdate, ContainerRequest, DeclinedRequest
from tony.mini.cluster import MiniCluster

CEILING = 120.0
SIZE = Resource(memory=128, vcores=1)
QUICK = Policy(give_up_after=CEILING, shortest=0.1, longest=0.2)


class Application:
    """An unmanaged master, and what it hears."""

    def __init__(self, client: ApplicationClient, application: ApplicationId, master: MasterClient) -> None:
        self.client, self.id, self.master = client, application, master
        self.nodes = NodeClients(master.node_tokens)
        self.news: list[AllocationUpdate] = []
        self.came = asyncio.Event()
        self.ask = ContainerRequest(resource=SIZE)

    def hear(self, news: AllocationUpdate) -> None:
        self.news.append(news)
        self.came.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(CEILING):
            while not condition():
                self.came.clear()
                await self.came.wait()

    @property
    def granted(self) -> list[Container]:
        return [each for news in self.news for each in news.granted]

    @property
    def ends(self) -> dict[ContainerId, int]:
        return {each.id: each.exit_status for news in self.news for each in news.completed if each.id is not None}

    @property
    def refused(self) -> list[DeclinedRequest]:
        return [each for news in self.news for each in news.refused]

    async def get(self, key: int, count: int, ask: ContainerRequest | None = None) -> list[Container]:
        known = len(self.granted)
        self.master.want(key, count, ask or self.ask)
        await self.until(lambda: len(self.granted) == known + count)
        return self.granted[known:]


def place(container: Container) -> tuple[NodeId, ContainerId]:
    assert container.node is not None
    assert container.id is not None
    return container.node, container.id


@asynccontextmanager
async def unmanaged(cluster: MiniCluster) -> AsyncIterator[Application]:
    """An application whose master is this process, registered and beating; killed at the end if it still lives."""
    settings = HadoopConfiguration.load(cluster.conf)
    client = resource_manager(settings, dict(os.environ), QUICK)
    new = await client.request_new_application()
    await client.submit(
        ApplicationSubmissionContext(
            application_id=new.id,
            name="an unmanaged master",
            queue="default",
            am_container=ContainerLaunchContext(),
            unmanaged_am=True,
            resource=SIZE,
            max_attempts=1,
        )
    )
    async with asyncio.timeout(CEILING):
        while (token := (await client.report(new.id)).am_rm_token) is None:
            await asyncio.sleep(0.02)
    master = MasterClient(create_scheduler_proxy(settings, token, policy=QUICK))
    registration = await master.register("127.0.0.1", -1, "")
    assert {"memory-mb", "vcores"} <= {each.name for each in registration.resource_types}
    it = Application(client, new.id, master)
    reports = await client.nodes()
    it.ask = ContainerRequest(resource=SIZE, hosts=_texts(each.id.host for each in reports if each.id), racks=_texts(
        each.rack for each in reports
    ))  # fmt: skip
    beating = asyncio.create_task(master.run(it.hear))
    try:
        yield it
        await beating
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        with suppress(HadoopError):
            await client.kill(new.id)
        await it.nodes.close()
        await master.close()
        await client.close()


def _texts(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))


async def test_asks_that_are_refused(cluster: MiniCluster) -> None:
    """Too large, of a label that there is not, with constraints that the cluster does not take: the rest continues."""
    async with unmanaged(cluster) as it:
        it.master.want(1, 2, it.ask)
        it.master.want(2, 1, ContainerRequest(resource=Resource(memory=9_999_999, vcores=1)))
        it.master.want(3, 3, ContainerRequest(resource=SIZE, label="no-such-label"))
        it.master.want(4, 1, ContainerRequest(resource=SIZE, tags=("w",), constraint=forbid_tags(NODE, "w")))
        it.master.want(5, 1, it.ask)
        await it.until(lambda: len(it.granted) >= 3 and len(it.refused) >= 3)
        assert sorted(each.allocation_request_id for each in it.granted) == [1, 1, 5]
        assert {each.key: each.count for each in it.refused} == {2: 1, 3: 3, 4: 1}
        assert it.master.count_outstanding() == 0
        await it.master.finish(FinalStatus.FAILED, "as foreseen", "")


async def test_more_and_fewer(cluster: MiniCluster) -> None:
    """Totals that change while grants come: no more arrive than are wanted, and what was too much goes back."""
    async with unmanaged(cluster) as it:
        for total in (6, 2, 5, 1):
            it.master.want(1, total, it.ask)
            await asyncio.sleep(0.05)
        await it.until(lambda: not it.master.count_outstanding())
        it.master.want(2, 3, it.ask)
        it.master.want(2, 0)
        (last,) = await it.get(3, 1)
        assert len(it.granted) <= 15
        for each in it.granted:
            it.master.release(place(each)[1])
        await it.until(lambda: len(it.ends) == len(it.granted))
        assert set(it.ends) == {each.id for each in it.granted}
        assert it.ends[place(last)[1]] == YarnExitStatus.ABORTED
        await it.master.finish(FinalStatus.SUCCEEDED)


@pytest.mark.on_change(*CLUSTER)
@pytest.mark.long
def test_the_masters_token_rolls(clusters: Clusters) -> None:
    """A new key every 40 seconds: the new token comes with an answer, and is used; constraints are taken here, too."""
    rolling = {
        "yarn.am.liveness-monitor.expiry-interval-ms": "10000",
        "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs": "40",
        "yarn.resourcemanager.placement-constraints.handler": "scheduler",
    }
    asyncio.run(_roll(clusters.with_options(options(rolling, nodes=2))))


async def _roll(cluster: MiniCluster) -> None:
    async with unmanaged(cluster) as it:
        spread = await it.get(1, 2, ContainerRequest(resource=SIZE, tags=("w",), constraint=forbid_tags(NODE, "w")))
        assert len({each.node for each in spread}) == 2
        await wait_until(lambda: it.master.token is not None)
        await it.get(2, 1)
        await it.master.finish(FinalStatus.SUCCEEDED)
