"""A master and fake NodeManagers."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.hadoop.fake_node_manager import FakeNodeManager
from tests.support.hadoop.fake_resource_manager import ATTEMPT
from tests.support.hadoop.faults import DelayResponse, DropResponse, HoldResponse, Refuse, Silence
from tony.hadoop.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectionLostError,
    HadoopError,
    LoginError,
    YarnError,
)
from tony.hadoop.ids import format_container
from tony.hadoop.ipc.tcp_connection import ConnectionOptions
from tony.hadoop.wire import rpc
from tony.hadoop.wire.rpc import Token
from tony.hadoop.wire.yarn_records import (
    Container,
    ContainerId,
    ContainerLaunchContext,
    ContainerState,
    ContainerStatus,
    NodeId,
)
from tony.hadoop.yarn.nm_client import MissingNodeTokenError, NodeClients

SLEEP = ContainerLaunchContext(commands=("sleep 60",))
NOT_READY = Refuse(class_name="org.apache.hadoop.yarn.exceptions.NMNotYetReadyException", message="not yet")


class Node:
    """A fake NodeManager, and what a master knows of it."""

    def __init__(self, tokens: dict[NodeId, Token]) -> None:
        self.passwords: dict[bytes, bytes] = {}
        self.manager = FakeNodeManager(self.passwords)
        self.server = self.manager.server
        self.tokens = tokens

    def let_in(self, name: bytes) -> None:
        """The newest token is this one; older ones continue to work."""
        self.passwords[name] = b"for " + name
        token = Token(identifier=name, password=self.passwords[name], kind="NMToken", service="elsewhere:1")
        self.tokens[self.manager.node] = token

    def container(self, number: int) -> Container:
        identity = ContainerId(attempt=ATTEMPT, number=number)
        token = rpc.Token(
            identifier=format_container(identity).encode(), password=b"", kind="ContainerToken", service=""
        )
        return Container(id=identity, node=self.manager.node, token=token)


def identity_of(container: Container) -> ContainerId:
    assert container.id is not None
    return container.id


async def test_start_status_stop() -> None:
    """All of it over one connection, which comes with the node's token."""
    tokens: dict[NodeId, Token] = {}
    node = Node(tokens)
    async with node.server:
        node.let_in(b"one")
        nodes = NodeClients(tokens)
        one, two, strange = (node.container(number) for number in (2, 3, 4))
        await asyncio.gather(nodes.start(one, SLEEP), nodes.start(two, SLEEP))
        assert node.manager.running == {format_container(identity_of(each)): SLEEP for each in (one, two)}
        identities = [identity_of(each) for each in (one, two, strange)]
        stopped = await nodes.stop(node.manager.node, identities[1:])
        assert stopped[identities[1]] is None
        assert isinstance(stopped[identities[2]], YarnError)
        found = await nodes.fetch_statuses(node.manager.node, identities)
        first, second = found[identities[0]], found[identities[1]]
        assert isinstance(first, ContainerStatus)
        assert first.state is ContainerState.RUNNING
        assert isinstance(second, ContainerStatus)
        assert (second.state, second.exit_status) == (ContainerState.COMPLETE, -105)
        assert isinstance(found[identities[2]], HadoopError)
        assert node.server.connections == 1
        assert {call.caller.token for call in node.server.calls} == {b"one"}
        await nodes.close()


async def test_an_empty_request_makes_no_call() -> None:
    nodes = NodeClients({})
    assert await nodes.stop(NodeId(host="nowhere", port=1), []) == {}
    assert await nodes.fetch_statuses(NodeId(host="nowhere", port=1), []) == {}


async def test_a_start_that_is_refused() -> None:
    """The answer is a success, and says so inside; the error names node and container."""
    tokens: dict[NodeId, Token] = {}
    node = Node(tokens)
    async with node.server:
        node.let_in(b"one")
        nodes = NodeClients(tokens)
        container = node.container(2)
        name = format_container(identity_of(container))
        node.manager.refusals[name] = "This token is expired. current time is 2 found 1\n\tat org.apache..."
        with pytest.raises(YarnError, match=rf"startContainers of {name}: YarnException: This token is expired.*1$"):
            await nodes.start(container, SLEEP)
        await nodes.close()


async def test_a_node_without_a_token() -> None:
    """That is an error of the caller, and reported at once."""
    nodes = NodeClients({})
    with pytest.raises(MissingNodeTokenError, match="no token for node a:1"):
        await nodes.start(Container(id=ContainerId(number=1), node=NodeId(host="a", port=1)), SLEEP)
    with pytest.raises(ValueError, match="no container of a node"):
        await nodes.start(Container(), SLEEP)


