"""Logs of ended containers: from the nodes while the application runs, then from HDFS (log aggregation)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from tony.errors import SchedulerError
from tony.hadoop import ids
from tony.hadoop.errors import ApplicationNotFoundError, HadoopError
from tony.hadoop.hdfs.http import HttpOptions
from tony.hadoop.logs.aggregated_logs import FOLDER, AggregatedLogs, LogsNotFoundError, find_places
from tony.hadoop.logs.node_web import NodeWeb, NodeWebError
from tony.hadoop.wire.application_client import ApplicationReport, LogAggregationStatus
from tony.hadoop.yarn.application_client import ENDED
from tony.linux.thread_pools import to_thread
from tony.linux.time_index import BLOCK_BYTES, build_index_name
from tony.schedulers.client_interface import LogSink
from tony.schedulers.yarn.cluster_clients import ClusterClients

#: Seconds to wait for log aggregation after the end, and between two polls.
_AGGREGATION_SECONDS = 20.0
_POLL_SECONDS = 0.25
#: Seconds for the ResourceManager to report the aggregation status of an ended job.
_REPORT_SECONDS = 1.0
#: Bytes that are read from a node at once.
_PIECE_BYTES = 1 << 20
#: Final states of log aggregation.
_FINAL_STATUSES = (LogAggregationStatus.SUCCEEDED, LogAggregationStatus.FAILED, LogAggregationStatus.TIME_OUT)
#: The only copy if nothing else remains.
_COPIES_HINT = "`tony submit` and `tony logs -f` keep what they show, on the machine where they run."
#: Timeouts of requests to a node, in seconds.
_NODE_OPTIONS = HttpOptions(connect_timeout=3.0, timeout=20.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ContainerFile:
    """One file of one container.

    Attributes:
        read: yields the bytes from an offset on; blocks.
    """

    name: str
    length: int
    read: Callable[[int], Iterator[bytes]]


class ContainerLogs:
    """The container logs of one application.

    Args:
        owner: required owner of the application and its logs; empty: any.
    """

    def __init__(self, cluster: ClusterClients, application: str, owner: str = "") -> None:
        self._cluster = cluster
        self._application = application
        self._owner = owner

    async def fetch(self, containers: Mapping[str, str], sink: LogSink, *, ended: bool = False) -> None:
        """Pass all files to a sink.

        Args:
            containers: id -> host of ended containers.
            ended: the job has ended, and these are all of its containers; then HDFS may have everything, whatever
                the state of the ResourceManager.

        Raises:
            SchedulerError: some logs are not available; says which, and why.
            HadoopError: a daemon cannot be reached, or refuses.
        """
        if self._owner:  # the history names the containers, and may name another job's
            containers = {each: host for each, host in containers.items() if ids.is_of(each, self._application)}
        if ended and containers and await self._fetch_without_rm(containers, sink):
            return
        report = await self._report()
        if self._owner and report is not None and report.user != self._owner:
            raise SchedulerError(
                f"the history says that the job belongs to {self._owner}, but YARN says {report.user or 'no user'}: "
                "its logs are not shown"
            )
        if report is not None and report.state not in ENDED:
            try:
                await self._from_nodes(containers, sink)
            except SchedulerError:
                report = await self._report()
                if report is not None and report.state not in ENDED:
                    raise
                # It has ended meanwhile, and its nodes forget its containers.
            else:
                return
        report = await self._wait_for_aggregation(report)
        user = (report.user if report else "") or self._owner or self._cluster.user
        try:
            await self._from_files(user, sink)
        except LogsNotFoundError as error:
            # Only a ResourceManager that knows the application can confirm the owner of containers on the nodes.
            known = containers if report is not None or not self._owner else {}
            await self._fetch_from_local_dirs(known, sink, _explain_no_logs(report, error))
            return
        status = report.log_aggregation_status if report else None
        if status in (LogAggregationStatus.FAILED, LogAggregationStatus.TIME_OUT):
            raise SchedulerError(f"YARN log aggregation is incomplete ({_format_status_text(status)})")
        if status in (LogAggregationStatus.RUNNING, LogAggregationStatus.RUNNING_WITH_FAILURE):
            raise SchedulerError("YARN log aggregation is still running; try again in a moment")

    async def _fetch_without_rm(self, containers: Mapping[str, str], sink: LogSink) -> bool:
        """Read aggregated logs if the ResourceManager is down or slow; return True if no container is missing."""
        query = asyncio.get_running_loop().create_task(self._report())
        try:
            await asyncio.wait([query], timeout=_REPORT_SECONDS)
            if query.done() and not query.exception():
                return False
            try:
                return containers.keys() <= await self._from_files(self._owner or self._cluster.user, sink)
            except LogsNotFoundError:
                return False
        finally:
            query.cancel()
            await asyncio.gather(query, return_exceptions=True)

    async def _report(self) -> ApplicationReport | None:
        async with self._cluster.applications() as client:
            try:
                return await client.report(ids.parse_application_id(self._application))
            except ApplicationNotFoundError:
                return None

    async def _wait_for_aggregation(self, report: ApplicationReport | None) -> ApplicationReport | None:
        """Wait until log aggregation is finished, if it is running."""
        if report is None or not self._is_aggregating(report):
            return report
        async with self._cluster.applications() as client:
            try:
                async with asyncio.timeout(_AGGREGATION_SECONDS):
                    while self._is_aggregating(report):
                        await asyncio.sleep(_POLL_SECONDS)
                        report = await client.report(ids.parse_application_id(self._application))
            except (TimeoutError, ApplicationNotFoundError):
                pass
        return report

    def _is_aggregating(self, report: ApplicationReport) -> bool:
        if _has_never_run(report):
            return False
        status = report.log_aggregation_status
        return status is not None and status is not LogAggregationStatus.DISABLED and status not in _FINAL_STATUSES

    # --- aggregated -----------------------------------------------------------------------------------------------

    async def _from_files(self, owner: str, sink: LogSink) -> set[str]:
        """Pass aggregated logs to the sink; return the ids of their containers."""
        settings = self._cluster.configuration.get
        with closing(self._cluster.web_files(FOLDER)) as files:
            logs = AggregatedLogs(files, find_places(settings))
            found = await to_thread(logs.find, self._application, owner)
            by_container: defaultdict[str, list[_ContainerFile]] = defaultdict(list)
            for log in found:
                file = _ContainerFile(name=log.name, length=log.length, read=partial(logs.read, log))
                by_container[log.container].append(file)
            for one in by_container.values():
                await _pass_files(one, sink)
        return set(by_container)

    # --- at the nodes ---------------------------------------------------------------------------------------------

    async def _fetch_from_local_dirs(self, containers: Mapping[str, str], sink: LogSink, why: str) -> None:
        """Fetch from the nodes: without log aggregation they keep files for some hours, and some show them."""
        if not containers:
            raise SchedulerError(why)
        try:
            await self._from_nodes(containers, sink)
        except (SchedulerError, HadoopError) as error:
            raise SchedulerError(f"{why} They are not available from the nodes either: {error}") from error

    async def _from_nodes(self, containers: Mapping[str, str], sink: LogSink) -> None:
        if not containers:
            return
        missing: list[str] = []
        for host, names in (await self._group_by_node(containers)).items():
            missing += await self._from_node(host, names, sink)
        if missing:
            raise SchedulerError("; ".join(missing[:3]) + ("; ..." if len(missing) > 3 else ""))

    async def _group_by_node(self, containers: Mapping[str, str]) -> dict[tuple[str, ...], list[str]]:
        """Map the web addresses of each host's nodes to its containers. A test machine may run several nodes."""
        async with self._cluster.applications() as client:
            nodes = await client.nodes()
        webs: defaultdict[str, list[str]] = defaultdict(list)
        for node in nodes:
            if node.id and node.id.host and node.http_address:
                webs[node.id.host].append(node.http_address)
        found: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for container, host in containers.items():
            found[tuple(webs.get(host, ()))].append(container)
        return dict(found)

    async def _from_node(self, addresses: Iterable[str], containers: Iterable[str], sink: LogSink) -> list[str]:
        """Fetch the logs that one host's nodes show; return an error for each of the other containers."""
        secure = self._cluster.configuration.get("yarn.http.policy") == "HTTPS_ONLY"
        left = list(containers)
        problem = "the ResourceManager no longer knows its node"
        for address in addresses:
            with closing(
                NodeWeb(f"{'https' if secure else 'http'}://{address}", self._cluster.user, _NODE_OPTIONS)
            ) as web:
                for container in left[:]:
                    try:
                        found = [
                            _ContainerFile(
                                name=it.name, length=it.length, read=partial(_read_from_node, web, container, it.name)
                            )
                            for it in await to_thread(web.list_files, container)
                        ]
                        await _pass_files(found, sink)
                    except NodeWebError as error:
                        problem = str(error)
                        continue
                    except HadoopError as error:
                        problem = str(error)
                        break
                    left.remove(container)
        return [f"{container}: {problem}" for container in left]


