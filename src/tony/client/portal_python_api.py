"""The Python API for the jobs of a portal, of any user and machine.

    portal = tony.Portal("https://jobs.example.org")
    for head in portal.jobs(state="failed", tag="nightly"):
        print(head.job, head.reason)
    print(portal.job("last").status().state)

Blocking; from a running event loop call it through `asyncio.to_thread`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from tony.client.python_api import JobMethods, make_blocking
from tony.jobs.portal_client.client import PortalClient
from tony.jobs.portal_client.known_portals import KeptToken, load_stored_token, normalize_address
from tony.jobs.portal_client.view import PortalJobView
from tony.jobs.state_dir import find_state_dir
from tony.model.job_query import from_words
from tony.model.job_summary import JobHead
from tony.model.states import JobState


class Portal:
    """A portal. A context manager; otherwise its connections stay open until it is discarded.

    Several threads may use it.

    Args:
        address: its URL: `https://jobs.example.org`, `http://127.0.0.1:8600`.
        token: a token from `tony portal token`; None for the one stored by `tony login`, if there is one. It is not
            sent over plain HTTP to other machines.

    Raises:
        UserError: this is not the address of a portal.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = normalize_address(address)
        given = None if token is None else KeptToken(portal=self.address, user="", token=token)
        self._client = PortalClient(self.address, given or load_stored_token(find_state_dir(os.environ), self.address))

    def __repr__(self) -> str:
        return f"tony.Portal({self.address!r})"

    def jobs(
        self,
        *,
        text: str = "",
        user: str = "",
        state: JobState | str = "",
        framework: str = "",
        scheduler: str = "",
        queue: str = "",
        tag: str = "",
        since: float | str | None = None,
        until: float | str | None = None,
        most: int = 50,
    ) -> Iterator[JobHead]:
        """Yield jobs, newest first; arguments left at their default do not filter.

        Args:
            text: words in its id, name, user, tags or the cause of its failure.
            state: one state, `active`, `ended` or `damaged`.
            since, until: bounds of the time of submission: seconds since 1970, or `2026-01-31`.
            most: maximum number of jobs.

        Raises:
            ValueError: a value is not valid.
            UserError: the portal refuses access.
            ConnectionFailedError: the portal cannot be reached.
            InfraError: the portal failed.
        """
        filters: Mapping[str, Any] = {
            "text": text,
            "user": user,
            "state": state.value if isinstance(state, JobState) else state,
            "framework": framework,
            "scheduler": scheduler,
            "queue": queue,
            "tag": tag,
            "since": since,
            "until": until,
        }
        words = {name: str(value) for name, value in filters.items() if value not in ("", None)}
        from_words(words)  # validate now, not at the first iteration
        return self._client.iterate_jobs(words, lambda head: True, most)

    def job(self, job_id: str) -> PortalJob:
        """Return one job.

        Args:
            job_id: its id, a unique part of it, or `last`: your newest one.

        Raises:
            UnknownJobError: there is no such job, or you may not see it. Otherwise as `jobs`.
        """
        return PortalJob(self, PortalJobView(self._client, self._client.resolve(job_id)))

    def close(self) -> None:
        """Close the connections; the next request opens a new one."""
        self._client.close()

    def __enter__(self) -> Portal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PortalJob(JobMethods):
    """One job of a portal, from `Portal.job`. All methods raise what `Portal.jobs` raises, and `UnknownJobError`.

    Attributes:
        portal: its portal.
    """

    def __init__(self, portal: Portal, view: PortalJobView) -> None:
        super().__init__(view)
        self.portal = portal

    def __repr__(self) -> str:
        return f"{self.portal!r}.job({self.id!r})"

    advice = make_blocking(PortalJobView.advice)
