"""Why YARN wants a master no more: it tells the master the same whatever it was, but not others."""

from __future__ import annotations

import asyncio
import logging

from tony.errors import AttemptLost, InfraError, NotInCharge, Overdue
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.hadoop.remote_text import shown
from tony.hadoop.wire.reports import ApplicationReport, ApplicationState
from tony.hadoop.yarn.am_rm_client import AttemptOver
from tony.hadoop.yarn.application_client import ENDED
from tony.schedulers.yarn.application_lifetime import KEY as LIFETIME
from tony.schedulers.yarn.application_lifetime import overdue
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.container_env import ContainerEnv
from tony.schedulers.yarn.launch_payload import JobPayload
from tony.schedulers.yarn.settings import read_settings

#: Seconds for YARN to tell why it wants us no more, and between two questions.
_ASKED, _ASK_AGAIN = 5.0, 0.1
_log = logging.getLogger(__name__)


async def find_termination_reason(
    error: AttemptOver, configuration: Configuration, papers: JobPayload, inside: ContainerEnv
) -> str:
    """Somebody had YARN end the application: in its words.

    Where it cannot be asked, as on clusters that know only its owner by a ticket, another attempt may have the job. If
    none has, YARN itself ends what is left, and whoever reads the job's record closes it with YARN's words.

    Raises:
        NotInCharge: another attempt has the job, or may have it.
        AttemptLost: there will be no other; YARN has lost our node, or thinks so.
        Overdue: its time was over.
    """
    try:
        async with asyncio.timeout(_ASKED):
            report = await _last_word(configuration, papers, inside)
    except (InfraError, TimeoutError) as unknown:
        raise NotInCharge(f"{error}; why is not known: {str(unknown) or 'no answer in time'}") from error
    if _number(report) > inside.attempt or report.state not in (ApplicationState.KILLED, ApplicationState.FAILED):
        raise NotInCharge(f"attempt {_number(report)} of the application master has the job") from error
    settings, _ = read_settings(papers.record.spec.scheduler_settings)
    limit = overdue(report, settings, papers.record.sources.get(LIFETIME))
    if limit:
        raise Overdue(limit) from error
    said = "" if report.diagnostics in ("", "N/A") else " ".join(shown(report.diagnostics).split())
    if report.state is not ApplicationState.KILLED:
        raise AttemptLost(
            "YARN has given up the application master, as it does when it misses its node, and the job with "
            f"it{f': {said}' if said else ''}".rstrip(" .")
            + ". Submit it again"
        ) from error
    return said or str(error)


async def _last_word(configuration: Configuration, papers: JobPayload, inside: ContainerEnv) -> ApplicationReport:
    """What YARN tells of the application when it has decided; of one that is to be killed that takes a moment."""
    application = ids.application_id(papers.record.job_id)
    cluster = ClusterClients.of(configuration, {"HADOOP_USER_NAME": papers.user}, inside.credentials)
    async with cluster.applications() as client:
        while True:
            report = await client.report(application)
            if report.state in ENDED or _number(report) > inside.attempt:
                return report
            await asyncio.sleep(_ASK_AGAIN)


def _number(report: ApplicationReport) -> int:
    """Of the attempt that YARN knows last."""
    return (report.current_attempt and report.current_attempt.number) or 0
