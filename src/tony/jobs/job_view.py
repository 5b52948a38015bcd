"""One job as commands and the Python API see it: in a directory here, or at a portal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from tony.jobs.failure_text import build_error
from tony.jobs.log_files import Selection, select_named_tasks
from tony.jobs.log_lines import LogLine
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.log_name import STREAMS
from tony.protocol.shared_messages import Stacks


class JobView(ABC):
    """One job. Holds no open connection, and may be discarded at any time.

    Attributes:
        id: the id of the job.
    """

    id: str

    @abstractmethod
    async def status(self, *, tasks: bool = True) -> JobReport:
        """Return the status of the job and its tasks.

        Args:
            tasks: False if those of the job itself are enough; then the tasks may be left out.

        Raises:
            ConnectionFailedError: its application master is running, but does not answer.
        """

    @abstractmethod
    async def await_last_report(self, timeout: float | None) -> JobReport:
        """Wait for the end of the job and return its last report.

        Raises:
            TimeoutError: it has not ended within `timeout` seconds.
        """

    @abstractmethod
    async def task_ids(self) -> Sequence[TaskId]:
        """Return all tasks of the job."""

    @abstractmethod
    def output(
        self, selection: Selection, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[Sequence[LogLine], None]:
        """Yield lines of output in portions.

        Args:
            follow: yield new output until the job has ended.
            tail: the number of lines of each stream to start with; None for all.
        """

    @abstractmethod
    async def restart(self) -> JobReport:
        """Restart all tasks in a new session; return as soon as the restart has begun.

        Programs resume from their checkpoints. Does not count against `max_restarts`.

        Returns:
            The status of the job just before.

        Raises:
            UserError: the job has ended, has no session to restart now, or you may not change it.
            ConnectionFailedError: its application master does not answer.
        """

    @abstractmethod
    def stacks(self, *tasks: TaskId | str) -> AsyncGenerator[Stacks, None]:
        """Yield stack traces of every thread, one task after the other; the programs continue.

        Of a job that has ended these are the last ones saved in its directory; a portal does not give them.

        Each has the `task`, the `text`, `how` it was taken (`py-spy`, `faulthandler`, `kernel`, or several of them),
        and the `problem`: why there is no trace, or no better one.

        Args:
            tasks: such as `worker:0`, and roles for all of their tasks; none for all running tasks.

        Raises:
            UserError: the job has no such task, has ended without saved traces, or you may not change it.
            InfraError: no task is running now.
            ConnectionFailedError: its application master does not answer.
        """

    @abstractmethod
    async def set_log_level(self, level: str) -> JobReport:
        """Set the log level of the job's application master and executors.

        Their logs are `am.log` and `logs/<role>-<index>.executor.log` in the job directory.

        Args:
            level: `debug`, `info`, `warning` or `error`.

        Returns:
            The status of the job just before.

        Raises:
            UserError: the job has ended, or you may not change it.
            ConnectionFailedError: its application master does not answer.
        """

    async def wait(self, timeout: float | None = None, *, check: bool = False) -> JobReport:
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
        try:
            report = await self.await_last_report(timeout)
        except TimeoutError:
            raise TimeoutError(f"job {self.id} has not ended within {timeout:g} s; it continues") from None
        error = build_error(report) if check else None
        if error is not None:
            raise error
        return report

    async def logs(
        self,
        task: TaskId | str | None = None,
        *,
        follow: bool = False,
        stream: str | None = None,
        tail: int | None = None,
    ) -> AsyncGenerator[str, None]:
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
        if stream not in (None, *STREAMS):
            raise ValueError(f"stream={stream!r}: write 'out' or 'err', or leave it out for both")
        every = await self.task_ids()
        chosen = select_named_tasks(self.id, every, () if task is None else (task,))
        selection = Selection(tasks=chosen, streams=STREAMS if stream is None else (stream,))
        prefix = len(chosen or every) != 1
        async with aclosing(self.output(selection, follow=follow, tail=tail)) as portions:
            async for portion in portions:
                for line in portion:
                    yield f"{line.name.task} | {line.text}" if prefix else line.text