async def test_a_new_token_makes_a_new_connection() -> None:
    """Calls on the old one end there."""
    tokens: dict[NodeId, Token] = {}
    node = Node(tokens)
    async with node.server:
        node.let_in(b"one")
        nodes = NodeClients(tokens)
        hold = HoldResponse()
        node.server.order(hold, method="startContainers")
        slow = asyncio.create_task(nodes.start(node.container(2), SLEEP))
        await hold.is_held.wait()
        node.let_in(b"two")
        await nodes.start(node.container(3), SLEEP)
        assert [call.caller.token for call in node.server.calls] == [b"one", b"two"]
        hold.release()
        await slow
        await nodes.start(node.container(4), SLEEP)
        assert (node.server.connections, len(node.server._links)) == (2, 1)
        await nodes.close()


async def test_a_token_that_the_node_does_not_know() -> None:
    tokens: dict[NodeId, Token] = {}
    node = Node(tokens)
    async with node.server:
        node.let_in(b"one")
        node.passwords.clear()
        nodes = NodeClients(tokens)
        with pytest.raises((LoginError, HadoopError)):
            await nodes.start(node.container(2), SLEEP)
        await nodes.close()


@pytest.mark.parametrize("executed", [True, False])
async def test_a_start_whose_response_was_lost(executed: bool) -> None:
    """It is sent again; that the container runs already counts as success."""
    tokens: dict[NodeId, Token] = {}
    node = Node(tokens)
    async with node.server:
        node.let_in(b"one")
        nodes = NodeClients(tokens)
        node.server.order(DropResponse(executed=executed), method="startContainers")
        await nodes.start(node.container(2), SLEEP)
        assert len(node.manager.running) == 1
        with pytest.raises(YarnError, match="already is running"):
            await nodes.start(node.container(2), SLEEP)
        await nodes.close()


async def test_a_node_that_is_not_there_yet() -> None:
    """Starting, or not yet known to the ResourceManager: it is asked again."""
    tokens: dict[NodeId, Token] = {}
    node = Node(tokens)
    await node.server.start()
    node.let_in(b"one")
    await node.server.stop()
    nodes = NodeClients(tokens)
    starting = asyncio.create_task(nodes.start(node.container(2), SLEEP))
    await asyncio.sleep(0.15)
    node.server.order(NOT_READY, method="startContainers")
    await node.server.start()
    await starting
    assert len(node.server.named("startContainers")) == 2
    await nodes.close()
    await node.server.stop()


async def test_a_node_that_is_lost() -> None:
    """The patience ends; the ResourceManager will say what became of its containers."""
    tokens: dict[NodeId, Token] = {}
    node = Node(tokens)
    async with node.server:
        node.let_in(b"one")
        nodes = NodeClients(tokens, timeout=0.2)
        await nodes.start(node.container(2), SLEEP)
    with pytest.raises((ConnectError, ConnectionLostError)):
        await nodes.stop(node.manager.node, [identity_of(node.container(2))])
    with pytest.raises((ConnectError, ConnectionLostError)):
        await nodes.start(node.container(3), SLEEP)
    await nodes.close()


async def test_a_node_that_hangs() -> None:
    """A start is not repeated then: the caller releases the container. Stopping is asked again."""
    tokens: dict[NodeId, Token] = {}
    node = Node(tokens)
    async with node.server:
        node.let_in(b"one")
        nodes = NodeClients(tokens, options=ConnectionOptions(call_timeout=0.1))
        node.server.order(Silence(), method="startContainers")
        with pytest.raises(CallTimeoutError):
            await nodes.start(node.container(2), SLEEP)
        node.server.order(Silence(executed=True), method="stopContainers")
        await nodes.stop(node.manager.node, [identity_of(node.container(2))])
        assert len(node.server.named("stopContainers")) == 2
        await nodes.close()


async def test_a_connection_that_broke_in_between() -> None:
    tokens: dict[NodeId, Token] = {}
    node = Node(tokens)
    async with node.server:
        node.let_in(b"one")
        nodes = NodeClients(tokens)
        await nodes.start(node.container(2), SLEEP)
        node.server.drop_all()
        await nodes.start(node.container(3), SLEEP)
        assert node.server.connections == 2
        await nodes.close()


async def test_no_more_connections_than_allowed() -> None:
    """The ones that were not used for longest are closed; calls on their way are not hurt."""
    tokens: dict[NodeId, Token] = {}
    nodes = NodeClients(tokens, most=2)
    members = [Node(tokens) for _ in range(4)]
    for member in members:
        await member.server.start()
        member.let_in(b"one")
    members[0].server.order(DelayResponse(seconds=0.2), method="startContainers")
    await asyncio.gather(*(nodes.start(member.container(2), SLEEP) for member in members))
    assert len(nodes._slots) == 2
    await nodes.start(members[1].container(3), SLEEP)
    await nodes.close()
    for member in members:
        await member.server.stop()


async def test_many_starts_at_once() -> None:
    tokens: dict[NodeId, Token] = {}
    node = Node(tokens)
    async with node.server:
        node.let_in(b"one")
        nodes = NodeClients(tokens)
        await asyncio.gather(*(nodes.start(node.container(number), SLEEP) for number in range(2, 202)))
        assert len(node.manager.running) == 200
        assert node.server.connections == 1
        await nodes.close()
