"""Submits a job: checks, stages, records it, and passes it to its scheduler. Afterwards the client may exit."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import tony
from tony import clock
from tony.client import staging
from tony.client.credential_creation import make_credentials
from tony.client.script_check import find_missing_scripts
from tony.client.staged_copy import StagedCopy
from tony.client.staging import OnNotice, SubmissionNotice
from tony.config.files.call_settings import SOURCE as CALL_SOURCE
from tony.config.files.call_settings import from_spec
from tony.config.files.secret_references import resolve_reference
from tony.config.load import Resolved, with_sources
from tony.config.table.layers import format_key, leaves, quote
from tony.errors import ConfigError, Problem, StorageError, TonyError, UncertainSubmissionError
from tony.frameworks import registry as frameworks
from tony.history.json_files import write_json
from tony.jobs.job_ids import create_job_id, remember
from tony.jobs.state_dir import get_user_name, prepare
from tony.jobs.status import aborted_submissions
from tony.linux.disk_errors import build_storage_error
from tony.linux.thread_pools import to_thread
from tony.model.codec import Json, to_plain
from tony.model.job_spec import JobSpec, Role
from tony.model.masking import redact
from tony.model.setting_choices import TlsMode
from tony.model.staged_files import StagedJob
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import PINNED_SOURCE, RECORD_VERSION, JobRecord
from tony.protocol.launch import JobCredentials
from tony.schedulers import registry as schedulers
from tony.schedulers.capabilities import Capabilities, RoleSetting
from tony.schedulers.client_interface import PreparedJob, Submitter

#: Attempts to find an unused job id. Even one collision happens once in millions.
_MAX_ID_ATTEMPTS = 100


def check(resolved: Resolved, home: Home, *, is_staged: bool = False) -> Submitter:
    """Check that the scheduler can run this job and that its files can be staged; return the scheduler's submitter.

    Args:
        is_staged: its files are those of an earlier job.

    Raises:
        ConfigError: it cannot; has every reason.
        TonyError: a cluster does not answer.
    """
    submitter = schedulers.load(resolved.spec.scheduler).create_submitter(home)
    problems = _find_problems(resolved, submitter, is_staged=is_staged)
    try:
        problems += [] if is_staged else _find_staging_problems(resolved, home, submitter)
    except TonyError:
        if not problems:  # of which it may be a consequence
            raise
    _raise_problems(resolved, problems)
    return submitter


def _find_staging_problems(resolved: Resolved, home: Home, submitter: Submitter) -> Sequence[Problem]:
    return staging.find_problems(
        resolved.spec,
        home,
        sources=resolved.sources,
        same_host=submitter.capabilities.same_host,
        remote_files=lambda: submitter.remote_files(resolved.spec, resolved.other_schedulers),
    )


def _pin_cluster(resolved: Resolved, submitter: Submitter) -> Resolved:
    spec = submitter.pin_cluster(resolved.spec)
    added = spec.scheduler_settings.keys() - resolved.spec.scheduler_settings.keys()
    sources = {format_key(("scheduler", spec.scheduler, name)): PINNED_SOURCE for name in added}
    return replace(resolved, spec=spec, sources={**resolved.sources, **sources})


def _find_problems(resolved: Resolved, submitter: Submitter, *, is_staged: bool) -> list[Problem]:
    scripts = () if is_staged else find_missing_scripts(resolved)
    return [*submitter.check(resolved.spec), *_find_unavailable_images(resolved, submitter), *scripts]


def _raise_problems(resolved: Resolved, problems: Sequence[Problem]) -> None:
    if problems:
        raise ConfigError(with_sources(problems, resolved.sources))


def _find_unavailable_images(resolved: Resolved, submitter: Submitter) -> list[Problem]:
    if RoleSetting.IMAGE in submitter.capabilities.honours or not resolved.images:
        return []
    able = [name for name in schedulers.names() if RoleSetting.IMAGE in schedulers.capabilities_of(name).honours]
    return [
        Problem(
            key=key,
            value=quote(image),
            message=f"the scheduler {resolved.spec.scheduler} does not support container images. Submit with "
            f"--scheduler {' or '.join(able)}, or leave the image out: for one run with --set {key}=",
        )
        for key, image in resolved.images.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A job that is staged and recorded.

    Attributes:
        job: the argument of its scheduler.
        accepted: set when its scheduler has accepted it; from then on its files must not be removed.
    """

    job: PreparedJob
    submitter: Submitter
    accepted: asyncio.Event

    async def submit(self) -> str:
        """Pass the job to its scheduler; return its id. Afterwards the client may exit.

        Raises:
            SchedulerError: the scheduler refused it.
        """
        # This file makes the job visible to `status`, so it is written after all others.
        write_json(self.job.folder.job, to_plain(_redact(self.job.record)))
        try:
            await self.submitter.submit(self.job)
        except UncertainSubmissionError:
            self.accepted.set()
            raise
        self.accepted.set()
        remember(self.job.home, self.job.record.job_id)
        return self.job.record.job_id