def _read_from_node(web: NodeWeb, container: str, name: str, offset: int) -> Iterator[bytes]:
    with web.open(container, name, offset) as stream:
        while part := stream.read(_PIECE_BYTES):
            yield part


async def _pass_files(found: Iterable[_ContainerFile], sink: LogSink) -> None:
    """Pass one container's files to the sink, the rotated one of a pair first."""
    files = {each.name: each for each in found}
    for name, newer in files.items():
        if name.endswith(".1") and name.removesuffix(".1") in files:
            continue
        older = files.get(f"{name}.1")
        before = older.length if older else 0
        have = sink.find_start(name, before, newer.length)
        if have is None:
            continue
        if older and have < before:
            await _copy(older, have, sink, name, 0)
            have = before
        await _copy(newer, have - before, sink, name, before)
        for each in (older, newer):
            index = files.get(build_index_name(each.name)) if each else None
            if each and index and index.length <= each.length // 4 + BLOCK_BYTES:
                sink.put_index(each.name, await to_thread(_read_whole, index))


def _read_whole(file: _ContainerFile) -> bytes:
    return b"".join(file.read(0))


async def _copy(file: _ContainerFile, offset: int, sink: LogSink, name: str, start: int) -> None:
    if offset >= file.length:
        return
    parts = file.read(offset)
    while part := await to_thread(next, parts, b""):
        sink.put(name, start, start + offset, part)
        offset += len(part)


