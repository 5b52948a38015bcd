"""WebHDFS and the durable log on a real HDFS whose daemons are harmed."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tony
from tests.mini_clusters import run_tool
from tests.support.hadoop.append_logs import flush
from tony.hadoop.configuration.service_addresses import find_name_service
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.errors import (
    AccessControlError,
    BeingWrittenError,
    FileExistsAlreadyError,
    FileMissingError,
    QuotaExceededError,
    SafeModeError,
)
from tony.hadoop.failover import FailoverProxy
from tony.hadoop.hdfs.append_log import AppendLog, AppendOptions
from tony.hadoop.hdfs.file_system import FileKind
from tony.hadoop.hdfs.namenode_rpc import PROTOCOL, NameNode
from tony.hadoop.hdfs.webhdfs import WebHdfs
from tony.hadoop.hdfs.webhdfs_messages import WebLogin
from tony.hadoop.ipc.login import LoginIdentity
from tony.mini.cluster import MiniCluster

USER = getpass.getuser()
#: Seconds until what should come counts as lost; a lease's soft limit is a minute.
CEILING = 150.0
ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
#: A program that writes lines into a log for ever, and says when the first is durable.
WRITER = """
import sys, time
from tony.hadoop.hdfs.append_log import AppendLog, AppendOptions
from tony.hadoop.hdfs.webhdfs_messages import WebLogin
from tony.hadoop.hdfs.webhdfs import WebHdfs
log = AppendLog(WebHdfs([sys.argv[1]], WebLogin(user=sys.argv[2])), sys.argv[3], AppendOptions(interval=0))
number = 0
while True:
    log.write(b"line %d\\n" % number)
    if not number:
        log.hurry()
        while log.waiting:
            time.sleep(0.001)
        print("durable", flush=True)
    number += 1
    time.sleep(0.0005)
"""
#: A program that begins an append of a megabyte, sends a little of it, and then does nothing more.
HALF = """
import http.client, sys, time
from tony.hadoop.hdfs.webhdfs_messages import WebLogin
from tony.hadoop.hdfs.webhdfs import WebHdfs
client = WebHdfs([sys.argv[1]], WebLogin(user=sys.argv[2]))
origin, target = client._ask_place("POST", sys.argv[3], "APPEND", {}, [])
link = http.client.HTTPConnection(origin.host, origin.port)
link.putrequest("POST", target)
link.putheader("Content-Type", "application/octet-stream")
link.putheader("Content-Length", "1000000")
link.endheaders()
link.send(b"line 1\\nlin")
print("sent", flush=True)
time.sleep(600)
"""


def _url(cluster: MiniCluster) -> str:
    return f"http://{cluster.state.address('nn.web')}"


@pytest.fixture(name="client")
def _client(cluster: MiniCluster) -> Iterator[WebHdfs]:
    with WebHdfs([_url(cluster)], WebLogin(user=USER)) as client:
        yield client


@pytest.fixture(name="folder")
def _folder(client: WebHdfs, request: pytest.FixtureRequest) -> Iterator[str]:
    folder = f"/tests/{request.node.name}"
    client.delete(folder, recursive=True)
    client.make_directories(folder)
    yield folder
    client.delete(folder, recursive=True)


@pytest.fixture(name="start")
def _start(cluster: MiniCluster) -> Iterator[Callable[[str, str], subprocess.Popen[str]]]:
    """Starts a program with a path in HDFS, and waits for its first line."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, path: str) -> subprocess.Popen[str]:
        environ = {**os.environ, "PYTHONPATH": str(Path(tony.__file__).parents[1])}
        words = [sys.executable, "-c", program, _url(cluster), USER, path]
        process = subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _proxy(cluster: MiniCluster) -> FailoverProxy:
    daemons = find_name_service(HadoopConfiguration.load(cluster.conf, {})).name_nodes
    return FailoverProxy(name="NameNode", daemons=daemons, login=LoginIdentity(user=USER), protocol=PROTOCOL)


def _recover(cluster: MiniCluster) -> Callable[[str], None]:
    """What takes a file from a dead writer."""

    async def ask(path: str) -> None:
        async with NameNode(_proxy(cluster)) as namenode:
            await namenode.recover_lease(path)

    return lambda path: asyncio.run(ask(path))


def _wait_open(cluster: MiniCluster, path: str) -> None:
    """Until the NameNode has a file open for a writer. Asking does not write: that would come in the writer's way."""
    url = f"{_url(cluster)}/webhdfs/v1{path}?op=GET_BLOCK_LOCATIONS&user.name={USER}"
    deadline = time.monotonic() + CEILING
    while True:
        with urllib.request.urlopen(url, timeout=CEILING) as answer:
            if json.load(answer)["LocatedBlocks"]["isUnderConstruction"]:
                return
        assert time.monotonic() < deadline, f"no process writes {path}"
        time.sleep(0.01)


def _lines(data: bytes) -> list[str]:
    return data.decode().splitlines()


