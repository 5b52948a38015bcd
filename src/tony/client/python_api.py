"""The Python API: submit a job, wait for it, read its status and output.

Blocking, for scripts and notebooks; `job.aio` has the same methods to await.

    job = tony.submit("job.toml", scheduler="local", params={"lr": "0.1"})
    report = job.wait()
    for line in job.logs("worker:0"):
        print(line)

The blocking methods are made of those of a job view. They run in an event loop in its own thread, so that they work
where a loop is already running.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from functools import wraps
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, get_args, get_type_hints

from tony.client.port_forward import PortForward, open_proxy
from tony.client.staging import SubmissionNotice
from tony.client.submission import submit as submit_resolved
from tony.config.files.call_settings import from_spec
from tony.config.load import load
from tony.config.table.layers import put
from tony.errors import ConfigError
from tony.jobs.directory.view import DirectoryJobView
from tony.jobs.job_ids import resolve
from tony.jobs.job_view import JobView
from tony.jobs.state_dir import find_state_dir
from tony.linux.thread_pools import to_thread
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec

if TYPE_CHECKING:
    from tony.config.load import Resolved


P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")


class _Loop:
    """A thread that runs an event loop until the process exits."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="tony", daemon=True)
        self._thread.start()


_lock = threading.Lock()
_current: _Loop | None = None


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result. Blocks only the calling thread.

    An interrupt of the caller (Ctrl-C) cancels the coroutine.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def iterate(stream: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield the items of an async generator; close it if the caller stops early."""
    try:
        while (item := run(_fetch_next(stream))) is not None:
            yield item[0]
    finally:
        run(stream.aclose())


async def _fetch_next(stream: AsyncGenerator[T, None]) -> tuple[T] | None:
    async for item in stream:
        return (item,)
    return None


def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop; created on first use, and again in a forked process."""
    global _current
    with _lock:
        if _current is None or _current.process != os.getpid():
            _current = _Loop()
        return _current.loop


def make_blocking(
    method: Callable[Concatenate[V, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return the blocking version of a view's method, for a class with the view in its attribute `aio`."""

    @wraps(method)
    def call(job: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = run(getattr(job.aio, method.__name__)(*args, **kwargs))
        return result

    return call


def make_blocking_iterator(
    method: Callable[Concatenate[V, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Return the blocking version of a view's method that yields items, like `make_blocking`."""

    @wraps(method)
    def call(job: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return iterate(getattr(job.aio, method.__name__)(*args, **kwargs))

    item, _ = get_args(get_type_hints(method)["return"])
    signature = inspect.signature(method).replace(return_annotation=GenericAlias(Iterator, item))
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


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
    try:
        return run(submit_async(job, scheduler, **settings))
    except ConfigError as error:
        raise error.with_traceback(None) from None  # the frames in between are of no use to the caller


async def submit_async(job: JobLike, scheduler: str | None = None, **settings: Any) -> Job:
    """Awaitable version of `submit`."""
    given = settings if scheduler is None else {**settings, "scheduler": scheduler}
    resolved = await to_thread(_resolve, job, given)
    home = find_state_dir(os.environ)
    return Job(DirectoryJobView.from_home(home, await submit_resolved(resolved, home, _log_notice)))


def attach(job_id: str) -> Job:
    """Return a job that was submitted before, by any process.

    Args:
        job_id: its id, a unique part of it, its name if no other job has it, or `last`.

    Raises:
        UnknownJobError: there is no such job.
    """
    home = find_state_dir(os.environ)
    return Job(DirectoryJobView.from_home(home, run(to_thread(resolve, home, job_id))))


class JobMethods:
    """The blocking methods that a job has wherever it is.

    Attributes:
        id: the id of the job.
        aio: its view, with the same methods to await, or to iterate with `async for`.
    """

    def __init__(self, view: JobView) -> None:
        self.id = view.id
        self.aio = view

    status = make_blocking(JobView.status)
    wait = make_blocking(JobView.wait)
    logs = make_blocking_iterator(JobView.logs)
    restart = make_blocking(JobView.restart)
    stacks = make_blocking_iterator(JobView.stacks)
    set_log_level = make_blocking(JobView.set_log_level)


class Job(JobMethods):
    """One submitted job, from `submit` or `attach`. Holds no connection, and may be discarded at any time.

    Attributes:
        folder: the job directory.
    """

    aio: DirectoryJobView

    def __init__(self, view: DirectoryJobView) -> None:
        super().__init__(view)
        self.folder: Path = view.folder.path

    def __repr__(self) -> str:
        return f"tony.attach({self.id!r})"

    reports = make_blocking_iterator(DirectoryJobView.reports)
    events = make_blocking_iterator(DirectoryJobView.events)
    kill = make_blocking(DirectoryJobView.kill)

    def proxy(
        self, task: TaskId | str, port: int = 0, *, address: str = "127.0.0.1", local_port: int | None = None
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
        return LocalPort(run(self.proxy_async(task, port, address=address, local_port=local_port)))

    async def proxy_async(
        self, task: TaskId | str, port: int = 0, *, address: str = "127.0.0.1", local_port: int | None = None
    ) -> PortForward:
        """Awaitable version of `proxy`; the result is for `async with`."""
        return await open_proxy(self.aio.home, self.id, task, port, log.warning, address=address, port=local_port)


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
        run(self._proxy.close())

    def __enter__(self) -> LocalPort:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _resolve(job: JobLike, settings: Mapping[str, Any]) -> Resolved:
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
    values: dict[str, Any] = {}
    for given in (own, settings):
        for name, value in given.items():
            put(values, tuple(str(name).split(".")), value)
    return values


def _log_notice(notice: SubmissionNotice) -> None:
    log.log(logging.WARNING if notice.is_warning else logging.INFO, "%s", notice.text)
