"""Metrics outlive an application master: they go to HDFS, and the next one finds them there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.specs import workers
from tests.support.hadoop.fake_webhdfs import FakeFile, FakeWebHdfs
from tests.support.simulation import Simulation
from tony.am import metrics_store as module
from tony.am.metrics_store import MetricsStore
from tony.hadoop.configuration import Configuration
from tony.hadoop.errors import ConnectionLostError
from tony.history.metrics_reader import Metrics
from tony.linux.thread_pools import to_thread
from tony.model.ids import TaskId
from tony.model.state_directory import Home, JobFolder
from tony.protocol.executor_messages import Sample
from tony.schedulers.job_store.hdfs_job_store import HdfsJobStore
from tony.schedulers.job_store.previous_attempts import PreviousAttempts
from tony.schedulers.yarn.cluster_clients import ClusterClients

THERE = "/user/ann/.tony/jobs/application_1700000000000_0007"


@pytest.fixture
def hdfs() -> Iterator[FakeWebHdfs]:
    with FakeWebHdfs() as hdfs:
        hdfs.files[THERE] = FakeFile()
        yield hdfs


@pytest.fixture
def files(hdfs: FakeWebHdfs) -> Iterator[HdfsJobStore]:
    """That folder, as an application master has it."""
    opened = opened_at(hdfs.port)
    yield opened
    opened.close()


def opened_at(port: int) -> HdfsJobStore:
    given = {"fs.defaultFS": "hdfs://127.0.0.1:8020", "dfs.namenode.http-address": f"127.0.0.1:{port}"}
    cluster = ClusterClients.from_configuration(Configuration.load(None, {}, given=given), {"HADOOP_USER_NAME": "ann"})
    return HdfsJobStore(cluster, THERE)


def folder(tmp_path: Path, name: str) -> JobFolder:
    made = Home(tmp_path / name).job("application_1700000000000_0007")
    made.path.mkdir(parents=True)
    return made


async def test_from_one_master_to_the_next(
    tmp_path: Path, hdfs: FakeWebHdfs, files: HdfsJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first brings a copy to HDFS while the job runs; the second has it before it begins, and so has a reader."""
    monkeypatch.setattr(module, "_COPY_INTERVAL_SECONDS", 0.0)
    cluster = Simulation(workers(1))
    cluster.begin()
    cluster.run()
    first, second = folder(tmp_path, "first"), folder(tmp_path, "second")

    async def keep_safe(copy: Path) -> None:
        await to_thread(files.put, "metrics.db", copy, "copy")

    made = MetricsStore(cluster.app.state, lambda: 7.0, first.metrics, late=False, save_copy=keep_safe)
    made.ingest_sample(TaskId("worker", 0), Sample(session=1, try_=1, ago=0.0, values={"cpu": 0.5}))
    await made.write()
    await made.finish()
    assert hdfs.files[f"{THERE}/metrics.db"].content == first.metrics.read_bytes()
    assert hdfs.files[f"{THERE}/metrics.db"].permission == 0o600
    assert [path.name for path in first.path.iterdir()] == ["metrics.db"]
    PreviousAttempts(2, files, second, 30.0).fetch_metrics()
    with Metrics(second.metrics) as metrics:
        assert metrics.read_newest()["worker:0"]["cpu"] == 0.5


async def test_a_copy_follows_each_restart(tmp_path: Path) -> None:
    """Within a session copies are rare."""
    cluster = Simulation(workers(1))
    cluster.begin()
    cluster.run()
    copied: list[int] = []

    async def keep_safe(copy: Path) -> None:
        copied.append(cluster.app.state.session)

    made = MetricsStore(cluster.app.state, lambda: 7.0, folder(tmp_path, "a").metrics, late=False, save_copy=keep_safe)
    sample = Sample(session=1, try_=1, ago=0.0, values={"cpu": 0.5})
    for session in (1, 2):
        cluster.app.state.session = session
        while session not in copied:  # a copy is not begun before the last one is removed
            made.ingest_sample(TaskId("worker", 0), sample)
            await made.write()
            await asyncio.sleep(0)
    await made.finish()
    assert copied == [1, 2]


async def test_hdfs_that_refuses_hinders_nothing(
    tmp_path: Path, hdfs: FakeWebHdfs, files: HdfsJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_COPY_INTERVAL_SECONDS", 0.0)
    cluster = Simulation(workers(1))
    cluster.begin()
    cluster.run()
    here = folder(tmp_path, "here")

    async def keep_safe(copy: Path) -> None:
        raise ConnectionLostError("no listener")

    made = MetricsStore(cluster.app.state, lambda: 7.0, here.metrics, late=False, save_copy=keep_safe)
    made.ingest_sample(TaskId("worker", 0), Sample(session=1, try_=1, ago=0.0, values={"cpu": 0.5}))
    await made.write()
    await made.finish()
    hdfs.files[f"{THERE}/metrics.db"] = FakeFile(content=b"x" * 10)
    hdfs.before("OPEN", lambda path: hdfs.files.pop(f"{THERE}/metrics.db", None))
    PreviousAttempts(2, files, folder(tmp_path, "second"), 30.0).fetch_metrics()
    with Metrics(here.metrics) as metrics:
        assert metrics.read_newest()["worker:0"]["cpu"] == 0.5


def test_nothing_was_measured_before(tmp_path: Path, hdfs: FakeWebHdfs, files: HdfsJobStore) -> None:
    second = folder(tmp_path, "second")
    PreviousAttempts(2, files, second, 30.0).fetch_metrics()
    assert list(second.path.iterdir()) == []
