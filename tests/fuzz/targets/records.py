"""What is kept of a job, read back after faults and other users: event log, its replay, record, summary, index."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from tests.core.specs import FAILED, OK, staged, task, with_restarts, workers
from tests.fuzz.scratch_folders import scratch
from tests.fuzz.target import Target, hold
from tests.fuzz.values import plain_of
from tests.support.invariants import find_violations
from tests.support.simulation import Simulation
from tony.cli.commands.events import EventTeller
from tony.cli.commands.list import _format_row
from tony.cli.text.status_changes import StatusChanges
from tony.cli.text.status_text import find_further_sessions, find_lone_restarts, format_status
from tony.control_characters import escape
from tony.core.application import Application
from tony.core.events import AttemptStarted
from tony.core.report_builder import ReportContext, build_report
from tony.errors import RecordError, UnknownJobError
from tony.history.directory_scan import head_of, scan
from tony.history.event_log import (
    FORMAT,
    VERSION,
    EventTail,
    Header,
    LogEntry,
    LogWriter,
    place_of,
    read,
    segments,
    settings_digest,
)
from tony.history.job_record import build_pending_report, read_job, read_summary
from tony.history.replay import replay
from tony.jobs.am_client import AmLocation, locate_am
from tony.jobs.failure_text import build_error
from tony.jobs.job_ids import resolve
from tony.jobs.status.report_from_log import build_last_report
from tony.model.codec import from_plain, to_plain
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.model.job_summary import JobHead
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import JobRecord

_LOGS = Path(__file__).parents[2] / "logs"
#: What parts a log into the segments of its attempts; no line of a log begins so.
_NEXT_SEGMENT = b"\n---\n"
#: An error about a log names the file, and the line unless it is the first.
_PLACE = re.compile(r"events\.\d+\.jsonl(:\d+)?\b")
_JOB = "job-1"


# --- event log --------------------------------------------------------------------------------------------------------


def event_log(data: bytes) -> None:
    """All of it at once; each event can be told."""
    folder = _with_log(data)
    tell = EventTeller()
    try:
        for entry in read(segments(folder.path)):
            _fits_screen(tell.format_line(entry))
            json.dumps(to_plain(entry.event), allow_nan=False)
    except RecordError as error:
        hold(_PLACE.search(str(error)), error)
        raise
    finally:
        stands = from_plain(JobReport, {**plain_of(JobReport), "session": 5})
        find_further_sessions(folder, stands)
        find_lone_restarts(folder, stands)


def event_tail(data: bytes) -> None:
    """As it grows, piece by piece: the same events as from the whole, and the same errors."""
    size, stream = (data[0] if data else 0) * 16 + 1 + len(data) // 50, data[1:]
    folder = _folder()
    tail, found = EventTail(folder), list[LogEntry]()
    for end in range(0, len(stream) + size, size):
        folder.events(1).write_bytes(stream[:end])
        try:
            found += tail.read_new()
        except RecordError as error:
            hold(_PLACE.search(str(error)), error)
            raise
    assert [each.event for each in found] == [each.event for each in read(segments(folder.path))]


def replayed(data: bytes) -> None:
    """A job's log in a fresh machine: where the two differ is said, or every promise of the machine holds."""
    folder = _with_log(data)
    job_id, spec = _job_of(data)
    wrong: list[str] = []

    def watch(entry: LogEntry, app: Application) -> None:
        wrong.extend(f"{entry.seq}: {text}" for text in find_violations(app))

    try:
        result = replay(job_id, spec, read(segments(folder.path)), watch)
    except RecordError as error:
        hold(_PLACE.search(str(error)), error)
        raise
    if result.mismatch is not None:
        place = place_of(segments(folder.path), result.events + 1)
        assert _PLACE.search(place), place
        raise RecordError(f"{place}: {result.mismatch}")
    assert not wrong, wrong
    around = ReportContext(folder="f", user="u", submitted=1.0, live={})
    _show(build_report(result.app, result.last_at, around))


def post_mortem(data: bytes) -> None:
    """The verdict on a job whose application master died, whatever became of its log."""
    folder = _with_log(data)
    job_id, spec = _job_of(data)
    plain = {**plain_of(JobRecord), "job_id": job_id, "spec": to_plain(spec), "submitted": 1.0}
    found = build_last_report(folder, from_plain(JobRecord, plain))
    assert found.state.ended
    assert "bug in tony" not in (found.failure.reason if found.failure else "")
    _show(found)


def _with_log(data: bytes) -> JobFolder:
    folder = _folder()
    for number, segment in enumerate(data.split(_NEXT_SEGMENT), start=1):
        folder.events(number).write_bytes(segment + b"\n" if number <= data.count(_NEXT_SEGMENT) else segment)
    return folder


def _job_of(data: bytes) -> tuple[str, JobSpec]:
    for job_id, spec in _JOBS.items():
        if f'"job":"{job_id}"'.encode() in data[:500]:
            return job_id, spec
    return "plain", _JOBS["plain"]


def _real_jobs() -> dict[str, JobSpec]:
    records = [from_plain(JobRecord, json.loads(path.read_text())) for path in sorted(_LOGS.glob("*/job.json"))]
    return {record.job_id: record.spec for record in records}


_JOBS: dict[str, JobSpec] = {
    **_real_jobs(),
    "plain": workers(2),
    "staged": staged(),
    "restarts": with_restarts(workers(2), 1),
}


def _log_seeds() -> list[bytes]:
    made = [
        _log_of("plain", []),
        _log_of("plain", ["worker:1"]),
        _log_of("restarts", ["worker:0"]),
        _log_of("staged", []),
    ]
    real = [
        b"".join(path.read_bytes() for path in sorted(folder.glob("events.*"))) for folder in sorted(_LOGS.iterdir())
    ]
    return [*made, *(log for log in real if log)]


