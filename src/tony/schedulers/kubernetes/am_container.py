"""The pod of an AM attempt, seen from within."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from tony import clock
from tony.errors import InfraError
from tony.kube.api_client import ApiClient
from tony.kube.denials import Denials
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.resources import PODS
from tony.kube.service_account import load_service_account
from tony.model.state_directory import Home, build_segment_name
from tony.retry import Backoff
from tony.schedulers.client_interface import ATTEMPTS_WITHIN, PreparedJob
from tony.schedulers.container_interface import AmContainer, JobLaunch
from tony.schedulers.job_store.job_objects import JOB_LABEL, PART_LABEL
from tony.schedulers.kubernetes import pod_status
from tony.schedulers.kubernetes.access_rules import AM_RULES, find_missing_rules, format_role_command
from tony.schedulers.kubernetes.allocator import KubernetesAllocator
from tony.schedulers.kubernetes.am_pod import forbid_replacement, is_pod_deleted
from tony.schedulers.kubernetes.executor_container import get_variable, read_secret
from tony.schedulers.kubernetes.history_location import open_own_history
from tony.schedulers.kubernetes.history_setting import is_in_s3
from tony.schedulers.kubernetes.job_secrets import delete_secrets
from tony.schedulers.kubernetes.launch_payload import JOB_KEY, POD_IP, POD_NAME, WORK, AmPayload
from tony.schedulers.kubernetes.manifests import MAX_AM_ATTEMPTS, TASK_PART
from tony.schedulers.kubernetes.pod_command import LOST_EXIT_CODE, REFUSED_EXIT_CODE
from tony.schedulers.kubernetes.settings import read_settings

#: Seconds for which the API server may be unavailable at the start.
_CLAIM_SECONDS = 60.0
_DELETED_EXIT_CODE = 1
#: Tries to end a job that no AM attempt continues.
_MAX_END_TRIES = 4
#: Files in the pod's volume, one for each AM attempt that has started in it.
_ATTEMPT_MARK = "am-attempt-"
_BACKOFF = Backoff(first=0.2, most=5.0, jitter=0.5)


class KubernetesAmContainer(AmContainer):
    """The pod of an AM attempt.

    Raises:
        PlatformError: this is no such pod.
    """

    def __init__(self) -> None:
        self._payload = read_secret(JOB_KEY, AmPayload)
        self._pod, self._host = get_variable(POD_NAME), get_variable(POD_IP)
        self._client = ApiClient(load_service_account(os.environ), give_up_seconds=0)  # its callers repeat requests
        settings, _ = read_settings(self._payload.record.spec.scheduler_settings)
        self._history_address = settings.history_address
        self._store = open_own_history(
            self._client, self._payload.record.job_id, self._payload.owner, self._history_address
        )
        self._attempt = 0

    def take_job(self) -> JobLaunch:
        record = self._payload.record
        self._check_rights()
        self._attempt = self._claim_attempt()
        # A container that is started again has the volume of the one before.
        home = Home(WORK / f"tony-home-{self._attempt}")
        return JobLaunch(record=record, credentials=self._payload.credentials, folder=home.job(record.job_id))

    def _check_rights(self) -> None:
        """Exit if the service account lacks a right, without which the job would wait for something for ever."""
        missing: Sequence[str] = ()
        denials = Denials()
        for pause in _BACKOFF:
            with contextlib.suppress(KubeError):  # the claim waits for the API server
                missing = find_missing_rules(self._client, AM_RULES)
            if not missing or denials.are_permanent():
                break
            time.sleep(pause)
        if missing:
            settings, _ = read_settings(self._payload.record.spec.scheduler_settings)
            account, namespace = settings.service_account, self._client.namespace
            text = f"service account {account} cannot {', '.join(missing)} in namespace {namespace}"
            self._fail_job(f"{text}: it needs its Role: {format_role_command(account, namespace)}")

    def _claim_attempt(self) -> int:
        """Return the number of this AM attempt; exit if there can be none."""
        give_up_at = clock.monotonic() + _CLAIM_SECONDS
        for pause in _BACKOFF:
            try:
                if is_pod_deleted(self._client, self._pod):  # a kubelet that was cut off starts its container again
                    print("its pod is being deleted: another AM attempt continues the job", file=sys.stderr)
                    sys.exit(_DELETED_EXIT_CODE)
                self._check_deaths()
                attempt = self._store.claim_attempt(build_segment_name)
                break
            except InfraError as error:
                is_last = clock.monotonic() + pause > give_up_at
                # A NameNode that has just become active may refuse a token for a moment.
                if self._store.is_permanent(error) and (is_last or isinstance(error, KubeApiError)):
                    self._fail_job(_explain_refusal(error, self._history_address))
                if is_last:
                    raise
            time.sleep(pause)
        if attempt > MAX_AM_ATTEMPTS:
            self._fail_job(f"the application master was started {MAX_AM_ATTEMPTS} times", LOST_EXIT_CODE)
        (WORK / f"{_ATTEMPT_MARK}{attempt}").touch()
        return attempt

    def _check_deaths(self) -> None:
        """Exit if too many AM attempts have died in this pod. Where it is evicted or lost, the next one has another."""
        starts = sorted(path.stat().st_mtime for path in WORK.glob(f"{_ATTEMPT_MARK}*"))
        now, allowed = clock.wall(), self._payload.record.spec.am_attempts
        deaths = sum(now - death < ATTEMPTS_WITHIN for death in [*starts, now][1:])
        if deaths >= allowed:
            text = f"{deaths} of {allowed} AM attempts (am_attempts) died within {ATTEMPTS_WITHIN / 60:g} minutes"
            (pod,) = self._client.list(PODS, name=self._pod).items or ({},)
            last = pod_status.explain_am_end(pod, "lastState", "it")
            self._fail_job(f"{text}; the last one: {last}" if last else text, LOST_EXIT_CODE)

    def _fail_job(self, reason: str, exit_code: int = REFUSED_EXIT_CODE) -> NoReturn:
        """Exit for good, with all programs: no other AM is to be started, unless the right to say so is missing."""
        print(reason, file=sys.stderr)
        for tries, pause in enumerate(_BACKOFF, 1):
            try:
                self._end_job()
                break
            except KubeError as error:
                if tries == _MAX_END_TRIES or (isinstance(error, KubeApiError) and not error.is_transient):
                    break
            time.sleep(pause)
        sys.exit(exit_code)

    def _end_job(self) -> None:
        job = self._payload.record.job_id
        labels = {JOB_LABEL: job, PART_LABEL: TASK_PART}
        forbid_replacement(self._client, job)
        for pod in self._client.list(PODS, labels=labels, metadata_only=True).items:
            self._client.delete(PODS, str(pod["metadata"]["name"]))
        delete_secrets(self._client, job)

    def create_allocator(self, job: PreparedJob) -> KubernetesAllocator:
        handler = logging.FileHandler(job.folder.am_log)  # the pod has it on standard error, too
        handler.setFormatter(logging.Formatter(clock.LOG_LINE))
        logging.getLogger().addHandler(handler)
        return KubernetesAllocator(job, self._payload, self._pod, self._host, self._client, self._store, self._attempt)


def _explain_refusal(error: InfraError, history_address: str) -> str:
    """Return why the job's history cannot be written."""
    if isinstance(error, KubeApiError) and error.is_denied:
        return f"{error}: the service account of the application master needs its Role"
    location = f" in {history_address} (scheduler.kubernetes.history)" if history_address else ""
    text = f"the job's history cannot be written{location}: {error}"
    if is_in_s3(history_address):
        text += ". The application master has credentials from the Secret scheduler.kubernetes.s3_secret"
    return text
