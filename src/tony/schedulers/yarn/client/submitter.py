"""The client's half of the YARN scheduler: checks, uploads, submits, and finds the application again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tony.errors import Problem, SchedulerError, TonyError
from tony.hadoop import ids
from tony.hadoop.errors import ApplicationNotFoundError, HadoopError
from tony.hadoop.tokens import TokenCredentials
from tony.hadoop.wire.application_client import ApplicationReport, ApplicationState
from tony.hadoop.wire.yarn_records import ApplicationId, NodeState
from tony.hadoop.yarn.application_client import ENDED
from tony.linux.thread_pools import to_thread
from tony.model.codec import Json, from_plain
from tony.model.health_check import HealthCheck
from tony.model.job_spec import JobSpec
from tony.model.state_directory import Home, JobFolder
from tony.model.web_link import WebLink
from tony.protocol.launch import JobCredentials
from tony.schedulers.capabilities import Capabilities
from tony.schedulers.client_interface import ApplicationStatus, ListEntry, LogSink, PreparedJob, Submitter
from tony.schedulers.job_store.hdfs_job_store import HdfsJobStore
from tony.schedulers.job_store.record_download import RecordDownload
from tony.schedulers.yarn.capabilities import CAPABILITIES
from tony.schedulers.yarn.client.application_reports import (
    LIFETIME,
    WAITING,
    describe_queue_position,
    explain_exceeded_limit,
    explain_missing_history,
    find_tracking_url,
    to_application_status,
    to_list_entry,
)
from tony.schedulers.yarn.client.application_tags import find_staging, is_ours
from tony.schedulers.yarn.client.artifacts import build_artifacts, collect_in_place, to_uploaded
from tony.schedulers.yarn.client.capacity import AWAY, ClusterCapacity, build_capacity
from tony.schedulers.yarn.client.feasibility import count_suitable_nodes, find_notices, find_unsatisfiable_requests
from tony.schedulers.yarn.client.submission_context import build_submission
from tony.schedulers.yarn.cluster_clients import ClusterClients, find_cluster
from tony.schedulers.yarn.launch_contexts import build_master_container
from tony.schedulers.yarn.launch_payload import JOB, PAGES, JobPayload, encode_payload
from tony.schedulers.yarn.placement_constraints import find_constraint_hints, find_unsatisfiable_constraints
from tony.schedulers.yarn.settings import YarnSettings, find_recorded_source, load_recorded_settings, read_settings
from tony.storage.cache.object_cache import Cache
from tony.storage.hdfs.cluster_cache import ClusterCache
from tony.storage.hdfs.delegation_tokens import collect_job_credentials

if TYPE_CHECKING:
    from tony.storage.staging.remote_files_interface import RemoteFiles

#: Nodes that are requested by name; more of a large cluster are not listed.
_MAX_NAMED_NODES = 200
#: Seconds for the ResourceManager to report the nodes' web addresses; else the configuration is used.
_NODES_TIMEOUT_SECONDS = 3.0
#: Seconds to kill an application whose submission was interrupted.
_WITHDRAW_SECONDS = 5.0
_log = logging.getLogger(__name__)


class YarnSubmitter(Submitter):
    """Jobs as applications of a YARN cluster."""

    capabilities: Capabilities = CAPABILITIES

    def __init__(self, home: Home) -> None:
        self._home = home
        self._new: ApplicationId | None = None
        self._cluster: ClusterClients | None = None
        self._nodes: dict[str, str] = {}
        self._node_count = 0
        self._capacity: ClusterCapacity | None = None

    # --- before ---------------------------------------------------------------------------------------------------

    def check(self, spec: JobSpec) -> Sequence[Problem]:
        settings, problems = read_settings(spec.scheduler_settings)
        problems = problems or find_unsatisfiable_constraints(spec, settings)
        if problems:
            return problems
        try:
            self._cluster = find_cluster(settings, self._home)
        except TonyError as error:
            return [Problem(key="scheduler.name", value="yarn", message=str(error))]
        self._capacity = asyncio.run(self._query_capacity(settings, self._cluster))
        return find_unsatisfiable_requests(spec, settings, self._capacity)

    def notices(self, spec: JobSpec) -> Sequence[str]:
        settings, _ = read_settings(spec.scheduler_settings)
        return (
            [*find_constraint_hints(spec, settings), *find_notices(spec, settings, self._capacity)]
            if self._capacity
            else ()
        )

    def check_health(self) -> Iterable[HealthCheck]:
        from tony.schedulers.yarn.client.health_checks import check_cluster  # late: only for `tony doctor`

        return check_cluster(read_settings({})[0], self._home)

    async def _query_capacity(self, settings: YarnSettings, cluster: ClusterClients) -> ClusterCapacity:
        """Query the cluster's capacity, all at once, and a new application id, which may stay unused.

        Raises:
            HadoopError: the ResourceManager does not respond, or refuses us.
        """
        async with cluster.applications() as client:
            new, types, labels, nodes, queue, root = await asyncio.gather(
                client.request_new_application(),
                client.list_resource_types(),
                client.list_labels(),
                client.nodes((NodeState.RUNNING, *AWAY)),
                client.fetch_queue(settings.queue, recursive=False),
                client.fetch_queue("root"),
            )
        self._new = new.id
        running = [node for node in nodes if node.state is NodeState.RUNNING]
        self._node_count = len(running)
        named = [node for node in running if node.id and node.id.host][:_MAX_NAMED_NODES]
        self._nodes = {node.id.host or "": node.rack or "" for node in named if node.id}
        return build_capacity(
            maximum=new.maximum,
            types=types,
            labels=labels,
            nodes=nodes,
            name=settings.queue,
            queue=queue,
            root=root,
        )

    def allocate_job_id(self) -> str | None:
        if self._new is None:
            raise SchedulerError("no application id has been requested from the ResourceManager")
        return ids.format_application(self._new)

    def render(self, job: PreparedJob) -> Json:
        from tony.schedulers.yarn.client.dry_run import render_dry_run  # late: only for --dry-run

        return render_dry_run(job.record)

    def remote_files(self, spec: JobSpec, others: Mapping[str, Mapping[str, object]]) -> RemoteFiles:
        from tony.storage.hdfs.hdfs_remote_files import HdfsFiles  # late: most jobs name no URI

        settings, _ = read_settings(spec.scheduler_settings)
        return HdfsFiles(self._cluster or find_cluster(settings, self._home), in_place=True)

    # --- submitting -----------------------------------------------------------------------------------------------

    async def submit(self, job: PreparedJob) -> None:
        settings, _ = read_settings(job.record.spec.scheduler_settings)
        cluster = self._cluster or find_cluster(settings, self._home)
        staging = cluster.build_path(settings.staging)
        uploader = ClusterCache(cluster.web_files(), cluster.files.uri, staging, "scheduler.yarn.staging")
        try:
            systems = ("", *settings.file_systems, *job.record.staged.file_systems)
            fetched_tokens = await collect_job_credentials(cluster.configuration, cluster.logins, systems)
            payload = await to_thread(self._provide, job, cluster, settings, uploader)
            if uploader.eviction_is_due:
                await _evict_old_objects(cluster, uploader)
        finally:
            uploader.close()
        application = ids.parse_application_id(job.record.job_id)
        tokens = TokenCredentials(
            tokens=fetched_tokens.tokens, secrets={**fetched_tokens.secrets, JOB: encode_payload(payload)}
        )
        archives = {**payload.archives, **({PAGES: payload.pages} if payload.pages else {})}
        container = build_master_container(job.record, settings, archives, payload.objects, tokens)
        # The user's own tokens may be in use elsewhere after the job has ended.
        context = build_submission(
            job.record, settings, application, container, cancel_tokens=not cluster.logins.credentials.tokens
        )
        async with cluster.applications() as client:
            try:
                await client.submit(context)
            except BaseException:
                # It may have been accepted, but the caller does not know of a job that could be killed.
                with contextlib.suppress(HadoopError, TimeoutError):
                    async with asyncio.timeout(_WITHDRAW_SECONDS):
                        await client.kill(application, "its submission was interrupted")
                raise

    def _provide(
        self, job: PreparedJob, cluster: ClusterClients, settings: YarnSettings, uploader: ClusterCache
    ) -> JobPayload:
        needs = build_artifacts(job.record, settings, Cache(job.home.cache))
        staging = cluster.build_path(settings.staging)
        found = {name: to_uploaded(file) for name, file in uploader.provide(needs.uploads).items()}
        credentials = from_plain(JobCredentials, json.loads(job.folder.credentials.read_text()), ignore_unknown=True)
        return JobPayload(
            record=job.record,
            credentials=credentials,
            archives={folder: found[request.name] for folder, request in needs.archives.items()},
            pages=found[needs.pages.name] if needs.pages else None,
            objects={**{digest: found[digest] for digest in needs.objects}, **collect_in_place(job.record.staged)},
            configuration=cluster.collect_needed_settings(),
            folder=f"{staging}/jobs/{job.record.job_id}",
            user=cluster.user,
            nodes=self._nodes,
            node_count=self._node_count,
            suitable_nodes=count_suitable_nodes(job.record.spec, settings, self._capacity) if self._capacity else {},
        )

    # --- after ----------------------------------------------------------------------------------------------------

    async def application_status(self, job_id: str) -> ApplicationStatus | None:
        report = await self._report(job_id)
        if report is None:
            return ApplicationStatus(alive=False, note="the ResourceManager no longer knows the application")
        folder = self._home.job(job_id)
        limit = explain_exceeded_limit(report, load_recorded_settings(folder), find_recorded_source(folder, LIFETIME))
        return replace(to_application_status(report), overdue=limit)

    async def list_jobs(self) -> Sequence[ListEntry]:
        settings = YarnSettings()
        async with find_cluster(settings, self._home).applications() as client:
            found = await client.list_applications(types=(settings.application_type,))
        return [job for job in map(to_list_entry, found) if job]

    async def fetch(self, folder: JobFolder) -> None:
        await to_thread(self._download(folder).fetch)
        if not folder.job.exists():
            report = await self._report(folder.job_id)
            staging = report and find_staging(report.tags)
            if staging:
                await to_thread(self._download(folder, staging).fetch)

    def find_logs_command(self, job_id: str) -> str:
        return f"yarn logs -applicationId {job_id}"

    async def page(self, job_id: str) -> str:
        report = await self._report(job_id)
        return find_tracking_url(report) if report else ""

    async def describe_foreign(self, job_id: str) -> str:
        report = await self._report(job_id)
        if report is None:
            return ""
        cluster = self._find_cluster(job_id)
        staging = cluster.build_path(find_staging(report.tags) or YarnSettings().staging)
        return explain_missing_history(report, cluster.user, f"{cluster.files.uri}{staging}/jobs/{job_id}")

    async def kill_foreign(self, job_id: str) -> bool:
        report = await self._report(job_id)
        if report is None or not is_ours(report) or report.state in ENDED:
            return False
        async with self._find_cluster(job_id).applications() as client:
            await client.kill(ids.parse_application_id(job_id), "killed by its user")
        return True

    async def _report(self, job_id: str) -> ApplicationReport | None:
        """Return the ResourceManager's report; None if it does not know the application."""
        async with self._find_cluster(job_id).applications() as client:
            try:
                return await client.report(ids.parse_application_id(job_id))
            except ApplicationNotFoundError:
                return None

    async def links(self, job_id: str, *, ended: bool) -> Sequence[WebLink]:
        from tony.schedulers.yarn.client.web_links import list_application_links  # late: only pages show them

        cluster = await to_thread(self._find_cluster, job_id)
        return list_application_links(cluster.configuration, job_id, ended=ended)

    async def container_links(
        self, job_id: str, containers: Mapping[str, str], *, user: str, ended: bool
    ) -> Mapping[str, Sequence[WebLink]]:
        from tony.schedulers.yarn.client.web_links import (  # late: only pages show them
            NodeAddress,
            list_container_links,
        )

        cluster = await to_thread(self._find_cluster, job_id)
        nodes: dict[str, NodeAddress] = {}
        with contextlib.suppress(HadoopError, TimeoutError):
            async with asyncio.timeout(_NODES_TIMEOUT_SECONDS), cluster.applications() as client:
                for node in await client.nodes():
                    if node.id and node.id.host:
                        found = NodeAddress(host=node.id.host, port=node.id.port or 0, web=node.http_address or "")
                        nodes[found.host] = found
        return {
            container: list_container_links(
                cluster.configuration,
                container,
                nodes.get(host) or NodeAddress(host=host),
                user or cluster.user,
                ended=ended,
            )
            for container, host in containers.items()
            if ids.is_of(container, job_id)
        }

    async def fetch_logs(
        self, folder: JobFolder, containers: Mapping[str, str], sink: LogSink, *, owner: str = ""
    ) -> None:
        from tony.schedulers.yarn.client.container_logs import ContainerLogs  # late: readers of aggregated logs

        ended = folder.summary.exists()
        await ContainerLogs(self._find_cluster(folder.job_id), folder.job_id, owner).fetch(
            containers, sink, ended=ended
        )

    def am_alive(self, folder: JobFolder) -> bool | None:
        return None  # YARN would have to be asked, which `application_status` does

    async def store_kill_request(self, folder: JobFolder) -> None:
        await to_thread(self._download(folder).store_request, folder.kill_request)

    async def queue_position(self, job_id: str) -> str:
        async with self._find_cluster(job_id).applications() as client:
            own = await client.report(ids.parse_application_id(job_id))
            return (
                describe_queue_position(own, await client.list_applications(states=WAITING))
                if own.state in WAITING
                else ""
            )

    async def sweep(self, folder: JobFolder) -> None:
        await self.withdraw(folder, "its application master is no longer running")

    async def withdraw(self, folder: JobFolder, reason: str) -> None:
        cluster = self._find_cluster(folder.job_id)
        async with cluster.applications() as client:
            with contextlib.suppress(ApplicationNotFoundError):
                await client.kill(ids.parse_application_id(folder.job_id), reason)
        await to_thread(self._download(folder).forget_secrets)

    def _download(self, folder: JobFolder, staging: str = "") -> RecordDownload:
        cluster = self._find_cluster(folder.job_id)
        store = f"{cluster.build_path(staging or load_recorded_settings(folder).staging)}/jobs/{folder.job_id}"
        return RecordDownload(HdfsJobStore(cluster, store), folder)

    def _find_cluster(self, job_id: str) -> ClusterClients:
        """Return the cluster of a job, according to its record or the environment."""
        if self._cluster is None:
            settings = load_recorded_settings(self._home.job(job_id))
            if settings.conf and not os.path.isdir(settings.conf):  # a folder on the submitting machine
                settings = replace(settings, conf=None)
            self._cluster = find_cluster(settings, self._home)
        return self._cluster


async def _evict_old_objects(cluster: ClusterClients, uploader: ClusterCache) -> None:
    """Remove old objects from the cluster's cache. A failure does not affect the job."""
    try:
        async with cluster.applications() as client:
            running = await client.list_applications(states=[state for state in ApplicationState if state not in ENDED])
        started = min((report.start_time or 0 for report in running), default=None)
        count = await to_thread(uploader.evict, started)
        _log.info("removed %d old objects from the cluster's cache", count)
    except HadoopError as error:
        _log.info("cannot remove old objects from the cluster's cache: %s", error)
