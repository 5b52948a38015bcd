"""Opens the job that a command names: of the local state directory, or with `--portal URL` of a portal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from tony.cli.options import F, home, job_id
from tony.cli.terminal.output import warn
from tony.history.job_record import read_summary
from tony.model.job_report import JobReport
from tony.model.state_directory import Home, JobFolder

if TYPE_CHECKING:
    from tony.jobs.directory.view import DirectoryJobView
    from tony.jobs.job_view import JobView
    from tony.jobs.portal_client.client import PortalClient


def portal_option(function: F) -> F:
    """Add the option --portal."""
    return click.option(
        "--portal", metavar="URL", help="Query this portal instead of this machine; see also: tony login."
    )(function)


@contextmanager
def open_portal(text: str) -> Iterator[PortalClient]:
    """Connect to the portal with this address.

    Raises:
        UserError: this is not an address.
    """
    from tony.jobs.portal_client.client import PortalClient  # late: rarely needed, and it loads TLS

    portal = PortalClient.from_address(home(), text)
    try:
        yield portal
    finally:
        portal.close()


def find_job(job: str) -> DirectoryJobView:
    """Find a job of the local state directory.

    Raises:
        UnknownJobError: there is no such job.
    """
    from tony.jobs.directory.view import DirectoryJobView  # late: it loads asyncio

    return DirectoryJobView.from_home(*job_id(job), warn)


@contextmanager
def open_job(job: str, portal: str | None) -> Iterator[JobView]:
    """Find a job, at a portal if the address of one is given.

    Raises:
        UserError: this is not an address.
        UnknownJobError: there is no such job.
    """
    if portal is None:
        yield find_job(job)
        return
    with open_portal(portal) as portal_client:
        from tony.jobs.portal_client.view import PortalJobView  # late: only with --portal

        yield PortalJobView(portal_client, portal_client.resolve(job), warn)


def load_report(home: Home, job_id: str) -> JobReport:
    """Return the status of a job, like `tony.jobs.status.job_status.load_report`.

    For a job that has ended, its summary is enough: the modules that talk to a running job are not imported.
    """
    ended = read_summary(home.job(job_id))
    if ended is not None:
        return ended
    import asyncio  # late: jobs that have ended are read without it

    return asyncio.run(_load_report(home, job_id))


async def _load_report(home: Home, job_id: str) -> JobReport:
    from tony.jobs.remote.log_fetcher import fetch_failed_output  # late, as above
    from tony.jobs.status import job_status

    report = await job_status.load_report(home, job_id)
    if report.state.ended:
        await fetch_failed_output(home, report)
    return report


def fetch_job_dir(home: Home, job_id: str) -> JobFolder:
    """Return the job directory after fetching what has been written to it on other machines."""
    import asyncio  # late: jobs that have ended are read without it

    from tony.jobs.status.remote_job_sync import refresh

    asyncio.run(refresh(home, job_id))
    return home.job(job_id)
