"""A fake cluster, and a job that is ready to be submitted to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.scripted_server import ScriptedServer
from tests.schedulers.kubernetes.fake_cluster import Cluster, build_job
from tony.schedulers.client_interface import PreparedJob


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ScriptedServer().serve() as server:
        yield Cluster(server, tmp_path)


@pytest.fixture
def job(cluster: Cluster, tmp_path: Path) -> PreparedJob:
    return build_job(cluster, tmp_path)
