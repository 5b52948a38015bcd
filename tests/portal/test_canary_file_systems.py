"""File systems that the settings of another user's job name: none is made, called or written to."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import fsspec.core  # type: ignore[import-untyped]
import pytest
from fsspec.registry import known_implementations  # type: ignore[import-untyped]

from tests.portal.hostile_jobs import Neighbourhood, build_neighbourhood, portal_of_victim, wait_for
from tony.errors import UserError
from tony.model.hdfs_uri import is_address
from tony.model.job_spec import Role
from tony.model.state_directory import Home
from tony.portal.histories.history_locations import SCHEMES, open_location
from tony.portal.indexed_jobs import IndexedJobs

#: Runs a command where a template of fsspec's references is filled in without a sandbox (before 2026.6).
REFERENCES = {
    "version": 1,
    "templates": {},
    "gen": [
        {
            "key": "{{ cycler.__init__.__globals__.os.popen('touch CANARY').read() }}a{{i}}",
            "url": "file:///x",
            "dimensions": {"i": [0]},
        }
    ],
    "refs": {},
}
#: Every protocol that fsspec knows, and some that it does not.
PROTOCOLS = (*sorted(known_implementations), "viewfs", "s3n", "S3", "HDFS", "ssh+git")


def chains(references: Path, port: int) -> Sequence[str]:
    """Addresses that lead through several file systems."""
    ends = (f"file://{references}", f"s3://127.0.0.1:{port}/x", f"http://127.0.0.1:{port}/x", f"memory://{references}")
    inner = ("reference://", "zip://x", "tar://x", "simplecache", "filecache", "blockcache", "cached", "dir://x")
    return [f"{first}::{end}" for first in inner for end in ends]


@pytest.fixture
def near(tmp_path: Path) -> Neighbourhood:
    return build_neighbourhood(tmp_path)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def refuse(address: object, *_: object, **__: object) -> None:
        asked.append(str(address))
        raise ValueError("a test lets none be made")

    for name in ("url_to_fs", "get_filesystem_class"):
        monkeypatch.setattr(fsspec.core, name, refuse)
    monkeypatch.setattr(fsspec, "filesystem", refuse)
    return asked


@pytest.mark.parametrize("setting", ["TB_LOG_DIR", "progress_summaries"])
def test_no_file_system_of_another_users_job_is_made(near: Neighbourhood, made: list[str], setting: str) -> None:
    """Whether the owner looks or a user who sees all jobs."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        host = f"127.0.0.1:{port.getsockname()[1]}"
        references = near.shared.path / "refs.json"
        references.write_text(json.dumps(REFERENCES).replace("CANARY", str(near.home.path / "CANARY")))
        named = [f"{protocol}://{host}/x" for protocol in PROTOCOLS] + [*chains(references, port.getsockname()[1])]
        roles = {
            f"r{number}": Role(
                command="true",
                env={"TB_LOG_DIR": address} if setting == "TB_LOG_DIR" else {},
                progress_summaries=address if setting == "progress_summaries" else None,
            )
            for number, address in enumerate(named)
        }
        folder = near.add_running(1, roles)

        async def check() -> None:
            for user in ("ben", "boss"):
                async with portal_of_victim(near, user) as browser:
                    await wait_for(browser, {folder.job_id})
                    answer = await browser.get(f"/tensorboard/{folder.job_id}")
                    assert answer.status_code == 200
                    assert answer.text.count("not opened") == len({each for each in named if is_address(each)})
                    started = await browser.ask("PUT", f"/tensorboard/{folder.job_id}/start")
                    assert started.status_code in (409, 503)

        asyncio.run(check())
        port.setblocking(False)
        with pytest.raises(BlockingIOError):
            port.accept()
    assert made == []
    assert not (near.home.path / "CANARY").exists()


@pytest.mark.parametrize("protocol", [each for each in PROTOCOLS if is_address(f"{each}://x")])
def test_few_file_systems_are_opened_at_all(tmp_path: Path, made: list[str], protocol: str) -> None:
    """On the command line neither, nor for jobs of the user: of all that fsspec knows only those of the list."""
    address = f"{protocol}://host/x"
    if protocol.lower() in ("file", "local"):
        assert open_location(address, Home(tmp_path), os.environ).local == Path.cwd() / "host/x"
        return
    if protocol.lower() in SCHEMES.keys() - {"hdfs"}:
        with pytest.raises(UserError, match="a test lets none be made"):
            open_location(address, Home(tmp_path), os.environ)
        assert made == [address]
        return
    if protocol.lower() != "hdfs":
        with pytest.raises(UserError, match=r"is not supported .*abfs://.*s3://"):
            open_location(address, Home(tmp_path), os.environ)
    assert made == []


@pytest.mark.parametrize("address", [*filter(is_address, chains(Path("/refs.json"), 1)), "s3://bucket/x::file:///y"])
def test_no_chains_are_opened(tmp_path: Path, made: list[str], address: str) -> None:
    """One file system would be opened through another."""
    with pytest.raises(UserError, match=r"not supported|are not opened"):
        open_location(address, Home(tmp_path), os.environ)
    assert made == []


async def test_a_file_system_of_the_portal_is_opened_for_others(near: Neighbourhood) -> None:
    """Scheme and bucket must be those of one of its locations."""
    stores = [open_location(str(near.shared.path), near.home, {}) for _ in range(3)]
    for store, address in zip(stores, ("s3://bucket/history", "hdfs:///user/ann"), strict=False):
        store.address, store.local = address, None
    portal = IndexedJobs(near.home, stores, "")
    yes = ("s3://bucket/other", "S3://bucket/", "hdfs:///tmp", "hdfs:/tmp")
    no = ("s3://bucket2/x", "s3://bucket:1/x", "s3://a@bucket/x", "gs://bucket/x", "hdfs://nn/x", "file:///etc", "")
    assert [portal.has_file_system_of(each) for each in (*yes, *no)] == [True] * len(yes) + [False] * len(no)
    await portal.close()
