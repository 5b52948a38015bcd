"""Tests of `tony.hadoop.hdfs.namenode_rpc` with fake NameNodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.hadoop.fake_namenode import FakeNameNode
from tests.support.hadoop.faults import standby
from tests.support.hadoop.ipc_server import FakeIpcServer
from tony.hadoop.configuration.service_addresses import ServiceAddress
from tony.hadoop.failover import FailoverProxy, Policy
from tony.hadoop.hdfs import namenode_rpc as wire
from tony.hadoop.hdfs.namenode_rpc import NameNode
from tony.hadoop.ipc.login import LoginIdentity

Scene = tuple[NameNode, FakeNameNode, FakeIpcServer, FakeIpcServer]


@asynccontextmanager
async def fake_namenodes() -> AsyncIterator[Scene]:
    """A client of a pair of NameNodes, of which the first is active."""
    files = FakeNameNode()
    async with FakeIpcServer() as one, FakeIpcServer() as two:
        files.serve(one)
        files.serve(two)
        proxy = FailoverProxy(
            name="NameNode of hdfs://ns1",
            daemons=[ServiceAddress(id="nn1", address=one.address), ServiceAddress(id="nn2", address=two.address)],
            login=LoginIdentity(user="alice"),
            protocol=wire.PROTOCOL,
            policy=Policy(give_up_after=20, shortest=0.01, longest=0.02),
        )
        async with NameNode(proxy, token_service=lambda: "ha-hdfs:ns1") as client:
            yield client, files, one, two


async def test_a_lease_is_recovered_after_some_calls() -> None:
    """False until the file is closed; at once for one without a writer."""
    async with fake_namenodes() as (client, files, _, _):
        files.writers["/a"] = 1
        assert [False, True] == [await client.recover_lease("/a") for _ in range(2)]
        assert await client.recover_lease("/b")
        with pytest.raises(ValueError, match="hdfs://ns1/a"):
            await client.recover_lease("hdfs://ns1/a")


async def test_the_other_one_of_the_pair_takes_over() -> None:
    async with fake_namenodes() as (client, _, one, two):
        one.order(standby(), times=100)
        assert await client.recover_lease("/a")
        assert await client.recover_lease("/a")
        assert (1, 2) == (len(one.calls), len(two.calls))


async def test_tokens() -> None:
    """A cluster without security gives out none; their service is ours to say."""
    async with fake_namenodes() as (client, files, _, _):
        assert None is await client.get_delegation_token("yarn")
        files.tokens = True
        token = await client.get_delegation_token("yarn")
        assert token is not None
        assert ("HDFS_DELEGATION_TOKEN", "ha-hdfs:ns1", b"alice yarn") == (token.kind, token.service, token.identifier)
