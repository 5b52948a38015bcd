"""Tests of `tony.hadoop.hdfs.namenode` with played NameNodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.hadoop.fake_namenode import PlayedName, PlayedNameNode
from tests.support.hadoop.faults import Cut, DropResponse, standby
from tests.support.hadoop.ipc_server import FakeIpcServer
from tony.hadoop.configuration.service_addresses import ServiceAddress
from tony.hadoop.failover import FailoverProxy, Policy
from tony.hadoop.hdfs.file_system import FileKind
from tony.hadoop.hdfs.namenode import NameNode, Space
from tony.hadoop.ipc.errors import FileExistsAlreadyError, FileMissingError, FileSystemError, SafeModeError
from tony.hadoop.ipc.login_method import LoginIdentity
from tony.hadoop.wire import namenode as wire

Scene = tuple[NameNode, PlayedNameNode, FakeIpcServer, FakeIpcServer]


@asynccontextmanager
async def played(**given: Any) -> AsyncIterator[Scene]:
    """A client of a pair of NameNodes, of which the first is active."""
    files = PlayedNameNode(**given)
    async with FakeIpcServer() as one, FakeIpcServer() as two:
        files.serve(one)
        files.serve(two)
        proxy = FailoverProxy(
            name="NameNode of hdfs://ns1",
            daemons=[ServiceAddress(id="nn1", address=one.address), ServiceAddress(id="nn2", address=two.address)],
            login=LoginIdentity.simple("alice"),
            protocol=wire.PROTOCOL,
            policy=Policy(patience=20, shortest=0.01, longest=0.02),
        )
        async with NameNode(proxy, token_service="ha-hdfs:ns1") as client:
            yield client, files, one, two


async def test_folders_and_what_is_in_them() -> None:
    """Made with parents, listed, renamed, deleted."""
    async with played() as (client, files, _, _):
        assert await client.make_folder("/a/b", 0o1770)
        assert await client.make_folder("/a/b")
        made = await client.status("/a/b")
        assert made is not None
        assert (FileKind.DIRECTORY, 0o1770, "alice") == (made.kind, made.permission, made.owner)
        files.names["/a/f"] = PlayedName(is_folder=False, permission=0o644, owner="bob", length=7, modified_ms=5)
        assert [("b", 0), ("f", 7)] == [(each.name, each.length) for each in await client.list("/a")]
        assert [("", True, 5)] == [(each.name, each.is_file, each.modified_ms) for each in await client.list("/a/f")]
        await client.set_permission("/a/f", 0o600)
        await client.set_times("/a/f", modified_ms=123)
        await client.set_times("/a/f", accessed_ms=9)
        await client.set_owner("/a/f", group="staff")
        found = await client.status("/a/f")
        assert found is not None
        changed = (found.permission, found.modified_ms, found.accessed_ms, found.owner, found.group)
        assert (0o600, 123, 9, "bob", "staff") == changed
        await client.rename("/a", "/z")
        assert None is await client.status("/a/f")
        assert await client.status("/z/f") is not None
        assert await client.delete("/z", recursive=True)
        assert not await client.delete("/z")


async def test_what_is_refused() -> None:
    """With a class of its own each."""
    async with played() as (client, files, _, _):
        await client.make_folder("/a/b")
        for path in ("/gone", "/a/gone"):
            with pytest.raises(FileMissingError, match=path):
                await client.list(path)
        with pytest.raises(FileMissingError):
            await client.rename("/gone", "/x")
        with pytest.raises(FileExistsAlreadyError):
            await client.rename("/a/b", "/a")
        with pytest.raises(FileSystemError, match="non empty"):
            await client.delete("/a")
        with pytest.raises(FileMissingError):
            await client.make_folder("/x/y", parents=False)
        with pytest.raises(ValueError, match="hdfs://ns1/a"):
            await client.status("hdfs://ns1/a")
        files.safe_mode = True
        assert await client.is_in_safe_mode()
        with pytest.raises(SafeModeError, match="leaves safe mode"):
            await client.make_folder("/new")
        assert await client.status("/a") is not None


async def test_a_long_listing_comes_in_pages() -> None:
    """Each name once, in order, names beyond ASCII too."""
    async with played(page=7) as (client, _, one, _):
        names = sorted([f"f{number}" for number in range(20)] + ["ä", "日本"], key=str.encode)
        for name in names:
            await client.make_folder(f"/d/{name}")
        assert names == [each.name for each in await client.list("/d")]
        assert 4 == len(one.named("getListing"))


async def test_the_other_one_of_the_pair_takes_over() -> None:
    """StandbyException leads to it."""
    async with played() as (client, _, one, two):
        one.order(standby(), times=100)
        await client.make_folder("/a")
        assert await client.status("/a") is not None
        assert (1, 2) == (len(one.calls), len(two.calls))


@pytest.mark.parametrize("fault", [DropResponse(executed=True), Cut()])
async def test_a_change_with_a_lost_response_is_made_once(fault: DropResponse | Cut) -> None:
    """The repetition has the same call id, on another NameNode, and gets the answer of the first: a second delete
    would say False, a second rename would fail."""
    async with played() as (client, files, one, two):
        await client.make_folder("/a")
        one.order(fault, method="delete")
        assert await client.delete("/a")
        assert 2 == files.done
        (first,), (second,) = one.named("delete"), two.named("delete")
        assert (first.call_id, first.client_id, 0) == (second.call_id, second.client_id, first.retry_count)
        assert 1 == second.retry_count
        await client.make_folder("/b")
        two.order(fault, method="rename2")
        await client.rename("/b", "/c")
        assert await client.status("/c") is not None


async def test_space_and_tokens() -> None:
    """A cluster without security gives out no tokens; their service is ours to say."""
    async with played() as (client, files, _, _):
        assert Space(capacity=1000, used=100, remaining=900) == await client.space()
        assert None is await client.delegation_token("yarn")
        files.tokens = True
        token = await client.delegation_token("yarn")
        assert token is not None
        assert ("HDFS_DELEGATION_TOKEN", "ha-hdfs:ns1", b"alice yarn") == (token.kind, token.service, token.identifier)
