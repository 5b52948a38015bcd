"""Metrics of the executors: kept in memory, sent to clients, and written to a file next to the event log.

Metrics decide nothing: an error here is logged, and the job continues without them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tony import clock
from tony.am.attempt_progress import MAX_INTERVALS, AttemptProgress
from tony.am.series_store import SeriesStore, Track
from tony.am.stall_detection import FEWEST_STEP_PAUSES, ActivityRecord, StepPauses
from tony.am.step_rate import StepRate
from tony.am.step_stalls import add_stall, condense_stalls, find_stall_limit, find_usual_interval
from tony.am.usage_windows import UsageWindows
from tony.core.state import State, Task
from tony.errors import InfraError, StorageError
from tony.history.metrics_schema import MANY_SERIES
from tony.linux.thread_pools import to_thread
from tony.model.ids import TaskId
from tony.model.metric_definitions import series_of
from tony.model.progress import CheckpointRecord, Progress, Resumption, TaskProgress
from tony.model.progress_rules import STALLED_AFTER_UNKNOWN_SECONDS, has_made_all, measure_task
from tony.model.states import TaskState
from tony.protocol.client_messages import GetMetrics, Measured
from tony.protocol.executor_messages import Sample

if TYPE_CHECKING:
    from tony.history.metrics_writer import MetricsWriter

T = TypeVar("T")
log = logging.getLogger(__name__)

#: Samples per second that one AM should have to handle; executors' intervals are stretched to stay below.
SAMPLES_PER_SECOND = 300.0
#: Minimum interval in seconds.
_MIN_INTERVAL_SECONDS = 0.1
#: Minimum seconds between two writes of progress.
STEP_INTERVAL_SECONDS = 1.0
#: Step reports per second that one AM should have to handle, besides whole samples.
STEP_REPORTS_PER_SECOND = 150.0
#: Seconds until the first write: a young job should show something.
_FIRST_WRITE_SECONDS = 2.0
#: Minimum seconds between two writes; minimum ratio of the pause after a write to its duration.
WRITE_INTERVAL_SECONDS = 10.0
_PAUSE_RATIO = 30.0
#: Minimum seconds between two durable copies, and maximum bytes a second for them on average.
_COPY_INTERVAL_SECONDS = 60.0
_COPY_BYTES_PER_SECOND = 256 << 10
#: Tasks per transaction, and per iteration of the loop.
_BATCH_TASKS = 50
#: Seconds by which the time of one report seems to vary, because its age is rounded and takes time to travel.
_SAME_REPORT_SECONDS = 0.25
#: Maximum number of values of a sample.
_MAX_SAMPLE_VALUES = 200
#: Checkpoints listed one by one, of all tasks; of more only the total time is kept.
_MAX_CHECKPOINTS = 100_000
#: Of these, how many are buffered while the file cannot be written.
_MAX_WAITING_CHECKPOINTS = 10_000
#: Samples kept while the metrics of earlier AM attempts are loaded.
_MAX_EARLY_SAMPLES = 10_000
#: Timeout of the last write in seconds.
_LAST_WRITE_TIMEOUT_SECONDS = 10.0


class MetricsStore:
    """All metrics of a job.

    Args:
        state: of the state machine; read only.
        now: returns the job's time.
        late: an earlier AM attempt may have written it.
        save_copy: stores a durable copy of the file; None if the file itself is durable.
    """

    def __init__(
        self,
        state: State,
        now: Callable[[], float],
        path: Path,
        *,
        late: bool,
        save_copy: Callable[[Path], Awaitable[None]] | None = None,
    ) -> None:
        self._state = state
        self._now = now
        self._path = path
        #: Samples that arrive before the metrics of earlier AM attempts are loaded; None afterwards.
        self._early: list[tuple[float, TaskId, Sample]] | None = [] if late else None
        metrics_interval = state.spec.metrics_interval
        least = max(metrics_interval, _MIN_INTERVAL_SECONDS, len(state.tasks) / SAMPLES_PER_SECOND)
        self.interval = least if metrics_interval > 0 else 0.0
        steps = max(STEP_INTERVAL_SECONDS, len(state.tasks) / STEP_REPORTS_PER_SECOND)
        self.step_interval = min(steps, self.interval)
        self.series = SeriesStore([*map(str, state.tasks)], least)
        self.activity = ActivityRecord()
        self.windows = UsageWindows()
        self.refused = 0
        self._names: dict[str, bool] = {}
        self._attempts: dict[str, dict[tuple[int, int], AttemptProgress]] = {}
        self._saved: list[CheckpointRecord] = []
        self._checkpoints = 0
        self._writer: MetricsWriter | None = None
        self._work: asyncio.Task[object] | None = None
        self._last_error = ""
        self._kept_at = -math.inf
        self._kept_session = 0
        self._sending: asyncio.Task[None] | None = None
        self._save_copy = save_copy

    # --- in -------------------------------------------------------------------------------------------------------

    def ingest_sample(self, task: TaskId, message: Sample) -> None:
        """Take a sample of an executor.

        Of a task attempt that has ended only its progress counts; of an unknown one it is ignored.
        """
        if self._early is None:
            self._ingest(task, message, self._now())
        elif len(self._early) < _MAX_EARLY_SAMPLES:
            self._early.append((self._now(), task, message))

    def _ingest(self, task: TaskId, message: Sample, now: float) -> None:
        known = self._state.tasks.get(task)
        which = message.session, message.try_
        newest = (known.session, known.try_) if known else (0, 0)
        if known is None or which > newest or min(which) < 1 or not self.interval:
            self.refused += 1
            log.debug("ignored a sample of %s for session %d, task attempt %d", task, *which)
            return
        at = max(0.0, now - max(0.0, message.ago))
        if which == newest:
            self.activity.note_sample(task, at, message.values)
            known_values = self._select_known_values(message.values)
            self.windows.add_sample(task, known_values)
            self.series.add(str(task), at, known_values)
        self._note_steps(known, message, now, at)
        self._note_saved(known, message, now)

    def _select_known_values(self, values: Mapping[str, float]) -> dict[str, float]:
        """Drop values with unknown names, and those that are not numbers."""
        found = {}
        for name, value in list(values.items())[:_MAX_SAMPLE_VALUES]:
            if name not in self._names and len(self._names) < 10 * _MAX_SAMPLE_VALUES:
                self._names[name] = series_of(name) is not None
            if self._names.get(name) and math.isfinite(value):
                found[name] = value
        return found

    def _note_steps(self, task: Task, message: Sample, now: float, at: float) -> None:
        step = message.values.get("step")
        if step is None or not math.isfinite(step):
            return
        attempts = self._attempts.setdefault(str(task.id), {})
        which = message.session, message.try_
        seen = max(0.0, now - max(0.0, message.step_ago, message.ago))
        attempt = attempts.get(which)
        if attempt is None:
            attempt = attempts[which] = self._start_task_attempt(task, message, now, at, step)
        progress = attempt.progress
        regained = progress.regained
        if regained is None and progress.behind and attempt.best is not None and step > attempt.best:
            regained = _interpolate_step_time(progress, attempt.best, step, seen)
        total = message.values.get("total")
        total = progress.total if total is None or not math.isfinite(total) else total
        if seen - progress.at <= _SAME_REPORT_SECONDS and (step, total, regained) == (
            progress.step,
            progress.total,
            progress.regained,
        ):
            return  # a sample repeats what was reported before
        if step > progress.step and seen > progress.at and which == (task.session, task.try_):
            self.windows.add_steps(task.id, step, (seen - progress.at) / (step - progress.step))
        stalls = add_stall(progress, step, seen)
        attempt.longest = max(attempt.longest, seen - progress.at)
        count = message.step_reports - attempt.reports
        if count > 0 or seen - progress.at > _SAME_REPORT_SECONDS:
            pause = max(0.0, seen - progress.at) / max(1, count)
            attempt.intervals.extend([pause] * min(max(1, count), MAX_INTERVALS))
        attempt.reports = max(attempt.reports, message.step_reports)
        last_at = max(seen, progress.at)
        if stalls != progress.stalls:
            attempt.rate.restart(last_at, step)
        attempt.progress = replace(
            progress,
            step=step,
            at=last_at,
            changed_at=progress.changed_at if step == progress.step else last_at,
            total=total,
            regained=regained,
            stalled_after=find_stall_limit(attempt.intervals),
            stalls=stalls,
            recent_rate=attempt.rate.add_report(last_at, step),
        )
        attempt.changed = True

    def _start_task_attempt(self, task: Task, message: Sample, now: float, at: float, step: float) -> AttemptProgress:
        """Return the record of a task attempt, from its first reported step."""
        which = message.session, message.try_
        others = [each.progress.step for key, each in self._attempts[str(task.id)].items() if key < which]
        best = max(others, default=None)
        first = message.first_step
        first_at = at if first is None else max(0.0, now - max(0.0, message.first_ago))
        first = step if first is None or not math.isfinite(first) else first
        progress = Progress(
            task=str(task.id),
            session=message.session,
            try_=message.try_,
            first_step=first,
            first_at=first_at,
            step=first,
            at=first_at,
            changed_at=first_at,
            behind=best is not None and first <= best,
            stalled_after=STALLED_AFTER_UNKNOWN_SECONDS,
        )
        return AttemptProgress(progress, best, StepRate(first_at, first))

    def _note_saved(self, task: Task, message: Sample, now: float) -> None:
        for checkpoint in message.saved:
            took = max(0.0, checkpoint.took)
            until = max(0.0, now - max(0.0, checkpoint.ago))
            if not math.isfinite(took) or not math.isfinite(until):
                continue
            if self._checkpoints >= _MAX_CHECKPOINTS or len(self._saved) >= _MAX_WAITING_CHECKPOINTS:
                self._note_unlisted(task, message, took)
                continue
            self._checkpoints += 1
            since = max(0.0, until - took)
            self._saved.append(
                CheckpointRecord(str(task.id), message.session, message.try_, checkpoint.step, since, until)
            )

    def _note_unlisted(self, task: Task, message: Sample, took: float) -> None:
        attempts = self._attempts.setdefault(str(task.id), {})
        which = message.session, message.try_
        if which not in attempts:
            nothing = Progress(str(task.id), *which, first_step=0.0, first_at=-1.0, step=0.0, at=-1.0)
            attempts[which] = AttemptProgress(nothing, None, StepRate(0.0, 0.0))
        attempt = attempts[which]
        attempt.progress, attempt.changed = replace(attempt.progress, unlisted=attempt.progress.unlisted + took), True

    # --- out ------------------------------------------------------------------------------------------------------

    def answer(self, query: GetMetrics) -> Measured:
        """Answer a client's request for recent metrics."""
        points, more = self.series.answer(query.tasks, query.series, query.points)
        progress = self._find_newest_progress(query.tasks) if not query.series or "step" in query.series else ()
        return Measured(now=self._now(), points=points, more=more, progress=progress)

    def find_step_age(self, task: TaskId) -> float | None:
        """Return how many seconds ago a task last reported a step; None if it has reported none."""
        attempts = self._attempts.get(str(task))
        progress = attempts[max(attempts)].progress if attempts else None
        return None if progress is None or progress.first_at < 0 else max(0.0, self._now() - progress.at)

    def find_progress(self, task: Task) -> TaskProgress | None:
        """Return the progress of a task's current attempt; None if it has reported no step."""
        attempt = self._attempts.get(str(task.id), {}).get((task.session, task.try_))
        if attempt is None or attempt.progress.first_at < 0:
            return None
        return measure_task(
            attempt.progress, self._now() if task.living else None, succeeded=task.state is TaskState.SUCCEEDED
        )

    def find_resumption(self, task: Task) -> Resumption | None:
        """Return where a task's current attempt began; None if it is the first, or has reported no step."""
        attempts = self._attempts.get(str(task.id), {})
        attempt = attempts.get((task.session, task.try_))
        if attempt is None or attempt.best is None or attempt.progress.first_at < 0:
            return None
        earliest = attempts[min(attempts)].progress.first_step
        return Resumption(first_step=attempt.progress.first_step, reached=attempt.best, earliest=earliest)

    def find_step_pauses(self, task: Task) -> StepPauses | None:
        """Return the pauses between the steps of a task's current attempt; None if it has reported no step."""
        attempt = self._attempts.get(str(task.id), {}).get((task.session, task.try_))
        if attempt is None or attempt.progress.first_at < 0:
            return None
        longest = max((until - since for since, until in attempt.progress.stalls), default=0.0)
        return StepPauses(
            step=attempt.progress.step,
            at=attempt.progress.at,
            median=find_usual_interval(attempt.intervals, FEWEST_STEP_PAUSES),
            longest=max(attempt.longest, longest),
            is_complete=has_made_all(attempt.progress),
        )

    def _find_newest_progress(self, tasks: Sequence[str]) -> tuple[Progress, ...]:
        attempts = (self._attempts.get(task) for task in tasks or self._attempts)
        return tuple(condense_stalls(numbered[max(numbered)].progress) for numbered in attempts if numbered)

    async def keep(self) -> None:
        """Write the file periodically."""
        try:
            if self._early is not None and self.interval:
                await self._restore()
        finally:
            early, self._early = self._early or [], None
            for now, task, message in early:
                self._ingest(task, message, now)
        if not self.interval:
            return
        pause = min(_FIRST_WRITE_SECONDS, WRITE_INTERVAL_SECONDS)
        while True:
            await self._write_steps_for(pause)
            pause = max(WRITE_INTERVAL_SECONDS, _PAUSE_RATIO * await self.write())

    async def _write_steps_for(self, seconds: float) -> None:
        """Write progress about once a second for `seconds`: users look at it most."""
        end, took = clock.monotonic() + seconds, 0.0
        while (left := end - clock.monotonic()) > 0:
            pause = max(STEP_INTERVAL_SECONDS, _PAUSE_RATIO * took)
            await asyncio.sleep(min(pause, left))
            if pause < left:
                took = await self.write(steps_only=True)

    async def finish(self) -> None:
        """Write the rest and close the file."""
        try:
            async with asyncio.timeout(_LAST_WRITE_TIMEOUT_SECONDS):
                if self._work and not self._work.done():
                    await asyncio.wait([self._work])
                self._save_copy = None  # from now on the file itself can be read
                if self.interval:
                    await self.write()
                if self._sending and not self._sending.done():  # or its older copy would replace the last one
                    await asyncio.wait([self._sending])
        except TimeoutError:
            log.warning("the last metrics could not be written within %g s", _LAST_WRITE_TIMEOUT_SECONDS)
        if self._writer and not (self._work and not self._work.done()):
            self._writer.close()

    async def write(self, *, steps_only: bool = False) -> float:
        """Write what has changed and return how many seconds that took.

        An error is logged once, and writing is retried.

        Args:
            steps_only: write only progress and checkpoints.
        """
        dirty = [track for track in self.series.tracks.values() if track.dirty is not None and not steps_only]
        has_steps = steps_only and bool(self._attempts)  # readers must see that there is no new one
        if not dirty and not self._saved and not has_steps and not any(True for _ in self._take_changed()):
            return 0.0
        started_at = clock.monotonic()
        try:
            for at in range(0, max(1, len(dirty)), _BATCH_TASKS):
                await self._write_batch(dirty[at : at + _BATCH_TASKS], with_progress=at == 0)
        except (StorageError, OSError) as error:
            if str(error) != self._last_error:
                log.warning("the metrics cannot be written: %s", error)
            self._last_error = str(error)
        except Exception:  # a bug here must not end the job
            log.exception("the metrics cannot be written")
        else:
            self._last_error = ""
            if not steps_only:
                await self._copy()
        return clock.monotonic() - started_at

    async def _copy(self) -> None:
        """Save a durable copy now and then, in the background: the larger the file, the less often.

        Soon after a restart in any case: the next AM attempt needs the steps that had been reached before.
        """
        if self._save_copy is None or self._writer is None or (self._sending and not self._sending.done()):
            return
        size = os.stat(self._path).st_size
        is_due = clock.monotonic() - self._kept_at >= max(_COPY_INTERVAL_SECONDS, size / _COPY_BYTES_PER_SECOND)
        if not is_due and self._kept_session == self._state.session:
            return
        self._kept_at = clock.monotonic()
        copy = self._path.with_name(f".{self._path.name}.copy")
        writer = self._writer
        await self._run_in_writer(lambda: writer.copy(copy))
        sending = self._send(copy, self._save_copy, self._state.session)
        self._sending = asyncio.get_running_loop().create_task(sending)

    async def _send(self, copy: Path, save_copy: Callable[[Path], Awaitable[None]], session: int) -> None:
        try:
            await save_copy(copy)
            self._kept_session = session
        except (InfraError, OSError) as error:
            log.info("no durable copy of the metrics could be saved: %s", error)
        except Exception:  # a bug here must not end the job
            log.exception("no durable copy of the metrics could be saved")
        finally:
            await to_thread(copy.unlink, missing_ok=True)

    def _take_changed(self) -> Iterator[AttemptProgress]:
        return (attempt for attempts in self._attempts.values() for attempt in attempts.values() if attempt.changed)

    async def _write_batch(self, tracks: Sequence[Track], *, with_progress: bool) -> None:
        parts = [self.series.take_update(track) for track in tracks]
        attempts = list(self._take_changed()) if with_progress else []
        saved, self._saved = (self._saved, []) if with_progress else ([], self._saved)
        progress = [attempt.progress for attempt in attempts]
        for attempt in attempts:
            attempt.changed = False
        many = self.series.columns > MANY_SERIES
        now = self._now() if with_progress else None
        try:
            writer = await self._open()
            await self._run_in_writer(lambda: writer.write(parts, progress, saved, now=now, many=many))
        except BaseException:
            self._saved = saved + self._saved
            for attempt in attempts:
                attempt.changed = True
            for track in tracks:
                track.anew, track.dirty = True, track.first
            raise

    # --- the file -------------------------------------------------------------------------------------------------

    async def _open(self) -> MetricsWriter:
        if self._writer is None:
            job, interval = self._state.job_id, self.series.interval

            def open_writer() -> MetricsWriter:
                from tony.history.metrics_writer import MetricsWriter  # late: imports SQLite

                return MetricsWriter(self._path, job, interval)

            try:
                self._writer = await self._run_in_writer(open_writer)
            except ImportError as error:
                raise StorageError(f"this Python has no SQLite: {error}") from error
        return self._writer

    async def _restore(self) -> None:
        """Load the metrics of earlier AM attempts."""
        if not self._path.exists():
            return
        try:
            writer = await self._open()
            if not writer.went_on:
                return
            kept, progress, count = await self._run_in_writer(
                lambda: (
                    list(writer.read_stored_metrics()),
                    writer.read_stored_progress(),
                    writer.count_stored_checkpoints(),
                )
            )
        except StorageError as error:
            log.warning("the metrics of earlier AM attempts cannot be read: %s", error)
            return
        except Exception:  # a bug here must not end the job
            log.exception("the metrics of earlier AM attempts cannot be read")
            return
        for number, each in enumerate(kept):
            level = round(math.log2(each.width / self.series.interval))
            if level >= 0 and each.width == self.series.interval * (1 << level):
                self.series.restore(each.task, level, each.first, each.series, each.last)
            if number % _BATCH_TASKS == 0:
                await asyncio.sleep(0)
        self._checkpoints += count
        for before in sorted(progress, key=lambda each: (each.session, each.try_)):
            attempts = self._attempts.setdefault(before.task, {})
            best = max((each.progress.step for each in attempts.values()), default=None)
            rate = StepRate(before.at, before.step)
            attempts[before.session, before.try_] = AttemptProgress(before, best, rate, changed=False)

    async def _run_in_writer(self, work: Callable[[], T]) -> T:
        """Run one piece of work at a time; it continues if the caller is cancelled."""
        if self._work and not self._work.done():
            await asyncio.wait([self._work])
        task = asyncio.ensure_future(to_thread(work))
        self._work = task
        return await asyncio.shield(task)


def _interpolate_step_time(progress: Progress, best: float, step: float, at: float) -> float:
    """Return when a program passed step `best`, between two reported steps."""
    if step <= progress.step or at <= progress.at:
        return at
    share = (best - progress.step) / (step - progress.step)
    return progress.at + max(0.0, min(1.0, share)) * (at - progress.at)
