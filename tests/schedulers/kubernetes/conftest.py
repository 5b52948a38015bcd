"""A fake cluster, a job that is ready to be submitted to it, and servers that hold its files or history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.scripted_server import ScriptedServer
from tests.schedulers.kubernetes.fake_cluster import Cluster, build_hadoop_settings, build_job, use_hadoop
from tests.support.fake_s3 import FakeS3
from tests.support.hadoop.fake_webhdfs import FakeWebHdfs
from tony.schedulers.client_interface import PreparedJob


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ScriptedServer().serve() as server:
        yield Cluster(server, tmp_path)


@pytest.fixture
def job(cluster: Cluster, tmp_path: Path) -> PreparedJob:
    return build_job(cluster, tmp_path)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeS3]:
    """A server, and the variables of a user of it."""
    with FakeS3().serve() as found:
        for name, value in found.variables.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def hdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWebHdfs]:
    """A file system, and a Hadoop configuration of the user `ann`."""
    with FakeWebHdfs() as found:
        use_hadoop(tmp_path, build_hadoop_settings(found), monkeypatch)
        yield found