def _log_of(job_id: str, failing: Sequence[str]) -> bytes:
    """The log of a job whose programs do well, but for the first try of these."""
    spec = _JOBS[job_id]
    simulation = Simulation(spec)
    simulation.deliver(AttemptStarted(attempt=1, wall=1000.0, settings=settings_digest(spec), pid=1, host="am"))
    left = [task(text) for text in failing]
    for _ in range(100):
        simulation.run()
        running = simulation.running()
        if not running:
            break
        who = next((program.task for program in running if program.task in left), running[0].task)
        simulation.exit(who, FAILED if who in left else OK)
        left = [each for each in left if each != who]
    simulation.settle()
    path = _folder().events(1)
    header = Header(format=FORMAT, version=VERSION, job=job_id, attempt=1, settings=settings_digest(spec))
    writer = LogWriter(path, header)
    for event, at in simulation.log:
        writer.append(event, at, 1000.0 + at)
    writer.close()
    return path.read_bytes()


# --- record, summary, index -------------------------------------------------------------------------------------------


def job_record(data: bytes) -> None:
    folder = _folder()
    folder.job.write_bytes(data)
    _listed(folder)
    record = read_job(folder)
    assert record is not None
    settings_digest(record.spec)
    _show(build_pending_report(folder, record))


def summary(data: bytes) -> None:
    folder = _folder()
    folder.job.write_text(json.dumps(plain_of(JobRecord)))
    folder.summary.write_bytes(data)
    _listed(folder)
    found = read_summary(folder)
    assert found is not None
    _show(found)


def index(data: bytes) -> None:
    """The list of jobs that have ended: a cache, which can be anything."""
    folder = _folder()
    folder.job.write_text(json.dumps(plain_of(JobRecord)))
    home = _home(folder)
    home.index.write_bytes(data)
    _listed(folder)
    before = home.index.read_bytes()
    scan(home)
    assert home.index.read_bytes() == before  # what was learnt once is not learnt again


def am(data: bytes) -> None:
    folder = _folder()
    folder.am.write_bytes(data)
    locate_am(folder)


def _listed(folder: JobFolder) -> None:
    listing = scan(_home(folder))
    assert len(listing.ended) + len(listing.open) + len(listing.unreadable) == 1
    for text in listing.unreadable.values():
        assert text.isprintable()
    try:
        head = head_of(folder)
        assert head is not None
        _fits_screen(" ".join(_format_row(head, head.job, None)))
        assert resolve(_home(folder), "last") == _JOB
    except (RecordError, UnknownJobError):
        assert listing.unreadable or listing.ended  # ended: the index knows what the record does not say any longer


def _show(found: JobReport) -> None:
    """Everything that is ever said of a report."""
    for columns in (None, 40, 80):
        for line in format_status(found, columns, {2: "why"}):
            _fits_screen(line)
    for line in StatusChanges().describe(found, 1.0):
        str(line)
    str(build_error(found))
    json.dumps(to_plain(found), allow_nan=False)


def _fits_screen(line: str) -> None:
    assert escape(line) == line, ascii(line[:200])


def _folder() -> JobFolder:
    home = Home(scratch("home"))
    home.jobs.mkdir()
    folder = home.job(_JOB)
    folder.path.mkdir()
    folder.logs.mkdir()
    return folder


def _home(folder: JobFolder) -> Home:
    return Home(folder.path.parent.parent)


def _plain_seeds(cls: type[object]) -> list[bytes]:
    return [json.dumps(plain_of(cls)).encode()]


def _record_seeds() -> list[bytes]:
    return _plain_seeds(JobRecord) + [path.read_bytes() for path in sorted(_LOGS.glob("*/job.json"))]


def _summary_seeds() -> list[bytes]:
    ended = {**plain_of(JobReport), "state": "failed"}
    return [*_plain_seeds(JobReport), json.dumps(ended).encode()]


def _index_seeds() -> list[bytes]:
    head = {**plain_of(JobHead), "job": _JOB, "state": "failed"}
    return [json.dumps(head).encode() + b"\n", b"\n" * 1500 + json.dumps(head).encode()]


_LOG_WORDS = tuple(
    b'"%s"' % word for word in (b"seq", b"at", b"wall", b"event", b"data", b"session", b"worker:0", b"c-1")
)

TARGETS = (
    Target(
        name="event-log",
        run=event_log,
        errors=(RecordError,),
        seeds=_log_seeds,
        tokens=_LOG_WORDS,
        json=True,
        longest=16384,
    ),
    Target(
        name="event-tail",
        run=event_tail,
        errors=(RecordError,),
        seeds=lambda: [b"\x10" + seed for seed in _log_seeds()[:4]],
        tokens=_LOG_WORDS,
        json=True,
    ),
    Target(
        name="replay",
        run=replayed,
        errors=(RecordError,),
        seeds=_log_seeds,
        tokens=_LOG_WORDS,
        json=True,
        longest=16384,
    ),
    Target(
        name="post-mortem", run=post_mortem, errors=(), seeds=_log_seeds, tokens=_LOG_WORDS, json=True, longest=16384
    ),
    Target(name="job-record", run=job_record, errors=(RecordError,), seeds=_record_seeds, json=True),
    Target(name="summary", run=summary, errors=(RecordError,), seeds=_summary_seeds, json=True),
    Target(name="index", run=index, errors=(), seeds=_index_seeds, json=True),
    Target(name="am", run=am, errors=(RecordError,), seeds=lambda: _plain_seeds(AmLocation), json=True),
)
