"""Clients of a real cluster: all that is asked of a ResourceManager, and restarts under a poll."""

from __future__ import annotations

import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.hadoop.clients import resource_manager
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.settings import DEFAULTS
from tony.hadoop.configuration.xml_file import SiteXmlReader
from tony.hadoop.errors import (
    ApplicationNotFoundError,
    InvalidResourceRequestError,
)
from tony.hadoop.failover import Policy
from tony.hadoop.wire.application_client import (
    ApplicationReport,
    ApplicationSubmissionContext,
)
from tony.hadoop.wire.yarn_records import ApplicationId, ContainerLaunchContext, Resource
from tony.hadoop.yarn.application_client import ApplicationClient, ApplicationRejectedError
from tony.mini.cluster import MiniCluster

ENVIRON = {"HADOOP_USER_NAME": "alice"}
PATIENT = Policy(give_up_after=120.0, shortest=0.2, longest=0.4)


@asynccontextmanager
async def manager(cluster: MiniCluster) -> AsyncIterator[ApplicationClient]:
    """A client, and nothing left running of what it submitted."""
    settings = Configuration.load(cluster.conf, ENVIRON)
    async with resource_manager(settings, ENVIRON, PATIENT) as client:
        try:
            yield client
        finally:
            for report in await client.list_applications():
                if report.id is not None and TAG in report.tags:
                    await client.kill(report.id)


TAG = f"clients-{uuid4().hex[:8]}"


async def submitted(client: ApplicationClient, **given: Any) -> ApplicationReport:
    """An application whose master sleeps and never registers."""
    new = await client.request_new_application()
    given = {
        "name": "sleeps",
        "queue": "default",
        "resource": Resource(memory=128, vcores=1),
        "am_container": ContainerLaunchContext(commands=("sleep 600",)),
        "application_type": "TEST",
        "max_attempts": 1,
        "tags": (TAG,),
        **given,
    }
    return await client.submit(ApplicationSubmissionContext(application_id=new.id, **given))


async def test_what_the_resource_manager_refuses(cluster: MiniCluster) -> None:
    async with manager(cluster) as client:
        with pytest.raises(ApplicationRejectedError, match="unknown queue: nowhere"):
            await submitted(client, queue="nowhere")
        with pytest.raises(InvalidResourceRequestError, match="memory-mb"):
            await submitted(client, resource=Resource(memory=10**8, vcores=1))
        with pytest.raises(InvalidResourceRequestError, match="label"):
            await submitted(client, node_label_expression="no-such-label")
        with pytest.raises(ApplicationNotFoundError, match="application_1_0999"):
            await client.report(ApplicationId(number=999, cluster_timestamp=1))


def test_the_table_of_defaults_is_hadoops(cluster: MiniCluster, tmp_path: Path) -> None:
    """Each value stands so in the file that it is said to be from, in the jars."""
    found: dict[tuple[str, str], str | None] = {}
    for jar in Path(cluster.state.jars).glob("hadoop-*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in {"core-default.xml", "hdfs-default.xml", "yarn-default.xml"} & set(archive.namelist()):
                archive.extract(name, tmp_path)
                found |= {(name, each.name): each.value for each in SiteXmlReader().read(tmp_path / name)}
    expected = {(file, key): value for key, (value, file) in DEFAULTS.items()}
    assert expected == {key: value for key, value in found.items() if key in expected}