def test_files(client: WebHdfs, folder: str, tmp_path: Path) -> None:
    path = f"{folder}/grüße +%;&=#? \N{SNOWMAN}"
    source = tmp_path / "source"
    source.write_bytes(b"0123456789" * 50_000)
    client.create(path, source, permission=0o600)
    client.append(path, b"the end")
    assert client.read(path, 499_995) == b"56789the end"
    assert client.read(path, 500_007) == b""
    with pytest.raises(FileExistsAlreadyError):
        client.create(path, b"")
    status = client.get_status(path)
    assert (status.length, status.permission, status.owner) == (500_007, 0o600, USER)
    client.set_times(path, modified_ms=1_234_567_890_123)
    client.rename(path, f"{folder}/b")
    (status,) = client.list(folder)
    assert (status.name, status.kind, status.permission) == ("b", FileKind.FILE, 0o600)
    assert status.modified_ms == 1_234_567_890_123
    with pytest.raises(FileMissingError):
        client.read(path)
    for number in range(1100):  # more than the NameNode lists at once
        client.make_directories(f"{folder}/many/{number:04d}")
    assert [status.name for status in client.list(f"{folder}/many")] == [f"{number:04d}" for number in range(1100)]


def test_refusals(cluster: MiniCluster, client: WebHdfs, folder: str) -> None:
    """Permission, quotas and safe mode are errors of their own."""
    client.make_directories(f"{folder}/closed", 0o700)
    with WebHdfs([_url(cluster)], WebLogin(user="mallory")) as other, pytest.raises(AccessControlError):
        other.create(f"{folder}/closed/x", b"")
    assert run_tool(cluster, ADMIN, "-setSpaceQuota", "1", folder).returncode == 0
    with pytest.raises(QuotaExceededError):
        client.create(f"{folder}/x", b"x")
    assert run_tool(cluster, ADMIN, "-safemode", "enter").returncode == 0
    try:
        with pytest.raises(SafeModeError):
            client.make_directories(f"{folder}/y")
    finally:
        assert run_tool(cluster, ADMIN, "-safemode", "leave").returncode == 0


def test_flush_makes_visible(client: WebHdfs, folder: str) -> None:
    """After `flush` length and content are visible to all clients, batch after batch; a successor continues."""
    path = f"{folder}/log"
    log = AppendLog(client, path)
    for number in range(10):
        log.write(b"line %d\n" % number)
        assert flush(log, CEILING)
        assert client.get_status(path).length == 7 * (number + 1)
        assert _lines(client.read(path))[-1] == f"line {number}"
    assert log.close(CEILING)
    successor = AppendLog(client, path)
    successor.write(b"line 10\n")
    assert successor.close(CEILING)
    assert _lines(client.read(path)) == [f"line {number}" for number in range(11)]


def test_a_killed_writer(client: WebHdfs, folder: str, start: Callable[[str, str], subprocess.Popen[str]]) -> None:
    """SIGKILL in the midst of appends: a prefix is there, each line once, and the successor continues in seconds."""
    path = f"{folder}/log"
    for _ in range(2):
        client.delete(path)
        process = start(WRITER, path)
        threading.Event().wait(0.3)
        process.kill()
        process.wait()
        log = AppendLog(client, path)
        log.write(b"successor\n")
        assert flush(log, CEILING)
        lines = [line for line in _lines(client.read(path)) if line]
        whole = lines[:-2]
        assert whole == [f"line {number}" for number in range(len(whole))]
        assert f"line {len(whole)}".startswith(lines[-2])
        assert lines[-1] == "successor"
        log.close(CEILING)


def test_a_writer_that_hangs(
    cluster: MiniCluster, client: WebHdfs, folder: str, start: Callable[[str, str], subprocess.Popen[str]]
) -> None:
    """Its connection stays, as one of a machine that vanished does: no other client may write until the lease is
    recovered."""
    path = f"{folder}/log"
    client.create(path, b"line 0\n")
    start(HALF, path)
    _wait_open(cluster, path)
    with pytest.raises(BeingWrittenError):
        client.append(path, b"")
    log = AppendLog(client, path, recover=_recover(cluster))
    log.write(b"line 2\n")
    assert flush(log, CEILING)
    lines = _lines(client.read(path))
    assert (lines[0], lines[-1]) == ("line 0", "line 2")
    assert log.close(CEILING)


@pytest.mark.on_change("hadoop", "mini")
def test_daemons_come_and_go(cluster: MiniCluster, client: WebHdfs, folder: str) -> None:
    """NameNode restarted, DataNode killed and restarted under a busy log: every line is there once, in order."""
    path = f"{folder}/log"
    log = AppendLog(client, path, AppendOptions(interval=0.0, longest_pause=1.0), recover=_recover(cluster))
    stop = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not stop.wait(0.005):
            log.write(b"line %d\n" % written)
            written += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert flush(log, CEILING)
        cluster.restart("nn")
        assert flush(log, CEILING)
        cluster.kill("dn1")
        assert not flush(log, 0.5)
        cluster.restart("dn1")
        assert flush(log, CEILING)
    finally:
        stop.set()
        writer.join()
        if "dn1" not in cluster.state.find_running():
            cluster.restart("dn1")
    assert log.close(CEILING)
    assert _lines(client.read(path)) == [f"line {number}" for number in range(written)]
