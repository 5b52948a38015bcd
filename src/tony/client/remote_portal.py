"""The Python API for the jobs of a portal, of any user and machine.

    portal = tony.Portal("https://jobs.example.org")
    for head in portal.jobs(state="failed", tag="nightly"):
        print(head.job, head.reason)
    print(portal.job("last").status().state)

Blocking; from a running event loop call it through `asyncio.to_thread`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from tony import clock
from tony.client.output_lines import format_line, selected_streams
from tony.jobs import portal_client
from tony.jobs.failure_text import error_of
from tony.jobs.log_names import Selection
from tony.jobs.portal_client import KeptToken, address_of
from tony.jobs.portal_logs import PortalLogs
from tony.jobs.portal_stacks import stacks
from tony.jobs.state_dir import find_state_dir
from tony.model.job_query import from_words
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.states import JobState
from tony.protocol.messages import Stacks

#: Interval of polling for the end of a job.
_POLL_SECONDS = 2.0


class Portal:
    """A portal. A context manager; otherwise its connections stay open until it is discarded.

    Several threads may use it: each has its own connection.

    Args:
        address: its URL: `https://jobs.example.org`, `http://127.0.0.1:8600`.
        token: a token from `tony portal token`; None for the one stored by `tony login`, if there is one. It is not
            sent over plain HTTP to other machines.

    Raises:
        UserError: this is not the address of a portal.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = address_of(address)
        given = None if token is None else KeptToken(portal=self.address, user="", token=token)
        self._token = given or _stored_token(self.address)
        self._local = threading.local()

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
            ConnectionFailed: the portal cannot be reached.
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
        return self._client.jobs(words, lambda head: True, most)

    def job(self, job_id: str) -> PortalJob:
        """Return one job.

        Args:
            job_id: its id, a unique part of it, or `last`: your newest one.

        Raises:
            UnknownJobError: there is no such job, or you may not see it. Otherwise as `jobs`.
        """
        return PortalJob(self, self._client.resolve(job_id))

    def close(self) -> None:
        """Close the connection of this thread; the next request opens a new one."""
        self._client.close()

    def __enter__(self) -> Portal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _client(self) -> portal_client.PortalClient:
        client: portal_client.PortalClient | None = getattr(self._local, "client", None)
        if client is None:
            client = self._local.client = portal_client.PortalClient(self.address, self._token)
        return client


class PortalJob:
    """One job of a portal, from `Portal.job`. All methods raise what `Portal.jobs` raises, and `UnknownJobError`.

    Attributes:
        id: the id of the job.
        portal: its portal.
    """

    def __init__(self, portal: Portal, job_id: str) -> None:
        self.id = job_id
        self.portal = portal

    def __repr__(self) -> str:
        return f"{self.portal!r}.job({self.id!r})"

    def status(self) -> JobReport:
        """Return the status of the job and its tasks, like `tony status --json`."""
        return self.portal._client.report(self.id)

    def wait(self, timeout: float | None = None, *, check: bool = False) -> JobReport:
        """Wait for the end of the job and return its last report, whatever its result.

        Args:
            timeout: maximum seconds to wait; None for no limit.
            check: raise if the job did not succeed, like `Job.wait`.

        Raises:
            TimeoutError: the job is still running, and continues.
        """
        deadline = None if timeout is None else clock.monotonic() + timeout
        while not self.portal._client.report(self.id, tasks=False).state.ended:
            left = _POLL_SECONDS if deadline is None else deadline - clock.monotonic()
            if left <= 0:
                raise TimeoutError(f"job {self.id} has not ended within {timeout:g} s; it continues")
            time.sleep(min(_POLL_SECONDS, left))
        report = self.status()
        error = error_of(report) if check else None
        if error is not None:
            raise error
        return report

    def logs(
        self, task: str | None = None, *, follow: bool = False, stream: str | None = None, tail: int | None = None
    ) -> Iterator[str]:
        """Yield the lines of the tasks' output, like `Job.logs`; secrets are masked.

        Raises:
            UserError: the job has no such task.
            ValueError: there is no such stream.
        """
        selection = Selection(streams=selected_streams(stream))
        logs = PortalLogs(self.portal._client, self.id, () if task is None else (task,))
        prefix = len(logs.tasks) != 1
        return (
            format_line(line, prefix=prefix) for lines in logs.lines(selection, tail, follow=follow) for line in lines
        )

    def advice(self) -> Mapping[str, Any]:
        """Return recommendations for the job, like `tony advise --json`."""
        return self.portal._client.advice(self.id)

    def restart(self) -> None:
        """Restart all tasks in a new session, like `Job.restart`; for users who may change the job.

        Raises:
            UserError: you may not change the job, it has ended, or it has no session to restart now.
        """
        self.portal._client.change(self.id, "restart")

    def stacks(self, task: str | None = None) -> Iterator[Stacks]:
        """Yield stack traces of the running tasks, like `Job.stacks`; for users who may change the job.

        Args:
            task: such as `worker:0`, or a role for all of its tasks; None for all running tasks.

        Raises:
            UserError: you may not change the job, it has no such task, or it has ended.
            InfraError: no task is running now.
        """
        return stacks(self.portal._client, self.id, () if task is None else (task,))

    def set_log_level(self, level: str) -> None:
        """Set the log level of its application master and executors; for users who may change the job.

        Args:
            level: `debug`, `info`, `warning` or `error`.

        Raises:
            UserError: you may not change the job, it has ended, or there is no such level.
        """
        self.portal._client.change(self.id, "log-level", {"level": level})


def _stored_token(address: str) -> KeptToken | None:
    """Return the token that `tony login` stored for a portal."""
    tokens = portal_client.kept_tokens(find_state_dir(os.environ))
    return next((each for each in tokens if each.portal == address), None)
