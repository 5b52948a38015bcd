"""Reads the progress of a program from its output, by a regular expression of the user (`progress_pattern`).

It is searched once per sample in the last output only, so it costs nothing while output flows. A pattern that takes too
long is dropped: it may backtrack endlessly.
"""

from __future__ import annotations

import contextlib
import logging
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

from tony import clock
from tony.executor.metrics.progress_listener import Advance, parse_number, qualify_name
from tony.executor.output.output_capture import LINE_END, Stream

log = logging.getLogger(__name__)

#: Characters of a line that are searched.
_MAX_LINE_CHARACTERS = 2000
_MAX_LINES = 500
#: Seconds that one search of all lines may take.
_TIMEOUT_SECONDS = 0.1
#: The label that `output_capture` puts in front of a line, which the program did not print.
_LABEL = re.compile(r"^\[\d+\] ")


@dataclass(frozen=True, slots=True)
class _PrintedLine:
    """One line of a stream.

    Attributes:
        start: its offset in the stream.
    """

    stream: Stream
    start: int
    data: bytes

    def read_text(self) -> str:
        """Return its beginning as the program printed it."""
        text = self.data.decode(errors="replace")
        return (_LABEL.sub("", text) if self.stream.is_labelled else text)[:_MAX_LINE_CHARACTERS]

    def find_arrival(self) -> float:
        """Return when the program printed it, in `tony.clock.monotonic`."""
        at = self.stream.arrivals.find_arrival(self.start)
        return clock.monotonic() if at is None else at


class LogPattern:
    """Searches one pattern in the streams of one task attempt.

    Runs in the main thread, where a signal can interrupt it.

    Attributes:
        first: the first printed step and its time (`tony.clock.monotonic`); None before that.
        stepped: time of the newest step.
        reports: how often steps arrived; lines that a program writes at once count as one.
    """

    def __init__(self, pattern: str) -> None:
        """Compile a pattern that was validated when the job was submitted."""
        self._pattern: re.Pattern[str] | None = None
        with contextlib.suppress(re.error, RecursionError, OverflowError):  # another version of Python may reject it
            self._pattern = re.compile(pattern)
        self._read = [0, 0]
        self.first: tuple[float, float] | None = None
        self.stepped = 0.0
        self.reports = 0

    def poll(self, streams: Sequence[Stream]) -> Advance | None:
        """Return the progress in lines printed since the last call; the newest value of each group."""
        if self._pattern is None:
            return None
        news: list[_PrintedLine] = []
        last: list[_PrintedLine] = []
        for place, stream in enumerate(streams):
            data, end = stream.read_since(self._read[place])
            self._read[place] = end
            lines = _split_lines(stream, data, end - len(data))
            news += lines
            last += lines[-_MAX_LINES:]
        try:
            with _limit_time(_TIMEOUT_SECONDS):
                found, step_line = _find_newest(self._pattern, last)
        except TimeoutError:
            log.warning(
                "progress_pattern took more than %g s for %d lines and is disabled for this task attempt",
                _TIMEOUT_SECONDS,
                len(last),
            )
            self._pattern = None
            return None
        if not found:
            return None
        advance = _advance(found)
        if advance.step is not None and step_line:
            # The first step may be in any line, later ones only have to be counted.
            self._note_steps(self._pattern, last if self.first else news, advance.step, step_line.find_arrival())
        return advance

    def _note_steps(self, pattern: re.Pattern[str], lines: Sequence[_PrintedLine], newest: float, at: float) -> None:
        """Count the arrivals of steps in new lines, as far as there is time, and keep the first step of all."""
        arrivals = {at}
        with contextlib.suppress(TimeoutError), _limit_time(_TIMEOUT_SECONDS):
            for line in lines:
                step = _find_step(pattern, line)
                if step is not None:
                    arrivals.add(line.find_arrival())
                    self.first = self.first or (step, line.find_arrival())
        self.first = self.first or (newest, at)
        self.reports += len(arrivals - {self.stepped})
        self.stepped = at


def _split_lines(stream: Stream, data: bytes, offset: int) -> list[_PrintedLine]:
    """Return the lines of new output that are not empty.

    Args:
        offset: of the output in its stream.
    """
    found, start = [], 0
    for end in LINE_END.finditer(data):
        if end.start() > start:
            found.append(_PrintedLine(stream, offset + start, data[start : end.start()]))
        start = end.end()
    return found


def _find_newest(pattern: re.Pattern[str], lines: Sequence[_PrintedLine]) -> tuple[dict[str, str], _PrintedLine | None]:
    """Return the last text that each group has matched, and the line of the step."""
    missing = set(pattern.groupindex)
    found: dict[str, str] = {}
    step_line: _PrintedLine | None = None
    for line in reversed(lines):
        if not missing:
            break
        matched = pattern.search(line.read_text())
        if matched:
            texts = {name: text for name, text in matched.groupdict().items() if text and name in missing}
            step_line = line if "step" in texts else step_line
            found.update(texts)
            missing -= texts.keys()
    return found, step_line


def _find_step(pattern: re.Pattern[str], line: _PrintedLine) -> float | None:
    """Return the step in a line; None without one."""
    matched = pattern.search(line.read_text())
    text = matched.groupdict().get("step") if matched else None
    return _advance({"step": text}).step if text else None


def _advance(found: dict[str, str]) -> Advance:
    numbers = {}
    for name, text in found.items():
        with contextlib.suppress(ValueError):
            numbers[name] = parse_number(text.strip().rstrip("%").replace(",", ""))
    metrics = {}
    for name in numbers.keys() - {"step", "total"}:
        with contextlib.suppress(ValueError):
            metrics[qualify_name(name)] = numbers[name]
    return Advance(numbers.get("step"), numbers.get("total"), metrics)


@contextlib.contextmanager
def _limit_time(seconds: float) -> Iterator[None]:
    """Raise TimeoutError inside the block after `seconds`: `re` checks for signals while it searches."""

    def raise_timeout(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError

    try:
        before = signal.signal(signal.SIGALRM, raise_timeout)
    except ValueError:  # not the main thread: it cannot be interrupted
        yield
        return
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
