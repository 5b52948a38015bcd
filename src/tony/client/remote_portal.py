"""The Python door to jobs that a portal shows: on whatever machine they ran, and whoever's they are.

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

#: Seconds between two questions whether a job has ended.
_PAUSE = 2.0


class Portal:
    """A portal, by its address. A context manager; otherwise its connections are kept until it is thrown away.

    Several threads may use it: each has a connection of its own.

    Args:
        address: as a browser has it: `https://jobs.example.org`, `http://127.0.0.1:8600`.
        token: what `tony portal token` has printed; None for the one that `tony login` keeps, if there is one. It is
            refused to send it where others could read it on its way.

    Raises:
        UserError: that is no address of a portal.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = address_of(address)
        given = None if token is None else KeptToken(portal=self.address, user="", token=token)
        self._token = given or _kept(self.address)
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
        """Jobs, newest first; what is not said takes all.

        Args:
            text: words that stand in its id, name, user, tags or the cause of its failure.
            state: one state, `active`, `ended` or `damaged`.
            since, until: bounds of the time of submission: seconds since 1970, or `2026-01-31`.
            most: so many at most.

        Raises:
            ValueError: a value makes no sense.
            UserError: the portal does not let us in.
            ConnectionFailed: it cannot be reached.
            InfraError: it fails.
        """
        told: Mapping[str, Any] = {
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
        words = {name: str(value) for name, value in told.items() if value not in ("", None)}
        from_words(words)  # at the call, not at the first job that is taken
        return self._there.jobs(words, lambda head: True, most)

    def job(self, job_id: str) -> PortalJob:
        """One job.

        Args:
            job_id: its id, a part of it that no other job has, or `last`: your newest there.

        Raises:
            UnknownJobError: there is no such job, or you may not see it. Otherwise as `jobs`.
        """
        return PortalJob(self, self._there.resolve(job_id))

    def close(self) -> None:
        """Ends this thread's connection; the next question makes another one."""
        self._there.close()

    def __enter__(self) -> Portal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _there(self) -> portal_client.PortalClient:
        there: portal_client.PortalClient | None = getattr(self._local, "there", None)
        if there is None:
            there = self._local.there = portal_client.PortalClient(self.address, self._token)
        return there


class PortalJob:
    """One job of a portal. Made by `Portal.job`. All of its methods raise as `Portal.jobs` does, and `UnknownJobError`.

    Attributes:
        id: the job's id.
        portal: whose it is.
    """

    def __init__(self, portal: Portal, job_id: str) -> None:
        self.id = job_id
        self.portal = portal

    def __repr__(self) -> str:
        return f"{self.portal!r}.job({self.id!r})"

    def status(self) -> JobReport:
        """How the job and each of its tasks stand, as `tony status --json` prints it."""
        return self.portal._there.report(self.id)

    def wait(self, timeout: float | None = None, *, check: bool = False) -> JobReport:
        """Waits for the job's end; answers its last report, however it ended.

        Args:
            timeout: seconds to wait at most; None for ever.
            check: raise if the job did not succeed, as `Job.wait` does.

        Raises:
            TimeoutError: the job still runs; it goes on.
        """
        deadline = None if timeout is None else clock.monotonic() + timeout
        while not self.portal._there.report(self.id, tasks=False).state.ended:
            left = _PAUSE if deadline is None else deadline - clock.monotonic()
            if left <= 0:
                raise TimeoutError(f"job {self.id} has not ended within {timeout:g} s; it goes on")
            time.sleep(min(_PAUSE, left))
        report = self.status()
        error = error_of(report) if check else None
        if error is not None:
            raise error
        return report

    def logs(
        self, task: str | None = None, *, follow: bool = False, stream: str | None = None, tail: int | None = None
    ) -> Iterator[str]:
        """The lines that programs printed, as `Job.logs` gives them for the same arguments; what looks like a secret is
        masked.

        Raises:
            UserError: the job has no such task.
            ValueError: there is no such stream.
        """
        selection = Selection(streams=selected_streams(stream))
        logs = PortalLogs(self.portal._there, self.id, () if task is None else (task,))
        prefix = len(logs.tasks) != 1
        return (
            format_line(line, prefix=prefix) for lines in logs.lines(selection, tail, follow=follow) for line in lines
        )

    def advice(self) -> Mapping[str, Any]:
        """What could be better about it, as `tony advise --json` prints it."""
        return self.portal._there.advice(self.id)

    def restart(self) -> None:
        """Ends the job's session and begins the next one, as `Job.restart` does; for whoever may change the job.

        Raises:
            UserError: you may not change it, it has ended, or there is no session now that could be restarted.
        """
        self.portal._there.change(self.id, "restart")

    def stacks(self, task: str | None = None) -> Iterator[Stacks]:
        """Where the programs stand right now, as `Job.stacks`; for whoever may change the job.

        Args:
            task: such as `worker:0`, or a role for all of its tasks; None for all whose programs run.

        Raises:
            UserError: you may not change the job, it has no such task, or it has ended.
            InfraError: none of its programs runs now.
        """
        return stacks(self.portal._there, self.id, () if task is None else (task,))

    def set_log_level(self, level: str) -> None:
        """How much its application master and executors log from now on; for whoever may change the job.

        Args:
            level: `debug`, `info`, `warning` or `error`.

        Raises:
            UserError: you may not change it, it has ended, or there is no such level.
        """
        self.portal._there.change(self.id, "log-level", {"level": level})


def _kept(address: str) -> KeptToken | None:
    """The token that `tony login` keeps for a portal."""
    kept = portal_client.kept_tokens(find_state_dir(os.environ))
    return next((each for each in kept if each.portal == address), None)
