"""The Python API: submit a job, wait for it, read its status and output.

Blocking, for scripts and notebooks; each method that waits has an awaitable version whose name ends in `_async`.

    job = tony.submit("job.toml", scheduler="local", params={"lr": "0.1"})
    report = job.wait()
    for line in job.logs("worker:0"):
        print(line)

The blocking methods run in an event loop in its own thread, so that they work where a loop is already running.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tony.client import event_loop_thread
from tony.client.output_lines import format_line, selected_streams
from tony.client.port_forward import PortForward, open_proxy
from tony.history.event_log import LogEntry
from tony.history.job_record import record_of
from tony.jobs import changing, job_status
from tony.jobs.failure_text import error_of
from tony.jobs.job_events import events
from tony.jobs.job_follower import reports
from tony.jobs.job_ids import resolve
from tony.jobs.killing import kill
from tony.jobs.log_names import Selection, named_tasks
from tony.jobs.log_stream import lines
from tony.jobs.state_dir import find_state_dir
from tony.linux.thread_pools import to_thread
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.model.layout import Home
from tony.protocol.messages import LOG_LEVELS, Stacks

if TYPE_CHECKING:
    from tony.config.load import Resolved

log = logging.getLogger("tony")

#: A job for `submit`: a JobSpec, the path of a job file, or a mapping with its keys.
JobLike = JobSpec | str | os.PathLike[str] | Mapping[str, Any]


def submit(job: JobLike, scheduler: str | None = None, **settings: Any) -> Job:
    """Submit a job and return at once; the job then runs independently of this process.

    Args:
        job: a `JobSpec`, the path of a job file (TOML, YAML, or XML of LinkedIn TonY), or a mapping with its keys.
        scheduler: scheduler to use; overrides `scheduler` in the job file.
        settings: further keys of a job file, which override the job's own: `max_restarts=2`,
            `roles={"worker": {"instances": 4}}`.

    Raises:
        TypeError: `job` is none of these.
        ConfigError: the job is not valid; has all errors. Nothing was started.
        InfraError: the scheduler or a file system failed. Nothing is left behind.
    """
    return event_loop_thread.run(submit_async(job, scheduler, **settings))


async def submit_async(job: JobLike, scheduler: str | None = None, **settings: Any) -> Job:
    """Awaitable version of `submit`."""
    from tony.client.submission import submit as submit_resolved

    given = settings if scheduler is None else {**settings, "scheduler": scheduler}
    resolved = await to_thread(_resolve, job, given)
    home = find_state_dir(os.environ)
    return Job(await submit_resolved(resolved, home, _notice), home)


def attach(job_id: str) -> Job:
    """Return a job that was submitted before, by any process.

    Args:
        job_id: its id, a unique part of it, or `last`.

    Raises:
        UnknownJobError: there is no such job.
    """
    home = find_state_dir(os.environ)
    return Job(resolve(home, job_id), home)


class Job:
    """One submitted job, from `submit` or `attach`. Holds no connection, and may be discarded at any time.

    Attributes:
        id: the id of the job.
        folder: the job directory.
    """

    def __init__(self, job_id: str, home: Home) -> None:
        self.id = job_id
        self.folder: Path = home.job(job_id).path
        self._home = home

    def __repr__(self) -> str:
        return f"tony.attach({self.id!r})"

    def status(self) -> JobReport:
        """Return the status of the job and its tasks.

        Raises:
            ConnectionFailed: its application master is running, but does not answer.
        """
        return event_loop_thread.run(self.status_async())

    async def status_async(self) -> JobReport:
        """Awaitable version of `status`."""
        return await job_status.load_report(self._home, self.id)

    def wait(self, timeout: float | None = None, *, check: bool = False) -> JobReport:
        """Wait for the end of the job and return its last report, whatever its result.

        An interrupt (Ctrl-C) stops the wait, not the job.

        Args:
            timeout: maximum seconds to wait; None for no limit.
            check: raise if the job did not succeed.

        Raises:
            TimeoutError: the job is still running, and continues.
            ProgramError: with `check`: the user program failed; the text explains it, the root cause first.
            InfraError: with `check`: cluster, network or machine failed.
            KilledError: with `check`: a user killed the job.
            PlatformError: with `check`: a bug in tony.
        """
        return event_loop_thread.run(self.wait_async(timeout, check=check))

    async def wait_async(self, timeout: float | None = None, *, check: bool = False) -> JobReport:
        """Awaitable version of `wait`."""
        report: JobReport | None = None
        try:
            async with asyncio.timeout(timeout), aclosing(reports(self._home, self.id, log.warning)) as stream:
                async for latest in stream:
                    report = latest
        except TimeoutError:
            raise TimeoutError(f"job {self.id} has not ended within {timeout:g} s; it continues") from None
        assert report is not None  # the stream ends with a report
        error = error_of(report) if check else None
        if error is not None:
            raise error
        return report

    def reports(self) -> Iterator[JobReport]:
        """Yield the status of the job, now and after every change, until it has ended.

        Reconnects if the connection breaks. Stopping the iteration does not affect the job.
        """
        return event_loop_thread.iterate(reports(self._home, self.id, log.warning))

    def reports_async(self) -> AsyncGenerator[JobReport, None]:
        """Version of `reports` for `async for`."""
        return reports(self._home, self.id, log.warning)

    def logs(
        self, task: str | None = None, *, follow: bool = False, stream: str | None = None, tail: int | None = None
    ) -> Iterator[str]:
        """Yield the lines of the tasks' output; with several tasks, with the task in front: `worker:0 | loss 0.1`.

        Args:
            task: such as `worker:0`, or a role for all of its tasks; None for all.
            follow: yield new output until the job has ended.
            stream: `out` or `err`; None for both.
            tail: the number of lines of each stream to start with; None for all.

        Raises:
            UserError: the job has no such task.
            ValueError: there is no such stream.
        """
        return (line for part in event_loop_thread.iterate(self._lines(task, follow, stream, tail)) for line in part)

    async def logs_async(
        self, task: str | None = None, *, follow: bool = False, stream: str | None = None, tail: int | None = None
    ) -> AsyncGenerator[str, None]:
        """Version of `logs` for `async for`."""
        async with aclosing(self._lines(task, follow, stream, tail)) as portions:
            async for portion in portions:
                for line in portion:
                    yield line

    def events(self, *, follow: bool = False) -> Iterator[LogEntry]:
        """Yield the events of the job, oldest first.

        Args:
            follow: yield new events until the job has ended.
        """
        return event_loop_thread.iterate(events(self._home, self.id, follow=follow))

    def events_async(self, *, follow: bool = False) -> AsyncGenerator[LogEntry, None]:
        """Version of `events` for `async for`."""
        return events(self._home, self.id, follow=follow)

    def kill(self, *, now: bool = False) -> None:
        """Kill the job; return as soon as it is stopping. Does nothing if it has ended.

        Args:
            now: without the grace period for programs.

        Raises:
            ConnectionFailed: its application master is running, but does not answer.
        """
        event_loop_thread.run(self.kill_async(now=now))

    async def kill_async(self, *, now: bool = False) -> None:
        """Awaitable version of `kill`."""
        await kill(self._home, self.id, now=now)

    def proxy(
        self, task: str, port: int = 0, *, address: str = "127.0.0.1", local_port: int | None = None
    ) -> LocalPort:
        """Forward a local port to a port of a task, until it is closed or the process exits.

            with job.proxy("worker:0", 8888) as there:
                urlopen(f"http://{there.address}:{there.port}/")

        Args:
            task: such as `worker:0`, or a role that has one task.
            port: port of the task; 0 for its TB_PORT, or else its reserved port.
            address: local address to listen on; a client that can connect to it can connect to the task's port.
            local_port: local port; None for `port` or a free one.

        Raises:
            UserError: there is no such task, the job has ended, or the port is not available.
        """
        return LocalPort(event_loop_thread.run(self.proxy_async(task, port, address=address, local_port=local_port)))

    async def proxy_async(
        self, task: str, port: int = 0, *, address: str = "127.0.0.1", local_port: int | None = None
    ) -> PortForward:
        """Awaitable version of `proxy`; the result is for `async with`."""
        return await open_proxy(self._home, self.id, task, port, log.warning, address=address, port=local_port)

    def restart(self) -> None:
        """Restart all tasks in a new session; return as soon as the restart has begun.

        Programs resume from their checkpoints. Does not count against `max_restarts`.

        Raises:
            UserError: the job has ended, or has no session to restart now.
            ConnectionFailed: its application master does not answer.
        """
        event_loop_thread.run(self.restart_async())

    async def restart_async(self) -> None:
        """Awaitable version of `restart`."""
        await changing.restart(self._home, self.id)

    def stacks(self, task: str | None = None) -> Iterator[Stacks]:
        """Yield stack traces of every thread, one task after the other; the programs continue.

        Each has the `task`, the `text`, `how` it was taken (`py-spy`, `faulthandler`, `kernel`, or several of them),
        and the `problem`: why there is no trace, or no better one.

        Args:
            task: such as `worker:0`, or a role for all of its tasks; None for all running tasks.

        Raises:
            UserError: the job has no such task, or has ended.
            InfraError: no task is running now.
            ConnectionFailed: its application master does not answer.
        """
        return event_loop_thread.iterate(self.stacks_async(task))

    def stacks_async(self, task: str | None = None) -> AsyncGenerator[Stacks, None]:
        """Version of `stacks` for `async for`."""
        return changing.stacks(self._home, self.id, () if task is None else (task,))

    def set_log_level(self, level: str) -> None:
        """Set the log level of the job's application master and executors.

        Their logs are `am.log` and `logs/<role>-<index>.executor.log` in the job directory.

        Args:
            level: `debug`, `info`, `warning` or `error`.

        Raises:
            UserError: the job has ended.
            ConnectionFailed: its application master does not answer.
            ValueError: there is no such level.
        """
        event_loop_thread.run(self.set_log_level_async(level))

    async def set_log_level_async(self, level: str) -> None:
        """Awaitable version of `set_log_level`."""
        if level not in LOG_LEVELS:
            raise ValueError(f"level={level!r}: write one of {', '.join(LOG_LEVELS)}")
        await changing.set_log_level(self._home, self.id, level)

    async def _lines(
        self, task: str | None, follow: bool, stream: str | None, tail: int | None
    ) -> AsyncGenerator[list[str], None]:
        streams = selected_streams(stream)
        tasks = record_of(self._home, self.id).spec.task_ids
        chosen = named_tasks(self.id, tasks, () if task is None else (task,))
        selection = Selection(tasks=chosen, streams=streams)
        prefix = len(chosen or tasks) != 1
        async with aclosing(lines(self._home, self.id, selection, follow=follow, keep=tail)) as portions:
            async for portion in portions:
                yield [format_line(line, prefix=prefix) for line in portion]


class LocalPort:
    """A local port that is forwarded to a task, from `Job.proxy`; a context manager.

    Attributes:
        address, port: the local address.
    """

    def __init__(self, proxy: PortForward) -> None:
        self.address = proxy.address
        self.port = proxy.port
        self._proxy = proxy

    def close(self) -> None:
        """Stop listening and close all connections. May be called twice."""
        event_loop_thread.run(self._proxy.close())

    def __enter__(self) -> LocalPort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _resolve(job: JobLike, settings: Mapping[str, Any]) -> Resolved:
    from tony.config.files.call_settings import from_spec
    from tony.config.load import load

    if isinstance(job, str | os.PathLike):
        return load(job, overrides=settings)
    if not isinstance(job, JobSpec | Mapping):
        raise TypeError(
            f"a job cannot be {job!r:.100} ({type(job).__name__}); give a tony.JobSpec, the path of a job file, "
            "or a mapping with the keys of one"
        )
    own = from_spec(job) if isinstance(job, JobSpec) else dict(job)
    return load(overrides=_merge(own, settings))


def _merge(own: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings, table by table; the second one overrides the first."""
    from tony.config.files.layers import put

    values: dict[str, Any] = {}
    for given in (own, settings):
        for name, value in given.items():
            put(values, tuple(str(name).split(".")), value)
    return values


def _notice(text: str) -> None:
    warning = text.startswith("warning:")
    log.log(logging.WARNING if warning else logging.INFO, "%s", text.removeprefix("warning:").strip())