def _explain_no_logs(report: ApplicationReport | None, error: LogsNotFoundError) -> str:
    if report is None:
        return (
            f"The ResourceManager no longer knows the application, and HDFS has no logs of it: {error}. They "
            f"may have been deleted (yarn.log-aggregation.retain-seconds). {_COPIES_HINT}"
        )
    if _has_never_run(report):
        return "There are no logs: no container of this application was ever launched."
    if report.log_aggregation_status in (None, LogAggregationStatus.DISABLED):
        return (
            "There are no aggregated logs: yarn.log-aggregation-enable is false on this cluster. Ask its administrator "
            f"to set it to true for later jobs. {_COPIES_HINT}"
        )
    if report.log_aggregation_status is LogAggregationStatus.SUCCEEDED:
        return (
            "YARN aggregated the logs to HDFS, but they are no longer there. They may have been deleted "
            f"(yarn.log-aggregation.retain-seconds) or moved (yarn.nodemanager.remote-app-log-dir). {_COPIES_HINT}"
        )
    return f"YARN did not aggregate the logs to HDFS ({_format_status_text(report.log_aggregation_status)})."


def _has_never_run(report: ApplicationReport) -> bool:
    """Return True if it ended before its first container was launched, as newer ResourceManagers report.

    They also report its log aggregation as pending, since there is no node that could finish it.
    """
    return report.state in ENDED and report.launch_time == 0


def _format_status_text(status: LogAggregationStatus | None) -> str:
    return status.name.lower().replace("_", " ") if status is not None else "unknown"