@contextmanager
def prepare_submission(
    resolved: Resolved, home: Home, on_notice: OnNotice, staged_copy: StagedCopy | None = None
) -> Iterator[Prepared]:
    """Check, stage and record a job. Blocking. If the body fails, the job is removed.

    Args:
        on_notice: receives messages, such as the size of packed folders.
        staged_copy: staged files of an earlier job to use; None to stage those of the job.

    Raises:
        ConfigError: the scheduler can never run it, or its files cannot be staged. Nothing was created.
        StorageError: a file system failed. Nothing is left behind.
    """
    resolved = replace(resolved, spec=resolve_reference(resolved.spec, os.environ, resolved.sources))
    submitter = schedulers.load(resolved.spec.scheduler).create_submitter(home)
    same_host = submitter.capabilities.same_host
    tls = resolved.spec.tls is TlsMode.ALWAYS or not same_host
    with _create_credentials(tls) as credentials:
        _raise_problems(resolved, _find_problems(resolved, submitter, is_staged=staged_copy is not None))
    resolved = _pin_cluster(resolved, submitter)
    for sentence in [*resolved.notices, *submitter.notices(resolved.spec)]:
        on_notice(SubmissionNotice(sentence))
    for sentence in find_unsupported_settings(resolved.spec, submitter.capabilities):
        on_notice(SubmissionNotice(sentence, is_warning=True))
    prepare(home)
    aborted_submissions.remove_aborted_submissions(home)
    now = clock.wall()
    folder = _create_folder(home, resolved.spec.scheduler, submitter.allocate_job_id(), now)
    with aborted_submissions.mark_submission(home, folder.job_id), _remove_unless_accepted(folder) as accepted:
        staged = (
            staged_copy.link(home, folder)
            if staged_copy
            else staging.stage(
                resolved.spec,
                home,
                folder,
                on_notice,
                sources=resolved.sources,
                same_host=same_host,
                remote_files=lambda: submitter.remote_files(resolved.spec, resolved.other_schedulers),
            )
        )
        record = _build_record(resolved, folder, staged, now)
        write_json(folder.credentials, to_plain(credentials()))
        write_json(folder.secret_job, to_plain(record))
        others = resolved.other_schedulers
        job = PreparedJob(
            home=home,
            folder=folder,
            record=record,
            other_schedulers=others,
            on_notice=lambda text: on_notice(SubmissionNotice(text)),
        )
        yield Prepared(job=job, submitter=submitter, accepted=accepted)


async def submit(resolved: Resolved, home: Home, on_notice: OnNotice) -> str:
    """Submit a job and return its id. It then runs independently of the client.

    Raises:
        ConfigError: it can never run. Nothing was created.
        StorageError: its files cannot be staged. Nothing is left behind.
        SchedulerError: the scheduler refused it. Nothing is left behind.
    """
    with ExitStack() as stack:
        entering = asyncio.get_running_loop().create_task(
            to_thread(stack.enter_context, prepare_submission(resolved, home, on_notice))
        )
        try:
            ready = await asyncio.shield(entering)
        except asyncio.CancelledError:
            # A thread cannot be stopped: wait for it, then remove everything it has created.
            await asyncio.wait([entering])
            raise
        return await ready.submit()


def render_request(resolved: Resolved, home: Home, *, is_staged: bool = False) -> Json:
    """Return the exact request for this job, without sending it and without staging.

    Args:
        is_staged: its files are those of an earlier job.

    Raises:
        ConfigError: the scheduler can never run it.
    """
    resolved = replace(resolved, spec=resolve_reference(resolved.spec, os.environ, resolved.sources))
    submitter = check(resolved, home, is_staged=is_staged)
    folder = home.job(f"{resolved.spec.scheduler}-00000000-000000-000000")
    record = _redact(_build_record(resolved, folder, StagedJob(), clock.wall()))
    return submitter.render(PreparedJob(home=home, folder=folder, record=record))


