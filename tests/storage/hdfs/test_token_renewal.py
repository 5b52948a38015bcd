"""Tokens are renewed until they can live no longer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.hadoop.fake_namenode import FakeNameNode
from tests.support.hadoop.ipc_server import FakeIpcServer
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.service_addresses import find_name_service
from tony.hadoop.errors import HadoopError
from tony.hadoop.failover import Policy
from tony.hadoop.tokens import TokenCredentials
from tony.hadoop.wire.rpc import Token
from tony.linux.thread_pools import to_thread
from tony.storage.hdfs import token_renewal
from tony.storage.hdfs.hdfs_clients import HdfsClients
from tony.storage.hdfs.token_renewal import TokenRenewal, cancel_tokens

DAY = 86_400.0


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_renewal, "_MIN_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(token_renewal, "_MAX_PAUSE_SECONDS", 0.0)


@asynccontextmanager
async def serve(name_node: FakeNameNode) -> AsyncIterator[tuple[HdfsClients, HdfsClients]]:
    """Yield clients of a file system: those of a renewer, and those with a token."""
    async with FakeIpcServer() as server:
        name_node.serve(server)
        configuration = Configuration.load(None, {}, given={"fs.defaultFS": f"hdfs://{server.address}"})
        ann = {"HADOOP_USER_NAME": "ann"}
        own = HdfsClients.from_configuration(configuration, ann, TokenCredentials())
        address = str(server.address)
        token = Token(identifier=b"i", password=b"p", kind="HDFS_DELEGATION_TOKEN", service=address)
        tokens = TokenCredentials(tokens={address: token})
        yield own, HdfsClients.from_configuration(configuration, ann, tokens)


async def test_until_its_last_day() -> None:
    """A token whose expiry moves no more is left alone: it cannot live longer."""
    files, troubles = FakeNameNode(), list[str]()
    files.expiries = [time.time() + n for n in (10, 20, 30, 30, 40)]
    async with serve(files) as (own, tokens):
        await TokenRenewal(own, tokens, troubles.append).run([own.files])
    assert files.renewed == ["ann"] * 4
    assert troubles == []


async def test_a_token_that_has_reached_its_maximum_lifetime() -> None:
    files, troubles = FakeNameNode(), list[str]()
    async with serve(files) as (own, tokens):
        await TokenRenewal(own, tokens, troubles.append).run([own.files])
        assert len(troubles) == 1
        assert f"delegation token of {own.files.uri} was not renewed" in troubles[0]
        assert "maximum lifetime" in troubles[0]


async def test_a_server_that_does_not_respond_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user is told once, and the token is renewed as soon as it can be."""
    monkeypatch.setattr(token_renewal, "_RETRY_SECONDS", 0.0)
    files, troubles = FakeNameNode(), list[str]()
    files.expiries = [time.time() + DAY] * 2
    async with serve(files) as (own, tokens):
        renew, failures = TokenRenewal._renew, [OSError(), OSError()]

        async def fail_first(self: TokenRenewal, service: object) -> float:
            if failures:
                failures.pop()
                raise HadoopError("no KDC responds")
            return await renew(self, service)  # type: ignore[arg-type]

        monkeypatch.setattr(TokenRenewal, "_renew", fail_first)
        await TokenRenewal(own, tokens, troubles.append).run([own.files])
    assert troubles == [f"the job's delegation token of {own.files.uri} was not renewed: no KDC responds"]
    assert len(files.renewed) == 2


async def test_tokens_are_cancelled() -> None:
    files = FakeNameNode()
    async with serve(files) as (own, tokens):
        await to_thread(cancel_tokens, own, [own.files], pytest.fail)  # it has none
        assert files.cancelled == []
        await to_thread(cancel_tokens, tokens, [tokens.files], pytest.fail)
        assert files.cancelled == ["ann"]


async def test_a_name_node_that_is_down_keeps_no_other_token_from_being_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_renewal, "POLICY", Policy(give_up_after=0.0))
    files, troubles = FakeNameNode(), list[str]()
    async with FakeIpcServer() as stopped:
        address = str(stopped.address)
    async with serve(files) as (_, tokens):
        down = find_name_service(tokens.configuration, f"hdfs://{address}")
        token = Token(identifier=b"i", password=b"p", kind="HDFS_DELEGATION_TOKEN", service=address)
        credentials = tokens.logins.credentials.to_extended(token)
        clients = HdfsClients.from_configuration(tokens.configuration, {"HADOOP_USER_NAME": "ann"}, credentials)
        await to_thread(cancel_tokens, clients, [down, tokens.files], troubles.append)
    assert files.cancelled == ["ann"]
    assert len(troubles) == 1
    assert f"delegation token of hdfs://{address} was not cancelled" in troubles[0]


async def test_a_setting_that_is_missing_does_not_end_the_caller() -> None:
    files, troubles = FakeNameNode(), list[str]()
    async with serve(files) as (own, tokens):
        given = {"fs.defaultFS": own.files.uri, "hadoop.security.authentication": "kerberos"}
        configuration = Configuration.load(None, {}, given=given)
        secure = HdfsClients.from_configuration(configuration, {}, TokenCredentials())
        await TokenRenewal(secure, tokens, troubles.append).run([own.files])
    assert "dfs.namenode.kerberos.principal" in troubles[0]
