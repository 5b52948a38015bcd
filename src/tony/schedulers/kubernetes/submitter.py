"""The client's half of the Kubernetes scheduler: checks, creates the objects of a job, finds the job again.

The Job is created suspended and owns everything else; it is released last. So an interrupted submission leaves nothing
that runs, and deleting the Job deletes all; a later submission in the namespace does that (`incomplete_jobs`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tony import clock
from tony.errors import Problem, SchedulerError, UncertainSubmissionError
from tony.kube import service_account
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.kubeconfig import KubeconfigError
from tony.kube.resources import JOBS, PODS
from tony.linux.thread_pools import to_thread
from tony.model.codec import Json, from_plain
from tony.model.health_check import HealthCheck
from tony.model.job_spec import JobSpec
from tony.model.log_file_tail import LogFileTail
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.model.strict_json import loads
from tony.protocol.launch import JobCredentials
from tony.rpc.am_address import TlsAddress, parse
from tony.schedulers.capabilities import Capabilities
from tony.schedulers.client_interface import ApplicationStatus, ListEntry, LogSink, PreparedJob, Submitter
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.job_store.job_objects import JOB_LABEL, MANAGED_LABELS, PART_LABEL
from tony.schedulers.job_store.output_store import read_tails
from tony.schedulers.job_store.record_download import RecordDownload
from tony.schedulers.kubernetes import pod_status
from tony.schedulers.kubernetes.access_rules import is_missing
from tony.schedulers.kubernetes.am_start_failure import describe_pending, find_am_start_failure, has_lasted
from tony.schedulers.kubernetes.cancellation import Cancellation
from tony.schedulers.kubernetes.capabilities import CAPABILITIES
from tony.schedulers.kubernetes.cluster_clients import create_client, find_cluster_settings, localize_record
from tony.schedulers.kubernetes.gangs import find_gang_problems
from tony.schedulers.kubernetes.history_location import HistoryReader, create_history
from tony.schedulers.kubernetes.incomplete_jobs import delete_abandoned_jobs, is_incomplete
from tony.schedulers.kubernetes.job_checks import NO_RUNTIME, build_trial_pod, compare_with_cluster, find_pod_refusal
from tony.schedulers.kubernetes.job_end import build_end_patch, build_list_entry, find_end, find_requested_end
from tony.schedulers.kubernetes.job_files import find_files
from tony.schedulers.kubernetes.job_secrets import (
    AM_SECRET,
    ENVIRONMENT_SECRET,
    EXECUTOR_SECRET,
    HADOOP_SECRET,
    create_secret,
    delete_secrets,
)
from tony.schedulers.kubernetes.launch_payload import CREDENTIALS_KEY, JOB_KEY, AmPayload, encode_payload
from tony.schedulers.kubernetes.manifests import (
    AM_PART,
    RELEASE,
    TASK_PART,
    build_job,
)
from tony.schedulers.kubernetes.pod_command import FAILED_EXIT_CODE, LOST_EXIT_CODE, REFUSED_EXIT_CODE
from tony.schedulers.kubernetes.pod_settings import find_pod_problems
from tony.schedulers.kubernetes.port_forward import forward_port
from tony.schedulers.kubernetes.settings import KubernetesSettings, read_settings
from tony.schedulers.settings_schema import load_recorded_values
from tony.storage.cache.object_cache import Cache

if TYPE_CHECKING:
    from tony.schedulers.kubernetes.hadoop_access import HadoopAccess
    from tony.storage.staging.remote_files_interface import RemoteFiles

_MAX_ADDRESS_BYTES = 1 << 16
#: Seconds for which a submission that has begun waits for an API server that cannot be reached.
_SUBMISSION_GIVE_UP_SECONDS = 10.0


class KubernetesSubmitter(Submitter):
    """Jobs as Kubernetes Jobs of one namespace."""

    capabilities: Capabilities = CAPABILITIES

    def __init__(self, home: Home) -> None:
        self._home = home
        self._histories = HistoryReader(home)
        self._notices: Sequence[str] = ()
        self._has_unrenewed_tokens = False

    # --- before ---------------------------------------------------------------------------------------------------

    def check(self, spec: JobSpec) -> Sequence[Problem]:
        settings, problems = read_settings(spec.scheduler_settings)
        problems = problems or [
            *find_pod_problems(spec, settings),
            *find_gang_problems(spec, settings),
            *self._histories.find_problems(settings.history_address),
        ]
        if problems:
            return problems
        missing = [name for name, role in spec.effective_roles.items() if not (role.image or settings.image)]
        if find_spec("websockets") is None:
            text = "needs the package websockets: pip install 'tony-jobs[kubernetes]'"
            return [Problem(key="scheduler.name", value="kubernetes", message=text)]
        if missing or not settings.image:
            text = "Kubernetes needs an image with Python 3.11 or later for all pods, that of the AM included"
            return [Problem(key="scheduler.kubernetes.image", message=f"{text}. Set it, such as python:3.12-slim.")]
        try:
            with contextlib.closing(create_client(settings)) as client:
                found = compare_with_cluster(client, spec, settings)
                self._notices = found.notices
                return found.problems
        except KubeconfigError as error:
            return error.problems
        except KubeError as error:
            return [Problem(key="scheduler.name", value="kubernetes", message=str(error))]

    def notices(self, spec: JobSpec) -> Sequence[str]:
        return self._notices

    def check_health(self) -> Iterable[HealthCheck]:
        from tony.schedulers.kubernetes.health_checks import check_cluster  # late: only for `tony doctor`

        return check_cluster()

    def pin_cluster(self, spec: JobSpec) -> JobSpec:
        settings, _ = read_settings(spec.scheduler_settings)
        return replace(spec, scheduler_settings={**spec.scheduler_settings, **find_cluster_settings(settings)})

    def render(self, job: PreparedJob) -> Json:
        record = job.record
        settings, _ = read_settings(record.spec.scheduler_settings)
        return {
            "scheduler": "kubernetes",
            "job": build_job(record, settings, NO_RUNTIME),
            "pods": {role: build_trial_pod(record, role, settings) for role in record.spec.effective_roles},
        }

    def remote_files(self, spec: JobSpec, others: Mapping[str, Mapping[str, object]]) -> RemoteFiles:
        from tony.storage.hdfs.hdfs_clients import find_hdfs  # late: most jobs name no URI
        from tony.storage.hdfs.hdfs_remote_files import HdfsFiles

        return HdfsFiles(find_hdfs(self._home, others), in_place=True)

    # --- submitting -----------------------------------------------------------------------------------------------

    async def submit(self, job: PreparedJob) -> None:
        settings, _ = read_settings(job.record.spec.scheduler_settings)
        stop = Cancellation()
        work = asyncio.ensure_future(to_thread(self._submit, job, settings, stop))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([work])
            if isinstance(error := work.exception(), UncertainSubmissionError):
                raise error from None
            if error:
                raise
            # Otherwise it was complete before: the job runs.

    def _submit(self, job: PreparedJob, settings: KubernetesSettings, stop: Cancellation) -> None:
        name = job.record.job_id
        cache = Cache(job.home.cache)
        files = find_files(job.record, cache, settings)
        runtime = (files.runtime.digest, files.pieces[files.runtime.digest])
        plug_in = (files.plug_in.digest, files.pieces[files.plug_in.digest]) if files.plug_in else None
        client = create_client(settings, give_up_seconds=_SUBMISSION_GIVE_UP_SECONDS)
        with contextlib.closing(client), contextlib.ExitStack() as undo:
            access = _fetch_hadoop_access(job, settings, client)
            if access:
                undo.callback(access.cancel_fetched_tokens)
                self._has_unrenewed_tokens = access.is_fetched and not settings.token_renewer
            created = client.create_unique(JOBS, build_job(job.record, settings, runtime, plug_in))
            owner, is_released = str(created["metadata"]["uid"]), False
            undo.callback(_delete_job, client, name, owner)
            create_history(access, settings.history_address, name, undo)
            try:
                with files.provide(client, job, settings, created, access, stop) as images:
                    content = json.loads(job.folder.credentials.read_text())
                    payload = AmPayload(
                        record=replace(job.record, framework_path=None),  # pods have it on their path
                        credentials=from_plain(JobCredentials, content, ignore_unknown=True),
                        runtime=runtime[0],
                        objects=files.pieces,
                        owner=owner,
                        images=images,
                        plug_in=plug_in[0] if plug_in else "",
                    )
                    _create_secrets(client, payload, access)
                    stop.check()
                    is_released = True  # or not: the answer may be lost
                    client.patch(JOBS, name, dict(RELEASE))
                with contextlib.suppress(KubeError):  # the next submission does it
                    delete_abandoned_jobs(client, created)
                stop.check()
            except BaseException as error:
                if is_released and not _delete_job(client, name, owner):
                    undo.pop_all()
                    text = f"job {name} may be running. See: tony status {name}; end it: tony kill {name}"
                    raise UncertainSubmissionError(f"{error}; {text}") from error
                raise
            undo.pop_all()

    def find_detached_notice(self) -> str:
        if not self._has_unrenewed_tokens:
            return ""
        text = "the job's delegation tokens of HDFS are not renewed, and expire after a day on most clusters"
        return f"{text}. Follow the job (tony attach), or set scheduler.kubernetes.token_renewer."

    # --- after ----------------------------------------------------------------------------------------------------

    def am_alive(self, folder: JobFolder) -> bool | None:
        return None  # the API server would have to be asked, which `application_status` does

    async def application_status(self, job_id: str) -> ApplicationStatus | None:
        return await to_thread(self._find_status, job_id)

    def _find_status(self, job_id: str) -> ApplicationStatus:
        with contextlib.closing(self._create_client(job_id)) as client:
            try:
                job = client.get(JOBS, job_id)
            except KubeApiError as error:
                if error.is_missing:
                    note = "its Job was removed from the cluster, by a user or after `ttl`: its end is not known"
                    deletion = "its Job was deleted from the cluster, by a user or after `ttl`"
                    return ApplicationStatus(alive=False, result=JobState.FAILED, note=note, deletion=deletion)
                raise
            pods = _list_am_pods(client, job_id)
            am = _read_am_address(client, job_id)
            has_pod = not all(map(pod_status.has_ended, pods))
            end = find_end(job) or (None if has_pod else find_requested_end(job, clock.wall()))
            is_waiting = not (has_pod or end or is_incomplete(job))
            refusal = find_pod_refusal(client, job) if is_waiting else ""
        if end and end.state is not JobState.FAILED:
            return ApplicationStatus(alive=False, result=end.state, note=end.text, ended=end.at)
        # If the AM could not end the Job, the next one is started in vain.
        at = end.at if end else None
        if note := pod_status.find_failed_exit(pods, FAILED_EXIT_CODE):
            return ApplicationStatus(alive=False, result=JobState.FAILED, note=note, ended=at)
        for code in (REFUSED_EXIT_CODE, LOST_EXIT_CODE):
            if note := pod_status.find_failed_exit(pods, code):
                is_refused = code == REFUSED_EXIT_CODE
                return ApplicationStatus(alive=False, note=note, given_up=True, is_unstartable=is_refused, ended=at)
        if end:
            note = pod_status.explain_am_end(pods[-1]) if pods else ""
            return ApplicationStatus(alive=False, note=note or end.text, given_up=True, ended=end.at)
        if is_incomplete(job):
            return ApplicationStatus(alive=True, note="its submission is not complete, or was interrupted")
        pod = _find_running_pod(pods)
        note = describe_pending(pod) or pod_status.explain_restart(pod) if pod else refusal
        # A pod that could not start may have ended.
        failure = find_am_start_failure(pods[-1]) if pods and not am.address else None
        if pods and has_lasted(self._home.job(job_id), str(pods[-1]["metadata"].get("uid")), failure) and failure:
            now = clock.wall()
            return ApplicationStatus(alive=False, note=failure.text, given_up=True, is_unstartable=True, ended=now)
        return replace(am, note=note, host=str(pod["spec"].get("nodeName") or "") if pod else "")

    async def fetch(self, folder: JobFolder) -> None:
        await to_thread(self._fetch, folder)

    def _fetch(self, folder: JobFolder) -> None:
        with contextlib.closing(self._create_client(folder.job_id)) as client:
            localize_job = partial(localize_record, job_id=folder.job_id, settings=self._read_settings(folder.job_id))
            RecordDownload(self._histories.open_history(client, folder.job_id), folder, localize_job).fetch()

    async def renew_tokens(self, folder: JobFolder, on_trouble: Callable[[str], None]) -> None:
        from tony.schedulers.kubernetes.job_tokens import renew_for_followed_job  # late: few jobs use HDFS

        with contextlib.closing(self._create_client(folder.job_id)) as client:
            await renew_for_followed_job(client, self._home, folder.job_id, on_trouble)

    async def dial(self, folder: JobFolder, address: str) -> socket.socket:
        return await to_thread(self._dial, folder, address)

    def _dial(self, folder: JobFolder, address: str) -> socket.socket:
        target = parse(address)
        if not isinstance(target, TlsAddress):
            raise ConnectionRefusedError("the application master is not reached by TLS")
        client, pod = self._create_client(folder.job_id), None
        try:
            pod = _find_running_pod(_list_am_pods(client, folder.job_id))
            if pod is None:
                raise ConnectionRefusedError("the application master has no pod")
            return forward_port(client, str(pod["metadata"]["name"]), target.port)
        except KubeError as error:
            is_starting = pod is not None and (pod.get("status") or {}).get("phase") == "Pending"
            what = f"the application master of {folder.job_id} is being started: " if is_starting else ""
            raise OSError(f"{what}{error}") from error
        finally:
            client.close()

    async def sweep(self, folder: JobFolder) -> None:
        await to_thread(self._withdraw, folder.job_id, "")

    async def withdraw(self, folder: JobFolder, reason: str) -> None:
        await to_thread(self._withdraw, folder.job_id, reason)

    def _withdraw(self, job_id: str, reason: str) -> None:
        """End the Job, which stops the AM, and delete the pods of tasks, and the Secrets."""
        with contextlib.closing(self._create_client(job_id)) as client:
            try:
                job = client.patch(JOBS, job_id, build_end_patch(reason))
                if is_incomplete(job):  # it is suspended, so it would never end
                    _delete_job(client, job_id, str(job["metadata"]["uid"]))
            except KubeApiError as error:
                if not error.is_missing:
                    raise
            client.delete_collection(PODS, labels={JOB_LABEL: job_id, PART_LABEL: TASK_PART})
            delete_secrets(client, job_id)

    async def store_kill_request(self, folder: JobFolder) -> None:
        await to_thread(self._store_kill_request, folder)

    def _store_kill_request(self, folder: JobFolder) -> None:
        with contextlib.closing(self._create_client(folder.job_id)) as client:
            owner = str(client.get(JOBS, folder.job_id)["metadata"]["uid"])
            RecordDownload(ConfigMapJobStore(client, folder.job_id, owner), folder).store_request(folder.kill_request)

    async def list_jobs(self) -> Sequence[ListEntry]:
        return await to_thread(self._list_jobs)

    def _list_jobs(self) -> Sequence[ListEntry]:
        with contextlib.closing(create_client(KubernetesSettings())) as client:
            found = client.list(JOBS, labels=MANAGED_LABELS).items
        return [build_list_entry(job) for job in found if not is_incomplete(job)]

    async def describe_foreign(self, job_id: str) -> str:
        return await to_thread(self._describe_foreign, job_id)

    def _describe_foreign(self, job_id: str) -> str:
        with contextlib.closing(self._create_client(job_id)) as client:
            if is_missing(client, JOBS, job_id):
                return ""
        status = self._find_status(job_id)
        state = "is not running yet" if status.alive else "has ended"
        return f"job {job_id} {state}, and nothing of it is recorded{status.note and f': {status.note}'}"

    async def kill_foreign(self, job_id: str) -> bool:
        return await to_thread(self._kill_foreign, job_id)

    def _kill_foreign(self, job_id: str) -> bool:
        with contextlib.closing(self._create_client(job_id)) as client:
            (job,) = client.list(JOBS, labels=MANAGED_LABELS, name=job_id).items or (None,)
        if job is None or find_end(job):
            return False
        self._withdraw(job_id, "killed by its user")
        return True

    async def fetch_logs(
        self, folder: JobFolder, containers: Mapping[str, str], sink: LogSink, *, owner: str = ""
    ) -> None:
        for tail in await to_thread(self._read_tails, folder.job_id):
            sink.put_tail(tail)

    def _read_tails(self, job_id: str) -> Sequence[LogFileTail]:
        client = contextlib.closing(self._create_client(job_id))
        with client as connected, contextlib.closing(self._histories.open_history(connected, job_id)) as store:
            if not store.list() and is_missing(connected, JOBS, job_id):
                raise SchedulerError("the job's objects were removed from the cluster, and with them its output")
            return read_tails(store)

    def _read_settings(self, job_id: str) -> KubernetesSettings:
        settings, _ = read_settings(load_recorded_values(self._home.job(job_id)))
        if settings.kubeconfig == service_account.MOUNT and not settings.kubeconfig.exists():
            text = (
                "was submitted with the service account of a pod, and can be reached from such pods of its cluster only"
            )
            raise SchedulerError(f"{job_id} {text}; to end it: kubectl delete job {job_id}")
        if settings.kubeconfig and not settings.kubeconfig.exists():  # another file's context may be another cluster
            text = (
                f"{settings.kubeconfig}, with which {job_id} was submitted, is gone. Put it there again; if the cluster"
            )
            raise SchedulerError(f"{text} is gone, too, so is the job. To end it: kubectl delete job {job_id}")
        return settings

    def _create_client(self, job_id: str) -> ApiClient:
        try:
            return create_client(self._read_settings(job_id))
        except KubeconfigError as error:
            raise SchedulerError(str(error)) from error


def _fetch_hadoop_access(job: PreparedJob, settings: KubernetesSettings, client: ApiClient) -> HadoopAccess | None:
    """Return the access of a job to the file systems that it uses, with new tokens; None if it uses none."""
    if not (systems := settings.list_file_systems(job.record.staged)):
        return None
    from tony.schedulers.kubernetes.job_tokens import fetch_access  # late: few jobs use HDFS

    return fetch_access(job, settings, systems, client)


def _create_secrets(client: ApiClient, payload: AmPayload, access: HadoopAccess | None) -> None:
    record, owner = payload.record, payload.owner
    create_secret(client, record.job_id, AM_SECRET, owner, {JOB_KEY: encode_payload(payload)})
    credentials = {CREDENTIALS_KEY: encode_payload(payload.credentials.executors)}
    create_secret(client, record.job_id, EXECUTOR_SECRET, owner, credentials)
    if variables := {key: value.encode() for key, value in record.spec.container_env.items()}:
        create_secret(client, record.job_id, ENVIRONMENT_SECRET, owner, variables)
    if access:
        create_secret(client, record.job_id, HADOOP_SECRET, owner, access.encode())


def _delete_job(client: ApiClient, name: str, uid: str) -> bool:
    """Delete a Job whose submission has failed, and all that it owns; return False if it may still be there."""
    try:
        client.delete(JOBS, name, uid=uid)
    except KubeError:
        return False
    return True


def _list_am_pods(client: ApiClient, job_id: str) -> Sequence[Object]:
    """Return the pods of all AM attempts, oldest first."""
    found = client.list(PODS, labels={JOB_LABEL: job_id, PART_LABEL: AM_PART}).items
    return sorted(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))


def _find_running_pod(pods: Sequence[Object]) -> Object | None:
    """Return the newest pod that has not ended."""
    running = [pod for pod in pods if not pod_status.has_ended(pod) and not pod["metadata"].get("deletionTimestamp")]
    return running[-1] if running else None


def _read_am_address(client: ApiClient, job_id: str) -> ApplicationStatus:
    """Return where the AM listens, as it has written it; without an address if it has not yet."""
    stored = ConfigMapJobStore(client, job_id).read("am.json", 0, _MAX_ADDRESS_BYTES)
    try:
        found: Any = loads(stored or b"{}")
        address = str(found.get("address", ""))
        if not isinstance(parse(address), TlsAddress):  # anyone who may write ConfigMaps can have written it
            return ApplicationStatus(alive=True)
        attempt = int(found.get("attempt", 0))
        return ApplicationStatus(alive=True, address=address, attempt=attempt, dialed_by="kubernetes")
    except (ValueError, TypeError, AttributeError):
        return ApplicationStatus(alive=True)
