"""One try measured: a `Sample` every few seconds, and one more at its end.

What a look at a process may wait for (a disk, a driver, a program's memory that is being changed) keeps a thread
waiting, never the event loop. It costs at most a 200th of a core, whatever there is to look at: where it is much, looks
become fewer.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tony import clock
from tony.dataclass import replace
from tony.executor.progress_listener import Advance, CheckpointReport, ProgressListener
from tony.linux.process_usage import ProcessUsage
from tony.linux.threads import to_thread
from tony.protocol.messages import Sample, Saved

if TYPE_CHECKING:
    from tony.executor.gpu_metrics import Devices
    from tony.executor.output_capture import Stream
    from tony.executor.progress_pattern import LogPattern
    from tony.executor.tensorboard_progress import TensorBoardProgress

log = logging.getLogger(__name__)

#: Seconds after the start until the first sample, in jobs that are not so large that all of them would come at once.
_FIRST = 1.0
#: The interval of jobs that are not.
_USUAL = 5.0
#: How many times longer than it takes (seconds of a core) a look pauses.
_LEISURE = 200
#: Seconds that a look that has begun may go on when the program is over: the next one's start waits for it.
_LAST_LOOK = 1.0
#: Samples of programs that are over which wait for somebody to hear them.
_MOST_KEPT = 20
#: Ways to hear of a program's progress: the later one goes before the earlier ones.
_FILES, _PRINTED, _TOLD = range(3)
#: Checkpoints of the program that wait for somebody to hear of them, the latest ones.
_MOST_WAITING = 10_000
#: Checkpoints in one message.
_MOST_SAVED = 100


class Outbox:
    """Samples on their way. One that finds nobody is lost, but for the last of a program that is over.

    Args:
        send: hands a sample on; answers whether it could: while nobody hears us, or too slowly, it cannot.
    """

    def __init__(self, send: Callable[[Sample], bool]) -> None:
        self.send = send
        self._kept: deque[tuple[float, Sample]] = deque(maxlen=_MOST_KEPT)

    def keep(self, sample: Sample) -> None:
        """Sends a sample as soon as it can be."""
        self._kept.append((clock.monotonic(), sample))

    def catch_up(self) -> None:
        """Sends what waits."""
        while self._kept:
            at, sample = self._kept[0]
            late = clock.monotonic() - at
            saved = tuple(replace(each, ago=each.ago + late) for each in sample.saved)
            first_ago, step_ago = sample.first_ago + late, sample.step_ago + late
            later = replace(sample, ago=sample.ago + late, saved=saved, first_ago=first_ago, step_ago=step_ago)
            if not self.send(later):
                return
            self._kept.popleft()


class MetricsSampler:
    """Measures one try. `run` while it runs, then `finish`.

    Args:
        session, try_: whose samples they are.
        interval: seconds between samples, as the application master wants it now; 0: none.
        pids: all processes of the program.
        outbox: where samples go.
        progress: what the program tells; None if it cannot.
        step_interval: seconds between samples of steps alone, which are sent between the others; 0: none.
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
    ) -> None:
        self._step_interval = step_interval
        self._reported_at = 0.0
        self._session = session
        self._try = try_
        self._interval = interval
        self._pids = pids
        self._outbox = outbox
        self._usage = usage
        self._progress = progress
        self._pattern: LogPattern | None = None
        self._streams: Sequence[Stream] = ()
        self._summaries: TensorBoardProgress | None = None
        self._devices: Devices | None = None
        self._advances = [Advance(), Advance(), Advance()]
        self._first: tuple[float, float] | None = None
        self._step_at = 0.0
        self._saved: list[CheckpointReport] = []
        self._looking: asyncio.Future[dict[str, float]] | None = None
        self._cost = 0.0

    def also(
        self,
        pattern: str | None,
        streams: Sequence[Stream],
        summaries: Path | None,
        devices: Devices | None,
    ) -> None:
        """What else to look at. What is not wanted is not loaded.

        Args:
            pattern: for lines of the streams.
            summaries: folder with event files of TensorBoard.
            devices: that the task was granted.
        """
        if pattern is not None:
            from tony.executor.progress_pattern import LogPattern

            self._pattern, self._streams = LogPattern(pattern), streams
        if summaries is not None:
            from tony.executor.tensorboard_progress import TensorBoardProgress

            self._summaries = TensorBoardProgress(summaries, clock.wall())
        self._devices = devices

    async def run(self) -> None:
        """Samples for ever."""
        if self._interval() <= 0:
            return
        try:
            await self._sample_on()
        except Exception:  # whatever a kernel or a driver says that we do not expect: no program ends for that
            log.exception("measuring failed, and is given up: please report this")

    async def _sample_on(self) -> None:
        usual = self._interval() <= _USUAL
        await asyncio.sleep(min(_FIRST, self._interval()) if usual else self._interval() * random.random())
        while True:
            began = clock.monotonic()
            self._looking = asyncio.ensure_future(to_thread(self._look))
            values = await asyncio.shield(self._looking)
            self._tell(values, clock.monotonic() - began)
            await self._report_steps_until(began + self._pause)

    async def _report_steps_until(self, end: float) -> None:
        """Report each new step soon, for it is what people wait for."""
        cost = 0.0
        while (left := end - clock.monotonic()) > 0:
            interval = self._step_interval()
            pause = max(interval, _LEISURE * cost) if interval > 0 else left
            await asyncio.sleep(min(pause, left))
            if pause < left:
                began = clock.processor()
                self._report_step()
                cost = clock.processor() - began

    def _report_step(self) -> None:
        """Send the newest step alone, if it has not been sent."""
        values = self._told()
        if self._step_at == self._reported_at:
            return
        steps = {name: value for name, value in values.items() if name in ("step", "total")}
        self._take_saved()
        if self._outbox.send(self._sample(steps, 0.0)):
            self._reported_at = self._step_at
            del self._saved[:_MOST_SAVED]

    @property
    def _pause(self) -> float:
        """Seconds from one look to the next."""
        return max(self._interval() or _USUAL, _LEISURE * self._cost)

    async def finish(self) -> None:
        """The program is over: tells the last that it has told."""
        try:
            async with asyncio.timeout(_LAST_LOOK):
                if self._looking is not None and not self._looking.done():
                    await asyncio.shield(self._looking)
                if self._summaries is not None or self._devices is not None:
                    await to_thread(self._last_look)
        except TimeoutError:
            log.warning("the last look takes too long: it is left out")
        except Exception:  # as above
            log.exception("the last look failed: please report this")
        if self._interval() <= 0:
            return
        values = self._tell({}, 0.0)
        while values or self._saved:
            self._outbox.keep(self._sample(values, 0.0))
            del self._saved[:_MOST_SAVED]
            values = {}

    def _tell(self, values: Mapping[str, float], ago: float) -> Mapping[str, float]:
        """Sends a sample, and the checkpoints that wait; answers the values that found nobody."""
        values = {**values, **self._told()}
        self._take_saved()
        while values or self._saved:
            if not self._outbox.send(self._sample(values, ago)):
                return values
            self._reported_at = self._step_at
            del self._saved[:_MOST_SAVED]
            values = {}
        return values

    def _take_saved(self) -> None:
        if self._progress:
            self._saved = [*self._saved, *self._progress.saved()][-_MOST_WAITING:]

    def _sample(self, values: Mapping[str, float], ago: float) -> Sample:
        now = clock.monotonic()
        saved = tuple(
            Saved(step=each.step, ago=round(now - each.at, 3), took=round(each.took, 3))
            for each in self._saved[:_MOST_SAVED]
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
        )

    def _told(self) -> dict[str, float]:
        """How far the program is by now. Its own word goes before what it prints, and that before files.

        What it said last holds until it says something else: who looks sees that it stands still.
        """
        if self._pattern:
            self._heard(_PRINTED, self._pattern.look(self._streams))
        if self._progress:
            self._heard(_TOLD, self._progress.advance(), self._progress.first, self._progress.stepped)
        files, printed, told = self._advances
        return files.then(printed).then(told).values()

    def _heard(
        self, way: int, advance: Advance | None, first: tuple[float, float] | None = None, at: float = 0.0
    ) -> None:
        """The program has told something.

        Args:
            first: its first step, and when it told that; None: just now, if this is it.
            at: when it told this one; 0: just now.
        """
        if advance is None:
            return
        self._advances[way] = self._advances[way].then(advance)
        if advance.step is not None and all(each.step is None for each in self._advances[way + 1 :]):
            self._step_at = at or clock.monotonic()
            self._first = self._first or first or (advance.step, self._step_at)

    def _look(self) -> dict[str, float]:
        """In a thread of its own."""
        began = clock.processor()
        values = self._usage.look(self._pids())
        if self._devices:
            values.update(self._devices.look())
        self._read_summaries()
        self._cost = clock.processor() - began
        return values

    def _last_look(self) -> None:
        self._read_summaries()
        if self._devices:
            self._devices.close()

    def _read_summaries(self) -> None:
        if self._summaries:
            self._heard(_FILES, self._summaries.look())
