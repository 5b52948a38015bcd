"""Find out why the ResourceManager ended this AM attempt; it tells clients, not the AM itself."""

from __future__ import annotations

import asyncio
import logging

from tony.errors import AttemptLost, InfraError, NotInCharge, Overdue
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.hadoop.remote_text import escape_text
from tony.hadoop.wire.reports import ApplicationReport, ApplicationState
from tony.hadoop.yarn.am_rm_client import AttemptOver
from tony.hadoop.yarn.application_client import ENDED
from tony.schedulers.yarn.client.lifetime_diagnostics import KEY as LIFETIME
from tony.schedulers.yarn.client.lifetime_diagnostics import overdue
from tony.schedulers.yarn.cluster.cluster_clients import ClusterClients
from tony.schedulers.yarn.container_env import ContainerEnv
from tony.schedulers.yarn.launch_payload import JobPayload
from tony.schedulers.yarn.settings import read_settings

#: Seconds to wait for YARN's reason, and between two requests.
_REASON_SECONDS = 5.0
_POLL_SECONDS = 0.1
_log = logging.getLogger(__name__)


async def find_termination_reason(
    error: AttemptOver, configuration: Configuration, payload: JobPayload, container_env: ContainerEnv
) -> str:
    """Return YARN's diagnostics if a user killed the application through YARN.

    If YARN cannot be asked (an AM without a Kerberos ticket on some secure clusters), another AM attempt may have the
    job. If none has, YARN itself stops what is left, and the next reader of the history closes it with YARN's
    diagnostics.

    Raises:
        NotInCharge: another AM attempt has the job, or may have it.
        AttemptLost: there will be no other; YARN considers our node lost.
        Overdue: the application exceeded its lifetime.
    """
    try:
        async with asyncio.timeout(_REASON_SECONDS):
            report = await _final_report(configuration, payload, container_env)
    except (InfraError, TimeoutError) as unknown:
        raise NotInCharge(f"{error}; reason unknown: {str(unknown) or 'no response in time'}") from error
    if _attempt_number(report) > container_env.attempt or report.state not in (
        ApplicationState.KILLED,
        ApplicationState.FAILED,
    ):
        raise NotInCharge(f"AM attempt {_attempt_number(report)} now runs the job") from error
    settings, _ = read_settings(payload.record.spec.scheduler_settings)
    limit = overdue(report, settings, payload.record.sources.get(LIFETIME))
    if limit:
        raise Overdue(limit) from error
    diagnostics = "" if report.diagnostics in ("", "N/A") else " ".join(escape_text(report.diagnostics).split())
    if report.state is not ApplicationState.KILLED:
        raise AttemptLost(
            "YARN failed the application because its application master is lost, usually with its node"
            f"{f': {diagnostics}' if diagnostics else ''}".rstrip(" .")
            + ". Submit the job again"
        ) from error
    return diagnostics or str(error)


async def _final_report(
    configuration: Configuration, payload: JobPayload, container_env: ContainerEnv
) -> ApplicationReport:
    """Return YARN's report once it has decided; for an application that is being killed that takes a moment."""
    application = ids.application_id(payload.record.job_id)
    cluster = ClusterClients.of(configuration, {"HADOOP_USER_NAME": payload.user}, container_env.credentials)
    async with cluster.applications() as client:
        while True:
            report = await client.report(application)
            if report.state in ENDED or _attempt_number(report) > container_env.attempt:
                return report
            await asyncio.sleep(_POLL_SECONDS)


def _attempt_number(report: ApplicationReport) -> int:
    """Return the number of the latest AM attempt that YARN knows."""
    return (report.current_attempt and report.current_attempt.number) or 0
