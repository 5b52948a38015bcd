"""Jobs whose application master runs on another machine: their folder here follows what the scheduler and it say.

The folder has the same files as that of a local job, so that everything else reads one kind of folder: `am.json` says
where the master is, as soon as the scheduler knows; event log and summary are fetched; the last report that a follower
hears is kept as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil

from tony import clock
from tony.dataclass import replace
from tony.errors import ConnectionFailed, InfraError, ProtocolError, UnrecordedJobError
from tony.history.event_log import segments
from tony.history.job_record import pending_report, read_summary, record_of, write_summary
from tony.history.json_files import write_json
from tony.history.session_facts import session_reasons
from tony.jobs import aborted_submissions, cached_status
from tony.jobs.am_client import AmLocation, ask_report, whereabouts
from tony.jobs.finalize_lost import add_signal_source, close_lost, was_killed_by_signal
from tony.jobs.state_dir import prepare
from tony.linux.threads import to_thread
from tony.model.codec import to_plain
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.layout import Home, JobFolder
from tony.schedulers import registry
from tony.schedulers.interface import ApplicationStatus, Submitter

#: Seconds that a master may take to write the end of its record after it has told it.
_LAST_WORDS = 20.0
_LOOK_AGAIN = 0.1
#: Seconds before each look for what a master has only just written down.
_LOG_IS_LATE = (0.0, 0.5, 1.0)
#: Seconds that a scheduler may take to say where a master is; then the master is asked where it was last.
_HELD_UP = 1.0


async def poll_job(folder: JobFolder, record: JobRecord, submitter: Submitter) -> JobReport | None:
    """How the job stands; None if things are changing right now and the next look will tell.

    Raises:
        SchedulerError: the scheduler cannot be asked, nor the master without it.
        ConnectionFailed: the master is there, but cannot be reached.
    """
    submitting = aborted_submissions.is_under_way(Home(folder.path.parent.parent), folder.job_id)
    sight = await _sight(folder, submitter)
    if isinstance(sight, JobReport):
        return sight
    if submitting and not sight.address:  # what is not known yet has not ended
        return replace(pending_report(folder, record), waiting="it is being submitted")
    if sight.alive is False:
        return await _ended(folder, record, submitter, sight)
    if not sight.address:
        return await _unregistered(folder, record, submitter, sight)
    note_master(folder, sight)
    if not folder.credentials.exists():
        await submitter.fetch(folder)
        if read_summary(folder) is not None:  # it has ended meanwhile, and somebody else has forgotten them
            forget_secrets(folder)
            return None
    try:
        report = await ask_report(folder)
    except ConnectionFailed as error:
        if not error.gone:
            raise
        return None
    if was_killed_by_signal(report):  # the master is about to be gone; then its scheduler tells whose it was
        return None
    cached_status.note(folder, report)
    return replace(report, folder=str(folder.path))


async def _sight(folder: JobFolder, submitter: Submitter) -> ApplicationStatus | JobReport:
    """What the scheduler says; if it is away or takes long, what a master of which we know says, or the record."""
    asking = asyncio.get_running_loop().create_task(submitter.look(folder.job_id))
    without = asyncio.get_running_loop().create_task(_without(folder, submitter, asking))
    try:
        await asyncio.wait([asking, without], return_when=asyncio.FIRST_COMPLETED)
        if without.done() or asking.exception():
            report = await without
            if report is not None:
                return report
        sight = await asking
        assert sight is not None
        return sight
    finally:
        for task in (asking, without):
            task.cancel()
        await asyncio.gather(asking, without, return_exceptions=True)


async def _without(
    folder: JobFolder, submitter: Submitter, asking: asyncio.Task[ApplicationStatus | None]
) -> JobReport | None:
    """How the job stands, from others than its scheduler, once that has had its time; None if they do not know."""
    await asyncio.wait([asking], timeout=_HELD_UP)
    if asking.done() and not asking.cancelled() and not asking.exception():
        return None
    report = await _from_itself(folder)
    if report is None:
        with contextlib.suppress(InfraError):
            await submitter.fetch(folder)
        ended = read_summary(folder)
        report = keep(folder, ended) if ended else await _from_itself(folder)
    return report


async def _from_itself(folder: JobFolder) -> JobReport | None:
    """What a master says of which we know, whatever its scheduler does; None if it says nothing that counts."""
    try:
        report = await ask_report(folder)
    except (ConnectionFailed, ProtocolError):
        return None
    return None if was_killed_by_signal(report) else replace(report, folder=str(folder.path))


async def _unregistered(
    folder: JobFolder, record: JobRecord, submitter: Submitter, sight: ApplicationStatus
) -> JobReport:
    """A job that lives, and whose scheduler knows no master of it: not yet, or not again since one of them began anew,
    the master or the scheduler."""
    there, trouble = whereabouts(folder), ""
    if sight.attempt > 1 or there:
        trouble = await _fetch(folder, submitter)
    if not segments(folder.path) and not folder.am.exists():
        return replace(pending_report(folder, record), waiting=sight.note or "waiting for its application master")
    report = await _from_itself(folder)
    if report is None:
        report = await to_thread(cached_status.load_cached_report, folder, record, fresh=not trouble)
        before = max(1, report.attempt, there.attempt if there else 0)
        waiting = sight.note
        if sight.attempt > before:
            died = f"attempt {sight.attempt - 1} of its application master died; attempt {sight.attempt} is to go on"
            report = replace(report, attempt=sight.attempt, am=None)
            waiting = f"{died}: {sight.note}" if sight.note else died
        elif not waiting and sight.attempt > 1:
            waiting = f"attempt {sight.attempt} of its application master is to go on"
        report = replace(
            report, waiting=(waiting or "its scheduler has not heard of its application master again") + trouble
        )
    return report


async def _fetch(folder: JobFolder, submitter: Submitter) -> str:
    """Brings what there is of the record; answers what is to be said if that cannot be had now."""
    try:
        await submitter.fetch(folder)
    except InfraError as error:
        why = str(error).partition("\n")[0].rstrip(":")
        return f". Its record is out of reach ({why}), so this is the last that was heard of it"
    return ""


async def unanswered(folder: JobFolder, record: JobRecord, submitter: Submitter) -> JobReport:
    """How the job stood when its log was written last: its master does not listen, and no end has been told yet.

    That may be one that still writes the end of its record, and one that died with its node.
    """
    trouble = await _fetch(folder, submitter)
    there = whereabouts(folder)
    where = f" at {there.address.removeprefix('tls:')}" if there else ""
    waiting = f"its application master does not listen{where} any more, and its end has not been told yet{trouble}"
    return replace(
        await to_thread(cached_status.load_cached_report, folder, record, fresh=not trouble), waiting=waiting
    )


def note_master(folder: JobFolder, sight: ApplicationStatus) -> None:
    """Writes down where the master is, if that is news."""
    there = AmLocation(pid=0, host=sight.host, attempt=sight.attempt, address=sight.address)
    if whereabouts(folder) != there:
        write_json(folder.am, to_plain(there))


async def last_am_report(folder: JobFolder, submitter: Submitter, report: JobReport) -> JobReport:
    """The last report of a master, with its scheduler's word on whose signal it was that ended the job."""
    if was_killed_by_signal(report):
        with contextlib.suppress(InfraError, TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                while (sight := await submitter.look(folder.job_id)) is not None and sight.alive is not False:
                    await asyncio.sleep(_LOOK_AGAIN)
                report = add_signal_source(report, sight) if sight else report
    return keep(folder, report)


def keep(folder: JobFolder, report: JobReport) -> JobReport:
    """Keeps the last report that the master told, as its own machine does."""
    report = replace(report, folder=str(folder.path))
    forget_secrets(folder)
    if read_summary(folder) is None:
        write_summary(folder, report)
    forget_secrets(folder)  # once more: somebody who looked in between may have fetched them again
    return report


def forget_secrets(folder: JobFolder) -> None:
    """Nobody will be asked any more."""
    shutil.rmtree(folder.secret, ignore_errors=True)
    for path in (folder.am, folder.am_lock, folder.kill_request, folder.heard):
        with contextlib.suppress(OSError):
            path.unlink()


async def refresh(home: Home, job_id: str) -> None:
    """Brings a job's event log up to what its master has written so far; all of it, if the job has ended.

    What is here already may be read although nothing more can be had.

    Raises:
        UnknownJobError: there is no such job.
        SchedulerError: nothing of it is here, and nothing can be had.
    """
    folder, record = home.job(job_id), record_of(home, job_id)
    submitter = registry.load(record.spec.scheduler).submitter(home)
    if submitter.capabilities.same_host or folder.am_log.exists():  # what it said last is written after everything else
        return
    give_up = clock.monotonic() + _LAST_WORDS
    try:
        while True:
            sight = await _fetched(folder, submitter)
            if folder.summary.exists():
                forget_secrets(folder)
            over = sight is None or sight.alive is False or folder.am_log.exists()
            if over or not folder.summary.exists() or clock.monotonic() > give_up:
                return
            await asyncio.sleep(_LOOK_AGAIN)
    except InfraError:
        if not segments(folder.path):
            raise


async def _fetched(folder: JobFolder, submitter: Submitter) -> ApplicationStatus | None:
    """Brings the record, and says what the scheduler sees: nothing certain, if it is away and the record can be had."""
    asking = asyncio.get_running_loop().create_task(submitter.look(folder.job_id))
    try:
        await asyncio.wait([asking], timeout=_HELD_UP)
        if not asking.done() or asking.exception():
            await submitter.fetch(folder)
            if segments(folder.path):
                return ApplicationStatus(alive=None)
        sight = await asking
        await submitter.fetch(folder)  # after it: what has ended by then is there as a whole
        return sight
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def sessions(home: Home, job_id: str, last: int, *, ended: bool = False) -> dict[int, str]:
    """Why each session up to `last` began, as far as it is known. The log of a job elsewhere comes a moment late.

    Args:
        ended: so has the job: nothing more will be written.
    """
    folder = home.job(job_id)
    submitter = registry.load(record_of(home, job_id).spec.scheduler).submitter(home)
    pauses = () if submitter.capabilities.same_host else _LOG_IS_LATE[:1] if ended else _LOG_IS_LATE
    reasons = await to_thread(session_reasons, folder)
    for pause in pauses:
        if reasons.keys() >= set(range(2, last + 1)):
            break
        await asyncio.sleep(pause)
        with contextlib.suppress(InfraError):
            await refresh(home, job_id)
        reasons = await to_thread(session_reasons, folder)
    return reasons


async def adopt(home: Home, job_id: str) -> bool:
    """Makes a folder here for a job that somebody submitted elsewhere, if a scheduler knows the id.

    Raises:
        UnrecordedJobError: it knows the job and has no record of it; says how that stands.
        SchedulerError: it cannot be asked.
    """
    folder = home.job(job_id)
    for name in registry.names():
        submitter = registry.load(name).submitter(home)
        if not submitter.owns(job_id):
            continue
        prepare(home)
        folder.path.mkdir(mode=0o700, exist_ok=True)
        try:
            await submitter.fetch(folder)
        finally:
            if not folder.job.exists():
                shutil.rmtree(folder.path, ignore_errors=True)
        if not folder.job.exists() and (why := await submitter.unrecorded(job_id)):
            raise UnrecordedJobError(why)
        return folder.job.exists()
    return False


async def end_unrecorded(home: Home, job_id: str) -> bool:
    """Has the scheduler end a job that `adopt` found without a record; False if that is none of ours for certain.

    Raises:
        SchedulerError: it cannot be asked.
    """
    submitters = (registry.load(name).submitter(home) for name in registry.names())
    return await next(each for each in submitters if each.owns(job_id)).end_unrecorded(job_id)


async def _ended(
    folder: JobFolder, record: JobRecord, submitter: Submitter, sight: ApplicationStatus
) -> JobReport | None:
    """Fetches what the master left; without a summary the record is closed here, with the scheduler's own words."""
    try:
        await submitter.fetch(folder)
    except InfraError:
        if read_summary(folder) is None:
            raise
    ended = read_summary(folder)
    if ended is not None:
        known = add_signal_source(ended, sight)
        if known != ended:
            write_summary(folder, known)
        return keep(folder, known)
    if sight.note and not folder.am_log.exists():
        folder.am_log.write_text(f"{sight.note}\n", encoding="utf-8")
    return await close_lost(folder, record, submitter, sight)
