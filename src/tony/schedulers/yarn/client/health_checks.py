"""Checks of the configured cluster: ResourceManager, default file system, difference of the clocks."""

from __future__ import annotations

import asyncio
import http.client
import queue
import threading
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import urlsplit

from tony import clock
from tony.errors import NoClusterError, TonyError, get_first_line
from tony.hadoop.configuration.service_addresses import list_resource_managers
from tony.hadoop.wire.yarn_records import NodeState
from tony.model.health_check import Health, HealthCheck
from tony.model.state_directory import Home
from tony.schedulers.yarn.cluster_clients import ClusterClients, find_cluster
from tony.schedulers.yarn.settings import YarnSettings
from tony.units import format_count

T = TypeVar("T")
#: Seconds for one daemon to respond; Hadoop's own clients try for many minutes.
_TIMEOUT_SECONDS = 10.0
#: Seconds for a clock's answer, which is not essential.
_CLOCK_TIMEOUT_SECONDS = 3.0
#: Difference from which Kerberos refuses tickets, and one that already confuses the times of reports.
_KERBEROS_SKEW_SECONDS = 300.0
_MAX_SKEW_SECONDS = 5.0


def check_cluster(settings: YarnSettings, home: Home) -> Iterator[HealthCheck]:
    """Yield the checks; sends requests to the cluster, each with a limit of some seconds."""
    try:
        cluster = find_cluster(settings, home)
    except NoClusterError:
        yield HealthCheck(
            name="cluster",
            state=Health.MISSING,
            detail="no Hadoop cluster is configured (HADOOP_CONF_DIR)",
            cost="no jobs on YARN",
            remedy="set HADOOP_CONF_DIR to the folder with core-site.xml and yarn-site.xml, or: tony mini start",
        )
        return
    except TonyError as error:
        yield _build_failed_check("cluster configuration", error, "check the files that HADOOP_CONF_DIR names")
        return
    yield _check_resource_manager(cluster)
    yield _check_files(cluster)
    yield _check_clock(cluster)


def _check_resource_manager(cluster: ClusterClients) -> HealthCheck:
    try:
        count = asyncio.run(_count_nodes(cluster))
    except (TonyError, TimeoutError) as error:
        return _build_failed_check("ResourceManager", error, cluster.advice or "check the network, and kinit")
    nodes = format_count(count, "running node")
    if count:
        return HealthCheck(name="ResourceManager", state=Health.OK, detail=nodes, required=True)
    return HealthCheck(
        name="ResourceManager",
        state=Health.MISSING,
        detail=nodes,
        cost="jobs on the cluster wait until a node runs",
        remedy="ask the administrators of the cluster",
        required=True,
    )


async def _count_nodes(cluster: ClusterClients) -> int:
    async with asyncio.timeout(_TIMEOUT_SECONDS), cluster.applications() as client:
        return len(await client.nodes((NodeState.RUNNING,)))


def _check_files(cluster: ClusterClients) -> HealthCheck:
    def read_root() -> str:
        client = cluster.web_files()
        try:
            client.get_status("/")
        finally:
            client.close()
        return cluster.files.uri

    try:
        uri = _run_with_timeout(read_root)
    except (TonyError, OSError) as error:
        return _build_failed_check("HDFS", error, "check the network, dfs.namenode.http-address, and kinit")
    return HealthCheck(name="HDFS", state=Health.OK, detail=uri, required=True)


def _run_with_timeout(function: Callable[[], T]) -> T:
    """Run a blocking function, and leave it alone if it does not end.

    Raises:
        TimeoutError: it did not.
    """
    answers: queue.Queue[tuple[T | None, Exception | None]] = queue.Queue()

    def run() -> None:
        try:
            answers.put((function(), None))
        except Exception as error:  # raised again by the waiting thread
            answers.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        value, error = answers.get(timeout=_TIMEOUT_SECONDS)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]


def _check_clock(cluster: ClusterClients) -> HealthCheck:
    skew = _measure_skew(cluster)
    if skew is None:
        return HealthCheck(
            name="clock",
            state=Health.UNKNOWN,
            detail="the web server of the ResourceManager did not tell the time",
            cost="with a difference of minutes Kerberos refuses logins, and times of reports are wrong",
            remedy="compare the clocks: date",
        )
    detail = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the cluster"
    if abs(skew) <= _MAX_SKEW_SECONDS:
        return HealthCheck(name="clock", state=Health.OK, detail=f"at most {_MAX_SKEW_SECONDS:.0f} s from the cluster")
    return HealthCheck(
        name="clock",
        state=Health.MISSING,
        detail=detail,
        cost="Kerberos refuses logins from 300 s on, and times of reports are wrong",
        remedy="synchronize the clock of this machine (NTP)",
        required=abs(skew) >= _KERBEROS_SKEW_SECONDS,
    )


def _measure_skew(cluster: ClusterClients) -> float | None:
    """Return by how many seconds the clock here is ahead; None if no ResourceManager tells the time."""
    for daemon in list_resource_managers(cluster.configuration):
        if daemon.web is None:
            continue
        url = urlsplit(f"{daemon.web_scheme}://{daemon.web}")
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=_CLOCK_TIMEOUT_SECONDS)
        try:
            connection.request("HEAD", "/")
            stamp = connection.getresponse().headers.get("Date", "")
            return clock.wall() - parsedate_to_datetime(stamp).timestamp() - 0.5  # the header has whole seconds
        except (OSError, ValueError, http.client.HTTPException):
            continue
        finally:
            connection.close()
    return None


def _build_failed_check(name: str, error: Exception, remedy: str) -> HealthCheck:
    why = get_first_line(error) if isinstance(error, TonyError) else str(error)
    if isinstance(error, TimeoutError):
        why = f"no answer within {_TIMEOUT_SECONDS:.0f} s"
    return HealthCheck(
        name=name,
        state=Health.MISSING,
        detail=why,
        cost="jobs cannot be submitted to the cluster",
        remedy=remedy,
        required=True,
    )
