"""Samples the metrics of one task attempt: a `Sample` every few seconds, and one more at its end.

Reads that may block (a disk, a driver, a program's memory map) run in a thread, never on the event loop. Sampling costs
at most a 200th of a core: where it takes longer, samples become less frequent.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tony import clock
from tony.executor.metrics.progress_listener import Advance, CheckpointReport, ProgressListener
from tony.linux.process_usage import ProcessUsage
from tony.linux.thread_pools import to_thread
from tony.protocol.executor_messages import Sample, Saved
from tony.protocol.launch import ContainerPart, TaskPart

if TYPE_CHECKING:
    from tony.executor.metrics.gpu_metrics import Devices
    from tony.executor.metrics.progress_pattern import LogPattern
    from tony.executor.metrics.tensorboard_progress import TensorBoardProgress
    from tony.executor.output.output_capture import Stream

log = logging.getLogger(__name__)

#: Seconds from the start to the first sample, in jobs small enough that not all of them arrive at once.
_FIRST_SECONDS = 1.0
#: The sample interval of such jobs.
_USUAL_INTERVAL_SECONDS = 5.0
#: Minimum ratio of the pause to the CPU seconds of a sample.
_PAUSE_RATIO = 200
#: Seconds that a running sample may take once the program has exited: the next start waits for it.
_LAST_SAMPLE_TIMEOUT_SECONDS = 1.0
#: Last samples of exited programs that wait to be sent.
_MAX_KEPT = 20
#: Sources of progress: later ones take precedence.
_FILES, _PRINTED, _REPORTED = range(3)
#: Checkpoints that wait to be sent, the latest ones.
_MAX_WAITING = 10_000
#: Checkpoints in one message.
_MAX_CHECKPOINTS = 100


class Outbox:
    """Samples to send. One that cannot be sent is dropped, except for the last of an exited program.

    Args:
        send: sends a sample; returns False without a connection, or if it is too slow.
    """

    def __init__(self, send: Callable[[Sample], bool]) -> None:
        self.send = send
        self._kept: deque[tuple[float, Sample]] = deque(maxlen=_MAX_KEPT)

    def keep(self, sample: Sample) -> None:
        """Send a sample, now or as soon as possible."""
        if not self.send(sample):
            self._kept.append((clock.monotonic(), sample))

    def catch_up(self) -> None:
        while self._kept:
            at, sample = self._kept[0]
            late = clock.monotonic() - at
            saved = tuple(replace(checkpoint, ago=checkpoint.ago + late) for checkpoint in sample.saved)
            first_ago, step_ago = sample.first_ago + late, sample.step_ago + late
            later = replace(sample, ago=sample.ago + late, saved=saved, first_ago=first_ago, step_ago=step_ago)
            if not self.send(later):
                return
            self._kept.popleft()


class MetricsSampler:
    """Samples one task attempt. `run` it while the program runs, then `finish`.

    Args:
        session, try_: of the samples.
        interval: returns the seconds between samples that the application master wants now; 0: none.
        pids: returns all processes of the program.
        outbox: where samples go.
        progress: progress that the program reports; None if it cannot.
        step_interval: returns the seconds between samples of steps alone, sent between the others; 0: none.
        pattern: of progress in lines of the streams.
        summaries: folder with TensorBoard event files.
    """

    def __init__(
        self,
        session: int,
        try_: int,
        interval: Callable[[], float],
        pids: Callable[[], Sequence[int]],
        outbox: Outbox,
        usage: ProcessUsage,
        progress: ProgressListener | None = None,
        step_interval: Callable[[], float] = lambda: 0.0,
        *,
        pattern: str | None = None,
        streams: Sequence[Stream] = (),
        summaries: Path | None = None,
        devices: Devices | None = None,
    ) -> None:
        self._step_interval = step_interval
        self._sent_step: tuple[float, float | None] = (0.0, None)
        self._session = session
        self._try = try_
        self._interval = interval
        self._pids = pids
        self._outbox = outbox
        self._usage = usage
        self._progress = progress
        self._pattern = _create_pattern(pattern)
        self._streams = streams
        self._summaries = _create_summaries_reader(summaries)
        self._devices = devices
        self._progress_by_source = [Advance(), Advance(), Advance()]
        self._first: tuple[float, float] | None = None
        self._step_at = 0.0
        self._step_reports = 0
        self._saved: list[CheckpointReport] = []
        self._sampling: asyncio.Future[dict[str, float]] | None = None
        self._cost = 0.0

    async def run(self) -> None:
        """Sample until cancelled."""
        if self._interval() <= 0:
            return
        try:
            await self._sample_periodically()
        except Exception:  # unexpected data of a kernel or a driver must not end the program
            log.exception("sampling metrics failed and is disabled: please report this")

    async def _sample_periodically(self) -> None:
        usual = self._interval() <= _USUAL_INTERVAL_SECONDS
        await asyncio.sleep(min(_FIRST_SECONDS, self._interval()) if usual else self._interval() * random.random())
        while True:
            started_at = clock.monotonic()
            self._sampling = asyncio.ensure_future(to_thread(self._take_sample))
            values = await asyncio.shield(self._sampling)
            self._send({**values, **self._collect_progress()}, clock.monotonic() - started_at)
            await self._report_steps_until(started_at + self._pause)

    async def _report_steps_until(self, end: float) -> None:
        """Report each new step soon, between the samples."""
        cost = 0.0
        while (left := end - clock.monotonic()) > 0:
            interval = self._step_interval()
            pause = max(interval, _PAUSE_RATIO * cost) if interval > 0 else left
            await asyncio.sleep(min(pause, left))
            if pause < left:
                started_at = clock.processor()
                self._report_step()
                cost = clock.processor() - started_at

    def _report_step(self) -> None:
        """Send the newest step, with what else the program reports, if it has not been sent."""
        values = self._collect_progress()
        if (self._step_at, values.get("step")) != self._sent_step:
            self._send(values, 0.0)

    @property
    def _pause(self) -> float:
        return max(self._interval() or _USUAL_INTERVAL_SECONDS, _PAUSE_RATIO * self._cost)

    async def finish(self) -> None:
        """Send the last progress of the program, which has exited."""
        try:
            async with asyncio.timeout(_LAST_SAMPLE_TIMEOUT_SECONDS):
                if self._sampling is not None and not self._sampling.done():
                    await asyncio.shield(self._sampling)
                if self._summaries is not None or self._devices is not None:
                    await to_thread(self._take_last_sample)
        except TimeoutError:
            log.warning("the last metrics sample takes too long and is skipped")
        except Exception:  # as above
            log.exception("the last metrics sample failed: please report this")
        if self._interval() > 0:
            self._send_last(self._collect_progress())

    @property
    def step(self) -> float | None:
        """The last step that the program reported; None before the first."""
        return self._collect_progress().get("step")

    def _send(self, values: Mapping[str, float], ago: float) -> None:
        """Send a sample and the waiting checkpoints, as far as possible."""
        self._take_checkpoints()
        newest = self._step_at, values.get("step")
        while (values or self._saved) and self._outbox.send(self._build_sample(values, ago)):
            self._sent_step = newest
            del self._saved[:_MAX_CHECKPOINTS]
            values = {}

    def _send_last(self, values: Mapping[str, float]) -> None:
        """Send the last sample and all waiting checkpoints, now or as soon as possible."""
        self._take_checkpoints()
        while values or self._saved:
            self._outbox.keep(self._build_sample(values, 0.0))
            del self._saved[:_MAX_CHECKPOINTS]
            values = {}

    def _take_checkpoints(self) -> None:
        if self._progress:
            self._saved = [*self._saved, *self._progress.take_checkpoints()][-_MAX_WAITING:]

    def _build_sample(self, values: Mapping[str, float], ago: float) -> Sample:
        now = clock.monotonic()
        saved = tuple(
            Saved(step=checkpoint.step, ago=round(now - checkpoint.at, 3), took=round(checkpoint.took, 3))
            for checkpoint in self._saved[:_MAX_CHECKPOINTS]
        )
        return Sample(
            session=self._session,
            try_=self._try,
            ago=round(ago, 3),
            values=values,
            saved=saved,
            first_step=self._first and self._first[0],
            first_ago=round(now - self._first[1], 3) if self._first else 0.0,
            step_ago=round(now - self._step_at, 3) if self._first else 0.0,
            step_reports=self._step_reports,
        )

    def _collect_progress(self) -> dict[str, float]:
        """Return the current progress. What the program reports takes precedence over its output, and that over files.

        The last reported values are repeated until there are newer ones.
        """
        if self._pattern:
            advance, pattern = self._pattern.poll(self._streams), self._pattern
            self._merge(_PRINTED, advance, pattern.first, pattern.stepped, pattern.reports)
        if self._progress:
            advance, progress = self._progress.advance(), self._progress
            self._merge(_REPORTED, advance, progress.first, progress.stepped, progress.reports)
        files, printed, reported = self._progress_by_source
        return files.merge_with(printed).merge_with(reported).to_values()

    def _merge(
        self,
        source: int,
        advance: Advance | None,
        first: tuple[float, float] | None = None,
        at: float = 0.0,
        reports: int = 0,
    ) -> None:
        """Merge new progress.

        Args:
            first: the program's first step and its time; None: this one is the first, just now.
            at: time of this step; 0: just now.
            reports: reports of steps so far; 0: this one is the next.
        """
        if advance is None:
            return
        self._progress_by_source[source] = self._progress_by_source[source].merge_with(advance)
        if advance.step is not None and all(each.step is None for each in self._progress_by_source[source + 1 :]):
            self._step_at = at or clock.monotonic()
            self._step_reports = reports or self._step_reports + 1
            self._first = self._first or first or (advance.step, self._step_at)

    def _take_sample(self) -> dict[str, float]:
        """Take a sample, in a thread."""
        started_at = clock.processor()
        values = self._usage.measure(self._pids())
        if self._devices:
            values.update(self._devices.poll())
        self._read_summaries()
        self._cost = clock.processor() - started_at
        return values

    def _take_last_sample(self) -> None:
        self._read_summaries()
        if self._devices:
            self._devices.close()

    def _read_summaries(self) -> None:
        if self._summaries:
            advance, summaries = self._summaries.poll(), self._summaries
            self._merge(_FILES, advance, summaries.first)


def _create_pattern(pattern: str | None) -> LogPattern | None:
    if pattern is None:
        return None
    from tony.executor.metrics.progress_pattern import LogPattern  # late: few jobs have one

    return LogPattern(pattern)


def _create_summaries_reader(folder: Path | None) -> TensorBoardProgress | None:
    if folder is None:
        return None
    from tony.executor.metrics.tensorboard_progress import TensorBoardProgress  # late: most tasks write no summaries

    return TensorBoardProgress(folder, clock.wall())


def open_devices(task: TaskPart, container: ContainerPart) -> Devices | None:
    """Return the GPUs of a task; None if it has none."""
    if not task.gpus:
        return None
    from tony.executor.metrics.gpu_metrics import Devices  # late: most tasks have none

    return Devices(container.gpu_devices)