@contextmanager
def _create_credentials(tls: bool) -> Iterator[Callable[[], JobCredentials]]:
    """Create credentials while the scheduler is queried: importing `cryptography` takes as long as the query."""
    if not tls:
        yield lambda: make_credentials(tls=False)
        return
    from concurrent.futures import ThreadPoolExecutor  # late: not needed for local jobs

    with ThreadPoolExecutor(1) as other:
        yield other.submit(make_credentials, tls=True).result


def _create_folder(home: Home, scheduler: str, allocated_id: str | None, now: float) -> JobFolder:
    """Create the job directory with an unused id; two submissions at the same time may choose the same id."""
    for _ in range(_MAX_ID_ATTEMPTS):
        folder = home.job(allocated_id or create_job_id(scheduler, now))
        with _explain_mkdir_error(folder.path), contextlib.suppress(FileExistsError):
            folder.path.mkdir(mode=0o700)
            return folder
    raise StorageError(f"cannot create a folder in {home.jobs}: {_MAX_ID_ATTEMPTS} ids in a row are in use")


@contextmanager
def _explain_mkdir_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise build_storage_error(f"make {path}", path.parent, error) from error


@contextmanager
def _remove_unless_accepted(folder: JobFolder) -> Iterator[asyncio.Event]:
    accepted = asyncio.Event()
    try:
        for path in (folder.logs, folder.secret):
            with _explain_mkdir_error(path):
                path.mkdir(mode=0o700)
        yield accepted
    except BaseException:
        if not accepted.is_set():
            aborted_submissions.remove(folder)
        raise


def _build_record(resolved: Resolved, folder: JobFolder, staged: StagedJob, now: float) -> JobRecord:
    framework = frameworks.home_of(resolved.spec.framework)
    return JobRecord(
        version=RECORD_VERSION,
        job_id=folder.job_id,
        user=get_user_name(),
        host=socket.gethostname(),
        submitted=now,
        tony_version=tony.__version__,
        spec=resolved.spec,
        staged=staged,
        framework_module=framework,
        framework_path=_find_plug_in_folder(framework),
        sources=dict(resolved.sources),
        masked=_list_masked_keys(resolved.spec),
        job_file=_find_job_file(resolved),
    )


def _find_job_file(resolved: Resolved) -> str:
    """Return the absolute path of the job file; empty if there is none, or options were given in addition."""
    file = resolved.job_file
    has_options = any(source.startswith("--") or source == CALL_SOURCE for source in resolved.sources.values())
    if file is None or has_options or not file.endswith((".toml", ".yaml", ".yml")):
        return ""
    return os.path.abspath(os.path.expanduser(file))


def _list_masked_keys(spec: JobSpec) -> tuple[str, ...]:
    shown = dict(leaves(from_spec(redact(spec))))
    return tuple(format_key(key) for key, value in leaves(from_spec(spec)) if shown.get(key) != value)


def _find_plug_in_folder(framework: str) -> str | None:
    """Return the folder to import a plug-in from without site-packages; None if it is built in."""
    top = framework.partition(":")[0].partition(".")[0]
    if top == tony.__name__:
        return None
    found = importlib.util.find_spec(top)
    if found is None or found.origin is None:
        return None
    levels = 1 if found.submodule_search_locations is None else 2
    return str(Path(found.origin).resolve().parents[levels - 1])


def _redact(record: JobRecord) -> JobRecord:
    return replace(record, spec=redact(record.spec))


def find_unsupported_settings(spec: JobSpec, capabilities: Capabilities) -> list[str]:
    """Return a sentence for each of them, but for images: without its image a program cannot run."""
    return [
        f"roles.{name}.{key} has no effect on the {spec.scheduler} scheduler{instead}"
        for name, role in spec.effective_roles.items()
        for setting, key, instead in _list_used_settings(role)
        if setting not in capabilities.honours
    ]


def _list_used_settings(role: Role) -> Iterator[tuple[RoleSetting, str, str]]:
    """Yield each setting of a role, with its key, and what to use instead."""
    for name in sorted(role.resources.others):
        instead = "; request GPUs with `gpus`" if name.rpartition("/")[2] in ("gpu", "gpus") else ""
        yield RoleSetting.RESOURCES, f"resources.{name}", instead
    if role.node_label:
        yield RoleSetting.NODE_LABEL, "node_label", ""
    if role.spread and role.instances > 1:
        yield RoleSetting.SPREAD, "spread", ""
