"""One AM attempt on YARN: its job, its container and its cluster; and why YARN ended it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

from tony.errors import AttemptLostError, AttemptSupersededError, InfraError, TimeLimitExceededError
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.hadoop.wire.application_client import ApplicationReport, ApplicationState
from tony.hadoop.yarn.am_rm_client import AttemptEndedError
from tony.hadoop.yarn.application_client import ENDED
from tony.model.job_spec import JobSpec
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.yarn.client.application_reports import LIFETIME, explain_exceeded_limit, format_diagnostics
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.containers import ContainerEnv
from tony.schedulers.yarn.launch_payload import JobPayload
from tony.schedulers.yarn.settings import YarnSettings, read_settings

#: Seconds to wait for YARN's reason, and between two requests.
_REASON_SECONDS = 5.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class AmAttempt:
    """One AM attempt.

    Attributes:
        payload: the launch payload from the client.
        container: the AM's own container.
    """

    job: PreparedJob
    payload: JobPayload
    container: ContainerEnv
    settings: YarnSettings
    cluster: ClusterClients

    @classmethod
    def from_container(cls, job: PreparedJob, payload: JobPayload, container: ContainerEnv) -> Self:
        """Return the AM attempt that runs in a container."""
        settings, _ = read_settings(job.record.spec.scheduler_settings)
        configuration = Configuration.load(None, {}, given=payload.configuration)
        cluster = ClusterClients.from_configuration(
            configuration, {"HADOOP_USER_NAME": payload.user}, container.credentials
        )
        return cls(job=job, payload=payload, container=container, settings=settings, cluster=cluster)

    @property
    def spec(self) -> JobSpec:
        """The job."""
        return self.job.record.spec

    @property
    def number(self) -> int:
        """Its number, from 1."""
        return self.container.attempt


async def find_termination_reason(error: AttemptEndedError, attempt: AmAttempt) -> str:
    """Return YARN's diagnostics if a user killed the application through YARN.

    If YARN cannot be asked (an AM without a Kerberos ticket on some secure clusters), another AM attempt may have the
    job. If none has, YARN itself stops what is left, and the next reader of the history closes it with YARN's
    diagnostics.

    Raises:
        AttemptSupersededError: another AM attempt has the job, or may have it.
        AttemptLostError: there will be no other; YARN considers our node lost.
        TimeLimitExceededError: the application exceeded its lifetime.
    """
    try:
        async with asyncio.timeout(_REASON_SECONDS):
            report = await _wait_for_final_report(attempt)
    except (InfraError, TimeoutError) as unknown:
        raise AttemptSupersededError(f"{error}; reason unknown: {str(unknown) or 'no response in time'}") from error
    latest = _find_latest_attempt(report)
    if latest > attempt.number or report.state not in (ApplicationState.KILLED, ApplicationState.FAILED):
        raise AttemptSupersededError(f"AM attempt {latest} now runs the job") from error
    limit = explain_exceeded_limit(report, attempt.settings, attempt.job.record.sources.get(LIFETIME))
    if limit:
        raise TimeLimitExceededError(limit) from error
    diagnostics = " ".join(format_diagnostics(report).split())
    if report.state is not ApplicationState.KILLED:
        raise AttemptLostError(
            "YARN failed the application because its application master is lost, usually with its node"
            f"{f': {diagnostics}' if diagnostics else ''}".rstrip(" .")
            + ". Submit the job again"
        ) from error
    return diagnostics or str(error)


async def _wait_for_final_report(attempt: AmAttempt) -> ApplicationReport:
    """Return YARN's report once it has decided; for an application that is being killed that takes a moment."""
    application = ids.parse_application_id(attempt.job.record.job_id)
    async with attempt.cluster.applications() as client:
        while True:
            report = await client.report(application)
            if report.state in ENDED or _find_latest_attempt(report) > attempt.number:
                return report
            await asyncio.sleep(_POLL_SECONDS)


def _find_latest_attempt(report: ApplicationReport) -> int:
    """Return the number of the latest AM attempt that YARN knows."""
    return (report.current_attempt and report.current_attempt.number) or 0
